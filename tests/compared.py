"""What was said once is compared with what is said now: words in their order, numbers nearly."""

from __future__ import annotations

import math
import re


def differs(expected: str, said: str) -> str:
    """Which words of what is expected were not said, in their order; "..." stands for any words.

    Numbers may differ by a quarter, or by 0.1. Lines of tables and blanks do not count.
    """
    words = said.replace("─", " ").split()
    parts = [part.split() for part in re.split(r"(?:^|(?<=\s))\.\.\.(?=\s|$)", expected)]
    at = 0
    for index, part in enumerate(parts):
        last = len(words) - len(part)
        starts = range(at, last + 1) if index else range(min(1, last + 1))
        if index and index == len(parts) - 1:
            starts = range(max(at, last), last + 1)
        fits = (n for n in starts if all(map(alike, part, words[n:])))
        start = next(fits, None)
        if start is None:
            return " ".join(part) or "nothing more"
        at = start + len(part)
    return "" if len(parts) > 1 or at == len(words) else " ".join(words[at:])


NUMBER = re.compile(r"(?<![\w.])-?\d+(?:\.\d+)?")


def alike(expected: str, said: str) -> bool:
    """Is it the same word, but for what a number may differ?"""
    if NUMBER.sub("#", expected) != NUMBER.sub("#", said):
        return False
    pairs = zip(NUMBER.findall(expected), NUMBER.findall(said), strict=True)
    return all(math.isclose(float(a), float(b), rel_tol=0.25, abs_tol=0.1) for a, b in pairs)


def plainly(markdown: str) -> str:
    """What a reader sees of escaped Markdown, and of links to the glossary."""
    shown = re.sub(r"\[([^\]]+)\]\(glossary#[^)\"]*\"[^\"]*\"\)", r"\1", markdown)
    return re.sub(r"\\(?=[^\w\s])|\u2060", "", shown)
