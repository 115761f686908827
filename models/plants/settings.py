"""The dials of a planted network: what makes it hard to read. Light, for the command line."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Annotated, Literal

from annotated_types import Interval

from models.checks import check_fields

Copies = Literal["one", "either", "both"]


@dataclass(frozen=True)
class Dials:
    """The dials of a planted network. By default it is as plain as its program.

    Attributes:
        decoys: idle heads in each layer. They read everything, and write where nobody reads; every
            MLP gets hidden units of the same kind.
        cancelling: whether each layer has two more heads that write opposite numbers where they are
            read.
        copies: "either": two copies of the program, each of them enough (redundancy); "both": two
            copies, both needed (conjunction).
        rotate: whether the stream is turned: no variable then has dimensions for itself.
        superposed: the share of dimensions that is taken away from values of categories, so that
            there are more values than dimensions; less where verdicts would be wrong.
        norm: whether RMSNorm stands before every part and before the logits. It shrinks what the
            parts read by what else is in the stream.
        noise: on every weight, as a share of the mean size of the weights of its head or hidden
            unit; less where verdicts would be wrong.
    """

    decoys: Annotated[int, Interval(ge=0, le=64)] = 0
    cancelling: bool = False
    copies: Copies = "one"
    rotate: bool = False
    superposed: Annotated[float, Interval(ge=0, le=0.9)] = 0.0
    norm: bool = False
    noise: Annotated[float, Interval(ge=0, le=1)] = 0.0

    def __post_init__(self) -> None:
        check_fields(self)

    @property
    def heads(self) -> int:
        """Heads of a layer that the program has no use for."""
        return self.decoys + 2 * self.cancelling

    def weaker(self) -> list[Dials]:
        """These dials, and weaker ones for where a network would err with them, ever weaker."""
        if not (self.superposed or self.noise):
            return [self]
        shares = (1.0, 0.7, 0.5, 0.35, 0.25, 0.15, 0.1, 0.05, 0.02, 0.01)
        return [
            replace(self, superposed=share * self.superposed, noise=share * self.noise)
            for share in shares
        ]
