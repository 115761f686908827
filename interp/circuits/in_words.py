"""A circuit in words: sentences made from the numbers that are known of it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import pandas as pd

FREE = 0.01
"""An edge that costs a smaller share of the difference counts as costing nothing."""


def free(findings: Mapping[str, Any]) -> list[str]:
    """The edges of the circuit whose loss costs the whole model nothing."""
    return [
        f"{edge['sender']} → {edge['receiver']}"
        for edge in findings["knock_outs"]
        if abs(edge["model"]) < FREE
    ]


def describe(table: pd.DataFrame, findings: Mapping[str, Any]) -> list[str]:
    """The circuit's work, part by part, in sentences made from the numbers.

    Args:
        table: effects of the trained model, in one direction.
    """
    circuit, into = findings["circuit"], dict[str, list[str]]()
    for sender, receiver in circuit["edges"]:
        into.setdefault(receiver, []).append(sender)
    exact = table.set_index(["sender", "receiver"])["exact"]
    lines = _blind(findings["blind_spots"])
    if without := free(findings):
        lines.append(
            f"The whole model loses less than {FREE:.0%} without {len(without)} of the circuit's "
            f"edges, knocked out one at a time: {_and(without)}. Other edges do their work, or it "
            "is little."
        )
    gap = findings["incompleteness"]
    lines.append(
        f"Under the same knock-outs the circuit and the whole model differ by up to "
        f"{_share(gap['largest'])} ({gap['sets']} sets of its edges; 0% would be complete)."
    )
    parts = list(dict.fromkeys(receiver.split(".")[0] for receiver in into if receiver != "logits"))
    for part in parts:
        reads = {slot: into.get(f"{part}.{slot}", []) for slot in ("v", "k", "q")}
        if "H" not in part:
            lines.append(f"{part} reads {_and(into[part])}.")
            continue
        look = findings["looks"][part]
        sentence = f"{part} {look['how']}"
        if look["share"] is not None:
            sentence += f" ({look['share']:.0%} of all its attention)"
        clauses = [f"passes on what {_and(reads['v'])} wrote"] if reads["v"] else []
        if reads["k"] and reads["k"] == reads["q"]:
            clauses.append(f"takes its keys and queries from {_and(reads['k'])}")
        else:
            aimed = {"keys": reads["k"], "queries": reads["q"]}
            by = [f"its {name} from {_and(some)}" for name, some in aimed.items() if some]
            clauses += [f"takes {' and '.join(by)}"] if by else []
        lines.append(f"{_and([sentence, *clauses])}.")
    last = sorted(into.get("logits", []), key=lambda sender: -abs(exact[sender, "logits"]))
    if last:
        shares = [f"{sender} ({exact[sender, 'logits']:.2f})" for sender in last]
        lines.append(
            f"The verdict is read off {_and(shares)}; the brackets give the direct effect of each."
        )
    lines += [
        f"{method} took {step['steps']:.0f} steps: by half as many, the first edges of the ranking "
        f"hold at least {step['stability']:.0%} of what the first edges by all steps hold."
        for method, step in findings["steps"].items()
    ]
    return lines


def _blind(spots: Sequence[Mapping[str, Any]]) -> list[str]:
    """The facts that single effects do not show, by the pairs of parts that interact most."""
    templates = {
        "redundancy": "{first} and {second} are redundant: without either {alone} is lost, without "
        "both {together}",
        "conjunction": "{first} and {second} are both needed: either restores {alone}, both "
        "{together}",
        "cancelling": "{first} and {second} cancel each other: {direction} either does {alone}, "
        "both {together}",
    }
    clauses = [
        templates[spot["kind"]].format(
            **{k: spot[k] for k in ("first", "second", "direction")},
            alone=f"{_share(spot['alone_first'])} or {_share(spot['alone_second'])}",
            together=_share(spot["together"]),
        )
        for spot in spots[:2]
    ]
    if not clauses:
        return []
    more = f" ({len(spots) - 2} more such pairs)" if len(spots) > 2 else ""
    return [f"Single effects do not show that {', and that '.join(clauses)}{more}."]


def _share(value: float) -> str:
    """A share in per cent, without a sign before a zero."""
    return f"{value:z.0%}"


def _and(words: Sequence[str]) -> str:
    return " and ".join([", ".join(words[:-1]), words[-1]] if len(words) > 1 else words)
