"""Words that a run's model makes by itself, and how right they are, decoder by decoder."""

from __future__ import annotations

from collections.abc import Sequence

import altair as alt
import numpy as np
import pandas as pd
import torch
from altair.typing import ChartType

from analyses.answers import Progress, quiet
from analyses.charts.marks import bars, dots, points
from analyses.charts.theme import TRAINED, UNTRAINED, colours, figures, named
from analyses.claims import Claim, measured
from analyses.questions.behaviour.perplexity import MOST_LENGTHS, Asked, asked_of, said_of, sums
from interp.statistics import brackets, wilson
from models.base import LanguageModel
from models.decoding.choice import Choice
from models.decoding.search import MOST_WORDS, Generation, Generator, Hypothesis, Made
from models.errors import UserError
from models.languages import (
    BOS_ID,
    END,
    END_ID,
    FIRST_SYMBOL_ID,
    FormalLanguage,
    UnlabelledCorpus,
    Word,
    Words,
)
from models.runs.run import Run

DRAWN: dict[str, Choice] = {
    "sampling": Choice(),
    "temperature 0.5": Choice(temperature=0.5),
    "temperature 2": Choice(temperature=2.0),
    "top-k 2": Choice(top_k=2),
    "top-p 0.9": Choice(top_p=0.9),
    "frequency penalty 0.5": Choice(frequency_penalty=0.5),
    "frequency penalty 2": Choice(frequency_penalty=2.0),
    "presence penalty 2": Choice(presence_penalty=2.0),
}
"""Ways to draw words, by name."""
BEAMS = (4, 16)
TRIED = 2**13
"""The most words among which the likeliest one is looked for, to judge the searches."""
MOST_BARS = 12
CONTROLS = ("untrained model", "random symbols", "allowed symbols")


def longest_of(run: Run) -> int:
    """The longest word of the training window."""
    return int(run.language.lengths(run.config.max_n)[-1])


def generator(run: Run, longest: int = 0, prompt: Word = ()) -> Generator:
    """The run's model, ready to make words.

    Args:
        longest: the most symbols; 0 takes the longest word of the training window.

    Raises:
        UserError: the model was taught no next symbols.
    """
    return Generator(run.model(), run.objective, longest or longest_of(run), prompt)


def judged(run: Run, words: Sequence[Made]) -> pd.DataFrame:
    """One row per word: word, symbols, log_probability, ended, and in_language; of a run on lines
    without labels is_line instead, whether it is one of them.

    A word that was cut counts by what there is of it.
    """
    language = run.language
    batch = language.vocabulary.words([made.word for made in words])
    if isinstance(language, UnlabelledCorpus):
        name, inside = "is_line", language.are_lines(batch)
    else:
        name, inside = "in_language", language.labels(batch)
    return pd.DataFrame(
        {
            "word": [" ".join(made.word) for made in words],
            "symbols": [len(made.word) for made in words],
            "log_probability": [made.log_probability for made in words],
            "ended": [made.ended for made in words],
            name: [bool(label) for label in inside],
        }
    )


def decoders(
    run: Run,
    count: int = 200,
    longest: int = 0,
    seed: int = 0,
    prompt: Word = (),
    progress: Progress = quiet,
) -> pd.DataFrame:
    """The share of right words of each decoder, beside three controls: the untrained model, random
    symbols, and symbols drawn evenly from those that the language allows.

    Args:
        count: the number of words that each way of drawing draws. A search makes one.
        longest: the most symbols of a word; 0 takes the longest of the training window.
        prompt: the beginning of every word.

    Returns:
        One row per decoder: decoder, kind ("drawn", "search", "control"), words, grammatical (the
        share that ended and is in the language), low and high (its 95% Wilson interval; none for a
        search), ended (share), different (members among the words, each counted once), lengths (of
        these members), longest (of these), log_probability (of a word by the model, mean), behind
        (how far a search stays behind the likeliest of all words in log-probability; none where
        these are too many), kl (of drawn words: KL(language || decoder), nats a token, in words of
        the training window; infinite where the decoder never says what the language may say; none
        where the language cannot tell), calls (to the model, a word) and computed (positions, a
        word).

    Raises:
        UserError: the model was taught no next symbols.
    """
    language = run.language
    if not isinstance(language, FormalLanguage):
        raise UserError(f"{run.name} learned lines: nobody knows which other words are right")
    maker = generator(run, longest, prompt)
    untrained = Generator(run.untrained(), run.objective, maker.longest, prompt)
    steps = len(DRAWN) + len(BEAMS) * 2 + 1 + len(CONTROLS)
    done, rows = 0, list[dict[str, object]]()

    def report(name: str) -> None:
        nonlocal done
        progress(done, steps, name)
        done += 1

    window = _window(run, count, seed)
    for name, choice in DRAWN.items():
        report(name)
        row = _row(run, name, "drawn", maker.sample(count, choice, seed))
        rows.append(row | {"kl": _divergence(run, run.model(), window, choice)})
    best = _best(maker)
    searches = {"greedy": (1, False)}
    searches |= {f"beam of {width}": (width, False) for width in BEAMS}
    searches |= {f"beam of {width}, by length": (width, True) for width in BEAMS}
    for name, (width, by_length) in searches.items():
        report(name)
        beam = maker.beam(width, by_length)
        one = Generation(beam.words[:1], beam.calls, beam.computed)
        row = _row(run, name, "search", one)
        if best is not None and beam.words[0].ended:
            row["behind"] = best - beam.words[0].log_probability
        rows.append(row)
    report(CONTROLS[0])
    row = _row(run, CONTROLS[0], "control", untrained.sample(count, seed=seed))
    rows.append(row | {"kl": _divergence(run, run.untrained(), window, Choice())})
    for name in CONTROLS[1:]:
        report(name)
        only_allowed = name == CONTROLS[2]
        made = _evenly(language, count, maker.longest, seed, prompt, only_allowed=only_allowed)
        rows.append(_row(run, name, "control", Generation(made, 0, 0)))
    return pd.DataFrame(rows)


def _window(run: Run, count: int, seed: int) -> Asked | None:
    """Words of the training window with the truth; None if the language cannot tell it."""
    try:
        return asked_of(run, "length", max(2, count // MOST_LENGTHS), 0, seed)
    except UserError:
        return None


def _divergence(run: Run, model: LanguageModel, window: Asked | None, choice: Choice) -> float:
    """KL(language || decoder) in nats a token."""
    if window is None:
        return np.nan
    total = sums(window, said_of(model, run.objective, window.words, choice)).sum(axis=0)
    return float(total[1] / total[3])


def _best(maker: Generator) -> float | None:
    """The log-probability of the likeliest word; None if there are too many to try."""
    symbols = len(maker.model.vocabulary.symbols)
    left = maker.longest - len(maker.prompt)
    if sum(symbols**n for n in range(left + 1)) > min(TRIED, MOST_WORDS):
        return None
    words = maker.exhaustive().words
    return words[0].log_probability if words else None


def _row(run: Run, name: str, kind: str, made: Generation) -> dict[str, object]:
    table = judged(run, made.words)
    right = table[table["ended"] & table["in_language"]]
    low, high = wilson(len(right), len(table)) if len(table) > 1 else (np.nan, np.nan)
    scored = [word.log_probability for word in made.words if np.isfinite(word.log_probability)]
    return {
        "decoder": name,
        "kind": kind,
        "words": len(table),
        "grammatical": len(right) / len(table),
        "low": low,
        "high": high,
        "ended": float(table["ended"].mean()),
        "different": right["word"].nunique(),
        "lengths": right["symbols"].nunique(),
        "longest": int(right["symbols"].max()) if len(right) else 0,
        "log_probability": float(np.mean(scored)) if scored else np.nan,
        "behind": np.nan,
        "kl": np.nan,
        "calls": made.calls / len(table),
        "computed": made.computed / len(table),
    }


def _evenly(
    language: FormalLanguage,
    count: int,
    longest: int,
    seed: int = 0,
    prompt: Word = (),
    *,
    only_allowed: bool,
) -> tuple[Made, ...]:
    """Words of tokens that are drawn evenly, without a model; their log-probability is NaN.

    Args:
        prompt: the beginning of every word.
        only_allowed: draw from the tokens that the language allows; else from all.
    """
    rng = np.random.default_rng(seed)
    ids = np.full((count, longest), END_ID, dtype=np.int64)
    ids[:, : len(prompt)] = language.vocabulary.words([prompt]).ids
    lengths, open_ = np.full(count, len(prompt)), np.ones(count, dtype=bool)
    ended = np.zeros(count, dtype=bool)
    for at in range(len(prompt), longest + 1):
        rows = np.flatnonzero(open_)
        if not len(rows):
            break
        may = np.ones((len(rows), len(language.vocabulary)), dtype=bool)
        if only_allowed:
            may = language.allowed(Words(ids[rows, :at], lengths[rows]))[:, at]
            may[~may.any(axis=1)] = True  # the prompt is no beginning of a word
        may[:, BOS_ID] = False
        token = np.where(may, rng.random(may.shape), -1.0).argmax(axis=1)
        ended[rows] = token == END_ID
        going = (token >= FIRST_SYMBOL_ID) & (at < longest)
        open_[rows] = going
        if at < longest:
            ids[rows[going], at] = token[going]
            lengths[rows[going]] += 1
    return tuple(
        Made(language.vocabulary.decode(ids[row, : lengths[row]]), float("nan"), bool(ended[row]))
        for row in range(count)
    )


def beam_steps(
    run: Run, width: int, by_length: bool = False, longest: int = 0, prompt: Word = ()
) -> pd.DataFrame:
    """The hypotheses of a beam search, step by step.

    Returns:
        One row per hypothesis: step (from 1), rank (from 1, the best first), parent (a word),
        token, word, score, kept, ended, in_language (of a word that has ended).
    """
    rows: list[dict[str, object]] = []
    step = 0

    def report(hypotheses: list[Hypothesis]) -> None:
        nonlocal step
        step += 1
        for rank, hypothesis in enumerate(hypotheses, 1):
            ended = hypothesis.token == END
            word = hypothesis.parent if ended else (*hypothesis.parent, hypothesis.token)
            rows.append(
                {
                    "step": step,
                    "rank": rank,
                    "parent": " ".join(hypothesis.parent),
                    "token": hypothesis.token,
                    "word": " ".join(word),
                    "score": hypothesis.score,
                    "kept": hypothesis.kept,
                    "ended": ended,
                    "in_language": run.language.contains(word) if ended else None,
                }
            )

    generator(run, longest, prompt).beam(width, by_length, report)
    return pd.DataFrame(rows)


def beam_chart(table: pd.DataFrame) -> ChartType:
    """The tree of hypotheses: a column per step, a line from each to what it goes on from."""
    states = ["kept", "ended", "dropped"]
    state = np.where(~table["kept"], "dropped", np.where(table["ended"], "ended", "kept"))
    words = table.assign(state=state)
    begun = words[~words["ended"]].set_index(["step", "word"])["rank"]
    lines = words[words["step"] > 1]
    before = zip(lines["step"] - 1, lines["parent"], strict=True)
    lines = lines.assign(from_step=lines["step"] - 1, from_rank=[begun.get(b, 1) for b in before])
    colour = colours("state", states, [TRAINED, "#e69f00", UNTRAINED])
    tips = ["word", "token", *figures("score"), "state", "in_language"]
    whole = alt.Axis(tickMinStep=1, format="d")
    x = alt.X("step:Q", title="step", axis=whole)
    y = alt.Y("rank:Q", title="rank", axis=whole).scale(reverse=True)
    back = alt.Chart(lines).mark_rule(strokeWidth=1.5)
    rules = back.encode(x="from_step:Q", y="from_rank:Q", x2="step:Q", y2="rank:Q", color=colour)
    names = alt.Chart(words).mark_text(fontSize=12, dy=-16).encode(x=x, y=y, text="token:N")
    longest, steps = int(max(words["token"].str.len().max(), 2)), int(words["step"].max())
    width, height = max(300, steps * max(60, 8 * longest)), max(120, 52 * int(words["rank"].max()))
    points = dots(words, x, y, tips, colour, ends=None, size=320, opacity=1)
    return (rules + points + names).properties(width=width, height=height)


def claims(table: pd.DataFrame) -> list[Claim]:
    """The right words of plain sampling, and of allowed symbols, a penalty and greedy search."""
    rows = table.set_index("decoder")
    plain, penalty = rows.loc["sampling"], rows.loc["frequency penalty 2"]
    untrained, random, allowed = rows["grammatical"][list(CONTROLS)]
    greedy = "is" if rows.loc["greedy", "grammatical"] else "is not"
    return [
        Claim(
            "{} of the words drawn symbol by symbol are in the language",
            *measured(plain, "grammatical", "low", "high", "words"),
            "drawn words",
            "Wilson",
            {"the untrained network": untrained, "random symbols": random},
            ".1%",
            notes=[
                f"The right ones are {plain['different']:d} different words of "
                f"{plain['lengths']:d} lengths, up to {plain['longest']:d}.",
                f"Of symbols drawn from those that the language allows, {allowed:.1%} are right.",
                f"With a frequency penalty of 2, {penalty['grammatical']:.1%}"
                f"{brackets(penalty['low'], penalty['high'], '.1%')} are, of "
                f"{penalty['lengths']:d} lengths up to {penalty['longest']:d}.",
                f"The greedy word {greedy} in the language.",
            ],
        )
    ]


def chart(table: pd.DataFrame) -> ChartType:
    """The share of right words of each decoder, with its interval."""
    kinds = ["drawn", "search", "control"]
    return points(
        table,
        alt.X("grammatical:Q", title="share of words in the language").scale(domain=[0, 1]),
        named(alt.Y, "decoder", table["decoder"].tolist(), labelLimit=200),
        ["decoder", "words", *figures("grammatical", "low", "high"), "different", "lengths"],
        colours("kind", kinds, [TRAINED, "#e69f00", UNTRAINED]),
        step=22,
        shape=alt.Shape("kind:N", title=None).scale(domain=kinds),
    ).properties(width=520)


def after(run: Run, word: Word, choice: Choice) -> pd.DataFrame:
    """The tokens after a beginning: token, before and after the choice (probabilities), allowed (by
    the language)."""
    vocabulary = run.language.vocabulary
    logprobs = generator(run, max(longest_of(run), len(word)), word).next_token()[None]
    ids = torch.tensor([vocabulary.ids[symbol] for symbol in word], dtype=torch.long)
    counts = torch.bincount(ids, minlength=len(vocabulary))
    changed = choice(logprobs, counts[None])
    allowed = run.language.next_symbols(word)
    table = pd.DataFrame(
        {
            "token": vocabulary.tokens,
            "before": logprobs[0].exp().numpy(),
            "after": changed[0].exp().numpy(),
            "allowed": [token in allowed for token in vocabulary.tokens],
        }
    )
    return table.iloc[END_ID:]


def after_chart(table: pd.DataFrame) -> ChartType:
    """A bar for each token before, and one after the choice; of many tokens the likeliest."""
    likely = table[["before", "after"]].max(axis=1).nlargest(MOST_BARS).index
    table, when = table.loc[sorted(likely)], ["before", "after"]
    return bars(
        table.melt(["token", "allowed"], when, "when", "probability"),
        alt.X("probability:Q").scale(domain=[0, 1]),
        alt.Y("token:N", sort=table["token"].tolist(), title=None),
        ["token", "when", *figures("probability"), "allowed"],
        colours("when", when, [UNTRAINED, TRAINED]),
        ends=None,
        step=12,
        yOffset=alt.YOffset("when:N", sort=when),
    ).properties(width=420)
