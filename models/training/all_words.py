"""The verdict on every word up to a length: nothing is drawn, so nothing can be missed."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from jaxtyping import Bool, Int
from torch import Tensor

from models.base import LanguageModel
from models.errors import UserError
from models.languages import END_ID, FIRST_SYMBOL_ID, Language, Words
from models.training.evaluation import verdicts
from models.training.trained_words import TrainedWords

EXAMPLES = 5
WRONG = ("false_accepts", "false_rejects")
AT_ONCE = 2**13  # words that are judged together
MOST_WORDS = 20_000_000
"""The most words that are asked for: of two symbols all to length 23, of three all to length 14."""


@dataclass(frozen=True)
class _Judged:
    """Words of one length, and what a model says of them.

    Attributes:
        words: the words, in lexicographic order.
        labels: whether each is in the language.
        verdicts: whether the model says that it is.
    """

    words: Words
    labels: Bool[np.ndarray, " words"]
    verdicts: Bool[np.ndarray, " words"]


def _how_many(symbols: int, longest: int) -> int:
    """The number of words of 1 to ``longest`` symbols."""
    return longest if symbols == 1 else symbols * (symbols**longest - 1) // (symbols - 1)


def affordable(symbols: int, most: int) -> int:
    """The largest length up to which there are at most so many words; 0 if none is."""
    if symbols == 1:
        return most
    longest, words = 0, symbols
    while words <= most:
        longest += 1
        words += symbols ** (longest + 1)
    return longest


def check_count(symbols: int, longest: int) -> None:
    """Raises UserError if there are more than ``MOST_WORDS`` words of 1 to ``longest`` symbols."""
    fits = affordable(symbols, MOST_WORDS)
    if longest > fits:
        raise UserError(
            f"there are more than {MOST_WORDS:,} words of 1 to {longest} symbols: choose a length "
            f"of at most {fits}"
        )


def _judge_all(model: LanguageModel, language: Language, longest: int) -> Iterator[_Judged]:
    """Judges every word of 1 to ``longest`` symbols, some thousand words at a time.

    A causal model reads only the words of the largest length: the verdict on a shorter word is
    read where it ends within them.

    Raises:
        UserError: there are more than ``MOST_WORDS`` words.
    """
    symbols = len(language.vocabulary.symbols)
    check_count(symbols, longest)
    if model.config.sees_ahead:
        for length in range(1, longest + 1):
            for some in _blocks(symbols, length):
                yield _judged(model, language, some)
        return
    for some in _blocks(symbols, longest):
        yield from _prefixes(model, language, some)


def _blocks(symbols: int, length: int) -> Iterator[Words]:
    """All words of a length in lexicographic order; a block is all that begin alike."""
    free = min(length, affordable(symbols, AT_ONCE))
    count, digits = symbols**free, symbols ** np.arange(length - 1, -1, -1, dtype=np.int64)
    for first in range(0, symbols**length, count):
        number = np.arange(first, first + count)[:, None]
        yield Words(number // digits % symbols + FIRST_SYMBOL_ID, np.full(count, length))


@torch.no_grad()
def _judged(model: LanguageModel, language: Language, words: Words) -> _Judged:
    logits = model(torch.as_tensor(words.tokens, device=model.device))
    return _Judged(words, language.labels(words), verdicts(model, logits, words))


def _prefixes(model: LanguageModel, language: Language, words: Words) -> Iterator[_Judged]:
    """The words of a block and their prefixes, but for those that an earlier block has."""
    labels = language.allowed(words)[..., END_ID]
    tokens = torch.as_tensor(words.tokens, device=model.device)
    pairs = _verdicts_on_prefixes(model, tokens)
    for length, (rows, answers) in enumerate(pairs):
        first = rows.cpu().numpy()
        # The block's first prefix is that of an earlier block too, unless it is the first word
        # that begins so: the one that goes on with the first symbol alone.
        if (words.ids[0, length:] != FIRST_SYMBOL_ID).any():
            first, answers = first[1:], answers[1:]
        if length == 0 or not len(first):
            continue
        prefixes = Words(words.ids[first, :length], np.full(len(first), length))
        yield _Judged(prefixes, labels[first, length], answers.cpu().numpy())


def _verdicts_on_prefixes(
    model: LanguageModel, tokens: Int[Tensor, "words pos"]
) -> Iterator[tuple[Int[Tensor, " prefixes"], Bool[Tensor, " prefixes"]]]:
    """The first word of every prefix, and the verdict on the prefix, position by position.

    It is the sign of ``LanguageModel.margins``, for which each prefix goes on from a shorter one.
    """
    words = torch.arange(len(tokens), device=tokens.device)
    least = torch.full_like(words, torch.inf, dtype=torch.get_default_dtype())
    for length, (rows, logits) in enumerate(model.prefix_logits(tokens)):
        end = logits[:, END_ID]
        if not model.softmax:
            yield rows, end > 0
            continue
        yield rows, end.minimum(least[rows]) > 0
        if length + 1 < tokens.shape[1]:
            prefix = torch.searchsorted(rows, words, right=True) - 1
            least = least.minimum(logits[prefix, tokens[:, length + 1]])


def count_all(
    models: Mapping[str, LanguageModel],
    language: Language,
    trained: TrainedWords,
    longest: int,
    progress: Callable[[int, int, str], None] = lambda done, of, what: None,
) -> dict[str, Any] | None:
    """The verdicts of each model on all words of 1 to ``longest`` symbols; None if that is 0.

    Returns:
        longest; by_length, a row per model and length: model, length, words, members,
        false_accepts (others that the model accepts), false_rejects (members that it rejects), and
        the same of the words that no training step drew, with "fresh_" before their names; examples
        of words that the trained model judges wrong, the shortest first.
    """
    if not longest:
        return None
    words_in_all = _how_many(len(language.vocabulary.symbols), longest)
    counts: dict[tuple[str, int], Counter[str]] = defaultdict(Counter)
    examples: dict[str, list[str]] = {kind: [] for kind in WRONG}
    judged = [_judge_all(m, language, longest) for m in models.values()]
    done = 0
    for blocks in zip(*judged, strict=True):
        words, labels = blocks[0].words, blocks[0].labels
        length, fresh = int(words.lengths[0]), ~trained.hold(words)
        for name, block in zip(models, blocks, strict=True):
            answers, count = block.verdicts, counts[name, length]
            for kind, rows in {
                "words": np.ones_like(labels),
                "members": labels,
                "false_accepts": answers & ~labels,
                "false_rejects": ~answers & labels,
            }.items():
                count[kind] += int(rows.sum())
                count[f"fresh_{kind}"] += int((rows & fresh).sum())
                if name == "trained" and kind in examples:
                    some = words.ids[rows][:EXAMPLES]
                    examples[kind] += [" ".join(language.vocabulary.decode(x)) for x in some]
        done += len(words)
        progress(done, words_in_all, f"all words of 1 to {longest} symbols")
    by_length = [
        {"model": name, "length": length, **counts[name, length]}
        for name in models
        for length in range(1, longest + 1)
    ]
    shortest = {
        kind: sorted(texts, key=lambda word: word.count(" "))[:EXAMPLES]
        for kind, texts in examples.items()
    }
    return {"longest": longest, "by_length": by_length, "examples": shortest}


def totals(every: Mapping[str, Any], model: str) -> Counter[str]:
    """The rows of one model in ``all_words``, added up over the lengths."""
    rows = [row for row in every["by_length"] if row["model"] == model]
    return Counter(
        {key: sum(row[key] for row in rows) for key in rows[0] if key not in ("model", "length")}
    )
