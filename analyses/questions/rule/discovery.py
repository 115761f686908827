"""The rule that the network learned: the automaton behind its verdicts, and the rule in words."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pandas as pd
import torch
from altair.typing import ChartType
from automata.fa.dfa import DFA

from analyses.answers import Answer, Planned, Progress, numbers, of_answer, plain, quiet
from analyses.charts.automaton import automaton_chart, note
from analyses.claims import Claim
from analyses.options.rule import Discovery as Options
from analyses.questions.rule.learned_rule import claim_of, learned, near_rule
from analyses.questions.rule.rule_evidence import SIDE, Lines, rebuilt, sentences, transitions
from analyses.words import ANALYSIS_SEED
from interp.automata.equivalence import Word
from interp.automata.extraction import Accepts
from interp.automata.extraction import run as verdicts_of
from interp.automata.transitions import carriers, moving_pairs
from interp.causal.metrics import logit_at
from interp.statistics import weighted_sum, wilson
from models.base import LanguageModel
from models.languages import END_ID, LabelledCorpus, RegularLanguage
from models.runs.run import Run
from models.training.evaluation import verdicts

MOST_LINES = 5000
"""Words of a grammar that choose between the rules; of a corpus, all lines but the held-out do."""
HELD_OUT = 1000
"""Words of a grammar on which the rule is judged; of a corpus, all lines set apart for this."""
PAIRS = 24
"""Pairs of words for each transition."""
RIGHT = 0.99
"""A rule that foretells a smaller share of either verdict is told with a doubt."""
DRAWN = 12
"""States of the largest automaton that is drawn."""


def analyse(run: Run, options: Options, progress: Progress = quiet) -> Answer:
    """One row per model and transition of its automaton.

    Columns: model (trained, untrained), state (0 is the start), symbol, target, accepting (of the
    state). Findings:

    - status: "rule", "exceptions" (a rule that some lines contradict), "counts" (a shape and
      equations, no automaton) or "none" (no reliable rule), and doubt, why it is none; headline and
      evidence say it in sentences;
    - rule (None where no family fits), family, regex, dfa, n_states, complete (False: no automaton
      within the bounds), way ("automaton", "unfinished", "families": found at the lines' own
      lengths alone, or "lines": found on words like the lines alone);
    - finished (False: the budget of words ended before the tests), queries (so many words were
      asked to learn), w_method (True: all words of the W-method with one extra state were asked);
    - agreement with the network on fresh words (so many, not asked before, with a 95% interval;
      held-out lines are among them),
      agreement_other_lengths with it on shorter and longer words, agreement_longer on longer ones
      (so many, with its interval), both also for the words that the network accepts and rejects,
      apart (agreement_sides, agreement_longer_sides), agreement_truth with held-out labels,
      agreement_truth_beyond with the truth beyond the window, where a grammar knows it; by_length
      of the held-out lines; is_the_language;
    - bits of the rule and its exceptions, bits_of_the_rule, bits_without any rule; sensitive
      (whether another hypothesis wins if the rule's bits count half or twice);
    - growth (states of an automaton that is right up to a length), growth_of (so many states it
      has), counting (True: they grow to the end of the lines' lengths, and no rule in words
      explains it; that is a doubt if longer words contradict the automaton);
    - wrong (how many of so many lines contradict the rule), mistaken (in at least how many of
      these line and network agree), leftovers (what these share), p (how
      likely the held-out lines would be by chance);
    - envelope, for a language that counts, and states_by_length, how its automaton grows;
    - heads: what each head carries of each transition.

    Raises:
        UserError: a bound that is too low, or a corpus without held-out lines.
    """
    model, symbols = run.model(), run.language.vocabulary.symbols
    tables, about = [], {}
    for done, (name, viewed) in enumerate((("trained", model), ("untrained", run.untrained()))):
        progress(done, 3, f"learning the automaton of the {name} model")
        about[name], dfa = _discovered(run, viewed, options)
        tables.append(transitions(dfa, symbols).assign(model=name))
    progress(2, 3, "which heads carry it")
    table = pd.concat(tables, ignore_index=True)
    table = table[["model", "state", "symbol", "target", "accepting"]]
    findings = {**sentences(about["trained"], options.max_states), **about["trained"]}
    findings["heads"] = _heads(run, model, rebuilt(findings["dfa"], symbols), options)
    findings["untrained"] = about["untrained"]
    progress(3, 3, "discovery")
    return Answer(table, findings=plain(findings))


def _claims(answer: Answer) -> list[Claim]:
    """The rule, by the network's verdicts that it foretells, accepted and rejected words weighed
    alike; and by the held-out labels that it gives. Without a reliable rule, why there is none."""
    findings, (sides, count) = answer.findings, _sides(answer.findings)
    notes, headline = [findings["evidence"]], findings["headline"].removesuffix(".")
    labels, reliable = _labels(findings), findings["status"] != "none"
    if findings["doubt"] == "chance":
        return [replace(labels, notes=notes)]
    doubts = list(_doubts(findings, labels, sides)) if reliable else []
    if not sides:  # every word was asked while the rule was learned
        finding = f"{headline}; this gives {{}} of the held-out words their right label"
        return [replace(labels, finding=finding, doubts=doubts, notes=notes)]
    unit, interval = "words that were not asked before, all of one verdict", "Wilson"
    if len(sides) == 2:
        unit = "words that were not asked before"
        interval = "accepted and rejected words weigh the same; Wilson's intervals, put together"
    foretold = Claim(
        "The best automaton foretells {} of the network's verdicts",
        *weighted_sum(*((1 / len(sides), side) for side in sides)),
        count,
        unit,
        interval,
        {"always the same answer": 1 / len(sides)},
        ".1%",
        doubts=doubts,
        notes=notes,
    )
    if reliable:
        foretold = replace(foretold, finding=f"{headline}; this foretells {{}} of its verdicts")
        return [foretold] if findings["status"] == "counts" else [foretold, labels]
    if findings["finished"] and foretold.grade == "no better than its controls":
        return [foretold]
    finding = f"{headline}; the best automaton foretells {{}} of its verdicts"
    return [replace(foretold, finding=finding, unweighed="So none is claimed.")]


def _labels(findings: Mapping[str, Any]) -> Claim:
    """The share of held-out labels that the automaton gives."""
    low, high = findings["agreement_truth_interval"] or (None, None)
    return Claim(
        "The best automaton gives {} of the held-out words their right label",
        findings["agreement_truth"] or 0.0,
        low,
        high,
        findings["held_out"],
        "held-out words",
        "Wilson",
        {
            "always the same answer": findings["majority"],
            "the untrained network's automaton": findings["untrained"]["agreement_truth"] or np.nan,
        },
        ".1%",
    )


def _sides(findings: Mapping[str, Any]) -> tuple[list[tuple[float, float, float]], int]:
    """The shares of the network's verdicts that are foretold, each with its interval, of both
    kinds of words as far as there are any; and the number of words."""
    if findings["status"] != "counts":
        kinds = findings["agreement_sides"].values()
        sides = [(one["agreement"], *one["interval"]) for one in kinds if one["words"]]
        return sides, findings["fresh"]
    seen = findings["envelope"]
    counts = {"inside": seen["obeying"], "outside": seen["asked"] - seen["obeying"]}
    sides = [(seen[on], *wilson(round(seen[on] * n), n)) for on, n in counts.items()]
    return sides, seen["asked"]


def _doubts(
    findings: Mapping[str, Any], labels: Claim, sides: Sequence[tuple[float, float, float]]
) -> Iterator[str]:
    """Why a rule is not told without reserve, each a sentence."""
    if not findings["finished"]:
        yield "Learning was not finished."
    if any(findings["sensitive"].values()):
        yield "Another automaton wins if the bits of rules count half or twice."
    if findings["status"] != "counts" and labels.grade == "no better than its controls":
        yield f"{labels.strongest} gives as many held-out labels.".capitalize()
    if sides and min(share for share, *_ in sides) < RIGHT:
        yield f"Of one of the verdicts less than {RIGHT:.0%} are foretold."
    failed = [row for row in findings["near_misses"] if row["high"] < SIDE]
    if failed:
        row = min(failed, key=lambda row: row["agree"])
        yield (
            f"Of {row['words']} words {row['kind']}, of up to {row['length']} symbols, only "
            f"{row['agree']:.0%} are foretold."
        )


def _discovered(run: Run, model: LanguageModel, options: Options) -> tuple[dict[str, Any], DFA]:
    """All that is said of one model's rule, JSON-able, and its automaton."""
    language = run.language
    lines = Lines.drawn(language, run.config.max_n, MOST_LINES, options.seed, test=False)
    held = Lines.drawn(language, run.config.max_n, HELD_OUT, options.seed, test=True)
    room = run.config.model.most_symbols
    about, dfa = learned(judge(model), language.vocabulary.symbols, lines, held, options, room=room)
    claim, longest = claim_of(about, dfa, language.vocabulary.symbols), max(map(len, lines.words))
    about["near_misses"] = near_rule(judge(model), about, claim, longest, room, options.seed)
    about["agreement_truth_beyond"] = _beyond_the_window(run, dfa)
    about["is_the_language"] = (
        dfa == language.dfa if isinstance(language, RegularLanguage) else None
    )
    return about, dfa


def _beyond_the_window(run: Run, dfa: DFA) -> float | None:
    """The share right on fresh words longer than the window, up to about twice its length; None for
    a corpus, which has no fresh words."""
    language, window = run.language, run.language.lengths(run.config.max_n)
    if isinstance(language, LabelledCorpus):
        return None
    rng = np.random.default_rng([ANALYSIS_SEED, 2])
    fresh = Lines.of(language, rng, HELD_OUT, range(window.stop, 2 * window.stop))
    return float((verdicts_of(dfa, fresh.words) == fresh.labels).mean())


def judge(model: LanguageModel) -> Accepts:
    """The model's verdicts on words of any lengths, in batches of like lengths."""

    @torch.no_grad()
    def accepts(words: Sequence[Word]) -> np.ndarray:
        answers = np.empty(len(words), dtype=bool)
        by_length = np.argsort([len(word) for word in words], kind="stable")
        for rows in np.array_split(by_length, -(-len(words) // 512)):
            batch = model.vocabulary.words([words[row] for row in rows])
            answers[rows] = verdicts(model, model(torch.as_tensor(batch.tokens)), batch)
        return answers

    return accepts


def _heads(run: Run, model: LanguageModel, dfa: DFA, options: Options) -> list[dict[str, Any]]:
    """Each head's part in each transition; nothing for a model without heads.

    It is measured on accepted lines of one length, the commonest. One changed symbol takes each of
    them out of the language.
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
    moves = [move for move, group in pairs.items() for _ in group]
    words = [pair for group in pairs.values() for pair in group]
    if not words:
        return []
    moving, partner = (
        torch.as_tensor(vocabulary.words([pair[side] for pair in words]).tokens) for side in (0, 1)
    )
    at = int(model.verdict_positions(torch.tensor([length])))
    table = carriers(model, (moving, partner), moves, logit_at(END_ID, at))
    return list(table.to_dict("records"))


NUMBERS = {
    "is_the_language": "automaton: exactly the language's",
    "complete": "automaton: within the bounds",
    "n_states": "automaton: states",
    "finished": "automaton: learned within the budget of words",
    "counting": "automaton: its states grow to the end",
    "agreement": "automaton: agrees with the network on fresh words",
    "agreement_other_lengths": "automaton: agrees with it at other lengths",
    "agreement_truth": "automaton: held-out labels right",
    "agreement_truth_beyond": "automaton: labels beyond the window right",
    "network_right": "network: held-out labels right",
    "majority": "always the same answer: held-out labels right",
}
"""The findings that are compared over seeds, in words; 1 stands for yes."""


def _headline(result: Answer) -> pd.DataFrame:
    """The numbers that are compared over seeds: variable (the model), of, value."""
    rows: list[tuple[str, str, float | None]] = []
    for model, findings in (
        ("trained", result.findings),
        ("untrained", result.findings["untrained"]),
    ):
        rows.append((model, "reliable rule", findings["status"] != "none"))
        rows.append((model, "shape and equations", findings["status"] == "counts"))
        if seen := findings.get("envelope"):
            rows.append((model, "equations: words that obey accepted", seen["inside"]))
            rows.append((model, "equations: other words rejected", seen["outside"]))
        rows += [(model, label, findings[name]) for name, label in NUMBERS.items()]
    return numbers(rows)


def chart(result: Answer) -> ChartType:
    """The automaton of the trained model; or, where none describes it, a sentence that says so."""
    if result.findings["status"] not in ("rule", "exceptions"):
        return note(result.findings["headline"])
    return automaton_chart(result.table[result.table["model"] == "trained"])


QUESTION = of_answer(
    "discovery",
    Options,
    analyse,
    _headline,
    chart,
    _claims,
    of_inside=False,
    outcomes=(
        "reliable rule",
        "shape and equations",
        NUMBERS["is_the_language"],
        NUMBERS["complete"],
    ),
    planned=(Planned("trained", "untrained", by="variable"),),
    needs=("verdict",),
)
