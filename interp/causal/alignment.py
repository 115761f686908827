"""Alignment: does a subspace of an activation hold a variable, with all of its values?

Distributed alignment search, DAS (Geiger et al. 2024), trains the subspace. A word, the base, gets
another word's part of the activation in the subspace. A causal model of the task says what is right
then: the base goes on as if it had the other word's value. The answers are sets of tokens at one
position or several, the subspace may have several dimensions, and several variables may have
subspaces that are orthogonal to each other.

DAS fits arbitrary targets and finds effects in untrained models (Arora et al. 2024). So every
control may choose its own best site, on other cases than those that are reported.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from itertools import chain
from typing import cast

import numpy as np
import pandas as pd
import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor, nn
from torch.nn.functional import binary_cross_entropy_with_logits, cross_entropy
from torch.nn.utils.parametrizations import orthogonal

from interp.adam import Adam
from interp.model import HookedModel, activations, require_stream
from interp.statistics import crossed_bootstrap

EPOCHS, BATCH, RATE = 8, 32, 0.05
DRAWS = 2  # of random subspaces
ROWS = 32  # the most cases in a forward pass without gradients


@dataclass(frozen=True)
class Cases:
    """Pairs of a base, whose activations are changed, and a source, from which the change comes.

    At position ``to`` the activation of the base moves by ``weight`` times the difference between
    the source's activation at ``put`` and the base's own at ``taken``, as far as this difference
    lies in the subspace. With ``taken`` equal to ``to`` and weight 1 this is an exchange.

    Attributes:
        base, source: token ids with BOS; row i of both is a case.
        units: the numbers of the units from which base and source of each case were drawn. The
            cases of one unit are not independent of each other.
        to, put, taken, weight: see above; ``to`` is -1 where a case has fewer steps than others.
        read: True at the positions of the base where answers are read.
        target: True for the answers that would be right at these positions.
        answers: the tokens that are judged.
        part: the number of the variable that is exchanged, from 0 on.
        alone: each answer is judged alone, by the sign of its logit; else one answer is right, and
            its logit should be the largest, as in a language model.
    """

    base: Int[Tensor, "case pos"]
    source: Int[Tensor, "case source_pos"]
    units: Int[np.ndarray, "case 2"]
    to: Int[Tensor, "case step"]
    put: Int[Tensor, "case step"]
    taken: Int[Tensor, "case step"]
    weight: Float[Tensor, "case step"]
    read: Bool[Tensor, "case pos"]
    target: Bool[Tensor, "case pos answer"]
    answers: Int[Tensor, " answer"]
    part: Int[Tensor, " case"]
    alone: bool = True

    @classmethod
    def exchange(
        cls,
        base: Int[Tensor, "case pos"],
        source: Int[Tensor, "case source_pos"],
        to: Int[Tensor, "case step"],
        put: Int[Tensor, "case step"],
        at: Int[Tensor, " case"],
        target: Bool[Tensor, "case answer"],
        answers: Int[Tensor, " answer"],
        *,
        alone: bool = True,
    ) -> Cases:
        """The exchange of one variable between pairs that are independent of each other, read at
        the position ``at`` of each base."""
        read = torch.arange(base.shape[1]) == at[:, None]
        right = read[..., None] & target[:, None]
        units = np.arange(2 * len(base)).reshape(-1, 2)
        weight, part = torch.ones(to.shape), torch.zeros(len(base), dtype=torch.long)
        return cls(base, source, units, to, put, to, weight, read, right, answers, part, alone)

    def loss(
        self, logits: Float[Tensor, "read answer"], target: Bool[Tensor, "read answer"]
    ) -> Float[Tensor, ""]:
        """The loss of logits against the targets, in nats."""
        against = binary_cross_entropy_with_logits if self.alone else cross_entropy
        return against(logits, target.to(logits))

    def right(
        self, logits: Float[Tensor, "*place answer"], target: Bool[Tensor, "*place answer"]
    ) -> Bool[Tensor, "*place"]:
        """Where the answers are the targets."""
        if self.alone:
            return ((logits > 0) == target).all(dim=-1)
        return target.gather(-1, logits.argmax(dim=-1, keepdim=True)).squeeze(-1)

    def __len__(self) -> int:
        return len(self.base)


Way = Callable[[Float[Tensor, "case pos d"], Int[Tensor, " case"]], Float[Tensor, "case pos d"]]
"""The vector added to an activation, from the whole displacement and the variable's number."""


def aligned(
    model: HookedModel,
    hook: str,
    cases: Cases,
    moved: Float[Tensor, "case pos d"],
    rank: int,
    seed: int = 0,
    epochs: int = EPOCHS,
) -> Float[Tensor, "d columns"]:
    """Trains a subspace such that the exchange gives the targets of the cases.

    Args:
        model: in evaluation mode; its parameters stay as they are.
        hook: the name of a hook on [batch, pos, d].
        moved: the ``displacements`` of the cases there.
        rank: number of dimensions of each variable.
        seed: seed of the first subspace and of the order of the cases.
        epochs: number of times that each case is seen.

    Returns:
        An orthonormal basis. Variable i has the columns from i * rank on.
    """
    columns = rank * (int(cases.part.max()) + 1)
    generator = torch.Generator().manual_seed(seed)
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        subspace = orthogonal(nn.Linear(columns, moved.shape[-1], bias=False))
    basis = partial(getattr, subspace, "weight")  # it is made anew after every step
    optimizer = Adam(subspace.parameters(), lr=RATE)
    batches = list(torch.argsort(_ends(cases), stable=True).split(BATCH))  # of about one length
    with _frozen(model):
        for _ in range(epochs if moved.any() else 0):
            for number in torch.randperm(len(batches), generator=generator).tolist():
                rows = batches[number]
                optimizer.zero_grad()
                added = within(basis(), rank)(moved[rows], cases.part[rows])
                logits, read = _answers(model, hook, cases, rows, added)
                target = cases.target[rows, : read.shape[1]][read]
                torch.autograd.backward(cases.loss(logits[read.to(logits.device)], target))
                optimizer.step()
    trained: Tensor = basis().detach()
    return trained


def exchanged(
    model: HookedModel,
    hooks: Sequence[str],
    fit: Cases,
    tests: Mapping[str, Cases],
    ranks: Sequence[int] = (1,),
    *,
    controls: bool = True,
    seed: int = 0,
    report: Callable[[str], None] = lambda hook: None,
) -> pd.DataFrame:
    """Trains subspaces at each hook on some cases, and tests them and the controls on others.

    The methods are "DAS" (the trained subspace), and as controls "none" (nothing is exchanged),
    "random subspace" (exchange in a random subspace of the same rank; the activation moves as far
    as with DAS) and "whole activation" (everything is exchanged).

    Args:
        fit: the cases on which subspaces are trained.
        tests: other cases, by name. Each is moved in its own way.
        ranks: the numbers of dimensions that are tried.
        controls: test the controls too.
        seed: seed of the training; the random subspaces have seeds of their own.
        report: is called with each hook before it is tried.

    Returns:
        One row per hook, rank, method, test and variable: hook, method, amount (the rank), test,
        part (the number of the variable), value (the share of cases in which every answer at every
        position is the target), low, high (95%, see ``interp.statistics.crossed_bootstrap``),
        cases, units (how many different ones are among bases and sources).

    Raises:
        ValueError: the model lacks a hook, or a change there would not stay in the stream.
    """
    for hook in hooks:
        require_stream(model, hook)
    fits = displacements(model, hooks, fit)
    whole = {name: displacements(model, hooks, cases) for name, cases in tests.items()}
    tables = []
    for hook in hooks:
        report(hook)
        trials = _trials(model, hook, fit, fits[hook], ranks, controls, seed)
        for name, cases in tests.items():
            moved = whole[name][hook]
            still = not moved.any()  # nothing moves, whatever is exchanged
            right = np.zeros((len(cases), len(trials)))
            for column, (_, _, ways) in enumerate(trials):
                if still and column:
                    right[:, column] = right[:, 0]
                else:
                    tried = [answered(model, hook, cases, moved, way) for way in ways]
                    right[:, column] = np.mean(tried, axis=0)
            for part in range(int(fit.part.max()) + 1):
                there = (cases.part == part).numpy()
                units = cases.units[there]
                value, low, high = crossed_bootstrap(right[there], units)
                about = {"hook": hook, "test": name, "part": part}
                about |= {"cases": int(there.sum()), "units": len(np.unique(units))}
                table = pd.DataFrame([trial[:2] for trial in trials], columns=["method", "amount"])
                tables.append(table.assign(value=value, low=low, high=high, **about))
    return pd.concat(tables, ignore_index=True)


def _trials(
    model: HookedModel,
    hook: str,
    fit: Cases,
    moved: Float[Tensor, "case pos d"],
    ranks: Sequence[int],
    controls: bool,
    seed: int,
) -> list[tuple[str, int, list[Way]]]:
    """The methods at a hook, each with its dimensions and its ways to move an activation."""
    d, parts = moved.shape[-1], int(fit.part.max()) + 1
    trials: list[tuple[str, int, list[Way]]] = []
    if controls:
        trials += [("none", 0, [_nothing]), ("whole activation", d, [lambda moved, part: moved])]
    for rank in ranks:
        way = within(aligned(model, hook, fit, moved, rank, seed), rank)
        trials.append(("DAS", rank, [way]))
        if controls:
            bases = [_random_basis(d, rank * parts, draw) for draw in range(DRAWS)]
            others = [_as_far(way, within(basis, rank)) for basis in bases]
            trials.append(("random subspace", rank, others))
    return trials


@torch.no_grad()
def answered(
    model: HookedModel, hook: str, cases: Cases, moved: Float[Tensor, "case pos d"], way: Way
) -> Bool[np.ndarray, " case"]:
    """In which cases every answer at every position read is the target."""
    right = torch.zeros(len(cases), dtype=torch.bool)
    for rows in torch.argsort(_ends(cases), stable=True).split(ROWS):
        logits, read = _answers(model, hook, cases, rows, way(moved[rows], cases.part[rows]))
        same = cases.right(logits.cpu(), cases.target[rows, : read.shape[1]])
        right[rows] = (same | ~read).all(dim=-1)
    return right.numpy()


def displacements(
    model: HookedModel, hooks: Sequence[str], cases: Cases
) -> dict[str, Float[Tensor, "case pos d"]]:
    """The move of each activation of the bases if everything is exchanged, by hook."""
    bases, sources = (
        activations(model, tokens.to(_device(model)), hooks)
        for tokens in (cases.base, cases.source)
    )
    case, step = (cases.to >= 0).nonzero(as_tuple=True)
    put, taken = (at[case, step] for at in (cases.put, cases.taken))
    moves = {}
    for hook, base in bases.items():
        by = cases.weight[case, step, None].to(base)
        moves[hook] = torch.zeros_like(base)
        there = by * (sources[hook][case, put] - base[case, taken])
        moves[hook][case, cases.to[case, step]] = there
    return moves


def _nothing(
    moved: Float[Tensor, "case pos d"], part: Int[Tensor, " case"]
) -> Float[Tensor, "case pos d"]:
    return torch.zeros_like(moved)


def within(basis: Float[Tensor, "d columns"], rank: int) -> Way:
    """The part of a displacement in the subspace of the variable that is exchanged."""
    number = torch.arange(basis.shape[1]) // rank

    def way(
        moved: Float[Tensor, "case pos d"], part: Int[Tensor, " case"]
    ) -> Float[Tensor, "case pos d"]:
        columns, mask = basis.to(moved), (number == part[:, None])[:, None].to(moved)
        return ((moved @ columns) * mask) @ columns.T

    return way


def _random_basis(d: int, columns: int, seed: int) -> Float[Tensor, "d columns"]:
    """An orthonormal basis of a random subspace."""
    drawn = torch.randn(d, columns, generator=torch.Generator().manual_seed(seed))
    return torch.linalg.qr(drawn)[0]


def _as_far(way: Way, other: Way) -> Way:
    """``other``, rescaled to the length that ``way`` moves: the control moves as far as DAS."""

    def added(
        moved: Float[Tensor, "case pos d"], part: Int[Tensor, " case"]
    ) -> Float[Tensor, "case pos d"]:
        far, drawn = way(moved, part).norm(dim=-1, keepdim=True), other(moved, part)
        return drawn * far / drawn.norm(dim=-1, keepdim=True).clamp_min(1e-8)

    return added


def _ends(cases: Cases) -> Int[Tensor, " case"]:
    """The last position of each base where an answer is read."""
    position = torch.arange(cases.read.shape[1])
    return torch.where(cases.read, position, -1).max(dim=1).values


def _answers(
    model: HookedModel,
    hook: str,
    cases: Cases,
    rows: Int[Tensor, " some"],
    added: Float[Tensor, "some pos d"],
) -> tuple[Float[Tensor, "some shorter answer"], Bool[Tensor, "some shorter"]]:
    """The logits of the answers of some cases, and where they are read.

    What stands behind the last of these positions is left out, unless the model sees it.
    """
    ahead = getattr(model.cfg, "attention_dir", "causal") == "bidirectional"
    stop = None if ahead else int(_ends(cases)[rows].max()) + 1

    def change(x: Tensor, hook: object) -> Tensor:
        return x + added[:, : x.shape[1]].to(x)

    tokens = cases.base[rows, :stop].to(_device(model))
    logits = model.run_with_hooks(tokens, fwd_hooks=[(hook, change)])
    return logits[..., cases.answers.to(logits.device)], cases.read[rows, :stop]


@contextmanager
def _frozen(model: HookedModel) -> Iterator[None]:
    """The parameters ask for no gradient meanwhile."""
    asking = [weight for weight in cast(nn.Module, model).parameters() if weight.requires_grad]
    try:
        for weight in asking:
            weight.requires_grad_(False)
        yield
    finally:
        for weight in asking:
            weight.requires_grad_(True)


def _device(model: HookedModel) -> torch.device:
    weights = cast(nn.Module, model)
    return next(chain(weights.parameters(), weights.buffers(), [torch.zeros(0)])).device
