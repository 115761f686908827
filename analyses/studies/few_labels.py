"""The labels that a network needs if it has read unlabelled words before.

A parent reads words of a language, without labels: it is a language model. Then it is fine-tuned
to say whether a word is in the language, on few labelled lines, in several ways. Beside each way
stands the same way from the parent's weights before its first step: its control. "all" from such
weights is training from scratch.

    OUT/TARGET-s0/                 the parents: normal runs
    OUT/cells/TARGET-s0-100/       the rows of one parent and number of lines
    OUT/results/few-labels-1/      a row per target, seed, parent, way and number of lines

The learning rate of each way is chosen for each target, parent and number of lines on one more
seed, which is in no figure.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import altair as alt
import numpy as np
import pandas as pd
import torch
from altair.typing import ChartType

from analyses.answers import Answer, Answers, Progress, plain, quiet, save
from analyses.charts.marks import curve, panels
from analyses.charts.theme import DASHES, colours, figures
from analyses.claims import interval_text
from analyses.jobs.trained import finish, trained
from analyses.jobs.workers import side_by_side
from analyses.options.studies import FewLabels
from analyses.words import WordTensors
from interp.model import activations
from interp.probing.linear import fit_linear, many_small_fits
from interp.statistics import brackets, seeds_interval, t_interval
from models.base import LanguageModel
from models.config import Device, TrainConfig
from models.languages import Language, Words
from models.objectives import objective
from models.runs.run import Run
from models.training.batches import some_words
from models.training.evaluation import right_words
from models.training.recipes import recipe

QUESTION = "How many labelled lines does a network need that has read unlabelled words before?"
NAME, KEPT = "few-labels", "few-labels-cell"
RATES = (1e-3, 3e-3, 1e-2)
"""The learning rates among which each way has its own choice."""
PARENTS = ("language model", "untrained")
SCRATCH = (PARENTS[1], "all")
PROBE = "probe"
WAYS: dict[str, dict[str, Any]] = {
    "head": {"tuned": "head"},
    "lora": {"tuned": "lora"},
    "lora, full rank": {"tuned": "lora", "adapted": "both"},  # the rank is the width
    "last": {"tuned": "last"},
    "all": {"tuned": "all"},
}
SYMBOLS = "abcdefgh"
_ANY, _NOT_F = f"({'|'.join(SYMBOLS)})*", f"({'|'.join(SYMBOLS.replace('f', ''))})*"
RULES = (
    f"{_ANY}a{_ANY}b{_ANY}a{_ANY}",  # a, b, a in this order, with gaps
    f"{_ANY}cd{_ANY}",  # c and d side by side
    f"a{_ANY}b",  # begins with a, ends with b
    f"{_ANY}e{_ANY}e{_ANY}e{_ANY}",  # e at least three times
    f"({_NOT_F}f{_NOT_F}f)*{_NOT_F}",  # f an even number of times
)
"""Planted rules over eight letters: each seed has the next one."""
TEST = 500
"""The number of test words: of the kind that labels were given for, and as many hard ones."""
CALLED = {
    "right": "right verdicts",
    "hard": "right verdicts, where all words outside the language are near misses",
    "forgotten": "forgotten of the unlabelled words, in nats a token",
}
LEGEND = (
    "Means over seeds [95% interval: Student's, within the range]. The way from untrained weights "
    'that changes all of them ("all") is training from scratch.'
)
BY = ["target", "parent", "way", "lines"]


@dataclass(frozen=True)
class _Cell:
    """The task of one job: one parent, one number of lines, all ways.

    Attributes:
        target: "dieren-gaps", "planted" or "nested" (whose near misses break agreement).
        seed: seed of the parent, of the lines, and of all else.
        lines: the number of labelled lines.
        steps: the steps of each fine-tuning.
        parent_steps: the steps of the parent.
        dimensions: the dimensions of random subspaces, each a way of its own.
        rates: parent, way and learning rate; all of ``RATES`` are tried where it is to be chosen.
    """

    target: str
    seed: int
    lines: int
    steps: int
    parent_steps: int
    dimensions: tuple[int, ...] = ()
    rates: tuple[tuple[str, str, float], ...] = ()

    @property
    def name(self) -> str:
        return f"{self.target}-s{self.seed}-{self.lines}"

    def parent(self) -> TrainConfig:
        """The training configuration of the parent."""
        regex = RULES[self.seed % len(RULES)] if self.target == "planted" else ""
        symbols = SYMBOLS if regex else ""
        start = recipe(self.target, regex=regex, symbols=symbols)
        start = replace(start, objective="language-model", max_n=20, batch_size=64)
        return replace(start, steps=self.parent_steps, seed=self.seed)

    @property
    def ways(self) -> dict[str, dict[str, Any]]:
        """The ways by name: changes of a configuration, which say what learns."""
        return WAYS | {_subspace(d): {"tuned": "subspace", "rank": d} for d in self.dimensions}

    def tried(self, parent: str, way: str) -> Sequence[float]:
        """The learning rates of one way."""
        return [rate for *key, rate in self.rates if key == [parent, way]] or RATES


def few_labels(options: FewLabels, progress: Progress = quiet) -> Answer:
    """One row per target, seed, parent, way and number of lines.

    Columns: target, seed, parent ("language model", or "untrained": the same weights before their
    first step), way (what learns: a logistic "probe" on the last block's output at the last symbol;
    the "head"; "lora" of rank 4 on the maps of attention, and the head; "lora, full rank" on all
    maps of the blocks, and the head; the "last" block and the head; "all"; all along some random
    directions, a "subspace of d"), lines, rate (the
    learning rate; NaN for the probe), right (the share of words judged rightly that are drawn as
    the labelled ones), hard (the same, where all words outside the language are near misses),
    forgotten (the loss on words of the language, read as a language model's, less the parent's; in
    nats a token; NaN where there is no model after it, or none before).
    """
    chosen = [
        _Cell(target, options.seeds, lines, options.steps, options.parent_steps, options.dimensions)
        for target in options.targets
        for lines in options.lines
    ]
    total = len(chosen) * (options.seeds + 1)
    progress(0, total, "choosing learning rates")
    tried = list[pd.DataFrame]()
    for done, (cell, rows) in enumerate(_each(chosen, options)):
        tried.append(rows)
        progress(done + 1, total, cell.name)
    best = _best_rates(pd.concat(tried))
    cells = [
        replace(cell, seed=seed, rates=best[cell.target, cell.lines])
        for cell in chosen
        for seed in range(options.seeds)
    ]
    tables: dict[_Cell, pd.DataFrame] = {}
    for cell, rows in _each(cells, options):
        tables[cell] = rows
        progress(len(chosen) + len(tables), total, cell.name)
    table = pd.concat([tables[cell] for cell in cells], ignore_index=True)
    names = ("targets", "lines", "seeds", "dimensions", "steps", "parent_steps")
    arguments = plain({name: getattr(options, name) for name in names})
    sentences = _said(table)
    result = Answer(table, " ".join(sentences), plain({"sentences": sentences}), arguments)
    return save(options.out, NAME, QUESTION, result, chart(over_seeds(table)))


def _each(cells: Sequence[_Cell], options: FewLabels) -> Any:
    jobs = {cell: (cell, options.out, options.device) for cell in cells}
    return side_by_side(_complete, jobs, options.workers, options.scheduler)


def _subspace(dimensions: int) -> str:
    """The name of the way that moves all weights along so many random directions."""
    return f"subspace of {dimensions}"


def _best_rates(tried: pd.DataFrame) -> dict[tuple[str, int], tuple[tuple[str, str, float], ...]]:
    """The best learning rate of each parent and way, by target and number of lines: it is right on
    the most words; of equal ones the smallest."""
    ranked = tried.dropna(subset=["rate"]).sort_values(["right", "rate"], ascending=[False, True])
    first = ranked.drop_duplicates(BY)
    return {
        key: tuple(rows[["parent", "way", "rate"]].itertuples(index=False, name=None))
        for key, rows in first.groupby(["target", "lines"], sort=False)
    }


def _complete(cell: _Cell, out: Path, device: Device) -> pd.DataFrame:
    """The rows of one cell: a worker's job; kept in a folder of their own."""
    folder, arguments = out / "cells" / cell.name, plain(asdict(cell))
    if (kept := Answers(folder, KEPT).asked(arguments)) is not None:
        return kept.table
    config = cell.parent()
    path = trained(out / f"{cell.target}-s{cell.seed}", config, device=device).path
    trial = _Trial(cell, Run(path), device)
    rows = [row for parent in PARENTS for row in trial.rows(parent)]
    table = pd.DataFrame(rows).assign(target=cell.target, seed=cell.seed, lines=cell.lines)
    table = table[[*BY[:1], "seed", *BY[1:], "rate", "right", "hard", "forgotten"]]
    save(folder, KEPT, QUESTION, Answer(table, f"{len(table)} trainings.", {}, arguments), None)
    return table


class _Trial:
    """All ways of one cell, on the same labelled lines and the same test words."""

    def __init__(self, cell: _Cell, parent: Run, device: Device) -> None:
        self.cell, self.parent, self.device = cell, parent, device
        self.language = parent.language
        lengths = self.language.lengths(parent.config.max_n)
        rng = np.random.default_rng([0xFE3, cell.seed])
        self.words = self.language.sample(rng, TEST, lengths, split="test")
        self.hard = self.language.sample(rng, TEST, lengths, split="test", hard=True)
        self.text = self.language.sample(rng, TEST, lengths, label=True, split="test").words

    def config(self, way: str, rate: float = RATES[0]) -> TrainConfig:
        """The training configuration of a fine-tuning, but for its parent."""
        start, steps = self.parent.config, self.cell.steps
        changes = {"parent": "-"} | self.cell.ways[way]
        if "adapted" in changes:
            changes["rank"] = start.model.d_model
        return replace(
            start,
            **changes,
            objective="verdict",
            model=replace(start.model, output="sigmoid"),
            lines=self.cell.lines,
            steps=steps,
            evaluate_every=steps,
            learning_rate=rate,
        )

    def rows(self, kind: str) -> list[dict[str, Any]]:
        """A row per way and learning rate, from one kind of parent."""
        parent = self.parent if kind == PARENTS[0] else Run(self.parent.path, 0)
        before = _lm_loss(parent.model(), self.language, self.text)
        rows = [
            {"parent": kind, "way": PROBE, "rate": np.nan, "forgotten": np.nan}
            | self._probe(parent)
        ]
        for way in self.cell.ways:
            for rate in self.cell.tried(kind, way):
                config = replace(self.config(way, rate), parent=parent.model_hash())
                with TemporaryDirectory() as room:
                    run = Run.create(Path(room) / "tuned", config, None, parent)
                    finish(run, self.device)
                    model = run.model()
                lost = _lm_loss(model, self.language, self.text) - before
                row = {"parent": kind, "way": way, "rate": rate} | self._judged(model)
                rows.append(row | {"forgotten": lost if kind == PARENTS[0] else np.nan})
        return rows

    def _judged(self, model: LanguageModel) -> dict[str, float]:
        taught = objective("verdict")
        return {
            name: float(right_words(model, self.language, sample, taught)[1].mean())
            for name, sample in {"right": self.words, "hard": self.hard}.items()
        }

    def _probe(self, parent: Run) -> dict[str, float]:
        """Logistic regression on the last block's output at the last symbol."""
        model = parent.model()
        taught = some_words(self.config("all"), self.language)
        labels = self.language.labels(taught)
        tests = {"right": self.words, "hard": self.hard}
        if labels.all() or not labels.any():
            return {name: float((s.labels == labels[0]).mean()) for name, s in tests.items()}
        z = _at_end(model, taught)
        mean, spread = z.mean(axis=0), z.std(axis=0) + 1e-6
        with many_small_fits():
            probe = fit_linear((z - mean) / spread, labels.astype(int), "category")
        return {
            name: float(
                (probe.predict((_at_end(model, s.words) - mean) / spread) == s.labels).mean()
            )
            for name, s in tests.items()
        }


@torch.no_grad()
def _at_end(model: LanguageModel, words: Words) -> np.ndarray:
    """The last block's output at each word's last symbol, [word, d_model]."""
    given = WordTensors.of(words)
    site = f"blocks.{model.config.n_layers - 1}.hook_resid_post"
    states = activations(model, given.tokens, [site])[site]
    return states[torch.arange(len(given.last)), given.last].numpy()


@torch.no_grad()
def _lm_loss(model: LanguageModel, language: Language, words: Words) -> float:
    """Nats a token on words of the language, by a softmax over all that a model says of tokens.

    A model that was fine-tuned to give verdicts does not make this softmax itself any more.
    """
    batch = objective("language-model").batch(language, words, model.config.readout)
    log_p = model(batch.tokens).log_softmax(dim=-1)
    return -float((log_p * batch.weight * batch.target).sum() / batch.weight.sum())


def over_seeds(table: pd.DataFrame) -> pd.DataFrame:
    """A row per target, parent, way and number of lines: mean, low and high (95%, over seeds) of
    right, hard and forgotten, as columns such as "hard low"; seeds."""
    rows = []
    for key, part in table.groupby(BY, sort=False):
        row: dict[str, Any] = dict(zip(BY, key, strict=True)) | {"seeds": len(part)}
        for measure in CALLED:
            values = part[measure].to_numpy()
            mean, low, high = (np.nan,) * 3 if np.isnan(values).any() else seeds_interval(values)
            row |= {measure: mean, f"{measure} low": low, f"{measure} high": high}
        rows.append(row)
    return pd.DataFrame(rows)


def _gains(table: pd.DataFrame) -> pd.DataFrame:
    """The gain of each way from the language model over training from scratch.

    Columns: target, way, lines, gain (of right; the mean over seeds of the difference within each
    seed), low, high (95%, Student's), seeds.
    """
    wide = table.pivot(index=["target", "lines", "seed"], columns=["parent", "way"], values="right")
    lm, scratch = wide[PARENTS[0]], wide[SCRATCH]
    rows = []
    for (target, lines), part in lm.sub(scratch, axis=0).groupby(["target", "lines"], sort=False):
        for way in wide[PARENTS[0]].columns:
            gain, low, high = t_interval(part[way].to_numpy())
            row = {"target": target, "way": way, "lines": lines, "gain": gain, "low": low}
            rows.append(row | {"high": high, "seeds": len(part)})
    return pd.DataFrame(rows)


def intrinsic(table: pd.DataFrame, dimensions: Sequence[int]) -> pd.DataFrame:
    """The intrinsic dimension of each fine-tuning: the smallest subspace that reaches 90% of what
    all weights reach beyond chance (Li et al. 2018).

    Columns: target, parent, lines, seed, dimension (infinite where none of them reaches it, or
    where all weights are no better than chance).
    """
    rows = []
    keys = ["target", "parent", "lines", "seed"]
    for key, part in table.groupby(keys, sort=False):
        right = part.set_index("way")["right"] - 0.5
        enough = [d for d in sorted(dimensions) if right[_subspace(d)] >= 0.9 * right["all"] > 0]
        rows.append((*key, float(enough[0]) if enough else np.inf))
    return pd.DataFrame(rows, columns=[*keys, "dimension"])


def _said(table: pd.DataFrame) -> list[str]:
    """A sentence per target: all weights from the language model, less from scratch."""
    gain_table = _gains(table)
    sentences = list[str]()
    for target, rows in gain_table[gain_table["way"] == "all"].groupby("target", sort=False):
        figures = rows[["gain", "low", "high", "lines"]].itertuples(index=False)
        text = ", ".join(
            f"{gain:+.1%}" + brackets(low, high, "+.1%") + f" on {lines:,} lines"
            for gain, low, high, lines in figures
        )
        sentences.append(
            f"{target}: right verdicts of a language model that is fine-tuned in all its weights, "
            f"less those of training from scratch: {text} (means of the differences within "
            f"{rows['seeds'].iloc[0]} seeds; 95%, Student's)."
        )
    return sentences


def wide(table: pd.DataFrame, measure: str) -> dict[str, pd.DataFrame]:
    """Tables for reading, by target: a row per parent and way, a column per number of lines."""
    means = table.dropna(subset=[measure])
    digits = 2 if measure == "forgotten" else 3
    texts = [
        interval_text(mean, low, high, f".{digits}f")
        for mean, low, high in means[[measure, f"{measure} low", f"{measure} high"]].to_numpy()
    ]
    cells = means.assign(said=texts, column=[f"{lines:,} lines" for lines in means["lines"]])
    grids = {}
    for target, rows in cells.groupby("target", sort=False):
        grid = rows.pivot(index=["parent", "way"], columns="column", values="said")
        order = rows[["parent", "way"]].drop_duplicates().apply(tuple, axis=1)
        grid = grid.loc[list(order), list(dict.fromkeys(rows["column"]))].reset_index()
        grid.columns.name = None
        grids[str(target)] = grid
    return grids


def chart(table: pd.DataFrame) -> ChartType:
    """Right verdicts, a line per way, dashed from an untrained parent; a panel per target.

    Args:
        table: the table of ``analyses.studies.few_labels.over_seeds``.
    """
    rows = table.dropna(subset=["right"])
    ways, parents = (list(dict.fromkeys(rows[name])) for name in ("way", "parent"))
    columns = {"right": "value", "right low": "low", "right high": "high"}
    rows = rows[["target", "parent", "way", "lines", *columns]].rename(columns=columns)
    x = alt.X("lines:Q", title="labelled lines").scale(type="log", nice=False)
    # A coin is right on half of the verdicts.
    y = alt.Y("value:Q", title="right verdicts").scale(domain=[0.4, 1], clamp=True)
    x, y = x.axis(values=sorted(set(rows["lines"]))), y.axis(format="%")
    tips = ["target", "parent", "way", "lines", *figures("value", "low", "high")]
    color = colours("way", ways, title="what learns", orient="right", symbolOpacity=1)
    dash = alt.StrokeDash("parent:N", title="parent", sort=parents, legend=DASHES)
    return panels(
        (
            str(target),
            curve(part, x, y, tips, color, strokeDash=dash).properties(width=300, height=280),
        )
        for target, part in rows.groupby("target", sort=False)
    )
