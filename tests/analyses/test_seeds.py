"""Over seeds: which runs belong together, what is compared, and the interval of their numbers."""

from __future__ import annotations

import json
import pickle
import shutil
import sys
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from io import StringIO
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from conftest import TINY, made_once, tiny_config
from drawn import read_json
from few import fewer
from parts import part
from scipy.stats import ttest_1samp
from streamlit.testing.v1 import AppTest
from test_kinds import TASKS, refused

from analyses.answer_files import Kept, Record, folders_of
from analyses.answers import Answer, Answers, arguments_of, fresh_answer, numbers, question, save
from analyses.command_line.app import main
from analyses.options.commands import Seeds
from analyses.questions.behaviour import accuracy
from analyses.questions.parts import heads, patching
from analyses.registry import usual
from analyses.studies import seeds
from analyses.studies.planned import compared
from analyses.studies.planned import for_reading as shown_of
from analyses.studies.seeds import (
    ASKED_OTHERWISE,
    EARLIER,
    RENEWED,
    UNASKED,
    UNFINISHED,
    ask_all,
    chosen,
    comparable,
    for_reading,
    groups,
    means,
    over_groups,
    siblings,
    wide,
)
from interp.explanations.methods import called
from interp.statistics import seeds_interval, t_interval, wilson
from models.errors import UserError
from models.model_config import ModelConfig
from models.runs.files import write_json
from models.runs.run import Run
from models.training.loop import train

NGRAM = ModelConfig(architecture="ngram", order=2)


@pytest.fixture(scope="module")
def swept(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Two seeds of a Transformer and one n-gram model, asked all that applies; and one unfinished.

    Kept as if they had been asked what the command asks, which then finds them answered.
    """

    def make(folder: Path) -> None:
        for seed in (3, 4):
            train(Run.create(folder / f"anbn-s{seed}", tiny_config(seed=seed)), "cpu")
        train(Run.create(folder / "anbn-2-gram-s0", tiny_config(model=NGRAM)), "cpu")
        Run.create(folder / "anbn-s5", tiny_config(seed=5))
        for path in ("anbn-s3", "anbn-s4", "anbn-2-gram-s0"):
            run = Run(folder / path)
            for name, (_, options) in TASKS.items():
                if refused(run, name) is None:
                    found = fresh_answer(run, question(name), options)
                    save(run.path, name, question(name).asks, found, None)
                    change(run, name, arguments=arguments_of(question(name).options()))

    with fewer():
        return made_once(tmp_path_factory, "swept", make, copy=True)


@pytest.fixture
def own(swept: Path, tmp_path: Path) -> Path:
    """A copy of the folder, which a test may change."""
    return Path(shutil.copytree(swept, tmp_path / "own"))


@pytest.fixture
def lab(capsys: pytest.CaptureFixture[str]) -> Callable[..., tuple[str, str]]:
    """Runs the command; what it says on stdout and on stderr."""

    def command(*args: object, status: int = 0) -> tuple[str, str]:
        here = [] if "--workers" in args else ["--workers", "1"]
        assert main(["seeds", *map(str, args), *here]) == status
        out, err = capsys.readouterr()
        return out if "--csv" in args else " ".join(out.split()), err

    return command


def change(run: Run, name: str, **values: object) -> None:
    """Makes a kept answer say something else."""
    (folder,) = folders_of(run.path, name)
    record = folder / f"{name}.json"
    write_json(record, read_json(record) | values)


def rows_of(name: str, run: Run) -> pd.Series:
    """A run's own numbers, by variable and of."""
    result = Answers(run.path, name).latest()
    assert result is not None
    table: pd.DataFrame = question(name).headline(result)
    return table.set_index(["variable", "of"])["value"]


# -- which runs belong together -------------------------------------------------------------------


def created(folder: Path, configs: Mapping[str, Mapping[str, object]]) -> dict[str, Run]:
    return {
        name: Run.create(folder / name, tiny_config(**changes)) for name, changes in configs.items()
    }


def test_runs_that_differ_in_the_seed_alone_belong_together(tmp_path: Path) -> None:
    runs = created(
        tmp_path,
        {
            "b": {"seed": 2},
            "a": {"seed": 7},
            "c": {"seed": 1},
            "longer": {"seed": 3, "max_n": 9},
        },
    )
    assert [run.name for run in siblings(runs["a"])] == ["c", "b", "a"]
    assert [run.name for run in siblings(runs["longer"])] == ["longer"]


def test_a_mixed_folder_is_read_as_groups(tmp_path: Path) -> None:
    deep = replace(TINY, n_layers=10)
    two = replace(TINY, n_layers=2)
    lstm = ModelConfig(architecture="lstm", n_layers=1, d_model=8)
    runs = created(
        tmp_path,
        {
            "a": {"seed": 1, "model": deep},
            "b": {"seed": 1},
            "c": {"seed": 0},
            "d": {"seed": 1, "model": two},
            "e": {"seed": 0, "model": lstm},
            "f": {"seed": 0, "language": "dieren", "steps": 3},
        },
    )
    found = groups(list(runs.values()))
    assert {group.label: [run.name for run in group.runs] for group in found} == {
        "anbn, architecture lstm, n_layers 1": ["e"],
        "anbn, architecture transformer, n_layers 1": ["c", "b"],
        "anbn, architecture transformer, n_layers 2": ["d"],
        "anbn, architecture transformer, n_layers 10": ["a"],
        "dieren, architecture transformer, n_layers 1": ["f"],
    }
    assert [group.fields["n_layers"] for group in found] == [1, 1, 2, 10, 1]


@pytest.mark.parametrize(
    ("changes", "fields"),
    [
        ({"seed": 1}, {"language"}),
        ({"language": "anbncn", "steps": 3}, {"language"}),
        ({"steps": 3, "max_n": 5}, {"language", "steps", "max_n"}),
        # The architecture decides how wide its rival is: that goes without saying.
        (
            {"model": ModelConfig(architecture="lstm", n_layers=1)},
            {"language", "architecture"},
        ),
        (
            {
                "model": replace(TINY, mask="bidirectional"),
                "objective": "verdict",
            },
            {"language", "mask"},
        ),
    ],
)
def test_a_label_says_what_tells_groups_apart(
    tmp_path: Path, changes: dict[str, object], fields: set[str]
) -> None:
    runs = created(tmp_path, {"a": {}, "b": changes})
    assert {name for group in groups(list(runs.values())) for name in group.fields} == fields


def test_runs_that_learnt_other_lines_stay_apart(tmp_path: Path) -> None:
    runs = []
    for index, last in enumerate("xyx"):
        corpus = tmp_path / f"{index}.tsv"
        words = [f"{one} {two} {last}" for one in "xyz" for two in "xyz"]
        corpus.write_text("".join(f"{'A' if w[0] == 'x' else 'B'}\t{w}\n" for w in words))
        config = tiny_config(language="lines", seed=index, objective="verdict")
        runs.append(Run.create(tmp_path / f"lines-s{index}", config, corpus))
    assert sorted(len(group.runs) for group in groups(runs)) == [1, 2]
    assert len({group.label for group in groups(runs)}) == 2
    assert siblings(runs[0]) != siblings(runs[1])
    assert [run.name for run in siblings(runs[0])] == ["lines-s0", "lines-s2"]


def test_a_run_stands_for_its_siblings_and_a_folder_for_all(swept: Path) -> None:
    of_run, _ = chosen(swept / "anbn-s4")
    of_folder, _ = chosen(swept)
    assert [run.name for run in of_run] == ["anbn-s3", "anbn-s4"]
    assert [run.name for run in of_folder] == ["anbn-2-gram-s0", "anbn-s3", "anbn-s4"]


def test_who_is_left_out_is_told(own: Path) -> None:
    shutil.copytree(own / "anbn-s3", own / "anbn-s3-copy")
    shutil.copytree(own / "anbn-s3", own / "broken")
    (own / "broken" / "run.json").write_text("{")
    diverged = Run(shutil.copytree(own / "anbn-s4", own / "anbn-s6"))
    diverged.update(status="diverged")
    runs, notes = chosen(own)
    assert [run.name for run in runs] == ["anbn-2-gram-s0", "anbn-s3", "anbn-s4"]
    assert [note.split(": ")[0] for note in sorted(notes)] == [
        "without anbn-s3-copy",
        "without anbn-s5",
        "without anbn-s6",
        "without broken",
    ]
    assert sorted(notes)[0].endswith(": the same configuration and seed as anbn-s3")
    assert UNFINISHED in sorted(notes)[1]
    assert sorted(notes)[2].endswith(": its training diverged")


# -- the numbers ----------------------------------------------------------------------------------


@pytest.mark.parametrize("name", usual())
def test_a_headline_is_a_tidy_table_of_named_numbers_and_is_kept(name: str, swept: Path) -> None:
    for run in (Run(swept / "anbn-s3"), Run(swept / "anbn-2-gram-s0")):
        if refused(run, name):
            continue
        result = Answers(run.path, name).latest()
        assert result is not None
        table = question(name).headline(result)
        pd.testing.assert_frame_equal(numbers(result.numbers), table)
        assert list(table.columns) == ["variable", "of", "value"]
        assert table["value"].dtype == float
        # What a model of two symbols reads does not tell the words of patching apart.
        assert table["value"].notna().any() or (run.name, name) == ("anbn-2-gram-s0", "patching")
        assert not table.duplicated(["variable", "of"]).any()


@pytest.mark.parametrize("name", usual())
def test_the_interval_is_over_the_headlines_of_the_runs(name: str, swept: Path) -> None:
    runs = [Run(swept / path) for path in ("anbn-s3", "anbn-s4")]
    results, _ = comparable(runs, name)
    assert len(results) == 2
    table = means(results)
    both = pd.concat([rows_of(name, run) for run in runs], axis=1)
    expected = both[both.notna().any(axis=1)]
    assert len(table) == len(expected)
    for row in table.to_dict("records"):
        values = expected.loc[(row["variable"], row["of"])].dropna().to_numpy()
        assert row["seeds"] == len(values)
        found = np.array([row["mean"], row["low"], row["high"]])
        ends = seeds_interval(values)
        if row["of"] in question(name).outcomes:
            ends = values.mean(), *wilson(int(values.sum()), 2)
        np.testing.assert_allclose(found, ends, rtol=1e-12)
    assert (both.iloc[:, 0] != both.iloc[:, 1]).any()


def test_accuracy_is_told_inside_and_beyond_the_window() -> None:
    table = pd.DataFrame(
        {
            "model": ["trained"] * 4 + ["untrained"] * 4,
            "length": [2, 4, 6, 10] * 2,
            "n": pd.array([1, 2, 3, 5] * 2, dtype="Int64"),
            "count": [10, 30, 20, 20] * 2,
            "exact": pd.array([1.0, 1.0, 0.5, 1.0, 0.5, 0.0, 0.0, 0.0], dtype="Float64"),
            "recognition": [1.0, 0.8, 0.6, 0.5] + [0.5] * 4,
            "members": pd.array([1.0, 0.6, None, 1.0] + [0.0] * 4, dtype="Float64"),
        }
    )
    found = accuracy.QUESTION.headline(Answer(table, "", {"window": 2}))
    grid = found.set_index(["variable", "of"])["value"].unstack(0)
    assert grid.loc["exact to size"].to_dict() == {"trained": 2, "untrained": 0}
    assert grid.loc["tested to size", "trained"] == 5
    trained = grid["trained"]
    assert trained["recognition, in the window"] == pytest.approx((10 + 24) / 40)
    assert trained["recognition, beyond it to twice"] == pytest.approx(0.6)
    assert trained["recognition, beyond twice"] == pytest.approx(0.5)
    assert trained["exact, beyond it to twice"] == pytest.approx(0.5)
    assert trained["members recognised, in the window"] == pytest.approx((10 + 18) / 40)
    assert np.isnan(trained["members recognised, beyond it to twice"])
    assert "others recognised, in the window" not in trained  # as in answers of earlier versions
    assert grid["untrained"]["exact, in the window"] == pytest.approx(5 / 40)


def test_verdicts_alone_have_no_exactness() -> None:
    table = pd.DataFrame(
        {"model": "trained", "length": [3], "count": [8], "recognition": [0.75]}
    ).assign(n=pd.array([None], dtype="Int64"), exact=pd.array([None], dtype="Float64"))
    found = accuracy.QUESTION.headline(Answer(table, "", {"window": 2})).set_index(
        ["variable", "of"]
    )
    known = found["value"].dropna()
    assert known.to_dict() == {("trained", "recognition, beyond it to twice"): 0.75}


def test_what_a_question_plans_is_tested_and_can_be_had_as_a_table(
    swept: Path, lab: Callable[..., tuple[str, str]]
) -> None:
    said, _ = lab(swept / "anbn-s3", "probing", "--no-ask")
    assert "anbn: probing, tested" in said
    assert "2 seeds cannot show anything" in said
    rows = json.loads(lab(swept / "anbn-s3", "probing", "--no-ask", "--tests", "--json")[0])
    row = next(row for row in rows if row["of"] == "a-b" and row["first"] == "trained")
    gaps = []
    for seed in (3, 4):
        kept = Answers(swept / f"anbn-s{seed}", "probing").latest()
        assert kept is not None
        best = kept.findings["best"]["a-b"]
        gaps.append(best["score"] - best["controls"]["untrained"])
    assert row["difference"] == pytest.approx(np.mean(gaps))
    assert (row["group"], row["analysis"], row["pairs"]) == ("anbn", "probing", 2)
    alone, _ = lab(swept / "anbn-2-gram-s0", "accuracy", "--no-ask")
    assert "accuracy, tested" not in alone


def test_the_means_are_those_of_the_numbers_of_each_run(
    swept: Path, lab: Callable[..., tuple[str, str]]
) -> None:
    told = [
        pd.DataFrame(json.loads(lab(swept / "anbn-s3", "probing", "--no-ask", *more, "--json")[0]))
        for more in ((), ("--by-run",))
    ]
    means, numbers = (rows.set_index(["variable", "of"]) for rows in told)
    assert set(numbers["run"]) == {"anbn-s3", "anbn-s4"}
    by_hand = numbers.dropna(subset=["value"]).groupby(["variable", "of"])["value"].mean()
    pd.testing.assert_series_equal(
        by_hand.sort_index(), means["mean"].sort_index(), check_names=False, check_dtype=False
    )
    assert "anbn-s4" in lab(swept / "anbn-s3", "probing", "--no-ask", "--by-run")[0]
    with pytest.raises(UserError, match="one at a time"):
        Seeds(swept, "probing", by_run=True, tests=True)


def test_heads_have_no_names_over_seeds(swept: Path) -> None:
    result = Answers(swept / "anbn-s3", "heads").latest()
    assert result is not None
    lost, look = "accuracy lost, zero ablation", heads.LOOK
    table = result.table.copy()
    own = table["model"] == "trained"
    two = own & (table["head"] >= 0)
    numbers = ["choice", "value", "corrected"]
    table.loc[two & (table["measure"] == lost), numbers] = [[0.3, 0.3, 0.01], [0.5, 0.5, 0.2]]
    table.loc[two & (table["measure"] == look), numbers] = [[0.2, 0.2, 0.01], [0.6, 0.6, 0.01]]
    table.loc[own & (table["measure"] == look) & (table["part"] == "flow"), "value"] = -0.5
    typed = two & (table["measure"] == "attention, BOS")
    table.loc[typed, ["choice", "value", "uniform"]] = [[0.9, 0.9, 0.8], [0.6, 0.6, 0.2]]
    found = heads.QUESTION.headline(Answer(table, "", result.findings))
    numbers = found.set_index(["variable", "of"])["value"]["trained"]
    assert numbers["share of heads needed, zero ablation"] == 0.5
    assert numbers["most lost by a head, zero ablation"] == 0.5
    assert numbers["BOS beyond even attention, best head"] == pytest.approx(0.4)
    assert numbers[f"{look}, share of heads above 0.3"] == 1
    assert numbers[f"{look}, best head"] == 0.6
    assert numbers[f"{look}, mean of heads"] == pytest.approx(0.4)
    assert numbers[f"{look}, flow"] == -0.5
    assert set(found["variable"]) == {"trained", "untrained"}
    assert not found["of"].str.contains(r"L\dH\d").any()


def test_patching_says_how_large_and_where() -> None:
    table = pd.DataFrame(
        {
            "model": ["trained"] * 5 + ["untrained"] * 2,
            "component": ["z"] * 3 + ["mlp_out"] * 2 + ["z"] * 2,
            "position": [1, 2, 3, -1, -1, 1, 2],
            "effect": [0.1, -0.6, 0.3, 0.5, 0.2, 7.0, -21.0],
            "shift_choice": [0.1, -0.6, 0.7, 0.5, 0.2, 0.2, -0.4],
            "shift": [0.1, -0.6, -0.1, 0.4, 0.3, 0.5, -0.2],
        }
    )
    found = patching.QUESTION.headline(Answer(table, "", {"changed_positions": [2]}))
    assert found.set_index(["variable", "of"])["value"].to_dict() == pytest.approx(
        {
            ("z", "largest effect"): 0.1,
            ("z", "share of the sum in one site"): 0.6,
            ("z", "share of the sum where words differ"): 0.6,
            ("mlp_out", "largest effect"): 0.4,
            ("mlp_out", "share of the sum in one site"): 5 / 7,
            ("z", "largest effect, untrained"): 0.2,
            ("z", "share of the sum in one site, untrained"): 0.75,
            ("z", "share of the sum where words differ, untrained"): 0.75,
        }
    )


def test_circuits_stand_beside_the_random_ones(swept: Path) -> None:
    run = Run(swept / "anbn-s3")
    result, numbers = Answers(run.path, "circuits").latest(), rows_of("circuits", run)
    assert result is not None
    found = result.findings
    for name, circuit in (("trained", found["circuit"]), ("untrained", found["untrained"])):
        assert numbers[name, "edges kept"] == len(circuit["edges"])
        assert numbers[name, "share of all edges"] == len(circuit["edges"]) / circuit["of"]
        assert numbers[name, "faithfulness"] == circuit["faithfulness"]
        assert numbers[name, "completeness"] == circuit["completeness"]
        assert numbers[name, "restored"] == circuit["restored"]
    assert numbers["random", "faithfulness"] == found["random"]
    assert numbers["trained", "incompleteness"] == found["incompleteness"]["largest"]
    costs = [abs(row["model"]) for row in found["knock_outs"]]
    assert numbers["trained", "edges that cost the whole model nothing"] == sum(
        cost < 0.01 for cost in costs
    )
    for name in ("exact, noising", "exact, denoising", "EAP, noising", "EAP-IG", "random"):
        assert numbers[name, "CMD"] == found["areas"][name]["CMD"]
    near = {(row["method"], row["direction"]): row["pearson"] for row in found["agreement"]}
    for direction in ("noising", "denoising"):
        name = f"correlation with the exact effects, {direction}"
        assert numbers["EAP-IG", name] == near["EAP-IG", direction]


def test_every_method_is_compared_on_the_same_word(swept: Path) -> None:
    run = Run(swept / "anbn-s3")
    result, numbers = Answers(run.path, "explanations").latest(), rows_of("explanations", run)
    assert result is not None
    scores = pd.DataFrame(result.findings["agreement"])
    scores.index = [called(*pair) for pair in zip(scores["method"], scores["scale"], strict=True)]
    assert set(numbers["AUROC"].index) == set(scores.index)
    assert {"random", "position", "chance", "LIME (log odds)"} <= set(scores.index)
    for measure in ("AUROC", "cosine to the effects", "cosine to the model"):
        assert numbers[measure].to_dict() == scores[measure].astype(float).to_dict()
    assert numbers["probability of in", "the model"] == result.findings["probability"]


def test_a_rule_is_found_or_not(swept: Path) -> None:
    run = Run(swept / "anbn-s3")
    result = Answers(run.path, "discovery").latest()
    assert result is not None

    def numbers(**values: object) -> pd.Series:
        findings = {**result.findings, **values}
        table = question("discovery").headline(Answer(result.table, "", findings))
        return table.set_index(["variable", "of"])["value"]["trained"]

    exact = numbers(status="rule", is_the_language=True, n_states=4, agreement=0.75)
    assert exact["reliable rule"] == exact["automaton: exactly the language's"] == 1
    assert exact["shape and equations"] == 0
    assert "equations: words that obey accepted" not in exact
    assert exact["automaton: states"] == 4
    assert exact["automaton: agrees with the network on fresh words"] == 0.75
    seen = {"inside": 0.9, "outside": 0.8}
    counted = numbers(status="counts", is_the_language=None, envelope=seen)
    assert counted["reliable rule"] == counted["shape and equations"] == 1
    assert counted["equations: words that obey accepted"] == 0.9
    assert counted["equations: other words rejected"] == 0.8
    assert np.isnan(counted["automaton: exactly the language's"])
    assert numbers(status="none")["reliable rule"] == 0
    untrained = rows_of("discovery", run)["untrained"]
    assert untrained["automaton: states"] == result.findings["untrained"]["n_states"]


def test_means_over_the_seeds_that_were_asked(swept: Path) -> None:
    runs = [Run(swept / f"anbn-s{seed}") for seed in (3, 4, 5)]
    assert comparable(runs[2:], "probing")[0] == []
    results, _ = comparable(runs, "probing")
    table, asked = means(results), len(results)
    assert asked == 2
    assert (table["seeds"] <= 2).all()
    (row,) = table[(table["variable"] == "a-b") & (table["of"] == "trained")].to_dict("records")
    kept = [result for run in runs[:2] if (result := Answers(run.path, "probing").latest())]
    scores = [result.findings["best"]["a-b"]["score"] for result in kept]
    assert (row["mean"], row["low"], row["high"]) == pytest.approx(seeds_interval(np.array(scores)))


def test_the_interval_is_students() -> None:
    """Of what is no share: differences, bits."""
    values = np.array([0.2, -1.5, 0.4, 0.9, 0.1])
    assert seeds_interval(values) == t_interval(values)
    mean, low, high = t_interval(values)
    expected = ttest_1samp(values, 0).confidence_interval(0.95)
    assert (mean, low, high) == pytest.approx((values.mean(), expected.low, expected.high))
    assert np.isnan(t_interval(np.array([3.0]))[1:]).all()


# -- which answers are compared -------------------------------------------------------------------


def test_answers_to_other_questions_are_not_averaged(own: Path) -> None:
    runs = [Run(own / f"anbn-s{seed}") for seed in (3, 4, 5)]
    shutil.copytree(own / "anbn-s3", own / "anbn-s6")
    runs.append(Run(own / "anbn-s6"))
    shutil.copytree(runs[0].results, runs[2].results)
    change(runs[1], "heads", arguments={"words": 7})
    change(runs[1], "accuracy", model_hash="another")
    shutil.rmtree(runs[1].results / "patching-1")
    (runs[1].results / "circuits-1" / "circuits.parquet").write_bytes(b"damaged")
    _, reasons = comparable(runs, "circuits")
    assert "circuits.parquet is damaged" in reasons["anbn-s4"]
    for name, reason in {
        "heads": ASKED_OTHERWISE,
        "accuracy": EARLIER,
        "patching": UNASKED,
    }.items():
        results, reasons = comparable(runs, name)
        assert reasons == {"anbn-s4": reason, "anbn-s5": UNFINISHED}
        assert len(results) == 2


def test_an_answer_that_is_asked_again_meanwhile_is_missing(
    swept: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def gone(kept: Kept) -> bytes:
        raise FileNotFoundError(kept.folder)

    monkeypatch.setattr(Kept, "content", gone)
    assert comparable([Run(swept / "anbn-s3")], "probing") == ([], {"anbn-s3": RENEWED})


def test_only_what_was_not_asked_is_asked(own: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    asked = []

    def note(run: Run, name: str, options: object, *_: object) -> None:
        asked.append((run.name, name))
        raise UserError(f"{run.name} is tired")

    monkeypatch.setattr(seeds, "answer", note)
    runs, _ = chosen(own)
    shutil.rmtree(runs[1].results / "heads-1")
    change(runs[1], "patching", model_hash="another")
    change(runs[2], "accuracy", arguments={"words": 7})
    (runs[2].results / "patching-1" / "patching.parquet").write_bytes(b"damaged")
    reasons = ask_all(runs, ["accuracy", "patching", "heads", "circuits"])
    expected = [("anbn-2-gram-s0", "heads"), ("anbn-2-gram-s0", "circuits")]
    expected += [("anbn-s3", "patching"), ("anbn-s3", "heads")]
    expected += [("anbn-s4", "accuracy"), ("anbn-s4", "patching")]
    assert asked == expected
    assert reasons == {(run, name): f"{run} is tired" for run, name in expected}


def test_workers_are_given_what_other_processes_can_read(
    own: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    handed: list[int] = []

    def side_by_side(
        work: Callable[..., Any],
        jobs: Mapping[Any, tuple[Any, ...]],
        workers: int,
        scheduler: str | None,
    ) -> Iterator[tuple[Any, Any]]:
        handed.append(workers)
        for key, arguments in reversed(jobs.items()):
            there, given = pickle.loads(pickle.dumps((work, arguments)))
            yield key, there(*given)

    monkeypatch.setattr(seeds, "side_by_side", side_by_side)
    runs, _ = chosen(own)
    seen = []
    reasons = ask_all(runs, ["heads"], 3, lambda done, total, what: seen.append((done, total)))
    assert handed == [3]
    assert reasons.keys() == {("anbn-2-gram-s0", "heads")}
    assert seen == [(1, 1)]
    assert ask_all(runs, ["accuracy"], 3) == {}
    assert handed == [3]  # where all is kept no process is started


# -- tables ---------------------------------------------------------------------------------------


def test_a_number_that_few_seeds_have_says_so() -> None:
    table = pd.DataFrame(
        [
            ("x", "many", 0.5, 0.25, 0.75, 3),
            ("x", "two", 1234.0, 1200.0, 1300.0, 2),
            ("y", "one", -0.001, np.nan, np.nan, 1),
            ("y", "many", 2.0, np.nan, np.nan, 3),  # all seeds agree: no spread can be seen
        ],
        columns=["variable", "of", "mean", "low", "high", "seeds"],
    )
    assert wide(table).to_dict("list") == {
        "x": ["0.50 [0.25, 0.75]", "1234 [1200, 1300] (2 of 3)", ""],
        "y": ["2.00", "", "0.00 (1 of 3)"],
    }
    assert wide(pd.DataFrame()).empty


def test_a_single_seed_has_no_interval(swept: Path) -> None:
    table, _ = over_groups([Run(swept / "anbn-s3")], ["accuracy"])
    assert table["low"].isna().all()
    assert not wide(table).map(lambda text: "[" in text).any(axis=None)
    ((title, _),), what = for_reading(table, 4)
    assert title == "anbn: accuracy, 1 seed"
    assert what == "One seed: no interval."


def test_many_variables_go_below(swept: Path) -> None:
    runs, _ = chosen(swept)
    table, _ = over_groups(runs, ["circuits", "discovery"])
    parts, what = for_reading(table, 4)
    of_two = "anbn, architecture transformer"
    assert [title for title, _ in parts] == [
        "anbn, architecture ngram: discovery, 1 seed",
        f"{of_two}: circuits, 2 seeds",
        None,
        None,
        None,
        f"{of_two}: discovery, 2 seeds",
    ]
    kinds = "[95% interval: Student's, within the range; of yes or no Wilson's]."
    assert what == f"Mean over 1 to 2 seeds {kinds}"
    beside, *below = (part for _, part in parts[1:5])
    assert list(beside.columns) == ["of", "trained", "untrained", "random", "exact, noising"]
    rankings = [name for part in below for name in part.columns if name != "of"]
    assert all(len(part.columns) <= 5 for part in below)
    assert {"EAP, noising", "EAP, denoising", "EAP-IG", "exact, denoising"} <= set(rankings)
    assert len(rankings) == len(set(rankings))
    assert "edges kept" in set(beside["of"])
    assert "edges kept" not in {of for part in below for of in part["of"]}  # not of rankings


@pytest.mark.parametrize("name", ["heads", "influence"])
def test_of_two_questions_that_were_asked_as_often_the_default_one_is_shown(name: str) -> None:
    """How the work is done, such as by how many workers, is no part of a question."""
    default = arguments_of(question(name).options())
    about: dict[str, Any] = dict.fromkeys(("analysis", "question", "sentence", "model_hash"), "")
    about |= {"findings": {}, "code": "", "asked_at": ""}
    asked = [
        Kept(Path(), Record(arguments=default | {"seed": seed}, **about)) for seed in (1, 0, 2)
    ]
    assert seeds._commonest([[each] for each in asked], name) == default


# -- the command ----------------------------------------------------------------------------------


@pytest.mark.parametrize("name", usual())
def test_the_command_prints_one_table_of_all_seeds(
    name: str, swept: Path, lab: Callable[..., tuple[str, str]]
) -> None:
    printed, _ = lab(swept / "anbn-s3", name)
    assert f"anbn: {name}, 2 seeds" in printed
    assert "Mean over 2 seeds [95% interval: Student's, within" in printed
    assert "without anbn-s5: not finished" in printed
    alone, said = lab(swept / "anbn-s3", name, "--json")
    assert "without anbn-s5: not finished" in said
    as_csv, _ = lab(swept / "anbn-s3", name, "--csv")
    rows, written = pd.DataFrame(json.loads(alone)), pd.read_csv(StringIO(as_csv))
    assert rows["seeds"].max() == 2
    expected = means(comparable([Run(swept / "anbn-s3"), Run(swept / "anbn-s4")], name)[0])
    for found in (rows, written):
        assert set(found["group"]) == set(found["language"]) == {"anbn"}
        assert set(found["analysis"]) == {name}
        same = found[expected.columns]
        pd.testing.assert_frame_equal(same, expected, check_dtype=False, rtol=1e-8)
    assert set(wide(written).columns) == set(rows["variable"])


@pytest.mark.slow
def test_all_questions_of_a_sweep(swept: Path, lab: Callable[..., tuple[str, str]]) -> None:
    """What does not apply says so in a line; the rest goes on."""
    printed, _ = lab(swept, "all")
    table = pd.read_csv(StringIO(lab(swept, "all", "--csv")[0]))
    gram = Run(swept / "anbn-2-gram-s0")
    for name in usual():
        asked = set(table.loc[table["analysis"] == name, "architecture"])
        assert f"anbn, architecture transformer: {name}, 2 seeds" in printed
        if reason := refused(gram, name):
            assert asked == {"transformer"}
            assert f"{name} without anbn-2-gram-s0: has {reason}" in printed
        else:
            assert asked == {"transformer", "ngram"}
            assert f"anbn, architecture ngram: {name}, 1 seed" in printed
    assert printed.count("without") == 1 + sum(bool(refused(gram, name)) for name in usual())
    of_gram = table[table["architecture"] == "ngram"]
    assert (of_gram["seeds"] == 1).all()
    assert of_gram["low"].isna().all()


@pytest.mark.slow
def test_what_is_kept_can_be_shown_without_asking(
    own: Path, lab: Callable[..., tuple[str, str]]
) -> None:
    for path in ("anbn-s3", "anbn-s4"):
        shutil.rmtree(own / path / "results" / "discovery-1")
    printed, _ = lab(own, "discovery", "--no-ask")
    assert "discovery without anbn-s3, anbn-s4: not asked" in printed
    assert "architecture ngram: discovery, 1 seed" in printed
    assert "transformer" not in printed
    assert not folders_of(own / "anbn-s3", "discovery")
    printed, _ = lab(own, "discovery")
    assert "architecture transformer: discovery, 2 seeds" in printed
    assert "not asked" not in printed


def test_a_mistake_is_one_line(
    own: Path, tmp_path: Path, lab: Callable[..., tuple[str, str]]
) -> None:
    empty, unfinished = tmp_path / "empty", tmp_path / "unfinished"
    empty.mkdir()
    shutil.copytree(own / "anbn-s5", unfinished / "anbn-s5")
    for args, fault in (
        ((empty, "heads"), "is not a run"),
        ((own / "anbn-s9", "heads"), "is not a run: choose one of"),
        ((own, "colours"), "lab: unknown question 'colours': choose one of accuracy, "),
        ((unfinished, "heads"), "no finished run in"),
        ((unfinished / "anbn-s5", "heads"), "no finished run in"),
        ((own / "anbn-2-gram-s0", "heads"), "has no attention heads"),
        ((own, "heads", "--workers", "0"), "--workers is 0: it must be at least 1"),
        ((own,), "NAME is missing: write the question, or all"),
    ):
        out, said = lab(*args, status=2)
        assert not out
        assert said.startswith("lab: ")
        assert fault in said
        assert said.count("\n") == 1


# -- the dashboard --------------------------------------------------------------------------------

SHOW = """
from dashboard.pages import pages
pages()["{page}"].draw()
"""


@pytest.mark.parametrize("name", usual())
def test_a_page_shows_the_same_over_seeds(
    name: str, swept: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys, "argv", ["app.py", str(swept)])
    script = SHOW.format(page={"accuracy": "runs"}.get(name, name))
    page = AppTest.from_string(script, default_timeout=120)
    page.session_state["run"] = "anbn-s3"
    page.run()
    assert not page.exception
    part(page, "Controls and limits")
    assert not page.error
    assert "Over 2 seeds" in [header.value for header in page.header]
    expected = wide(means(comparable(siblings(Run(swept / "anbn-s3")), name)[0]))
    assert any(
        shown.value.shape == expected.shape and (shown.value == expected.to_numpy()).all(axis=None)
        for shown in page.dataframe
    )
    told = compared(comparable([Run(swept / "anbn-s3"), Run(swept / "anbn-s4")], name)[0])
    subheaders = [header.value for header in page.subheader]
    assert ("Tested" in subheaders) == bool(question(name).planned)
    if len(told):
        rows = shown_of(told)[0].to_numpy()
        assert any(
            shown.value.shape == rows.shape and (shown.value.to_numpy() == rows).all()
            for shown in page.dataframe
        )
