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

from analyses.answers import Answer, Progress, Question, numbers, plain, quiet
from analyses.charts.circuit import chart
from analyses.options.questions import Circuits as Options
from analyses.registry import BUILT_IN
from analyses.script import script
from analyses.words import ANALYSIS_SEED, WordTensors
from interp.causal.metrics import logit_at
from interp.circuits.circuits import (
    Bench,
    Quality,
    areas,
    curve,
    first_edges,
    random_scores,
    ranked,
    smallest,
)
from interp.circuits.edges import Method, edge_effects
from interp.circuits.graph import Edge
from interp.circuits.scores import agreement, by_edge, edge_scores
from interp.heads.types import clearest_types, head_types
from models.errors import UserError
from models.languages import END_ID, Word
from models.runs.run import Run
from models.transformer.model import HookedTransformer

METHODS: tuple[Method, ...] = ("exact", "EAP", "EAP-IG")
RANDOM_DRAWS = 16
DRAWS = 8  # of counterfactuals of a word, at the most
LOOKS = {
    "previous symbol": "at the symbol before",
    "BOS": "at the beginning",
    "same symbol": "at equal symbols",
    "first of its block": "at the first of the block",
    "induction": "at what followed its symbol earlier",
    "uniform": "evenly over the word",
}
LONGEST = 40
"""The most symbols of a word: every circuit that is tried is run on all words."""


def refusal(run: Run) -> str | None:
    """Why this question cannot be asked of the run, in one line; None where it can."""
    model = run.config.model
    if not model.family.attends:
        return f"{run.name} has no attention heads: it is of architecture {model.architecture}"
    if model.norm_placement != "pre" and model.norm != "none":
        return (
            f"{run.name} has {model.norm_placement}-norm blocks: a circuit of edges needs a "
            "stream that is the sum of what the parts wrote, as pre-norm leaves it"
        )
    return None


def analyse(run: Run, options: Options, progress: Progress = quiet) -> Answer:
    """One row per model and edge.

    Columns: model (trained, untrained), sender, receiver, exact (the effect of the clean activation
    along this edge alone), low, high (95% bootstrap over pairs), EAP, EAP-IG, circuit (is it in the
    circuit of this model?).

    Findings: "circuit" and "untrained" (edges; faithfulness on held-out pairs with low and high;
    completeness), "random" (the mean faithfulness of as many edges drawn at random), "agreement"
    (of the approximations with the exact effects), "areas" (CPR, CMD by ranking), "curves" (by
    ranking: edges, faithfulness, completeness), "text".

    Raises:
        UserError: a model without heads or with another norm, a language without counterfactuals.
    """
    if reason := refusal(run):
        raise UserError(reason)
    words, others = _pairs(run, options)
    clean, corrupted = (
        WordTensors.of(run.language.vocabulary.words(some)) for some in (words, others)
    )
    model, digest = run.model_and_hash()
    tables, found = [], dict[str, Any]()
    for name, viewed in (("trained", model), ("untrained", run.untrained())):
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
        progress(0, 3, f"edges, {name} model")
        table = edge_effects(viewed, seen.clean, seen.corrupted, seen.metric, METHODS)
        scores = edge_scores(table)
        progress(1, 3, f"circuit, {name} model")
        circuit = smallest(seen, scores[options.scores], (1 + options.goal) / 2)
        found[name] = asdict(Quality.on(held_out, circuit))
        tables.append(by_edge(table, circuit).assign(model=name))
        if name == "trained":
            progress(2, 3, "curves")
            found |= _curves(held_out, scores, len(circuit))
            found["agreement"] = agreement(table).to_dict("records")
            found["looks"] = _looks(viewed, clean)
    progress(3, 3, "circuits")
    table = pd.concat(tables, ignore_index=True)
    found["circuit"] = found.pop("trained")
    found["text"] = describe(table[table["model"] == "trained"], found)
    sentence = found["text"].split("\n")[0]
    columns = ["model", "sender", "receiver", "exact", "low", "high", "EAP", "EAP-IG", "circuit"]
    return Answer(table[columns], sentence, plain(found), asdict(options), digest)


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
    words = [
        language.vocabulary.decode(ids[:length])
        for ids, length in zip(sample.ids, sample.lengths, strict=True)
    ]
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


def _curves(bench: Bench, scores: Mapping[str, Mapping[Edge, float]], size: int) -> dict[str, Any]:
    """Faithfulness over the number of edges, for every ranking; and that of random edges."""
    graph = bench.graph
    drawn = random_scores(graph, RANDOM_DRAWS, ANALYSIS_SEED)
    fronts = torch.cat([first_edges(ranked(some, graph), [size]) for some in drawn])
    tables = {name: curve(bench, each) for name, each in scores.items()}
    tables["random"] = curve(bench, drawn[0])
    shown = {name: table[table["order"] == "absolute"] for name, table in tables.items()}
    return {
        "random": float(bench.faithfulness(fronts).mean()),
        "areas": {name: areas(table) for name, table in tables.items()},
        "curves": {
            name: rows[["edges", "faithfulness", "completeness"]].to_dict("list")
            for name, rows in shown.items()
        },
    }


def _looks(model: HookedTransformer, words: WordTensors) -> dict[str, dict[str, Any]]:
    """What each head looks at, in words, and how much of its attention goes there."""
    types = clearest_types(head_types(model, words.tokens, words.mask))
    return {
        f"L{row.layer}H{row.head}": {"how": LOOKS[row.type], "score": row.score}
        for row in types.itertuples()
    }


def ranking(table: pd.DataFrame) -> list[list[str]]:
    """The trained model's edges, the largest exact effect first."""
    rows = table[table["model"] == "trained"]
    rows = rows.sort_values("exact", key=abs, ascending=False, kind="stable")
    return rows[["sender", "receiver"]].to_numpy().tolist()


def headline(result: Answer) -> pd.DataFrame:
    """The numbers that are compared over seeds: variable, of, value.

    Variables: the circuits of the trained and the untrained model, the rankings of edges, and
    "random": as many random edges, and edges in a random order.
    """
    found, rows = result.findings, list[tuple[str, str, float | None]]()
    for name, circuit in (("trained", found["circuit"]), ("untrained", found["untrained"])):
        rows.append((name, "edges kept", len(circuit["edges"])))
        rows.append((name, "share of all edges", len(circuit["edges"]) / circuit["of"]))
        rows += [(name, part, circuit[part]) for part in ("faithfulness", "completeness")]
    rows.append(("random", "faithfulness", found["random"]))
    rows += [
        (name, area, value)
        for name, areas_of in found["areas"].items()
        for area, value in areas_of.items()
    ]
    rows += [
        (near["method"], "correlation with the exact effects", near["pearson"])
        for near in found["agreement"]
    ]
    return numbers(rows)


def describe(table: pd.DataFrame, found: Mapping[str, Any]) -> str:
    """What the circuit does, in sentences made from the numbers; the first is the summary."""
    circuit, into = found["circuit"], dict[str, list[str]]()
    for sender, receiver in circuit["edges"]:
        into.setdefault(receiver, []).append(sender)
    exact = table.set_index(["sender", "receiver"])["exact"]
    lines = [
        f"{len(circuit['edges'])} of {circuit['of']} edges carry {_share(circuit['faithfulness'])} "
        f"[{_share(circuit['low'])}, {_share(circuit['high'])}] of the difference on "
        f"{circuit['pairs']} held-out pairs of words; as many random edges carry "
        f"{_share(found['random'])}, and all edges outside the circuit together "
        f"{_share(1 - circuit['completeness'])}."
    ]
    parts = list(dict.fromkeys(receiver.split(".")[0] for receiver in into if receiver != "logits"))
    for part in parts:
        reads = {slot: into.get(f"{part}.{slot}", []) for slot in ("v", "k", "q")}
        if "H" not in part:
            lines.append(f"{part} reads {_and(into[part])}.")
            continue
        look = found["looks"][part]
        sentence = f"{part} looks {look['how']} ({look['score']:.0%} of its attention)"
        said = [f"passes on what {_and(reads['v'])} wrote"] if reads["v"] else []
        if reads["k"] and reads["k"] == reads["q"]:
            said.append(f"takes its keys and queries from {_and(reads['k'])}")
        else:
            aimed = {"keys": reads["k"], "queries": reads["q"]}
            by = [f"its {name} from {_and(some)}" for name, some in aimed.items() if some]
            said += [f"takes {' and '.join(by)}"] if by else []
        lines.append(f"{_and([sentence, *said])}.")
    last = sorted(into.get("logits", []), key=lambda sender: -abs(exact[sender, "logits"]))
    if last:
        shares = [f"{sender} ({exact[sender, 'logits']:.2f})" for sender in last]
        lines.append(
            f"The verdict is read off {_and(shares)}; the brackets give the direct effect of each."
        )
    return "\n".join(lines)


def _share(value: float) -> str:
    """A share in per cent, without a sign before a zero."""
    return f"{value:.0%}".replace("-0%", "0%") if abs(value) < 0.01 else f"{value:.0%}"


def _and(words: Sequence[str]) -> str:
    return " and ".join([", ".join(words[:-1]), words[-1]] if len(words) > 1 else words)


# -- pictures -------------------------------------------------------------------------------------

QUESTION = Question(
    "circuits",
    BUILT_IN["circuits"],
    Options,
    analyse,
    headline,
    chart,
    brief=Options(pairs=48),
)

if __name__ == "__main__":
    raise SystemExit(script(QUESTION))
