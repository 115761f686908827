"""What rule did the network learn? The automaton behind its verdicts, and the rule in words."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
import pandas as pd
import torch
from altair.typing import ChartType
from automata.fa.dfa import DFA

from analyses.automaton import automaton_chart, note
from analyses.results import Progress, Result, plain, quiet
from analyses.words import ANALYSIS_SEED, sample_window
from interp.extraction import Accepts, Extraction, Word, canonical, describe, extract, regex
from interp.extraction import run as verdicts_of
from models.base import LanguageModel
from models.errors import UserError
from models.evaluation import verdicts
from models.languages import FormalLanguage, RegularLanguage
from models.runs import Run

QUESTION = "Which automaton describes the network's verdicts, and what is its rule in words?"


@dataclass(frozen=True)
class Options:
    """How hard to look.

    Attributes:
        words: words on which automaton and network must agree.
        max_states: give up beyond so many states.
        max_seconds: give up after so long; a slow machine may then miss a large automaton.
        tolerance: the share of words on which the automaton may differ: a network errs at times.
        seed: of the words.
    """

    words: int = 2000
    max_states: int = 30
    max_seconds: float = 60.0
    tolerance: float = 0.005
    seed: int = 0


def analyse(run: Run, options: Options, progress: Progress = quiet) -> Result:
    """One row per model and transition of its automaton.

    Columns: model (trained, untrained), state (0 is the start), symbol, target, accepting (of the
    state). Findings: the rule in words (None where no family fits), regex, dfa, n_states, complete
    (False: no automaton within the bounds), agreement with the network, with the language's truth
    inside the window and just beyond it, and whether the automaton is the language's own.
    """
    if options.words < 10 or options.max_states < 1 or options.max_seconds <= 0:
        raise UserError("--words must be at least 10, --max-states and --max-seconds positive")
    if not 0 <= options.tolerance < 1:
        raise UserError(f"--tolerance is {options.tolerance}: it is a share, from 0 up to 1")
    model, digest = run.model_and_hash()
    words = check_words(run, options)
    symbols = run.language.vocabulary.symbols
    tables, about = [], {}
    for done, (name, viewed) in enumerate((("trained", model), ("untrained", run.untrained()))):
        progress(done, 2, f"learning the automaton of the {name} model")
        found = extract(
            judge(viewed),
            symbols,
            words,
            options.max_states,
            options.max_seconds,
            options.tolerance,
        )
        dfa = canonical(found.dfa, symbols)
        tables.append(transitions(dfa, symbols).assign(model=name))
        about[name] = describe_extraction(run, dfa, found)
    progress(2, 2, "automata")
    table = pd.concat(tables, ignore_index=True)
    table = table[["model", "state", "symbol", "target", "accepting"]]
    findings = {**sentences(about["trained"], options), **about["trained"]}
    findings["untrained"] = about["untrained"]
    return Result(table, plain(findings), asdict(options), digest)


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


def check_words(run: Run, options: Options) -> list[Word]:
    """Half words as in the data, a quarter random symbols and a quarter random runs of symbols of
    like lengths, and all words of up to two symbols."""
    language, vocabulary = run.language, run.language.vocabulary
    sample = sample_window(run, options.words // 2, options.seed).words
    rng = np.random.default_rng([ANALYSIS_SEED, options.seed, 1])
    near = [vocabulary.decode(row[:n]) for row, n in zip(sample.ids, sample.lengths, strict=True)]
    lengths = rng.choice(np.asarray(language.lengths(run.config.max_n)), options.words - len(near))
    symbols = np.array(vocabulary.symbols)
    far: list[Word] = []
    for index, length in enumerate(lengths):
        run_of = np.arange(length)  # every symbol for itself, or up to four runs of one symbol each
        if index % 2:
            run_of = np.searchsorted(np.sort(rng.integers(length, size=3)), run_of, side="right")
        drawn = symbols[rng.integers(len(symbols), size=max(length, 4))][run_of]
        far.append(tuple(drawn.tolist()))
    short: list[Word] = [(), *((s,) for s in vocabulary.symbols)]
    if len(symbols) <= 20:
        short += [(s, t) for s in vocabulary.symbols for t in vocabulary.symbols]
    return short + near + far


def describe_extraction(run: Run, dfa: DFA, found: Extraction) -> dict[str, Any]:
    """All that is said of one automaton, JSON-able."""
    language, symbols = run.language, run.language.vocabulary.symbols
    small = found.complete and len(dfa.states) <= 12
    inside, beyond = agreement_with_truth(run, dfa)
    return {
        "rule": describe(dfa, symbols) if found.complete else None,
        "regex": regex(dfa, symbols) if small else None,
        "dfa": {
            "start": 0,
            "accepting": sorted(dfa.final_states),
            "transitions": [
                [s, a, dfa.transitions[s][a]] for s in sorted(dfa.states) for a in symbols
            ],
        },
        "n_states": len(dfa.states),
        "complete": found.complete,
        "agreement": found.agrees,
        "agreement_truth": inside,
        "agreement_truth_beyond": beyond,
        "is_the_language": dfa == language.dfa if isinstance(language, RegularLanguage) else None,
        "queries": found.queries,
        "seconds": round(found.seconds, 2),
    }


def agreement_with_truth(run: Run, dfa: DFA, count: int = 1000) -> tuple[float, float | None]:
    """Share of fresh words on which the automaton is right: in the window, and in the next one."""
    language, window = run.language, run.language.lengths(run.config.max_n)
    rng = np.random.default_rng([ANALYSIS_SEED, 2])
    shares = []
    spans = [window]
    if isinstance(language, FormalLanguage):
        spans.append(range(window.stop, 2 * window.stop))
    for lengths in spans:
        sample = language.sample(rng, count, lengths, split="test")
        rows = zip(sample.words.ids, sample.words.lengths, strict=True)
        words = [language.vocabulary.decode(row[:n]) for row, n in rows]
        shares.append(float((verdicts_of(dfa, words) == sample.labels).mean()))
    return shares[0], shares[1] if len(shares) > 1 else None


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
    """The answer in a sentence, the evidence in another, and both as the summary."""
    agreement = f"agreement with the network {found['agreement']:.2%}"
    agreement += f", with the truth {found['agreement_truth']:.2%}."
    rule = found["rule"]
    if not found["complete"]:
        headline = f"No automaton of at most {options.max_states} states describes this network."
        evidence = f"The best so far has {found['n_states']} states; {agreement} "
        evidence += "A language that counts has no finite automaton."
    else:
        seen = "regular expression" if found["regex"] else "table of transitions"
        headline = f"No rule of the known families fits; see the {seen}."
        if rule:
            headline = f"The network accepts a word if it {rule}."
        if found["n_states"] == 1:
            headline = f"The network accepts {rule}."
        evidence = f"{found['n_states']} states; {agreement}"
        if found["is_the_language"]:
            evidence += " This is exactly the language's own automaton."
    return {"headline": headline, "evidence": evidence, "summary": f"{headline} {evidence}"}


def chart(result: Result) -> ChartType:
    """The automaton of the trained model; where none describes it, that sentence."""
    if not result.findings["complete"]:
        return note(result.findings["headline"])
    return automaton_chart(result.table[result.table["model"] == "trained"])


if __name__ == "__main__":
    from analyses.cli import script

    raise SystemExit(script("discovery"))
