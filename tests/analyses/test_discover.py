"""`lab rule`: what is read and refused, what is learned, and what is said of it."""

from __future__ import annotations

import json
import os
import time
from collections import Counter
from itertools import islice
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pandas as pd
import pytest
from compared import plainly
from conftest import made_once
from drawn import read_json
from parts import part
from streamlit.testing.v1 import AppTest

from analyses.answer_files import folders_of
from analyses.answers import Answer
from analyses.command_line.app import main
from analyses.options.lines import OTHERS, WORDS
from analyses.questions.rule.rule_evidence import SURE, Lines, rebuilt
from analyses.rules import discover as module
from analyses.rules.budget import Budget
from analyses.rules.discover import Discover, discover
from analyses.rules.lines import MOST_LINES, _fewer_words, as_tsv, prepared
from analyses.rules.record import FOLDER, LINES, RECORD, evidence, headline
from interp.automata.extraction import run as verdicts_of
from interp.automata.formulas.search import search
from models.errors import UserError
from models.languages import LabelledCorpus, Word, language, printed_lines
from models.languages.corpus import MERGED
from models.languages.vocabulary import BOS
from models.runs.files import write_bytes, write_json
from models.runs.run import Run
from models.training.recipes import recipe

PAGE = """
from dashboard.views.discover import from_lines
from dashboard.drawing import explain_errors
with explain_errors():
    from_lines.show()
"""


def written(path: Path, labels: list[str], lines: list[str]) -> Path:
    rows = zip(labels, lines, strict=True)
    path.write_text("".join(f"{label}\t{line}\n" for label, line in rows), encoding="utf-8")
    return path


def drawn(count: int, seed: int = 0) -> tuple[list[str], list[str]]:
    """Lines over x, y, z that are "ja" if they contain x before a later y."""
    rng = np.random.default_rng(seed)
    lines = ["".join(rng.choice(list("xyz"), rng.integers(2, 8))) for _ in range(count)]
    labels = ["ja" if "y" in line.partition("x")[2] else "nee" for line in lines]
    return labels, [" ".join(line) for line in lines]


@pytest.fixture(scope="module")
def found(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A finished discovery, made by the command itself."""

    def make(folder: Path) -> None:
        path = written(folder / "mijn regels.tsv", *drawn(900))
        assert main(["rule", str(path), "--out", str(folder), "--accepted", "ja"]) == 0

    return made_once(tmp_path_factory, "discover", make, copy=True)


# -- from lines to the rule ---------------------------------------------------------------------


def test_the_rule_comes_back(found: Path) -> None:
    record = read_json(found / "discoveries" / "mijn-regels" / RECORD)
    assert record["status"] == "finished"
    assert headline(record) == "A line is ja if it contains x ... y in this order."
    answer = record["found"]
    assert (answer["status"], answer["n_states"], answer["wrong"]) == ("rule", 3, 0)
    assert answer["agreement_truth"] == 1.0
    labels, lines = drawn(500, seed=1)
    words = [tuple(line.split()) for line in lines]
    dfa = rebuilt(answer["dfa"], ("x", "y", "z"))
    assert verdicts_of(dfa, words).tolist() == [label == "ja" for label in labels]


@pytest.mark.slow
def test_all_ways_stand_in_one_table(found: Path) -> None:
    record = read_json(found / "discoveries" / "mijn-regels" / RECORD)
    ways = {way["way"]: way for way in record["ways"]}
    assert list(ways) == ["Transformer", "classes", "LSTM", "RPNI", "EDSM"]
    for way in ("Transformer", "classes", "RPNI", "EDSM"):
        assert ways[way]["rule"] == "contains x ... y in this order"
        assert (ways[way]["wrong"], ways[way]["held-out right"], ways[way]["same"]) == (0, 1, True)
    assert ways["classes"]["having"][0][0] == ways["classes"]["having"][0][1]
    assert ways["classes"]["having"][1][0] == 0


def test_the_best_network_is_a_normal_run(found: Path) -> None:
    record = read_json(found / "discoveries" / "mijn-regels" / RECORD)
    run = Run(found / record["run"])
    assert run.record["status"] == "finished"
    assert record["run"] in [network["run"] for network in record["networks"]]
    assert folders_of(run.path, "discovery")


def test_nothing_is_learned_twice(
    found: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def twice(*arguments: object) -> None:
        raise AssertionError("trained or asked again")

    monkeypatch.setattr("models.training.loop._train", twice)
    monkeypatch.setattr("interp.automata.induction.extract", twice)
    before = read_json(found / "discoveries" / "mijn-regels" / RECORD)
    path = found / "mijn regels.tsv"
    assert main(["rule", str(path), "--out", str(found), "--accepted", "ja", "--json"]) == 0
    answer = json.loads(capsys.readouterr().out)
    assert {"words", "class", "dfa", "space", "decide", "agreement"} <= set(answer)
    assert answer["dfa"] == before["best"]["dfa"]


def test_other_lines_of_the_same_name_are_not_mixed_up(found: Path, tmp_path: Path) -> None:
    other = written(tmp_path / "mijn regels.tsv", *drawn(200, seed=5))
    folder = found / "discoveries" / "mijn-regels"
    before = (folder / RECORD).read_bytes()
    with pytest.raises(UserError, match=r"^[^\n]*was made of other lines[^\n]*--out$"):
        discover(Discover(other, found, accepted="ja", rivals=False))
    assert (folder / RECORD).read_bytes() == before


@pytest.fixture(scope="module")
def printed(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, dict[str, Any]]:
    """The folder and the record of a discovery in the printed lines."""
    folder = tmp_path_factory.mktemp("printed")
    groups, words = zip(*printed_lines(), strict=True)
    path = written(folder / "printed.tsv", list(groups), [" ".join(word) for word in words])
    return folder, discover(Discover(path, folder))


@pytest.mark.slow
def test_the_printed_lines_have_a_rule_and_others_beside_it(
    printed: tuple[Path, dict[str, Any]],
) -> None:
    """Too few for a network; the search of classes is sure, and says what would decide."""
    groups, words = zip(*printed_lines(), strict=True)
    _, record = printed
    assert record["found"]["status"] == "none"
    assert record["run"] is None
    assert record["networks"] == []
    assert {way["way"]: way["status"] for way in record["ways"]} == {
        "classes": "rule",
        "RPNI": "none",
        "EDSM": "none",
    }
    assert headline(record) == (
        "A line is A if it is one or more leeuw, then one or more olifant, then one or more leeuw "
        "(with all but leeuw and olifant left out)."
    )
    assert evidence(record).startswith(
        "Found by the search of classes of rules: 13 of 13 lines of A and 0 of 13 lines of B obey "
        "it (exact test: p = 0.006 after correction for 7,856 rules of its kind and for 8 kinds)."
    )
    assert record["best"]["n_states"] == 5
    assert record["best"]["class"].startswith("piecewise testable, up to 3 symbols in order")
    assert len(record["space"]) > 1
    assert ["leeuw", "olifant", "leeuw", "olifant"] in record["decide"]
    for rule in record["space"]:
        dfa = rebuilt(rule["dfa"], sorted({s for _, s, _ in rule["dfa"]["transitions"]}))
        assert verdicts_of(dfa, list(words)).tolist() == [group == "A" for group in groups]


def test_one_held_out_line_of_a_label_does_not_hide_a_rule() -> None:
    """(1 0)+: seven of a hundred lines, of which one is held out; none contradicts the rule."""
    pairs = language("tomita2")
    yes: list[Word] = [("1", "0") * count for count in range(1, 8)]
    drawn = np.random.default_rng(0).integers(2, size=(110, 8)).astype(str)
    no = [word for row in np.unique(drawn, axis=0).tolist() if (word := tuple(row)) not in yes][:80]
    corpus = LabelledCorpus("pairs", ["in"] * len(yes) + ["out"] * len(no), [*yes, *no])
    words = [*yes, *no]
    truth = np.array([pairs.contains(word) for word in words])
    out = np.arange(len(words)) % 10 == 3  # so many are held out
    lines, held = (
        Lines([w for w, x in zip(words, some, strict=True) if x], truth[some])
        for some in (~out, out)
    )
    searched = search(lines.words, lines.labels, corpus.vocabulary.symbols)
    options = Discover(Path("pairs.tsv"), rivals=False)
    ways = module._finders(options, Path(), corpus, (lines, held), lambda: searched)
    found = ways["classes"]()
    assert held.labels.sum() == 1
    assert found["p"] >= SURE > found["p_fitted"]
    assert (found["status"], found["doubt"], found["wrong"]) == ("rule", None, 0)


@pytest.mark.parametrize("bits", [(30.0, 10.0, 20.0), (10.0, 20.0, 30.0), (None, 30.0, 20.0)])
def test_the_network_of_the_shortest_code_is_kept(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, bits: tuple[float | None, ...]
) -> None:
    """Wherever it stands in the row of networks, of which none explains the lines."""
    said = dict.fromkeys(("rule", "n_states", "wrong", "network_right", "doubt"))
    said |= {"status": "none", "network_p": 0.0, "finished": True}
    found = [{**said, "bits": b} for b in bits]
    answers = (Answer(pd.DataFrame(), "", each) for each in found)
    monkeypatch.setattr(module, "trained", lambda path, *_: SimpleNamespace(name=path.name))
    monkeypatch.setattr(module, "answer", lambda *_: (next(answers), True))
    path = written(tmp_path / "three.tsv", *drawn(100))
    options = Discover(path, tmp_path, networks=len(bits))
    labels, words, _ = prepared(path)
    record: dict[str, Any] = {"networks": []}
    corpus = LabelledCorpus(options.name, labels, words)
    best, run = module._learned(
        options, tmp_path, corpus, record, lambda done, what: None, Budget(2)
    )
    least = min(range(3), key=lambda i: bits[i] or np.inf)
    assert best == found[least]
    assert run.name == record["networks"][least]["run"]
    assert [network["bits"] for network in record["networks"]] == list(bits)


@pytest.mark.parametrize(
    ("changes", "trained"),
    [
        ({}, 3),
        ({"finished": False}, 1),
        ({"doubt": "counting"}, 1),
        ({"finished": False, "network_right": 0.8}, 3),
    ],
)
def test_no_network_is_trained_for_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, changes: dict[str, Any], trained: int
) -> None:
    """Where one knows the lines, and the budget ended or it counts, another would do no better."""
    said = dict.fromkeys(("rule", "n_states", "wrong", "bits", "doubt"))
    said |= {"status": "none", "network_p": 0.0, "network_right": 1.0, "finished": True}
    monkeypatch.setattr(module, "trained", lambda path, *_: SimpleNamespace(name=path.name))
    monkeypatch.setattr(
        module, "answer", lambda *_: (Answer(pd.DataFrame(), "", said | changes), True)
    )
    path = written(tmp_path / "three.tsv", *drawn(100))
    options = Discover(path, tmp_path, networks=3)
    labels, words, _ = prepared(path)
    record: dict[str, Any] = {"networks": []}
    corpus = LabelledCorpus(options.name, labels, words)
    module._learned(options, tmp_path, corpus, record, lambda done, what: None, Budget(2))
    assert len(record["networks"]) == trained


@pytest.mark.parametrize(
    ("minutes", "trained", "stopped"),
    [
        (4.0, 3, None),
        (2.4, 2, "Stopped after 1.7 minutes of CPU, before network 3 of 3: with more than"),
        (0.0, 1, "Stopped after 0.8 minutes of CPU, before network 2 of 3: with more than"),
    ],
)
def test_what_does_not_fit_into_the_time_is_not_begun(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    minutes: float,
    trained: int,
    stopped: str | None,
) -> None:
    """Each network takes 50 seconds of CPU; the first is always trained, and none is broken off."""
    said = dict.fromkeys(("rule", "n_states", "wrong", "bits", "doubt", "network_right"))
    said |= {"status": "none", "network_p": 0.0, "finished": True}
    clock, doing = [100.0], list[str]()

    def network(path: Path, *_: object) -> SimpleNamespace:
        clock[0] += 50
        return SimpleNamespace(name=path.name)

    monkeypatch.setattr("analyses.rules.budget.time.process_time", lambda: clock[0])
    monkeypatch.setattr(module, "trained", network)
    monkeypatch.setattr(module, "answer", lambda *_: (Answer(pd.DataFrame(), "", said), True))
    path = written(tmp_path / "three.tsv", *drawn(100))
    options = Discover(path, tmp_path, networks=3)
    labels, words, _ = prepared(path)
    record: dict[str, Any] = {"networks": []}
    corpus, budget = LabelledCorpus(options.name, labels, words), Budget(minutes, begun=100.0)
    module._learned(
        options, tmp_path, corpus, record, lambda done, what: doing.append(what), budget
    )
    assert len(record["networks"]) == trained
    assert [what.partition(",")[0] for what in doing] == [
        f"network {number} of 3" for number in range(1, trained + 1)
    ]
    assert (budget.stopped or "").startswith(stopped or "")
    assert (budget.stopped is None) == (stopped is None)


@pytest.mark.slow
def test_no_rule_is_said_to_be_none(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Labels by the toss of a coin: after networks that have nothing to say none is trained."""
    _, lines = drawn(400)
    rng = np.random.default_rng(3)
    labels = rng.choice(["ja", "nee"], len(lines)).tolist()
    monkeypatch.setattr(module, "HOPELESS", 1)
    few = tuple({**kind, "steps": 150} for kind in module.CANDIDATES)
    monkeypatch.setattr(module, "CANDIDATES", few)
    path = written(tmp_path / "coin.tsv", labels, lines)
    record = discover(Discover(path, tmp_path, rivals=False))
    assert record["found"]["status"] == "none"
    assert headline(record) == "No reliable rule was found in the lines."
    assert evidence(record).startswith("No reliable rule was found in the network. ")
    assert (record["best"], record["space"], record["decide"]) == (None, [], [])
    assert len(record["networks"]) == 1


# -- what is read, and what is refused ----------------------------------------------------------


def refused(path: Path, **options: object) -> str:
    with pytest.raises(UserError) as caught:
        prepared(path, **options)
    message = str(caught.value)
    assert "\n" not in message
    return message


@pytest.mark.parametrize(
    ("content", "fault"),
    [
        ("", "has no line: write label, tab, words"),
        ("A\ta b\n", "all lines have the label A: a rule tells two apart, so add others"),
        ("A\ta b\nA\tb\n", "all lines have the label A"),
        ("A\ta b\nB\tb\n", "2 different lines of 2 label(s): at least 20"),
        ("A\ta\nB\tb\nC\tc\n", "3 different lines of 3 label(s): at least 20 lines, of two lab"),
        ("A\ta b\nB a b\n", "line 2: expected one tab, found 0"),
        ("A\ta b\nB\ta\tb\n", "line 2: expected one tab, found 2"),
        ("A\ta b\nB\t" + "b " * 201 + "\n", "line 2 has 201 words: cut it to 200"),
        ("label\tline\nA\ta b\nB\t" + "b " * 201 + "\n", "line 3 has 201 words: cut it to 200"),
        ("A\ta\n" * 30 + "B\tb\n" * 30, "2 different lines of 2 label(s) (58 of 60 lines repeat"),
        ("A\ta\nB\ta\n" * 30, "0 different lines of 0 label(s) (59 of 60 lines repeat another"),
        ("A\ta\nB\ta\n", "; 1 lines have both labels: the commoner label is kept, and 1 that"),
    ],
)
def test_what_cannot_be_learned_is_refused_in_one_line(
    tmp_path: Path, content: str, fault: str
) -> None:
    path = tmp_path / "lines.tsv"
    path.write_text(content)
    assert fault in refused(path)


def test_a_device_that_is_missing_leaves_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Neither the record of a learning that never began, nor a folder."""
    monkeypatch.setattr("torch.cuda.is_available", lambda: False)
    path = written(tmp_path / "lines.tsv", *drawn(40))
    with pytest.raises(UserError, match="no CUDA device here"):
        discover(Discover(path, tmp_path / "out", device="cuda"))
    assert list(tmp_path.iterdir()) == [path]


def test_a_run_of_other_settings_in_the_way_is_told_before_anything_is_written(
    tmp_path: Path,
) -> None:
    path = written(tmp_path / "lines.tsv", *drawn(400))
    run = Run.create(tmp_path / "lines-s0", recipe("lines"), path)
    with pytest.raises(UserError, match="lines-s0 holds a run of other settings"):
        discover(Discover(path, tmp_path))
    assert sorted(tmp_path.iterdir()) == [run.path, path]


def test_a_record_that_is_not_of_the_lab_stays(tmp_path: Path) -> None:
    path = written(tmp_path / "lines.tsv", *drawn(40))
    record = tmp_path / FOLDER / "lines" / RECORD
    write_json(record, {"mine": 1})
    for _ in range(2):
        with pytest.raises(UserError, match=r"record\.json.*: move \S+lines away, and ask"):
            discover(Discover(path, tmp_path))
        assert read_json(record) == {"mine": 1}
        labels, words, _ = prepared(path)
        write_bytes(record.parent / LINES, as_tsv(labels, words).encode())  # beside its lines, too


def test_a_folder_in_the_way_of_a_network_leaves_nothing(tmp_path: Path) -> None:
    path = written(tmp_path / "lines.tsv", *drawn(40))
    (tmp_path / "lines-s0").mkdir()
    with pytest.raises(UserError, match="lines-s0 exists already"):
        discover(Discover(path, tmp_path, networks=1))
    assert not (tmp_path / FOLDER).exists()


def test_lines_that_are_no_plain_file_are_not_waited_for(tmp_path: Path) -> None:
    path = written(tmp_path / "lines.tsv", *drawn(40))
    folder = tmp_path / FOLDER / "lines"
    folder.mkdir(parents=True)
    os.mkfifo(folder / LINES)
    with pytest.raises(UserError, match=r"lines\.tsv is not a plain file: remove it"):
        discover(Discover(path, tmp_path))


def test_a_word_that_is_a_token_of_the_lab_leaves_nothing(tmp_path: Path) -> None:
    labels, lines = drawn(40)
    path = written(tmp_path / "lines.tsv", labels, [f"{line} {BOS}" for line in lines])
    with pytest.raises(UserError, match="the symbol '<bos>' is taken already"):
        discover(Discover(path, tmp_path / "out"))
    assert list(tmp_path.iterdir()) == [path]


def test_bounds(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = written(tmp_path / "lines.tsv", *drawn(100))
    assert "cannot read" in refused(tmp_path / "none.tsv")
    assert "no line is labelled 'yes': choose from" in refused(path, accepted="yes")
    monkeypatch.setattr("analyses.rules.lines.MOST_LINES", 99)
    assert "has 100 lines: draw 99 of them at most" in refused(path)
    monkeypatch.setattr("models.languages.files.lines.MOST_BYTES", 100)
    assert "far too many" in refused(path)
    with pytest.raises(UserError, match="networks"):
        Discover(path, networks=0)
    with pytest.raises(UserError, match="seed"):
        Discover(path, seed=-1)


def test_the_accepted_label_comes_first(tmp_path: Path) -> None:
    path = written(tmp_path / "lines.tsv", *drawn(100))
    for first in ("ja", "nee"):
        labels, words, notes = prepared(path, first)
        assert labels[0] == first
        assert notes == [
            f"{100 - len(words)} of 100 lines repeat another line; {len(words)} are different"
        ]
        expected = {(label, tuple(line.split())) for label, line in zip(*drawn(100), strict=True)}
        assert set(zip(labels, words, strict=True)) == expected


def test_of_three_labels_each_has_a_rule_against_the_others(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(module, "_are_enough", lambda corpus: False)  # no network
    _, lines = drawn(90)
    path = written(tmp_path / "lines.tsv", [f"of {line[0]}" for line in lines], lines)
    assert main(["rule", str(path), "--out", str(tmp_path), "--no-rivals", "--json"]) == 0
    told = json.loads(capsys.readouterr().out)
    assert {label: rule["words"] for label, rule in told.items()} == {
        f"of {symbol}": f"starts with {symbol}" for symbol in "xyz"
    }
    for label in told:
        record = read_json(tmp_path / FOLDER / f"lines-{label.replace(' ', '-')}" / RECORD)
        assert record["labels"] == [label, f"not {label}"]
        assert f"{label} is held against the other 2 labels together" in record["notes"]
        table = pd.DataFrame(record["lines"].items(), columns=["label", "lines"])
        assert table["lines"].sum() == len(set(lines))
    assert main(["rule", str(path), "--out", str(tmp_path / "one"), "--accepted", "of y"]) == 0
    out = plainly(capsys.readouterr().out)
    assert "A line is of y if it starts with y" in out
    assert "of z" not in out
    monkeypatch.setattr("analyses.command_line.lines.MOST_LABELS", 2)
    assert main(["rule", str(path), "--out", str(tmp_path)]) == 2
    assert "has 3 labels: choose one with --accepted" in capsys.readouterr().err


def test_a_label_is_found_however_its_accent_is_typed(tmp_path: Path) -> None:
    labels, lines = drawn(100)
    path = written(tmp_path / "lines.tsv", [label.replace("nee", "né") for label in labels], lines)
    assert prepared(path, "ne\u0301")[0][0] == "né"


def test_a_line_with_both_labels_has_the_commoner_one(tmp_path: Path) -> None:
    labels, lines = ["ja", "nee"] * 15, [f"a{i} b" for i in range(30)]
    labels += ["ja", "ja", "nee", "ja", "nee"]
    lines += ["twice", "twice", "twice", "tie", "tie"]
    kept, words, notes = prepared(written(tmp_path / "lines.tsv", labels, lines))
    known = dict(zip(words, kept, strict=True))
    assert known["twice",] == "ja"
    assert ("tie",) not in known
    assert len(words) == 31
    assert notes == [
        "3 of 35 lines repeat another line; 32 are different",
        "2 lines have both labels: the commoner label is kept, and 1 that have both equally often "
        "are left out",
    ]


def test_lines_that_read_alike_are_no_repeats(tmp_path: Path) -> None:
    """600 different lines of many rare words: none is dropped, here and when they are read again.

    The network learns what there is to learn: lines that read alike have their commoner label.
    """
    rng = np.random.default_rng(0)
    pairs = sorted({tuple(pair) for pair in rng.integers(300, size=(600, 2)).tolist()})
    lines = [f"naam{one} ziet naam{other}" for one, other in pairs]
    labels = rng.choice(["good", "bad"], len(lines)).tolist()
    kept, words, notes = prepared(written(tmp_path / "lines.tsv", labels, lines), "good")
    assert len(words) == len(lines)
    assert Counter(kept) == Counter(labels)
    assert "repeat" not in " ".join(notes)
    assert "have both labels" not in " ".join(notes)
    (note,) = notes
    reading = Counter(words)
    alike = {line for line in reading if reading[line] > 1}
    both = {
        line
        for line in alike
        if len({y for y, w in zip(kept, words, strict=True) if w == line}) > 1
    }
    assert note.endswith(
        f"; {sum(reading[line] for line in alike)} lines then read like another line, "
        f"{sum(reading[line] for line in both)} of them like lines of both labels"
    )
    again = written(tmp_path / "again.tsv", kept, [" ".join(line) for line in words])
    assert prepared(again, "good")[:2] == (kept, words)
    corpus = LabelledCorpus("alike", kept, words)
    for line in both:
        votes = Counter(y for y, w in zip(kept, words, strict=True) if w == line)
        assert corpus.contains(line) == (votes["good"] > votes["bad"])


def test_of_many_words_the_telling_ones_are_kept(tmp_path: Path) -> None:
    """5,000 different words; "leeuw" and "muis" go with the labels."""
    rng = np.random.default_rng(0)
    lines = [" ".join(f"w{i}" for i in rng.integers(5000, size=8)) for _ in range(4000)]
    labels = ["ja" if i % 2 else "nee" for i in range(4000)]
    told = {"ja": "leeuw", "nee": "muis"}
    for i in range(0, 4000, 3):
        words = lines[i].split()
        words[rng.integers(8)] = told[labels[i]]
        lines[i] = " ".join(words)
    path = written(tmp_path / "lines.tsv", labels, lines)
    start = time.monotonic()
    _, words, notes = prepared(path)
    assert time.monotonic() - start < 20
    kept = {word for line in words for word in line}
    others = {f"{MERGED}{i}" for i in range(1, OTHERS + 1)}
    assert {"leeuw", "muis"} | others <= kept
    assert len(kept) < WORDS  # of words in one line in six hundred none is sure to tell
    assert "tell the labels apart best are kept, all others are read as 6" in notes[0]
    assert len(words) > 3900
    for line in words:
        assert len(line) == 8


@pytest.mark.parametrize("most", [WORDS, 70])
def test_of_many_common_words_no_more_are_kept_than_a_network_is_taught(most: int) -> None:
    """Those that stand for all others are among them."""
    rng = np.random.default_rng(0)
    labels = np.arange(300) % 2 == 0
    words = [tuple(f"w{i}" for i in rng.choice(80, 20, replace=False)) for _ in labels]
    told = [(*line, "tells") if yes else line for line, yes in zip(words, labels, strict=True)]
    notes = list[str]()
    read = _fewer_words(told, labels, notes, most)
    different = {word for line in read for word in line}
    assert len(different) == most
    assert sum(word.startswith(MERGED) for word in different) == OTHERS
    assert "tells" in different
    assert [len(line) for line in read] == [len(line) for line in told]
    assert notes[0].startswith(f"the lines have 81 different words: {most - OTHERS} that")


@pytest.mark.slow
def test_a_hundred_thousand_lines_of_up_to_two_hundred_words_are_read(tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    lengths = rng.integers(1, 20, size=MOST_LINES)
    lengths[:50] = 200
    letters = iter(rng.choice(list("abcdefgh"), lengths.sum()).tolist())
    lines = [" ".join(islice(letters, n)) for n in lengths]
    labels = ["in" if "a b" in line else "out" for line in lines]
    kept, words, _ = prepared(written(tmp_path / "lines.tsv", labels, lines))
    assert len(words) == len(set(lines))
    assert max(map(len, words)) == 200
    assert Counter(kept) == Counter(
        label for _, label in dict(zip(lines, labels, strict=True)).items()
    )


def test_longer_lines_come_in_smaller_batches(tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    lines = [" ".join(rng.choice(list("ab"), 200)) for _ in range(40)]
    path = written(tmp_path / "lines.tsv", ["in", "out"] * 20, lines)
    labels, words, _ = prepared(path)
    corpus = LabelledCorpus("lines", labels, words)
    config = module._configuration(Discover(path), corpus, module.CANDIDATES[0])
    assert config.batch_size == 16


def test_a_name_is_safe_and_no_language_s(tmp_path: Path) -> None:
    names = {
        "dieren.tsv": "dieren-lines",
        "../a b.tsv": "a-b",
        "....tsv": "lines",
        "ok_1.txt": "ok_1",
    }
    assert {stem: Discover(Path(stem)).name for stem in names} == names


# -- the page -----------------------------------------------------------------------------------


@pytest.fixture
def page(found: Path, monkeypatch: pytest.MonkeyPatch) -> AppTest:
    monkeypatch.setattr("sys.argv", ["app.py", str(found)])
    page = AppTest.from_string(PAGE, default_timeout=60).run()
    assert not page.exception
    return page


def said(page: AppTest) -> str:
    return "\n".join(plainly(element.value) for element in [*page.markdown, *page.caption])


def test_the_page_says_the_rule_and_judges_a_typed_line(page: AppTest) -> None:
    assert "#### A line is ja if it contains x ... y in this order." in said(page)
    part(page, "Try a line").text_input(key="line_mijn-regels").set_value("z x z y").run()
    assert not page.exception
    verdicts = [metric.value for metric in page.metric if metric.label.endswith("says")]
    assert verdicts == ["ja", "ja"]
    assert "z :orange-background[**x**] →1 z :orange-background[**y**] →2" in said(page)
    page.text_input(key="line_mijn-regels").set_value("y z x").run()
    verdicts = [metric.value for metric in page.metric if metric.label.endswith("says")]
    assert verdicts == ["nee", "nee"]
    page.text_input(key="line_mijn-regels").set_value("y q").run()
    assert not page.exception
    assert len(page.error) == 1


def test_the_page_shows_all_ways(page: AppTest) -> None:
    part(page, "Who finds what")
    (ways,) = [each.value for each in page.dataframe if "way" in each.value]
    assert list(ways["way"]) == ["Transformer", "classes", "LSTM", "RPNI", "EDSM"]


@pytest.mark.slow
def test_the_page_shows_the_best_rule_and_the_others_where_no_network_learned(
    printed: tuple[Path, dict[str, Any]], monkeypatch: pytest.MonkeyPatch
) -> None:
    folder, record = printed
    monkeypatch.setattr("sys.argv", ["app.py", str(folder)])
    page = AppTest.from_string(PAGE, default_timeout=60).run()
    assert not page.exception
    assert "#### A line is A if it is one or more leeuw" in said(page)
    assert "26 lines are too few to teach a network" in said(page)
    part(page, "Other rules that fit")
    assert not page.error
    assert f"The lines do not exclude {len(record['space'])} other rules" in said(page)
    assert said(page).count("differs from the rule above on") == len(record["space"]) > 1
    for line in record["decide"][:3]:
        assert page.button(key=f"answer True {' '.join(line)}").label == "A"


def test_a_learner_that_is_gone_is_not_waited_for(found: Path, page: AppTest) -> None:
    folder = found / "discoveries" / "half"
    folder.mkdir(exist_ok=True)
    record = {"name": "half", "status": "learning", "doing": "half-s0: step 50", "networks": []}
    write_json(folder / RECORD, record | {"options": {"accepted": "ja"}})
    written(folder / "half.tsv", *drawn(50))
    page.run()
    page.selectbox(key="corpus").set_value("half").run()
    assert not page.exception
    assert [warning.value for warning in page.warning] == [
        "The discovery of half did not finish. What it has learned so far is kept."
    ]
    assert [button.label for button in page.button] == ["Go on", "Remove this corpus"]
    assert (found / "discoveries" / "mijn-regels" / LINES).exists()
