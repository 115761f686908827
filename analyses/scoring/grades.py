"""Grades of a lens's answer: against the truth, and by proxies that need no truth.

Every number is better the higher it is. The first in ``TRUTH``, from 0 to 1, is that of the
scoreboard. An answer that cannot be graded is a ValueError that says what is wrong with it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from itertools import product
from typing import Any

import numpy as np
import torch
from jaxtyping import Bool, Float
from sklearn.linear_model import Ridge
from sklearn.metrics import average_precision_score, roc_auc_score
from torch import Tensor

from analyses.scoring.keys import Key, LineKey, PartKey, PositionKey, RuleKey, VariableKey, basis
from analyses.scoring.paper import Question
from interp.circuits.circuits import Bench, areas, curve
from interp.circuits.graph import Graph
from interp.explanations.games import Game, on_both_scales
from interp.explanations.scores import by_hiding, cosine, verdict_of
from interp.influence.scores import lds, predicted
from interp.model import activations
from models.languages.vocabulary import FIRST_SYMBOL_ID
from models.transformer.model import HookedTransformer

TRUTH: Mapping[Question, Sequence[str]] = {
    "positions": ("AUROC", "average precision", "cosine to Shapley values"),
    "parts": ("AUROC", "average precision"),
    "edges": ("AUROC", "average precision"),
    "variable": ("located", "overlap", "site"),
    "rule": ("exact", "agreement"),
    "lines": ("LDS",),
}
MAIN = {question: measures[0] for question, measures in TRUTH.items()}
PROXIES: Mapping[Question, Sequence[str]] = {
    "positions": ("comprehensiveness", "sufficiency", "normalised AOPC"),
    "parts": (),
    "edges": ("CPR", "CMD"),
    "variable": ("interchange accuracy", "probe R2", "selectivity"),
    "rule": (),
    "lines": (),
}
"""The measures where no wiring is known. Sufficiency and CMD have a minus here: the lower they
are, the better."""
MOST_ROWS, MOST_STATES = 64, 10_000
HIDDEN_BY = 8
"""Words whose symbols take the places of hidden ones, where positions are hidden from the model."""


def grade(key: Key, answer: Any, model: HookedTransformer) -> dict[str, float]:
    """The numbers of ``TRUTH`` and ``PROXIES`` of one answer; NaN where one is not defined.

    Args:
        answer: the answer that the lens's process sent: lists of numbers, or for a rule a table.
        model: the network that the question is about.

    Raises:
        ValueError: the answer has another form than was asked for, or a number is not finite.
    """
    return GRADES[key.question](key, answer, model)


def oracle(key: Key) -> Any:
    """The answer that the truth gives."""
    return ORACLES[key.question](key)


def _numbers(answer: Any, shape: tuple[int, ...]) -> Float[np.ndarray, "..."]:
    """An answer as numbers. Raises ValueError if the shape is another one, or one is not finite."""
    try:
        values = np.array(answer, dtype=float)
    except OverflowError:
        raise ValueError("a number is too large") from None
    except (TypeError, ValueError):
        raise ValueError(f"not numbers: give {_shaped(shape)}") from None
    if values.shape != shape:
        raise ValueError(f"numbers of shape {_shaped(values.shape)}: give {_shaped(shape)}")
    if not np.isfinite(values).all():
        raise ValueError(f"{(~np.isfinite(values)).sum()} numbers are NaN or infinite")
    return values


def _shaped(shape: tuple[int, ...]) -> str:
    return f"[{', '.join(map(str, shape))}]"


def _ranking(
    inside: Bool[np.ndarray, " item"], values: Float[np.ndarray, " item"]
) -> dict[str, float]:
    """Do those inside have larger values, whatever their sign? Chance gets an AUROC of one half."""
    sizes = np.abs(values)
    return {
        "AUROC": float(roc_auc_score(inside, sizes)),
        "average precision": float(average_precision_score(inside, sizes)),
    }


# -- positions ------------------------------------------------------------------------------------


def _positions(key: PositionKey, answer: Any, model: HookedTransformer) -> dict[str, float]:
    """Means over words. The signs of values count for the cosine and the order of hiding: positive
    speaks for "in the language"."""
    values = _numbers(answer, key.inside.shape)
    rows, words = [], zip(values, key.inside, key.shapley, _games(key, model), strict=True)
    for value, inside, exact, game in words:
        speaks = value[None] if verdict_of(game) else -value[None]
        rows.append(
            _ranking(inside, value)
            | {"cosine to Shapley values": cosine(value[None], exact)[0]}
            | {name: numbers[0] for name, numbers in by_hiding(speaks, game).items()}
        )
    means = {name: float(np.nanmean([row[name] for row in rows])) for name in rows[0]}
    means["sufficiency"] = -means["sufficiency"]
    measures = (*TRUTH["positions"], *PROXIES["positions"])
    return {name: means[name] for name in measures}


def _games(key: Key, model: HookedTransformer) -> list[Game]:
    """The model's probability of a yes on each word of which symbols are hidden."""
    words = key.words.tokens[:, 1:].numpy()
    rng = np.random.default_rng(key.words.seed)
    symbols = np.arange(len(key.words.symbols)) + FIRST_SYMBOL_ID
    hidden = rng.choice(symbols, size=(HIDDEN_BY, words.shape[1]))
    games = []
    for word in words:
        game = Game(key.words.scores(model), word, hidden, on_both_scales)
        game.values()
        games.append(game.on("probability"))
    return games


# -- parts and edges -------------------------------------------------------------------------------


def _parts(key: PartKey, answer: Any, model: HookedTransformer) -> dict[str, float]:
    return _ranking(key.inside, _numbers(answer, key.inside.shape))


def _edges(key: PartKey, answer: Any, model: HookedTransformer) -> dict[str, float]:
    """CPR and CMD on members only: ablation lowers a yes, and cannot lower a no."""
    values, words = _numbers(answer, key.inside.shape), key.words
    numbers = _ranking(key.inside, values)
    bench = Bench(model, words.tokens[::2], words.counterfactuals[::2], words.metric)
    edges = Graph.of(model).edges
    if abs(float(bench.ends[1].mean() - bench.ends[0].mean())) < 1e-6:  # an untrained network
        return numbers | {"CPR": float("nan"), "CMD": float("nan")}
    under = areas(curve(bench, dict(zip(edges, values.tolist(), strict=True))))
    return numbers | {"CPR": under["CPR"], "CMD": -under["CMD"]}


# -- a variable -----------------------------------------------------------------------------------


def _variable(key: VariableKey, answer: Any, model: HookedTransformer) -> dict[str, float]:
    """The numbers of an answer about a variable.

    - "overlap": the overlap of the directions with those in which the variable differs; 1 is the
      same space.
    - "site": is the variable there, and still read?
    - "located": the overlap; zero at a wrong site.
    - "interchange accuracy": words get the part of other words' stream along the directions. How
      often is the verdict then that of the program whose variable was exchanged? Half of the
      exchanges turn it.
    - "probe R2": how well the directions tell the values, on words that fitted no probe.
    - "selectivity": the same, less what they tell of values that were dealt to the words anew.
    """
    try:
        site, rows = answer
    except (TypeError, ValueError):
        raise ValueError("not a site with directions: give both") from None
    if site not in key.words.sites:
        raise ValueError(f"the site {str(site)[:40]!r} was not offered: give one of words.sites")
    width = model.config.d_model
    count = len(rows) if isinstance(rows, list) else 0
    if not 0 < count <= MOST_ROWS:
        raise ValueError(f"{count} directions: give 1 to {MOST_ROWS}")
    along = basis(_numbers(rows, (count, width)))
    if not len(along):
        raise ValueError("the directions are zero")
    both = float(np.linalg.norm(along @ key.directions.T) ** 2)
    overlap, there = both / max(len(along), len(key.directions)), float(site in key.sites)
    return {
        "located": overlap * there,
        "overlap": overlap,
        "site": there,
        "interchange accuracy": _exchanged(key, site, torch.tensor(along).float(), model),
    } | _probed(key, site, along, model)


@torch.no_grad()
def _exchanged(
    key: VariableKey, site: str, along: Float[Tensor, "rank d_model"], model: HookedTransformer
) -> float:
    pairs = key.exchanges
    source = activations(model, pairs.source, [site])[site]

    def exchange(stream: Tensor, hook: object) -> Tensor:
        return stream + (source - stream) @ along.T @ along

    logits = model.run_with_hooks(pairs.base, fwd_hooks=[(site, exchange)])
    says = key.words.metric(logits).numpy() > 0
    return float((says == pairs.accepted).mean())


def _probed(
    key: VariableKey, site: str, along: Float[np.ndarray, "rank d_model"], model: HookedTransformer
) -> dict[str, float]:
    stream = activations(model, key.words.tokens, [site])[site].double().numpy() @ along.T
    values = key.words.values.double().numpy()
    half = len(values) // 2
    rng = np.random.default_rng(key.words.seed)
    dealt = values[rng.permutation(len(values))]

    def r2(of: Float[np.ndarray, "word pos size"]) -> float:
        fit = [part[:half].reshape(-1, part.shape[-1]) for part in (stream, of)]
        test = [part[half:].reshape(-1, part.shape[-1]) for part in (stream, of)]
        probe = Ridge(1e-3).fit(*fit)
        missed = ((probe.predict(test[0]).reshape(test[1].shape) - test[1]) ** 2).sum()
        return 1 - float(missed / max(((test[1] - test[1].mean(axis=0)) ** 2).sum(), 1e-12))

    score = max(r2(values), -1.0)
    return {"probe R2": score, "selectivity": score - max(r2(dealt), -1.0)}


# -- the rule -------------------------------------------------------------------------------------


def _rule(key: RuleKey, answer: Any, model: HookedTransformer) -> dict[str, float]:
    """The grades over all words up to the longest: "exact", whether all are right, and "agreement",
    the share that is right (members and others weigh alike)."""
    start, accepting, moves = _automaton(answer)
    members, says = list[bool](), list[bool]()
    for length in range(1, key.words.longest + 1):
        for word in product(key.words.symbols, repeat=length):
            state = start
            for symbol in word:
                state = moves[state].get(symbol) if state in moves else None
            says.append(state in accepting)
            members.append(key.member(word))
    right = np.array(says) == np.array(members)
    return {"exact": float(right.all()), "agreement": _balanced(right, np.array(members))}


def _balanced(right: Bool[np.ndarray, " word"], members: Bool[np.ndarray, " word"]) -> float:
    return float((right[members].mean() + right[~members].mean()) / 2)


def _automaton(answer: Any) -> tuple[Any, set[Any], Mapping[Any, Mapping[str, Any]]]:
    cure = 'give {"start": state, "accepting": [state], "moves": {state: {symbol: state}}}'
    try:
        start, accepting, moves = str(answer["start"]), answer["accepting"], answer["moves"]
        accepts = {str(state) for state in accepting}
        table = {str(s): {a: str(to) for a, to in row.items()} for s, row in moves.items()}
    except (TypeError, KeyError, AttributeError):
        raise ValueError(f"no automaton: {cure}") from None
    if len(table) > MOST_STATES:
        raise ValueError(f"an automaton of {len(table)} states: give at most {MOST_STATES}")
    return start, accepts, table


def _all_prefixes(key: RuleKey) -> dict[str, Any]:
    """An automaton with a state per prefix, merged where all that may follow is the same."""
    member, states = key.member, dict[tuple[object, ...], str]()
    moves: dict[str, dict[str, str]] = {}
    accepting: list[str] = []

    def state(prefix: tuple[str, ...]) -> str:
        more = key.words.symbols if len(prefix) < key.words.longest else ()
        after = {symbol: state((*prefix, symbol)) for symbol in more}
        inside = bool(prefix) and member(prefix)
        signature = (inside, *after.items())
        if signature not in states:
            name = states[signature] = str(len(states))
            moves[name] = after
            accepting.extend([name] * inside)
        return states[signature]

    return {"start": state(()), "accepting": accepting, "moves": moves}


# -- lines ----------------------------------------------------------------------------------------


def _lines(key: LineKey, answer: Any, model: HookedTransformer) -> dict[str, float]:
    """Mean over words. Each training lacked half of the lines: is the right verdict the surer, the
    larger the sum of the influences of those that were there?"""
    values = _numbers(answer, (key.margins.shape[1], key.kept.shape[1]))
    return {"LDS": float(lds(key.margins, predicted(values, key.kept)).mean())}


def _fitted(key: LineKey) -> Any:
    """Influences whose sums are the centred margins of the trainings: there are more lines than
    trainings."""
    centred = key.margins - key.margins.mean(axis=0)
    design = key.kept - key.kept.mean(axis=0)
    return np.linalg.lstsq(design, centred, rcond=None)[0].T.tolist()


# -- all of them ----------------------------------------------------------------------------------


def _whole(key: PartKey | PositionKey) -> Any:
    return key.inside.astype(float).tolist()


GRADES: Mapping[Question, Callable[[Any, Any, HookedTransformer], dict[str, float]]] = {
    "positions": _positions,
    "parts": _parts,
    "edges": _edges,
    "variable": _variable,
    "rule": _rule,
    "lines": _lines,
}
ORACLES: Mapping[Question, Callable[[Any], Any]] = {
    "positions": _whole,
    "parts": _whole,
    "edges": _whole,
    "variable": lambda key: [key.sites[-1], key.directions.tolist()],
    "rule": _all_prefixes,
    "lines": _fitted,
}
