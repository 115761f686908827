"""Directions to steer along: planted ones are found, and the hook adds what it is told to."""

from __future__ import annotations

import pytest
import torch

from interp.probing.steering import adding, direction, random_direction


def test_a_planted_direction_is_found() -> None:
    generator = torch.Generator().manual_seed(0)
    way = torch.randn(6, generator=generator, dtype=torch.float64)
    z = torch.arange(40).repeat(3)
    noise = torch.randn(120, 6, generator=generator, dtype=torch.float64)
    centred = z - z.double().mean()
    noise -= torch.outer(centred, centred @ noise) / centred.square().sum()  # nothing to do with z
    assert torch.allclose(direction(z[:, None] * way + noise + 7, z), way, atol=1e-12)


def test_it_is_the_slope_of_x_on_z_and_no_probe() -> None:
    """Where x is noisier than z explains, a probe's weights are shorter; the slope is not."""
    z = torch.tensor([0.0, 0.0, 1.0, 1.0])
    x = torch.tensor([[-1.0], [1.0], [1.0], [3.0]])
    assert direction(x, z).tolist() == [2.0]


def test_what_does_not_vary_has_no_direction() -> None:
    with pytest.raises(ValueError, match="the same everywhere"):
        direction(torch.randn(5, 3), torch.full((5,), 0.1))


def test_the_control_is_as_long_and_hangs_on_the_seed_alone() -> None:
    way = torch.tensor([3.0, 0.0, 4.0])
    drawn = [random_direction(way, seed) for seed in (0, 0, 1)]
    assert [each.norm().item() for each in drawn] == pytest.approx([5.0] * 3)
    assert torch.equal(drawn[0], drawn[1])
    assert not torch.allclose(drawn[0], drawn[2])
    assert not torch.allclose(drawn[0], way)


def test_so_much_is_added_at_every_position() -> None:
    way = torch.tensor([1.0, -2.0], dtype=torch.float64)
    amount = torch.tensor([[0.0, 1.0, 0.5], [-3.0, 0.0, 0.0]], dtype=torch.float64)
    x = torch.ones(2, 3, 2)
    steered = adding(way, amount)(x, None)
    assert steered.dtype == torch.float32
    assert (steered - x).tolist() == (amount[..., None] * way).tolist()
    assert x.eq(1).all()
