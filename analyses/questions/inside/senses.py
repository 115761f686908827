"""One form, two senses: from which layer on can they be told apart?

Words such as "het" stand for several things in a grammar: an article in one place, a pronoun in
another. The embedding is the same for both. What a layer holds of it may not be.
"""

from __future__ import annotations

from collections import defaultdict

import altair as alt
import numpy as np
import pandas as pd
import torch
from altair.typing import ChartType
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import balanced_accuracy_score

from analyses.answers import Progress, of_table, quiet, row_numbers
from analyses.charts.marks import curve
from analyses.charts.theme import by_model, figures, named, share
from analyses.claims import Claim
from analyses.options.inside import Senses as Options
from analyses.words import ANALYSIS_SEED
from interp.model import activations, sites_of
from interp.statistics import bootstrap_mean, unless_agreed
from interp.vectors.analogies import unit
from models.errors import UserError
from models.languages import ContextFreeLanguage, Words
from models.languages.grammars.trees import Tree
from models.runs.run import Run

LEAST = 40
"""The fewest occurrences of each sense that are asked about."""
MOST_CLAIMS = 3


def _senses_of(tree: Tree) -> list[str]:
    """Each symbol's parent nonterminal, cut at its last underscore.

    So the two classes of a verb that agrees with two kinds of nouns are one sense.
    """
    labels: list[str] = []

    def walk(part: Tree) -> None:
        for child in part.children:
            if isinstance(child, Tree):
                walk(child)
            else:
                labels.append(str(part.label).rpartition("_")[0] or str(part.label))

    walk(tree)
    return labels


def _occurrences(
    run: Run, sentences: int, seed: int, progress: Progress = quiet
) -> tuple[Words, dict[str, dict[str, list[tuple[int, int]]]]]:
    """Sentences of the training window, and where each word with several senses stands in them.

    Returns:
        The sentences; and by word and sense the places: the number of the sentence, and the
        position, from 1. Senses that are too rare are left out.

    Raises:
        UserError: the language has no trees, or no word with two senses.
    """
    language = run.language
    assert isinstance(language, ContextFreeLanguage)
    rng = np.random.default_rng([ANALYSIS_SEED, seed])
    window = language.lengths(run.config.max_n)
    words = language.sample(rng, sentences, window, True, "test").words
    by_word: dict[str, dict[str, list[tuple[int, int]]]] = defaultdict(lambda: defaultdict(list))
    for row, word in enumerate(language.vocabulary.decoded(words)):
        if row % 100 == 0:
            progress(row, sentences, "sentences and their trees")
        for at, sense in enumerate(_senses_of(next(language.trees(word))), 1):
            by_word[word[at - 1]][sense].append((row, at))
    often = {
        symbol: {sense: places for sense, places in entry.items() if len(places) >= LEAST}
        for symbol, entry in by_word.items()
    }
    several = {symbol: entry for symbol, entry in often.items() if len(entry) > 1}
    if not several:
        raise UserError(
            f"no word of {language.name} stands {LEAST} times for each of two things in "
            f"{sentences} sentences: ask about more sentences, or another language"
        )
    return words, several


def _senses(run: Run, options: Options, progress: Progress = quiet) -> pd.DataFrame:
    """The accuracy with which the senses of a form can be told apart at each site.

    A logistic regression is fitted on every other occurrence and scored on the rest. Equal prefixes
    count once, since a causal model has one activation for them.

    Returns:
        One row per word, model and site: word, senses, model ("trained", "untrained"), site
        ("embed", "L0 resid_post", ...), value (balanced accuracy: 0.5 is chance for two senses),
        low, high (95% bootstrap over occurrences), within and between (mean cosine of two
        occurrences of one sense, and of two senses), occurrences (that are scored).

    Raises:
        UserError: see ``_occurrences``.
    """
    words, forms = _occurrences(run, options.sentences, options.seed, progress)
    sites = sites_of(run.model(), ("resid_post",), "hook_embed")
    tokens = torch.as_tensor(words.tokens)
    rows = list[dict[str, object]]()
    for name, model in (("trained", run.model()), ("untrained", run.untrained())):
        progress(options.sentences, options.sentences, name)
        read = activations(model, tokens, list(sites.values()))
        for word, entry in forms.items():
            places, labels = _different(words, entry)
            if min(np.unique(labels, return_counts=True)[1]) < 4 or len(set(labels)) < 2:
                continue
            for site, hook in sites.items():
                x = read[hook][places[:, 0], places[:, 1]].double().numpy()
                rows.append(
                    {"word": word, "senses": " ".join(sorted(entry)), "model": name, "site": site}
                    | _told_apart(x, labels)
                )
    if not rows:
        raise UserError("too few different beginnings of sentences: ask about more sentences")
    return pd.DataFrame(rows)


def _different(
    words: Words, entry: dict[str, list[tuple[int, int]]]
) -> tuple[np.ndarray, np.ndarray]:
    """The places of a word, each beginning of a sentence once, and their senses."""
    seen: dict[bytes, tuple[int, int, str]] = {}
    for sense, places in entry.items():
        for row, at in places:
            seen.setdefault(words.ids[row, :at].tobytes() + sense.encode(), (row, at, sense))
    kept = list(seen.values())
    positions = np.array([(row, at) for row, at, _ in kept])
    return positions, np.array([sense for _, _, sense in kept])


def _told_apart(x: np.ndarray, labels: np.ndarray) -> dict[str, object]:
    order = np.argsort(labels, kind="stable")  # every other one of each sense
    fit, score = order[::2], order[1::2]
    size = x[fit].std(axis=0)
    centred = (x - x[fit].mean(axis=0)) / np.where(size > 1e-9, size, 1.0)
    probe = LogisticRegression(max_iter=2000, class_weight="balanced").fit(
        centred[fit], labels[fit]
    )
    right = (probe.predict(centred[score]) == labels[score]).astype(float)
    kinds, number = np.unique(labels[score], return_inverse=True)
    share = np.bincount(number) / len(number)
    weighted = right / (share[number] * len(kinds))  # its mean is the balanced accuracy
    value, low, high = (float(bound) for bound in bootstrap_mean(weighted))
    assert abs(value - balanced_accuracy_score(labels[score], probe.predict(centred[score]))) < 1e-9
    units = unit(x)
    near, alike = units @ units.T, labels[:, None] == labels
    others = ~np.eye(len(labels), dtype=bool)
    return {
        "value": value,
        "low": max(0.0, low),
        "high": min(1.0, high),
        "within": float(near[alike & others].mean()),
        "between": float(near[~alike].mean()),
        "occurrences": len(score),
    }


def _claims(table: pd.DataFrame) -> list[Claim]:
    """The accuracy with which the last layer tells the senses of a word apart, for the words with
    most occurrences. The untrained network is taken at the site where it does best."""
    often = table.groupby("word", sort=False)["occurrences"].first().nlargest(MOST_CLAIMS)
    return [_claim(table[table["word"] == word]) for word in often.index]


def _claim(rows: pd.DataFrame) -> Claim:
    last, kinds = rows[rows["model"] == "trained"].iloc[-1], rows["senses"].iloc[0].split()
    return Claim(
        f"A linear probe at {last['site']} tells the senses of {last['word']} apart "
        f"({' or '.join(kinds)}), balanced accuracy {{}}",
        last["value"],
        *unless_agreed(last["value"], last["low"], last["high"], int(last["occurrences"])),
        last["occurrences"],
        "occurrences that did not fit the probe",
        "bootstrap over occurrences",
        {
            "the untrained network": rows.loc[rows["model"] == "untrained", "value"].max(),
            "chance": 1 / len(kinds),
        },
        ".0%",
    )


def _chart(table: pd.DataFrame) -> ChartType:
    """A panel per word: accuracy by site, of the trained and the untrained model."""
    panel = curve(
        table,
        named(alt.X, "site", table["site"].unique().tolist(), labelAngle=-30),
        share(alt.Y, "value", "balanced accuracy"),
        ["word", "senses", "model", "site", *figures("value", "low", "high", "within")],
        by_model(),
    ).properties(width=180, height=180)
    return panel.facet(column=alt.Column("word:N", title=None))


QUESTION = of_table(
    "senses",
    Options,
    _senses,
    _claims,
    lambda table: row_numbers(table, "{word}, {site}"),
    _chart,
    needs=("trees", "stream"),
)
