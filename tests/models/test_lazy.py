"""A package whose ``__init__`` waits gives the same names as one that was imported as ever."""

from __future__ import annotations

import importlib
import sys
from collections.abc import Iterator
from pathlib import Path
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


def test_a_package_that_was_imported_is_left_alone(package: ModuleType) -> None:
    delay("delayed_one", "json")
    assert sys.modules["delayed_one"] is package
    assert type(sys.modules["json"]) is ModuleType
