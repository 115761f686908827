"""Sparse autoencoders and transcoders, several of them trained at once.

The codes are an activation function of a linear map, and the output is linear in the codes:

    codes  = sparse((x - mean) W_enc + b_enc)          output = codes W_dec + b_dec

Each row of W_dec has length 1. The kinds differ in ``sparse`` and in the loss:

    topk         each position keeps its k largest codes (Gao et al. 2024)
    batchtopk    a batch keeps k codes a position on average (Bussmann, Leask and Nanda 2024); after
                 training a threshold takes the place of the batch
    matryoshka   batchtopk, and the first latents must do without the later ones: the loss is summed
                 over prefixes of the dictionary (Bussmann, Nabeshima, Karvonen and Nanda 2025)

An autoencoder's output is its input. A transcoder's (Dunefsky, Chlenski and Nanda 2024) is another
activation: what an MLP makes of the input. A latent that was silent for long is dead: it gets a
gradient by the auxiliary loss of Gao et al., in which the dead latents explain the error.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Literal

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor
from torch.nn.functional import normalize

from interp.adam import Adam
from interp.dictionaries.dictionary import Dictionary, above, batch_top_k, top_k
from interp.model import require_finite

Kind = Literal["topk", "batchtopk", "matryoshka"]
AUXILIARY = 1 / 32
"""The weight of the auxiliary loss."""
DEAD = 20
"""Steps without any code above 0 after which a latent is dead."""
PREFIXES = (0.125, 0.25, 0.5, 1.0)
"""The shares of the latents that a Matryoshka autoencoder must do with."""
THRESHOLD_BATCHES = 20
"""Batches of which the threshold of BatchTopK is the mean."""


@dataclass(frozen=True)
class Recipe:
    """A training recipe of dictionaries.

    Attributes:
        kind: see above.
        width: number of latents.
        active: number of codes above 0 at a position; on average for the kinds of a batch.
        prefixes: the shares of the latents of a Matryoshka autoencoder, the last one 1.
        steps: steps of Adam.
        batch: positions in each step.
        rate: the learning rate; it falls to 0 over the last fifth of the steps.
    """

    kind: Kind
    width: int
    active: int
    prefixes: Sequence[float] = PREFIXES
    steps: int = 1000
    batch: int = 256
    rate: float = 1e-2

    @property
    def nested(self) -> list[int]:
        """The numbers of latents that the parts of the loss may use."""
        if self.kind != "matryoshka":
            return [self.width]
        return sorted({max(1, round(share * self.width)) for share in self.prefixes})

    def sparse(self, pre: Float[Tensor, "many n latent"]) -> Float[Tensor, "many n latent"]:
        """The codes of a batch in training."""
        return (top_k if self.kind == "topk" else batch_top_k)(pre, self.active)


@dataclass
class Weights:
    """The weights of many dictionaries of one recipe, on scaled activations.

    Attributes:
        encoder, encoder_bias: the map from the input to the values before the activation function.
        decoder, decoder_bias: the map from codes to the output.
    """

    encoder: Float[Tensor, "many d_in latent"]
    encoder_bias: Float[Tensor, "many 1 latent"]
    decoder: Float[Tensor, "many latent d_out"]
    decoder_bias: Float[Tensor, "many 1 d_out"]

    @classmethod
    def drawn(
        cls,
        width: int,
        x: Float[Tensor, "n d_in"],
        y: Float[Tensor, "n d_out"],
        generators: Sequence[torch.Generator],
    ) -> Weights:
        """Random directions of the output. The encoder starts with the linear map that says best
        how far the output lies along each: in an autoencoder, this is the decoder turned over."""
        rows = [torch.randn(width, y.shape[1], generator=generator) for generator in generators]
        decoder = normalize(torch.stack(rows), dim=2)
        encoder = torch.linalg.pinv(x.double(), rtol=1e-6) @ y.double()
        bias, end = torch.zeros(len(rows), 1, width), torch.zeros(len(rows), 1, y.shape[1])
        return cls(encoder.float() @ decoder.mT, bias, decoder, end)

    @property
    def all(self) -> list[Tensor]:
        return [self.encoder, self.encoder_bias, self.decoder, self.decoder_bias]

    def pre(self, x: Float[Tensor, "many n d_in"]) -> Float[Tensor, "many n latent"]:
        return x @ self.encoder + self.encoder_bias

    def outputs(
        self, codes: Float[Tensor, "many n latent"], nested: Sequence[int]
    ) -> Iterator[Float[Tensor, "many n d_out"]]:
        """The outputs of the first latents, for each number of them, ascending."""
        output, done = self.decoder_bias, 0
        for count in nested:
            output = output + codes[..., done:count] @ self.decoder[:, done:count]
            done = count
            yield output


def trained(
    x: Float[Tensor, "n d_in"],
    recipe: Recipe,
    seeds: Sequence[int],
    y: Float[Tensor, "n d_out"] | None = None,
    progress: Callable[[int], None] = lambda step: None,
) -> list[Dictionary]:
    """Trains a dictionary for each seed on the CPU, all at once.

    Args:
        x: activations; a row is a position.
        seeds: seeds of the first weights and of the batches.
        y: the output that is wanted; without it x itself.
        progress: called with the number of steps that are done.

    Returns:
        Dictionaries of the activations as they are: their codes have the unit of the output, and
        their directions have length 1.

    Raises:
        ValueError: there are no activations, they do not vary, or one is NaN or infinite.
    """
    x, output = x.float(), (x if y is None else y).float()
    for values in (x, output):
        require_finite(values, "activations")
    reads, writes = _Scale.of(x), _Scale.of(output)
    inputs, wanted = reads(x), writes(output)
    generators = [torch.Generator().manual_seed(seed) for seed in seeds]
    weights = Weights.drawn(recipe.width, inputs, wanted, generators)
    for tensor in weights.all:
        tensor.requires_grad_()
    optimiser = Adam(weights.all, lr=recipe.rate)
    silent = torch.zeros(len(seeds), recipe.width, dtype=torch.long)
    for step in range(recipe.steps):
        rows = _rows(generators, len(x), recipe.batch)
        optimiser.param_groups[0]["lr"] = recipe.rate * min(1.0, 5 * (1 - step / recipe.steps))
        loss, on = _loss(weights, recipe, inputs[rows], wanted[rows], silent > DEAD)
        silent = torch.where(on, 0, silent + 1)
        optimiser.zero_grad()
        loss.backward()
        optimiser.step()
        with torch.no_grad():
            weights.decoder.copy_(normalize(weights.decoder, dim=-1))
        progress(step + 1)
    for tensor in weights.all:
        tensor.requires_grad_(False)
    thresholds = _thresholds(weights, recipe, inputs, generators)
    return [
        _finished(weights, recipe, number, threshold, reads, writes)
        for number, threshold in enumerate(thresholds)
    ]


def _rows(generators: Sequence[torch.Generator], n: int, batch: int) -> Int[Tensor, "many batch"]:
    return torch.stack([torch.randint(n, (batch,), generator=rng) for rng in generators])


def _loss(
    weights: Weights,
    recipe: Recipe,
    x: Float[Tensor, "many n d_in"],
    y: Float[Tensor, "many n d_out"],
    dead: Bool[Tensor, "many latent"],
) -> tuple[Float[Tensor, ""], Bool[Tensor, "many latent"]]:
    """The loss summed over the dictionaries, and which latents were on."""
    pre = weights.pre(x)
    codes = recipe.sparse(pre)
    loss, error = torch.zeros(()), y
    for output in weights.outputs(codes, recipe.nested):
        error = y - output
        loss = loss + error.square().sum(dim=-1).mean(dim=1).sum()
    if dead.any():
        others = pre.masked_fill(~dead[:, None], 0.0)
        helped = top_k(others, max(1, y.shape[-1] // 2)) @ weights.decoder
        missed = (error.detach() - helped).square().sum(dim=-1).mean(dim=1)
        loss = loss + AUXILIARY * missed.sum()
    return loss, (codes > 0).any(dim=1)


@torch.no_grad()
def _thresholds(
    weights: Weights,
    recipe: Recipe,
    x: Float[Tensor, "n d_in"],
    generators: Sequence[torch.Generator],
) -> list[float]:
    """For the kinds of a batch, the mean over batches of the smallest code that was kept."""
    if recipe.kind == "topk":
        return [0.0] * len(generators)
    least = []
    for _ in range(THRESHOLD_BATCHES):
        codes = recipe.sparse(weights.pre(x[_rows(generators, len(x), recipe.batch)]))
        least.append(codes.masked_fill(codes <= 0, torch.inf).amin(dim=(1, 2)))
    return torch.stack(least).mean(dim=0).nan_to_num(posinf=0.0).tolist()


@dataclass(frozen=True)
class _Scale:
    """Activations with mean 0 and a mean squared length of 1."""

    mean: Float[Tensor, " d"]
    size: float

    @classmethod
    def of(cls, x: Float[Tensor, "n d"]) -> _Scale:
        mean = x.mean(dim=0) if len(x) else torch.zeros(x.shape[1])
        size = float((x - mean).square().sum(dim=1).mean().sqrt()) if len(x) else 0.0
        if size < 1e-12:
            raise ValueError(
                "the activations are the same everywhere: take more words, or another site"
            )
        return cls(mean, size)

    def __call__(self, x: Float[Tensor, "n d"]) -> Float[Tensor, "n d"]:
        return (x - self.mean) / self.size


def _finished(
    weights: Weights, recipe: Recipe, number: int, threshold: float, reads: _Scale, writes: _Scale
) -> Dictionary:
    """One of the dictionaries, on activations that are not scaled."""
    encoder, bias = weights.encoder[number], weights.encoder_bias[number]

    def encode(x: Float[Tensor, "n d_in"]) -> Float[Tensor, "n latent"]:
        pre = reads(x) @ encoder + bias
        codes = top_k(pre, recipe.active) if recipe.kind == "topk" else above(pre, threshold)
        return codes * writes.size

    offset = writes.mean + writes.size * weights.decoder_bias[number, 0]
    return Dictionary(encode, weights.decoder[number], offset)
