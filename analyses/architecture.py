"""A model drawn with its shapes, its steps on one word, and where its compute goes."""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from statistics import median
from typing import Any

import altair as alt
import numpy as np
import pandas as pd
import torch
from altair.typing import ChartType
from jaxtyping import Float, Int
from torch import Tensor, nn
from torch.utils.flop_counter import FlopCounterMode

from models.attention import additive_scores
from models.base import LanguageModel
from models.config import ABSOLUTE, ModelConfig
from models.hooks import hook_table
from models.languages import BOS_ID, Vocabulary
from models.ngram import SMOOTHING, HookedNGram
from models.positions import alibi_slopes
from models.transformer import Block, HookedTransformer

INK = "#7d858d"  # readable on white and on black
COLOURS = {
    "token": "#5f6b76",
    "embed": "#6b5ca5",
    "position": "#a8477a",
    "norm": "#96661d",
    "mix": "#0b6e99",
    "mlp": "#2b7a55",
}


# -- what there is: hooks and parameters ----------------------------------------------------------


def hooks(config: ModelConfig) -> pd.DataFrame:
    """The table of hooks: columns name, shape, meaning."""
    rows = [(row.name, " × ".join(row.shape), row.meaning) for row in hook_table(config)]
    return pd.DataFrame(rows, columns=["name", "shape", "meaning"])


def parameters(model: LanguageModel) -> pd.DataFrame:
    """The weights (of an n-gram model its counts): columns name, shape, times, numbers (in all)."""
    found: dict[tuple[str, str], int] = {}
    sizes: dict[tuple[str, str], int] = {}
    for name, weight in [*model.named_parameters(), *model.named_buffers()]:
        shape = " × ".join(f"{size:,}" for size in weight.shape)
        key = (re.sub(r"blocks\.\d+", "blocks.{layer}", name), shape)
        found[key] = found.get(key, 0) + 1
        sizes[key] = sizes.get(key, 0) + weight.numel()
    rows = [(*key, found[key], sizes[key]) for key in found]
    return pd.DataFrame(rows, columns=["name", "shape", "times", "numbers"])


# -- the drawing ----------------------------------------------------------------------------------

WIDTH, STREAM, LEFT, RIGHT = 380, 32, 84, 366
MIDDLE, THIRD, SPACE = (LEFT + RIGHT) / 2, 86, 15
WHOLE = (12.0, float(RIGHT))
CENTRE = sum(WHOLE) / 2


@dataclass
class _Sketch:
    """A drawing in pixels, made from top to bottom; ``y`` is how far it has come."""

    y: float = 6.0
    boxes: list[dict[str, Any]] = field(default_factory=list)
    frames: list[dict[str, Any]] = field(default_factory=list)
    lines: list[dict[str, Any]] = field(default_factory=list)
    heads: list[dict[str, Any]] = field(default_factory=list)
    sums: list[dict[str, Any]] = field(default_factory=list)
    words: list[dict[str, Any]] = field(default_factory=list)
    cells: list[dict[str, Any]] = field(default_factory=list)

    def box(
        self,
        kind: str,
        title: str,
        *details: str,
        span: tuple[float, float] = (LEFT, RIGHT),
        hook: str = "",
        numbers: int = 0,
    ) -> float:
        """A box at ``y``, which stays; returns where the box ends."""
        if numbers:
            details = (*details, f"{numbers:,} params")
        if span[1] - span[0] > 1.5 * THIRD and len(details) == 2:
            details = (f"{details[0]}  ·  {details[1]}",)
        bottom = self.y + 23 + 13 * len(details)
        tip = {"part": title, "shape and parameters": " · ".join(details), "hook": hook}
        place = {"x": span[0], "x2": span[1], "y": self.y, "y2": bottom}
        self.boxes.append({**place, "color": COLOURS[kind], **tip})
        middle = (span[0] + span[1]) / 2
        self.write(middle, self.y + 12, title, "title")
        for i, line in enumerate(details):
            self.write(middle, self.y + 26.5 + 13 * i, line, "detail")
        return bottom

    def write(self, x: float, y: float, text: str, style: str) -> None:
        self.words.append({"x": x, "y": y, "text": text, "style": style})

    def line(self, *points: tuple[float, float], arrow: bool = True, wide: bool = False) -> None:
        """Through the points, with a head at the last."""
        number = len(self.lines)
        for i, (x, y) in enumerate(points):
            self.lines.append({"x": x, "y": y, "order": i, "line": number, "wide": wide})
        if arrow:
            (x0, y0), (x1, y1) = points[-2:]
            angle = float(np.degrees(np.arctan2(x1 - x0, y0 - y1))) % 360
            back = np.array([x1 - x0, y1 - y0]) / max(np.hypot(x1 - x0, y1 - y0), 1e-9) * 4
            self.heads.append({"x": x1 - back[0], "y": y1 - back[1], "angle": angle})

    def down(self, *xs: float, by: float = SPACE) -> None:
        """Arrows from here to the next row."""
        for x in xs:
            self.line((x, self.y), (x, self.y + by))
        self.y += by

    def plus(self, x: float, y: float) -> None:
        self.sums.append({"x": x, "y": y, "sign": "+"})

    def back(self) -> None:
        """The end of a branch, added to the stream."""
        self.line((MIDDLE, self.y), (MIDDLE, self.y + 13), (STREAM + 9, self.y + 13))
        self.y += 13
        self.plus(STREAM, self.y)

    def mask(self, kind: str, right: float, top: float) -> None:
        """A small picture of the mask: filled where a query (down) may attend to a key (across)."""
        for i in range(4):
            for j in range(4):
                open_ = kind == "bidirectional" or j < i or (j == i and kind == "causal")
                x, y = right + 6.5 * (j - 4), top + 6.5 * i
                self.cells.append(
                    {
                        "x": x,
                        "x2": x + 5.5,
                        "y": y,
                        "y2": y + 5.5,
                        "opacity": 0.95 if open_ else 0.22,
                    }
                )

    def frame(self, top: float, bottom: float, text: str) -> None:
        self.frames.append({"x": 4, "x2": 376, "y": top, "y2": bottom})
        self.write(RIGHT, top + 11, text, "frame")

    def chart(self) -> ChartType:
        height = self.y + 6
        x = alt.X("x:Q", axis=None).scale(domain=[0, WIDTH], nice=False)
        y = alt.Y("y:Q", axis=None).scale(domain=[height, 0], nice=False)

        def marks(rows: list[dict[str, Any]]) -> alt.Chart:
            return alt.Chart(pd.DataFrame(rows)).encode(x=x, y=y)

        def rectangles(rows: list[dict[str, Any]], **look: Any) -> alt.Chart:
            return marks(rows).mark_rect(**look).encode(x2="x2:Q", y2="y2:Q")

        layers: list[alt.Chart] = []
        look: dict[str, Any]
        if self.frames:
            look = {"cornerRadius": 12, "fill": INK, "fillOpacity": 0.1, "stroke": INK}
            layers.append(rectangles(self.frames, **look, strokeDash=[4, 3], strokeOpacity=0.7))
        for wide in (True, False):
            if some := [row for row in self.lines if row["wide"] == wide]:
                look = {"strokeWidth": 3.5 if wide else 1.5, "strokeJoin": "round", "color": INK}
                layers.append(
                    marks(some).mark_line(**look).encode(detail="line:N", order="order:O")
                )
        pointing = alt.Angle("angle:Q").scale(domain=[0, 360], range=[0, 360])
        head = marks(self.heads).mark_point(shape="triangle", filled=True, size=52, opacity=1)
        layers.append(head.encode(angle=pointing, color=alt.value(INK)))
        boxes = rectangles(self.boxes, cornerRadius=6, opacity=1)
        tips = ["part:N", "shape and parameters:N", "hook:N"]
        layers.append(boxes.encode(color=alt.Color("color:N").scale(None), tooltip=tips))
        if self.sums:
            look = {"filled": True, "size": 330, "color": INK, "opacity": 1}
            layers.append(marks(self.sums).mark_point(shape="circle", **look))
            sign = marks(self.sums).mark_text(color="white", fontSize=16, fontWeight="bold")
            layers.append(sign.encode(text="sign:N"))
        if self.cells:
            opacity = alt.Opacity("opacity:Q", legend=None).scale(None)
            layers.append(rectangles(self.cells, fill="white").encode(opacity=opacity))
        styles: dict[str, dict[str, Any]] = {
            "title": {"color": "white", "fontSize": 12, "fontWeight": "bold"},
            "detail": {"color": "white", "fontSize": 10.5},
            "plain": {"color": INK, "fontSize": 11},
            "start": {"color": INK, "fontSize": 11, "align": "left"},
            "frame": {"color": INK, "fontSize": 12, "fontWeight": "bold", "align": "right"},
            "along": {"color": INK, "fontSize": 10.5, "angle": 270},
        }
        for style, look in styles.items():
            if some := [row for row in self.words if row["style"] == style]:
                layers.append(
                    marks(some).mark_text(baseline="middle", **look).encode(text="text:N")
                )
        return alt.layer(*layers).properties(width=WIDTH, height=height).configure_view(stroke=None)


def drawing(model: LanguageModel, positions: int) -> ChartType:
    """The architecture from the tokens at the top to the logits at the bottom.

    Args:
        positions: of the word whose shapes are written, BOS among them.
    """
    config, vocabulary = model.config, len(model.vocabulary)
    sketch = _Sketch()
    sketch.y = sketch.box("token", "tokens", f"{positions}, the first is <bos>", span=WHOLE)
    if config.architecture == "ngram":
        _draw_ngram(sketch, config, positions, vocabulary)
    else:
        stream = f"{positions} × {config.d_model}"
        residual = config.architecture in ("transformer", "cnn")
        way = STREAM if residual else CENTRE
        sketch.down(way)
        numbers = _count(model, "embed")
        sketch.y = sketch.box(
            "embed", "embedding", stream, span=WHOLE, hook="hook_embed", numbers=numbers
        )
        top = sketch.y
        if config.positions in ABSOLUTE:
            numbers = _count(model, "pos_embed") if config.positions == "learned" else 0
            sketch.y += SPACE
            name = f"{config.positions} positions"
            bottom = sketch.box("position", name, stream, hook="hook_pos_embed", numbers=numbers)
            middle = (sketch.y + bottom) / 2
            sketch.line((LEFT, middle), (STREAM + 9, middle))
            sketch.plus(STREAM, middle)
            sketch.y = bottom
        sketch.y += 12
        frame = sketch.y
        sketch.y += 8
        draw = {"transformer": _draw_block, "cnn": _draw_convolution}
        draw.get(config.architecture, _draw_recurrent)(sketch, model, positions)
        sketch.y += 12
        layers = "1 layer" if config.n_layers == 1 else f"× {config.n_layers} layers"
        sketch.frame(frame, sketch.y, layers)
        sketch.y += 4
        final = residual and config.norm != "none" and config.norm_placement != "post"
        if residual:
            sketch.line((STREAM, top), (STREAM, sketch.y + SPACE - 5), arrow=False, wide=True)
            sketch.write(14, frame + 80, f"residual stream  {stream}", "along")
        sketch.down(way)
        if final:
            name = f"final {_NORMS[config.norm]}, no weights"
            hook = "ln_final.hook_normalized"
            sketch.y = sketch.box("norm", name, stream, span=WHOLE, hook=hook)
            sketch.down(way)
        shape, numbers = f"{positions} × {vocabulary}", _count(model, "unembed")
        sketch.y = sketch.box("embed", "unembedding", shape, span=WHOLE, numbers=numbers)
    sketch.down(CENTRE)
    where = "<bos>" if config.is_encoder else "the last symbol"
    verdict = f"logits of what may follow; <end> at {where} is the verdict"
    sketch.write(CENTRE, sketch.y + 8, verdict, "plain")
    sketch.y += 16
    return sketch.chart()


_NORMS = {"layer": "LayerNorm", "rms": "RMSNorm", "none": ""}


def _count(model: nn.Module, *names: str) -> int:
    return sum(p.numel() for name in names for p in model.get_submodule(name).parameters())


def _branch(
    sketch: _Sketch,
    model: LanguageModel,
    norm: str,
    part: Callable[[tuple[float, ...]], None],
    entries: tuple[float, ...],
    positions: int,
) -> None:
    """A part beside the stream, and its norms where the configuration puts them.

    Args:
        norm: the name inside the block, "ln1" or "ln2".
        part: draws from ``sketch.y`` on, where arrows end at the entries.
        entries: where the part is entered.
    """
    config = model.config
    shape = f"{positions} × {config.d_model}"
    normed = config.norm != "none"

    def box(name: str, span: tuple[float, float]) -> None:
        numbers = _count(model, f"blocks.0.{name}")
        hook = f"blocks.{{layer}}.{name}.hook_normalized"
        sketch.y = sketch.box(
            "norm", _NORMS[config.norm], shape, span=span, hook=hook, numbers=numbers
        )

    sketch.y += 12
    start: float = STREAM
    if normed and config.norm_placement != "post":
        sketch.line((STREAM, sketch.y), (MIDDLE, sketch.y), (MIDDLE, sketch.y + SPACE))
        sketch.y += SPACE
        box(norm, (LEFT, RIGHT))
        start = MIDDLE
        if len(entries) > 1:
            sketch.line((MIDDLE, sketch.y), (MIDDLE, sketch.y + 8), arrow=False)
            sketch.y += 8
    ends = (min(start, *entries), max(start, *entries))
    if ends[0] < ends[1]:
        sketch.line((ends[0], sketch.y), (ends[1], sketch.y), arrow=False)
    sketch.down(*entries)
    part(entries)
    if config.norm_placement == "sandwich":
        sketch.down(MIDDLE)
        box(f"{norm}_post", (LEFT, RIGHT))
    sketch.back()
    if normed and config.norm_placement == "post":
        sketch.y += 9
        sketch.down(STREAM)
        box(norm, (12, RIGHT))


def _draw_block(sketch: _Sketch, model: LanguageModel, positions: int) -> None:
    config = model.config
    thirds = tuple(LEFT + THIRD / 2 + i * (RIGHT - LEFT - THIRD) / 2 for i in range(3))
    _branch(
        sketch,
        model,
        "ln1",
        lambda at: _draw_attention(sketch, model, positions, at),
        thirds,
        positions,
    )
    if config.mlp == "none":
        return
    hidden, out = f"{positions} × {config.d_mlp}", f"{positions} × {config.d_model}"
    mlp = "blocks.{layer}.mlp."

    def last(y: float) -> None:
        sketch.y = y
        sketch.down(MIDDLE)
        numbers = _count(model, "blocks.0.mlp.fc_out")
        hook = "blocks.{layer}.hook_mlp_out"
        sketch.y = sketch.box("mlp", "W_out", out, hook=hook, numbers=numbers)

    def plain(at: tuple[float, ...]) -> None:
        numbers = _count(model, "blocks.0.mlp.fc_in")
        sketch.y = sketch.box("mlp", "W_in", hidden, hook=mlp + "hook_pre", numbers=numbers)
        sketch.down(MIDDLE)
        last(sketch.box("mlp", config.act_fn, hidden, hook=mlp + "hook_post"))

    def gated(at: tuple[float, ...]) -> None:
        spans = [(LEFT, MIDDLE - 8), (MIDDLE + 8, RIGHT)]
        numbers = _count(model, "blocks.0.mlp.fc_gate")
        parts = (("W_gate", "hook_pre"), ("W_in", "hook_pre_linear"))
        for span, (name, hook) in zip(spans, parts, strict=True):
            bottom = sketch.box("mlp", name, hidden, hook=mlp + hook, span=span, numbers=numbers)
        sketch.y = bottom
        sketch.down(*at)
        title = f"{config.act_fn}(x W_gate) · x W_in"
        last(sketch.box("mlp", title, hidden, hook=mlp + "hook_post"))

    halves = ((LEFT + MIDDLE - 8) / 2, (MIDDLE + 8 + RIGHT) / 2)
    if config.mlp == "gated":
        _branch(sketch, model, "ln2", gated, halves, positions)
    else:
        _branch(sketch, model, "ln2", plain, (MIDDLE,), positions)


def _draw_attention(
    sketch: _Sketch, model: LanguageModel, positions: int, at: tuple[float, ...]
) -> None:
    config, attn = model.config, "blocks.{layer}.attn."
    heads = f"{positions} × {config.n_heads} × {config.d_head}"
    pairs = f"{config.n_heads} × {positions} × {positions}"
    for x, name in zip(at, "qkv", strict=True):
        span = (x - THIRD / 2, x + THIRD / 2)
        numbers = _count(model, f"blocks.0.attn.{name}")
        bottom = sketch.box(
            "mix", name, heads, span=span, hook=f"{attn}hook_{name}", numbers=numbers
        )
    sketch.y = values = bottom
    if config.positions == "rotary":
        sketch.down(*at[:2])
        for x, name in zip(at[:2], "qk", strict=True):
            span = (x - THIRD / 2, x + THIRD / 2)
            hook = f"{attn}hook_rot_{name}"
            bottom = sketch.box("position", "turned", "by position", span=span, hook=hook)
        sketch.y = bottom
    pair = (LEFT, at[1] + THIRD / 2)
    middle = sum(pair) / 2
    sketch.down(*at[:2])
    root = "√" + str(config.d_head)
    formula = {"scaled_dot": f"q·k / {root}", "dot": "q·k", "additive": "w·tanh(q + k)"}
    block = model.get_submodule("blocks.0")
    assert isinstance(block, Block)
    weights = block.attn.w_score
    numbers = 0 if weights is None else weights.numel()
    title = f"scores {formula[config.scores]}"
    sketch.y = sketch.box("mix", title, pairs, span=pair, numbers=numbers)
    if config.positions in ("alibi", "t5"):
        sketch.down(middle)
        if config.positions == "alibi":
            sketch.y = sketch.box("position", "+ ALiBi", "- slope × distance", span=pair)
        else:
            numbers = _count(model, "relative")
            sketch.y = sketch.box(
                "position", "+ T5 bias", "by distance, shared", span=pair, numbers=numbers
            )
    sketch.down(middle)
    name, hook = config.mask.replace("_", " "), attn + "hook_attn_scores"
    bottom = sketch.box("mix", name, "mask, else -∞", span=pair, hook=hook)
    sketch.mask(config.mask, pair[1] - 6, sketch.y + 5.5)
    sketch.y = bottom
    sketch.down(middle)
    sketch.y = sketch.box("mix", "pattern: softmax", pairs, span=pair, hook=attn + "hook_pattern")
    sketch.line((at[2], values), (at[2], sketch.y + SPACE))
    sketch.down(middle)
    sketch.y = sketch.box("mix", "z = pattern v", heads, hook=attn + "hook_z")
    sketch.down(MIDDLE)
    numbers = _count(model, "blocks.0.attn.o")
    stream = f"{positions} × {config.d_model}"
    hook = "blocks.{layer}.hook_attn_out"
    title = f"W_O, sum of {config.n_heads} heads" if config.n_heads > 1 else "W_O, of 1 head"
    sketch.y = sketch.box("mix", title, stream, hook=hook, numbers=numbers)


def _draw_convolution(sketch: _Sketch, model: LanguageModel, positions: int) -> None:
    config, shape = model.config, f"{positions} × {model.config.d_model}"

    def part(at: tuple[float, ...]) -> None:
        conv = "blocks.{layer}.conv."
        seen = f"convolution over the last {config.kernel_size}"
        numbers = _count(model, "blocks.0.conv.kernel")
        sketch.y = sketch.box("mix", seen, shape, hook=conv + "hook_pre", numbers=numbers)
        sketch.down(MIDDLE)
        sketch.y = sketch.box("mlp", config.act_fn, shape, hook=conv + "hook_post")
        sketch.down(MIDDLE)
        numbers = _count(model, "blocks.0.conv.out")
        hook = "blocks.{layer}.hook_conv_out"
        sketch.y = sketch.box("mlp", "W_out", shape, hook=hook, numbers=numbers)

    _branch(sketch, model, "ln1", part, (MIDDLE,), positions)


def _draw_recurrent(sketch: _Sketch, model: LanguageModel, positions: int) -> None:
    """One layer: the states go round on the right, from one position to the next."""
    config, shape = model.config, f"{positions} × {model.config.d_model}"
    lstm = config.architecture == "lstm"
    span, out = (CENTRE - 140, CENTRE + 140), CENTRE + 158
    if lstm:
        gates, new = "gates i, f, o = σ(W x + U h + b)", "cell c ← f · c + i · tanh(W x + U h + b)"
        state, hook = "state h ← o · tanh(c)", "blocks.{layer}.hook_cell"
    else:
        gates, new = "gates r, z = σ(W x + U h + b)", "new n = tanh(W x + b + r · (U h + b'))"
        state, hook = "state h ← (1 - z) · n + z · h", ""
    some = 3 if lstm else 2
    each = _count(model, "blocks.0.rnn") // (some + 1)
    before = sketch.y - 20
    sketch.y += SPACE
    top = sketch.y
    sketch.line((CENTRE, before), (CENTRE, top))
    sketch.y = sketch.box("mix", gates, f"{some} × {shape}", span=span, numbers=some * each)
    sketch.down(CENTRE)
    sketch.y = sketch.box("mlp", new, shape, span=span, hook=hook, numbers=each)
    sketch.down(CENTRE)
    last = sketch.y
    sketch.y = sketch.box("embed", state, shape, span=span, hook="blocks.{layer}.hook_resid_post")
    low, high = (last + sketch.y) / 2, top + 18
    sketch.line((span[1], low), (out, low), (out, high), (span[1], high))
    sketch.write(out + 10, (low + high) / 2, "next position", "along")
    sketch.line((CENTRE, sketch.y), (CENTRE, sketch.y + 17), arrow=False)


def _draw_ngram(sketch: _Sketch, config: ModelConfig, positions: int, vocabulary: int) -> None:
    sketch.down(CENTRE)
    k = config.order - 1
    window = f"window: the last {k} token{'s' * (k != 1)}" if k else "no window: order 1"
    shape = f"{positions} × {k} × {vocabulary} in one-hot form"
    sketch.y = sketch.box("mix", window, shape, span=WHOLE, hook="blocks.0.hook_resid_pre")
    for length in range(config.order):
        sketch.down(CENTRE)
        name = "counts of no context" if length == 0 else f"counts of the last {length}"
        size = f"allowed, seen: {vocabulary**length:,} × {vocabulary}"
        sketch.y = sketch.box("mlp", name, size, span=WHOLE)
    sketch.down(CENTRE)
    title = "p = (allowed + shorter context's p) / (seen + 1)"
    sketch.y = sketch.box("embed", title, f"{positions} × {vocabulary}", span=WHOLE)


# -- one head, or one layer, step by step ---------------------------------------------------------

WIDE = 336  # pixels of a heatmap, at most
SIGNED, POSITIVE = ["#c8553d", "#f3f1ed", "#0b6e99"], ["#eef3f6", "#0b6e99"]


@dataclass(frozen=True)
class Step:
    """One matrix on the way through a layer.

    Attributes:
        name: as in the lectures.
        formula: how it is made, in TeX.
        values: -inf where masked.
        axes: what its rows and its columns are.
        rows: their labels, each once.
        columns: theirs.
    """

    name: str
    formula: str
    values: Float[Tensor, "row column"]
    axes: tuple[str, str]
    rows: tuple[str, ...]
    columns: tuple[str, ...]

    @property
    def shape(self) -> str:
        """With its numbers, for a caption."""
        return " × ".join(
            f"{n} {axis}" for n, axis in zip(self.values.shape, self.axes, strict=True)
        )


def _places(vocabulary: Vocabulary, tokens: Int[Tensor, "1 pos"]) -> tuple[str, ...]:
    return tuple(f"{i} {t}" for i, t in enumerate(vocabulary.decode(tokens[0].tolist())))


def _numbers(count: int) -> tuple[str, ...]:
    return tuple(str(i) for i in range(count))


@torch.no_grad()
def head_steps(
    model: HookedTransformer, tokens: Int[Tensor, "1 pos"], layer: int, head: int
) -> list[Step]:
    """What one head does on one word, from its queries to z: every step a matrix."""
    config, attn = model.config, f"blocks.{layer}.attn."
    names = ["q", "k", "v", "attn_scores", "pattern", "z"]
    names += ["rot_q", "rot_k"] if config.positions == "rotary" else []
    hooks = {attn + f"hook_{name}": name for name in names}
    _, cache = model.run_with_cache(tokens, names_filter=list(hooks), return_cache_object=False)
    got: dict[str, Tensor] = {}
    for hook, name in hooks.items():
        got[name] = cache[hook][0, head] if name in PAIRED else cache[hook][0, :, head]
    places = _places(model.vocabulary, tokens)
    wide = (places, _numbers(config.d_head))
    steps: list[Step] = []

    def add(name: str, formula: str, values: Tensor) -> None:
        square = name not in ("q", "k", "v", "q turned", "k turned", "z")
        axes = ("query", "key") if square else ("pos", "d_head")
        rows, columns = (places, places) if square else wide
        steps.append(Step(name, formula, values, axes, rows, columns))

    normed = config.norm != "none" and config.norm_placement != "post"
    x, bias = ("norm(x)" if normed else "x"), config.bias
    for name in ("q", "k"):
        one = name.upper()
        add(name, rf"{name} = {_tex(x)} W_{one}" + (f" + b_{one}" if bias else ""), got[name])
    q, k = got["q"], got["k"]
    if config.positions == "rotary":
        q, k = got["rot_q"], got["rot_k"]
        for name, turned in (("q", q), ("k", k)):
            formula = rf"\tilde {name}_i = R_i {name}_i: \text{{pairs of dimensions turn with }} i"
            add(f"{name} turned", formula, turned)
    block = model.blocks[layer]
    assert isinstance(block, Block)
    if block.attn.w_score is None:
        products = q @ k.T * block.attn.scale
    else:
        w = block.attn.w_score[head : head + 1]
        products = additive_scores(q[None, None], k[None, None], w)[0, 0]
    relations = model.relations(tokens)
    formula = _score_formula(config)
    if relations.bias is not None:
        add("products", rf"p_{{ij}} = {formula}", products)
        if config.positions == "alibi":
            slope = float(alibi_slopes(config.n_heads)[head])
            bias_formula = rf"b_{{ij}} = -{slope:.4g}\,|i - j|"
        else:
            bias_formula = r"b_{ij} = \text{table}[\text{bucket}(j - i)]"
        add("bias", bias_formula, relations.bias[head])
        formula = r"p_{ij} + b_{ij}"
    add("scores", rf"s_{{ij}} = {formula}" + r",\ -\infty \text{ where masked}", got["attn_scores"])
    may = relations.may[0, 0] if relations.may is not None else torch.ones_like(products).tril()
    rule = {
        "causal": r"\text{ where } j \le i",
        "strictly_causal": r"\text{ where } j < i",
        "bidirectional": r"\text{ everywhere}",
    }
    add("mask", rf"m_{{ij}} = 1 {rule[config.mask]}", may.to(products))
    add("pattern", r"A = \text{softmax over the keys of } s", got["pattern"])
    add("v", rf"v = {_tex(x)} W_V" + (" + b_V" if bias else ""), got["v"])
    add("z", "z = A v", got["z"])
    return steps


PAIRED = ("attn_scores", "pattern")


def _tex(x: str) -> str:
    return x.replace("norm", r"\text{norm}")


def _score_formula(config: ModelConfig) -> str:
    q, k = (r"\tilde q_i", r"\tilde k_j") if config.positions == "rotary" else ("q_i", "k_j")
    if config.scores == "additive":
        return rf"w \cdot \tanh({q} + {k})"
    root = rf" / \sqrt{{{config.d_head}}}" if config.scores == "scaled_dot" else ""
    return rf"{q} \cdot {k}{root}"


@torch.no_grad()
def layer_steps(model: LanguageModel, tokens: Int[Tensor, "1 pos"], layer: int) -> list[Step]:
    """What a layer of a recurrent or convolutional model holds at every position of a word."""
    block = f"blocks.{layer}."
    formulas = {
        "lstm": {
            "hook_cell": ("cells", r"c_t = f_t c_{t-1} + i_t \tanh(W x_t + U h_{t-1} + b)"),
            "hook_resid_post": ("hidden states", r"h_t = o_t \tanh(c_t)"),
        },
        "gru": {"hook_resid_post": ("hidden states", r"h_t = (1 - z_t) n_t + z_t h_{t-1}")},
        "cnn": {
            "conv.hook_post": ("after the activation", r"a_t = \text{act}(\sum_j K_j x_{t-j} + b)"),
            "hook_conv_out": ("added to the stream", r"y_t = W a_t + b"),
            "hook_resid_post": ("block output", r"\text{the stream after the block}"),
        },
    }[model.config.architecture]
    names = [block + hook for hook in formulas]
    _, cache = model.run_with_cache(tokens, names_filter=names, return_cache_object=False)
    places = _places(model.vocabulary, tokens)
    return [
        Step(
            name,
            formula,
            cache[block + hook][0].T,
            ("d_model", "pos"),
            _numbers(model.config.d_model),
            places,
        )
        for hook, (name, formula) in formulas.items()
    ]


@torch.no_grad()
def window_table(model: HookedNGram, tokens: Int[Tensor, "1 pos"]) -> pd.DataFrame:
    """What the n-gram model knows at every position, from no context to its longest.

    Columns: position, length (of the context), context, token, allowed, seen, probability.
    """
    vocabulary, size = model.vocabulary, len(model.vocabulary)
    ids = tokens[0].tolist()
    rows = []
    for position in range(len(ids)):
        p = torch.full((size,), 0.5)
        padded = [BOS_ID] * (model.config.order - 1) + ids[: position + 1]
        for length in range(model.config.order):
            context = padded[len(padded) - length :]
            row = sum(t * size**i for i, t in enumerate(reversed(context)))
            allowed = model.get_buffer(f"allowed_{length}")[row]
            seen = model.get_buffer(f"seen_{length}")[row]
            p = (allowed + SMOOTHING * p) / (seen + SMOOTHING)
            said = " ".join(vocabulary.decode(context))
            numbers = zip(
                vocabulary.tokens, allowed.tolist(), seen.tolist(), p.tolist(), strict=True
            )
            rows += [(position, length, said, *of) for of in numbers]
    names = ["position", "length", "context", "token", "allowed", "seen", "probability"]
    return pd.DataFrame(rows, columns=names)


def window_step(table: pd.DataFrame, vocabulary: Vocabulary) -> Step:
    """The longest context's probabilities at every position (``window_table``)."""
    last = table[
        (table["length"] == table["length"].max()) & (table["token"] != vocabulary.tokens[BOS_ID])
    ]
    wide = last.pivot(index="position", columns="token", values="probability")
    columns = tuple(last["token"].unique())
    contexts = last.drop_duplicates("position")["context"]
    rows = tuple(f"{i}: {context}" for i, context in enumerate(contexts))
    values = torch.tensor(wide[list(columns)].to_numpy())
    formula = r"p_k = (\text{allowed}_k + p_{k-1}) / (\text{seen}_k + 1)"
    return Step("probabilities", formula, values, ("window", "next token"), rows, columns)


def step_chart(step: Step) -> ChartType:
    """A heatmap with numbers where there is room; masked cells are grey."""
    values = step.values.double().numpy()
    finite = np.isfinite(values)
    count, across = values.shape
    top = float(np.abs(values[finite]).max(initial=0.0)) or 1.0
    unsigned = step.name in ("pattern", "mask", "probabilities")
    top = 1.0 if unsigned else top
    width, height = min(34, WIDE // across), min(26, WIDE // count)
    digits = 2 if width >= 28 else 1
    table = pd.DataFrame(
        {
            "row": np.repeat(step.rows, across),
            "column": np.tile(step.columns, count),
            "value": np.where(finite, values, 0.0).ravel(),
            "masked": ~finite.ravel(),
            "strong": (np.where(finite, np.abs(values), 0.0) / top > 0.55).ravel(),
            "text": [
                _short(v, 0 if step.name == "mask" else digits) if f else "-∞"
                for v, f in zip(values.ravel(), finite.ravel(), strict=True)
            ],
        }
    )
    named = alt.Axis(labelOverlap=False, labelFontSize=9 if height >= 10 else 7, ticks=False)
    thin = alt.Axis(labelOverlap=True, labelFontSize=9, ticks=False)
    row_axis = thin if step.axes[0] in ("d_model", "d_head") else named
    column_axis = thin if step.axes[1] in ("d_model", "d_head") else named
    base = alt.Chart(table).encode(
        x=alt.X("column:N", sort=list(step.columns), title=step.axes[1], axis=column_axis),
        y=alt.Y("row:N", sort=list(step.rows), title=step.axes[0], axis=row_axis),
    )
    scale = (
        alt.Scale(domain=[0, top], range=POSITIVE)
        if unsigned
        else alt.Scale(domain=[-top, 0, top], range=SIGNED)
    )
    tips = [
        alt.Tooltip("row:N", title=step.axes[0]),
        alt.Tooltip("column:N", title=step.axes[1]),
        alt.Tooltip("value:Q", title=step.name, format=".4f"),
    ]
    cells = base.transform_filter("!datum.masked").mark_rect()
    masked = base.transform_filter("datum.masked").mark_rect(fill=INK, fillOpacity=0.35)
    colour = alt.Color("value:Q", legend=None, scale=scale)
    layers = [
        cells.encode(color=colour, tooltip=tips),
        masked.encode(tooltip=[*tips[:2], "text:N"]),
    ]
    if width >= 20 and height >= 12:
        number = base.mark_text(fontSize=9, baseline="middle")
        for strong, look in (("!datum.strong && !datum.masked", "#222"), ("datum.strong", "white")):
            layers.append(
                number.transform_filter(strong).encode(text="text:N", color=alt.value(look))
            )
        grey = number.transform_filter("datum.masked")
        layers.append(grey.encode(text="text:N", color=alt.value(INK)))
    return alt.layer(*layers).properties(width=width * across, height=height * count)


def _short(value: float, digits: int) -> str:
    """A number without its leading zero: .25, -.3; one that rounds to 0 has no sign."""
    rounded = round(value, digits) or 0.0
    return re.sub(r"^(-?)0\.", r"\1.", f"{rounded:.{digits}f}")


# -- where the compute goes -----------------------------------------------------------------------

LENGTHS = (16, 32, 64, 128, 256, 512, 1024)
REST = "everything else"


@dataclass(frozen=True)
class Part:
    """A share of the forward pass: of some modules, without some inside them.

    Attributes:
        name: of the part.
        order: its growth.
        linear: floating-point operations per position, two for a multiplication with its addition.
        square: per pair of positions.
        modules: whose work it is.
        without: modules inside them that are other parts.
    """

    name: str
    order: str
    linear: int
    square: int
    modules: tuple[str, ...]
    without: tuple[str, ...] = ()


def parts(config: ModelConfig, d_vocab: int) -> list[Part]:
    """The parts with matrix products; norms, sums, activations and the softmax are left out."""
    layers, d, blocks = config.n_layers, config.d_model, range(config.n_layers)
    found: list[Part] = []
    if config.architecture == "transformer":
        inner = config.n_heads * config.d_head
        maps = tuple(f"blocks.{i}.attn.{name}" for i in blocks for name in "qkvo")
        attn = tuple(f"blocks.{i}.attn" for i in blocks)
        found += [
            Part("attention: q, k, v, o", "O(N D²)", 8 * d * inner * layers, 0, maps),
            Part("attention: pairs", "O(N² D)", 0, 4 * inner * layers, attn, maps),
        ]
        if config.mlp != "none":
            flops = (6 if config.mlp == "gated" else 4) * d * config.d_mlp * layers
            mlps = tuple(f"blocks.{i}.mlp" for i in blocks)
            found.append(Part("MLP", "O(N D²)", flops, 0, mlps))
    elif config.architecture in ("lstm", "gru"):
        gates = 4 if config.architecture == "lstm" else 3
        modules = tuple(f"blocks.{i}" for i in blocks)
        found.append(Part("recurrence", "O(N D²)", 4 * gates * d * d * layers, 0, modules))
    elif config.architecture == "cnn":
        kernels = tuple(f"blocks.{i}.conv.kernel" for i in blocks)
        outs = tuple(f"blocks.{i}.conv.out" for i in blocks)
        flops = 2 * config.kernel_size * d * d * layers
        found.append(Part("convolution", "O(k N D²)", flops, 0, kernels))
        found.append(Part("W_out", "O(N D²)", 2 * d * d * layers, 0, outs))
    if config.architecture != "ngram":
        found.append(Part("unembedding", "O(N D V)", 2 * d * d_vocab, 0, ("unembed",)))
    return found


def lengths_of(config: ModelConfig) -> tuple[int, ...]:
    """The lengths that the model can read."""
    return tuple(n for n in LENGTHS if config.positions != "learned" or n <= config.n_ctx)


def predicted(model: LanguageModel, lengths: Iterable[int]) -> pd.DataFrame:
    """What the formulas say: columns part, order, positions, flops."""
    rows = [
        (part.name, part.order, n, part.linear * n + part.square * n * n)
        for n in lengths
        for part in parts(model.config, len(model.vocabulary))
    ]
    return pd.DataFrame(rows, columns=["part", "order", "positions", "flops"])


def example_tokens(model: LanguageModel, positions: int) -> Int[Tensor, "1 pos"]:
    """BOS and symbols in turn."""
    symbols = model.to_tokens(" ".join(model.vocabulary.symbols))[0, 1:]
    body = symbols.repeat(positions // len(symbols) + 1)[: positions - 1]
    return torch.cat([torch.tensor([BOS_ID]), body])[None]


@torch.no_grad()
def counted(model: LanguageModel, positions: int) -> pd.DataFrame:
    """What PyTorch's counter says of the same parts: columns part, positions, counted.

    Fused kernels are invisible to it on a CPU, so attention and an LSTM go their plain ways here.
    """
    plain = [n for n in model.hook_dict if n.endswith(("attn.hook_pattern", "hook_resid_post"))]
    with (
        model.hooks(fwd_hooks=[(name, _let_pass) for name in plain]),
        FlopCounterMode(display=False) as counter,
    ):
        model(example_tokens(model, positions))
    root = type(model).__name__
    of = {name: sum(ops.values()) for name, ops in counter.get_flop_counts().items()}
    rows = [
        (part.name, positions, int(_difference(part, lambda name: of.get(f"{root}.{name}", 0))))
        for part in parts(model.config, len(model.vocabulary))
    ]
    return pd.DataFrame(rows, columns=["part", "positions", "counted"])


def _let_pass(x: Tensor, hook: object) -> Tensor:
    return x


def _difference(part: Part, of: Callable[[str], float]) -> float:
    return sum(map(of, part.modules)) - sum(map(of, part.without))


@torch.no_grad()
def measured(model: LanguageModel, positions: int, repeats: int = 5) -> pd.DataFrame:
    """Seconds of one word's forward pass by part, the median of some: part, positions, seconds.

    The clock stops at the borders of modules; the table ends with everything else.
    """
    found = parts(model.config, len(model.vocabulary))
    names = {name for part in found for name in (*part.modules, *part.without)}
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
    seconds: dict[str, list[float]] = {name: [] for name in (*(p.name for p in found), REST)}
    try:
        for turn in range(repeats + 1):
            start = time.perf_counter()
            model(tokens)
            whole = time.perf_counter() - start
            if turn == 0:
                continue  # the first pass warms up
            own = {part.name: max(0.0, _difference(part, taken.__getitem__)) for part in found}
            for name, value in (own | {REST: max(0.0, whole - sum(own.values()))}).items():
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


PALETTE = ["#0b6e99", "#c8553d", "#2f855a", "#8a6bbf", "#9aa3ab"]


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
    """How the time, or before it is measured the operations, divides among the parts."""
    value = "seconds" if "seconds" in table else "flops"
    return (
        alt.Chart(table)
        .mark_bar()
        .encode(
            x=alt.X("positions:O", title="positions N").axis(labelAngle=0),
            y=alt.Y(f"{value}:Q", title="share of " + ("time" if value == "seconds" else value))
            .stack("normalize")
            .axis(format="%"),
            color=_part_colour(table),
            tooltip=list(table.columns),
        )
        .properties(width=185, height=200)
    )


def _part_colour(table: pd.DataFrame) -> alt.Color:
    names = list(table["part"].unique())
    names = [name for name in names if name != REST] + [REST] * (REST in names)
    colours = [PALETTE[-1] if n == REST else PALETTE[i % 4] for i, n in enumerate(names)]
    return (
        alt.Color("part:N", title=None)
        .scale(domain=names, range=colours)
        .legend(orient="top", columns=2, labelLimit=200, labelFontSize=10, symbolSize=50)
    )


def cost_lines(config: ModelConfig, positions: int) -> pd.DataFrame:
    """The lecture's lines for a layer of this width, and its numbers for so many positions.

    Columns: layer, work, sequential steps, path length (between the ends of a word); the numbers
    leave out constant factors.
    """
    n, d, k = positions, config.d_model, config.kernel_size
    path = -(-n // k)
    rows = [
        ("self-attention", f"O(N² D) = {n * n * d:,}", "O(1)", "O(1)"),
        ("recurrent", f"O(N D²) = {n * d * d:,}", f"O(N) = {n}", f"O(N) = {n}"),
        (f"convolution, k = {k}", f"O(k N D²) = {k * n * d * d:,}", "O(1)", f"O(N/k) = {path}"),
    ]
    return pd.DataFrame(rows, columns=["layer", "work", "sequential steps", "path length"])
