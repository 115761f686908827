"""What a leaderboard says: the lectures' claims about the classical techniques, tested over runs.

The unit of the tests is a run, one seed of one language. Its numbers are means over words and
replacements.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass
from functools import cached_property

import numpy as np
import pandas as pd

from analyses.options.studies import PLANTED
from analyses.questions import leaderboard as of_run
from interp.comparisons import all_pairs, corrected, paired, pairs_needed
from interp.statistics import t_interval

LEVEL = 0.05
TRUTH = ("cosine to the language", "AUROC")
PLANNED = (
    *((measure, name, "random") for measure in TRUTH for name in ("LIME", "SHAP kernel")),
    *((measure, "substitution", "SHAP kernel") for measure in TRUTH),
    ("seconds", "SHAP kernel", "LIME"),
    ("cosine to the model", "SHAP kernel", "LIME"),
    ("stability", "SHAP kernel", "LIME"),
)
"""The comparisons that the claims rest on: a measure and two methods. They were fixed before any
number was seen."""
EXACT = ("SHAP exact", "Shapley exact")


@dataclass(frozen=True)
class Evidence:
    """The numbers that the claims are read from.

    Attributes:
        by_run: rows language and seed, columns measure and method; means over replacements.
        families: the family of each method.
    """

    by_run: pd.DataFrame
    families: dict[str, str]

    @cached_property
    def pairs(self) -> pd.DataFrame:
        """The comparisons of ``PLANNED`` for which both methods were asked.

        Columns: measure, first, second, the attributes of ``Paired``, corrected (p, by Holm's
        method, over all rows).
        """
        rows = [
            {"measure": measure, "first": first, "second": second}
            | asdict(paired(*(self.by_run[measure, name].to_numpy() for name in (first, second))))
            for measure, first, second in PLANNED
            if {(measure, first), (measure, second)} <= set(self.by_run.columns)
        ]
        table = pd.DataFrame(rows)
        return table.assign(corrected=corrected(table["p"].to_numpy())) if rows else table

    def of(self, measure: str, method: str) -> float:
        """Mean over runs; NaN where it is not defined."""
        return float(self.by_run.mean().get((measure, method), np.nan))

    def told(self, measure: str, first: str, second: str) -> float:
        """By how much the first is larger, if the corrected p is at most ``LEVEL``; else 0."""
        for row in self.pairs.to_dict("records"):
            if (row["measure"], row["first"], row["second"]) == (measure, first, second):
                return float(row["difference"]) if row["corrected"] <= LEVEL else 0.0
        return 0.0

    def best(self, measure: str) -> str:
        """The method with the largest mean, apart from exact ones and controls; and how many others
        it is significantly above."""
        grid = self.by_run[measure].drop(columns=list(EXACT), errors="ignore")
        grid = grid[[name for name in grid if self.families[name] != "control"]]
        if grid.shape[1] == 1:
            return f"{grid.columns[0]} ({grid.iloc[:, 0].mean():.2f})"
        pairs = all_pairs(grid)
        own = pairs[pairs["first"] == pairs["first"].iloc[0]]
        name, beaten = own["first"].iloc[0], int((own["corrected"] <= LEVEL).sum())
        beats = f"significantly above {beaten} of {len(own)} others"
        return f"{name} ({grid[name].mean():.2f}, {beats})"


def evidence(by_seed: pd.DataFrame) -> Evidence:
    """The evidence of all runs. Planted shortcuts count only if no other language is there.

    Args:
        by_seed: rows of ``leaderboard.means`` of all runs.
    """
    by_run = _honest(by_seed).pivot_table("value", ["language", "seed"], ["measure", "method"])
    return Evidence(by_run, dict(zip(by_seed["method"], by_seed["family"], strict=True)))


def _honest(by_seed: pd.DataFrame) -> pd.DataFrame:
    """The rows of languages without a planted shortcut; all rows if there is no such language."""
    clean = by_seed["language"] != PLANTED
    return by_seed[clean] if clean.any() else by_seed


def verdict(by_seed: pd.DataFrame) -> list[str]:
    """The claims, one text each, with the numbers that were measured.

    Args:
        by_seed: columns language, seed, replacement, method, family, measure, value.
    """
    found = evidence(by_seed)
    said = [_useful(found), _fast(found), _grounded(found)]
    said += [_replacement(by_seed), _shortcut(by_seed), _tested(found)]
    return [text for text in said if text]


def _useful(found: Evidence) -> str:
    measures = [m for m in TRUTH if m in found.by_run]
    if not measures:
        return ""
    numbers = "; ".join(
        f"{m}: LIME {found.of(m, 'LIME'):.2f}, SHAP kernel {found.of(m, 'SHAP kernel'):.2f}, "
        f"best {found.best(m)}, random {found.of(m, 'random'):.2f}"
        for m in measures
    )
    asked = [(m, name, "random") for m in measures for name in ("LIME", "SHAP kernel")]
    above = all(found.of(m, name) > found.of(m, other) + 0.2 for m, name, other in asked)
    sure = all(found.told(*each) > 0 for each in asked)
    text = '"Often less useful than hoped in Transformers": '
    if not above:
        text += "this holds here"
    elif sure:
        text += "this does not hold for these models, which follow the rule"
    else:
        text += "this does not hold on average, but these runs do not tell the methods from chance"
    text += f" ({numbers})"
    gaps = {m: found.told(m, "substitution", "SHAP kernel") for m in measures}
    higher = [m for m in measures if found.of(m, "substitution") >= found.of(m, "SHAP kernel")]
    better = [m for m in higher if gaps[m] > 0]
    level = [m for m in higher if not gaps[m]]
    if better:
        text += f"; but one substitution per symbol does better by {' and '.join(better)}"
    if level:
        text += "; these runs do not show that one substitution per symbol does worse by "
        text += " and ".join(level)
    return text + "."


def _fast(found: Evidence) -> str:
    ours, theirs = (
        f"{found.of('seconds', name) * 1e3:.0f} ms and {found.of('calls', name):.0f}"
        for name in ("LIME", "SHAP kernel")
    )
    fast = _three(
        found.told("seconds", "SHAP kernel", "LIME"),
        "It is faster than SHAP.",
        "It is slower than SHAP.",
        "These runs do not show that it is faster than SHAP.",
    )
    approximate = _three(
        found.told("cosine to the model", "SHAP kernel", "LIME"),
        "It is less exact than SHAP.",
        "It is more exact than SHAP.",
        "These runs do not show that it is less exact than SHAP.",
    )
    return (
        f'LIME is "fast, approximate": it took {ours} model calls a word, SHAP\'s kernel {theirs}. '
        "Its cosine to the model's exact Shapley values is "
        f"{found.of('cosine to the model', 'LIME'):.2f} "
        f"(kernel: {found.of('cosine to the model', 'SHAP kernel'):.2f}). {fast} {approximate}"
    )


def _grounded(found: Evidence) -> str:
    exact, kernel = (
        found.of("seconds", name) / found.of("seconds", "LIME")
        for name in ("Shapley exact", "SHAP kernel")
    )
    consistent = _three(
        found.told("stability", "SHAP kernel", "LIME"),
        "SHAP's kernel is more consistent than LIME.",
        "SHAP's kernel is less consistent than LIME.",
        "These runs do not show that SHAP's kernel is more consistent than LIME.",
    )
    dear = _three(
        found.told("seconds", "SHAP kernel", "LIME"),
        "It is more expensive.",
        "On words this short it is cheaper.",
        "These runs do not show that it is more expensive on words this short.",
    )
    return (
        'SHAP is "grounded, consistent, but expensive": between its own seeds, the values of the '
        f"kernel have a mean cosine of {found.of('stability', 'SHAP kernel'):.2f}, those of LIME "
        f"{found.of('stability', 'LIME'):.2f}. The kernel misses the exact values by "
        f"{found.of('error', 'SHAP kernel'):.3f} on average, LIME by "
        f"{found.of('error', 'LIME'):.3f}. All coalitions of these short words in one batch take "
        f"{exact:.1f} times as long as LIME, SHAP's kernel {kernel:.1f} times. {consistent} {dear}"
    )


def _three(gap: float, more: str, less: str, level: str) -> str:
    """The text for a tested difference: above 0, below 0, or neither shown (0)."""
    return more if gap > 0 else less if gap < 0 else level


def _replacement(by_seed: pd.DataFrame) -> str:
    rows = _honest(by_seed)
    kernel = rows[(rows["method"] == "SHAP kernel") & (rows["measure"] == "AUROC")]
    if kernel.empty:
        return ""
    grid = kernel.pivot_table("value", "language", "replacement")
    name = (grid.max(axis=1) - grid.min(axis=1)).idxmax()
    row = grid.loc[name].sort_values()
    least, most = row.index[0], row.index[-1]
    seeds = kernel[kernel["language"] == name].pivot(
        index="seed", columns="replacement", values="value"
    )
    _, low, high = t_interval((seeds[most] - seeds[least]).to_numpy())
    apart = (
        ""
        if np.isnan(low)
        else f"; over {len(seeds)} seeds the difference is {low:.2f} to {high:.2f} (95%)"
    )
    return (
        "What stands in for hidden symbols decides the answer: on "
        f"{name} the AUROC of SHAP's kernel goes from {row.iloc[0]:.2f} ({least}) to "
        f"{row.iloc[-1]:.2f} ({most}){apart}."
    )


def _shortcut(by_seed: pd.DataFrame) -> str:
    planted = by_seed[by_seed["measure"] == of_run.FOUND]
    if planted.empty:
        return ""
    by_run = planted.pivot_table("value", "seed", "method")
    controls = set(planted.loc[planted["family"] == "control", "method"])
    means = by_run.mean().drop(controls & set(by_run)).sort_values(ascending=False)

    def text(name: str) -> str:
        mean, low, high = t_interval(by_run[name].to_numpy())
        return f"{name} {mean:.2f}" + ("" if np.isnan(low) else f" [{low:.2f}, {min(high, 1):.2f}]")

    return (
        "The methods that best tell a model with a planted shortcut from a clean one, line by line "
        f"(AUROC over {len(by_run)} {'seed' if len(by_run) == 1 else 'seeds'}), are "
        f"{', '.join(map(text, means.index[:4]))}; the worst is {text(means.index[-1])}; random "
        f"values reach {by_run['random'].mean() if 'random' in by_run else np.nan:.2f}."
    )


def _tested(found: Evidence) -> str:
    if found.pairs.empty:
        return ""
    tests, runs = len(found.pairs), len(found.by_run)
    needed = pairs_needed(tests, LEVEL)
    text = (
        f"Each comparison is paired over {runs} {'run' if runs == 1 else 'runs'}: a sign-flip "
        f"test, with p at most {LEVEL} after Holm's correction for {tests} tests (for the best "
        "method: for all pairs of methods)."
    )
    return text if runs >= needed else f"{text} Fewer than {needed} runs cannot show anything."
