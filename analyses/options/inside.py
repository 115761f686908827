"""Options of the questions about what activations hold."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Literal, get_args

from annotated_types import Interval

from analyses.options.shared import Checked, Seed
from models.errors import UserError

DictionaryKind = Literal["topk", "batchtopk", "matryoshka", "transcoder"]
Beside = Literal["mlp", "1-sparse", "8-sparse", "compression"]
"""Fits beside linear probes: perceptrons; linear probes of one or eight numbers; the bits
that a variable takes once the activations are known."""
MOST_WIDTH = 4096


@dataclass(frozen=True)
class Probing(Checked):
    """Words whose activations are probed.

    Attributes:
        words: the number of words, drawn from the training window. Half of them fit the probes, a
            quarter choose the best sites, and the others score the probes.
        probes: what is fitted beside the linear probes.
        seed: the seed that draws the words and splits them.
    """

    words: Annotated[int, Interval(ge=8, le=100_000)] = 400
    probes: tuple[Beside, ...] = get_args(Beside)
    seed: Seed = 0


@dataclass(frozen=True)
class Interventions(Checked):
    """Words whose activations are changed.

    Attributes:
        words: the number of words, drawn from the training window, on which erasers and probes are
            fitted and scored. Half as many other words test what the model still gets right.
        pairs: the number of pairs of prefixes on which a subspace to exchange is trained.
        rank: the most dimensions that such a subspace may have for each variable. One dimension is
            tried too, and the better of both is chosen on other prefixes.
        seed: the seed that draws words and pairs.
    """

    words: Annotated[int, Interval(ge=8, le=100_000)] = 300
    pairs: Annotated[int, Interval(ge=8, le=100_000)] = 192
    rank: Annotated[int, Interval(ge=1, le=1000)] = 4
    seed: Seed = 0


@dataclass(frozen=True)
class Syntax(Checked):
    """Is the tree of a word in the activations? Structural probes, of a run on a grammar.

    Attributes:
        words: different words to ask about; a third fits the probes, a third chooses the sites and
            a third scores.
        seed: of the words and the probes.
    """

    words: Annotated[int, Interval(ge=30, le=100_000)] = 300
    seed: Seed = 0


@dataclass(frozen=True)
class Vectors(Checked):
    """Do vectors of words know their classes? Analogies with known answers, of a run on a grammar.

    Attributes:
        sentences: that skip-gram, CBOW and PPMI read; each seed draws its own.
        dim: numbers in the vectors that are made of them.
        window: places to each side of a word that count as near.
        seeds: how often it is done.
        seed: the first of them.
    """

    sentences: Annotated[int, Interval(ge=1, le=100_000)] = 2000
    dim: Annotated[int, Interval(ge=1, le=1024)] = 16
    window: Annotated[int, Interval(ge=1, le=50)] = 2
    seeds: Annotated[int, Interval(ge=1, le=100)] = 3
    seed: Seed = 0


@dataclass(frozen=True)
class Senses(Checked):
    """One form, two senses: from which layer on can they be told apart? Of a run on a grammar.

    Attributes:
        sentences: that are read.
        seed: of the sentences.
    """

    sentences: Annotated[int, Interval(ge=1, le=100_000)] = 600
    seed: Seed = 0


@dataclass(frozen=True)
class Sentences(Checked):
    """What does one vector hold of a whole word, by the way in which it is made?

    Attributes:
        words: different words to ask about, half of them near misses; half fits the probes, a
            quarter chooses the sites and a quarter scores.
        seed: of the words and the probes.
    """

    words: Annotated[int, Interval(ge=40, le=100_000)] = 1200
    seed: Seed = 0


@dataclass(frozen=True)
class Dimension(Checked):
    """Words whose activations are read, layer by layer.

    Attributes:
        words: words of the training window.
        seed: of the words.
    """

    words: Annotated[int, Interval(ge=2, le=100_000)] = 200
    seed: Seed = 0


@dataclass(frozen=True)
class Positions(Checked):
    """Is each kind of position bounded, unique, consistent step by step, and readable?

    Attributes:
        length: positions of the window, a power of 2; as many beyond it are looked at.
        d_model: width of the stream.
        shift: positions of a step.
        seed: of the tables that are drawn.
    """

    length: Annotated[int, Interval(ge=2, le=1000)] = 128
    d_model: Annotated[int, Interval(ge=4, le=4096)] = 32
    shift: Annotated[int, Interval(ge=1, le=1000)] = 1
    seed: Seed = 0

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.d_model % 8:
            raise UserError(
                f"--d-model is {self.d_model}: choose a multiple of 8; each of 4 heads needs pairs "
                "of sine and cosine"
            )


@dataclass(frozen=True)
class Dictionary(Checked):
    """Dictionaries to train: autoencoders beside PCA, ICA, k-means, neurons and random directions.

    Attributes:
        site: the hook whose activations are taken apart; `lab show RUN hooks` lists them.
        kinds: sparse dictionaries that are trained; without any, all that can be. A transcoder is
            one of them if the site is what an MLP writes.
        width: latents, of each dictionary; several are compared. By default twice the site's
            dimensions.
        active: codes above 0 at a position; of batchtopk and matryoshka on average.
        seeds: dictionaries of each kind.
        steps: of training each.
        words: half of them train dictionaries and choose latents, the others are scored.
        seed: of the words, and the first of the dictionaries.
    """

    site: str = "blocks.0.hook_resid_post"
    kinds: tuple[DictionaryKind, ...] = ()
    width: tuple[int, ...] = ()
    active: Annotated[int, Interval(ge=1, le=MOST_WIDTH)] = 4
    seeds: Annotated[int, Interval(ge=1, le=100)] = 5
    steps: Annotated[int, Interval(ge=1, le=100_000)] = 600
    words: Annotated[int, Interval(ge=40, le=100_000)] = 2000
    seed: Seed = 0

    def __post_init__(self) -> None:
        super().__post_init__()
        for value in self.width:
            if not 1 <= value <= MOST_WIDTH:
                raise UserError(f"--width is {value}: it must lie between 1 and {MOST_WIDTH:,}")
