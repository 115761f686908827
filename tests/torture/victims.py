"""Processes that are killed. They are forked from one that has imported all that takes seconds."""

from __future__ import annotations

import os
import signal
import sys
import time
from multiprocessing import get_context
from multiprocessing.context import ForkServerContext
from multiprocessing.process import BaseProcess
from pathlib import Path

import commands


def server() -> ForkServerContext:
    """Where victims are forked; what they need is imported there once."""
    context = get_context("forkserver")
    context.set_forkserver_preload(["commands", "analyses.command_line.many_runs"])
    return context


def silent() -> None:
    """What this process prints goes nowhere."""
    null = os.open(os.devnull, os.O_WRONLY)
    os.dup2(null, 1)
    os.dup2(null, 2)


def work(command: str, folder: str, begun: str) -> None:
    """What a victim does; the file ``begun`` says from when on it may be killed."""
    signal.signal(signal.SIGINT, signal.default_int_handler)
    silent()
    Path(begun).touch()
    sys.exit(commands.begin(command, Path(folder)))


def start(context: ForkServerContext, command: str, folder: Path, begun: Path) -> BaseProcess:
    """A victim that has begun."""
    victim = context.Process(target=work, args=(command, str(folder), str(begun)))
    victim.start()
    while not begun.exists():
        assert victim.is_alive()
        time.sleep(0.001)
    return victim


def end(victim: BaseProcess, how: signal.Signals, patience: float = 60.0) -> None:
    """Sends the signal, if the victim still lives, and waits for its end."""
    if victim.pid is not None and victim.is_alive():
        os.kill(victim.pid, how)
    victim.join(patience)
    assert victim.exitcode is not None, f"{how.name} did not end it"
    victim.close()
