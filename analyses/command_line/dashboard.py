"""The dashboard, served."""

from __future__ import annotations

import importlib.util
import os
import secrets
import socket
import sys
import tomllib
from pathlib import Path

from analyses.console import OUT
from analyses.options.commands import Dashboard
from models.errors import UserError, told


def _refuse_taken(port: int) -> None:
    """Raises UserError if another program serves at this port of this machine, or nobody may."""
    with socket.socket() as ours:
        if os.name == "posix":  # a port that was left a moment ago is free
            ours.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            ours.bind(("127.0.0.1", port))
        except OSError as error:
            raise UserError(
                f"port {port} cannot be served ({told(error)}): choose another with --port"
            ) from None


SERVE = """
import click
from streamlit.web.cli import main
try:
    main(prog_name="streamlit", standalone_mode=False)
except click.Abort:  # Ctrl-C: Streamlit alone would say "Aborted!", with status 1
    print("stopped")
"""
"""Streamlit's own command; its arguments follow."""


def dashboard(options: Dashboard) -> None:
    """Browse it all."""
    if not options.runs.is_dir():
        raise UserError(
            f"{options.runs} is not a folder: train a run first, for example with `lab demo`"
        )
    # Found, not imported: Streamlit runs the script, and the arrows between the rooms stay one way.
    package = importlib.util.find_spec("dashboard")
    if package is None or package.origin is None:
        raise UserError("the dashboard is not installed: install the lab again with `make lab`")
    app = Path(package.origin).with_name("server.py")
    command = [sys.executable, "-c", SERVE, "run", str(app)]
    command += ["--server.port", str(options.port)]
    command += ["--server.headless", "true"]  # the page opens the browser, with the token
    if options.allow:  # the option takes the place of the file's names
        config = tomllib.loads(app.with_name(".streamlit").joinpath("config.toml").read_text())
        for name in (*config["server"]["allowedHosts"], *options.allow):
            command += ["--server.allowedHosts", name]
    command += ["--", os.path.realpath(options.runs)]
    _refuse_taken(options.port)
    address = f"http://127.0.0.1:{options.port}"
    # Empty where there is none: what another dashboard left in the environment is not ours.
    variables = {"STRUCTURE_LAB_TOKEN": "", "STRUCTURE_LAB_OPENED": ""}
    if not options.no_token:
        variables["STRUCTURE_LAB_TOKEN"] = token = secrets.token_urlsafe(24)
        address += f"/?token={token}"
    screen = sys.platform != "linux" or {"DISPLAY", "WAYLAND_DISPLAY"} & os.environ.keys()
    if not options.headless and screen:  # a browser could open here
        variables["STRUCTURE_LAB_OPENED"] = address
    OUT.print(f"dashboard: {address} (stop with Ctrl-C)")
    OUT.file.flush()
    # The server takes the place of this process: whoever stops one stops both.
    os.execve(sys.executable, command, os.environ | variables)
