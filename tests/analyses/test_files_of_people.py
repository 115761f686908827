"""Files in the shapes that people have, from the file to the answer, by commands of the lab."""

from __future__ import annotations

import json
from itertools import product
from pathlib import Path

import numpy as np
import pytest

from analyses.command_line.app import main
from models.runs.run import Run

WORDS = [" ".join(word) for n in range(1, 7) for word in product("ab", repeat=n)]
CONTAINS = [(("no", "yes")["b a b" in word], word) for word in WORDS]


def tell(capsys: pytest.CaptureFixture[str], *words: str) -> str:
    """What a command prints."""
    assert main([*words]) == 0
    return capsys.readouterr().out


@pytest.fixture(autouse=True)
def _here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


CSV = "id,sentence,gold_label\n" + "".join(
    f'{number},"{word}",{label}\n' for number, (label, word) in enumerate(CONTAINS)
)
ABBADINGO = f"{len(CONTAINS)} 2\n" + "".join(
    f"{int(label == 'yes')} {len(word.split())} {word}\n" for label, word in CONTAINS
)


NAMED = CSV.replace("sentence,gold_label", "Utterance,Verdict")
QUOTED = CSV.split("\n", 1)[1].replace("b,no\n", 'b,"n\to"\n').replace('b",no\n', 'b","n\to"\n')
GLUED = "".join(f"{label}\t{word.replace(' ', '')}\n" for label, word in CONTAINS)


@pytest.mark.parametrize(
    ("text", "accepted", "chosen"),
    [
        (CSV, "yes", ()),
        (ABBADINGO, "1", ()),
        (NAMED, "yes", ("--label", "verdict", "--text", "utterance")),
        (QUOTED, "yes", ("--label", "3", "--text", "2")),
        (GLUED.replace("a", "e\u0301"), "yes", ("--letters",)),
    ],
)
def test_columns_and_competitions_to_a_rule(
    text: str, accepted: str, chosen: tuple[str, ...], capsys: pytest.CaptureFixture[str]
) -> None:
    Path("a.csv").write_text(text)
    words = ["rule", "a.csv", "--accepted", accepted, "--minutes", "0", "--no-rivals", "--json"]
    answer = json.loads(tell(capsys, *words, *chosen))
    part = "b é b" if "--letters" in chosen else "b a b"
    assert answer["headline"] == f"A line is {accepted} if it contains {part} side by side."


@pytest.mark.parametrize(
    ("objective", "chosen", "kept"),
    [
        ("verdict", ("--label", "Verdict", "--text", "utterance"), "label\ttext\nno\ta\nno\tb\n"),
        ("language-model", ("--text", "Utterance"), "a\nb\na a\n"),
        (
            "sequence-to-sequence",
            ("--source", "id", "--target", "utterance"),
            "source\ttarget\n0\ta\n1\tb\n",
        ),
    ],
)
def test_a_run_keeps_the_columns_that_were_chosen(
    objective: str, chosen: tuple[str, ...], kept: str, capsys: pytest.CaptureFixture[str]
) -> None:
    Path("a.csv").write_text(NAMED)
    more = ("--objective", objective, "--steps", "1", "--evaluate-every", "1")
    tell(capsys, "train", "--corpus", "a.csv", *more, *chosen)
    (corpus,) = Path("runs").glob("*/corpus.tsv")
    assert corpus.read_text().startswith(kept)
    assert len(Run(corpus.parent).language.lines) == len(WORDS)


@pytest.mark.parametrize(
    ("words", "fault"),
    [
        ("rule a.csv --label verdict", "--label and --text: name these and no others, or none"),
        ("rule a.csv --label verdikt --text Utterance", "did you mean Verdict? choose one of id, "),
        ("rule a.csv --label 1 --text 4", "unknown column '4': "),
        ("rule c.csv --label 1 --text 2", "c.csv, line 2 has no label: write label, tab, text"),
        ("rule b.txt --label 1 --text 2", "b.txt has no columns to choose from: put tabs or "),
        ("train --corpus a.csv --source id --target verdict", "--label and --text: name these"),
        ("train --corpus a.csv --objective next-symbols --letters", "a.csv: a file of lines says"),
        ("train anbn --text 2", "say how a file is read: give --corpus FILE"),
    ],
)
def test_columns_that_are_not_there_are_told_in_one_line(
    words: str, fault: str, capsys: pytest.CaptureFixture[str]
) -> None:
    Path("a.csv").write_text(NAMED)
    Path("b.txt").write_text("a b\nb b\n")
    Path("c.csv").write_text("yes,a b\n,b b\n")
    assert main(words.split()) == 2
    said = capsys.readouterr().err
    assert fault in said
    assert said.count("\n") == 1
    assert "tmp" not in said
    assert not Path("runs").exists() or not [*Path("runs").iterdir()]


def test_minimal_pairs_to_patching(capsys: pytest.CaptureFixture[str]) -> None:
    nouns = {"hond": "honden", "kat": "katten", "aap": "apen", "muis": "muizen"}
    verbs = {"slaapt": "slapen", "loopt": "lopen", "eet": "eten"}
    rows = [
        {"sentence_good": f"{place} {noun} {good}", "sentence_bad": f"{place} {noun} {bad}"}
        for place in ("nu", "hier", "daar", "soms", "vaak")
        for one, many in nouns.items()
        for single, plural in verbs.items()
        for noun, good, bad in ((one, single, plural), (many, plural, single))
    ]
    Path("pairs.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    said = tell(capsys, "train", "--corpus", "pairs.jsonl", "--steps", "100")
    assert "read as minimal pairs, two labelled lines each" in said
    told = tell(capsys, "analyse", "runs/pairs-s0", "patching", "--json")
    assert json.loads(told)["findings"]["word"][1] in {*nouns, *nouns.values()}


def treebank(count: int) -> str:
    """Sentences "de (grote) hond (die de kat ziet) slaapt", with their heads."""
    rng, blocks = np.random.default_rng(0), []

    def phrase(rows: list[list[str]], heads: list[int], depth: int) -> int:
        start = len(rows)
        rows.append(["de", "DET"])
        heads.append(-1)
        for _ in range(rng.integers(0, 3)):
            rows.append([str(rng.choice(["grote", "kleine", "oude"])), "ADJ"])
            heads.append(-1)
        noun = len(rows)
        rows.append([str(rng.choice(["hond", "kat", "aap"])), "NOUN"])
        heads.append(-1)
        heads[start:noun] = [noun] * (noun - start)
        if depth < 2 and rng.random() < 0.4:
            rows.append(["die", "PRON"])
            heads.append(-1)
            inner = phrase(rows, heads, depth + 1)
            verb = len(rows)
            rows.append([str(rng.choice(["ziet", "hoort"])), "VERB"])
            heads.append(noun)
            heads[inner] = heads[noun + 1] = verb
        return noun

    for _ in range(count):
        rows, heads = list[list[str]](), list[int]()
        subject = phrase(rows, heads, 0)
        heads[subject] = len(rows)
        rows.append([str(rng.choice(["slaapt", "loopt"])), "VERB"])
        heads.append(-1)
        lines = [
            f"{at}\t{form}\t{form}\t{tag}\t_\t_\t{head + 1}\t_\t_\t_"
            for at, ((form, tag), head) in enumerate(zip(rows, heads, strict=True), 1)
        ]
        blocks.append("\n".join(["# a comment", *lines]))
    return "\n\n".join(blocks) + "\n"


def test_a_treebank_to_syntax(capsys: pytest.CaptureFixture[str]) -> None:
    Path("bank.conllu").write_text(treebank(250))
    options = ["--objective", "language-model", "--steps", "60"]
    assert "read as a treebank" in tell(capsys, "train", "--corpus", "bank.conllu", *options)
    said = tell(capsys, "analyse", "runs/bank-lm-s0", "syntax", "--words", "60")
    assert "structural probe orders symbols by depth in the tree" in said
    tags = ["--objective", "tags", "--model.mask", "bidirectional", "--steps", "60"]
    assert "exact" in tell(capsys, "train", "--corpus", "bank.conllu", *tags)


def test_scan_to_targets(capsys: pytest.CaptureFixture[str]) -> None:
    actions = {"jump": "JUMP", "walk": "WALK", "look": "LOOK", "run": "RUN"}
    pairs = [
        (f"{one} {often} and {two} {again}", [actions[one]] * n + [actions[two]] * m)
        for one, two in product(actions, repeat=2)
        for often, n in (("once", 1), ("twice", 2), ("thrice", 3))
        for again, m in (("once", 1), ("twice", 2), ("thrice", 3))
    ]
    Path("scan.txt").write_text(
        "".join(f"IN: {source} OUT: {' '.join(target)}\n" for source, target in pairs)
    )
    options = "--objective sequence-to-sequence --steps 100"
    tell(capsys, "train", "--corpus", "scan.txt", *options.split())
    answer = json.loads(tell(capsys, "analyse", "runs/scan-sinusoidal-s0", "targets", "--json"))
    assert "targets" in answer["sentence"]


def test_a_machine_of_jflap_to_its_language(capsys: pytest.CaptureFixture[str]) -> None:
    arrows = [(0, "a", 1), (1, "b", 0)]
    parts = "".join(
        f"<transition><from>{one}</from><to>{other}</to><read>{letter}</read></transition>"
        for one, letter, other in arrows
    )
    states = '<state id="0"><initial/></state><state id="1"><final/></state>'
    Path("m.jff").write_text(
        f"<structure><type>fa</type><automaton>{states}{parts}</automaton></structure>"
    )
    said = tell(capsys, "languages", "mine", "--grammar", "m.jff", "--word", "a b a")
    assert "mine is regular. It is read by a finite automaton." in said
    assert "S -> 'a' Q1" in said
