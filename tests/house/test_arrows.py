"""Imports run one way: dashboard -> analyses -> {models, interp}."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
FORBIDDEN = {
    "interp": {"models", "analyses", "dashboard", "tests"},
    "models": {"interp", "analyses", "dashboard", "tests"},
    "analyses": {"dashboard", "tests"},
    "dashboard": {"tests"},
}


def imported(source: str) -> set[str]:
    """The first names of all imported modules, wherever in the file the import stands."""
    names = set()
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Import):
            names |= {alias.name.split(".")[0] for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            names |= {(node.module or "").split(".")[0]} if node.level == 0 else {"relative"}
    return names


@pytest.mark.parametrize("package", FORBIDDEN)
def test_arrows_run_one_way(package: str) -> None:
    files = sorted((ROOT / package).rglob("*.py"))
    assert files
    found = {file: imported(file.read_text(encoding="utf-8")) for file in files}
    wrong = {
        str(file.relative_to(ROOT)): names & FORBIDDEN[package]
        for file, names in found.items()
        if names & FORBIDDEN[package]
    }
    assert wrong == {}


def test_an_import_is_found_wherever_it_stands() -> None:
    source = (
        "import a.b\ndef f():\n    from c.d import e\n    import g as h\nif True: from i import j"
    )
    assert imported(source) == {"a", "c", "g", "i"}


def test_interp_needs_no_other_room_at_run_time() -> None:
    """Nor by a string that is imported at run time."""
    for file in sorted((ROOT / "interp").rglob("*.py")):
        text = file.read_text(encoding="utf-8")
        assert "import_module" not in text, file
        assert "__import__" not in text, file
