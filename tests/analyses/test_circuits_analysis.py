"""The circuit of a run: its pairs, its sentences, its graph, and that bad wishes are refused."""

from __future__ import annotations

from dataclasses import asdict
from itertools import product
from pathlib import Path
from typing import Literal

import numpy as np
import pandas as pd
import pytest
import torch
from conftest import tiny_config

from analyses.answers import Answer, fresh_answer
from analyses.charts.circuit import curve_chart, graph_chart, trained
from analyses.questions.parts.circuit import verdicts
from analyses.questions.parts.circuits import (
    LONGEST,
    QUESTION,
    Options,
    _pairs,
    analyse,
    ranking,
)
from interp.circuits.circuits import Bench
from interp.circuits.graph import Edge, Graph
from models.errors import UserError
from models.languages import END_ID
from models.runs.run import Run
from models.training.loop import train
from models.transformer.model import HookedTransformer

RANKINGS = {"EAP-IG", "conductance", "random"} | {
    f"{method}, {direction}"
    for method in ("exact", "EAP", "GIM")
    for direction in ("noising", "denoising")
}


@pytest.fixture(scope="module")
def answered(tmp_path_factory: pytest.TempPathFactory) -> tuple[Run, Answer]:
    """A tiny model that learned nothing yet: what is asked of it is the book-keeping."""
    run = Run.create(tmp_path_factory.mktemp("circuits") / "run", tiny_config(max_n=12))
    train(run, "cpu")
    return run, fresh_answer(run, QUESTION, Options(pairs=16, goal=0.8))


def test_pairs_are_a_member_and_its_counterfactual(tmp_path: Path) -> None:
    run = Run.create(tmp_path / "run", tiny_config(max_n=25))
    words, others = _pairs(run, Options(pairs=30))
    assert len(words) == len(others) == len(set(zip(words, others, strict=True))) == 30
    for word, other in zip(words, others, strict=True):
        assert run.language.contains(word)
        assert not run.language.contains(other)
        assert len(word) == len(other) <= LONGEST
    assert len({len(word) for word in words}) > 10
    assert _pairs(run, Options(pairs=30, seed=1)) != (words, others)


def test_the_table_has_every_edge_of_both_models(answered: tuple[Run, Answer]) -> None:
    run, result = answered
    graph = Graph(run.config.model.n_layers, run.config.model.n_heads, perceptrons=True)
    by_model = result.table.set_index(["model", "direction"]).sort_index()
    for name, key in (("trained", "circuit"), ("untrained", "untrained")):
        for direction in ("noising", "denoising"):
            rows = by_model.loc[(name, direction)]
            assert list(zip(rows["sender"], rows["receiver"], strict=True)) == list(graph.edges)
            assert (rows["low"] <= rows["exact"]).all()
            assert (rows["exact"] <= rows["high"]).all()
            inside = rows.loc[rows["circuit"], ["sender", "receiver"]].to_numpy().tolist()
            assert inside == result.findings[key]["edges"]
            assert result.findings[key]["of"] == len(rows)
    assert set(result.findings["curves"]) == set(result.findings["areas"]) == RANKINGS
    near = {(row["direction"], row["method"]) for row in result.findings["agreement"]}
    assert near == set(product(("noising", "denoising"), ("EAP", "GIM", "EAP-IG", "conductance")))
    assert set(result.findings["steps"]) == {"EAP-IG", "conductance"}
    (claim,) = result.claims
    assert (claim.value, claim.n) == (result.findings["circuit"]["faithfulness"], 5)
    assert claim.controls["as many random edges"] == result.findings["random"]


@pytest.mark.parametrize("direction", ["noising", "denoising"])
def test_the_ranking_begins_with_the_largest_effect(
    answered: tuple[Run, Answer], direction: str
) -> None:
    table = answered[1].table.query("model == 'trained' and direction == @direction")
    rows = table.set_index(["sender", "receiver"])["exact"].abs()
    sizes = [rows[tuple(edge)] for edge in ranking(answered[1].table, direction)]
    assert sizes == sorted(sizes, reverse=True)
    assert len(sizes) == len(rows)


def test_a_circuit_may_be_searched_by_any_scores(
    answered: tuple[Run, Answer], monkeypatch: pytest.MonkeyPatch
) -> None:
    """And says by which."""
    run, result = answered
    assert result.findings["scores"] == "exact, noising"
    assert 'The edges are ranked by "exact, noising" (' in result.claims[0].sentence
    asked = list[dict[Edge, float]]()

    def every_third(bench: Bench, scores: dict[Edge, float], goal: float) -> list[Edge]:
        asked.append(scores)
        return list(bench.graph.edges[::3])

    monkeypatch.setattr("analyses.questions.parts.circuits.smallest", every_third)
    wishes = [("exact", "denoising"), ("GIM", "noising"), ("conductance", "denoising")]
    for (scores, direction), name in zip(
        wishes, ("exact, denoising", "GIM, noising", "conductance"), strict=True
    ):
        asked.clear()
        other = analyse(run, Options(pairs=16, scores=scores, direction=direction))
        assert other.findings["scores"] == name
        rows = other.table.set_index(["model", "direction"]).loc[("trained", direction)]
        assert list(asked[0].values()) == pytest.approx(rows[scores].tolist())


def test_the_graph_draws_these_edges(answered: tuple[Run, Answer]) -> None:
    edges = ranking(answered[1].table, "noising")[:5]
    drawn = graph_chart(trained(answered[1]), edges).to_dict()
    data = drawn["datasets"].values()
    (lines,) = [rows for rows in data if "edge" in rows[0]]
    assert [row["edge"] for row in lines] == [" → ".join(edge) for edge in edges]
    (parts,) = [rows for rows in data if "part" in rows[0]]
    ends = {end.partition(".")[0] for edge in edges for end in edge}
    assert {row["part"] for row in parts if row["used"]} == ends
    curves = pd.DataFrame(next(iter(curve_chart(answered[1]).to_dict()["datasets"].values())))
    assert set(curves["ranking"]) == {"exact", "EAP", "GIM", "EAP-IG", "conductance", "random"}


@pytest.mark.parametrize(
    ("wish", "fault"),
    [({"pairs": 3}, "--pairs is 3"), ({"goal": 1.0}, "--goal is 1.0"), ({"goal": 0.0}, "--goal")],
)
def test_bad_wishes_are_refused(
    answered: tuple[Run, Answer], wish: dict[str, float], fault: str
) -> None:
    with pytest.raises(UserError, match=fault):
        analyse(answered[0], Options(**{**asdict(Options()), **wish}))


@pytest.mark.slow
def test_more_is_found_where_more_is_wanted(answered: tuple[Run, Answer]) -> None:
    run, result = answered
    more = analyse(run, Options(pairs=16, goal=0.99))
    assert len(more.findings["circuit"]["edges"]) >= len(result.findings["circuit"]["edges"])
    assert np.isfinite(more.findings["circuit"]["faithfulness"])


@pytest.mark.parametrize("ablation", ["resample", "zero"])
def test_on_one_word_no_edge_is_its_counterfactuals_and_all_edges_are_the_model(
    answered: tuple[Run, Answer], ablation: Literal["resample", "zero"]
) -> None:
    run, _ = answered
    model, word = run.model(), tuple("aaabbb")
    assert isinstance(model, HookedTransformer)
    everything = [list(edge) for edge in Graph.of(model).edges]
    table, effects = verdicts(model, run, everything, ablation, "noising", word)
    logit = table.set_index("run")["logit"]
    tokens = torch.as_tensor(run.language.vocabulary.words([word]).tokens)
    assert logit["the whole model"] == pytest.approx(model(tokens)[0, -1, END_ID].item(), abs=1e-5)
    assert logit["the circuit alone"] == logit["the whole model"]
    same = logit["all other edges"] == pytest.approx(logit["its counterfactuals"], abs=1e-5)
    assert same == (ablation == "resample")
    assert list(zip(effects["sender"], effects["receiver"], strict=True)) == [
        tuple(edge) for edge in everything
    ]
    assert (table["accepted"] <= table["pairs"]).all()
    nothing, _ = verdicts(model, run, [], ablation, "noising", word)
    assert nothing["logit"].tolist() == table["logit"].to_numpy()[[0, 2, 1, 3]].tolist()
