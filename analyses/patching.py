"""Where is the difference carried? Activation patching between a word and its counterfactuals."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any, Literal

import altair as alt
import numpy as np
import pandas as pd
import torch
from altair.typing import ChartType

from analyses.results import Progress, Result, plain, quiet
from analyses.words import ANALYSIS_SEED, given, member
from interp.metrics import logit_at
from interp.patching import over_pairs, patch
from models.base import LanguageModel
from models.errors import UserError
from models.languages import END_ID, FormalLanguage, Language, Word
from models.runs import Run

QUESTION = "Which activations carry what tells a word from its counterfactual?"
COMPONENTS = ("resid_pre", "attn_out", "conv_out", "mlp_out", "cell", "resid_post", "z")


@dataclass(frozen=True)
class Options:
    """What to patch.

    Attributes:
        word: the clean word; by default a member of the language.
        n: the size of the default word.
        pairs: the most counterfactuals of the word to pair it with.
        direction: "restore" puts clean activations into the corrupted run, "break" corrupted ones
            into the clean run.
        seed: of the choice of counterfactuals.
    """

    word: str | None = None
    n: int = 8
    pairs: int = 16
    direction: Literal["restore", "break"] = "restore"
    seed: int = 0


def counterfactuals(language: Language, word: Word, most: int, seed: int) -> list[Word]:
    """Different counterfactuals of one word. Raises UserError where it has none."""
    rng = np.random.default_rng([ANALYSIS_SEED, seed])
    try:
        drawn = [language.counterfactual(word, rng) for _ in range(8 * most)]
    except LookupError as error:
        raise UserError(
            f"no counterfactual of {' '.join(word)!r}: {error}; choose another word"
        ) from None
    return list(dict.fromkeys(drawn))[:most]


def analyse(run: Run, options: Options, progress: Progress = quiet) -> Result:
    """One row per model and site, means over the pairs.

    Columns: model (trained, untrained), component, layer, head (-1 where there is none), position
    (0 is BOS), symbol (of the clean word), effect (0: as the run patched into; 1: as the run
    patched from), low, high (95% bootstrap over pairs; missing with one pair).

    Raises:
        UserError: an unknown symbol, a word without counterfactual, an unknown line of a corpus.
    """
    if options.pairs < 1:
        raise UserError(f"--pairs is {options.pairs}: it must be at least 1")
    language = run.language
    word = given(language, options.word, member(run, options.n))
    others = counterfactuals(language, word, options.pairs, options.seed)
    clean = torch.as_tensor(language.vocabulary.words([word] * len(others)).tokens)
    corrupted = torch.as_tensor(language.vocabulary.words(others).tokens)
    if options.direction == "break":
        clean, corrupted = corrupted, clean
    model, digest = run.model_and_hash()
    tables = []
    for done, (name, viewed) in enumerate((("trained", model), ("untrained", run.untrained()))):
        progress(done, 2, f"patching, {name} model")
        at = int(viewed.verdict_positions(torch.tensor([len(word)])))
        table = patch(viewed, clean, corrupted, logit_at(END_ID, at), components_of(viewed))
        tables.append(over_pairs(table).assign(model=name))
    progress(2, 2, "patching")
    table = pd.concat(tables, ignore_index=True)
    table["symbol"] = [("<bos>", *word)[p] for p in table["position"]]
    table = table[
        ["model", "component", "layer", "head", "position", "symbol", "effect", "low", "high"]
    ]
    changed = sorted({i + 1 for other in others for i, s in enumerate(other) if s != word[i]})
    found = findings(table) | {
        "word": list(word),
        "counterfactuals": [list(other) for other in others],
        "changed_positions": changed,
        "in_language": bool(isinstance(language, FormalLanguage) and language.contains(word)),
    }
    return Result(table, plain(found), asdict(options), digest)


def components_of(model: LanguageModel) -> list[str]:
    """What there is to patch: the stream or the states, what each part writes, and the heads.

    On a residual stream the layer's end is the next one's beginning; a recurrent layer's states are
    more than its output, since the next position goes on from them.
    """
    inside = {name.rsplit("hook_", 1)[1] for name in model.hook_dict if name.startswith("blocks.0")}
    recurrent = model.config.architecture in ("lstm", "gru")
    return [c for c in COMPONENTS if c in inside and (c != "resid_post" or recurrent)]


def findings(table: pd.DataFrame) -> dict[str, Any]:
    """The head and position with the largest effect; without heads, the site."""
    trained = table[table["model"] == "trained"].dropna(subset="effect")
    if trained.empty:
        return {"summary": "The model does not tell the words apart: there is nothing to carry."}
    heads = trained[trained["component"] == "z"]
    among = trained if heads.empty else heads
    top = among.loc[among["effect"].abs().idxmax()]
    layer, position = int(top["layer"]), int(top["position"])
    place, size = f"position {position} ({top['symbol']})", f"effect {top['effect']:.2f}"
    if heads.empty:
        site = f"layer {layer}'s {top['component']}"
        return {"summary": f"Of all sites {site} at {place} carries most: {size}."}
    head = int(top["head"])
    return {
        "summary": f"Of all heads L{layer}H{head} at {place} carries most: {size}.",
        "top_head": {"layer": layer, "head": head, "position": position},
    }


def chart(result: Result) -> ChartType:
    """Heatmaps of the effect by position: layers above, heads below; changed positions in red."""
    table = result.table[result.table["model"] == "trained"].copy()
    table["place"] = table["position"].astype(str) + " " + table["symbol"]
    places = table.drop_duplicates("position").sort_values("position")["place"].tolist()
    changed = [places[p] for p in result.findings["changed_positions"]]
    x = alt.X("place:N", sort=places, title=None).axis(
        labelAngle=-60,
        labelOverlap=False,
        labelColor=alt.condition(
            alt.FieldOneOfPredicate("value", changed), alt.value("#d1495b"), alt.value("#888")
        ),
    )
    colour = alt.Color("effect:Q").scale(domain=[-1, 0, 1], scheme="redblue", clamp=True)

    def heat(rows: pd.DataFrame, row: str, title: str) -> alt.Chart:
        tooltip = [
            "row",
            "place",
            *(alt.Tooltip(f"{c}:Q", format=".3f") for c in ("effect", "low", "high")),
        ]
        return (
            alt.Chart(rows.assign(row=rows[row]), title=title)
            .mark_rect(stroke="#8884", strokeWidth=0.5)
            .encode(
                x=x,
                y=alt.Y("row:N", sort=list(dict.fromkeys(rows[row])), title=None),
                color=colour,
                tooltip=tooltip,
            )
            .properties(width=max(260, 26 * len(places)), height=alt.Step(20))
        )

    stream = table[table["component"] != "z"].copy()
    stream["site"] = "L" + stream["layer"].astype(str) + " " + stream["component"]
    heads = table[table["component"] == "z"].copy()
    heads["site"] = "L" + heads["layer"].astype(str) + "H" + heads["head"].astype(str)
    rank = {component: index for index, component in enumerate(COMPONENTS)}
    stream = stream.sort_values(
        ["layer", "component"],
        key=lambda c: c.map(rank) if c.name == "component" else c,
        kind="stable",
    )
    streams = heat(stream, "site", "residual stream, states and layer outputs")
    return streams if heads.empty else streams & heat(heads, "site", "heads")


if __name__ == "__main__":
    from analyses.cli import script

    raise SystemExit(script("patching"))
