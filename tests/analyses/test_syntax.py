"""Trees in the activations of a run: by hand, and where there are none."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import networkx as nx
import numpy as np
import pandas as pd
import pytest
import torch
from conftest import tiny_config, without_pictures

from analyses.answers import Answer, answer
from analyses.command_line.app import main
from analyses.options.inside import Syntax
from analyses.questions.inside.syntax import OWN, PLACE, QUESTION, SWAPPED, _chosen, words_of
from analyses.words import WordTensors
from interp.model import activations
from interp.probing.structural import Sentences, fit, spearman, swapped
from interp.statistics import bootstrap_mean
from models.errors import UserError
from models.languages import BOS_ID, ContextFreeLanguage, language
from models.languages.grammars.trees import Tree, tree_distances
from models.runs.run import Run
from models.training.loop import train
from models.training.recipes import recipe


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Run:
    made = Run.create(
        tmp_path_factory.mktemp("syntax") / "run", replace(recipe("nested"), steps=20)
    )
    train(made, "cpu")
    return made


@pytest.fixture(scope="module")
def table(run: Run) -> pd.DataFrame:
    """The answer with the options of the command, which then finds it kept."""
    with without_pictures():
        return answer(run, "syntax", Syntax(words=36))[0].table


def test_distances_are_paths_in_the_tree() -> None:
    known = language("nested")
    assert isinstance(known, ContextFreeLanguage)
    word = ("de", "hond", "die", "het", "kleine", "paard", "ziet", "loopt")
    (tree,) = known.trees(word)
    graph, leaves = nx.Graph(), dict[int, object]()

    def grow(part: Tree, at: int) -> None:
        for child in part.children:
            if isinstance(child, Tree):
                graph.add_edge(id(part), id(child))
                grow(child, child.begin)
                at = child.end
            else:
                leaves[at] = ("leaf", at)
                graph.add_edge(id(part), leaves[at])
                at += 1

    grow(tree, 0)
    distance, depth = tree_distances(tree)
    for i in range(len(word)):
        assert depth[i] == nx.shortest_path_length(graph, id(tree), leaves[i])
        for j in range(len(word)):
            assert distance[i, j] == nx.shortest_path_length(graph, leaves[i], leaves[j])


def test_each_row_is_the_probe_called_by_hand(run: Run, table: pd.DataFrame) -> None:
    words, known = words_of(run, 36, 0), run.language
    assert isinstance(known, ContextFreeLanguage)
    assert len(set(words)) == 36
    longest = max(map(len, words))
    mask = torch.tensor([[at < len(word) for at in range(longest)] for word in words])
    distance, depth = torch.zeros(36, longest, longest), torch.zeros(36, longest)
    for row, word in enumerate(words):
        between, below = tree_distances(next(known.trees(word)))
        size = len(word)
        distance[row, :size, :size] = torch.tensor(between)
        depth[row, :size] = torch.tensor(below)
    part = np.arange(36) % 3
    for model, name in ((run.model(), "trained"), (run.untrained(), "untrained")):
        # The fit is chaotic: a rounding error of an activation ends elsewhere. So all words are
        # read at once, as the question reads them, and each is held against the word alone.
        tokens, hook = (
            WordTensors.of(known.vocabulary.words(words)).tokens,
            "blocks.1.hook_resid_post",
        )
        x = activations(model, tokens, [hook])[hook][:, 1:]
        for row, word in enumerate(words):
            ids = torch.tensor([[BOS_ID, *(known.vocabulary.ids[symbol] for symbol in word)]])
            alone = model.run_with_cache(ids)[1][hook][0, 1:]
            torch.testing.assert_close(x[row, : len(word)], alone, rtol=1e-4, atol=1e-5)
        own = Sentences(x, distance, depth, mask)
        for of in ("distance", "depth"):
            for trees in (OWN, SWAPPED) if name == "trained" else (OWN,):
                asked = own if trees == OWN else swapped(own, [len(word) for word in words], 0)
                fitted, tested = (asked[np.flatnonzero(part == each)] for each in (0, 2))
                values = spearman(fit(fitted, of)(tested.x), tested, of)
                (row,) = table[
                    (table["model"] == name)
                    & (table["of"] == of)
                    & (table["trees"] == trees)
                    & (table["site"] == "L1 resid_post")
                ].to_dict("records")
                mean, low, high = map(float, bootstrap_mean(values[np.isfinite(values)]))
                assert (row["score"], row["low"], row["high"]) == pytest.approx(
                    (mean, low, high), abs=1e-9
                )


def test_the_place_alone_needs_no_model(run: Run, table: pd.DataFrame) -> None:
    (row,) = table[(table["trees"] == PLACE) & (table["of"] == "distance")].to_dict("records")
    scores = []
    known = run.language
    assert isinstance(known, ContextFreeLanguage)
    for word in words_of(run, 36, 0)[2::3]:
        distance, _ = tree_distances(next(known.trees(word)))
        at = np.arange(len(word))
        apart = torch.tensor(np.abs(at[:, None] - at))[None].float()
        one = Sentences(
            torch.zeros(1, len(word), 1),
            torch.tensor(distance)[None].float(),
            torch.zeros(1, len(word)),
            torch.ones(1, len(word), dtype=torch.bool),
        )
        scores.append(spearman(apart, one, "distance")[0])
    assert row["score"] == pytest.approx(np.nanmean(scores))


def test_the_site_is_chosen_by_other_words(table: pd.DataFrame) -> None:
    """Turned around, the scores choose no other site."""
    worse = table.assign(score=-table["score"])
    assert _chosen(worse)["site"].tolist() == _chosen(table)["site"].tolist()
    assert len(QUESTION.chart(Answer(table)).to_dict()["concat"]) == 2


def test_trees_are_told_beyond_every_control(table: pd.DataFrame) -> None:
    """The place in the word may say as much turned round: the words that choose tell its sign."""
    clear = table.assign(score=0.1, low=0.6)
    own = (clear["model"] == "trained") & (clear["trees"] == OWN)
    clear.loc[own, "score"] = 0.7
    assert {claim.grade for claim in QUESTION.claims(Answer(clear))} == {"holds"}
    for model, trees in (("untrained", OWN), ("trained", SWAPPED), ("none", PLACE)):
        rows = (clear["model"] == model) & (clear["trees"] == trees)
        as_good = clear.assign(score=clear["score"].where(~rows, 0.65))
        assert {claim.grade for claim in QUESTION.claims(Answer(as_good))} == {
            "no better than its controls"
        }
    place = clear["trees"] == PLACE
    turned = {"score": clear["score"].where(~place, -0.65)}
    turned |= {"choice": clear["choice"].where(~place, -0.6)}
    assert {c.grade for c in QUESTION.claims(Answer(clear.assign(**turned)))} == {
        "no better than its controls"
    }


def test_the_command(run: Run, table: pd.DataFrame, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["analyse", str(run.path), "syntax", "--words", "36", "--json"]) == 0
    said = json.loads(capsys.readouterr().out)
    assert [claim["finding"] for claim in said["claims"]] == [
        c.finding for c in QUESTION.claims(Answer(table))
    ]
    assert len(said["table"]) == len(table)
    compared = QUESTION.headline(Answer(table)).set_index(["variable", "of"])["value"]
    best = _chosen(table)
    assert len(compared) == len(best)
    for row in best.itertuples():
        assert compared[row.of, f"{row.model}, {row.trees}"] == row.score


def test_a_language_without_trees_says_so(tmp_path: Path) -> None:
    made = Run.create(tmp_path / "run", tiny_config(steps=1))
    train(made, "cpu")
    with pytest.raises(UserError, match="anbn has no trees: ask a run on a grammar"):
        answer(made, "syntax")
    few = Run.create(tmp_path / "few", replace(recipe("anbm"), steps=1, max_n=6))
    train(few, "cpu")
    with pytest.raises(UserError, match=r"has only \d+ such words: 30 are the least"):
        answer(few, "syntax")
