"""Latents and facts side by side, as a page shows them: which latent stands for what."""

from __future__ import annotations

from collections.abc import Sequence

import altair as alt
import pandas as pd

from analyses.charts.marks import dots
from analyses.charts.theme import colours, figures, share
from analyses.questions.inside.dictionaries.planted import at_site
from models.plants.record import PlanRecord

OFF, UP = "set to 0", "set to its largest code"
"""Two ways to clamp a latent."""
SHOWN = 240
"""Pixels of the height of the picture."""


def by_fact(best: pd.DataFrame, latents: pd.DataFrame) -> pd.DataFrame:
    """One row per fact: the latent that tells it best, and what clamping this one does.

    Args:
        best: rows of ``told``, of one kind.
        latents: rows of ``features``, of the same kind.

    Returns:
        Columns: fact, latent, F1 (of this fact), words, off and up, as of ``features``.
    """
    done = latents[["latent", "words", "off", "up"]]
    return best[["fact", "latent", "F1"]].merge(done, how="left", on="latent")


def with_parts(table: pd.DataFrame, plan: PlanRecord, site: str) -> pd.DataFrame:
    """The rows of ``by_fact``, each with the variable that it is about, the part that makes this,
    and what it reads. A variable of the site without a fact has a row of its own: it hardly
    varies in the words."""
    here = {record["name"]: record for record in at_site(plan, site)[0]}
    names = [_variable_of(fact, list(here)) for fact in table["fact"]]
    missing = pd.DataFrame({"fact": "-"}, index=[name for name in here if name not in names])
    rows = pd.concat([table.set_index(pd.Index(names)), missing]).loc[list(here)]
    rows["latent"] = rows["latent"].astype("Int64")  # a number, though it may be missing
    about = [here[name] for name in rows.index]
    rows.insert(0, "variable", rows.index)
    rows.insert(1, "made by", [record["made by"] for record in about])
    rows.insert(2, "reads", [", ".join(record["reads"]) for record in about])
    return rows.reset_index(drop=True)


def _variable_of(fact: str, names: Sequence[str]) -> str:
    """A fact is called by its variable, and what follows: "more a", "lead < 0", "tokens = b"."""
    return max((n for n in names if fact == n or fact.startswith(f"{n} ")), key=len)


def latents_chart(latents: pd.DataFrame) -> alt.LayerChart:
    """A point for each latent of one kind and for each way to clamp it: how well it tells its fact,
    and the share of verdicts that then change."""
    done = latents.rename(columns={"off": OFF, "up": UP})
    rows = done.melt([c for c in done if c not in (OFF, UP)], [OFF, UP], "clamped", "changed")
    x = alt.X("F1:Q", title="F1 of the fact that it tells best", axis=alt.Axis(tickCount=5))
    return dots(
        rows.dropna(subset=["changed"]),
        x.scale(domain=[0, 1]),
        share(alt.Y, "changed", "verdicts that change"),
        ["latent", "fact", "words", "clamped", *figures("changed", "F1", "on")],
        colours("clamped", [OFF, UP]),
        ends=None,
        shape=alt.Shape("clamped:N", title=None).scale(domain=[OFF, UP]),
    ).properties(height=SHOWN)
