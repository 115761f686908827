"""Literals: simple properties of words, which are tried on many words at once.

A literal says that a word has a pattern, so many of a pattern, a number of symbols modulo another,
runs of given symbols, or nested brackets. Each may be read on a tier, which leaves out some symbols
(Heinz, Rawal and Tanner 2011). They are what the subregular classes are made of (Rogers and Pullum
2011; van der Poel et al. 2024): patterns side by side are local, patterns with gaps are piecewise.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import combinations, pairwise, permutations, product
from typing import Any
from typing import Literal as Either

import numpy as np
from automata.fa.dfa import DFA
from automata.fa.nfa import NFA

from interp.automata.rules import Families, Rule, aside, listed

Letters = tuple[int, ...]
"""Symbols as their places in the alphabet."""
MOST_TIMES = 6
"""The largest number in "at least so many"."""


@dataclass(frozen=True)
class Literal:
    """A property of words.

    Attributes:
        kind: "pattern", "times" (at least ``number`` of a piece), "exactly" (so many of it),
            "modulo" (the pieces occur so often in all that ``number`` leaves ``rest``), "runs"
            (what is read is these runs of equal symbols), "nested" (a piece is an opening and a
            closing bracket; what is read is well nested, up to a depth of ``number``) or "same
            ends" (the first letter equals the last).
        pieces: letters; those of one piece stand side by side, and pieces stand in this order.
        starts, ends: whether the first piece begins the word, and the last one ends it.
        tier: the letters that are read; None reads all.
        number, rest: numbers of "times", "exactly", "modulo" and "nested", as above.
    """

    kind: Either["pattern", "times", "exactly", "modulo", "runs", "nested", "same ends"]
    pieces: tuple[Letters, ...]
    starts: bool = False
    ends: bool = False
    tier: Letters | None = None
    number: int = 1
    rest: int = 0

    @property
    def length(self) -> int:
        """The number of letters in the pattern."""
        return sum(map(len, self.pieces))

    @property
    def gaps(self) -> Either["none", "all", "some"]:
        """Do the letters stand side by side, or with gaps?"""
        if len(self.pieces) == 1:
            return "none"
        return "all" if len(self.pieces) == self.length else "some"

    @property
    def family(self) -> str:
        """The class of rules that is made of such literals, as the field calls it."""
        if self.kind == "pattern":
            return {"none": "local", "all": "piecewise", "some": "piecewise local"}[self.gaps]
        named = {"times": "threshold", "exactly": "threshold", "same ends": "local"}
        return named.get(self.kind, self.kind)

    def size(self, alphabet: int) -> int:
        """The number of parts that say it: letters, ends, gaps, and what the tier reads or not."""
        more = self.starts + self.ends + (len(self.pieces) if self.gaps == "some" else 0)
        tier = 0
        if self.tier is not None and self.kind not in ("runs", "nested"):
            tier = 1 + min(len(self.tier), alphabet - len(self.tier))
        more = max(0, more - 1) if self.kind == "pattern" else int(self.kind == "modulo")
        return max(1, self.length + more) + tier

    @property
    def counts(self) -> tuple[int, ...]:
        """The numbers that it names."""
        if self.kind == "modulo":
            return (self.number, self.rest)
        return (self.number,) if self.kind in ("times", "exactly", "nested") else ()

    @property
    def sees_tier(self) -> bool:
        """Does it matter what a tier leaves out? It does for ends, and for what is side by side."""
        beside = self.kind in ("runs", "nested") or any(len(piece) > 1 for piece in self.pieces)
        return beside or self.starts or self.ends

    def longer(self, letters: Sequence[int], most: int) -> Iterator[Literal]:
        """Literals that say one thing more or one thing else: a letter, an end, a gap, a number."""
        pieces, free = self.pieces, [s for s in letters if self.tier is None or s in self.tier]
        if self.kind in ("times", "exactly"):
            for number in {self.number - 1, self.number + 1} & set(range(2, MOST_TIMES + 1)):
                yield replace(self, number=number)
            for s in free if self.length < most else ():
                yield replace(self, pieces=((*pieces[0], s),))
                yield replace(self, pieces=((s, *pieces[0]),))
        if self.kind != "pattern":
            return
        if len(pieces) == 1 and not (self.starts or self.ends):
            yield replace(self, kind="times", number=2)
            yield replace(self, kind="exactly", number=1)
        for s in free if self.length < most else ():
            if not self.ends:
                yield replace(self, pieces=(*pieces, (s,)))
                yield replace(self, pieces=(*pieces[:-1], (*pieces[-1], s)))
            else:
                yield replace(self, pieces=(*pieces[:-1], (s, *pieces[-1])))
            if not self.starts:
                yield replace(self, pieces=((s,), *pieces))
                yield replace(self, pieces=((s, *pieces[0]), *pieces[1:]))
        yield from (replace(self, starts=True), replace(self, ends=True))
        for i, piece in enumerate(pieces):
            for cut in range(1, len(piece)):
                yield replace(
                    self, pieces=(*pieces[:i], piece[:cut], piece[cut:], *pieces[i + 1 :])
                )

    # -- as a rule ------------------------------------------------------------------------------

    def rule(self, symbols: Sequence[str], told: bool = True) -> Rule:
        """The literal in words, with its automaton.

        Args:
            told: whether the words say what the tier leaves out.
        """
        left_out = self.left_out(symbols) if told else ""
        text, denial = self._text(symbols, f" ({left_out})" if left_out else "")
        dfa = self._dfa(symbols).minify()
        return Rule(self.family, text, denial, self.size(len(symbols)), dfa, self.counts)

    def _text(self, symbols: Sequence[str], aside: str) -> tuple[str, str]:
        """Texts for a word that has the property, and for one that has it not."""
        pieces = [" ".join(symbols[s] for s in piece) for piece in self.pieces]
        if self.kind in ("times", "exactly"):
            what = f"{pieces[0]}{' side by side' * (self.length > 1)}{aside}"
            if self.kind == "exactly":
                return f"has exactly {self.number} {what}", f"does not have {self.number} {what}"
            return f"has at least {self.number} {what}", f"has at most {self.number - 1} {what}"
        if self.kind == "modulo":
            beside = " side by side" if len(pieces) == 1 and self.length > 1 else ""
            what = f"number of {listed(pieces)}{' together' * (len(pieces) > 1)}{beside}"
            if self.number == 2:
                even, odd = f"has an even {what}{aside}", f"has an odd {what}{aside}"
                return (odd, even) if self.rest else (even, odd)
            how = f"that leaves {self.rest} when divided by" if self.rest else "divisible by"
            leaves = f"{what} {how} {self.number}{aside}"
            return f"has a {leaves}", f"does not have a {leaves}"
        if self.kind == "same ends":
            what = "start and end with the same symbol"
            return "starts and ends with the same symbol", f"does not {what}"
        if self.kind == "nested":
            what = f"{listed(pieces)} as brackets that match, nested up to depth {self.number}"
            what += aside
            return f"has {what}", f"does not have {what}"
        if self.kind == "runs":
            runs = ", then ".join(f"one or more {piece}" for piece in pieces)
            return f"is {runs}{aside}", f"is not {runs}{aside}"
        return self._pattern_text(pieces, aside)

    def _pattern_text(self, pieces: list[str], aside: str) -> tuple[str, str]:
        if self.starts and self.ends:
            if len(pieces) == 1:
                return f"is just {pieces[0]}{aside}", f"is not just {pieces[0]}{aside}"
            first, *middle, last = pieces
            later = "".join(f", later has {piece}," for piece in middle)
            what = f"start with {first}{later} and end with {last}{aside}"
            does = what.replace("start", "starts", 1).replace("and end", "and ends", 1)
            return does, f"does not {what}"
        if self.starts or self.ends:
            verb, edge = ("start", pieces[0]) if self.starts else ("end", pieces[-1])
            rest = pieces[1:] if self.starts else pieces[:-1]
            more = f" {'after' if self.ends else 'before'} {' ... '.join(rest)}" if rest else ""
            return f"{verb}s with {edge}{more}{aside}", f"does not {verb} with {edge}{more}{aside}"
        if self.gaps == "some":
            sided = [p if " " not in p else f"{p} side by side" for p in pieces]
            what = f"contains {', later '.join(sided)}{aside}"
        elif self.gaps == "all":
            what = f"contains {' ... '.join(pieces)} in this order{aside}"
        else:
            what = f"contains {pieces[0]}{' side by side' * (self.length > 1)}{aside}"
        return what, f"never {what}"

    def left_out(self, symbols: Sequence[str]) -> str:
        """The symbols that the tier does not read, as a text; "" where it reads all."""
        if self.tier is None or len(self.tier) == len(symbols):
            return ""
        return f"with {aside([symbols[i] for i in self.tier], symbols)} left out"

    def _dfa(self, symbols: Sequence[str]) -> DFA:
        """The automaton that reads the property off a word."""
        families = Families(symbols)
        if self.kind == "same ends":
            return families.same_ends().dfa
        if self.kind in ("times", "exactly", "modulo"):
            return self._counter(symbols)
        names = [tuple(symbols[s] for s in piece) for piece in self.pieces]
        if self.kind == "nested":
            return families.brackets(self.number, *((a, b) for a, b in names)).dfa
        if self.kind == "runs":
            return families.blocks(*(name for (name,) in names)).dfa
        read = range(len(symbols)) if self.tier is None else self.tier
        flat = [s for piece in self.pieces for s in piece]
        # Behind the last letter of a piece anything may follow, inside a piece nothing else.
        borders = set(np.cumsum([0, *map(len, self.pieces)]).tolist())
        free = borders - ({0} if self.starts else set()) - ({len(flat)} if self.ends else set())
        moves: dict[int, dict[str, set[int]]] = {}
        for state in range(len(flat) + 1):
            row: dict[str, set[int]] = {symbol: set() for symbol in symbols}
            for i, symbol in enumerate(symbols):
                if i not in read or state in free:
                    row[symbol].add(state)
                if state < len(flat) and flat[state] == i:
                    row[symbol].add(state + 1)
            moves[state] = {symbol: to for symbol, to in row.items() if to}
        nfa = NFA(
            states=set(moves),
            input_symbols=set(symbols),
            transitions=moves,
            initial_state=0,
            final_states={len(flat)},
        )
        return DFA.from_nfa(nfa).to_complete()

    def _counter(self, symbols: Sequence[str]) -> DFA:
        """The automaton that counts the pieces, up to a number or modulo it."""
        read = set(range(len(symbols)) if self.tier is None else self.tier)
        piece = self.pieces[0] if len(self.pieces) == 1 else ()
        singles = {s for (s,) in self.pieces} if not piece else set()

        def step(state: tuple[Letters, int], letter: int) -> tuple[Letters, int]:
            seen, count = state
            if letter not in read:
                return seen, count
            seen = (*seen, letter)[-len(piece) :] if piece else ()
            if (seen == piece) if piece else letter in singles:
                count = count + 1
            seen = next(
                seen[i:] for i in range(len(seen) + 1) if piece[: len(seen) - i] == seen[i:]
            )
            return seen, count % self.number if self.kind == "modulo" else min(count, most)

        most = self.number + (self.kind == "exactly")
        goal = self.rest if self.kind == "modulo" else self.number
        return _stepped(symbols, ((), 0), step, lambda state: state[1] == goal)


def _stepped(
    symbols: Sequence[str],
    start: Any,
    step: Callable[[Any, int], Any],
    accepts: Callable[[Any], bool],
) -> DFA:
    """The automaton of all states that steps lead to from the start."""
    rows: dict[Any, dict[str, Any]] = {}
    queue = [start]
    for state in queue:
        if state not in rows:
            rows[state] = {symbol: step(state, i) for i, symbol in enumerate(symbols)}
            queue += rows[state].values()
    return DFA(
        states=set(rows),
        input_symbols=set(symbols),
        transitions=rows,
        initial_state=start,
        final_states={state for state in rows if accepts(state)},
    )


# -- those with which a search begins --------------------------------------------------------------


def first_literals(letters: Sequence[int], tier: Letters | None, longest: int) -> Iterator[Literal]:
    """The literals with which a search begins: patterns of a few letters, and numbers of them.

    On a tier these are the ones that see it; none is modulo a number.
    """
    read = list(letters) if tier is None else [s for s in tier if s in letters]
    ends = list(product((False, True), repeat=2))
    for length in range(1, longest + 1):
        for flat in product(read, repeat=length):
            for cuts in product((False, True), repeat=length - 1):
                patterns = (Literal("pattern", _cut(flat, cuts), a, b, tier) for a, b in ends)
                yield from (one for one in patterns if tier is None or one.sees_tier)
            if length == 2 or (length == 1 and tier is None):
                yield from (
                    Literal("times", (flat,), tier=tier, number=n) for n in range(2, MOST_TIMES)
                )
                yield from (
                    Literal("exactly", (flat,), tier=tier, number=n) for n in range(1, MOST_TIMES)
                )
            if length <= 2 and tier is None:
                yield from (
                    Literal("modulo", (flat,), tier=tier, number=n, rest=rest)
                    for n in (2, 3, 4, 5)
                    for rest in range(n)
                )


def _cut(flat: Letters, cuts: Sequence[bool]) -> tuple[Letters, ...]:
    """Letters in pieces; a cut is a gap between two letters."""
    pieces = [flat[:1]]
    for letter, gap in zip(flat[1:], cuts, strict=True):
        pieces = [*pieces, (letter,)] if gap else [*pieces[:-1], (*pieces[-1], letter)]
    return tuple(pieces)


def sums(letters: Sequence[int], most: int) -> Iterator[Literal]:
    """Numbers of several symbols together, modulo two and three."""
    for size in range(2, min(most, len(letters)) + 1):
        for some in combinations(letters, size):
            for number in (2, 3):
                pieces = tuple((letter,) for letter in some)
                yield from (
                    Literal("modulo", pieces, number=number, rest=rest) for rest in range(number)
                )


def block_literals(letters: Sequence[int], widest: int = 3, most: int = 5) -> Iterator[Literal]:
    """Runs on a tier of one to three letters, up to five of them, each letter of the tier used."""
    for width in range(1, widest + 1):
        for tier in combinations(letters, width):
            for length in range(width, most + 1):
                for flat in product(tier, repeat=length):
                    fresh = all(a != b for a, b in pairwise(flat))
                    if fresh and set(flat) == set(tier):
                        yield Literal("runs", tuple((s,) for s in flat), tier=tier)


def nested(letters: Sequence[int], deepest: int = 8) -> Iterator[Literal]:
    """Brackets of one kind, and of two kinds where the alphabet has no more letters."""
    kinds: list[tuple[Letters, ...]] = [(pair,) for pair in permutations(letters, 2)]
    if len(letters) == 4:
        fours = permutations(letters)
        kinds += [((a, b), (c, d)) for a, b, c, d in fours if a < c]
    for pieces in kinds:
        tier = tuple(sorted(s for piece in pieces for s in piece))
        yield from (
            Literal("nested", pieces, tier=tier, number=depth) for depth in range(1, deepest + 1)
        )
