"""Every command that a page prints is one that the command line takes, with the page's options.

The pages show runs whose folder, name and symbols have quotes, blanks, dollars and leading dashes.
Each part of each page is opened, and opened again with its choices changed. What it prints is read
by the real command line; in place of the work stands a note of the options that were read. Then it
is run: what a run was asked already here, and all of it with ``--full``.
"""

from __future__ import annotations

import re
import shlex
import sys
from collections.abc import Callable, Iterator, Mapping
from dataclasses import asdict
from itertools import pairwise
from pathlib import Path
from tempfile import mkdtemp
from typing import Any
from zlib import crc32

import pytest
from compared import plainly
from conftest import made_once, tiny_config, tiny_of, without_pictures
from few import of_few
from parts import part, parts
from streamlit.testing.v1 import AppTest
from test_kinds import TASKS
from test_pages import SHOW
from test_sweeps_page import table_of, write

from analyses.answers import Answers, answer, arguments_of, plain, question
from analyses.command_line.app import COMMANDS, main
from analyses.command_line.arguments import Analyse
from analyses.options.behaviour import Accuracy
from analyses.options.commands import Dashboard, Demo, Finetune, Generate, Train
from analyses.options.inside import Dictionary
from analyses.options.parts import Patching
from analyses.options.plants import Score
from analyses.options.studies import FewLabels, Leaderboard, Sweep
from analyses.options.words import Explanations
from analyses.reports.code import command_of
from dashboard import selection
from dashboard.background import JOBS
from dashboard.pages import pages
from models.errors import lab
from models.plants.plant import plant
from models.plants.plant import write as write_plant
from models.runs.run import Run
from models.training.loop import train

pytestmark = pytest.mark.slow

GRAMMAR = """S -> '-n' N V | "it's" N V | '-n' N '$HOME' N V V
N -> 'q"q' | 'cat'
V -> '`ls`' | 'sees'"""
PROMPT = "-n cat $HOME"
FOLDER = 'my "runs" of $HOME'
RUN, SECOND, PLANTED = "it's first", "it's second", "majority"
FIRST = {f"step_of_{RUN}": "0"}
"""The checkpoint before the training."""
LINKS: dict[str, tuple[dict[str, str], ...]] = {
    "story": ({"run": SECOND},),
    "generate": ({}, {"prompt_mine": "-n \t cat  $HOME", "temperature": "0.0", **FIRST}),
    "patching": ({}, {"word_mine": "-n \t cat  sees", **FIRST}),
    "influence": ({}, {"word_mine": "`ls` \t cat", "lines_method": "TracIn"}),
    "dictionaries": ({"run": PLANTED},),
    "alignment": ({"run": "steps"}, {"run": "prompts"}),
    "train": (
        {},
        {
            "train_language": "a regular expression of mine",
            "own_regex": "(a|b)*",
            "own_symbols": "c",
        },
        {"train_language": "a grammar of mine", "own_grammar": GRAMMAR},
    ),
}
"""The links with which pages are opened; all others show ``RUN``."""
ASKED: dict[str, Any] = {
    name: TASKS[name][1] for name in ("accuracy", "heads", "circuits", "leaderboard")
}
ASKED |= {"patching": Patching(word='-n q"q sees', pairs=2, n=3)}
WRITTEN = {
    *("analyse", "seeds", "generate", "train", "evaluate", "finetune", "plant", "languages"),
    *("dashboard", "sweep", "score", "demo"),
}
"""All commands that pages print."""


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Runs that between them let every page print what it can print."""

    def make(made: Path) -> None:
        folder = made / FOLDER
        own = {"language": "mine", "grammar": GRAMMAR, "max_n": 6, "lines": 12, "steps": 3}
        runs = {
            RUN: own,
            SECOND: {**own, "seed": 1},
            "steps": {"language": "parity-steps", "model": tiny_of("encoder-decoder"), "max_n": 4},
            "prompts": {
                "language": "in-context",
                "objective": "sequence-to-sequence",
                "max_n": 2,
                "steps": 1,
            },
            "dieren-s0": {"language": "dieren", "objective": "verdict", "max_n": 8, "lines": 20},
        }
        for name, changes in runs.items():
            train(Run.create(folder / name, tiny_config(**{"steps": 3, **changes})), "cpu")
        write_plant(plant("majority-10"), folder / PLANTED)
        few = Dictionary(width=(4, 6), seeds=1, steps=5, words=150, kinds=("topk",))
        with without_pictures():
            answer(Run(folder / PLANTED), "dictionary", few)
            for name, options in ASKED.items():
                answer(Run(folder / RUN), name, options)
        write(folder / "my sweep", table_of(), left=2)

    return made_once(tmp_path_factory, "commands", make) / FOLDER


@pytest.fixture
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    """What the pages compute themselves is computed of few words."""
    monkeypatch.setattr(selection, "question", of_few)


Obey = Callable[[str], Any]


@pytest.fixture
def obey(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Obey:
    """Gives a printed command to the command line, and returns the options that it has read; the
    work is left out."""
    read_now: list[Any] = []
    monkeypatch.setattr("analyses.command_line.app.resolve_name", lambda _: read_now.append)
    monkeypatch.setattr("analyses.command_line.arguments.check_paths", lambda _: None)  # of RUN

    def obeyed(command: str) -> Any:
        name, *words = shlex.split(command)
        assert name == "lab"
        capsys.readouterr()
        assert main(words) == 0, f"{command}\n{capsys.readouterr().err}"
        return read_now.pop()

    return obeyed


# -- what a page prints ---------------------------------------------------------------------------

CODE = re.compile(r"(?<!`)(`+)(?!`)(.*?)(?<!`)\1(?!`)", flags=re.DOTALL)
"""A span of code in Markdown."""


def printed(page: AppTest) -> Iterator[str]:
    """The commands of a page, in blocks of code and in sentences."""
    yield from (block.value for block in page.code if block.value.startswith("lab "))
    said = (*page.markdown, *page.caption, *page.info, *page.warning, *page.error, *page.success)
    for sentence in said:
        for _, span in CODE.findall(sentence.value):
            if span.strip(" ").startswith("lab "):
                yield span.strip(" ")


def opened(address: str, link: dict[str, str], full: bool) -> Iterator[AppTest]:
    """Each part of a page as it opens, and of one page in two, always the same, with the choices of
    all parts changed. With ``full`` each view of each page is shown once, beside other choices of
    all else."""
    seen, left, opening = {*link}, [link], each_part
    while left:
        link, others, views = left.pop(), dict[str, str](), dict[str, list[str]]()
        for page in opening(of_link(address, link)):
            yield page
            others |= {key: value for key, value in changed(page) if key not in seen}
            views |= {str(each.key): each.options for each in page.button_group}
        views = {key: options for key, options in views.items() if key not in seen}
        seen |= {*others, *views}
        most = max([2 * bool(others), *map(len, views.values())])
        for i in range(1, most if full else min(most, 1 + crc32(address.encode()) % 2)):
            shown = {key: labels[i % len(labels)] for key, labels in views.items()}
            left.append({**link, **others, **shown})
        opening = last_part


def last_part(page: AppTest) -> Iterator[AppTest]:
    """The page as it opens, and with the part open that says how its picture is made again."""
    yield computed(page)
    if FILES in [plainly(tab.label) for tab in page.tabs]:
        yield computed(part(page, FILES))


FILES = "Numbers, files, code"


def each_part(page: AppTest) -> Iterator[AppTest]:
    """The page with each of its parts open, and once what the part computes is there; the page as
    it is, if it has none."""
    if page.tabs:
        yield from map(computed, parts(page))
    else:
        yield page


def changed(page: AppTest) -> Iterator[tuple[str, str]]:
    """Other choices, as a link has them: the last option, the least number, a word turned around
    and with blanks."""
    for choice in page.selectbox:
        if choice.key not in ("run", "with") and choice.options:
            yield str(choice.key), choice.options[-1]
    for number in (*page.slider, *page.number_input):
        yield str(number.key), str(number.min)
    for typed in page.text_input:
        yield str(typed.key), "  " + " \t ".join(reversed((typed.value or "").split()))
    for toggle in page.toggle:
        yield str(toggle.key), "true"


def of_link(address: str, link: Mapping[str, str]) -> AppTest:
    page = AppTest.from_string(SHOW.format(page=address), default_timeout=120)
    for key, value in link.items():
        page.query_params[key] = value
    return computed(page.run())


def computed(page: AppTest) -> AppTest:
    """The page once what it computes is there."""
    if any(str(button.key).startswith("stop ") for button in page.button):
        JOBS.wait()
        page.run()
    assert not page.exception
    assert not [each.value for each in page.error if each.value.startswith("This part cannot")]
    return page


@pytest.mark.usefixtures("quick")
def test_each_command_of_each_page_is_read(
    folder: Path, obey: Obey, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, full: bool
) -> None:
    found, names, written = dict[str, Any](), set[str](), dict[str, Analyse]()
    for runs in (folder, tmp_path):  # pages of an empty folder say how it is filled
        monkeypatch.setattr(sys, "argv", ["app.py", str(runs)])
        for address in pages():
            for link in LINKS.get(address, ({},)) if runs == folder else ({},):
                for page in opened(address, {"run": RUN, **link} if runs == folder else link, full):
                    for command in printed(page):
                        name, *words = shlex.split(command)[1:]
                        names.add(name)
                        assert name in COMMANDS, f"{address}: {command}"
                        if words and command not in found:  # else it is named only, or read
                            found[command] = obey(command)
                    written |= as_in_python(page, found)
    for command, options in found.items():
        path = vars(options).get("run")
        if isinstance(path, Path) and path != Path("RUN"):  # so a page calls any run
            assert (path / "run.json").is_file(), command
    assert names == WRITTEN
    read_now = found.values()
    assert {each.prompt for each in read_now if isinstance(each, Generate)} == {"", PROMPT}
    assert {0.0, 1.0} <= {each.temperature for each in read_now if isinstance(each, Generate)}
    configs = [each.config for each in read_now if isinstance(each, Train)]
    assert {(each.regex, each.symbols) for each in configs} >= {("(a|b)*", "c")}
    assert {each.grammar for each in configs} >= {GRAMMAR}
    asked = [each for each in read_now if isinstance(each, Analyse) and each.name == "patching"]
    assert {each.how.step for each in asked} == {None, 0}
    typed = {each.options.word for each in asked}
    assert typed >= {None, "-n cat sees"}
    monkeypatch.undo()  # from here on a command does its work
    monkeypatch.chdir(tmp_path)
    for command, options in found.items():
        if full or (isinstance(options, Analyse) and is_kept(options)):
            assert run_again(command, options, tmp_path) == 0, command
    for lines, asked in written.items():
        if full or is_kept(asked):
            exec(lines, {})
    assert sum(map(is_kept, written.values())) >= len(ASKED)


def is_kept(asked: Analyse) -> bool:
    """Whether the run keeps the answer. To ask again then takes no time."""
    if asked.name is None or not (asked.run / "run.json").is_file():
        return False
    run = Run(asked.run, asked.how.step)
    return Answers.of(run, asked.name).asked(arguments_of(asked.options)) is not None


def run_again(command: str, options: Any, out: Path) -> int:
    """Runs a command, and returns its status. A training is short here, a sweep is only planned,
    and what fills a terminal for minutes has tests of its own. A command of any run is called so
    with RUN."""
    words = shlex.split(command)[1:]
    if isinstance(options, Dashboard | Demo | Score | Leaderboard | FewLabels) or "RUN" in words:
        return 0
    if isinstance(options, Train | Finetune):
        short = {"--steps": "2", "--evaluate-every": "1", "--out": mkdtemp(dir=out)}
        for option, value in short.items():
            if option in words:
                del words[words.index(option) : words.index(option) + 2]
            words += [option, value]
    return main([*words, "--dry-run"] if isinstance(options, Sweep) else words)


def as_in_python(page: AppTest, found: Mapping[str, Analyse]) -> dict[str, Analyse]:
    """What each block of Python asks: the command below it has its options."""
    written = {}
    for block, below in pairwise(page.code):
        if below.value.startswith("lab analyse") and block.language == "python":
            ((name, said),) = re.findall(r"([\w-]+)', asked\.options\((.*)\)\)", block.value)
            options = question(name).options(**eval(f"dict({said})"))
            assert found[below.value].options == options, below.value
            written[block.value] = found[below.value]
    return written


HARD = ("it's", '"', "$HOME `ls`", "-n", "--seed", "two\nlines", " blanks\t ", "!", "\\", "é", "*")
"""Words that a shell or a parser could take for something else."""


@pytest.mark.parametrize("word", HARD)
def test_a_command_says_what_it_was_given(tmp_path: Path, obey: Obey, word: str) -> None:
    run = Run.create(tmp_path / f"run {word}", tiny_config())
    every: dict[str, Any] = {
        "patching": Patching(
            word=word, corrupted=f"{word} {word}", components=("z", "q"), whole=True
        ),
        "explanations": Explanations(word=word),
        "accuracy": Accuracy(all_words=3, lengths="2:4"),
    }
    for name, options in every.items():
        asked = obey(command_of(run, name, plain(asdict(options))))
        assert (asked.options, asked.run) == (options, run.path)
    said = lab("generate", run.path, prompt=word, frequency_penalty=-0.5, top_k=None, step=0)
    assert obey(said) == Generate(run.path, prompt=word, frequency_penalty=-0.5, step=0)
