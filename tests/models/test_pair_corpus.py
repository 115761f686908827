"""A corpus of pairs: what it knows, what it draws, and which files it refuses."""

from __future__ import annotations

from itertools import product
from pathlib import Path

import numpy as np
import pytest
from brute import distance
from conftest import tiny_config, tiny_of

from analyses.command_line.app import main
from analyses.options.behaviour import Targets
from analyses.questions.behaviour import targets
from models.errors import UserError
from models.languages import BORDER, END, PairCorpus, Words
from models.runs.run import Run
from models.training.evaluation import balanced_words, evaluate
from models.training.loop import train

LETTERS = {"x": "een", "y": "twee", "z": "drie"}
SOURCES = [word for n in (2, 3, 4) for word in product(LETTERS, repeat=n)]
TARGETS = [tuple(LETTERS[symbol] for symbol in word) for word in SOURCES]


@pytest.fixture
def corpus() -> PairCorpus:
    return PairCorpus("numbers", SOURCES, TARGETS)


@pytest.fixture
def file(tmp_path: Path) -> Path:
    lines = (f"{' '.join(s)}\t{' '.join(t)}" for s, t in zip(SOURCES, TARGETS, strict=True))
    path = tmp_path / "numbers.tsv"
    path.write_text("source\ttarget\n" + "\n".join(lines) + "\n", encoding="utf-8")
    return path


def test_only_what_stands_in_a_line_may_follow(corpus: PairCorpus) -> None:
    assert corpus.contains(["x", "y", BORDER, "een", "twee"])
    assert not corpus.contains(["x", "y", BORDER, "een", "een"])
    assert corpus.next_symbols(["x", "y", BORDER]) == {"een"}
    assert corpus.next_symbols(["x", "y", BORDER, "een", "twee"]) == {END}
    assert corpus.next_symbols(["x", "y"]) == {"x", "y", "z", BORDER}
    assert corpus.next_symbols(["x", "y", BORDER, "twee"]) == frozenset()
    assert corpus.split(["x", "y", BORDER, "een"]) == (("x", "y"), ("een",))
    assert corpus.vocabulary.symbols == ("drie", "een", "twee", "x", "y", "z", BORDER)


def test_a_source_may_have_several_targets() -> None:
    two = PairCorpus("two", [("a",), ("a",)], [("b",), ("c",)])
    assert two.next_symbols(["a", BORDER]) == {"b", "c"}


def test_a_source_is_on_one_side_alone(corpus: PairCorpus) -> None:
    rng, lengths = np.random.default_rng(0), corpus.lengths(0)
    seen = {}
    for split in ("train", "validation", "test"):
        words = corpus.sample(rng, 400, lengths, label=True, split=split).words
        rows = zip(words.ids, words.lengths, strict=True)
        seen[split] = {corpus.split(corpus.vocabulary.decode(ids[:n]))[0] for ids, n in rows}
        assert corpus.labels(words).all()
    assert not seen["train"] & seen["validation"]
    assert not seen["train"] & seen["test"]
    assert not seen["validation"] & seen["test"]
    assert len(seen["train"]) > 4 * len(seen["test"])
    with pytest.raises(LookupError):
        corpus.counterfactual(["x", "y", BORDER, "een", "twee"])


@pytest.mark.parametrize(
    ("content", "said"),
    [
        ("a b\tc\na b\t\n", "line 2 has no target: take the line out"),
        ("\tc\n", "line 1 has no source: write source, tab, target"),
        ("a b c\n", "line 1: expected one tab, found 0: write source, tab, target"),
        ("a > b\tc\n", "pair 1 has the word >, which stands between source and target"),
        ("1" + 9 * "\t_" + "\n", "has too few different sources (1 in 1 lines)"),
        ("1" + 5 * "\t_" + "\t1" + 3 * "\t_" + "\n", "its heads make no tree"),
        ("", "has no line: write source, tab, target"),
        ("source\ttarget\n", "has no line: write source, tab, target"),
        ("a\tb\n", "has too few different sources (1 in 1 lines) to set validation lines aside"),
        ("a\tb\na\tc\n" * 20, "too few different sources (1 in 40 lines)"),
    ],
)
def test_a_bad_file_is_refused_in_one_line(
    content: str, said: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "bad.tsv"
    path.write_text(content, encoding="utf-8")
    words = ["train", "--corpus", str(path), "--objective", "sequence-to-sequence"]
    assert main([*words, "--out", str(tmp_path / "runs")]) == 2
    told = capsys.readouterr().err
    assert said in told
    assert told.count("\n") == 1
    assert not (tmp_path / "runs").exists()


def test_a_run_on_pairs_of_a_file(file: Path, tmp_path: Path) -> None:
    config = tiny_config(model=tiny_of("lstm-attention"), language="numbers", steps=6)
    run = Run.create(tmp_path / "run", config, file)
    train(run, "cpu")
    again = Run(tmp_path / "run")
    assert isinstance(again.language, PairCorpus)
    table = targets._targets(again, Targets(count=8))
    assert set(table["model"]) == {"trained", *targets.CONTROLS}
    assert table.loc[table["model"] == "another source", "exact"].max() < 1


def test_the_command_trains_every_kind_on_it(file: Path, tmp_path: Path) -> None:
    words = ["train", "--corpus", str(file), "--steps", "2", "--out", str(tmp_path / "runs")]
    assert main([*words, "--model.architecture", "encoder-decoder"]) == 0
    assert main([*words, "--objective", "sequence-to-sequence"]) == 0
    objectives = {Run(path).config.objective for path in (tmp_path / "runs").iterdir()}
    assert objectives == {"sequence-to-sequence"}
    with pytest.raises(
        UserError, match="choose --objective verdict for lines of label, tab, words; language"
    ):
        Run.create(tmp_path / "other", tiny_config(language="numbers"), file)


@pytest.mark.parametrize("hard", [False, True])
def test_a_wrong_pair_stands_in_no_line(corpus: PairCorpus, hard: bool) -> None:
    rng = np.random.default_rng(0)
    lines = {corpus.vocabulary.decode(ids[:n]) for ids, n in zip(*both(corpus.lines), strict=True)}
    sample = corpus.sample(rng, 200, corpus.lengths(0), hard=hard)
    assert 60 < sample.labels.sum() < 140
    words = [corpus.vocabulary.decode(ids[:n]) for ids, n in zip(*both(sample.words), strict=True)]
    for word, label in zip(words, sample.labels, strict=True):
        assert (word in lines) == label
        near = [line for line in lines if len(line) == len(word) and distance(line, word) == 1]
        assert label or near or not hard
    alone = corpus.sample(rng, 20, corpus.lengths(0), label=False)
    assert not alone.labels.any()


def test_whoever_accepts_all_is_right_of_half(corpus: PairCorpus) -> None:
    """Wrong targets are many: of each length as many are asked as there are right pairs."""
    samples = [balanced_words(corpus, length, 64, 0) for length in corpus.lengths(0)]
    shares = [sample.labels.mean() for sample in samples if sample is not None]
    assert shares == [0.5] * len(shares)
    assert shares


def test_pairs_without_a_wrong_one_are_refused(tmp_path: Path) -> None:
    path = tmp_path / "alike.tsv"
    path.write_text("".join(f"{' '.join(source)}\tx\n" for source in SOURCES))
    config = tiny_config(language="alike", objective="sequence-to-sequence")
    with pytest.raises(UserError, match="alike has no wrong pair to judge a model by"):
        Run.create(tmp_path / "run", config, path)
    assert not (tmp_path / "run").exists()


def both(words: Words) -> tuple[np.ndarray, np.ndarray]:
    return words.ids, words.lengths


def test_whoever_accepts_all_pairs_is_right_on_half(tmp_path: Path) -> None:
    """After two steps every token has a probability above 1%, and all pairs were told as right."""
    file = tmp_path / "numbers.tsv"
    words = ["een", "twee", "drie", "vier"]
    rows = [(a, b, c) for a in words for b in ["", *words] for c in ["", *words] if b or not c]
    number = {"": "", **{word: str(i) for i, word in enumerate(words, 1)}}
    text = [
        f"{' '.join(filter(None, row))}\t{' '.join(filter(None, map(number.get, row)))}\n"
        for row in rows
    ]
    file.write_text("".join(text), encoding="utf-8")
    config = tiny_config(language="numbers", objective="sequence-to-sequence", steps=2)
    run = Run.create(tmp_path / "run", config, file)
    train(run, "cpu")
    scores = list(evaluate(run.model(), run.language, run.objective, run.language.lengths(25)))
    assert scores
    assert all(score.members == 1.0 and score.others == 0.0 for score in scores)
    assert run.metrics()[-1]["recognition"] < 0.75


def test_a_header_of_three_columns_is_no_pair(tmp_path: Path) -> None:
    """The columns of COGS: source, target, kind."""
    path = tmp_path / "cogs.tsv"
    path.write_text("source\ttarget\tdistribution\na b\tx y\tin\nb a\ty x\tin\n")
    corpus = PairCorpus.from_file(path)
    assert corpus.vocabulary.symbols == ("a", "b", "x", "y", ">")
    assert len(corpus.lines) == 2
