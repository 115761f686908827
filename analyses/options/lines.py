"""Options of `lab rule` and `lab recover`: from lines, or from a network, to rules."""

from __future__ import annotations

import os
import re
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Literal

from annotated_types import Interval
from tyro.conf import Positional

from analyses.options.rule import FEWEST_QUERIES, QUERIES, Discovery
from analyses.options.shared import Columns, Flag, Seed, Shows, Trains, Works
from models.config import Device
from models.errors import UserError, lab
from models.languages import corpus_name
from models.objectives.readout import LEAST, Reads

Study = Literal["rules", "dieren", "lines", "noise", "disfluent", "automata"]
WORDS, OTHERS = 60, 6
"""The most different words that are told apart, unless another number is asked for; and as how many
words all others are read: lines then still differ."""
NETWORKS = 5
"""Networks of so many kinds learn the lines, one after the other, until one gives a rule."""


MINUTES = 2.0
"""Minutes of CPU that networks may take. Where a rule is found, it takes less than one."""


MOST_MINUTES = 10_000


@dataclass(frozen=True)
class Discover(Shows, Trains, Columns):
    """From labelled lines to the rule behind them.

    For the rule behind a network of transformers or TransformerLens, see lab rule --model DIR
    --help; of an automaton in AT&T form, see lab rule FILE.att --help.

    Attributes:
        lines: a file of labelled lines: label <tab> words, CSV, JSON lines, fastText, Abbadingo,
            StaMinA, minimal pairs. The labels may have any names.
        out: the folder of all runs.
        name: the name of the corpus, which its runs and its folder bear; by default the file's.
        accepted: the label whose lines the rule describes; by default the label of the first line.
            Of three labels and more each has a rule of its own, against all others.
        words: the most different words that are told apart. If there are more, those that tell the
            labels apart best are kept. More words take more time and memory.
        networks: the largest number of networks to train before giving up.
        rivals: let methods without a Transformer learn the same lines.
        queries: the most words that each network is asked while its automata are learned.
        minutes: of CPU time. When another network would take more, none is trained, and the best
            rule so far is the answer. Passive learning and word patterns come on top.
        seed: the seed of networks and words.
    """

    lines: Positional[Path]
    out: Path = Path("runs")
    name: str = ""
    accepted: str | None = None
    words: Annotated[int, Interval(ge=OTHERS + 1, le=1000)] = WORDS
    networks: Annotated[int, Interval(ge=1, le=100)] = NETWORKS
    rivals: bool = True
    queries: Annotated[int, Interval(ge=FEWEST_QUERIES, le=10_000_000)] = QUERIES
    minutes: Annotated[float, Interval(ge=0, le=MOST_MINUTES)] = MINUTES
    seed: Seed = 0

    def __post_init__(self) -> None:
        super().__post_init__()
        if (self.lines / "config.json").exists():
            raise UserError(f"{self.lines} is a network: write `{lab('rule', model=self.lines)}`")
        object.__setattr__(self, "name", safe_name(self.name or self.lines.stem))


@dataclass(frozen=True, kw_only=True)
class OfNetwork(Discovery, Shows):
    """The rule behind a language model that the lab did not make.

    Attributes:
        model: a folder that save_pretrained of transformers wrote: config.json, a tokenizer, and
            *.safetensors; or one with cfg.to_dict() and state_dict() of TransformerLens, as
            config.json and model.safetensors, *.pt or *.pth. No code in it is run, nothing but
            tensors is unpickled, nothing is fetched.
        symbols: the alphabet of the words. By default all tokens that are not special, if there are
            60 at most.
        begin: the token before every word; by default the one that the folder names.
        end: the token after a word; by default the one that the folder names.
        least: read as a softmax, a token may come next if its probability is at least this. A word
            is accepted if all its symbols may come, and then the end.
        reads: "softmax" for a language model; "sets" for a network that was taught which symbols
            may come next, where each may if its logit is above 0. By default both are tried.
        vocabulary: in the place of a tokenizer the names of all tokens in the order of their
            numbers, as in "<bos> <eos> a b".
        length: the longest words that are asked while the rule is learned; by default 12, or half
            of the network's context if that is shorter. The rule is tested on words of up to twice
            that length.
        out: the folder of all answers; these lie in OUT/foreign-NAME.
        name: by default the name of the model's folder.
        again: answer afresh, even if the same answer is kept.
        device: where the network answers; auto is the GPU if there is one.
    """

    model: Path
    symbols: tuple[str, ...] = ()
    begin: str | None = None
    end: str | None = None
    least: Annotated[float, Interval(ge=1e-09, le=1)] = LEAST
    reads: Reads | None = None
    vocabulary: str | None = None
    length: Annotated[int, Interval(ge=2, le=1000)] | None = None
    out: Path = Path("runs")
    name: str = ""
    again: Flag = False
    device: Device = "auto"

    def __post_init__(self) -> None:
        Discovery.__post_init__(self)
        Shows.__post_init__(self)
        object.__setattr__(
            self, "name", safe_name(self.name or Path(os.path.realpath(self.model)).name)
        )


@dataclass(frozen=True)
class OfAutomaton(Shows):
    """The classes of rules that an automaton belongs to, and its rule in words.

    Attributes:
        file: in AT&T form: an arrow a line, from <tab> to <tab> symbol <tab> symbol, then the
            accepting states, one a line. 0 is the start; what has no arrow is rejected.
    """

    file: Positional[Path]


def holds_an_automaton(path: Path) -> bool:
    """Is a file an automaton by its name, or by its first line?"""
    if path.suffix == ".att" or not path.is_file():
        return path.suffix == ".att"
    with path.open(encoding="utf-8", errors="replace") as file:
        return re.match(r"\ufeff?\d+\t\d+\t[^\t]+\t[^\t]+$", file.readline(1000)) is not None


def safe_name(name: str) -> str:
    """A name without what no folder should be called, and not that of a language. Raises UserError
    for a path."""
    if "/" in name:
        raise UserError(f"--name is {name}: leave out the /, it is no folder")
    return corpus_name(Path(f"{name}.tsv"))


@dataclass(frozen=True)
class Recover(Shows, Trains, Works):
    """How much of a planted rule comes back?

    Attributes:
        study: "rules" plants 47 rules, and makes lines without a rule; "dieren" takes ten-word
            lines and ten seeds; "lines" asks how many lines it takes; "noise" asks how many wrong
            labels it bears; "disfluent" asks how often the speaker of the lines may stumble; these
            three take the weaker rule of the Dutch lines, dieren-gaps. "automata" draws lines from
            the automata of a folder.
        out: the folder of all runs. A run that lies there already is not trained again.
        seeds: the number of seeds; 0 is the study's own number.
        rivals: let methods without a Transformer learn the same lines; of automata, an LSTM.
        automata: the folder of "automata": files *.att in AT&T form, as of lab rule FILE.att.
    """

    study: Positional[Study]
    out: Path = Path("runs")
    seeds: Annotated[int, Interval(ge=0, le=10_000)] = 0
    rivals: bool = True
    automata: Path | None = None

    def __post_init__(self) -> None:
        super().__post_init__()
        if (self.study == "automata") != (self.automata is not None):
            raise UserError(
                'the study "automata" and --automata DIR, its folder of *.att files, go together: '
                "write `lab recover automata --automata DIR`"
            )
