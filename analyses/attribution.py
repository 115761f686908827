"""Do LIME and SHAP name the deciding symbols? One word, beside rationale and Shapley values."""

from __future__ import annotations

from dataclasses import asdict, dataclass

import altair as alt
import numpy as np
import pandas as pd
import torch
from altair.typing import ChartType

from analyses.results import Progress, Result, plain, quiet
from analyses.words import ANALYSIS_SEED, given, member, near_miss
from interp.attribution import Game, Score, agreement, explain
from models.base import LanguageModel
from models.errors import UserError
from models.languages import END_ID, FormalLanguage, Language, Words
from models.languages.vocabulary import FIRST_SYMBOL_ID
from models.runs import Run

QUESTION = "Do LIME and SHAP name the symbols that decide?"
LONGEST = 60


@dataclass(frozen=True)
class Options:
    """What to explain.

    Attributes:
        word: the word; by default a printed line of `dieren`, and else a near miss.
        n: the size of the default word.
        samples: coalitions that LIME and SHAP's kernel may ask for.
        draws: replacements of the hidden symbols, drawn evenly from all symbols, over which the
            model's probability of "in the language" is averaged.
        seed: of the replacements and of the methods.
    """

    word: str | None = None
    n: int = 5
    samples: int = 512
    draws: int = 8
    seed: int = 0


def analyse(run: Run, options: Options, progress: Progress = quiet) -> Result:
    """One row per method and position.

    Columns: method, position (0-based, BOS not counted), symbol, value (in probability of "in the
    language"; positive speaks for it), in_rationale, calls (words scored), seconds. Methods: LIME,
    SHAP kernel, Shapley exact (up to 12 symbols), language (exact Shapley values of the true
    membership), and the controls random and position.

    Raises:
        UserError: an unknown symbol, or a word too long to explain.
    """
    language = run.language
    if options.draws < 1 or options.samples < 16:
        raise UserError("--draws must be at least 1 and --samples at least 16")
    default = (
        member(run, options.n) if run.config.supervision == "last" else near_miss(run, options.n)
    )
    word = given(language, options.word, default)
    if not 2 <= len(word) <= LONGEST:
        raise UserError(f"the word has {len(word)} symbols: explain one of 2 to {LONGEST}")
    model, digest = run.model_and_hash()
    rng = np.random.default_rng([ANALYSIS_SEED, options.seed])
    symbols = len(language.vocabulary.symbols)
    hidden = rng.integers(symbols, size=(options.draws, len(word))) + FIRST_SYMBOL_ID
    ids = language.vocabulary.words([word]).ids[0]
    truth = (
        Game(membership(language), ids, hidden) if isinstance(language, FormalLanguage) else None
    )
    progress(0, 1, f"LIME and SHAP on {len(word)} symbols")
    game = Game(probability(model), ids, hidden)
    table = explain(game, truth, options.samples, options.seed)
    progress(1, 1, "LIME and SHAP")
    rationale = language.rationale(word)
    table.insert(2, "symbol", [word[p] for p in table["position"]])
    table.insert(4, "in_rationale", np.isin(table["position"], rationale or ()))
    scores = agreement(table, rationale)
    found = {
        "summary": summary(scores, rationale, len(word)),
        "word": list(word),
        "rationale": None if rationale is None else list(rationale),
        "rationale_rule": language.rationale_rule,
        "replacement": "uniform over symbols",
        "probability": float(probability(model)(ids[None])[0]),
        "in_language": bool(language.contains(word)) if truth is not None else None,
        "agreement": scores.replace({np.nan: None}).to_dict("records"),
    }
    return Result(table, plain(found), asdict(options), digest)


def probability(model: LanguageModel, rows: int = 4096) -> Score:
    """The model's probability that a word is in the language, for ids without BOS."""

    @torch.no_grad()
    def score(ids: np.ndarray) -> np.ndarray:
        tokens = torch.as_tensor(np.pad(ids, ((0, 0), (1, 0))))
        at = int(model.verdict_positions(torch.tensor([ids.shape[1]])))
        logits = [model(chunk)[:, at, END_ID] for chunk in tokens.split(rows)]
        return torch.cat(logits).sigmoid().double().numpy()

    return score


def membership(language: Language) -> Score:
    """The truth in the model's place: 1 for words in the language, else 0."""
    return lambda ids: language.labels(Words(ids, np.full(len(ids), ids.shape[1]))).astype(
        np.float64
    )


def summary(scores: pd.DataFrame, rationale: tuple[int, ...] | None, length: int) -> str:
    """One sentence: how the two libraries rank the deciding positions."""
    score = scores.set_index("method")["auroc"]
    if rationale is None or len(rationale) in (0, length):
        kind = "no position" if not rationale else "every position"
        close = scores.set_index("method")["correlation"]
        return (
            f"By the rule {kind} decides here; correlation with the exact Shapley values: "
            + ", ".join(f"{name} {close[name]:.2f}" for name in ("LIME", "SHAP kernel"))
            + "."
        )
    named = [name for name in ("LIME", "SHAP kernel", "Shapley exact", "random") if name in score]
    return "AUROC against the rationale: " + ", ".join(f"{n} {score[n]:.2f}" for n in named) + "."


def chart(result: Result) -> ChartType:
    """One strip per method, coloured by its share of the largest value; the rationale on top."""
    table = result.table.copy()
    largest = table.groupby("method")["value"].transform(lambda v: v.abs().max())
    table["share"] = table["value"] / largest.where(largest > 0, 1.0)
    table["place"] = (table["position"] + 1).astype(str) + " " + table["symbol"]
    places = table.drop_duplicates("position")["place"].tolist()
    x = alt.X("place:N", sort=places, title=None).axis(labelAngle=-60, labelOverlap=False)
    width = max(260, 34 * len(places))
    truth = (
        alt.Chart(table.drop_duplicates("position"), title="rationale")
        .mark_rect(stroke="#8884")
        .encode(
            x=alt.X("place:N", sort=places, title=None).axis(None),
            color=alt.Color("in_rationale:N", title=None, legend=None).scale(
                domain=[True, False], range=["#e0a030", "transparent"]
            ),
            tooltip=["place", "in_rationale"],
        )
        .properties(width=width, height=16)
    )
    order = ["language", "Shapley exact", "SHAP kernel", "LIME", "position", "random"]
    base = alt.Chart(table).encode(
        x=x,
        y=alt.Y("method:N", sort=order, title=None).axis(labelOverlap=False),
        tooltip=["method", "place", alt.Tooltip("value:Q", format=".3f"), "in_rationale"],
    )
    cells = base.mark_rect(stroke="#8884").encode(
        color=alt.Color("share:Q", title="share of the largest").scale(
            domain=[-1, 0, 1], scheme="redblue"
        )
    )
    text = base.mark_text(fontSize=9).encode(
        text=alt.Text("value:Q", format=".2f"),
        color=alt.condition("abs(datum.share) > 0.6", alt.value("white"), alt.value("black")),
    )
    strips = (cells + text).properties(width=width, height=alt.Step(24))
    return (truth & strips).resolve_scale(color="independent")


if __name__ == "__main__":
    from analyses.cli import script

    raise SystemExit(script("attribution"))
