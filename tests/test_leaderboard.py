"""Many models, every method: the means over seeds, the claims, the report."""

from __future__ import annotations

import re
from dataclasses import replace
from html.parser import HTMLParser
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from analyses import leaderboard as module
from analyses.cli import main
from analyses.leaderboard import Leaderboard, load, over_seeds, shortcut_found, verdict, wide
from analyses.results import load as load_answer
from interp.statistics import t_interval
from models.errors import UserError
from models.runs import Run, find_runs

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
    for name in ("results/leaderboard.json", "figures/leaderboard.svg", "leaderboard.html"):
        assert (out / name).stat().st_size > 1000
    result = load(out)
    assert result is not None
    assert result.arguments["words"] == 2
    assert len(result.findings["right"]["dieren"]) == 2


def test_a_number_is_the_mean_over_seeds_of_means_over_words(out: Path) -> None:
    result = load(out)
    assert result is not None
    keys = ["language", "replacement", "method", "measure"]
    row = result.table.set_index(keys).loc["dieren", "data", "LIME", "error"]
    means = []
    for seed in range(2):
        answer = load_answer(Run(out / f"dieren-s{seed}"), "explainers")
        assert answer is not None
        table = answer.table[answer.table["replacement"] == "data"]
        means.append(table[table["method"] == "LIME"]["error"].mean())
    expected = t_interval(np.array(means))
    assert (row["mean"], row["low"], row["high"]) == pytest.approx(expected)
    assert row["seeds"] == 2


def test_words_differ_between_seeds(out: Path) -> None:
    texts = []
    for seed in range(2):
        answer = load_answer(Run(out / f"dieren-s{seed}"), "explainers")
        assert answer is not None
        texts.append(set(answer.table["text"]))
    assert texts[0] != texts[1]


def test_what_is_finished_is_not_done_again(
    out: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(module.explainers, "analyse", None)  # asking anew would fail
    assert main(["leaderboard", "dieren", "dieren_muis", *SMALL, "--out", str(out)]) == 0
    said = capsys.readouterr().out
    assert "dieren_muis, hidden symbols" in said
    assert "planted shortcut" in said


def test_other_runs_are_not_overwritten(out: Path, capsys: pytest.CaptureFixture[str]) -> None:
    asked = ["leaderboard", "dieren", *SMALL, "--steps", "4", "--out", str(out)]
    assert main(asked) == 2
    assert "was trained otherwise: choose another folder" in capsys.readouterr().err


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


def made_up(**values: float) -> pd.DataFrame:
    """One language; a keyword is METHOD__MEASURE."""
    family = {"random": "control"}
    rows = []
    for key, value in values.items():
        method, measure = (part.replace("_", " ") for part in key.split("__"))
        rows.append(("anbn", "data", method, family.get(method, "any"), measure, value, 0))
    columns = ["language", "replacement", "method", "family", "measure", "value", "seed"]
    return over_seeds(pd.DataFrame(rows, columns=columns))


def test_the_replacement_that_decides_most_is_named() -> None:
    rows = [
        (name, kind, "SHAP kernel", "any", "AUROC", value, 0)
        for name, kind, value in (
            *(("anbn", "data", 0.9), ("anbn", "fixed", 0.8)),
            *(("dieren", "data", 0.6), ("dieren", "fixed", 0.95)),
        )
    ]
    columns = ["language", "replacement", "method", "family", "measure", "value", "seed"]
    said = " ".join(verdict(over_seeds(pd.DataFrame(rows, columns=columns))))
    assert "on dieren the AUROC of SHAP's kernel goes from 0.60 (data) to 0.95 (fixed)" in said


def claims(**changes: float) -> list[str]:
    base: dict[str, float] = {}
    for method in ("LIME", "SHAP kernel", "random", "substitution", "Shapley exact"):
        key = method.replace(" ", "_")
        base |= {f"{key}__AUROC": 0.9, f"{key}__cosine_to_the_language": 0.9}
        base |= {f"{key}__cosine_to_the_model": 0.9, f"{key}__error": 0.1}
        base |= {f"{key}__stability": 0.9, f"{key}__seconds": 0.1, f"{key}__calls": 10}
    base |= {"random__AUROC": 0.5, "random__cosine_to_the_language": 0.0}
    return verdict(made_up(**(base | changes)))


def test_the_claims_follow_the_numbers() -> None:
    useful, *_ = claims(substitution__AUROC=0.1, substitution__cosine_to_the_language=0.1)
    assert "not so on these models" in useful
    assert "substitution" not in useful.split("best")[0]
    useless, *_ = claims(LIME__AUROC=0.6, SHAP_kernel__AUROC=0.6)
    assert "so it is here" in useless
    assert "substitution per symbol does as well or better" in useless
    _, fast, *_ = claims(LIME__seconds=0.01, LIME__cosine_to_the_model=0.5)
    assert "Fast it is." in fast
    assert "Approximate it is." in fast
    _, slow, *_ = claims(LIME__seconds=1.0)
    assert "Fast it is not" in slow
    assert "No less exact" in slow
    _, _, dear, _ = claims(SHAP_kernel__seconds=1.0, SHAP_kernel__stability=0.99)
    assert dear.endswith("Consistent it is, and dearer.")
    _, _, cheap, _ = claims(SHAP_kernel__stability=0.5)
    assert cheap.endswith("More consistent it is not, and on words this short not dearer.")


def test_people_read_a_row_per_method() -> None:
    table = made_up(LIME__AUROC=0.875, LIME__calls=1024, random__AUROC=0.5)
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
