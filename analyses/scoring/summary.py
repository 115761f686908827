"""A summary of many graded answers: scores by lens, and how well proxies order the lenses."""

from __future__ import annotations

from collections.abc import Mapping
from itertools import permutations
from typing import Any

import altair as alt
import numpy as np
import pandas as pd
from altair.typing import ChartType
from scipy.stats import spearmanr

from analyses.charts.marks import panels, points
from analyses.charts.theme import colours, figures, named
from analyses.claims import interval_text
from analyses.scoring.grades import MAIN, PROXIES
from analyses.scoring.lenses import RANDOM
from analyses.scoring.paper import ASKS, QUESTIONS, Question
from interp.statistics import bootstrap_mean

ORACLE, UNTRAINED, PLANTED, TRAINED = "oracle", "untrained", "planted", "trained"
ALL = "all"
"""The name that stands for all settings together."""


def summed_up(table: pd.DataFrame) -> pd.DataFrame:
    """The main measure of each question.

    Returns:
        A row per question, lens, network and setting ("all" too): mean, low, high (95%, bootstrap
        over programs, whose networks depend on each other; for "lines", which is asked about few
        languages, over networks), networks, faults, calls and milliseconds (medians).
    """
    main = table[table["measure"] == table["question"].map(MAIN)]
    main = main.assign(place=main.groupby(["program", "setting", "seed"]).ngroup())
    both = pd.concat([main, main.assign(setting=ALL)])
    rows = []
    for group, part in both.groupby(["question", "lens", "network", "setting"], sort=False):
        unit = ["program", "seed"] if group[0] == "lines" else ["program"]
        by_unit = part.groupby(unit)["value"].mean().dropna()
        if not len(by_unit):
            continue
        mean, low, high = _over_units(by_unit)
        rows.append(
            dict(zip(("question", "lens", "network", "setting"), group, strict=True))
            | {"mean": mean, "low": low, "high": high}
            | {"networks": part["place"].nunique()}
            | {"faults": int((part["fault"] != "").sum())}
            | {name: float(part[name].median()) for name in ("calls", "milliseconds")}
        )
    order = {name: i for i, name in enumerate(QUESTIONS)}
    scores = pd.DataFrame(rows)
    by = scores["question"].map(order)
    scores = scores.assign(by=by).sort_values(["by", "setting", "network", "mean"], ascending=False)
    return scores.sort_values("by", kind="stable").drop(columns="by").reset_index(drop=True)


LEAST_LENSES = 4
"""Fewer lenses have no order to speak of."""
AGAIN = "the truth, another seed"
"""The name that stands for the truth itself, on another network of the same program."""


def meta_score(table: pd.DataFrame) -> pd.DataFrame:
    """Does a proxy order the lenses as the truth does?

    On each network the lenses are ranked by the proxy and by the main measure (variables of a
    network are averaged first). Random values are no lens: any proxy that sees them at the end
    would gain by it. Of lenses that answer alike on all networks the first is ranked alone.

    Returns:
        A row per question, proxy and setting ("all" too): mean, low, high (Spearman's rank
        correlation; 95%, bootstrap over programs), programs, networks. The proxy ``AGAIN`` is how
        well the truth orders them as it does on the networks of other seeds.
    """
    graded = table[(table["network"] != UNTRAINED) & ~table["lens"].isin([ORACLE, RANDOM])]
    graded = graded[graded["question"].isin([question for question, of in PROXIES.items() if of])]
    by = ["question", "program", "setting", "seed"]
    wide = graded.pivot_table("value", [*by, "lens"], "measure", aggfunc="mean").reset_index()
    wide = _each_once(wide, by)
    rows = []
    for (question, *network), part in wide.groupby(by, sort=False):
        for proxy in (name for name in PROXIES[question] if name in part):
            rows.append((question, proxy, *network, _agreement(part[[proxy, MAIN[question]]])))
    for (question, *network), part in wide.groupby(by[:-1], sort=False):
        truth = part.pivot(index="lens", columns="seed", values=MAIN[question])
        for seed, other in permutations(truth, 2):
            rows.append((question, AGAIN, *network, seed, _agreement(truth[[seed, other]])))
    columns = ["question", "proxy", "program", "setting", "seed", "r"]
    scores = pd.DataFrame(rows, columns=columns).dropna(subset="r")
    scores["place"] = scores.groupby(["program", "setting", "seed"]).ngroup()
    records = []
    for group, part in pd.concat([scores, scores.assign(setting=ALL)]).groupby(
        ["question", "proxy", "setting"], sort=False
    ):
        by_program = part.groupby("program")["r"].mean()
        mean, low, high = _over_units(by_program)
        records.append(
            dict(zip(("question", "proxy", "setting"), group, strict=True))
            | {"mean": mean, "low": low, "high": high}
            | {"programs": len(by_program)}
            | {"networks": part["place"].nunique()}
        )
    names = ["question", "proxy", "setting", "mean", "low", "high", "programs", "networks"]
    return pd.DataFrame(records, columns=names)


def _each_once(wide: pd.DataFrame, by: list[str]) -> pd.DataFrame:
    """The rows of all lenses but those that answer as one before them, question by question."""
    parts = []
    for _, part in wide.groupby("question", sort=False):
        answers = part.pivot(index="lens", columns=by).dropna(axis=1, how="all").round(9)
        parts.append(part[~part["lens"].isin(answers.index[answers.duplicated()])])
    return pd.concat(parts) if parts else wide


def _agreement(pair: pd.DataFrame) -> float:
    """Spearman's rank correlation of two columns; NaN where they order nothing."""
    pair = pair.dropna()
    if len(pair) < LEAST_LENSES or not (pair.nunique() > 1).all():
        return np.nan
    return float(spearmanr(pair.iloc[:, 0], pair.iloc[:, 1]).statistic)


def compact(summary: pd.DataFrame) -> pd.DataFrame:
    """All settings together, for the terminal: a row per question and lens, the best first and the
    controls last; the same lens on untrained networks stands beside."""
    scores = summary[summary["setting"] == ALL]
    keys = ["question", "lens"]
    nothing = scores[scores["network"] == UNTRAINED].set_index(keys)["mean"]
    rows = scores[scores["network"] != UNTRAINED]
    rows = rows.assign(control=rows["lens"].isin([RANDOM, ORACLE]), what=rows["question"].map(MAIN))
    rows = pd.concat(
        [
            part.sort_values(["control", "mean"], ascending=[True, False], kind="stable")
            for _, part in rows.groupby("question", sort=False)
        ]
    )
    rows["score"] = [_interval(row) for row in rows.to_dict("records")]
    rows["untrained"] = [
        nothing.get(key, np.nan) for key in zip(*(rows[k] for k in keys), strict=True)
    ]
    shown = [*keys, "what", "score", "untrained", "networks", "faults", "calls", "milliseconds"]
    return rows[shown].reset_index(drop=True)


def faults(table: pd.DataFrame) -> list[str]:
    """Each fault once, with its lens and how often it came."""
    bad = table[(table["fault"] != "") & (table["measure"] == table["question"].map(MAIN))]
    counts = bad.groupby(["lens", "question", "fault"], sort=False).size()
    return [f"{lens}, {question}: {fault} ({n} times)" for (lens, question, fault), n in
            counts.items()]  # fmt: skip


def sentences(summary: pd.DataFrame, meta: pd.DataFrame) -> list[str]:
    """The best lens of each question beside random values, and the proxies."""
    scores = summary[(summary["setting"] == ALL) & (summary["network"] != UNTRAINED)]
    lines = []
    for question, part in scores.groupby("question", sort=False):
        ranked = part[~part["lens"].isin((RANDOM, ORACLE))]
        if not len(ranked):
            continue
        best = ranked.sort_values("mean", ascending=False, kind="stable").iloc[0]
        nothing = part[part["lens"] == RANDOM].iloc[0]
        lines.append(
            f"{ASKS[question]} {MAIN[question]}: {best['lens']} {_interval(best)}, random "
            f"{_interval(nothing)} (networks: {best['networks']})."
        )
    for row in meta[meta["setting"] == ALL].to_dict("records"):
        lines.append(
            f"{row['proxy']} orders the lenses of {row['question']} as the truth does with rank "
            f"correlation {_interval(row)} (programs: {row['programs']})."
        )
    return lines


def _over_units(values: pd.Series) -> tuple[float, float, float]:
    """Mean, low, high; a single one has no interval."""
    if len(values) < 2:
        return float(values.mean()), np.nan, np.nan
    mean, low, high = bootstrap_mean(values.to_numpy())
    return float(mean), float(low), float(high)


def _interval(row: Mapping[str, Any] | pd.Series) -> str:
    return interval_text(row["mean"], row["low"], row["high"])


def panel(summary: pd.DataFrame, question: Question) -> alt.LayerChart:
    """Each lens of a question with its interval; a colour per setting."""
    rows = summary[(summary["question"] == question) & (summary["network"] != UNTRAINED)]
    rows = rows[rows["setting"] != ALL]
    settings = list(dict.fromkeys(rows["setting"]))
    order = rows.groupby("lens")["mean"].mean().sort_values(ascending=False).index.tolist()
    least = min(0.0, float(rows["low"].min()))
    return points(
        rows,
        alt.X("mean:Q", title=MAIN[question]).scale(domain=[least, 1]),
        named(alt.Y, "lens", order, labelLimit=150),
        ["lens", "setting", *figures("mean", "low", "high"), "networks", "faults"],
        colours("setting", settings),
        size=40,
        yOffset=alt.YOffset("setting:N", sort=settings),
    ).properties(height=len(order) * max(20, 8 + 8 * len(settings)))


def chart(summary: pd.DataFrame) -> ChartType:
    """A panel per question."""
    names = [question for question in QUESTIONS if question in set(summary["question"])]
    return panels(((ASKS[q], panel(summary, q).properties(width=340)) for q in names), columns=1)
