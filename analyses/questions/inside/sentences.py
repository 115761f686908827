"""The content of one vector for a whole word: its length, its counts, its depth, its membership.

A word is as many vectors as it has symbols. One vector for all of it is made in several ways: that
of the first token (the class token of an encoder), of the last symbol, the mean, attention with
learned queries, and of a recurrent network the state z* that it would go on from. From each, linear
probes read what the language says of the whole word.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import altair as alt
import numpy as np
import pandas as pd
import torch
from altair.typing import ChartType
from jaxtyping import Bool, Float
from torch import Tensor

from analyses.answers import Planned, Progress, of_table, quiet, row_numbers
from analyses.charts.marks import points
from analyses.charts.theme import CHOSEN, TRAINED, UNTRAINED, colours, figures
from analyses.claims import Claim
from analyses.options.inside import Sentences as Options
from analyses.questions.inside.sentence_words import Asked, asked_of
from analyses.words import WordTensors
from interp.model import activations, sites_of
from interp.probing.pooling import at_position, learned_queries, mean_pool, query_pool
from interp.probing.probes import Target, baseline, control_task, probe_sites
from interp.statistics import unless_agreed
from models.base import LanguageModel
from models.errors import UserError
from models.languages import Words
from models.runs.run import Run

QUERIES = {"1 query": 1, "4 queries": 4}
"""The number of learned queries, by the name of the pooling."""
BAG, STATE = "bag", "z*"
"""The mean of the embeddings, which knows no order; and the state of a recurrent network."""
MODELS = ("trained", "untrained", "shuffled labels", "control task", "no activation")


def _sites(model: LanguageModel) -> dict[str, str]:
    """The hooks after each layer that reads the word, by name. Raises UserError if there are
    none."""
    config = model.config
    layers = config.encoder_layers if config.family.two_sided else config.n_layers
    every = sites_of(model, ("cell", "resid_post"), embedding="")
    sites = {site: hook for site, hook in every.items() if int(hook.split(".")[1]) < layers}
    if not sites:
        raise UserError(
            f"a {config.kind} has no activations: ask a Transformer, an LSTM, a GRU or a CNN"
        )
    return sites


Vectors = dict[str, Float[Tensor, "word d"]]
"""One vector for each word, by site."""


@dataclass(frozen=True)
class _Read:
    """The activations of a model on the words.

    Attributes:
        sites: the activations after each layer, standardised by the words that fit.
        symbols: the positions of the words' own symbols, without the first token.
        pooled: the vectors by pooling and site, for the poolings that learn nothing.
    """

    sites: dict[str, Float[Tensor, "word pos d"]]
    symbols: Bool[Tensor, "word pos"]
    pooled: dict[str, Vectors]

    def by_queries(
        self, fact: Sequence[Target], fit: Bool[np.ndarray, " word"], count: int, seed: int
    ) -> list[Vectors]:
        """The vectors of queries that the words of ``fit`` teach, for each fact."""
        rows = torch.as_tensor(fit)
        values = np.stack([target.values[fit, 0] for target in fact]).astype(np.float64)
        made: list[Vectors] = [{} for _ in fact]
        for site, x in self.sites.items():
            queries = learned_queries(x[rows], self.symbols[rows], values, count, seed)
            for pooled, vectors in zip(made, query_pool(x, self.symbols, queries), strict=True):
                pooled[site] = vectors
        return made


def _read(model: LanguageModel, words: Words, fit: Bool[np.ndarray, " word"]) -> _Read:
    """The activations on words, and their vectors."""
    tensors = WordTensors.of(words)
    sites = _sites(model)
    states = activations(model, tensors.tokens, ["hook_embed", *sites.values()])
    symbols = tensors.mask.clone()
    symbols[:, 0] = False
    scaled = {site: _standardised(states[hook], symbols, fit) for site, hook in sites.items()}
    raw = {site: states[hook] for site, hook in sites.items()}
    pooled: dict[str, Vectors] = {
        BAG: {"embed": mean_pool(states["hook_embed"], symbols)},
        "first": {site: x[:, 0] for site, x in raw.items()},
        "last": {site: at_position(x, tensors.last) for site, x in raw.items()},
        "mean": {site: mean_pool(x, symbols) for site, x in raw.items()},
    }
    if model.config.family.recurrent:
        pooled[STATE] = {"all layers": torch.cat([*pooled["last"].values()], dim=1)}
    return _Read(scaled, symbols, pooled)


def _standardised(
    x: Float[Tensor, "word pos d"], symbols: Bool[Tensor, "word pos"], fit: np.ndarray
) -> Float[Tensor, "word pos d"]:
    """Each feature with mean 0 and variance 1 over the symbols of the words that fit."""
    sample = x[torch.as_tensor(fit)][symbols[torch.as_tensor(fit)]]
    size = sample.std(dim=0)
    return (x - sample.mean(dim=0)) / torch.where(size > 1e-6, size, 1.0)


def _shuffled(fact: Target, fit: Bool[np.ndarray, " word"], seed: int) -> Target:
    """The control: the words that fit get each other's values."""
    values = fact.values.copy()
    values[fit] = np.random.default_rng(seed).permutation(values[fit])
    return replace(fact, values=values)


def _sentences(run: Run, options: Options, progress: Progress = quiet) -> pd.DataFrame:
    """Linear probes of whole words: what they read off one vector, by the way it is made.

    Half of the words fit the probes and teach the queries, a quarter chooses the site, and the
    others are scored. Controls: the untrained model; shuffled labels; the control task, in which
    each length with each last symbol has a value of its own, drawn at random (selectivity is the
    score minus this one); and the mean or the commonest value, which sees no activation.

    Returns:
        One row per pooling, fact and model, each at its own best site: pooling ("bag",
        "first", "last", "mean", "1 query", "4 queries"; of a recurrent network "z*"), fact, model
        ("trained" or a control), site, metric (R2 of a count, accuracy of membership), score, low,
        high (95% bootstrap over the scored words), n_train and n_test (words).

    Raises:
        UserError: the language has too few words, or the model no activations.
    """
    seed = options.seed
    sample = asked_of(run, options.words, seed)
    true, fit = sample.facts, sample.fit
    ends = sample.words.ids[np.arange(len(sample.words)), sample.words.lengths - 1]
    types = (sample.words.lengths * (ends.max() + 1) + ends)[:, None]
    trained = _read(run.model(), sample.words, fit)
    cases: dict[str, tuple[_Read, Mapping[str, Target]]] = {
        "trained": (trained, true),
        "untrained": (_read(run.untrained(), sample.words, fit), true),
        "shuffled labels": (trained, {n: _shuffled(f, fit, seed) for n, f in true.items()}),
        "control task": (trained, {n: control_task(f, types, fit, seed) for n, f in true.items()}),
    }
    tables = []
    for done, (name, (reading, wanted)) in enumerate(cases.items()):
        progress(done, len(cases), name)
        probed = {
            pooling: _probed(vectors, wanted, sample) for pooling, vectors in reading.pooled.items()
        }
        for pooling, queries in QUERIES.items():
            varying = {n: f for n, f in wanted.items() if len(np.unique(f.values[fit])) > 1}
            made = reading.by_queries(list(varying.values()), fit, queries, seed)
            pairs = zip(varying.items(), made, strict=True)
            parts = [_probed(vectors, {fact: target}, sample) for (fact, target), vectors in pairs]
            probed[pooling] = pd.concat(parts, ignore_index=True)
        tables += [part.assign(pooling=pooling, model=name) for pooling, part in probed.items()]
    nothing = baseline(true, fit, seed, choose=sample.choose)
    tables += [nothing.assign(pooling=p, model=MODELS[-1]) for p in probed]
    progress(len(cases), len(cases), "sentences")
    table = pd.concat(tables, ignore_index=True)
    best = table.groupby(["pooling", "target", "model"], sort=False)["choice"].idxmax()
    table = table.loc[np.sort(best)].rename(columns={"target": "fact"})
    return table[COLUMNS].reset_index(drop=True)


COLUMNS = ["pooling", "fact", "model", "site", "metric", "score", "low", "high"]
COLUMNS += ["n_train", "n_test"]


def _probed(vectors: Vectors, facts: Mapping[str, Target], sample: Asked) -> pd.DataFrame:
    """The rows of ``probe_sites`` for vectors of whole words."""
    sites = {site: x[:, None].numpy() for site, x in vectors.items()}
    return probe_sites(sites, facts, sample.fit, choose=sample.choose)


def _side_by_side(table: pd.DataFrame) -> pd.DataFrame:
    """One row for each fact and model, a column for each pooling."""
    wide = table.pivot_table(index=["fact", "model"], columns="pooling", values="score", sort=False)
    order = [(fact, model) for fact in table["fact"].unique() for model in MODELS]
    wide = wide.reindex([key for key in order if key in wide.index])
    return wide[table["pooling"].unique()].reset_index()


def _claims(table: pd.DataFrame) -> list[Claim]:
    """The mean over a word's symbols: what it holds of the last fact (membership, if it is asked)
    and of the first, the length. The mean of the embeddings is a control: it knows no order."""
    names = table["fact"].unique()
    return [_claim(table[table["fact"] == fact]) for fact in dict.fromkeys([names[-1], names[0]])]


def _claim(rows: pd.DataFrame) -> Claim:
    grid = rows.set_index(["model", "pooling"])
    row, score = grid.loc[("trained", "mean")], grid["score"]
    others = score["trained"].drop(["mean", BAG]).items()
    metric, ends = "an R2 of {}", (row["low"], row["high"])
    if row["metric"] == "accuracy":
        metric, ends = "an accuracy of {}", unless_agreed(row["score"], *ends, int(row["n_test"]))
    return Claim(
        f"A linear probe reads {row['fact']} off the mean of a word's activations at "
        f"{row['site']} with {metric}",
        row["score"],
        *ends,
        row["n_test"],
        "different words, which neither fitted the probe nor chose the site",
        "bootstrap over words",
        {name: score[name, "mean"] for name in MODELS[1:] if (name, "mean") in score.index}
        | {"the mean of the embeddings": score["trained", BAG]},
        notes=[f"By other vectors: {', '.join(f'{name} {value:.2f}' for name, value in others)}."],
    )


def _chart(table: pd.DataFrame) -> ChartType:
    """A panel for each fact: the score of each pooling, beside the controls."""
    shown = {"at": "score", "left": "low", "right": "high"}
    rows = table.assign(**{new: table[old].clip(0, 1) for new, old in shown.items()})
    names = ["trained", "untrained", "control task"]
    panel = points(
        rows[rows["model"].isin(names)],
        alt.X("at:Q", title="R2, or accuracy of membership").scale(domain=[0, 1]),
        alt.Y("pooling:N", sort=rows["pooling"].unique().tolist(), title=None),
        ["pooling", "fact", "model", "site", "metric", *figures("score", "low", "high")],
        colours("model", names, [TRAINED, UNTRAINED, CHOSEN]),
        ("left", "right"),
    ).properties(width=200)
    facts = rows["fact"].unique().tolist()
    return panel.facet(facet=alt.Facet("fact:N", sort=facts, title=None), columns=3)


QUESTION = of_table(
    "sentences",
    Options,
    _sentences,
    _claims,
    lambda table: row_numbers(table, "{fact}, {pooling}", value="score"),
    _chart,
    _side_by_side,
    planned=tuple(Planned("trained", name) for name in MODELS[1:]),
)
