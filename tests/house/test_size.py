"""Lines of code and public names of each room: they may only go down.

A line of code holds something that is neither blank, comment nor docstring.
"""

from __future__ import annotations

import ast
import io
import tokenize
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
MOST_LINES = {"models": 13_663, "interp": 9_297, "analyses": 23_772, "dashboard": 4_998}
MOST_NAMES = 1_544
"""Functions and classes of all rooms. Whoever makes them fewer writes the new numbers here."""
SILENT = {
    *(tokenize.COMMENT, tokenize.NL, tokenize.NEWLINE, tokenize.INDENT, tokenize.DEDENT),
    *(tokenize.ENCODING, tokenize.ENDMARKER),
}
"""Tokens that are no code."""


def lines_of_code(source: str) -> int:
    """The number of lines that are neither blank, comment nor docstring."""
    docstrings = {
        line
        for node in ast.walk(ast.parse(source))
        if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant)
        if isinstance(node.value.value, str)
        for line in range(node.lineno, (node.end_lineno or node.lineno) + 1)
    }
    code = {
        line
        for token in tokenize.generate_tokens(io.StringIO(source).readline)
        if token.type not in SILENT
        for line in range(token.start[0], token.end[0] + 1)
    }
    return len(code - docstrings)


def public_names(source: str) -> list[str]:
    """The functions and classes of a module whose names begin with no underscore."""
    kinds = (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)
    named = (node.name for node in ast.parse(source).body if isinstance(node, kinds))
    return [name for name in named if not name.startswith("_")]


def sources(room: str) -> list[str]:
    """The text of each Python file of a room."""
    return [path.read_text(encoding="utf-8") for path in sorted((ROOT / room).rglob("*.py"))]


@pytest.mark.parametrize("room", MOST_LINES)
def test_a_room_does_not_grow(room: str) -> None:
    lines = sum(map(lines_of_code, sources(room)))
    print(f"{room}: {lines:,} lines of code of at most {MOST_LINES[room]:,}")
    assert lines <= MOST_LINES[room]


def test_there_are_no_more_names_to_know() -> None:
    names = sum(len(public_names(text)) for room in MOST_LINES for text in sources(room))
    print(f"{names:,} public names of at most {MOST_NAMES:,}")
    assert names <= MOST_NAMES


def test_what_counts() -> None:
    source = '''"""A docstring
of two lines."""

import os  # a comment beside code

LIMIT: int = 3
"""What it is."""
_hidden = f"""a text
of two lines"""


# a comment
def shown(
    x: int,
) -> int:
    """A docstring."""
    return x


class Box:
    size = 1

    def open(self) -> str:
        return "open"


def _lock() -> None: ...
'''
    assert lines_of_code(source) == 1 + 1 + 2 + 4 + 2 + 2 + 1
    assert public_names(source) == ["shown", "Box"]
