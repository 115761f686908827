"""Is the target of a source right, and what becomes of it after a first error?

In training each symbol is asked for after the true symbols before it (teacher forcing). In use a
model goes on from its own symbols (free running). Whether a whole target is right is the same in
both, since up to its first error it reads the same. What comes after the error is not.

Where tags are taught, the target is the row of tags, all said at once, and ends with its source.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import altair as alt
import numpy as np
import pandas as pd
import torch
from altair.typing import ChartType
from jaxtyping import Bool, Float, Int
from torch import Tensor

from analyses.answers import Planned, Progress, numbers, of_table, quiet
from analyses.charts.marks import curve, panels
from analyses.charts.theme import SEVERAL, TRAINED, UNTRAINED, colours, figures, share
from analyses.claims import COUNTS, Claim, measured
from analyses.needs import Need, require
from analyses.options.behaviour import Targets as Options
from analyses.questions.behaviour.pooled import pooled
from analyses.words import ANALYSIS_SEED
from interp.statistics import bootstrap_mean, wilson
from models.base import LanguageModel
from models.decoding.growing import growing
from models.languages import END_ID, PairCorpus, Transduction, Word, Words
from models.objectives.base import Objective
from models.runs.run import Run

MOST_LENGTHS = 12
"""The most source lengths that are told apart; of more, some at even distances are asked about."""
LEARNED = 2000
"""Words of the training from which the tags are counted that symbols have."""
DRAWN = 16
"""Rounds of drawing, to find pairs of each length of the source."""
COMMONEST = "commonest tag"
"""The control of tags: to each symbol the tag that it has most often in the training, as a reader
gives who knows the words and not the sentence."""
CONTROLS = ("untrained", "another source")
"""The untrained model; and the true target of another source of this length, which tells how right
a target is that knows nothing of its source but the length."""
BESIDE = {
    "the untrained network": "untrained",
    "another target of this length": "another source",
    "always the commonest target": "commonest",
}
"""Controls beside whole targets: by displayed name, a model or a column."""

NEEDS: tuple[Need, ...] = ("pairs", "next symbols", "targets")
INTERVALS = {"exact": ("low", "high"), "running": ("running_low", "running_high")}
"""The measures that have an interval, with the columns of its ends."""


@dataclass(frozen=True)
class _Asked:
    """Different pairs whose sources have one length.

    Attributes:
        words: the pairs.
        source: the number of symbols of each source.
        targets: the symbols after the border, END after the last unless they are tags; -1 past
            that.
        in_window: the share of pairs that are no longer than those of the training.
    """

    words: Words
    source: int
    targets: Int[np.ndarray, "pair place"]
    in_window: float


def _asked_of(run: Run, windows: float, count: int, seed: int) -> list[_Asked]:
    """Pairs by the length of their source, from the shortest up.

    Args:
        windows: the longest pairs, in training windows; a corpus has its own lengths.
        count: different pairs of each length at most.

    Raises:
        UserError: the run has no pairs, or makes no targets.
    """
    require(run, *NEEDS)
    language, rng = run.language, np.random.default_rng([ANALYSIS_SEED, seed])
    assert isinstance(language, Transduction | PairCorpus)
    window = language.length_of(run.config.max_n)
    reach = range(1, int(window * windows) + 1)
    if isinstance(language, PairCorpus):
        reach = language.lengths(run.config.max_n)
        window = reach[-1]
    lengths = language.positive_lengths(reach)
    by_source: dict[int, dict[Word, None]] = {}
    for _ in range(DRAWN):
        words = language.sample(rng, count * len(lengths), lengths, True, "test").words
        for word in language.vocabulary.decoded(words):
            group = by_source.setdefault(len(language.split(word)[0]), {})
            if len(group) < count:
                group[word] = None
        if all(len(group) == count for group in by_source.values()):
            break
    sources = sorted(by_source)
    some = np.unique(np.linspace(0, len(sources) - 1, MOST_LENGTHS).round().astype(int))
    samples = []
    for source in (sources[at] for at in some):
        pairs = language.vocabulary.words(list(by_source[source]))
        end = int(not run.objective.tags)
        targets = np.pad(pairs.ids[:, source + 1 :], ((0, 0), (0, end)), constant_values=END_ID)
        inside = np.arange(targets.shape[1]) < (pairs.lengths - source - 1 + end)[:, None]
        in_window = float((pairs.lengths <= window).mean())
        samples.append(_Asked(pairs, source, np.where(inside, targets, -1), in_window))
    return samples


@torch.no_grad()
def _forced(
    model: LanguageModel, objective: Objective, sample: _Asked
) -> Int[np.ndarray, "pair place"]:
    """The likeliest token after each true beginning of the target; the likeliest tag."""
    tokens = torch.as_tensor(sample.words.tokens, device=model.device)
    logprobs = objective.log_probabilities(model(tokens), model.vocabulary)
    first = 1 if objective.tags else sample.source + 1
    made: np.ndarray = logprobs[:, first:].argmax(dim=-1).cpu().numpy()
    return made[:, : sample.targets.shape[1]]


def _running(
    model: LanguageModel, objective: Objective, sample: _Asked
) -> Int[np.ndarray, "pair place"]:
    """The likeliest token after what the model itself has made; END after its own end. Tags do not
    hang on those before them."""
    if objective.tags:
        return _forced(model, objective, sample)
    begun = torch.as_tensor(sample.words.tokens[:, : sample.source + 2], device=model.device)
    return greedy(model, objective, begun, sample.targets.shape[1])


@torch.no_grad()
def greedy(
    model: LanguageModel, objective: Objective, begun: Int[Tensor, "pair pos"], places: int
) -> Int[np.ndarray, "pair place"]:
    """The likeliest token after each beginning, and so on; END after the end.

    Args:
        places: the number of tokens that are made.
    """
    words = growing(model, begun, begun.shape[1] + places)
    rows, made = torch.arange(len(begun), device=model.device), list[Tensor]()
    ended = torch.zeros(len(begun), dtype=torch.bool, device=model.device)
    for _ in range(places):
        logprobs = objective.log_probabilities(words.logits(), model.vocabulary)
        token = logprobs.argmax(dim=-1).masked_fill(ended, END_ID)
        ended = ended | (token == END_ID)
        made.append(token)
        words.go_on(rows, token)
    return torch.stack(made, dim=1).cpu().numpy()


def _targets(run: Run, options: Options, progress: Progress = quiet) -> pd.DataFrame:
    """Shares of right targets, by the length of the source or by the place in the target.

    Controls: the untrained model, the target of another source of the same length, and of tags the
    ``COMMONEST`` ones.

    By place, the distance from the border, the sources are those of the window alone.

    Returns:
        One row per model and group: model ("trained" or a control), by, group, pairs (for
        places, those that reach so far), exact (share of pairs whose whole target is right, END
        too), low and high (its 95% Wilson interval), forced and running (share of the places with
        the right token, after the true symbols and after the model's own), running_low and
        running_high (95% bootstrap over pairs), lost, lost_low and lost_high (how much lower
        running is than forced, likewise), alone (what ``exact`` would be if errors came
        independently of each other: the product of ``forced`` over the places), commonest (the
        share of pairs that have the commonest target of all) and in_window (the share of pairs no
        longer than those of the training). By place, exact and commonest are about all up to there,
        and forced and running about this place alone.

    Raises:
        UserError: the run has no pairs.
    """
    rows: list[dict[str, object]] = []
    by = options.by
    samples = _asked_of(run, 1.0 if by == "place" else options.windows, options.count, options.seed)
    models = {"trained": run.model(), "untrained": run.untrained()}
    total = len(models) * len(samples)
    for done, (name, model) in enumerate(models.items()):
        answers = []
        for at, sample in enumerate(samples):
            progress(done * len(samples) + at, total, name)
            made = _forced(model, run.objective, sample), _running(model, run.objective, sample)
            answers.append(made)
        rows += _rows(name, by, samples, answers)
    rng = np.random.default_rng([ANALYSIS_SEED, options.seed])
    others = [_shifted(sample, rng) for sample in samples]
    rows += _rows(CONTROLS[1], by, samples, [(other, other) for other in others])
    if run.objective.tags:
        tags = _commonest_tags(run, rng)
        known = [tags[sample.words.ids[:, : sample.source]] for sample in samples]
        rows += _rows(COMMONEST, by, samples, [(made, made) for made in known])
    progress(total, total, "targets")
    return pd.DataFrame(rows)


def _commonest_tags(run: Run, rng: np.random.Generator) -> Int[np.ndarray, " d_vocab"]:
    """The tag that each token has most often in training words; of one that is in none of them, the
    commonest tag of all."""
    language, size = run.language, len(run.language.vocabulary)
    lengths = language.positive_lengths(language.lengths(run.config.max_n))
    words = language.sample(rng, LEARNED, lengths, True, "train").words
    borders = words.ids == language.vocabulary.border()
    counts = np.zeros((size, size), dtype=int)
    for ids, source in zip(words.ids, borders.argmax(axis=1).tolist(), strict=True):
        np.add.at(counts, (ids[:source], ids[source + 1 : 2 * source + 1]), 1)
    none = counts.sum(axis=1, keepdims=True) == 0
    return np.where(none, counts.sum(axis=0), counts).argmax(axis=1)


def _shifted(sample: _Asked, rng: np.random.Generator) -> Int[np.ndarray, "pair place"]:
    """The targets of other sources of the same length."""
    turn = int(rng.integers(1, max(len(sample.targets), 2)))
    return np.where(sample.targets >= 0, np.roll(sample.targets, turn, axis=0), -1)


Answers = Sequence[tuple[np.ndarray, np.ndarray]]


def _rows(
    model: str, by: str, samples: Sequence[_Asked], answers: Answers
) -> Iterator[dict[str, object]]:
    deepest = max(one.targets.shape[1] for one in samples)
    wide = [
        [np.pad(part, ((0, 0), (0, deepest - part.shape[1])), constant_values=-1) for part in parts]
        for parts in ((one.targets, *made) for one, made in zip(samples, answers, strict=True))
    ]
    true, *outputs = (np.concatenate(parts) for parts in zip(*wide, strict=True))
    there = true >= 0
    right = [(tokens == true) & there for tokens in outputs]
    so_far = np.logical_and.accumulate(right[1] | ~there, axis=1)
    kinds, counts = np.unique(true, axis=0, return_counts=True)
    same = np.logical_and.accumulate(true == kinds[counts.argmax()], axis=1)
    source = np.repeat([one.source for one in samples], [len(one.words) for one in samples])
    inside = np.repeat([one.in_window for one in samples], [len(one.words) for one in samples])
    parts = [(one.source, source == one.source, slice(None)) for one in samples]
    if by == "place":
        parts = [(at + 1, there[:, at], slice(at, at + 1)) for at in range(deepest)]
    for group, pairs, at in parts:
        about = {"model": model, "by": by, "group": group, "in_window": inside[pairs].mean()}
        about |= {"commonest": same[pairs, at][:, -1].mean()}
        yield about | _row(
            so_far[pairs, at][:, -1], [one[pairs, at] for one in right], there[pairs, at]
        )


def _row(
    exact: Bool[np.ndarray, " pair"],
    right: Sequence[Bool[np.ndarray, "pair place"]],
    there: Bool[np.ndarray, "pair place"],
) -> dict[str, object]:
    low, high = wilson(int(exact.sum()), len(exact))
    shares = [hits.sum(axis=1) / there.sum(axis=1) for hits in right]
    counts = there.sum(axis=0)
    by_place = right[0].sum(axis=0)[counts > 0] / counts[counts > 0]
    return {
        "pairs": len(exact),
        "exact": float(exact.mean()),
        "low": low,
        "high": high,
        "forced": float(shares[0].mean()),
        **_interval("running", shares[1]),
        **_interval("lost", shares[0] - shares[1]),
        "alone": float(np.prod(by_place)),
    }


def _interval(name: str, values: Float[np.ndarray, " pair"]) -> dict[str, float]:
    """The mean over pairs with its interval, in three columns."""
    names = (name, f"{name}_low", f"{name}_high")
    return dict(zip(names, map(float, bootstrap_mean(values)), strict=True))


def _side_by_side(table: pd.DataFrame) -> pd.DataFrame:
    """One row per group: the model beside its controls."""
    wide = table[table["model"] == "trained"].set_index("group")
    wide = wide[["pairs", "exact", "low", "high", "alone", "forced", "running"]]
    for name in dict.fromkeys(table["model"][table["model"] != "trained"]):
        control = table[table["model"] == name].set_index("group")
        wide = wide.join(control["running"].rename(f"running, {name}"))
    by = str(table["by"].iloc[0])
    return wide.reset_index().rename(columns={"group": "source" if by == "length" else by})


def _claims(table: pd.DataFrame) -> list[Claim]:
    """Whole targets in the training window and beyond it, or up to a place that half of the pairs
    reach; and what is lost in the last group by going on from the model's own tokens."""
    rows = table.rename(columns={"exact": "share", "pairs": "count"})
    trained = rows[rows["model"] == "trained"]
    inside, kind = rows["in_window"] >= 0.5, "source length"
    parts = {"in the training window": inside, "beyond the training window": ~inside}
    reached = trained.loc[trained["count"] >= trained["count"].max() / 2, "group"].max()
    if table["by"].iloc[0] == "place":
        parts, kind = {f"up to place {reached}": rows["group"] == reached}, "place"
    tags = (rows["model"] == COMMONEST).any()
    what, beside = "targets", BESIDE
    if tags:
        what, beside = "rows of tags", BESIDE | {"each symbol's commonest tag": COMMONEST}
    claims = []
    for where, at in parts.items():
        if at.any():
            last = trained.loc[at[trained.index]].iloc[-1]
            finding = f"{{}} of the {what} are right {where}"
            claims.append(pooled(finding, rows[at], "different pairs", beside, kind))
    if tags:
        here = rows[rows["group"] == reached].set_index("model")
        tags_right = Claim(
            f"At {kind} {reached}, {{}} of the single tags are right",
            *measured(here.loc["trained"], "running", "running_low", "running_high", "count"),
            "pairs",
            "bootstrap over pairs",
            {says: here.at[name, "running"] for says, name in beside.items() if name in here.index},
            ".1%",
        )
        claims.append(tags_right)
    elif last["share"] < 1:
        lost = Claim(
            f"At {kind} {last['group']}, going on from its own tokens instead of the true ones "
            "costs {} of the tokens",
            *measured(last, "lost", "lost_low", "lost_high", "count"),
            "pairs",
            "bootstrap over pairs",
            COUNTS,
            ".1%",
        )
        claims.append(lost)
    return claims


def _chart(table: pd.DataFrame) -> ChartType:
    """Three panels by length or place: whole targets, tokens after true ones, after own ones."""
    by = table["by"].iloc[0]
    names = {
        "exact": "whole target right" if by == "length" else "all right up to here",
        "forced": "tokens right after the true ones",
        "running": "tokens right after its own",
    }
    title = "symbols of the source" if by == "length" else "place in the target"
    x = alt.X("group:Q", title=title).axis(tickMinStep=1, format="d")
    models = list(dict.fromkeys(table["model"]))
    if COMMONEST in models:
        names = {"exact": names["exact"], "running": "tags right"}
    color = colours("model", models, [TRAINED, UNTRAINED, *SEVERAL[1:]][: len(models)])
    drawn = {}
    for name, shown in names.items():
        ends = INTERVALS.get(name)
        tips = ["model", "group", "pairs", *figures(name, *(ends or ()))]
        picture = curve(table, x, share(alt.Y, name), tips, color, ends)
        drawn[shown] = picture.properties(width=230, height=200)
    return panels(drawn, columns=3)


def _headline(table: pd.DataFrame) -> pd.DataFrame:
    """Numbers that are compared over seeds: whole targets, and tokens after the model's own."""
    rows = []
    for row in table.itertuples():
        at = f"{row.by} {row.group}"
        rows.append((f"whole targets, {at}", str(row.model), row.exact))
        rows.append((f"tokens after its own, {at}", str(row.model), row.running))
    return numbers(rows)


QUESTION = of_table(
    "targets",
    Options,
    _targets,
    _claims,
    _headline,
    _chart,
    _side_by_side,
    needs=NEEDS,
    of_inside=False,
    planned=tuple(Planned("trained", name) for name in CONTROLS),
)
