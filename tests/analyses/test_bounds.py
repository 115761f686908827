"""Every number that a user may give has bounds."""

from __future__ import annotations

import math
from dataclasses import MISSING, fields
from pathlib import Path
from typing import Any, get_args, get_origin, get_type_hints

import pytest

from analyses.command_line.arguments import SHOWN, SHOWN_OF, STUDIES, TAKES
from analyses.options.lines import OfNetwork
from analyses.registry import BUILT_IN, options_of
from models.choices import Counting
from models.config import TrainConfig
from models.errors import UserError
from models.model_config import ModelConfig

KINDS: list[type[Any]] = [
    *(kind for table in (TAKES, STUDIES, SHOWN, SHOWN_OF) for kind in table.values()),
    OfNetwork,
    *map(options_of, BUILT_IN),
    TrainConfig,
    ModelConfig,
    Counting,
]
NEEDED: dict[str, Any] = dict.fromkeys(("run", "path", "lines", "folder", "model"), Path("x"))
NEEDED |= {
    "file": "seeds",
    "language": "an",
    "name": "",
    "word": "",
    "study": "rules",
}
BEYOND: dict[type[Any], list[float]] = {
    int: [-(10**30), 10**30],
    float: [-1e30, 1e30, math.inf, math.nan],
}
CASES = [
    pytest.param(kind, name, value, id=f"{kind.__name__} {name} {value:.0e}")
    for kind in KINDS
    for name, of in get_type_hints(kind).items()
    for number in {of, *get_args(of)} & {int, float}
    for value in BEYOND[number]
]


@pytest.mark.parametrize(("kind", "name", "value"), CASES)
def test_a_number_beyond_its_bounds_is_told(kind: type[Any], name: str, value: float) -> None:
    """There a machine's memory, or everybody's patience, would end before the work does."""
    must = {f.name for f in fields(kind) if f.default is f.default_factory is MISSING}
    given = (value,) if get_origin(get_type_hints(kind)[name]) is tuple else value
    with pytest.raises(UserError, match=rf"^(--)?{name.replace('_', '[-_]')} is [^\n]*$"):
        kind(**{each: NEEDED[each] for each in must}, **{name: given})
