"""The best setting of a sweep beside the others, over the same seeds; and bands of sizes."""

from __future__ import annotations

from itertools import combinations
from pathlib import Path
from statistics import mean

import numpy as np
import pandas as pd
import pytest

from analyses.answers import Answer, Answers
from analyses.charts.sweeps import band_chart
from analyses.command_line.app import main
from analyses.options.shipped import find
from analyses.studies.sweeps import bands
from analyses.studies.sweeps.exam import Exam
from analyses.studies.sweeps.file import read
from analyses.studies.sweeps.measures import Measure, balanced_recognition, by_seed, grids
from analyses.studies.sweeps.paired import how, pairs, versus
from analyses.studies.sweeps.plan import plan
from analyses.studies.sweeps.run import _keep
from analyses.studies.sweeps.summary import findings
from interp.comparisons import corrected, paired, pairs_needed
from interp.statistics import seeds_interval
from models.choices import Counting
from models.languages import language
from models.runs.folders import find_runs
from models.runs.run import Run

BY = ["variant"]
BANDS = Measure(measure="exact", bands=[1, 2, 4, 10])
STUDIES = ("positions", "encoders", "norms", "rivals")


def made_up(**columns: object) -> pd.DataFrame:
    """Two seeds of one variant, window 2: right at 1 and 2, half right at 3, wrong at 8 and 20."""
    n = [1, 2, 3, 8, 20]
    table = pd.DataFrame(
        {
            "variant": "v",
            "language": "anbn",
            "seed": [0] * 5 + [1] * 5,
            "length": [2 * k for k in n] * 2,
            "n": n * 2,
            "exact": [1.0, 1, 0, 0, 0, 1, 1, 1, 0, 0],
            "members": 0.25,
            "others": 0.75,
            "window": 4,
        }
    )
    return table.assign(**columns).astype({"exact": "Float64"})


def ranked(seeds: int) -> pd.DataFrame:
    """Three variants, window 2: two fail in most of the bands beyond, one of them by seed."""
    parts = []
    for seed in range(seeds):
        shares = {"bad": 0.1, "good": 0.5 + 0.02 * seed, "torn": (0.1, 0.8)[seed % 2]}
        for variant, share in shares.items():
            exact = [1.0, 1.0, share, share, share]
            parts.append(made_up()[:5].assign(variant=variant, seed=seed, exact=exact))
    return pd.concat(parts, ignore_index=True).astype({"exact": "Float64"})


def banded(table: pd.DataFrame) -> pd.DataFrame:
    return bands.summary(by_seed(table, BY, BANDS))


def beside(table: pd.DataFrame) -> pd.DataFrame:
    return pairs(table, BY, BANDS)


def said(table: pd.DataFrame) -> str:
    return findings(table, BY, BANDS)[0]


# -- bands ----------------------------------------------------------------------------------------


def test_a_band_is_the_mean_over_sizes_then_over_seeds() -> None:
    short = banded(made_up()).set_index("band")
    assert short["value"].to_dict() == {1: 1.0, 2: 0.5, 4: 0.0, 10: 0.0}
    assert short.loc[2, ["low", "high", "seeds"]].tolist() == [0.0, 1.0, 2]
    assert set(short["measure"]) == {"exact"}


def test_the_mean_has_an_interval_over_seeds() -> None:
    short = banded(ranked(4)).set_index(["setting", "band"])
    values = np.array([0.5, 0.52, 0.54, 0.56])
    found = short.loc[("good", 4), ["value", "mean_low", "mean_high"]].tolist()
    assert found == pytest.approx(seeds_interval(values))
    wild = banded(made_up()).set_index("band")  # a share is no more than 1, and no less than 0
    assert wild.loc[2, ["mean_low", "mean_high"]].tolist() == pytest.approx([0.0, 1.0], abs=0.01)
    assert banded(ranked(1))[["mean_low", "mean_high"]].isna().all(axis=None)


def test_runs_taught_verdicts_are_judged_by_them() -> None:
    """Of one language all are: exactness and recognition are no two ends of one scale."""
    short = banded(made_up(exact=[None] * 10))
    assert set(short["measure"]) == {"recognition"}
    assert set(short["value"]) == {0.5}
    both = pd.concat([made_up(), made_up(variant="verdict", exact=[None] * 10)])
    assert set(banded(both)["measure"]) == {"recognition"}
    assert "(by words recognised on anbn, where verdicts alone are taught)" in said(both)
    apart = pd.concat([made_up(), made_up(language="an", exact=[None] * 10)])
    assert dict(banded(apart).groupby("language")["measure"].first()) == {
        "anbn": "exact", "an": "recognition",
    }  # fmt: skip


def test_lengths_without_members_do_not_water_exactness_down() -> None:
    """Where a run has exactness at all, its lengths without a member say nothing."""
    short = banded(made_up(exact=[1.0, None, 0, 0, 0, 1, None, 1, 0, 0])).set_index("band")
    assert short["value"][1] == 1.0


def test_people_read_a_row_per_setting() -> None:
    row = bands.wide(by_seed(made_up(), BY, BANDS)).iloc[0].to_dict()
    assert row == {
        "setting": "v",
        "anbn x1": "1.00",
        "anbn x2": "0.50 [0.00, 1.00]",
        "anbn x4": "0.00",
        "anbn x10": "0.00",
    }


def test_what_fails_inside_the_window_is_said() -> None:
    assert said(ranked(2)).count("inside the window") == 0
    table = ranked(2)
    table.loc[(table["variant"] == "bad") & (table["n"] == 1), "exact"] = 0.5
    assert "; inside the window bad fails." in said(table)


@pytest.mark.slow
def test_a_sweep_with_bands_keeps_their_table_and_figure(tmp_path: Path) -> None:
    table = ranked(3).assign(
        run="r",
        objective="next-symbols",
        count=8,
        recognition=0.5,
        parameters=1,
        seconds=1.0,
        steps=1,
    )
    arguments = {"by": BY, "compare": BANDS.model_dump(), "question": "?"}
    _keep(tmp_path, Answer(table, *findings(table, BY, BANDS), arguments))
    kept = Answers(tmp_path, bands.NAME).latest()
    assert kept is not None
    pd.testing.assert_frame_equal(kept.table, banded(table))
    values = by_seed(table, BY, BANDS)
    assert len(values) == 3 * 3 * 4  # a tick for every variant, band and seed
    (shown,) = band_chart(values).to_dict()["datasets"].values()
    assert [row["value"] for row in shown] == values["value"].tolist()
    assert kept.folder is not None
    assert (kept.folder / "bands.svg").read_bytes().startswith(b"<svg")


# -- measures -------------------------------------------------------------------------------------


def test_by_default_all_lengths_count_and_members_weigh_as_others() -> None:
    rng = np.random.default_rng(0)
    table = ranked(3)
    table["members"], table["others"] = rng.random((2, len(table)))
    table.loc[table["n"] == 3, "members"] = np.nan
    grid = grids(by_seed(table, BY, Measure()))["anbn"]
    for (variant, seed), rows in table.groupby(["variant", "seed"]):
        assert grid.loc[seed, variant] == pytest.approx(balanced_recognition(rows))
    assert set(by_seed(table, BY, Measure())["measure"]) == {"recognition"}


def test_settings_are_ranked_beyond_the_window_where_there_is_a_beyond() -> None:
    grid = grids(by_seed(ranked(8), BY, BANDS))["anbn"]
    assert list(grid.columns) == ["bad", "good", "torn"]
    assert grid["good"].tolist() == pytest.approx([0.5 + 0.02 * seed for seed in range(8)])
    inside = ranked(2)[lambda rows: rows["n"] <= 2]
    assert (grids(by_seed(inside, BY, BANDS))["anbn"] == 1).all(axis=None)


# -- pairs ----------------------------------------------------------------------------------------


@pytest.mark.slow
def test_the_best_setting_is_compared_over_the_same_seeds() -> None:
    """All pairs of settings count: the seeds also choose which one is best."""
    grid = grids(by_seed(ranked(8), BY, BANDS))["anbn"]
    found = beside(ranked(8))
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
    text = said(ranked(8))
    assert text.startswith(
        "anbn: good: 57.0% on average, 64.0% at best, 0 of 8 seeds perfect; ahead of"
    )
    assert "the nearest other setting, torn, by 0.120 [" in text
    told = f", corrected p = {expected[0]:.2g}, and significantly ahead of 1 of the 2 others."
    assert told in text
    assert "members with every next-symbol set right, mean over the bands of sizes beyond" in text
    assert "paired over 8 seeds: mean difference [95% interval], sign-flip test" in text
    assert "p corrected for all 3 pairs of a language (Holm)." in text


def test_findings_count_what_is_told_after_correction() -> None:
    """good beats near in seven of eight seeds, p = 10/256, of which Holm makes 20/256."""
    gaps = 0.05 * np.array([1, 2, -3, 4, 5, 6, 7, 8])
    near = [0.5 + 0.02 * seed - gap for seed, gap in enumerate(gaps)]
    table = ranked(8)
    for variant, shares in (("torn", near), ("bad", [0.35] * 8)):
        for seed, share in enumerate(shares):
            rows = (table["variant"] == variant) & (table["seed"] == seed) & (table["n"] > 2)
            table.loc[rows, "exact"] = share
    found = beside(table).set_index("other")
    assert found.loc["torn", ["p", "corrected"]].tolist() == pytest.approx([10 / 256, 20 / 256])
    assert "significantly ahead of 1 of the 2 others" in said(table)


@pytest.mark.slow
def test_too_few_seeds_are_said_to_be_too_few() -> None:
    needed = pairs_needed(3)
    assert "too few" not in said(ranked(needed))
    few = said(ranked(needed - 1))
    assert f"{needed - 1} seeds are too few to tell any two apart" in few
    assert f"the exact test needs {needed}." in few
    assert "significantly" not in few


def test_one_seed_tests_nothing() -> None:
    sentence, lone = findings(ranked(1), BY, BANDS)
    assert "One seed tests nothing" in sentence
    assert "significantly" not in sentence
    assert lone["pairs"][0]["low"] is None
    (rows,) = versus(beside(ranked(1))).values()
    assert rows["by [95%]"].tolist() == ["0.400", "0.400"]


@pytest.mark.slow
def test_settings_that_are_equal_share_the_first_place() -> None:
    twin = ranked(8).replace({"variant": {"torn": "twin"}})
    same = twin["variant"] == "twin"
    twin.loc[same, "exact"] = twin.loc[twin["variant"] == "good", "exact"].to_numpy()
    assert "; level with twin; ahead of the nearest other setting, bad," in said(twin)
    assert "significantly ahead of 1 of the 1 others" in said(twin)


def test_a_single_setting_has_no_pairs() -> None:
    for by in (BY, []):
        assert pairs(made_up(), by, Measure()).empty
        assert versus(pairs(made_up(), by, Measure())) == {}
        assert how(pairs(made_up(), by, Measure()), Measure()) == ""
    sentence, found = findings(made_up(), BY, BANDS)
    assert found["pairs"] == []
    assert sentence == "anbn: v: 16.7% on average, 33.3% at best, 0 of 2 seeds perfect."
    assert findings(made_up(), [], BANDS)[0].startswith("anbn: 16.7% on average")


def test_two_settings_need_no_correction() -> None:
    two = ranked(8)[lambda rows: rows["variant"] != "torn"]
    assert "sign-flip test, one pair of settings, so no correction." in said(two)
    assert beside(two)["corrected"].tolist() == beside(two)["p"].tolist()


def test_people_read_how_far_the_others_are_behind() -> None:
    ((title, rows),) = versus(beside(ranked(8))).items()
    assert title == "anbn: good is ahead"
    assert rows["of"].tolist() == ["torn", "bad"]
    gaps = [0.4 + 0.02 * seed for seed in range(8)]
    means = sorted(mean(some) for size in range(1, 9) for some in combinations(gaps, size))
    low, high = means[5], means[-6]  # 2.5% of the 256 ways to flip the signs are 6.4
    assert rows["by [95%]"][1] == f"{mean(gaps):.3f} [{low:.3f}, {high:.3f}]"
    assert rows["p, corrected"][1] == pytest.approx(3 * 2**-7)
    assert rows["seeds"].tolist() == [8, 8]


# -- the lab's own --------------------------------------------------------------------------------


def test_every_size_near_and_some_far() -> None:
    asked = Exam(windows=10, thinned=True, hard=False).tested("an", 25)
    assert asked[:50] == tuple(range(1, 51))
    assert asked[50:75] == tuple(range(52, 101, 2))
    assert asked[75:] == tuple(range(105, 251, 5))
    assert Exam(windows=3, thinned=True, hard=False).tested("an", 2) == (1, 2, 3, 4, 6)


@pytest.mark.parametrize("name", STUDIES)
def test_all_of_a_study_have_the_same_budget_and_nothing_built_in(name: str) -> None:
    file = read(find(name))
    assert file.measure == BANDS
    runs, skipped = plan(file)
    assert not skipped
    for learnt in file.languages:
        configs = [run.config for run in runs if run.config.language == learnt]
        assert len({str(c) for c in configs}) == len(configs)
        assert len({(c.steps, c.batch_size, c.max_n) for c in configs}) == 1
        assert all(c.model.counting == Counting() for c in configs)


def test_shifted_positions_reach_the_longest_test_word() -> None:
    runs, _ = plan(read(find("positions")))
    shifted = [run.config for run in runs if run.variant and run.variant.endswith("-shifted")]
    assert len(shifted) == 2 * 2 * 3
    for config in shifted:
        known = language(config.language)
        longest = known.length_of(10 * config.max_n)
        assert config.max_offset + known.length_of(config.max_n) == longest < config.model.n_ctx
    assert not any(run.config.max_offset for run in runs if run.config not in shifted)


TINY = """
question = "Which?"
languages = ["an"]
seeds = 2
recipe = "plain"
[test]
windows = 4
thinned = true
count = 2
hard = false
[compare]
measure = "exact"
bands = [1, 2, 4]
[fixed]
max_n = 4
steps = 2
[[variants]]
name = "none"
[[variants]]
name = "3-gram"
"model.architecture" = "ngram"
"""


@pytest.mark.slow
def test_one_command_says_bands_and_pairs(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "tiny.toml").write_text(TINY)
    command = ["sweep", str(tmp_path / "tiny.toml"), "--workers", "1"]
    command += ["--out", str(tmp_path / "out")]
    assert main(command) == 0
    words = " ".join(capsys.readouterr().out.split())
    assert words.startswith("Which?")
    assert "an, share right of sizes up to ... windows" in words
    assert "x1 x2 x4" in words
    assert "an: 3-gram is ahead" in words
    assert "by [95%]" in words
    assert "2 seeds are too few to tell any two apart: the exact test needs 6." in words
    names = [path.name for path in find_runs(tmp_path / "out")]
    assert names == [f"an-{variant}-s{seed}" for variant in ("3-gram", "none") for seed in (0, 1)]
    run = Run(tmp_path / "out" / "an-none-s0")
    own = Answers(run.path, "exam").latest()
    assert own is not None
    assert own.model_hash == run.model_hash()
    assert own.table["n"].tolist() == [1, 2, 3, 4, 5, 6, 7, 8, 10, 12, 14, 16]


def test_the_old_command_names_the_new_one(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["compare", "positions"]) == 2
    assert "sweep" in capsys.readouterr().err
