"""Many models of one architecture as one: a launch does for all of them what it does for one.

Their words lie behind each other in one batch, those of the first model first. What has no weights
does not notice; what has (a linear map, an embedding, a norm, a convolution) is replaced by a
sibling that gives each model's words to its own weights. ``torch.func.vmap`` does as much for any
forward pass, but takes twice as long to launch one.
"""

from __future__ import annotations

from collections.abc import Callable

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn

from models.base import LanguageModel
from models.config import ModelConfig
from models.norm import Norm


def can_be_stacked(config: ModelConfig) -> bool:
    """Does every part that has weights have a stacked sibling?

    Recurrent layers, T5's bias and additive scores have none, and an n-gram model counts.
    """
    return (
        config.architecture in ("transformer", "cnn")
        and config.positions != "t5"
        and config.scores != "additive"
    )


def stack(model: LanguageModel) -> LanguageModel:
    """The model with its parts replaced, for ``torch.func.functional_call``.

    Every weight is then given by its name as [model, *shape], and a batch holds as many words of
    each model. The model's own weights play no part any more.
    """
    for name, part in list(model.named_modules()):
        for kind, stacked in STACKED.items():
            if isinstance(part, kind) and part.weight is not None:
                model.set_submodule(name, stacked(part))
    return model


class StackedLinear(nn.Module):
    """``nn.Linear``."""

    def __init__(self, part: nn.Linear) -> None:
        super().__init__()
        self.weight, self.bias = part.weight, part.bias

    def forward(self, x: Float[Tensor, "batch pos d_in"]) -> Float[Tensor, "batch pos d_out"]:
        y = mapped(x.reshape(len(self.weight), -1, x.shape[-1]), self.weight, self.bias)
        return y.view(*x.shape[:-1], -1)


class StackedEmbedding(nn.Module):
    """``nn.Embedding``: one table, the rows of the first model first."""

    def __init__(self, part: nn.Embedding) -> None:
        super().__init__()
        self.weight = part.weight

    def forward(self, ids: Int[Tensor, "batch pos"]) -> Float[Tensor, "batch pos d_model"]:
        models, rows, _ = self.weight.shape
        first = torch.arange(0, models * rows, rows, device=ids.device)
        places = ids.reshape(models, -1) + first[:, None]
        return nn.functional.embedding(places.view_as(ids), self.weight.flatten(0, 1))


class StackedNorm(nn.Module):
    """``Norm`` with a gamma."""

    def __init__(self, part: Norm) -> None:
        super().__init__()
        assert part.weight is not None
        self.weight, self.bias = part.weight, part.bias
        self.plain = Norm(part.kind, len(part.weight), part.eps, affine=False)

    def forward(self, x: Float[Tensor, "batch pos d_model"]) -> Float[Tensor, "batch pos d_model"]:
        y = self.plain(x).view(len(self.weight), -1, x.shape[-1]) * self.weight[:, None]
        return (y if self.bias is None else y + self.bias[:, None]).view_as(x)


class StackedConvolution(nn.Module):
    """``nn.Conv1d`` without padding, a stride of one."""

    def __init__(self, part: nn.Conv1d) -> None:
        super().__init__()
        self.weight, self.bias, self.kernel_size = part.weight, part.bias, part.kernel_size

    def forward(self, x: Float[Tensor, "batch d_in time"]) -> Float[Tensor, "batch d_out pos"]:
        windows = x.unfold(2, self.kernel_size[0], 1).transpose(1, 2)  # [batch, pos, d_in, kernel]
        rows = windows.reshape(len(self.weight), -1, self.weight[0, 0].numel())
        y = mapped(rows, self.weight.flatten(2), self.bias)
        return y.view(*windows.shape[:2], -1).transpose(1, 2)


def mapped(
    x: Float[Tensor, "model rows d_in"],
    weight: Float[Tensor, "model d_out d_in"],
    bias: Float[Tensor, "model d_out"] | None,
) -> Float[Tensor, "model rows d_out"]:
    """Each model's linear map of its rows."""
    if bias is None:
        return torch.bmm(x, weight.transpose(1, 2))
    return torch.baddbmm(bias[:, None], x, weight.transpose(1, 2))


STACKED: dict[type[nn.Module], Callable[..., nn.Module]] = {
    nn.Linear: StackedLinear,
    nn.Embedding: StackedEmbedding,
    nn.Conv1d: StackedConvolution,
    Norm: StackedNorm,
}
