"""The properties of every kind of position: bounded, unique, consistent, readable."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import asdict, replace
from typing import get_args

import altair as alt
import pandas as pd
import torch
from altair.typing import ChartType
from torch import Tensor

from analyses.answers import Progress, numbers, of_table, quiet
from analyses.charts.marks import bars, panels
from analyses.charts.theme import TRAINED
from analyses.claims import Claim
from analyses.options.inside import Positions as Options
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


def _position_table(run: Run, options: Options, progress: Progress = quiet) -> pd.DataFrame:
    """One row per kind of position. A run with learned positions adds two: its table, and the one
    that it began with.

    A head has a quarter of the stream's width. The tables "learned" and "t5" are drawn at random:
    in a model they are learned.

    Returns:
        Columns: kind ("learned at random" for one that a model begins with), vectors (what is
        looked at: what is put to the embedding, the angles' cosines and sines, or what the scores
        of a head get for a distance), width, and the columns of
        ``interp.vectors.positions.Properties``.

    Raises:
        UserError: the window is no power of 2 or too short; or the run's table is shorter.
    """
    length = options.length
    if length & (length - 1):
        raise UserError(f"--length is {length}: choose a power of 2, such as 64 or 128")
    positions = 2 * length + options.shift
    kinds = [
        *_known(length, positions, options.d_model, options.seed),
        *_of_run(run, positions),
    ]
    rows = []
    for done, (kind, vectors, table) in enumerate(kinds):
        progress(done, len(kinds), kind)
        if table.shape[1] >= length:
            raise UserError(
                f"--length is {length} and {kind} has vectors of {table.shape[1]} numbers: too few "
                "positions to tell whether a step is one map; choose a larger --length"
            )
        values = asdict(properties(table.double().numpy(), length, options.shift))
        rows.append({"kind": kind, "vectors": vectors, "width": table.shape[1], **values})
    return pd.DataFrame(rows).assign(window=length)


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
        return
    if config.n_ctx < positions:
        raise UserError(
            f"{run.name} has a table of {config.n_ctx} positions, and {positions} are looked at: "
            "choose a smaller --length"
        )
    for name, model in (("trained", run.model()), ("untrained", run.untrained())):
        weight = model.get_parameter("pos_embed.weight")
        yield f"learned, {name}", "added", weight.detach()[:positions]


def _claims(table: pd.DataFrame) -> list[Claim]:
    """Which kinds meet each requirement: nothing is estimated."""
    length = int(table["window"].iloc[0])
    most = length.bit_length() - 1
    # Vectors that grow with the position are more than twice as large at twice the window.
    met = {
        "Bounded": table["growth"] < 2,
        f"Unique up to {2 * length} positions": table["unique"] == 2 * length,
        "A step is one affine map": table["step"] < 1e-3,
        f"All {most} bits are read within the window": table["bits"] > most - 0.01,
        f"All {most} bits are read beyond the window": table["bits_beyond"] > most - 0.01,
    }
    return [
        Claim(
            "{} kinds of positions are bounded, unique and consistent step by step",
            int(pd.DataFrame(met).iloc[:, :3].all(axis=1).sum()),
            None,
            None,
            len(table),
            "kinds",
            form=".0f",
            notes=[
                f"{name}: {', '.join(table['kind'][rows]) or 'none of them'}."
                for name, rows in met.items()
            ],
            unweighed="These are facts of their tables: nothing is estimated.",
        )
    ]


MEASURES = {
    "growth": "largest norm at twice the window, by that within",
    "step": "error of one affine map for a step",
    "bits": "bits read within the window",
    "bits_beyond": "bits read beyond it",
}


def _headline(table: pd.DataFrame) -> pd.DataFrame:
    """Numbers that are compared over seeds: each property of each kind."""
    rows = table.melt("kind", list(MEASURES)).itertuples()
    return numbers((MEASURES[row.variable], row.kind, row.value) for row in rows)


def _chart(table: pd.DataFrame) -> ChartType:
    """A panel per property: a bar per kind of position."""
    y = alt.Y("kind:N", title=None, sort=table["kind"].tolist())
    drawn: dict[str, ChartType] = {}
    for name, title in MEASURES.items():
        tips = ["kind", "vectors", "width", alt.Tooltip(f"{name}:Q", format=".3g")]
        x = alt.X(f"{name}:Q", title=None)
        picture = bars(table, x, y, tips, alt.value(TRAINED), ends=None, step=16)
        drawn[title] = picture.properties(width=220)
    return panels(drawn)


QUESTION = of_table(
    "positions",
    Options,
    _position_table,
    _claims,
    _headline,
    _chart,
    lambda table: table.drop(columns=["vectors", "window"]),
    needs=("heads",),
    planned=(),
)
