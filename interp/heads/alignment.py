"""Does attention to a source show where each symbol of a target comes from, and does it matter?

Attention looks like an alignment (Bahdanau et al. 2015). Here it is scored against the true one,
and against cause: what the target loses if a place of the source says something else.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
import torch
from jaxtyping import Bool, Float, Int
from scipy.stats import rankdata
from torch import Tensor

from interp.model import HookedModel, activations, require_hooks

Said = Callable[[Float[Tensor, "batch pos d_vocab"]], Float[Tensor, "batch pos d_vocab"]]
"""The log-probabilities of next tokens, in nats, from logits."""


def aligned(
    scores: Float[np.ndarray, "*parts target source"], truth: Bool[np.ndarray, "target source"]
) -> tuple[Float[np.ndarray, "*parts"], Float[np.ndarray, "*parts"]]:
    """The quality of scores of source places: they should find where a target symbol comes from.

    Args:
        scores: scores[..., target, source]; higher is a stronger link.
        truth: True at the places that the symbol comes from. A symbol that comes from no place, or
            from all, says nothing, and is left out.

    Returns:
        auroc: the chance that a place that the symbol comes from scores higher than another place;
            a tie counts half. 0.5 is chance, 1 is perfect; the mean over target symbols.
        hit: the share of symbols whose highest score is at such a place; several highest
            places share the hit.
        Both are NaN where no symbol says anything.
    """
    mask = truth.any(axis=1) & ~truth.all(axis=1)
    if not mask.any():
        nothing = np.full(scores.shape[:-2], np.nan)
        return nothing, nothing
    scores, truth = scores[..., mask, :], truth[mask]
    inside = truth.sum(axis=1)
    ranks = rankdata(scores, axis=-1)
    above = (ranks * truth).sum(axis=-1) - inside * (inside + 1) / 2
    auroc = above / (inside * (truth.shape[1] - inside))
    best = scores == scores.max(axis=-1, keepdims=True)
    hit = (best & truth).sum(axis=-1) / best.sum(axis=-1)
    return np.asarray(auroc.mean(axis=-1)), np.asarray(hit.mean(axis=-1))


def agreement(
    first: Float[np.ndarray, "*parts target source"], second: Float[np.ndarray, "target source"]
) -> Float[np.ndarray, "*parts"]:
    """Spearman's rank correlation over source places, a mean over target symbols.

    A symbol for which one of the two does not vary is left out; NaN where none is left.
    """
    ranks = [rankdata(scores, axis=-1) for scores in (first, second)]
    centred = [rank - rank.mean(axis=-1, keepdims=True) for rank in ranks]
    over = np.sqrt((centred[0] ** 2).sum(axis=-1) * (centred[1] ** 2).sum(axis=-1))
    both = (centred[0] * centred[1]).sum(axis=-1)
    correlation = np.divide(both, over, out=np.full(over.shape, np.nan), where=over > 1e-12)
    counts = (~np.isnan(correlation)).sum(axis=-1)
    total = np.nansum(correlation, axis=-1)
    return np.divide(total, counts, out=np.full(counts.shape, np.nan), where=counts > 0)


@torch.no_grad()
def attention_to_source(
    model: HookedModel,
    tokens: Int[Tensor, " pos"],
    hooks: Sequence[str],
    queries: Sequence[int],
    keys: Sequence[int],
) -> Float[np.ndarray, "hook head target source"]:
    """The attention of each head, where a target symbol is decided, to each place of the source.

    Args:
        tokens: one word, BOS first.
        hooks: the patterns to read, such as "blocks.1.cross_attn.hook_pattern".
        queries: the position after which each target symbol comes.
        keys: the positions of the source.

    Raises:
        ValueError: the model lacks one of the hooks.
    """
    cache = activations(model, tokens[None], hooks)
    patterns = torch.stack([cache[hook][0] for hook in hooks]).double()
    return np.asarray(patterns[:, :, list(queries)][..., list(keys)].cpu())


@torch.no_grad()
def effects_of_source(
    model: HookedModel,
    log_probabilities: Said,
    tokens: Int[Tensor, " pos"],
    donor: Int[Tensor, " some"],
    queries: Sequence[int],
    keys: Sequence[int],
    right: Sequence[int],
    hooks: Sequence[str] = (),
) -> Float[np.ndarray, "target source"]:
    """The loss of each target symbol if one place of the source says what it says in another word.

    Args:
        log_probabilities: log-probabilities of next tokens from the model's logits.
        tokens: one word, BOS first; what is left of a target symbol stays as it is.
        donor: another word, whose source is at least as long.
        queries: the position after which each target symbol comes.
        keys: the positions of the source; one is exchanged at a time.
        right: the target symbols.
        hooks: the activations that are exchanged there, [batch, pos, ...], such as the keys and
            values of cross-attention. Without any, the symbol itself is exchanged.

    Returns:
        Nats: the log-probability of each target symbol before minus after; positive if the symbol
        needs what stood there.

    Raises:
        ValueError: the model lacks one of the hooks.
    """
    require_hooks(model, *hooks)
    places, count = torch.as_tensor(list(keys)), len(keys)
    rows = torch.arange(count)
    copies = tokens.repeat(count, 1)
    if not hooks:
        copies[rows, places] = donor[places]
        after = model(copies)
    else:
        cache = activations(model, donor[None], hooks)

        def exchange(value: Tensor, hook: object) -> Tensor:
            value = value.clone()
            given = cache[getattr(hook, "name", "")].to(value.device)
            value[rows, places] = given[0, places]
            return value

        after = model.run_with_hooks(copies, fwd_hooks=[(name, exchange) for name in hooks])
    at, which = torch.as_tensor(list(queries)), torch.as_tensor(list(right))
    before = log_probabilities(model(tokens[None]).double())[0, at, which]
    changed = log_probabilities(after.double())[:, at, which]  # [source, target]
    return np.asarray((before - changed).T.cpu())
