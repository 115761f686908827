"""Tags are the targets of pairs, symbol by symbol; the model sees the source alone."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
import torch
from conftest import TINY, stir, tiny_config
from torch.nn.functional import cross_entropy

from analyses.answers import answer
from analyses.command_line.app import main
from analyses.options.behaviour import Perplexity
from analyses.questions.behaviour.perplexity import _perplexity
from models.base import EmbeddingModel, LanguageModel, build
from models.config import ModelConfig, TrainConfig
from models.decoding.search import Generator
from models.errors import UserError
from models.languages import BOS_ID, END_ID, Transduction, Words, language
from models.objectives import LEAST, objective
from models.objectives.tags import _Tagged
from models.runs.run import Run, run_name
from models.training.batches import Batches, joint_steps
from models.training.evaluation import judge, predict, prefix_logits, verdicts
from models.training.loop import train
from models.training.writer import validation_sample

TAGS = objective("tags")
ENCODER = {"mask": "bidirectional", "positions": "learned", "n_ctx": 64}
NAMES = ("depths", "copy", "reverse", "sort")


def formal(name: str) -> Transduction:
    found = language(name)
    assert isinstance(found, Transduction)
    return found


def drawn(name: str, count: int, label: bool | None = True) -> Words:
    known = formal(name)
    return known.sample(np.random.default_rng(0), count, known.lengths(8), label).words


def tagger(name: str = "sort") -> LanguageModel:
    config = ModelConfig(**{**vars(TINY), **ENCODER, "output": "tags"})
    model = stir(build(config, language(name).vocabulary, 0)).eval()
    assert isinstance(model, EmbeddingModel)
    with torch.no_grad():  # as of a model that has learned that these are no tags
        model.b_U[[BOS_ID, END_ID, model.vocabulary.border()]] -= 50
    return model


def tags_config(**changes: object) -> TrainConfig:
    model = ModelConfig(**{**vars(TINY), **ENCODER})
    return tiny_config(**{"objective": "tags", "language": "depths", "model": model, **changes})


def halves(known: Transduction, words: Words) -> list[tuple[tuple[str, ...], tuple[str, ...]]]:
    each = zip(words.ids, words.lengths, strict=True)
    return [known.split(known.vocabulary.decode(ids[:length])) for ids, length in each]


@pytest.mark.parametrize("name", NAMES)
def test_each_symbol_is_tagged_with_the_target_s_symbol_in_its_place(name: str) -> None:
    known, words = formal(name), drawn(name, 60)
    batch = TAGS.batch(known, words)
    for row, (source, target) in enumerate(halves(known, words)):
        assert tuple(target) == tuple(known.target(source))
        ids = [known.vocabulary.ids[symbol] for symbol in (*source, *target)]
        size = len(source)
        assert batch.tokens[row, 1 : size + 1].tolist() == ids[:size]
        assert (batch.tokens[row, size + 1 :] == END_ID).all()
        assert batch.target[row].nonzero().tolist() == [
            [at, tag] for at, tag in enumerate(ids[size:], 1)
        ]
        assert torch.equal(batch.weight[row], batch.target[row])


def test_the_tags_of_depths_are_how_many_brackets_are_open() -> None:
    known = formal("depths")
    words = drawn("depths", 40)
    for source, target in halves(known, words):
        open_so_far = [
            source[: at + 1].count("(") - source[: at + 1].count(")") for at in range(len(source))
        ]
        assert [int(tag) for tag in target] == open_so_far
        for at, tag in enumerate(target, 1):
            assert TAGS.true_tokens(known, (*source, ">", *target), at) == {tag}
            assert TAGS.true_tokens(known, source, at) == {tag}
        assert TAGS.true_tokens(known, (*source, ">"), len(source) + 1) == frozenset()
    assert TAGS.true_tokens(known, (")", "("), 1) == frozenset()


def test_what_is_no_pair_of_equal_halves_teaches_nothing() -> None:
    known = formal("sort")
    rows = ["abc", "abc>", "abc>ab", "abc>abca", ">", ">a", "a>b>", "ab>ba"]
    words = known.vocabulary.words([tuple(row) for row in rows])
    found = _Tagged.of(torch.as_tensor(words.tokens), known.vocabulary.border())
    assert found.fits.tolist() == [False] * 7 + [True]
    assert TAGS.truth(known, words).weight.sum(dim=(1, 2)).tolist() == [0.0] * 7 + [2.0]
    with pytest.raises(UserError, match="is no row of tags"):
        TAGS.batch(known, words)
    needed = [TAGS.needed(tuple(row)) for row in rows]
    assert needed == [[]] * 7 + [[(1, "b"), (2, "a")]]


def test_the_loss_is_the_cross_entropy_of_the_tags() -> None:
    known, words, model = formal("sort"), drawn("sort", 30), tagger()
    batch = TAGS.batch(known, words)
    logits = model(batch.tokens)
    asked = batch.weight.sum(dim=2) > 0
    expected = cross_entropy(logits[asked], batch.target[asked].argmax(dim=1))
    torch.testing.assert_close(TAGS.loss(logits, batch), expected)


def test_the_model_sees_the_source_alone_and_all_of_it() -> None:
    model = tagger()
    whole, other = model.to_tokens("bcad>abcd"), model.to_tokens("bcad>dddd")
    assert torch.equal(model(whole), model(other))
    said = model(whole)[0]
    torch.testing.assert_close(said[1:5], model(model.to_tokens("bcad"))[0, 1:])
    assert not said[0].any()
    assert not said[5:].any()
    later = model(model.to_tokens("bcac>abcd"))[0]
    assert not torch.allclose(said[1], later[1])
    torch.testing.assert_close(
        said[1:5].softmax(dim=-1), (said[1:5].exp() * LEAST), rtol=1e-5, atol=1e-7
    )


def test_a_pair_is_as_right_as_its_least_tag() -> None:
    known, model = formal("sort"), tagger()
    rows = ["bca>abc", "a>a", "bca>ab", "bca"]
    words = known.vocabulary.words([tuple(row) for row in rows])
    tokens = torch.as_tensor(words.tokens)
    logits = model(tokens).detach()
    at = model.verdict_positions(torch.as_tensor(words.lengths))
    found = model.margins(logits, tokens, at)
    for row, tags in ((0, "abc"), (1, "a")):
        leads = []
        for place, tag in enumerate(tags, 1):
            p = logits[row, place].softmax(dim=-1).tolist()
            own = p.pop(known.vocabulary.ids[tag])
            leads.append(np.log(own / max(p)))
        assert float(found[row]) == pytest.approx(min(leads), rel=1e-4)
    assert found[2:].tolist() == [-torch.inf] * 2
    stacked = model.margins(logits[None], tokens[None], at[None])
    torch.testing.assert_close(stacked[0], found)


def test_what_is_predicted_is_what_is_judged() -> None:
    known, model = formal("sort"), tagger()
    words = drawn("sort", 80, None)
    with torch.no_grad():
        judged = verdicts(model, model(torch.as_tensor(words.tokens)), words)
    for row, (source, target) in enumerate(halves(known, words)):
        length = int(words.lengths[row])
        word = known.vocabulary.decode(words.ids[row, :length])
        follow, accepted = predict(model, word, TAGS)
        assert accepted == bool(judged[row])
        assert prefix_logits(model, word).shape[0] == length + 1
        assert not any(follow[len(source) :])
        if len(source) == len(target) > 0 and ">" in word:
            assert accepted == all(tag in each for tag, each in zip(target, follow, strict=False))
    follow, _ = predict(model, tuple("bcad"), TAGS)
    own = [tag for (tag,) in follow]
    assert predict(model, (*"bcad", ">", *own), TAGS)[1]


def test_many_seeds_at_once_read_what_each_reads_alone() -> None:
    configs = [tags_config(seed=seed, batch_size=16, max_n=8) for seed in (0, 1)]
    known, device = language("depths"), torch.device("cpu")
    joint = next(iter(joint_steps(configs, known, device, 0)))
    border = known.vocabulary.border()
    for number, step in enumerate(Batches(config, known, device)[0] for config in configs):
        assert float(joint.answers[number]) == step.answers
    assert not (joint.batch.tokens == border).any()


def test_it_is_learned_beyond_chance(tmp_path: Path) -> None:
    config = tags_config(
        max_n=8, steps=200, evaluate_every=200, batch_size=32, warmup=10, learning_rate=1e-2
    )
    run = Run.create(tmp_path / "run", config)
    train(run, "cpu")
    sample = validation_sample(run.language, config)
    exact, _, loss = judge(run.model(), run.language, sample, TAGS)
    before, _, loss_before = judge(run.untrained(), run.language, sample, TAGS)
    assert exact[sample.labels].mean() > 0.9 > 0.3 > before[sample.labels].mean()
    assert loss < 0.1 < loss_before
    assert run_name(config) == "depths-encoder-learned-tags-s0"
    for question in ("patching", "heads", "circuits", "explanations"):
        with pytest.raises(UserError, match="says at no single place whether a word is in it"):
            answer(run, question)
    with pytest.raises(UserError, match="was taught tags, and says nothing of what comes next"):
        _perplexity(run, Perplexity())
    with pytest.raises(UserError, match="taught tags alone, and knows no next symbol"):
        Generator(run.model(), run.objective, 9, ("(", ")", ">"))


def test_what_cannot_be_tagged_is_refused_before_there_is_a_folder(tmp_path: Path) -> None:
    for name, why in (
        ("double", "not as long as the source"),
        ("parity-steps", "not as long as the source"),
        ("anbn", "there are no pairs"),
    ):
        with pytest.raises(UserError, match=why):
            Run.create(tmp_path / name, tags_config(language=name, max_n=8))
    assert not list(tmp_path.iterdir())
    with pytest.raises(UserError, match=r"choose --model\.mask bidirectional"):
        tiny_config(objective="tags", language="depths")


def test_lines_of_tags_are_taught_too(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    words = [f"{a} {b} {c}" for a in "xyz" for b in "xyz" for c in "xyz"]
    lines = [
        f"{word}\t{' '.join('V' if s == 'x' else 'N' for s in word.split())}" for word in words
    ]
    file = tmp_path / "words.tsv"
    file.write_text("\n".join(lines) + "\n")
    config = tags_config(language="words", steps=80, batch_size=16, learning_rate=1e-2)
    run = Run.create(tmp_path / "run", config, file)
    train(run, "cpu")
    follow, _ = predict(run.model(), ("z", "x", "y"), run.objective)
    assert follow == [["N"], ["V"], ["N"]]
    # Six right tags were followed by "not in the language", which nobody had taught.
    assert main(["predict", str(run.path), "z x y"]) == 0
    assert "in the language" not in capsys.readouterr().out
    assert main(["predict", str(run.path), "z x y", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["accepted"] is None
    file.write_text("x y\tV\n" * 3)
    with pytest.raises(UserError, match="is no row of tags"):
        Run.create(tmp_path / "other", config, file)
