"""The terminal: letters that mean something to it, pipes that close, disks that are full."""

from __future__ import annotations

import os
import subprocess
import sys
from io import StringIO
from pathlib import Path

import pandas as pd
import pytest

from analyses.command_line.app import main
from analyses.command_line.arguments import read
from analyses.console import PLAIN, exit_status, table_of, titled
from models.errors import UserError

HOSTILE = "[/z] [bold]x[/bold] :smile: \\[b]"
"""What rich takes for markup or for an emoji."""


def printed(what: object) -> str:
    said = StringIO()
    PLAIN(file=said, width=200).print(what)
    return said.getvalue()


@pytest.mark.parametrize(
    "what",
    [
        HOSTILE,
        titled(HOSTILE, HOSTILE),
        table_of(pd.DataFrame({HOSTILE: [HOSTILE]})),
        table_of(pd.DataFrame({"a": [1]}), HOSTILE),
    ],
)
def test_words_are_never_markup(what: object) -> None:
    assert "".join(HOSTILE.split()) in "".join(printed(what).split())  # a title is folded


COMMANDS = "a\x1b[31m\x1b]0;title\x07\x9b2Jb\r"
"""What a terminal would obey: a colour, a title, an empty screen, the line from its start."""


@pytest.mark.parametrize(
    "what", [COMMANDS, titled(COMMANDS, COMMANDS), table_of(pd.DataFrame({COMMANDS: [COMMANDS]}))]
)
def test_words_command_no_terminal(what: object) -> None:
    said = printed(what)
    assert not set("\x1b\x07\x9b\r") & set(said)
    assert "\\x1b" in said


def test_a_table_cuts_no_cell_of_odd_letters() -> None:
    """They are shown by their numbers, which are longer. Two names that differ at the end do."""
    names = ["\u202e" * 60 + end for end in "ab"]
    said = printed(table_of(pd.DataFrame({"value": [1, 2], "name": names})))
    whole = "".join(said.split())
    assert all(ascii(name)[1:-1] in whole for name in names)


def refuse(error: Exception) -> None:
    raise error


@pytest.mark.parametrize(
    ("error", "part"),
    [
        (UserError("two\nlines \x1b[31m \udcff"), r"two\nlines \x1b[31m \udcff"),
        (OSError(36, "File name too long", "x" * 3000), "choose a shorter name"),
        (PermissionError(13, "Permission denied", "/x"), "cannot use /x (Permission denied): choo"),
        (OSError(28, "No space left on device"), "cannot write the answer (No space left on"),
        (MemoryError(), "the memory of this machine is too small"),
        (RuntimeError("DefaultCPUAllocator: can't allocate memory"), "ask for less"),
    ],
)
def test_a_fault_of_the_outside_is_one_line(
    error: Exception, part: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("analyses.console._drop", lambda stream: None)
    assert exit_status(lambda: refuse(error)) == 2
    said = capsys.readouterr().err
    assert part in said
    assert said.count("\n") == 1
    assert said.endswith("\n")
    assert len(said) < 1100


@pytest.mark.parametrize("error", [OSError("a bug"), RuntimeError("a bug"), KeyError("a bug")])
def test_a_bug_is_still_a_traceback(error: Exception) -> None:
    with pytest.raises(type(error), match="a bug"):
        exit_status(lambda: refuse(error))


def test_numbers_that_are_none_are_told_in_plain_words(capsys: pytest.CaptureFixture[str]) -> None:
    for value, wanted in (("²", "a whole number"), ("1" * 5000, "a shorter number")):
        assert main(["train", "anbn", "--steps", value]) == 2
        assert f"lab: --steps: write {wanted} (see `lab train" in capsys.readouterr().err
    assert main(["train", "anbn", "--clip", "much"]) == 2
    assert "lab: --clip: write a number (see" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("args", "said"),
    [
        (["recover", "Rule"], "unknown name 'Rule': did you mean rules? choose one of rules, "),
        (
            ["analyse", "x", "perplexity", "--by", "lenght"],
            "unknown value of --by 'lenght': did you mean length? choose one of length, depth (see",
        ),
        (
            ["rule", "--model", "x", "--reads", "soft"],
            "unknown value of --reads 'soft': did you mean softmax? choose one of sets, softmax",
        ),
        (
            ["analyse", "x", "perplexity", "--step"],
            "--step has no value: write one after it (see `lab",
        ),
        (["rule", "x", "--name", "-x"], "--name has no value: write --name=-x (see `lab"),
        (["languages", "g", "--regex", "a"], "unknown option --regex: leave it out (see `lab"),
        (["evaluate", "x", "--cont", "3"], "unknown option --cont: did you mean --count? (see"),
        (["train", "an", "anbn"], "'anbn' is one word too many: leave it out, or put words"),
        (["seeds", "x"], "NAME is missing: write the question, or all (see `lab seeds"),
        (["completion"], "a name is missing: write one of bash, zsh, fish (see `lab completion"),
        (["languages", "--word", "a"], "--word is of one language: write `lab languages NAME --wo"),
        (["languages", "g", "--grammar="], "--grammar is empty: write one in quotes after it"),
        (["train", "g", "--regex="], "--regex is empty: write one in quotes after it, or leave"),
        (["train", "g", "--grammar", ""], "--grammar is empty: write one in quotes after it"),
        (["train", "g", "--grammar", "S ⟶ 'a' S | 'b'"], "the grammar, line 1: there is no arrow"),
        (["train", "g" * 62, "--regex", "a*b"], f"'{'g' * 60}' is no name for a language: use "),
        (["sweep", ""], "'' is neither a file nor a sweep of the lab: "),
        (["generate", "x", "--by-length"], "--by-length needs --beam: give both, or none"),
        (["generate", "x", "--beam", "2", "--top-k", "3"], "--top-k says nothing beside --beam: "),
        (["generate", "x", "--decoders", "--beam", "2"], "--beam says nothing beside --decoders"),
        (
            ["evaluate", "x", "--lengths", "1:2", "--max-n", "3"],
            "--lengths stands instead of --max",
        ),
        (["sweep", "tabel-1"], "tabel-1 is neither a file nor a sweep of the lab: did you mean t"),
        (["train", "ANBN"], "unknown language 'ANBN': did you mean anbn?"),
    ],
)
def test_a_near_name_is_proposed(
    args: list[str], said: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(args) == 2
    assert capsys.readouterr().err.startswith(f"lab: {said}")


@pytest.mark.parametrize(
    ("args", "said"),
    [
        (["analyse", "x", "perplexity", "--step", "1.5"], "--step: write a whole number (see `lab"),
        (["analyse", "x", "perplexity", "--step", ""], "--step: write a whole number (see `lab"),
        (
            ["sweep", "few-labels", "--lines", "10", "many"],
            "--lines: write whole numbers (see `lab",
        ),
        (["analyse", "x", "dictionary", "--width="], "--width: write whole numbers (see `lab"),
    ],
)
def test_numbers_that_may_be_left_out_or_be_several_are_too(args: list[str], said: str) -> None:
    with pytest.raises(UserError) as caught:
        read(args[0], args[1:])
    assert str(caught.value).startswith(said)


@pytest.mark.parametrize("arrow", ["->", "→", "::="])
def test_productions_may_stand_on_the_command_line(
    arrow: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["languages", "mine", "--grammar", f"S {arrow} 'a' S | 'b'", "--word", "a b"]) == 0
    assert "a b is in it" in capsys.readouterr().out


@pytest.mark.slow
@pytest.mark.skipif(not Path("/dev/full").exists(), reason="no /dev/full here")
def test_pipes_disks_and_terminals(tmp_path: Path) -> None:
    """Whoever reads may leave early, the disk may be full, the terminal may know ASCII alone."""
    lab = [sys.executable, "-m", "analyses.command_line", "languages", "--json"]
    tmp_path = tmp_path / "über"
    tmp_path.mkdir()
    reader, writer = os.pipe()
    os.close(reader)
    ascii_only = {**os.environ, "PYTHONIOENCODING": "ascii", "PYTHONUTF8": "0"}
    with open("/dev/full", "wb") as full:
        left, filled, plain = (
            subprocess.Popen(args, stdout=out, stderr=subprocess.PIPE, text=True, env=env)
            for args, out, env in (
                (lab, writer, None),
                (lab, full, None),
                ([*lab[:3], "runs", str(tmp_path)], subprocess.PIPE, ascii_only),
            )
        )
        errors = [each.communicate()[1] for each in (left, filled, plain)]
    os.close(writer)
    assert (left.returncode, errors[0]) == (141, "")
    assert filled.returncode == 2
    assert errors[1] == "lab: cannot write the answer (No space left on device): free some space\n"
    assert (plain.returncode, errors[2]) == (0, "")
    # Both closed before the command begins, as of some services.
    shell = ["sh", "-c", 'exec "$@" >&- 2>&-', "sh", *lab]
    done = subprocess.run(shell, capture_output=True, check=False)
    assert (done.returncode, done.stdout, done.stderr) == (0, b"", b"")


LOCKED_AND_KILLED = """
import multiprocessing, os, signal, sys
from analyses.command_line.app import main
sys.argv[1:] = ["--version"]
main()
lock = multiprocessing.get_context("spawn").Lock()
os.kill(os.getpid(), signal.SIGKILL)
"""


def test_what_a_killed_command_leaves_is_cleared_away_silently() -> None:
    done = subprocess.run([sys.executable, "-c", LOCKED_AND_KILLED], capture_output=True, text=True)
    assert (done.stdout, done.stderr) == ("structure-lab 0.1.0\n", "")
