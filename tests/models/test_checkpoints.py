"""Checkpoints come back bit by bit, or are refused in one line."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest
import torch
from conftest import tiny_config
from safetensors import safe_open

from models.errors import UserError
from models.runs.checkpoints import CONFIG, WEIGHTS, load_checkpoint, save_checkpoint
from models.runs.run import Run
from models.training.loop import train


@pytest.fixture(scope="module")
def pristine(tmp_path_factory: pytest.TempPathFactory) -> Run:
    run = Run.create(tmp_path_factory.mktemp("runs") / "run", tiny_config(steps=5))
    train(run, device="cpu")
    return run


@pytest.fixture
def run(pristine: Run, tmp_path: Path) -> Run:
    """A copy, to damage."""
    return Run(Path(shutil.copytree(pristine.path, tmp_path / "copy")))


@pytest.fixture(scope="module")
def other(tmp_path_factory: pytest.TempPathFactory) -> Run:
    """Another run of the same shape."""
    run = Run.create(tmp_path_factory.mktemp("runs") / "other", tiny_config(steps=5, seed=1))
    train(run, device="cpu")
    return run


def last(run: Run) -> Path:
    return run.checkpoints / "step-000005"


def test_what_was_saved_comes_back(tmp_path: Path, run: Run) -> None:
    model = run.untrained()
    with torch.no_grad():
        for parameter in model.parameters():
            parameter += torch.randn(parameter.shape, generator=torch.Generator().manual_seed(1))
    save_checkpoint(tmp_path, model, run.config, 7)
    found, digest = load_checkpoint(tmp_path / "step-000007", run.config, model.vocabulary)
    assert not found.training
    assert len(digest) == 64
    for name, value in model.state_dict().items():
        assert torch.equal(found.state_dict()[name], value), name
    tokens = model.to_tokens("aabb")
    assert torch.equal(found(tokens), model.eval()(tokens))


def test_weights_are_plain_safetensors_with_their_record(run: Run) -> None:
    model, digest = run.model_and_hash()
    with safe_open(last(run) / WEIGHTS, framework="pt") as file:
        assert set(file.keys()) == set(model.state_dict())
    about = json.loads((last(run) / CONFIG).read_text())
    assert about["step"] == 5
    assert about["sha256"] == digest == run.model_hash()
    assert about["vocabulary"] == ["a", "b"]
    assert about["config"]["language"] == "anbn"


def test_the_last_checkpoint_is_the_default(run: Run) -> None:
    assert run.model_and_hash()[1] == run.model_and_hash(5)[1] != run.model_and_hash(0)[1]
    first, untrained = run.model(0).state_dict(), run.untrained().state_dict()
    assert all(torch.equal(first[name], untrained[name]) for name in first)
    assert not run.untrained().training


# -- damage -------------------------------------------------------------------------------------


def cut(run: Run, other: Run) -> None:
    content = (last(run) / WEIGHTS).read_bytes()
    (last(run) / WEIGHTS).write_bytes(content[: len(content) // 2])


def empty(run: Run, other: Run) -> None:
    (last(run) / WEIGHTS).write_bytes(b"")


def take_away(run: Run, other: Run) -> None:
    (last(run) / WEIGHTS).unlink()


def take_the_record_away(run: Run, other: Run) -> None:
    (last(run) / CONFIG).unlink()


def cut_the_record(run: Run, other: Run) -> None:
    content = (last(run) / CONFIG).read_bytes()
    (last(run) / CONFIG).write_bytes(content[: len(content) // 2])


def write_a_list_as_the_record(run: Run, other: Run) -> None:
    (last(run) / CONFIG).write_text("[]")


def no_text_as_the_record(run: Run, other: Run) -> None:
    (last(run) / CONFIG).write_bytes(b"\xff\xfe\x00")


def put_another_run_s(run: Run, other: Run) -> None:
    shutil.rmtree(last(run))
    shutil.copytree(last(other), last(run))


def put_another_run_s_weights(run: Run, other: Run) -> None:
    shutil.copy(last(other) / WEIGHTS, last(run) / WEIGHTS)


def put_another_step_s(run: Run, other: Run) -> None:
    shutil.rmtree(last(run))
    shutil.copytree(run.checkpoints / "step-000002", last(run))


def put_another_step_s_weights(run: Run, other: Run) -> None:
    shutil.copy(run.checkpoints / "step-000002" / WEIGHTS, last(run) / WEIGHTS)


@pytest.mark.parametrize(
    "damage",
    [
        cut,
        empty,
        take_away,
        take_the_record_away,
        cut_the_record,
        write_a_list_as_the_record,
        no_text_as_the_record,
        put_another_run_s,
        put_another_run_s_weights,
        put_another_step_s,
        put_another_step_s_weights,
    ],
)
def test_damage_is_refused_in_one_line(
    run: Run, other: Run, damage: Callable[[Run, Run], None]
) -> None:
    damage(run, other)
    with pytest.raises(UserError, match=r"^[^\n]*step-000005[^\n]*: [^\n]+$"):
        run.model()
    run.model(2)  # the others can still be used


@pytest.mark.parametrize("damage", [put_another_run_s, put_another_step_s])
def test_no_answer_is_about_another_s_checkpoint(
    run: Run, other: Run, damage: Callable[[Run, Run], None]
) -> None:
    damage(run, other)
    with pytest.raises(UserError, match=r"belongs to another run \(its (step|config) differs"):
        run.model_hash()


@pytest.mark.slow
@pytest.mark.parametrize("name", [WEIGHTS, CONFIG])
def test_a_flipped_bit_is_found_wherever_it_is(run: Run, name: str) -> None:
    """Every 5th byte, a bit of each: refused, or (an exponent's E in the record) the same model."""
    path, content = last(run) / name, (last(run) / name).read_bytes()
    digest = run.model_and_hash()[1]
    refused = 0
    places = range(0, len(content), 5)
    for count, place in enumerate(places):
        flipped = bytearray(content)
        flipped[place] ^= 1 << count % 8
        path.write_bytes(flipped)
        try:
            assert run.model_and_hash()[1] == digest
        except UserError as error:
            said = str(error).split("(Type-check error")[0]  # which only the tests' checker says
            assert "\n" not in said
            refused += 1
    assert refused >= len(places) - 2


def test_a_checkpoint_of_other_symbols_is_refused(run: Run) -> None:
    about = json.loads((last(run) / CONFIG).read_text())
    about["vocabulary"] = ["b", "a"]
    (last(run) / CONFIG).write_text(json.dumps(about))
    with pytest.raises(UserError, match="its vocabulary differs"):
        run.model()


def test_missing_checkpoints(run: Run) -> None:
    with pytest.raises(UserError, match=r"^[^\n]* no checkpoint at step 3: [^\n]*\[0, 1, 2, 5\]$"):
        run.model(3)
    shutil.rmtree(run.checkpoints)
    with pytest.raises(
        UserError, match=r"^[^\n]* has no checkpoint: put [^\n]* back, or train again$"
    ):
        run.model()
    run.update(status="training")
    with pytest.raises(UserError, match=r"^[^\n]* has no checkpoint yet: [^\n]*$"):
        run.model()


def test_other_folders_are_no_checkpoints(run: Run) -> None:
    """What a file manager leaves, and what a killed writer left."""
    for name in ("step-000005 (copy)", ".step-000009.123.partial", "step-", "notes"):
        (run.checkpoints / name).mkdir()
    assert run.steps() == [0, 1, 2, 5]
