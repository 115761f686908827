"""Pairs: where does each symbol of a target come from, and how right are whole targets?"""

from __future__ import annotations

import pandas as pd
import streamlit as st

from analyses.answers import Answer, question
from analyses.close_ups.pairs import edited, in_context, induction, one_pair, targets
from analyses.questions.alignment import pairs_of
from dashboard import controls
from dashboard.background import at_once
from dashboard.downloads import downloads, in_the_terminal
from dashboard.drawing import explain_errors, heading, how_to_read, judged, picture, seeds_of
from dashboard.markup import code, text
from dashboard.selection import current_run, kept_or_computed, once
from models.languages import Transduction, Word
from models.languages.pairs.in_context import InContext
from models.languages.pairs.steps import ParitySteps
from models.runs.run import Run

PAIR, ALL, RIGHT, STEPS = "one pair", "over many pairs", "how right", "an edited step"
PROMPT, EXAMPLES, HEADS = "one prompt", "by number of examples", "without each head"
BY = {"length of the source": "length", "place in the target": "place"}


def show() -> None:
    """The page."""
    heading("Alignment", "alignment")
    run = current_run()
    if isinstance(run.language, InContext):
        of_prompts = {EXAMPLES: _examples, HEADS: _heads, PROMPT: _prompt}
        shown = controls.segments("Show", list(of_prompts), "prompts_of")
        with explain_errors():
            of_prompts[shown](run)
        return
    if not isinstance(run.language, Transduction):
        st.info(
            f"{text(run.language.name)} has no pairs of a source and a target. Choose a run on "
            "pairs, or train one: copy, reverse, sort, double, depths, postfix, parse, or a "
            "grammar of pairs."
        )
        return
    views = {PAIR: _pair, ALL: _alignment, RIGHT: _right}
    if isinstance(run.language, ParitySteps):
        views[STEPS] = _steps
    shown = controls.segments("Show", list(views), "pairs_of")
    with explain_errors():
        views[shown](run, run.language)


def _pair(run: Run, language: Transduction) -> None:
    """Truth, attention and effects side by side."""
    usual = " ".join(language.split(_usual(run, language))[0])
    typed = controls.text_input("Source", usual, key=f"source_of_{run.path}")
    word = one_pair.pair_of(run, typed)
    st.markdown(f"The right pair is {code(' '.join(word))}.")
    table = _looked_at(run, run.model_hash(), word)
    parts = list(dict.fromkeys(table["part"]))
    best = table[table["of"] == "attention"].groupby("part")["auroc"].first()
    first = [best.idxmax()] if len(best) else []
    effects = [part for part in parts if (table[table["part"] == part]["of"] == "effect").any()]
    chosen = controls.several(
        "Lenses", parts[1:], [*first, *effects], key=f"lenses_{run.path}_{len(parts)}"
    )
    figure = one_pair.chart(table, [parts[0], *chosen])
    picture(
        figure, f"Where each symbol of the target of {' '.join(word)} comes from, by each lens."
    )
    how_to_read(
        "A row is a symbol of the target, a column a place of the source. The truth is the "
        "language's own. Attention is read where the model decides the symbol. An effect is what "
        "the symbol's log-probability loses if that place of the source says what it says in "
        "another pair: its symbol is exchanged, or only the keys and values that cross-attention "
        "reads there. The number is the area under the ROC curve on this pair: 0.5 is chance, 1 "
        "finds every place. Colours go up to the largest value of each lens."
    )
    answer = Answer(table, f"One pair of {run.name}: {' '.join(word)}.", {"run": run.name})
    downloads("one-pair", answer, lambda: figure)


def _usual(run: Run, language: Transduction) -> Word:
    """The first pair with which the page opens."""
    return pairs_of(run, 12, 0)[-1].word


@once(show_spinner="Exchanging symbols ...")
def _looked_at(run: Run, digest: str, word: Word) -> pd.DataFrame:
    return one_pair.one_pair(run, word)


def _alignment(run: Run, language: Transduction) -> None:
    """The kept answer of the question."""
    result = kept_or_computed(run, "alignment")
    if result is None:
        return
    judged("alignment", result)
    figure = question("alignment").chart(result)
    picture(figure, f"Alignment. {result.sentence}")
    how_to_read(
        "How often a place that a target symbol comes from gets a higher score than another place "
        "of the source. Half of the pairs choose the best head, the others judge it, with 95% "
        "bootstrap intervals over pairs. Controls: the untrained model; attention on another pair "
        "of the same lengths, which tells how much the lengths alone say; and the nearness to the "
        "diagonal, which needs no model. Where these are as good, a high area is no sign that "
        "attention follows the symbols."
    )
    seeds_of(run, "alignment")
    downloads("alignment", result, lambda: figure)


def _right(run: Run, language: Transduction) -> None:
    """Teacher forcing beside free running."""
    by = BY[controls.segments("By", list(BY), "targets_by")]
    key = f"targets of {run.path}, {run.model_hash()}, {by}"
    table: pd.DataFrame | None = at_once(
        key, lambda told: targets.targets([run], by, progress=told)
    )
    if table is None:
        return
    said = targets.in_words(table)
    st.markdown(text(said))
    figure = targets.chart(table)
    picture(figure, text(said))
    how_to_read(
        "In training each symbol is asked for after the true ones (teacher forcing). In use the "
        "model goes on from its own (free running). Whole targets are right equally often in "
        "both, since up to the first error they read the same; what follows an error differs. "
        "The control of another source has the right length and fluent symbols, and knows nothing "
        "else. By place, pairs of the training window alone are asked."
    )
    in_the_terminal("targets", several=True, by=by)
    downloads("targets", Answer(table, said, {"run": run.name, "by": by}), lambda: figure)


def _steps(run: Run, language: Transduction) -> None:
    """What follows a written step that was turned around."""
    key = f"steps of {run.path}, {run.model_hash()}"
    table: pd.DataFrame | None = at_once(key, lambda told: edited.edited([run], progress=told))
    if table is None:
        return
    said = edited.in_words(table)
    st.markdown(text(said))
    figure = edited.chart(table)
    picture(figure, text(said))
    how_to_read(
        "The target writes the parity after each symbol of the source, and then the answer. One "
        "written step is turned around, and the model goes on by itself. It follows the edit if "
        "what it writes next comes of the written step, and the source if it is right all the "
        "same. Where nothing is edited, what follows the edit is wrong: these errors are made "
        "anyway. Intervals: Wilson's 95% over pairs."
    )
    in_the_terminal("steps", several=True)
    downloads("steps", Answer(table, said, {"run": run.name}), lambda: figure)


def _examples(run: Run) -> None:
    """Accuracy by the number of examples, beside Bayes."""
    key = f"examples of {run.path}, {run.model_hash()}"
    table: pd.DataFrame | None = at_once(
        key, lambda told: in_context.in_context([run], progress=told)
    )
    if table is None:
        return
    query = controls.segments("Query", list(in_context.QUERIES), "query_of_prompts")
    said = in_context.in_words(table)
    st.markdown(text(said))
    for place, rules in zip(st.columns(2), in_context.RULES, strict=True):
        with place:
            shown = f"Right answers by {rules} rules, by the number of examples."
            picture(in_context.panel(table, rules, query), shown, fills=True)
    how_to_read(
        "A rule gives each letter a label of its own, and is drawn anew for each prompt. Held-out "
        "rules were never drawn in training. Bayes counts all rules that fit the examples; of the "
        "trained rules alone it counts as a network would that knows them by heart. The query is "
        "shown if an example has its letter; otherwise the labels that are left are as good as "
        "each other. Intervals: 95% bootstrap over prompts."
    )
    in_the_terminal("in-context", several=True)
    downloads(
        "in-context", Answer(table, said, {"run": run.name}), lambda: in_context.chart(table, query)
    )


def _heads(run: Run) -> None:
    """What is lost without each head, against what it looks at."""
    key = f"heads of prompts of {run.path}, {run.model_hash()}"
    table: pd.DataFrame | None = at_once(
        key, lambda told: induction.induction([run], progress=told)
    )
    if table is None:
        return
    said = induction.in_words(table)
    st.markdown(text(said))
    figure = induction.chart(table)
    picture(figure, text(said), fills=True)
    how_to_read(
        "A point is a head, once by its induction score and once by how much it attends from the "
        "border to the label that the query has in its examples. Up is what is lost without it "
        "(mean ablation), in prompts by held-out rules whose answer an example has, with 95% "
        "bootstrap intervals over prompts."
    )
    in_the_terminal("in-context", several=True, by="heads")
    downloads("induction", Answer(table, said, {"run": run.name}), lambda: figure)


def _prompt(run: Run) -> None:
    """A prompt of one's own: the network's answer beside the posterior."""
    usual = " ".join(run.language.example()).partition(" >")[0]
    typed = controls.text_input("Prompt", usual, key=f"prompt_of_{run.path}")
    word = in_context.prompt_of(run, typed)
    table = _answered(run, run.model_hash(), word)
    figure = in_context.chart_of_one(table)
    picture(figure, f"What is answered to {' '.join(word)}, and how likely.", fills=True)
    if table["probability"].isna().any():
        st.info("No trained rule fits these examples: who knows those by heart has no answer.")
    answer = Answer(table, f"One prompt of {run.name}: {' '.join(word)}.", {"run": run.name})
    downloads("one-prompt", answer, lambda: figure)


@once(show_spinner="Counting rules ...")
def _answered(run: Run, digest: str, word: Word) -> pd.DataFrame:
    return in_context.one_prompt(run, word)
