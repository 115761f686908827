"""Do exact tools find the plan of a planted network, and where do they fail, and how?"""

from __future__ import annotations

from itertools import product

import numpy as np
import pandas as pd
import pytest
import torch

from interp.causal.metrics import logit_at
from interp.circuits.effects import edge_effects
from models.languages import END_ID
from models.languages.grammars.bounded import BOUNDED
from models.plants.plant import Plant, plant
from models.plants.programs import PROGRAMS
from models.plants.settings import Dials

FELT = 0.01
"""A change of END's logit that is no rounding error: a verdict is 8 apart from the other one."""


def pairs_of(one: Plant, length: int = 6, count: int = 60) -> tuple[torch.Tensor, torch.Tensor]:
    """Words of a length, each with a word of the other verdict that differs in few symbols."""
    of, rng = BOUNDED[one.program.name], np.random.default_rng(0)
    words = list(product(of.symbols, repeat=length))
    sides = {label: [w for w in words if of.member(w) is label] for label in (True, False)}
    clean = [sides[i % 2 == 0][rng.integers(len(sides[i % 2 == 0]))] for i in range(count)]
    corrupted = []
    for word in clean:
        others = sides[not of.member(word)]
        apart = np.array([sum(a != b for a, b in zip(word, o, strict=True)) for o in others])
        near = np.flatnonzero(apart <= apart.min() + 1)
        corrupted.append(others[rng.choice(near)])
    return one.model.to_tokens([" ".join(w) for w in clean]), one.model.to_tokens(
        [" ".join(w) for w in corrupted]
    )


def felt(one: Plant) -> pd.Series:
    """By edge, the largest effect of exact path patching on any pair."""
    at = 0 if one.program.ahead else 6
    table = edge_effects(one.model, *pairs_of(one), logit_at(END_ID, at), ["exact"])
    return table.groupby(["sender", "receiver"])["effect"].apply(lambda e: e.abs().max())


@pytest.mark.parametrize("name", PROGRAMS)
def test_path_patching_returns_the_plan(name: str) -> None:
    one = plant(name)
    size = felt(one)
    assert {edge for edge, value in size.items() if value > FELT} == one.plan.edges


def test_idle_parts_are_not_found() -> None:
    one = plant("anbn-10", Dials(decoys=2, rotate=True), seed=1)
    size = felt(one)
    assert {edge for edge, value in size.items() if value > FELT} == one.plan.edges


@pytest.mark.parametrize(("copies", "shown_by"), [("either", "denoising"), ("both", "noising")])
def test_two_copies_are_found_in_one_direction_alone(copies: str, shown_by: str) -> None:
    """Where each is enough, one copy restores the verdict, and none breaks it; where both are
    needed it is the other way round."""
    one = plant("majority-10", Dials(copies=copies))
    clean, corrupted = (tokens[::2] for tokens in pairs_of(one))  # members first
    directions = ("noising", "denoising")
    table = edge_effects(one.model, clean, corrupted, logit_at(END_ID, 6), ["exact"], directions)
    size = table.groupby(["direction", "sender", "receiver"])["effect"].apply(
        lambda e: e.abs().max()
    )
    copied = [(f"L{layer}H{head}", "L0 mlp") for layer, head in one.plan.heads]
    assert len(copied) == 2
    for direction in directions:
        found = size[direction]
        assert (found[copied] > FELT).all() == (direction == shown_by)
        assert {edge for edge, value in found.items() if value > FELT} <= one.plan.edges
