"""A step's words in groups: the same loss and gradient as one padded batch, at less cost."""

from __future__ import annotations

from dataclasses import replace
from itertools import combinations, pairwise, permutations
from typing import Any

import numpy as np
import pytest
import torch
from conftest import TINY, tiny_config
from drawn import words_of
from hypothesis import given
from hypothesis import strategies as st

from models.base import LanguageModel, build
from models.config import TrainConfig
from models.languages import END_ID, language
from models.languages.language import Spread
from models.objectives import objective
from models.training import batches as prepared
from models.training.batches import (
    TRAIN,
    Batches,
    _bands,
    _distinct,
    _with_beginnings,
    draw,
    steps_at_once,
)
from models.training.trainer import Trainer

CPU = torch.device("cpu")


def gradients(model: LanguageModel, value: torch.Tensor) -> dict[str, torch.Tensor]:
    model.zero_grad()
    value.backward()
    return {name: p.grad.clone() for name, p in model.named_parameters() if p.grad is not None}


def padded(config: TrainConfig, model: LanguageModel, step: int) -> torch.Tensor:
    """The loss of a step, as one would write it: all its words in one padded batch."""
    lang = language(config.language)
    words, offsets = words_of(config, lang, step)
    taught = objective(config.objective)
    batch = taught.batch(lang, words, config.model.readout)
    shifted = torch.as_tensor(offsets) if config.max_offset else None
    return taught.loss(model(batch.tokens, shifted), batch)


KINDS: dict[str, dict[str, Any]] = {
    "plain": {},
    "log": {"spread": "log"},
    "verdict": {"objective": "verdict"},
    "disfluent": {"objective": "verdict", "language": "dieren", "disfluent": 0.3},
    "language model": {"objective": "language-model"},
    "regular": {"language": "dyck1-1"},
    "rotary": {"model": replace(TINY, positions="rotary")},
    "strict": {"model": replace(TINY, mask="strictly_causal")},
    "encoder": {
        "objective": "verdict",
        "model": replace(TINY, mask="bidirectional", positions="alibi"),
    },
    "shifted": {"max_offset": 3, "model": replace(TINY, positions="learned")},
    "lstm": {"model": replace(TINY, architecture="lstm")},
    "cnn": {"model": replace(TINY, architecture="cnn")},
}


@pytest.mark.parametrize("most", [2**24, 1])
@pytest.mark.parametrize("kind", KINDS)
def test_a_step_has_the_loss_and_the_gradient_of_one_padded_batch(
    kind: str, most: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also where the answers of one step alone are laid out at once."""
    monkeypatch.setattr(prepared, "MOST_ANSWERS", most)
    monkeypatch.setattr(Batches, "_overhead", 40.0)  # of so narrow a model, groups never pay
    config = tiny_config(**({"batch_size": 48, "max_n": 20} | KINDS[kind]))
    lang = language(config.language)
    model = build(config.model, lang.vocabulary, 0)
    batches = Batches(config, lang, CPU)
    step = batches[1]
    assert len(step.groups) > 1
    assert len(batches._steps) == (1 if most == 1 else steps_at_once(config))
    taught = objective(config.objective)
    value = sum(
        taught.loss(model(group.batch.tokens, group.offsets), group.batch)
        * group.batch.weight.sum()
        for group in step.groups
    )
    found = gradients(model, value / step.answers)
    expected = padded(config, model, 1)
    torch.testing.assert_close(value / step.answers, expected, rtol=1e-5, atol=1e-7)
    for name, gradient in gradients(model, expected).items():
        torch.testing.assert_close(found[name], gradient, rtol=1e-3, atol=1e-6, msg=name)


def test_the_trainer_s_step_is_this_loss(tmp_path: Any) -> None:
    from models.runs.run import Run

    config = tiny_config(batch_size=32, max_n=20, spread="log", clip=1e9)
    trainer = Trainer.at_start(Run.create(tmp_path / "run", config), CPU)
    expected = padded(config, trainer.model, 0)
    wanted = gradients(trainer.model, expected)
    assert trainer.advance() == pytest.approx(float(expected.detach()), rel=1e-5)
    for name, parameter in trainer.model.named_parameters():
        torch.testing.assert_close(parameter.grad, wanted[name], rtol=1e-3, atol=1e-6, msg=name)


@pytest.mark.parametrize("most", [2**24, 2**17, 1])
def test_steps_are_the_same_in_any_order(most: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(prepared, "MOST_ANSWERS", most)
    config = tiny_config(batch_size=512)  # four steps at once
    lang = language(config.language)
    assert steps_at_once(config) == 4
    first, second = Batches(config, lang, CPU), Batches(config, lang, CPU)
    kept = {step: first[step] for step in (0, 1, 5, 9)}
    for step in (9, 5, 1, 0):
        for one, other in zip(second[step].groups, kept[step].groups, strict=True):
            assert torch.equal(one.batch.tokens, other.batch.tokens)
            assert torch.equal(one.batch.weight, other.batch.weight)


def test_every_step_has_its_own_words() -> None:
    config = tiny_config(batch_size=64, max_n=20)
    lang = language(config.language)
    drawn = [words_of(config, lang, step)[0].lengths.tolist() for step in range(40)]
    assert len({tuple(lengths) for lengths in drawn}) == 40
    assert {len(lengths) for lengths in drawn} == {64}
    chunk = draw(config, lang, 0)[0]
    assert chunk.lengths[:64].tolist() == drawn[0]


def test_a_word_drawn_twice_is_computed_once() -> None:
    config = tiny_config(language="an", batch_size=256, max_n=4)
    step = Batches(config, language("an"), CPU)[0]
    words = [tuple(row) for group in step.groups for row in group.batch.tokens.tolist()]
    assert len(set(words)) == len(words) < 40
    drawn = words_of(config, language("an"), 0)[0]
    assert step.answers == 3 * (drawn.lengths + 1).sum()  # END, a and b at every position


@pytest.mark.slow
@given(st.lists(st.tuples(st.integers(0, 3), st.integers(0, 300)), min_size=1))
def test_distinct_rows_are_numpy_s(rows: list[tuple[int, int]]) -> None:
    expected, times = np.unique(np.array(rows), axis=0, return_counts=True)
    found, counted = _distinct(np.array(rows))
    assert found.tolist() == expected.tolist()
    assert counted.tolist() == times.tolist()


def test_a_word_that_begins_another_is_read_with_it() -> None:
    config = tiny_config(batch_size=64, max_n=6)
    step = Batches(config, language("anbn"), CPU)[0]
    read = [
        "".join(map(str, row[: int((weight > 0).any(1).sum())]))
        for group in step.groups
        for row, weight in zip(group.batch.tokens.tolist(), group.batch.weight, strict=True)
    ]
    assert not any(b.startswith(a) for a, b in permutations(read, 2))
    drawn = {"".join(map(str, row)) for row in words_of(config, language("anbn"), 0)[0].ids}
    assert len(read) < len(drawn) - 5


@pytest.mark.slow
@given(
    st.lists(
        st.tuples(st.integers(0, 1), st.integers(0, 1), st.lists(st.integers(2, 3), max_size=4))
    ).filter(bool)
)
def test_what_is_read_with_another_is_counted_as_far_as_it_goes(
    words: list[tuple[int, int, list[int]]],
) -> None:
    """By brute force; END pads."""
    rows = [[s, o, *word, *[END_ID] * (4 - len(word)), len(word)] for s, o, word in words]
    read, drawn = _with_beginnings(*_distinct(np.array(rows)))
    whole = [(s, o, ids[:n]) for s, o, *ids, n in read.tolist()]
    begins = [
        any(w[:2] == v[:2] and w != v and v[2][: len(w[2])] == w[2] for v in words) for w in words
    ]
    alone = [w for w, begun in zip(words, begins, strict=True) if not begun]
    assert sorted(whole) == sorted({(s, o, tuple(w)): (s, o, w) for s, o, w in alone}.values())
    for (s, o, word), counts in zip(whole, drawn.tolist(), strict=True):
        for position, count in enumerate(counts):
            far = [w for w in words if w[:2] == (s, o) and len(w[2]) >= position]
            own = [w for w in far if word[: len(w[2])] == w[2]]
            reached = [w for w in own if _reader(w, whole) == (s, o, word)]
            assert count == len(reached)


def _reader(
    word: tuple[int, int, list[int]], read: list[tuple[int, int, list[int]]]
) -> tuple[int, int, list[int]]:
    """The first in order of those that go on from it."""
    return min(w for w in read if w[:2] == word[:2] and w[2][: len(word[2])] == word[2])


@pytest.mark.slow
@given(st.lists(st.integers(1, 9), min_size=1), st.sampled_from([0.0, 1.0, 4.0, 20.0, np.inf]))
def test_no_other_bands_cost_less(lengths: list[int], overhead: float) -> None:
    """All ways to cut, by brute force."""

    def cost(cuts: list[tuple[int, int]]) -> float:
        rows = [sum(a < length <= b for length in lengths) for a, b in cuts]
        return sum(overhead + n * (b + 1) for n, (_, b) in zip(rows, cuts, strict=True))

    found = _bands(np.array(lengths), overhead)
    values = sorted(set(lengths))
    assert found[0][0] == 0
    assert found[-1][1] == values[-1]
    assert all(b == c for (_, b), (c, _) in pairwise(found))
    for count in range(len(values)):
        for inner in combinations(values[:-1], count):
            ends = [0, *inner, values[-1]]
            assert cost(found) <= cost(list(pairwise(ends))) + 1e-9
    if overhead == np.inf:
        assert found == [(0, values[-1])]


@pytest.mark.parametrize("spread", ["even", "log"])
def test_words_are_drawn_with_the_spread_of_the_run(spread: Spread) -> None:
    config, lang = tiny_config(spread=spread, max_n=20, batch_size=512), language("anbn")
    rng = np.random.default_rng([config.seed, TRAIN, 0])
    count = steps_at_once(config) * config.batch_size
    by_hand = lang.sample(rng, count, lang.lengths(20), spread=spread).words
    words, _ = draw(config, lang, 0)
    assert words.ids.tolist() == by_hand.ids.tolist()
    mean, even = words.lengths.mean(), np.mean(lang.lengths(20))
    assert mean == pytest.approx(even, rel=0.1) if spread == "even" else mean < 0.7 * even
