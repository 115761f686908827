"""What the kept answers of a run say in a few words, and how far each can be believed.

An answer is held against its controls by its own numbers: nothing is computed anew. Where a
question's controls are not weighed here, that is said.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Literal

import pandas as pd

from analyses.answers import Answer, latest
from analyses.registry import registered
from interp.explanations.methods import METHODS
from interp.statistics import bootstrap_mean, brackets, wilson
from models.runs.run import Run

Grade = Literal["holds", "fragile", "no better than its controls", "not weighed"]
RIGHT = 0.99
"""From this share of right verdicts on, a network is said to know its language."""
ABLATIONS = ("mean", "zero", "resample")


@dataclass(frozen=True)
class Verdict:
    """What an answer says, and whether to believe it.

    Attributes:
        short: the finding in one short sentence.
        grade: "holds": better than every control, by an interval; "fragile": better, but not
            in every way that it was tested; "no better than its controls"; "not weighed".
        why: the numbers behind the grade, with n, unit and control.
    """

    short: str
    grade: Grade
    why: str


ONE_WORD = "One word gives no interval."


def verdict(name: str, answer: Answer) -> Verdict:
    """The verdict on an answer to the question of this name."""
    if name in WEIGHED:
        return WEIGHED[name](answer)
    return Verdict(_first(answer), "not weighed", "Its page shows it beside its controls.")


def _first(answer: Answer) -> str:
    """The first sentence of what the answer says."""
    return re.split(r"(?<=[.!?]) (?=[A-Z0-9])", answer.sentence)[0]


def scorecard(run: Run) -> pd.DataFrame:
    """One row per question that the run keeps an answer to.

    Columns: question, finding, grade, why.
    """
    found = {name: kept for name in registered() if (kept := latest(run, name)) is not None}
    verdicts = {
        name: verdict(name, kept)
        for name, kept in found.items()
        if kept.model_hash == run.model_hash()
    }
    rows = [(name, each.short, each.grade, each.why) for name, each in verdicts.items()]
    return pd.DataFrame(rows, columns=["question", "finding", "grade", "why"])


def _accuracy(answer: Answer) -> Verdict:
    """Right verdicts in the training window, beside the untrained network's."""
    window = answer.findings["window"]
    tested = answer.table[answer.table["n"].isna() | (answer.table["n"] <= window)]
    if tested.empty:
        tested = answer.table
    right = {
        str(model): (
            round(float((rows["recognition"] * rows["different"]).sum())),
            int(rows["different"].sum()),
        )
        for model, rows in tested.groupby("model")
    }
    hits, words = right["trained"]
    (low, high), (_, untrained) = wilson(hits, words), wilson(*right["untrained"])
    reach, share = answer.findings["exact_to"], hits / words
    short = f"{share:.1%} of the verdicts are right in the training window."
    if reach:
        short = f"Every next-symbol set is right up to size {reach} (training ended at {window})."
    grade: Grade = "fragile" if share < RIGHT else "holds"
    if low <= untrained:
        grade = "no better than its controls"
    return Verdict(
        short,
        grade,
        f"Right verdicts: {share:.1%} of {words} different test words{brackets(low, high, '.1%')}; "
        f"untrained {right['untrained'][0] / right['untrained'][1]:.1%}.",
    )


def _probing(answer: Answer) -> Verdict:
    """The main variable's score, beside the best of its controls."""
    main = answer.findings["main"]
    best = answer.findings["best"][main]
    control = max(best["controls"], key=best["controls"].__getitem__)
    other, score, low = best["controls"][control], best["score"], best["low"]
    short = f"A linear probe reads {main} at {best['site']} ({best['metric']} {score:.2f})."
    if low is None:
        return Verdict(short, "not weighed", ONE_WORD)
    why = (
        f"{score:.3f}{brackets(low, best['high'], '.3f')} on {best['n_test']} held-out prefixes "
        f"(bootstrap over words); the best control, {control}, {other:.3f}."
    )
    if low <= other:
        return Verdict(short, "no better than its controls", why)
    longer = best["longer"]
    if longer is not None and longer <= other:
        return Verdict(short, "fragile", f"{why} On longer words it reads {longer:.3f}.")
    return Verdict(short, "holds", why)


def _heads(answer: Answer) -> Verdict:
    """The head whose loss costs most, beside that of the untrained network."""
    table = answer.table[answer.table["measure"] == "accuracy lost, mean ablation"]
    most = answer.findings["most"]
    trained, untrained = (table[table["model"] == of] for of in ("trained", "untrained"))
    (row,) = trained[trained["part"] == most].to_dict("records")
    other = untrained["high"].max()
    why = (
        f"Verdicts lost without {most}: {row['value']:.1%}"
        f"{brackets(row['low'], row['high'], '.1%')} of {int(row['words'])} different words; "
        f"without a head of the untrained network at most "
        f"{untrained['value'].max():.1%}."
    )
    if pd.isna(row["low"]):
        return Verdict(f"Without {most}, {row['value']:.0%} are lost.", "not weighed", ONE_WORD)
    if not answer.findings["needed"]:
        short = f"No single head is needed: the most that one costs is {row['value']:.1%}."
    else:
        short = f"Without {most}, {row['value']:.0%} of the verdicts are lost."
    if row["low"] <= other:
        return Verdict(short, "no better than its controls", why)
    by = answer.findings["needed_by"]
    apart = [name for name in ABLATIONS if most not in by.get(name, [])]
    if apart:
        return Verdict(short, "fragile", f"{why} Not shown by {' and '.join(apart)} ablation.")
    return Verdict(short, "holds", why)


def _circuits(answer: Answer) -> Verdict:
    """The smallest circuit, beside that of the untrained network and random edges."""
    own, other = answer.findings["circuit"], answer.findings["untrained"]
    size, least = len(own["edges"]), len(other["edges"])
    short = f"{size} of {own['of']} edges keep {own['faithfulness']:.0%} of the difference."
    why = (
        f"Faithfulness {own['faithfulness']:.2f}{brackets(own['low'], own['high'], '.2f')} on "
        f"{own['pairs']} held-out pairs (bootstrap); as many random edges "
        f"{answer.findings['random']:.2f}; the untrained network: {least} edges, "
        f"{other['faithfulness']:.2f}."
    )
    if own["low"] <= answer.findings["random"]:
        return Verdict(short, "no better than its controls", why)
    if least <= size and other["high"] >= own["low"]:
        short += f" In the untrained network {least} do the same for its own small difference."
        return Verdict(short, "no better than its controls", why)
    return Verdict(short, "holds" if own["low"] >= RIGHT - 0.1 else "fragile", why)


def _discovery(answer: Answer) -> Verdict:
    """The rule, beside always giving one answer and the untrained network's automaton."""
    found = answer.findings
    short = found["headline"]
    if found["status"] == "none":
        chance = found["doubt"] == "chance"
        grade: Grade = "no better than its controls" if chance else "not weighed"
        return Verdict(short, grade, found["evidence"])
    if found["status"] == "counts":
        seen = found["envelope"]
        clear = min(seen["inside"], seen["outside"]) >= RIGHT
        return Verdict(short, "holds" if clear else "fragile", found["evidence"])
    low, high = found["agreement_truth_interval"]
    controls = {
        "always the same answer": found["majority"],
        "the untrained network's automaton": found["untrained"]["agreement_truth"] or 0.0,
    }
    best = max(controls, key=controls.__getitem__)
    why = (
        f"Held-out labels right: {found['agreement_truth']:.1%} of {found['held_out']}"
        f"{brackets(low, high, '.1%')}; {best} {controls[best]:.1%}."
    )
    if low <= controls[best]:
        return Verdict(short, "no better than its controls", why)
    doubts = not found["finished"] or any(found["sensitive"].values())
    return Verdict(short, "fragile" if doubts else "holds", why)


def _patching(answer: Answer) -> Verdict:
    """The largest effect on one word, beside the largest in the untrained network."""
    table, found = answer.table.dropna(subset="effect"), answer.findings
    if "top_site" not in found:
        return Verdict(answer.sentence, "not weighed", "There is no difference to carry.")
    part = table[table["component"] == "z"]
    part = table if part.empty else part
    sides = {str(of): rows for of, rows in part.groupby("model")}
    top = _strongest(sides["trained"])
    other = _strongest(sides["untrained"]) if "untrained" in sides else None
    size, site = abs(top["judged"]), found["top_site"]
    short = f"Patching {site} carries {size:.0%} of the difference between this word and others."
    beside = "the untrained network tells the words apart by nothing"
    if other is not None:
        beside = f"the largest in the untrained network {abs(other['judged']):.2f}"
    low, high = sorted(abs(top[end]) for end in ("low", "high"))
    why = (
        f"Effect {size:.2f} on the pairs that did not choose it{brackets(low, high, '.2f')} on all "
        f"{int(top['pairs'])} pairs of one word; {beside}."
    )
    if pd.isna(low) or top["low"] * top["high"] <= 0:
        return Verdict(short, "not weighed", f"{why} No interval tells it from 0.")
    if other is not None and low <= abs(other["judged"]):
        return Verdict(short, "no better than its controls", why)
    return Verdict(short, "holds", why)


def _strongest(rows: pd.DataFrame) -> pd.Series:
    """The row that half of the pairs choose."""
    return rows.iloc[int(rows["choice"].abs().fillna(0).argmax())]


def _interventions(answer: Answer) -> Verdict:
    """Erasing the main variable, beside random directions and a random readout."""
    main, erased = answer.findings["main"], answer.findings["erasure"]
    if main not in erased:
        return Verdict(answer.sentence, "not weighed", "Nothing could be erased.")
    gone = erased[main]
    low, high = gone["low"], gone["high"]
    short = (
        f"With {main} erased at {gone['site']}, {gone['LEACE']:.0%} of the words stay right, of "
        f"{gone['none']:.0%}."
    )
    why = (
        f"{gone['LEACE']:.0%}{brackets(low, high, '.0%')} of {gone['words']} different words are "
        f"right; with random directions erased {gone['random directions']:.0%}, with a random "
        f"readout {gone['random readout']:.0%}."
    )
    if high >= min(gone["none"], gone["random directions"]):
        return Verdict(short, "no better than its controls", why)
    if high >= gone["random readout"]:
        return Verdict(short, "fragile", f"{why} A random readout ruins as much at this site.")
    return Verdict(short, "holds", why)


def _leaderboard(answer: Answer) -> Verdict:
    """The method that half of the words choose, beside random values on the other half."""
    rows = answer.table[answer.table["membership"] == "members"]
    grid = rows.pivot_table("AUROC", "word", ["method", "scale"], sort=False)
    names = [at for at in grid.columns if at[0] in METHODS and METHODS[at[0]].family != "control"]
    chance = [each for each in grid.columns if each[0] == "random"]
    choose, judge = grid.iloc[::2], grid.iloc[1::2]
    if not names or not chance or len(judge) < 3:
        return Verdict(
            "Too few words were asked about to say which method is best.",
            "not weighed",
            f"{len(grid)} members have positions that decide; six are the least: half of them "
            "choose the method, and the others judge it.",
        )
    best = choose[names].mean().idxmax()
    beyond = judge[best] - judge[chance[0]]
    mean, low, high = (float(each[0]) for each in bootstrap_mean(beyond.to_numpy()[:, None]))
    short = f"{best[0]} ranks the positions that decide best (AUROC {judge[best].mean():.2f})."
    why = (
        f"On {len(judge)} members that did not choose it: {mean:+.2f}{brackets(low, high, '+.2f')} "
        f"beyond random values ({judge[chance[0]].mean():.2f}), bootstrap over words."
    )
    return Verdict(short, "holds" if low > 0 else "no better than its controls", why)


def _emergence(answer: Answer) -> Verdict:
    """What training added to the main variable's score; a curve of one run has no interval."""
    main = answer.findings["main"]
    of = answer.findings["curves"][main]
    short = f"What a probe reads of {main} grew from {of['first']:.2f} to {of['last']:.2f}."
    why = f"{of['first']:.3f} before the first step, {of['last']:.3f} after the last."
    if of["last"] <= of["first"]:
        short = f"Training added nothing to what a probe reads of {main}: {of['last']:.2f}."
        return Verdict(short, "no better than its controls", why)
    return Verdict(short, "not weighed", f"{why} The curve of one run has no interval.")


def _explanations(answer: Answer) -> Verdict:
    """How many methods rank the symbols that decide first; one word tells no more of a method."""
    why = "One word proves nothing about a method; the leaderboard asks many."
    rows = pd.DataFrame(answer.findings["agreement"])
    ranked = rows[rows["AUROC"].notna()]
    judged = ranked[ranked["family"] != "control"].groupby("method")["AUROC"].max()
    if judged.empty:
        _, reason, *_ = re.split(r"(?<=[.!?]) (?=[A-Z0-9])", answer.sentence)
        return Verdict(reason, "not weighed", why)
    random = float(ranked.set_index("method").loc["random", "AUROC"])
    short = (
        f"On the word {' '.join(answer.findings['word'])}, {(judged == 1).sum()} of {len(judged)} "
        "methods put the symbols that decide above all others (AUROC 1); random values have "
        f"{random:.2f}."
    )
    return Verdict(short, "not weighed", why)


WEIGHED: Mapping[str, Callable[[Answer], Verdict]] = {
    "accuracy": _accuracy,
    "probing": _probing,
    "heads": _heads,
    "circuits": _circuits,
    "discovery": _discovery,
    "patching": _patching,
    "interventions": _interventions,
    "leaderboard": _leaderboard,
    "emergence": _emergence,
    "explanations": _explanations,
}
"""The questions whose answers are held against their controls here."""
