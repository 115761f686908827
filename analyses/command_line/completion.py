"""Completion by the Tab key. The shell asks `lab --complete`, so it always knows what lab knows."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import get_args

from analyses.command_line.arguments import SHOWN, SHOWN_OF, STUDIES, TAKES
from analyses.console import option_values
from analyses.options.commands import Completion, Shell, Train
from analyses.options.lines import Discover, OfNetwork, Study
from analyses.options.shared import Asks
from analyses.options.shipped import shipped
from analyses.registry import options_of, registered
from models.languages import LANGUAGES
from models.languages.grammars.bounded import BOUNDED
from models.objectives.registry import OBJECTIVES
from models.training.recipes import RECIPES, recipe

SCRIPTS: dict[Shell, str] = {
    "bash": """_lab() {
  mapfile -t COMPREPLY < <(lab --complete "${COMP_WORDS[@]:1:COMP_CWORD}")
}
complete -o default -F _lab lab""",
    "zsh": """_lab() {
  local -a found
  found=("${(@f)$(lab --complete "${(@)words[2,CURRENT]}")}")
  if [[ -n "$found" ]]; then compadd -a found; else _files; fi
}
compdef _lab lab""",
    "fish": """complete -c lab -a '(lab --complete (commandline -opc)[2..] (commandline -ct))'""",
}
"""The script that each shell runs at its start. Where lab knows nothing, the shell offers files."""

VALUES: dict[str, Iterable[str]] = {"--recipe": RECIPES, "--objective": OBJECTIVES}
"""Options whose values are known, beside those whose help lists them."""


def completion(options: Completion) -> None:
    """Print what makes the Tab key complete `lab` in a shell."""
    print(SCRIPTS[options.shell])


def candidates(words: Sequence[str], commands: Iterable[str]) -> list[str]:
    """The words that the last word may become.

    Args:
        words: the words after `lab`, up to the cursor; the last one is being written and may be "".
        commands: the commands of `lab`.
    """
    *before, current = words or [""]
    choices = _known(before, current) if before else [*commands, "--help", "--version"]
    return [word for word in choices if word.startswith(current)]


def _known(before: Sequence[str], current: str) -> Iterable[str]:
    name, *rest = before
    if name not in {"train", "finetune", "analyse", *TAKES}:
        return []
    values = _options(name, rest)
    if rest and rest[-1] in values and not current.startswith("-"):
        return VALUES.get(rest[-1], values[rest[-1]])
    if current.startswith("-"):
        return values
    place = sum(not word.startswith("-") for word in rest)
    return _places(name).get(place, [])


def _places(name: str) -> dict[int, Iterable[str]]:
    """The words that may stand at each place of a command; where a path stands, none."""
    questions = [*registered()]
    places: dict[str, dict[int, Iterable[str]]] = {
        "train": {0: LANGUAGES},
        "finetune": {1: LANGUAGES},
        "languages": {0: LANGUAGES},
        "sweep": {0: [*shipped(), *STUDIES], **dict.fromkeys(range(1, len(LANGUAGES)), LANGUAGES)},
        "recover": {0: get_args(Study)},
        "plant": {0: BOUNDED},
        "completion": {0: get_args(Shell)},
        "analyse": {1: [*questions, "all"]},
        "seeds": {1: [*questions, "all"]},
        "show": {0: SHOWN, 1: [*questions, *SHOWN_OF]},
    }
    return places.get(name, {})


def _options(name: str, rest: Sequence[str]) -> dict[str, list[str]]:
    """The options of a command with the values that each may have, where they are known."""
    if name in ("train", "finetune"):
        return option_values(Train, Train(recipe("")))
    if name == "rule":
        of_network = option_values(OfNetwork)
        of_lines = option_values(Discover) | {"--model": of_network["--model"]}
        return of_network if "--model" in rest else of_lines
    if name == "sweep" and rest and rest[0] in STUDIES:
        return option_values(STUDIES[rest[0]])
    if name == "show" and (others := [word for word in rest[:2] if word in SHOWN | SHOWN_OF]):
        return option_values((SHOWN | SHOWN_OF)[others[0]])
    if name != "analyse":
        return option_values(TAKES[name])
    names = [word for word in rest if word in registered()]
    return option_values(Asks) | (option_values(options_of(names[0])) if names else {})
