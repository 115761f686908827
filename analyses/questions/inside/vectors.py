"""Do vectors of words know their classes? Analogies with known answers, and words by layer.

A grammar says which words may stand in the same places. So "loopt is to lopen as ziet is to ...?"
has a right answer: any word of the class of "zien".
"""

from __future__ import annotations

from collections import defaultdict
from dataclasses import replace
from itertools import permutations

import altair as alt
import numpy as np
import pandas as pd
import torch
from altair.typing import ChartType
from jaxtyping import Float

from analyses.answers import Planned, Progress, of_table, quiet, row_numbers
from analyses.charts.marks import dots, points
from analyses.charts.theme import colours, figures, named, share
from analyses.claims import Claim, measured
from analyses.options.inside import Vectors as Options
from analyses.words import ANALYSIS_SEED
from interp.model import activations
from interp.statistics import crossed_bootstrap, seeds_interval
from interp.vectors.analogies import Analogy, answer, ranked, right, unit
from interp.vectors.counts import cooccurrences, ppmi_vectors
from interp.vectors.word2vec import word2vec
from models.base import EmbeddingModel, LanguageModel
from models.languages import FIRST_SYMBOL_ID, ContextFreeLanguage, Words
from models.runs.run import Run

Vectors = Float[np.ndarray, "word dim"]
TRAINED_ON_TEXT = ("skip-gram", "cbow", "PPMI + SVD")
RANDOM = "random vectors"
ALONE = "no class"
READ = 400
"""Sentences in which a model's activations are averaged."""
KINDS = {
    "c + b - a": "the word nearest to c + b - a has the right class",
    "shuffled": "the same with the b of another analogy",
    "c alone": "the word nearest to c has it",
    "b alone": "the word nearest to b has it",
    "chance": "a word drawn at random has it",
    "neighbours": "the nearest word has the same class",
}
NO_WAY = {
    "shuffled": "the b of another analogy",
    "c alone": "c alone",
    "b alone": "b alone",
    "chance": "a random word",
}
"""Kinds of answers that need no way from a to b, and what they go by."""


def classes_of(language: ContextFreeLanguage) -> dict[str, frozenset[str]]:
    """The words that have a class, with the nonterminals that become them."""
    return language.grammar.word_classes


def _twins_of(language: ContextFreeLanguage) -> dict[int, set[int]]:
    """The words of the same class as each word, itself among them, by number."""
    numbers, classes = _numbers_of(language), classes_of(language)
    return {
        numbers[word]: {numbers[other] for other, names in classes.items() if names == group}
        for word, group in classes.items()
    }


def _unused(language: ContextFreeLanguage) -> set[int]:
    """The symbols that no word has, by number: their vectors mean nothing, and are left out."""
    numbers = _numbers_of(language)
    used = {part for rule in language.grammar.productions for part in rule.right}
    return {number for word, number in numbers.items() if word not in used}


def _left_out(language: ContextFreeLanguage) -> dict[str, dict[int, set[int]]]:
    """Answers left out where a word was given: itself ("inputs"), or its twins ("classes")."""
    never = _unused(language)
    return {
        "inputs": {word: {word} | never for word in _twins_of(language)},
        "classes": {word: twins | never for word, twins in _twins_of(language).items()},
    }


def _numbers_of(language: ContextFreeLanguage) -> dict[str, int]:
    """The symbols by number, from 0."""
    return {word: i for i, word in enumerate(language.vocabulary.symbols)}


def analogies_of(language: ContextFreeLanguage) -> list[Analogy]:
    """All analogies that the names of the grammar's nonterminals make.

    A name is a kind and a feature, such as VI_p: an intransitive verb in the plural. Two kinds and
    two features make an analogy: VI_c is to VI_p as VT_c is to VT_p. A word has the features of all
    its nonterminals; the one of a must not be one of b, and so for c and d.
    """
    numbers = _numbers_of(language)
    groups: dict[frozenset[str], list[int]] = defaultdict(list)
    for word, names in classes_of(language).items():
        groups[names].append(numbers[word])
    kinds: dict[str, dict[frozenset[str], list[int]]] = defaultdict(dict)
    for names, words in groups.items():
        parts = [name.rpartition("_") for name in names]
        if len({kind for kind, _, _ in parts}) == 1 and parts[0][0]:
            kinds[parts[0][0]][frozenset(feature for _, _, feature in parts)] = words
    analogies = []
    for (_, first), (_, second) in permutations(sorted(kinds.items()), 2):
        for (of_a, words_a), (of_b, words_b) in permutations(first.items(), 2):
            for (of_c, words_c), (of_d, words_d) in permutations(second.items(), 2):
                alike = of_a & of_c and of_b & of_d
                if alike and not (of_a & of_b or of_c & of_d or of_a & of_d or of_b & of_c):
                    goal = frozenset(words_d)
                    analogies += [
                        Analogy(a, b, c, goal) for a in words_a for b in words_b for c in words_c
                    ]
    return analogies


def text_of(run: Run, count: int, seed: int) -> Words:
    """Sentences as the training draws them."""
    rng = np.random.default_rng([ANALYSIS_SEED, seed])
    window = run.language.lengths(run.config.max_n)
    return run.language.sample(rng, count, window, True, spread=run.config.spread).words


def vectors_of(
    run: Run, text: Words, dim: int, window: int, seed: int, progress: Progress = quiet
) -> dict[str, Vectors]:
    """Vectors of all symbols, by their name: from a text, and from the run's model."""
    words = len(run.language.vocabulary.symbols)
    sentences = [
        ids[:length] - FIRST_SYMBOL_ID
        for ids, length in zip(text.ids, text.lengths.tolist(), strict=True)
    ]
    progress(0, 4, "skip-gram")
    by_name = {"skip-gram": word2vec(sentences, words, "skip-gram", dim, window, seed=seed)[0]}
    progress(1, 4, "CBOW")
    by_name["cbow"] = word2vec(sentences, words, "cbow", dim, window, seed=seed)[0]
    progress(2, 4, "PPMI and SVD")
    by_name["PPMI + SVD"] = ppmi_vectors(cooccurrences(sentences, words, window), dim)
    progress(3, 4, "the model's own")
    for name, model in (("", run.model()), (", untrained", run.untrained())):
        by_name |= {place + name: x for place, x in _of_model(model, text[:READ]).items()}
    rng = np.random.default_rng([ANALYSIS_SEED, seed])
    by_name[RANDOM] = rng.normal(size=(words, dim))
    progress(4, 4, "vectors")
    return by_name


def _of_model(model: LanguageModel, text: Words) -> dict[str, Vectors]:
    """The embedding, the unembedding, and the mean activation of each word after each layer."""
    by_name: dict[str, Vectors] = {}
    if isinstance(model, EmbeddingModel):
        by_name["W_E"] = model.W_E.detach().cpu().double().numpy()[FIRST_SYMBOL_ID:]
        by_name["W_U"] = model.W_U.T.detach().cpu().double().numpy()[FIRST_SYMBOL_ID:]
    hooks = [f"blocks.{layer}.hook_resid_post" for layer in range(model.config.n_layers)]
    hooks = [hook for hook in hooks if hook in model.hook_dict]
    if not isinstance(model, EmbeddingModel) or not hooks:
        return by_name
    read = activations(model, torch.as_tensor(text.tokens), hooks)
    ids = np.where(text.mask, text.ids, 0)
    for layer, hook in enumerate(hooks):
        x = read[hook][:, 1:].double().numpy()
        means = np.zeros((len(model.vocabulary), x.shape[2]))
        np.add.at(means, ids.ravel(), x.reshape(-1, x.shape[2]))
        count = np.bincount(ids.ravel(), minlength=len(means))[:, None]
        by_name[f"after layer {layer}"] = (means / np.maximum(count, 1))[FIRST_SYMBOL_ID:]
    return by_name


def _vectors(run: Run, options: Options, progress: Progress = quiet) -> pd.DataFrame:
    """The knowledge that each kind of vectors has of the classes of words.

    Returns:
        One row per vectors and kind: vectors ("skip-gram", "cbow", "PPMI + SVD", "W_E", "W_U",
        "after layer 0", ..., and the last ones of the untrained model; "random vectors"), kind (of
        ``KINDS``), without (what no answer may be: the "inputs", as usual, or all words of their
        "classes"), value (a share, mean over seeds), low, high (Student's 95% over seeds of the
        text; the model is one), cases (analogies; for "neighbours" words), seeds, least, most (95%
        over words, see ``interp.statistics.crossed_bootstrap``) and words (that are given).

    Raises:
        UserError: the classes of words make no analogies.
    """
    language, seed, seeds = run.language, options.seed, options.seeds
    assert isinstance(language, ContextFreeLanguage)
    analogies = analogies_of(language)
    every: dict[tuple[str, str, str], list[np.ndarray]] = defaultdict(list)
    for turn in range(seeds):
        text = text_of(run, options.sentences, seed + turn)

        def report(done: int, all_of_it: int, what: str, turn: int = turn) -> None:
            progress(turn * all_of_it + done, seeds * all_of_it, what)

        drawn = vectors_of(run, text, options.dim, options.window, seed + turn, report)
        for name, matrix in drawn.items():
            every[name, "neighbours", "inputs"].append(_neighbours(language, matrix))
            for without, twins in _left_out(language).items():
                for kind, values in (
                    right(matrix, analogies, twins, seed + turn) if analogies else {}
                ).items():
                    every[name, kind, without].append(values)
    given = [(analogy.a, analogy.b, analogy.c) for analogy in analogies]
    words = [(word,) for word, twins in _twins_of(language).items() if len(twins) > 1]
    rows = []
    for (name, kind, without), cases in every.items():
        value, low, high = seeds_interval(np.array([values.mean() for values in cases]))
        units = np.array(words if kind == "neighbours" else given)
        _, least, most = crossed_bootstrap(np.mean(cases, axis=0)[:, None], units)
        rows.append(
            {"vectors": name, "kind": kind, "without": without}
            | {"value": value, "low": low, "high": high, "cases": len(units), "seeds": len(cases)}
            | {"least": least[0], "most": most[0], "words": len(np.unique(units))}
        )
    return pd.DataFrame(rows)


def _neighbours(language: ContextFreeLanguage, embeddings: Vectors) -> Float[np.ndarray, " words"]:
    """Whether the nearest word has the same class, for each word that is not alone in its own."""
    return np.array(
        [
            float(int(ranked(embeddings, embeddings[word], [word, *_unused(language)])[0]) in twins)
            for word, twins in _twins_of(language).items()
            if len(twins) > 1
        ]
    )


def _side_by_side(table: pd.DataFrame) -> pd.DataFrame:
    """One row for each kind of vectors and each way to leave words out."""
    keys = ["vectors", "without"]
    wide = table.pivot_table(index=keys, columns="kind", values="value", sort=False)
    return wide[[kind for kind in KINDS if kind in wide]].reset_index()


def _claims(table: pd.DataFrame) -> list[Claim]:
    """Whether the network's embedding knows the classes of words, and the way from one to another;
    without an embedding, whether skip-gram does. No word of the classes that were given may be the
    answer to an analogy: a twin of c would be right without any way."""
    rows = table.set_index(["vectors", "kind", "without"])
    name = "W_E" if "W_E" in rows.index else TRAINED_ON_TEXT[0]
    near = name, "neighbours", "inputs"
    made = [_claim(rows, near, f"The nearest word by {name} has the same class for {{}} of words")]
    way = name, "c + b - a", "classes"
    if way in rows.index:
        claim = _claim(rows, way, f"c + b - a by {name} answers {{}} of the analogies")
        no_way = {text: rows.loc[(name, kind, "classes"), "value"] for kind, text in NO_WAY.items()}
        made.append(replace(claim, controls={**claim.controls, **no_way}))
    return made


def _claim(rows: pd.DataFrame, at: tuple[str, str, str], finding: str) -> Claim:
    row, others = rows.loc[at], rows["value"].xs(at[1:], level=("kind", "without"))
    return Claim(
        finding,
        *measured(row, "value", "least", "most", "words"),
        "words",
        f"bootstrap over the words of {row['cases']:.0f} cases",
        {name: others[name] for name in (f"{at[0]}, untrained", RANDOM) if name in others},
        ".0%",
        notes=[
            "Vectors of text alone: "
            f"{', '.join(f'{name} {others[name]:.0%}' for name in TRAINED_ON_TEXT)}."
        ],
    )


def _chart(table: pd.DataFrame) -> ChartType:
    """Shares of right answers by kind of vectors, in a panel for each way to leave words out."""
    rows, ways = table[table["without"].isin(["inputs", "classes"])], ["inputs", "classes"]
    panel = points(
        rows,
        share(alt.X, "value", "right"),
        named(alt.Y, "vectors", table["vectors"].unique().tolist(), labelLimit=200),
        ["vectors", "kind", *figures("value", "low", "high"), "cases", "seeds"],
        colours("kind", [kind for kind in KINDS if kind in set(rows["kind"])]),
        step=20,
    ).properties(width=260)
    return panel.facet(column=alt.Column("without:N", sort=ways, title="left out"))


def map_of(language: ContextFreeLanguage, embeddings: Vectors) -> pd.DataFrame:
    """The two directions in which vectors of length 1 differ most (PCA).

    Returns:
        One row per word: word, classes, x, y.
    """
    units = unit(embeddings)
    used = [i for i in range(len(units)) if i not in _unused(language)]
    centred = units - units[used].mean(axis=0)
    _, _, directions = np.linalg.svd(centred[used], full_matrices=False)
    x, y = (centred @ directions[:2].T).T
    classes, never = classes_of(language), _unused(language)
    names = [" ".join(sorted(classes.get(w, ()))) or ALONE for w in language.vocabulary.symbols]
    table = pd.DataFrame({"word": language.vocabulary.symbols, "classes": names, "x": x, "y": y})
    return table.drop(index=list(never)).reset_index(drop=True)


def map_chart(table: pd.DataFrame) -> ChartType:
    """The map: each word at its place, coloured by its classes."""
    bare = alt.Axis(labels=False, ticks=False)
    x, y = alt.X("x:Q", title=None, axis=bare), alt.Y("y:Q", title=None, axis=bare)
    color = colours("classes", sorted(set(table["classes"])), orient="right")
    names = alt.Chart(table).mark_text(align="left", dx=7, fontSize=12)
    names = names.encode(x=x, y=y, text="word:N", color=color)
    points = dots(table, x, y, ["word", "classes"], color, ends=None, opacity=1)
    return (points + names).properties(width=520, height=380)


def nearest(
    language: ContextFreeLanguage, embeddings: Vectors, a: str, b: str, c: str, count: int = 6
) -> pd.DataFrame:
    """The words nearest to c + b - a, without the three: word, classes, cosine."""
    numbers, classes = _numbers_of(language), classes_of(language)
    units = unit(embeddings)
    goal = unit(units[numbers[c]] + units[numbers[b]] - units[numbers[a]])
    order = answer(embeddings, numbers[a], numbers[b], numbers[c])
    order = order[~np.isin(order, list(_unused(language)))][:count]
    words = [language.vocabulary.symbols[i] for i in order]
    return pd.DataFrame(
        {
            "word": words,
            "classes": [" ".join(sorted(classes.get(word, ()))) or ALONE for word in words],
            "cosine": units[order] @ goal,
        }
    )


QUESTION = of_table(
    "vectors",
    Options,
    _vectors,
    _claims,
    lambda table: row_numbers(table, "{kind}, without {without}", "{vectors}"),
    _chart,
    _side_by_side,
    needs=("classes",),
    planned=(Planned("W_E", RANDOM),),
)
