"""Excess loss word by word and token by token, and its controls."""

from __future__ import annotations

import json
import math
from dataclasses import replace
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import torch
from conftest import tiny_config

from analyses.answers import Answer, answer, question
from analyses.claims import told
from analyses.command_line.app import main
from analyses.needs import lack
from analyses.options.behaviour import Perplexity
from analyses.questions.behaviour.counts import COUNTED
from analyses.questions.behaviour.perplexity import (
    CONTROLS,
    QUESTION,
    _perplexity,
    _side_by_side,
    asked_of,
    said_of,
    shares_of,
)
from models.base import LanguageModel, build
from models.decoding.choice import Choice
from models.errors import UserError
from models.languages import ContextFreeLanguage, FormalLanguage, Word
from models.languages.grammars.trees import embedding
from models.model_config import ModelConfig
from models.objectives import objective
from models.objectives.base import Objective
from models.runs.run import Run
from models.training.batches import draw, steps_at_once
from models.training.loop import train
from models.training.recipes import recipe

LM = objective("language-model")


def trigram_of(run: Run) -> LanguageModel:
    """The lab's own n-gram model, taught the words that the control counts."""
    config = ModelConfig(architecture="ngram", order=3, output="softmax")
    model = build(config, run.language.vocabulary)
    at_once = steps_at_once(run.config) * run.config.batch_size
    for chunk in range(-(-COUNTED // at_once)):
        words, _ = draw(run.config, run.language, chunk)
        batch = LM.batch(run.language, words)
        model.count(batch.tokens, batch.target, batch.weight)
    return model.eval()


def test_a_run_on_tags_is_sent_to_a_question_that_answers(tmp_path: Path) -> None:
    model = ModelConfig(mask="bidirectional", n_layers=1, d_model=8, d_mlp=8)
    tagged = Run.create(
        tmp_path / "r", tiny_config(language="depths", objective="tags", model=model)
    )
    assert "ask accuracy" in (lack(tagged, QUESTION.needs) or "")
    assert lack(tagged, question("accuracy").needs) is None


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Run:
    """A language model that knows a part of the brackets."""
    config = replace(recipe("dyck2-unbounded"), objective="language-model", steps=60, max_n=8)
    made = Run.create(tmp_path_factory.mktemp("perplexity") / "run", config)
    train(made, "cpu")
    return made


def said_by_hand(model: LanguageModel, taught: Objective, prefix: Word) -> np.ndarray:
    """The probabilities after a prefix, by a forward pass of its own."""
    return np.exp(logs_by_hand(model, taught, prefix).numpy())


def logs_by_hand(model: LanguageModel, taught: Objective, prefix: Word) -> torch.Tensor:
    with torch.no_grad():
        logits = model(torch.as_tensor(model.vocabulary.words([prefix]).tokens))[0, -1].double()
    return taught.log_probabilities(logits, model.vocabulary)


@pytest.mark.parametrize("by", ["length", "depth"])
def test_each_row_is_the_sum_over_tokens_by_hand(run: Run, by: str) -> None:
    table = _perplexity(run, Perplexity(by, count=5, deepest=3))
    known = run.language
    assert isinstance(known, ContextFreeLanguage)
    asked, shares = asked_of(run, by, 5, 3, 0), shares_of(run, known)
    models = {
        "trained": (run.model(), run.objective),
        "untrained": (run.untrained(), run.objective),
        "trigram": (trigram_of(run), LM),
    }
    groups = set(asked.groups.tolist())
    assert groups == ({2, 4, 6, 8} if by == "length" else {1, 2, 3})
    for group in groups:
        words = [
            known.vocabulary.decode(asked.words.ids[row, : asked.words.lengths[row]])
            for row in np.flatnonzero(asked.groups == group)
        ]
        assert len(words) == 5
        for word in words:
            depth = embedding(next(known.trees(word)))
            assert group == (len(word) if by == "length" else depth)
        prefixes = [word[:end] for word in words for end in range(len(word) + 1)]
        for name in ("trained", *CONTROLS):
            (row,) = table[(table["model"] == name) & (table["group"] == group)].itertuples()
            entropy = kl = forbidden = 0.0
            for prefix in prefixes:
                truth = known.next_probabilities(known.vocabulary.words([prefix]), shares)[0, -1]
                may = known.allowed(known.vocabulary.words([prefix]))[0, -1]
                if name == "allowed symbols":
                    q = may / may.sum()
                else:
                    q = said_by_hand(*models[name], prefix)
                for token, p in enumerate(truth.tolist()):
                    if p > 0:
                        entropy -= p * math.log(p)
                        kl += p * math.log(p / q[token])
                    forbidden += 0.0 if may[token] else q[token]
            count = len(prefixes)
            assert (row.words, row.tokens) == (5, count)
            assert row.entropy == pytest.approx(entropy / count)
            assert row.kl == pytest.approx(kl / count, rel=1e-5)
            assert row.forbidden == pytest.approx(forbidden / count, abs=1e-6)
            assert row.low <= row.kl <= row.high
            assert row.loss == pytest.approx(row.entropy + row.kl)
            assert (row.perplexity, row.best) == (
                pytest.approx(math.exp(row.loss)),
                pytest.approx(math.exp(row.entropy)),
            )


def test_training_brings_it_nearer_to_the_language(run: Run) -> None:
    found = _side_by_side(_perplexity(run, Perplexity(count=20)))
    assert (found["kl"] < found["untrained"]).all()
    assert (found["kl"] < found["trigram"]).sum() >= 2
    assert found["length"].tolist() == [2, 4, 6, 8]


def test_the_numbers_that_are_compared_over_seeds_are_those_of_the_table(run: Run) -> None:
    table = _perplexity(run, Perplexity(count=6))
    compared = QUESTION.headline(Answer(table)).set_index(["variable", "of"])["value"]
    assert len(compared) == len(table)
    for row in table.itertuples():
        assert compared[f"length {row.group}", row.model] == row.kl
    shown = QUESTION.chart(Answer(table)).to_dict()
    assert len(shown["layer"]) == 2


def test_a_changed_distribution_is_measured_as_it_is_drawn_from(run: Run) -> None:
    """Penalties count the symbols of the word so far."""
    vocabulary, choice = run.language.vocabulary, Choice(temperature=0.7, frequency_penalty=0.4)
    words = vocabulary.words([tuple("()[]"), tuple("(())[]")])
    said = said_of(run.model(), run.objective, words, choice)
    for row, length in enumerate(words.lengths.tolist()):
        word = vocabulary.decode(words.ids[row, :length])
        for end in range(length + 1):
            plain = logs_by_hand(run.model(), run.objective, word[:end])
            counts = torch.zeros(1, len(vocabulary), dtype=torch.long)
            for symbol in word[:end]:
                counts[0, vocabulary.ids[symbol]] += 1
            expected = choice(plain[None], counts)[0].exp().numpy()
            assert np.exp(said[row, end]) == pytest.approx(expected, abs=1e-6)


def test_what_cannot_be_asked_says_so(run: Run, tmp_path: Path) -> None:
    plain = Run.create(tmp_path / "anbn", tiny_config(steps=1))
    with pytest.raises(UserError, match="anbn has no trees"):
        _perplexity(plain, Perplexity("depth"))
    verdict = Run.create(tmp_path / "verdict", tiny_config(steps=1, objective="verdict"))
    train(verdict, "cpu")
    with pytest.raises(UserError, match="taught verdicts alone"):
        answer(verdict, "perplexity", Perplexity(count=2))
    shuffled = Run.create(tmp_path / "shuffle", tiny_config(steps=1, language="shuffle2"))
    with pytest.raises(UserError, match="how likely shuffle2 draws which word"):
        _perplexity(shuffled, Perplexity(count=2))
    assert isinstance(run.language, FormalLanguage)


def of_losses(trained: list[float], trigram: float, allowed: float) -> pd.DataFrame:
    """A table made by hand: of words of lengths 1, 2 and so on, with ten tokens of each symbol."""
    losses = {"trained": trained, "untrained": 2.0, "trigram": trigram, "allowed symbols": allowed}
    groups = np.arange(1, len(trained) + 1)
    table = pd.DataFrame({"by": "length", "group": groups, "words": 10, "tokens": 10 * groups})
    table = table.assign(entropy=1.0, forbidden=0.25)
    rows = pd.concat([table.assign(model=name, kl=kl) for name, kl in losses.items()])
    return rows.assign(low=rows["kl"] - 0.03, high=rows["kl"] + 0.06)


@pytest.mark.parametrize(
    ("trained", "trigram", "allowed", "grade"),
    [
        ([0.1, 0.4], 0.5, 0.5, "holds"),
        ([0.1, 0.4], 0.5, 0.25, "fragile"),  # what is allowed tells as much
        ([0.1, 0.47], 0.5, 0.6, "fragile"),  # at length 2 a trigram may do as well
        ([0.1, 0.4], 0.3, 0.5, "no better than its controls"),
        ([2.1, 2.4], 3.0, 3.0, "no better than its controls"),  # as before training
    ],
)
def test_a_loss_is_held_against_those_of_the_controls(
    trained: list[float], trigram: float, allowed: float, grade: str
) -> None:
    (claim,) = QUESTION.claims(Answer(of_losses(trained, trigram, allowed)))
    assert claim.grade == grade
    mean = (trained[0] + 2 * trained[1]) / 3
    half = math.hypot(1, 2) / 3
    ends = (mean, mean - 0.03 * half, mean + 0.06 * half)
    assert (claim.value, claim.low, claim.high) == pytest.approx(ends)
    assert claim.controls == pytest.approx({"the untrained network": 2.0, "a trigram": trigram})
    assert f"Its perplexity is {math.exp(1 + mean):.2f}, where 2.72 is the least" in claim.sentence
    assert ("Alone it is not shown at length 2." in claim.doubts) == (trained[1] == 0.47)
    assert (f"how likely it is, loses {allowed:.3f}." in claim.sentence) == (allowed < mean)


def test_a_depth_with_one_word_is_left_out_of_the_interval() -> None:
    table = of_losses([0.1, 0.4], 0.5, 0.5)
    table.loc[table["group"] == 2, ["low", "high"]] = np.nan
    (claim,) = QUESTION.claims(Answer(table))
    assert (claim.value, claim.n, claim.grade) == (pytest.approx(0.1), 10, "holds")
    (claim,) = QUESTION.claims(Answer(table.assign(low=np.nan, high=np.nan)))
    assert claim.grade == "not weighed"


def test_the_command(run: Run, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["analyse", str(run.path), "perplexity", "--count", "4", "--json"]) == 0
    said = json.loads(capsys.readouterr().out)
    table = _perplexity(run, Perplexity(count=4))
    assert said["sentence"] == told(QUESTION.claims(Answer(table)), None)
    assert pd.DataFrame(said["table"])["kl"].tolist() == pytest.approx(table["kl"].tolist())
    wrong = ["analyse", str(run.path), "perplexity", "--by", "depth", "--deepest", "99"]
    assert main(wrong) == 2
    assert "--deepest is 99: it must be at most 12" in capsys.readouterr().err
