"""Sweeps: many runs from one file, shown by length, by any two factors, and by model size."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pandas as pd
import streamlit as st

from analyses.answer_files import folders_of
from analyses.answers import Answer
from analyses.charts.sweeps import (
    LEGIBLE,
    MEASURES,
    band_chart,
    cells,
    curves,
    factors,
    length_chart,
    settings_of,
    short,
    two_factors,
)
from analyses.options.shipped import shipped
from analyses.studies.sweeps import bands, capacity, paired
from analyses.studies.sweeps import run as sweep
from analyses.studies.sweeps.measures import Measure, balanced_recognition, by_seed
from analyses.studies.sweeps.summary import LEGEND, readable, summary
from dashboard import controls
from dashboard.downloads import downloads
from dashboard.drawing import Parts, picture, says, tabs
from dashboard.markup import code, text
from dashboard.selection import runs_folder
from dashboard.views.compare.sweep_measures import by_which_law, further
from models.errors import lab
from models.runs.folders import RUN_FILE

EVERY = 10.0
"""Seconds between two looks at a sweep that goes on."""

DEPTH = 3
"""The depth below the runs folder, in folders, to which sweeps are looked for."""

WORDS = ("all", "inside the window", "beyond it")
ENOUGH = {"all seeds": 1.0, "half of them": 0.5, "one": 0.0}
"""The reader's choices: how many seeds must learn a language, with the share this stands for."""

PAGES = {"runs": "runs", "heads": "heads", "probing": "probing"}
"""The pages that the table of runs links to: the address by the column's name."""


def show() -> None:
    """The page."""
    paths = find_studies(runs_folder(), sweep.NAME)
    if not paths:
        st.info(says("sweeps: none", folder=runs_folder(), shipped=", ".join(shipped())))
        return
    names = {name_of(path): path for path in paths}
    chosen = st.selectbox("Sweep", list(names), key="sweep", bind="query-params")
    path = names[chosen]
    result = sweep.load(path)
    if result is None:
        st.info(says("sweeps: another version", path=path))
        return
    table, by = result.table, list(result.arguments["by"])
    if result.findings["left"]:
        _grows(path, result)
    st.markdown(f"**{text(result.arguments['question'])}**")
    st.markdown("\n".join(f"- {text(sentence)}" for sentence in result.findings["sentences"]))
    st.caption(text(_about(table, by)))
    picked = _filters(table, by)
    lost = _through(pd.DataFrame(result.findings["diverged"]), picked)
    rows = _through(table, picked)
    if rows.empty:
        st.info("No run fits all filters: take one away.")
        return
    _by_length(rows, by)
    measure = Measure.model_validate(result.arguments["compare"])
    parts: Parts = {"By setting": partial(_summary_of, rows, by, lost)}
    if measures := result.arguments["measures"]:
        parts["Further measures"] = partial(further, rows, by, measures, lost)
    if "loss.excess" in rows and rows["loss.excess"].notna().any():
        parts["A power law?"] = partial(by_which_law, rows, by)
    if measure.bands:
        parts["By windows"] = partial(_by_windows, rows, by, measure)
    parts["The best against the others"] = partial(_against_the_best, rows, by, measure)
    parts["By two factors"] = partial(_by_two_factors, rows, by)
    if capacity.has_map(table, by):
        parts["Capacity"] = partial(_map_of, rows, by)
    parts["Runs"] = partial(_runs_of, path, rows, by)
    if left_out := result.findings["left_out"]:
        sentences = "\n".join(f"- {text(sentence)}" for sentence in left_out)
        parts[f"Left out: {len(left_out)}"] = partial(st.markdown, sentences)
    parts["The sweep's file"] = partial(st.code, result.arguments["file"], language="toml")
    tabs("part_of_sweep", parts)


@st.fragment(run_every=EVERY)
def _grows(path: Path, shown: Answer) -> None:
    """The progress of an unfinished sweep; the page begins anew when there is more of it."""
    if folders_of(path, sweep.NAME)[-1:] != [shown.folder]:
        st.rerun()
    runs, left = shown.table["run"].nunique(), shown.findings["left"]
    st.info(says("sweeps: unfinished", runs=f"{runs:,}", left=f"{left:,}"))


def find_studies(folder: Path, name: str) -> list[Path]:
    """The folders that keep a study, ``folder`` itself first. Folders of runs are not searched."""
    paths = []
    for place, inside, _ in os.walk(folder):
        path = Path(place)
        if folders_of(path, name):
            paths.append(path)
        deep = len(path.relative_to(folder).parts) >= DEPTH
        inside[:] = [
            child
            for child in sorted(inside)
            if not (deep or child.startswith(".") or (path / child / RUN_FILE).exists())
        ]
    return paths


def name_of(path: Path) -> str:
    """The sweep's path below the runs folder; for the runs folder itself, its name."""
    below = path.relative_to(runs_folder()).as_posix()
    return runs_folder().resolve().name if below == "." else below


def _about(table: pd.DataFrame, by: Sequence[str]) -> str:
    """The sweep in numbers."""
    runs = table.drop_duplicates("run")
    low, high = runs["parameters"].min(), runs["parameters"].max()
    span = f"{low:,}" if low == high else f"{low:,} to {high:,}"
    varied = f" x {', '.join(map(short, by))}" if by else ""
    count = runs["language"].nunique()
    languages = f"{count} language{'s' * (count > 1)}"
    return (
        f"{len(runs)} runs: {languages}{varied} x "
        f"{runs['seed'].nunique()} seeds; {span} parameters; words of {table['length'].min()} to "
        f"{table['length'].max()} symbols."
    )


def _filters(table: pd.DataFrame, by: Sequence[str]) -> dict[str, list[Any]]:
    """The values that the reader chooses, by column; a column without a choice lets all through."""
    keys = [key for key in factors(table, by) if table[key].nunique() > 1]
    picked: dict[str, list[Any]] = {}
    if not keys:
        return picked
    with st.container(border=True):
        st.caption(says("sweeps: filters"))
        with st.container(horizontal=True, gap="medium"):
            for key in keys:
                picked[key] = st.pills(
                    text(short(key)),
                    list(dict.fromkeys(table[key])),
                    selection_mode="multi",
                    format_func=text,
                    key=f"only_{short(key)}",
                    bind="query-params",
                )
    return {key: values for key, values in picked.items() if values}


def _through(table: pd.DataFrame, picked: Mapping[str, list[Any]]) -> pd.DataFrame:
    """The rows that the filters let through, as far as the table has their columns."""
    for key in picked.keys() & table.columns:
        table = table[table[key].isin(picked[key])]
    return table


def _summary_of(rows: pd.DataFrame, by: Sequence[str], lost: pd.DataFrame) -> None:
    """A row per language and setting.

    Args:
        lost: the runs that diverged.
    """
    shown = readable(_summary(rows, by, lost), by)
    shares = {name: st.column_config.NumberColumn(format="%.3f") for name in ("best", "mean")}
    st.dataframe(shown, hide_index=True, column_config=shares)
    st.caption(LEGEND)


def _by_windows(rows: pd.DataFrame, by: Sequence[str], measure: Measure) -> None:
    """The bands of sizes that the sweep tells apart."""
    values = by_seed(rows, by, measure)
    figure = band_chart(values)
    picture(figure, "Share right by setting, language and training windows.")
    st.dataframe(bands.wide(values), hide_index=True)
    st.caption(f"{bands.LEGEND} Ticks: the single seeds.")
    downloads("sweep-by-windows", Answer(bands.summary(values), ""), lambda: figure, of_run=False)


@st.cache_data(max_entries=16, show_spinner="Comparing ...")
def _compared(rows: pd.DataFrame, by: Sequence[str], measure: str) -> pd.DataFrame:
    """``paired.pairs``, kept by Streamlit: with many settings and seeds the exact tests take
    seconds.

    Args:
        measure: a measure as JSON; equal text lets Streamlit reuse its result.
    """
    return paired.pairs(rows, by, Measure.model_validate_json(measure))


def _against_the_best(rows: pd.DataFrame, by: Sequence[str], measure: Measure) -> None:
    """The best setting compared with every other one."""
    tested = _compared(rows, list(by), measure.model_dump_json())
    if tested.empty:
        st.info("There is a single setting.")
        return
    shown = [table.assign(best=title) for title, table in paired.versus(tested).items()]
    numbers = {"p, corrected": st.column_config.NumberColumn(format="%.2g")}
    st.dataframe(
        pd.concat(shown)[["best", *shown[0].columns.drop("best")]],
        hide_index=True,
        column_config=numbers,
    )
    st.caption(text(paired.how(tested, measure)))


def _measure_of(rows: pd.DataFrame, key: str) -> str:
    """The measure that the reader chooses, among those that these rows have."""
    there = [name for name in MEASURES if name == "recognition" or rows[name].notna().any()]
    return controls.segments("Measure", there, key)


def _by_length(rows: pd.DataFrame, by: Sequence[str]) -> None:
    """Curves, a line per seed."""
    measure = _measure_of(rows, "curve")
    table, figure = _curves(rows, by, measure), _length_chart(rows, by, measure)
    picture(figure, f"{MEASURES[measure].capitalize()} by word length, language and setting.")
    many = settings_of(rows, by).nunique()
    drawn = MEASURES[measure].capitalize()
    if many > LEGIBLE:
        st.caption(says("sweeps: many settings", measure=drawn, settings=many, most=LEGIBLE))
    else:
        st.caption(says("sweeps: few settings", measure=drawn))
    downloads("sweep-by-length", Answer(table, ""), lambda: figure, of_run=False)


def _by_two_factors(rows: pd.DataFrame, by: Sequence[str]) -> None:
    """A heatmap of the sweep, by two factors that the reader chooses."""
    names = {short(key): key for key in factors(rows, by)}
    with st.container(horizontal=True):
        down = st.selectbox("Down", list(names), key="down", bind="query-params", width=200)
        others = [name for name in names if name != down]
        across = st.selectbox("Across", others, key="across", bind="query-params", width=200)
        measure = _measure_of(rows, "measured")
        words = controls.segments("Words", WORDS, "words")
    inside = rows["length"] <= rows["window"]
    part = {WORDS[0]: rows, WORDS[1]: rows[inside], WORDS[2]: rows[~inside]}[words]
    row, column = names[str(down)], names[str(across)]
    table = _cells(part, row, column, measure)
    if table.empty:
        st.info(f"No words were tested for this (words: {text(words)}).")
        return
    figure = _two_factors(part, row, column, measure)
    picture(figure, f"{MEASURES[measure].capitalize()} by {down} and {across}.")
    st.caption(says("sweeps: two factors", measure=MEASURES[measure].capitalize()))
    downloads(f"sweep-{down}-{across}", Answer(table, ""), lambda: figure, of_run=False)


def _map_of(rows: pd.DataFrame, by: Sequence[str]) -> None:
    """The capacity map: which model sizes are enough to learn a language."""
    who = "A size is enough if the language is learned by"
    share = ENOUGH[controls.segments(who, list(ENOUGH), "enough")]
    table = _mapped(rows, by, share)
    if table.empty:
        st.info("No length inside the training window was tested.")
        return
    figure, sentences = _map_chart(rows, by, share), capacity.sentences(table, by)
    st.markdown("\n".join(f"- {text(sentence)}" for sentence in sentences))
    picture(figure, f"Which sizes learn a language, and how far they hold. {' '.join(sentences)}")
    st.caption(says("sweeps: capacity"))
    downloads(
        "capacity",
        Answer(table, " ".join(sentences), {capacity.NAME: sentences}),
        lambda: figure,
        of_run=False,
    )


_once = st.cache_resource(max_entries=16, show_spinner="Computing ...")
"""Keeps a table or a chart: nobody changes them."""
_summary, _curves, _length_chart = _once(summary), _once(curves), _once(length_chart)
_cells, _two_factors = _once(cells), _once(two_factors)
_mapped, _map_chart = _once(capacity.capacity_map), _once(capacity.chart)


@st.cache_data(max_entries=16, show_spinner=False)
def _runs_of(path: Path, rows: pd.DataFrame, by: Sequence[str]) -> None:
    """The runs of the sweep, with links to their pages."""
    runs = rows.drop_duplicates("run")
    shown = runs[list(dict.fromkeys(["run", "language", *by, "seed", "parameters", "seconds"]))]
    right = [balanced_recognition(part) for _, part in rows.groupby("run", sort=False)]
    shown = shown.rename(columns=short).assign(recognition=right)
    columns: dict[str, Any] = {
        "recognition": st.column_config.NumberColumn(format="percent"),
        "seconds": st.column_config.NumberColumn(help="seconds of training", format="%.0f"),
    }
    if path == runs_folder():
        for title, page in PAGES.items():
            shown[title] = [f"/{page}?run={quote(name)}" for name in runs["run"]]
            columns[title] = st.column_config.LinkColumn(display_text="open")
    st.dataframe(shown, hide_index=True, column_config=columns)
    if path == runs_folder():
        st.caption("All other pages can show each run: choose it at the left, or follow its link.")
    else:
        st.caption(f"{code(lab('dashboard', path))} shows these runs on all other pages.")
