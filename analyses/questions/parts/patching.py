"""Which activations carry the difference between a word and its counterfactuals? Activation
patching between the two."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, get_args

import altair as alt
import numpy as np
import pandas as pd
import torch
from altair.typing import ChartType
from jaxtyping import Int
from torch import Tensor

from analyses.answers import (
    Answer,
    Planned,
    Progress,
    models_of,
    numbers,
    of_answer,
    plain,
    quiet,
)
from analyses.charts.marks import heat
from analyses.charts.theme import QUIET, figures, named
from analyses.claims import COUNTS, Claim
from analyses.options.parts import Component, MetricName
from analyses.options.parts import Patching as Options
from analyses.words import counterfactuals, given, member
from interp.causal.metrics import ReadAt, closeness_at, logit_at, probability_at
from interp.causal.patching import over_pairs, patch
from interp.causal.sites import PLACE, Site
from models.base import LanguageModel
from models.errors import UserError
from models.languages import END_ID, FormalLanguage, Language, Word
from models.runs.run import Run

DEFAULTS = ("resid_pre", "attn_out", "conv_out", "mlp_out", "cell", "resid_post", "z")
METRICS: dict[MetricName, str] = {
    "logit": "END's logit",
    "probability": "END's probability",
    "closeness": "closeness of all next-token probabilities (-KL)",
}
EFFECTS = [
    *("effect", "low", "high", "pairs", "choice"),
    *("judged", "judged_low", "judged_high", "judged_pairs", "shift_choice", "shift"),
]
CARRIERS = ("resid_pre", "resid_mid", "resid_post", "cell")
"""The stream and the states: all that is known at a position passes through them."""
MOST_ROWS = 48
"""The most rows of a picture. Of many neurons or pattern entries, it shows those with the largest
effects."""


def analyse(run: Run, options: Options, progress: Progress = quiet) -> Answer:
    """One row per model and site, means over the pairs.

    Columns: model (trained, untrained), component, layer, head, neuron, position (0 is BOS), key
    (of a pattern), each -1 where there is none or all are patched at once; symbol (of the clean
    word), effect (0: as the run patched into; 1: as the run patched from), low, high (95% bootstrap
    over pairs; missing with one pair), choice and judged (the effect over every other pair, which
    choose a site, and over those between, which judge it; with one pair both are its effect),
    judged_low, judged_high (95% bootstrap over the pairs that judge), pairs and judged_pairs, over
    how many both are means, and shift_choice and shift: choice and judged in units of the trained
    network's difference, which in the trained network are the same.

    Raises:
        UserError: an unknown symbol, a word without counterfactual, a corrupted word of another
            length, an unknown line of a corpus, a component that the model does not have.
    """
    language = run.language
    word = given(language, options.word, () if options.word else member(run, options.n))
    others = _corrupted_words(language, word, options)
    clean = torch.as_tensor(language.vocabulary.words([word] * len(others)).tokens)
    corrupted = torch.as_tensor(language.vocabulary.words(others).tokens)
    if options.direction == "break":
        clean, corrupted = corrupted, clean
    tables, apart = [], pd.Series(dtype=float)
    for name, viewed in models_of(run, progress):
        at = int(viewed.verdict_positions(torch.tensor([len(word)])))
        table = patch(
            viewed,
            clean,
            corrupted,
            _metric(viewed, options.metric, clean, at),
            _components_of(viewed, options.components),
            whole=options.whole,
        )
        clean_run, before = table["clean"].astype(float), table["corrupted"].astype(float)
        if name == "trained":
            apart = (clean_run - before).where(table["effect"].notna())
        moved = table.assign(effect=(table["patched"] - before) / apart)
        tables.append(_with_halves(table, moved).assign(model=name))
    table = pd.concat(tables, ignore_index=True)
    table["symbol"] = [("<bos>", *word, "all")[p] for p in table["position"]]
    table = table[["model", *PLACE, "symbol", *EFFECTS]]
    changed = sorted({i + 1 for other in others for i, s in enumerate(other) if s != word[i]})
    top = _top(table[table["model"] == "trained"])
    findings = ({} if top is None else {"top_site": site_name(top.to_dict())}) | {
        "word": list(word),
        "counterfactuals": [list(other) for other in others],
        "changed_positions": changed,
        "in_language": language.contains(word) if isinstance(language, FormalLanguage) else None,
    }
    return Answer(table, findings=plain(findings))


def _with_halves(table: pd.DataFrame, moved: pd.DataFrame) -> pd.DataFrame:
    """``over_pairs``, with the effects over the pairs that choose and over those that judge.

    Args:
        moved: the same table, in units of the trained network's difference.
    """
    several = table["pair"].any()
    choosing, judging, *shifts = (
        over_pairs(rows[rows["pair"] % 2 == half] if several else rows)
        for rows in (table, moved)
        for half in (0, 1)
    )
    ends = {f"judged_{name}": judging[name] for name in ("low", "high", "pairs")}
    ends |= {"shift_choice": shifts[0]["effect"], "shift": shifts[1]["effect"]}
    return over_pairs(table).assign(choice=choosing["effect"], judged=judging["effect"], **ends)


def _corrupted_words(language: Language, word: Word, options: Options) -> list[Word]:
    """The words to compare with: the one that was asked for, or counterfactuals.

    Raises:
        UserError: see ``analyse``.
    """
    if options.corrupted is None:
        return counterfactuals(language, word, options.pairs, options.seed)
    other = given(language, options.corrupted, word)
    if len(other) != len(word) or other == word:
        sizes = f"has {len(other)} symbols and the clean one {len(word)}"
        fault = "is the clean one" if other == word else sizes
        raise UserError(f"the corrupted word {fault}: give two different words of one length")
    return [other]


def _metric(
    model: LanguageModel, name: MetricName, source: Int[Tensor, "pair pos"], at: int
) -> ReadAt:
    if name == "logit":
        return logit_at(END_ID, at)
    if name == "probability":
        return probability_at(END_ID, at, model.softmax)
    with torch.no_grad():
        return closeness_at(model(source)[:, at], at, model.softmax)


def _components_of(model: LanguageModel, names: Sequence[str] = ()) -> list[str]:
    """The components to patch: the stream or the states, what each part writes, and the heads.

    On a residual stream the end of a layer is the beginning of the next, so it is not patched
    again. The states of a recurrent layer are more than its output, since the next position goes on
    from them, so they are patched as well. A feedforward network has nothing but its layers.

    Raises:
        UserError: the model does not have what was asked for.
    """
    has = [c for c in get_args(Component) if Site(c, 0, 0).hook in model.hook_dict]
    for name in names:
        if name not in has:
            raise UserError(f"this model has no {name}: choose from {', '.join(has)}")
    family = model.config.family
    ends = family.recurrent or family.whole
    usual = [c for c in DEFAULTS if c in has and (c != "resid_post" or ends)]
    return list(dict.fromkeys(names)) or usual


def site_name(site: Mapping[str, Any]) -> str:
    """A site of the table in words: "L0H1 z at 4"."""
    at = "everywhere" if site["position"] < 0 else f"at {site['position']}"
    return f"{_row_name(site)} {at}"


def _row_name(site: Mapping[str, Any]) -> str:
    """A site without its position: a row of the heatmaps."""
    head = f"H{site['head']}" if site["head"] >= 0 else ""
    what = f"neuron {site['neuron']}" if site["neuron"] >= 0 else site["component"]
    key = f" to {site['key']}" if site["key"] >= 0 else ""
    return f"L{site['layer']}{head} {what}{key}"


def _top(table: pd.DataFrame) -> pd.Series | None:
    """The site that half of the pairs choose: a head and position; where no heads were patched, a
    part, or else any site. None where the trained model does not tell the words apart."""
    rows = table.dropna(subset="shift")
    for among in (rows["component"] == "z", ~rows["component"].isin(CARRIERS)):
        if among.any():
            rows = rows[among]
            break
    return None if rows.empty else rows.iloc[int(rows["shift_choice"].abs().fillna(0).argmax())]


def _claims(answer: Answer) -> list[Claim]:
    """The site that half of the pairs choose, judged by the others, beside two controls: what the
    untrained network's strongest site carries, and the median site of the same kind.

    Both are in units of the trained network's difference. An untrained network may hardly tell the
    words apart, and any site then carries many times its own difference. Sites before the first
    place at which the words differ are no control: in a causal network they carry nothing whatever
    was learned. So the median is over the sites from there on, or from the chosen one on.
    """
    facts, sides = answer.findings, dict(iter(answer.table.groupby("model")))
    rows = sides["trained"]
    top, other = _top(rows), _top(sides["untrained"])
    if top is None or other is None:
        finding = "The network does not tell this word from the others"
        reason, words = "So no activation carries a difference.", len(facts["counterfactuals"])
        return [Claim(finding, None, None, None, words, "others", unweighed=reason)]
    sign, pairs = np.sign(top["choice"]) or 1.0, int(top["judged_pairs"])
    low, high = sorted(sign * top[end] for end in ("judged_low", "judged_high"))
    place = "" if top["position"] < 0 else f" ({top['symbol']})"
    there = rows["position"] >= min(*facts["changed_positions"], top["position"])
    alike = rows[there & (rows["component"] == top["component"])].drop(top.name)
    return [
        Claim(
            f"{'Of all heads, patching' if top['component'] == 'z' else 'Patching'} "
            f"{facts['top_site']}{place} carries {{}} of the difference between this word and "
            "others",
            sign * top["judged"],
            low,
            high,
            pairs,
            "pairs of one word, which did not choose the site" if pairs > 1 else "pair",
            "bootstrap over pairs",
            {
                "the untrained network's strongest site": abs(other["shift"]),
                "the median site of this kind": float(alike["shift"].abs().median()),
                **COUNTS,
            },
            "z.0%",
            unweighed="All that is known passes through the stream and the states, so that some "
            "place of them carries all in any network."
            if top["component"] in CARRIERS
            else "",
        )
    ]


def _headline(result: Answer) -> pd.DataFrame:
    """The numbers that are compared over seeds: variable (the component), of, value.

    For each component, of the absolute values of its effects: the largest, which half of the pairs
    choose and the others judge, in units of the trained network's difference; and the shares of
    their sum that lie in the largest site and at the positions where the words differ.
    """
    table = result.table.assign(size=result.table["effect"].abs()).dropna(subset="size")
    changed = table["position"].isin(result.findings["changed_positions"])
    rows: list[tuple[str, str, float | None]] = []
    for (model, component), sites in table.groupby(["model", "component"], sort=False):
        about = "" if model == "trained" else f", {model}"
        largest, total = sites["size"].max(), sites["size"].sum()
        judged = sites["shift"].iloc[int(sites["shift_choice"].abs().fillna(0).argmax())]
        rows.append((component, f"largest effect{about}", abs(judged)))
        if total > 0:
            rows.append((component, f"share of the sum in one site{about}", largest / total))
        if total > 0 and (sites["position"] >= 0).all():
            there = sites.loc[changed.loc[sites.index], "size"].sum() / total
            rows.append((component, f"share of the sum where words differ{about}", there))
    return numbers(rows)


def charts(result: Answer, chosen: str | None = None) -> dict[str, ChartType]:
    """Heatmaps of the effect by position: of the stream, and of each kind of part in the layers.

    Changed positions are in red. A chosen site is framed, and a click selects another one: its name
    is the field "site" of the selection "cell".
    """
    table = result.table[result.table["model"] == "trained"].copy()
    table["place"] = table["position"].astype(str) + " " + table["symbol"]
    table.loc[table["position"] < 0, "place"] = "all positions"
    table["site"] = [site_name(site) for site in table.to_dict("records")]
    table["row"] = [_row_name(site) for site in table.to_dict("records")]
    within = {"z": "heads", "neuron": "neurons", "pattern": "patterns: position by key"}
    kinds = {c: within.get(c, f"heads: {c}") for c in ("z", "q", "k", "v", "pattern", "neuron")}
    table["kind"] = table["component"].map(kinds).fillna("residual stream, states and outputs")
    rank = {component: index for index, component in enumerate(get_args(Component))}
    outputs = ~table["component"].isin(list(kinds))
    order = table["layer"] * 100 + table["component"].map(rank).where(outputs, 0)
    table = table.iloc[order.argsort(kind="stable")]
    changed = result.findings["changed_positions"]
    return {
        str(kind): _heat(rows, str(kind), changed, chosen)
        for kind, rows in table.groupby("kind", sort=False)
    }


def _heat(rows: pd.DataFrame, title: str, changed: list[int], chosen: str | None) -> ChartType:
    size = rows.assign(size=rows["effect"].abs()).groupby("row")["size"].max()
    if len(size) > MOST_ROWS:
        title += f" (the {MOST_ROWS} with the largest effects)"
        rows = rows[rows["row"].isin(size.nlargest(MOST_ROWS).index)]
    ordered = rows.drop_duplicates("position").sort_values("position")
    places = ordered["place"].tolist()
    red = ordered[ordered["position"].isin(changed)]["place"].tolist()
    other = alt.FieldOneOfPredicate("value", red)
    ink = alt.condition(other, alt.value("#d1495b"), alt.value(QUIET))
    return heat(
        rows,
        named(alt.X, "place", places, labelColor=ink),
        alt.Y("row:N", sort=list(dict.fromkeys(rows["row"])), title=None),
        ["site", "place", *figures("effect", "low", "high")],
        alt.Color("effect:Q").scale(domain=[-1, 0, 1], scheme="redblue", clamp=True),
        framed=None if chosen is None else alt.datum.site == chosen,
        click=None if chosen is None else "site",
    ).properties(width=max(260, 26 * len(places)), height=alt.Step(20), title=title)


def chart(result: Answer) -> ChartType:
    """All heatmaps, one below the other."""
    return alt.vconcat(*charts(result).values())


def next_tokens(
    run: Run, word: Word, runs: Mapping[str, Tensor], prefixes: Sequence[int] | None = None
) -> pd.DataFrame:
    """The answers of a model after prefixes of a word.

    Args:
        runs: logits after these prefixes, [prefix, d_vocab], by the name of the run of the model.
        prefixes: the symbols of each prefix; without them BOS alone, and every symbol.

    Returns:
        One row per run, prefix and token: run, position, place ("3 b"), token, probability,
        allowed. Of a run that was taught verdicts alone, END is the only token.
    """
    prefixes = range(len(word) + 1) if prefixes is None else prefixes
    tokens = run.objective.tokens(run.language.vocabulary)
    ids = [run.language.vocabulary.ids[token] for token in tokens]
    position = np.repeat(prefixes, len(tokens))
    tables = []
    for name, logits in runs.items():
        table = pd.DataFrame({"run": name, "position": position})
        table["place"] = [f"{p} {('<bos>', *word)[p]}" for p in position]
        table["token"] = np.tile(tokens, len(prefixes))
        table["probability"] = run.objective.probabilities(logits)[:, ids].flatten().numpy()
        table["allowed"] = run.objective.allowed(logits)[:, ids].flatten().numpy()
        tables.append(table)
    return pd.concat(tables, ignore_index=True)


def said_chart(table: pd.DataFrame) -> ChartType:
    """The answers of some runs: a matrix for each, positions across and next tokens down.

    Args:
        table: columns run, place, token, probability.
    """
    places, runs = table["place"].unique().tolist(), table["run"].unique().tolist()
    picture = heat(
        table,
        named(alt.X, "place", places, "after"),
        alt.Y("token:N", sort=None, title=None),
        ["run", "place", "token", *figures("probability")],
        alt.Color("probability:Q").scale(domain=[0, 1], scheme="blues"),
    ).properties(width=max(60, 22 * len(places)), height=24 * table["token"].nunique())
    row = alt.Row("run:N", sort=runs, title=None).header(labelAngle=0, labelAlign="left")
    return picture.facet(row=row)


QUESTION = of_answer(
    "patching",
    Options,
    analyse,
    _headline,
    chart,
    _claims,
    planned=(Planned("largest effect", "largest effect, untrained"),),
    needs=("verdict",),
)
