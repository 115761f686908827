"""Do sparse dictionaries find what is known of a site? An answer that is kept in the run."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, get_args

import altair as alt
import pandas as pd
from altair.typing import ChartType

from analyses.answers import (
    Answer,
    Planned,
    Progress,
    of_answer,
    plain,
    quiet,
    row_numbers,
)
from analyses.charts.marks import points
from analyses.charts.theme import QUIET, by_model, figures
from analyses.claims import Claim, interval_text
from analyses.options.inside import Dictionary as Asked
from analyses.options.inside import DictionaryKind
from analyses.questions.inside.dictionaries.features import features, told
from analyses.questions.inside.dictionaries.measured import (
    CHANCE,
    MEASURES,
    Seen,
    Site,
    as_table,
    reads_of,
)
from analyses.questions.inside.dictionaries.planted import planted_truth
from analyses.questions.inside.dictionaries.stated import state_truth
from analyses.questions.inside.dictionaries.truth import Truth
from interp.dictionaries.training import Recipe
from models.base import LanguageModel
from models.errors import UserError, unknown
from models.plants.plans import plan_of
from models.runs.run import Run

SPARSE = get_args(DictionaryKind)
OLDER = ("PCA", "ICA", "k-means", "neurons")
"""Peers that the sentence leaves to the table."""
TOGETHER = {
    "right": ("F1", "MCC", "cause", "stability"),
    "how": ("splitting", "absorption", "variance", "L0"),
}
"""Measures that stand in one table."""
COUNTED = ("splitting", "L0")
"""Numbers of latents; all other measures have 1 as their largest value."""
Rows = list[dict[str, object]]
Panel = alt.LayerChart | alt.FacetChart


def _dictionaries(run: Run, options: Asked, progress: Progress = quiet) -> Answer:
    """Table: one row per model, kind, width and measure. Columns: model ("trained", "untrained",
    "chance"), kind (of dictionary), width (latents that were asked for), latents (that it has),
    measure, value, low and high (95%, Student's over seeds; NaN where no seed changes it), seeds.

    Measures: F1 (of the best latent of each fact, mean over facts), MCC (cosine with the directions
    of a plan, matched one to one), splitting (latents that share a fact), absorption (share of a
    fact's positions that a more special latent takes), stability (cosine with the dictionaries of
    other seeds, matched; NaN of a single one), cause (latents are clamped: is the answer right?
    Cases that flip and others half each), variance (explained), L0 (latents on at a position).

    Findings: "features" and "told", the rows of these functions of the first width and seed.

    Raises:
        UserError: nothing is known of the site, or a kind cannot be trained there.
    """
    model = run.model()
    if options.site not in model.hook_dict:
        raise unknown("site", options.site, model.hook_dict)
    kinds = options.kinds or (SPARSE if options.site.endswith("mlp_out") else SPARSE[:-1])
    if "transcoder" in kinds:
        reads_of(options.site)
    truth = _truth(run, model, options)
    rows, latents, best = _asked(run, model, options, kinds, truth, progress)
    table = as_table(rows)
    findings = plain({"features": latents, "told": best, "facts": truth.names})
    findings["positions"] = len(truth.score.word)
    return Answer(table, findings=findings)


def _truth(run: Run, model: LanguageModel, options: Asked) -> Truth:
    plan = plan_of(run)
    if plan is None:
        truth = state_truth(run, model, options.words, options.seed)
    else:
        truth = planted_truth(run, plan, options.words, options.seed, options.site)
    if not truth.names:
        raise UserError(
            f"too few different prefixes of {run.name}, or nothing that is known varies at "
            f"{options.site}: ask about more --words or another --site, or a run that was trained "
            "with a larger --max-n"
        )
    return truth


def _asked(
    run: Run,
    model: LanguageModel,
    options: Asked,
    kinds: Sequence[DictionaryKind],
    truth: Truth,
    progress: Progress,
) -> tuple[Rows, Rows, Rows]:
    """The rows of the table, those of the latents, and those of what tells each fact."""
    recipe = Recipe("topk", 1, options.active, steps=options.steps)
    seeds = range(options.seed, options.seed + options.seeds)
    rows: Rows = []
    latents: Rows = []
    best: Rows = []
    sites = {
        name: Site(net, options.site, truth, Seen.at(net, options.site, truth), recipe, seeds)
        for name, net in (("trained", model), ("untrained", run.untrained()))
    }
    widths = options.width or (2 * sites["trained"].seen.fit.shape[1],)
    total, done = len(widths) * len(sites) * len(kinds) * options.steps, 0
    for width in widths:
        for name, site in sites.items():
            for kind in kinds:

                def say(step: int, done: int = done, what: str = f"{name}, {kind}") -> None:
                    progress(done + step, total, what)

                made = site.made(kind, width, say)
                done += options.steps
                rows += site.rows(made, name, causal=name == "trained")
                if name == "trained" and width == widths[0]:
                    progress(done, total, f"latents of {kind}")
                    latents += features(site, made)
                    best += told(site, made)
        progress(done, total, "peers")
        for made in sites["trained"].peers(width):
            rows += sites["trained"].rows(made, "trained", causal=True)
        rows += sites["trained"].chance(width)
    return rows, latents, best


def side_by_side(table: pd.DataFrame) -> dict[str, pd.DataFrame]:
    """Tables by title: one row for each kind of dictionary and a column for each measure."""
    table = table.assign(
        shown=[interval_text(*row) for row in table[["value", "low", "high"]].values]
    )
    keys = ["kind", "model", "width"]
    order = table[keys].drop_duplicates()
    wide = order.merge(table.pivot(index=keys, columns="measure", values="shown"), on=keys)
    return {title: wide[[*keys, *measures]].fillna("-") for title, measures in TOGETHER.items()}


FOUND = {
    "F1": "The best latents of {} tell facts with a mean F1 of {{}}",
    "cause": "Clamping the latents of {} gives the right answer in {{}} of cases",
}


def claims(answer: Answer) -> list[Claim]:
    """The first kind of sparse dictionary at the first width: how well its latents tell facts, and
    whether clamping them moves the answer. Older ways may do as well."""
    table, facts = answer.table.dropna(subset="value"), answer.findings
    first = table[table["width"] == table["width"].iloc[0]]
    about = f"{len(facts['facts'])} facts at {facts['positions']:,} positions that chose nothing."
    by = {measure: first[first["measure"] == measure] for measure in FOUND}
    return [_claim(rows, FOUND[measure], about) for measure, rows in by.items() if len(rows) > 1]


def _claim(rows: pd.DataFrame, finding: str, about: str) -> Claim:
    first, *others = rows[(rows["model"] == "trained") & rows["kind"].isin(SPARSE)].itertuples()
    peers = rows[rows["model"] != "untrained"].set_index("kind")["value"]
    older = {kind: peers[kind] for kind in OLDER if kind in peers}
    as_good = [kind for kind, value in older.items() if value >= first.low]
    controls = {"random directions": peers["random"], CHANCE: peers[CHANCE]}
    untrained = rows[(rows["model"] == "untrained") & (rows["kind"] == first.kind)]
    if len(untrained):  # whose latents are not clamped
        controls["the untrained network"] = untrained["value"].iloc[0]
    beside = {row.kind: row.value for row in others} | older
    return Claim(
        finding.format(first.kind),
        first.value,
        first.low,
        first.high,
        first.seeds,
        "dictionaries",
        "Student's over their seeds",
        controls,
        doubts=[f"Not shown to be more than older ways: {', '.join(as_good)}."] if as_good else [],
        notes=[
            f"Others: {', '.join(f'{kind} {value:.2f}' for kind, value in beside.items())}.",
            about,
        ],
    )


def chart(table: pd.DataFrame) -> ChartType:
    """A panel for each measure, as of ``panels``."""
    pictures = panels(table, legend=True).values()
    return alt.concat(*pictures, columns=3).resolve_scale(x="independent")


def panels(table: pd.DataFrame, legend: bool = False) -> dict[str, Panel]:
    """A panel by measure: the value of every kind, with chance as a line. A share below 0 is drawn
    at 0."""
    rows = table[(table["model"] != CHANCE) & table["value"].notna()]
    kinds, several = rows["kind"].unique().tolist(), table["width"].nunique() > 1
    width = alt.Shape("width:O", title="latents asked for")
    apart: dict[str, Any] = {"yOffset": alt.YOffset("width:O"), "shape": width} if several else {}
    pictures: dict[str, Panel] = {}
    for measure in [m for m in MEASURES if m in set(rows["measure"])]:
        whole = alt.Undefined if measure in COUNTED else [0, 1]
        x = alt.X("value:Q", title=None, axis=alt.Axis(tickCount=5))
        picture = points(
            rows[rows["measure"] == measure],
            x.scale(domain=whole, clamp=measure not in COUNTED),
            alt.Y("kind:N", sort=kinds, title=None),
            ["kind", "model", "width", "latents", *figures("value", "low", "high")],
            by_model(shown=legend),
            **apart,
        )
        chance = table[(table["model"] == CHANCE) & (table["measure"] == measure)]
        if chance["value"].notna().any():
            line = alt.Chart(chance.head(1)).mark_rule(strokeDash=[4, 3], color=QUIET)
            picture += line.encode(x=alt.X("value:Q", title=None))
        pictures[measure] = picture.properties(title=measure, width=180)
    return pictures


def _headline(answer: Answer) -> pd.DataFrame:
    """Numbers that are compared over seeds: each measure of each kind, of the first width."""
    table = answer.table
    first = table[table["width"] == table["width"].iloc[0]]
    return row_numbers(first, "{kind}, {measure}")


def _shown(answer: Answer) -> dict[str, pd.DataFrame]:
    """The scores by kind, and the latents with their strongest words and what clamping does."""
    latents = pd.DataFrame(answer.findings["features"])
    return side_by_side(answer.table) | {"latents": latents}


QUESTION = of_answer(
    "dictionary",
    Asked,
    _dictionaries,
    _headline,
    lambda answer: chart(answer.table),
    claims,
    needs=("known states",),
    shown=_shown,
    planned=(Planned("trained", "untrained"),),
)
