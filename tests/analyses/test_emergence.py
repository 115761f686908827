"""Along the checkpoints: each one's own numbers, and when a curve is there."""

from __future__ import annotations

import pandas as pd
import pytest
from conftest import tiny_config

from analyses.questions.inside import probing
from analyses.questions.training import emergence
from analyses.questions.training.emergence import Options, analyse, by_step, findings, reached
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
    alone = by_step(table)
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
    assert reached(pd.DataFrame({"step": range(len(values)), "value": values})) == there


@pytest.mark.slow
def test_the_chart_has_a_panel_for_each_variable_and_one_for_the_loss(run: Run) -> None:
    result = analyse(run, Options(words=12, count=2))
    assert result.findings["task"] == "exact"
    titles = [panel["title"] for panel in emergence.chart(result).to_dict()["concat"]]
    variables = by_step(result.table).dropna(subset=["target"])["curve"].unique().tolist()
    assert titles == [*variables, "loss on fresh words"]


def test_what_was_never_reached_is_not_said_to_be_there() -> None:
    """A network that is never right is not "right from step 0 on"."""

    def said(last: float) -> str:
        probe = {"kind": "probe", "target": "a-b", "site": "embed", "length": pd.NA}
        rows = [
            {"step": step, **kind, "choice": 0.5, "value": value}
            for step, values in ((0, (0.5, 0.0)), (9, (0.5, last)))
            for kind, value in zip(({**probe}, {"kind": "exact", "length": 4}), values, strict=True)
        ]
        return findings(pd.DataFrame(rows))[0]

    never = said(0.0)
    assert never == (
        "A probe reads a-b (embed) with a score of 0.500 before the first step and of 0.500 after "
        "the last. That is no more than before the first step. In the end 0.0% of the whole words "
        "are right."
    )
    assert said(0.8).endswith(
        "80.0% of the whole words are right. 90% of that is reached from step 9 on."
    )
