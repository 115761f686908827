"""The words of every training step, without the work that a padded batch wastes.

Words are drawn for many steps at a time. A word that a step drew twice is computed once and counts
twice. A word that is the beginning of another is not computed by itself: a causal model gives the
same answers where the two words agree. The remaining words are read in groups of similar length,
each padded to its own longest word. The loss and its gradient are those of one padded batch of all
the words that were drawn.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from itertools import pairwise
from typing import Any

import numpy as np
import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor
from torch.utils.data import DataLoader, Dataset

from models.config import TrainConfig
from models.languages import END_ID, Language, Words
from models.languages.disfluencies import disfluent, fillers_of, with_labels
from models.objectives import objective
from models.objectives.base import Batch

# Each has a stream of random numbers of its own.
TRAIN, VALIDATION, LINES, PREPARED, DROPPED, SELECTION = range(1, 7)
MANY = 10
"""The words that are drawn for each of ``TrainConfig.lines``: short ones come again and again."""
DRAWN_AT_ONCE = 2048  # words; more if one step alone needs more
MOST_ANSWERS = 2**24
"""Answers that are laid out at once, silent ones included; more if one step alone needs more."""


@dataclass(frozen=True)
class _Group:
    """Words of one step that are read together.

    Attributes:
        batch: a position's weight is the number of drawn words for which it is computed.
        offsets: the number of each word's first absolute position, on the CPU; None if all are 0.
    """

    batch: Batch
    offsets: Int[Tensor, " batch"] | None


@dataclass(frozen=True)
class _Step:
    """The words and answers of one step.

    Attributes:
        groups: all its words.
        answers: the number of answers that the teacher gives; the loss is the mean over them.
    """

    groups: tuple[_Group, ...]
    answers: float


def steps_at_once(config: TrainConfig) -> int:
    """The number of steps whose words are drawn together."""
    return max(1, DRAWN_AT_ONCE // config.batch_size)


def draw(config: TrainConfig, language: Language, chunk: int) -> tuple[Words, np.ndarray]:
    """The words of ``steps_at_once`` steps, step after step, and the offset of each word, [words].

    Disfluent words have the labels of what was meant written into them.
    The random numbers behind them depend on the seed and on the number of the chunk alone.
    """
    if config.lines:
        pool = some_words(config, language)
        numbers, offsets = drawn_lines(config, len(pool), chunk)
        return pool[numbers], offsets
    rng = np.random.default_rng([config.seed, TRAIN, chunk])
    count = steps_at_once(config) * config.batch_size
    words = _sample(config, language, rng, count)
    return words, rng.integers(config.max_offset + 1, size=count)


def drawn_lines(config: TrainConfig, lines: int, chunk: int) -> tuple[np.ndarray, np.ndarray]:
    """The number of each word among so many lines, and its offset, as in ``draw``, [words]."""
    rng = np.random.default_rng([config.seed, TRAIN, chunk])
    count = steps_at_once(config) * config.batch_size
    return rng.integers(lines, size=count), rng.integers(config.max_offset + 1, size=count)


def _prepared(config: TrainConfig, language: Language, words: Words, chunk: int) -> Words:
    """The words of ``draw`` as the objective takes them."""
    rng = np.random.default_rng([config.seed, PREPARED, chunk])
    return objective(config.objective).prepared(words, language.vocabulary, rng)


@lru_cache(maxsize=4)  # every chunk of steps asks for the same
def some_words(config: TrainConfig, language: Language) -> Words:
    """``config.lines`` different words, drawn as those of a training are; fewer if there are fewer
    in many draws."""
    rng = np.random.default_rng([config.seed, LINES])
    drawn = _sample(config, language, rng, MANY * config.lines)
    _, first = np.unique(drawn.ids, axis=0, return_index=True)
    return drawn[np.sort(first)[: config.lines]]


def _sample(config: TrainConfig, language: Language, rng: np.random.Generator, count: int) -> Words:
    label = True if objective(config.objective).members_alone else None
    lengths = language.lengths(config.max_n)
    sample = language.sample(rng, count, lengths, label, spread=config.spread)
    if not config.disfluent:
        return sample.words
    options = (config.disfluent, fillers_of(language), lengths[-1], config.disfluency)
    return with_labels(disfluent(sample.words, rng, *options), sample.labels, language.vocabulary)


class Batches:
    """The steps of a run: ``batches[number]`` is a ``_Step``."""

    def __init__(self, config: TrainConfig, language: Language, device: torch.device) -> None:
        self.config, self.language, self.device = config, language, device
        self._chunk, self._first, self._steps = -1, -1, list[_Step]()

    def __getitem__(self, step: int) -> _Step:
        chunk, index = divmod(step, steps_at_once(self.config))
        if chunk != self._chunk:
            self._rows, self._times = self._read(chunk)
            self._chunk, self._first = chunk, -1
        answers = self.config.batch_size * self._times.shape[1] * len(self.language.vocabulary)
        count = min(steps_at_once(self.config), max(1, MOST_ANSWERS // answers))
        if (first := index - index % count) != self._first:
            self._steps, self._first = list(self._prepared(first, count)), first
        return self._steps[index - first]

    def _read(self, chunk: int) -> tuple[np.ndarray, np.ndarray]:
        """A row per word that is distinct within its step, ordered by step: step, offset, symbols
        and length; and for each of its positions how many drawn words it is computed for."""
        config = self.config
        words, offsets, step = self._drawn(chunk)
        words = _prepared(config, self.language, words, chunk)
        rows, times = _distinct(np.column_stack([step, offsets, words.ids, words.lengths]))
        if objective(config.objective).alike_in_prefixes and not config.model.sees_ahead:
            return _with_beginnings(rows, times)
        return rows, np.broadcast_to(times[:, None], (len(rows), words.ids.shape[1] + 1))

    def _prepared(self, first: int, steps: int) -> Iterator[_Step]:
        """So many steps of the chunk from ``first`` on."""
        config, taught = self.config, objective(self.config.objective)
        here = slice(*np.searchsorted(self._rows[:, 0], [first, first + steps]))
        rows, drawn = self._rows[here], self._times[here]
        step, offsets, ids, lengths = rows[:, 0] - first, rows[:, 1], rows[:, 2:-1], rows[:, -1]
        parts: list[list[_Group]] = [[] for _ in range(steps)]
        answers = np.zeros(steps)
        for shortest, longest in _bands(lengths, steps * self._overhead):
            inside = np.flatnonzero((lengths > shortest) & (lengths <= longest))
            some = Words(ids[inside, :longest], lengths[inside])
            batch = taught.batch(self.language, some, config.model.readout)
            counted = np.ascontiguousarray(drawn[inside, : longest + 1], dtype=np.float32)
            weight = batch.weight * torch.as_tensor(counted)[:, :, None]
            starts = np.searchsorted(step[inside], np.arange(steps + 1))
            np.add.at(answers, step[inside], weight.sum(dim=(1, 2)).double().numpy())
            shifted = torch.as_tensor(offsets[inside])
            batch = replace(batch, weight=weight).to(self.device)
            for number, (a, b) in enumerate(pairwise(starts)):
                if a < b:
                    part = Batch(batch.tokens[a:b], batch.target[a:b], batch.weight[a:b])
                    parts[number].append(_Group(part, shifted[a:b] if config.max_offset else None))
        for groups, total in zip(parts, answers, strict=True):
            yield _Step(tuple(groups), float(total))

    def _drawn(self, chunk: int) -> tuple[Words, np.ndarray, np.ndarray]:
        """The words of a chunk, and the offset and the step of each, [words]."""
        words, offsets = draw(self.config, self.language, chunk)
        return (
            words,
            offsets,
            np.repeat(np.arange(steps_at_once(self.config)), self.config.batch_size),
        )

    @property
    def _overhead(self) -> float:
        """The cost of one more group in a step, as a number of tokens; measured."""
        if self.device.type != "cpu":  # on a GPU a launch costs more than any padding
            return float("inf")
        return 7000 / self.config.model.d_model


@dataclass(frozen=True)
class _JointStep:
    """The words and answers of one step of many models.

    Attributes:
        batch: the words of the first model, then those of the second, ...; as many for each.
        offsets: the number of each word's first absolute position, on the CPU; None if all are 0
            and positions are not learned.
        answers: the number of answers that the teacher gives each model.
    """

    batch: Batch
    offsets: Int[Tensor, " batch"] | None
    answers: Float[Tensor, " model"]


def joint_steps(
    configs: Sequence[TrainConfig],
    language: Language,
    device: torch.device,
    first: int,
    workers: int = 0,
) -> Iterator[_JointStep]:
    """The steps of runs that differ in their seed alone, from ``first`` to the last.

    Each run reads the words that it would read alone. A step is one padded batch, because on a GPU
    a launch costs more than padding. A word that was drawn several times in ``steps_at_once`` steps
    is sent to the GPU once.

    Args:
        workers: processes that draw words ahead; 0 draws them here, when they are needed.
    """
    config, together = configs[0], steps_at_once(configs[0])
    # Each model has its own table of learned positions, so each word needs its own numbers.
    placed = config.max_offset > 0 or config.model.positions == "learned"
    start, skipped = divmod(first, together)
    chunks = DataLoader(
        _JointChunks(configs, language),
        batch_size=None,
        sampler=range(start, math.ceil(config.steps / together)),
        num_workers=workers,
        collate_fn=_as_it_is,
        multiprocessing_context="fork" if workers else None,
        generator=torch.Generator(),  # without it the global random state would change
    )
    for chunk in chunks:
        arrays = (chunk.tokens, chunk.target, chunk.weight, chunk.rows)
        tokens, target, weight, rows = (
            torch.as_tensor(array).to(device, non_blocking=True) for array in arrays
        )
        table = Batch(tokens, target.float(), weight.float())
        offsets = torch.as_tensor(chunk.offsets)
        answers = table.weight.sum(dim=(1, 2))[rows].unflatten(1, (len(configs), -1)).sum(dim=2)
        for step in range(skipped, together):
            words = rows[step]
            yield _JointStep(
                Batch(table.tokens[words], table.target[words], table.weight[words]),
                offsets[step] if placed else None,
                answers[step],
            )
        skipped = 0


@dataclass(frozen=True)
class _JointChunk:
    """Steps whose words were drawn together: the distinct words, and which of them each step reads.

    These are arrays, not tensors. A process hands over arrays through a pipe, but tensors through
    shared memory, of which a container may have little.
    """

    tokens: Int[np.ndarray, "word pos"]
    target: Bool[np.ndarray, "word pos d_vocab"]
    weight: Bool[np.ndarray, "word pos d_vocab"]
    rows: Int[np.ndarray, "step batch"]
    offsets: Int[np.ndarray, "step batch"]


class _JointChunks(Dataset[_JointChunk]):
    """The chunks that ``joint_steps`` reads, by number."""

    def __init__(self, configs: Sequence[TrainConfig], language: Language) -> None:
        self.configs, self.language = configs, language

    def __getitem__(self, chunk: int) -> _JointChunk:
        config, language = self.configs[0], self.language
        drawn = [
            (_prepared(variant, language, words, chunk), offsets)
            for variant in self.configs
            for words, offsets in [draw(variant, language, chunk)]
        ]
        width = max(words.ids.shape[1] for words, _ in drawn)
        ids = np.full((len(drawn), len(drawn[0][1]), width), END_ID)
        for block, (words, _) in zip(ids, drawn, strict=True):
            block[:, : words.ids.shape[1]] = words.ids
        ids, rows = _numbered(ids.reshape(-1, width))
        words = Words(ids, (ids != END_ID).sum(axis=1))
        batch = objective(config.objective).batch(language, words, config.model.readout)
        return _JointChunk(
            batch.tokens.numpy(),
            batch.target.bool().numpy(),
            batch.weight.bool().numpy(),
            self._by_step(rows),
            self._by_step(np.concatenate([offsets for _, offsets in drawn])),
        )

    def _by_step(self, drawn: Int[np.ndarray, " words"]) -> Int[np.ndarray, "step batch"]:
        """Reorders what lies model after model, each step after step: one row per step."""
        steps = steps_at_once(self.configs[0])
        models = drawn.reshape(len(self.configs), steps, -1)
        return models.swapaxes(0, 1).reshape(steps, -1)


def _as_it_is(chunk: Any) -> Any:
    return chunk


def _numbered(
    rows: Int[np.ndarray, "rows columns"],
) -> tuple[Int[np.ndarray, "distinct columns"], Int[np.ndarray, " rows"]]:
    """The distinct rows in the order in which they first occur; and for every row its number."""
    records = np.ascontiguousarray(rows).view(f"V{rows.itemsize * rows.shape[1]}").ravel()
    numbers = dict[bytes, int]()
    which = [numbers.setdefault(record, len(numbers)) for record in records.tolist()]
    table = np.frombuffer(b"".join(numbers), rows.dtype).reshape(-1, rows.shape[1])
    return table, np.array(which)


def _distinct(
    rows: Int[np.ndarray, "rows columns"],
) -> tuple[Int[np.ndarray, "distinct columns"], Int[np.ndarray, " distinct"]]:
    """The distinct rows in ascending order, and how often each occurs; no number is negative.

    This is ``np.unique`` with an axis, but faster: big-endian records sort like their numbers.
    """
    records = np.ascontiguousarray(rows.astype(">u4")).view(f"V{4 * rows.shape[1]}").ravel()
    records, times = np.unique(records, return_counts=True)
    return records.view(">u4").reshape(len(records), -1).astype(np.int64), times


def _with_beginnings(
    rows: Int[np.ndarray, "rows columns"], times: Int[np.ndarray, " rows"]
) -> tuple[Int[np.ndarray, "read columns"], Int[np.ndarray, "read pos"]]:
    """Leaves out each word that is the beginning of another word of its step and offset.

    Args:
        rows: step, offset, symbols and length of each word; distinct and in ascending order. END,
            the padding, sorts before every symbol, so that a word stands right before the words
            that begin with it.
        times: how often each word was drawn.

    Returns:
        The words that are left, and for each of their positions, BOS first, how many drawn words
        reach it: the word itself and the words that are its beginnings.
    """
    beyond = np.arange(rows.shape[1] - 3) >= rows[:-1, -1:]
    match = rows[1:, :-1] == rows[:-1, :-1]
    match[:, 2:] |= beyond
    read = np.append(~match.all(axis=1), True)
    by = np.searchsorted(np.flatnonzero(read), np.arange(len(rows)))
    ends = np.zeros((read.sum(), rows.shape[1] - 2), dtype=np.int64)
    np.add.at(ends, (by, rows[:, -1]), times)
    return rows[read], ends[:, ::-1].cumsum(axis=1)[:, ::-1]


def _bands(lengths: Int[np.ndarray, " words"], overhead: float) -> list[tuple[int, int]]:
    """Cuts the word lengths into bands (shortest, longest] so that the total cost is smallest.

    A band costs ``overhead``, and longest + 1 tokens for each of its words. The best cut is found
    exactly, by dynamic programming over the lengths that occur.
    """
    values, counts = np.unique(lengths, return_counts=True)
    ends, before = [0, *values.tolist()], np.concatenate([[0], np.cumsum(counts)])
    best, cut = np.zeros(len(ends)), np.zeros(len(ends), dtype=np.int64)
    for j in range(1, len(ends)):
        cost = best[:j] + overhead + (before[j] - before[:j]) * (ends[j] + 1)
        cut[j] = int(cost.argmin())
        best[j] = cost[cut[j]]
    result, j = list[tuple[int, int]](), len(values)
    while j:
        result.append((ends[cut[j]], ends[j]))
        j = int(cut[j])
    return result[::-1]
