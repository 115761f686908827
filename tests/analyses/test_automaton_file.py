"""`lab rule FILE.att`: an automaton is read, or its mistake is told, and its classes are said."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from brute import words_up_to

from analyses.command_line.app import main
from analyses.questions.rule.rule_evidence import rebuilt
from analyses.rules.automaton_file import read_automaton
from models.errors import UserError

SORTED = (
    "0\t0\taap\taap\n0\t0\tkat\tkat\n0\t1\tmuis\tmuis\n1\t1\tmuis\tmuis\n1\t1\taap\taap\n0\n1\n"
)
"""Every kat before every muis; aap anywhere."""


def written(folder: Path, text: str, name: str = "rule.att") -> Path:
    path = folder / name
    path.write_text(text, encoding="utf-8")
    return path


@pytest.mark.parametrize("name", ["rule.att", "rule.txt"])
def test_classes_and_words_of_a_file(
    name: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = written(tmp_path, SORTED, name)
    assert main(["rule", str(path)]) == 0
    headline, *rest = capsys.readouterr().out.splitlines()
    assert headline == "A word is accepted if it has every kat before every muis."
    assert rest[0] == "Its class: strictly piecewise, up to 2 symbols in order."
    assert "with windows of 2, aap left out" in rest[1]
    assert rest[-1] == "The minimal complete automaton has 3 states."
    assert main(["rule", str(path), "--json"]) == 0
    answer = json.loads(capsys.readouterr().out)
    assert (answer["class"], answer["window"], answer["tier"]) == ("SP", 2, None)
    assert [member["class"] for member in answer["classes"]][:3] == ["SP", "TSL", "PT"]
    assert answer["words"] == "has every kat before every muis"
    symbols = ["aap", "kat", "muis"]
    dfa = rebuilt(answer["dfa"], symbols)
    for word in words_up_to(symbols, 4):
        seen = [symbol for symbol in word if symbol != "aap"]
        assert dfa.accepts_input(word) == (seen == sorted(seen))


@pytest.mark.parametrize(
    ("text", "fault"),
    [
        ("", "has no arrow"),
        ("0\n", "has no arrow"),
        ("0\t1\ta\ta\n0\t0\ta\ta\n", "line 2: a second arrow leaves 0 with a"),
        ("0\t1\ta\tb\n", "turns a into b"),
        ("0\t1\t@0@\t@0@\n", "line 1 reads nothing"),
        ("0\t1\ta\ta\nx\n", "line 2: no arrow and no accepting state"),
        ("0\t1\ta\ta\t0.5\n", "line 1: no arrow and no accepting state"),
        ("0\t1\ta b\ta b\n", "line 1: no arrow and no accepting state"),
        ("0\t-1\ta\ta\n", "line 1: no arrow and no accepting state"),
        ("".join(f"{q}\t{q + 1}\ta\ta\n" for q in range(600)), "601 states and 1 symbols"),
        ("".join(f"0\t0\ts{i}\ts{i}\n" for i in range(300)), "1 states and 300 symbols"),
    ],
)
def test_a_mistake_is_one_line(text: str, fault: str, tmp_path: Path) -> None:
    with pytest.raises(UserError, match=fault) as error:
        read_automaton(written(tmp_path, text))
    assert "\n" not in str(error.value)


def test_a_file_that_is_missing_or_no_text(tmp_path: Path) -> None:
    with pytest.raises(UserError, match="cannot read"):
        read_automaton(tmp_path / "none.att")
    (tmp_path / "bytes.att").write_bytes(b"\xff\xfe")
    with pytest.raises(UserError, match="not UTF-8"):
        read_automaton(tmp_path / "bytes.att")


def test_what_has_no_arrow_is_rejected(tmp_path: Path) -> None:
    dfa, symbols = read_automaton(written(tmp_path, "0\t1\tb\tb\r\n1\t0\ta\ta\r\n\r\n1\r\n"))
    assert symbols == ["a", "b"]
    accepted = {word for word in words_up_to("ab", 5) if dfa.accepts_input(word)}
    assert accepted == {("b",), tuple("bab"), tuple("babab")}
