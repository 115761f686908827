"""Activation patching of every head at every position, against TransformerLens' own sweep.

TransformerLens runs the whole model once per site. Ours reuses what a site cannot change: the
layers below it and the positions before it. The pairs differ from the first symbol on, so that no
site is spared because it comes before the difference. Both tables must be equal before they are
timed.
"""

from __future__ import annotations

from collections.abc import Iterator

import torch
from torch import Tensor
from transformer_lens import patching

from interp.metrics import logit_at
from interp.patching import patch
from models.config import ModelConfig
from models.languages import END_ID, Vocabulary
from models.transformer import HookedTransformer
from tests.benchmarks.measure import Result, compare
from tests.benchmarks.model_speed import BRIDGE, bridge

CONFIG = ModelConfig(n_layers=4, n_heads=4, d_model=64, positions="learned", n_ctx=24)
POSITIONS = 24  # BOS among them
TARGETS = {1: 20.0, 16: 10.0}  # times faster, by the number of pairs
ROUNDS = 5  # of TransformerLens' sweep, which lasts seconds


def patching_speed() -> Iterator[Result]:
    """One comparison per number of pairs."""
    ours = HookedTransformer(CONFIG, Vocabulary(("a", "b", "c")), seed=0).eval()
    theirs = bridge(ours).eval()
    for pairs, target in TARGETS.items():
        clean, corrupted = some_pairs(pairs)

        def sweep(clean: Tensor = clean, corrupted: Tensor = corrupted) -> Tensor:
            table = patch(ours, clean, corrupted, logit_at(END_ID), ["z"])
            mean = table.groupby(["layer", "position", "head"])["patched"].mean()
            return torch.tensor(mean.to_numpy(copy=True)).view(CONFIG.n_layers, POSITIONS, -1)

        @torch.no_grad()
        def peer(clean: Tensor = clean, corrupted: Tensor = corrupted) -> Tensor:
            _, cache = theirs.run_with_cache(clean)
            table = patching.get_act_patch_attn_head_out_by_pos(theirs, corrupted, cache, end_logit)
            return table.double()

        torch.testing.assert_close(sweep(), peer(), rtol=0, atol=1e-5)
        sites = CONFIG.n_layers * CONFIG.n_heads * POSITIONS
        task = f"patching {sites} heads by position, {pairs} pair{'s' * (pairs > 1)}"
        yield compare(task, sweep, (BRIDGE, peer), "speedup", target, ROUNDS)


def some_pairs(pairs: int) -> tuple[Tensor, Tensor]:
    """Random words, whose first symbols differ."""
    generator = torch.Generator().manual_seed(0)
    clean, corrupted = torch.randint(2, 5, (2, pairs, POSITIONS), generator=generator)
    clean[:, 0] = corrupted[:, 0] = 0
    corrupted[:, 1] = (clean[:, 1] - 1) % 3 + 2
    return clean, corrupted


def end_logit(logits: Tensor) -> Tensor:
    """The metric as TransformerLens wants it: one number a batch."""
    return logits[:, -1, END_ID].mean()
