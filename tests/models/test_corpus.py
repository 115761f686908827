"""A corpus of labelled lines: reading, refusing, splitting."""

from __future__ import annotations

import json
import os
from pathlib import Path

import numpy as np
import pytest
from conftest import tiny_config
from hypothesis import given
from hypothesis import strategies as st

from analyses.command_line.app import main
from models.errors import UserError
from models.languages import (
    BOS,
    END,
    LabelledCorpus,
    corpus_name,
    language,
    printed_lines,
    read_lines,
)
from models.languages.corpus import SPLITS, check_sides, sides_of
from models.runs.run import Run
from models.training.loop import train


@pytest.fixture
def corpus() -> LabelledCorpus:
    """300 lines of dieren, many of them twice."""
    lang = language("dieren")
    sample = lang.sample(np.random.default_rng(0), 200, range(4, 9))
    rows = np.arange(300) % 200
    words = [lang.vocabulary.decode(sample.words.ids[i, : sample.words.lengths[i]]) for i in rows]
    return LabelledCorpus("lines", ["+" if sample.labels[i] else "-" for i in rows], words)


def refused(path: Path, content: str | bytes) -> str:
    path.write_bytes(content if isinstance(content, bytes) else content.encode())
    with pytest.raises(UserError) as caught:
        LabelledCorpus.from_file(path)
    message = str(caught.value)
    assert "\n" not in message
    assert path.name in message or path.stem in message
    return message


@pytest.mark.parametrize(
    ("content", "fault"),
    [
        ("A\ta b\nB c d\n", "line 2: expected one tab, found 0"),
        ("A\ta b\nB\tc\td\n", "line 2: expected one tab, found 2"),
        ("A\ta b\n\nB\tc d\n", "line 2: the line is empty"),
        ("A\ta b\n \t\nB\tc d\n", "line 2: the line is empty"),
        ("A\t\nB\t \n", "lines.tsv: no line has words: write label, tab, words"),
        ("A\ta b\n\tb\n", "line 2 has no label: write label, tab, words"),
        ("label\tline\nA\ta b\nB\n", "line 3: expected one tab"),
        ("A\ta b\nA\tc d\n", "found 1 label"),
        ("", "found 0 label"),
        ("label\tline\n", "found 0 label"),
        ("A\ta\nB\tb\nC\tc\n", "found 3 label"),
        ("A\ta b\n".encode("utf-16-be"), "not UTF-8 (byte 0)"),
        (b"A\ta b\nB\tc\0 d\n", "not UTF-8 (byte 9)"),
        ("A\ta b\nB\ta b\n", "the line 'a b' has both labels"),
    ],
)
def test_a_malformed_file_is_refused_in_one_line(tmp_path: Path, content: str, fault: str) -> None:
    assert fault in refused(tmp_path / "lines.tsv", content)


@pytest.mark.parametrize("token", [BOS, END])
def test_a_line_cannot_hold_the_lab_s_own_tokens(tmp_path: Path, token: str) -> None:
    path = tmp_path / "lines.tsv"
    path.write_text(f"A\ta {token}\nB\ta b\n")
    with pytest.raises(UserError, match=f"^the symbol '{token}' is taken already[^\n]*$"):
        LabelledCorpus.from_file(path)


def test_a_missing_file_is_refused_in_one_line(tmp_path: Path) -> None:
    with pytest.raises(UserError, match=r"^cannot read [^\n]*no\.tsv \(No such file[^\n]*$"):
        LabelledCorpus.from_file(tmp_path / "no.tsv")
    with pytest.raises(UserError, match=r"^[^\n]* is a folder, not a file[^\n]*$"):
        LabelledCorpus.from_file(tmp_path)


@pytest.mark.parametrize(
    "content",
    [
        "A\ta b\nB\tc\n",
        "A\ta b\r\nB\tc\r\n",
        "\ufeffA\ta b\nB\tc",
        "Label\twords\nA\ta  b \nB\tc\n",
        "A\ta b\nA\ta b\nB\tc\n",
    ],
    ids=["plain", "Windows", "byte order mark", "header and spaces", "a line twice"],
)
def test_what_is_read(tmp_path: Path, content: str) -> None:
    path = tmp_path / "lines.tsv"
    path.write_text(content, encoding="utf-8", newline="")
    corpus = LabelledCorpus.from_file(path)
    assert (corpus.name, corpus.positive, corpus.negative) == ("lines", "A", "B")
    assert corpus.vocabulary.symbols == ("a", "b", "c")
    assert corpus.contains(("a", "b"))
    assert not corpus.contains(("c",))
    assert corpus.next_symbols(("a", "b")) == {END}
    assert corpus.next_symbols(("c",)) == frozenset()
    assert corpus.state(("c",)) == {}
    assert corpus.rationale(("c",)) is None
    assert corpus.substitution_effects(("c",)) is None


def test_line_breaks_of_other_alphabets_do_not_cut_a_line(tmp_path: Path) -> None:
    """Only newlines end a line: a next-line sign or a form feed is white space inside it."""
    path = tmp_path / "lines.tsv"
    path.write_text("A\ta\u2028b\x0cc\nB\tc\x85d\n", encoding="utf-8")
    corpus = LabelledCorpus.from_file(path)
    assert corpus.contains(("a", "b", "c"))
    assert not corpus.contains(("c", "d"))


def test_the_label_of_an_unknown_line_is_not_guessed(corpus: LabelledCorpus) -> None:
    with pytest.raises(UserError, match=r"^the line 'aap' is not in lines[^\n]*$"):
        corpus.contains(("aap",))


def test_no_line_is_on_two_sides(corpus: LabelledCorpus) -> None:
    rng = np.random.default_rng(0)
    sides = {}
    for split in ("train", "validation", "test"):
        sample = corpus.sample(rng, 2000, corpus.lengths(1), split=split)
        pairs = zip(sample.words.ids, sample.words.lengths, strict=True)
        sides[split] = {corpus.vocabulary.decode(ids[:length]) for ids, length in pairs}
        truth = [language("dieren").contains(w) for w in sides[split]]
        assert [corpus.contains(w) == (corpus.positive == "+") for w in sides[split]] == truth
    assert not sides["train"] & sides["validation"]
    assert not sides["train"] & sides["test"]
    assert not sides["validation"] & sides["test"]
    total = sum(map(len, sides.values()))
    assert 0.7 < len(sides["train"]) / total < 0.9
    assert all(len(side) > 5 for side in sides.values())


def test_a_line_keeps_its_side_in_any_corpus(corpus: LabelledCorpus) -> None:
    """The side hangs on the words alone: more lines, or another order, move none."""
    decode = corpus.vocabulary.decode
    words = [decode(ids[:n]) for ids, n in zip(corpus.lines.ids, corpus.lines.lengths, strict=True)]
    labels = np.where(corpus.line_labels, "+", "-").tolist()
    half = LabelledCorpus("half", labels[::-2], words[::-2])
    rng = np.random.default_rng(0)
    test_lines = {
        c.name: {
            c.vocabulary.decode(ids)
            for length in (5, 6)
            for ids in c.sample(rng, 500, [length], split="test").words.ids
        }
        for c in (corpus, half)
    }
    assert test_lines["half"] <= test_lines["lines"]


def test_samples_of_one_label_and_length(corpus: LabelledCorpus) -> None:
    rng = np.random.default_rng(0)
    for label in (True, False):
        sample = corpus.sample(rng, 50, [6], label=label)
        assert (sample.labels == label).all()
        assert (sample.words.lengths == 6).all()
    with pytest.raises(LookupError):
        corpus.sample(rng, 5, [99])


def test_a_counterfactual_is_the_nearest_line_of_the_other_label() -> None:
    words = [tuple(w) for w in ("aab", "abb", "bbb", "aaa", "ab")]
    corpus = LabelledCorpus("lines", ["in", "out", "out", "out", "in"], words)
    assert corpus.counterfactual("bbb") == ("a", "a", "b")
    assert corpus.counterfactual("aab") in {("a", "b", "b"), ("a", "a", "a")}
    rng = np.random.default_rng(0)
    drawn = {corpus.counterfactual("aab", rng) for _ in range(30)}
    assert drawn == {("a", "b", "b"), ("a", "a", "a")}
    with pytest.raises(LookupError):
        corpus.counterfactual("ab")


def test_the_printed_lines_are_a_corpus() -> None:
    labels, words = zip(*printed_lines(), strict=True)
    corpus = LabelledCorpus("printed", labels, words)
    assert corpus.positive == "A"
    assert corpus.lengths(3) == range(9, 11)
    assert corpus.positive_lengths(range(20)) == [9, 10]
    assert corpus.example() in words[:13]


def test_a_header_is_no_label(tmp_path: Path) -> None:
    """ "class" and "group" may also be what lines are labelled."""
    path = tmp_path / "lines.tsv"
    path.write_text("class\ta b\ngroup\tc\nclass\tc c\n")
    assert read_lines(path)[0] == ["class", "group", "class"]
    path.write_text("class\tline\nA\tc\nB\tc c\n")
    assert read_lines(path)[0] == ["A", "B"]


@pytest.mark.parametrize(
    ("name", "called"),
    [
        ("lines.tsv", "lines"),
        ("dieren.tsv", "dieren-lines"),
        (".hidden.tsv", "hidden"),
        ("[b] c.tsv", "b--c"),
        ("--.tsv", "lines"),
        ("x" * 300, "x" * 100),
        ("ü" * 300, "ü" * 50),
    ],
)
def test_a_corpus_is_called_what_a_folder_may_be_called(name: str, called: str) -> None:
    assert corpus_name(Path(name)) == called


def test_what_is_no_file_or_too_much_of_one_is_not_read(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    for path in (tmp_path / "pipe", Path("/dev/zero")):
        with pytest.raises(UserError, match=r"^[^\n]* is not a plain file: [^\n]*$"):
            read_lines(path)
    (tmp_path / "large").touch()
    os.truncate(tmp_path / "large", 65 * 2**20)
    with pytest.raises(UserError, match=r"^[^\n]*large has 65 MiB, far too many [^\n]*$"):
        read_lines(tmp_path / "large")


# -- rare and unknown words -----------------------------------------------------------------------


def test_words_in_few_lines_become_unk() -> None:
    words = [("a", "b"), ("a", "c", "c"), ("b", "a"), ("d",)]
    corpus = LabelledCorpus("lines", ["x", "y", "x", "y"], words, rare=2)
    assert corpus.vocabulary.symbols == ("<unk>", "a", "b")
    read = [corpus.vocabulary.decode(row[:n]) for row, n in lines_of(corpus)]
    assert read == [("a", "b"), ("a", "<unk>", "<unk>"), ("b", "a"), ("<unk>",)]


def test_lines_that_read_alike_may_have_both_labels() -> None:
    """Before rare words became <unk> they were different lines; the truth is the commoner label."""
    words = [("a", "a"), ("a", "b"), ("a", "c"), ("a", "d"), ("a", "a")]
    corpus = LabelledCorpus("lines", ["x", "y", "x", "x", "x"], words, rare=2)
    assert corpus.contains(("a", "<unk>"))
    sides = [corpus.sides(side) for side in ("train", "validation", "test")]
    labels = [y for lines, told in sides for w, y in zip(lines, told, strict=True) if w[1] != "a"]
    assert sorted(labels) == [False, True, True]


def lines_of(corpus: LabelledCorpus) -> list[tuple[np.ndarray, int]]:
    return list(zip(corpus.lines.ids, corpus.lines.lengths.tolist(), strict=True))


def test_an_unknown_word_is_read_as_unk_only_where_it_was_asked_for() -> None:
    words = [("aap", "beer"), ("beer", "aap")]
    asked = LabelledCorpus("lines", ["x", "y"], words, rare=1).vocabulary
    assert asked.parse("aap misspelled beer <bos>") == ("aap", "<unk>", "beer", "<unk>")
    letters = LabelledCorpus("lines", ["x", "y"], [("a", "b"), ("b",)], rare=1).vocabulary
    assert letters.parse("abc") == ("a", "b", "<unk>")
    with pytest.raises(UserError, match="unknown symbol 'misspelled'"):
        LabelledCorpus("lines", ["x", "y"], words).vocabulary.parse("aap misspelled beer")


def test_a_run_on_lines_with_rare_words_judges_unknown_ones(tmp_path: Path) -> None:
    file = tmp_path / "mine.tsv"
    lines = [("in", f"goed woord{i} klaar") for i in range(20)]
    lines += [("out", f"woord{i} klaar goed") for i in range(20, 40)]
    file.write_text(
        "".join(f"{label}\t{line} {'goed ' * (i % 20)}\n" for i, (label, line) in enumerate(lines))
    )
    run = main_lines(file, tmp_path, rare=2)
    assert "<unk>" in run.language.vocabulary.symbols
    assert run.language.vocabulary.parse("goed nieuw klaar") == ("goed", "<unk>", "klaar")
    with pytest.raises(UserError, match="leave --rare out"):
        Run.create(tmp_path / "anbn", tiny_config(rare=2))
    assert not (tmp_path / "anbn").exists()


def main_lines(file: Path, folder: Path, rare: int) -> Run:
    config = tiny_config(language="mine", objective="verdict", rare=rare, steps=2)
    run = Run.create(folder / f"run-{rare}", config, file)
    train(run, "cpu")
    return Run(run.path)


@pytest.mark.parametrize("count", range(5, 40))
def test_few_lines_fall_on_all_sides(count: int) -> None:
    """A side that is empty would be a question without a word, long after the training."""
    lines = [(f"w{number}", "x") for number in range(count)]
    sides = sides_of(lines, [number % 2 == 0 for number in range(count)])
    assert set(sides.tolist()) == {0, 1, 2}
    assert {number % 2 for number in np.flatnonzero(sides == 0).tolist()} == {0, 1}
    assert sides_of(lines * 2, [number % 2 == 0 for number in range(count)] * 2).tolist() == [
        *sides.tolist(),
        *sides.tolist(),
    ]


@given(st.lists(st.tuples(st.integers(0, 30), st.integers(0, 30)), min_size=3, max_size=20))
def test_the_lines_of_a_pair_are_on_one_side(drawn: list[tuple[int, int]]) -> None:
    """And so is a line that is in several pairs, with all of them."""
    lines = [
        ("de", f"{kind}{number}") for pair in drawn for kind, number in zip("ab", pair, strict=True)
    ]
    pairs = [(at, at + 1) for at in range(0, len(lines), 2)]
    sides = sides_of(lines, [True, False] * len(drawn), pairs)
    side_of = dict(zip(lines, sides.tolist(), strict=True))
    assert [side_of[line] for line in lines] == sides.tolist()
    assert all(sides[one] == sides[other] for one, other in pairs)
    assert 0 in sides


def test_minimal_pairs_are_each_other_s_counterfactual(tmp_path: Path) -> None:
    """Though other lines are as near."""
    nouns, verbs = ("hond", "kat", "muis", "aap"), (("slaapt", "slapen"), ("ziet", "zien"))
    rows = [
        {"sentence_good": f"de {noun} {one}", "sentence_bad": f"de {noun} {other}"}
        for noun in nouns
        for one, other in verbs
    ] * 2
    file = tmp_path / "pairs.jsonl"
    file.write_text("".join(json.dumps(row) + "\n" for row in rows))
    corpus = LabelledCorpus.from_file(file)
    assert corpus.told == "read as minimal pairs, two labelled lines each"
    for row in rows:
        good, bad = (tuple(row[f"sentence_{kind}"].split()) for kind in ("good", "bad"))
        for rng in (None, np.random.default_rng(0)):
            assert corpus.counterfactual(good, rng) == bad
            assert corpus.counterfactual(bad, rng) == good
    for split in SPLITS:
        assert corpus.sides(split)[1].mean() == 0.5


def test_each_label_has_a_line_for_training() -> None:
    """By their words alone the three lines of A would be for validation and the test."""
    words = [f"{one} {two} x" for one in "xyz" for two in "xyz"]
    labels = ["A" if word[0] == "x" else "B" for word in words]
    check_sides(LabelledCorpus("few", labels, [tuple(word.split()) for word in words]))


def test_two_lines_a_label_are_the_fewest() -> None:
    check_sides(LabelledCorpus("few", ["A", "A", "B", "B"], [("x",), ("y",), ("z",), ("w",)]))
    with pytest.raises(UserError, match=r"too few different lines \(3 in 3 lines\)"):
        check_sides(LabelledCorpus("few", ["A", "B", "B"], [("x",), ("z",), ("w",)]))


def test_rare_words_that_leave_no_different_lines_are_refused_before_a_run_is_made(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "once.tsv"
    file.write_text("".join(f"{'AB'[n % 2]}\ta{n} b{n}\n" for n in range(100)), encoding="utf-8")
    assert main(["train", "--corpus", str(file), "--rare", "2", "--out", str(tmp_path / "r")]) == 2
    assert "too few different lines (1 in 100 lines)" in capsys.readouterr().err
    assert not (tmp_path / "r").exists()


def test_few_different_lines_are_told_as_such(tmp_path: Path) -> None:
    file = tmp_path / "alike.tsv"
    file.write_text("A\tx\nB\ty\n" * 50, encoding="utf-8")
    with pytest.raises(
        UserError, match=r"has too few different lines \(2 in 100 lines\) to set val"
    ):
        check_sides(LabelledCorpus.from_file(file))
