"""Interchanging: is one direction of an activation all that a hidden variable is there?

Distributed alignment search (Geiger et al. 2024) with TransformerLens: a direction is trained so
that a word with the part of another word's activation along it is judged as the language would with
the variable of the other word.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass

import numpy as np
import pandas as pd
import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from analyses.questions.erasing import main_variables, stream_hooks
from analyses.words import ANALYSIS_SEED, sample_window
from interp.statistics import bootstrap_mean
from models.base import LanguageModel
from models.languages import END_ID, Vocabulary, Word
from models.languages.counting import CountingLanguage
from models.runs.run import Run

LONGEST = 40  # symbols of a prefix: every step of the training runs a batch of them
EPOCHS, BATCH, RATE = 10, 48, 0.03
HELD_OUT = 256  # pairs
DRAWS = 4  # of random directions


Row = dict[str, str | int | float]


@dataclass(frozen=True)
class Prefixes:
    """Different prefixes of words.

    Attributes:
        words: none of them breaks the language, after which no variable has a meaning.
        values: of the main variables after each.
        ends: may the word end there?
    """

    words: list[Word]
    values: dict[str, Int[np.ndarray, " prefix"]]
    ends: Bool[np.ndarray, " prefix"]

    @classmethod
    def of(cls, run: Run, seed: int) -> Prefixes:
        """Of fresh words of the window; of a counting language those that reach the last block."""
        language = run.language
        words = sample_window(run, 400, seed).words
        traced, allowed = language.trace(words), language.allowed(words)
        position = np.arange(words.tokens.shape[1])
        kept = (position > 0) & (position <= np.minimum(words.lengths, LONGEST)[:, None])
        kept &= traced["valid"] == 1
        if isinstance(language, CountingLanguage):
            kept &= traced["block"] == language.blocks - 1
        places = {tuple(words.ids[w, :p].tolist()): (w, p) for w, p in np.argwhere(kept)}
        at = tuple(np.array(list(places.values())).reshape(-1, 2).T)
        values = {name: traced[name][at] for name in main_variables(language)}
        return cls(
            [language.vocabulary.decode(ids) for ids in places], values, allowed[*at, END_ID]
        )

    def variable(self) -> str | None:
        """The first variable on which alone it hangs whether a word may end; None without one."""
        for name, value in self.values.items():
            if not set(value[self.ends]) & set(value[~self.ends]):
                return name if 1 < self.ends.sum() < len(self.ends) - 1 else None
        return None

    def halves(self, seed: int) -> tuple[np.ndarray, np.ndarray]:
        """Two halves, which hold as many prefixes that may end."""
        order = np.random.default_rng([ANALYSIS_SEED, seed]).permutation(len(self.words))
        order = order[np.argsort(self.ends[order], kind="stable")]
        return order[::2], order[1::2]


@dataclass(frozen=True)
class Pairs:
    """Bases and sources, and whether the base may end with the variable of the source."""

    base: Int[Tensor, "pair pos"]
    source: Int[Tensor, "pair pos"]
    target: Int[Tensor, " pair"]

    @classmethod
    def of(
        cls, vocabulary: Vocabulary, found: Prefixes, among: np.ndarray, count: int, seed: int
    ) -> Pairs:
        """Pairs of the prefixes ``among``: either word may end in half of the cases.

        Where the variable decides alone, the base may end if the source may.
        """
        rng = np.random.default_rng([ANALYSIS_SEED, seed])
        sides = [among[found.ends[among] == end] for end in (False, True)]
        ends = rng.integers(2, size=(2, count))
        drawn = np.where(ends, *(rng.choice(side, (2, count)) for side in sides[::-1]))
        words = vocabulary.words([found.words[i] for i in drawn.ravel()]).tokens
        base, source = torch.as_tensor(words).chunk(2)
        return cls(base, source, torch.as_tensor(ends[1]))


def interchange(
    run: Run,
    models: Mapping[str, LanguageModel],
    pairs: int,
    seed: int,
    progress: Callable[[str], None] = lambda site: None,
) -> pd.DataFrame:
    """The rows of the experiment "interchange" in ``analyses.questions.interventions``.

    Empty where the end of a word hangs on no variable alone.
    """
    found = Prefixes.of(run, seed)
    variable = found.variable()
    if variable is None:
        return pd.DataFrame()
    fit, test = (
        Pairs.of(run.language.vocabulary, found, side, count, seed)
        for side, count in zip(found.halves(seed), (pairs, HELD_OUT), strict=True)
    )
    rows = []
    for name, model in models.items():
        for site, hook in stream_before(model).items():
            progress(f"{site}, {name} model")
            for method, rank, right in _interchanged(model, hook, fit, test, seed):
                row: Row = {"model": name, "site": site, "variable": variable, "method": method}
                row |= {"amount": rank, "measure": "as predicted", "words": len(right)}
                numbers = map(float, bootstrap_mean(right))
                rows.append(row | dict(zip(("value", "low", "high"), numbers, strict=True)))
    return pd.DataFrame(rows)


def stream_before(model: LanguageModel) -> dict[str, str]:
    """The sites of the stream but the last, from which the logits are read off.

    What leaves a block goes by the hook of what enters the next: a recurrent network calls those of
    its states at every position, and TransformerLens asks for one call.
    """
    last = model.cfg.n_layers - 1
    hooks = {label: hook for label, hook in stream_hooks(model).items() if "cell" not in label}
    del hooks[f"L{last} resid_post"]
    for layer in range(last):
        hooks[f"L{layer} resid_post"] = f"blocks.{layer + 1}.hook_resid_pre"
    return hooks


def _interchanged(
    model: LanguageModel, hook: str, fit: Pairs, test: Pairs, seed: int
) -> Iterator[tuple[str, int, Float[np.ndarray, " pair"]]]:
    """By method the rank, and which of the held-out pairs are judged as predicted."""
    from transformer_lens.tools.analysis.interchange import (  # here: it brings every architecture
        Intervention,
        NormMatchedPlacebo,
        SubspaceInterchange,
        collect_activations,
        fit_das,
        intervened_logits,
        random_basis,
    )

    def read_at(tokens: Int[Tensor, "batch pos"]) -> Int[Tensor, " batch"]:
        return model.verdict_positions((tokens[:, 1:] != END_ID).sum(dim=1))  # padded with END

    def task(tokens: Int[Tensor, "batch pos"]) -> Float[Tensor, "batch 2"]:
        logit = model(tokens)[torch.arange(len(tokens)), read_at(tokens), END_ID]
        return torch.stack([torch.zeros_like(logit), logit], dim=1)

    learned = fit_das(
        model,
        hook,
        fit.base,
        fit.source,
        fit.target,
        task,
        rank=1,
        base_positions=read_at(fit.base),
        source_positions=read_at(fit.source),
        epochs=EPOCHS,
        batch_size=BATCH,
        lr=RATE,
        seed=seed,
    )
    d = len(learned.basis)
    source = collect_activations(model, hook, test.source, task, positions=read_at(test.source))
    step = SubspaceInterchange(learned.basis)
    bases = [random_basis(d, 1, seed) for seed in range(DRAWS)]
    ways: dict[str, tuple[int, list[Intervention]]] = {
        "none": (0, [SubspaceInterchange(learned.basis, 0.0)]),
        "DAS": (1, [step]),
        "placebo": (1, [NormMatchedPlacebo(step, basis) for basis in bases]),
        "random direction": (1, [SubspaceInterchange(basis) for basis in bases]),
        "whole activation": (d, [SubspaceInterchange(torch.eye(d))]),
    }
    for method, (rank, steps) in ways.items():
        right = [
            intervened_logits(
                model, hook, each, test.base, source, task, positions=read_at(test.base)
            ).argmax(dim=1)
            == test.target
            for each in steps
        ]
        yield method, rank, torch.stack(right).double().mean(dim=0).numpy()
