"""Probes of the language's hidden state: what can be read off the activations, beside controls.

A variable that is readable need not have been learned, and a probe may do the work itself. So every
score stands beside those of the untrained model, of shuffled labels, of a control task, and of
what the form of the word gives away: the position alone, and the symbol alone. Some words fit the
probes, others choose the best site, of the model and of each control, and others are scored.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import altair as alt
import numpy as np
import pandas as pd
from altair.typing import ChartType
from jaxtyping import Bool, Float, Int
from joblib import Parallel, delayed

from analyses.activations import kept_activations
from analyses.answers import Answer, Planned, Progress, of_answer, quiet
from analyses.charts.marks import heat
from analyses.charts.theme import figures, named
from analyses.claims import Claim
from analyses.options.inside import Probing as Options
from analyses.words import ANALYSIS_SEED, WordTensors, one_of_each, sample_window
from interp.model import SITES, activations, sites_of
from interp.probing.best_sites import best_sites
from interp.probing.description_length import code_lengths
from interp.probing.probes import Method, Target, baseline, control_task, probe_sites
from interp.statistics import unless_agreed
from models.base import LanguageModel
from models.errors import UserError
from models.languages import Language, Words
from models.runs.run import Run

CONTROLS = (
    "untrained",
    "shuffled labels",
    "control task",
    "position alone",
    "symbol alone",
    "no activation",
)
METHODS: tuple[Method, ...] = ("linear", "mlp", "1-sparse", "8-sparse")
NUISANCE = ("symbol", "position")
"""Targets that say nothing of the language's state. A model has them without any learning; they are
probed for comparison."""


ENOUGH = 200
"""The fewest words for which probes are fitted in several processes, one per core."""
EASY = 0.01
"""A variable whose score is not even this much higher than that of the untrained model is easy."""
LONGER = "longer words"
TOO_FEW = (
    "too few words to fit, choose and score a probe: give more, with --words, or ask a run that "
    "was trained with a larger --max-n"
)
Step = tuple[str, str, tuple[Any, ...]]
"""The model, what is done, and the delayed call."""


def targets(language: Language, words: Words) -> dict[str, Target]:
    """The targets of probes, each with the positions where it is defined.

    The language's hidden variables and the set of symbols that may come next are defined up to the
    first violation of the language, `valid` on the whole word. The symbol and its position are
    nuisance variables: they say nothing of the state.
    """
    traced = language.trace(words)
    inside = np.pad(words.mask, ((0, 0), (1, 0)), constant_values=True)
    alive = inside & (traced["valid"] == 1)
    variables = {
        name: Target(traced[name], inside if name == "valid" else alive, kind)
        for name, kind in language.variables.items()
    }
    sets = language.allowed(words)
    rows = sets.reshape(-1, sets.shape[-1])
    # Bits of one number, as long as it has enough of them.
    few = rows.shape[1] < 63
    codes = rows @ (1 << np.arange(rows.shape[1])) if few else _numbered(rows)
    variables["next symbols"] = Target(codes.reshape(sets.shape[:-1]), alive, "category")
    symbol = np.pad(words.ids, ((0, 0), (1, 0)))
    position = np.broadcast_to(np.arange(symbol.shape[1]), symbol.shape)
    variables["symbol"] = Target(symbol, inside, "category")
    variables["position"] = Target(position, inside, "count")
    return variables


def _numbered(rows: Bool[np.ndarray, "sets tokens"]) -> Int[np.ndarray, " sets"]:
    """A number for each different row."""
    return np.unique(rows, axis=0, return_inverse=True)[1].ravel()


@dataclass(frozen=True)
class _Examples:
    """The material of probes: activations, their targets, and the part of each word.

    Attributes:
        sites: the activations, by name of the site.
        targets: the targets of the probes; equal prefixes count once, see ``one_of_each``.
        fit: the words that fit probes: half of them.
        choose: the words that choose sites: a quarter. The others are scored.
        lengths: the length of each word.
    """

    sites: dict[str, Float[np.ndarray, "batch pos d"]]
    targets: dict[str, Target]
    fit: Bool[np.ndarray, " batch"]
    choose: Bool[np.ndarray, " batch"]
    lengths: Int[np.ndarray, " batch"]

    @property
    def score(self) -> Bool[np.ndarray, " batch"]:
        """The words that are scored."""
        return ~self.fit & ~self.choose


def examples(
    run: Run, model: LanguageModel, options: Options, only: str | None = None, keep: bool = True
) -> _Examples:
    """A model's activations on words of the window, and what is probed for.

    Args:
        only: read this site alone.
        keep: keep the activations on disk for the next time.

    Raises:
        UserError: the language has no hidden variables that are known.
    """
    if not run.language.variables:
        raise UserError(f"nothing is known of the hidden state of {run.language.name}: no probing")
    words = sample_window(run, options.words, options.seed).words
    hooks = {k: hook for k, hook in sites_of(model, SITES).items() if only in (None, k)}
    look = kept_activations if keep else activations
    states = look(model, WordTensors.of(words).tokens, list(hooks.values()))
    once = one_of_each(words, not run.config.model.causal, options.seed)
    wanted = {
        name: replace(target, mask=target.mask & once)
        for name, target in targets(run.language, words).items()
    }
    place = np.random.default_rng([ANALYSIS_SEED, options.seed]).permutation(options.words)
    sites = {label: states[hook].numpy() for label, hook in hooks.items()}
    return _Examples(sites, wanted, place % 2 == 0, place % 4 == 1, words.lengths)


def analyse(run: Run, options: Options, progress: Progress = quiet) -> Answer:
    """One row per model, probe, split, site and target.

    Half of the words fit the probes, a quarter choose sites, and the others are scored. Equal
    prefixes are one example, which counts once, see ``one_of_each``.

    Columns: model ("trained" or a control), probe (linear, mlp, 1-sparse, 8-sparse, online code;
    none), split ("words": any words fit, choose and are scored; "longer": shorter words fit, longer
    ones are scored), site, target, metric (R2 or accuracy; of the online code the compression: the
    uniform code's bits over its own), choice (the score on the words that choose), score, low and
    high (95% bootstrap over the scored words), bits (of the online code), n_train, n_test
    (examples; of the code all that are sent).

    Raises:
        UserError: the language has no hidden variables that are known.
    """
    read = examples(run, run.model(), options)
    trained, untrained = read.sites, examples(run, run.untrained(), options).sites
    wanted, train, seed = read.targets, read.fit, options.seed
    state = {name: target for name, target in wanted.items() if name not in NUISANCE}
    shape = wanted["symbol"].values.shape
    types = wanted["symbol"].values * shape[1] + wanted["position"].values
    drawn = {name: control_task(t, types, train, seed) for name, t in state.items()}
    form = {
        "position alone": np.eye(shape[1], dtype=np.float32)[wanted["position"].values],
        "symbol alone": np.eye(int(wanted["symbol"].values.max()) + 1)[wanted["symbol"].values],
    }
    shorter = (read.lengths <= np.median(read.lengths)) & ~read.choose
    seen = {"trained": trained, "untrained": untrained}
    fit = partial(delayed(probe_sites), seed=seed, choose=read.choose)
    steps: list[Step] = []
    methods = [name for name in METHODS if name == "linear" or name in options.probes]
    for name, sites in seen.items():
        steps += [(name, m, fit(sites, state, train, methods=[m])) for m in methods[1:]]
        steps += [
            (name, "linear", fit(sites, wanted, train)),
            (name, LONGER, fit(sites, wanted, shorter)),
        ]
        if "compression" in options.probes:
            steps.append((name, "online code", delayed(code_lengths)(sites, wanted, seed)))
    controlled = [name for name in METHODS[:2] if name in methods]
    steps += [
        *(("control task", m, fit(trained, drawn, train, methods=[m])) for m in controlled),
        ("shuffled labels", "linear", fit(trained, wanted, train, shuffled=True)),
        *((name, "linear", fit({name: x}, state, train)) for name, x in form.items()),
        ("no activation", "none", delayed(baseline)(wanted, train, seed, choose=read.choose)),
    ]
    tables = list[pd.DataFrame]()
    workers = Parallel(1 if options.words < ENOUGH else -1, return_as="generator")
    for (name, what, _), table in zip(steps, workers(call for *_, call in steps), strict=True):
        progress(len(tables), len(steps), f"probing, {name}: {what}")
        tables.append(table.assign(model=name, split="longer" if what == LONGER else "words"))
    progress(len(steps), len(steps), "probing")
    first = ["model", "probe", "split", "site", "target", "metric"]
    columns = [*first, "choice", "score", "low", "high", "bits", "n_train", "n_test"]
    table = pd.concat(tables, ignore_index=True).reindex(columns=columns)
    names = run.language.main_variables
    repeated = _repeated({name: state[name] for name in names})
    return Answer(table, findings=_findings(table, names) | {"repeated": repeated})


def _repeated(targets: Mapping[str, Target]) -> list[str]:
    """The variables that are another name of one before them, or a linear combination of these;
    the empty prefix apart."""
    earlier, names = list[np.ndarray](), list[str]()
    for name, target in targets.items():
        y = target.values[:, 1:][target.mask[:, 1:]]
        x = np.stack([np.ones(len(y)), *earlier], axis=1)
        linear = np.allclose(x @ np.linalg.lstsq(x, y)[0], y, atol=1e-6)
        if linear or any(alike(y, other) for other in earlier):
            names.append(name)
        else:
            earlier.append(y)
    return names


def alike(one: Int[np.ndarray, " n"], other: Int[np.ndarray, " n"]) -> bool:
    """Whether each of two variables says all of the other."""
    both = len(np.unique(np.stack([one, other]), axis=1).T)
    return both == len(np.unique(one)) == len(np.unique(other))


def _findings(table: pd.DataFrame, main: Sequence[str] = ()) -> dict[str, Any]:
    """For each target, the site where a linear probe reads it best, and each control's best score.

    Keys of "best": site (chosen on other words than those that are scored), metric, score, low and
    high (95% bootstrap over words), n_test (prefixes scored), controls (by name, each at its own
    best site), mlp, 1-sparse, 8-sparse (there), longer (there, on longer words), compression
    (there, trained and untrained), selectivity (there, linear and mlp: the score minus that on the
    control task). The "main" one is the first main variable of the language that is there.

    Raises:
        UserError: the words are too few.
    """
    best: dict[str, Any] = {}
    shown = table[~table["target"].isin(NUISANCE)]
    linear = shown[shown["probe"].isin(["linear", "none"]) & (shown["split"] == "words")]
    for chosen in best_sites(linear).to_dict("records"):
        target, site = chosen.pop("target"), chosen.pop("site")
        about = {key: chosen.pop(key) for key in ("metric", "score", "low", "high", "n_test")}
        about |= {key: None for key in ("low", "high") if np.isnan(about[key])}  # of one word
        at = shown[(shown["target"] == target) & (shown["site"] == site)]
        there = at.set_index(["model", "probe", "split"])["score"].to_dict()
        selectivity = {
            method: there["trained", method, "words"] - there["control task", method, "words"]
            for method in METHODS[:2]
            if ("control task", method, "words") in there
        }
        best[str(target)] = {
            "site": site,
            **about,
            "controls": {name: value for name, value in chosen.items() if not np.isnan(value)},
            "mlp": there.get(("trained", "mlp", "words")),
            "1-sparse": there.get(("trained", "1-sparse", "words")),
            "8-sparse": there.get(("trained", "8-sparse", "words")),
            "longer": there.get(("trained", "linear", "longer")),
            "compression": there.get(("trained", "online code", "words")),
            "compression, untrained": there.get(("untrained", "online code", "words")),
            "selectivity": selectivity,
        }
    if not best:
        raise UserError(TOO_FEW)
    return {"main": next((name for name in main if name in best), next(iter(best))), "best": best}


def _claims(answer: Answer) -> list[Claim]:
    """The main variable, read where other words chose the site, beside each control at its own."""
    main, best = answer.findings["main"], answer.findings["best"]
    read, control = best[main], max(best[main]["controls"].values())
    longer, ends = read["longer"], (read["low"], read["high"])
    if read["metric"] == "accuracy" and read["low"] is not None:
        ends = unless_agreed(read["score"], *ends, read["n_test"])
    easy = [
        name
        for name, of in best.items()
        if name not in answer.findings["repeated"]
        and of["controls"].get("untrained", -np.inf) > of["score"] - EASY
    ]
    return [
        Claim(
            f"A linear probe reads {main} at {read['site']} with an {read['metric']} of {{}}"
            if read["metric"] == "R2"
            else f"A linear probe reads {main} at {read['site']}, {{}} of it right",
            read["score"],
            *ends,
            read["n_test"],
            "different prefixes, which neither fitted the probe nor chose the site",
            "bootstrap over words",
            read["controls"],
            ".3f" if read["metric"] == "R2" else ".1%",
            doubts=[f"On longer words it reads {longer:.3f}."]
            if longer is not None and longer <= control
            else [],
            notes=[
                f"Of the untrained network, {', '.join(easy)} can be read as well, or less than "
                f"{EASY} worse: being readable is no sign of being learned."
            ]
            if easy
            else [],
        )
    ]


def headline(result: Answer) -> pd.DataFrame:
    """The numbers that are compared over seeds: variable, of, value."""
    rows = []
    for name, best in result.findings["best"].items():
        numbers = {"trained": best["score"], **best["controls"]}
        numbers |= {key: best[key] for key in (*METHODS[1:], "longer")}
        numbers |= {f"selectivity, {m}": value for m, value in best["selectivity"].items()}
        numbers |= {key: best[key] for key in ("compression", "compression, untrained")}
        rows += [
            {"variable": name, "of": of, "value": value}
            for of, value in numbers.items()
            if value is not None
        ]
    return pd.DataFrame(rows)


def chart(result: Answer) -> ChartType:
    """Linear probes: score by site and target, the trained model above its controls."""
    return heatmap(result.table, "linear", "words")


def heatmap(
    table: pd.DataFrame,
    method: str,
    split: str,
    target: str | None = None,
    marked: str | None = None,
) -> ChartType:
    """Score by site and target, a panel per model; for a single target, a row per model.

    Args:
        marked: for a single target, the site that is framed; a click on another site selects it.
    """
    shown = table[(table["probe"] == method) & (table["split"] == split)]
    shown = shown[shown["model"].isin(["trained", "untrained", "shuffled labels", "control task"])]
    row = "model"
    if target is None:
        row = "target"
    else:
        shown = shown[shown["target"] == target]
    sites, coded = list(dict.fromkeys(shown["site"])), method == "online code"
    most = max(2.0, float(shown["score"].max())) if coded else 1.0
    domain = [1, most] if coded else [0, 1]
    scale = alt.Scale(
        type="log" if coded else "linear", domain=domain, clamp=True, scheme="viridis"
    )
    bright = most**0.6 if coded else 0.6
    picture = heat(
        shown,
        named(alt.X, "site", sites, labelAngle=-40),
        alt.Y(f"{row}:N", sort=list(dict.fromkeys(shown[row])), title=None),
        ["model", "site", "target", "metric", *figures("score"), "n_test"],
        alt.Color(
            "score:Q", title="uniform / online bits" if coded else "R2 / accuracy", scale=scale
        ),
        alt.Text("score:Q", format=".1f" if coded else ".2f"),
        alt.condition(alt.datum.score > bright, alt.value("black"), alt.value("white")),
        framed=alt.FieldEqualPredicate(field="site", equal=marked or "") if target else None,
        click="site" if target else None,
        edge=False,
    ).properties(width=46 * len(sites), height=26 * shown[row].nunique())
    if target is None:
        return picture.facet(row=alt.Row("model:N", sort=["trained"], title=None))
    return picture


QUESTION = of_answer(
    "probing",
    Options,
    analyse,
    headline,
    chart,
    _claims,
    brief=Options(words=180, probes=("mlp",)),
    planned=(
        Planned("trained", "untrained"),
        Planned("compression", "compression, untrained"),
    ),
)
