"""Is the tree of a word in the activations? Structural probes beside their controls."""

from __future__ import annotations

import altair as alt
import numpy as np
import pandas as pd
import torch
from altair.typing import ChartType

from analyses.answers import Planned, Progress, of_table, quiet, row_numbers
from analyses.charts.marks import dots, panels
from analyses.charts.theme import SEVERAL, TRAINED, UNTRAINED, colours, figures
from analyses.claims import Claim, measured
from analyses.options.inside import Syntax as Options
from analyses.words import ANALYSIS_SEED, WordTensors
from interp.model import activations, sites_of
from interp.probing.structural import Sentences, Structure, fit, spearman, swapped
from interp.statistics import bootstrap_mean
from models.errors import UserError
from models.languages import UnlabelledCorpus, Word
from models.runs.run import Run

SHORTEST = 5
"""Symbols of the shortest word that is asked about: a shorter one has hardly a tree."""
STRUCTURES: tuple[Structure, ...] = ("distance", "depth")
OWN, SWAPPED, PLACE = "own trees", "trees of other words", "place in the word"
MANY = 20
"""Words that are drawn for each that is wanted: short ones come again and again."""


def words_of(run: Run, count: int, seed: int) -> list[Word]:
    """Different members of the training window, of five symbols or more; of a treebank, whose trees
    are taught to nobody, lines of all its sides.

    Raises:
        UserError: the language has no trees, or too few words.
    """
    language = run.language
    lengths = [n for n in language.lengths(run.config.max_n) if n >= SHORTEST]
    lengths = language.positive_lengths(lengths)
    if not lengths:
        raise UserError(f"{language.name} has no words of {SHORTEST} symbols in the window")
    rng = np.random.default_rng([ANALYSIS_SEED, seed])
    if isinstance(language, UnlabelledCorpus):
        rows = rng.permutation(np.flatnonzero(np.isin(language.lines.lengths, lengths)))
        drawn = language.lines[rows]
    else:
        drawn = language.sample(rng, MANY * count, lengths, label=True, split="test").words
    members = dict.fromkeys(language.vocabulary.decoded(drawn))
    if len(members) < 30:
        raise UserError(f"{language.name} has only {len(members)} such words: 30 are the least")
    return list(members)[:count]


def _sentences_of(run: Run, words: list[Word]) -> tuple[Sentences, np.ndarray]:
    """The words with the first tree of each, and no activations yet; and their lengths."""
    longest = max(map(len, words))
    distance = np.zeros((len(words), longest, longest), np.float32)
    depth = np.zeros((len(words), longest), np.float32)
    for row, word in enumerate(words):
        size, known = len(word), run.language.tree_distances(word)
        assert known is not None
        distance[row, :size, :size], depth[row, :size] = known
    lengths = np.array([len(word) for word in words])
    mask = torch.as_tensor(np.arange(longest) < lengths[:, None])
    empty = torch.zeros(len(words), longest, 0)
    return Sentences(empty, torch.as_tensor(distance), torch.as_tensor(depth), mask), lengths


def _syntax(run: Run, options: Options, progress: Progress = quiet) -> pd.DataFrame:
    """Structural probes of trees at each site, of the trained and the untrained model.

    A third of the words fits the probes, a third chooses the sites, a third scores.

    Returns:
        One row per model, structure, trees and site: model ("trained", "untrained", "none"), of
        ("distance", "depth"), trees ("own trees"; "trees of other words" of the same length, the
        control task; "place in the word", which uses no model: how far two symbols are apart, or
        where one stands), site, choice (the score on the words that choose), score (Spearman's
        correlation with the truth, mean over words), low and high (its 95% bootstrap interval over
        words), words.

    Raises:
        UserError: the language has too few words.
    """
    words, seed = words_of(run, options.words, options.seed), options.seed
    sentences, lengths = _sentences_of(run, words)
    tokens = WordTensors.of(run.language.vocabulary.words(words)).tokens
    models = {"trained": run.model(), "untrained": run.untrained()}
    names = sites_of(models["trained"], ("resid_post",), "hook_embed")
    part = np.arange(len(words)) % 3
    rows: list[dict[str, object]] = []
    total, done = len(models) * len(names) * len(STRUCTURES) + 1, 0
    for name, model in models.items():
        states = activations(model, tokens, list(names.values()))
        for site, hook in names.items():
            x = states[hook][:, 1:]  # without BOS
            base = Sentences(x, sentences.distance, sentences.depth, sentences.mask)
            for of in STRUCTURES:
                progress(done, total, f"{of} at {site}, {name}")
                done += 1
                for trees in (OWN, SWAPPED) if name == "trained" else (OWN,):
                    case = base if trees == OWN else swapped(base, lengths.tolist(), seed)
                    rows.append(
                        {"model": name, "of": of, "trees": trees, "site": site}
                        | _scored(case, of, part, seed)
                    )
    progress(done, total, "place in the word")
    for of in STRUCTURES:
        values = spearman(_place(sentences, of), sentences, of)
        where = {"model": "none", "of": of, "trees": PLACE, "site": "none"}
        rows.append(
            where | {"choice": np.nanmean(values[part == 1])} | _interval(values[part == 2])
        )
    return pd.DataFrame(rows)


def _scored(case: Sentences, of: Structure, part: np.ndarray, seed: int) -> dict[str, object]:
    probe = fit(case[np.flatnonzero(part == 0)], of, seed=seed)
    choose, score = (
        spearman(probe(some.x), some, of)
        for some in (case[np.flatnonzero(part == third)] for third in (1, 2))
    )
    return {"choice": float(np.nanmean(choose))} | _interval(score)


def _interval(values: np.ndarray) -> dict[str, object]:
    finite = values[np.isfinite(values)]
    mean, low, high = bootstrap_mean(finite)
    return {"score": float(mean), "low": float(low), "high": float(high), "words": len(finite)}


def _place(sentences: Sentences, of: Structure) -> torch.Tensor:
    """A guess without a model: how far two symbols are apart, or where one stands."""
    at = torch.arange(sentences.mask.shape[1], dtype=torch.float32)
    apart = (at[:, None] - at).abs() if of == "distance" else at
    return apart.expand(len(sentences.mask), *apart.shape)


def _chosen(table: pd.DataFrame) -> pd.DataFrame:
    """The best site of each model, structure and kind of trees, by the words that choose."""
    groups = ["of", "model", "trees"]
    best = table.groupby(groups, sort=False)["choice"].idxmax()
    return table.loc[best].reset_index(drop=True)


def _claims(table: pd.DataFrame) -> list[Claim]:
    """The probes' scores for both structures, each control at the site that it chose itself."""
    best = _chosen(table).set_index(["of", "model", "trees"])
    return [_claim(of, best.loc[of]) for of in STRUCTURES]


def _claim(of: Structure, best: pd.DataFrame) -> Claim:
    row, place = best.loc[("trained", OWN)], best.loc[("none", PLACE)]
    return Claim(
        f"A structural probe orders symbols by {of} in the tree at {row['site']}, Spearman {{}}",
        *measured(row, "score", "low", "high", "words"),
        "words that neither fitted the probe nor chose the site",
        "bootstrap over words",
        {
            "the untrained network": best.loc[("untrained", OWN), "score"],
            SWAPPED: best.loc[("trained", SWAPPED), "score"],
            # its order may be turned round: the words that choose tell the sign
            PLACE: np.sign(place["choice"]) * place["score"],
        },
    )


def _chart(table: pd.DataFrame) -> ChartType:
    """A panel per structure, a point per site; what needs no model is a line."""
    rows = table.assign(what=table["model"] + ", " + table["trees"])
    kinds = [f"trained, {OWN}", f"untrained, {OWN}", f"trained, {SWAPPED}", f"none, {PLACE}"]
    colors = [TRAINED, UNTRAINED, SEVERAL[1], SEVERAL[5]]
    color = colours("what", kinds, colors, columns=2, labelLimit=240)
    y = alt.Y("score:Q", title="Spearman").scale(domain=[-0.2, 1])
    tips = ["what", "site", *figures("score", "low", "high"), "words"]
    drawn: dict[str, ChartType] = {}
    for of in STRUCTURES:
        here = rows[rows["of"] == of]
        picture = dots(
            here[here["model"] != "none"],
            alt.X("site:N", sort=here["site"].unique().tolist()[:-1], title=None).axis(
                labelAngle=-30
            ),
            y,
            tips,
            color,
            xOffset=alt.XOffset("what:N", sort=kinds[:3]),
            shape=alt.Shape("what:N", title=None, sort=kinds).scale(domain=kinds),
        )
        line = alt.Chart(here[here["model"] == "none"]).mark_rule(strokeDash=[5, 3], size=2)
        picture += line.encode(y="score:Q", color=color, tooltip=tips)
        drawn[of] = picture.properties(width=300, height=220)
    return panels(drawn)


QUESTION = of_table(
    "syntax",
    Options,
    _syntax,
    _claims,
    lambda table: row_numbers(_chosen(table), "{of}", "{model}, {trees}", "score"),
    _chart,
    lambda table: _chosen(table).drop(columns="choice"),
    needs=("some tree", "stream"),
    planned=tuple(
        Planned(f"trained, {OWN}", other)
        for other in (f"untrained, {OWN}", f"trained, {SWAPPED}", f"none, {PLACE}")
    ),
)
