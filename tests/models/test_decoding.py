"""Decoders against all words, one by one, and against the processors of transformers."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable
from dataclasses import replace
from itertools import product

import numpy as np
import pytest
import torch
from conftest import tiny_config
from scipy.stats import chisquare
from torch import Tensor
from transformers import TemperatureLogitsWarper, TopKLogitsWarper, TopPLogitsWarper

from models.base import LanguageModel, build
from models.decoding.choice import Choice
from models.decoding.growing import _Anew, _Remembering, growing
from models.decoding.search import Generator, Hypothesis, Made
from models.errors import UserError
from models.languages import BOS_ID, END_ID, Vocabulary, Word
from models.model_config import ModelConfig
from models.objectives import objective

VOCABULARY = Vocabulary(("a", "b"))
SHAPES = {
    "plain": ModelConfig(n_layers=2, n_heads=2, d_model=16, d_mlp=16),
    "learned positions": ModelConfig(
        n_layers=1, n_heads=2, d_model=16, d_mlp=16, positions="learned", n_ctx=12
    ),
    "rotary": ModelConfig(n_layers=2, n_heads=2, d_model=16, d_mlp=16, positions="rotary"),
    "alibi": ModelConfig(n_layers=1, n_heads=2, d_model=16, d_mlp=16, positions="alibi"),
    "strict": ModelConfig(n_layers=2, n_heads=2, d_model=16, d_mlp=16, mask="strictly_causal"),
    "language model": ModelConfig(n_layers=2, n_heads=2, d_model=16, d_mlp=16, output="softmax"),
    "window": ModelConfig(n_layers=2, n_heads=2, d_model=16, d_mlp=16, window=2),
    "lstm": ModelConfig(architecture="lstm", n_layers=1, d_model=16, act_fn="relu"),
    "cnn": ModelConfig(architecture="cnn", n_layers=1, d_model=16, act_fn="relu"),
}


def made(shape: str, scale: float = 3.0) -> LanguageModel:
    """A model of random weights, which prefers some words clearly."""
    torch.manual_seed(1)
    model = build(SHAPES[shape], VOCABULARY)
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.mul_(scale if parameter.ndim > 1 else 1)
    return model.eval()


def generator(shape: str, longest: int, prompt: Word = ()) -> Generator:
    model = made(shape)
    taught = "language-model" if model.softmax else "next-symbols"
    return Generator(model, objective(taught), longest, prompt)


def said(model: LanguageModel, word: Word) -> Tensor:
    """Each token's share of all that may come after a word, by a forward pass of its own."""
    tokens = torch.tensor([[BOS_ID, *(VOCABULARY.ids[symbol] for symbol in word)]])
    with torch.no_grad():
        logits = model(tokens)[0, -1].double()
    may = logits.softmax(dim=0) if model.softmax else logits.sigmoid()
    may[BOS_ID] = 0
    return may / may.sum()


def log_probability(model: LanguageModel, word: Word, prompt: Word = ()) -> float:
    total = 0.0
    for end in range(len(prompt), len(word) + 1):
        token = END_ID if end == len(word) else VOCABULARY.ids[word[end]]
        total += math.log(said(model, word[:end])[token])
    return total


def every_word(longest: int, prompt: Word = ()) -> list[Word]:
    left = longest - len(prompt)
    return [(*prompt, *rest) for n in range(left + 1) for rest in product("ab", repeat=n)]


# -- one token ------------------------------------------------------------------------------------


def warped(*warpers: Callable[[Tensor, Tensor], Tensor]) -> Callable[[Tensor], Tensor]:
    def change(scores: Tensor) -> Tensor:
        ids = torch.zeros(len(scores), 1, dtype=torch.long)
        for each in warpers:
            scores = each(ids, scores)
        return scores.softmax(dim=-1)

    return change


@pytest.mark.parametrize(
    ("choice", "theirs"),
    [
        (Choice(), warped()),
        (Choice(temperature=0.3), warped(TemperatureLogitsWarper(0.3))),
        (Choice(top_k=3), warped(TopKLogitsWarper(3))),
        (Choice(top_k=50), warped(TopKLogitsWarper(50))),
        (Choice(top_p=0.6), warped(TopPLogitsWarper(0.6))),
        (
            Choice(temperature=2.0, top_k=5, top_p=0.8),
            warped(TemperatureLogitsWarper(2.0), TopKLogitsWarper(5), TopPLogitsWarper(0.8)),
        ),
    ],
)
def test_a_choice_is_that_of_transformers(
    choice: Choice, theirs: Callable[[Tensor], Tensor]
) -> None:
    scores = torch.randn(40, 9, generator=torch.Generator().manual_seed(0)) * 2
    scores = scores.log_softmax(dim=-1)
    mine = choice(scores, torch.zeros(40, 9, dtype=torch.long)).exp()
    torch.testing.assert_close(mine, theirs(scores))


def test_the_ends_of_the_temperature() -> None:
    scores = torch.tensor([[0.5, 0.3, 0.2]]).log()
    none = torch.zeros(1, 3, dtype=torch.long)
    assert Choice(temperature=0.0)(scores, none).exp().tolist() == [[1.0, 0.0, 0.0]]
    near = Choice(temperature=0.01)(scores, none).exp()
    assert near[0].tolist() == pytest.approx([1, 0, 0], abs=1e-9)
    assert Choice(temperature=100.0)(scores, none).exp()[0].tolist() == pytest.approx(
        [1 / 3] * 3, abs=0.01
    )
    torch.testing.assert_close(Choice()(scores, none), scores)


@pytest.mark.parametrize("temperature", [1e-320, 1e-45, 1e-30, 1e-3])
def test_a_very_low_temperature_takes_the_likeliest(temperature: float) -> None:
    scores = torch.tensor([[-1.0, -0.5, -3.0, -torch.inf], [-200.0, -300.0, -1e4, -250.0]])
    changed = Choice(temperature=temperature)(scores, torch.zeros(2, 4, dtype=torch.long)).exp()
    torch.testing.assert_close(changed, torch.tensor([[0.0, 1, 0, 0], [1, 0, 0, 0]]))


def test_penalties_are_taken_off_by_count() -> None:
    scores = torch.tensor([[0.4, 0.3, 0.2, 0.1]]).log()
    counts = torch.tensor([[2, 1, 0, 0]])
    mine = Choice(frequency_penalty=0.5, presence_penalty=0.25)(scores, counts)
    by_hand = torch.tensor([[0.4 * math.exp(-1.25), 0.3 * math.exp(-0.75), 0.2, 0.1]])
    torch.testing.assert_close(mine.exp(), by_hand / by_hand.sum())


@pytest.mark.parametrize(
    "wrong",
    [
        {"temperature": -1.0},
        {"temperature": float("nan")},
        {"temperature": float("inf")},
        {"top_p": 0.0},
        {"top_p": 1.5},
        {"top_k": -2},
        {"frequency_penalty": float("nan")},
        {"presence_penalty": 1e9},
    ],
)
def test_a_number_out_of_its_range_is_refused(wrong: dict[str, float]) -> None:
    with pytest.raises(UserError, match=r"must lie between|top_p is 0"):
        replace(Choice(), **wrong)


# -- growing words --------------------------------------------------------------------------------


@pytest.mark.parametrize("shape", SHAPES)
def test_growing_words_are_read_as_whole_ones(shape: str) -> None:
    """Rows are copied, dropped and put in another order on the way."""
    model, chance = made(shape), np.random.default_rng(0)
    words = growing(model, torch.full((3, 1), BOS_ID), 9)
    for _ in range(8):
        with torch.no_grad():
            whole = model(words.tokens)[:, -1]
        torch.testing.assert_close(words.logits(), whole, atol=1e-5, rtol=1e-5)
        rows = torch.tensor(chance.integers(len(words.tokens), size=chance.integers(1, 6)))
        words.go_on(rows, torch.tensor(chance.integers(2, 4, size=len(rows))))


def test_a_memory_computes_each_position_once() -> None:
    model = made("plain")
    prompt = torch.tensor([[BOS_ID, 2, 3]]).repeat(5, 1)
    found = {}
    for kind in (_Remembering(model, prompt, 10), _Anew(model, prompt)):
        for _ in range(7):
            kind.logits()
            kind.go_on(torch.arange(5), torch.full((5,), 2))
        assert kind.calls == 5 * 7
        found[type(kind).__name__] = kind.computed
    assert found == {"_Remembering": 5 * (3 + 6), "_Anew": 5 * sum(range(3, 10))}


# -- whole words ----------------------------------------------------------------------------------


@pytest.mark.parametrize("shape", ["plain", "lstm"])
@pytest.mark.parametrize("by_length", [False, True])
@pytest.mark.parametrize("prompt", [(), ("b", "a")])
def test_an_exhaustive_search_is_brute_force(shape: str, by_length: bool, prompt: Word) -> None:
    longest, model = 5, made(shape)
    scored = {
        word: log_probability(model, word, prompt)
        / ((len(word) - len(prompt) + 1) if by_length else 1)
        for word in every_word(longest, prompt)
    }
    ranked = sorted(scored, key=lambda word: -scored[word])
    found = generator(shape, longest, prompt).exhaustive(5, by_length)
    assert [each.word for each in found.words] == ranked[:5]
    for each in found.words:
        assert each.log_probability == pytest.approx(
            log_probability(model, each.word, prompt), abs=1e-4
        )
    assert found.calls == len(every_word(longest, prompt))
    wide = generator(shape, longest, prompt).beam(3**7, by_length)
    assert [each.word for each in wide.words[:5]] == ranked[:5]


@pytest.mark.parametrize("shape", ["plain", "alibi"])
def test_a_beam_of_one_is_greedy(shape: str) -> None:
    for longest in (1, 3, 8):
        one, greedy = generator(shape, longest).beam(1), generator(shape, longest).greedy()
        assert one.words == pytest.approx(greedy.words)
        (word,) = greedy.words
        model, at = made(shape), ()
        while len(at) < longest:
            token = int(said(model, at).argmax())
            if token == END_ID:
                break
            at = (*at, VOCABULARY.tokens[token])
        assert word.word == at


@pytest.mark.parametrize("by_length", [False, True])
def test_the_steps_of_a_beam_are_told(by_length: bool) -> None:
    """What is kept is the best of all that goes on from what was kept before, or has ended."""
    model, steps, width = made("plain"), list[list[Hypothesis]](), 3
    found = generator("plain", 5).beam(width, by_length, steps.append)
    open_, ended = {(): 0.0}, dict[Word, float]()
    for step in steps:
        every = {
            (parent, token): total + math.log(said(model, parent)[VOCABULARY.ids[token]])
            for parent, total in open_.items()
            for token in VOCABULARY.tokens[1:]
        }
        scores = {
            key: value / (len(key[0]) + 1 if by_length else 1) for key, value in every.items()
        }
        ranked = sorted(scores, key=lambda key: -scores[key])
        told = [(each.parent, each.token) for each in step]
        assert told == [key for key in ranked if key in set(told)]
        assert [each.score for each in step] == pytest.approx(
            [scores[key] for key in told], abs=1e-5
        )
        pool = sorted([*scores.values(), *ended.values()], reverse=True)[:width]
        kept = [each for each in step if each.kept]
        assert all(each.score >= pool[-1] - 1e-6 for each in kept)
        ended = {word: value for word, value in ended.items() if value >= pool[-1] - 1e-9}
        ended |= {each.parent: each.score for each in kept if each.token == "<end>"}
        assert len(kept) + len(ended) - sum(each.token == "<end>" for each in kept) == width
        open_ = {
            (*each.parent, each.token): every[each.parent, each.token]
            for each in kept
            if each.token != "<end>"
        }
    assert {each.word for each in found.words if each.ended} == set(ended)


def test_a_wider_beam_finds_no_worse_word() -> None:
    best = generator("plain", 7).exhaustive(1).words[0].log_probability
    found = [generator("plain", 7).beam(width).words[0] for width in (1, 2, 4, 16, 300)]
    assert found[-1].log_probability == pytest.approx(best)
    assert all(each.log_probability <= best + 1e-9 for each in found)


def test_the_length_divides_what_short_words_win_by() -> None:
    """Of two words with the same probability a token, the longer one is not punished."""
    plain = generator("plain", 7).exhaustive(200)
    fair = generator("plain", 7).exhaustive(200, by_length=True)
    lengths = [np.mean([len(each.word) for each in found.words[:10]]) for found in (plain, fair)]
    assert lengths[0] < lengths[1]


def test_words_are_drawn_by_their_probability() -> None:
    longest, count = 3, 20_000
    model = made("plain", scale=1.5)
    drawn = Generator(model, objective("next-symbols"), longest).sample(count, seed=3)
    assert len(drawn.words) == count
    ended = Counter(each.word for each in drawn.words if each.ended)
    words = every_word(longest)
    shares = np.array([math.exp(log_probability(model, word)) for word in words])
    seen = [*(ended[word] for word in words), count - sum(ended.values())]
    expected = np.array([*shares, 1 - shares.sum()]) * count
    assert chisquare(seen, expected).pvalue > 0.001
    for each in drawn.words[:20]:
        whole = log_probability(model, each.word)
        if not each.ended:
            whole -= math.log(said(model, each.word)[END_ID])
            assert len(each.word) == longest
        assert each.log_probability == pytest.approx(whole, abs=1e-4)


def test_the_same_seed_draws_the_same_words() -> None:
    one, again, other = (generator("plain", 6).sample(20, seed=seed) for seed in (1, 1, 2))
    assert one == again
    assert one.words != other.words


def test_a_word_goes_on_from_its_prompt() -> None:
    for word in generator("plain", 6, ("b", "b")).sample(10).words:
        assert word.word[:2] == ("b", "b")


def test_what_cannot_generate_is_told() -> None:
    with pytest.raises(UserError, match="taught verdicts alone"):
        Generator(made("plain"), objective("verdict"), 5)
    encoder = build(ModelConfig(n_layers=1, mask="bidirectional"), VOCABULARY)
    with pytest.raises(UserError, match="an encoder sees the whole word"):
        Generator(encoder, objective("next-symbols"), 5).sample(1)
    with pytest.raises(UserError, match="the prompt has 3 symbols, and the longest word 2"):
        generator("plain", 2, ("a", "b", "a"))
    with pytest.raises(UserError, match="unknown symbol 'c'"):
        generator("plain", 2, ("c",))
    with pytest.raises(UserError, match="too many words"):
        generator("plain", 30).exhaustive()
    with pytest.raises(UserError, match="at least 1"):
        generator("plain", 3).beam(0)
    with pytest.raises(UserError, match="longer than the learned positions"):
        generator("learned positions", 20).sample(1)
    assert isinstance(generator("learned positions", 11).sample(1).words[0], Made)
    assert tiny_config().objective == "next-symbols"
