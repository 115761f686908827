"""The glossary explains what the pages say, in tooltips and on a page of its own."""

from __future__ import annotations

import ast
import re
from pathlib import Path

import pytest
from compared import plainly
from hypothesis import given
from hypothesis import strategies as st
from streamlit.testing.v1 import AppTest

from analyses.answers import question, sections
from dashboard import views
from dashboard.glossary import explained, meaning, terms
from dashboard.views.look_inside import interventions

VIEWS = Path(views.__file__).parent

ASKED = """
END; <bos>; resid_mid; L0H1; LEACE; DAS; EAP-IG; CPR; CMD; normalised AOPC; NDCG; selectivity;
placebo; recognition in the window; exact to n; AUROC; fresh words; counterfactual; untrained model
"""


@pytest.mark.parametrize("word", re.split(r";\s+", ASKED.strip()))
def test_a_learner_finds_what_pages_name(word: str) -> None:
    found = meaning(word)
    assert found
    assert 20 < len(found) < 400


def test_every_other_name_leads_to_a_term() -> None:
    others = {other: term for term in terms().values() for other in term.also}
    assert len(others) == sum(len(term.also) for term in terms().values()) >= 30
    for other, term in others.items():
        assert meaning(other) == term.short
    assert 30 < sum(term.everyday for term in terms().values()) < 60
    assert not any("<!--" in term.meaning.partition("\n\n")[0] for term in terms().values())
    anchors = [term.anchor for term in terms().values()]
    assert len(anchors) == len(set(anchors))
    known = {anchor.lower() for anchor in anchors}
    for term in terms().values():
        for link in re.findall(r"\]\(#([^)]*)\)", term.meaning):
            assert link in known | {"measures-of-explanations", "every-hook"}, term.name


def test_a_term_is_explained_once_and_nowhere_inside_of_code_or_links() -> None:
    assert explained("In the end, after END").startswith("In the end, after [END](glossary#end ")
    said = explained("LEACE and LEACE; `LEACE`, [LEACE](x), $LEACE$; near misses; replaced.")
    short = terms()["LEACE"].short
    assert said.startswith(f'[LEACE](glossary#leace "{short}") and LEACE; `LEACE`, [LEACE](x), $')
    assert "[near misses](glossary#near-miss " in said
    assert said.endswith("; replaced.")
    assert plainly(said) == "LEACE and LEACE; `LEACE`, [LEACE](x), $LEACE$; near misses; replaced."


def test_what_a_page_says_of_its_pictures_is_there() -> None:
    """Each part that a page names stands in the file, each part of the file is named, and each name
    in braces gets a value."""
    given: dict[str, set[str]] = {}
    for page in VIEWS.rglob("*.py"):
        for call in ast.walk(ast.parse(page.read_text(encoding="utf-8"))):
            match call:
                case ast.Call(func=ast.Name(id="reading"), args=[ast.Constant(value=part)]):
                    given[part] = {str(word.arg) for word in call.keywords}
    given |= {f"interventions: {name}": set() for name in interventions.TITLES}
    written = sections(VIEWS.with_name("how_to_read.md"))
    assert set(written) <= set(given)
    for part, names in given.items():
        if part in written:
            assert names == set(re.findall(r"\{(\w+)\}", written[part]))
        else:
            assert question(part).how_to_read


@given(st.text(alphabet='LEACE probe `[]()$"\\', max_size=40))
def test_nothing_but_links_is_added(markdown: str) -> None:
    said = explained(markdown)
    assert re.sub(r'\[([^\]]+)\]\(glossary#[\w-]+ "[^"]*"\)', r"\1", said) == markdown


def test_the_page_finds_a_term_by_its_letters() -> None:
    script = "from dashboard.views.start.glossary import show\nshow()"
    page = AppTest.from_string(script).run()
    assert len(page.header) > 8
    page.text_input[0].set_value("leace").run()
    assert [header.value for header in page.header] == ["Probing and interventions"]
    assert page.markdown[1].value.startswith("#### LEACE\n")
    page.text_input[0].set_value("no such term").run()
    assert page.info[0].value.startswith("No term has these letters")
