"""Lines without labels: read in every shape, and nothing said of lines that nobody knows."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from conftest import tiny_config
from hypothesis import given
from hypothesis import strategies as st
from scipy.sparse.csgraph import shortest_path
from test_shapes_of_lines import LINES, SHAPES

from models.choices import Mask
from models.errors import UserError
from models.languages import Corpus, LabelledCorpus, PairCorpus, UnlabelledCorpus
from models.languages import corpus as corpora_of
from models.languages.corpus import MOST_WORDS
from models.languages.files.lines import read_texts
from models.languages.files.treebank import paths, sentences
from models.languages.grammars.trees import distances
from models.languages.vocabulary import UNK
from models.model_config import ModelConfig
from models.runs.run import Run
from models.training import evaluation
from models.training.evaluation import judge
from models.training.loop import train

SENTENCES = [f"de {noun} {verb}" for noun in ("kat", "hond", "aap") for verb in ("eet", "loopt")]


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "lines.txt"
    path.write_text("\n".join([*SENTENCES * 3, "de kat , die eet , loopt"]) + "\n")
    return path


@pytest.mark.parametrize("shape", [name for name in SHAPES if name != "csv without header"])
def test_labels_are_left_out_of_every_shape(shape: str, tmp_path: Path) -> None:
    (tmp_path / "lines").write_text(SHAPES[shape])
    words, told, _ = read_texts(tmp_path / "lines")
    assert [" ".join(word) for word in words] == [text for _, text in LINES]
    assert "labels are left out" in told


def test_plain_lines_are_words_and_blank_ones_are_counted(tmp_path: Path) -> None:
    (tmp_path / "lines").write_text("de kat, de hond\n\nde aap, de kat\n\n")
    words, told, _ = read_texts(tmp_path / "lines")
    assert words == [("de", "kat,", "de", "hond"), ("de", "aap,", "de", "kat")]
    assert told == "lines without words left out: 1"
    (tmp_path / "names").write_text("anna\nbram\ncarla\n")
    words, told, _ = read_texts(tmp_path / "names")
    assert words[0] == ("a", "n", "n", "a")
    assert "each is a symbol" in told
    for content in ("", "\n \n"):
        (tmp_path / "none").write_text(content)
        with pytest.raises(UserError, match="no line has words: write one sentence a line"):
            read_texts(tmp_path / "none")


def test_of_minimal_pairs_the_good_ones_are_taught(tmp_path: Path) -> None:
    rows = [f"a{n} b,b a{n}\n" for n in range(3)]
    (tmp_path / "pairs.csv").write_text("sentence_good,sentence_bad\n" + "".join(rows))
    words, told, _ = read_texts(tmp_path / "pairs.csv")
    assert words == [("a0", "b"), ("a1", "b"), ("a2", "b")]
    assert told == "read as the good ones of minimal pairs; labels are left out"


def test_only_lines_are_known(file: Path) -> None:
    corpus = UnlabelledCorpus.from_file(file)
    lines = corpus.vocabulary.words([tuple(SENTENCES[0].split()), ("de", "kat")])
    assert corpus.labels(lines[:1]).all()
    assert corpus.are_lines(lines).tolist() == [True, False]
    with pytest.raises(UserError, match="'de kat' is no line of lines: which other lines"):
        corpus.labels(lines)
    with pytest.raises(LookupError):
        corpus.sample(np.random.default_rng(0), 1, corpus.lengths(9), label=False)
    assert corpus.next_symbols(("de", "kat")) == {"eet", "loopt", ","}


@pytest.mark.parametrize(
    ("objective", "mask"), [("language-model", "causal"), ("masked", "bidirectional")]
)
def test_a_run_is_judged_by_its_loss_alone(
    objective: str, mask: Mask, file: Path, tmp_path: Path
) -> None:
    model = ModelConfig(mask=mask, n_layers=1, d_model=16, d_mlp=16)
    config = tiny_config(language="lines", objective=objective, model=model, steps=60, patience=1)
    run = Run.create(tmp_path / "run", config, file)
    train(run, "cpu")
    first, *_, last = run.metrics()
    assert {line["exact"] for line in run.metrics()} == {None}
    assert {line["recognition"] for line in run.metrics()} == {None}
    assert last["step"] == 60  # nothing was called flawless
    assert last["loss"] < first["loss"]
    assert last["validation_loss"] > 0


@pytest.mark.parametrize("objective", ["language-model", "verdict"])
def test_a_sample_is_judged_in_parts_as_it_is_as_a_whole(
    objective: str, file: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    labelled = tmp_path / "labelled.tsv"
    labelled.write_text("".join(f"{'AB'['kat' in line]}\t{line}\n" for line in SENTENCES * 4))
    config = tiny_config(language="lines", objective=objective, steps=20)
    run = Run.create(tmp_path / "run", config, file if objective != "verdict" else labelled)
    train(run, "cpu")
    model, known, taught = run.model(), run.language, run.objective
    sample = known.sample(np.random.default_rng(0), 50, known.lengths(9))
    whole = judge(model, known, sample, taught)
    calls: list[int] = []
    monkeypatch.setattr(model, "forward", _counting(model.forward, calls))
    monkeypatch.setattr(evaluation, "MOST_ANSWERS", 500)
    parts = judge(model, known, sample, taught)
    assert sum(calls) == 50
    assert max(calls) < 20
    for one, other in zip(whole[:2], parts[:2], strict=True):
        np.testing.assert_array_equal(one, other)
    assert parts[2] == pytest.approx(whole[2], rel=1e-5)


def _counting(forward: Any, calls: list[int]) -> Any:
    def counted(tokens: Any, *more: Any) -> Any:
        calls.append(len(tokens))
        return forward(tokens, *more)

    return counted


def test_other_objectives_are_refused_in_one_line(file: Path, tmp_path: Path) -> None:
    config = tiny_config(language="lines", objective="next-symbols")
    with pytest.raises(UserError, match="language-model or masked for lines of words"):
        Run.create(tmp_path / "run", config, file)
    assert not (tmp_path / "run").exists()


def many_words(count: int) -> list[tuple[str, ...]]:
    """Lines of which the words number k comes in about count / k."""
    rng = np.random.default_rng(0)
    drawn = rng.zipf(1.3, (2000, 12))
    return [("w1", *(f"w{k}" for k in row if k < count)) for row in drawn.tolist()]


@pytest.mark.parametrize("rare", [0, 2])
def test_of_too_many_words_the_rarest_are_one(rare: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(corpora_of, "MOST_WORDS", most := 1000)
    words = many_words(50_000)
    lines = Counter(symbol for word in words for symbol in set(word))
    assert len(lines) > most
    labels = ["ja" if "w2" in word else "nee" for word in words]
    corpora: list[Corpus] = [
        UnlabelledCorpus("lines", words, rare), LabelledCorpus("lines", labels, words, rare)
    ]  # fmt: skip
    for corpus in corpora:
        kept = set(corpus.vocabulary.symbols) - {UNK}
        assert UNK in corpus.vocabulary.symbols
        assert len(kept) < most
        fewest = min(lines[symbol] for symbol in kept)
        assert max(lines[symbol] for symbol in lines if symbol not in kept) < fewest
        # One line fewer would have been too many words.
        assert sum(count >= fewest - 1 for count in lines.values()) >= most
        told = f"in fewer than {fewest} lines: {len(lines) - len(kept):,} of {len(lines):,} words"
        assert told in corpus.told


def test_lines_that_become_one_are_counted_as_noise() -> None:
    words = [("a", "b"), ("a", "c"), ("a", "d"), ("a", "a")]
    corpus = LabelledCorpus("lines", ["ja", "ja", "nee", "nee"], words, rare=2)
    assert "lines that have both labels for it: 1" in corpus.told
    assert corpus.contains(("a", UNK))


def test_words_that_never_come_again_are_no_corpus() -> None:
    words = [(f"w{n}",) for n in range(MOST_WORDS + 5)]
    with pytest.raises(UserError, match="give lines whose words come again"):
        UnlabelledCorpus("lines", words)


TREEBANK = """\
# sent_id = 1
1\tde\tde\tDET\t_\t_\t2\tdet\t_\t_
2\thond\thond\tNOUN\t_\t_\t4\tnsubj\t_\t_
3\tdiep\tdiep\tADV\t_\t_\t4\tadvmod\t_\t_
4\tslaapt\tslapen\tVERB\t_\t_\t0\troot\t_\t_

# text = vamos al mar
1\tvamos\tir\tVERB\t_\t_\t0\troot\t_\t_
2-3\tal\t_\t_\t_\t_\t_\t_\t_\t_
2\ta\ta\tADP\t_\t_\t4\tcase\t_\t_
3\tel\tel\tDET\t_\t_\t4\tdet\t_\t_
4\tmar\tmar\tNOUN\t_\t_\t1\tobl\t_\t_
4.1\tvamos\tir\tVERB\t_\t_\t_\t_\t_\t_
"""


def test_a_treebank_is_words_with_their_trees_or_their_tags(tmp_path: Path) -> None:
    file = tmp_path / "bank.conllu"
    file.write_text(TREEBANK)
    corpus = UnlabelledCorpus.from_file(file)
    lines = corpus.vocabulary.decoded(corpus.lines)
    assert lines == [("de", "hond", "diep", "slaapt"), ("vamos", "a", "el", "mar")]
    assert "read as a treebank (CoNLL-U)" in corpus.told
    known = corpus.tree_distances(lines[0])
    assert known is not None
    distance, depth = known
    assert depth.tolist() == [2, 1, 1, 0]
    assert distance.tolist() == [[0, 1, 3, 2], [1, 0, 2, 1], [3, 2, 0, 1], [2, 1, 1, 0]]
    assert corpus.tree_distances(("hond", "slaapt")) is None
    pairs = PairCorpus.from_file(file)
    assert [pairs.split(word) for word in pairs.vocabulary.decoded(pairs.lines)] == [
        (lines[0], ("DET", "NOUN", "ADV", "VERB")),
        (lines[1], ("VERB", "ADP", "DET", "NOUN")),
    ]
    with pytest.raises(UserError, match="its sentences no label: train with --objective language"):
        LabelledCorpus.from_file(file)


def test_a_sentence_without_end_is_refused_soon(tmp_path: Path) -> None:
    """Its way to the root has as many steps as words, and is walked once."""
    rows = "".join(f"{n}\tw\t_\tX\t_\t_\t{n - 1}\t_\t_\t_\n" for n in range(1, 20_001))
    (tmp_path / "bank.conllu").write_text(rows)
    for read in (UnlabelledCorpus.from_file, PairCorpus.from_file):
        with pytest.raises(UserError, match="sentence 1 has 20000 words: cut it to 10000 at most"):
            read(tmp_path / "bank.conllu")


@given(st.lists(st.integers(0, 9), min_size=1, max_size=9))
def test_distances_are_those_of_the_shortest_ways(heads: list[int]) -> None:
    """By scipy, in the graph of the heads; what is no tree is refused in one line."""
    words = len(heads)
    rows = [f"{n}\tw{n}\t_\tX\t_\t_\t{head}\t_\t_\t_" for n, head in enumerate(heads, 1)]
    edges = np.zeros((10, 10))
    for word, head in enumerate(heads, 1):
        edges[word, head] = 1
    ways = shortest_path(edges[1:, 1:], directed=False)[:words, :words]
    led = shortest_path(edges)[1 : words + 1, 0]
    if heads.count(0) != 1 or not np.isfinite(led).all() or max(heads) > words:
        with pytest.raises(UserError, match=r"bank, sentence 1 .*: its heads make no tree"):
            sentences(rows, "bank")
        return
    (sentence,) = sentences(rows, "bank")
    distance, depth = distances(paths(sentence.heads))
    np.testing.assert_array_equal(distance, ways)
    np.testing.assert_array_equal(depth, led - 1)


@pytest.mark.parametrize(
    ("broken", "reason"),
    [
        (("\t1\tobl", "\tone\tobl"), "is no CoNLL-U"),
        (("\t1\tobl", "\t_\tobl"), "sentence 2 (vamos a el mar ...): its heads make no tree"),
        (("\t1\tobl", "\t2\tobl"), "sentence 2 (vamos a el mar ...): its heads make no tree"),
        (("3\tel", "5\tel"), "sentence 2 (vamos a el mar ...): its heads make no tree"),
    ],
)
def test_a_broken_treebank_is_refused_in_one_line(
    broken: tuple[str, str], reason: str, tmp_path: Path
) -> None:
    file = tmp_path / "bank.conllu"
    file.write_text(TREEBANK.replace(*broken))
    with pytest.raises(UserError) as caught:
        UnlabelledCorpus.from_file(file)
    assert reason in str(caught.value)
    assert "\n" not in str(caught.value)
