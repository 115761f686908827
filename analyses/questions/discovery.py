"""What rule did the network learn? The automaton behind its verdicts, and the rule in words."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
import pandas as pd
import torch
from altair.typing import ChartType
from automata.fa.dfa import DFA
from scipy.stats import hypergeom

from analyses.answers import Answer, Progress, Question, numbers, plain, quiet
from analyses.charts.automaton import automaton_chart, note
from analyses.script import script
from analyses.words import ANALYSIS_SEED
from interp.automata.envelope import Envelope, envelope
from interp.automata.extraction import Accepts, Teacher, Word, canonical, extract, regex
from interp.automata.extraction import run as verdicts_of
from interp.automata.induction import LIKE_NOISE, Found, Induction, Search, induce, words_near
from interp.automata.transitions import carriers, moving_pairs
from interp.causal.metrics import logit_at
from interp.statistics import wilson
from models.base import LanguageModel
from models.errors import UserError
from models.languages import END_ID, LabelledCorpus, Language, RegularLanguage
from models.objectives import Objective
from models.runs.run import Run
from models.training.evaluation import verdicts

MOST_LINES = 5000
"""Of a grammar's words or a corpus' lines, those that choose between the rules."""
HELD_OUT = 1000
"""Lines on which the rule is judged; of a corpus all that were set apart for it."""
SURE = 0.01
"""p-value of the held-out lines (Fisher's exact test), had rule and labels nothing in common."""
PAIRS = 24
"""Pairs of words for each transition."""
DRAWN = 12
"""States of the largest automaton that is drawn."""
WRITTEN = 8
"""States of the largest automaton that is written as a regular expression."""


@dataclass(frozen=True)
class Options:
    """How hard to look.

    Attributes:
        words: words on which automaton and network must agree.
        max_states: give up beyond so many states.
        max_seconds: give up after so long; a slow machine may then miss a large automaton.
        seed: of the words.
    """

    words: int = 2000
    max_states: int = 30
    max_seconds: float = 20.0
    seed: int = 0

    def __post_init__(self) -> None:
        if self.words < 10 or self.max_states < 1 or self.max_seconds <= 0:
            raise UserError("--words must be at least 10, --max-states and --max-seconds positive")


@dataclass(frozen=True)
class Lines:
    """Words with their labels."""

    words: list[Word]
    labels: np.ndarray

    @classmethod
    def drawn(cls, language: Language, max_n: int, count: int, seed: int, test: bool) -> Lines:
        """Of a corpus its own lines, each once: those set apart for the test, or all others. Of a
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


def analyse(run: Run, options: Options, progress: Progress = quiet) -> Answer:
    """One row per model and transition of its automaton.

    Columns: model (trained, untrained), state (0 is the start), symbol, target, accepting (of the
    state). Findings:

    - status: "rule", "exceptions" (some lines contradict it), "counts" (a shape and equations, no
      automaton) or "none" (no reliable rule); headline and evidence say it in sentences;
    - rule (None where no family fits), family, regex, dfa, n_states, complete (False: no automaton
      within the bounds), way ("automaton", or "families": found at the lines' own lengths alone);
    - agreement with the network on the words asked, agreement_other_lengths with it on shorter and
      longer words, agreement_truth with held-out labels, and _beyond the window where a grammar
      tells; by_length of the held-out lines; is_the_language;
    - wrong of so many lines, leftovers (what these share), p (of the held-out lines by chance);
    - envelope, for a language that counts, and states_by_length, how its automaton grows;
    - heads: what each head carries of each transition.

    Raises:
        UserError: a bound that bounds nothing, or a corpus without held-out lines.
    """
    model, digest = run.model_and_hash()
    symbols = run.language.vocabulary.symbols
    tables, about = [], {}
    for done, (name, viewed) in enumerate((("trained", model), ("untrained", run.untrained()))):
        progress(done, 3, f"learning the automaton of the {name} model")
        about[name], dfa = discovered(run, viewed, options)
        tables.append(transitions(dfa, symbols).assign(model=name))
    progress(2, 3, "which heads carry it")
    table = pd.concat(tables, ignore_index=True)
    table = table[["model", "state", "symbol", "target", "accepting"]]
    findings = {**sentences(about["trained"], options), **about["trained"]}
    findings["heads"] = heads(run, model, rebuilt(findings["dfa"], symbols), options)
    findings["untrained"] = about["untrained"]
    progress(3, 3, "discovery")
    sentence = f"{findings['headline']} {findings['evidence']}"
    return Answer(table, sentence, plain(findings), asdict(options), digest)


def discovered(run: Run, model: LanguageModel, options: Options) -> tuple[dict[str, Any], DFA]:
    """All that is said of one model's rule, JSON-able, and its automaton."""
    language, symbols = run.language, run.language.vocabulary.symbols
    lines = Lines.drawn(language, run.config.max_n, MOST_LINES, options.seed, test=False)
    held = Lines.drawn(language, run.config.max_n, HELD_OUT, options.seed, test=True)
    search = Search(options.words, options.max_states, options.max_seconds, options.seed)
    induction = induce(judge(run.objective, model), symbols, lines.words, lines.labels, search)
    teacher, best = induction.teacher, next(iter(induction.found), None)
    dfa = best.dfa if best else canonical(induction.learned.dfa, symbols)
    learned_table = run.config.model.positions == "learned"
    room = run.config.model.n_ctx - 1 if learned_table else None
    others = other_lengths(held.words, symbols, options, room)
    about = described(dfa, best, symbols) | on_held_out(dfa, held) | by_length(dfa, teacher, held)
    about |= {
        "complete": best is not None,
        "agreement": best.agrees if best else induction.learned.agrees,
        "agreement_other_lengths": float((verdicts_of(dfa, others) == teacher(others)).mean())
        if others
        else None,
        "agreement_truth_beyond": beyond_the_window(run, dfa),
        "bits_without": induction.constant,
        "is_the_language": dfa == language.dfa if isinstance(language, RegularLanguage) else None,
        "queries": len(teacher.known),
    }
    about["status"] = status(about)
    if about["status"] == "none" or about["rule"] is None:
        about |= beyond_regular(about, induction, symbols, lines, options)
    return about, dfa


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
    """A rule on lines that neither the network nor the choice of the rule has seen."""
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
    """p-value of Fisher's exact test, one-sided: had answers and labels nothing in common."""
    if not len(labels):
        return 1.0
    hits = (answers & labels).sum()
    return float(hypergeom(len(labels), labels.sum(), answers.sum()).sf(hits - 1))


def by_length(dfa: DFA, teacher: Teacher, held: Lines) -> dict[str, Any]:
    """The held-out lines that rule and network get right, in all and for each length."""
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


def beyond_the_window(run: Run, dfa: DFA) -> float | None:
    """Share right on fresh words of up to twice the window's length; a corpus has none."""
    language, window = run.language, run.language.lengths(run.config.max_n)
    if isinstance(language, LabelledCorpus):
        return None
    rng = np.random.default_rng([ANALYSIS_SEED, 2])
    fresh = Lines.of(language, rng, HELD_OUT, range(window.stop, 2 * window.stop))
    return float((verdicts_of(dfa, fresh.words) == fresh.labels).mean())


def other_lengths(
    words: Sequence[Word], symbols: Sequence[str], options: Options, room: int | None
) -> list[Word]:
    """Words of lengths that the lines have not: shorter ones, and up to half as long again.

    Args:
        room: the longest word that the network reads; None: any.
    """
    seen = {len(word) for word in words}
    rng = np.random.default_rng([ANALYSIS_SEED, options.seed, 3])
    longest = max(seen, default=0) + max(2, max(seen, default=0) // 2)
    free = [n for n in range(1, min(longest, room or longest) + 1) if n not in seen]
    if not seen or not free:
        return []
    near = words_near(words, symbols, Search(options.words // 4, seed=options.seed))
    made = []
    for word in near:
        length = int(rng.choice(free))
        start = int(rng.integers(len(word)))
        made.append(tuple(word[(start + i) % len(word)] for i in range(length)))
    return made


def status(about: dict[str, Any]) -> str:
    """Is there a rule to be trusted?

    It must explain the lines in fewer bits than no rule at all, tell the held-out labels, and no
    worse than always the same answer does; and what it leaves over must look like noise.
    """
    if about["bits"] is None or about["bits"] >= about["bits_without"] or about["p"] >= SURE:
        return "none"
    if about["agreement_truth"] < about["majority"]:
        return "none"
    if about["leftovers"]["p"] < LIKE_NOISE:
        return "none"
    return "exceptions" if about["wrong"] else "rule"


def beyond_regular(
    about: Mapping[str, Any],
    induction: Induction,
    symbols: Sequence[str],
    lines: Lines,
    options: Options,
) -> dict[str, Any]:
    """The envelope of a language that counts, and how the automaton grows with the words.

    Nothing where no equations are found, or where an automaton does better on the lines.
    """
    teacher = induction.teacher
    found = envelope(teacher, symbols, [*lines.words, *induction.asked], options.seed)
    if found is None:
        return {}
    wrong = int((found.obeyed(lines.words, symbols) != lines.labels).sum())
    if about["status"] != "none" and not (found.holds and wrong <= about["wrong"]):
        return {}
    if not found.holds:
        return {"envelope": said(found)}
    longest = max(len(word) for word in lines.words)
    growing = {}
    for length in sorted({max(2, longest // 4), max(2, longest // 2), longest}):
        short = [word for word in induction.asked if len(word) <= length]
        if short:
            learned = extract(teacher, symbols, short, options.max_states, options.max_seconds)
            most = f"more than {options.max_states}"
            growing[str(length)] = str(len(learned.dfa.states)) if learned.complete else most
    return {
        "envelope": said(found),
        "states_by_length": growing,
        "status": "counts",
        "rule": counted(found),
        "wrong": wrong,
    }


def said(found: Envelope) -> dict[str, Any]:
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


def judge(objective: Objective, model: LanguageModel) -> Accepts:
    """The model's verdicts on words of any lengths, in batches of like lengths."""

    @torch.no_grad()
    def accepts(words: Sequence[Word]) -> np.ndarray:
        answers = np.empty(len(words), dtype=bool)
        by_length = np.argsort([len(word) for word in words], kind="stable")
        for rows in np.array_split(by_length, -(-len(words) // 512)):
            batch = model.vocabulary.words([words[row] for row in rows])
            answers[rows] = verdicts(objective, model, model(torch.as_tensor(batch.tokens)), batch)
        return answers

    return accepts


def heads(run: Run, model: LanguageModel, dfa: DFA, options: Options) -> list[dict[str, Any]]:
    """What each head carries of each transition; nothing for a model without heads.

    Of the lines those of the commonest length; their accepted words that one symbol keeps inside.
    """
    if "blocks.0.attn.hook_z" not in model.hook_dict or not 1 < len(dfa.states) <= DRAWN:
        return []
    vocabulary = run.language.vocabulary
    lines = Lines.drawn(run.language, run.config.max_n, MOST_LINES, options.seed, test=False)
    inside = [w for w, yes in zip(lines.words, verdicts_of(dfa, lines.words), strict=True) if yes]
    if not inside:
        return []
    lengths = [len(word) for word in inside]
    length = max(sorted(set(lengths)), key=lambda n: (n > 1) * lengths.count(n))
    same = [word for word in inside if len(word) == length]
    pairs = moving_pairs(dfa, vocabulary.symbols, same, most=PAIRS, seed=options.seed)
    moves = [move for move, found in pairs.items() for _ in found]
    words = [pair for found in pairs.values() for pair in found]
    if not words:
        return []
    moving, partner = (
        torch.as_tensor(vocabulary.words([pair[side] for pair in words]).tokens) for side in (0, 1)
    )
    at = int(model.verdict_positions(torch.tensor([length])))
    table = carriers(model, (moving, partner), moves, logit_at(END_ID, at))
    return list(table.to_dict("records"))


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


def sentences(found: dict[str, Any], options: Options) -> dict[str, str]:
    """The answer in a sentence, the evidence in others, and both as the summary."""
    network = f"it agrees with the network on {found['agreement']:.2%} of the words asked"
    truth = f"with the held-out labels on {per_cent(found['agreement_truth'])}"
    states = f"{found['n_states']} states"
    headline, evidence = "No reliable rule was found.", ""
    if found["status"] in ("rule", "exceptions"):
        headline = "No rule of the known families fits; see the regular expression."
        if found["regex"] is None:
            headline = "No rule of the known families fits; see the table of transitions."
        if found["rule"]:
            headline = f"The network accepts a word if it {found['rule']}."
        evidence = f"{states}; {network}, {truth}."
        if found["way"] == "families":
            evidence += " Found at the lines' own lengths: at others the network goes other ways."
        if found["is_the_language"]:
            evidence += " This is exactly the language's own automaton."
        if found["wrong"]:
            noise = found["wrong"] / found["lines"]
            evidence += f" {found['wrong']} of {found['lines']} lines ({noise:.1%}) contradict it, "
            evidence += "and share "
            evidence += f"nothing that others have not (p = {found['leftovers']['p']:.2g})."
    elif found["status"] == "counts":
        seen, grows = found["envelope"], found["states_by_length"]
        headline = f"The network accepts a word if it {found['rule']}."
        evidence = f"No finite automaton: it grows with the words ({steps(grows)}). "
        evidence += f"Of {seen['asked']} fresh words and near misses, {seen['inside']:.1%} of those"
        evidence += f" that obey are accepted, {seen['outside']:.1%} of the others rejected."
    elif not found["complete"]:
        evidence = f"No automaton of at most {options.max_states} states describes this network; "
        evidence += f"the best so far has {states} and agrees with it on {found['agreement']:.2%} "
        evidence += "of the words asked."
    elif found["leftovers"]["p"] >= LIKE_NOISE:
        evidence = f"The best automaton ({states}) is right on "
        evidence += f"{per_cent(found['agreement_truth'])} of the held-out labels; always the same "
        evidence += f"answer on {found['majority']:.2%}."
    else:
        evidence = f"The best automaton has {states}; {network}, {truth}. But its exceptions are "
        evidence += f"no noise: {found['leftovers']['feature']}."
    if found["status"] == "none" and (seen := found.get("envelope")):
        evidence += f" Accepted words obey {seen['constraints']}; yet that is not all: of words "
        evidence += f"that obey, in the same shape, {seen['inside']:.1%} are accepted, and of the "
        evidence += f"others {seen['outside']:.1%} rejected."
    return {"headline": headline, "evidence": evidence}


def per_cent(share: float | None) -> str:
    """A share; of no lines at all it is not known."""
    return "none" if share is None else f"{share:.2%}"


def steps(states_by_length: dict[str, str]) -> str:
    """How the automaton grows, in words."""
    parts = [f"{states} states up to {n} symbols" for n, states in states_by_length.items()]
    return ", ".join(parts)


NUMBERS = {
    "is_the_language": "automaton: exactly the language's",
    "complete": "automaton: within the bounds",
    "n_states": "automaton: states",
    "agreement": "automaton: agrees with the network",
    "agreement_other_lengths": "automaton: agrees with it at other lengths",
    "agreement_truth": "automaton: held-out labels right",
    "agreement_truth_beyond": "automaton: labels beyond the window right",
    "network_right": "network: held-out labels right",
    "majority": "always the same answer: held-out labels right",
}
"""The findings that are compared over seeds, in words; 1 stands for yes."""


def headline(result: Answer) -> pd.DataFrame:
    """The numbers that are compared over seeds: variable (the model), of, value."""
    rows: list[tuple[str, str, float | None]] = []
    for model, found in (
        ("trained", result.findings),
        ("untrained", result.findings["untrained"]),
    ):
        rows.append((model, "reliable rule", found["status"] != "none"))
        rows.append((model, "shape and equations", found["status"] == "counts"))
        if seen := found.get("envelope"):
            rows.append((model, "equations: words that obey accepted", seen["inside"]))
            rows.append((model, "equations: other words rejected", seen["outside"]))
        rows += [(model, said, found[name]) for name, said in NUMBERS.items()]
    return numbers(rows)


def chart(result: Answer) -> ChartType:
    """The automaton of the trained model; where none describes it, that sentence."""
    if result.findings["status"] not in ("rule", "exceptions"):
        return note(result.findings["headline"])
    return automaton_chart(result.table[result.table["model"] == "trained"])


QUESTION = Question(
    "discovery",
    "Which rule describes the network's verdicts, and how far is it to be trusted?",
    Options,
    analyse,
    headline,
    chart,
)

if __name__ == "__main__":
    raise SystemExit(script(QUESTION))
