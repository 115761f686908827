"""Accuracy in the training window and beyond: exactness and recognition by word length, and the
verdicts on all short words, beside the untrained model."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, replace
from functools import partial
from typing import Any

import numpy as np
import pandas as pd

from analyses.answers import Answer, Planned, Progress, numbers, of_answer, quiet
from analyses.charts.accuracy import chart
from analyses.claims import Claim
from analyses.options.behaviour import Accuracy as Options
from analyses.questions.behaviour.pooled import pooled
from interp.explanations.reliance import LEANS, reliance
from interp.statistics import brackets, wilson
from models.base import LanguageModel
from models.config import MOST_PAIRS
from models.errors import UserError
from models.languages import FormalLanguage, Words
from models.languages.regular import RegularLanguage
from models.runs.learnt import selection_lengths
from models.runs.run import Run
from models.training.all_words import EXAMPLES, WRONG, affordable, check_count, count_all, totals
from models.training.evaluation import evaluate, probabilities
from models.training.trained_words import TrainedWords

LEANING, LEANING_SEED = 200, 0x1EA4
"""The words that show what a model leans on, and the seed that sets their draw apart."""
LEANING_COLUMNS = ["symbol", "effect", "low", "high", "corrected", "words", "model"]
LEVEL = 0.05
RIGHT = 0.99
"""The share of right verdicts from which on a network is said to know its language."""
ALL_WORDS = 100_000
"""The most words that are all tested, unless more are asked for."""


def _chosen_lengths(run: Run, options: Options) -> Sequence[int]:
    """The word lengths asked for. Of a corpus all lines are taught, whatever its window."""
    language = run.language
    if options.lengths is not None:
        return options.range()
    largest = language.size_of(language.lengths(run.config.max_n)[-1]) or run.config.max_n
    max_n = 2 * largest if options.max_n is None else options.max_n
    # Several sizes may have one length.
    sizes = dict.fromkeys(language.length_of(n) for n in range(1, max_n + 1))
    lengths = set(language.lengths(max_n))
    return [length for length in sizes if length in lengths]


def analyse(run: Run, options: Options, progress: Progress = quiet) -> Answer:
    """One row per model (trained, untrained) and length.

    Columns: model, length, n (missing where no size has this length), count (of the words drawn),
    different (how many different ones are among them), member_words (how many are members), exact
    (missing where it is not defined), recognition, members and others (the share recognised of
    each; missing where there is none), fresh (how many different words among them no training step
    drew), fresh_recognition (the share of these that is recognised), and the 95% Wilson interval of
    recognition over different words, low and high. The verdicts on all short words are in
    ``findings["all_words"]``, and how far they lean on symbols that decide nothing in
    ``findings["leans_on"]``.
    """
    lengths = _chosen_lengths(run, options)
    if (longest := max(lengths, default=0)) ** 2 * options.count > MOST_PAIRS:
        fits = MOST_PAIRS // longest**2
        raise UserError(
            f"{options.count} words of {longest} symbols are too many to read at once: choose "
            + (f"a --count of at most {fits}, or shorter words" if fits else "shorter words")
        )
    models = {"trained": run.model(), "untrained": run.untrained()}
    trained = TrainedWords(run.config, run.language, run.step)
    reach = _reach_of_all_words(run, options, longest)
    every = count_all(models, run.language, trained, reach, progress)
    inert = leans_on(run, models, options.seed)
    rows: list[dict[str, Any]] = []
    for name, judged in models.items():
        settings = (run.language, run.objective, lengths, options.count, options.seed, trained)
        for score in evaluate(judged, *settings):
            low, high = wilson(round(score.recognition * score.different), score.different)
            rows.append({"model": name, **asdict(score), "low": low, "high": high})
            progress(len(rows), 2 * len(lengths), f"{name}, length {score.length}")
    if not rows:
        raise UserError(f"{run.language.name} has no test words of these lengths: choose others")
    shares = dict.fromkeys(("exact", "members", "others", "fresh_recognition"), "Float64")
    table = pd.DataFrame(rows).astype({"n": "Int64", "fresh": "Int64", **shares})
    chosen = selection_lengths(run.language, run.config)
    taught = run.language.lengths(run.config.max_n)[-1]
    findings = {
        "exact_to": exact_to(table[table["model"] == "trained"]),
        "window": run.language.size_of(taught) or run.language.length_of(run.config.max_n),
        "all_words": every,
        "leans_on": list(inert),
        "selection": [chosen[0], chosen[-1]] if chosen else None,
    }
    return Answer(table, findings=findings)


def _reach_of_all_words(run: Run, options: Options, tested: int) -> int:
    """Up to which length all words are tested.

    Raises:
        UserError: they were asked for, and the truth is known for the lines of a corpus alone, or
            there are too many.
    """
    symbols = len(run.language.vocabulary.symbols)
    if options.all_words is None:
        formal = isinstance(run.language, FormalLanguage)
        return min(affordable(symbols, ALL_WORDS), tested) if formal else 0
    if options.all_words and not isinstance(run.language, FormalLanguage):
        raise UserError(
            f"which of all words belong to {run.language.name} is not known: leave out --all-words"
        )
    check_count(symbols, options.all_words)
    return options.all_words


def leans_on(
    run: Run,
    models: Mapping[str, LanguageModel],
    seed: int,
    lengths: Sequence[int] | None = None,
) -> list[dict[str, Any]]:
    """The reliance of each model on each symbol that decides nothing, on fresh words.

    Args:
        seed: seed of the sampled words.
        lengths: word lengths; by default those of the training window.

    Returns:
        The rows of ``interp.explanations.reliance.reliance`` with the symbol itself, and model.
        Empty where the language has fewer than two such symbols, or none is known.
    """
    language = run.language
    if not isinstance(language, RegularLanguage) or len(language.inert) < 2:
        return []
    rng = np.random.default_rng([LEANING_SEED, seed])
    lengths = language.lengths(run.config.max_n) if lengths is None else lengths
    words = language.sample(rng, LEANING, lengths, split="test").words
    words = words[np.unique(words.ids, axis=0, return_index=True)[1]]
    tables = []
    for name, model in models.items():
        table = reliance(partial(_said, model, words.lengths), words.ids, language.inert.tolist())
        symbols = [language.vocabulary.decode([symbol])[0] for symbol in table["symbol"]]
        tables.append(table.assign(symbol=symbols, model=name))
    return pd.concat(tables, ignore_index=True).to_dict("records")


def _said(model: LanguageModel, lengths: np.ndarray, ids: np.ndarray) -> np.ndarray:
    return probabilities(model, Words(ids, lengths))


def every_word(answer: Answer) -> pd.DataFrame | None:
    """The trained model's verdicts on all short words: a row per length; None if none were tested.

    Columns: length, words, members, false accepts, false rejects, and of the words that no training
    step drew: fresh, fresh false accepts, fresh false rejects.
    """
    every = answer.findings.get("all_words")
    if every is None:
        return None
    table = pd.DataFrame(every["by_length"])
    columns = ["length", "words", "members", *WRONG, "fresh_words", *(f"fresh_{w}" for w in WRONG)]
    shown = table.loc[table["model"] == "trained", columns].rename(columns={"fresh_words": "fresh"})
    return shown.rename(columns=lambda name: name.replace("_", " "))


def leaning(answer: Answer) -> pd.DataFrame | None:
    """The effect on the verdict of each symbol that decides nothing; None if there are none.

    Columns: symbol, trained and untrained ("mean [low, high]"), p (of the trained model).
    """
    rows = pd.DataFrame(answer.findings.get("leans_on") or [], columns=LEANING_COLUMNS)
    if rows.empty:
        return None
    effects = [f"{r.effect:+.2f}{brackets(r.low, r.high, '+.2f')}" for r in rows.itertuples()]
    table = rows.assign(said=effects).pivot(index="symbol", columns="model", values="said")
    p = rows[rows["model"] == "trained"].set_index("symbol")["corrected"]
    return table.assign(p=p.map("{:.1g}".format))[["trained", "untrained", "p"]].reset_index()


def _claims(answer: Answer) -> list[Claim]:
    """Right verdicts in the training window and beyond it, beside the untrained network and the
    best constant answer; how far the network is exact, what all short words say, and what it leans
    on stand beside them."""
    findings, table = answer.findings, answer.table
    sizes = table["n"].fillna(table["length"])
    inside, far = sizes <= findings["window"], f", up to {table['length'].max()} symbols"
    there = {"in the training window": inside, f"beyond the training window{far}": ~inside}
    made = [_right(table[rows], where) for where, rows in there.items() if rows.any()]
    first = replace(made[0], notes=tuple(_notes(table, findings)))
    return [first, *made[1:]]


def _right(rows: pd.DataFrame, where: str) -> Claim:
    """The share of right verdicts, in the training window or beyond it.

    Any rule, even one that a coin drew, is right about more than half of some words. So a network
    has to come more than half way from the constant answer to all right.
    """
    judged = rows[rows["model"] == "trained"]
    words, members = judged["count"].sum(), judged["member_words"].sum()
    constant = max(members, words - members) / words
    columns = {"recognition": "share", "different": "count", "length": "group"}
    claim = pooled(
        f"{{}} of the verdicts are right {where}",
        rows.drop(columns="count")
        .rename(columns=columns)
        .assign(constant=float(constant), half_way=float(1 + constant) / 2),
        "different words",
        {
            "the untrained network": "untrained",
            "always the same answer": "constant",
            "half way from there to all right": "half_way",
        },
    )
    doubt = f"A network that is right has {RIGHT:.0%} or more."
    return replace(claim, doubts=[] if (claim.value or 0.0) >= RIGHT else [doubt])


def _notes(table: pd.DataFrame, findings: Mapping[str, Any]) -> Iterator[str]:
    """Facts beside the shares, each a sentence."""
    trained = table[table["model"] == "trained"]
    sizes = sorted(set(trained.dropna(subset=["exact"])["n"].dropna().astype(int)))
    if findings["exact_to"] is not None:
        yield f"{_reach_in_words(findings['exact_to'], sizes)}."
    worst = trained.loc[trained["recognition"].idxmin()]
    if len(trained) > 1 and worst["recognition"] < 1:
        hits = round(worst["recognition"] * worst["different"])
        low, high = wilson(hits, int(worst["different"]), 1 - LEVEL / len(trained))
        yield (
            f"The lowest of {len(trained)} lengths is length {int(worst['length'])}: "
            f"{worst['recognition']:.1%}{brackets(low, high, '.1%')} of {int(worst['count'])} "
            f"words, {int(worst['different'])} different (Wilson, corrected for the choice)."
        )
    if chosen := findings["selection"]:
        yield (
            f"Words of length {chosen[0]} to {chosen[1]} chose the weights: there it is no test."
        )
    if findings["all_words"] is not None:
        yield _every_in_words(findings["all_words"])
    if findings["leans_on"]:
        yield _leaning_in_words(findings["leans_on"])
    members = trained["member_words"].sum() / trained["count"].sum()
    yield f"Of the words drawn {members:.0%} are members."


def _reach_in_words(reach: int, sizes: Sequence[int]) -> str:
    """Only sizes that were tested are spoken of."""
    if reach < sizes[0]:
        lowest = "the only size" if len(sizes) == 1 else "the smallest size"
        return f"Not exact at size {sizes[0]}, {lowest} tested"
    exact = [size for size in sizes if size <= reach]
    if len(sizes) == 1:
        return f"Exact at size {sizes[0]}, the only size tested"
    if len(exact) == len(sizes):
        return f"Exact at all {len(sizes)} sizes tested, {sizes[0]} to {sizes[-1]}"
    first = f"the {len(exact)} sizes from {sizes[0]} to {reach}" if len(exact) > 1 else f"{reach}"
    return (
        f"Exact at {first}, and no longer at {sizes[len(exact)]}; {len(sizes)} sizes were tested, "
        f"{sizes[0]} to {sizes[-1]}"
    )


def _every_in_words(every: Mapping[str, Any]) -> str:
    sums, untrained = totals(every, "trained"), totals(every, "untrained")
    others, fresh = sums["words"] - sums["members"], sums["fresh_words"]
    wrong = sums["fresh_false_accepts"] + sums["fresh_false_rejects"]
    return (
        f"Of all {sums['words']:,} words of 1 to {every['longest']} symbols it accepts "
        f"{sums['false_accepts']:,} of {others:,} others and rejects {sums['false_rejects']:,} of "
        f"{sums['members']:,} members (untrained: {untrained['false_accepts']:,} and "
        f"{untrained['false_rejects']:,}). Of the {fresh:,} that no training step drew, it judges "
        f"{wrong:,} wrong."
    )


def _leaning_in_words(inert: Sequence[Mapping[str, Any]]) -> str:
    rows = [row for row in inert if row["model"] == "trained"]
    clear = sorted(
        (row for row in rows if row["corrected"] <= LEVEL), key=lambda row: -abs(row["effect"])
    )
    words = max(row["words"] for row in rows)
    test = (
        f"({words} different words; p <= {LEVEL}, Student's test over words, Holm's correction for "
        f"{len(rows)} symbols)"
    )
    if not clear:
        return (
            "No symbol that decides nothing is shown to change the probability of a verdict by "
            f"more than {LEANS} {test}."
        )
    effects = [
        f"{row['symbol']} ({row['effect']:+.2f}{brackets(row['low'], row['high'], '+.2f')})"
        for row in clear[:EXAMPLES]
    ]
    return (
        f"It leans on {len(clear)} of {len(rows)} symbols that decide nothing {test}; by what they "
        f'change of the probability of "in": {", ".join(effects)}.'
    )


def exact_to(rows: pd.DataFrame) -> int | None:
    """The largest size up to which all sizes tested are exact; 0 where the first is not, and None
    where exactness is not defined."""
    tested = rows.dropna(subset=["exact", "n"]).sort_values("n")
    if tested.empty:
        return None
    reached = tested["n"][(tested["exact"] == 1).cummin()]
    return int(reached.max()) if len(reached) else 0


def right(rows: pd.DataFrame, measure: str) -> float:
    """The share of words that is right, over all lengths; NaN where no length has the measure."""
    rows = rows.dropna(subset=[measure])
    words = int(rows["count"].sum())
    return float((rows[measure] * rows["count"]).sum() / words) if words else float("nan")


MEASURES = {
    "exact": "exact",
    "recognition": "recognition",
    "members": "members recognised",
    "others": "others recognised",
}


def _headline(result: Answer) -> pd.DataFrame:
    """The numbers that are compared over seeds: variable (the model), of, value.

    "exact to size" is at most the largest size tested, which "tested to size" gives. It is missing
    where lengths were chosen, since the sizes below them were not tested.
    """
    window, table = result.findings["window"], result.table
    size = table["n"].fillna(table["length"])
    parts = {
        "in the window": size <= window,
        "beyond it to twice": (size > window) & (size <= 2 * window),
        "beyond twice": size > 2 * window,
    }
    rows: list[tuple[str, str, float | None]] = []
    for model in ("trained", "untrained"):
        at = table["model"] == model
        # Without lengths of its own, it tested every size from 1 on.
        reach = exact_to(table[at]) if result.arguments.get("lengths") is None else None
        rows.append((model, "exact to size", reach))
        if model == "trained":
            rows.append((model, "tested to size", None if reach is None else table[at]["n"].max()))
        rows += [
            (model, f"{label}, {where}", right(table[at & part], measure))
            for measure, label in MEASURES.items()
            if measure in table  # older answers do not tell members from others
            for where, part in parts.items()
        ]
        leans = [row for row in result.findings.get("leans_on", []) if row["model"] == model]
        rows += [(model, f"leans on {row['symbol']}", row["effect"]) for row in leans]
        if (every := result.findings.get("all_words")) is not None:
            sums, to = totals(every, model), f"all words to length {every['longest']}"
            rows += [
                (model, f"false accepts, {to}", sums["false_accepts"]),
                (model, f"false rejects, {to}", sums["false_rejects"]),
            ]
    return numbers(rows)


def as_json(run: Run, result: Answer) -> dict[str, Any]:
    """The answer in the shape that `lab evaluate --json` prints."""
    trained = result.table[result.table["model"] == "trained"]
    keys = ["length", "n", "count", "exact", "recognition"]
    records = trained[keys].astype(object).where(trained[keys].notna(), None).to_dict("records")
    content = {"language": run.language.name, "by_length": records}
    every = result.findings.get("all_words")
    return content if every is None else {**content, "all_words": every}


QUESTION = of_answer(
    "accuracy",
    Options,
    analyse,
    _headline,
    chart,
    _claims,
    needs=("others",),
    of_inside=False,
    planned=(Planned("trained", "untrained", by="variable"),),
)
