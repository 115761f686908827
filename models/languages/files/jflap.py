"""A grammar from a file of JFLAP, which holds a finite automaton or a grammar.

A symbol is one letter; in a grammar a capital letter is a nonterminal.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator
from xml.etree import ElementTree

from automata.fa.dfa import DFA
from automata.fa.nfa import NFA

from models.errors import UserError
from models.languages.expressions import MOST_STATES, is_small
from models.languages.regular import RegularLanguage

GIVE = "give a finite automaton or a context-free grammar of JFLAP"
KINDS = {
    "pda": "a pushdown automaton: JFLAP turns it into a grammar, Convert > Convert to Grammar",
    "re": "an expression: give it with --regex, with | in the place of +",
    "turing": f"a Turing machine: {GIVE}",
    "mealy": f"a Mealy machine: {GIVE}",
    "moore": f"a Moore machine: {GIVE}",
}
"""Other kinds of files, and what to do with them."""


def productions_of(text: str, where: str) -> str:
    """The productions of a JFLAP file, as ``reading.read`` takes them.

    For an automaton they are those of the minimal deterministic one: S for its start, and a
    nonterminal for each other state that leads to an end.

    Args:
        where: the file, for errors.

    Raises:
        UserError: the text is no JFLAP file, or holds neither a finite automaton nor a context-free
            grammar; or the automaton has no start, several, no end, or too many states.
    """
    try:
        if "<!DOCTYPE" in text:  # it may define names that unfold to gigabytes
            raise ElementTree.ParseError
        root = ElementTree.fromstring(text)
    except ElementTree.ParseError:
        raise UserError(f"{where} is XML, and no file of JFLAP: {GIVE}") from None
    kind = (root.findtext("type") or "").strip()
    try:
        if kind == "grammar":
            return "\n".join(_of_grammar(root.iter("production")))
        if kind == "fa":
            return "\n".join(_of_automaton(root))
    except UserError as error:
        raise UserError(f"{where}: {error}") from None
    raise UserError(f"{where} holds {KINDS.get(kind, f'nothing that the lab knows: {GIVE}')}")


def _of_grammar(productions: Iterable[ElementTree.Element]) -> Iterator[str]:
    for production in productions:
        left, right = ("".join((production.findtext(s) or "").split()) for s in ("left", "right"))
        if len(left) != 1 or not left.isupper():
            raise UserError(
                f"{left!r} stands left of an arrow, so the grammar is not context-free: {GIVE}"
            )
        parts = (c if c.isupper() else f"'{c}'" if c == '"' else f'"{c}"' for c in right)
        yield f"{left} -> {' '.join(parts)}"


def _of_automaton(root: ElementTree.Element) -> Iterator[str]:
    states = list(root.iter("state"))
    start, final = (
        {state.get("id", "") for state in states if state.find(mark) is not None}
        for mark in ("initial", "final")
    )
    if len(start) != 1 or not final:
        raise UserError(
            f"the automaton has {len(start)} initial states and {len(final)} final ones: give it "
            "one initial state, and a final one at least"
        )
    arrows: dict[str, dict[str, set[str]]] = {s.get("id", ""): defaultdict(set) for s in states}
    for arrow in root.iter("transition"):
        ends = [(arrow.findtext(end) or "").strip() for end in ("from", "to")]
        letters = "".join((arrow.findtext("read") or "").split())
        if not {*ends} <= arrows.keys():
            raise UserError(f"the automaton has an arrow between {' and '.join(ends)}: draw both")
        for place in range(1, len(letters)):  # one arrow may read several letters, one by one
            between = f"{len(arrows)} {place}"
            arrows[between] = defaultdict(set)
            arrows[ends[0]][letters[place - 1]].add(between)
            ends[0] = between
        arrows[ends[0]][letters[-1:]].add(ends[1])
    symbols = {letter for leads in arrows.values() for letter in leads} - {""}
    nfa = NFA(
        states={*arrows},
        input_symbols=symbols,
        transitions=arrows,
        initial_state=start.pop(),
        final_states=final,
    )
    if not symbols or not is_small(nfa):
        raise UserError(
            f"the automaton reads nothing, or needs over {MOST_STATES} states: change it"
        )
    yield from RegularLanguage("jflap", DFA.from_nfa(nfa), sorted(symbols)).productions
