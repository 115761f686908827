"""The version of the lab that answers: a hash of the source that an answer depends on.

The release number would not do: whoever changes a lens changes what it answers, not the number.
What only readers see, docstrings and lines of comment, does not count.
"""

from __future__ import annotations

import hashlib
import re
from functools import cache
from importlib.util import find_spec
from pathlib import Path

from analyses.registry import BUILT_IN, registered

NAMED = re.compile(r'"(models(?:\.\w+)+):\w+"')
"""The module of what is looked up by its name, as the class of a family's models."""
ROOT = Path(__file__).parents[1]
LINES = "models/languages"
"""The folder of the printed lines. Answers speak of them too."""
MODELS = ("models", "interp", "analyses/activations.py")
"""The source that activations depend on."""
ANSWERS = (
    *MODELS,
    *(f"analyses/{name}" for name in ("lectures", "questions", "rules", "scoring", "studies")),
    *(f"analyses/{name}.py" for name in ("answers", "claims", "knowledge", "words")),
)
"""The source that answers depend on. Charts, options and pages change none."""
DOCSTRING = re.compile(r'^([ \t]*)r?"""[^\\]*?(?:\\.[^\\]*?)*?"""[ \t]*$', re.MULTILINE | re.DOTALL)
COMMENT = re.compile(r"^[ \t]*#.*\n", re.MULTILINE)
IMPORT = re.compile(
    r"^[ \t]*(?:from[ \t]+([\w.]+)[ \t]+import[ \t]+(\([^)]*\)|[^\n]*)|import[ \t]+([^\n]*))",
    re.MULTILINE,
)


def code_of(name: str) -> str:
    """The version of the lab that answers a question, a study's as well as a run's: 16 hex digits.

    It covers the files that the question imports, directly or not. For a study, and for a question
    of another package, it covers all ``ANSWERS``; the latter also covers its own file.
    """
    if name in BUILT_IN:
        return _of_module(registered()[name].module)
    spec = find_spec(registered()[name].module) if name in registered() else None
    return source_hash(*ANSWERS, *([spec.origin] if spec and spec.origin else []))


@cache
def _of_module(module: str) -> str:
    """The version of a question of the lab, by its module."""
    files = _imported(module) & {*_files(ANSWERS)}
    return _hash((*files, *(ROOT / LINES).glob("*.tsv")))


def source_hash(*places: str) -> str:
    """A hash over files and folders of source, given below the lab's root: 16 hex digits."""
    return _hash(_files(places))


@cache
def _files(places: tuple[str, ...]) -> tuple[Path, ...]:
    at = [ROOT / place for place in places]
    groups = [[*p.rglob("*.py"), *p.rglob("*.tsv")] if p.is_dir() else [p] for p in at]
    return tuple(file for files in groups for file in files)


@cache
def _hash(files: tuple[Path, ...]) -> str:
    digest = hashlib.sha256()
    for file in sorted(files):
        digest.update(file.name.encode() + hashlib.sha256(_code(file).encode()).digest())
    return digest.hexdigest()[:16]


@cache
def _code(file: Path) -> str:
    """A file's text without docstrings and lines of comment."""
    return _without_words(file.read_text(encoding="utf-8"))


def _without_words(text: str) -> str:
    """Source with empty docstrings and without lines of comment."""
    return COMMENT.sub("", DOCSTRING.sub(r'\1""""""', text))


@cache
def _imported(module: str) -> frozenset[Path]:
    """The lab's files that a module of the lab imports, also within functions, and those that these
    import; its own file and the packages around it among them. What ``models`` looks up by its
    name counts as imported."""
    files: set[Path] = set()
    ahead = [module]
    while ahead:
        name = ahead.pop()
        at = ROOT.joinpath(*name.split("."))
        file = at / "__init__.py" if at.is_dir() else at.with_suffix(".py")
        if file in files or not file.is_file():
            continue
        files.add(file)
        ahead.append(name.rpartition(".")[0])
        for package, names, modules in IMPORT.findall(_code(file)):
            parts = re.findall(r"[\w.]+", names)
            ahead += [package, *(f"{package}.{part}" for part in parts)] if package else []
            ahead += re.findall(r"[\w.]+", modules)
        if name.startswith("models."):
            ahead += NAMED.findall(_code(file))
    return frozenset(files)
