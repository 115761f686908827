"""Erase and steer: what the model does when a hidden variable is erased, moved or exchanged."""

from __future__ import annotations

import pandas as pd
import streamlit as st

from analyses.answers import Answer, question
from analyses.charts.interventions import chart, charts
from analyses.needs import lack
from analyses.questions.inside.intervention import Change, changed, changes
from analyses.questions.inside.interventions import main_variable
from analyses.questions.parts.patching import said_chart
from analyses.questions.trials.steering import FURTHEST, steering_refusal
from analyses.words import given, member
from dashboard import controls
from dashboard.downloads import downloads
from dashboard.drawing import explain_errors, heading, how_to_read, judged, picture, seeds_of
from dashboard.markup import text
from dashboard.selection import current_run, kept_or_computed, model_of, once, word_input
from interp.model import sites_of
from models.languages import END, Word
from models.runs.run import Run

CAPTIONS = {
    "erasure": (
        "Erased",
        "The share of words that are still right when the variable is erased at a site. LEACE "
        "(least-squares concept erasure) changes an activation as little as possible, but so that "
        "no linear probe finds the variable in it. There are two controls. Random directions: as "
        "many directions are erased. Random readout: random linear functions of the activation are "
        "erased, which takes away about as much of it. If the model needs the variable, erasing it "
        "hurts more than both. Where a random readout ruins as much, the site is fragile, and the "
        "harm proves nothing about the variable.",
    ),
    "steering": (
        "Moved",
        "The last block of each test word goes on too long, and the model says where the word may "
        "end. At every symbol of that block, k is added to the activation's record of the "
        "difference between the last two blocks (in a recurrent network at the first symbol "
        "alone). Does the end come k symbols later, as the dashed line says? In proportion: what "
        "is added is k divided by the length so far, because an average over the word holds the "
        "difference in this form. The large points show what is possible: the state is taken from "
        "a word that really has k more. Pale points: few words ended.",
    ),
    "states": (
        "Put into another state",
        "After a prefix, the mean activation of the prefixes in the wanted state is added, less "
        "the mean of those in its own state. How often may then exactly the symbols follow that "
        "may follow in the wanted state? The control moves as far in a random direction.",
    ),
    "interchange": (
        "Exchanged",
        "A prefix gets another prefix's part of the activation in a subspace. Right is what the "
        "language says, if the variable has the other prefix's value. A bar counts a pair only if "
        "all answers are right. DAS (distributed alignment search) trains the subspace on some "
        "prefixes; its size is chosen on others, and the bars are of others again. "
        "*Next symbols*: read after the prefix. This cannot tell apart two values after which the "
        "same symbols may follow. *Course*: read after each further symbol too. Read again: at "
        "each of them the other prefix, with the same further symbols, is put in again. Carried: "
        "what the two prefixes differ by is kept, and the network must count on from there itself; "
        "a network that only knows whether the word may end fails here. Prefix exchanged: all "
        "positions of the prefix are exchanged, and the further symbols must make use of them. "
        "Controls: the same training in the untrained model, the same training on targets that "
        "mean nothing, and a random subspace, in which the activation moves as far. The whole "
        "activation shows what there is to exchange at a site. Where it does as well as DAS, the "
        "score is no evidence; only the small number of dimensions is.",
    ),
    "scrubbing": (
        "Scrubbed",
        "Causal scrubbing tests what an activation is said to depend on. Where the answer is read, "
        "the activation is taken from another prefix: with the same value of the variable, with "
        "the same next symbols, of the same length, or of the same of classes that mean nothing. "
        "100%: nothing else of the activation is needed there. 0%: as bad as any prefix. Where the "
        "same next symbols suffice, the site needs no more than the answer.",
    ),
}
DO = {"erase": "erase it", "add": "add k to it", "add in proportion": "add k in proportion"}


def show() -> None:
    """The page."""
    heading("Erase and steer", "interventions")
    run = current_run()
    if reason := lack(run, question("interventions").needs):
        st.info(text(reason))
        return
    result = kept_or_computed(run, "interventions")
    if result is not None:
        _answered(result)
    st.subheader("On a word of your own")
    with explain_errors():
        _on_a_word(run, result)


def _answered(result: Answer) -> None:
    """The answer, one experiment after the other."""
    judged("interventions", result)
    for name, figure in charts(result).items():
        title, caption = CAPTIONS[name]
        st.subheader(text(title))
        picture(figure, f"{title}: {result.sentence}")
        how_to_read(text(caption))
        if name == "erasure":
            st.dataframe(_erased_table(result), hide_index=True)
            st.caption(
                "For each variable: the site where erasing it does most harm, beyond the harm of "
                "erasing random directions."
            )
    for line in result.findings["refused"]:
        st.info(text(line))
    seeds_of(current_run(), "interventions")
    downloads("interventions", result, lambda: chart(result))


def _erased_table(result: Answer) -> pd.DataFrame:
    """One row per variable: the site where erasing it hurts most, and what a probe reads there."""
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


def _on_a_word(run: Run, result: Answer | None) -> None:
    """A typed word with one variable changed at one site."""
    names = run.language.main_variables
    columns = st.columns(4)
    main = main_variable(run.language)
    with columns[0]:
        variable = controls.selectbox(
            "Variable", names, names.index(main), key=f"variable_of_{run.language.name}"
        )
    with model_of(run) as model:
        sites = list(sites_of(model))
    found = result.findings if result else {}
    best = (found.get("steering") or found.get("erasure", {}).get(variable) or {}).get("site")
    first = sites.index(best) if best in sites else len(sites) - 1
    with columns[1]:
        site = controls.selectbox("Site", sites, first, key=f"at_{controls.first_run()}")
    with columns[2]:
        change = controls.selectbox(
            "Do", changes(run, variable), format_func=DO.__getitem__, key=f"do_to_{variable}"
        )
    k = 0
    if change != "erase":
        with columns[3]:
            k = controls.slider("k", -FURTHEST, FURTHEST, 2, key="k")
    word = given(run.language, word_input(run, _longer(run)), ())
    said = _changed(run, site, variable, change, k, word)
    st.markdown(_ends(said, word))
    picture(said_chart(said), f"What may follow each prefix, as it is and with {variable} changed.")
    st.caption(
        "The probability of every next token. Adding k: at the symbols on which the variable is "
        "counted. Erasing: at all positions, so that no linear probe finds the variable."
    )


def _longer(run: Run) -> Word:
    """A member. In a language that counts, more of its last symbol follow, so that the place where
    the word may end can move."""
    word = member(run, 8)
    return word if steering_refusal(run) else (*word, *[word[-1]] * FURTHEST)


@once(show_spinner="Computing ...")
def _changed(
    run: Run, site: str, variable: str, change: Change, k: int, word: Word
) -> pd.DataFrame:
    with model_of(run) as model:
        return changed(model, run, site, variable, change, k, word)


def _ends(said: pd.DataFrame, word: Word) -> str:
    """A sentence: after which symbols the word may end, as it is and with the variable changed."""
    rows = said[(said["token"] == END) & said["allowed"]]
    where = {
        name: ", ".join(rows.loc[rows["run"] == name, "place"]) or "nothing"
        for name in ("as it is", "changed")
    }
    return (
        f"The word has {len(word)} symbols. The model lets it end after "
        f"**{text(where['as it is'])}**; with the variable changed, after "
        f"**{text(where['changed'])}**."
    )
