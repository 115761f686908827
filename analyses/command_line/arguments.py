"""What each command takes: its arguments as a dataclass, read from the words of the command line.

Nothing heavy is imported here, so that ``--help`` and mistakes are answered at once.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Annotated, Any

import tyro

from analyses.console import OUT, parse
from analyses.options.lines import Discover, Recover
from analyses.options.pictures import Kernels
from analyses.options.questions import Accuracy
from analyses.options.studies import Leaderboard, Sweep
from analyses.registry import BUILT_IN, options_of, registered
from models.config import Device, TrainConfig
from models.errors import UserError
from models.languages import LANGUAGES, language
from models.training.recipes import recipe


@dataclass(frozen=True)
class Languages:
    """What can be trained.

    Attributes:
        json: print JSON.
    """

    json: bool = False


@dataclass(frozen=True)
class Train:
    """Train a language or a corpus; the run's folder is OUT/LANGUAGE-sSEED.

    Of a recipe with a name it is OUT/LANGUAGE-RECIPE-sSEED.

    Attributes:
        corpus: a file of lines, label <tab> words, instead of a language.
        out: the folder of all runs.
        device: auto is the GPU where there is one.
    """

    config: Annotated[TrainConfig, tyro.conf.arg(name="")]
    corpus: Path | None = None
    out: Path = Path("runs")
    device: Device = "auto"


@dataclass(frozen=True)
class Resume:
    """Go on with an interrupted run.

    Attributes:
        run: the run's folder.
        device: auto is the GPU where there is one.
    """

    run: tyro.conf.Positional[Path]
    device: Device = "auto"


@dataclass(frozen=True)
class Evaluate(Accuracy):
    """A curve by length, never one average.

    Attributes:
        run: the run's folder.
        json: print JSON.
        again: evaluate afresh, even if the same curve is kept in the run.
    """

    run: tyro.conf.Positional[Path] = field(kw_only=True)
    json: bool = False
    again: bool = False


@dataclass(frozen=True)
class Seeds:
    """Means with 95% intervals over all runs that differ in the seed alone.

    Attributes:
        path: one of them, with which those beside it go; or a folder of runs, which gets a table
            for each configuration.
        name: the question, or all.
        ask: ask what was not asked before; without, only what is kept is shown.
        workers: processes side by side.
        out: a CSV file for the table.
        json: print JSON.
    """

    path: tyro.conf.Positional[Path]
    name: Annotated[tyro.conf.Positional[str], tyro.conf.arg(metavar="NAME")]
    ask: bool = True
    workers: int = 1
    out: Path | None = None
    json: bool = False

    def __post_init__(self) -> None:
        if self.workers < 1:
            raise UserError(f"--workers is {self.workers}: it must be at least 1")


@dataclass(frozen=True)
class Predict:
    """What may follow each symbol, and whether the word is in the language.

    Attributes:
        run: the run's folder.
        word: the word in quotes, for example "a a b b".
        json: print JSON.
    """

    run: tyro.conf.Positional[Path]
    word: tyro.conf.Positional[str]
    json: bool = False


@dataclass(frozen=True)
class Hooks:
    """Every hook of a run's model: name, shape, meaning.

    Attributes:
        run: the run's folder.
        json: print JSON.
    """

    run: tyro.conf.Positional[Path]
    json: bool = False


@dataclass(frozen=True)
class Dashboard:
    """Browse runs in the browser; nothing leaves this machine.

    Attributes:
        runs: the folder of all runs.
        port: where to serve.
        headless: do not open a browser.
    """

    runs: tyro.conf.Positional[Path] = Path("runs")
    port: int = 8501
    headless: bool = False


@dataclass(frozen=True)
class Demo:
    """Train four languages, ask every question, show the answers.

    Attributes:
        recipe: plain, the Transformer of the lectures; or counting, with heads that count built in
            where a language has that recipe.
        out: the folder of all runs; finished runs and answers in it are kept.
        workers: processes side by side.
    """

    recipe: str = "plain"
    out: Path = Path("runs")
    workers: int = field(default_factory=lambda: min(4, os.cpu_count() or 1))


@dataclass(frozen=True)
class Analyse:
    """Ask a run one question, or all.

    Attributes:
        run: the run's folder.
        name: the question; None asks all.
        options: the question's own; None of all questions.
        again: answer afresh, even if the same answer is kept in the run.
    """

    run: Path
    name: str | None
    options: Any
    again: bool


def read(command: str, args: Sequence[str]) -> Any:
    """The options of a command. Raises UserError for a mistake."""
    special: dict[str, Callable[[Sequence[str]], Any]] = {"train": _train, "analyse": _analyse}
    if command in special:
        return special[command](args)
    return parse(TAKES[command], args, command)


TAKES: dict[str, type[Any]] = {
    "languages": Languages,
    "resume": Resume,
    "evaluate": Evaluate,
    "predict": Predict,
    "discover": Discover,
    "recover": Recover,
    "seeds": Seeds,
    "sweep": Sweep,
    "leaderboard": Leaderboard,
    "hooks": Hooks,
    "kernels": Kernels,
    "dashboard": Dashboard,
    "demo": Demo,
}


def _train(args: Sequence[str]) -> Train:
    """Language, architecture and mask decide the defaults of the other options: they are read
    first, from whatever else is asked for."""
    asked = [word for word in args if word not in ("-h", "--help")]
    if len(asked) < len(args) and not asked:
        return parse(Train, args, "train", Train(recipe("")))
    first = parse(Train, asked, "train", Train(recipe("")))
    name = first.config.language
    if first.corpus is not None:
        name = name or first.corpus.stem
    elif not name:
        raise UserError(
            f"no language given: choose one of {', '.join(LANGUAGES)}, or give --corpus FILE"
        )
    else:
        language(name)
    default = Train(recipe(name, first.config.model, first.config.recipe))
    options = parse(Train, args, "train", default)
    return replace(options, config=replace(options.config, language=name))


ANALYSE = """usage: lab analyse RUN \\[NAME] \\[OPTIONS]

RUN is the run's folder. NAME is one of these questions; without a name, all are asked:

{questions}

--again answers afresh, even if the same answer is kept in the run.
`lab analyse RUN NAME --help` shows the options of a question."""


def _analyse(args: Sequence[str]) -> Analyse:
    """RUN [NAME] [OPTIONS]; the name decides which options there are."""
    words = [word for word in args if word not in ("-h", "--help", "--again")]
    named = words[1:2] and not words[1].startswith("-") and words[1] != "all"
    if len(words) + args.count("--again") < len(args) and not named:
        width = max(map(len, registered()))
        rows = [f"  {name:{width}}  {asks}" for name, asks in BUILT_IN.items()]
        rows += [f"  {name}" for name in registered() if name not in BUILT_IN]
        OUT.print(ANALYSE.format(questions="\n".join(rows)))
        raise SystemExit(0)
    if not words or words[0].startswith("-"):
        raise UserError(
            "write `lab analyse RUN [NAME] [OPTIONS]`; NAME is one of "
            f"{', '.join(registered())} or all"
        )
    again = "--again" in args
    if not named:
        rest = words[2:] if words[1:2] == ["all"] else words[1:]
        if rest:
            raise UserError(f"{rest[0]} belongs to one analysis: name it before its options")
        return Analyse(Path(words[0]), None, None, again)
    rest = [word for word in args if word != "--again"][2:]
    options = parse(options_of(words[1]), rest, f"analyse {words[0]} {words[1]}")
    return Analyse(Path(words[0]), words[1], options, again)
