"""What did each symbol do for the verdict? Several methods explain one case, and are judged."""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from itertools import combinations

import numpy as np
import pandas as pd
from jaxtyping import Float

from interp.explanations import saliency
from interp.explanations.case import Case
from interp.explanations.games import EXACT_LIMIT, exact_shapley
from interp.explanations.methods import COMPLETE, METHODS, offered
from interp.explanations.scores import agreement
from interp.model import HookedModel


def explain(
    case: Case, names: Sequence[str] | None = None, seed: int = 0, remember: bool = False
) -> pd.DataFrame:
    """Explains one case by several methods.

    Args:
        names: of the methods; by default all that can explain this case.
        seed: of the methods that draw at random.
        remember: compute the game's 2^T values once, and answer all methods from them; seconds are
            then not measured. Without it every method computes what it asks by itself.

    Returns:
        One row per method and position: method, family, position (from 0, without BOS), value,
        calls (words that the method had the model score), seconds (NaN if not measured),
        completeness (how far the values miss the sum that the method promises, in log odds; NaN if
        it promises none).

    Raises:
        ValueError: ``remember`` with a word longer than EXACT_LIMIT.
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
    """How right is each method of ``explain``'s table?

    Args:
        table: of ``explain``, on this case.
        seed: of the order of equal values when symbols are hidden.

    Returns:
        One row per method, and a last one of "chance". Columns: method, family, ``scores.METRICS``
        ("error" only for the family "LIME and SHAP" and for "language", because the others have
        another unit), calls, seconds, completeness.
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
    """How alike a method's answers with different seeds are: their mean pairwise cosine.

    1 means the same up to scale, -1 opposite; NaN with fewer than two answers that are not all 0.
    """
    unit = [a / norm for a in answers if (norm := np.linalg.norm(a)) > 0]
    pairs = [float(a @ b) for a, b in combinations(unit, 2)]
    return float(np.mean(pairs)) if pairs else float("nan")
