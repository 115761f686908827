"""What one worker may take of its machine: one core, and the memory that it has freed."""

from __future__ import annotations

import ctypes

import joblib
import torch
from threadpoolctl import threadpool_limits

M_TRIM_THRESHOLD, M_MMAP_THRESHOLD = -1, -3  # as malloc.h has them


def one_thread() -> None:
    """A worker has one core for itself: more threads or processes slow all of them down.

    Processes of joblib would also outlive the last task: the worker waits until they idle out.
    joblib and OpenMP keep this per thread: call it in the thread that works.
    """
    torch.set_num_threads(1)
    threadpool_limits(1)
    joblib.parallel_config("sequential")


def keep_memory() -> bool:
    """Lets this process keep what it frees: Dask has its workers give every tensor back to the
    system, which then takes as long as the work on the next one. Returns whether the C library can.
    """
    try:
        mallopt = ctypes.CDLL(None).mallopt
    except (AttributeError, OSError, TypeError):  # not glibc
        return False
    return all(mallopt(parameter, 2**30) for parameter in (M_TRIM_THRESHOLD, M_MMAP_THRESHOLD))
