"""The scoreboard: lenses by question and by what hides a network, over networks drawn afresh.

OUT/scores/PROGRAM-SETTING-sSEED/       each lens's grades on one network, and its edges
OUT/results/score-1/                    all of it; with many lenses, the meta-score too
OUT/scores/log.jsonl                    a line per scoring: when, which commit, which lens
"""

from __future__ import annotations

import ast
import hashlib
import json
import shlex
import sys
from collections.abc import Iterator
from datetime import UTC, datetime
from functools import cache
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from analyses.answers import Answer, Answers, Progress, plain, quiet, save
from analyses.jobs.workers import side_by_side
from analyses.options.plants import SETTINGS, Score
from analyses.scoring import lenses
from analyses.scoring.door import Door, Reply
from analyses.scoring.grades import TRUTH, grade, oracle
from analyses.scoring.inside import NOT_ASKED, as_lists
from analyses.scoring.keys import Key, PartKey, keys
from analyses.scoring.paper import OF_PLANTS, QUESTIONS
from analyses.scoring.summary import (
    ORACLE,
    PLANTED,
    TRAINED,
    UNTRAINED,
    chart,
    faults,
    meta_score,
    sentences,
    summed_up,
)
from analyses.scoring.taught import taught
from models.errors import UserError
from models.plain_files import read_bytes
from models.plants.plant import plant
from models.runs.files import append_bytes
from models.runs.run import git_commit
from models.transformer.model import HookedTransformer

NAME = "score"
KEPT = "scored"
QUESTION = "Which lens finds what a planted network does?"
FOLDER = "scores"


def score(options: Score, progress: Progress = quiet) -> Answer:
    """One row per lens, question, network and measure.

    Columns: lens, question, program (for "lines" the language of a trained network), setting
    (``SETTINGS``, or "trained"), seed, variable, network ("planted", "trained" or "untrained"),
    measure, value (for a fault: zero in every measure of ``TRUTH``), fault, calls, milliseconds,
    dimensions (of the stream), features (values and numbers of all variables of a plan: more than
    dimensions where they are superposed).

    Raises:
        UserError: the file cannot be read, or has no function for a question.
    """
    file = options.lens or Path(lenses.__file__)
    content, questions = checked(options)
    digest = hashlib.sha256(content).hexdigest()[:16]
    places = list(product(options.programs, options.settings)) if questions & set(OF_PLANTS) else []
    places += [(language, TRAINED) for language in options.taught if questions - set(OF_PLANTS)]
    if not places:
        raise UserError("there is no network to ask about: give --programs, --settings or --taught")
    defined = frozenset(questions) if options.lens else None
    jobs: dict[tuple[str, str, int], tuple[Any, ...]] = {}
    for program, setting in places:
        for seed in range(options.first_seed, options.first_seed + options.seeds):
            where = options.out / FOLDER / f"{program}-{setting}-s{seed}"
            job = (file, digest, defined, program, setting, seed)
            jobs[program, setting, seed] = (*job, options.limit, where)
    progress(0, len(jobs), "the first network")
    tables: dict[tuple[str, str, int], pd.DataFrame] = {}
    for key, table in side_by_side(scored, jobs, options.workers, options.scheduler):
        tables[key] = table
        progress(len(tables), len(jobs), f"{key[0]}, {key[1]}, seed {key[2]}")
    table = pd.concat([tables[key] for key in jobs], ignore_index=True)
    summary, meta = summed_up(table), meta_score(table)
    arguments = {"lens": str(options.lens or "built-in"), "hash": digest, "seeds": options.seeds}
    arguments |= {"programs": list(options.programs), "settings": list(options.settings)}
    arguments["taught"] = list(options.taught)
    lines = sentences(summary, meta)
    answered = set(table.loc[table["lens"] == file.name, "question"])
    for idle in sorted(questions - answered) if options.lens else ():
        lines.append(f"{file.name}, {idle}: none of these networks can be asked.")
    findings = {"scores": summary.to_dict("records"), "meta": meta.to_dict("records")}
    findings |= {"faults": faults(table), "sentences": lines}
    result = Answer(table, " ".join(lines), plain(findings), arguments)
    _log(options, digest, summary)
    return save(options.out, NAME, QUESTION, result, chart(summary))


def checked(options: Score) -> tuple[bytes, set[str]]:
    """The lens's file, and the questions that it answers. It is read, and not run here.

    Raises:
        UserError: the file cannot be read, is no Python, or answers no question.
    """
    file = options.lens or Path(lenses.__file__)
    content = read_bytes(file, "give the path of a Python file")
    if not options.lens:
        return content, set(QUESTIONS)
    if file.name in (ORACLE, lenses.RANDOM):
        raise UserError(f"{file} has the name of a control: give the file another name")
    try:
        tree = ast.parse(content)
    except SyntaxError as error:
        where = f"line {error.lineno}: " if error.lineno else ""
        raise UserError(f"{file} is no Python ({where}{error.msg}): correct it") from None
    except (ValueError, RecursionError, MemoryError):
        raise UserError(f"{file} is no Python: give the path of a Python file") from None
    functions = {node.name for node in tree.body if isinstance(node, ast.FunctionDef)}
    if not functions & set(QUESTIONS):
        raise UserError(f"{file} answers no question: define one of {', '.join(QUESTIONS)}")
    return content, functions & set(QUESTIONS)


# -- one network ----------------------------------------------------------------------------------


def scored(
    file: Path,
    digest: str,
    defined: frozenset[str] | None,
    program: str,
    setting: str,
    seed: int,
    limit: float,
    where: Path,
) -> pd.DataFrame:
    """The graded answers of a file's lenses about one network, kept in a folder of their own.

    Args:
        defined: the questions that the file has a function for; None if it holds many lenses by
            name.
    """
    many = defined is None
    arguments = {"lens": digest, "limit": limit, "many": many}
    arguments |= {} if many else {"name": file.name}  # it stands in the rows
    if (kept := Answers(where, KEPT).asked(arguments)) is not None:
        return kept.table
    if setting == TRAINED:
        trained, untrained, about_lines = taught(program, seed, where)
        questions, variables = list[Key]([about_lines]), 0
    else:
        planted = plant(program, SETTINGS[setting], seed)
        trained = planted.model
        untrained = HookedTransformer(trained.config, trained.vocabulary, seed).eval()
        questions = keys(planted, OF_PLANTS)
        variables = sum(v.size for v in planted.program.variables)
    network_of = TRAINED if setting == TRAINED else PLANTED
    door = _door(file, digest, limit)
    names = [name for name in lenses.LENSES if name != lenses.RANDOM] if many else [""]
    rows: list[dict[str, Any]] = []
    findings: dict[str, Any] = {}
    for key in questions:
        if isinstance(key, PartKey) and key.question == "edges":
            findings = {"edges": key.words.edges, "planned": key.inside.tolist(), "scores": {}}
        drawn = lenses.LENSES[lenses.RANDOM][key.question](trained, key.words)
        rows += _rows(key, ORACLE, network_of, Reply(oracle(key)), trained)
        rows += _rows(key, lenses.RANDOM, network_of, Reply(as_lists(drawn)), trained)
        for name in names:
            if key.question not in (lenses.LENSES[name] if defined is None else defined):
                continue
            for network, model in ((network_of, trained), (UNTRAINED, untrained)):
                words = key.untrained if network == UNTRAINED else key.words
                reply = door.ask(model, words, key.question, name)
                if reply.fault == NOT_ASKED:
                    continue
                graded = list(_rows(key, name or file.name, network, reply, model))
                rows += graded
                if key.question == "edges" and network != UNTRAINED and not graded[0]["fault"]:
                    findings["scores"][name or file.name] = np.round(reply.answer, 6).tolist()
    table = pd.DataFrame(rows)
    table.insert(2, "program", program)
    table.insert(3, "setting", setting)
    table.insert(4, "seed", seed)
    table["dimensions"] = trained.config.d_model
    table["features"] = variables
    sentence = f"{program}, {setting}, seed {seed}: {len(questions)} questions."
    save(where, KEPT, QUESTION, Answer(table, sentence, plain(findings), arguments), None)
    return table


@cache
def _door(file: Path, digest: str, limit: float) -> Door:
    """One process per file for all networks that this process works on: it takes seconds to start.
    It ends with this one. Of a file that was changed, another one."""
    return Door(file, limit)


def _rows(
    key: Key, lens: str, network: str, reply: Reply, model: HookedTransformer
) -> Iterator[dict[str, Any]]:
    """A row per measure."""
    fault = reply.fault
    numbers = dict.fromkeys(TRUTH[key.question], 0.0)
    if not fault:
        try:
            numbers = grade(key, reply.answer, model)
        except ValueError as error:
            fault = f"its answer: {error}"
    for measure, value in numbers.items():
        yield {
            "lens": lens,
            "question": key.question,
            "variable": key.variable,
            "network": network,
            "measure": measure,
            "value": value,
            "fault": fault,
            "calls": reply.calls,
            "milliseconds": reply.milliseconds,
        }


# -- the log ------------------------------------------------------------------------------------


def _log(options: Score, digest: str, summary: pd.DataFrame) -> None:
    """Adds a line to the log: a score that somebody quotes can be found again."""
    rows = summary[(summary["setting"] == "all") & (summary["network"] == PLANTED)]
    line = {
        "date": datetime.now(UTC).isoformat(timespec="seconds"),
        "commit": (git_commit() or "unknown")[:8],
        "command": shlex.join(["lab", *sys.argv[1:]]),
        "lens": str(options.lens or "built-in"),
        "hash": digest,
        "scores": rows[["question", "lens", "mean", "low", "high", "faults"]].to_dict("records"),
    }
    file = options.out / FOLDER / "log.jsonl"
    append_bytes(file, json.dumps(plain(line)).encode() + b"\n")
