"""The rule behind a network that the lab did not make, in words: headline and evidence."""

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


def sentences(facts: dict[str, Any], max_states: int) -> dict[str, str]:
    """The answer in a sentence, and the evidence in others."""
    parts = [_evidence(facts, max_states)]
    judge = "rule" if facts["status"] == "counts" else "automaton"
    for where, which in (("within", "of up to"), ("beyond", "of more than")):
        if share := facts[where]:
            parts.append(
                f"On {share['words']} new words {which} {facts['length']} symbols the {judge} is "
                f"right on {_sides(share['apart'])}."
            )
    parts += near_words(facts["near_misses"])
    if not facts["finished"]:
        parts.append(
            f"Not finished: {facts['queries']} words were asked, and some tests are left. A larger "
            "--queries may give another automaton."
        )
    parts.append(f"The network {'accepts' if facts['empty'] else 'rejects'} the empty word.")
    parts.append(f"The same network with random weights: {_brief(facts['random'])}.")
    parts.append(_reading(facts))
    return {"headline": _headline(facts), "evidence": " ".join(parts)}


def _headline(facts: dict[str, Any]) -> str:
    if facts["status"] == "constant":
        every = bool(facts["dfa"]["accepting"])
        return f"The network accepts {'every' if every else 'no'} word that it was asked."
    if facts["status"] == "none":
        return "No reliable rule was found in the network."
    sentence = rule_said(facts)
    if facts["status"] == "counts":
        sentence = f"The network accepts a word if it {facts['rule']}."
    if facts["reach"] == facts["looked"]:
        return f"{sentence} Tested on words of up to {facts['looked']} symbols."
    reach = f"This holds for words of up to {facts['reach']} symbols, and not for all longer ones."
    return f"{sentence} {reach}"


def _evidence(facts: dict[str, Any], max_states: int) -> str:
    """The evidence for the rule, or the reason why there is none."""
    states = f"Its automaton has {facts['n_states']} state{'s' * (facts['n_states'] > 1)}."
    if facts["status"] == "counts":
        return counting(facts)
    if facts["status"] == "none":
        sides = _sides(facts["sides"])
        growth = steps(facts["growth"])
        why = REASONS[facts["doubt"]].format(max_states=max_states, growth=growth, sides=sides)
        return f"No automaton is reliable: {why}. The best has {facts['n_states']} states."
    if facts["status"] == "exceptions":
        return f"{states} {facts['wrong']} of {facts['lines']} words contradict it."
    return states


def _sides(apart: dict[str, Any]) -> str:
    """The shares of the accepted and of the rejected words on which a rule is right."""
    verbs = {"accepted": "accepts", "rejected": "rejects"}
    shares = [
        f"{part['agree']:.2%} (95% interval {part['low']:.2%} to {part['high']:.2%}) of the "
        f"{part['words']} that the network {verbs[side]}"
        for side, part in apart.items()
        if part
    ]
    none = "".join(f"; it {verbs[side]} none of them" for side, part in apart.items() if not part)
    return " and ".join(shares) + none


def _reading(facts: dict[str, Any]) -> str:
    """The reading of the network, and which reading is consistent."""
    name = {"softmax": "a softmax", "sets": "sets of next symbols"}[facts["reads"]]
    trial, fit = facts["trial"], facts["consistent"]
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
        only = "only this reading" if fit == [facts["reads"]] else "only the other reading"
        return f"It was read as {name}; {only} is consistent: {why}."
    same = f"both readings are consistent, and say the same of {trial['same']:.1%} of next symbols"
    return f"It was read as {name}; {same}{other * (trial['same'] < 1)}."


def _brief(facts: dict[str, Any]) -> str:
    """The control in a few words."""
    if facts["status"] == "constant":
        return f"accepts {'every' if facts['dfa']['accepting'] else 'no'} word"
    if facts["status"] == "none":
        return "no reliable rule"
    what = f"accepts a word if it {facts['rule']}" if facts["rule"] else "another rule"
    return f"{what} ({facts['n_states']} states)"
