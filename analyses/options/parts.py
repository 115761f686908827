"""Options of the questions about heads, edges and what they carry."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Literal

from annotated_types import Interval

from analyses.options.shared import Checked, Seed
from models.errors import UserError

Component = Literal[
    "resid_pre", "resid_mid", "resid_post", "attn_out", "mlp_out", "conv_out", "cell",
    "z", "q", "k", "v", "pattern", "neuron",
]  # fmt: skip
MetricName = Literal["logit", "probability", "closeness"]
EdgeAblation = Literal["resample", "mean", "zero"]
EdgeMethod = Literal["exact", "EAP", "GIM", "EAP-IG", "conductance"]
EdgeDirection = Literal["noising", "denoising"]


@dataclass(frozen=True)
class Heads(Checked):
    """Words on which heads are looked at.

    Attributes:
        words: the number of words, drawn from the training window: about half are members.
        members: the largest number of members on which attention is compared with effects.
        seed: the seed that draws the words.
    """

    words: Annotated[int, Interval(ge=1, le=100_000)] = 200
    members: Annotated[int, Interval(ge=1, le=100_000)] = 12
    seed: Seed = 0


@dataclass(frozen=True)
class Patching(Checked):
    """Words and activations to patch.

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
    n: Annotated[int, Interval(ge=1, le=10_000)] = 8
    pairs: Annotated[int, Interval(ge=1, le=100_000)] = 32
    direction: Literal["restore", "break"] = "restore"
    components: tuple[Component, ...] = ()
    metric: MetricName = "logit"
    whole: bool = False
    seed: Seed = 0


@dataclass(frozen=True)
class Circuits(Checked):
    """Pairs and scores by which a circuit is sought.

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

    pairs: Annotated[int, Interval(ge=4, le=100_000)] = 96
    goal: float = 0.95
    ablation: EdgeAblation = "resample"
    scores: EdgeMethod = "exact"
    direction: EdgeDirection = "noising"
    seed: Seed = 0

    def __post_init__(self) -> None:
        super().__post_init__()
        if not 0 < self.goal < 1:
            raise UserError(f"--goal is {self.goal}: it must lie between 0 and 1")


@dataclass(frozen=True)
class Alignment(Checked):
    """Pairs whose attention is aligned.

    Attributes:
        words: different pairs of the training window that are looked at. Every other one chooses a
            head, the others judge it.
        donors: other pairs whose symbols stand in, one after the other, for those of each source.
        seed: of the pairs.
    """

    words: Annotated[int, Interval(ge=4, le=100_000)] = 60
    donors: Annotated[int, Interval(ge=1, le=1000)] = 3
    seed: Seed = 0


@dataclass(frozen=True)
class Dependencies(Checked):
    """Which earlier symbol decides what may come next, and how does the model know?

    Attributes:
        symbols: ask only where one of these comes next, in quotes, such as "loopt lopen"; by
            default anything that depends on a symbol further back.
        count: pairs of words for each number of attractors, symbols between that speak for the
            opposite.
        seed: of the words.
    """

    symbols: str = ""
    count: Annotated[int, Interval(ge=2, le=100_000)] = 40
    seed: Seed = 0


@dataclass(frozen=True)
class Looks(Checked):
    """Do symbols of one kind look at those of another, head by head, and does it matter?

    Attributes:
        query: the symbols that look, in quotes, such as "hond kat".
        key: those that are looked at, such as "grote kleine".
        count: places, each in another word.
        seed: of the words.
    """

    query: str = ""
    key: str = ""
    count: Annotated[int, Interval(ge=4, le=100_000)] = 60
    seed: Seed = 0


@dataclass(frozen=True)
class Ablation(Checked):
    """Parts to take away.

    Attributes:
        off: what goes, for example L0H1 "L0 mlp" "L0H1 -> L1H0.q".
        ablation: what stands in their place: their mean output, 0, or their output on another word.
    """

    off: tuple[str, ...] = ()
    ablation: EdgeAblation = "mean"


@dataclass(frozen=True)
class Reach(Checked):
    """Words in which the influence of each symbol on the last logit is measured.

    Attributes:
        count: different words, all of one length, in the language or not.
        length: of these words, in symbols; 0 takes the longest of the training window, up to 64.
        seed: of the words.
    """

    count: Annotated[int, Interval(ge=2, le=100_000)] = 60
    length: Annotated[int, Interval(ge=0, le=1000)] = 0
    seed: Seed = 0


@dataclass(frozen=True)
class Cosine(Checked):
    """Does a head score tokens higher, the more alike their embeddings are?

    Attributes:
        seed: of the permutations that test it.
    """

    seed: Seed = 0


@dataclass(frozen=True)
class Induction(Checked):
    """Prompts on which heads are taken away.

    Attributes:
        count: number of prompts.
        seed: seed of the prompts.
    """

    count: Annotated[int, Interval(ge=2, le=100_000)] = 500
    seed: Seed = 0
