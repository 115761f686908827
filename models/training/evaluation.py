"""How good is a model? Always a curve by length, never one average."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import reduce

import numpy as np
import torch
from jaxtyping import Bool, Float
from torch import Tensor

from models.base import LanguageModel
from models.languages import END, Language, Sample, Words
from models.objectives.base import Objective

TEST_SEED = 0x7E57  # keeps every test word apart from the training stream


@dataclass(frozen=True)
class LengthScore:
    """The score at one word length.

    Attributes:
        length: symbols in a word.
        n: the size of a word of this length (blocks of a counting language), None if there is none.
        count: words judged.
        exact: share of the members for which every next-symbol set, END included, was right; None
            where the language has no member or the run was taught verdicts alone.
        recognition: share of all words, members and hard negatives in equal parts where both exist,
            whose verdict was right.
        members: share of the members whose verdict was right; None where there is none.
        others: share of the other words whose verdict was right; None where there is none.
    """

    length: int
    n: int | None
    count: int
    exact: float | None
    recognition: float
    members: float | None
    others: float | None


def verdicts(
    objective: Objective,
    model: LanguageModel,
    logits: Float[Tensor, "batch pos d_vocab"],
    words: Words,
) -> Bool[np.ndarray, " batch"]:
    """True where the model says that the word is in the language."""
    at = model.verdict_positions(torch.as_tensor(words.lengths, device=logits.device))
    return objective.verdicts(logits, at)


@torch.no_grad()
def judge(
    model: LanguageModel,
    language: Language,
    sample: Sample,
    objective: Objective,
) -> tuple[np.ndarray, np.ndarray, float]:
    """Per word, whether it is exact and whether its verdict is right; and the loss over all."""
    batch = objective.batch(language, sample.words, model.config.readout, model.device)
    logits = model(batch.tokens)
    right = verdicts(objective, model, logits, sample.words) == sample.labels
    return objective.exact(logits, batch), right, float(objective.loss(logits, batch))


def balanced_words(
    language: Language, length: int, count: int, seed: int, hard: bool = False
) -> Sample | None:
    """Half members, half others where the language has both; None if it has no such length.

    Args:
        hard: the others are near misses alone; None if the language has not both.
    """
    rng = np.random.default_rng([TEST_SEED, seed, length])
    halves = []
    for label, share in ((True, count // 2), (False, count - count // 2)):
        with suppress(LookupError):
            halves.append(language.sample(rng, share, [length], label, split="test", hard=hard))
    if len(halves) == 2:
        return Sample.concatenate(*halves)
    if not halves or hard:
        return None
    return language.sample(rng, count, [length], bool(halves[0].labels[0]), split="test")


def evaluate(
    model: LanguageModel,
    language: Language,
    objective: Objective,
    lengths: Sequence[int],
    count: int = 64,
    seed: int = 0,
) -> Iterator[LengthScore]:
    """Scores one length after the other, on words that no training step drew from.

    Args:
        count: words per length: half members, half hard negatives, where both exist.
        seed: of the test words.
    """
    drawn = (balanced_words(language, length, count, seed) for length in lengths)
    return scores(model, language, objective, (sample for sample in drawn if sample is not None))


def scores(
    model: LanguageModel,
    language: Language,
    objective: Objective,
    samples: Iterable[Sample],
    tokens: int = 0,
) -> Iterator[LengthScore]:
    """Scores each sample, the words of one length.

    Args:
        tokens: samples are judged together, padded, while they hold no more; by default each alone.
    """
    for group in _groups(samples, tokens):
        together = reduce(Sample.concatenate, group)
        exact, right, _ = judge(model, language, together, objective)
        ends = np.cumsum([len(sample.labels) for sample in group])[:-1]
        for sample, *judged in zip(
            group, np.split(exact, ends), np.split(right, ends), strict=True
        ):
            yield _score(language, objective, sample, *judged)


def _groups(samples: Iterable[Sample], tokens: int) -> Iterator[list[Sample]]:
    """Neighbours that fill no more than so many tokens once they are padded; one at least."""
    group: list[Sample] = []
    words = width = 0
    for sample in samples:
        words += len(sample.labels)
        width = max(width, sample.words.tokens.shape[1])
        if group and words * width > tokens:
            yield group
            group, words, width = [], len(sample.labels), sample.words.tokens.shape[1]
        group.append(sample)
    if group:
        yield group


def _score(
    language: Language,
    objective: Objective,
    sample: Sample,
    exact: Bool[np.ndarray, " batch"],
    right: Bool[np.ndarray, " batch"],
) -> LengthScore:
    length, members = int(sample.words.lengths[0]), sample.labels
    return LengthScore(
        length=length,
        n=language.size_of(length),
        count=len(members),
        exact=None if objective.verdict_alone else _share(exact[members]),
        recognition=float(right.mean()),
        members=_share(right[members]),
        others=_share(right[~members]),
    )


def _share(right: Bool[np.ndarray, " batch"]) -> float | None:
    return float(right.mean()) if len(right) else None


def words_to_read(model: LanguageModel, word: Sequence[str]) -> Words:
    """What a model reads to say what follows every prefix of a word: see ``prefix_logits``.

    Raises:
        UserError: the word holds an unknown symbol.
    """
    prefixes = [word[:end] for end in range(len(word) + 1)]
    return model.vocabulary.words(prefixes if model.config.sees_ahead else [word])


def after_prefixes(
    model: LanguageModel, logits: Float[Tensor, "batch pos d_vocab"], words: Words
) -> Float[Tensor, "prefix d_vocab"]:
    """What is said after every prefix, from the logits of ``words_to_read``."""
    if not model.config.sees_ahead:
        return logits[0]
    at = model.verdict_positions(torch.as_tensor(words.lengths, device=logits.device))
    return logits[torch.arange(len(words), device=logits.device), at]


@torch.no_grad()
def prefix_logits(model: LanguageModel, word: Sequence[str]) -> Float[Tensor, "pos d_vocab"]:
    """What the model says after BOS and after every symbol of a word.

    A causal model says it in one pass; one that sees ahead reads every prefix as a word of its own
    and says it where its verdict on this word is read.

    Raises:
        UserError: the word holds an unknown symbol.
    """
    words = words_to_read(model, word)
    return after_prefixes(model, model(torch.as_tensor(words.tokens, device=model.device)), words)


@torch.no_grad()
def predict(
    model: LanguageModel, word: Sequence[str], objective: Objective
) -> tuple[list[list[str]], bool]:
    """Per symbol of the word, which tokens the model lets follow; and its verdict on the word.

    Only what the model was taught to say counts (``Objective.tokens``).

    Raises:
        UserError: the word holds an unknown symbol.
    """
    logits = prefix_logits(model, word)
    taught = objective.tokens(model.vocabulary)
    follow = [
        [token for token in taught if row[model.vocabulary.ids[token]]]
        for row in objective.allowed(logits).tolist()
    ]
    return follow[1:], END in follow[-1]
