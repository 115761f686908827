"""The properties of positions: each cell against a closed form, or brute force."""

from __future__ import annotations

import json
import math
from dataclasses import replace
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import torch
from conftest import TINY, tiny_config
from scipy.special import xlogy

from analyses.answers import Answer, answer
from analyses.command_line.app import main
from analyses.options.inside import Positions
from analyses.questions.inside.positions import QUESTION, _position_table
from interp.vectors.positions import properties
from models.errors import UserError
from models.model_config import ModelConfig
from models.runs.run import Run
from models.training.loop import train
from models.transformer.positions import alibi_slopes, sinusoidal

N, D, HEAD = 64, 32, 8
EXACT = ["none", "sinusoidal", "appended", "concatenated", "rotary", "alibi"]


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Run:
    """A run without learned positions: its rows are those of every run."""
    made = Run.create(tmp_path_factory.mktemp("positions") / "anbn", tiny_config(steps=1))
    train(made, "cpu")
    return made


@pytest.fixture(scope="module")
def table(run: Run) -> pd.DataFrame:
    return _position_table(run, Positions(N, D)).set_index("kind")


def binary_step(bits: int) -> float:
    """Bit j flips where all lower ones are 1: the best affine map keeps 1 - 2^(1-j) of it."""
    kept = [1 - 2.0 ** (1 - j) for j in range(bits)]
    return math.sqrt(sum(1 - share**2 for share in kept) / bits)


def test_how_large_and_whether_bounded(table: pd.DataFrame) -> None:
    slopes = float(alibi_slopes(ModelConfig().n_heads).norm())
    expected = {
        "binary": (math.sqrt(6), 1),
        "none": (0, 1),
        "sinusoidal": (math.sqrt(D / 2), 1),
        "concatenated": (math.sqrt(D / 4), 1),
        "rotary": (math.sqrt(HEAD / 2), 1),
        "appended": ((N - 1) / N, (2 * N - 1) / (N - 1)),
        "alibi": ((N - 1) * slopes, (2 * N - 1) / (N - 1)),
    }
    for kind, cells in expected.items():
        assert table.loc[kind, ["largest", "growth"]].tolist() == pytest.approx(cells), kind
    norm = table.loc["learned at random", "largest"]  # the largest of 64 chi of 32 degrees
    assert math.sqrt(D) < norm < 1.6 * math.sqrt(D)


def test_up_to_which_length_unique(table: pd.DataFrame) -> None:
    """T5 has a bucket for each distance below 16, then one for 16, 17 and 18."""
    unique = table["unique"].to_dict()
    assert (unique.pop("binary"), unique.pop("none"), unique.pop("t5 at random")) == (N, 1, 17)
    assert set(unique.values()) == {2 * N}


def test_what_each_kind_meets_is_counted(run: Run) -> None:
    (claim,) = QUESTION.claims(Answer(_position_table(run, Positions(N, D))))
    meets = {
        note.split(":")[0]: note.split(": ")[1].rstrip(".").split(", ") for note in claim.notes
    }
    bounded, unique, step, *bits = meets.values()
    assert set(step) == set(EXACT)
    assert claim.value == len({*bounded} & {*unique} & {*step}) == 3
    assert bits == [["binary"], ["binary"]]
    assert (claim.grade, claim.n) == ("not weighed", 9)


@pytest.mark.parametrize("shift", [1, 7, 32])
def test_whether_a_step_is_one_map(shift: int, run: Run) -> None:
    """Sines and cosines of all frequencies turn by shift times their frequency."""
    table = _position_table(run, Positions(N, D, shift)).set_index("kind")
    assert (table.loc[EXACT, "step"] < 1e-5).all()
    turned = sinusoidal(torch.as_tensor(np.arange(3 * N)), HEAD).double().numpy()
    a = shift / 10_000.0 ** (np.arange(0, HEAD, 2) / HEAD)
    pairs = turned.reshape(-1, HEAD // 2, 2)
    sine = pairs[..., 0] * np.cos(a) + pairs[..., 1] * np.sin(a)
    np.testing.assert_allclose(pairs[shift:, :, 0], sine[: len(sine) - shift], atol=1e-5)
    drawn = table.loc["learned at random", "step"]  # a hat matrix of rank D leaves 1 - D / 2N
    assert drawn == pytest.approx(math.sqrt(1 - D / (2 * N - 1)), abs=0.03)
    if shift == 1:
        assert table.loc["binary", "step"] == pytest.approx(binary_step(6))


def test_how_many_bits_are_read(table: pd.DataFrame) -> None:
    """One growing number tells the highest bit; of a probe of it, the others are independent."""
    columns = ["bits", "bits_beyond"]
    for kind, cells in {
        "binary": (6, 6),
        "none": (0, 0),
        "appended": (1, 0),
        "alibi": (1, 0),
    }.items():
        assert table.loc[kind, columns].tolist() == pytest.approx(cells, abs=1e-9), kind
    assert (table["bits"] <= 6).all()
    turn = 2 * np.pi * (np.arange(2 * N + 1) + 0.5) / N  # half a turn has the highest bit
    circle = properties(np.column_stack([np.sin(turn), np.cos(turn)]), N)
    assert (circle.bits, circle.bits_beyond) == pytest.approx((1, 1))
    assert circle.unique == N


def test_bits_are_the_information_of_the_best_least_squares() -> None:
    """By normal equations and the definition of mutual information."""
    x = sinusoidal(torch.arange(2 * N + 1), HEAD, base=10.0).double().numpy()
    wide = np.column_stack([x, np.ones(len(x))])[: 2 * N]
    total = np.zeros(2)
    for j in range(6):
        truth = (np.arange(2 * N) >> j) & 1
        w = np.linalg.solve(wide[:N].T @ wide[:N], wide[:N].T @ (2.0 * truth[:N] - 1))
        for side, at in enumerate((slice(0, N), slice(N, 2 * N))):
            joint = np.histogram2d(truth[at], wide[at] @ w > 0, bins=2, range=[[0, 1], [0, 1]])[0]
            p = joint / N
            apart = np.outer(p.sum(axis=1), p.sum(axis=0))
            total[side] += (xlogy(p, p) - xlogy(p, np.where(apart > 0, apart, 1))).sum()
    found = properties(x, N)
    assert (found.bits, found.bits_beyond) == pytest.approx(tuple(total / math.log(2)), abs=1e-6)
    assert 0.5 < found.bits < 6


def test_the_tables_of_a_run(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    shape = replace(TINY, positions="learned", n_ctx=80)
    run = Run.create(tmp_path / "anbn", tiny_config(model=shape, steps=3))
    train(run, "cpu")
    asked = ["analyse", str(run.path), "positions"]
    assert main([*asked, "--length", "32", "--d-model", "16", "--json"]) == 0
    rows = json.loads(capsys.readouterr().out)["table"]
    weight = run.model().get_parameter("pos_embed.weight").detach().double().numpy()
    assert [row["kind"] for row in rows[-2:]] == ["learned, trained", "learned, untrained"]
    assert rows[-2]["largest"] == pytest.approx(np.linalg.norm(weight[:32], axis=1).max())
    assert rows[-2]["largest"] != rows[-1]["largest"]
    assert main([*asked, "--length", "64"]) == 2
    assert "choose a smaller --length" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("asked", "fault"),
    [
        (["--length", "100"], "a power of 2"),
        (["--length", "16"], "choose a larger --length"),
        (["--d-model", "12"], "a multiple of 8"),
    ],
)
def test_what_cannot_be_told(
    asked: list[str], fault: str, run: Run, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["analyse", str(run.path), "positions", *asked]) == 2
    said = capsys.readouterr().err
    assert fault in said
    assert said.count("\n") == 1


def test_a_run_without_a_learned_table_has_the_others(run: Run, table: pd.DataFrame) -> None:
    assert not table.index.str.startswith("learned, ").any()
    compared = QUESTION.headline(Answer(table.reset_index()))
    step = compared[compared["variable"] == "error of one affine map for a step"]
    assert step.set_index("of")["value"].to_dict() == table["step"].to_dict()


def test_a_run_without_heads_is_refused(tmp_path: Path) -> None:
    model = replace(TINY, architecture="lstm")
    lstm = Run.create(tmp_path / "lstm", tiny_config(model=model))
    with pytest.raises(UserError, match=r"^lstm has no attention heads[^\n]*$"):
        answer(lstm, "positions")
