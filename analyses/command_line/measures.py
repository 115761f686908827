"""Commands that measure several runs at once, and keep nothing."""

from __future__ import annotations

from analyses.answers import draw
from analyses.close_ups import bias as of_rules
from analyses.close_ups import cosine as of_scores
from analyses.close_ups import dimension as filled
from analyses.close_ups import positions as of_positions
from analyses.close_ups import reach as by_distance
from analyses.console import progress_bar, tell
from analyses.measures import by_layer as of_layers
from analyses.measures import landscape as around
from analyses.options.measures import (
    Bias,
    Cosine,
    Dimension,
    Gradients,
    Landscape,
    OfRuns,
    PositionTable,
    Reach,
)
from models.runs.run import Run


def reach(options: Reach) -> None:
    """Influence by distance, and the steps on the way."""
    asked = (options.count, options.length, options.seed)
    with progress_bar("reach") as report:
        table = by_distance.reach(_runs(options), *asked, report)
    tell(options, "reach", table, by_distance.in_words(table), by_distance.side_by_side(table))


def dimension(options: Dimension) -> None:
    """The participation ratio of the activations, layer by layer."""
    with progress_bar("dimension") as report:
        table = filled.dimension(_runs(options), options.words, options.seed, report)
    tell(options, "dimension", table, filled.in_words(table))


def bias(options: Bias) -> None:
    """Which of two rules networks took."""
    with progress_bar("bias") as report:
        table = of_rules.bias(_runs(options), options.words, options.seed, report)
    tell(options, "bias", table, of_rules.in_words(table))


def cosine(options: Cosine) -> None:
    """Scores of heads against the cosine of embeddings."""
    with progress_bar("cosine") as report:
        table = of_scores.cosine(_runs(options), options.seed, report)
    tell(options, "cosine", table, of_scores.in_words(table))


def gradients(options: Gradients) -> None:
    """Gradients, the softmax and drift, checkpoint by checkpoint and layer by layer."""
    with progress_bar("gradients") as report:
        table = of_layers.by_layers(_runs(options), options.words, options.seed, report)
    tell(options, "gradients", table, of_layers.in_words(table))


def landscape(options: Landscape) -> None:
    """The curvature of the loss, and a picture of it."""
    runs, asked = _runs(options), (options.words, options.directions, options.seed)
    with progress_bar("landscape") as report:
        table = around.curvatures(runs, *asked, report)
    tell(options, "landscape", table, around.in_words(table))
    if options.file is not None:
        draw(around.chart(around.surface(runs[0], options.words, options.seed)), options.file)


def position_table(options: PositionTable) -> None:
    """The properties of every kind of position."""
    runs = [Run(path, options.step) for path in options.runs]
    asked = (options.length, options.d_model, options.shift, options.seed)
    table = of_positions.position_table(runs, *asked)
    brief = table.drop(columns="vectors")  # it fits a terminal of 80 columns
    tell(options, "positions", table, of_positions.in_words(table, options.length), brief)


def _runs(options: OfRuns) -> list[Run]:
    return [Run(path, options.step) for path in options.runs]
