"""Seeds trained at once: each ends where its single run ends, and is a run of its own."""

from __future__ import annotations

import os
from collections.abc import Callable
from contextlib import nullcontext
from dataclasses import replace
from pathlib import Path
from typing import Any
from unittest import mock

import joblib
import numpy as np
import pytest
import torch
from conftest import TINY, tiny_config
from drawn import words_of
from hypothesis import given
from hypothesis import strategies as st

from models.base import build
from models.choices import Counting
from models.config import TrainConfig
from models.errors import UserError
from models.languages import END_ID, language
from models.model_config import ModelConfig
from models.objectives import objective
from models.objectives.next_symbols import NextSymbols
from models.runs.run import Run
from models.training import together
from models.training.batches import _numbered, joint_steps
from models.training.loop import train
from models.training.stacked import STACKED
from models.training.state import load_state
from models.training.together import (
    HELPERS,
    Stack,
    _clip_rows,
    can_train_together,
    helpers,
    train_together,
)
from models.training.trainer import Trainer

CPU = torch.device("cpu")
SEEDS = (0, 1, 5)
FORKS = pytest.mark.filterwarnings("ignore:.*multi-threaded.*:DeprecationWarning")
"""Python 3.12 warns of a fork beside threads; the children touch nothing that these hold."""


PLAIN = replace(TINY, bias=False)
"""The gradient of a key's bias is rounding alone, which AdamW makes a step of."""


def created(folder: Path, seeds: tuple[int, ...] = SEEDS, **changes: Any) -> list[Run]:
    values = {"model": PLAIN, **changes}
    return [Run.create(folder / f"s{seed}", tiny_config(seed=seed, **values)) for seed in seeds]


def in_turn(folder: Path, **changes: Any) -> list[Run]:
    runs = created(folder, **changes)
    for run in runs:
        train(run, "cpu")
    return runs


def assert_same(found: list[Run], expected: list[Run]) -> None:
    """The same files, and the same numbers in them, but for rounding."""
    for one, other in zip(found, expected, strict=True):
        assert one.config == other.config
        assert one.steps() == other.steps()
        assert one.record["status"] == "finished"
        assert one.record["steps"] == other.record["steps"]
        lines = zip(one.metrics(), other.metrics(), strict=True)
        for mine, theirs in [(dict(mine), dict(theirs)) for mine, theirs in lines]:
            assert mine.pop("seconds") >= 0
            theirs.pop("seconds")
            unknown = [name for name, value in theirs.items() if value is None]
            assert [name for name, value in mine.items() if value is None] == unknown
            for name in unknown:
                del mine[name], theirs[name]
            assert mine == pytest.approx(theirs, rel=1e-3, abs=1e-5)
        for step in other.steps():
            assert_close(Run(one.path).model(step), other.model(step))
        mine, theirs = (Trainer.at_start(run, CPU) for run in (one, other))
        load_state(mine)
        load_state(theirs)
        assert (mine.step, mine.flawless) == (theirs.step, theirs.flawless)
        for p, q in zip(mine.model.parameters(), theirs.model.parameters(), strict=True):
            assert mine.moments[p].keys() == theirs.moments[q].keys()
            for key, value in theirs.moments[q].items():
                torch.testing.assert_close(mine.moments[p][key], value, rtol=1e-2, atol=1e-5)


def assert_close(
    mine: torch.nn.Module, theirs: torch.nn.Module, rtol: float = 1e-3, atol: float = 1e-5
) -> None:
    for name, value in theirs.state_dict().items():
        torch.testing.assert_close(
            mine.state_dict()[name], value, rtol=rtol, atol=atol, msg=f"{name}: {{}}".format
        )


# -- each seed ends where its single run ends -----------------------------------------------------


@pytest.mark.slow
@FORKS
def test_each_run_is_what_it_would_be_alone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Without helpers and with two."""
    alone = in_turn(tmp_path / "alone")
    for workers in (0, 2):
        monkeypatch.setattr(together, "helpers", lambda device, workers=workers: workers)
        runs = created(tmp_path / f"together-{workers}")
        train_together(runs, "cpu")
        assert_same(runs, alone)
        assert [run.record["seeds_at_once"] for run in runs] == [3] * 3
        assert len({run.model_hash() for run in runs}) == 3
    assert not list(tmp_path.rglob("*.partial"))


KINDS: dict[str, dict[str, Any]] = {
    "plain": {},
    "verdict": {"objective": "verdict", "language": "dieren"},
    "clipped": {"spread": "log", "weight_decay": 0.3, "clip": 0.05},
    "disfluent": {"objective": "verdict", "language": "dieren", "disfluent": 0.3},
    "language model": {"objective": "language-model", "language": "dyck2"},
    "biases": {"model": replace(TINY, act_fn="relu"), "language": "dyck2"},
    "learned": {"model": replace(TINY, positions="learned")},
    "learned, shifted": {"max_offset": 3, "model": replace(TINY, positions="learned")},
    "sinusoidal": {"model": replace(TINY, positions="sinusoidal")},
    "sinusoidal, shifted": {"max_offset": 3, "model": replace(TINY, positions="sinusoidal")},
    "appended": {"model": replace(TINY, positions="appended")},
    "concatenated, shifted": {"max_offset": 3, "model": replace(TINY, positions="concatenated")},
    "rotary": {"model": replace(TINY, positions="rotary", scores="dot")},
    "linear": {"model": replace(TINY, scores="linear", qk_norm="layer", value_width=3)},
    "parallel": {"model": replace(TINY, parallel=True, qk_norm="rms")},
    "identity": {"model": replace(TINY, scores="identity", positions="rotary")},
    "no residual": {"model": replace(TINY, residual=False)},
    "alibi": {"model": replace(TINY, positions="alibi", n_layers=2)},
    "strict": {"model": replace(TINY, mask="strictly_causal")},
    "encoder": {
        "objective": "verdict",
        "model": replace(TINY, mask="bidirectional", positions="alibi"),
    },
    "window": {"model": replace(TINY, window=3, positions="rotary")},
    "rms sandwich": {"model": replace(TINY, norm="rms", norm_placement="sandwich", mlp="gated")},
    "post": {"model": replace(TINY, norm_placement="post", mlp="none", bias=False)},
    "no norm": {"model": replace(TINY, norm="none")},
    "averaging": {
        "model": replace(TINY, counting=Counting(averaging_heads=1, head_norm=True, centred=True))
    },
    "counters": {"model": replace(TINY, counting=Counting(averaging_heads=1, counters=True))},
    "cnn": {"model": replace(TINY, architecture="cnn", norm="rms")},
}


@pytest.mark.parametrize("kind", KINDS)
def test_weights_are_those_of_single_runs(kind: str, tmp_path: Path) -> None:
    """In float64, where a difference would be no rounding."""
    assert can_train_together(tiny_config(**KINDS[kind]))
    runs = created(tmp_path, SEEDS[:2], **KINDS[kind])
    alone, joint = ([Trainer.at_start(run, CPU) for run in runs] for _ in range(2))
    for trainer in [*alone, *joint]:
        trainer.model.double()
    stack = Stack(joint)
    for _ in range(4):
        losses = [float(trainer.advance()) for trainer in alone]
        assert stack.advance().tolist() == pytest.approx(losses, rel=1e-5)
    for mine, theirs in zip(joint, alone, strict=True):
        assert mine.step == theirs.step == 4
        assert_close(mine.model, theirs.model, rtol=1e-9, atol=1e-11)


def test_each_gradient_is_clipped_by_its_own_norm() -> None:
    generator = torch.Generator().manual_seed(0)
    gradient = torch.randn(4, 6, generator=generator) * torch.tensor([[0.01], [0.1], [1.0], [10.0]])
    joint = torch.nn.Parameter(torch.zeros(4, 6))
    joint.grad = gradient.clone()
    _clip_rows(joint, 0.5)
    for row, own in enumerate(gradient):
        single = torch.nn.Parameter(torch.zeros(6))
        single.grad = own.clone()
        torch.nn.utils.clip_grad_norm_([single], 0.5)
        torch.testing.assert_close(joint.grad[row], single.grad)
    assert torch.equal(joint.grad[:2], gradient[:2])  # too short to be clipped
    assert not torch.equal(joint.grad[2:], gradient[2:])


@pytest.mark.slow
def test_one_norm_for_all_seeds_would_be_noticed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The seeds' norms differ enough, and the clip is near enough, for the comparison to tell."""

    def clip_all(weights: torch.nn.Parameter, largest: float) -> None:
        torch.nn.utils.clip_grad_norm_([weights], largest)

    expected = in_turn(tmp_path / "alone", **KINDS["clipped"])
    monkeypatch.setattr(together, "_clip_rows", clip_all)
    runs = created(tmp_path / "together", **KINDS["clipped"])
    train_together(runs, "cpu")
    with pytest.raises(AssertionError):
        assert_same(runs, expected)


@FORKS
@pytest.mark.parametrize("workers", [0, 2])
def test_every_seed_reads_the_words_of_its_single_run(workers: int) -> None:
    changes = {"max_n": 9, "max_offset": 4, "model": replace(TINY, positions="learned")}
    configs = [tiny_config(seed=seed, steps=300, **changes) for seed in SEEDS]
    known, state = language("anbn"), torch.get_rng_state()
    first = 254  # 256 steps are drawn at once
    for step, taught in enumerate(joint_steps(configs, known, CPU, first, workers), first):
        tokens = taught.batch.tokens.view(len(SEEDS), 8, -1)
        target = taught.batch.target.view(len(SEEDS), 8, tokens.shape[2], -1)
        weight = taught.batch.weight.view_as(target)
        for index, config in enumerate(configs):
            words, offsets = words_of(config, known, step)
            alone = objective("next-symbols").batch(known, words)
            width = min(alone.tokens.shape[1], tokens.shape[2])  # each is padded to its own chunk
            assert (alone.tokens[:, width:] == END_ID).all()
            assert (tokens[index, :, width:] == END_ID).all()
            assert torch.equal(tokens[index, :, :width], alone.tokens[:, :width])
            assert torch.equal(target[index, :, :width], alone.target[:, :width])
            assert torch.equal(weight[index, :, :width], alone.weight[:, :width])
            assert not weight[index, :, width:].any()
            assert taught.offsets is not None
            assert taught.offsets.view(len(SEEDS), 8)[index].tolist() == offsets.tolist()
            assert float(taught.answers[index]) == float(alone.weight.sum())
        if step == 257:
            break
    assert torch.equal(torch.get_rng_state(), state)


def test_there_are_as_many_steps_as_a_run_has() -> None:
    configs = [tiny_config(seed=seed, batch_size=512, steps=12) for seed in (0, 1)]
    steps = joint_steps(configs, language("anbn"), CPU, first=3)
    assert len(list(steps)) == 9


def test_a_word_that_several_drew_is_prepared_once() -> None:
    known = language("an")
    configs = [tiny_config(language="an", seed=seed, max_n=4) for seed in SEEDS]
    real = NextSymbols.batch
    with mock.patch.object(NextSymbols, "batch", autospec=True, side_effect=real) as prepared:
        assert len(list(joint_steps(configs, known, CPU, first=10))) >= 2
    (call,) = prepared.call_args_list
    assert len(call.args[2]) <= 2 + 4 + 8 + 16  # all words over two symbols


def test_words_are_drawn_ahead_for_a_gpu_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(joblib, "cpu_count", lambda: 16)
    assert helpers(CPU) == 0
    assert helpers(torch.device("cuda")) == HELPERS
    monkeypatch.setattr(joblib, "cpu_count", lambda: 1)
    assert helpers(torch.device("cuda")) == 0


@given(st.lists(st.tuples(st.integers(1, 3), st.integers(1, 300)), min_size=1))
def test_numbered_rows(rows: list[tuple[int, int]]) -> None:
    found, which = _numbered(np.array(rows))
    assert found[which].tolist() == [list(row) for row in rows]
    assert len({tuple(row) for row in found.tolist()}) == len(found) == which.max() + 1


ALIKE = {"learned", "sinusoidal", "disfluent", "strict", "no residual", "no norm"}
"""What does nothing on a device that others do not do."""


@pytest.mark.parametrize(
    "kind",
    [pytest.param(k, marks=[pytest.mark.torture] if k in ALIKE else []) for k in KINDS],
)
def test_a_step_waits_for_nothing(
    kind: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """On a device without numbers whoever asks for one is refused, or who mixes in another device.

    How far learned and shifted positions reach is checked on the CPU.
    """

    def idle(config: TrainConfig, parameters: Any) -> torch.optim.AdamW:
        optimizer = torch.optim.AdamW(parameters)
        monkeypatch.setattr(optimizer, "step", lambda: None)
        return optimizer

    monkeypatch.setattr("models.training.trainer.adamw", idle)
    monkeypatch.setattr("models.training.together.adamw", idle)
    runs = created(tmp_path, SEEDS[:2], **KINDS[kind])
    stack = Stack([Trainer.at_start(run, torch.device("meta")) for run in runs])
    losses = stack.advance()
    assert (losses.shape, losses.device.type) == ((2,), "meta")


# -- the end, and what comes before it ------------------------------------------------------------

EASY: dict[str, Any] = {
    "language": "an",
    "max_n": 3,
    "steps": 200,
    "learning_rate": 1e-2,
    "evaluate_every": 5,
    "patience": 2,
    "model": ModelConfig(n_layers=1, n_heads=2, d_model=16, d_mlp=32, bias=False),
}


@pytest.mark.slow
def test_a_seed_that_makes_no_mistake_stops_and_the_others_go_on(tmp_path: Path) -> None:
    runs = created(tmp_path / "together", **EASY)
    told: list[tuple[str, int, float | None]] = []
    train_together(runs, "cpu", lambda run, step, value: told.append((run.name, step, value)))
    assert_same(runs, in_turn(tmp_path / "alone", **EASY))
    ends = [run.record["steps"] for run in runs]
    assert len(set(ends)) > 1
    assert max(ends) < 200
    for run, end in zip(runs, ends, strict=True):
        own = [(step, value) for name, step, value in told if name == run.name]
        assert [step for step, _ in own] == [0, *range(5, end + 1, 5), end]
        assert [value is None for _, value in own] == [True, *[False] * (end // 5), True]


class Killed(BaseException):
    """As a signal would: nothing that catches errors catches it."""


def killed(work: Callable[[], None], at: int) -> int:
    """Dies before it puts this file in place. Returns how many were to be put in place."""
    count, rename = 0, os.replace

    def replace_file(*paths: Any) -> None:
        nonlocal count
        count += 1
        if count == at:
            raise Killed
        rename(*paths)

    death = pytest.raises(Killed) if at else nullcontext()
    with mock.patch("os.replace", replace_file), death:
        work()
    return count


@pytest.mark.slow
@pytest.mark.parametrize("apart", [0.0, 10.0])  # seconds between states: in time for one, or not
def test_killed_and_resumed_they_end_alike(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, apart: float, full: bool
) -> None:
    """At a random file, drawn anew each time."""
    monkeypatch.setattr(together, "STATES_APART", apart)
    undisturbed = created(tmp_path / "undisturbed")
    renames = killed(lambda: train_together(undisturbed, "cpu"), at=0)
    for at in np.random.default_rng().choice(np.arange(1, renames + 1), 3 if full else 1, False):
        runs = created(tmp_path / str(at))
        killed(lambda runs=runs: train_together(runs, "cpu"), at=int(at))
        train_together([Run(run.path) for run in runs], "cpu")
        assert_same(runs, undisturbed)


@pytest.mark.slow
def test_runs_at_different_steps_meet(tmp_path: Path) -> None:
    """Three seeds: at step 6, at step 3 and new."""
    runs = created(tmp_path / "together")
    for run, last in zip(runs[:2], (6, 3), strict=True):

        def stop(step: int, value: float | None, last: int = last) -> None:
            if step == last and value is not None:
                raise Killed

        with pytest.raises(Killed):
            train(run, "cpu", stop)
    sizes: list[int] = []

    class Counted(Stack):
        def __init__(self, trainers: list[Trainer]) -> None:
            super().__init__(trainers)
            sizes.append(len(trainers))

    with mock.patch.object(together, "Stack", Counted):
        train_together(runs, "cpu")
    assert sizes == [1, 2, 3]
    assert_same(runs, in_turn(tmp_path / "alone"))


def test_what_is_finished_is_left_alone(tmp_path: Path) -> None:
    runs = created(tmp_path)
    train(runs[0], "cpu")
    before = {file: file.read_bytes() for file in runs[0].path.rglob("*") if file.is_file()}
    train_together(runs, "cpu")
    assert {file: file.read_bytes() for file in before} == before
    assert [run.record.get("seeds_at_once") for run in runs] == [None, 2, 2]


def test_one_run_is_a_single_run(tmp_path: Path) -> None:
    (run,), (single,) = created(tmp_path / "a", (3,)), created(tmp_path / "b", (3,))
    train_together([run], "cpu")
    train(single, "cpu")
    assert run.model_hash() == single.model_hash()
    assert "seeds_at_once" not in run.record


# -- what can train together ----------------------------------------------------------------------


OTHERS = {
    "lstm": replace(TINY, architecture="lstm"),
    "gru": replace(TINY, architecture="gru"),
    "rnn": replace(TINY, architecture="rnn"),
    "dropout": replace(TINY, dropout=0.1),
    "ngram": replace(TINY, architecture="ngram"),
    "t5": replace(TINY, positions="t5"),
    "additive": replace(TINY, scores="additive"),
}


def test_what_cannot_train_together() -> None:
    for name, model in OTHERS.items():
        assert not can_train_together(tiny_config(model=model)), name


@pytest.mark.parametrize("kind", ["lstm", "dropout", "ngram"])
def test_other_models_train_in_turn(kind: str, tmp_path: Path) -> None:
    changes = {"model": OTHERS[kind], "steps": 4}
    runs, told = created(tmp_path / "together", (0, 1), **changes), []
    train_together(runs, "cpu", lambda run, step, value: told.append(run.name))
    expected = created(tmp_path / "alone", (0, 1), **changes)
    for run, single in zip(runs, expected, strict=True):
        train(single, "cpu")
        assert run.model_hash() == single.model_hash()
    assert set(told) == {run.name for run in runs}


@pytest.mark.parametrize("kind", KINDS)
def test_every_weight_has_a_part_that_is_stacked(kind: str) -> None:
    model = build(tiny_config(**KINDS[kind]).model, language("anbn").vocabulary)
    for name, _ in model.named_parameters():
        assert isinstance(model.get_submodule(name.rpartition(".")[0]), tuple(STACKED))


@pytest.mark.parametrize(
    ("changes", "fault"),
    [
        ({"language": "an"}, "s0 and s1 differ in language: "),
        ({"steps": 13, "clip": 2.0}, "s0 and s1 differ in steps and clip: "),
        ({"model": replace(TINY, positions="rotary")}, "s0 and s1 differ in model: "),
    ],
)
def test_runs_that_differ_in_more_are_refused(
    changes: dict[str, Any], fault: str, tmp_path: Path
) -> None:
    runs = [*created(tmp_path, (0,)), *created(tmp_path, (1,), **changes)]
    with pytest.raises(UserError, match=rf"^{fault}[^\n]*$"):
        train_together(runs, "cpu")
    assert not any(run.steps() for run in runs)


@pytest.mark.slow
def test_runs_of_a_corpus(tmp_path: Path) -> None:
    """The same lines go together; others are refused."""
    rows = [f"{'AB'[n % 2]}\t{'xy'[n % 2]} w{n}" for n in range(60)]
    paths = []
    for name, lines in (("same", rows), ("other", rows[:-1])):
        paths.append(tmp_path / f"{name}.tsv")
        paths[-1].write_text("\n".join(lines))
    changes = {"language": "lines", "objective": "verdict"}

    def run(name: str, seed: int, path: Path) -> Run:
        return Run.create(tmp_path / name, tiny_config(seed=seed, model=PLAIN, **changes), path)

    runs = [run("s0", 0, paths[0]), run("s1", 1, paths[0])]
    train_together(runs, "cpu")
    alone = [run("a0", 0, paths[0]), run("a1", 1, paths[0])]
    for single in alone:
        train(single, "cpu")
    assert_same(runs, alone)
    with pytest.raises(UserError, match=r"^s0 and o differ in lines: [^\n]*$"):
        train_together([runs[0], run("o", 2, paths[1])], "cpu")
