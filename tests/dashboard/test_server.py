"""The dashboard's server answers its own pages alone."""

from __future__ import annotations

import os
import re
import signal
import socket
import stat
import subprocess
import sys
import time
import tomllib
from contextlib import suppress
from pathlib import Path
from urllib.parse import urlsplit

import pytest
from chromium import opened
from httpx import Response
from playwright.sync_api import Browser, Error, expect
from starlette.applications import Starlette
from starlette.middleware import Middleware
from starlette.responses import PlainTextResponse
from starlette.routing import Route, WebSocketRoute
from starlette.testclient import TestClient
from starlette.websockets import WebSocket, WebSocketDisconnect
from streamlit import config
from streamlit.web import skills

from analyses.command_line import dashboard as show
from analyses.options.commands import Dashboard
from dashboard import server
from dashboard.server import TOKEN
from models.errors import UserError

SETTINGS = Path(server.__file__).with_name(".streamlit") / "config.toml"
HOSTS = tomllib.loads(SETTINGS.read_text())["server"]["allowedHosts"]


async def greets(connection: WebSocket) -> None:
    await connection.accept()
    await connection.close()


@pytest.fixture
def client(monkeypatch: pytest.MonkeyPatch) -> TestClient:
    """A server of one file and one WebSocket behind the guard, with the hosts that are kept."""
    monkeypatch.setattr(config, "get_option", {"server.allowedHosts": HOSTS}.__getitem__)
    routes = [
        Route("/a.js", lambda request: PlainTextResponse("the file")),
        WebSocketRoute("/stream", greets),
    ]
    return TestClient(Starlette(routes=routes, middleware=[Middleware(server._OwnPages)]))


OWN = ["127.0.0.1:8501", "localhost:8501", "localhost", "[::1]:8501"]
FOREIGN = [
    "evil.example",
    "evil.example:8501",
    "localhost.evil.example",
    "127.0.0.1@evil.example",
    "",
]


@pytest.mark.parametrize("host", OWN)
def test_this_machine_is_answered_under_each_of_its_names(client: TestClient, host: str) -> None:
    assert client.get("/", headers={"host": host}).text.count(server.BASE) == 1
    headers = {"host": host, "origin": f"http://{host}"}
    for sent in ({"host": host}, headers):
        assert client.get("/a.js", headers=sent).text == "the file"
    with client.websocket_connect("/stream", headers=headers):
        pass


@pytest.mark.parametrize("host", FOREIGN)
def test_a_forged_host_gets_neither_page_nor_connection(client: TestClient, host: str) -> None:
    headers = {"host": host, "origin": f"http://{host}"}  # as after DNS rebinding
    for sent in (headers, {"host": host}):
        assert client.get("/", headers=sent).status_code == 403
        with pytest.raises(WebSocketDisconnect), client.websocket_connect("/stream", headers=sent):
            pass


@pytest.mark.parametrize(
    "origin",
    [
        "http://evil.example",
        "null",
        "http://localhost:8501",
        "http://127.0.0.1:9999",
        "127.0.0.1:8501",
    ],
)
def test_a_foreign_page_is_refused(client: TestClient, origin: str) -> None:
    headers = {"host": "127.0.0.1:8501", "origin": origin}
    assert client.get("/", headers=headers).status_code == 403
    with pytest.raises(WebSocketDisconnect), client.websocket_connect("/stream", headers=headers):
        pass


def test_without_the_token_nobody_gets_in(
    client: TestClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(server.TOKEN, "secret-1")
    headers = {"host": "127.0.0.1:8501"}

    def asked(path: str, cookie: str = "") -> Response:
        sent = headers | ({"cookie": cookie} if cookie else {})
        client.cookies.clear()
        return client.get(path, headers=sent, follow_redirects=False)

    for path in ("/", "/?token=", "/?token=other", "/?token=%C3%A9", "/heads?run=x", "/?secret"):
        assert asked(path).status_code == 403
    assert "the address that `lab dashboard` printed" in asked("/").text
    assert asked("/", "structure-lab-80=other").status_code == 403
    with pytest.raises(WebSocketDisconnect), client.websocket_connect("/stream", headers=headers):
        pass
    let_in = asked("/heads?token=secret-1&run=a%20b&empty=")
    assert (let_in.status_code, let_in.headers["location"]) == (303, "/heads?run=a+b&empty=")
    for path in (f"{client.base_url}//evil.example/", "/%2f%2Fevil.example/", "/%5Cevil.example/"):
        assert asked(f"{path}?token=secret-1").headers["location"] == "/evil.example/"
    cookie = let_in.headers["set-cookie"]
    assert {"HttpOnly", "SameSite=lax"} <= set(cookie.split("; "))
    pair = cookie.partition(";")[0]
    assert server.BASE in asked("/", pair).text
    assert asked("/a.js", pair).text == "the file"
    with client.websocket_connect("/stream", headers=headers | {"cookie": pair}):
        pass
    forged = headers | {"cookie": pair, "origin": "http://evil.example"}
    assert client.get("/", headers=forged).status_code == 403


def free_port() -> int:
    """A port that nobody listens on; the usual one may show somebody a dashboard."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        return int(free.getsockname()[1])


@pytest.mark.browser
@pytest.mark.slow
def test_the_printed_address_opens_the_pages_of_a_folder_without_runs(
    tmp_path: Path, browser: Browser
) -> None:
    port = str(free_port())
    command = [sys.executable, "-m", "analyses.command_line", "dashboard", str(tmp_path)]
    with subprocess.Popen(
        [*command, "--headless", "--port", port], stdout=subprocess.PIPE, text=True
    ) as process:
        assert process.stdout is not None
        address = process.stdout.readline().split()[1]
        assert re.fullmatch(rf"http://127\.0\.0\.1:{port}/\?token=[\w-]{{32}}", address)
        page = browser.new_page()
        answers = list[int]()
        for _ in range(120):
            with suppress(Error):
                answers.append(page.goto(f"http://127.0.0.1:{port}/").status)
                break
            time.sleep(0.5)
        assert answers == [403]
        private = server._leads_to(address.replace("/?", "/try?"))  # the first visit: a link
        assert stat.S_IMODE(private.stat().st_mode) == 0o600
        page.goto(private.as_uri())
        page.wait_for_url(f"http://127.0.0.1:{port}/try")
        expect(page.get_by_text("There is no run in")).to_be_visible()
        expect(page.get_by_text("Page not found")).to_have_count(0)
        opened(page, f"http://127.0.0.1:{port}/sweeps")  # which needs no run
        expect(page.get_by_text("No sweep in")).to_be_visible()
        opened(page, f"http://127.0.0.1:{port}/")
        expect(page.get_by_role("heading", name="Structure Lab")).to_be_visible()
        page.close()
        process.send_signal(signal.SIGINT)  # Ctrl-C ends it as its reader wishes
        assert "Aborted" not in process.stdout.read()
    assert process.returncode == 0


def test_a_token_is_the_server_s_alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """One that stands in the environment is not asked for, and none is left there."""
    given: list[str] = []
    monkeypatch.setattr(show.os, "execve", lambda program, command, env: given.append(env[TOKEN]))
    for wish in ({}, {}, {"no_token": True}):
        before = dict(os.environ)
        show.dashboard(Dashboard(tmp_path, port=free_port(), headless=True, **wish))
        assert dict(os.environ) == before
        monkeypatch.setenv(TOKEN, "left by another")
    assert len(given[0]) > 20
    assert len({*given, "left by another"}) == 4
    assert given[2] == ""


def test_no_token_stands_on_the_command_line_of_the_browser() -> None:
    """Every account of the machine can read it. The file that stands there goes with the server."""
    code = (
        "import threading, webbrowser;"
        "webbrowser.open = lambda address: print(address);"
        "from dashboard import server;"
        "[t.join() for t in threading.enumerate() if isinstance(t, threading.Timer)]"
    )
    environment = os.environ | {server.OPENED: "http://127.0.0.1:1/?token=secret"}
    done = subprocess.run(
        [sys.executable, "-c", code], env=environment, capture_output=True, text=True, check=True
    )
    address = urlsplit(done.stdout.strip())
    assert (address.scheme, "secret" in address.path) == ("file", False)
    assert not Path(address.path).exists()


def test_a_host_that_is_allowed_is_added_to_those_of_this_machine(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    commands: list[list[str]] = []
    monkeypatch.setattr(show.os, "execve", lambda program, command, _: commands.append(command))
    allowed = ("lab.example.org", "box")
    show.dashboard(Dashboard(tmp_path, port=free_port(), headless=True, allow=allowed))
    command = commands[0]
    given = [command[i + 1] for i, word in enumerate(command) if word == "--server.allowedHosts"]
    assert given == [*HOSTS, "lab.example.org", "box"]
    assert command[0] == sys.executable
    for name in ("http://lab.example.org", "*", "a b", "", "lab.example.org:80"):
        with pytest.raises(UserError, match="no host name"):
            Dashboard(tmp_path, allow=(name,))


def test_streamlit_lays_no_note_over_the_headlines(monkeypatch: pytest.MonkeyPatch) -> None:
    """It would where a browser is opened and an assistant that writes code is installed."""
    hidden = tomllib.loads(SETTINGS.read_text())["logger"]["hideWelcomeMessage"]
    options = {"server.headless": False, "logger.hideWelcomeMessage": hidden}
    monkeypatch.setattr(config, "get_option", options.__getitem__)
    assert skills.nudge_suppression_reason(str(SETTINGS.parent)) == "welcome_hidden"
