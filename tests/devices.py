"""A second device on a machine that has one: what a GPU would refuse, and what it would wait for.

Inside ``second_device`` a tensor on ``SECOND`` has numbers, which PyTorch's own meta tensors lack.
They lie on the CPU, wrapped in a tensor that says that it is somewhere else. So a lens that ends in
a table runs to its end, and its numbers can be compared with those of the CPU. As on a GPU,
operations that mix the two devices raise, NumPy cannot read the tensors, a generator draws on its
own device alone, and a recurrent layer in evaluation mode has no gradient (cuDNN's rule).
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, nullcontext
from typing import Any
from unittest import mock

import torch
from torch import no_grad
from torch.overrides import TorchFunctionMode
from torch.utils._python_dispatch import TorchDispatchMode, return_and_correct_aliasing

from models.transformer import positions

SECOND = torch.device("meta")

Waits = list[str]
"""The operations for which the CPU would have to wait until the device has done all its work."""

COPIES = ("_to_copy", "copy_")
OF_UNKNOWN_SIZE = ("nonzero", "masked_select", "_unique2", "unique_dim", "unique_consecutive")


class Elsewhere(torch.Tensor):
    """A tensor on the second device."""

    here: torch.Tensor

    @staticmethod
    def __new__(cls, here: torch.Tensor) -> Elsewhere:
        made: Elsewhere = torch.Tensor._make_wrapper_subclass(
            cls,
            here.shape,
            strides=here.stride(),
            storage_offset=here.storage_offset(),
            dtype=here.dtype,
            device=SECOND,
        )
        made.here = here
        return made

    def __repr__(self, **_: Any) -> str:
        return f"elsewhere {self.here!r}"

    __torch_function__ = torch._C._disabled_torch_function_impl

    @classmethod
    def __torch_dispatch__(
        cls, function: Any, types: Any, args: Any = (), kwargs: Any = None
    ) -> Any:
        return _computed(function, args, kwargs or {}, [])


def _computed(function: Any, args: Any, kwargs: dict[str, Any], waits: Waits) -> Any:
    """Runs an operation where its tensors are, and notes whether that means waiting."""
    tensors = list(_tensors([*args, *kwargs.values()]))
    away = any(isinstance(tensor, Elsewhere) for tensor in tensors)
    target = kwargs.get("device")
    to_second = target is not None and torch.device(target) == SECOND
    if not away and not to_second:
        return function(*args, **kwargs)
    name = function.overloadpacket.__name__
    if kwargs.get("generator") is not None:
        raise RuntimeError(f"{name}: the generator draws on the CPU")
    if away and name not in COPIES:
        _refuse_mixtures(name, args, tensors)
    waits += _waits(name, args, kwargs, tensors, to_second)
    own = _each(args, _here)
    options = {key: _each(value, _here) for key, value in kwargs.items()}
    out = function(*own, **(options if target is None else options | {"device": "cpu"}))
    if name == "_to_copy" and target is not None and not to_second:
        return out
    if name == "_pack_padded_sequence":  # how many words each step reads is known on the CPU
        return Elsewhere(out[0]), out[1]
    if name == "copy_" and not isinstance(args[0], Elsewhere):
        return args[0]
    wrapped = _each(out, lambda x: Elsewhere(x) if isinstance(x, torch.Tensor) else x)
    return None if out is None else return_and_correct_aliasing(function, args, kwargs, wrapped)


def _each(values: Any, change: Callable[[Any], Any]) -> Any:
    """The same tuples and lists, of changed members."""
    if isinstance(values, (tuple, list)):
        return type(values)([_each(value, change) for value in values])
    return change(values)


def _here(value: Any) -> Any:
    return value.here if isinstance(value, Elsewhere) else value


def _tensors(values: Any) -> Iterator[torch.Tensor]:
    if isinstance(values, torch.Tensor):
        yield values
    elif isinstance(values, (tuple, list)):
        for value in values:
            yield from _tensors(value)


def _refuse_mixtures(name: str, args: Any, tensors: list[torch.Tensor]) -> None:
    """As on a GPU, numbers without an axis may come from the CPU, and so may indices; the lengths
    of packed words must."""
    if name in ("_pack_padded_sequence", "_pad_packed_sequence", "_pack_padded_sequence_backward"):
        tensors = tensors[:1]
    if name.startswith(("index", "_index_put")) and isinstance(args[0], Elsewhere):
        tensors = [x for x in tensors if all(x is not y for y in _tensors(args[1]))]
    if any(x.dim() and not isinstance(x, Elsewhere) for x in tensors):
        raise RuntimeError(f"{name}: tensors on two devices")


def _waits(
    name: str, args: Any, kwargs: dict[str, Any], tensors: list[torch.Tensor], to_second: bool
) -> Waits:
    blocking = not (kwargs.get("non_blocking") or (name == "copy_" and len(args) > 2 and args[2]))
    crosses = len({isinstance(x, Elsewhere) for x in tensors}) == 2
    crosses |= name == "_to_copy" and to_second != isinstance(args[0], Elsewhere)
    if name in COPIES:
        to_cpu = not to_second if name == "_to_copy" else not isinstance(args[0], Elsewhere)
        moved = kwargs.get("device") is not None or name == "copy_"
        return ["to the CPU" if to_cpu else "from the CPU"] * (
            crosses and moved and (blocking or to_cpu)
        )
    if name.startswith(("index", "_index_put")):
        unknown = any(x.dtype == torch.bool for x in _tensors(args[1]))
        return ["from the CPU"] * crosses + ["nonzero"] * unknown
    return [name] * (name in ("_local_scalar_dense", "equal", *OF_UNKNOWN_SIZE))


class _Operations(TorchDispatchMode):
    def __init__(self, waits: Waits) -> None:
        super().__init__()
        self.waits = waits

    def __torch_dispatch__(
        self, function: Any, types: Any, args: Any = (), kwargs: Any = None
    ) -> Any:
        return _computed(function, args, kwargs or {}, self.waits)


class _Functions(TorchFunctionMode):
    """What PyTorch does with numbers from Python before any operation is called."""

    def __torch_function__(
        self, function: Any, types: Any, args: Any = (), kwargs: Any = None
    ) -> Any:
        kwargs = dict(kwargs or {})
        made = function in (torch.tensor, torch.as_tensor)
        if made and kwargs.get("device") is not None and not isinstance(args[0], torch.Tensor):
            device = kwargs.pop("device")
            return function(*args, **kwargs).to(device)
        if args and isinstance(args[0], Elsewhere):
            if function is torch.Tensor.tolist:
                return args[0].cpu().tolist()
            if function in (torch.Tensor.__getitem__, torch.Tensor.__setitem__):
                args = (args[0], _indices(args[1]), *args[2:])
            if getattr(function, "__name__", "") in ("lstm", "gru", "rnn_tanh"):
                _refuse_gradients_in_evaluation(args)
        return function(*args, **kwargs)


def _indices(index: Any) -> Any:
    """Lists become tensors on the device."""
    if isinstance(index, tuple):
        return tuple(_indices(each) for each in index)
    return torch.tensor(index).to(SECOND) if isinstance(index, list) else index


def _refuse_gradients_in_evaluation(args: Any) -> None:
    """The arguments of ``torch.lstm`` end with train, bidirectional, batch_first; for packed words
    the last one is left out, and the second says how many words each step reads."""
    packed = isinstance(args[1], torch.Tensor) and not args[1].is_floating_point()
    if torch.is_grad_enabled() and not args[-2 if packed else -3]:
        raise RuntimeError("cuDNN's RNN has no backward in evaluation mode")


@contextmanager
def second_device() -> Iterator[Waits]:
    """Makes ``SECOND`` a device with numbers. Gives the list of what was waited for so far."""
    tables: list[Callable[..., Any]] = [positions.rotations, positions.alibi]
    waits: Waits = []
    with ExitStack() as stack:
        fused = "torch.optim.optimizer._get_fused_kernels_supported_devices"
        stack.enter_context(mock.patch(fused, return_value=["cpu", SECOND.type]))
        stack.enter_context(warnings.catch_warnings())  # true of tensors without numbers alone
        warnings.filterwarnings("ignore", ".*copying from a non-meta parameter.*")
        inference = "torch._C._InferenceMode"  # in which PyTorch cannot wrap tensors
        stack.enter_context(mock.patch(inference, lambda on: no_grad() if on else nullcontext()))
        stack.enter_context(_Functions())
        stack.enter_context(_Operations(waits))
        for table in tables:
            table.cache_clear()
            stack.callback(table.cache_clear)
        yield waits
