"""The process in which a lens runs: it is given networks and words, and sends back answers.

    python -m analyses.scoring.inside LENS.py

Each line that it reads is a job: a folder with a network and words, and the name of one of the
lenses of the file, or "" where the file is one lens. Each line that it writes is a reply. What the
lens prints goes elsewhere, and is a fault. The truth is fenced off: whoever imports it, or opens a
plan, has asked for it. That stops a mistake and a lazy cheat; it is no prison.
"""

from __future__ import annotations

import importlib.util
import json
import os
import sys
import tempfile
import time
from collections.abc import Callable, Mapping
from importlib.machinery import SourceFileLoader
from pathlib import Path
from typing import Any, TextIO

import numpy as np
import torch

from analyses.scoring.paper import read_network, read_words
from models.plants.record import PLAN

TRUTH = (
    "analyses.scoring.keys",
    "analyses.scoring.grades",
    "analyses.scoring.taught",
    "models.plants",
    "models.languages.grammars.bounded",
)
"""Modules that know the truth."""
NOT_ASKED = "no function"
"""The fault of a lens that does not answer a question."""
SHORT = 200
"""The most letters of a fault."""


class _ForbiddenError(Exception):
    """A lens asked for the truth."""


def _main() -> None:
    """Answers jobs until there are no more."""
    with (
        os.fdopen(os.dup(1), "w") as replies,
        tempfile.TemporaryFile() as printed,
        open(1, "w", closefd=False) as sys.stdout,
    ):
        os.dup2(printed.fileno(), 1)
        _serve(replies, printed.fileno())


def _serve(replies: TextIO, printed: int) -> None:
    """Loads the lens and answers.

    Args:
        printed: descriptor of the file that takes what the lens prints.
    """
    offences: list[str] = []
    _fence(offences)
    try:
        module = _load(Path(sys.argv[1]))
    except BaseException as error:  # whatever the file does
        _send(replies, {"fault": offences[0] if offences else _said(error)})
        return
    _send(replies, {})
    for line in sys.stdin:
        job = json.loads(line)
        reply = _answer(_functions(module, job["lens"]), Path(job["folder"]))
        sys.stdout.flush()
        if size := os.fstat(printed).st_size:
            os.ftruncate(printed, 0)
            os.lseek(printed, 0, os.SEEK_SET)
            reply = {"fault": f"it printed {size} bytes: a lens answers by what it returns"}
        if offences:
            reply = {"fault": offences[0]}
            offences.clear()
        _send(replies, reply)


def _fence(offences: list[str]) -> None:
    """Notes whoever asks for the truth, and stops them."""
    for name in [name for name in sys.modules if name.startswith(TRUTH)]:
        del sys.modules[name]

    def watch(event: str, arguments: tuple[Any, ...]) -> None:
        if event == "import" and str(arguments[0]).startswith(TRUTH):
            offences.append(f"it imported {arguments[0]}, where the truth is")
        elif event == "open" and isinstance(arguments[0], str) and arguments[0].endswith(PLAN):
            offences.append(f"it opened {PLAN}, where the truth is")
        else:
            return
        raise _ForbiddenError(offences[-1])

    sys.addaudithook(watch)


def _load(path: Path) -> Any:
    loader = SourceFileLoader("lens", str(path))  # whatever the ending of its name
    spec = importlib.util.spec_from_loader("lens", loader)
    assert spec is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules["lens"] = module
    loader.exec_module(module)
    return module


def _functions(module: Any, lens: str) -> Mapping[str, Callable[..., Any]]:
    """A lens's functions by question; a file with many lenses has them by name in LENSES."""
    functions: Mapping[str, Any] = module.LENSES[lens] if lens else vars(module)
    return functions


def _answer(functions: Mapping[str, Callable[..., Any]], folder: Path) -> dict[str, Any]:
    words, question = read_words(folder)
    if question not in functions:
        return {"fault": NOT_ASKED}
    model, calls = read_network(folder), [0]

    def count(_: object, inputs: tuple[Any, ...]) -> None:
        calls[0] += len(inputs[0])

    model.register_forward_pre_hook(count)
    torch.manual_seed(words.seed)
    np.random.seed(words.seed)
    start = time.perf_counter()
    try:
        answer = as_lists(functions[question](model, words))
    except BaseException as error:  # a lens may raise what it likes
        return {"fault": _said(error)}
    spent = 1000 * (time.perf_counter() - start)
    return {"answer": answer, "calls": calls[0], "milliseconds": spent}


def as_lists(value: Any) -> Any:
    """Tensors and arrays as lists, inside tuples, lists and tables too."""
    if isinstance(value, torch.Tensor):
        value = value.detach().cpu().numpy()
    if isinstance(value, np.ndarray | np.generic):
        return value.tolist()
    if isinstance(value, Mapping):
        return {str(key): as_lists(item) for key, item in value.items()}
    if isinstance(value, list | tuple | set | frozenset):
        return [as_lists(item) for item in value]
    return value


def _said(error: BaseException) -> str:
    text = " ".join(str(error).encode(errors="replace").decode().split())
    return f"{type(error).__name__}: {text}"[:SHORT] if text else type(error).__name__


def _send(replies: TextIO, reply: Mapping[str, Any]) -> None:
    try:
        line = json.dumps(reply)
    except (TypeError, ValueError):
        line = json.dumps({"fault": "its answer holds something that is no number or text"})
    replies.write(line + "\n")
    replies.flush()


if __name__ == "__main__":
    _main()
    os._exit(0)  # a thread of the lens does not keep its process
