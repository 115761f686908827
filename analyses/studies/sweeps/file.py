"""A sweep's file: what is fixed, what is varied, and how every run is judged.

question = "..."
languages = ["anbn", "anbncn"]  # or "table-1", the twelve of Li and Cotterell (2025)
seeds = 10                      # 0 to 9
skip_impossible = false         # leave out combinations that no model has, instead of refusing
[test]
lengths = "41:500"              # word lengths; or windows = 4: all sizes to so many windows
count = 8                       # words per length: half members, half others
hard = true                     # the others are near misses alone
[fixed]                         # changes of the languages' recipes; model.X of the model's
max_length = 40                 # the training window in symbols, instead of max_n
[vary]                          # every combination of these
"model.n_layers" = [1, 2]
[[variants]]                    # named bundles of changes, crossed with [vary]
name = "lstm"
"model.architecture" = "lstm"
[language.parity]               # changes for one language
steps = 4000
"""

from __future__ import annotations

import re
import tomllib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, fields, is_dataclass, replace
from difflib import get_close_matches
from pathlib import Path
from typing import Any, Literal, get_args, get_origin, get_type_hints

from analyses.studies.sweeps.exam import Exam
from models.config import TrainConfig
from models.errors import UserError
from models.languages import TABLE_1, language

FOLDER = Path(__file__).parent
"""The sweeps that come with the lab."""

GROUPS = {"table-1": TABLE_1}
MAX_LENGTH = "max_length"
"""The training window in symbols: the largest ``max_n`` whose words are no longer."""

Changes = Mapping[str, Any]


def _fields() -> dict[str, Any]:
    """The type of everything that a sweep may change, by its dotted name."""
    types = {k: t for k, t in _types(TrainConfig).items() if k not in ("language", "seed")}
    return {**types, MAX_LENGTH: int}


def _types(config: Any) -> dict[str, Any]:
    """The type of every field by its dotted name, as "model.counting.counters"."""
    found: dict[str, Any] = {}
    for name, kind in get_type_hints(config).items():
        if is_dataclass(kind):
            found |= {f"{name}.{part}": inner for part, inner in _types(kind).items()}
        else:
            found[name] = kind
    return found


FIELDS = _fields()
NAMES = {int: "a whole number", float: "a number", bool: "true or false", str: "a text in quotes"}


@dataclass(frozen=True)
class SweepFile:
    """What is asked, checked.

    Attributes:
        question: in one sentence.
        languages: by their registry names.
        seeds: how many, from 0 on.
        exam: how every run is judged.
        fixed: changes of every recipe, by dotted name.
        vary: values by dotted name, every combination of which is trained.
        variants: changes by the variant's name; empty where there are none.
        of_language: changes by language.
        skip_impossible: leave out combinations that the configuration refuses.
    """

    question: str
    languages: tuple[str, ...]
    seeds: int = 10
    exam: Exam = field(default_factory=Exam)
    fixed: Changes = field(default_factory=dict)
    vary: Mapping[str, tuple[Any, ...]] = field(default_factory=dict)
    variants: Mapping[str, Changes] = field(default_factory=dict)
    of_language: Mapping[str, Changes] = field(default_factory=dict)
    skip_impossible: bool = False

    def narrowed(
        self, languages: tuple[str, ...] = (), seeds: int | None = None, steps: int | None = None
    ) -> SweepFile:
        """With other languages, fewer or more seeds, and so many steps for every run.

        Raises:
            UserError: an unknown language, no seed or step, or steps that the file varies.
        """
        asked = self
        if languages:
            asked = replace(asked, languages=_languages(list(languages), "--languages"))
        if seeds is not None:
            asked = replace(asked, seeds=_count(seeds, "--seeds"))
        if steps is None:
            return asked
        if "steps" in self.vary:
            raise UserError("the sweep varies the steps: leave --steps out")

        def without(changes: Mapping[str, Changes]) -> dict[str, Changes]:
            return {n: {k: v for k, v in c.items() if k != "steps"} for n, c in changes.items()}

        return replace(
            asked,
            fixed={**self.fixed, "steps": _count(steps, "--steps")},
            variants=without(self.variants),
            of_language=without(self.of_language),
        )


def shipped() -> list[str]:
    """The names of the sweeps that come with the lab."""
    return sorted(path.stem for path in FOLDER.glob("*.toml"))


def find(asked: str) -> Path:
    """The file of a path or of a shipped name. Raises UserError where there is none."""
    path = Path(asked)
    if path.suffix == ".toml" or path.is_file():
        return path
    if asked in shipped():
        return FOLDER / f"{asked}.toml"
    raise UserError(
        f"{asked} is neither a file nor a sweep of the lab: give a TOML file, or one of "
        f"{', '.join(shipped())}"
    )


def read(path: Path) -> SweepFile:
    """A sweep's file, checked. Raises UserError that names the file, the fault and the cure."""
    try:
        content = tomllib.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise UserError(f"cannot read {path} ({error.strerror}): check the path") from None
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise UserError(f"{path} is not TOML ({error}): correct it there") from None
    try:
        return checked(content)
    except UserError as error:
        raise UserError(f"{path}: {error}") from None


def checked(content: Mapping[str, Any]) -> SweepFile:
    """The content of a file. Raises UserError for whatever does not fit."""
    keys = ("question", "languages", "seeds", "skip_impossible")
    tables = ("test", "fixed", "vary", "variants", "language")
    _known(content, (*keys, *tables), "at the top of the file")
    for key in ("question", "languages"):
        if key not in content:
            raise UserError(f"{key} is missing: write it at the top of the file")
    languages = _languages(content["languages"], "languages")
    file = SweepFile(
        question=_typed(content["question"], str, "question"),
        languages=languages,
        seeds=_count(content.get("seeds", 10), "seeds"),
        exam=_exam(_table(content, "test")),
        fixed=_changes(_table(content, "fixed"), "[fixed]"),
        vary=_vary(_table(content, "vary")),
        variants=_variants(content.get("variants", [])),
        of_language={
            name: _changes(_table(_table(content, "language"), name), f"[language.{name}]")
            for name in _table(content, "language")
        },
        skip_impossible=_typed(content.get("skip_impossible", False), bool, "skip_impossible"),
    )
    for name in file.of_language:
        if name not in languages:
            raise UserError(f"[language.{name}] is for no language of this sweep: add it, or drop")
    _refuse_twice(file)
    return file


def _refuse_twice(file: SweepFile) -> None:
    """A field that two places set would silently be lost in one; [fixed] alone is a default."""
    places = {"[vary]": set(file.vary)}
    places["[[variants]]"] = {key for changes in file.variants.values() for key in changes}
    places["[language]"] = {key for changes in file.of_language.values() for key in changes}
    for key in FIELDS:
        where = [place for place, keys in places.items() if key in keys]
        if key in file.fixed and key in file.vary:
            where.append("[fixed]")
        if len(where) > 1:
            raise UserError(f"{key} stands in {' and '.join(where)}: leave it in one")
    everywhere = set(file.fixed).union(*places.values())
    if {"max_n", MAX_LENGTH} <= everywhere:
        raise UserError("max_n and max_length both set the training window: leave one out")


def _languages(given: Any, where: str) -> tuple[str, ...]:
    """Languages by name or group. Raises UserError for unknown ones, one twice, or none."""
    names = [given] if isinstance(given, str) else given
    if not isinstance(names, list) or not all(isinstance(name, str) for name in names):
        raise UserError(f'{where} is {given!r}: write a list of names, or "table-1"')
    found = [member for name in names for member in GROUPS.get(name, (name,))]
    if not found:
        raise UserError(f"{where} is empty: name one")
    for name in found:
        language(name)
    _distinct(found, where)
    return tuple(found)


def _count(value: Any, where: str) -> int:
    if _typed(value, int, where) < 1:
        raise UserError(f"{where} is {value}: it must be at least 1")
    return int(value)


def _exam(table: Changes) -> Exam:
    hints = get_type_hints(Exam) | {"lengths": str}
    _known(table, [f.name for f in fields(Exam)], "in [test]")
    if {"lengths", "windows"} <= set(table):
        raise UserError("[test] has lengths and windows: leave one out")
    return Exam(**{key: _typed(value, hints[key], key) for key, value in table.items()})


def _changes(table: Changes, where: str) -> dict[str, Any]:
    """Changes of a configuration, as its fields have them."""
    _known(table, FIELDS, f"in {where}")
    return {key: _typed(value, FIELDS[key], f"{key} in {where}") for key, value in table.items()}


def _vary(table: Changes) -> dict[str, tuple[Any, ...]]:
    _known(table, FIELDS, "in [vary]")
    varied = {}
    for key, values in table.items():
        if not isinstance(values, list) or not values:
            raise UserError(f"{key} in [vary] is {values!r}: write a list of values")
        found = [_typed(value, FIELDS[key], f"{key} in [vary]") for value in values]
        _distinct(found, f"{key} in [vary]")
        varied[key] = tuple(found)
    return varied


def _variants(given: Any) -> dict[str, Changes]:
    if not isinstance(given, list) or not all(isinstance(each, dict) for each in given):
        raise UserError("variants are tables: write [[variants]] above each")
    names = []
    for table in given:
        name = table.get("name")
        if not isinstance(name, str) or not re.fullmatch(r"[A-Za-z0-9][\w.-]*", name, re.ASCII):
            raise UserError(
                f"a variant's name is {name!r}: each needs one of letters, digits, _, - and ., "
                "because its runs' folders carry it"
            )
        names.append(name)
    _distinct(names, "[[variants]]")
    return {
        name: _changes({k: v for k, v in table.items() if k != "name"}, f"the variant {name}")
        for name, table in zip(names, given, strict=True)
    }


def _table(content: Changes, name: str) -> Changes:
    table = content.get(name, {})
    if not isinstance(table, dict):
        raise UserError(f"{name} is {table!r}: write it as a table, [{name}]")
    return table


def _known(table: Changes, known: Iterable[str], where: str) -> None:
    """Raises UserError for a key that means nothing there."""
    names = list(known)
    for key, value in table.items():
        if key in names:
            continue
        if key == "model" and isinstance(value, dict):
            raise UserError(f'{where}: write "model.{next(iter(value), "n_layers")}" in quotes')
        near = get_close_matches(key, names, n=1)
        cure = f"did you mean {near[0]}?" if near else f"choose one of {', '.join(names)}"
        raise UserError(f"unknown {key!r} {where}: {cure}")


def _distinct(values: list[Any], where: str) -> None:
    for index, value in enumerate(values):
        if value in values[:index]:
            raise UserError(f"{where} has {value!r} twice: drop one")


def _typed(value: Any, kind: Any, where: str) -> Any:
    """The value as its field has it. Raises UserError for one of another type."""
    if get_origin(kind) is Literal:
        if value not in get_args(kind):
            raise UserError(f"{where} is {value!r}: choose one of {', '.join(get_args(kind))}")
        return value
    if kind is float and isinstance(value, int) and not isinstance(value, bool):
        return float(value)
    if type(value) is not kind:
        raise UserError(f"{where} is {value!r}: write {NAMES[kind]}")
    return value
