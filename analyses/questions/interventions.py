"""Does the model use a hidden variable? The variable is erased, moved and exchanged inside it.

What a probe reads off an activation need not be what the model goes by. So the variable is taken
out of the activation (erasure), changed by k (steering) or put in from another word (interchange).
Each stands beside controls that change as much and mean nothing.
"""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

import pandas as pd

from analyses.answers import Answer, Progress, Question, plain, quiet
from analyses.charts.interventions import chart
from analyses.options.questions import Interventions as Options
from analyses.questions.intervention_trials import (
    RANDOM,
    erasure,
    interchange,
    main_variables,
    steering,
    steering_refusal,
    stream_before,
    stream_hooks,
)
from analyses.registry import BUILT_IN
from analyses.script import script
from models.errors import UserError
from models.languages import Language
from models.runs.run import Run


def refusal(run: Run) -> str | None:
    """Why this question cannot be asked of the run, in one line; None where it can."""
    if not run.language.variables:
        return f"nothing is known of the hidden state of {run.language.name}: no variable to change"
    family = run.config.model.family
    if family.tabular:
        return f"{run.name} has no activations to change: it is of architecture {family.name}"
    return None


def analyse(run: Run, options: Options, progress: Progress = quiet) -> Answer:
    """One row per model, experiment, site, variable, method, amount and measure.

    Columns: model (trained, untrained), experiment, site (of the residual stream), variable,
    method, amount, measure, value, low, high (95% bootstrap over words), words (those the value is
    a mean over).

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
            exactly k later); "shift" (by how much it came later, over the words that ended).
        interchange: where the verdict is read, the activation of a word (the base) gets that of
            another prefix (the source) along one direction (amount 1) that was trained for it.
            Methods: "DAS", "placebo" (as far in a random direction), "random direction", "whole
            activation" and "none". Measure: "as predicted" (the share of held-out pairs judged as
            the language would judge the base with the variable of the source); for half of the
            pairs this is the verdict without any exchange.

    Raises:
        UserError: nothing is known of the language's state, or the model has no activations.
    """
    if reason := refusal(run):
        raise UserError(reason)
    model, digest = run.model_and_hash()
    models = {"trained": model, "untrained": run.untrained()}
    reason = steering_refusal(run)
    sites = len(stream_hooks(model))
    steps = sites * (1 if reason else 2) + 2 * len(stream_before(model))
    done = 0

    def report(what: str) -> None:
        nonlocal done
        progress(done, steps, what)
        done += 1

    erased = erasure(run, model, options.words, options.seed, report)
    tables = [erased.assign(model="trained", experiment="erasure")]
    if reason is None:
        moved = steering(run, model, report)
        tables.append(moved.assign(model="trained", experiment="steering"))
    exchanged = interchange(run, models, options.pairs, options.seed, report)
    tables.append(exchanged.assign(experiment="interchange"))
    progress(steps, steps, "interventions")
    table = pd.concat([each for each in tables if len(each)], ignore_index=True)
    columns = ["model", "experiment", "site", "variable", "method", "amount", "measure"]
    table = table[[*columns, "value", "low", "high", "words"]]
    sentence, found = findings(table, main_variable(run.language), reason)
    return Answer(table, sentence, plain(found), asdict(options), digest)


def main_variable(language: Language) -> str:
    """The last difference of a language that counts, else its first variable."""
    names = main_variables(language)
    return next((name for name in reversed(names) if "-" in name), names[0])


def findings(table: pd.DataFrame, main: str, no_steering: str | None) -> tuple[str, dict[str, Any]]:
    """For each variable, the site where erasing it does most harm; and the sites where moving and
    exchanging it work best."""
    trained = table[table["model"] == "trained"]
    erased = {
        name: _erased(trained[trained["variable"] == name])
        for name in table.loc[table["experiment"] == "erasure", "variable"].unique()
    }
    steered, exchanged = _steered(trained), _exchanged(table)
    said = []
    if main in erased:
        found = erased[main]
        said.append(
            f"With {main} erased at {found['site']}, {found['LEACE']:.0%} of the words are right "
            f"(before: {found['none']:.0%}; with random directions erased: "
            f"{found['random directions']:.0%}; with a random readout erased: "
            f"{found['random readout']:.0%})."
        )
    if steered:
        read = steered["read"]
        said.append(
            f"When k is {steered['method']} at {steered['site']}, the end moves by exactly k in "
            f"{steered['exact']:.0%} of cases (in a random direction: {steered['random']:.0%}). "
            + (
                f"A probe reads {main} best at the same site (R2 {read['R2']:.2f})."
                if read["site"] == steered["site"]
                else f"A probe reads {main} best at {read['site']} (R2 {read['R2']:.2f}); there it "
                f"moves by exactly k in {read['exact']:.0%}."
            )
        )
    if exchanged:
        said.append(
            f"Exchanging one direction for {exchanged['variable']} at {exchanged['site']} gives "
            f"the other word's verdict in {exchanged['DAS']:.0%} of the pairs (placebo: "
            f"{exchanged['placebo']:.0%}; a direction trained in the untrained model: "
            f"{exchanged['untrained']:.0%})."
        )
    refused = [f"No steering: {no_steering}."] if no_steering else []
    if not exchanged:
        refused.append("No interchange: no single variable decides whether a word may end.")
    sentence = " ".join(said) or "No variable varies in the training window."
    return sentence, {
        "refused": refused,
        "main": main,
        "erasure": erased,
        "steering": steered,
        "interchange": exchanged,
    }


def _erased(rows: pd.DataFrame) -> dict[str, Any]:
    """The site where LEACE does most harm beyond random directions, and the words right there by
    method."""
    right = rows[rows["measure"] == "words right"]
    wide = right.pivot(index="site", columns="method", values="value").loc[right["site"].unique()]
    site = (wide["random directions"] - wide["LEACE"]).idxmax()
    probes = rows[rows["measure"].str.startswith("probe ") & (rows["site"] == site)]
    probe = probes.set_index("method")["value"]
    return {"site": site, **wide.loc[site], "probe": probe["none"], "probe_erased": probe["LEACE"]}


def _steered(trained: pd.DataFrame) -> dict[str, Any] | None:
    """The site and the way to move that work best, with their control; and the site where a probe
    reads the variable best."""
    rows = trained[trained["measure"] == "moved by k"]
    if rows.empty:
        return None
    exact = rows.groupby(["site", "method"], sort=False)["value"].mean()
    ways = exact[exact.index.get_level_values("method").isin(list(RANDOM))]
    site, method = ways.idxmax()
    best = rows[(rows["site"] == site) & (rows["method"] == method)]
    same = trained["variable"] == rows["variable"].iloc[0]
    probes = trained[same & (trained["measure"] == "probe R2") & (trained["method"] == "none")]
    read = probes.loc[probes["value"].idxmax()]
    return {
        "site": site,
        "method": method,
        "exact": ways.max(),
        "random": exact[site, RANDOM[method]],
        "by_k": {str(k): value for k, value in zip(best["amount"], best["value"], strict=True)},
        "carried": exact[:, "state of another word"].to_dict(),
        "read": {
            "site": read["site"],
            "R2": read["value"],
            "exact": ways[read["site"]].max(),
        },
    }


def _exchanged(table: pd.DataFrame) -> dict[str, Any] | None:
    """The site where the learned direction exceeds its placebo by most, and the controls there."""
    rows = table[table["measure"] == "as predicted"]
    if rows.empty:
        return None
    index = ["model", "site"]
    wide = rows.pivot(index=index, columns="method", values="value").loc[
        list(dict.fromkeys(zip(rows["model"], rows["site"], strict=True)))
    ]
    trained = wide.loc["trained"]
    site = (trained["DAS"] - trained["placebo"]).idxmax()
    untrained = wide.loc[("untrained", site), "DAS"]
    variable = rows["variable"].iloc[0]
    return {"variable": variable, "site": site, **trained.loc[site], "untrained": untrained}


def headline(result: Answer) -> pd.DataFrame:
    """The numbers that are compared over seeds: variable, of, value."""
    found, rows = result.findings, list[tuple[str, str, float]]()
    for name, erased in found["erasure"].items():
        rows += [
            (name, "words right", erased["none"]),
            (name, "words right, erased", erased["LEACE"]),
        ]
        rows += [
            (name, f"words right, {method} erased", erased[method])
            for method in ("random directions", "random readout")
        ]
        rows += [(name, "probe", erased["probe"]), (name, "probe, erased", erased["probe_erased"])]
    if steered := found["steering"]:
        name = found["main"]
        rows += [(name, "moved by exactly k", steered["exact"])]
        rows += [(name, f"moved by exactly {k}", v) for k, v in steered["by_k"].items()]
        rows += [(name, "moved by exactly k, random direction", steered["random"])]
    if exchanged := found["interchange"]:
        rows += [
            (exchanged["variable"], f"judged as predicted, {method}", exchanged[key])
            for key, method in {
                "DAS": "DAS",
                "placebo": "placebo",
                "random direction": "random direction",
                "whole activation": "whole activation",
                "untrained": "DAS in the untrained model",
            }.items()
        ]
    return pd.DataFrame(rows, columns=["variable", "of", "value"])


QUESTION = Question(
    "interventions",
    BUILT_IN["interventions"],
    Options,
    analyse,
    headline,
    chart,
    brief=Options(words=100, pairs=48),
)

if __name__ == "__main__":
    raise SystemExit(script(QUESTION))
