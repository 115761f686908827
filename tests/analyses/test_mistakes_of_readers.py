"""Mistakes that readers made, each once: the line names the fault and a cure that works."""

from __future__ import annotations

import hashlib
import json
import shutil
from dataclasses import asdict
from pathlib import Path

import pandas as pd
import pytest
import torch
from conftest import tiny_config
from safetensors.torch import load_file, save_file
from transformers import GPT2Config, GPT2ForSequenceClassification, GPT2LMHeadModel

from analyses.command_line.app import main
from analyses.options.plants import Score
from analyses.options.shared import MARK
from analyses.rules.lines import MERGED, fewer_words, once
from analyses.scoring.board import checked
from models.errors import UserError
from models.languages.corpus import read_columns
from models.runs.run import Run
from models.training.loop import train

CSV = ("--named", "x", "--command", "lab show", "--question", "q", "--docs", "d")


@pytest.fixture
def run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Run:
    monkeypatch.chdir(tmp_path)
    made = Run.create(Path("run"), tiny_config(steps=2))
    train(made, "cpu")
    return made


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (["predict", "run", "a", "b"], "put words that belong together in quotes"),
        (["predict", "run", "--word", "a b"], "word is missing: write it by itself, in quotes"),
        (["train", "anbn", "--no-model.bias"], "did you mean --model.no-bias?"),
        (["report", "run", "--file="], "--file is empty"),
        (["report", "long.csv", "--file", "s.html", *CSV], "--file is of a run's report"),
        (["languages", "g", "--grammar", "%start S T\nS -> 'a'"], "%start names 2 nonterminals"),
        (["report", "long.csv", *CSV], "long.csv has lines that are longer than its header"),
        (["report", "empty.csv", *CSV], "empty.csv is empty"),
        (["report", "latin.csv", *CSV], "latin.csv is not UTF-8"),
        (["report", "run", "--file", "mine.html"], "mine.html is not of the lab"),
        (["show", "kernels"], "kernels.html is not of the lab"),
        (["report", "run", "--file", "http://x/y.html"], "http: begins no path"),
        (["train", "anbn", "--out=~"], "~ begins no path"),
        (["rule", "mine.html", "--name", "a/b"], "leave out the /, it is no folder"),
        (["analyse", "in_the_way", "patching"], "a file is in the way: remove it"),
        (["analyse", "lost", "heads"], "answers with no numbers: its training diverged"),
        (["evaluate", "lost"], "answers with no numbers"),
    ],
)
def test_one_line_with_the_cure(
    run: Run, capsys: pytest.CaptureFixture[str], words: list[str], says: str
) -> None:
    Path("long.csv").write_text("a,b\n1,2,3\n4,5,6\n")
    Path("empty.csv").write_text("")
    Path("latin.csv").write_bytes("a,b\né,2\n".encode("latin-1"))
    Path("mine.html").write_text("<html>mine</html>")
    Path("kernels.html").write_text("<!doctype html>mine")
    shutil.copytree("run", "in_the_way")
    shutil.rmtree("in_the_way/results", ignore_errors=True)
    Path("in_the_way/results").write_text("")
    shutil.copytree("run", "lost")
    for file in Path("lost/checkpoints").glob("*/model.safetensors"):
        _without_numbers(file)
    assert main(words) == 2
    said = capsys.readouterr().err
    assert says in said
    assert said.count("\n") == 1
    assert Path("mine.html").read_text() == "<html>mine</html>"
    assert Path("kernels.html").read_text() == "<!doctype html>mine"


def _without_numbers(file: Path) -> None:
    """Weights that are no numbers, with the hash that belongs to them."""
    weights = {name: torch.full_like(each, float("nan")) for name, each in load_file(file).items()}
    save_file(weights, file)
    config = file.with_name("config.json")
    record = json.loads(config.read_text())
    record["sha256"] = hashlib.sha256(file.read_bytes()).hexdigest()
    config.write_text(json.dumps(record))


def test_a_table_keeps_its_words(run: Run) -> None:
    Path("t.csv").write_text("a,b\nNA,007\nx,\n")
    assert main(["report", "t.csv", *CSV]) == 0
    kept = pd.read_parquet("d/findings/data/x.parquet")
    assert kept["a"].tolist() == ["NA", "x"]


def test_a_picture_of_the_lab_is_replaced(run: Run) -> None:
    for ending in ("html", "svg", "png"):
        for _ in range(2):
            assert main(["show", "kernels", "--file", f"k.{ending}"]) == 0
        content = Path(f"k.{ending}").read_bytes()
        assert MARK in content[:2000]
    assert content.startswith(b"\x89PNG\r\n\x1a\n")


def test_columns_in_quotes_are_read_without_them(tmp_path: Path) -> None:
    file = tmp_path / "r.tsv"
    file.write_text('"in"\t"a b"\n"out"\t"b"\n')
    assert read_columns(file, ("label", "words"), ()) == (["in", "out"], [("a", "b"), ("b",)])
    file.write_text('"in"\t"a b"\nout\t"b"\n')  # not all of them: they belong to the words
    assert read_columns(file, ("label", "words"), ())[0] == ['"in"', "out"]


def test_the_name_of_merged_words_is_nobodys() -> None:
    words = [(f"w{i}", f"{MERGED}1") for i in range(80)]
    labels = torch.arange(80).numpy() % 2 == 0
    with pytest.raises(UserError, match="stands for several words here"):
        fewer_words(words, labels, [])


def test_lines_that_are_left_out_are_not_counted_as_learned() -> None:
    notes: list[str] = []
    labels, words = once(["A", "B", "A"], [("x",), ("x",), ("y",)], notes)
    assert (labels, words) == (["A"], [("y",)])
    assert "1 of 3 lines repeat another line; 2 are different" in notes[0]


def test_a_method_is_no_lens(tmp_path: Path) -> None:
    file = tmp_path / "lens.py"
    file.write_text("class A:\n    def positions(self): ...\n")
    with pytest.raises(UserError, match="answers no question"):
        checked(Score(lens=file))
    file.write_text("import nothing_of_this_name\ndef parts(model, words): ...\n")
    assert checked(Score(lens=file))[1] == {"parts"}


def test_a_network_that_is_none_of_language_is_refused(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    config = GPT2Config(vocab_size=4, n_positions=8, n_embd=8, n_layer=1, n_head=2)
    GPT2ForSequenceClassification(config).save_pretrained(tmp_path / "verdicts")
    words = ["rule", "--model", str(tmp_path / "verdicts"), "--vocabulary", "<bos> <eos> a b"]
    assert main(words) == 2
    assert "GPT2ForSequenceClassification, no language model" in capsys.readouterr().err
    GPT2LMHeadModel(config).save_pretrained(tmp_path / "net")
    changed = json.loads((tmp_path / "net" / "config.json").read_text()) | {"n_positions": 9}
    (tmp_path / "net" / "config.json").write_text(json.dumps(changed))
    words[2] = str(tmp_path / "net")
    assert main([*words, "--begin", "<bos>", "--end", "<eos>"]) == 2
    assert "have the shape [8, 8], and config.json asks for [9, 8]" in capsys.readouterr().err


def test_a_file_that_is_gone_is_told_so(tmp_path: Path) -> None:
    corpus = tmp_path / "words.tsv"
    corpus.write_text("".join(f"{'AB'[n % 2]}\t{'x ' * n}y\n" for n in range(20)))
    config = tiny_config(language="words", objective="verdict", steps=1)
    made = Run.create(tmp_path / "lines", config, corpus)
    (made.path / "corpus.tsv").unlink()
    with pytest.raises(UserError, match=r"corpus\.tsv is missing: put back the file"):
        Run(made.path).corpus_bytes()
    assert asdict(made.config)["language"] == "words"
