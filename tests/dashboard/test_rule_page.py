"""The page of a language that counts says nothing of the automaton that was rejected."""

from __future__ import annotations

import pytest
from parts import part
from streamlit.testing.v1 import AppTest

PAGE = """
from dashboard.drawing import tabs
from dashboard.views.discover.rule_of_run import details, said

found = {{
    "status": "{status}", "n_states": 8, "agreement": 0.9, "agreement_other_lengths": None,
    "agreement_truth": 0.9, "agreement_truth_beyond": None, "regex": "(ab)*", "heads": [],
    "by_length": [{{"length": n, "count": 2, "rule": 0.5, "network": 1.0}} for n in (2, 4)],
    "envelope": {{"shape": "a* b*", "constraints": "a = b", "asked": 9, "inside": 1, "outside": 1}},
}}
said(found)
tabs("part_of_rule", details(found))
"""


@pytest.mark.parametrize(("status", "automaton"), [("rule", True), ("counts", False)])
def test_a_rejected_automaton_is_not_described(status: str, automaton: bool) -> None:
    page = AppTest.from_string(PAGE.format(status=status), default_timeout=120).run()
    assert not page.exception
    assert bool(page.metric) == bool(page.code) == automaton
    shape, length = "Beyond regular languages", "By length"
    assert [tab.label for tab in page.tabs] == [shape, *([length] if automaton else [])]
    assert any("`a* b*`" in line.value for line in part(page, shape).markdown)
    assert not automaton or part(page, length).get("vega_lite_chart")
    assert not page.error
