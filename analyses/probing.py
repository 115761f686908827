"""What can be read off the activations? Linear probes of the language's hidden state."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import asdict, dataclass
from typing import Any

import altair as alt
import numpy as np
import pandas as pd
from altair.typing import ChartType

from analyses.results import Progress, Result, quiet
from analyses.words import ANALYSIS_SEED, WordTensors, sample_window
from interp.model import HookedModel, activations
from interp.probing import Target, baseline, probe_sites
from models.errors import UserError
from models.languages import Language, Words
from models.runs import Run

QUESTION = "Which hidden variable of the language can be read off which activation?"
CONTROLS = ("untrained", "shuffled labels", "position alone", "no activation")


@dataclass(frozen=True)
class Options:
    """What to probe.

    Attributes:
        words: words of the training window; half of them fit the probes, half score them.
        seed: of the words and of the split.
    """

    words: int = 1000
    seed: int = 0


SITES = {
    "attn_out": "hook_attn_out",
    "resid_mid": "hook_resid_mid",
    "mlp_post": "mlp.hook_post",
    "mlp_out": "hook_mlp_out",
    "conv_post": "conv.hook_post",
    "conv_out": "hook_conv_out",
    "cell": "hook_cell",
    "resid_post": "hook_resid_post",
}


def site_hooks(model: HookedModel) -> dict[str, str]:
    """The probed sites by label, in the order of computation: those that the model has."""
    hooks = {"embed": "blocks.0.hook_resid_pre"}
    for layer in range(model.cfg.n_layers):
        hooks |= {f"L{layer} {site}": f"blocks.{layer}.{hook}" for site, hook in SITES.items()}
    return {label: hook for label, hook in hooks.items() if hook in model.hook_dict}


def targets(language: Language, words: Words) -> dict[str, Target]:
    """Every hidden variable where it is defined: before a violation; `valid` on the whole word."""
    traced = language.trace(words)
    inside = np.pad(words.mask, ((0, 0), (1, 0)), constant_values=True)
    alive = inside & (traced["valid"] == 1)
    return {
        name: Target(traced[name], inside if name == "valid" else alive, kind)
        for name, kind in language.variables.items()
    }


def analyse(run: Run, options: Options, progress: Progress = quiet) -> Result:
    """One row per model, site and target.

    Columns: model ("trained" or a control), site, target, metric (R2 or accuracy, on held-out
    words), score, n_train, n_test (positions).

    Raises:
        UserError: the language has no hidden variables that are known.
    """
    if not run.language.variables:
        raise UserError(f"nothing is known of the hidden state of {run.language.name}: no probing")
    if options.words < 8:
        raise UserError(f"--words is {options.words}: probing needs at least 8")
    sample = sample_window(run, options.words, options.seed)
    tensors = WordTensors.of(sample.words)
    wanted = targets(run.language, sample.words)
    train = np.random.default_rng([ANALYSIS_SEED, options.seed]).permutation(options.words) % 2 == 0
    model, digest = run.model_and_hash()

    def seen(viewed: HookedModel) -> dict[str, np.ndarray]:
        hooks = site_hooks(viewed)
        found = activations(viewed, tensors.tokens, list(hooks.values()))
        return {label: found[hook].numpy() for label, hook in hooks.items()}

    width = tensors.tokens.shape[1]
    positions = np.broadcast_to(np.eye(width), (options.words, width, width))
    trained = seen(model)
    steps: dict[str, Callable[[], pd.DataFrame]] = {
        "trained": lambda: probe_sites(trained, wanted, train, options.seed),
        "untrained": lambda: probe_sites(seen(run.untrained()), wanted, train, options.seed),
        "shuffled labels": lambda: probe_sites(trained, wanted, train, options.seed, shuffled=True),
        "position alone": lambda: probe_sites({"position": positions}, wanted, train, options.seed),
        "no activation": lambda: baseline(wanted, train, options.seed),
    }
    tables = []
    for done, (name, step) in enumerate(steps.items()):
        progress(done, len(steps), f"probing, {name}")
        tables.append(step().assign(model=name))
    progress(len(steps), len(steps), "probing")
    table = pd.concat(tables, ignore_index=True)
    table.insert(0, "model", table.pop("model"))
    return Result(table, findings(table), asdict(options), digest)


def findings(table: pd.DataFrame) -> dict[str, Any]:
    """Per target the best site of the trained model, and each control's best score."""
    best: dict[str, Any] = {}
    for target, part in table.groupby("target", sort=False):
        trained = part[part["model"] == "trained"]
        row = trained.loc[trained["score"].idxmax()]
        controls = part[part["model"] != "trained"].groupby("model")["score"].max()
        best[str(target)] = {
            "site": row["site"],
            "metric": row["metric"],
            "score": float(row["score"]),
            "controls": {str(name): float(score) for name, score in controls.items()},
        }
    main = next((name for name in best if "-" in name), next(iter(best)))
    found = best[main]
    untrained = {name: about["controls"]["untrained"] for name, about in best.items()}
    easy = [name for name, about in best.items() if untrained[name] >= about["score"] - 0.01]
    summary = f"{main} is read best at {found['site']}: {found['metric']} {found['score']:.3f} "
    summary += f"(untrained model {untrained[main]:.3f})."
    if easy:
        summary += f" The untrained model gives as much of {', '.join(easy)}: being readable is "
        summary += "no sign of being learned."
    return {"summary": summary, "main": main, "best": best}


def chart(result: Result) -> ChartType:
    """Heatmaps of score by site and target, the trained model above its controls."""
    table = result.table[result.table["model"].isin(["trained", "untrained", "shuffled labels"])]
    sites = list(dict.fromkeys(table["site"]))
    base = alt.Chart(table).encode(
        x=alt.X("site:N", sort=sites, title=None).axis(labelAngle=-40, labelOverlap=False),
        y=alt.Y("target:N", sort=list(dict.fromkeys(table["target"])), title=None),
        tooltip=[
            "model",
            "site",
            "target",
            "metric",
            alt.Tooltip("score:Q", format=".3f"),
            "n_test",
        ],
    )
    cells = base.mark_rect().encode(
        color=alt.Color("score:Q", title="R2 / accuracy").scale(
            domain=[0, 1], clamp=True, scheme="viridis"
        )
    )
    text = base.mark_text(fontSize=10).encode(
        text=alt.Text("score:Q", format=".2f"),
        color=alt.condition(alt.datum.score > 0.6, alt.value("black"), alt.value("white")),
    )
    return (
        (cells + text)
        .properties(width=46 * len(sites), height=26 * table["target"].nunique())
        .facet(row=alt.Row("model:N", sort=["trained"], title=None))
    )


if __name__ == "__main__":
    from analyses.cli import script

    raise SystemExit(script("probing"))
