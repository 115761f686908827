"""Rivals of a sparse dictionary: older decompositions of the same activations, and chance.

Principal components and axes have a sign. Each is given as two latents, one for each side, so that
all codes are at least 0.
"""

from __future__ import annotations

import warnings

import numpy as np
import torch
from jaxtyping import Bool, Float
from sklearn.cluster import KMeans
from sklearn.decomposition import PCA, FastICA
from sklearn.exceptions import ConvergenceWarning
from torch import Tensor
from torch.nn.functional import normalize, one_hot

from interp.dictionaries.dictionary import Dictionary, top_k

NEGLIGIBLE = 1e-6
"""A component whose share of the variance is smaller is rounding error."""
SINGULAR = 1e-5
"""Directions that are independent only by so small a share of their size are so by rounding."""


def _two_sided(
    read: Float[Tensor, "d latent"], write: Float[Tensor, "latent d"], offset: Float[Tensor, " d"]
) -> Dictionary:
    """Linear components as pairs of latents.

    Args:
        read: the map that gets each component out of an activation without the offset.
        write: the vector that each component adds to the activation.
    """

    def encode(x: Float[Tensor, "n d"]) -> Float[Tensor, "n both"]:
        components = (x - offset) @ read
        return torch.cat([components.relu(), (-components).relu()], dim=1)

    return Dictionary(encode, torch.cat([write, -write]), offset)


def principal(x: Float[Tensor, "n d"], width: int) -> Dictionary:
    """Principal components, two latents each: as many as vary, and at most ``width`` latents."""
    pca = PCA(_components(x, width)).fit(x.numpy())
    directions = torch.as_tensor(pca.components_, dtype=torch.float32)
    return _two_sided(directions.T, directions, x.mean(dim=0))


def independent(x: Float[Tensor, "n d"], width: int, seed: int = 0) -> Dictionary:
    """Independent components (FastICA; Hyvarinen 1999), as many as of ``principal``.

    Where it does not converge, it is what 200 iterations gave.
    """
    count = _components(x, width)
    flat = PCA(count).fit(x.numpy())  # FastICA cannot whiten directions that do not vary
    ica = FastICA(count, whiten="unit-variance", random_state=seed, max_iter=200, tol=1e-3)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        ica.fit(flat.transform(x.numpy()))
    read = torch.as_tensor(flat.components_.T @ ica.components_.T, dtype=torch.float32)
    write = torch.as_tensor(ica.mixing_.T @ flat.components_, dtype=torch.float32)
    return _two_sided(read, write, x.mean(dim=0))


def _components(x: Float[Tensor, "n d"], width: int) -> int:
    """The number of components that vary, at most half of ``width``."""
    spread = np.linalg.svd((x - x.mean(dim=0)).double().numpy(), compute_uv=False) ** 2
    return int(min(max(1, width // 2), max(1, (spread > NEGLIGIBLE * spread.sum()).sum())))


def clusters(x: Float[Tensor, "n d"], width: int, seed: int = 0) -> Dictionary:
    """k-means: one latent for each cluster, and the nearest one is on with code 1."""
    count = min(width, len(torch.unique(x, dim=0)))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)  # points may be alike up to rounding
        kmeans = KMeans(count, n_init=1, random_state=seed).fit(x.numpy())
    centres, mean = torch.as_tensor(kmeans.cluster_centers_, dtype=torch.float32), x.mean(dim=0)

    def encode(new: Float[Tensor, "n d"]) -> Float[Tensor, "n latent"]:
        return one_hot(torch.cdist(new, centres).argmin(dim=1), count).float()

    return Dictionary(encode, centres - mean, mean)


def axes(x: Float[Tensor, "n d"]) -> Dictionary:
    """The activation's own axes about their mean, two latents each: no learning."""
    eye = torch.eye(x.shape[1])
    return _two_sided(eye, eye, x.mean(dim=0))


def neurons(write: Float[Tensor, "d_mlp d_model"], bias: Float[Tensor, " d_model"]) -> Dictionary:
    """The hidden units of an MLP, as a transcoder: what each writes into the stream. It encodes the
    units' activations; those below 0 count as 0."""
    return Dictionary(torch.relu, write, bias)


def drawn(x: Float[Tensor, "n d"], width: int, active: int, seed: int = 0) -> Dictionary:
    """Random directions. Each position keeps the ``active`` largest codes.

    One scale for all codes brings the output as near to x as it can.
    """
    generator = torch.Generator().manual_seed(seed)
    directions = normalize(torch.randn(width, x.shape[1], generator=generator), dim=1)
    mean = x.mean(dim=0)
    output = top_k((x - mean) @ directions.T, active) @ directions
    scale = float((output * (x - mean)).sum() / output.square().sum().clamp_min(1e-12))

    def encode(new: Float[Tensor, "n d"]) -> Float[Tensor, "n latent"]:
        return scale * top_k((new - mean) @ directions.T, active)

    return Dictionary(encode, directions, mean)


def oracle(
    x: Float[Tensor, "n d"],
    directions: Float[Tensor, "known d"],
    signed: Bool[Tensor, " known"],
    least: float = 0.02,
) -> Dictionary:
    """The dictionary of known directions: codes by least squares.

    Where the directions are not independent, many codes give the same activation. Those with the
    smallest sum of squares are taken, which are not sparse: a value that is there also shows in the
    codes of others.

    Args:
        directions: the vector that each known value adds to an activation.
        signed: True for the values that may be negative; these have a second latent, for the other
            side.
        least: codes up to this are taken for errors of reading, and become 0.
    """
    # More directions than they span dimensions: what rounding alone adds must not be divided by.
    read = torch.linalg.pinv(directions.double(), rtol=SINGULAR).float()

    def encode(new: Float[Tensor, "n d"]) -> Float[Tensor, "n latent"]:
        values = new @ read
        codes = torch.cat([values, -values[:, signed]], dim=1)
        return torch.where(codes > least, codes, torch.zeros_like(codes))

    both = torch.cat([directions, -directions[signed]])
    return Dictionary(encode, both, (x - encode(x) @ both).mean(dim=0))
