"""Sparse dictionaries: trained on codes that were planted, and scored where the score is known."""

from __future__ import annotations

from dataclasses import replace
from itertools import permutations

import numpy as np
import pytest
import torch
from jaxtyping import Float
from torch import Tensor
from torch.nn.functional import normalize

from interp.dictionaries import training
from interp.dictionaries.clamping import balanced
from interp.dictionaries.dictionary import Dictionary, batch_top_k, live, top_k
from interp.dictionaries.peers import (
    axes,
    clusters,
    drawn,
    independent,
    neurons,
    oracle,
    principal,
)
from interp.dictionaries.scores import (
    Readers,
    absorption,
    best_f1,
    chance_f1,
    chance_mcc,
    f1,
    matched,
    mcc,
    splitting,
    stability,
    variance_explained,
)
from interp.dictionaries.training import Recipe, trained


def random(*shape: int, seed: int = 7) -> Tensor:
    return torch.randn(shape, generator=torch.Generator().manual_seed(seed))


def planted(d: int = 32, width: int = 24, n: int = 2000, active: int = 2) -> tuple[Tensor, Tensor]:
    """Random directions, and sums of a few of them with codes of 1/2 to 3/2."""
    generator = torch.Generator().manual_seed(99)
    directions = normalize(torch.randn(width, d, generator=generator), dim=1)
    on = torch.rand(n, width, generator=generator).argsort(dim=1) < active
    return directions, (on * (0.5 + torch.rand(n, width, generator=generator))) @ directions


def explained(one: Dictionary, x: Float[Tensor, "n d"], y: Float[Tensor, "n e"]) -> float:
    return variance_explained(one, one.encode(x), y)


# -- training -------------------------------------------------------------------------------------


def test_planted_codes_are_recovered() -> None:
    """The oracle of sparse coding: the directions that made the activations are found again."""
    directions, x = planted()
    recipe = Recipe("topk", 32, 2, steps=150)
    for one in trained(x, recipe, [0, 1]):
        assert mcc(one.directions, directions) > 0.9
        assert explained(one, x, x) > 0.9
        assert (one.encode(x) > 0).sum(dim=1).max() <= 2
    before, *_ = trained(x, replace(recipe, steps=0), [0])
    assert mcc(before.directions, directions) < 0.6
    assert chance_mcc(directions, 32) < 0.6


def test_a_transcoder_finds_a_linear_map() -> None:
    """What comes out are the images of the directions that go in."""
    directions, x = planted()
    turn = random(32, 12)
    one, *_ = trained(x, Recipe("topk", 32, 2, steps=150), [0], x @ turn)
    assert one.directions.shape == (32, 12)
    assert mcc(one.directions, directions @ turn) > 0.9
    assert explained(one, x, x @ turn) > 0.9


def test_with_all_codes_it_is_a_dense_autoencoder() -> None:
    """TopK with k = width is a ReLU autoencoder: the same steps by hand, without its code."""
    _, x = planted(d=6, width=8, n=50)
    recipe = Recipe("topk", 8, 8, steps=5, batch=16)
    one, *_ = trained(x, recipe, [3])
    scale = (x - x.mean(dim=0)).square().sum(dim=1).mean().sqrt()
    z = (x - x.mean(dim=0)) / scale
    generator = torch.Generator().manual_seed(3)
    decoder = normalize(torch.randn(8, 6, generator=generator), dim=1)
    weights = [decoder.T.clone(), torch.zeros(8), decoder, torch.zeros(6)]
    weights = [each.requires_grad_() for each in weights]
    adam = torch.optim.Adam(weights, lr=recipe.rate)
    for step in range(5):
        rows = z[torch.randint(50, (16,), generator=generator)]
        adam.param_groups[0]["lr"] = recipe.rate * min(1.0, 5 * (1 - step / 5))
        said = (rows @ weights[0] + weights[1]).relu() @ weights[2] + weights[3]
        adam.zero_grad()
        (rows - said).square().sum(dim=1).mean().backward()
        adam.step()
        weights[2].data = normalize(weights[2].data, dim=1)
    codes = (z @ weights[0] + weights[1]).relu() * scale
    torch.testing.assert_close(one.encode(x), codes, atol=1e-4, rtol=1e-3)
    torch.testing.assert_close(one.directions, weights[2], atol=1e-4, rtol=1e-3)


def test_many_at_once_are_those_that_are_trained_alone() -> None:
    _, x = planted(n=200)
    recipe = Recipe("matryoshka", 16, 2, steps=12, batch=32)
    together, again = (trained(x, recipe, [0, 5]) for _ in range(2))
    alone, *_ = trained(x, recipe, [5])
    torch.testing.assert_close(together[1].directions, alone.directions, atol=1e-4, rtol=1e-3)
    assert torch.equal(together[0].directions, again[0].directions)
    assert not torch.allclose(together[0].directions, together[1].directions, atol=0.1)


def test_a_batch_of_one_is_a_position() -> None:
    pre = random(1, 1, 9)
    assert torch.equal(batch_top_k(pre, 3), top_k(pre, 3))
    _, x = planted(n=100)
    ways = [Recipe(kind, 16, 2, steps=10, batch=1) for kind in ("topk", "batchtopk")]
    one, other = (trained(x, recipe, [0])[0] for recipe in ways)
    assert torch.equal(one.directions, other.directions)


def test_one_prefix_is_batchtopk() -> None:
    _, x = planted(n=100)
    ways = [
        Recipe("batchtopk", 16, 2, steps=10),
        Recipe("matryoshka", 16, 2, steps=10, prefixes=(1.0,)),
        Recipe("matryoshka", 16, 2, steps=10),
    ]
    one, same, nested = (trained(x, recipe, [0])[0] for recipe in ways)
    assert torch.equal(one.directions, same.directions)
    assert torch.equal(one.encode(x), same.encode(x))
    assert not torch.equal(one.directions, nested.directions)


def test_the_first_latents_of_a_matryoshka_do_without_the_others() -> None:
    _, x = planted(n=500)

    def first(kind: training.Kind) -> float:
        one, *_ = trained(x, Recipe(kind, 32, 4, steps=80), [0])
        codes = one.encode(x).clone()
        codes[:, 8:] = 0
        return variance_explained(one, codes, x)

    assert first("matryoshka") > first("batchtopk") + 0.1


def test_batchtopk_keeps_as_many_on_average() -> None:
    codes = batch_top_k(torch.tensor([[3.0, 2.0, 1.0], [0.5, -1.0, 0.1]]), 1)
    assert codes.tolist() == [[3.0, 2.0, 0.0], [0.0, 0.0, 0.0]]
    _, x = planted(n=500)
    one, *_ = trained(x, Recipe("batchtopk", 32, 3, steps=60), [0])
    on = (one.encode(x) > 0).sum(dim=1)
    assert abs(float(on.float().mean()) - 3) < 0.3
    assert on.min() < 3 < on.max()


def test_dead_latents_are_helped(monkeypatch: pytest.MonkeyPatch) -> None:
    """By the auxiliary loss: without it more latents are silent at the end."""
    _, x = planted(d=16, width=24, n=600, active=1)
    recipe = Recipe("topk", 24, 1, steps=150, batch=128)

    def alive() -> int:
        return sum(int(live(one.encode(x)).sum()) for one in trained(x, recipe, range(3)))

    helped = alive()
    monkeypatch.setattr(training, "AUXILIARY", 0.0)
    assert helped > alive()


def test_activations_that_do_not_vary_are_refused() -> None:
    with pytest.raises(ValueError, match="the same everywhere"):
        trained(torch.ones(5, 3), Recipe("topk", 4, 1, steps=1), [0])
    with pytest.raises(ValueError, match="the same everywhere"):
        trained(torch.ones(0, 3), Recipe("topk", 4, 1, steps=1), [0])


# -- peers ----------------------------------------------------------------------------------------


def test_peers_that_span_the_space_reconstruct_it() -> None:
    x = random(300, 6) @ random(6, 6, seed=8)
    for one in (principal(x, 12), independent(x, 12), axes(x)):
        codes = one.encode(x)
        assert codes.min() >= 0
        assert ((codes > 0).sum(dim=1) <= 6).all()  # one side of each component
        torch.testing.assert_close(one.decode(codes), x, atol=1e-3, rtol=1e-3)
    assert explained(principal(x, 4), x, x) < 1 - 1e-3


def test_independent_components_are_found() -> None:
    """Sources that are not normal, mixed: ICA finds them again, PCA does not."""
    sources = random(2000, 3).sign() * random(2000, 3, seed=8).abs() ** 3
    mixing = random(3, 3, seed=9)
    wanted = torch.cat([mixing, -mixing])
    assert mcc(independent(sources @ mixing, 6).directions, wanted) > 0.99
    assert mcc(principal(sources @ mixing, 6).directions, wanted) < 0.95


def test_clusters_are_one_latent_each() -> None:
    centres = 10 * random(4, 5)
    x = centres.repeat(50, 1) + 0.1 * random(200, 5, seed=8)
    one = clusters(x, 4)
    codes = one.encode(x)
    assert (codes.sum(dim=1) == 1).all()
    assert len(torch.unique(codes.argmax(dim=1))) == 4
    assert explained(one, x, x) > 0.99
    assert clusters(x[:1].repeat(9, 1), 4).directions.shape == (1, 5)


def test_random_directions_and_neurons() -> None:
    x = random(200, 6)
    one = drawn(x, 20, 3, seed=1)
    assert (one.encode(x) > 0).sum(dim=1).max() == 3
    assert 0 < explained(one, x, x) < 0.9
    units, write, bias = random(5, 4), random(4, 6), random(6)
    mlp = neurons(write, bias)
    torch.testing.assert_close(mlp.decode(mlp.encode(units)), units.relu() @ write + bias)


def test_the_oracle_reads_known_directions() -> None:
    directions = torch.linalg.qr(random(6, 6))[0][:3]
    values = torch.tensor([[1.0, 0.0, -0.5], [0.0, 1.0, 0.5], [0.0, 0.0, 1.0]])
    x = values @ directions + 2
    signed = torch.tensor([False, False, True])
    one = oracle(x, directions, signed)
    said = one.decode(one.encode(x))
    assert one.directions.shape == (4, 6)
    shift = 2 * torch.ones(6) @ directions.T  # what the constant adds to what is read
    wanted = torch.cat([values + shift, -(values + shift)[:, signed]], dim=1)
    torch.testing.assert_close(one.encode(x), wanted.relu() * (wanted > 0.02))
    assert said.shape == x.shape


def test_the_oracle_of_dependent_directions_does_not_divide_by_rounding_errors() -> None:
    """Eight directions span three dimensions, up to the rounding of single precision: codes of
    least size say the activations again."""
    generator = torch.Generator().manual_seed(0)
    directions = normalize(torch.randn(8, 3, generator=generator), dim=1)
    directions = directions @ torch.linalg.qr(torch.randn(6, 6, generator=generator))[0][:3]
    codes = torch.rand(200, 8, generator=generator) * (
        torch.rand(200, 8, generator=generator) < 0.2
    )
    x = codes @ directions
    one = oracle(x, directions, torch.ones(8, dtype=torch.bool), least=0.0)
    found = one.encode(x)
    assert found.max() < 3
    assert variance_explained(one, found, x) == pytest.approx(1, abs=1e-5)


# -- scores ---------------------------------------------------------------------------------------


def test_the_best_threshold_is_that_of_brute_force() -> None:
    codes = (random(40, 5) * 3).round().relu()
    facts = random(40, 4, seed=8) > 0.3
    readers = Readers.of(codes, facts)
    for fact in range(4):
        for latent in range(5):
            tried = [
                float(f1(codes[:, latent] > bound, facts[:, fact]))
                for bound in {0.0, *codes[:, latent].tolist()}
            ]
            assert float(readers.fits[fact, latent]) == pytest.approx(max(tried), abs=1e-6)
            said = codes[:, latent] > readers.thresholds[fact, latent]
            assert float(f1(said, facts[:, fact])) == pytest.approx(max(tried), abs=1e-6)


def test_a_silent_latent_says_nothing() -> None:
    readers = Readers.of(torch.zeros(6, 2), torch.tensor([[True], [False]] * 3))
    assert readers.thresholds.isinf().all()
    assert readers.fits.tolist() == [[0.0, 0.0]]


def test_codes_that_know_nothing_score_at_chance() -> None:
    """2 p / (1 + p), that of who always says yes, even if the best of many is chosen."""
    n, share = 4000, 0.4
    codes, facts = random(n, 30).relu(), random(n, 3, seed=8) > 0.2533  # at 40%
    always = 2 * share / (1 + share)
    torch.testing.assert_close(chance_f1(facts), torch.full((3,), always), atol=0.03, rtol=0)
    readers = Readers.of(codes[::2], facts[::2])
    assert (best_f1(readers, codes[1::2], facts[1::2]) < always + 0.03).all()
    perfect = facts.float()
    assert (best_f1(Readers.of(perfect[::2], facts[::2]), perfect[1::2], facts[1::2]) == 1).all()


def test_of_latents_that_read_alike_the_even_one_is_chosen() -> None:
    fact = torch.tensor([1.0, 1.0, 1.0, 0.0, 0.0])
    graded = fact * torch.tensor([0.1, 0.5, 2.0, 1.0, 1.0])
    readers = Readers.of(torch.stack([graded, fact], dim=1), fact[:, None] > 0)
    assert readers.fits.tolist() == [[1.0, 1.0]]
    assert readers.best.tolist() == [1]


def test_splitting_counts_the_latents_that_share_a_fact() -> None:
    fact = torch.arange(12) < 6
    thirds = torch.stack([(torch.arange(12) // 2 == i) & fact for i in range(3)], dim=1).float()
    whole, noise = fact[:, None].float(), random(12, 2).relu()
    facts = fact[:, None]
    for codes, count in ((thirds, 3), (torch.cat([thirds, whole], dim=1), 1)):
        codes = torch.cat([codes, 0 * noise], dim=1)
        assert splitting(Readers.of(codes, facts), codes, facts).tolist() == [count]


def test_absorption_is_what_a_more_special_latent_takes() -> None:
    """ "starts with a" is silent on one of its six words, which has a latent of its own."""
    fact, special = torch.arange(12) < 6, torch.arange(12) == 5
    facts = fact[:, None]
    codes = torch.stack([(fact & ~special).float(), special.float()], dim=1)
    readers = Readers.of(codes, facts)
    assert absorption(readers, (codes, facts), codes, facts).tolist() == pytest.approx([1 / 6])
    codes = torch.stack([fact.float(), special.float()], dim=1)
    readers = Readers.of(codes, facts)
    assert absorption(readers, (codes, facts), codes, facts).tolist() == [0.0]
    codes = torch.stack([(fact & ~special).float(), (special | ~fact).float()], dim=1)
    readers = Readers.of(codes, facts)  # a latent that is on elsewhere too implies nothing
    assert absorption(readers, (codes, facts), codes, facts).tolist() == [0.0]


def test_a_latent_does_not_absorb_itself() -> None:
    """Its small codes, below its threshold, are no other latent's."""
    fact = torch.arange(60) < 39
    codes = fact.float()
    codes[38:41] = 0.2  # a true position, and two false ones
    codes, facts = codes[:, None], fact[:, None]
    readers = Readers.of(codes, facts)
    assert float(readers.thresholds[0, 0]) == pytest.approx(0.6)
    assert absorption(readers, (codes, facts), codes, facts).tolist() == [0.0]


def test_the_matching_is_that_of_brute_force() -> None:
    found, wanted = random(5, 4), random(3, 4, seed=8)
    cosines = (normalize(wanted, dim=1) @ normalize(found, dim=1).T).numpy()
    best = max(sum(cosines[i, j] for i, j in enumerate(p)) for p in permutations(range(5), 3))
    assert float(matched(found, wanted).sum()) == pytest.approx(best, abs=1e-6)
    assert mcc(wanted[[2, 0, 1]] * 3, wanted) == pytest.approx(1)
    assert mcc(-wanted[:1], wanted[:1]) == pytest.approx(-1)
    assert matched(wanted[:2], wanted).tolist() == pytest.approx([1, 1, 0])


def test_stability_is_the_cosine_with_other_seeds() -> None:
    one, other = torch.eye(3), torch.eye(3)[[1, 2]]
    assert stability([one]) == [1.0]
    assert stability([one, one[[2, 0, 1]]]) == pytest.approx([1.0, 1.0])
    assert stability([one, other]) == pytest.approx([2 / 3, 2 / 3])
    assert stability([one, one[:0]]) == [0.0, 0.0]


def test_a_balanced_share() -> None:
    flips = torch.tensor([True, True, False, False, False, False])
    right = torch.tensor([True, False, True, True, True, False])
    assert balanced(right, flips) == pytest.approx((1 / 2 + 3 / 4) / 2)
    assert balanced(~flips, flips) == 0.5  # who changes nothing
    assert np.isnan(balanced(right, flips | True))
