"""The map of sizes and the charts of a sweep, against hand-made tables and plain loops."""

from __future__ import annotations

from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from conftest import without_pictures

from analyses.answers import Answer
from analyses.charts.sweeps import (
    LEGIBLE,
    MEASURES,
    _bands,
    _ordered,
    cells,
    curves,
    factors,
    length_chart,
    settings_of,
    two_factors,
)
from analyses.options.shipped import find
from analyses.studies.sweeps import run as sweep
from analyses.studies.sweeps.capacity import (
    _accuracy,
    _by_run,
    capacity_map,
    chart,
    findings,
    has_map,
    sentences,
)
from analyses.studies.sweeps.file import read
from analyses.studies.sweeps.measures import Measure, balanced_recognition
from analyses.studies.sweeps.plan import plan
from analyses.studies.sweeps.run import load
from analyses.studies.sweeps.summary import findings as sweep_findings
from interp.statistics import seeds_interval
from models.errors import UserError
from models.runs.files import write_json

LAYERS, HEADS, WIDTH = "model.n_layers", "model.n_heads", "model.d_model"
BY = [LAYERS, WIDTH]
FINISHED = {"left": 0, "failed": 0, "left_out": [], "diverged": []}
ASKED = {"by": BY, "file": "", "question": "?", "compare": {}, "measures": []}
WINDOW, LAST = 2, 6


def run_rows(language: str, seed: int, setting: dict[str, Any], holds: int) -> pd.DataFrame:
    """A run whose lengths 1 to ``holds`` are right; the parameters grow with all sizes."""
    lengths = np.arange(1, LAST + 1)
    parameters = setting.get(LAYERS, 1) * setting.get(WIDTH, 4) * 10
    name = "-".join(map(str, [language, *setting.values(), seed]))
    table = pd.DataFrame({"length": lengths, "exact": (lengths <= holds).astype(float)})
    table = table.assign(
        run=name, language=language, seed=seed, window=WINDOW, n=lengths, **setting
    )
    table = table.assign(members=table["exact"], others=1.0, recognition=0.5 + table["exact"] / 2)
    return table.assign(
        objective="next-symbols", parameters=parameters, count=8, seconds=1.0, steps=5
    )


def sized(holds: dict[tuple[int, int], tuple[int, ...]], language: str = "anbn") -> pd.DataFrame:
    """By layers and width, how far each seed holds."""
    parts = [
        run_rows(language, seed, {LAYERS: layers, WIDTH: width}, far)
        for (layers, width), seeds in holds.items()
        for seed, far in enumerate(seeds)
    ]
    return pd.concat(parts, ignore_index=True)


HOLDS = {(1, 4): (0, 1), (2, 4): (1, 3), (1, 8): (1, 1), (2, 8): (2, 6), (1, 16): (6, 6)}


def test_the_map_counts_the_seeds_that_learn_and_says_how_far_they_hold() -> None:
    found = capacity_map(sized(HOLDS), BY)
    assert found["parameters"].tolist() == [40, 80, 80, 160, 160]  # the smallest first
    sizes = list(zip(found[LAYERS], found[WIDTH], strict=True))
    assert sizes == [(1, 4), (1, 8), (2, 4), (1, 16), (2, 8)]  # of equals the shallower first
    assert found["seeds"].tolist() == [2] * 5
    assert found["learned"].tolist() == [0, 0, 1, 2, 2]
    assert found["holds"].tolist() == [0.25, 0.5, 1.0, 3.0, 2.0]
    assert found["holds_min"].tolist() == [0, 0.5, 0.5, 3, 1]
    assert found["holds_max"].tolist() == [0.5, 0.5, 1.5, 3, 3]
    assert set(found["tested"]) == {3.0}
    assert found["enough"].tolist() == [False, False, False, True, True]
    assert found["smallest"].tolist() == [False, False, False, True, False]


@pytest.mark.parametrize(("share", "smallest"), [(1.0, (1, 16)), (0.5, (2, 4)), (0.0, (2, 4))])
def test_a_share_of_the_seeds_may_be_enough(share: float, smallest: tuple[int, int]) -> None:
    """At least one seed has to learn it, whatever the share."""
    found = capacity_map(sized(HOLDS), BY, share)
    (row,) = found[found["smallest"]].to_dict("records")
    assert (row[LAYERS], row[WIDTH]) == smallest


def test_a_gap_ends_what_is_held() -> None:
    """Right again after a mistake does not count; nor does a mistake beyond the window."""
    table = run_rows("an", 0, {LAYERS: 1, WIDTH: 4}, LAST)
    table.loc[table["length"] == 4, "exact"] = 0.9
    (row,) = _by_run(table, BY).to_dict("records")
    assert (row["learned"], row["holds"], row["tested"]) == (True, 1.5, 3.0)
    table.loc[table["length"] == 2, "exact"] = 0.9
    (row,) = _by_run(table.iloc[::-1], BY).to_dict("records")  # in any order
    assert (row["learned"], row["holds"]) == (False, 0.5)


@pytest.mark.parametrize(
    ("exact", "members", "others", "expected"),
    [
        (1.0, 1.0, 1.0, 1.0),
        (1.0, 1.0, 0.5, 0.75),  # exact, and yet it accepts words that are none
        (0.5, 1.0, 1.0, 0.75),  # every verdict right, not every next symbol
        (None, 1.0, 1.0, 1.0),
        (None, 0.5, 1.0, 0.75),
        (None, None, 1.0, 1.0),
        (None, None, 0.0, 0.0),
        (None, 1.0, None, 1.0),
    ],
)
def test_right_is_exact_and_no_other_word_accepted(
    exact: float | None, members: float | None, others: float | None, expected: float
) -> None:
    row = pd.DataFrame({"exact": [exact], "members": [members], "others": [others]})
    assert _accuracy(row.astype("Float64")).tolist() == [expected]


def test_who_accepts_longer_words_that_are_none_does_not_hold_there() -> None:
    table = run_rows("an", 0, {LAYERS: 1, WIDTH: 4}, LAST)
    table.loc[table["length"] == 5, "others"] = 0.75
    (row,) = _by_run(table, BY).to_dict("records")
    assert (row["learned"], row["holds"]) == (True, 2.0)


@pytest.mark.slow
def test_the_map_is_what_plain_loops_find() -> None:
    """Random tables with a second setting and sizes of one number of parameters."""
    rng = np.random.default_rng(0)
    by = ["variant", LAYERS, HEADS, WIDTH]
    for _ in range(3):
        parts = []
        for language, variant, layers, heads, width, seed in product(
            ("an", "anbn"), ("x", "y"), (1, 2), (1, 2), (4, 8), range(3)
        ):
            setting = {"variant": variant, LAYERS: layers, HEADS: heads, WIDTH: width}
            parts.append(run_rows(language, seed, setting, int(rng.integers(0, LAST + 1))))
        table = pd.concat(parts, ignore_index=True)
        share = float(rng.choice([1 / 3, 0.5, 1]))
        found = capacity_map(table, by, share)
        assert len(found) == 32
        for (language, variant), part in found.groupby(["language", "variant"]):
            best = None
            for row in part.to_dict("records"):
                held = []
                for seed in range(3):
                    own = table[(table["language"] == language) & (table["seed"] == seed)]
                    for key in by:
                        own = own[own[key] == row[key]]
                    right = dict(zip(own["length"], own["exact"] == 1, strict=True))
                    far = 0
                    while right.get(far + 1, False):
                        far += 1
                    held.append(far)
                learned = sum(far >= WINDOW for far in held)
                assert row["learned"] == learned
                assert row["holds"] == pytest.approx(np.mean(held) / WINDOW)
                assert (row["holds_min"], row["holds_max"]) == (min(held) / 2, max(held) / 2)
                assert row["of"] == f"{language}, {variant}"
                rank = (row["parameters"], row[LAYERS], row[HEADS], row[WIDTH])
                if learned >= 1 and learned / 3 >= share - 1e-9:
                    best = min(best or rank, rank)
            marked = part[part["smallest"]][["parameters", LAYERS, HEADS, WIDTH]]
            assert marked.to_numpy().tolist() == ([] if best is None else [list(best)])


def said(holds: dict[tuple[int, int], tuple[int, ...]], share: float = 1.0) -> str:
    (sentence,) = sentences(capacity_map(sized(holds), BY, share), BY)
    return sentence


def test_a_sentence_says_from_which_size_on() -> None:
    assert said(HOLDS) == (
        "anbn: learned by all 2 seeds from 1 layer, width 16 (160 parameters) on; smaller sizes "
        "fail. It holds as far as tested, up to 3 training windows."
    )
    assert said(HOLDS, 0.5) == (
        "anbn: learned by 1 of 2 seeds from 2 layers, width 4 (80 parameters) on; smaller sizes "
        "fail. It holds up to 1 training windows on average (seeds 0.5 to 1.5); 3 were tested."
    )


def test_a_sentence_does_not_say_on_where_a_larger_size_fails() -> None:
    holds = {(1, 4): (2, 4), (1, 8): (0, 0), (1, 16): (2, 2)}
    assert said(holds) == (
        "anbn: learned by all 2 seeds with 1 layer, width 4 (40 parameters), and with 1 of the 2 "
        "larger sizes; this is the smallest size tried. It holds up to 1.5 training windows on "
        "average (seeds 1 to 2); 3 were tested."
    )


def test_a_sentence_says_what_comes_nearest_or_that_nothing_does() -> None:
    assert said({(1, 4): (0, 0), (1, 8): (0, 2), (1, 16): (0, 4)}) == (
        "anbn: no size tried is enough; at the nearest, 1 layer, width 16 (160 parameters), it is "
        "learned by 1 of 2 seeds."
    )
    nothing = said({(1, 4): (0, 1), (1, 8): (1, 1)})
    assert nothing == "anbn: none of its 2 seeds learns it at any size tried."
    alone = said({(1, 4): (0,), (1, 8): (1,)})
    assert alone == "anbn: its one seed does not learn it at any size tried."


def test_there_is_a_map_where_two_sizes_vary_and_the_window_was_tested() -> None:
    table = sized(HOLDS)
    assert has_map(table, BY)
    assert set(findings(table, BY)) == {"capacity"}
    beyond = table[table["length"] > WINDOW]
    for rows, by in ((table, [LAYERS]), (table, [LAYERS, "steps"]), (beyond, BY)):
        assert not has_map(rows, by)
        assert findings(rows, by) == {}


@pytest.mark.slow
def test_the_figure_frames_the_smallest_size_and_colours_its_seeds() -> None:
    both = pd.concat([sized(HOLDS), sized({(1, 4): (0, 1), (2, 8): (1, 1)}, "parity")])
    picture = chart(both, BY).to_dict()
    assert [row["title"]["text"] for row in picture["vconcat"]] == ["anbn", "parity"]
    framed, coloured = [], []
    for row in picture["vconcat"]:
        grid, _, lines = row["hconcat"]
        data = picture["datasets"][grid["data"]["name"]]
        framed.append([(cell["down"], cell["across"]) for cell in data if cell["frame"]])
        kept = [layer for layer in lines["layer"] if layer["mark"]["type"] == "line"]
        coloured.append((kept[1]["transform"][0]["filter"], kept[1]["mark"]["color"]))
        assert len({layer["mark"]["color"] for layer in kept}) == 2
    assert framed == [[("1 layer", 16)], []]
    (first, orange), (second, other) = coloured
    assert "n_layers 1, d_model 16" in str(first)
    assert "n_layers 2, d_model 8" in str(second)
    assert orange != other


def keep(out: Path, result: Answer) -> None:
    """As `lab sweep` does."""
    sweep._keep(out, result)


@pytest.mark.slow
def test_a_saved_sweep_has_its_map_beside_it(tmp_path: Path) -> None:
    table = sized(HOLDS).astype({"n": "Int64", "exact": "Float64"})
    sentence, found = sweep_findings(table, BY, Measure())
    result = Answer(table, sentence, found | FINISHED, ASKED)
    keep(tmp_path, result)
    kept = pd.read_parquet(tmp_path / "results/capacity-1/capacity.parquet")
    pd.testing.assert_frame_equal(kept, capacity_map(table, BY))
    assert (tmp_path / "results/capacity-1/capacity.svg").read_bytes().startswith(b"<svg")
    assert b"windows it holds" in (tmp_path / "results/capacity-1/capacity.html").read_bytes()
    again = load(tmp_path)
    assert again is not None
    assert again.findings["capacity"] == sentences(capacity_map(table, BY), BY)


@pytest.mark.slow
@pytest.mark.parametrize("damage", ["table", "record", "columns", "by"])
def test_a_damaged_sweep_is_one_clear_line(tmp_path: Path, damage: str) -> None:
    table = sized(HOLDS)
    sentence, found = sweep_findings(table, BY, Measure())
    result = Answer(table, sentence, found | FINISHED, ASKED)
    with without_pictures():
        keep(tmp_path, result)
    results = tmp_path / "results" / "sweep-1"
    if damage == "table":
        (results / "sweep.parquet").write_bytes(b"PAR1 and no more")
    elif damage == "record":
        (results / "sweep.json").write_text("{")
    elif damage == "columns":
        table.drop(columns="window").to_parquet(results / "sweep.parquet")
    else:
        record = {"sentence": "?", "arguments": [], "findings": {}, "model_hash": ""}
        write_json(results / "sweep.json", record)
    with pytest.raises(UserError, match="damaged") as raised:
        load(tmp_path)
    assert "\n" not in str(raised.value)


def test_the_shipped_sweep_has_a_map_of_seven_languages() -> None:
    runs, skipped = plan(read(find("capacity")))
    assert skipped == []
    assert len(runs) == 7 * 2 * 2 * 4 * 3
    assert {run.config.model.d_mlp for run in runs} == {32}
    assert set(runs[0].varied) == {LAYERS, HEADS, WIDTH}


# -- the charts -----------------------------------------------------------------------------------


def uneven() -> pd.DataFrame:
    """Two languages, two widths, three seeds; members and others differ, one length has none."""
    rng = np.random.default_rng(1)
    table = pd.concat([sized({(1, 4): (0, 1, 2), (1, 8): (3, 4, 6)}, name) for name in ("an", "b")])
    table = table.reset_index(drop=True)
    table["members"], table["others"] = rng.random((2, len(table)))
    table.loc[table["length"] == 3, ["exact", "members"]] = np.nan
    return table


@pytest.mark.parametrize("measure", MEASURES)
def test_curves_are_the_measure_and_bands_its_mean_over_seeds(measure: str) -> None:
    table, by = uneven(), [WIDTH]
    seeds = curves(table, by, measure)
    for row in seeds.to_dict("records"):
        own = table[(table["language"] == row["language"]) & (table["seed"] == row["seed"])]
        own = own[("d_model " + own[WIDTH].astype(str) == row["setting"])]
        (own,) = own[own["length"] == row["length"]].to_dict("records")  # few: a group is a length
        halves = [own["members"], own["others"]] if measure == "recognition" else [own[measure]]
        assert row["right"] == pytest.approx(np.nanmean(halves))
    defined = {1, 2, 4, 5, 6} | ({3} if measure in ("recognition", "others") else set())
    assert set(seeds["length"]) == defined
    means = _bands(seeds)
    assert len(means) == len(seeds) / 3
    for row in means.to_dict("records"):
        same = seeds[(seeds["language"] == row["language"]) & (seeds["length"] == row["length"])]
        values = same[same["setting"] == row["setting"]]["right"].to_numpy()
        mean, low, high = seeds_interval(values, shares=True)
        assert (row["right"], row["seeds"]) == (pytest.approx(mean), 3)
        assert row["low"] == pytest.approx(max(low, 0))
        assert row["high"] == pytest.approx(min(high, 1))


def test_one_seed_has_no_band() -> None:
    alone = uneven()
    means = _bands(curves(alone[alone["seed"] == 0], [WIDTH]))
    assert means[["low", "high"]].isna().all(axis=None)


def test_neighbouring_lengths_are_averaged() -> None:
    lengths = np.arange(1, 97)
    table = pd.DataFrame({"language": "an", "seed": 0, "length": lengths, "window": 9})
    table = table.assign(exact=(lengths % 4 == 0).astype(float))
    found = curves(table, [], "exact")
    assert found["length"].tolist() == [4 * k + 2.5 for k in range(24)]
    assert set(found["right"]) == {0.25}
    assert set(found["setting"]) == {"all"}


@pytest.mark.parametrize("settings", [LEGIBLE, LEGIBLE + 1])
def test_every_seed_and_the_band_are_drawn_while_they_can_be_told_apart(settings: int) -> None:
    widths = {(1, 4 + k): (1, 2) for k in range(settings)}
    picture = length_chart(sized(widths), BY).to_dict()
    (panel,) = picture["concat"]
    marks = [layer["mark"]["type"] for layer in panel["layer"]]
    few = settings <= LEGIBLE
    assert marks == [*(["area", "line"] if few else []), "line", "point", "rule"]
    (rule,) = picture["datasets"][panel["layer"][-1]["data"]["name"]]
    assert rule == {"window": WINDOW}


def test_a_setting_names_its_field_where_the_value_does_not_tell() -> None:
    table = pd.DataFrame({"variant": ["lstm"], "model.positions": ["none"], "model.bias": [True]})
    assert settings_of(table, list(table)).tolist() == ["lstm, positions none, bias true"]


@pytest.mark.parametrize("measure", MEASURES)
@pytest.mark.parametrize(("row", "column"), [("language", WIDTH), (WIDTH, "seed"), ("seed", WIDTH)])
def test_cells_are_means_over_everything_else(row: str, column: str, measure: str) -> None:
    table = uneven()
    found = cells(table, row, column, measure)
    assert len(found) == table[row].nunique() * table[column].nunique()
    for cell in found.to_dict("records"):
        own = table[(table[row] == cell[row]) & (table[column] == cell[column])]
        seeds = []
        for _, of_seed in own.groupby("seed"):
            runs = [
                balanced_recognition(rows) if measure == "recognition" else rows[measure].mean()
                for _, rows in of_seed.groupby("run")
            ]
            seeds.append(np.mean(runs))
        mean, low, high = seeds_interval(np.array(seeds))
        assert cell["right"] == pytest.approx(mean)
        assert (cell["seeds"], cell["runs"]) == (len(seeds), own["run"].nunique())
        assert cell["low"] == pytest.approx(max(low, 0), nan_ok=True)
        assert cell["high"] == pytest.approx(min(high, 1), nan_ok=True)


def test_cells_weigh_seeds_alike_and_leave_out_what_is_not_defined() -> None:
    table = pd.concat([sized({(1, 4): (6, 0), (2, 4): (6,)}), sized({(1, 4): (0,)}, "an")])
    found = cells(table, "language", "objective", "exact").set_index("language")
    assert found.loc["anbn", ["right", "seeds", "runs"]].tolist() == [0.5, 2, 3]  # not 2 of 3
    table.loc[table["language"] == "an", "exact"] = np.nan
    assert cells(table, "language", WIDTH, "exact")["language"].tolist() == ["anbn"]
    none = cells(table[table["language"] == "an"], "language", WIDTH, "exact")
    assert none.empty
    assert "right" in none


def test_the_factors_are_all_that_varies() -> None:
    table = uneven()
    assert factors(table, [WIDTH]) == ["language", WIDTH, "seed"]
    table.loc[0, "objective"] = "verdict"
    assert factors(table, [WIDTH]) == ["language", WIDTH, "seed", "objective"]
    assert factors(table, ["objective"]) == ["language", "objective", "seed"]


def test_an_axis_of_numbers_ascends_and_one_of_names_does_not() -> None:
    assert _ordered(pd.Series([16, 4, 8, 4])) == ["4", "8", "16"]
    assert _ordered(pd.Series(["parity", "an"])) == ["parity", "an"]


def test_the_heatmap_shows_every_cell() -> None:
    picture = two_factors(uneven(), "language", WIDTH).to_dict()
    (data,) = picture["datasets"].values()
    shown = {(cell["down"], cell["across"]): cell["right"] for cell in data}
    found = cells(uneven(), "language", WIDTH)
    keys = zip(found["language"], found[WIDTH].astype(str), strict=True)
    assert shown == pytest.approx(dict(zip(keys, found["right"], strict=True)))
    assert picture["layer"][0]["encoding"]["x"]["sort"] == ["4", "8"]
