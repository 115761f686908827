"""Erase and steer: a hidden variable taken out, moved or exchanged, and what then happens."""

from __future__ import annotations

from pathlib import Path

import pandas as pd
import streamlit as st

from analyses.answers import Answer
from analyses.charts.interventions import chart, charts
from analyses.close_ups.intervention import Change, changed, changes
from analyses.questions.intervention_trials import (
    FURTHEST,
    main_variables,
    steering_refusal,
    stream_hooks,
)
from analyses.questions.interventions import main_variable, refusal
from analyses.questions.patching import said_chart
from analyses.words import given, member
from dashboard.shared import (
    current_run,
    downloads,
    explain_errors,
    heading,
    kept_or_computed,
    model_of,
    picture,
    seeds_of,
    word_input,
)
from models.languages import END, Word
from models.runs.run import Run

CAPTIONS = {
    "erasure": (
        "Erased",
        "Words still right with the variable erased at a site. LEACE takes away the least after "
        "which no linear probe finds it; random directions take as many directions, a random "
        "readout about as much of the activation. What is needed hurts more than both; where a "
        "random readout ruins as much, the site is fragile and the variable proves nothing.",
    ),
    "steering": (
        "Moved",
        "The last block of a word goes on too long, and k is added to the difference of the last "
        "two blocks at every symbol of it (in a recurrent network at the first alone). Does the "
        "end come k later, as on the dashed line? In proportion: k divided by the length so far, "
        "as an average over the word holds it. The large points show what is possible: the state "
        "of the word that really has k more. Where a point is pale, the word seldom ended.",
    ),
    "interchange": (
        "Exchanged",
        "The activation where the verdict is read, along one direction, comes from another prefix: "
        "how often is the verdict the one that the language gives with the other's variable? Half "
        "are so without (none). DAS trains the direction; the same training in the untrained model "
        "says how much of it is the method's own doing.",
    ),
}
DO = {"erase": "erase it", "add": "add k to it", "add in proportion": "add k in proportion"}


def show() -> None:
    """The page."""
    heading("Erase and steer", "interventions")
    run = current_run()
    if reason := refusal(run):
        st.info(reason)
        return
    result = kept_or_computed(run, "interventions")
    if result is not None:
        answered(result)
    st.subheader("On a word of your own")
    with explain_errors():
        on_a_word(run, result)


def answered(result: Answer) -> None:
    """What came out, experiment by experiment."""
    st.markdown(result.sentence)
    for name, figure in charts(result).items():
        title, caption = CAPTIONS[name]
        st.subheader(title)
        picture(figure, f"{title}: {result.sentence}")
        st.caption(caption)
        if name == "erasure":
            st.dataframe(erased_table(result), hide_index=True)
            st.caption(
                "Per variable, the site where erasing it hurts most beyond random directions."
            )
    for line in result.findings["refused"]:
        st.info(line)
    seeds_of(current_run(), "interventions")
    downloads("interventions", result, lambda: chart(result))


def erased_table(result: Answer) -> pd.DataFrame:
    """Per variable where erasing it hurts most, and what a probe reads there."""
    return pd.DataFrame(
        [
            {
                "variable": name,
                "site": found["site"],
                "words right": f"{found['none']:.0%}",
                "erased": f"{found['LEACE']:.0%}",
                "random directions": f"{found['random directions']:.0%}",
                "random readout": f"{found['random readout']:.0%}",
                "probe": f"{found['probe']:.2f}",
                "probe, erased": f"{found['probe_erased']:.2f}",
            }
            for name, found in result.findings["erasure"].items()
        ]
    )


def on_a_word(run: Run, result: Answer | None) -> None:
    """A typed word with one variable changed at one site."""
    names = main_variables(run.language)
    columns = st.columns(4)
    main = main_variable(run.language)
    variable = columns[0].selectbox(
        "Variable", names, names.index(main), key=f"variable_of_{run.language.name}"
    )
    with model_of(run) as model:
        sites = list(stream_hooks(model))
    found = result.findings if result else {}
    best = (found.get("steering") or found.get("erasure", {}).get(variable) or {}).get("site")
    site = columns[1].selectbox(
        "Site", sites, sites.index(best) if best in sites else len(sites) - 1, key=f"at_{run.name}"
    )
    change = columns[2].selectbox("Do", changes(run, variable), format_func=DO.__getitem__)
    k = 0
    if change != "erase":
        k = columns[3].slider("k", -FURTHEST, FURTHEST, 2, key="k", bind="query-params")
    word = given(run.language, word_input(run, longer(run)), ())
    said = _changed(str(run.path), run.model_hash(), site, variable, change, k, word)
    st.markdown(ends(said, word))
    picture(said_chart(said), f"What may follow each prefix, as it is and with {variable} changed.")
    st.caption(
        "The probability of every next token. k is added along the symbols that the variable is "
        "counted on; erased is what no linear probe shall find, at all positions."
    )


def longer(run: Run) -> Word:
    """A member; of a language that counts with more of its last symbol: its end can move."""
    word = member(run, 8)
    return word if steering_refusal(run) else (*word, *[word[-1]] * FURTHEST)


@st.cache_data(max_entries=64, show_spinner="Computing ...")
def _changed(
    path: str, digest: str, site: str, variable: str, change: Change, k: int, word: Word
) -> pd.DataFrame:
    run = Run(Path(path))
    with model_of(run) as model:
        return changed(model, run, site, variable, change, k, word)


def ends(said: pd.DataFrame, word: Word) -> str:
    """After which symbols the word may end, before and after, in a sentence."""
    rows = said[(said["token"] == END) & (said["probability"] > 0.5)]
    where = {
        name: ", ".join(rows.loc[rows["run"] == name, "place"]) or "nothing"
        for name in ("as it is", "changed")
    }
    return (
        f"Of {len(word)} symbols, the model lets the word end after **{where['as it is']}**; "
        f"changed, after **{where['changed']}**."
    )
