"""Adam for the small things that a lens learns: a subspace, a query, a dictionary."""

from __future__ import annotations

from inspect import unwrap

import torch


class Adam(torch.optim.Adam):
    """Adam without torch's compiler.

    The first optimizer of torch's own imports all of the compiler, only to mark these methods as
    not to be compiled. That takes seconds, longer than to learn most of what a lens learns.

    Source: Kingma and Ba 2015, https://arxiv.org/abs/1412.6980.
    """

    add_param_group = unwrap(torch.optim.Adam.add_param_group)
    step = torch.no_grad()(unwrap(torch.optim.Adam.step))
    zero_grad = unwrap(torch.optim.Adam.zero_grad)
