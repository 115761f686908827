"""The loss of a model beside its floor: its next-token distribution against the language's own.

Of lines without a grammar no floor is known: the loss on lines set aside stands beside a trigram's.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cache, partial

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
from analyses.questions.behaviour import counts, hidden
from analyses.questions.training.loss import entropy_and_kl, shares_of
from analyses.words import ANALYSIS_SEED
from interp.statistics import bootstrap_sums
from models.base import LanguageModel
from models.decoding.choice import Choice
from models.errors import UserError
from models.languages import END_ID, ContextFreeLanguage, FormalLanguage, UnlabelledCorpus, Words
from models.languages.grammars.trees import embedding
from models.objectives.base import Objective
from models.runs.run import Run

BY = ("length", "depth")
MOST_LENGTHS = 16
"""The most lengths that are told apart; of more, some at even distances are asked about."""
AT_ONCE, MOST_DRAWN = 500, 4000
"""Words that are drawn at once, and at most, to find words of each depth."""
READ_AT_ONCE = 256
BINS = 4
"""Groups of as many lines each, from the shortest lines to the longest."""
LINES_AT_ONCE = 32
"""Lines whose distributions are in memory at once: they may have many different words."""
LEAST_SHOWN = 1e-4
"""Where the picture's axis of losses begins, which goes by powers of ten."""
CONTROLS = ("untrained", "trigram", "allowed symbols")


@dataclass(frozen=True)
class Asked:
    """Words of the training window with the truth about each of their positions.

    Attributes:
        groups: the length or the depth of each word; of a line the length of the longest line of
            its group.
        truth: the probability that each token comes next, in the training window; for a run that
            was taught hidden symbols, that it stands there, given all others. Of a line it is 1 for
            the token that is there: its entropy is then 0, and the excess loss is the loss.
        allowed: whether each token may come next, or stand there, in the language; not known of
            lines, and all True.
        inside: the positions from BOS to the last symbol; or those that are hidden, one at a time.
    """

    words: Words
    groups: np.ndarray
    truth: Float[np.ndarray, "word pos d_vocab"]
    allowed: Bool[np.ndarray, "word pos d_vocab"]
    inside: Bool[np.ndarray, "word pos"]


def _asked(run: Run, options: Options, progress: Progress = quiet) -> Iterator[Asked]:
    """The words that a run is asked about, in one part; of a corpus in several.

    Raises:
        UserError: see ``asked_of``; or lines are to be told apart by depth.
    """
    language = run.language
    if not isinstance(language, UnlabelledCorpus):
        yield asked_of(run, options.by, options.count, options.deepest, options.seed, progress)
        return
    if options.by == "depth":
        raise UserError(f"{language.name} has no trees: ask by length")
    rng = np.random.default_rng([ANALYSIS_SEED, options.seed])
    ids = np.unique(language.lines.ids[language.side("test")], axis=0)
    lengths = (ids != END_ID).sum(axis=1)
    rows = rng.permutation(len(ids))[: MOST_LENGTHS * options.count]
    rows = rows[np.argsort(lengths[rows], kind="stable")]
    ends = [part[-1] for part in np.array_split(lengths[rows], BINS) if len(part)]
    groups = np.array(ends)[np.searchsorted(ends, lengths[rows])]
    for first in range(0, len(rows), LINES_AT_ONCE):
        some = slice(first, first + LINES_AT_ONCE)
        words = Words(ids[rows[some]], lengths[rows[some]])
        tokens = words.tokens if run.objective.hides else words.following
        truth = np.eye(len(language.vocabulary))[tokens]
        inside = np.arange(tokens.shape[1]) <= words.lengths[:, None]
        places = hidden.places_of(words, rng) if run.objective.hides else inside
        yield Asked(words, groups[some], truth, np.ones_like(truth, dtype=bool), places)


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

    A run on lines without labels is asked for different lines that were set aside, and its loss
    is that of the tokens that are there. Nobody knows the least loss, or what may come next.

    Returns:
        One row per model and group: model ("trained" or a control), by, group, words,
        tokens, entropy (of the truth: the least loss that there can be; NaN of lines), kl (excess
        loss: the mean of KL(truth || model) at each position, exact; of lines the loss), low and
        high (its 95% bootstrap interval over words), loss (entropy + kl: the expected
        cross-entropy), perplexity (exp of it), best (exp of the entropy) and forbidden (the
        probability that the model gives to tokens that the language forbids, mean; NaN of lines,
        as best is).

    Raises:
        UserError: see ``asked_of``; or the run was taught no next tokens.
    """
    rows: list[dict[str, object]] = []
    lines = isinstance(run.language, UnlabelledCorpus)
    models = ("trained", *(CONTROLS[:2] if lines else CONTROLS))
    speaker = cache(partial(_speaker, run))
    totals: dict[str, list[np.ndarray]] = {name: [] for name in models}
    groups = list[np.ndarray]()
    for sample in _asked(run, options, progress):
        groups.append(sample.groups)
        for done, name in enumerate(models):
            progress(done, len(models), name)
            totals[name].append(sums(sample, speaker(name)(sample)))
    group_of = np.concatenate(groups)
    for name in models:
        of_words = np.concatenate(totals[name])
        for group in np.unique(group_of):
            about = {"model": name, "by": options.by, "group": int(group)}
            rows.append(about | _row(of_words[group_of == group]))
    progress(len(models), len(models), "perplexity")
    unknown = ["entropy", "best", "forbidden"] if lines else []
    return pd.DataFrame(rows).assign(**dict.fromkeys(unknown, np.nan))


def _speaker(run: Run, name: str) -> Callable[[Asked], np.ndarray]:
    """The log-probabilities of a run's model, or of a control, for words that are asked."""
    if name == "allowed symbols":
        return _evenly
    if name == "trigram":
        counted = counts.between(run) if run.objective.hides else counts.before(run)
        return lambda sample: counted(sample.words, sample.inside)
    model = run.model() if name == "trained" else run.untrained()
    if run.objective.hides:
        return lambda sample: hidden.said_of(model, run.objective, sample.words, sample.inside)
    return lambda sample: said_of(model, run.objective, sample.words)


def _evenly(sample: Asked) -> np.ndarray:
    how_many = sample.allowed.sum(axis=2, keepdims=True)
    return np.where(sample.allowed, -np.log(np.maximum(how_many, 1)), -np.inf)


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
    for name in _controls(table):
        wide = wide.join(table[table["model"] == name].set_index("group")["kl"].rename(name))
    wide = wide.join(trained[["perplexity", "best", "forbidden"]]).reset_index()
    wide = wide.rename(columns={"group": str(table["by"].iloc[0])})
    return wide.rename(columns={"kl": "loss"}).dropna(axis=1) if _is_of_lines(table) else wide


def _controls(table: pd.DataFrame) -> list[str]:
    return [name for name in CONTROLS if name in set(table["model"])]


def _is_of_lines(table: pd.DataFrame) -> bool:
    return bool(table["entropy"].isna().all())


def _claims(table: pd.DataFrame) -> list[Claim]:
    """The loss beyond the entropy, over all tokens, beside the untrained network and a trigram; of
    lines the whole loss."""
    by, of_lines = table["by"].iloc[0], _is_of_lines(table)
    rows = table[table["low"].notna() | table["low"].isna().all()]
    kl = rows.pivot(index="group", columns="model", values="kl")
    trained = rows[rows["model"] == "trained"].set_index("group")
    share = trained["tokens"] / trained["tokens"].sum()
    over_all = kl.mul(share, axis=0).sum()
    # Groups are drawn apart: their errors add up in squares (Zou and Donner 2008).
    down, up = (np.linalg.norm(share * (trained["kl"] - trained[end])) for end in ("low", "high"))
    value, untrained, counted = over_all[["trained", *CONTROLS[:2]]]
    alone = trained.index[trained["high"] >= kl[list(CONTROLS[:2])].min(axis=1)]
    doubts = []
    if len(alone) and value + up < min(untrained, counted):
        groups = ", ".join(map(str, alone))
        where = f"in lines of up to {groups} symbols" if of_lines else f"at {by} {groups}"
        doubts.append(f"Alone it is not shown {where}.")
    if of_lines:
        finding, unit = "{} nats a token", "different lines that were set aside"
        told = (
            f"Its perplexity is {np.exp(value):.2f}, the trigram's {np.exp(counted):.2f}; how low "
            "it could be nobody knows."
        )
    else:
        finding, unit = "{} nats a token beyond the language's entropy", "drawn words"
        entropy, out = ((trained[name] * share).sum() for name in ("entropy", "forbidden"))
        told = (
            f"Its perplexity is {np.exp(entropy + value):.2f}, where {np.exp(entropy):.2f} is "
            f"the least; {out:.1%} of its probability goes to what the language forbids."
        )
        if value + up >= (guess := over_all[CONTROLS[2]]):
            doubts.append(f"Who knows what may follow, not how likely it is, loses {guess:.3f}.")
    return [
        Claim(
            f"It loses less than its controls: {finding}",
            value,
            value - down,
            value + up,
            int(trained["words"].sum()),
            unit,
            f"bootstrap over {'lines' if of_lines else 'words'}",
            {"the untrained network": untrained, "a trigram": counted},
            ".3f",
            less=True,
            doubts=doubts,
            notes=[told],
        )
    ]


def _chart(table: pd.DataFrame) -> ChartType:
    """The excess loss by length or depth, of the trained model and the controls."""
    by = table["by"].iloc[0]
    ends = {f"shown_{c}": table[c].clip(lower=LEAST_SHOWN) for c in ("kl", "low", "high")}
    title = "symbols" if by == "length" else "depth of embedding"
    if _is_of_lines(table):
        title, y = "symbols, at most", alt.Y("shown_kl:Q", title="loss (nats a token)")
    else:
        y = alt.Y("shown_kl:Q", title="excess loss (nats a token)").scale(type="log")
        y = y.axis(values=[10.0**power for power in range(-4, 2)])
    models = ["trained", *_controls(table)]
    return curve(
        table.assign(**ends),
        alt.X("group:Q", title=title).axis(tickMinStep=1, format="d"),
        y,
        ["model", "group", "words", *figures("kl", "low", "high", "entropy")],
        colours("model", models, [TRAINED, UNTRAINED, *SEVERAL[1:3]][: len(models)]),
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
    needs=("symbols", "whole words"),
    of_inside=False,
    planned=tuple(Planned("trained", name) for name in CONTROLS),
)
