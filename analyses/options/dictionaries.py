"""The options of sparse dictionaries."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Literal

import tyro

from analyses.options.shared import Asks, Flag, at_least, check_seed
from models.errors import UserError

NAME = "dictionaries"
"""Of the answers in a run's folder."""
DictionaryKind = Literal["topk", "batchtopk", "matryoshka", "transcoder"]


@dataclass(frozen=True)
class Dictionary(Asks):
    """Do sparse dictionaries find what is known of a site? Of a plant, or a run on a language.

    Autoencoders beside PCA, ICA, k-means, neurons, random directions and the untrained model. The
    answer is kept in the run.

    Attributes:
        run: the run's folder.
        site: the hook whose activations are taken apart; `lab hooks RUN` lists them.
        kinds: sparse dictionaries that are trained; without any, all that can be. A transcoder is
            one of them if the site is what an MLP writes.
        width: latents, of each dictionary; several are compared. By default twice the site's
            dimensions.
        active: codes above 0 at a position; of batchtopk and matryoshka on average.
        seeds: dictionaries of each kind.
        steps: of training each.
        words: half of them train dictionaries and choose latents, the others are scored.
        seed: of the words, and the first of the dictionaries.
        features: print the latents with their strongest words and what clamping does, in place of
            the scores.
    """

    run: tyro.conf.Positional[Path]
    site: str = "blocks.0.hook_resid_post"
    kinds: tuple[DictionaryKind, ...] = ()
    width: tuple[int, ...] = ()
    active: int = 4
    seeds: int = 5
    steps: int = 600
    words: int = 2000
    seed: int = 0
    features: Flag = False

    def __post_init__(self) -> None:
        super().__post_init__()
        for name, least, most in (
            *(("active", 1, MOST_WIDTH), ("seeds", 1, MOST_SEEDS)),
            *(("steps", 1, MOST_STEPS), ("words", 40, MOST_WORDS)),
        ):
            if not least <= (value := getattr(self, name)) <= most:
                raise UserError(f"--{name} is {value}: it must lie between {least} and {most:,}")
        for value in self.width:
            if not 1 <= value <= MOST_WIDTH:
                raise UserError(f"--width is {value}: it must lie between 1 and {MOST_WIDTH:,}")
        at_least(0, self, "step")
        check_seed(self.seed)


MOST_WIDTH, MOST_SEEDS, MOST_STEPS, MOST_WORDS = 4096, 100, 100_000, 100_000
"""Of dictionaries."""
