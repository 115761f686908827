"""Does attention to the source show where each target symbol comes from, and does it matter there?

The language knows where each symbol comes from. So attention is scored against the truth, and
beside it the effect of the source: what a target symbol loses if one place of the source says
something else. Controls: the untrained model; attention on another pair of the same lengths, which
tells how much the lengths alone say; and the diagonal, which needs no model.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import altair as alt
import numpy as np
import pandas as pd
import torch
from altair.typing import ChartType
from jaxtyping import Bool, Float
from torch import Tensor

from analyses.answers import Answer, Planned, Progress, models_of, numbers, of_answer, quiet
from analyses.charts.marks import bars
from analyses.charts.theme import TRAINED, UNTRAINED, colours, figures, named
from analyses.claims import Claim, measured
from analyses.needs import require
from analyses.options.parts import Alignment as Options
from analyses.words import ANALYSIS_SEED
from interp.heads.alignment import agreement, aligned, attention_to_source, effects_of_source
from interp.statistics import bootstrap_mean, brackets
from models.base import LanguageModel
from models.errors import UserError
from models.languages import Transduction, Word
from models.runs.run import Run

DRAWN = 40
"""Pairs that are drawn for each that is looked at: short ones come again and again."""
SHORTEST = 3
"""The fewest symbols of a source: with fewer there is hardly anything to find."""
ALL = "all heads"
SYMBOL, READING = "the symbol", "keys and values"
"""Exchanges at a place of the source: of its symbol, or of what cross-attention reads there."""
DIAGONAL, ELSEWHERE = "the diagonal", "another pair of these lengths"


@dataclass(frozen=True)
class Pair:
    """A pair of the language.

    Attributes:
        word: source, border and target.
        tokens: the word as token ids, BOS first.
        truth: True where the target symbol comes from the source symbol.
    """

    word: Word
    tokens: Any
    truth: Bool[np.ndarray, "target source"]

    @classmethod
    def of(cls, language: Transduction, word: Word) -> Pair:
        source, target = language.split(word)
        truth = np.zeros((len(target), len(source)), dtype=bool)
        for row, places in enumerate(language.alignment(source)):
            truth[row, list(places)] = True
        return cls(word, torch.as_tensor(language.vocabulary.words([word]).tokens[0]), truth)

    @property
    def keys(self) -> range:
        """The positions of the source."""
        return range(1, self.truth.shape[1] + 1)

    @property
    def queries(self) -> range:
        """The position after which each target symbol comes: the border, and each but the last."""
        border = self.truth.shape[1] + 1
        return range(border, border + len(self.truth))

    @property
    def right(self) -> list[int]:
        """The target symbols as token ids."""
        return [int(token) for token in self.tokens[self.queries.start + 1 :]]

    @property
    def diagonal(self) -> Float[np.ndarray, "target source"]:
        """Nearness to the diagonal, from 0 down."""
        places = (np.linspace(0, 1, max(size, 2))[:size] for size in self.truth.shape)
        target, source = places
        return -np.abs(target[:, None] - source)


def transduction_of(run: Run) -> Transduction:
    """The run's language. Raises UserError if it does not know where a target comes from."""
    require(run, "alignment")
    assert isinstance(run.language, Transduction)
    return run.language


def pairs_of(run: Run, count: int, seed: int) -> list[Pair]:
    """Different pairs of the training window. Each has a target symbol that does not come from the
    whole source.

    Raises:
        UserError: the language has no pairs, or too few of these.
    """
    language = transduction_of(run)
    rng = np.random.default_rng([ANALYSIS_SEED, seed])
    window = language.lengths(run.config.max_n)
    drawn = language.sample(rng, DRAWN * count, window, True, "test").words
    pairs = dict[Word, Pair]()
    for word in language.vocabulary.decoded(drawn):
        if word in pairs or len(language.split(word)[0]) < SHORTEST:
            continue
        pair = Pair.of(language, word)
        if (pair.truth.any(axis=1) & ~pair.truth.all(axis=1)).any():
            pairs[word] = pair
        if len(pairs) == count:
            break
    if len(pairs) < 4:
        raise UserError(
            f"hardly any pair of {language.name} up to size {run.config.max_n} has a source of "
            f"{SHORTEST} symbols: train with a larger --max-n"
        )
    return list(pairs.values())


def _patterns_of(model: LanguageModel) -> list[str]:
    """The hooks of attention to the source: cross-attention, or without it all attention."""
    hooks = [name for name in model.hook_dict if name.endswith("attn.hook_pattern")]
    return [name for name in hooks if ".cross_attn." in name] or hooks


def _readings_of(model: LanguageModel) -> list[str]:
    """The hooks of what cross-attention reads."""
    return [
        name
        for name in model.hook_dict
        if name.endswith(("cross_attn.hook_k", "cross_attn.hook_v"))
    ]


def analyse(run: Run, options: Options, progress: Progress = quiet) -> Answer:
    """One row per model and part, and one per control.

    Columns: model (trained, untrained, none), of ("attention", "effect", "control"), part (a head
    such as L1H0, "all heads", what was exchanged, or the control), layer and head (-1 where the
    part is no head), choice (the area under the ROC curve on every other pair, by which a head may
    be chosen), auroc, low, high (on the pairs between, with 95% bootstrap over pairs), hit,
    hit_low, hit_high, agrees, agrees_low, agrees_high (Spearman's rank correlation with the effect
    of keys and values, or of the symbol where the model has no cross-attention; missing where one
    of both does not vary), pairs.

    Measures: see ``interp.heads.alignment.aligned``. The position before a target symbol is asked,
    where the model decides it. What all heads pay is their mean. An effect is a mean over donors.
    On another pair there is the attention of all heads, that of the head that half of the pairs
    choose, and the effect.

    Raises:
        UserError: the language has no pairs, or too few; or the model was taught no next symbols.
    """
    if run.objective.verdict_alone:
        raise UserError(f"{run.name} was taught verdicts alone, and makes no targets")
    pairs = pairs_of(run, options.words, options.seed)
    donors = pairs_of(run, DRAWN * options.donors, options.seed + 1)
    rows = list[dict[str, object]]()
    for done, (name, viewed) in enumerate(models_of(run)):
        seen = []
        for number, pair in enumerate(pairs):
            progress(done * len(pairs) + number, 2 * len(pairs), f"alignment, {name} model")
            seen.append(look(run, viewed, pair, _longer(pair, donors, options.donors)))
        rows += [{"model": name} | row for row in _rows(seen, pairs)]
        if name == "trained":
            heads = [row for row in rows if row["head"] != -1]
            best = _best(pd.DataFrame(heads), name)["part"] if heads else ""
            rows += [{"model": "none"} | row for row in _controls(seen, pairs, best)]
    progress(2 * len(pairs), 2 * len(pairs), "alignment")
    return Answer(pd.DataFrame(rows))


def _longer(pair: Pair, donors: Sequence[Pair], count: int) -> list[Pair]:
    """Other pairs whose source is at least as long; the longest ones where there are too few."""
    others = [donor for donor in donors if donor.word != pair.word]
    fit = [donor for donor in others if donor.truth.shape[1] >= pair.truth.shape[1]]
    return (fit or [max(others, key=lambda donor: donor.truth.shape[1])])[:count]


Scores = dict[tuple[str, str], Float[np.ndarray, "target source"]]
"""scores[of, part][target, source]: a higher score is a stronger link."""


def look(run: Run, model: LanguageModel, pair: Pair, donors: Sequence[Pair]) -> Scores:
    """Attention of each head and of all, and effects, on one pair."""
    scores: Scores = {}
    hooks = _patterns_of(model)
    if hooks:
        paid = attention_to_source(model, pair.tokens, hooks, pair.queries, pair.keys)
        for hook, heads in zip(hooks, paid, strict=True):
            layer = int(hook.split(".")[1])
            scores |= {("attention", f"L{layer}H{h}"): head for h, head in enumerate(heads)}
        scores["attention", ALL] = paid.mean(axis=(0, 1))

    def logp(logits: Tensor) -> Tensor:
        return run.objective.log_probabilities(logits, model.vocabulary)

    readings = _readings_of(model)
    for part, exchanged in ((SYMBOL, []), *([(READING, readings)] if readings else [])):
        losses = []
        for donor in donors:
            short = pair.truth.shape[1] - donor.truth.shape[1]
            keys = pair.keys if short <= 0 else pair.keys[: donor.truth.shape[1]]
            lost = effects_of_source(
                model, logp, pair.tokens, donor.tokens, pair.queries, keys, pair.right, exchanged
            )
            losses.append(np.pad(lost, ((0, 0), (0, max(short, 0)))))
        scores["effect", part] = np.mean(losses, axis=0)
    return scores


def _rows(seen: Sequence[Scores], pairs: Sequence[Pair]) -> Iterator[dict[str, object]]:
    cause = READING if ("effect", READING) in seen[0] else SYMBOL
    for of, part in seen[0]:
        values = [scores[of, part] for scores in seen]
        effects = [scores["effect", cause] for scores in seen]
        yield _row(of, part, values, pairs, None if part == cause else effects)


def _controls(
    seen: Sequence[Scores], pairs: Sequence[Pair], best: str
) -> Iterator[dict[str, object]]:
    cause = READING if ("effect", READING) in seen[0] else SYMBOL
    effects = [scores["effect", cause] for scores in seen]
    yield _row("control", DIAGONAL, [pair.diagonal for pair in pairs], pairs, effects)
    shapes = dict[tuple[int, ...], list[int]]()
    for number, pair in enumerate(pairs):
        shapes.setdefault(pair.truth.shape, []).append(number)
    others = [
        (number, same[(at + 1) % len(same)])
        for same in shapes.values()
        if len(same) > 1
        for at, number in enumerate(same)
    ]
    bases = [pairs[number] for number, _ in others]
    about = [effects[number] for number, _ in others]
    for of, part in (("attention", ALL), ("attention", best), ("effect", cause)):
        if (of, part) in seen[0] and len(others) > 3:
            scores = [seen[other][of, part] for _, other in others]
            name = ELSEWHERE if part == ALL else f"{part} on {ELSEWHERE}"
            yield _row("control", name, scores, bases, about)


def _row(
    of: str,
    part: str,
    scores: Sequence[Float[np.ndarray, "target source"]],
    pairs: Sequence[Pair],
    effects: Sequence[Float[np.ndarray, "target source"]] | None,
) -> dict[str, object]:
    both = [aligned(score, pair.truth) for score, pair in zip(scores, pairs, strict=True)]
    auroc, hit = (np.array(values) for values in zip(*both, strict=True))
    with_cause = np.full(len(pairs), np.nan)
    if effects is not None:
        with_cause = np.array([agreement(*two) for two in zip(scores, effects, strict=True)])
    is_head = of == "attention" and part != ALL
    layer, head = map(int, part[1:].split("H")) if is_head else (-1, -1)
    return {
        "of": of,
        "part": part,
        "layer": layer,
        "head": head,
        "choice": float(auroc[::2].mean()),
        **_judged("auroc", "low", "high", auroc),
        **_judged("hit", "hit_low", "hit_high", hit),
        **_judged("agrees", "agrees_low", "agrees_high", with_cause),
        "pairs": len(auroc[1::2]),
    }


def _judged(name: str, low: str, high: str, values: np.ndarray) -> dict[str, float]:
    """The mean of every other value with its interval; NaN where none is defined."""
    judged = values[1::2]
    judged = judged[~np.isnan(judged)]
    ends = bootstrap_mean(judged) if len(judged) else (np.nan, np.nan, np.nan)
    return dict(zip((name, low, high), map(float, ends), strict=True))


def _claims(answer: Answer) -> list[Claim]:
    """The head that half of the pairs choose, and what is lost where a place says something else:
    beside the untrained network's best, the diagonal, and the same on another pair."""
    table, claims = answer.table, list[Claim]()
    cause = READING if READING in set(table["part"]) else SYMBOL
    for rows, what in (
        (table[(table["of"] == "attention") & (table["head"] >= 0)], "Attention of {}"),
        (table[table["part"] == cause], "What the target loses with other {} at a place"),
    ):
        if rows.empty:
            continue
        best, other = (_best(rows, model) for model in ("trained", "untrained"))
        alone = table[table["part"].isin([DIAGONAL, f"{best['part']} on {ELSEWHERE}"])]
        agrees = (
            f"It is largest there for {best['hit']:.0%} of the symbols, and agrees with what the "
            f"target loses by {best['agrees']:.2f}"
            f"{brackets(best['agrees_low'], best['agrees_high'], '.2f')} (Spearman)."
        )
        claims.append(
            Claim(
                f"{what.format(best['part'])} finds the place that a target symbol comes from with "
                "an area under the ROC curve of {}",
                *measured(best, "auroc", "low", "high", "pairs"),
                "pairs, which chose nothing",
                "bootstrap over pairs",
                {"the untrained network's best": other["auroc"]}
                | dict(zip(alone["part"], alone["auroc"], strict=True)),
                notes=[agrees] if pd.notna(best["agrees"]) else [],
            )
        )
    return claims


def _best(heads: pd.DataFrame, model: str) -> pd.Series:
    """The row with the largest area on the pairs that choose."""
    rows = heads[heads["model"] == model]
    return rows.loc[rows["choice"].idxmax()]


def _headline(result: Answer) -> pd.DataFrame:
    """The numbers that are compared over seeds: variable (the measure), of (what has it), value."""
    table = result.table
    rows: list[tuple[str, str, float | None]] = []
    for model in ("trained", "untrained"):
        about = "" if model == "trained" else ", untrained"
        heads = table[(table["of"] == "attention") & (table["head"] >= 0)]
        if len(heads):
            best = _best(heads, model)
            rows += [
                ("area", f"best head{about}", best["auroc"]),
                ("hit", f"best head{about}", best["hit"]),
                ("agreement with the effect", f"best head{about}", best["agrees"]),
            ]
        others = table[(table["model"] == model) & (table["head"] < 0)]
        for row in others.to_dict("records"):
            rows += [("area", f"{row['part']}{about}", row["auroc"])]
            rows += [("hit", f"{row['part']}{about}", row["hit"])]
    for row in table[table["of"] == "control"].to_dict("records"):
        rows += [("area", row["part"], row["auroc"]), ("hit", row["part"], row["hit"])]
    return numbers(rows)


def _chart(result: Answer) -> ChartType:
    """The area of every part, the trained model above the untrained one and the controls."""
    ways = {"attention": "attention", "effect": "effect of exchanging", "control": "controls"}
    table = result.table.assign(of=result.table["of"].map(ways))
    models, grey = ["trained", "untrained", "none"], "#8a8f98"
    title = "area under the ROC curve (0.5 is chance)"
    picture = bars(
        table,
        alt.X("auroc:Q", title=title).scale(domain=[0, 1]),
        named(alt.Y, "part", list(dict.fromkeys(table["part"])), labelLimit=220),
        ["model", "of", "part", *figures("auroc", "low", "high", "hit", "agrees"), "pairs"],
        colours("model", models, [TRAINED, UNTRAINED, grey]),
        step=12,
        yOffset=alt.YOffset("model:N", sort=models),
    )
    chance = alt.Chart(pd.DataFrame({"at": [0.5]})).mark_rule(strokeDash=[4, 4], color=grey)
    return (picture + chance.encode(x="at:Q")).properties(width=300)


QUESTION = of_answer(
    "alignment",
    Options,
    analyse,
    _headline,
    _chart,
    _claims,
    needs=("alignment",),
    brief=Options(words=24, donors=1),
    planned=(Planned("best head", "best head, untrained", alone="area"),),
)
