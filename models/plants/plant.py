"""Networks whose wiring is known: a program, compiled, hidden behind dials, and tried on all words.

A plant is drawn afresh for every seed: nobody can tune a lens to it. On disk it is an
ordinary run, and beside it lies its plan:

    RUN/plan.json     which part computes what, along which direction, and which parts are idle
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, fields
from pathlib import Path
from typing import Any

import numpy as np
import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from models.config import TrainConfig
from models.errors import UserError, unknown
from models.languages.grammars.bounded import BOUNDED
from models.languages.vocabulary import BOS_ID, END_ID
from models.plants.compiler import VERDICT_LOGIT, Plan, compiled, config_of
from models.plants.dials import JUNK, UNITS, add_decoys, add_noise, restreamed, stream_of
from models.plants.program import Program, twice
from models.plants.programs import PROGRAMS
from models.plants.record import PLAN
from models.plants.settings import Dials
from models.runs.files import as_json
from models.runs.run import Run
from models.transformer.model import HookedTransformer

Progress = Callable[[int, int, str], None]
"""Called with (done, total, what is being done)."""
PLAIN = Dials()
DRAWS = 5
"""The draws of the dials. If a verdict is wrong each time, they are turned down."""
LEAST = 0.1
"""END's logit must lie at least so far from zero in every word."""
STEADY = (3.0, 4.5, 6.0, 9.0, 13.0, 20.0, 30.0, 45.0, 70.0, 100.0)
"""Sizes of the constant that keeps a norm steady: the first with which all verdicts are right."""


@dataclass(frozen=True)
class Plant:
    """A network, and the truth about it.

    Attributes:
        program: the program that it computes.
        model: the network, in evaluation mode.
        plan: which part computes what.
        directions: the directions of each variable in the stream; a row per dimension.
        dials: the dials that hide it; some may be weaker than what was asked for.
        seed: the seed of all draws.
        cancelling: (layer, head) of the heads that write opposite numbers.
        words: the number of words that were tried: all that its language's length allows.
        margin: the smallest distance of END's logit from zero among them.
    """

    program: Program
    model: HookedTransformer
    plan: Plan
    directions: Mapping[str, Float[Tensor, "_ d_model"]]
    dials: Dials
    seed: int
    cancelling: frozenset[tuple[int, int]]
    words: int
    margin: float

    @property
    def idle_heads(self) -> list[tuple[int, int]]:
        """(layer, head) of the heads that do nothing for the verdict."""
        config = self.model.config
        heads = [(i, head) for i in range(config.n_layers) for head in range(config.n_heads)]
        return [head for head in heads if head not in self.plan.heads]


def plant(
    name: str, dials: Dials = PLAIN, seed: int = 0, progress: Progress = lambda *_: None
) -> Plant:
    """A network that computes a program, right on all words of its language's length.

    Raises:
        UserError: there is no program of this name, or no draw of the dials is right on all words.
    """
    if name not in PROGRAMS:
        raise unknown("program", name, PROGRAMS)
    program = PROGRAMS[name]()
    if dials.copies != "one":
        program = twice(program, dials.copies)
    words = _AllWords.of(program)
    tries = [(weaker, draw) for weaker in dials.weaker() for draw in range(DRAWS)]
    for number, (weaker, draw) in enumerate(tries):
        progress(number, len(tries), "drawing, until all verdicts are right")
        generator = torch.Generator().manual_seed(_seed_of(seed, draw))
        base, planned, cancelling = _features(program, weaker, seed, generator)
        stream = stream_of(base.config.d_model, program, planned, weaker, generator)
        for steady in STEADY if dials.norm else (0.0,):
            model = restreamed(base, stream, steady)
            if weaker.noise:
                add_noise(model, weaker.noise, generator)
            margin = words.margin(model)
            if margin >= LEAST:
                progress(len(tries), len(tries), "planted")
                of = {v.name: stream.write[dims].float() for v, dims in planned.dims.items()}
                return Plant(
                    *(program, model, planned, of, weaker, seed, cancelling), *(words.count, margin)
                )
    raise UserError(f"{name} is not right on all words with these dials: turn some of them down")


def _seed_of(seed: int, draw: int) -> int:
    """A seed for each draw."""
    return int(np.random.default_rng([seed, draw]).integers(2**62))


def _features(
    program: Program, dials: Dials, seed: int, generator: torch.Generator
) -> tuple[HookedTransformer, Plan, frozenset[tuple[int, int]]]:
    """The network with a dimension for each feature: those of the variables, those of idle parts,
    and last the constant of a norm."""
    busy = dials.heads > 0
    spare = JUNK * busy + dials.norm
    config = config_of(program, dials.heads, spare, UNITS * (dials.decoys > 0))
    model, planned = compiled(program, config, seed)
    first = config.d_model - spare
    junk = slice(first, first + JUNK * busy)
    cancelling = frozenset[tuple[int, int]]()
    if busy:
        cancelling = add_decoys(model, planned, dials, junk, generator)
    return model, planned, cancelling


@dataclass(frozen=True)
class _AllWords:
    """All words that a program is for, with the truth.

    Attributes:
        tokens: the words with BOS, by length. The first batches are a few words of each length.
        members: whether each word is in the language.
        at: the position where the verdict is read: the first or the last one.
    """

    tokens: Sequence[Int[Tensor, "_ _"]]
    members: Sequence[Bool[Tensor, " _"]]
    at: int

    @classmethod
    def of(cls, program: Program) -> _AllWords:
        member, ids = BOUNDED[program.name].member, program.vocabulary.ids
        words: list[list[tuple[str, ...]]] = [[] for _ in range(program.longest)]
        for word in program.words():
            words[len(word) - 1].append(word)
        few = [some[:: max(1, len(some) // 20)] for some in words]
        batches = [*few, *words]
        return cls(
            [torch.tensor([[BOS_ID, *(ids[s] for s in word)] for word in b]) for b in batches],
            [torch.tensor([member(word) for word in some]) for some in batches],
            0 if program.ahead else -1,
        )

    @property
    def count(self) -> int:
        """The number of different words."""
        return sum(map(len, self.tokens[len(self.tokens) // 2 :]))

    @torch.no_grad()
    def margin(self, model: HookedTransformer) -> float:
        """The smallest distance of END's logit from zero on the right side; below zero it is that
        of a wrong verdict, and the words after it were not tried."""
        least = np.inf
        for tokens, members in zip(self.tokens, self.members, strict=True):
            logits = model(tokens)[:, self.at, END_ID]
            least = min(least, float(torch.where(members, logits, -logits).min()))
            if least < 0:
                break
        return least


# -- on disk --------------------------------------------------------------------------------------


def run_name(made: Plant, dials: Dials) -> str:
    """The name of the run's folder: program, dials that are not the default, seed."""
    turned = {
        field.name: getattr(dials, field.name)
        for field in fields(dials)
        if getattr(dials, field.name) != field.default
    }
    parts = [
        name if value is True else value if isinstance(value, str) else f"{name}-{value:g}"
        for name, value in turned.items()
    ]
    return "-".join([made.program.name, "plant", *parts, f"s{made.seed}"])


def in_words(made: Plant, dials: Dials) -> str:
    """A summary of the plant, with the dials that are weaker than was asked for."""
    config = made.model.config
    weaker = [
        f"{name} is {getattr(made.dials, name):g}, not {getattr(dials, name):g}"
        for name in ("superposed", "noise")
        if getattr(made.dials, name) != getattr(dials, name)
    ]
    text = (
        f"Right on all {made.words:,} words of up to {made.program.longest} symbols; END's logit "
        f"lies at least {made.margin:.2f} from zero. {config.n_layers} layers of {config.n_heads} "
        f"heads; the program uses {len(made.plan.heads)} heads. Its variables have "
        f"{sum(v.size for v in made.program.variables)} values and numbers, and the stream has "
        f"{config.d_model} dimensions."
    )
    return text + (f" With more it would err: {', '.join(weaker)}." if weaker else "")


def content(made: Plant) -> dict[str, Any]:
    """The plan as plan.json has it: parts, edges, variables with their directions, idle parts."""
    variables = [
        {
            "name": variable.name,
            "kind": type(variable).__name__.lower(),
            "made by": place.sender,
            "reads": [source.name for source in variable.reads],
            "directions": made.directions[variable.name].tolist(),
        }
        for variable, place in made.plan.places.items()
    ]
    return {
        "program": made.program.name,
        "rule": BOUNDED[made.program.name].rule,
        "seed": made.seed,
        "dials": asdict(made.dials),
        "heads": [f"L{layer}H{head}" for layer, head in sorted(made.plan.heads)],
        "mlps": [f"L{layer} mlp" for layer in sorted(made.plan.mlps)],
        "edges": sorted(map(list, made.plan.edges)),
        "variables": variables,
        "verdict": made.program.verdict.name,
        "idle heads": [f"L{layer}H{head}" for layer, head in made.idle_heads],
        "cancelling heads": [f"L{layer}H{head}" for layer, head in sorted(made.cancelling)],
        "words tried": made.words,
        "margin": made.margin,
        "logit of a verdict": VERDICT_LOGIT,
    }


def write(made: Plant, path: Path) -> Run:
    """Writes an ordinary run folder with the plan beside the weights.

    Raises:
        UserError: the folder exists, or cannot be written.
    """
    config = TrainConfig(
        language=made.program.name,
        seed=made.seed,
        max_n=made.program.longest,
        objective="verdict",
        steps=1,
        model=made.model.config,
    )
    return Run.create(path, config, model=made.model, beside={PLAN: as_json(content(made))})
