"""The steps of one head, or of one layer, on a word: each a matrix beside its formula."""

from __future__ import annotations

import re
from dataclasses import dataclass

import altair as alt
import numpy as np
import pandas as pd
import torch
from altair.typing import ChartType
from jaxtyping import Float, Int
from torch import Tensor

from analyses.charts.marks import encoded
from analyses.charts.sketch import INK
from analyses.charts.theme import AGAINST, TRAINED
from models.base import LanguageModel
from models.languages import BOS_ID, Vocabulary
from models.model_config import ModelConfig
from models.rivals.ngram import SMOOTHING, HookedNGram
from models.transformer.attention import additive_scores
from models.transformer.block import Block
from models.transformer.linear import features
from models.transformer.model import HookedTransformer
from models.transformer.positions import alibi_slopes

PAIRED = ("attn_scores", "pattern")  # [query, key]; the other activations are [pos, width]
THIN = ("d_model", "d_head", "d_value")
WIDE = 336  # pixels of a heatmap, at most
SIGNED, POSITIVE = [AGAINST, "#f3f1ed", TRAINED], ["#eef3f6", TRAINED]


@dataclass(frozen=True)
class Step:
    """One matrix on the way through a layer.

    Attributes:
        name: the name in the lectures.
        formula: the formula of the matrix, in TeX.
        values: the matrix, -inf where masked.
        axes: the meanings of the rows and of the columns.
        rows: the labels of the rows, each once.
        columns: the labels of the columns, each once.
    """

    name: str
    formula: str
    values: Float[Tensor, "row column"]
    axes: tuple[str, str]
    rows: tuple[str, ...]
    columns: tuple[str, ...]

    @property
    def shape(self) -> str:
        """The shape in words, for a caption: "5 pos × 8 d_head"."""
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
    """The steps of one head on one word, from its queries to z: every step a matrix."""
    config, attn = model.config, f"blocks.{layer}.attn."
    names = ["q", "k", "v", "attn_scores", "pattern", "z"]
    names += ["rot_q", "rot_k"] if config.positions == "rotary" else []
    averages = head < config.counting.averaging_heads
    counts = averages and config.counting.counters
    hooks = {attn + f"hook_{name}": name for name in names}
    _, cache = model.run_with_cache(tokens, names_filter=list(hooks), return_cache_object=False)
    got: dict[str, Tensor] = {}
    for hook, name in hooks.items():
        got[name] = cache[hook][0, head] if name in PAIRED else cache[hook][0, :, head]
    places = _places(model.vocabulary, tokens)
    steps: list[Step] = []

    def add(name: str, formula: str, values: Tensor) -> None:
        looks = ("q", "k", "q normed", "k normed", "q turned", "k turned")
        axes, columns = ("query", "key"), places
        if name in (*looks, "v", "average", "sum", "z"):
            read = config.value_width and name not in looks
            axes, columns = ("pos", "d_value" if read else "d_head"), _numbers(values.shape[1])
        steps.append(Step(name, formula, values, axes, places, columns))

    normed = config.norm != "none" and config.norm_placement != "post"
    x = r"\text{norm}(x)" if normed else "x"

    def mapped(name: str) -> None:
        if averages and name in "qk":
            add(name, rf"{name} = 0\text{{: an averaging head looks for nothing}}", got[name])
            return
        formula = f"{x} W_{name.upper()}" + (f" + b_{name.upper()}" if config.bias else "")
        if config.scores == "identity" and name in "qk":
            formula = rf"{x}_{{\text{{slice }} {head}}}"
        if counts and name == "v":
            formula = rf"\text{{step}}({formula}) \in \{{-1, 0, 1\}}"
        add(name, f"{name} = {formula}", got[name])

    mapped("q")
    mapped("k")
    q, k = got["q"], got["k"]
    block = model.blocks[layer]
    assert isinstance(block, Block)
    if block.attn.q_norm is not None and block.attn.k_norm is not None and not averages:
        q, k = block.attn.q_norm(q), block.attn.k_norm(k)
        for name, values in (("q", q), ("k", k)):
            add(f"{name} normed", rf"\hat {name} = \text{{norm}}({name})", values)
    if config.positions == "rotary":
        q, k = got["rot_q"], got["rot_k"]
        for name, turned in (("q", q), ("k", k)):
            formula = rf"\tilde {name}_i = R_i {name}_i: \text{{pairs of dimensions turn with }} i"
            add(f"{name} turned", formula, turned)
    w = block.attn.W_score
    if w is not None:
        products = additive_scores(q[None, None], k[None, None], w[head : head + 1])[0, 0]
    elif config.scores == "linear":
        products = (features(q) @ features(k).T).log()
    else:
        products = q @ k.T * block.attn.scale
    relations = model.relations(tokens)
    formula = _score_formula(config)
    if relations.bias is not None:
        add("products", rf"p_{{ij}} = {formula}", products)
        if averages:
            bias_formula = r"b_{ij} = 0"
        elif config.positions == "alibi":
            slopes = alibi_slopes(config.learned_heads)
            slope = float(slopes[head - config.counting.averaging_heads])
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
    near = rf",\ i - j < {config.window}" if config.window else ""
    add("mask", rf"m_{{ij}} = 1 {rule[config.mask]}{near}", may.to(products))
    add("pattern", r"A = \text{softmax over the keys of } s", got["pattern"])
    mapped("v")
    if config.counting.head_norm:
        add("average", "m = A v", got["pattern"] @ got["v"])
        add("z", r"z = m / \text{rms}(m)", got["z"])
    elif counts:
        add("sum", r"s_i = \textstyle\sum_j m_{ij} v_j", may.to(products) @ got["v"])
        add("z", r"z = s / \sqrt{1 + s^2}", got["z"])
    else:
        add("z", "z = A v", got["z"])
    return steps


def _score_formula(config: ModelConfig) -> str:
    sign = r"\tilde " if config.positions == "rotary" else ""
    sign = sign or (r"\hat " if config.qk_norm != "none" else "")
    q, k = f"{sign}q_i", f"{sign}k_j"
    if config.scores == "additive":
        return rf"w \cdot \tanh({q} + {k})"
    if config.scores == "linear":
        return rf"\log(\phi({q}) \cdot \phi({k})),\ \phi(x) = \text{{elu}}(x) + 1"
    root = rf" / \sqrt{{{config.d_head}}}" if config.scores in ("scaled_dot", "identity") else ""
    return rf"{q} \cdot {k}{root}"


@torch.no_grad()
def layer_steps(model: LanguageModel, tokens: Int[Tensor, "1 pos"], layer: int) -> list[Step]:
    """The states of a layer of a recurrent or convolutional model at every position of a word."""
    block = f"blocks.{layer}."
    formulas = model.config.family.formulas
    names = [block + hook for hook, *_ in formulas]
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
        for hook, name, formula in formulas
    ]


@torch.no_grad()
def window_table(model: HookedNGram, tokens: Int[Tensor, "1 pos"]) -> pd.DataFrame:
    """The n-gram model's probabilities at every position, from no context to the longest.

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
            text = " ".join(vocabulary.decode(context))
            numbers = zip(
                vocabulary.tokens, allowed.tolist(), seen.tolist(), p.tolist(), strict=True
            )
            rows += [(position, length, text, *of) for of in numbers]
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
    named = alt.Axis(labelOverlap=height < 14, labelFontSize=12, ticks=False)
    thin = alt.Axis(labelOverlap=True, labelFontSize=12, ticks=False)
    row_axis = thin if step.axes[0] in THIN else named
    column_axis = thin if step.axes[1] in THIN else named
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
        encoded(cells, color=colour, tooltip=tips),
        encoded(masked, tooltip=[*tips[:2], "text:N"]),
    ]
    if width >= 22 and height >= 14:
        number = base.mark_text(fontSize=12, baseline="middle")
        for strong, look in (("!datum.strong && !datum.masked", "#222"), ("datum.strong", "white")):
            number_of = number.transform_filter(strong)
            layers.append(encoded(number_of, text="text:N", color=alt.value(look)))
        grey = number.transform_filter("datum.masked")
        layers.append(encoded(grey, text="text:N", color=alt.value(INK)))
    return alt.layer(*layers).properties(width=width * across, height=height * count)


def _short(value: float, digits: int) -> str:
    """A number without its leading zero: .25, -.3; one that rounds to 0 has no sign."""
    rounded = round(value, digits) or 0.0
    return re.sub(r"^(-?)0\.", r"\1.", f"{rounded:.{digits}f}")
