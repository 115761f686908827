"""Do symbols of one kind look at those of another, and does it matter that they do?

The lectures tell attention as questions: "are there any adjectives in front of me?", asks a noun.
Here the question can be put to every head, and the language says whether the answer matters.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import altair as alt
import numpy as np
import pandas as pd
import torch
from altair.typing import ChartType
from jaxtyping import Bool, Float, Int
from torch import Tensor

from analyses.answers import Progress, models_of, numbers, of_table, quiet
from analyses.charts.marks import points
from analyses.charts.theme import by_model, figures
from analyses.claims import Claim, measured
from analyses.options.parts import Looks as Options
from analyses.words import ANALYSIS_SEED
from interp.heads.attention import attention, patterns
from interp.statistics import bootstrap_mean, brackets
from models.base import LanguageModel
from models.errors import UserError
from models.languages import END_ID, FIRST_SYMBOL_ID, FormalLanguage, Word, Words
from models.runs.run import Run

DRAWN = 2000
"""Words in which places are looked for."""
ALL = "all heads"


@dataclass(frozen=True)
class _Places:
    """Symbols that may look, one of each word.

    Attributes:
        words: the words.
        at: the position of the symbol that looks; BOS is 0.
        keys: True at the symbols before it that are looked for; BOS is position 0.
    """

    words: Words
    at: Int[np.ndarray, " word"]
    keys: Bool[np.ndarray, "word pos"]


def _places_of(run: Run, options: Options) -> _Places:
    """Places in different members of the training window, one a word.

    Raises:
        UserError: no symbols are named, or too few words of the language have them.
    """
    language = run.language
    query, key = (language.vocabulary.parse(text) for text in (options.query, options.key))
    if not query or not key:
        raise UserError("name the symbols that look (--query) and those that are looked at (--key)")
    asks, targets = (
        [language.vocabulary.ids[symbol] for symbol in language.vocabulary.check(symbols)]
        for symbols in (query, key)
    )
    rng = np.random.default_rng([ANALYSIS_SEED, options.seed])
    window = language.lengths(run.config.max_n)
    words = language.sample(rng, DRAWN, window, True, "test").words
    words = words[np.sort(np.unique(words.ids, axis=0, return_index=True)[1])]
    keys = np.isin(words.tokens, targets) & (
        np.arange(words.tokens.shape[1]) <= words.lengths[:, None]
    )
    able = np.isin(words.tokens, asks) & (np.cumsum(keys, axis=1) > keys)
    rows = np.flatnonzero(able.any(axis=1))[: options.count]
    if len(rows) < 2:
        raise UserError(
            f"hardly any word of {language.name} has one of {' '.join(query)} after one of "
            f"{' '.join(key)}: name other symbols"
        )
    at = np.where(able, rng.random(able.shape), -1.0).argmax(axis=1)[rows]
    behind = np.arange(keys.shape[1]) < at[:, None]
    return _Places(words[rows], at, keys[rows] & behind)


def _looks(run: Run, options: Options, progress: Progress = quiet) -> pd.DataFrame:
    """The attention of each head from symbols of one kind to earlier ones of another.

    Returns:
        One row per model and head, and one for all heads together: model ("trained", "untrained"),
        head, choice (the attention in every other place, by which a head may be chosen), attention
        (in the other places: the share that goes to ``key``), low, high (95% bootstrap over
        places), even (what even attention would pay), effect (KL in nats by which the distribution
        of the next token moves if the head cannot look there), effect_low, effect_high, beyond (by
        how much more it moves than if the head cannot look at as many others of the earlier
        symbols and BOS, drawn at random), beyond_low, beyond_high, places, decides (see
        ``_decides``).

    Raises:
        UserError: see ``_places_of``.
    """
    places = _places_of(run, options)
    others = _others(places, options.seed)
    rows: list[dict[str, object]] = []
    for name, model in models_of(run, progress):
        rows += [{"model": name} | row for row in _of_model(run, model, places, others)]
    return pd.DataFrame(rows).assign(decides=_decides(run, places))


def _others(places: _Places, seed: int) -> _Places:
    """Other earlier positions, as many, drawn at random; all where there are no more."""
    shape = places.keys.shape
    free = (np.arange(shape[1]) < places.at[:, None]) & ~places.keys
    drawn = np.where(free, np.random.default_rng([ANALYSIS_SEED, seed]).random(shape), 2.0)
    first = drawn.argsort(axis=1).argsort(axis=1) < places.keys.sum(axis=1, keepdims=True)
    return replace(places, keys=free & first)


def _of_model(
    run: Run, model: LanguageModel, places: _Places, others: _Places
) -> list[dict[str, object]]:
    tokens = torch.as_tensor(places.words.tokens)
    pattern, sees = attention(model, tokens)  # [layer, word, head, query, key]
    index, at = np.arange(len(tokens)), places.at
    visible = sees.numpy()[index, at]
    even = (visible & places.keys).sum(axis=1) / visible.sum(axis=1)
    paid = (pattern.numpy()[:, index, :, at] * places.keys[:, None, None]).sum(axis=3)
    before = _said(run, model, places, [])
    layers, heads = range(pattern.shape[0]), range(pattern.shape[2])
    every = [(layer, head) for layer in layers for head in heads]
    rows = []
    for name, blind in [*((f"L{n}H{h}", [(n, h)]) for n, h in every), (ALL, every)]:
        weights = np.mean([paid[:, layer, head] for layer, head in blind], axis=0)
        moved, other = (
            _divergence(before, _said(run, model, some, blind)) for some in (places, others)
        )
        row: dict[str, object] = {"head": name, "choice": float(weights[::2].mean())}
        for names, values in (
            (("attention", "low", "high"), weights),
            (("effect", "effect_low", "effect_high"), moved),
            (("beyond", "beyond_low", "beyond_high"), moved - other),
        ):
            row |= dict(zip(names, map(float, bootstrap_mean(values[1::2])), strict=True))
        rows.append(row | {"even": float(even[1::2].mean()), "places": len(weights[1::2])})
    return rows


def _divergence(
    before: Float[np.ndarray, "word d_vocab"], after: Float[np.ndarray, "word d_vocab"]
) -> Float[np.ndarray, " word"]:
    """KL(before || after) in nats, of log-probabilities; both are -inf at tokens like BOS."""
    gap = np.subtract(before, after, out=np.zeros_like(before), where=before > -np.inf)
    return np.asarray((np.exp(before) * gap).sum(axis=1))


@torch.no_grad()
def _said(
    run: Run, model: LanguageModel, places: _Places, blind: Sequence[tuple[int, int]]
) -> Float[np.ndarray, "word d_vocab"]:
    """The log-probabilities of the next token at each place, if some heads cannot look."""
    rows, at = torch.arange(len(places.at)), torch.as_tensor(places.at)
    hooks = _blindly(at, torch.as_tensor(places.keys), blind)
    logits = model.run_with_hooks(torch.as_tensor(places.words.tokens), fwd_hooks=hooks)[rows, at]
    return run.objective.log_probabilities(logits.double(), model.vocabulary).numpy()


def _blindly(
    at: Int[Tensor, " word"], keys: Bool[Tensor, "word pos"], blind: Sequence[tuple[int, int]]
) -> list[tuple[str | Callable[..., Any], Callable[..., Any]]]:
    """Hooks with which some heads cannot look at some keys from a place: what they see of others
    grows in proportion."""
    rows = torch.arange(len(at))

    def hide(pattern: Tensor, hook: object, heads: list[int]) -> Tensor:
        pattern = pattern.clone()
        for head in heads:
            kept = pattern[rows, head, at].masked_fill(keys, 0.0)
            pattern[rows, head, at] = kept / kept.sum(dim=-1, keepdim=True).clamp_min(1e-12)
        return pattern

    heads = {layer: [head for other, head in blind if other == layer] for layer, _ in blind}
    return [(f"blocks.{n}.attn.hook_pattern", partial(hide, heads=heads[n])) for n in heads]


@torch.no_grad()
def on_word(model: LanguageModel, word: Word) -> pd.DataFrame:
    """The looks of every head on a word, and what hangs on each of them.

    Returns:
        One row per head, symbol that is read, and key that it may look at: layer, head, part,
        query, key (positions; BOS is 0), attention (0 to 1), moved (what END's logit, where the
        verdict is read, loses if this head cannot look there from this symbol: above 0 the look
        speaks for the word).
    """
    tokens = torch.as_tensor(model.vocabulary.words([word]).tokens)
    at_end = model.verdict_positions(torch.tensor([len(word)]))
    before, tables = model(tokens)[0, at_end, END_ID], []
    for head, table in patterns(model, tokens).groupby(["layer", "head"]):
        at, keys = torch.tensor(table[["query", "key"]].to_numpy().T)
        hooks = _blindly(at, torch.nn.functional.one_hot(keys, tokens.shape[1]).bool(), [head])
        logits = model.run_with_hooks(tokens.expand(len(at), -1), fwd_hooks=hooks)
        moved = (before - logits[:, at_end, END_ID].flatten()).numpy()
        tables.append(table.assign(part="L{}H{}".format(*head), moved=moved))
    return pd.concat(tables, ignore_index=True)


def _decides(run: Run, places: _Places) -> float:
    """The share of the places in which one of the symbols that are looked at decides.

    It decides if some other symbol could stand there, and another set of tokens might then follow
    the symbol that looks.
    """
    language = run.language
    assert isinstance(language, FormalLanguage)
    size, decided = len(language.vocabulary.symbols), np.zeros(len(places.at), dtype=bool)
    for row, at in enumerate(places.at.tolist()):
        prefix = places.words.ids[row, :at]
        where = np.flatnonzero(places.keys[row]) - 1
        changed = np.repeat(prefix[None], len(where) * size, axis=0)
        changed[np.arange(len(changed)), np.repeat(where, size)] = np.tile(
            np.arange(size) + FIRST_SYMBOL_ID, len(where)
        )
        words = Words(np.vstack([prefix[None], changed]), np.full(len(changed) + 1, at))
        after = language.allowed(words)[:, at]
        decided[row] = (after.any(axis=1) & (after != after[0]).any(axis=1)).any()
    return float(decided.mean())


def _claims(table: pd.DataFrame) -> list[Claim]:
    """The attention of the head that half of the places choose, beside even attention and the
    untrained network's own such head; and what it matters, beside as many other symbols."""
    best, other = (_most(table, model) for model in ("trained", "untrained"))
    (together,) = table[(table["model"] == "trained") & (table["head"] == ALL)].to_dict("records")
    moves, all_move = (
        f"{row['effect']:.3f}{brackets(row['effect_low'], row['effect_high'], '.3f')}"
        for row in (best, together)
    )
    how = "places, which did not choose the head", "bootstrap over places"
    return [
        Claim(
            f"{best['head']} pays these symbols {{}} of its attention",
            *measured(best, "attention", "low", "high", "places"),
            *how,
            {"even attention": best["even"], "the untrained network's head": other["attention"]},
            ".0%",
            notes=[
                "In the language, these symbols decide what may follow in "
                f"{best['decides']:.0%} of the places."
            ],
        ),
        Claim(
            f"Where {best['head']} cannot look there, the next token's distribution moves by {{}} "
            "nats more than where it cannot look at as many others",
            *measured(best, "beyond", "beyond_low", "beyond_high", "places"),
            *how,
            {"what counts": 0.001, "the untrained network's head": other["beyond"]},
            ".3f",
            notes=[f"It moves by {moves}; if no head can look there, by {all_move}."],
        ),
    ]


def _most(table: pd.DataFrame, model: str) -> pd.Series:
    """The head that looks there most, on the places that choose."""
    heads = table[(table["model"] == model) & (table["head"] != ALL)]
    return heads.loc[heads["choice"].idxmax()]


def _chart(table: pd.DataFrame) -> ChartType:
    """Two panels by head: the attention that goes there, and what is changed if it cannot."""

    def drawn(name: str, low: str, high: str, title: str) -> ChartType:
        return points(
            table,
            alt.X(f"{name}:Q", title=title),
            alt.Y("head:N", title=None, sort=table["head"].unique().tolist()),
            ["model", "head", *figures(name, low, high, "even"), "places"],
            by_model(),
            (low, high),
            step=10,
            yOffset=alt.YOffset("model:N"),
        ).properties(width=220)

    return alt.hconcat(
        drawn("attention", "low", "high", "share of attention"),
        drawn("effect", "effect_low", "effect_high", "effect if it cannot look (nats)"),
    )


def _headline(table: pd.DataFrame) -> pd.DataFrame:
    """Numbers that are compared over seeds: of the head that looks there most, and of all."""
    rows = []
    for model, heads in table.groupby("model", sort=False):
        best = _most(table, str(model))
        together = heads[heads["head"] == ALL].iloc[0]
        rows.append(("attention of the head that looks most", str(model), best["attention"]))
        rows.append(("effect of the head that looks most", str(model), best["effect"]))
        rows.append(("effect of all heads", str(model), together["effect"]))
    return numbers(rows)


QUESTION = of_table(
    "looks",
    Options,
    _looks,
    _claims,
    _headline,
    _chart,
    lambda table: table.drop(columns=["choice", "decides"]),
    needs=("language", "heads", "one side", "causal", "next symbols"),
)
