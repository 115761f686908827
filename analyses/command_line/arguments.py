"""The arguments of each command as a dataclass, read from the words of the command line.

Nothing heavy is imported here, so that ``--help`` and mistakes are answered at once.
"""

from __future__ import annotations

import os
import re
import shlex
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from pathlib import Path
from typing import Any

from analyses.console import OUT, parse, parse_asked
from analyses.options.commands import (
    Completion,
    Dashboard,
    Demo,
    Evaluate,
    Finetune,
    Generate,
    Hooks,
    Languages,
    Predict,
    Report,
    Resume,
    Runs,
    Seeds,
    Show,
    Size,
    Train,
)
from analyses.options.lines import Discover, OfAutomaton, OfNetwork, Recover, holds_an_automaton
from analyses.options.plants import Plant, Score
from analyses.options.shared import Asks
from analyses.options.studies import FewLabels, Leaderboard, Scaling, Sweep
from analyses.registry import BUILT_IN, options_of, registered
from models.config import TrainConfig
from models.errors import UserError
from models.families import FAMILIES
from models.languages import LANGUAGES, corpus_name, language
from models.languages.files.jflap import productions_of
from models.languages.grammars.notation import ARROW
from models.languages.own_grammar import MOST_LETTERS
from models.languages.tokens import WORDS
from models.model_config import ModelConfig
from models.objectives import OBJECTIVES, objective
from models.plain_files import one_form, plain_size, read_text
from models.runs.folders import run_folder
from models.training.recipes import recipe


@dataclass(frozen=True)
class Analyse:
    """Ask a run one question, or all.

    Attributes:
        run: the run's folder.
        name: the question; None asks all.
        options: the question's own; None where all are asked.
        how: the options of every question.
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
        "rule": _rule,
        "show": _show,
        "sweep": _sweep,
    }
    for option in ("--regex", "--grammar"):  # below, an empty one is as good as none
        if _given(args, option) == "":
            raise UserError(f"{option} is empty: write one in quotes after it, or leave it out")
    if command in special:
        return special[command](args)
    return parse(TAKES[command], args, command)


def check_paths(options: Any) -> None:
    """Raises UserError for a run or a file of lines that is not there, before seconds are spent on
    imports."""
    if isinstance(options, Analyse | Evaluate | Predict | Generate | Resume):
        run_folder(options.run)
    if isinstance(options, Discover):
        plain_size(options.lines, "give a file of lines, label, tab, words")


TAKES: dict[str, type[Any]] = {
    "languages": Languages,
    "resume": Resume,
    "runs": Runs,
    "evaluate": Evaluate,
    "predict": Predict,
    "generate": Generate,
    "show": Show,
    "report": Report,
    "rule": Discover,
    "recover": Recover,
    "plant": Plant,
    "score": Score,
    "seeds": Seeds,
    "sweep": Sweep,
    "dashboard": Dashboard,
    "demo": Demo,
    "completion": Completion,
}
STUDIES: dict[str, type[Any]] = {"leaderboard": Leaderboard, "few-labels": FewLabels}
"""Sweeps with options of their own."""
SHOWN: dict[str, type[Any]] = {"size": Size}
"""Things that are shown without a run."""
SHOWN_OF: dict[str, type[Any]] = {"hooks": Hooks, "scaling": Scaling}
"""Things that are shown of a run or of a folder, and are no kept answer."""


def _sweep(args: Sequence[str]) -> Any:
    """A file of a sweep, or a study by its name, with its options."""
    if args and args[0] in STUDIES:
        return parse(STUDIES[args[0]], args[1:], f"sweep {args[0]}")
    return parse(Sweep, args, "sweep")


def _show(args: Sequence[str]) -> Any:
    """A kept answer, or one of the other things that are shown."""
    if args and args[0] in SHOWN:
        return parse(SHOWN[args[0]], args[1:], f"show {args[0]}")
    if len(args) > 1 and args[1] in SHOWN:
        raise UserError(f"{args[1]} is of no run: write `lab show {args[1]}`")
    if len(args) > 1 and args[1] in SHOWN_OF:
        return parse(SHOWN_OF[args[1]], [args[0], *args[2:]], f"show {args[0]} {args[1]}")
    return parse(Show, args, "show")


DECIDING = (
    *("--corpus", "--regex", "--symbols", "--grammar", "--recipe", "--objective"),
    *("--model.architecture", "--model.mask"),
)
"""The options that decide the defaults of the others."""


def _train(args: Sequence[str]) -> Train:
    """The options of a training. Language, architecture and mask decide the defaults of the others:
    they are read first, whatever else is given."""
    words = [word for word in args if word not in ("-h", "--help")]
    plain = Train(recipe("", _architecture(words)))
    try:
        first = parse(Train, words, "train", plain)
    except UserError:  # the others may be wrong beside the plain defaults alone
        named = words[:1] if words and not words[0].startswith("-") else []
        given = ((option, _given(words, option)) for option in DECIDING)
        named += [word for option, value in given if value for word in (option, value)]
        first = parse(Train, named, "train", plain)
    name = one_form(first.config.language)
    if len(words) < len(args) and not name and first.corpus is None:
        return parse(Train, ["--help"], "train", Train(recipe("")))
    if first.corpus is not None and name:
        raise UserError(
            f"{name} and --corpus {first.corpus} are two things to train on: leave one out"
        )
    regex, symbols = first.config.regex, first.config.symbols
    grammar = productions(first.config.grammar)
    option = "--regex" if regex else "--symbols" if symbols else "--grammar"
    if first.corpus is not None and (regex or symbols or grammar):
        raise UserError(f"{option} and --corpus are two things to train on: leave one out")
    if first.corpus is not None:
        name = corpus_name(first.corpus)
    elif (regex or grammar) and not name:
        raise UserError(f"no name given: write `lab train my-language {option} ...`")
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
    if len(words) == len(args) and _given(args, "--model.output") is None:
        args = [*args, "--model.output", "sigmoid"]  # the objective decides it
    options = parse(Train, args, "train", default)
    _check_idle(args, options.config)
    return replace(options, config=replace(options.config, language=name, grammar=grammar))


def _architecture(args: Sequence[str]) -> ModelConfig:
    """The plain model of the architecture that is asked for, if it is one: it may leave no choice
    of what is taught."""
    name = _given(args, "--model.architecture")
    return ModelConfig(architecture=name) if name in FAMILIES else ModelConfig()


def _given(args: Sequence[str], option: str) -> str | None:
    """The value that is given for an option; None without one."""
    words = [part for word in args for part in (word.split("=", 1) if option in word else [word])]
    return dict(pairwise(words)).get(option)


def _check_idle(args: Sequence[str], config: TrainConfig) -> None:
    """Raises UserError for an option that changes nothing, since another one is missing."""
    low_rank = config.tuned == "lora"
    for option, works, other in (
        ("--disfluency", config.disfluent > 0, "--disfluent"),
        ("--adapted", low_rank, "--tuned lora"),
        ("--rank", low_rank or config.tuned == "subspace", "--tuned lora or subspace"),
    ):
        if _given(args, option) is not None and not works:
            raise UserError(f"{option} needs {other}: give both, or none")


def _finetune(args: Sequence[str]) -> Finetune:
    """The options of the parent are the defaults of all others."""
    if not args or args[0].startswith("-"):
        if "--help" in args or "-h" in args:
            return parse(Finetune, ["--help"], "finetune", Finetune(recipe("")))
        raise UserError("no run is given: write `lab finetune RUN [LANGUAGE] --tuned last`")
    from models.runs.run import CORPUS, Run  # heavy

    if _given(args, "--recipe") is not None:
        raise UserError("--recipe chooses a new network, and the parent's goes on: leave it out")
    parent = Run(Path(args[0]))
    choice = _given(args, "--objective")
    taught = choice if choice in OBJECTIVES else parent.config.objective
    model = replace(parent.config.model, output="sigmoid")  # the objective decides it anew
    config = replace(parent.config, objective=taught, model=model)
    config = replace(config, parent=parent.model_hash(), tuned="all", lines=0)
    definition = {name: _given(args, f"--{name}") or "" for name in ("regex", "symbols", "grammar")}
    definition["grammar"] = productions(definition["grammar"])
    bare = replace(config, regex="", symbols="", grammar="")
    start = Finetune(config, start=parent.path)
    first = parse(Finetune, args[1:], "finetune", start)
    _check_idle(args, first.config)
    if first.corpus is not None:
        config = replace(bare, language=corpus_name(first.corpus), vocabulary=WORDS)
    elif first.config.language != config.language or definition["regex"] or definition["grammar"]:
        language(first.config.language, **definition)
        config = replace(bare, rare=0)
    elif parent.corpus_bytes() is not None:
        start = replace(start, corpus=parent.path / CORPUS)
    options = parse(Finetune, args[1:], "finetune", replace(start, config=config))
    grammar = definition["grammar"] or options.config.grammar
    return replace(options, config=replace(options.config, grammar=grammar))


def _rule(args: Sequence[str]) -> Discover | OfNetwork | OfAutomaton:
    """The rule of lines; of an automaton, if a file holds one; with --model, of a network."""
    if any(word.split("=")[0] == "--model" for word in args):
        return parse(OfNetwork, args, "rule --model DIR")
    if any(holds_an_automaton(Path(word)) for word in args if not word.startswith("-")):
        return parse(OfAutomaton, args, "rule FILE.att")
    return parse(Discover, args, "rule")


def productions(grammar: str) -> str:
    """The productions of a grammar: those of a file, or what is given if it is productions."""
    if not grammar or ARROW.search(grammar):
        return grammar
    if re.search(r"['\"|\n]", grammar) and not os.path.exists(grammar):
        return grammar  # productions with another arrow, and no file: its reader says what is wrong
    cure = "give a file of productions, such as S -> 'a' S 'b' | 'a' 'b'"
    text = read_text(Path(grammar), cure, MOST_LETTERS) or "\n"
    xml = text.startswith(("<?xml", "<structure"))
    return productions_of(text, grammar) if xml else text


ANALYSE = """usage: lab analyse RUN [NAME] [OPTIONS]

RUN is the run's folder. NAME is one of these questions; without a name, the usual ones are asked:

{questions}

--again answers afresh, even if the run keeps the same answer. --json prints the answer as JSON,
--csv the table of one question as CSV.
`lab analyse RUN NAME --help` shows the options of a question."""
OF_ALL = ("-h", "--help", "--again", "--json")
"""Options that need no question by name."""


TITLES: dict[str, str] = {
    "behaviour": "what it does",
    "parts": "its parts",
    "inside": "inside",
    "words": "the symbols of a word",
    "training": "its training",
    "rule": "its rule",
}


def _questions() -> list[str]:
    """The questions, a line each, by their group; those of other packages come last."""
    width = max(map(len, registered()))
    lines = []
    for group, title in TITLES.items():
        ours = {name: entry.asks for name, entry in BUILT_IN.items() if entry.group == group}
        lines += [title, *(f"  {name:{width}}  {asks}" for name, asks in ours.items())]
    others = [f"  {name}" for name in registered() if name not in BUILT_IN]
    return [*lines, *(["of other packages", *others] if others else [])]


def _analyse(args: Sequence[str]) -> Analyse:
    """RUN [NAME] [OPTIONS]; the name decides which options there are."""
    words = [word for word in args if word not in OF_ALL]
    named = words[1:2] and not words[1].startswith("-") and words[1] != "all"
    if not {"-h", "--help"}.isdisjoint(args) and not named:
        OUT.print(ANALYSE.format(questions="\n".join(_questions())))
        raise SystemExit(0)
    if not words or words[0].startswith("-"):
        raise UserError(
            "write `lab analyse RUN [NAME] [OPTIONS]`; NAME is one of "
            f"{', '.join(registered())} or all"
        )
    run = words[0]
    if named:
        rest = list(args)
        rest.remove(run)
        rest.remove(words[1])
        options, how = parse_asked(
            options_of(words[1]), rest, shlex.join(["analyse", run, words[1]])
        )
        return Analyse(Path(run), words[1], options, how)
    rest = words[2:] if words[1:2] == ["all"] else words[1:]
    if rest:
        raise UserError(f"{rest[0]} belongs to one question: name it before its options")
    return Analyse(Path(run), None, None, Asks(again="--again" in args, json="--json" in args))
