"""Tokenisers of a language or a text: their cuts, and whether merges find the true words."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from itertools import accumulate, pairwise

import altair as alt
import numpy as np
import pandas as pd
from altair.typing import ChartType

from analyses.charts.marks import curve
from analyses.charts.theme import DASHES, QUIET, TRAINED, UNTRAINED, colours, figures
from models.errors import UserError
from models.languages import FormalLanguage, Language, Transduction
from models.languages.tokens.tokeniser import (
    BLANK,
    CHARACTERS,
    Text,
    Tokeniser,
    is_spelled,
    learnt,
    merges_of,
    texts_of,
)

Pair = tuple[str, str]
MEASURED = 200
"""Words of the language that are cut to measure; the merges are learned on more."""
DRAWS, SEED = 5, 0x3A9D
"""Random tokenisers, and the seed of their draws."""
PAIRS, WITHOUT = "byte pairs", "byte pairs, blanks not shown"
RANDOM, RANDOM_WITHOUT = "random pairs", "random pairs, blanks not shown"
MOST_SHOWN = 64
"""The most merges that the page offers."""


def tokeniser_of(source: Language | Text, vocabulary: str) -> Tokeniser:
    """The tokeniser of a language or of a text.

    Raises:
        UserError: the symbols are the tokens, or they are not cut; or so many merges are not there.
    """
    if not isinstance(source, FormalLanguage | Text) or isinstance(source, Transduction):
        raise UserError(f"{source.name} has pairs, which are not cut into tokens: choose another")
    if merges_of(vocabulary) is None:
        raise UserError(f"with {vocabulary} the symbols are the tokens: choose bpe:16, for example")
    return Tokeniser.learn(source, vocabulary)


def most_merges(source: Language | Text) -> int:
    """The number of merges that the words of a language or a text hold, ``MOST_SHOWN`` at most."""
    letters = set(Tokeniser.learn(source, CHARACTERS).tokens)
    model = learnt(texts_of(source, is_spelled(source)), letters, MOST_SHOWN)
    return model.get_vocab_size() - len(letters)


def merges(source: Language | Text, tokeniser: Tokeniser) -> pd.DataFrame:
    """The merges, in their order.

    Returns:
        One row per merge: merge (its number), left, right, token, count (how often left and right
        stood side by side in the texts when they were merged); and where symbols are words of
        several letters, word (whether the token is one of them).
    """
    words = {symbol + BLANK for symbol in source.vocabulary.symbols}
    counts: list[int] = []

    def counted(there: Counter[Pair]) -> Pair:
        pair = tokeniser.merges[len(counts)]
        counts.append(there[pair])
        return pair

    for _ in _course(texts_of(source, tokeniser.spelled), counted, len(tokeniser.merges)):
        pass
    table = pd.DataFrame(tokeniser.merges, columns=["left", "right"])
    table = table.assign(token=table["left"] + table["right"], count=counts)
    table.insert(0, "merge", range(1, len(table) + 1))
    return table.assign(word=table["token"].isin(words)) if tokeniser.spelled else table


def judged(source: Language | Text, tokeniser: Tokeniser) -> pd.DataFrame:
    """The effect of each number of merges, beside pairs that are merged at random.

    Blanks are not shown where a text is one row of letters. Merges may then go from word to word,
    and nothing but how often letters stand together tells where a word ends.

    Returns:
        One row per kind and number of merges (0, 1, 2, 4, ... and all): kind, merges, vocabulary
        (tokens in it, without BOS and END), tokens_a_symbol. Where symbols are words
        of several letters also words (the share of them that are one token), whole (the share of
        the merged tokens that are words), cuts (the share of the places where a text is cut that
        are between words), between (the share of the places between words where it is cut). For
        random pairs all numbers are means over ``DRAWS`` draws.
    """
    spelled, symbols = tokeniser.spelled, source.vocabulary.symbols
    count = len(tokeniser.merges)
    texts = texts_of(source, spelled)
    bare = [text.replace(BLANK, "").replace(" ", "") for text in texts]
    rng = np.random.default_rng(SEED)
    trials: list[tuple[str, list[str], Callable[[], Choice], int]] = [
        (PAIRS, texts, lambda: _in_order(tokeniser.merges), 1),
        (RANDOM, texts, lambda: _at_random(rng), DRAWS),
    ]
    if spelled:
        letters = set("".join(bare))
        alone = Tokeniser(learnt(bare, letters, count), spelled=False).merges
        trials += [
            (WITHOUT, bare, lambda: _in_order(alone), 1),
            (RANDOM_WITHOUT, bare, lambda: _at_random(rng), DRAWS),
        ]
    true = [[len(part.rstrip(BLANK)) for part in text.split()] for text in texts[:MEASURED]]
    stops = {0, count, *(2**k for k in range(count.bit_length()))}
    rows = []
    for kind, read, choice, draws in trials:
        shown = read is texts
        words = {symbol + BLANK * shown for symbol in symbols} if spelled else None
        size = len(set("".join(read)) - {" "})
        for _ in range(draws):
            for number, merged, cut in _course(read[:MEASURED], choice(), count):
                if number in stops:
                    sizes = {"kind": kind, "merges": number, "vocabulary": size + number}
                    rows.append(sizes | _measured(cut, merged, words, true, bare[:MEASURED]))
    table = pd.DataFrame(rows)
    return table.groupby(["kind", "merges"], sort=False).mean().reset_index()


Choice = Callable[[Counter[Pair]], Pair | None]
"""The pair that is merged next, from counts of pairs side by side; None ends the merging."""


def _in_order(pairs: Sequence[Pair]) -> Choice:
    """The given pairs, one after the other."""
    rest = iter(pairs)
    return lambda there: next(rest, None)


def _at_random(rng: np.random.Generator) -> Choice:
    """Any pair that stands side by side, each as likely."""

    def choose(there: Counter[Pair]) -> Pair | None:
        pairs = sorted(there)
        return pairs[int(rng.integers(len(pairs)))] if pairs else None

    return choose


def _course(
    texts: Sequence[str], choice: Choice, count: int
) -> Iterator[tuple[int, list[str], list[list[list[str]]]]]:
    """Merges one pair after the other, in the parts between blanks.

    Yields:
        The number of merges, the merged tokens, and each text as the tokens of its parts.
    """
    cuts: dict[str, list[str]] = {part: list(part) for text in texts for part in text.split()}
    often = Counter(part for text in texts for part in text.split())
    merged: list[str] = []
    for number in range(count + 1):
        yield number, merged, [[cuts[part] for part in text.split()] for text in texts]
        there: Counter[Pair] = Counter()
        for part, tokens in cuts.items():
            for pair in pairwise(tokens):
                there[pair] += often[part]
        if number == count or (pair_next := choice(there)) is None:
            return
        merged.append("".join(pair_next))
        cuts = {part: _merge(tokens, pair_next) for part, tokens in cuts.items()}


def _merge(tokens: Sequence[str], pair: Pair) -> list[str]:
    """The tokens with each occurrence of a pair made one, from the left."""
    merged: list[str] = []
    at = 0
    while at < len(tokens):
        both = tuple(tokens[at : at + 2]) == pair
        merged.append("".join(tokens[at : at + 1 + both]))
        at += 1 + both
    return merged


def _measured(
    cut: list[list[list[str]]],
    merged: list[str],
    words: set[str] | None,
    true: list[list[int]],
    bare: list[str],
) -> dict[str, float]:
    """The numbers of ``judged`` at one number of merges.

    Args:
        cut: the tokens of each part of each text.
        merged: the merged tokens.
        words: the words as tokens; None where symbols are letters.
        true: the letters of each word of each text.
        bare: the texts without blanks.
    """
    tokens = sum(len(part) for text in cut for part in text)
    if words is None:
        return {"tokens_a_symbol": tokens / sum(map(len, bare))}
    hits = cuts = places = 0
    for text, sizes in zip(cut, true, strict=True):
        letters = (len(token.replace(BLANK, "")) for part in text for token in part)
        ends = set(accumulate(letters)) - {0, sum(sizes)}
        between = set(accumulate(sizes)) - {sum(sizes)}
        hits, cuts, places = hits + len(ends & between), cuts + len(ends), places + len(between)
    return {
        "tokens_a_symbol": tokens / sum(map(len, true)),
        "words": sum(len(word) == 1 or word in merged for word in words) / len(words),
        "whole": len(words & set(merged)) / len(merged) if merged else float("nan"),
        "cuts": hits / cuts if cuts else float("nan"),
        "between": hits / places if places else float("nan"),
    }


def in_words(source: Language | Text, tokeniser: Tokeniser, table: pd.DataFrame) -> str:
    """The effect of the merges, in a few sentences."""
    last = table.groupby("kind").tail(1).set_index("kind")
    first = table.groupby("kind").first()
    unit = "word" if tokeniser.spelled else "symbol"
    count = len(tokeniser.merges)
    text = (
        f"{source.name}, {len(tokeniser.tokens)} tokens: {last['tokens_a_symbol'][PAIRS]:.2f} "
        f"tokens a {unit}"
    )
    if not count:
        return f"{text}."
    text += (
        f" after {count} merges; {first['tokens_a_symbol'][PAIRS]:.2f} without any, "
        f"{last['tokens_a_symbol'][RANDOM]:.2f} after merges of random pairs."
    )
    if not tokeniser.spelled:
        return text
    text += f" {last['words'][PAIRS]:.0%} of the words are one token ({last['words'][RANDOM]:.0%})."
    # One word has no places between words, and one token has no cuts.
    if last.loc[[WITHOUT, RANDOM_WITHOUT], ["cuts", "between"]].isna().any(axis=None):
        return text
    return (
        f"{text} Where blanks are not shown, {last['cuts'][WITHOUT]:.0%} "
        f"of the cuts are between words ({last['cuts'][RANDOM_WITHOUT]:.0%}; without merges "
        f"{first['cuts'][WITHOUT]:.0%}), and {last['between'][WITHOUT]:.0%} of the places between "
        f"words are cut ({last['between'][RANDOM_WITHOUT]:.0%})."
    )


def chart(table: pd.DataFrame, size: int | None = None) -> ChartType:
    """Tokens a symbol by the size of the vocabulary, beside random pairs.

    Args:
        size: size of a vocabulary that is marked.
    """
    learned = table["kind"].isin([PAIRS, WITHOUT])
    rows = table.assign(
        pairs=np.where(learned, PAIRS, RANDOM),
        blanks=np.where(table["kind"].isin([PAIRS, RANDOM]), "shown", "not shown"),
    )
    dashes = DASHES.copy()
    dashes.orient = "top"
    blanks = alt.StrokeDash("blanks:N", title="blanks", legend=dashes)
    picture = curve(
        rows,
        alt.X("vocabulary:Q", title="tokens in the vocabulary").scale(zero=False),
        alt.Y("tokens_a_symbol:Q", title="tokens a symbol"),
        ["kind", "merges", "vocabulary", *figures("tokens_a_symbol")],
        colours("pairs", [PAIRS, RANDOM], [TRAINED, UNTRAINED]),
        ends=None,
        strokeDash=blanks.scale(domain=["shown", "not shown"], range=[[1, 0], [5, 4]]),
    ).properties(width=520, height=260)
    if size is None:
        return picture
    mark = alt.Chart(pd.DataFrame({"vocabulary": [size]})).mark_rule(color=QUIET)
    return picture + mark.encode(x="vocabulary:Q")
