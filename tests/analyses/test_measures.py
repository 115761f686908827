"""The measures of one run: its loss and its cost, its speed, and how its training went."""

from __future__ import annotations

import json
import math
from dataclasses import replace
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import torch
from conftest import tiny_config, tiny_of
from drawn import words_of

from analyses.answers import Answer, answer, question
from analyses.command_line.app import main
from analyses.lectures.costs import counted
from analyses.options.training import Gradients, Landscape
from analyses.options.words import Explanations
from analyses.questions.training.gradients import _gradients, by_layer, nearest
from analyses.questions.training.held_out import HeldOut
from analyses.questions.training.landscape import QUESTION, _bends, _landscape
from analyses.questions.training.loss import entropy_and_kl, loss
from analyses.questions.words.explanations import case_of
from analyses.studies.sweeps.of_run.attention import _words_of as judged_words
from analyses.studies.sweeps.of_run.attention import attention
from analyses.studies.sweeps.of_run.cost import SYMBOLS, WORDS, cost
from analyses.studies.sweeps.of_run.speed import speed
from interp.explanations.attention import last_layer
from interp.explanations.scores import against_rationale
from models.errors import UserError
from models.families import FAMILIES
from models.runs.run import METRICS, Run
from models.training.loop import train


def trained(path: Path, **changes: object) -> Run:
    run = Run.create(path, replace(tiny_config(), **changes))
    train(run, device="cpu")
    return run


@torch.no_grad()
def value_of(run: Run, held: HeldOut) -> float:
    return float(held.loss(run.model()(held.batch.tokens)))


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Run:
    return trained(tmp_path_factory.mktemp("runs") / "anbn-s0")


@pytest.fixture(scope="module")
def language_model(tmp_path_factory: pytest.TempPathFactory) -> Run:
    return trained(tmp_path_factory.mktemp("runs") / "lm", objective="language-model", steps=40)


def test_the_loss_of_a_language_model_is_its_entropy_and_the_excess(language_model: Run) -> None:
    found = loss(language_model)
    # anbn: its length is all that a word tells, and each is equally likely in the window.
    sizes = language_model.config.max_n
    tokens = np.mean([2 * n + 1 for n in range(1, sizes + 1)])
    assert found["entropy"] == pytest.approx(math.log(sizes) / tokens, rel=0.05)  # of drawn words
    assert found["nats"] == pytest.approx(found["entropy"] + found["excess"], rel=1e-12)
    assert found["excess"] > 0
    # The loss of the words that were drawn scatters around the expected one.
    assert found["nats"] == pytest.approx(
        value_of(language_model, HeldOut.of(language_model, 4000)), rel=0.05
    )


def test_entropy_and_divergence_by_hand() -> None:
    truth = np.array([[0.5, 0.5, 0.0], [1.0, 0.0, 0.0]])
    with np.errstate(divide="ignore"):
        said = np.log([[0.25, 0.75, 0.0], [0.5, 0.25, 0.25]])
    entropy, kl = entropy_and_kl(truth, said)
    np.testing.assert_allclose(entropy, [math.log(2), 0], atol=1e-12)
    np.testing.assert_allclose(kl, [math.log(2 / math.sqrt(3)), math.log(2)], rtol=1e-12)


def test_words_and_compute_are_those_of_all_steps(run: Run) -> None:
    found = loss(run)
    drawn = [words_of(run.config, run.language, step)[0] for step in range(run.config.steps)]
    decoded = [
        tuple(ids[:n]) for words in drawn for ids, n in zip(words.ids, words.lengths, strict=True)
    ]
    assert found["words"] == len(set(decoded))
    parameters = sum(p.numel() for p in run.model().parameters())
    assert found["compute"] == 6 * parameters * sum(len(word) + 1 for word in decoded)
    assert (found["entropy"], found["excess"]) == (None, None)  # taught next symbols


@pytest.mark.parametrize(
    ("right", "step"), [("0101", 40), ("0111", 20), ("1111", 10), ("1110", None), ("", None)]
)
def test_speed_is_when_the_mistakes_end_for_good(
    right: str, step: int | None, tmp_path: Path
) -> None:
    run = Run.create(tmp_path / "run", tiny_config())
    lines = [
        {"step": 10 * n, "loss": 0.1, "validation_loss": 0.1, "exact": 1.0, "recognition": float(r)}
        | {"learning_rate": 0.1, "seconds": 5.0 * n}
        for n, r in enumerate(right, 1)
    ]
    (run.path / METRICS).write_text("".join(json.dumps(line) + "\n" for line in lines))
    assert speed(run) == {"steps": step, "seconds": None if step is None else step / 2}


@pytest.mark.parametrize("architecture", FAMILIES)
def test_every_network_is_looked_at_layer_by_layer(architecture: str, tmp_path: Path) -> None:
    family = FAMILIES[architecture]
    taught: dict[str, str] = {"objective": "verdict"} if family.whole else {}
    if family.two_sided:
        taught = {"language": "copy", "objective": "sequence-to-sequence"}
    run = trained(tmp_path / "run", model=tiny_of(architecture), **taught)
    if family.tabular:
        with pytest.raises(UserError, match="learns by counting"):
            by_layer(run, [0])
        for name in ("gradients", "landscape"):
            with pytest.raises(UserError, match="learns by counting"):
                answer(run, name)
        return
    table = by_layer(run, run.steps())
    assert table["step"].unique().tolist() == run.steps()
    assert (table["gradient"] > 0).all()
    first = table["step"] == 0
    assert table.loc[first, "mean"].isna().all()
    assert (table.loc[~first, ["mean", "spread"]] > 0).all(axis=None)
    assert table["entropy"].notna().all() == family.attends


def test_the_gradient_is_that_of_the_loss_on_held_out_words(run: Run) -> None:
    row = by_layer(run, [run.step]).iloc[-1]
    model, held = run.model(), HeldOut.of(run)
    held.loss(model(held.batch.tokens)).backward()
    block = model.get_submodule(f"blocks.{int(row['layer'])}")
    norm = torch.cat([p.grad.reshape(-1) for p in block.parameters() if p.grad is not None]).norm()
    assert row["gradient"] == pytest.approx(float(norm), rel=1e-5)


def test_the_landscape_has_the_loss_in_its_middle(run: Run) -> None:
    found = _landscape(run, Landscape(directions=3))
    assert set(found["kind"]) == {"curvature", "plane"}
    table = _bends(found)
    assert table["model"].tolist() == ["trained", "untrained"]
    assert (table["sharpest"] > 0).all()
    assert (table["largest"] >= table["mean"]).all()
    held = HeldOut.of(run)
    value = value_of(run, held)
    assert table["loss"][0] == pytest.approx(value, rel=1e-4)
    flat = found[found["kind"] == "plane"]
    middle = flat[(flat["a"] == 0) & (flat["b"] == 0)]
    assert middle["loss"].tolist() == pytest.approx([value], rel=1e-4)


def test_the_nearest_checkpoint() -> None:
    assert nearest([0, 50, 200], 100) == 50
    assert nearest([0, 100, 200], 100) == 100


def test_what_is_compared_over_seeds_of_the_training(run: Run) -> None:
    table = _gradients(run, Gradients())
    assert table["step"].unique().tolist() == run.steps()
    compared = question("gradients").headline(Answer(table, "")).set_index(["variable", "of"])
    for when, step in (("first step", 0), ("last step", run.step)):
        (row,) = table[table["step"] == step].itertuples()
        for name in ("gradient", "entropy", "passed"):
            assert compared.loc[(f"{name} of layer 0", when), "value"] == getattr(row, name)
    bent = _landscape(run, Landscape(directions=2))
    compared = question("landscape").headline(Answer(bent, "")).set_index(["of", "variable"])
    for row in _bends(bent).itertuples():
        for name in ("loss", "mean", "largest", "sharpest"):
            assert compared.loc[(row.model, name), "value"] == getattr(row, name)


@pytest.mark.parametrize(
    ("before", "now", "half", "grade", "said"),
    [
        (9.0, 1.0, 2.0, "holds", "Training lowered the curvature of the loss along random "),
        (1.0, 9.0, 2.0, "holds", "Training raised the curvature of the loss along random "),
        (9.0, 1.0, 7.0, "no better than its controls", "Not proven: training lowered"),
        (9.0, 1.0, np.nan, "not weighed", "Training lowered"),
    ],
)
def test_what_training_did_to_the_curvature(
    before: float, now: float, half: float, grade: str, said: str
) -> None:
    """Both intervals count: 7 and 7 together are more than the 8 between the two."""
    rows = [
        {"kind": "curvature", "model": model, "mean": mean, "low": mean - half, "high": mean + half}
        for model, mean in (("trained", now), ("untrained", before))
    ]
    (claim,) = QUESTION.claims(Answer(pd.DataFrame(rows).assign(directions=10, sharpest=1.0)))
    assert (claim.grade, claim.value) == (grade, 8.0)
    assert claim.sentence.startswith(said)


@pytest.mark.parametrize("name", ["gradients", "landscape"])
def test_from_the_command_line(name: str, run: Run, capsys: pytest.CaptureFixture[str]) -> None:
    words = ["analyse", str(run.path), name]
    assert main([*words, "--json"]) == 0
    content = json.loads(capsys.readouterr().out)
    if name == "gradients":
        steps = [row["step"] for row in content["table"]]
        assert steps == run.steps()
        assert content["sentence"].startswith(f"At step {run.step} the first layer gets ")
        (claim,) = content["claims"]
        assert set(claim["controls"]) == {"at step 0", f"at step {nearest(steps[:-1], 100)}"}
        assert main([*words, "--step", "5", "--json"]) == 0
        (row,) = json.loads(capsys.readouterr().out)["table"]
        assert row["step"] == 5
        return
    (claim,) = content["claims"]
    assert claim["n"] == 10
    assert "the curvature of the loss along random directions by" in claim["finding"]
    assert {row["kind"] for row in content["table"]} == {"curvature", "plane"}
    assert main([*words, "--directions", "0"]) == 2
    assert "--directions is 0: it must be at least 1" in capsys.readouterr().err


@pytest.mark.parametrize("mask", ["causal", "bidirectional"])
def test_attention_is_judged_as_an_explanation_of_each_word_is(mask: str, tmp_path: Path) -> None:
    model = replace(tiny_config().model, mask=mask)
    run = trained(tmp_path / "run", language="dieren", objective="verdict", model=model)
    found, language = attention(run), run.language
    for name, label in (("members", True), ("others", False)):
        words = [word for word, inside in judged_words(run) if inside is label]
        assert 30 < len(words) < 70
        for ending, of in (("", run.model()), ("_untrained", run.untrained())):
            areas = []
            for word in words:
                case = case_of(of, language, word, "fixed", Explanations(), 0)
                area = against_rationale(last_layer(case)[None], case.rationales or ())["AUROC"]
                areas.append(area[0])
            assert found[name + ending] == pytest.approx(np.nanmean(areas), abs=1e-6)
    assert found["members_chance"] == 0.5  # one set of three symbols decides
    assert 0.5 < found["others_chance"] < 1  # of many sets the one that suits best


def test_where_every_symbol_decides_attention_has_no_area(run: Run, tmp_path: Path) -> None:
    assert attention(run)["members"] is None
    assert attention(run)["others"] is not None
    assert attention(trained(tmp_path / "lstm", model=tiny_of("lstm"), steps=1)) == {}


@pytest.mark.parametrize("architecture", ["transformer", "gru", "cnn"])
def test_the_cost_is_what_pytorch_counts(architecture: str, tmp_path: Path) -> None:
    run = trained(tmp_path / "run", model=tiny_of(architecture), steps=1)
    found = cost(run)
    assert found["operations"] == WORDS * counted(run.model(), SYMBOLS + 1)["counted"].sum()
    assert 0 < found["milliseconds"] < 60_000


def test_a_model_that_cannot_read_so_far_has_no_cost(tmp_path: Path) -> None:
    short = trained(
        tmp_path / "short", model=replace(tiny_config().model, positions="learned", n_ctx=SYMBOLS)
    )
    assert cost(short) == {}
