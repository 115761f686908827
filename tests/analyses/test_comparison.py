"""Many runs in one table."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from analyses.answers import load
from analyses.command_line.app import main
from analyses.studies import comparison
from analyses.studies.comparison import (
    STUDIES,
    Compare,
    Study,
    beyond,
    config_of,
    findings,
    pairs,
    sizes,
    summary,
    versus,
    wide,
)
from interp.statistics import corrected, paired, pairs_needed, t_interval
from models.config import ABSOLUTE
from models.languages import language
from models.runs.run import Run, find_runs, run_name


def made_up(**columns: list[object]) -> pd.DataFrame:
    """Two seeds of one variant, window 2: right at 1 and 2, half right at 3, wrong at 8 and 20."""
    n = [1, 2, 3, 8, 20]
    table = pd.DataFrame(
        {
            "variant": "v",
            "language": "anbn",
            "seed": [0] * 5 + [1] * 5,
            "length": [2 * k for k in n] * 2,
            "n": n * 2,
            "band": [1, 1, 2, 4, 10] * 2,
            "exact": [1.0, 1, 0, 0, 0, 1, 1, 1, 0, 0],
            "recognition": 0.5,
            "window": 2,
        }
    )
    return table.assign(**columns).astype({"exact": "Float64"})


def test_the_summary_is_the_mean_over_sizes_then_over_seeds() -> None:
    short = summary(made_up()).set_index("band")
    assert short["value"].to_dict() == {1: 1.0, 2: 0.5, 4: 0.0, 10: 0.0}
    assert short.loc[2, ["low", "high", "seeds"]].tolist() == [0.0, 1.0, 2]
    assert set(short["measure"]) == {"exact"}


def test_the_mean_has_an_interval_over_seeds() -> None:
    short = summary(ranked(4)).set_index(["variant", "band"])
    values = np.array([0.5, 0.52, 0.54, 0.56])
    found = short.loc[("good", 4), ["value", "mean_low", "mean_high"]].tolist()
    assert found == pytest.approx(t_interval(values))
    wild = summary(made_up()).set_index("band")  # a share is no more than 1, and no less than 0
    assert wild.loc[2, ["mean_low", "mean_high"]].tolist() == [0.0, 1.0]
    alone = summary(ranked(1))
    assert alone[["mean_low", "mean_high"]].isna().all(axis=None)


def ranked(seeds: int) -> pd.DataFrame:
    """Three variants, window 2: two fail in most of the bands beyond, one of them by seed."""
    parts = []
    for seed in range(seeds):
        shares = {"bad": 0.1, "good": 0.5 + 0.02 * seed, "torn": (0.1, 0.8)[seed % 2]}
        for variant, share in shares.items():
            exact = [1.0, 1.0, share, share, share]
            parts.append(made_up()[:5].assign(variant=variant, seed=seed, exact=exact))
    return pd.concat(parts, ignore_index=True).astype({"exact": "Float64"})


def test_the_best_variant_is_compared_over_the_same_seeds() -> None:
    """All pairs of variants count: the seeds also choose which one is best."""
    grid = beyond(ranked(8))["anbn"]
    assert list(grid.columns) == ["bad", "good", "torn"]
    assert grid["good"].tolist() == pytest.approx([0.5 + 0.02 * seed for seed in range(8)])
    found = pairs(ranked(8))
    assert found["best"].tolist() == ["good", "good"]
    assert found["other"].tolist() == ["torn", "bad"]
    columns = {name: grid[name].to_numpy(dtype=float) for name in grid}
    tests = [
        paired(columns[first], columns[second])
        for first, second in (("good", "torn"), ("good", "bad"), ("torn", "bad"))
    ]
    assert found["difference"].tolist() == pytest.approx([t.difference for t in tests[:2]])
    assert found["p"].tolist() == pytest.approx([t.p for t in tests[:2]])
    expected = corrected(np.array([t.p for t in tests]))[:2]
    assert found["corrected"].tolist() == pytest.approx(expected.tolist())
    assert found["corrected"].tolist()[0] > 0.05 > found["corrected"].tolist()[1]
    text = findings(ranked(8))[0]
    assert "good holds best beyond the window (0.57, 95% " in text
    assert "; told from 1 of the 2 others)" in text


def test_findings_count_what_is_told_after_correction() -> None:
    """good beats near in seven of eight seeds, p = 10/256, of which Holm makes 20/256."""
    gaps = 0.05 * np.array([1, 2, -3, 4, 5, 6, 7, 8])
    near = [0.5 + 0.02 * seed - gap for seed, gap in enumerate(gaps)]
    table = ranked(8)
    for variant, shares in (("torn", near), ("bad", [0.35] * 8)):
        for seed, share in enumerate(shares):
            rows = (table["variant"] == variant) & (table["seed"] == seed) & (table["band"] > 1)
            table.loc[rows, "exact"] = share
    found = pairs(table).set_index("other")
    assert found.loc["torn", ["p", "corrected"]].tolist() == pytest.approx([10 / 256, 20 / 256])
    assert "; told from 1 of the 2 others)" in findings(table)[0]


def test_too_few_seeds_are_said_to_be_too_few() -> None:
    needed = pairs_needed(3)
    assert "tells no variants apart" not in findings(ranked(needed))[0]
    few = findings(ranked(needed - 1))[0]
    assert f"By {needed - 1} seeds the exact test tells no variants apart" in few
    assert f"corrected for 3 pairs, it needs {needed}." in few
    assert "told from" not in few
    sentence, lone = findings(ranked(1))
    assert "By 1 seed the exact test" in sentence
    assert lone["pairs"][0]["low"] is None
    (rows,) = versus(ranked(1)).values()
    assert rows["by [95%]"].tolist() == ["0.40", "0.40"]


def test_variants_that_are_equal_share_the_first_place() -> None:
    twin = ranked(8).replace({"variant": {"torn": "twin"}})
    same = twin["variant"] == "twin"
    twin.loc[same, "exact"] = twin.loc[twin["variant"] == "good", "exact"].to_numpy()
    assert "anbn: good, twin hold best beyond" in findings(twin)[0]
    assert "told from 1 of the 1 others" in findings(twin)[0]


def test_a_study_of_one_variant_has_no_pairs() -> None:
    assert pairs(made_up()).empty
    assert versus(made_up()) == {}
    sentence, found = findings(made_up())
    assert found["pairs"] == []
    assert sentence == "anbn: v holds best beyond the window (0.17, 95% 0.00 to 1.00)."


def test_people_read_how_far_the_others_are_behind() -> None:
    ((title, rows),) = versus(ranked(8)).items()
    assert title == "anbn, beyond the window: good is ahead"
    assert rows["of"].tolist() == ["torn", "bad"]
    mean, low, high = t_interval(np.array([0.4 + 0.02 * seed for seed in range(8)]))
    assert rows["by [95%]"][1] == f"{mean:.2f} [{low:.2f}, {high:.2f}]"
    assert rows["p, corrected"][1] == pytest.approx(3 * 2**-7)


def test_runs_taught_verdicts_are_judged_by_them() -> None:
    short = summary(made_up(exact=[None] * 10))
    assert set(short["measure"]) == {"recognition"}
    assert set(short["value"]) == {0.5}


def test_lengths_without_members_do_not_water_exactness_down() -> None:
    """Where a run has exactness at all, its lengths without a member say nothing."""
    short = summary(made_up(exact=[1.0, None, 0, 0, 0, 1, None, 1, 0, 0])).set_index("band")
    assert short["value"][1] == 1.0


def test_people_read_a_row_per_variant() -> None:
    row = wide(made_up()).iloc[0].to_dict()
    assert row == {
        "variant": "v",
        "anbn x1": "1.00",
        "anbn x2": "0.50 [0.00, 1.00]",
        "anbn x4": "0.00",
        "anbn x10": "0.00",
    }


def test_every_size_near_and_some_far() -> None:
    asked = sizes(25)
    assert asked[:50] == list(range(1, 51))
    assert {50, 100, 250} <= set(asked)
    assert asked == sorted(set(asked))
    assert max(asked) == 250


@pytest.mark.parametrize("study", STUDIES)
def test_every_variant_is_a_run_of_its_own(study: comparison.Name) -> None:
    for name in STUDIES[study].languages:
        configs = [config_of(name, asked, 0, None) for asked in STUDIES[study].variants.values()]
        assert len({run_name(config) for config in configs}) == len(configs)
        assert len({(c.steps, c.batch_size, c.max_n) for c in configs}) == 1  # the same budget


def test_shifted_positions_reach_the_longest_test_word() -> None:
    for name in STUDIES["positions"].languages:
        for kind in ABSOLUTE:
            config = config_of(name, {"positions": kind, "shifted": True}, 0, None)
            longest = language(name).length_of(10 * config.max_n)
            assert config.max_offset + language(name).length_of(config.max_n) == longest
            assert longest < config.model.n_ctx


@pytest.fixture
def two_variants(monkeypatch: pytest.MonkeyPatch) -> None:
    few = {"none": {}, "3-gram": {"architecture": "ngram"}}
    monkeypatch.setitem(STUDIES, "positions", Study("Which?", few, ("an",)))


@pytest.mark.usefixtures("two_variants")
def test_one_command_makes_runs_table_and_figure(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    command = ["compare", "positions", "--seeds", "1", "--steps", "2", "--count", "2"]
    command += ["--workers", "1", "--out", str(tmp_path / "out")]
    assert main(command) == 0
    said = capsys.readouterr().out
    assert "Which?\nan" in said.replace(" ", "")  # the question, then a table per language
    assert "x10" in said
    assert "an,beyondthewindow:3-gramisahead" in "".join(said.split())
    assert "by [95%]" in said
    runs = find_runs(tmp_path / "out")
    assert [path.name for path in runs] == ["an-3-gram-s0", "an-s0"]
    kept = load(tmp_path / "out", "positions")
    assert kept is not None
    assert list(kept.table["variant"].unique()) == ["none", "3-gram"]
    assert len(kept.table) == 2 * len(sizes(25))
    assert (tmp_path / "out/figures/positions.html").stat().st_size > 10_000
    before = {run: (run / "checkpoints").stat().st_mtime_ns for run in runs}
    assert main(command) == 0  # nothing is trained again
    assert {run: (run / "checkpoints").stat().st_mtime_ns for run in runs} == before
    again = load(tmp_path / "out", "positions")
    assert again is not None
    pd.testing.assert_frame_equal(again.table, kept.table)
    assert Run(runs[1]).config.steps == 2


def test_a_run_of_another_budget_is_not_taken(tmp_path: Path) -> None:
    config = config_of("an", {}, 0, 3)
    Run.create(tmp_path / run_name(config), config)
    with pytest.raises(comparison.UserError, match="trained otherwise"):
        comparison.complete(tmp_path / run_name(config), config_of("an", {}, 0, 2), 2)


def test_mistakes_are_told() -> None:
    for wrong in ({"seeds": 0}, {"count": 0}, {"workers": 0}, {"languages": ("nolang",)}):
        with pytest.raises(comparison.UserError):
            Compare("rivals", **wrong)
