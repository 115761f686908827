"""Which explanation method tells the truth? All of them on many words, scored with controls."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

import altair as alt
import numpy as np
import pandas as pd
from altair.typing import ChartType

from analyses.answers import Answer, Progress, of_answer, plain, quiet
from analyses.charts.leaderboard import MEASURES, PANELS, REPLACEMENTS, panels
from analyses.claims import COUNTS, Claim
from analyses.options.words import LONGEST, SHORTEST, Replacement
from analyses.options.words import Leaderboard as Options
from analyses.questions.behaviour.accuracy import leans_on
from analyses.questions.words.explanations import (
    CONTROLS,
    RANKS,
    as_control,
    case_of,
    on_scale,
    replacement_in_words,
)
from analyses.words import ANALYSIS_SEED
from interp.explanations.axioms import consistency
from interp.explanations.case import Case, Values
from interp.explanations.explain import explain, judge, stability
from interp.explanations.games import SCALES, Game
from interp.explanations.methods import METHODS, called, offered
from interp.explanations.saliency import ENOUGH
from interp.statistics import bootstrap_mean
from models.base import LanguageModel
from models.errors import UserError
from models.languages import Language, Sample, Word
from models.runs.run import Run

MEMBERSHIPS = ("members", "non-members")
"""Two kinds of words, never averaged: other positions decide in them, by another rule."""
ROW = ["method", "scale"]
KEYS = ["membership", "replacement", *ROW, "family"]
"""The columns that tell the rows of a board apart, besides the measure."""
AGAIN = 2
"""Further seeds with which a method is asked, to measure its stability."""
TIMED = 3
"""Words on which each method computes all values that it needs, so that its cost is measured. On
the other words all methods share one table of values."""


def analyse(run: Run, options: Options, progress: Progress = quiet) -> Answer:
    """One row per word, replacement, method and scale.

    Columns: word (its number), text, membership (members, non-members), probability (the model's,
    of "in the language"), right (is the model's verdict right?), replacement, method, family,
    estimand and scale (as of the question "explanations"), the ``MEASURES``, gain. A method that
    replaces nothing is asked once per word and scored under each replacement. The method
    "untrained" is the one that is claimed of such words, asked of the untrained network.

    Raises:
        UserError: bad options, or no words so short.
    """
    language, model = run.language, run.model()
    sample = _words_of(run, options)
    tables: list[pd.DataFrame] = []
    words = language.vocabulary.decoded(sample.words)
    for index, (word, label) in enumerate(zip(words, sample.labels, strict=True)):
        progress(index, len(sample.labels), f"explaining {' '.join(word)}")
        table = _of_word(model, language, word, options, index)
        table.insert(0, "word", index)
        table.insert(1, "text", " ".join(word))
        table.insert(2, "membership", MEMBERSHIPS[not label])
        tables.append(table)
    progress(len(tables), len(tables), "the untrained network")
    table = pd.concat(tables, ignore_index=True)
    table = pd.concat([table, *_of_untrained(run, options, table)], ignore_index=True)
    verdict = np.where(table["probability"] >= 0.5, *MEMBERSHIPS)
    table.insert(4, "right", verdict == table["membership"])
    findings = {
        "words": len(tables),
        "right": float(table.drop_duplicates("word")["right"].mean()),
        "replacements": {kind: replacement_in_words(kind, language) for kind in _kinds(options)},
        "rationale_rule": language.rationale_rule,
        "shortcut": language.shortcut,
        "reliance": _on_shortcut_really(run, model, options),
    }
    return Answer(
        table, "No truth is known of these words that could judge a method.", plain(findings)
    )


def _words_of(run: Run, options: Options) -> Sample:
    """Fresh words of the training window that are long enough to say something, and not too long,
    each of them once.

    Lengths are used that have both members and others; where no length has both, all of them.
    """
    rng = np.random.default_rng([ANALYSIS_SEED, options.seed])
    try:
        drawn = run.language.sample(rng, options.words, _lengths_of(run, options), split="test")
    except (LookupError, ValueError):
        cure = f"give a larger --longest (at most {LONGEST})"
        if min(run.language.length_of(run.config.max_n), LONGEST) <= options.longest:
            cure = "ask a run that was trained with a larger --max-n, or on another language"
        raise UserError(
            f"the training window of {run.name} has no test words of {SHORTEST} to "
            f"{options.longest} symbols: {cure}"
        ) from None
    first = np.sort(np.unique(drawn.words.ids, axis=0, return_index=True)[1])
    return drawn[first]


def _lengths_of(run: Run, options: Options) -> list[int]:
    """The lengths of the words that are explained."""
    language = run.language
    longest = min(options.longest, language.length_of(run.config.max_n))
    lengths = [k for k in range(SHORTEST, longest + 1) if k in language.lengths(run.config.max_n)]
    return language.positive_lengths(lengths) or lengths


def _of_word(
    model: LanguageModel, language: Language, word: Word, options: Options, index: int
) -> pd.DataFrame:
    """All methods on one word, under every replacement."""
    once: pd.DataFrame | None = None
    tables = []
    for kind in _kinds(options):
        seed = _seed(options, index)
        case = case_of(model, language, word, kind, options, seed)
        remember = index >= TIMED
        case.game.values()
        names = offered(case)
        wanted = [name for name in names if once is None or METHODS[name].replaces]
        table = explain(case, wanted, seed, remember)
        table = table.join(_stabilities(case, wanted, table), on=ROW)
        if once is None:
            once = table[[not METHODS[name].replaces for name in table["method"]]]
        else:
            table = pd.concat([table, once], ignore_index=True)
            rank = table["method"].map({name: k for k, name in enumerate(METHODS)})
            table = table.iloc[np.argsort(rank, kind="stable")].reset_index(drop=True)
        scores = judge(case, table, seed)
        about = table.drop_duplicates(ROW).set_index(ROW)
        scores = scores.join(about["stability"], on=ROW)
        scores["consistency"] = np.nan
        if index < TIMED and kind == _kinds(options)[0]:
            kept = scores.set_index(ROW).index.map(_consistencies(case, seed))
            scores["consistency"] = kept.astype(float)
        scores = scores.join(_on_shortcut(language, word, table), on=ROW)
        scores.insert(0, "probability", float(case.game.on("probability").values()[-1]))
        scores.insert(1, "replacement", kind)
        tables.append(scores)
    return pd.concat(tables, ignore_index=True)


def _kinds(options: Options) -> Sequence[Replacement]:
    """The replacements of hidden symbols that are tried."""
    return list(dict.fromkeys(options.replacements or REPLACEMENTS))


def _seed(options: Options, index: int) -> int:
    """Other draws for every word."""
    return (options.seed * 1_000_003 + index) % 2**32


def _of_untrained(run: Run, options: Options, table: pd.DataFrame) -> Iterator[pd.DataFrame]:
    """The method that is claimed of each kind of words, asked of the untrained network."""
    model, about = run.untrained(), ["word", "text", "membership", "probability", "replacement"]
    for kind in MEMBERSHIPS:
        if (ranked := _ranked(table, kind)) is None:
            continue
        rows = table.loc[table["membership"] == kind, about].drop_duplicates(
            ["word", "replacement"]
        )
        for row in rows.to_dict("records"):
            word, seed = tuple(row["text"].split()), _seed(options, row["word"])
            case = case_of(model, run.language, word, row["replacement"], options, seed)
            _, scores = as_control(case, *_best(ranked[1]), seed, remember=True)
            yield scores.assign(**row)


def _stabilities(case: Case, names: list[str], first: pd.DataFrame) -> pd.Series:
    """The likeness of answers with other seeds, by method and scale; 1 for a method without one."""
    scores = {}
    values = dict(iter(first.groupby(ROW)["value"]))
    for name in names:
        method = METHODS[name]
        answers = []
        if method.seeded:
            calls = case.game.calls
            seeds = (7919 * (k + 1) for k in range(AGAIN))
            answers = [np.atleast_2d(method.run(case, seed)) for seed in seeds]
            case.game.calls = calls
        for row, scale in enumerate(method.scales):
            alike = [values[name, scale].to_numpy(), *(answer[row] for answer in answers)]
            scores[name, scale] = stability(np.stack(alike)) if answers else 1.0
    return pd.Series(scores, name="stability").rename_axis(ROW)


def _consistencies(case: Case, seed: int) -> dict[tuple[str, str], float]:
    """The share of cases in which the axiom of consistency holds, by method and scale, for LIME
    and SHAP."""

    def answer(name: str, game: Game) -> Values:
        return METHODS[name].run(replace(case, game=game), seed)

    return {
        (name, scale): consistency(partial(answer, name), case.game.on(scale), seed)
        for name in offered(case)
        if METHODS[name].family == "LIME and SHAP"
        for scale in SCALES
    }


def _on_shortcut(language: Language, word: Word, table: pd.DataFrame) -> pd.Series:
    """The share of each method's absolute values on the shortcut symbol, which decides nothing.

    NaN where the word has no such symbol, or the language no shortcut.
    """
    idle = [i for i, symbol in enumerate(word) if symbol == language.shortcut]
    value = table["value"].abs()
    rows = [table[column] for column in ROW]
    there = value.where(table["position"].isin(idle), 0.0).groupby(rows).sum()
    total = value.groupby(rows).sum()
    share = there / total.where(total > 0)
    return (share if idle else share * np.nan).rename("shortcut")


def _on_shortcut_really(run: Run, model: LanguageModel, options: Options) -> dict[str, Any] | None:
    """The model's reliance on the shortcut, on words as long as those that are explained.

    Returns:
        A row of ``leans_on``; None if the language has no shortcut.
    """
    rows = leans_on(run, {"trained": model}, options.seed, _lengths_of(run, options))
    return next((row for row in rows if row["symbol"] == run.language.shortcut), None)


# -- over words -----------------------------------------------------------------------------------


def board(table: pd.DataFrame) -> pd.DataFrame:
    """Means over words with 95% bootstrap intervals.

    Returns:
        One row per membership, replacement, method, scale and measure that is defined somewhere:
        ``KEYS``, measure, mean, low, high, words (how many it is a mean over).
    """
    keys = [*KEYS, "measure"]
    long = table.melt(["word", *KEYS], list(MEASURES), "measure", "value")
    long = long.dropna(subset=["value"])
    cells = long[keys].drop_duplicates()
    grid = long.pivot(index="word", columns=keys, values="value")
    values = grid[list(cells.itertuples(index=False, name=None))].to_numpy()
    rows, defined = np.empty((len(cells), 4)), ~np.isnan(values)
    # Cells that are defined for the same words are resampled as one.
    for pattern in np.unique(defined, axis=1).T:
        same = (defined == pattern[:, None]).all(axis=0)
        chosen = values[pattern][:, same]
        rows[same] = np.stack([*bootstrap_mean(chosen), np.full(same.sum(), len(chosen))], axis=1)
    means = pd.DataFrame(rows, columns=["mean", "low", "high", "words"])
    return pd.concat([cells.reset_index(drop=True), means.astype({"words": int})], axis=1)


def _headline(result: Answer) -> pd.DataFrame:
    """The numbers that are compared over seeds: variable, of, value."""
    means = result.table.groupby(KEYS[:-1], sort=False)[list(MEASURES)].mean()
    long = means.reset_index().melt(KEYS[:-1], var_name="variable")
    row = [called(*pair) for pair in zip(long["method"], long["scale"], strict=True)]
    long["of"] = long["membership"] + ", " + long["replacement"] + ": " + row
    return long[["variable", "of", "value"]]


FEWEST = 6
"""The fewest different words that judge a method; with fewer it is not weighed."""
OWN = "What decides is told by other symbols in a place; that is what the method substitution asks."


def _claims(answer: Answer) -> list[Claim]:
    """The method that half of the words choose, members and non-members apart, judged by the
    others: how far it is ahead of the control that comes nearest."""
    grids = [(kind, _ranked(answer.table, kind)) for kind in MEMBERSHIPS]
    made = [_claim(kind, *ranked) for kind, ranked in grids if ranked is not None]
    made.sort(key=lambda claim: bool(claim.unweighed))  # members first, if there are enough of them
    return [replace(one, notes=[*one.notes, *_misses(answer.table)]) for one in made[:1]] + made[1:]


def _claim(kind: str, measure: str, grid: pd.DataFrame) -> Claim:
    """The claim that the best method tells the positions that decide better than its controls."""
    best = _best(grid)
    rows = grid.iloc[int(len(grid) > 1) :: 2][[best, *((name, "none") for name in CONTROLS)]]
    means = rows.mean()
    against = means.iloc[1:].idxmax()
    mean, low, high = bootstrap_mean((rows[best] - rows[against]).to_numpy())
    enough = len(rows) >= FEWEST
    levels = [f"{says} {means[name, 'none']:.2f}" for name, says in CONTROLS.items()]
    levels.insert(0, f"{called(*best)} {means[best]:.2f}")
    ahead = f"{CONTROLS[against[0]]}, by {{}} of {measure}"
    finding = f"In {kind} {called(*best)} tells the positions that decide better than {ahead}"
    if few := not enough and mean > 0:
        finding = (
            f"In {kind} no method is judged, which takes {FEWEST} words: {called(*best)} comes "
            f"before {ahead}"
        )
    return Claim(
        finding,
        float(mean),
        float(low) if enough else None,
        float(high) if enough else None,
        len(rows),
        f"different {kind}, which did not choose it",
        "bootstrap over words",
        COUNTS,
        "+.2f",
        notes=[
            f"{measure}: {', '.join(levels)}.",
            *([OWN] if (kind, measure) != ("non-members", "AUROC") else []),
        ],
        unweighed="So none is claimed." if few else "",
    )


def _ranked(table: pd.DataFrame, kind: str) -> tuple[str, pd.DataFrame] | None:
    """The measure that ranks methods on words of a kind, and their numbers, a row per different
    word and a column per ``ROW``: means over replacements. None where no truth is known."""
    part = table[table["membership"] == kind]
    measure = next((name for name in RANKS if part[name].notna().any()), None)
    if measure is None:
        return None
    return measure, part.pivot_table(measure, "text", ROW, sort=False)


def _best(grid: pd.DataFrame) -> tuple[str, str]:
    """Which method is best on every other word."""
    methods = [at for at in grid if at[0] in METHODS and METHODS[at[0]].family != "control"]
    best: tuple[str, str] = grid.iloc[::2][methods].mean().idxmax()
    return best


def _misses(table: pd.DataFrame) -> Iterator[str]:
    """A sentence on the values that miss their known sum by more than 1%; nothing if none do."""
    misses = []
    rows = table[table["gain"].notna() & (table["family"] != "control")]
    for name, part in rows.groupby(ROW, sort=False):
        share = part["completeness"] / part["gain"].abs()
        if (far := share > ENOUGH).any():
            typical = f"typically by {share[far].median():.0%}"
            misses.append(f"{called(*name)} in {far.mean():.0%} of its answers, {typical}")
    if misses:
        yield f"Values miss the sum that they should have: {'; '.join(misses)}."


def _chart(result: Answer, scale: str = SCALES[0]) -> ChartType:
    """The methods by four measures, members above, other words below.

    Args:
        scale: the scale of the verdict, for the methods that have both.
    """
    rows = on_scale(board(result.table), scale)
    rows = rows[rows["measure"].isin(PANELS)]
    parts = []
    for kind, part in rows.groupby("membership", sort=False):
        there = [name for name in PANELS if (part["measure"] == name).any()]
        parts.append(panels(part, there).properties(title=str(kind)))
    return alt.vconcat(*parts, spacing=24)


QUESTION = of_answer(
    "leaderboard",
    Options,
    analyse,
    _headline,
    _chart,
    _claims,
    brief=Options(words=240, longest=8, replacements=("uniform",), draws=4),
    needs=("verdict",),
)
