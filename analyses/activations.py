"""Activations, kept on disk: the same model is never run twice on the same words.

A file's name is the hash of the model (weights and configuration), of the tokens, of the hook and
of the lab's own code, so that nothing in it can be out of date. The folder lies outside the runs,
which therefore stay small enough to be copied. When it grows beyond its bound, the files used
longest ago are removed.
"""

from __future__ import annotations

import hashlib
import os
import re
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path

from jaxtyping import Int
from safetensors import SafetensorError
from safetensors.torch import load_file, save
from torch import Tensor

from analyses.cache import cache_folder
from analyses.source import MODELS, source_hash
from interp.model import activations
from models.base import LanguageModel
from models.errors import UserError
from models.runs.files import write_bytes

BOUND = 2**30
"""Bytes that the kept activations may take, unless STRUCTURE_LAB_CACHE_BYTES sets another bound."""


def _bound() -> int:
    """Bytes that the kept activations may take. Raises UserError for a bound that is no number."""
    text = os.environ.get("STRUCTURE_LAB_CACHE_BYTES", str(BOUND))
    if not re.fullmatch(r"[0-9]{1,18}", text):
        raise UserError(
            f"STRUCTURE_LAB_CACHE_BYTES is {text!r}: write a whole number of bytes, as {BOUND}"
        )
    return int(text)


def _model_digest(model: LanguageModel) -> str:
    """SHA-256 of configuration and weights."""
    digest = hashlib.sha256(repr(model.config).encode())
    for name, weight in sorted(model.state_dict().items()):
        digest.update(f"{name} {tuple(weight.shape)} {weight.dtype}".encode())
        digest.update(weight.detach().cpu().contiguous().numpy().tobytes())
    return digest.hexdigest()


def kept_activations(
    model: LanguageModel, tokens: Int[Tensor, "batch pos"], names: Sequence[str]
) -> dict[str, Tensor]:
    """``interp.model.activations``, read from disk where they were computed before."""
    _bound()  # what cannot be read is told before the work
    words = hashlib.sha256(repr(tuple(tokens.shape)).encode() + tokens.cpu().numpy().tobytes())
    of = f"{source_hash(*MODELS)} {_model_digest(model)} {words.hexdigest()}"
    files = {
        name: cache_folder() / f"{hashlib.sha256(f'{of} {name}'.encode()).hexdigest()}.safetensors"
        for name in names
    }
    tensors = {name: read for name, file in files.items() if (read := _read(file)) is not None}
    missing = [name for name in names if name not in tensors]
    if missing:
        computed = activations(model, tokens, missing)
        for name in missing:
            with suppress(UserError):  # a full or read-only disk costs time, not the answer
                write_bytes(files[name], save({"activation": computed[name].contiguous()}))
        tensors |= computed
        _prune()
    return {name: tensors[name] for name in names}


def _read(file: Path) -> Tensor | None:
    try:
        os.utime(file)  # used just now
        return load_file(file)["activation"]
    except (OSError, SafetensorError, KeyError):  # not there, or damaged: it is computed again
        return None


def _prune() -> None:
    """Removes the files used longest ago until the rest fits."""
    room = _bound()
    entries = []
    for file in cache_folder().glob(f"{64 * '[0-9a-f]'}.safetensors"):  # others lie there by chance
        with suppress(OSError):  # another process may have removed it
            status = file.stat()
            entries.append((status.st_mtime_ns, status.st_size, file))
    for _, size, file in sorted(entries, reverse=True):
        room -= size
        if room < 0:
            with suppress(OSError):
                file.unlink()
