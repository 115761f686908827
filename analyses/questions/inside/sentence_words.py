"""The words that are asked about as wholes, and what is true of each."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from jaxtyping import Bool

from analyses.words import ANALYSIS_SEED
from interp.probing.probes import Target
from models.errors import UserError
from models.languages import BORDER, FIRST_SYMBOL_ID, Language, Transduction, Words
from models.runs.run import Run

MOST_SYMBOLS = 4
"""Symbols whose counts are asked for: those whose count differs most from word to word."""
DRAWN = 8
"""Words that are drawn for each that is wanted: equal ones count once."""
LEAST = 40
"""The fewest different words that are asked about."""


@dataclass(frozen=True)
class Asked:
    """Different words, and what is true of each.

    Attributes:
        words: half of them in the language, the others near misses, as far as there are; for a
            model of two sides sources with their borders, with which pairs begin, and for a tagger
            without them.
        facts: the values by name, [word, 1].
        fit: the words that fit probes and queries: half of them.
        choose: the words that choose the site: a quarter. The others are scored.
    """

    words: Words
    facts: dict[str, Target]
    fit: Bool[np.ndarray, " word"]
    choose: Bool[np.ndarray, " word"]


def asked_of(run: Run, count: int, seed: int) -> Asked:
    """Words of the training window, and what is true of them.

    Raises:
        UserError: the language has too few different words.
    """
    language = run.language
    sides = run.config.model.family.two_sided or run.objective.tags  # both read the source alone
    rng = np.random.default_rng([ANALYSIS_SEED, seed])
    window = language.lengths(run.config.max_n)
    label = True if sides else None
    try:
        sample = language.sample(rng, DRAWN * count, window, label, "test", hard=not sides)
    except LookupError as error:  # a corpus may have kept no such line for tests
        raise UserError(f"{error}: ask a run on another language") from None
    words = sample.words
    if sides:
        border = words.ids == language.vocabulary.border()
        words = Words.of_rows(words.ids, border.argmax(axis=1) + 1)
    _, first = np.unique(words.ids, axis=0, return_index=True)
    first = rng.permutation(first)
    kinds = [first[sample.labels[first] == kind] for kind in (True, False)]
    half = max(count // 2, count - len(kinds[1]))
    rows = np.concatenate([kinds[0][:half], kinds[1]])[:count]
    if len(rows) < LEAST:
        raise UserError(
            f"{language.name} has {len(rows)} different words in the training window of "
            f"{run.name}, too few for probes: ask a run with a longer window, or another language"
        )
    rows = rng.permutation(rows)
    place = np.arange(len(rows))
    truth = _facts(language, words[rows], None if sides else sample.labels[rows])
    words = words[rows]
    if run.objective.tags:  # its border is not seen, and stands past the word
        words = Words.of_rows(words.ids, words.lengths - 1)
    return Asked(words, truth, place % 2 == 0, place % 4 == 1)


def _facts(
    language: Language, words: Words, labels: Bool[np.ndarray, " word"] | None
) -> dict[str, Target]:
    """The facts about whole words: the length, how often the symbols occur whose counts differ
    most, the greatest value of each other count that the language keeps, up to its first violation,
    and membership.

    Args:
        labels: membership. None stands for the sources of pairs: their counts are those of the
            language of the sources, and membership is not asked.
    """
    ids = np.arange(FIRST_SYMBOL_ID, len(language.vocabulary))
    counts = ((words.ids[..., None] == ids) & words.mask[..., None]).sum(axis=1)
    often = np.sort(np.argsort(-counts.std(axis=0), kind="stable")[:MOST_SYMBOLS])
    symbols = language.vocabulary.symbols
    numbers = {"length": words.lengths - (labels is None)}
    numbers |= {f"count {symbols[i]}": counts[:, i] for i in often if symbols[i] != BORDER}
    if labels is None:
        words = Words.of_rows(words.ids, words.lengths - 1)
        language = language.source if isinstance(language, Transduction) else language
    kept = [n for n, kind in language.variables.items() if kind == "count"]
    kept = [name for name in kept if not name.startswith("count_")]
    if kept:
        traced = language.trace(words)
        inside = np.arange(words.ids.shape[1] + 1) <= words.lengths[:, None]
        inside &= traced["valid"] == 1
        inside[:, 0] = True
        least = np.iinfo(np.int64).min
        numbers |= {
            f"greatest {name}": np.where(inside, traced[name], least).max(axis=1) for name in kept
        }
    whole = np.ones((len(words), 1), dtype=bool)
    made = {name: Target(values[:, None], whole, "count") for name, values in numbers.items()}
    if labels is not None:
        made["membership"] = Target(labels.astype(np.int64)[:, None], whole, "category")
    return {name: fact for name, fact in made.items() if len(np.unique(fact.values)) > 1}
