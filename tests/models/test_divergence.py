"""A training whose numbers are no numbers any more says so, and is never called finished."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest
import torch
from conftest import tiny_config

from models.errors import DivergedError
from models.languages import Vocabulary
from models.model_config import ModelConfig
from models.rivals.ngram import HookedNGram
from models.runs.run import METRICS, Run
from models.training.loop import train
from models.training.together import train_together
from models.training.trainer import Trainer

ONE_LINE = r"^[^\n]*diverged before step 5, [^\n]*smaller --learning-rate$"


def refuse(constant: str) -> None:
    raise AssertionError(f"{constant} is not JSON")


@pytest.fixture
def breaks(monkeypatch: pytest.MonkeyPatch) -> None:
    """The weights of seed 1 break at the fourth step."""
    step = Trainer.advance

    def advance(self: Trainer) -> object:
        value = step(self)
        if self.step == 4 and self.config.seed == 1:
            with torch.no_grad():
                next(self.model.parameters())[0] = torch.nan
        return value

    monkeypatch.setattr(Trainer, "advance", advance)


@pytest.mark.usefixtures("breaks")
def test_a_diverged_training_keeps_what_was_whole(tmp_path: Path) -> None:
    run = Run.create(tmp_path / "run", tiny_config(seed=1))
    with pytest.raises(DivergedError, match=ONE_LINE):
        train(run, device="cpu")
    assert run.record["status"] == "diverged"
    lines = (run.path / METRICS).read_text().splitlines()
    last = [json.loads(line, parse_constant=refuse) for line in lines][-1]
    assert (last["step"], last["validation_loss"]) == (5, None)
    assert run.steps()[-1] < 4
    assert all(torch.isfinite(weight).all() for weight in run.model().parameters())
    with pytest.raises(DivergedError, match=ONE_LINE):  # and `lab resume` does not begin again
        train(run, device="cpu")


@pytest.mark.usefixtures("breaks")
def test_the_others_go_on(tmp_path: Path) -> None:
    config = tiny_config()
    runs = [Run.create(tmp_path / str(seed), replace(config, seed=seed)) for seed in (1, 2)]
    with pytest.MonkeyPatch.context() as patch:  # one after the other, as where none can be stacked
        patch.setattr("models.training.together.can_train_together", lambda config: False)
        with pytest.raises(DivergedError, match=ONE_LINE):
            train_together(runs, "cpu")
    assert [run.record["status"] for run in runs] == ["diverged", "finished"]


def test_counts_go_on_beyond_two_to_the_24() -> None:
    model = HookedNGram(ModelConfig(architecture="ngram", order=1), Vocabulary(("a", "b")))
    tokens, target = torch.zeros(1, 1, dtype=torch.long), torch.ones(1, 1, 4)
    model.count(tokens, target, torch.full((1, 1, 4), 2.0**24))
    model.count(tokens, 0 * target, torch.ones(1, 1, 4))
    assert model.get_buffer("seen_0").tolist() == [[2.0**24 + 1] * 4]
