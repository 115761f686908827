"""Dictionaries of one site of a run, and of its untrained control, scored against the truth."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import numpy as np
import pandas as pd
import torch
from jaxtyping import Float
from torch import Tensor

from analyses.options.inside import DictionaryKind
from analyses.questions.inside.dictionaries.truth import Truth
from interp.dictionaries.clamping import Clamped, Clamps
from interp.dictionaries.dictionary import Dictionary, live
from interp.dictionaries.peers import (
    axes,
    clusters,
    drawn,
    independent,
    neurons,
    oracle,
    principal,
)
from interp.dictionaries.scores import (
    Readers,
    absorption,
    best_f1,
    chance_f1,
    chance_mcc,
    mcc,
    splitting,
    stability,
    variance_explained,
)
from interp.dictionaries.training import Recipe, trained
from interp.model import activations
from interp.statistics import seeds_interval
from models.base import LanguageModel
from models.errors import UserError
from models.transformer.mlp import MLP

CHANCE = "chance"
MEASURES = ("F1", "MCC", "splitting", "absorption", "stability", "cause", "variance", "L0")


@dataclass(frozen=True)
class Seen:
    """The activations of a model at one hook.

    Attributes:
        fit, score: those at the positions of both halves of the words.
        choosing, clamps: those at the moved positions of the cases; empty where there are none.
    """

    fit: Float[Tensor, "n d"]
    score: Float[Tensor, "m d"]
    choosing: Float[Tensor, "case d"]
    clamps: Float[Tensor, "other d"]

    @classmethod
    def at(cls, model: LanguageModel, hook: str, truth: Truth) -> Seen:
        x = activations(model, truth.words.tokens, [hook])[hook]
        if x.ndim != 3:
            raise UserError(
                f"{hook} has {x.ndim - 1} axes beside the words: choose a --site whose activations "
                "are one vector at each position, such as blocks.0.hook_resid_post"
            )
        cases = [_moved(model, hook, part, x.shape[2]) for part in (truth.choosing, truth.clamps)]
        return cls(x[truth.fit.at], x[truth.score.at], *cases)


def _moved(model: LanguageModel, hook: str, clamps: Clamps | None, d: int) -> Tensor:
    if clamps is None:
        return torch.zeros(0, d)
    x = activations(model, clamps.tokens, [hook])[hook]
    return x[torch.arange(len(clamps)), clamps.at]


@dataclass(frozen=True)
class Made:
    """Dictionaries of one kind.

    Attributes:
        kind: its name.
        width: the number of latents that was asked for.
        dictionaries: one for each seed, or a single one that no seed changes.
        reads: the activations that they encode.
    """

    kind: str
    width: int
    dictionaries: Sequence[Dictionary]
    reads: Seen


@dataclass(frozen=True)
class Site:
    """A site where dictionaries are looked for, and what is asked of them.

    Attributes:
        model: the trained one, or its control.
        hook: the output of the dictionaries.
        truth: the truth of the words.
        seen: the activations at the hook.
        recipe: the training of the dictionaries; kind and width are put in.
        seeds: a seed for each dictionary.
    """

    model: LanguageModel
    hook: str
    truth: Truth
    seen: Seen
    recipe: Recipe
    seeds: Sequence[int]

    def made(self, kind: DictionaryKind, width: int, told: Callable[[int], None]) -> Made:
        """Sparse dictionaries: an autoencoder, or a transcoder of the MLP that writes here."""
        if kind == "transcoder":
            recipe = replace(self.recipe, kind="topk", width=width)
            reads = Seen.at(self.model, reads_of(self.hook), self.truth)
            dictionaries = trained(reads.fit, recipe, self.seeds, self.seen.fit, told)
            return Made(kind, width, dictionaries, reads)
        recipe = replace(self.recipe, kind=kind, width=width)
        dictionaries = trained(self.seen.fit, recipe, self.seeds, progress=told)
        return Made(kind, width, dictionaries, self.seen)

    def peers(self, width: int) -> list[Made]:
        """The same activations, in older ways and without learning."""
        x, active = self.seen.fit, self.recipe.active
        several = {
            "ICA": [independent(x, width, seed) for seed in self.seeds],
            "k-means": [clusters(x, width, seed) for seed in self.seeds],
            "random": [drawn(x, width, active, seed) for seed in self.seeds],
        }
        made = [Made("PCA", width, [principal(x, width)], self.seen)]
        made += [Made(kind, width, group, self.seen) for kind, group in several.items()]
        made.append(self._neurons(width))
        if self.truth.directions is not None and self.truth.signed is not None:
            ideal = oracle(x, self.truth.directions, self.truth.signed)
            made.append(Made("oracle", width, [ideal], self.seen))
        return made

    def _neurons(self, width: int) -> Made:
        """The hidden units of the MLP that writes here; elsewhere the axes of the activation."""
        if self.hook.endswith("hook_mlp_out"):
            name = self.hook.replace("hook_mlp_out", "mlp")
            mlp = self.model.get_submodule(name)
            if isinstance(mlp, MLP):
                units = neurons(mlp.W_out.detach(), mlp.b_out.detach())
                reads = Seen.at(self.model, f"{name}.hook_post", self.truth)
                return Made("neurons", width, [units], reads)
        return Made("neurons", width, [axes(self.seen.fit)], self.seen)

    def rows(self, made: Made, name: str, causal: bool) -> list[dict[str, object]]:
        """The scores of dictionaries as rows of the table: one for each measure.

        Args:
            name: the model's name.
            causal: whether directions and moves mean anything: the model was trained.
        """
        results = [self._scores(one, made.reads, causal) for one in made.dictionaries]
        alive = [d.directions[live(d.encode(made.reads.fit))] for d in made.dictionaries]
        stabilities = stability(alive) if len(self.seeds) > 1 else [np.nan] * len(alive)
        for scores, value in zip(results, stabilities, strict=True):
            scores["stability"] = value
        rows = []
        for measure in MEASURES:
            values = np.array([scores[measure] for scores in results])
            value, low, high = (
                seeds_interval(values) if len(values) > 1 else (values[0], *2 * [np.nan])
            )
            width = len(made.dictionaries[0].directions)
            row = {"model": name, "kind": made.kind, "width": made.width, "latents": width}
            rows.append(row | {"measure": measure, "value": value, "low": low, "high": high})
            rows[-1]["seeds"] = len(values)
        return rows

    def _scores(self, one: Dictionary, reads: Seen, causal: bool) -> dict[str, float]:
        truth = self.truth
        facts, new_facts = (torch.as_tensor(half.facts) for half in (truth.fit, truth.score))
        codes, new = one.encode(reads.fit), one.encode(reads.score)
        readers = Readers.of(codes, facts)
        scores = {
            "F1": float(best_f1(readers, new, new_facts).mean()),
            "MCC": float("nan"),
            "splitting": float(splitting(readers, codes, facts).float().mean()),
            "absorption": float(absorption(readers, (codes, facts), new, new_facts).mean()),
            "cause": float("nan"),
            "variance": variance_explained(one, new, self.seen.score),
            "L0": float((new > 0).sum(dim=1).float().mean()),
        }
        if causal and (wanted := self.wanted) is not None:
            scores["MCC"] = mcc(one.directions[live(codes)], wanted)
        if causal and truth.choosing is not None and truth.clamps is not None:
            tried, scored = (
                Clamped(self.model, self.hook, one, clamps, one.encode(at))
                for clamps, at in (
                    (truth.choosing, reads.choosing),
                    (truth.clamps, reads.clamps),
                )
            )
            scores["cause"] = scored.cause(tried.handles(readers, codes, facts))
        return scores

    @property
    def wanted(self) -> Float[Tensor, "known d"] | None:
        """The directions that a perfect dictionary has; None if they are not known."""
        truth = self.truth
        if truth.directions is None or truth.signed is None or truth.varies is None:
            return None
        both = truth.directions[truth.varies], truth.directions[truth.varies & truth.signed]
        return torch.cat([both[0], -both[1]])

    def chance(self, width: int) -> list[dict[str, object]]:
        """The scores of no knowledge: always yes, random directions, and no move."""
        scores = {
            "F1": float(chance_f1(torch.as_tensor(self.truth.score.facts)).mean()),
            "MCC": float("nan") if self.wanted is None else chance_mcc(self.wanted, width),
            "cause": 0.5 if self.truth.clamps is not None else float("nan"),
        }
        row = {"model": CHANCE, "kind": CHANCE, "width": width, "latents": width, "seeds": 0}
        nothing = {"low": float("nan"), "high": float("nan")}
        return [row | {"measure": name, "value": value} | nothing for name, value in scores.items()]


def reads_of(hook: str) -> str:
    """The input of the MLP that writes at a hook, before the gain of its norm: a hook itself.

    Raises:
        UserError: no MLP writes there.
    """
    if not hook.endswith(".hook_mlp_out"):
        raise UserError(
            f"a transcoder says what an MLP writes, and {hook} is something else: choose --site "
            "blocks.0.hook_mlp_out, or leave the transcoder out of --kinds"
        )
    return hook.replace("hook_mlp_out", "ln2.hook_normalized")


COLUMNS = ["model", "kind", "width", "latents", "measure", "value", "low", "high", "seeds"]


def as_table(rows: Sequence[dict[str, object]]) -> pd.DataFrame:
    """The rows with their columns in order."""
    return pd.DataFrame(rows)[COLUMNS]
