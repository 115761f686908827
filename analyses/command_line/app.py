"""The command line `lab`."""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from importlib.metadata import version
from pkgutil import resolve_name

from rich.text import Text

from analyses.console import OUT, exit_status, titled
from analyses.registry import BUILT_IN
from models.errors import UserError, unknown


@dataclass(frozen=True)
class Command:
    """A command of `lab`.

    Attributes:
        usage: the command as it is written.
        about: its effect, in a few words.
        work: the function that does it, in a module of this package. The module is imported once
            the options are read.
    """

    usage: str
    about: str
    work: str


COMMANDS = {
    "languages": Command(
        "languages [NAME]", "what can be trained, and all of one language", "languages:languages"
    ),
    "train": Command(
        "train anbn", "train on a language; options: lab train anbn --help", "training:train"
    ),
    "finetune": Command(
        "finetune RUN [LANGUAGE]", "go on from the weights of a run", "training:finetune"
    ),
    "resume": Command("resume RUN", "go on with an interrupted run", "training:resume"),
    "runs": Command("runs [FOLDER]", "list the runs of a folder", "show:runs"),
    "evaluate": Command("evaluate RUN", "a curve by length", "one_run:evaluate"),
    "predict": Command(
        'predict RUN "a a b b"', "what may follow each symbol; in or out", "one_run:predict"
    ),
    "generate": Command("generate RUN", "words that the model makes by itself", "one_run:generate"),
    "analyse": Command(
        "analyse RUN [NAME]", "ask a run any question: lab analyse --help", "one_run:analyse"
    ),
    "seeds": Command("seeds PATH NAME", "means over seeds, with 95% intervals", "many_runs:seeds"),
    "show": Command("show RUN [NAME]", "print an answer that the run keeps", "show:show"),
    "report": Command(
        "report [PATH]", "a run as one HTML file, or pages of findings", "report:report"
    ),
    "rule": Command("rule lines.tsv", "the rule behind lines, a --model, FILE.att", "lines:rule"),
    "sweep": Command(
        "sweep FILE", "many runs here or on a cluster: lab sweep --help", "many_runs:sweep"
    ),
    "recover": Command("recover STUDY", "how much of a planted rule comes back?", "lines:recover"),
    "plant": Command("plant [PROGRAM]", "a network whose wiring is known", "plants:plant"),
    "score": Command(
        "score [LENS.py]", "does a lens find what planted networks do?", "plants:score"
    ),
    "dashboard": Command(
        "dashboard [RUNS]", "look at it all in the browser", "dashboard:dashboard"
    ),
    "demo": Command(
        "demo [LANGUAGE ...]", "train some languages, look inside each network", "demo:demo"
    ),
    "completion": Command(
        "completion SHELL", "what makes the Tab key complete lab", "completion:completion"
    ),
}

MOVED = {
    "discover": "rule lines.tsv",
    "break": "analyse RUN ablation --off L0H1",
    "position-table": "analyse RUN positions",
    "hooks": "show RUN hooks",
    "size": "show size",
    "scaling": "show FOLDER scaling",
    "tokens": "languages NAME --tokens bpe:16",
    "leaderboard": "sweep leaderboard",
    "few-labels": "sweep few-labels",
}
"""Commands of earlier versions that are no question, and the words to write instead."""
GONE = {"kernels": "docs/kernels.py draws them, for the page of the lectures"}
"""Commands of earlier versions that are none any more, and what is there instead."""

ABOUT = """: small Transformers on languages whose truth is known, seen from inside.

{commands}

Each command takes --help; lab --version says which version this is.
"lab train anbn --recipe counting" trains heads that count.
"lab train --corpus lines.tsv" trains on your own lines: label <tab> words."""


def main(argv: Sequence[str] | None = None) -> int:
    """Runs one command; a user's mistake is one line on stderr and exit status 2."""
    args = list(sys.argv[1:] if argv is None else argv)
    if argv is None:  # no process that this one starts takes a module from the reader's own folder
        os.environ["PYTHONSAFEPATH"] = "1"
        # Python's own tracker, which clears away after a killed command, says nothing of it.
        sys.warnoptions.append("ignore::UserWarning:multiprocessing.resource_tracker")
    return exit_status(lambda: _obey(args))


def _obey(args: Sequence[str]) -> None:
    """Runs the command that the words of a command line name. Raises UserError for a mistake."""
    if not args or args[0] in ("-h", "--help"):
        OUT.print(_usage())
    elif args[0] == "--complete":  # the shell asks, see completion.py
        from analyses.command_line.completion import candidates

        print("\n".join(candidates(args[1:], COMMANDS)))
    elif args[0] == "--version":
        OUT.print(f"structure-lab {version('structure-lab')}")
    elif any("\ud800" <= letter <= "\udfff" for word in args for letter in word):  # no letters
        raise UserError("a word of the command is not UTF-8: rename the file, or write it in UTF-8")
    elif not _here():
        raise UserError("the folder that you are in was removed: change to another one with cd")
    else:
        _run(*args)


def _here() -> bool:
    """Is the folder that the command was begun in still there? Some libraries end without it."""
    try:
        return bool(os.getcwd())
    except FileNotFoundError:
        return False


def _usage() -> Text:
    """The commands, one line each."""
    width = max(len(command.usage) for command in COMMANDS.values())
    lines = [f"  lab {command.usage:{width}}  {command.about}" for command in COMMANDS.values()]
    return titled("lab", ABOUT.format(commands="\n".join(lines)))


def _run(name: str, *args: str) -> None:
    """Runs a command with its arguments. Raises UserError for a mistake."""
    if name not in COMMANDS:
        if name in GONE:
            raise UserError(f"{name} is no command any more: {GONE[name]}")
        place = MOVED.get(name) or (f"analyse RUN {name}" if name in BUILT_IN else None)
        if place is not None:
            raise UserError(f"{name} is no command of its own any more: write `lab {place}`")
        raise unknown("command", name, COMMANDS)
    # Languages and recipes: not for a list.
    from analyses.command_line.arguments import check_paths, read

    options = read(name, args)
    check_paths(options)
    resolve_name(f"analyses.command_line.{COMMANDS[name].work}")(options)
