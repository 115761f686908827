"""Pictures that need no run."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

from annotated_types import Interval

from analyses.options.shared import Checked, Seed, check_picture


@dataclass(frozen=True)
class Kernels(Checked):
    """Kernel attention (Nadaraya-Watson) on a noisy function, as one picture.

    Attributes:
        file: the file of the picture: html, svg or png.
        width: the width of the kernels.
        keys: the number of noisy observations of the function.
        seed: the seed of the noise.
    """

    file: Path = Path("kernels.html")
    width: Annotated[float, Interval(ge=1e-06, le=1000000.0)] = 1.0
    keys: Annotated[int, Interval(ge=1, le=1000)] = 40
    seed: Seed = 0

    def __post_init__(self) -> None:
        super().__post_init__()
        check_picture(self.file)
