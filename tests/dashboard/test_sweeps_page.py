"""The page Sweeps without a browser: what it shows is held against the sweep's own numbers."""

from __future__ import annotations

import io
import sys
from collections.abc import Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import Any
from urllib.parse import quote

import numpy as np
import pandas as pd
import pytest
from compared import plainly
from drawn import read_json
from parts import part
from streamlit.delta_generator import DeltaGenerator
from streamlit.testing.v1 import AppTest
from test_capacity import BY, LAYERS, WIDTH, WINDOW, sized
from test_pages import SHOW, assert_same, drawn, healthy, said

from analyses.answers import Answer, save
from analyses.charts.sweeps import cells, curves, settings_of
from analyses.studies import scaling
from analyses.studies.sweeps import bands, capacity, over_seeds, paired
from analyses.studies.sweeps.further import Name, columns_of
from analyses.studies.sweeps.measures import Measure, by_seed
from analyses.studies.sweeps.summary import findings, readable, summary
from dashboard.pages import OWN
from dashboard.views.compare.sweeps import ENOUGH, PAGES, find_studies
from models.runs.files import write_json

SCRIPT = SHOW.format(page="sweeps")
MEASURE = Measure()
LANGUAGES = {"an": {(1, 4): (2, 6), (2, 4): (6, 6), (1, 8): (1, 2), (2, 8): (5, 6)}}
LANGUAGES |= {"anbn": {(1, 4): (0, 1), (2, 4): (2, 1), (1, 8): (3, 2), (2, 8): (4, 6)}}
FOUND: dict[str, tuple[str, dict[str, Any]]] = {}
CURVES, CELLS, MAP = "Verdicts right, members and others alike by word", "Verdicts right", "Which"
BEST, FACTORS, LAW = "The best against the others", "By two factors", "A power law?"


def table_of() -> pd.DataFrame:
    return _table().copy()


@cache
def _table() -> pd.DataFrame:
    table = pd.concat([sized(holds, name) for name, holds in LANGUAGES.items()], ignore_index=True)
    return table.astype({"n": "Int64", "exact": "Float64"})


def write(
    folder: Path,
    table: pd.DataFrame,
    by: list[str] = BY,
    measure: Measure = MEASURE,
    measures: Sequence[Name] = (),
    diverged: Sequence[Mapping[str, object]] = (),
    left: int = 0,
) -> None:
    """A sweep as `lab sweep` leaves it, but for its runs and figures."""
    asked = (table, by, measure, measures, diverged)
    if (key := repr((table.to_csv(), *asked[1:]))) not in FOUND:  # most tests show one table
        FOUND[key] = findings(*asked)
    sentence, found = FOUND[key]
    arguments = {"by": by, "file": "seeds = 2", "question": f"Why {folder.name}?"}
    arguments |= {"compare": measure.model_dump(), "measures": measures}
    found = {**found, "left": left, "failed": 1}
    found |= {"left_out": ["anbn-s9 failed twice: OSError: no space"]}
    found |= {"diverged": diverged}
    save(folder, "sweep", f"Why {folder.name}?", Answer(table, sentence, found, arguments), None)


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A runs folder with nothing in it, which the page shows."""
    monkeypatch.setattr(sys, "argv", ["app.py", str(tmp_path)])
    return tmp_path


def opened(**link: str | list[str]) -> AppTest:
    """The page by a link."""
    page = AppTest.from_string(SCRIPT, default_timeout=120)
    for key, value in link.items():
        page.query_params[key] = value
    return page.run()


def frame(page: AppTest, *columns: str) -> pd.DataFrame:
    """The one table that has these columns."""
    (found,) = (f.value for f in page.dataframe if {*columns} <= {*f.value.columns})
    return found


def there(page: AppTest) -> list[str]:
    """The names of the page's parts."""
    return [plainly(tab.label) for tab in page.tabs]


def test_where_no_sweep_is_the_command_that_makes_one_is_said(folder: Path) -> None:
    page = healthy(opened())
    assert "`lab sweep capacity`" in page.info[0].value
    assert not page.get("vega_lite_chart")


@pytest.mark.slow
def test_a_sweep_is_shown_with_its_question_sentences_and_summary(folder: Path) -> None:
    table = table_of()
    write(folder / "small", table)
    page = healthy(opened())
    assert "**Why small?**" in said(page)
    for sentence in findings(table, BY, MEASURE)[1]["sentences"]:
        assert f"- {sentence}" in said(page)
    assert "16 runs: 2 languages x n_layers, d_model x 2 seeds; 40 to 160 parameters" in said(page)
    shown = readable(summary(table, BY), BY)
    pd.testing.assert_frame_equal(frame(page, "perfect"), shown, check_dtype=False)
    healthy(part(page, "The sweep's file"))
    assert [code.value for code in page.code] == ["seeds = 2"]


@pytest.mark.slow
def test_an_unfinished_sweep_says_what_is_missing(folder: Path) -> None:
    write(folder / "small", table_of(), left=3)
    page = healthy(opened())
    (told,) = page.info
    assert "16 runs are here, and 3 are missing" in told.value
    healthy(part(page, "Left out: 1"))
    assert "- anbn-s9 failed twice: OSError: no space" in said(page)
    write(folder / "small", table_of())
    assert not healthy(page.run()).info


@pytest.mark.slow
def test_the_pictures_show_the_sweeps_numbers(folder: Path) -> None:
    table = table_of()
    write(folder / "small", table)
    page = healthy(opened())
    seeds, found = curves(table, BY), cells(table, "language", BY[0])
    assert max(map(len, drawn(page, CURVES))) == len(seeds) / 2  # a panel per language
    assert_same(frame(page, "group"), seeds)
    healthy(part(page, FACTORS))
    (grid,) = [data for data in drawn(page, CELLS) if "down" in data]
    assert grid["right"].tolist() == pytest.approx(found["right"].tolist())
    assert_same(frame(page, "right", "low"), found)
    sizes = capacity.capacity_map(table, BY)
    healthy(part(page, "Capacity"))
    assert_same(frame(page, "smallest"), sizes)
    for sentence in capacity.sentences(sizes, BY):
        assert f"- {sentence}" in said(page)
    shares = [data for data in drawn(page, MAP) if "share" in data]
    assert sum(data["frame"].sum() for data in shares) == 2 * 2  # both languages, in both grids


@pytest.mark.slow
def test_filters_hold_for_the_whole_page_and_come_by_the_link(folder: Path) -> None:
    table = table_of()
    write(folder / "small", table)
    page = healthy(opened(only_language="anbn", only_d_model="8", only_seed=["1"]))
    rows = table[(table["language"] == "anbn") & (table[WIDTH] == 8) & (table["seed"] == 1)]
    assert_same(frame(page, "group"), curves(rows, BY))
    assert len(frame(page, "perfect")) == 2
    part(page, FACTORS)
    assert_same(frame(page, "right", "low"), cells(rows, "language", BY[0]))
    part(page, "Capacity")
    assert_same(frame(page, "smallest"), capacity.capacity_map(rows, BY))
    healthy(part(page, "Runs"))
    assert frame(page, "recognition")["run"].tolist() == ["anbn-1-8-1", "anbn-2-8-1"]
    by_key = {group.key: group for group in page.get("button_group")}
    healthy(by_key["only_language"].set_value(["an"]).run())
    assert set(frame(page, "recognition")["language"]) == {"an"}


@pytest.mark.slow
def test_any_two_factors_of_any_words_can_be_chosen(folder: Path) -> None:
    table = table_of()
    write(folder / "small", table)
    link = {"down": "d_model", "across": "seed", "measured": "exact", "words": "beyond it"}
    page = healthy(opened(part_of_sweep=FACTORS, **link))
    beyond = table[table["length"] > WINDOW]
    assert_same(frame(page, "right", "low"), cells(beyond, WIDTH, "seed", "exact"))
    page.selectbox(key="down").set_value("seed").run()  # what is across cannot be down
    assert page.selectbox(key="across").value != "seed"
    assert "seed" not in page.selectbox(key="across").options
    healthy(page)


@pytest.mark.slow
@pytest.mark.parametrize("measure", ["exact", "members", "others"])
def test_curves_of_another_measure(folder: Path, measure: str) -> None:
    table = table_of()
    write(folder / "small", table)
    page = healthy(opened(curve=measure))
    assert_same(frame(page, "group"), curves(table, BY, measure))


@pytest.mark.slow
def test_a_measure_that_no_run_has_is_not_offered(folder: Path) -> None:
    write(folder / "small", table_of().assign(exact=pd.NA).astype({"exact": "Float64"}))
    page = healthy(part(opened(), FACTORS))
    measures = {group.key: group.options for group in page.get("button_group")}
    for key in ("curve", "measured"):
        assert measures[key] == ["recognition", "members", "others"]


@pytest.mark.slow
@pytest.mark.parametrize("enough", ENOUGH)
def test_how_many_seeds_are_enough_is_chosen(folder: Path, enough: str) -> None:
    table = table_of()
    write(folder / "small", table)
    page = healthy(opened(part_of_sweep="Capacity", enough=enough))
    assert_same(frame(page, "smallest"), capacity.capacity_map(table, BY, ENOUGH[enough]))


@pytest.mark.slow
def test_no_map_where_one_size_varies(folder: Path) -> None:
    write(folder / "small", table_of(), [WIDTH])
    names = there(healthy(opened()))
    assert FACTORS in names
    assert "Capacity" not in names


@pytest.mark.slow
def test_no_word_of_the_kind_is_said(folder: Path) -> None:
    table = table_of()
    write(folder / "small", table[table["length"] <= WINDOW])
    page = healthy(opened(part_of_sweep=FACTORS, words="beyond it"))
    assert "words: beyond it" in page.info[0].value


def test_runs_that_do_not_exist_together_are_said_to(folder: Path) -> None:
    table = table_of()
    write(folder / "small", table[(table["language"] == "an") | (table[WIDTH] == 4)])
    page = healthy(opened(only_language="anbn", only_d_model="8"))
    assert "take one away" in page.info[0].value


@pytest.mark.slow
def test_a_bad_link_shows_the_defaults(folder: Path) -> None:
    write(folder / "small", table_of())
    keys = ("sweep", "only_language", "only_d_model", "curve", "down", "across", "measured")
    link = dict.fromkeys((*keys, "words", "enough"), "nonsense")
    page, plain = healthy(opened(part_of_sweep="nonsense", **link)), healthy(opened())
    assert_alike(page, plain)
    for name in there(plain):
        assert_alike(healthy(part(opened(**link), name)), healthy(part(plain, name)))


def assert_alike(page: AppTest, plain: AppTest) -> None:
    """The pages have equal tables."""
    for one, other in zip(page.dataframe, plain.dataframe, strict=True):
        pd.testing.assert_frame_equal(one.value, other.value)


@pytest.mark.slow
def test_a_link_to_another_sweeps_filters_does_not_break_this_one(folder: Path) -> None:
    """The choices of one sweep are no choices of the next."""
    table = table_of()
    write(folder / "first", table)
    write(folder / "second", table[table["language"] == "an"].assign(**{"model.bias": True}), BY)
    page = part(opened(only_language="anbn", down="language", across="seed"), FACTORS)
    assert_same(
        frame(healthy(page), "right", "low"),
        cells(table[table["language"] == "anbn"], "language", "seed"),
    )
    page.selectbox(key="sweep").set_value("second").run()
    healthy(part(healthy(page), "Runs"))
    assert set(frame(page, "recognition")["language"]) == {"an"}


@pytest.mark.slow
def test_the_runs_of_the_folder_itself_are_linked(folder: Path) -> None:
    write(folder / "below", table_of())
    page = healthy(part(opened(), "Runs"))
    assert not {*PAGES} & {*frame(page, "recognition")}
    assert f"`lab dashboard {folder / 'below'}`" in said(page)
    table = table_of()
    table["run"] = table["run"] + " &?"
    write(folder / "own", table)
    (folder / "own" / "results").rename(folder / "results")
    page = healthy(part(opened(), "Runs"))
    assert page.selectbox(key="sweep").options[0] == folder.name
    links = frame(page, "recognition")
    for title, where in PAGES.items():
        assert links[title].tolist() == [f"/{where}?run={quote(name)}" for name in links["run"]]
    assert "&" not in links["runs"][0].partition("run=")[2]


@pytest.mark.slow
def test_sweeps_are_found_wherever_they_lie_but_not_inside_runs(tmp_path: Path) -> None:
    for name in (".", "b", "a/deep", "one/two/three", "one/two/three/four", ".hidden", "run/in"):
        write(tmp_path / name, table_of())
    (tmp_path / "run" / "run.json").write_text("{}")
    (tmp_path / "half" / "results" / ".sweep-1.partial").mkdir(parents=True)
    found = [path.relative_to(tmp_path).as_posix() for path in find_studies(tmp_path, "sweep")]
    assert found == [".", "a/deep", "b", "one/two/three"]
    assert find_studies(tmp_path / "missing", "sweep") == []


def test_a_page_of_studies_is_listed_once_there_is_one(folder: Path) -> None:
    assert not OWN["sweeps"].applies(None)
    write(folder / "a", table_of())
    assert OWN["sweeps"].applies(None)
    assert not OWN["scoreboard"].applies(None)


@pytest.mark.slow
@pytest.mark.parametrize("damage", ["table", "columns", "record"])
def test_a_damaged_sweep_is_one_line_and_leaves_the_others(folder: Path, damage: str) -> None:
    write(folder / "a", table_of())
    write(folder / "b", table_of())
    results = folder / "a" / "results" / "sweep-1"
    if damage == "table":
        (results / "sweep.parquet").write_bytes(b"PAR1")
    elif damage == "columns":
        table_of().drop(columns="others").to_parquet(results / "sweep.parquet")
    else:
        record = read_json(results / "sweep.json")
        del record["findings"]
        write_json(results / "sweep.json", record)
    page = opened()
    assert not page.exception
    (error,) = page.error
    assert "damaged" in error.value
    assert "\n" not in error.value
    page.selectbox(key="sweep").set_value("b").run()
    assert "**Why b?**" in said(healthy(page))


@pytest.mark.slow
def test_downloads_hold_what_is_shown(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    files = {}

    def keep(self: object, label: str, data: object, name: str, *_: str, **__: str) -> None:
        files[name] = data

    monkeypatch.setattr(DeltaGenerator, "download_button", keep)
    table = table_of()
    write(folder / "small", table)
    part(part(opened(down="d_model", across="seed"), FACTORS), "Capacity")
    found = {
        "sweep-by-length": curves(table, BY),
        "sweep-d_model-seed": cells(table, WIDTH, "seed"),
    }
    found["capacity"] = capacity.capacity_map(table, BY)
    for name, expected in found.items():
        written = pd.read_csv(io.BytesIO(files[f"{name}.csv"]))
        (origin,) = set(written.pop("origin"))
        assert f"question: {name};" in origin
        assert "down=d_model" in origin
        assert len(written) == len(expected)
        assert written.to_csv(index=False) == expected.to_csv(index=False)
        assert files[f"{name}.svg"]().startswith(b"<svg")
    assert files["capacity.png"]().startswith(b"\x89PNG")
    page = files["capacity.html"]()
    assert b"windows it holds" in page
    assert b"<script src" not in page  # it opens offline
    assert set(settings_of(table, BY)) <= {*found["sweep-by-length"]["setting"]}


@pytest.mark.slow
def test_a_sweep_of_one_seed_and_no_variation(folder: Path) -> None:
    """Nothing to filter, no band, a single setting."""
    table = table_of()
    alone = table[(table["run"] == "an-1-4-0")]
    write(folder / "one", alone, [])
    page = healthy(opened())
    assert not [group for group in page.get("button_group") if "only" in group.key]
    assert_same(frame(page, "group"), curves(alone, []))


@pytest.mark.slow
def test_the_best_setting_is_held_beside_the_others(folder: Path) -> None:
    """What the filters leave is compared; of a single setting nothing is."""
    table = table_of()
    write(folder / "small", table)
    page = healthy(opened(only_language="an", only_n_layers="2"))
    rows = table[(table["language"] == "an") & (table[LAYERS] == 2)]
    tested = paired.pairs(rows, BY, MEASURE)
    healthy(part(page, BEST))
    ((title, expected),) = paired.versus(tested).items()
    shown = frame(page, "p, corrected")
    assert set(shown["best"]) == {title}
    assert_same(shown.drop(columns="best"), expected)
    assert paired.how(tested, MEASURE) in [plainly(caption.value) for caption in page.caption]
    assert "By windows" not in there(page)
    alone = healthy(part(opened(only_n_layers="2", only_d_model="4"), BEST))
    assert [info.value for info in alone.info] == ["There is a single setting."]
    assert not [f for f in alone.dataframe if "p, corrected" in f.value]


@pytest.mark.slow
def test_a_sweep_with_bands_shows_them(folder: Path) -> None:
    table = table_of()
    asked = Measure(measure="exact", bands=[1, 3])
    write(folder / "banded", table, BY, asked)
    page = healthy(opened())
    values = by_seed(table, BY, asked)
    healthy(part(page, "By windows"))
    assert_same(frame(page, "setting", "an x1", "anbn x3"), bands.wide(values))
    assert_same(frame(page, "mean_low"), bands.summary(values))
    (shown,) = [data for data in drawn(page, "Share right by setting") if "band" in data]
    assert len(shown) == len(values) == 2 * 4 * 2 * 2
    healthy(part(page, BEST))
    assert_same(frame(page, "p, corrected")[["of"]], pairs_in_words(table, asked)[["of"]])


def pairs_in_words(table: pd.DataFrame, asked: Measure) -> pd.DataFrame:
    return pd.concat(paired.versus(paired.pairs(table, BY, asked)).values())


@pytest.mark.slow
def test_further_measures_are_summed_up_and_drawn(folder: Path) -> None:
    table = table_of()
    excess = 1 / table["parameters"] + 0.001 * table["seed"]
    table = table.assign(**dict.fromkeys(columns_of(["loss"]), np.nan))
    table = table.assign(**{"loss.excess": excess})
    lost = [{"run": "x", "language": "an", "seed": 2, "model.n_layers": 1, "model.d_model": 4}]
    write(folder / "small", table, measures=["loss"], diverged=lost)
    page = healthy(part(opened(along="d_model"), "Further measures"))
    shown = over_seeds.wide(over_seeds.over_seeds(table, BY, ["loss"], pd.DataFrame(lost)), BY)
    found = frame(page, "excess", "diverged")
    pd.testing.assert_frame_equal(found, shown["loss"], check_dtype=False)
    assert found["diverged"].tolist() == [1, *[0] * 7]
    points = [data for data in drawn(page, "Loss above the language") if "seed" in data]
    values = pd.concat(points)["value"]
    assert sorted(values) == pytest.approx(sorted(excess[~table["run"].duplicated()]))
    assert set(pd.concat(points)["place"]) == {4.0, 8.0}
    healthy(part(page, "By setting"))
    assert frame(page, "perfect")["diverged"].tolist() == [1, *[0] * 7]


@pytest.mark.slow
def test_the_law_of_the_loss_is_told(folder: Path) -> None:
    sizes = [1e2, 1e3, 1e4, 1e5, 1e6]
    table = pd.concat(
        [table_of().assign(parameters=size, **{"model.d_model": int(size)}) for size in sizes]
    )
    table["run"] = table["run"] + "-" + table["parameters"].astype(str)
    table = table.assign(**dict.fromkeys(columns_of(["loss"]), np.nan))
    noise = np.exp(np.random.default_rng(0).normal(0, 0.1, len(table)))
    table["loss.excess"] = 3 * table["parameters"] ** -0.25 * noise
    table["loss.excess"] = table.groupby("run")["loss.excess"].transform("first")
    write(folder / "large", table, measures=["loss"])
    page = healthy(part(opened(), LAW))
    runs = scaling.of_table(table, BY, "parameters")
    laws = scaling.laws(runs)
    for sentence in scaling.in_words(runs, laws, "parameters"):
        assert sentence in said(page)
    pd.testing.assert_frame_equal(frame(page, "law", "alpha"), laws)
    assert laws.loc[laws["law"] == "power", "alpha"].tolist() == pytest.approx([0.25] * 2, abs=0.02)
    write(folder / "large", table.assign(**{"loss.excess": np.nan}), measures=["loss"])
    assert LAW not in there(healthy(opened()))
