"""What a question plans to compare is tested over seeds: paired, corrected together, and said."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from analyses.answer_files import Kept, Record
from analyses.answers import Planned, question
from analyses.studies import planned
from analyses.studies.planned import compared, for_reading
from interp.comparisons import corrected, paired, pairs_needed
from models.languages import language

SEEDS = 12
VALUES = np.random.default_rng(0).random((SEEDS, 2, 3))
"""Of trained and untrained networks, for each of three variables."""
VARIABLES, MODELS = ("state", "accepting", "valid"), ("trained", "untrained")


def answers(values: np.ndarray, turned: bool = False) -> list[Kept]:
    """A kept answer per seed, with its numbers."""
    about: dict[str, Any] = dict.fromkeys(("question", "sentence", "model_hash", "code"), "")
    about |= {"analysis": "probing", "findings": {}, "arguments": {}, "asked_at": ""}
    rows = [
        [
            (*((model, name) if turned else (name, model)), value)
            for model, row in zip(MODELS, one, strict=True)
            for name, value in zip(VARIABLES, row, strict=True)
            if not np.isnan(value)
        ]
        for one in values
    ]
    return [Kept(Path(), Record(numbers=tuple(numbers), **about)) for numbers in rows]


def asks(patch: pytest.MonkeyPatch, *compared: Planned) -> None:
    """A question with these plans."""
    stub = replace(question("probing"), planned=compared)
    patch.setattr(planned, "question", lambda name: stub)


def gaps(values: np.ndarray = VALUES) -> list[float]:
    return (values[:, 0] - values[:, 1]).mean(axis=0).tolist()


@pytest.mark.parametrize("turned", [False, True])
def test_every_variable_is_paired_by_seed_and_all_are_corrected_together(
    monkeypatch: pytest.MonkeyPatch, turned: bool
) -> None:
    asks(monkeypatch, Planned(*MODELS, by="variable" if turned else "of"))
    found = compared(answers(VALUES, turned))
    assert found["of"].tolist() == list(VARIABLES)
    assert found["difference"].tolist() == pytest.approx(gaps())
    one = paired(VALUES[:, 0, 1], VALUES[:, 1, 1])
    assert found.loc[1, ["low", "high", "p"]].tolist() == pytest.approx([one.low, one.high, one.p])
    assert found["corrected"].tolist() == pytest.approx(corrected(found["p"].to_numpy()).tolist())


def test_only_what_is_planned_and_in_its_direction(monkeypatch: pytest.MonkeyPatch) -> None:
    asks(monkeypatch, Planned(*MODELS[::-1], alone="valid"), Planned("trained", "random"))
    found = compared(answers(VALUES))
    assert found[["of", "first", "second"]].to_numpy().tolist() == [["valid", *MODELS[::-1]]]
    assert found.loc[0, "difference"] == pytest.approx(-gaps()[2])
    assert found.loc[0, "corrected"] == found.loc[0, "p"]


def test_a_seed_without_one_of_the_numbers_is_left_out_of_that_pair_alone(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    asks(monkeypatch, Planned(*MODELS))
    values = VALUES.copy()
    values[3, 1, 0] = values[:, 0, 2] = np.nan
    found = compared(answers(values)).set_index("of")
    assert found["pairs"].to_dict() == {"state": SEEDS - 1, "accepting": SEEDS}
    kept = np.delete(values, 3, axis=0)
    assert found.loc["state", "difference"] == pytest.approx(gaps(kept)[0])


def test_people_read_the_difference_and_how_it_was_tested(monkeypatch: pytest.MonkeyPatch) -> None:
    asks(monkeypatch, Planned(*MODELS))
    values = VALUES.copy()
    values[:, 0] += 1
    shown, how = for_reading(compared(answers(values)))
    assert shown.loc[0, "first less second [95%]"].startswith(f"{gaps(values)[0]:+.2f} [")
    assert "sign-flip test, Holm's correction for the 3 comparisons" in how
    assert "cannot show" not in how
    few = pairs_needed(3) - 1
    assert (
        how + f" {few} seeds cannot show anything: it takes {few + 1}."
        == (for_reading(compared(answers(values[:few])))[1])
    )


def test_ten_seeds_can_pass_what_is_planned_of_interventions() -> None:
    """anbncn has seven variables that are erased; one of them is moved and exchanged."""
    plans = question("interventions").planned
    erased = [plan for plan in plans if plan.first == "words right, erased"]
    elsewhere = [plan for plan in plans if "prefix exchanged" in plan.first]  # of categories alone
    counts = len(language("anbncn").variables) - 1  # "valid" is not erased
    tests = len(erased) * counts + len(plans) - len(erased) - len(elsewhere)
    assert tests == 25
    assert pairs_needed(tests) == 10
