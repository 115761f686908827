"""The options of the commands that are about no question, study or measure of their own.

Each field is an option of the command. The classes check their values when they are built.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, Literal

import tyro

from analyses.options.questions import Accuracy, EdgeAblation
from analyses.options.shared import (
    Asks,
    Checked,
    Flag,
    Shows,
    Trains,
    Works,
    at_least,
    check_languages,
    check_replaced,
)
from models.checks import check_bounds
from models.config import TrainConfig
from models.errors import UserError
from models.model_config import ModelConfig


@dataclass(frozen=True)
class Languages(Shows):
    """What can be trained; with a NAME, all that is known of one language.

    Attributes:
        name: a language: its machine, its production rules, and what a reader keeps of a word.
        word: the word; by default an example.
        grammar: the productions of a language of your own, or a file of them.
    """

    name: tyro.conf.Positional[str] = ""
    word: str = ""
    grammar: str = ""

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.word and not (self.name or self.grammar):
            raise UserError("--word is of one language: write `lab languages NAME --word WORD`")


@dataclass(frozen=True)
class Train(Trains):
    """Train on a language or on a corpus. The run's folder is OUT/LANGUAGE-sSEED.

    With another recipe than the plain one it is OUT/LANGUAGE-RECIPE-sSEED.

    Attributes:
        corpus: a file of lines, label <tab> words, to train on instead of a language.
        out: the folder of all runs.
    """

    config: Annotated[TrainConfig, tyro.conf.arg(name="")]
    corpus: Path | None = None
    out: Path = Path("runs")


@dataclass(frozen=True)
class Finetune(Train):
    """Go on from the weights of a run, on its language or on another one.

    Write `lab finetune RUN [LANGUAGE]`. All options are those of the run unless they are given. The
    new run keeps the weights that it starts from; its checkpoint at step 0 is the parent with the
    new language's symbols.

    Attributes:
        start: the parent's folder.
    """

    start: Annotated[Path, tyro.conf.Suppress] = Path()


@dataclass(frozen=True)
class Resume(Trains):
    """Go on with an interrupted run.

    Attributes:
        run: the run's folder.
    """

    run: tyro.conf.Positional[Path]


@dataclass(frozen=True)
class Runs(Shows):
    """List the runs of a folder.

    Attributes:
        folder: the folder of all runs.
    """

    folder: tyro.conf.Positional[Path] = Path("runs")


@dataclass(frozen=True)
class Show(Shows):
    """Print an answer that a run keeps. Nothing is computed.

    Attributes:
        run: the run's folder.
        name: the question; without it, or with all, every kept answer is listed.
    """

    run: tyro.conf.Positional[Path]
    name: tyro.conf.Positional[str | None] = None


@dataclass(frozen=True)
class Report(Checked):
    """Write a run's report as one HTML file, or pages of findings from kept tables.

    Of a run: what was learned, and each kept answer with its grade and its picture. Of the folder
    of a sweep or another study, or of a CSV file: its table is kept among the findings. Without a
    path, all pages of findings are written anew from the tables that are kept.

    Attributes:
        path: a run's folder, a study's folder, or a file that --csv printed.
        file: of a run's report; by default report.html in the run's folder.
        step: of the checkpoint, by default the last one.
        named: the name under which a table is kept; by default that of its folder or file.
        command: the command that made a table; a study knows its own.
        question: what was asked, of a CSV file.
        docs: the folder of the pages: DOCS/findings holds templates and tables.
        check: write nothing, and say what is stale: a page that is not what its tables say, a table
            that is missing or not used, a figure that no table backs.
    """

    path: tyro.conf.Positional[Path | None] = None
    file: Path | None = None
    step: int | None = None
    named: str = ""
    command: str = ""
    question: str = ""
    docs: Path = Path("docs")
    check: Flag = False

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.file is not None:
            if self.file.suffix.lower() != ".html":
                raise UserError(f"{self.file} is no page: end its name in .html")
            check_replaced(self.file)
        at_least(0, self, "step")
        if self.named and not re.fullmatch(r"[a-z0-9][a-z0-9_-]*", self.named):
            raise UserError(
                f"named is {self.named!r}: write small letters, digits, - and _, as in width-depth"
            )
        if self.check and self.path is not None:
            raise UserError("--check looks at all pages: leave the path out")


@dataclass(frozen=True)
class Evaluate(Accuracy, Asks):
    """A curve by length, never one average.

    Attributes:
        run: the run's folder.
    """

    run: tyro.conf.Positional[Path] = field(kw_only=True)


@dataclass(frozen=True)
class Seeds(Shows, Works):
    """Means with 95% intervals over all runs that differ in the seed alone.

    Attributes:
        path: one of these runs, which stands for all that lie beside it; or a folder of runs, which
            gets a table for each configuration.
        name: the question, or all.
        ask: ask the runs that were not asked before. With --no-ask, only kept answers are shown.
        tests: with --json or --csv, give the comparisons that are tested, instead of the means.
    """

    path: tyro.conf.Positional[Path]
    name: Annotated[tyro.conf.Positional[str], tyro.conf.arg(metavar="NAME")]
    ask: bool = True
    tests: bool = False


@dataclass(frozen=True)
class Predict(Shows):
    """Say what may follow each symbol, and whether the word is in the language.

    Attributes:
        run: the run's folder.
        word: the word in quotes, for example "a a b b".
    """

    run: tyro.conf.Positional[Path]
    word: tyro.conf.Positional[str]


@dataclass(frozen=True)
class Break(Shows):
    """Take heads, MLPs and edges away, and see what is still right.

    Attributes:
        run: the run's folder.
        off: what goes, for example L0H1 "L0 mlp" "L0H1 -> L1H0.q".
        word: a word in quotes, to see what the model says of it.
        ablation: what stands in their place: their mean output, 0, or their output on another word.
        step: of the checkpoint, by default the last one.
    """

    run: tyro.conf.Positional[Path]
    off: tuple[str, ...]
    word: str | None = None
    ablation: EdgeAblation = "mean"
    step: int | None = None

    def __post_init__(self) -> None:
        super().__post_init__()
        at_least(0, self, "step")


@dataclass(frozen=True)
class Size(Shows):
    """How many weights has a model of this shape, and how much memory does its attention take?

    Nothing is built: any size can be asked about.

    Attributes:
        tokens: of the vocabulary, BOS and END among them.
        positions: tokens of a word that is read, BOS among them.
        model: the parts and their sizes.
    """

    tokens: int = 4
    positions: int = 1024
    model: ModelConfig = field(default_factory=ModelConfig)

    def __post_init__(self) -> None:
        super().__post_init__()
        check_bounds("tokens", self.tokens, 3, MOST_TOKENS)
        check_bounds("positions", self.positions, 1, MOST_TOKENS)


MOST_TOKENS = 10**7
"""The largest vocabulary and the longest word that are asked about."""


@dataclass(frozen=True)
class Hooks(Shows):
    """List every hook of a run's model: name, shape, meaning.

    Attributes:
        run: the run's folder.
    """

    run: tyro.conf.Positional[Path]


@dataclass(frozen=True)
class Dashboard:
    """Look at runs in the browser. Nothing leaves this machine.

    Attributes:
        runs: the folder of all runs.
        port: the port on which the pages are served.
        headless: do not open a browser.
        allow: further host names under which browsers may ask. Without it these are localhost,
            127.0.0.1 and ::1; a tunnel needs no more.
        no_token: let in whoever reaches the port. Without it a browser needs the token of the
            address that is printed, so that no other account of this machine gets in.
    """

    runs: tyro.conf.Positional[Path] = Path("runs")
    port: int = 8501
    headless: bool = False
    allow: tuple[str, ...] = ()
    no_token: Flag = False

    def __post_init__(self) -> None:
        at_least(1, self, "port")
        for name in self.allow:
            if not re.fullmatch(r"[A-Za-z0-9-]+(\.[A-Za-z0-9-]+)*", name):
                raise UserError(f"--allow {name!r} is no host name: write, say, lab.example.org")


@dataclass(frozen=True)
class Demo(Shows, Trains, Works):
    """Train on some languages, ask every question, show the answers.

    Attributes:
        languages: the languages, in the order in which they are begun. Put the slowest first, so
            that no core waits at the end.
        recipe: plain is the Transformer of the lectures; counting builds in heads that count, for
            languages that have this recipe.
        out: the folder of all runs. Finished runs and answers that lie there are kept.
    """

    languages: Annotated[
        tyro.conf.Positional[tuple[str, ...]], tyro.conf.arg(metavar="[LANGUAGE ...]")
    ] = ("anbncn", "dieren", "anbn", "an")
    recipe: str = "plain"
    out: Path = Path("runs")

    def __post_init__(self) -> None:
        super().__post_init__()
        check_languages(self.languages)


Shell = Literal["bash", "zsh", "fish"]


@dataclass(frozen=True)
class Completion:
    """Print what makes the Tab key complete `lab` in a shell.

    Attributes:
        shell: your shell. For bash, write `source <(lab completion bash)` into ~/.bashrc.
    """

    shell: tyro.conf.Positional[Shell]
