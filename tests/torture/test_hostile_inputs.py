"""Hostile inputs over all commands and all files of a run.

Each is answered by one line and exit status 2, or rightly, within its bounds of time and memory;
nothing half made is left. `make torture` tries more than a thousand, `make test` a few.
"""

from __future__ import annotations

import json
import os
import re
import shlex
import shutil
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pandas as pd
import pytest
from answered import answered
from conftest import tiny_config, without_pictures
from hostile_inputs import ACCEPTED, FILES, FIXED, REFUSED, SWEEP, TINY
from hypothesis import HealthCheck, Phase, assume, given, settings
from hypothesis import strategies as st

from analyses.answers import answer
from analyses.command_line.arguments import SHOWN_OF, TAKES
from analyses.console import option_values
from analyses.options.commands import Train
from analyses.options.parts import Patching
from analyses.options.shared import Asks
from analyses.registry import BUILT_IN, options_of
from models.runs.run import Run
from models.training.loop import train
from models.training.recipes import recipe

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(sys.platform != "linux", reason="memory is bounded as on Linux"),
]


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a finished run that keeps an answer, a run of a corpus, and the files."""
    folder = tmp_path_factory.mktemp("torture") / "whole"
    folder.mkdir()
    for name, content in FILES.items():
        (folder / name).write_text(content)
    runs = folder / "runs"
    run = Run.create(runs / "anbn-s0", tiny_config())
    lines = tiny_config(language="lines", objective="verdict")
    for each in (run, Run.create(runs / "lines-s0", lines, folder / "lines.tsv")):
        train(each, device="cpu")
    with without_pictures():
        answer(run, "patching", Patching(n=2, pairs=3))
    return folder


@pytest.fixture
def check(whole: Path, tmp_path: Path) -> Callable[..., None]:
    """Runs a command in a fresh copy of the folder, and fails where its answer is at fault."""

    def run(args: list[str], status: int | None = None, prepare: Any = None) -> None:
        where = tmp_path / "here"
        shutil.rmtree(where, ignore_errors=True)
        shutil.copytree(whole, where)
        os.mkfifo(where / "fifo")
        if prepare is not None:
            prepare(where)
        found = answered(["runs/anbn-s0" if arg == "RUN" else arg for arg in args], where)
        fault = found.fault()
        if fault is None and status not in (None, found.status):
            fault = f"status {found.status} instead of {status}: {found.out}{found.err}"
        assert fault is None, f"lab {shlex.join(args)[:300]}\n{fault}"

    return run


@pytest.fixture
def rounds(request: pytest.FixtureRequest) -> Callable[[int], Any]:
    """Settings of hypothesis: so many examples in full, two otherwise."""
    full = request.config.getoption("full")

    def made(count: int) -> Any:
        return settings(
            max_examples=count if full else 2,
            deadline=None,
            database=None,
            derandomize=not full,
            phases=[Phase.generate],
            suppress_health_check=list(HealthCheck),
        )

    return made


def table(text: str) -> list[list[str]]:
    return [shlex.split(line) for line in text.strip().splitlines()]


@pytest.mark.parametrize(
    ("cases", "status"), [(REFUSED, 2), (ACCEPTED, 0)], ids=["refused", "accepted"]
)
def test_the_table(
    cases: str, status: int, check: Callable[..., None], request: pytest.FixtureRequest
) -> None:
    full = request.config.getoption("full")
    faults = []
    for args in table(cases)[:: 1 if full else 12]:
        try:
            check(args, status)
        except AssertionError as fault:
            faults.append(str(fault).split("\nassert ")[0])
    assert not faults, "\n\n".join(faults)


# -- any option of any command ----------------------------------------------------------------

NUMBERS = st.one_of(
    st.integers(-3, 3),
    st.integers(min_value=10**7),
    st.floats(),
    st.sampled_from(["9" * 5000, "²", "1e999", "0x10", "", "-", "--", "1_0", "٣", "1:99999999999"]),
).map(str)
WORDS = st.one_of(
    st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0/"), max_size=12),
    st.sampled_from(["[/b]", "x" * 300, "/dev/zero", "fifo", ".", "..", "{}", "%s", "nan", "a b"]),
)


def starts() -> dict[str, tuple[list[str], list[str]]]:
    """What each command needs to work, and its options."""
    base = {
        **{name: [name, "RUN"] for name in ("resume", "evaluate", "show")},
        "runs": ["runs", "runs"],
        "languages": ["languages"],
        "predict": ["predict", "RUN", "a b"],
        "seeds": ["seeds", "RUN", "patching", "--workers", "1"],
        "sweep": ["sweep", "good.toml", "--out", "o", "--workers", "1"],
    }
    found = {name: (words, [*option_values(TAKES[name])]) for name, words in base.items()}
    found["hooks"] = (["show", "RUN", "hooks"], [*option_values(SHOWN_OF["hooks"])])
    found["train"] = (
        ["train", "an", "--out", "o", *TINY.split()],
        [*option_values(Train, Train(recipe("")))],
    )
    for name in BUILT_IN:
        own = [*option_values(options_of(name)), *option_values(Asks)]
        found[name] = (["analyse", "RUN", name], own)
    return found


def test_any_option(check: Callable[..., None], rounds: Callable[[int], Any]) -> None:
    known = {name: (words, sorted(set(own) - SLOW)) for name, (words, own) in starts().items()}
    known = {name: each for name, each in known.items() if each[1]}
    mistakes = st.sampled_from(sorted(known)).flatmap(
        lambda name: st.tuples(
            st.just(known[name][0]),
            st.sampled_from(known[name][1]),
            NUMBERS | WORDS,
        )
    )

    @rounds(350)
    @given(mistakes)
    def every(case: tuple[list[str], str, str]) -> None:
        words, option, value = case
        steps = option == "--steps" and re.fullmatch(r"[0-9]{8,9}", value)
        assume(not steps)  # hours of training are no mistake, if that is what is asked for
        check([*words, f"{option}={value}"])

    every()


SLOW = {"--help", "-h", "--scheduler"}
"""Options that do nothing of their own, and one that waits for an answer for seconds."""


def test_any_words(check: Callable[..., None], rounds: Callable[[int], Any]) -> None:
    """Words in the places where paths, names and words of a language stand."""
    names = st.sampled_from(["train", "runs", "evaluate", "show", "predict", "seeds", "sweep"])

    @rounds(100)
    @given(names, st.lists(WORDS, max_size=3))
    def every(name: str, words: list[str]) -> None:
        check([name, *(["RUN"] if name == "predict" else []), *words, "--out=o"][: 2 + len(words)])

    every()


# -- any lines, any sweep ---------------------------------------------------------------------


def test_any_lines(check: Callable[..., None], rounds: Callable[[int], Any]) -> None:
    line = st.tuples(WORDS, st.sampled_from(["\t", "", "\t\t", " "]), WORDS).map("".join)
    whole = st.lists(st.sampled_from(FILES["lines.tsv"].splitlines()), min_size=40, max_size=60)
    text = st.tuples(whole, st.lists(line, max_size=2)).map(lambda p: "\n".join(p[0] + p[1]))

    @rounds(100)
    @given(st.binary(max_size=60) | text.map(lambda t: t.encode("utf-8", "ignore")))
    def every(content: bytes) -> None:
        check(
            ["train", "--corpus", "any.tsv", "--out", "o", *TINY.split()],
            prepare=lambda where: (where / "any.tsv").write_bytes(content),
        )

    every()


def test_any_sweep(check: Callable[..., None], rounds: Callable[[int], Any]) -> None:
    keys = st.sampled_from(
        ["seeds", "languages", "question", "recipe", "fixed.steps", "fixed.seed", "test.count",
         "test.lengths", "test.windows", "vary.max_n", "vary.steps", "vary.batch_size", "compare",
         'fixed."model.d_model"', 'fixed."model.eps"', "fixed.learning_rate", "variants", "x"]
    )  # fmt: skip
    scalar = st.one_of(
        st.integers().map(str),
        st.integers(10**9, 10**30).map(str),
        st.sampled_from(["nan", "inf", "-inf", "true", "9" * 5000, "[]", "{}", '""', "1979-05-27"]),
        WORDS.map(json.dumps),
    )
    values = scalar | st.lists(scalar, max_size=3).map(lambda some: f"[{', '.join(some)}]")

    @rounds(100)
    @given(st.lists(st.tuples(keys, values), max_size=3))
    def every(pairs: list[tuple[str, str]]) -> None:
        text = "".join(f"{key} = {value}\n" for key, value in pairs) + SWEEP + FIXED
        check(
            ["sweep", "any.toml", "--out", "o", "--workers", "1"],
            prepare=lambda where: (where / "any.toml").write_text(text),
        )

    every()


# -- any damage to any file of a run ----------------------------------------------------------

FOREIGN = pd.DataFrame({"foreign": [1]}).to_parquet()
CONTENTS = [
    FOREIGN,
    b"",
    b"null",
    b"[]",
    b"{}",
    b"1",
    b'"x"',
    b"NaN",
    b"[" * 10_000,
    b"9" * 5000,
    b"\xff",
]
ASKED = [
    ["evaluate", "RUN", "--max-n", "2", "--count", "2"],
    ["predict", "RUN", "a b"],
    ["show", "RUN"],
    ["show", "RUN", "patching"],
    ["runs", "runs"],
    ["show", "RUN", "hooks"],
    ["resume", "RUN"],
    ["seeds", "runs", "patching", "--no-ask"],
    ["seeds", "RUN", "patching", "--workers", "1"],
    ["analyse", "RUN", "patching", "--n", "2", "--pairs", "3"],
    ["analyse", "runs/lines-s0", "accuracy", "--max-n", "2", "--count", "2"],
    ["predict", "runs/lines-s0", "x y"],
    ["train", "anbn", "--out", "runs"],
]


def damaged(path: Path, kind: int, at: int, content: bytes) -> None:
    """Does one of several kinds of harm to a file."""
    whole = path.read_bytes()
    path.unlink()
    if kind == 0:
        path.write_bytes(whole[: at % (len(whole) + 1)])
    elif kind == 1 and whole:
        flipped = bytearray(whole)
        flipped[at % len(whole)] ^= 1 + at % 255
        path.write_bytes(bytes(flipped))
    elif kind == 2:
        path.write_bytes(content)
    elif kind == 3:
        path.mkdir()
    elif kind == 4:
        path.symlink_to("/dev/zero")
    elif kind == 5:
        os.mkfifo(path)
    elif kind == 6 and path.suffix == ".json":
        path.write_bytes(_edited(json.loads(whole), at, content))


def _edited(content: Any, at: int, value: bytes) -> bytes:
    """JSON with one of its values replaced."""
    place = content
    while isinstance(place, dict) and place:
        key = sorted(place)[at % len(place)]
        if at % 3 or not isinstance(place[key], dict):
            place[key] = "@"
            break
        place = place[key]
    return json.dumps(content).encode().replace(b'"@"', value)


def test_any_damage(whole: Path, check: Callable[..., None], rounds: Callable[[int], Any]) -> None:
    files = sorted(p.relative_to(whole) for p in (whole / "runs").rglob("*") if p.is_file())

    @rounds(250)
    @given(
        st.sampled_from(files),
        st.integers(0, 7),
        st.integers(0, 10**6),
        st.sampled_from(CONTENTS),
        st.sampled_from(ASKED),
    )
    def every(file: Path, kind: int, at: int, content: bytes, asked: list[str]) -> None:
        try:
            check(asked, prepare=lambda where: damaged(where / file, kind, at, content))
        except AssertionError as fault:
            raise AssertionError(f"{file}, {kind}, {at}, {content[:20]!r}: {fault}") from None

    every()
