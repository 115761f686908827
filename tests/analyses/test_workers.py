"""Jobs side by side, here and elsewhere; and no run trained by two at once."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass, replace
from itertools import product
from pathlib import Path
from types import ModuleType
from typing import Any

import dask
import psutil
import pytest
import torch
from conftest import tiny_config
from distributed import Client, LocalCluster, Security
from distributed.comm.core import connect
from distributed.nanny import WorkerProcess
from joblib import Parallel, delayed

from analyses.command_line.app import main
from analyses.jobs import cluster
from analyses.jobs.cluster import _local_cluster
from analyses.jobs.failed import Failed
from analyses.jobs.trained import trained, trained_together
from analyses.jobs.workers import collected, side_by_side
from models.errors import UserError
from models.runs.files import locked
from models.runs.run import METRICS, Run
from models.training.loop import train
from models.training.state import STATE, saved_step

pytestmark = pytest.mark.slow  # processes


def until(happened: Callable[[], bool], seconds: float = 300) -> None:
    """Waits for something that other processes do."""
    deadline = time.monotonic() + seconds
    while not happened():
        assert time.monotonic() < deadline, "it never happened"
        time.sleep(0.02)


# -- what workers do: functions of a module, which other processes import -------------------------


def place(number: int) -> tuple[int, int, int, set[int]]:
    """The number back, who worked, with how many threads, and where four jobs of joblib ran."""
    ran = set(Parallel(-1)(delayed(os.getpid)() for _ in range(4)))
    return number, os.getpid(), torch.get_num_threads(), ran


def kept(numbers: int) -> int:
    """Bytes that the process still holds after a tensor is gone."""
    before = psutil.Process().memory_info().rss
    torch.ones(numbers)
    return int(psutil.Process().memory_info().rss) - before


def refuse(number: int) -> int:
    raise UserError(f"{number} is not wanted")


def shared() -> tuple[int, int]:
    """Bytes that this process alone holds, and all that it sees."""
    memory = psutil.Process().memory_full_info()
    return memory.uss, memory.rss


def die_once(marker: Path) -> int:
    """Kills its process the first time; the second says who it is."""
    if marker.exists():
        return os.getpid()
    marker.write_text(str(os.getpid()))
    os.kill(os.getpid(), signal.SIGKILL)
    raise AssertionError("unreachable")


def die(number: int) -> int:
    os.kill(os.getpid(), signal.SIGKILL)
    return number


def fail_once(marker: Path) -> str:
    """Fails the first time."""
    if marker.exists():
        return "done"
    marker.touch()
    raise OSError


def fail_always_in_two_lines() -> None:
    raise OSError("the disk\nis full")


def fail(number: int) -> int:
    raise ZeroDivisionError(str(number))


def a_second(folder: Path, number: int) -> tuple[int, int]:
    """A run of one second that notes each of its ends."""
    time.sleep(1)
    with (folder / str(number)).open("a") as file:
        file.write(f"{os.getpid()}\n")
    return number, os.getpid()


def sleep(seconds: float) -> float:
    time.sleep(seconds)
    return seconds


def begin(seconds: float) -> float:
    """When it began."""
    start = time.monotonic()
    time.sleep(seconds)
    return start


def where(path: Path) -> str:
    return str(path)


@dataclass(frozen=True)
class Question:
    """A key of a kind of its own."""

    text: str


@contextmanager
def known(running: LocalCluster) -> Iterator[str]:
    """The address of a scheduler whose keys stand in Dask's configuration, as those of a real
    cluster do."""
    tls = "distributed.comm.tls"
    keys = {f"{tls}.ca-file": running.security.tls_ca_file}
    for role, kind in product(("client", "scheduler", "worker"), ("cert", "key")):
        keys[f"{tls}.{role}.{kind}"] = getattr(running.security, f"tls_{role}_{kind}")
    with dask.config.set(keys):
        yield str(running.scheduler_address)


@pytest.fixture(scope="module")
def scheduler() -> Iterator[str]:
    """The address of a scheduler with two workers here; two deaths of a job are enough."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setitem(cluster.LOCAL, "distributed.scheduler.allowed-failures", 1)
        with _local_cluster(2) as running, known(running) as address:
            yield address


def test_who_has_no_key_is_refused() -> None:
    """Any user of this machine can find the port; whoever is let in can run anything as its owner.

    Neither words in the clear nor a key of somebody else's making are let in.
    """

    async def greet(address: str, security: Security) -> None:
        comm = await connect(address, timeout=2, **security.get_connection_args("client"))
        await comm.write({"op": "identity", "reply": True})
        assert (await comm.read())["type"] == "Scheduler"
        comm.abort()

    with _local_cluster(0) as running:
        address = str(running.scheduler_address)
        asyncio.run(greet(address, running.security))
        in_the_clear = address.replace("tls:", "tcp:"), Security()
        for foreign in (in_the_clear, (address, Security.temporary())):
            with pytest.raises(OSError, match=r"[Cc]losed|does not match"):
                asyncio.run(greet(*foreign))


WITH_A_WORKER = """
import os, signal, sys
from analyses.jobs.cluster import _local_cluster

with _local_cluster(1):
    print(len(os.listdir(os.environ["TMPDIR"])), flush=True)
    if sys.argv[1] == "killed":
        os.kill(os.getpid(), signal.SIGKILL)
"""


def test_what_a_killed_process_left_the_next_one_removes() -> None:
    """A folder and its lock, for sockets of multiprocessing and folders of Dask."""
    with tempfile.TemporaryDirectory() as folder:
        environment = os.environ | {"TMPDIR": folder}  # a short path, as sockets need
        for end, left in (("killed", 2), ("calm", 0)):
            command = [sys.executable, "-c", WITH_A_WORKER, end]
            done = subprocess.run(command, env=environment, capture_output=True, text=True)
            assert done.stdout == "2\n", done.stderr
            assert len(os.listdir(folder)) == left


def test_one_works_here() -> None:
    assert dict(side_by_side(place, {"a": (1,)}, workers=4))["a"][1] == os.getpid()
    found = dict(side_by_side(place, {"a": (1,), "b": (2,)}, workers=1))
    assert [answer[:2] for answer in found.values()] == [(1, os.getpid()), (2, os.getpid())]


def test_no_job_needs_no_worker() -> None:
    assert list(side_by_side(place, {}, workers=8, scheduler="tcp://127.0.0.1:1")) == []


@pytest.mark.slow
def test_processes_of_this_machine_work_alone_and_end(recwarn: pytest.WarningsRecorder) -> None:
    """Each with one thread and no helpers; one answer comes while the other still works; and an
    error in what is done with it ends all at once."""
    jobs = {Question("slow"): (600.0,), ("quick", 1): (0.0,), "later": (600.0,)}
    before = set(psutil.Process().children(recursive=True))

    def others() -> set[psutil.Process]:
        return set(psutil.Process().children(recursive=True)) - before

    def use_the_first() -> None:
        for key, answer in side_by_side(sleep, jobs, workers=2):
            assert (key, answer) == (("quick", 1), 0.0)
            addresses = {c.laddr.ip for p in others() for c in p.net_connections("inet")}
            assert addresses == {"127.0.0.1"}
            started.append(time.monotonic())
            raise ZeroDivisionError

    started: list[float] = []
    with pytest.raises(ZeroDivisionError):
        use_the_first()
    assert time.monotonic() - started[0] < 30
    until(lambda: all(p.ppid() == os.getpid() and helps(p) for p in others()))
    assert not recwarn.list


def helps(process: psutil.Process) -> bool:
    """What Python starts with the first process of many, and ends when it ends itself."""
    command = " ".join(process.cmdline())
    return "multiprocessing.resource_tracker" in command or "multiprocessing.forkserver" in command


@pytest.mark.slow
def test_a_worker_that_is_slow_to_go_is_no_fault(monkeypatch: pytest.MonkeyPatch) -> None:
    """On a busy machine a killed process goes later than anybody waits for it."""
    kill, late = WorkerProcess.kill, list[WorkerProcess]()

    async def slow(self: WorkerProcess, *args: Any, **kwargs: Any) -> None:
        await kill(self, *args, **kwargs)
        late.append(self)
        raise TimeoutError

    monkeypatch.setattr(WorkerProcess, "kill", slow)
    found = dict(side_by_side(place, {"a": (1,), "b": (2,)}, workers=2))
    assert set(found) == {"a", "b"}
    assert len(late) == 2


@pytest.mark.slow
@pytest.mark.skipif(not cluster.FORKED, reason="processes are not forked here")
def test_workers_share_what_is_loaded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Else sixteen of them hold, and wait for, sixteen times the libraries. The script, which is
    the dashboard's on a page, is not run in each of them."""
    page, drawn = ModuleType("__main__"), tmp_path / "drawn"
    page.__file__ = str(tmp_path / "page.py")
    (tmp_path / "page.py").write_text(f"open({str(drawn)!r}, 'w')\n")
    monkeypatch.setitem(sys.modules, "__main__", page)
    for own, whole in dict(side_by_side(shared, {"a": (), "b": ()}, workers=2)).values():
        assert own < whole / 2  # a third once garbage was collected, seven tenths on its own
    assert sys.modules["__main__"] is page
    assert not drawn.exists()


@pytest.mark.slow
def test_the_first_is_begun_first(scheduler: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """What takes longest is given first, so that no worker has it alone at the end."""
    monkeypatch.setattr(cluster, "_local_cluster", lambda workers: nullcontext(scheduler))
    jobs = {"longest": (1.6,), "long": (0.8,), "short": (1.2,), "shortest": (0.1,)}
    begun = dict(side_by_side(begin, jobs, workers=2))
    assert sorted(begun, key=lambda name: begun[name])[2:] == ["short", "shortest"]


def test_workers_of_a_scheduler(scheduler: str) -> None:
    """All jobs are done, each with one thread, whoever started the worker."""
    jobs = {(name, number): (number,) for name in "ab" for number in range(4)}
    found = dict(side_by_side(place, jobs, 1, scheduler))
    assert {key: number for key, (number, *_) in found.items()} == {k: k[1] for k in jobs}
    workers = {worker for _, worker, _, _ in found.values()}
    assert os.getpid() not in workers
    for _, worker, threads, ran in found.values():
        assert (threads, ran) == (1, {worker})


def test_a_worker_keeps_the_memory_of_a_tensor_for_the_next(scheduler: str) -> None:
    """Else the system clears the same pages again and again, for half of the time."""
    if not cluster.keep_memory():
        pytest.skip("no glibc here")
    jobs = dict.fromkeys("ab", (2**21,))
    assert max(dict(side_by_side(kept, jobs, 1, scheduler)).values()) > 2**22


def test_the_limits_hold_in_the_thread_that_works() -> None:
    """A worker that somebody else started may have threads and helpers to spare."""
    before = torch.get_num_threads()
    torch.set_num_threads(2)
    with ThreadPoolExecutor(1) as worker:
        answer = worker.submit(cluster._alone, place, 3).result()
    assert answer == (3, os.getpid(), 1, {os.getpid()})
    torch.set_num_threads(before)


def test_workers_are_told_absolute_paths(
    scheduler: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    found = dict(side_by_side(where, {1: (Path("runs/a"),)}, 1, scheduler))
    assert found == {1: str(tmp_path / "runs/a")}


def test_a_users_mistake_stays_one(scheduler: str) -> None:
    with pytest.raises(UserError, match=r"^7 is not wanted$"):
        list(side_by_side(refuse, {"x": (7,)}, 1, scheduler))


def test_the_job_of_a_worker_that_died_is_given_to_another(scheduler: str, tmp_path: Path) -> None:
    found = dict(side_by_side(die_once, {"x": (tmp_path / "marker",)}, 1, scheduler))
    assert found["x"] != int((tmp_path / "marker").read_text())


def test_a_job_that_kills_its_workers_is_named(scheduler: str) -> None:
    with pytest.raises(UserError, match=r"^lstm 3 killed the 2 workers that tried it: [^\n]*$"):
        list(side_by_side(die, {("lstm", 3): (0,)}, 1, scheduler))


@pytest.mark.parametrize("workers", [1, 2])
def test_what_fails_is_tried_again_after_all_others(tmp_path: Path, workers: int) -> None:
    jobs = {name: (tmp_path / name,) for name in "abc"}
    (tmp_path / "b").touch()
    (tmp_path / "c").touch()
    found = list(collected(fail_once, jobs, workers))
    assert [key for key, _ in found][-1] == "a"
    assert dict(found) == dict.fromkeys("abc", "done")


@pytest.mark.parametrize("workers", [1, 2])
def test_what_fails_twice_stops_no_other(workers: int) -> None:
    found = dict(collected(fail, {1: (1,), 2: (2,)}, workers))
    assert found == {n: Failed(f"ZeroDivisionError: {n}") for n in (1, 2)}
    assert dict(collected(fail_always_in_two_lines, {"x": ()}, 1)) == {
        "x": Failed("OSError: the disk is full")
    }


@pytest.mark.parametrize("workers", [1, 2])
def test_a_mistake_stops_all(workers: int) -> None:
    with pytest.raises(UserError, match="is not wanted"):
        list(collected(refuse, {1: (1,), 2: (2,)}, workers))


def test_a_job_that_kills_its_workers_is_collected(scheduler: str) -> None:
    found = dict(collected(die, {"lstm 3": (0,)}, 1, scheduler))
    (failed,) = found.values()
    assert isinstance(failed, Failed)
    assert failed.reason.startswith("lstm 3 killed the 2 workers")


def test_a_scheduler_never_has_all_jobs(scheduler: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cluster, "AT_ONCE", 3)
    given, submit = 0, Client.submit

    def counted(self: Client, *arguments: Any, **options: Any) -> object:
        nonlocal given
        given += 1
        return submit(self, *arguments, **options)

    monkeypatch.setattr(Client, "submit", counted)
    jobs = dict.fromkeys(range(20), (0.01,))
    for answered, _ in enumerate(side_by_side(sleep, jobs, 1, scheduler)):
        assert given <= answered + 4  # three, and one for the answer that is being told
    assert given == 20


@pytest.mark.torture
def test_forty_workers_of_which_three_are_killed(tmp_path: Path) -> None:
    """400 runs of a second: each is answered once, and only those of the dead ran twice."""
    jobs = {n: (tmp_path, n) for n in range(400)}
    found, dead = dict[int, tuple[int, int]](), set[int]()
    began = time.monotonic()
    for key, answer in collected(a_second, jobs, 40):
        assert isinstance(answer, tuple)
        assert key not in found
        found[key] = answer
        if len(found) in (60, 120, 180):  # a worker that has worked, and is at work again
            victim = next(pid for _, pid in reversed(found.values()) if pid not in dead)
            os.kill(victim, signal.SIGKILL)
            dead.add(victim)
    print(f"400 runs of a second on 40 workers: {time.monotonic() - began:.0f} s")
    assert {number for number, _ in found.values()} == set(jobs) == set(found)
    ends = [(tmp_path / str(n)).read_text().split() for n in jobs]
    assert len(dead) == 3
    assert sum(len(times) > 1 for times in ends) <= 3  # killed between its end and its answer


@pytest.mark.parametrize("address", ["nonsense", "tcp://127.0.0.1:port", "foo://127.0.0.1:1"])
def test_addresses_that_are_none(address: str) -> None:
    with pytest.raises(UserError, match=r"^no Dask scheduler answers at '[^\n]*`dask scheduler`"):
        list(side_by_side(place, {"x": (1,)}, 1, address))


@pytest.mark.slow
def test_nobody_answers(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cluster, "PATIENCE", 1)
    with socket.create_server(("127.0.0.1", 0)) as deaf:
        address = f"tcp://127.0.0.1:{deaf.getsockname()[1]}"
        with pytest.raises(UserError, match=f"^no Dask scheduler answers at '{address}'"):
            list(side_by_side(place, {"x": (1,)}, 1, address))


@pytest.mark.slow
@pytest.mark.parametrize("goodbye", ["heard", "broken off"])
def test_a_scheduler_that_goes_away(goodbye: str, monkeypatch: pytest.MonkeyPatch) -> None:
    close = Client.close

    def broken_off(client: Client) -> None:
        if client.status == "closed":  # it is collected: who raises here is warned about, not heard
            return
        close(client)
        raise ValueError("IOStream is not idle; cannot convert to SSL")

    if goodbye == "broken off":
        monkeypatch.setattr(Client, "close", broken_off)
    with _local_cluster(1) as running, known(running) as address:
        answers = side_by_side(sleep, {1: (0.0,), 2: (600.0,)}, 1, address)
        assert next(answers) == (1, 0.0)
        running.close()
        with pytest.raises(UserError, match="lost the scheduler"):
            next(answers)


@pytest.mark.slow
def test_the_command_line_needs_no_dask() -> None:
    """It takes a second to import, and most commands start no other process."""
    code = (
        "import analyses.command_line.app, sys; print({'dask', 'distributed'} & set(sys.modules))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "set()"


# -- one run, one trainer -------------------------------------------------------------------------


HOLD = """
import sys, time
from pathlib import Path
from types import ModuleType
from models.runs.files import locked

run, log, seconds = Path(sys.argv[1]), Path(sys.argv[2]), float(sys.argv[3])
with locked(run):
    with log.open("a") as file:
        file.write("in ")
    time.sleep(seconds)
    with log.open("a") as file:
        file.write("out ")
"""
"""Takes the lock of a run, and notes when it has it and when it is about to give it back."""


def holder(run: Path, log: Path, seconds: float) -> subprocess.Popen[bytes]:
    return subprocess.Popen([sys.executable, "-c", HOLD, str(run), str(log), str(seconds)])


@pytest.mark.slow
def test_one_at_a_time_holds_a_lock(tmp_path: Path) -> None:
    run, log = tmp_path / "new" / "run", tmp_path / "log"
    jobs = [holder(run, log, 0.05) for _ in range(8)]
    assert [job.wait() for job in jobs] == [0] * 8
    assert log.read_text() == "in out " * 8
    assert list((tmp_path / "new").iterdir()) == []  # the last one cleans up


@pytest.mark.slow
def test_a_killed_process_holds_no_lock(tmp_path: Path) -> None:
    with holder(tmp_path / "run", tmp_path / "log", 600) as job:
        until((tmp_path / "log").exists)
        job.kill()
    with locked(tmp_path / "run"):
        assert (tmp_path / ".run.lab-lock").exists()
    assert not (tmp_path / ".run.lab-lock").exists()


def test_a_lock_that_cannot_be_written_is_told(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(UserError, match="cannot write"), locked(tmp_path / "file" / "run"):
        pass


def test_three_that_start_one_run_at_once_train_it_once(tmp_path: Path) -> None:
    config = tiny_config(steps=60)
    with ThreadPoolExecutor(3) as pool:
        runs = list(pool.map(lambda _: trained(tmp_path / "run", config), range(3)))
    (session,) = runs[0].record["sessions"]
    assert session["pid"] == os.getpid()
    assert (session["host"], session["from_step"]) == (socket.gethostname(), 0)
    assert [line["step"] for line in runs[0].metrics()] == list(range(3, 61, 3))


class StoppedError(Exception):
    """As if the process had been killed between two steps."""


def test_a_session_says_where_it_went_on(tmp_path: Path) -> None:
    config = tiny_config()

    def stop(step: int, loss: float | None) -> None:
        if step == 8:
            raise StoppedError

    with pytest.raises(StoppedError):
        trained(tmp_path / "run", config, progress=stop)
    run = trained(tmp_path / "run", config)
    assert trained(tmp_path / "run", config).record == run.record  # a finished run stays as it is
    assert [session["from_step"] for session in run.record["sessions"]] == [0, 6]
    other = Run.create(tmp_path / "undisturbed", config)
    train(other)
    assert run.model_hash() == other.model_hash()


def test_a_damaged_state_is_left_to_training(tmp_path: Path) -> None:
    run = Run.create(tmp_path / "run", tiny_config())
    assert saved_step(run) == 0
    (run.path / "training.safetensors").write_bytes(b"damaged")
    assert saved_step(run) == 0
    with pytest.raises(UserError, match="damaged"):
        trained(run.path, run.config)


def test_train_and_resume_leave_their_sessions_too(tmp_path: Path) -> None:
    command = ["train", "anbn", "--steps", "4", "--max-n", "2", "--out", str(tmp_path)]
    assert main(command) == 0
    run = Run(tmp_path / "anbn-s0")
    assert [session["from_step"] for session in run.record["sessions"]] == [0]
    assert main(["resume", str(run.path)]) == 0
    assert len(run.record["sessions"]) == 1


def test_a_device_that_is_missing_leaves_no_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("torch.cuda.is_available", lambda: False)
    config = tiny_config()
    with pytest.raises(UserError, match="no CUDA device here"):
        trained(tmp_path / "runs" / "one", config, device="cuda")
    with pytest.raises(UserError, match="no CUDA device here"):
        trained_together({tmp_path / "runs" / "one": config}, "cuda")
    assert list(tmp_path.iterdir()) == []


def test_another_configuration_is_refused(tmp_path: Path) -> None:
    run = trained(tmp_path / "run", tiny_config())
    before = json.dumps(run.record), (run.path / METRICS).read_bytes()
    with pytest.raises(UserError, match="holds a run of other settings"):
        trained(tmp_path / "run", replace(tiny_config(), seed=1))
    assert (json.dumps(run.record), (run.path / METRICS).read_bytes()) == before


def test_what_cannot_be_resumed_leaves_no_session(tmp_path: Path) -> None:
    run = Run.create(tmp_path / "run", tiny_config(steps=10, evaluate_every=5))
    with pytest.raises(KeyboardInterrupt):
        train(run, "cpu", interrupted_at(7))
    before = (run.path / "run.json").read_bytes()
    (run.path / STATE).write_bytes(b"no state at all")
    assert main(["resume", str(run.path)]) == 2
    os.truncate(run.path / STATE, 15 * 2**30)  # is not read as a whole
    assert main(["resume", str(run.path)]) == 2
    (run.path / STATE).unlink()
    os.mkfifo(run.path / STATE)  # is not waited for
    assert main(["resume", str(run.path)]) == 2
    assert (run.path / "run.json").read_bytes() == before
    (run.path / STATE).unlink()
    assert main(["resume", str(run.path)]) == 0
    assert [session["from_step"] for session in run.record["sessions"]] == [0]


def interrupted_at(last: int) -> Callable[[int, float | None], None]:
    def progress(step: int, value: float | None) -> None:
        if step == last:
            raise KeyboardInterrupt

    return progress


def test_no_process_takes_a_module_from_the_reader_s_folder(tmp_path: Path) -> None:
    for name in ("random", "altair", "streamlit"):
        (tmp_path / f"{name}.py").write_text("raise SystemExit('taken')\n")
    (tmp_path / "runs").mkdir()
    code = (
        "import os, subprocess, sys\n"
        "from analyses.command_line.app import main\n"
        "os.execve = lambda path, words, env: sys.exit(subprocess.call([*words[:3], '--version'], "
        "env=env))\n"
        "sys.exit(main())\n"
    )
    command = [sys.executable, "-P", "-c", code, "dashboard", "runs", "--port", str(free_port())]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert "taken" not in done.stdout + done.stderr
    assert "Streamlit, version" in done.stdout


def free_port() -> int:
    with socket.socket() as ours:
        ours.bind(("127.0.0.1", 0))
        return int(ours.getsockname()[1])
