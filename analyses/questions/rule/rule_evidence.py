"""The description of an automaton: as data, with the evidence for it, and in words."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from itertools import groupby
from typing import Any, Literal

import numpy as np
import pandas as pd
from automata.fa.dfa import DFA
from scipy.stats import hypergeom

from analyses.words import ANALYSIS_SEED
from interp.automata.envelope import Envelope
from interp.automata.equivalence import Word
from interp.automata.extraction import Teacher, canonical, regex
from interp.automata.extraction import run as verdicts_of
from interp.automata.induction import LIKE_NOISE, TOLERANCES, Found
from interp.statistics import wilson
from models.languages import LabelledCorpus, Language

SURE = 0.01
"""A rule is reliable only below this p-value: how likely so many right verdicts on held-out lines
would be, if rule and labels had nothing in common (Fisher's exact test)."""
SIDE = 0.9
"""A rule is not reliable if it is surely right (upper end of Wilson's 95% interval) on a smaller
share of the words that the network accepts, or of those that it rejects."""
WRITTEN = 8
"""States of the largest automaton that is written as a regular expression."""


Doubt = Literal[
    "no automaton", "too long", "chance", "fitted", "one side", "exceptions", "counting"
]
"""Why a rule is not reliable."""


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
        return cls(language.vocabulary.decoded(sample.words), sample.labels)


def described(dfa: DFA, induction: Found | None, symbols: Sequence[str]) -> dict[str, Any]:
    """An automaton in words, as an expression and as a table, with what the lines say of it."""
    return {
        "rule": induction.rule.text if induction and induction.rule else None,
        "family": induction.rule.family if induction and induction.rule else None,
        "regex": regex(dfa, symbols) if induction and len(dfa.states) <= WRITTEN else None,
        "dfa": _as_data(dfa, symbols),
        "n_states": len(dfa.states),
        "way": induction.way if induction else None,
        "wrong": induction.wrong if induction else None,
        "lines": induction.lines if induction else None,
        "mistaken": induction.mistaken if induction else None,
        "leftovers": asdict(induction.leftovers) if induction else None,
        "bits": induction.bits if induction else None,
        "bits_of_the_rule": induction.written if induction else None,
    }


def _as_data(dfa: DFA, symbols: Sequence[str]) -> dict[str, Any]:
    """A canonical automaton, JSON-able; ``rebuilt`` makes it again."""
    rows = [[s, a, dfa.transitions[s][a]] for s in sorted(dfa.states) for a in symbols]
    return {"start": 0, "accepting": sorted(dfa.final_states), "transitions": rows}


def on_held_out(dfa: DFA, held: Lines) -> dict[str, Any]:
    """A rule's answers on lines that neither the network nor the choice of the rule has seen."""
    answers, count = verdicts_of(dfa, held.words), len(held.words)
    right = int((answers == held.labels).sum())
    majority = float(max(held.labels.mean(), 1 - held.labels.mean())) if count else 1.0
    return {
        "held_out": count,
        "held_out_wrong": count - right,
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


def doubt(about: dict[str, Any]) -> Doubt | None:
    """Why the rule cannot be trusted; None if it can.

    It must explain the lines in fewer bits than no rule at all. It must tell the held-out labels
    better than chance (or, where few are held out, the lines that it was found by, corrected for
    all rules searched), and no worse than always giving the same answer. It must not be wrong more
    often on held-out lines than on those that it was fitted to. It must know both the words that
    the network accepts and those that it rejects. The lines that contradict it must look like
    noise. And if its states grow with the lines' lengths to the end, longer words must not
    contradict it.
    """
    if about["bits"] is None:
        return "no automaton"
    if about["bits"] >= about["bits_without"]:
        return "too long"
    # Few held-out lines of the rarer label show little; the lines that a rule was found by may do.
    tests = [about["p"], *([about["p_fitted"]] if "p_fitted" in about else [])]
    if len(tests) * min(tests) >= SURE or about["agreement_truth"] < about["majority"]:
        return "chance"
    if _gap(about) < SURE:
        return "fitted"
    if _one_sided(about):
        return "one side"
    if about["leftovers"]["p"] < LIKE_NOISE:
        return "exceptions"
    return "counting" if about.get("counting") and _contradicted(about) else None


def _one_sided(about: dict[str, Any]) -> bool:
    """Does the automaton miss many of the words that the network accepts, or many that it rejects?

    Where one of the two is rare, it is right on nearly all words without knowing these.
    """
    shares = about.get("agreement_sides", {}).values()
    return any(one["words"] and one["interval"][1] < SIDE for one in shares)


def _contradicted(about: dict[str, Any]) -> bool:
    """Do automaton and network agree less on words longer than the lines than on other words?"""
    usual = about["agreement"] if about["fresh"] else 1.0
    return bool(about["longer"]) and about["agreement_longer_interval"][1] < usual


def status(about: dict[str, Any]) -> str:
    """Can the rule be trusted? "rule", "exceptions" (it can, and lines contradict it) or "none"."""
    if doubt(about):
        return "none"
    return "exceptions" if about["wrong"] else "rule"


def _gap(about: dict[str, Any]) -> float:
    """The p-value of Fisher's exact test, one-sided: how likely so many of the wrong lines would be
    held-out ones, if the rule were wrong as often on the lines that it was fitted to."""
    lines, held = about["lines"], about["held_out"]
    wrong = about["wrong"] + about["held_out_wrong"]
    return float(hypergeom(lines + held, wrong, held).sf(about["held_out_wrong"] - 1))


def envelope_fields(envelope: Envelope) -> dict[str, Any]:
    """An envelope, JSON-able. Its equations are the weights of the symbols, then the constant."""
    symbols = sorted(envelope.dfa.input_symbols)
    return {
        "dfa": _as_data(canonical(envelope.dfa, symbols), symbols),
        "equations": [[*equation.weights, equation.constant] for equation in envelope.constraints],
        "name": envelope.name,
        "shape": envelope.shape,
        "constraints": envelope.said,
        "inside": envelope.inside,
        "outside": envelope.outside,
        "asked": envelope.asked,
        "obeying": envelope.obeying,
        "holds": envelope.holds,
    }


def counted(envelope: Envelope) -> str:
    """The rule of a language that counts, in words."""
    if not envelope.shape:
        return f"has {envelope.said}"
    name = f"is {envelope.name}: " if envelope.name else ""
    verb = "of" if name else "is of"
    return f"{name}{verb} the shape {envelope.shape}, with {envelope.said}"


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


def sentences(facts: dict[str, Any], max_states: int) -> dict[str, str]:
    """The answer in a sentence, and the evidence in others."""
    headline = "No reliable rule was found in the network."
    if facts["status"] == "counts":
        headline, evidence = f"The network accepts a word if it {facts['rule']}.", counting(facts)
    elif facts["status"] == "none":
        evidence = _why_not(facts, max_states)
    else:
        headline, evidence = rule_said(facts), _rule_evidence(facts)
    if facts["status"] != "none":
        evidence = " ".join([evidence, *near_words(facts["near_misses"])])
    if facts["status"] == "none" and (seen := facts.get("envelope")):
        evidence += f" Accepted words obey {seen['constraints']}, but this is not the whole rule: "
        evidence += f"of words of the same shape that obey, {seen['inside']:.1%} are accepted, and "
        evidence += f"of the others {seen['outside']:.1%} are rejected."
    return {"headline": headline, "evidence": evidence}


def rule_said(facts: dict[str, Any]) -> str:
    """The rule in words; or the automaton itself, where no family has words for it."""
    if facts["rule"]:
        return f"The network accepts a word if it {facts['rule']}."
    where = "the regular expression" if facts["regex"] else "the table of transitions"
    return (
        f"The network accepts a word if an automaton of {facts['n_states']} states does: "
        f"see {where}. The lab has no wording for it."
    )


def _agreed(about: dict[str, Any]) -> str:
    """The agreement of automaton and network on words that were not asked before."""
    if not about["fresh"]:
        return "every word that could be asked was asked while it was learned"
    low, high = about["agreement_interval"]
    sides = [
        f"on {one['agreement']:.2%} of the {one['words']} that the network {does}"
        for does, one in zip(("accepts", "rejects"), about["agreement_sides"].values(), strict=True)
        if one["words"]
    ]
    return (
        f"it agrees with the network on {about['agreement']:.2%} of {about['fresh']} words that "
        f"were not asked before (95% interval {low:.2%} to {high:.2%}; {', '.join(sides)})"
    )


def _rule_evidence(about: dict[str, Any]) -> str:
    """The evidence for a reliable rule, and how far it goes."""
    truth = f"with the held-out labels on {_per_cent(about['agreement_truth'])}"
    text = f"{about['n_states']} states; {_agreed(about)}, {truth} of {about['held_out']}."
    if about["way"] == "families":
        text += " The rule was found at the lines' own lengths; at others the network behaves "
        text += "differently."
    if about["way"] == "lines":
        text += " It was learned from words like the lines. Of words unlike them it says nothing."
    if not about["finished"]:
        text += f" Not finished: {about['queries']} words were asked, and some tests are left. A "
        text += "larger --queries may give another automaton."
    if about["is_the_language"]:
        text += " This is exactly the language's own automaton."
    if about["wrong"]:
        noise = about["wrong"] / about["lines"]
        text += f" {about['wrong']} of {about['lines']} lines ({noise:.1%}) contradict it; "
        text += "they share nothing that sets them apart from the others "
        text += f"(p = {about['leftovers']['p']:.2g})."
    if about["mistaken"]:
        text += (
            f" In at least {about['mistaken']} of them the network gives the line's label: there "
        )
        text += "the rule is wrong, or the network knows the line by heart."
    if about["counting"]:
        text += " Its states grow with the words to the end of the lines' lengths "
        text += f"({steps(about['growth'])}). {_longer(about) or 'No longer word could be asked.'}"
    if any(about["sensitive"].values()):
        text += " The choice hangs on the scale of the code: another automaton wins if the bits of "
        text += "rules count half or twice."
    return text


def near_words(rows: Sequence[dict[str, Any]]) -> list[str]:
    """Sentences on the network's answers to words of the rule, and to words one edit away."""
    if not rows:
        return []
    kinds = {row["kind"]: 0 for row in rows}
    for row in rows:
        kinds[row["kind"]] += row["words"]
    counts = " and ".join(
        f"{count} word{'s' * (count != 1)} {kind}" for kind, count in kinds.items()
    )
    lines = [f"It was also asked {counts}, of up to {rows[-1]['length']} symbols."]
    for row in rows:
        if wrong := row["words"] - round(row["agree"] * row["words"]):
            verb = "rejects" if row["kind"] == "accepted by the rule" else "accepts"
            lines.append(
                f"Up to {row['length']} symbols the network {verb} {wrong} of {row['words']} words "
                f"{row['kind']}, such as {_short(row['examples'][0])}."
            )
    return lines if len(lines) > 1 else [f"{lines[0]} The network agrees on all of them."]


def _short(word: list[str]) -> str:
    """A word, with runs of equal symbols as powers."""
    runs = [(symbol, len(list(run))) for symbol, run in groupby(word)]
    return " ".join(symbol if size == 1 else f"{symbol}^{size}" for symbol, size in runs)


def counting(facts: dict[str, Any]) -> str:
    """The evidence for a shape and equations."""
    seen, grows = facts["envelope"], facts["states_by_length"]
    return (
        f"No finite automaton fits: it grows with the words ({steps(grows)}). Of {seen['asked']} "
        f"fresh words and near misses, {seen['inside']:.1%} of those that obey are accepted, "
        f"{seen['outside']:.1%} of the others are rejected."
    )


def _why_not(about: dict[str, Any], max_states: int) -> str:
    """Why no reliable rule was found."""
    truth = f"{_per_cent(about['agreement_truth'])} of {about['held_out']} held-out labels"
    best = f"The best automaton has {about['n_states']} states; {_agreed(about)}"
    doubted = about["doubt"]
    if doubted == "no automaton":
        text = f"No automaton of at most {max_states} states was found that agrees with the "
        text += f"network on {1 - TOLERANCES[0]:.0%} of the words asked. {best}."
    elif doubted == "too long":
        text = f"{best}. But it takes more bits than a list of the lines of the rarer label."
    elif doubted == "chance":
        text = f"The best automaton ({about['n_states']} states) is right on {truth}; always "
        text += f"giving the same answer is right on {about['majority']:.2%}."
    elif doubted == "fitted":
        text = f"{best}. But it is right on {truth}, and of the {about['lines']} lines that it was "
        text += f"fitted to {about['wrong']} contradict it: it does not hold beyond these lines."
    elif doubted == "one side":
        text = f"{best}. So it does not tell both what the network accepts and what it rejects."
    elif doubted == "exceptions":
        text = f"{best}, with {truth}. But the lines that contradict it are not noise: "
        text += f"{about['leftovers']['feature']}."
    else:
        whole = f"it takes {about['growth_of']} to leave nothing unexplained, and these"
        grow = "its states" if about["growth_of"] == about["n_states"] else whole
        text = f"{best}. But {grow} grow with the words to the end of the lines' lengths "
        text += f"({steps(about['growth'])}). The network may count, and then no automaton is "
        text += "right on longer words."
    if not about["finished"]:
        text = (
            f"Not finished: learning ended when the network had been asked {about['queries']} "
            "words. This says nothing of the network; ask again with a larger --queries. "
            f"{best}."
        )
    if about["doubt"] == "counting":
        text += f" {_longer(about)}"
    return text


def _longer(about: dict[str, Any]) -> str:
    """Agreement of automaton and network on words longer than the lines; "" if none was asked."""
    if not about["longer"]:
        return ""
    low, high = about["agreement_longer_interval"]
    return (
        f"On {about['longer']} words longer than the lines it agrees with the network on "
        f"{about['agreement_longer']:.2%} (95% interval {low:.2%} to {high:.2%})."
    )


def _per_cent(share: float | None) -> str:
    """A share in per cent; "none" where there are no lines to take it of."""
    return "none" if share is None else f"{share:.2%}"


def steps(states_by_length: dict[str, str]) -> str:
    """The growth of the automaton, in words."""
    parts = [f"{states} states up to {n} symbols" for n, states in states_by_length.items()]
    return ", ".join(parts)
