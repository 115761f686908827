"""The record of a discovery, read with a schema, and its sentences."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Literal, NotRequired

from pydantic import with_config
from typing_extensions import TypedDict

from models.runs.records import AS_WRITTEN, read_record

RECORD, LINES, FOLDER = "record.json", "lines.tsv", "discoveries"


@with_config(AS_WRITTEN)
class _Network(TypedDict):
    """A network that learned the lines, or is learning them."""

    run: str


@with_config(AS_WRITTEN)
class _Way(TypedDict):
    """The result of one way to the rule."""

    way: str
    status: Literal["rule", "exceptions", "counts", "none"]
    rule: str | None
    states: int | None
    dfa: dict[str, Any] | None
    wrong: int | None
    same: bool | None
    seconds: float


@with_config(AS_WRITTEN)
class _Found(TypedDict):
    """The result of the network."""

    status: Literal["rule", "exceptions", "counts", "none"]
    headline: str
    evidence: str
    rule: str | None
    dfa: dict[str, Any] | None


@with_config(AS_WRITTEN)
class _Rule(TypedDict):
    """A rule that fits the lines."""

    words: str | None
    dfa: dict[str, Any] | None
    way: str
    wrong: int | None


@with_config(AS_WRITTEN)
class _Learning(TypedDict):
    """record.json while the lines are learned."""

    status: Literal["learning", "finished"]
    options: dict[str, Any]
    doing: str
    notes: NotRequired[list[str]]
    networks: list[_Network]


@with_config(AS_WRITTEN)
class _Finished(_Learning):
    """record.json at the end."""

    name: str
    labels: tuple[str, str]
    run: str | None
    found: _Found
    ways: list[_Way]
    best: _Rule | None
    space: list[_Rule]
    decide: list[list[str]]
    disagreements: list[dict[str, Any]]
    stopped: NotRequired[str | None]


def names(out: Path) -> list[str]:
    """The names of all discoveries of a folder, finished or not, in their order."""
    return sorted(path.parent.name for path in (out / FOLDER).glob(f"*/{RECORD}"))


def kept(out: Path, name: str) -> dict[str, Any] | None:
    """The record of a discovery, finished or not; None where there is none.

    Raises:
        UserError: it is damaged.
    """
    folder = out / FOLDER / name
    path = folder / RECORD
    if not path.exists():
        return None
    cure = f"move {folder} away, and ask for the rule again"
    record: dict[str, Any] = {**read_record(path, _Learning, cure)}
    if record["status"] == "finished":
        record = {**read_record(path, _Finished, cure)}
    return record


FINDERS = {
    "Transformer": "a Transformer",
    "LSTM": "an LSTM",
    "RPNI": "state merging (RPNI)",
    "EDSM": "state merging (EDSM)",
    "annealing": "annealing of small automata",
    "classes": "the search of classes of rules",
}
"""The finders as a sentence names them."""


def headline(record: dict[str, Any]) -> str:
    """The best rule in a sentence, in the lines' own label."""
    if record["best"] is None:
        return "No reliable rule was found in the lines."
    return f"A line is {record['labels'][0]} if {known(record['best'])}."


def evidence(record: dict[str, Any]) -> str:
    """The best rule's finder and the evidence for it; then the network's words on its own rule."""
    best, network = record["best"], f"{record['found']['headline']} {record['found']['evidence']}"
    if stopped := record.get("stopped"):
        network += f" {stopped}"
    if best is None:
        return network
    way = next(way for way in record["ways"] if way["way"] == best["way"])
    text = f"Found by {FINDERS[way['way']]}"
    if "having" in way:
        a, b = record["labels"]
        (inside, yes), (outside, no) = way["having"]
        text += f": {inside} of {yes} lines of {a} and {outside} of {no} lines of {b} obey it "
        text += f"(exact test: p = {way['p_fitted']:.2g} after correction for {way['tried']:,} "
        text += f"rules of its kind and for {way['kinds']} kinds)"
    if way["held-out right"] is not None:
        text += f"; right on {way['held-out right']:.2%} of the {way['held out']} held-out lines"
    if way["way"] == "Transformer":
        return f"{text}. {network.removeprefix(record['found']['headline']).strip()}"
    return f"{text}. {'The network: ' if record['networks'] else ''}{network}"


def others(record: dict[str, Any]) -> list[dict[str, Any]]:
    """The other rules that the lines do not exclude, as rows; words are as long as the lines."""
    return [
        {
            "rule": known(rule).removeprefix("it "),
            "class": rule["class"],
            "bits": f"{rule['bits']:.1f}",
            "differs on": f"{rule['differs']:.1%} of words",
        }
        for rule in record["space"]
    ]


def question(record: dict[str, Any], subject: str = "The lines") -> str:
    """A sentence on the number of other rules that fit; "" where there is none.

    Args:
        subject: the evidence that does not exclude them: the subject of the sentence.
    """
    count = len(record["space"])
    if not count:
        return ""
    more = "one other rule" if count == 1 else f"{count} other rules"
    return f"{subject} do not exclude {more}; the shortest codes come first:"


DOUBTS = {
    "no automaton": "none found",
    "too long": "longer than a list of the lines",
    "chance": "no better than chance",
    "fitted": "worse on held-out lines",
    "one side": "wrong on most of one side",
    "exceptions": "exceptions have a pattern",
    "counting": "its states grow with the lines",
}
"""The reasons why the result of a way is not reliable, in few words."""


def _reliable(way: dict[str, Any]) -> str:
    """Is the result of a way reliable; if not, why?"""
    if way["status"] == "none":
        why = DOUBTS.get(way.get("doubt") or "")
        return f"no: {why}" if why else "no"
    return "with exceptions" if way["status"] == "exceptions" else "yes"


def table(record: dict[str, Any]) -> list[dict[str, Any]]:
    """The ways side by side."""
    return [
        {
            "way": way["way"],
            "says": way["rule"] or f"an automaton of {way['states']} states",
            "reliable": _reliable(way),
            "lines against": way["wrong"],
            "held-out right": way.get("held-out right"),
            "same": {True: "yes", False: "no", None: None}[way["same"]],
            "seconds": way["seconds"],
        }
        for way in record["ways"]
    ]


def known(rule: dict[str, Any]) -> str:
    """A rule in words; or its automaton, where no family has words for it."""
    if rule["words"]:
        return f"it {rule['words']}"
    written = f": {rule['regex']}" if rule["regex"] else ""
    return f"an automaton of {rule['n_states']} states accepts it{written}"
