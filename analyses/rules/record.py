"""What a discovery leaves behind: its record, read with a schema, and what is said of it."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Literal, NotRequired

from pydantic import with_config
from typing_extensions import TypedDict

from models.runs.records import AS_WRITTEN, read_record

RECORD, LINES, FOLDER = "record.json", "lines.tsv", "discoveries"


@with_config(AS_WRITTEN)
class Network(TypedDict):
    """A network that learned the lines, or is learning them."""

    run: str


@with_config(AS_WRITTEN)
class Way(TypedDict):
    """What one way to the rule has found."""

    way: str
    status: Literal["rule", "exceptions", "counts", "none"]
    rule: str | None
    states: int | None
    dfa: dict[str, Any] | None
    wrong: int | None
    same: bool | None
    seconds: float


@with_config(AS_WRITTEN)
class Found(TypedDict):
    """What the network has found."""

    status: Literal["rule", "exceptions", "counts", "none"]
    headline: str
    evidence: str
    rule: str | None
    dfa: dict[str, Any] | None


@with_config(AS_WRITTEN)
class Learning(TypedDict):
    """record.json while the lines are learned."""

    status: Literal["learning", "finished"]
    options: dict[str, Any]
    doing: str
    notes: NotRequired[list[str]]
    networks: list[Network]


@with_config(AS_WRITTEN)
class Finished(Learning):
    """record.json at the end."""

    name: str
    labels: tuple[str, str]
    run: str | None
    found: Found
    ways: list[Way]
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
    cure = f"remove {folder}, and ask for the rule again"
    record: dict[str, Any] = {**read_record(path, Learning, cure)}
    if record["status"] == "finished":
        record = {**read_record(path, Finished, cure)}
    return record


def headline(record: dict[str, Any]) -> str:
    """The answer in a sentence, in the lines' own label: the rule of the network; where it has
    none, that of a rival that has one."""
    found, label = record["found"], record["labels"][0]
    if found["status"] == "none":
        knowing = [way for way in record["ways"] if way["status"] in ("rule", "exceptions")]
        said = str(found["headline"])
        if not knowing:
            return said
        way = knowing[-1]
        return f"By {way['way']}, a line is {label} if {known(way)}. {said}"
    states = record["found"].get("n_states")
    told = {"rule": found["rule"], "states": states, "regex": None}
    return f"A line is {label} if {known(told)}."


DOUBTS = {
    "no automaton": "none found",
    "too long": "longer than a list of the lines",
    "chance": "no better than chance",
    "fitted": "worse on held-out lines",
    "one side": "wrong on most of one side",
    "exceptions": "exceptions have a pattern",
    "counting": "its states grow with the lines",
}
"""Why what a way has found is not reliable, in few words."""


def reliable(way: dict[str, Any]) -> str:
    """Is what a way has found reliable, and why not?"""
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
            "reliable": reliable(way),
            "lines against": way["wrong"],
            "held-out right": way.get("held-out right"),
            "same": {True: "yes", False: "no", None: None}[way["same"]],
            "seconds": way["seconds"],
        }
        for way in record["ways"]
    ]


def known(way: dict[str, Any]) -> str:
    """What a way has found, in words; or its automaton, where no family has words for it."""
    if way["rule"]:
        return f"it {way['rule']}"
    written = f": {way['regex']}" if way.get("regex") else ""
    return f"an automaton of {way['states']} states accepts it{written}"


def remarks(record: dict[str, Any]) -> list[str]:
    """More sentences: what the time did not suffice for, the best word pattern, and the rules of
    rivals where the network has none.

    An automaton that no family has words for is a rule, too.
    """
    first = record["labels"]
    said = [record["stopped"]] if record.get("stopped") else []
    for way in record["ways"]:
        if seen := way.get("pattern"):
            (inside, outside), (yes, no) = seen["having"], seen["lines"]
            said.append(
                f"Word patterns: {inside} of {yes} lines of {first[0]} and {outside} of {no} of "
                f"{first[1]} {seen['text'].replace('contains', 'contain', 1)} "
                f"(exact test, p = {seen['p']:.2g} after correction for {seen['tried']} patterns)."
            )
    if record["found"]["status"] == "none":
        knowing = [way for way in record["ways"] if way["status"] != "none"]
        said += [f"{way['way']}: a line is {first[0]} if {known(way)}." for way in knowing]
    return said
