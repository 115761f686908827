"""The dashboard's server: `lab dashboard`, or `streamlit run dashboard/server.py -- RUNS`.

It answers only requests for a host that it knows, only those of its own pages, and only a browser
that came with the token, which `lab dashboard` prints in the address. Streamlit alone gives its
page to any host and to any account of the machine, and asks the network for the machine's own
address as soon as a foreign page tries to connect.
"""

from __future__ import annotations

import atexit
import os
import re
import secrets
import tempfile
import threading
import webbrowser
from html import escape
from http.cookies import SimpleCookie
from pathlib import Path
from urllib.parse import parse_qsl, urlencode

import streamlit as st
from starlette.datastructures import Headers
from starlette.middleware import Middleware
from starlette.responses import HTMLResponse, PlainTextResponse, RedirectResponse
from starlette.types import ASGIApp, Receive, Scope, Send
from starlette.websockets import WebSocketClose
from streamlit import file_util
from streamlit.web.server.starlette.starlette_websocket import is_host_allowed

TOKEN, OPENED = "STRUCTURE_LAB_TOKEN", "STRUCTURE_LAB_OPENED"
"""Variables of the environment: the token, if one is asked for; the address for a browser."""
HEALTH = "/_stcore/health"
"""Says that the server runs, and nothing else: it is answered without a token."""
PAGE = re.compile(r"/[\w-]*")
"""The address of a page: nothing more than its name."""
BASE = "<script>window.__streamlit = {BACKEND_BASE_URL: new URL('.', location).href}</script>"
"""Tells Streamlit's client where its server is. Without it the client tries the address of the page
first, and the browser reports an error, 404, on every page but the first."""


class _OwnPages:
    """Refuses a request for an unknown host, one that another origin sends, and one without the
    token.

    The known hosts are Streamlit's ``server.allowedHosts``. A foreign page that gives its own name
    this machine's address (DNS rebinding) is refused by its host; a foreign page that connects to
    this machine by its address is refused by its origin. Another account of this machine passes
    both, and is refused by the token. A browser that comes with it gets it as a cookie, and goes on
    to the same address without it.
    """

    def __init__(self, app: ASGIApp) -> None:
        self.app, self.token = app, os.environ.get(TOKEN, "")
        page = Path(file_util.get_static_dir(), "index.html").read_text("utf-8")
        page = page.replace("<head>", f"<head>{BASE}", 1)
        self.page = HTMLResponse(page, headers={"Cache-Control": "no-cache"})

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        answer = self.app
        if scope["type"] in ("http", "websocket"):
            headers = Headers(scope=scope)
            host, origin = headers.get("host"), headers.get("origin")
            if not is_host_allowed(host):
                answer = _refused(scope, "unknown host: `lab dashboard --allow NAME` allows it")
            elif origin is not None and origin.partition("://")[2] != host:
                answer = _refused(scope, "a page of another origin may not ask this server")
            elif self.token and scope["path"] != HEALTH and not self._has_token(scope, headers):
                answer = self._with_token(scope)
            elif scope.get("method") == "GET" and PAGE.fullmatch(scope["path"]):
                answer = self.page
        await answer(scope, receive, send)

    def _has_token(self, scope: Scope, headers: Headers) -> bool:
        sent = SimpleCookie(headers.get("cookie", "")).get(_cookie(scope))
        return sent is not None and self._is_token(sent.value)

    def _is_token(self, sent: str) -> bool:
        return secrets.compare_digest(sent.encode(), self.token.encode())

    def _with_token(self, scope: Scope) -> ASGIApp:
        """The same page for a browser whose address has the token, else a refusal."""
        query = parse_qsl(scope["query_string"].decode(errors="replace"), keep_blank_values=True)
        if scope["type"] != "http" or not self._is_token(dict(query).get("token", "")):
            return _refused(scope, "open the address that `lab dashboard` printed, with its token")
        rest = urlencode([(name, value) for name, value in query if name != "token"])
        path = "/" + scope["path"].lstrip("/\\")  # of two slashes a browser goes elsewhere
        answer = RedirectResponse(f"{path}?{rest}" if rest else path, 303)
        answer.set_cookie(_cookie(scope), self.token, httponly=True, samesite="lax")
        return answer


def _cookie(scope: Scope) -> str:
    """A name for each port, since browsers give the cookies of one to all."""
    return f"structure-lab-{(scope.get('server') or ('', 0))[1]}"


def _refused(scope: Scope, why: str) -> ASGIApp:
    """Status 403; for a WebSocket, the answer before any handshake."""
    if scope["type"] == "websocket":
        return WebSocketClose(reason=why)
    return PlainTextResponse(f"{why}\n", status_code=403)


def _leads_to(address: str) -> Path:
    """A page for this user alone that goes on to an address, until this process ends.

    Every account of the machine can read the command line of a browser, where the token would
    stand; what it opens is this file.
    """
    with tempfile.NamedTemporaryFile("w", suffix=".html", delete=False) as file:  # mode 0600
        print(f'<meta http-equiv="refresh" content="0; url={escape(address)}">', file=file)
    atexit.register(Path(file.name).unlink, missing_ok=True)
    return Path(file.name)


if address := os.environ.pop(OPENED, ""):  # once the server answers
    threading.Timer(1.0, webbrowser.open, [_leads_to(address).as_uri()]).start()
app = st.App(Path(__file__).with_name("app.py"), middleware=[Middleware(_OwnPages)])
