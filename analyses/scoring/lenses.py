"""The lab's own lenses, which go through the same door as those of strangers."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import partial
from operator import itemgetter
from typing import Any, get_args

import numpy as np
import torch
from sklearn.cross_decomposition import PLSRegression
from sklearn.decomposition import PCA
from sklearn.linear_model import Ridge

from analyses.scoring.lenses_of_lines import OF_LINES
from analyses.scoring.paper import PartWords, VariableWords, Words
from interp.automata.extraction import extract
from interp.automata.passive.merging import rpni
from interp.causal.ablation import ablate
from interp.causal.alignment import Cases, answered, displacements, within
from interp.causal.alignment import aligned as trained_basis
from interp.causal.patching import patch
from interp.circuits.effects import Direction, Method, edge_effects
from interp.circuits.graph import Edge
from interp.explanations.case import Case
from interp.explanations.games import Game, on_both_scales
from interp.explanations.methods import METHODS
from interp.heads.logit_attribution import direct_logit_attribution
from interp.model import activations
from interp.probing.steering import direction

Lens = Mapping[str, Callable[[Any, Any], Any]]
HIDDEN_BY = 8
"""Words whose symbols take the places of hidden ones."""
SAMPLES = 64
"""Coalitions that a sampling method may ask for: as many as there are."""
MOST_RANK = 8
EPOCHS = 20
"""Epochs of the training of directions."""
FIRST = 2
"""The id of the first symbol."""


# -- positions ------------------------------------------------------------------------------------


def _explained(name: str, model: Any, words: Words) -> Any:
    """The values of one of the lab's explanations of log odds (``METHODS``), word by word."""
    method, rng = METHODS[name], np.random.default_rng(words.seed)
    symbols = np.arange(len(words.symbols)) + FIRST
    scores = []
    for word in words.tokens[:, 1:].numpy():
        hidden = rng.choice(symbols, size=(HIDDEN_BY, len(word)))
        game = Game(words.scores(model), word, hidden, on_both_scales)
        case = Case(game, model, words.token, words.at, symbols, samples=SAMPLES)
        values = np.asarray(method.run(case, words.seed))
        scores.append(values[-1] if values.ndim > 1 else values)
    return np.array(scores)


# -- parts and edges ------------------------------------------------------------------------------


def _edge_scores(
    method: Method, direction: Direction, model: Any, words: PartWords
) -> dict[tuple[str, str], float]:
    """The mean size of the effect of each edge over all pairs."""
    pairs = words.tokens, words.counterfactuals
    table = edge_effects(model, *pairs, words.metric, [method], [direction], steps=5)
    sizes = table.assign(size=table["effect"].abs()).groupby(["sender", "receiver"])["size"].mean()
    return {Edge(*edge): float(size) for edge, size in sizes.fillna(0.0).items()}


def _by_edge(method: Method, direction: Direction, model: Any, words: PartWords) -> Any:
    """An edge's score."""
    scores = _edge_scores(method, direction, model, words)
    return [scores[Edge(*edge)] for edge in words.edges]


def _by_sender(method: Method, direction: Direction, model: Any, words: PartWords) -> Any:
    """A part's score is the largest of the edges that leave it."""
    scores = _edge_scores(method, direction, model, words)
    return [max(v for (sender, _), v in scores.items() if sender == part) for part in words.parts]


def _patched(model: Any, words: PartWords) -> Any:
    """The mean size of the effect of a part's output of the other word, at its best position."""
    pairs = words.tokens, words.counterfactuals
    table = patch(model, *pairs, words.metric, ["z", "mlp_out"])
    names = [
        f"L{layer} mlp" if component == "mlp_out" else f"L{layer}H{int(head)}"
        for component, layer, head in zip(
            table["component"], table["layer"], table["head"], strict=True
        )
    ]
    sizes = table.assign(part=names, size=table["effect"].abs())
    best = sizes.groupby(["part", "position"])["size"].mean().groupby("part").max()
    return [float(best.get(part, 0.0)) for part in words.parts]


def _ablated(model: Any, words: PartWords) -> Any:
    """The mean change of the verdict when the mean over words stands in for a part's output."""
    table = ablate(model, words.tokens, words.tokens >= 0, words.metric, "mean")
    size = (table["after"] - table["before"]).abs().groupby(table["part"]).mean().to_dict()
    with torch.no_grad():
        whole = words.metric(model(words.tokens))
        for layer in range(model.cfg.n_layers):
            hook = f"blocks.{layer}.hook_mlp_out"
            mean = activations(model, words.tokens, [hook])[hook].mean(dim=0)
            logits = model.run_with_hooks(
                words.tokens, fwd_hooks=[(hook, lambda x, hook, mean=mean: mean.expand_as(x))]
            )
            size[f"L{layer} mlp"] = float((words.metric(logits) - whole).abs().mean())
    return [size[part] for part in words.parts]


def _direct(model: Any, words: PartWords) -> Any:
    """The spread of a part's direct share of the verdict over words."""
    at = torch.full((len(words.tokens),), words.at)
    table = direct_logit_attribution(model, words.tokens, at, words.token)
    spread = table.groupby("part")["value"].std()
    return [float(spread.get(part, 0.0)) for part in words.parts]


# -- a variable -----------------------------------------------------------------------------------


def _values(words: VariableWords) -> np.ndarray:
    values = words.values.double().numpy()
    return values.reshape(-1, values.shape[-1])


def _best(model: Any, words: VariableWords) -> tuple[str, np.ndarray, np.ndarray]:
    """The first site at which a ridge probe tells the values nearly as well as at the best one; its
    stream, and the values."""
    streams, values = activations(model, words.tokens, words.sites), _values(words)
    rows = {site: x.double().numpy().reshape(-1, x.shape[-1]) for site, x in streams.items()}
    half = len(values) // 2
    scores = {
        site: float(Ridge(1e-3).fit(x[:half], values[:half]).score(x[half:], values[half:]))
        for site, x in rows.items()
    }
    site = next(site for site, r2 in scores.items() if r2 >= max(scores.values()) - 0.01)
    return site, rows[site], values


def _rank(values: np.ndarray) -> int:
    """The directions along which values vary; 1 at least."""
    return int(max(1, np.linalg.matrix_rank(values - values.mean(axis=0))))


def _probed(model: Any, words: VariableWords) -> Any:
    """The directions that a ridge probe reads: its weights at the first of the best sites."""
    site, x, values = _best(model, words)
    return site, _span(np.atleast_2d(Ridge(1e-3).fit(x, values).coef_))


def _written(model: Any, words: VariableWords) -> Any:
    """The change of the stream with the values: least squares from values to the stream."""
    site, x, values = _best(model, words)
    return site, _span(Ridge(1e-3).fit(values, x).coef_.T)


def _steered(model: Any, words: VariableWords) -> Any:
    """The difference of means that steering uses, for each number or category."""
    site, x, values = _best(model, words)
    numbers = (torch.tensor(v) for v in values.T if np.ptp(v) > 0)
    rows = [direction(torch.tensor(x), v).numpy() for v in numbers]
    return site, _span(np.array(rows))


def _partial_squares(model: Any, words: VariableWords) -> Any:
    """The directions of partial least squares, as many as the values have."""
    site, x, values = _best(model, words)
    fitted = PLSRegression(_rank(values), scale=False).fit(x, values)
    return site, _span(fitted.x_weights_.T)


def _principal(model: Any, words: VariableWords) -> Any:
    """The first principal components of the stream, which look at no values."""
    site, x, values = _best(model, words)
    return site, PCA(_rank(values)).fit(x).components_


def _aligned_where_probed(model: Any, words: VariableWords) -> Any:
    """``_aligned`` at the site that a ridge probe chooses."""
    return _aligned(model, replace(words, sites=_best(model, words)[:1]))


def _aligned(model: Any, words: VariableWords) -> Any:
    """Distributed alignment search (Geiger et al. 2024): directions whose exchange at every
    position gives the right verdict; the site is the first where it does most often."""
    rank = _rank(_values(words))
    every = torch.arange(words.base.shape[1]).expand(words.base.shape)
    at, token = torch.full((len(every),), words.at), torch.tensor([words.token])
    accepted = words.accepted[:, None]
    cases = Cases.exchange(words.base, words.source, every, every, at, accepted, token)
    best = -1.0, "", np.eye(1)
    for site in words.sites:
        moved = displacements(model, [site], cases)[site]
        along = trained_basis(model, site, cases, moved, rank, words.seed, EPOCHS)
        right = answered(model, site, cases, moved, within(along, rank)).mean()
        best = max(best, (right, site, along.T.numpy()), key=itemgetter(0))
    return best[1:]


def _whole_stream(model: Any, words: VariableWords) -> Any:
    """All directions at the first site where the values can be told: the stream itself."""
    return _best(model, words)[0], np.eye(model.cfg.d_model)[:64]


def _span(rows: np.ndarray) -> np.ndarray:
    """The directions of rows that are not zero, at most so many."""
    _, sizes, right = np.linalg.svd(rows, full_matrices=False)
    return right[sizes > 1e-3 * sizes.max()][:MOST_RANK]


# -- the rule -------------------------------------------------------------------------------------


def _accepts(model: Any, words: Words) -> Callable[[Any], np.ndarray]:
    ids = {symbol: FIRST + i for i, symbol in enumerate(words.symbols)}

    def accepts(batch: Any) -> np.ndarray:
        """No word of the language is empty, or too long."""
        verdicts = np.zeros(len(batch), dtype=bool)
        for length in {len(word) for word in batch} - {0}:
            rows = [i for i, word in enumerate(batch) if len(word) == length]
            if length <= words.longest:
                tokens = torch.tensor([[0, *(ids[s] for s in batch[i])] for i in rows])
                verdicts[rows] = words.verdicts(model, tokens).numpy() > 0
        return verdicts

    return accepts


def _drawn(words: Words, count: int) -> list[tuple[str, ...]]:
    rng = np.random.default_rng(words.seed)
    lengths = rng.integers(1, words.longest + 1, count)
    return [tuple(rng.choice(words.symbols, n).tolist()) for n in lengths]


def _learned(model: Any, words: Words) -> Any:
    """Active learning of an automaton (Kearns and Vazirani), with the network as the teacher."""
    result = extract(_accepts(model, words), words.symbols, _drawn(words, 2000), max_states=200)
    return _table(result.dfa)


def _merged(model: Any, words: Words) -> Any:
    """Passive learning (RPNI) from 2,000 words with the network's verdicts."""
    drawn = _drawn(words, 2000)
    return _table(rpni(drawn, _accepts(model, words)(drawn), words.symbols))


def _table(dfa: Any) -> dict[str, Any]:
    return {
        "start": dfa.initial_state,
        "accepting": sorted(dfa.final_states),
        "moves": {state: dict(row) for state, row in dfa.transitions.items()},
    }


# -- controls -------------------------------------------------------------------------------------


def _random(*shape: int, words: Words) -> np.ndarray:
    return np.random.default_rng(words.seed).random(shape)


def _random_site(model: Any, words: VariableWords) -> Any:
    rng = np.random.default_rng(words.seed)
    return str(rng.choice(words.sites)), rng.normal(size=(1, model.cfg.d_model))


def _random_rule(model: Any, words: Words) -> Any:
    """An automaton of ten states with random moves."""
    rng = np.random.default_rng(words.seed)
    moves = {s: {a: int(rng.integers(10)) for a in words.symbols} for s in range(10)}
    return {"start": 0, "accepting": [s for s in moves if rng.random() < 0.5], "moves": moves}


RANDOM = "random"
BY_EDGE: Mapping[str, tuple[Method, Direction]] = {
    "path patching, noising": ("exact", "noising"),
    "path patching, denoising": ("exact", "denoising"),
    **{method: (method, "noising") for method in get_args(Method)[1:]},
}
LENSES: Mapping[str, Lens] = {
    **{
        name: {"positions": partial(_explained, name)}
        for name in (
            "LIME",
            "SHAP kernel",
            "leave one out",
            "substitution",
            "gradient x input",
            "integrated gradients",
            "direct logit attribution",
            "attention",
            "rollout",
        )
    },
    **{
        name: {"parts": partial(_by_sender, *how), "edges": partial(_by_edge, *how)}
        for name, how in BY_EDGE.items()
    },
    "activation patching": {"parts": _patched},
    "mean ablation": {"parts": _ablated},
    "direct share": {"parts": _direct},
    "ridge probe": {"variable": _probed},
    "least squares of the stream": {"variable": _written},
    "difference of means": {"variable": _steered},
    "partial least squares": {"variable": _partial_squares},
    "DAS": {"variable": _aligned},
    "DAS, probe's site": {"variable": _aligned_where_probed},
    "principal components": {"variable": _principal},
    "whole stream": {"variable": _whole_stream},
    "L*": {"rule": _learned},
    "RPNI": {"rule": _merged},
    **{name: {"lines": lens} for name, lens in OF_LINES.items()},
    RANDOM: {
        "positions": lambda model, words: _random(*words.tokens[:, 1:].shape, words=words),
        "parts": lambda model, words: _random(len(words.parts), words=words),
        "edges": lambda model, words: _random(len(words.edges), words=words),
        "variable": _random_site,
        "rule": _random_rule,
        "lines": lambda model, words: _random(len(words.tokens), len(words.lines), words=words),
    },
}
