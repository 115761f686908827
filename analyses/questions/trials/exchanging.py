"""Interchange: has a prefix another one's value of a variable, when a subspace is exchanged?

The trials themselves are ``interp.causal.alignment``.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial

import numpy as np
import pandas as pd

from analyses.questions.trials.cases import Change, Meaning, arbitrary, drawn_cases
from analyses.questions.trials.prefixes import Prefixes
from interp.causal.alignment import Cases, exchanged
from interp.model import sites_of
from models.base import LanguageModel
from models.runs.run import Run

ARBITRARY = "DAS, arbitrary targets"
CHOOSE, SCORE = 64, 128  # cases that choose site and rank, and that score the choice
MEASURES: Mapping[Change, str] = {
    "here": "next symbols",
    "read again": "course, read again",
    "carried": "course, carried",
    "carried in proportion": "course, carried in proportion",
    "prefix": "course, prefix exchanged",
    "state": "course, state exchanged",
}


def _changes_of(run: Run, prefixes: Prefixes) -> list[tuple[Change, ...]]:
    """The changes that mean something in this run. Those that stand together share a subspace,
    which is trained with the first of them."""
    here: list[tuple[Change, ...]] = [("here",)]
    if run.config.model.sees_ahead or not prefixes.futures:
        return here
    if run.config.model.family.recurrent:
        return [("state",)]
    if run.language.variables[prefixes.variables[0]] == "category":
        return [*here, ("prefix",)]
    return [("read again", "here"), ("carried",), ("carried in proportion",)]


def interchange(
    run: Run,
    models: Mapping[str, LanguageModel],
    prefixes: Prefixes,
    pairs: int,
    rank: int,
    seed: int,
    progress: Callable[[str], None] = lambda site: None,
) -> pd.DataFrame:
    """The rows of the experiment "interchange" in ``analyses.questions.inside.interventions``.

    Args:
        models: the models by name; the one called "trained" has the controls.
        pairs: cases on which a subspace is trained.
        rank: the most dimensions that are tried for each variable.
        progress: is called before each site of each model and method.

    Returns:
        No row where no prefix can be exchanged for another.
    """
    tables = []
    for changes, name, method in planned(run, prefixes, models):
        model = models[name]
        meaning = arbitrary(prefixes, seed) if method == ARBITRARY else None
        cases = _split_cases(run, model, prefixes, changes, pairs, seed, meaning)
        labels = {hook: site for site, hook in exchange_sites(model, changes).items()}
        about = f"{name} model, {method}: {MEASURES[changes[0]]}"
        if cases is None:
            for site in labels.values():
                progress(f"{site}, {about}")
            continue
        table = exchanged(
            model,
            list(labels),
            *cases,
            _ranks_of(rank, model, prefixes, changes),
            controls=name == "trained" and method == "DAS",
            seed=seed,
            report=partial(_told, progress, labels, about),
        )
        table["method"] = table["method"].replace("DAS", method)
        tables.append(table.assign(model=name, site=table.pop("hook").map(labels)))
    if not tables:
        return pd.DataFrame()
    table = _named(pd.concat(tables, ignore_index=True), prefixes)
    there = table.loc[table["method"] == "DAS", "measure"]
    table = table[table["measure"].isin(there)]  # no control without what it controls
    longer = _longer(run, models["trained"], prefixes, table, pairs, seed)
    return pd.concat([table, longer], ignore_index=True)


def _told(
    progress: Callable[[str], None], labels: Mapping[str, str], about: str, hook: str
) -> None:
    progress(f"{labels[hook]}, {about}")


def planned(
    run: Run, prefixes: Prefixes, models: Mapping[str, LanguageModel]
) -> list[tuple[tuple[Change, ...], str, str]]:
    """The changes, the name of the model, and the method of every training."""
    return [
        (changes, name, method)
        for changes in _changes_of(run, prefixes)
        for name in models
        for method in ("DAS", ARBITRARY)
        if name == "trained" or method == "DAS"
    ]


def exchange_sites(model: LanguageModel, changes: tuple[Change, ...] = ()) -> dict[str, str]:
    """Where to exchange: the stream without the last site, from which the logits are read off. Of a
    recurrent network all states: the next position goes on from each of them. At the embedding an
    exchanged prefix would only be the other prefix."""
    recurrent = model.config.family.recurrent
    out = "embed" if recurrent else f"L{model.cfg.n_layers - 1} resid_post"
    hooks = {site: hook for site, hook in sites_of(model).items() if site != out}
    return {k: v for k, v in hooks.items() if changes != ("prefix",) or k != "embed"}


def _ranks_of(
    rank: int, model: LanguageModel, prefixes: Prefixes, changes: tuple[Change, ...]
) -> list[int]:
    """One dimension, and the most that are wished for and that the activation has. What is carried
    is a quantity: it has one dimension."""
    most = min(rank, model.cfg.d_model // len(prefixes.variables))
    return [1] if changes[0].startswith("carried") else sorted({1, most})


def chosen(rows: pd.DataFrame) -> tuple[str, int]:
    """The site and the rank that are best in the rows of the split "choose", the smallest rank
    first; several variables count as their mean."""
    rows = rows[rows["split"] == "choose"]
    values = rows.groupby(["amount", "site"], sort=False)["value"].mean()
    amount, site = values.sort_index(level="amount", sort_remaining=False, kind="stable").idxmax()
    return site, int(amount)


def _split_cases(
    run: Run,
    model: LanguageModel,
    prefixes: Prefixes,
    changes: tuple[Change, ...],
    pairs: int,
    seed: int,
    meaning: Meaning | None = None,
) -> tuple[Cases, dict[str, Cases]] | None:
    """Cases to fit, and those that test; None if there are none."""
    drawn = {
        f"{split}: {change}": drawn_cases(run, model, prefixes, among, change, count, seed, meaning)
        for split, among, count in zip(
            ("fit", "choose", "score"), prefixes.parts(seed), (pairs, CHOOSE, SCORE), strict=True
        )
        for change in (changes[:1] if split == "fit" else changes)
    }
    there = {name: cases for name, cases in drawn.items() if cases is not None}
    fit = there.pop(f"fit: {changes[0]}", None)
    return (fit, there) if fit is not None and len(there) == len(drawn) - 1 else None


def _longer(
    run: Run, model: LanguageModel, prefixes: Prefixes, table: pd.DataFrame, pairs: int, seed: int
) -> pd.DataFrame:
    """Subspaces trained anew at the chosen site on the shorter half of the prefixes that fit, and
    scored on the longer half of those that score."""
    fit, _, score = prefixes.parts(seed)
    middle = np.median(prefixes.lengths)
    short, long = fit[prefixes.lengths[fit] <= middle], score[prefixes.lengths[score] > middle]
    tables = []
    for changes in _changes_of(run, prefixes):
        rows = table[(table["measure"] == MEASURES[changes[0]]) & (table["method"] == "DAS")]
        rows = rows[rows["model"] == "trained"]
        if rows.empty or not len(short) or not len(long):
            continue
        site, rank = chosen(rows)
        seen = drawn_cases(run, model, prefixes, short, changes[0], pairs, seed)
        test = drawn_cases(run, model, prefixes, long, changes[0], SCORE, seed)
        if seen is not None and test is not None:
            hook = exchange_sites(model, changes)[site]
            tests = {f"longer: {changes[0]}": test}
            rows = exchanged(model, [hook], seen, tests, [rank], controls=False, seed=seed)
            tables.append(rows.drop(columns="hook").assign(model="trained", site=site))
    return _named(pd.concat(tables, ignore_index=True), prefixes) if tables else pd.DataFrame()


def _named(table: pd.DataFrame, prefixes: Prefixes) -> pd.DataFrame:
    """The columns of the question, from those of the lens."""
    test = table["test"].str.split(": ", expand=True)
    table = table.assign(
        split=test[0],
        measure=test[1].map(MEASURES),
        variable=[prefixes.variables[part] for part in table["part"]],
    )
    return table.rename(columns={"cases": "words"}).drop(columns=["test", "part"])
