"""Sequences per second in training, against PyTorch written the usual way.

The peer is PyTorch as one writes it who cares for speed: a^n b^n and its teacher by array
arithmetic, for as many steps at once as ours, the fused ``torch.optim.AdamW``, no hooks. But a step
is one padded batch of all its words. Taught the same words, both end with the same weights.
"""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

import numpy as np
import torch
from torch import nn
from torch.nn.functional import binary_cross_entropy_with_logits

from models.config import TrainConfig
from models.languages import BOS_ID, END_ID, Words, language
from models.languages.vocabulary import FIRST_SYMBOL_ID
from models.objectives import objective
from models.objectives.base import Batch
from models.runs.run import Run
from models.training.batches import draw, steps_at_once
from models.training.recipes import SHAPE, recipe
from models.training.trainer import Trainer
from tests.benchmarks.measure import Result, Side, Work, compare
from tests.benchmarks.model_speed import PLAIN, plain
from tests.drawn import words_of

FASTER = 1.5
SHAPES = {"2 layers, 2 heads, width 32": (2, 2, 32), "1 layer, 1 head, width 16": (1, 1, 16)}
CPU = torch.device("cpu")


def config_of(layers: int, heads: int, width: int) -> TrainConfig:
    """The words of a^n b^n, and a plain Transformer of some size."""
    shape = replace(SHAPE, n_layers=layers, n_heads=heads, d_model=width, d_mlp=4 * width)
    return replace(recipe("anbn"), model=shape)


def usual_steps(
    model: nn.Module, config: TrainConfig, batch_of: Callable[[int], Batch]
) -> Callable[[int], float]:
    """A training step as one writes it; it returns the loss, as ours does."""
    optimizer = torch.optim.AdamW(
        model.parameters(), config.learning_rate, betas=(0.9, 0.99), weight_decay=0.0, fused=True
    )

    def step(number: int) -> float:
        batch = batch_of(number)
        for group in optimizer.param_groups:
            group["lr"] = config.learning_rate * min(1.0, (number + 1) / config.warmup)
        optimizer.zero_grad()
        value = binary_cross_entropy_with_logits(
            model(batch.tokens), batch.target, batch.weight, reduction="sum"
        )
        value = value / batch.weight.sum()
        value.backward()
        nn.utils.clip_grad_norm_(model.parameters(), config.clip)
        optimizer.step()
        return float(value.detach())

    return step


def drawn(config: TrainConfig) -> Callable[[int], Batch]:
    """The batches of the peer, drawn for as many steps at once as ours draws."""
    together, batches = steps_at_once(config), list[Batch]()

    def batch_of(number: int) -> Batch:
        if number % together == 0:
            rng = np.random.default_rng([config.seed, number])
            ids, lengths = usual_words(rng, together * config.batch_size, config)
            every = taught(ids, lengths)
            batches[:] = [
                padded(every, lengths, slice(i, i + config.batch_size))
                for i in range(0, len(ids), config.batch_size)
            ]
        return batches[number % together]

    return batch_of


def usual_words(
    rng: np.random.Generator, count: int, config: TrainConfig
) -> tuple[np.ndarray, np.ndarray]:
    """Half of them a^n b^n; the others of all lengths: a wrong count, a wrong symbol, or random.

    Returns ids [word, pos], 0 for a and 1 for b, and lengths [word].
    """
    member = rng.random(count) < 0.5
    sizes = np.arange(1, 2 * config.max_n + 1)
    share = 1 / sizes if config.spread == "log" else np.ones(len(sizes))
    even = share * (sizes % 2 == 0)
    lengths = np.where(
        member,
        rng.choice(sizes, count, p=even / even.sum()),
        rng.choice(sizes, count, p=share / share.sum()),
    )
    kind = np.where(member, -1, rng.integers(3, size=count))
    sign = rng.choice([-1, 1], count) * ((kind == 0) & (lengths % 2 == 0))
    first = lengths // 2 + (lengths % 2) * rng.integers(2, size=count) + sign
    ids = (np.arange(sizes[-1]) >= first[:, None]).astype(np.int64)
    rows = np.flatnonzero(kind == 1)
    ids[rows, rng.integers(lengths[rows])] ^= 1
    rows = np.flatnonzero(kind == 2)
    ids[rows] = rng.integers(2, size=(len(rows), sizes[-1]))
    return ids, lengths


def taught(ids: np.ndarray, lengths: np.ndarray) -> Batch:
    """What may follow each beginning of a word: a, then b, then the end."""
    inside = np.arange(ids.shape[1] + 1) <= lengths[:, None]
    zero = np.zeros((len(ids), 1), dtype=np.int64)
    b = np.concatenate([zero, ids.cumsum(axis=1)], axis=1)
    a = np.arange(ids.shape[1] + 1) - b
    late = (ids == 0) & (b[:, :-1] > 0)  # an a after a b
    right = np.concatenate([zero, late.cumsum(axis=1)], axis=1) + (b > a).cumsum(axis=1) == 0
    target = np.zeros((*inside.shape, 4), dtype=np.float32)
    target[..., END_ID] = right & (a == b) & (a > 0)
    target[..., FIRST_SYMBOL_ID] = right & (b == 0)
    target[..., FIRST_SYMBOL_ID + 1] = right & (b < a)
    weight = np.repeat(inside[..., None], 4, axis=2).astype(np.float32)
    weight[..., BOS_ID] = 0
    symbols = np.where(inside[:, 1:], ids + FIRST_SYMBOL_ID, END_ID)
    tokens = np.concatenate([zero + BOS_ID, symbols], axis=1)
    return Batch(*map(torch.as_tensor, (tokens, target * weight, weight)))


def padded(every: Batch, lengths: np.ndarray, rows: slice) -> Batch:
    """The words of one step, as wide as its longest word."""
    part = (rows, slice(int(lengths[rows].max()) + 1))
    return Batch(every.tokens[part], every.target[part], every.weight[part])


def check_teacher(config: TrainConfig) -> None:
    """Raises AssertionError unless the peer's words and teacher are those of the language."""
    known = language(config.language)
    ids, lengths = usual_words(np.random.default_rng(1), 20_000, config)
    spelled = np.where(np.arange(ids.shape[1]) < lengths[:, None], ids + FIRST_SYMBOL_ID, END_ID)
    batch = objective(config.objective).batch(known, Words(spelled, lengths))
    for own, theirs in zip(vars(batch).values(), vars(taught(ids, lengths)).values(), strict=True):
        torch.testing.assert_close(theirs, own)
    ours, _ = draw(replace(config, batch_size=20_000), known, 0)
    np.testing.assert_allclose(lengths.mean(), ours.lengths.mean(), rtol=0.03)
    members = [known.labels(words).mean() for words in (Words(spelled, lengths), ours)]
    np.testing.assert_allclose(*members, atol=0.015)


def check_parity(folder: Path, config: TrainConfig) -> None:
    """Raises AssertionError unless ten steps on the same words end with the same weights."""
    ours = Trainer.at_start(Run.create(folder / "parity", config), CPU)
    peer = plain(ours.model)  # type: ignore[arg-type]
    known = language(config.language)
    taught_too = objective(config.objective).batch
    step = usual_steps(
        peer, config, lambda number: taught_too(known, words_of(config, known, number)[0])
    )
    for number in range(10):
        ours.advance()
        step(number)
    for name, value in ours.model.named_parameters():
        torch.testing.assert_close(peer.get_parameter(name), value, rtol=1e-2, atol=1e-4)


def repeated(step: Callable[[int], object], times: int) -> Work:
    """So many steps in a call: as many as draw their words together."""
    taken = 0

    def work() -> None:
        nonlocal taken
        for _ in range(times):
            step(taken)
            taken += 1

    return work


def training_speed() -> Iterator[Result]:
    """Every comparison of this file."""
    with tempfile.TemporaryDirectory() as folder:
        for title, shape in SHAPES.items():
            for spread in ("log", "even"):
                config = replace(config_of(*shape), spread=spread, steps=10**6)
                name = f"{title}, {spread} lengths"
                check_teacher(config)
                check_parity(Path(folder) / name, config)
                ours = Trainer.at_start(Run.create(Path(folder) / name / "timed", config), CPU)
                peer = plain(ours.model)  # type: ignore[arg-type]
                together = steps_at_once(config)
                yield compare(
                    f"training step of {config.batch_size} words, {name}",
                    Side(
                        "ours",
                        "words read once and in groups of like length",
                        repeated(lambda _, trainer=ours: trainer.advance(), together),
                    ),
                    Side(
                        PLAIN,
                        "one padded batch, fused AdamW, its own sampler",
                        repeated(usual_steps(peer, config, drawn(config)), together),
                    ),
                    FASTER,
                    rounds=8,
                )
