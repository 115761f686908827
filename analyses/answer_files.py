"""Kept answers: a folder for each, which is there as a whole or not at all.

    results/patching-1/patching.parquet       the table
                       patching.json          the record: what was asked, and what came out
                       patching.{svg,html}    the chart; the page holds all it needs, offline
    results/patching-2/...                    the same question, asked with other options

Nothing is written over. An answer that is asked again is written beside the old one, which is
removed after that. So a reader finds the old one or the new one.
"""

from __future__ import annotations

import hashlib
import io
import json
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from itertools import count
from pathlib import Path
from typing import Any

import pandas as pd
from pydantic import BaseModel, ConfigDict

from analyses.claims import Claim, Knowledge
from models.errors import UserError
from models.plain_files import folders_in, read_bytes
from models.runs.files import as_json, make_folder, remove_folder
from models.runs.records import read_record

RESULTS = "results"
ENDINGS = ("parquet", "json", "svg", "html")
"""The endings of an answer's files."""
MOST_BYTES = 2**30
"""The most bytes of a table. It is compressed, and is read as a whole."""
TRIES = 100
"""Tries of a reader, who looks again when answers were renewed meanwhile."""


class Record(BaseModel):
    """The record of a kept answer.

    Attributes:
        analysis: the name of the question.
        question: the question in words.
        sentence: the answer in words.
        arguments: the options that it was asked with.
        model_hash: SHA-256 of the weights; "" where there were several models.
        findings: the numbers behind the sentence.
        numbers: the headline: variable, of and value of each number that is compared over seeds.
        claims: the findings, held against their controls.
        knowledge: the network's knowledge of its language.
        code: the version of the lab that answered, from ``analyses.source``.
        asked_at: the time of the answer, in ISO 8601, UTC.
        seconds: the seconds that the answer took; None for a study.
        versions: the versions of Python and of the libraries, by name.
        sha256: SHA-256 of the table's file, the findings and the numbers. It shows that none of
            them was changed.
    """

    model_config = ConfigDict(frozen=True)

    analysis: str
    question: str
    sentence: str
    arguments: dict[str, Any]
    model_hash: str
    findings: dict[str, Any]
    numbers: tuple[tuple[str, str, float | None], ...] = ()
    claims: tuple[Claim, ...] = ()
    knowledge: Knowledge | None = None
    code: str
    asked_at: str
    seconds: float | None = None
    versions: dict[str, str] = {}
    sha256: str = ""


@dataclass(frozen=True)
class Kept:
    """An answer's folder and its record; the table is not read yet."""

    folder: Path
    record: Record

    def content(self) -> bytes:
        """The bytes of the table's file, checked.

        Raises:
            FileNotFoundError: the answer was renewed just now.
            UserError: the table is damaged.
        """
        file = self.folder / f"{self.record.analysis}.parquet"
        try:
            content = read_bytes(file, _cure_of(self.folder), MOST_BYTES)
        except UserError:
            if not file.exists():
                raise FileNotFoundError(file) from None
            raise
        if seal(content, self.record) != self.record.sha256:
            raise self.damaged()
        return content

    def damaged(self) -> UserError:
        """The error for a table that cannot be read."""
        file = self.folder / f"{self.record.analysis}.parquet"
        return UserError(f"{file} is damaged, or the .json beside it: {_cure_of(self.folder)}")


def seal(table: bytes, record: Record) -> str:
    """SHA-256 of a table's file, and of the findings and numbers of a record as it is read."""
    written = json.dumps(record.findings, sort_keys=True)
    numbers = json.dumps(record.numbers) if record.numbers else ""
    return hashlib.sha256(table + written.encode() + numbers.encode()).hexdigest()


def _cure_of(folder: Path) -> str:
    """The cure for a damaged folder of an answer."""
    return f"remove the folder {folder} and ask again, with the command that made it"


def folders_of(folder: Path, name: str) -> list[Path]:
    """The folders of the kept answers to a question, in the order of their numbers.

    Args:
        folder: the folder of a run or of a study.
    """
    return [path for path in _listed(folder, name) if (path / f"{name}.json").exists()]


def _listed(folder: Path, name: str) -> list[Path]:
    """The paths with the names of a question's answers, by number, listed at one moment.

    A number is never given twice. So two equal lists show that nothing was renewed in between.

    Raises:
        UserError: they may not be read.
    """
    numbered = re.compile(rf"{re.escape(name)}-(\d+)")
    names = folders_in(folder / RESULTS)
    pairs = [(int(number[1]), number[0]) for item in names if (number := numbered.fullmatch(item))]
    return [folder / RESULTS / item for _, item in sorted(pairs)]


def kept_in(folder: Path, name: str) -> list[Kept]:
    """All kept answers to a question, the newest first.

    Raises:
        UserError: the record of one is damaged, and all the others are, too.
    """
    for _ in range(TRIES):
        listed = _listed(folder, name)
        answers, faults = _read(listed, name)
        if listed == _listed(folder, name):  # else the renewed one may be on neither list
            break
    if faults and not answers:
        raise faults[0]
    return sorted(answers, key=lambda kept: kept.record.asked_at, reverse=True)


def _read(folders: list[Path], name: str) -> tuple[list[Kept], list[UserError]]:
    """The answers in these folders, the last first, and the faults of those that are damaged."""
    answers: list[Kept] = []
    faults: list[UserError] = []
    for path in folders:
        file = path / f"{name}.json"
        if not file.exists():  # it is no answer, or it was renewed just now
            continue
        try:
            record = read_record(file, Record, _cure_of(path))
        except UserError as fault:
            if path.exists():  # else it was renewed just now
                faults.append(fault)
            continue
        if record.analysis == name:
            answers.insert(0, Kept(path, record))
        else:
            faults.append(UserError(f"{file} answers {record.analysis}: {_cure_of(path)}"))
    return answers, faults


def newest(folder: Path, name: str, fits: Callable[[Record], bool]) -> tuple[Kept, bytes] | None:
    """The newest kept answer that fits, with the bytes of its table; None where there is none.

    Raises:
        UserError: the answer is damaged.
    """
    for tries_left in reversed(range(TRIES)):
        kept = next((kept for kept in kept_in(folder, name) if fits(kept.record)), None)
        if kept is None:
            break
        try:
            return kept, kept.content()
        except FileNotFoundError:  # it was renewed just now: look again
            if not tries_left:
                raise kept.damaged() from None
    return None


def write(folder: Path, record: Record, table: pd.DataFrame, pictures: Mapping[str, bytes]) -> Path:
    """Keeps an answer, and removes the older ones to the same question about the same weights.

    Args:
        folder: the folder of a run or of a study.
        pictures: the chart, by the ending of its file.

    Returns:
        The answer's own folder.

    Raises:
        UserError: the answer cannot be written; what was kept before is untouched.
    """
    record = Record.model_validate_json(as_json(record.model_dump()))  # as a reader will have it
    name, buffer = record.analysis, io.BytesIO()
    table.to_parquet(buffer, index=False)
    digest = seal(buffer.getvalue(), record)
    files = {
        f"{name}.parquet": buffer.getvalue(),
        **{f"{name}.{ending}": picture for ending, picture in pictures.items()},
        f"{name}.json": as_json(record.model_dump() | {"sha256": digest}),
    }
    try:
        before = kept_in(folder, name)
    except UserError:
        before = []  # all damaged: they stay, for somebody to look at
    numbers = [int(path.name.rpartition("-")[2]) for path in folders_of(folder, name)]
    for number in count(max(numbers, default=0) + 1):  # pragma: no branch
        path = folder / RESULTS / f"{name}-{number}"
        if make_folder(path, files):
            break
    for kept in before:
        same = ("arguments", "model_hash")
        if all(getattr(kept.record, key) == getattr(record, key) for key in same):
            remove_folder(kept.folder, [f"{name}.{ending}" for ending in ENDINGS])
    return path
