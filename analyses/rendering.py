"""Charts as files: pictures, and pages that hold all they need."""

from __future__ import annotations

import io
import json
import re
from collections.abc import Callable
from functools import cache
from importlib.metadata import version
from pathlib import Path
from typing import Any

import altair as alt
import vl_convert
from altair.typing import ChartType
from altair.utils.html import INLINE_HTML_TEMPLATE
from altair.vegalite import SCHEMA_VERSION

from analyses.cache import kept_text
from analyses.options.shared import marked
from models.errors import UserError
from models.runs.files import write_bytes


class Once(alt.TopLevelMixin):
    """A chart whose specification is made once for all its pictures: that takes the longest. It is
    not held against altair's schema, which takes as long again: the tests of each chart do so.

    Args:
        changes: what takes the place of its own in the specification; None takes it away.
    """

    def __init__(self, figure: ChartType, **changes: Any) -> None:
        self._figure, self._changes, self._made = figure, changes, dict[str, Any]()

    def to_dict(self, *args: Any, **how: Any) -> dict[str, Any]:
        """The chart as Vega-Lite."""
        self._made = self._made or self._figure.to_dict(*args, **how | {"validate": False})
        config = self._made.get("config", {}) | self._changes.get("config", {})
        made = {**self._made, **self._changes, "config": config}
        return {name: value for name, value in made.items() if value is not None}


def render(figure: ChartType | Once, suffix: str, origin: str = "") -> bytes:
    """A chart as "svg", "png" or self-contained "html", without a browser. Raises UserError where
    the system gives the drawing library too little.

    Args:
        origin: see ``marked``.
    """
    try:
        return marked(_rendered(figure, suffix), suffix, origin)
    except ValueError as error:
        if not STARVED.search(str(error)):
            raise
        raise UserError(
            "no picture can be drawn with so little memory or so few open files: raise the limits, "
            "with `ulimit -v unlimited` and `ulimit -n 1024`"
        ) from None


STARVED = re.compile("requires the vl-convert-python package|oneshot canceled")
"""Altair's words where its library cannot be loaded, or has no thread of its own."""


def _rendered(figure: ChartType | Once, suffix: str) -> bytes:
    if suffix == "png":
        raw = io.BytesIO()
        figure.save(raw, format="png", ppi=144)
        return raw.getvalue()
    text = io.StringIO()
    if suffix == "html":
        figure.save(text, format="html", template=_Page(), json_kwds={"cls": _InsideScript})
    else:
        figure.save(text, format="svg")
    return text.getvalue().encode()


class _Page:
    """Altair's page that holds all it needs. Its script takes seconds to make, so it is kept."""

    def render(self, **values: Any) -> str:
        return INLINE_HTML_TEMPLATE.render(vegaembed_script=_script(), **values)


@cache
def _script() -> str:
    """vega-embed with all that it needs, as vl-convert has it for Altair's version of Vega-Lite."""
    lite = "_".join(SCHEMA_VERSION.split(".")[:2])
    name = f"vega-embed-{version('vl-convert-python')}-{lite}.js"
    # vl-convert's type hints ask for a snippet of script; the function itself does not.
    bundle: Callable[..., str] = vl_convert.javascript_bundle
    return kept_text(name, lambda: bundle(vl_version=lite))


def draw(figure: ChartType, file: Path) -> None:
    """Writes a chart as the ending of the file's name says. Raises UserError if it cannot be
    written."""
    write_bytes(file, render(figure, file.suffix.removeprefix(".").lower()))


class _InsideScript(json.JSONEncoder):
    """JSON that may stand inside a script of a page.

    "<" is written as an escape. No word of a corpus can then close the script.
    """

    def encode(self, o: Any) -> str:
        return super().encode(o).replace("<", "\\u003c")
