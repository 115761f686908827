"""Which heads matter, alone and in pairs, and what do they look at? All beside the untrained model.

The head that is named as the most important is chosen on a third of the words, and its number is of
the others: the largest of many numbers is large by luck too.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any

import numpy as np
import pandas as pd
import torch
from torch import Tensor

from analyses.answers import Answer, Planned, Progress, models_of, numbers, of_answer, plain, quiet
from analyses.charts.heads import LOOK, chart
from analyses.claims import Claim
from analyses.options.parts import Heads as Options
from analyses.questions.trials import heads_apart
from analyses.words import ANALYSIS_SEED, WordTensors, changed_words, sample_window
from interp.causal.ablation import Ablation
from interp.causal.metrics import logit_at
from interp.comparisons import above
from interp.heads.attention_and_effect import attention_and_effect, rank_correlation
from interp.heads.logit_attribution import direct_logit_attribution
from interp.heads.needed import NEEDED, beyond_the_sum, needed, verdicts_lost
from interp.heads.over_words import Claim as Tested
from interp.heads.over_words import over_words
from interp.heads.types import CLEAR, TYPES, head_types
from models.languages import END_ID
from models.runs.run import Run
from models.transformer.model import HookedTransformer

METHODS: tuple[Ablation, ...] = ("mean", "zero", "resample")
LOST, TOGETHER, BEYOND = "accuracy lost", "lost together", "beyond the sum"
LOOKS = 0.3
"""A head looks where it matters if this rank correlation is exceeded."""
LEVEL = 0.05
TARGETS = {
    "previous symbol": "the previous symbol",
    "BOS": "BOS",
    "same symbol": "the same symbol",
    "first of its block": "the first symbol of the block",
    "induction": "what came after the same symbol before",
    "fixed position": "one fixed position",
}
CLAIMS: dict[str, Tested] = {LOST: needed, TOGETHER: needed, BEYOND: beyond_the_sum}


def analyse(run: Run, options: Options, progress: Progress = quiet) -> Answer:
    """One row per model, measure and part.

    A third of the different words chooses: of the heads, the one that is named. All other numbers
    are of the other words. Equal words are one unit: they are drawn, and tested, together.

    Columns: model (trained, untrained), measure, part ("L0H1", "L0H1 + L1H0", "embed", "L1 mlp",
    ...), layer and head (-1 where the part is no single head), choice (the value of the words that
    choose), value, low, high (95% bootstrap interval over words), corrected (the p-value of the
    claim below, by Student's test over words and Holm's method over the parts), uniform (the value
    of attention that is even; types alone), share (of all attention, not only of the symbols that
    have such a key; types alone), words (those the value is a mean over), different
    (how many different words these are), undefined (words left out because they have no value).

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
    tables = []
    steps = 2 * (1 + len(pairs))
    for start, (name, viewed) in enumerate(models_of(run)):
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
    table = table[[*first, "corrected", "uniform", "share", "words", "different", "undefined"]]
    findings = {
        "most": _chosen(_lost(table, LOST))["part"],
        "needed": _claimed(_lost(table, LOST))["part"].tolist(),
        "pairs": _pairs(table),
    }
    return Answer(table, findings=plain(findings))


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
            if len(wide.columns)
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
    per_word: pd.DataFrame, measure: str, unit: np.ndarray, claim: Tested | None = None
) -> pd.DataFrame:
    table = over_words(per_word, unit, claim, ANALYSIS_SEED)
    return table.assign(measure=measure, uniform=np.nan, share=np.nan)


def _wide(table: pd.DataFrame, values: str) -> pd.DataFrame:
    """A row per word, a column per part."""
    return table.pivot(index="word", columns="part", values=values)[table["part"].unique()]


def _lost(
    table: pd.DataFrame, kind: str, method: str = "mean", model: str = "trained"
) -> pd.DataFrame:
    return table[(table["measure"] == f"{kind}, {method} ablation") & (table["model"] == model)]


def _chosen(rows: pd.DataFrame, by: str = "choice") -> pd.Series:
    """The row that is largest by the words that choose; the first where no word chose."""
    return rows.iloc[int(rows[by].fillna(-np.inf).argmax())]


def _claimed(rows: pd.DataFrame) -> pd.DataFrame:
    """The rows whose claim holds."""
    return rows[rows["corrected"] <= LEVEL]


def _pairs(table: pd.DataFrame) -> list[dict[str, Any]]:
    """The pairs that lose surely more or less together than the sum of both, the furthest first.

    Nothing can be lost twice, so that a sum may be out of reach. A pair below the sum is told only
    where both together lose surely more than either alone: their intervals do not meet.
    """
    rows = []
    for method in METHODS:
        alone, together, beyond = (
            _lost(table, kind, method).set_index("part") for kind in (LOST, TOGETHER, BEYOND)
        )
        for pair, row in _claimed(beyond).iterrows():
            two, both = alone.loc[str(pair).split(" + ")], together.loc[pair]
            if row["value"] > 0 or both["low"] > two["high"].max():
                rows.append(
                    {"pair": pair, "ablation": method, "together": both["value"]}
                    | dict(zip(("first", "second"), two["value"], strict=True))
                    | {"beyond": row["value"], "corrected": row["corrected"]}
                )
    return sorted(rows, key=lambda pair: -abs(pair["beyond"]))


def _claims(answer: Answer) -> list[Claim]:
    """The head that costs most, the pair that costs most beyond the sum, and the clearest type:
    each chosen on a third of the words, judged on the others, and beside the one that is chosen in
    the untrained network. Where no single head costs enough, the pair comes first."""
    table = answer.table
    by = (
        f"by {method} ablation {', '.join(_claimed(_lost(table, LOST, method))['part']) or 'none'}"
        for method in METHODS
    )
    claims = [
        _costliest(
            table,
            LOST,
            "Without {} (mean ablation) {{}} of the verdicts are lost",
            f"Heads that cost more than {NEEDED:.0%} (p <= {LEVEL}, Student's test over different "
            f"words, Holm's correction): {'; '.join(by)}.",
            _looks(table),
        )
    ]
    if _lost(table, BEYOND)["choice"].max() > NEEDED:
        finding = "Without both {} (mean ablation) {{}} more of the verdicts are lost than without "
        finding += "each, added up, as where each can stand in for the other"
        place = int(_lost(table, LOST)["choice"].max() > NEEDED)
        claims.insert(place, _costliest(table, BEYOND, finding))
    typed = _typed(table)
    return claims if typed is None else [*claims, typed]


def _costliest(table: pd.DataFrame, kind: str, finding: str, *notes: str) -> Claim:
    """The loss without the head, or the pair, that costs most on the words that choose. Where
    another costs more on the words that judge, that is said: a picture of all shows it."""
    lost = _lost(table, kind)
    most, here = _chosen(lost), _chosen(lost, "value")
    if here["value"] > most["value"]:
        finding += f"; other words chose it: here {here['part']} costs more, {here['value']:.1%}"
    other = _chosen(_lost(table, kind, model="untrained"))["value"]
    shown = {
        method: _claimed(rows[rows["value"] > 0])["part"].tolist()
        for method in METHODS[1:]
        for rows in [_lost(table, kind, method)]
    }
    return _judged(
        most,
        finding.format(most["part"].replace(" + ", " and ")),
        {"what was chosen so in the untrained network": other, "what counts": NEEDED},
        [
            f"By {m} ablation it is not shown."
            for m, some in shown.items()
            if most["part"] not in some
        ],
        notes,
    )


def _typed(table: pd.DataFrame) -> Claim | None:
    """The head and type that are furthest beyond even attention and the untrained head; None where
    none is beyond both."""
    types = table[table["measure"].isin([f"attention, {name}" for name in TARGETS])]
    after, before = (
        rows.set_index(["measure", "part"], drop=False)
        for rows in (types[types["model"] == name] for name in ("trained", "untrained"))
    )
    beyond = (after["choice"] - np.maximum(before["choice"], after["uniform"])).dropna()
    if beyond.empty or beyond.max() <= 0:
        return None
    row = after.loc[beyond.idxmax()]
    other = _chosen(before[before["measure"] == row["measure"]])
    at = TARGETS[row["measure"].removeprefix("attention, ")]
    return _judged(
        row,
        f"{row['part']} pays {{}} of its attention to {at}, where there is one",
        {"even attention": row["uniform"], "the untrained network's head for this": other["value"]}
        | {"a clear type": CLEAR},
        [],
        [f"That is {row['share']:.0%} of all its attention. It need not matter."],
    )


def _judged(
    row: pd.Series,
    finding: str,
    controls: Mapping[str, float],
    doubts: Sequence[str],
    notes: Sequence[str],
) -> Claim:
    """A claim about the part of a row, on the words that did not choose it."""
    value, low, high = row[["value", "low", "high"]].astype(float)
    n, over = int(row["different"]), "bootstrap over words"
    unit = "different words" + (", which did not choose it" if n > 1 else "")
    return Claim(finding, value, low, high, n, unit, over, controls, "z.1%", False, doubts, notes)


def _looks(table: pd.DataFrame) -> str:
    """The heads that look where it matters, in the untrained network too; "" if none was asked."""
    heads = table[(table["measure"] == LOOK) & (table["head"] >= 0)]
    if heads.empty:
        return ""
    surely = {name: _claimed(rows)["part"].tolist() for name, rows in heads.groupby("model")}
    names = f" ({', '.join(surely['trained'])})" if surely["trained"] else ""
    return (
        f"{len(surely['trained'])} of {len(heads) // 2} heads look where it matters{names}, in the "
        f"untrained network {len(surely['untrained'])}: attention and its effect have a rank "
        f"correlation above {LOOKS} (the same test, over {heads['words'].max()} words)."
    )


def _headline(result: Answer) -> pd.DataFrame:
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
            largest = _chosen(lost)["value"]
            rows.append((model, f"most lost by a head, {method} ablation", largest))
            beyond = pairs.get(f"{BEYOND}, {method} ablation", table[:0])
            for label, sign in (("lose more than the sum", 1), ("lose less than the sum", -1)):
                surely = (beyond["corrected"] <= LEVEL) & (beyond["value"] * sign > 0)
                rows.append(
                    (model, f"share of pairs that {label}, {method} ablation", surely.mean())
                )
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
            rows.append((model, f"{LOOK}, best head", _chosen(look)["value"]))
            rows.append((model, f"{LOOK}, mean of heads", look["value"].mean()))
        whole = table[table["measure"] == LOOK].set_index("part")["value"]
        rows += [
            (model, f"{LOOK}, {part}", whole[part]) for part in ("rollout", "flow") if part in whole
        ]
    return numbers(rows)


QUESTION = of_answer(
    "heads",
    Options,
    analyse,
    _headline,
    chart,
    _claims,
    brief=Options(words=60, members=6),
    planned=(Planned("trained", "untrained", by="variable"),),
    needs=("verdict", "one side", "heads"),
)
