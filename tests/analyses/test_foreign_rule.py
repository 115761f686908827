"""The rule behind networks that the lab did not make: found where it is known, and its control."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pandas as pd
import pytest
from foreign_networks import CONTEXT, made, saved

from analyses.command_line.app import main
from analyses.options.lines import OfNetwork
from analyses.questions.rule_evidence import rebuilt
from analyses.rules.of_network import by_length, rule_of_network
from models.languages import RegularLanguage

QUICK = ("--words", "200", "--queries", "1500", "--length", "8")


def cut(n: int, count: int) -> list[int]:
    """So many numbers, evenly from 0 to n."""
    return [each * (n + 1) // count for each in range(count)]


LANGUAGES = {
    "gpt2": ("(ab)*", ["ab" * n for n in range(11)]),
    "llama": ("a*b*", ["a" * a + "b" * (n - a) for n in range(17) for a in cut(n, 17)]),
}
"""Each a regular expression, and words to teach it by. Of every length there are as many, so that
the end is likely enough everywhere."""


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A network that was taught (ab)*, and one with random weights."""
    folder = tmp_path_factory.mktemp("foreign")
    saved(made("gpt2", LANGUAGES["gpt2"][1]), folder / "gpt2")
    saved(made("gpt2"), folder / "random")
    return folder


@pytest.fixture
def undrawn(monkeypatch: pytest.MonkeyPatch) -> None:
    """Pictures take seconds."""
    monkeypatch.setattr("analyses.answers.render", lambda figure, suffix: b"")


def asked(model: Path, out: Path, **more: Any) -> dict[str, Any]:
    """The findings, with bounds that make them quick."""
    options = OfNetwork(model=model, out=out, **{"words": 40, "queries": 200, "length": 6} | more)
    return dict(rule_of_network(options)[0].findings)


def is_exactly(found: dict[str, Any], regex: str) -> bool:
    return rebuilt(found["dfa"], "ab") == RegularLanguage.from_regex("truth", regex, "ab").dfa


def test_the_automaton_is_the_language_s(
    folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    words = ["rule", "--model", str(folder / "gpt2"), "--out", str(tmp_path), *QUICK]
    assert main([*words, "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert is_exactly(found, "(ab)*")
    assert (found["regex"], found["n_states"], found["status"]) == ("(ab)*", 3, "rule")
    assert found["empty"]
    rows = by_length(found)
    assert rows["length"].max() == 16
    assert (rows["agree"] == 1).all()
    assert (rows["low"] < 1).all()
    for side, lengths in (("within", rows["length"] <= 8), ("beyond", rows["length"] > 8)):
        assert found[side]["words"] == rows["words"][lengths].sum()
        assert found[side]["accepted"] == rows["accepted"][lengths].sum()
    # The control accepts every word, so it agrees exactly where the network accepts one.
    assert found["random"]["status"] == "constant"
    assert (rows["random weights"] * rows["words"] - rows["accepted"]).abs().max() < 1e-9

    assert main(words) == 0  # the answer is kept
    said = capsys.readouterr().out
    assert "accepts a word if it is a b, any number of times" in said
    assert "(kept from before; --again answers afresh)" in said
    assert "The same network with random weights: accepts every word." in said
    assert main([*words, "--csv"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[0] == "model,state,symbol,target,accepting"
    assert len(lines) == 1 + 3 * 2 + 1 * 2
    (kept,) = (tmp_path / "foreign-gpt2" / "results").glob("foreign-rule-*")
    assert len(pd.read_parquet(kept / "foreign-rule.parquet")) == len(lines) - 1
    assert (kept / "foreign-rule.html").exists()


@pytest.mark.usefixtures("undrawn")
def test_new_weights_or_options_are_asked_anew(folder: Path, tmp_path: Path) -> None:
    found = [
        asked(folder / network, tmp_path, name="x", least=least)["headline"]
        for network, least in (("random", 0.01), ("random", 0.5), ("gpt2", 0.01))
    ]
    for headline, which in zip(found, ("every", "no"), strict=False):
        assert headline == f"The network accepts {which} word that it was asked."
    assert "is a b, any number of times" in found[2]
    assert len(list((tmp_path / "foreign-x" / "results").iterdir())) == 3


@pytest.mark.usefixtures("undrawn")
def test_what_was_asked_before_judges_nothing(folder: Path, tmp_path: Path) -> None:
    """With one symbol there is one word of each length, and learning asks the short ones."""
    found = asked(folder / "random", tmp_path, symbols=("a",))
    assert found["within"] is None
    assert found["beyond"]["words"] == len(found["tested"]) <= 6
    found = asked(folder / "random", tmp_path, symbols=("a",), length=CONTEXT - 1)
    assert found["beyond"] is None
    assert found["room"] == CONTEXT - 1


@pytest.mark.torture
@pytest.mark.usefixtures("undrawn")
@pytest.mark.parametrize("kind", LANGUAGES)
def test_the_automaton_of_each_kind_is_the_language_s(kind: str, tmp_path: Path) -> None:
    regex, words = LANGUAGES[kind]
    saved(made(kind, words, steps=300), tmp_path / kind)
    answer, _ = rule_of_network(OfNetwork(model=tmp_path / kind, out=tmp_path))
    assert is_exactly(dict(answer.findings), regex)
    assert answer.findings["within"]["agree"] == 1
    assert answer.findings["beyond"]["agree"] > 0.9


@pytest.mark.parametrize("words", [["rule", "--model"], ["rule", "lines.tsv", "--model", "x"]])
def test_lines_and_a_network_are_two_things(
    words: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(words) == 2
    assert "see `lab rule --model DIR --help`" in capsys.readouterr().err


def test_a_network_in_the_place_of_lines(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["rule", str(folder / "gpt2")]) == 2
    assert capsys.readouterr().err.endswith(f"write `lab rule --model {folder / 'gpt2'}`\n")
