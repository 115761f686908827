"""What was asked is kept for itself: whole, by its options, weights and code, and never mixed."""

from __future__ import annotations

import ast
import os
import shutil
import subprocess
import sys
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from functools import cache
from importlib.metadata import EntryPoint
from itertools import count
from pathlib import Path
from typing import Any

import altair as alt
import pandas as pd
import pytest
from drawn import read_json

from analyses import answer_files, answers, rendering, source
from analyses.answer_files import Record, folders_of, kept_in
from analyses.answers import (
    Answer,
    Answers,
    Progress,
    Question,
    answer,
    arguments_of,
    numbers,
    save,
)
from analyses.registry import ENTRY_POINTS, registered
from analyses.source import MODELS, ROOT, code_of, source_hash
from models.config import TrainConfig
from models.errors import UserError
from models.model_config import ModelConfig
from models.runs.checkpoints import save_checkpoint
from models.runs.files import write_json
from models.runs.run import Run

NAME = "accuracy"
REMEMBERED = ("_files", "_hash", "_code", "_imported", "_of_module")
"""Functions of the source that is as it was when the process began."""


@dataclass(frozen=True)
class Asked:
    """Options of the question of these tests."""

    words: int = 3


@pytest.fixture
def run(tmp_path: Path) -> Run:
    model = ModelConfig(n_layers=1, n_heads=1, d_model=8, d_mlp=8)
    made = Run.create(tmp_path / "anbn-s0", TrainConfig(language="anbn", model=model))
    save_checkpoint(made.checkpoints, made.untrained(), made.config, 0)
    return made


@pytest.fixture
def calls(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """How many words each computation was asked for. The question answers with a row per word."""
    asked: list[int] = []

    def analyse(run: Run, options: Asked, progress: Progress) -> Answer:
        asked.append(options.words)
        table = pd.DataFrame({"row": range(options.words)})
        found = {"rows": options.words}
        return Answer(table, f"{options.words} rows", found, vars(options), run.model_hash())

    made = Question(
        NAME, "How many?", Asked, analyse, lambda _: numbers([]), lambda _: alt.Chart().mark_point()
    )
    monkeypatch.setattr(answers, "question", lambda name: made)
    monkeypatch.setattr(rendering, "render", lambda figure, suffix: b"drawn")
    return asked


def test_notes_beside_an_answer_are_kept(run: Run, calls: list[int]) -> None:
    first, _ = answer(run, NAME, Asked(3))
    assert first.folder is not None
    (first.folder / "note.txt").write_text("mine")
    answer(run, NAME, Asked(3), again=True)
    assert {path.name for path in run.results.iterdir()} == {f"{NAME}-1.kept", f"{NAME}-2"}
    kept = run.results / f"{NAME}-1.kept"
    assert [path.read_text() for path in kept.iterdir()] == ["mine"]
    assert len(kept_in(run.path, NAME)) == 1


def consistent(found: Answer) -> bool:
    return len(found.table) == found.findings["rows"] == found.arguments["words"]


def test_another_question_takes_no_place(run: Run, calls: list[int]) -> None:
    for words in (3, 7, 3, 7):
        found, _ = answer(run, NAME, Asked(words))
        assert consistent(found)
        assert found.arguments == {"words": words}
    assert calls == [3, 7]
    assert [path.name for path in folders_of(run.path, NAME)] == [f"{NAME}-1", f"{NAME}-2"]


def test_what_is_asked_again_replaces_itself_alone(run: Run, calls: list[int]) -> None:
    first, _ = answer(run, NAME, Asked(3))
    answer(run, NAME, Asked(7))
    again, known = answer(run, NAME, Asked(3), again=True)
    assert not known
    assert calls == [3, 7, 3]
    assert first.folder is not None
    assert not first.folder.exists()
    assert [each.record.arguments["words"] for each in kept_in(run.path, NAME)] == [3, 7]
    latest = Answers(run.path, NAME).latest()
    assert latest is not None
    assert latest.folder == again.folder
    assert {path.name for path in run.results.iterdir()} == {f"{NAME}-2", f"{NAME}-3"}


def test_an_answer_by_other_code_is_asked_anew(
    run: Run, calls: list[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    answer(run, NAME, Asked(3))
    with monkeypatch.context() as patch:
        patch.setattr(answers, "code_of", lambda name: "another")
        assert Answers.of(run, NAME).asked(arguments_of(Asked(3))) is None
        assert Answers(run.path, NAME).latest() is None
        _, known = answer(run, NAME, Asked(3))
        assert not known
    assert calls == [3, 3]
    assert len(kept_in(run.path, NAME)) == 1  # of no use to anybody


def test_an_answer_about_other_weights_is_asked_anew(run: Run, calls: list[int]) -> None:
    answer(run, NAME, Asked(3))
    other = replace(run.config, seed=1)
    model = Run.create(run.path.parent / "anbn-s1", other).untrained()
    save_checkpoint(run.checkpoints, model, run.config, 1)
    assert Answers.of(Run(run.path), NAME).asked(arguments_of(Asked(3))) is None
    answer(Run(run.path), NAME, Asked(3))
    assert calls == [3, 3]
    assert len(kept_in(run.path, NAME)) == 2  # that about the earlier weights is still true of them


@pytest.fixture
def copied(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A copy of the lab's source. What was remembered of the source itself is not used."""
    for place in ("models", "interp", "analyses"):
        shutil.copytree(ROOT / place, tmp_path / place)
    monkeypatch.setattr("analyses.source.ROOT", tmp_path)
    for name in REMEMBERED:
        monkeypatch.setattr(f"analyses.source.{name}", cache(getattr(source, name).__wrapped__))
    return tmp_path


def changed(copied: Path, file: str, line: str = "x = 1\n") -> set[str]:
    """Whose hashes see a line more: "heads" and "probing", questions; "sweep", a study; "models",
    of which activations are kept."""
    kinds = ("heads", "probing", "sweep")

    def hashes() -> dict[str, str]:
        for name in REMEMBERED:
            getattr(source, name).cache_clear()
        return {name: code_of(name) for name in kinds} | {"models": source_hash(*MODELS)}

    before = hashes()
    with (copied / file).open("a") as end:
        end.write(line)
    after = hashes()
    return {name for name in after if after[name] != before[name]}


@pytest.mark.parametrize(
    ("file", "seen"),
    [
        ("models/languages/vocabulary.py", {"heads", "probing", "sweep", "models"}),
        ("models/transformer/positions.py", {"heads", "probing", "sweep", "models"}),
        ("models/rivals/recurrent.py", {"heads", "probing", "sweep", "models"}),
        ("models/objectives/tags.py", {"heads", "probing", "sweep", "models"}),
        ("models/training/batches.py", {"heads", "probing", "sweep", "models"}),
        ("interp/heads/types.py", {"heads", "sweep", "models"}),
        ("interp/probing/probes.py", {"probing", "sweep", "models"}),
        ("analyses/questions/parts/heads.py", {"heads", "sweep"}),
        ("analyses/studies/seeds.py", {"sweep"}),
        ("analyses/answers.py", {"heads", "probing", "sweep"}),
        ("analyses/claims.py", {"heads", "probing", "sweep"}),
        ("analyses/knowledge.py", {"heads", "probing", "sweep"}),
        ("models/languages/dieren.tsv", {"heads", "probing", "sweep", "models"}),
        ("analyses/charts/theme.py", set()),
        ("analyses/options/questions.py", set()),
    ],
)
def test_the_hash_of_the_source_sees_what_an_answer_imports(
    copied: Path, file: str, seen: set[str]
) -> None:
    assert changed(copied, file) == seen


def test_the_hash_of_the_source_sees_no_words_for_readers(copied: Path) -> None:
    (copied / "interp/heads/types.py").write_text('"""One."""\nx = 1\n')
    before = code_of("heads")
    (copied / "interp/heads/types.py").write_text('"""Two,\n\nthree."""\n# four\nx = 1\n')
    for name in REMEMBERED:
        getattr(source, name).cache_clear()
    assert code_of("heads") == before
    assert "heads" in changed(copied, "interp/heads/types.py", 'y = """five"""\n')


def emptied(tree: ast.Module) -> str:
    """A tree with empty docstrings."""
    for node in ast.walk(tree):
        match node:
            case ast.Expr(ast.Constant(str())):
                node.value.value = ""
    return ast.dump(tree)


def test_nothing_but_words_for_readers_is_left_out_of_the_hash() -> None:
    files = [file for file in source._files(source.ANSWERS) if file.suffix == ".py"]
    assert len(files) > 300
    for file in files:
        text = file.read_text()
        left = ast.parse(source._without_words(text))
        assert ast.dump(left) == emptied(ast.parse(text)), file


def test_whatever_python_imports_for_a_question_counts() -> None:
    asked = (
        "import sys, analyses.questions.rule.discovery\n"
        "print(*(m.__file__ for m in sys.modules.values() if getattr(m, '__file__', None)))"
    )
    done = subprocess.run(
        [sys.executable, "-c", asked], cwd=ROOT, capture_output=True, text=True, check=True
    )
    rooms = tuple(str(ROOT / room) for room in ("models", "interp", "analyses"))
    files = {Path(name) for name in done.stdout.split() if name.startswith(rooms)}
    assert len(files) > 50
    assert files <= source._imported("analyses.questions.rule.discovery")


def test_the_question_of_another_package_counts_with_its_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "theirs.py").write_text("first = 1\n")
    monkeypatch.syspath_prepend(tmp_path)
    points = [EntryPoint(name, "theirs:QUESTION", ENTRY_POINTS) for name in ("own", "heads")]
    monkeypatch.setattr("analyses.registry.entry_points", lambda group: points)
    monkeypatch.setattr("analyses.source.registered", registered.__wrapped__)
    for name in REMEMBERED[:3]:
        monkeypatch.setattr(f"analyses.source.{name}", getattr(source, name).__wrapped__)
    before = code_of("own"), code_of("heads")
    (tmp_path / "theirs.py").write_text("second = 2\n")
    assert code_of("own") != before[0]
    assert code_of("heads") == before[1]  # it is the lab's own


def test_two_who_ask_the_same_compute_it_once(run: Run, calls: list[int]) -> None:
    with ThreadPoolExecutor(8) as pool:
        found = list(pool.map(lambda _: answer(run, NAME, Asked(3)), range(8)))
    assert calls == [3]
    assert sorted(known for _, known in found) == [False] + [True] * 7
    assert {path.name for path in run.results.iterdir()} == {f"{NAME}-1"}


@pytest.mark.parametrize("rounds", [8, pytest.param(30, marks=pytest.mark.torture)])
def test_readers_never_see_a_mixture(run: Run, calls: list[int], rounds: int) -> None:
    """Two writers renew two questions while readers read."""
    for words in (3, 7):
        answer(run, NAME, Asked(words))
    done = threading.Event()

    def renew(words: int) -> None:
        for _ in range(rounds):
            answer(run, NAME, Asked(words), again=True)

    def read(_: int) -> int:
        reads = 0
        while not done.is_set() or not reads:
            for found in (
                Answers(run.path, NAME).latest(),
                *(Answers.of(run, NAME).asked(arguments_of(Asked(w))) for w in (3, 7)),
            ):
                assert found is not None
                assert consistent(found)
                reads += 1
        return reads

    with ThreadPoolExecutor(6) as pool:
        readers = [pool.submit(read, number) for number in range(4)]
        for writer in [pool.submit(renew, words) for words in (3, 7)]:
            writer.result()
        done.set()
        assert all(reader.result() for reader in readers)
    assert sorted(each.record.arguments["words"] for each in kept_in(run.path, NAME)) == [3, 7]


def test_an_answer_renewed_while_its_folders_are_listed_is_found(
    run: Run, calls: list[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    answer(run, NAME, Asked(3))
    listed = answer_files._listed
    renewals = iter(range(3))

    def renewed_meanwhile(folder: Path, name: str) -> list[Path]:
        folders = listed(folder, name)
        if next(renewals, None) is not None:
            with monkeypatch.context() as undone:
                undone.setattr(answer_files, "_listed", listed)
                answer(run, NAME, Asked(3), again=True)
        return folders

    monkeypatch.setattr(answer_files, "_listed", renewed_meanwhile)
    found = Answers.of(run, NAME).asked(arguments_of(Asked(3)))
    assert found is not None
    assert consistent(found)
    assert len(calls) == 4


def test_an_answer_renewed_before_its_table_is_read_is_found(
    run: Run, calls: list[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    answer(run, NAME, Asked(3))
    read, renewals = answer_files.read_bytes, iter(range(3))

    def renewed_before(*about: Any) -> bytes:
        if next(renewals, None) is not None:
            answer(run, NAME, Asked(3), again=True)
        return read(*about)

    monkeypatch.setattr(answer_files, "read_bytes", renewed_before)
    found = Answers.of(run, NAME).asked(arguments_of(Asked(3)))
    assert found is not None
    assert consistent(found)
    assert len(calls) == 4


def test_an_answer_that_is_half_removed_is_not_there(
    run: Run, calls: list[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whoever was stopped while it removed the old answer has left the new one alone."""
    answer(run, NAME, Asked(3))

    def stopped(path: Path, missing_ok: bool = False) -> None:
        unlink(path, missing_ok)
        if path.name == f"{NAME}.parquet":
            raise KeyboardInterrupt

    unlink = Path.unlink
    with monkeypatch.context() as patch:
        patch.setattr(Path, "unlink", stopped)
        with pytest.raises(KeyboardInterrupt):
            answer(run, NAME, Asked(3), again=True)
    assert [path.name for path in folders_of(run.path, NAME)] == [f"{NAME}-2"]
    found = Answers(run.path, NAME).latest()
    assert found is not None
    assert consistent(found)


def test_an_interrupt_leaves_the_old_answer(
    run: Run, calls: list[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Wherever the writing stops, what was kept before is whole, and what is new is not there."""
    answer(run, NAME, Asked(3))
    before = {file: file.read_bytes() for file in run.results.rglob("*") if file.is_file()}

    def stop_at(call: int) -> Callable[..., None]:
        calls = count(1)

        def fsync(handle: int) -> None:
            if next(calls) == call:
                raise KeyboardInterrupt

        return fsync

    for call in (1, 2, 3, 4):
        monkeypatch.setattr("models.runs.files.os.fsync", stop_at(call))
        with pytest.raises(KeyboardInterrupt):
            answer(run, NAME, Asked(7))
        after = {file: file.read_bytes() for file in run.results.rglob("*") if file.is_file()}
        assert after == before


def test_a_damaged_answer_is_told_and_hides_no_other(run: Run, calls: list[int]) -> None:
    found, _ = answer(run, NAME, Asked(3))
    assert found.folder is not None
    record = found.folder / f"{NAME}.json"
    for damage in (None, [], 3, {"sentence": "?"}, {**read_json(record), "findings": []}):
        write_json(record, damage)
        with pytest.raises(UserError, match=f"remove the folder {found.folder}"):
            Answers(run.path, NAME).latest()
    other, _ = save_and_load(run, 7)
    assert consistent(other)


def test_a_foreign_table_and_changed_findings_are_told(run: Run, calls: list[int]) -> None:
    """A question would look in vain for its columns and numbers."""
    found, _ = answer(run, NAME, Asked(3))
    assert found.folder is not None
    table, record = (found.folder / f"{NAME}.{ending}" for ending in ("parquet", "json"))
    whole = table.read_bytes()
    for content, findings in (
        (pd.DataFrame({"foreign": [1]}).to_parquet(), {"rows": 3}),
        (whole, {}),
        (whole, {"rows": 4}),
    ):
        table.write_bytes(content)
        write_json(record, {**read_json(record), "findings": findings})
        with pytest.raises(UserError, match=f"damaged, .*: remove the folder {found.folder}"):
            Answers(run.path, NAME).latest()
    write_json(record, {**read_json(record), "findings": {"rows": 3}})
    again = Answers(run.path, NAME).latest()
    assert again is not None
    assert consistent(again)


def test_a_table_without_an_end_is_not_read(run: Run, calls: list[int]) -> None:
    found, _ = answer(run, NAME, Asked(3))
    assert found.folder is not None
    os.truncate(found.folder / f"{NAME}.parquet", 15 * 2**30)  # takes no room on the disk
    with pytest.raises(UserError, match=f"far too many .*: remove the folder {found.folder}"):
        Answers(run.path, NAME).latest()


def save_and_load(run: Run, words: int) -> tuple[Answer, Path]:
    """An answer beside a damaged one."""
    table = pd.DataFrame({"row": range(words)})
    made = Answer(table, "?", {"rows": words}, {"words": words}, run.model_hash())
    saved = save(run.path, NAME, "How many?", made, None)
    found = Answers(run.path, NAME).latest()
    assert found is not None
    assert saved.folder is not None
    return found, saved.folder


def test_what_an_older_lab_kept_is_not_read(run: Run, calls: list[int]) -> None:
    """Its files lay in the folder of results itself."""
    run.results.mkdir()
    write_json(run.results / f"{NAME}.json", {"sentence": "old", "findings": {}})
    (run.results / f"{NAME}.parquet").write_bytes(b"old")
    assert Answers(run.path, NAME).latest() is None
    assert answer(run, NAME, Asked(3))[1] is False


def test_a_record_knows_its_question(run: Run, calls: list[int]) -> None:
    found, _ = answer(run, NAME, Asked(3))
    assert found.folder is not None
    found.folder.rename(run.results / "heads-1")
    (run.results / "heads-1" / f"{NAME}.json").rename(run.results / "heads-1" / "heads.json")
    with pytest.raises(UserError, match="answers accuracy"):
        Answers(run.path, "heads").latest()
    assert set(Record.model_fields) >= {"analysis", "code", "asked_at", "versions"}


@pytest.mark.parametrize(
    "said",
    [
        "Saving charts in 'svg' format requires the vl-convert-python package: see https://",
        "conversion failed:\nFailed to retrieve conversion result: oneshot canceled",
    ],
)
def test_a_picture_without_memory_is_one_line(said: str, monkeypatch: pytest.MonkeyPatch) -> None:
    def starved(*_: object, **__: object) -> None:
        raise ValueError(said)

    chart = alt.Chart(pd.DataFrame({"x": [1]})).mark_bar()
    monkeypatch.setattr(alt.Chart, "save", starved)
    with pytest.raises(UserError, match=r"^no picture can be drawn [^\n]*`ulimit -n 1024`$"):
        rendering.render(chart, "svg")


def test_answers_that_may_not_be_read_are_told(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    """Not as if nobody had asked."""

    def closed(path: str) -> None:
        raise PermissionError(13, "Permission denied", path)

    monkeypatch.setattr("models.plain_files.os.scandir", closed)
    with pytest.raises(UserError, match=r"^cannot read \S*results \(Permission denied\): "):
        kept_in(run.path, NAME)
