"""The pages: the README is short, no link is broken, and what they list is what the code has."""

from __future__ import annotations

import html
import os
import re
import subprocess
import sys
from dataclasses import replace
from itertools import product
from pathlib import Path
from typing import get_args

import pytest
from conftest import made_once
from mkdocs.commands.build import build
from mkdocs.config import load_config
from mkdocs.exceptions import Abort

from analyses.command_line.app import COMMANDS
from analyses.options.parts import Component
from analyses.registry import BUILT_IN, usual
from interp.explanations.methods import METHODS
from interp.explanations.scores import METRICS
from interp.heads.types import TYPES
from models.choices import CHOICES
from models.errors import UserError
from models.families import FAMILIES
from models.languages import LANGUAGES, language
from models.model_config import ModelConfig
from models.objectives import OBJECTIVES
from models.training.recipes import RECIPES

ROOT = Path(__file__).parents[2]
DOCS = ROOT / "docs"
PAGES = DOCS / "pages"
LECTURES = 172
"""Rows of the survey of what the lectures describe."""


def read(path: Path) -> str:
    return path.read_text(encoding="utf-8")


# -- the README -----------------------------------------------------------------------------------


def test_the_readme_is_short() -> None:
    assert len(read(ROOT / "README.md").split()) <= 700


def test_the_links_of_the_readme_lead_somewhere() -> None:
    links = re.findall(r"\]\(([^)#]+)\)", read(ROOT / "README.md"))
    assert len(links) > 10
    assert [link for link in links if not (ROOT / link).is_file()] == []


# -- links ----------------------------------------------------------------------------------------

PAGE = "# First\n\n[fine](second.md#here)\n\n"


@pytest.mark.parametrize(
    "broken", ["[x](third.md)", "[x](second.md#there)", "[x](#nowhere)", "[x](../README.md)", None]
)
def test_a_broken_link_fails_the_build(tmp_path: Path, broken: str | None) -> None:
    """With the settings of the site."""
    pages = tmp_path / "pages"
    pages.mkdir()
    (pages / "index.md").write_text(PAGE + (broken or ""))
    (pages / "second.md").write_text("# Second\n\n## Here\n")
    config = load_config(
        str(DOCS / "mkdocs.yml"),
        docs_dir=str(pages),
        site_dir=str(tmp_path / "site"),
        hooks=[],
        plugins=[],
        nav=["index.md", "second.md"],
        theme={"name": None, "custom_dir": str(tmp_path)},
        strict=True,
    )
    (tmp_path / "main.html").write_text("{{ page.content }}")
    if broken is None:
        build(config)
    else:
        with pytest.raises(Abort):
            build(config)


# -- what the pages list --------------------------------------------------------------------------


def test_every_usual_question_has_a_page_of_findings() -> None:
    for name in usual():
        asks = BUILT_IN[name].asks
        page = read(PAGES / "findings" / f"{name}.md")
        assert f"**{asks}**" in page, name
        assert "lab analyse runs/" in page, name
        assert "## Where the figures come from" in page, name
        assert f"]({name}.md) | {asks} |" in read(PAGES / "findings" / "index.md"), name


def test_every_row_of_the_lectures_is_there() -> None:
    page = read(PAGES / "lectures.md")
    rows = re.findall(r"^\| (\d+) \|.*\| (.+?) \|$", page, flags=re.MULTILINE)
    assert [int(number) for number, _ in rows] == list(range(1, LECTURES + 1))
    here = re.findall(r"`((?:models|interp|analyses|tests)/[\w/.]+)`", page)
    assert [path for path in here if not (ROOT / path).exists()] == []
    lacks = [answer for _, answer in rows if "ot here" in answer]
    counts = re.search(r"Of the 172 rows (\d+) are answered, (\d+) in part, (\d+) not", page)
    assert counts is not None
    answered, partly, none = map(int, counts.groups())
    outside = sum(answer.startswith("Not here: ") for answer in lacks)
    assert answered == LECTURES - len(lacks)
    assert none == sum(answer == "Not here yet." for answer in lacks)
    assert partly == len(lacks) - none - outside


def test_the_glossary_has_what_tables_and_pictures_name() -> None:
    page = read(PAGES / "glossary.md").lower()
    variables = {name for each in LANGUAGES for name in language(each).variables}
    named = [*METRICS, *METHODS, *TYPES, *RECIPES, *OBJECTIVES, *get_args(Component)]
    named += {re.sub(r"^(count_|open_).*|^\w-\w$", r"\1", name) for name in variables}
    shown = {"oracle": "position, random, oracle, language"}
    assert [name for name in named if shown.get(name, name).lower() not in page] == []


# -- the site -------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The site as `make docs` builds it. Whoever has just built it says where: LAB_SITE."""
    if built := os.environ.get("LAB_SITE"):
        return Path(built)

    def make(folder: Path) -> None:
        command = [sys.executable, "-m", "mkdocs", "build", "--strict", "-d", str(folder)]
        done = subprocess.run(
            [*command, "-f", str(DOCS / "mkdocs.yml")],
            env={**os.environ, "PYTHONPATH": str(ROOT), "NO_MKDOCS_2_WARNING": "1"},
            capture_output=True,
            text=True,
            check=False,
        )
        assert done.returncode == 0, done.stderr

    return made_once(tmp_path_factory, "site", make)


@pytest.mark.slow
def test_the_site_asks_nothing_of_the_network(site: Path) -> None:
    pages = sorted(site.rglob("*.html"))
    assert len(pages) > 25
    fetched = re.compile(r"<(?:script|link|img|iframe)\b[^>]*(?:src|href)=.?(?:https?:)?//[^>]*>")
    assert {page.name: found for page in pages if (found := fetched.findall(read(page)))} == {}
    for sheet in site.rglob("*.css"):
        assert not re.search(r"@import|url\(.?https?:", read(sheet)), sheet


@pytest.mark.slow
def test_the_reference_is_whole(site: Path) -> None:
    commands = read(site / "reference" / "commands.html")
    for name in COMMANDS:
        assert f'id="lab-{name}"' in commands, name
    assert "--replacement {uniform,data,fixed}" in commands  # an option of one question
    assert commands.count("usage: lab") >= len(COMMANDS) + len(BUILT_IN)
    languages = read(site / "reference" / "languages.html")
    for name in LANGUAGES:
        assert f"<code>{name}</code>" in languages, name
    for room, pages in (("interp", "interp*.html"), ("models/languages", "languages.html")):
        shown = "".join(read(page) for page in (site / "reference").glob(pages))
        for path in (ROOT / room).rglob("*.py"):
            name = ".".join(path.relative_to(ROOT).with_suffix("").parts)
            if path.stem != "__init__":
                assert f'id="{name}"' in shown, name


@pytest.mark.slow
@pytest.mark.parametrize("family", FAMILIES)
def test_the_glossary_has_every_hook_of_every_configuration(site: Path, family: str) -> None:
    page = html.unescape(read(site / "glossary.html"))
    _, _, part = page.partition(f'id="hooks-of-{family}"')
    listed = set(re.findall(r"<tr>\s*<td><code>([^<]+)</code></td>", part.partition("<h3")[0]))
    found, reads = set[str](), FAMILIES[family].reads
    fields = [field for field in CHOICES if field in reads]
    for values in product(*(get_args(CHOICES[field]) for field in fields)):
        try:
            config = ModelConfig(family, **dict(zip(fields, values, strict=True)))
        except UserError:
            continue  # no model
        found |= {row.name for row in config.hook_rows}
        if "counting.counters" in reads:
            counting = replace(config.counting, head_norm=True)
            found |= {row.name for row in replace(config, counting=counting).hook_rows}
    assert listed == found
