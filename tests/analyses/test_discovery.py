"""What is made of an extraction: when a rule is reliable, and how it is said."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
import pytest
from scipy.stats import fisher_exact

from analyses.answers import Answer
from analyses.charts.automaton import automaton_chart, transitions_of
from analyses.charts.discovery import heads_chart, length_chart
from analyses.options.rule import Discovery as Options
from analyses.questions.rule import discovery
from analyses.questions.rule.learned_rule import _other_lengths
from analyses.questions.rule.rule_evidence import _gap, doubt, in_common, rebuilt, sentences, status
from interp.statistics import wilson
from models.languages import RegularLanguage, language


def sides(accepted: tuple[int, int], rejected: tuple[int, int]) -> dict[str, Any]:
    """Agreement on accepted and rejected words, from how many of how many agree."""
    return {
        side: {
            "words": count,
            "agreement": agree / count if count else None,
            "interval": wilson(agree, count) if count else None,
        }
        for side, (agree, count) in zip(("accepted", "rejected"), (accepted, rejected), strict=True)
    }


FOUND: dict[str, Any] = {
    "rule": "contains a",
    "regex": "b*a(a|b)*",
    "n_states": 2,
    "complete": True,
    "way": "automaton",
    "agreement": 0.999,
    "fresh": 800,
    "agreement_interval": (0.99, 1.0),
    "agreement_sides": sides((299, 300), (500, 500)),
    "longer": 100,
    "agreement_longer": 0.6,
    "agreement_longer_interval": (0.5, 0.7),
    "finished": True,
    "queries": 2345,
    "near_misses": [],
    "sensitive": {"0.5": False, "2": False},
    "growth": {"4": "5", "6": "7", "8": "9"},
    "growth_of": 9,
    "counting": False,
    "held_out": 300,
    "held_out_wrong": 0,
    "agreement_truth": 1.0,
    "is_the_language": None,
    "bits": 20.0,
    "bits_without": 500.0,
    "wrong": 0,
    "mistaken": 0,
    "lines": 900,
    "majority": 0.7,
    "p": 1e-9,
    "leftovers": {"feature": "", "p": 1.0},
}


@pytest.mark.parametrize(
    ("changes", "expected"),
    [
        ({}, None),
        ({"wrong": 90, "held_out_wrong": 33}, None),
        ({"wrong": 90, "leftovers": {"feature": "x", "p": 1e-4}}, "exceptions"),
        ({"bits": 500.0}, "too long"),
        ({"bits": None}, "no automaton"),
        ({"p": 0.02}, "chance"),
        ({"agreement_truth": 0.69}, "chance"),
        ({"lines": 2660, "held_out_wrong": 22}, "fitted"),
        ({"wrong": 2, "held_out_wrong": 2}, None),
        ({"counting": True}, "counting"),
        ({"counting": True, "agreement_longer_interval": (0.985, 1.0)}, None),
        ({"counting": True, "longer": 0, "agreement_longer_interval": None}, None),
        ({"counting": True, "fresh": 0, "agreement_longer_interval": (0.985, 1.0)}, None),
        ({"agreement_sides": sides((0, 18), (782, 782))}, "one side"),
        ({"agreement_sides": sides((782, 782), (0, 18))}, "one side"),
        ({"agreement_sides": sides((16, 18), (782, 782))}, None),
        ({"agreement_sides": sides((0, 0), (800, 800))}, None),
    ],
)
def test_when_a_rule_is_reliable(changes: dict[str, Any], expected: str | None) -> None:
    found = FOUND | changes
    assert doubt(found) == expected
    reliable = "exceptions" if found["wrong"] else "rule"
    assert status(found) == ("none" if expected else reliable)


def test_the_gap_is_fisher_s_exact_test() -> None:
    """Of lines held out and lines fitted: 22 of 300 wrong against none of 2,660."""
    for wrong, held in ((0, 22), (90, 33), (0, 0), (5, 1)):
        table = [[held, 300 - held], [wrong, 2660 - wrong]]
        found = FOUND | {"lines": 2660, "wrong": wrong, "held_out_wrong": held}
        expected = fisher_exact(table, alternative="greater").pvalue
        assert _gap(found) == pytest.approx(expected)


FAR = {
    "length": 40,
    "kind": "one edit away",
    "words": 50,
    "agree": 49 / 50,
    "examples": [["a"] * 20 + ["b"] * 20 + ["c"] * 21],
}


@pytest.mark.parametrize(
    ("changes", "headline", "evidence"),
    [
        (
            {"status": "rule", "near_misses": [FAR]},
            "accepts a word if it contains a.",
            "It was also asked 50 words one edit away, of up to 40 symbols. Up to 40 symbols the "
            "network accepts 1 of 50 words one edit away, such as a^20 b^20 c^21.",
        ),
        (
            {"status": "rule"},
            "accepts a word if it contains a.",
            "it agrees with the network on 99.90% of 800 words that were not asked before (95% "
            "interval 99.00% to 100.00%; on 99.67% of the 300 that the network accepts, on 100.00% "
            "of the 500 that the network rejects), with the held-out labels on 100.00% of 300.",
        ),
        ({"status": "rule", "fresh": 0}, "contains a", "every word that could be asked"),
        (
            {"status": "rule", "finished": False},
            "contains a",
            "Not finished: 2345 words were asked, and some tests are left.",
        ),
        ({"status": "rule", "way": "lines"}, "contains a", "learned from words like the lines"),
        ({"status": "rule", "sensitive": {"2": True}}, "a.", "The choice hangs on the scale"),
        (
            {"status": "exceptions", "wrong": 90},
            "accepts a word if it contains a.",
            "90 of 900 lines (10.0%) contradict it; they share nothing that sets them apart",
        ),
        (
            {"status": "exceptions", "wrong": 90, "mistaken": 3},
            "accepts a word if it contains a.",
            "In at least 3 of them the network gives the line's label: there the rule is wrong, or",
        ),
        (
            {"status": "rule", "counting": True},
            "accepts a word if it contains a.",
            "grow with the words to the end of the lines' lengths (5 states up to 4 symbols, 7 "
            "states up to 6 symbols, 9 states up to 8 symbols). On 100 words longer than the lines",
        ),
        (
            {"status": "rule", "counting": True, "longer": 0},
            "accepts a word if it contains a.",
            "9 states up to 8 symbols). No longer word could be asked.",
        ),
        (
            {"status": "none", "doubt": "one side", "agreement_sides": sides((0, 18), (782, 782))},
            "No reliable rule was found in the network.",
            "on 0.00% of the 18 that the network accepts, on 100.00% of the 782 that the network "
            "rejects). So it does not tell both",
        ),
        ({"status": "rule", "rule": None}, "see the regular expression.", "2 states"),
        ({"status": "rule", "rule": None, "regex": None}, "see the table of transitions.", "2"),
        ({"status": "rule", "way": "families"}, "contains a", "at others the network behaves"),
        (
            {"status": "none", "doubt": "no automaton", "leftovers": None},
            "No reliable rule was found in the network.",
            "No automaton of at most 30 states was found that agrees with the network on 97% of",
        ),
        (
            {"status": "none", "doubt": "no automaton", "finished": False, "leftovers": None},
            "No reliable rule was found in the network.",
            "Not finished: learning ended when the network had been asked 2345 words. This says "
            "nothing of the network",
        ),
        (
            {"status": "none", "doubt": "too long"},
            "No reliable rule was found in the network.",
            "it takes more bits than a list",
        ),
        (
            {"status": "none", "doubt": "fitted", "lines": 2660, "agreement_truth": 0.927},
            "No reliable rule was found in the network.",
            "right on 92.70% of 300 held-out labels, and of the 2660 lines that it was fitted to 0",
        ),
        (
            {"status": "none", "doubt": "counting"},
            "No reliable rule was found in the network.",
            "(5 states up to 4 symbols, 7 states up to 6 symbols, 9 states up to 8 symbols). The "
            "network may count, and then no automaton is right on longer words. On 100 words "
            "longer than the lines it agrees with the network on 60.00% (95% interval",
        ),
        (
            {"status": "none", "doubt": "chance", "p": 0.5},
            "No reliable rule was found in the network.",
            "of 300 held-out labels; always giving the same answer is right on 70.00%",
        ),
        (
            {"status": "none", "doubt": "exceptions", "leftovers": {"feature": "they contain b"}},
            "No reliable rule was found in the network.",
            "the lines that contradict it are not noise: they contain b.",
        ),
    ],
)
def test_what_is_said(changes: dict[str, Any], headline: str, evidence: str) -> None:
    said = sentences(FOUND | changes, Options().max_states)
    assert headline in said["headline"]
    assert evidence in said["evidence"]


LABELS = {
    "status": "rule",
    "doubt": None,
    "headline": "The network accepts a word if it contains a.",
    "evidence": "Because.",
    "agreement_truth_interval": [0.99, 1.0],
    "untrained": {"agreement_truth": 0.6},
}
COUNTS = {"inside": 1.0, "outside": 0.99, "asked": 400, "obeying": 200}
NO = "no better than its controls"


@pytest.mark.parametrize(
    ("changes", "grade", "said"),
    [
        ({}, "holds", "The network accepts a word if it contains a; this foretells 99.8% [9"),
        ({"finished": False}, "fragile", "Learning was not finished."),
        ({"sensitive": {"2": True}}, "fragile", "Another automaton wins"),
        ({"agreement_truth_interval": [0.5, 1.0]}, "fragile", "Always the same answer gives as"),
        ({"untrained": {"agreement_truth": 1.0}}, "fragile", "The untrained network's automaton g"),
        ({"untrained": {"agreement_truth": None}}, "holds", "always the same answer 70.0%."),
        ({"agreement_sides": sides((290, 300), (500, 500))}, "fragile", "less than 99%"),
        ({"near_misses": [FAR | {"high": 0.99}]}, "holds", "it contains a"),
        (
            {"near_misses": [FAR | {"high": 0.99}, FAR | {"agree": 0.4, "high": 0.5}]},
            "fragile",
            "Of 50 words one edit away, of up to 40 symbols, only 40% are foretold.",
        ),
        ({"agreement_sides": sides((0, 0), (800, 800))}, NO, "always the same answer 100.0%"),
        ({"agreement_sides": sides((0, 0), (800, 800))}, NO, "before, all of one verdict (Wilson)"),
        ({"agreement_sides": sides((0, 0), (0, 0))}, "holds", "gives 100.0% [99.0%, 100.0%] of th"),
        ({"status": "counts", "envelope": COUNTS}, "holds", "foretells 99.5% ["),
        ({"status": "counts", "envelope": COUNTS | {"outside": 0.5}}, "fragile", "less than 99%"),
        ({"status": "counts", "envelope": COUNTS | {"outside": 0.0}}, NO, "foretells 50.0% ["),
        (
            {"status": "none", "doubt": "chance", "agreement_truth_interval": [0.6, 1.0]},
            NO,
            "Not proven: the best automaton gives 100.0% [60.0%, 100.0%] of the held-out words",
        ),
        (
            {"status": "none", "doubt": "counting", "headline": "No reliable rule."},
            "not weighed",
            "No reliable rule; the best automaton foretells 99.8% [",
        ),
        (
            {"status": "none", "doubt": "too long", "agreement_sides": sides((0, 4), (188, 188))},
            NO,
            "Not proven: the best automaton foretells 50.0% [",
        ),
        (
            {"status": "none", "doubt": "too long", "agreement_sides": sides((0, 4), (188, 188))}
            | {"finished": False},
            "not weighed",
            "So none is claimed.",
        ),
    ],
)  # fmt: skip
def test_a_rule_is_told_as_far_as_its_controls_let_it(
    changes: dict[str, Any], grade: str, said: str
) -> None:
    claims = discovery.QUESTION.claims(Answer(pd.DataFrame(), findings=FOUND | LABELS | changes))
    assert claims[0].grade == grade
    assert said in " ".join(claim.sentence for claim in claims)
    assert "Because." in claims[0].why


def test_what_answers_and_labels_have_in_common() -> None:
    rng = np.random.default_rng(0)
    for share in (0.0, 0.3, 1.0):
        labels = rng.random(40) < 0.3
        answers = np.where(rng.random(40) < share, labels, rng.random(40) < 0.5)
        table = [
            [(answers & labels).sum(), (answers & ~labels).sum()],
            [(~answers & labels).sum(), (~answers & ~labels).sum()],
        ]
        expected = fisher_exact(table, alternative="greater").pvalue
        assert in_common(answers, labels) == pytest.approx(expected)
    assert in_common(np.array([], dtype=bool), np.array([], dtype=bool)) == 1.0


def test_other_lengths_are_others() -> None:
    words = [tuple("ab" * n) for n in (2, 3, 4)]
    for room in (None, 9):
        made = _other_lengths(words, ("a", "b"), Options(), room)
        lengths = set(map(len, made))
        assert lengths.isdisjoint({4, 6, 8})
        assert min(lengths) == 1
        assert max(lengths) == (room or 12)
    assert _other_lengths([tuple("a"), tuple("ab")], ("a", "b"), Options(), 2) == []


def test_an_automaton_is_rebuilt_from_what_is_kept() -> None:
    lang = language("dieren")
    assert isinstance(lang, RegularLanguage)
    symbols = lang.vocabulary.symbols
    rows = [[q, s, int(lang.delta[q, i])] for q in range(5) for i, s in enumerate(symbols)]
    final = np.flatnonzero(lang.accepting).tolist()
    kept = {"start": 0, "accepting": final, "transitions": rows}
    assert rebuilt(kept, symbols) == lang.dfa


def test_a_dead_state_stands_last_in_the_picture() -> None:
    """No arc of the way through the rule jumps over it: its state has the number 2 of 0 to 4."""
    lang = language("dieren")
    assert isinstance(lang, RegularLanguage)
    datasets = automaton_chart(transitions_of(lang)).to_dict()["datasets"].values()
    (nodes,) = [rows for rows in datasets if {"x", "state"} <= set(rows[0])]
    assert [row["state"] for row in sorted(nodes, key=lambda row: row["x"])] == [0, 1, 3, 4, 2]


def test_charts_show_every_length_and_every_transition() -> None:
    rows = [{"length": n, "count": 9, "rule": 1.0, "network": 0.9} for n in (3, 4)]
    drawn = length_chart({"by_length": rows}).to_dict()["datasets"].values()
    assert sorted(map(len, drawn)) == [4]
    moved = [
        {"source": s, "target": t, "layer": 0, "head": 1, "moved": 2.0, "low": 1.0, "high": 3.0}
        | {"whole": 5.0, "pairs": 7}
        for s, t in ((-1, -1), (0, 1))
    ]
    (table,) = heads_chart({"heads": moved}).to_dict()["datasets"].values()
    assert {row["transition"] for row in table} == {"control: none", "0 → 1"}
    assert {row["head"] for row in table} == {"L0H1"}
