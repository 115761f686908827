"""What merges do to words: shares against counting by hand, controls, and the command."""

from __future__ import annotations

import json
import math

import numpy as np
import pytest

from analyses.command_line.app import main
from analyses.lectures import tokens as of_tokens
from analyses.questions.inside.probing import targets
from models.languages import language
from models.languages.tokens import Tokeniser, tokenised


def course(texts: list[str], pairs: list[tuple[str, str]]) -> list[list[list[list[str]]]]:
    return [cut for *_, cut in of_tokens._course(texts, of_tokens._in_order(pairs), len(pairs))]


def test_merges_run_from_the_left_and_stop_at_blanks() -> None:
    first, second = course(["aaab aa", "b"], [("a", "a")])
    assert first[0] == [["a", "a", "a", "b"], ["a", "a"]]
    assert second == [[["aa", "a", "b"], ["aa"]], [["b"]]]


@pytest.mark.parametrize("name", ["dieren", "anbn"])
def test_the_course_is_that_of_the_library(name: str) -> None:
    """In the end each part is cut as the library cuts it."""
    known = language(name)
    cutter = Tokeniser.learn(known, "bpe:12")
    texts = of_tokens.texts_of(known, cutter.spelled, 50)
    last = course(texts, cutter.merges)[-1]
    assert last == [[list(cutter.cut(part)) for part in text.split()] for text in texts]


def test_shares_by_hand() -> None:
    """ "de aap" twice: cut de_ | a | ap_, and without blanks dea | ap."""
    known, true, bare = {"de_", "aap_"}, [[2, 3]], ["deaap"]
    with_blanks = of_tokens._measured([[["de_"], ["a", "ap_"]]], ["de_", "ap_"], known, true, bare)
    assert with_blanks == {
        "tokens_a_symbol": 1.5,
        "words": 0.5,
        "whole": 0.5,
        "cuts": 0.5,  # after de, and inside aap
        "between": 1.0,
    }
    without = of_tokens._measured([[["dea", "ap"]]], ["ea"], {"de", "aap"}, true, bare)
    assert without["tokens_a_symbol"] == 1.0
    assert without["cuts"] == without["between"] == 0.0
    letters = of_tokens._measured([[["aa", "b"]]], ["aa"], None, [[3]], ["aab"])
    assert letters == {"tokens_a_symbol": pytest.approx(2 / 3)}


def test_byte_pairs_beside_random_ones() -> None:
    known = language("nested")
    cutter = Tokeniser.learn(known, "bpe:16")
    table = of_tokens.judged(known, cutter).set_index(["kind", "merges"])
    assert [*table.loc[of_tokens.PAIRS].index] == [0, 1, 2, 4, 8, 16]
    tokens = table["tokens_a_symbol"].unstack("kind")
    assert (tokens.diff().dropna() < 0).all().all()
    for pairs, random in (
        (of_tokens.PAIRS, of_tokens.RANDOM),
        (of_tokens.WITHOUT, of_tokens.RANDOM_WITHOUT),
    ):
        assert tokens[pairs][0] == tokens[random][0]
        assert tokens[pairs][16] < tokens[random][16]
        assert (table.loc[pairs]["vocabulary"].diff().dropna() == np.diff(tokens.index)).all()
    assert (table.loc[of_tokens.PAIRS]["between"] == 1).all()  # merges never cross a blank
    bare = table.loc[of_tokens.WITHOUT]
    assert bare["between"].iloc[0] == 1  # without merges every place is cut
    letters = table.loc[of_tokens.PAIRS]
    assert bare["cuts"].iloc[0] == letters["cuts"].iloc[0]
    assert bare["between"].iloc[-1] < 1
    assert math.isnan(table.loc[of_tokens.PAIRS]["whole"][0])


def test_random_pairs_depend_on_the_draw_alone() -> None:
    texts = ["abcabd", "dcba"]
    one, same, other = (
        [m for _, m, _ in of_tokens._course(texts, of_tokens._at_random(rng), 4)][-1]
        for rng in map(np.random.default_rng, (1, 1, 2))
    )
    assert one == same != other


def test_sets_of_many_tokens_are_told_apart() -> None:
    """More tokens than a number has bits."""
    known = tokenised(language("anbn"), "bpe:64")
    words = known.sample(np.random.default_rng(0), 60, known.lengths(25)).words
    codes = targets(known, words)["next symbols"].values.ravel()
    sets = known.allowed(words).reshape(len(codes), -1)
    assert len(np.unique(codes)) == len(np.unique(sets, axis=0)) > 10


def test_the_command(capsys: pytest.CaptureFixture[str]) -> None:
    asked = ["languages", "dieren", "--tokens", "bpe:7", "--word", "leeuw leuw"]
    assert main([*asked, "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert found["word"] == ["leeuw_", "l", "e", "uw", "_"]
    assert [row["token"] for row in found["merges"]][-2:] == ["leeuw", "leeuw_"]
    assert found["merges"][-1]["word"] is True
    assert main(asked) == 0
    assert "5 tokens: leeuw_ l e uw _" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("words", "fault"),
    [
        (["copy", "--tokens", "bpe:16"], "copy has pairs"),
        (["anbn", "--tokens", "words"], "choose bpe:16"),
        (["anbn", "--tokens", "bpe:x"], "choose words, characters"),
        (["anbn", "--tokens", "bpe:16", "--word", "abc"], "unknown letter 'c'"),
        (["anbx", "--tokens", "bpe:16"], "did you mean anbn"),
        (["dieren", "--tokens", "bpe:99"], "only 35 merges"),
    ],
)
def test_mistakes_are_one_line(
    words: list[str], fault: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["languages", *words]) == 2
    error = capsys.readouterr().err
    assert fault in error
    assert error.count("\n") == 1
