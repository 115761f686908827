"""The recovery of rules: they are planted in labelled lines and discovered again.

A study plants rules, draws lines, and asks `lab rule` and its rivals for the rule. An answer is
right only if its automaton is the planted one. "No reliable rule" and a wrong rule are different
mistakes, and are counted apart. A way is one of the finders of `lab rule`, or "best": the answer of
`lab rule` itself, whoever found it.

    OUT/recovery/NAME/...            the runs of each corpus
    OUT/results/recovery-STUDY-1/    a row per corpus and way
"""

from __future__ import annotations

import shutil
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from automata.fa.dfa import DFA

from analyses.answers import Answer, Answers, Progress, plain, quiet, save
from analyses.charts.discovery import recovery_chart, shares
from analyses.jobs.workers import side_by_side
from analyses.options.lines import MOST_MINUTES, Discover, Recover, Study
from analyses.questions.rule.rule_evidence import rebuilt
from analyses.rules import of_automata
from analyses.rules.discover import discover
from analyses.rules.lines import as_tsv
from analyses.rules.of_automata import Target
from interp.automata.equivalence import Word
from interp.automata.extraction import run as verdicts_of
from interp.automata.formulas.literals import Literal
from interp.automata.rule_search import same
from interp.automata.rules import Families, Rule
from interp.statistics import wilson
from models.config import Device
from models.languages import DUTCH, RegularLanguage, language
from models.languages.disfluencies import disfluent, fillers_of
from models.runs.files import write_bytes
from models.runs.folders import RUN_FILE
from models.training.trainer import choose_device

VOCABULARY = ("appel", "brood", "kaas", "melk", "peer", "soep", "thee", "vis")
LENGTHS = (1, 12)
"""The fewest and the most words in a line of a planted rule; all lengths are equally likely."""
LINES = 5000
SIZES = (100, 250, 500, 1000, 2500, 5000)
NOISE = (0.0, 0.05, 0.1, 0.2, 0.3)
DISFLUENT = (0.0, 0.05, 0.1, 0.2, 0.4)
SPOKEN = ("side by side", "ends", "even")
"""The first rule of each of these families is said by a speaker who stumbles, as dieren-gaps is."""
QUESTION = "How much of a planted rule comes back from labelled lines?"
BEST = "best"
"""The way of `lab rule` itself, whichever finder won."""
KEPT = "recovered"
"""The name under which the folder of a corpus keeps its rows."""


def file_name(study: str) -> str:
    """The name of a study's table, record and figures."""
    return f"recovery-{study}"


def planted() -> dict[str, tuple[str, DFA]]:
    """The planted rules by their words: the family of each, and its automaton."""
    f = Families(VOCABULARY)
    a, b, k, m, p, s, t, v = VOCABULARY
    rules = {
        "contains": [f.contains(k), f.contains(a, v), f.contains(s, t, s)],
        "side by side": [f.side_by_side(m, b), f.side_by_side(v, v), f.side_by_side(a, k)],
        "starts": [f.starts(t), f.starts(p, m), ~f.starts(b)],
        "ends": [f.ends(b), f.ends(k, s), f.ends(v, v)],
        "same ends": [f.same_ends()],
        "at least": [f.at_least(2, m), f.at_least(3, a)],
        "at most": [f.at_most(1, p), f.at_most(2, t)],
        "exactly": [f.exactly(1, k), f.exactly(2, v)],
        "even": [f.even(a), f.even(s)],
        "never": [~f.contains(v), ~f.side_by_side(b, b), ~f.contains(m, k, t)],
        "before": [f.before(a, b), f.all_before(p, s), f.before(v, t)],
        "and": [
            f.starts(a) & f.ends(b),
            f.contains(k) & ~f.contains(v),
            f.contains(a) & f.contains(m),
        ],
        "or": [
            f.starts(s) | f.ends(s),
            f.at_least(2, v) | f.at_least(2, p),
            f.side_by_side(a, b) | f.starts(t),
        ],
        "xor": [
            f.contains(a) ^ f.contains(t),
            f.starts(m) ^ f.ends(m),
            f.contains(k) ^ f.ends(v),
        ],
    }
    rules["on a tier"] = _on_tiers()
    table = {rule.text: (family, rule.dfa.minify()) for family, of in rules.items() for rule in of}
    odd = f.even(a) ^ f.even(b) ^ f.even(k) ^ f.even(m)  # the sum of four parities
    text = f"has an even number of {a}, {b}, {k} and {m} together"
    return table | {text: ("even", (~odd).dfa.minify())}


def _on_tiers() -> list[Rule]:
    """The planted rules that leave out all but a few words."""
    a, b, k, m, p, s, t, v = range(len(VOCABULARY))
    literals = {
        Literal("runs", ((a,), (b,), (a,)), tier=(a, b)): True,
        Literal("runs", ((s,), (t,)), tier=(s, t)): True,
        Literal("runs", ((p,), (v,), (p,)), tier=(p, v)): False,
        Literal("pattern", ((k, k),), tier=(k, m)): False,
        Literal("pattern", ((m, t),), tier=(m, s, t)): False,
        Literal("pattern", ((v, v),), tier=(p, s, v)): True,
        Literal("pattern", ((b,),), ends=True, tier=(b, k)): True,
        Literal("pattern", ((p, s),), starts=True, tier=(p, s, t)): True,
        Literal("pattern", ((a, v), (a,)), tier=(a, v)): True,
        Literal("times", ((s, m),), tier=(m, s), number=2): True,
    }
    rules = [(literal.rule(VOCABULARY), holds) for literal, holds in literals.items()]
    return [rule if holds else ~rule for rule, holds in rules]


@dataclass(frozen=True)
class Corpus:
    """Lines that are drawn from a rule.

    Attributes:
        name: the name of its folder.
        family: the family of the rule.
        rule: the rule in words: one of ``planted`` or ``DUTCH``, "random labels" or "as many x as
            y".
        lines: the number of lines.
        noise: the share of the labels that are turned into the other one.
        disfluent: the share of the symbols at which the speaker stumbles
            (``models.languages.disfluencies``); the labels are those of what was meant.
        seed: seed of the drawn lines.
    """

    name: str
    family: str
    rule: str
    lines: int = LINES
    noise: float = 0.0
    seed: int = 0
    disfluent: float = 0.0

    def truth(self) -> DFA | None:
        """The rule's automaton; None where no automaton is right."""
        if self.rule in DUTCH:
            dutch = language(self.rule)
            assert isinstance(dutch, RegularLanguage)
            return dutch.dfa
        return planted()[self.rule][1] if self.rule in planted() else None

    def drawn(self) -> tuple[list[str], list[Word]]:
        """Labels, "in" or "out", and lines."""
        rng = np.random.default_rng([0x2EC0, self.seed])
        if self.rule in DUTCH:
            dutch = language(self.rule)
            sample = dutch.sample(rng, self.lines, [10])
            words = dutch.vocabulary.decoded(sample.words)
            labels = sample.labels
        else:
            lengths = rng.integers(LENGTHS[0], LENGTHS[1] + 1, size=self.lines)
            words = [tuple(np.array(VOCABULARY)[rng.integers(8, size=n)].tolist()) for n in lengths]
            labels = self._labelled(words, rng)
        labels = labels ^ (rng.random(self.lines) < self.noise)
        if self.disfluent:
            words = self._spoken(words, rng)
        return np.where(labels, "in", "out").tolist(), words

    def _spoken(self, words: list[Word], rng: np.random.Generator) -> list[Word]:
        """The lines as a speaker stumbles over them; none has more than four times its words."""
        truth = self.truth()
        assert truth is not None
        source = RegularLanguage(self.rule, truth, sorted(truth.input_symbols))
        lines, most = source.vocabulary.words(words), 4 * max(map(len, words))
        spoken = disfluent(lines, rng, self.disfluent, fillers_of(source), most)
        return source.vocabulary.decoded(spoken)

    def _labelled(self, words: list[Word], rng: np.random.Generator) -> np.ndarray:
        truth = self.truth()
        if truth is not None:
            return verdicts_of(truth, words)
        if self.rule == COUNTED:
            return np.array([w.count(VOCABULARY[0]) == w.count(VOCABULARY[1]) for w in words])
        return rng.random(len(words)) < 0.5


COUNTED = f"as many {VOCABULARY[0]} as {VOCABULARY[1]}"
COUNTED_SAID = f"has #{VOCABULARY[0]} = #{VOCABULARY[1]}"
RANDOM = "random labels"


def _corpora(study: Study, seeds: int) -> list[Corpus]:
    """The corpora of a study; 0 seeds stand for the study's own number."""
    if study == "rules":
        pairs = [(family, rule) for rule, (family, _) in planted().items()]
        pairs += [("no rule", RANDOM), ("no automaton", COUNTED)]
        return [
            Corpus(f"rule-{i}-s{seed}", family, rule, seed=seed)
            for seed in range(seeds or 1)
            for i, (family, rule) in enumerate(pairs)
        ]
    if study == "dieren":
        return [Corpus(f"dieren-s{s}", "blocks", "dieren", seed=s) for s in range(seeds or 10)]
    if study == "lines":
        return [
            Corpus(f"dieren-gaps-{n}-s{seed}", "contains", "dieren-gaps", n, seed=seed)
            for n in SIZES
            for seed in range(seeds or 3)
        ]
    if study == "disfluent":
        first = {family: rule for rule, (family, _) in reversed(planted().items())}
        rules = {"contains": "dieren-gaps"} | {family: first[family] for family in SPOKEN}
        return [
            Corpus(f"spoken-{i}-{share:.2f}-s{seed}", family, rule, seed=seed, disfluent=share)
            for share in DISFLUENT
            for i, (family, rule) in enumerate(rules.items())
            for seed in range(seeds or 3)
        ]
    return [
        Corpus(f"dieren-gaps-{noise:.2f}-s{seed}", "contains", "dieren-gaps", LINES, noise, seed)
        for noise in NOISE
        for seed in range(seeds or 3)
    ]


def recover(options: Recover, progress: Progress = quiet) -> Answer:
    """One row per corpus and way.

    Columns: family, rule, lines, noise, disfluent, positives (their share), seed, way, outcome
    (exact, no reliable rule, wrong rule), says, states, against (lines that contradict what was
    found), right (share of the held-out lines), networks (how many were trained), seconds.

    Of automata: automaton, class, window, states, seed, way, exact (1 or 0; NaN for a network), SR
    and LR (the shares of both tests that are right), says, seconds (of CPU).
    """
    work: Callable[..., list[dict[str, Any]]]
    if options.automata:
        tasks: Sequence[Corpus | Target] = of_automata.targets(options.automata, options.seeds or 2)
        work, summary, question = of_automata.recovered, of_automata.findings, of_automata.QUESTION
    else:
        tasks = _corpora(options.study, options.seeds)
        work, summary, question = recovered, _findings, QUESTION
    out = options.out / "recovery"
    jobs = {one: (one, out, options.rivals, options.device) for one in tasks}
    rows: dict[Corpus | Target, list[dict[str, Any]]] = {}
    progress(0, len(jobs), options.study)
    for one, row in side_by_side(work, jobs, options.workers, options.scheduler):
        rows[one] = row
        progress(len(rows), len(jobs), one.name)
    table = pd.DataFrame([row for one in tasks for row in rows[one]])
    sentence, details = summary(table)
    arguments = {"study": options.study, "seeds": options.seeds, "rivals": options.rivals}
    result = Answer(table, sentence, plain(details), arguments)
    return save(options.out, file_name(options.study), question, result, recovery_chart(result))


def recovered(corpus: Corpus, out: Path, with_rivals: bool, device: Device) -> list[dict[str, Any]]:
    """The rows of every way for one corpus; kept in the folder of the corpus."""
    folder, arguments = out / corpus.name, plain(asdict(corpus) | {"rivals": with_rivals})
    if (kept := Answers(folder, KEPT).asked(arguments)) is not None:
        return kept.table.to_dict("records")
    choose_device(device)  # a device that is missing leaves no lines behind
    labels, words = corpus.drawn()
    lines = folder / "lines.tsv"
    write_bytes(lines, as_tsv(labels, words).encode(), once=True)
    before = set(folder.iterdir())
    options = Discover(lines, folder, accepted="in", rivals=with_rivals, device=device)
    # What a study finds must not hang on the speed of the machine.
    record = discover(replace(options, minutes=MOST_MINUTES))
    truth = corpus.truth()
    rows = []
    for way in (_best(record), *record["ways"]):
        exact = False
        if truth is not None and way["dfa"] is not None:
            symbols = sorted(truth.input_symbols)
            seen = {symbol for _, symbol, _ in way["dfa"]["transitions"]}
            exact = set(symbols) == seen and same(rebuilt(way["dfa"], symbols), truth)
        elif corpus.rule == COUNTED:
            exact = way["status"] == "counts" and way["rule"] == COUNTED_SAID
        reliable = way["status"] != "none"
        outcome = "no reliable rule" if not reliable else "exact" if exact else "wrong rule"
        rows.append(
            {
                "family": corpus.family,
                "rule": corpus.rule,
                "lines": corpus.lines,
                "noise": corpus.noise,
                "disfluent": corpus.disfluent,
                "positives": labels.count("in") / len(labels),
                "seed": corpus.seed,
                "way": way["way"],
                "outcome": outcome,
                "says": way["rule"],
                "states": way["states"],
                "against": way["wrong"],
                "right": way["held-out right"],
                "networks": len(record["networks"]),
                "seconds": way["seconds"],
            }
        )
    sentence = f"Of {corpus.rule}: {', '.join(row['outcome'] for row in rows)}."
    save(folder, KEPT, QUESTION, Answer(pd.DataFrame(rows), sentence, {}, arguments), None)
    made = {file.parent for file in folder.glob(f"*/{RUN_FILE}")} - before
    # Hundreds of networks, no longer needed; what a reader has put there stays.
    for run in made | {folder / network["run"] for network in record["networks"]}:
        shutil.rmtree(run)
    return rows


def _best(record: dict[str, Any]) -> dict[str, Any]:
    """The answer of `lab rule` as a way of its own; it takes the seconds of all ways."""
    answer = dict.fromkeys(("rule", "states", "dfa", "wrong", "held-out right"))
    if record["best"]:
        answer = next(way for way in record["ways"] if way["way"] == record["best"]["way"])
    status = record["best"]["status"] if record["best"] else "none"
    seconds = round(sum(way["seconds"] for way in record["ways"]), 1)
    return answer | {"way": BEST, "status": status, "seconds": seconds}


def _findings(table: pd.DataFrame) -> tuple[str, dict[str, Any]]:
    """The shares recovered, and both kinds of error."""
    ours = table[table["way"] == BEST]
    ruled = ours[~ours["family"].isin(["no rule", "no automaton"])]
    exact, count = int((ruled["outcome"] == "exact").sum()), len(ruled)
    low, high = wilson(exact, count)
    missed = int((ruled["outcome"] == "no reliable rule").sum())
    wrong = int((ours["outcome"] == "wrong rule").sum())
    sentence = (
        f"Rules recovered exactly by lab rule: {exact} of {count} ({exact / count:.0%}, 95% "
        f"interval {low:.0%} to {high:.0%}). Rules for which it found no reliable rule: {missed}. "
        f"Corpora for which it found a wrong one: {wrong} of {len(ours)}. From lines to rule: "
        f"{ours['seconds'].median():.0f} s (median)."
    )
    return sentence, {"shares": shares(table).to_dict("records")}
