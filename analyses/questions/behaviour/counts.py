"""Counts of training words, as a control: what neighbouring symbols alone tell of a symbol."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable

import numpy as np
from jaxtyping import Bool, Float

from models.languages import BOS_ID, END_ID, Corpus, Words
from models.runs.run import Run
from models.training.batches import draw, steps_at_once

COUNTED = 4096
"""Training words that are counted; of a corpus all are."""
_OLDER = 2
"""The symbols before a place that a trigram knows."""

_Counted = Callable[[Words, Bool[np.ndarray, "word pos"]], Float[np.ndarray, "word pos d_vocab"]]
"""Log-probabilities of the token at each place of words; -inf where nothing is asked."""


def _lines(run: Run) -> list[list[int]]:
    """Training words that are members, with BOS and END."""
    if isinstance(run.language, Corpus):
        parts = [run.language.lines[run.language.side("train")]]
    else:
        at_once = steps_at_once(run.config) * run.config.batch_size
        chunks = range(-(-COUNTED // at_once))
        parts = [draw(run.config, run.language, chunk)[0] for chunk in chunks]
    members = (words[np.flatnonzero(run.language.labels(words))] for words in parts)
    rows = (zip(words.ids.tolist(), words.lengths.tolist(), strict=True) for words in members)
    return [[BOS_ID, *ids[:length], END_ID] for part in rows for ids, length in part]


def before(run: Run) -> _Counted:
    """The trigram: how often each token came after the last two.

    As in ``HookedNGram``, p_k = (n(context, token) + p_{k-1}) / (n(context) + 1) for contexts of
    k = 0, 1, 2 tokens, and p_{-1} is 1 / d_vocab.
    """
    size = len(run.language.vocabulary)
    tables = [defaultdict[tuple[int, ...], Counter[int]](Counter) for _ in range(_OLDER + 1)]
    for line in _lines(run):
        padded = [BOS_ID] * (_OLDER - 1) + line
        for at in range(_OLDER, len(padded)):
            for k, table in enumerate(tables):
                table[tuple(padded[at - k : at])][padded[at]] += 1

    def counted(words: Words, places: Bool[np.ndarray, "word pos"]) -> np.ndarray:
        logprobs = np.full((*places.shape, size), -np.inf)
        padded = np.pad(words.tokens, ((0, 0), (_OLDER - 1, 0)), constant_values=BOS_ID)
        for row, at in zip(*np.nonzero(places), strict=True):
            context, p = padded[row, at : at + _OLDER].tolist(), np.full(size, 1 / size)
            for k, table in enumerate(tables):
                seen = table.get(tuple(context[_OLDER - k :]), Counter[int]())
                p[list(seen)] += list(seen.values())
                p /= seen.total() + 1
            logprobs[row, at] = np.log(p)
        return logprobs

    return counted


def between(run: Run) -> _Counted:
    """Counts of each symbol between those before and after it: the log of
    (n(left, x, right) + p(x | left)) / (n(left, right) + 1), and p(x | left) in the same way."""
    size = len(run.language.vocabulary)
    both = defaultdict[tuple[int, int], Counter[int]](Counter)
    left = defaultdict[int, Counter[int]](Counter)
    alone = np.ones(size)
    alone[[BOS_ID, END_ID]] = 0.0
    for line in _lines(run):
        for one, symbol, other in zip(line, line[1:], line[2:], strict=False):
            both[one, other][symbol] += 1
            left[one][symbol] += 1
            alone[symbol] += 1
    alone /= alone.sum()

    def counted(words: Words, places: Bool[np.ndarray, "word pos"]) -> np.ndarray:
        logprobs = np.full((*places.shape, size), -np.inf)
        tokens = np.pad(words.tokens, ((0, 0), (0, 1)), constant_values=END_ID)
        for row, at in zip(*np.nonzero(places), strict=True):
            one, other, p = int(tokens[row, at - 1]), int(tokens[row, at + 1]), alone.copy()
            for seen in (left.get(one, Counter[int]()), both.get((one, other), Counter[int]())):
                p[list(seen)] += list(seen.values())
                p /= seen.total() + 1
            logprobs[row, at] = np.log(p, out=np.full(size, -np.inf), where=p > 0)
        return logprobs

    return counted
