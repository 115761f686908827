"""A run folder: made once, opened anywhere, refused in one line where it is none."""

from __future__ import annotations

import json
import math
import os
import re
import shutil
from pathlib import Path
from typing import Any

import pytest
import torch
from conftest import tiny_config

from models.errors import UserError, lab
from models.model_config import ModelConfig
from models.runs.folders import RUN_FILE, find_runs
from models.runs.run import CORPUS, METRICS, Run, git_commit, run_name


def test_a_new_run_records_what_it_is(tmp_path: Path) -> None:
    run = Run.create(tmp_path / "runs" / "first", tiny_config(seed=4))
    record = json.loads((run.path / RUN_FILE).read_text())
    assert record["name"] == run.name == "first"
    assert record["status"] == "training"
    assert record["config"]["seed"] == 4
    assert {"python", "torch", "numpy", "transformer-lens"} <= set(record["versions"])
    assert record["git_commit"] is None or re.fullmatch("[0-9a-f]{40}", record["git_commit"])
    assert Run(run.path).config == run.config == tiny_config(seed=4)
    assert run.metrics() == []
    assert run.steps() == []


def test_a_folder_that_exists_is_not_overwritten(tmp_path: Path) -> None:
    (tmp_path / "run").mkdir()
    with pytest.raises(
        UserError, match=r"^[^\n]*run exists already: choose another folder [^\n]*$"
    ):
        Run.create(tmp_path / "run", tiny_config())
    assert list((tmp_path / "run").iterdir()) == []


@pytest.mark.parametrize(
    ("changes", "sizes", "fault"),
    [
        ({"positions": "learned", "n_ctx": 8}, {}, "reach position 8 and the model reads up to 7"),
        ({"positions": "learned", "n_ctx": 16}, {"max_offset": 8}, "reach position 16"),
        ({}, {"max_n": 2000, "batch_size": 9}, "are too many for one step, .* of at most 8, or"),
        ({"d_model": 2**20, "d_mlp": 2**22, "n_layers": 1000}, {}, r"takes about \S+ GiB to train"),
        (
            {"architecture": "ngram", "order": 5},
            {"language": "wide", "objective": "verdict"},
            "choose a smaller",
        ),
    ],
)
def test_a_model_that_cannot_read_its_words_leaves_no_folder(
    tmp_path: Path, changes: dict[str, Any], sizes: dict[str, Any], fault: str
) -> None:
    symbols = "\t".join(["A", " ".join(f"w{i}" for i in range(60))])
    others = [f"{'AB'[n % 2]}\tw{n} w{n + 1}" for n in range(20)]
    (tmp_path / "lines.tsv").write_text("\n".join([symbols, *others]))
    config = tiny_config(model=ModelConfig(**changes), **sizes)
    corpus = tmp_path / "lines.tsv" if sizes.get("language") == "wide" else None
    with pytest.raises(UserError, match=fault):
        Run.create(tmp_path / "run", config, corpus)
    assert not (tmp_path / "run").exists()


@pytest.mark.parametrize(
    ("changes", "name"),
    [
        ({}, "anbn-s0"),
        ({"d_model": 32, "n_layers": 1, "act_fn": "relu", "bias": False}, "anbn-s0"),
        (
            {"positions": "rotary", "norm": "rms", "norm_placement": "post"},
            "anbn-rotary-rms-post-s0",
        ),
        ({"mask": "strictly_causal", "scores": "dot"}, "anbn-dot-strictly-causal-s0"),
        ({"mask": "bidirectional", "positions": "alibi"}, "anbn-encoder-alibi-s0"),
        ({"mlp": "none", "norm": "none"}, "anbn-no-norm-attention-s0"),
        ({"architecture": "lstm"}, "anbn-lstm-s0"),
        ({"architecture": "ngram", "order": 4}, "anbn-4-gram-s0"),
    ],
)
def test_the_name_says_what_kind_of_model_it_is(changes: dict[str, Any], name: str) -> None:
    """The choices, not the sizes."""
    objective = "verdict" if changes.get("mask") == "bidirectional" else "next-symbols"
    config = tiny_config(model=ModelConfig(**changes), objective=objective)
    assert run_name(config) == name


def test_shifted_positions_are_in_the_name() -> None:
    config = tiny_config(model=ModelConfig(positions="learned"), max_offset=3)
    assert run_name(config) == "anbn-learned-shifted-s0"


def test_a_malformed_corpus_leaves_no_folder(tmp_path: Path) -> None:
    (tmp_path / "lines.tsv").write_text("no tab\n")
    with pytest.raises(UserError, match="expected one tab"):
        Run.create(
            tmp_path / "run", tiny_config(objective="verdict"), corpus=tmp_path / "lines.tsv"
        )
    assert not (tmp_path / "run").exists()


def test_a_corpus_teaches_no_next_symbols(tmp_path: Path) -> None:
    """It knows its whole lines alone: what it would say of a part of one is false."""
    (tmp_path / "lines.tsv").write_text("A\tx\nB\ty\n")
    with pytest.raises(UserError, match="choose --objective verdict"):
        Run.create(tmp_path / "run", tiny_config(language="lines"), tmp_path / "lines.tsv")
    assert not (tmp_path / "run").exists()


def test_lines_that_were_changed_are_refused(tmp_path: Path) -> None:
    """With all labels turned round, neither an answer nor a training would be about these lines."""
    lines = "".join(
        f"{'AB'[i % 2]}\tkat {'hond ' * (1 + i % 7)}{['aap', 'muis'][i % 2]}\n" for i in range(40)
    )
    (tmp_path / "lines.tsv").write_text(lines)
    config = tiny_config(language="lines", max_n=9, objective="verdict")
    made = Run.create(tmp_path / "run", config, corpus=tmp_path / "lines.tsv")
    assert made.corpus_bytes() == lines.encode()
    corpus = made.path / CORPUS
    corpus.write_text(lines.translate(str.maketrans("AB", "BA")))
    for ask in (Run.corpus_bytes, Run.model_hash, lambda run: run.language):
        with pytest.raises(UserError, match="not the file that the run was made with"):
            ask(Run(made.path))
    corpus.unlink()
    with pytest.raises(UserError, match="is missing: put back the file"):
        _ = Run(made.path).language


def test_a_run_can_be_copied_and_opened_elsewhere(trained: Run, tmp_path: Path) -> None:
    copy = Run(Path(shutil.copytree(trained.path, tmp_path / "elsewhere" / "run")))
    shutil.rmtree(trained.path)
    assert copy.record["status"] == "finished"
    assert copy.model().vocabulary.symbols == ("a", "b")


def test_the_only_run_in_a_folder_is_meant(tmp_path: Path) -> None:
    first = Run.create(tmp_path / "runs" / "a", tiny_config())
    assert Run(tmp_path / "runs").path == first.path
    second = Run.create(tmp_path / "runs" / "b", tiny_config())
    assert find_runs(tmp_path / "runs") == [first.path, second.path]
    for path in (tmp_path / "runs", tmp_path / "runs" / "none"):
        with pytest.raises(UserError, match=rf"^{path} is not a run: choose one of {first.path}, "):
            Run(path)


def test_a_folder_that_may_not_be_read_is_told(
    trained: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A stand-in for the rights of another user, because root may read everything."""
    monkeypatch.setattr(os, "access", lambda path, mode: Path(path) != trained.path)
    assert trained.path in find_runs(trained.path.parent)
    scan, exists = os.scandir, os.path.lexists

    def closed(path: str) -> Any:
        if Path(path).is_relative_to(trained.path):
            raise PermissionError(13, "Permission denied", str(path))
        return scan(path)

    monkeypatch.setattr(os, "scandir", closed)
    monkeypatch.setattr(os.path, "lexists", lambda path: path.name != RUN_FILE and exists(path))
    for ask in (lambda: Run(trained.path), trained.steps):
        with pytest.raises(UserError, match=rf"^cannot read {trained.path}\S* \(Permission denied"):
            ask()


def test_a_record_that_is_no_plain_file_is_named(tmp_path: Path) -> None:
    run = Run.create(tmp_path / "run", tiny_config()).path / RUN_FILE
    run.unlink()
    os.mkfifo(run)
    with pytest.raises(UserError, match=rf"^{run} is not a plain file: "):
        Run(run.parent)


def test_a_record_that_leads_nowhere_is_listed_and_named(tmp_path: Path) -> None:
    for name, target in (("dead", "nowhere"), ("loop", RUN_FILE)):
        (tmp_path / name).mkdir()
        (tmp_path / name / RUN_FILE).symlink_to(target)
        with pytest.raises(UserError, match=rf"^cannot read {tmp_path / name / RUN_FILE} "):
            Run(tmp_path / name)
    assert [path.name for path in find_runs(tmp_path)] == ["dead", "loop"]


def test_a_run_in_training_is_gone_on_with(tmp_path: Path) -> None:
    run = Run.create(tmp_path / "run", tiny_config())
    with pytest.raises(UserError, match="continue it with `lab resume"):
        Run.create(run.path, tiny_config())
    run.update(status="finished")
    with pytest.raises(UserError, match=r"exists already: choose another folder"):
        Run.create(run.path, tiny_config())


@pytest.mark.parametrize("change", [{"language": "anbm9"}, {"regex": "a*b"}, {"grammar": "S -> ("}])
def test_a_language_that_is_none_is_told_of_the_record(
    trained: Run, change: dict[str, Any]
) -> None:
    trained.update(config={**trained.record["config"], **change})
    with pytest.raises(UserError, match=rf"^{trained.path / RUN_FILE}: [^\n]*$"):
        assert Run(trained.path).language


def test_where_there_is_no_run(tmp_path: Path) -> None:
    empty = tmp_path / "empty"  # other tests may have left runs beside this one's folder
    empty.mkdir()
    for path in (empty, empty / "none", empty / "none" / "deeper"):
        with pytest.raises(UserError, match=r"^[^\n]* is not a run: train one with [^\n]*$"):
            Run(path)
        assert find_runs(path) == []


@pytest.mark.parametrize(
    ("content", "fault"),
    [
        ("", "is not valid JSON"),
        ('{"config": {"lang', "is not valid JSON"),
        ("[]", "is damaged"),
        ("{}", "is damaged"),
        ('{"status": "training", "config": 3}', "is damaged"),
        ('{"status": "training", "config": {}}', "the configuration does not fit"),
        (
            '{"status": "training", "config": {"language": "anbn", "model": {"wheels": 4}}}',
            r"does not fit [^\n]*\(model.counting is missing\)",
        ),
        ('{"status": "training", "config": {"model": null}}', r"\(model is no object\)"),
    ],
)
def test_a_damaged_record_is_refused_in_one_line(trained: Run, content: str, fault: str) -> None:
    (trained.path / RUN_FILE).write_text(content)
    with pytest.raises(UserError, match=rf"^[^\n]*{fault}[^\n]*$"):
        Run(trained.path)


def test_an_edited_record_is_told_by_its_fields(trained: Run) -> None:
    """Its reader writes no options."""
    trained.update(config={**trained.record["config"], "disfluent": 0.5})
    with pytest.raises(UserError, match="choose disfluent 0, or objective verdict and vocabulary"):
        Run(trained.path)


def test_a_record_that_may_not_be_read_is_not_to_be_removed(
    trained: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("models.plain_files.os.access", lambda path, _: path.name != RUN_FILE)
    with pytest.raises(
        UserError, match=r"run.json \(Permission denied\): ask for the right to rea"
    ):
        Run(trained.path)


def test_a_line_that_is_still_being_written_is_left_out(trained: Run) -> None:
    whole = trained.metrics()
    with (trained.path / "metrics.jsonl").open("a") as file:
        file.write('{"step": 15, "lo')
    assert trained.metrics() == whole


def test_names() -> None:
    assert run_name(tiny_config(seed=3)) == "anbn-s3"


@pytest.mark.parametrize(
    ("field", "value"), [("spread", "efen"), ("objective", "all"), ("weight_decay", math.nan)]
)
def test_an_edited_configuration_is_refused(trained: Run, field: str, value: object) -> None:
    record = trained.record
    record["config"][field] = value
    trained.update(**record)
    with pytest.raises(UserError, match=field):
        Run(trained.path)


def test_a_damaged_line_of_metrics_is_named(trained: Run) -> None:
    path = trained.path / METRICS
    path.write_text("{nonsense\n" + path.read_text())
    with pytest.raises(UserError, match=r"metrics\.jsonl is not valid JSON \(line 1, "):
        trained.metrics()


def test_a_run_is_seen_at_a_checkpoint(trained: Run) -> None:
    first, *_, last = trained.steps()
    assert first != last
    then = Run(trained.path, first)
    assert (then.step, trained.step) == (first, last)
    assert then.model_hash() == trained.model_and_hash(first)[1] != trained.model_hash()
    for name, weight in then.model().state_dict().items():
        assert torch.equal(weight, trained.model(first).state_dict()[name])
    with pytest.raises(UserError, match="no checkpoint at step 7: put it back, or choose one of"):
        Run(trained.path, 7)


def test_a_folder_whose_name_is_not_utf_8_hides_no_other(tmp_path: Path) -> None:
    good = Run.create(tmp_path / "good", tiny_config())
    shutil.copytree(good.path, tmp_path / os.fsdecode(b"bad\xff"))
    assert find_runs(tmp_path) == [tmp_path / "good"]


@pytest.mark.parametrize(
    ("says", "commit"),
    [
        ("printf '\\351 not a commit'", None),
        ("printf 'x\\351' >&2; exit 128", None),
        ("echo not a commit; echo two", None),
        ("sleep 100", None),
        (f"echo {'0123456789' * 4}", "0123456789" * 4),
    ],
)
def test_what_git_says_is_a_commit_or_nothing(
    says: str, commit: str | None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    git = tmp_path / "git"
    git.write_text(f"#!/bin/sh\n{says}\n")
    git.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")
    monkeypatch.setattr("models.runs.run.PATIENCE", 0.3 if "sleep" in says else 5)
    assert git_commit.__wrapped__() == commit


def test_a_machine_without_git_has_no_commit(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", "")
    assert git_commit.__wrapped__() is None


def test_a_command_takes_a_run_whose_name_begins_with_a_dash() -> None:
    assert lab("analyse", Path("-x"), "heads") == "lab analyse ./-x heads"
