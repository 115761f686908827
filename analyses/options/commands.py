"""The options of the commands that are about no question, study or measure of their own.

Each field is an option of the command. The classes check their values when they are built.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, Literal

import tyro
from annotated_types import Interval

from analyses.options.behaviour import Accuracy
from analyses.options.shared import (
    Asks,
    Checked,
    Columns,
    Flag,
    Seed,
    Shows,
    Trains,
    Works,
    check_languages,
    check_replaced,
)
from models.checks import MOST_SYMBOLS
from models.config import TrainConfig
from models.decoding.limits import LIMITS, check
from models.errors import UserError, option_of
from models.languages.tokens import merges_of
from models.model_config import ModelConfig


@dataclass(frozen=True)
class Languages(Shows):
    """Languages that can be trained; with a NAME, all that is known of one.

    Attributes:
        name: a language: its machine, its production rules, and what a reader keeps of a word.
        word: the word; by default an example.
        grammar: the productions of a language of your own, or a file of them, or one of JFLAP.
        tokens: how its words are cut into tokens: characters, or bpe:16 for letters and 16 merges.
            Do byte pairs find its words? The --word may be misspelled.
        text: learn the merges of --tokens on this text instead, which is cut, too.
    """

    name: tyro.conf.Positional[str] = ""
    word: str = ""
    grammar: str = ""
    tokens: str = ""
    text: str = ""

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.text and (self.name or self.grammar):
            raise UserError("--text stands in the place of a language: leave one of them out")
        if self.text and not self.tokens:
            raise UserError("--text is cut into tokens: add --tokens bpe:8 for 8 merges")
        if self.word and not (self.name or self.grammar or self.text):
            raise UserError("--word is of one language: write `lab languages NAME --word WORD`")
        if self.tokens and not self.text:
            if not self.name or self.grammar:
                raise UserError("--tokens is of a language: write its name first, or give a --text")
            check_languages([self.name])
            merges_of(self.tokens)


@dataclass(frozen=True)
class Train(Trains, Columns):
    """Train on a language or on a corpus. The run's folder is OUT/LANGUAGE-sSEED.

    With another recipe than the plain one it is OUT/LANGUAGE-RECIPE-sSEED.

    Attributes:
        corpus: a file to train on instead of a language: label <tab> words, CSV, JSON lines,
            fastText, Abbadingo, StaMinA; with --objective language-model, lines without labels or
            a treebank; with sequence-to-sequence, source <tab> target.
        out: the folder of all runs.
        source, target: the columns of pairs, as --label and --text are those of labelled lines.
    """

    config: Annotated[TrainConfig, tyro.conf.arg(name="")]
    corpus: Path | None = None
    out: Path = Path("runs")
    source: str | None = None
    target: str | None = None

    def __post_init__(self) -> None:
        super().__post_init__()
        chosen = (self.label, self.text, self.source, self.target)
        if self.corpus is None and (self.letters or any(name is not None for name in chosen)):
            raise UserError(
                "--label, --text, --source, --target and --letters say how a file is read: give "
                "--corpus FILE"
            )


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

    `lab show RUN hooks` lists every hook of its model. `lab show FOLDER scaling` says by which law
    the loss of a sweep falls. `lab show size` counts the weights of a model of any shape. Each
    takes --help.

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
    path, all pages of findings are written anew from the tables that are kept. With --network, a
    run's network instead, for other programs.

    Attributes:
        path: a run's folder, a study's folder, or a file that --csv printed.
        file: of a run's report; by default report.html in the run's folder.
        step: of the checkpoint, by default the last one.
        network: a new folder for the network itself, a GPT-2 or GPT-NeoX as save_pretrained of
            transformers writes it, with the same logits.
        named: the name under which a table is kept; by default that of its folder or file.
        command: the command that made a table; a study knows its own.
        question: what was asked, of a CSV file.
        docs: the folder of the pages: DOCS/findings holds templates and tables.
        check: write nothing, and say what is stale: a page that is not what its tables say, a table
            that is missing or not used, a figure that no table backs.
    """

    path: tyro.conf.Positional[Path | None] = None
    file: Path | None = None
    step: Annotated[int, Interval(ge=0, le=1_000_000_000)] | None = None
    network: Path | None = None
    named: str = ""
    command: str = ""
    question: str = ""
    docs: Path = Path("docs")
    check: Flag = False

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.file is not None:
            if self.file == Path():
                raise UserError("--file is empty: name a file that ends in .html")
            if self.file.suffix.lower() != ".html":
                raise UserError(f"{self.file} is no page: end its name in .html")
            check_replaced(self.file)
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
        by_run: give the numbers of each run, instead of the means.
        tests: with --json or --csv, give the comparisons that are tested, instead of the means.
        against: another run, which stands for its seeds: give the differences between the two.
    """

    path: tyro.conf.Positional[Path]
    name: Annotated[tyro.conf.Positional[str], tyro.conf.arg(metavar="NAME")]
    ask: bool = True
    by_run: bool = False
    tests: bool = False
    against: Path | None = None

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.by_run + self.tests + (self.against is not None) > 1:
            raise UserError("--by-run, --tests and --against are tables: ask for one at a time")


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
class Generate(Shows):
    """Let the model make words by itself, symbol by symbol, and say which are in the language.

    Attributes:
        run: the run's folder.
        decoders: compare decoders instead, beside an untrained model, random symbols and symbols
            that the language allows.
        count: words to draw; of a search, the best ones to show; 0 takes 10, or 200 for each of
            the decoders.
        prompt: what every word begins with, in quotes.
        longest: the most symbols of a word; 0 takes the longest of the training window.
        temperature: below 1 likely symbols become likelier; 0 takes the likeliest (greedy).
        top_k: draw only among so many of the likeliest tokens; 0 allows all.
        top_p: draw only among the likeliest tokens that together have this probability.
        frequency_penalty: taken off a token's log-probability each time that the word has it.
        presence_penalty: taken off once if the word has it.
        beam: search with a beam of this width instead of drawing.
        by_length: divide a word's log-probability by its tokens in the search.
        all_words: try every word up to --longest instead of drawing.
        seed: of the drawing.
        step: the checkpoint that is asked; by default the last one.
    """

    run: tyro.conf.Positional[Path]
    decoders: Flag = False
    count: Annotated[int, Interval(ge=0, le=100_000)] = 0
    prompt: str = ""
    longest: Annotated[int, Interval(ge=0, le=MOST_SYMBOLS)] = 0
    temperature: float = 1.0
    top_k: int = 0
    top_p: float = 1.0
    frequency_penalty: float = 0.0
    presence_penalty: float = 0.0
    beam: Annotated[int, Interval(ge=0, le=4096)] = 0
    by_length: Flag = False
    all_words: Flag = False
    seed: Seed = 0
    step: Annotated[int, Interval(ge=0, le=1_000_000_000)] | None = None

    def __post_init__(self) -> None:
        super().__post_init__()
        check({name: getattr(self, name) for name in LIMITS})
        ways = [name for name in ("decoders", "beam", "all_words") if getattr(self, name)]
        idle = [] if self.beam or self.all_words else ["by_length"]
        idle += [*ways[1:], *(LIMITS if ways else ())]
        for name in idle:
            if getattr(self, name) != getattr(Generate, name):
                if not ways:
                    raise UserError(f"{option_of(name)} needs --beam: give both, or none")
                fault = f"{option_of(name)} says nothing beside {option_of(ways[0])}"
                raise UserError(f"{fault}: leave one of them out")


@dataclass(frozen=True)
class Size(Shows):
    """How many weights has a model of this shape, and how much memory does its attention take?

    Nothing is built: any size can be asked about.

    Attributes:
        tokens: of the vocabulary, BOS and END among them.
        positions: tokens of a word that is read, BOS among them.
        model: the parts and their sizes.
    """

    tokens: Annotated[int, Interval(ge=3, le=10**7)] = 4
    positions: Annotated[int, Interval(ge=1, le=10**7)] = 1024
    model: ModelConfig = field(default_factory=ModelConfig)


@dataclass(frozen=True)
class Hooks(Shows):
    """List every hook of a run's model: name, shape, meaning.

    Attributes:
        run: the run's folder.
    """

    run: tyro.conf.Positional[Path]


@dataclass(frozen=True)
class Dashboard(Checked):
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
    port: Annotated[int, Interval(ge=1, le=65_535)] = 8501
    headless: bool = False
    allow: tuple[str, ...] = ()
    no_token: Flag = False

    def __post_init__(self) -> None:
        super().__post_init__()
        for name in self.allow:
            if not re.fullmatch(r"[A-Za-z0-9-]+(\.[A-Za-z0-9-]+)*", name):
                raise UserError(f"--allow {name!r} is no host name: write, say, lab.example.org")


@dataclass(frozen=True)
class Demo(Shows, Trains, Works):
    """Train on some languages, look inside each network, show the answers.

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
