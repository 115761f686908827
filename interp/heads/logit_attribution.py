"""Direct logit attribution: what each part, or each symbol, adds to a logit by itself."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import pandas as pd
import torch
from jaxtyping import Float, Int
from torch import Tensor

from interp.heads.norms import norms_to_logits, without_scale
from interp.model import ReadableModel, require, require_finite, require_hooks
from interp.weights import of_each_head, output_bias

PARTS = ("embed", "attn", "mlp")
TOLERANCE = 1e-5
"""The amount by which the parts may miss the logit, as a share of 1 + the sum of their sizes."""


@torch.no_grad()
def direct_logit_attribution(
    model: ReadableModel,
    tokens: Int[Tensor, "batch pos"],
    positions: Int[Tensor, " batch"],
    token: int,
) -> pd.DataFrame:
    """The amount that each part adds to one logit directly, through the norms on its way and W_U.

    The scale of every norm is held at its value in the run. So the parts of a word sum to its logit
    (Elhage et al. 2021). Every call checks this. A part whose output no residual passes on to the
    logits adds nothing.

    Args:
        tokens: token ids with BOS.
        positions: the position where the logit is read, one per word (BOS is 0).
        token: the id of the token whose logit it is.

    Returns:
        One row per part and word: part ("embed", "L0H1", "L0 bias", "L0 mlp", "norm bias", "b_U"),
        word, value (in logits; positive raises the logit). A model whose logits are normalised has
        one more part, "softmax": what is added to all logits alike (``normaliser``).

    Raises:
        ValueError: the model is no ``ReadableModel``, or it lacks a hook; or its logit is not the
            sum of the parts, as where logits are capped or multiplied.
    """
    parts, _ = _Run.of(model, tokens, positions, token).parts()
    rows = np.arange(len(tokens))
    return pd.concat(
        [pd.DataFrame({"part": p, "word": rows, "value": v.numpy()}) for p, v in parts.items()],
        ignore_index=True,
    )


@torch.no_grad()
def direct_by_position(
    model: ReadableModel, word: Int[Tensor, " pos"], at: int, token: int
) -> Float[np.ndarray, " pos"]:
    """The amount that the symbol at each position adds to one logit directly, through all heads.

    Through one head a position adds the attention that ``at`` pays to it times the value there,
    mapped by W_O and the norms on the way (a head norm too); their scales are held at their values
    in the run. Position ``at`` also adds its own embedding. MLPs mix positions that earlier layers
    brought together, so that their part belongs to no position. It is left out, and so are the
    biases: the values sum to the parts of the embedding and of all heads. Every call checks this.

    Args:
        word: token ids with BOS.
        at: the position where the logit is read; BOS is 0.
        token: the id of the token whose logit it is.

    Returns:
        One value per position, in logits; positive raises the logit.

    Raises:
        ValueError: see ``direct_logit_attribution``; or what a head reads is not its pattern times
            its values, as where a gate follows.
    """
    require(model, ReadableModel)
    layers, heads = range(model.cfg.n_layers), model.cfg.n_heads
    blocks = [f"blocks.{layer}.attn." for layer in layers]
    names = [block + name for block in blocks for name in ("hook_v", "hook_pattern")]
    scales = [block + "norm_z.hook_scale" for block in blocks]  # of head norms
    names += [scale for scale in scales if scale in model.hook_dict]
    run = _Run.of(model, word[None], torch.tensor([at]), token, names)
    parts, size = run.parts()
    total = torch.zeros(len(word), dtype=torch.float64)
    total[at] = parts["embed"][0]
    for layer, block, scale in zip(layers, blocks, scales, strict=True):
        v = of_each_head(run.whole[block + "hook_v"][0], heads, dim=1)  # [pos, head, d_head]
        weighted = run.whole[block + "hook_pattern"][0, :, at].T[..., None] * v
        if scale in run.whole:
            weighted = weighted / run.whole[scale][0, at]
        W_O = model.blocks[layer].attn.W_O.detach().cpu().double()
        total += run.contribution(torch.einsum("khd,hdm->km", weighted, W_O), layer)
    of_heads = [parts[f"L{layer}H{head}"] for layer in layers for head in range(heads)]
    whole = torch.stack([parts["embed"], *of_heads]).sum(dim=0)
    _require_sum(model, total[:, None], whole, size)
    return total.numpy()


@dataclass(frozen=True)
class _Run:
    """A run of some words, read at one position each, in float64 on the CPU.

    Attributes:
        token: the token whose logit is explained.
        norms: the names of the norms that each part passes, by layer and part; None where none of
            it goes on to the logits directly.
        read: the activations at the positions by hook, and the scale of every norm.
        whole: the activations at all positions, of the hooks that were asked for.
        logit: the token's logit.
    """

    model: ReadableModel
    token: int
    norms: Mapping[tuple[int, str], Sequence[str] | None]
    read: Mapping[str, Float[Tensor, "batch *width"]]
    whole: Mapping[str, Float[Tensor, "batch *any"]]
    logit: Float[Tensor, " batch"]

    @classmethod
    def of(
        cls,
        model: ReadableModel,
        tokens: Int[Tensor, "batch pos"],
        positions: Int[Tensor, " batch"],
        token: int,
        whole: Sequence[str] = (),
        batch_size: int = 256,
    ) -> _Run:
        require(model, ReadableModel)
        cap = getattr(model.cfg, "output_logits_soft_cap", None) or 0
        if cap > 0:
            raise ValueError(
                f"{type(model).__name__} caps its logits at {cap:g} (softcap), and a cap of a sum "
                "is no sum of parts: measure effects by patching instead"
            )
        layers = range(model.cfg.n_layers)
        norms = {(layer, p): norms_to_logits(model, layer, p) for layer in layers for p in PARTS}
        names = ["blocks.0.hook_resid_pre", *(f"blocks.{n}.attn.hook_z" for n in layers)]
        mlps = [f"blocks.{layer}.hook_mlp_out" for layer in layers]
        names += [hook for hook in mlps if hook in model.hook_dict]
        names += dict.fromkeys(f"{n}.hook_scale" for way in norms.values() for n in way or [])
        require_hooks(model, *names, *whole)
        records: dict[str, list[Tensor]] = {name: [] for name in (*names, *whole, "logit")}
        chunks = zip(tokens.split(batch_size), positions.cpu().split(batch_size), strict=True)
        for some, at in chunks:
            logits, cache = model.run_with_cache(some, names_filter=[*names, *whole])
            rows = torch.arange(len(some))
            records["logit"].append(logits[rows, at, token])
            for name in names:
                records[name].append(cache[name][rows, at])
            for name in whole:
                records[name].append(cache[name])
        kept = {name: torch.cat(parts).cpu().double() for name, parts in records.items()}
        for name, values in kept.items():
            require_finite(values, name)
        read, every = ({name: kept[name] for name in some} for some in (names, whole))
        return cls(model, token, norms, read, every, kept["logit"])

    def parts(self) -> tuple[dict[str, Float[Tensor, " batch"]], Float[Tensor, " batch"]]:
        """The amount each part adds to the logit, and the size of all products that are summed.

        Raises ValueError if the parts do not sum to the logit.
        """
        parts = dict[str, Tensor]()
        size = torch.zeros_like(self.logit)
        stream = torch.zeros((), dtype=torch.float64)

        def add(name: str, written: Tensor, way: Sequence[str] | None) -> None:
            nonlocal stream
            vectors = self._through(written, way)
            stream = stream + vectors
            parts[name] = parts.get(name, 0) + vectors @ self.unembed
            size.add_(vectors.abs() @ self.unembed.abs())

        add("embed", self.read["blocks.0.hook_resid_pre"], self.norms[0, "embed"])
        for layer in range(self.model.cfg.n_layers):
            attention, way = self.model.blocks[layer].attn, self.norms[layer, "attn"]
            z = self.read[f"blocks.{layer}.attn.hook_z"]  # [batch, head, d_head]
            for head, weight in enumerate(attention.W_O.detach().cpu().double()):
                add(f"L{layer}H{head}", z[:, head] @ weight, way)
            bias = output_bias(attention).detach().cpu().double()
            if bias.any():
                add(f"L{layer} bias", bias.expand(len(z), -1), way)
            mlp = f"blocks.{layer}.hook_mlp_out"
            if mlp in self.read:
                add(f"L{layer} mlp", self.read[mlp], self.norms[layer, "mlp"])
        ways = [way for way in self.norms.values() if way is not None]
        for name in dict.fromkeys(name for way in ways for name in way):
            beta = getattr(self.model.get_submodule(name), "bias", None)
            if beta is not None and beta.any():
                way = next(way for way in ways if name in way)
                betas = beta.detach().cpu().double().expand(len(size), -1)
                add("norm bias", betas, way[way.index(name) + 1 :])
        parts["b_U"] = torch.full_like(size, float(self.model.b_U[self.token]))
        normaliser = getattr(self.model, "normaliser", None)
        if normaliser is not None:
            every = (tensor.detach().cpu().double() for tensor in (self.model.W_U, self.model.b_U))
            W_U, b_U = every
            shift = normaliser(stream @ W_U + b_U)[:, 0]
            if shift.any():
                parts["softmax"] = shift
        _require_sum(self.model, torch.stack(list(parts.values())), self.logit, size)
        return parts, size

    def contribution(
        self, written: Float[Tensor, "any d_model"], layer: int
    ) -> Float[Tensor, " any"]:
        """The amount that vectors written by the heads of a layer add to the logit."""
        return self._through(written, self.norms[layer, "attn"]) @ self.unembed

    @cached_property
    def unembed(self) -> Float[Tensor, " d_model"]:
        """The token's column of W_U."""
        return self.model.W_U[:, self.token].detach().cpu().double()

    def _through(self, vectors: Tensor, way: Sequence[str] | None) -> Tensor:
        if way is None:
            return torch.zeros_like(vectors)
        for name in way:
            scaled = vectors / self.read[f"{name}.hook_scale"]
            vectors = without_scale(self.model.get_submodule(name), scaled)
        return vectors


def _require_sum(
    model: ReadableModel,
    values: Float[Tensor, "part batch"],
    whole: Float[Tensor, " batch"],
    size: Float[Tensor, " batch"],
) -> None:
    """Raises ValueError, which names the likely fault, if the parts do not sum to the whole.

    Large products may cancel within a part. Their rounding, in float32 if not in float64, is no
    fault.
    """
    total = values.sum(dim=0)
    missed = (total - whole).abs()
    rounding = 8 * torch.finfo(torch.float32).eps * size
    allowed = torch.maximum(TOLERANCE * (1 + values.abs().sum(dim=0)), rounding)
    if (missed <= allowed).all():
        return
    worst = int((missed - allowed).nan_to_num(torch.inf).argmax())
    coarse = torch.finfo(model.W_U.dtype).eps > torch.finfo(torch.float32).eps
    why = "something that this lens does not know scales or gates what the parts add"
    if coarse:
        why = f"the model computes in {model.W_U.dtype}: load it in float32"
    raise ValueError(
        f"the parts of {type(model).__name__} sum to {float(total[worst]):.5g} where "
        f"{float(whole[worst]):.5g} is read: {why}"
    )
