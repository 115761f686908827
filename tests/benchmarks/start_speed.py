"""How long a command takes before it does anything, beside the imports that any such tool needs.

The peer is a new Python that imports PyTorch and TransformerLens, and does nothing more. Each side
is a process of its own, and what is counted is the CPU time of all its threads.
"""

from __future__ import annotations

import resource
import subprocess
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np

from models.config import TrainConfig
from models.model_config import ModelConfig
from models.runs.run import Run
from models.training.loop import train
from tests.benchmarks.measure import Result, Side

ROUNDS = 5
PEER = ("-c", "import torch, transformer_lens")
COMMANDS = (
    *("--help", "analyse RUN patching --help", "analyse RUN patchin", "rule no-file.tsv"),
    *("--complete analyse RUN pat", "languages dieren", "runs FOLDER", "show RUN"),
    *("show RUN hooks", "predict RUN a"),
)
"""Help, two mistakes, the Tab key; what reads files; what needs a model."""


def start_speed() -> Iterator[Result]:
    """One comparison for each command."""
    with TemporaryDirectory() as folder:
        run = Run.create(Path(folder) / "anbn-s0", small())
        train(run, "cpu")
        for command in COMMANDS:
            words = command.replace("RUN", str(run.path)).replace("FOLDER", folder).split()
            ours = ("-m", "analyses.command_line", *words)
            times = [(cpu_seconds(ours), cpu_seconds(PEER)) for _ in range(ROUNDS)]
            yield Result.of(
                f"lab {command}",
                Side("ours", "from its start to its end", lambda: None),
                Side("TransformerLens", "import torch, transformer_lens", lambda: None),
                None,
                np.array(times),
            )


def small() -> TrainConfig:
    """A training of a moment."""
    model = ModelConfig(n_layers=1, n_heads=2, d_model=8, d_mlp=8)
    return TrainConfig("anbn", max_n=4, steps=2, model=model)


def cpu_seconds(arguments: Sequence[str]) -> float:
    """CPU time of a new Python, and of the processes that it has started."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    subprocess.run([sys.executable, *arguments], capture_output=True, check=False)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
