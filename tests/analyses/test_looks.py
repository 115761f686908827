"""Looking by hand: places, attention, and what happens if a head cannot look."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
import torch
from conftest import tiny_config, tiny_of

from analyses.answers import Answer, answer, fresh_answer
from analyses.command_line.app import main
from analyses.options.parts import Looks
from analyses.questions.parts.looks import ALL, QUESTION, _decides, _looks, _others, _places_of
from models.base import LanguageModel
from models.errors import UserError
from models.runs.run import Run
from models.training.loop import train
from models.training.recipes import recipe

NOUNS = ("hond", "kat", "leeuw", "paard", "schaap", "varken", "honden", "paarden", "katten")
ADJECTIVES = ("grote", "kleine")
VERBS = ("loopt", "lopen", "slaapt", "slapen")


def options(query: Sequence[str], key: Sequence[str], count: int = 12) -> Looks:
    return Looks(" ".join(query), " ".join(key), count)


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Run:
    config = replace(recipe("nested"), objective="language-model", steps=60, max_n=12)
    made = Run.create(tmp_path_factory.mktemp("looks") / "run", config)
    train(made, "cpu")
    return made


@pytest.fixture(scope="module")
def table(run: Run) -> pd.DataFrame:
    return _looks(run, options(NOUNS, ADJECTIVES))


def test_places_are_in_different_words(run: Run) -> None:
    found, vocabulary = _places_of(run, options(NOUNS, ADJECTIVES)), run.language.vocabulary
    assert len(found.at) == len(np.unique(found.words.ids, axis=0)) == 12
    for row, at in enumerate(found.at.tolist()):
        word = vocabulary.decode(found.words.ids[row, : found.words.lengths[row]])
        assert word[at - 1] in NOUNS
        keys = [place for place in range(at - 1) if word[place] in ADJECTIVES]
        assert keys
        assert (np.flatnonzero(found.keys[row]) - 1).tolist() == keys


def hidden(
    pattern: torch.Tensor, hook: object, heads: Sequence[int], at: int, keys: Sequence[int]
) -> torch.Tensor:
    """The pattern of one word without looks from a place to some keys."""
    pattern = pattern.clone()
    for head in heads:
        for key in keys:
            pattern[0, head, at, key] = 0.0
        pattern[0, head, at] /= pattern[0, head, at].sum()
    return pattern


def divergence(run: Run, model: LanguageModel, tokens: torch.Tensor, at: int, *hooks: Any) -> float:
    """KL(plain || with hooks) of the next token, token by token."""
    said = []
    for each in ((), hooks):
        with torch.no_grad():
            logits = model.run_with_hooks(tokens, fwd_hooks=list(each))[0, at].double()
        said.append(run.objective.log_probabilities(logits, model.vocabulary).tolist())
    return sum(np.exp(one) * (one - two) for one, two in zip(*said, strict=True) if one > -np.inf)


def test_each_row_is_the_run_by_hand(run: Run, table: pd.DataFrame) -> None:
    found = _places_of(run, options(NOUNS, ADJECTIVES))
    others = _others(found, 0)
    for name, model in (("trained", run.model()), ("untrained", run.untrained())):
        rows = table[table["model"] == name].set_index("head")
        by_hand = []
        for row, at in enumerate(found.at.tolist()):
            tokens = torch.as_tensor(found.words[np.array([row])].tokens)
            keys = np.flatnonzero(found.keys[row]).tolist()
            with torch.no_grad():
                _, cache = model.run_with_cache(tokens)
            paid = float(cache["blocks.1.attn.hook_pattern"][0, 2, at, keys].sum())
            one, both = (
                [
                    (
                        f"blocks.{layer}.attn.hook_pattern",
                        partial(hidden, heads=heads, at=at, keys=keys),
                    )
                    for layer, heads in asked
                ]
                for asked in ([(1, [2])], [(0, range(4)), (1, range(4))])
            )
            places = np.flatnonzero(others.keys[row]).tolist()
            instead = partial(hidden, heads=[2], at=at, keys=places)
            third = [("blocks.1.attn.hook_pattern", instead)]
            moved = (divergence(run, model, tokens, at, *hooks) for hooks in (one, both, third))
            by_hand.append([paid, len(keys) / (at + 1), *moved])
        each = np.array(by_hand)
        own, together = rows.loc["L1H2"], rows.loc[ALL]
        paid, even, alone, all_of_them, elsewhere = each[1::2].mean(axis=0)
        assert own["attention"] == pytest.approx(paid, abs=1e-5)
        assert own["choice"] == pytest.approx(each[::2, 0].mean(), abs=1e-5)
        assert own["even"] == pytest.approx(even)
        assert own["effect"] == pytest.approx(alone, abs=1e-6)
        assert own["beyond"] == pytest.approx(alone - elsewhere, abs=1e-6)
        assert own["beyond_low"] <= own["beyond"] <= own["beyond_high"]
        assert together["effect"] == pytest.approx(all_of_them, abs=1e-5)
        assert together["effect"] > 0
        assert (own["places"], len(rows)) == (6, 9)
        assert own["low"] <= own["attention"] <= own["high"]


def test_what_is_hidden_instead_is_as_much_of_what_came_before(run: Run) -> None:
    found = _places_of(run, options(NOUNS, ADJECTIVES))
    others = _others(found, 0)
    assert not (others.keys & found.keys).any()
    for row, at in enumerate(found.at.tolist()):
        hidden, asked = others.keys[row].sum(), found.keys[row].sum()
        assert hidden == min(asked, at - asked) > 0
        assert np.flatnonzero(others.keys[row]).max() < at
    assert not np.array_equal(others.keys, _others(found, 1).keys)


def test_the_head_that_is_compared_over_seeds_is_that_of_the_sentence(table: pd.DataFrame) -> None:
    compared = QUESTION.headline(Answer(table)).set_index(["variable", "of"])["value"]
    rows = table.set_index(["model", "head"])
    for model in ("trained", "untrained"):
        own = rows.loc[model].drop(ALL)
        best = own.loc[own["choice"].idxmax()]
        assert compared["attention of the head that looks most", model] == best["attention"]
        assert compared["effect of the head that looks most", model] == best["effect"]
        assert compared["effect of all heads", model] == rows.loc[(model, ALL), "effect"]


@pytest.mark.parametrize(
    ("low", "before", "holds"),
    [
        (0.0011, 0.0, True),
        (0.0009, 0.0, False),  # beyond 0, but not by what counts
        (0.0011, 0.0012, False),  # an untrained head does as much
    ],
)
def test_what_a_look_moves_must_be_more_than_what_counts(
    table: pd.DataFrame, low: float, before: float, holds: bool
) -> None:
    made = table.copy()
    heads = made["head"] != ALL
    made.loc[heads, ["beyond", "beyond_low", "beyond_high"]] = [0.002, low, 0.004]
    made.loc[heads & (made["model"] == "untrained"), "beyond"] = before
    _, moved = QUESTION.claims(Answer(made))
    assert moved.grade == ("holds" if holds else "no better than its controls")


def test_adjectives_decide_nothing_and_nouns_do(run: Run) -> None:
    assert _decides(run, _places_of(run, options(NOUNS, ADJECTIVES))) == 0.0
    # Which verb may follow "ziet" is said by the noun of the clause around it.
    verbs = ("ziet", "zien", "volgt", "volgen")
    assert _decides(run, _places_of(run, options(verbs, NOUNS))) > 0.5


def test_the_command(run: Run, table: pd.DataFrame, capsys: pytest.CaptureFixture[str]) -> None:
    words = ["analyse", str(run.path), "looks"]
    asked = ["--query", " ".join(NOUNS), "--key", " ".join(ADJECTIVES)]
    assert main([*words, *asked, "--count", "12", "--json"]) == 0
    said = json.loads(capsys.readouterr().out)
    found = fresh_answer(run, QUESTION, options(NOUNS, ADJECTIVES))
    assert said["sentence"] == found.sentence
    assert found.claims == tuple(QUESTION.claims(replace(found, table=table)))
    assert "decide what may follow in 0% of the places" in found.claims[0].sentence
    assert main(words) == 2
    assert "name the symbols that look" in capsys.readouterr().err


def test_what_cannot_look_says_so(run: Run, tmp_path: Path) -> None:
    with pytest.raises(UserError, match="hardly any word of nested has one of de after"):
        _looks(run, options(("de",), VERBS))
    config = replace(tiny_config(steps=1), model=replace(tiny_config().model, architecture="lstm"))
    with pytest.raises(UserError, match="has no attention heads"):
        answer(Run.create(tmp_path / "lstm", config), "looks", Looks("b", "a"))
    sides = Run.create(tmp_path / "sides", tiny_config(steps=1, model=tiny_of("encoder-decoder")))
    with pytest.raises(UserError, match="has two sides"):  # each has a mask of its own
        answer(sides, "looks", Looks("b", "a"))
    verdict = Run.create(tmp_path / "verdict", tiny_config(steps=1, objective="verdict"))
    with pytest.raises(UserError, match="taught verdicts alone"):
        answer(verdict, "looks", Looks("b", "a"))
