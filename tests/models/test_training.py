"""Training: the same bits whatever happens on the way."""

from __future__ import annotations

import hashlib
import json
import math
import os
import shutil
import signal
import subprocess
import sys
from dataclasses import asdict
from pathlib import Path
from unittest import mock

import numpy as np
import pytest
import torch
from conftest import TINY, tiny_config
from drawn import words_of
from safetensors import safe_open
from safetensors.torch import load, save

from models.config import TrainConfig
from models.errors import UserError
from models.languages import LabelledCorpus, Sample, language
from models.model_config import ModelConfig
from models.runs.run import METRICS, Run
from models.training.loop import train
from models.training.state import STATE, save_state
from models.training.trainer import Trainer, choose_device, learning_rate
from models.training.writer import _checkpoint_steps, validation_sample
from models.transformer.model import HookedTransformer

FIXED = {"step", "loss", "validation_loss", "exact", "recognition", "learning_rate"}


def make(path: Path, **changes: object) -> Run:
    run = Run.create(path, tiny_config(**changes))
    train(run, device="cpu")
    return run


def bits(run: Run) -> dict[str, bytes]:
    """The content of every file that a run ends with, times and names left out."""
    files = [*sorted(run.checkpoints.glob("step-*/*")), run.path / STATE]
    content = {str(file.relative_to(run.path)): file.read_bytes() for file in files}
    lines = [{key: line[key] for key in FIXED} for line in run.metrics()]
    return content | {METRICS: json.dumps(lines).encode()}


# -- one run ------------------------------------------------------------------------------------


def test_what_a_run_leaves(trained: Run) -> None:
    assert trained.record["status"] == "finished"
    assert trained.record["steps"] == 12
    assert trained.steps() == [0, 1, 2, 5, 10, 12]
    lines = trained.metrics()
    assert [line["step"] for line in lines] == [3, 6, 9, 12]
    assert all(set(line) == FIXED | {"seconds"} for line in lines)
    assert all(0 <= line[share] <= 1 for line in lines for share in ("exact", "recognition"))
    assert lines[-1]["validation_loss"] < lines[0]["validation_loss"]
    assert not list(trained.path.rglob("*.partial"))


def test_the_last_evaluation_is_at_the_last_step(tmp_path: Path) -> None:
    run = make(tmp_path / "run", steps=7)
    assert [line["step"] for line in run.metrics()] == [3, 6, 7]
    assert run.steps() == [0, 1, 2, 5, 7]


def test_the_seed_decides_the_bits(trained: Run, tmp_path: Path) -> None:
    again, other = make(tmp_path / "again"), make(tmp_path / "other", seed=1)
    assert bits(again) == bits(trained)
    assert again.model_and_hash()[1] != other.model_and_hash()[1]
    assert again.model_and_hash(0)[1] != other.model_and_hash(0)[1]


def test_global_random_states_are_left_alone(tmp_path: Path) -> None:
    torch_state, numpy_state = torch.get_rng_state(), np.random.get_state()[1].copy()
    make(tmp_path / "run", steps=2)
    assert torch.equal(torch.get_rng_state(), torch_state)
    assert (np.random.get_state()[1] == numpy_state).all()


def test_a_run_is_a_plain_loop_of_adamw(trained: Run) -> None:
    """Five steps written out: words of the step's own stream, clipping, warm-up and cosine."""
    config, lang = trained.config, language("anbn")
    model = HookedTransformer(config.model, lang.vocabulary, config.seed)
    parameters = list(model.parameters())
    mean = [torch.zeros_like(p) for p in parameters]
    square = [torch.zeros_like(p) for p in parameters]
    for step in range(5):
        batch = trained.objective.batch(lang, words_of(config, lang, step)[0])
        value = trained.objective.loss(model(batch.tokens), batch)
        gradients = torch.autograd.grad(value, parameters)
        norm = math.sqrt(sum(float(g.pow(2).sum()) for g in gradients))
        rate = config.learning_rate * min(1, (step + 1) / config.warmup)
        rate *= (1 + math.cos(math.pi * step / config.steps)) / 2
        with torch.no_grad():
            for p, g, m, v in zip(parameters, gradients, mean, square, strict=True):
                g = g * min(1.0, config.clip / norm)
                m += 0.1 * (g - m)
                v += 0.01 * (g * g - v)
                corrected = m / (1 - 0.9 ** (step + 1)), v / (1 - 0.99 ** (step + 1))
                p -= rate * (corrected[0] / (corrected[1].sqrt() + 1e-8))
    for name, value in trained.model(5).named_parameters():
        torch.testing.assert_close(value, model.get_parameter(name), rtol=1e-3, atol=1e-5)


def test_weight_decay_is_decoupled(tmp_path: Path) -> None:
    """At the first step the weights shrink by rate times decay, and nothing else changes."""
    plain = make(tmp_path / "plain", steps=1, warmup=0, learning_rate=0.1)
    decayed = make(tmp_path / "decayed", steps=1, warmup=0, learning_rate=0.1, weight_decay=0.5)
    start = dict(plain.model(0).named_parameters())
    for name, value in decayed.model(1).named_parameters():
        expected = plain.model(1).get_parameter(name) - 0.1 * 0.5 * start[name]
        torch.testing.assert_close(value, expected, rtol=1e-4, atol=1e-5)


def test_the_clip_bounds_the_step_s_gradient(tmp_path: Path) -> None:
    run = Run.create(tmp_path / "run", tiny_config(clip=1e-3))
    trainer = Trainer.at_start(run, torch.device("cpu"))
    trainer.advance()
    norm = torch.cat([p.grad.flatten() for p in trainer.model.parameters()]).norm()
    assert float(norm) == pytest.approx(1e-3, rel=1e-3)


def test_the_learning_rate_rises_and_falls() -> None:
    config = tiny_config(steps=100, warmup=10, learning_rate=1.0)
    rates = [learning_rate(config, step) for step in range(101)]
    assert rates[0] == pytest.approx(0.1)
    assert max(rates) <= 1
    assert rates[:10] == sorted(rates[:10])
    assert rates[10:] == sorted(rates[10:], reverse=True)
    assert rates[50] == pytest.approx(0.5)
    assert rates[100] == pytest.approx(0)


def test_progress_is_told(tmp_path: Path) -> None:
    told = []
    run = Run.create(tmp_path / "run", tiny_config())
    train(run, "cpu", lambda step, value: told.append((step, value)))
    assert [step for step, _ in told] == sorted(step for step, _ in told)
    assert told[0] == (0, None)
    assert told[-1] == (12, None)
    assert any(isinstance(value, float) for _, value in told)


def test_training_a_finished_run_does_nothing(trained: Run) -> None:
    before = {f: (f.read_bytes(), f.stat().st_mtime_ns) for f in _files(trained)}
    told = []
    train(trained, "cpu", lambda step, value: told.append(step))
    assert {f: (f.read_bytes(), f.stat().st_mtime_ns) for f in _files(trained)} == before
    assert told == []


def _files(run: Run) -> list[Path]:
    return [file for file in run.path.rglob("*") if file.is_file()]


EASY = {
    "language": "an",
    "max_n": 3,
    "steps": 400,
    "learning_rate": 1e-2,
    "evaluate_every": 7,
    "model": ModelConfig(n_layers=1, n_heads=2, d_model=16, d_mlp=32),
}


def test_patience_ends_a_run_that_makes_no_mistake(tmp_path: Path) -> None:
    run = make(tmp_path / "run", patience=3, **EASY)
    lines = run.metrics()
    flawless = [line["exact"] == line["recognition"] == 1 for line in lines]
    assert flawless[-3:] == [True] * 3
    assert not any(all(flawless[i : i + 3]) for i in range(len(flawless) - 3))
    stopped = run.record["steps"]
    assert stopped == lines[-1]["step"] == run.steps()[-1] < 400
    assert run.model_and_hash(stopped)[0].training is False


def test_one_mistake_and_patience_begins_anew(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    verdicts = iter([1, 1, 0, 1, 0, 1, 1, 1])

    def judge(model: object, lang: object, sample: Sample, *asked: object) -> tuple:
        right = np.ones(len(sample.labels), dtype=bool)
        right[-1] = next(verdicts)
        return right, np.ones_like(right), 0.5

    monkeypatch.setattr("models.training.writer.judge", judge)
    run = make(tmp_path / "run", steps=30, patience=3)
    assert run.record["steps"] == 8 * 3


@pytest.mark.slow
def test_without_patience_all_steps_are_trained(tmp_path: Path) -> None:
    run = make(tmp_path / "run", **{**EASY, "steps": 100})
    assert run.record["steps"] == 100
    assert run.metrics()[-1]["exact"] == 1.0


def test_verdicts_alone_have_no_exact_share(tmp_path: Path) -> None:
    """It is of sets of next symbols, which were not taught."""
    run = make(tmp_path / "run", **{**EASY, "steps": 2, "objective": "verdict"})
    assert run.metrics()[-1]["exact"] is None


def test_checkpoint_steps() -> None:
    assert sorted(_checkpoint_steps(1)) == [0, 1]
    assert sorted(_checkpoint_steps(10)) == [0, 1, 2, 5, 10]
    assert sorted(_checkpoint_steps(1000)) == [0, 1, 2, 5, 10, 20, 50, 100, 200, 500, 1000]
    assert sorted(_checkpoint_steps(70)) == [0, 1, 2, 5, 10, 20, 50, 70]


# -- killed and resumed -------------------------------------------------------------------------

KILLER = """
import json, os, signal, sys
from pathlib import Path
import torch
torch.set_num_threads(1)
from models.runs.run import Run
from models.training.loop import train

def die():
    if "torch._dynamo" in sys.modules:
        os._exit(3)
    os.kill(os.getpid(), signal.SIGKILL)

def attempt(folder, kind, number):
    renamed, rename = [], os.replace
    def replace(*paths):
        renamed.append(paths)
        if kind == "rename" and len(renamed) == number:
            die()
        rename(*paths)
    os.replace = replace
    def progress(step, value):
        if kind == "step" and step == number:
            die()
    train(Run(Path(folder)), "cpu", progress)
    os._exit(0)

for folder, *kills in json.load(sys.stdin):
    for kind, number in kills:
        child = os.fork()
        if not child:
            attempt(folder, kind, number)
        print(os.waitpid(child, 0)[1])
"""


def renames_of(config: TrainConfig, path: Path) -> int:
    """How often an undisturbed run puts a file in place."""
    run = Run.create(path, config)
    with mock.patch("os.replace", wraps=os.replace) as replace:
        train(run, device="cpu")
    return replace.call_count


@pytest.mark.slow
def test_a_killed_and_resumed_run_ends_with_the_same_bits(trained: Run, tmp_path: Path) -> None:
    """SIGKILL at a random step, and before some of the files that the run puts in place, drawn anew
    each time; some twice. No training imports a compiler: torch's own optimizers do, and it takes
    longer than to train a small network."""
    renames = renames_of(trained.config, tmp_path / "counted")
    rng = np.random.default_rng()
    steps = rng.choice(12, 1).tolist()
    kills: list[list[list[object]]] = [[["step", step]] for step in steps]
    kills += [[["rename", n]] for n in (1 + rng.choice(renames, 3, replace=False)).tolist()]
    # Twice; the second pair while a checkpoint is being written anew.
    kills += [[["step", 5], ["step", 10]], [["rename", 12], ["rename", 3]]]
    runs = [Run.create(tmp_path / str(number), trained.config) for number in range(len(kills))]
    orders = [[str(run.path), *kill] for run, kill in zip(runs, kills, strict=True)]
    done = subprocess.run(
        [sys.executable, "-c", KILLER], input=json.dumps(orders), capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.split() == [str(int(signal.SIGKILL))] * sum(map(len, kills))
    expected = bits(trained)
    for run, kill in zip(runs, kills, strict=True):
        assert run.record["status"] == "training", kill
        train(run, device="cpu")
        assert run.record["status"] == "finished"
        assert bits(run) == expected, kill


def test_checkpoints_later_than_the_saved_state_are_forgotten(tmp_path: Path) -> None:
    """Killed at step 11, it goes on from step 9: a checkpoint of step 10 is no state of it."""
    run = Run.create(tmp_path / "run", tiny_config())

    class KilledError(Exception):
        pass

    def kill(step: int, value: float | None) -> None:
        if step == 11:
            raise KilledError

    with pytest.raises(KilledError):
        train(run, "cpu", kill)
    assert run.steps()[-1] == 10
    seen = []
    train(run, "cpu", lambda step, value: seen.append((step, run.steps()[-1])))
    assert seen[0] == (9, 5)
    assert run.steps() == [0, 1, 2, 5, 10, 12]


def test_a_resumed_run_that_was_already_flawless_stops_at_once(tmp_path: Path) -> None:
    whole = make(tmp_path / "whole", patience=3, **EASY)
    run = make(tmp_path / "run", patience=3, **EASY)
    run.update(status="training")  # killed just before it could say that it had finished
    train(run, device="cpu")
    assert bits(run) == bits(whole)
    assert run.record["status"] == "finished"


@pytest.mark.parametrize("lost", ["checkpoints", "step", "half", "a file"])
def test_a_lost_last_checkpoint_is_written_from_the_state(trained: Run, lost: str) -> None:
    whole, last = trained.model().state_dict(), trained.checkpoints / "step-000012"
    trained.update(status="training")
    if lost == "half":
        weights = last / "model.safetensors"
        weights.write_bytes(weights.read_bytes()[:200])
    else:
        shutil.rmtree(last if lost == "step" else trained.checkpoints)
    if lost == "a file":
        trained.checkpoints.touch()
        with pytest.raises(UserError, match="a file is in the way"):
            train(trained, "cpu")
        assert trained.record["status"] == "training"
        trained.checkpoints.unlink()
    train(trained, "cpu")
    assert trained.record["status"] == "finished"
    assert all(value.equal(whole[name]) for name, value in trained.model().state_dict().items())


@pytest.mark.parametrize("damage", ["truncated", "flipped", "another run's", "another's shape"])
def test_a_damaged_state_is_refused(trained: Run, tmp_path: Path, damage: str) -> None:
    path = trained.path / STATE
    content = bytearray(path.read_bytes())
    if damage == "truncated":
        path.write_bytes(content[: len(content) // 2])
    elif damage == "flipped":
        content[-100] ^= 4
        path.write_bytes(content)
    elif damage == "another run's":
        path.write_bytes((make(tmp_path / "b", seed=1).path / STATE).read_bytes())
    else:
        shape = ModelConfig(n_layers=2, n_heads=2, d_model=8, d_mlp=16)
        path.write_bytes((make(tmp_path / "b", model=shape).path / STATE).read_bytes())
    trained.update(status="training")
    before = bits(trained)
    with pytest.raises(UserError, match=r"^[^\n]*training\.safetensors[^\n]*$"):
        train(trained, device="cpu")
    assert bits(trained) == before


def test_a_run_of_an_older_version_goes_on(tmp_path: Path) -> None:
    """Its record and its state know nothing of a field that came later."""
    run = Run.create(tmp_path / "run", tiny_config())
    config = run.record["config"]
    del config["patience"]
    run.update(config=config)
    trainer = Trainer.at_start(Run(run.path), torch.device("cpu"))
    trainer.advance()
    save_state(trainer)
    with safe_open(run.path / STATE, framework="pt") as file:
        about = json.loads(file.metadata()["about"])
    written = save(load((run.path / STATE).read_bytes()))
    owner = json.dumps([1, 0, config])
    assert about["sha256"] == hashlib.sha256(written + owner.encode()).hexdigest()
    train(Run(run.path), device="cpu")
    assert run.record["status"] == "finished"


# -- what is trained on -------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["an", "anbn", "anbncn", "dieren"])
def test_validation_has_a_member_of_every_size_of_the_window(name: str) -> None:
    lang = language(name)
    sample = validation_sample(lang, TrainConfig(name, max_n=150))
    words = zip(sample.words.ids, sample.words.lengths, strict=True)
    truth = [lang.contains(lang.vocabulary.decode(ids[:length])) for ids, length in words]
    assert sample.labels.tolist() == truth
    window = lang.lengths(150)
    assert set(sample.words.lengths[sample.labels]) == set(lang.positive_lengths(window))
    assert set(sample.words.lengths) <= set(window)
    assert 90 < (~sample.labels).sum() < 170  # of the 256 that are drawn
    again = validation_sample(lang, TrainConfig(name, max_n=150))
    assert (again.words.ids == sample.words.ids).all()


def test_a_corpus_run(tmp_path: Path) -> None:
    """It carries its lines along: the file they came from may go."""
    lang = language("dieren")
    sample = lang.sample(np.random.default_rng(0), 100, range(3, 8))
    rows = zip(sample.words.ids, sample.words.lengths, sample.labels, strict=True)
    lines = [
        f"{'AB'[not label]}\t{' '.join(lang.vocabulary.decode(i[:n]))}" for i, n, label in rows
    ]
    source = tmp_path / "lines.tsv"
    source.write_text("\n".join(lines))
    config = tiny_config(language="lines", objective="verdict", steps=3)
    run = Run.create(tmp_path / "run", config, corpus=source)
    source.unlink()
    train(run, device="cpu")
    assert isinstance(run.language, LabelledCorpus)
    assert run.language.name == "lines"
    reopened = Run(run.path)
    assert reopened.model().vocabulary == run.language.vocabulary
    assert reopened.metrics()[-1]["step"] == 3


def test_a_corpus_that_is_too_small_is_refused_in_one_line(tmp_path: Path) -> None:
    source = tmp_path / "lines.tsv"
    source.write_text("A\ta b\nB\tb a\n")
    with pytest.raises(
        UserError, match=r"^lines has too few different lines \(2 in 2 lines\) [^\n]*$"
    ):
        Run.create(tmp_path / "run", tiny_config(language="lines", objective="verdict"), source)
    assert not (tmp_path / "run").exists()


def test_validation_lines_without_a_member_have_no_exact_share(tmp_path: Path) -> None:
    """Which is no number, so that metrics.jsonl stays JSON."""
    words = [f"B\tx w{n}" for n in range(60)] + ["A\ty"]
    source = tmp_path / "lines.tsv"
    source.write_text("\n".join(["A\tz", *words]))
    config = tiny_config(language="lines", objective="verdict", steps=3)
    run = Run.create(tmp_path / "run", config, corpus=source)
    rng = np.random.default_rng(0)
    held = run.language.sample(rng, 500, run.language.lengths(1), split="validation")
    assert not held.labels.any()
    train(run, device="cpu")
    assert run.metrics()[-1]["exact"] is None
    assert "NaN" not in (run.path / METRICS).read_text()


# -- configurations -----------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("changes", "fault"),
    [
        ({"max_n": 0}, "max_n is 0: it must be at least 1"),
        ({"steps": 0}, "steps is 0"),
        ({"batch_size": -3}, "batch_size is -3"),
        ({"evaluate_every": 0}, "evaluate_every is 0"),
        ({"seed": -1}, "seed is -1: it must be at least 0"),
        ({"warmup": -1}, "warmup is -1"),
        ({"weight_decay": -0.1}, "weight_decay is -0.1"),
        ({"patience": -1}, "patience is -1"),
        ({"learning_rate": 0.0}, "learning_rate is 0.0: it must be at least 1e-12"),
        ({"learning_rate": float("nan")}, "learning_rate is nan"),
        ({"clip": -1.0}, "clip is -1.0"),
    ],
)
def test_impossible_settings_are_refused(changes: dict[str, object], fault: str) -> None:
    with pytest.raises(UserError, match=rf"^{fault}[^\n]*$"):
        tiny_config(**changes)


def test_a_configuration_survives_json() -> None:
    config = tiny_config(seed=3, learning_rate=1e-3, objective="verdict", patience=2)
    assert TrainConfig.from_dict(json.loads(json.dumps(asdict(config)))) == config


@pytest.mark.parametrize(
    "values",
    [
        {},
        {"language": "anbn"},
        {**asdict(tiny_config()), "colour": "blue"},
        {**asdict(tiny_config()), "model": {**asdict(TINY), "n_wheels": 4}},
        {**asdict(tiny_config()), "model": 3},
    ],
    ids=["empty", "no model", "unknown", "unknown in model", "no shape"],
)
def test_a_configuration_of_another_version_is_refused(values: dict[str, object]) -> None:
    with pytest.raises(UserError, match=r"^the configuration does not fit [^\n]*$"):
        TrainConfig.from_dict(values)


def test_devices(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    assert choose_device("auto") == choose_device("cpu") == torch.device("cpu")
    with pytest.raises(UserError, match=r"^no CUDA device here: use --device cpu[^\n]*$"):
        choose_device("cuda")
    with pytest.raises(UserError, match=r"^unknown device 'tpu'[^\n]*$"):
        choose_device("tpu")
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    assert choose_device("auto") == choose_device("cuda") == torch.device("cuda")


@pytest.mark.slow
def test_the_machine_s_threads_do_not_move_the_weights(tmp_path: Path) -> None:
    hashes = []
    for threads in (1, 2):
        run = Run.create(tmp_path / str(threads), tiny_config(batch_size=64, max_n=25))
        torch.set_num_threads(threads)
        try:
            train(run, device="cpu")
            assert torch.get_num_threads() == threads
        finally:
            torch.set_num_threads(1)
        hashes.append(run.model_hash())
    assert hashes[0] == hashes[1]
