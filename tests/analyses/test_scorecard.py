"""An answer is believed as far as its controls let it: each grade from numbers made by hand."""

from __future__ import annotations

import pandas as pd
import pytest
from conftest import without_pictures

from analyses.answers import Answer, answer
from analyses.options.behaviour import Accuracy
from analyses.scorecard import scorecard, verdict
from models.runs.run import Run

FEW = Accuracy(count=20)
HOLDS, FRAGILE, NO = "holds", "fragile", "no better than its controls"


def probing(low: float | None, other: float, longer: float = 0.9) -> Answer:
    best = {
        "site": "L0 mlp_out",
        "metric": "R2",
        "score": 0.95,
        "low": low,
        "high": 0.99,
        "n_test": 40,
        "longer": longer,
        "controls": {"untrained": other, "control task": 0.1},
    }
    return Answer(pd.DataFrame(), "", {"main": "a-b", "best": {"a-b": best}})


def interventions(high: float, random: float, readout: float) -> Answer:
    gone = {"site": "L0 mlp_out", "none": 1.0, "LEACE": 0.4, "low": 0.3, "high": high, "words": 30}
    gone |= {"random directions": random, "random readout": readout}
    return Answer(pd.DataFrame(), "", {"main": "a-b", "erasure": {"a-b": gone}})


@pytest.mark.parametrize(
    ("name", "asked", "grade", "said"),
    [
        ("probing", probing(0.9, 0.5), HOLDS, "reads a-b at L0 mlp_out"),
        ("probing", probing(0.9, 0.5, longer=0.4), FRAGILE, "(R2 0.95)"),
        ("probing", probing(0.9, 0.92), NO, "(R2 0.95)"),
        ("probing", probing(None, 0.5), "not weighed", "(R2 0.95)"),
        ("interventions", interventions(0.5, 0.9, 0.8), HOLDS, "40% of the words stay right"),
        ("interventions", interventions(0.5, 0.9, 0.4), FRAGILE, "of 100%"),
        ("interventions", interventions(0.5, 0.45, 0.4), NO, "a-b erased at L0 mlp_out"),
    ],
)
def test_a_grade_is_held_against_the_controls(
    name: str, asked: Answer, grade: str, said: str
) -> None:
    found = verdict(name, asked)
    assert (found.grade, said in found.short) == (grade, True), found


def test_why_names_number_unit_and_control() -> None:
    assert "on 40 held-out prefixes (bootstrap over words); the best control, untrained, 0.500" in (
        verdict("probing", probing(0.9, 0.5)).why
    )


def test_what_is_not_weighed_is_said_to_be() -> None:
    found = verdict("other", Answer(pd.DataFrame(), "L0.5 is first. And more. Much more."))
    assert (found.short, found.grade) == ("L0.5 is first.", "not weighed")


def test_a_run_has_a_card_of_what_is_about_its_last_checkpoint(trained: Run) -> None:
    with without_pictures():
        answer(trained, "patching")
        answer(Run(trained.path, trained.steps()[0]), "accuracy", FEW)
    card = scorecard(trained)
    assert card["question"].tolist() == ["patching"]
    assert card.columns.tolist() == ["question", "finding", "grade", "why"]
    with without_pictures():
        answer(trained, "accuracy", FEW)
    assert scorecard(trained)["grade"].iloc[0] != "not weighed"
