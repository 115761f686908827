"""Many models, every method: the means over seeds, the claims, the report."""

from __future__ import annotations

import re
import shutil
from collections.abc import Iterator
from dataclasses import replace
from functools import partial
from html.parser import HTMLParser
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from conftest import made_once, without_pictures

from analyses.answers import Answer, Answers, answer
from analyses.command_line.app import main
from analyses.options.studies import Leaderboard
from analyses.options.words import Explanations
from analyses.questions.words import leaderboard as of_run
from analyses.questions.words.leaderboard import MEMBERSHIPS
from analyses.studies import leaderboard as study
from analyses.studies.claims import PLANNED, evidence, verdict
from analyses.studies.leaderboard import NAME, _over_seeds, _shortcut_found, wide
from analyses.studies.reliance import credit, credited
from analyses.studies.report import report
from interp.comparisons import corrected, paired, pairs_needed
from interp.statistics import seeds_interval, t_interval
from models.errors import UserError
from models.runs.folders import find_runs
from models.runs.run import Run

SMALL = ("--seeds", "2", "--words", "2", "--steps", "3", "--workers", "1")
NONE = credit({}, {})
ALONE = ("--architectures", "transformer")


@pytest.fixture(scope="module", autouse=True)
def _short_words() -> Iterator[None]:
    """And no pictures of single runs, which nobody looks at here."""

    def unseen(run: Run, name: str, options: object = None) -> tuple[Answer, bool]:
        with without_pictures():
            return answer(run, name, options or Explanations(samples=16, draws=2, steps=16))

    with pytest.MonkeyPatch.context() as patch:
        few = partial(study.OfRun, longest=6, samples=16, draws=2)
        patch.setattr(study, "OfRun", few)
        patch.setattr(study, "answer", unseen)
        yield


@pytest.fixture(scope="module")
def out(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A leaderboard of untrained seeds, made by its own command."""
    asked = ["sweep", "leaderboard", "dieren-gaps", "dieren_muis", *SMALL, *ALONE]

    def make(folder: Path) -> None:
        assert main([*asked, "--out", str(folder)]) == 0

    return made_once(tmp_path_factory, "leaderboard", make, copy=True)


def test_a_page_of_another_is_told_before_anything_is_trained(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "leaderboard.html").write_text("<h1>mine</h1>")
    assert (
        main(["sweep", "leaderboard", "dieren-gaps", *SMALL, *ALONE, "--out", str(tmp_path)]) == 2
    )
    assert "leaderboard.html is not of the lab" in capsys.readouterr().err
    assert [path.name for path in tmp_path.iterdir()] == ["leaderboard.html"]


def test_one_command_leaves_runs_table_figure_and_report(out: Path) -> None:
    assert [path.name for path in find_runs(out)] == [
        *("dieren-gaps-s0", "dieren-gaps-s1", "dieren_muis-s0", "dieren_muis-s1")
    ]
    for name in ("results/leaderboard-1/leaderboard.svg", "leaderboard.html"):
        assert (out / name).stat().st_size > 1000
    result = Answers(out, NAME).latest()
    assert result is not None
    assert result.arguments["words"] == 2
    assert len(result.findings["right"]["dieren-gaps"]["transformer"]) == 2
    assert {row["pairs"] for row in result.findings["pairs"]} <= {0, 1, 2}
    assert "Fewer than 10 runs cannot show anything." in result.findings["claims"][-1]


def test_a_number_is_the_mean_over_seeds_of_means_over_words(out: Path) -> None:
    result = Answers(out, NAME).latest()
    assert result is not None
    keys = ["language", "architecture", "replacement", "method", "scale", "measure", "membership"]
    where = ("dieren-gaps", "transformer", "data", "LIME", "log odds", "error")
    for kind, row in result.table.set_index(keys).sort_index().loc[where].iterrows():
        means, words = [], 0
        for seed in range(2):
            answer = Answers(out / f"dieren-gaps-s{seed}", "leaderboard").latest()
            assert answer is not None
            table = answer.table[answer.table["replacement"] == "data"]
            table = table[(table["method"] == "LIME") & (table["scale"] == "log odds")]
            values = table[table["membership"] == kind]["error"].dropna()
            words += len(values)
            means += [values.mean()] if len(values) else []
        expected = seeds_interval(np.array(means))
        found = (row["mean"], row["low"], row["high"])
        assert found == pytest.approx(expected, nan_ok=True)
        assert (row["seeds"], row["words"]) == (len(means), words)


def test_words_differ_between_seeds(out: Path) -> None:
    texts = []
    for seed in range(2):
        answer = Answers(out / f"dieren-gaps-s{seed}", "leaderboard").latest()
        assert answer is not None
        texts.append(set(answer.table["text"]))
    assert texts[0] != texts[1]


@pytest.mark.slow
def test_what_is_finished_is_not_done_again(
    out: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """In a copy: the report is written anew, here without pictures."""
    own = shutil.copytree(out, tmp_path / "own")
    monkeypatch.setattr(of_run, "analyse", None)  # asking anew would fail
    monkeypatch.setattr("analyses.studies.report.render", lambda figure, suffix: b"")
    asked = [
        "sweep",
        "leaderboard",
        "dieren-gaps",
        "dieren_muis",
        *SMALL,
        *ALONE,
        "--out",
        str(own),
    ]
    with without_pictures():
        assert main(asked) == 0
    said = capsys.readouterr().out
    assert "members, hidden symbols" in said
    assert "Unless others are named, a claim is about the Transformers." in said


@pytest.mark.torture
@pytest.mark.slow
def test_other_architectures_stand_beside_and_heads_that_are_fixed_are_named(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """An LSTM has no attention to read; the counting recipe fixes two heads of four."""
    kinds = ["--architectures", "transformer", "lstm", "--recipe", "counting"]
    few = ["--seeds", "1", "--words", "3", "--steps", "3", "--workers", "1"]
    assert main(["sweep", "leaderboard", "anbn", *kinds, *few, "--out", str(tmp_path)]) == 0
    result = Answers(tmp_path, NAME).latest()
    assert result is not None
    fixed = "transformer, 2 of 4 heads fixed"
    assert (
        set(result.table["architecture"])
        == {fixed, "lstm"}
        == set(result.findings["right"]["anbn"])
    )
    methods = result.table.groupby("architecture")["method"].agg(set)
    assert methods[fixed] - methods["lstm"] == {
        *("direct logit attribution", "attention", "rollout", "flow")
    }
    kind = result.table["membership"].iloc[0]
    rows = wide(result.table, "anbn", kind, "data", ("deletion", "cosine to the model"))
    shown = rows.set_index("method")
    assert shown.loc["attention", "deletion, lstm"] == "not offered"
    assert shown.loc["attention", f"deletion, {fixed}"] not in ("", "not offered")
    assert f"{fixed} on anbn; lstm on anbn" in capsys.readouterr().out.replace("\n", " ")


@pytest.mark.parametrize(
    ("names", "message"),
    [(("mamba",), "unknown architecture 'mamba'"), (("cnn", "cnn"), "cnn is named twice")],
)
def test_bad_architectures(names: tuple[str, ...], message: str) -> None:
    with pytest.raises(UserError, match=message):
        Leaderboard(architectures=names)


def test_other_runs_are_not_overwritten(out: Path, capsys: pytest.CaptureFixture[str]) -> None:
    asked = [
        "sweep",
        "leaderboard",
        "dieren-gaps",
        *SMALL,
        *ALONE,
        "--steps",
        "4",
        "--out",
        str(out),
    ]
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
    assert page.count("<svg") == 4  # at a glance, credit by reliance, and a word per language
    assert page.count("<table") == 2 * 2 * 3  # languages, kinds of words, replacements
    for text in ("integrated gradients", "Means over seeds", "dieren_muis", "shortcut found"):
        assert text in page


def test_the_report_escapes_what_it_is_told(out: Path) -> None:
    result = Answers(out, NAME).latest()
    told = replace(result, findings={**result.findings, "claims": ["a < b & <i>c</i>"]})
    page = report(told, {})
    assert "<p>a &lt; b &amp; &lt;i&gt;c&lt;/i&gt;</p>" in page
    assert page.count("<svg") == 2


def test_the_reliance_of_every_network_is_kept_beside_the_credit_of_every_method(out: Path) -> None:
    result = Answers(out, NAME).latest()
    assert result is not None
    rows = credited(result)
    assert rows.groupby(["language", "seed"]).ngroups == 4
    answer = Answers(out / "dieren_muis-s1", "leaderboard").latest()
    assert answer is not None
    lean = answer.findings["reliance"]
    assert (lean["symbol"], lean["model"]) == ("muis", "trained")
    own = rows[(rows["language"] == "dieren_muis") & (rows["seed"] == 1)]
    assert own["reliance"].unique().tolist() == [pytest.approx(abs(lean["effect"]))]
    row = own.set_index(["method", "scale"]).loc["LIME", "log odds"]
    table = answer.table[(answer.table["method"] == "LIME")]
    table = table[table["scale"] == "log odds"]
    even = table["text"].map(lambda text: text.split().count("muis") / len(text.split()))
    assert row["credit"] == pytest.approx((table["shortcut"] - even).mean())


def planted(
    seed: int, have: list[float], lack: list[float]
) -> dict[tuple[str, str, int], pd.DataFrame]:
    columns = {"replacement": "data", "method": "LIME", "family": "LIME and SHAP"}
    columns |= {"membership": "members", "scale": "probability"}
    return {
        (name, "transformer", seed): pd.DataFrame({"shortcut": values}).assign(**columns)
        for name, values in (("dieren_muis", have), ("dieren-gaps", lack))
    }


def test_the_shortcut_is_found_if_planted_models_give_it_more() -> None:
    nan = float("nan")
    table = _shortcut_found(
        planted(0, [0.9, 0.8, nan], [0.1, 0.2, nan])
        | planted(1, [0.5, 0.1], [0.5, 0.3])
        | {("anbn", "transformer", 0): pd.DataFrame()}
    )
    assert table.set_index("seed")["value"].to_dict() == {0: 1.0, 1: (0.5 + 1) / 4}
    assert set(table["language"]) == {"dieren_muis"}
    assert _shortcut_found({("dieren-gaps", "transformer", 0): pd.DataFrame()}).empty


SEEDS = 12
COLUMNS = ["language", "architecture", "membership", "replacement", "method", "scale"]
COLUMNS += ["family", "measure", "value", "words", "seed"]


def row(
    measure: str,
    value: float,
    seed: int,
    method: str = "SHAP kernel",
    kind: str = "non-members",
    **changes: str,
) -> tuple[object, ...]:
    """One number of one run."""
    scale = "none" if method in ("random", "chance") else "probability"
    family = "control" if method in ("random", "chance") else "any"
    values = dict(
        zip(COLUMNS, ("anbn", "transformer", kind, "data", method, scale, family), strict=False)
    )
    return tuple(
        (values | changes | {"measure": measure, "value": value, "words": 3, "seed": seed}).values()
    )


def made_up(seeds: int = 1, **values: float | list[float]) -> pd.DataFrame:
    """One language, members and non-members alike; a keyword is METHOD__MEASURE."""
    rows = []
    for key, value in values.items():
        method, measure = (part.replace("_", " ") for part in key.split("__"))
        for seed, each in enumerate(np.broadcast_to(value, seeds).tolist()):
            rows += [row(measure, each, seed, method, kind) for kind in MEMBERSHIPS]
    return pd.DataFrame(rows, columns=COLUMNS)


def test_the_replacement_that_decides_most_is_named() -> None:
    """Of Transformers and of words outside the language; others do not count."""
    rows = [
        row("AUROC", value + 0.01 * seed * (kind == "data"), seed, language=name, replacement=kind)
        for name, kind, value in (
            *(("anbn", "data", 0.9), ("anbn", "fixed", 0.8)),
            *(("dieren-gaps", "data", 0.6), ("dieren-gaps", "fixed", 0.95)),
        )
        for seed in range(3)
    ]
    rows += [row("AUROC", 0.0, 0, kind="members"), row("AUROC", 0.0, 0, architecture="lstm")]
    table = pd.DataFrame(rows, columns=COLUMNS)
    said = " ".join(verdict(table, NONE))
    assert (
        "on non-members of dieren-gaps the AUROC of SHAP kernel (probability) goes from 0.61 "
        "(data) to 0.95 (fixed)" in said
    )
    _, low, high = t_interval(0.35 - np.array([0, 0.01, 0.02]))
    assert f"; over 3 seeds the difference is {low:.2f} to {high:.2f} (95%)" in said
    alone = " ".join(verdict(table[table["seed"] == 0], NONE))
    assert "to 0.95 (fixed)." in alone  # one seed has no interval


def base(seeds: int = SEEDS, **changes: float | list[float]) -> pd.DataFrame:
    """All methods as good as each other, but for chance."""
    values: dict[str, float | list[float]] = {}
    for method in ("LIME", "SHAP kernel", "substitution", "Shapley exact"):
        key = method.replace(" ", "_")
        values |= {f"{key}__AUROC": 0.9, f"{key}__cosine_to_the_language": 0.9}
        values |= {f"{key}__cosine_to_the_model": 0.9, f"{key}__error": 0.1}
        values |= {f"{key}__stability": 0.9, f"{key}__seconds": 0.1, f"{key}__calls": 10}
        values |= {f"{key}__consistency": 0.9}
    values |= {"chance__AUROC": 0.5, "chance__cosine_to_the_language": 0.0}
    return made_up(seeds, **(values | changes))


def claims(seeds: int = SEEDS, **changes: float | list[float]) -> dict[str, str]:
    """The claims by how they begin."""
    starts = {
        "useful": '"Often',
        "fast": 'LIME is "fast',
        "grounded": 'SHAP is "g',
        "tested": "Each",
    }
    said = verdict(base(seeds, **changes), NONE)
    return {name: next(s for s in said if s.startswith(start)) for name, start in starts.items()}


@pytest.mark.slow
def test_the_claims_follow_the_numbers() -> None:
    useful = claims(substitution__AUROC=0.1)["useful"]
    for kind in MEMBERSHIPS:
        told = "LIME and SHAP rank the positions that decide above chance, on both scales"
        assert f"{kind} ({SEEDS} runs: anbn): {told}" in useful
    assert "substitution (probability) does worse than SHAP kernel (probability) (0.10)" in useful
    useless = claims(LIME__AUROC=0.5, SHAP_kernel__AUROC=0.4)["useful"]
    assert "none of LIME and SHAP is told from chance" in useless
    assert "SHAP kernel (probability) below chance" in useless
    assert "substitution (probability) does better than SHAP kernel (probability)" in useless
    fast = claims(LIME__seconds=0.01, LIME__cosine_to_the_model=0.5)["fast"]
    assert fast.endswith("It is faster than SHAP. It is less exact than SHAP.")
    slow = claims(LIME__seconds=1.0, SHAP_kernel__cosine_to_the_model=0.5)["fast"]
    assert slow.endswith("It is slower than SHAP. It is more exact than SHAP.")
    dear = claims(SHAP_kernel__seconds=1.0, SHAP_kernel__stability=0.99)["grounded"]
    assert dear.endswith("is more consistent than LIME. It is more expensive.")
    cheap = claims(SHAP_kernel__seconds=0.01, SHAP_kernel__stability=0.5)["grounded"]
    assert cheap.endswith("is less consistent than LIME. On words this short it is cheaper.")
    axiom = claims(LIME__consistency=0.75)["grounded"]
    assert "rose or stayed in 90.0% of trials, LIME's in 75.0%" in axiom


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
    said = claims(**changes)
    assert "These runs do not show that it is faster than SHAP." in said["fast"]
    assert "These runs do not show that it is less exact than SHAP." in said["fast"]
    grounded = said["grounded"]
    assert "do not show that SHAP's kernel is more consistent than LIME." in grounded
    assert grounded.endswith("do not show that it is more expensive on words this short.")


def test_too_few_runs_claim_nothing() -> None:
    tests = len(evidence(base()).pairs)
    needed = pairs_needed(tests)
    changes = {"LIME__seconds": 0.01, "SHAP_kernel__stability": 0.99}
    for seeds in (needed - 1, needed):
        said = claims(seeds, **changes)
        enough = seeds == needed
        assert ("LIME and SHAP rank the positions" in said["useful"]) == enough
        assert ("none of LIME and SHAP is told from chance" in said["useful"]) != enough
        assert ("It is faster than SHAP." in said["fast"]) == enough
        assert ("times. SHAP's kernel is more consistent" in said["grounded"]) == enough
        assert f"paired over up to {seeds} runs" in said["tested"]
        assert (f"Fewer than {needed} runs cannot show anything." in said["tested"]) != enough


def test_the_best_is_told_from_those_it_beats() -> None:
    mixed = ([0.84, 0.94] * SEEDS)[:SEEDS]
    useful = claims(LIME__AUROC=0.8, substitution__AUROC=mixed)["useful"]
    assert "best SHAP kernel (probability) (0.90, significantly above 1 of 2 others)" in useful


def test_few_runs_cannot_tell_many_methods_apart() -> None:
    seeds = pairs_needed(3) - 1
    useful = claims(seeds, LIME__AUROC=0.8, substitution__AUROC=0.7)["useful"]
    said = f"{seeds} runs cannot tell 3 methods apart: it takes {seeds + 1}"
    assert f"best SHAP kernel (probability) (0.90, {said})" in useful


def test_transformers_are_compared_with_other_networks_on_the_same_words() -> None:
    """And the claims about Transformers do not count the others."""
    other = base(LIME__AUROC=0.6).assign(architecture="lstm")
    table = pd.concat([base(), other], ignore_index=True)
    said = verdict(table, NONE)
    assert evidence(table).by_run.index.get_level_values("architecture").unique().tolist() == [
        "transformer"
    ]
    (text,) = (claim for claim in said if claim.startswith("Because"))
    assert f"LIME (probability) on members: +0.30 against the lstm ({SEEDS} pairs of runs" in text
    assert "SHAP kernel (probability) on members: +0.00 against the lstm" in text
    assert not [claim for claim in verdict(base(), NONE) if claim.startswith("Because")]


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
    asked = ["words", "measure", "first", "second"]
    assert set(pairs[asked].itertuples(index=False, name=None)) < set(PLANNED)
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
    said = " ".join(verdict(found, NONE))
    _, low, high = seeds_interval(np.array([0.8, 0.9, 1.0]))
    assert f"are LIME (probability) 0.90 [{low:.2f}, {high:.2f}], flow (probability) 0.60" in said
    assert "; the worst is flow" in said
    assert "random values reach 0.50." in said


def test_people_read_a_row_per_method() -> None:
    table = _over_seeds(made_up(LIME__AUROC=0.875, LIME__calls=1024, random__AUROC=0.5))
    rows = wide(table, "anbn", "members", "data", ("AUROC", "calls", "mass"))
    assert rows.to_dict("records") == [
        {"method": "LIME (probability)", "AUROC": "0.88", "calls": "1024"},
        {"method": "random", "AUROC": "0.50", "calls": ""},
    ]


@pytest.mark.parametrize("name", ["seeds", "words", "workers"])
def test_bad_options(name: str) -> None:
    with pytest.raises(UserError, match=f"--{name} is 0: it must be at least 1"):
        replace(Leaderboard(), **{name: 0})


def test_an_unknown_language() -> None:
    with pytest.raises(UserError, match="nonsense"):
        Leaderboard(("nonsense",))
