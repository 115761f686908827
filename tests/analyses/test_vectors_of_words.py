"""Which analogies a grammar makes, vectors of a model by hand, and the command."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import torch
from conftest import tiny_config, without_pictures

from analyses import answers
from analyses.answers import Answer
from analyses.command_line.app import main
from analyses.needs import require
from analyses.options.inside import Vectors
from analyses.questions.inside.vectors import (
    QUESTION,
    RANDOM,
    _left_out,
    _neighbours,
    _of_model,
    _side_by_side,
    _twins_of,
    analogies_of,
    classes_of,
    map_of,
    nearest,
    text_of,
    vectors_of,
)
from interp.vectors.analogies import answer, right
from models.base import EmbeddingModel
from models.errors import UserError
from models.languages import FIRST_SYMBOL_ID, ContextFreeLanguage, language
from models.runs.run import Run
from models.training.loop import train
from models.training.recipes import recipe


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Run:
    config = replace(recipe("nested"), objective="language-model", steps=40, max_n=10)
    made = Run.create(tmp_path_factory.mktemp("vectors") / "run", config)
    train(made, "cpu")
    return made


@pytest.fixture(scope="module")
def table(run: Run) -> pd.DataFrame:
    """The answer with the options of the command, which then finds it kept."""
    with without_pictures():
        return answers.answer(run, "vectors", Vectors(sentences=100, seeds=2))[0].table


def grammar(name: str = "nested") -> ContextFreeLanguage:
    known = language(name)
    assert isinstance(known, ContextFreeLanguage)
    return known


def test_classes_are_the_nonterminals_that_become_a_word() -> None:
    known = classes_of(grammar())
    assert known["hond"] == known["kat"] == {"N_c"}
    assert known["loopt"] == known["slaapt"] == {"VI_c", "VI_n"}
    assert known["de"] == {"D_c", "D_p"}
    assert "die" not in known  # it stands in the middle of a production
    symbols = grammar().vocabulary.symbols
    twins = _twins_of(grammar())
    assert {symbols[i] for i in twins[symbols.index("zien")]} == {"zien", "volgen"}


def test_analogies_have_the_answer_that_the_grammar_gives() -> None:
    known, symbols = grammar(), grammar().vocabulary.symbols
    found = {
        (symbols[each.a], symbols[each.b], symbols[each.c]): {symbols[i] for i in each.answers}
        for each in analogies_of(known)
    }
    assert found["loopt", "lopen", "ziet"] == {"zien", "volgen"}
    assert found["hond", "honden", "loopt"] == {"lopen", "slapen"}
    assert ("hond", "paard", "loopt") not in found  # loopt goes with both
    classes = classes_of(known)
    for (a, b, c), goal in found.items():
        kinds = [{name.partition("_")[0] for name in classes[w]} for w in (a, b, c, *goal)]
        assert kinds[0] == kinds[1] != kinds[2]
        assert all(kind == kinds[2] for kind in kinds[3:])
        feature = [{name.partition("_")[2] for name in classes[w]} for w in (a, b, c, *goal)]
        assert feature[0] & feature[2]
        assert not feature[0] & feature[1]
        assert all(feature[1] & each and not feature[2] & each for each in feature[3:])


def test_vectors_of_a_model_are_its_own(run: Run) -> None:
    model, text = run.model(), text_of(run, 60, 0)
    assert isinstance(model, EmbeddingModel)
    found = _of_model(model, text)
    assert set(found) == {"W_E", "W_U", "after layer 0", "after layer 1"}
    assert found["W_E"] == pytest.approx(model.W_E.detach().numpy()[FIRST_SYMBOL_ID:])
    token = run.language.vocabulary.ids["hond"]
    _, cache = model.run_with_cache(torch.as_tensor(text.tokens))
    stream = cache["blocks.1.hook_resid_post"].detach().numpy()
    there = [
        stream[row, at + 1]
        for row, length in enumerate(text.lengths.tolist())
        for at in range(length)
        if text.ids[row, at] == token
    ]
    assert len(there) > 3
    mean = np.mean(there, axis=0)
    assert found["after layer 1"][token - FIRST_SYMBOL_ID] == pytest.approx(mean, abs=1e-4)


def test_the_table_is_the_analogies_asked_by_hand(run: Run, table: pd.DataFrame) -> None:
    known = grammar()
    rows = table.set_index(["vectors", "kind", "without"])
    each: dict[tuple[str, str], list[float]] = {}
    for seed in (0, 1):
        own = vectors_of(run, text_of(run, 100, seed), 16, 2, seed)
        for name in ("skip-gram", "PPMI + SVD", "W_E, untrained", RANDOM):
            for without, twins in _left_out(known).items():
                found = right(own[name], analogies_of(known), twins, seed)
                each.setdefault((name, without), []).append(found["c + b - a"].mean())
            near = _neighbours(known, own[name]).mean()
            each.setdefault((name, "near"), []).append(near)
    for (name, what), values in each.items():
        kind = ("neighbours", "inputs") if what == "near" else ("c + b - a", what)
        assert rows.loc[(name, *kind), "value"] == pytest.approx(np.mean(values)), (name, what)
    assert set(table["seeds"]) == {2}
    assert rows.loc[("skip-gram", "c + b - a", "inputs"), "cases"] == len(analogies_of(known))
    assert rows.loc[(RANDOM, "neighbours", "inputs"), "value"] < 0.4


def test_the_map_and_the_nearest_words(run: Run) -> None:
    known, symbols = grammar(), grammar().vocabulary.symbols
    own = np.random.default_rng(0).normal(size=(len(symbols), 5))
    found = map_of(known, own)
    assert set(symbols) - set(found["word"]) == {"en", "hij", "ze"}  # no sentence has them
    assert found["x"].var() >= found["y"].var()
    words = nearest(known, own, "loopt", "lopen", "ziet", 4)
    numbers = [symbols.index(word) for word in ("loopt", "lopen", "ziet")]
    order = [symbols[i] for i in answer(own, *numbers)]
    assert words["word"].tolist() == [w for w in order if w not in ("en", "hij", "ze")][:4]
    assert words["cosine"].is_monotonic_decreasing


def test_words_and_picture(table: pd.DataFrame) -> None:
    wide = _side_by_side(table)
    assert wide.columns.tolist()[:3] == ["vectors", "without", "c + b - a"]
    compared = QUESTION.headline(Answer(table)).set_index(["variable", "of"])["value"]
    assert len(compared) == len(table)
    for row in table.itertuples():
        assert compared[f"{row.kind}, without {row.without}", row.vectors] == row.value
    assert QUESTION.chart(Answer(table)).to_dict()["facet"]["column"]["field"] == "without"


def test_vectors_are_told_beyond_those_that_know_nothing(table: pd.DataFrame) -> None:
    """Of an analogy, also beyond all that needs no way from a to b."""
    own = (table["vectors"] == "W_E") & table["kind"].isin(["neighbours", "c + b - a"])
    clear = table.assign(value=np.where(own, 0.9, 0.2), least=0.8, most=1.0)
    assert [claim.grade for claim in QUESTION.claims(Answer(clear))] == ["holds", "holds"]
    no = "no better than its controls"
    ways = [("c alone", "W_E"), ("b alone", "W_E"), ("shuffled", "W_E"), ("chance", "W_E")]
    for kind, name in (*ways, ("c + b - a", "W_E, untrained"), ("c + b - a", RANDOM)):
        rows = (clear["vectors"] == name) & (clear["kind"] == kind)
        as_good = clear.assign(value=clear["value"].where(~rows, 0.85))
        assert [claim.grade for claim in QUESTION.claims(Answer(as_good))] == ["holds", no], (
            kind,
            name,
        )
    rows = (clear["vectors"] == "W_E, untrained") & (clear["kind"] == "neighbours")
    as_good = clear.assign(value=clear["value"].where(~rows, 0.85))
    assert [claim.grade for claim in QUESTION.claims(Answer(as_good))] == [no, "holds"]


def test_the_interval_over_words_holds_the_share(table: pd.DataFrame) -> None:
    rows = table[table["vectors"].isin(["W_E", RANDOM])]
    assert (rows["least"] <= rows["value"] + 1e-9).all()
    assert (rows["value"] <= rows["most"] + 1e-9).all()
    assert set(rows["words"]) == {sum(len(twins) > 1 for twins in _twins_of(grammar()).values())}


def test_a_language_without_classes_says_so(tmp_path: Path) -> None:
    made = Run.create(tmp_path / "run", tiny_config(steps=1))
    with pytest.raises(UserError, match="anbn has no classes of words"):
        require(made, *QUESTION.needs)


def test_the_command(run: Run, table: pd.DataFrame, capsys: pytest.CaptureFixture[str]) -> None:
    words = ["analyse", str(run.path), "vectors"]
    assert main([*words, "--sentences", "100", "--seeds", "2", "--json"]) == 0
    said = json.loads(capsys.readouterr().out)["claims"]
    assert [claim["value"] for claim in said] == [
        claim.value for claim in QUESTION.claims(Answer(table))
    ]
    assert main([*words, "--dim", "0"]) == 2
    assert "--dim is 0: it must be at least 1" in capsys.readouterr().err
