"""The runs of a sweep's file: every language, variant, combination and seed."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import product
from math import prod
from pathlib import Path
from typing import Any

from analyses.jobs.trained import check_same
from analyses.options.shipped import find
from analyses.options.studies import Sweep
from analyses.studies.sweeps.exam import Exam
from analyses.studies.sweeps.file import MAX_LENGTH, SHIFTED, SweepFile, read
from models.checks import MOST_SYMBOLS, changed
from models.config import TrainConfig
from models.errors import UserError, of_fields
from models.languages import language
from models.languages.tokens import tokenised
from models.model_config import ModelConfig
from models.runs.folders import RUN_FILE
from models.runs.run import Run
from models.training.recipes import recipe

MOST_RUNS = 100_000


@dataclass(frozen=True)
class Planned:
    """A run of a sweep.

    Attributes:
        name: the name of its folder.
        variant: the name of its variant; None where the file has no variants.
        varied: the values of the fields that the sweep varies.
        config: the training configuration.
    """

    name: str
    variant: str | None
    varied: Mapping[str, Any]
    config: TrainConfig


@dataclass(frozen=True)
class Plan:
    """A sweep as it was asked for, before anything is trained.

    Attributes:
        name: the name of its file.
        folder: the folder of its runs and of its table.
        file: the checked content of the file, with the languages, seeds and steps asked for.
        runs: all its runs.
        skipped: the combinations that are skipped, with the reason.
        arguments: what is asked, as JSON-able values.
    """

    name: str
    folder: Path
    file: SweepFile
    runs: Sequence[Planned]
    skipped: Sequence[str]
    arguments: Mapping[str, Any]


def plan_of(options: Sweep) -> Plan:
    """The plan of a sweep.

    Raises:
        UserError: something is wrong with the file; the folder holds other runs of these names.
    """
    source = find(options.file)
    file = read(source).narrowed(options.languages, options.seeds, options.steps)
    runs, skipped = plan(file)
    for run in runs:
        if (path := options.folder / run.name / RUN_FILE).exists():
            check_same(Run(path.parent), run.config, None)
    arguments = {
        "question": file.question,
        "file": source.read_text(encoding="utf-8"),
        "by": [*(["variant"] if file.variants else []), *file.vary],
        "compare": file.measure.model_dump(),
        "measures": file.further,
        "languages": list(file.languages),
        "seeds": file.seeds,
        "steps": options.steps,
    }
    return Plan(source.stem, options.folder, file, runs, skipped, arguments)


def plan(file: SweepFile) -> tuple[list[Planned], list[str]]:
    """The runs, language by language; and the combinations that were skipped, with the reason.

    Raises:
        UserError: too many runs; a combination that no model has, unless the file skips those; a
            language without test words; two runs of one name; no run at all.
    """
    count = prod(map(len, (file.languages, file.variants or [None], *file.vary.values())))
    if count * file.seeds > MOST_RUNS:
        raise UserError(
            f"the sweep would have {count * file.seeds:,} runs, more than {MOST_RUNS:,}: ask for "
            "fewer seeds or combinations"
        )
    runs: list[Planned] = []
    skipped = []
    combinations = [dict(zip(file.vary, row, strict=True)) for row in product(*file.vary.values())]
    for name, variant, varied in product(file.languages, file.variants or [None], combinations):
        extra = file.of_language.get(name, {})
        changes = {**file.fixed, **extra, **(file.variants[variant] if variant else {}), **varied}
        label = _folder_name(name, variant, varied)
        try:
            config = _configured(name, changes, file.exam, file.recipe)
        except UserError as error:
            if not file.skip_impossible:
                raise UserError(f"{label} is impossible: {of_fields(error)}") from None
            skipped.append(f"{label}: {of_fields(error)}")
            continue
        runs += [
            Planned(f"{label}-s{seed}", variant, varied, replace(config, seed=seed))
            for seed in range(file.seeds)
        ]
    if not runs:
        raise UserError(f"no combination is possible: {skipped[0]}")
    name, times = Counter(run.name for run in runs).most_common(1)[0]
    if times > 1:
        raise UserError(f"{times} runs would be named {name}: rename a variant")
    return runs, skipped


def _configured(
    name: str, changes: Mapping[str, Any], exam: Exam, of: str = "plain"
) -> TrainConfig:
    """The language's recipe with changes. Raises UserError for what cannot be trained or judged.

    Args:
        of: the name of the recipe.
    """
    fields = dict(changes)
    max_length, shifted = fields.pop(MAX_LENGTH, None), fields.pop(SHIFTED, False)
    model = {k.removeprefix("model."): v for k, v in fields.items() if k.startswith("model.")}
    if max_length is not None:
        fields["max_n"] = _largest_size(name, max_length)
    config = changed(recipe(name, changed(ModelConfig(), model), of), fields)
    tokenised(language(name), config.vocabulary)  # whether it has so many merges
    longest = language(name).length_of(exam.windows * config.max_n)
    if exam.lengths is None and longest > MOST_SYMBOLS:
        raise UserError(
            f"{exam.windows} windows reach words of {longest} symbols, and the longest have "
            f"{MOST_SYMBOLS}: choose fewer windows in [test], or a smaller max_n"
        )
    tested = exam.tested(name, config.max_n)
    if not tested:
        raise UserError(f"{name} has no test words of these lengths: choose others in [test]")
    window = language(name).length_of(config.max_n)
    if shifted:
        config = replace(config, max_offset=max(0, max(tested) - window))
    longest, most = max(window + config.max_offset, *tested), config.model.most_symbols
    if most is not None and longest > most:
        raise UserError(
            f"words reach position {longest} and the model reads up to {most}: choose a larger "
            "model.n_ctx"
        )
    return config


def _largest_size(name: str, max_length: int) -> int:
    """The largest n whose words have at most so many symbols. Raises UserError if there is none."""
    target = language(name)
    largest = max_length // target.length_of(1)  # lengths grow evenly with n
    if largest < 1:
        raise UserError(f"{name} has no word of {max_length} symbols: choose a larger {MAX_LENGTH}")
    return largest


def _folder_name(name: str, variant: str | None, varied: Mapping[str, Any]) -> str:
    """Language, variant, and the varied values in the order of their fields' names.

    A value that another field might have too stands with its field: "n_layers-2", but "rotary". So
    a run keeps its name when the file gets more languages, variants, values or seeds.
    """
    parts = [name, *([variant] if variant else [])]
    for key, value in sorted(varied.items()):
        telling = isinstance(value, str) and value != "none"
        text = str(value).lower().replace(":", "-")  # no folder of Windows has a colon
        parts.append(text if telling else f"{key.rpartition('.')[2]}-{text}")
    return "-".join(parts)
