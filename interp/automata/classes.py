"""The subregular classes of an automaton, each with its smallest window, by decision procedures.

The classes are those of Rogers and Pullum 2011, of Heinz, and of MLRegTest (van der Poel et al.
2024). A class on a tier leaves out the symbols that do nothing in any state, and looks at the rest.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from itertools import islice
from typing import Literal

import numpy as np
from automata.fa.dfa import DFA
from jaxtyping import Bool

from interp.automata.extraction import canonical, over, symbol_classes
from interp.automata.rules import aside
from interp.automata.subregular.local import (
    dot_depth_one,
    has_window,
    locally_testable,
    smallest_window,
    strictly_local,
    threshold_testable,
)
from interp.automata.subregular.piecewise import piecewise_testable, strictly_piecewise
from interp.automata.subregular.semigroup import Monoid, Table, cyclic, table_of
from interp.automata.subregular.thresholds import threshold

Class = Literal["SL", "SP", "LT", "PT", "LTT", "PLT", "SF", "Zp", "Reg"]
MOST_ELEMENTS = 3000
"""The classes that are decided in the monoid are not decided if it is larger."""
LOCAL: tuple[Class, ...] = ("SL", "LT", "LTT", "PLT")
EQUATIONS = {"LT": locally_testable, "LTT": threshold_testable, "PLT": dot_depth_one}
ORDER = ["SL", "SP", "TSL", "LT", "PT", "TLT", "LTT", "TLTT", "PLT", "TPLT", "SF", "Zp", "Reg"]
"""The names of classes, simple ones first."""
IN_WORDS = {
    "SL": "strictly local",
    "SP": "strictly piecewise",
    "LT": "locally testable",
    "PT": "piecewise testable",
    "LTT": "locally testable with counts",
    "PLT": "piecewise locally testable",
    "SF": "star-free",
    "Zp": "a sum of weights",
    "Reg": "regular, in none of the smaller classes",
}


@dataclass(frozen=True)
class Membership:
    """A class to which a language belongs.

    Attributes:
        base: strictly local, strictly piecewise, locally testable, piecewise testable, locally
            testable with thresholds, piecewise locally testable (of dot-depth one), star-free, a
            sum of the symbols' weights modulo a number, or regular and none of these.
        window: the smallest number of symbols side by side, or in order; of Zp the modulus. None
            for SF and Reg, and if it is larger than what was tried.
        threshold: the count up to which factors have to be counted, for LTT; None if undecided.
        tier: the symbols to look at, if not all of them.
        symbols: the alphabet, for the words.
    """

    base: Class
    window: int | None = None
    threshold: int | None = None
    tier: tuple[str, ...] | None = None
    symbols: tuple[str, ...] = field(default=(), compare=False)

    @property
    def name(self) -> str:
        """The class, with a T for one on a tier."""
        return self.base if self.tier is None else f"T{self.base}"

    @property
    def text(self) -> str:
        """The class in words."""
        text = IN_WORDS[self.base]
        if self.base == "Zp":
            text += f" modulo {self.window}"
        elif self.base in ("SP", "PT"):
            text += f", up to {self.window or 'more than a few'} symbols in order"
        elif self.base in LOCAL:
            text += f", with windows of {self.window or 'more than were tried'}"
        if self.threshold is not None:
            text += f", counted up to {self.threshold}"
        return text if self.tier is None else f"{text}, {aside(self.tier, self.symbols)} left out"


@dataclass(frozen=True)
class Classes:
    """The classes of a language.

    Attributes:
        memberships: the classes that it belongs to, the simplest first.
        undecided: the names of the classes that were not decided.
    """

    memberships: tuple[Membership, ...]
    undecided: tuple[Class, ...] = ()

    @property
    def simplest(self) -> Membership | None:
        """The simplest class; None if it was not decided."""
        return self.memberships[0] if self.memberships else None


@dataclass(frozen=True)
class _Part:
    """A minimal automaton, or what it does on the symbols of its tier.

    Attributes:
        delta: the state after each state and letter; 0 is the first.
        final: the accepting states.
        monoid: the monoid of the transitions; None if it is too large.
        tier: the symbols, if others are left out.
        symbols: the alphabet.
    """

    delta: Table
    final: Bool[np.ndarray, " states"]
    monoid: Monoid | None
    tier: tuple[str, ...] | None = None
    symbols: tuple[str, ...] = ()


def classes_of(dfa: DFA, symbols: Sequence[str]) -> Classes:
    """The classes that an automaton belongs to, with the smallest windows.

    Args:
        dfa: a complete automaton over the symbols.
        symbols: the alphabet, in the order in which a tier lists it.
    """
    parts = _parts(dfa, symbols)
    delta, final, monoid = parts[0].delta, parts[0].final, parts[0].monoid
    modulus = cyclic(delta)
    if modulus:
        return Classes((Membership("Zp", modulus),))
    memberships = []
    for base in LOCAL:  # a class on the tier is larger: it counts if that of all symbols does not
        on_parts = (member for part in parts if (member := _local(part, base)))
        memberships += list(islice(on_parts, 1))
    if k := strictly_piecewise(delta, final):
        memberships.append(Membership("SP", k))
    if monoid is None:
        return Classes(_in_order(memberships), ("LT", "PT", "LTT", "PLT", "SF"))
    if monoid.j_trivial:
        memberships.append(Membership("PT", piecewise_testable(delta, final)))
    memberships.append(Membership("SF" if monoid.aperiodic else "Reg"))
    return Classes(_in_order(memberships))


def _in_order(memberships: Iterable[Membership]) -> tuple[Membership, ...]:
    return tuple(sorted(memberships, key=lambda member: ORDER.index(member.name)))


def _parts(dfa: DFA, symbols: Sequence[str]) -> list[_Part]:
    """The automaton, one letter for the symbols that it never tells apart; and its tier, if some
    symbols do nothing."""
    dfa = dfa.minify()
    groups = symbol_classes(dfa, symbols)
    letters = [group[0] for group in groups]
    delta, final = table_of(canonical(over(dfa, letters), letters), letters)
    monoid = Monoid.of(delta, MOST_ELEMENTS)
    moving = (delta != np.arange(len(delta))[:, None]).any(axis=0)
    whole = _Part(delta, final, monoid)
    if moving.all():
        return [whole]
    on = {s for group, moves in zip(groups, moving, strict=True) if moves for s in group}
    few = monoid and replace(monoid, letters=monoid.letters[moving])
    tier = tuple(s for s in symbols if s in on)
    return [whole, _Part(delta[:, moving], final, few, tier, tuple(symbols))]


def _local(part: _Part, base: Class) -> Membership | None:
    """Membership in a class of windows of symbols side by side."""
    delta, monoid = part.delta, part.monoid
    if base == "SL":
        k = strictly_local(delta, part.final)
        return Membership("SL", k, None, part.tier, part.symbols) if k else None
    if monoid is None or not monoid.aperiodic or not has_window(monoid, EQUATIONS[base]):
        return None
    k = smallest_window(monoid, EQUATIONS[base])
    counted = threshold(monoid, delta, k) if base == "LTT" and k else None
    return Membership(base, k, counted, part.tier, part.symbols)
