"""Which heads matter, alone and in pairs, and what do they look at? All beside the untrained model.

The head that is named as the most important is chosen on a third of the words, and its number is of
the others: the largest of many numbers is large by luck too.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import asdict
from functools import partial
from typing import Any

import numpy as np
import pandas as pd
import torch
from torch import Tensor

from analyses.answers import Answer, Planned, Progress, Question, numbers, plain, quiet
from analyses.charts.heads import LOOK, chart
from analyses.options.parts import Heads as Options
from analyses.questions.trials import heads_apart
from analyses.registry import BUILT_IN
from analyses.script import script
from analyses.words import ANALYSIS_SEED, WordTensors, changed_words, sample_window
from interp.causal.ablation import Ablation
from interp.causal.metrics import logit_at
from interp.comparisons import above
from interp.heads.attention_and_effect import attention_and_effect, rank_correlation
from interp.heads.logit_attribution import direct_logit_attribution
from interp.heads.needed import NEEDED, beyond_the_sum, needed, verdicts_lost
from interp.heads.over_words import Claim, over_words
from interp.heads.types import CLEAR, TYPES, head_types
from interp.statistics import brackets
from models.languages import END_ID
from models.runs.run import Run
from models.transformer.model import HookedTransformer

METHODS: tuple[Ablation, ...] = ("mean", "zero", "resample")
LOST, TOGETHER, BEYOND = "accuracy lost", "lost together", "beyond the sum"
LOOKS = 0.3
"""A head looks where it matters if this rank correlation is exceeded."""
LEVEL = 0.05
CLAIMS: dict[str, Claim] = {LOST: needed, TOGETHER: needed, BEYOND: beyond_the_sum}


def analyse(run: Run, options: Options, progress: Progress = quiet) -> Answer:
    """One row per model, measure and part.

    A third of the different words chooses: of the heads, the one that is named. All other numbers
    are of the other words. Equal words are one unit: they are drawn, and tested, together.

    Columns: model (trained, untrained), measure, part ("L0H1", "L0H1 + L1H0", "embed", "L1 mlp",
    ...), layer and head (-1 where the part is no single head), choice (the value of the words that
    choose), value, low, high (95% bootstrap interval over words), corrected (the p-value of the
    claim below, by Student's test over words and Holm's method over the parts), uniform (the value
    of attention that is even; types alone), share (of all attention, not only of the symbols that
    have such a key; types alone), words (those the value is a mean over), undefined
    (those left out because they have no value).

    Measures:
        "accuracy lost, mean ablation", zero, resample: the share of words whose right verdict
            becomes wrong, minus the reverse; for resample, undefined for a word longer than all
            others. The claim: more than ``NEEDED`` is lost.
        "lost together, mean ablation", zero, resample: the same of each pair of heads.
        "beyond the sum, mean ablation", zero, resample: what a pair loses together, minus what each
            of the two loses alone, see ``interp.heads.needed``. The claim: it is further from 0
            than ``NEEDED``.
        "direct logit, members" and "direct logit, others": what the part adds to END's logit where
            the verdict is read; positive speaks for "in".
        "attention, previous symbol" and the other types (``interp.heads.types.head_types``).
        "distance" and "shared directions, queries" and so on: how the heads of a layer differ
            (``interp.heads.apart``).
        "attention against effect": Spearman's rank correlation over a word's symbols between the
            attention that a symbol gets where the verdict is read and what changing the symbol does
            to the verdict through this head. For rollout and flow the second is what changing the
            symbol does through the whole model. Members of 4 to 20 symbols, each symbol changed in
            turn; undefined where either of the two does not vary. The claim: it is above
            ``LOOKS``.
    """
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
            unit = np.arange(len(looks))
            parts.append(_summary(pd.DataFrame(looks), LOOK, unit, partial(above, bar=LOOKS)))
        tables.append(pd.concat(parts, ignore_index=True).assign(model=name))
    progress(steps, steps, "heads")
    table = pd.concat(tables, ignore_index=True)
    first = ["model", "measure", "part", "layer", "head", "choice", "value", "low", "high"]
    table = table[[*first, "corrected", "uniform", "share", "words", "undefined"]]
    sentence, found = findings(table)
    return Answer(table, sentence, plain(found), asdict(options), digest)


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
    _, unit = np.unique(words.tokens.numpy(), axis=0, return_inverse=True)
    tables = []
    for method in METHODS:
        lost = verdicts_lost(model, words.tokens, words.mask, labels, metric, method)
        tables += [
            _summary(wide, f"{kind}, {method} ablation", unit, claim)
            for wide, (kind, claim) in zip(lost, CLAIMS.items(), strict=True)
        ]
    direct = direct_logit_attribution(model, words.tokens, verdict_at, END_ID)
    wide = direct.pivot(index="word", columns="part", values="value")[direct["part"].unique()]
    for name, side in (("members", labels), ("others", ~labels)):
        if side.any():
            tables.append(_summary(wide[side], f"direct logit, {name}", unit[side]))
    types = head_types(model, words.tokens, words.mask)
    types["part"] = "L" + types["layer"].astype(str) + "H" + types["head"].astype(str)
    for name in TYPES:
        rows = types[types["type"] == name]
        summary = _summary(_wide(rows, "score"), f"attention, {name}", unit)
        for column in ("uniform", "share"):
            means = over_words(_wide(rows, column), unit, seed=ANALYSIS_SEED)
            summary[column] = means["value"]
        tables.append(summary)
    tables.append(heads_apart.rows(model, words, unit))
    return pd.concat(tables, ignore_index=True)


def _summary(
    per_word: pd.DataFrame, measure: str, unit: np.ndarray, claim: Claim | None = None
) -> pd.DataFrame:
    table = over_words(per_word, unit, claim, ANALYSIS_SEED)
    return table.assign(measure=measure, uniform=np.nan, share=np.nan)


def _wide(table: pd.DataFrame, values: str) -> pd.DataFrame:
    """A row per word, a column per part."""
    return table.pivot(index="word", columns="part", values=values)[table["part"].unique()]


def findings(table: pd.DataFrame) -> tuple[str, dict[str, Any]]:
    """The heads that the verdict needs, by each ablation; the one whose loss costs most; the pairs
    of heads that single heads do not explain; and where the verdict looks."""
    trained = table[table["model"] == "trained"]
    by_method = {m: trained[trained["measure"] == f"{LOST}, {m} ablation"] for m in METHODS}
    most = _chosen(by_method["mean"], "choice")
    kept = {str(m): _claimed(rows)["part"].tolist() for m, rows in by_method.items()}
    summary = (
        f"Without {most['part']} (mean ablation), {most['value']:.1%} of the verdicts on "
        f"{int(most['words'])} words are lost"
        f"{brackets(most['low'], most['high'], '.1%')}; other words "
        f"chose this head. {_needed(kept, len(by_method['mean']))}"
    )
    pairs = _pairs(trained)
    typed, sentence = _clearest_type(table)
    apart = {name: heads_apart.apart(rows) for name, rows in table.groupby("model", sort=False)}
    differ = heads_apart.in_words(apart["trained"], apart["untrained"])
    look, where = _looks(table[table["measure"] == LOOK])
    told = (summary, _told(pairs), sentence, differ, where)
    return " ".join(filter(None, told)), {
        "most": str(most["part"]),
        "needed": kept["mean"],
        "needed_by": kept,
        "pairs": pairs,
        "clearest_type": typed,
        "apart": apart,
        "attention_against_effect": look,
    }


def _chosen(rows: pd.DataFrame, by: str) -> pd.Series:
    """The row that is largest by the words that choose; the first where no word chose."""
    return rows.iloc[int(rows[by].fillna(-np.inf).argmax())]


def _claimed(rows: pd.DataFrame) -> pd.DataFrame:
    """The rows whose claim holds."""
    return rows[rows["corrected"] <= LEVEL]


def _needed(kept: dict[str, list[str]], heads: int) -> str:
    by = [f"by {m} ablation {', '.join(some) or 'none'}" for m, some in kept.items()]
    said = (
        f"Needed, with more than {NEEDED:.0%} of the verdicts lost (p <= {LEVEL}, Student's test "
        f"over different words, Holm's correction for {heads} heads): {'; '.join(by)}."
    )
    votes = Counter(part for some in kept.values() for part in some)
    apart = sorted(part for part, count in votes.items() if count < len(kept))
    return said + (f" The ablations disagree about {', '.join(apart)}." if apart else "")


def _pairs(trained: pd.DataFrame) -> list[dict[str, Any]]:
    """The pairs that lose surely more or less together than the sum of both, the furthest first."""
    found = []
    for method in METHODS:
        of = {
            kind: trained[trained["measure"] == f"{kind}, {method} ablation"].set_index("part")
            for kind in (LOST, TOGETHER, BEYOND)
        }
        for pair, row in _claimed(of[BEYOND].reset_index()).set_index("part").iterrows():
            alone = of[LOST]["value"][str(pair).split(" + ")]
            found.append(
                {"pair": pair, "ablation": method, "together": of[TOGETHER]["value"][pair]}
                | dict(zip(("first", "second"), alone, strict=True))
                | {"beyond": row["value"], "corrected": row["corrected"]}
            )
    return sorted(found, key=lambda pair: -abs(pair["beyond"]))


def _told(pairs: list[dict[str, Any]]) -> str:
    """The pair that is furthest beyond the sum, and the one that is furthest below it."""
    said = []
    for sign, what, why in (
        (1, "lose more together than the sum", "each can stand in for the other (redundancy)"),
        (-1, "lose less together than the sum", "both are needed for one thing (conjunction)"),
    ):
        some = [pair for pair in pairs if sign * pair["beyond"] > 0]
        if not some:
            continue
        best, others = some[0], len({pair["pair"] for pair in some}) - 1
        said.append(
            f"{best['pair'].replace(' + ', ' and ')} {what}, as where {why}: {best['ablation']} "
            f"ablation of both loses {best['together']:.1%}, of one {best['first']:.1%} and "
            f"{best['second']:.1%}"
            + (f"; so do {others} other pair{'s' if others > 1 else ''}." if others else ".")
        )
    return " ".join(said)


def _clearest_type(table: pd.DataFrame) -> tuple[dict[str, Any] | None, str]:
    """The head that exceeds even attention and the untrained head by most in some type."""
    types = table[table["measure"].isin([f"attention, {name}" for name in TYPES[:-1]])]
    places = ["measure", "part"]
    wide = types.pivot(index=places, columns="model", values="value")
    choice = types.pivot(index=places, columns="model", values="choice")
    own = types[types["model"] == "trained"].set_index(places)
    wide[["uniform", "share"]] = own[["uniform", "share"]]
    against = np.maximum(choice["untrained"], wide["uniform"])
    beyond = (choice["trained"] - against).dropna()
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
        "fixed position": "one fixed position",
    }[name]
    head = "The head with the clearest type is"
    if row["trained"] < CLEAR:
        head = f"No head has a clear type, with {CLEAR:.0%} of its attention; the nearest is"
    sentence = (
        f"{head} {part}: {row['trained']:.0%} of its attention is on {target} where there is one "
        f"(untrained {row['untrained']:.0%}, even attention {row['uniform']:.0%}), which is "
        f"{row['share']:.0%} of all its attention."
    )
    return {"part": part, "type": name, **row.to_dict()}, sentence


def _looks(table: pd.DataFrame) -> tuple[dict[str, float], str]:
    """The rank correlations that are defined, and a sentence on what they show."""
    if table.empty:
        return {}, "No member has a symbol to change, so attention is not compared with effects."
    heads = table[table["head"] >= 0]
    surely = {name: _claimed(rows)["part"].tolist() for name, rows in heads.groupby("model")}
    names, none = ", ".join(surely["trained"]), heads["undefined"].sum()
    trained = table[table["model"] == "trained"].set_index("part")["value"].dropna()
    whole = [f"{name} {trained[name]:.2f}" for name in ("rollout", "flow") if name in trained]
    sentence = (
        f"{len(surely['trained'])} of {len(heads) // 2} heads look where it matters"
        f"{f' ({names})' if names else ''}, in the untrained model {len(surely['untrained'])}: the "
        "rank correlation between their attention and its effect lies above "
        f"{LOOKS} (p <= {LEVEL}, Student's test over {heads['words'].max()} words, Holm's "
        f"correction for {len(heads) // 2} heads)"
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

    No head has a name here: L0H1 of one seed is not L0H1 of another. The best head is chosen on
    other words than those that give its number, in the untrained model too.
    """
    rows: list[tuple[str, str, float | None]] = []
    for model, table in result.table.groupby("model", sort=False):
        measures = dict(list(table[table["head"] >= 0].groupby("measure")))
        pairs = dict(list(table[table["head"] < 0].groupby("measure")))
        for method in METHODS:
            lost = measures[f"{LOST}, {method} ablation"]
            share = len(_claimed(lost)) / len(lost)
            rows.append((model, f"share of heads needed, {method} ablation", share))
            largest = _chosen(lost, "choice")["value"]
            rows.append((model, f"most lost by a head, {method} ablation", largest))
            beyond = pairs[f"{BEYOND}, {method} ablation"]
            for said, sign in (("lose more than the sum", 1), ("lose less than the sum", -1)):
                share = (_claimed(beyond)["value"] * sign > 0).sum() / len(beyond)
                rows.append((model, f"share of pairs that {said}, {method} ablation", share))
        for name in TYPES[:-1]:
            typed = measures[f"attention, {name}"]
            typed = typed.assign(more=typed["choice"] - typed["uniform"])
            best = _chosen(typed, "more")
            value = best["value"] - best["uniform"]
            rows.append((model, f"{name} beyond even attention, best head", value))
        apart = heads_apart.compared(heads_apart.apart(table))
        rows += [(model, name, value) for name, value in apart.items()]
        look = measures.get(LOOK)
        if look is not None:
            share = len(_claimed(look)) / len(look)
            rows.append((model, f"{LOOK}, share of heads above {LOOKS}", share))
            rows.append((model, f"{LOOK}, best head", _chosen(look, "choice")["value"]))
            rows.append((model, f"{LOOK}, mean of heads", look["value"].mean()))
        whole = table[table["measure"] == LOOK].set_index("part")["value"]
        rows += [
            (model, f"{LOOK}, {part}", whole[part]) for part in ("rollout", "flow") if part in whole
        ]
    return numbers(rows)


QUESTION = Question(
    "heads",
    BUILT_IN["heads"].asks,
    Options,
    analyse,
    headline,
    chart,
    brief=Options(words=100, members=6),
    planned=(Planned("trained", "untrained", by="variable"),),
    needs=("verdict", "one side", "heads"),
)

if __name__ == "__main__":
    raise SystemExit(script(QUESTION))
