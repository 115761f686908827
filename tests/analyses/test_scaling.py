"""The laws of a sweep's losses, in words; and exactness beside them."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from analyses.answers import Answer, save
from analyses.command_line.app import main
from analyses.options.shipped import find
from analyses.studies.findings import parts
from analyses.studies.findings.tables import keep, load
from analyses.studies.scaling import in_words, laws, means, points
from analyses.studies.sweeps.file import read
from analyses.studies.sweeps.further import columns_of
from analyses.studies.sweeps.measures import Measure
from analyses.studies.sweeps.plan import plan
from analyses.studies.sweeps.run import COLUMNS
from analyses.studies.sweeps.summary import findings
from models.errors import UserError

pytestmark = pytest.mark.slow
WIDTHS = [2, 4, 8, 16, 32, 64]
BY = ["model.d_model"]


def made_up(seeds: int = 3, jump: bool = False, widths: list[int] = WIDTHS) -> pd.DataFrame:
    """A sweep whose excess is 5 / sqrt(parameters), up to noise; parameters are 25 d_model^2.

    With a jump it falls by a factor of 50 from width 8 to 16, and little else.
    """
    rng, rows = np.random.default_rng(0), []
    for width in widths:
        parameters = 25 * width**2
        excess = 5 * parameters**-0.5
        if jump:
            excess = (1 if width < 16 else 0.02) * parameters**-0.01
        for seed in range(seeds):
            own = {"loss.excess": excess * np.exp(rng.normal(0, 0.1)), "loss.words": 10 * width}
            for length in (2, 4, 8):
                rows.append(
                    {"run": f"{width}-{seed}", "language": "anbn", "seed": seed, **own}
                    | {"model.d_model": width, "length": length, "n": length // 2, "window": 4}
                    | {"exact": float(width >= 16 and length < 8), "members": 1.0, "others": 1.0}
                    | {"parameters": parameters, "loss.compute": 1e9 * parameters}
                )
    table = pd.DataFrame(rows).astype({"exact": "Float64"})
    return table.assign(**{c: 0 for c in [*COLUMNS, *columns_of(["loss"])] if c not in table})


def kept(folder: Path, table: pd.DataFrame, measures: Sequence[str] = ("loss",)) -> Path:
    sentence, found = findings(table, BY, Measure())
    about = {"by": BY, "file": "", "question": "Why?", "measures": list(measures)}
    about |= {"compare": Measure().model_dump()}
    found |= {"left": 0, "failed": 0, "left_out": [], "diverged": []}
    save(folder, "sweep", "Why?", Answer(table, sentence, found, about), None)
    return folder


def test_a_point_is_a_run(tmp_path: Path) -> None:
    runs = points(kept(tmp_path, made_up()), "parameters")
    assert len(runs) == 18
    assert set(runs.loc[runs["size"] >= 25 * 16**2, "exact"]) == {1.0}  # inside the window alone
    assert runs["size"].tolist() == sorted(np.repeat([25 * w**2 for w in WIDTHS], 3))
    assert points(tmp_path, "compute")["size"].tolist() == (1e9 * runs["size"]).tolist()
    assert set(points(tmp_path, "words")["size"]) == {10.0 * w for w in WIDTHS}


def test_a_power_law_is_told_with_its_interval_and_the_jump_is_the_measures(tmp_path: Path) -> None:
    runs = points(kept(tmp_path, made_up()), "parameters")
    table = laws(runs)
    row = table.set_index("law").loc["power"]
    assert row["alpha"] == pytest.approx(0.5, abs=0.05)
    assert row["low"] < row["alpha"] < row["high"] < row["low"] + 0.1
    assert row["worse"] == 0
    assert row["decades"] == pytest.approx(np.log10(32**2))
    (said,) = in_words(runs, table, "parameters")
    assert said.startswith("anbn: excess = ")
    assert "over 3.0 powers of ten of parameters" in said
    assert "Exactness jumps by 1.00 from 1.6e+03 to 6.4e+03 parameters" in said
    assert said.endswith("the jump is in the measure.")


def test_a_network_that_jumps_is_no_power_law(tmp_path: Path) -> None:
    runs = points(kept(tmp_path, made_up(jump=True)), "parameters")
    (said,) = in_words(runs, laws(runs), "parameters")
    assert said.startswith("anbn: no power law: the ")
    assert said.endswith("the jump is in the network, too.")


def test_few_decades_and_few_sizes_are_told(tmp_path: Path) -> None:
    runs = points(kept(tmp_path, made_up()), "words")
    (said,) = in_words(runs, laws(runs), "words")
    assert "but words span 1.5 powers of ten, and 3 are needed" in said
    few = points(kept(tmp_path / "few", made_up(widths=[2, 64])), "parameters")
    assert "too few sizes for a law" in in_words(few, laws(few), "parameters")[0]
    flat = runs.assign(exact=0.5)
    assert "Exactness does not jump." in in_words(flat, laws(flat), "words")[0]


def test_the_mean_of_losses_is_geometric() -> None:
    runs = pd.DataFrame({"language": "an", "setting": "x", "seed": [0, 1], "size": 3.0})
    row = means(runs.assign(excess=[0.1, 0.4], exact=[0.0, 1.0])).iloc[0]
    assert (row["excess"], row["exact"], row["seeds"]) == (pytest.approx(0.2), 0.5, 2)


def test_from_the_command_line(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    folder, picture = str(kept(tmp_path / "out", made_up())), tmp_path / "s.svg"
    assert main(["show", folder, "scaling", "--file", str(picture)]) == 0
    assert "the jump is in the measure." in capsys.readouterr().out.replace("\n", " ")
    assert picture.read_bytes().startswith(b"<svg")
    assert main(["show", folder, "scaling", "--by", "compute", "--json"]) == 0
    content = json.loads(capsys.readouterr().out)
    assert {row["law"] for row in content["laws"]} > {"power", "exponential"}
    assert len(content["sizes"]) == len(WIDTHS)
    unknown = made_up().assign(**{"loss.excess": np.nan})
    for where, fault in (
        (
            tmp_path / "nowhere",
            "then ask `lab show runs/scaling scaling`",
        ),
        (kept(tmp_path / "without", made_up(), []), 'add measures = ["loss"]'),
        (kept(tmp_path / "unknown", unknown), "of no run of"),
    ):
        assert main(["show", str(where), "scaling"]) == 2
        assert fault in capsys.readouterr().err
    assert main(["show", folder, "scaling", "--file", "x.gif"]) == 2


@pytest.mark.parametrize(
    ("name", "count"), [("scaling", 90), ("scaling-words", 120), ("scaling-large", 60)]
)
def test_the_shipped_sweeps_measure_the_loss(name: str, count: int) -> None:
    file = read(find(name))
    runs, skipped = plan(file)
    assert (len(runs), skipped) == (count, [])
    assert "loss" in file.further
    if name == "scaling-words":
        lines = file.vary["lines"]
        assert lines[-1] >= 1000 * lines[0]
    assert {run.config.objective for run in runs} == {"language-model"}


def test_it_needs_a_sweep_with_entropy(tmp_path: Path) -> None:
    with pytest.raises(UserError, match="holds no sweep"):
        points(tmp_path, "words")


def test_a_page_tells_the_laws_of_a_kept_table(tmp_path: Path) -> None:
    docs = tmp_path / "docs"
    keep(kept(tmp_path / "sweep", made_up()), "scaling", docs)
    found = load(docs, "scaling")
    row = laws(points(tmp_path / "sweep", "parameters")).set_index("law").loc["power"]
    line = parts.laws(found, "parameters").splitlines()[-1]
    interval = f"{row['alpha']:.2f} [{row['low']:.2f}, {row['high']:.2f}]"
    assert line.startswith(f"| anbn | {interval} | {row['c']:.2g} | ")
    assert line.endswith(f" | {row['decades']:.1f} |")
    assert float(line.split(" | ")[4]) < 0  # the power law is ahead
    assert parts.law_sentences(found, "parameters").startswith("- anbn: excess = ")
    assert parts.law_chart(found, "parameters").to_dict()["vconcat"]


def test_two_settings_of_one_size_are_one_step(tmp_path: Path) -> None:
    """A deep and narrow network may have as many parameters as a wide one."""
    table = made_up(seeds=1, jump=True)
    table.loc[table["model.d_model"] == 32, "parameters"] = 25 * 16**2
    (said,) = in_words(
        runs := points(kept(tmp_path, table), "parameters"), laws(runs), "parameters"
    )
    assert "from 1.6e+03 to 6.4e+03 parameters" in said
    assert "nan" not in said
