"""An answer is believed as far as its controls let it: each grade from numbers made by hand."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

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


def emergence(first: float, last: float) -> Answer:
    curves = {"a-b (L0 mlp_out)": {"there": 1, "first": first, "last": last}}
    return Answer(pd.DataFrame(), "", {"main": "a-b (L0 mlp_out)", "curves": curves})


def discovery(status: str = "rule", **changes: Any) -> Answer:
    found = {
        "status": status,
        "headline": "It is so.",
        "evidence": "Because.",
        "doubt": None,
        "envelope": {"inside": 1.0, "outside": 1.0},
        "agreement_truth": 0.99,
        "agreement_truth_interval": [0.97, 1.0],
        "held_out": 100,
        "majority": 0.5,
        "untrained": {"agreement_truth": 0.6},
        "finished": True,
        "sensitive": {"0.5": False},
    }
    return Answer(pd.DataFrame(), "", found | changes)


def interventions(high: float, random: float, readout: float) -> Answer:
    gone = {"site": "L0 mlp_out", "none": 1.0, "LEACE": 0.4, "low": 0.3, "high": high, "words": 30}
    gone |= {"random directions": random, "random readout": readout}
    return Answer(pd.DataFrame(), "", {"main": "a-b", "erasure": {"a-b": gone}})


def leaderboard(best: Sequence[float], random: Sequence[float]) -> Answer:
    values = {"LIME": best, "SHAP kernel": [0.1] * len(best), "random": random}
    rows = [
        (word, method, "probability", "members", value)
        for method, each in values.items()
        for word, value in enumerate(each)
    ]
    rows += [(9, "LIME", "probability", "non-members", 0.0)]
    columns = ["word", "method", "scale", "membership", "AUROC"]
    return Answer(pd.DataFrame(rows, columns=columns), "Few words.")


@pytest.mark.parametrize(
    ("name", "asked", "grade", "said"),
    [
        ("probing", probing(0.9, 0.5), HOLDS, "reads a-b at L0 mlp_out"),
        ("probing", probing(0.9, 0.5, longer=0.4), FRAGILE, "(R2 0.95)"),
        ("probing", probing(0.9, 0.92), NO, "(R2 0.95)"),
        ("probing", probing(None, 0.5), "not weighed", "(R2 0.95)"),
        ("discovery", discovery(), HOLDS, "It is so."),
        ("discovery", discovery(finished=False), FRAGILE, "It is so."),
        ("discovery", discovery(sensitive={"2": True}), FRAGILE, "It is so."),
        ("discovery", discovery(majority=0.98), NO, "It is so."),
        ("discovery", discovery(untrained={"agreement_truth": 0.98}), NO, "It is so."),
        ("discovery", discovery("counts"), HOLDS, "It is so."),
        ("discovery", discovery("counts", envelope={"inside": 1, "outside": 0.5}), FRAGILE, "It"),
        ("discovery", discovery("none", doubt="chance"), NO, "It is so."),
        ("discovery", discovery("none", doubt="too long"), "not weighed", "It is so."),
        ("interventions", interventions(0.5, 0.9, 0.8), HOLDS, "40% of the words stay right"),
        ("interventions", interventions(0.5, 0.9, 0.4), FRAGILE, "of 100%"),
        ("interventions", interventions(0.5, 0.45, 0.4), NO, "a-b erased at L0 mlp_out"),
        ("leaderboard", leaderboard([0.9] * 8, [0.5] * 8), HOLDS, "LIME ranks"),
        ("leaderboard", leaderboard([0.9, 0.5] * 4, [0.5] * 8), NO, "(AUROC 0.50)"),
        ("leaderboard", leaderboard([0.9] * 4, [0.5] * 4), "not weighed", "Too few words"),
        ("emergence", emergence(0.3, 0.9), "not weighed", "grew from 0.30 to 0.90"),
        ("emergence", emergence(0.9, 0.9), NO, "Training added nothing"),
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


def test_of_one_word_the_methods_that_find_the_symbols_are_counted() -> None:
    def said(*auroc: float | None) -> str:
        methods = [("LIME", "a"), ("attention", "b"), ("attention", "b"), ("random", "control")]
        names, families = zip(*methods, strict=True)
        rows = pd.DataFrame({"method": names, "family": families, "AUROC": auroc})
        sentence = "One word. Which positions decide is not known, so what. More."
        found = {"agreement": rows.astype(object).to_dict("records"), "word": ["a", "b"]}
        return verdict("explanations", Answer(pd.DataFrame(), sentence, found)).short

    assert said(0.9, 0.5, 1.0, 0.4) == (
        "On the word a b, 1 of 2 methods put the symbols that decide above all others (AUROC 1); "
        "random values have 0.40."
    )
    assert "0 of 2 methods" in said(0.9, 0.5, 0.2, 1.0)
    assert said(None, None, None, None) == "Which positions decide is not known, so what."


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
