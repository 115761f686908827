"""EK-FAC: influence with a Fisher matrix that is factored map by map."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from contextlib import ExitStack
from dataclasses import dataclass, field
from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor, nn

from interp.influence.gradients import Gradients
from interp.influence.methods import DAMPING, VANISHED, Influence
from interp.model import require_finite


@dataclass(frozen=True)
class _Factors:
    """The eigenbasis of one linear map's gradients, and their mean square along each direction.

    Attributes:
        outside: eigenvectors of the gradients of its output, [d_out, direction].
        inside: eigenvectors of its input, 1 appended where it has a bias, [d_in, direction].
        squares: the mean over lines of the squared gradient, [direction outside, inside].
    """

    outside: Float[Tensor, "d_out d_out"]
    inside: Float[Tensor, "d_in d_in"]
    squares: Float[Tensor, "d_out d_in"]

    def turned(self, gradients: Float[Tensor, "value d_out d_in"]) -> Tensor:
        """Gradients in the eigenbasis, flat, [value, direction]."""
        return (self.outside.T @ gradients @ self.inside).flatten(1)


class EKFAC:
    """The influence function with the eigenvalue-corrected Kronecker-factored Fisher matrix (George
    et al. 2018; Grosse et al. 2023).

    It knows linear maps, each by itself. Embeddings, norms and positions have no part in it.

    Attributes:
        factors: the factors of each map, by its name.
        sampled: the gradients of the losses that it was fitted to.
    """

    def __init__(self, model: nn.Module, sampled: Iterable[Float[Tensor, ""]]) -> None:
        """
        Args:
            model: the model whose ``nn.Linear`` maps are fitted.
            sampled: a loss of this model for each line, with labels drawn from its own answers;
                with the lines' own labels it is the empirical Fisher matrix. They are computed one
                after the other.

        Raises:
            ValueError: there is no loss, it depends on no linear map, or its gradients are all
                zero, NaN or infinite.
        """
        maps = {name: part for name, part in model.named_modules() if isinstance(part, nn.Linear)}
        with _Seen(maps) as seen:
            self.sampled = Gradients.of_each(model, seen.counted(sampled))
        require_finite(self.sampled.flat, "gradients of the sampled losses")
        if not self.sampled.flat.any():
            raise ValueError(VANISHED)
        self.factors = {}
        for name, squares in seen.squares.items():
            if not _with_bias(self.sampled, name).any():
                continue  # no loss depends on this map
            outside, inside = (torch.linalg.eigh(square)[1] for square in squares)
            turned = outside.T @ _with_bias(self.sampled, name) @ inside
            self.factors[name] = _Factors(outside, inside, turned.square().mean(dim=0))

    def __call__(self, targets: Gradients, lines: Gradients, damping: float = DAMPING) -> Influence:
        """
        Args:
            targets: gradients of the values.
            lines: gradients of the losses.
            damping: the damping, in units of the mean eigenvalue of each map.
        """
        total = torch.zeros(len(targets), len(lines), dtype=torch.float64)
        for name, factor in self.factors.items():
            one, other = (factor.turned(_with_bias(group, name)) for group in (targets, lines))
            scale = factor.squares + damping * factor.squares.mean()
            total -= ((one / scale.flatten()) @ other.T).cpu()
        return total


@dataclass
class _Seen:
    """A record of what passes through linear maps while it is open.

    Attributes:
        squares: sums over positions, by map, of g g^T and of x x^T, of the gradients g of its
            output and its inputs x.
    """

    maps: Mapping[str, nn.Linear]
    squares: dict[str, tuple[Tensor, Tensor]] = field(default_factory=dict)
    _passed: list[tuple[str, Tensor, Tensor]] = field(default_factory=list)
    _open: ExitStack = field(default_factory=ExitStack)

    def __enter__(self) -> _Seen:
        for name, part in self.maps.items():

            def record(part: nn.Module, args: Any, out: Tensor, name: str = name) -> None:
                self._passed.append((name, args[0].detach(), out))

            self._open.callback(part.register_forward_hook(record).remove)
        return self

    def __exit__(self, *error: object) -> None:
        self._open.close()

    def counted(self, values: Iterable[Float[Tensor, ""]]) -> Iterator[Float[Tensor, ""]]:
        """The values, each after what passed for it was added up."""
        for value in values:
            outputs = [out for *_, out in self._passed]
            if not outputs:
                raise ValueError("EK-FAC knows linear maps alone, and a loss depends on none")
            gradients = torch.autograd.grad(
                value, outputs, retain_graph=True, allow_unused=True, materialize_grads=True
            )
            for (name, x, _), gradient in zip(self._passed, gradients, strict=True):
                x, g = (rows.reshape(-1, rows.shape[-1]).double() for rows in (x, gradient))
                if self.maps[name].bias is not None:
                    x = torch.cat([x, x.new_ones(len(x), 1)], dim=1)
                one, other = self.squares.get(name, (0.0, 0.0))
                self.squares[name] = one + g.T @ g, other + x.T @ x
            self._passed.clear()
            yield value


def _with_bias(gradients: Gradients, name: str) -> Float[Tensor, "value d_out d_in"]:
    """The gradients of a map's weights, those of the bias as the last column, in float64."""
    inside = f"{name}." if name else ""  # a model may be one map
    weight = gradients.by_name[f"{inside}weight"].double()
    bias = gradients.by_name.get(f"{inside}bias")
    return weight if bias is None else torch.cat([weight, bias.double()[..., None]], dim=2)
