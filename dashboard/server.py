"""The dashboard's server: `lab dashboard`, or `streamlit run dashboard/server.py -- RUNS`.

It answers only requests for a host that it knows, and only those of its own pages. Streamlit alone
gives its page to any host, and asks the network for the machine's own address as soon as a foreign
page tries to connect.
"""

from __future__ import annotations

from pathlib import Path

import streamlit as st
from starlette.datastructures import Headers
from starlette.middleware import Middleware
from starlette.responses import PlainTextResponse
from starlette.types import ASGIApp, Receive, Scope, Send
from starlette.websockets import WebSocketClose
from streamlit.web.server.starlette.starlette_websocket import is_host_allowed


class OwnPages:
    """Refuses a request for an unknown host, and a request that another origin sends.

    The known hosts are Streamlit's ``server.allowedHosts``. A foreign page that gives its own name
    this machine's address (DNS rebinding) is refused by its host; a foreign page that connects to
    this machine by its address is refused by its origin.
    """

    def __init__(self, app: ASGIApp) -> None:
        self.app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        answer = self.app
        if scope["type"] in ("http", "websocket"):
            headers = Headers(scope=scope)
            host, origin = headers.get("host"), headers.get("origin")
            if not is_host_allowed(host):
                answer = _refused(scope, "unknown host: `lab dashboard --allow NAME` allows it")
            elif origin is not None and origin.partition("://")[2] != host:
                answer = _refused(scope, "a page of another origin may not ask this server")
        await answer(scope, receive, send)


def _refused(scope: Scope, why: str) -> ASGIApp:
    """Status 403; for a WebSocket, the answer before any handshake."""
    if scope["type"] == "websocket":
        return WebSocketClose(reason=why)
    return PlainTextResponse(f"{why}\n", status_code=403)


app = st.App(Path(__file__).with_name("app.py"), middleware=[Middleware(OwnPages)])
