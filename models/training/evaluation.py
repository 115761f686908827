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
from models.languages import BOS_ID, END, END_ID, Language, Sample, Supervision, Words
from models.objectives.objective import Batch, loss, make_batch

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
    model: LanguageModel, logits: Float[Tensor, "batch pos d_vocab"], words: Words
) -> Bool[np.ndarray, " batch"]:
    """True where the model says that the word may end here, that is, that it is in the language."""
    at = model.verdict_positions(torch.as_tensor(words.lengths, device=logits.device))
    rows = torch.arange(len(words), device=logits.device)
    return (logits[rows, at, END_ID] > 0).cpu().numpy()


def exact_rows(logits: Float[Tensor, "batch pos d_vocab"], batch: Batch) -> np.ndarray:
    """True where every answer that the teacher gives was right, [batch]."""
    right = ((logits > 0) == (batch.target > 0)) | (batch.weight == 0)
    return right.all(dim=2).all(dim=1).cpu().numpy()


@torch.no_grad()
def judge(
    model: LanguageModel,
    language: Language,
    sample: Sample,
    supervision: Supervision,
) -> tuple[np.ndarray, np.ndarray, float]:
    """Per word, whether it is exact and whether its verdict is right; and the loss over all."""
    encoder = model.config.is_encoder
    batch = make_batch(language, sample.words, supervision, model.device, encoder)
    logits = model(batch.tokens)
    right = verdicts(model, logits, sample.words) == sample.labels
    return exact_rows(logits, batch), right, float(loss(logits, batch))


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
    supervision: Supervision,
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
    return scores(model, language, supervision, (sample for sample in drawn if sample is not None))


def scores(
    model: LanguageModel,
    language: Language,
    supervision: Supervision,
    samples: Iterable[Sample],
    tokens: int = 0,
) -> Iterator[LengthScore]:
    """Scores each sample, the words of one length.

    Args:
        tokens: samples are judged together, padded, while they hold no more; by default each alone.
    """
    for group in _groups(samples, tokens):
        together = reduce(Sample.concatenate, group)
        exact, right, _ = judge(model, language, together, supervision)
        ends = np.cumsum([len(sample.labels) for sample in group])[:-1]
        for sample, *judged in zip(
            group, np.split(exact, ends), np.split(right, ends), strict=True
        ):
            yield _score(language, supervision, sample, *judged)


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
    supervision: Supervision,
    sample: Sample,
    exact: Bool[np.ndarray, " batch"],
    right: Bool[np.ndarray, " batch"],
) -> LengthScore:
    length, members = int(sample.words.lengths[0]), sample.labels
    return LengthScore(
        length=length,
        n=language.size_of(length),
        count=len(members),
        exact=_share(exact[members]) if supervision == "every" else None,
        recognition=float(right.mean()),
        members=_share(right[members]),
        others=_share(right[~members]),
    )


def _share(right: Bool[np.ndarray, " batch"]) -> float | None:
    return float(right.mean()) if len(right) else None


@torch.no_grad()
def prefix_logits(model: LanguageModel, word: Sequence[str]) -> Float[Tensor, "pos d_vocab"]:
    """What the model says after BOS and after every symbol of a word.

    A causal model says it in one pass; an encoder reads every prefix as a word of its own.

    Raises:
        UserError: the word holds an unknown symbol.
    """
    prefixes = [word[:end] for end in range(len(word) + 1)] if model.config.is_encoder else [word]
    words = model.vocabulary.words(prefixes)
    logits = model(torch.as_tensor(words.tokens, device=model.device))
    return logits[:, 0] if model.config.is_encoder else logits[0]


@torch.no_grad()
def predict(
    model: LanguageModel, word: Sequence[str], supervision: Supervision
) -> tuple[list[list[str]], bool]:
    """Per symbol of the word, which tokens the model lets follow; and its verdict on the word.

    Only answers that the model was taught count: all tokens but BOS, or END alone where it was
    taught verdicts ("last").

    Raises:
        UserError: the word holds an unknown symbol.
    """
    logits = prefix_logits(model, word)
    taught = model.vocabulary.tokens[BOS_ID + 1 :] if supervision == "every" else (END,)
    follow = [
        [token for token in taught if row[model.vocabulary.ids[token]] > 0]
        for row in logits.tolist()
    ]
    return follow[1:], END in follow[-1]
