"""A Transformer without some of its heads, MLPs and edges: what it still does."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from itertools import product
from math import comb, prod
from typing import Any

import altair as alt
import numpy as np
import pandas as pd
import torch
from altair.typing import ChartType
from torch import Tensor

from analyses.answers import Planned, Progress, numbers, of_table
from analyses.charts.marks import points
from analyses.charts.theme import QUIET, TRAINED, figures, share
from analyses.claims import Claim, measured
from analyses.needs import lack, require
from analyses.options.parts import Ablation as Options
from analyses.questions.parts import circuits
from analyses.questions.parts.patching import next_tokens
from analyses.words import WordTensors, sample_window
from interp.causal.ablation import Ablation, donors
from interp.circuits.edges import run_with_edges, writes
from interp.circuits.graph import Graph
from interp.model import HookedModel, activations, is_readable
from interp.statistics import bootstrap_mean, unless_agreed, weighted_sum, wilson
from models.base import LanguageModel
from models.errors import UserError, unknown
from models.languages import Sample, Word, Words
from models.runs.run import Run
from models.training.evaluation import after_prefixes, verdicts, words_to_read

TESTED = 400
"""Words of the training window that are judged; equal ones count once."""
REFERENCE = 64
"""Words of the window from which a mean, or another word's output, comes."""
DRAWS = 20
"""Random sets of as many heads, MLPs and edges, at the most."""
AS_IT_IS, BROKEN, RANDOM = "as it is", "broken", "random parts"
ARROW = " -> "
"""The sign in the name of an edge, between what writes and what reads."""
_PART = re.compile(r"L(\d+)(?:H(\d+)| mlp)")


def parts_of(model: HookedModel) -> list[str]:
    """Every head and MLP by its name: "L0H1", "L0 mlp"."""
    layers, heads = range(model.cfg.n_layers), range(model.cfg.n_heads)
    names = [f"L{layer}H{head}" for layer, head in product(layers, heads)]
    mlps = [f"L{layer} mlp" for layer in layers]
    return names + [name for name in mlps if _hook(name)[0] in model.hook_dict]


def edges_of(model: HookedModel, run: Run) -> list[str]:
    """Every edge by its name: "L0H1 -> L1H0.q"; none where there is no single stream that is the
    sum of what its parts wrote."""
    if not is_readable(model) or lack(run, circuits.QUESTION.needs[1:]):
        return []
    return [str(edge) for edge in Graph.of(model).edges]


@dataclass(frozen=True)
class Removal:
    """A removal at all positions: what is taken away, and what stands in its place.

    A part is taken away from all that reads it, an edge from a single reader.

    Attributes:
        away: heads, MLPs and edges by name, as ``parts_of`` and ``edges_of`` give them.
        method: "mean": the part's mean output over positions of the window's words; "zero"; or
            "resample": its output at the same positions of another word.
    """

    away: Sequence[str]
    method: Ablation = "mean"

    def logits(self, model: HookedModel, words: Words, reference: Words) -> Tensor:
        """The model's logits on these words without the parts, [word, position, vocabulary].

        Args:
            reference: words from which a mean, or another word's output, comes. With "resample" a
                word keeps its own output if no word of these is as long.
        """
        tokens = torch.as_tensor(words.tokens)
        if not any(ARROW in name for name in self.away):
            hooks = self.hooks(model, words, reference)
            return model.run_with_hooks(tokens, fwd_hooks=hooks)
        assert is_readable(model)  # it has edges
        both = WordTensors.of(Words.concatenate(words, reference))
        written = writes(model, both.tokens).movedim(0, 2)
        source = self._instead(written, both, len(words), tokens.shape[1]).movedim(2, 0)
        off = [str(edge) in self.away or edge.sender in self.away for edge in Graph.of(model).edges]
        return run_with_edges(model, tokens, source, torch.tensor([off]).float())[0]

    def hooks(self, model: HookedModel, words: Words, reference: Words) -> list[Any]:
        """Hooks for a run on these words without the parts; see ``logits``."""
        heads: dict[str, list[int | None]] = {}
        for part in self.away:
            hook, head = _hook(part)
            heads.setdefault(hook, []).append(head)
        other = self._other(model, list(heads), words, reference)
        return [(hook, _instead(some, other[hook])) for hook, some in heads.items()]

    def _other(
        self, model: HookedModel, hooks: Sequence[str], words: Words, reference: Words
    ) -> dict[str, Tensor]:
        """The replacement of each hook's output, in the shape of the words'."""
        if not hooks:
            return {}
        both = WordTensors.of(Words.concatenate(words, reference))
        n, count = len(words), words.tokens.shape[1]
        states = activations(model, both.tokens, hooks)
        return {hook: self._instead(x, both, n, count) for hook, x in states.items()}

    def _instead(self, x: Tensor, both: WordTensors, n: int, count: int) -> Tensor:
        """The replacement of activations.

        Args:
            x: activations of all words, [word, position, ...]; the first ``n`` words are those that
                are run, whose tensors have ``count`` positions.
        """
        if self.method == "resample":
            draw = donors(both.tokens, both.mask, seed=0)[:n]
            draw = np.where(draw < 0, np.arange(n), draw)
            return x[torch.as_tensor(draw)][:, :count]
        seen = both.mask.clone()
        seen[:n] = False
        keep = float(self.method == "mean")
        return (keep * x[seen].mean(dim=0)).expand(n, count, *x.shape[2:])


def _kind(name: str) -> str:
    if ARROW in name:
        return "edge"
    return "MLP" if name.endswith("mlp") else "head"


def _hook(part: str) -> tuple[str, int | None]:
    """Where a part is taken away: the hook, and the head there."""
    match = _PART.fullmatch(part)
    assert match is not None
    layer, head = match.groups()
    if head is None:
        return f"blocks.{layer}.hook_mlp_out", None
    return f"blocks.{layer}.attn.hook_z", int(head)


def _instead(heads: Sequence[int | None], other: Tensor) -> Callable[..., Tensor]:
    """A hook that puts other values in the place of some heads, or of a whole MLP's output."""

    def replace(x: Tensor, hook: object) -> Tensor:
        if None in heads:
            return other.to(x)
        x = x.clone()
        x[:, :, heads] = other[:, :, heads].to(x)
        return x

    return replace


def _known_parts(model: HookedModel, run: Run, names: Iterable[str]) -> list[str]:
    """The parts of these names, each once. Raises UserError for a name that the model lacks."""
    there = [*parts_of(model), *edges_of(model, run)]
    for name in names:
        if name not in there:
            raise unknown("head, MLP or edge", name, there)
    return [name for name in there if name in set(names)]


@torch.no_grad()
def said_without(model: LanguageModel, run: Run, removal: Removal, word: Word) -> pd.DataFrame:
    """The model's answers after BOS and every symbol of a word, with and without the parts.

    Returns:
        The table of ``next_tokens`` of the runs "as it is" and "broken".
    """
    words = words_to_read(model, word)
    outputs = {
        AS_IT_IS: model(torch.as_tensor(words.tokens)),
        BROKEN: removal.logits(model, words, sample_window(run, REFERENCE, seed=0).words),
    }
    read = {name: after_prefixes(model, logits, words) for name, logits in outputs.items()}
    return next_tokens(run, word, read)


@torch.no_grad()
def _right_without(model: LanguageModel, run: Run, removal: Removal) -> pd.DataFrame:
    """The share of right verdicts on words of the training window, with and without the parts.

    The control takes away other parts: as many heads and as many MLPs, drawn at random ``DRAWS``
    times, or every other such set where there are no more.

    Returns:
        One row per set and kind of word: of ("as it is", "broken", "random parts"), parts, words
        ("members", "others"), right (a share), low, high (Wilson's 95% interval), count (different
        words); and, equal for both kinds, lost (the share of all verdicts that are right as it is
        and not without the parts, minus the reverse, each kind counting half), lost_low, lost_high
        (its 95% interval, of bootstraps over the words of each kind).
    """
    sample = _different(sample_window(run, TESTED, seed=1))
    reference = sample_window(run, REFERENCE, seed=0).words
    sets = [(AS_IT_IS, []), (BROKEN, list(removal.away))]
    there = [*parts_of(model), *edges_of(model, run)]
    sets += [(RANDOM, parts) for parts in _random_sets(there, removal.away)]
    kinds = {"members": sample.labels, "others": ~sample.labels}
    kinds = {words: which for words, which in kinds.items() if which.any()}
    rows, whole = [], np.empty(0)
    for of, parts in sets:
        logits = Removal(parts, removal.method).logits(model, sample.words, reference)
        right = verdicts(model, logits, sample.words) == sample.labels
        whole = right.astype(float) if of == AS_IT_IS else whole
        halves = [(1 / len(kinds), _mean((whole - right)[which])) for which in kinds.values()]
        of_set = dict(zip(("lost", "lost_low", "lost_high"), weighted_sum(*halves), strict=True))
        for words, which in kinds.items():
            count, hits = int(which.sum()), int(right[which].sum())
            low, high = wilson(hits, count)
            row = {"of": of, "parts": " + ".join(parts), "words": words, "right": hits / count}
            rows.append(row | {"low": low, "high": high, "count": count} | of_set)
    return pd.DataFrame(rows)


def _mean(lost: np.ndarray) -> tuple[float, float, float]:
    """The mean over words of one kind, with its 95% interval."""
    mean, low, high = map(float, bootstrap_mean(lost))
    return mean, *unless_agreed(mean, low, high, len(lost))


def _balanced(table: pd.DataFrame) -> pd.DataFrame:
    """The share of right verdicts of each set, members and others counting half each: of, parts,
    right."""
    return table.groupby(["of", "parts"], sort=False, as_index=False)["right"].mean()


def _claims(table: pd.DataFrame) -> list[Claim]:
    """The verdicts lost without the parts, beside those lost on average without random ones."""
    shares = _balanced(table).set_index("of")["right"]
    rows = table[table["of"] == BROKEN]
    lost = {**rows.iloc[0], "count": rows["count"].sum()}
    random = table[table["of"] == RANDOM].groupby("parts")["lost"].first()
    as_bad = int((random >= lost["lost"]).sum())
    return [
        Claim(
            f"Without {lost['parts']}, {{}} of the verdicts are lost",
            *measured(lost, "lost", "lost_low", "lost_high", "count"),
            "different words",
            "bootstrap over words",
            {"no loss": 0.0, "as many random others of the same kinds": random.mean()},
            "z.1%",
            doubts=[f"{as_bad} of {len(random)} such sets cost as much or more."] if as_bad else [],
            notes=[
                f"As it is, {shares[AS_IT_IS]:.1%} are right; without the parts, "
                f"{shares[BROKEN]:.1%}. Members and others count half each."
            ],
            unweighed="" if len(random) else "No other set of as many parts is left to compare.",
        )
    ]


def _different(sample: Sample) -> Sample:
    """Each word once: in a language that counts, most members of a sample are the same few."""
    _, first = np.unique(sample.words.ids, axis=0, return_index=True)
    return sample[np.sort(first)]


def _random_sets(there: Sequence[str], away: Sequence[str]) -> list[list[str]]:
    """Other sets with as many heads, MLPs and edges: all, if they are few, else random ones."""
    if not away:
        return []
    kinds = [[name for name in there if _kind(name) == kind] for kind in ("head", "MLP", "edge")]
    sizes = [sum(part in kind for part in away) for kind in kinds]
    rng, sets = np.random.default_rng(0), dict[tuple[str, ...], None]()
    there_are = prod(map(comb, map(len, kinds), sizes)) - 1
    while len(sets) < min(DRAWS, there_are):
        drawn = [
            part
            for kind, size in zip(kinds, sizes, strict=True)
            for part in sorted(rng.choice(kind, size, replace=False).tolist())
        ]
        if set(drawn) != set(away):
            sets[tuple(drawn)] = None
    return [list(parts) for parts in sets]


def _removal_of(model: HookedModel, run: Run, names: Iterable[str], method: Ablation) -> Removal:
    """A removal that the user asked for. Raises UserError where there is nothing of this name."""
    require(run, *QUESTION.needs)
    return Removal(_known_parts(model, run, list(names)), method)


def _ablated(run: Run, options: Options, progress: Progress) -> pd.DataFrame:
    """The table of ``_right_without``. Raises UserError if nothing is named, or nothing has that
    name."""
    if not options.off:
        raise UserError('nothing is taken away: name it, such as --off L0H1 "L0 mlp"')
    progress(0, 1, "ablation")
    model = run.model()
    return _right_without(model, run, _removal_of(model, run, options.off, options.ablation))


def _headline(table: pd.DataFrame) -> pd.DataFrame:
    """Numbers that are compared over seeds: right verdicts, of random parts the mean."""
    means = _balanced(table).groupby("of", sort=False)["right"].mean()
    return numbers(("right verdicts", str(of), value) for of, value in means.items())


def _chart(table: pd.DataFrame) -> ChartType:
    """Right verdicts as it is, broken, and without random parts; members above, others below."""
    x = share(alt.X, "right", "right verdicts")
    y = alt.Y("of:N", sort=[AS_IT_IS, BROKEN, RANDOM], title=None)
    tips = ["words", "of", "parts", *figures("right", "low", "high"), "count"]
    random = alt.Chart(table).transform_filter(alt.datum.of == RANDOM)
    ticks = random.mark_tick(color=QUIET, thickness=2).encode(x, y, tooltip=tips)
    dots = points(table, x, y, tips, alt.value(TRAINED)).transform_filter(alt.datum.of != RANDOM)
    picture = alt.layer(ticks, dots, data=table).properties(width=300, height=90)
    return picture.facet(row=alt.Row("words:N", title=None, sort=["members", "others"]))


QUESTION = of_table(
    "ablation",
    Options,
    _ablated,
    _claims,
    _headline,
    _chart,
    _balanced,
    needs=("heads", "verdict"),
    planned=(Planned("broken", "random parts"),),
)
