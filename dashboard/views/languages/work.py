"""Work: all that was begun from the pages and takes long, in one place."""

from __future__ import annotations

from pathlib import Path

import streamlit as st

from dashboard import processes
from dashboard.background import JOBS
from dashboard.drawing import explain_errors
from dashboard.markup import text


def show() -> None:
    """The page."""
    st.markdown("**What goes on now?** It goes on when this page, or the browser, is closed.")

    @st.fragment(run_every=2)
    def watch() -> None:
        with explain_errors():
            _all()

    watch()


def _all() -> None:
    jobs, folders = JOBS.running(), processes.begun()
    if not (jobs or folders):
        st.info("Nothing was begun. The page Train begins a training; each question has a button.")
    for key, job in jobs:
        left, right = st.columns([5, 1])
        left.progress(job.share, text(f"{str(key).partition(',')[0]}: {job.what}"))
        right.button("Stop", key=f"end {key}", on_click=job.stop)
    for folder in folders:
        left, right = st.columns([5, 1])
        left.markdown(f"**{text(folder.name)}**: {text(_state(folder))}")
        if processes.can_stop(folder):
            right.button("Stop", key=f"end {folder}", on_click=processes.stop, args=(folder,))


def _state(folder: Path) -> str:
    """The progress of the work on a folder."""
    if processes.is_waiting(folder):
        return "waits until another one has ended"
    return "goes on" if processes.is_working(folder) else "has ended"
