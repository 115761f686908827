"""Does the answer follow the examples of the prompt, as a Bayesian's would?

A Bayesian knows from which rules one was drawn, and nothing else. If these are all rules, it learns
the rule from the examples; if they are the trained ones alone, it answers as a network would that
knows them by heart. Both are exact: the rules are counted.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

import altair as alt
import numpy as np
import pandas as pd
import torch
from altair.typing import ChartType
from jaxtyping import Float

from analyses.answers import Planned, Progress, of_table, quiet, row_numbers
from analyses.charts.marks import bars, curve
from analyses.charts.theme import AGAINST, SEVERAL, TRAINED, UNTRAINED, colours, figures, share
from analyses.claims import Claim, measured
from analyses.needs import Need, require
from analyses.options.behaviour import InContext as Options
from analyses.words import ANALYSIS_SEED
from interp.statistics import bootstrap_mean, brackets
from models.base import LanguageModel
from models.errors import UserError
from models.languages import BORDER, Word, Words
from models.languages.pairs.in_context import InContext
from models.objectives.base import Objective
from models.runs.run import Run

BAYES, BY_HEART = "Bayes", "Bayes, trained rules"
COPYING, MAJORITY = "copying", "majority"
MODELS = ("trained", BAYES, BY_HEART, COPYING, MAJORITY, "untrained")
"""The network and what it is compared with: two Bayesians, one that copies the label of the query
where an example has it and guesses elsewhere, one that says the most frequent label of the prompt,
and the untrained network."""
BESIDE = {
    "the untrained network": "untrained",
    "who knows the trained rules alone": BY_HEART,
    "the prompt's commonest label": MAJORITY,
}
"""Controls of the network. The Bayesian of all rules is none: it knows the truth."""
RULES = ("trained", "held-out")
QUERIES = ("any", "shown", "new")
"""Whether an example has the letter of the query."""

NEEDS: tuple[Need, ...] = ("prompts", "next symbols", "causal")
Said = Float[np.ndarray, "prompt answer_plus_1"]
"""Probabilities of each answer; in the last column that of the likeliest other token."""


@torch.no_grad()
def _answers(
    model: LanguageModel, objective: Objective, language: InContext, words: Words
) -> Float[np.ndarray, "prompt d_vocab"]:
    """The probability of each token after the border."""
    tokens = torch.as_tensor(words.tokens, device=model.device)
    at = torch.as_tensor((words.ids == language.border).argmax(axis=1) + 1, device=model.device)
    logprobs = objective.log_probabilities(model(tokens), model.vocabulary)
    return logprobs[torch.arange(len(tokens)), at].exp().cpu().double().numpy()


def _in_context(run: Run, options: Options, progress: Progress = quiet) -> pd.DataFrame:
    """Shares of right answers, by the number of examples, beside Bayes and the controls.

    Returns:
        One row per model (``MODELS``), rules (those the prompts are drawn by), query
        (``QUERIES``) and number of examples: accuracy (share of right answers; of equally likely
        ones each counts in part), low, high (95% bootstrap over prompts), from_bayes and
        from_trained (mean Kullback-Leibler divergence in nats from the posterior over all rules,
        and over the trained ones, the latter over those prompts that a trained rule fits; missing
        for what is no network) and prompts.
    """
    language, most = run.language, run.config.max_n
    assert isinstance(language, InContext)
    rng = np.random.default_rng([ANALYSIS_SEED, options.seed])
    networks = {"trained": run.model(), "untrained": run.untrained()}
    rows: list[dict[str, object]] = []
    for at, rules in enumerate(RULES):
        drawn_by = language.trained if rules == "trained" else language.held_out
        for examples in range(1, most + 1):
            progress(at * most + examples - 1, len(RULES) * most, f"{rules} rules")
            lengths = np.full(options.count, language.length_of(examples))
            words = language.prompts(rng, lengths, drawn_by)
            about = {"rules": rules, "examples": examples}
            rows += [about | row for row in _rows(language, words, networks, run.objective)]
    progress(1, 1, "in-context")
    return pd.DataFrame(rows)


def _rows(
    language: InContext,
    words: Words,
    networks: dict[str, LanguageModel],
    objective: Objective,
) -> Iterator[dict[str, object]]:
    posterior = language.posterior(words, language.rules)
    by_heart = language.posterior(words, language.trained)
    ids = [language.vocabulary.ids[label] for label in language.answers]
    true = np.searchsorted(ids, words.ids[:, -1])
    shown = language.trace(words)["answer"][:, -1] > 0
    even = np.full_like(posterior, 1 / len(ids))
    counts = (words.ids[..., None] == np.array(ids))[:, :-1].sum(axis=1)
    predictions = {
        BAYES: posterior,
        BY_HEART: np.where(np.isnan(by_heart), even, by_heart),
        COPYING: np.where(shown[:, None], posterior, even),
        MAJORITY: counts / counts.sum(axis=1, keepdims=True),
    }
    predictions = {name: np.pad(p, ((0, 0), (0, 1))) for name, p in predictions.items()}
    unknown = dict.fromkeys(("from_bayes", "from_trained"), np.full(len(words), np.nan))
    divergence: dict[str, dict[str, np.ndarray]] = {}
    for name, model in networks.items():
        probs = _answers(model, objective, language, words)
        other = np.delete(probs, ids, axis=1).max(axis=1, keepdims=True)
        predictions[name] = np.concatenate([probs[:, ids], other], axis=1)
        truths = {"from_bayes": posterior, "from_trained": by_heart}
        divergence[name] = {of: _apart(truth, probs[:, ids]) for of, truth in truths.items()}
    for name in MODELS:
        right = _accuracy(predictions[name], true)
        for query, which in zip(QUERIES, (shown | True, shown, ~shown), strict=True):
            if not which.any():
                continue
            mean, low, high = map(float, bootstrap_mean(right[which]))
            row: dict[str, object] = {"model": name, "query": query, "accuracy": mean}
            row |= {"low": low, "high": high}
            for column, nats in divergence.get(name, unknown).items():
                values = nats[which & ~np.isnan(nats)]
                row[column] = float(values.mean()) if len(values) else np.nan
            yield row | {"prompts": int(which.sum())}


def _accuracy(probabilities: Said, true: np.ndarray) -> Float[np.ndarray, " prompt"]:
    """1 where the likeliest answer is the true one, a part of 1 where it is one of several."""
    likeliest = probabilities >= probabilities.max(axis=1, keepdims=True) * (1 - 1e-9)
    return likeliest[np.arange(len(probabilities)), true] / likeliest.sum(axis=1)


def _apart(
    truth: Float[np.ndarray, "prompt answer"], probs: Float[np.ndarray, "prompt answer"]
) -> Float[np.ndarray, " prompt"]:
    """The Kullback-Leibler divergence in nats; missing where there is no truth."""
    terms = truth * (np.log(np.where(truth > 0, truth, 1.0)) - np.log(np.maximum(probs, 1e-30)))
    return np.asarray(terms.sum(axis=1))


def _side_by_side(table: pd.DataFrame) -> pd.DataFrame:
    """One row per kind of rule and number of examples: the network beside the others."""
    keys = ["rules", "examples"]
    some = table[table["query"] == "any"]
    wide = some.pivot_table("accuracy", keys, "model", sort=False)[list(MODELS[1:])]
    trained = some[some["model"] == "trained"].set_index(keys)
    trained = trained[["prompts", "accuracy", "low", "high", "from_bayes", "from_trained"]]
    return trained.join(wide).reset_index()


def _claims(table: pd.DataFrame) -> list[Claim]:
    """Right answers to the longest prompts by held-out rules, and to those among them that show no
    example of the letter asked for: there who copies can only guess."""
    most = table["examples"].max()
    rows = table[table["examples"] == most].set_index(["rules", "query", "model"])
    held_out = rows["accuracy"]["held-out"]
    new, old = rows.loc[("held-out", "any", "trained")], rows.loc[("trained", "any", "trained")]
    fit = new["from_trained"]
    notes = [
        f"By trained rules {old['accuracy']:.0%}{brackets(old['low'], old['high'], '.0%')} "
        "are right.",
        f"By the others the Bayesian of all rules is right in {held_out['any', BAYES]:.0%}; the "
        f"network is {new['from_bayes']:.2f} nats from it, and "
        + ("no trained rule fits." if np.isnan(fit) else f"{fit:.2f} from that of the trained."),
    ]
    claims = []
    for query, where, controls in (
        ("any", "", BESIDE),
        ("new", " without the letter asked for", {**BESIDE, "who copies labels": COPYING}),
    ):
        if query not in held_out:
            continue
        row = rows.loc[("held-out", query, "trained")]
        claims.append(
            Claim(
                f"By rules never trained, {{}} of the answers are right after {most} "
                f"examples{where}",
                *measured(row, "accuracy", "low", "high", "prompts"),
                "prompts",
                "bootstrap over prompts",
                {label: held_out[query, name] for label, name in controls.items()},
                ".0%",
                notes=notes if query == "any" else [],
            )
        )
    return claims


def _panel(table: pd.DataFrame, rules: str) -> ChartType:
    """Accuracy by the number of examples, of prompts by rules of one kind."""
    rows = table[(table["rules"] == rules) & (table["query"] == "any")].copy()
    rows.loc[rows["model"] != "trained", ["low", "high"]] = np.nan
    colors = [TRAINED, SEVERAL[2], SEVERAL[1], SEVERAL[3], AGAINST, UNTRAINED]
    return curve(
        rows,
        alt.X("examples:Q", title="examples in the prompt").axis(tickMinStep=1, format="d"),
        share(alt.Y, "accuracy", "right answers"),
        ["model", "examples", *figures("accuracy", "low", "high"), "prompts"],
        colours("model", list(MODELS), colors, columns=3),
    ).properties(width=260, height=230, title=f"{rules} rules")


# -- one prompt ---------------------------------------------------------------------------------


def _language_of(run: Run) -> InContext:
    require(run, *NEEDS)
    assert isinstance(run.language, InContext)
    return run.language


def prompt_of(run: Run, text: str) -> Word:
    """A typed prompt, up to its query, with the border.

    Raises:
        UserError: the language has none, or what is typed is none.
    """
    language = _language_of(run)
    source, _, _ = text.partition(BORDER)
    word = (*language.vocabulary.parse(source), BORDER)
    if not language.next_symbols(word):
        example = " ".join(language.split(language.example())[0])
        raise UserError(
            f"{' '.join(word[:-1])!r} is no prompt: type letters, each with a label of its own, "
            f"and a letter at the end, such as {example}"
        )
    return word


def one_prompt(run: Run, word: Word) -> pd.DataFrame:
    """The network's answers to one prompt, beside those of both Bayesians.

    Returns:
        One row per model ("trained", "untrained", "Bayes", "Bayes, trained rules") and answer:
        model, answer, probability (missing where no trained rule fits).
    """
    language = _language_of(run)
    words = language.vocabulary.words([word])
    ids = [language.vocabulary.ids[label] for label in language.answers]
    predictions: dict[str, np.ndarray] = {
        BAYES: language.posterior(words, language.rules)[0],
        BY_HEART: language.posterior(words, language.trained)[0],
    }
    makes: dict[str, Callable[[], LanguageModel]] = {
        "trained": run.model,
        "untrained": run.untrained,
    }
    for name, make in makes.items():
        predictions[name] = _answers(make(), run.objective, language, words)[0, ids]
    return pd.DataFrame(
        [
            {"model": name, "answer": label, "probability": float(value)}
            for name in MODELS
            if name in predictions
            for label, value in zip(language.answers, predictions[name], strict=True)
        ]
    )


def chart_of_one(table: pd.DataFrame) -> ChartType:
    """Bars by answer, a colour for each model."""
    order = list(dict.fromkeys(table["model"]))
    colors = [TRAINED, SEVERAL[2], SEVERAL[1], UNTRAINED]
    return bars(
        table,
        share(alt.X, "probability"),
        alt.Y("answer:N", title="answer"),
        ["model", "answer", *figures("probability")],
        colours("model", order, colors, columns=2),
        ends=None,
        yOffset=alt.YOffset("model:N", sort=order),
    ).properties(width=420)


def _headline(table: pd.DataFrame) -> pd.DataFrame:
    """Numbers that are compared over seeds: right answers by rules and number of examples."""
    rows = table[table["query"] == "any"]
    return row_numbers(rows, "{rules} rules, {examples} examples", value="accuracy")


QUESTION = of_table(
    "in-context",
    Options,
    _in_context,
    _claims,
    _headline,
    lambda table: alt.hconcat(*(_panel(table, rules) for rules in RULES)),
    _side_by_side,
    needs=NEEDS,
    of_inside=False,
    planned=tuple(Planned("trained", name) for name in MODELS[1:]),
)
