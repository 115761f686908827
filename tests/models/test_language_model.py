"""The language model: its teacher and loss by hand, its logits, its verdicts, who can learn it."""

from __future__ import annotations

import math
from collections import Counter
from dataclasses import replace
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest
import torch
from brute import words_up_to
from conftest import sharpen, stir, tiny_config
from torch.nn.functional import cross_entropy

from interp.heads.logit_attribution import direct_logit_attribution
from models.base import LanguageModel, build
from models.checks import changed
from models.errors import UserError
from models.languages import BOS_ID, END_ID, language
from models.model_config import ModelConfig
from models.objectives import LEAST, objective
from models.rivals.ngram import HookedNGram
from models.runs.run import Run, run_name
from models.training.batches import draw
from models.training.evaluation import _margins, judge, predict
from models.training.loop import train
from models.training.writer import validation_sample

LM = objective("language-model")
SMALL = ModelConfig(n_layers=2, n_heads=2, d_model=16, d_mlp=16)
KINDS = {
    "transformer": SMALL,
    "strict": replace(SMALL, mask="strictly_causal", positions="t5"),
    **{
        kind: ModelConfig(architecture=kind, n_layers=1, d_model=16, act_fn="relu")
        for kind in ("rnn", "lstm", "gru", "cnn")
    },
}
WORDS = [tuple(w) for w in ("ab", "aabb", "aaabbb", "b", "abb", "")]


def made(kind: str, output: str = "softmax") -> LanguageModel:
    config = changed(KINDS[kind], {"output": output})
    model = stir(build(config, language("anbn").vocabulary, 0)).eval()
    return sharpen(model)


def test_the_teacher_names_the_token_that_comes_next() -> None:
    lang = language("anbn")
    batch = LM.batch(lang, lang.vocabulary.words([tuple("aabb"), tuple("ab")]))
    a, b = (lang.vocabulary.ids[symbol] for symbol in "ab")
    assert batch.target.nonzero().tolist() == [
        *([0, at, token] for at, token in enumerate((a, a, b, b, END_ID))),
        *([1, at, token] for at, token in enumerate((a, b, END_ID))),
    ]
    assert torch.equal(batch.weight, batch.target)


@pytest.mark.parametrize("kind", KINDS)
def test_the_loss_is_the_cross_entropy(kind: str) -> None:
    lang, model = language("anbn"), made(kind)
    words = lang.vocabulary.words(WORDS[:3])
    batch = LM.batch(lang, words)
    with torch.no_grad():
        loss = LM.loss(model(batch.tokens), batch)
        raw = made(kind, "sigmoid")(batch.tokens).double()
    spoken = batch.weight.sum(dim=2) > 0
    by_hand = cross_entropy(raw[spoken], batch.target[spoken].argmax(dim=1))
    assert float(loss) == pytest.approx(float(by_hand), rel=1e-5)


@pytest.mark.parametrize("kind", KINDS)
def test_logits_are_log_probabilities_above_the_least(kind: str) -> None:
    """And TransformerLens, which takes the softmax of the plain logits, finds the same."""
    model, plain = made(kind), made(kind, "sigmoid")
    tokens = torch.as_tensor(language("anbn").vocabulary.words(WORDS).tokens)
    with torch.no_grad():
        logits, raw = model(tokens), plain(tokens)
    assert (logits.exp() * LEAST).sum(dim=-1).numpy() == pytest.approx(1.0, abs=1e-5)
    torch.testing.assert_close(logits.softmax(dim=-1), raw.softmax(dim=-1))
    assert torch.equal(LM.allowed(logits), raw.softmax(dim=-1) > LEAST)
    torch.testing.assert_close(LM.probabilities(logits), raw.softmax(dim=-1))
    torch.testing.assert_close(raw + model.normaliser(raw), logits)


@pytest.mark.parametrize("kind", KINDS)
def test_a_word_is_accepted_if_each_of_its_tokens_is_likely(kind: str) -> None:
    """Word by word and token by token."""
    model, lang = made(kind), language("anbn")
    said = set[bool]()
    for word in words_up_to("ab", 4):
        words = lang.vocabulary.words([word])
        with torch.no_grad():
            logits = model(torch.as_tensor(words.tokens))
            p = logits[0].double().softmax(dim=-1)
        tokens = [*words.ids[0], END_ID]
        least = min(float(p[at, token]) for at, token in enumerate(tokens))
        assert float(_margins(model, logits, words)[0]) == pytest.approx(
            math.log(least / LEAST), abs=1e-4
        )
        assert predict(model, word, LM)[1] == (least > LEAST)
        said.add(least > LEAST)
    assert said == {True, False}


def test_margins_of_a_batch_do_not_read_the_padding() -> None:
    model, lang = made("transformer"), language("anbn")
    words = lang.vocabulary.words(WORDS)
    with torch.no_grad():
        together = _margins(model, model(torch.as_tensor(words.tokens)), words)
        for row, word in enumerate(WORDS):
            alone = lang.vocabulary.words([word])
            expected = _margins(model, model(torch.as_tensor(alone.tokens)), alone)
            assert float(together[row]) == pytest.approx(float(expected[0]), abs=1e-5)


def test_an_n_gram_is_the_share_of_each_token_after_its_context() -> None:
    """Smoothed by one even guess; counted by hand."""
    lang = language("anbn")
    config = ModelConfig(architecture="ngram", order=2, output="softmax")
    model = build(config, lang.vocabulary, 0)
    assert isinstance(model, HookedNGram)
    words = [("a", "b"), ("a", "a", "b", "b"), ("a", "b")]
    batch = LM.batch(lang, lang.vocabulary.words(words))
    model.count(batch.tokens, batch.target, batch.weight)
    ids = lang.vocabulary.ids
    alone, after_a = Counter[int](), Counter[int]()
    for word in words:
        tokens = [ids[symbol] for symbol in word] + [END_ID]
        alone.update(tokens)
        after_a.update(new for old, new in pairwise(tokens) if old == ids["a"])
    size = len(lang.vocabulary)
    with torch.no_grad():
        trained = model(torch.as_tensor(lang.vocabulary.words([("a",)]).tokens))
        asked = model.eval()(torch.as_tensor(lang.vocabulary.words([("a",)]).tokens))
    torch.testing.assert_close(trained, asked)
    for token in range(size):
        first = (alone[token] + 1 / size) / (alone.total() + 1)
        second = (after_a[token] + first) / (after_a.total() + 1)
        assert float(LM.probabilities(asked)[0, 1, token]) == pytest.approx(second, rel=1e-5)


def test_training_reads_words_of_the_language_alone() -> None:
    config = tiny_config(objective="language-model", batch_size=64, max_n=6)
    lang = language("anbn")
    words, _ = draw(config, lang, 0)
    assert lang.labels(words).all()
    other, _ = draw(tiny_config(batch_size=64, max_n=6), lang, 0)
    assert not lang.labels(other).all()


def test_the_objective_decides_the_output() -> None:
    config = tiny_config(objective="language-model")
    assert config.model.output == "softmax"
    assert tiny_config().model.output == "sigmoid"
    assert run_name(config) == "anbn-lm-s0"
    with pytest.raises(UserError, match="the output softmax is that of language-model"):
        replace(config, objective="verdict")
    with pytest.raises(
        UserError, match="choose --objective verdict or masked or tags, or a causal mask"
    ):
        tiny_config(objective="language-model", model=ModelConfig(mask="bidirectional"))


def test_nobody_knows_what_may_follow_in_a_corpus(tmp_path: Path) -> None:
    lines = tmp_path / "lines.tsv"
    lines.write_text("in\tx y\nout\ty\n")
    config = tiny_config(language="lines", objective="next-symbols")
    with pytest.raises(UserError, match="choose --objective verdict"):
        Run.create(tmp_path / "run", config, lines)


def test_the_loss_of_a_sample_is_that_of_its_members() -> None:
    lang, model = language("anbn"), made("transformer")
    sample = validation_sample(lang, tiny_config(objective="language-model", max_n=6))
    assert not sample.labels.all()
    _, _, loss = judge(model, lang, sample, LM)
    members = sample.words[np.flatnonzero(sample.labels)]
    batch = LM.batch(lang, members)
    with torch.no_grad():
        assert loss == pytest.approx(float(LM.loss(model(batch.tokens), batch)), rel=1e-5)


def test_the_parts_of_a_logit_include_what_the_softmax_adds() -> None:
    model, lang = made("transformer"), language("anbn")
    words = lang.vocabulary.words(WORDS[:3])
    tokens, at = torch.as_tensor(words.tokens), torch.as_tensor(words.lengths)
    table = direct_logit_attribution(model, tokens, at, END_ID)
    total = table.groupby("word")["value"].sum().to_numpy()
    with torch.no_grad():
        expected = model(tokens)[torch.arange(3), at, END_ID].numpy()
    assert total == pytest.approx(expected, abs=1e-5)
    added = table[table["part"] == "softmax"]["value"].to_numpy()
    with torch.no_grad():
        raw = made("transformer", "sigmoid")(tokens)[torch.arange(3), at]
    assert added == pytest.approx((-raw.logsumexp(dim=1) - math.log(LEAST)).numpy(), abs=1e-5)
    plain = made("transformer", "sigmoid")
    assert "softmax" not in set(direct_logit_attribution(plain, tokens, at, END_ID)["part"])


@pytest.mark.slow
def test_a_language_model_of_a_n_comes_to_its_entropy(tmp_path: Path) -> None:
    """Words a ... a^4, evenly: after k symbols the word ends with probability 1 / (5 - k)."""
    config = tiny_config(
        language="an",
        objective="language-model",
        max_n=4,
        steps=240,
        evaluate_every=240,
        batch_size=256,
        learning_rate=1e-2,
    )
    run = Run.create(tmp_path / "run", config)
    train(run, device="cpu")
    model, vocabulary = run.model(), run.language.vocabulary
    with torch.no_grad():
        logits = model(torch.as_tensor(vocabulary.words([("a",) * 4]).tokens))
    said = LM.log_probabilities(logits[0], vocabulary).exp()
    assert said[:, BOS_ID].max() == 0
    for k, end in enumerate((0.0, 1 / 4, 1 / 3, 1 / 2, 1.0)):
        assert float(said[k, END_ID]) == pytest.approx(end, abs=0.05)
    entropy = math.log(4) / np.mean([2, 3, 4, 5])  # nats a token, END among them
    assert run.metrics()[-1]["validation_loss"] == pytest.approx(entropy, rel=0.05)
