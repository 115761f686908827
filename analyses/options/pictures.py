"""Pictures that need no run."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from analyses.options.shared import at_least, check_picture, check_seed


@dataclass(frozen=True)
class Kernels:
    """Kernel attention (Nadaraya-Watson) on a noisy function, as one picture.

    Attributes:
        file: the file of the picture: html, svg or png.
        width: the width of the kernels.
        keys: the number of noisy observations of the function.
        seed: the seed of the noise.
    """

    file: Path = Path("kernels.html")
    width: float = 1.0
    keys: int = 40
    seed: int = 0

    def __post_init__(self) -> None:
        at_least(1, self, "keys")
        at_least(1e-6, self, "width")
        check_seed(self.seed)
        check_picture(self.file)
