"""The controls of every question are what they are called.

A lens may be right and its control be wired to the wrong thing: the untrained model is the trained
one, or values that hang on no model are those of one. Nothing is computed again here. Answers are
held against the answers to the same question about the network before its first step.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cache
from itertools import combinations
from shutil import rmtree
from typing import Any

import numpy as np
import pandas as pd
import pytest
from conftest import TINY, tiny_config

from analyses.answers import Answer, question, quiet
from analyses.options.behaviour import Accuracy
from analyses.options.inside import Interventions, Probing
from analyses.options.parts import Circuits, Heads, Patching
from analyses.options.rule import Discovery
from analyses.options.training import Emergence
from analyses.options.words import Explanations, Leaderboard
from analyses.registry import usual
from models.runs.checkpoints import folder_name
from models.runs.run import Run
from models.training.loop import train

SEED = 3  # another than the default: an option that is forgotten shows
NEAR = {"rtol": 1e-3, "atol": 1e-4}
FREE = ("random", "position", "oracle", "language")
"""Values of explanations that no model is asked for."""


@dataclass(frozen=True)
class Controls:
    """The options of a question, and the columns that tell what each row of its answer is about.

    Attributes:
        by: the columns that name a group of rows: a network, or a control.
        free: the values of the first such column whose rows hang on no network.
        truth: the numbers of such rows that say how near to the truth they are; "" means all.
        trained: columns of numbers that hang on what training drew or on what was trained, also
            where the row is about the untrained network.
    """

    options: Any
    by: tuple[str, ...] = ("model",)
    free: tuple[str, ...] = ()
    truth: str = ""
    trained: tuple[str, ...] = ()


CONTROLS = {
    "accuracy": Controls(
        Accuracy(max_n=6, count=8, seed=SEED), trained=("fresh", "fresh_recognition")
    ),
    "probing": Controls(
        Probing(words=24, seed=SEED),
        ("model", "probe", "split"),
        ("position alone", "symbol alone", "no activation"),
    ),
    "emergence": Controls(Emergence(words=16, count=4, seed=SEED), ("step",)),
    "interventions": Controls(
        Interventions(24, 8, rank=2, seed=SEED),
        ("model", "experiment", "method", "measure", "split"),
    ),
    "heads": Controls(Heads(words=16, members=4, seed=SEED)),
    "patching": Controls(Patching(n=3, pairs=2, seed=SEED), trained=("shift", "shift_choice")),
    "circuits": Controls(Circuits(pairs=9, goal=0.6, seed=SEED), ("model", "direction")),
    "explanations": Controls(
        Explanations("a b b b", samples=16, draws=2, seed=SEED),
        ("method", "scale", "baseline"),
        FREE,
    ),
    "leaderboard": Controls(
        Leaderboard(words=2, longest=5, samples=16, draws=2, seed=SEED),
        ("method", "scale", "replacement"),
        FREE,
        "AUROC",
    ),
    "discovery": Controls(Discovery(words=40, max_states=6, seed=SEED)),
}


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Run:
    """One layer that has learned: an untrained one would say the same as its controls."""
    changes: dict[str, Any] = {"steps": 60, "learning_rate": 1e-2, "batch_size": 32, "max_n": 5}
    config = tiny_config(**changes, evaluate_every=60, model=replace(TINY, d_model=12))
    made = Run.create(tmp_path_factory.mktemp("controls") / "run", config)
    train(made, "cpu")
    for step in made.steps()[2:-1]:  # three are enough to follow
        rmtree(made.checkpoints / folder_name(step))
    return made


@cache
def asked(run: Run, name: str, seed: int = SEED) -> Answer:
    return question(name).analyse(run, replace(CONTROLS[name].options, seed=seed), quiet)


@pytest.fixture(autouse=True)
def _few_sites(monkeypatch: pytest.MonkeyPatch) -> None:
    few = ("resid_mid", "resid_post")
    monkeypatch.setattr("analyses.questions.inside.probing.SITES", few)  # it takes the longest


def before(run: Run) -> Run:
    """The run as it was before its first step."""
    return Run(run.path, seen_at=0)


def of_model(table: pd.DataFrame, name: str, without: tuple[str, ...]) -> pd.DataFrame:
    rows = table[table["model"] == name].drop(columns=["model", *without])
    return rows.reset_index(drop=True)


@pytest.mark.slow
@pytest.mark.parametrize("name", [n for n in usual() if "model" in CONTROLS[n].by])
def test_the_untrained_network_is_the_one_before_the_first_step(run: Run, name: str) -> None:
    """What is said of it as a control is what is said where it is the network asked about."""
    without = CONTROLS[name].trained
    control = of_model(asked(run, name).table, "untrained", without)
    itself = of_model(asked(before(run), name).table, "trained", without)
    if name == "interventions":  # controls are not steered, and have fewer controls of their own
        keys = list(control.columns[: list(control.columns).index("choice")])
        itself = control[keys].merge(itself, on=keys, how="left")
    assert len(control) > 0
    pd.testing.assert_frame_equal(control, itself, check_dtype=False, **NEAR)


@pytest.mark.slow
@pytest.mark.parametrize("name", [n for n in usual() if n != "emergence"])
def test_what_hangs_on_no_network_stays_and_all_else_is_of_the_trained_one(
    run: Run, name: str
) -> None:
    """Shuffled labels, random directions and the like are of the trained network."""
    one, other = (groups(asked(each, name), name) for each in (run, before(run)))
    for key in one.keys() & other.keys():
        if key[0] in CONTROLS[name].free:
            assert alike(one[key], other[key]), f"{key} hangs on the network"
        elif key[0] != "untrained" and not (flat(one[key]) or is_seen_elsewhere(key)):
            assert not alike(one[key], other[key]), f"{key} does not hang on the network"


@pytest.mark.slow
@pytest.mark.parametrize("name", usual())
def test_no_two_controls_could_be_exchanged(run: Run, name: str) -> None:
    controls = CONTROLS[name]
    for (one, x), (other, y) in combinations(groups(asked(run, name), name).items(), 2):
        if flat(x) or is_seen_elsewhere(one) or is_seen_elsewhere(other):
            continue
        # Exact methods say the same of so short a word.
        if controls.by[0] == "method" and {one[0], other[0]}.isdisjoint(controls.free):
            continue
        assert not alike(x, y), f"{one} and {other} could be exchanged"


@pytest.mark.slow
@pytest.mark.sampled
@pytest.mark.parametrize("name", usual())
def test_the_seed_reaches_what_is_drawn(run: Run, name: str) -> None:
    one, other = (groups(asked(run, name, seed), name) for seed in (SEED, SEED + 2))
    assert any(key not in other or not alike(one[key], other[key]) for key in one)


def groups(answer: Answer, name: str) -> dict[tuple[Any, ...], np.ndarray]:
    """The numbers of an answer, by what its rows are about."""
    controls = CONTROLS[name]
    by, left_out = list(controls.by), [*controls.trained, "seconds"]
    numbers = answer.table.drop(columns=left_out, errors="ignore").select_dtypes(["number", "bool"])
    numbers = numbers.drop(columns=by, errors="ignore")
    if controls.truth:
        numbers = numbers[[controls.truth]]
    return {
        key if isinstance(key, tuple) else (key,): numbers.loc[rows.index].to_numpy(float)
        for key, rows in answer.table.groupby(by, sort=False, dropna=False)
    }


def is_seen_elsewhere(key: tuple[Any, ...]) -> bool:
    """A model this small ends no word later: that the ways to steer differ, and the courses, is
    seen where a counter is planted, in test_interventions and test_exchanging. And after LEACE no
    probe reads anything, whatever the network."""
    return "steering" in key or "course" in str(key) or "probe R2" in key


def alike(x: np.ndarray, y: np.ndarray) -> bool:
    return x.shape == y.shape and np.allclose(x, y, **NEAR, equal_nan=True)


def flat(x: np.ndarray) -> bool:
    """Whether no number differs from row to row, as where nothing was changed by anything."""
    return all(len(np.unique(column[~np.isnan(column)])) < 2 for column in x.T)
