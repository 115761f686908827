"""Depth of embedding by hand, and the curve by depth."""

from __future__ import annotations

import json
from collections import Counter
from dataclasses import replace
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from brute import distance
from conftest import tiny_config, without_pictures

from analyses.answers import Answer, answer
from analyses.claims import told
from analyses.command_line.app import main
from analyses.options.behaviour import Depths
from analyses.questions.behaviour.depths import KINDS, QUESTION, _depths, _guessed, _words_by_depth
from interp.statistics import wilson
from models.errors import UserError
from models.languages import END, ContextFreeLanguage, language
from models.languages.grammars.drawn import DrawnLanguage
from models.languages.grammars.notation import read
from models.languages.grammars.trees import embedding
from models.runs.run import Run
from models.training.evaluation import predict
from models.training.loop import train
from models.training.recipes import recipe


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Run:
    config = replace(recipe("dyck1-unbounded"), steps=80, max_n=8)
    made = Run.create(tmp_path_factory.mktemp("depths") / "run", config)
    train(made, "cpu")
    return made


@pytest.mark.parametrize(
    ("name", "text", "depth"),
    [
        ("nested", "de hond loopt", 0),
        ("nested", "de kleine grote hond loopt", 0),
        ("nested", "de hond die het paard ziet loopt", 1),
        ("nested", "de hond die het paard dat de katten zien volgt loopt", 2),
        ("linear", "de hond loopt en de kat slaapt en het paard loopt", 0),
        ("dyck2-unbounded", "( ) [ ] ( )", 1),
        ("dyck2-unbounded", "( [ ( ) ] ) [ ]", 3),
        ("anbm", "a a a b b", 1),
    ],
)
def test_what_stands_in_the_middle_of_its_like(name: str, text: str, depth: int) -> None:
    known = language(name)
    assert isinstance(known, ContextFreeLanguage)
    (tree,) = known.trees(text.split())
    assert embedding(tree) == depth


@pytest.mark.parametrize("text", ["S -> S 'a' | 'b'", "S -> 'a' S | 'b'"])
def test_what_begins_or_ends_its_like_does_not_stand_in_its_middle(text: str) -> None:
    known = ContextFreeLanguage("one side", read(text))
    word = known.example()
    assert len(word) == 3
    assert embedding(next(known.trees(word))) == 0


def test_of_brackets_it_is_how_many_are_open() -> None:
    known = language("dyck2-unbounded")
    assert isinstance(known, ContextFreeLanguage)
    drawn = known.sample(np.random.default_rng(0), 60, range(2, 17), label=True).words
    for row in range(60):
        word = known.vocabulary.decode(drawn.ids[row, : drawn.lengths[row]])
        opened = np.cumsum([1 if symbol in "([" else -1 for symbol in word])
        assert embedding(next(known.trees(word))) == opened.max()


def test_a_spoiled_word_differs_in_one_symbol() -> None:
    for name in ("nested", "ww", "halting", "anbm"):
        known, rng = language(name), np.random.default_rng(1)
        assert isinstance(known, DrawnLanguage)
        lengths = known.positive_lengths(range(4, 13))
        words = known.sample(rng, 30, lengths, label=True).words
        other = known.spoiled(rng, words)
        assert not known.labels(other).any()
        for row in range(30):
            one, two = (
                known.vocabulary.decode(each.ids[row, : words.lengths[row]])
                for each in (words, other)
            )
            assert distance(one, two) == 1


def test_each_row_is_the_word_judged_by_hand(run: Run) -> None:
    table, known = _depths(run, Depths(count=12, deepest=3)), run.language
    assert isinstance(known, ContextFreeLanguage)
    by_depth = _words_by_depth(run, 12, 3, 0)
    assert {depth for depth, some in by_depth.items() if len(some) == 12} >= {2, 3}
    for depth, words in by_depth.items():
        assert len(set(words)) == len(words)
        assert all(embedding(next(known.trees(word))) == depth for word in words)
    truths = {
        word: [known.next_symbols(word[: end + 1]) for end in range(len(word))]
        for words in by_depth.values()
        for word in words
    }
    for model, name in ((run.model(), "trained"), (run.untrained(), "untrained")):
        for depth, words in by_depth.items():
            exact, last, yes = [], [], []
            for word in words:
                follow, accepted = predict(model, word, run.objective)
                truth = truths[word]
                first, _ = predict(model, word[:1], run.objective)
                assert first == follow[:1]
                right = [set(f) == t for f, t in zip(follow, truth, strict=True)]
                exact.append(all(right))
                last.append(right[-2])
                yes.append(accepted)
            rows = table[(table["model"] == name) & (table["depth"] == depth)].set_index("kind")
            assert rows.loc["before the last", "value"] == pytest.approx(np.mean(last))
            assert rows.loc["exact", "value"] <= np.mean(exact) + 1e-9  # BOS is asked too
            assert (rows.loc["exact", "words"], rows.loc["recognition", "words"]) == (
                len(words),
                2 * len(words),
            )
            value, count = rows.loc["recognition", "value"], 2 * len(words)
            assert value * count >= sum(yes) - 1e-9
            assert (rows.loc["recognition", "low"], rows.loc["recognition", "high"]) == (
                pytest.approx(wilson(round(value * count), count))
            )
            long = np.mean([len(word) <= 8 for word in words])
            assert rows["in_window"].tolist() == pytest.approx([long] * 3)
    assert set(table["kind"]) == set(KINDS)
    assert QUESTION.claims(Answer(table))[0].n == sum(map(len, by_depth.values()))
    assert QUESTION.chart(Answer(table)).to_dict()["concat"]
    assert END in known.next_symbols(())


def test_who_knows_the_last_symbol_says_what_most_often_follows_it(run: Run) -> None:
    known, words = run.language, [tuple("()"), tuple("(())"), tuple("()()")]
    sets = [[(w[:end], known.next_symbols(w[:end])) for end in range(len(w) + 1)] for w in words]
    counts: dict[object, Counter[frozenset[str]]] = {}
    for prefix, may in (pair for each in sets for pair in each):
        counts.setdefault(prefix[-1:], Counter())[frozenset(may)] += 1
    often = {symbol: each.most_common(1)[0][0] for symbol, each in counts.items()}
    right = [[often[prefix[-1:]] == may for prefix, may in each] for each in sets]
    assert _guessed(run, words) == pytest.approx({
        "exact": np.mean([all(each) for each in right]),
        "before the last": np.mean([each[-2] for each in right]),
        "recognition": 0.5,
    })  # fmt: skip
    assert 0 < np.mean([all(each) for each in right]) < 1


def by_depth(kind: str, shares: list[float], untrained: float, symbol: float) -> pd.DataFrame:
    """A table made by hand: 64 words of each depth, the last of which are mostly long."""
    own = pd.DataFrame({"depth": range(len(shares)), "value": shares, "model": "trained"})
    table = pd.concat([own, own.assign(model="untrained", value=untrained)], ignore_index=True)
    ends = [wilson(round(64 * share), 64) for share in table["value"]]
    table[["low", "high"]] = ends
    table["in_window"] = 1.0 - 0.6 * (table["depth"] == len(shares) - 1)
    return table.assign(kind=kind, words=64, symbol=symbol)


@pytest.mark.parametrize(
    ("shares", "untrained", "symbol", "grade"),
    [
        ([1.0, 0.75, 0.5], 0.0, 0.25, "holds"),
        ([1.0, 0.75, 0.25], 0.0, 0.25, "fragile"),
        ([1.0, 0.5, 0.5], 0.0, 0.75, "no better than its controls"),
        ([1.0, 0.5, 0.5], 0.625, 0.0, "no better than its controls"),
        ([0.0, 0.0, 0.0], 0.0, 0.0, "no better than its controls"),
    ],
)
def test_depths_are_held_against_what_the_last_symbol_tells(
    shares: list[float], untrained: float, symbol: float, grade: str
) -> None:
    (claim,) = QUESTION.claims(Answer(by_depth("recognition", shares, untrained, symbol)))
    assert (claim.grade, claim.n) == (grade, 3 * 64)
    hits = round(64 * sum(shares))
    assert (claim.value, claim.low, claim.high) == (hits / 192, *wilson(hits, 192))
    expected = {"the untrained network": untrained, "the last symbol alone": symbol}
    assert claim.controls == pytest.approx(expected)
    assert list(claim.doubts) == ["Alone it is not shown at depth 2."] * (grade == "fragile")
    low, high = wilson(round(64 * shares[1]), 64)
    assert f"{shares[1]:.0%} [{low:.0%}, {high:.0%}] at depth 1" in claim.sentence
    assert "From depth 2 on most words are longer" in claim.sentence
    both = [by_depth(kind, shares, 0, 0) for kind in ("exact", "before the last", "recognition")]
    assert len(QUESTION.claims(Answer(pd.concat(both)))) == 2


def test_the_command(run: Run, capsys: pytest.CaptureFixture[str]) -> None:
    words = ["analyse", str(run.path), "depths", "--count", "5", "--deepest", "2", "--json"]
    with without_pictures():
        assert main(words) == 0
    said = json.loads(capsys.readouterr().out)
    assert {row["depth"] for row in said["table"]} == {1, 2}  # brackets have no word of depth 0
    table = _depths(run, Depths(count=5, deepest=2))
    assert said["sentence"] == told(QUESTION.claims(Answer(table)), None)
    compared = QUESTION.headline(Answer(table)).set_index(["variable", "of"])["value"]
    assert len(compared) == len(table)
    for row in table.itertuples():
        assert compared[f"{row.kind}, depth {row.depth}", row.model] == row.value
    assert main(["analyse", str(run.path), "depths", "--deepest", "99"]) == 2
    assert "--deepest is 99: it must be at most 12" in capsys.readouterr().err


def test_a_language_without_trees_says_so(tmp_path: Path) -> None:
    made = Run.create(tmp_path / "run", tiny_config(steps=1))
    with pytest.raises(UserError, match="anbn has no trees"):
        answer(made, "depths")
