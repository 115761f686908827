"""A compiler: from a program to the weights of a Transformer, and to the plan of its parts.

Every variable gets dimensions of the stream for itself. A head reads its keys, queries and values
there and writes their mean; an MLP has its hidden units for its own variables. So each part
computes what the program says and nothing else, up to the e^-50 that a lost match keeps of the
attention.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import torch
from torch import Tensor

from models.languages.vocabulary import BOS_ID, END_ID
from models.model_config import ModelConfig
from models.plants.program import Positions, Program, Select, Steps, Table, Tokens, Variable
from models.transformer.attention import Attention
from models.transformer.mlp import MLP
from models.transformer.model import HookedTransformer

SHARP = 50.0
"""The score of a match: other keys get e^-50 of its attention."""
STEEP = 4.0
"""A combination of a table counts as there if what it lacks is less than 1/2 - 1 / (2 STEEP), and
as not there if it lacks more than 1/2 + 1 / (2 STEEP): small errors of what is read do nothing."""
WORDS = 24
"""Words of each length that tell which edges carry a difference."""
REACH = 64
"""Positions that a network can read. Beyond the words of its language the table is zero."""
VERDICT_LOGIT = 4.0
"""The distance of END's logit from zero: above it for a verdict of 1, below it for one of 0."""


@dataclass(frozen=True)
class _Place:
    """The place where a variable is made.

    Attributes:
        sender: the part that writes it: "embed", "L0H1" or "L0 mlp".
        layer: the layer of the part; -1 for "embed".
        after: the number of half layers that have passed when it is there: attention of layer l is
            2 l + 1, its MLP 2 l + 2.
    """

    sender: str
    layer: int
    after: int


@dataclass(frozen=True)
class Plan:
    """The parts of a network, and what each computes.

    Attributes:
        program: the program that is planned.
        places: the place of each variable.
        dims: the dimensions of the stream that each variable has in a plant without rotation.
        heads: (layer, head) of the program; all others are idle.
        mlps: the layers whose MLP computes something.
    """

    program: Program
    places: Mapping[Variable, _Place]
    dims: Mapping[Variable, slice]
    heads: frozenset[tuple[int, int]]
    mlps: frozenset[int]

    @property
    def layers(self) -> int:
        """The number of layers that the program needs."""
        return 1 + max(place.layer for place in self.places.values())

    @cached_property
    def edges(self) -> frozenset[tuple[str, str]]:
        """(sender, receiver) as circuits name them, "L0H1" to "L1H0.v": those that carry a
        difference between words of a length. What is read through others, as the positions that aim
        a head, is the same in all of them. It is found by tracing words, and many plans are drawn
        whose edges nobody asks for."""
        return frozenset(_edges(self.program, self.places))


def _plan(program: Program, n_heads: int = 0, seed: int | None = None) -> Plan:
    """The plan that makes each variable as early as what it reads allows.

    Args:
        n_heads: the number of heads in a layer of the network.
        seed: the seed of the heads' places in their layer; without it they come first.
    """
    places: dict[Variable, _Place] = {}
    slots: dict[int, list[int]] = {}
    rng = None if seed is None else np.random.default_rng(seed)
    for variable in program.variables:
        before = max((places[source].after for source in variable.reads), default=0)
        if isinstance(variable, Tokens | Positions):
            places[variable] = _Place("embed", -1, 0)
        elif isinstance(variable, Select):
            layer = (before + 1) // 2
            heads = slots.setdefault(layer, [])
            free = [head for head in range(max(n_heads, len(heads) + 1)) if head not in heads]
            head = free[0] if rng is None else int(rng.choice(free))
            heads.append(head)
            places[variable] = _Place(f"L{layer}H{head}", layer, 2 * layer + 1)
        else:
            layer = before // 2
            places[variable] = _Place(f"L{layer} mlp", layer, 2 * layer + 2)
    ends = np.cumsum([variable.size for variable in places]).tolist()
    dims = {v: slice(end - v.size, end) for v, end in zip(places, ends, strict=True)}
    return Plan(
        program,
        places,
        dims,
        frozenset((layer, head) for layer, heads in slots.items() for head in heads),
        frozenset(p.layer for p in places.values() if p.sender.endswith("mlp")),
    )


def _edges(program: Program, places: Mapping[Variable, _Place]) -> set[tuple[str, str]]:
    """The edges that carry a difference: what is read there is not the same in all words of a
    length. It is looked at in some words of each length."""
    rng, symbols = np.random.default_rng(0), program.vocabulary.symbols
    differ: set[tuple[str, str]] = set()
    for length in range(1, program.longest + 1):
        words = [tuple(rng.choice(symbols, length).tolist()) for _ in range(WORDS)]
        first, *flows = (_read(program, places, word) for word in words)
        differ |= {
            edge
            for flow in flows
            for edge, values in flow.items()
            if np.abs(values - first[edge]).max() > 1e-9
        }
    return differ


def _read(
    program: Program, places: Mapping[Variable, _Place], word: Sequence[str]
) -> dict[tuple[str, str], np.ndarray]:
    """The values that pass each edge, (sender, receiver), on a word, side by side."""
    traced = program.trace(word)
    passed: dict[tuple[str, str], list[np.ndarray]] = {}
    for variable in program.variables:
        to = places[variable].sender
        inputs = [(source, to, traced[source.name]) for source in variable.reads]
        if isinstance(variable, Select):
            values = traced[variable.values.name] @ variable.linear
            inputs = [(variable.values, f"{to}.v", values)]
            if variable.keys and variable.queries and variable.match is not None:
                # Of a query counts which keys match it, of a key which queries it matches.
                match = variable.match.astype(float)
                queries, keys = traced[variable.queries.name], traced[variable.keys.name]
                inputs.append((variable.queries, f"{to}.q", queries @ match.T))
                inputs.append((variable.keys, f"{to}.k", keys @ match))
        for source, receiver, values in inputs:
            passed.setdefault((places[source].sender, receiver), []).append(values)
    verdict = program.verdict
    passed[places[verdict].sender, "logits"] = [traced[verdict.name]]
    return {edge: np.concatenate(parts, axis=1) for edge, parts in passed.items()}


def config_of(program: Program, heads: int = 0, spare: int = 0, units: int = 0) -> ModelConfig:
    """The shape of the network.

    Args:
        heads: heads more than the program needs in any layer.
        spare: dimensions of the stream that no variable has.
        units: hidden units more than the program needs in any layer.
    """
    planned = _plan(program)
    per_layer = [sum(layer == i for layer, _ in planned.heads) for i in range(planned.layers)]
    selects = [v for v in program.variables if isinstance(v, Select)]
    widths = [1 + (0 if v.keys is None else v.keys.size) for v in selects]
    hidden = [
        sum(_hidden(v) for v, p in planned.places.items() if p.sender == f"L{layer} mlp")
        for layer in range(planned.layers)
    ]
    positioned = any(isinstance(v, Positions) for v in program.variables)
    return ModelConfig(
        n_layers=planned.layers,
        n_heads=max(1, *per_layer) + heads,
        d_model=sum(v.size for v in planned.places) + spare,
        head_width=max([1, *widths]),
        value_width=max([1, *(v.size for v in selects)]),
        d_mlp=max(1, *hidden) + units,
        mask="bidirectional" if program.ahead else "causal",
        positions="learned" if positioned else "none",
        norm="none",
        act_fn="relu",
        n_ctx=REACH,
    )


def _hidden(variable: Variable) -> int:
    """Hidden units that a variable of an MLP needs."""
    if isinstance(variable, Table):
        return 2 * len(variable.rows)
    return 2 * len(variable.thresholds) if isinstance(variable, Steps) else 0


@torch.no_grad()
def compiled(
    program: Program, config: ModelConfig | None = None, seed: int | None = None
) -> tuple[HookedTransformer, Plan]:
    """A network in evaluation mode that computes the program, and its plan.

    Args:
        config: at least as large as ``config_of(program)``, which is the default.
        seed: as in ``_plan``.
    """
    config = config or config_of(program)
    planned = _plan(program, config.n_heads, seed)
    model = HookedTransformer(config, program.vocabulary).eval()
    for parameter in model.parameters():
        parameter.zero_()
    used = dict.fromkeys(range(config.n_layers), 0)
    for variable, place in planned.places.items():
        dims = planned.dims[variable]
        if isinstance(variable, Tokens):
            model.W_E[:, dims] = torch.eye(variable.size)
        elif isinstance(variable, Positions):
            assert model.pos_embed is not None
            model.pos_embed.weight[:, dims] = torch.eye(config.n_ctx)[:, : variable.size]
        elif isinstance(variable, Select):
            head = int(place.sender.rpartition("H")[2])
            attn = model.blocks[place.layer].attn
            assert isinstance(attn, Attention)
            _head(attn, head, variable, planned, program)
        else:
            mlp = model.blocks[place.layer].mlp
            assert isinstance(mlp, MLP)
            units = slice(used[place.layer], used[place.layer] + _hidden(variable))
            used[place.layer] = units.stop
            if isinstance(variable, Table):
                _table(mlp, units, variable, planned)
            else:
                assert isinstance(variable, Steps)
                _steps(mlp, units, variable, planned)
    verdict = planned.dims[program.verdict]
    model.W_U[verdict, END_ID] = 2 * VERDICT_LOGIT
    model.b_U[END_ID] = -VERDICT_LOGIT
    return model, planned


def _head(attn: Attention, head: int, variable: Select, planned: Plan, program: Program) -> None:
    dims = planned.dims[variable]
    attn.W_V[head, planned.dims[variable.values], : variable.size] = _tensor(variable.linear)
    attn.W_O[head, : variable.size, dims] = torch.eye(variable.size)
    if variable.keys is None or variable.queries is None or variable.match is None:
        return  # queries and keys are zero: an even mean
    keys, sharp = variable.keys.size, SHARP / attn.scale
    match = _tensor(variable.match.astype(float))
    attn.W_K[head, planned.dims[variable.keys], :keys] = torch.eye(keys)
    attn.W_Q[head, planned.dims[variable.queries], :keys] = sharp * match.T
    # BOS, half as good as a match: where to rest without one. Where BOS is a match it stays one.
    tokens = next(v for v in planned.dims if isinstance(v, Tokens))
    attn.W_K[head, planned.dims[tokens].start + BOS_ID, keys] = 1
    attn.b_Q[head, keys] = sharp / 2
    if isinstance(variable.keys, Tokens | Positions):
        attn.W_Q[head, planned.dims[variable.queries], keys] = -sharp / 2 * match[0]


def _table(mlp: MLP, units: slice, variable: Table, planned: Plan) -> None:
    pairs = torch.arange(units.start, units.stop).view(-1, 2)
    for pair, (values, out) in zip(pairs, variable.rows.items(), strict=True):
        for source, value in zip(variable.inputs, values, strict=True):
            mlp.W_in[planned.dims[source].start + value, pair] += STEEP
        _step(mlp, pair, STEEP * (len(variable.inputs) - 0.5), out, planned.dims[variable])


def _steps(mlp: MLP, units: slice, variable: Steps, planned: Plan) -> None:
    pairs = torch.arange(units.start, units.stop).view(-1, 2)
    dims = planned.dims[variable]
    for pair, threshold, gap, out in zip(
        pairs, variable.thresholds, variable.gaps, variable.out, strict=True
    ):
        for source, weight in variable.weights.items():
            mlp.W_in[planned.dims[source], pair] = _tensor(weight)[:, None] / gap
        _step(mlp, pair, threshold / gap, out, dims)
    mlp.b_out[dims] = _tensor(variable.start)


def _step(mlp: MLP, pair: Tensor, threshold: float, out: object, dims: slice) -> None:
    """relu(s + 1/2) - relu(s - 1/2) is 0 up to 1/2 below a threshold and 1 from 1/2 above it."""
    mlp.b_in[pair] = -threshold + torch.tensor([0.5, -0.5])
    mlp.W_out[pair, dims] = torch.tensor([[1.0], [-1.0]]) * _tensor(out)


def _tensor(values: object) -> Tensor:
    return torch.as_tensor(np.asarray(values, dtype=np.float32))
