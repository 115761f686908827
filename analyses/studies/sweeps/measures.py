"""The score of a seed of a setting: the number by which settings are summed up and compared."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from typing import Self

import numpy as np
import pandas as pd
from jaxtyping import Float
from pydantic import BaseModel, model_validator

from analyses.charts.sweeps import settings_of
from analyses.studies.sweeps.exam import WRITTEN
from analyses.studies.sweeps.further import LESS, MEANING
from models.errors import UserError

WORDS = {
    "recognition": "the share of words recognised, members and others alike",
    "exact": "the share of members with every next-symbol set right",
}
ALL = 0
"""The one band of a measure that tells no bands apart: all lengths tested."""


class Measure(BaseModel):
    """The measure by which settings are compared, seed by seed.

    Attributes:
        measure: "recognition", the mean of two shares, of members and of others judged rightly;
            "exact", the share of members with every next-symbol set right; or a number of a further
            measure, such as "loss.excess", which is better where it is smaller. If some run of a
            language has no such number, all runs of the language are compared by recognition: if it
            was taught verdicts alone, it has no exactness.
        bands: training windows, ascending. The sizes up to the first are one band, the sizes from
            there up to the second the next, and so on. A seed's number is the mean over the bands
            beyond one window (over all bands, if none is beyond). Empty: all lengths tested count
            alike.

    Raises:
        UserError: an unknown measure; bands that do not ascend, or of a measure that is no share.
    """

    model_config = WRITTEN

    measure: str = "recognition"
    bands: list[int] = []

    @model_validator(mode="after")
    def _ascending(self) -> Self:
        if any(b <= a for a, b in pairwise([0, *self.bands])):
            raise UserError(f"bands is {self.bands}: write windows in ascending order, from 1 on")
        return self

    @model_validator(mode="after")
    def _known(self) -> Self:
        if self.measure not in (names := [*WORDS, *LESS]):
            raise UserError(
                f"measure in [compare] is {self.measure!r}: choose one of {', '.join(names)}"
            )
        if self.bands and self.measure not in WORDS:
            raise UserError(
                f"{self.measure} is one number of a run, not one of each length: leave bands out"
            )
        return self

    @property
    def words(self) -> str:
        """The measure in words."""
        if self.measure not in WORDS:
            return f"the {MEANING[self.measure]} (less is better)"
        if not self.bands:
            return f"{WORDS[self.measure]}, over all lengths tested"
        return f"{WORDS[self.measure]}, mean over the bands of sizes beyond the training window"


def by_seed(table: pd.DataFrame, by: Sequence[str], comparison: Measure) -> pd.DataFrame:
    """One row per language, setting, band and seed: the mean over the lengths of the band.

    Args:
        table: the table of ``sweep``, a row per run and length.
        by: the columns that make a setting: variant and the varied fields.

    Columns: language, setting, band (its last window; ``ALL`` without bands), measure (which one
    it is on this language), seed, value, fresh (whether no word of these lengths chose weights of
    the setting).
    """
    # Kept tables of older versions know no choice.
    table = table.assign(selected_to=table.get("selected_to", 0))
    rows = table.assign(setting=settings_of(table, by), band=_bands(table, comparison.bands))
    rows = rows.dropna(subset=["band"]).astype({"band": int})
    keys = ["language", "setting", "band"]
    records = []
    for name, of_language in rows.groupby("language", sort=False):
        measure = comparison.measure
        if measure != "recognition":
            runs = of_language.groupby(["setting", "seed"])[measure]
            measure = measure if bool(runs.count().gt(0).all()) else "recognition"
        for (setting, band, seed), part in of_language.groupby([*keys[1:], "seed"], sort=False):
            value = (
                balanced_recognition(part)
                if measure == "recognition"
                else part[measure].astype(float).mean()
            )
            selected = part["length"].gt(part["window"]) & part["length"].le(part["selected_to"])
            fresh = not selected.any()
            records.append((name, setting, band, measure, seed, round(value, 12), fresh))
    return pd.DataFrame(records, columns=[*keys, "measure", "seed", "value", "fresh"])


def _bands(table: pd.DataFrame, bands: Sequence[int]) -> pd.Series:
    """The first band that each row's length lies within; missing beyond the last."""
    if not bands:
        return pd.Series(ALL, index=table.index)
    windows = table["length"] / table["window"]
    place = np.searchsorted(bands, windows)
    ends = np.array([*bands, np.nan])
    return pd.Series(ends[place], index=table.index)


def grids(values: pd.DataFrame) -> dict[str, pd.DataFrame]:
    """The numbers by which settings are ranked, per language: a row per seed, a column per setting.

    Larger is better: a number that is better where it is smaller has its sign changed. A number is
    the mean over the bands beyond the window; over all bands if none is beyond.

    Args:
        values: the table of ``by_seed``.
    """
    result = {}
    for name, rows in values.groupby("language", sort=False):
        far = rows[rows["band"] > 1]
        grid = (far if len(far) else rows).pivot_table("value", "seed", "setting")
        grid = grid[list(dict.fromkeys(rows["setting"]))]
        result[str(name)] = -grid if rows["measure"].iloc[0] in LESS else grid
    return result


def balanced_recognition(rows: pd.DataFrame) -> float:
    """The recognition in which members and others weigh alike, whatever their number. Chance is one
    half."""
    return float(balanced_shares(rows).mean())


def balanced_shares(rows: pd.DataFrame) -> Float[np.ndarray, " length"]:
    """Each length's part in the balanced recognition, which is their mean."""
    halves = [rows[half].astype(float) for half in ("members", "others")]
    parts = [half.fillna(0) / half.notna().mean() for half in halves if half.notna().any()]
    return np.mean(parts, axis=0)
