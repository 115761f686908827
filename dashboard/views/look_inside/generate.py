"""Generate: the model makes words by itself; the reader changes how, and sees which are right."""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np
import pandas as pd
import streamlit as st

from analyses.answers import Answer
from analyses.claims import told
from analyses.needs import lack
from analyses.questions.behaviour.generated import (
    after,
    after_chart,
    beam_chart,
    beam_steps,
    chart,
    claims,
    decoders,
    generator,
    judged,
    longest_of,
)
from analyses.questions.behaviour.perplexity import BY
from dashboard import controls, drawing
from dashboard.background import at_once
from dashboard.drawing import picture
from dashboard.markup import code, text
from dashboard.selection import current_run, once
from dashboard.views.question import View, below, live, one_of
from models.decoding.choice import Choice
from models.errors import lab
from models.languages import Word
from models.runs.run import Run

COUNT = 12
"""Words that are shown."""
WIDEST = 8


def show() -> None:
    """The page."""
    views: dict[str, View] = {"words": _words}
    if lack(current_run(), ["others"]):
        views |= {"how well it foretells lines": _close}
    else:
        views |= {"a beam search": _beam, "decoders compared": _compared}
        views |= {"how close to the language": _close}
    one_of(views, "generated")


def _words(run: Run) -> None:
    """The tokens that may follow a beginning, and words that go on from it."""
    left, right = st.columns(2)
    prompt, judges = _prompt(run), not lack(run, ["others"])
    choice, seed = _choice(len(run.language.vocabulary.symbols) + 1)
    with left:
        st.markdown("**What may come next**, as the model says it and after your changes")
        table = _after(run, prompt, choice)
        picture(after_chart(table), "Probability of each next token before and after the changes.")
        out = table[~table["allowed"]]["after"].sum()
        what = "the language forbids here" if judges else "no line goes on with here"
        st.caption(f"Tokens that {what} have {out:.1%} together.")
    with right:
        st.markdown("**Words**, drawn symbol by symbol")
        made = _drawn(run, prompt, choice, seed)
        inside = made.iloc[:, -1]
        verdicts = np.where(inside, *(("in", "not in") if judges else ("a line", "new")))
        rows = made.assign(verdict=np.where(made["ended"], verdicts, "cut"))
        st.dataframe(
            rows[["verdict", "word", "symbols", "log_probability"]],
            hide_index=True,
            height=300,
            column_config={"log_probability": st.column_config.NumberColumn(format="%.2f")},
        )
        count = int((made["ended"] & inside).sum())
        st.caption(
            f"{count:d} of {len(made):d} are {'in the language' if judges else 'lines of the file'}"
            ". A word is cut at "
            f"{longest_of(run):d} symbols, the longest of the training."
        )
    changes = dict(vars(choice).items() - vars(Choice()).items())
    asked = {"count": COUNT, "seed": seed, "prompt": " ".join(prompt) or None, **changes}
    command = lab("generate", run.path, **asked, step=run.seen_at)
    st.caption(f"The same on a command line: {code(command)}")


def _prompt(run: Run) -> Word:
    """The beginning of every word."""
    vocabulary = run.language.vocabulary
    typed = controls.text_input(
        "Every word begins with",
        "",
        key=f"prompt_{run.language.name}",
        help=f"Symbols: {code(' '.join(vocabulary.symbols))}. Empty: the model begins by itself.",
    )
    return vocabulary.parse(typed)


def _choice(tokens: int) -> tuple[Choice, int]:
    """The reader's changes to the distribution, and the seed of the drawing."""
    row: dict[str, Any] = {"at": st.container(horizontal=True, gap="medium"), "width": 160}
    temperature = controls.slider("Temperature", 0.0, 3.0, 1.0, 0.1, key="temperature", **row)
    seed = controls.number("Seed", 0, 10**6, 0, key="generated_seed", **row)
    k = controls.slider("Only the likeliest (top-k)", 1, tokens, tokens, key="top_k", **row)
    p = controls.slider("Up to probability (top-p)", 0.05, 1.0, 1.0, 0.05, key="top_p", **row)
    frequency = controls.slider("Frequency penalty", -2.0, 5.0, 0.0, 0.1, key="frequency", **row)
    presence = controls.slider("Presence penalty", -2.0, 5.0, 0.0, 0.1, key="presence", **row)
    return Choice(temperature, 0 if k == tokens else k, p, frequency, presence), seed


_after = once(show_spinner="Computing ...")(after)


@once(show_spinner="Computing ...")
def _drawn(run: Run, prompt: Word, choice: Choice, seed: int) -> pd.DataFrame:
    longest = max(longest_of(run), len(prompt))
    return judged(run, generator(run, longest, prompt).sample(COUNT, choice, seed).words)


def _beam(run: Run) -> None:
    """The hypotheses of a beam search, as a tree, up to a step that the reader chooses."""
    prompt = _prompt(run)
    left, right = st.columns(2)
    width = controls.slider("Width of the beam", 1, WIDEST, 3, key="beam_width", at=left)
    fair = controls.toggle("Divide by the length", key="beam_by_length", at=right)
    table = _searched(run, prompt, width, fair)
    last = int(table["step"].max())
    shown = controls.slider("Up to step", 1, last, last, key=f"beam_step_{last}") if last > 1 else 1
    here = table[table["step"] <= shown]
    ended = here[here["kept"] & here["ended"]].sort_values("score", ascending=False)
    if len(ended):
        best = ended.iloc[0]
        inside = "in" if best["in_language"] else "not in"
        st.markdown(
            f"The best word so far is {code(best['word'] or 'the empty word')}, {text(inside)} the "
            "language."
        )
    figure = beam_chart(here)
    picture(figure, f"The hypotheses of a beam of {width} after {shown} steps.")
    findings = {"run": run.name, "width": width, "by_length": fair, "prompt": " ".join(prompt)}
    sentence = f"A beam search of width {width}."
    below("beam", Answer(table, sentence, findings), figure)


@once(show_spinner="Computing ...")
def _searched(run: Run, prompt: Word, width: int, by_length: bool) -> pd.DataFrame:
    longest = max(longest_of(run), len(prompt))
    return beam_steps(run, width, by_length, longest, prompt)


def _compared(run: Run) -> None:
    """All decoders beside three controls."""
    prompt = _prompt(run)
    key = f"decoders of {run.path}, {run.model_hash()}, {' '.join(prompt)}"
    table = at_once(key, lambda report: decoders(run, prompt=prompt, progress=report))
    if table is None:
        return
    made = claims(table)
    result = Answer(table, told(made, None), {"run": run.name}, claims=made)
    drawing.judged(result)
    figure = picture(chart(table), f"Share of right words by decoder. {result.sentence}")
    all_of_it = partial(st.markdown, text(result.sentence))
    below("generate", result, figure, {"Controls and limits": all_of_it})


def _close(run: Run) -> None:
    """The excess loss by length or by depth of embedding."""
    by = "length"
    if not lack(run, ["trees"]):
        by = controls.segments("By", list(BY), "perplexity_by")
    live("perplexity", by=by)
