"""The objectives: what each teaches, where it is silent, its loss by hand; and one more."""

from __future__ import annotations

import math
from pathlib import Path

import numpy as np
import pytest
import torch
from conftest import tiny_config
from torch.nn.functional import log_softmax

from models.base import build
from models.errors import UserError
from models.languages import (
    BOS_ID,
    END,
    END_ID,
    LabelledCorpus,
    Language,
    Vocabulary,
    Words,
    language,
)
from models.model_config import ModelConfig
from models.objectives import OBJECTIVES, Readout, objective, read_at
from models.objectives.base import Batch, Objective
from models.objectives.registry import Entry
from models.runs.run import Run
from models.training.evaluation import evaluate, predict
from models.training.loop import train

WORDS = [tuple(w) for w in ("aabb", "aab", "ba", "ab", "a", "")]
NEXT, VERDICT = objective("next-symbols"), objective("verdict")


@pytest.mark.parametrize("readout", ["last", "bos"])
@pytest.mark.parametrize("name", ["next-symbols", "verdict"])
def test_the_teacher_speaks_about_the_word_and_never_about_padding(
    name: str, readout: Readout
) -> None:
    lang = language("anbn")
    batch = objective(name).batch(lang, lang.vocabulary.words(WORDS), readout)
    assert batch.tokens.shape == (6, 5)
    assert batch.target.shape == batch.weight.shape == (6, 5, len(lang.vocabulary))
    for row, word in enumerate(WORDS):
        for position in range(5):
            for token, symbol in enumerate(lang.vocabulary.tokens):
                here = (row, position, token)
                if name == "next-symbols":
                    spoken = position <= len(word) and token != BOS_ID
                    allowed = symbol in lang.next_symbols(word[:position])
                else:
                    at = len(word) if readout == "last" else 0
                    spoken = position == at and token == END_ID
                    allowed = lang.contains(word)
                assert batch.weight[here] == spoken, here
                assert batch.target[here] == (spoken and allowed), here


def test_the_loss_is_the_mean_of_what_the_answers_cost() -> None:
    lang = language("anbn")
    batch = NEXT.batch(lang, lang.vocabulary.words(WORDS))
    logits = torch.randn(batch.target.shape, generator=torch.Generator().manual_seed(0)).double()
    total, answers = 0.0, 0
    for index in np.ndindex(*batch.target.shape):
        if batch.weight[index]:
            p = 1 / (1 + math.exp(-float(logits[index])))
            total -= math.log(p if batch.target[index] else 1 - p)
            answers += 1
    assert float(NEXT.loss(logits, batch)) == pytest.approx(total / answers, rel=1e-6)


def test_a_mistake_where_the_teacher_is_silent_costs_nothing() -> None:
    lang = language("anbn")
    batch = VERDICT.batch(lang, lang.vocabulary.words(WORDS))
    perfect = torch.where(batch.target > 0, 30.0, -30.0)
    silent = torch.where(batch.weight > 0, perfect, 30.0)
    assert float(VERDICT.loss(silent, batch)) < 1e-9
    assert VERDICT.exact(silent, batch).all()
    spoken = torch.where(batch.weight > 0, -perfect, perfect)
    assert float(VERDICT.loss(spoken, batch)) == pytest.approx(30.0)
    assert not VERDICT.exact(spoken, batch).any()


def test_a_corpus_teaches_the_verdict() -> None:
    corpus = LabelledCorpus("lines", ["in", "out"], [("x", "y"), ("y",)])
    batch = VERDICT.batch(corpus, corpus.lines)
    assert batch.weight.sum() == 2
    assert batch.target.nonzero().tolist() == [[0, 2, END_ID]]


def test_the_verdict_is_read_where_the_readout_says() -> None:
    lengths = np.array([3, 0, 5])
    assert read_at("last", lengths).tolist() == [3, 0, 5]
    assert read_at("bos", torch.as_tensor(lengths)).tolist() == [0, 0, 0]
    logits = torch.full((2, 4, 5), -1.0)
    logits[0, 0, END_ID] = logits[1, 3, END_ID] = 1.0
    model = build(ModelConfig(), Vocabulary(("x", "y", "z")))
    tokens = torch.full((2, 4), 2)
    assert model.margins(logits, tokens, torch.tensor([0, 0])).tolist() == [1.0, -1.0]
    assert model.margins(logits, tokens, torch.tensor([3, 3])).tolist() == [-1.0, 1.0]


def test_an_unknown_objective_is_refused() -> None:
    with pytest.raises(
        UserError, match=r"^objective is 'every': choose one of next-symbols, verdict"
    ):
        tiny_config(objective="every")


class NextSymbol(Objective):
    """The one symbol that does come next, of words with others among them. For this test."""

    name = "next-symbol"
    taught = "the next symbol"

    def _batch(self, language: Language, words: Words, readout: Readout) -> Batch:
        following = np.pad(words.ids, ((0, 0), (0, 1)), constant_values=END_ID)
        weight = np.eye(len(language.vocabulary), dtype=bool)[following]
        weight &= (np.arange(following.shape[1]) <= words.lengths[:, None])[..., None]
        weight &= language.labels(words)[:, None, None]  # it reads members alone
        return Batch.of(words, weight, weight)

    def tokens(self, vocabulary: Vocabulary) -> tuple[str, ...]:
        return vocabulary.tokens[BOS_ID + 1 :]

    def losses(self, logits: torch.Tensor, batch: Batch) -> torch.Tensor:
        return -batch.weight * log_softmax(logits, dim=-1)

    def allowed(self, logits: torch.Tensor) -> torch.Tensor:
        return logits.softmax(dim=-1) > 0.1


@pytest.mark.slow
def test_one_more_objective_is_a_class_and_a_line(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Training, evaluation and prediction ask the objective, and know none by name."""
    monkeypatch.setitem(OBJECTIVES, "next-symbol", Entry(f"{__name__}:NextSymbol", sight="before"))
    config = tiny_config(language="an", objective="next-symbol", steps=150, learning_rate=1e-2)
    run = Run.create(tmp_path / "run", config)
    train(run, device="cpu")
    first, *_, last = run.metrics()
    assert last["validation_loss"] < first["validation_loss"] < math.log(4)
    # In a word of a's alone all that may come is a, or the end.
    follow, accepted = predict(run.model(), "aa", run.objective)
    assert follow == [[END, "a"], [END, "a"]]
    assert accepted
    scores = list(evaluate(run.model(), run.language, run.objective, [1, 2, 3]))
    assert all(score.exact is not None for score in scores)
    with pytest.raises(
        UserError, match="choose --objective verdict or masked or tags, or a causal mask"
    ):
        tiny_config(objective="next-symbol", model=ModelConfig(mask="bidirectional"))
