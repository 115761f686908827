"""Adam for the small things that a lens learns: a subspace, a query, a dictionary."""

from __future__ import annotations

from collections.abc import Iterable
from inspect import unwrap

import torch


class Adam(torch.optim.AdamW):
    """Adam, with decoupled weight decay where one is given, and without torch's compiler.

    The first optimizer of torch's own imports all of the compiler, only to mark these methods as
    not to be compiled. That takes seconds, longer than to learn most of what a lens learns.

    Source: Kingma and Ba 2015, https://arxiv.org/abs/1412.6980; the decay: Loshchilov and Hutter
    2019, https://arxiv.org/abs/1711.05101.
    """

    add_param_group = unwrap(torch.optim.AdamW.add_param_group)
    step = torch.no_grad()(unwrap(torch.optim.AdamW.step))
    zero_grad = unwrap(torch.optim.AdamW.zero_grad)

    def __init__(
        self,
        params: Iterable[torch.Tensor],
        lr: float,
        betas: tuple[float, float] = (0.9, 0.999),
        weight_decay: float = 0.0,
    ) -> None:
        super().__init__(params, lr=lr, betas=betas, weight_decay=weight_decay)
