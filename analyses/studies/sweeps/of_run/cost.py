"""The cost of reading for a model: operations and time."""

from __future__ import annotations

import time
from statistics import median

import torch

from models.operations import operations
from models.runs.run import Run

SYMBOLS = 64
WORDS = 32
TIMES = 5


@torch.no_grad()
def cost(run: Run) -> dict[str, float | None]:
    """The cost of a forward pass of ``WORDS`` words of ``SYMBOLS`` symbols.

    Returns:
        operations: floating-point operations of the matrix products, by formula. Functions of
            single numbers, such as tanh, are left out.
        milliseconds: the median of ``TIMES`` passes after a first one, on this machine.
        Nothing for a model that cannot read words of this length, that learns by counting, or that
        has two sides.
    """
    config = run.config.model
    if not config.family.operations_path or (config.most_symbols or SYMBOLS) < SYMBOLS:
        return {}
    model = run.model()
    tokens = model.to_tokens(" ".join(model.vocabulary.symbols[:1] * SYMBOLS)).expand(WORDS, -1)
    taken = []
    for _ in range(TIMES + 1):
        start = time.perf_counter()
        model(tokens)
        taken.append(1000 * (time.perf_counter() - start))
    parts = operations(config, len(model.vocabulary))
    flops = WORDS * sum(part.flops(SYMBOLS + 1) for part in parts)
    return {"operations": float(flops), "milliseconds": median(taken[1:])}
