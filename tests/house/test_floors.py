"""The house stands: imports run down from floor to floor, in no circle, and no room is crowded.

Every import counts, wherever in a file it stands: inside functions and ``__main__`` blocks too.
"""

from __future__ import annotations

import ast
from collections.abc import Mapping, Sequence
from functools import cache
from pathlib import Path

import networkx as nx
import pytest

ROOT = Path(__file__).parents[2]
ROOMS = ("models", "interp", "analyses", "dashboard")
MOST_FILES = 14
"""Python files of a folder, ``__init__`` not counted: about a dozen."""

ABOVE = {
    "interp": {"models", "analyses", "dashboard", "tests"},
    "models": {"interp", "analyses", "dashboard", "tests"},
    "analyses": {"dashboard", "tests"},
    "dashboard": {"tests"},
}
"""What a room must not import."""

FLOORS: Mapping[str, Sequence[str]] = {
    "models": (
        "errors cards hooks lazy",
        "checks",
        "choices",
        "plain_files",
        "languages",
        "objectives",
        "families",
        "model_config",
        "config",
        "sizes",
        "base",
        "transformer",
        "rivals decoding operations",
        "encoder_decoders",
        "runs",
        "training plants foreign",
    ),
    "interp": (
        "model statistics adam",
        "comparisons weights power_laws",
        "causal probing training vectors dictionaries",
        "circuits heads automata influence",
        "explanations",
    ),
    "analyses": (
        "options",
        "registry",
        "source track_record cache",
        "claims rendering",
        "answer_files knowledge",
        "needs",
        "answers",
        "console words activations",
        "jobs charts script reports",
        "lectures",
        "questions",
        "studies rules scoring",
        "command_line",
    ),
    "dashboard": (
        "glossary markup tours",
        "controls background processes listing",
        "drawing",
        "lecture selection",
        "downloads",
        "views",
        "pages",
        "app server",
    ),
}
"""From the ground up. What stands side by side on a floor does not import each other."""


def modules(root: Path) -> dict[str, Path]:
    """The files of all rooms by module name; a package is its ``__init__``."""
    found = {}
    for room in ROOMS:
        for file in sorted((root / room).rglob("*.py")):
            parts = file.relative_to(root).with_suffix("").parts
            found[".".join(parts[:-1] if parts[-1] == "__init__" else parts)] = file
    return found


@cache
def imported(source: str) -> frozenset[str]:
    """All dotted names that a source imports; ``from a import b`` gives both a and a.b."""
    names = set()
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Import):
            names |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, "write imports from the root"
            names |= {str(node.module), *(f"{node.module}.{alias.name}" for alias in node.names)}
    return frozenset(names)


def graph(root: Path) -> nx.DiGraph[str]:
    """Which module imports which of the house; a name counts as the module that it lies in."""
    known = modules(root)
    arrows: nx.DiGraph[str] = nx.DiGraph()
    arrows.add_nodes_from(known)
    for module, file in known.items():
        for name in imported(file.read_text(encoding="utf-8")):
            while name and name not in known:
                name = name.rpartition(".")[0]
            if name and name != module:
                arrows.add_edge(module, name)
    return arrows


def circles(root: Path) -> list[list[str]]:
    """Modules that import each other, directly or by way of others."""
    parts = nx.strongly_connected_components(graph(root))
    return [sorted(part) for part in parts if len(part) > 1]


def test_there_is_no_circle() -> None:
    assert circles(ROOT) == []


@pytest.mark.parametrize(
    "low",
    [
        "import analyses.high",
        "def f():\n    import analyses.high",
        'if __name__ == "__main__":\n    from analyses import high',
    ],
)
def test_a_circle_is_found_wherever_its_imports_stand(tmp_path: Path, low: str) -> None:
    (tmp_path / "analyses").mkdir()
    (tmp_path / "analyses" / "low.py").write_text(low)
    (tmp_path / "analyses" / "middle.py").write_text("from analyses.low import f")
    assert circles(tmp_path) == []
    (tmp_path / "analyses" / "high.py").write_text("from analyses.middle import x")
    assert circles(tmp_path) == [["analyses.high", "analyses.low", "analyses.middle"]]


@pytest.mark.parametrize("room", ABOVE)
def test_rooms_import_one_way(room: str) -> None:
    files = [file for name, file in modules(ROOT).items() if name.split(".")[0] == room]
    assert files
    found = {
        file: {name.split(".")[0] for name in imported(file.read_text(encoding="utf-8"))}
        for file in files
    }
    assert {file: names & ABOVE[room] for file, names in found.items() if names & ABOVE[room]} == {}


@pytest.mark.parametrize("room", FLOORS)
def test_floors_use_those_below(room: str) -> None:
    floor = {name: level for level, names in enumerate(FLOORS[room]) for name in names.split()}
    there = {name.split(".")[1] for name in modules(ROOT) if name.startswith(f"{room}.")}
    assert there == set(floor), "every part of a room stands on a floor"
    wrong = []
    for module, used in graph(ROOT).edges:
        if not (module.startswith(f"{room}.") and used.startswith(f"{room}.")):
            continue
        own, other = module.split(".")[1], used.split(".")[1]
        if own != other and floor[own] <= floor[other]:
            wrong.append(f"{module} uses {used}")
    assert wrong == []


def test_no_folder_is_crowded() -> None:
    counts: dict[Path, int] = {}
    for file in modules(ROOT).values():
        if file.name != "__init__.py":
            counts[file.parent] = counts.get(file.parent, 0) + 1
    assert {folder: n for folder, n in counts.items() if n > MOST_FILES} == {}


def test_every_folder_says_what_it_holds() -> None:
    for file in modules(ROOT).values():
        start = file.with_name("__init__.py")
        assert ast.get_docstring(ast.parse(start.read_text(encoding="utf-8"))), start


def test_interp_needs_no_other_room_at_run_time() -> None:
    """Nor by a string that is imported at run time."""
    for file in sorted((ROOT / "interp").rglob("*.py")):
        text = file.read_text(encoding="utf-8")
        assert "import_module" not in text, file
        assert "__import__" not in text, file
