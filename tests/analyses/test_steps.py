"""A written step is turned around: what then follows, by hand and by the command."""

from __future__ import annotations

import json
from itertools import product
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import torch
from conftest import tiny_config, tiny_of
from torch import Tensor

from analyses.answers import Answer, answer
from analyses.claims import told
from analyses.command_line.app import main
from analyses.options.behaviour import Steps
from analyses.questions.behaviour import steps as edited
from analyses.questions.behaviour.steps import WAYS
from interp.statistics import wilson
from models.base import LanguageModel
from models.errors import UserError
from models.languages import language
from models.languages.pairs.steps import ParitySteps
from models.runs.run import Run
from models.training.loop import train


def steps() -> ParitySteps:
    found = language("parity-steps")
    assert isinstance(found, ParitySteps)
    return found


@pytest.fixture
def run(tmp_path: Path) -> Run:
    config = tiny_config(model=tiny_of("encoder-decoder"), language="parity-steps", max_n=6)
    made = Run.create(tmp_path / "run", config)
    train(made, "cpu")
    return made


@pytest.mark.parametrize("source", ["".join(w) for n in (1, 3, 4) for w in product("ab", repeat=n)])
def test_the_steps_are_the_parities_of_all_beginnings(source: str) -> None:
    known, word = steps(), tuple(source)
    parity = [str(source[: end + 1].count("b") % 2) for end in range(len(source))]
    said = "odd" if source.count("b") % 2 else "even"
    assert known.target(word) == (*parity, said)
    answers = language("parity-answer")
    assert answers.contains((*word, ">", said))
    assert not answers.contains((*word, ">", "odd" if said == "even" else "even"))
    assert len(known.pair(word)) == known.length_of(len(word))
    assert known.size_of(len(known.pair(word))) == len(word)


def test_an_edit_turns_around_all_that_comes_of_it() -> None:
    written, after = steps().edited(tuple("abba"), 1)
    assert steps().target(tuple("abba")) == ("0", "1", "0", "0", "even")
    assert written == ("0", "0")
    assert after == ("1", "1", "odd")


@pytest.mark.parametrize("believes", [True, False])
def test_a_model_that_believes_and_one_that_reads_the_source(
    believes: bool, run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Models made by hand: what they write next, from the written step or from the source."""
    known = steps()
    trained = run.model().state_dict()["embed.weight"]

    def greedy(model: LanguageModel, objective: object, tokens: Tensor, places: int) -> np.ndarray:
        word = known.vocabulary.decode(tokens[0, 1:])
        source, begun = known.split(word)
        right = known.target(source)
        rest = right[len(begun) :]
        if believes and begun[-1] != right[len(begun) - 1]:
            rest = known.edited(source, len(begun) - 1)[1]
        if not torch.equal(model.state_dict()["embed.weight"], trained):
            rest = ("a",) * len(rest)
        return known.vocabulary.words([(*rest, *rest)[:places]]).ids

    monkeypatch.setattr(edited, "greedy", greedy)
    rows = edited._edited(run, Steps(count=20)).set_index(["model", "steps", "way"])["share"]
    follows, answers, stays = (rows["trained", "edited", way] for way in edited.WAYS)
    assert (follows, answers, stays) == ((1.0, 1.0, 0.0) if believes else (0.0, 0.0, 1.0))
    assert rows["trained", "as it is", edited.WAYS[2]] == 1.0
    assert rows["trained", "as it is", edited.WAYS[1]] == 0.0
    assert [rows["untrained", "edited", way] for way in edited.WAYS] == [0.0] * 3


NO = "no better than its controls"


@pytest.mark.parametrize(
    ("by_edit", "by_source", "anyway", "constant", "untrained", "follows", "grade"),
    [
        (0.9, 0.1, 0.1, 0.5, 0.0, "edit", "holds"),
        (0.1, 0.9, 0.1, 0.5, 0.0, "source", "holds"),
        (0.6, 0.4, 0.1, 0.6, 0.0, "edit", NO),  # as often as who always says the same
        (0.9, 0.1, 0.9, 0.5, 0.0, "edit", NO),  # as often where nothing was edited
        (0.1, 0.9, 0.1, 0.5, 0.9, "source", NO),
    ],
)
def test_the_answer_that_is_told_is_held_against_its_controls(
    by_edit: float, by_source: float, anyway: float, constant: float, untrained: float,
    follows: str, grade: str,
) -> None:  # fmt: skip
    shares = {
        ("trained", "edited"): (0.5, by_edit, by_source),
        ("trained", "as it is"): (0.1, anyway, 1.0),
        ("untrained", "edited"): (0.0, untrained, untrained),
        ("untrained", "as it is"): (0.0, 0.0, 0.0),
    }
    rows = [(*of, *pair) for of, each in shares.items() for pair in zip(WAYS, each, strict=True)]
    table = pd.DataFrame(rows, columns=["model", "steps", "way", "share"])
    table[["low", "high"]] = [wilson(round(100 * share), 100) for share in table["share"]]
    main, second = edited.QUESTION.claims(Answer(table.assign(commonest=constant, pairs=100)))
    assert f"the answer follows the {follows} in" in main.short
    assert (main.grade, second.grade) == (grade, NO)
    assert main.controls.get("with no step edited") == (anyway if follows == "edit" else None)
    assert "Where no step is edited, 100% of the answers are right." in main.notes


def test_the_commonest_answer_is_counted(run: Run) -> None:
    table = edited._edited(run, Steps(count=40)).set_index(["model", "steps", "way"])["commonest"]
    known, chance = steps(), np.random.default_rng([edited.ANALYSIS_SEED, 0, 1])
    lengths = [known.length_of(n) for n in range(3, 7)]
    rng = np.random.default_rng([edited.ANALYSIS_SEED, 0])
    drawn, wanted = known.sample(rng, 40, lengths, True, "test").words, []
    for ids, length in zip(drawn.ids, drawn.lengths, strict=True):
        source, target = known.split(known.vocabulary.decode(ids[:length]))
        after = known.edited(source, int(chance.integers(len(source) - 1)))[1]
        wanted.append((after[0], after[-1], target[-1]))
    for way, tokens in zip(WAYS, zip(*wanted, strict=True), strict=True):
        most = max(map(tokens.count, set(tokens))) / 40
        assert table["trained", "edited", way] == table["untrained", "edited", way] == most


def test_the_steps_command(run: Run, capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    assert main(["analyse", str(run.path), "steps", "--count", "6", "--json"]) == 0
    said = json.loads(capsys.readouterr().out)
    expected = edited._edited(run, Steps(count=6))
    assert pd.DataFrame(said["table"])["share"].tolist() == pytest.approx(
        expected["share"].tolist()
    )
    assert edited.QUESTION.chart(Answer(expected)).to_dict()
    assert said["sentence"] == told(edited.QUESTION.claims(Answer(expected)), None)
    compared = edited.QUESTION.headline(Answer(expected)).set_index(["variable", "of"])["value"]
    assert len(compared) == len(expected)
    for row in expected.itertuples():
        assert compared[f"{row.way}, {row.steps}", row.model] == row.share
    other = Run.create(tmp_path / "other", tiny_config())
    with pytest.raises(UserError, match="anbn writes no steps"):
        answer(other, "steps")
