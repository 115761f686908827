"""Two kinds of runs: the differences of one question's numbers, over the seeds of each."""

from __future__ import annotations

import json
import shutil
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from conftest import TINY, made_once, tiny_config, without_pictures
from scipy.stats import ttest_ind

from analyses.answers import answer
from analyses.command_line.app import main
from analyses.options.behaviour import Accuracy
from analyses.options.parts import Patching
from analyses.questions.behaviour import accuracy
from analyses.studies import seeds as over
from analyses.studies.between import between, chart, for_reading
from analyses.studies.seeds import two_kinds
from interp.statistics import seeds_interval, weighted_sum
from models.base import build
from models.errors import UserError
from models.languages import language
from models.runs.folders import RUN_FILE
from models.runs.run import Run
from models.training.loop import train


@pytest.fixture(scope="module")
def kinds(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    """Three seeds of one layer and two of two. The names in both folders are the same."""

    def make(made: Path) -> None:
        for layers, seeds in ((1, 3), (2, 2)):
            for seed in range(seeds):
                config = tiny_config(steps=6, seed=seed, model=replace(TINY, n_layers=layers))
                run = Run.create(made / f"layers-{layers}" / f"seed-{seed}", config)
                train(run, "cpu")
                with without_pictures():
                    answer(run, "accuracy", Accuracy())

    made = made_once(tmp_path_factory, "kinds", make)
    return made / "layers-1" / "seed-1", made / "layers-2" / "seed-0"


def values_of(run: Run) -> pd.Series:
    result, _ = answer(run, "accuracy", Accuracy())
    table = accuracy.QUESTION.headline(result)
    return table.set_index(["of", "variable"])["value"]


def test_a_difference_is_that_of_the_means(kinds: tuple[Path, Path]) -> None:
    first, second = two_kinds(*kinds)
    assert (len(first), len(second)) == (3, 2)
    table, legend, missing = between(first, second, "accuracy")
    assert missing == 0
    sides = [pd.concat(map(values_of, runs), axis=1) for runs in (first, second)]
    for row in table.to_dict("records"):
        one, other = (side.loc[row["of"], row["variable"]].dropna().to_numpy() for side in sides)
        assert row["difference"] == pytest.approx(one.mean() - other.mean())
        assert (row["first_seeds"], row["second_seeds"]) == (len(one), len(other))
    backward, *_ = between(second, first, "accuracy")
    for end, other_end in (("difference", "difference"), ("low", "high"), ("high", "low")):
        np.testing.assert_allclose(backward[end], -table[other_end])
    assert legend.startswith("Means over 3 and 2 networks and their differences")


def test_two_kinds_in_one_folder_are_read_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for layers in (1, 2):
        for number in (1, 0):
            config = tiny_config(seed=number, model=replace(TINY, n_layers=layers))
            symbols = language(config.language).vocabulary
            path = tmp_path / f"layers-{layers}-{number}"
            Run.create(path, config, model=build(config.model, symbols))
    (tmp_path / "damaged").mkdir()
    (tmp_path / "damaged" / RUN_FILE).write_text("{")
    read, once = list[Path](), over._opened

    def opened(folder: Path) -> object:
        read.append(folder)
        return once(folder)

    monkeypatch.setattr(over, "_opened", opened)
    sides = two_kinds(tmp_path / "layers-2-1", tmp_path / "layers-1-0")
    names = [[run.name for run in side] for side in sides]
    assert names == [["layers-2-0", "layers-2-1"], ["layers-1-0", "layers-1-1"]]
    assert read == [tmp_path]


def test_it_is_read_and_drawn(kinds: tuple[Path, Path]) -> None:
    table, *_ = between(*two_kinds(*kinds), "accuracy")
    shown = for_reading(table, "small", "large")
    assert list(shown) == [
        "of",
        "variable",
        "mean of 3 like small",
        "mean of 2 like large",
        "difference [95%]",
    ]
    assert len(shown) == len(table)
    assert shown["difference [95%]"].str.match(r"[+-]\d").all()
    of = table["of"].iloc[-1]
    drawn: Any = chart(table, of).to_dict()
    points = next(rows for rows in drawn["datasets"].values() if "variable" in rows[0])
    assert [row["of"] for row in points] == [of] * int((table["of"] == of).sum())


@pytest.mark.parametrize("spread", [(0.1, 0.1), (0.05, 0.2)])
def test_differences_of_five_seeds_hold_the_truth_as_often_as_they_say(
    spread: tuple[float, float],
) -> None:
    """And they are near to Welch's interval, which knows no range."""
    rng = np.random.default_rng(0)
    held, wide = [], []
    for _ in range(2000):
        one, other = (rng.normal(mean, sd, 5) for mean, sd in zip((0.2, -0.1), spread, strict=True))
        sides = [seeds_interval(values, shares=False) for values in (one, other)]
        _, low, high = weighted_sum((1, sides[0]), (-1, sides[1]))
        held.append(low <= 0.3 <= high)
        welch = ttest_ind(one, other, equal_var=False).confidence_interval()
        wide.append((high - low) / (welch.high - welch.low))
    assert 0.94 <= np.mean(held) <= 0.99
    assert 1 <= np.median(wide) <= 1.3


def test_what_cannot_be_compared_says_why(
    kinds: tuple[Path, Path], capsys: pytest.CaptureFixture[str]
) -> None:
    first, second = kinds
    with pytest.raises(UserError, match="differ in the seed alone: compare two configurations"):
        two_kinds(first, first.with_name("seed-0"))
    with pytest.raises(UserError, match="is not a run"):
        two_kinds(first, first.with_name("nothing"))
    alone = Run.create(first.parents[1] / "alone", tiny_config(steps=1))
    train(alone, "cpu")
    with pytest.raises(UserError, match="alone is the only seed of its kind: train it with anoth"):
        two_kinds(first, alone.path)
    table, legend, missing = between(*two_kinds(first, second), "patching")
    assert table.empty
    assert missing == 5
    assert legend == "5 have no answer: not asked."
    assert main(["seeds", str(first), "patching", "--against", str(second), "--no-ask"]) == 2
    assert "have no answers to compare" in capsys.readouterr().err


def test_what_knows_nothing_is_left_out(kinds: tuple[Path, Path], tmp_path: Path) -> None:
    asked = Path(shutil.copytree(kinds[0].parents[1], tmp_path / "asked"))
    sides = two_kinds(*(asked / run.parent.name / run.name for run in kinds))
    with without_pictures():
        for run in sides[0] + sides[1]:
            result, _ = answer(run, "patching", Patching(pairs=4))
            assert result.knowledge is not None
            assert not result.knowledge.is_shown  # after six steps
    table, legend, missing = between(*sides, "patching")
    assert table.empty
    assert (legend, missing) == ("5 do not know their language and are left out.", 0)


def test_the_command_gives_the_table(
    kinds: tuple[Path, Path], capsys: pytest.CaptureFixture[str]
) -> None:
    first, second = map(str, kinds)
    assert main(["seeds", first, "accuracy", "--against", second, "--json"]) == 0
    rows = json.loads(capsys.readouterr().out)
    table, legend, _ = between(*two_kinds(*kinds), "accuracy")
    assert [row["difference"] for row in rows] == pytest.approx(list(table["difference"]))
    second = str(kinds[1].with_name("seed-1"))  # as in both folders
    assert main(["seeds", first, "accuracy", "--against", second]) == 0
    said = " ".join(capsys.readouterr().out.split())
    assert " ".join(legend.split()) in said
    assert "mean of 3 like layers-1/seed-1 mean of 2 like layers-2/seed-1" in said
