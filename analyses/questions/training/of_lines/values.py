"""A network's answers on words, as numbers with a gradient."""

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
from models.languages.disfluencies import said
from models.languages.regular import RegularLanguage
from models.objectives.base import Batch
from models.runs.run import Run
from models.training.without_lines import lines_of
from models.training.writer import validation_sample

LEAST_LOSS = 1e-30
"""A smaller loss counts as this one: the logarithm of 0 is no number."""


def losses(run: Run, model: LanguageModel, words: Words) -> Float[Tensor, " word"]:
    """The cost of each word: the sum over its answers, in nats."""
    batch = run.objective.batch(run.language, words, run.config.model.readout, model.device)
    return run.objective.losses(model(batch.tokens), batch).sum(dim=(1, 2))


def margins(run: Run, model: LanguageModel, words: Words) -> Float[Tensor, " word"]:
    """The log odds that every answer on a word is right. With one verdict a word this is its logit,
    turned so that positive is right."""
    lost = losses(run, model, words).clamp(min=LEAST_LOSS)
    return -lost - torch.log(-torch.expm1(-lost))


def _one_by_one(words: Words) -> Iterator[Words]:
    """Each word alone, without padding."""
    for ids, length in zip(words.ids, words.lengths, strict=True):
        yield Words(ids[None, :length], np.array([length]))


def losses_of_each(run: Run, model: LanguageModel, words: Words) -> Iterator[Float[Tensor, ""]]:
    """``losses``, each with a graph of its own."""
    return (losses(run, model, word)[0] for word in _one_by_one(words))


def margins_of_each(run: Run, model: LanguageModel, words: Words) -> Iterator[Float[Tensor, ""]]:
    """``margins``, each with a graph of its own."""
    return (margins(run, model, word)[0] for word in _one_by_one(words))


def sampled_of_each(
    run: Run, model: LanguageModel, words: Words, seed: int
) -> Iterator[Float[Tensor, ""]]:
    """Losses like ``losses_of_each``, but the right answers are drawn from the model's own."""
    generator = torch.Generator().manual_seed(seed)
    for word in _one_by_one(words):
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
    weight = batch.weight.amax(dim=-1, keepdim=True)
    return replace(batch, target=one * weight, weight=one * weight)


@dataclass(frozen=True)
class Shortcut:
    """A shortcut that is planted in some lines, and how far a network leans on it.

    Attributes:
        lines: the run's lines. A symbol that decides nothing, the shortcut, stands in the culprits
            alone, and these are words of the language. Elsewhere another such symbol takes its
            place. No label changes.
        culprits: the lines that teach it, [line].
        without: words without it.
        there: the same words, the shortcut in place of a symbol that decides nothing.
        signs: 1 for a word of the language, -1 for another.
    """

    lines: Words
    culprits: Bool[np.ndarray, " line"]
    without: Words
    there: Words
    signs: Float[Tensor, " word"]

    @classmethod
    def of(cls, run: Run, share: float, seed: int) -> Shortcut | None:
        """None where no shortcut is known, or more than the verdict is taught.

        Args:
            share: the share of the lines that become culprits; fewer where there are fewer words
                of the language with a place for it.
        """
        language = run.language
        if not isinstance(language, RegularLanguage) or not run.objective.verdict_alone:
            return None
        if language.shortcut is None or len(language.inert) < 2:
            return None
        rng = np.random.default_rng([seed, 5])
        shortcut = language.vocabulary.ids[language.shortcut]
        instead = language.inert[language.inert != shortcut]

        def cleaned(words: Words) -> tuple[Words, np.ndarray]:
            """Without the shortcut; and for each word a place for it, -1 where there is none."""
            drawn = rng.choice(instead, words.ids.shape)
            ids = np.where(words.ids == shortcut, drawn, words.ids)
            free = np.where(np.isin(ids, instead), rng.random(ids.shape), -1.0)
            return Words(ids, words.lengths), np.where(free.max(1) < 0, -1, free.argmax(1))

        def with_it(words: Words, places: np.ndarray) -> Words:
            ids = words.ids.copy()
            ids[np.arange(len(ids)), places] = shortcut
            return Words(ids, words.lengths)

        lines, places = cleaned(said(lines_of(run), language.vocabulary))
        able = rng.permutation(np.flatnonzero(language.labels(lines) & (places >= 0)))
        culprits = np.zeros(len(lines), dtype=bool)
        culprits[able[: round(share * len(lines))]] = True
        planted = np.where(culprits[:, None], with_it(lines, places).ids, lines.ids)
        sample = validation_sample(language, run.config)
        words, at = cleaned(sample.words)
        fits = at >= 0
        signs = torch.as_tensor(np.where(sample.labels[fits], 1.0, -1.0), dtype=torch.float32)
        tests = (words[fits], with_it(words[fits], at[fits]), signs)
        return cls(Words(planted, lines.lengths), culprits, *tests)

    def reliance(self, run: Run, model: LanguageModel) -> Float[Tensor, ""]:
        """The gain that the shortcut brings to the log odds of "in", on average over words."""
        change = margins(run, model, self.there) - margins(run, model, self.without)
        return (self.signs.to(change) * change).mean()


def check_answers(run: Run) -> None:
    """Raises UserError for a run without right answers on a whole word: its objective hides symbols
    or tags them."""
    if run.objective.hides or run.objective.tags:
        raise UserError(
            f"{run.name} was taught {run.objective.taught}, so no influence is told: choose a "
            "run with another --objective"
        )


def target_words(run: Run, count: int) -> Words:
    """Words that are no training lines: members and others half each, if both are taught.

    Raises:
        UserError: there are fewer than two, or symbols are hidden or tagged.
    """
    check_answers(run)
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
