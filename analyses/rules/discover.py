"""The rule behind labelled lines: `lab rule lines.tsv`.

The lines are split. Networks learn them, one kind after the other, until the rule of one network
explains them. The best rule is chosen by training and validation lines alone, and judged once on
held-out lines. Other finders get the same lines: a search of the classes of rules, passive learning
of automata, and an LSTM. The best code wins, whoever found it. Finders are called ways to the rule.
When the CPU time is spent, no other network is trained, and the best rule so far is the answer.

    OUT/NAME-s0/ ...                  the networks, each a normal run
    OUT/discoveries/NAME/lines.tsv    the lines as they were used
    OUT/discoveries/NAME/record.json  the progress, then the result
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import asdict, replace
from functools import cache, partial
from pathlib import Path
from typing import Any, Literal

import numpy as np
from automata.fa.dfa import DFA

from analyses.answers import Progress, answer, plain, quiet
from analyses.jobs.trained import check_same, trained
from analyses.options.lines import Discover
from analyses.options.rule import Discovery
from analyses.questions.rule.discovery import judge
from analyses.questions.rule.rule_evidence import (
    SURE,
    Lines,
    described,
    doubt,
    on_held_out,
    rebuilt,
    status,
)
from analyses.rules.budget import Budget
from analyses.rules.choice import FITTED, best_of, chance, choice, same_rule
from analyses.rules.lines import as_tsv, prepared
from analyses.rules.record import FOLDER, LINES, RECORD, kept
from interp.automata.evidence import constant_bits
from interp.automata.extraction import run as verdicts_of
from interp.automata.formulas.search import Searched, search
from interp.automata.induction import ENOUGH, weighed
from interp.automata.passive.annealing import annealed
from interp.automata.passive.merging import Finder, edsm, rpni
from interp.automata.rule_search import rule_of
from interp.automata.rules import Rule
from models.config import TrainConfig
from models.errors import UserError
from models.languages import SPLITS, LabelledCorpus
from models.model_config import ModelConfig
from models.plain_files import read_bytes
from models.runs.files import locked, write_bytes, write_json
from models.runs.folders import RUN_FILE
from models.runs.run import Run, run_name
from models.training.recipes import recipe
from models.training.trainer import choose_device

TOKENS = 2048
"""About so many symbols are in a training step: the longer the lines, the fewer of them."""

CANDIDATES: tuple[dict[str, Any], ...] = (
    {"positions": "none"},
    {"positions": "rotary"},
    {"positions": "learned"},
    {"positions": "none", "d_model": 128, "d_mlp": 256, "seed": 1, "steps": 1200},
    {"positions": "rotary", "seed": 1, "steps": 1200},
)
"""The networks that learn the lines, in this order, until the rule of one explains them. A network
without positions is the most reliable at other lengths; rules about neighbouring words or the ends
of a line call for positions."""

HOPELESS = 3
"""After so many networks that are no better than chance on held-out lines, no other is trained."""

FEW = 0.05
"""If the shortest formula is wrong on no more of the lines, small automata are annealed, too."""
RIGHT = 0.97
"""A network that is right on such a share of the held-out lines has learned them."""

Way = Literal["Transformer", "classes", "LSTM", "annealing", "RPNI", "EDSM"]


def discover(options: Discover, progress: Progress = quiet) -> dict[str, Any]:
    """Trains networks, extracts a rule, says it in words and compares it with those of the rivals.

    Returns the record, which is also kept in the folder. While another process learns the same
    corpus, this one waits until that one has finished or died.

    Raises:
        UserError: the file cannot be read, a line is malformed, there is nothing to learn from.
    """
    choose_device(options.device)  # a device that is missing leaves no record behind
    labels, words, notes = prepared(options.lines, options.accepted, options.words)
    corpus = LabelledCorpus(options.name, labels, words)  # what it refuses leaves no folder behind
    folder, content = options.out / FOLDER / options.name, as_tsv(labels, words).encode()
    with locked(folder):
        lines = folder / LINES
        if lines.exists() and read_bytes(lines, "remove it") != content:
            raise UserError(
                f"{folder} was made of other lines, or for the other label: choose another name "
                "with --name, or another folder with --out"
            )
        before: dict[str, Any] = kept(options.out, options.name) or {}
        if before.get("notes") and options.lines.resolve() == lines.resolve():
            notes = before["notes"]  # these lines are prepared already
        _check_runs(options, corpus, content)
        write_bytes(lines, content)
        # A finished record stays until the new one is finished, too.
        follow = before.get("status") != "finished"
        return _discover(options, folder, corpus, notes, progress, follow)


def _check_runs(options: Discover, corpus: LabelledCorpus, content: bytes) -> None:
    """Raises UserError where a network would be trained in a folder that is no run, or another."""
    for changes in CANDIDATES[: options.networks] if _are_enough(corpus) else ():
        config = _configuration(options, corpus, changes)
        path = options.out / run_name(config)
        if (path / RUN_FILE).exists():
            check_same(Run(path), config, content)
        else:
            Run.check_new(path)


def _are_enough(corpus: LabelledCorpus) -> bool:
    """Are there lines of both labels on every side?"""
    return all(len(set(corpus.sides(side)[1])) == 2 for side in SPLITS)


def _discover(
    options: Discover,
    folder: Path,
    corpus: LabelledCorpus,
    notes: list[str],
    progress: Progress,
    follow: bool,
) -> dict[str, Any]:
    """``discover`` on prepared lines. The caller holds the folder's lock.

    Args:
        follow: whether the record reports the progress in between.
    """
    start, positive = time.monotonic(), int(corpus.line_labels.sum())
    budget = Budget(options.minutes)
    record: dict[str, Any] = {
        "name": options.name,
        "options": {k: str(v) if isinstance(v, Path) else v for k, v in asdict(options).items()},
        "labels": [corpus.positive, corpus.negative],
        "lines": {corpus.positive: positive, corpus.negative: len(corpus.lines) - positive},
        "notes": notes,
        "status": "learning",
        "networks": [],
        "ways": [],
    }
    enough = _are_enough(corpus)
    lines, held = (Lines(*corpus.sides(*s)) for s in (("train", "validation"), ("test",)))
    if not enough:
        lines, held = Lines(*corpus.sides(*SPLITS)), Lines([], np.array([], dtype=bool))
    symbols = corpus.vocabulary.symbols
    searched = cache(lambda: search(lines.words, lines.labels, symbols))
    ways = _finders(options, folder, corpus, (lines, held), searched)

    def report(done: int, what: str) -> None:
        record["doing"] = what
        if follow or record["status"] == "finished":
            write_json(folder / RECORD, record)
        progress(done, 1 + len(ways), what)

    report(0, "learning")
    run, findings = None, _too_few(corpus)
    if enough:
        findings, run = _learned(options, folder, corpus, record, report, budget)
        record["ways"].append(_row("Transformer", findings, time.monotonic() - start))
    record |= {"run": run.name if run else None, "found": findings}
    record["seconds"] = round(time.monotonic() - start, 1)
    for done, (way, work) in enumerate(ways.items(), 1):
        if way == "LSTM" and budget.ends(f"the {way}"):
            continue
        if way == "annealing" and not _few_exceptions(searched()):
            continue
        report(done, f"finder: {way}")
        begun = time.monotonic()
        record["ways"].append(_row(way, work(), time.monotonic() - begun))
    record |= choice(record["ways"], searched(), Lines(*corpus.sides(*SPLITS)), symbols)
    for way in record["ways"]:
        way["same"] = same_rule(way, record["best"], symbols)
    record["disagreements"] = _disagreements(run, findings) if run else []
    record |= {"stopped": budget.stopped, "status": "finished"}
    report(1 + len(ways), "discovered")
    return dict(plain(record))


def _too_few(corpus: LabelledCorpus) -> dict[str, Any]:
    """The findings where there are too few lines to set some of both labels apart."""
    lines = len(corpus.lines)
    return {
        "status": "none",
        "headline": "No network was asked for a rule.",
        "evidence": f"{lines} lines are too few to teach a network and to judge its rule.",
        **dict.fromkeys(("rule", "regex", "dfa", "n_states", "agreement")),
    }


# -- the network --------------------------------------------------------------------------------


def _learned(
    options: Discover,
    folder: Path,
    corpus: LabelledCorpus,
    record: dict[str, Any],
    report: Callable[[int, str], None],
    budget: Budget,
) -> tuple[dict[str, Any], Run]:
    """The findings of the network whose rule explains training and validation lines in the fewest
    bits, and its run."""
    best: tuple[float, dict[str, Any], Run] | None = None
    learnt_nothing = 0
    question = Discovery(queries=options.queries, seed=options.seed)
    candidates = CANDIDATES[: options.networks]
    for number, changes in enumerate(candidates, 1):
        which = f"network {number} of {len(candidates)}"
        if best and budget.ends(which):
            break
        config = _configuration(options, corpus, changes)
        name = run_name(config)
        path = options.out / name
        record["networks"].append({"run": name})
        with budget.network():
            seen = _watched(config, which, report)
            run = trained(path, config, folder / LINES, options.device, seen)
            report(0, f"{which}, {name}: asking for its rule")
            result, _ = answer(run, "discovery", question)
        findings = dict(result.findings)
        bits = _code_length(findings)
        record["networks"][-1] |= {
            "status": findings["status"],
            "rule": findings["rule"],
            "states": findings["n_states"],
            "wrong": findings["wrong"],
            "bits": findings["bits"],
            "network_right": findings["network_right"],
            "finished": findings["finished"],
        }
        if best is None or bits < best[0]:
            best = bits, findings, run
        learnt_nothing += findings["network_p"] >= SURE
        if _explained(findings) or learnt_nothing >= HOPELESS or _futile(findings):
            break
    assert best is not None  # there is at least one candidate
    return best[1], best[2]


def _watched(
    config: TrainConfig, which: str, report: Callable[[int, str], None]
) -> Callable[[int, float | None], None]:
    """A progress function for training that reports at every evaluation.

    Args:
        which: the network in words, such as "network 2 of 5".
    """

    def progress(step: int, value: float | None) -> None:
        if step % config.evaluate_every == 0:
            report(0, f"{which}, {run_name(config)}: step {step} of at most {config.steps}")

    return progress


def _configuration(
    options: Discover, corpus: LabelledCorpus, changes: dict[str, Any]
) -> TrainConfig:
    """A candidate's training: the longer the lines, the fewer of them are in a step."""
    model = {k: v for k, v in changes.items() if k not in ("seed", "steps")}
    base = recipe("")
    longest = int(corpus.lines.lengths.max())
    return replace(
        base,
        language=options.name,
        seed=options.seed * 10 + changes.get("seed", 0),
        steps=changes.get("steps", base.steps),
        batch_size=max(16, min(base.batch_size, TOKENS // longest)),
        learning_rate=3e-3,
        patience=3,
        model=replace(base.model, **model),
    )


def lstm_configuration(options: Discover, corpus: LabelledCorpus) -> TrainConfig:
    """The configuration of the LSTM that learns the same lines."""
    model = ModelConfig(architecture="lstm", act_fn="relu")
    return replace(_configuration(options, corpus, {}), model=model)


def _code_length(findings: dict[str, Any]) -> float:
    """The bits of a rule and its exceptions. A shape with equations counts as explaining all lines
    (0 bits); without any rule the number is infinite."""
    if findings["status"] == "counts":
        return 0.0
    if findings["bits"] is None:
        return float("inf")
    return float(findings["bits"])


def _explained(findings: dict[str, Any]) -> bool:
    """Is there nothing left for another network to explain?"""
    if findings["status"] == "exceptions":
        return findings["wrong"] >= ENOUGH
    return findings["status"] in ("rule", "counts")


def _futile(findings: dict[str, Any]) -> bool:
    """Would another network help as little?

    This one is right on nearly all held-out lines. But the budget of words ended before its
    automaton was learned, or it seems to count, and no automaton describes it.
    """
    halted = not findings["finished"] or findings["doubt"] == "counting"
    return halted and (findings["network_right"] or 0.0) >= RIGHT


# -- the other finders --------------------------------------------------------------------------


def _finders(
    options: Discover,
    folder: Path,
    corpus: LabelledCorpus,
    sides: tuple[Lines, Lines],
    searched: Callable[[], Searched],
) -> dict[Way, Callable[[], dict[str, Any]]]:
    """A function for each finder but the Transformer, which returns its findings.

    Args:
        sides: the lines that choose a rule, and those that judge it; where there are too few lines
            to hold some out, none judge it, and no network learns.
        searched: the formulas that were found in the lines.
    """
    lines, held = sides
    symbols = corpus.vocabulary.symbols

    def judged(dfa: DFA, rule: Rule | None, way: str) -> dict[str, Any]:
        candidate = weighed(dfa, symbols, lines.words, lines.labels, rule, way)
        about = described(candidate.dfa, candidate, symbols) | on_held_out(candidate.dfa, held)
        about["bits_without"] = constant_bits(lines.labels)
        return about | {"status": status(about), "doubt": doubt(about)}

    def classes() -> dict[str, Any]:
        fit = best_of(searched())
        rule = fit.formula.rule(symbols)
        about = judged(rule.dfa, rule, "classes")
        answers = verdicts_of(rule.dfa, lines.words)
        about |= chance(fit, answers, lines.labels)
        if held.words:
            about |= {"status": status(about), "doubt": doubt(about)}
        elif about["p_fitted"] < SURE:  # the test itself is the evidence
            about |= {"status": "exceptions" if about["wrong"] else "rule", "doubt": None}
        return about

    def lstm() -> dict[str, Any]:
        config = lstm_configuration(options, corpus)
        run = trained(options.out / run_name(config), config, folder / LINES, options.device)
        question = Discovery(queries=options.queries, seed=options.seed)
        result, _ = answer(run, "discovery", question)
        return dict(result.findings)

    def merged(finder: Finder, way: Way) -> dict[str, Any]:
        dfa = finder(lines.words, lines.labels, symbols)
        assert dfa is not None  # its states are not limited
        return judged(dfa, rule_of(dfa, symbols, empty=False), way)

    ways: dict[Way, Callable[[], dict[str, Any]]] = {"classes": classes}
    if not options.rivals:
        return ways

    def annealing() -> dict[str, Any]:
        start = best_of(searched()).formula.rule(symbols).dfa
        dfa = annealed(lines.words, lines.labels, symbols, start)
        return judged(dfa, rule_of(dfa, symbols, empty=False), "annealing")

    merges: dict[Way, Callable[[], dict[str, Any]]] = {
        "annealing": annealing,
        "RPNI": partial(merged, rpni, "RPNI"),
        "EDSM": partial(merged, edsm, "EDSM"),
    }
    return ways | ({"LSTM": lstm} if held.words else {}) | merges


def _few_exceptions(searched: Searched) -> bool:
    """Does the shortest formula leave so few exceptions that a small automaton may explain them?"""
    fit = best_of(searched)
    return 0 < fit.wrong <= FEW * len(fit.formula.fits)


def _row(way: Way, findings: dict[str, Any], seconds: float) -> dict[str, Any]:
    """A row of the table of all ways."""
    return {
        "way": way,
        "status": findings["status"],
        "rule": findings["rule"],
        "states": findings["n_states"],
        "dfa": findings["dfa"],
        "bits": findings["bits"],
        "written": findings["bits_of_the_rule"],
        "wrong": findings["wrong"],
        "held-out right": findings["agreement_truth"],
        "held out": findings.get("held_out", 0),
        "regex": findings["regex"],
        "doubt": findings.get("doubt"),
        "seconds": round(seconds, 1),
        **{key: findings[key] for key in FITTED if key in findings},
    }


def _disagreements(run: Run, findings: dict[str, Any], most: int = 200) -> list[dict[str, Any]]:
    """Lines on which label, rule and network do not all agree."""
    corpus = run.language
    assert isinstance(corpus, LabelledCorpus)
    words, labels = corpus.sides("train", "validation", "test")
    by_rule = verdicts_of(rebuilt(findings["dfa"], corpus.vocabulary.symbols), words)
    by_network = judge(run.model())(words)
    names = np.array([corpus.negative, corpus.positive])
    odd = np.flatnonzero((by_rule != labels) | (by_network != labels))
    return [
        {
            "line": " ".join(words[i]),
            "label": str(names[int(labels[i])]),
            "rule": str(names[int(by_rule[i])]),
            "network": str(names[int(by_network[i])]),
        }
        for i in odd[:most]
    ]
