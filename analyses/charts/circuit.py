"""A circuit as a graph, how circuits grow, and how near approximations come to exact effects."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import altair as alt
import pandas as pd
from altair.typing import ChartType

from analyses.answers import Answer
from analyses.charts.marks import curve, dots, encoded
from analyses.charts.theme import AGAINST, FOR, QUIET, TRAINED, colours, figures

COLOURS = {
    "exact": TRAINED,
    "EAP-IG": FOR,
    "conductance": "#8e5bb5",
    "GIM": "#b5485d",
    "EAP": "#d98b2b",
    "random": "#9aa5ab",
}
READS = {"queries": "#8e5bb5", "keys": "#d98b2b", "values": TRAINED, "stream": "#5b7083"}
MARKS = {"hit": FOR, "missed": AGAINST, "not in the plan": "#9aa5ab"}
ESTIMATES = [name for name in COLOURS if name not in ("exact", "random")]


def chart(result: Answer) -> ChartType:
    """The circuit as a graph; below, how circuits grow and how near the approximations come."""
    shown = trained(result)
    graph = graph_chart(shown, result.findings["circuit"]["edges"])
    below = (curve_chart(result) | agreement_chart(shown)).resolve_scale(color="independent")
    return (graph & below).resolve_scale(color="independent")


def trained(result: Answer) -> pd.DataFrame:
    """The trained model's edges, in the direction that was asked for."""
    rows = result.table[result.table["model"] == "trained"]
    return rows[rows["direction"] == result.arguments["direction"]]


def curve_chart(result: Answer) -> ChartType:
    """Faithfulness over the number of edges by ranking; dashed, the completeness.

    Rankings of the direction that was not asked for are left out.
    """
    suffix = f", {result.arguments['direction']}"
    curves = result.findings["curves"]
    shown = {name.removesuffix(suffix): values for name, values in curves.items()}
    measures = ["faithfulness", "completeness"]
    rows = pd.concat(
        pd.DataFrame(values).assign(ranking=name)
        for name, values in shown.items()
        if name in COLOURS
    ).melt(["ranking", "edges"], measures, "measure")
    dashes = alt.Scale(domain=measures, range=[[1, 0], [4, 3]])
    title = "faithfulness (dashed: completeness)"
    line = curve(
        rows,
        alt.X("edges:Q", title="edges in the circuit"),
        alt.Y("value:Q", title=title).scale(domain=[-0.2, 1.4], clamp=True),
        ["ranking", "measure", "edges", *figures("value")],
        colours(
            "ranking", list(COLOURS), list(COLOURS.values()), "edges ranked by", orient="bottom"
        ),
        ends=None,
        size=16,
        strokeDash=alt.StrokeDash("measure:N", scale=dashes, legend=None),
    )
    goal = pd.DataFrame({"value": [result.arguments["goal"]]})
    rule = alt.Chart(goal).mark_rule(color=QUIET, strokeDash=[2, 2]).encode(y="value:Q")
    return (line + rule).properties(width=380, height=240)


def agreement_chart(table: pd.DataFrame) -> ChartType:
    """Each edge's approximations against its exact effect: a row per edge."""
    rows = table.melt(["sender", "receiver", "exact"], ESTIMATES, "method", "estimate")
    rows["edge"] = rows["sender"] + " → " + rows["receiver"]
    ends = [float(rows["exact"].min()), float(rows["exact"].max())]
    diagonal = alt.Chart(pd.DataFrame({"x": ends})).mark_line(color=QUIET, strokeDash=[2, 2])
    colors = [COLOURS[name] for name in ESTIMATES]
    points = dots(
        rows,
        alt.X("exact:Q", title="exact effect"),
        alt.Y("estimate:Q", title="approximation"),
        ["edge", "method", *figures("exact", "estimate")],
        colours("method", ESTIMATES, colors, orient="bottom"),
        ends=None,
        size=36,
    )
    return (points + diagonal.encode(x="x:Q", y="x:Q")).properties(width=240, height=240)


def graph_chart(
    table: pd.DataFrame,
    edges: Sequence[Sequence[str]],
    marks: Mapping[tuple[str, str], str] | None = None,
) -> ChartType:
    """The circuit, from the embedding at the bottom to the logits at the top. A line is the wider,
    the larger the exact effect of its edge.

    Args:
        table: a row per edge of one model, in one direction: sender, receiver, exact.
        marks: one of ``MARKS`` for each edge; they give the colours, in place of what is read.
    """
    kind, colours = ("reads", READS) if marks is None else ("beside the plan", MARKS)
    by_name = table.set_index(["sender", "receiver"])
    places = _places(by_name.index)
    rows = []
    for sender, receiver in edges:
        part, _, slot = receiver.partition(".")
        x, y = places[sender]
        to_x, to_y = places[part]
        shift = {"q": -0.24, "k": 0.0, "v": 0.24}.get(slot, 0.0)
        effect = float(by_name.loc[(sender, receiver), "exact"])
        rows.append(
            {
                "x": x,
                "y": y + 0.18,
                "to x": to_x + shift,
                "to y": to_y - 0.18,
                "edge": f"{sender} → {receiver}",
                "reads": {"q": "queries", "k": "keys", "v": "values"}.get(slot, "stream"),
                "effect": effect,
                "size": abs(effect),
                "beside the plan": (marks or {}).get((sender, receiver), ""),
            }
        )
    used = {end for edge in edges for end in (edge[0], edge[1].partition(".")[0])}
    nodes = pd.DataFrame(
        [
            {"x": x, "y": y, "left": x - 0.36, "right": x + 0.36, "foot": y - 0.18, "top": y + 0.18}
            | {"part": part, "used": part in used}
            for part, (x, y) in places.items()
        ]
    )
    columns = ["x", "y", "to x", "to y", "edge", "reads", "effect", "size", "beside the plan"]
    scale_x = alt.Scale(domain=[nodes["x"].min() - 0.6, nodes["x"].max() + 0.6])
    scale_y = alt.Scale(domain=[-0.5, nodes["y"].max() + 0.5])
    lines = encoded(
        alt.Chart(pd.DataFrame(rows, columns=columns)).mark_rule(opacity=0.75),
        x=alt.X("x:Q", axis=None, scale=scale_x),
        y=alt.Y("y:Q", axis=None, scale=scale_y),
        x2="to x:Q",
        y2="to y:Q",
        strokeWidth=alt.StrokeWidth("size:Q", legend=None).scale(domain=[0, 1], range=[0.8, 7]),
        color=alt.Color(f"{kind}:N", title=None)
        .scale(domain=list(colours), range=list(colours.values()))
        .legend(orient="top"),
        tooltip=["edge", *dict.fromkeys(["reads", kind]), *figures("effect")],
    )
    nodes_chart = alt.Chart(nodes)
    boxes = encoded(
        nodes_chart.mark_rect(cornerRadius=5),
        x=alt.X("left:Q", axis=None, scale=scale_x),
        x2="right:Q",
        y=alt.Y("foot:Q", axis=None, scale=scale_y),
        y2="top:Q",
        color=alt.condition("datum.used", alt.value("#dbe7ee"), alt.value("#8882")),
        tooltip=["part"],
    )
    labels = encoded(
        nodes_chart.mark_text(fontSize=12),
        x=alt.X("x:Q", axis=None, scale=scale_x),
        y=alt.Y("y:Q", axis=None, scale=scale_y),
        text="part:N",
        color=alt.condition("datum.used", alt.value("#12303f"), alt.value(QUIET)),
    )
    width, height = max(360, 60 * nodes["x"].nunique()), 72 * nodes["y"].nunique()
    return alt.layer(lines, boxes, labels, width=width, height=height)


def _places(edges: pd.Index) -> dict[str, tuple[float, float]]:
    """The place of each part: a layer's heads in a row, its MLP above them."""
    senders = list(dict.fromkeys(sender for sender, _ in edges))
    rows: list[list[str]] = []
    for sender in senders:
        beside = rows and "H" in sender and rows[-1][0].split("H")[0] == sender.split("H")[0]
        if beside:
            rows[-1].append(sender)
        else:
            rows.append([sender])
    rows.append(["logits"])
    return {
        part: (x - (len(row) - 1) / 2, float(y))
        for y, row in enumerate(rows)
        for x, part in enumerate(row)
    }
