"""Many models, every method: the means over seeds, the claims, the report."""

from __future__ import annotations

import re
from dataclasses import replace
from html.parser import HTMLParser
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from analyses.answers import load
from analyses.command_line.app import main
from analyses.options.studies import Leaderboard
from analyses.studies import leaderboard as module
from analyses.studies.claims import PLANNED, evidence, verdict
from analyses.studies.leaderboard import NAME, over_seeds, shortcut_found, wide
from analyses.studies.report import report
from interp.comparisons import corrected, paired, pairs_needed
from interp.statistics import t_interval
from models.errors import UserError
from models.runs.run import find_runs

SMALL = ("--seeds", "2", "--words", "2", "--steps", "3", "--workers", "1")


@pytest.fixture(scope="module")
def out(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A leaderboard of untrained seeds, made by its own command."""
    folder = tmp_path_factory.mktemp("leaderboard") / "runs"
    assert main(["leaderboard", "dieren", "dieren_muis", *SMALL, "--out", str(folder)]) == 0
    return folder


def test_one_command_leaves_runs_table_figure_and_report(out: Path) -> None:
    assert [path.name for path in find_runs(out)] == [
        *("dieren-s0", "dieren-s1", "dieren_muis-s0", "dieren_muis-s1")
    ]
    for name in ("results/leaderboard-1/leaderboard.svg", "leaderboard.html"):
        assert (out / name).stat().st_size > 1000
    result = load(out, NAME)
    assert result is not None
    assert result.arguments["words"] == 2
    assert len(result.findings["right"]["dieren"]) == 2
    assert {row["pairs"] for row in result.findings["pairs"]} == {2}
    assert "Fewer than 9 runs cannot show anything." in result.findings["claims"][-1]


def test_a_number_is_the_mean_over_seeds_of_means_over_words(out: Path) -> None:
    result = load(out, NAME)
    assert result is not None
    keys = ["language", "replacement", "method", "measure"]
    row = result.table.set_index(keys).loc["dieren", "data", "LIME", "error"]
    means = []
    for seed in range(2):
        answer = load(out / f"dieren-s{seed}", "leaderboard")
        assert answer is not None
        table = answer.table[answer.table["replacement"] == "data"]
        means.append(table[table["method"] == "LIME"]["error"].mean())
    expected = t_interval(np.array(means))
    assert (row["mean"], row["low"], row["high"]) == pytest.approx(expected)
    assert row["seeds"] == 2


def test_words_differ_between_seeds(out: Path) -> None:
    texts = []
    for seed in range(2):
        answer = load(out / f"dieren-s{seed}", "leaderboard")
        assert answer is not None
        texts.append(set(answer.table["text"]))
    assert texts[0] != texts[1]


@pytest.mark.slow
def test_what_is_finished_is_not_done_again(
    out: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(module.of_run, "analyse", None)  # asking anew would fail
    assert main(["leaderboard", "dieren", "dieren_muis", *SMALL, "--out", str(out)]) == 0
    said = capsys.readouterr().out
    assert "dieren_muis, hidden symbols" in said
    assert "planted shortcut" in said


def test_other_runs_are_not_overwritten(out: Path, capsys: pytest.CaptureFixture[str]) -> None:
    asked = ["leaderboard", "dieren", *SMALL, "--steps", "4", "--out", str(out)]
    assert main(asked) == 2
    assert (
        "holds a run of other settings or lines: choose another folder" in capsys.readouterr().err
    )


class Links(HTMLParser):
    """What a page would fetch."""

    def __init__(self) -> None:
        super().__init__()
        self.found: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.found += [f"{tag} {key}" for key, value in attrs if key in ("src", "href") and value]
        if tag in ("script", "link", "iframe"):
            self.found.append(tag)


def test_the_report_is_one_file_and_asks_for_nothing(out: Path) -> None:
    page = (out / "leaderboard.html").read_text()
    links = Links()
    links.feed(page)
    assert links.found == []
    assert not re.search(r"url\((?!#)|@import", page)  # one in the page itself is no request
    assert page.count("<svg") == 3  # at a glance, and a word per language
    assert page.count("<table") == 2 * 3
    for text in ("integrated gradients", "Means over seeds", "dieren_muis", "shortcut found"):
        assert text in page


def test_the_report_escapes_what_it_is_told(out: Path) -> None:
    result = load(out, NAME)
    told = replace(result, findings={**result.findings, "claims": ["a < b & <i>c</i>"]})
    page = report(told, {})
    assert "<p>a &lt; b &amp; &lt;i&gt;c&lt;/i&gt;</p>" in page
    assert page.count("<svg") == 1


def planted(seed: int, have: list[float], lack: list[float]) -> dict[tuple[str, int], pd.DataFrame]:
    columns = {"replacement": "data", "method": "LIME", "family": "LIME and SHAP"}
    return {
        (name, seed): pd.DataFrame({"shortcut": values}).assign(**columns)
        for name, values in (("dieren_muis", have), ("dieren", lack))
    }


def test_the_shortcut_is_found_if_planted_models_give_it_more() -> None:
    nan = float("nan")
    table = shortcut_found(
        planted(0, [0.9, 0.8, nan], [0.1, 0.2, nan])
        | planted(1, [0.5, 0.1], [0.5, 0.3])
        | {("anbn", 0): pd.DataFrame()}
    )
    assert table.set_index("seed")["value"].to_dict() == {0: 1.0, 1: (0.5 + 1) / 4}
    assert set(table["language"]) == {"dieren_muis"}
    assert shortcut_found({("dieren", 0): pd.DataFrame()}).empty


SEEDS = 12


def made_up(seeds: int = 1, **values: float | list[float]) -> pd.DataFrame:
    """One language; a keyword is METHOD__MEASURE, of all seeds or of each."""
    family = {"random": "control"}
    rows = []
    for key, value in values.items():
        method, measure = (part.replace("_", " ") for part in key.split("__"))
        for seed, each in enumerate(np.broadcast_to(value, seeds).tolist()):
            rows.append(("anbn", "data", method, family.get(method, "any"), measure, each, seed))
    columns = ["language", "replacement", "method", "family", "measure", "value", "seed"]
    return pd.DataFrame(rows, columns=columns)


def test_the_replacement_that_decides_most_is_named() -> None:
    rows = [
        (name, kind, "SHAP kernel", "any", "AUROC", value + 0.01 * seed * (kind == "data"), seed)
        for name, kind, value in (
            *(("anbn", "data", 0.9), ("anbn", "fixed", 0.8)),
            *(("dieren", "data", 0.6), ("dieren", "fixed", 0.95)),
        )
        for seed in range(3)
    ]
    columns = ["language", "replacement", "method", "family", "measure", "value", "seed"]
    table = pd.DataFrame(rows, columns=columns)
    said = " ".join(verdict(table))
    assert "on dieren the AUROC of SHAP's kernel goes from 0.61 (data) to 0.95 (fixed)" in said
    _, low, high = t_interval(0.35 - np.array([0, 0.01, 0.02]))
    assert f"; over 3 seeds the difference is {low:.2f} to {high:.2f} (95%)" in said
    alone = " ".join(verdict(table[table["seed"] == 0]))
    assert "to 0.95 (fixed)." in alone  # one seed has no interval


def base(seeds: int = SEEDS, **changes: float | list[float]) -> pd.DataFrame:
    """All methods as good as each other, but for random values."""
    values: dict[str, float | list[float]] = {}
    for method in ("LIME", "SHAP kernel", "random", "substitution", "Shapley exact"):
        key = method.replace(" ", "_")
        values |= {f"{key}__AUROC": 0.9, f"{key}__cosine_to_the_language": 0.9}
        values |= {f"{key}__cosine_to_the_model": 0.9, f"{key}__error": 0.1}
        values |= {f"{key}__stability": 0.9, f"{key}__seconds": 0.1, f"{key}__calls": 10}
    values |= {"random__AUROC": 0.5, "random__cosine_to_the_language": 0.0}
    return made_up(seeds, **(values | changes))


def claims(seeds: int = SEEDS, **changes: float | list[float]) -> list[str]:
    return verdict(base(seeds, **changes))


@pytest.mark.slow
def test_the_claims_follow_the_numbers() -> None:
    useful, *_ = claims(substitution__AUROC=0.1, substitution__cosine_to_the_language=0.1)
    assert "this does not hold for these models, which follow the rule" in useful
    assert "substitution" not in useful
    useless, *_ = claims(LIME__AUROC=0.6, SHAP_kernel__AUROC=0.6)
    assert "this holds here" in useless
    assert "substitution per symbol does better by AUROC" in useless
    assert "substitution per symbol does worse by cosine to the language" in useless
    _, fast, *_ = claims(LIME__seconds=0.01, LIME__cosine_to_the_model=0.5)
    assert fast.endswith("It is faster than SHAP. It is less exact than SHAP.")
    _, slow, *_ = claims(LIME__seconds=1.0, SHAP_kernel__cosine_to_the_model=0.5)
    assert slow.endswith("It is slower than SHAP. It is more exact than SHAP.")
    _, _, dear, *_ = claims(SHAP_kernel__seconds=1.0, SHAP_kernel__stability=0.99)
    assert dear.endswith("is more consistent than LIME. It is more expensive.")
    _, _, cheap, *_ = claims(SHAP_kernel__seconds=0.01, SHAP_kernel__stability=0.5)
    assert cheap.endswith("is less consistent than LIME. On words this short it is cheaper.")


def test_what_hangs_on_the_seed_is_not_claimed() -> None:
    """Better on average, but as often worse: no claim is made of it."""
    mixed = ([0.99, 0.85] * SEEDS)[:SEEDS]
    assert np.mean(mixed) > 0.9
    changes: dict[str, float | list[float]] = {
        "SHAP_kernel__cosine_to_the_model": mixed,
        "SHAP_kernel__stability": mixed,
        "SHAP_kernel__seconds": mixed,
        "LIME__seconds": 0.9,
    }
    _, fast, grounded, *_ = claims(**changes)
    assert "These runs do not show that it is faster than SHAP." in fast
    assert "These runs do not show that it is less exact than SHAP." in fast
    assert "do not show that SHAP's kernel is more consistent than LIME." in grounded
    assert grounded.endswith("do not show that it is more expensive on words this short.")


def test_too_few_runs_claim_nothing() -> None:
    needed = pairs_needed(len(PLANNED))
    changes = {"LIME__seconds": 0.01, "SHAP_kernel__stability": 0.99}
    for seeds in (needed - 1, needed):
        useful, fast, grounded, *_, tested = claims(seeds, **changes)
        enough = seeds == needed
        assert ("this does not hold for these models" in useful) == enough
        assert ("but these runs do not tell the methods from chance" in useful) != enough
        assert ("It is faster than SHAP." in fast) == enough
        assert ("times. SHAP's kernel is more consistent" in grounded) == enough
        assert f"paired over {seeds} runs" in tested
        assert (f"Fewer than {needed} runs cannot show anything." in tested) != enough


def test_the_best_is_told_from_those_it_beats() -> None:
    mixed = ([0.84, 0.94] * SEEDS)[:SEEDS]
    useful, *_ = claims(LIME__AUROC=0.8, substitution__AUROC=mixed)
    assert (
        "AUROC: LIME 0.80, SHAP kernel 0.90, best SHAP kernel (0.90, significantly above 1 of 2 "
        "others)" in useful
    )


def test_the_planned_comparisons_are_paired_by_run_and_corrected_together() -> None:
    rng = np.random.default_rng(0)
    values = {
        f"{method}__{measure}": rng.random(SEEDS).tolist()
        for method in ("LIME", "SHAP_kernel")
        for measure in ("seconds", "stability", "cosine_to_the_model")
    }
    table = base(**values)
    halves = [table.assign(replacement="fixed", value=table["value"] + 1), table]
    planted = table.assign(language="dieren_muis", value=0.0)  # the claims are about other models
    pairs = evidence(pd.concat([*halves, planted], ignore_index=True)).pairs
    assert list(pairs[["measure", "first", "second"]].itertuples(index=False, name=None)) == [
        *PLANNED
    ]
    row = pairs.set_index("measure").loc["stability"]
    expected = paired(
        np.array(values["SHAP_kernel__stability"]), np.array(values["LIME__stability"])
    )
    assert (row["difference"], row["p"], row["pairs"]) == pytest.approx(
        (expected.difference, expected.p, SEEDS)
    )
    assert pairs["corrected"].tolist() == pytest.approx(corrected(pairs["p"].to_numpy()).tolist())


def test_the_planted_shortcut_comes_with_its_spread() -> None:
    found = made_up(
        seeds=3,
        LIME__shortcut_found=[0.8, 0.9, 1.0],
        flow__shortcut_found=0.6,
        random__shortcut_found=0.5,
    ).assign(language="dieren_muis")
    said = " ".join(verdict(found))
    _, low, _ = t_interval(np.array([0.8, 0.9, 1.0]))
    assert f"are LIME 0.90 [{low:.2f}, 1.00], flow 0.60 [0.60, 0.60]; the worst is flow" in said
    assert "random values reach 0.50." in said


def test_people_read_a_row_per_method() -> None:
    table = over_seeds(made_up(LIME__AUROC=0.875, LIME__calls=1024, random__AUROC=0.5))
    rows = wide(table, "anbn", "data", ("AUROC", "calls", "mass"))
    assert rows.to_dict("records") == [
        {"method": "LIME", "AUROC": "0.88", "calls": "1024"},
        {"method": "random", "AUROC": "0.50", "calls": ""},
    ]


@pytest.mark.parametrize("name", ["seeds", "words", "workers"])
def test_bad_options(name: str) -> None:
    with pytest.raises(UserError, match=f"--{name} is 0: it must be at least 1"):
        replace(Leaderboard(), **{name: 0})


def test_an_unknown_language() -> None:
    with pytest.raises(UserError, match="nonsense"):
        Leaderboard(("nonsense",))
