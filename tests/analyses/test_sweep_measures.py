"""Further measures of a sweep: measured once, summed up over seeds, and compared."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import torch

from analyses.charts.measures import _middles
from analyses.command_line.app import main
from analyses.options.studies import Sweep
from analyses.questions.training.gradients import by_layer
from analyses.questions.training.loss import loss
from analyses.studies.sweeps import further
from analyses.studies.sweeps import run as sweeps
from analyses.studies.sweeps.file import read
from analyses.studies.sweeps.further import FURTHER, LESS, MEANING, _Further, columns_of
from analyses.studies.sweeps.measures import Measure
from analyses.studies.sweeps.of_run.speed import speed
from analyses.studies.sweeps.over_seeds import over_seeds, wide
from analyses.studies.sweeps.paired import pairs
from analyses.studies.sweeps.run import sweep
from analyses.studies.sweeps.summary import findings, readable, summary
from interp.statistics import seeds_interval
from models.errors import UserError
from models.runs.run import Run
from models.training.trainer import Trainer

TINY = """
question = "Which?"
languages = ["anbn"]
seeds = 2
measures = ["loss", "speed", "gradients", "softmax", "curvature", "drift", "attention", "cost"]
[test]
windows = 1
count = 4
[compare]
measure = "loss.excess"
[fixed]
objective = "language-model"
max_length = 6
batch_size = 8
evaluate_every = 2
steps = 4
"model.d_mlp" = 8
"model.n_heads" = 2
[vary]
"model.d_model" = [4, 8]
"""


@pytest.fixture(scope="module")
def file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("sweep") / "tiny.toml"
    path.write_text(TINY)
    sweep(asked(path))
    return path


def asked(file: Path, **options: object) -> Sweep:
    return Sweep(str(file), **{"out": file.with_name("out"), "workers": 1, **options})


def made_up(seeds: int = 3, **columns: object) -> pd.DataFrame:
    """Two lengths of each run of two settings; the second has the smaller loss."""
    rows = [
        {"run": f"{variant}-{seed}", "language": "anbn", "variant": variant, "seed": seed}
        | {
            "length": length,
            "n": length // 2,
            "window": 4,
            "exact": 1.0,
            "members": 1.0,
            "others": 1.0,
        }
        | {"loss.excess": excess + 0.01 * seed, "speed.steps": 100.0 * (seed + 1)}
        for variant, excess in (("large", 0.5), ("small", 0.1))
        for seed in range(seeds)
        for length in (2, 4)
    ]
    table = pd.DataFrame(rows).astype({"exact": "Float64"})
    lacking = {c: np.nan for c in columns_of(["loss", "speed"]) if c not in table}
    return table.assign(**lacking).assign(**columns)


def lost(*variants: str) -> pd.DataFrame:
    rows = [{"run": v, "language": "anbn", "seed": 9, "variant": v} for v in variants]
    return pd.DataFrame(rows)


def test_the_table_holds_the_numbers_of_each_run(file: Path) -> None:
    kept = sweeps.load(file.with_name("out"))
    assert kept is not None
    assert list(kept.table.columns)[-len(MEANING) :] == list(MEANING)
    for name, rows in kept.table.groupby("run"):
        run = Run(file.with_name("out") / str(name))
        found = rows.iloc[0]
        assert {f"loss.{k}": v for k, v in loss(run).items()} == dict(found[columns_of(["loss"])])
        assert found["speed.steps"] == speed(run)["steps"] or np.isnan(found["speed.steps"])
        start = by_layer(run, [0])
        assert found["softmax.entropy"] == pytest.approx(start["entropy"].mean())
        assert found["gradients.first_start"] == pytest.approx(start["gradient"].iloc[0])
        # Of four steps the last is nearest to the hundredth.
        last = by_layer(run, [4])["gradient"]
        assert found["gradients.ratio_early"] == pytest.approx(last.iloc[0] / last.iloc[-1])
        assert rows[list(MEANING)].nunique(dropna=False).eq(1).all()


def test_nothing_is_measured_twice_and_a_new_measure_alone_is_added(
    file: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = sweep(asked(file)).table

    def refuse(run: Run) -> dict[str, float]:
        raise AssertionError(run)

    again = {name: _Further(refuse, of.meaning, of.less) for name, of in FURTHER.items()}
    monkeypatch.setattr(further, "FURTHER", again)
    pd.testing.assert_frame_equal(sweep(asked(file)).table, before)
    fewer = tmp_path / "tiny.toml"
    fewer.write_text(TINY.replace('"curvature", "drift", "attention", "cost"', ""))
    table = sweep(asked(fewer, out=file.with_name("out"))).table
    assert "curvature.mean" not in table
    pd.testing.assert_frame_equal(table, before[table.columns])


def test_it_is_printed_and_in_json_and_csv(file: Path, capsys: pytest.CaptureFixture[str]) -> None:
    out = str(file.with_name("out"))
    command = ["sweep", str(file), "--out", out, "--workers", "1"]
    assert main(command) == 0
    printed = capsys.readouterr().out
    for of in FURTHER.values():
        for words in of.meaning.values():
            assert words in " ".join(printed.split())
    assert "Settings are compared by the loss above the language's entropy" in printed
    assert main([*command, "--json"]) == 0
    content = json.loads(capsys.readouterr().out)
    rows = content["findings"]["measures"]
    assert [row["number"] for row in rows] == 2 * list(MEANING)
    assert main([*command, "--csv"]) == 0
    assert "loss.excess" in capsys.readouterr().out.splitlines()[0]


def test_the_interval_is_over_seeds_and_knows_no_upper_end() -> None:
    rows = over_seeds(made_up(), ["variant"], ["loss"], lost()).set_index(["variant", "number"])
    row = rows.loc[("large", "loss.excess")]
    expected = seeds_interval(np.array([0.5, 0.51, 0.52]), shares=False)
    assert row[["mean", "low", "high"]].tolist() == pytest.approx(expected)
    assert rows.loc[("large", "loss.nats"), "seen"] == 0
    assert np.isnan(rows.loc[("large", "loss.nats"), "mean"])


def test_the_interval_of_a_share_ends_at_one() -> None:
    columns = dict.fromkeys(columns_of(["attention"]), np.nan)
    near_one = {0: 0.9, 1: 0.95, 2: 0.999}
    table = made_up().assign(**columns)
    table["attention.members"] = table["seed"].map(near_one)
    rows = over_seeds(table, ["variant"], ["attention"], lost()).set_index("number")
    row = rows.loc["attention.members"].iloc[0]
    expected = seeds_interval(np.array([0.9, 0.95, 0.999]))
    assert row[["mean", "low", "high"]].tolist() == pytest.approx(expected)
    assert expected[2] < 1 < seeds_interval(np.array([0.9, 0.95, 0.999]), shares=False)[2]


def test_a_seed_that_never_gets_there_is_no_seed_that_was_fast() -> None:
    table = made_up(5)
    table.loc[(table["variant"] == "large") & (table["seed"] >= 3), "speed.steps"] = np.nan
    table.loc[(table["variant"] == "small") & (table["seed"] >= 2), "speed.steps"] = np.nan
    rows = over_seeds(table, ["variant"], ["speed"], lost("small"))
    steps = rows[rows["number"] == "speed.steps"].set_index("variant")
    # Of 100, 200, 300 and two that took longer, the middle is 300; no survivors' mean.
    assert steps.loc["large", ["median", "seen", "seeds", "diverged"]].tolist() == [300, 3, 5, 0]
    assert np.isnan(steps.loc["small", "median"])
    assert steps[["mean", "low", "high"]].isna().all(axis=None)
    shown = wide(rows, ["variant"])["speed"].set_index("variant")
    assert shown["steps"].tolist() == ["300 (3 of 5)", "- (2 of 5)"]
    assert shown["diverged"].tolist() == [0, 1]


def test_what_diverged_is_counted_even_where_nothing_is_left() -> None:
    gone = lost("small", "huge", "huge")
    short = summary(made_up(), ["variant"], gone).set_index("variant")
    assert short["diverged"].to_dict() == {"large": 0, "small": 1, "huge": 2}
    assert short["seeds"].to_dict() == {"large": 3, "small": 3, "huge": 0}
    shown = readable(short.reset_index(), ["variant"])
    assert shown["diverged"].tolist() == [0, 1, 2]
    assert "diverged" not in readable(summary(made_up(), ["variant"]), ["variant"])
    rows = over_seeds(made_up(), ["variant"], ["loss"], gone)
    assert rows[rows["variant"] == "huge"][["seen", "seeds", "diverged"]].iloc[0].tolist() == [
        0,
        0,
        2,
    ]


def test_a_sweep_counts_what_diverged(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    step = Trainer.advance

    def advance(self: Trainer) -> object:
        value = step(self)
        if self.config.learning_rate > 1:
            with torch.no_grad():
                next(self.model.parameters())[0] = torch.nan
        return value

    monkeypatch.setattr(Trainer, "advance", advance)
    path = tmp_path / "tiny.toml"
    few = TINY.replace(', "softmax", "curvature", "drift", "attention", "cost"', "")
    path.write_text(few.replace('"model.d_model" = [4, 8]', "learning_rate = [1e-3, 1e3]"))
    assert main(["sweep", str(path), "--out", str(tmp_path / "out"), "--workers", "1"]) == 0
    printed = capsys.readouterr().out
    kept = sweeps.load(tmp_path / "out")
    assert kept is not None
    gone = pd.DataFrame(kept.findings["diverged"])
    assert len(gone) == printed.count("its training diverged") == 2
    assert set(gone["learning_rate"]) == {1e3}
    assert "diverged" in printed.split("The share of words")[0]
    settings = pd.DataFrame(kept.findings["settings"]).set_index("learning_rate")
    assert settings["diverged"].tolist() == [0, 2]


def test_less_is_better_of_a_loss() -> None:
    asked = Measure(measure="loss.excess")
    row = pairs(made_up(), ["variant"], asked).iloc[0]
    assert (row["best"], row["other"], row["measure"]) == ("small", "large", "loss.excess")
    assert (row["difference"], row["wins"]) == (pytest.approx(0.4), 1)
    sentence, found = findings(made_up(), ["variant"], asked, ["loss"], [])
    assert sentence.startswith("anbn: small: 0.11 on average, 0.1 at best; ahead of")
    assert "(less is better)" in sentence
    assert {row["number"] for row in found["measures"]} == set(columns_of(["loss"]))
    # Where a run has no such number, words recognised are compared.
    unknown = made_up(**{"loss.excess": np.nan})
    assert set(pairs(unknown, ["variant"], asked)["measure"]) == {"recognition"}
    assert "recognised on anbn, where it is not known" in findings(unknown, ["variant"], asked)[0]


@pytest.mark.parametrize(
    ("old", "new", "fault"),
    [
        ('"loss", ', '"los", ', "measures"),
        ('"loss", ', '"loss", "loss", ', "measures has 'loss' twice"),
        ('"loss", ', "", 'add "loss" to measures'),
        ("loss.excess", "speed.steps", "choose one of recognition, exact, loss.nats"),
        ("loss.excess", "los", "measure in [compare] is 'los'"),
        ('"loss.excess"', '"loss.excess"\nbands = [1]', "leave bands out"),
    ],
)
def test_a_mistake_is_told_in_one_line(old: str, new: str, fault: str, tmp_path: Path) -> None:
    path = tmp_path / "tiny.toml"
    path.write_text(TINY.replace(old, new, 1))
    with pytest.raises(UserError) as told:
        read(path)
    assert fault in str(told.value)
    assert "\n" not in str(told.value)


def test_a_number_that_may_be_missing_is_not_compared_by() -> None:
    assert not {column for column in LESS if FURTHER[further.name_of(column)].censored}


def test_a_picture_never_averages_over_those_that_got_there() -> None:
    """Of censored numbers the middle is the median over all seeds; else it is the mean."""
    rows = [("fast", 100.0), ("fast", 200.0), ("fast", None), ("slow", 300.0), ("slow", None)]
    values = pd.DataFrame(rows, columns=["setting", "value"]).assign(language="anbn")
    found = _middles(values, censored=True).set_index("setting")
    assert found["value"].to_dict() == {"fast": 200.0}  # half of the slow have no number
    assert found["seeds"].to_dict() == {"fast": 2}
    found = _middles(values, censored=False).set_index("setting")
    assert found["value"].to_dict() == {"fast": 150.0, "slow": 300.0}
    assert found.loc["fast", "low"] < 150 < found.loc["fast", "high"]
