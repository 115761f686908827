"""The recovery of automata from lines that are drawn from them.

`lab recover automata --automata DIR` measures it.

Each automaton labels lines of one length range, as those of MLRegTest (van der Poel et al. 2024):
half of them are members, drawn evenly from the words of a length. The finders of `lab rule` that
need no network learn from them, and the judge of `lab rule` chooses: its choice is the way "lab
rule". An LSTM learns from the same lines. All are tested on new lines as long, and on longer ones.

    OUT/recovery/automata/NAME-s0/      the results of the finders and the LSTM, and the lines
    OUT/results/recovery-automata-1/    a row per automaton, draw of lines and way
"""

from __future__ import annotations

import re
import shutil
import time
from collections.abc import Callable, Collection
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from automata.fa.dfa import DFA

from analyses.answers import Answer, Answers, save
from analyses.charts.discovery import by_class
from analyses.jobs.trained import trained
from analyses.options.lines import Discover
from analyses.questions.rule.discovery import judge
from analyses.questions.rule.rule_evidence import Lines
from analyses.rules.automaton_file import read_automaton
from analyses.rules.choice import best_of
from analyses.rules.discover import lstm_configuration
from analyses.rules.lines import as_tsv
from interp.automata.classes import classes_of
from interp.automata.equivalence import Word
from interp.automata.extraction import Accepts
from interp.automata.extraction import run as verdicts_of
from interp.automata.formulas.search import search
from interp.automata.induction import Found, weighed
from interp.automata.passive.annealing import annealed
from interp.automata.passive.merging import edsm, rpni
from interp.automata.rule_search import rule_of, same
from models.config import Device
from models.errors import UserError
from models.languages import LabelledCorpus, RegularLanguage
from models.runs.files import write_bytes
from models.runs.run import run_name

SHORT, LONG = range(20, 30), range(31, 51)
"""The lengths of the lines, and of the longer test lines."""
LINES = 1000
"""Lines to learn from, and of each test."""
DRAWN = LINES * 3 // 2
"""So many lines are drawn: a corpus trains on four in five, and the LSTM stops by others."""
RULE, NETWORK = "lab rule", "LSTM"
"""The names of the choice of `lab rule`, and of the only way with a network."""
QUESTION = "How much of an automaton comes back from labelled lines?"
NAME = re.compile(r"\d+\.\d+\.(?P<kind>[A-Z][A-Za-z]*)\.(?P<window>\d+)\.\d+\.\d+")
"""A name of MLRegTest: the sizes of alphabet and tier, the class, its window, and two numbers."""


@dataclass(frozen=True)
class Target:
    """An automaton to be found, and a draw of lines.

    Attributes:
        file: the automaton in AT&T form.
        seed: seed of the drawn lines.
    """

    file: Path
    seed: int

    @property
    def name(self) -> str:
        """The name of its folder."""
        return f"{self.file.stem}-s{self.seed}"

    def about(self, dfa: DFA, symbols: list[str]) -> dict[str, Any]:
        """The name, class and window of the automaton, as MLRegTest names them or as the decision
        procedures say, its states, and the draw."""
        if named := NAME.fullmatch(self.file.stem):
            kind, window = named["kind"], int(named["window"]) or None
        else:
            simplest = classes_of(dfa, symbols).simplest
            kind = simplest.name if simplest else "not decided"
            window = simplest.window if simplest else None
        about = {"automaton": self.file.stem, "class": kind, "window": window}
        return about | {"states": len(dfa.states), "seed": self.seed}


@dataclass(frozen=True)
class _Draw:
    """Lines of an automaton.

    Attributes:
        corpus: all lines to learn from, for a network.
        lines: those of its training side, half of them members, for the finders.
        tests: new lines by the name of the test: as long (SR), and longer (LR).
    """

    corpus: LabelledCorpus
    lines: Lines
    tests: dict[str, Lines]

    @classmethod
    def of(cls, target: Target, dfa: DFA, symbols: list[str]) -> _Draw:
        """Raises UserError if the automaton has too few words of either label."""
        members, others = (RegularLanguage("-", one, symbols) for one in (dfa, ~dfa))
        rng = np.random.default_rng([0xA770, target.seed])

        def drawn(lengths: range, count: int, seen: Collection[Word] = ()) -> Lines:
            try:
                inside, outside = (
                    _different(side, rng, lengths, count // 2, seen) for side in (members, others)
                )
            except LookupError as error:
                raise UserError(f"{target.file} {error}: leave it out") from None
            labels = np.repeat([True, False], count // 2)
            return Lines([*inside, *outside], labels)

        every = drawn(SHORT, DRAWN)
        names = np.where(every.labels, "in", "out").tolist()
        corpus = LabelledCorpus("lines", names, every.words)
        words, labels = corpus.sides("train")
        rows = np.sort([np.flatnonzero(labels == side)[: LINES // 2] for side in (True, False)])
        lines = Lines([words[row] for row in rows.ravel()], labels[rows.ravel()])
        surplus = set(words) - set(lines.words)
        left = [at for at, word in enumerate(every.words) if word not in surplus]
        kept = LabelledCorpus("lines", [names[at] for at in left], [every.words[at] for at in left])
        past = set(every.words)
        return cls(kept, lines, {"SR": drawn(SHORT, LINES, past), "LR": drawn(LONG, LINES)})


def _different(
    language: RegularLanguage,
    rng: np.random.Generator,
    lengths: range,
    count: int,
    known: Collection[Word],
) -> list[Word]:
    """Different members of a language, as many of each length as there can be, drawn evenly.

    Args:
        known: words that are not drawn.

    Raises:
        LookupError: there are too few.
    """
    possible = [n for n in lengths if language.has(n, True)]
    words: dict[Word, None] = {}
    wanted = np.resize(possible, count)
    for _ in range(100):
        if not len(wanted):
            return list(words)
        drawn = language.draw(rng, wanted, np.ones(len(wanted), dtype=bool))
        again = []
        for word in language.vocabulary.decoded(drawn):
            if word in words or word in known:
                again.append(possible[(possible.index(len(word)) + 1) % len(possible)])
            words |= {} if word in known else {word: None}
        wanted = np.array(again, dtype=np.int64)
    raise LookupError(
        f"has too few words of {lengths[0]} to {lengths[-1]} symbols of one label to draw {count}"
    )


def targets(folder: Path, seeds: int) -> list[Target]:
    """The automata of a folder, with each draw of lines. Raises UserError if there is none."""
    files = sorted(folder.glob("*.att"))
    if not files:
        raise UserError(f"{folder} has no automaton, *.att: give a folder of files in AT&T form")
    return [Target(file, seed) for seed in range(seeds) for file in files]


def recovered(
    target: Target, out: Path, with_network: bool, device: Device
) -> list[dict[str, Any]]:
    """The rows of each way for one draw of lines; kept in a folder of its own."""
    dfa, symbols = read_automaton(target.file)
    folder = out / "automata" / target.name
    arguments = {"arrows": target.file.read_text(), "seed": target.seed}
    parts: dict[str, Callable[[_Draw], list[dict[str, Any]]]] = {
        "found": lambda draw: _by_finders(draw, dfa, symbols)
    }
    if with_network:
        parts["network"] = lambda draw: [_by_network(draw, folder, device)]
    rows = []
    for part, work in parts.items():
        kept = Answers(folder, part).asked(arguments)
        if kept is None:
            answers = work(_Draw.of(target, dfa, symbols))
            kept = Answer(pd.DataFrame(answers), f"{len(answers)} ways.", {}, arguments)
            save(folder, part, QUESTION, kept, None)
        rows += kept.table.to_dict("records")
    about = target.about(dfa, symbols)
    return [about | row for row in rows]


def _by_finders(draw: _Draw, truth: DFA, symbols: list[str]) -> list[dict[str, Any]]:
    """The results of the finders without a network, after the one that `lab rule` chooses.

    The way "lab rule" takes the seconds of all.
    """
    words, labels = draw.lines.words, draw.lines.labels
    rules: list[Found] = []

    def classes() -> Found:
        rule = best_of(search(words, labels, symbols)).formula.rule(symbols)
        return weighed(rule.dfa, symbols, words, labels, rule, "classes")

    def learned(way: str, dfa: DFA | None) -> Found:
        assert dfa is not None  # the number of states is not bounded
        rule = rule_of(dfa, symbols, empty=False)
        return weighed(dfa, symbols, words, labels, rule, way)

    ways: dict[str, Callable[[], Found]] = {
        "classes": classes,
        "annealing": lambda: learned(
            "annealing",
            annealed(words, labels, symbols, rules[0].dfa),  # from the rule on
        ),
        "RPNI": lambda: learned("RPNI", rpni(words, labels, symbols)),
        "EDSM": lambda: learned("EDSM", edsm(words, labels, symbols)),
    }
    rows = []
    for way, work in ways.items():
        begun = time.process_time()
        rules.append(work())
        rows.append(_found(rules[-1], way, draw, truth) | {"seconds": time.process_time() - begun})
    best = _found(min(rules, key=lambda rule: rule.bits), RULE, draw, truth)
    return [best | {"seconds": sum(row["seconds"] for row in rows)}, *rows]


def _found(rule: Found, way: str, draw: _Draw, truth: DFA) -> dict[str, Any]:
    """A row of the table of one draw: a rule and its tests."""
    text = rule.rule.text if rule.rule else f"an automaton of {len(rule.dfa.states)} states"
    right = _tested(lambda words: verdicts_of(rule.dfa, words), draw)
    return {"way": way, "exact": float(same(rule.dfa, truth)), **right, "says": text}


def _tested(accepts: Accepts, draw: _Draw) -> dict[str, float]:
    """The share of right verdicts in each test."""
    return {
        name: float((accepts(lines.words) == lines.labels).mean())
        for name, lines in draw.tests.items()
    }


def _by_network(draw: _Draw, folder: Path, device: Device) -> dict[str, Any]:
    """The LSTM's row: its right verdicts in each test. It has no automaton: ``exact`` is NaN."""
    lines, corpus = folder / "lines.tsv", draw.corpus
    names = np.where(corpus.line_labels, corpus.positive, corpus.negative).tolist()
    words = corpus.sides("train", "validation", "test")[0]
    write_bytes(lines, as_tsv(names, words).encode(), once=True)
    config = lstm_configuration(Discover(lines, folder), corpus)
    begun = time.process_time()
    run = trained(folder / run_name(config), config, lines, device)
    seconds = time.process_time() - begun
    right = _tested(judge(run.model()), draw)
    shutil.rmtree(run.path)  # hundreds of networks, no longer needed
    return {"way": NETWORK, "exact": np.nan, **right, "says": "", "seconds": seconds}


def findings(table: pd.DataFrame) -> tuple[str, dict[str, Any]]:
    """The means of all tests by way, and the classes in which another way is better."""
    parts = []
    for way, rows in table.groupby("way", sort=False):
        exact = rows["exact"].dropna()
        counted = f", {exact.sum():.0f} of {len(exact)} exact" if len(exact) else ""
        parts.append(f"{way} {rows['SR'].mean():.1%} and {rows['LR'].mean():.1%}{counted}")
    classes = by_class(table)
    behind = _behind(classes)
    where = ", ".join(f"{row['class']} ({row['test']}, {row['way']})" for row in behind) or "none"
    sentence = (
        f"Right on new lines of the same lengths, and on longer ones, mean over "
        f"{table['automaton'].nunique()} automata and {table['seed'].nunique()} draw(s): "
        f"{'; '.join(parts)}. Classes in which {RULE} is more than 2 points below another: {where}."
    )
    return sentence, {"by_class": classes.to_dict("records"), "behind": behind}


def _behind(classes: pd.DataFrame) -> list[dict[str, Any]]:
    """The classes in which another way is more than two points better than `lab rule`."""
    rows = []
    for test in ("SR", "LR"):
        wide = classes.pivot(index="class", columns="way", values=test)
        for way in wide.columns.drop(RULE):
            for kind in wide.index[wide[way] > wide[RULE] + 0.02]:
                rows.append({"class": kind, "test": test, "way": way})
    return rows
