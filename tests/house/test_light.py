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

NETWORKS = ("transformers", "datasets", "sklearn")
HEAVY = ("torch", *NETWORKS, "pandas", "scipy", "altair", "distributed")
SAID = f"""
import contextlib, io, sys
from analyses.command_line.app import main
for words in sys.argv[1:]:
    said, fault = io.StringIO(), io.StringIO()
    with contextlib.redirect_stdout(said), contextlib.redirect_stderr(fault):
        try:
            main(words.split())
        except SystemExit as stop:
            assert not stop.code
    lines = len(said.getvalue().splitlines()) or fault.getvalue().startswith("lab: ")
    print(int(lines), *(name for name in {HEAVY} if name in sys.modules))
"""


def loaded_by(*commands: str) -> list[tuple[int, set[str]]]:
    """The number of lines that each command prints (1 for a mistake that it names), and what is
    loaded by then. All run in one process."""
    command = [sys.executable, "-c", SAID, *commands]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    lines = (line.split() for line in done.stdout.splitlines())
    return [(int(said), set(loaded)) for said, *loaded in lines]


def test_nothing_heavy_is_loaded() -> None:
    found = loaded_by(
        "",
        "nonsense",
        "--help",
        "analyse --help",
        "analyse runs/x --help",
        "analyse runs/x nonsense",
        "analyse runs/x patching --help",
        "train --help",
        "train anbn --help",
        "train anbn --stepz 3",
        "analyse runs/no-run accuracy",
        "predict runs/no-run a",
        "rule no-file.tsv",
    )
    assert len(found) == 13
    assert all(said and not loaded for said, loaded in found)


def test_files_are_read_without_torch(trained: Run) -> None:
    with without_pictures():
        answer(trained, "accuracy", Accuracy(max_n=2, count=2))
    files = (f"runs {trained.path.parent}", f"show {trained.path}")
    found = loaded_by("languages", "languages dieren", *files)
    assert len(found) == 4
    for said, loaded in found:
        assert {"torch", *NETWORKS}.isdisjoint(loaded)
        assert said > 1


def test_a_model_asks_for_torch_and_for_no_other_library_of_networks(trained: Run) -> None:
    ((said, loaded),) = loaded_by(f"predict {trained.path} a")
    assert said > 1
    assert "torch" in loaded
    assert loaded.isdisjoint(NETWORKS)


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
