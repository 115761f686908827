"""Circuits: the edges that carry the verdict, as a graph of any size, and how good a circuit is."""

from __future__ import annotations

from functools import partial

import pandas as pd
import streamlit as st
from altair.typing import ChartType

from analyses.answers import Answer
from analyses.charts.circuit import agreement_chart, curve_chart, graph_chart, trained
from analyses.questions.parts.circuit import verdicts
from analyses.questions.parts.circuits import ranking
from analyses.scoring import planted
from dashboard import controls
from dashboard.drawing import Parts, picture, reading, says
from dashboard.selection import current_run, kept_or_computed, of_model
from dashboard.views.line import word_of
from dashboard.views.question import told
from interp.circuits.effects import DIRECTIONS, MOST_STEPS, STABLE
from interp.circuits.joint import LARGE, SMALL
from interp.circuits.scores import ranking_name
from models.plants.record import PLAN, read_plan
from models.runs.run import Run


def show() -> None:
    """The page."""
    run = current_run()
    result = kept_or_computed(run, "circuits")
    if result is None:
        return
    more: Parts = {"On this line": partial(_on_a_word, run, result)}
    if (run.path / PLAN).exists():
        more["Beside the plan"] = partial(_beside_the_plan, run, result)
    more |= {
        "How circuits grow": partial(_growth, result),
        "Approximations": partial(_approximations, result),
        "What single effects hide": partial(_what_single_effects_hide, result),
    }
    told("circuits", result, partial(_graph, result), more)


def _growth(result: Answer) -> None:
    """Circuits of every size, and the rankings that they grow by."""
    picture(curve_chart(result), "Faithfulness and completeness over the number of edges.")
    reading("circuits: curves")
    areas = {name: values["CPR"] for name, values in result.findings["areas"].items()}
    random = areas.pop("random")
    if bad := [f"{name} ({area:.2f})" for name, area in areas.items() if area <= random]:
        st.markdown(says("circuits: like random", names=", ".join(bad), random=f"{random:.2f}"))
    st.dataframe(_scores(result), hide_index=True)
    reading("circuits: scores")


def _approximations(result: Answer) -> None:
    """The effects that gradients estimate, beside the exact ones."""
    points, direction = agreement_chart(trained(result)), result.arguments["direction"]
    picture(points, "Approximated against exact effect, a point per edge.")
    steps = result.findings["steps"].items()
    reading(
        "circuits: approximations",
        direction=direction,
        taken=" and ".join(f"{name} {entry['steps']:.0f}" for name, entry in steps),
        stable=f"{STABLE:.0%}",
        most=MOST_STEPS,
    )


def _what_single_effects_hide(result: Answer) -> None:
    """Edges that cost nothing alone, and pairs of parts that do the same or need each other."""
    spots = pd.DataFrame(result.findings["blind_spots"])
    if spots.empty:
        st.markdown("No pair of parts is shown to be redundant, or to need or cancel its partner.")
    else:
        names = ["kind", "direction", "first", "second"]
        values = ["alone_first", "alone_second", "together"]
        shares = {name: spots[name].map("{:.0%}".format) for name in values}
        st.dataframe(spots.assign(**shares)[[*names, *values]], hide_index=True)
    reading("circuits: blind spots", small=f"{SMALL:.0%}", large=f"{LARGE:.0%}")
    rows = pd.DataFrame(result.findings["knock_outs"])
    columns = {"model": "lost by the whole model", "circuit": "lost by the circuit"}
    shares = {name: rows[name].map("{:.1%}".format) for name in columns}
    shown = rows.assign(**shares).rename(columns=columns)
    st.dataframe(shown[["sender", "receiver", *columns.values()]], hide_index=True)
    gap = result.findings["incompleteness"]
    reading("circuits: knock-outs", gap=f"{gap['largest']:.0%}", sets=gap["sets"])


LEGIBLE = 12
"""The most edges that are told apart at a first look."""


def _graph(result: Answer) -> ChartType:
    """Draws the circuit, or as many edges of the largest effects as the slider says."""
    edges = result.findings["circuit"]["edges"]
    order = ranking(result.table, result.arguments["direction"])
    place = st.container()
    left, right = st.columns([1, 2])
    ways = ["the circuit", "largest effects"]
    if controls.segments("Edges", ways, "edges", at=left) == "largest effects":
        n = len(order)
        size = controls.slider("How many", 1, n, min(LEGIBLE, n), key="size", at=right)
        edges = order[:size]
        exact = ranking_name("exact", result.arguments["direction"])
        curve = pd.DataFrame(result.findings["curves"][exact]).set_index("edges")
        near = curve.index[abs(curve.index - size).argmin()]
        share = f"{curve.loc[near, 'faithfulness']:.0%}"
        st.caption(says("circuits: nearest size", edges=near, share=share))
    figure = graph_chart(trained(result), edges)
    words = f"The circuit as a graph: {len(edges)} edges from the embedding to the logits."
    with place:
        return picture(figure, words)


def _beside_the_plan(run: Run, result: Answer) -> None:
    """The edges of the plan that were found, for a planted network."""
    plan = read_plan(run.path)
    assert plan is not None, "the part is shown for planted networks alone"
    marked = planted.marks(plan, result.findings["circuit"]["edges"])
    counted = planted.counted(marked)
    st.markdown(says("circuits: planted", rule=plan["rule"], counted=counted))
    picture(
        graph_chart(trained(result), list(marked), marked),
        "The edges of the plan and those of the circuit: hits, missed ones, and others.",
    )
    reading("circuits: edges of the plan")
    st.dataframe(planted.rankings(plan, result).round(3), hide_index=True)
    reading("circuits: beside the plan")
    variables = pd.DataFrame(plan["variables"])[["name", "kind", "made by", "reads"]]
    st.dataframe(variables.assign(reads=variables["reads"].map(", ".join)), hide_index=True)


def _on_a_word(run: Run, result: Answer) -> None:
    """The answer of the circuit alone on a typed word, and which of its edges matter there."""
    word = word_of(run)
    edges = result.findings["circuit"]["edges"]
    how = result.arguments
    table, effects = _on_word(run, edges, how["ablation"], how["direction"], word)
    pairs = int(table["pairs"].iloc[0])
    left, right = st.columns(2)
    left.dataframe(
        pd.DataFrame(
            {
                "END's logit by": table["run"],
                "mean": table["logit"].map("{:.2f}".format),
                "taken as in": [f"{count} of {pairs}" for count in table["accepted"]],
            }
        ),
        hide_index=True,
    )
    reading("circuits: on a word", pairs=pairs)
    if effects["exact"].isna().all():
        left.info("The model does not tell this word from its counterfactuals.")
        return
    with right:
        picture(
            graph_chart(effects, edges),
            "The same circuit; the width of an edge is its effect on this word.",
        )


_on_word = of_model(verdicts)


def _scores(result: Answer) -> pd.DataFrame:
    """One row per ranking of the edges: CPR, CMD, and its correlation with the exact effects of
    both directions."""
    near = {(row["direction"], row["method"]): row for row in result.findings["agreement"]}

    def correlation(name: str, direction: str) -> str:
        row = near.get((direction, name.removesuffix(f", {direction}")))
        return "" if row is None else f"{row['pearson']:.2f} (ranks {row['spearman']:.2f})"

    return pd.DataFrame(
        [
            {
                "edges ranked by": name,
                "CPR (high is good)": f"{values['CPR']:.2f}",
                "CMD (0 is best)": f"{values['CMD']:.2f}",
                **{
                    f"correlation with exact, {direction}": correlation(name, direction)
                    for direction in DIRECTIONS
                },
            }
            for name, values in result.findings["areas"].items()
        ]
    )
