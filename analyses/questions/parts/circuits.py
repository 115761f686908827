"""Which parts of the model carry the verdict, and what do they read from each other? A circuit of
edges, and how good it is.

The circuit is found on two thirds of the pairs of words and judged on the others.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict
from typing import Any

import numpy as np
import pandas as pd
import torch

from analyses.answers import (
    Answer,
    Planned,
    Progress,
    models_of,
    numbers,
    of_answer,
    plain,
    quiet,
)
from analyses.charts.circuit import chart
from analyses.claims import Claim, measured
from analyses.options.parts import Circuits as Options
from analyses.words import ANALYSIS_SEED, WordTensors
from interp.causal.metrics import logit_at
from interp.circuits.circuits import Bench, Quality, areas, connected, curve, smallest
from interp.circuits.controls import random_circuits, random_scores
from interp.circuits.effects import BOTH, DIRECTED, DIRECTIONS, METHODS, edge_effects
from interp.circuits.graph import Edge
from interp.circuits.joint import blind_spots, pair_effects
from interp.circuits.needs import incompleteness, knock_outs
from interp.circuits.scores import agreement, by_edge, edge_scores, ranking_name
from models.errors import UserError
from models.languages import END_ID, Word
from models.runs.run import Run
from models.transformer.model import HookedTransformer

RANDOM_DRAWS, RANDOM_RANKINGS = 16, 4
DRAWS = 8  # of counterfactuals of a word, at the most
EDGE = ["model", "direction", "sender", "receiver"]
COLUMNS = [*EDGE, "exact", "low", "high", *METHODS[1:], "circuit"]
KEEPS = 0.9
"""A circuit that is not sure to keep so much of the difference is a doubtful one."""
FREE = 0.01
"""An edge that costs a smaller share of the difference counts as costing nothing."""
LONGEST = 40
"""The most symbols of a word: every circuit that is tried is run on all words."""


def analyse(run: Run, options: Options, progress: Progress = quiet) -> Answer:
    """One row per model, direction and edge.

    Columns: model (trained, untrained), direction (noising: the clean run, in which this edge alone
    carries the corrupted activation; denoising: the other way round), sender, receiver, exact (the
    effect of this, as a share of the difference), low, high (95% bootstrap over pairs), EAP, GIM,
    EAP-IG, conductance (estimates; the last two have no direction and stand in both), circuit (is
    it in the circuit of this model?).

    Findings: "circuit" and "untrained" (edges; on held-out pairs faithfulness with low and high,
    completeness after Marks et al., and restored), "scores" (the ranking behind them), "random"
    (the mean faithfulness of random edges: connected, as many of each kind of receiver),
    "knock_outs" (by edge of the circuit: the cost for the whole model and for the circuit),
    "incompleteness" (the largest gap after Wang et al., over how many sets), "blind_spots" (pairs
    of parts with redundancy, conjunction or cancelling), "steps" (of integration, with the
    stability reached), "agreement" (of the approximations with the exact effects), "areas" (CPR,
    CMD by ranking), "curves" (by ranking: edges, faithfulness, completeness).

    Raises:
        UserError: a model without heads or with another norm, a language without counterfactuals.
    """
    words, others = _pairs(run, options)
    clean, corrupted = (
        WordTensors.of(run.language.vocabulary.words(some)) for some in (words, others)
    )
    name_of_scores = ranking_name(
        options.scores, options.direction if options.scores in DIRECTED else BOTH
    )
    tables, findings = [], dict[str, Any]()
    for name, viewed in models_of(run):
        assert isinstance(viewed, HookedTransformer)
        read = logit_at(END_ID, viewed.verdict_positions(clean.last))
        third = torch.arange(len(words)) % 3 == 2
        seen, held_out = (
            Bench(
                viewed,
                clean.tokens[some],
                corrupted.tokens[some],
                read.among(some),
                options.ablation,
            )
            for some in ((~third).nonzero()[:, 0], third.nonzero()[:, 0])
        )
        progress(0, 4, f"edges, {name} model")
        table = edge_effects(viewed, seen.clean, seen.corrupted, seen.metric, METHODS, DIRECTIONS)
        scores = edge_scores(table)
        progress(1, 4, f"circuit, {name} model")
        circuit = smallest(seen, scores[name_of_scores], (1 + options.goal) / 2)
        findings[name] = asdict(Quality.on(held_out, circuit))
        tables.append(by_edge(table, circuit).assign(model=name))
        if name == "trained":
            progress(2, 4, "what single effects cannot show")
            findings |= _needs(seen, held_out, circuit)
            progress(3, 4, "curves")
            findings |= _curves(held_out, scores, circuit)
            findings["agreement"] = agreement(table).to_dict("records")
            findings["steps"] = _steps(table)
    progress(4, 4, "circuits")
    table = pd.concat(tables, ignore_index=True)
    findings["circuit"], findings["scores"] = findings.pop("trained"), name_of_scores
    return Answer(table[COLUMNS], findings=plain(findings))


def _claims(answer: Answer) -> list[Claim]:
    """The share of the difference that the smallest circuit keeps, beside random edges and the
    untrained network's circuit."""
    findings = answer.findings
    circuit, untrained = findings["circuit"], findings["untrained"]
    size, least = len(circuit["edges"]), len(untrained["edges"])
    controls = {"as many random edges": _kept(findings["random"])}
    if controls["as many random edges"] < 0:  # to keep more than they do is then to keep nothing
        controls["no edge"] = 0.0
    if least <= size:
        controls[f"the untrained network's own {least} edges"] = _kept(untrained["faithfulness"])
    more = untrained["faithfulness"]
    too_much = f", as wrong as {_kept(more):.0%}: 100% is the whole" if more > 1.5 else ""
    doubts = []
    if circuit["low"] < KEEPS:
        doubts.append(f"It is not sure to keep {KEEPS:.0%}.")
    if _kept(circuit["high"]) < KEEPS < 1 < circuit["high"]:
        doubts.append("It may keep more than there is.")
    if size > circuit["of"] / 2:
        doubts.append("More than half of the edges are no small circuit.")
    return [
        Claim(
            f"{size} of {circuit['of']} edges keep {{}} of the difference when all others are "
            "noised",
            *measured(circuit, "faithfulness", "low", "high", "pairs"),
            "held-out pairs of words",
            "bootstrap over pairs",
            controls,
            ".0%",
            doubts=doubts,
            notes=[
                f'The edges are ranked by "{findings["scores"]}" (the options scores and '
                "direction); knocked out, they take away "
                f"{circuit['completeness']:.0%}, and denoised, they restore "
                f"{circuit['restored']:.0%}; the untrained network's circuit has {least} edges and "
                f"keeps {untrained['faithfulness']:.0%}{too_much}."
            ],
        )
    ]


def _kept(faithfulness: float) -> float:
    """The share that is kept: what a control keeps too much, it misses as what it keeps too little
    (its own difference may be next to nothing)."""
    return min(faithfulness, 2 - faithfulness)


def _pairs(run: Run, options: Options) -> tuple[list[Word], list[Word]]:
    """Members of the window and a counterfactual of each, no pair twice.

    Raises:
        UserError: fewer than four pairs were found.
    """
    language = run.language
    rng = np.random.default_rng([ANALYSIS_SEED, options.seed])
    lengths = language.positive_lengths(language.lengths(run.config.max_n))
    lengths = [length for length in lengths if length <= LONGEST] or lengths[:1]
    sample = language.sample(rng, 4 * options.pairs, lengths, split="test", label=True).words
    words = language.vocabulary.decoded(sample)
    pairs: dict[tuple[Word, Word], None] = {}
    for word in words * DRAWS:
        try:
            pairs[word, language.counterfactual(word, rng)] = None
        except LookupError:
            continue
        if len(pairs) == options.pairs:
            break
    if len(pairs) < 4:
        raise UserError(
            f"{language.name} has only {len(pairs)} pairs of a word and a counterfactual in the "
            "training window: too few for a circuit"
        )
    return [word for word, _ in pairs], [other for _, other in pairs]


def _needs(seen: Bench, held_out: Bench, circuit: Sequence[Edge]) -> dict[str, Any]:
    """Which edges and parts are needed; pairs of parts are named by the pairs that were seen."""
    gaps = incompleteness(held_out, circuit, seed=ANALYSIS_SEED)
    return {
        "knock_outs": knock_outs(held_out, circuit).to_dict("records"),
        "incompleteness": {"largest": gaps["gap"].max(), "sets": len(gaps)},
        "blind_spots": blind_spots(pair_effects(seen), pair_effects(held_out)).to_dict("records"),
    }


def _curves(
    bench: Bench, scores: Mapping[str, Mapping[Edge, float]], circuit: Sequence[Edge]
) -> dict[str, Any]:
    """Faithfulness over the number of edges, for every ranking; and that of random edges."""
    drawn = random_circuits(bench.graph, connected(circuit), RANDOM_DRAWS, ANALYSIS_SEED)
    tables = {name: curve(bench, s) for name, s in scores.items()}
    every = [curve(bench, s) for s in random_scores(bench.graph, RANDOM_RANKINGS, ANALYSIS_SEED)]
    area = {name: areas(table) for name, table in tables.items()}
    area["random"] = pd.DataFrame(map(areas, every)).mean().to_dict()
    tables["random"] = every[0]
    shown = {name: table[table["order"] == "absolute"] for name, table in tables.items()}
    return {
        "random": float(bench.faithfulness(drawn).mean()),
        "areas": area,
        "curves": {
            name: rows[["edges", "faithfulness", "completeness"]].to_dict("list")
            for name, rows in shown.items()
        },
    }


def _steps(table: pd.DataFrame) -> dict[str, dict[str, float]]:
    """The steps that each integrated method took, and how stable its ranking was then."""
    rows = table[table["direction"] == BOTH].groupby("method", sort=False)
    return rows[["steps", "stability"]].first().to_dict("index")


def ranking(table: pd.DataFrame, direction: str) -> list[list[str]]:
    """The trained model's edges, the largest exact effect in a direction first."""
    rows = table[(table["model"] == "trained") & (table["direction"] == direction)]
    rows = rows.sort_values("exact", key=abs, ascending=False, kind="stable")
    return rows[["sender", "receiver"]].to_numpy().tolist()


def _headline(result: Answer) -> pd.DataFrame:
    """The numbers that are compared over seeds: variable, of, value.

    Variables: the circuits of the trained and the untrained model, the rankings of edges, and
    "random": as many random edges, connected and of the same kinds, and random rankings.
    """
    findings, rows = result.findings, list[tuple[str, str, float | None]]()
    for name, circuit in (("trained", findings["circuit"]), ("untrained", findings["untrained"])):
        rows.append((name, "edges kept", len(circuit["edges"])))
        rows.append((name, "share of all edges", len(circuit["edges"]) / circuit["of"]))
        rows += [
            (name, part, circuit[part]) for part in ("faithfulness", "completeness", "restored")
        ]
    free = sum(abs(edge["model"]) < FREE for edge in findings["knock_outs"])
    rows.append(("trained", "edges that cost the whole model nothing", free))
    rows.append(("trained", "incompleteness", findings["incompleteness"]["largest"]))
    rows.append(("random", "faithfulness", findings["random"]))
    rows += [
        (name, area, value)
        for name, areas_of in findings["areas"].items()
        for area, value in areas_of.items()
    ]
    rows += [
        (
            near["method"],
            f"correlation with the exact effects, {near['direction']}",
            near["pearson"],
        )
        for near in findings["agreement"]
    ]
    return numbers(rows)


QUESTION = of_answer(
    "circuits",
    Options,
    analyse,
    _headline,
    chart,
    _claims,
    brief=Options(pairs=36),
    planned=(
        Planned("exact, noising", "exact, denoising", by="variable", alone="CMD"),
        Planned("EAP-IG", "exact, noising", by="variable", alone="CMD"),
        Planned("EAP, noising", "random", by="variable", alone="CMD"),
        Planned("EAP-IG", "random", by="variable", alone="CMD"),
        Planned("trained", "random", by="variable", alone="faithfulness"),
    ),
    needs=("verdict", "one side", "heads", "sum", "residual"),
)
