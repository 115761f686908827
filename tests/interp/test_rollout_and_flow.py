"""Rollout against a sum over paths, flow against networkx."""

from __future__ import annotations

from itertools import product

import networkx as nx
import pytest
import torch

from interp.heads.rollout_and_flow import flow, rollout


def random_pattern(layers: int, heads: int, positions: int, causal: bool) -> torch.Tensor:
    generator = torch.Generator().manual_seed(layers)
    scores = 2 * torch.randn(layers, heads, positions, positions, generator=generator)
    if causal:
        future = torch.ones(positions, positions).triu(1).bool()
        scores = scores.masked_fill(future, float("-inf"))
    return scores.softmax(-1)


@pytest.mark.parametrize("residual", [True, False])
@pytest.mark.parametrize("causal", [True, False])
@pytest.mark.parametrize("layers", [1, 2, 3])
def test_rollout_is_a_sum_over_paths(layers: int, causal: bool, residual: bool) -> None:
    pattern = random_pattern(layers, 2, 4, causal)
    step = 0.5 * pattern.mean(1) + 0.5 * torch.eye(4) if residual else pattern.mean(1)
    expected = torch.zeros(4, 4)
    for path in product(range(4), repeat=layers + 1):  # from the input to the last layer
        weights = [step[layer, path[layer + 1], path[layer]] for layer in range(layers)]
        expected[path[-1], path[0]] += torch.stack(weights).prod()
    torch.testing.assert_close(rollout(pattern, residual), expected)


def test_a_row_without_keys_is_all_residual() -> None:
    pattern = torch.tensor([[[[0.0, 0.0], [1.0, 0.0]]]])
    torch.testing.assert_close(rollout(pattern), torch.tensor([[1.0, 0.0], [0.5, 0.5]]))
    assert flow(pattern, 0).tolist() == [1.0, 0.0]
    torch.testing.assert_close(rollout(pattern, False), torch.tensor([[0.0, 0.0], [1.0, 0.0]]))
    assert flow(pattern, 0, False).tolist() == [0.0, 0.0]


@pytest.mark.parametrize("causal", [True, False])
@pytest.mark.parametrize("layers", [1, 2, 3])
def test_flow_equals_networkx(layers: int, causal: bool) -> None:
    pattern = random_pattern(layers, 2, 5, causal)
    step = 0.5 * pattern.mean(1) + 0.5 * torch.eye(5)
    network = nx.DiGraph()
    for layer, query, key in product(range(layers), range(5), range(5)):
        capacity = step[layer, query, key].item()
        network.add_edge((layer + 1, query), (layer, key), capacity=capacity)
    for at in (4, 2):
        expected = [nx.maximum_flow_value(network, (layers, at), (0, key)) for key in range(5)]
        assert flow(pattern, at) == pytest.approx(expected, abs=1e-5)


def test_flow_through_two_layers_is_the_sum_of_the_narrower_pipes() -> None:
    pattern = random_pattern(2, 3, 12, True)
    first, second = 0.5 * pattern.mean(1) + 0.5 * torch.eye(12)
    expected = torch.minimum(second[11][:, None], first).sum(0)
    assert flow(pattern, 11) == pytest.approx(expected.numpy(), abs=1e-5)
