"""Whatever a corpus, a label, a run or a link is called: pages show it as text and ask for nothing.

One server, whose system calls on the network are counted; two runs, a sweep, and an upload.
"""

from __future__ import annotations

import http.client
import re
from collections.abc import Iterator, Sequence
from pathlib import Path
from urllib.parse import quote, urlencode, urlsplit

import altair as alt
import pandas as pd
import pytest
from chromium import IDLE, leaves, needed, opened, serve
from conftest import tiny_config
from playwright.sync_api import Browser, BrowserContext, FilePayload, Page, expect
from test_sweeps_page import LANGUAGES, table_of, write

from analyses.rendering import render
from dashboard.markup import _visible
from models.runs.files import locked
from models.runs.run import Run
from models.training.loop import train

pytestmark = [pytest.mark.browser, pytest.mark.slow]

AWAY = "http://192.0.2.1/"  # an address for documentation: nobody answers there
WORDS = (
    f"![]({AWAY}a.png)",
    f"[click]({AWAY})",
    f"<img/src={AWAY}b.png>",
    "</script><script>document.title='taken'</script>",
    "$x^2$",
    "$$",
    ":red[red]",
    ":material/home:",
    ":streamlit:",
    ":smile:",
    "[/z]",
    "->",
    "`code`",
    "**bold**",
    f"{AWAY}c",
    "\u202eturned",
    "\u2067isolated",
)
TURNS = re.compile("[\u061c\u200e\u200f\u202a-\u202e\u2066-\u2069]")
"""The marks that turn the direction of writing."""
LABELS = (f"![]({AWAY}label.png)", "<b>other</b>\u202e")
NAME = "[run](x)$y$:red[z]\u202e"
SWEEP = "**sweep** $z$ [a](b)"
SENDS = re.compile(r"(connect|send\w*)\(.*sa_family=AF_INET")
"""A system call that asks another machine, as strace writes it down."""


SHORT: list[tuple[str, ...]] = [(word, other) for word in WORDS for other in WORDS if word != other]
LONG: list[tuple[str, ...]] = [WORDS, (*WORDS[:3], WORDS[0], *WORDS[4:])]


def lines(rows: Sequence[Sequence[str]]) -> bytes:
    """A corpus, whose labels say whether a line has the fourth of the hostile words."""
    return "".join(f"{LABELS[WORDS[3] in row]}\t{' '.join(row)}\n" for row in rows).encode()


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a run on a corpus of hostile words, one on brackets, and a sweep."""
    folder = tmp_path_factory.mktemp("hostile")
    corpus = tmp_path_factory.mktemp("corpus") / "hostile.tsv"
    corpus.write_bytes(lines(SHORT + LONG))
    config = tiny_config(language="hostile", objective="verdict", max_n=20, steps=2)
    train(Run.create(folder / NAME, config, corpus), "cpu")
    train(Run.create(folder / "brackets", tiny_config(language="dyck2", steps=2)), "cpu")
    names = dict(zip(LANGUAGES, WORDS, strict=False))
    write(folder / SWEEP, table_of().replace({"language": names}))
    return folder


@pytest.fixture(scope="module")
def calls(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Where the server's system calls on the network are written down."""
    return tmp_path_factory.mktemp("watched") / "calls"


@pytest.fixture(scope="module")
def address(runs: Path, calls: Path) -> Iterator[str]:
    tracer = (needed("strace"), "-D", "-f", "--seccomp-bpf", "-s0", "-e", "trace=%network")
    with serve(runs, (*tracer, "-o", str(calls))) as address:
        yield address


@pytest.fixture
def page(context: BrowserContext, address: str) -> Iterator[Page]:
    """A page that asks for nothing but what the server has."""
    outside: list[str] = []
    page = context.new_page()
    page.on("request", lambda r: outside.append(r.url) if leaves(r.url, address) else None)
    yield page
    page.close()
    assert outside == []


def says(page: Page, value: str, where: str = "[data-testid=stMain]") -> None:
    """Waits until the page shows this, letter by letter, in its first part of this kind."""
    letters = "\u2060?".join(map(re.escape, _visible(value)))
    expect(page.locator(where).first).to_contain_text(re.compile(letters))


def assert_text(page: Page) -> None:
    """No word has become anything but text, nor turns the text around it.

    A label of a picture or a cell of a table stands alone, and turns itself at most.
    """
    said = page.locator("[data-testid=stMarkdownContainer]")
    own = "a:not([href^='#'], [href^='glossary#'])"
    made = said.locator(f"img, {own}, .stMarkdownColoredText, [role=img], script")
    assert [made.nth(i).evaluate("e => e.outerHTML") for i in range(made.count())] == []
    assert {"x^2", "y", "z"}.isdisjoint(said.locator(".katex annotation").all_text_contents())
    assert not TURNS.search(" ".join(said.all_text_contents()))
    assert page.title() != "taken"


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("runs", [NAME]),
        ("try", []),
        pytest.param("model", [], marks=pytest.mark.torture),
        ("heads", []),
        pytest.param("interventions", [], marks=pytest.mark.torture),
        ("patching", [" ".join(WORDS)]),
        ("explanations", [" ".join(WORDS)]),
        pytest.param("leaderboard", [NAME], marks=pytest.mark.torture),
        ("sweeps", [SWEEP, *WORDS[:2]]),
    ],
)
def test_hostile_words_are_shown_as_text(
    page: Page, address: str, name: str, expected: Sequence[str]
) -> None:
    opened(page, f"{address}/{name}?run={quote(NAME)}&word_hostile={quote(' '.join(WORDS))}")
    for word in expected:
        says(page, word, "h4" if name in ("patching", "explanations") else "[data-testid=stMain]")
    assert_text(page)
    if name in ("runs", "try", "patching"):
        for part in page.get_by_role("tab").all():
            part.click()
            page.wait_for_selector(IDLE)
            assert_text(page)


@pytest.mark.parametrize(
    ("name", "keys"),
    [
        ("try", ("run",)),
        ("try", ("word_hostile",)),
        ("discover", ("corpus",)),
        ("sweeps", ("sweep", "only_language", "down")),
    ],
)
def test_a_hostile_link_is_shown_as_text(
    page: Page, address: str, name: str, keys: Sequence[str]
) -> None:
    value = f"![]({AWAY}typed.png) {AWAY}typed $y$ \u202e"
    opened(page, f"{address}/{name}?{urlencode({'run': NAME} | dict.fromkeys(keys, value))}")
    if "word_hostile" in keys:
        says(page, f"![]({AWAY}typed.png)")
    assert_text(page)


def test_a_sweep_is_drawn(page: Page, address: str) -> None:
    opened(page, f"{address}/sweeps?part_of_sweep=Capacity")
    for word in ("word length", "seeds that learn it"):
        drawn = page.get_by_test_id("stVegaLiteChart").filter(has_text=word)
        expect(drawn.first).to_be_visible()
    assert page.get_by_test_id("stAlertContentError").count() == 0


def test_home_sees_a_training_end(page: Page, address: str, runs: Path) -> None:
    """Nobody clicks: the page that follows a training finds out, and asks no more."""
    run = Run(runs / "brackets")
    run.update(status="training")
    with locked(run.path):
        opened(page, f"{address}/runs?run=brackets")
        says(page, "step 2")
        run.update(status="finished")
    says(page, "brackets has not been asked this yet: accuracy")
    assert page.get_by_test_id("stProgress").count() == 0


def test_brackets_are_no_link(page: Page, address: str) -> None:
    opened(page, f"{address}/patching?run=brackets&word_dyck2={quote('( [ ] ]')}")
    says(page, "( [ ] ]", "h4")
    assert_text(page)


def test_an_upload_is_learned_and_all_that_is_said_of_it_is_text(page: Page, address: str) -> None:
    """From the file to the rule, and into the network that learned it."""
    opened(page, f"{address}/discover?corpus=A+new+corpus")
    name, box = "![](x) $y$.tsv", page.locator("input[type=file]")
    box.set_input_files(FilePayload(name=name, mimeType="text/plain", buffer=b"yes\n"))
    says(page, f"{name}, line 1: expected one tab")
    assert_text(page)
    box.set_input_files(FilePayload(name=name, mimeType="text/plain", buffer=lines(SHORT)))
    for label in LABELS:
        says(page, f"lines of {label}")
    assert_text(page)
    page.get_by_role("button", name="Discover the rule").click()
    expect(page.get_by_role("tab", name="Who finds what")).to_be_visible()
    page.wait_for_selector(IDLE)
    says(page, f"A line is {LABELS[0]} if it never contains {WORDS[3]}.")
    page.get_by_role("tab", name="Try a line").click()
    page.get_by_role("textbox", name="Line").fill(f"{WORDS[0]} {WORDS[3]}")
    page.get_by_role("textbox", name="Line").press("Enter")
    assert_text(page)
    page.get_by_role("link", name="Look inside").click()
    expect(page.get_by_role("heading", name="Heads")).to_be_visible()
    assert_text(page)


def test_an_exported_page_runs_no_script_of_a_word(browser: Browser, tmp_path: Path) -> None:
    table = pd.DataFrame({"word": [*WORDS, "<!--<script>"], "value": range(len(WORDS) + 1)})
    figure = alt.Chart(table).mark_bar().encode(x="value:Q", y="word:N", tooltip=["word", "value"])
    file = tmp_path / "figure.html"
    file.write_bytes(render(figure, "html"))
    page = browser.new_page()
    asked: list[str] = []
    page.on("request", lambda request: asked.append(request.url))
    page.goto(file.as_uri())
    bars = page.locator("svg.marks").bounding_box()
    assert bars is not None
    for y in range(10, int(bars["height"]), 10):  # each bar says its word where the mouse is
        page.mouse.move(bars["x"] + bars["width"] / 2, bars["y"] + y)
    expect(page.locator("#vg-tooltip-element")).to_contain_text("value")
    assert page.title() != "taken"
    assert asked == [file.as_uri()]
    page.close()
    assert b"<script>document" not in render(figure, "svg")


def status(address: str, path: str, host: str, origin: str) -> int:
    """What the server answers to a request with this Host and Origin."""
    connection = http.client.HTTPConnection(urlsplit(address).netloc, timeout=20)
    connection.putrequest("GET", path, skip_host=True)
    for name, value in {
        "Host": host,
        "Origin": origin,
        "Upgrade": "websocket",
        "Connection": "Upgrade",
        "Sec-WebSocket-Key": "dGhlIHNhbXBsZSBub25jZQ==",
        "Sec-WebSocket-Version": "13",
    }.items():
        connection.putheader(name, value)
    connection.endheaders()
    try:
        return connection.getresponse().status
    finally:
        connection.close()


def test_forged_requests_are_refused_and_nothing_is_asked(address: str, calls: Path) -> None:
    """Of the network, since the server was started: a name, its own address, or anything else."""
    own = urlsplit(address).netloc
    assert status(address, "/_stcore/stream", own, address) == 101
    for host, origin in (
        ("evil.example", "http://evil.example"),
        (own, "http://evil.example"),
        (own, "null"),
        (own, "http://localhost:1"),
    ):
        assert status(address, "/_stcore/stream", host, origin) == 403
        assert status(address, "/", host, origin) == 403
    seen = calls.read_text()
    assert seen.count("accept4(") >= 9  # strace has counted
    assert SENDS.findall(seen) == []
