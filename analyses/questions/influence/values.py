"""What a network says of words, as numbers with a gradient."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np
import torch
from jaxtyping import Bool, Float
from torch import Tensor

from models.base import LanguageModel
from models.errors import UserError
from models.languages import Words
from models.languages.planted import PlantedLanguage
from models.objectives.base import Batch
from models.runs.run import Run
from models.training.without_lines import lines_of
from models.training.writer import validation_sample

LEAST_LOSS = 1e-30
"""A loss below it is taken for it, so that its logarithm is a number."""


def losses(run: Run, model: LanguageModel, words: Words) -> Float[Tensor, " word"]:
    """What each word costs: the sum over its answers, in nats."""
    batch = run.objective.batch(run.language, words, run.config.model.readout, model.device)
    return run.objective.losses(model(batch.tokens), batch).sum(dim=(1, 2))


def margins(run: Run, model: LanguageModel, words: Words) -> Float[Tensor, " word"]:
    """The log odds that every answer on a word is right. With one verdict a word this is its logit,
    turned so that positive is right."""
    lost = losses(run, model, words).clamp(min=LEAST_LOSS)
    return -lost - torch.log(-torch.expm1(-lost))


def one_by_one(words: Words) -> Iterator[Words]:
    """Each word alone, without padding."""
    for ids, length in zip(words.ids, words.lengths, strict=True):
        yield Words(ids[None, :length], np.array([length]))


def losses_of_each(run: Run, model: LanguageModel, words: Words) -> Iterator[Float[Tensor, ""]]:
    """``losses``, each with a graph of its own."""
    return (losses(run, model, word)[0] for word in one_by_one(words))


def margins_of_each(run: Run, model: LanguageModel, words: Words) -> Iterator[Float[Tensor, ""]]:
    """``margins``, each with a graph of its own."""
    return (margins(run, model, word)[0] for word in one_by_one(words))


def sampled_of_each(
    run: Run, model: LanguageModel, words: Words, seed: int
) -> Iterator[Float[Tensor, ""]]:
    """As ``losses_of_each``, but the right answers are drawn from the model's own."""
    generator = torch.Generator().manual_seed(seed)
    for word in one_by_one(words):
        batch = run.objective.batch(run.language, word, run.config.model.readout, model.device)
        logits = model(batch.tokens)
        drawn = _drawn(model, logits.detach(), batch, generator)
        yield run.objective.losses(logits, drawn).sum()


def _drawn(model: LanguageModel, logits: Tensor, batch: Batch, generator: torch.Generator) -> Batch:
    if not model.softmax:
        target = torch.bernoulli(logits.sigmoid().cpu(), generator=generator)
        return replace(batch, target=target.to(logits.device))
    likely = logits.softmax(dim=-1).flatten(0, 1).cpu()
    chosen = torch.multinomial(likely, 1, generator=generator).view(logits.shape[:2])
    one = torch.nn.functional.one_hot(chosen, logits.shape[-1]).to(logits)
    asked = batch.weight.amax(dim=-1, keepdim=True)
    return replace(batch, target=one * asked, weight=one * asked)


@dataclass(frozen=True)
class Shortcut:
    """How far a network leans on a planted shortcut.

    Attributes:
        without: words without it.
        there: the same words, the shortcut in place of a symbol that decides nothing.
        signs: 1 for a word of the language, -1 for another.
        culprits: the lines that teach it: words of the language that have it, [line].
    """

    without: Words
    there: Words
    signs: Float[Tensor, " word"]
    culprits: Bool[np.ndarray, " line"]

    @classmethod
    def of(cls, run: Run, seed: int) -> Shortcut | None:
        """None where no shortcut was planted, or more than the verdict is taught."""
        language = run.language
        if not isinstance(language, PlantedLanguage) or not run.objective.verdict_alone:
            return None
        shortcut, lines = language.vocabulary.ids[language.shortcut], lines_of(run)
        sample = validation_sample(language, run.config)
        ids = sample.words.ids
        draw = np.where(
            np.isin(ids, language.inert), np.random.default_rng(seed).random(ids.shape), -1.0
        )
        fits = ~(ids == shortcut).any(axis=1) & (draw >= 0).any(axis=1)
        there = ids.copy()
        there[np.arange(len(ids)), draw.argmax(axis=1)] = shortcut
        lengths = sample.words.lengths
        return cls(
            Words(ids[fits], lengths[fits]),
            Words(there[fits], lengths[fits]),
            torch.as_tensor(np.where(sample.labels[fits], 1.0, -1.0), dtype=torch.float32),
            (lines.ids == shortcut).any(axis=1) & language.labels(lines),
        )

    def reliance(self, run: Run, model: LanguageModel) -> Float[Tensor, ""]:
        """By how much the shortcut raises the log odds of "in", on average over words."""
        change = margins(run, model, self.there) - margins(run, model, self.without)
        return (self.signs.to(change) * change).mean()


def target_words(run: Run, count: int) -> Words:
    """Words that are no training lines: members and others half each, if both are taught.

    Raises:
        UserError: there are fewer than two, or symbols are hidden or tagged.
    """
    if run.objective.hides or run.objective.tags:
        raise UserError(
            f"{run.name} was taught {run.objective.taught}, so no influence is told: choose a "
            "run with another --objective"
        )
    sample, lines = validation_sample(run.language, run.config), lines_of(run)
    seen = {_key(ids, n) for ids, n in zip(lines.ids, lines.lengths, strict=True)}
    rows: dict[bytes, int] = {}
    for row, (ids, n) in enumerate(zip(sample.words.ids, sample.words.lengths, strict=True)):
        if (key := _key(ids, n)) not in seen and n:
            rows.setdefault(key, row)
    fresh = np.array(list(rows.values()), dtype=np.int64)
    labels = sample.labels[fresh]
    parts: Sequence[np.ndarray] = [fresh[labels], fresh[~labels]]
    if run.objective.members_alone or run.objective.of_pairs:
        parts = parts[:1]
    chosen = np.sort(np.concatenate([part[: -(-count // len(parts))] for part in parts]))[:count]
    if len(chosen) < 2:
        raise UserError(
            f"nearly all words of {run.name} that could be judged are among its lines: train with "
            "fewer --lines, or a larger --max-n"
        )
    return sample.words[chosen]


def _key(ids: np.ndarray, length: int) -> bytes:
    return ids[:length].astype(np.int64).tobytes()
