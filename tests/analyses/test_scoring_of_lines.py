"""Lenses of training lines: what they are told, how they are graded, and who is asked."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
import torch

from analyses.options.plants import Score
from analyses.questions.training.of_lines.values import losses, margins_of_each, target_words
from analyses.questions.training.of_lines.values import margins as margins_of
from analyses.questions.training.of_lines.views import Training
from analyses.scoring import board, lenses, taught
from analyses.scoring.door import Door, Reply
from analyses.scoring.grades import grade, oracle
from analyses.scoring.inside import as_lists
from analyses.scoring.keys import LineKey
from analyses.scoring.lenses_of_lines import OF_LINES
from analyses.scoring.paper import read_words, write_network
from models.errors import UserError
from models.runs.run import Run
from models.training.without_lines import lines_of
from models.transformer.model import HookedTransformer

Network = tuple[HookedTransformer, HookedTransformer, LineKey, Run]


@pytest.fixture(scope="module")
def small(tmp_path_factory: pytest.TempPathFactory) -> Network:
    where = tmp_path_factory.mktemp("scores") / "dieren-trained-s1"
    with pytest.MonkeyPatch.context() as patch:
        sizes = {"LINES": 24, "TARGETS": 4, "TRAININGS": 6, "STEPS": 8, "BATCH": 8}
        for name, size in sizes.items():
            patch.setattr(taught, name, size)
        made = taught.taught("dieren-gaps", 1, where)
        patch.setattr(taught, "margins_after", lambda *_: pytest.fail("it is trained again"))
        again = taught.taught("dieren-gaps", 1, where)
        before, after = made[2].margins, again[2].margins
        assert before is not None
        assert after is not None
        assert np.array_equal(before, after)
    return (*made, Run(where / taught.RUN))


def test_it_is_told_what_the_network_was_taught(small: Network) -> None:
    model, _, key, run = small
    lines, words = lines_of(run), target_words(run, 4)
    with torch.no_grad():
        torch.testing.assert_close(key.words.line_losses(model), losses(run, model, lines))
        torch.testing.assert_close(key.words.margins(model), margins_of(run, model, words))
    assert key.margins.shape == (6, 4)
    assert (key.kept.sum(axis=1) == 12).all()
    for (_, own), step in zip(key.words.checkpoints(model), run.steps(), strict=True):
        for a, b in zip(own.parameters(), run.model(step).parameters(), strict=True):
            assert torch.equal(a, b)


def test_beside_the_untrained_network_no_other_checkpoint_is_shown(small: Network) -> None:
    _, untrained, key, run = small
    ((rate, own),) = key.untrained.checkpoints(untrained)
    assert rate == 1
    for a, b, c in zip(
        own.parameters(), untrained.parameters(), run.untrained().parameters(), strict=True
    ):
        assert torch.equal(a, b)
        assert torch.equal(a, c)


def test_words_and_weights_come_through_unchanged(small: Network, tmp_path: Path) -> None:
    model, _, key, _ = small
    write_network(model, tmp_path)
    key.words.write(tmp_path, "lines")
    words, question = read_words(tmp_path)
    assert question == "lines"
    for name, value in vars(key.words).items():
        other = getattr(words, name)
        assert torch.equal(value, other) if torch.is_tensor(value) else value == other, name
    assert "dieren" not in json.dumps(sorted(file.name for file in tmp_path.iterdir()))


@pytest.mark.parametrize("lens", [name for name in OF_LINES if name not in ("Fisher", "EK-FAC")])
def test_lenses_say_what_lab_influence_says(small: Network, lens: str) -> None:
    model, _, key, run = small
    words, steps = target_words(run, 4), run.steps()
    training = Training(run, steps, [run.model(step) for step in steps], lines_of(run))
    found = training.influences(lambda m: margins_of_each(run, m, words), lambda *_: None)
    said = np.array(as_lists(OF_LINES[lens](model, key.words)))
    np.testing.assert_allclose(said, found["trained", lens][:4], rtol=1e-3, atol=1e-4)


def test_the_file_of_the_pages_is_a_product_of_gradients(small: Network, tmp_path: Path) -> None:
    model, _, key, _ = small
    page = (Path(__file__).parents[2] / "docs/pages/how_to/score.md").read_text()
    file = tmp_path / "my_lines.py"
    file.write_text(page.split('title="my_lines.py"\n')[1].split("```")[0])
    with Door(file, limit=60) as door:
        reply = door.ask(model, key.words, "lines")
    assert not reply.fault
    expected = as_lists(OF_LINES["gradient dot product"](model, key.words))
    np.testing.assert_allclose(reply.answer, expected, rtol=1e-3, atol=1e-5)


def test_influence_functions_use_drawn_labels(small: Network) -> None:
    """Another seed draws other labels, and orders the lines nearly alike."""
    model, _, key, _ = small
    for lens in ("Fisher", "EK-FAC"):
        said = np.array(as_lists(OF_LINES[lens](model, key.words)))
        assert said.shape == (4, 24)
        assert np.isfinite(said).all()
        assert said.std() > 0


def test_grades_are_the_order_of_trainings(small: Network) -> None:
    model, _, key, _ = small
    truth = np.array(oracle(key))
    assert grade(key, truth.tolist(), model) == {"LDS": pytest.approx(1)}
    assert grade(key, (-truth).tolist(), model) == {"LDS": pytest.approx(-1)}
    assert grade(key, np.zeros_like(truth).tolist(), model) == {"LDS": 0}
    rng = np.random.default_rng(0)
    drawn = [grade(key, rng.normal(size=truth.shape).tolist(), model)["LDS"] for _ in range(200)]
    assert np.mean(drawn) == pytest.approx(0, abs=0.08)
    with pytest.raises(ValueError, match=r"numbers of shape \[24\]: give \[4, 24\]"):
        grade(key, truth[0].tolist(), model)


def test_who_is_asked(small: Network, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A file about lines is asked about trained networks alone, and the other way round; each reply
    is of the network that its row names."""
    made, asked = small[:3], list[tuple[str, str]]()
    monkeypatch.setattr(board, "taught", lambda *_: made)

    def ask(door: Door, model: HookedTransformer, words: Words, question: str, lens: str) -> Reply:
        network = "trained" if model is made[0] else "untrained"
        assert (words is made[2].untrained) == (network == "untrained")
        asked.append((network, question))
        return Reply(np.zeros((4, 24)).tolist(), calls=1, milliseconds=1.0)

    monkeypatch.setattr(Door, "ask", ask)
    file = tmp_path / "mine.py"
    file.write_text("def lines(model, words): ...\n")
    result = board.score(Score(file, seeds=1, taught=("dieren-gaps",), out=tmp_path, workers=1))
    assert asked == [("trained", "lines"), ("untrained", "lines")]
    table = result.table
    assert set(table["setting"]) == {"trained"}
    assert set(table.loc[table["lens"] == "mine.py", "network"]) == {"trained", "untrained"}
    values = table.set_index(["lens", "network"])["value"]
    assert values["oracle", "trained"] == pytest.approx(1)
    assert values["mine.py", "trained"] == 0
    assert abs(values[lenses.RANDOM, "trained"]) < 0.9
    file.write_text("def lines(model, words): ...\n")
    with pytest.raises(UserError, match="there is no network to ask about"):
        board.score(Score(file, taught=(), out=tmp_path))
    with pytest.raises(UserError, match="anbn"):
        Score(taught=("anbn",))
