"""Does the model use a hidden variable? The variable is erased, moved and exchanged inside it.

What a probe reads off an activation need not be what the model goes by. So the variable is taken
out of the activation (erasure), changed (steering) or put in from another prefix (interchange). And
all but the variable is taken from other prefixes (scrubbing). Each stands beside controls that
change as much and mean nothing.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pandas as pd

from analyses.answers import Answer, Planned, Progress, of_answer, plain, quiet
from analyses.charts.interventions import chart
from analyses.claims import COUNTS, Claim, measured
from analyses.options.inside import Interventions as Options
from analyses.questions.trials.erasing import erasure
from analyses.questions.trials.exchanging import exchange_sites, interchange, planned
from analyses.questions.trials.findings import (
    exchange_claim,
    exchanged,
    scrubbed_there,
    state_claim,
    to_a_state,
)
from analyses.questions.trials.prefixes import Prefixes
from analyses.questions.trials.states import scrubbing, state_steering
from analyses.questions.trials.steering import RANDOM, steering, steering_refusal
from interp.model import sites_of
from interp.probing.steering_trials import MEAN_K
from interp.statistics import unless_agreed
from models.errors import UserError
from models.languages import Language
from models.runs.run import Run
from models.training.trainer import threads

COLUMNS = [
    *("model", "experiment", "site", "variable", "method", "amount", "measure", "split"),
    *("choice", "value", "low", "high", "words", "units", "gap", "gap_low", "gap_high"),
]
LEAST, FEW = 6, "Fewer than 6 different words can show nothing: all of them may agree by chance."


@threads(1)  # many small steps: more threads get into each other's way
def analyse(run: Run, options: Options, progress: Progress = quiet) -> Answer:
    """One row per model, experiment, site, variable, method, amount, measure and split.

    Columns: model (trained, untrained), experiment, site (of the residual stream), variable,
    method, amount, measure, split, choice (of "words right" and "moved by k": over every other
    word, which chooses a site), value, low, high (95% bootstrap over the units; of these two over
    the words that do not choose), words (the words or pairs of prefixes that the value is a mean
    over), units (the words, or the different prefixes among all bases and sources; pairs of one
    prefix do not count as independent), gap, gap_low, gap_high (of "words right": the share less
    that with LEACE, paired, over the words of value).

    Splits: "all"; of interchange and of "state means" the prefixes are in three parts. One fits,
    "choose" chooses site and rank, "score" is reported. "longer": fitted on the shorter half of the
    prefixes that fit, and scored on the longer half of those that score.

    Experiments, their methods and measures:
        erasure: the variable is erased at all positions; an LSTM or GRU goes on from the erased
            state. Methods: "none"; "LEACE"; "random directions" (as many, where the activations
            have unit covariance); "random readout" (LEACE of as many random linear functions of
            the activation, which takes about as much of it). Amount: the rank. Measures: "words
            right" (the share of members with all next symbols right; for a run that was taught
            verdicts alone, the share of right verdicts); "changed" (the mean square of the change,
            as a share of the variance); "probe R2", "probe accuracy" (of a new probe on held-out
            words).
        steering: for counting languages. Amount: k. Methods: "added" (k times the direction of the
            last difference is added at all symbols of the last block; in an LSTM or GRU at the
            first, from which it goes on); "added in proportion" (at position t, k / (t + 1) times
            the direction of difference / (t + 1), which moves what averages over the word hold);
            for both, random directions of the same length; "state of another word" (the activation
            of the word with k more symbols in all earlier blocks). The end is the first symbol
            after which END may follow. Measures: "moved by k" (the share of words whose end came
            exactly k later); its mean over all k; "shift" (by how much it came later, over the
            words that ended).
            For all languages with a known state: the method "state means" adds the mean of the
            wanted state less that of the own one after a prefix, where its answer is read;
            "random direction, as far" is its control. Amount: 1. Measure: "next symbols" (the share
            of prefixes with exactly the next symbols of the wanted state).
        interchange: a prefix (the base) gets another one's (the source's) part of the activation in
            a subspace; amount: its dimensions for each variable. Right is what the language says of
            the base with the source's value. Methods: "DAS" (the subspace is trained); "DAS,
            arbitrary targets" (trained and scored as if each value were another one); "random
            subspace" (moved as far as with DAS); "whole activation"; "none". Measures are shares of
            pairs with all answers right: "next symbols" (exchanged and read after the prefix; this
            tells apart only values with different next symbols) and several courses (all further
            symbols too, where base and source have one length). "course, read again": exchanged at
            every further symbol too, where the source has read the same symbols. "course, carried":
            what the prefixes alone differ by is added at every further symbol, or "in proportion"
            to 1 / length. Only a value that is held as a quantity passes this: whether the word may
            end is no help. "course, prefix exchanged" (for categories): exchanged at all positions
            of the prefix, and read at further symbols. "course, state exchanged": exchanged once in
            a recurrent network, which goes on from there.
        scrubbing: the activation after a prefix, where its answer is read, is replaced by that of
            another prefix. Methods: "any prefix"; one with the "same" variable, next symbols or
            position; one of the same of "arbitrary classes", as many and as large as those of the
            variable. Measures: "loss added" (nats; each set of next symbols weighs the same),
            "loss recovered" (1 if the method adds none, 0 if as much as any prefix).

    Raises:
        UserError: nothing is known of the language's state, it does not vary, or the model has no
            activations.
    """
    model = run.model()
    models = {"trained": model, "untrained": run.untrained()}
    reason, pool = steering_refusal(run), Prefixes.of(run, options.seed)
    steps = len(sites_of(model)) * (2 if reason else 3)
    if pool:
        steps += 5 * len(exchange_sites(model))
        steps += sum(len(exchange_sites(model, move)) for move, *_ in planned(run, pool, models))
    done = 0

    def report(what: str) -> None:
        nonlocal done
        progress(done, steps, what)
        done += 1

    tables = {
        "erasure": [
            erasure(run, network, options.words, options.seed, report).assign(model=name)
            for name, network in models.items()
        ]
    }
    tables["steering"] = [] if reason else [steering(run, model, report)]
    if pool:
        tables["steering"] += [
            state_steering(run, network, pool, options.seed, report).assign(model=name)
            for name, network in models.items()
        ]
        sizes = options.pairs, options.rank, options.seed
        tables["interchange"] = [interchange(run, models, pool, *sizes, report)]
        tables["scrubbing"] = [scrubbing(run, model, pool, options.seed, report)]
    progress(steps, steps, "interventions")
    rows = [
        part.assign(experiment=experiment)
        for experiment, some in tables.items()
        for part in some
        if len(part)
    ]
    if not rows:
        raise UserError(
            f"no hidden variable of {run.language.name} varies in words of the window: there is "
            "nothing to change"
        )
    table = pd.concat(rows, ignore_index=True)
    filled = {"model": "trained", "split": "all", "units": table["words"]}
    table = table.reindex(columns=COLUMNS).fillna(filled)
    exchange = exchanged(table, pool)
    refused = [f"No steering of a counter: {reason}."] if reason else []
    if not exchange:
        refused.append(
            "No interchange: no variables decide alone what may follow, or too few prefixes differ."
        )
    findings = {
        "refused": refused,
        "main": main_variable(run.language),
        "erasure": _erasure(table[table["experiment"] == "erasure"]),
        "steering": _steered(table),
        "state": to_a_state(table),
        "interchange": exchange,
        "scrubbing": scrubbed_there(table, exchange),
    }
    return Answer(table, findings=plain(findings))


def main_variable(language: Language) -> str:
    """The last difference of a language that counts, else its first variable."""
    names = language.main_variables
    return next((name for name in reversed(names) if "-" in name), names[0])


def _erasure(table: pd.DataFrame) -> dict[str, Any]:
    """The result of ``_erased`` for each variable, and the gap in the untrained network."""
    erased = {key: _erased(rows) for key, rows in table.groupby(["model", "variable"], sort=False)}
    return {
        name: {**about, "untrained": erased["untrained", name]["gap"]}
        for (model, name), about in erased.items()
        if model == "trained"
    }


def _erased(rows: pd.DataFrame) -> dict[str, Any]:
    """The site where LEACE does most harm beyond random directions, by the words that choose; and
    of the others what is right there by method, what a probe reads, and the gap to the stronger
    control."""
    right = rows[rows["measure"] == "words right"]
    choice = right.pivot(index="site", columns="method", values="choice")
    site = (choice["random directions"] - choice["LEACE"]).loc[right["site"].unique()].idxmax()
    there = right[right["site"] == site].set_index("method")
    control = there.loc[["random directions", "random readout"], "gap"].idxmin()
    probes = rows[rows["measure"].str.startswith("probe ") & (rows["site"] == site)]
    probe = probes.set_index("method")["value"]
    return {
        "site": site,
        **there["value"],
        **there.loc[control, ["gap", "gap_low", "gap_high", "words"]],
        "probe": probe["none"],
        "probe_erased": probe["LEACE"],
    }


def _steered(table: pd.DataFrame) -> dict[str, Any] | None:
    """The site and the way to move that work best by the words that choose, and what they do for
    the others; and the same of a random direction."""
    rows = table[table["measure"] == MEAN_K]
    if rows.empty:
        return None
    best, random = (
        some.loc[some["choice"].idxmax()]
        for some in (rows[rows["method"].isin(list(names))] for names in (RANDOM, RANDOM.values()))
    )
    part = table[table["measure"] == "moved by k"]
    part = part[(part["site"] == best["site"]) & (part["method"] == best["method"])]
    return {
        **best[["site", "method", "value", "low", "high", "words"]],
        "random": random["value"],
        "by_k": {str(k): value for k, value in zip(part["amount"], part["value"], strict=True)},
    }


def _claims(answer: Answer) -> list[Claim]:
    """The effects of exchanging the main variable, of moving it, and of erasing it. The exchange
    comes first: a random readout often ruins as much as an erasure."""
    findings = answer.findings
    erased, exchange, steered = (findings[name] for name in ("erasure", "interchange", "steering"))
    main = findings["main"] if findings["main"] in erased else next(iter(erased), findings["main"])
    made = [exchange_claim(exchange, main, findings["scrubbing"])] if exchange else []
    if steered and steered["words"] >= LEAST:
        made.append(_moved(steered))
    elif findings["state"]:
        made.append(state_claim(findings["state"]))
    return [*made, _harm(main, erased[main])] if main in erased else made


def _harm(variable: str, erased: Mapping[str, Any]) -> Claim:
    """The words wrong without the variable, less those without as much of anything else."""
    return Claim(
        f"Erasing {variable} at {erased['site']} costs {{}} of words beyond what erasing random "
        "directions or a random readout costs",
        *measured(erased, "gap", "gap_low", "gap_high", "words"),
        "different words, none of which chose the site",
        "paired, bootstrap over words",
        COUNTS | {"the untrained network": erased["untrained"]},
        ".0%",
        notes=[
            f"Right are {erased['none']:.0%}; with {variable} erased {erased['LEACE']:.0%}, with "
            f"random directions {erased['random directions']:.0%}, with a random readout "
            f"{erased['random readout']:.0%}."
        ],
        unweighed=FEW if erased["words"] < LEAST and (erased["gap"] or 0) > 0 else "",
    )


def _moved(steered: Mapping[str, Any]) -> Claim:
    """The share of words whose end moves by exactly k."""
    share, low, high, words = measured(steered, "value", "low", "high", "words")
    if share is not None and low is not None and high is not None:
        low, high = unless_agreed(share, low, high, words)
    return Claim(
        f"When k is {steered['method']} at {steered['site']}, the end moves by exactly k in {{}} "
        "of words",
        *(share, low, high, words),
        "words, none of which chose this site or way",
        "mean over k, bootstrap over words",
        {"a random direction": steered["random"]},
        ".0%",
    )


def _headline(result: Answer) -> pd.DataFrame:
    """The numbers that are compared over seeds: variable, of, value."""
    findings, rows = result.findings, list[tuple[str, str, float]]()
    for name, erased in findings["erasure"].items():
        rows += [
            (name, "words right", erased["none"]),
            (name, "words right, erased", erased["LEACE"]),
        ]
        rows += [
            (name, f"words right, {method} erased", erased[method])
            for method in ("random directions", "random readout")
        ]
        rows += [(name, "probe", erased["probe"]), (name, "probe, erased", erased["probe_erased"])]
    if steered := findings["steering"]:
        name = findings["main"]
        rows += [(name, "moved by exactly k", steered["value"])]
        rows += [(name, f"moved by exactly {k}", v) for k, v in steered["by_k"].items()]
        rows += [(name, "moved by exactly k, random direction", steered["random"])]
    if state := findings["state"]:
        rows.append((state["variable"], "next symbols, steered to a state", state["value"]))
        rows.append(
            (state["variable"], "next symbols, steered in a random direction", state["random"])
        )
    for measure, about in (findings["interchange"] or {"measures": {}})["measures"].items():
        rows += [
            (name, f"{measure}: {method}", value)
            for name, by_method in about["variables"].items()
            for method, value in by_method["values"].items()
        ]
    rows += [
        (scrubbed["variable"], f"loss recovered, {method}", value)
        for scrubbed in [findings["scrubbing"]]
        if scrubbed
        for method, value in scrubbed["recovered"].items()
    ]
    return pd.DataFrame(rows, columns=["variable", "of", "value"])


LEARNED = ("DAS, arbitrary targets", "DAS, untrained model")
EXCHANGED = {
    "next symbols": LEARNED,
    "course, read again": ("whole activation", *LEARNED),
    "course, carried": LEARNED[:1],
    "course, carried in proportion": ("whole activation", *LEARNED),
    "course, prefix exchanged": ("whole activation", *LEARNED),
}
"""The methods whose exchange is compared over seeds. They are few: of more than 25 comparisons ten
seeds could show nothing."""

QUESTION = of_answer(
    "interventions",
    Options,
    analyse,
    _headline,
    chart,
    _claims,
    brief=Options(words=60, pairs=32),
    planned=(
        *(
            Planned("words right, erased", f"words right, {other} erased")
            for other in ("random directions", "random readout")
        ),
        Planned("moved by exactly k", "moved by exactly k, random direction"),
        Planned("next symbols, steered to a state", "next symbols, steered in a random direction"),
        *(
            Planned(f"{measure}: DAS", f"{measure}: {control}")
            for measure, controls in EXCHANGED.items()
            for control in controls
        ),
    ),
    needs=("verdict", "variables", "one side", "states"),
)
