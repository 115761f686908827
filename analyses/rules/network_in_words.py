"""What is said of the rule behind a network that the lab did not make: headline and evidence."""

from __future__ import annotations

from typing import Any

from analyses.questions.rule.rule_evidence import counting, near_words, rule_said, steps

REASONS = {
    "no automaton": "none of at most {max_states} states agrees with it on 97% of the words asked",
    "too long": "the best takes more bits than a list of the words with the rarer verdict",
    "chance": "the best tells its verdicts no better than one answer for all words",
    "fitted": "the best is wrong more often on new words than on those that chose it",
    "exceptions": "the words that contradict the best have something in common",
    "counting": "the states grow with the words to the end ({growth}), so the network may count",
    "one side": "a rule has to be right on both sides, and the best is right on {sides}",
}
"""Why no rule is reliable, by ``rule_evidence.Doubt``, and by ``of_network.ENOUGH``."""


def sentences(found: dict[str, Any], max_states: int) -> dict[str, str]:
    """The answer in a sentence, and the evidence in others."""
    said = [_evidence(found, max_states)]
    judge = "rule" if found["status"] == "counts" else "automaton"
    for where, which in (("within", "of up to"), ("beyond", "of more than")):
        if share := found[where]:
            said.append(
                f"On {share['words']} new words {which} {found['length']} symbols the {judge} is "
                f"right on {_sides(share['apart'])}."
            )
    said += near_words(found["near_misses"])
    if not found["finished"]:
        said.append(
            f"Not finished: {found['queries']} words were asked, and some tests are left. A larger "
            "--queries may give another automaton."
        )
    said.append(f"The network {'accepts' if found['empty'] else 'rejects'} the empty word.")
    said.append(f"The same network with random weights: {_brief(found['random'])}.")
    said.append(_reading(found))
    return {"headline": _headline(found), "evidence": " ".join(said)}


def _headline(found: dict[str, Any]) -> str:
    if found["status"] == "constant":
        every = bool(found["dfa"]["accepting"])
        return f"The network accepts {'every' if every else 'no'} word that it was asked."
    if found["status"] == "none":
        return "No reliable rule was found in the network."
    said = rule_said(found)
    if found["status"] == "counts":
        said = f"The network accepts a word if it {found['rule']}."
    if found["reach"] == found["looked"]:
        return f"{said} Tested on words of up to {found['looked']} symbols."
    reach = f"This holds for words of up to {found['reach']} symbols, and not for all longer ones."
    return f"{said} {reach}"


def _evidence(found: dict[str, Any], max_states: int) -> str:
    """What speaks for the rule, or why there is none."""
    states = f"Its automaton has {found['n_states']} state{'s' * (found['n_states'] > 1)}."
    if found["status"] == "counts":
        return counting(found)
    if found["status"] == "none":
        sides = _sides(found["sides"])
        growth = steps(found["growth"])
        why = REASONS[found["doubt"]].format(max_states=max_states, growth=growth, sides=sides)
        return f"No automaton is reliable: {why}. The best has {found['n_states']} states."
    if found["status"] == "exceptions":
        return f"{states} {found['wrong']} of {found['lines']} words contradict it."
    return states


def _sides(apart: dict[str, Any]) -> str:
    """On which share of the words that the network accepts and rejects a rule is right."""
    verbs = {"accepted": "accepts", "rejected": "rejects"}
    told = [
        f"{part['agree']:.2%} (95% interval {part['low']:.2%} to {part['high']:.2%}) of the "
        f"{part['words']} that the network {verbs[side]}"
        for side, part in apart.items()
        if part
    ]
    none = "".join(f"; it {verbs[side]} none of them" for side, part in apart.items() if not part)
    return " and ".join(told) + none


def _reading(found: dict[str, Any]) -> str:
    """The reading of the network, and which reading is consistent."""
    name = {"softmax": "a softmax", "sets": "sets of next symbols"}[found["reads"]]
    trial, fit = found["trial"], found["consistent"]
    if trial is None:
        return f"It was read as {name}."
    other = "; --reads asks the other way"
    why = (
        f"of next symbols {trial['sets']:.1%} are undecided as sets, and {trial['softmax']:.1%} as "
        "a softmax"
    )
    if not fit:
        return f"It was read as {name}, but neither reading is consistent: {why}{other}."
    if len(fit) == 1:
        only = "only this reading" if fit == [found["reads"]] else "only the other reading"
        return f"It was read as {name}; {only} is consistent: {why}."
    same = f"both readings are consistent, and say the same of {trial['same']:.1%} of next symbols"
    return f"It was read as {name}; {same}{other * (trial['same'] < 1)}."


def _brief(found: dict[str, Any]) -> str:
    """The control in a few words."""
    if found["status"] == "constant":
        return f"accepts {'every' if found['dfa']['accepting'] else 'no'} word"
    if found["status"] == "none":
        return "no reliable rule"
    what = f"accepts a word if it {found['rule']}" if found["rule"] else "another rule"
    return f"{what} ({found['n_states']} states)"
