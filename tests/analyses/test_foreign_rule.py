"""The rule behind networks that the lab did not make: found where it is known, and its control."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
import torch
from automata.fa.dfa import DFA
from foreign_networks import CONTEXT, made, saved
from hooked_networks import NAMES, config_of, weights_of
from hooked_networks import saved as hooked_saved

from analyses.command_line.app import main
from analyses.options.lines import OfNetwork
from analyses.questions.rule.rule_evidence import _as_data, rebuilt
from analyses.rules import of_network
from analyses.rules.of_network import by_length, rule_of_network
from interp.automata.extraction import canonical
from models.languages import RegularLanguage, Word

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
    monkeypatch.setattr("analyses.rendering.render", lambda figure, suffix: b"")


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
def test_the_automaton_of_a_hooked_transformer_is_the_language_s(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Its weights are written by hand: what may follow hangs on the last token alone, in (ab)*."""
    config = config_of("attention only") | {"d_model": 16}
    weights = {name: torch.zeros_like(weight) for name, weight in weights_of(config).items()}
    weights["embed.W_E"] = torch.eye(4, 16)
    weights["unembed.b_U"] -= 5
    for token, following in ((0, (1, 2)), (2, (3,)), (3, (1, 2))):  # <bos> <eos> a b
        weights["unembed.W_U"][token, following] = 10
    folder = hooked_saved(config, weights, tmp_path / "hooked", "model.safetensors")
    words = ["rule", "--model", str(folder), "--out", str(tmp_path), "--vocabulary", NAMES]
    assert main([*words, "--words", "40", "--queries", "200", "--length", "6", "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert (found["regex"], found["status"], found["reads"]) == ("(ab)*", "rule", "sets")
    assert found["room"] == 12
    assert found["random"]["regex"] != "(ab)*"


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


# -- networks that are functions: what they do is known on words of any length --------------------


@dataclass(frozen=True)
class Function:
    """A network whose verdicts are a function; it has what is asked of ``Foreign``."""

    accepts: Callable[[str], bool]
    makes: Callable[[np.random.Generator, int], str]
    symbols: tuple[str, ...] = ("a", "b", "c")
    begin: tuple[str, int] = ("<s>", 0)
    end: tuple[str, int] = ("</s>", 1)
    room: int = 200
    reads: str = "softmax"
    trial: dict[str, float] | None = None
    digest: str = ""

    def __call__(self, words: Sequence[Word]) -> np.ndarray:
        return np.array([self.accepts("".join(word)) for word in words], dtype=bool)

    def drawn(self, count: int, longest: int, seed: int) -> list[Word]:
        rng = np.random.default_rng(seed)
        return [tuple(self.makes(rng, longest)) for _ in range(count)]

    def untaught(self, seed: int) -> Function:
        return replace(self, accepts=lambda word: False)


def of_function(network: Function, out: Path, patch: pytest.MonkeyPatch, **more: Any) -> Any:
    patch.setattr(of_network, "read", lambda *_: network)
    return asked(out / "net", out, **more)


@pytest.mark.usefixtures("undrawn")
@pytest.mark.parametrize("late", [False, True])
def test_a_count_that_fails_late_is_told(
    late: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """a^n b^n c^n, with words of up to 48 symbols. Late, a^50 b^50 c^51 is accepted too."""

    def made(n: int, more: int = 0) -> str:
        return "a" * n + "b" * n + "c" * (n + more)

    def accepts(word: str) -> bool:
        n = word.count("a")
        return n > 0 and (word == made(n) or (late and n >= 50 and word == made(n, 1)))

    def makes(rng: np.random.Generator, longest: int) -> str:
        return made(int(rng.integers(1, longest // 3 + 1)))

    network = Function(accepts, makes, room=160)
    found = of_function(network, tmp_path, monkeypatch, length=48, words=80, queries=400)
    assert found["status"] == "counts"
    assert found["headline"].startswith("The network accepts a word if it is a^n b^n c^n: ")
    assert (found["reach"], found["looked"]) == (96 if late else 160, 160)
    assert all(row["agree"] == 1 for row in found["near_misses"] if row["length"] <= 96)
    last, row = found["headline"], found["near_misses"][-1]
    if late:
        assert last.endswith(
            " This holds for words of up to 96 symbols, and not for all longer ones."
        )
        assert (
            f"accepts 4 of {row['words']} words one edit away, such as a^50 " in found["evidence"]
        )
        assert {word.count("c") - word.count("a") for word in row["examples"]} == {1}
    else:
        assert last.endswith(" Tested on words of up to 160 symbols.")
        assert "words one edit away, of up to 160 symbols. The network agrees" in found["evidence"]


@pytest.mark.usefixtures("undrawn")
@pytest.mark.parametrize("side", ["accepted", "rejected"])
def test_a_rule_that_misses_one_side_is_not_told(
    side: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The network accepts words without bb. An automaton that rejects all is right on most words,
    and one that accepts all is right on every accepted one: neither is the rule."""
    learned = of_network.learned

    def one_sided(*given: Any, **more: Any) -> tuple[dict[str, Any], DFA]:
        about, _ = learned(*given, **more)
        dfa = constant(side == "rejected")
        return about | {
            "status": "rule",
            "doubt": None,
            "n_states": 1,
            "dfa": _as_data(dfa, "ab"),
        }, dfa

    def constant(every: bool) -> DFA:
        made = DFA.universal_language if every else DFA.empty_language
        return canonical(made({"a", "b"}), "ab")

    def makes(rng: np.random.Generator, longest: int) -> str:
        return "ab" * int(rng.integers(1, longest // 2 + 1))

    network = Function(lambda word: "bb" not in word, makes, ("a", "b"))
    good = of_function(network, tmp_path, monkeypatch, length=8)
    assert good["status"] == "rule"
    assert good["sides"]["accepted"]["agree"] == good["sides"]["rejected"]["agree"] == 1

    monkeypatch.setattr(of_network, "learned", one_sided)
    found = of_function(replace(network, digest="1"), tmp_path, monkeypatch, length=8)
    assert (found["status"], found["doubt"]) == ("none", "one side")
    assert found["headline"] == "No reliable rule was found in the network."
    missed, right = (
        found["sides"][side],
        found["sides"][{"accepted": "rejected"}.get(side, "accepted")],
    )
    assert (missed["agree"], right["agree"]) == (0, 1)
    verb = {"accepted": "accepts", "rejected": "rejects"}[side]
    assert f"of the {missed['words']} that the network {verb}" in found["evidence"]
    accepted = [row["apart"]["accepted"] for row in found["tested"]]
    assert sum(part["words"] for part in accepted if part) == (
        found["within"]["accepted"] + found["beyond"]["accepted"]
    )


@pytest.mark.parametrize("words", [["rule", "--model"], ["rule", "lines.tsv", "--model", "x"]])
def test_lines_and_a_network_are_two_things(
    words: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(words) == 2
    assert "see `lab rule --model DIR --help`" in capsys.readouterr().err


def test_a_network_in_the_place_of_lines(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["rule", str(folder / "gpt2")]) == 2
    assert capsys.readouterr().err.endswith(f"write `lab rule --model {folder / 'gpt2'}`\n")
