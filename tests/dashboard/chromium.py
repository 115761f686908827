"""The dashboard as a browser sees it: what the tests in Chromium share."""

from __future__ import annotations

import os
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
import urllib.request
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import pytest
from playwright.sync_api import Browser, Page, TimeoutError, expect, sync_playwright

PATIENCE = 300_000  # ms: a machine may be shared by many; a page that is broken says so at once
IDLE = "[data-testid=stApp][data-test-script-state=notRunning]"
SERVERS: dict[str, tuple[subprocess.Popen[bytes], Path]] = {}
"""By address, the servers that run, and the files with what they say."""


def needed(*names: str) -> str:
    """A program that is installed under one of these names. A laptop without it skips its tests;
    the checks on a server do not."""
    for path in filter(None, map(shutil.which, names)):
        return path
    refuse = pytest.fail if os.environ.get("CI") else pytest.skip
    refuse(f"no {names[0]} here: install it to test the dashboard")


@contextmanager
def launched() -> Iterator[Browser]:
    """Debian's Chromium."""
    path = needed("chromium", "google-chrome")
    with sync_playwright() as playwright:
        expect.set_options(timeout=PATIENCE)
        yield playwright.chromium.launch(executable_path=path, args=["--no-sandbox"])


@contextmanager
def serve(runs: Path, tracer: Sequence[str] = ()) -> Iterator[str]:
    """`lab dashboard` without a token on a free port, once it answers: its address.

    Args:
        tracer: the command that starts the server, if it is not started by itself.
    """
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    command = [sys.executable, "-m", "analyses.command_line", "dashboard", str(runs)]
    with tempfile.NamedTemporaryFile(suffix=".log", delete=False) as log:
        server = subprocess.Popen(
            [*tracer, *command, "--headless", "--no-token", "--port", str(port)],
            stdout=log,
            stderr=log,
            env=os.environ | {"PYTHONFAULTHANDLER": "1"},
        )
    address = f"http://127.0.0.1:{port}"
    SERVERS[address] = server, Path(log.name)
    try:
        for _ in range(120):
            try:
                urllib.request.urlopen(f"{address}/_stcore/health", timeout=1).close()
                break
            except OSError:
                time.sleep(0.5)
        else:
            raise AssertionError("the dashboard did not start")
        yield address
    finally:
        server.terminate()
        server.wait(timeout=20)
        SERVERS.pop(address)[1].unlink()


def opened(page: Page, url: str) -> None:
    """Goes there and waits until the script has run. A server that does not get there is ended, and
    the failure tells what each of its threads was doing."""
    page.set_default_timeout(PATIENCE)
    page.goto(url)
    try:
        page.wait_for_selector(IDLE)
        expect(page.locator("[data-testid=stSpinner]")).to_have_count(0)
        page.wait_for_selector(IDLE)
    except (TimeoutError, AssertionError) as error:
        error.add_note(_ended("/".join(url.split("/")[:3])))
        raise


def counts(page: Page) -> None:
    """Has a page count the clicks of its reader, on all addresses that it comes to."""
    page.add_init_script(
        """addEventListener("pointerdown", () =>
        sessionStorage.setItem("clicks", 1 + Number(sessionStorage.getItem("clicks"))), true)"""
    )


def clicks(page: Page) -> int:
    """The clicks since ``counts``."""
    return int(page.evaluate("Number(sessionStorage.getItem('clicks'))"))


def assert_short(page: Page) -> None:
    """The first picture begins in the first window, none is cut off, and what stands above the
    parts of the page is no longer than two windows and 350 words."""
    seen = page.evaluate(SEEN)
    assert seen["picture"] < 900, page.url
    assert seen["above"] <= 1800, page.url
    assert seen["words"] <= 350, page.url
    assert seen["cut"] == [], page.url


SEEN = """() => {
    const main = document.querySelector("[data-testid=stMainBlockContainer]");
    const top = (e) => e.getBoundingClientRect().top - main.getBoundingClientRect().top;
    const pictures = [...main.querySelectorAll("[data-testid=stVegaLiteChart] svg")];
    const parts = main.querySelector("[data-testid=stTabs]");
    const words = main.cloneNode(true);
    const aside = "[data-testid=stVegaLiteChart], [data-testid=stTabs], style";
    words.querySelectorAll(aside + ", details:not([open])").forEach((e) => e.remove());
    return {
        picture: pictures.length ? top(pictures[0]) : 0,
        above: parts ? top(parts) : main.scrollHeight,
        words: words.textContent.split(/\\s+/).length,
        cut: pictures.filter((e) => e.getBoundingClientRect().width > main.clientWidth).map(
            (e) => e.parentElement.getAttribute("aria-label")),
    };
}"""


def _ended(address: str) -> str:
    """The last lines of a server that is made to tell all its stacks; "" of another server."""
    if address not in SERVERS:
        return ""
    server, log = SERVERS[address]
    server.send_signal(signal.SIGABRT)
    server.wait(timeout=20)
    told = log.read_text(errors="replace").partition("Extension modules")[0]
    return told[-20_000:]


def leaves(url: str, address: str) -> bool:
    return not url.startswith((address, address.replace("http", "ws"), "data:", "blob:"))
