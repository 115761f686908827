"""The notebooks run, say what is kept with them, and need no network to be looked at."""

from __future__ import annotations

import ast
import copy
import json
import re
import runpy
from collections.abc import Callable
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import altair as alt
import pytest
from compared import differs

ROOT = Path(__file__).parents[2]
NOTEBOOKS = sorted((ROOT / "docs" / "notebooks").glob("*.ipynb"))
RUN = runpy.run_path(str(ROOT / "docs" / "notebooks" / "run.py"))
LARGEST = 300_000
"""Bytes of a notebook."""
LONG = "who_tells_the_truth"
"""It asks 24 methods: `make torture` runs it."""
each = pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)

Notebook = dict[str, Any]
read: Callable[[Path], Notebook] = RUN["read"]
executed: Callable[[Notebook], Notebook] = RUN["executed"]


def code(notebook: Notebook) -> list[dict[str, Any]]:
    return [cell for cell in notebook["cells"] if cell["cell_type"] == "code"]


def text(cell: dict[str, Any]) -> str:
    return "".join(cell["source"])


class Shown(HTMLParser):
    """The text of HTML or SVG, without its styles."""

    def __init__(self, source: str) -> None:
        super().__init__()
        self.words, self.hidden = list[str](), False
        self.feed(source)

    def handle_starttag(self, tag: str, attrs: object) -> None:
        self.hidden = tag == "style"

    def handle_endtag(self, tag: str) -> None:
        self.hidden = False

    def handle_data(self, data: str) -> None:
        if not self.hidden:
            self.words.append(data)


def said(output: dict[str, Any]) -> dict[str, str]:
    """What an output tells a reader, by its type."""
    if output["output_type"] == "stream":
        return {"stdout": "".join(output["text"])}
    kinds = {kind: "".join(lines) for kind, lines in output["data"].items()}
    marked = (kind for kind in kinds if kind != "text/plain")
    return kinds | {kind: " ".join(Shown(kinds[kind]).words) for kind in marked}


def test_there_are_four() -> None:
    assert len(NOTEBOOKS) == 4


# -- as they are kept -----------------------------------------------------------------------------


@each
def test_a_notebook_is_kept_with_its_output(path: Path) -> None:
    notebook = read(path)
    cells = code(notebook)
    assert [cell["execution_count"] for cell in cells] == list(range(1, len(cells) + 1))
    for cell in cells:
        last = ast.parse(text(cell)).body[-1]
        kinds = [output["output_type"] for output in cell["outputs"]]
        assert ("execute_result" in kinds) == isinstance(last, ast.Expr), text(cell)
        assert ("stream" in kinds) == ("print(" in text(cell)), text(cell)
    assert len({cell["id"] for cell in notebook["cells"]}) == len(notebook["cells"])
    assert re.fullmatch(r"[0-9a-f]{64}", notebook["metadata"]["model_hash"])


@each
def test_a_notebook_is_small_and_fetches_nothing(path: Path) -> None:
    assert path.stat().st_size < LARGEST
    for cell in code(read(path)):
        for output in cell["outputs"]:
            shown = json.dumps(output)
            assert set(output.get("data", {})) <= {"text/plain", "text/html", "image/svg+xml"}
            assert not re.search(r"<script|javascript|(?:src|href)=", shown)
            assert str(ROOT) not in shown
            assert "/tmp" not in shown


@each
def test_the_links_of_a_notebook_lead_somewhere(path: Path) -> None:
    prose = "\n".join(text(c) for c in read(path)["cells"] if c["cell_type"] == "markdown")
    links = re.findall(r"\]\(([^)#]+)\)", prose)
    assert links
    assert [link for link in links if not (path.parent / link).is_file()] == []


def test_the_one_for_your_own_model_needs_interp_alone() -> None:
    (path,) = (path for path in NOTEBOOKS if path.stem.startswith("your_own_model"))
    source = "\n".join(map(text, code(read(path))))
    rooms = set(re.findall(r"^(?:from|import) (\w+)", source, flags=re.MULTILINE))
    assert rooms & {"models", "interp", "analyses", "dashboard"} == {"interp"}


# -- as they run ----------------------------------------------------------------------------------


@pytest.mark.slow
@pytest.mark.parametrize(
    "path",
    [
        pytest.param(path, marks=pytest.mark.torture) if path.stem == LONG else path
        for path in NOTEBOOKS
    ],
    ids=lambda path: path.stem,
)
def test_a_notebook_says_what_is_kept(path: Path) -> None:
    """Numbers may differ a little; where training ended in other weights, words and numbers may."""
    kept = read(path)
    before = alt.renderers.active
    now = executed(kept)
    assert alt.renderers.active == before
    same = now["metadata"]["model_hash"] == kept["metadata"]["model_hash"]
    assert compared(kept, now, words=same) == []


@pytest.mark.slow
def test_the_long_one_runs() -> None:
    """With few steps and few lines: `make torture` compares what it says."""
    (path,) = (path for path in NOTEBOOKS if path.stem == LONG)
    short = path.read_text(encoding="utf-8")
    for long, few in (
        ("steps=250", "steps=2"),
        ("every=125", "every=1"),
        ("LINES = 60", "LINES = 6"),
    ):
        assert short.count(long) == 1
        short = short.replace(long, few)
    kept, now = read(path), executed(json.loads(short))
    assert compared(kept, now, words=False) == []


def compared(kept: Notebook, now: Notebook, words: bool = True) -> list[str]:
    """Where two runs of a notebook say different things.

    Args:
        words: compare what is said, and not only which types of output there are.
    """
    wrong = []
    for count, (old, new) in enumerate(zip(code(kept), code(now), strict=True), start=1):
        one, other = (list(map(said, cell["outputs"])) for cell in (old, new))
        if list(map(sorted, one)) != list(map(sorted, other)):
            wrong.append(f"cell {count} shows other types of output")
        elif words:
            for before, after in zip(one, other, strict=True):
                for kind, told in before.items():
                    # "..." in a shortened table stands for itself.
                    pair = (part.replace("...", "[more]") for part in (told, after[kind]))
                    if missing := differs(*pair):
                        wrong.append(f"cell {count}, {kind}, did not say: {missing}")
    return wrong


# -- how they are run -----------------------------------------------------------------------------


def made(*sources: str) -> Notebook:
    cells = [{"cell_type": "code", "source": [source], "outputs": []} for source in sources]
    return {"cells": cells, "metadata": {}}


MODEL = "import torch\nmodel = torch.nn.Linear(1, 1)\nprint('made', 1.5)"
SHOWS = "class Self:\n    def _repr_html_(self): return '<b>1.5</b> &lt;'\nSelf()"


def test_a_cell_shows_what_it_prints_and_its_last_line() -> None:
    notebook = executed(made(MODEL, "1 + 1", "x = 3", "print(x)\nx", SHOWS, "None"))
    shown = [list(map(said, cell["outputs"])) for cell in code(notebook)]
    assert shown[:4] == [
        [{"stdout": "made 1.5\n"}],
        [{"text/plain": "2"}],
        [],
        [{"stdout": "3\n"}, {"text/plain": "3"}],
    ]
    assert shown[4][0]["text/html"] == "1.5  <"
    assert shown[5] == []
    with pytest.raises(ZeroDivisionError):
        executed(made("1 / 0"))


def test_what_differs_is_found() -> None:
    notebook = executed(made(MODEL, SHOWS))
    for cell in notebook["cells"]:
        for output in cell["outputs"]:  # where the object lies differs from run to run
            output.get("data", {}).pop("text/plain", None)
    near, far, other = (copy.deepcopy(notebook) for _ in range(3))
    near["cells"][0]["outputs"][0]["text"] = ["made 1.52\n"]
    far["cells"][1]["outputs"][0]["data"]["text/html"] = ["<b>2.5</b> &lt;"]
    other["cells"][0]["outputs"] = []
    assert compared(notebook, near) == []
    assert len(compared(notebook, far)) == 1
    assert compared(notebook, far, words=False) == []
    assert len(compared(notebook, other, words=False)) == 1
