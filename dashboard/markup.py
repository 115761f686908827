"""The one place where text becomes Markdown, which Streamlit draws.

A typed word, a word or a label of a corpus, the name of a run, an error or a sentence of an answer
may hold anything: an image, which the browser would ask for; a link; a formula. Whatever a page
shows that it has not written itself goes through ``text``, ``code`` or ``message``.
"""

from __future__ import annotations

import re

import regex

from analyses import console

UNSEEN = regex.compile(rf"[\x00-\x1f\u2028\u2029\ud800-\udfff]|{console.UNSEEN.pattern}")
"""Control characters, marks that turn the direction of writing, letters that are not seen, halves
of surrogate pairs."""
SPECIAL = re.compile(r"(?<![A-Za-z0-9])_|_(?![A-Za-z0-9])|[\\`*~\[\]<>&$:!|#]")
FIRST = re.compile(r"^(\d*)([-+=]|(?<=\d)[.)](?=\s|$))")
"""Signs that begin a list or underline a headline, where a line begins."""
LATE = re.compile(
    r"(?<=:)(?=streamlit:|material/|//)|(?<=www)(?=\.)|(?<=@)"
    r"|(?<=\s[<>~-])(?=[=>-]{1,2}(?:\s|$))|(?<=^[<>~-])(?=[=>-]{1,2}(?:\s|$))",
    flags=re.IGNORECASE,
)
"""Places inside of what Streamlit replaces after it has read all escapes: icons, addresses, arrows.
"""
JOINER = "\u2060"
"""A character without width; it parts what would be replaced."""


def _visible(value: object) -> str:
    """The value as text, with a name such as ``\\u202e`` in place of what cannot be seen."""
    return UNSEEN.sub(lambda match: match[0].encode("unicode_escape").decode(), str(value))


def text(value: object) -> str:
    """Markdown that shows the value as it is."""
    spaced = re.sub(" {2,}", lambda match: "\xa0" * len(match[0]), _visible(value))
    parted = LATE.sub(JOINER, spaced)
    return FIRST.sub(r"\1\\\2", SPECIAL.sub(r"\\\g<0>", parted))


def code(value: object) -> str:
    """Markdown that shows the value as it is, in the letters of code."""
    shown = _visible(value).replace(":material/", f":{JOINER}material/")
    if not shown.strip(" "):
        return "` `"
    fence = "`" * (1 + max(map(len, re.findall("`+", shown)), default=0))
    pad = " " * (shown[0] in " `" or shown[-1] in " `")
    return f"{fence}{pad}{shown}{pad}{fence}"


def message(value: object) -> str:
    """Markdown of a sentence that the lab says. What stands between two backticks is code."""
    parts = str(value).split("`")
    if len(parts) % 2 == 0:
        return text(value)
    return "".join(code(part) if i % 2 else text(part) for i, part in enumerate(parts))


def formula(tex: str) -> str:
    """Mathematics that the lab has written itself; never what a user gave."""
    return f"${tex}$"
