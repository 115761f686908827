"""Sequences per second in training, against PyTorch written the usual way.

The peer draws its words step by step, pads them to one batch, has no hooks, and descends by
``torch.optim.AdamW`` as it comes. Taught the same words, both end with the same weights.
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
from models.languages import Words, language
from models.objectives import objective
from models.runs.run import Run
from models.training.batches import steps_at_once, words_of
from models.training.recipes import SHAPE, recipe
from models.training.trainer import Trainer
from tests.benchmarks.measure import Result, Work, compare
from tests.benchmarks.model_speed import PLAIN, plain

FASTER = 1.5
SHAPES = {"2 layers, 2 heads, width 32": (2, 2, 32), "1 layer, 1 head, width 16": (1, 1, 16)}
CPU = torch.device("cpu")


def config_of(layers: int, heads: int, width: int) -> TrainConfig:
    """The words of a^n b^n, and a plain Transformer of some size."""
    shape = replace(SHAPE, n_layers=layers, n_heads=heads, d_model=width, d_mlp=4 * width)
    return replace(recipe("anbn"), model=shape)


def usual_steps(
    model: nn.Module, config: TrainConfig, words: Callable[[int], Words]
) -> Callable[[int], None]:
    """A training step as one writes it."""
    known = language(config.language)
    optimizer = torch.optim.AdamW(
        model.parameters(), config.learning_rate, betas=(0.9, 0.99), weight_decay=0.0
    )

    def step(number: int) -> None:
        batch = objective(config.objective).batch(known, words(number))
        for group in optimizer.param_groups:
            group["lr"] = config.learning_rate * min(1.0, (number + 1) / config.warmup)
        optimizer.zero_grad()
        value = binary_cross_entropy_with_logits(
            model(batch.tokens), batch.target, batch.weight, reduction="sum"
        )
        (value / batch.weight.sum()).backward()
        nn.utils.clip_grad_norm_(model.parameters(), config.clip)
        optimizer.step()

    return step


def drawn(config: TrainConfig) -> Callable[[int], Words]:
    """Words step by step."""
    known = language(config.language)
    lengths = known.lengths(config.max_n)

    def words(number: int) -> Words:
        rng = np.random.default_rng([config.seed, number])
        return known.sample(rng, config.batch_size, lengths, spread=config.spread).words

    return words


def check_parity(folder: Path, config: TrainConfig) -> None:
    """Raises AssertionError unless ten steps on the same words end with the same weights."""
    ours = Trainer.at_start(Run.create(folder / "parity", config), CPU)
    peer = plain(ours.model)  # type: ignore[arg-type]
    known = language(config.language)
    step = usual_steps(peer, config, lambda number: words_of(config, known, number)[0])
    for number in range(10):
        ours.advance()
        step(number)
    for name, value in ours.model.named_parameters():
        torch.testing.assert_close(peer.get_parameter(name), value, rtol=1e-2, atol=1e-4)


def repeated(step: Callable[[int], object], times: int) -> Work:
    """So many steps in a turn: as many as draw their words together."""
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
                check_parity(Path(folder) / name, config)
                ours = Trainer.at_start(Run.create(Path(folder) / name / "timed", config), CPU)
                peer = plain(ours.model)  # type: ignore[arg-type]
                together = steps_at_once(config)
                yield compare(
                    f"training, {name}",
                    repeated(lambda _, trainer=ours: trainer.advance(), together),
                    (PLAIN, repeated(usual_steps(peer, config, drawn(config)), together)),
                    "speedup",
                    FASTER,
                    rounds=12,
                    words=together * config.batch_size,
                )
