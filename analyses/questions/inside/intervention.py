"""The model's answers after each prefix of a word, before and after a hidden variable changes."""

from __future__ import annotations

from collections.abc import Callable
from typing import Literal

import numpy as np
import pandas as pd
import torch
from jaxtyping import Bool
from torch import Tensor

from analyses.questions.inside.probing import targets
from analyses.questions.parts.patching import next_tokens
from analyses.words import WordTensors, sample_window
from interp.model import activations, sites_of
from interp.probing.erasure import Eraser
from interp.probing.erasure_trials import columns
from interp.probing.steering import adding, direction
from models.base import LanguageModel
from models.errors import UserError
from models.languages import Word, Words
from models.languages.counting import CountingLanguage
from models.runs.run import Run
from models.training.evaluation import after_prefixes, words_to_read

Change = Literal["erase", "add", "add in proportion"]
WORDS = 300  # words of the window, to which an eraser or a direction is fitted


def changes(run: Run, variable: str) -> list[Change]:
    """The changes that a variable allows. Nothing can be added to a category."""
    if run.language.variables[variable] == "category":
        return ["erase"]
    if run.config.model.family.recurrent:
        return ["add", "erase"]
    return ["add in proportion", "add", "erase"]


@torch.no_grad()
def changed(
    model: LanguageModel, run: Run, site: str, variable: str, change: Change, k: int, word: Word
) -> pd.DataFrame:
    """The model's answers after BOS and every symbol, as it is and with the variable changed.

    The variable is erased at all positions. k is added where ``_counted`` says; in a recurrent
    network only at the first of these positions, since the network goes on from there.

    Returns:
        The table of ``next_tokens`` of the runs "as it is" and "changed".
    """
    words = words_to_read(model, word)
    hook = sites_of(model)[site], _hook(model, run, site, variable, change, k, words)
    tokens = torch.as_tensor(words.tokens)
    outputs = {"as it is": model(tokens), "changed": model.run_with_hooks(tokens, fwd_hooks=[hook])}
    read = {name: after_prefixes(model, logits, words) for name, logits in outputs.items()}
    return next_tokens(run, word, read)


def _counted(run: Run, variable: str, words: Words) -> Bool[np.ndarray, "batch pos"]:
    """Where a variable is moved. In a language of blocks, x-y and count_y are moved at the symbols
    y alone; any other variable is moved at BOS and at every symbol."""
    inside = np.pad(words.mask, ((0, 0), (1, 0)), constant_values=True)
    symbol = run.language.vocabulary.ids.get(variable[-1])
    if isinstance(run.language, CountingLanguage) and symbol is not None:
        inside &= words.tokens == symbol
    return inside


def _hook(
    model: LanguageModel, run: Run, site: str, variable: str, change: Change, k: int, words: Words
) -> Callable[..., Tensor]:
    sample = sample_window(run, WORDS, 0)
    target = targets(run.language, sample.words)[variable]
    name = sites_of(model)[site]
    x = activations(model, WordTensors.of(sample.words).tokens, [name])[name]
    if change == "erase":
        return Eraser.fit(x[torch.as_tensor(target.mask)], columns(target, target.mask)).hook
    at = target.mask & _counted(run, variable, sample.words)
    length = np.arange(1, at.shape[1] + 1) if change == "add in proportion" else 1
    z = np.broadcast_to(target.values / length, at.shape)[at]
    try:
        way = direction(x[torch.as_tensor(at)], torch.as_tensor(z))
    except ValueError as error:
        raise UserError(f"{variable} cannot be moved: {error}") from None
    moved = _counted(run, variable, words)
    if run.config.model.family.recurrent:
        moved &= np.cumsum(moved, axis=1) == 1
    length = np.arange(1, moved.shape[1] + 1) if change == "add in proportion" else 1
    return adding(way, torch.as_tensor(k * moved / length))
