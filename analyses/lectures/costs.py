"""The compute of a model by part: operations by formula and by PyTorch's counter, and seconds."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Sequence
from statistics import median
from typing import Any

import altair as alt
import pandas as pd
import torch
from altair.typing import ChartType
from jaxtyping import Int
from torch import Tensor, nn
from torch.utils.flop_counter import FlopCounterMode

from analyses.charts.theme import AGAINST, SEVERAL, TRAINED, colours
from models.base import LanguageModel
from models.languages import BOS_ID
from models.model_config import ModelConfig
from models.operations import Work, operations

LENGTHS = (16, 32, 64, 128, 256, 512, 1024)
REST = "everything else"


def lengths_of(config: ModelConfig) -> tuple[int, ...]:
    """The lengths that the model can read."""
    return tuple(n for n in LENGTHS if config.positions != "learned" or n <= config.n_ctx)


def predicted(model: LanguageModel, lengths: Iterable[int]) -> pd.DataFrame:
    """Operations by the formulas: columns part, order, positions, flops."""
    rows = [
        (part.name, part.order, n, part.flops(n))
        for n in lengths
        for part in operations(model.config, len(model.vocabulary))
    ]
    return pd.DataFrame(rows, columns=["part", "order", "positions", "flops"])


def example_tokens(model: LanguageModel, positions: int) -> Int[Tensor, "1 pos"]:
    """BOS and symbols in turn."""
    symbols = model.to_tokens(" ".join(model.vocabulary.symbols))[0, 1:]
    body = symbols.repeat(positions // len(symbols) + 1)[: positions - 1]
    return torch.cat([torch.tensor([BOS_ID]), body])[None]


@torch.no_grad()
def counted(model: LanguageModel, positions: int) -> pd.DataFrame:
    """Operations of the same parts by PyTorch's counter: columns part, positions, counted.

    On a CPU the counter does not see fused kernels, so attention and an LSTM run without them here.
    """
    unfused = ["hook_resid_post", *["attn.hook_pattern"] * (model.config.scores != "linear")]
    plain = [n for n in model.hook_dict if n.endswith(tuple(unfused))]
    with (
        model.hooks(fwd_hooks=[(name, lambda x, hook: x) for name in plain]),
        FlopCounterMode(display=False) as counter,
    ):
        model(example_tokens(model, positions))
    root = type(model).__name__
    of = {name: sum(ops.values()) for name, ops in counter.get_flop_counts().items()}
    rows = [
        (part.name, positions, int(_difference(part, lambda name: of.get(f"{root}.{name}", 0))))
        for part in operations(model.config, len(model.vocabulary))
    ]
    return pd.DataFrame(rows, columns=["part", "positions", "counted"])


def _difference(part: Work, of: Callable[[str], float]) -> float:
    return sum(map(of, part.modules)) - sum(map(of, part.without))


@torch.no_grad()
def measured(model: LanguageModel, positions: int, repeats: int = 5) -> pd.DataFrame:
    """Seconds of one word's forward pass by part, as the median of ``repeats`` passes.

    Columns: part, positions, seconds. The clock is read where a module begins and where it ends.
    The last row is everything else.
    """
    parts = operations(model.config, len(model.vocabulary))
    names = {name for part in parts for name in (*part.modules, *part.without)}
    tokens = example_tokens(model, positions)
    taken: dict[str, float] = {}
    handles = []
    for name in names:

        def begin(module: nn.Module, inputs: object, name: str = name) -> None:
            taken[name] = -time.perf_counter()

        def end(module: nn.Module, inputs: object, output: object, name: str = name) -> None:
            taken[name] += time.perf_counter()

        module = model.get_submodule(name)
        handles += [module.register_forward_pre_hook(begin), module.register_forward_hook(end)]
    seconds: dict[str, list[float]] = {name: [] for name in (*(p.name for p in parts), REST)}
    try:
        for turn in range(repeats + 1):
            start = time.perf_counter()
            model(tokens)
            whole = time.perf_counter() - start
            if turn == 0:
                continue  # the first pass warms up
            net = {part.name: max(0.0, _difference(part, taken.__getitem__)) for part in parts}
            for name, value in (net | {REST: max(0.0, whole - sum(net.values()))}).items():
                seconds[name].append(value)
    finally:
        for handle in handles:
            handle.remove()
    rows = [(name, positions, median(values)) for name, values in seconds.items()]
    return pd.DataFrame(rows, columns=["part", "positions", "seconds"])


def cost_table(prediction: pd.DataFrame, others: Sequence[pd.DataFrame] = ()) -> pd.DataFrame:
    """Predicted, counted and measured side by side, a row per length and part.

    Columns: positions, part, order, flops, share of flops, and what the others have: counted,
    seconds, share of time.
    """
    table = prediction
    names = ["counted", "seconds"]
    for name in names:
        some = [other for other in others if name in other]
        if some:
            table = table.merge(pd.concat(some), how="outer", on=["part", "positions"])
    table = table.assign(order=table["order"].fillna(""))
    for name in {"flops", "counted"} & set(table):
        table[name] = table[name].fillna(0).astype(int)
    for name, share in (("flops", "share of flops"), ("seconds", "share of time")):
        if name in table:
            table[share] = table[name] / table.groupby("positions")[name].transform("sum").astype(
                float
            )
    first = ["positions", "part", "order", "flops", "share of flops"]
    order = {part: i for i, part in enumerate(prediction["part"].unique())}
    table["rank"] = table["part"].map(order).fillna(len(order))
    table = table.sort_values(["positions", "rank"], ignore_index=True).drop(columns="rank")
    return table[first + [c for c in table if c not in first]]


PALETTE = [TRAINED, AGAINST, *SEVERAL[1:4]]


def growth_chart(table: pd.DataFrame, value: str) -> ChartType:
    """Operations ("flops", with the counted ones as rings) or "seconds" by length, log-log."""
    rows = table[table[value] > 0]
    ringed = value == "flops" and "counted" in table
    title = "seconds, measured"
    if value == "flops":
        title = "operations: " + ("predicted (line), counted (ring)" if ringed else "predicted")
    base = alt.Chart(rows).encode(
        x=alt.X("positions:Q", title="positions N")
        .scale(type="log", base=2, nice=False)
        .axis(values=sorted(int(n) for n in table["positions"].unique()), format="d"),
        color=_part_colour(rows),
        tooltip=list(rows.columns),
    )
    y = alt.Y(f"{value}:Q", title=title).scale(type="log").axis(format=".0e", tickCount=6)
    line = base.mark_line(strokeWidth=2, point=value == "seconds").encode(y=y)
    if ringed:
        ring = base.transform_filter("datum.counted > 0").mark_point(size=60, strokeWidth=1.5)
        return alt.layer(line, ring.encode(y=alt.Y("counted:Q"))).properties(width=185, height=200)
    return alt.layer(line).properties(width=185, height=200)


def share_chart(table: pd.DataFrame) -> ChartType:
    """The division of the time among the parts, or of the operations if no time was measured."""
    value, title = ("seconds", "time") if "seconds" in table else ("flops", "flops")
    y = alt.Y(f"{value}:Q", title=f"share of {title}").stack("normalize").axis(format="%")
    x = alt.X("positions:O", title="positions N").axis(labelAngle=0)
    bar = alt.Chart(table).mark_bar().encode(x, y, _part_colour(table), tooltip=list(table.columns))
    return bar.properties(width=185, height=200)


def _part_colour(table: pd.DataFrame) -> alt.Color:
    names = sorted(dict.fromkeys(table["part"]), key=REST.__eq__)
    shades = [PALETTE[-1] if n == REST else PALETTE[i % 4] for i, n in enumerate(names)]
    small: dict[str, Any] = {"labelLimit": 200, "labelFontSize": 12, "symbolSize": 50}
    return colours("part", names, shades, columns=2, **small)


def cost_lines(config: ModelConfig, positions: int) -> pd.DataFrame:
    """The lecture's table of three kinds of layers, for this width and this many positions.

    Columns: layer, work, sequential steps, path length (between the ends of a word); the numbers
    leave out constant factors.
    """
    n, d, k = positions, config.d_model, config.kernel_size
    path = -(-n // k)
    rows = [
        ("self-attention", f"O(N² D) = {n * n * d:,}", "O(1)", "O(1)"),
        ("linear attention", f"O(N D²) = {n * d * d:,}", "O(1)", "O(1)"),
        ("recurrent", f"O(N D²) = {n * d * d:,}", f"O(N) = {n}", f"O(N) = {n}"),
        (f"convolution, k = {k}", f"O(k N D²) = {k * n * d * d:,}", "O(1)", f"O(N/k) = {path}"),
    ]
    return pd.DataFrame(rows, columns=["layer", "work", "sequential steps", "path length"])
