"""The one reader of JSON files that come from outside: every file is checked against a schema.

A run may be edited by hand, cut off by a full disk, or come from another program. Whoever reads a
file of it says what the file must hold, as a type that pydantic knows, and what helps if it does
not hold it. Whatever is wrong is then a UserError of one line.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Annotated, Any, Literal, NotRequired, TypeVar

from pydantic import ConfigDict, Field, TypeAdapter, ValidationError, with_config
from typing_extensions import TypedDict

from models.config import TrainConfig
from models.errors import UserError, first_fault, of_fields
from models.plain_files import read_bytes

T = TypeVar("T")

_adapter: Callable[[Any], TypeAdapter[Any]] = cache(TypeAdapter)

AS_WRITTEN = ConfigDict(strict=True, extra="allow")
"""No value is converted. Fields that a schema does not name are kept: another version of the lab
may know more of them."""

Step = Annotated[int, Field(ge=0, lt=2**53)]
"""A number of steps that fits a column of whole numbers."""


@with_config(AS_WRITTEN)
class RunRecord(TypedDict):
    """run.json."""

    status: Literal["training", "finished", "diverged"]
    config: dict[str, Any]  # ``TrainConfig.from_dict`` checks it
    device: NotRequired[str]
    sessions: NotRequired[list[dict[str, Any]]]
    steps: NotRequired[Step]
    seconds: NotRequired[float]
    selected_step: NotRequired[Step]
    selected_share: NotRequired[float]
    corpus_sha256: NotRequired[str]
    tokens_sha256: NotRequired[str]


@with_config(AS_WRITTEN)
class _Ending(TypedDict):
    """Further fields of run.json once the run is finished."""

    steps: Step
    seconds: float


@with_config(AS_WRITTEN)
class Evaluation(TypedDict):
    """A line of metrics.jsonl. Where a training diverged, a number may be missing."""

    step: Step
    loss: float | None
    validation_loss: float | None
    exact: float | None
    recognition: float | None
    selection: NotRequired[float]
    learning_rate: float
    seconds: float


@with_config(AS_WRITTEN)
class CheckpointRecord(TypedDict):
    """config.json of a checkpoint."""

    step: Step
    sha256: str
    vocabulary: list[str]
    config: dict[str, Any]


def read_record(path: Path, schema: type[T], cure: str) -> T:
    """The content of a JSON file, checked.

    Args:
        schema: what the file must hold: a TypedDict, a dataclass, a pydantic model.
        cure: the cure if the file is missing or damaged; the end of the error's sentence.

    Raises:
        UserError: the file cannot be read, is not JSON, or does not fit the schema.
    """
    return _checked(path, read_bytes(path, cure), schema, cure)


def read_run(path: Path, cure: str) -> RunRecord:
    """The content of a run.json, checked, with arguments and errors as ``read_record``."""
    content = read_bytes(path, cure)
    record = _checked(path, content, RunRecord, cure)
    if record["status"] != "training":
        _checked(path, content, _Ending, cure)
    return record


def config_of(path: Path, record: RunRecord | CheckpointRecord) -> TrainConfig:
    """The configuration that a record holds. Raises UserError, with the record's path, for one that
    this version of the lab cannot have."""
    try:
        return TrainConfig.from_dict(record["config"])
    except UserError as error:
        raise UserError(f"{path}: {of_fields(error)}") from None


def read_record_lines(path: Path, schema: type[T], cure: str) -> list[T]:
    """The lines of a JSON lines file, checked; a line that is still being written is left out.

    Args:
        schema: what each line must hold.
        cure: as in ``read_record``.

    Raises:
        UserError: as ``read_record``.
    """
    complete = read_bytes(path, cure).split(b"\n")[:-1]
    return [
        _checked(path, line, schema, cure, f"line {number}, ")
        for number, line in enumerate(complete, 1)
    ]


def _checked(path: Path, content: bytes, schema: type[T], cure: str, where: str = "") -> T:
    try:
        return _adapter(schema).validate_json(content)
    except ValidationError as error:
        fault = "not valid JSON" if error.errors()[0]["type"] == "json_invalid" else "damaged"
        raise UserError(f"{path} is {fault} ({where}{first_fault(error)}): {cure}") from None
