"""What is claimed of heads, edges and what they carry falls where a control does as well: tables by
hand."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pandas as pd
import pytest

from analyses.answers import Answer
from analyses.charts.heads import LOOK
from analyses.claims import Claim
from analyses.questions.parts import (
    ablation,
    alignment,
    circuits,
    cosine,
    dependencies,
    heads,
    induction,
    looks,
    patching,
    reach,
)

HOLDS, FRAGILE, NO = "holds", "fragile", "no better than its controls"
NONE = "not weighed"
MODELS = ("trained", "untrained")


def table(columns: str, *rows: Sequence[Any]) -> pd.DataFrame:
    return pd.DataFrame(rows, columns=columns.split())


# -- patching -------------------------------------------------------------------------------------


def patched(
    low: float = 0.5,
    untrained: float = 0.1,
    other: float = 0.0,
    component: str = "z",
    judged: int = 4,
) -> Answer:
    """A head at position 3 that carries 0.7, and others; words differ from position 2 on.

    Of the untrained network's own small difference a site carries ten times as much.
    """
    found = table(
        "model component head position judged judged_low judged_high shift_choice shift",
        ("trained", component, 1, 3, 0.7, low, 0.9, 0.8, 0.7),
        ("trained", component, 0, 3, other, 0.0, 1.0, 0.1, other),
        ("trained", component, 0, 2, other, 0.0, 1.0, 0.1, other),
        ("trained", component, 0, 1, 0.0, 0.0, 0.0, 0.0, 0.0),
        ("trained", component, 1, 1, 0.0, 0.0, 0.0, 0.0, 0.0),
        ("untrained", component, 0, 1, 10.0, 5.0, 15.0, 0.9, untrained),
        ("untrained", component, 1, 1, 10.0, 5.0, 15.0, 0.1, 5.0),
    ).assign(layer=0, neuron=-1, key=-1, symbol="b", judged_pairs=judged)
    found = found.assign(choice=found["shift_choice"])
    told = {"top_site": "L0H1 z at 3", "changed_positions": [2], "counterfactuals": [["a"]] * 8}
    return Answer(found, findings=told)


@pytest.mark.parametrize(
    ("asked", "grade"),
    [
        (patched(), HOLDS),  # though the untrained network's own effect is 10
        (patched(untrained=0.6), NO),
        (patched(other=0.6), NO),  # the median from position 2 on; before it all carry nothing
        (patched(other=-0.6), NO),
        (patched(low=-0.1), NO),
        (patched(component="resid_pre"), NONE),  # all passes through the stream
        (patched(component="mlp_out"), HOLDS),
        (patched(low=np.nan, judged=1), NONE),
    ],
)
def test_patching(asked: Answer, grade: str) -> None:
    (claim,) = patching.QUESTION.claims(asked)
    assert claim.grade == grade
    assert claim.short.endswith("of the difference between this word and others.") or grade == NO


def test_where_a_network_sees_ahead_a_site_before_the_difference_has_its_median_too() -> None:
    asked = patched()
    found = asked.table.assign(position=asked.table["position"].replace(3, 0))
    (claim,) = patching.QUESTION.claims(Answer(found, findings=asked.findings))
    assert claim.grade == HOLDS
    assert claim.controls["the median site of this kind"] == 0


def test_words_that_are_not_told_apart_differ_by_nothing() -> None:
    asked = patched()
    (claim,) = patching.QUESTION.claims(
        Answer(asked.table.assign(shift=np.nan), findings=asked.findings)
    )
    assert claim.sentence == (
        "The network does not tell this word from the others, on 8 others. So no activation "
        "carries a difference."
    )


# -- circuits -------------------------------------------------------------------------------------


def circuit(
    low: float = 0.95,
    random: float = 0.1,
    untrained: int = 30,
    theirs: float = 1.0,
    size: int = 9,
    high: float = 1.0,
) -> Answer:
    own = {
        "edges": [0] * size,
        "of": 40,
        "pairs": 32,
        "faithfulness": 0.97,
        "low": low,
        "high": high,
    }
    own |= {"completeness": 1.0, "restored": 0.9}
    other = {**own, "edges": [0] * untrained, "faithfulness": theirs}
    found = {"circuit": own, "untrained": other, "random": random, "scores": "exact, noising"}
    return Answer(pd.DataFrame(), findings=found)


@pytest.mark.parametrize(
    ("asked", "grade"),
    [
        (circuit(), HOLDS),
        (circuit(low=0.5), FRAGILE),
        (circuit(size=21), FRAGILE),
        (circuit(untrained=8), NO),
        (circuit(untrained=8, theirs=0.2), HOLDS),
        (circuit(untrained=8, theirs=2.69), HOLDS),  # it misses more than all of its difference
        (circuit(high=1.05), HOLDS),
        (circuit(high=1.2), FRAGILE),
        (circuit(random=0.96), NO),
    ],
)
def test_circuits(asked: Answer, grade: str) -> None:
    (claim,) = circuits.QUESTION.claims(asked)
    assert claim.grade == grade
    assert "edges keep 97%" in claim.short


# -- heads ----------------------------------------------------------------------------------------


def of_heads(
    one: float = 0.4,
    pair: float = 0.0,
    untrained: float = 0.0,
    typed: float = 0.8,
    even: float = 0.3,
    by: Sequence[str] = heads.METHODS,
) -> list[Claim]:
    """Heads of which L0H1 is chosen by other words, and costs ``one``; a pair that costs ``pair``
    beyond the sum; and L0H0, which pays BOS ``typed``."""
    rows = []
    for model, alone, beyond, paid in (
        ("trained", one, pair, typed),
        ("untrained", untrained, untrained, 0.2),
    ):
        for method in heads.METHODS:
            for part, choice, value in (("L0H0", -0.1, 0.9), ("L0H1", alone, alone)):
                p = 0.01 if method in by and value > 0.05 else 0.9
                rows.append((model, f"{heads.LOST}, {method} ablation", part, choice, value, p))
            both = "L0H0 + L0H1"
            rows.append((model, f"{heads.TOGETHER}, {method} ablation", both, 0.9, 0.9, 0.01))
            p = 0.01 if method in by else 0.9
            rows.append((model, f"{heads.BEYOND}, {method} ablation", both, beyond, beyond, p))
        rows.append((model, "attention, BOS", "L0H0", paid, paid, np.nan))
        rows.append((model, LOOK, "L0H0", paid, paid, 0.9))
    found = table("model measure part choice value corrected", *rows)
    ends = {"low": found["value"] - 0.1, "high": found["value"] + 0.1, "uniform": even}
    numbers = {"share": 0.4, "words": 40, "different": 20}
    found = found.assign(head=found["part"].str[-1].astype(int), **ends, **numbers)
    return heads.QUESTION.claims(Answer(found))


@pytest.mark.parametrize(
    ("changes", "grades"),
    [
        ({}, [HOLDS, HOLDS]),
        ({"untrained": 0.35}, [NO, HOLDS]),
        ({"by": ("mean", "zero")}, [FRAGILE, HOLDS]),
        ({"one": 0.12}, [NO, HOLDS]),  # less than 5% is nothing that counts
        ({"typed": 0.45}, [HOLDS, NO]),  # no clear type
        ({"even": 0.75}, [HOLDS, NO]),
        ({"even": 0.9}, [HOLDS]),  # no head is beyond even attention on the words that choose
        ({"pair": 0.3}, [HOLDS, HOLDS, HOLDS]),
        ({"pair": 0.3, "by": ("mean",)}, [FRAGILE, FRAGILE, HOLDS]),
        ({"pair": 0.12}, [HOLDS, NO, HOLDS]),
    ],
)
def test_heads(changes: dict[str, Any], grades: list[str]) -> None:
    assert [claim.grade for claim in of_heads(**changes)] == grades


def test_two_heads_that_stand_in_for_each_other_come_first_where_none_is_needed() -> None:
    first, second, _ = of_heads(one=0.01, pair=0.4)
    assert first.short.startswith("Without both L0H0 and L0H1 (mean ablation) 40.0% [")
    assert (first.grade, second.grade) == (HOLDS, NO)
    assert first.n == 20  # different words, not all


def test_how_many_heads_look_where_it_matters_stands_beside_the_untrained_network() -> None:
    assert "0 of 1 heads look where it matters, in the untrained network 0" in (
        of_heads()[0].sentence
    )


# -- ablation -------------------------------------------------------------------------------------


def broken(lost: float = 0.4, random: Sequence[float] = (0.1, 0.0)) -> Claim:
    sets = [(ablation.AS_IT_IS, "", 0.0), (ablation.BROKEN, "L0H1", lost)]
    sets += [(ablation.RANDOM, f"L1H{number}", value) for number, value in enumerate(random)]
    rows = [
        (of, parts, words, 1 - value, value, value - 0.1, value + 0.1, 9)
        for of, parts, value in sets
        for words in ("members", "others")
    ]
    found = table("of parts words right lost lost_low lost_high count", *rows)
    (claim,) = ablation.QUESTION.claims(Answer(found))
    return claim


def test_ablation() -> None:
    assert broken().grade == HOLDS
    assert broken().sentence == (
        "Without L0H1, 40.0% [30.0%, 50.0%] of the verdicts are lost, on 18 different words "
        "(bootstrap over words); no loss 0.0%, as many random others of the same kinds 5.0%. As it "
        "is, 100.0% are right; without the parts, 60.0%. Members and others count half each."
    )
    assert broken(random=(0.5, 0.0)).grade == FRAGILE
    assert "1 of 2 such sets cost as much or more." in broken(random=(0.5, 0.0)).why
    assert broken(random=(0.5, 0.3)).grade == NO
    assert broken(lost=0.05, random=(-0.5, -0.3)).grade == NO
    assert broken(random=()).grade == NONE


# -- alignment ------------------------------------------------------------------------------------


def of_pairs(low: float = 0.7, **controls: float) -> list[Claim]:
    """A head that half of the pairs choose, though another is better on those that judge."""
    at = {"untrained": 0.5, "diagonal": 0.5, "elsewhere": 0.5, "read": 0.5, **controls}
    there, kinds = alignment.ELSEWHERE, alignment.READING
    found = table(
        "model of part head choice auroc low high",
        ("trained", "attention", "L1H0", 0, 0.9, 0.8, low, 0.9),
        ("trained", "attention", "L1H1", 1, 0.5, 0.99, 0.98, 1.0),
        ("trained", "attention", alignment.ALL, -1, 0.5, 0.5, 0.4, 0.6),
        ("trained", "effect", alignment.SYMBOL, -1, 0.9, 0.9, 0.8, 1.0),
        ("trained", "effect", kinds, -1, 0.8, 0.8, 0.7, 0.9),
        ("untrained", "attention", "L1H0", 0, 0.4, 0.99, 0.9, 1.0),
        ("untrained", "attention", "L1H1", 1, 0.6, at["untrained"], 0.4, 0.6),
        ("untrained", "effect", kinds, -1, 0.5, 0.5, 0.4, 0.6),
        ("none", "control", alignment.DIAGONAL, -1, 0.5, at["diagonal"], 0.4, 0.6),
        ("none", "control", there, -1, 0.99, 0.99, 0.9, 1.0),  # all heads
        ("none", "control", f"L1H0 on {there}", -1, 0.5, at["elsewhere"], 0.4, 0.6),
        ("none", "control", f"{kinds} on {there}", -1, 0.5, at["read"], 0.4, 0.6),
    ).assign(hit=0.6, agrees=np.nan, agrees_low=np.nan, agrees_high=np.nan, pairs=12)
    return alignment.QUESTION.claims(Answer(found))


def test_alignment() -> None:
    assert [claim.grade for claim in of_pairs()] == [HOLDS, HOLDS]
    assert of_pairs()[0].short.startswith("Attention of L1H0 finds")
    for control in ("untrained", "elsewhere"):
        assert [claim.grade for claim in of_pairs(**{control: 0.75})] == [NO, HOLDS]
    assert [claim.grade for claim in of_pairs(diagonal=0.75)] == [NO, NO]
    assert [claim.grade for claim in of_pairs(read=0.75)] == [HOLDS, NO]


# -- dependencies ---------------------------------------------------------------------------------


def depending(
    right: float = 0.9, far: float = 0.9, untrained: float = 0.1, reads: float = 0.1
) -> list[Claim]:
    rows = []
    for model, near, distant, value in (
        ("trained", right, far, 0.5),
        ("untrained", 0.1, 0.1, untrained),
    ):
        rows += [
            (model, "right", "0 attractors", "", np.nan, near, near - 0.1, near + 0.1),
            (model, "right", "1 attractor", "", np.nan, distant, distant - 0.1, distant + 0.1),
            (model, "value", "L0H0", "controller", 0.2, 0.9, 0.8, 1.0),
            (model, "value", "L0H1", "controller", 0.6, value, value - 0.2, value + 0.2),
            (model, "value", "L0H0", "others", 0.0, 0.9, 0.0, 0.0),
            (model, "value", "L0H1", "others", 0.0, reads, 0.0, 0.0),
            (model, "agrees", "all heads", "", np.nan, value, value - 0.2, value + 0.2),
        ]
    found = table("model kind place role choice value low high", *rows).assign(pairs=40)
    return dependencies.QUESTION.claims(Answer(found))


@pytest.mark.parametrize(
    ("changes", "grades"),
    [
        ({}, [HOLDS, HOLDS, HOLDS]),
        ({"far": 0.3}, [FRAGILE, HOLDS, HOLDS]),
        ({"right": 0.2, "far": 0.2}, [NO, HOLDS, HOLDS]),
        ({"untrained": 0.4}, [HOLDS, NO, NO]),
        ({"reads": 0.4}, [HOLDS, NO, HOLDS]),
    ],
)
def test_dependencies(changes: dict[str, float], grades: list[str]) -> None:
    found = depending(**changes)
    assert [claim.grade for claim in found] == grades
    assert found[0].n == 80
    assert "What L0H1 reads" in found[1].finding


# -- looks, induction, reach, cosine --------------------------------------------------------------


def looking(even: float = 0.3, untrained: float = 0.2, beyond: float = 0.2) -> list[Claim]:
    found = table(
        "model head choice attention beyond",
        ("trained", "L0H0", 0.1, 0.9, 0.9),
        ("trained", "L0H1", 0.7, 0.6, beyond),
        ("trained", looks.ALL, 0.9, 0.5, 0.5),
        ("untrained", "L0H0", 0.3, untrained, 0.0),
        ("untrained", looks.ALL, 0.9, 0.9, 0.9),
    ).assign(even=even, effect=0.3, effect_low=0.2, effect_high=0.4, places=30, decides=0.5)
    ends = {
        f"{of}_{name}".removeprefix("attention_"): found[of] + sign * 0.1
        for of in ("attention", "beyond")
        for name, sign in (("low", -1), ("high", 1))
    }
    return looks.QUESTION.claims(Answer(found.assign(**ends)))


def test_looks() -> None:
    assert [claim.grade for claim in looking()] == [HOLDS, HOLDS]
    assert looking()[0].short == "L0H1 pays these symbols 60% [50%, 70%] of its attention."
    assert [claim.grade for claim in looking(even=0.55)] == [NO, HOLDS]
    assert [claim.grade for claim in looking(untrained=0.55)] == [NO, HOLDS]
    assert [claim.grade for claim in looking(beyond=0.05)] == [HOLDS, NO]


def without(other: float = 0.0, untrained: float = 0.0) -> list[Claim]:
    found = table(
        "model part induction at_border drop",
        ("trained", "L0H0", 0.9, 0.1, 0.5),
        ("trained", "L0H1", 0.1, 0.9, other),
        ("trained", "L0H2", 0.2, 0.2, other),
        ("untrained", "L0H0", 0.9, 0.9, untrained),
        ("untrained", "L0H1", 0.1, 0.1, 0.9),
        ("untrained", "L0H2", 0.2, 0.2, 0.9),
    ).assign(accuracy=0.8, prompts=50)
    return induction.QUESTION.claims(
        Answer(found.assign(low=found["drop"] - 0.1, high=found["drop"] + 0.1))
    )


def test_induction() -> None:
    first, second = without()
    assert (first.grade, second.grade) == (HOLDS, NO)
    assert "(L0H0: 0.90)" in first.finding
    assert "(L0H1: 0.90)" in second.finding
    assert without(other=0.45)[0].grade == NO
    assert without(untrained=0.45)[0].grade == NO


def reaching(rate: float = 0.5, half: float = 0.1, fit: float = 0.9) -> Claim:
    found = table("model rate", ("trained", rate), ("untrained", 0.2))
    ends = {"rate_low": found["rate"] - half, "rate_high": found["rate"] + half}
    about = {"fit": fit, "path_length": 3, "sequential": 4, "words": 30}
    (claim,) = reach.QUESTION.claims(
        Answer(found.assign(**ends, **about).astype({"path_length": "Int64"}))
    )
    return claim


def test_reach() -> None:
    assert reaching().grade == HOLDS
    assert reaching().short == (
        "With each symbol further back the log of the influence changes by -0.500, and training "
        "moved this by -0.300 [-0.441, -0.159]."
    )
    assert reaching(rate=-0.1).grade == HOLDS
    assert reaching().high == pytest.approx(-0.3 + np.hypot(0.1, 0.1))
    assert reaching(half=0.25).grade == NO
    assert reaching(fit=0.2).grade == FRAGILE
    assert reaching(rate=np.nan).short == "The slope of the influence is not known."


def scoring(mean: float = 0.5, untrained: float = 0.1, half: float = 0.2) -> Claim:
    found = table("model mean", ("trained", mean), ("trained", mean), ("untrained", untrained))
    found = found.assign(mean_low=found["mean"] - half, mean_high=found["mean"] + half, tokens=9)
    (claim,) = cosine.QUESTION.claims(
        Answer(found.assign(correlation=found["mean"], corrected=[0.01, 0.2, 0.9]))
    )
    return claim


def test_cosine() -> None:
    assert scoring().grade == HOLDS
    assert "Of 2 heads 1 score like tokens higher and 0 unlike ones" in scoring().sentence
    assert scoring(untrained=0.4).grade == NO
    assert scoring(mean=0.1).grade == NO
    assert scoring(mean=-0.5).grade == HOLDS
    assert scoring(mean=-0.5).short.startswith("Heads score unlike tokens higher")
    assert scoring(mean=-0.5, untrained=-0.4).grade == NO
    assert scoring(half=np.nan).grade == NONE
