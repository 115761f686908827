"""Which weights a run ends with: their moving average, against float64, or those that words beyond
the training window chose, against every evaluated step judged again."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
import torch
from conftest import tiny_config
from safetensors.torch import load_file
from torch import Tensor

from analyses.options.behaviour import Accuracy
from analyses.questions.behaviour.accuracy import QUESTION, analyse
from analyses.studies.sweeps import bands
from analyses.studies.sweeps.exam import Exam, judged
from analyses.studies.sweeps.measures import Measure, by_seed
from models.errors import UserError
from models.model_config import ModelConfig
from models.runs.checkpoints import folder_name
from models.runs.records import Evaluation
from models.runs.run import METRICS, Run
from models.training.evaluation import judge, predict
from models.training.loop import train
from models.training.state import STATE
from models.training.together import can_train_together
from models.training.trainer import Trainer
from models.training.writer import _best_of, _selection_sample, validation_sample

AVERAGED: dict[str, Any] = {"average": 0.8}
SELECTED: dict[str, Any] = {
    "language": "first",
    "objective": "verdict",
    "max_n": 4,
    "steps": 30,
    "learning_rate": 2e-2,
    "selection_window": 2.5,
}


class KilledError(Exception):
    pass


def make(path: Path, killed_at: int | None = None, **changes: Any) -> Run:
    """A trained run, or one that was killed at a step and resumed."""
    run = Run.create(path, tiny_config(**changes))

    def kill(step: int, value: float | None) -> None:
        if step == killed_at:
            raise KilledError

    if killed_at is not None:
        with pytest.raises(KilledError):
            train(run, "cpu", kill)
        run = Run(path)
    train(run, "cpu")
    return run


def bits(run: Run) -> dict[str, Any]:
    """All that a run ends with, but for names and times."""
    files = [*run.checkpoints.glob("step-*/model.safetensors"), run.path / STATE]
    content: dict[str, Any] = {str(f.relative_to(run.path)): f.read_bytes() for f in files}
    lines = [{k: v for k, v in line.items() if k != "seconds"} for line in run.metrics()]
    record = {k: v for k, v in run.record.items() if k not in ("name", "seconds", "sessions")}
    return content | {METRICS: lines, "record": record}


def weights(path: Path) -> dict[str, Tensor]:
    """The weights in training of a saved state, by name."""
    tensors = load_file(path / STATE).items()
    return {n.removeprefix("model."): t for n, t in tensors if n.startswith("model.")}


# -- the average ----------------------------------------------------------------------------------


def test_checkpoints_hold_the_moving_average(tmp_path: Path) -> None:
    """By its definition, in float64, over the weights of a training without it."""
    run = make(tmp_path / "averaged", **AVERAGED)
    plain = Trainer.at_start(Run.create(tmp_path / "plain", tiny_config()), torch.device("cpu"))
    mean: dict[str, Tensor] = {}
    for step in range(1, 13):
        plain.advance()
        now = {n: p.detach().double() for n, p in plain.model.named_parameters()}
        mean = {n: 0.8 * mean.get(n, p) + 0.2 * p for n, p in now.items()}
        if step in run.steps():
            for name, value in run.model(step).named_parameters():
                torch.testing.assert_close(value.double(), mean[name], rtol=1e-6, atol=1e-7)
    in_training = weights(run.path)
    for name, value in plain.model.state_dict().items():
        assert torch.equal(in_training[name], value), name
    assert run.steps() == [0, 1, 2, 5, 10, 12]


def test_the_average_is_judged(tmp_path: Path) -> None:
    run = make(tmp_path / "run", **AVERAGED)
    *_, value = judge(
        run.model(), run.language, validation_sample(run.language, run.config), run.objective
    )
    assert run.metrics()[-1]["validation_loss"] == value


def test_runs_with_an_average_train_one_by_one() -> None:
    assert not can_train_together(tiny_config(**AVERAGED))


@pytest.mark.parametrize(
    "changes",
    [
        {"model": ModelConfig(architecture="ngram")},
        {"tuned": "lora", "parent": "0" * 64},
        {"tuned": "subspace", "parent": "0" * 64},
    ],
    ids=["ngram", "lora", "subspace"],
)
def test_what_has_no_average_is_refused(changes: dict[str, Any]) -> None:
    with pytest.raises(UserError, match=r"^average is for models [^\n]*$"):
        tiny_config(average=0.5, **changes)


# -- the choice -----------------------------------------------------------------------------------


def test_words_beyond_the_window_choose_the_step(tmp_path: Path) -> None:
    """Every evaluated step is judged again, word by word, by the truth."""
    run = Run.create(tmp_path / "run", tiny_config(**{**SELECTED, "evaluate_every": 6}))
    sample = _selection_sample(run.language, run.config)
    assert sample is not None
    assert len(sample.labels) == 256
    assert set(sample.words.lengths) == set(range(5, 11))
    trainer, shares = Trainer.at_start(run, torch.device("cpu")), dict[int, float]()
    for step in range(1, 31):
        trainer.advance()
        if step % 6 == 0:
            trainer.model.eval()
            accepted = [
                predict(trainer.model, run.language.vocabulary.decode(ids[:n]), run.objective)[1]
                for ids, n in zip(sample.words.ids, sample.words.lengths, strict=True)
            ]
            trainer.model.train()
            shares[step] = float(np.mean(np.array(accepted) == sample.labels))
    best = max(step for step, share in shares.items() if share == max(shares.values()))
    train(run, "cpu")
    assert len(set(shares.values())) > 2
    assert best < 30
    assert [line["selection"] for line in run.metrics()] == list(shares.values())
    assert run.record["selected_step"] == run.step == best
    assert run.record["selected_share"] == max(shares.values())
    assert run.record["steps"] == 30
    assert run.steps() == sorted({0, best, *(n for n in (1, 2, 5, 10, 20) if n < best)})
    evaluation = run.evaluation()
    assert evaluation is not None
    assert evaluation["step"] == best


def test_the_chosen_weights_are_those_of_their_step(tmp_path: Path) -> None:
    run = make(tmp_path / "run", **SELECTED)
    plain = Trainer.at_start(Run.create(tmp_path / "plain", run.config), torch.device("cpu"))
    for _ in range(run.step):
        plain.advance()
    for name, value in run.model().state_dict().items():
        assert torch.equal(value, plain.model.state_dict()[name]), name
    run.update(status="training")  # killed before its end, and the chosen ones lost
    shutil.rmtree(run.checkpoints / folder_name(run.record["selected_step"]))
    with pytest.raises(UserError, match="has no checkpoint at step"):
        train(run, "cpu")
    assert run.record["status"] == "training"


def test_the_latest_of_equals_is_chosen() -> None:
    shares = {3: 0.5, 6: 0.75, 9: 0.75, 12: 0.25}
    lines = [
        Evaluation(
            step=step,
            loss=0.1,
            validation_loss=0.1,
            exact=1.0,
            recognition=1.0,
            selection=share,
            learning_rate=0.1,
            seconds=1.0,
        )
        for step, share in shares.items()
    ]
    best = _best_of(lines)
    assert best is not None
    assert best["step"] == 9
    assert _best_of([]) is None


def test_the_last_step_is_kept_by_default(trained: Run) -> None:
    assert "selected_step" not in trained.record
    assert all("selection" not in line for line in trained.metrics())


def test_patience_is_as_without_a_choice(tmp_path: Path) -> None:
    shape = ModelConfig(n_layers=1, n_heads=2, d_model=16, d_mlp=32)
    changes = {"language": "an", "max_n": 3, "steps": 400, "learning_rate": 1e-2, "model": shape}
    changes |= {"patience": 2, "evaluate_every": 7, "selection_window": 2.5}
    chosen = make(tmp_path / "chosen", **changes)
    plain = make(tmp_path / "plain", **{**changes, "selection_window": 0.0})
    assert chosen.record["steps"] == plain.record["steps"] < 400
    assert weights(chosen.path).keys() == weights(plain.path).keys()
    for name, value in weights(chosen.path).items():
        assert torch.equal(value, weights(plain.path)[name])


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"selection_window": 1.0}, "it chooses on words beyond the training window"),
        ({"selection_window": 900.0}, "are too many to read at once"),
        ({"selection_window": 1001.0}, "must be at most 1000"),
        (
            {"model": ModelConfig(positions="learned", n_ctx=20), "max_n": 5},
            "words reach position 24",
        ),
    ],
)
def test_a_choice_that_cannot_be_made_is_refused(
    tmp_path: Path, changes: dict[str, Any], said: str
) -> None:
    with pytest.raises(UserError, match=rf"^[^\n]*{said}[^\n]*$"):
        Run.create(tmp_path / "run", tiny_config(**{"selection_window": 2.5, **changes}))


def test_lines_have_no_words_beyond_their_window(tmp_path: Path) -> None:
    path = tmp_path / "lines.tsv"
    path.write_text("".join(f"{'xy'[n % 2]}\ta b{n}\n" for n in range(40)))
    config = tiny_config(language="lines", objective="verdict", selection_window=2.0)
    with pytest.raises(UserError, match=r"^[^\n]*lines has none there[^\n]*$"):
        Run.create(tmp_path / "run", config, corpus=path)


def test_bands_that_chose_are_not_fresh(tmp_path: Path) -> None:
    tables = []
    for name, reach in (("chosen", 2.5), ("plain", 0.0)):
        run = make(tmp_path / name, **{**SELECTED, "selection_window": reach})
        table = judged(run, Exam(windows=4, hard=False), "cpu")
        assert set(table["selected_to"]) == {int(4 * reach)}
        tables.append(table.assign(variant=name, language="first", seed=0))
    values = by_seed(pd.concat(tables), ["variant"], Measure(bands=[1, 2, 3, 4]))
    fresh = values.set_index(["setting", "band"])["fresh"]
    assert fresh["chosen"].tolist() == [True, False, False, True]
    assert fresh["plain"].all()
    shown = bands.wide(values).set_index("setting")
    assert shown.loc["chosen"].str.endswith(", not fresh").tolist() == [False, True, True, False]
    (inside, *_) = QUESTION.claims(analyse(Run(tmp_path / "chosen"), Accuracy(count=4)))
    assert "Words of length 5 to 10 chose the weights" in inside.sentence


# -- both -----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "changes", [AVERAGED, {**SELECTED, **AVERAGED}], ids=["averaged", "averaged and chosen"]
)
def test_killed_and_resumed_it_ends_with_the_same_bits(
    tmp_path: Path, changes: dict[str, Any]
) -> None:
    """Before any state, between two, and at an evaluation."""
    whole = bits(make(tmp_path / "whole", **changes))
    for step in (2, 7, 12):
        assert bits(make(tmp_path / str(step), step, **changes)) == whole, step
