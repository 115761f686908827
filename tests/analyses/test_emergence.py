"""Along the checkpoints: each one's own numbers, and when a curve is there."""

from __future__ import annotations

import pandas as pd
import pytest
from conftest import tiny_config

from analyses.answers import Answer
from analyses.questions.inside import probing
from analyses.questions.training import emergence
from analyses.questions.training.emergence import Options, _by_step, _findings, _reached, analyse
from interp.probing.probes import probe_sites
from models.runs.run import Run
from models.training.evaluation import balanced_words, judge
from models.training.loop import train


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Run:
    made = Run.create(tmp_path_factory.mktemp("emergence") / "run", tiny_config(steps=5))
    train(made, "cpu")
    return made


@pytest.mark.slow
def test_every_checkpoint_is_asked_what_it_says(run: Run) -> None:
    table = analyse(run, Options(words=40, count=4)).table
    assert sorted(table["step"].unique()) == run.steps()
    assert len(run.steps()) > 2
    for step in (run.steps()[0], run.steps()[-1]):
        rows, model = table[table["step"] == step], run.model(step)
        options = probing.Options(words=40)
        seen = probing.examples(run, model, options)
        expected = probe_sites(seen.sites, seen.targets, seen.fit, choose=seen.choose)
        expected = expected.set_index(["target", "site"])["score"]
        probes = rows[rows["kind"] == "probe"].set_index(["target", "site"])["value"]
        assert not set(probing.NUISANCE) & set(probes.index.get_level_values("target"))
        pd.testing.assert_series_equal(
            probes, expected[probes.index], check_names=False, check_exact=False
        )
        assert (rows.loc[rows["kind"] == "probe", "low"] <= probes.to_numpy()).all()
        sample = balanced_words(run.language, 4, 4, 0)
        assert sample is not None
        exact, right, _ = judge(model, run.language, sample, run.objective)
        four = rows[rows["length"] == 4].set_index("kind")["value"]
        assert four["recognition"] == right.mean()
        assert four["exact"] == exact[sample.labels].mean()
        assert (rows["kind"] == "loss").sum() == 1


def test_the_curve_of_a_variable_is_that_of_its_last_best_site() -> None:
    """The words that choose say which site is the best, not those that are scored."""
    choices = {"early": (0.9, 0.1), "late": (0.0, 0.8)}
    table = pd.DataFrame(
        [
            {"step": step, "kind": "probe", "target": "v", "site": site, "choice": choice}
            for site, values in choices.items()
            for step, choice in enumerate(values)
        ]
    ).assign(value=lambda rows: 0.5 - rows["choice"] / 10)
    alone = _by_step(table)
    assert alone["curve"].unique().tolist() == ["v (late)"]
    assert alone["value"].tolist() == pytest.approx([0.5, 0.42])


@pytest.mark.parametrize(
    ("values", "there"),
    [
        ([0.1, 0.5, 0.95, 1.0], 2),
        ([0.9, 0.2, 0.8, 1.0], 3),
        ([0.95, 1.0], 0),
        ([1.0, 0.95], None),
        ([0.5, 0.5], None),
        ([0.0, 0.1, 0.0], None),
        ([-0.2, -0.1], None),
    ],
)
def test_there_is_where_it_stays(values: list[float], there: int | None) -> None:
    assert _reached(pd.DataFrame({"step": range(len(values)), "value": values})) == there


@pytest.mark.slow
def test_the_chart_has_a_panel_for_each_variable_and_one_for_the_loss(run: Run) -> None:
    result = analyse(run, Options(words=12, count=2))
    assert result.findings["task"] == "exact"
    titles = [panel["title"] for panel in emergence.chart(result).to_dict()["concat"]]
    variables = _by_step(result.table).dropna(subset=["target"])["curve"].unique().tolist()
    assert titles == [*variables, "loss on fresh words"]


def grown(
    probes: dict[str, tuple[float, float]], task: float = 0.8, half: float = 0.05, chosen: str = ""
) -> tuple[str, str]:
    """The grade and the sentence of scores by site, before the first step and after the last."""
    of = {"kind": "probe", "target": "a-b", "metric": "R2", "n_test": 40}
    rows = [
        {**of, "site": site, "step": step, "choice": score, "value": score}
        | {"low": score - half, "high": score + half}
        for site, scores in probes.items()
        for step, score in zip((0, 9), scores, strict=True)
    ]
    rows += [
        {"kind": "exact", "step": step, "value": value, "length": 4}
        for step, value in ((0, 0.0), (9, task))
    ]
    table = pd.DataFrame(rows)
    table.loc[(table["site"] == chosen) & (table["step"] == 0), "choice"] = 1.0
    (claim,) = emergence.QUESTION.claims(Answer(table, findings=_findings(table)))
    return claim.grade, claim.sentence


def test_what_grew_is_held_against_the_best_site_before_training() -> None:
    grade, said = grown({"L0": (0.2, 0.9), "embed": (0.3, 0.4)})
    assert grade == "holds"
    assert said.startswith(
        "Training raised the R2 of a linear probe of a-b by +0.600 [+0.529, +0.671], on 40 "
    )
    assert "It was 0.300 at embed before the first step, and is 0.900 at L0, 90% of that" in said
    assert grown({"L0": (0.2, 0.9), "embed": (0.88, 0.4)})[0] == "no better than its controls"
    assert grown({"L0": (0.2, 0.9)}, half=0.6)[0] == "no better than its controls"
    assert grown({"L0": (0.9, 0.2)})[0] == "no better than its controls"
    grade, said = grown({"L0": (0.95, 0.95), "embed": (0.7, 0.2)}, chosen="embed")
    assert grade == "no better than its controls"
    assert "It was 0.950 at L0 before the first step" in said
    assert grown({"L0": (0.2, 0.9)}, half=float("nan"))[0] == "not weighed"


def test_what_was_never_reached_is_not_said_to_be_there() -> None:
    """A network that is never right is not "right from step 0 on"."""
    said = grown({"embed": (0.5, 0.5)}, task=0.0)[1]
    assert "is 0.500 at embed, no more than before the first step." in said
    assert "0.0% of the whole words are right, no more than before the first step." in said
    reached = "80.0% of the whole words are right, 90% of that from step 9 on."
    assert reached in grown({"embed": (0.5, 0.5)})[1]
