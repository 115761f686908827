"""From 5,000 labelled lines to the rule behind them, beside AALpy's RPNI.

Every third planted rule of ``analyses.rules.recovery`` without a tier, one after the other, as
`lab rule` does it: reading, training, extraction, the choice, the held-out lines. RPNI gets the
lines that the network learns from, up to the bound that the lab sets it. The row says how many
symbols it got, and how many of the rules each of them found.
"""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from pathlib import Path
from unittest.mock import patch

import numpy as np
from automata.fa.dfa import DFA

from analyses.options.lines import Discover
from analyses.questions.rule.rule_evidence import Lines, rebuilt
from analyses.rules.discover import discover
from analyses.rules.lines import as_tsv, prepared
from analyses.rules.recovery import VOCABULARY, Corpus, planted
from interp.automata.passive.merging import PASSIVE, rpni
from interp.automata.rule_search import same
from models.languages import LabelledCorpus
from tests.benchmarks.measure import Result, Side, one_thread, seconds

RPNI = "AALpy"


def discovery_speed() -> Iterator[Result]:
    """One comparison: a round for each rule."""
    times, right, sizes = [], np.zeros(2, dtype=int), []
    known = [one for one in planted().items() if one[1][0] != "on a tier"]  # as in kept figures
    rules = known[::3]
    for rule, (family, truth) in rules:
        found: dict[str, DFA | None] = {}
        corpus = Corpus("lines", family, rule)
        labels, words = corpus.drawn()
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder) / "lines.tsv"
            path.write_text(as_tsv(labels, words), encoding="utf-8")

            def ours(path: Path = path, found: dict[str, DFA | None] = found) -> None:
                asked = Discover(path, path.parent, accepted="in", rivals=False)
                dfa = discover(asked)["found"]["dfa"]
                found["ours"] = rebuilt(dfa, VOCABULARY) if dfa else None

            known = LabelledCorpus("lines", *prepared(path, "in")[:2])
            lines = Lines(*known.sides("train", "validation"))
            sizes.append(sum(len(word) for word in lines.words))

            def theirs(lines: Lines = lines, found: dict[str, DFA | None] = found) -> None:
                found["theirs"] = rpni(lines.words, lines.labels, VOCABULARY)

            # Pictures are left out: RPNI draws none, and they are drawn in threads of their own.
            with one_thread(), patch("analyses.rendering.render", return_value=b""):
                times.append([seconds(Side("ours", "", ours)), seconds(Side(RPNI, "", theirs))])
        dfas = (found["ours"], found["theirs"])
        right += [dfa is not None and same(dfa, truth) for dfa in dfas]
    symbols = round(np.mean(sizes), -2)
    yield Result.of(
        f"{len(rules)} rules, from {len(words):,} lines to the rule",
        Side(
            "ours",
            f"a network and its rule, no pictures; {right[0]} rules are right, of RPNI {right[1]}",
            lambda: None,
        ),
        Side(
            RPNI,
            f"RPNI on the same lines, at most {PASSIVE:,} of about {symbols:,.0f} symbols",
            lambda: None,
        ),
        None,
        np.array(times),
    )
