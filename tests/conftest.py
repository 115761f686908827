"""What the tests share: one thread, reproducible hypothesis runs, small models and runs.

The first process of pytest-xdist reads this file too and runs no test. What takes seconds to import
(torch, the models) is therefore imported where a fixture needs it.
"""

from __future__ import annotations

import gc
import os
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, TypeVar
from zlib import crc32

import pytest
import quick
import shapes
from filelock import FileLock
from hypothesis import settings

from models.config import TrainConfig
from models.families import FAMILIES
from models.languages import Vocabulary
from models.model_config import ModelConfig

if TYPE_CHECKING:
    import torch
    from playwright.sync_api import Browser, BrowserContext
    from torch import nn

    from models.base import EmbeddingModel
    from models.runs.run import Run
    from models.transformer.model import HookedTransformer

# The machines are shared: no deadline. Derandomised: a red test is red for everybody. To look where
# no run has looked before, `pytest --hypothesis-profile=explore` draws other examples every time.
settings.register_profile("lab", deadline=None, derandomize=True)
settings.register_profile("explore", deadline=None, derandomize=False, max_examples=1000)
settings.load_profile("lab")


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--quick", action="store_true", help="the tests that answer in a minute")
    parser.addoption("--full", action="store_true", help="every case of `make torture`")


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    if config.getoption("quick"):
        kept = quick.selected(items)
        config.hook.pytest_deselected(items=list(set(items).difference(kept)))
        items[:] = kept
    if not config.getoption("full"):
        long = [item for item in items if item.get_closest_marker("torture") or not is_drawn(item)]
        config.hook.pytest_deselected(items=long)
        items[:] = [item for item in items if item not in set(long)]
    longest_first(items)


def is_drawn(item: pytest.Item) -> bool:
    """Whether a test is run without ``--full``: of many like cases one in two is, always the same,
    drawn so that no row and no column of a table of cases is left out."""
    return not item.get_closest_marker("sampled") or crc32(item.nodeid.encode()) % 2 == 0


def longest_first(items: list[pytest.Item]) -> None:
    """Begins with the files that need the demo, then come those with slow tests, then all others.

    A long test that begins last leaves the other worker with nothing to do. Two workers that need
    the demo at once wait for each other; the order gives the first one time to make it. The tests
    of a file run one after the other, and share their fixtures.
    """
    ranks = dict[Path, int]()
    for item in items:
        slow = any(item.get_closest_marker(name) for name in ("slow", "browser"))
        rank = 0 if "demo" in getattr(item, "fixturenames", ()) else 1 if slow else 2
        ranks[item.path] = min(rank, ranks.get(item.path, rank))
    items.sort(key=lambda item: ranks[item.path])


def pytest_collection() -> None:
    gc.disable()  # what is imported stays


def pytest_collection_finish() -> None:
    """What is there already is not looked through again: it is half a million objects."""
    gc.freeze()
    gc.set_threshold(10_000)  # a page makes thousands of objects: 700 would be too few
    gc.enable()


@pytest.fixture
def full(pytestconfig: pytest.Config) -> bool:
    """Whether every case is asked for (`make torture`), or few of them (`make test`)."""
    return bool(pytestconfig.getoption("full"))


@pytest.fixture(autouse=True)
def _shapes() -> None:
    """Every test has its first calls checked."""
    shapes.anew()


@pytest.fixture(scope="session", autouse=True)
def _one_thread() -> None:
    import joblib
    import torch

    torch.set_num_threads(1)
    joblib.parallel_config("sequential")  # its processes take longer to start than to work


@pytest.fixture(scope="session", autouse=True)
def _own_cache(tmp_path_factory: pytest.TempPathFactory) -> None:
    """Nothing is read from, or left in, the user's cache. The workers share one."""
    os.environ["STRUCTURE_LAB_CACHE"] = str(shared_folder(tmp_path_factory) / "cache")


@pytest.fixture(scope="session", autouse=True)
def _no_waiting_for_the_disk() -> Iterator[None]:
    """Nothing here has to outlive a power failure, and a disk takes milliseconds, tens of thousands
    of times. A wrong handle is still an error; processes that tests start still wait."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(os, "fsync", os.fstat)
        yield


@pytest.fixture(scope="session", autouse=True)
def _quick_pages() -> Iterator[None]:
    """Every AppTest looks for Streamlit's components: it reads what each installed package says of
    itself, which takes longer than most pages. We use none. And it asks a thousand times a second
    whether the page is there, which holds up the thread that draws it."""
    with pytest.MonkeyPatch.context() as patch:
        if "streamlit" in sys.modules:
            from streamlit.testing.v1 import local_script_runner

            scan = "streamlit.components.v2.manifest_scanner.scan_component_manifests"
            patch.setattr(scan, list)
            stopped = local_script_runner.require_widgets_deltas

            def joined(runner: local_script_runner.LocalScriptRunner, timeout: float = 3) -> None:
                thread = runner._script_thread
                assert thread is not None
                thread.join(timeout)
                stopped(runner, 0.1)  # it says so where the page takes longer

            patch.setattr(local_script_runner, "require_widgets_deltas", joined)
        yield


NOBODY = 65534  # the user without rights, on every system that has users
SMALL = ModelConfig(n_layers=2, n_heads=4, d_model=16, d_mlp=24, n_ctx=32)
TINY = ModelConfig(n_layers=1, n_heads=2, d_model=8, d_mlp=16)


Module = TypeVar("Module", bound="nn.Module")


def tiny_of(architecture: str, **changes: object) -> ModelConfig:
    """As ``TINY``; a model of two sides has a block for each."""
    layers = 2 if FAMILIES[architecture].two_sided else 1
    return replace(TINY, architecture=architecture, **{"n_layers": layers, **changes})


def stir(model: Module, seed: int = 0) -> Module:
    """Random numbers in every parameter: fresh biases are zero and would hide what they do."""
    import torch

    generator = torch.Generator().manual_seed(seed)
    with torch.no_grad():
        for parameter in model.parameters():
            parameter += 0.3 * torch.randn(parameter.shape, generator=generator)
    return model


def sharpen(model: EmbeddingModel, spread: float = 2.5) -> EmbeddingModel:
    """Scales the unembedding. A softmax then makes some tokens likely and some unlikely."""
    import torch

    symbols = torch.arange(len(model.vocabulary)).repeat(4, 4)
    with torch.no_grad():
        deviation = model(symbols).std(dim=-1).mean()
        model.unembed.linear.weight.mul_(spread / deviation)
    return model


@pytest.fixture
def small_model() -> Callable[..., HookedTransformer]:
    """Makes a small model over a, b, c in evaluation mode, all parameters random.

    Keyword arguments change ``ModelConfig``.
    """

    from models.transformer.model import HookedTransformer

    def make(seed: int = 0, **changes: object) -> HookedTransformer:
        config = ModelConfig(**{**SMALL.__dict__, **changes})
        return stir(HookedTransformer(config, Vocabulary(("a", "b", "c")), seed), seed).eval()

    return make


@pytest.fixture
def model(small_model: Callable[..., HookedTransformer]) -> HookedTransformer:
    return small_model()


@pytest.fixture
def tokens() -> torch.Tensor:
    """Four random words of seven symbols over a, b, c, BOS first."""
    import torch

    symbols = torch.randint(2, 5, (4, 7), generator=torch.Generator().manual_seed(1))
    return torch.cat([torch.zeros(4, 1, dtype=torch.long), symbols], dim=1)


def tiny_config(**changes: object) -> TrainConfig:
    """A run of a second: twelve steps, an evaluation at every third."""
    values = {
        "language": "anbn",
        "max_n": 4,
        "steps": 12,
        "batch_size": 8,
        "warmup": 3,
        "evaluate_every": 3,
        "model": TINY,
    }
    values |= changes
    model = values["model"]
    assert isinstance(model, ModelConfig)
    if model.family.two_sided:
        values = {"objective": "sequence-to-sequence", **values}
    if model.family.whole:
        values = {"objective": "verdict", **values}
    if values.get("objective") in ("sequence-to-sequence", "tags"):
        values = {**values, "language": changes.get("language", "copy")}
    return TrainConfig(**values)


@pytest.fixture
def trained(tmp_path: Path) -> Run:
    """A finished tiny run in a folder of its own, which a test may damage."""
    from models.runs.run import Run
    from models.training.loop import train

    run = Run.create(tmp_path / "run", tiny_config())
    train(run, device="cpu")
    return run


@pytest.fixture
def read_only() -> Iterator[Path]:
    """A folder in which nobody may write. Root may write everywhere, so root becomes another user
    for the test; the folders of pytest are closed to others."""
    with TemporaryDirectory() as folder:
        os.chmod(folder, 0o555)
        root = hasattr(os, "geteuid") and os.geteuid() == 0
        if root:
            os.seteuid(NOBODY)
        try:
            yield Path(folder)
        finally:
            if root:
                os.seteuid(0)
            os.chmod(folder, 0o700)


@contextmanager
def without_pictures() -> Iterator[None]:
    """Answers are kept without figures: to draw one takes longer than to ask a tiny run."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("analyses.rendering.render", lambda figure, suffix: b"")
        yield


def shared_folder(factory: pytest.TempPathFactory) -> Path:
    """The folder for temporary files that all workers of pytest-xdist see."""
    base = factory.getbasetemp()
    return base.parent if "PYTEST_XDIST_WORKER" in os.environ else base


def made_once(
    factory: pytest.TempPathFactory,
    name: str,
    make: Callable[[Path], object],
    *,
    copy: bool = False,
) -> Path:
    """A folder that the workers of pytest-xdist share: the first makes it, the others wait.

    Args:
        name: of the folder; no other fixture has it.
        make: fills the folder.
        copy: give each worker its own copy, whose files the tests may change.
    """
    base = shared_folder(factory)
    folder, finished = base / name, base / f"{name}-finished"
    with FileLock(base / f"{name}-lock"):
        if not finished.exists():
            shutil.rmtree(folder, ignore_errors=True)  # what a failed try left
            folder.mkdir()
            make(folder)
            finished.touch()
    return Path(shutil.copytree(folder, factory.mktemp(name) / name)) if copy else folder


@pytest.fixture(scope="session")
def demo(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The finished demo of the Dutch lines, made by its own command as a user makes it.

    Networks of other languages lie beside it. Those that count, the one of three symbols only with
    ``--full``, are exact, and plain ones are not: tests ask them for the truth. They are asked few
    questions. The run of the Dutch lines is asked the longer ones too, of few words, for their
    pages.
    """
    names = ["an", "anbn", *(["anbncn"] if request.config.getoption("full") else [])]

    def make(out: Path) -> None:
        command = [sys.executable, "-m", "tests.made_demo", str(out), *names]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stderr
        assert "lab dashboard" in done.stdout

    return made_once(tmp_path_factory, "demo", make)


@pytest.fixture(scope="session")
def shown(demo: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Path, str]]:
    """A folder with the demo, to which a test may add runs, and the address of a dashboard that
    shows it: a server takes seconds to start."""
    from chromium import serve

    folder = Path(shutil.copytree(demo, tmp_path_factory.mktemp("shown") / "runs"))
    with serve(folder) as address:
        yield folder, address


@pytest.fixture
def address(shown: tuple[Path, str]) -> str:
    """The address of the dashboard of the demo; a file may have one of its own."""
    return shown[1]


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    from chromium import launched

    with launched() as found:
        yield found


@pytest.fixture(scope="module")
def context(browser: Browser) -> Iterator[BrowserContext]:
    """What the pages of a file share: a fresh one would fetch and compile Streamlit's scripts for
    each of them. Nothing moves, since a page without a graphics card draws each step of it."""
    with browser.new_context(reduced_motion="reduce") as context:
        yield context
