"""The leaderboard as one HTML file. It needs no other file, so it opens offline and can be sent.

Its looks are in ``report.html.jinja``, beside this file, and in that of all reports. The template
trusts the pictures and the tables, whose cells pandas escapes, and escapes everything else itself.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from altair.typing import ChartType
from jinja2 import ChoiceLoader, Environment, PackageLoader, StrictUndefined

from analyses.answers import Answer
from analyses.charts.leaderboard import (
    FOUND,
    MEANINGS,
    MEASURES,
    REPLACEMENTS,
    against_reliance,
)
from analyses.options.studies import PLANTED
from analyses.questions.words import explanations
from analyses.questions.words.explanations import on_scale
from analyses.questions.words.leaderboard import MEMBERSHIPS
from analyses.rendering import render
from analyses.studies import leaderboard
from analyses.studies.reliance import credited
from interp.explanations.games import SCALES
from models.languages import language

PLACES = ("studies", "reports")
"""The rooms of the templates: this one extends the one of all reports."""


def report(result: Answer, strips: Mapping[str, Answer]) -> str:
    """The page.

    Args:
        result: the answer of ``analyses.studies.leaderboard``.
        strips: one explained word of the first seed, by language.
    """
    pages = Environment(
        loader=ChoiceLoader([PackageLoader(f"analyses.{name}", "") for name in PLACES]),
        autoescape=True,
        undefined=StrictUndefined,
    )
    names = dict.fromkeys(result.table["language"])
    return pages.get_template("report.html.jinja").render(
        question=leaderboard.QUESTION,
        asked=result.arguments,
        claims=result.findings["claims"],
        meanings=MEANINGS,
        picture=_picture(leaderboard.chart(result)),
        reliance=_reliance(result),
        languages=[_about(result, name, strips.get(name)) for name in names],
    )


def _picture(figure: ChartType) -> str:
    return render(figure, "svg").decode()


def _reliance(result: Answer) -> str | None:
    """Credit against reliance, of the first architecture with planted networks."""
    rows = credited(result)
    planted = rows[rows["language"] == PLANTED]
    if planted.empty:
        return None
    rows = rows[rows["architecture"] == planted["architecture"].iloc[0]]
    return _picture(against_reliance(on_scale(rows, SCALES[0])))


def _about(result: Answer, name: str, strip: Answer | None) -> dict[str, Any]:
    """A language: how right its models are, its rule, its tables, and one word."""
    target = language(name)
    tables = {}
    for membership in MEMBERSHIPS:
        for kind in REPLACEMENTS:
            table = leaderboard.wide(result.table, name, membership, kind, (*MEASURES, FOUND))
            words = explanations.replacement_in_words(kind, target)
            tables[f"{membership}; hidden symbols {words}"] = table.to_html(index=False, border=0)
    return {
        "name": name,
        "right": {
            kind: ", ".join(f"{share:.1%}" for share in shares)
            for kind, shares in result.findings["right"][name].items()
        },
        "rationale": target.rationale_rule,
        "tables": tables,
        "strip": None if strip is None else _strip(strip),
    }


def _strip(result: Answer) -> dict[str, Any]:
    """One word under every method."""
    findings = result.findings
    return {
        "word": " ".join(findings["word"]),
        "probability": f"{findings['probability']:.3f}",
        "replacement": findings["replacement"],
        "sentence": result.sentence,
        "picture": _picture(explanations.chart(result)),
    }
