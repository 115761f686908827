"""Which of two rules did a network take? Its verdicts where the rules differ.

Words for training fit both rules, so nothing in them says which one is meant. What a network says
of words on which the rules differ is its inductive bias.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pandas as pd

from analyses.answers import Progress, quiet
from analyses.words import ANALYSIS_SEED
from interp.statistics import seeds_interval, wilson
from models.errors import UserError
from models.languages import LANGUAGES, AmbiguousLanguage, language
from models.runs.run import Run
from models.training.evaluation import right_words

ALL = "all"
"""Stands for all runs of a language that differ in their seed alone."""


def language_of(run: Run) -> AmbiguousLanguage:
    """The run's language. Raises UserError if its training words do not fit two rules."""
    if not isinstance(run.language, AmbiguousLanguage):
        known = [name for name in LANGUAGES if isinstance(language(name), AmbiguousLanguage)]
        raise UserError(
            f"the training words of {run.language.name} fit one rule alone: ask a run on "
            f"{' or '.join(known)}"
        )
    return run.language


def bias(
    runs: Sequence[Run], count: int = 1000, seed: int = 0, progress: Progress = quiet
) -> pd.DataFrame:
    """How many of the words on which two rules differ go by which rule.

    The words are of the sizes of the training window; of half of them the language's own rule says
    yes, and the other one no. So a network that always says the same goes by each rule on half.

    Args:
        count: words on which the rules differ, and as many on which they agree.

    Returns:
        One row per run and model (trained, untrained): run, language, kind (of model), lines (how
        many different words were trained on; 0 is fresh ones), model, by_rule and by_rival (the
        shares of the differing words that go by the language's own rule, and by the other one; they
        add up to 1), low and high (95% of by_rule, Wilson's over words), agreeing (the share right
        of the words on which the rules agree), words. Where several runs differ in the seed alone,
        also a row of run "all" with the means; its interval is Student's over seeds.

    Raises:
        UserError: the training words of a run fit one rule alone.
    """
    rows: list[dict[str, object]] = []
    for number, run in enumerate(runs):
        known = language_of(run)
        lengths = known.lengths(run.config.max_n)
        rng = np.random.default_rng([ANALYSIS_SEED, seed])
        differing = known.sample(rng, count, lengths, split="test")
        agreeing = known.sample(rng, count, lengths, split="validation")
        for done, name in enumerate(("trained", "untrained")):
            progress(2 * number + done, 2 * len(runs), f"{run.name}, {name}")
            model = run.model() if name == "trained" else run.untrained()
            _, own = right_words(model, known, differing, run.objective)
            _, right = right_words(model, known, agreeing, run.objective)
            low, high = wilson(int(own.sum()), count)
            rows.append(
                {
                    "run": run.name,
                    "language": known.name,
                    "kind": run.config.model.kind or "decoder",
                    "lines": run.config.lines,
                    "model": name,
                    "by_rule": own.mean(),
                    "by_rival": 1 - own.mean(),
                    "low": low,
                    "high": high,
                    "agreeing": right.mean(),
                    "words": count,
                }
            )
    progress(2 * len(runs), 2 * len(runs), "bias")
    table = pd.DataFrame(rows)
    return pd.concat([table, over_seeds(table)], ignore_index=True)


def over_seeds(table: pd.DataFrame) -> pd.DataFrame:
    """The means over the runs of a language, a kind of model and a number of lines; none of a
    single run."""
    keys, rows = ["language", "kind", "lines", "model"], []
    for key, own in table.groupby(keys, sort=False):
        if len(own) > 1:
            mean, low, high = seeds_interval(own["by_rule"].to_numpy())
            row: dict[str, object] = {"run": ALL, **dict(zip(keys, key, strict=True))}
            row |= {"by_rule": mean, "by_rival": 1 - mean, "low": low, "high": high}
            rows.append(row | own[["agreeing", "words"]].mean().to_dict())
    return pd.DataFrame(rows, columns=table.columns).astype({"words": table["words"].dtype})


def in_words(table: pd.DataFrame) -> str:
    """Which rule the trained networks took, by language, kind of model and lines."""
    said = []
    keys = ["language", "kind", "lines"]
    for (name, kind, lines), own in table.groupby(keys, sort=False):
        known = language(name)
        assert isinstance(known, AmbiguousLanguage)
        row, control = (own[own["model"] == model].iloc[-1] for model in ("trained", "untrained"))
        rule = known.rule if row["low"] > 0.5 else known.rival if row["high"] < 0.5 else None
        took = f'takes "{rule}"' if rule else "takes neither rule for sure"
        seeds = max(1, int(own["run"].ne(ALL).sum()) // 2)
        few = f" of {lines} lines" if lines else ""
        said.append(
            f"{name}, {kind}{few}: {took} where the rules differ: {row['by_rule']:.1%} "
            f'[{row["low"]:.1%}, {row["high"]:.1%}] of the words by "{known.rule}" (untrained '
            f"{control['by_rule']:.1%}); where they agree, {row['agreeing']:.1%} are right "
            f"({seeds} seed{'s' * (seeds > 1)})"
        )
    return (
        f"{'. '.join(said)}. {table['words'].min()} words each; intervals: Student's over seeds, "
        "of one seed Wilson's over words."
    )
