"""Runs the notebooks anew and keeps them with their output.

    python docs/notebooks/run.py [NOTEBOOK ...]

It needs no Jupyter. A cell runs as there: what it prints is kept, then what its last line is, in
HTML or SVG where the value shows itself so.
"""

from __future__ import annotations

import ast
import contextlib
import copy
import hashlib
import io
import json
import sys
from pathlib import Path
from typing import Any

import altair as alt

HERE = Path(__file__).parent
WEIGHTS = "model_hash"
"""The metadata of a notebook name the weights that its numbers are about: those of ``model``. The
same seed may end elsewhere on another kind of processor."""


def executed(notebook: dict[str, Any]) -> dict[str, Any]:
    """A copy of the notebook with the output of now. Raises whatever a cell raises."""
    done = copy.deepcopy(notebook)
    names: dict[str, Any] = {"__name__": "__main__"}
    cells = [cell for cell in done["cells"] if cell["cell_type"] == "code"]
    with alt.renderers.enable(alt.renderers.active):  # a cell may choose another one
        for count, cell in enumerate(cells, start=1):
            cell["execution_count"] = count
            cell["outputs"] = outputs("".join(cell["source"]), count, names)
    done["metadata"][WEIGHTS] = digest(names["model"])
    return done


def outputs(code: str, count: int, names: dict[str, Any]) -> list[dict[str, Any]]:
    """The text that a cell prints, and the value of its last line."""
    where, tree = f"cell {count}", ast.parse(code)
    last = tree.body.pop() if isinstance(tree.body[-1], ast.Expr) else None
    printed, value = io.StringIO(), None
    with contextlib.redirect_stdout(printed):
        exec(compile(tree, where, "exec"), names)
        if isinstance(last, ast.Expr):
            value = eval(compile(ast.Expression(last.value), where, "eval"), names)
    found: list[dict[str, Any]] = []
    if printed.getvalue():
        text = lines(printed.getvalue())
        found.append({"output_type": "stream", "name": "stdout", "text": text})
    if value is not None:
        shown = {"output_type": "execute_result", "execution_count": count, "metadata": {}}
        found.append({**shown, "data": bundle(value)})
    return found


def bundle(value: Any) -> dict[str, list[str]]:
    """A value by the type of what it shows."""
    if hasattr(value, "_repr_mimebundle_"):  # a chart; altair returns data alone for SVG
        return {kind: lines(text) for kind, text in value._repr_mimebundle_(None, None).items()}
    shown = {"text/plain": lines(repr(value))}
    if hasattr(value, "_repr_html_"):
        shown["text/html"] = lines(value._repr_html_())
    return shown


def lines(text: str) -> list[str]:
    """Text as notebooks keep it."""
    return text.splitlines(keepends=True)


def digest(model: Any) -> str:
    """SHA-256 of all weights."""
    summed = hashlib.sha256()
    for name, weight in sorted(model.state_dict().items()):
        summed.update(name.encode())
        summed.update(weight.numpy().tobytes())
    return summed.hexdigest()


def read(path: Path) -> dict[str, Any]:
    """A notebook from its file."""
    notebook: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
    return notebook


if __name__ == "__main__":
    for path in map(Path, sys.argv[1:] or sorted(HERE.glob("*.ipynb"))):
        text = json.dumps(executed(read(path)), indent=1, ensure_ascii=False, sort_keys=True)
        path.write_text(text + "\n", encoding="utf-8")
        print(path)
