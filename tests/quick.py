"""`pytest --quick`: the tests that answer in a minute.

No list of tests to keep: every test file takes part, with at most ``FEW`` tests. Of the cases of
one test those are run that show every value of every parameter at least once (each-choice testing),
and at most ``MOST`` of them. Left out is what is marked ``slow``, what opens a browser, and what
needs something that takes long to make.
"""

from __future__ import annotations

from collections.abc import Iterable
from itertools import groupby

import pytest

MOST = 1
"""Cases of one test."""
FEW = 3
"""Tests of one file."""

LONG = {"demo", "swept", "out", "found"}
"""Fixtures that take longer to make than a quick run may take: the whole demo, ten questions of
three runs, a leaderboard, rules behind a thousand lines."""


def selected(items: Iterable[pytest.Item]) -> list[pytest.Item]:
    """The tests of ``items`` that are quick, in their order."""
    quick = [item for item in items if not slow(item)]
    families = groupby(sorted(quick, key=family), key=family)
    kept = {id(case) for _, cases in families for case in spread(each_choice(list(cases)))}
    cases = [item for item in quick if id(item) in kept]
    files = groupby(cases, key=lambda case: case.nodeid.partition("::")[0])
    return [case for _, of_file in files for case in evenly(list(of_file))]


def evenly(cases: list[pytest.Item]) -> list[pytest.Item]:
    """At most ``FEW`` of the tests of a file, at even distances."""
    return cases[:: -(-len(cases) // FEW)]


def slow(item: pytest.Item) -> bool:
    marked = any(item.get_closest_marker(name) for name in ("slow", "browser"))
    return marked or not LONG.isdisjoint(getattr(item, "fixturenames", ()))


def family(item: pytest.Item) -> str:
    """The test without its parameters."""
    return item.nodeid.partition("[")[0]


def each_choice(cases: list[pytest.Item]) -> list[pytest.Item]:
    """So many cases that every value of every parameter is in at least one.

    First those in which every value is new, a diagonal through the table of all cases, then those
    in which any is.
    """
    seen: set[tuple[str, int]] = set()
    kept = list[pytest.Item]()
    for enough in (all, any):
        for case in cases:
            values = choices(case)
            if case not in kept and (not values or enough(each not in seen for each in values)):
                kept.append(case)
                seen.update(values)
    return kept


def choices(case: pytest.Item) -> set[tuple[str, int]]:
    """Each parameter of a case with its value, which all cases that have it share."""
    call = getattr(case, "callspec", None)
    return {(name, id(value)) for name, value in call.params.items()} if call else set()


def spread(cases: list[pytest.Item]) -> list[pytest.Item]:
    """At most ``MOST`` of the cases, at even distances.

    Where they begin hangs on the test's name: tests that share their cases (all languages, all
    masks) see different ones.
    """
    step = -(-len(cases) // MOST)
    return cases[len(family(cases[0])) % step :: step]
