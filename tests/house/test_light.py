"""Help and mistakes are answered at once: nothing heavy is imported for them."""

from __future__ import annotations

import subprocess
import sys

import pytest
from conftest import without_pictures

from analyses.answers import answer, question
from analyses.command_line.app import COMMANDS
from analyses.options.behaviour import Accuracy
from analyses.options.lines import Discover
from analyses.registry import BUILT_IN, options_of
from analyses.rules.discover import CANDIDATES
from models.runs.run import Run

HEAVY = ("torch", "transformer_lens", "pandas", "scipy", "sklearn", "altair", "distributed")
RUN = f"""
import sys
from analyses.command_line.app import main
try:
    main(sys.argv[1:])
except SystemExit as stop:
    assert not stop.code
print("loaded:", *(name for name in {HEAVY} if name in sys.modules))
"""


@pytest.mark.parametrize(
    "words",
    [
        "",
        "--help",
        "analyse --help",
        "analyse runs/x --help",
        "analyse runs/x patching --help",
        "train --help",
        "train anbn --help",
        "nonsense",
        "analyse runs/x nonsense",
        "train anbn --stepz 3",
    ],
)
def test_nothing_heavy_is_loaded(words: str) -> None:
    command = [sys.executable, "-c", RUN, *words.split()]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    *said, loaded = done.stdout.splitlines()
    assert loaded == "loaded:"
    assert said or done.stderr.startswith("lab: ")


@pytest.mark.parametrize("words", ["languages", "languages dieren", "runs RUNS", "show RUNS/run"])
def test_files_are_read_without_torch(words: str, trained: Run) -> None:
    with without_pictures():
        answer(trained, "accuracy", Accuracy(max_n=2, count=2))
    words = words.replace("RUNS", str(trained.path.parent))
    command = [sys.executable, "-c", RUN, *words.split()]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    *said, loaded = done.stdout.splitlines()
    assert {"torch", "transformer_lens"}.isdisjoint(loaded.split())
    assert len(said) > 1


def test_the_help_of_every_command_loads_nothing_heavy() -> None:
    loop = f"""
import contextlib, io, sys
from analyses.command_line.app import main
for name in {list(COMMANDS)}:
    with contextlib.redirect_stdout(io.StringIO()), contextlib.suppress(SystemExit):
        main([name, "--help"])
    print(name, *(heavy for heavy in {HEAVY} if heavy in sys.modules))
"""
    done = subprocess.run([sys.executable, "-c", loop], capture_output=True, text=True, check=True)
    assert done.stdout.splitlines() == list(COMMANDS)


@pytest.mark.parametrize("name", BUILT_IN)
def test_the_options_that_help_shows_are_those_of_the_question(name: str) -> None:
    assert options_of(name) is question(name).options


def test_discover_trains_every_kind_of_network_by_default() -> None:
    assert Discover.networks == len(CANDIDATES)
