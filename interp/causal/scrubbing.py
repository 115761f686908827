"""Causal scrubbing: is what is said of an activation all that the model needs of it?

A hypothesis says: this activation depends on the word only through one variable. If so, the
activation of any other word with the same value would do as well (Chan et al. 2022). So it is put
in place, and the loss that the model keeps is compared with that of an activation of any word.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

import numpy as np
import pandas as pd
import torch
from jaxtyping import Float, Int, Shaped
from torch import Tensor

from interp.model import HookedModel, activations, require_stream

DRAWS = 2  # other words for each word
RESAMPLES = 1000
ROWS = 256  # the most words in a forward pass
ANY = "any prefix"
"""The hypothesis that nothing of the activation is needed; the others are measured against it."""

Loss = Callable[[Float[Tensor, "word d_vocab"]], Float[Tensor, " word"]]
"""The loss of each word in nats, from the logits at its position."""


@torch.no_grad()
def scrubbed(
    model: HookedModel,
    hook: str,
    tokens: Int[Tensor, "word pos"],
    at: Int[Tensor, " word"],
    loss: Loss,
    hypotheses: Mapping[str, Shaped[np.ndarray, " word"]],
    weights: Float[np.ndarray, " word"],
    seed: int = 0,
) -> pd.DataFrame:
    """Puts other words' activations in place at one position, and reads the answer there.

    Args:
        hook: the name of a hook on [batch, pos, d]; the activation at ``at`` is replaced, all
            others stay.
        tokens: token ids with BOS.
        at: the position of each word that is replaced and read.
        loss: the loss of the logits at this position; its rows are the words in their order.
        hypotheses: the value of every word, by name. Another word with the same value is drawn.
        weights: the weight of each word.
        seed: seed of the draw of other words.

    Returns:
        One row per hypothesis and measure: method (the hypothesis, or "any prefix"), measure,
        value, low, high (95% bootstrap over words), words (those with another word of their value;
        the value is a mean over these). Measures: "loss added" (the loss less that of the untouched
        model, in nats) and "loss recovered" (1 minus what it adds over what "any prefix" adds: 1 if
        nothing else is needed, 0 if the value is of no use; NaN if "any prefix" adds nothing).

    Raises:
        ValueError: the model lacks the hook, or a change there would not stay in the stream.
    """
    require_stream(model, hook)
    rng = np.random.default_rng(seed)
    state = activations(model, tokens, [hook])[hook][torch.arange(len(tokens)), at.cpu()]
    ahead = getattr(model.cfg, "attention_dir", "causal") == "bidirectional"
    order = torch.argsort(at, stable=True)  # words of about one length are run together

    def read(rows: Int[Tensor, " some"], put: Float[Tensor, "some d"]) -> Tensor:
        """The logits of some words at their positions. What stands behind the last of these is left
        out, unless the model sees it."""
        place = torch.arange(len(rows), device=rows.device), at[rows]
        stop = None if ahead else int(place[1].max()) + 1
        change = (hook, lambda x, hook: x.index_put(place, put.to(x)))
        return model.run_with_hooks(tokens[rows, :stop], fwd_hooks=[change])[place]

    def cost(other: Int[np.ndarray, " word"]) -> Float[np.ndarray, " word"]:
        logits = torch.cat([read(of, state[other[of.cpu().numpy()]]) for of in order.split(ROWS)])
        return loss(logits[torch.argsort(order)]).double().cpu().numpy()

    before = cost(np.arange(len(tokens)))

    def added(values: Shaped[np.ndarray, " word"]) -> Float[np.ndarray, " word"]:
        """NaN where no other word has the value."""
        drawn = [_others(rng, values) for _ in range(DRAWS)]
        alone = drawn[0] == np.arange(len(values))
        return np.where(alone, np.nan, np.mean([cost(other) for other in drawn], axis=0) - before)

    nothing = added(np.zeros(len(tokens), dtype=int))
    rows = []
    for name, values in {**hypotheses, ANY: np.zeros(len(tokens), dtype=int)}.items():
        extra = nothing if name == ANY else added(values)
        mask = ~np.isnan(extra)
        for measure, numbers in _measures(extra[mask], nothing[mask], weights[mask], rng).items():
            rows.append({"method": name, "words": int(mask.sum()), "measure": measure, **numbers})
    return pd.DataFrame(rows)


def _others(
    rng: np.random.Generator, values: Shaped[np.ndarray, " word"]
) -> Int[np.ndarray, " word"]:
    """For each word another one with its value; the word itself where there is none."""
    other = np.arange(len(values))
    for value in np.unique(values):
        members = rng.permutation(np.flatnonzero(values == value))
        other[members] = np.roll(members, int(rng.integers(1, max(len(members), 2))))
    return other


def _measures(
    extra: Float[np.ndarray, " word"],
    nothing: Float[np.ndarray, " word"],
    weights: Float[np.ndarray, " word"],
    rng: np.random.Generator,
) -> dict[str, dict[str, float]]:
    if not (count := len(extra)):
        return {}
    drawn = rng.multinomial(count, np.full(count, 1 / count), size=RESAMPLES) * weights
    drawn = np.concatenate([weights[None], drawn])  # the first is the sample itself
    drawn = drawn / drawn.sum(axis=1, keepdims=True)
    lost, most = drawn @ extra, drawn @ nothing
    share = np.where(most > 0, 1 - lost / np.where(most > 0, most, 1), np.nan)
    measures = {}
    for measure, values in {"loss added": lost, "loss recovered": share}.items():
        whole, ends = values[0], [0.025, 0.975]
        low, high = np.nanquantile(values[1:], ends) if whole == whole else (whole, whole)
        measures[measure] = {"value": float(whole), "low": float(low), "high": float(high)}
    return measures
