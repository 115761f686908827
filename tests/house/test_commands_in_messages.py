"""Every command that a message, a help text or a docstring names exists, and so do its options.

They are read from the source: what stands in backticks, and each call of ``lab``, which writes
commands. A value that is known only later is left open.
"""

from __future__ import annotations

import ast
import re
import shlex
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest

from analyses.command_line.app import COMMANDS
from analyses.command_line.arguments import SHOWN, SHOWN_OF, STUDIES, TAKES, read
from analyses.console import option_values
from analyses.options.commands import Finetune, Train
from analyses.options.lines import OfAutomaton, OfNetwork
from analyses.options.shared import Asks
from analyses.registry import BUILT_IN, options_of
from models.errors import UserError
from models.training.recipes import recipe

ROOT = Path(__file__).parents[2]
FILES = [
    path
    for room in ("models", "interp", "analyses", "dashboard")
    for path in ROOT.glob(f"{room}/**/*.py")
]
OPEN = "OPEN"
"""In place of a value that the source does not tell."""
NAMED = re.compile(r"[`\"]lab ([a-z][^`\"]*)[`\"]")


def named(tree: ast.AST) -> Iterator[tuple[int, str]]:
    """The commands in the strings of a file, each with its line."""
    parts = {
        id(part)
        for node in ast.walk(tree)
        if isinstance(node, ast.JoinedStr)
        for part in node.values
    }
    for node in ast.walk(tree):
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "lab":
            yield node.lineno, called(node)
        elif isinstance(node, ast.JoinedStr) or (
            isinstance(node, ast.Constant) and id(node) not in parts
        ):
            for found in NAMED.findall(text_of(node)):
                yield node.lineno, found


def text_of(node: ast.expr) -> str:
    """A string as it will be; what is put into it later is open."""
    if isinstance(node, ast.JoinedStr):
        return "".join(map(text_of, node.values))
    return node.value if isinstance(node, ast.Constant) and isinstance(node.value, str) else OPEN


def called(call: ast.Call) -> str:
    """The command that a call of ``lab`` writes."""
    words = [text_of(each) for each in call.args]
    for option in call.keywords:
        if option.arg is not None:  # else it is ** of what is known only later
            words.append(f"--{option.arg.replace('_', '-')}")
    return " ".join(words)


@cache
def options(command: str, question: str) -> set[str]:
    """The options that a command takes.

    Args:
        question: of `analyse`; else what else decides: the study of `sweep`, or what is shown.
    """
    others = STUDIES | SHOWN | SHOWN_OF
    if question in others:
        return {*option_values(others[question])}
    if command == "train":
        return {*option_values(Train, Train(recipe("anbn")))}
    if command == "finetune":
        return {*option_values(Finetune, Finetune(recipe("anbn"), start=Path()))}
    if command == "rule":
        return {
            name for kind in (TAKES["rule"], OfNetwork, OfAutomaton) for name in option_values(kind)
        }
    if command == "analyse":
        own = option_values(options_of(question)) if question in BUILT_IN else {}
        return {*option_values(Asks), *own}
    return {*option_values(TAKES[command])}


def check(said: str) -> None:
    """Fails if there is no such command, or if it has no such option."""
    name, *words = shlex.split(said)
    if name == OPEN:
        return
    assert name in COMMANDS, f"there is no command {name}"
    asked = {word.split("=")[0] for word in words if word.startswith("--")} - {"--help"}
    question = words[1] if name == "analyse" and words[1:] else ""
    if name in ("sweep", "show"):
        others = [word for word in words[:2] if word in STUDIES | SHOWN | SHOWN_OF]
        question = others[0] if others else ""
    if asked:
        assert asked <= options(name, question), (
            f"lab {name} has no {asked - options(name, question)}"
        )
    open_ones = any(word == "..." or re.search("[A-Z]", word) for word in words)
    if words and not (open_ones or (asked and words[-1] in asked)):
        read(name, words)


def test_commands_that_the_source_names_exist() -> None:
    faults, count = list[str](), 0
    for path in FILES:
        for line, said in named(ast.parse(path.read_text(encoding="utf-8"))):
            count += 1
            try:
                check(said)
            except (AssertionError, ValueError, UserError) as fault:
                faults.append(f"{path.relative_to(ROOT)}:{line}: lab {said}: {fault}")
    assert not faults, "\n".join(faults)
    assert count > 80


def test_a_wrong_one_is_found() -> None:
    right = "raise UserError(f'no run: `lab train anbn --steps {n}` or `lab rule --model DIR`')"
    assert [said for _, said in named(ast.parse(right))] == [
        "train anbn --steps OPEN",
        "rule --model DIR",
    ]
    assert [*named(ast.parse("lab('seeds', run.path, name, csv=True)"))] == [
        (1, "seeds OPEN OPEN --csv")
    ]
    for wrong in (
        "trian anbn",
        "train anbn --stepz OPEN",
        "seeds OPEN --again-and-again",
        "rule 'a",
    ):
        with pytest.raises((AssertionError, ValueError)):
            check(wrong)
    for well in ("train anbn --steps OPEN", "analyse OPEN patching --word OPEN", "resume OPEN"):
        check(well)
