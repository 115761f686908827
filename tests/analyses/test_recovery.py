"""The study of planted rules: what is planted, and how an answer is judged."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

from analyses.answers import Answers
from analyses.charts.discovery import recovery_chart, shares
from analyses.command_line.app import main
from analyses.options.lines import Discover
from analyses.questions.rule.rule_evidence import described
from analyses.rules import recovery
from analyses.rules.recovery import (
    COUNTED,
    RANDOM,
    VOCABULARY,
    Corpus,
    Recover,
    _corpora,
    _findings,
    file_name,
    planted,
    recovered,
)
from interp.automata.rules import Families, Rule
from models.errors import UserError
from models.languages import language
from models.runs.files import write_bytes
from models.runs.folders import RUN_FILE

FAMILIES = (
    *("contains", "side by side", "starts", "ends", "same ends", "at least", "at most"),
    *("exactly", "even", "never", "before", "and", "or", "xor", "on a tier"),
)


def test_thirty_rules_and_more_across_all_families() -> None:
    rules = planted()
    assert len(rules) >= 30
    assert Counter(family for family, _ in rules.values()).keys() == set(FAMILIES)
    assert all(dfa.input_symbols == set(VOCABULARY) for _, dfa in rules.values())


@pytest.mark.slow
def test_some_are_rare_and_some_are_frequent() -> None:
    positives = {
        rule: Corpus("x", family, rule, 1000).drawn()[0].count("in") / 1000
        for rule, (family, _) in planted().items()
    }
    assert all(0.005 < share < 0.995 for share in positives.values())
    assert sum(share < 0.05 for share in positives.values()) >= 3
    assert sum(share > 0.8 for share in positives.values()) >= 3


@pytest.mark.parametrize(
    ("rule", "obeys"),
    [
        ("contains kaas", lambda w: "kaas" in w),
        ("starts and ends with the same symbol", lambda w: w[0] == w[-1]),
        ("has an even number of soep", lambda w: w.count("soep") % 2 == 0),
        (
            "has an even number of appel, brood, kaas and melk together",
            lambda w: sum(s in ("appel", "brood", "kaas", "melk") for s in w) % 2 == 0,
        ),
        (
            "either starts with melk, or ends with melk, but not both",
            lambda w: (w[0] == "melk") != (w[-1] == "melk"),
        ),
        (COUNTED, lambda w: w.count("appel") == w.count("brood")),
    ],
)
def test_lines_are_labelled_by_the_rule(rule: str, obeys: Any) -> None:
    labels, words = Corpus("x", "-", rule, 2000, seed=3).drawn()
    assert [label == "in" for label in labels] == [obeys(word) for word in words]
    assert set(map(len, words)) == set(range(1, 13))


def test_noise_turns_its_share_of_the_labels_round() -> None:
    labels, words = Corpus("x", "contains", "dieren", 5000, 0.1, 2).drawn()
    clean, same = Corpus("x", "contains", "dieren", 5000, 0.0, 2).drawn()
    assert words == same
    assert set(map(len, words)) == {10}
    assert [label == "in" for label in clean] == [language("dieren").contains(w) for w in words]
    assert np.mean(np.array(labels) != np.array(clean)) == pytest.approx(0.1, abs=0.015)


def test_disfluent_lines_have_the_labels_of_what_was_meant() -> None:
    """What was meant is the line without disfluencies, of the same seed."""
    for corpus in _corpora("disfluent", 1):
        labels, words = replace(corpus, lines=300).drawn()
        meant = replace(corpus, lines=300, disfluent=0.0).drawn()
        assert labels == meant[0]
        changed = np.mean([w != m for w, m in zip(words, meant[1], strict=True)])
        clean = np.mean([(1 - corpus.disfluent) ** len(m) for m in meant[1]])
        assert changed == pytest.approx(1 - clean, abs=0.1)
        assert {w for word in words for w in word} == {w for word in meant[1] for w in word}


def test_random_labels_know_nothing_of_their_lines() -> None:
    labels, words = Corpus("x", "no rule", RANDOM, 5000).drawn()
    has = np.array(["kaas" in word for word in words])
    inside = np.array(labels) == "in"
    assert abs(inside[has].mean() - inside[~has].mean()) < 0.05


@pytest.mark.parametrize(
    ("study", "seeds", "count"),
    [
        *[("rules", 0, 49), ("rules", 2, 98), ("dieren", 0, 10), ("lines", 2, 12), ("noise", 1, 5)],
        *[("disfluent", 1, 20), ("disfluent", 0, 60)],
    ],
)
def test_what_a_study_asks_for(study: Any, seeds: int, count: int) -> None:
    asked = _corpora(study, seeds)
    assert len(asked) == len({corpus.name for corpus in asked}) == count


def answering(monkeypatch: pytest.MonkeyPatch, rule: Rule, status: str) -> list[Discover]:
    """Lets every discovery end with this rule."""
    asked = []
    known = {
        "rule": rule.text,
        "states": len(rule.dfa.states),
        "dfa": described(rule.dfa, None, sorted(rule.dfa.input_symbols))["dfa"],
        "status": status,
        "wrong": 0,
        "held-out right": 1.0,
        "seconds": 1.0,
    }

    def discover(options: Discover) -> dict[str, Any]:
        asked.append(options)
        for name in ("c-s0", "c-lstm-s0"):
            write_bytes(options.out / name / RUN_FILE, b"{}")
        missed = {"way": "Transformer", "status": "none", "rule": "is odd"}
        ways = [known | missed, known | {"way": "classes"}]
        best = None if status == "none" else {"way": "classes", "status": status}
        return {"networks": [{"run": "c-s0"}], "ways": ways, "best": best}

    monkeypatch.setattr(recovery, "discover", discover)
    return asked


@pytest.mark.parametrize(
    ("planted_rule", "status", "outcome"),
    [
        ("contains kaas", "rule", "exact"),
        ("contains kaas", "exceptions", "exact"),
        ("contains kaas", "none", "no reliable rule"),
        ("never contains vis", "rule", "wrong rule"),
        (RANDOM, "none", "no reliable rule"),
        (RANDOM, "rule", "wrong rule"),
    ],
)
def test_an_answer_is_judged_by_its_automaton(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, planted_rule: str, status: str, outcome: str
) -> None:
    asked = answering(monkeypatch, Families(VOCABULARY).contains("kaas"), status)
    corpus = Corpus("c", "contains", planted_rule, 50)
    theirs = [tmp_path / "c" / name for name in ("thesis/checkpoints/best.pt", "mine/run.json")]
    for file in theirs:
        write_bytes(file, b"theirs")
    rows = recovered(corpus, tmp_path, False, "cpu")
    assert all(file.exists() for file in theirs)
    assert not list((tmp_path / "c").glob("c-*"))  # the networks are not kept
    assert {row["rule"] for row in rows} == {planted_rule}
    outcomes = {row["way"]: (row["outcome"], row["says"], row["seconds"]) for row in rows}
    assert outcomes == {
        "best": (outcome, None if status == "none" else "contains kaas", 2.0),
        "Transformer": ("no reliable rule", "is odd", 1.0),
        "classes": (outcome, "contains kaas", 1.0),
    }
    assert recovered(corpus, tmp_path, False, "cpu")[1:] == rows[1:]
    assert len(asked) == 1  # kept
    assert asked[0].accepted == "in"
    write_bytes(tmp_path / "d" / "lines.tsv", b"mine")
    with pytest.raises(UserError, match=r"lines\.tsv holds something else than is to be written"):
        recovered(replace(corpus, name="d"), tmp_path, False, "cpu")


def test_a_device_that_is_missing_leaves_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("torch.cuda.is_available", lambda: False)
    with pytest.raises(UserError, match="no CUDA device here"):
        recovery.recover(Recover("dieren", tmp_path / "out", seeds=1, workers=1, device="cuda"))
    assert list(tmp_path.iterdir()) == []


def test_both_kinds_of_error_are_counted() -> None:
    outcomes = ["exact", "exact", "wrong rule", "no reliable rule", "no reliable rule"]
    families = ["contains", "contains", "ends", "ends", "no rule"]
    table = pd.DataFrame({"family": families, "outcome": outcomes, "way": "best", "seconds": 2.0})
    others = table.assign(way="Transformer", outcome="wrong rule")  # only the answer counts
    table = pd.concat([table, others])
    assert _findings(table)[0].startswith(
        "Rules recovered exactly by lab rule: 2 of 4 (50%, 95% interval 15% to 85%). Rules "
        "for which it found no reliable rule: 1. Corpora for which it found a wrong one: 1 of 5."
    )
    by = shares(table).set_index("way").loc["best"].set_index("family")
    assert by["share"].to_dict() == {"contains": 1.0, "ends": 0.0, "no rule": 0.0}
    assert by.loc["ends", ["exact", "no reliable rule", "wrong rule"]].tolist() == [0, 1, 1]


@pytest.mark.slow
@pytest.mark.parametrize("study", ["dieren", "lines", "noise", "disfluent"])
def test_a_study_is_kept_and_drawn(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, study: Any
) -> None:
    answering(monkeypatch, Families(("a", "b")).contains("a"), "rule")
    result = recovery.recover(Recover(study, tmp_path, seeds=1, workers=1))
    kept = Answers(tmp_path, file_name(study)).latest()
    assert kept is not None
    pd.testing.assert_frame_equal(kept.table, result.table)
    assert set(kept.table["outcome"]) == {"wrong rule", "no reliable rule"}
    assert recovery_chart(kept).to_dict()["layer"]
    assert kept.folder is not None
    assert (kept.folder / f"recovery-{study}.svg").exists()


@pytest.mark.parametrize(
    ("arguments", "fault"),
    [
        (["recover", "colours"], "colours"),
        (["recover", "automata"], "write `lab recover automata --automata DIR`"),
        (["recover", "rules", "--automata", "."], "write `lab recover automata --automata DIR`"),
        (["recover", "automata", "--automata", "NONE"], "NONE has no automaton, *.att"),
        (["recover", "rules", "--seeds", "-1"], "--seeds is -1: it must be at least 0"),
        (["rule", "NONE.tsv"], "cannot read"),
        (["rule"], "lines"),
    ],
)
def test_a_mistake_is_one_line(
    capsys: pytest.CaptureFixture[str], arguments: list[str], fault: str
) -> None:
    assert main(arguments) == 2
    said = capsys.readouterr().err
    assert fault.lower() in said.lower()
    assert said.count("\n") == 1
