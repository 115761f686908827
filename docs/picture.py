"""The picture of the README: the rule that a network learned, and the heads that carry each step.

    python docs/picture.py runs/dieren-s0 docs/pages/picture.svg

The run is one of `lab demo`.
"""

from __future__ import annotations

import sys
from pathlib import Path

import altair as alt

from analyses.answers import Answers
from analyses.charts.discovery import heads_chart
from analyses.questions.rule.discovery import chart


def picture(run: Path) -> alt.VConcatChart:
    """The automaton above, what each head carries of each of its transitions below."""
    found = Answers(run, "discovery").latest()
    assert found is not None, "ask first: lab analyse RUN discovery"
    automaton = chart(found).properties(title="The automaton learned by asking the network")
    heads = heads_chart(found.findings).properties(
        title="How far each head (layer, head) moves the verdict when a word makes that step"
    )
    return (
        alt.vconcat(automaton, heads)
        .resolve_scale(color="independent")
        .configure(background="white", padding=12)
        .configure_view(stroke=None)
    )


if __name__ == "__main__":
    picture(Path(sys.argv[1])).save(sys.argv[2])
