"""Every code block of README and pages runs, and prints what stands below it.

A page is read from top to bottom in a folder of its own, where the demo was made: its `lab ...` go
through the command line, its Python shares one namespace. What takes long is asked for less.
"""

from __future__ import annotations

import re
import runpy
import shlex
import shutil
import sys
import tomllib
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import zip_longest
from pathlib import Path
from types import ModuleType

import pytest
from compared import differs
from conftest import without_pictures
from made_demo import configured

from analyses.command_line.app import main
from analyses.scoring import nothing
from models.languages import registry
from models.runs.run import Run

ROOT = Path(__file__).parents[2]
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs" / "pages").rglob("*.md"))]
FENCE = re.compile(
    r"(?P<before><!-- as trained here -->\n\n)?^(?P<in> *)```(?P<language>\w*)(?P<about>[^\n]*)\n"
    r"(?P<code>.*?)^(?P=in)```$",
    flags=re.MULTILINE | re.DOTALL,
)
SHORT = {
    "train dieren --lines 300": [
        *(
            "--steps",
            "1",
            "--evaluate-every",
            "1",
            "--model.d-model",
            "16",
            "--model.d-mlp",
            "16",
        ),
        *("--model.n-layers", "1"),
    ],
    "train": ["--steps", "20", "--evaluate-every", "20"],
    "demo": ["--workers", "1"],
    "finetune": ["--steps", "10"],
    "sweep few-labels": [
        "--lines",
        "10",
        "--steps",
        "2",
        "--parent-steps",
        "2",
        "--dimensions",
        "4",
        "--workers",
        "1",
    ],
    "evaluate runs/anbn-s1": ["--max-n", "12"],
    "evaluate runs/depths": ["--max-n", "8"],
    "score my_lens.py": ["--programs", "majority-10", "--settings", "open", "--workers", "1"],
    # What the demo was asked is kept.
    "analyse runs/dieren-s0 probing": ["--words", "180", "--probes", "mlp"],
    "analyse runs/dieren-s0 circuits": ["--pairs", "36"],
    "analyse runs/dieren-s0 heads": ["--words", "60"],
    "analyse runs/dieren-s0 leaderboard": [
        *("--words", "2", "--longest", "6", "--replacements", "uniform"),
        *("--samples", "16", "--draws", "2"),
    ],
    " landscape": ["--words", "8", "--directions", "2"],
    " dictionary": ["--seeds", "1", "--steps", "10", "--words", "200"],
    " influence": ["--subsets", "10", "--targets", "2", "--workers", "1"],
    "analyse runs/dieren-300-lines-s0 lines --word": ["--method", "cosine"],
    "analyse runs/dieren-300-lines-s0 lines": ["--method", "dot"],
    "score --null": [
        "--seeds",
        "1",
        "--programs",
        "anbn-10",
        "--questions",
        "accuracy",
        "--workers",
        "1",
    ],
    "rule lines.tsv": ["--no-rivals", "--networks", "1", "--queries", "2000"],
    "analyse runs/nested-s1 syntax": ["--words", "30"],
    "analyse runs/nested-s1 depths": ["--count", "4", "--deepest", "1"],
    "analyse runs/nested-s1 sentences": ["--words", "40"],
    "analyse runs/nested-s1 vectors": ["--sentences", "100"],
    "analyse runs/nested-lm-s0 perplexity --by depth": [
        *("--count", "2", "--by", "depth", "--deepest", "1"),
    ],
    "analyse runs/nested-lm-s0 perplexity": ["--count", "2"],
    " dependencies": ["--count", "2"],
    "analyse runs/linear-s1 senses": ["--sentences", "100"],
    "analyse runs/dieren-s0 interventions --words 100": [
        *("--words", "12", "--pairs", "8", "--rank", "2")
    ],
    "analyse runs/anbn-10-plant-decoys-2-rotate-s0 circuits": ["--pairs", "6"],
    "analyse runs/dieren-s0 emergence --words 100 --count 4": ["--words", "40", "--count", "2"],
    " targets": ["--count", "4"],
    "analyse runs/nested-encoder-learned-masked-s0 perplexity": ["--count", "2"],
    "sweep": ["--seeds", "1", "--steps", "2", "--workers", "1", "--languages", "anbn"],
}
"""What is added to a command that begins so, or has this word, that it takes seconds."""
ELSEWHERE = {"source", "dask", "pip"}
"""Commands that are none of the lab's."""
HERE = "1ba1cd7beafb4efd85a15bc00289002765e4e054e02826413812b07521eb5b9b"
"""The hash of the weights of dieren-s0 with which the pages were written: the same seed ends
elsewhere on another kind of processor. What other weights would say otherwise is marked."""


@dataclass(frozen=True)
class Block:
    """A block of code, with what stands below it as its output."""

    line: int
    language: str
    about: str
    code: str
    output: str | None
    here: bool  # the output is that of the network which was trained here


def blocks(text: str) -> list[Block]:
    """The blocks of a page; a block of text right below one of code is its output."""
    found = list(FENCE.finditer(text))
    made = []
    for match, after in zip_longest(found, found[1:]):
        if match["language"] == "text" and not match["about"]:
            continue
        output, here = None, False
        below = after is not None and not text[match.end() : after.start()].strip()
        if below and after["language"] == "text" and not after["about"]:
            output, here = after["code"], bool(after["before"])
        line = text[: match.start()].count("\n") + 1
        made.append(Block(line, match["language"], match["about"], match["code"], output, here))
    return made


def test_every_block_is_of_a_kind_that_is_run() -> None:
    kinds = {b.language for page in PAGES for b in blocks(page.read_text(encoding="utf-8"))}
    assert kinds == {"bash", "python", "toml", "text"}  # a text with a name is a file to write


# -- comparing ------------------------------------------------------------------------------------


def test_output_is_compared() -> None:
    said = "a 1.02\n ─────\n b  (70%) end"
    for right in ("a 1.02 b (70%) end", "a 1.0 ... end", "... b (72%) end", "a 1.02 b ..."):
        assert differs(right, said) == ""
    for wrong in ("a 2.02 ...", "a 1.02 b", "b (70%) end", "... c ...", "a 1.02 end ... b"):
        assert differs(wrong, said) != ""


# -- running --------------------------------------------------------------------------------------


@pytest.fixture
def folder(demo: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """Where a reader stands after `make lab`: the demo in `runs`, the rooms beside it."""
    shutil.copytree(demo, tmp_path / "runs")
    for room in ("models", "docs"):
        (tmp_path / room).symlink_to(ROOT / room)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "120")
    monkeypatch.setitem(sys.modules, "dask_jobqueue", jobqueue())
    monkeypatch.setattr("builtins.input", lambda _: "")
    few = ("accuracy", "probing", "heads", "discovery", "explanations")
    monkeypatch.setattr("analyses.command_line.demo.ASKED", few)
    monkeypatch.setattr("analyses.command_line.demo.recipe_or_plain", configured)
    kinds = ({"positions": "none", "steps": 150},)
    monkeypatch.setattr("analyses.rules.discover.CANDIDATES", kinds)
    monkeypatch.setattr("analyses.questions.behaviour.accuracy.ALL_WORDS", 1000)
    monkeypatch.setattr("analyses.questions.parts.dependencies.AT_RANDOM", 1000)
    monkeypatch.setattr("analyses.questions.inside.vectors.READ", 40)
    monkeypatch.setattr("interp.probing.pooling.STEPS", 10)
    monkeypatch.setattr("interp.probing.structural.STEPS", 10)
    monkeypatch.setattr("analyses.studies.few_labels.RATES", (1e-3,))
    monkeypatch.setattr("analyses.studies.few_labels.TEST", 50)
    monkeypatch.setattr("analyses.scoring.nothing.LEARNED", ("first",))
    monkeypatch.setattr("analyses.scoring.nothing.STEPS", 2)
    null = {"one step": nothing.NULL["one step"]}
    monkeypatch.setattr("analyses.scoring.nothing.NULL", null)
    before = dict(registry.LANGUAGES)
    with without_pictures():
        yield tmp_path
    registry.LANGUAGES.clear()
    registry.LANGUAGES.update(before)


def jobqueue() -> ModuleType:
    """What dask-jobqueue offers, without a cluster."""
    module = ModuleType("dask_jobqueue")

    class SLURMCluster:
        scheduler_address = "tcp://127.0.0.1:8786"

        def __init__(self, cores: int, processes: int, memory: str, walltime: str) -> None: ...
        def scale(self, jobs: int) -> None: ...

    vars(module)["SLURMCluster"] = SLURMCluster
    return module


@pytest.mark.slow
@pytest.mark.parametrize(
    "page",
    [page for page in PAGES if blocks(page.read_text(encoding="utf-8"))],
    ids=lambda page: str(page.relative_to(ROOT)),
)
def test_the_blocks_of_a_page_run(
    page: Path, folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    trained_here = Run(folder / "runs" / "dieren-s0").model_hash() == HERE
    names: dict[str, object] = {"__name__": "page"}
    for block in blocks(page.read_text(encoding="utf-8")):
        where = f"{page.relative_to(ROOT)}:{block.line}"
        capsys.readouterr()
        if "registry.py" in block.about:
            registry.LANGUAGES.update(eval(f"{{{block.code}}}", vars(registry)))
        elif block.about:
            written(block, folder)
        elif block.language == "python":
            exec(compile(block.code, where, "exec"), names)
        else:
            for line in block.code.splitlines():
                typed(line, where)
        said = capsys.readouterr().out
        if block.output is not None and (trained_here or not block.here):
            missing = differs(block.output, said)
            assert not missing, f"{where} did not say: {missing}\n\nIt said:\n{said}"


@pytest.mark.slow
def test_the_picture_is_made_from_the_demo(folder: Path) -> None:
    """With the network of the pages it says the same as the picture that they show."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("sys.argv", ["picture.py", "runs/dieren-s0", "picture.svg"])
        runpy.run_path(str(ROOT / "docs" / "picture.py"), run_name="__main__")
    made, shown = folder / "picture.svg", ROOT / "docs" / "pages" / "picture.svg"
    says = [re.findall(r">([^<>]+)</text>", path.read_text("utf-8")) for path in (made, shown)]
    assert "leeuw" in says[0]
    if Run(folder / "runs" / "dieren-s0").model_hash() == HERE:
        assert says[0] == says[1]


def written(block: Block, folder: Path) -> None:
    """A file that the page tells to write, or to go on with. One of TOML is read here."""
    name = re.findall(r'title="(.+)"', block.about)[0]
    with (folder / name).open("a", encoding="utf-8") as file:
        file.write(block.code)
    if block.language == "toml":
        tomllib.loads(block.code)


def typed(line: str, where: str) -> None:
    """What is typed at the terminal."""
    words = shlex.split(line, comments=True)
    if not words or words[0] in ELSEWHERE:
        return
    name, *rest = words
    if name == "make":
        assert f"\n{rest[0]}:" in (ROOT / "Makefile").read_text(encoding="utf-8"), where
    elif name == "python":
        assert Path(rest[0]).is_file(), where
        if "/" not in rest[0]:  # a file of the page; one of the lab has tests of its own
            with pytest.MonkeyPatch.context() as patch:
                patch.setattr("sys.argv", rest)
                runpy.run_path(rest[0], run_name="__main__")
    else:
        assert name == "lab", where
        command, *rest = rest
        if command == "dashboard":  # it would stay open
            rest = ["--help"]
        words = [command, *rest]
        typed_words = " ".join(words)
        added = (
            more
            for begin, more in SHORT.items()
            if typed_words.startswith(begin) or (begin.startswith(" ") and begin in typed_words)
        )
        status = answered([*words, *next(added, [])])
        # A scheduler that is not there is asked for last, when all else is right.
        assert status == (2 if "ADDRESS" in rest else 0), where


def answered(words: list[str]) -> int:
    """The exit status of `lab`."""
    try:
        return main([word.replace("/shared", "shared") for word in words])
    except SystemExit as stop:
        return int(stop.code or 0)
