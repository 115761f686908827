"""The lab's own lenses for the effects of training lines."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from functools import partial
from typing import Any

import torch
from torch import Tensor

from analyses.scoring.paper import LineWords
from interp.influence.ekfac import EKFAC
from interp.influence.gradients import Gradients
from interp.influence.methods import cosine, dot, fisher, tracin


def _line_gradients(model: Any, words: LineWords) -> tuple[Gradients, Gradients]:
    """Gradients of the words' margins, and of the lines' losses."""
    model.requires_grad_(True)
    targets = (words.margins(model, slice(i, i + 1))[0] for i in range(len(words.tokens)))
    return Gradients.of_each(model, targets), Gradients.of_each(model, _losses(model, words))


def _losses(model: Any, words: LineWords) -> Iterator[Tensor]:
    return (words.line_losses(model, slice(i, i + 1))[0] for i in range(len(words.lines)))


def _sampled(model: Any, words: LineWords) -> Iterator[Tensor]:
    """The loss of each line, if its label is drawn from the model's own answers."""
    right = torch.exp(-words.line_losses(model)).detach()
    drawn = torch.bernoulli(right, generator=torch.Generator().manual_seed(words.seed)).bool()
    return _losses(model, replace(words, labels=torch.where(drawn, words.labels, ~words.labels)))


def _by_products(
    method: Callable[[Gradients, Gradients], Tensor], model: Any, words: LineWords
) -> Any:
    """The influences by a product of gradients."""
    return method(*_line_gradients(model, words))


def _by_fisher(model: Any, words: LineWords) -> Any:
    """The influence function with the Fisher matrix of the lines."""
    targets, lines = _line_gradients(model, words)
    return fisher(targets, lines, Gradients.of_each(model, _sampled(model, words)))


def _by_ekfac(model: Any, words: LineWords) -> Any:
    """The same, factored map by map."""
    targets, lines = _line_gradients(model, words)
    return EKFAC(model, _sampled(model, words))(targets, lines)


def _by_tracin(model: Any, words: LineWords) -> Any:
    """Products of gradients, summed over the checkpoints."""
    return tracin(
        (rate, *_line_gradients(earlier, words)) for rate, earlier in words.checkpoints(model)
    )


OF_LINES: Mapping[str, Callable[[Any, LineWords], Any]] = {
    "gradient dot product": partial(_by_products, dot),
    "gradient cosine": partial(_by_products, cosine),
    "TracIn": _by_tracin,
    "Fisher": _by_fisher,
    "EK-FAC": _by_ekfac,
}
