"""A click in the dashboard with 520 runs, beside the same page when nothing of it is kept.

The peer is Streamlit without caches: it draws a page anew at each click. The sweep has 528 runs of
its own, as numbers alone.
"""

from __future__ import annotations

import logging
import shutil
import sys
import time
from collections.abc import Iterator, Sequence
from itertools import product
from pathlib import Path
from tempfile import TemporaryDirectory
from unittest.mock import patch

import numpy as np
import pandas as pd
import streamlit as st
from streamlit.testing.v1 import AppTest

from analyses.answers import Answer, answer, save
from analyses.studies.sweeps.measures import Measure
from analyses.studies.sweeps.summary import findings
from dashboard.background import JOBS
from models.config import TrainConfig
from models.model_config import ModelConfig
from models.runs.files import write_json
from models.runs.folders import RUN_FILE
from models.runs.run import Run
from models.training.loop import train
from tests.benchmarks.measure import Result, Side
from tests.drawn import read_json

RUNS, SEEDS, ROUNDS = 520, 10, 5
PAGES = {
    "": "the first page",
    "runs": "the list of runs",
    "probing": "a page with ten seeds of 520 runs",
}
PAGES |= {"sweeps": "a sweep of 528 runs"}
PARTS = {
    "runs": {"part_of_accuracy": "All runs"},
    "probing": {"part_of_probing": "Controls and limits"},
}
"""The part of a page that is open, as the link has it: of the others the first."""
ASKED = ("accuracy", "probing")
SCRIPT = 'from dashboard.pages import pages\npages()["{page}"].draw()'
LAYERS, WIDTH = "model.n_layers", "model.d_model"


def dashboard_speed() -> Iterator[Result]:
    """One comparison for each page."""
    logging.getLogger("streamlit").setLevel(logging.ERROR)  # a page without a browser is a warning
    with TemporaryDirectory() as folder, patch.object(sys, "argv", ["app.py", folder]):
        many_runs(Path(folder))
        big_sweep(Path(folder) / "capacity")
        for page, what in PAGES.items():
            shown = AppTest.from_string(SCRIPT.format(page=page or "story"), default_timeout=600)
            shown.query_params |= PARTS.get(page, {})
            drawn(shown)
            times = []
            for _ in range(ROUNDS):
                ours = drawn(shown)
                st.cache_data.clear()
                st.cache_resource.clear()
                times.append((ours, drawn(shown)))
            yield Result.of(
                f"the dashboard: {what}",
                Side("ours", "a click", lambda: None),
                Side("Streamlit", "the same page without its caches", lambda: None),
                None,
                np.array(times),
            )


def drawn(page: AppTest) -> float:
    """CPU seconds until a page is drawn."""
    start = time.process_time()
    page.run()
    JOBS.wait()
    assert not page.exception
    assert not page.error
    return time.process_time() - start


def many_runs(folder: Path) -> None:
    """Ten seeds of each of many settings, which are equal but in name; each run has its answers."""
    model = ModelConfig(n_layers=1, n_heads=2, d_model=8, d_mlp=8)
    first = Run.create(folder / "anbn-s0", TrainConfig("anbn", max_n=4, steps=20, model=model))
    train(first, "cpu")
    with patch("analyses.rendering.render", return_value=b""):
        for name in ASKED:
            answer(first, name)
    for number in range(1, RUNS):
        copy = folder / f"anbn-s{number}"
        shutil.copytree(first.path, copy)
        record = read_json(copy / RUN_FILE)
        setting, seed = divmod(number, SEEDS)
        record["config"] |= {"seed": seed, "warmup": 50 + setting}
        record["name"] = copy.name
        write_json(copy / RUN_FILE, record)


def big_sweep(folder: Path) -> None:
    """Two languages, six depths, eleven widths, four seeds; ten lengths each."""
    by: Sequence[str] = (LAYERS, WIDTH)
    rng, parts = np.random.default_rng(0), []
    sizes = product(("an", "anbn"), range(1, 7), range(4, 48, 4), range(4))
    for language, layers, width, seed in sizes:
        size = {"language": language, LAYERS: layers, WIDTH: width, "seed": seed}
        lengths = np.arange(1, 11)
        exact = (lengths <= rng.integers(1, 4 + layers)).astype(float)
        rows = pd.DataFrame({"length": lengths, "n": lengths, "exact": exact, "members": exact})
        known = {"run": "-".join(map(str, size.values())), "others": 1.0, "window": 5}
        known |= {"recognition": 0.5 + exact / 2, "objective": "next-symbols", "count": 8}
        known |= {"parameters": layers * width * 10, "seconds": 1.0, "steps": 5}
        parts.append(rows.assign(**size, **known))
    table = pd.concat(parts, ignore_index=True).astype({"n": "Int64", "exact": "Float64"})
    sentence, found = findings(table, by, Measure())
    arguments = {"by": list(by), "file": "", "question": "Which size is enough?"}
    arguments |= {"compare": Measure().model_dump(), "measures": []}
    found |= {"left": 0, "failed": 0, "left_out": [], "diverged": []}
    asked = "Which size is enough?"
    save(folder, "sweep", asked, Answer(table, sentence, found, arguments), None)
