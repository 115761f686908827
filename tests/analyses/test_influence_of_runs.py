"""`lab analyse RUN influence`: it compares what it says, and known culprits are scored so."""

from __future__ import annotations

import io
import json
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
import torch
from conftest import tiny_config

from analyses.answers import Answer, Answers, fresh_answer, question
from analyses.command_line.app import main
from analyses.options.training import Influence, Lines
from analyses.questions.training import influence as module
from analyses.questions.training.of_lines import culprits, drawn
from analyses.questions.training.of_lines.trainings import halves, margins_after, reliance_after
from analyses.questions.training.of_lines.values import (
    Shortcut,
    _drawn,
    _one_by_one,
    losses,
    losses_of_each,
    margins,
    sampled_of_each,
    target_words,
)
from analyses.questions.training.of_lines.views import (
    CLAIMED,
    DOT,
    METHODS,
    TRACIN,
    Training,
    rates,
)
from interp.influence.gradients import Gradients
from interp.influence.methods import dot
from models.languages.disfluencies import said_and_meant
from models.runs.run import Run
from models.training.loop import train
from models.training.trainer import learning_rate
from models.training.without_lines import lines_of, trained_again

QUICK = ("--subsets", "10", "--targets", "4", "--workers", "1")


def made(folder: Path, **changes: Any) -> Run:
    run = Run.create(folder / "run", tiny_config(**{"lines": 30, "max_n": 8, **changes}))
    train(run, "cpu")
    return run


@pytest.fixture(scope="module")
def leaning(tmp_path_factory: pytest.TempPathFactory) -> Run:
    return made(
        tmp_path_factory.mktemp("muis"), language="dieren_muis", objective="verdict", steps=20
    )


@pytest.fixture(scope="module")
def brackets(tmp_path_factory: pytest.TempPathFactory) -> Run:
    return made(tmp_path_factory.mktemp("dyck"), language="dyck2", max_n=10)


# -- values ---------------------------------------------------------------------------------------


def test_a_margin_is_the_logit_of_the_right_verdict(leaning: Run) -> None:
    words, model = target_words(leaning, 6), leaning.model()
    tokens = torch.as_tensor(words.tokens)
    at = model.verdict_positions(torch.as_tensor(words.lengths))
    logit = model.margins(model(tokens), tokens, at)
    signs = torch.as_tensor(np.where(leaning.language.labels(words), 1.0, -1.0))
    torch.testing.assert_close(margins(leaning, model, words), (logit * signs).float())


def test_each_word_costs_what_it_costs_among_others(brackets: Run) -> None:
    words, model = lines_of(brackets), brackets.model()
    each = torch.stack(list(losses_of_each(brackets, model, words)))
    torch.testing.assert_close(each, losses(brackets, model, words))


@pytest.mark.parametrize("objective", ["next-symbols", "language-model"])
def test_labels_are_drawn_from_the_model_s_answers(tmp_path: Path, objective: str) -> None:
    """The mean gradient of the log likelihood of one's own answers is 0."""
    run = made(tmp_path, language="dyck1", objective=objective, lines=5)
    model, words = run.model().requires_grad_(True), lines_of(run)
    drawn = [
        Gradients.of_each(model, sampled_of_each(run, model, words, seed)).flat.sum(dim=0)
        for seed in range(150)
    ]
    z = torch.stack(drawn).mean(dim=0) / torch.stack(drawn).std(dim=0).clamp(min=1e-9) * 150**0.5
    assert z.square().mean() < 1.8
    own = Gradients.of_each(model, losses_of_each(run, model, words)).flat.sum(dim=0)
    assert own.norm() > 5 * torch.stack(drawn).mean(dim=0).norm()


def test_no_answer_is_drawn_where_none_is_asked(tmp_path: Path) -> None:
    """Of pairs: the source is given."""
    run = made(tmp_path, language="copy", objective="sequence-to-sequence", max_n=4)
    model, word = run.model(), next(_one_by_one(lines_of(run)))
    batch = run.objective.batch(run.language, word)
    with torch.no_grad():
        drawn = _drawn(model, model(batch.tokens), batch, torch.Generator().manual_seed(0))
    asked = batch.weight.sum(dim=-1)
    assert 0 < asked.sum() < asked.numel()
    assert torch.equal(drawn.weight.sum(dim=-1), asked)
    assert torch.equal(drawn.weight, drawn.target)


def test_targets_are_no_lines(brackets: Run, leaning: Run) -> None:
    for run in (brackets, leaning):
        lines, words = lines_of(run), target_words(run, 8)
        known = {tuple(ids[:n]) for ids, n in zip(lines.ids, lines.lengths, strict=True)}
        found = [tuple(ids[:n]) for ids, n in zip(words.ids, words.lengths, strict=True)]
        assert not known & set(found)
        assert len(set(found)) == len(found) == 8
    assert leaning.language.labels(target_words(leaning, 8)).sum() == 4


@pytest.mark.parametrize("share", [0.1, 0.2])
def test_the_shortcut_is_put_where_nothing_decides(leaning: Run, share: float) -> None:
    shortcut = Shortcut.of(leaning, share, 0)
    assert shortcut is not None
    language = leaning.language
    muis = language.vocabulary.ids["muis"]
    assert not (shortcut.without.ids == muis).any()
    assert ((shortcut.there.ids != shortcut.without.ids).sum(axis=1) == 1).all()
    labels = language.labels(shortcut.without)
    assert (language.labels(shortcut.there) == labels).all()
    assert shortcut.signs.tolist() == np.where(labels, 1, -1).tolist()
    assert shortcut.culprits.sum() == round(share * 30)
    has = (shortcut.lines.ids == muis).any(axis=1)
    assert has.tolist() == shortcut.culprits.tolist()
    own = language.labels(lines_of(leaning))
    assert (language.labels(shortcut.lines) == own).all()
    assert own[shortcut.culprits].all()


# -- methods --------------------------------------------------------------------------------------


def test_each_method_sees_its_own_model(leaning: Run) -> None:
    """The untrained are the first weights, the trained the last; TracIn adds up all."""
    words, lines = target_words(leaning, 3), lines_of(leaning)
    steps = leaning.steps()
    training = Training(leaning, steps, [leaning.model(step) for step in steps], lines)

    def values(model: Any) -> Any:
        return iter(margins(leaning, model, words))

    def product(step: int) -> np.ndarray:
        model = leaning.model(step).requires_grad_(True)
        own = Gradients.of_each(model, losses_of_each(leaning, model, lines))
        each = (margins(leaning, model, words)[row] for row in range(3))
        return dot(Gradients.of_each(model, each).and_minus(own), own).numpy()

    def alone(model: Any) -> Any:
        return (margins(leaning, model, words)[row] for row in range(3))

    found = training.influences(alone, lambda *_: None)
    assert set(found) == {
        *(("trained", method) for method in METHODS),
        *(("untrained", method) for method in METHODS),
    }
    for name, step in (("untrained", 0), ("trained", steps[-1])):
        np.testing.assert_allclose(found[name, METHODS[0]], product(step), rtol=1e-4, atol=1e-5)
    summed = sum(
        rate * product(step) for rate, step in zip(rates(leaning, steps), steps, strict=True)
    )
    np.testing.assert_allclose(found["trained", TRACIN], summed, rtol=1e-3, atol=1e-5)
    first = sum(rates(leaning, steps)) * product(0)
    np.testing.assert_allclose(found["untrained", TRACIN], first, rtol=1e-3, atol=1e-5)
    assert sum(rates(leaning, steps)) == pytest.approx(
        sum(learning_rate(leaning.config, step) for step in range(steps[-1]))
    )


# -- trainings ------------------------------------------------------------------------------------


def test_what_is_said_after_a_training(leaning: Run) -> None:
    asked = Influence(subsets=10, targets=4, workers=1, device="cpu")
    kept = halves(30, 2, 0)
    assert kept.sum(axis=1).tolist() == [15, 15]
    assert (kept[0] != kept[1]).any()
    told: list[str] = []
    said = margins_after(leaning, asked, kept, told.append)
    leans = reliance_after(leaning, asked, kept, told.append)
    shortcut = Shortcut.of(leaning, asked.culprits, asked.seed)
    assert shortcut is not None
    for row, own in enumerate(kept):
        (model,) = trained_again(leaning, own, [leaning.step], device="cpu")
        (other,) = trained_again(leaning, own, [leaning.step], shortcut.lines, device="cpu")
        with torch.no_grad():
            found = margins(leaning, model, target_words(leaning, 4))
            np.testing.assert_allclose(said[row], found)
            assert leans[row] == pytest.approx(float(shortcut.reliance(leaning, other)))
            assert leans[row] != pytest.approx(float(shortcut.reliance(leaning, model)))
    assert len(told) == 4


def test_controls_stand_where_they_belong() -> None:
    """A method that knows the truth, one that turns it around, another seed that agrees."""
    rng = np.random.default_rng(0)
    kept = halves(12, 60, 0)
    truth = rng.normal(size=(5, 12))
    margin = kept @ truth.T
    found = {("trained", "EK-FAC"): truth, ("untrained", "EK-FAC"): -truth}
    rows = module._held_out_rows(margin, margin, found, kept, 0)
    scores = {(model, method): value for _, model, method, _, value, *_ in rows}
    assert scores["trained", "EK-FAC"] == pytest.approx(1)
    assert scores["untrained", "EK-FAC"] == pytest.approx(-1)
    assert scores["retrained", "another seed"] == pytest.approx(1)
    assert scores["retrained", "datamodel"] > 0.9
    assert abs(scores["random", "random"]) < 0.15


def weighed(lds: float, untrained: float, named: float, other: float, loss: float) -> list[str]:
    """The grades of a table: EK-FAC's numbers, the best ones at the first weights, those of the
    loss."""
    rows: list[culprits.Row] = []
    for model, method, at in (("trained", CLAIMED, 0), ("untrained", DOT, 1), ("trained", DOT, 2)):
        ordered, right = (lds, untrained, 1.0)[at], (named, other, 1.0)[at]
        rows.append((module.HELD_OUT, model, method, "LDS", ordered, ordered - 0.1, ordered + 0.1))
        for part, measure in (("turned labels", culprits.ITSELF), ("shortcut", "precision")):
            rows.append((part, model, method, measure, right, np.nan, np.nan))
    rows.append(("turned labels", "trained", "loss", culprits.ITSELF, loss, np.nan, np.nan))
    rows.append((module.HELD_OUT, "random", "random", "LDS", 0.0, -0.1, 0.1))
    rows += [
        (part, "random", "random", measure, 0.1, np.nan, np.nan)
        for part, measure in (("turned labels", culprits.ITSELF), ("shortcut", "precision"))
    ]
    table = pd.DataFrame(rows, columns=list(module.COLUMNS))
    claims = drawn.claims(table, {"lines": 300, "words": 40, "trainings": 100})
    assert [claim.n for claim in claims] == [100, 30, 30]
    assert "datamodel" not in claims[0].finding
    return [claim.grade for claim in claims]


def test_what_is_claimed_of_influence_is_beyond_the_first_weights_and_the_loss() -> None:
    no = "no better than its controls"
    assert weighed(0.5, 0.2, 0.9, 0.2, 0.2) == ["holds"] * 3
    assert weighed(0.5, 0.4, 0.9, 0.8, 0.2) == [no] * 3
    assert weighed(0.5, 0.2, 0.9, 0.2, 0.8) == ["holds", no, "holds"]
    assert weighed(0.1, -0.3, 0.2, 0.0, 0.0) == [no] * 3  # chance does as well


def test_every_planned_comparison_over_seeds_has_both_numbers() -> None:
    found = {
        (model, name): np.eye(12)[:4] for name in METHODS for model in ("trained", "untrained")
    }
    kept = halves(12, 20, 0)
    said = kept.astype(float)[:, :4]
    table = pd.DataFrame(
        module._held_out_rows(said, said, found, kept, 0), columns=list(module.COLUMNS)
    )
    asked = module.QUESTION
    of = set(asked.headline(Answer(table))["of"])
    assert len(asked.planned) == len(METHODS)
    assert all({plan.first, plan.second} <= of for plan in asked.planned)


def test_the_shortcut_s_rows(leaning: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whoever names the culprits has the oracle's precision and its training."""
    shortcut = Shortcut.of(leaning, 0.1, 0)
    assert shortcut is not None
    left: list[np.ndarray] = []

    def leans(run: Run, asked: Influence, kept: np.ndarray, told: Any) -> np.ndarray:
        left.extend(kept)
        return (~kept & shortcut.culprits).sum(axis=1).astype(float)

    named = shortcut.culprits.astype(float)[None]
    found = {("trained", "knows"): named, ("trained", "errs"): -named}

    def influences(training: Training, values: Any, told: Any) -> Any:
        assert training.lines is shortcut.lines
        (value,) = values(training.models[-1])
        assert torch.equal(value, shortcut.reliance(leaning, training.models[-1]))
        return found

    monkeypatch.setattr(culprits, "reliance_after", leans)
    monkeypatch.setattr(Training, "influences", influences)
    asked = Influence(workers=1, device="cpu")
    told = (lambda *_: None, lambda what: None)
    rows = culprits.shortcut_rows(leaning, asked, shortcut, *told)
    values = {(method, measure): value for _, _, method, measure, value, *_ in rows}
    count = int(shortcut.culprits.sum())
    assert values["knows", "precision"] == 1
    assert values["knows", "reliance"] == values["oracle", "reliance"] == count
    assert values["none left out", "reliance"] == 0
    assert values["errs", "precision"] == 0
    assert values["random", "precision"] == count / 30
    assert 0 <= values["random", "reliance"] < count
    assert all((~kept).sum() in (0, count) for kept in left)
    assert len(left) == culprits.removals(2)


def test_turned_labels_are_found_by_who_knows_them(
    leaning: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The lines that the training reads differ from the run's in the labels of the culprits."""
    words = target_words(leaning, 4)
    right = leaning.language.labels(lines_of(leaning))

    def influences(training: Training, values: Any, told: Any) -> Any:
        heard, labels = said_and_meant(training.lines, leaning.language)
        assert np.array_equal(heard.ids, lines_of(leaning).ids)
        turned = (labels != right).astype(float)
        assert turned.sum() == 6
        assert not torch.equal(training.models[-1].W_E, leaning.model().W_E)
        harms = np.concatenate([np.tile(-turned, (4, 1)), np.diag(-turned)])
        owns = np.concatenate([np.tile(turned, (4, 1)), np.diag(turned)])
        return {("trained", "harms"): harms, ("trained", "owns"): owns}

    monkeypatch.setattr(Training, "influences", influences)
    asked = Influence(workers=1, device="cpu", culprits=0.2)
    rows = culprits.turned_rows(leaning, asked, words, lambda *_: None)
    values = {(method, measure): value for _, _, method, measure, value, *_ in rows}
    assert values["harms", "precision, harm"] == values["owns", "precision, itself"] == 1
    assert values["harms", "precision, itself"] == values["owns", "precision, harm"] == 0
    assert values["random", "precision, itself"] == 0.2
    assert 0 <= values["loss", "precision, itself"] <= 1


# -- the command ----------------------------------------------------------------------------------


def table_of(
    capsys: pytest.CaptureFixture[str], run: Run, *words: str, name: str = "influence"
) -> pd.DataFrame:
    assert main(["analyse", str(run.path), name, *words, "--csv"]) == 0
    return pd.read_csv(io.StringIO(capsys.readouterr().out))


def test_the_command_keeps_its_answer(leaning: Run, capsys: pytest.CaptureFixture[str]) -> None:
    table = table_of(capsys, leaning, *QUICK)
    assert set(table["part"]) == {"held-out words", "turned labels", "shortcut"}
    assert (leaning.results / "influence-1" / "influence.svg").exists()
    command = ["analyse", str(leaning.path), "influence", *QUICK]
    answer = Answers(leaning.path, "influence").latest()
    assert answer is not None
    compared = question("influence").headline(answer).set_index(["variable", "of"])["value"]
    assert len(compared) == len(table)
    for row in answer.table.itertuples():
        assert compared[f"{row.part}, {row.measure}", f"{row.method}, {row.model}"] == row.value
    chance = table[(table["method"] == "random") & table["measure"].str.startswith("precision")]
    assert chance["value"].between(0, 1).all()
    assert main([*command, "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    units = ["trainings", "lines with turned labels", "lines with the shortcut"]
    assert [claim["unit"] for claim in found["claims"]] == units
    assert [claim["n"] for claim in found["claims"]] == [10, 3, 3]
    assert len(list(leaning.results.glob("influence-*"))) == 1
    assert main(command) == 0
    assert "kept from before" in capsys.readouterr().out
    assert main(["show", str(leaning.path)]) == 0
    assert found["sentence"][:40] in " ".join(capsys.readouterr().out.split())


@pytest.mark.parametrize(
    ("words", "column"),
    [([], "itself"), (["--word", "leeuw kat", "--method", "tracin"], "influence")],
)
def test_lists_of_lines(
    leaning: Run, capsys: pytest.CaptureFixture[str], words: list[str], column: str
) -> None:
    table = table_of(capsys, leaning, *words, name="lines")
    assert len(table) == 30
    assert set(table["label"]) == {"in", "out"}
    assert table[column].is_monotonic_decreasing
    assert "untrained" in table
    assert main(["analyse", str(leaning.path), "lines", *words]) == 0
    printed = capsys.readouterr().out
    assert "the first lines" in printed
    assert ("the last lines" in printed) == ("--word" in words)
    kept = Answers(leaning.path, "lines").latest()
    assert kept is not None
    assert question("lines").chart(kept).to_dict()
    assert question("lines").headline(kept).empty == (not words)


def test_a_list_for_a_word_is_compared_with_the_untrained(leaning: Run) -> None:
    answer = fresh_answer(leaning, question("lines"), Lines("leeuw kat"))
    (row,) = question("lines").headline(answer).itertuples()
    assert (row.variable, row.of) == ("rank correlation", "with untrained")
    assert f"{row.value:.2f}" in answer.claims[0].sentence
    assert question("lines").chart(answer).to_dict()


def test_lines_with_several_labels_are_not_suspected(
    brackets: Run, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["analyse", str(brackets.path), "lines"]) == 2
    assert "not one label a line: name a --word" in capsys.readouterr().err


def test_next_symbols_have_no_culprits(brackets: Run, capsys: pytest.CaptureFixture[str]) -> None:
    table = table_of(capsys, brackets, *QUICK)
    assert set(table["part"]) == {"held-out words"}


@pytest.mark.parametrize(
    ("name", "words", "said"),
    [
        ("influence", ["--subsets", "3"], "--subsets is 3: it must be at least 10"),
        ("influence", ["--culprits", "0.7"], "--culprits is 0.7: it must lie above 0, up to 0.5"),
        ("lines", ["--method", "cosine"], "--method cosine finds no suspects"),
        ("lines", ["--word", "paard"], "unknown symbol 'paard'"),
        ("lines", ["--word", ""], "the word is empty"),
    ],
)
def test_mistakes(
    leaning: Run, capsys: pytest.CaptureFixture[str], name: str, words: list[str], said: str
) -> None:
    assert main(["analyse", str(leaning.path), name, *words]) == 2
    assert said in " ".join(capsys.readouterr().err.split())
