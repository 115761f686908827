"""LIME, SHAP, gradients, attention and interventions on one word, beside the truth."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

import altair as alt
import numpy as np
import pandas as pd
import torch
from altair.typing import ChartType
from scipy.special import expit

from analyses.answers import Answer, Progress, numbers, of_answer, plain, quiet
from analyses.charts.marks import heat, white_where
from analyses.charts.theme import EDGE, figures
from analyses.claims import Claim
from analyses.options.words import Explanations as Options
from analyses.options.words import Leaderboard, Replacement
from analyses.words import ANALYSIS_SEED, apart, given, member, near_miss
from interp.causal.metrics import log_odds_at
from interp.explanations.case import Case
from interp.explanations.explain import explain, judge
from interp.explanations.games import SCALES, Game, Score, on_both_scales
from interp.explanations.methods import METHODS, Family, called, offered
from interp.explanations.moved_attention import LARGEST, TOLERANCE, moved_attention
from interp.explanations.saliency import ENOUGH
from interp.model import one_stream
from models.base import LanguageModel
from models.errors import UserError
from models.languages import END_ID, FormalLanguage, Language, Word, Words
from models.languages.vocabulary import FIRST_SYMBOL_ID
from models.runs.run import Run
from models.transformer.model import HookedTransformer

LONGEST = 60
HOOK = "blocks.0.attn.hook_pattern"
"""A model with this hook has attention."""


def analyse(run: Run, options: Options, progress: Progress = quiet) -> Answer:
    """One row per method and position.

    Columns: method ("untrained": the claimed one, asked of the untrained network), family, estimand
    (what the values estimate), scale (what is explained: the probability, the log odds, for
    "language" the membership itself; "none" for values without a unit), baseline (what stands in
    for hidden symbols; "none" where the method hides none), position (0-based, BOS not counted),
    symbol, value (positive speaks for "in the language", in the scale's unit; attention only says
    how much), in_rationale (is it in one of the sets of positions that decide?), calls (words
    scored for all scales), seconds (for all scales), completeness and gain (in the scale's unit).

    Raises:
        UserError: an unknown symbol, or a word too long to explain.
    """
    language = run.language
    drawn = member if run.objective.verdict_alone else near_miss
    word = given(language, options.word, () if options.word else drawn(run, options.n))
    if not 2 <= len(word) <= LONGEST:
        raise UserError(f"the word has {len(word)} symbols: explain one of 2 to {LONGEST}")
    model = run.model()
    case, untrained = (
        case_of(network, language, word, options.replacement, options, options.seed)
        for network in (model, run.untrained())
    )
    names = offered(case)
    tables = []
    for done, name in enumerate(names):
        progress(done, len(names), f"{name} on {len(word)} symbols")
        tables.append(explain(case, [name], options.seed))
    table = pd.concat(tables, ignore_index=True)
    scores = judge(case, table, options.seed)
    hides = [METHODS[name].replaces for name in table["method"]]
    table.insert(4, "baseline", np.where(hides, options.replacement, "none"))
    control, agreement = as_control(untrained, CLAIMED, SCALES[0], options.seed)
    table = pd.concat([table, control.assign(baseline=options.replacement)], ignore_index=True)
    scores = pd.concat([scores, agreement], ignore_index=True)
    table.insert(6, "symbol", [word[p] for p in table["position"]])
    rationale = language.rationale(word)
    table.insert(8, "in_rationale", np.isin(table["position"], rationale or ()))
    moved = pd.DataFrame()
    if HOOK in model.hook_dict and one_stream(model):
        progress(len(names), len(names), "moving attention")
        logit = case.metrics["log odds"]
        moved = moved_attention(model, case.word, case.at, logit, seed=options.seed)
    progress(len(names), len(names), "explained")
    findings = {
        "word": list(word),
        "rationale": None if rationale is None else list(rationale),
        "rationales": len(case.rationales or ()),
        "rationale_rule": language.rationale_rule,
        "replacement": replacement_in_words(options.replacement, language),
        "probability": float(expit(case.game.score(case.game.word[None])[0])),
        "in_language": bool(language.contains(word)) if case.truth is not None else None,
        "moved_attention": moved.to_dict("records"),
        "agreement": scores.astype(object).where(scores.notna(), None).to_dict("records"),
    }
    return Answer(table, findings=plain(findings))


CLAIMED, UNTRAINED = "SHAP kernel", "untrained"
"""The method of which something is claimed on one word, whatever the numbers are; and the control
that is a method, asked of the untrained network."""


def as_control(
    case: Case, name: str, scale: str, seed: int, remember: bool = False
) -> tuple[pd.DataFrame, pd.DataFrame]:
    """A method's answer about the untrained network's verdict, and how right it is: rows of
    ``explain`` and of ``judge``."""
    table = explain(case, [name], seed, remember)
    table = table[table["scale"] == scale].reset_index(drop=True)
    about = {"method": UNTRAINED, "family": "control", "scale": "none"}
    about["estimand"] = f"{called(name, scale)} of the untrained network"
    return table.assign(**about), judge(case, table, seed).iloc[:1].assign(**about)


def case_of(
    model: LanguageModel,
    language: Language,
    word: Word,
    replacement: Replacement,
    options: Options | Leaderboard,
    seed: int,
) -> Case:
    """A model's verdict on a word, for every method.

    Args:
        options: the draws, samples and steps that a method may take.
        seed: seed of the replacements.

    Raises:
        UserError: no word of this length to draw replacements from.
    """
    ids = language.vocabulary.words([word]).ids[0]
    hidden = _replacements(language, len(word), replacement, options.draws, seed)
    formal = isinstance(language, FormalLanguage)
    effects = language.substitution_effects(word)
    return Case(
        Game(log_odds(model), ids, hidden, on_both_scales),
        model,
        END_ID,
        int(model.verdict_positions(torch.tensor([len(word)]))),
        np.arange(len(language.vocabulary.symbols)) + FIRST_SYMBOL_ID,
        Game(_membership(language), ids, hidden) if formal else None,
        language.rationales(word),
        effects if effects is None or language.contains(word) else -effects,
        options.samples,
        options.steps,
        softmax=model.softmax,
    )


def _replacements(
    language: Language, length: int, kind: Replacement, draws: int, seed: int
) -> np.ndarray:
    """Stand-ins for hidden symbols: token ids, [draws, length]; one draw of a fixed symbol."""
    rng = np.random.default_rng([ANALYSIS_SEED, seed])
    if kind == "fixed":
        return np.full((1, length), FIRST_SYMBOL_ID)
    if kind == "uniform":
        return (
            rng.integers(len(language.vocabulary.symbols), size=(draws, length)) + FIRST_SYMBOL_ID
        )
    try:
        return language.sample(rng, draws, [length], split=apart(language)).words.ids[:, :length]
    except LookupError:
        raise UserError(
            f"{language.name} has no lines of {length} symbols to draw replacements from: "
            "choose another --replacement"
        ) from None


def replacement_in_words(kind: Replacement, language: Language) -> str:
    """The replacement in words."""
    return {
        "uniform": "drawn evenly from all symbols",
        "data": f"taken from other words of {language.name} of this length",
        "fixed": f"always {language.vocabulary.symbols[0]}",
    }[kind]


def log_odds(model: LanguageModel, rows: int = 4096) -> Score:
    """The model's log odds that END may follow a word, for ids without BOS.

    Equal words are scored once and, of a causal Transformer, equal prefixes too.
    """

    @torch.no_grad()
    def score(ids: np.ndarray) -> np.ndarray:
        tokens = torch.as_tensor(np.pad(ids, ((0, 0), (1, 0))))
        at = int(model.verdict_positions(torch.tensor([ids.shape[1]])))
        if isinstance(model, HookedTransformer) and at == ids.shape[1]:
            logits = model.last_logits(tokens)
        else:
            words, where = tokens.unique(dim=0, return_inverse=True)
            logits = torch.cat([model(chunk)[:, at] for chunk in words.split(rows)])[where]
        return verdict.of_one(logits).double().numpy()

    verdict = log_odds_at(END_ID, softmax=model.softmax)
    return score


def _membership(language: Language) -> Score:
    """The truth in the model's place: 1 for words in the language, else 0."""
    return lambda ids: language.labels(Words(ids, np.full(len(ids), ids.shape[1]))).astype(
        np.float64
    )


RANKS = {
    "AUROC": "rank the symbols that decide with an AUROC of {}",
    "cosine to the effects": "have a cosine of {} to what other symbols change in the language",
}
"""The measures against a truth that is no SHAP value, the first that a word has; in words."""
CONTROLS = {
    "chance": "random values on average",
    "position": "position alone",
    UNTRAINED: "the same on the untrained network",
}


def _claims(answer: Answer) -> list[Claim]:
    """SHAP's kernel on the word: how right it is, beside its controls; and what attention can be
    without another verdict. One word proves nothing about a method."""
    findings = answer.findings
    scores, word = pd.DataFrame(findings["agreement"]), f'"{" ".join(findings["word"])}"'
    measure = next((name for name in RANKS if scores[name].notna().any()), None)
    notes = [*_misses(scores), *_moved(findings["moved_attention"])]
    base = Claim(
        f"The network gives {word} a probability of {{}}",
        findings["probability"],
        None,
        None,
        1,
        "word",
        notes=notes,
        unweighed="No symbol is known to decide, so no method can be held against it.",
    )
    if measure is None:
        return [base]
    by = scores.set_index(["method", "scale"])[measure].astype(float)
    key = CLAIMED, SCALES[0]
    return [
        replace(
            base,
            finding=f"On {word}, values by {called(*key)} {RANKS[measure]}",
            value=by[key],
            controls={says: by[name, "none"] for name, says in CONTROLS.items()},
            unweighed="One word proves nothing about a method: the leaderboard asks many.",
        )
    ]


def _misses(scores: pd.DataFrame) -> Iterator[str]:
    """Which values miss the sum that their method promises by more than 1%; nothing if none do."""
    rows = scores.dropna(subset="gain").assign(gain=lambda rows: rows["gain"].abs())
    far = rows[rows["completeness"] > ENOUGH * rows["gain"]]
    misses = [
        f"{called(row['method'], row['scale'])} by {row['completeness']:.2g} of {row['gain']:.2g}"
        for row in far.to_dict("records")
    ]
    if misses:
        yield f"Values miss the sum that they should have: {', '.join(misses)}."


def _moved(moved: Sequence[Mapping[str, Any]]) -> Iterator[str]:
    """The distance that attention can be moved with the verdict unchanged; nothing for a model
    without attention.

    Args:
        moved: the rows of ``moved_attention``.
    """
    if not moved:
        return
    *heads, together = moved
    furthest = max(heads, key=lambda row: row["divergence"])
    yield (
        f"Other attention, same verdict: with the probability within {TOLERANCE}, the weights "
        "where the verdict is read can be moved by a Jensen-Shannon divergence of "
        f"{furthest['divergence']:.2f} in {furthest['part']} and {together['divergence']:.2f} in "
        f"all heads at once (the largest possible is {LARGEST:.2f}). Weights of all heads in a "
        f"random order change the probability by {together['permuted change']:.2f} (median), and "
        f"{together['permuted kept']:.0%} of the orders keep it."
    )


SHOWN = ("AUROC", "cosine to the effects", "cosine to the language", "cosine to the model")
"""The agreements beside a strip, as far as the word has them."""
TRUTH = ("language", "oracle")
HEADINGS: Mapping[Family, str] = {
    "LIME and SHAP": "LIME and SHAP",
    "intervention": "Intervention",
    "attention": "Attention",
    "gradient": "Gradient",
    "control": "Control",
}
"""The headings of the families, in the picture's order. No heading is also a method's name."""


def _headline(result: Answer) -> pd.DataFrame:
    """The numbers that are compared over seeds: variable (the measure), of (the method), value.

    All seeds are asked about the same word. The last row is the model's probability for it.
    """
    findings = result.findings
    rows: list[tuple[str, str, float | None]] = [
        (measure, called(score["method"], score["scale"]), score[measure])
        for measure in SHOWN
        for score in findings["agreement"]
    ]
    rows.append(("probability of in", "the model", findings["probability"]))
    return numbers(rows)


BARE: Mapping[str, Any] = {
    "labelOverlap": False,
    "labelLimit": 200,
    "ticks": False,
    "domain": False,
}
TOP = alt.Axis(orient="top", labelAngle=-60, **BARE)
CELL: Mapping[str, Any] = {"height": alt.Step(22), "view": alt.ViewBackground(stroke=None)}


def chart(result: Answer, scale: str = SCALES[0]) -> ChartType:
    """The rationale, and a strip per method, coloured by the share of its largest value. Beside a
    strip stands how far it agrees with the truth: white is chance, or unrelated.

    Args:
        scale: the scale of the verdict, for the methods that have both.
    """
    table = on_scale(result.table, scale)
    rows = _rows(table, result.findings["rationale"] is not None)
    strips, scores = _strips(table, rows), _agreements(result, rows, scale)
    if scores.empty:
        return strips
    beside = heat(
        scores,
        alt.X("measure:N", sort=list(SHOWN), title=None, axis=TOP),
        _methods(rows).axis(None),
        ["method", "measure", *figures("value")],
        _shade("above", "agreement: white is chance", "purplegreen"),
        alt.Text("value:Q", format=".2f"),
        white_where("abs(datum.above) > 0.7"),
    ).properties(width=alt.Step(44), **CELL)
    return alt.hconcat(strips, beside, spacing=14).resolve_scale(color="independent")


def _rows(table: pd.DataFrame, decided: bool) -> list[str]:
    """The picture's rows from top to bottom: headings, the rationale, the methods of the table."""
    groups = {"The truth": ["rationale"] if decided else []}
    groups |= {heading: [] for heading in HEADINGS.values()}
    for name, method in METHODS.items():
        if (table["method"] == name).any():
            groups["The truth" if name in TRUTH else HEADINGS[method.family]].append(name)
    groups[HEADINGS["control"]].append(UNTRAINED)
    return [row for heading, names in groups.items() if names for row in (heading, *names)]


def _strips(table: pd.DataFrame, rows: list[str]) -> alt.LayerChart:
    """A strip per method: what it says of each symbol."""
    largest = table.groupby("method")["value"].transform(lambda v: v.abs().max())
    small = (largest < 0.05) & (table["value"] != 0)
    table = table.assign(
        share=table["value"] / largest.where(largest > 0, 1.0),
        place=(table["position"] + 1).astype(str) + " " + table["symbol"],
        told=table["value"].map("{:.2f}".format).where(~small, table["value"].map("{:.0e}".format)),
    )
    table["told"] = table["told"].str.replace("e-0", "e-")
    positions = table.drop_duplicates("position")
    x = alt.X("place:N", sort=positions["place"].tolist(), title=None, axis=TOP)
    heading = f"indexof({json.dumps(['The truth', *HEADINGS.values()])}, datum.value) >= 0"
    bold = alt.condition(heading, alt.value("bold"), alt.value("normal"))
    cells = heat(
        table,
        x,
        _methods(rows).axis(alt.Axis(labelFontWeight=bold, labelPadding=5, **BARE)),
        ["method", "place", alt.Tooltip("value:Q", format=".3g"), "in_rationale"],
        _shade("share", "share of the largest value", "redblue"),
        "told:N",
        white_where("abs(datum.share) > 0.7"),
    ).properties(width=alt.Step(40), **CELL)
    decide = alt.Chart(positions[positions["in_rationale"]]).mark_rect(color="#e0a030", stroke=EDGE)
    return cells + decide.encode(x=x, y=alt.YDatum("rationale"), tooltip=["place"])


def _methods(rows: list[str]) -> alt.Y:
    return alt.Y("method:N", title=None).scale(domain=rows)


def _shade(field: str, title: str, scheme: Any) -> alt.Color:
    """From -1 through a light 0 to 1."""
    color = alt.Color(f"{field}:Q", title=title).scale(domain=[-1, 0, 1], scheme=scheme)
    return color.legend(orient="bottom", direction="horizontal")


def on_scale(rows: pd.DataFrame, scale: str) -> pd.DataFrame:
    """The rows on this scale, and those of methods that have one scale or none."""
    both = [name for name, method in METHODS.items() if method.scales == SCALES]
    other = [s for s in SCALES if s != scale]
    return rows[~(rows["method"].isin(both) & rows["scale"].isin(other))]


def _agreements(result: Answer, methods: Sequence[str], scale: str) -> pd.DataFrame:
    """The measures of ``SHOWN`` that are defined.

    Columns: method, measure, value, above (0 at chance, 1 at best).
    """
    scores = on_scale(pd.DataFrame(result.findings["agreement"]), scale)
    scores = scores[scores["method"].isin(methods)]
    long = scores.melt("method", list(SHOWN), "measure").dropna(subset=["value"])
    value = long["value"].astype(float)
    auroc = pd.DataFrame(result.findings["agreement"]).set_index("method")["AUROC"]["chance"]
    chance = 0.0 if auroc is None else float(auroc)  # a cosine's is 0; above 0.5 with several sets
    above = ((value - chance) / (1 - chance)).clip(-1)
    return long.assign(value=value, above=value.where(long["measure"] != "AUROC", above))


QUESTION = of_answer(
    "explanations",
    Options,
    analyse,
    _headline,
    chart,
    _claims,
    needs=("verdict",),
)
