"""From a language model that the lab did not make to the rule behind it: `lab rule --model DIR`.

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

from analyses.answers import Answer, Progress, kept_as_asked, plain, quiet, save
from analyses.charts.automaton import automaton_chart, note
from analyses.options.lines import OfNetwork
from analyses.options.questions import Discovery
from analyses.questions.learned_rule import learned
from analyses.questions.rule_evidence import Lines, counting, rule_said, steps, transitions
from interp.automata.equivalence import Word
from interp.automata.extraction import Teacher
from interp.automata.extraction import run as verdicts_of
from interp.automata.words_near import words_near
from interp.statistics import wilson
from models.errors import UserError
from models.foreign.folder import read
from models.foreign.network import Asked, Foreign
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
REASONS = {
    "no automaton": "none of at most {max_states} states agrees with it on 97% of the words asked",
    "too long": "the best takes more bits than a list of the words with the rarer verdict",
    "chance": "the best tells its verdicts no better than one answer for all words",
    "fitted": "the best is wrong more often on new words than on those that chose it",
    "one side": "the best tells the words that it accepts, or those that it rejects, too badly",
    "exceptions": "the words that contradict the best have something in common",
    "counting": "the states grow with the words to the end ({growth}), so the network may count",
}
"""Why no automaton is reliable, by ``rule_evidence.Doubt``."""
NETWORKS = ("the network", "random weights")


@dataclass(frozen=True)
class Learned:
    """What a network said.

    Attributes:
        about: the findings, JSON-able; as of the question "discovery", but for what hangs on a run.
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
    - empty: whether the network accepts the empty word, which the automaton does not judge;
    - tested: for each length, the number of words that were not asked before, how many of them are
      accepted, the share on which automaton and network agree, with a 95% interval (Wilson), and
      the share on which automaton and random weights agree; within and beyond, the same over all
      lengths up to ``length``, and over all longer ones (None where there are no such words);
    - random: the findings of the same network with random weights.

    Raises:
        UserError: the folder, or a symbol, is not fit; the length does not fit into the context.
    """
    progress(0, 1, f"reading {options.model}")
    asked = Asked(options.symbols, options.begin, options.end, options.least)
    network = read(options.model, asked, choose_device(options.device))
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
    )
    with locked(folder / NAME):
        kept = kept_as_asked(folder, NAME, arguments, network.digest)
        if kept is not None and not options.again:
            return kept, True
        answer = _asked(network, length, search, arguments, progress)
        return save(folder, NAME, QUESTION, answer, chart(answer)), False


def _asked(
    network: Foreign, length: int, search: Discovery, arguments: dict[str, Any], progress: Progress
) -> Answer:
    """The answer, before it is kept."""
    untaught = network.untaught(search.seed)
    viewed = dict(zip(NETWORKS, (network, untaught), strict=True))
    most = 2 * (search.queries + 4 * (OWN + OTHERS))
    found: dict[str, Learned] = {}
    for done, (name, each) in enumerate(viewed.items()):
        teacher = _told(each, progress, done * most // 2, most, f"asking {name}")
        found[name] = _learned(each, teacher, length, search)
    ours, control = found.values()
    tested = _tested(network, ours, control.teacher, length, search.seed)
    findings = {
        **ours.about,
        **{key: arguments[key] for key in ("symbols", "begin", "end", "least", "length")},
        "room": network.room,
        "empty": bool(ours.teacher([()])[0]),
        **tested,
        "random": control.about,
    }
    findings |= sentences(findings, search.max_states)
    table = pd.concat(
        transitions(one.dfa, network.symbols).assign(model=name) for name, one in found.items()
    )
    table = table[["model", "state", "symbol", "target", "accepting"]].reset_index(drop=True)
    said = f"{findings['headline']} {findings['evidence']}"
    return Answer(table, said, plain(findings), arguments, network.digest)


def _told(network: Foreign, progress: Progress, before: int, most: int, what: str) -> Teacher:
    """A teacher that tells how many words it was asked."""
    count = 0

    def accepts(words: Sequence[Word]) -> np.ndarray:
        nonlocal count
        count += len(words)
        progress(before + min(count, most // 2), most, what)
        return network(words)

    return Teacher(accepts)


def _learned(network: Foreign, teacher: Teacher, length: int, search: Discovery) -> Learned:
    """The rule behind a network's verdicts on words up to a length."""
    lines, held = (
        Lines(words, teacher(words))
        for words in (_words(network, length, OTHERS, [search.seed, side]) for side in (0, 1))
    )
    about, dfa = learned(teacher, network.symbols, lines, held, search, room=network.room)
    if len({yes for word, yes in teacher.known.items() if len(word) <= network.room}) == 1:
        about |= {"status": "constant", "doubt": None}
    return Learned(about, dfa, teacher)


def _words(network: Foreign, length: int, count: int, seed: Sequence[int]) -> list[Word]:
    """Words that the network makes, and ``count`` words near these and near random ones. None is
    empty."""
    rng = np.random.default_rng(seed)
    own = [word for word in network.drawn(OWN, length, int(rng.integers(2**31))) if word]
    drawn: list[Word] = [
        tuple(network.symbols[i] for i in rng.integers(len(network.symbols), size=size))
        for size in rng.integers(1, length + 1, size=count // 2)
    ]
    return [*own, *words_near([*own, *drawn], network.symbols, count, int(rng.integers(2**31)))]


def _tested(
    network: Foreign, ours: Learned, control: Teacher, length: int, seed: int
) -> dict[str, Any]:
    """On how many words that were not asked before automaton and network agree, by length."""
    longest = min(2 * length, network.room)
    fresh = ours.teacher.unknown(_words(network, longest, 2 * A_LENGTH * longest, [seed, 2]))
    asked = pd.DataFrame({"word": fresh, "length": [len(word) for word in fresh]})
    asked = asked.groupby("length").head(A_LENGTH).sort_values("length", kind="stable")
    words = asked["word"].tolist()
    answers, asked["accepted"] = verdicts_of(ours.dfa, words), ours.teacher(words)
    asked["agree"], asked["random"] = asked["accepted"] == answers, control(words) == answers
    sides = {"within": asked["length"] <= length, "beyond": asked["length"] > length}
    return {
        "tested": [{"length": size} | _share(part) for size, part in asked.groupby("length")],
        **{side: _share(asked[there]) if there.any() else None for side, there in sides.items()},
    }


def _share(asked: pd.DataFrame) -> dict[str, Any]:
    """Of some words, how many are accepted, and on which share automaton and network agree."""
    low, high = wilson(int(asked["agree"].sum()), len(asked))
    about = {"words": len(asked), "accepted": int(asked["accepted"].sum())}
    share = {"agree": float(asked["agree"].mean()), "low": low, "high": high}
    return {**about, **share, "random weights": float(asked["random"].mean())}


# -- in words -------------------------------------------------------------------------------------


def sentences(found: dict[str, Any], max_states: int) -> dict[str, str]:
    """The answer in a sentence, and the evidence in others."""
    said = [_evidence(found, max_states)]
    for where, which in (("within", "of up to"), ("beyond", "of more than")):
        if (share := found[where]) and found["status"] != "counts":
            said.append(
                f"On {share['words']} new words {which} {found['length']} symbols (the network "
                f"accepts {share['accepted']}) automaton and network agree on {share['agree']:.2%} "
                f"(95% interval {share['low']:.2%} to {share['high']:.2%})."
            )
    if not found["finished"]:
        said.append(
            f"Not finished: {found['queries']} words were asked, and some tests are left. A larger "
            "--queries may give another automaton."
        )
    said.append(f"The network {'accepts' if found['empty'] else 'rejects'} the empty word.")
    said.append(f"The same network with random weights: {_brief(found['random'])}.")
    return {"headline": _headline(found), "evidence": " ".join(said)}


def _headline(found: dict[str, Any]) -> str:
    if found["status"] == "constant":
        every = bool(found["dfa"]["accepting"])
        return f"The network accepts {'every' if every else 'no'} word that it was asked."
    if found["status"] == "counts":
        return f"The network accepts a word if it {found['rule']}."
    if found["status"] == "none":
        return "No reliable rule was found in the network."
    return rule_said(found)


def _evidence(found: dict[str, Any], max_states: int) -> str:
    """What speaks for the rule, or why there is none."""
    states = f"Its automaton has {found['n_states']} state{'s' * (found['n_states'] > 1)}."
    if found["status"] == "counts":
        return counting(found)
    if found["status"] == "none":
        why = REASONS[found["doubt"]].format(max_states=max_states, growth=steps(found["growth"]))
        return f"No automaton is reliable: {why}. The best has {found['n_states']} states."
    if found["status"] == "exceptions":
        return f"{states} {found['wrong']} of {found['lines']} words contradict it."
    return states


def _brief(found: dict[str, Any]) -> str:
    """The control in a few words."""
    if found["status"] == "constant":
        return f"accepts {'every' if found['dfa']['accepting'] else 'no'} word"
    if found["status"] == "none":
        return "no reliable rule"
    what = f"accepts a word if it {found['rule']}" if found["rule"] else "another rule"
    return f"{what} ({found['n_states']} states)"


def by_length(found: dict[str, Any]) -> pd.DataFrame:
    """A row per length: words, accepted, agree (with low and high), random weights."""
    return pd.DataFrame(found["tested"])


def chart(answer: Answer) -> ChartType:
    """The automaton; or, where none describes the network, a sentence that says so."""
    if answer.findings["status"] in ("none", "counts"):
        return note(answer.findings["headline"])
    return automaton_chart(answer.table[answer.table["model"] == NETWORKS[0]])
