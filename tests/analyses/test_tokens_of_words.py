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
from models.languages.tokens.tokeniser import Text


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


PIPER = "Peter Piper picked a peck of pickled peppers"


def test_counts_of_merged_pairs_by_hand() -> None:
    """After pe, ck, d_ and ed_ the pair p e is gone, and i ck stands in picked and pickled."""
    text = Text(PIPER)
    table = of_tokens.merges(text, Tokeniser.learn(text, "bpe:8"))
    assert table["merge"].tolist() == [*range(1, 9)]
    assert table["token"].tolist() == ["pe", "ck", "d_", "ed_", "ick", "pick", "r_", "Pe"]
    assert table["count"].tolist() == [4, 3, 2, 2, 2, 2, 2, 1]
    assert not table["word"].any()
    runs = of_tokens.merges(Text("aaab aa"), Tokeniser.learn(Text("aaab aa"), "bpe:1"))
    assert runs[["left", "right", "count"]].to_numpy().tolist() == [["a", "a", 3]]


def test_a_text_whose_words_are_all_one_token() -> None:
    text = Text(PIPER)
    most = of_tokens.most_merges(text)
    assert most == 27
    cutter = of_tokens.tokeniser_of(text, f"bpe:{most}")
    table = of_tokens.judged(text, cutter)
    shares = table.set_index(["kind", "merges"])["words"]
    assert shares[of_tokens.PAIRS, most] == 1
    assert shares[of_tokens.WITHOUT, 0] == 1 / 8  # of its eight words "a" is one letter
    said = of_tokens.in_words(text, cutter, table)
    assert said.startswith("your text, 42 tokens: 1.00 tokens a word after 27 merges; 5.62 without")
    assert "100% of the words are one token" in said


@pytest.mark.parametrize(("line", "random"), [("a", 100), ("aaaa", 80), ("aa aa", 100)])
def test_a_text_without_places_to_cut_is_told_without_them(line: str, random: int) -> None:
    text = Text(line)
    cutter = of_tokens.tokeniser_of(text, f"bpe:{of_tokens.most_merges(text)}")
    said = of_tokens.in_words(text, cutter, of_tokens.judged(text, cutter))
    assert said.endswith(f"100% of the words are one token ({random}%).")


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


def test_the_command_on_a_text(capsys: pytest.CaptureFixture[str]) -> None:
    asked = ["languages", "--text", PIPER, "--tokens", "bpe:8"]
    assert main([*asked, "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert found["word"][:8] == ["Pe", "t", "e", "r_", "P", "i", "pe", "r_"]
    assert [row["count"] for row in found["merges"]] == [4, 3, 2, 2, 2, 2, 2, 1]
    assert main([*asked, "--word", "pick a pepper"]) == 0
    assert "8 tokens: pick _ a _ pe p pe r_" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("words", "fault"),
    [
        (["--text", "aap"], "add --tokens bpe:8"),
        (["anbn", "--text", "aap", "--tokens", "bpe:1"], "leave one of them out"),
        (["--text", "aap", "--tokens", "words"], "choose bpe:16"),
        (["--text", "aap", "--tokens", "bpe:1", "--word", "noot"], "unknown letter 'n'"),
        (["--text", " ", "--tokens", "bpe:1"], "no letters"),
        (["--tokens", "bpe:1"], "write its name first, or give a --text"),
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
