"""Words and facts are the language's own; each vector is what it says; controls stay controls."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import torch
from conftest import tiny_config, without_pictures

from analyses.answers import Answer, answer
from analyses.command_line.app import main
from analyses.options.inside import Sentences
from analyses.questions.inside.sentence_words import MOST_SYMBOLS, _facts, asked_of
from analyses.questions.inside.sentences import (
    MODELS,
    QUESTION,
    _read,
    _sentences,
    _shuffled,
    _side_by_side,
)
from interp.statistics import wilson
from models.config import ModelConfig
from models.encoder_decoders.recurrent import HookedLSTMPair
from models.errors import UserError
from models.languages import Language, Words, language
from models.rivals.recurrent import HookedLSTM, State
from models.runs.run import Run
from models.training.loop import train

SHAPE = {"n_layers": 2, "d_model": 16}
LSTM = ModelConfig(architecture="lstm", **SHAPE)
PAIR = ModelConfig(architecture="lstm-encoder-decoder", **SHAPE)


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Run:
    config = tiny_config(language="dyck2", max_n=12, steps=40, batch_size=32)
    made = Run.create(tmp_path_factory.mktemp("sentences") / "dyck2-s0", config)
    train(made, "cpu")
    return made


@pytest.fixture(scope="module")
def table(run: Run) -> pd.DataFrame:
    """The answer with the options of the command, which then finds it kept."""
    with without_pictures():
        return answer(run, "sentences", Sentences(200))[0].table


def new(path: Path, name: str, model: ModelConfig | None = None, **changes: object) -> Run:
    """A run that was not trained."""
    model = tiny_config().model if model is None else model
    return Run.create(path / name, tiny_config(language=name, model=model, **changes))


def decoded(known: Language, words: Words) -> list[tuple[str, ...]]:
    each = zip(words.ids, words.lengths, strict=True)
    return [known.vocabulary.decode(ids[:length]) for ids, length in each]


def test_words_are_different_and_half_of_them_members(run: Run) -> None:
    asked = asked_of(run, 400, 0)
    words = decoded(run.language, asked.words)
    assert len(words) == len(set(words)) == 400
    assert sum(map(run.language.contains, words)) == 200
    assert asked.fit.sum() == 200
    assert asked.choose.sum() == 100
    assert not (asked.fit & asked.choose).any()
    other = asked_of(run, 400, 1)
    assert decoded(run.language, other.words) != words


@pytest.mark.parametrize("name", ["dyck2", "anbn", "nested", "shuffle2", "parity"])
def test_facts_are_those_of_the_language(tmp_path: Path, name: str) -> None:
    asked = asked_of(new(tmp_path, name, max_n=12), 60, 0)
    known = language(name)
    symbols = {fact.removeprefix("count ") for fact in asked.facts if fact.startswith("count ")}
    assert len(symbols) <= MOST_SYMBOLS
    kept = [fact.removeprefix("greatest ") for fact in asked.facts if fact.startswith("greatest ")]
    wanted = [each for each, kind in known.variables.items() if kind == "count"]
    assert kept == [each for each in wanted if not each.startswith("count_")]
    for row, word in enumerate(decoded(known, asked.words)):
        values = {fact: int(target.values[row, 0]) for fact, target in asked.facts.items()}
        assert values["length"] == len(word)
        assert values["membership"] == known.contains(word)
        assert all(values[f"count {symbol}"] == word.count(symbol) for symbol in symbols)
        states = [known.state(word[:end]) for end in range(len(word) + 1)]
        alive = [states[0], *(state for state in states[1:] if state["valid"])]
        for each in kept:
            assert values[f"greatest {each}"] == max(state[each] for state in alive)


def test_the_symbols_that_are_counted_are_those_that_differ_most() -> None:
    known = language("nested")
    words = known.vocabulary.words([["de"] * n + ["kat"] * (n % 2) + ["hond"] for n in range(9)])
    found = _facts(known, words, None)
    assert [fact for fact in found if fact.startswith("count ")][:2] == ["count de", "count kat"]
    assert "count hond" not in found  # once in each word


def test_a_bag_is_the_mean_of_the_embeddings_whatever_their_order(run: Run) -> None:
    model = run.model()
    words = run.language.vocabulary.words(["([])()", "))(([]", "()", "(([]))()"])
    known = _read(model, words, np.ones(4, dtype=bool))
    bag = known.pooled["bag"]["embed"]
    for row, ids in enumerate(decoded(run.language, words)):
        own = model.W_E[[model.vocabulary.ids[symbol] for symbol in ids]]
        torch.testing.assert_close(bag[row], own.mean(dim=0))
    torch.testing.assert_close(bag[0], bag[1])
    assert not torch.allclose(known.pooled["mean"]["L0 resid_post"][0], bag[0])


def test_vectors_are_those_of_a_word_alone(run: Run) -> None:
    model = run.model()
    words = run.language.vocabulary.words(["([])()", "()", "(([]))()"])
    found = _read(model, words, np.ones(3, dtype=bool)).pooled
    for row, word in enumerate(decoded(run.language, words)):
        _, cache = model.run_with_cache(model.to_tokens(" ".join(word)))
        x = cache["blocks.0.hook_resid_post"][0]
        site = "L0 resid_post"
        torch.testing.assert_close(found["first"][site][row], x[0])
        torch.testing.assert_close(found["last"][site][row], x[-1])
        torch.testing.assert_close(found["mean"][site][row], x[1:].mean(dim=0))


def test_z_is_what_a_recurrent_network_goes_on_from(tmp_path: Path) -> None:
    made = new(tmp_path, "anbn", LSTM).untrained()
    assert isinstance(made, HookedLSTM)
    words = made.vocabulary.words(["aab", "abbba"])
    found = _read(made, words, np.ones(2, dtype=bool)).pooled["z*"]["all layers"]
    for row, word in enumerate(["aab", "abbba"]):
        x, ends = made.embed(made.to_tokens(word)), list[torch.Tensor]()
        for block in made.blocks:
            x, (hidden, cells) = block.run(x)
            ends += [cells[0], hidden[0]]
        torch.testing.assert_close(found[row], torch.cat(ends))


def test_z_of_two_sides_is_what_the_decoder_starts_from(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    made = new(tmp_path, "copy", PAIR).untrained()
    assert isinstance(made, HookedLSTMPair)
    words = made.vocabulary.words(["abc>", "d>"])
    found = _read(made, words, np.ones(2, dtype=bool)).pooled["z*"]["all layers"]
    decoder, starts = made.blocks[1], list[State]()
    go_on = decoder.run

    def watched(x: torch.Tensor, start: State, **how: object) -> object:
        starts.append(start)
        return go_on(x, start, **how)

    monkeypatch.setattr(decoder, "run", watched)
    made(torch.as_tensor(words.tokens))
    hidden, cells = starts[0]
    torch.testing.assert_close(found, torch.cat([cells, hidden], dim=1))


def test_sources_stand_for_pairs(tmp_path: Path) -> None:
    run = new(tmp_path, "depths", PAIR, max_n=10)
    asked = asked_of(run, 60, 0)
    words = decoded(run.language, asked.words)
    assert len(words) == len(set(words))
    assert all(word.index(">") == len(word) - 1 for word in words)
    assert "membership" not in asked.facts
    assert list(asked.facts["length"].values[:, 0]) == [len(word) - 1 for word in words]
    opens = [word.count("(") for word in words]
    assert list(asked.facts["count ("].values[:, 0]) == opens


def test_a_tagger_sees_sources_without_their_borders(tmp_path: Path) -> None:
    model = ModelConfig(n_layers=1, n_heads=2, d_model=16, mask="bidirectional")
    run = new(tmp_path, "depths", model, max_n=10, objective="tags")
    asked = asked_of(run, 60, 0)
    words = decoded(run.language, asked.words)
    assert not any(">" in word for word in words)
    assert list(asked.facts["length"].values[:, 0]) == [len(word) for word in words]
    vectors = _read(run.untrained(), asked.words, asked.fit).pooled["last"]["L0 resid_post"]
    _, cache = run.untrained().run_with_cache(run.untrained().to_tokens(" ".join(words[0])))
    torch.testing.assert_close(vectors[0], cache["blocks.0.hook_resid_post"][0, -1])


def test_a_first_token_that_sees_nothing_holds_nothing(table: pd.DataFrame) -> None:
    rows = table.set_index(["pooling", "fact", "model"])["score"]
    for fact in table["fact"].unique():
        blind = rows["first", fact, "no activation"]
        assert rows["first", fact, "trained"] == pytest.approx(blind, abs=1e-6)
    assert rows["last", "length", "trained"] > 0.5


def test_the_class_token_of_an_encoder_sees_the_word(tmp_path: Path) -> None:
    model = ModelConfig(n_layers=1, n_heads=2, d_model=16, mask="bidirectional")
    run = new(tmp_path, "dyck2", model, max_n=12, objective="verdict", steps=1)
    train(run, "cpu")
    rows = _sentences(run, Sentences(200)).set_index(["pooling", "fact", "model"])["score"]
    assert rows["first", "length", "trained"] > 0.5


def test_each_row_is_a_site_that_other_words_chose(table: pd.DataFrame, run: Run) -> None:
    assert not table.duplicated(["pooling", "fact", "model"]).any()
    assert set(table["model"]) == set(MODELS)
    assert set(table["pooling"]) == {"bag", "first", "last", "mean", "1 query", "4 queries"}
    assert set(table.loc[table["fact"] == "membership", "metric"]) == {"accuracy"}
    clear = table[table["score"] > 0.1]
    assert ((clear["low"] < clear["score"]) & (clear["score"] < clear["high"])).all()
    assert set(table["n_train"]) == {100}
    assert set(table["n_test"]) == {50}
    shuffled = table[(table["model"] == "shuffled labels") & (table["fact"] != "membership")]
    assert (shuffled["score"] < 0.3).all()


def test_shuffled_labels_are_shuffled_where_probes_are_fitted(run: Run) -> None:
    asked = asked_of(run, 100, 0)
    true = asked.facts["length"].values
    other = _shuffled(asked.facts["length"], asked.fit, 0).values
    assert (other[~asked.fit] == true[~asked.fit]).all()
    assert sorted(other[asked.fit, 0]) == sorted(true[asked.fit, 0])
    assert (other[asked.fit] != true[asked.fit]).any()


def test_each_score_is_compared_over_seeds_and_stands_side_by_side(table: pd.DataFrame) -> None:
    compared = QUESTION.headline(Answer(table)).set_index(["variable", "of"])["value"]
    assert len(compared) == len(table)
    wide = _side_by_side(table).set_index(["fact", "model"])
    for row in table.itertuples():
        assert compared[f"{row.fact}, {row.pooling}", row.model] == row.score
        assert wide.loc[(row.fact, row.model), row.pooling] == row.score


def test_membership_comes_first_and_is_told_beyond_a_bag_of_embeddings(table: pd.DataFrame) -> None:
    assert [claim.finding.split(" off ")[0] for claim in QUESTION.claims(Answer(table))] == [
        "A linear probe reads membership",
        "A linear probe reads length",
    ]
    own = (table["model"] == "trained") & (table["pooling"] == "mean")
    clear = table.assign(score=0.2).where(~own, table.assign(score=0.9, low=0.8, high=1.0))
    assert {claim.grade for claim in QUESTION.claims(Answer(clear))} == {"holds"}
    for model, pooling in (("trained", "bag"), *((name, "mean") for name in MODELS[1:])):
        rows = (table["model"] == model) & (table["pooling"] == pooling)
        as_good = clear.assign(score=clear["score"].where(~rows, 0.85))
        assert {c.grade for c in QUESTION.claims(Answer(as_good))} == {
            "no better than its controls"
        }, model


def test_of_few_words_that_are_all_right_the_interval_is_no_point(table: pd.DataFrame) -> None:
    own = (table["model"] == "trained") & (table["pooling"] == "mean")
    right = table.assign(score=0.9).where(~own, table.assign(score=1.0, low=1.0, high=1.0))
    claim, _ = QUESTION.claims(Answer(right.assign(n_test=20)))
    assert (claim.low, claim.high) == pytest.approx(wilson(20, 20))
    assert claim.grade == "no better than its controls"


def test_words_pictures_and_the_command(
    run: Run, table: pd.DataFrame, capsys: pytest.CaptureFixture[str]
) -> None:
    assert QUESTION.chart(Answer(table)).to_dict()["facet"]["field"] == "fact"
    assert main(["analyse", str(run.path), "sentences", "--words", "200", "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert [claim["value"] for claim in found["claims"]] == [
        c.value for c in QUESTION.claims(Answer(table))
    ]
    assert len(found["table"]) == len(table)


def test_what_cannot_be_asked_says_so(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(UserError, match="an has 14 different words in the training window"):
        asked_of(new(tmp_path, "an", max_n=4), 100, 0)
    table = new(tmp_path, "anbn", ModelConfig(architecture="ngram"), max_n=25)
    train(table, "cpu")
    with pytest.raises(UserError, match="a 3-gram has no activations"):
        answer(table, "sentences", Sentences(100))
    assert main(["analyse", str(table.path), "sentences", "--words", "10"]) == 2
    assert "--words is 10: it must be at least 40" in capsys.readouterr().err
