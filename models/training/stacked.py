"""Many models of one architecture run as one model, so that one launch serves all of them.

Their words lie one after the other in one batch, those of the first model first. A part without
weights needs no change. A part with weights (a linear map, an embedding, a norm, a convolution) is
replaced by a sibling that applies each model's own weights to its words. ``torch.func.vmap`` does
the same for any forward pass, but takes twice as long to launch one.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn

from models.base import LanguageModel
from models.model_config import ModelConfig
from models.transformer.norm import Norm


def can_be_stacked(config: ModelConfig) -> bool:
    """Does every part that has weights have a stacked sibling? Its family says so."""
    return config.family.stacks(config)


class StackedModel:
    """The forward pass of many models.

    Args:
        model: one of the models. Its parts are replaced, and its own weights are no longer used.
    """

    def __init__(self, model: LanguageModel) -> None:
        self.model = model
        self._given: dict[str, dict[str, Tensor]] = {}
        for name, part in list(model.named_modules()):
            for kind, sibling in STACKED.items():
                if isinstance(part, kind) and part.weight is not None:
                    stacked = sibling(part)
                    model.set_submodule(name, stacked)
                    self._given[name] = stacked.given

    def __call__(
        self,
        weights: Mapping[str, Float[Tensor, "model *shape"]],
        tokens: Int[Tensor, "batch pos"],
        offsets: Int[Tensor, " batch"] | None,
    ) -> Float[Tensor, "batch pos d_vocab"]:
        """Logits at every position.

        Args:
            weights: the weights of all models, by name.
            tokens: the same number of words for each model, those of the first model first.
            offsets: the number of each word's first absolute position; needed if positions are
                learned.
        """
        for name, values in weights.items():
            part, _, kind = name.rpartition(".")
            self._given[part][kind] = values
        return self.model.logits(tokens, offsets)


class _StackedLinear(nn.Module):
    """``nn.Linear``."""

    def __init__(self, part: nn.Linear) -> None:
        super().__init__()
        self.given: dict[str, Tensor] = {}

    def forward(self, x: Float[Tensor, "batch pos d_in"]) -> Float[Tensor, "batch pos d_out"]:
        return _mapped(x, **self.given)


class _StackedEmbedding(nn.Module):
    """``nn.Embedding``: one table, the rows of the first model first."""

    def __init__(self, part: nn.Embedding) -> None:
        super().__init__()
        self.given: dict[str, Tensor] = {}
        self.weight = part.weight  # the model reads its own type and device here

    def forward(self, ids: Int[Tensor, "batch pos"]) -> Float[Tensor, "batch pos d_model"]:
        table = self.given["weight"]
        models, rows, _ = table.shape
        first = torch.arange(0, models * rows, rows, device=ids.device)
        places = ids.reshape(models, -1) + first[:, None]
        return nn.functional.embedding(places.view_as(ids), table.flatten(0, 1))


class _StackedNorm(Norm):
    """``Norm`` with a gamma."""

    def __init__(self, part: Norm) -> None:
        assert part.weight is not None
        super().__init__(part.kind, len(part.weight), part.eps, affine=False)
        self.given: dict[str, Tensor] = {}

    def forward(self, x: Float[Tensor, "*batch d_model"]) -> Float[Tensor, "*batch d_model"]:
        gamma, beta = self.given["weight"], self.given.get("bias")
        y = super().forward(x).view(len(gamma), -1, x.shape[-1]) * gamma[:, None]
        return (y if beta is None else y + beta[:, None]).view_as(x)


class _StackedConvolution(nn.Module):
    """``nn.Conv1d`` without padding and with a stride of one."""

    def __init__(self, part: nn.Conv1d) -> None:
        super().__init__()
        self.given: dict[str, Tensor] = {}
        self.kernel_size = part.kernel_size

    def forward(self, x: Float[Tensor, "batch d_in time"]) -> Float[Tensor, "batch d_out pos"]:
        windows = x.unfold(2, self.kernel_size[0], 1).transpose(1, 2)  # [batch, pos, d_in, kernel]
        weight = self.given["weight"].flatten(2)
        return _mapped(windows.flatten(2), weight, self.given.get("bias")).transpose(1, 2)


def _mapped(
    x: Float[Tensor, "batch pos d_in"],
    weight: Float[Tensor, "model d_out d_in"],
    bias: Float[Tensor, "model d_out"] | None = None,
) -> Float[Tensor, "batch pos d_out"]:
    """Applies each model's linear map to that model's words."""
    rows, turned = x.reshape(len(weight), -1, x.shape[-1]), weight.transpose(1, 2)
    y = torch.bmm(rows, turned) if bias is None else torch.baddbmm(bias[:, None], rows, turned)
    return y.view(*x.shape[:2], -1)


STACKED: dict[type[nn.Module], Callable[..., Any]] = {
    nn.Linear: _StackedLinear,
    nn.Embedding: _StackedEmbedding,
    nn.Conv1d: _StackedConvolution,
    Norm: _StackedNorm,
}
