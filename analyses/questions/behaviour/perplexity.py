"""The loss of a model beside its floor: its next-token distribution against the language's own."""

from __future__ import annotations

from dataclasses import dataclass

import altair as alt
import numpy as np
import pandas as pd
import torch
from altair.typing import ChartType
from jaxtyping import Bool, Float

from analyses.answers import Planned, Progress, of_table, quiet, row_numbers
from analyses.charts.marks import curve
from analyses.charts.theme import SEVERAL, TRAINED, UNTRAINED, colours, figures
from analyses.claims import Claim
from analyses.options.behaviour import Perplexity as Options
from analyses.questions.behaviour import hidden
from analyses.questions.training.loss import entropy_and_kl, shares_of
from analyses.words import ANALYSIS_SEED
from interp.statistics import bootstrap_sums
from models.base import LanguageModel, build
from models.decoding.choice import Choice
from models.errors import UserError
from models.languages import ContextFreeLanguage, FormalLanguage, Words
from models.languages.grammars.trees import embedding
from models.model_config import ModelConfig
from models.objectives import objective
from models.objectives.base import Objective
from models.runs.run import Run
from models.training.batches import draw, steps_at_once

BY = ("length", "depth")
MOST_LENGTHS = 16
"""The most lengths that are told apart; of more, some at even distances are asked about."""
AT_ONCE, MOST_DRAWN = 500, 4000
"""Words that are drawn at once, and at most, to find words of each depth."""
READ_AT_ONCE = 256
COUNTED = 4096
"""Training words of which the trigram is counted."""
LEAST_SHOWN = 1e-4
"""Where the picture's axis of losses begins, which goes by powers of ten."""
CONTROLS = ("untrained", "trigram", "allowed symbols")


@dataclass(frozen=True)
class Asked:
    """Words of the training window with the truth about each of their positions.

    Attributes:
        groups: the length or the depth of each word.
        truth: the probability that each token comes next, in the training window; for a run that
            was taught hidden symbols, that it stands there, given all others.
        allowed: whether each token may come next, or stand there, in the language.
        inside: the positions from BOS to the last symbol; or those that are hidden, one at a time.
    """

    words: Words
    groups: np.ndarray
    truth: Float[np.ndarray, "word pos d_vocab"]
    allowed: Bool[np.ndarray, "word pos d_vocab"]
    inside: Bool[np.ndarray, "word pos"]


def asked_of(
    run: Run, by: str, count: int, deepest: int, seed: int, progress: Progress = quiet
) -> Asked:
    """The words that a run is asked about, with the truth.

    Raises:
        UserError: the language cannot say how likely its words are; or it has no trees.
    """
    language = run.language
    if not isinstance(language, FormalLanguage):
        raise UserError(f"{run.name} learned lines: nobody knows how likely which other line is")
    rng = np.random.default_rng([ANALYSIS_SEED, seed])
    if by == "depth":
        words, groups = _by_depth(run, language, count, deepest, rng, progress)
    else:
        words, groups = _by_length(run, language, count, rng)
    unknown = UserError(
        f"nobody has worked out how likely {language.name} draws which word: ask a run on a "
        "regular language, a counting language or a grammar"
    )
    shares = shares_of(run, language)
    if run.objective.tags:
        raise UserError(f"{run.name} was taught tags, and says nothing of what comes next")
    if run.objective.hides:
        places = hidden.places_of(words, rng)
        truths = hidden.truth_of(language, words, places, shares)
        if truths is None:
            raise unknown
        return Asked(words, groups, *truths, places)
    truth = language.next_probabilities(words, shares)
    if truth is None:
        raise unknown
    inside = np.arange(truth.shape[1]) <= words.lengths[:, None]
    return Asked(words, groups, truth, language.allowed(words), inside)


def _by_length(
    run: Run, language: FormalLanguage, count: int, rng: np.random.Generator
) -> tuple[Words, np.ndarray]:
    lengths = np.flatnonzero(shares_of(run, language))
    some = np.unique(np.linspace(0, len(lengths) - 1, MOST_LENGTHS).round().astype(int))
    rows = np.repeat(lengths[some], count)
    return language.draw(rng, rows, np.ones(len(rows), dtype=bool)), rows


def _by_depth(
    run: Run,
    language: FormalLanguage,
    count: int,
    deepest: int,
    rng: np.random.Generator,
    progress: Progress,
) -> tuple[Words, np.ndarray]:
    """Words as the window draws them, up to ``count`` of each depth."""
    if not isinstance(language, ContextFreeLanguage):
        raise UserError(
            f"{language.name} has no trees: ask a run on a grammar, such as nested or linear; or "
            "ask by length"
        )
    window = language.lengths(run.config.max_n)
    kept, groups, drawn = list[Words](), list[np.ndarray](), 0
    missing = dict.fromkeys(range(deepest + 1), count)
    while drawn < MOST_DRAWN and any(missing.values()):
        progress(drawn, MOST_DRAWN, "words by depth")
        drawn += AT_ONCE
        some = language.sample(rng, AT_ONCE, window, True, "test", run.config.spread).words
        trees = (next(language.trees(word)) for word in language.vocabulary.decoded(some))
        depths = np.array([embedding(tree) for tree in trees])
        for depth, left in missing.items():
            rows = np.flatnonzero(depths == depth)[:left]
            missing[depth] -= len(rows)
            if len(rows):
                kept.append(some[rows])
                groups.append(depths[rows])
    words = kept[0]
    for more in kept[1:]:
        words = Words.concatenate(words, more)
    return words, np.concatenate(groups)


@torch.no_grad()
def said_of(
    model: LanguageModel, objective: Objective, words: Words, choice: Choice | None = None
) -> Float[np.ndarray, "word pos d_vocab"]:
    """A model's log-probability of each token at each position of words, perhaps changed.

    Raises:
        UserError: the model was taught no next tokens.
    """
    if objective.verdict_alone:
        raise UserError(
            "the model was taught verdicts alone, and knows no next symbol: ask one that was "
            "taught them (--objective language-model or next-symbols)"
        )
    parts = []
    for first in range(0, len(words), READ_AT_ONCE):
        some = words[first : first + READ_AT_ONCE]
        tokens = torch.as_tensor(some.tokens, device=model.device)
        logits = model(tokens).double().cpu()
        logprobs = objective.log_probabilities(logits, model.vocabulary)
        if choice is not None:
            hot = torch.nn.functional.one_hot(torch.as_tensor(some.ids), logprobs.shape[-1])
            counts = torch.nn.functional.pad(hot.cumsum(dim=1), (0, 0, 1, 0))
            changed = choice(logprobs.flatten(0, 1), counts.flatten(0, 1))
            logprobs = changed.view_as(logprobs)
        wide = torch.full((len(some), words.ids.shape[1] + 1, logprobs.shape[-1]), -torch.inf)
        wide = wide.double()
        wide[:, : logprobs.shape[1]] = logprobs
        parts.append(wide.numpy())
    return np.concatenate(parts)


def sums(sample: Asked, logprobs: np.ndarray) -> Float[np.ndarray, "word 4"]:
    """Sums over the positions of each word: entropy of the truth, KL(truth || model), the
    probability of tokens that the language forbids, and the number of positions."""
    entropy, kl = entropy_and_kl(sample.truth, logprobs)
    forbidden = np.where(sample.allowed, 0.0, np.exp(logprobs)).sum(axis=2)
    terms = np.stack([entropy, kl, forbidden, np.ones_like(entropy)], axis=-1)
    return np.where(sample.inside[..., None], terms, 0.0).sum(axis=1)


def _perplexity(run: Run, options: Options, progress: Progress = quiet) -> pd.DataFrame:
    """The loss of language models beside the least that there can be, in nats a token.

    A run that was taught hidden symbols is asked for some symbols of each word, one at a time,
    given all others: a token is then a hidden one, and the trigram knows the symbols before and
    after.

    Controls: the untrained model; a trigram, counted on words of the training; and a guesser that
    takes all symbols that may come next for equally likely (it knows the language, but not how
    often which word is drawn).

    Returns:
        One row per model and group: model ("trained" or a control), by, group, words,
        tokens, entropy (of the truth: the least loss that there can be), kl (excess loss: the mean
        of KL(truth || model) at each position, exact), low and high (its 95% bootstrap interval
        over words), loss (entropy + kl: the expected cross-entropy), perplexity (exp of it), best
        (exp of the entropy) and forbidden (the probability that the model gives to tokens that the
        language forbids, mean).

    Raises:
        UserError: see ``asked_of``; or the run was taught no next tokens.
    """
    rows: list[dict[str, object]] = []
    sample = asked_of(run, options.by, options.count, options.deepest, options.seed, progress)
    models = ("trained", *CONTROLS)
    for done, name in enumerate(models):
        progress(done, len(models), name)
        totals = sums(sample, _said(run, name, sample))
        for group in np.unique(sample.groups):
            about = {"model": name, "by": options.by, "group": int(group)}
            rows.append(about | _row(totals[sample.groups == group]))
    progress(len(models), len(models), "perplexity")
    return pd.DataFrame(rows)


def _said(run: Run, name: str, sample: Asked) -> np.ndarray:
    """The log-probabilities of a run's model, or of a control."""
    if name == "allowed symbols":
        how_many = sample.allowed.sum(axis=2, keepdims=True)
        return np.where(sample.allowed, -np.log(np.maximum(how_many, 1)), -np.inf)
    if name == "trigram" and run.objective.hides:
        return hidden.counted(run, sample.words, sample.inside)
    if name == "trigram":
        return said_of(_trigram(run), objective("language-model"), sample.words)
    model = run.model() if name == "trained" else run.untrained()
    if run.objective.hides:
        return hidden.said_of(model, run.objective, sample.words, sample.inside)
    return said_of(model, run.objective, sample.words)


def _trigram(run: Run) -> LanguageModel:
    """A trigram model: counts of each token after the last two, on words like the training's."""
    taught = objective("language-model")
    config = ModelConfig(architecture="ngram", order=3, output="softmax")
    model = build(config, run.language.vocabulary)
    at_once = steps_at_once(run.config) * run.config.batch_size
    chunks = range(-(-COUNTED // at_once))
    for words, _ in (draw(run.config, run.language, chunk) for chunk in chunks):
        members = words[np.flatnonzero(run.language.labels(words))]
        batch = taught.batch(run.language, members)
        model.count(batch.tokens, batch.target, batch.weight)
    return model.eval()


def _row(totals: Float[np.ndarray, "word 4"]) -> dict[str, object]:
    entropy, kl, forbidden, tokens = totals.sum(axis=0)
    mean, low, high = bootstrap_sums(totals[:, [1, 3]], lambda total: total[..., 0] / total[..., 1])
    least = float(entropy / tokens)
    return {
        "words": len(totals),
        "tokens": int(tokens),
        "entropy": least,
        "kl": float(mean),
        "low": float(low),
        "high": float(high),
        "loss": least + float(kl / tokens),
        "perplexity": float(np.exp(least + kl / tokens)),
        "best": float(np.exp(least)),
        "forbidden": float(forbidden / tokens),
    }


def _side_by_side(table: pd.DataFrame) -> pd.DataFrame:
    """One row per group: the excess loss of the model beside those of the controls."""
    trained = table[table["model"] == "trained"].set_index("group")
    wide = trained[["words", "entropy", "kl", "low", "high"]]
    for name in CONTROLS:
        wide = wide.join(table[table["model"] == name].set_index("group")["kl"].rename(name))
    wide = wide.join(trained[["perplexity", "best", "forbidden"]]).reset_index()
    return wide.rename(columns={"group": str(table["by"].iloc[0])})


def _claims(table: pd.DataFrame) -> list[Claim]:
    """The loss beyond the entropy, over all tokens, beside the untrained network and a trigram."""
    by, rows = table["by"].iloc[0], table[table["low"].notna() | table["low"].isna().all()]
    kl = rows.pivot(index="group", columns="model", values="kl")
    trained = rows[rows["model"] == "trained"].set_index("group")
    share = trained["tokens"] / trained["tokens"].sum()
    over_all = kl.mul(share, axis=0).sum()
    # Groups are drawn apart: their errors add up in squares (Zou and Donner 2008).
    down, up = (np.linalg.norm(share * (trained["kl"] - trained[end])) for end in ("low", "high"))
    entropy, out = ((trained[name] * share).sum() for name in ("entropy", "forbidden"))
    value, (untrained, counted, guess) = over_all["trained"], over_all[list(CONTROLS)]
    alone = trained.index[trained["high"] >= kl[list(CONTROLS[:2])].min(axis=1)]
    doubts = []
    if len(alone) and value + up < min(untrained, counted):
        doubts.append(f"Alone it is not shown at {by} {', '.join(map(str, alone))}.")
    if value + up >= guess:
        doubts.append(f"Who knows what may follow, not how likely it is, loses {guess:.3f}.")
    return [
        Claim(
            "It loses less than its controls: {} nats a token beyond the language's entropy",
            value,
            value - down,
            value + up,
            int(trained["words"].sum()),
            "drawn words",
            "bootstrap over words",
            {"the untrained network": untrained, "a trigram": counted},
            ".3f",
            less=True,
            doubts=doubts,
            notes=[
                f"Its perplexity is {np.exp(entropy + value):.2f}, where {np.exp(entropy):.2f} is "
                f"the least; {out:.1%} of its probability goes to what the language forbids."
            ],
        )
    ]


def _chart(table: pd.DataFrame) -> ChartType:
    """The excess loss by length or depth, of the trained model and the controls."""
    by = table["by"].iloc[0]
    ends = {f"shown_{c}": table[c].clip(lower=LEAST_SHOWN) for c in ("kl", "low", "high")}
    title = "symbols" if by == "length" else "depth of embedding"
    y = alt.Y("shown_kl:Q", title="excess loss (nats a token)").scale(type="log")
    return curve(
        table.assign(**ends),
        alt.X("group:Q", title=title).axis(tickMinStep=1, format="d"),
        y.axis(values=[10.0**power for power in range(-4, 2)]),
        ["model", "group", "words", *figures("kl", "low", "high", "entropy")],
        colours("model", ["trained", *CONTROLS], [TRAINED, UNTRAINED, *SEVERAL[1:3]]),
        ("shown_low", "shown_high"),
    ).properties(width=420, height=260)


QUESTION = of_table(
    "perplexity",
    Options,
    _perplexity,
    _claims,
    lambda table: row_numbers(table, "{by} {group}", value="kl"),
    _chart,
    _side_by_side,
    needs=("language", "whole words"),
    of_inside=False,
    planned=tuple(Planned("trained", name) for name in CONTROLS),
)
