"""Fine-tuning begins with the parent's weights, changes what it should, and outlives its parent."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
from conftest import tiny_config

from analyses.command_line.app import main
from models.base import build
from models.config import TrainConfig
from models.errors import UserError
from models.languages import language
from models.model_config import ModelConfig
from models.runs import parents
from models.runs.parents import ABOUT, PARENT
from models.runs.run import Run, run_name
from models.training.adapters import add_adapters
from models.training.batches import draw, some_words
from models.training.loop import train
from models.training.state import STATE
from models.training.together import can_train_together
from models.training.trained_words import TrainedWords
from models.training.trainer import Trainer

CPU = torch.device("cpu")


@pytest.fixture(scope="module")
def parent(tmp_path_factory: pytest.TempPathFactory) -> Run:
    made = Run.create(tmp_path_factory.mktemp("parent") / "anbn", tiny_config(steps=20))
    train(made, "cpu")
    return made


def tuned(parent: Run, path: Path, **changes: object) -> Run:
    config = replace(parent.config, parent=parent.model_hash(), **changes)
    return Run.create(path, config, parent=parent)


class StopError(Exception):
    """A training is interrupted."""


def interrupt(run: Run) -> None:
    """Trains up to the tenth step."""

    def stop(step: int, loss: float | None) -> None:
        if step >= 10:
            raise StopError

    with pytest.raises(StopError):
        train(run, "cpu", progress=stop)


def weights(run: Run, step: int | None = None) -> dict[str, torch.Tensor]:
    return run.model(step).state_dict()


def test_it_begins_with_the_weights_of_its_parent(parent: Run, tmp_path: Path) -> None:
    run = tuned(parent, tmp_path / "run", seed=5)
    train(run, "cpu")
    for name, tensor in weights(run, 0).items():
        assert torch.equal(tensor, weights(parent)[name]), name
    assert any(
        not torch.equal(tensor, weights(parent)[name]) for name, tensor in weights(run).items()
    )


@pytest.mark.parametrize(
    ("what", "learns"),
    [
        ("all", lambda name: True),
        ("last", lambda name: name.startswith(("blocks.1.", "ln_final.", "unembed."))),
        ("head", lambda name: name.startswith("unembed.")),
    ],
)
def test_what_is_not_tuned_stays_to_the_bit(
    what: str, learns: Callable[[str], bool], tmp_path: Path
) -> None:
    shape = replace(tiny_config().model, n_layers=2)
    first = Run.create(tmp_path / "first", tiny_config(steps=5, model=shape))
    train(first, "cpu")
    run = tuned(first, tmp_path / "run", tuned=what, weight_decay=0.1)
    train(run, "cpu")
    for name, tensor in weights(run).items():
        moved = not torch.equal(tensor, weights(first)[name])
        assert moved == learns(name), name


def test_symbols_that_both_languages_have_keep_their_vectors(parent: Run, tmp_path: Path) -> None:
    run = tuned(parent, tmp_path / "run", language="anbncn", tuned="head", seed=7)
    train(run, "cpu")
    old, new = weights(parent), weights(run, 0)
    for name in ("embed.weight", "unembed.linear.weight", "unembed.linear.bias"):
        assert torch.equal(new[name][:4], old[name])  # BOS, END, a, b
        assert new[name].shape[0] == 5
    fresh = Trainer.at_start(
        Run.create(tmp_path / "fresh", replace(run.config, parent="", tuned="all")), CPU
    )
    assert torch.equal(new["embed.weight"][4], fresh.model.state_dict()["embed.weight"][4])
    assert not torch.equal(weights(run)["embed.weight"], new["embed.weight"])  # c has to be learned
    first = "blocks.0.attn.q.weight"
    assert torch.equal(weights(run)[first], old[first])


def test_it_resumes_to_the_bit_and_without_its_parent(tmp_path: Path) -> None:
    first = Run.create(tmp_path / "first", tiny_config(steps=10))
    train(first, "cpu")
    whole, broken = (tuned(first, tmp_path / name, tuned="last", steps=30) for name in "ab")
    shutil.rmtree(first.path)
    train(whole, "cpu")

    interrupt(broken)
    assert (broken.path / STATE).exists()
    train(Run(broken.path), "cpu")
    for name, tensor in weights(broken).items():
        assert torch.equal(tensor, weights(whole)[name]), name


def test_it_says_where_it_comes_from(parent: Run, tmp_path: Path) -> None:
    run = tuned(parent, tmp_path / "run")
    about = json.loads((run.path / ABOUT).read_text())
    assert about["sha256"] == run.config.parent == parent.model_hash()
    assert about["step"] == 20
    assert about["config"]["language"] == "anbn"
    assert run_name(run.config) == f"anbn-from-{parent.model_hash()[:6]}-all-s0"
    assert not can_train_together(run.config)
    assert can_train_together(parent.config)


def test_what_cannot_be_tuned_says_so(parent: Run, tmp_path: Path) -> None:
    config = replace(parent.config, parent=parent.model_hash())
    wide = replace(config, model=replace(config.model, d_mlp=12))
    with pytest.raises(UserError, match=r"has the shape of its parent anbn: leave the options"):
        Run.create(tmp_path / "wide", wide, parent=parent)
    with pytest.raises(UserError, match="are given with their run"):
        Run.create(tmp_path / "alone", config)
    with pytest.raises(UserError, match="has other weights than those that were asked for"):
        Run.create(tmp_path / "other", replace(config, parent="0" * 64), parent=parent)
    with pytest.raises(UserError, match="tuned is head, but the training starts from random"):
        replace(parent.config, tuned="head")
    grams = tiny_config(steps=1, model=ModelConfig(architecture="ngram"))
    counted = Run.create(tmp_path / "grams", grams)
    train(counted, "cpu")
    with pytest.raises(UserError, match="has no weights but counts"):
        tuned(counted, tmp_path / "from grams")
    assert not (tmp_path / "wide").exists()


@pytest.mark.parametrize("damage", ["changed", "gone"])
def test_damaged_weights_of_a_parent_are_refused(parent: Run, tmp_path: Path, damage: str) -> None:
    run = tuned(parent, tmp_path / "run")
    file = run.path / PARENT
    if damage == "gone":
        file.unlink()
    else:
        content = bytearray(file.read_bytes())
        content[-1] ^= 1
        file.write_bytes(content)
    with pytest.raises(UserError, match="put back the file, or begin the fine-tuning again"):
        train(run, "cpu")


@pytest.mark.parametrize("damage", ["changed", "gone", "cut"])
def test_a_parent_with_damaged_weights_leaves_no_run(tmp_path: Path, damage: str) -> None:
    parent = Run.create(tmp_path / "anbn", tiny_config(steps=2))
    train(parent, "cpu")
    file = parent.path / "checkpoints" / "step-000002" / "model.safetensors"
    content = bytearray(file.read_bytes())
    content[-1] ^= 1
    file.unlink()
    if damage != "gone":
        file.write_bytes(content[:-1] if damage == "cut" else content)
    with pytest.raises(UserError, match=r"model\.safetensors.*put back the.* checkpoint, or train"):
        tuned(parent, tmp_path / "run")
    assert not (tmp_path / "run").exists()


# -- low-rank additions ---------------------------------------------------------------------------


@pytest.mark.parametrize("adapted", ["attention", "mlp", "both"])
def test_lora_adds_a_product_of_its_rank(parent: Run, tmp_path: Path, adapted: str) -> None:
    run = tuned(parent, tmp_path / "run", tuned="lora", rank=2, adapted=adapted, steps=10)
    train(run, "cpu")
    kinds = {"attention": (".attn.",), "mlp": (".mlp.",), "both": (".attn.", ".mlp.")}[adapted]
    for name, tensor in weights(run).items():
        difference = tensor - weights(parent)[name]
        if name.startswith("unembed."):
            assert difference.abs().max() > 0
        elif tensor.ndim > 1 and any(kind in name for kind in kinds):
            assert torch.linalg.matrix_rank(difference, tol=1e-6) == 2, name
        else:
            assert difference.abs().max() == 0, name
    assert torch.equal(
        weights(run, 0)["blocks.0.attn.q.weight"], weights(parent)["blocks.0.attn.q.weight"]
    )


def test_merged_weights_say_the_same(parent: Run, tmp_path: Path) -> None:
    run = tuned(parent, tmp_path / "run", tuned="lora", rank=3, adapted="both")
    trainer = Trainer.at_start(run, CPU)
    for _ in range(5):
        trainer.advance()
    tokens = torch.tensor([[0, 2, 2, 3, 3], [0, 2, 3, 1, 1]])
    with torch.no_grad():
        torch.testing.assert_close(
            trainer.whole_model(tokens), trainer.model(tokens), rtol=1e-5, atol=1e-5
        )
        start = Trainer.at_start(run, CPU).model(tokens)
        torch.testing.assert_close(start, parent.model()(tokens), rtol=0, atol=0)
    learned = sum(p.numel() for p in trainer.model.parameters() if p.requires_grad)
    assert learned < sum(p.numel() for p in parent.model().parameters())


def test_lora_resumes_to_the_bit(parent: Run, tmp_path: Path) -> None:
    whole, broken = (tuned(parent, tmp_path / n, tuned="lora", rank=2, steps=20) for n in "ab")
    train(whole, "cpu")

    interrupt(broken)
    train(Run(broken.path), "cpu")
    for name, tensor in weights(broken).items():
        assert torch.equal(tensor, weights(whole)[name]), name


def test_what_has_no_such_maps_says_so(tmp_path: Path) -> None:
    shape = ModelConfig(architecture="lstm", n_layers=1, d_model=8)
    first = Run.create(tmp_path / "first", tiny_config(steps=1, model=shape))
    train(first, "cpu")
    with pytest.raises(UserError, match=r"no linear maps to adapt \(attention\)"):
        tuned(first, tmp_path / "run", tuned="lora")
    only = replace(tiny_config().model, mlp="none")
    with pytest.raises(UserError, match=r"no linear maps to adapt \(mlp\)"):
        tiny_config(model=only, parent="0", tuned="lora", adapted="mlp")


def test_lora_finds_nothing_to_adapt_in_identity_scores() -> None:
    shape = ModelConfig(n_layers=1, d_model=8, scores="identity")
    config = tiny_config(model=shape, parent="0", tuned="lora")
    model = build(config.model, language(config.language).vocabulary)
    add_adapters(model, config)
    named = {name.split(".")[3] for name, _ in model.named_parameters() if "lora_" in name}
    assert named == {"v", "o"}


# -- few lines ------------------------------------------------------------------------------------


def few(lines: int, **changes: object) -> TrainConfig:
    return tiny_config(language="dyck2", batch_size=32, max_n=10, lines=lines, **changes)


def test_few_lines_are_all_that_is_read() -> None:
    known, config = language("dyck2"), few(7)
    chosen = some_words(config, known)
    assert len(chosen) == len(np.unique(chosen.ids, axis=0)) == 7
    seen = set()
    for chunk in range(3):
        words, _ = draw(config, known, chunk)
        seen |= {
            known.vocabulary.decode(ids[:n])
            for ids, n in zip(words.ids, words.lengths, strict=True)
        }
    assert seen == {
        known.vocabulary.decode(ids[:n]) for ids, n in zip(chosen.ids, chosen.lengths, strict=True)
    }
    assert len(TrainedWords(config, known, 5)) == 7
    other = some_words(few(7, seed=1), known)
    assert {row.tobytes() for row in other.ids} != {row.tobytes() for row in chosen.ids}
    more = some_words(few(20), known)
    assert len(more) == 20


def test_a_language_of_few_words_gives_all_it_has() -> None:
    known = language("an")
    assert (
        len(
            some_words(
                tiny_config(language="an", objective="language-model", max_n=4, lines=50), known
            )
        )
        == 4
    )


# -- the command ----------------------------------------------------------------------------------


def test_the_command(parent: Run, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    words = ["finetune", str(parent.path), "anbncn", "--steps", "5", "--tuned", "last"]
    assert main([*words, "--lines", "9", "--seed", "3", "--out", str(tmp_path)]) == 0
    assert "5 steps" in capsys.readouterr().out
    (run,) = map(Run, tmp_path.iterdir())
    assert run.name == f"anbncn-from-{parent.model_hash()[:6]}-last-9-lines-s3"
    assert run.config.model == parent.config.model
    assert (run.config.lines, run.config.tuned, run.config.steps) == (9, "last", 5)
    for wrong, said in (
        (["finetune"], "no run is given: write `lab finetune RUN"),
        (["finetune", str(tmp_path / "gone")], "is not a run"),
        (["finetune", str(parent.path), "klingon"], "unknown language 'klingon'"),
        (["finetune", str(parent.path), "--lines", "-1"], "lines is -1: it must be at least 0"),
    ):
        assert main(wrong) == 2
        assert said in capsys.readouterr().err
    lines = tmp_path / "mine.tsv"
    lines.write_text(
        "".join(f"{'in' if i % 2 else 'out'}\ta b{' b' * (i % 5)} a{i}\n" for i in range(40))
    )
    assert main(["finetune", str(parent.path), "--corpus", str(lines), "--out", str(tmp_path)]) == 2
    assert "choose --objective verdict" in capsys.readouterr().err
    asked = [
        "--corpus",
        str(lines),
        "--objective",
        "verdict",
        "--steps",
        "3",
        "--out",
        str(tmp_path),
    ]
    assert main(["finetune", str(parent.path), *asked]) == 0
    capsys.readouterr()


# -- a random subspace ----------------------------------------------------------------------------


def test_weights_move_along_the_directions_of_the_subspace(parent: Run, tmp_path: Path) -> None:
    run = tuned(parent, tmp_path / "run", tuned="subspace", rank=3, steps=10)
    trainer = Trainer.at_start(run, CPU)
    learned = [p for p in trainer.model.parameters() if p.requires_grad]
    assert [tuple(p.shape) for p in learned] == [(3,)]
    train(run, "cpu")
    # Of eight seeds of one fine-tuning all differences would lie in other subspaces; those of one
    # seed at several steps lie in three dimensions, wherever the training went.
    moved = [
        torch.cat([(t - weights(run, 0)[n]).flatten() for n, t in weights(run, step).items()])
        for step in run.steps()[1:]
    ]
    longer = tuned(parent, tmp_path / "longer", tuned="subspace", rank=3, steps=14)
    other = tuned(parent, tmp_path / "other", tuned="subspace", rank=3, learning_rate=0.1)
    for each in (longer, other):
        train(each, "cpu")
        moved += [
            torch.cat([(t - weights(each, 0)[n]).flatten() for n, t in weights(each, step).items()])
            for step in each.steps()[1:]
        ]
    assert len(moved) > 3
    unit = torch.stack([move / move.norm() for move in moved])
    assert torch.linalg.matrix_rank(unit, tol=1e-4) <= 3
    assert all(move.abs().max() > 0 for move in moved)


def test_a_weight_moves_as_far_at_any_rank(parent: Run, tmp_path: Path) -> None:
    for rank in (4, 400):
        run = tuned(parent, tmp_path / f"{rank}", tuned="subspace", rank=rank)
        model = Trainer.at_start(run, CPU).model
        before = weights(parent)["blocks.0.attn.q.weight"]
        with torch.no_grad():
            model.get_parameter("subspace").fill_(1.0)  # a step of Adam is as long in each number
            moved = model.blocks[0].attn.q.weight - before
        assert 0.8 < moved.std() < 1.2


def test_a_checkpoint_of_a_subspace_says_what_the_training_model_says(
    parent: Run, tmp_path: Path
) -> None:
    run = tuned(parent, tmp_path / "run", tuned="subspace", rank=5)
    trainer = Trainer.at_start(run, CPU)
    tokens = torch.tensor([[0, 2, 2, 3, 3], [0, 2, 3, 1, 1]])
    with torch.no_grad():
        torch.testing.assert_close(trainer.model(tokens), parent.model()(tokens), rtol=0, atol=0)
    for _ in range(5):
        trainer.advance()
    with torch.no_grad():
        torch.testing.assert_close(trainer.whole_model(tokens), trainer.model(tokens))


def test_a_subspace_resumes_to_the_bit(parent: Run, tmp_path: Path) -> None:
    whole, broken = (tuned(parent, tmp_path / n, tuned="subspace", steps=20) for n in "ab")
    train(whole, "cpu")
    interrupt(broken)
    train(Run(broken.path), "cpu")
    for name, tensor in weights(broken).items():
        assert torch.equal(tensor, weights(whole)[name]), name


def test_a_subspace_that_is_too_large_is_refused(
    parent: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(parents, "MOST_BYTES", 10**6)
    with pytest.raises(UserError, match=r"more than 2 GiB: choose a --rank of at most \d+"):
        tuned(parent, tmp_path / "run", tuned="subspace", rank=2**10)
    assert not (tmp_path / "run").exists()


@pytest.mark.parametrize("architecture", ["lstm", "gru", "cnn"])
def test_rivals_have_subspaces_too(tmp_path: Path, architecture: str) -> None:
    shape = ModelConfig(architecture=architecture, n_layers=1, d_model=8)
    first = Run.create(tmp_path / "first", tiny_config(steps=1, model=shape))
    train(first, "cpu")
    run = tuned(first, tmp_path / "run", tuned="subspace", rank=4, steps=4)
    train(run, "cpu")
    before, after = weights(run, 0), weights(run)
    assert all((after[name] != before[name]).any() for name in after)
