"""Training on a second device: the same numbers, and nobody waits but at an evaluation."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any
from unittest import mock

import numpy as np
import pytest
import torch
from conftest import TINY, tiny_config, tiny_of
from devices import SECOND, second_device

from models.base import build
from models.choices import Counting
from models.families import FAMILIES
from models.languages import Vocabulary
from models.objectives import OBJECTIVES
from models.runs.run import Run
from models.training import loop
from models.training.evaluation import judge, predict
from models.training.together import Stack
from models.training.trainer import Trainer
from models.training.writer import RunWriter

CPU = torch.device("cpu")
LAST = {"objective": "verdict", "language": "dieren"}
ENCODER: dict[str, Any] = {"model": replace(TINY, mask="bidirectional")}
IN_PLACE = ("masked", "tags")
"""What encoders alone are taught, where each symbol stands."""

KINDS: dict[str, dict[str, Any]] = {
    **{family: {"model": tiny_of(family)} for family in FAMILIES},
    **{
        objective: {"objective": objective} for objective in OBJECTIVES if objective not in IN_PLACE
    },
    **{objective: {"objective": objective, **ENCODER} for objective in IN_PLACE},
    "learned": {"max_offset": 3, "model": replace(TINY, positions="learned")},
    "sinusoidal": {"max_offset": 3, "model": replace(TINY, positions="sinusoidal")},
    "rotary": {"model": replace(TINY, positions="rotary", scores="dot", norm="rms", mlp="gated")},
    "alibi": {"model": replace(TINY, positions="alibi", norm_placement="sandwich")},
    "t5": {"model": replace(TINY, positions="t5", norm_placement="post")},
    "additive": {"model": replace(TINY, scores="additive", mask="strictly_causal", mlp="none")},
    "encoder": {**LAST, "model": replace(TINY, mask="bidirectional", positions="alibi")},
    "averaging": {
        "model": replace(TINY, counting=Counting(averaging_heads=1, head_norm=True, centred=True))
    },
    "counters": {"model": replace(TINY, counting=Counting(averaging_heads=1, counters=True))},
}


ALIKE = {"gru", "rnn", "next-symbols", "sinusoidal"}
"""What does nothing on a device that others do not do."""


@pytest.mark.parametrize(
    "kind",
    [pytest.param(k, marks=[pytest.mark.torture] if k in ALIKE else []) for k in KINDS],
)
def test_a_step_is_the_same_and_waits_for_nothing(kind: str, tmp_path: Path) -> None:
    run = Run.create(tmp_path / "run", tiny_config(**KINDS[kind]))
    here = Trainer.at_start(run, CPU)
    expected = here.advance()
    with second_device() as waits:
        there = Trainer.at_start(run, SECOND)
        del waits[:]  # the weights were sent
        found = there.advance()
        # Where each source ends must be known on the CPU to read sources of many lengths at once.
        assert waits == [] or kind in ("lstm-encoder-decoder", "lstm-attention")
        assert found.device == SECOND
        torch.testing.assert_close(found.cpu(), expected)
        weights = {name: w.cpu() for name, w in there.model.state_dict().items()}
    torch.testing.assert_close(weights, dict(here.model.state_dict()), rtol=1e-3, atol=1e-4)


def test_seeds_at_once_wait_for_nothing(tmp_path: Path) -> None:
    """Shifted learned positions too: how far they reach is checked on the CPU."""
    folders = [(tmp_path / f"s{seed}", seed) for seed in (0, 1)]
    runs = [Run.create(path, tiny_config(seed=seed, **KINDS["learned"])) for path, seed in folders]
    with mock.patch("models.training.together.helpers", return_value=0), second_device() as waits:
        stack = Stack([Trainer.at_start(run, SECOND) for run in runs])
        del waits[:]
        losses = [stack.advance() for _ in range(2)]
        assert waits == []
        assert {(loss.device, len(loss)) for loss in losses} == {(SECOND, 2)}


def test_a_run_waits_at_evaluations_alone(tmp_path: Path) -> None:
    """Interrupted and resumed there, it ends as on the CPU."""
    here, there = (Run.create(tmp_path / name, tiny_config()) for name in ("here", "there"))
    loop.train(here, "cpu")
    before: dict[int, list[str]] = {}
    write = RunWriter.write

    with mock.patch.object(loop, "choose_device", return_value=SECOND), second_device() as waits:

        def counted(writer: RunWriter) -> None:
            if not writer.writes:  # a checkpoint too reads the weights
                before[writer.trainer.step] = list(waits)
            write(writer)
            del waits[:]

        def stop(step: int, value: float | None) -> None:
            if step == 7:
                raise InterruptedError

        with mock.patch.object(RunWriter, "write", counted):
            with pytest.raises(InterruptedError):
                loop.train(there, progress=stop)
            loop.train(there)
    assert {step: waited for step, waited in before.items() if step > 7} == {8: [], 11: []}
    assert there.record["device"] == "meta"
    ours, expected = there.metrics(), here.metrics()
    for line, other in zip(ours, expected, strict=True):
        assert {**line, "seconds": 0} == pytest.approx({**other, "seconds": 0}, rel=1e-3)


@pytest.mark.parametrize("architecture", ["rnn", "lstm", "gru"])
def test_a_recurrent_network_that_is_evaluated_has_gradients(architecture: str) -> None:
    """cuDNN has none in evaluation mode: the layers stay in training mode."""
    model = build(replace(TINY, architecture=architecture), Vocabulary(("a", "b"))).eval()
    tokens = torch.tensor([[0, 2, 3, 2]])
    expected = torch.autograd.grad(model(tokens).sum(), model.W_E)[0]
    with second_device():
        model.to(SECOND)
        found = torch.autograd.grad(model(tokens.to(SECOND)).sum(), model.W_E)[0].cpu()
    torch.testing.assert_close(found, expected)


@pytest.mark.parametrize("kind", ["transformer", "lstm", "ngram", "encoder"])
def test_a_model_is_judged_where_it_is(kind: str, tmp_path: Path) -> None:
    run = Run.create(tmp_path / "run", tiny_config(**KINDS[kind]))
    language, model = run.language, run.untrained()
    sample = language.sample(np.random.default_rng(0), 4, language.lengths(4))
    word = language.vocabulary.symbols[:1] * 3

    def asked() -> list[Any]:
        exact, right, loss = judge(model, language, sample, run.objective)
        said = predict(model, word, run.objective)
        return [exact.tolist(), right.tolist(), round(loss, 5), said]

    expected = asked()
    with second_device():
        model.to(SECOND)
        assert asked() == expected


# -- the device itself ----------------------------------------------------------------------------


@pytest.mark.parametrize(
    "wrong",
    [
        lambda x: x + torch.ones(3),
        lambda x: torch.cat([x, torch.ones(3)]),
        lambda x: torch.ones(3)[x.long()],
        lambda x: torch.where(torch.ones(3) > 0, x, x),
        lambda x: x.numpy(),
        lambda x: np.asarray(x),
        lambda x: torch.randn(3, generator=torch.Generator(), device=SECOND),
    ],
)
def test_the_second_device_refuses_what_a_gpu_refuses(wrong: Callable[[Any], Any]) -> None:
    with second_device(), pytest.raises(RuntimeError):
        wrong(torch.ones(3).to(SECOND))


def test_the_second_device_counts_what_a_gpu_waits_for() -> None:
    x = torch.arange(3.0)
    waiting: list[Callable[[Any], Any]] = [
        lambda y: y.cpu(),
        lambda y: y.tolist(),
        lambda y: float(y[0]),
        lambda y: bool((y > 0).any()),
        lambda y: y[y > 0],
        lambda y: y.unique(),
        lambda y: y[torch.tensor([0, 1])],
        lambda y: y[[0, 1]],
        lambda y: y.copy_(x),
        lambda y: x.to(y),
        lambda y: torch.tensor([1.0], device=SECOND),
        lambda y: torch.equal(y, y),
    ]
    free: list[Callable[[Any], Any]] = [
        lambda y: x.to(SECOND, non_blocking=True),
        lambda y: torch.arange(3, device=SECOND) + y,
        lambda y: y[1:].where(y[1:] > 1, 0.0).double(),
        lambda y: y + torch.tensor(1.0),
        lambda y: y.masked_fill(y > 0, 0.0)[y.long()],
    ]
    with second_device() as waits:
        y = x.to(SECOND)
        for work in waiting:
            del waits[:]
            work(y)
            assert len(waits) == 1
        del waits[:]
        for work in free:
            work(y)
        assert waits == []
