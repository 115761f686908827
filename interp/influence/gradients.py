"""The gradients of many values, such as the losses of lines, one by one."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

import torch
from jaxtyping import Float
from torch import Tensor, nn

from interp.training.gradients import gradients_of


@dataclass(frozen=True)
class Gradients:
    """The gradients of several values with respect to the same weights.

    Attributes:
        by_name: the gradients by the name of the weight, [value, *shape].
    """

    by_name: Mapping[str, Tensor]

    @classmethod
    def of_each(cls, model: nn.Module, values: Iterable[Float[Tensor, ""]]) -> Gradients:
        """One backward pass for each value.

        Args:
            values: the values, each with its own graph. They are asked for one after the other:
                only one graph is in memory.

        Raises:
            ValueError: there is no value.
        """
        rows: dict[str, list[Tensor]] = {}
        for value in values:
            for name, gradient in gradients_of(model, value).items():
                rows.setdefault(name, []).append(gradient.detach())
        if not rows:
            raise ValueError("there is nothing to take the gradient of: give at least one value")
        return cls({name: torch.stack(parts) for name, parts in rows.items()})

    @property
    def flat(self) -> Float[Tensor, "value weight"]:
        """All weights side by side."""
        return torch.cat([rows.reshape(len(rows), -1) for rows in self.by_name.values()], dim=1)

    def and_minus(self, others: Gradients) -> Gradients:
        """These, then those of the others' values times -1."""
        pairs = {name: (gradient, -others.by_name[name]) for name, gradient in self.by_name.items()}
        return Gradients({name: torch.cat(both) for name, both in pairs.items()})

    def __len__(self) -> int:
        return len(next(iter(self.by_name.values())))
