"""A worker's limits on its machine: one core, and the memory that it has freed itself."""

from __future__ import annotations

import ctypes

import joblib
import torch
from threadpoolctl import threadpool_limits

M_TRIM_THRESHOLD, M_MMAP_THRESHOLD = -1, -3  # as malloc.h has them


def one_thread() -> None:
    """Limits this thread to one core. With more threads or processes, workers slow each other down.

    Processes of joblib would also outlive the last task, and the worker would wait until they give
    up. joblib and OpenMP keep the limit per thread, so call this in the thread that works.
    """
    torch.set_num_threads(1)
    threadpool_limits(1)
    joblib.parallel_config("sequential")


def keep_memory() -> bool:
    """Lets this process keep the memory that it frees. Returns whether the C library can do that.

    Dask makes its workers give the memory of every tensor back to the system. Getting new memory
    would then take as long as the work on the next tensor.
    """
    try:
        mallopt = ctypes.CDLL(None).mallopt
    except (AttributeError, OSError, TypeError):  # not glibc
        return False
    return all(mallopt(parameter, 2**30) for parameter in (M_TRIM_THRESHOLD, M_MMAP_THRESHOLD))
