"""Files are whole or absent, also where the system refuses to write."""

from __future__ import annotations

import errno
import os
import resource
import signal
import subprocess
import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from functools import partial
from pathlib import Path

import pytest
from conftest import tiny_config
from drawn import read_json

from models.errors import UserError
from models.runs.checkpoints import save_checkpoint
from models.runs.files import (
    PARTIAL,
    _partial_name,
    is_locked,
    locked,
    make_folder,
    write_bytes,
    write_folder,
    write_json,
)
from models.runs.run import METRICS, Run
from models.training.loop import train
from models.training.state import STATE

ONE_LINE = r"^cannot write [^\n]+ \([^\n]+\): [^\n]+$"
HEX = "0123456789abcdef" * 2


@contextmanager
def full_disk(limit: int) -> Iterator[None]:
    """No file may grow beyond so many bytes: the system's own refusal, as on a full disk."""
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    assert signal.getsignal(signal.SIGXFSZ) == signal.SIG_IGN
    resource.setrlimit(resource.RLIMIT_FSIZE, (limit, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))


def tree(folder: Path) -> dict[str, bytes]:
    return {str(f.relative_to(folder)): f.read_bytes() for f in folder.rglob("*") if f.is_file()}


def test_a_file_is_replaced(tmp_path: Path) -> None:
    path = tmp_path / "deep" / "file.bin"
    write_bytes(path, b"old")
    write_bytes(path, b"new")
    assert tree(tmp_path) == {"deep/file.bin": b"new"}


def test_a_folder_is_replaced_as_a_whole(tmp_path: Path) -> None:
    write_folder(tmp_path / "deep" / "folder", {"a": b"1", "b": b"2"})
    write_folder(tmp_path / "deep" / "folder", {"a": b"3", "b": b"4"})
    assert tree(tmp_path) == {"deep/folder/a": b"3", "deep/folder/b": b"4"}
    assert [path.name for path in (tmp_path / "deep").iterdir()] == ["folder"]


def test_json_is_written_and_read(tmp_path: Path) -> None:
    content = {"naïve": [1, 2.5, None, True]}
    write_json(tmp_path / "x.json", content)
    assert read_json(tmp_path / "x.json") == content
    assert "naïve" in (tmp_path / "x.json").read_text(encoding="utf-8")


def test_a_full_disk_leaves_the_old_file(tmp_path: Path) -> None:
    path = tmp_path / "file.bin"
    write_bytes(path, b"old")
    with full_disk(1000), pytest.raises(UserError, match=ONE_LINE):
        write_bytes(path, bytes(5000))
    assert tree(tmp_path) == {"file.bin": b"old"}


def test_a_full_disk_leaves_the_old_folder(tmp_path: Path) -> None:
    """The second file does not fit: the first is not left behind either."""
    path = tmp_path / "folder"
    write_folder(path, {"a": b"old", "b": b"old"})
    before = tree(tmp_path)
    with full_disk(1000), pytest.raises(UserError, match=ONE_LINE):
        write_folder(path, {"a": b"new", "b": bytes(5000)})
    assert tree(tmp_path) == before
    assert sorted(p.name for p in tmp_path.iterdir()) == ["folder"]


def test_a_full_disk_leaves_the_old_checkpoint(trained: Run) -> None:
    before = tree(trained.path)
    with full_disk(1000), pytest.raises(UserError, match=ONE_LINE):
        save_checkpoint(trained.checkpoints, trained.untrained(), trained.config, 12)
    assert tree(trained.path) == before


@pytest.mark.parametrize("limit", [100, 3000, 12000])
def test_a_run_on_a_full_disk_goes_on_when_there_is_room(
    trained: Run, tmp_path: Path, limit: int
) -> None:
    """The smaller limits stop a checkpoint, the largest lets the weights pass but not the state."""
    run = Run.create(tmp_path / "b", trained.config)
    with full_disk(limit), pytest.raises(UserError, match=ONE_LINE):
        train(run, device="cpu")
    assert not list(run.path.rglob("*.partial"))
    train(run, device="cpu")
    assert run.record["status"] == "finished"
    assert run.model_and_hash()[1] == trained.model_and_hash()[1]
    steps = [line["step"] for line in run.metrics()]
    assert steps == [line["step"] for line in trained.metrics()]


def test_a_training_that_begins_again_on_a_full_disk_keeps_its_checkpoints(trained: Run) -> None:
    (trained.path / STATE).unlink()
    trained.update(status="training")
    before = trained.steps()
    with full_disk(1000), pytest.raises(UserError, match=ONE_LINE):
        train(trained, device="cpu")
    assert trained.steps() == before


def test_a_training_that_cannot_go_on_changes_nothing(tmp_path: Path) -> None:
    """A file stands where checkpoints belong; or the saved state is a link to a disk that is gone:
    taken for no state at all, the training would begin again and remove later checkpoints."""

    def stop(step: int, value: float | None) -> None:
        if step == 7:
            raise KeyboardInterrupt

    run = Run.create(tmp_path / "run", tiny_config(steps=12, evaluate_every=5))
    with pytest.raises(KeyboardInterrupt):
        train(run, "cpu", stop)
    run.checkpoints.rename(run.path / "moved")
    run.checkpoints.touch()
    before = tree(run.path)
    with pytest.raises(UserError, match="a file is in the way"):
        train(run, device="cpu")
    assert tree(run.path) == before
    run.checkpoints.unlink()
    (run.path / "moved").rename(run.checkpoints)
    (run.path / STATE).rename(tmp_path / "moved")
    (run.path / STATE).symlink_to("gone")
    before = tree(run.path)
    with pytest.raises(UserError, match="No such file or directory"):
        train(run, device="cpu")
    assert tree(run.path) == before


@pytest.mark.parametrize("below", ["", "deep", "deep/deeper"])
def test_a_folder_that_cannot_be_is_refused_in_one_line(tmp_path: Path, below: str) -> None:
    """Below a file there is no folder, for root neither."""
    (tmp_path / "file").write_text("in the way")
    path = tmp_path / "file" / below / "x"
    with pytest.raises(UserError, match=ONE_LINE):
        write_bytes(path, b"content")
    with pytest.raises(UserError, match=ONE_LINE):
        write_folder(path, {"a": b"content"})
    with pytest.raises(UserError, match=ONE_LINE):
        Run.create(path, tiny_config())
    assert tree(tmp_path) == {"file": b"in the way"}


def test_links_in_a_circle_are_refused_in_one_line(tmp_path: Path) -> None:
    (tmp_path / "circle").symlink_to("circle")
    for path in (tmp_path / "circle", tmp_path / "circle" / "x"):
        with pytest.raises(UserError, match=ONE_LINE), locked(path):
            write_bytes(path / "y", b"content")
    assert [path.name for path in tmp_path.iterdir()] == ["circle"]


def test_a_protected_folder_is_refused_in_one_line(read_only: Path) -> None:
    with pytest.raises(UserError, match=ONE_LINE):
        write_bytes(read_only / "x", b"content")
    with pytest.raises(UserError, match=ONE_LINE):
        write_folder(read_only / "x", {"a": b"content"})
    assert tree(read_only) == {}


def test_what_a_killed_process_left_is_no_obstacle(tmp_path: Path) -> None:
    """In a container every process that trains may have the number 7."""
    for number in (os.getpid(), 7):
        left = tmp_path / f".folder.{number}.partial"
        left.mkdir()
        (left / "half").write_bytes(b"half")
    before = tree(tmp_path)
    write_folder(tmp_path / "folder", {"a": b"whole"})
    write_bytes(tmp_path / "file", b"whole")
    assert tree(tmp_path) == before | {"folder/a": b"whole", "file": b"whole"}


def test_threads_may_write_one_file_at_once(tmp_path: Path) -> None:
    """The last one wins; nobody takes away what another is about to rename."""
    path = tmp_path / "file"
    contents = [bytes([i]) * 3000 for i in range(8)]
    with ThreadPoolExecutor(8) as pool:
        for _ in range(20):
            list(pool.map(lambda content: write_bytes(path, content), contents))
            assert path.read_bytes() in contents
    assert list(tmp_path.iterdir()) == [path]


def test_of_many_that_make_a_folder_one_succeeds(tmp_path: Path) -> None:
    for turn in range(20):
        path = tmp_path / f"run-{turn}"
        with ThreadPoolExecutor(4) as pool:
            made = list(
                pool.map(partial(make_folder, path), [{"who": bytes([i])} for i in range(4)])
            )
        assert made.count(True) == 1
        assert (path / "who").read_bytes() == bytes([made.index(True)])
    assert not list(tmp_path.glob(".*"))


def test_a_second_training_of_the_same_name_leaves_the_first_alone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It passed the first look, while the other was still to make the folder."""
    first = Run.create(tmp_path / "run", tiny_config())
    before = tree(tmp_path)
    looks = iter([False])
    exists = Path.exists
    monkeypatch.setattr(
        Path, "exists", lambda path: next(looks, True) if path == first.path else exists(path)
    )
    with pytest.raises(UserError, match="exists already: continue it with `lab resume"):
        Run.create(first.path, tiny_config(steps=99))
    monkeypatch.undo()
    assert tree(tmp_path) == before


def test_a_rename_that_fails_leaves_the_old_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "folder"
    write_folder(path, {"a": b"old"})
    replace = os.replace

    def full(source: Path, target: Path) -> None:
        if target == path and (source / "a").read_bytes() == b"new":
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        replace(source, target)

    monkeypatch.setattr(os, "replace", full)
    with pytest.raises(UserError, match=ONE_LINE):
        write_folder(path, {"a": b"new"})
    monkeypatch.undo()
    assert tree(tmp_path) == {"folder/a": b"old"}


def test_what_is_renamed_is_on_the_disk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Content, then name, then the folder that holds the name."""
    done: list[str] = []
    for name in ("fsync", "replace"):
        real = getattr(os, name)
        monkeypatch.setattr(os, name, lambda *a, r=real, n=name: (done.append(n), r(*a))[1])
    write_bytes(tmp_path / "file", b"content")
    assert done == ["fsync", "replace", "fsync"]
    for write in (make_folder, write_folder):
        done.clear()
        write(tmp_path / write.__name__, {"a": b"1", "b": b"2"})
        assert done == ["fsync", "fsync", "fsync", "replace", "fsync"]  # a, b, their folder


def test_evaluations_are_on_the_disk_before_the_state(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A training that goes on from a state has the curve up to it, also after a power failure."""
    run = Run.create(tmp_path / "run", tiny_config(steps=6))
    synced, on_disk = os.fsync, 0
    replace, states = os.replace, []

    def fsync(handle: int) -> None:
        nonlocal on_disk
        synced(handle)
        metrics = (run.path / METRICS).stat() if (run.path / METRICS).exists() else None
        if metrics is not None and os.path.samestat(os.fstat(handle), metrics):
            on_disk = len((run.path / METRICS).read_bytes())

    def replaced(source: Path, target: Path) -> None:
        replace(source, target)
        if target.name == STATE:
            states.append((on_disk, (run.path / METRICS).stat().st_size))

    monkeypatch.setattr(os, "fsync", fsync)
    monkeypatch.setattr(os, "replace", replaced)
    train(run, device="cpu")
    assert len(states) == 2
    assert all(on_disk == size for on_disk, size in states)


def test_old_leftovers_go_and_young_ones_stay(tmp_path: Path) -> None:
    """A young one may be what another process is writing now."""
    for name in ("old", "young"):
        (tmp_path / f".{name}.{HEX}.partial").mkdir()
        (tmp_path / f".{name}.{HEX}.partial" / "half").touch()
    (tmp_path / f".file.{HEX}.partial").touch()
    for name in ("old", "file"):
        os.utime(tmp_path / f".{name}.{HEX}.partial", (0, 0))
    write_bytes(tmp_path / "another", b"content")
    assert sorted(path.name for path in tmp_path.iterdir()) == [f".young.{HEX}.partial", "another"]


@pytest.mark.parametrize(
    "work", ["make_folder(path, {'a': b'half'})", "write_bytes(path, b'half')"]
)
def test_what_a_process_left_that_ended_goes_at_once(tmp_path: Path, work: str) -> None:
    """What a living one writes, or one of another machine, stays."""
    ends = f"""if True:
        import os, sys
        from pathlib import Path
        from models.runs.files import make_folder, write_bytes
        os.replace, path = lambda *_: os._exit(9), Path(sys.argv[1])
        {work}
    """
    root, path = Path(__file__).parents[2], tmp_path / "path"
    assert subprocess.run([sys.executable, "-c", ends, path], cwd=root).returncode == 9
    (left,) = tmp_path.iterdir()
    living, elsewhere = _partial_name(tmp_path / "elsewhere" / "z"), f".z.{HEX}.partial"
    staying = {tmp_path / name for name in (living.name, elsewhere)}
    for path in staying:
        path.touch()
    assert PARTIAL.fullmatch(left.name)
    write_bytes(tmp_path / "another", b"content")
    assert {*tmp_path.iterdir()} == staying | {tmp_path / "another"}


def test_what_only_looks_like_a_leftover_stays(tmp_path: Path, trained: Run) -> None:
    """Whoever writes elsewhere may hide files of like names."""
    (tmp_path / ".thesis.partial").mkdir()
    (tmp_path / ".thesis.partial" / "chapter").touch()
    (tmp_path / f".linked.{HEX}.partial").symlink_to(tmp_path / ".thesis.partial")
    (tmp_path / ".download.partial").touch()
    (tmp_path / ".mine.lab-lock").touch()
    (tmp_path / "data").mkdir()
    (tmp_path / ".data.lock").touch()  # another program's
    (tmp_path / "full").mkdir()
    (tmp_path / ".full.lab-lock").write_text("1234")
    before = tree(tmp_path)
    for path in (*tmp_path.iterdir(), tmp_path / ".thesis.partial" / "chapter"):
        os.utime(path, (0, 0), follow_symlinks=False)
    write_bytes(tmp_path / "another", b"content")
    assert not (tmp_path / f".linked.{HEX}.partial").is_symlink()
    assert tree(tmp_path) == {k: v for k, v in before.items() if "linked" not in k} | {
        "another": b"content"
    }
    kept = trained.checkpoints / ".thesis.partial"
    kept.touch()
    trained.update(status="training")
    train(trained, device="cpu")
    assert kept.exists()


def test_a_link_leads_to_what_is_written(tmp_path: Path) -> None:
    (tmp_path / "link").symlink_to(tmp_path / "target")
    for content in (b"one", b"two"):
        write_bytes(tmp_path / "link", content)
        assert (tmp_path / "link").is_symlink()
        assert (tmp_path / "target").read_bytes() == content


def test_an_old_lock_goes_if_nobody_holds_it(tmp_path: Path) -> None:
    """A training may hold one for days."""
    (tmp_path / "killed").mkdir()
    (tmp_path / ".killed.lab-lock").touch()
    (tmp_path / ".young.lab-lock").touch()
    with locked(tmp_path / "held"):
        for name in ("killed", "held"):
            os.utime(tmp_path / f".{name}.lab-lock", (0, 0))
        write_bytes(tmp_path / "another", b"content")
        assert is_locked(tmp_path / "held")
        found = sorted(path.name for path in tmp_path.iterdir())
        assert found == [".held.lab-lock", ".young.lab-lock", "another", "killed"]


def test_what_only_bears_the_name_of_a_lock_stays(tmp_path: Path) -> None:
    (tmp_path / ".file.lab-lock").write_text("precious")
    (tmp_path / ".folder.lab-lock").mkdir()
    for name in ("file", "folder"):
        assert not is_locked(tmp_path / name)
        with (
            pytest.raises(
                UserError, match=rf"\.{name}\.lab-lock is in the way of a lock: move it away"
            ),
            locked(tmp_path / name),
        ):
            pytest.fail("it is locked")
    assert (tmp_path / ".file.lab-lock").read_text() == "precious"


def test_a_checkpoint_is_forgotten_at_once(trained: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    """A training that is killed meanwhile leaves no half one."""

    def stopped(path: Path, missing_ok: bool = False) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(Path, "unlink", stopped)
    with pytest.raises(KeyboardInterrupt):
        trained.forget_checkpoints(after=5)
    assert trained.steps() == [0, 1, 2, 5, 12]  # not 10
    trained.model()


def test_notes_in_a_folder_that_goes_are_kept(trained: Run) -> None:
    for turn, name in enumerate(("step-000010.kept", "step-000010.kept-2")):
        (trained.checkpoints / "step-000010" / "note.txt").write_text(f"mine {turn}")
        trained.forget_checkpoints(after=5, but=(12,))
        assert trained.steps() == [0, 1, 2, 5, 12]
        kept = trained.checkpoints / name
        assert {path.name: path.read_text() for path in kept.iterdir()} == {
            "note.txt": f"mine {turn}"
        }
        save_checkpoint(trained.checkpoints, trained.model(12), trained.config, 10)
    trained.model(10)


def test_notes_in_a_folder_that_is_replaced_are_kept(tmp_path: Path) -> None:
    folder = tmp_path / "folder"
    write_folder(folder, {"a": b"old", "b": b"old"})
    (folder / "mine").mkdir()
    write_folder(folder, {"a": b"new"})
    assert [path.name for path in folder.iterdir()] == ["a"]
    assert sorted(path.name for path in (tmp_path / "folder.kept").iterdir()) == ["b", "mine"]


def test_training_removes_what_its_killed_forerunner_left(trained: Run) -> None:
    for folder in (trained.path, trained.checkpoints):
        (folder / f".x.{HEX}.partial").mkdir()
    trained.update(status="training")
    train(trained, device="cpu")
    assert not list(trained.path.rglob("*.partial"))


def test_what_fails_leaves_no_empty_folder(tmp_path: Path) -> None:
    (tmp_path / "there").mkdir()
    for place in (tmp_path / "new" / "deep", tmp_path / "there"):
        with full_disk(1000), pytest.raises(UserError, match=ONE_LINE):
            write_bytes(place / "file", bytes(5000))
        with full_disk(1000), pytest.raises(UserError, match=ONE_LINE):
            write_folder(place / "folder", {"a": bytes(5000)})
        with pytest.raises(KeyboardInterrupt), locked(place / "run"):
            raise KeyboardInterrupt
    assert [path.name for path in tmp_path.rglob("*")] == ["there"]


def test_a_name_that_no_list_shows_is_refused(tmp_path: Path) -> None:
    with pytest.raises(UserError, match=r"begins with a dot: rename the file"):
        Run.create(tmp_path / ".hidden-s0", tiny_config())
    assert list(tmp_path.iterdir()) == []
