"""Which earlier symbol decides what comes next, with others between that speak for the opposite?

A dependency is read off the language, not off its grammar: with another symbol in one place (the
controller), the word may go on as before up to a later place, and there may not have the symbol
that it has, but may have another one. Number agreement, gender, pronouns, brackets and copies are
all of this kind. An attractor is a symbol between the two that decides for the opposite in other
words.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, fields

import altair as alt
import numpy as np
import pandas as pd
import torch
from altair.typing import ChartType
from jaxtyping import Float
from scipy.stats import spearmanr
from torch import Tensor

from analyses.answers import Progress, numbers, of_table, quiet
from analyses.charts.marks import points
from analyses.charts.theme import by_model, figures
from analyses.claims import Claim, measured
from analyses.options.parts import Dependencies as Options
from analyses.questions.behaviour.pooled import pooled
from analyses.words import ANALYSIS_SEED
from interp.causal.metrics import ReadAt
from interp.causal.patching import patch
from interp.heads.attention import attention
from interp.statistics import bootstrap_mean, bootstrap_sums, brackets, wilson
from models.base import LanguageModel
from models.errors import UserError
from models.languages import FIRST_SYMBOL_ID, FormalLanguage, Words
from models.runs.run import Run

AT_ONCE, AT_RANDOM, MOST_DRAWN = 500, 4000, 16000
"""Words that are changed at once; words with a random symbol each, after which only symbols are put
in that something was found to depend on; and the most words of all."""
APART = 2
"""The fewest positions from a controller to what depends on it: a neighbour has nothing between."""
ENDS = ("value", "low", "high", "pairs")
COIN = 0.25
"""The frequency with which a coin prefers the right symbol after both controllers."""
MOST_ATTRACTORS = 3
"""Pairs with so many attractors or more are told together."""
ROLES = ("controller", "attractors", "others", "last symbol")
KINDS = {
    "right": "both words right",
    "stream": "effect of the residual stream at the symbol",
    "value": "effect of what a head reads there",
    "attention": "attention from the last symbol to it",
    "agrees": "rank correlation over heads of attention to the controller and effect",
}


@dataclass(frozen=True)
class _Pairs:
    """Words up to the place that depends, and the same with another controller.

    Attributes:
        ids: the symbols before the dependent place.
        changed: the same words with the other controller.
        at: the position of the controller in each, from 0.
        wanted: the token that may come next in ``ids``, and may not in ``changed``.
        instead: the token of which the opposite is true.
        attractors: True at the attractors, [pair, time].
    """

    ids: Words
    changed: Words
    at: np.ndarray
    wanted: np.ndarray
    instead: np.ndarray
    attractors: np.ndarray

    def __getitem__(self, rows: np.ndarray) -> _Pairs:
        return _Pairs(*(getattr(self, part.name)[rows] for part in fields(self)))

    def __len__(self) -> int:
        return len(self.at)

    @property
    def between(self) -> np.ndarray:
        """The number of attractors of each pair; ``MOST_ATTRACTORS`` stands for more, too."""
        return np.minimum(self.attractors.sum(axis=1), MOST_ATTRACTORS)


def pairs_of(
    run: Run, count: int, seed: int, symbols: Sequence[str] = (), progress: Progress = quiet
) -> _Pairs:
    """Pairs of words of the training window, up to ``count`` for each number of attractors.

    Args:
        symbols: the symbols that may depend; by default every symbol.

    Raises:
        UserError: no such dependency was found.
    """
    language = run.language
    assert isinstance(language, FormalLanguage)
    kept = {language.vocabulary.ids[symbol] for symbol in language.vocabulary.check(symbols)}
    rng = np.random.default_rng([ANALYSIS_SEED, seed])
    window = language.lengths(run.config.max_n)
    cases = list[_Dependency]()
    controls: dict[tuple[int, int], set[int]] = defaultdict(set)
    swaps: dict[int, set[int]] = defaultdict(set)
    for drawn in range(0, MOST_DRAWN, AT_ONCE):
        progress(drawn, MOST_DRAWN, "pairs of words")
        words = language.sample(rng, AT_ONCE, window, True, "test").words
        for case in _in(language, words, rng, swaps if drawn >= AT_RANDOM else None):
            before = int(case.ids[case.at])
            controls[case.wanted, case.instead].add(before)
            controls[case.instead, case.wanted].add(case.other)
            if len(case.ids) - case.at >= APART and (not kept or case.wanted in kept):
                swaps[before].add(case.other)
                cases.append(case)
        if drawn >= AT_RANDOM and (not swaps or _enough(_paired(cases, controls), count)):
            break
    progress(MOST_DRAWN, MOST_DRAWN, "pairs of words")
    if not cases:
        raise UserError(
            f"no symbol of {language.name} was found to depend on one further back: ask about "
            "other symbols, or another language"
        )
    pairs = _paired(cases, controls)
    rows = [np.flatnonzero(pairs.between == n)[:count] for n in range(MOST_ATTRACTORS + 1)]
    return pairs[np.concatenate(rows)]


@dataclass(frozen=True)
class _Dependency:
    """One place that depends on an earlier one.

    Attributes:
        ids: the symbols before the dependent place.
        at: the position of the controller, from 0.
        other: the controller of the opposite.
        wanted, instead: see ``_Pairs``.
    """

    ids: np.ndarray
    at: int
    other: int
    wanted: int
    instead: int


def _enough(pairs: _Pairs, count: int) -> bool:
    """Are there so many pairs with each number of attractors that was seen at all?"""
    seen = np.bincount(pairs.between)
    return bool((seen[seen > 0] >= count).all())


def _in(
    language: FormalLanguage,
    words: Words,
    rng: np.random.Generator,
    swaps: dict[int, set[int]] | None,
) -> list[_Dependency]:
    """One symbol of each word is changed: where does this first change what may follow?

    Args:
        swaps: the symbols that each symbol may become; None changes any into any other.
    """
    rows, size = np.arange(len(words)), len(language.vocabulary.symbols)
    if size < 2:
        return []
    able = words.mask if swaps is None else words.mask & np.isin(words.ids, list(swaps))
    rows = rows[able.any(axis=1)]
    at = np.where(able, rng.random(able.shape), -1.0).argmax(axis=1)
    ids = words.ids.copy()
    for row in rows.tolist():
        token = int(ids[row, at[row]])
        others = range(FIRST_SYMBOL_ID, FIRST_SYMBOL_ID + size) if swaps is None else swaps[token]
        ids[row, at[row]] = rng.choice([other for other in sorted(others) if other != token])
    before, after = language.allowed(words), language.allowed(Words(ids, words.lengths))
    cases = []
    for row in rows.tolist():
        here = int(at[row])
        if not before[row, here, ids[row, here]]:
            continue  # the other symbol may not stand there
        for place in range(here + 1, int(words.lengths[row])):
            token = int(words.ids[row, place])
            if after[row, place, token]:
                continue
            instead = np.flatnonzero(after[row, place] & ~before[row, place])
            instead = instead[instead >= FIRST_SYMBOL_ID]
            if len(instead):
                other, begin = int(rng.choice(instead)), words.ids[row, :place]
                cases.append(_Dependency(begin, here, int(ids[row, here]), token, other))
            break
    return cases


def _paired(cases: list[_Dependency], controls: dict[tuple[int, int], set[int]]) -> _Pairs:
    """Each different one once, with its attractors."""
    cases = list({(*case.ids.tolist(), case.at, case.wanted): case for case in cases}.values())
    lengths = np.array([len(case.ids) for case in cases])
    at, other, wanted, instead = (
        np.array([getattr(case, name) for case in cases])
        for name in ("at", "other", "wanted", "instead")
    )
    ids = np.zeros((len(cases), int(lengths.max())), dtype=np.int64)
    attractors = np.zeros(ids.shape, dtype=bool)
    for row, case in enumerate(cases):
        ids[row, : len(case.ids)] = case.ids
        opposite = list(controls[case.instead, case.wanted])
        attractors[row, case.at + 1 : len(case.ids)] = np.isin(case.ids[case.at + 1 :], opposite)
    changed = ids.copy()
    changed[np.arange(len(ids)), at] = other
    words, others = (Words.of_rows(rows, lengths) for rows in (ids, changed))
    return _Pairs(words, others, at, wanted, instead, attractors)


def examples(run: Run, pairs: _Pairs) -> pd.DataFrame:
    """The pairs in words: word, next, controller, other_controller, next_then, attractors."""
    vocabulary = run.language.vocabulary
    rows = []
    for row, length in enumerate(pairs.ids.lengths.tolist()):
        ids, at = pairs.ids.ids[row, :length], pairs.at[row]
        between = pairs.ids.ids[row][pairs.attractors[row]]
        rows.append(
            {
                "word": " ".join(vocabulary.decode(ids)),
                "next": vocabulary.tokens[pairs.wanted[row]],
                "controller": vocabulary.tokens[ids[at]],
                "other_controller": vocabulary.tokens[pairs.changed.ids[row, at]],
                "next_then": vocabulary.tokens[pairs.instead[row]],
                "attractors": " ".join(vocabulary.decode(between)),
            }
        )
    return pd.DataFrame(rows)


def _dependencies(run: Run, options: Options, progress: Progress = quiet) -> pd.DataFrame:
    """Does a model follow the controller, where does it keep it, and does it look at it?

    What is measured is the logit of the symbol that may come next, minus that of the one which may
    come after the other controller. Patching takes an activation of the word into the run of the
    changed word; its effect is the share of the trained model's difference between the two words
    that comes back, as a ratio of sums over pairs. The words differ in the controller alone:
    attractors stay in place.

    Returns:
        One row per model, kind, place and role: model ("trained", "untrained"), kind (of
        ``KINDS``), place ("0 attractors", ...; "L1", the stream before this block; "L0H1"), role
        (of ``ROLES``; "" where there is none), choice (the value over every other pair, by which a
        head may be chosen), value (over the other pairs; of "right" and "agrees" over all), low,
        high (95%: Wilson for "right", else bootstrap over pairs), pairs (behind value). Kind
        "agrees" is Spearman's correlation, over the heads, of a head's attention to the controller
        and its absolute effect there, mean over pairs.

    Raises:
        UserError: see ``pairs_of``.
    """
    symbols = run.language.vocabulary.parse(options.symbols)
    pairs = pairs_of(run, options.count, options.seed, symbols, progress)
    models = {"trained": run.model(), "untrained": run.untrained()}
    rows, whole = list[dict[str, object]](), np.empty(0)
    for done, (name, model) in enumerate(models.items()):
        progress(done, 2, name)
        yes, no = _preferences(model, pairs)
        whole = yes - no if name == "trained" else whole
        parts = [*_right((yes > 0) & (no < 0), pairs), *_inside(run, model, pairs, whole)]
        rows += [{"model": name} | row for row in parts]
    progress(2, 2, "dependencies")
    return pd.DataFrame(rows)


@torch.no_grad()
def _preferences(model: LanguageModel, pairs: _Pairs) -> tuple[np.ndarray, np.ndarray]:
    """``_prefers`` on the words and on the changed ones."""
    metric = _prefers(pairs, len(model.vocabulary))
    yes, no = (
        metric(model(torch.as_tensor(words.tokens))).double().numpy()
        for words in (pairs.ids, pairs.changed)
    )
    return yes, no


def _right(right: np.ndarray, pairs: _Pairs) -> Iterator[dict[str, object]]:
    """The share of pairs of which both words are right, by the number of attractors."""
    for n in np.unique(pairs.between):
        hits = right[pairs.between == n]
        low, high = wilson(int(hits.sum()), len(hits))
        more = " or more" if n == MOST_ATTRACTORS else ""
        name = f"{n}{more} attractor{'' if n == 1 else 's'}"
        yield (
            {"kind": "right", "place": name, "role": ""}
            | {"value": float(hits.mean()), "low": low, "high": high, "pairs": len(hits)}
        )


def _inside(
    run: Run, model: LanguageModel, pairs: _Pairs, whole: np.ndarray
) -> Iterator[dict[str, object]]:
    """Where the controller is kept, which heads read it, and where they look.

    Args:
        whole: the trained model's difference between the words of each pair.
    """
    clean, changed = (torch.as_tensor(words.tokens) for words in (pairs.ids, pairs.changed))
    if run.config.model.family.residual:
        moved = _moved(model, clean, changed, pairs, "resid_pre")
        yield from _effects(moved, whole, pairs, "stream")
    if run.config.model.family.attends and not run.config.model.family.two_sided:
        moved = _moved(model, clean, changed, pairs, "v")
        yield from _effects(moved, whole, pairs, "value")
        yield from _attention(model, clean, moved, pairs)


def _moved(
    model: LanguageModel, clean: Tensor, changed: Tensor, pairs: _Pairs, component: str
) -> dict[str, Float[np.ndarray, "pair pos"]]:
    """The logits by which patching each position moves the changed words, by layer or head."""
    table = patch(model, clean, changed, _prefers(pairs, len(model.vocabulary)), [component])
    grids = {}
    for (layer, head), rows in table.groupby(["layer", "head"], sort=True):
        name = f"L{layer}" if head < 0 else f"L{layer}H{head}"
        grid = rows.assign(moved=rows["patched"] - rows["corrupted"])
        grids[name] = grid.pivot_table(index="pair", columns="position", values="moved").to_numpy()
    return grids


def _prefers(pairs: _Pairs, tokens: int) -> ReadAt:
    """The preference for the symbol that may come next over the other one, in logits.

    Args:
        tokens: the number of tokens of the vocabulary.
    """
    sign = torch.zeros(len(pairs), tokens)
    rows = torch.arange(len(pairs))
    sign[rows, torch.as_tensor(pairs.wanted)] = 1.0
    sign[rows, torch.as_tensor(pairs.instead)] = -1.0

    def read(logits: Tensor, sign: Tensor) -> Tensor:
        return (logits * sign.to(logits.device)).sum(dim=-1)

    return ReadAt(read, torch.as_tensor(pairs.ids.lengths), (sign,))


def _roles_of(pairs: _Pairs) -> dict[str, np.ndarray]:
    """Which positions, BOS first, have each role, [pair, pos]. A position has at most one."""
    shape = (len(pairs), pairs.ids.ids.shape[1] + 1)
    place, rows = np.arange(shape[1]), np.arange(len(pairs))
    controller, last = np.zeros(shape, bool), np.zeros(shape, bool)
    controller[rows, pairs.at + 1] = True
    last[rows, pairs.ids.lengths] = True
    attractors = np.pad(pairs.attractors, ((0, 0), (1, 0))) & ~last
    inside = (place >= 1) & (place <= pairs.ids.lengths[:, None])
    others = inside & ~controller & ~last & ~attractors
    return dict(zip(ROLES, (controller, attractors, others, last), strict=True))


def _effects(
    moved: dict[str, Float[np.ndarray, "pair pos"]], whole: np.ndarray, pairs: _Pairs, kind: str
) -> Iterator[dict[str, object]]:
    """The sum that the positions of each role bring back, as a share of the difference."""

    def share(sums: np.ndarray) -> np.ndarray:
        return np.asarray(sums[..., 0] / sums[..., 1])

    for place, by_position in moved.items():
        for role, here in _roles_of(pairs).items():
            sums = np.stack([(by_position * here).sum(axis=1), whole], axis=1)
            judged = bootstrap_sums(sums[1::2], share)
            yield {"kind": kind, "place": place, "role": role} | _judged(
                float(share(sums[::2].sum(axis=0))), judged, len(sums)
            )


def _judged(choice: float, judged: tuple[np.ndarray, ...], pairs: int) -> dict[str, object]:
    value, low, high = (float(number) for number in judged)
    return {"choice": choice, "value": value, "low": low, "high": high, "pairs": pairs // 2}


def _attention(
    model: LanguageModel,
    clean: Tensor,
    moved: dict[str, Float[np.ndarray, "pair pos"]],
    pairs: _Pairs,
) -> Iterator[dict[str, object]]:
    """The last symbol's attention to each role, and whether it looks where an effect is."""
    pattern, _ = attention(model, clean)
    rows = torch.arange(len(clean))
    # Advanced indices apart from each other come first: [pair, layer, head, key].
    looks = pattern[:, rows, :, torch.as_tensor(pairs.ids.lengths)].numpy()
    names = [f"L{layer}H{head}" for layer, head in np.ndindex(*looks.shape[1:3])]
    flat = looks.reshape(len(clean), len(names), -1)
    by_head = dict(zip(names, flat.swapaxes(0, 1), strict=True))
    for place, weights in by_head.items():
        for role, here in _roles_of(pairs).items():
            paid = (weights * here).sum(axis=1)
            yield {"kind": "attention", "place": place, "role": role} | _judged(
                float(paid[::2].mean()), bootstrap_mean(paid[1::2]), len(paid)
            )
    effects = np.abs(np.stack([moved[name] for name in names], axis=1))
    patterns = np.stack([by_head[name] for name in names], axis=1)
    rhos = []
    for row, controller in enumerate((pairs.at + 1).tolist()):
        one, two = patterns[row, :, controller], effects[row, :, controller]
        if np.ptp(one) > 0 and np.ptp(two) > 0:
            rhos.append(float(spearmanr(one, two).statistic))
    if len(rhos) > 1:
        mean, low, high = bootstrap_mean(np.array(rhos))
        yield (
            {"kind": "agrees", "place": "all heads", "role": "", "value": float(mean)}
            | {"low": float(low), "high": float(high), "pairs": len(rhos)}
        )


def _side_by_side(table: pd.DataFrame) -> pd.DataFrame:
    """The trained model's values: a row for each kind and place, a column for each role."""
    rows = table[table["model"] == "trained"].assign(role=lambda t: t["role"].replace("", "value"))
    keys = ["kind", "place"]
    wide = rows.pivot_table(index=keys, columns="role", values="value", sort=False)
    columns = [name for name in ("value", *ROLES) if name in wide]
    return wide[columns].join(rows.groupby(keys, sort=False)["pairs"].first()).reset_index()


def _claims(table: pd.DataFrame) -> list[Claim]:
    """Whether the right symbol is preferred after both controllers; how much comes back through the
    head that half of the pairs choose, beside what it reads elsewhere; and whether the heads that
    look at the controller are those through which it acts."""
    kinds = {str(kind): rows.set_index("model") for kind, rows in table.groupby("kind")}
    right, over = table[table["kind"] == "right"].assign(coin=COIN), "bootstrap over pairs"
    lines = (
        f"{row.value:.0%}{brackets(row.low, row.high, '.0%')} with {row.place} ({row.pairs} pairs)"
        for row in right[right["model"] == "trained"].itertuples()
    )
    columns = {"place": "group", "value": "share", "pairs": "count"}
    claims = [
        pooled(
            "After both controllers the network prefers the right symbol in {} of the pairs",
            right.rename(columns=columns),
            "pairs of words",
            {"the untrained network": "untrained", "a coin": "coin"},
            "pairs with",
            [f"It is {', '.join(lines)}."],
        )
    ]
    if "value" in kinds:
        heads = kinds["value"].query("role == 'controller'")
        best, other = (
            rows.iloc[int(rows["choice"].argmax())]
            for rows in (heads.loc["trained"], heads.loc["untrained"])
        )
        where = best["place"]
        (there,) = (
            kinds["value"].loc["trained"].query("role == 'others' and place == @where")["value"]
        )
        controls = {"the untrained network's best head": other["value"]}
        controls["the same head at other symbols"] = there
        finding = f"What {where} reads at the controller brings {{}} of the difference back"
        ends, unit = measured(best, *ENDS), "pairs, which did not choose the head"
        claims.append(Claim(finding, *ends, unit, over, controls, "z.0%"))
    if "agrees" in kinds:
        controls = {"no relation": 0.0} | kinds["agrees"]["value"].drop("trained").to_dict()
        ends = measured(kinds["agrees"].loc["trained"], *ENDS)
        finding = "Over heads, attention to the controller and its effect agree by {} (Spearman)"
        claims.append(Claim(finding, *ends, "pairs", over, controls))
    return claims


def _chart(table: pd.DataFrame) -> ChartType:
    """A panel per kind: the values by place and role, of the trained and the untrained model."""
    drawn: dict[str, ChartType] = {}
    for kind, rows in table.groupby("kind", sort=False):
        picture = points(
            rows.assign(role=rows["role"].replace("", "all")),
            alt.X("value:Q", title=None).axis(format=".1f" if kind == "agrees" else "%"),
            alt.Y("place:N", sort=rows["place"].unique().tolist(), title=None),
            ["model", "place", "role", *figures("value", "low", "high"), "pairs"],
            by_model(),
            step=14,
            yOffset=alt.YOffset("model:N"),
        ).properties(width=150)
        by_role = alt.Column("role:N", sort=list(ROLES), title=None)
        several = kind in ("stream", "value", "attention")
        drawn[KINDS[str(kind)]] = picture.facet(column=by_role) if several else picture
    return alt.vconcat(*(panel.properties(title=title) for title, panel in drawn.items()))


def _headline(table: pd.DataFrame) -> pd.DataFrame:
    """Numbers that are compared over seeds: right preferences by the attractors between, and how
    attention agrees with effects."""
    rows = table[table["kind"].isin(["right", "agrees"])].itertuples()
    return numbers((f"{KINDS[row.kind]}, {row.place}", row.model, row.value) for row in rows)


QUESTION = of_table(
    "dependencies",
    Options,
    _dependencies,
    _claims,
    _headline,
    _chart,
    _side_by_side,
    needs=("language", "next symbols", "causal"),
)
