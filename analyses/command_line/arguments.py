"""The arguments of each command as a dataclass, read from the words of the command line.

Nothing heavy is imported here, so that ``--help`` and mistakes are answered at once.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from itertools import pairwise
from pathlib import Path
from typing import Annotated, Any, Literal

import tyro

from analyses.console import OUT, parse, parse_asked
from analyses.options.lines import Discover, Recover
from analyses.options.live import (
    Dependencies,
    Depths,
    Generate,
    InContext,
    Looks,
    Perplexity,
    Senses,
    Sentences,
    Steps,
    Syntax,
    Targets,
    Tokens,
    Vectors,
)
from analyses.options.measures import (
    Bias,
    Cosine,
    Dimension,
    Gradients,
    Landscape,
    PositionTable,
    Reach,
)
from analyses.options.pictures import Kernels
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
)
from analyses.options.studies import FewLabels, Leaderboard, Scaling, Sweep
from analyses.registry import OWN, known, options_of
from models.checks import check_bounds
from models.config import TrainConfig
from models.errors import UserError
from models.families import FAMILIES
from models.languages import LANGUAGES, corpus_name, language
from models.languages.own_grammar import MOST_LETTERS
from models.languages.tokens import WORDS
from models.model_config import ModelConfig
from models.objectives import OBJECTIVES, objective
from models.reading import read_bytes
from models.training.recipes import recipe


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
    """

    runs: tyro.conf.Positional[Path] = Path("runs")
    port: int = 8501
    headless: bool = False
    allow: tuple[str, ...] = ()

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


@dataclass(frozen=True)
class Analyse:
    """Ask a run one question, or all.

    Attributes:
        run: the run's folder.
        name: the question; None asks all.
        options: the question's own; None of all questions.
        how: what every question takes.
    """

    run: Path
    name: str | None
    options: Any
    how: Asks


def read(command: str, args: Sequence[str]) -> Any:
    """The options of a command. Raises UserError for a mistake."""
    special: dict[str, Callable[[Sequence[str]], Any]] = {
        "train": _train,
        "finetune": _finetune,
        "analyse": _analyse,
    }
    if command in special:
        return special[command](args)
    return parse(TAKES[command], args, command)


TAKES: dict[str, type[Any]] = {
    "languages": Languages,
    "resume": Resume,
    "runs": Runs,
    "evaluate": Evaluate,
    "predict": Predict,
    "generate": Generate,
    "perplexity": Perplexity,
    "targets": Targets,
    "tokens": Tokens,
    "steps": Steps,
    "in-context": InContext,
    "syntax": Syntax,
    "depths": Depths,
    "dependencies": Dependencies,
    "looks": Looks,
    "vectors": Vectors,
    "senses": Senses,
    "reach": Reach,
    "dimension": Dimension,
    "bias": Bias,
    "cosine": Cosine,
    "gradients": Gradients,
    "landscape": Landscape,
    "position-table": PositionTable,
    "sentences": Sentences,
    "break": Break,
    "show": Show,
    "report": Report,
    "rule": Discover,
    "plant": Recover,
    "seeds": Seeds,
    "sweep": Sweep,
    "scaling": Scaling,
    "few-labels": FewLabels,
    "leaderboard": Leaderboard,
    "hooks": Hooks,
    "size": Size,
    "kernels": Kernels,
    "dashboard": Dashboard,
    "demo": Demo,
    "completion": Completion,
}


def _train(args: Sequence[str]) -> Train:
    """Language, architecture and mask decide the defaults of the other options: they are read
    first, from whatever else is asked for."""
    asked = [word for word in args if word not in ("-h", "--help")]
    if len(asked) < len(args) and not asked:
        return parse(Train, args, "train", Train(recipe("")))
    first = parse(Train, asked, "train", Train(recipe("", _architecture(asked))))
    name = first.config.language
    if first.corpus is not None and name:
        raise UserError(
            f"{name} and --corpus {first.corpus} are two things to train on: leave one out"
        )
    regex, symbols = first.config.regex, first.config.symbols
    grammar = productions(first.config.grammar)
    own = "--regex" if regex or symbols else "--grammar"
    if first.corpus is not None and (regex or symbols or grammar):
        raise UserError(f"{own} and --corpus are two things to train on: leave one out")
    if first.corpus is not None:
        name = corpus_name(first.corpus)
    elif (regex or grammar) and not name:
        raise UserError(f"no name given: write `lab train my-language {own} ...`")
    elif not name:
        raise UserError(
            f"no language given: choose one of {', '.join(LANGUAGES)}, or give --corpus FILE, or "
            "a name and --regex EXPRESSION or --grammar FILE"
        )
    else:
        language(name, regex, symbols, grammar)
    config = first.config
    pairs = first.corpus is not None and objective(config.objective).of_pairs
    default = Train(recipe(name, config.model, config.recipe, regex, symbols, grammar, pairs))
    options = parse(Train, args, "train", default)
    return replace(options, config=replace(options.config, language=name, grammar=grammar))


def _architecture(args: Sequence[str]) -> ModelConfig:
    """The plain model of the architecture that is asked for, if it is one: it may leave no choice
    of what is taught."""
    name = _given(args, "--model.architecture")
    return ModelConfig(architecture=name) if name in FAMILIES else ModelConfig()


def _given(args: Sequence[str], option: str) -> str | None:
    """What is given for an option, if it is."""
    words = [part for word in args for part in (word.split("=", 1) if option in word else [word])]
    return dict(pairwise(words)).get(option)


def _finetune(args: Sequence[str]) -> Finetune:
    """The options of the parent are the defaults of all others."""
    if not args or args[0].startswith("-"):
        if "--help" in args or "-h" in args:
            return parse(Finetune, ["--help"], "finetune", Finetune(recipe("")))
        raise UserError("no run is given: write `lab finetune RUN [LANGUAGE] --tuned last`")
    from models.runs.run import Run  # heavy

    parent = Run(Path(args[0]))
    asked = _given(args, "--objective")
    taught = asked if asked in OBJECTIVES else parent.config.objective
    own = replace(parent.config.model, output="sigmoid")  # the objective decides it anew
    config = replace(parent.config, objective=taught, model=own)
    config = replace(config, parent=parent.model_hash(), tuned="all", lines=0)
    start = Finetune(config, start=parent.path)
    first = parse(Finetune, args[1:], "finetune", start)
    if first.corpus is not None:
        config = replace(config, language=corpus_name(first.corpus), vocabulary=WORDS)
        config = replace(config, regex="", symbols="", grammar="")
    elif first.config.language != config.language:
        language(first.config.language, first.config.regex, first.config.symbols)
        config = replace(config, regex="", symbols="", grammar="", rare=0)
    return parse(Finetune, args[1:], "finetune", replace(start, config=config))


def productions(grammar: str) -> str:
    """The productions of a grammar: those of a file, or what is given if it is productions."""
    if not grammar or "->" in grammar:
        return grammar
    cure = "give a file of productions, such as S -> 'a' S 'b' | 'a' 'b'"
    try:
        return read_bytes(Path(grammar), cure, MOST_LETTERS).decode("utf-8-sig") or "\n"
    except UnicodeDecodeError:
        raise UserError(f"{grammar} is not in UTF-8: {cure}") from None


ANALYSE = """usage: lab analyse RUN [NAME] [OPTIONS]

RUN is the run's folder. NAME is one of these questions; without a name, all are asked:

{questions}

--again answers afresh, even if the run keeps the same answer. --json prints the answer as JSON,
--csv the table of one question as CSV.
`lab analyse RUN NAME --help` shows the options of a question."""
OF_ALL = ("-h", "--help", "--again", "--json")
"""Options that need no question by name."""


def _analyse(args: Sequence[str]) -> Analyse:
    """RUN [NAME] [OPTIONS]; the name decides which options there are."""
    words = [word for word in args if word not in OF_ALL]
    named = words[1:2] and not words[1].startswith("-") and words[1] != "all"
    if not {"-h", "--help"}.isdisjoint(args) and not named:
        width = max(map(len, known()))
        rows = [f"  {name:{width}}  {asks}" for name, asks in OWN.items()]
        rows += [f"  {name}" for name in known() if name not in OWN]
        OUT.print(ANALYSE.format(questions="\n".join(rows)))
        raise SystemExit(0)
    if not words or words[0].startswith("-"):
        raise UserError(
            f"write `lab analyse RUN [NAME] [OPTIONS]`; NAME is one of {', '.join(known())} or all"
        )
    run = words[0]
    if named:
        rest = list(args)
        rest.remove(run)
        rest.remove(words[1])
        options, how = parse_asked(options_of(words[1]), rest, f"analyse {run} {words[1]}")
        return Analyse(Path(run), words[1], options, how)
    rest = words[2:] if words[1:2] == ["all"] else words[1:]
    if rest:
        raise UserError(f"{rest[0]} belongs to one question: name it before its options")
    return Analyse(Path(run), None, None, Asks(again="--again" in args, json="--json" in args))
