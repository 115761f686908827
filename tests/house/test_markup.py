"""No page hands to Streamlit, as Markdown, what the lab has not written itself.

Where Streamlit draws Markdown, a page may give words of its own: literals, constants in capitals,
numbers with a format, ``len``. All else goes through ``dashboard.markup`` first.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

PAGES = sorted((Path(__file__).parents[2] / "dashboard").rglob("*.py"))
DRAWN = """
badge button caption checkbox download_button error expander file_uploader header html info latex
link_button markdown metric multiselect number_input page_link pills popover progress radio
segmented_control select_slider selectbox slider spinner status subheader success table tabs
text_area text_input title toast toggle warning write
"""
CHOICES = {"pills", "radio", "segmented_control"}
"""Their options are drawn as Markdown, too."""
ARGUMENTS = {"label", "body", "help", "text", "value", "delta"}
"""What is Markdown where it is given by name; ``value`` alone in a metric."""
SAFE = {"text", "code", "message", "formula", "share", "len", "entries", "explained", "meaning"}
SAFE |= {"says"}
"""What gives Markdown that shows the value as it is, or a number; or the lab's own
words, which are checked where they are given."""


class Scope:
    """What is safe in one function, whose local names stand for what they were given."""

    def __init__(self, function: ast.AST, functions: dict[str, ast.FunctionDef]) -> None:
        self.functions = functions
        self.given: dict[str, list[ast.expr]] = {}
        for node in ast.walk(function):
            if isinstance(node, (ast.Assign, ast.AugAssign, ast.AnnAssign)) and node.value:
                targets = node.targets if isinstance(node, ast.Assign) else [node.target]
                for target in targets:
                    self._give(target, node.value)

    def _give(self, target: ast.expr, value: ast.expr) -> None:
        match target, value:
            case ast.Name(id=name), _:
                self.given.setdefault(name, []).append(value)
            case ast.Tuple(elts=targets), ast.Tuple(elts=values) if len(targets) == len(values):
                for each, of in zip(targets, values, strict=True):
                    self._give(each, of)

    def safe(self, node: ast.expr | None) -> bool:
        match node:
            case None | ast.Constant():
                return True
            case ast.Name(id=name):
                given = self.given.get(name, [])
                return name.isupper() or (bool(given) and all(map(self.safe, given)))
            case ast.JoinedStr(values=parts):
                return all(map(self.safe, parts))
            case ast.FormattedValue(value=value, format_spec=ast.JoinedStr(values=[spec])):
                return ast.literal_eval(spec)[-1] in "dfg%," or self.safe(value)
            case ast.FormattedValue(value=value) | ast.Starred(value=value):
                return self.safe(value)
            case ast.Subscript(value=ast.Name(id=name)) | ast.Attribute(attr=name):
                return name.isupper()
            case ast.BoolOp(values=parts):
                return all(map(self.safe, parts))
            case ast.BinOp(left=left, op=ast.Mult()):
                return self.safe(left)
            case ast.BinOp(left=left, right=right):
                return self.safe(left) and self.safe(right)
            case ast.IfExp(body=body, orelse=other):
                return self.safe(body) and self.safe(other)
            case ast.List(elts=parts):
                return all(map(self.safe, parts))
            case ast.GeneratorExp(elt=each) | ast.ListComp(elt=each):
                return self.safe(each)
            case ast.Call(func=ast.Name(id="list"), args=[inside]):
                return self.safe(inside)
            case ast.Call(func=ast.Attribute(attr="join", value=ast.Constant()), args=[inside]):
                return self.safe(inside)
            case ast.Call(func=ast.Name(id=name)):
                return name in SAFE or self.gives(name)
        return False

    def gives(self, name: str) -> bool:
        """Does this function of the same file return nothing but safe words?"""
        function = self.functions.get(name)
        if function is None:
            return False
        inner = Scope(function, self.functions)
        said = [n.value for n in ast.walk(function) if isinstance(n, ast.Return)]
        return bool(said) and all(map(inner.safe, said))


def markdown_of(call: ast.Call, name: str) -> Iterator[ast.expr]:
    """The arguments that Streamlit draws as Markdown."""
    match call.func:
        case ast.Attribute(value=ast.Name(id="controls")):  # it escapes labels and options itself
            yield from (word.value for word in call.keywords if word.arg == "help")
            return
    first = {"progress": slice(1, 2), "metric": slice(3), "page_link": slice(0)}  # not the page
    yield from call.args[first.get(name, slice(1))]
    named = {keyword.arg: keyword.value for keyword in call.keywords}
    for argument in ARGUMENTS - ({"value"} if name != "metric" else set()):
        if argument in named:
            yield named[argument]
    if name in CHOICES and not formatted(named.get("format_func")):
        yield call.args[1]


def drawn(function: ast.expr) -> str | None:
    """The name of a function that draws Markdown: Streamlit's, or the lab's own."""
    match function:
        case ast.Attribute(attr=name, value=value) if not isinstance(value, ast.Call):
            return name if name in DRAWN.split() else None
    return None


def formatted(by: ast.expr | None) -> bool:
    """Do the options go through ``text``, or through constants?"""
    return (isinstance(by, ast.Name) and by.id in SAFE) or isinstance(by, ast.Attribute)


def unsafe(source: str) -> list[int]:
    """The lines of arguments that go to Streamlit as they are."""
    tree = ast.parse(source)
    found = set()
    inner = {id(n) for f in ast.walk(tree) if isinstance(f, ast.FunctionDef) for n in ast.walk(f)}
    functions = {f.name: f for f in tree.body if isinstance(f, ast.FunctionDef)}
    for part in [tree, *functions.values()]:
        scope = Scope(part, functions)
        for call in ast.walk(part):
            if isinstance(part, ast.Module) and id(call) in inner:
                continue
            match call:
                case ast.Call(func=ast.Name(id="partial"), args=[later, *given]):
                    call = ast.Call(later, given, call.keywords)
            if isinstance(call, ast.Call) and (name := drawn(call.func)):
                found |= {a.lineno for a in markdown_of(call, name) if not scope.safe(a)}
    return sorted(found)


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_pages_escape_what_they_have_not_written(page: Path) -> None:
    assert unsafe(page.read_text(encoding="utf-8")) == []


@pytest.mark.parametrize(
    "line",
    [
        "st.markdown(result.sentence)",
        "tabs(partial(st.markdown, result.sentence))",
        'st.caption(f"the run {run.name}")',
        'st.caption(name or "a run")',
        'said, name = "a", b\n    st.caption(name)',
        'left.metric("says", label)',
        "st.error(str(error))",
        'st.info("a" + word)',
        'controls.selectbox("Word", words, key="word", help=symbols)',
        'st.pills("Label", labels)',
        'st.text_input("Word", help=" ".join(symbols))',
        'st.markdown(f"{name:>5}")',
        "said = text(a)\n    said += b\n    st.markdown(said)",
    ],
)
def test_the_check_sees(line: str) -> None:
    assert unsafe(f"def show(a, b):\n    {line}\n")
