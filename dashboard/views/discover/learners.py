"""The processes that learn a corpus, each a `lab rule`, which lives on when the page is closed."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from itertools import count
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from analyses.rules.lines import as_tsv, prepared
from analyses.rules.narrowing import with_answers
from analyses.rules.record import FOLDER, LINES, RECORD
from dashboard import processes
from dashboard.selection import runs_folder
from models.errors import UserError
from models.languages import Word
from models.languages.files.lines import plain_lines
from models.runs.files import as_json, make_folder

LOG = ".lab-log"


def folder_of(name: str) -> Path:
    """The folder of a corpus."""
    return runs_folder() / FOLDER / name


def learn(name: str, labels: list[str], words: list[Word], notes: list[str]) -> str:
    """Has prepared lines learned, and returns the name that their corpus has got.

    The name has a number if other lines have it already. If these very lines are known already,
    nothing is begun.
    """
    content = as_tsv(labels, words).encode()
    record = {"status": "learning", "doing": "starting", "notes": notes, "networks": []}
    while not _is_known(name := _free_name(name, content), content):
        files = {LINES: content, RECORD: as_json({**record, "name": name, "options": {}})}
        if make_folder(folder_of(name), files):  # another tab may have been faster
            begin(name, {})
            break
    return name


def learn_again(folder: Path, record: Mapping[str, Any], answers: Mapping[Word, bool]) -> str:
    """Has the lines of a discovery learned together with answers, as a corpus of its own; returns
    its name, which is that of the discovery with a number."""
    content = as_tsv(*with_answers(folder, record, answers)).encode()
    labels, words, notes = lines_of(content, LINES, record["labels"][0])
    first = re.sub(r"-\d+$", "", folder.name)
    name = first if folder_of(first).exists() else folder.name
    return learn(name, labels, words, [*record.get("notes", []), *notes])


def lines_of(
    content: bytes,
    file: str,
    accepted: str | None = None,
    columns: Sequence[str] = (),
    letters: bool = False,
) -> tuple[list[str], list[Word], list[str]]:
    """``prepared`` on lines that are no file yet. Nothing of it is kept.

    Args:
        file: the name of the lines in an error.
        columns: those of labels and texts, if the reader names them.
        letters: cut texts into letters.
    """
    with TemporaryDirectory() as folder:
        path = Path(folder) / "lines"
        path.write_bytes(content)
        try:
            with plain_lines(path, ("label", "text"), columns, letters) as lines:
                return prepared(lines, accepted)
        except UserError as error:
            raise UserError(str(error).replace(str(path), file)) from None


def _free_name(name: str, content: bytes) -> str:
    """The name, or the first one with a number, that no other lines and no other runs have."""
    tried = (name if number == 1 else f"{name}-{number}" for number in count(1))
    return next(trial for trial in tried if _is_known(trial, content) or _is_free(trial))


def _is_known(name: str, content: bytes) -> bool:
    """Does the corpus of this name have these very lines?"""
    lines = folder_of(name) / LINES
    return lines.is_file() and lines.read_bytes() == content


def _is_free(name: str) -> bool:
    """Does neither a corpus nor a run bear this name?"""
    return not folder_of(name).exists() and not any(runs_folder().glob(f"{name}-*"))


def begin(name: str, options: Mapping[str, Any]) -> None:
    """Starts to learn the lines that lie in the folder of a corpus, or goes on with them.

    Args:
        options: the options of an earlier `lab rule`, as its record has them.
    """
    folder = folder_of(name)
    command = ["rule", str(folder / LINES)]
    command += ["--out", str(runs_folder()), "--name", name]
    for option in ("networks", "queries", "minutes", "seed", "device"):
        if option in options:
            command += [f"--{option}", str(options[option])]
    if options.get("rivals") is False:
        command.append("--no-rivals")
    processes.begin(folder, command, folder / LOG)


def is_learning(name: str) -> bool:
    """Does a process learn this corpus now, here or from a command line?"""
    return processes.is_working(folder_of(name))


def fault(name: str) -> str | None:
    """Why the learner that a page has started failed; None where it did not say so."""
    return processes.fault(folder_of(name) / LOG)
