"""The fall of a measure with the size of the words, in bands of training windows."""

from __future__ import annotations

from pathlib import Path

import pandas as pd

from analyses.answers import Answer, save
from analyses.charts.sweeps import band_chart, interval
from analyses.studies.sweeps.measures import Measure, by_seed
from interp.statistics import brackets

NAME = "bands"
LEARNED = 0.99
"""The mean share below which a setting fails inside the window."""

LEGEND = (
    "Each column is a language and a band: x4 has the sizes up to four training windows that no "
    "smaller band has. Its numbers are the share right: mean over seeds [worst seed, best seed]. "
    "Right are members with every next-symbol set right; where verdicts alone are taught, "
    "verdicts. Not fresh: words of these sizes chose the weights."
)
"""The meaning of the columns of ``wide``."""


def summary(values: pd.DataFrame) -> pd.DataFrame:
    """One row per language, setting and band: the mean, and the worst and the best seed.

    Args:
        values: the table of ``by_seed``.

    Columns: language, setting, band, measure, value (mean over sizes, then over seeds), low and
    high (the worst and the best seed), seeds, mean_low and mean_high (95% interval of the mean,
    by ``interval`` over seeds; NaN for a single seed), fresh (as in ``by_seed``).
    """
    keys = ["language", "setting", "band", "measure"]
    grouped = values.groupby(keys, sort=False)["value"]
    short = grouped.agg(value="mean", low="min", high="max", seeds="size").reset_index()
    ends = pd.DataFrame([interval(seeds) for _, seeds in grouped])
    fresh = values.groupby(keys, sort=False)["fresh"].all().to_numpy()
    return short.assign(mean_low=ends["low"], mean_high=ends["high"], fresh=fresh)


def wide(values: pd.DataFrame) -> pd.DataFrame:
    """The summary for reading: a row per setting, a column per language and band."""
    short = summary(values)
    text = [
        (f"{mean:.2f}" if low == high else f"{mean:.2f}{brackets(low, high, '.2f')}")
        + ("" if fresh else ", not fresh")
        for mean, low, high, fresh in short[["value", "low", "high", "fresh"]].itertuples(
            index=False
        )
    ]
    short = short.assign(text=text, column=short["language"] + " x" + short["band"].astype(str))
    pivot = short.pivot(index="setting", columns="column", values="text")
    pivot = pivot.loc[values["setting"].unique(), short["column"].unique()]
    return pivot.reset_index().rename_axis(columns=None)


def failing(values: pd.DataFrame, language: str) -> list[str]:
    """The settings that do not learn a language inside its window; none without such a band."""
    inside = values[(values["language"] == language) & (values["band"] == 1)]
    means = inside.groupby("setting", sort=False)["value"].mean()
    return [str(setting) for setting in means.index[means < LEARNED]]


def save_bands(out: Path, result: Answer) -> None:
    """Keeps table and figure beside those of the sweep, if its file names bands. Raises UserError
    if the folder cannot be written."""
    measure = Measure.model_validate(result.arguments["compare"])
    if not measure.bands:
        return
    values = by_seed(result.table, result.arguments["by"], measure)
    answer = Answer(summary(values), result.sentence, {}, result.arguments)
    save(out, NAME, f"Up to how many windows? {measure.words}", answer, band_chart(values))
