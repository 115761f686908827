"""A package whose ``__init__`` waits gives the same names as one that was imported as ever."""

from __future__ import annotations

import importlib
import sys
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from threading import Event
from types import ModuleType

import pytest

from models.lazy import delay

FILES = {
    "__init__.py": "from . import plain\n"
    "from .Alike import Alike\n"
    "from .plain import one as first\n"
    "from .inner import two\n"
    "from absent_package import anything\n"
    "RUN.append(1)\n"
    "third = 3\n"
    "def __getattr__(name):\n"
    "    raise ImportError(f'{name} was removed')\n",
    "Alike.py": "class Alike: pass\n",
    "plain.py": "one = 1\n",
    "inner/__init__.py": "from delayed_one.inner.deep import two\n",
    "inner/deep.py": "from delayed_one.Alike import Alike\ntwo = Alike\n",
}
"""A package whose ``__init__`` needs what is not there, and says so only when it is run."""


@pytest.fixture
def package(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[ModuleType]:
    for name, text in FILES.items():
        file = tmp_path / "delayed_one" / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text)
    monkeypatch.syspath_prepend(tmp_path)
    delay("delayed_one", "delayed_one.inner")
    yield importlib.import_module("delayed_one")
    for name in [name for name in sys.modules if name.startswith("delayed_one")]:
        del sys.modules[name]


def test_names_come_from_where_the_init_imports_them(package: ModuleType) -> None:
    assert package.first == 1
    assert package.plain.one == 1
    assert package.inner is importlib.import_module("delayed_one.inner")
    assert "third" not in vars(package)


@pytest.mark.parametrize("before", ["delayed_one.Alike", "delayed_one.inner.deep"])
def test_a_class_is_not_hidden_by_the_module_that_is_called_alike(
    package: ModuleType, before: str
) -> None:
    importlib.import_module(before)
    assert isinstance(package.Alike, type)
    assert package.two is package.Alike


def test_what_the_init_makes_itself_runs_it(
    package: ModuleType, monkeypatch: pytest.MonkeyPatch
) -> None:
    run: list[int] = []
    monkeypatch.setattr("builtins.RUN", run, raising=False)
    monkeypatch.setitem(sys.modules, "absent_package", ModuleType("absent_package"))
    vars(sys.modules["absent_package"])["anything"] = None
    assert not hasattr(package, "__version__")
    assert run == []
    assert package.third == 3
    with pytest.raises(ImportError, match="fourth was removed"):
        _ = package.fourth
    assert run == [1]
    assert isinstance(package.Alike, type)


def test_threads_wait_for_an_init_that_another_runs(
    package: ModuleType, monkeypatch: pytest.MonkeyPatch
) -> None:
    begun = Event()

    class Slow(list[int]):
        def append(self, number: int) -> None:
            with pytest.raises(AttributeError, match="delayed_one has not made third yet"):
                _ = package.third  # the thread that runs it does not wait for itself
            begun.set()
            time.sleep(0.2)

    monkeypatch.setattr("builtins.RUN", Slow(), raising=False)
    monkeypatch.setitem(sys.modules, "absent_package", ModuleType("absent_package"))
    vars(sys.modules["absent_package"])["anything"] = None
    with ThreadPoolExecutor() as pool:
        first = pool.submit(lambda: package.third)
        begun.wait()
        assert [package.third, first.result()] == [3, 3]
    assert type(package) is ModuleType


def test_an_init_that_fails_fails_again(package: ModuleType) -> None:
    for _ in range(2):
        with pytest.raises(ModuleNotFoundError, match="absent_package"):
            _ = package.third
    assert package.first == 1


def test_a_package_that_was_imported_is_left_alone(package: ModuleType) -> None:
    delay("delayed_one", "json")
    assert sys.modules["delayed_one"] is package
    assert type(sys.modules["json"]) is ModuleType
