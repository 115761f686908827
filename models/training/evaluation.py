"""The score of a model: always a curve by length, never one average."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import partial, reduce

import numpy as np
import torch
from jaxtyping import Bool, Float
from torch import Tensor

from models.base import LanguageModel
from models.languages import FormalLanguage, Language, PairCorpus, Sample, Words
from models.objectives.base import Batch, Objective
from models.training.trained_words import TrainedWords

TRIED = 8
"""So many times as many lines as asked are drawn, to have different ones."""
MOST_ANSWERS = 2**24
"""Answers, of all tokens at all positions, that are in memory at once."""
TEST_SEED = 0x7E57  # gives test words a random stream apart from that of training words


@dataclass(frozen=True)
class LengthScore:
    """The score at one word length.

    Attributes:
        length: symbols in a word.
        n: the size of a word of this length (in a counting language the length of one block); None
            if no size has this length.
        count: the number of words that were drawn and judged. Of a corpus each line is drawn once.
        different: the number of different words among them. An interval is over these.
        member_words: the number of members among them.
        exact: share of the members for which every next-symbol set, END included, was right; None
            if there is no member of this length or the run was taught verdicts alone.
        recognition: share of all words whose verdict was right. Half of the words are members where
            both members and others exist; of labelled lines, as many as there are.
        members: share of the members whose verdict was right; None if there are no members.
        others: share of the other words whose verdict was right; None if there are no others.
        fresh: the number of different words among them that no training step drew; None where it
            was not asked.
        fresh_recognition: share of these whose verdict was right; None if there are none.
    """

    length: int
    n: int | None
    count: int
    different: int
    member_words: int
    exact: float | None
    recognition: float
    members: float | None
    others: float | None
    fresh: int | None = None
    fresh_recognition: float | None = None


def _margins(
    model: LanguageModel, logits: Float[Tensor, "batch pos d_vocab"], words: Words
) -> Float[Tensor, " batch"]:
    """The margin by which the model says that each word is in the language; below 0 it says no."""
    at = model.verdict_positions(torch.as_tensor(words.lengths, device=logits.device))
    return model.margins(logits, torch.as_tensor(words.tokens, device=logits.device), at)


def verdicts(
    model: LanguageModel, logits: Float[Tensor, "batch pos d_vocab"], words: Words
) -> Bool[np.ndarray, " batch"]:
    """True where the model says that the word is in the language."""
    return (_margins(model, logits, words) > 0).cpu().numpy()


@torch.no_grad()
def judge(
    model: LanguageModel, language: Language, sample: Sample, objective: Objective
) -> tuple[np.ndarray, np.ndarray, float]:
    """Judges a sample.

    Returns:
        Per word, whether every answer is right, [batch]; per word, whether the verdict is right,
        [batch], both empty where the language knows no other words; and the loss of all words that
        the objective teaches, in nats per answer; NaN if it teaches none of them.
    """
    at_once = max(1, MOST_ANSWERS // (sample.words.tokens.shape[1] * len(language.vocabulary)))
    judged = (
        _judge(model, language, sample[first : first + at_once], objective)
        for first in range(0, len(sample.labels), at_once)
    )
    exact, right, losses, answers = zip(*judged, strict=True)
    count = sum(answers)
    loss = sum(losses) / count if count else float("nan")
    return np.concatenate(exact), np.concatenate(right), loss


def _judge(
    model: LanguageModel, language: Language, sample: Sample, objective: Objective
) -> tuple[np.ndarray, np.ndarray, float, float]:
    """``judge`` of a part of a sample: what is right, the sum of the losses, and the number of
    answers."""
    readout, device = model.config.readout, model.device
    if not language.knows_others:
        batch, none = objective.batch(language, sample.words, readout, device), np.zeros(0, bool)
        logits = model(batch.tokens)
        return none, none, *_total(objective, logits, batch)
    truth = objective.truth(language, sample.words, readout, device)
    logits = model(truth.tokens)
    right = verdicts(model, logits, sample.words) == sample.labels
    taught = slice(None) if not objective.members_alone else np.flatnonzero(sample.labels)
    words = sample.words[taught]
    batch = objective.batch(language, words, readout, device)
    outputs = logits[taught, : batch.tokens.shape[1]]
    total = _total(objective, model(batch.tokens) if objective.hides else outputs, batch)
    return objective.exact(logits, truth), right, *total


def _total(
    objective: Objective, logits: Float[Tensor, "batch pos d_vocab"], batch: Batch
) -> tuple[float, float]:
    return float(objective.losses(logits, batch).sum()), float(batch.weight.sum())


@torch.no_grad()
def right_words(
    model: LanguageModel, language: Language, sample: Sample, objective: Objective
) -> tuple[np.ndarray, np.ndarray]:
    """The first two of ``judge``; a word that stands several times in the sample is read once.

    A counting language has one member of each length, so half of its test words are the same.
    """
    # Padding is no symbol: two different words never have the same ids.
    _, first, where = np.unique(sample.words.ids, axis=0, return_index=True, return_inverse=True)
    words = sample.words[first]
    truth = objective.truth(language, words, model.config.readout, model.device)
    logits = model(truth.tokens)
    accepted = verdicts(model, logits, words)[where]
    return objective.exact(logits, truth)[where], accepted == sample.labels


def balanced_words(
    language: Language, length: int, count: int, seed: int, hard: bool = False
) -> Sample | None:
    """Test words of one length: half members and half others, if the language has both.

    If it has only one of the two, all words are of that kind; None if it has neither. Of a corpus
    they are different lines, and as many as there are; of pairs, which have many wrong targets, as
    many wrong ones as right ones.

    Args:
        hard: the others are near misses only. The result is then None unless there are both members
            and near misses.
    """
    rng = np.random.default_rng([TEST_SEED, seed, length])
    if not isinstance(language, FormalLanguage):
        draw = partial(_lines, language, rng, length, hard=hard)
    else:
        draw = partial(language.sample, rng, lengths=[length], split="test", hard=hard)
    halves = []
    for label, share in ((True, count // 2), (False, count - count // 2)):
        with suppress(LookupError):
            halves += [draw(count=share, label=label)] if share else []
    if len(halves) == 2 and isinstance(language, PairCorpus):
        fewer = min(len(half.labels) for half in halves)
        halves = [half[:fewer] for half in halves]
    if len(halves) == 2:
        return Sample.concatenate(*halves)
    if not halves or hard:
        return None
    return draw(count=count, label=bool(halves[0].labels[0]))


def _lines(
    language: Language, rng: np.random.Generator, length: int, count: int, label: bool, hard: bool
) -> Sample:
    """Different lines of a corpus: nearly all that there are, if these are not more than asked."""
    drawn = language.sample(rng, TRIED * count, [length], label, split="test", hard=hard)
    first = np.sort(np.unique(drawn.words.ids, axis=0, return_index=True)[1])[:count]
    return drawn[first]


def evaluate(
    model: LanguageModel,
    language: Language,
    objective: Objective,
    lengths: Sequence[int],
    count: int = 64,
    seed: int = 0,
    trained: TrainedWords | None = None,
) -> Iterator[LengthScore]:
    """Scores one length after the other, on words from a random stream that training never uses.

    The stream is another one, yet short words are few: training may have drawn the same ones.

    Args:
        count: words per length, drawn as in ``balanced_words``.
        seed: the seed of the test words.
        trained: the words that training drew; with them, the others are scored apart.
    """
    drawn = (balanced_words(language, length, count, seed) for length in lengths)
    samples = (sample for sample in drawn if sample is not None)
    return scores(model, language, objective, samples, trained=trained)


def scores(
    model: LanguageModel,
    language: Language,
    objective: Objective,
    samples: Iterable[Sample],
    tokens: int = 0,
    trained: TrainedWords | None = None,
) -> Iterator[LengthScore]:
    """Scores each sample, the words of one length.

    Args:
        tokens: samples are judged together while they hold no more tokens than this, padding
            included; by default each sample is judged alone.
        trained: as in ``evaluate``.
    """
    for group in _groups(samples, tokens):
        together = reduce(Sample.concatenate, group)
        exact, right = right_words(model, language, together, objective)
        ends = np.cumsum([len(sample.labels) for sample in group])[:-1]
        for sample, *judged in zip(
            group, np.split(exact, ends), np.split(right, ends), strict=True
        ):
            score = _score(language, objective, sample, *judged)
            yield score if trained is None else _with_fresh(score, sample.words, judged[1], trained)


def _groups(samples: Iterable[Sample], tokens: int) -> Iterator[list[Sample]]:
    """Groups of neighbouring samples: as many as fit into ``tokens`` once padded, at least one."""
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
        different=len(np.unique(sample.words.ids, axis=0)),
        member_words=int(members.sum()),
        exact=None if objective.verdict_alone else _share(exact[members]),
        recognition=float(right.mean()),
        members=_share(right[members]),
        others=_share(right[~members]),
    )


def _with_fresh(
    score: LengthScore, words: Words, right: Bool[np.ndarray, " batch"], trained: TrainedWords
) -> LengthScore:
    first = np.unique(words.ids, axis=0, return_index=True)[1]
    fresh = right[first][~trained.hold(words[first])]
    return replace(score, fresh=len(fresh), fresh_recognition=_share(fresh))


def _share(right: Bool[np.ndarray, " batch"]) -> float | None:
    return float(right.mean()) if len(right) else None


def words_to_read(model: LanguageModel, word: Sequence[str]) -> Words:
    """``Objective.words_to_read`` of what the model is taught."""
    return model.reading.words_to_read(word, model.vocabulary, model.config.sees_ahead)


def after_prefixes(
    model: LanguageModel, logits: Float[Tensor, "batch pos d_vocab"], words: Words
) -> Float[Tensor, "prefix d_vocab"]:
    """``Objective.after_prefixes`` of what the model is taught."""
    at = model.verdict_positions(torch.as_tensor(words.lengths, device=logits.device))
    return model.reading.after_prefixes(logits, at)


@torch.no_grad()
def prefix_logits(model: LanguageModel, word: Sequence[str]) -> Float[Tensor, "pos d_vocab"]:
    """The logits after BOS and after every symbol of a word.

    A causal model gives them in one pass. One that sees ahead reads every prefix as a word of its
    own; its logits are taken where its verdict on this prefix is read.

    Raises:
        UserError: the word holds an unknown symbol.
    """
    words = words_to_read(model, word)
    return after_prefixes(model, model(torch.as_tensor(words.tokens, device=model.device)), words)


@torch.no_grad()
def probabilities(model: LanguageModel, words: Words) -> Float[np.ndarray, " batch"]:
    """The model's probability that each word is in the language; equal words are read once.

    A language model has none: here it is the sigmoid of its margin.
    """
    _, first, where = np.unique(words.ids, axis=0, return_index=True, return_inverse=True)
    once = words[first]
    logits = model(torch.as_tensor(once.tokens, device=model.device))
    return _margins(model, logits, once).sigmoid().double().cpu().numpy()[where]


@torch.no_grad()
def predict(
    model: LanguageModel, word: Sequence[str], objective: Objective
) -> tuple[list[list[str]], bool]:
    """The tokens that may follow each symbol of the word, and the model's verdict on the word.

    Only tokens that the model was taught about are listed (``Objective.tokens``).

    Raises:
        UserError: the word holds an unknown symbol.
    """
    logits = prefix_logits(model, word)
    taught = objective.tokens(model.vocabulary)
    places = objective.taught_after(word)
    follow = [
        [token for token in taught if at in places and row[model.vocabulary.ids[token]]]
        for at, row in enumerate(objective.allowed(logits).tolist())
    ]
    answers = objective.needed(word)
    accepted = bool(answers) and all(token in follow[at] for at, token in answers)
    return follow[1:], accepted
