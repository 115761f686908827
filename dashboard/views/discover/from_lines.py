"""Discover: a corpus of labelled lines, and the rule that a network finds behind them."""

from __future__ import annotations

import json
from functools import partial
from pathlib import Path
from typing import Any

import pandas as pd
import streamlit as st
from automata.fa.dfa import DFA

from analyses.answers import Answers
from analyses.charts.automaton import automaton_chart, note
from analyses.charts.discovery import recovery_chart
from analyses.options.lines import Study, safe_name
from analyses.questions.rule.rule_evidence import transitions
from analyses.rules.lines import MOST_LINES, as_tsv
from analyses.rules.narrowing import answers_of, automaton, outcome
from analyses.rules.record import FOLDER, evidence, headline, kept, names, table
from analyses.rules.recovery import file_name
from dashboard import controls
from dashboard.drawing import Parts, explain_errors, link_to, picture, says, tabs, training_curves
from dashboard.markup import code, message, text
from dashboard.selection import model_of, runs_folder
from dashboard.views.discover.informant import ask, narrowed_by
from dashboard.views.discover.learners import begin, fault, folder_of, is_learning, learn, lines_of
from dashboard.views.discover.rule_of_run import details, said
from dashboard.views.languages.removed import put_aside, remove
from interp.automata.extraction import run as verdicts_of
from models.languages import printed_lines
from models.languages.files.lines import MOST_BYTES
from models.runs.run import Run
from models.training.evaluation import predict

STUDIES: dict[Study, str] = {
    "rules": "planted rules",
    "dieren": "the Dutch rule, ten seeds",
    "lines": "how many lines it takes",
    "noise": "how many wrong labels are too many",
    "disfluent": "how many disfluent words are too many",
    "automata": "automata by their class",
}
NEW = "A new corpus"
ENDINGS = ["tsv", "txt", "csv", "json", "jsonl"]


def show() -> None:
    """The page."""
    if "begun" in st.session_state:  # a widget's own value cannot be set once it is drawn
        st.session_state["corpus"] = st.session_state.pop("begun")
    chosen = controls.selectbox("Corpus", [*names(runs_folder()), NEW], key="corpus")
    with explain_errors():
        if chosen == NEW:
            _new_corpus()
        else:
            _known_corpus(chosen)
    with explain_errors():
        put_aside(FOLDER)
    with explain_errors():
        _studies()


def _known_corpus(name: str) -> None:
    """A corpus that is learned, was learned, or was given up."""
    record = kept(runs_folder(), name)
    if record is None:
        st.info(f"{text(name)} has been removed.")
    elif record["status"] == "finished":
        _found_rule(record, folder_of(name))
    elif is_learning(name):
        _learning(name)
    else:
        _stopped(name, record)
    if not is_learning(name) and controls.button("Remove this corpus", key=f"remove {name}"):
        remove(name, FOLDER)
        st.rerun()


# -- a new corpus -------------------------------------------------------------------------------


def _studies() -> None:
    """The share of planted rules that comes back: the kept studies of `lab recover`."""
    kept = {
        name: answer
        for name in STUDIES
        if (answer := Answers(runs_folder(), file_name(name)).latest()) is not None
    }
    if not kept:
        return
    st.header("How much of a planted rule comes back?", divider="gray")
    study = controls.segments("Study", list(kept), "study", format_func=STUDIES.__getitem__)
    result = kept[study]
    st.markdown(text(result.sentence))
    picture(recovery_chart(result), f"How much comes back. {result.sentence}")
    with st.expander("Table"):
        st.dataframe(result.table, hide_index=True)


def _new_corpus() -> None:
    """A file of the user's own, or the printed lines."""
    st.markdown(says("discover: upload", most=f"{MOST_LINES:,}", size=MOST_BYTES // 2**20))
    upload = st.file_uploader("Lines", ENDINGS, max_upload_size=MOST_BYTES // 2**20)
    printed = st.button("Take the 26 printed lines of the lecture")
    columns, letters = list[str](), False
    if printed:
        content, file = as_tsv(*zip(*printed_lines(), strict=True)).encode(), "printed.tsv"
    elif upload is not None:
        content, file = upload.getvalue(), upload.name
        columns, letters = _reading()
    else:
        return
    labels, words, notes = lines_of(content, file, None, columns, letters)
    for remark in notes:
        st.info(text(remark))
    counts = pd.Series(labels).value_counts()
    st.markdown(", ".join(f"**{n:d}** lines of {text(label)}" for label, n in counts.items()))
    st.caption(says("discover: lines"))
    lines = pd.DataFrame({"label": labels, "line": [" ".join(word) for word in words]})
    st.dataframe(lines.head(200), hide_index=True, height=220)
    accepted = st.segmented_control(
        "Describe the lines of the label", list(counts.index), default=labels[0], format_func=text
    )
    st.caption(says("discover: label"))
    if printed or st.button("Discover the rule", type="primary"):
        labels, words, notes = lines_of(content, file, accepted, columns, letters)
        st.session_state["begun"] = learn(safe_name(Path(file).stem), labels, words, notes)
        st.rerun()


def _reading() -> tuple[list[str], bool]:
    """The columns that the reader names, those of labels and of texts; and whether letters are
    symbols."""
    with st.expander("Choose the columns, or cut texts into letters"):
        left, right = st.columns(2)
        names = [
            left.text_input("Column of labels", placeholder="its name, or its number"),
            right.text_input("Column of texts", placeholder="its name, or its number"),
        ]
        letters = st.toggle("Each letter of a text is a symbol")
    return names if all(names) else [], letters


# -- while it learns ----------------------------------------------------------------------------


def _learning(name: str) -> None:
    """Watch it learn: what is being done, and a curve for each network."""

    @st.fragment(run_every=1)
    def watch() -> None:
        with explain_errors():
            record = kept(runs_folder(), name)
            if record is None or record["status"] == "finished" or not is_learning(name):
                st.rerun(scope="app")
            st.info(text(record["doing"]), icon=":material/hourglass_top:")
            _learning_curves(record)

    watch()


def _stopped(name: str, record: dict[str, Any]) -> None:
    """The learner has ended too early: shows why, if it said so, and how to go on."""
    if reason := fault(name):
        st.error(message(reason), icon=":material/error:")
    else:
        st.warning(
            f"The discovery of {text(name)} did not finish. What it has learned so far is kept."
        )
    if st.button("Go on", type="primary"):
        begin(name, record["options"])
        st.rerun()


def _learning_curves(record: dict[str, Any]) -> None:
    """Draws the training of each network that has begun, the newest first."""
    for network in reversed(record["networks"]):
        path = runs_folder() / network["run"]
        if path.exists() and Run(path).metrics():
            st.markdown(f"**{text(path.name)}**")
            training_curves(Run(path))


# -- what was found -----------------------------------------------------------------------------


def _found_rule(record: dict[str, Any], folder: Path) -> None:
    """The rule, the rules beside it, how far to trust it, what the rivals say, and lines to try."""
    rule, (accepted, other) = record["found"], record["labels"]
    parts: Parts = {}
    if record["space"]:
        chosen = _space_of_rules(record, folder, parts)
    else:
        chosen = record
        _first_rule(record, evidence(record))
        if record["best"] and record["best"]["dfa"]:
            st.markdown(says("discover: alone"))
    if run := record["run"]:
        link_to("heads", f"Look inside {run}", open=run)
        st.caption(says("discover: network", run=run, accepted=accepted, other=other))
    right = {"held-out right": st.column_config.NumberColumn(format="percent")}
    rows = pd.DataFrame(table(record))
    parts["Who finds what"] = partial(st.dataframe, rows, hide_index=True, column_config=right)
    if rule["dfa"]:
        dfa = automaton((chosen["best"] or rule)["dfa"] or rule["dfa"])
        parts["Try a line"] = partial(_try_lines, record, dfa)
        parts["What the network says"] = partial(said, rule)
        parts |= details(rule)
    if disagreements := record["disagreements"]:
        table_of = partial(st.dataframe, pd.DataFrame(disagreements), hide_index=True)
        parts["Where label, rule and network disagree"] = table_of
    tabs("part_of_rule", {**parts, "How it learned, and downloads": partial(_learned, record)})


def _learned(record: dict[str, Any]) -> None:
    """The curves of the networks, and all that is known, as a file."""
    _learning_curves(record)
    st.download_button(
        "Everything found (JSON)",
        json.dumps(record, ensure_ascii=False, indent=2),
        f"{record['name']}.json",
        "application/json",
        on_click="ignore",
    )


def _space_of_rules(record: dict[str, Any], folder: Path, parts: Parts) -> dict[str, Any]:
    """The rule, and the rules beside it, after the answers of the reader.

    Args:
        parts: takes up the part that lists the rules beside it.

    Returns the record with the best rule that the answers leave; if they leave none, as it was.
    """
    answers = answers_of(folder, record)
    space, lines = narrowed_by({key: record[key] for key in ("best", "space")}, answers, folder)
    chosen = record | {"best": space.left[0]} if space.left else record
    sentences = [outcome(record, space, len(answers))] if answers else []
    if space.left[:1] == [record["best"]]:
        sentences.append(evidence(record))
    if space.left:
        _first_rule(chosen, " ".join(sentences))
    else:
        st.markdown(f"#### No rule of the space is left.\n\n{text(sentences[0])}")
    ask(folder, record, answers, space, lines, parts)
    return chosen


def _first_rule(record: dict[str, Any], evident: str) -> None:
    """The best rule in words and drawn, and what speaks for it."""
    st.markdown(f"#### {text(headline(record))}")
    st.markdown(text(evident))
    for remark in record.get("notes", []):
        st.markdown(text(remark))
    _drawn_rule(record)


def _drawn_rule(record: dict[str, Any]) -> None:
    """Draws the automaton of the best rule."""
    best, sentence = record["best"], headline(record)
    if best is None or best["dfa"] is None:
        picture(note(sentence), sentence)
        return
    dfa = automaton(best["dfa"])
    picture(
        automaton_chart(transitions(dfa, sorted(dfa.input_symbols))),
        f"The automaton of the rule. {sentence}",
    )
    st.caption(
        "State 0 is the start; a ring marks a state in which a line is "
        f"{text(record['labels'][0])}."
    )


def _try_lines(record: dict[str, Any], dfa: DFA) -> None:
    """Rule and network on a typed line, and the states that the automaton goes through."""
    run = Run(runs_folder() / record["run"])
    corpus = run.language
    example = " ".join(corpus.example())
    typed = controls.text_input(
        "Line",
        example,
        key=f"line_{record['name']}",
        help=code(" ".join(corpus.vocabulary.symbols)),
    )
    word = corpus.vocabulary.parse(typed or "")
    if not word:
        st.info("Type a line.")
        return
    with model_of(run) as model:
        by_network = predict(model, word, run.objective)[1]
    by_rule = bool(verdicts_of(dfa, [word])[0])
    accepted, other = record["labels"]
    left, right = st.columns(2)
    left.metric("The rule says", text(accepted if by_rule else other))
    right.metric("The network says", text(accepted if by_network else other))
    states = [dfa.initial_state]
    for symbol in word:
        states.append(dfa.transitions[states[-1]][symbol])
    moves = [
        f":orange-background[**{text(symbol)}**] →{after:d}" if before != after else text(symbol)
        for symbol, before, after in zip(word, states, states[1:], strict=False)
    ]
    st.markdown(" ".join(moves))
    st.caption("Marked: each word that moves the automaton, and the state that it leads to.")
