"""The rule of a language in words, and what a reader of a word must keep."""

from __future__ import annotations

import pytest

from analyses.lectures.truth import rule_in_words, variables_chart, variables_of
from models.languages import LANGUAGES, FormalLanguage, language


@pytest.mark.parametrize(
    ("name", "rule"),
    [
        (
            "dieren",
            "is one or more leeuw, then one or more olifant, then one or more leeuw "
            "(with all but leeuw and olifant left out)",
        ),
        ("dieren-gaps", "contains leeuw ... olifant ... leeuw in this order"),
        ("anbncn", "has first all a, then all b, then all c, as many of each"),
        ("parity", "has an even number of b"),
        (
            "dyck2",
            "closes every bracket by one of its kind, the last that was opened first, with at most "
            "4 open at once",
        ),
        ("shuffle2", "closes every bracket; brackets of different kinds may cross"),
        ("tomita2", "is 1 0, any number of times"),
        ("tomita3", None),
        ("ww", "says something twice, in the same order"),
        ("anbm", "has first all a, then all b, and more a than b"),
    ],
)
def test_the_rule_in_words(name: str, rule: str | None) -> None:
    known = language(name)
    assert isinstance(known, FormalLanguage)
    assert rule_in_words(known) == rule


@pytest.mark.parametrize("name", LANGUAGES)
def test_what_a_reader_must_keep(name: str) -> None:
    known = language(name)
    assert isinstance(known, FormalLanguage)
    word = known.example()
    table = variables_of(known, word)
    for row in table.to_dict("records"):
        assert known.state(word[: row["position"]])[row["variable"]] == row["value"]
    kept = [name for name in known.variables if name not in ("accepting", "valid")]
    assert list(dict.fromkeys(table["variable"])) == kept
    assert table["place"].iloc[-1] == f"{len(word)} {word[-1]}"
    variables_chart(table).to_json()
