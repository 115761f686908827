"""What each command takes: its arguments as a dataclass."""

from __future__ import annotations

import os
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated

import tyro

from analyses.questions import accuracy
from models.config import Device, TrainConfig


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
class Evaluate(accuracy.Options):
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
