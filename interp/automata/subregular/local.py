"""Windows of k symbols side by side: SL, LT, LTT and PLT, decided on the automaton."""

from __future__ import annotations

from collections.abc import Callable
from itertools import count

import numpy as np
from jaxtyping import Bool

from interp.automata.subregular.semigroup import Arrows, Monoid, Table

LONGEST = 12
"""The longest windows that are tried for LT, LTT and PLT."""
MOST_WORDS = 1 << 22
"""Windows are tried as long as there are no more words of their vertices and arrows than this."""
Holds = Callable[[Monoid, Arrows, Arrows], bool]


def strictly_local(delta: Table, final: Bool[np.ndarray, " states"]) -> int | None:
    """The smallest k such that the language is strictly k-local; None if it is so for no k.

    By suffix substitution closure (Rogers and Pullum 2011): after any word of k-1 symbols at most
    one state can still accept. So k-1 is one more than the longest word that keeps two of them
    apart.
    """
    live = final | (delta != np.arange(len(delta))[:, None]).any(axis=1)  # all but the dead state
    apart = live[:, None] & live & ~np.eye(len(delta), dtype=bool)
    for k in count(1):
        if not apart.any():
            return k
        p, q = np.nonzero(apart)
        after = np.zeros_like(apart)
        after[delta[p], delta[q]] = True  # [pairs, letters]
        after &= live[:, None] & live & ~np.eye(len(delta), dtype=bool)
        if (after == apart).all():  # pairs only become fewer: these stay for ever
            return None
        apart = after
    raise AssertionError("unreachable")


def locally_testable(monoid: Monoid, forth: Arrows, _: Arrows) -> bool:
    """The loops at a vertex are idempotent and commute.

    With windows of k that is LT_k, by Simon's theorem on graphs (in Eilenberg 1976); between
    idempotents it is LT (McNaughton 1974; Brzozowski and Simon 1973).
    """
    product = monoid.table[forth.acts[:, None], forth.steps]
    return bool((product.diagonal() == forth.acts).all() and (product == product.T).all())


def threshold_testable(monoid: Monoid, forth: Arrows, back: Arrows) -> bool:
    """For arrows x, z forth and y back, x y z = z y x (Thérien and Weiss 1985).

    An aperiodic language for which it holds at every two vertices of windows of k is LTT with
    windows of k; between idempotents, it is LTT (Beauquier and Pin 1991).
    """
    return len(forth.acts) < 2 or all(
        bool((product == product.T).all())
        for y in back.steps
        for product in [monoid.table[monoid.table[forth.acts, y][:, None], forth.steps]]
    )


def dot_depth_one(monoid: Monoid, forth: Arrows, back: Arrows) -> bool:
    """Knast's equation for x, u forth and y, v back: (xy)^n x v (uv)^n = (xy)^n (uv)^n.

    Knast 1983: with windows of k it says that the order of the windows of a word decides, as far
    as it shows in subsequences of them; between idempotents it is dot-depth one. Here xy and uv
    are idempotent, which is enough: others have a power that is.
    """
    table = monoid.table
    steps = table[forth.steps[:, None], back.steps]  # of x y, [forth, back]
    acts = table[forth.acts[:, None], back.steps]
    x, y = np.nonzero(table[acts, steps] == acts)
    act, step = acts[x, y], steps[x, y]
    left = np.unique(np.stack([act, table[act, forth.steps[x]]], axis=1), axis=0)
    ends = np.stack([act, table[back.acts[y], step]], axis=1)  # of u v, and of v u v
    first = np.unique(ends, axis=0, return_index=True)[1]
    right, longer = step[first], table[back.steps[y], step][first]
    return bool((table[left[:, 1:], longer] == table[left[:, :1], right]).all())


def has_window(monoid: Monoid, holds: Holds) -> bool:
    """Does the equation hold with some k?"""
    loops = holds is locally_testable
    return all(holds(monoid, *pair) for pair in monoid.in_the_limit(loops))


def smallest_window(monoid: Monoid, holds: Holds) -> int | None:
    """The smallest k with which the equation holds; None if it is longer than those tried."""
    loops = holds is locally_testable
    for k in range(1, LONGEST + 1):
        if len(monoid.letters) ** (2 * k - 3) > MOST_WORDS:
            break
        if all(holds(monoid, *pair) for pair in monoid.at_window(k, loops)):
            return k
    return None
