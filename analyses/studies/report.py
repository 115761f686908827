"""The leaderboard as one HTML file: it asks for nothing else, so it opens offline and travels."""

from __future__ import annotations

from collections.abc import Mapping
from html import escape

from altair.typing import ChartType

from analyses.answers import Answer, render
from analyses.questions import explanations
from analyses.questions import leaderboard as of_run
from analyses.studies import leaderboard
from models.languages import language

STYLE = """
:root { color-scheme: light dark; }
body { font: 16px/1.55 system-ui, sans-serif; max-width: 72rem; margin: 2rem auto; }
body { padding: 0 1rem; }
h1, h2 { line-height: 1.2; } h2 { margin-top: 2.5rem; }
.picture { background: #fff; border-radius: .5rem; padding: .75rem; overflow-x: auto; }
.picture svg { height: auto; }
table { border-collapse: collapse; font-size: .85rem; font-variant-numeric: tabular-nums; }
th, td { padding: .2rem .6rem; text-align: right; border-bottom: 1px solid #8884; }
td { white-space: nowrap; }
th { vertical-align: bottom; } th:first-child, td:first-child { text-align: left; }
.wide { overflow-x: auto; } summary { cursor: pointer; padding: .35rem 0; }
.quiet { opacity: .75; font-size: .9rem; }
"""


def report(result: Answer, strips: Mapping[str, Answer]) -> str:
    """The page.

    Args:
        result: of ``analyses.studies.leaderboard``.
        strips: by language, one explained word of its first seed.
    """
    arguments = result.arguments
    head = escape(leaderboard.QUESTION)
    body = [
        f"<h1>{head}</h1>",
        f'<p class="quiet">{arguments["seeds"]} training seeds of each language, '
        f"{arguments['words']} words each. Means over seeds ± half of the 95% interval "
        "(Student's t). Chance is what values without any knowledge get on average.</p>",
        *(f"<p>{escape(claim)}</p>" for claim in result.findings["claims"]),
        "<details><summary>What the measures say</summary><ul>",
        *(f"<li><b>{escape(k)}</b>: {escape(v)}</li>" for k, v in of_run.MEANINGS.items()),
        "</ul></details>",
        "<h2>At a glance</h2>",
        _picture(leaderboard.chart(result)),
    ]
    for name in dict.fromkeys(result.table["language"]):
        body += [f"<h2>{escape(name)}</h2>", *_about(result, name)]
        if name in strips:
            body += _strip(strips[name])
    return (
        '<!doctype html><html lang="en"><head><meta charset="utf-8">'
        '<meta name="viewport" content="width=device-width, initial-scale=1">'
        f"<title>{head}</title><style>{STYLE}</style></head><body>{''.join(body)}</body></html>\n"
    )


def _picture(figure: ChartType) -> str:
    return f'<div class="picture">{render(figure, "svg").decode()}</div>'


def _about(result: Answer, name: str) -> list[str]:
    """A language: how right its models are, its rule, and a table per replacement."""
    known = language(name)
    right = ", ".join(f"{share:.1%}" for share in result.findings["right"][name])
    parts = [
        f'<p class="quiet">Verdicts of the models on these words right: {right}. The positions '
        f"that decide: {escape(known.rationale_rule)}.</p>"
    ]
    for kind in of_run.REPLACEMENTS:
        table = leaderboard.wide(result.table, name, kind, (*of_run.MEASURES, of_run.FOUND))
        parts.append(
            f"<details{' open' if kind == of_run.REPLACEMENTS[0] else ''}><summary>Hidden "
            f"symbols {escape(explanations.said(kind, known))}</summary>"
            f'<div class="wide">{table.to_html(index=False, border=0)}</div></details>'
        )
    return parts


def _strip(result: Answer) -> list[str]:
    """One word under every method."""
    found = result.findings
    return [
        f"<h3>One word: {escape(' '.join(found['word']))}</h3>",
        f'<p class="quiet">The model gives it the probability {found["probability"]:.3f}. Hidden '
        f"symbols are {escape(found['replacement'])}. {escape(result.sentence)}</p>",
        _picture(explanations.chart(result)),
    ]
