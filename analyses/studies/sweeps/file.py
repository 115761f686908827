"""A sweep's file: what is fixed, what is varied, and how every run is judged.

question = "..."
languages = ["anbn", "anbncn"]  # or "table-1", the twelve of Li and Cotterell (2025)
seeds = 10                      # 0 to 9
recipe = "plain"                # the recipe that is changed below; or "counting"
skip_impossible = false         # true: leave out combinations that no model can have
measures = ["loss", "speed"]    # numbers of every run; also gradients, softmax, curvature, drift
[test]
lengths = "41:500"              # word lengths; or windows = 4: all sizes up to four windows
thinned = false                 # with windows: every other size beyond two, every fifth beyond four
count = 8                       # words per length: half members, half others
hard = true                     # all the others are near misses
[compare]                       # by what the best setting is compared with the others
measure = "recognition"         # or "exact": members with every next-symbol set right; or a number
                                # of the measures, as "loss.excess"
bands = [1, 2, 4, 10]           # score the sizes up to so many windows apart; compare beyond one
[fixed]                         # changes of the languages' recipes; model.X changes the model
max_length = 40                 # the training window in symbols, instead of max_n
shifted = true                  # set max_offset so that all positions of test words are trained
[vary]                          # every combination of these values is trained
"model.n_layers" = [1, 2]
[[variants]]                    # named bundles of changes, crossed with [vary]
name = "lstm"
"model.architecture" = "lstm"
[language.parity]               # changes for one language
steps = 4000
"""

from __future__ import annotations

import tomllib
from collections.abc import Mapping
from dataclasses import is_dataclass
from pathlib import Path
from typing import Annotated, Any, Literal, Self, get_type_hints

from pydantic import (
    BaseModel,
    BeforeValidator,
    Field,
    GetPydanticSchema,
    ValidationError,
    model_validator,
)
from pydantic.annotated_handlers import GetCoreSchemaHandler
from pydantic_core import CoreSchema, core_schema

from analyses.studies.sweeps.exam import WRITTEN, Exam
from analyses.studies.sweeps.faults import told
from analyses.studies.sweeps.further import FURTHER, Name
from analyses.studies.sweeps.measures import Measure
from models.config import TrainConfig
from models.errors import UserError
from models.languages import TABLE_1, language
from models.plain_files import read_text

GROUPS = {"table-1": TABLE_1}
MOST_BYTES = 2**20
MAX_LENGTH = "max_length"
"""The training window in symbols: the largest ``max_n`` whose words are no longer."""
SHIFTED = "shifted"
"""Whether ``max_offset`` is such that training reaches every position of the longest test word."""

INSTEAD = {MAX_LENGTH: "max_n", SHIFTED: "max_offset"}
"""The field that each of these two sets in its own way."""
WHAT = {MAX_LENGTH: "the training window", SHIFTED: "where training words start"}


def _fields() -> dict[str, Any]:
    """The type of everything that a sweep may change, by its dotted name."""
    reserved = ("language", "regex", "symbols", "grammar", "rare", "recipe", "seed", "parent")
    types = {name: kind for name, kind in _types(TrainConfig).items() if name not in reserved}
    return {**types, MAX_LENGTH: int, SHIFTED: bool}


def _types(config: Any) -> dict[str, Any]:
    """The type of every field by its dotted name, as "model.counting.counters"."""
    types: dict[str, Any] = {}
    for name, kind in get_type_hints(config).items():
        if is_dataclass(kind):
            types |= {f"{name}.{part}": inner for part, inner in _types(kind).items()}
        else:
            types[name] = kind
    return types


FIELDS = _fields()


# -- the tables, as pydantic checks them ----------------------------------------------------------


def _changes(_: Any, handler: GetCoreSchemaHandler) -> CoreSchema:
    """A table that may hold any of the fields, and nothing else."""
    return _table({key: handler.generate_schema(kind) for key, kind in FIELDS.items()})


def _varied(_: Any, handler: GetCoreSchemaHandler) -> CoreSchema:
    """A table that may hold a list of values for any of the fields, and nothing else."""
    lists = {
        key: core_schema.list_schema(handler.generate_schema(kind)) for key, kind in FIELDS.items()
    }
    return core_schema.no_info_after_validator_function(_each_once, _table(lists))


def _variants(_: Any, handler: GetCoreSchemaHandler) -> CoreSchema:
    """A list of tables, each with a name."""
    fields = {key: handler.generate_schema(kind) for key, kind in FIELDS.items()}
    name = core_schema.str_schema(pattern=r"^[A-Za-z0-9][A-Za-z0-9_.-]*$")
    tables = core_schema.list_schema(_table(fields, name=name))
    return core_schema.no_info_after_validator_function(_by_name, tables)


def _table(may: Mapping[str, CoreSchema], **must: CoreSchema) -> CoreSchema:
    fields = {key: core_schema.typed_dict_field(s, required=False) for key, s in may.items()}
    fields |= {key: core_schema.typed_dict_field(s) for key, s in must.items()}
    strict = core_schema.CoreConfig(strict=True)  # that of the file does not reach in here
    return core_schema.typed_dict_schema(fields, extra_behavior="forbid", config=strict)


def _each_once(table: dict[str, list[Any]]) -> dict[str, tuple[Any, ...]]:
    for key, values in table.items():
        if not values:
            raise UserError(f"{key} in [vary] is []: write a list of values")
        _distinct(values, f"{key} in [vary]")
    return {key: tuple(values) for key, values in table.items()}


def _by_name(tables: list[dict[str, Any]]) -> dict[str, dict[str, Any]]:
    _distinct([table.get("name") for table in tables], "[[variants]]")
    return {table["name"]: {k: v for k, v in table.items() if k != "name"} for table in tables}


def _distinct(values: list[Any], where: str) -> None:
    for index, value in enumerate(values):
        if value in values[:index]:
            raise UserError(f"{where} has {value!r} twice: drop one")


def _languages(given: Any, where: str = "languages") -> tuple[str, ...]:
    """Languages by name or group. Raises UserError for unknown ones, one twice, or none."""
    names = [given] if isinstance(given, str) else given
    if not isinstance(names, list) or not all(isinstance(name, str) for name in names):
        raise UserError(f'{where} is {given!r}: write a list of names, or "table-1"')
    members = [member for name in names for member in GROUPS.get(name, (name,))]
    if not members:
        raise UserError(f"{where} is empty: name one")
    for name in members:
        language(name)
    _distinct(members, where)
    return tuple(members)


Changes = Annotated[Mapping[str, Any], GetPydanticSchema(_changes)]
Varied = Annotated[Mapping[str, tuple[Any, ...]], GetPydanticSchema(_varied)]
Variants = Annotated[Mapping[str, Mapping[str, Any]], GetPydanticSchema(_variants)]


class SweepFile(BaseModel):
    """The content of a sweep's file, checked.

    Attributes:
        question: the question of the sweep, in one sentence.
        languages: their registry names.
        seeds: the number of seeds, from 0 on.
        recipe: the recipe that is changed.
        skip_impossible: leave out combinations that the configuration refuses.
        further: the further measures of every run.
        exam: the exam by which every run is judged.
        measure: the measure by which settings are compared.
        fixed: changes of every recipe, by dotted name.
        vary: lists of values by dotted name; every combination of them is trained.
        variants: changes by the variant's name; empty where there are none.
        of_language: changes by language.
    """

    model_config = WRITTEN

    question: str
    languages: Annotated[tuple[str, ...], BeforeValidator(_languages)]
    seeds: int = Field(default=10, ge=1, le=10_000)
    recipe: Literal["plain", "counting"] = "plain"
    skip_impossible: bool = False
    further: list[Name] = Field(default=[], alias="measures")
    exam: Exam = Field(default=Exam(), alias="test")
    measure: Measure = Field(default=Measure(), alias="compare")
    fixed: Changes = {}
    vary: Varied = {}
    variants: Variants = {}
    of_language: dict[str, Changes] = Field(default={}, alias="language")

    @model_validator(mode="after")
    def _fits(self) -> Self:
        for name in self.of_language:
            if name not in self.languages:
                raise UserError(
                    f"[language.{name}] is for a language that this sweep does not have: "
                    "add the language, or drop the table"
                )
        _distinct(self.further, "measures")
        of = self.measure.measure.partition(".")[0]
        if of in FURTHER and of not in self.further:
            raise UserError(
                f'[compare] has measure = "{self.measure.measure}": add "{of}" to measures'
            )
        bands = self.measure.bands
        if bands and self.exam.lengths is not None:
            raise UserError("[compare] has bands of windows and [test] has lengths: leave one out")
        if bands and bands[-1] != self.exam.windows:
            raise UserError(
                f"bands end at {bands[-1]} windows and the test at {self.exam.windows}: make both "
                "end at the same"
            )
        self._refuse_twice()
        return self

    def _refuse_twice(self) -> None:
        """Refuses a field that two places set: one of the values would be lost. Only [fixed] may be
        overridden, because it is a default."""
        places = {"[vary]": set(self.vary)}
        places["[[variants]]"] = {key for changes in self.variants.values() for key in changes}
        places["[language]"] = {key for changes in self.of_language.values() for key in changes}
        for key in FIELDS:
            where = [place for place, keys in places.items() if key in keys]
            if key in self.fixed and key in self.vary:
                where.append("[fixed]")
            if len(where) > 1:
                raise UserError(f"{key} stands in {' and '.join(where)}: leave it in one")
        everywhere = set(self.fixed).union(*places.values())
        for key, field in INSTEAD.items():
            if {key, field} <= everywhere:
                raise UserError(f"{field} and {key} both set {WHAT[key]}: leave one out")

    def narrowed(
        self, languages: tuple[str, ...] = (), seeds: int | None = None, steps: int | None = None
    ) -> SweepFile:
        """The same sweep with other languages, another number of seeds, or other steps for all.

        Raises:
            UserError: an unknown language, or steps that the file varies.
        """
        changes: dict[str, Any] = {}
        if languages:
            changes["languages"] = _languages(list(languages), "--languages")
        if seeds is not None:
            changes["seeds"] = seeds
        if steps is not None:
            if "steps" in self.vary:
                raise UserError("the sweep varies the steps: leave --steps out")
            changes["fixed"] = {**self.fixed, "steps": steps}
            for place in ("variants", "of_language"):
                tables: Mapping[str, Mapping[str, Any]] = getattr(self, place)
                changes[place] = {
                    name: {key: value for key, value in table.items() if key != "steps"}
                    for name, table in tables.items()
                }
        return self.model_copy(update=changes)


# -- from the disk --------------------------------------------------------------------------------


def read(path: Path) -> SweepFile:
    """A sweep's file, checked. Raises UserError that names the file, the fault and the cure."""
    try:
        content = tomllib.loads(read_text(path, "check the path", MOST_BYTES))
    except RecursionError:
        raise UserError(f"{path} has lists or tables in too many others: write fewer") from None
    except ValueError as error:  # not TOML, or a number of thousands of digits
        raise UserError(f"{path} is not TOML ({error}): correct it there") from None
    try:
        return checked(content)
    except UserError as error:
        raise UserError(f"{path}: {error}") from None


def checked(content: Mapping[str, Any]) -> SweepFile:
    """The content of a file. Raises UserError for whatever does not fit."""
    try:
        return SweepFile.model_validate(content)
    except ValidationError as error:
        raise UserError(told(error.errors(include_url=False)[0], content, _known())) from None


def _known() -> dict[str, list[str]]:
    """The keys that may be written, by table; "" is the top of the file."""
    names = {name: field.alias or name for name, field in SweepFile.model_fields.items()}
    tables = {name: [*FIELDS] for name in ("fixed", "vary", "variants", "language")}
    sections = {"test": [*Exam.model_fields], "compare": [*Measure.model_fields]}
    return {"": [*names.values()], **tables, **sections}
