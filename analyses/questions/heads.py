"""Which heads matter, and what do they look at? All beside the untrained model."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

import numpy as np
import pandas as pd
import torch
from torch import Tensor

from analyses.answers import Answer, Progress, Question, numbers, plain, quiet
from analyses.charts.heads import LOOK, chart
from analyses.options.questions import Heads as Options
from analyses.registry import BUILT_IN
from analyses.script import script
from analyses.words import ANALYSIS_SEED, WordTensors, sample_window
from interp.causal.ablation import Ablation, ablate
from interp.causal.metrics import logit_at
from interp.heads.attention_and_effect import attention_and_effect, rank_correlation
from interp.heads.logit_attribution import direct_logit_attribution
from interp.heads.types import TYPES, head_types
from interp.statistics import bootstrap_mean
from models.errors import UserError
from models.languages import END_ID, Word
from models.runs.run import Run
from models.transformer.model import HookedTransformer

METHODS: tuple[Ablation, ...] = ("mean", "zero", "resample")
LENGTHS = range(4, 21)
"""Lengths of the words on which attention is compared with effects. Shorter words have too few
symbols to rank. Longer ones take too long, because each word is run once for every pair of a
changed symbol and a replaced value."""


def refusal(run: Run) -> str | None:
    """Why this question cannot be asked of the run, in one line; None where it can."""
    family = run.config.model.family
    if family.attends:
        return None
    return f"{run.name} has no attention heads: it is of architecture {family.name}"


def analyse(run: Run, options: Options, progress: Progress = quiet) -> Answer:
    """One row per model, measure and part.

    Columns: model (trained, untrained), measure, part ("L0H1", "embed", "L1 mlp", ...), layer and
    head (-1 where the part is no head), value, low, high (95% bootstrap interval over words),
    uniform (the value of attention that is even; types alone), words (those the value is a mean
    over), undefined (those left out because they have no value).

    Measures:
        "accuracy lost, mean ablation", zero, resample: the share of words whose right verdict
            becomes wrong, minus the reverse; for resample, undefined for a word longer than all
            others.
        "direct logit, members" and "direct logit, others": what the part adds to END's logit where
            the verdict is read; positive speaks for "in".
        "attention, previous symbol" and the other types (``interp.heads.types.head_types``).
        "attention against effect": Spearman's rank correlation over a word's symbols between the
            attention that a symbol gets where the verdict is read and what changing the symbol does
            to the verdict through this head. For rollout and flow the second is what changing the
            symbol does through the whole model. Members of 4 to 20 symbols, each symbol changed in
            turn; undefined where either of the two does not vary.
    """
    if reason := refusal(run):
        raise UserError(reason)
    sample = sample_window(run, options.words, options.seed)
    tensors = WordTensors.of(sample.words)
    pairs = changed_words(run, options.members, options.seed)
    model, digest = run.model_and_hash()
    tables = []
    steps = 2 * (1 + len(pairs))
    for start, (name, viewed) in enumerate((("trained", model), ("untrained", run.untrained()))):
        assert isinstance(viewed, HookedTransformer)
        done = start * steps // 2
        progress(done, steps, f"heads, {name} model")
        parts = [_measures(viewed, tensors, sample.labels)]
        looks = []
        for index, (word, changed) in enumerate(pairs):
            progress(done + 1 + index, steps, f"attention against effect, {name} model")
            looks.append(_look(viewed, word, changed))
        if looks:
            parts.append(_summary(pd.DataFrame(looks), LOOK))
        tables.append(pd.concat(parts, ignore_index=True).assign(model=name))
    progress(steps, steps, "heads")
    table = pd.concat(tables, ignore_index=True)
    first = ["model", "measure", "part", "layer", "head", "value", "low", "high"]
    table = table[[*first, "uniform", "words", "undefined"]]
    sentence, found = findings(table)
    return Answer(table, sentence, plain(found), asdict(options), digest)


def changed_words(run: Run, count: int, seed: int) -> list[tuple[Tensor, Tensor]]:
    """Different members, each with words that differ from it in one symbol.

    Counterfactuals would not serve here: those of anbn move the border between its blocks, and no
    other position would ever matter. So every symbol is replaced once, by another one at random.

    Returns:
        Per member its tokens [pos] and the changed words [symbol, pos], row i without symbol i.
        Empty where the language has a single symbol or no member of such a length.
    """
    language, rng = run.language, np.random.default_rng([ANALYSIS_SEED, seed])
    symbols = np.array([language.vocabulary.ids[s] for s in language.vocabulary.symbols])
    lengths = language.positive_lengths(language.lengths(run.config.max_n))
    fit = [length for length in lengths if length in LENGTHS]
    if len(symbols) < 2 or not fit:
        return []
    try:
        words = language.sample(rng, 4 * count, fit, label=True, split="test").words
    except LookupError:  # no such line of the corpus was kept for tests
        return []
    found: dict[Word, tuple[Tensor, Tensor]] = {}
    for tokens, length in zip(words.tokens, words.lengths, strict=True):
        word = tokens[: length + 1]
        changed = np.tile(word, (length, 1))
        place = np.searchsorted(symbols, word[1:])
        shift = rng.integers(1, len(symbols), length)
        changed[np.arange(length), np.arange(1, length + 1)] = symbols[
            (place + shift) % len(symbols)
        ]
        pair = torch.as_tensor(word), torch.as_tensor(changed)
        found.setdefault(language.vocabulary.decode(word), pair)
    return list(found.values())[:count]


def _look(model: HookedTransformer, word: Tensor, changed: Tensor) -> dict[str, float]:
    """The rank correlation of each part on one word."""
    at = int(model.verdict_positions(torch.tensor([len(word) - 1])))
    table = attention_and_effect(model, word, changed, logit_at(END_ID, at), at)
    return {
        str(part): rank_correlation(rows["attention"].to_numpy(), rows["effect"].to_numpy())
        for part, rows in table.groupby("part", sort=False)
    }


def _measures(model: HookedTransformer, words: WordTensors, labels: np.ndarray) -> pd.DataFrame:
    verdict_at = model.verdict_positions(words.last)
    metric = logit_at(END_ID, verdict_at)
    tables = []
    for method in METHODS:
        ablated = ablate(model, words.tokens, words.mask, metric, method)
        truth = labels[ablated["word"]]
        lost = ((ablated["before"] > 0) == truth).astype(float) - ((ablated["after"] > 0) == truth)
        ablated["lost"] = lost.where(ablated["after"].notna())
        tables.append(_summary(_wide(ablated, "lost"), f"accuracy lost, {method} ablation"))
    direct = direct_logit_attribution(model, words.tokens, verdict_at, END_ID)
    wide = direct.pivot(index="word", columns="part", values="value")[direct["part"].unique()]
    for name, side in (("members", labels), ("others", ~labels)):
        if side.any():
            tables.append(_summary(wide[side], f"direct logit, {name}"))
    types = head_types(model, words.tokens, words.mask)
    for name in TYPES:
        rows = types[types["type"] == name]
        summary = _summary(_wide(rows, "score"), f"attention, {name}")
        tables.append(summary.assign(uniform=_wide(rows, "uniform").mean().to_numpy()))
    return pd.concat(tables, ignore_index=True)


def _wide(table: pd.DataFrame, values: str) -> pd.DataFrame:
    """A row per word, a column per head."""
    part = "L" + table["layer"].astype(str) + "H" + table["head"].astype(str)
    wide = table.assign(part=part).pivot(index="word", columns="part", values=values)
    return wide[part.unique()]


def _summary(per_word: pd.DataFrame, measure: str) -> pd.DataFrame:
    """Mean and interval of each part (column) over words (rows) that have a value."""
    values = per_word.to_numpy(dtype=np.float64)
    defined = ~np.isnan(values)
    value, low, high = np.full((3, values.shape[1]), np.nan)
    for rows in np.unique(defined, axis=1).T:  # parts with values for the same words go together
        parts = (defined == rows[:, None]).all(axis=0)
        if rows.any():
            value[parts], low[parts], high[parts] = bootstrap_mean(values[rows][:, parts])
    numbers = per_word.columns.str.extract(r"^L(\d+)H(\d+)$").apply(pd.to_numeric)
    numbers = numbers.fillna(-1).astype(int)
    return pd.DataFrame(
        {
            "measure": measure,
            "part": per_word.columns,
            "layer": numbers[0],
            "head": numbers[1],
            "value": value,
            "low": low,
            "high": high,
            "uniform": np.nan,
            "words": defined.sum(axis=0),
            "undefined": (~defined).sum(axis=0),
        }
    )


def findings(table: pd.DataFrame) -> tuple[str, dict[str, Any]]:
    """The heads that the verdict needs (the interval of the loss without them lies above 0), the
    one whose loss costs most, and where the verdict looks."""
    trained = table[table["model"] == "trained"]
    lost = trained[trained["measure"] == "accuracy lost, mean ablation"]
    order = lost.sort_values("value", ascending=False)
    most = order.iloc[0]
    needed = order[order["low"] > 0]["part"].tolist()
    summary = (
        f"Without {most['part']} (mean ablation), {most['value']:.1%} of the verdicts on "
        f"{int(most['words'])} words are lost [{most['low']:.1%}, {most['high']:.1%}]; "
        f"{len(needed)} of {len(order)} heads are needed"
        + (f" ({', '.join(needed)})." if needed else ".")
    )
    typed, sentence = _clearest_type(table)
    look, where = _looks(table[table["measure"] == LOOK])
    return " ".join(filter(None, (summary, sentence, where))), {
        "needed": needed,
        "clearest_type": typed,
        "attention_against_effect": look,
    }


def _clearest_type(table: pd.DataFrame) -> tuple[dict[str, Any] | None, str]:
    """The head that exceeds even attention and the untrained head by most in some type."""
    types = table[table["measure"].isin([f"attention, {name}" for name in TYPES[:-1]])]
    wide = types.pivot(index=["measure", "part"], columns="model", values="value")
    wide["uniform"] = types[types["model"] == "trained"].set_index(["measure", "part"])["uniform"]
    beyond = (wide["trained"] - wide[["untrained", "uniform"]].max(axis=1)).dropna()
    if beyond.empty or beyond.max() <= 0:
        return None, ""
    measure, part = beyond.idxmax()
    row = wide.loc[(measure, part)]
    name = measure.removeprefix("attention, ")
    target = {
        "previous symbol": "the previous symbol",
        "BOS": "BOS",
        "same symbol": "the same symbol",
        "first of its block": "the first symbol of the block",
        "induction": "what came after the same symbol before",
    }[name]
    sentence = (
        f"The head with the clearest type is {part}: {row['trained']:.0%} of its attention is on "
        f"{target} (untrained {row['untrained']:.0%}, even attention {row['uniform']:.0%})."
    )
    return {"part": part, "type": name, **row.to_dict()}, sentence


def _looks(table: pd.DataFrame) -> tuple[dict[str, float], str]:
    """The rank correlations that are defined, and a sentence on what they show."""
    if table.empty:
        return {}, "No member has a symbol to change, so attention is not compared with effects."
    heads = table[table["head"] >= 0]
    surely = {name: rows[rows["low"] > 0]["part"].tolist() for name, rows in heads.groupby("model")}
    names, none = ", ".join(surely["trained"]), heads["undefined"].sum()
    trained = table[table["model"] == "trained"].set_index("part")["value"].dropna()
    whole = [f"{name} {trained[name]:.2f}" for name in ("rollout", "flow") if name in trained]
    sentence = (
        f"{len(surely['trained'])} of {len(heads) // 2} heads look where it matters"
        f"{f' ({names})' if names else ''}, in the untrained model {len(surely['untrained'])}: the "
        "95% interval of the rank correlation between their attention and its effect lies above 0"
        + (f" (for comparison, {', '.join(whole)})." if whole else ".")
        + (
            f" It is undefined in {none} of {heads['words'].sum() + none} cases (a head on a word, "
            "trained or untrained)."
            if none
            else ""
        )
    )
    return trained.to_dict(), sentence


def headline(result: Answer) -> pd.DataFrame:
    """The numbers that are compared over seeds: variable (the model), of, value.

    No head has a name here: L0H1 of one seed is not L0H1 of another. The largest of all heads is
    large by chance too; the untrained model shows by how much.
    """
    rows: list[tuple[str, str, float | None]] = []
    for model, table in result.table.groupby("model", sort=False):
        measures = dict(list(table[table["head"] >= 0].groupby("measure")))
        for method in METHODS:
            lost = measures[f"accuracy lost, {method} ablation"]
            rows.append(
                (model, f"share of heads needed, {method} ablation", (lost["low"] > 0).mean())
            )
            rows.append((model, f"most lost by a head, {method} ablation", lost["value"].max()))
        for name in TYPES[:-1]:
            typed = measures[f"attention, {name}"]
            beyond = (typed["value"] - typed["uniform"]).max()
            rows.append((model, f"{name} beyond even attention, best head", beyond))
        look = measures.get(LOOK)
        if look is not None:
            rows.append((model, f"{LOOK}, share of heads surely above 0", (look["low"] > 0).mean()))
            rows.append((model, f"{LOOK}, best head", look["value"].max()))
            rows.append((model, f"{LOOK}, mean of heads", look["value"].mean()))
        whole = table[table["measure"] == LOOK].set_index("part")["value"]
        rows += [
            (model, f"{LOOK}, {part}", whole[part]) for part in ("rollout", "flow") if part in whole
        ]
    return numbers(rows)


QUESTION = Question(
    "heads",
    BUILT_IN["heads"],
    Options,
    analyse,
    headline,
    chart,
    brief=Options(words=100, members=6),
)

if __name__ == "__main__":
    raise SystemExit(script(QUESTION))
