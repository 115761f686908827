"""From 5,000 labelled lines to the rule behind them: wall-clock seconds on this machine.

All planted rules of ``analyses.rules.recovery``, one after the other, as `lab rule` does it:
reading, training, extraction, the choice. The bar is one of seconds, not of a peer: nobody else
does it. So that the machine can be judged, AALpy's RPNI learns the same lines beside it.
"""

from __future__ import annotations

import statistics
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

import numpy as np

from analyses.options.lines import Discover
from analyses.questions.rule_evidence import Lines
from analyses.rules.discover import discover, passive
from analyses.rules.lines import as_tsv
from analyses.rules.recovery import VOCABULARY, Corpus, planted
from tests.benchmarks.measure import Seconds

TARGET = 60.0


def discovery_speed() -> Iterator[Seconds]:
    """The median over all rules, ours and RPNI's."""
    ours, theirs = [], []
    for family, rule in [(family, rule) for rule, (family, _) in planted().items()]:
        corpus = Corpus("lines", family, rule)
        labels, words = corpus.drawn()
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder) / "lines.tsv"
            path.write_text(as_tsv(labels, words), encoding="utf-8")
            start = time.perf_counter()
            discover(Discover(path, Path(folder), accepted="in", rivals=False))
            ours.append(time.perf_counter() - start)
        start = time.perf_counter()
        passive(Lines(words, np.array(labels) == "in"), VOCABULARY)
        theirs.append(time.perf_counter() - start)
    task = f"{len(ours)} rules, from 5,000 lines to the rule"
    yield Seconds(task, "ours", statistics.median(ours), min(ours), max(ours), TARGET)
    yield Seconds(task, "RPNI (AALpy)", statistics.median(theirs), min(theirs), max(theirs), None)
