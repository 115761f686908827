"""Commands that measure several runs at once, and keep nothing."""

from __future__ import annotations

from analyses.close_ups import bias as of_rules
from analyses.close_ups import cosine as of_scores
from analyses.close_ups import dimension as filled
from analyses.close_ups import reach as by_distance
from analyses.command_line.one_run import told
from analyses.console import progress_bar
from analyses.options.measures import Bias, Cosine, Dimension, OfRuns, Reach
from models.runs.run import Run


def reach(options: Reach) -> None:
    """Influence by distance, and the steps on the way."""
    asked = (options.count, options.length, options.seed)
    with progress_bar("reach") as report:
        table = by_distance.reach(_runs(options), *asked, report)
    told(options, "reach", table, by_distance.in_words(table), by_distance.side_by_side(table))


def dimension(options: Dimension) -> None:
    """The participation ratio of the activations, layer by layer."""
    with progress_bar("dimension") as report:
        table = filled.dimension(_runs(options), options.words, options.seed, report)
    told(options, "dimension", table, filled.in_words(table))


def bias(options: Bias) -> None:
    """Which of two rules networks took."""
    with progress_bar("bias") as report:
        table = of_rules.bias(_runs(options), options.words, options.seed, report)
    told(options, "bias", table, of_rules.in_words(table))


def cosine(options: Cosine) -> None:
    """Scores of heads against the cosine of embeddings."""
    with progress_bar("cosine") as report:
        table = of_scores.cosine(_runs(options), options.seed, report)
    told(options, "cosine", table, of_scores.in_words(table))


def _runs(options: OfRuns) -> list[Run]:
    return [Run(path, options.step) for path in options.runs]
