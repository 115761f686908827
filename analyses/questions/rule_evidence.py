"""What the lab says of an automaton: as data, with the evidence for it, and in words."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
import pandas as pd
from automata.fa.dfa import DFA
from scipy.stats import hypergeom

from analyses.words import ANALYSIS_SEED
from interp.automata.envelope import Envelope
from interp.automata.extraction import Teacher, Word, regex
from interp.automata.extraction import run as verdicts_of
from interp.automata.induction import LIKE_NOISE, Found
from interp.statistics import wilson
from models.languages import LabelledCorpus, Language

SURE = 0.01
"""A rule is reliable only below this p-value: how likely so many right verdicts on held-out lines
would be, if rule and labels had nothing in common (Fisher's exact test)."""
WRITTEN = 8
"""States of the largest automaton that is written as a regular expression."""


@dataclass(frozen=True)
class Lines:
    """Words with their labels."""

    words: list[Word]
    labels: np.ndarray

    @classmethod
    def drawn(cls, language: Language, max_n: int, count: int, seed: int, test: bool) -> Lines:
        """For a corpus its own lines, each once: those set apart for the test, or all others. For a
        grammar fresh words of the training window.
        """
        if isinstance(language, LabelledCorpus):
            return cls(*(language.sides("test") if test else language.sides("train", "validation")))
        rng = np.random.default_rng([ANALYSIS_SEED, seed, test])
        return cls.of(language, rng, count, language.lengths(max_n))

    @classmethod
    def of(
        cls, language: Language, rng: np.random.Generator, count: int, lengths: Sequence[int]
    ) -> Lines:
        sample = language.sample(rng, count, lengths, split="test")
        rows = zip(sample.words.ids, sample.words.lengths, strict=True)
        return cls([language.vocabulary.decode(row[:n]) for row, n in rows], sample.labels)


def described(dfa: DFA, found: Found | None, symbols: Sequence[str]) -> dict[str, Any]:
    """An automaton in words, as an expression and as a table, with what the lines say of it."""
    return {
        "rule": found.rule.text if found and found.rule else None,
        "family": found.rule.family if found and found.rule else None,
        "regex": regex(dfa, symbols) if found and len(dfa.states) <= WRITTEN else None,
        "dfa": {
            "start": 0,
            "accepting": sorted(dfa.final_states),
            "transitions": [
                [s, a, dfa.transitions[s][a]] for s in sorted(dfa.states) for a in symbols
            ],
        },
        "n_states": len(dfa.states),
        "way": found.way if found else None,
        "wrong": found.wrong if found else None,
        "lines": found.lines if found else None,
        "leftovers": asdict(found.leftovers) if found else None,
        "bits": found.bits if found else None,
    }


def on_held_out(dfa: DFA, held: Lines) -> dict[str, Any]:
    """How a rule does on lines that neither the network nor the choice of the rule has seen."""
    answers, count = verdicts_of(dfa, held.words), len(held.words)
    right = int((answers == held.labels).sum())
    majority = float(max(held.labels.mean(), 1 - held.labels.mean())) if count else 1.0
    return {
        "held_out": count,
        "agreement_truth": right / count if count else None,
        "agreement_truth_interval": wilson(right, count) if count else None,
        "majority": majority,
        "p": in_common(answers, held.labels),
    }


def in_common(answers: np.ndarray, labels: np.ndarray) -> float:
    """The p-value of Fisher's exact test, one-sided: how likely so many right answers would be if
    answers and labels had nothing in common. It is 1 where there are no lines."""
    if not len(labels):
        return 1.0
    hits = (answers & labels).sum()
    return float(hypergeom(len(labels), labels.sum(), answers.sum()).sf(hits - 1))


def by_length(dfa: DFA, teacher: Teacher, held: Lines) -> dict[str, Any]:
    """The share of held-out lines that rule and network get right, in all and for each length."""
    answers = teacher(held.words)
    by_rule = verdicts_of(dfa, held.words) == held.labels
    by_network = answers == held.labels
    lengths = np.array([len(word) for word in held.words])
    rows = []
    for length in np.unique(lengths).tolist():
        here = lengths == length
        shares = {"rule": float(by_rule[here].mean()), "network": float(by_network[here].mean())}
        rows.append({"length": length, "count": int(here.sum())} | shares)
    return {
        "network_right": float(by_network.mean()) if rows else None,
        "network_p": in_common(answers, held.labels),
        "by_length": rows,
    }


def status(about: dict[str, Any]) -> str:
    """Can the rule be trusted?

    It must explain the lines in fewer bits than no rule at all. It must tell the held-out labels
    better than chance, and no worse than always giving the same answer. And the lines that
    contradict it must look like noise.
    """
    if about["bits"] is None or about["bits"] >= about["bits_without"] or about["p"] >= SURE:
        return "none"
    if about["agreement_truth"] < about["majority"]:
        return "none"
    if about["leftovers"]["p"] < LIKE_NOISE:
        return "none"
    return "exceptions" if about["wrong"] else "rule"


def envelope_fields(found: Envelope) -> dict[str, Any]:
    """An envelope, JSON-able."""
    return {
        "name": found.name,
        "shape": found.shape,
        "constraints": found.said,
        "inside": found.inside,
        "outside": found.outside,
        "asked": found.asked,
        "holds": found.holds,
    }


def counted(found: Envelope) -> str:
    """The rule of a language that counts, in words."""
    if not found.shape:
        return f"has {found.said}"
    name = f"is {found.name}: " if found.name else ""
    verb = "of" if name else "is of"
    return f"{name}{verb} the shape {found.shape}, with {found.said}"


def rebuilt(kept: dict[str, Any], symbols: Sequence[str]) -> DFA:
    """The automaton of kept findings."""
    rows: dict[int, dict[str, int]] = {}
    for state, symbol, target in kept["transitions"]:
        rows.setdefault(state, {})[symbol] = target
    return DFA(
        states=set(rows),
        input_symbols=set(symbols),
        transitions=rows,
        initial_state=kept["start"],
        final_states=set(kept["accepting"]),
    )


def transitions(dfa: DFA, symbols: Sequence[str]) -> pd.DataFrame:
    """One row per state and symbol."""
    return pd.DataFrame(
        [
            {
                "state": s,
                "symbol": a,
                "target": dfa.transitions[s][a],
                "accepting": s in dfa.final_states,
            }
            for s in sorted(dfa.states)
            for a in symbols
        ]
    )


def sentences(found: dict[str, Any], max_states: int) -> dict[str, str]:
    """The answer in a sentence, and the evidence in others."""
    network = f"it agrees with the network on {found['agreement']:.2%} of the words asked"
    truth = f"with the held-out labels on {per_cent(found['agreement_truth'])}"
    states = f"{found['n_states']} states"
    headline, evidence = "No reliable rule was found in the network.", ""
    if found["status"] in ("rule", "exceptions"):
        headline = "No rule of the known families fits; see the regular expression."
        if found["regex"] is None:
            headline = "No rule of the known families fits; see the table of transitions."
        if found["rule"]:
            headline = f"The network accepts a word if it {found['rule']}."
        evidence = f"{states}; {network}, {truth}."
        if found["way"] == "families":
            evidence += " The rule was found at the lines' own lengths; at others the network "
            evidence += "behaves differently."
        if found["is_the_language"]:
            evidence += " This is exactly the language's own automaton."
        if found["wrong"]:
            noise = found["wrong"] / found["lines"]
            evidence += f" {found['wrong']} of {found['lines']} lines ({noise:.1%}) contradict it; "
            evidence += "they share nothing that sets them apart from the others "
            evidence += f"(p = {found['leftovers']['p']:.2g})."
    elif found["status"] == "counts":
        seen, grows = found["envelope"], found["states_by_length"]
        headline = f"The network accepts a word if it {found['rule']}."
        evidence = f"No finite automaton fits: it grows with the words ({steps(grows)}). "
        evidence += f"Of {seen['asked']} fresh words and near misses, {seen['inside']:.1%} of those"
        evidence += f" that obey are accepted, {seen['outside']:.1%} of the others are rejected."
    elif not found["complete"]:
        evidence = f"No automaton of at most {max_states} states describes this network; "
        evidence += f"the best so far has {states} and agrees with it on {found['agreement']:.2%} "
        evidence += "of the words asked."
    elif found["leftovers"]["p"] >= LIKE_NOISE:
        evidence = f"The best automaton ({states}) is right on "
        evidence += f"{per_cent(found['agreement_truth'])} of the held-out labels; always giving "
        evidence += f"the same answer is right on {found['majority']:.2%}."
    else:
        evidence = f"The best automaton has {states}; {network}, {truth}. But the lines that "
        evidence += f"contradict it are not noise: {found['leftovers']['feature']}."
    if found["status"] == "none" and (seen := found.get("envelope")):
        evidence += f" Accepted words obey {seen['constraints']}, but this is not the whole rule: "
        evidence += f"of words of the same shape that obey, {seen['inside']:.1%} are accepted, and "
        evidence += f"of the others {seen['outside']:.1%} are rejected."
    return {"headline": headline, "evidence": evidence}


def per_cent(share: float | None) -> str:
    """A share in per cent; "none" where there are no lines to take it of."""
    return "none" if share is None else f"{share:.2%}"


def steps(states_by_length: dict[str, str]) -> str:
    """How the automaton grows, in words."""
    parts = [f"{states} states up to {n} symbols" for n, states in states_by_length.items()]
    return ", ".join(parts)
