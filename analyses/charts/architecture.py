"""The anatomy of a model: its hooks, its parameters, and its drawing with all shapes."""

from __future__ import annotations

import re
from collections.abc import Callable

import pandas as pd
from altair.typing import ChartType

from analyses.charts.sketch import (
    CENTRE,
    HALVES,
    LEFT,
    MIDDLE,
    RIGHT,
    SPACE,
    STREAM,
    THIRD,
    THIRDS,
    WHOLE,
    Sketch,
)
from models.base import LanguageModel
from models.choices import ABSOLUTE
from models.model_config import ModelConfig

# -- what there is: hooks and parameters ----------------------------------------------------------


def hooks(config: ModelConfig) -> pd.DataFrame:
    """The table of hooks: columns name, shape, meaning."""
    rows = [(row.name, " × ".join(row.shape), row.meaning) for row in config.hook_rows]
    return pd.DataFrame(rows, columns=["name", "shape", "meaning"])


def parameters(model: LanguageModel) -> pd.DataFrame:
    """The weights (an n-gram model's counts): columns name, shape, times, numbers (in all)."""
    counts: dict[tuple[str, str], int] = {}
    sizes: dict[tuple[str, str], int] = {}
    for name, weight in model.state_dict().items():
        shape = " × ".join(f"{size:,}" for size in weight.shape)
        key = (re.sub(r"blocks\.\d+", "blocks.{layer}", name), shape)
        counts[key] = counts.get(key, 0) + 1
        sizes[key] = sizes.get(key, 0) + weight.numel()
    rows = [(*key, counts[key], sizes[key]) for key in counts]
    return pd.DataFrame(rows, columns=["name", "shape", "times", "numbers"])


# -- the drawing ---------------------------------------------------------------------------------


def drawing(model: LanguageModel, positions: int) -> ChartType:
    """The architecture from the tokens at the top to the logits at the bottom.

    Args:
        positions: number of positions of the word whose shapes are written, with BOS.
    """
    config, sketch = model.config, Sketch(model, positions)
    sketch.box("token", "tokens", f"{positions}, the first is <bos>", span=WHOLE)
    if config.family.tabular:
        _draw_ngram(sketch)
    elif config.family.two_sided:
        _draw_two_sides(sketch)
    elif config.family.whole:
        _draw_whole(sketch)
    else:
        _draw_layers(sketch)
    sketch.down(CENTRE)
    where = "<bos>" if config.readout == "bos" else "the last symbol"
    sketch.write(CENTRE, sketch.y + 8, model.reading.outcome.format(at=where), "plain")
    sketch.y += 16
    return sketch.chart()


_NORMS = {"layer": "LayerNorm", "rms": "RMSNorm", "none": ""}


def _draw_layers(sketch: Sketch) -> None:
    """Embedding, one layer in a frame that says how many there are, and unembedding."""
    config, stream = sketch.model.config, sketch.stream
    branches, residual = config.family.residual, config.family.residual and config.residual
    way = STREAM if branches else CENTRE
    sketch.down(way)
    sketch.box("embed", "embedding", stream, span=WHOLE, hook="hook_embed", weights="embed")
    top = sketch.y
    if config.positions in ABSOLUTE:
        sketch.y += SPACE
        start, name = sketch.y, f"{config.positions} positions"
        sketch.box("position", name, stream, hook="hook_pos_embed", weights="pos_embed")
        middle = (start + sketch.y) / 2
        sketch.line((LEFT, middle), (STREAM + 9, middle))
        sketch.plus(STREAM, middle, "+" if config.d_embed == config.d_model else ",")
    sketch.y += 12
    frame = sketch.y
    sketch.y += 8
    if branches and not residual:
        sketch.line((STREAM, top), (STREAM, sketch.y), arrow=False)
    if config.family.attends:
        _draw_block(sketch)
    elif branches:
        _branch(sketch, "ln1", lambda: _draw_boxes(sketch))
    elif config.family.recurrent:
        _draw_states(sketch)
    sketch.y += 12
    layers = "1 layer" if config.n_layers == 1 else f"× {config.n_layers} layers"
    sketch.frame(frame, sketch.y, layers)
    sketch.y += 4
    if residual:
        sketch.line((STREAM, top), (STREAM, sketch.y + SPACE - 5), arrow=False, wide=True)
        sketch.write(14, frame + 80, f"residual stream  {stream}", "along")
    elif branches:
        sketch.line((STREAM, sketch.y - 16), (STREAM, sketch.y), arrow=False)
    sketch.down(way)
    if branches and config.norm != "none" and config.norm_placement != "post":
        name, hook = f"final {_NORMS[config.norm]}, no weights", "ln_final.hook_normalized"
        sketch.box("norm", name, stream, span=WHOLE, hook=hook)
        sketch.down(way)
    shape = f"{sketch.positions} × {len(sketch.model.vocabulary)}"
    sketch.box("embed", "unembedding", shape, span=WHOLE, weights="unembed")


def _branch(
    sketch: Sketch, norm: str, part: Callable[[], None], entries: tuple[float, ...] = (MIDDLE,)
) -> None:
    """A part beside the stream, and its norms where the configuration puts them.

    Args:
        norm: the name inside the block, "ln1" or "ln2".
        part: draws from ``sketch.y`` on, where arrows end at the entries.
        entries: the places where the part is entered.
    """
    config = sketch.model.config
    normed = config.norm != "none"
    if not config.residual:
        sketch.line((STREAM, sketch.y), (STREAM, sketch.y + 12), arrow=False)

    def box(name: str, span: tuple[float, float] = (LEFT, RIGHT)) -> None:
        title, hook = _NORMS[config.norm], f"blocks.{{layer}}.{name}.hook_normalized"
        weights = f"blocks.0.{name}"
        sketch.box("norm", title, sketch.stream, span=span, hook=hook, weights=weights)

    sketch.y += 12
    start: float = STREAM
    if normed and config.norm_placement != "post":
        sketch.line((STREAM, sketch.y), (MIDDLE, sketch.y), (MIDDLE, sketch.y + SPACE))
        sketch.y += SPACE
        box(norm)
        start = MIDDLE
        if len(entries) > 1:
            sketch.line((MIDDLE, sketch.y), (MIDDLE, sketch.y + 8), arrow=False)
            sketch.y += 8
    ends = (min(start, *entries), max(start, *entries))
    if ends[0] < ends[1]:
        sketch.line((ends[0], sketch.y), (ends[1], sketch.y), arrow=False)
    sketch.down(*entries)
    part()
    if config.norm_placement == "sandwich":
        sketch.down(MIDDLE)
        box(f"{norm}_post")
    sketch.back(added=config.residual)
    if normed and config.norm_placement == "post":
        sketch.y += 9 if config.residual else 0
        sketch.down(STREAM)
        box(norm, WHOLE)


def _draw_block(sketch: Sketch) -> None:
    config, start, before = sketch.model.config, sketch.y + 12, len(sketch.boxes)
    _branch(sketch, "ln1", lambda: _draw_attention(sketch), THIRDS)
    entries = HALVES if config.mlp == "gated" else (MIDDLE,)
    if config.parallel:  # the MLP reads what the heads read
        norm, way = sketch.boxes[before], (STREAM + LEFT) / 2
        normed = config.norm != "none"
        read = (LEFT, (norm["y"] + norm["y2"]) / 2) if normed else (STREAM, start)
        sketch.y += 12
        end = max(entries)
        sketch.line(read, (way, read[1]), (way, sketch.y), (end, sketch.y), arrow=False)
        sketch.down(*entries)
        _draw_mlp(sketch)
        sketch.back()
    elif config.mlp != "none":
        _branch(sketch, "ln2", lambda: _draw_mlp(sketch), entries)


def _draw_attention(sketch: Sketch) -> None:
    config, attn = sketch.model.config, "blocks.{layer}.attn."
    heads = f"{sketch.positions} × {config.n_heads} × {config.d_head}"
    read = f"{sketch.positions} × {config.n_heads} × {config.d_value}"
    pairs = f"{config.n_heads} × {sketch.positions} × {sketch.positions}"
    spans = [(x - THIRD / 2, x + THIRD / 2) for x in THIRDS]
    three = zip(spans, "qkv", strict=True)
    q, k, v = ((span, x, f"{attn}hook_{x}", f"blocks.0.attn.{x}") for span, x in three)
    top = sketch.y
    sketch.row("mix", read, v)
    values, sketch.y = sketch.y, top
    sketch.row("mix", heads, q, k)
    if config.qk_norm != "none":
        sketch.down(*THIRDS[:2])
        title, names = _NORMS[config.qk_norm], ("q_norm", "k_norm")
        two = zip(spans[:2], names, strict=True)
        norms = (
            (span, title, f"{attn}{x}.hook_normalized", f"blocks.0.attn.{x}") for span, x in two
        )
        sketch.row("norm", heads, *norms)
    if config.positions == "rotary":
        sketch.down(*THIRDS[:2])
        two = zip(spans[:2], "qk", strict=True)
        turned = ((span, "turned", f"{attn}hook_rot_{x}", "") for span, x in two)
        sketch.row("position", "by position", *turned)
    pair = (LEFT, spans[1][1])
    middle = sum(pair) / 2
    sketch.down(*THIRDS[:2])
    root = "√" + str(config.d_head)
    formula = {"scaled_dot": f"q·k / {root}", "dot": "q·k", "additive": "w·tanh(q + k)"}
    formula |= {"linear": "log f(q)·f(k)", "identity": f"q·k / {root}"}
    title = f"scores {formula[config.scores]}"
    sketch.box("mix", title, pairs, span=pair, weights="blocks.0.attn.w_score")
    if config.positions == "alibi":
        sketch.down(middle)
        sketch.box("position", "+ ALiBi", "- slope × distance", span=pair)
    elif config.positions == "t5":
        sketch.down(middle)
        sketch.box("position", "+ T5 bias", "by distance, shared", span=pair, weights="relative")
    sketch.down(middle)
    sketch.mask(config.mask, pair[1] - 6, sketch.y + 5.5)
    name, hook = config.mask.replace("_", " "), attn + "hook_attn_scores"
    name += f", the last {config.window}" if config.window else ""
    sketch.box("mix", name, "mask, else -∞", span=pair, hook=hook)
    sketch.down(middle)
    title = "pattern: softmax"
    if config.counting.averaging_heads:
        title += f", even in {config.counting.averaging_heads}"
    sketch.box("mix", title, pairs, span=pair, hook=attn + "hook_pattern")
    sketch.line((THIRDS[2], values), (THIRDS[2], sketch.y + SPACE))
    sketch.down(middle)
    title = "z = norm(pattern v)" if config.counting.head_norm else "z = pattern v"
    if config.counting.counters:
        title += f", {config.counting.averaging_heads} count"
    sketch.box("mix", title, read, hook=attn + "hook_z")
    sketch.down(MIDDLE)
    title = f"W_O, sum of {config.n_heads} heads" if config.n_heads > 1 else "W_O, of 1 head"
    hook = "blocks.{layer}.hook_attn_out"
    sketch.box("mix", title, sketch.stream, hook=hook, weights="blocks.0.attn.o")


def _draw_mlp(sketch: Sketch) -> None:
    config, mlp = sketch.model.config, "blocks.{layer}.mlp."
    hidden = f"{sketch.positions} × {config.d_mlp}"
    title: str = config.act_fn
    if config.mlp == "gated":
        left, right = (LEFT, MIDDLE - 8), (MIDDLE + 8, RIGHT)
        gate = (left, "W_gate", mlp + "hook_pre", "blocks.0.mlp.fc_gate")
        linear = (right, "W_in", mlp + "hook_pre_linear", "blocks.0.mlp.fc_in")
        sketch.row("mlp", hidden, gate, linear)
        sketch.down(*HALVES)
        title = f"{title}(x W_gate) · x W_in"
    else:
        hook = mlp + "hook_pre"
        sketch.box("mlp", "W_in", hidden, hook=hook, weights="blocks.0.mlp.fc_in")
        sketch.down(MIDDLE)
    sketch.box("mlp", title, hidden, hook=mlp + "hook_post")
    sketch.down(MIDDLE)
    hook = "blocks.{layer}.hook_mlp_out"
    sketch.box("mlp", "W_out", sketch.stream, hook=hook, weights="blocks.0.mlp.fc_out")


def _draw_boxes(sketch: Sketch) -> None:
    config = sketch.model.config
    for number, box in enumerate(config.family.boxes):
        if number:
            sketch.down(MIDDLE)
        hook, weights = f"blocks.{{layer}}.{box.hook}", box.module and f"blocks.0.{box.module}"
        text = box.text.format(config=config)
        sketch.box(box.kind, text, sketch.stream, hook=hook, weights=weights)


def _draw_states(sketch: Sketch) -> None:
    """One layer: the states go round on the right, from one position to the next."""
    boxes = sketch.model.config.family.boxes
    span, out = (CENTRE - 140, CENTRE + 140), CENTRE + 158
    size = sketch.count("blocks.0.rnn") // sum(box.maps for box in boxes)
    before = sketch.y - 20
    sketch.y += SPACE
    top = last = sketch.y
    sketch.line((CENTRE, before), (CENTRE, top))
    for number, box in enumerate(boxes):
        if number:
            sketch.down(CENTRE)
        last, hook = sketch.y, box.hook and f"blocks.{{layer}}.{box.hook}"
        shape = f"{box.maps} × {sketch.stream}" if box.maps > 1 else sketch.stream
        sketch.box(box.kind, box.text, shape, span=span, hook=hook, weights=box.maps * size)
    low, high = (last + sketch.y) / 2, top + 18
    sketch.line((span[1], low), (out, low), (out, high), (span[1], high))
    sketch.write(out + 10, (low + high) / 2, "next position", "along")
    sketch.line((CENTRE, sketch.y), (CENTRE, sketch.y + 17), arrow=False)


def _draw_ngram(sketch: Sketch) -> None:
    order, positions = sketch.model.config.order, sketch.positions
    vocabulary, k = len(sketch.model.vocabulary), order - 1
    sketch.down(CENTRE)
    window = f"window: the last {k} token{'s' * (k != 1)}" if k else "no window: order 1"
    shape = f"{positions} × {k} × {vocabulary} in one-hot form"
    sketch.box("mix", window, shape, span=WHOLE, hook="blocks.0.hook_resid_pre")
    for length in range(order):
        sketch.down(CENTRE)
        name = "counts of no context" if length == 0 else f"counts of the last {length}"
        size = f"allowed, seen: {vocabulary**length:,} × {vocabulary}"
        sketch.box("mlp", name, size, span=WHOLE)
    sketch.down(CENTRE)
    title = "p = (allowed + shorter context's p) / (seen + 1)"
    sketch.box("embed", title, f"{positions} × {vocabulary}", span=WHOLE)


def _draw_whole(sketch: Sketch) -> None:
    """The layers of a feedforward network; those after the first are one box."""
    config, vocabulary = sketch.model.config, len(sketch.model.vocabulary)
    sketch.down(CENTRE)
    shape = f"{config.n_ctx - 1} × {vocabulary}"
    sketch.box("embed", "one-hot symbols, side by side", shape, span=WHOLE, hook="hook_embed")
    first = sketch.count("blocks.0")
    others = config.n_layers - 1
    titles = ["hidden layer", *([f"{others} more hidden layers"] if others else [])]
    for title, weights in zip(titles, (first, sketch.count("blocks") - first), strict=False):
        sketch.down(CENTRE)
        hook = "blocks.{layer}.hook_resid_post"
        name = f"{title}, {config.act_fn}"
        sketch.box("mlp", name, f"{config.d_mlp}", span=WHOLE, hook=hook, weights=weights)
    sketch.down(CENTRE)
    sketch.box("embed", "unembedding", f"{vocabulary}", span=WHOLE, weights="unembed")


def _draw_two_sides(sketch: Sketch) -> None:
    """The encoder, and below it the decoder; each layer of a side in a frame of its own."""
    config, stream = sketch.model.config, sketch.stream
    first, recurrent = config.encoder_layers, config.family.recurrent
    normed = not recurrent and config.norm != "none" and config.norm_placement != "post"
    sketch.down(CENTRE)
    title = "embedding, of source and target"
    sketch.box("embed", title, stream, span=WHOLE, hook="hook_embed", weights="embed")
    if config.positions in ABSOLUTE:
        sketch.down(CENTRE)
        table = sketch.count("pos_embed") + sketch.count("decoder_pos_embed")
        name = f"+ {config.positions} positions, each side from 0"
        sketch.box("position", name, stream, span=WHOLE, hook="hook_pos_embed", weights=table)
    reading = "LSTM over the source" if recurrent else "attention over the source, both ways"
    writing = "LSTM over the target so far" if recurrent else "attention over the target so far"
    sides = (("encoder", first, 0, reading), ("decoder", config.n_layers - first, first, writing))
    for side, layers, number, title in sides:
        block = f"blocks.{{{side}}}."
        sketch.down(CENTRE)
        sketch.y += 12
        frame = sketch.y
        sketch.y += 20
        part, hook = ("rnn", "hook_cell") if recurrent else ("attn", "attn.hook_pattern")
        weights = f"blocks.{number}.{part}"
        sketch.box("mix", title, stream, span=WHOLE, hook=block + hook, weights=weights)
        across = f"blocks.{config.n_layers - 1}.cross_attn"
        if side == "decoder" and sketch.count(across):
            sketch.down(CENTRE)
            hook = block + "cross_attn.hook_pattern"
            name = "cross-attention to the encoder's last stream"
            sketch.box("mix", name, stream, span=WHOLE, hook=hook, weights=across)
        if not recurrent and config.mlp != "none":
            sketch.down(CENTRE)
            mlp = f"blocks.{number}.mlp"
            sketch.box("mlp", "MLP", stream, span=WHOLE, hook=block + "hook_mlp_out", weights=mlp)
        sketch.y += 12
        of = "1 layer" if layers == 1 else f"× {layers} layers"
        sketch.frame(frame, sketch.y, f"{side}: {of}")
        sketch.y += 4
        if normed:
            sketch.down(CENTRE)
            norm = "encoder_ln_final" if side == "encoder" else "ln_final"
            name = f"final {_NORMS[config.norm]}, no weights"
            sketch.box("norm", name, stream, span=WHOLE, hook=f"{norm}.hook_normalized")
    if recurrent:
        sketch.write(
            CENTRE, sketch.y + 8, "the decoder starts from the encoder's last state", "plain"
        )
        sketch.y += 12
    sketch.down(CENTRE)
    shape = f"{sketch.positions} × {len(sketch.model.vocabulary)}"
    sketch.box("embed", "unembedding", shape, span=WHOLE, weights="unembed")
