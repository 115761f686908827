"""Cards of runs, models and answers for a notebook: plain tables of HTML.

There are no colours, so that the page's own are used, light or dark. All text is escaped.
"""

from __future__ import annotations

from collections.abc import Mapping
from html import escape


def card(title: str, rows: Mapping[str, object]) -> str:
    """A title and a table with one row per name and value."""
    cells = "".join(
        f'<tr><th style="text-align: left">{escape(name)}</th>'
        f'<td style="text-align: left">{escape(str(value))}</td></tr>'
        for name, value in rows.items()
    )
    return f"<div><strong>{escape(title)}</strong><table>{cells}</table></div>"
