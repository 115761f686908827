"""The sweeps that come with the lab: TOML files."""

from __future__ import annotations

from pathlib import Path

from models.errors import UserError, meant

SWEEPS = Path(__file__).parents[1] / "studies" / "sweeps"
"""The folder of the sweeps that come with the lab."""


def shipped() -> list[str]:
    """The names of the sweeps that come with the lab."""
    return sorted(path.stem for path in SWEEPS.glob("*.toml"))


def find(name: str) -> Path:
    """The file of a path or of a shipped name. Raises UserError where there is none."""
    path = Path(name)
    if path.suffix == ".toml" or path.is_file():
        return path
    if name in shipped():
        return SWEEPS / f"{name}.toml"
    raise UserError(
        f"{name or repr(name)} is neither a file nor a sweep of the lab: "
        f"{meant(name, shipped())}give a TOML file, or one of {', '.join(shipped())}"
    )
