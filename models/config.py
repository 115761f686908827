"""What is built and how it is trained: two frozen, JSON-able configurations."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, fields, is_dataclass, replace
from typing import Annotated, Any, Literal, TypeVar, get_args

from tyro.conf import Positional, arg
from tyro.extras import literal_type_from_choices

from models.errors import UserError
from models.families import FAMILIES, Family
from models.languages import Spread
from models.objectives import Readout, check_sight

Config = TypeVar("Config", bound=Any)  # a frozen dataclass

Architecture = Annotated[
    str,
    arg(
        constructor_factory=lambda: literal_type_from_choices(list(FAMILIES)),
        help_behavior_hint=lambda shown: f"(default: {shown.strip('[]')})".replace("'", ""),
    ),
]
"""The name of a family; the command line offers those that there are."""

Scores = Literal["scaled_dot", "dot", "additive"]
Mask = Literal["causal", "strictly_causal", "bidirectional"]
Positions = Literal["none", "learned", "sinusoidal", "rotary", "alibi", "t5"]
Norm = Literal["layer", "rms", "none"]
NormPlacement = Literal["pre", "post", "sandwich"]
Mlp = Literal["plain", "gated", "none"]
Activation = Literal["relu", "gelu", "silu"]
Device = Literal["auto", "cpu", "cuda"]

CHOICES = {
    "mask": Mask,
    "positions": Positions,
    "scores": Scores,
    "norm": Norm,
    "norm_placement": NormPlacement,
    "mlp": Mlp,
}
"""What makes a model of a family another kind of model, by field."""

ABSOLUTE: tuple[Positions, ...] = ("learned", "sinusoidal")
"""The positions that are added to the embedding, so that they can be shifted in training."""


def _check_choices(config: object, **choices: Any) -> None:
    """Raises UserError for a field whose value is none of its choices, as in an edited run.json."""
    for name, kind in choices.items():
        value = getattr(config, name)
        if value not in get_args(kind):
            raise UserError(f"{name} is {value!r}: choose one of {', '.join(get_args(kind))}")


def dotted(config: Any) -> dict[str, Any]:
    """The values of a configuration by dotted name, as "model.counting.counters".

    Of its class, the defaults.
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
    """A configuration with other values, by dotted name. Raises UserError if it cannot be."""
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
    """What a Transformer may have built in for counting; the one of the lectures has none of it.

    Attributes:
        centred: whether the embeddings of the symbols sum to zero (effect coding), so that under
            equal attention equal counts cancel, at any length.
        averaging_heads: the first heads of each block, which attend to all that they may alike (an
            average attention network, Zhang et al. 2018; the counting of C-RASP) and have neither
            queries nor keys to learn. The others learn where to look.
        head_norm: whether what each head read is divided by its root mean square before W_O (as in
            the differential Transformer, Ye et al. 2024). An average over the word shrinks like one
            over the length; its direction does not.
        counters: whether the averaging heads count: each of their values is a step, -1, 0 or 1, and
            what they read is the sum of these, s, as s / sqrt(1 + s^2), each number by itself. What
            cancels then does so exactly, what does not is soon near -1 or 1, and a long word reads
            as a short one does.
    """

    centred: bool = False
    averaging_heads: int = 0
    head_norm: bool = False
    counters: bool = False

    def __post_init__(self) -> None:
        if self.averaging_heads < 0:
            raise UserError(f"averaging_heads is {self.averaging_heads}: it cannot be negative")
        if self.counters and not self.averaging_heads:
            raise UserError(
                "counters are averaging heads that count and averaging_heads is 0: give some, or "
                "turn counters off"
            )
        if self.counters and self.head_norm:
            raise UserError(
                "counters have a norm of their own: choose counters or head_norm, not both"
            )


@dataclass(frozen=True)
class ModelConfig:
    """The parts of a model: a Transformer, or one of the models that it replaced.

    A *decoder* has a causal mask and may be taught at every position; an *encoder* has the
    bidirectional one, recognises whole words and is read at BOS, its class token. A rival reads
    less: what each family reads stands in its entry of ``models.families``. A choice that it does
    not read (of mask, scores, positions, norm, MLP, head_width or counting) is refused; other
    fields that it does not read play no part.

    Attributes:
        architecture: the name of its family: a Transformer or a rival.
        n_layers: blocks.
        n_heads: attention heads in a block.
        d_model: width of the residual stream.
        head_width: of queries, keys and values in a head; 0 divides d_model evenly.
        d_mlp: width of the hidden layer of the MLP.
        scores: how a query meets a key: q.k / sqrt(d_head), q.k, or w.tanh(q + k) (Bahdanau).
        mask: what a position may attend to: itself and what came before, only what came before, or
            the whole word.
        positions: "none" (a causal mask alone tells the order), a "learned" table, "sinusoidal"
            (Vaswani et al. 2017), "rotary" (Su et al. 2021), "alibi" (Press et al. 2022), "t5"
            relative bias (Raffel et al. 2020).
        norm: LayerNorm, RMSNorm or none.
        norm_placement: "pre" x + f(norm(x)), "post" norm(x + f(x)), "sandwich" x +
            norm(f(norm(x))).
        mlp: "plain" two layers, "gated" act(x W_gate) * (x W_in) between them, "none" (attention
            only).
        act_fn: the MLP's activation.
        bias: whether the linear maps and norms inside the blocks add a bias. Without, a threshold
            on a count can only be set against the share of BOS in the average over the word, so
            that it moves with the length: counting then holds further beyond the training window.
        n_ctx: tokens that the learned table holds, BOS among them; without a table words of any
            length can be read.
        kernel_size: positions that a layer of the CNN sees, its own among them.
        order: of the n-gram model; the last order - 1 tokens are its context.
        eps: added to the variance in every norm. What tells two counts apart shrinks like one over
            the length, and its square soon falls below 1e-5.
        counting: what is built in for counting; nothing by default.
    """

    architecture: Architecture = "transformer"
    n_layers: int = 2
    n_heads: int = 4
    d_model: int = 64
    head_width: int = 0
    d_mlp: int = 256
    scores: Scores = "scaled_dot"
    mask: Mask = "causal"
    positions: Positions = "none"
    norm: Norm = "layer"
    norm_placement: NormPlacement = "pre"
    mlp: Mlp = "plain"
    act_fn: Activation = "gelu"
    bias: bool = True
    n_ctx: int = 1024
    kernel_size: int = 5
    order: int = 3
    eps: float = 1e-5
    counting: Counting = Counting()

    def __post_init__(self) -> None:
        if self.architecture not in FAMILIES:
            raise UserError(
                f"architecture is {self.architecture!r}: choose one of {', '.join(FAMILIES)}"
            )
        _check_choices(self, **CHOICES, act_fn=Activation)
        for name in ("n_layers", "n_heads", "d_model", "d_mlp", "n_ctx", "kernel_size"):
            if getattr(self, name) < 1:
                raise UserError(f"{name} is {getattr(self, name)}: it must be at least 1")
        if self.learned_heads < 1:
            raise UserError(
                f"averaging_heads is {self.counting.averaging_heads} and n_heads {self.n_heads}: "
                "at least one head learns where to look"
            )
        if self.head_width < 0:
            raise UserError(f"head_width is {self.head_width}: it cannot be negative")
        if not 1 <= self.order <= 5:
            raise UserError(f"order is {self.order}: an n-gram model has 1 to 5")
        if self.norm == "none" and self.norm_placement != "pre":
            raise UserError(
                f"norm_placement {self.norm_placement} places nothing with norm none: "
                "leave it at pre, or choose a norm"
            )
        self._check_choices_are_read()
        if self.family.attends:
            self._check_attention()

    def _check_attention(self) -> None:
        if not self.head_width and self.d_model % self.n_heads:
            raise UserError(
                f"d_model {self.d_model} does not divide among n_heads {self.n_heads}: "
                "choose a multiple, or give head_width"
            )
        if self.positions == "rotary" and self.scores == "additive":
            raise UserError(
                "rotary positions turn the angle between query and key, which additive scores "
                "do not measure: choose dot or scaled_dot scores, or other positions"
            )
        if self.positions == "rotary" and self.d_head % 2:
            raise UserError(
                f"rotary positions turn pairs of dimensions and a head has {self.d_head}: "
                "choose an even head width"
            )
        if self.positions == "sinusoidal" and self.d_model % 2:
            raise UserError(
                f"sinusoidal positions need a sine and a cosine for every frequency and d_model is "
                f"{self.d_model}: choose an even one"
            )

    def _check_choices_are_read(self) -> None:
        """A choice that the family does not read would be silently lost: it is refused."""
        asked, plain = dotted(self), dotted(ModelConfig)
        parts = [name for name in asked if name.startswith("counting.")]
        for name in (*CHOICES, "head_width", *parts):
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
    def learned_heads(self) -> int:
        """Heads of a block with queries and keys: all but those that average."""
        return self.n_heads - self.counting.averaging_heads

    @property
    def sees_ahead(self) -> bool:
        """Does a position see what comes after it? The mask alone says so."""
        return self.mask == "bidirectional"

    @property
    def readout(self) -> Readout:
        """Where the verdict on a word is read.

        At "bos", the class token, where BOS sees the whole word; else at the "last" symbol, the
        first position that has seen it all.
        """
        return "bos" if self.sees_ahead else "last"

    @property
    def kind(self) -> str:
        """What sets it apart from the plain pre-norm decoder without positions; "" if nothing does.

        The choices alone, not the sizes: "encoder-alibi", "rms-post", "lstm", "3-gram".
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
        return "-".join(parts).replace("_", "-")


@dataclass(frozen=True)
class TrainConfig:
    """One training run; with the code version it determines the weights.

    Attributes:
        language: the registry name, or the corpus' own name.
        recipe: the name of the configuration that this one started from: "plain", or "counting",
            with heads that count built in. It chooses defaults; by itself it changes nothing.
        seed: of the weights and of all training words.
        max_n: the training window: sizes 1..max_n (blocks of a counting language, else lengths).
        spread: of the lengths in the window: "even", or "log", each order of magnitude as often.
        objective: what is taught, by its name in ``models.objectives``: "next-symbols", the set of
            them at every position, or "verdict", that on the whole word alone.
        steps: the longest training; the learning rate's schedule spans it.
        batch_size: words in a step.
        learning_rate: the peak, reached after ``warmup`` steps, then a cosine down to zero.
        max_offset: absolute positions of a training word start at a random 0 to this, so that
            positions beyond the window are trained too (Kiyono et al. 2021).
        warmup: steps of linear rise.
        weight_decay: decoupled, as in AdamW.
        clip: largest norm of the gradient.
        evaluate_every: steps between evaluations on the training window; the state to resume from
            is saved as often.
        threads: CPU threads of a step. Their number moves the last bits of every sum, and with them
            the weights; small models are no faster with more.
        patience: stop once so many evaluations in a row were flawless; 0 trains all steps.
        model: the parts and their sizes.
    """

    language: Positional[str]
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
    model: ModelConfig = field(default_factory=ModelConfig)

    def __post_init__(self) -> None:
        _check_choices(self, spread=Spread)
        for name in ("max_n", "steps", "batch_size", "evaluate_every", "threads"):
            if getattr(self, name) < 1:
                raise UserError(f"{name} is {getattr(self, name)}: it must be at least 1")
        for name in ("seed", "max_offset", "warmup", "weight_decay", "patience"):
            if not getattr(self, name) >= 0:
                raise UserError(f"{name} is {getattr(self, name)}: it cannot be negative")
        for name in ("learning_rate", "clip"):
            if not getattr(self, name) > 0:
                raise UserError(f"{name} is {getattr(self, name)}: it must be positive")
        check_sight(self.objective, self.model.sees_ahead)
        if self.max_offset and self.model.positions not in ABSOLUTE:
            raise UserError(
                f"max_offset shifts absolute positions and this model has {self.model.positions}: "
                f"choose {' or '.join(ABSOLUTE)} positions, or leave it out"
            )

    @classmethod
    def from_dict(cls, values: dict[str, Any]) -> TrainConfig:
        """The inverse of ``dataclasses.asdict``. Raises UserError for fields that do not fit."""
        try:
            counting = Counting(**values["model"]["counting"])
            model = ModelConfig(**{**values["model"], "counting": counting})
            return cls(**{**values, "model": model})
        except (TypeError, KeyError) as error:
            raise UserError(
                f"the configuration does not fit this version of the lab ({error}): "
                "train the run again"
            ) from None
