"""Few labels: planted figures come back, from scratch is from scratch, nothing is done twice."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import replace
from itertools import product
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import torch
from scipy import stats

from analyses.command_line.app import main
from analyses.options.studies import FewLabels
from analyses.studies import few_labels as study
from analyses.studies.few_labels import RATES, RULES, SYMBOLS, _Cell, few_labels
from models.languages import language
from models.objectives import objective
from models.runs.run import Run
from models.training.evaluation import right_words
from models.training.loop import train

FULFILS = (
    lambda word: re.search("a.*b.*a", word),
    lambda word: "cd" in word,
    lambda word: word.startswith("a") and word.endswith("b"),
    lambda word: word.count("e") >= 3,
    lambda word: word.count("f") % 2 == 0,
)


@pytest.mark.parametrize("index", range(len(RULES)))
def test_a_planted_rule_says_what_its_comment_says(index: int) -> None:
    known = language("planted", RULES[index], SYMBOLS)
    words = [word for n in range(1, 5) for word in product(SYMBOLS, repeat=n)]
    labels = [known.contains(word) for word in words]
    assert labels == [bool(FULFILS[index]("".join(word))) for word in words]
    assert any(labels)
    assert not all(labels)


pytestmark = pytest.mark.slow  # many short trainings come first


@pytest.fixture(scope="module")
def _few_test_words() -> Iterator[None]:
    """To judge a network takes longer than three steps."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(study, "TEST", 40)
        patch.setattr(study, "RATES", RATES[:2])
        yield


@pytest.fixture(scope="module")
def small(
    tmp_path_factory: pytest.TempPathFactory, _few_test_words: None
) -> tuple[FewLabels, pd.DataFrame]:
    out = tmp_path_factory.mktemp("few-labels")
    asked = FewLabels(
        targets=("planted",),
        lines=(12,),
        seeds=1,
        steps=3,
        parent_steps=2,
        dimensions=(2,),
        out=out,
        workers=1,
    )
    return asked, few_labels(asked).table


def test_there_is_a_row_for_each_parent_and_way(small: tuple[FewLabels, pd.DataFrame]) -> None:
    _, table = small
    ways = (study.PROBE, *study.WAYS, "subspace of 2")
    known = [(parent, way) for parent in study.PARENTS for way in ways]
    assert list(zip(table["parent"], table["way"], strict=True)) == known
    read = (table["parent"] == "language model") & (table["way"] != study.PROBE)
    assert (table["forgotten"].notna() == read).all()
    assert (table["rate"].isna() == (table["way"] == study.PROBE)).all()


def test_all_weights_of_an_untrained_parent_is_training_from_scratch(
    small: tuple[FewLabels, pd.DataFrame], tmp_path: Path
) -> None:
    asked, table = small
    row = table[(table["parent"] == "untrained") & (table["way"] == "all")].iloc[0]
    trial = study._Trial(_Cell("planted", 0, 12, 3, 2), Run(asked.out / "planted-s0"), asked.device)
    run = Run.create(tmp_path / "scratch", replace(trial.config("all", row["rate"]), parent=""))
    train(run, "cpu")
    right = right_words(run.model(), run.language, trial.words, objective("verdict"))[1]
    assert right.mean() == row["right"]


def test_a_study_that_is_asked_again_trains_nothing(
    small: tuple[FewLabels, pd.DataFrame], monkeypatch: pytest.MonkeyPatch
) -> None:
    asked, table = small
    monkeypatch.setattr(study, "finish", lambda *_: pytest.fail("trained again"))
    pd.testing.assert_frame_equal(few_labels(asked).table, table)


def test_each_way_has_the_rate_that_is_right_most_often() -> None:
    tried = pd.DataFrame(
        [
            ("t", "untrained", "all", 10, 1e-2, 0.9),
            ("t", "untrained", "all", 10, 1e-3, 0.9),
            ("t", "untrained", "head", 10, 1e-3, 0.5),
            ("t", "untrained", "head", 10, 1e-2, 0.6),
            ("t", "untrained", "probe", 10, np.nan, 1.0),
        ],
        columns=[*study.BY, "rate", "right"],
    )
    assert study._best_rates(tried) == {
        ("t", 10): (("untrained", "all", 1e-3), ("untrained", "head", 1e-2))
    }
    cell = _Cell("t", 0, 10, 1, 1, rates=study._best_rates(tried)["t", 10])
    assert cell.tried("untrained", "head") == [1e-2]
    assert cell.tried("language model", "head") == study.RATES


def test_gains_are_differences_within_seeds() -> None:
    rng = np.random.default_rng(0)
    values = {
        (parent, way): rng.random(5)
        for parent in study.PARENTS
        for way in (study.PROBE, *study.WAYS)
    }
    table = pd.DataFrame(
        [
            {"target": "t", "parent": p, "way": w, "lines": 10, "seed": seed, "right": share}
            for (p, w), shares in values.items()
            for seed, share in enumerate(shares)
        ]
    )
    found = study._gains(table).set_index("way")
    gap = values["language model", "last"] - values["untrained", "all"]
    low, high = stats.t.interval(0.95, 4, gap.mean(), stats.sem(gap))
    got = found.loc["last", ["gain", "low", "high"]].to_numpy(float)
    np.testing.assert_allclose(got, [gap.mean(), low, high])
    (sentence,) = study._said(table)
    assert f"{found.loc['all', 'gain']:+.1%}" in sentence
    assert "5 seeds" in sentence


def test_the_intrinsic_dimension_is_the_smallest_that_is_enough() -> None:
    def rows(seed: int, everything: float, *shares: float) -> list[tuple[object, ...]]:
        ways = ["all", *map(study._subspace, (1, 4, 16))]
        shown = zip(ways, (everything, *shares), strict=True)
        return [("t", "language model", 10, seed, way, share) for way, share in shown]

    table = pd.DataFrame(
        # 90% of 0.9 beyond chance is 0.86
        rows(0, 0.9, 0.6, 0.87, 0.9) + rows(1, 0.9, 0.6, 0.7, 0.85) + rows(2, 0.5, 0.6, 0.6, 0.6),
        columns=["target", "parent", "lines", "seed", "way", "right"],
    )
    assert study.intrinsic(table, (16, 4, 1))["dimension"].tolist() == [4, np.inf, np.inf]


def test_what_is_forgotten_is_counted_in_nats_a_token(
    small: tuple[FewLabels, pd.DataFrame],
) -> None:
    model = Run(small[0].out / "planted-s0").model()
    known = language("planted", RULES[0], SYMBOLS)
    words = known.vocabulary.words([tuple("aba"), tuple("abcadh")])
    losses = []
    for row, length in zip(words.tokens, words.lengths, strict=True):
        tokens = torch.as_tensor(row[: length + 1])
        said = model(tokens[None])[0].log_softmax(dim=-1)
        after = [*tokens[1:].tolist(), known.vocabulary.ids["<end>"]]
        losses += [-float(said[at, token].detach()) for at, token in enumerate(after)]
    np.testing.assert_allclose(study._lm_loss(model, known, words), np.mean(losses), rtol=1e-5)


def test_nothing_is_forgotten_before_the_first_step(
    small: tuple[FewLabels, pd.DataFrame], tmp_path: Path
) -> None:
    trial = study._Trial(_Cell("planted", 0, 12, 3, 2), Run(small[0].out / "planted-s0"), "cpu")
    config = replace(trial.config("all"), parent=trial.parent.model_hash())
    run = Run.create(tmp_path / "tuned", config, None, trial.parent)
    train(run, "cpu")
    before = study._lm_loss(trial.parent.model(), trial.language, trial.text)
    start = study._lm_loss(run.model(0), trial.language, trial.text)
    assert start == pytest.approx(before, rel=1e-5)


@pytest.mark.parametrize(
    ("given", "fault"),
    [
        (["--lines", "10", "10"], "names one twice"),
        (["--lines", "0"], "--lines is 0"),
        (["planted", "planted"], "--targets is empty or names one twice"),
        (["--seeds", "0"], "--seeds is 0"),
        (["--dimensions", "0"], "--dimensions is 0"),
        (["--dimensions", "2", "2"], "--dimensions names one twice"),
    ],
)
def test_impossible_wishes_are_refused(
    given: list[str], fault: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["sweep", "few-labels", *given]) == 2
    assert fault in capsys.readouterr().err
