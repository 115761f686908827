"""Pictures that need no run."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True)
class Kernels:
    """Kernel attention (Nadaraya-Watson) on a noisy function, as one picture.

    Attributes:
        file: the picture's file: html, svg or png.
        width: of the kernels.
        keys: noisy observations of the function.
        seed: of the noise.
    """

    file: Path = Path("kernels.html")
    width: float = 1.0
    keys: int = 40
    seed: int = 0
