"""A language of the user's own: a regular expression over symbols of one letter."""

from __future__ import annotations

import re
from collections import deque
from math import prod

from automata.base.exceptions import AutomatonException, RegexException
from automata.fa.nfa import NFA

from models.errors import UserError
from models.languages.regular import RegularLanguage
from models.plain_files import one_form

SYNTAX = "()[]|*+?.&"
"""The signs that an expression may hold beside letters, digits, and numbers in braces."""
MOST_LETTERS = 200
MOST_SYMBOLS = 200
MOST_REPEATS = 100
MOST_STATES = 200
SHOWN = 60
"""Letters of an expression that an error repeats."""
EMPTY = ("ε", "λ")
"""The empty word, as the field writes it."""
BRACES = re.compile(r"\{(?=,?\d)(\d*)(?:,(\d*))?\}")
CLASS = re.compile(r"\[([^\]]*)\]")
MOST_OF_NAME = 61
"""The most letters of a language's name."""
NAME = re.compile(rf"\w[\w-]{{0,{MOST_OF_NAME - 1}}}")


def of_expression(name: str, regex: str, symbols: str = "") -> RegularLanguage:
    """The language of a regular expression.

    Args:
        name: the language's name; fit for a folder.
        regex: letters and digits are symbols. ``x|y`` is x or y, ``x*`` any number of x, ``x+`` at
            least one, ``x?`` at most one, ``x{2,4}`` two to four, ``[xyz]`` one of them, ``.`` any
            symbol, ``x&y`` what fits both, ``ε`` or ``λ`` nothing.
        symbols: further symbols, which the expression does not name. Where ``ε`` is among them, it
            is a symbol.

    Raises:
        UserError: it is no expression, its automaton is too large, or there are only finitely many
            words of the language, or outside it.
    """
    check_name(name)
    regex, symbols = one_form(regex), one_form(symbols)
    fault = f"the expression {regex[:SHOWN]!r}"
    bare = BRACES.sub("", regex)
    if not {"{", "}"}.isdisjoint(bare):
        raise UserError(f"{fault} has braces without numbers: write x{{2}} or x{{2,4}}")
    if strange := [c for c in bare if not (c.isalnum() or c in SYNTAX)]:
        raise UserError(
            f"{fault} has {strange[0]!r}: use letters and digits as symbols, and ( ) [ ] | * + ? . "
            "& { }"
        )
    if strange := [c for c in symbols if not c.isalnum()]:
        raise UserError(f"the symbols have {strange[0]!r}: use letters and digits, side by side")
    for braces in BRACES.finditer(regex):
        low, high = braces.groups()
        if high and int(low or 0) > int(high):
            raise UserError(f"{fault} has {braces[0]}: write the smaller number first")
        if int((low if high is None else high) or 1) == 0:
            raise UserError(f"{fault} has {braces[0]}: leave out what is to be there no time")
    empty = [sign for sign in EMPTY if sign not in symbols]
    for inside in CLASS.findall(regex):
        if strange := [c for c in inside if not c.isalnum() or c in empty]:
            raise UserError(
                f"{fault} has {strange[0]!r} in square brackets, where only letters and digits "
                "stand: write (x|y) in place of [xy]"
            )
    if _mixes(regex):
        raise UserError(f"{fault} has | and & side by side: put one of them in round brackets")
    repeats = [max(int(n), 1) for pair in BRACES.findall(regex) for n in pair if n]
    if len(regex) > MOST_LETTERS or prod(repeats) > MOST_REPEATS:
        raise UserError(
            f"{fault} is too long: use at most {MOST_LETTERS} letters, and numbers in braces whose "
            f"product is at most {MOST_REPEATS}"
        )
    for sign in empty:
        regex = regex.replace(sign, "()")
    used = sorted({c for c in BRACES.sub("", regex) + symbols if c.isalnum()})
    if not used:
        raise UserError(f"{fault} has no symbols: use letters or digits")
    if len(used) > MOST_SYMBOLS:
        raise UserError(f"{len(used)} symbols are too many: use at most {MOST_SYMBOLS}")
    try:
        nfa = NFA.from_regex(regex, input_symbols=set(used))
    except (AutomatonException, RegexException, ValueError):
        raise UserError(
            f"{fault} cannot be read: close each bracket, and give | and & something on both "
            "sides, and * + ? something before them"
        ) from None
    if not is_small(nfa):
        raise UserError(f"{fault} needs an automaton of over {MOST_STATES} states: shorten it")
    language = RegularLanguage.from_regex(name, regex, "".join(used))
    states = len(language.delta)
    for label, cure in (
        (True, "repeat a part of it with * or +"),
        (False, "leave something out, or name another symbol with --symbols"),
    ):
        # A finite automaton that has a word of so many symbols has words of any length.
        if not any(language.has(length, label) for length in range(states, 2 * states)):
            kind = "words" if label else "words outside its language"
            raise UserError(f"{fault} has only finitely many {kind}: {cure}")
    return language


def _mixes(regex: str) -> bool:
    """Do | and & stand in one pair of brackets? Which goes first, readers take differently."""
    depths: list[set[str]] = [set()]
    for sign in regex:
        if sign == "(":
            depths.append(set())
        elif sign == ")" and len(depths) > 1:
            depths.pop()
        elif sign in "|&":
            depths[-1].add(sign)
            if len(depths[-1]) > 1:
                return True
    return False


def check_name(name: str) -> None:
    """Raises UserError for what is no name for a language, since a folder gets it too."""
    if not NAME.fullmatch(name):
        raise UserError(
            f"{name[:SHOWN]!r} is no name for a language: use letters, digits and -, "
            f"{MOST_OF_NAME} at most"
        )


def is_small(nfa: NFA) -> bool:
    """Has its deterministic automaton at most ``MOST_STATES`` states? Building it may take for
    ever."""
    if len(nfa.states) > 10 * MOST_STATES:
        return False
    nfa = nfa.eliminate_lambda()
    start = frozenset({nfa.initial_state})
    subsets, queue = {start}, deque([start])
    while queue and len(subsets) <= MOST_STATES:
        state = queue.popleft()
        for symbol in nfa.input_symbols:
            after = frozenset(
                goal for source in state for goal in nfa.transitions.get(source, {}).get(symbol, ())
            )
            if after not in subsets:
                subsets.add(after)
                queue.append(after)
    return len(subsets) <= MOST_STATES
