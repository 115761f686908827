"""What a worker may use. The process that is started here reads this file: it imports little."""

from __future__ import annotations

import multiprocessing
import os
from concurrent.futures import ProcessPoolExecutor

import pytest
from joblib import Parallel, delayed

from analyses.jobs.limits import one_thread


def where_four_jobs_ran() -> tuple[int, set[int]]:
    return os.getpid(), set(Parallel(-1)(delayed(os.getpid)() for _ in range(4)))


@pytest.mark.slow
def test_a_worker_starts_no_processes() -> None:
    context = multiprocessing.get_context("spawn")
    with ProcessPoolExecutor(1, context, one_thread) as pool:
        worker, ran = pool.submit(where_four_jobs_ran).result()
    assert ran == {worker}
