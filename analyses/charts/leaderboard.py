"""The measures of explanation methods in words, and a panel for each."""

from __future__ import annotations

from typing import get_args

import altair as alt
import pandas as pd
from altair.typing import ChartType

from analyses.charts.marks import dots, points
from analyses.charts.theme import CHOSEN, TRAINED, colours, figures
from analyses.options.words import Replacement
from interp.explanations.methods import METHODS
from interp.explanations.scores import COSINES, FIT, METRICS, RATIONALE

REPLACEMENTS: tuple[Replacement, ...] = get_args(Replacement)
MEASURES = (
    *(*METRICS, "stability", "consistency"),
    *("calls", "seconds", "completeness", "shortcut"),
)
"""The numbers of a row: scores against the truth, SHAP's axiom, cost, and the share of the absolute
values on the symbol that is no more than a shortcut."""
FOUND = "shortcut found"
MEANINGS = {
    "AUROC": "how often a position that decides has a larger absolute value than one that does "
    "not; of several sets of deciding positions, the one that suits the method best; chance is 0.5 "
    "for one set and higher for several: see the row chance",
    "average precision": "go down the ranking, and at each position that decides take the share of "
    "deciding positions so far; the mean of these shares",
    "hit@1": "does the position with the largest absolute value decide?",
    "R-precision": "if R positions decide, the share of them among the first R of the ranking",
    "mass": "the share of the absolute values that lies on positions that decide",
    "NDCG": "the gain of the ranking, in which later deciding positions count less, as a share of "
    "the best possible gain",
    "cosine to the effects": "cosine of the angle to the effects of the language: by position, the "
    "share of the other symbols that turn the true membership around; 1 is the same up to scale, 0 "
    "is unrelated. This is what the method substitution asks the model",
    "cosine to the language": "the same with the exact Shapley values of the true membership. This "
    "is SHAP's own estimand: SHAP cannot but do well where the model is right",
    "cosine to the model": "the same with the exact Shapley values of the model's verdict, on the "
    "method's own scale. This is SHAP's own estimand too, and no truth about the language",
    "error": "mean absolute difference from the model's exact Shapley values, in the unit of the "
    "scale; only for methods that estimate these; lower is better",
    "fit near": "how much of the verdict's variance (R2) a sum of the values explains where at "
    "most a third of the symbols are hidden; only for LIME and SHAP",
    "fit far": "the same where at most a third of the symbols are shown",
    "comprehensiveness": "how much probability the verdict loses on average while positions are "
    "hidden one after the other, the largest value first",
    "sufficiency": "how much probability the verdict still lacks on average while positions are "
    "shown one after the other, the largest value first; lower is better",
    "normalised AOPC": "how fast the verdict falls while positions are hidden, between the worst "
    "order of all (0) and the best (1)",
    "insertion": "the area under the verdict's probability while positions are shown",
    "deletion": "the area under the verdict's probability while positions are hidden; lower is "
    "better",
    "stability": "mean cosine between the answers with different seeds; 1 for a method that has no "
    "seed",
    "consistency": "raise what a symbol contributes to one coalition: how often does its value not "
    "fall? SHAP's axiom asks for 1; only for LIME and SHAP, on the first words",
    "calls": "how many words the method had the model score, for all its scales",
    "seconds": "how many seconds the method took, for all its scales",
    "completeness": "for methods whose values should have a known sum: how far they miss it, in "
    "the unit of the scale",
    "gain": "the sum that they should have: the verdict's number, less its mean over words whose "
    "symbols are all hidden",
    "shortcut": "the share of the absolute values on a symbol that decides nothing, but goes with "
    "the label in the training lines of a variant of the language",
    FOUND: "how often a method gives the shortcut a larger share in a model that leans on it than "
    "in a clean one; chance is 0.5",
}
"""The meaning of each measure, in one line."""
BOUNDED = {"normalised AOPC", "insertion", "deletion", "stability", "shortcut", "shortcut found"}
BOUNDED |= {*RATIONALE, *COSINES, *FIT, "consistency"}
"""Measures that are at most 1."""

PANELS = ("AUROC", "cosine to the effects", "cosine to the language", "normalised AOPC")
"""The measures of the picture: independent truths first, then SHAP's own, then hiding."""


def against_reliance(rows: pd.DataFrame) -> ChartType:
    """A panel per method: a dot per network, its reliance from left to right, the method's credit
    from below. A method that sees what the networks do rises.

    Args:
        rows: a row per network and method, all of one architecture, with the columns of
            ``analyses.studies.reliance.credit``.
    """
    order = [name for name in METHODS if (rows["method"] == name).any()]
    names = list(dict.fromkeys(rows["language"]))
    hints = ["language", "seed", "method", "scale"]
    layer = dots(
        rows,
        alt.X("reliance:Q", title="reliance, measured").axis(tickCount=4),
        alt.Y("credit:Q", title="credit beyond even").axis(tickCount=4),
        [*hints, *figures("reliance", "low", "high", "credit")],
        colours("language", names, [TRAINED, CHOSEN], "trained on"),
        across=True,
        size=36,
    ).properties(width=120, height=90)
    title = alt.Header(title=None, labelFontSize=12)
    return layer.facet(alt.Facet("method:N", sort=order, header=title), columns=5)


def panels(rows: pd.DataFrame, shown: list[str]) -> ChartType:
    """A panel per measure, a row per method, a colour per replacement.

    Args:
        rows: the columns of ``board``, for one membership; one row per method.
    """
    order = [name for name in (*METHODS, "chance") if (rows["method"] == name).any()]
    # These can be told apart on a light and on a dark page, and by people who see few colours.
    colors = dict(zip(REPLACEMENTS, ("#4c78a8", "#f58518", "#54a24b"), strict=True))
    there = [kind for kind in REPLACEMENTS if (rows["replacement"] == kind).any()]
    parts = []
    for index, name in enumerate(shown):
        part = rows[rows["measure"] == name]
        scale = alt.Scale(zero=False)
        if name in BOUNDED:  # Student's interval knows no bounds: cut it off there
            signed = "cosine" in name or name == "stability"
            least = max(part[["mean", "low"]].min().min(), -1.0 if signed else 0.0)
            scale = alt.Scale(domain=[least, 1.0], nice=False)
        picture = points(
            part,
            alt.X("mean:Q", title=None, scale=scale),
            alt.Y("method:N", sort=order, title=None).axis(
                labels=index == 0, labelOverlap=False, labelLimit=200, grid=True, ticks=False
            ),
            ["method", "scale", "replacement", *figures("mean", "low", "high")],
            colours("replacement", there, [colors[kind] for kind in there], "hidden symbols"),
            step=18 // len(there),
            size=28,
            yOffset=alt.YOffset("replacement:N", sort=there),
        )
        title = alt.Title(name, anchor="start", frame="group")
        parts.append(picture.properties(width=170, title=title))
    return alt.hconcat(*parts, spacing=12)
