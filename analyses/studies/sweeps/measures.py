"""What a seed of a setting is worth: the number that settings are summed up and compared by."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from typing import Literal, Self

import numpy as np
import pandas as pd
from jaxtyping import Float
from pydantic import BaseModel, model_validator

from analyses.charts.sweeps import settings_of
from analyses.studies.sweeps.exam import WRITTEN
from models.errors import UserError

WORDS = {
    "recognition": "the share of words recognised, members and others alike",
    "exact": "the share of members with every next-symbol set right",
}
ALL = 0
"""The band of a measure that has none: all lengths tested."""


class Measure(BaseModel):
    """What settings are compared by, seed for seed.

    Attributes:
        measure: "recognition", the mean of the members' share that is right and of the others';
            or "exact", the share of members with every next-symbol set right. On a language of
            which some run was taught verdicts alone, it is recognition for all.
        bands: training windows, ascending. The sizes up to the first, from there up to the second
            and so on are told apart, and a seed's number is the mean over the bands beyond one
            window (over all, where none is beyond). Empty: all lengths tested count alike.

    Raises:
        UserError: bands that do not ascend.
    """

    model_config = WRITTEN

    measure: Literal["recognition", "exact"] = "recognition"
    bands: list[int] = []

    @model_validator(mode="after")
    def _ascending(self) -> Self:
        if any(b <= a for a, b in pairwise([0, *self.bands])):
            raise UserError(f"bands is {self.bands}: write windows in ascending order, from 1 on")
        return self

    @property
    def words(self) -> str:
        """What it is, in a sentence."""
        if not self.bands:
            return f"{WORDS[self.measure]}, over all lengths tested"
        return f"{WORDS[self.measure]}, mean over the bands of sizes beyond the training window"


def by_seed(table: pd.DataFrame, by: Sequence[str], asked: Measure) -> pd.DataFrame:
    """One row per language, setting, band and seed: the mean over the lengths of the band.

    Args:
        table: a row per run and length, as of ``sweep``.
        by: the columns that make a setting: variant and the varied fields.

    Columns: language, setting, band (its last window; ``ALL`` without bands), measure (which one
    it is on this language), seed, value.
    """
    rows = table.assign(setting=settings_of(table, by), band=_bands(table, asked.bands))
    rows = rows.dropna(subset=["band"]).astype({"band": int})
    keys = ["language", "setting", "band"]
    records = []
    for name, of_language in rows.groupby("language", sort=False):
        runs = of_language.groupby(["setting", "seed"])["exact"]
        exact = asked.measure == "exact" and bool(runs.count().gt(0).all())
        measure = "exact" if exact else "recognition"
        for (setting, band, seed), part in of_language.groupby([*keys[1:], "seed"], sort=False):
            value = part["exact"].astype(float).mean() if exact else balanced_recognition(part)
            records.append((name, setting, band, measure, seed, round(value, 12)))
    return pd.DataFrame(records, columns=[*keys, "measure", "seed", "value"])


def _bands(table: pd.DataFrame, bands: Sequence[int]) -> pd.Series:
    """The first band that a length lies within; missing beyond the last."""
    if not bands:
        return pd.Series(ALL, index=table.index)
    windows = table["length"] / table["window"]
    place = np.searchsorted(bands, windows)
    ends = np.array([*bands, np.nan])
    return pd.Series(ends[place], index=table.index)


def grids(values: pd.DataFrame) -> dict[str, pd.DataFrame]:
    """Per language what settings are ranked by: a row per seed, a column per setting.

    Args:
        values: as of ``by_seed``.

    The mean over the bands beyond the window; over all of them if none is beyond.
    """
    found = {}
    for name, rows in values.groupby("language", sort=False):
        far = rows[rows["band"] > 1]
        grid = (far if len(far) else rows).pivot_table("value", "seed", "setting")
        found[str(name)] = grid[list(dict.fromkeys(rows["setting"]))]
    return found


def balanced_recognition(rows: pd.DataFrame) -> float:
    """Members and others weigh alike, whatever their number: chance is one half."""
    return float(balanced_shares(rows).mean())


def balanced_shares(rows: pd.DataFrame) -> Float[np.ndarray, " length"]:
    """Each length's part in the balanced recognition, which is their mean."""
    halves = [rows[half].astype(float) for half in ("members", "others")]
    parts = [half.fillna(0) / half.notna().mean() for half in halves if half.notna().any()]
    return np.mean(parts, axis=0)


def exact_to(rows: pd.DataFrame) -> int | None:
    """The largest size such that all sizes tested up to it are exact; 0 where the first is not, and
    None where the run was taught verdicts alone."""
    tested = rows.dropna(subset=["exact", "n"]).sort_values("n")
    if tested.empty:
        return None
    reached = tested["n"][(tested["exact"] == 1).cummin()]
    return int(reached.max()) if len(reached) else 0
