"""Many runs in one table."""

from __future__ import annotations

from pathlib import Path

import pandas as pd
import pytest

from analyses import comparison
from analyses.cli import main
from analyses.comparison import STUDIES, Compare, Study, config_of, sizes, summary, wide
from models.config import ABSOLUTE
from models.languages import language
from models.runs import Run, find_runs, run_name


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
    runs = find_runs(tmp_path / "out")
    assert [path.name for path in runs] == ["an-3-gram-s0", "an-s0"]
    kept = comparison.load(tmp_path / "out", "positions")
    assert kept is not None
    assert list(kept.table["variant"].unique()) == ["none", "3-gram"]
    assert len(kept.table) == 2 * len(sizes(25))
    assert (tmp_path / "out/figures/positions.html").stat().st_size > 10_000
    before = {run: (run / "checkpoints").stat().st_mtime_ns for run in runs}
    assert main(command) == 0  # nothing is trained again
    assert {run: (run / "checkpoints").stat().st_mtime_ns for run in runs} == before
    again = comparison.load(tmp_path / "out", "positions")
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
