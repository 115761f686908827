"""A user's own labelled lines: read, bounded, and made fit to learn from."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable
from pathlib import Path

import numpy as np

from analyses.options.lines import OTHERS, WORDS
from models.errors import UserError
from models.languages import Word, read_lines
from models.languages.corpus import MERGED, is_merged
from models.plain_files import one_form

MOST_LINES, LONGEST = 100_000, 200
COMMON, BEYOND_DOUBT = 0.005, 4.5
"""A word is common if it is in this share of the lines. It tells the labels apart beyond doubt if
the labels' shares of lines with it differ by this many standard errors."""
FEWEST = 20
"""The fewest lines to learn from: of fewer, none could be set apart for a test."""


def prepared(
    path: Path, accepted: str | None = None, most: int = WORDS
) -> tuple[list[str], list[Word], list[str]]:
    """The labels and words to learn from, the accepted label first; and sentences on what changed.

    Args:
        path: a file of labelled lines.
        accepted: the label that comes first, by default that of the first line. If it is given, all
            others are held against it as one: there are two labels then.
        most: the most different words that are told apart.

    Raises:
        UserError: as ``read_lines``; a file, a number of lines or a line beyond the bounds; one
            label alone; too few lines.
    """
    labels, words, shape, _ = read_lines(path, LONGEST)
    if len(words) > MOST_LINES:
        raise UserError(f"{path} has {len(words)} lines: draw {MOST_LINES} of them at most")
    names = list(dict.fromkeys(labels))
    if accepted is not None and (accepted := one_form(accepted)) not in names:
        raise UserError(f"no line is labelled {accepted!r}: choose from {', '.join(names)}")
    if len(names) < 2:
        raise UserError(
            f"{path}: all lines have the label {names[0]}: a rule tells two apart, so add others"
            if names
            else f"{path} has no line: write label, tab, words"
        )
    first, notes = accepted or names[0], [shape] if shape else []
    if accepted and len(names) > 2:
        labels = [label if label == accepted else f"not {accepted}" for label in labels]
        notes.append(f"{accepted} is held against the other {len(names) - 1} labels together")
    labels, words = _once(labels, words, notes)
    words = _fewer_words(words, np.array(labels) == first, notes, most)
    if len(words) < FEWEST or len(set(labels)) < 2:
        why = f" ({'; '.join(notes)})" if notes else ""
        raise UserError(
            f"{path}: {len(words)} different lines of {len(set(labels))} label(s){why}: "
            f"at least {FEWEST} lines, of two labels or more, are needed"
        )
    order = sorted(range(len(words)), key=lambda i: labels[i] != first)
    return [labels[i] for i in order], [words[i] for i in order], notes


def _fewer_words(
    words: list[Word], labels: np.ndarray, notes: list[str], most: int = WORDS
) -> list[Word]:
    """The lines with so many different words at most; unchanged where there are no more.

    The words that tell the labels apart best are kept. How well a word does so is measured by how
    far the two labels' shares of lines with it differ, in standard errors. A word in few lines is
    kept only if it does so beyond doubt.
    """
    present = Counter(word for line in words for word in set(line))
    if len(present) <= most:
        return words
    if taken := sorted(filter(is_merged, present)):
        raise UserError(
            f"the lines have the word {taken[0]}, which stands for several words here: write it in "
            "another way"
        )
    inside = Counter(w for line, yes in zip(words, labels, strict=True) if yes for w in set(line))
    total, yes = len(words), int(labels.sum())

    def apart(word: str) -> float:
        share = present[word] / total
        spread = float(np.sqrt(yes * (total - yes) / total * share * (1 - share))) or 1.0
        return abs(inside[word] - yes * share) / spread

    telling = {word: apart(word) for word in present}
    pool = [w for w in present if present[w] >= COMMON * total or telling[w] >= BEYOND_DOUBT]
    kept = set(sorted(pool, key=lambda w: (-telling[w], -present[w], w))[: most - OTHERS])
    others = sorted(set(present) - kept)
    read = {word: f"{MERGED}{index % OTHERS + 1}" for index, word in enumerate(others)}
    merged = [tuple(read.get(word, word) for word in line) for line in words]
    alike = defaultdict(list)
    for line, label in zip(merged, labels.tolist(), strict=True):
        alike[line].append(label)
    sizes = [len(group) for group in alike.values() if len(group) > 1]
    torn = sum(len(group) for group in alike.values() if len(set(group)) > 1)
    notes.append(
        f"the lines have {len(present)} different words: {len(kept)} that are common and tell the "
        f"labels apart best are kept, all others are read as {OTHERS} words, {MERGED}1 to "
        f"{MERGED}{OTHERS}"
        + (f"; {sum(sizes)} lines then read like another line" if sizes else "")
        + (f", {torn} of them like lines of both labels" if torn else "")
    )
    return merged


def in_words(symbols: Iterable[str]) -> list[str]:
    """The symbols that a person can read: words, not groups of words that are not told apart."""
    groups = {f"{MERGED}{index + 1}" for index in range(OTHERS)}
    return [symbol for symbol in symbols if symbol not in groups]


def _once(labels: list[str], words: list[Word], notes: list[str]) -> tuple[list[str], list[Word]]:
    """Each different line once, with the label that it has more often. A line that has both equally
    often is left out. Lines whose rare words are merged already need not be the same: all are
    kept.
    """
    votes: dict[tuple[Word, int], Counter[str]] = {}
    for row, (label, line) in enumerate(zip(labels, words, strict=True)):
        key = line, row if any(map(is_merged, line)) else -1
        votes.setdefault(key, Counter())[label] += 1
    if again := len(words) - len(votes):
        notes.append(
            f"{again} of {len(words)} lines repeat another line; {len(votes)} are different"
        )
    both = [key for key, count in votes.items() if len(count) > 1]
    ties = {key for key in both if len(set(votes[key].values())) == 1}
    if both:
        notes.append(
            f"{len(both)} lines have both labels: the commoner label is kept, and {len(ties)} that "
            "have both equally often are left out"
        )
    kept = [key for key in votes if key not in ties]
    return [votes[key].most_common(1)[0][0] for key in kept], [line for line, _ in kept]


def as_tsv(labels: Iterable[str], words: Iterable[Word]) -> str:
    """Lines as a file holds them."""
    rows = zip(labels, words, strict=True)
    return "label\tline\n" + "".join(f"{label}\t{' '.join(line)}\n" for label, line in rows)
