"""Which version of the lab answered: a hash of the source that an answer depends on.

The release number would not do: whoever changes a lens changes what it answers, not the number.
"""

from __future__ import annotations

import hashlib
import subprocess
from collections.abc import Iterable
from functools import cache
from importlib.util import find_spec
from pathlib import Path

from analyses.registry import OWN, known

ROOT = Path(__file__).parents[1]
MODELS = ("models", "interp", "analyses/activations.py")
"""What activations depend on."""
ANSWERS = (
    *MODELS,
    *(f"analyses/{name}" for name in ("measures", "questions", "rules", "scoring", "studies")),
    *(f"analyses/{name}.py" for name in ("answers", "words")),
)
"""What answers depend on. Charts, options and pages change none."""


def code_of(name: str) -> str:
    """The version of the lab that answers a question, a study's as well as a run's: 16 hex digits.

    The question of another package counts with the file that it stands in.
    """
    if name in OWN or name not in known():
        return source_hash(*ANSWERS)
    spec = find_spec(known()[name].module)
    return source_hash(*ANSWERS, *([spec.origin] if spec and spec.origin else []))


@cache
def source_hash(*places: str) -> str:
    """A hash over files and folders of source, given below the lab's root: 16 hex digits."""
    digest = hashlib.sha256()
    for place in places:
        for file in _files(ROOT / place):
            digest.update(file.name.encode() + hashlib.sha256(file.read_bytes()).digest())
    return digest.hexdigest()[:16]


def _files(place: Path) -> Iterable[Path]:
    return sorted(place.rglob("*.py")) if place.is_dir() else [place]


def commit() -> str:
    """The commit of the lab, short; "unknown" without git, and where it is no repository."""
    command = ["git", "rev-parse", "--short", "HEAD"]
    try:
        told = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    except OSError:  # there is no git
        return "unknown"
    return told.stdout.strip() or "unknown"
