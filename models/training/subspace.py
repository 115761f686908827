"""A random subspace: fine-tuning with few numbers, whatever the network's size.

All learned weights move together: theta = theta_0 + P z. P is a fixed random matrix, and only z
learns. The smallest z with which a fine-tuning still does its task is the task's intrinsic
dimension (Li et al. 2018; Aghajanyan, Gupta and Zettlemoyer 2021).
"""

from __future__ import annotations

from operator import attrgetter

import torch
from jaxtyping import Float
from torch import Tensor, nn
from torch.nn.utils import parametrize

from models.base import LanguageModel, build
from models.config import TrainConfig

COORDINATES = "subspace"
"""The name of z among the parameters."""


class _Moved(nn.Module):
    """One tensor of weights in the subspace: w + P z."""

    directions: Tensor

    def __init__(self, directions: Float[Tensor, "weights rank"], z: nn.Parameter) -> None:
        super().__init__()
        self.register_buffer("directions", directions, persistent=False)
        self._z = (z,)  # in a tuple it is no parameter of each part: the model has it once

    def forward(self, weight: Tensor) -> Tensor:
        return weight + (self.directions @ self._z[0]).view_as(weight)


def add_subspace(model: LanguageModel, config: TrainConfig) -> None:
    """Lets the weights move in a random subspace of ``TrainConfig.rank`` dimensions, in place.

    The entries of P have mean 0 and variance 1 / rank: a step of Adam then moves a weight about as
    far as it does without a subspace. z begins at 0, so the first step finds the parent.
    """
    learned = [(name, p) for name, p in model.named_parameters() if p.requires_grad]
    z = nn.Parameter(torch.zeros(config.rank))
    rng = torch.Generator().manual_seed(config.seed)
    for name, parameter in learned:
        parameter.requires_grad_(False)
        directions = torch.randn(parameter.numel(), config.rank, generator=rng)
        path, _, tensor = name.rpartition(".")
        moved = _Moved(directions / config.rank**0.5, z)
        parametrize.register_parametrization(model.get_submodule(path), tensor, moved, unsafe=True)
    model.register_parameter(COORDINATES, z)


def placed(model: LanguageModel, config: TrainConfig) -> LanguageModel:
    """The same model with the moved weights as its own."""
    plain = build(config.model, model.vocabulary, config.seed).to(model.device)
    weights = {name: attrgetter(name)(model).detach() for name in plain.state_dict()}
    plain.load_state_dict(weights)
    return plain
