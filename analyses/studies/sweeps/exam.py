"""The exam of a sweep's runs: all are judged on the same words, and each run only once."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict
from functools import lru_cache
from pathlib import Path
from typing import Self

import pandas as pd
from pydantic import BaseModel, ConfigDict, Field, model_validator

from analyses.answers import Answer, Answers, save
from analyses.options.behaviour import length_range
from models.checks import MOST_SYMBOLS
from models.config import MOST_SEED
from models.errors import UserError
from models.languages import Sample, language
from models.languages.tokens import TokenisedLanguage
from models.runs.files import locked
from models.runs.folders import RUN_FILE
from models.runs.run import Run
from models.training.evaluation import balanced_words, scores
from models.training.trainer import choose_device

KEPT = "exam"
"""The name under which a run keeps its exam: a row per length, the options, the model's hash."""

TOGETHER = 2**14
"""Tokens that are judged in one batch. This makes an LSTM 1.7 times faster, a Transformer not."""

WRITTEN = ConfigDict(frozen=True, strict=True, extra="forbid")
"""The rules for a sweep's file, which people write: no value is guessed, no key is ignored."""


class Exam(BaseModel):
    """The exam by which every run is judged.

    Attributes:
        lengths: word lengths, FIRST:LAST, both included; None where ``windows`` gives the sizes.
        windows: the number of training windows up to which all sizes are tested.
        thinned: with windows, only every other size beyond two, and every fifth beyond four.
        count: the number of words per length, half of them members.
        hard: all the others are near misses; only lengths that have both are judged.
        seed: seed of the test words.

    Raises:
        UserError: lengths are no range, or stand beside windows or thinned.
    """

    model_config = WRITTEN

    lengths: str | None = None
    windows: int = Field(default=4, ge=1, le=1000)
    thinned: bool = False
    count: int = Field(default=8, ge=2, le=100_000)
    hard: bool = True
    seed: int = Field(default=0, ge=0, le=MOST_SEED)

    @model_validator(mode="after")
    def _lengths_alone(self) -> Self:
        if self.lengths is None:
            return self
        for name in ("windows", "thinned"):
            if name in self.model_fields_set:
                raise UserError(f"[test] has lengths and {name}: leave one out")
        if not length_range(self.lengths):
            raise UserError(
                f'lengths is "{self.lengths}": write "FIRST:LAST", for example "41:500", from '
                f"1 to {MOST_SYMBOLS}, the smaller one first"
            )
        return self

    def tested(self, name: str, max_n: int) -> tuple[int, ...]:
        """The word lengths at which a language has the words asked for."""
        target = language(name)
        lengths: Sequence[int] = [target.length_of(n) for n in self._sizes(max_n)]
        if self.lengths is not None:
            lengths = length_range(self.lengths)
        if self.hard:
            return tuple(n for n in lengths if target.has_near_miss(n))
        return tuple(n for n in lengths if target.has(n, True) or target.has(n, False))

    def _sizes(self, max_n: int) -> list[int]:
        """The sizes up to so many windows, thinned or not."""
        near, middle, last = 2 * max_n, 4 * max_n, self.windows * max_n
        if not self.thinned:
            return [*range(1, last + 1)]
        sparse = [*range(near + 2, middle + 1, 2), *range(middle + 5, last + 1, 5)]
        return [n for n in (*range(1, near + 1), *sparse) if n <= last]


@lru_cache(maxsize=2)  # jobs come language by language; a range of 460 lengths takes 8 MB
def _exam_words(
    name: str, lengths: tuple[int, ...], count: int, seed: int, hard: bool
) -> tuple[Sample, ...]:
    """The words of every length, the same for all runs."""
    drawn = (balanced_words(language(name), length, count, seed, hard) for length in lengths)
    return tuple(sample for sample in drawn if sample is not None)


def judged(run: Run, exam: Exam, device: str = "auto") -> pd.DataFrame:
    """Judges a run. One row per length; kept in the run's folder, so no model is judged twice.

    Lengths and sizes are of words in symbols, however the run cuts them into tokens.

    Columns: those of ``LengthScore``, but for the fresh ones; objective, window (longest training
    word, in symbols), selected_to (up to which length words chose the weights; 0 where none did),
    parameters (numbers that are learned), seconds (of training), steps.
    """
    with locked(run.results):
        if (rows := kept(run.path, exam)) is not None:
            return rows
        config, target, base = run.config, run.language, language(run.config.language)
        reach = config.selection_window
        lengths = exam.tested(config.language, config.max_n)
        words = _exam_words(config.language, lengths, exam.count, exam.seed, exam.hard)
        model = run.model().to(choose_device(device))
        about = {
            "objective": config.objective,
            "window": base.length_of(config.max_n),
            "selected_to": base.length_of(int(reach * config.max_n)) if reach else 0,
            "parameters": sum(tensor.numel() for tensor in model.state_dict().values()),
            "seconds": run.record["seconds"],
            "steps": run.record["steps"],
        }
        read = words
        if isinstance(target, TokenisedLanguage):
            read = tuple(Sample(target.encoded(sample.words), sample.labels) for sample in words)
        results = scores(model, target, run.objective, read, TOGETHER)
        shares = dict.fromkeys(("exact", "members", "others"), "Float64")
        # Which words are fresh is not asked: all runs get the same ones.
        table = pd.DataFrame([asdict(score) | about for score in results])
        table = table.drop(columns=["fresh", "fresh_recognition"])
        table["length"] = [int(sample.words.lengths[0]) for sample in words]
        table["n"] = [base.size_of(length) for length in table["length"]]
        table = table.astype({"n": "Int64", **shares})
        sentence = f"{len(table)} lengths were judged, on {exam.count} words each."
        result = Answer(table, sentence, {}, exam.model_dump(), run.model_hash())
        save(run.path, KEPT, "How far is it right?", result, None)
    return table


def kept(path: Path, exam: Exam) -> pd.DataFrame | None:
    """The rows of a finished run that was judged by this very exam; None if there are none yet."""
    if not (path / RUN_FILE).exists():
        return None
    run = Run(path)
    if run.record["status"] != "finished":
        return None
    answer = Answers(path, KEPT, run.model_hash()).asked(exam.model_dump())
    return None if answer is None else answer.table
