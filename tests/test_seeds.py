"""Over seeds: which runs belong together, and the interval of their numbers."""

from __future__ import annotations

import json
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from conftest import tiny_config
from scipy.stats import ttest_1samp

from analyses import emergence, interventions, probing
from analyses.cli import main
from analyses.results import answer, load
from analyses.seeds import over_seeds, siblings, wide
from interp.statistics import t_interval
from models.files import read_json, write_json
from models.runs import Run
from models.training import train


def test_runs_that_differ_in_the_seed_alone_belong_together(tmp_path: Path) -> None:
    runs = {
        name: Run.create(tmp_path / name, tiny_config(**changes))
        for name, changes in {
            "b": {"seed": 2},
            "a": {"seed": 7},
            "c": {"seed": 1},
            "longer": {"seed": 3, "max_n": 9},
        }.items()
    }
    assert [run.name for run in siblings(runs["a"])] == ["c", "b", "a"]
    assert [run.name for run in siblings(runs["longer"])] == ["longer"]


def test_means_over_the_seeds_that_were_asked(tmp_path: Path) -> None:
    runs = [Run.create(tmp_path / f"s{seed}", tiny_config(seed=seed)) for seed in range(3)]
    assert over_seeds(runs, "probing")[1] == 0
    for run in runs[:2]:
        train(run, "cpu")
        answer(run, "probing", probing.Options(words=12))
    table, asked = over_seeds(runs, "probing")
    assert asked == 2
    assert (table["seeds"] <= 2).all()
    (row,) = table[(table["variable"] == "a-b") & (table["of"] == "trained")].to_dict("records")
    kept = [result for run in runs[:2] if (result := load(run, "probing"))]
    scores = [result.findings["best"]["a-b"]["score"] for result in kept]
    assert (row["mean"], row["low"], row["high"]) == pytest.approx(t_interval(np.array(scores)))


SMALL: dict[str, tuple[Any, Any]] = {
    "probing": (probing, probing.Options(words=12)),
    "emergence": (emergence, emergence.Options(words=12, count=2)),
    "interventions": (interventions, interventions.Options(words=16, pairs=16)),
}


@pytest.mark.parametrize("name", SMALL)
def test_the_command_prints_one_table_of_all_seeds(
    name: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    module, options = SMALL[name]
    for seed in (3, 4):
        run = Run.create(tmp_path / f"s{seed}", tiny_config(seed=seed))
        train(run, "cpu")
        answer(run, name, options)
        # Asked as the command asks, which then finds it answered.
        record = run.results / f"{name}.json"
        write_json(record, read_json(record) | {"arguments": asdict(module.Options())})
    out = tmp_path / "table.csv"
    assert main(["seeds", str(tmp_path / "s3"), name, "--out", str(out)]) == 0
    assert "Mean over 2 seeds" in capsys.readouterr().out
    assert main(["seeds", str(tmp_path / "s3"), name, "--json"]) == 0
    rows, written = json.loads(capsys.readouterr().out), pd.read_csv(out)
    assert [row["of"] for row in rows] == written["of"].tolist()
    assert max(row["seeds"] for row in rows) == 2
    assert set(wide(written).columns) == {row["variable"] for row in rows}


def test_the_interval_is_students() -> None:
    values = np.array([0.2, 0.5, 0.4, 0.9, 0.1])
    mean, low, high = t_interval(values)
    expected = ttest_1samp(values, 0).confidence_interval(0.95)
    assert (mean, low, high) == pytest.approx((values.mean(), expected.low, expected.high))
    assert np.isnan(t_interval(np.array([3.0]))[1:]).all()
