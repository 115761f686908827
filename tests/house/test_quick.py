"""Which tests `pytest --quick` runs."""

from __future__ import annotations

from pathlib import Path

import pytest
from quick import selected

pytestmark = pytest.mark.slow  # pytest within pytest

MOST = 6

MODULE = """
import pytest

@pytest.mark.parametrize("kind", ["x", "y", "z"])
@pytest.mark.parametrize("name", ["a", "b", "c", "d"])
def test_of_two(kind, name): pass

@pytest.mark.parametrize("number", range(100))
def test_of_one(number): pass

@pytest.mark.parametrize("size", [1, pytest.param(2, marks=pytest.mark.slow)])
def test_of_sizes(size): pass

@pytest.mark.slow
def test_slow(): pass

@pytest.fixture
def demo(): pass

def test_of_the_demo(demo): pass

def test_plain(): pass
"""


class Selection:
    """What is left of the tests that pytest collects."""

    def pytest_collection_modifyitems(self, items: list[pytest.Item]) -> None:
        self.names = [item.name for item in selected(items)]


@pytest.fixture
def names(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> list[str]:
    monkeypatch.setattr("quick.MOST", MOST)
    monkeypatch.setattr("quick.FEW", 100)
    (tmp_path / "pytest.ini").write_text("[pytest]\nmarkers = slow\n")
    module, found = tmp_path / "test_module.py", Selection()
    module.write_text(MODULE)
    asked = ["--collect-only", "--import-mode=importlib", "-p", "no:cacheprovider", str(module)]
    assert pytest.main(asked, plugins=[found]) == 0
    return found.names


def test_every_value_of_every_parameter_is_in_some_case(names: list[str]) -> None:
    cases = [name.split("[")[1][:-1].split("-") for name in names if name.startswith("test_of_two")]
    assert len(cases) == 4
    assert {name for name, _ in cases} == set("abcd")
    assert {kind for _, kind in cases} == set("xyz")


def test_of_many_cases_some_are_run_from_end_to_end(names: list[str]) -> None:
    numbers = [int(n.split("[")[1][:-1]) for n in names if n.startswith("test_of_one")]
    assert 1 < len(numbers) <= MOST
    assert max(b - a for a, b in zip([0, *numbers], [*numbers, 99], strict=True)) < 2 * 100 / MOST


def test_what_is_slow_is_left_out(names: list[str]) -> None:
    assert [n for n in names if "two" not in n and "one" not in n] == [
        "test_of_sizes[1]",
        "test_plain",
    ]


def test_of_a_file_few_are_run(names: list[str], tmp_path: Path) -> None:
    found = Selection()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("quick.FEW", 3)
        asked = ["--collect-only", "--import-mode=importlib", "-p", "no:cacheprovider"]
        assert pytest.main([*asked, str(tmp_path / "test_module.py")], plugins=[found]) == 0
    assert 2 <= len(found.names) <= 3
    assert set(found.names) <= set(names)
