"""The glossary, from its one source: the site's page, the dashboard's page, and tooltips."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from analyses.charts.leaderboard import MEANINGS

SOURCE = Path(__file__).with_name("glossary.md")
MEASURES = "Measures of explanations"
SHORT = 220
"""The most characters of a tooltip, if its first sentence is not longer."""


@dataclass(frozen=True)
class Term:
    """A term of the glossary.

    Attributes:
        name: its name, as its headline has it.
        group: the part of the glossary in which it stands.
        meaning: Markdown; its links lead to other terms, or to pages of the site.
        everyday: it is no link where it stands in a sentence.
        also: other words under which a reader meets it.
    """

    name: str
    group: str
    meaning: str
    everyday: bool
    also: tuple[str, ...] = ()

    @property
    def anchor(self) -> str:
        """Its place on the page."""
        return re.sub(r"[^\w-]+", "-", self.name.lower()).strip("-")

    @property
    def short(self) -> str:
        """The first sentences without any Markdown, for a tooltip."""
        plain = re.sub(r"\[([^\]]+)\]\([^)]*\)|[*`]", r"\1", self.meaning)
        first, *others = re.split(r"(?<=[.!?)]) (?=[A-Z])", " ".join(plain.split()))
        for sentence in others:
            if len(first) + len(sentence) >= SHORT:
                break
            first += f" {sentence}"
        return first


@cache
def terms() -> dict[str, Term]:
    """Every term by its name."""
    by_name = {}
    for part in re.split(r"^## ", SOURCE.read_text(encoding="utf-8"), flags=re.MULTILINE)[1:]:
        group, *entries = re.split(r"^### ", part, flags=re.MULTILINE)
        for name, everyday, also, says in (ENTRY.findall(entry)[0] for entry in entries):
            others = tuple(also.split("; ")) if also else ()
            by_name[name] = Term(name, group.splitlines()[0], says.strip(), bool(everyday), others)
    names = {name.lower() for name in by_name}
    measures = ((name, says) for name, says in MEANINGS.items() if name.lower() not in names)
    costs = ("calls", "seconds")
    return by_name | {name: Term(name, MEASURES, says, name in costs) for name, says in measures}


ENTRY = re.compile(r"(.*)\n(?:<!-- (everyday)?(?:, )?(?:also: (.*))? -->\n)?((?s:.*))")
"""A term with its marks, and its meaning."""
PROTECTED = re.compile(r"(`[^`]*`|\[[^\]]*\]\([^)]*\)|\$[^$]*\$|<[^>]*>|:[a-z-]+\[[^\]]*\])")


def meaning(name: str) -> str | None:
    """The short meaning of a term, also by another of its names; None if there is no such term."""
    by_name = {key.lower(): term for key, term in terms().items()}
    others = {other: term for term in terms().values() for other in term.also}
    match = others.get(name) or by_name.get(name.lower())
    return match.short if match else None


def entries(selection: Iterable[Term]) -> str:
    """Terms with their whole meaning, as Markdown. Links to pages of the site are left out."""
    parts = (
        f"#### {term.name}\n\n" + re.sub(r"\[([^\]]+)\]\((?!#)[^)]*\)", r"\1", term.meaning)
        for term in selection
    )
    return "\n\n".join(parts)


def explained(markdown: str) -> str:
    """The same Markdown; the first mention of each term shows its meaning, and leads to it.

    Args:
        markdown: written by the lab; what a user gave has gone through ``dashboard.markup``.
    """
    met: set[str] = set()

    def link(match: re.Match[str]) -> str:
        term = _mentions()[match[0].lower()]
        everyday = term.name.isupper() and match[0].islower()  # "end" is no END
        if term.name in met or everyday:
            return match[0]
        met.add(term.name)
        title = term.short.replace('"', "'").replace("\\", "")
        return f'[{match[0]}](glossary#{term.anchor} "{title}")'

    parts = PROTECTED.split(markdown)
    return "".join(part if i % 2 else _mention().sub(link, part) for i, part in enumerate(parts))


@cache
def _mentions() -> dict[str, Term]:
    """Terms by every spelling in which they stand in a sentence, in small letters."""
    by_name = {name.lower(): term for name, term in terms().items() if not term.everyday}
    by_name |= {name + "es" * name.endswith("s"): term for name, term in by_name.items()}
    by_name |= {f"{name}s": term for name, term in by_name.items() if name[-1].isalpha()}
    return by_name | {other.lower(): term for term in terms().values() for other in term.also}


@cache
def _mention() -> re.Pattern[str]:
    longest = sorted(_mentions(), key=len, reverse=True)
    return re.compile(rf"(?<![\w/-])(?:{'|'.join(map(re.escape, longest))})(?![\w/-])", re.I)
