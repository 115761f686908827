"""Alignment in a network of which everything is known, and the book-keeping of its table."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
import torch
from planted import counter
from torch import Tensor, nn
from transformer_lens import HookedRootModule
from transformer_lens.hook_points import HookPoint
from transformer_lens.tools.analysis import interchange as theirs

from interp.causal.alignment import (
    Cases,
    _random_basis,
    aligned,
    answered,
    displacements,
    exchanged,
    within,
)
from models.languages import END_ID

D = 8


class Bits(HookedRootModule):
    """Holds the two bits of the last token in two directions, beside noise; token 0 and 1 may come
    next where the first and the second bit is 1."""

    def __init__(self) -> None:
        super().__init__()
        generator = torch.Generator().manual_seed(0)
        self.turn = torch.linalg.qr(torch.randn(D, D, generator=generator))[0]
        self.hook_held = HookPoint()
        self.weight = nn.Parameter(torch.ones(1))
        self.cfg = type("Config", (), {"attention_dir": "causal"})
        self.setup()
        self.eval()

    def forward(self, tokens: Tensor) -> Tensor:
        bits = torch.stack([tokens % 2, tokens // 2 % 2], dim=-1).float()
        noise = torch.sin(tokens[..., None] * torch.arange(1, D - 1))
        x = self.hook_held(torch.cat([bits, noise], dim=-1) @ self.turn.T)
        return self.weight * ((x @ self.turn)[..., :2] - 0.5)


def cases(count: int, seed: int, *, separate: bool = False) -> Cases:
    """Tokens 0 to 15 with a token before; the source gives both bits, or one of them."""
    generator = torch.Generator().manual_seed(seed)
    base, source = torch.randint(16, (2, count, 2), generator=generator)
    part = (
        torch.randint(2, (count,), generator=generator) if separate else torch.zeros(count).long()
    )
    bits = [torch.stack([x[:, 1] % 2, x[:, 1] // 2 % 2], dim=1) == 1 for x in (base, source)]
    taken = torch.arange(2) == part[:, None] if separate else torch.ones(count, 2).bool()
    right = torch.where(taken, bits[1], bits[0])
    target = torch.zeros(count, 2, 2, dtype=torch.bool)
    target[:, 1] = right
    at, read = torch.ones(count, 1).long(), torch.tensor([False, True]).repeat(count, 1)
    units = torch.stack([base[:, 1], source[:, 1] + 16], dim=1).numpy()
    answers = torch.arange(2)
    return Cases(base, source, units, at, at, at, at.float(), read, target, answers, part)


def test_two_bits_need_two_dimensions() -> None:
    model = Bits()
    table = exchanged(model, ["hook_held"], cases(160, 0), {"test": cases(100, 1)}, [1, 2])
    rows = table.set_index(["method", "amount"])["value"]
    assert rows["DAS", 2] > 0.98
    assert rows["DAS", 1] < 0.85
    assert rows["random subspace", 2] < 0.7
    assert rows["whole activation", D] == 1
    assert rows["none", 0] < 0.5
    assert (table["low"] <= table["value"]).all()
    assert (table["value"] <= table["high"]).all()
    assert set(table["cases"]) == {100}
    assert set(table["units"]) == {len(np.unique(cases(100, 1).units))}
    moved = displacements(model, ["hook_held"], cases(160, 0))["hook_held"]
    basis = aligned(model, "hook_held", cases(160, 0), moved, 2)
    overlap = torch.linalg.svdvals(model.turn[:, :2].T @ basis)
    assert overlap.min() > 0.85
    assert all(each.requires_grad for each in model.parameters())


def test_each_variable_has_its_own_subspace() -> None:
    model = Bits()
    fit, test = cases(200, 0, separate=True), cases(120, 1, separate=True)
    table = exchanged(model, ["hook_held"], fit, {"test": test}, [1], controls=False)
    assert table["part"].tolist() == [0, 1]
    assert table["value"].min() > 0.95
    moved = displacements(model, ["hook_held"], fit)["hook_held"]
    basis = aligned(model, "hook_held", fit, moved, 1)
    assert (model.turn[:, :2].T @ basis).abs().diagonal().min() > 0.85


def test_an_exchange_is_that_of_transformer_lens() -> None:
    """The same basis at one position: their intervention gives the same logits."""
    model, some = Bits(), cases(40, 2)
    basis = _random_basis(D, 3, 0)
    moved = displacements(model, ["hook_held"], some)["hook_held"]
    added = within(basis, 3)(moved, some.part)
    base = theirs.collect_activations(
        model, "hook_held", some.base, lambda x: model(x)[:, -1], positions=some.to[:, 0]
    )
    source = theirs.collect_activations(
        model, "hook_held", some.source, lambda x: model(x)[:, -1], positions=some.put[:, 0]
    )
    expected = theirs.SubspaceInterchange(basis)(base, source)
    torch.testing.assert_close(base + added[:, 1], expected)
    assert not added[:, 0].any()
    logits = theirs.intervened_logits(
        model,
        "hook_held",
        theirs.SubspaceInterchange(basis),
        some.base,
        source,
        lambda x: model(x)[:, -1],
        positions=some.to[:, 0],
    )
    right = ((logits > 0) == some.target[:, 1]).all(dim=1).numpy()
    found = answered(model, "hook_held", some, moved, within(basis, 3))
    np.testing.assert_array_equal(found, right)


def test_what_is_carried_is_the_weighted_difference() -> None:
    """At ``to`` the base moves by weight times (source at ``put`` less base at ``taken``)."""
    model, some = Bits(), cases(10, 3)
    some = replace(
        some,
        to=torch.tensor([[0, 1]] * 9 + [[1, -1]]),
        put=torch.zeros(10, 2).long(),
        taken=torch.ones(10, 2).long(),
        weight=torch.tensor([[1.0, 0.25]]).repeat(10, 1),
    )
    states = [model.run_with_cache(x)[1]["hook_held"] for x in (some.base, some.source)]
    difference = states[1][:, 0] - states[0][:, 1]
    moved = displacements(model, ["hook_held"], some)["hook_held"]
    torch.testing.assert_close(moved[:9, 0], difference[:9])
    torch.testing.assert_close(moved[:9, 1], difference[:9] / 4)
    assert not moved[9, 0].any()
    torch.testing.assert_close(moved[9, 1], difference[9])


def counted(count: int, seed: int, *, alone: bool = True) -> Cases:
    """Words a^i b^j, half of them with i = j; what is exchanged decides, so the source does."""
    rng = np.random.default_rng(seed)
    vocabulary = counter().model.vocabulary
    sizes = rng.integers(1, 6, (2 * count, 2))
    same = rng.random(2 * count) < 0.5
    sizes[:, 1] = np.where(same, sizes[:, 0], sizes[:, 1])
    words = vocabulary.words([(*["a"] * i, *["b"] * j) for i, j in sizes.tolist()])
    base, source = torch.as_tensor(words.tokens).chunk(2)
    to, put = torch.as_tensor(words.lengths)[:, None].chunk(2)
    ends = torch.as_tensor(sizes[:, 0] == sizes[:, 1])[count:, None]
    answers = torch.tensor([END_ID])
    return Cases.exchange(base, source, to, put, to[:, 0], ends, answers, alone=alone)


def test_one_direction_carries_the_planted_count() -> None:
    """And nothing exchanged is what the model says of each base, whatever stands behind it."""
    model, hook, test = counter().model, "blocks.0.hook_resid_mid", counted(100, 1)
    rows = exchanged(model, [hook], counted(120, 0), {"test": test}).set_index("method")["value"]
    assert rows["DAS"] > 0.95
    assert rows["whole activation"] == 1
    assert rows[["none", "random subspace"]].max() < 0.75
    logits = model(test.base)[torch.arange(100), test.to[:, 0], END_ID]
    right = (logits > 0) == test.target[torch.arange(100), test.to[:, 0], 0]
    assert rows["none"] == pytest.approx(float(right.double().mean()))


def test_answers_that_exclude_each_other_are_judged_by_the_largest() -> None:
    model, some = counter().model, counted(30, 3, alone=False)
    best = model(some.base)[torch.arange(30), some.to[:, 0]].argmax(dim=1)
    every = torch.arange(model.cfg.d_vocab)
    read = some.read[..., None]
    own = replace(some, answers=every, target=read & (best[:, None] == every)[:, None])
    table = exchanged(model, ["blocks.0.hook_resid_mid"], own, {"test": own}).set_index("method")
    assert table.loc["none", "value"] == 1
    wrong = replace(own, target=read & ~own.target)
    table = exchanged(model, ["blocks.0.hook_resid_mid"], own, {"test": wrong}).set_index("method")
    assert table.loc["none", "value"] == 0


def test_a_hook_that_is_not_there_is_named() -> None:
    with pytest.raises(ValueError, match="has no hook_other: use another lens"):
        exchanged(Bits(), ["hook_other"], cases(8, 0), {"test": cases(8, 1)})
