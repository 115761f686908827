"""What is built and how it is trained: two frozen, JSON-able configurations."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field, fields, is_dataclass, replace
from functools import cache
from typing import TYPE_CHECKING, Annotated, Any, Literal, TypeVar, get_args

from tyro.conf import Positional, Suppress, arg
from tyro.extras import literal_type_from_choices

from models.errors import UserError, first_fault
from models.families import FAMILIES, Family
from models.languages import Spread
from models.objectives import Output, Readout, check_sight, output_of

if TYPE_CHECKING:
    from pydantic import TypeAdapter

Config = TypeVar("Config", bound=Any)  # a frozen dataclass
Number = int | float

Architecture = Annotated[
    str,
    arg(
        constructor_factory=lambda: literal_type_from_choices(list(FAMILIES)),
        help_behavior_hint=lambda shown: f"(default: {shown.strip('[]')})".replace("'", ""),
    ),
]
"""The name of a family; the command line offers all that exist."""

Scores = Literal["scaled_dot", "dot", "additive"]
Mask = Literal["causal", "strictly_causal", "bidirectional"]
Positions = Literal["none", "learned", "sinusoidal", "rotary", "alibi", "t5"]
Norm = Literal["layer", "rms", "none"]
NormPlacement = Literal["pre", "post", "sandwich"]
Mlp = Literal["plain", "gated", "none"]
Activation = Literal["relu", "gelu", "silu"]
Device = Literal["auto", "cpu", "cuda"]
Tuned = Literal["all", "last", "head", "lora", "subspace"]
Adapted = Literal["attention", "mlp", "both"]
MOST_SEED = 2**32 - 1
"""The largest seed that every source of random numbers takes."""

AS_WRITTEN: dict[str, Any] = {"strict": True, "extra": "forbid"}
"""How pydantic reads a configuration from a file: no value is converted, no field is unknown."""
MOST_SYMBOLS = 10_000
"""The most symbols in a word: the cost of attention grows with the square of this."""
MOST_PAIRS = 2**27
"""The most pairs of symbols that a model compares at once: the number of words that it reads
together, times the square of their length."""

BOUNDS: Mapping[str, tuple[Number, Number]] = {
    # of a model
    "n_layers": (1, 1000),
    "n_heads": (1, 4096),
    "d_model": (1, 2**20),
    "head_width": (0, 2**20),
    "d_mlp": (1, 2**22),
    "n_ctx": (1, 2**24),
    "kernel_size": (1, MOST_SYMBOLS),
    "order": (1, 5),
    "eps": (0, 1),
    "window": (0, MOST_SYMBOLS),
    "position_base": (1.0, 1e12),
    "averaging_heads": (0, 4096),
    # of a training
    "seed": (0, MOST_SEED),
    "max_n": (1, MOST_SYMBOLS),
    "steps": (1, 10**9),
    "batch_size": (1, 2**20),
    "learning_rate": (1e-12, 1e3),
    "max_offset": (0, 2**24),
    "warmup": (0, 10**9),
    "weight_decay": (0, 1e3),
    "clip": (1e-12, 1e12),
    "evaluate_every": (1, 10**9),
    "threads": (1, 256),
    "patience": (0, 10**9),
    "lines": (0, 10**7),
    "rank": (1, 2**16),
}
"""The least and the largest value of every number of a configuration. Beyond them nothing useful
happens: the machine's memory or everybody's patience ends first."""

CHOICES = {
    "mask": Mask,
    "positions": Positions,
    "scores": Scores,
    "norm": Norm,
    "norm_placement": NormPlacement,
    "mlp": Mlp,
}
"""The fields of ``ModelConfig`` that make a model another kind of model, with their values."""

ABSOLUTE: tuple[Positions, ...] = ("learned", "sinusoidal")
"""The kinds of positions that are added to the embedding. They can be shifted in training."""


def _check_choices(config: object, **choices: Any) -> None:
    """Raises UserError if a field holds a value that it cannot have, as an edited run.json may."""
    for name, kind in choices.items():
        value = getattr(config, name)
        if value not in get_args(kind):
            raise UserError(f"{name} is {value!r}: choose one of {', '.join(get_args(kind))}")


def _check_bounds(config: Config) -> None:
    """Raises UserError for a number beyond ``BOUNDS``, infinite or none at all."""
    for f in fields(config):
        if f.name in BOUNDS:
            least, most = BOUNDS[f.name]
            check_bounds(f.name, getattr(config, f.name), least, most)


def check_bounds(name: str, value: Number, least: Number, most: Number) -> None:
    """Raises UserError for a value that is not within its bounds, and for "nan"."""
    if value < least:
        raise UserError(f"{name} is {_short(value)}: it must be at least {least}")
    if not value <= most:
        raise UserError(f"{name} is {_short(value)}: it must be at most {most}")


def _short(value: Number) -> str:
    """A number as it is written; one of many digits is cut."""
    return str(value) if isinstance(value, float) or abs(value) < 10**40 else "too long"


def dotted(config: Any) -> dict[str, Any]:
    """The values of a configuration by dotted name, such as "model.counting.counters".

    For the class of a configuration it gives the defaults.
    """
    found: dict[str, Any] = {}
    for f in fields(config):
        value = getattr(config, f.name)
        if is_dataclass(value):
            found |= {f"{f.name}.{name}": inner for name, inner in dotted(value).items()}
        else:
            found[f.name] = value
    return found


def changed(config: Config, changes: Mapping[str, Any]) -> Config:
    """A copy of a configuration with other values, given by dotted name.

    Raises:
        UserError: the values do not go together.
    """
    own: dict[str, Any] = {}
    parts: dict[str, dict[str, Any]] = {}
    for name, value in changes.items():
        part, dot, rest = name.partition(".")
        if dot:
            parts.setdefault(part, {})[rest] = value
        else:
            own[name] = value
    own |= {part: changed(getattr(config, part), inner) for part, inner in parts.items()}
    return replace(config, **own)


@dataclass(frozen=True)
class Counting:
    """What a Transformer can have built in for counting; the one of the lectures has none of it.

    Attributes:
        centred: whether the embeddings of the symbols sum to zero (effect coding). Where attention
            is equal, equal counts then cancel, at any length.
        averaging_heads: how many heads of each block average; they are its first heads. Such a head
            attends equally to every position that it may see (an average attention network, Zhang
            et al. 2018; the counting of C-RASP) and has no queries or keys to learn. The other
            heads learn where to look.
        head_norm: whether what each head read is divided by its root mean square before W_O (as in
            the differential Transformer, Ye et al. 2024). An average over the word shrinks like
            1 / length; its direction does not.
        counters: whether the averaging heads count. Each number of their values is then a step: -1,
            0 or 1. With s the sum of the steps, the head reads s / sqrt(1 + s^2), number by number.
            Steps that cancel do so exactly, and a sum that is not 0 is soon near -1 or 1, so that a
            long word reads like a short one.
    """

    __pydantic_config__ = AS_WRITTEN

    centred: bool = False
    averaging_heads: int = 0
    head_norm: bool = False
    counters: bool = False

    def __post_init__(self) -> None:
        _check_bounds(self)
        if self.counters and not self.averaging_heads:
            raise UserError(
                "counters are averaging heads that count, and averaging_heads is 0: choose at "
                "least 1, or turn counters off"
            )
        if self.counters and self.head_norm:
            raise UserError(
                "counters have a norm of their own: choose counters or head_norm, not both"
            )


@dataclass(frozen=True)
class ModelConfig:
    """The parts of a model: a Transformer, or one of the models that it replaced.

    A *decoder* has a causal mask and may be taught at every position. An *encoder* has the
    bidirectional mask, recognises whole words and is read at BOS, its class token. A rival uses
    fewer fields: its entry in ``models.families`` lists them. A choice that a family does not use
    (of mask, scores, positions, norm, MLP, head_width or counting) is refused; other fields that it
    does not use are ignored.

    Attributes:
        architecture: the name of its family: a Transformer or a rival.
        n_layers: blocks; in an encoder-decoder the first half of them is the encoder.
        n_heads: attention heads in a block.
        d_model: width of the residual stream.
        head_width: width of a head's queries, keys and values; 0 means d_model / n_heads.
        d_mlp: width of the hidden layer of the MLP.
        scores: how well a query q and a key k match: "scaled_dot" q.k / sqrt(d_head), "dot" q.k, or
            "additive" w.tanh(q + k) (Bahdanau et al. 2015).
        mask: what a position may attend to: "causal" itself and what came before,
            "strictly_causal" only what came before, "bidirectional" the whole word.
        window: under a causal mask, how many positions a head sees, its own among them (a sliding
            window, Beltagy et al. 2020); 0 means all. Farther ones are reached layer by layer.
        positions: "none" (a causal mask alone tells the order), a "learned" table, "sinusoidal"
            (Vaswani et al. 2017), "rotary" (Su et al. 2021), "alibi" (Press et al. 2022), "t5"
            relative bias (Raffel et al. 2020).
        position_base: of sinusoidal and rotary positions: their wavelengths go from 2 pi up to
            nearly 2 pi times this.
        norm: LayerNorm, RMSNorm or none.
        norm_placement: "pre" x + f(norm(x)), "post" norm(x + f(x)), "sandwich" x +
            norm(f(norm(x))).
        mlp: "plain" two layers, "gated" act(x W_gate) * (x W_in) between them, "none" (attention
            only).
        act_fn: the MLP's activation.
        bias: whether the linear maps and norms inside the blocks add a bias. Without a bias, a
            threshold on a count can only be set against the share of BOS in the average over the
            word. It then moves with the length, and counting holds further beyond the training
            window.
        n_ctx: tokens that the table of learned positions holds, BOS among them. Without such a
            table words of any length can be read.
        kernel_size: positions that a layer of the CNN sees: its own and those just before it.
        order: the n of the n-gram model; its context is the last n - 1 tokens.
        eps: added under the root in every norm. The difference that tells two counts apart shrinks
            like 1 / length, and its square soon falls below 1e-5.
        output: "sigmoid" judges each token by itself, "softmax" gives one distribution over all,
            "conditional" does so after the border of a pair, "masked" at the position itself. The
            objective decides it.
        counting: what is built in for counting; nothing by default.
    """

    __pydantic_config__ = AS_WRITTEN

    architecture: Architecture = "transformer"
    n_layers: int = 2
    n_heads: int = 4
    d_model: int = 64
    head_width: int = 0
    d_mlp: int = 256
    scores: Scores = "scaled_dot"
    mask: Mask = "causal"
    window: int = 0
    positions: Positions = "none"
    position_base: float = 10_000.0
    norm: Norm = "layer"
    norm_placement: NormPlacement = "pre"
    mlp: Mlp = "plain"
    act_fn: Activation = "gelu"
    bias: bool = True
    n_ctx: int = 1024
    kernel_size: int = 5
    order: int = 3
    eps: float = 1e-5
    output: Output = "sigmoid"
    counting: Counting = Counting()

    def __post_init__(self) -> None:
        if self.architecture not in FAMILIES:
            raise UserError(
                f"architecture is {self.architecture!r}: choose one of {', '.join(FAMILIES)}"
            )
        _check_choices(self, **CHOICES, act_fn=Activation, output=Output)
        _check_bounds(self)
        if self.learned_heads < 1:
            raise UserError(
                f"averaging_heads is {self.counting.averaging_heads} and n_heads {self.n_heads}: "
                "choose fewer averaging heads, so that at least one head learns where to look"
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

    def _check_choices_are_read(self) -> None:
        """Refuses a choice that the family does not read, since it would be silently lost."""
        asked, plain = dotted(self), dotted(ModelConfig)
        parts = [name for name in asked if name.startswith("counting.")]
        for name in (*CHOICES, "head_width", "window", *parts):
            if name not in self.family.reads and asked[name] != plain[name]:
                owners = [family.name for family in FAMILIES.values() if name in family.reads]
                raise UserError(
                    f"{name} {asked[name]} belongs to {' or '.join(owners)}, not to architecture "
                    f"{self.architecture}: leave it out"
                )

    @property
    def family(self) -> Family:
        """The registry entry of the architecture."""
        return FAMILIES[self.architecture]

    @property
    def d_head(self) -> int:
        return self.head_width or self.d_model // self.n_heads

    @property
    def size(self) -> int:
        """About how many numbers a model learns, without the embeddings of the symbols."""
        heads = 4 * self.n_heads * self.d_head if self.family.attends else 8 * self.d_model
        layer = self.d_model * (heads + 3 * self.d_mlp)
        if "kernel_size" in self.family.reads:
            layer += self.kernel_size * self.d_model**2
        table = self.n_ctx * self.d_model if self.positions == "learned" else 0
        return 0 if self.family.tabular else self.n_layers * layer + table

    @property
    def learned_heads(self) -> int:
        """How many heads of a block have queries and keys: all but those that average."""
        return self.n_heads - self.counting.averaging_heads

    @property
    def sees_ahead(self) -> bool:
        """Does a position see what comes after it? Only the mask decides this."""
        return self.mask == "bidirectional"

    @property
    def causal(self) -> bool:
        """Does no position of any block see what comes after it?"""
        return not (self.sees_ahead or self.family.two_sided)

    @property
    def encoder_layers(self) -> int:
        """How many of the blocks, the first ones, read the source of a pair."""
        return self.n_layers // 2 if self.family.two_sided else 0

    @property
    def readout(self) -> Readout:
        """Where the verdict on a word is read: "bos" or "last".

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
        parts = []
        for f in fields(self):
            value = getattr(self, f.name)
            if f.name in ("architecture", *CHOICES) and value != f.default:
                word = names.get(f.name, {}).get(value, value)
                parts.append(word if value != "none" or f.name == "mlp" else f"no-{f.name}")
        parts += [f"window-{self.window}"] if self.window else []
        return "-".join(parts).replace("_", "-")


@dataclass(frozen=True)
class TrainConfig:
    """One training run; together with the version of the code it determines the weights.

    Attributes:
        language: the registry name, or the own name of a corpus or of a regular expression.
        regex: a regular expression whose letters and digits are the symbols, such as "(a|b)*ab".
        symbols: symbols that the expression does not name.
        grammar: the productions of a context-free grammar, such as "S -> 'a' S 'b' | 'a' 'b'", or a
            file of them.
        recipe: the name of the configuration that this one started from: "plain", or "counting",
            with heads that count built in. It only chooses the defaults of the other fields.
        seed: decides the weights at the start and all training words.
        max_n: the training window holds sizes 1..max_n. A word's size is its length, or the length
            of one block in a counting language.
        spread: how often lengths of the window are drawn: "even" draws each equally often, "log"
            each order of magnitude equally often.
        objective: what is taught, by its name in ``models.objectives``: "next-symbols", the set of
            symbols that may come next at every position; "verdict", only whether the whole word is
            in the language; or "language-model", the one token that comes next in words of the
            language, by softmax and cross-entropy; "sequence-to-sequence", the same for the target
            of a pair alone, given its source; "masked", which symbols are hidden, given all others.
        steps: the longest training; the learning rate's schedule spans it.
        batch_size: words in a step.
        learning_rate: the peak; the rate rises for ``warmup`` steps and falls to zero in a cosine.
        max_offset: the absolute positions of a training word start at a random number from 0 to
            max_offset, so that positions beyond the window are trained too (Kiyono et al. 2021).
        warmup: steps in which the learning rate rises in a straight line.
        weight_decay: decoupled, as in AdamW.
        clip: the largest norm of the gradient; a longer gradient is scaled down to it.
        evaluate_every: steps between evaluations on the training window; the state to resume from
            is saved as often.
        threads: CPU threads of a step. Another number of threads changes the last bits of every
            sum, and so the weights; small models are no faster with more.
        patience: training stops after this many flawless evaluations in a row; 0 trains all steps.
        lines: train on so many different words, drawn once; 0 draws fresh words at each step.
        parent: the SHA-256 of the weights that a fine-tuning starts from; "" starts from random
            ones.
        tuned: what a fine-tuning changes: "all" weights, the "last" block and the unembedding, the
            "head", that is, the unembedding alone, "lora", low-rank additions to some linear maps,
            and the unembedding, or "subspace", all weights, along ``rank`` random directions.
        rank: of these additions, or the dimension of the subspace.
        adapted: the maps that get them: those of "attention" (queries, keys, values, output), of
            the "mlp", or "both".
        model: the parts and their sizes.
    """

    __pydantic_config__ = AS_WRITTEN

    language: Positional[str]
    regex: str = ""
    symbols: str = ""
    grammar: str = ""
    recipe: str = "plain"
    seed: int = 0
    max_n: int = 25
    spread: Spread = "even"
    objective: str = "next-symbols"
    steps: int = 1000
    batch_size: int = 64
    learning_rate: float = 2e-3
    max_offset: int = 0
    warmup: int = 50
    weight_decay: float = 0.0
    clip: float = 1.0
    evaluate_every: int = 50
    threads: int = 1
    patience: int = 0
    lines: int = 0
    parent: Annotated[str, Suppress] = ""
    tuned: Tuned = "all"
    rank: int = 4
    adapted: Adapted = "attention"
    model: ModelConfig = field(default_factory=ModelConfig)

    def __post_init__(self) -> None:
        _check_choices(self, spread=Spread, tuned=Tuned, adapted=Adapted)
        if self.tuned != "all" and not self.parent:
            raise UserError(
                f"tuned is {self.tuned}, but the training starts from random weights: fine-tune a "
                "run with `lab finetune RUN`, or leave it out"
            )
        _check_bounds(self)
        maps = self.adapted != "mlp" or self.model.mlp != "none"
        if self.tuned == "lora" and not (self.model.family.attends and maps):
            raise UserError(
                f"the model has no linear maps to adapt ({self.adapted}): fine-tune a Transformer, "
                "or choose --tuned all, last or head"
            )
        if self.tuned == "subspace" and self.model.counting.centred:
            raise UserError(
                "centred embeddings leave a random subspace: choose another --tuned than subspace"
            )
        check_sight(self.objective, self.model.sees_ahead)
        self._decide_output()
        if self.max_offset and self.model.positions not in ABSOLUTE:
            raise UserError(
                "max_offset shifts absolute positions, but the positions of this model are "
                f"{self.model.positions!r}: choose {' or '.join(ABSOLUTE)} positions, or leave "
                "max_offset out"
            )

    def _decide_output(self) -> None:
        wanted = output_of(self.objective)
        if self.model.output not in ("sigmoid", wanted):
            raise UserError(
                f"the objective {self.objective} asks for the output {wanted}, not for "
                f"{self.model.output}: leave --model.output out"
            )
        if self.model.family.two_sided and wanted != "conditional":
            raise UserError(
                f"an encoder-decoder is taught targets alone, not {self.objective}: choose "
                "--objective sequence-to-sequence and a language of pairs such as copy"
            )
        object.__setattr__(self, "model", replace(self.model, output=wanted))

    @classmethod
    def from_dict(cls, values: dict[str, Any]) -> TrainConfig:
        """The inverse of ``dataclasses.asdict``.

        Raises:
            UserError: a field is missing, unknown, or has a value that it cannot have.
        """
        from pydantic import ValidationError

        try:
            values["model"]["counting"]  # left out, they would be the defaults
            return _adapter().validate_json(json.dumps(values))
        except (TypeError, KeyError, ValueError) as error:
            fault = first_fault(error) if isinstance(error, ValidationError) else error
            raise UserError(
                f"the configuration does not fit this version of the lab ({fault}): "
                "train the run again"
            ) from None


@cache
def _adapter() -> TypeAdapter[TrainConfig]:
    """What checks the types of a configuration; imported late, because help needs no file."""
    from pydantic import TypeAdapter

    return TypeAdapter(TrainConfig)
