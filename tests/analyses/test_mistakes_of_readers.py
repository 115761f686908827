"""Mistakes that readers made, each once: the line names the fault and a cure that works."""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import signal
from contextlib import nullcontext
from dataclasses import asdict, replace
from pathlib import Path

import altair as alt
import pandas as pd
import pytest
import torch
from conftest import tiny_config
from rich.console import Console
from safetensors.torch import load_file, save_file
from transformers import GPT2Config, GPT2ForSequenceClassification, GPT2LMHeadModel

from analyses.command_line.app import main
from analyses.command_line.arguments import read
from analyses.console import PLAIN, exit_status
from analyses.jobs.cluster import _local_cluster
from analyses.options.plants import Score
from analyses.options.shared import MARK
from analyses.rendering import draw
from analyses.rules.automaton_file import read_automaton
from analyses.rules.lines import MERGED, _fewer_words, _once
from analyses.scoring.board import checked
from dashboard.drawing import explain_errors
from dashboard.markup import _visible
from models.errors import UserError
from models.languages.corpus import LabelledCorpus
from models.languages.files.lines import read_columns, read_lines
from models.languages.own_grammar import of_grammar
from models.runs.run import Run
from models.training.evaluation import predict
from models.training.loop import train

CSV = ("--named", "x", "--command", "lab show", "--question", "q", "--docs", "d")


@pytest.fixture
def run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Run:
    monkeypatch.chdir(tmp_path)
    Path("machine.jff").write_text('<?xml version="1.0"?><structure></structure>\n')
    Path("loose.txt").write_text("a b\nb a\n")
    made = Run.create(Path("run"), tiny_config(steps=2))
    train(made, "cpu")
    return made


def test_a_language_of_long_words_has_an_example(capsys: pytest.CaptureFixture[str]) -> None:
    word = ["a"] * 19
    assert main(["languages", "mine", "--grammar", "S -> " + " ".join(map(repr, word))]) == 0
    assert " ".join(word) in capsys.readouterr().out


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (["predict", "run", "a", "b"], "put words that belong together in quotes"),
        (["predict", "run", "--word", "a b"], "word is missing: write it by itself, in quotes"),
        (["train", "anbn", "--no-model.bias"], "did you mean --model.no-bias?"),
        (["train", "an", "--model.output", "tags"], "the output tags is that of tags: leave"),
        (
            ["train", "postfix", "--max-n", "2"],
            "postfix has no word so short: choose a larger --max",
        ),
        (["train", "shuffle2", "--max-n", "1"], "shuffle2 has no word so short: choose a larger"),
        (
            ["train", "x", "--grammar", "machine.jff"],
            "machine.jff holds nothing that the lab knows: give",
        ),
        (["rule", "machine.jff"], "machine.jff is XML, as JFLAP writes it: give lines of label"),
        (["train", "--corpus", "loose.txt", "--objective", "next-symbols"], "says nothing of wh"),
        (["predict", "run", "a\ufe0fb"], r"unknown symbol '\ufe0f': use only"),
        (["finetune", "run", "--recipe", "counting"], "--recipe chooses a new network, and the"),
        (["finetune", "run", "an", "--regex", "a*b"], "an is a language of the lab: give yours"),
        (["report", "run", "--file="], "--file is empty"),
        (
            ["report", "long.csv", "--file", "s.html", *CSV],
            "--file is of the report of a run: leave it out",
        ),
        (["languages", "g", "--grammar", "%start S T\nS -> 'a'"], "%start names 2 nonterminals"),
        (["report", "long.csv", *CSV], "long.csv has lines that are longer than its header"),
        (["report", "empty.csv", *CSV], "empty.csv is empty"),
        (["report", "latin.csv", *CSV], "latin.csv is not UTF-8"),
        (["report", "run", "--file", "mine.html"], "mine.html is not of the lab"),
        (["show", "run", "scaling", "--file", "law.html"], "law.html is not of the lab"),
        (["report", "run", "--file", "http://x/y.html"], "http: begins no path"),
        (["train", "anbn", "--out", "s3://bucket/x"], "s3: begins no path"),
        (["report", "run", "--named", "x"], "--named is of the report of a table: leave it out"),
        (["report", "--step", "2"], "--step is of the report of a run: leave it out"),
        (["report", "own_page"], "own_page/report.html is not of the lab"),
        (["report", "semicolons.csv", *CSV], "semicolons.csv has no comma between its columns"),
        (["report", "rows.csv", *CSV], "rows.csv has a column without a name"),
        (["report", "commas.csv", *CSV], "commas.csv has lines that are longer than its header"),
        (["predict", "run/checkpoints", "a"], "is not a run: choose one of run"),
        (["runs", "run/checkpoints"], "lies in one: give the folder of all runs"),
        (["show", "run", "size"], "size is of no run: write `lab show size`"),
        (["evaluate", "lost_last"], "lost_last has no checkpoint at step 2"),
        (
            ["rule", "-lines.tsv"],
            "-lines.tsv begins with a dash, as an option does: write ./",
        ),
        (["analyse", "run", "patching", "--whole=False"], "--whole takes no value"),
        (["analyse", "run", "accuracy", "--MAX-N", "2"], "--MAX-N: did you mean --max-n?"),
        (["train", "anbn", "--model.heads", "2"], "did you mean --model.n-heads?"),
        (["train", "anbn", "\u2013seed", "1"], "another dash than -: write --seed"),
        (["train", "anbn", "--disfluency", "dropped"], "--disfluency needs --disfluent"),
        (["finetune", "run", "--adapted", "mlp"], "--adapted needs --tuned lora"),
        (["generate", "run", "--prompt", "a b", "--longest", "1"], "choose a larger --longest"),
        (["evaluate", "run", "--lengths", "5:2"], "the smaller one first"),
        (["rule", "lines.xlsx"], "save it as plain text in UTF-8"),
        (["train", "anbn", "--out=~"], "~ begins no path"),
        (["rule", "mine.html", "--name", "a/b"], "leave out the /, it is no folder"),
        (["analyse", "in_the_way", "patching"], "a file is in the way: remove it"),
        (["analyse", "lost", "heads"], "answers with no numbers: its training diverged"),
        (["evaluate", "lost"], "answers with no numbers"),
        (["predict", "hidden", "a b"], "answers with no numbers"),
        (["analyse", "hidden", "probing"], "answers with no numbers"),
    ],
)
def test_one_line_with_the_cure(
    run: Run, capsys: pytest.CaptureFixture[str], words: list[str], says: str
) -> None:
    Path("long.csv").write_text("a,b\n1,2,3\n4,5,6\n")
    Path("empty.csv").write_text("")
    Path("latin.csv").write_bytes("a,b\né,2\n".encode("latin-1"))
    Path("mine.html").write_text("<html>mine</html>")
    Path("law.html").write_text("<!doctype html>mine")
    Path("semicolons.csv").write_text("a;b\n1;2\n")
    Path("rows.csv").write_text('"","a"\n"1","2"\n')
    Path("commas.csv").write_text("a,b\n1,2,\n3,4,\n")
    Path("-lines.tsv").write_text("in\ta\n")
    Path("lines.xlsx").write_bytes(b"PK\x03\x04\xff")
    shutil.copytree("run", "own_page")
    Path("own_page/report.html").write_text("<html>mine</html>")
    shutil.copytree("run", "lost_last")
    shutil.rmtree("lost_last/checkpoints/step-000002")
    shutil.copytree("run", "in_the_way")
    shutil.rmtree("in_the_way/results", ignore_errors=True)
    Path("in_the_way/results").write_text("")
    shutil.copytree("run", "lost")
    shutil.copytree("run", "hidden")  # without hooks, attention hides what is lost in the keys
    for name, part in (("lost", ""), ("hidden", "attn.k.weight")):
        for file in Path(name, "checkpoints").glob("*/model.safetensors"):
            _without_numbers(file, part)
    assert main(words) == 2
    said = capsys.readouterr().err
    assert says in said
    assert said.count("\n") == 1
    assert Path("mine.html").read_text() == "<html>mine</html>"
    assert Path("law.html").read_text() == "<!doctype html>mine"


def _without_numbers(file: Path, part: str) -> None:
    """Weights of which a part is no numbers, with the hash that belongs to them."""
    weights = load_file(file)
    weights |= {name: weights[name].fill_(float("nan")) for name in weights if part in name}
    save_file(weights, file)
    config = file.with_name("config.json")
    record = json.loads(config.read_text())
    record["sha256"] = hashlib.sha256(file.read_bytes()).hexdigest()
    config.write_text(json.dumps(record))


def test_a_training_without_memory_for_a_step_leaves_no_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*_: object) -> None:
        raise MemoryError

    monkeypatch.setattr("models.training.trainer.Trainer.advance", refuse)
    words = ["train", "anbn", "--steps", "4", "--out", str(tmp_path / "runs")]
    assert main(words) == 2
    assert not (tmp_path / "runs").exists()


def test_no_memory_for_a_checkpoint_is_one_line(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """What the library of weights raises then is no ``Exception``."""
    panic = type("PanicException", (BaseException,), {})

    def starved(*_: object) -> None:
        raise panic("memory allocation failed")

    monkeypatch.setattr("safetensors.torch.save", starved)
    assert main(["train", "anbn", "--steps", "4", "--out", str(tmp_path / "runs")]) == 2
    said = capsys.readouterr().err
    assert said.endswith("lab: the memory of this machine is too small for this: ask for less\n")


def test_a_table_keeps_its_words(run: Run) -> None:
    Path("t.csv").write_text("a,b\nNA,007\nx,\n")
    assert main(["report", "t.csv", *CSV]) == 0
    kept = pd.read_parquet("d/findings/data/x.parquet")
    assert kept["a"].tolist() == ["NA", "x"]


def test_a_picture_of_the_lab_is_replaced(run: Run) -> None:
    for ending in ("html", "svg", "png"):
        for _ in range(2):
            draw(alt.Chart(pd.DataFrame({"x": [1]})).mark_point(), Path(f"k.{ending}"))
        content = Path(f"k.{ending}").read_bytes()
        assert MARK in content[:2000]
    assert content.startswith(b"\x89PNG\r\n\x1a\n")


def test_columns_in_quotes_are_read_without_them(tmp_path: Path) -> None:
    file = tmp_path / "r.tsv"
    file.write_text('"in"\t"a b"\n"out"\t"b"\n')
    assert read_columns(file, ("label", "words"), ()) == (["in", "out"], [("a", "b"), ("b",)])
    file.write_text('"in"\t"a b"\nout\tb\n')  # not all of them: they belong to the words
    whole = read_columns(file, ("label", "words"), ())
    assert whole == (['"in"', "out"], [('"a', 'b"'), ("b",)])


@pytest.mark.parametrize(
    "text",
    [
        '"in\ta, ""b"""\n"out\tb"\n',  # a tab that a spreadsheet took for a letter
        'in\t"a, ""b"""\nout\t"b"\n',  # one column
        'in\t"a, ""b"""\nout\tb\n',  # where there is a comma, as Excel does
        '"label"\t"words"\n"in"\t"a, ""b"""\n"out"\t"b"\n',
    ],
)
def test_quotes_of_a_program_are_no_words(tmp_path: Path, text: str) -> None:
    file = tmp_path / "r.tsv"
    file.write_text(text)
    assert read_lines(file)[:2] == (["in", "out"], [("a,", '"b"'), ("b",)])


def test_what_cannot_be_seen_is_told_by_its_number(capsys: pytest.CaptureFixture[str]) -> None:
    Console(soft_wrap=True).print("a\xadb")  # rich alone shows nothing there
    PLAIN(soft_wrap=True).print("a\xadb \u200b a\u200d")
    assert capsys.readouterr().out.splitlines() == ["a\xadb", "a\\xadb \\u200b a\\u200d"]
    for unseen in "\u2061\u180e\u206a\ufff9\ufe0f\u034f\u17b4\u115f\u3164\U000e0061":
        PLAIN(soft_wrap=True).print(f"a{unseen}")
        assert capsys.readouterr().out == f"a{ascii(unseen)[1:-1]}\n"
        assert _visible(f"a{unseen}") == f"a{ascii(unseen)[1:-1]}"
    PLAIN(soft_wrap=True).print("👩\u200d🚀 ❤\ufe0f é")
    assert capsys.readouterr().out == "👩\u200d🚀 ❤\ufe0f é\n"


def test_a_reader_who_has_seen_enough(monkeypatch: pytest.MonkeyPatch) -> None:
    reading, writing = os.pipe()
    os.close(reading)
    with open(writing, "w") as pipe:
        monkeypatch.setattr("sys.stdout", pipe)
        assert exit_status(lambda: PLAIN(file=pipe).print("a")) == 141


def test_a_full_disk_for_the_line_itself(monkeypatch: pytest.MonkeyPatch) -> None:
    def refused() -> None:
        raise UserError("no")

    with open("/dev/full", "w") as full:
        monkeypatch.setattr("sys.stderr", full)
        assert exit_status(refused) == 2


def test_an_empty_word_is_refused_where_nothing_is_asked_of_it(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    both = replace(tiny_config().model, mask="bidirectional", positions="learned")
    for language, objective, model in (
        ("copy", "sequence-to-sequence", tiny_config().model),
        ("anbn", "masked", both),
    ):
        config = tiny_config(language=language, objective=objective, model=model, max_n=4, steps=1)
        made = Run.create(tmp_path / objective, config)
        train(made, "cpu")
        assert main(["predict", str(made.path), ""]) == 2
        assert f"the word is empty, and {objective} was taught" in capsys.readouterr().err
        assert predict(made.model(), (), made.objective) == ([], False)


def test_a_grammar_of_endless_words_says_nothing_of_numpy() -> None:
    rules = [f"N{i} -> N{i + 1} N{i + 1}" for i in range(60)]
    with pytest.raises(UserError, match="makes no word of up to 25 symbols"):
        of_grammar("long", "\n".join([*rules, "N60 -> 'a'"]))  # a warning is an error here
    with pytest.raises(UserError, match="or leave it out"):
        of_grammar("features", "S -> 'a' [NUM=?n]")


@pytest.mark.parametrize(
    ("arrow", "says"),
    [
        ("@_EPSILON_SYMBOL_@\t@_EPSILON_SYMBOL_@", "reads nothing"),
        ("@_IDENTITY_SYMBOL_@\t@_IDENTITY_SYMBOL_@", "reads any other symbol"),
        ("a\ta\t0.5", "without a weight"),
    ],
)
def test_an_automaton_of_hfst(tmp_path: Path, arrow: str, says: str) -> None:
    file = tmp_path / "x.att"
    file.write_text("0\t1\ta\ta\t0.000000\n1\t0.000000\n")
    assert read_automaton(file)[0].accepts_input("a")
    file.write_text(f"0\t1\t{arrow}\n1\n")
    with pytest.raises(UserError, match=says):
        read_automaton(file)


def test_a_run_of_lines_is_fine_tuned_on_its_lines(tmp_path: Path) -> None:
    corpus = tmp_path / "mine.tsv"
    corpus.write_text("".join(f"{'AB'[n % 2]}\t{'x ' * n}y\n" for n in range(30)))
    config = tiny_config(language="mine", objective="verdict", steps=1)
    train(Run.create(tmp_path / "lines", config, corpus), "cpu")
    out = tmp_path / "tuned"
    assert main(["finetune", str(tmp_path / "lines"), "--out", str(out)]) == 0
    (made,) = out.iterdir()
    assert Run(made).corpus_bytes() == corpus.read_bytes()


def test_a_small_corpus_has_an_example_on_some_side(tmp_path: Path) -> None:
    for count in range(2, 12):  # some of these have their lines of this length on another side
        file = tmp_path / "few.tsv"
        file.write_text("".join(f"in\t{'a ' * n}\nout\t{'b ' * n}\n" for n in range(1, count)))
        assert set(LabelledCorpus.from_file(file).example()) == {"a"}


def test_a_table_of_somebody_else_is_kept(run: Run, capsys: pytest.CaptureFixture[str]) -> None:
    Path("t.csv").write_text("a\n1\n")
    Path("d/findings/data").mkdir(parents=True)
    Path("d/findings/data/x.parquet").write_text("mine")
    assert main(["report", "t.csv", *CSV]) == 2
    assert "x.parquet is not of the lab" in capsys.readouterr().err
    assert Path("d/findings/data/x.parquet").read_text() == "mine"


def test_a_key_that_streamlit_keeps_fails_in_the_words_of_the_lab(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    said: list[str] = []
    monkeypatch.setattr("streamlit.error", lambda told, icon: said.append(told))
    with explain_errors():
        raise RuntimeError("of Streamlit") from UserError("the file is missing")
    assert said == ["the file is missing"]


def test_workers_that_do_not_start_are_told_so(monkeypatch: pytest.MonkeyPatch) -> None:
    def fails(**options: object) -> None:
        signal.raise_signal(signal.SIGINT)  # Ctrl+C waits for Dask
        raise RuntimeError("Nanny failed to start.")

    monkeypatch.setattr("analyses.jobs.cluster.LocalCluster", fails)
    with (
        pytest.raises(UserError, match="did not start: ask for one, --workers 1"),
        _local_cluster(2),
    ):
        pass


def test_ctrl_c_waits_until_the_workers_are_there(monkeypatch: pytest.MonkeyPatch) -> None:
    closed: list[bool] = []
    # A process that a shell started in the background ignores the signal.
    before = signal.signal(signal.SIGINT, signal.default_int_handler)

    class Started(nullcontext[None]):
        def __init__(self, **options: object) -> None:
            signal.raise_signal(signal.SIGINT)
            super().__init__()

        def __exit__(self, *raised: object) -> None:
            closed.append(True)

    monkeypatch.setattr("analyses.jobs.cluster.LocalCluster", Started)
    with pytest.raises(KeyboardInterrupt), _local_cluster(2):
        pass
    signal.signal(signal.SIGINT, before)
    assert closed == [True]


def test_the_name_of_merged_words_is_nobodys() -> None:
    words = [(f"w{i}", f"{MERGED}1") for i in range(80)]
    labels = torch.arange(80).numpy() % 2 == 0
    with pytest.raises(UserError, match="stands for several words here"):
        _fewer_words(words, labels, [])


def test_lines_that_are_left_out_are_not_counted_as_learned() -> None:
    notes: list[str] = []
    labels, words = _once(["A", "B", "A"], [("x",), ("x",), ("y",)], notes)
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


def test_weights_that_are_no_real_numbers_or_may_not_be_read(
    run: Run, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    (weights,) = run.path.glob("checkpoints/step-000002/model.safetensors")
    changed = {name: tensor.to(torch.complex64) for name, tensor in load_file(weights).items()}
    save_file(changed, weights)
    assert main(["predict", "run", "a"]) == 2
    assert "model.safetensors has complex numbers as weights" in capsys.readouterr().err
    monkeypatch.setattr("models.plain_files.os.access", lambda path, _: path != weights)
    assert main(["predict", "run", "a"]) == 2
    assert "model.safetensors (Permission denied)" in capsys.readouterr().err


def test_a_run_goes_on_with_a_language_of_the_readers(tmp_path: Path) -> None:
    """Whatever the parent was taught: the language is the one that is given."""
    few = ["--steps", "1", "--out", str(tmp_path)]
    small = ["--model.d-model", "8", "--model.d-mlp", "8", "--model.n-heads", "2"]
    assert main(["train", "mine", "--regex", "a*b", *few, *small]) == 0
    parent = str(tmp_path / "mine-s0")
    for name, given in (
        ("anbn", []),
        ("other", ["--regex", "b*a"]),
        ("mine", ["--grammar", "S -> 'b' S 'a' | 'b' 'a'"]),
    ):
        assert main(["finetune", parent, name, *given, *few]) == 0
        (made,) = (
            Run(path)
            for path in tmp_path.iterdir()
            if path.name.startswith(f"{name}-") and str(path) != parent
        )
        told = dict(zip(given[::2], given[1::2], strict=True))
        config = made.config
        assert (config.language, config.regex) == (name, told.get("--regex", ""))
        assert config.grammar == told.get("--grammar", "")


@pytest.mark.parametrize(
    ("words", "output"),
    [
        (["copy", "--model.output", "conditional"], "conditional"),
        (["copy", "--objective", "verdict"], "sigmoid"),
        (["in-context", "--objective", "language-model"], "softmax"),
        (
            ["an", "--objective", "masked", "--model.mask", "bidirectional", "--max-offset", "5"],
            "masked",
        ),
    ],
)
def test_what_is_taught_is_decided_before_its_options_are_weighed(
    words: list[str], output: str
) -> None:
    config = read("train", words).config
    assert config.model.output == output
