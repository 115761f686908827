"""Which tests begin first."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

from conftest import longest_first


def item(file: str, *marks: str, fixtures: tuple[str, ...] = ()) -> Any:
    """A stand-in for a test: its file, its marks and its fixtures."""
    found = dict.fromkeys(marks, True)
    return SimpleNamespace(path=Path(file), fixturenames=fixtures, get_closest_marker=found.get)


def test_the_demo_comes_first_then_slow_files_and_no_file_is_torn_apart() -> None:
    quick = [item("a.py"), item("d.py")]
    slow = [item("b.py"), item("b.py", "slow"), item("c.py", "browser")]
    demo = [item("z.py"), item("z.py", "slow", fixtures=("demo",))]
    items = [quick[0], *slow, quick[1], *demo]
    longest_first(items)
    assert items == [*demo, *slow, *quick]
