"""A finding is told as far as its controls let it; of a network that knows nothing, not at all."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import pandas as pd
import pytest
import torch
from conftest import tiny_config, tiny_of
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor

from analyses.answers import Answer, answer, fresh_answer, question
from analyses.claims import NOTHING_KNOWN, Claim, told, verdict
from analyses.knowledge import Knowledge, knowledge
from analyses.options.behaviour import Accuracy
from analyses.options.parts import Patching
from analyses.questions.behaviour import targets
from analyses.questions.inside import interventions
from analyses.questions.training import emergence, landscape
from analyses.questions.training.of_lines.drawn_lines import culprits_claim
from analyses.registry import BUILT_IN, registered
from models.base import LanguageModel
from models.languages import END_ID, Word
from models.objectives import objective
from models.runs.run import Run

KNOWS = Knowledge("verdicts", 1.0, 0.97, 1.0, 0.5, 100)
CLAIM = Claim("Probes read it with {}", 0.9, 0.8, 0.95, 40, "words", "bootstrap", {"none": 0.5})


@pytest.mark.parametrize(
    ("changes", "grade"),
    [
        ({}, "holds"),
        ({"doubts": ("Not on longer words.",)}, "fragile"),
        ({"low": 0.5}, "no better than its controls"),
        ({"controls": {"none": 0.5, "shuffled": 0.85}}, "no better than its controls"),
        ({"less": True}, "no better than its controls"),
        ({"less": True, "controls": {"untrained": 0.99, "random": 0.96}}, "holds"),
        ({"less": True, "controls": {"untrained": 0.99, "random": 0.9}},
         "no better than its controls"),
        ({"low": None, "high": None}, "not weighed"),
        ({"low": None, "high": None, "controls": {"untrained": 0.9}},
         "no better than its controls"),
        ({"low": np.nan, "high": np.nan}, "not weighed"),
        ({"controls": {}}, "not weighed"),
        ({"controls": {"none": np.nan}}, "not weighed"),
        ({"unweighed": "It cannot be."}, "not weighed"),
    ],
)  # fmt: skip
def test_the_strongest_control_decides(changes: dict[str, Any], grade: str) -> None:
    assert replace(CLAIM, **changes).grade == grade


@given(
    st.floats(-2, 2), st.floats(0, 1), st.floats(0, 1), st.lists(st.floats(-2, 2), max_size=4),
    st.booleans(),
)  # fmt: skip
def test_what_holds_lies_beyond_every_control(
    value: float, down: float, up: float, controls: list[float], less: bool
) -> None:
    beside = {str(name): control for name, control in enumerate(controls)}
    claim = replace(
        CLAIM, value=value, low=value - down, high=value + up, controls=beside, less=less
    )
    ends = value + up if less else value - down
    beyond = bool(controls) and all(ends < x if less else ends > x for x in controls)
    assert (claim.grade == "holds") == beyond


def test_a_claim_in_words() -> None:
    assert CLAIM.sentence == (
        "Probes read it with 0.90 [0.80, 0.95], on 40 words (bootstrap); none 0.50."
    )
    assert CLAIM.short == "Probes read it with 0.90 [0.80, 0.95]."
    refuted = replace(CLAIM, controls={"none": 0.5, "shuffled": 0.93}, notes=("See below.",))
    assert refuted.short == "Not proven: probes read it with 0.90 [0.80, 0.95]; shuffled 0.93."
    assert refuted.sentence.startswith("Not proven: probes read it with 0.90 [0.80, 0.95], on 40")
    assert refuted.why.endswith("none 0.50, shuffled 0.93. See below.")
    near = replace(CLAIM, low=0.4962)  # a control that it misses by less than the form shows
    assert near.short == "Not proven: probes read it with 0.900 [0.496, 0.950]; none 0.500."
    one = replace(CLAIM, finding="L0H1 keeps {}", low=None, high=None, controls={}, form=".0%")
    assert one.sentence == "L0H1 keeps 90%, on 40 words. There is no control."
    assert replace(one, n=1, unit="words outside").sentence.startswith("L0H1 keeps 90%, on 1 word")
    assert replace(one, controls={"untrained": 1.0}).why.endswith("100%. There is no interval.")


def test_of_a_network_that_knows_nothing_nothing_is_told() -> None:
    for low in (0.5, 0.4, None):
        ignorant = replace(KNOWS, low=low)
        assert verdict([CLAIM], ignorant, "").grade == "not weighed"
        assert told([CLAIM], ignorant).startswith(NOTHING_KNOWN)
        assert "Probes" not in told([CLAIM], ignorant)
    assert verdict([CLAIM], KNOWS, "").short == CLAIM.short
    assert verdict([CLAIM], None, "").grade == "holds"
    assert verdict([], KNOWS, "Words.").grade == "not weighed"


def answering(run: Run, says: Callable[[Word], bool]) -> LanguageModel:
    """A network that gives these verdicts, whatever it was taught."""
    model, vocabulary = run.model(), run.language.vocabulary

    def forward(tokens: Tensor) -> Tensor:
        logits = torch.zeros(*tokens.shape, len(vocabulary))
        for row, ids in zip(logits, tokens[:, 1:].tolist(), strict=True):
            row[:, END_ID] = 2.0 * says(vocabulary.decode([i for i in ids if i != END_ID])) - 1
        return logits

    model.forward = forward  # type: ignore[method-assign]
    return model


def test_knowledge_is_the_share_of_right_verdicts(trained: Run) -> None:
    truth: Any = trained.language
    for right, says in (
        (1.0, truth.contains),
        (0.0, lambda word: not truth.contains(word)),
        (0.5, lambda _: False),  # most lengths of a^n b^n have no member
        (0.5, lambda _: True),
    ):
        model = answering(trained, says)
        known = knowledge(model, truth, objective("verdict"), range(2, 9))
        assert known.low is not None
        assert known.high is not None
        assert (known.right, known.constant, known.is_shown) == (right, 0.5, right == 1.0)
        assert known.low <= right <= known.high < known.low + 0.5


@pytest.mark.parametrize(
    "changes",
    [
        {"language": "nested", "objective": "masked", "max_n": 8},
        {"language": "depths", "objective": "tags", "max_n": 5},
    ],
)
def test_networks_without_verdicts_are_asked_for_what_they_were_taught(
    tmp_path: Any, changes: dict[str, Any]
) -> None:
    model = tiny_of("transformer", mask="bidirectional")
    run = Run.create(tmp_path / "run", tiny_config(model=model, **changes))
    found = knowledge(run.untrained(), run.language, run.objective, run.language.lengths(5))
    assert not found.is_shown
    assert 0 < found.constant < 1
    assert found.low is not None
    assert found.high is not None
    assert 0 <= found.low <= found.high <= 1


def test_the_engine_asks_what_the_network_knows(trained: Run) -> None:
    """A network of a few steps knows nothing: no question of its inside is answered by a claim."""
    asked = fresh_answer(trained, question("patching"), Patching(pairs=2))
    assert asked.knowledge is not None
    assert not asked.knowledge.is_shown
    assert asked.claims
    assert asked.sentence.startswith(NOTHING_KNOWN)
    kept, _ = answer(trained, "patching", Patching(pairs=2))
    again, known = answer(trained, "patching", Patching(pairs=2))
    assert known
    assert (again.claims, again.knowledge) == (kept.claims, kept.knowledge)
    about = fresh_answer(trained, question("accuracy"), Accuracy(count=10))
    assert about.knowledge is None
    assert about.sentence.startswith("Not proven: ")


def test_questions_of_answers_are_those_of_behaviour_rule_and_training() -> None:
    spoken = {name for name in registered() if name in BUILT_IN and not question(name).of_inside}
    groups = {BUILT_IN[name].group for name in spoken}
    assert groups <= {"behaviour", "rule", "training"}, spoken


def test_a_question_without_claims_says_its_sentence() -> None:
    asked = Answer(pd.DataFrame(), "L0.5 is first.")
    assert (asked.verdict.short, asked.verdict.grade) == ("L0.5 is first.", "not weighed")


def _emergence(gain: float) -> Claim:
    row = {"target": "a-b", "site": "L1", "metric": "R2", "n_test": 900}
    values = [{"step": step, "value": 0.5 + gain * (step > 0)} for step in (0, 100)]
    table = pd.DataFrame([{**row, **each} for each in values])
    table = table.assign(low=table["value"] - 0.001, high=table["value"] + 0.001)
    curve = {"there": 100, "last": 0.9}
    facts = {"main": "a-b", "task": "exact", "curves": {"exact": curve, "a-b": curve}}
    return emergence._claims(Answer(table.assign(kind="probe", choice=1.0), findings=facts))[0]


def _targets(gain: float) -> Claim:
    row = {"model": "trained", "by": "length", "group": 5, "in_window": 1.0, "pairs": 900}
    row |= {"exact": 0.5, "low": 0.4, "high": 0.6, "running": 0.4, "commonest": 0.0}
    row |= {"lost": gain, "lost_low": gain - 0.001, "lost_high": gain + 0.001}
    others = [row | {"model": name, "exact": 0.0} for name in targets.CONTROLS]
    return targets._claims(pd.DataFrame([row, *others]))[-1]


def _erasure(gain: float) -> Claim:
    facts: dict[str, Any] = {"gap": gain, "gap_low": gain - 0.001, "gap_high": gain + 0.001}
    facts |= {"site": "L1", "words": 900, "untrained": 0.0, "none": 1.0, "LEACE": 0.9}
    return interventions._harm("a-b", {**facts, "random directions": 1.0, "random readout": 1.0})


def _culprits(gain: float) -> Claim:
    shares = {"EK-FAC": 0.5 + gain, "random values": 0.5}
    return culprits_claim(shares, 1_000_000, 10_000_000, "turned lines")


def _curvature(gain: float) -> Claim:
    rows = [{"mean": 1.0 + gain, "loss": 0.1}, {"mean": 1.0, "loss": 0.7}]
    table = pd.DataFrame(rows).assign(kind="curvature", directions=900, sharpest=9.0)
    table = table.assign(low=table["mean"] - 0.001, high=table["mean"] + 0.001)
    return landscape._claims(table)[0]


@pytest.mark.parametrize("claim", [_emergence, _targets, _erasure, _culprits, _curvature])
def test_a_difference_of_next_to_nothing_is_no_claim(claim: Callable[[float], Claim]) -> None:
    """However narrow its interval is, which does not hold 0."""
    small, large = claim(0.02), claim(0.3)
    assert (small.low or 0) > 0
    assert (small.grade, large.grade) == ("no better than its controls", "holds")
    assert small.sentence.startswith("Not proven: ")
