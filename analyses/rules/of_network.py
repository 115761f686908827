"""The rule behind a language model that the lab did not make: `lab rule --model DIR`.

Nobody labels lines here. The network itself makes half of the words, the others are near misses and
random words, and its verdicts are their labels. From there the rule is found as in a run of the
lab. The control is the same network with random weights.

    OUT/foreign-NAME/results/foreign-rule-1/...    the answer: table, record, picture
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass, fields
from typing import Any

import numpy as np
import pandas as pd
from altair.typing import ChartType
from automata.fa.dfa import DFA

from analyses.answers import Answer, Answers, Progress, plain, quiet, save
from analyses.charts.automaton import automaton_chart, note
from analyses.options.lines import OfNetwork
from analyses.options.rule import Discovery
from analyses.questions.rule.learned_rule import claim_of, learned, near_rule, shared
from analyses.questions.rule.rule_evidence import Lines, transitions
from analyses.rules.network_in_words import sentences
from interp.automata.equivalence import Word
from interp.automata.extraction import Teacher
from interp.automata.words_near import words_near
from models.errors import UserError
from models.foreign.folder import read
from models.foreign.network import Asked, Foreign
from models.foreign.trial import consistent
from models.runs.files import locked
from models.training.trainer import choose_device

NAME = "foreign-rule"
QUESTION = "What rule did a network learn that the lab did not make?"
OWN, OTHERS = 500, 500
"""So many words that the network makes, and so many other words, choose between the rules; as many
new ones judge the rule that was chosen."""
A_LENGTH = 100
"""At most so many words of every length test the rule."""
LENGTH = 12
"""The longest words that are asked while the rule is learned, where the network reads so many."""
ENOUGH = 0.9
"""A rule that is surely right on fewer of the words that the network accepts, or on fewer of those
that it rejects, is not told: the upper end of a 95% interval is below it. Chance leaves a rule
that is right on 97% of the words, as the search asks for, above it nearly always."""
NETWORKS = ("the network", "random weights")


@dataclass(frozen=True)
class _Learned:
    """The rule that a network learned.

    Attributes:
        about: the findings, JSON-able: those of the question "discovery", except those that
            hang on a run.
        dfa: the automaton.
        teacher: the network's verdicts so far.
    """

    about: dict[str, Any]
    dfa: DFA
    teacher: Teacher


def rule_of_network(options: OfNetwork, progress: Progress = quiet) -> tuple[Answer, bool]:
    """The rule behind a network's verdicts; True if the same was asked before, and is kept.

    A row of the table is a transition: model ("the network", "random weights"), state (0 is the
    start), symbol, target, accepting (of the state). Findings are those of the question
    "discovery", where labels are the network's own verdicts. Further ones are:

    - status may also be "constant": every word, or none, is accepted;
    - symbols, begin, end, least, length, room (of the longest word that the network can read);
    - reads ("softmax" or "sets"), and, if neither the options nor the folder say how to read, the
      trial of both and the readings that are consistent (else None);
    - empty: whether the network accepts the empty word, which the rule does not judge;
    - tested: for each length, the number of words that were not asked before, how many of them are
      accepted, the share on which rule and network agree, with a 95% interval (Wilson), the same
      apart for the words that the network accepts and rejects, and the share on which rule and
      random weights agree; within and beyond, the same over all lengths up to ``length``, and over
      all longer ones (None where there are no such words);
    - sides: as "apart" within ``length``. A side without new words has all that were asked;
    - near_misses: as ``interp.automata.near_misses``, with intervals; none without a rule;
    - looked: the longest words that were tried; reach: up to here no longer word contradicts the
      rule that holds up to ``length``;
    - doubt may also be "one side" (``ENOUGH``);
    - random: the findings of the same network with random weights.

    Raises:
        UserError: the folder, or a symbol, is not fit; the length does not fit into the context.
    """
    progress(0, 1, f"reading {options.model}")
    reading = Asked(**{f.name: getattr(options, f.name) for f in fields(Asked)})
    network = read(options.model, reading, choose_device(options.device))
    length = min(LENGTH, max(2, network.room // 2)) if options.length is None else options.length
    if length > network.room:
        raise UserError(
            f"--length is {length}: the network reads words of {network.room} symbols at most"
        )
    folder = options.out / f"foreign-{options.name}"
    search = Discovery(**{f.name: getattr(options, f.name) for f in fields(Discovery)})
    border = {"begin": network.begin[0], "end": network.end[0]}
    arguments = plain(
        asdict(search)
        | {"symbols": network.symbols, **border, "least": options.least, "length": length}
        | {"reads": network.reads, "vocabulary": options.vocabulary}
    )
    with locked(folder / NAME):
        kept = Answers(folder, NAME, network.digest).asked(arguments)
        if kept is not None and not options.again:
            return kept, True
        answer = _asked(network, length, search, arguments, progress)
        return save(folder, NAME, QUESTION, answer, _chart(answer)), False


def _asked(
    network: Foreign, length: int, search: Discovery, arguments: dict[str, Any], progress: Progress
) -> Answer:
    """The answer, before it is kept."""
    untaught = network.untaught(search.seed)
    viewed = dict(zip(NETWORKS, (network, untaught), strict=True))
    most = 2 * (search.queries + 4 * (OWN + OTHERS))
    rules: dict[str, _Learned] = {}
    for done, (name, model) in enumerate(viewed.items()):
        teacher = _told(model, progress, done * most // 2, most, f"asking {name}")
        rules[name] = _learned(model, teacher, length, search)
    ours, control = rules.values()
    tested = _tested(network, ours, control.teacher, length, search.seed)
    findings = {
        **ours.about,
        **{key: arguments[key] for key in ("symbols", "begin", "end", "least", "length", "reads")},
        "trial": network.trial,
        "consistent": consistent(network.trial) if network.trial else None,
        "room": network.room,
        "empty": bool(ours.teacher([()])[0]),
        **tested,
        "random": control.about,
    }
    findings |= _judged(findings) | _reach(findings)
    findings |= sentences(findings, search.max_states)
    table = pd.concat(
        transitions(one.dfa, network.symbols).assign(model=name) for name, one in rules.items()
    )
    table = table[["model", "state", "symbol", "target", "accepting"]].reset_index(drop=True)
    text = f"{findings['headline']} {findings['evidence']}"
    return Answer(table, text, plain(findings), arguments, network.digest)


def _told(network: Foreign, progress: Progress, before: int, most: int, what: str) -> Teacher:
    """A teacher that tells how many words it was asked."""
    count = 0

    def accepts(words: Sequence[Word]) -> np.ndarray:
        nonlocal count
        count += len(words)
        progress(before + min(count, most // 2), most, what)
        return network(words)

    return Teacher(accepts)


def _learned(network: Foreign, teacher: Teacher, length: int, search: Discovery) -> _Learned:
    """The rule behind a network's verdicts on words up to a length."""
    lines, held = (
        Lines(words, teacher(words))
        for words in (_words(network, length, OTHERS, [search.seed, side]) for side in (0, 1))
    )
    about, dfa = learned(teacher, network.symbols, lines, held, search, room=network.room)
    if len({yes for word, yes in teacher.known.items() if len(word) <= network.room}) == 1:
        about |= {"status": "constant", "doubt": None}
    return _Learned(about, dfa, teacher)


def _words(network: Foreign, length: int, count: int, seed: Sequence[int]) -> list[Word]:
    """Words that the network makes, and ``count`` words near these and near random ones. None is
    empty."""
    rng = np.random.default_rng(seed)
    words = [word for word in network.drawn(OWN, length, int(rng.integers(2**31))) if word]
    drawn: list[Word] = [
        tuple(network.symbols[i] for i in rng.integers(len(network.symbols), size=size))
        for size in rng.integers(1, length + 1, size=count // 2)
    ]
    return [*words, *words_near([*words, *drawn], network.symbols, count, int(rng.integers(2**31)))]


def _tested(
    network: Foreign, ours: _Learned, control: Teacher, length: int, seed: int
) -> dict[str, Any]:
    """The agreement of rule and network: on new words by length, and on near misses of the rule."""
    claim, longest = claim_of(ours.about, ours.dfa, network.symbols), min(2 * length, network.room)
    fresh = ours.teacher.unknown(_words(network, longest, 2 * A_LENGTH * longest, [seed, 2]))
    rows = pd.DataFrame({"word": fresh, "length": [len(word) for word in fresh]})
    rows = rows.groupby("length").head(A_LENGTH).sort_values("length", kind="stable")
    words = rows["word"].tolist()
    answers, rows["accepted"] = claim(words), ours.teacher(words)
    rows["agree"], rows["random"] = rows["accepted"] == answers, control(words) == answers
    parts = {"within": rows["length"] <= length, "beyond": rows["length"] > length}
    queries = [word for word in ours.teacher.known if 0 < len(word) <= length]
    before = pd.DataFrame({"accepted": ours.teacher(queries)})
    before["agree"] = before["accepted"] == claim(queries)
    fallback, new = _apart(before), _apart(rows[parts["within"]])
    near = near_rule(ours.teacher, ours.about, claim, length, network.room, seed)
    return {
        "tested": [{"length": size} | _share(part) for size, part in rows.groupby("length")],
        **{side: _share(rows[there]) if there.any() else None for side, there in parts.items()},
        "sides": {side: new[side] or fallback[side] for side in new},
        "near_misses": near,
    }


def _share(rows: pd.DataFrame) -> dict[str, Any]:
    """The number of accepted words among some, and the share on which rule and network agree."""
    return {
        **shared(int(rows["agree"].sum()), len(rows)),
        "accepted": int(rows["accepted"].sum()),
        "random weights": float(rows["random"].mean()),
        "apart": _apart(rows),
    }


def _apart(rows: pd.DataFrame) -> dict[str, dict[str, Any] | None]:
    """The agreement on the words that the network accepts, and on those that it rejects."""
    sides = {"accepted": rows[rows["accepted"]], "rejected": rows[~rows["accepted"]]}
    return {
        side: shared(int(part["agree"].sum()), len(part)) if len(part) else None
        for side, part in sides.items()
    }


def _judged(facts: dict[str, Any]) -> dict[str, Any]:
    """The status that withdraws a rule which is surely wrong on many words of one side; else {}."""
    near = [row for row in facts["near_misses"] if row["length"] == facts["length"]]
    tests = [*filter(None, facts["sides"].values()), *near]
    if facts["status"] in ("none", "constant") or all(test["high"] >= ENOUGH for test in tests):
        return {}
    return {"status": "none", "doubt": "one side"}


def _reach(facts: dict[str, Any]) -> dict[str, int]:
    """The longest words asked, and the length up to which none contradicts the rule."""
    rows = [*facts["tested"], *facts["near_misses"]]
    contradicted = [row["length"] for row in rows if row["agree"] < 1]
    looked = max([facts["length"], *(row["length"] for row in rows)])
    steps = sorted({row["length"] for row in facts["near_misses"]} | {facts["length"], looked})
    wrong = min((n for n in contradicted if n > facts["length"]), default=looked + 1)
    return {"looked": looked, "reach": max(step for step in steps if step < wrong)}


def by_length(findings: dict[str, Any]) -> pd.DataFrame:
    """A row per length: words, agree (with low and high), accepted, random weights, agree on
    accepted, agree on rejected."""
    apart = [
        {f"agree on {side}": part and part["agree"] for side, part in row["apart"].items()}
        for row in findings["tested"]
    ]
    return (
        pd.DataFrame(findings["tested"])
        .drop(columns="apart", errors="ignore")
        .join(pd.DataFrame(apart))
    )


def _chart(answer: Answer) -> ChartType:
    """The automaton; or, where none describes the network, a sentence that says so."""
    if answer.findings["status"] in ("none", "counts"):
        return note(answer.findings["headline"])
    return automaton_chart(answer.table[answer.table["model"] == NETWORKS[0]])
