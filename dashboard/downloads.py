"""The downloads of a page: table, picture, findings, and the code that makes them."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import asdict
from html import escape
from importlib.metadata import version
from typing import Any
from urllib.parse import urlencode

import streamlit as st
from altair.typing import ChartType

from analyses.answers import Answer, asked_with
from analyses.console import as_csv, as_latex
from analyses.registry import registered
from analyses.rendering import render
from analyses.reports.code import command_of, python_of
from analyses.reports.of_run import report
from dashboard import controls
from dashboard.markup import text
from dashboard.selection import current_run
from models.runs.run import Run

ASKED = ("run", "step", "question", "asked with", "lab", "link", "commit of the training")
"""What each row of a CSV says of its origin: tables of several runs can then be joined."""


def downloads(
    name: str,
    result: Answer,
    draw: Callable[[], ChartType],
    of_run: bool = True,
    opened: bool = False,
) -> None:
    """The table of an answer; buttons to take along table, picture, page and findings; and the code
    that makes them again. Nothing of the second of two runs.

    Args:
        name: the name of the question, or of what the page shows.
        draw: makes the chart. It is called only when a picture is asked for.
        of_run: it is about the run that is drawn.
        opened: it is in sight at once.
    """
    if controls.is_second():
        return
    with st.container() if opened else st.expander("Numbers, files, code"):
        st.dataframe(result.table, hide_index=True)
        files(name, result, draw, of_run)


def files(name: str, result: Answer, draw: Callable[[], ChartType], of_run: bool) -> None:
    """The buttons and the code of ``downloads`` alone."""
    run = current_run() if of_run else None
    about = _about(run, name, result)
    origin = "; ".join(f"{key}: {value}" for key, value in about.items())
    asked = "; ".join(f"{key}: {value}" for key, value in about.items() if key in ASKED)
    table = result.table.assign(origin=asked)
    made: dict[str, tuple[str, Any, str]] = {
        "Table (CSV)": ("csv", as_csv(table).encode(), "text/csv"),
        "Table (LaTeX)": ("tex", lambda: as_latex(result.table, origin), "text/x-tex"),
        "Picture (SVG)": ("svg", lambda: render(draw(), "svg", origin), "image/svg+xml"),
        "Picture (PNG)": ("png", lambda: render(draw(), "png", origin), "image/png"),
        "Page (HTML)": ("html", lambda: _page(render(draw(), "html"), about), "text/html"),
    }
    if result.claims or result.findings:
        claims = [asdict(claim) for claim in result.claims]
        content = {**about, "claims": claims, "findings": dict(result.findings)}
        findings = json.dumps(content, ensure_ascii=False, indent=2)
        made["Findings (JSON)"] = ("json", findings, "application/json")
    stem = name if run is None else f"{run.name}-{name}-step-{run.step}"
    for column, (label, (suffix, content, mime)) in zip(
        st.columns(len(made)), made.items(), strict=True
    ):
        column.download_button(text(label), content, f"{stem}.{suffix}", mime, on_click="ignore")
    if run is not None and name in registered() and result.arguments:
        st.markdown("**The code that makes this picture**")
        st.code(python_of(run, name, result.arguments), language="python")
        st.code(command_of(run, name, result.arguments), language="bash")


def report_button(run: Run) -> None:
    """A button that downloads the run's report."""
    if not controls.is_second():
        st.download_button(
            "Report of this run (HTML)",
            lambda: report(run).encode(),
            f"{run.name}-report-step-{run.step}.html",
            "text/html",
            on_click="ignore",
        )


def _about(run: Run | None, name: str, result: Answer) -> dict[str, Any]:
    """The origin of a file, as the file itself states it."""
    about: dict[str, Any] = {
        "lab": version("structure-lab"),
        "question": name,
        "link": f"{st.context.url or ''}?{urlencode(st.query_params.to_dict())}",
        "answer": result.sentence,
    }
    if run is None:
        return about
    about = {"run": run.name, "step": run.step, **about}
    about["commit of the training"] = run.record.get("git_commit")
    if name in registered():
        verdict = result.verdict
        about |= {"asked with": asked_with(name, result.arguments)}
        about |= {"finding": verdict.short, "grade": verdict.grade, "why": verdict.why}
    else:
        about |= {"asked with": dict(result.arguments)}
    return about


def _page(page: bytes, about: dict[str, Any]) -> bytes:
    """A picture's page with what it is about above the picture."""
    lines = "".join(f"<p><b>{escape(key)}</b>: {escape(str(about[key]))}</p>" for key in about)
    head, body, rest = page.partition(b"<body>")
    assert body, "altair writes a body"
    return head + body + lines.encode() + rest
