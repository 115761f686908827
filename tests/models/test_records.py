"""Whatever is wrong with a file of JSON is one line that names the file, the fault and the cure."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from models.errors import UserError
from models.plain_files import read_bytes
from models.runs.records import Evaluation, RunRecord, read_record, read_record_lines

LINE = (
    b'{"step": 3, "loss": 0.5, "validation_loss": NaN, "exact": null, "recognition": 1, '
    b'"learning_rate": 0.002, "seconds": 0.1}'
)


def test_what_fits_is_read_as_it_stands(tmp_path: Path) -> None:
    """An integer may stand for a number, and fields of another version are kept."""
    path = tmp_path / "run.json"
    path.write_text('{"status": "finished", "config": {"a": [1]}, "steps": 12, "new": {"b": null}}')
    record = read_record(path, RunRecord, "restore it")
    assert record["steps"] == 12
    assert dict(record)["new"] == {"b": None}


FAULTS: dict[str, tuple[bytes, str]] = {
    "empty": (b"", "is not valid JSON"),
    "half": (b'{"status": "fin', "is not valid JSON"),
    "binary": (b"\xff\x00\xfe", "is not valid JSON"),
    "deep": (b"[" * 100_000, r"is not valid JSON \(line 1 column "),
    "long number": (b'{"steps": ' + b"9" * 5000 + b"}", "is not valid JSON"),
    "list": (b"[]", r"is damaged \(it is not an object\)"),
    "null": (b"null", r"is damaged \(it is not an object\)"),
    "no status": (b'{"config": {}}', r"is damaged \(status is missing\)"),
    "status": (b'{"config": {}, "status": "stopped"}', "status is none of training, finished, "),
    "config": (b'{"config": [], "status": "finished"}', "config is not an object"),
    "steps": (b'{"config": {}, "status": "finished", "steps": 1.5}', "steps is not a whole number"),
    "text": (b'{"config": {}, "status": "finished", "steps": "12"}', "steps is not a whole number"),
    "huge": (
        b'{"config": {}, "status": "finished", "steps": 1' + b"0" * 30 + b"}",
        r"steps must be below \d+",
    ),
}


@pytest.mark.parametrize("name", FAULTS)
def test_every_damage_is_one_line(tmp_path: Path, name: str) -> None:
    content, fault = FAULTS[name]
    path = tmp_path / "run.json"
    path.write_bytes(content)
    with pytest.raises(UserError, match=rf"^{path} [^\n]*{fault}[^\n]*: restore it$"):
        read_record(path, RunRecord, "restore it")


def test_what_is_no_file_is_not_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Reading the pipe would wait for ever."""
    with pytest.raises(UserError, match=rf"^cannot read {tmp_path}/none \(No such .*\): look$"):
        read_record(tmp_path / "none", RunRecord, "look")
    with pytest.raises(UserError, match=r"is a folder, not a file: look$"):
        read_record(tmp_path, RunRecord, "look")
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(UserError, match=r"pipe is not a plain file: look$"):
        read_record(tmp_path / "pipe", RunRecord, "look")
    monkeypatch.setattr("models.plain_files.MOST_BYTES", 2**20)
    with (tmp_path / "large").open("wb") as file:
        file.truncate(2**21)
    with pytest.raises(UserError, match=r"large has 2 MiB, far too many \(at most 1\): look$"):
        read_record(tmp_path / "large", RunRecord, "look")
    with pytest.raises(UserError, match=r"has 2097152 bytes, far too many \(at most 9\): look$"):
        read_bytes(tmp_path / "large", "look", 9)


def test_lines_are_read_but_for_the_one_being_written(tmp_path: Path) -> None:
    path = tmp_path / "metrics.jsonl"
    path.write_bytes(LINE + b"\n" + LINE + b"\n" + LINE[:20])
    assert [line["step"] for line in read_record_lines(path, Evaluation, "look")] == [3, 3]


@pytest.mark.parametrize(
    "line", [b"", b"[1]", b"\xff", b'{"step": -1}', LINE.replace(b"0.5", b'"x"')]
)
def test_a_damaged_line_is_named(tmp_path: Path, line: bytes) -> None:
    path = tmp_path / "metrics.jsonl"
    path.write_bytes(LINE + b"\n" + line + b"\n")
    with pytest.raises(UserError, match=rf"^{path} [^\n]*\(line 2, [^\n]*\): look$"):
        read_record_lines(path, Evaluation, "look")


def test_a_file_that_says_it_is_empty_is_not_waited_for(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As /proc/kmsg, a plain file of no bytes, whose reader waits for ever."""

    def wait(path: Path) -> bytes:
        raise AssertionError("for ever")

    monkeypatch.setattr(Path, "read_bytes", wait)
    (tmp_path / "empty").touch()
    assert read_bytes(tmp_path / "empty", "look") == b""
