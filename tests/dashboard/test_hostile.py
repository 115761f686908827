"""Whatever a corpus, a label, a run or a link is called: pages show it as text and ask for nothing.

One server, one run trained for two steps. A hook of Python's own counts what the server asks of the
network.
"""

from __future__ import annotations

import http.client
import os
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import quote, urlsplit

import altair as alt
import pandas as pd
import pytest
from chromium import leaves, opened, serve
from conftest import tiny_config
from playwright.sync_api import Browser, Page

from analyses.answers import render
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
)
LABELS = (f"![]({AWAY}label.png)", "<b>other</b>")
NAME = "[run](x)$y$:red[z]"
WATCH = """
import os, sys
def note(event, arguments):
    if event in ("socket.getaddrinfo", "socket.connect", "socket.sendto"):
        with open(os.environ["NOTES"], "a") as notes:
            notes.write(f"{event} {arguments[1:]}\\n")
sys.addaudithook(note)
"""


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with one run on a corpus of hostile words."""
    folder = tmp_path_factory.mktemp("hostile")
    rows = [(word, other) for word in WORDS for other in WORDS if word != other]
    lines = (f"{LABELS[i % 2]}\t{' '.join(row)}\n" for i, row in enumerate(rows))
    corpus = tmp_path_factory.mktemp("corpus") / "hostile.tsv"
    corpus.write_text("".join(lines), encoding="utf-8")
    config = tiny_config(language="hostile", objective="verdict", max_n=16, steps=2)
    train(Run.create(folder / NAME, config, corpus), "cpu")
    return folder


@pytest.fixture(scope="module")
def notes(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Where the server's questions to the network are noted."""
    folder = tmp_path_factory.mktemp("watched")
    (folder / "sitecustomize.py").write_text(WATCH)
    return folder / "notes.txt"


@pytest.fixture(scope="module")
def address(runs: Path, notes: Path) -> Iterator[str]:
    with pytest.MonkeyPatch.context() as patch:
        path = f"{notes.parent}{os.pathsep}{os.environ.get('PYTHONPATH', os.getcwd())}"
        patch.setenv("PYTHONPATH", path)
        patch.setenv("NOTES", str(notes))
        with serve(runs) as address:
            yield address


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


def test_forged_requests_are_refused_and_nothing_is_asked(address: str, notes: Path) -> None:
    own = urlsplit(address).netloc
    assert status(address, "/_stcore/stream", own, address) == 101
    for host, origin in (
        ("evil.example", "http://evil.example"),
        (own, "http://evil.example"),
        (own, "null"),
        (own, "http://localhost:1"),
    ):
        assert status(address, "/_stcore/stream", host, origin) == 403
        assert status(address, "/", host, origin) in (400, 403)
    asked = notes.read_text().splitlines() if notes.exists() else []
    assert [line for line in asked if "127.0.0.1" not in line and "::" not in line] == []


def test_hostile_words_are_shown_as_text(browser: Browser, address: str) -> None:
    context = browser.new_context()
    page = context.new_page()
    outside: list[str] = []
    page.on("request", lambda r: outside.append(r.url) if leaves(r.url, address) else None)
    run = quote(NAME)
    for line in (" ".join(WORDS[:8]), " ".join(WORDS[8:])):
        word = quote(line)
        opened(page, f"{address}/try?run={run}&word_hostile={word}")
        assert as_text(page) == []
    unknown = quote(f"![]({AWAY}typed.png) {AWAY}typed $z$")
    opened(page, f"{address}/try?run={run}&word_hostile={unknown}")
    assert f"![]({AWAY}typed.png)" in shown(page)
    opened(page, f"{address}/?run={run}")
    assert NAME in shown(page)
    assert as_text(page) == []
    context.close()
    assert outside == []


def shown(page: Page) -> str:
    """All text of the page, without the marks that part it."""
    return str(page.locator("[data-testid=stMain]").inner_text()).replace("\u2060", "")


def as_text(page: Page) -> list[str]:
    """What a word has become that is no text."""
    main = page.locator("[data-testid=stMain] [data-testid=stMarkdownContainer]")
    found = main.locator(
        "img, a:not([href^='#']), .katex, .stMarkdownColoredText, [role=img], script"
    )
    return [str(found.nth(i).evaluate("e => e.outerHTML")) for i in range(found.count())]


def test_an_exported_page_runs_no_script_of_a_word(browser: Browser, tmp_path: Path) -> None:
    table = pd.DataFrame({"word": [*WORDS, "<!--<script>"], "value": range(len(WORDS) + 1)})
    figure = alt.Chart(table).mark_bar().encode(x="value:Q", y="word:N", tooltip=["word"])
    file = tmp_path / "figure.html"
    file.write_bytes(render(figure, "html"))
    page = browser.new_page()
    asked: list[str] = []
    page.on("request", lambda request: asked.append(request.url))
    page.goto(file.as_uri())
    page.wait_for_selector("canvas, svg")
    assert page.title() != "taken"
    assert asked == [file.as_uri()]
    page.close()
    assert b"<script>document" not in render(figure, "svg")
