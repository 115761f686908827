"""Pages of findings: every figure comes from a kept table, and what is stale is told."""

from __future__ import annotations

import json
import os
import shutil
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from analyses.answers import Answer, save
from analyses.command_line.app import main
from analyses.studies.findings import pages, parts
from analyses.studies.findings.claims import published
from analyses.studies.findings.tables import Table, keep, load, with_interval
from analyses.studies.sweeps.measures import Measure
from analyses.studies.sweeps.summary import findings
from interp.statistics import seeds_interval
from models.errors import UserError

BY = ["variant"]
MEASURE = Measure(measure="exact", bands=[1, 2])
TEMPLATE = """# How far?

**{{ table("far").question }}**

{{ table("far").findings.sentences | join(" ") }}

{{ picture(table("far"), "By windows.") }}

{{ along(table("far"), "By variant.", "recognition") }}

{{ settings(table("far")) }}

{{ bands(table("far")) }}

{{ reached(table("far"), 2) }}

{{ further(table("far"), "speed") }}

{{ tests(table("far")) }}

Right: {{ table("told").where(model="trained").mean("accuracy") }}, 95% interval over
{{ table("told").count("run") }} runs.

{{ grid(table("told"), "model", "examples", "accuracy", style="fine") }}

{{ origins([table("far"), table("told")]) }}
"""
TOLD = pd.DataFrame(
    [
        {"run": f"s{seed}", "model": model, "examples": n, "accuracy": share}
        for seed in range(3)
        for model, start in (("trained", 0.7), ("untrained", 0.1))
        for n, share in ((1, start), (2, start + 0.1 * seed))
    ]
)


def of_sweep() -> pd.DataFrame:
    """Two variants, two seeds, a window of three."""
    rng = np.random.default_rng(0)
    rows = []
    for variant, reach in (("plain", 4), ("counting", 6)):
        for seed in range(2):
            steps = 100.0 * (1 + seed) if variant == "plain" else None
            speed = {"speed.steps": steps, "speed.seconds": steps}
            for n in range(1, 7):
                right = float(n <= reach - seed)
                rows.append({"run": f"{variant}-s{seed}", "variant": variant, "seed": seed, "n": n})
                rows[-1] |= {"language": "anbn", "length": n, "window": 3, "exact": right}
                rows[-1] |= {"recognition": rng.uniform(0.5, 1), "members": right, "others": 1.0}
                rows[-1] |= speed
    return pd.DataFrame(rows).astype({"n": "Int64", "exact": "Float64"})


def a_sweep(folder: Path, left: int = 0) -> Path:
    """A folder with a kept sweep."""
    table = of_sweep()
    sentence, found = findings(table, BY, MEASURE, ["speed"])
    arguments = {"by": BY, "file": "", "question": "Who counts?", "compare": MEASURE.model_dump()}
    result = Answer(table, sentence, found | {"left": left}, arguments)
    save(folder, "sweep", "Who counts?", result, None)
    return folder


@pytest.fixture(scope="module")
def drawn_docs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder of pages with one template and its two tables."""
    tmp_path = tmp_path_factory.mktemp("findings")
    found = tmp_path / "docs"
    (found / pages.PAGES).mkdir(parents=True)
    (found / "findings").mkdir()
    (found / "findings" / "far.md").write_text(TEMPLATE)
    keep(a_sweep(tmp_path / "far"), "far", found)
    TOLD.to_csv(tmp_path / "told.csv", index=False)
    keep(tmp_path / "told.csv", "told", found, "lab in-context RUN --csv", "How right?")
    pages.write(found, "far")
    return found


@pytest.fixture
def docs(drawn_docs: Path, tmp_path: Path) -> Path:
    """A copy of the folder, and of what its tables were made of, which a test may damage."""
    shutil.copytree(drawn_docs.parent, tmp_path, dirs_exist_ok=True)
    return tmp_path / "docs"


def test_a_page_says_what_its_tables_hold(docs: Path) -> None:
    text = (docs / pages.PAGES / "far.md").read_text()
    assert text.startswith("<!-- Written by `lab report` from docs/findings/far.md")
    assert "**Who counts?**" in text
    trained = TOLD[TOLD["model"] == "trained"].groupby("run")["accuracy"].mean().to_numpy()
    mean, low, high = (f"{100 * value:.0f}" for value in seeds_interval(trained))
    assert f"Right: {mean}% [{low}, {high}], 95% interval over\n3 runs." in text
    assert "| model | 1 | 2 |" in text
    one = seeds_interval(np.array([0.1, 0.1, 0.1]))
    assert f"| untrained | {with_interval(*one, 'fine')} | 0.200 [" in text
    # beyond the window: plain has n = 4 of 4 to 6, then none; counting all of them, then 4 and 5
    assert "| anbn | plain | 100% [34, 100] | 17% " in text
    assert "| anbn | counting | 100% [34, 100] | 83% " in text
    assert "| 0 of 2 |" in text
    assert "| 1 of 2 |" in text
    assert "| anbn | plain | 0 of 2 [0%, 66%] |" in text
    assert "| anbn | counting | 1 of 2 [9%, 91%] |" in text
    assert "| anbn | plain | 150 (2 of 2) | 150 (2 of 2) |" in text
    assert "| anbn | counting | - (0 of 2) | - (0 of 2) |" in text
    assert "![By windows.](far.svg)" in text
    assert "![By variant.](far-recognition.svg)" in text
    assert (docs / pages.PAGES / "far-recognition.svg").read_bytes().startswith(b"<svg")
    assert (docs / pages.PAGES / "far.svg").read_bytes().startswith(b"<svg")
    origin = load(docs, "told").origin
    assert (
        f"| `findings/data/told.parquet` | `lab in-context RUN --csv` | {origin.asked_at[:10]}"
        in text
    )
    assert f"| {origin.commit} | {origin.machine} |" in text
    assert "| `findings/data/far.parquet` | `lab sweep far` |" in text


def test_a_chart_along_a_field_has_a_point_per_run(docs: Path) -> None:
    rows = [
        {"run": f"{kind}-{lines}-{seed}", "kind": kind, "lines": lines, "language": "anbn"}
        | {"share": 0.5 + 0.1 * seed + 0.05 * length}
        for kind in ("LSTM", "CNN")
        for lines in ("30 lines", "fresh words")
        for seed in range(2)
        for length in (0, 1)
    ]
    found = Table("told", load(docs, "told").origin, pd.DataFrame(rows))
    drawn = parts.along(found, "share", "lines", ["kind", "lines"]).to_dict()
    points, means = sorted(drawn["datasets"].values(), key=len, reverse=True)
    assert sorted({row["value"] for row in points}) == pytest.approx([0.525, 0.625])
    assert [(row["setting"], row["place"]) for row in means] == [
        (kind, lines) for kind in ("LSTM", "CNN") for lines in ("30 lines", "fresh words")
    ]
    mean, low, high = seeds_interval(np.array([0.525, 0.625]))
    assert [means[0][key] for key in ("value", "low", "high")] == pytest.approx([mean, low, high])
    (panel,) = drawn["concat"]
    assert panel["layer"][0]["encoding"]["y"]["title"] == "share"


def test_the_numbers_of_runs_are_told_as_their_means(docs: Path) -> None:
    """`lab seeds --by-run` keeps a row per run, and a page says what `lab seeds` says."""
    values = [0.5, 0.6, 0.9]
    rows = pd.DataFrame({"run": ["a", "b", "c"], "of": "trained", "value": values})
    mean, low, high = seeds_interval(np.array(values))
    origin = load(docs, "told").origin
    sums = Table(
        "sums", origin, pd.DataFrame([{"of": "trained", "mean": mean, "low": low, "high": high}])
    )
    numbers = Table("numbers", origin, rows)
    assert numbers.told(of="trained") == sums.told(of="trained") != ""
    columns, lines = {"now": {"of": "trained"}}, [("all", {})]
    assert parts.beside(numbers, columns, lines) == parts.beside(sums, columns, lines)
    with pytest.raises(UserError, match="several rows of a run"):
        Table("twice", origin, pd.concat([rows, rows])).told(of="trained")


def test_a_difference_is_paired_by_unit(docs: Path) -> None:
    ways = {"a": 1.5, "b": 1.0}
    rows = [{"seed": s, "way": way, "right": ways[way] + s} for way in ways for s in (0, 2)]
    found = Table("told", load(docs, "told").origin, pd.DataFrame(rows))
    assert found.less("right", {"way": "a"}, {"way": "b"}, unit="seed") == "0.50"
    with pytest.raises(UserError, match="no rows where"):
        found.less("right", {"way": "a"}, {"way": "c"}, unit="seed")


def test_inside_and_beyond_the_window(docs: Path) -> None:
    found = load(docs, "far")
    assert found.inside().rows["n"].max() == found.rows["window"].iloc[0] == 3
    assert found.beyond().rows["n"].min() == 4
    assert found.inside().where(variant="plain").mean("exact") == "100% [34, 100]"


def test_all_is_well(docs: Path) -> None:
    assert pages.faults(docs) == []
    assert main(["report", "--docs", str(docs), "--check"]) == 0


def stale(docs: Path, capsys: pytest.CaptureFixture[str]) -> str:
    """The one fault that the command tells."""
    assert main(["report", "--docs", str(docs), "--check"]) == 2
    told = capsys.readouterr()
    assert told.err.strip() == "lab: 1 faults in the findings"
    (line,) = told.out.strip().splitlines()
    return line


def test_a_table_that_is_gone(docs: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (docs / "findings" / "data" / "far.parquet").unlink()
    assert "far.parquet" in stale(docs, capsys)


def test_a_table_that_was_changed(docs: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = docs / "findings" / "data" / "told.parquet"
    TOLD.assign(accuracy=1.0).to_parquet(file)
    assert "is not the table that was kept: restore it" in stale(docs, capsys)


def test_findings_that_were_changed(docs: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = docs / "findings" / "data" / "far.json"
    told = json.loads(file.read_text())
    told["findings"]["sentences"] = ["All is perfect."]
    file.write_text(json.dumps(told))
    assert "is not the table that was kept: restore it" in stale(docs, capsys)


def test_a_page_that_was_changed(docs: Path, capsys: pytest.CaptureFixture[str]) -> None:
    page = docs / pages.PAGES / "far.md"
    page.write_text(page.read_text().replace("17%", "18%"))
    assert stale(docs, capsys).endswith("far.md is not what its tables say: run `lab report`")
    assert main(["report", "--docs", str(docs)]) == 0
    assert pages.faults(docs) == []


@pytest.mark.parametrize("place", [pages.TEMPLATES, pages.PAGES])
def test_what_is_no_plain_file_is_not_waited_for(
    docs: Path, place: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    os.mkfifo(docs / place / "pipe.md")
    assert main(["report", "--docs", str(docs), "--check"]) == 2
    assert "pipe.md is not a plain file: put a file of text" in capsys.readouterr().err


@pytest.mark.parametrize("name", ["far.md", "far.svg"])
def test_what_the_lab_has_not_written_is_not_replaced(docs: Path, name: str) -> None:
    file = docs / pages.PAGES / name
    file.write_text("<h1>mine</h1>")
    with pytest.raises(UserError, match=f"{name} is not of the lab"):
        pages.write(docs, "far")
    assert file.read_text() == "<h1>mine</h1>"


def test_a_picture_that_is_gone(docs: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (docs / pages.PAGES / "far.svg").unlink()
    assert stale(docs, capsys).endswith("far.svg is missing: run `lab report`")


@pytest.mark.parametrize("typed", ["It was 99.5% right.", "7 of 10 seeds.", "A loss of 0.31."])
def test_a_figure_that_was_typed(
    docs: Path, typed: str, capsys: pytest.CaptureFixture[str]
) -> None:
    (docs / "findings" / "far.md").write_text(f"{TEMPLATE}\n{typed}\n")
    pages.write(docs, "far")
    assert "typed by hand: take it from a table" in stale(docs, capsys)


def test_numbers_that_are_no_results() -> None:
    text = "Python 3.11, a 95% interval, a^0.5, `lr 0.1`, [x](b-0.5.md), n = 10, b^2, 4,000 steps"
    assert pages.figures(text) == []
    assert pages.figures("{{ mean(0.5) }} <!-- 0.5 --> ```\n0.5\n```") == []
    assert pages.figures("12% and 0.25, 3 of the 7") == ["12%", "0.25", "3 of the 7"]


def test_a_page_that_nothing_backs(docs: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (docs / pages.PAGES / "new.md").write_text("All is well.\n")
    assert "new.md has figures that no kept table backs" in stale(docs, capsys)


def test_a_table_that_no_page_uses(docs: Path, capsys: pytest.CaptureFixture[str]) -> None:
    keep(docs.parent / "told.csv", "again", docs, "lab x", "Why?")
    assert "again.parquet is used by no page" in stale(docs, capsys)


def test_figures_of_the_readme_stand_on_a_page(
    docs: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    readme = docs.parent / "README.md"
    readme.write_text("Of all, 83% were right.\n\n```text\n0.75\n```\n\nSo 0.75.\n")
    assert pages.faults(docs) == []
    readme.write_text("Nearly all, 99%, were right.\n")
    assert "README.md says 99%, which no page of findings says" in stale(docs, capsys)


def test_what_cannot_be_kept(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """One line each, and nothing is written."""
    docs = tmp_path / "docs"
    (tmp_path / "told.csv").write_text("a,b\n1,2\n")
    (tmp_path / "told.txt").write_text("a,b\n1,2\n")
    (tmp_path / "TOLD.CSV").write_text("a,b\n1\n")
    (tmp_path / "bad.csv").write_bytes(b"\xff\xfe\x00")
    part = a_sweep(tmp_path / "part", left=3)
    (tmp_path / "empty" / "results").mkdir(parents=True)
    for name, ending in (("headless", "json"), ("bare", "parquet")):
        (table,) = a_sweep(tmp_path / name).rglob(f"*.{ending}")
        table.unlink()
    known = ("--command", "lab x", "--question", "Why?")
    for path, more, fault in (
        ("told.csv", (), "does not say what made it: give --command and --question"),
        ("bad.csv", known, "is not UTF-8"),
        ("told.txt", known, "is no run and no table: end the name of a CSV file in .csv"),
        ("TOLD.CSV", known, "has lines that are longer than its header"),
        ("part", (), f"3 runs of {part} are missing: finish it with `lab sweep`"),
        ("empty", (), "keeps no study: give the folder of a sweep, or a CSV file"),
        ("headless", (), "keeps no study: give the folder of a sweep, or a CSV file"),
        ("bare", (), "is damaged, or the .json beside it: remove the folder"),
        ("told.csv", (*known, "--named", "../x"), "named is '../x': write small letters"),
    ):
        command = ["report", str(tmp_path / path), "--docs", str(docs), *more]
        assert main(command) == 2
        assert fault in capsys.readouterr().err
    assert not docs.exists()
    for more in ((), ("--check",)):
        assert main(["report", "--docs", str(docs), *more]) == 2
        assert "has no templates" in capsys.readouterr().err


def test_a_template_that_is_wrong(docs: Path) -> None:
    for wrong in ("{{ table('none') }}", "{{ nothing }}", "{{ table('told').mean('x') }}", "{{"):
        (docs / "findings" / "wrong.md").write_text(wrong)
        with pytest.raises(UserError):
            pages.write(docs, "wrong")
    told: Table = load(docs, "told")
    first = told.where(model="untrained", examples=1)
    assert first.same("accuracy") == "10%"
    with pytest.raises(UserError, match="accuracy of told differs by run"):
        told.where(examples=2).same("accuracy")
    assert told.without(model="trained").rows["model"].unique().tolist() == ["untrained"]
    with pytest.raises(UserError, match="has no rows where"):
        told.where(model="nobody")


def test_the_kept_tables_of_the_lab_are_small() -> None:
    """`make check` holds its pages to them."""
    docs = Path(__file__).parents[2] / "docs"
    assert sum(file.stat().st_size for file in (docs / "findings" / "data").iterdir()) < 20e6


def test_numbers_that_are_equal_but_for_rounding_errors_are_written_alike() -> None:
    assert with_interval(0.475, 0.475 - 1e-15, 0.475 + 1e-15) == "48% [48, 48]"
    assert with_interval(0.475, np.nan, np.nan) == "48%"
    assert with_interval(-0.001, -0.2, 0.1, "plain") == "0.00 [-0.20, 0.10]"


def test_a_median_counts_those_who_have_no_number_as_the_largest(docs: Path) -> None:
    found = load(docs, "far").combined("which", "variant", "language")
    lines = parts.medians(found, "which", "window", "speed.steps").splitlines()
    assert lines[2:] == ["| plain, anbn | 150 (2 of 2) |", "| counting, anbn | - (0 of 2) |"]
    one = found.rows.assign(
        **{"speed.steps": found.rows["speed.steps"].where(found.rows["seed"] == 0)}
    )
    lines = parts.medians(Table("far", found.origin, one), "which", "window", "speed.steps")
    assert "| plain, anbn | - (1 of 2) |" in lines


def test_the_smallest_size_that_is_enough(docs: Path) -> None:
    rows = [
        {"run": f"{size}-{length}-{seed}", "language": "anbn", "max_length": length, "seed": seed}
        | {"parameters": size, "right": right, "length": length}
        for size, length, shares in (
            (10, 4, (1.0, 1.0, 0.9)),
            (2000, 4, (1.0, 1.0, 1.0)),
            (10, 8, (0.5, 0.5, 1.0)),
            (2000, 8, (0.9, 0.9, 0.9)),
        )
        for seed, right in enumerate(shares)
    ]
    found = Table("sizes", load(docs, "far").origin, pd.DataFrame(rows))
    assert parts.smallest(found, "max_length", "right", 0.99).splitlines()[2:] == [
        "| anbn | every seed | 2,000 | none |",
        "| anbn | most seeds | 10 | none |",
    ]


def test_a_row_of_means_is_told_with_its_interval(docs: Path) -> None:
    rows = [
        {"group": name, "of": "share", "mean": mean, "low": mean - 0.1, "high": mean + 0.1}
        for name, mean in (("anbn", 0.5), ("dieren", 0.25))
    ]
    found = Table("seeds", load(docs, "far").origin, pd.DataFrame(rows))
    assert found.told(group="dieren") == "0.25 [0.15, 0.35]"
    assert found.told("share", group="anbn") == "50% [40, 60]"
    with pytest.raises(UserError, match="has 2 rows where"):
        found.told(of="share")
    with pytest.raises(UserError, match="has no rows where"):
        found.told(group="an")


def test_a_tested_difference_is_told_with_its_p(docs: Path) -> None:
    rows = [
        {"of": of, "difference": 0.5, "low": 0.25, "high": 0.75, "p": 0.01, "corrected": p}
        for of, p in (("rollout", 0.0488), ("flow", 1.0))
    ]
    found = Table("tests", load(docs, "far").origin, pd.DataFrame(rows))
    assert found.differs(of="rollout") == "0.50 [0.25, 0.75], p = 0.049"
    assert found.p(of="flow") == "1"
    with pytest.raises(UserError, match="has 2 rows where"):
        found.p()


def test_a_difference_is_taken_seed_by_seed(docs: Path) -> None:
    told = load(docs, "told").where(model="trained")
    one, two = told.where(examples=1), told.where(examples=2)
    assert two.ahead(one, "accuracy", unit="run") == "10 points [-15, 35]"
    assert one.ahead(two, "accuracy", "plain", unit="run") == "-0.10 [-0.35, 0.15]"
    named = Table("named", told.origin, told.rows.assign(run="net-" + told.rows["run"]))
    assert (
        named.where(examples=2).ahead(named.where(examples=1), "accuracy").startswith("10 points")
    )
    assert two.ahead(two, "accuracy", unit="run") == "0 points"
    fewer = Table("fewer", told.origin, one.rows.iloc[:2])
    with pytest.raises(UserError, match="has another run for accuracy"):
        two.ahead(fewer, "accuracy", unit="run")


def test_numbers_over_seeds_stand_side_by_side(docs: Path) -> None:
    rows = [
        {"group": name, "variable": model, "of": of, "mean": mean, "low": mean, "high": mean}
        for name, model, of, mean in (
            ("anbn", "trained", "share", 1.0),
            ("anbn", "untrained", "share", 0.5),
            ("dieren", "trained", "share", 0.25),
            ("dieren", "trained", "words", 4.0),
        )
    ]
    found = Table("seeds", load(docs, "far").origin, pd.DataFrame(rows))
    columns = {"`anbn`": {"group": "anbn", "of": "share"}, "`dieren`": {"group": "dieren"}}
    share = [("trained", {"variable": "trained", "of": "share"})]
    untrained = [("untrained", {"variable": "untrained"})]
    words = [("words", {"variable": "trained", "of": "words"})]
    assert parts.beside(found, columns, share + untrained + words).splitlines() == [
        "|   | `anbn` | `dieren` |",
        "| --- | --- | --- |",
        "| trained | 1.00 [1.00, 1.00] | 0.25 [0.25, 0.25] |",
        "| untrained | 0.50 [0.50, 0.50] | - |",
        "| words | - | 4.00 [4.00, 4.00] |",
    ]
    with pytest.raises(UserError, match="has 2 rows where"):
        parts.beside(found, {"`dieren`": {"group": "dieren"}}, [("all", {"variable": "trained"})])
    with pytest.raises(UserError, match="has no nothing"):
        parts.beside(found, columns, [("nothing", {"of": "nothing"})])


def test_planted_rules_that_came_back_are_counted(docs: Path) -> None:
    rows = [
        {"way": way, "disfluent": share, "outcome": outcome}
        for way, share, outcomes in (
            ("LSTM", 0.0, ["exact"] * 3),
            ("LSTM", 0.1, ["exact", "no reliable rule", "wrong rule"]),
        )
        for outcome in outcomes
    ]
    found = Table("rules", load(docs, "far").origin, pd.DataFrame(rows))
    assert parts.recovered(found, "way", "disfluent").splitlines() == [
        "| way | 0.0 | 0.1 |",
        "| --- | --- | --- |",
        "| LSTM | 3 of 3 [44%, 100%] | 1 of 3 [6%, 79%] |",
    ]
    exact = pd.DataFrame({"class": "SL", "way": [*"aaab"], "exact": [1, 0, 1, 0.0]})
    found = Table("automata", found.origin, exact)
    assert parts.recovered(found, "class", "way").splitlines()[2:] == [
        "| SL | 2 of 3 [21%, 94%] | 0 of 1 [0%, 79%] |"
    ]


HEADER = "page,claim,table,test,n,unit,control"
CLAIM = 'far,"Ten of * reach it",far,95% interval,2,seeds,the plain variant\n'


@pytest.mark.parametrize(
    ("rows", "fault"),
    [
        ("", "far claims 'Ten of 12 reach it', and "),
        (CLAIM, ""),
        (CLAIM.replace("far,95%", "nowhere,95%"), "line 2: there is no kept table nowhere: name"),
        (CLAIM.replace("the plain variant", " "), "line 2: control is missing: name it, or soften"),
        (CLAIM + CLAIM.replace("Ten", "Nine"), "line 3: no page claims 'Nine of * reach it'"),
    ],
)
def test_a_claim_stands_on_a_table_a_test_and_a_control(docs: Path, rows: str, fault: str) -> None:
    page = docs / "findings" / "far.md"
    page.write_text(
        page.read_text()
        + "\n**Ten of 12\nreach it** (here). **Who reaches it at all?** **No claim**.\n"
    )
    (docs / "findings" / "claims.csv").write_text(f"{HEADER}\n{rows}")
    pages.write(docs, "far")
    told = [each for each in pages.faults(docs) if "typed by hand" not in each]
    assert len(told) == bool(fault)
    assert fault in "".join(told)


@pytest.mark.parametrize(
    ("rows", "number"), [("page,claim\nfar,a\n", 1), (f"{HEADER}\n{CLAIM.strip()},more\n", 2)]
)
def test_a_list_of_claims_with_other_columns_is_told_in_one_line(
    docs: Path, rows: str, number: int
) -> None:
    (docs / "findings" / "claims.csv").write_text(rows)
    with pytest.raises(UserError, match=rf"claims\.csv, row {number}: write page,claim,table,test"):
        pages.faults(docs)


def test_the_items_of_the_readme_are_claims(docs: Path) -> None:
    (docs.parent / "README.md").write_text(
        "## Two findings\n\n- [A](docs/a.md) is\n  so.\n- B is not.\n\n## More\n\n- C.\n"
    )
    assert [claim for page, claim in published(docs) if page == "README"] == [
        "A is so.",
        "B is not.",
    ]


@pytest.mark.parametrize(
    "wrong",
    [
        "{{ cycler.__init__.__globals__.os.system('touch here') }}",
        "{{ 1 / 0 }}",
        "{{ [][3] }}",
    ],
)
def test_a_template_runs_nothing_but_what_pages_offer(
    docs: Path, wrong: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    (docs / "findings" / "far.md").write_text(wrong)
    with pytest.raises(UserError, match=r"far\.md cannot be written \(.*\): correct it there"):
        pages.write(docs, "far")
    assert not (tmp_path / "here").exists()


@pytest.mark.parametrize("beside", ["", "parquet"])
def test_a_record_that_is_not_the_labs_stays(docs: Path, tmp_path: Path, beside: str) -> None:
    (tmp_path / "t.csv").write_text("name,value\n007,1\n010,2\n")
    data = docs / "findings" / "data"
    (data / "mine.json").write_text("{}")
    if beside:
        (data / f"mine.{beside}").write_text("x")
    with pytest.raises(UserError, match=r"mine\.json is not of the lab: choose another name"):
        keep(tmp_path / "t.csv", "mine", docs, "lab show", "Which?")
    assert (data / "mine.json").read_text() == "{}"
    file = keep(tmp_path / "t.csv", "new", docs, "lab show", "Which?")
    assert pd.read_parquet(file).to_dict("list") == {"name": ["007", "010"], "value": [1, 2]}
