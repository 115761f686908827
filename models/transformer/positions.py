"""The order of a word, as a Transformer is told it: tables, rotations, and biases."""

from __future__ import annotations

import math
from functools import lru_cache

import torch
from jaxtyping import Float, Int, Real
from torch import Tensor
from torch.nn.functional import pad

from models.errors import UserError
from models.model_config import ModelConfig

T5_BUCKETS, T5_FARTHEST = 32, 128
BASE = 10_000.0


def check_reach(length: int, shift: int, n_ctx: int) -> None:
    """Raises UserError if a word of ``length`` positions is too long for a table of ``n_ctx``."""
    if length + shift > n_ctx:
        shifted = f", shifted by {shift}," if shift else ""
        raise UserError(
            f"a word of {length - 1} symbols{shifted} is longer than the learned positions reach "
            f"({n_ctx - 1}): train with a larger --model.n-ctx"
        )


def _frequencies(
    width: int, base: float = BASE, device: torch.device | None = None
) -> Float[Tensor, " half"]:
    """base^(-2i / width) for i = 0 .. width/2 - 1, in radians per position.

    The wavelengths are 2 pi divided by these: from 2 pi up to nearly 2 pi base.
    """
    return base ** (-torch.arange(0, width, 2, dtype=torch.float64, device=device) / width)


def sinusoidal(
    position: Real[Tensor, "*any"],
    width: int,
    base: float = BASE,
    dtype: torch.dtype = torch.float32,
) -> Float[Tensor, "*any width"]:
    """sin(pos / base^(2i/width)) at 2i and the cosine at 2i + 1 (Vaswani et al. 2017, 3.5).

    Args:
        position: whole positions, or fractions of them.
    """
    angles = position[..., None].double() * _frequencies(width, base, position.device)
    return torch.stack([angles.sin(), angles.cos()], dim=-1).flatten(-2).to(dtype)


def computed(
    position: Int[Tensor, "*any"], config: ModelConfig, dtype: torch.dtype
) -> Float[Tensor, "*any d_model"]:
    """The vectors that absolute positions add to the embeddings, where they are not learned.

    Appended and concatenated positions stand in the last coordinates, where the embedding is zero.
    """
    if config.positions == "appended":
        vectors = position[..., None].to(dtype) / config.n_ctx
    else:
        width = config.d_model - config.d_embed or config.d_model
        vectors = sinusoidal(position, width, config.position_base, dtype)
    return pad(vectors, (config.d_model - vectors.shape[-1], 0))


@lru_cache(maxsize=4)  # every forward pass of one length asks for the same
@torch.inference_mode(False)  # a table made in inference mode could not be used in training
def rotations(
    positions: int,
    width: int,
    base: float = BASE,
    device: torch.device | None = None,
    dtype: torch.dtype = torch.float32,
) -> tuple[Float[Tensor, "pos 1 width"], Float[Tensor, "pos 1 width"]]:
    """Cosine and sine of the angle by which each pair of dimensions turns, per position.

    Dimension i is paired with i + width/2, as in LLaMA and GPT-NeoX.
    """
    place = torch.arange(positions, dtype=torch.float64, device=device)
    angles = place[:, None] * _frequencies(width, base, device)
    angles = torch.cat([angles, angles], dim=-1)[:, None]
    return angles.cos().to(dtype), angles.sin().to(dtype)


def rotate(
    x: Float[Tensor, "batch pos head width"],
    cosine: Float[Tensor, "pos 1 width"],
    sine: Float[Tensor, "pos 1 width"],
) -> Float[Tensor, "batch pos head width"]:
    """Queries or keys, turned by their position.

    Positions then enter q.k through their distance alone.
    """
    first, second = x.chunk(2, dim=-1)
    turned = torch.cat([-second, first], dim=-1)
    return x * cosine + turned * sine


def distances(positions: int, device: torch.device | None = None) -> Int[Tensor, "query key"]:
    """key - query: negative for keys before the query."""
    place = torch.arange(positions, device=device)
    return place - place[:, None]


def alibi_slopes(n_heads: int, dtype: torch.dtype = torch.float32) -> Float[Tensor, " head"]:
    """2^(-8h / n) for h = 1 .. n heads.

    If n is no power of two, the slopes are those of the next lower power, then every other slope of
    the next higher power (Press et al. 2022).
    """

    def geometric(n: int) -> list[float]:
        return [2.0 ** (-8.0 * h / n) for h in range(1, n + 1)]

    lower = 2 ** math.floor(math.log2(n_heads))
    slopes = geometric(lower) + geometric(2 * lower)[::2][: n_heads - lower]
    return torch.tensor(slopes, dtype=dtype)


@lru_cache(maxsize=4)
def alibi(
    n_heads: int,
    positions: int,
    device: torch.device | None = None,
    dtype: torch.dtype = torch.float32,
) -> Float[Tensor, "head query key"]:
    """-slope * distance, to be added to the scores; the same before and after the query."""
    slopes = alibi_slopes(n_heads, dtype).to(device, non_blocking=True)
    return -slopes[:, None, None] * distances(positions, device).abs()


def t5_buckets(distance: Int[Tensor, "query key"], bidirectional: bool) -> Int[Tensor, "query key"]:
    """The bucket of each distance key - query (Raffel et al. 2020).

    Half of the buckets hold one distance each. The others grow logarithmically up to distance 128,
    and all greater distances share the last. With ``bidirectional`` the upper sixteen buckets are
    for keys after the query.
    """
    buckets = T5_BUCKETS // 2 if bidirectional else T5_BUCKETS
    after = buckets * (distance > 0).long() if bidirectional else torch.zeros_like(distance)
    far = distance.abs() if bidirectional else (-distance).clamp(min=0)
    exact = buckets // 2
    growth = (far.clamp(min=exact).float() / exact).log() / math.log(T5_FARTHEST / exact)
    large = (exact + (growth * (buckets - exact)).long()).clamp(max=buckets - 1)
    return after + torch.where(far < exact, far, large)
