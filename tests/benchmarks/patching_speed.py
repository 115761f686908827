"""Activation patching of every head at every position.

There are two peers. TransformerLens' own function runs the whole model once per site. Plain PyTorch
does what one would write by hand: it puts all sites of a layer into one batch. Ours reuses what a
site cannot change: the layers below it and the positions before it. The pairs differ from the first
symbol on, so that no site is spared because it comes before the difference. All tables must be
equal before they are timed. Beside them, the arithmetic floor: as many multiply-adds as a sweep
needs at the least, in plain matrix products.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import redirect_stderr
from functools import partial
from io import StringIO

import pandas as pd
import torch
from torch import Tensor
from transformer_lens import patching

from interp.causal.metrics import logit_at
from interp.causal.patching import patch
from models.languages import END_ID, Vocabulary
from models.model_config import ModelConfig
from models.transformer.model import HookedTransformer
from tests.benchmarks.measure import Result, Side, compare
from tests.benchmarks.model_speed import BRIDGE, PLAIN, bridge
from tests.benchmarks.patching_by_hand import batched_sweep
from tests.benchmarks.variant_speed import plain

CONFIG = ModelConfig(n_layers=4, n_heads=4, d_model=64, positions="learned", n_ctx=24)
POSITIONS = 24  # BOS among them
TARGETS = {1: 20.0, 16: 10.0}  # times faster, by the number of pairs
BY_HAND = {1: 2.0, 16: 2.0}  # times faster than the sites in one batch
FLOORS = {1: 1 / 10, 16: 1 / 4}  # of our time, what arithmetic alone takes, at least
ROUNDS = 5  # of TransformerLens' sweep, which lasts seconds
FLOOR = "arithmetic"
SITES = CONFIG.n_layers * CONFIG.n_heads * POSITIONS


def patching_speed() -> Iterator[Result]:
    """Three comparisons per number of pairs."""
    ours = HookedTransformer(CONFIG, Vocabulary(("a", "b", "c")), seed=0).eval()
    theirs, lean = bridge(ours).eval(), plain(ours, POSITIONS).eval()
    for pairs, target in TARGETS.items():
        clean, corrupted = some_pairs(pairs)

        def sweep(clean: Tensor = clean, corrupted: Tensor = corrupted) -> Tensor:
            return means(patch(ours, clean, corrupted, logit_at(END_ID), ["z"])["patched"])

        @torch.no_grad()
        def peer(clean: Tensor = clean, corrupted: Tensor = corrupted) -> Tensor:
            with redirect_stderr(StringIO()):  # its progress bar
                _, cache = theirs.run_with_cache(clean)
                table = patching.get_act_patch_attn_head_out_by_pos(
                    theirs, corrupted, cache, end_logit
                )
            return table.double().transpose(1, 2)

        by_hand = partial(batched_sweep, lean, clean, corrupted)
        for other in (peer, by_hand):
            torch.testing.assert_close(sweep(), other(), rtol=0, atol=1e-5)
        task = f"patching {SITES} heads by position, {pairs} pair{'s' * (pairs > 1)}"
        mine = Side("ours", "nothing computed that a site leaves as it was", sweep)
        peers = [
            (Side(BRIDGE, "its own sweep, a forward pass per site", peer), target, ROUNDS),
            (Side(PLAIN, "all sites of a layer in one batch", by_hand), BY_HAND[pairs], 20),
            (Side(FLOOR, "products alone", arithmetic(multiply_adds() * pairs)), FLOORS[pairs], 20),
        ]
        for side, least, rounds in peers:
            yield compare(task, mine, side, least, rounds)


def means(values: pd.Series) -> Tensor:
    """Over the pairs; [layer, head, position], the order of the sites."""
    table = torch.tensor(values.to_numpy(copy=True))
    return table.view(CONFIG.n_layers, CONFIG.n_heads, POSITIONS, -1).mean(dim=-1)


def multiply_adds() -> int:
    """Of the cheapest exact sweep of one pair that computes nothing twice and nothing unread."""
    d, hidden, layers, total = CONFIG.d_model, CONFIG.d_mlp, CONFIG.n_layers, 0
    rest = d * d + 2 * d * hidden  # of a position: W_O and the MLP
    for layer in range(layers):
        for position in range(POSITIONS):
            after = POSITIONS - position
            if layer == layers - 1:
                total += rest * (after == 1)
                continue
            total += rest
            for later in range(layer + 1, layers):
                # The next layer's queries are as before, and of its keys and values but one.
                reading = 1 if later == layers - 1 else after
                written = 1 if later == layer + 1 else after
                queries = 0 if later == layer + 1 and reading > 1 else reading
                total += 2 * written * d * d + queries * d * d + reading * (2 * after * d + rest)
    return CONFIG.n_heads * total


def arithmetic(count: int) -> Callable[[], None]:
    """So many multiply-adds in matrix products of a layer's size."""
    x, w = torch.randn(512, CONFIG.d_model), torch.randn(CONFIG.d_model, CONFIG.d_mlp)
    calls = max(1, round(count / (512 * CONFIG.d_model * CONFIG.d_mlp)))

    @torch.inference_mode()
    def work() -> None:
        for _ in range(calls):
            x @ w

    return work


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
