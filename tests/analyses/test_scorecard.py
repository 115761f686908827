"""The card of a run: what its kept answers say, each with its grade."""

from __future__ import annotations

from conftest import without_pictures

from analyses.answers import answer, scorecard
from analyses.options.behaviour import Accuracy
from models.runs.run import Run

FEW = Accuracy(count=20)


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
