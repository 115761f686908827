"""Erasing: how many words are still right where a hidden variable cannot be read any more."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

import numpy as np
import pandas as pd
import torch
from jaxtyping import Bool, Float
from torch import Tensor

from analyses.questions.probing import site_hooks, targets
from analyses.words import ANALYSIS_SEED, WordTensors, sample_window
from interp.model import HookedModel, activations
from interp.probing.erasure import Eraser
from interp.probing.probes import METRIC, Target, probe_sites
from interp.statistics import bootstrap_mean
from models.base import LanguageModel
from models.languages import Language, Sample
from models.objectives.objective import make_batch
from models.runs.run import Run
from models.training.evaluation import exact_rows, verdicts

DRAWS = 4  # of random erasers
ANSWERS = ("valid", "accepting")
"""Variables that are no part of a state to be kept, but the answer itself."""


def stream_hooks(model: HookedModel) -> dict[str, str]:
    """The residual stream by label, and the cells of an LSTM: all that is carried on."""
    names = ("embed", "resid_mid", "resid_post", "cell")
    return {label: hook for label, hook in site_hooks(model).items() if label.split()[-1] in names}


def main_variables(language: Language) -> list[str]:
    """The hidden variables that a reader must keep, the one that says most first."""
    names = [name for name in language.variables if name not in ANSWERS]
    counts = [name for name in names if language.variables[name] == "count"]
    return sorted(names, key=lambda name: ("-" not in name, name not in counts))


def columns(target: Target, at: Bool[np.ndarray, "batch pos"]) -> Float[Tensor, "n k"]:
    """A variable at some positions as LEACE takes it: a number, or a column for each category."""
    values = torch.as_tensor(target.values[at])
    if target.kind == "count":
        return values[:, None].double()
    return (values[:, None] == values.unique()).double()


def asked_words(run: Run, count: int, seed: int) -> Sample:
    """The words to get right: members where every position is taught, else members and others."""
    rng = np.random.default_rng([ANALYSIS_SEED, seed, 1])  # apart from those that erasers are of
    language = run.language
    lengths = language.lengths(run.config.max_n)
    label = True if run.config.supervision == "every" else None
    return language.sample(rng, count, lengths, label, split="test")


def judge(
    run: Run, model: LanguageModel, sample: Sample
) -> Callable[..., Float[np.ndarray, " batch"]]:
    """A function from hooks to which words are right: all next symbols, or the verdict."""
    supervision = run.config.supervision
    batch = make_batch(
        run.language, sample.words, supervision, model.device, model.config.is_encoder
    )

    @torch.no_grad()
    def right(*hooks: tuple[str, Callable[..., Tensor]]) -> Float[np.ndarray, " batch"]:
        logits = model.run_with_hooks(batch.tokens, fwd_hooks=list(hooks))
        if supervision == "every":
            return exact_rows(logits, batch).astype(float)
        return (verdicts(model, logits, sample.words) == sample.labels).astype(float)

    return right


def erasure(
    run: Run,
    model: LanguageModel,
    words: int,
    seed: int,
    progress: Callable[[str], None],
) -> pd.DataFrame:
    """The rows of the experiment "erasure" in ``analyses.questions.interventions``.

    Of fresh words of the window one half fits erasers and probes, the other scores the probes; the
    words to get right are others.
    """
    sample = sample_window(run, words, seed)
    known = targets(run.language, sample.words)
    train = np.arange(words) % 2 == 0
    sites = stream_hooks(model)
    seen = activations(model, WordTensors.of(sample.words).tokens, list(sites.values()))
    right = judge(run, model, asked_words(run, words // 2, seed))
    before = right()
    rows, scores, probes = list[Row](), list[np.ndarray](), list[pd.DataFrame]()
    for site, hook in sites.items():
        progress(site)
        x, controls = seen[hook], dict[int, dict[str, Trial]]()
        for name in main_variables(run.language):
            at = known[name].mask & train[:, None]
            if len(np.unique(known[name].values[at])) < 2:
                continue
            fitted = x[torch.as_tensor(at)]
            eraser = Eraser.fit(fitted, columns(known[name], at))
            if eraser.rank not in controls:  # all variables are known at the same positions
                controls[eraser.rank] = _random(fitted, eraser.rank, hook, right)
            trials = {"none": (0.0, before), "LEACE": _trial([eraser], fitted, hook, right)}
            for method, (changed, score) in {**trials, **controls[eraser.rank]}.items():
                amount = 0 if method == "none" else eraser.rank
                rows.append({"site": site, "variable": name, "method": method, "amount": amount})
                rows[-1] |= {"changed": changed, "words": len(score)}
                scores.append(score)
            read = {"none": x.numpy(), "LEACE": eraser(x).numpy()}
            probes.append(_probed(read, site, name, known[name], train, eraser.rank, seed))
    table = pd.DataFrame(rows)
    table["value"], table["low"], table["high"] = bootstrap_mean(np.stack(scores, axis=1))
    changed = table.drop(columns=["value", "low", "high"]).rename(columns={"changed": "value"})
    right_rows = table.drop(columns="changed").assign(measure="words right")
    return pd.concat([right_rows, changed.assign(measure="changed"), *probes], ignore_index=True)


Row = dict[str, str | int | float]
Trial = tuple[float, Float[np.ndarray, " batch"]]  # how much x was changed; which words were right


def _trial(
    erasers: Sequence[Eraser],
    x: Float[Tensor, "n d"],
    hook: str,
    right: Callable[..., Float[np.ndarray, " batch"]],
) -> Trial:
    """The mean over erasers."""
    scores = np.mean([right((hook, eraser.hook)) for eraser in erasers], axis=0)
    return float(np.mean([eraser.changed(x) for eraser in erasers])), scores


def _random(
    x: Float[Tensor, "n d"],
    rank: int,
    hook: str,
    right: Callable[..., Float[np.ndarray, " batch"]],
) -> dict[str, Trial]:
    """The controls: random directions, and what a random linear readout would find."""
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
    """The probe's score before and after."""
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
