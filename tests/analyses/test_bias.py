"""Which of two rules was taken: against networks that go by one rule, by half of each, by none."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from conftest import tiny_config

from analyses.answers import Answer
from analyses.command_line.app import main
from analyses.options.behaviour import Bias
from analyses.options.shipped import find
from analyses.questions.behaviour import bias as of_rules
from analyses.questions.behaviour.bias import QUESTION, _bias
from analyses.studies.sweeps.file import read
from analyses.studies.sweeps.plan import plan
from interp.statistics import wilson
from models.languages import AmbiguousLanguage
from models.runs.run import Run
from models.training.evaluation import predict
from models.training.loop import train

NO = "no better than its controls"


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> list[Run]:
    """Three seeds on one language and one run on another, hardly trained."""
    folder = tmp_path_factory.mktemp("runs")
    found = []
    for name, seed in [*(("ends-or-even", seed) for seed in range(3)), ("contains-or-even", 0)]:
        config = tiny_config(language=name, objective="verdict", max_n=10, seed=seed, steps=2)
        found.append(Run.create(folder / f"{name}-s{seed}", config))
        train(found[-1], "cpu")
    return found


@pytest.mark.parametrize(
    ("taken", "by_rule", "agreeing"),
    [("rule", 1.0, 1.0), ("rival", 0.0, 1.0), ("no", 0.5, 0.5), ("not the rule", 0.0, 0.0)],
)
def test_a_network_that_goes_by_a_rule_is_found_out(
    runs: list[Run], monkeypatch: pytest.MonkeyPatch, taken: str, by_rule: float, agreeing: float
) -> None:
    def right(model: object, known: AmbiguousLanguage, sample: Any, objective: object) -> Any:
        said = {
            "rule": known.labels(sample.words),
            "rival": known.by_rival(sample.words),
            "no": np.zeros(len(sample.labels), dtype=bool),
            "not the rule": ~known.labels(sample.words),
        }[taken]
        return said == sample.labels, said == sample.labels

    monkeypatch.setattr(of_rules, "right_words", right)
    table = _bias(runs[0], Bias(words=1000))
    assert table["model"].tolist() == ["trained", "untrained"]
    for row in table.to_dict("records"):
        assert row["by_rule"] == pytest.approx(by_rule, abs=0.06)
        assert row["by_rule"] + row["by_rival"] == 1
        assert row["agreeing"] == pytest.approx(agreeing, abs=0.06)
        assert (row["low"], row["high"]) == wilson(round(row["by_rule"] * 1000), 1000)
    (claim,) = QUESTION.claims(Answer(table))
    rule = {
        "rule": "ends with the symbol that it begins with",
        "rival": "has an even number of b",
    }.get(taken)
    assert rule is None or f'go by "{rule}"' in claim.short
    # The control is as right: the same words were judged by the same rule.
    taught = taken in ("rule", "rival")
    assert claim.grade == (NO if taught else "not weighed")
    better = table.assign(by_rule=[table["by_rule"][0], 0.5], by_rival=[table["by_rival"][0], 0.5])
    (claim,) = QUESTION.claims(Answer(better))
    assert claim.grade == ("holds" if taught else "not weighed")  # where both agree it is wrong
    assert QUESTION.claims(Answer(better.assign(agreeing=0.9)))[0].grade == {"no": NO}.get(
        taken, "fragile"
    )
    assert QUESTION.claims(Answer(better.assign(agreeing=1.0)))[0].grade == {"no": NO}.get(
        taken, "holds"
    )
    assert claim.controls["always the same answer"] == better["constant"][0]
    ends = (better["low"][0], better["high"][0])
    assert (claim.low, claim.high) == pytest.approx(
        ends if better["by_rule"][0] > 0.5 else (1 - ends[1], 1 - ends[0])
    )


def test_words_are_judged_by_the_network(runs: list[Run]) -> None:
    """The share of each label alone, by the network's own verdicts on the same words."""
    table = _bias(runs[3], Bias(words=300, seed=4))
    known, model = runs[3].language, runs[3].model()
    assert isinstance(known, AmbiguousLanguage)
    rng = np.random.default_rng([of_rules.ANALYSIS_SEED, 4])
    sample = known.sample(rng, 300, known.lengths(10), split="test")
    rows = zip(sample.words.ids, sample.words.lengths, strict=True)
    said = [
        predict(model, known.vocabulary.decode(row[:n]), runs[3].objective)[1] for row, n in rows
    ]
    own = np.mean(np.array(said) == sample.labels)
    assert table.loc[0, "constant"] == max(np.mean(sample.labels), np.mean(~sample.labels))
    assert table.loc[0, "by_rule"] == own
    assert np.mean(np.array(said) == known.by_rival(sample.words)) == pytest.approx(1 - own)


def test_the_numbers_that_are_compared_over_seeds_are_those_of_the_table(runs: list[Run]) -> None:
    table = _bias(runs[0], Bias(words=100)).set_index("model")
    compared = QUESTION.headline(Answer(table.reset_index())).set_index(["variable", "of"])["value"]
    assert len(compared) == 4
    for model in ("trained", "untrained"):
        assert compared["by rule", model] == table.loc[model, "by_rule"]
        assert compared["agreeing", model] == table.loc[model, "agreeing"]


def test_the_command(runs: list[Run], capsys: pytest.CaptureFixture[str]) -> None:
    for run, language in ((runs[0], "ends-or-even"), (runs[3], "contains-or-even")):
        assert main(["analyse", str(run.path), "bias", "--words", "50", "--json"]) == 0
        content = json.loads(capsys.readouterr().out)
        assert [row["model"] for row in content["table"]] == ["trained", "untrained"]
        assert {row["language"] for row in content["table"]} == {language}
        assert "here the rules differ, " in content["sentence"]
    assert main(["analyse", str(runs[0].path), "bias", "--words", "1"]) == 2
    assert "--words is 1: it must be at least 2" in capsys.readouterr().err


def test_other_languages_are_refused(trained: Run, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["analyse", str(trained.path), "bias"]) == 2
    error = capsys.readouterr().err
    assert len(error.splitlines()) == 1
    assert "ask a run on first-or-majority, contains-or-even or ends-or-even" in error


def test_the_shipped_sweep_judges_by_words_where_the_rules_differ(tmp_path: Path) -> None:
    planned, skipped = plan(read(find("bias")))
    assert len(planned) == 3 * 4 * 3 * 5
    assert not skipped
    assert all(run.config.objective == "verdict" for run in planned)
