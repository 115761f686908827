"""Claims about an answer: findings held against their controls, in one place for all.

A question gives estimates with their controls. The sentence and the grade are made here. A finding
is told only where it beats every control by its interval. Of the inside of a network that does not
know its language nothing is told at all.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from math import isfinite
from typing import TYPE_CHECKING, Any, Literal

from interp.statistics import brackets

if TYPE_CHECKING:
    import pandas as pd

COUNTS = {"what counts": 0.05}
"""The control of a difference between two shares, scores or correlations: less is not told, however
narrow its interval."""

Grade = Literal["holds", "fragile", "no better than its controls", "not weighed"]


@dataclass(frozen=True)
class Knowledge:
    """The share of a network's answers that is right, beside that of the best constant answer.

    Attributes:
        answers: what is counted, in words.
        right: the share of right answers. Members of the language and others weigh the same.
        low, high: its 95% interval over different words; None where there are too few.
        constant: the share that the best constant answer gets right.
        words: how many different words were asked.
    """

    answers: str
    right: float
    low: float | None
    high: float | None
    constant: float
    words: int

    @property
    def is_shown(self) -> bool:
        """Whether the network is right more often than any constant answer, by its interval."""
        return self.low is not None and self.low > self.constant


@dataclass(frozen=True)
class Claim:
    """A finding that its controls may refute.

    Attributes:
        finding: a clause without a full stop, in which {} stands for the number with its interval:
            "A linear probe reads a-b at L0 mlp_out with an R2 of {}".
        value: the estimate; None where it is not defined.
        low, high: its 95% interval; None where there is none. NaN is read as None.
        n: how many units the interval is over.
        unit: what they are, in the plural.
        over: how the interval was made: "bootstrap over words".
        controls: what each control reaches, by its name, at its own best choice.
        form: how numbers are written, as in a format string.
        less: whether a finding lies below its controls, not above them.
        doubts: ways in which the finding was tested and does not hold, each a sentence.
        notes: what is told in any case, each a sentence: what the number does not show, or facts
            that need no interval.
        unweighed: why it cannot be weighed, in a sentence; "" where it can.
    """

    finding: str
    value: float | None
    low: float | None
    high: float | None
    n: int
    unit: str
    over: str = ""
    controls: Mapping[str, float] = field(default_factory=dict)
    form: str = ".2f"
    less: bool = False
    doubts: Sequence[str] = ()
    notes: Sequence[str] = ()
    unweighed: str = ""

    def __post_init__(self) -> None:
        """Turns no number into None: a claim that was kept equals the one that is made anew."""
        for name in ("value", "low", "high"):
            x = getattr(self, name)
            object.__setattr__(self, name, None if x is None or not isfinite(x) else float(x))
        object.__setattr__(self, "n", int(self.n))
        for name in ("doubts", "notes"):
            object.__setattr__(self, name, tuple(getattr(self, name)))
        values = {name: float(x) for name, x in self.controls.items() if isfinite(x)}
        object.__setattr__(self, "controls", values)

    @property
    def strongest(self) -> str | None:
        """The name of the control that comes nearest to refuting it; None without controls."""
        choose = min if self.less else max
        return choose(self.controls, key=self.controls.__getitem__) if self.controls else None

    @property
    def grade(self) -> Grade:
        """The degree to which the finding can be believed."""
        if self.unweighed or self.value is None or self.strongest is None:
            return "not weighed"
        known = self.low is not None and self.high is not None
        end = (self.high if self.less else self.low) if known else self.value
        control = self.controls[self.strongest]
        if end is None or not (end < control if self.less else end > control):
            return "no better than its controls"
        if not known:  # it is beyond its controls, but nobody knows how surely
            return "not weighed"
        return "fragile" if self.doubts else "holds"

    @property
    def ahead(self) -> float:
        """By how many standard errors it lies beyond its strongest control; NaN where it cannot be
        weighed. The error is that of a normal distribution with this interval."""
        if self.grade == "not weighed" or self.low is None:
            return float("nan")
        value, low, high = (x or 0.0 for x in (self.value, self.low, self.high))
        gap = (value - self.controls[self.strongest or ""]) * (-1 if self.less else 1)
        return gap / max((high - low) / 3.92, 1e-9)

    @property
    def number(self) -> str:
        """The value with its interval."""
        value = "an unknown amount" if self.value is None else f"{self.value:{self._form}}"
        return f"{value}{brackets(self.low, self.high, self._form)}"

    @property
    def _form(self) -> str:
        """The form of numbers, with one more digit where the interval would seem to begin, or to
        end, at a control that it does not begin or end at."""
        end = self.high if self.less else self.low
        for value in self.controls.values():
            if end is not None and end != value and f"{end:{self.form}}" == f"{value:{self.form}}":
                return re.sub(r"\d", lambda digits: str(int(digits[0]) + 1), self.form)
        return self.form

    @property
    def _told(self) -> str:
        told = self.finding.replace("{}", self.number)
        refuted = self.grade == "no better than its controls"
        return f"Not proven: {_within(told)}" if refuted else told

    @property
    def short(self) -> str:
        """The finding in one short sentence, with its interval and the control that refutes it."""
        if self.grade != "no better than its controls":
            return f"{self._told}."
        return f"{self._told}; {self.strongest} {self.controls[self.strongest or '']:{self._form}}."

    @property
    def why(self) -> str:
        """The numbers behind the grade: interval, n, unit, every control, and what is in doubt."""
        return f"{self.number} {self._evidence}"

    @property
    def sentence(self) -> str:
        """All of it."""
        return f"{self._told}, {self._evidence}"

    @property
    def _evidence(self) -> str:
        how = f" ({self.over})" if self.over and self.low is not None else ""
        beside = ", ".join(f"{k} {value:{self._form}}" for k, value in self.controls.items())
        unit = re.sub(r"s\b", "", self.unit, count=1) if self.n == 1 else self.unit
        parts = [f"on {self.n:,} {unit}{how}{'; ' if beside else ''}{beside}.", *self.doubts]
        reason = self.unweighed
        if not reason and (self.strongest is None or self.low is None):
            reason = "There is no control." if self.strongest is None else "There is no interval."
        return " ".join(part for part in (*parts, reason, *self.notes) if part)


def measured(
    row: Mapping[str, Any] | pd.Series, value: str, low: str, high: str, n: str
) -> tuple[float | None, float | None, float | None, int]:
    """The fields value, low, high and n of a claim, from these columns of a row."""
    return row[value], row[low], row[high], row[n]


def interval_text(value: float, low: float, high: float, form: str = ".2f") -> str:
    """A number of a table with its interval, if it has one; "-" where it is NaN."""
    return "-" if value != value else f"{value:{form}}{brackets(low, high, form)}"


def _within(clause: str) -> str:
    """A clause inside a sentence: without its capital letter, unless the word is a name."""
    return clause[0].lower() + clause[1:] if clause[1:2].islower() or clause[1:2] == " " else clause


@dataclass(frozen=True)
class Verdict:
    """The finding of an answer, and whether to believe it.

    Attributes:
        short: the finding in one short sentence.
        grade: "holds": better than every control, by an interval; "fragile": better, but not in
            every way that it was tested; "no better than its controls"; "not weighed".
        why: the numbers behind the grade, with n, unit and control.
    """

    short: str
    grade: Grade
    why: str


NOTHING_KNOWN = "Nothing inside this network is claimed, since it does not know its language."


def verdict(claims: Sequence[Claim], knowledge: Knowledge | None, sentence: str) -> Verdict:
    """The verdict on an answer: that on its first claim.

    Args:
        knowledge: of the language by the network; None where the answer is about that itself.
        sentence: what is said of an answer without claims.
    """
    if knowledge is not None and not knowledge.is_shown:
        return Verdict(NOTHING_KNOWN, "not weighed", _ignorance(knowledge))
    if not claims:
        return Verdict(sentence, "not weighed", "It has no number that a control could refute.")
    return Verdict(claims[0].short, claims[0].grade, claims[0].why)


def told(claims: Sequence[Claim], knowledge: Knowledge | None) -> str:
    """All claims of an answer in words."""
    if knowledge is not None and not knowledge.is_shown:
        return f"{NOTHING_KNOWN} {_ignorance(knowledge)} The table has the numbers."
    return " ".join(claim.sentence for claim in claims)


def _ignorance(knowledge: Knowledge) -> str:
    return (
        f"Of its {knowledge.answers} {knowledge.right:.1%}"
        f"{brackets(knowledge.low, knowledge.high, '.1%')} are right, on {knowledge.words:,} "
        f"different words; always the same answer is right in {knowledge.constant:.1%}."
    )
