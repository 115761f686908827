"""The glossary explains what the pages say, in tooltips and on a page of its own."""

from __future__ import annotations

import ast
import re
from importlib import import_module
from pathlib import Path

import pytest
from compared import plainly
from hypothesis import given
from hypothesis import strategies as st
from streamlit.testing.v1 import AppTest

from analyses.answers import question, sections
from dashboard import views
from dashboard.glossary import explained, meaning, terms

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


NAMING = {
    "how_to_read.md": {"reading", "told", "below"},
    "captions.md": {"says"},
}
"""The functions whose first argument names a part of a file."""
NO_VALUES = {"draw", "more", "of_run", "opened"}
"""What these functions are given by name beside the values."""


def named_by(part: ast.expr, page: Path) -> list[str]:
    """The names, as patterns, that an argument may stand for; none for a variable."""
    match part:
        case ast.Constant(value=str(name)):
            return [re.escape(name)]
        case ast.JoinedStr(values=pieces):
            return ["".join((named_by(piece, page) or [".+"])[0] for piece in pieces)]
        case ast.IfExp(body=one, orelse=other):
            return named_by(one, page) + named_by(other, page)
        case ast.Name(id=name) | ast.Attribute(attr=name) if name.isupper():
            where = page.relative_to(VIEWS.parents[1]).with_suffix("").parts
            return [re.escape(eval(ast.unparse(part), vars(import_module(".".join(where)))))]
    return []


@pytest.mark.parametrize("file", NAMING)
def test_what_a_page_says_of_its_pictures_is_there(file: str) -> None:
    """Each part that a page names stands in the file, each part of the file is named, and each name
    in braces gets a value. A part of the file may be named by what stands before a value."""
    written, named = sections(VIEWS.with_name(file)), set[str]()
    for page in VIEWS.rglob("*.py"):
        for call in ast.walk(ast.parse(page.read_text(encoding="utf-8"))):
            match call:
                case ast.Call(func=ast.Name(id="partial"), args=[ast.Name(id=name), part, *_]):
                    pass
                case ast.Call(func=ast.Name(id=name) | ast.Attribute(attr=name), args=[part, *_]):
                    pass
                case _:
                    continue
            if name not in NAMING[file]:
                continue
            values = {str(word.arg) for word in call.keywords} - NO_VALUES
            for pattern in named_by(part, page):
                parts = [each for each in written if re.fullmatch(pattern, each)]
                named |= set(parts)
                for each in parts:
                    braces = set(re.findall(r"\{(\w+)\}", written[each]))
                    assert values == braces - {"layer"}  # which stands so in the names of hooks
                if not parts and isinstance(part, ast.Constant) and name not in ("told", "below"):
                    assert name == "reading"  # as the question says
                    assert question(str(part.value)).how_to_read
    assert named == set(written)


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
    assert page.markdown[0].value.startswith("#### LEACE\n")
    page.text_input[0].set_value("no such term").run()
    assert page.info[0].value.startswith("No term has these letters")
