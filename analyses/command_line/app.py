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
from models.errors import UserError, unknown


@dataclass(frozen=True)
class Command:
    """A command of `lab`.

    Attributes:
        usage: how it is written.
        about: what it does.
        work: the function that does it, in a module of this package. The module is imported once
            the options are read.
    """

    usage: str
    about: str
    work: str


COMMANDS = {
    "languages": Command("languages", "what can be trained", "training:languages"),
    "train": Command(
        "train anbn", "train on a language; options: lab train anbn --help", "training:train"
    ),
    "finetune": Command(
        "finetune RUN [LANGUAGE]", "go on from the weights of a run", "training:finetune"
    ),
    "resume": Command("resume RUN", "go on with an interrupted run", "training:resume"),
    "runs": Command("runs [FOLDER]", "list the runs of a folder", "kept:runs"),
    "evaluate": Command("evaluate RUN", "a curve by length", "one_run:evaluate"),
    "predict": Command(
        'predict RUN "a a b b"', "what may follow each symbol; in or out", "one_run:predict"
    ),
    "generate": Command(
        "generate RUN", "words that the model makes by itself", "language:generate"
    ),
    "perplexity": Command(
        "perplexity RUN ...", "the loss beside the least that there can be", "language:perplexity"
    ),
    "targets": Command(
        "targets RUN ...",
        "is the target of a source right, and after an error?",
        "language:targets",
    ),
    "steps": Command(
        "steps RUN ...", "a written step is edited: is it believed?", "language:steps"
    ),
    "in-context": Command(
        "in-context RUN ...", "does the answer follow the prompt's examples?", "language:in_context"
    ),
    "syntax": Command("syntax RUN", "is the tree of a word in the activations?", "language:syntax"),
    "depths": Command("depths RUN", "how right by depth of embedding", "language:depths"),
    "dependencies": Command(
        "dependencies RUN", "which earlier symbol decides, by which head", "language:dependencies"
    ),
    "looks": Command(
        "looks RUN --query A --key B", "does A look at B, and does it matter?", "language:looks"
    ),
    "tokens": Command(
        "tokens LANGUAGE", "how byte pairs cut its words: lab tokens dieren", "language:tokens"
    ),
    "vectors": Command(
        "vectors RUN", "do vectors of words know their classes?", "language:vectors"
    ),
    "senses": Command("senses RUN", "one form, two senses: told apart?", "language:senses"),
    "reach": Command(
        "reach RUN ...", "influence by distance, and the steps on the way", "measures:reach"
    ),
    "dimension": Command(
        "dimension RUN ...", "how many dimensions do activations fill?", "measures:dimension"
    ),
    "bias": Command("bias RUN ...", "which of two rules was taken?", "measures:bias"),
    "cosine": Command("cosine RUN ...", "do heads score like tokens higher?", "measures:cosine"),
    "gradients": Command(
        "gradients RUN ...", "gradient, softmax and drift by layer", "measures:gradients"
    ),
    "landscape": Command(
        "landscape RUN ...", "how curved is the loss around the weights?", "measures:landscape"
    ),
    "position-table": Command(
        "position-table [RUN ...]",
        "are positions bounded, unique, even?",
        "measures:position_table",
    ),
    "sentences": Command(
        "sentences RUN ...", "what does one vector hold of a whole word?", "language:sentences"
    ),
    "dictionary": Command(
        "dictionary RUN", "do sparse dictionaries find what is known?", "one_run:dictionary"
    ),
    "influence": Command(
        "influence RUN", "which training lines made it say so?", "one_run:influence"
    ),
    "break": Command(
        "break RUN --off L0H1", "what is still right without some heads", "one_run:break_it"
    ),
    "analyse": Command(
        "analyse RUN [NAME]", "ask one question, or all: lab analyse --help", "one_run:analyse"
    ),
    "show": Command("show RUN [NAME]", "print an answer that the run keeps", "kept:show"),
    "report": Command(
        "report [PATH]", "a run as one HTML file, or pages of findings", "kept:report"
    ),
    "hooks": Command("hooks RUN", "every hook of a run's model, with its shape", "one_run:hooks"),
    "size": Command("size --model.n-layers 96", "weights and memory of any shape", "one_run:size"),
    "seeds": Command("seeds PATH NAME", "means over seeds, with 95% intervals", "many_runs:seeds"),
    "sweep": Command(
        "sweep FILE", "many runs here or on a cluster: lab sweep --help", "many_runs:sweep"
    ),
    "scaling": Command(
        "scaling FOLDER", "by which law does a sweep's loss fall?", "many_runs:scaling"
    ),
    "leaderboard": Command(
        "leaderboard", "which explanation method tells the truth?", "many_runs:leaderboard"
    ),
    "few-labels": Command(
        "few-labels", "how many labels does a pretrained network need?", "many_runs:few_labels"
    ),
    "rule": Command("rule lines.tsv", "the rule behind lines, a --model, FILE.att", "lines:rule"),
    "recover": Command("recover STUDY", "how much of a planted rule comes back?", "lines:recover"),
    "plant": Command("plant [PROGRAM]", "a network whose wiring is known", "plants:plant"),
    "score": Command(
        "score [LENS.py]", "does a lens find what planted networks do?", "plants:score"
    ),
    "kernels": Command(
        "kernels", "kernel attention (Nadaraya-Watson) in one picture", "show:kernels"
    ),
    "dashboard": Command("dashboard [RUNS]", "look at it all in the browser", "show:dashboard"),
    "demo": Command("demo [LANGUAGE ...]", "train some languages, ask every question", "demo:demo"),
    "completion": Command(
        "completion SHELL", "what makes the Tab key complete lab", "completion:completion"
    ),
}

OLD_NAMES = {"discover": "rule"}
"""Names of the version before this one, which still work. "discover" was too near to the question
"discovery"."""

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
    return exit_status(lambda: obey(args))


def obey(args: Sequence[str]) -> None:
    """Does what the words of a command line ask for. Raises UserError for a mistake."""
    if not args or args[0] in ("-h", "--help"):
        OUT.print(usage())
    elif args[0] == "--complete":  # the shell asks, see completion.py
        from analyses.command_line.completion import candidates

        print("\n".join(candidates(args[1:], COMMANDS)))
    elif args[0] == "--version":
        OUT.print(f"structure-lab {version('structure-lab')}")
    elif any(map(not_utf8, args)):
        raise UserError("a word of the command is not UTF-8: rename the file, or write it in UTF-8")
    elif not _here():
        raise UserError("the folder that you are in was removed: change to another one with cd")
    else:
        run(*args)


def not_utf8(word: str) -> bool:
    """Does a word hold bytes that are no letters? No file of a run could name it."""
    return any("\ud800" <= letter <= "\udfff" for letter in word)


def _here() -> bool:
    """Is the folder that the command was begun in still there? Some libraries end without it."""
    try:
        return bool(os.getcwd())
    except FileNotFoundError:
        return False


def usage() -> Text:
    """The commands, one line each."""
    width = max(len(command.usage) for command in COMMANDS.values())
    lines = [f"  lab {each.usage:{width}}  {each.about}" for each in COMMANDS.values()]
    return titled("lab", ABOUT.format(commands="\n".join(lines)))


def run(name: str, *args: str) -> None:
    """Runs a command with its arguments. Raises UserError for a mistake."""
    if name in OLD_NAMES:
        print(f"lab: {name} is now called {OLD_NAMES[name]}", file=sys.stderr)
        name = OLD_NAMES[name]
    if name not in COMMANDS:
        raise unknown("command", name, COMMANDS)
    from analyses.command_line.arguments import read  # languages and recipes: not for a list

    options = read(name, args)
    resolve_name(f"analyses.command_line.{COMMANDS[name].work}")(options)
