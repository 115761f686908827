"""Hidden symbols: what is hidden and how it is shown, what is asked, and what is right."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch
from conftest import TINY, stir, tiny_config
from torch.nn.functional import cross_entropy

from models.base import LanguageModel, build
from models.config import TrainConfig
from models.decoding.search import Generator
from models.errors import UserError
from models.languages import BOS_ID, END_ID, FormalLanguage, Words, language
from models.model_config import ModelConfig
from models.objectives import objective
from models.objectives.masked import MASK_ID, _fitting
from models.runs.run import Run, run_name
from models.training.batches import Batches, joint_steps
from models.training.evaluation import judge, predict, prefix_logits, verdicts
from models.training.loop import train
from models.training.writer import validation_sample

MASKED = objective("masked")
ENCODER = {"mask": "bidirectional", "positions": "learned", "n_ctx": 32}


def formal(name: str) -> FormalLanguage:
    found = language(name)
    assert isinstance(found, FormalLanguage)
    return found


def drawn(name: str, count: int, seed: int = 0) -> Words:
    known = formal(name)
    rng = np.random.default_rng(seed)
    return known.sample(rng, count, known.lengths(12), True).words


def made(name: str = "parity") -> LanguageModel:
    config = ModelConfig(**{**vars(TINY), **ENCODER, "output": "masked"})
    return stir(build(config, language(name).vocabulary, 0)).eval()


def masked_config(**changes: object) -> TrainConfig:
    model = ModelConfig(**{**vars(TINY), **ENCODER})
    return tiny_config(**{"objective": "masked", "language": "parity", "model": model, **changes})


def test_fifteen_per_cent_are_hidden_and_ten_of_a_hundred_of_them_shown() -> None:
    words = drawn("lt2", 4000)
    known = language("lt2")
    size = len(known.vocabulary)
    ready = MASKED.prepared(words, known.vocabulary, np.random.default_rng(1))
    asked = ready.ids >= size
    assert not (asked & ~words.mask).any()
    assert asked.any(axis=1)[words.lengths > 0].all()
    long = words.lengths >= 10
    share = asked[long].sum() / words.lengths[long].sum()
    most = 0.15 + 0.85**11 / 10  # and one, where chance took none
    assert 0.15 - 0.01 < share < most + 0.03
    true, shown = (ready.ids - size) // size, (ready.ids - size) % size
    assert np.array_equal(np.where(asked, true, ready.ids), words.ids)
    of = shown[asked]
    assert (of == MASK_ID).mean() == pytest.approx(0.8, abs=0.02)
    # One in three random symbols is the true one.
    assert (of == true[asked]).mean() == pytest.approx(0.1 + 0.1 / 3, abs=0.02)
    assert not np.isin(of, [END_ID]).any()


def test_each_hidden_symbol_is_asked_for_where_it_stands() -> None:
    words, known = drawn("lt2", 50), language("lt2")
    ready = MASKED.prepared(words, known.vocabulary, np.random.default_rng(2))
    batch = MASKED.batch(known, ready)
    hidden = ready.ids >= len(known.vocabulary)
    assert torch.equal(batch.weight.sum(dim=2)[:, 1:] > 0, torch.as_tensor(hidden))
    assert (batch.weight[:, 0] == 0).all()
    right = batch.target[:, 1:].argmax(dim=2).numpy()
    assert np.array_equal(right[hidden], words.ids[hidden])
    tokens = batch.tokens.numpy()
    assert np.array_equal(tokens[:, 1:][~hidden], words.ids[~hidden])
    assert set(np.unique(tokens[:, 1:][hidden])) <= {BOS_ID, *np.unique(words.ids)}
    assert torch.equal(MASKED.batch(known, words).tokens, MASKED.batch(known, words).tokens)


def test_the_loss_is_the_cross_entropy_at_hidden_symbols() -> None:
    known, model = language("parity"), made()
    batch = MASKED.batch(known, drawn("parity", 20))
    with torch.no_grad():
        logits = model(batch.tokens)
        loss = MASKED.loss(logits, batch)
    asked = batch.weight.sum(dim=2) > 0
    expected = cross_entropy(logits[asked], batch.target[asked].argmax(dim=1))
    assert float(loss) == pytest.approx(float(expected), rel=1e-5)


@pytest.mark.parametrize("name", ["anbn", "lt2", "parity", "linear"])
def test_what_fits_is_what_makes_a_word(name: str) -> None:
    known, words = formal(name), drawn(name, 12)
    truth = MASKED.truth(known, words)
    for row in range(len(words)):
        at = int((truth.weight[row].sum(dim=1) > 0).nonzero()[0, 0])
        assert int(truth.tokens[row, at]) == MASK_ID
        word = list(known.vocabulary.decode(words.ids[row, : words.lengths[row]]))
        for token, symbol in enumerate(known.vocabulary.tokens):
            word[at - 1] = symbol
            fits = token > END_ID and known.contains(word)
            assert bool(truth.target[row, at, token]) == fits
        word[at - 1] = known.vocabulary.symbols[0]
        fit = {known.vocabulary.tokens[i] for i in truth.target[row, at].nonzero()[:, 0]}
        assert MASKED.true_tokens(known, tuple(word), at) == fit
    places = np.zeros(len(words), dtype=int)
    assert _fitting(known, words, places)[np.arange(len(words)), words.ids[:, 0]].all()


def test_a_word_is_accepted_if_each_symbol_is_likely_where_it_stands() -> None:
    known, model = language("parity"), made()
    words = known.vocabulary.words([tuple(w) for w in ("ab", "abba", "b", "aab", "")])
    logits = model(torch.as_tensor(words.tokens))
    found = verdicts(model, logits, words)
    for row, length in enumerate(words.lengths):
        own = [float(logits[row, t + 1, words.ids[row, t]].detach()) for t in range(length)]
        assert found[row] == (bool(own) and min(own) > 0)


def test_each_symbol_of_a_word_is_hidden_in_turn() -> None:
    known, model = language("parity"), made()
    said = prefix_logits(model, tuple("abb"))
    word = torch.as_tensor(known.vocabulary.words([tuple("abb")]).tokens)
    for at in range(1, 4):
        hidden = word.clone()
        hidden[0, at] = MASK_ID
        torch.testing.assert_close(said[at], model(hidden)[0, at])
    torch.testing.assert_close(said[0], model(word)[0, 0])
    follow, accepted = predict(model, tuple("abb"), MASKED)
    assert len(follow) == 3
    assert all(set(each) <= {"a", "b"} for each in follow)
    assert accepted == all(s in each for s, each in zip("abb", follow, strict=True))


def test_a_judge_reads_what_is_asked(tmp_path: Path) -> None:
    """The loss is that of the hidden symbols of its own words, not of the one symbol of truth."""
    known, model = language("parity"), made()
    sample = validation_sample(known, masked_config())
    _, _, loss = judge(model, known, sample, MASKED)
    members = sample.words[np.flatnonzero(sample.labels)]
    batch = MASKED.batch(known, members)
    with torch.no_grad():
        expected = MASKED.loss(model(batch.tokens), batch)
    assert loss == pytest.approx(float(expected))


def test_a_step_hides_again_what_it_drew_twice() -> None:
    """And many seeds at once read what each reads alone."""
    configs = [masked_config(seed=seed, batch_size=16) for seed in (0, 1)]
    known, device = language("parity"), torch.device("cpu")
    joint = next(iter(joint_steps(configs, known, device, 0)))
    own = [Batches(config, known, device)[0] for config in configs]
    for number, step in enumerate(own):
        rows = slice(number * 16, (number + 1) * 16)
        together = joint.batch.tokens[rows]
        alone = [tokens for group in step.groups for tokens in group.batch.tokens.tolist()]
        padded = {tuple(t + [END_ID] * (together.shape[1] - len(t))) for t in alone}
        assert {tuple(t) for t in together.tolist()} == padded
        assert float(joint.answers[number]) == step.answers
    assert (joint.batch.tokens[:, 1:] == MASK_ID).any()
    assert int(joint.batch.tokens.max()) < len(known.vocabulary)


def test_it_is_learned_and_an_encoder_alone_can_be_taught_it(tmp_path: Path) -> None:
    config = masked_config(language="lt2", max_n=6, steps=60, evaluate_every=30, batch_size=32)
    run = Run.create(tmp_path / "run", config)
    train(run, "cpu")
    losses = [line["loss"] for line in run.metrics()]
    assert losses[-1] < losses[0]
    assert run.config.model.output == "masked"
    assert run_name(config) == "lt2-encoder-learned-masked-s0"
    with pytest.raises(UserError, match=r"choose --model\.mask bidirectional"):
        tiny_config(objective="masked")
    with pytest.raises(UserError, match="an encoder sees the whole word at once"):
        Generator(run.model(), run.objective, 5).sample(1)
