"""How good is a model? Always a curve by length, never one average."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass

import numpy as np
import torch
from jaxtyping import Bool, Float
from torch import Tensor

from models.base import LanguageModel
from models.languages import BOS_ID, END, END_ID, Language, Sample, Supervision, Words
from models.objective import Batch, loss, make_batch

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
    """

    length: int
    n: int | None
    count: int
    exact: float | None
    recognition: float


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
    model: LanguageModel, language: Language, sample: Sample, supervision: Supervision
) -> tuple[np.ndarray, np.ndarray, float]:
    """Per word, whether it is exact and whether its verdict is right; and the loss over all."""
    encoder = model.config.is_encoder
    batch = make_batch(language, sample.words, supervision, model.device, encoder)
    logits = model(batch.tokens)
    right = verdicts(model, logits, sample.words) == sample.labels
    return exact_rows(logits, batch), right, float(loss(logits, batch))


def balanced_words(language: Language, length: int, count: int, seed: int) -> Sample | None:
    """Half members, half others where the language has both; None if it has no such length."""
    rng = np.random.default_rng([TEST_SEED, seed, length])
    halves = []
    for label, share in ((True, count // 2), (False, count - count // 2)):
        with suppress(LookupError):
            halves.append(language.sample(rng, share, [length], label, split="test"))
    if len(halves) == 2:
        return Sample.concatenate(*halves)
    if not halves:
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
    for length in lengths:
        sample = balanced_words(language, length, count, seed)
        if sample is None:
            continue
        exact, right, _ = judge(model, language, sample, supervision)
        members = sample.labels
        yield LengthScore(
            length=length,
            n=language.size_of(length),
            count=len(members),
            exact=float(exact[members].mean())
            if supervision == "every" and members.any()
            else None,
            recognition=float(right.mean()),
        )


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
