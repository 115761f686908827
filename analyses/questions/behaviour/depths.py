"""Accuracy by depth of embedding: how deep sentences may be until a model is wrong."""

from __future__ import annotations

import altair as alt
import numpy as np
import pandas as pd
import torch
from altair.typing import ChartType

from analyses.answers import Progress, of_table, quiet, row_numbers
from analyses.charts.marks import curve, panels
from analyses.charts.theme import by_model, figures, share
from analyses.claims import Claim
from analyses.options.behaviour import Depths as Options
from analyses.questions.behaviour.pooled import pooled
from analyses.words import ANALYSIS_SEED
from interp.statistics import brackets, wilson
from models.base import LanguageModel
from models.languages import ContextFreeLanguage, Word
from models.languages.grammars.trees import embedding
from models.languages.language import Sample
from models.runs.run import Run
from models.training.evaluation import right_words

LONGEST = 50
"""Symbols of the longest words that are drawn."""
AT_ONCE, MOST_DRAWN = 10, 6000
"""Words of each length that are drawn in a round, and the most of all rounds."""
KINDS = {
    "exact": "all next-symbol sets right",
    "before the last": "the set before the last symbol right",
    "recognition": "the right verdict (half are near misses)",
}


def _words_by_depth(
    run: Run, count: int, deepest: int, seed: int, progress: Progress = quiet
) -> dict[int, list[Word]]:
    """Different members by their depth of embedding, ``count`` of each depth if so many are found.

    The run's language is one of a grammar.
    """
    language = run.language
    assert isinstance(language, ContextFreeLanguage)
    rng = np.random.default_rng([ANALYSIS_SEED, seed])
    lengths = language.positive_lengths(range(1, LONGEST + 1))
    members: dict[int, dict[Word, None]] = {depth: {} for depth in range(deepest + 1)}
    drawn, sizes = 0, lengths
    while drawn < MOST_DRAWN and any(len(some) < count for some in members.values()):
        rows = np.repeat(sizes, AT_ONCE)
        words = language.draw(rng, rows, np.ones(len(rows), dtype=bool))
        progress(min(drawn, MOST_DRAWN), MOST_DRAWN, "words by depth")
        drawn += len(rows)
        came: dict[int, set[int]] = {}  # the depths that words of a length have
        for word in language.vocabulary.decoded(words):
            depth = embedding(next(language.trees(word)))
            came.setdefault(len(word), set()).add(depth)
            if depth <= deepest and len(members[depth]) < count:
                members[depth][word] = None
        missing = {depth for depth, some in members.items() if len(some) < count}
        sizes = [length for length, those in came.items() if those & missing] or lengths
    return {depth: list(some) for depth, some in members.items() if some}


def _depths(run: Run, options: Options, progress: Progress = quiet) -> pd.DataFrame:
    """Shares of right answers of the trained and the untrained model, by depth of embedding.

    Returns:
        One row per model, depth and kind: model, depth, kind ("exact": all next-symbol sets of the
        word are right; "before the last": the set before its last symbol is, where the outermost
        verb must agree; "recognition": the verdict on the word and on a near miss of it), words
        (for recognition twice as many), in_window (the share of words that are no longer than those
        of the training), value (a share), low and high (95%, Wilson), and symbol (what a guesser
        reaches who knows the last symbol alone, and the commonest set after it; of verdicts, who
        always says the same).
    """
    by_depth = _words_by_depth(run, options.count, options.deepest, options.seed, progress)
    window = int(run.language.lengths(run.config.max_n)[-1])
    rows: list[dict[str, object]] = []
    for name, model in (("trained", run.model()), ("untrained", run.untrained())):
        for depth, words in by_depth.items():
            progress(MOST_DRAWN, MOST_DRAWN, f"depth {depth}, {name}")
            inside = float(np.mean([len(word) <= window for word in words]))
            guessed = _guessed(run, words)
            for kind, right in _right(run, model, words, options.seed).items():
                low, high = wilson(int(right.sum()), len(right))
                rows.append(
                    {"model": name, "depth": depth, "kind": kind, "words": len(right)}
                    | {"in_window": inside, "value": float(right.mean()), "low": low, "high": high}
                    | {"symbol": guessed[kind]}
                )
    return pd.DataFrame(rows)


def _right(run: Run, model: LanguageModel, words: list[Word], seed: int) -> dict[str, np.ndarray]:
    """The right answers by kind: for each word, whether it is right."""
    language, objective = run.language, run.objective
    assert isinstance(language, ContextFreeLanguage)
    batch = language.vocabulary.words(words)
    rng = np.random.default_rng([ANALYSIS_SEED, seed])
    others = language.spoiled(rng, batch)
    yes, no = np.ones(len(words), dtype=bool), np.zeros(len(words), dtype=bool)
    exact, in_right = right_words(model, language, Sample(batch, yes), objective)
    _, out_right = right_words(model, language, Sample(others, no), objective)
    right = {"recognition": np.concatenate([in_right, out_right])}
    if objective.verdict_alone:
        return right
    with torch.no_grad():
        logits = model(torch.as_tensor(batch.tokens, device=model.device))
    at, rows = batch.lengths - 1, np.arange(len(words))
    allowed = objective.allowed(logits[rows, at]).cpu().numpy()
    truth = language.allowed(batch)[rows, at]
    ids = [language.vocabulary.ids[token] for token in objective.tokens(language.vocabulary)]
    last = (allowed == truth)[:, ids].all(axis=1)
    return {"exact": exact, "before the last": last} | right


def _guessed(run: Run, words: list[Word]) -> dict[str, float]:
    """The share of the words that is right, by kind, if after each symbol the commonest of all true
    sets is said; of verdicts always the same one."""
    vocabulary = run.language.vocabulary
    batch = vocabulary.words(words)
    ids = [vocabulary.ids[token] for token in run.objective.tokens(vocabulary)]
    truth = run.language.allowed(batch)[..., ids]
    inside = np.arange(truth.shape[1]) <= batch.lengths[:, None]
    right = ~inside
    for symbol in np.unique(batch.tokens[inside]):
        here = inside & (batch.tokens == symbol)
        sets, counts = np.unique(truth[here], axis=0, return_counts=True)
        right[here] = (truth[here] == sets[counts.argmax()]).all(axis=1)
    last = right[np.arange(len(words)), batch.lengths - 1].mean()
    return {"exact": right.all(axis=1).mean(), "before the last": last, "recognition": 0.5}


def _claims(table: pd.DataFrame) -> list[Claim]:
    """Right answers over all depths, beside the untrained network and the last symbol alone; then
    right sets before the last symbol."""
    main, claims = table["kind"].iloc[0], []
    for kind in ("exact", "before the last") if main == "exact" else (main,):
        rows = table[table["kind"] == kind]
        part = rows[rows["model"] == "trained"]
        by_depth = [
            f"{row.value:.0%}{brackets(row.low, row.high, '.0%')} at depth {row.depth}"
            for row in part.itertuples()
        ]
        notes = [f"It is {', '.join(by_depth)}."]
        beyond = part.loc[part["in_window"] < 0.5, "depth"]
        if kind == main and len(beyond):
            notes.append(
                f"From depth {beyond.min()} on most words are longer than those of the training: "
                "depth and length are hard to tell apart there."
            )
        claims.append(
            pooled(
                f"{{}} of the words of depth {part['depth'].min()} to {part['depth'].max()} have "
                f"{KINDS[kind]}",
                rows.rename(columns={"depth": "group", "value": "share", "words": "count"}),
                "words",
                {"the untrained network": "untrained", "the last symbol alone": "symbol"},
                "depth",
                notes,
            )
        )
    return claims


def _chart(table: pd.DataFrame) -> ChartType:
    """A panel per kind: the share by depth, with its interval, trained and untrained."""
    x = alt.X("depth:O", title="depth of embedding").axis(labelAngle=0)
    tips = ["model", "depth", "words", *figures("value", "low", "high", "in_window")]
    drawn = (
        (KINDS[kind], curve(rows, x, share(alt.Y, "value"), tips, by_model()))
        for kind, rows in table.groupby("kind", sort=False)
    )
    return panels(((kind, panel.properties(width=230, height=180)) for kind, panel in drawn), 3)


QUESTION = of_table(
    "depths",
    Options,
    _depths,
    _claims,
    lambda table: row_numbers(table, "{kind}, depth {depth}"),
    _chart,
    needs=("trees",),
    of_inside=False,
    brief=Options(count=16),
)
