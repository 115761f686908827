"""Which reading of a network is consistent: networks whose logits are written down."""

from __future__ import annotations

import types
from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pytest
import torch

from models.foreign.network import Foreign
from models.foreign.trial import consistent, tried
from models.objectives.readout import Reads

CPU = torch.device("cpu")


def answering(logits: Callable[[int], list[float]]) -> Foreign:
    """A network that looks at the number of a's so far, and gives logits of END, a and b."""

    def model(tokens: torch.Tensor) -> torch.Tensor:
        sizes = (tokens == 1).cumsum(dim=1)
        table = torch.tensor([logits(n) for n in range(25)], dtype=torch.float32)
        return table[sizes]

    config = types.SimpleNamespace(vocab_size=3)
    around = (("<s>", 0), ("</s>", 0))
    return Foreign(model, ("a", "b"), (1, 2), *around, 24, 0.01, "softmax", CPU, config, "")


TAUGHT: dict[str, tuple[Callable[[int], list[float]], Reads, list[Reads], bool]] = {
    "sets alone": (lambda n: [9 if n % 2 else -9, 12, 7], "sets", ["sets"], False),
    "sets, apart": (lambda n: [9 if n % 2 else -9, 12, 4], "sets", ["softmax", "sets"], False),
    "sets, alike": (lambda n: [6 if n % 2 else -6, 6, 6], "sets", ["softmax", "sets"], True),
    "softmax": (lambda n: [-0.2 if n % 2 else -6, 3, 1], "softmax", ["softmax"], False),
    "shifted down": (lambda n: [-30 if n % 2 else -60, -30, -30], "softmax", ["softmax"], False),
    "shifted up": (lambda n: [30 if n % 2 else 10, 30, 30], "softmax", ["softmax"], False),
    "neither": (lambda n: [-1.6, 3, -1.6], "softmax", [], True),
}  # fmt: skip


@pytest.mark.parametrize("name", TAUGHT)
def test_both_readings_are_tried(name: str) -> None:
    """What it was taught decides, and not which words come out."""
    logits, reads, fit, same = TAUGHT[name]
    network = tried(answering(logits))
    assert network.trial is not None
    assert (network.reads, consistent(network.trial)) == (reads, fit)
    assert (network.trial["same"] == 1) == same
    assert 0 <= min(network.trial.values()) <= max(network.trial.values()) <= 1


def test_the_share_of_undecided_tokens_is_counted() -> None:
    """END is near 0 after every prefix, a and b nowhere."""
    network = tried(answering(lambda n: [-1.0, 9.0, 9.0]))
    assert network.trial is not None
    assert network.trial["sets"] == pytest.approx(1 / 3)
    row = np.array([-1, 9, 9]) - np.log(np.exp(-1) + 2 * np.exp(9)) - np.log(0.01)
    assert network.trial["softmax"] == 0
    assert replace(network, reads="softmax").margins([("a",), ()]) == pytest.approx(
        np.array([row] * 3), abs=1e-5
    )
