"""The exact distribution of a hidden symbol, beside a model's and beside counts."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch
from conftest import TINY, tiny_config

from analyses.answers import answer
from analyses.options.behaviour import Perplexity
from analyses.questions.behaviour import counts, hidden
from analyses.questions.behaviour.perplexity import _perplexity
from models.errors import UserError
from models.languages import ContextFreeLanguage, FormalLanguage, language
from models.model_config import ModelConfig
from models.objectives import objective
from models.runs.run import Run
from models.training.loop import train


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Run:
    model = ModelConfig(
        **{**vars(TINY), "mask": "bidirectional", "positions": "learned", "n_ctx": 32}
    )
    config = tiny_config(language="linear", objective="masked", model=model, max_n=9)
    made = Run.create(tmp_path_factory.mktemp("hidden") / "run", config)
    train(made, "cpu")
    return made


@pytest.mark.parametrize("name", ["anbm", "nested", "wwr"])
def test_the_truth_is_the_share_among_words_that_differ_there(name: str) -> None:
    """By the probability that the grammar gives to each of them."""
    known = language(name)
    assert isinstance(known, ContextFreeLanguage)
    rng = np.random.default_rng(0)
    lengths = known.lengths(8)
    words = known.sample(rng, 8, lengths, True).words
    places = hidden.places_of(words, rng)
    found = hidden.truth_of(known, words, places, known.length_shares(lengths))
    assert found is not None
    truth, allowed = found
    assert places.sum(axis=1).tolist() == np.minimum(words.lengths, hidden.PLACES).tolist()
    assert not places[:, 0].any()
    for row, at in np.argwhere(places):
        word = list(known.vocabulary.decode(words.ids[row, : words.lengths[row]]))
        weights = np.zeros(len(known.vocabulary))
        for symbol in known.vocabulary.symbols:
            word[at - 1] = symbol
            weights[known.vocabulary.ids[symbol]] = known.probability(word)
        np.testing.assert_allclose(truth[row, at], weights / weights.sum(), atol=1e-9)
        assert allowed[row, at].tolist() == (weights > 0).tolist()


def test_of_a_regular_language_all_that_fit_are_as_likely() -> None:
    known = language("lt2")
    assert isinstance(known, FormalLanguage)
    rng, lengths = np.random.default_rng(1), known.lengths(7)
    words = known.sample(rng, 20, lengths, True).words
    places = hidden.places_of(words, rng)
    found = hidden.truth_of(known, words, places, known.length_shares(lengths))
    assert found is not None
    truth, allowed = found
    even = allowed / np.maximum(allowed.sum(axis=2, keepdims=True), 1)
    np.testing.assert_allclose(truth, even, atol=1e-9)


def test_what_a_model_says_of_a_place_is_said_when_it_alone_is_hidden(run: Run) -> None:
    known, model = run.language, run.model()
    words = known.sample(np.random.default_rng(2), 6, known.lengths(9), True).words
    places = hidden.places_of(words, np.random.default_rng(3))
    found = hidden.said_of(model, run.objective, words, places)
    for row, at in np.argwhere(places):
        tokens = torch.as_tensor(words.tokens[row : row + 1]).clone()
        tokens[0, at] = 0
        logits = model(tokens)[0, at].double().detach()
        expected = run.objective.log_probabilities(logits, known.vocabulary).numpy()
        np.testing.assert_allclose(found[row, at], expected, atol=1e-6)
    assert np.exp(found[places]).sum(axis=1) == pytest.approx(1.0)
    assert np.isneginf(found[~places]).all()


def test_counts_know_both_neighbours(run: Run) -> None:
    """Between "de" and a verb stands no article."""
    known = run.language
    words = known.vocabulary.words([("de", "hond", "loopt")])
    places = np.array([[False, False, True, False]])
    said = np.exp(counts.between(run)(words, places)[0, 2])
    assert said.sum() == pytest.approx(1.0)
    ids = known.vocabulary.ids
    nouns = sum(said[ids[noun]] for noun in ("hond", "kat", "leeuw"))
    assert nouns > 0.9
    assert said[ids["het"]] < 0.01


def test_the_loss_stands_beside_the_truth_and_controls(run: Run) -> None:
    table = _perplexity(run, Perplexity(count=6))
    rows = table.set_index(["model", "group"])
    for length in {length for _, length in rows.index}:
        trained = rows.loc[("trained", length)]
        assert trained["kl"] > 0
        assert trained["loss"] == pytest.approx(trained["entropy"] + trained["kl"])
        assert trained["tokens"] <= hidden.PLACES * trained["words"]
        assert rows.loc[("allowed symbols", length), "forbidden"] == pytest.approx(0)
        assert rows.loc[("trigram", length), "kl"] < rows.loc[("untrained", length), "kl"]


def test_a_lens_on_the_verdict_is_refused_in_one_line(run: Run) -> None:
    for name in ("heads", "patching", "circuits", "explanations", "leaderboard", "discovery"):
        with pytest.raises(UserError, match="says at no single place whether a word is in it"):
            answer(run, name)
    assert objective("masked").hides


def test_a_run_that_was_taught_hidden_symbols_is_fine_tuned(run: Run, tmp_path: Path) -> None:
    from analyses.command_line.app import main

    words = ["finetune", str(run.path), "--objective", "verdict", "--steps", "4"]
    assert main([*words, "--out", str(tmp_path)]) == 0
    (made,) = tmp_path.iterdir()
    tuned = Run(made)
    assert tuned.config.model.output == "sigmoid"
    assert tuned.config.parent == run.model_hash()
