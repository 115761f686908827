"""Which of two rules did a network take? Its verdicts where the rules differ.

Words for training fit both rules, so nothing in them says which one is meant. What a network says
of words on which the rules differ is its inductive bias.
"""

from __future__ import annotations

import altair as alt
import numpy as np
import pandas as pd
from altair.typing import ChartType

from analyses.answers import Progress, models_of, numbers, of_table, quiet
from analyses.charts.marks import bars
from analyses.charts.theme import by_model, figures, share
from analyses.claims import Claim
from analyses.options.behaviour import Bias as Options
from analyses.questions.behaviour.accuracy import RIGHT
from analyses.words import ANALYSIS_SEED
from interp.statistics import wilson
from models.languages import AmbiguousLanguage, language
from models.runs.run import Run
from models.training.evaluation import right_words


def _bias(run: Run, options: Options, progress: Progress = quiet) -> pd.DataFrame:
    """Shares of the words on which two rules differ, by the rule that they go by.

    The words are of the sizes of the training window; of half of them, as a coin falls, the
    language's own rule says yes, and the other one no. So a network that always says the same goes
    by each rule on half.

    Returns:
        One row per model (trained, untrained): language, kind (of model), lines (how many different
        words were trained on; 0 is fresh ones), model, by_rule and by_rival (the
        shares of the differing words that go by the language's own rule, and by the other one; they
        add up to 1), low and high (95% of by_rule, Wilson's over words), constant (the larger share
        of one right verdict), agreeing (the share right of the words on which the rules agree),
        words.
    """
    language = run.language
    assert isinstance(language, AmbiguousLanguage)
    lengths = language.lengths(run.config.max_n)
    rng = np.random.default_rng([ANALYSIS_SEED, options.seed])
    differing = language.sample(rng, options.words, lengths, split="test")
    agreeing = language.sample(rng, options.words, lengths, split="validation")
    rows: list[dict[str, object]] = []
    for name, model in models_of(run, progress):
        _, by_rule = right_words(model, language, differing, run.objective)
        _, right = right_words(model, language, agreeing, run.objective)
        low, high = wilson(int(by_rule.sum()), options.words)
        rows.append(
            {
                "language": language.name,
                "kind": run.config.model.kind or "decoder",
                "lines": run.config.lines,
                "model": name,
                "by_rule": by_rule.mean(),
                "by_rival": 1 - by_rule.mean(),
                "low": low,
                "high": high,
                "constant": max(differing.labels.mean(), 1 - differing.labels.mean()),
                "agreeing": right.mean(),
                "words": options.words,
            }
        )
    return pd.DataFrame(rows)


def _claims(table: pd.DataFrame) -> list[Claim]:
    """The rule that the network goes by more often where the two differ."""
    row, control = (table[table["model"] == model].iloc[0] for model in ("trained", "untrained"))
    task = language(row["language"])
    assert isinstance(task, AmbiguousLanguage)
    wins = row["by_rule"] > row["by_rival"]
    by, rule = ("by_rule", task.rule) if wins else ("by_rival", task.rival)
    ends = (row["low"], row["high"]) if wins else (1 - row["high"], 1 - row["low"])
    agreeing, constant, words = row["agreeing"], row["constant"], int(row["words"])
    least, _ = wilson(round(agreeing * words), words)
    remarks = [f"Where the rules agree, {agreeing:.1%} are right."]
    return [
        Claim(
            f'Where the rules differ, {{}} of the verdicts go by "{rule}"',
            row[by],
            *ends,
            words,
            "words",
            "Wilson",
            {"the untrained network": control[by], "always the same answer": constant},
            ".1%",
            doubts=remarks if agreeing < RIGHT else [],
            notes=remarks if agreeing >= RIGHT else [],
            unweighed="So it goes by neither." if least <= constant else "",
        )
    ]


def _chart(table: pd.DataFrame) -> ChartType:
    """A bar per model: the share that goes by the language's own rule; one half is no rule."""
    picture = bars(
        table,
        share(alt.X, "by_rule", "by the language's own rule, where the rules differ"),
        alt.Y("model:N", title=None, sort=["trained", "untrained"]),
        ["model", "words", *figures("by_rule", "low", "high", "agreeing")],
        by_model(shown=False),
        step=26,
    )
    half = alt.Chart(pd.DataFrame({"half": [0.5]})).mark_rule(strokeDash=[4, 3]).encode(x="half:Q")
    return (picture + half).properties(width=360)


def _headline(table: pd.DataFrame) -> pd.DataFrame:
    """Numbers that are compared over seeds."""
    rows = table.melt("model", ["by_rule", "agreeing"]).itertuples()
    return numbers((row.variable.replace("_", " "), row.model, row.value) for row in rows)


QUESTION = of_table(
    "bias",
    Options,
    _bias,
    _claims,
    _headline,
    _chart,
    needs=("two rules", "verdict"),
    of_inside=False,
)
