"""The claims of the lectures about the classical techniques, tested over a leaderboard's runs.

The unit of the tests is a run, one seed of one language. Its numbers are means over words and
replacements, of members and non-members apart. The claims are about Transformers; LSTM and CNN only
say whether something is so because of Transformers.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass
from functools import cached_property

import numpy as np
import pandas as pd

from analyses.charts.leaderboard import FOUND
from analyses.claims import interval_text
from analyses.options.studies import PLANTED
from analyses.questions.words.leaderboard import MEMBERSHIPS
from analyses.studies import by_language
from analyses.studies.reliance import in_words
from interp.comparisons import all_pairs, corrected, paired, pairs_needed
from interp.explanations.methods import called
from interp.statistics import seeds_interval, t_interval

LEVEL = 0.05
ALL = "all words"
LIME, KERNEL = "LIME (probability)", "SHAP kernel (probability)"
ASKED = (LIME, "LIME (log odds)", KERNEL, "SHAP kernel (log odds)")
PLANNED = (
    *((kind, "AUROC", name, "chance") for kind in MEMBERSHIPS for name in ASKED),
    ("non-members", "AUROC", "substitution (probability)", KERNEL),
    ("non-members", "AUROC", "SmoothGrad (log odds)", KERNEL),
    (ALL, "seconds", KERNEL, LIME),
    (ALL, "cosine to the model", KERNEL, LIME),
    (ALL, "stability", KERNEL, LIME),
)
"""The comparisons that the claims rest on: the words, a measure and two methods. They were fixed
before any number was seen."""
EXACT = ("SHAP exact", "Shapley exact")


@dataclass(frozen=True)
class _Evidence:
    """The numbers that the claims are read from.

    Attributes:
        by_run: rows language and seed, columns measure, words and method (with its scale); means
            over replacements. The words are members, non-members, or all: the mean of both.
        families: the family of each method.
    """

    by_run: pd.DataFrame
    families: dict[str, str]

    @cached_property
    def pairs(self) -> pd.DataFrame:
        """The comparisons of ``PLANNED`` for which both methods were asked.

        Columns: words, measure, first, second, the attributes of ``Paired``, corrected (p, by
        Holm's method, over all rows).
        """
        rows = [
            {"words": words, "measure": measure, "first": first, "second": second}
            | asdict(
                paired(*(self.by_run[measure, words, name].to_numpy() for name in (first, second)))
            )
            for words, measure, first, second in PLANNED
            if {(measure, words, first), (measure, words, second)} <= set(self.by_run.columns)
        ]
        table = pd.DataFrame(rows)
        return table.assign(corrected=corrected(table["p"].to_numpy())) if rows else table

    def of(self, measure: str, method: str, words: str = ALL) -> float:
        """Mean over runs; NaN where it is not defined."""
        return float(self.by_run.mean().get((measure, words, method), np.nan))

    def told(self, words: str, measure: str, first: str, second: str) -> float:
        """The first less the second, if the corrected p is at most ``LEVEL``; else 0."""
        for row in self.pairs.to_dict("records"):
            comparison = (row["words"], row["measure"], row["first"], row["second"])
            if comparison == (words, measure, first, second):
                return float(row["difference"]) if row["corrected"] <= LEVEL else 0.0
        return 0.0

    def best(self, measure: str, words: str) -> str:
        """The method with the largest mean, apart from exact ones and controls; and how many others
        it is significantly above, if the runs suffice to tell so many methods apart."""
        grid = self.by_run[measure, words]
        kept = [
            name
            for name in grid
            if self.families[name] != "control" and name.split(" (")[0] not in EXACT
        ]
        grid = grid[kept].dropna(how="all")
        if grid.shape[1] == 1:
            return f"{grid.columns[0]} ({grid.iloc[:, 0].mean():.2f})"
        pairs = all_pairs(grid)
        tests = pairs[pairs["first"] == pairs["first"].iloc[0]]
        name, beaten = tests["first"].iloc[0], int((tests["corrected"] <= LEVEL).sum())
        runs, needed = int(tests["pairs"].max()), pairs_needed(len(pairs), LEVEL)
        beats = f"significantly above {beaten} of {len(tests)} others"
        if runs < needed:
            beats = f"{runs} runs cannot tell {len(kept)} methods apart: it takes {needed}"
        return f"{name} ({grid[name].mean():.2f}, {beats})"


def evidence(by_seed: pd.DataFrame) -> _Evidence:
    """The evidence of all Transformers. Planted shortcuts count only if no other language is there.

    Args:
        by_seed: the rows of ``leaderboard.means``, of all runs.
    """
    rows = _named(_honest(by_seed))
    rows = rows[_transformers(rows)]
    both = pd.concat([rows, rows.assign(membership=ALL)])
    columns = ["measure", "membership", "method"]
    by_run = both.pivot_table("value", ["language", "architecture", "seed"], columns)
    return _Evidence(by_run, dict(zip(rows["method"], rows["family"], strict=True)))


def _named(rows: pd.DataFrame) -> pd.DataFrame:
    """The rows with the scale in the name of the method."""
    pairs = zip(rows["method"], rows["scale"], strict=True)
    return rows.assign(method=[called(*pair) for pair in pairs])


def _transformers(rows: pd.DataFrame) -> pd.Series:
    """A mask of the rows of Transformers, with fixed heads or without; all rows if none is."""
    mask = rows["architecture"].str.startswith("transformer")
    return mask if mask.any() else ~mask


def _honest(by_seed: pd.DataFrame) -> pd.DataFrame:
    """The rows of languages without a planted shortcut; all rows if there is no such language."""
    clean = by_seed["language"] != PLANTED
    return by_seed[clean] if clean.any() else by_seed


def verdict(by_seed: pd.DataFrame, credited: pd.DataFrame) -> list[str]:
    """The claims, one text each, with the numbers that were measured.

    Args:
        by_seed: columns language, architecture, seed, membership, replacement, method, scale,
            family, measure, value.
        credited: the table of ``analyses.studies.reliance.credit``.
    """
    facts = evidence(by_seed)
    texts = [_networks(by_seed), _useful(facts), by_language.in_words(in_each_language(by_seed))]
    texts += [_elsewhere(by_seed), _own(facts)]
    texts += [_local(facts), _fast(facts), _grounded(facts)]
    texts += [_replacement(by_seed), _shortcut(by_seed), in_words(credited), _tested(facts)]
    return [text for text in texts if text]


def _networks(by_seed: pd.DataFrame) -> str:
    rows = _honest(by_seed)
    kinds = rows.groupby("architecture", sort=False)["language"].unique()
    text = "; ".join(f"{kind} on {', '.join(names)}" for kind, names in kinds.items())
    return f"Networks: {text}. Unless others are named, a claim is about the Transformers."


def in_each_language(by_seed: pd.DataFrame) -> pd.DataFrame:
    """LIME and SHAP beside chance, and substitutions beside SHAP, as ``by_language.compared``."""
    rows = _named(_honest(by_seed))
    plan = ((LIME, "chance"), (KERNEL, "chance"), ("substitution (probability)", KERNEL))
    return by_language.compared(rows[_transformers(rows)], plan)


def _useful(facts: _Evidence) -> str:
    """The claim on usefulness, by a truth that is no SHAP value; members and non-members apart."""
    parts = []
    for kind in MEMBERSHIPS:
        methods = [name for name in ASKED if ("AUROC", kind, name) in facts.by_run]
        if not methods:
            continue
        sure = [name for name in methods if facts.told(kind, "AUROC", name, "chance") > 0]
        worse = [name for name in methods if facts.told(kind, "AUROC", name, "chance") < 0]
        verdict = "are told from chance" if len(sure) == len(methods) else "is told from chance"
        text = f"{', '.join(sure) or 'none of LIME and SHAP'} {verdict}"
        if len(sure) == len(methods):
            text = "LIME and SHAP rank the positions that decide above chance, on both scales"
        if worse:
            text += f"; {', '.join(worse)} below chance"
        numbers = ", ".join(f"{n} {facts.of('AUROC', n, kind):.2f}" for n in (*methods, "chance"))
        runs = facts.by_run["AUROC", kind, methods[0]].dropna()
        names = ", ".join(runs.index.unique("language"))
        best = facts.best("AUROC", kind)
        parts.append(f"{kind} ({len(runs)} runs: {names}): {text} ({numbers}; best {best})")
    if not parts:
        return ""
    text = '"Often less useful than hoped in Transformers", by AUROC against the positions that '
    text += f"decide. {'. '.join(parts)}."
    for name in ("substitution (probability)", "SmoothGrad (log odds)"):
        if ("AUROC", "non-members", name) in facts.by_run:
            gap = facts.told("non-members", "AUROC", name, KERNEL)
            value = facts.of("AUROC", name, "non-members")
            text += " On non-members " + _three(
                gap,
                f"{name} does better than {KERNEL} ({value:.2f}).",
                f"{name} does worse than {KERNEL} ({value:.2f}).",
                f"these runs do not tell {name} ({value:.2f}) from {KERNEL}.",
            )
    return text


def _elsewhere(by_seed: pd.DataFrame) -> str:
    """Is it because of Transformers? The same words explained in LSTM and CNN."""
    rows = _named(_honest(by_seed))
    rows = rows[(rows["measure"] == "AUROC") & rows["method"].isin((LIME, KERNEL))]
    rows = rows.assign(
        kind=np.where(_transformers(rows), "transformer", rows["architecture"]),
    )
    units, columns = ["language", "seed"], ["kind", "membership", "method"]
    grid = rows.pivot_table("value", units, columns)
    kinds = [kind for kind in dict.fromkeys(rows["kind"]) if kind != "transformer"]
    tests = [
        (kind, words, name, paired(grid["transformer", words, name].to_numpy(), values.to_numpy()))
        for (kind, words, name), values in grid.items()
        if kind in kinds and ("transformer", words, name) in grid
    ]
    if not tests:
        return ""
    texts = [
        f"{name} on {words}: {test.difference:+.2f} against the {kind} "
        f"({test.pairs} pairs of runs, p {p:.2g})"
        for (kind, words, name, test), p in zip(
            tests, corrected(np.array([test.p for *_, test in tests])), strict=True
        )
    ]
    return (
        'Because "of Transformers"? Their AUROC minus that of other networks on the same words '
        f"(sign-flip tests, Holm over {len(tests)}): {'; '.join(texts)}."
    )


def _own(facts: _Evidence) -> str:
    measure = "cosine to the language"
    if (measure, ALL, KERNEL) not in facts.by_run:
        return ""
    return (
        f"The cosine to the language's Shapley values is SHAP's own estimand: {KERNEL} "
        f"{facts.of(measure, KERNEL):.2f}, {LIME} {facts.of(measure, LIME):.2f}. It says that SHAP "
        "estimates well and that the network follows the rule, and no more."
    )


def _local(facts: _Evidence) -> str:
    near, far = (facts.of(f"fit {where}", LIME) for where in ("near", "far"))
    if np.isnan(near) or np.isnan(far):
        return ""
    return (
        f'LIME is "local": its linear model explains {near:.2f} of the variance (R2) where at most '
        f"a third of the symbols are hidden, and {far:.2f} where at most a third are shown; SHAP's "
        f"kernel {facts.of('fit near', KERNEL):.2f} and {facts.of('fit far', KERNEL):.2f}."
    )


def _fast(facts: _Evidence) -> str:
    ours, theirs = (
        f"{facts.of('seconds', name) * 1e3:.0f} ms and {facts.of('calls', name):.0f}"
        for name in (LIME, KERNEL)
    )
    fast = _compared(facts, "seconds", "it", "faster", "slower", "SHAP")
    approximate = _compared(facts, "cosine to the model", "it", "less exact", "more exact", "SHAP")
    return (
        f'LIME is "fast, approximate": it took {ours} model calls a word, SHAP\'s kernel {theirs}. '
        "Its cosine to the model's exact Shapley values is "
        f"{facts.of('cosine to the model', LIME):.2f} "
        f"(kernel: {facts.of('cosine to the model', KERNEL):.2f}). {fast} {approximate}"
    )


def _grounded(facts: _Evidence) -> str:
    exact, kernel = (
        facts.of("seconds", name) / facts.of("seconds", LIME)
        for name in ("Shapley exact (probability)", KERNEL)
    )
    consistent = _compared(
        facts, "stability", "SHAP's kernel", "more consistent", "less consistent", "LIME"
    )
    dear = _three(
        facts.told(ALL, "seconds", KERNEL, LIME),
        "It is more expensive.",
        "On words this short it is cheaper.",
        "These runs do not show that it is more expensive on words this short.",
    )
    return (
        'SHAP is "grounded, consistent, but expensive": between its own seeds, the values of the '
        f"kernel have a mean cosine of {facts.of('stability', KERNEL):.2f}, those of LIME "
        f"{facts.of('stability', LIME):.2f}. By the axiom (who contributes more never gets less) "
        f"the kernel's values rose or stayed in {facts.of('consistency', KERNEL):.1%} of trials, "
        f"LIME's in {facts.of('consistency', LIME):.1%}. The kernel misses the exact values by "
        f"{facts.of('error', KERNEL):.3f} on average, LIME by "
        f"{facts.of('error', LIME):.3f}. All coalitions of these short words in one batch take "
        f"{exact:.1f} times as long as LIME, SHAP's kernel {kernel:.1f} times. {consistent} {dear}"
    )


def _compared(facts: _Evidence, measure: str, who: str, more: str, less: str, other: str) -> str:
    """What SHAP's kernel less LIME, by a measure of all words, says of one of the two."""
    gap, first = facts.told(ALL, measure, KERNEL, LIME), who[0].upper() + who[1:]
    return _three(
        gap,
        f"{first} is {more} than {other}.",
        f"{first} is {less} than {other}.",
        f"These runs do not show that {who} is {more} than {other}.",
    )


def _three(gap: float, more: str, less: str, level: str) -> str:
    """The text for a tested difference: above 0, below 0, or neither shown (0)."""
    return more if gap > 0 else less if gap < 0 else level


def _replacement(by_seed: pd.DataFrame) -> str:
    rows = _named(_honest(by_seed))
    rows = rows[_transformers(rows) & (rows["membership"] == "non-members")]
    kernel = rows[(rows["method"] == KERNEL) & (rows["measure"] == "AUROC")]
    if kernel.empty:
        return ""
    grid = kernel.pivot_table("value", "language", "replacement")
    name = (grid.max(axis=1) - grid.min(axis=1)).idxmax()
    row = grid.loc[name].sort_values()
    least, most = row.index[0], row.index[-1]
    seeds = kernel[kernel["language"] == name].pivot_table("value", "seed", "replacement")
    _, low, high = t_interval((seeds[most] - seeds[least]).to_numpy())
    apart = (
        ""
        if np.isnan(low)
        else f"; over {len(seeds)} seeds the difference is {low:.2f} to {high:.2f} (95%)"
    )
    return (
        "What stands in for hidden symbols decides the answer: on "
        f"non-members of {name} the AUROC of {KERNEL} goes from {row.iloc[0]:.2f} ({least}) to "
        f"{row.iloc[-1]:.2f} ({most}){apart}."
    )


def _shortcut(by_seed: pd.DataFrame) -> str:
    planted = _named(by_seed[by_seed["measure"] == FOUND])
    if planted.empty:
        return ""
    planted = planted[_transformers(planted)]
    by_run = planted.pivot_table("value", "seed", "method")
    controls = set(planted.loc[planted["family"] == "control", "method"])
    means = by_run.mean().drop(controls & set(by_run)).sort_values(ascending=False)

    def text(name: str) -> str:
        return f"{name} {interval_text(*seeds_interval(by_run[name].to_numpy()))}"

    return (
        "The methods that best tell a model with a planted shortcut from a clean one, line by line "
        f"(AUROC over {len(by_run)} {'seed' if len(by_run) == 1 else 'seeds'}), are "
        f"{', '.join(map(text, means.index[:4]))}; the worst is {text(means.index[-1])}; random "
        f"values reach {by_run['random'].mean() if 'random' in by_run else np.nan:.2f}."
    )


def _tested(facts: _Evidence) -> str:
    if facts.pairs.empty:
        return ""
    tests, runs = len(facts.pairs), len(facts.by_run)
    needed = pairs_needed(tests, LEVEL)
    text = (
        f"Each comparison is paired over up to {runs} {'run' if runs == 1 else 'runs'}: a "
        f"sign-flip test, with p at most {LEVEL} after Holm's correction for {tests} tests (for "
        "the best method: for all pairs of methods)."
    )
    return text if runs >= needed else f"{text} Fewer than {needed} runs cannot show anything."
