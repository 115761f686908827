"""Which explanation method tells the truth? All of them on many words, scored with controls."""

from __future__ import annotations

from dataclasses import asdict
from typing import get_args

import altair as alt
import numpy as np
import pandas as pd
from altair.typing import ChartType

from analyses.answers import Answer, Progress, Question, plain, quiet
from analyses.charts.theme import figures
from analyses.options.questions import SHORTEST, Replacement
from analyses.options.questions import Leaderboard as Options
from analyses.questions.explanations import case_of, replacement_in_words
from analyses.registry import BUILT_IN
from analyses.script import script
from analyses.words import ANALYSIS_SEED
from interp.explanations.case import Case
from interp.explanations.explain import explain, judge, stability
from interp.explanations.methods import METHODS, offered
from interp.explanations.scores import METRICS, RATIONALE, SHAPLEY
from interp.statistics import bootstrap_mean
from models.base import LanguageModel
from models.errors import UserError
from models.languages import Language, Sample, Word
from models.runs.run import Run

REPLACEMENTS: tuple[Replacement, ...] = get_args(Replacement)
MEASURES = (*METRICS, "stability", "calls", "seconds", "completeness", "shortcut")
"""The numbers of a row: scores against the truth, cost, and the share of the absolute values on
the symbol that is no more than a shortcut."""
FOUND = "shortcut found"
MEANINGS = {
    "AUROC": "how often a position that decides (by the rationale) has a larger absolute value "
    "than one that does not; chance is 0.5",
    "average precision": "go down the ranking, and at each position that decides take the share of "
    "deciding positions so far; the mean of these shares",
    "hit@1": "does the position with the largest absolute value decide?",
    "R-precision": "if R positions decide, the share of them among the first R of the ranking",
    "mass": "the share of the absolute values that lies on positions that decide",
    "NDCG": "the gain of the ranking, in which later deciding positions count less, as a share of "
    "the best possible gain",
    "cosine to the model": "cosine of the angle to the exact Shapley values of the model's "
    "verdict: 1 is the same up to scale, 0 is unrelated",
    "cosine to the language": "the same with the exact Shapley values of the true membership",
    "error": "mean absolute difference from the model's exact Shapley values, in probability; only "
    "for methods that estimate these; lower is better",
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
    "calls": "how many words the method had the model score",
    "seconds": "how many seconds the method took",
    "completeness": "for methods whose values should have a known sum: how far they miss it, in "
    "log odds",
    "shortcut": "the share of the absolute values on a symbol that decides nothing, but goes with "
    "the label in the training lines of a variant of the language",
    FOUND: "how often a method gives the shortcut a larger share in a model that leans on it than "
    "in a clean one; chance is 0.5",
}
"""What each measure says, in one line."""
BOUNDED = {"normalised AOPC", "insertion", "deletion", "stability", "shortcut", "shortcut found"}
BOUNDED |= {*RATIONALE, *SHAPLEY[:2]}
"""Measures that are at most 1."""
AGAIN = 2
"""How many more seeds a method is asked with, to measure its stability."""
TIMED = 3
"""Words on which each method computes all values that it needs, so that its cost is measured. On
the other words all methods share one table of values."""


def analyse(run: Run, options: Options, progress: Progress = quiet) -> Answer:
    """One row per word, replacement and method.

    Columns: word (its number), text, label (is it in the language?), probability (the model's, that
    it is), right (is the model's verdict right?), replacement, method, family, the ``MEASURES``. A
    method that replaces nothing is asked once per word and scored under each replacement.

    Raises:
        UserError: bad options, or no words so short.
    """
    language = run.language
    model, digest = run.model_and_hash()
    sample = words_of(run, options)
    tables = []
    for index, (ids, length, label) in enumerate(
        zip(sample.words.ids, sample.words.lengths, sample.labels, strict=True)
    ):
        word = language.vocabulary.decode(ids[:length])
        progress(index, options.words, f"explaining {' '.join(word)}")
        table = of_word(model, language, word, options, index)
        table.insert(0, "word", index)
        table.insert(1, "text", " ".join(word))
        table.insert(2, "label", bool(label))
        tables.append(table)
    progress(options.words, options.words, "explained")
    table = pd.concat(tables, ignore_index=True)
    table.insert(4, "right", (table["probability"] >= 0.5) == table["label"])
    found = {
        "words": options.words,
        "right": float(table.drop_duplicates("word")["right"].mean()),
        "replacements": {kind: replacement_in_words(kind, language) for kind in REPLACEMENTS},
        "rationale_rule": language.rationale_rule,
        "shortcut": language.shortcut,
    }
    return Answer(table, in_words(table), plain(found), asdict(options), digest)


def words_of(run: Run, options: Options) -> Sample:
    """Fresh words of the training window that are long enough to say something, and not too long.

    Lengths are used that have both members and others; where no length has both, all of them.
    """
    language = run.language
    longest = min(options.longest, language.length_of(run.config.max_n))
    lengths = [k for k in range(SHORTEST, longest + 1) if k in language.lengths(run.config.max_n)]
    lengths = language.positive_lengths(lengths) or lengths
    rng = np.random.default_rng([ANALYSIS_SEED, options.seed])
    try:
        return language.sample(rng, options.words, lengths, split="test")
    except (LookupError, ValueError):
        raise UserError(
            f"{language.name} has no test words of {SHORTEST} to {options.longest} symbols: "
            "give a larger --longest (at most 12)"
        ) from None


def of_word(
    model: LanguageModel, language: Language, word: Word, options: Options, index: int
) -> pd.DataFrame:
    """All methods on one word, under every replacement."""
    once: pd.DataFrame | None = None
    tables = []
    for kind in REPLACEMENTS:
        seed = options.seed * 1_000_003 + index  # other draws for every word
        case = case_of(model, language, word, kind, options.draws, options.samples, seed % 2**32)
        remember = index >= TIMED
        case.game.values()
        names = offered(case)
        wanted = [name for name in names if once is None or METHODS[name].replaces]
        table = explain(case, wanted, seed % 2**32, remember)
        table = table.assign(stability=table["method"].map(stabilities(case, wanted, table)))
        if once is None:
            once = table[[not METHODS[name].replaces for name in table["method"]]]
        else:
            table = pd.concat([table, once], ignore_index=True)
            rank = table["method"].map({name: k for k, name in enumerate(METHODS)})
            table = table.iloc[np.argsort(rank, kind="stable")].reset_index(drop=True)
        scores = judge(case, table, seed % 2**32)
        about = table.drop_duplicates("method").set_index("method")
        scores = scores.join(about["stability"], on="method")
        scores = scores.join(on_shortcut(case, language, word, table), on="method")
        scores.insert(0, "probability", float(case.game.values()[-1]))
        scores.insert(1, "replacement", kind)
        tables.append(scores)
    return pd.concat(tables, ignore_index=True)


def stabilities(case: Case, names: list[str], first: pd.DataFrame) -> dict[str, float]:
    """How alike answers with other seeds are; 1 of a method that has no seed."""
    found = {}
    values = dict(iter(first.groupby("method")["value"]))
    for name in names:
        method, answers = METHODS[name], [values[name].to_numpy()]
        if not method.seeded:
            found[name] = 1.0
            continue
        asked = case.game.calls
        answers += [method.run(case, 7919 * (k + 1)) for k in range(AGAIN)]
        case.game.calls = asked
        found[name] = stability(np.stack(answers))
    return found


def on_shortcut(case: Case, language: Language, word: Word, table: pd.DataFrame) -> pd.Series:
    """The share of each method's absolute values on a shortcut symbol that decides nothing here.

    NaN where the word has no such symbol, or the language no shortcut.
    """
    idle = [
        i
        for i, symbol in enumerate(word)
        if symbol == language.shortcut and i not in (case.rationale or ())
    ]
    value = table["value"].abs()
    there = value.where(table["position"].isin(idle), 0.0).groupby(table["method"]).sum()
    total = value.groupby(table["method"]).sum()
    share = there / total.where(total > 0)
    return (share if idle else share * np.nan).rename("shortcut")


# -- over words -----------------------------------------------------------------------------------


def board(table: pd.DataFrame) -> pd.DataFrame:
    """Means over words with 95% bootstrap intervals.

    Returns:
        One row per replacement, method and measure that is defined somewhere: replacement, method,
        family, measure, mean, low, high, words (how many it is a mean over).
    """
    keys = ["replacement", "method", "family", "measure"]
    long = table.melt(["word", *keys[:3]], list(MEASURES), "measure", "value")
    long = long.dropna(subset=["value"])
    cells = long[keys].drop_duplicates()
    grid = long.pivot(index="word", columns=keys, values="value")
    values = grid[list(cells.itertuples(index=False, name=None))].to_numpy()
    rows, known = np.empty((len(cells), 4)), ~np.isnan(values)
    # Cells that are defined for the same words are resampled as one.
    for pattern in np.unique(known, axis=1).T:
        same = (known == pattern[:, None]).all(axis=0)
        chosen = values[pattern][:, same]
        rows[same] = np.stack([*bootstrap_mean(chosen), np.full(same.sum(), len(chosen))], axis=1)
    found = pd.DataFrame(rows, columns=["mean", "low", "high", "words"])
    return pd.concat([cells.reset_index(drop=True), found.astype({"words": int})], axis=1)


def headline(result: Answer) -> pd.DataFrame:
    """The numbers that are compared over seeds: variable, of, value."""
    means = result.table.groupby(["replacement", "method"], sort=False)[list(MEASURES)].mean()
    long = means.reset_index().melt(["replacement", "method"], var_name="variable")
    long["of"] = long["replacement"] + ": " + long["method"]
    return long[["variable", "of", "value"]]


def in_words(table: pd.DataFrame) -> str:
    """A sentence: which methods are nearest to the truth, and where the best-known ones stand."""
    means = table.groupby("method", sort=False)[list(METRICS)].mean()
    controls = set(table.loc[table["family"] == "control", "method"])
    for measure in ("cosine to the language", "AUROC", "cosine to the model"):
        known = means[measure].dropna().sort_values(ascending=False)
        named = ("LIME", "SHAP kernel", "integrated gradients", "attention", "random")
        best = [name for name in known.index if name not in controls][:3]
        if best:
            first = ", ".join(f"{name} {known[name]:.2f}" for name in best)
            rest = [f"{name} {known[name]:.2f}" for name in named if name in known.index]
            return (
                f"{measure}, mean over {table['word'].nunique()} words and all replacements: the "
                f"best are {first}; for comparison, {', '.join(rest)}."
            )
    return "No truth is known here: methods are compared by what hiding symbols does."


def chart(result: Answer) -> ChartType:
    """The methods by four measures: by the rationale, by the language, by the model, by hiding."""
    shown = ["AUROC", "cosine to the language", "cosine to the model", "normalised AOPC"]
    rows = board(result.table)
    rows = rows[rows["measure"].isin(shown)]
    return panels(rows, [name for name in shown if (rows["measure"] == name).any()])


def panels(rows: pd.DataFrame, shown: list[str]) -> ChartType:
    """A panel per measure, a row per method, a colour per replacement; columns as of ``board``."""
    order = [name for name in (*METHODS, "chance") if (rows["method"] == name).any()]
    # These can be told apart on a light and on a dark page, and by people who see few colours.
    colors = dict(zip(REPLACEMENTS, ("#4c78a8", "#f58518", "#54a24b"), strict=True))
    there = [kind for kind in REPLACEMENTS if (rows["replacement"] == kind).any()]
    parts = []
    for index, name in enumerate(shown):
        part = rows[rows["measure"] == name]
        title = alt.Title(name, anchor="start", frame="group")
        base = alt.Chart(part, title=title).encode(
            y=alt.Y("method:N", sort=order, title=None).axis(
                labels=index == 0, labelOverlap=False, labelLimit=200, grid=True, ticks=False
            ),
            yOffset=alt.YOffset("replacement:N", sort=there),
            color=alt.Color("replacement:N", title="hidden symbols", sort=there)
            .scale(domain=there, range=[colors[kind] for kind in there])
            .legend(orient="top"),
            tooltip=[
                "method",
                "replacement",
                *figures("mean"),
                *figures("low"),
                *figures("high"),
            ],
        )
        x = alt.X("low:Q", title=None).scale(zero=False)
        if name in BOUNDED:  # Student's interval knows no bounds: cut it off there
            signed = "cosine" in name or name == "stability"
            least = max(part[["mean", "low"]].min().min(), -1.0 if signed else 0.0)
            x = x.scale(domain=[least, 1.0], nice=False)
        rule = base.mark_rule(clip=True).encode(x=x, x2="high:Q")
        point = base.mark_point(filled=True, size=28, opacity=1).encode(x="mean:Q")
        parts.append((rule + point).properties(width=170, height=alt.Step(6)))
    figure: ChartType = alt.hconcat(*parts, spacing=12)
    return figure


QUESTION = Question(
    "leaderboard",
    BUILT_IN["leaderboard"],
    Options,
    analyse,
    headline,
    chart,
    brief=Options(words=8),
)

if __name__ == "__main__":
    raise SystemExit(script(QUESTION))
