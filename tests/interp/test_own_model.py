"""docs/own_model.py runs as an outsider runs it: with interp alone, each lens in ten lines."""

from __future__ import annotations

import ast
import re
import runpy
import sys
from pathlib import Path

import pytest

SCRIPT = Path(__file__).parents[2] / "docs" / "own_model.py"
LENSES = ("patching", "circuit", "probing", "lime_against_shap", "das")
ROOMS = {"models", "interp", "analyses", "dashboard"}


def test_it_takes_interp_alone() -> None:
    """Imports of the script: none of another room. ``test_floors`` holds the same of interp."""
    nodes = [*ast.walk(ast.parse(SCRIPT.read_text(encoding="utf-8")))]
    names = [node.module or "" for node in nodes if isinstance(node, ast.ImportFrom)]
    names += [alias.name for node in nodes if isinstance(node, ast.Import) for alias in node.names]
    assert {name.split(".")[0] for name in names} & ROOMS == {"interp"}


@pytest.mark.slow
def test_every_lens_finds_the_truth(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    picture = tmp_path / "patching.svg"
    monkeypatch.setattr(sys, "argv", [str(SCRIPT), str(picture)])
    runpy.run_path(str(SCRIPT), run_name="__main__")
    printed = capsys.readouterr().out
    assert "<svg" in picture.read_text(encoding="utf-8")
    said = dict(part.split(":", 1) for part in printed.split("\n\n")[1:-1])
    assert tuple(said) == LENSES

    def number(lens: str, row: str, column: int) -> float:
        line = next(line for line in said[lens].splitlines() if line.split()[:1] == [row])
        return float(line.split()[column])

    assert "100% of 500 new words right" in printed
    assert number("patching", "resid_pre", 3) > 0.8
    (faithful,) = re.findall(r"of 46 edges are (\S+) faithful on other pairs", said["circuit"])
    assert float(faithful) > 0.8
    assert number("probing", "a", 5) > 0.95
    for method in ("LIME", "SHAP"):
        assert f"{method} " in said["lime_against_shap"]
    trained, untrained = (number("das", "DAS", column) for column in (2, 3))
    assert trained > 0.9
    assert untrained < 0.5


def test_each_lens_takes_ten_lines_at_most() -> None:
    tree = ast.parse(SCRIPT.read_text(encoding="utf-8"))
    functions = {node.name: node for node in tree.body if isinstance(node, ast.FunctionDef)}
    for name in LENSES:
        asked, *body = functions[name].body  # the docstring is the question
        assert ast.get_docstring(functions[name])
        assert body[-1].end_lineno - asked.end_lineno <= 10, name
