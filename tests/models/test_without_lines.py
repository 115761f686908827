"""A training once more without some lines: the same bits with all of them, brute force without."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from conftest import tiny_config
from drawn import words_of
from torch.nn.utils import clip_grad_norm_

from models.base import build
from models.errors import UserError
from models.languages.disfluencies import with_labels
from models.runs.run import Run
from models.training.loop import train
from models.training.trainer import adamw, learning_rate
from models.training.without_lines import lines_of, trained_again

LINES = 24


def made(folder: Path, **changes: Any) -> Run:
    config = tiny_config(lines=LINES, steps=6, batch_size=8, **changes)
    run = Run.create(folder / "run", config)
    train(run, "cpu")
    return run


@pytest.fixture(scope="module", params=["next-symbols", "verdict"])
def run(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Run:
    folder = tmp_path_factory.mktemp("lines")
    return made(folder, language="dyck1", max_n=8, objective=request.param)


def weights(model: torch.nn.Module) -> torch.Tensor:
    return torch.cat([p.detach().flatten() for p in model.parameters()])


def test_with_all_lines_it_is_the_same_run(run: Run) -> None:
    steps = run.steps()
    again = trained_again(run, np.ones(LINES, dtype=bool), steps, device="cpu")
    for step, model in zip(steps, again, strict=True):
        assert torch.equal(weights(model), weights(run.model(step)))
        assert not model.training
    assert not torch.equal(weights(again[0]), weights(again[-1]))


def test_without_lines_by_brute_force(run: Run) -> None:
    """Word by word, without groups and padding."""
    config, language, lines = run.config, run.language, lines_of(run)
    kept = np.arange(LINES) % 3 > 0
    left = {tuple(ids[:n]) for ids, n in zip(lines.ids[~kept], lines.lengths[~kept], strict=True)}
    model = build(config.model, language.vocabulary, config.seed)
    optimizer = adamw(config, model.parameters())
    for step in range(config.steps):
        words, _ = words_of(config, language, step)
        value, answers = torch.zeros(()), 0.0
        for row, n in enumerate(words.lengths):
            if tuple(words.ids[row, :n]) in left:
                continue
            batch = run.objective.batch(language, words[row : row + 1])
            value = value + run.objective.losses(model(batch.tokens), batch).sum()
            answers += float(batch.weight.sum())
        for group in optimizer.param_groups:
            group["lr"] = learning_rate(config, step)
        optimizer.zero_grad()
        (value / answers).backward()
        clip_grad_norm_(model.parameters(), config.clip)
        optimizer.step()
    (found,) = trained_again(run, kept, [config.steps], device="cpu")
    torch.testing.assert_close(weights(found), weights(model), rtol=1e-3, atol=1e-5)
    assert (weights(found) - weights(run.model())).abs().max() > 1e-3


def test_a_step_without_lines_changes_nothing(run: Run) -> None:
    """One line alone: most steps do not draw it."""
    kept = np.arange(LINES) == 3
    before, *after = trained_again(run, kept, range(run.config.steps + 1), device="cpu")
    for step, model in enumerate(after):
        words, _ = words_of(run.config, run.language, step)
        line = lines_of(run)[kept]
        read = (words.ids[:, : line.ids.shape[1]] == line.ids).all(axis=1).any()
        assert torch.equal(weights(before), weights(model)) != read
        before = model


def test_another_seed_reads_the_same_lines(run: Run) -> None:
    everything = np.ones(LINES, dtype=bool)
    (start,) = trained_again(run, everything, [0], seed=77, device="cpu")
    assert torch.equal(
        weights(start), weights(build(run.config.model, run.language.vocabulary, 77))
    )
    assert run.config.seed != 77


@pytest.mark.parametrize("run", ["verdict"], indirect=True)
def test_labels_can_be_turned(run: Run) -> None:
    lines, everything = lines_of(run), np.ones(LINES, dtype=bool)
    labels = run.language.labels(lines)
    (own,) = trained_again(
        run, everything, [6], with_labels(lines, labels, run.language.vocabulary), device="cpu"
    )
    (turned,) = trained_again(
        run, everything, [6], with_labels(lines, ~labels, run.language.vocabulary), device="cpu"
    )
    torch.testing.assert_close(weights(own), weights(run.model()))
    assert not torch.allclose(weights(turned), weights(own))


def test_what_cannot_be_trained_again(run: Run, tmp_path: Path) -> None:
    none = np.zeros(LINES, dtype=bool)
    with pytest.raises(UserError, match="no line of run is left to train on"):
        trained_again(run, none, [1], device="cpu")
    endless = Run.create(tmp_path / "endless", tiny_config())
    with pytest.raises(UserError, match=r"not trained on a pool of lines.*language with --lines"):
        lines_of(endless)
