"""The options of each question, one class per question. Each field is an option of the command.

The classes check their values when they are built. They stand apart from the code that answers, so
that the command line can show the options without importing it.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal, get_args

from analyses.options.shared import Checked, at_least, check_seed
from models.checks import MOST_SYMBOLS
from models.errors import UserError, unknown

Component = Literal[
    "resid_pre", "resid_mid", "resid_post", "attn_out", "mlp_out", "conv_out", "cell",
    "z", "q", "k", "v", "pattern", "neuron",
]  # fmt: skip
MetricName = Literal["logit", "probability", "closeness"]
EdgeAblation = Literal["resample", "mean", "zero"]
EdgeMethod = Literal["exact", "EAP", "GIM", "EAP-IG", "conductance"]
EdgeDirection = Literal["noising", "denoising"]
Replacement = Literal["uniform", "data", "fixed"]
"""What stands in for hidden symbols. "uniform": symbols drawn evenly. "data": symbols of other
words of the same length, members and near misses of the language. "fixed": the first symbol of the
alphabet, everywhere."""
SHORTEST, LONGEST = 4, 12
"""The shortest and longest words of a leaderboard: all subsets of 12 symbols can be tried."""


def length_range(text: str) -> range:
    """FIRST:LAST as a range; an empty one where that is not what it says, or beyond what a word may
    have."""
    found = re.fullmatch(r"(\d{1,9}):(\d{1,9})", text)
    first, last = map(int, found.groups()) if found else (0, 0)
    return range(first, last + 1) if first >= 1 and last <= MOST_SYMBOLS else range(0)


@dataclass(frozen=True)
class Accuracy(Checked):
    """What to evaluate.

    Attributes:
        max_n: the largest size to test, from 1 on; by default twice the training window.
        lengths: the word lengths to test, instead of sizes: FIRST:LAST, both included.
        count: the number of test words per length. Half of them are members, if there are any.
        seed: the seed that draws the test words.
        all_words: test all words up to this length too; 0 leaves that out. By default, as long
            words as there are at most 100,000 of, and none longer than those tested anyway.
    """

    max_n: int | None = None
    lengths: str | None = None
    count: int = 64
    seed: int = 0
    all_words: int | None = None

    def __post_init__(self) -> None:
        super().__post_init__()
        at_least(1, self, "count", "max_n")
        at_least(0, self, "all_words")
        check_seed(self.seed)
        if self.lengths is not None:
            self.range()
            if self.max_n is not None:
                raise UserError("--lengths stands instead of --max-n: leave one of them out")

    def range(self) -> Sequence[int]:
        """The word lengths given. Raises UserError for a range that is none."""
        asked = length_range(str(self.lengths))
        if not asked:
            raise UserError(
                f"--lengths is {self.lengths!r}: write FIRST:LAST, for example 41:500; the longest "
                f"words have {MOST_SYMBOLS} symbols"
            )
        return asked


@dataclass(frozen=True)
class Probing:
    """What to probe.

    Attributes:
        words: the number of words, drawn from the training window. Half of them fit the probes, a
            quarter choose the best sites, and the others score the probes.
        seed: the seed that draws the words and splits them.
    """

    words: int = 400
    seed: int = 0

    def __post_init__(self) -> None:
        at_least(8, self, "words")
        check_seed(self.seed)


@dataclass(frozen=True)
class Emergence:
    """What to follow.

    Attributes:
        words: the number of words, drawn from the training window. Half of them fit the probes at
            each checkpoint, a quarter choose the best site, and the others score the probes.
        count: the number of test words per length on which each checkpoint is judged.
        seed: the seed that draws the words.
    """

    words: int = 200
    count: int = 16
    seed: int = 0

    def __post_init__(self) -> None:
        at_least(8, self, "words")
        at_least(1, self, "count")
        check_seed(self.seed)


@dataclass(frozen=True)
class Interventions:
    """What to change.

    Attributes:
        words: the number of words, drawn from the training window, on which erasers and probes are
            fitted and scored. Half as many other words test what the model still gets right.
        pairs: the number of pairs of prefixes on which a subspace to exchange is trained.
        rank: the most dimensions that such a subspace may have for each variable. One dimension is
            tried too, and the better of both is chosen on other prefixes.
        seed: the seed that draws words and pairs.
    """

    words: int = 300
    pairs: int = 192
    rank: int = 4
    seed: int = 0

    def __post_init__(self) -> None:
        at_least(8, self, "words", "pairs")
        at_least(1, self, "rank")
        check_seed(self.seed)


@dataclass(frozen=True)
class Heads:
    """What to look at.

    Attributes:
        words: the number of words, drawn from the training window: about half are members.
        members: the largest number of members on which attention is compared with effects.
        seed: the seed that draws the words.
    """

    words: int = 200
    members: int = 12
    seed: int = 0

    def __post_init__(self) -> None:
        at_least(1, self, "words", "members")
        check_seed(self.seed)


@dataclass(frozen=True)
class Patching:
    """What to patch.

    Attributes:
        word: the clean word; by default a member of the language.
        corrupted: the word to compare it with, which must be as long; by default counterfactuals of
            the clean word are drawn.
        n: the size of the default word.
        pairs: the largest number of counterfactuals that the word is paired with.
        direction: "restore" puts clean activations into the corrupted run; "break" puts corrupted
            activations into the clean run.
        components: what to patch; by default the residual stream, the output of each part, and the
            heads.
        metric: what is measured where the verdict is read. "logit" and "probability" are those of
            END; "closeness" says how near the whole output comes to the run patched from.
        whole: patch each site at all positions at once.
        seed: the seed that chooses the counterfactuals.
    """

    word: str | None = None
    corrupted: str | None = None
    n: int = 8
    pairs: int = 16
    direction: Literal["restore", "break"] = "restore"
    components: tuple[Component, ...] = ()
    metric: MetricName = "logit"
    whole: bool = False
    seed: int = 0

    def __post_init__(self) -> None:
        at_least(1, self, "n", "pairs")
        check_seed(self.seed)


@dataclass(frozen=True)
class Circuits:
    """What to look for.

    Attributes:
        pairs: the number of members, drawn from the training window, of 40 symbols at the most.
            Each has a counterfactual. Every third pair is held out.
        goal: the faithfulness wanted on the held-out pairs. On the other pairs the search aims at
            half the distance from 1, because held-out pairs always come out a little worse.
        ablation: what an edge outside the circuit carries. "resample": the activation of the
            counterfactual; "mean": the mean over the counterfactuals; "zero": nothing.
        scores: the scores that order the edges; the search leaves out the lowest first. They are
            measured with the activations of the counterfactual, whatever the ablation.
        direction: of "exact", "EAP" and "GIM". "noising": what is lost when an edge carries the
            counterfactual's activation, as edges outside a circuit do; "denoising": what is won
            when an edge carries the word's activation in the run of the counterfactual.
        seed: the seed that draws the words.
    """

    pairs: int = 96
    goal: float = 0.95
    ablation: EdgeAblation = "resample"
    scores: EdgeMethod = "exact"
    direction: EdgeDirection = "noising"
    seed: int = 0

    def __post_init__(self) -> None:
        at_least(4, self, "pairs")
        check_seed(self.seed)
        if not 0 < self.goal < 1:
            raise UserError(f"--goal is {self.goal}: it must lie between 0 and 1")


@dataclass(frozen=True)
class Explanations:
    """What to explain.

    Attributes:
        word: the word to explain; by default a printed line for a Dutch rule, else a near miss.
        n: the size of the default word.
        replacement: what stands in for hidden symbols: symbols drawn evenly (uniform), symbols of
            other words of the language and its near misses (data), or one symbol (fixed).
        samples: the number of coalitions that LIME and SHAP may ask for. A coalition is a set of
            symbols that stay visible.
        draws: the number of replacements over which the model's probability of "in the language"
            is averaged.
        steps: the largest number of points on the line from each replacement to the word at which
            integrated gradients take the gradient. They take as many as they need to miss their sum
            by less than 1%.
        seed: the seed of the replacements and of the methods.
    """

    word: str | None = None
    n: int = 5
    replacement: Replacement = "uniform"
    samples: int = 512
    draws: int = 8
    steps: int = 384
    seed: int = 0

    def __post_init__(self) -> None:
        if self.replacement not in get_args(Replacement):
            raise unknown("replacement", self.replacement, get_args(Replacement))
        at_least(1, self, "n", "draws", "steps")
        at_least(16, self, "samples")
        check_seed(self.seed)


@dataclass(frozen=True)
class Leaderboard:
    """Which words to explain.

    Attributes:
        words: the number of fresh words: half members, half near misses.
        longest: the largest number of symbols in a word; at most 12, so that all subsets of its
            symbols can be tried.
        samples: the number of coalitions that LIME and SHAP may ask for. A coalition is a set of
            symbols that stay visible.
        draws: the number of replacements over which the model's probability of "in the language"
            is averaged.
        steps: the largest number of points on the line from each replacement to the word at which
            integrated gradients take the gradient. They take as many as they need to miss their sum
            by less than 1%.
        seed: the seed of the words, the replacements and the methods.
    """

    words: int = 100
    longest: int = 10
    samples: int = 256
    draws: int = 8
    steps: int = 384
    seed: int = 0

    def __post_init__(self) -> None:
        at_least(1, self, "words", "draws", "steps")
        at_least(16, self, "samples")
        check_seed(self.seed)
        if not SHORTEST <= self.longest <= LONGEST:
            raise UserError(
                f"--longest is {self.longest}: it must be {SHORTEST} to {LONGEST}, "
                "so that all subsets of a word can be tried"
            )


QUERIES, FEWEST_QUERIES = 20_000, 20
"""So many words a network is asked at most while automata are learned; and the least bound."""


@dataclass(frozen=True)
class Discovery:
    """How hard to look.

    Attributes:
        words: the number of words on which automaton and network must agree.
        max_states: the search gives up when the automaton needs more states than this.
        queries: the most words that the network is asked while automata are learned. If they do
            not suffice, the best automaton so far is kept, and the answer says "not finished".
        seed: the seed that draws the words.
    """

    words: int = 2000
    max_states: int = 30
    queries: int = QUERIES
    seed: int = 0

    def __post_init__(self) -> None:
        at_least(10, self, "words")
        at_least(1, self, "max_states")
        at_least(FEWEST_QUERIES, self, "queries")
        check_seed(self.seed)


@dataclass(frozen=True)
class Alignment:
    """What to align.

    Attributes:
        words: different pairs of the training window that are looked at. Every other one chooses a
            head, the others judge it.
        donors: other pairs whose symbols stand in, one after the other, for those of each source.
        seed: of the pairs.
    """

    words: int = 60
    donors: int = 3
    seed: int = 0

    def __post_init__(self) -> None:
        at_least(4, self, "words")
        at_least(1, self, "donors")
        check_seed(self.seed)
