"""The judge, judged: models whose mistakes are known get the scores that they deserve."""

from __future__ import annotations

from collections.abc import Callable
from itertools import product
from pathlib import Path

import numpy as np
import pytest
import torch
from conftest import TINY
from drawn import words_of

from models.base import LanguageModel, build
from models.config import TrainConfig
from models.errors import UserError
from models.languages import END_ID, LabelledCorpus, Language, PairCorpus, Words, language
from models.languages.vocabulary import FIRST_SYMBOL_ID
from models.model_config import ModelConfig
from models.objectives import objective
from models.rivals.ngram import HookedNGram
from models.training.evaluation import (
    balanced_words,
    evaluate,
    judge,
    predict,
    right_words,
    verdicts,
)
from models.training.evaluation import scores as scores_of
from models.training.trained_words import TrainedWords
from models.transformer.model import HookedTransformer

Flaw = Callable[[Words, np.ndarray], np.ndarray]


class Oracle(HookedTransformer):
    """Says what the language says, and then what a flaw makes of it."""

    def __init__(self, lang: Language, flaw: Flaw = lambda words, allowed: allowed) -> None:
        super().__init__(TINY, lang.vocabulary)
        self.language, self.flaw = lang, flaw
        self.seen: list[Words] = []

    def forward(self, tokens: torch.Tensor) -> torch.Tensor:
        ids = tokens[:, 1:].numpy()
        words = Words(ids, (ids >= FIRST_SYMBOL_ID).sum(axis=1))
        self.seen.append(words)
        said = self.flaw(words, self.language.allowed(words).copy())
        return torch.where(torch.as_tensor(said), 5.0, -5.0)


def wrong_about_everything(words: Words, allowed: np.ndarray) -> np.ndarray:
    return ~allowed


def lets_every_word_end(words: Words, allowed: np.ndarray) -> np.ndarray:
    allowed[np.arange(len(words)), words.lengths, END_ID] = True
    return allowed


def forgets_the_first_symbol(words: Words, allowed: np.ndarray) -> np.ndarray:
    allowed[:, 0] = False
    return allowed


def loses_count_after_ten(words: Words, allowed: np.ndarray) -> np.ndarray:
    allowed[:, 10:] = False
    return allowed


def scores(lang: Language, flaw: Flaw | None, lengths: range, **options: object) -> list[tuple]:
    model = Oracle(lang, flaw) if flaw else Oracle(lang)
    found = evaluate(
        model, lang, objective(options.pop("objective", "next-symbols")), lengths, **options
    )
    return [(s.length, s.n, s.exact, s.recognition) for s in found]


def test_a_perfect_model() -> None:
    found = scores(language("anbncn"), None, range(1, 7))
    assert found == [
        (1, None, None, 1.0),
        (2, None, None, 1.0),
        (3, 1, 1.0, 1.0),
        (4, None, None, 1.0),
        (5, None, None, 1.0),
        (6, 2, 1.0, 1.0),
    ]


def test_a_model_that_is_always_wrong() -> None:
    assert scores(language("anbn"), wrong_about_everything, range(1, 4)) == [
        (1, None, None, 0.0),
        (2, 1, 0.0, 0.0),
        (3, None, None, 0.0),
    ]


def test_a_model_that_takes_every_word() -> None:
    """Right about the members alone, which are half of the words."""
    for length, _, exact, recognition in scores(
        language("anbn"), lets_every_word_end, range(2, 9), count=400
    ):
        if length % 2 == 0:
            assert exact == 1.0
            assert recognition == pytest.approx(0.5, abs=0.1)
        else:
            assert (exact, recognition) == (None, 0.0)


def test_exact_means_every_position() -> None:
    assert {s[2:] for s in scores(language("anbn"), forgets_the_first_symbol, range(2, 3))} == {
        (0.0, 1.0)
    }


def test_what_a_teacher_of_verdicts_does_not_say_is_not_judged() -> None:
    found = scores(language("anbn"), forgets_the_first_symbol, range(2, 3), objective="verdict")
    assert found == [(2, 1, None, 1.0)]


def test_a_curve_shows_where_it_breaks() -> None:
    found = scores(language("anbn"), loses_count_after_ten, range(2, 15, 2))
    assert [exact for _, _, exact, _ in found] == [1, 1, 1, 1, 0, 0, 0]


def test_lengths_without_a_word_are_left_out() -> None:
    corpus_lengths = range(20)
    corpus = LabelledCorpus(
        "lines",
        ["in" if n % 2 else "out" for n in range(100)],
        [(f"w{n}", *["x"] * (2 + n % 2)) for n in range(100)],
    )
    found = scores(corpus, None, corpus_lengths, objective="verdict")
    assert [length for length, *_ in found] == [3, 4]
    assert {recognition for *_, recognition in found} == {1.0}


def test_the_test_words_hang_on_the_seed_and_the_length_alone() -> None:
    lang = language("anbn")

    def words(lengths: range, seed: int) -> dict[int, list[list[int]]]:
        model = Oracle(lang)
        assert list(evaluate(model, lang, objective("next-symbols"), lengths, count=50, seed=seed))
        return {w.ids.shape[1]: w.ids.tolist() for w in model.seen}

    both = words(range(10, 14), 0)
    assert all(len(rows) == len(set(map(tuple, rows))) > 5 for rows in both.values())
    assert both[12] == words(range(12, 13), 0)[12]
    assert both[12] != words(range(12, 13), 1)[12]


def test_an_odd_number_of_words_is_drawn_whole_where_wrong_pairs_are_made_at_will() -> None:
    sample = balanced_words(language("sort"), 7, 51, seed=0)
    assert sample is not None
    assert sample.labels.sum() == 25
    assert len(sample.labels) == 51


def test_one_word_may_be_asked_for(tmp_path: Path) -> None:
    """Half of one is none; of a corpus its label was read all the same."""
    lines = [f"{label}\t{a} {b} {c}" for label, a in ("ny", "yx") for b in "pqrst" for c in "uvw"]
    (tmp_path / "lines.tsv").write_text("".join(f"{line}\n" for line in lines))
    pairs = PairCorpus("pairs", [(a,) for a in "abcdefghij"], [(b,) for b in "klmnopqrst"])
    corpus = LabelledCorpus.from_file(tmp_path / "lines.tsv")
    for asked, length in ((language("sort"), 7), (corpus, 3), (pairs, 3)):
        sample = balanced_words(asked, length, 1, 0)
        assert sample is not None
        assert len(sample.labels) == 1


def test_a_word_that_stands_twice_is_read_once() -> None:
    """The answers are those of reading all of them; half of 50 words are the one member."""
    lang, taught = language("anbn"), objective("next-symbols")
    sample = balanced_words(lang, 8, 50, seed=0)
    assert sample is not None
    for flaw in (loses_count_after_ten, forgets_the_first_symbol, lets_every_word_end):
        model = Oracle(lang, flaw)
        both = right_words(model, lang, sample, taught)
        expected = judge(model, lang, sample, taught)[:2]
        assert all((a == b).all() for a, b in zip(both, expected, strict=True))
        read, drawn = (len(words) for words in model.seen)
        assert read <= 26 < drawn == 50


def test_words_that_training_drew_are_told_from_fresh_ones() -> None:
    config = TrainConfig(language="anbn", max_n=3, steps=40, batch_size=4, model=TINY)
    lang = language("anbn")
    drawn = {
        tuple(ids[:length].tolist())
        for step in range(config.steps)
        for words in (words_of(config, lang, step)[0],)
        for ids, length in zip(words.ids, words.lengths, strict=True)
    }
    trained = TrainedWords(config, lang, config.steps)
    every = lang.vocabulary.words([w for n in range(7) for w in product("ab", repeat=n)])
    held = {
        tuple(every.ids[i, : every.lengths[i]].tolist())
        for i in np.flatnonzero(trained.hold(every))
    }
    assert held == drawn
    assert len(trained) == len(drawn)
    for steps in range(5):  # not one more than were taken
        first = {w.tobytes() for s in range(steps) for w in words_of(config, lang, s)[0].ids}
        assert len(TrainedWords(config, lang, steps)) == len(first)

    def wrong_on_fresh_ones(words: Words, allowed: np.ndarray) -> np.ndarray:
        return np.where(trained.hold(words)[:, None, None], allowed, ~allowed)

    model = Oracle(lang, wrong_on_fresh_ones)
    taught = objective("next-symbols")
    found = list(evaluate(model, lang, taught, [4, 6, 8], 40, trained=trained))
    assert [score.fresh_recognition for score in found] == [0.0] * 3
    assert all(score.fresh for score in found)
    assert found[0].recognition > 0
    assert found[-1].recognition == 0
    sample = balanced_words(lang, 8, 40, 0)
    assert sample is not None
    assert found[-1].fresh == len({tuple(ids) for ids in sample.words.ids.tolist()})
    assert next(evaluate(model, lang, taught, [4])).fresh is None


def test_the_judge_s_loss_and_verdicts() -> None:
    lang = language("anbn")
    sample = lang.sample(np.random.default_rng(0), 50, range(1, 9))
    exact, right, value = judge(Oracle(lang), lang, sample, objective("next-symbols"))
    assert exact.all()
    assert right.all()
    assert value == pytest.approx(np.log1p(np.exp(-5)), rel=1e-4)
    model = Oracle(lang)
    logits = model(torch.as_tensor(sample.words.tokens))
    assert (verdicts(model, logits, sample.words) == sample.labels).all()


def test_predict_gives_the_sets_that_follow_each_symbol() -> None:
    lang = language("anbn")
    model = Oracle(lang)
    for word in ("aabb", "aab", "ba", "a"):
        follow, accepted = predict(model, word, objective("next-symbols"))
        assert [frozenset(f) for f in follow] == [
            lang.next_symbols(word[: end + 1]) for end in range(len(word))
        ]
        assert accepted == lang.contains(word)
    with pytest.raises(UserError, match="unknown symbol 'c'"):
        predict(model, "abc", objective("next-symbols"))


def test_predict_the_empty_word() -> None:
    assert predict(Oracle(language("anbn")), (), objective("next-symbols")) == ([], False)


def test_predict_says_only_what_was_taught() -> None:
    model = HookedTransformer(TINY, language("anbn").vocabulary)
    with torch.no_grad():
        model.unembed.linear.weight.zero_()
        model.unembed.linear.bias.fill_(1.0)  # every token, BOS too, seems allowed
    assert predict(model, "ab", objective("next-symbols"))[0] == [["<end>", "a", "b"]] * 2
    assert predict(model, "ab", objective("verdict"))[0] == [["<end>"]] * 2


@pytest.mark.parametrize(("length", "members"), [(8, 5), (7, 0)])
def test_words_are_half_members_where_there_are_any(length: int, members: int) -> None:
    sample = balanced_words(language("anbn"), length, 11, seed=0)
    assert sample is not None
    assert len(sample.words) == 11
    assert sample.labels.sum() == members


def test_members_and_others_are_judged_apart() -> None:
    found = evaluate(
        Oracle(language("anbn"), lets_every_word_end),
        language("anbn"),
        objective("next-symbols"),
        [7, 8],
        50,
    )
    assert [(s.members, s.others) for s in found] == [(None, 0.0), (1.0, 0.0)]


def waver(model: LanguageModel, lang: Language) -> None:
    """Makes a model that takes about half of the words: one that never errs tests nothing."""
    sample = lang.sample(np.random.default_rng(0), 100, range(2, 40))
    if isinstance(model, HookedNGram):
        batch = objective("next-symbols").batch(lang, sample.words)
        model.count(batch.tokens, batch.target, batch.weight)
        return
    with torch.no_grad():
        for parameter in model.parameters():
            parameter += 0.3 * torch.randn(
                parameter.shape, generator=torch.Generator().manual_seed(1)
            )
        at = model.verdict_positions(torch.as_tensor(sample.words.lengths))
        said = model(torch.as_tensor(sample.words.tokens))[torch.arange(100), at, END_ID]
        model.unembed.linear.bias[END_ID] -= said.median()


@pytest.mark.parametrize(
    "changes",
    [
        {},
        {"positions": "rotary"},
        {"positions": "t5", "mask": "bidirectional"},
        {"architecture": "lstm"},
        {"architecture": "gru"},
        {"architecture": "cnn"},
        {"architecture": "ngram"},
    ],
)
def test_lengths_that_are_judged_together_get_the_scores_of_each_alone(
    changes: dict[str, str],
) -> None:
    lang = language("lt2")
    model = build(ModelConfig(n_layers=2, d_model=16, n_heads=2, **changes), lang.vocabulary, 3)
    model.eval()
    taught = objective("verdict" if model.config.sees_ahead else "next-symbols")
    waver(model, lang)
    samples = [balanced_words(lang, length, 6, 0, hard=True) for length in range(2, 20)]
    alone = list(scores_of(model, lang, taught, samples))
    sizes: list[int] = []
    model.register_forward_pre_hook(lambda module, inputs: sizes.append(inputs[0].numel()))
    for tokens, calls in ((10**6, 1), (500, 4), (1, 18)):
        sizes.clear()
        together = list(scores_of(model, lang, taught, samples, tokens))
        assert together == alone
        assert len(sizes) == calls
        assert max(sizes) <= max(tokens, 6 * 20)
    assert len({score.recognition for score in alone}) > 1  # not all the same: a model that errs
