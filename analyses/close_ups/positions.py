"""The properties of every kind of position: bounded, unique, consistent, readable."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import asdict, replace
from typing import get_args

import pandas as pd
import torch
from torch import Tensor

from interp.vectors.positions import properties
from models.choices import Positions
from models.errors import UserError
from models.model_config import ModelConfig
from models.runs.run import Run
from models.transformer.positions import (
    T5_BUCKETS,
    alibi_slopes,
    computed,
    sinusoidal,
    t5_buckets,
)


def position_table(
    runs: Sequence[Run], length: int, d_model: int, shift: int, seed: int
) -> pd.DataFrame:
    """One row per kind of position, and two per run: its learned table, and the one it began with.

    Args:
        length: positions of the window; as many beyond it are looked at.
        d_model: width of the stream; a head has a quarter of it.
        shift: of a step.
        seed: of the tables that are drawn: "learned" and "t5" are learned in a model.

    Returns:
        Columns: kind ("learned at random" for one that a model begins with), vectors (what is
        looked at: what is put to the embedding, the angles' cosines and sines, or what the scores
        of a head get for a distance), width, and the columns of
        ``interp.vectors.positions.Properties``.

    Raises:
        UserError: the window is no power of 2 or too short; or a run has no table that is learned,
            or a short one.
    """
    if length & (length - 1):
        raise UserError(f"--length is {length}: choose a power of 2, such as 64 or 128")
    rows = []
    for kind, vectors, table in [
        *_known(length, 2 * length + shift, d_model, seed),
        *(row for run in runs for row in _of_run(run, 2 * length + shift)),
    ]:
        if table.shape[1] >= length:
            raise UserError(
                f"--length is {length} and {kind} has vectors of {table.shape[1]} numbers: too few "
                "positions to tell whether a step is one map; choose a larger --length"
            )
        found = asdict(properties(table.double().numpy(), length, shift))
        rows.append({"kind": kind, "vectors": vectors, "width": table.shape[1], **found})
    return pd.DataFrame(rows)


def _known(
    length: int, positions: int, d_model: int, seed: int
) -> Iterator[tuple[str, str, Tensor]]:
    """Each kind, what its vectors are, and the vectors, [position, width]."""
    config = ModelConfig(d_model=d_model, n_ctx=length)
    place, generator = torch.arange(positions), torch.Generator().manual_seed(seed)
    bits = torch.arange(length.bit_length() - 1)
    yield "binary", "added", (place[:, None] >> bits) % 2
    for kind in get_args(Positions):
        if kind == "none":
            yield kind, "added", torch.zeros(positions, d_model)
        elif kind == "learned":
            drawn = torch.randn(positions, d_model, generator=generator)
            yield "learned at random", "added", drawn
        elif kind == "rotary":
            yield kind, "cos, sin", sinusoidal(place, config.d_head, dtype=torch.float64)
        elif kind == "alibi":
            yield kind, "score", -place[:, None] * alibi_slopes(config.n_heads, torch.float64)
        elif kind == "t5":
            drawn = torch.randn(T5_BUCKETS, config.n_heads, generator=generator)
            yield "t5 at random", "score", drawn[t5_buckets(-place[:, None], False)[:, 0]]
        else:
            table = computed(place, replace(config, positions=kind), torch.float64)
            yield kind, "added", table[:, table.any(dim=0)]


def _of_run(run: Run, positions: int) -> Iterator[tuple[str, str, Tensor]]:
    config = run.config.model
    if config.positions != "learned":
        raise UserError(
            f"{run.name} has positions {config.positions}, and only a learned table is its own: "
            "give a run with --model.positions learned, or none"
        )
    if config.n_ctx < positions:
        raise UserError(
            f"{run.name} has a table of {config.n_ctx} positions, and {positions} are looked at: "
            "choose a smaller --length"
        )
    for name, model in (("trained", run.model()), ("untrained", run.untrained())):
        weight = model.get_parameter("pos_embed.weight")
        yield f"{run.name} {name}", "added", weight.detach()[:positions]


def in_words(table: pd.DataFrame, length: int) -> str:
    """What the table says of each requirement."""
    most = length.bit_length() - 1

    def those(rows: pd.Series[bool]) -> str:
        return ", ".join(table["kind"][rows]) or "none of them"

    # Vectors that grow with the position are more than twice as large at twice the window.
    whole = table[["bits", "bits_beyond"]] > most - 0.01
    return (
        f"Bounded: {those(table['growth'] < 2)}. Unique up to {2 * length} positions: "
        f"{those(table['unique'] == 2 * length)}. A step is one affine map: "
        f"{those(table['step'] < 1e-3)}. All {most} bits are read within the window: "
        f"{those(whole['bits'])}; beyond it: {those(whole['bits_beyond'])}."
    )
