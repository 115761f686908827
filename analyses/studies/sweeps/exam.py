"""How every run of a sweep is judged: on the same words, each run once."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any

from analyses.answers import plain
from models.errors import UserError
from models.languages import FormalLanguage, Sample, language
from models.runs.files import locked, read_json, write_json
from models.runs.run import RUN_FILE, Run
from models.training.evaluation import balanced_words, scores
from models.training.trainer import choose_device

KEPT = "sweep.json"
"""In the results of a run: what was asked, the model's hash, and a row per length."""

TOGETHER = 2**14
"""Tokens that are judged in one batch: an LSTM is 1.7 times faster so, a Transformer as fast."""


@dataclass(frozen=True)
class Exam:
    """How every run is judged.

    Attributes:
        lengths: word lengths, FIRST:LAST, both included; None where ``windows`` says which.
        windows: all sizes up to so many training windows.
        count: words per length, half of them members.
        hard: the others are near misses alone; only lengths that have both are judged.
        seed: of the test words.
    """

    lengths: str | None = None
    windows: int = 4
    count: int = 8
    hard: bool = True
    seed: int = 0

    def __post_init__(self) -> None:
        if self.lengths is not None and not _range(self.lengths):
            raise UserError(
                f'lengths is "{self.lengths}": write "FIRST:LAST", for example "41:500"'
            )
        for name, least in (("windows", 1), ("count", 2), ("seed", 0)):
            if getattr(self, name) < least:
                raise UserError(f"{name} is {getattr(self, name)}: it must be at least {least}")

    def tested(self, name: str, max_n: int) -> tuple[int, ...]:
        """The word lengths at which a language has the words asked for."""
        known = language(name)
        assert isinstance(known, FormalLanguage)
        last = self.windows * max_n
        sizes = [known.length_of(n) for n in range(1, last + 1)]
        lengths = sizes if self.lengths is None else _range(self.lengths)
        if self.hard:
            return tuple(n for n in lengths if known.has_near_miss(n))
        return tuple(n for n in lengths if known.has(n, True) or known.has(n, False))


def _range(text: str) -> range:
    """FIRST:LAST as a range; an empty one where that is not what it says."""
    first, _, last = text.partition(":")
    if not (first.isdecimal() and last.isdecimal() and int(first) >= 1):
        return range(0)
    return range(int(first), int(last) + 1)


@lru_cache(maxsize=2)  # jobs come language by language; a range of 460 lengths takes 8 MB
def exam_words(
    name: str, lengths: tuple[int, ...], count: int, seed: int, hard: bool
) -> tuple[Sample, ...]:
    """The words of every length, the same for all runs."""
    drawn = (balanced_words(language(name), length, count, seed, hard) for length in lengths)
    return tuple(sample for sample in drawn if sample is not None)


def judged(run: Run, exam: Exam, device: str = "auto") -> list[dict[str, Any]]:
    """A row per length; kept in the run's folder, so that no model is judged twice.

    Keys: those of ``LengthScore``, objective, window (longest training word, in symbols),
    parameters (numbers that are learned), seconds (of training), steps.
    """
    with locked(run.results):
        if (rows := kept(run.path, exam)) is not None:
            return rows
        config, known = run.config, run.language
        lengths = exam.tested(config.language, config.max_n)
        words = exam_words(config.language, lengths, exam.count, exam.seed, exam.hard)
        model = run.model().to(choose_device(device))
        about = {
            "objective": config.objective,
            "window": known.length_of(config.max_n),
            "parameters": sum(tensor.numel() for tensor in model.state_dict().values()),
            "seconds": run.record["seconds"],
            "steps": run.record["steps"],
        }
        found = scores(model, known, run.objective, words, TOGETHER)
        rows = [asdict(score) | about for score in found]
        content = {"asked": plain(asdict(exam)), "model_hash": run.model_hash(), "rows": rows}
        write_json(run.results / KEPT, content)
    return rows


def kept(path: Path, exam: Exam) -> list[dict[str, Any]] | None:
    """The rows of a finished run that was judged just so; None where they are still to come."""
    if not ((path / RUN_FILE).exists() and (path / "results" / KEPT).exists()):
        return None
    run = Run(path)
    if run.record["status"] != "finished":
        return None
    content: Mapping[str, Any] = read_json(run.results / KEPT)
    same = content["asked"] == plain(asdict(exam)) and content["model_hash"] == run.model_hash()
    return list(content["rows"]) if same else None
