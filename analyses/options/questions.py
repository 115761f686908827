"""What each question may be asked, a class each: its fields are the options of the command.

They check their values when they are built. They stand apart from the work, so that the command
line can show them without importing it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal, get_args

from analyses.options.shared import Checked
from models.errors import UserError, unknown

Component = Literal[
    "resid_pre", "resid_mid", "resid_post", "attn_out", "mlp_out", "conv_out", "cell",
    "z", "q", "k", "v", "pattern", "neuron",
]  # fmt: skip
MetricName = Literal["logit", "probability", "closeness"]
EdgeAblation = Literal["resample", "mean", "zero"]
EdgeMethod = Literal["exact", "EAP", "EAP-IG"]
Replacement = Literal["uniform", "data", "fixed"]
"""What stands in for hidden symbols: symbols drawn evenly; other words of the language's own
distribution, members and near misses, of the same length; one symbol everywhere, the alphabet's
first."""
SHORTEST, LONGEST = 4, 12
"""Symbols of the words of a leaderboard: all subsets of them can be tried."""


@dataclass(frozen=True)
class Accuracy(Checked):
    """What to evaluate.

    Attributes:
        max_n: every size from 1 to this; by default twice the training window.
        lengths: word lengths instead of sizes, FIRST:LAST, both included.
        count: words per length, half of them members where there are any.
        seed: of the test words.
    """

    max_n: int | None = None
    lengths: str | None = None
    count: int = 64
    seed: int = 0

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.count < 1:
            raise UserError(f"--count is {self.count}: it must be at least 1")
        if self.max_n is not None and self.max_n < 1:
            raise UserError(f"--max-n is {self.max_n}: it must be at least 1")
        if self.lengths is not None:
            self.range()

    def range(self) -> Sequence[int]:
        """The word lengths given. Raises UserError for a range that is none."""
        first, _, last = str(self.lengths).partition(":")
        if not (first.isdigit() and last.isdigit() and 1 <= int(first) <= int(last)):
            raise UserError(f"--lengths is {self.lengths!r}: write FIRST:LAST, for example 41:500")
        return range(int(first), int(last) + 1)


@dataclass(frozen=True)
class Probing:
    """What to probe.

    Attributes:
        words: words of the training window; half of them fit the probes, half score them.
        seed: of the words and of the split.
    """

    words: int = 400
    seed: int = 0

    def __post_init__(self) -> None:
        if self.words < 8:
            raise UserError(f"--words is {self.words}: probing needs at least 8")


@dataclass(frozen=True)
class Emergence:
    """What to follow.

    Attributes:
        words: of the training window; half of them fit the probes at each checkpoint.
        count: words per length, by which the model is judged there.
        seed: of the words.
    """

    words: int = 200
    count: int = 16
    seed: int = 0

    def __post_init__(self) -> None:
        if self.words < 8:
            raise UserError(f"--words is {self.words}: probing needs at least 8")
        if self.count < 1:
            raise UserError(f"--count is {self.count}: it must be at least 1")


@dataclass(frozen=True)
class Interventions:
    """What to change.

    Attributes:
        words: words of the training window that erasers and probes are fitted and scored on; half
            as many others are those to get right.
        pairs: pairs of words on which a direction to exchange is learned.
        seed: of words and pairs.
    """

    words: int = 300
    pairs: int = 288
    seed: int = 0

    def __post_init__(self) -> None:
        if min(self.words, self.pairs) < 8:
            raise UserError("--words and --pairs must be at least 8")


@dataclass(frozen=True)
class Heads:
    """What to look at.

    Attributes:
        words: words of the training window, half members, half hard negatives.
        members: members on which attention is held against effects, at the most.
        seed: of the words.
    """

    words: int = 200
    members: int = 12
    seed: int = 0

    def __post_init__(self) -> None:
        if min(self.words, self.members) < 1:
            raise UserError("--words and --members must be at least 1")


@dataclass(frozen=True)
class Patching:
    """What to patch.

    Attributes:
        word: the clean word; by default a member of the language.
        n: the size of the default word.
        pairs: the most counterfactuals of the word to pair it with.
        direction: "restore" puts clean activations into the corrupted run, "break" corrupted ones
            into the clean run.
        components: what to patch; by default the stream, what each part writes, and the heads.
        metric: END's logit or its probability where the verdict is read, or how close all that the
            model says there is to the run patched from.
        whole: patch every site at all positions at once.
        seed: of the choice of counterfactuals.
    """

    word: str | None = None
    n: int = 8
    pairs: int = 16
    direction: Literal["restore", "break"] = "restore"
    components: tuple[Component, ...] = ()
    metric: MetricName = "logit"
    whole: bool = False
    seed: int = 0

    def __post_init__(self) -> None:
        if self.pairs < 1:
            raise UserError(f"--pairs is {self.pairs}: it must be at least 1")


@dataclass(frozen=True)
class Circuits:
    """What to look for.

    Attributes:
        pairs: members of the training window, of 40 symbols at the most, each with a
            counterfactual; every third one is held out.
        goal: the faithfulness that is wanted on these. On the others the search aims at half the
            distance from 1, as what is held out is always a little worse.
        ablation: what an edge outside carries: "resample" the counterfactual's activation, "mean"
            that of the counterfactuals, "zero" none.
        scores: by which edges are left out, the lowest first.
        seed: of the words.
    """

    pairs: int = 96
    goal: float = 0.95
    ablation: EdgeAblation = "resample"
    scores: EdgeMethod = "exact"
    seed: int = 0

    def __post_init__(self) -> None:
        if self.pairs < 4:
            raise UserError(f"--pairs is {self.pairs}: it must be at least 4")
        if not 0 < self.goal < 1:
            raise UserError(f"--goal is {self.goal}: it must lie between 0 and 1")


@dataclass(frozen=True)
class Explanations:
    """What to explain.

    Attributes:
        word: the word; by default a printed line of `dieren`, and else a near miss.
        n: the size of the default word.
        replacement: what stands in for hidden symbols: drawn evenly (uniform), words of the
            language's own distribution (data), or one symbol everywhere (fixed).
        samples: coalitions that LIME and SHAP may ask for.
        draws: replacements over which the model's probability of "in the language" is averaged.
        seed: of the replacements and of the methods.
    """

    word: str | None = None
    n: int = 5
    replacement: Replacement = "uniform"
    samples: int = 512
    draws: int = 8
    seed: int = 0

    def __post_init__(self) -> None:
        if self.replacement not in get_args(Replacement):
            raise unknown("replacement", self.replacement, get_args(Replacement))
        _check_cost(self.samples, self.draws)


@dataclass(frozen=True)
class Leaderboard:
    """Which words to explain.

    Attributes:
        words: how many, fresh ones, members and near misses in equal parts.
        longest: their most symbols; at most 12, so that all subsets can be tried.
        samples: coalitions that LIME and SHAP may ask for.
        draws: replacements over which the model's probability of "in the language" is averaged.
        seed: of the words, the replacements and the methods.
    """

    words: int = 100
    longest: int = 10
    samples: int = 256
    draws: int = 8
    seed: int = 0

    def __post_init__(self) -> None:
        _check_cost(self.samples, self.draws)
        if self.words < 1:
            raise UserError(f"--words is {self.words}: it must be at least 1")
        if not SHORTEST <= self.longest <= LONGEST:
            raise UserError(
                f"--longest is {self.longest}: it must be {SHORTEST} to {LONGEST}, "
                "so that all subsets of a word can be tried"
            )


@dataclass(frozen=True)
class Discovery:
    """How hard to look.

    Attributes:
        words: words on which automaton and network must agree.
        max_states: give up beyond so many states.
        max_seconds: give up after so long; a slow machine may then miss a large automaton.
        seed: of the words.
    """

    words: int = 2000
    max_states: int = 30
    max_seconds: float = 20.0
    seed: int = 0

    def __post_init__(self) -> None:
        if self.words < 10 or self.max_states < 1 or self.max_seconds <= 0:
            raise UserError("--words must be at least 10, --max-states and --max-seconds positive")


def _check_cost(samples: int, draws: int) -> None:
    if draws < 1 or samples < 16:
        raise UserError("--draws must be at least 1 and --samples at least 16")
