"""Does anybody listen? A hook point that nobody uses should cost nothing."""

from transformer_lens.hook_points import HookPoint


def listened(*points: HookPoint) -> bool:
    """Is any hook, forward or backward, set on any of the points?

    PyTorch's own tables are read, so that hooks set past TransformerLens count too.
    """
    return any(
        p._forward_hooks or p._forward_pre_hooks or p._backward_hooks or p._backward_pre_hooks
        for p in points
    )
