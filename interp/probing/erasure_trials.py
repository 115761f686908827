"""Is a variable used? How many words are still right when it cannot be read any more?

Taking anything out of an activation does harm. So LEACE has two controls: erasing as many random
directions, and LEACE of a random linear readout, which takes about as much of the activation away.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

import numpy as np
import pandas as pd
import torch
from jaxtyping import Bool, Float
from torch import Tensor

from interp.probing.erasure import Eraser
from interp.probing.probes import METRIC, Target, probe_sites
from interp.statistics import in_halves

DRAWS = 4  # of random erasers

Right = Callable[..., Float[np.ndarray, " word"]]
"""A function of TransformerLens hooks, pairs of name and function. It returns a score per word: 1
where the model is right, else 0. Without hooks the model runs as it is."""

Trial = tuple[float, Float[np.ndarray, " word"]]  # how much x was changed; which words were right
Row = dict[str, str | int | float]


def _quiet(site: str) -> None:
    pass


def columns(target: Target, at: Bool[np.ndarray, "batch pos"]) -> Float[Tensor, "n k"]:
    """A variable at some positions, in the form that ``Eraser.fit`` takes.

    A count is one column of numbers; a category has one column for each value that occurs.
    """
    values = torch.as_tensor(target.values[at])
    if target.kind == "count":
        return values[:, None].double()
    return (values[:, None] == values.unique()).double()


def erasure_trials(
    sites: Mapping[str, Float[Tensor, "batch pos d"]],
    targets: Mapping[str, Target],
    train: Bool[np.ndarray, " batch"],
    right: Right,
    seed: int = 0,
    report: Callable[[str], None] = _quiet,
) -> pd.DataFrame:
    """Erases every target at every site, at all positions, beside the controls.

    The methods are "none" (nothing is erased), "LEACE", and two controls: "random directions" (as
    many as LEACE erases, drawn where the activations have unit covariance) and "random readout"
    (LEACE of as many random linear readouts).

    Args:
        sites: activations by hook, of words that need not be those that ``right`` scores.
        targets: the variables in these words. One that does not vary is left out.
        train: the words that erasers and probes are fitted on; the others score the probes.
        right: called once for every eraser.
        seed: seed of the probes.
        report: is called with each hook before it is tried.

    Returns:
        One row per measure, site, variable and method: site (the hook), variable, method, amount
        (how many directions were erased), measure, choice (over every other word, which may choose
        a site), value, low, high (over the words between, with a 95% bootstrap; choice, low and
        high are NaN except for "words right"), gap, gap_low, gap_high (of "words right": the share
        less that with LEACE, paired, on the words of value, with a 95% bootstrap), words. Measures:
        "words right", a share; "changed", the mean square of the change over the variance of the
        activations; "probe R2" or "probe accuracy" of a new linear probe, for "none" and "LEACE"
        only. No row if no target varies.
    """
    before = right()
    rows, scores, probes = list[Row](), list[np.ndarray](), list[pd.DataFrame]()
    for site, x in sites.items():
        report(site)
        controls = dict[tuple[int, bytes], dict[str, Trial]]()
        for name, target in targets.items():
            at = target.mask & train[:, None]
            if len(np.unique(target.values[at])) < 2:
                continue
            fitted = x[torch.as_tensor(at)]
            eraser = Eraser.fit(fitted, columns(target, at))
            like = eraser.rank, at.tobytes()
            if like not in controls:  # variables of one rank, known at the same positions
                controls[like] = _controls(fitted, eraser.rank, site, right)
            trials = {"none": (0.0, before), "LEACE": _trial([eraser], fitted, site, right)}
            for method, (changed, score) in {**trials, **controls[like]}.items():
                amount = 0 if method == "none" else eraser.rank
                rows.append({"site": site, "variable": name, "method": method, "amount": amount})
                rows[-1] |= {"changed": changed, "words": len(score)}
                scores.append(score)
            read = {"none": x.numpy(), "LEACE": eraser(x).numpy()}
            probes.append(_probed(read, site, name, target, train, eraser.rank, seed))
    return _table(rows, scores, probes)


def _table(
    rows: Sequence[Row], scores: Sequence[np.ndarray], probes: Sequence[pd.DataFrame]
) -> pd.DataFrame:
    if not rows:
        return pd.DataFrame()
    table = pd.DataFrame(rows)
    changed = table.rename(columns={"changed": "value"})
    grid = np.stack(scores, axis=1)  # of the four methods in turn
    erased = grid[:, np.flatnonzero(table["method"] == "LEACE").repeat(4)]
    table[["choice", "value", "low", "high"]] = np.stack(in_halves(grid), axis=1)
    table[["gap", "gap_low", "gap_high"]] = np.stack(in_halves(grid - erased)[1:], axis=1)
    table["words"] = max(1, len(grid) // 2)
    right = table.drop(columns="changed").assign(measure="words right")
    return pd.concat([right, changed.assign(measure="changed"), *probes], ignore_index=True)


def _trial(erasers: Sequence[Eraser], x: Float[Tensor, "n d"], hook: str, right: Right) -> Trial:
    """The mean over erasers."""
    scores = np.mean([right((hook, eraser.hook)) for eraser in erasers], axis=0)
    return float(np.mean([eraser.changed(x) for eraser in erasers])), scores


def _controls(x: Float[Tensor, "n d"], rank: int, hook: str, right: Right) -> dict[str, Trial]:
    """The trials of the two controls: random directions, and LEACE of a random linear readout."""
    directions = [Eraser.random(x, rank, seed) for seed in range(DRAWS)]
    readouts = []
    for seed in range(DRAWS):
        generator = torch.Generator().manual_seed(seed)
        weights = torch.randn(x.shape[1], rank, generator=generator, dtype=torch.float64)
        readouts.append(Eraser.fit(x, (x.double() - x.double().mean(0)) @ weights))
    return {
        "random directions": _trial(directions, x, hook, right),
        "random readout": _trial(readouts, x, hook, right),
    }


def _probed(
    read: Mapping[str, Float[np.ndarray, "batch pos d"]],
    site: str,
    name: str,
    target: Target,
    train: Bool[np.ndarray, " batch"],
    rank: int,
    seed: int,
) -> pd.DataFrame:
    """A new probe's score before and after the variable was erased."""
    table = probe_sites(read, {name: target}, train, seed)
    return pd.DataFrame(
        {
            "site": site,
            "variable": name,
            "method": table["site"],
            "amount": np.where(table["site"] == "none", 0, rank),
            "measure": f"probe {METRIC[target.kind]}",
            "value": table["score"],
            "words": int((~train).sum()),
        }
    )
