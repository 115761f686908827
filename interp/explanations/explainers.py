"""What did each symbol do for the model's verdict? Every method answers through one interface.

LIME and SHAP play a ``Game`` on binary masks of positions: LIME with ``bow=False``, SHAP's kernel
with ``l1_reg=False``; their defaults merge equal symbols and drop features. Gradients, attention
and direct logit attribution look inside the model at the same verdict; gradients at its log odds,
since a probability near 0 or 1 has none left. The controls know nothing, the position alone, the
published rationale, or the language itself.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from itertools import combinations
from typing import Any, Literal

import numpy as np
import pandas as pd
import torch
from jaxtyping import Float, Int
from scipy.cluster.hierarchy import linkage
from torch import Tensor

from interp.causal.metrics import Metric, logit_at
from interp.explanations import saliency
from interp.explanations.games import EXACT_LIMIT, Game, exact_shapley, leave_one_out
from interp.explanations.scores import agreement
from interp.explanations.uncompiled import shap
from interp.heads.attention import attention
from interp.heads.logit_attribution import direct_by_position
from interp.heads.rollout_and_flow import flow, rollout
from interp.model import HookedModel, ReadableModel

Values = Float[np.ndarray, " time"]
Family = Literal["LIME and SHAP", "intervention", "gradient", "attention", "control"]


@dataclass(frozen=True)
class Case:
    """One verdict of a model, and all that a method may look at to explain it.

    Attributes:
        game: whose score is the probability of "in the language".
        model: looked into by gradients and attention.
        token: whose logit is the verdict.
        at: where the logit is read; BOS is position 0.
        symbols: the token ids that words are made of.
        truth: the game of the language's own membership, under the same replacements.
        rationale: the 0-based positions that decide, by a published rule.
        samples: coalitions that a sampling method may ask for.
        bos: the token before every word.
    """

    game: Game
    model: HookedModel
    token: int
    at: int
    symbols: Int[np.ndarray, " symbol"]
    truth: Game | None = None
    rationale: tuple[int, ...] | None = None
    samples: int = 512
    bos: int = 0

    @property
    def metric(self) -> Metric:
        """The log odds of the verdict."""
        return logit_at(self.token, self.at)

    @property
    def word(self) -> Int[Tensor, " pos"]:
        """BOS first."""
        return self._tokens(self.game.word)

    @property
    def baselines(self) -> Int[Tensor, "draws pos"]:
        """The word with every symbol hidden, BOS first."""
        return self._tokens(self.game.replacements)

    def _tokens(self, ids: Int[np.ndarray, "*any time"]) -> Int[Tensor, "*any pos"]:
        width = [(0, 0)] * (ids.ndim - 1) + [(1, 0)]
        device = getattr(self.model, "device", None)
        return torch.as_tensor(np.pad(ids, width, constant_values=self.bos), device=device)


# -- LIME and SHAP --------------------------------------------------------------------------------


def lime(game: Game, samples: int = 512, seed: int = 0) -> Values:
    """``LimeTextExplainer`` with one feature a position: the weights of its local linear model."""
    from lime.lime_text import LimeTextExplainer  # here: who explains nothing need not wait

    size = len(game.word)
    hidden = "_"
    explainer = LimeTextExplainer(
        bow=False,
        mask_string=hidden,
        split_expression=r"\s+",
        class_names=["out", "in"],
        feature_selection="none",  # all are wanted: choosing among them would only cost time
        random_state=seed,
    )

    def probabilities(texts: list[str]) -> np.ndarray:
        keep = np.array([[token != hidden for token in text.split()] for text in texts])
        value = game(keep)
        return np.stack([1 - value, value], axis=1)

    text = " ".join(f"t{i}" for i in range(size))
    explanation = explainer.explain_instance(
        text, probabilities, labels=(1,), num_features=size, num_samples=samples
    )
    weights = np.zeros(size)
    for position, weight in explanation.local_exp[1]:
        weights[position] = weight
    return weights


def kernel_shap(game: Game, samples: int = 512, seed: int = 0) -> Values:
    """``shap.KernelExplainer`` on position masks, all features kept.

    At least every position alone is asked about, hidden and shown: fewer leave its equations
    singular.
    """
    size = len(game.word)
    explainer = shap().KernelExplainer(lambda keep: game(keep > 0.5), np.zeros((1, size)))
    with _seeded(seed):
        values = explainer.shap_values(
            np.ones((1, size)), nsamples=max(samples, 2 * size), l1_reg=False, silent=True
        )
    return np.asarray(values, dtype=np.float64).reshape(size)


@contextmanager
def _seeded(seed: int) -> Iterator[None]:
    """shap draws from numpy's global state: set it, then put it back."""
    state = np.random.get_state()
    np.random.seed(seed)
    try:
        yield
    finally:
        np.random.set_state(state)


def permutation_shap(game: Game, samples: int = 512, seed: int = 0) -> Values:
    """``shap.PermutationExplainer``: mean gains over random orders, forwards and backwards."""
    size = len(game.word)
    least = 2 * size + 1  # one order, both ways
    return _explained(
        game,
        lambda play: shap().PermutationExplainer(play, _masker(size), seed=seed),
        max(samples, least),
        seed,
    )


def partition_shap(game: Game, samples: int = 512) -> Values:
    """``shap.PartitionExplainer``: Owen's values, neighbouring positions one group."""
    size = len(game.word)
    if size == 1:  # nothing to group
        return exact_shapley(game)
    groups = linkage(np.arange(size, dtype=np.float64)[:, None], "complete")
    masker = shap().maskers.Partition(np.zeros((1, size)), clustering=groups)
    return _explained(game, lambda play: shap().PartitionExplainer(play, masker), samples)


def shap_exact(game: Game) -> Values:
    """``shap.ExactExplainer``: all coalitions. Raises ValueError beyond EXACT_LIMIT positions."""
    size = len(game.word)
    if size > EXACT_LIMIT:
        raise ValueError(f"{size} symbols: explain at most {EXACT_LIMIT}")
    return _explained(game, lambda play: shap().ExactExplainer(play, _masker(size)), 2**size)


def _masker(size: int) -> Any:
    return shap().maskers.Independent(np.zeros((1, size)))


def _explained(game: Game, make: Callable[..., Any], most: int, seed: int = 0) -> Values:
    with _seeded(seed):
        explainer = make(lambda keep: game(keep > 0.5))
        found = explainer(np.ones((1, len(game.word))), max_evals=most, silent=True)
    return np.asarray(found.values[0], dtype=np.float64)


# -- interventions, attention, controls -----------------------------------------------------------


def substitution(case: Case) -> Values:
    """The causal effect of each position: what the score loses by the one other symbol there that
    moves it most."""
    word, size = case.game.word, len(case.game.word)
    words = np.broadcast_to(word, (size, len(case.symbols), size)).copy()
    words[np.arange(size), :, np.arange(size)] = case.symbols
    flat = np.vstack([word[None], words.reshape(-1, size)])
    case.game.calls += len(flat)
    score = case.game.score(flat)
    change = score[0] - score[1:].reshape(size, -1)
    return change[np.arange(size), np.abs(change).argmax(axis=1)]


def _attended(case: Case, read: Callable[[Tensor, int], Any]) -> Values:
    pattern = attention(case.model, case.word[None])[0][:, 0]  # [layer, head, query, key]
    return np.asarray(read(pattern, case.at), dtype=np.float64)[1:]


def _mean_of_last_layer(pattern: Tensor, at: int) -> Tensor:
    return pattern[-1].mean(dim=0)[at]


def _direct(case: Case) -> Values:
    assert isinstance(case.model, ReadableModel)
    return direct_by_position(case.model, case.word, case.at, case.token)[1:]


def _oracle(case: Case) -> Values:
    assert case.rationale is not None
    return np.isin(np.arange(len(case.game.word)), case.rationale).astype(np.float64)


def _language(case: Case) -> Values:
    assert case.truth is not None
    return exact_shapley(case.truth)


@dataclass(frozen=True)
class Method:
    """A way to explain a case.

    Attributes:
        family: of methods.
        run: from the case and a seed; positive speaks for "in the language".
        seeded: the answer hangs on the seed.
        signed: False where values only say how much, not which way.
        replaces: the answer hangs on what stands in for hidden symbols.
    """

    family: Family
    run: Callable[[Case, int], Values]
    seeded: bool = False
    signed: bool = True
    replaces: bool = True


METHODS: Mapping[str, Method] = {
    "LIME": Method("LIME and SHAP", lambda c, seed: lime(c.game, c.samples, seed), seeded=True),
    "SHAP kernel": Method(
        "LIME and SHAP", lambda c, seed: kernel_shap(c.game, c.samples, seed), seeded=True
    ),
    "SHAP permutation": Method(
        "LIME and SHAP", lambda c, seed: permutation_shap(c.game, c.samples, seed), seeded=True
    ),
    "SHAP partition": Method("LIME and SHAP", lambda c, seed: partition_shap(c.game, c.samples)),
    "SHAP exact": Method("LIME and SHAP", lambda c, seed: shap_exact(c.game)),
    "Shapley exact": Method("LIME and SHAP", lambda c, seed: exact_shapley(c.game)),
    "leave one out": Method("intervention", lambda c, seed: leave_one_out(c.game)),
    "substitution": Method("intervention", lambda c, seed: substitution(c), replaces=False),
    "direct logit attribution": Method(
        "attention",
        lambda c, seed: _direct(c),
        replaces=False,
    ),
    "attention": Method(
        "attention",
        lambda c, seed: _attended(c, _mean_of_last_layer),
        signed=False,
        replaces=False,
    ),
    "rollout": Method(
        "attention",
        lambda c, seed: _attended(c, lambda pattern, at: rollout(pattern)[at]),
        signed=False,
        replaces=False,
    ),
    "flow": Method("attention", lambda c, seed: _attended(c, flow), signed=False, replaces=False),
    "gradient x input": Method(
        "gradient",
        lambda c, seed: saliency.gradient_x_input(c.model, c.word, c.metric),
        replaces=False,
    ),
    "SmoothGrad": Method(
        "gradient",
        lambda c, seed: saliency.smoothgrad(c.model, c.word, c.metric, seed),
        seeded=True,
        replaces=False,
    ),
    "integrated gradients": Method(
        "gradient",
        lambda c, seed: saliency.integrated_gradients(c.model, c.word, c.baselines, c.metric),
    ),
    "DeepLift": Method(
        "gradient", lambda c, seed: saliency.deeplift(c.model, c.word, c.baselines, c.metric)
    ),
    "random": Method(
        "control",
        lambda c, seed: np.random.default_rng(seed).normal(size=len(c.game.word)),
        seeded=True,
        replaces=False,
    ),
    "position": Method(
        "control",
        lambda c, seed: np.arange(1.0, 1.0 + len(c.game.word)),  # later symbols first
        signed=False,
        replaces=False,
    ),
    "oracle": Method("control", lambda c, seed: _oracle(c), signed=False, replaces=False),
    "language": Method("control", lambda c, seed: _language(c)),
}
"""By name, in the order in which they are shown."""

EXACT = ("SHAP exact", "Shapley exact", "language")
COMPLETE = ("integrated gradients", "DeepLift")
"""Methods whose values should sum to the difference of the log odds from the baselines."""


def offered(case: Case) -> list[str]:
    """The methods that this case admits."""
    hooks = case.model.hook_dict
    impossible: set[str] = set()
    if len(case.game.word) > EXACT_LIMIT:
        impossible.update(EXACT)
    if "blocks.0.attn.hook_pattern" not in hooks:
        impossible.update(name for name, m in METHODS.items() if m.family == "attention")
    if saliency.EMBEDDING not in hooks:
        impossible.update(name for name, m in METHODS.items() if m.family == "gradient")
    if case.truth is None:
        impossible.add("language")
    if case.rationale is None:
        impossible.add("oracle")
    return [name for name in METHODS if name not in impossible]


def explain(
    case: Case, names: Sequence[str] | None = None, seed: int = 0, remember: bool = False
) -> pd.DataFrame:
    """Several methods on one case.

    Args:
        names: of the methods; by default all that the case admits.
        remember: answer what the methods ask of the game from its 2^T values, computed once for all
            of them; seconds are then not measured. Without it every method pays its own way.

    Raises:
        ValueError: to remember the game of a word longer than EXACT_LIMIT.

    Returns:
        One row per method and position: method, family, position, value, calls (words that the
        method had the model score), seconds (NaN where not measured), completeness (how far the
        values miss the sum that the method promises, in log odds; NaN where it promises none).
    """
    if remember:
        case.game.values()
    rows, values = [], []
    for name in offered(case) if names is None else names:
        method = METHODS[name]
        own = case if remember else replace(case, game=case.game.fresh())
        before, start = own.game.calls, time.perf_counter()
        with _passes(case.model) as passed:
            value = method.run(own, seed)
        seconds = np.nan if remember else time.perf_counter() - start
        played = own.game.calls - before
        error = np.nan
        if name in COMPLETE:
            error = saliency.completeness_error(
                case.model, case.word, case.baselines, case.metric, value
            )
        rows.append((name, method.family, played or sum(passed), seconds, error))
        values.append(value)
    columns = ["method", "family", "calls", "seconds", "completeness"]
    size = len(case.game.word)
    table = pd.DataFrame(rows, columns=columns).loc[np.repeat(np.arange(len(rows)), size)]
    table.insert(2, "position", np.tile(np.arange(size), len(rows)))
    table.insert(3, "value", np.concatenate(values))
    return table.reset_index(drop=True)


@contextmanager
def _passes(model: HookedModel) -> Iterator[list[int]]:
    """Counts the words that go through the model's embedding."""
    counts: list[int] = []
    if saliency.EMBEDDING not in model.hook_dict:
        yield counts
        return
    handle = model.hook_dict[saliency.EMBEDDING].register_forward_pre_hook(
        lambda module, args: counts.append(len(args[0]))
    )
    try:
        yield counts
    finally:
        handle.remove()


def judge(case: Case, table: pd.DataFrame, seed: int = 0) -> pd.DataFrame:
    """How right each method of ``explain``'s table is: one row per method, and one of "chance".

    Returns:
        Columns: method, family, ``scores.METRICS`` ("error" of methods that estimate Shapley values
        alone: the others have another unit), calls, seconds, completeness.
    """
    grid = table.pivot(index="method", columns="position", values="value")
    names = list(dict.fromkeys(table["method"]))
    few = len(case.game.word) <= EXACT_LIMIT
    scores = agreement(
        grid.loc[names].to_numpy(),
        np.array([METHODS[name].signed for name in names]),
        case.game,
        exact_shapley(case.game) if few else None,
        exact_shapley(case.truth) if few and case.truth is not None else None,
        case.rationale,
        seed,
    )
    scores.insert(0, "method", [*names, "chance"])
    about = table.drop_duplicates("method").set_index("method")
    scores.insert(1, "family", [*about.loc[names, "family"], "control"])
    estimates = scores["method"].isin(
        name for name in names if METHODS[name].family == "LIME and SHAP" or name == "language"
    )
    scores["error"] = scores["error"].where(estimates)
    return scores.join(about[["calls", "seconds", "completeness"]], on="method")


def stability(answers: Float[np.ndarray, "seed time"]) -> float:
    """How alike a method's answers with different seeds are: mean pairwise cosine, 1 the same."""
    unit = [a / norm for a in answers if (norm := np.linalg.norm(a)) > 0]
    pairs = [float(a @ b) for a, b in combinations(unit, 2)]
    return float(np.mean(pairs)) if pairs else float("nan")
