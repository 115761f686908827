"""The whole lab on real runs: what the demo promises, checked against the truth."""

from __future__ import annotations

import json
import pickle
import runpy
import shutil
import sys
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from drawn import read_json

from analyses.answers import Answers, answer
from analyses.command_line.app import main
from analyses.command_line.demo import ASKED, _complete, _overview, _planned, _used, _windows
from analyses.lectures.truth import rule_in_words
from analyses.options.commands import Demo
from analyses.questions.rule.rule_evidence import rebuilt
from analyses.rules.printed import printed_verdicts, summary
from models.choices import Counting
from models.languages import RegularLanguage
from models.runs.run import Run
from models.training.evaluation import judge
from models.training.recipes import recipe

THREE = pytest.param("anbncn-counting-s0", marks=pytest.mark.torture)


def test_the_demo_trains_plain_networks_and_says_so() -> None:
    plain, counting = _planned(Demo()), _planned(Demo(recipe="counting"))
    assert {config.recipe for config in plain.values()} == {"plain"}
    assert all(config.model.counting == Counting() for config in plain.values())
    assert plain == {name: recipe(name) for name in ("an", "anbn", "anbncn", "dieren")}
    assert Demo().recipe == "plain"
    said = "an, anbn, anbncn, dieren plain (nothing is built in for counting)."
    assert _used(plain) == f"Recipes: {said}"
    assert {name for name, c in counting.items() if c.recipe == "counting"} == {"anbn", "anbncn"}
    said = "anbn, anbncn counting (heads that count are built in)."
    assert _windows(plain) == "Training window: n = 1 to 25 (an, anbn, anbncn), 1 to 20 (dieren)."
    assert _used(counting).endswith(f"an, dieren plain (nothing is built in for counting); {said}")


@pytest.fixture
def an(demo: Path, tmp_path: Path) -> Path:
    """A copy of a run, which a test may ask other questions: the answers replace the kept ones."""
    return Path(shutil.copytree(demo / "an-s0", tmp_path / "an-s0"))


def findings(demo: Path, run: str, name: str) -> dict[str, object]:
    result = Answers(demo / run, name).latest()
    assert result is not None
    return dict(result.findings)


def test_every_question_is_answered_and_drawn(demo: Path) -> None:
    run = Run(demo / "dieren-s0")
    assert run.record["status"] == "finished"
    for each in ASKED:
        result = Answers(run.path, each).latest()
        assert result is not None
        assert len(result.table)
        assert result.model_hash == run.model_hash()
        assert result.folder is not None
        assert (result.folder / f"{each}.svg").read_text().startswith("<svg")
        page = (result.folder / f"{each}.html").read_text()
        assert "https://cdn" not in page  # all that the page needs is inside


@pytest.mark.parametrize("name", ["an-s0", "anbn-counting-s0", THREE])
def test_exact_on_twice_the_window(demo: Path, name: str) -> None:
    assert findings(demo, name, "accuracy")["exact_to"] == 50


@pytest.mark.parametrize("name", ["anbn-counting-s0", "dieren-s0"])
def test_the_table_tells_the_verdicts_on_all_short_words(demo: Path, name: str) -> None:
    run = Run(demo / name)
    every, row = findings(demo, name, "accuracy")["all_words"], _overview(run)
    own = [row for row in every["by_length"] if row["model"] == "trained"]
    members = sum(row["members"] for row in own)
    others, to = sum(row["words"] for row in own) - members, every["longest"]
    wrong = {kind: sum(row[kind] for row in own) for kind in ("false_accepts", "false_rejects")}
    assert row["false accepts"] == f"{wrong['false_accepts']:,} of {others:,} ({to})"
    assert row["false rejects"] == f"{wrong['false_rejects']:,} of {members:,} ({to})"


def test_the_printed_lines(demo: Path) -> None:
    verdicts = printed_verdicts(Run(demo / "dieren-s0"))
    assert verdicts is not None
    assert verdicts["group"].value_counts().to_dict() == {"A": 13, "B": 13}
    assert (verdicts["accepted"] == (verdicts["group"] == "A")).all()
    assert summary(verdicts).endswith("26 of 26 by their own groups.")
    verdicts.loc[25, "accepted"] = True
    assert summary(verdicts) == (
        "The 26 printed lines: A: 13 of 13 accepted, B: 1 of 13 accepted; 25 of 26 by their own "
        "groups."
    )


def test_four_thousand_fresh_lines(demo: Path) -> None:
    run = Run(demo / "dieren-s0")
    rng = np.random.default_rng(123)
    sample = run.language.sample(rng, 4000, run.language.lengths(20))
    _, right, _ = judge(run.model(), run.language, sample, run.objective)
    assert right.mean() >= 0.999


def test_discovery_returns_the_rule(demo: Path) -> None:
    run = Run(demo / "dieren-s0")
    found = findings(demo, "dieren-s0", "discovery")
    assert isinstance(run.language, RegularLanguage)
    assert found["rule"] == rule_in_words(run.language)
    assert isinstance(found["dfa"], dict)
    dfa = rebuilt(found["dfa"], run.language.vocabulary.symbols)
    assert found["n_states"] == len(dfa.states) == 5
    assert found["agreement_truth"] == 1.0
    heads = pd.DataFrame(found["heads"])
    control = heads["source"] < 0
    assert set(zip(heads["source"], heads["target"], strict=True)) == {
        (-1, -1), (0, 1), (1, 3), (3, 4),
    }  # fmt: skip
    assert heads[control]["moved"].abs().max() < 0.5
    strongest = heads[~control].groupby("target")["moved"].max()
    assert (strongest > 1).all()  # of each transition some head carries a part
    assert dfa == run.language.dfa  # automata-lib decides equivalence


def test_the_printed_lines_have_their_rule(demo: Path) -> None:
    record = read_json(demo / "discoveries" / "dieren-lines" / "record.json")
    assert record["lines"] == {"A": 13, "B": 13}
    assert record["best"]["words"].startswith("is one or more leeuw, then one or more olifant, ")
    (way,) = [way for way in record["ways"] if way["way"] == "classes"]
    assert way["having"] == [[13, 13], [0, 13]]


@pytest.mark.parametrize(
    ("name", "power", "shape", "equations"),
    [
        ("anbn-counting-s0", "a^n b^n", "a+ b+", "#a = #b"),
        pytest.param(
            *("anbncn-counting-s0", "a^n b^n c^n", "a+ b+ c+", "#a = #b = #c"),
            marks=pytest.mark.torture,
        ),
    ],
)
def test_a_language_that_counts_has_a_shape_and_equations(
    demo: Path, name: str, power: str, shape: str, equations: str
) -> None:
    found = findings(demo, name, "discovery")
    assert found["status"] == "counts"
    seen = found["envelope"]
    assert isinstance(seen, dict)
    assert (seen["name"], seen["shape"], seen["constraints"]) == (power, shape, equations)
    assert seen["holds"]
    assert found["rule"] == f"is {power}: of the shape {shape}, with {equations}"
    grows = found["states_by_length"]
    assert isinstance(grows, dict)
    assert list(grows.values())[-1] == "more than 30"


def test_probing_reads_the_difference_beside_its_controls(demo: Path) -> None:
    best = findings(demo, "anbn-counting-s0", "probing")["best"]
    assert isinstance(best, dict)
    assert best["a-b"]["score"] >= 0.95
    controls = best["a-b"]["controls"]
    form = {"symbol alone", "position alone", "no activation"}
    assert set(controls) == {"untrained", "shuffled labels", "control task"} | form
    # Three standard deviations of a correlation of unrelated numbers, squared.
    assert controls["shuffled labels"] < 9 / best["a-b"]["n_test"]
    assert controls["no activation"] < 0.01


def test_attribution_on_a_printed_line(demo: Path) -> None:
    result = Answers(demo / "dieren-s0", "explanations").latest()
    assert result is not None
    own = result.table[~result.table["scale"].isin(["log odds"])]
    value = own.pivot(index="position", columns="method", values="value")
    assert np.abs(value["Shapley exact"] - value["language"]).max() < 0.05
    assert np.abs(value["SHAP kernel"] - value["Shapley exact"]).max() < 0.1
    assert value["LIME"].corr(value["Shapley exact"]) > 0.95
    # Efficiency: exact values share out the model's probability less that of a random line.
    assert 0 < value["Shapley exact"].sum() <= result.findings["probability"] + 1e-6


def test_heads_that_are_needed_are_needed(demo: Path) -> None:
    result = Answers(demo / "dieren-s0", "heads").latest()
    assert result is not None
    lost = result.table[result.table["measure"] == "accuracy lost, mean ablation"]
    trained = lost[lost["model"] == "trained"].set_index("part")
    assert result.findings["needed"]
    assert trained.loc[result.findings["needed"], "value"].min() > 0.05
    assert trained.loc[result.findings["needed"], "corrected"].max() <= 0.05
    assert (trained["low"] <= trained["value"]).all()
    assert (trained["value"] <= trained["high"]).all()
    assert lost[lost["model"] == "untrained"]["value"].abs().max() < 0.25


def test_a_kept_answer_is_kept(demo: Path) -> None:
    _, kept = answer(Run(demo / "dieren-s0"), "patching")
    assert kept


def test_other_processes_find_what_the_demo_has_them_do() -> None:
    assert pickle.loads(pickle.dumps(_complete)) is _complete


def test_evaluate_far_beyond_the_window(an: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["evaluate", str(an), "--lengths", "90:92", "--json"]) == 0
    content = json.loads(capsys.readouterr().out)
    assert [row["length"] for row in content["by_length"]] == [90, 91, 92]


@pytest.mark.filterwarnings("ignore:.*found in sys.modules:RuntimeWarning")  # imported, then run
def test_a_script_of_its_own(
    an: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Run as a main program; ``test_contributing`` gives one a process of its own."""
    monkeypatch.setattr(sys, "argv", ["script", "patching", str(an), "--n", "3"])
    with pytest.raises(SystemExit) as end:
        runpy.run_module("analyses.script", run_name="__main__")
    assert end.value.code == 0
    assert "patching" in capsys.readouterr().out
