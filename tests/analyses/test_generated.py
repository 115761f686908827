"""What a model makes by itself is judged by the language, beside controls."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from conftest import tiny_config

from analyses.command_line.app import main
from analyses.questions.behaviour.generated import (
    CONTROLS,
    DRAWN,
    _evenly,
    after,
    chart,
    claims,
    decoders,
    generator,
    judged,
)
from analyses.questions.behaviour.perplexity import MOST_LENGTHS, asked_of, said_of, sums
from interp.statistics import wilson
from models.decoding.choice import Choice
from models.decoding.search import Generator, Made
from models.errors import UserError
from models.languages import END, FormalLanguage, language
from models.runs.run import Run
from models.training.loop import train
from models.training.recipes import recipe


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Run:
    """A network that knows a part of the brackets, and makes mistakes."""
    config = replace(recipe("dyck1-unbounded"), steps=60, max_n=8)
    made = Run.create(tmp_path_factory.mktemp("generated") / "run", config)
    train(made, "cpu")
    return made


@pytest.fixture(scope="module")
def table(run: Run) -> pd.DataFrame:
    return decoders(run, count=60)


def test_each_row_is_the_decoder_called_by_hand(run: Run, table: pd.DataFrame) -> None:
    rows = table.set_index("decoder")
    maker = Generator(run.model(), run.objective, 8)
    untrained = Generator(run.untrained(), run.objective, 8)
    known = run.language
    assert isinstance(known, FormalLanguage)
    by_hand = {name: maker.sample(60, choice).words for name, choice in DRAWN.items()}
    by_hand |= {"untrained model": untrained.sample(60).words}
    by_hand |= {
        name: _evenly(known, 60, 8, only_allowed=name == "allowed symbols") for name in CONTROLS[1:]
    }
    for width, by_length in ((1, False), (4, False), (4, True), (16, False), (16, True)):
        name = f"beam of {width}" + ", by length" * by_length if width > 1 else "greedy"
        by_hand[name] = maker.beam(width, by_length).words[:1]
    assert set(rows.index) == set(by_hand)
    for name, made in by_hand.items():
        right = [each.word for each in made if each.ended and known.contains(each.word)]
        row = rows.loc[name]
        assert row["grammatical"] == pytest.approx(len(right) / len(made)), name
        assert (row["different"], row["words"]) == (len(set(right)), len(made))
        assert row["lengths"] == len({len(word) for word in right})
        assert row["longest"] == max(map(len, right), default=0)
        assert row["ended"] == pytest.approx(np.mean([each.ended for each in made]))
        asked = asked_of(run, "length", 60 // MOST_LENGTHS, 0, 0)
        model = run.untrained() if name == "untrained model" else run.model()
        if name in DRAWN or name == "untrained model":
            said = said_of(model, run.objective, asked.words, DRAWN.get(name))
            total = sums(asked, said).sum(axis=0)
            assert row["kl"] == pytest.approx(total[1] / total[3])
        else:
            assert np.isnan(row["kl"])
        if len(made) > 1:
            assert (row["low"], row["high"]) == pytest.approx(wilson(len(right), len(made)))
    best = maker.exhaustive().words[0].log_probability
    greedy = maker.greedy().words[0]
    assert rows.loc["beam of 16", "behind"] == pytest.approx(0.0, abs=1e-6)
    if greedy.ended:
        assert rows.loc["greedy", "behind"] == pytest.approx(best - greedy.log_probability)


def test_the_controls_are_what_they_say(table: pd.DataFrame) -> None:
    rows = table.set_index("decoder")["grammatical"]
    assert rows["allowed symbols"] > rows["random symbols"]
    assert rows["sampling"] > rows["untrained model"]
    (claim,) = claims(table)
    assert (claim.value, claim.n) == (rows["sampling"], 60)
    assert claim.controls == {
        "the untrained network": rows["untrained model"],
        "random symbols": rows["random symbols"],
    }
    assert f"from those that the language allows, {rows['allowed symbols']:.1%}" in claim.sentence
    assert chart(table).to_dict()["layer"]


@pytest.mark.parametrize(
    ("control", "grade"), [(0.5, "holds"), (0.75, "no better than its controls")]
)
@pytest.mark.parametrize("name", CONTROLS[:2])
def test_drawn_words_are_held_against_random_ones(
    table: pd.DataFrame, name: str, control: float, grade: str
) -> None:
    shares = pd.Series(0.5, table.index).mask(table["decoder"] == name, control)
    shares = shares.mask(table["decoder"] == "sampling", 0.8)
    (claim,) = claims(table.assign(grammatical=shares, low=0.7, high=0.85))
    assert claim.grade == grade


def test_symbols_that_are_allowed_never_break_a_word() -> None:
    for name in ("anbn", "nested", "ww"):
        known = language(name)
        assert isinstance(known, FormalLanguage)
        for each in _evenly(known, 40, 9, seed=1, only_allowed=True):
            assert known.next_symbols(each.word)
            assert each.ended == (each.ended and known.contains(each.word))
            assert each.ended or len(each.word) == 9
    lengths = {len(each.word) for each in _evenly(known, 200, 9, seed=1, only_allowed=False)}
    assert len(lengths) > 5


def test_every_decoder_goes_on_from_a_prompt(run: Run) -> None:
    """Five open brackets need five that close; only what is allowed closes them."""
    prompt = ("(",) * 4
    shown = decoders(run, count=20, prompt=prompt).set_index("decoder")
    assert shown.loc["allowed symbols", "longest"] == 8
    known = run.language
    assert isinstance(known, FormalLanguage)
    made = _evenly(known, 20, 8, prompt=prompt, only_allowed=True)
    assert {each.word[:4] for each in made} == {prompt}
    hopeless = decoders(run, count=20, prompt=(")",))
    assert hopeless["grammatical"].max() == 0


def test_a_cut_word_is_judged_but_not_right(run: Run) -> None:
    shown = judged(run, [Made(("(", ")"), -1.0, True), Made(("(", ")"), -1.0, False)])
    assert shown["in_language"].tolist() == [True, True]
    assert shown["ended"].tolist() == [True, False]


def test_what_may_come_next_before_and_after(run: Run) -> None:
    shown = after(run, ("(", "("), Choice(top_k=1)).set_index("token")
    assert shown["before"].sum() == pytest.approx(1.0)
    assert sorted(shown["after"]) == [0.0, 0.0, 1.0]
    assert shown["allowed"].to_dict() == {END: False, "(": True, ")": True}
    same = after(run, ("(", "("), Choice())
    assert same["before"].tolist() == pytest.approx(same["after"].tolist())


def test_the_command(run: Run, capsys: pytest.CaptureFixture[str]) -> None:
    def rows(*words: str) -> list[dict[str, object]]:
        assert main(["generate", str(run.path), "--json", *words]) == 0
        found: list[dict[str, object]] = json.loads(capsys.readouterr().out)
        return found

    maker = generator(run)
    drawn = maker.sample(10, Choice(temperature=0.7, top_p=0.9), seed=4).words
    found = rows("--temperature", "0.7", "--top-p", "0.9", "--seed", "4")
    assert [row["word"] for row in found] == [" ".join(each.word) for each in drawn]
    best = [" ".join(each.word) for each in maker.exhaustive(3).words]
    assert [row["word"] for row in rows("--all-words", "--count", "3")] == best
    assert [row["word"] for row in rows("--beam", "300", "--count", "3")] == best
    assert all(str(row["word"]).startswith("( (") for row in rows("--prompt", "( ("))
    untrained = Generator(run.untrained(), run.objective, 8).sample(10).words
    assert [row["word"] for row in rows("--step", "0")] == [" ".join(e.word) for e in untrained]
    assert main(["generate", str(run.path), "--decoders", "--count", "20", "--json"]) == 0
    said = json.loads(capsys.readouterr().out)
    assert "of the words drawn symbol by symbol are in the language, on 20" in said["answer"]
    assert {row["decoder"] for row in said["decoders"]} >= {*DRAWN, *CONTROLS}
    assert main(["generate", str(run.path), "--beam", "4", "--all-words"]) == 2
    assert "leave one of them out" in capsys.readouterr().err


def test_what_was_taught_verdicts_generates_nothing(tmp_path: Path) -> None:
    made = Run.create(tmp_path / "run", tiny_config(objective="verdict", steps=1))
    train(made, "cpu")
    with pytest.raises(UserError, match="taught verdicts alone"):
        decoders(made)
