"""Lists of training lines: what stands in them, and what is said and drawn of them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
import torch
from conftest import tiny_config, tiny_of
from scipy.stats import spearmanr

from analyses.claims import Claim
from analyses.command_line.app import main
from analyses.questions.training.of_lines import drawn_lines
from analyses.questions.training.of_lines.listed import for_word, suspects
from analyses.questions.training.of_lines.values import losses, margins
from interp.training.gradients import gradients_of
from models.languages.disfluencies import said_and_meant
from models.runs.run import Run
from models.training.loop import train
from models.training.without_lines import lines_of

WORD = "leeuw olifant kat leeuw"


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Run:
    """Its lines are disfluent, so some labels are wrong by the rule."""
    config = tiny_config(
        language="dieren", objective="verdict", max_n=8, lines=20, disfluent=0.4, steps=4
    )
    run = Run.create(tmp_path_factory.mktemp("runs") / "run", config)
    train(run, "cpu")
    return run


def gradient(model: torch.nn.Module, value: torch.Tensor) -> torch.Tensor:
    return torch.cat([own.flatten() for own in gradients_of(model, value).values()])


def test_each_line_stands_with_its_own_products(run: Run) -> None:
    word = run.language.vocabulary.words([WORD.split()])
    words = for_word(run, WORD)["dot"]
    doubtful = suspects(run, 2)["dot"]
    lines = lines_of(run)
    heard, labels = said_and_meant(lines, run.language)
    for step, influence, itself in (
        (run.step, "influence", "itself"),
        (0, "untrained", "untrained"),
    ):
        model = run.model(step).requires_grad_(True)
        target = gradient(model, margins(run, model, word)[0])
        for row in range(len(lines)):
            told = " ".join(run.language.vocabulary.decode(heard.ids[row, : heard.lengths[row]]))
            label = "in" if labels[row] else "out"
            lost = losses(run, model, lines[[row]])[0]
            own = gradient(model, lost)
            for table, column, wanted in (
                (words, influence, -target @ own),
                (doubtful, itself, own @ own),
            ):
                at = (table["line"] == told) & (table["label"] == label)
                assert table.loc[at, column].item() == pytest.approx(wanted.item(), rel=1e-3)
            if step:
                assert doubtful.loc[at, "loss"].item() == pytest.approx(lost.item(), rel=1e-4)
                truth = run.language.contains(told.split())
                assert doubtful.loc[at, "truth"].item() == ("in" if truth else "out")


def test_which_methods_have_which_list(run: Run) -> None:
    tables = for_word(run, WORD)
    assert all(table["influence"].is_monotonic_decreasing for table in tables.values())
    own, dot = (tables[name].set_index("line")["untrained"] for name in ("tracin", "dot"))
    assert spearmanr(own, dot[own.index]).statistic == pytest.approx(1)  # no training lies between
    assert "cosine" not in suspects(run, 2)


def lines(influence: list[float], untrained: list[float]) -> pd.DataFrame:
    names = [f"line {number}" for number in range(len(influence))]
    table = pd.DataFrame({"line": names, "label": "in", "influence": influence})
    return table.assign(untrained=untrained)


def test_the_strongest_lines_are_drawn_to_scale() -> None:
    table = lines([8, 4, 2, 0, -1, -4], [0, 0, 0, 0, 0, 0])
    strongest = drawn_lines._strongest(table, most=2)
    assert strongest["influence"].tolist() == [8, 4, -1, -4]
    assert drawn_lines._strongest(table[:3], most=2)["influence"].tolist() == [8, 4]
    shown = drawn_lines.scaled(table, "influence", "untrained", "harm")
    assert shown["influence"].tolist() == [1, 0.5, 0.25, 0, -0.125, -0.5]
    assert shown["untrained"].tolist() == [0] * 6
    drawn = drawn_lines.chart(table, most=2).to_dict()
    rows = next(rows for rows in drawn["datasets"].values() if "model" in rows[0])
    found = {(row["line"], row["model"]): row["value"] for row in rows}
    assert found["line 1", "trained"] == 0.5
    assert len(found) == 8


def test_a_list_for_a_word_is_an_estimate() -> None:
    rng = np.random.default_rng(0)
    one = np.sort(rng.normal(size=50))[::-1]
    table = lines(one.tolist(), (one + rng.normal(size=50)).tolist())
    value, low, high = drawn_lines.likeness(table)
    assert value == pytest.approx(spearmanr(table["influence"], table["untrained"]).statistic)
    assert -1 <= low < value < high <= 1
    (claim,) = drawn_lines.of_word(table, "a {b}", "EK-FAC")
    assert claim.sentence.startswith(
        'By EK-FAC, "line 0" (in) raised the log odds of the right answer on "a {b}" most, and '
        '"line 49" (in) lowered them most; the order of the lines has a rank correlation of '
        f"{value:.2f} [{low:.2f}, {high:.2f}] with that of the untrained network, on 50 lines"
    )
    assert claim.grade == "not weighed"
    for some, said in ((table[:5], "and none lowered"), (table[-5:], "EK-FAC, none raised")):
        assert said in drawn_lines.of_word(some, "a b", "EK-FAC")[0].short
    assert drawn_lines.of_word(table.assign(influence=0.0), "a b", "EK-FAC") == []


def suspected(count: int, own: int, untrained: int, loss: int) -> Claim:
    """Of 100 lines the first ones have wrong labels, and so many of them are named by each."""
    rank = -np.arange(100.0)
    scores = {
        name: np.where(rank > -hits, 100 + rank, np.where(rank > -count, -100.0, rank))
        for name, hits in {"itself": own, "untrained": untrained, "loss": loss}.items()
    }
    table = pd.DataFrame(scores).assign(label="in", truth=["out"] * count + ["in"] * (100 - count))
    (claim,) = drawn_lines.of_labels(table, "Fisher")
    return claim


@pytest.mark.parametrize(
    ("own", "untrained", "loss", "grade", "than"),
    [
        (18, 4, 2, "holds", "the untrained network"),
        (18, 2, 4, "holds", "the loss alone"),
        (18, 1, 0, "holds", "chance"),
        (18, 4, 17, "no better than its controls", "the loss alone"),
        (4, 18, 2, "no better than its controls", "the untrained network"),
    ],
)
def test_wrong_labels_are_named_more_often_than_by_any_control(
    own: int, untrained: int, loss: int, grade: str, than: str
) -> None:
    claim = suspected(20, own, untrained, loss)
    assert (claim.grade, claim.n) == (grade, 20)
    assert f"f the lines with a wrong label Fisher names more than {than}, by " in claim.sentence
    shares = f"Fisher {own / 20:.0%}, the untrained network {untrained / 20:.0%}, the loss alone"
    assert f"{shares} {loss / 20:.0%}, chance 20%." in claim.sentence


def test_of_labels_that_are_right_or_not_known_nothing_is_claimed() -> None:
    table = lines([4, 3, 2, 1], [1, 2, 3, 4]).rename(columns={"influence": "itself"})
    assert drawn_lines.of_labels(table, "Fisher") == []
    assert drawn_lines.of_labels(table.assign(truth="in", loss=0.0), "Fisher") == []


def test_a_corpus_has_no_truth_but_its_own(tmp_path: Path) -> None:
    rows = [f"{'AB'[n % 2]}\t{' '.join(f'{n:06b}')}" for n in range(64)]
    file = tmp_path / "bits.tsv"
    file.write_text("\n".join(rows))
    config = tiny_config(language="bits", objective="verdict", lines=16, steps=2)
    run = Run.create(tmp_path / "run", config, corpus=file)
    train(run, "cpu")
    table = suspects(run, 2)["dot"]
    assert "truth" not in table
    assert set(table["label"]) == {"in", "out"}


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({}, "with --lines"),
        ({"lines": 9, "model": tiny_of("ngram")}, "learns by counting"),
        (
            {
                "lines": 9,
                "objective": "masked",
                "model": tiny_of("transformer", mask="bidirectional"),
            },
            "was taught the hidden symbols of words",
        ),
    ],
)
@pytest.mark.parametrize("words", [["influence"], ["lines"], ["lines", "--word", "a b"]])
def test_runs_without_such_lines(
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    changes: dict[str, Any],
    said: str,
    words: list[str],
) -> None:
    run = Run.create(tmp_path / "run", tiny_config(steps=2, **changes))
    train(run, "cpu")
    assert main(["analyse", str(run.path), *words]) == 2
    assert said in " ".join(capsys.readouterr().err.split())
