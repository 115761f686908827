"""A model configuration: frozen, JSON-able, the parts and sizes that are built."""

from __future__ import annotations

from dataclasses import dataclass, fields
from functools import cache
from operator import attrgetter
from typing import Annotated, Any

from annotated_types import Interval
from tyro.conf import arg
from tyro.extras import literal_type_from_choices

from models.checks import AS_WRITTEN, MOST_SYMBOLS, check_fields, dotted
from models.choices import (
    CHOICES,
    Activation,
    Counting,
    Mask,
    Mlp,
    Norm,
    NormPlacement,
    Positions,
    Scores,
)
from models.errors import UserError
from models.families import FAMILIES, Family
from models.hooks import HookRow
from models.objectives import Output, Readout

Architecture = Annotated[
    str,
    arg(
        constructor_factory=lambda: literal_type_from_choices(list(FAMILIES)),
        help_behavior_hint=lambda shown: f"(default: {shown.strip('[]')})".replace("'", ""),
    ),
]
"""The name of a family; the command line offers all that exist."""

OPTIONS = ("head_width", "value_width", "window", "parallel", "residual", "dropout", "even_start")
"""Further fields that are refused where a family does not read them."""

BETWEEN: tuple[Positions, ...] = ("rotary", "alibi", "t5")
"""The kinds of positions that enter a score by the distance of query and key."""


@dataclass(frozen=True)
class ModelConfig:
    """The parts of a model: a Transformer, or one of the models that it replaced.

    A *decoder* has a causal mask and may be taught at every position. An *encoder* has the
    bidirectional mask, recognises whole words and is read at BOS, its class token. A rival uses
    fewer fields: its entry in ``models.families`` lists them. A choice that a family does not use
    (of mask, scores, positions, norm, MLP, widths of a head, window, dropout, a parallel block or
    counting) is refused; other fields that it does not use are ignored.

    Attributes:
        architecture: the name of its family: a Transformer or a rival.
        n_layers: blocks; in an encoder-decoder the first half of them is the encoder.
        n_heads: attention heads in a block.
        d_model: width of the residual stream.
        head_width: width of a head's queries, keys and values; 0 means d_model / n_heads.
        value_width: width of a head's values, if it is another; 0 means as wide as queries and
            keys.
        d_mlp: width of the hidden layer of the MLP; of a feedforward network, of all its layers.
        scores: how well a query q and a key k match: "scaled_dot" q.k / sqrt(d_head), "dot" q.k,
            "additive" w.tanh(q + k) (Bahdanau et al. 2015), "linear" log(f(q).f(k)) with the
            features f(x) = elu(x) + 1 (Katharopoulos et al. 2020), or "identity", scaled dot
            products without W_Q and W_K: head h compares slice h of what attention reads. With
            "linear" the weights are in proportion to f(q).f(k), and a running sum takes the place
            of all pairs.
        mask: what a position may attend to: "causal" itself and what came before,
            "strictly_causal" only what came before, "bidirectional" the whole word.
        window: under a causal mask, how many positions a head sees, its own among them (a sliding
            window, Beltagy et al. 2020); 0 means all. Farther ones are reached layer by layer.
        positions: "none" (a causal mask alone tells the order), a "learned" table, "sinusoidal"
            (Vaswani et al. 2017), "appended" (the number of the position divided by n_ctx, as the
            last coordinate of the stream; the embedding has the others), "concatenated" (the
            embedding and sinusoids side by side, each in half of the stream), "rotary" (Su et al.
            2021), "alibi" (Press et al. 2022), "t5" relative bias (Raffel et al. 2020).
        position_base: of sinusoidal, concatenated and rotary positions: their wavelengths go from
            2 pi up to nearly 2 pi times this.
        even_start: whether queries, keys and embeddings start so small that attention begins near
            an even average over the word. Counting is learned easily from there; matching symbols,
            as induction heads do, is learned faster from weights of the usual size.
        norm: LayerNorm, RMSNorm or none.
        norm_placement: "pre" x + f(norm(x)), "post" norm(x + f(x)), "sandwich" x +
            norm(f(norm(x))).
        qk_norm: the norm of every head's queries and of its keys before their scores; "none" by
            default. It has a learned gain, which the heads share. "layer" as in ViT-22B (Dehghani
            et al. 2023), "rms" as in Qwen3 and Gemma 3.
        parallel: whether attention and MLP of a block read the same normalised stream, x +
            Attention(norm(x)) + MLP(norm(x)), as in GPT-J, PaLM and ViT-22B. A block then has one
            norm, before both.
        residual: whether a block adds what a part computes to the stream that it reads (He et al.
            2016). Without it, each part passes on this alone: f(norm(x)), norm(f(x)) or
            norm(f(norm(x))), by ``norm_placement``.
        mlp: "plain" two layers, "gated" act(x W_gate) * (x W_in) between them, "none" (attention
            only).
        act_fn: the MLP's activation.
        bias: whether the linear maps and norms inside the blocks add a bias. Without a bias, a
            threshold on a count can only be set against the share of BOS in the average over the
            word. It then moves with the length, and counting holds further beyond the training
            window.
        n_ctx: tokens that the table of learned positions holds, or the input of a feedforward
            network, BOS among them. Without these words of any length can be read. Appended
            positions are divided by it.
        kernel_size: positions that a layer of the CNN sees: its own and those just before it.
        order: the n of the n-gram model; its context is the last n - 1 tokens.
        dropout: in training, the share that becomes 0 of attention's weights, and of the numbers
            that attention and MLP add to the stream (Vaswani et al. 2017); the others grow to make
            up for it. An evaluation is without it.
        eps: added under the root in every norm. The difference that tells two counts apart shrinks
            like 1 / length, and its square soon falls below 1e-5.
        output: "sigmoid" judges each token by itself, "softmax" gives one distribution over all,
            "conditional" does so after the border of a pair, "masked" at the position itself,
            "tags" over its tags. The objective decides it.
        counting: what is built in for counting; nothing by default.
    """

    __pydantic_config__ = AS_WRITTEN

    architecture: Architecture = "transformer"
    n_layers: Annotated[int, Interval(ge=1, le=1000)] = 2
    n_heads: Annotated[int, Interval(ge=1, le=4096)] = 4
    d_model: Annotated[int, Interval(ge=1, le=2**20)] = 64
    head_width: Annotated[int, Interval(ge=0, le=2**20)] = 0
    value_width: Annotated[int, Interval(ge=0, le=2**20)] = 0
    d_mlp: Annotated[int, Interval(ge=1, le=2**22)] = 256
    scores: Scores = "scaled_dot"
    mask: Mask = "causal"
    window: Annotated[int, Interval(ge=0, le=MOST_SYMBOLS)] = 0
    positions: Positions = "none"
    position_base: Annotated[float, Interval(ge=1.0, le=1e12)] = 10_000.0
    even_start: bool = True
    norm: Norm = "layer"
    norm_placement: NormPlacement = "pre"
    qk_norm: Norm = "none"
    parallel: bool = False
    residual: bool = True
    mlp: Mlp = "plain"
    act_fn: Activation = "gelu"
    bias: bool = True
    n_ctx: Annotated[int, Interval(ge=1, le=2**24)] = 1024
    kernel_size: Annotated[int, Interval(ge=1, le=MOST_SYMBOLS)] = 5
    order: Annotated[int, Interval(ge=1, le=5)] = 3
    dropout: Annotated[float, Interval(ge=0.0, le=0.9)] = 0.0
    eps: Annotated[float, Interval(ge=0, le=1)] = 1e-5
    output: Output = "sigmoid"
    counting: Counting = Counting()

    def __post_init__(self) -> None:
        if self.architecture not in FAMILIES:
            raise UserError(
                f"architecture is {self.architecture!r}: choose one of {', '.join(FAMILIES)}"
            )
        check_fields(self)
        if self.learned_heads < 1:
            raise UserError(
                f"averaging_heads is {self.counting.averaging_heads} and n_heads {self.n_heads}: "
                "choose fewer averaging heads, so that at least one head learns where to look"
            )
        if self.parallel and (self.mlp == "none" or self.norm_placement != "pre"):
            raise UserError(
                "parallel attention and MLP read one pre-norm stream, and norm_placement is "
                f"{self.norm_placement}, mlp {self.mlp}: choose pre and an MLP, or leave it out"
            )
        if self.parallel and not self.residual:
            raise UserError(
                "parallel attention and MLP are added to one residual stream, and residual is "
                "False: leave one of the two out"
            )
        if self.norm == "none" and self.norm_placement != "pre":
            raise UserError(
                f"norm_placement is {self.norm_placement}, but with norm none there is nothing to "
                "place: leave it at pre, or choose a norm"
            )
        self._check_choices_are_read()
        if self.family.two_sided and self.n_layers < 2:
            raise UserError(
                f"n_layers is {self.n_layers}, and an encoder-decoder needs a block for each side: "
                "choose 2 or more"
            )
        if self.family.attends:
            self._check_attention()

    def _check_attention(self) -> None:
        if not self.head_width and self.d_model % self.n_heads:
            raise UserError(
                f"d_model {self.d_model} does not divide among n_heads {self.n_heads}: "
                "choose a multiple of n_heads, or give head_width"
            )
        if self.window == 1:
            raise UserError(
                "window is 1: each position would see itself alone; choose 2 or more, or 0 for all"
            )
        if self.window and self.mask != "causal":
            raise UserError(
                f"window is {self.window}, but the mask is {self.mask}: a sliding window needs the "
                "causal mask"
            )
        if self.scores == "linear" and (self.window or self.positions in BETWEEN):
            raise UserError(
                "linear scores are summed up along the word, whatever the distance of two "
                f"positions: choose no window and none of {', '.join(BETWEEN)}, or other scores"
            )
        if self.scores == "identity" and self.n_heads * self.d_head != self.d_model:
            raise UserError(
                f"identity scores compare slices of the stream, and n_heads {self.n_heads} slices "
                f"of head_width {self.d_head} are not d_model {self.d_model}: leave head_width out"
            )
        if self.positions == "rotary" and self.scores == "additive":
            raise UserError(
                "rotary positions turn the angle between query and key, which additive scores "
                "do not measure: choose dot or scaled_dot scores, or other positions"
            )
        if self.positions == "rotary" and self.d_head % 2:
            raise UserError(
                f"rotary positions turn pairs of dimensions, but a head has {self.d_head} of them: "
                "choose an even head width"
            )
        if self.positions == "sinusoidal" and self.d_model % 2:
            raise UserError(
                f"sinusoidal positions need a sine and a cosine for every frequency, but d_model "
                f"is {self.d_model}: choose an even number"
            )
        if self.positions == "concatenated" and self.d_model % 4:
            raise UserError(
                "concatenated positions take half of d_model, a sine and a cosine for every "
                f"frequency, and d_model is {self.d_model}: choose a multiple of 4"
            )
        if self.positions == "appended" and self.d_model < 2:
            raise UserError(
                "appended positions take one coordinate of d_model, and leave none for the "
                "embedding: choose a d_model of at least 2"
            )

    def _check_choices_are_read(self) -> None:
        """Refuses a choice that the family does not read, since it would be silently lost."""
        for name, plain in _optional().items():
            value = attrgetter(name)(self)
            if name not in self.family.reads and value != plain:
                owners = [family.name for family in FAMILIES.values() if name in family.reads]
                raise UserError(
                    f"{name} {value} belongs to {' or '.join(owners)}, not to architecture "
                    f"{self.architecture}: leave it out"
                )

    @property
    def family(self) -> Family:
        """The registry entry of the architecture."""
        return FAMILIES[self.architecture]

    @property
    def hook_rows(self) -> list[HookRow]:
        """The table of all hooks, in the order of computation, with their shapes and meanings."""
        return self.family.hook_rows(self)

    @property
    def d_head(self) -> int:
        return self.head_width or self.d_model // self.n_heads

    @property
    def d_embed(self) -> int:
        """The width of the embedding; where it is below d_model, positions have the rest."""
        widths = {"appended": 1, "concatenated": self.d_model // 2}
        return self.d_model - widths.get(self.positions, 0)

    @property
    def d_value(self) -> int:
        """The width of a head's values."""
        return self.value_width or self.d_head

    @property
    def size(self) -> int:
        """The rough count of the numbers that a model learns, without the symbols' embeddings."""
        if self.family.whole:  # without the one-hot symbols of each place
            return self.n_ctx * self.d_mlp + (self.n_layers - 1) * self.d_mlp**2
        widths = 2 * (self.d_head + self.d_value)
        heads = self.n_heads * widths if self.family.attends else 8 * self.d_model
        layer = self.d_model * (heads + 3 * self.d_mlp)
        if "kernel_size" in self.family.reads:
            layer += self.kernel_size * self.d_model**2
        table = self.n_ctx * self.d_model if self.positions == "learned" else 0
        return 0 if self.family.tabular else self.n_layers * layer + table

    @property
    def most_symbols(self) -> int | None:
        """The most symbols that a word may have; None where it may have any number."""
        return self.n_ctx - 1 if self.positions == "learned" or self.family.whole else None

    @property
    def learned_heads(self) -> int:
        """The number of heads of a block with queries and keys: all but those that average."""
        return self.n_heads - self.counting.averaging_heads

    @property
    def sees_ahead(self) -> bool:
        """Does a position see what comes after it?"""
        return self.mask == "bidirectional" or self.family.whole

    @property
    def causal(self) -> bool:
        """Does no position of any block see what comes after it?"""
        return not (self.sees_ahead or self.family.two_sided)

    @property
    def encoder_layers(self) -> int:
        """The number of blocks, the first ones, that read the source of a pair."""
        return self.n_layers // 2 if self.family.two_sided else 0

    @property
    def readout(self) -> Readout:
        """The place where the verdict on a word is read: "bos" or "last".

        If BOS sees the whole word, the verdict is read there, as at a class token ("bos").
        Otherwise it is read at the last symbol, the first position that has seen the whole word
        ("last").
        """
        return "bos" if self.sees_ahead else "last"

    @property
    def kind(self) -> str:
        """The choices that differ from the plain pre-norm decoder without positions; "" if none do.

        Sizes are not named. Examples: "encoder-alibi", "rms-post", "lstm", "3-gram".
        """
        if self.family.title is not None:
            return self.family.title(self)
        names = {"mask": {"bidirectional": "encoder"}, "mlp": {"none": "attention"}}
        names["qk_norm"] = {"layer": "qk-norm", "rms": "qk-rms"}
        parts = []
        for f in fields(self):
            value = getattr(self, f.name)
            if f.name in ("architecture", *CHOICES) and value != f.default:
                word = names.get(f.name, {}).get(value, value)
                parts.append(word if value != "none" or f.name == "mlp" else f"no-{f.name}")
        parts += ["parallel"] if self.parallel else []
        parts += [] if self.residual else ["no-residual"]
        parts += [f"window-{self.window}"] if self.window else []
        parts += [f"dropout-{self.dropout:g}"] if self.dropout else []
        return "-".join(parts).replace("_", "-")


@cache
def _optional() -> dict[str, Any]:
    """The defaults of what a family may leave unread, by dotted name."""
    values = dotted(ModelConfig)
    parts = [name for name in values if name.startswith("counting.")]
    return {name: values[name] for name in (*CHOICES, *OPTIONS, *parts)}
