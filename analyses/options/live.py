"""The options of what is asked of a run at once, and not kept: words, trees and depths."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Literal

import tyro

from analyses.options.shared import Flag, Shows, at_least, check_languages, check_seed
from models.checks import MOST_SYMBOLS, check_bounds
from models.decoding.limits import LIMITS, check
from models.errors import UserError, option_of
from models.languages.tokens import merges_of


@dataclass(frozen=True)
class Syntax(Shows):
    """Is the tree of a word in the activations? Structural probes, of a run on a grammar.

    Attributes:
        run: the run's folder.
        words: different words to ask about; a third fits the probes, a third chooses the sites and
            a third scores.
        seed: of the words and the probes.
        step: the checkpoint that is asked; by default the last one.
    """

    run: tyro.conf.Positional[Path]
    words: int = 300
    seed: int = 0
    step: int | None = None

    def __post_init__(self) -> None:
        super().__post_init__()
        at_least(30, self, "words")
        at_least(0, self, "step")
        check_seed(self.seed)


@dataclass(frozen=True)
class Depths(Shows):
    """How deep may words be embedded until the model is wrong? Of a run on a grammar.

    Attributes:
        run: the run's folder.
        count: different words of each depth.
        deepest: the largest depth of embedding; 0 is a word without any.
        seed: of the words.
        step: the checkpoint that is asked; by default the last one.
    """

    run: tyro.conf.Positional[Path]
    count: int = 64
    deepest: int = 6
    seed: int = 0
    step: int | None = None

    def __post_init__(self) -> None:
        super().__post_init__()
        at_least(1, self, "count")
        if not 0 <= self.deepest <= MOST_DEPTH:
            raise UserError(f"--deepest is {self.deepest}: it must lie between 0 and {MOST_DEPTH}")
        at_least(0, self, "step")
        check_seed(self.seed)


@dataclass(frozen=True)
class OfRuns(Shows):
    """Options of what several runs may be asked.

    Attributes:
        runs: folders of runs; of several, the mean is told too.
        step: the checkpoint that is asked; by default the last one.
    """

    runs: tyro.conf.Positional[tuple[Path, ...]]
    step: int | None = None

    def __post_init__(self) -> None:
        super().__post_init__()
        if not self.runs:
            raise UserError("no run is given: name the folder of a run, or of several")
        at_least(0, self, "step")


@dataclass(frozen=True)
class Perplexity(OfRuns):
    """How close is the model's next-token distribution to the language's own?

    Attributes:
        by: what words are told apart by: their length, or the depth of embedding in their tree.
        count: words of each length; of each depth at most.
        deepest: the largest depth of embedding; 0 is a word without any.
        seed: of the words.
    """

    by: Literal["length", "depth"] = "length"
    count: int = 64
    deepest: int = 6
    seed: int = 0

    def __post_init__(self) -> None:
        super().__post_init__()
        at_least(2, self, "count")
        if not 0 <= self.deepest <= MOST_DEPTH:
            raise UserError(f"--deepest is {self.deepest}: it must lie between 0 and {MOST_DEPTH}")
        check_seed(self.seed)


@dataclass(frozen=True)
class Targets(OfRuns):
    """Is the target of a source right, and what follows after an error? Of runs on pairs.

    Attributes:
        by: what is told apart: the length of the source, or the place in the target.
        windows: the longest pairs, in training windows; by place always 1.
        count: different pairs of each length of the source at most.
        seed: of the pairs.
    """

    by: Literal["length", "place"] = "length"
    windows: float = 2.0
    count: int = 64
    seed: int = 0

    def __post_init__(self) -> None:
        super().__post_init__()
        at_least(2, self, "count")
        check_bounds("--windows", self.windows, 0.1, MOST_WINDOWS)
        check_seed(self.seed)


@dataclass(frozen=True)
class Steps(OfRuns):
    """A written step is turned around: does what follows believe it? Of runs on parity-steps.

    Attributes:
        count: pairs; one step of each is turned around.
        seed: of the pairs and the steps.
    """

    count: int = 200
    seed: int = 0

    def __post_init__(self) -> None:
        super().__post_init__()
        at_least(2, self, "count")
        check_seed(self.seed)


@dataclass(frozen=True)
class InContext(Shows):
    """Does the answer follow the examples in the prompt? Of runs on in-context.

    Attributes:
        runs: folders of runs; of several, the mean is told too.
        by: what is told apart: the number of examples, or the heads that are taken away.
        count: prompts of each number of examples.
        seed: of the prompts.
        step: the checkpoint that is asked; by default the last one.
    """

    runs: tyro.conf.Positional[tuple[Path, ...]]
    by: Literal["examples", "heads"] = "examples"
    count: int = 500
    seed: int = 0
    step: int | None = None

    def __post_init__(self) -> None:
        super().__post_init__()
        if not self.runs:
            raise UserError("no run is given: name the folder of a run, or of several")
        at_least(2, self, "count")
        at_least(0, self, "step")
        check_seed(self.seed)


@dataclass(frozen=True)
class Dependencies(Shows):
    """Which earlier symbol decides what may come next, and how does the model know?

    Attributes:
        run: the run's folder.
        symbols: ask only where one of these comes next, in quotes, such as "loopt lopen"; by
            default anything that depends on a symbol further back.
        count: pairs of words for each number of attractors, symbols between that speak for the
            opposite.
        seed: of the words.
        step: the checkpoint that is asked; by default the last one.
    """

    run: tyro.conf.Positional[Path]
    symbols: str = ""
    count: int = 40
    seed: int = 0
    step: int | None = None

    def __post_init__(self) -> None:
        super().__post_init__()
        at_least(2, self, "count")
        at_least(0, self, "step")
        check_seed(self.seed)


@dataclass(frozen=True)
class Looks(Shows):
    """Do symbols of one kind look at those of another, head by head, and does it matter?

    Attributes:
        run: the run's folder.
        query: the symbols that look, in quotes, such as "hond kat".
        key: those that are looked at, such as "grote kleine".
        count: places, each in another word.
        seed: of the words.
        step: the checkpoint that is asked; by default the last one.
    """

    run: tyro.conf.Positional[Path]
    query: str = ""
    key: str = ""
    count: int = 60
    seed: int = 0
    step: int | None = None

    def __post_init__(self) -> None:
        super().__post_init__()
        at_least(4, self, "count")
        at_least(0, self, "step")
        check_seed(self.seed)


@dataclass(frozen=True)
class Vectors(Shows):
    """Do vectors of words know their classes? Analogies with known answers, of a run on a grammar.

    Attributes:
        run: the run's folder.
        sentences: that skip-gram, CBOW and PPMI read; each seed draws its own.
        dim: numbers in the vectors that are made of them.
        window: places to each side of a word that count as near.
        seeds: how often it is done.
        seed: the first of them.
        step: the checkpoint that is asked; by default the last one.
    """

    run: tyro.conf.Positional[Path]
    sentences: int = 2000
    dim: int = 16
    window: int = 2
    seeds: int = 3
    seed: int = 0
    step: int | None = None

    def __post_init__(self) -> None:
        super().__post_init__()
        for name, most in (
            *(("sentences", MOST_WORDS), ("dim", MOST_DIM)),
            *(("window", MOST_WINDOW), ("seeds", MOST_SEEDS)),
        ):
            if not 1 <= (value := getattr(self, name)) <= most:
                raise UserError(f"--{name} is {value}: it must lie between 1 and {most}")
        at_least(0, self, "step")
        check_seed(self.seed)


@dataclass(frozen=True)
class Senses(Shows):
    """One form, two senses: from which layer on can they be told apart? Of a run on a grammar.

    Attributes:
        run: the run's folder.
        sentences: that are read.
        seed: of the sentences.
        step: the checkpoint that is asked; by default the last one.
    """

    run: tyro.conf.Positional[Path]
    sentences: int = 600
    seed: int = 0
    step: int | None = None

    def __post_init__(self) -> None:
        super().__post_init__()
        if not 1 <= self.sentences <= MOST_WORDS:
            raise UserError(
                f"--sentences is {self.sentences}: it must lie between 1 and {MOST_WORDS}"
            )
        at_least(0, self, "step")
        check_seed(self.seed)


@dataclass(frozen=True)
class Tokens(Shows):
    """How is a language's word cut into tokens, and do byte pairs find its words? Needs no run.

    Attributes:
        language: a language of the lab.
        vocabulary: characters, or bpe:16 for letters and 16 merges.
        word: the word that is cut, in quotes; it may be misspelled. By default an example.
    """

    language: tyro.conf.Positional[str]
    vocabulary: str = "bpe:16"
    word: str = ""

    def __post_init__(self) -> None:
        super().__post_init__()
        check_languages([self.language])
        merges_of(self.vocabulary)


@dataclass(frozen=True)
class Sentences(OfRuns):
    """What does one vector hold of a whole word, by the way in which it is made?

    Attributes:
        words: different words to ask about, half of them near misses; half fits the probes, a
            quarter chooses the sites and a quarter scores.
        seed: of the words and the probes.
    """

    words: int = 1200
    seed: int = 0

    def __post_init__(self) -> None:
        super().__post_init__()
        at_least(40, self, "words")
        check_seed(self.seed)


MOST_DIM, MOST_WINDOW, MOST_SEEDS = 1024, 50, 100
"""Of vectors of words."""
MOST_WINDOWS = 100.0
"""The longest pairs that may be asked for, in training windows."""
MOST_DEPTH = 12
MOST_WORDS, MOST_BEAM = 100_000, 4096
"""The deepest embedding, the most words that are drawn, and the widest beam."""


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
    count: int = 0
    prompt: str = ""
    longest: int = 0
    temperature: float = 1.0
    top_k: int = 0
    top_p: float = 1.0
    frequency_penalty: float = 0.0
    presence_penalty: float = 0.0
    beam: int = 0
    by_length: Flag = False
    all_words: Flag = False
    seed: int = 0
    step: int | None = None

    def __post_init__(self) -> None:
        super().__post_init__()
        for name, most in (("count", MOST_WORDS), ("longest", MOST_SYMBOLS), ("beam", MOST_BEAM)):
            if not 0 <= (value := getattr(self, name)) <= most:
                raise UserError(f"--{name} is {value}: it must lie between 0 and {most}")
        check({name: getattr(self, name) for name in LIMITS})
        at_least(0, self, "step")
        ways = [name for name in ("decoders", "beam", "all_words") if getattr(self, name)]
        idle = [] if self.beam or self.all_words else ["by_length"]
        idle += [*ways[1:], *(LIMITS if ways else ())]
        for name in idle:
            if getattr(self, name) != getattr(Generate, name):
                needed = f"says nothing beside {option_of(ways[0])}" if ways else "needs --beam"
                raise UserError(f"{option_of(name)} {needed}: leave one of them out")
        check_seed(self.seed)
