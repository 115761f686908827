"""Senses are those of the trees; what is planted is told apart, and the embedding never is."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from conftest import tiny_config, without_pictures

from analyses.answers import Answer, answer
from analyses.command_line.app import main
from analyses.options.inside import Senses
from analyses.questions.inside import senses as module
from analyses.questions.inside.senses import QUESTION, _occurrences, _senses, _senses_of
from models.errors import UserError
from models.languages import ContextFreeLanguage, language
from models.runs.run import Run
from models.training.loop import train
from models.training.recipes import recipe


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Run:
    config = replace(recipe("linear"), objective="language-model", steps=60, max_n=12)
    made = Run.create(tmp_path_factory.mktemp("senses") / "run", config)
    train(made, "cpu")
    return made


@pytest.fixture(scope="module")
def table(run: Run) -> pd.DataFrame:
    """The answer with the options of the command, which then finds it kept."""
    with without_pictures():
        return answer(run, "senses", Senses(600))[0].table


def test_a_sense_is_the_nonterminal_above_a_word() -> None:
    known = language("linear")
    assert isinstance(known, ContextFreeLanguage)
    word = ["de", "hond", "ziet", "het", "paard", "en", "het", "slaapt"]
    assert _senses_of(next(known.trees(word))) == ["D", "N", "VT", "D", "N", "C", "C", "VI"]


def test_occurrences_are_where_the_trees_say(run: Run) -> None:
    words, found = _occurrences(run, 600, 0)
    assert set(found) == {"en", "het"}
    assert set(found["het"]) == {"C", "D"}
    known = run.language
    assert isinstance(known, ContextFreeLanguage)
    for word, own in found.items():
        for sense, places in own.items():
            assert len(places) >= module.LEAST
            for row, at in places[:20]:
                sentence = known.vocabulary.decode(words.ids[row, : words.lengths[row]])
                assert sentence[at - 1] == word
                assert _senses_of(next(known.trees(sentence)))[at - 1] == sense


def test_the_embedding_is_at_chance_and_layers_are_not(table: pd.DataFrame) -> None:
    rows = table.set_index(["word", "model", "site"])
    for word in ("en", "het"):
        for model in ("trained", "untrained"):
            start = rows.loc[(word, model, "embed")]
            assert start["value"] == pytest.approx(0.5)
            assert start["within"] == pytest.approx(1.0)
            assert start["between"] == pytest.approx(1.0)
    assert rows.loc[("het", "trained", "L1 resid_post"), "value"] > 0.7
    assert (table["low"] <= table["value"] + 1e-9).all()
    assert (table["value"] <= table["high"] + 1e-9).all()


def test_planted_activations_are_told_apart_and_noise_is_not() -> None:
    rng = np.random.default_rng(0)
    labels = np.array(["C"] * 60 + ["D"] * 140)
    noise = rng.normal(size=(200, 4))
    planted = noise + np.where(labels == "C", 6.0, -6.0)[:, None]
    apart, chance = module._told_apart(planted, labels), module._told_apart(noise, labels)
    assert apart["value"] == pytest.approx(1.0)
    assert apart["within"] > apart["between"]
    assert 0.3 < chance["value"] < 0.7
    assert apart["occurrences"] == 100


def test_an_occurrence_of_an_equal_beginning_counts_once(run: Run) -> None:
    words, found = _occurrences(run, 600, 0)
    places, labels = module._different(words, found["het"])
    each = zip(places, labels, strict=True)
    begins = {(words.ids[row, :at].tobytes(), sense) for (row, at), sense in each}
    assert len(begins) == len(places) < sum(map(len, found["het"].values()))


def test_words_picture_and_command(
    run: Run, table: pd.DataFrame, capsys: pytest.CaptureFixture[str]
) -> None:
    assert "the senses of het apart (C or D)" in " ".join(
        c.finding for c in QUESTION.claims(Answer(table))
    )
    assert QUESTION.chart(Answer(table)).to_dict()["facet"]["column"]["field"] == "word"
    compared = QUESTION.headline(Answer(table)).set_index(["variable", "of"])["value"]
    assert len(compared) == len(table)
    for row in table.itertuples():
        assert compared[f"{row.word}, {row.site}", row.model] == row.value
    words = ["analyse", str(run.path), "senses", "--sentences"]
    assert main([*words, "600", "--json"]) == 0
    said = json.loads(capsys.readouterr().out)["claims"]
    assert [claim["value"] for claim in said] == [
        claim.value for claim in QUESTION.claims(Answer(table))
    ]
    assert main([*words, "0"]) == 2
    assert "--sentences is 0: it must be at least 1" in capsys.readouterr().err


def test_senses_are_told_beyond_chance_and_the_untrained_network_at_its_best_site() -> None:
    rows = [
        ("trained", "embed", 0.5, 0.4),
        ("trained", "L0", 0.9, 0.8),
        ("untrained", "embed", 0.5, 0.4),
        ("untrained", "L0", 0.6, 0.5),
    ]
    table = pd.DataFrame(rows, columns=["model", "site", "value", "low"])
    table = table.assign(word="het", senses="C D", high=1.0, occurrences=50)
    (claim,) = QUESTION.claims(Answer(table))
    assert (claim.grade, claim.value) == ("holds", 0.9)
    table.loc[2, "value"] = 0.85  # where the trained network is not judged
    assert QUESTION.claims(Answer(table))[0].grade == "no better than its controls"
    table = table.assign(value=[0.5, 0.6, 0.4, 0.4], low=[0.4, 0.45, 0.3, 0.3])
    assert QUESTION.claims(Answer(table))[0].grade == "no better than its controls"


def test_what_has_no_two_senses_says_so(tmp_path: Path) -> None:
    plain = Run.create(tmp_path / "anbn", tiny_config(steps=1))
    with pytest.raises(UserError, match="anbn has no trees"):
        answer(plain, "senses")
    nested = Run.create(tmp_path / "nested", tiny_config(language="nested", steps=1, max_n=8))
    with pytest.raises(UserError, match="no word of nested stands 40 times for each of two"):
        _senses(nested, Senses(100))
