"""The pages that are made from the code each time the site is built: nothing of them is a copy.

A hook of MkDocs (``hooks`` in mkdocs.yml). It makes the reference of every command, of ``interp``
and of the languages, and the tables of hooks in the glossary. It takes CONTRIBUTING.md in, and the
notebooks as they are kept, with their output.
"""

from __future__ import annotations

import ast
import base64
import contextlib
import io
import json
import os
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any, get_args

from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import File, Files
from mkdocs.structure.pages import Page

from analyses.charts.leaderboard import MEANINGS
from analyses.command_line.app import COMMANDS, main
from analyses.command_line.arguments import SHOWN, SHOWN_OF, STUDIES
from analyses.registry import BUILT_IN
from models.choices import CHOICES, Counting
from models.families import FAMILIES
from models.hooks import HookRow
from models.languages import LANGUAGES, language
from models.model_config import ModelConfig
from models.training.recipes import recipes_of

ROOT = Path(__file__).parents[1]
NOTEBOOKS = ROOT / "docs" / "notebooks"
HOOKS = "<!-- the tables of hooks stand here -->"
MEASURES = "<!-- the table of measures stands here -->"
"""In the glossary."""
WIDTH = 80
"""Characters of a line of help."""
ABOUT = """Each command takes `--help`: here stands what it says. A mistake is answered by one line
and exit status 2, and nothing half written is left."""
SCRIPTS = """The options of `lab analyse RUN NAME`. Each question is a script too:
`python -m analyses.script patching RUN`."""


def on_files(files: Files, config: MkDocsConfig) -> Files:
    """Adds the pages that are made."""
    for path, text in pages().items():
        files.append(File.generated(config, path, content=text))
    for path in sorted(NOTEBOOKS.glob("*.ipynb")):  # to be downloaded
        files.append(File.generated(config, f"notebooks/{path.name}", abs_src_path=str(path)))
    return files


def on_page_markdown(markdown: str, page: Page, config: MkDocsConfig, files: Files) -> str:
    """Puts the tables where the glossary wants them."""
    for mark, made in ((HOOKS, hooks), (MEASURES, measures)):
        if mark in markdown:
            markdown = markdown.replace(mark, made())
    return markdown


def pages() -> dict[str, str]:
    """Every made page by its path in the site."""
    rooms = sorted(path for path in (ROOT / "interp").iterdir() if (path / "__init__.py").exists())
    own = [path for path in modules(ROOT / "interp") if path.parent == ROOT / "interp"]
    return (
        {
            "contributing.md": (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8"),
            "reference/commands.md": commands(),
            "reference/languages.md": languages(),
            "reference/interp.md": reference("interp", first_line(ROOT / "interp"), own),
        }
        | {
            f"reference/interp-{room.name}.md": reference(
                f"interp.{room.name}", first_line(room), modules(room)
            )
            for room in rooms
        }
        | {
            f"notebooks/{path.stem}.md": notebook(path)
            for path in sorted(NOTEBOOKS.glob("*.ipynb"))
        }
    )


# -- commands -------------------------------------------------------------------------------------


FURTHER = [
    *(("sweep", name) for name in STUDIES),
    *(("show", name) for name in SHOWN),
    *(("show", "RUN", name) for name in SHOWN_OF),
]
"""Further uses of `sweep` and `show`, each with options of its own."""


def commands() -> str:
    """The answer of every command to ``--help``."""
    parts = ["# Every command", ABOUT, block(said()), "## Each by itself"]
    for name in COMMANDS:
        parts += [f"### lab {name}", block(said(name, "--help"))]
        if name == "rule":  # of lines, or of a network
            parts.append(block(said(name, "--model", "DIR", "--help")))
        parts += [block(said(*words, "--help")) for words in FURTHER if words[0] == name]
    parts += ["## Each question", SCRIPTS]
    for name in BUILT_IN:
        parts += [f"### {name}", block(said("analyse", "RUN", name, "--help"))]
    return "\n\n".join(parts)


def said(*words: str) -> str:
    """The text that `lab` prints on stdout."""
    printed = io.StringIO()
    with contextlib.redirect_stdout(printed), contextlib.suppress(SystemExit), columns(WIDTH):
        main(words)
    return printed.getvalue()


@contextlib.contextmanager
def columns(width: int) -> Iterator[None]:
    """Sets the width of the terminal."""
    before = os.environ.get("COLUMNS")
    os.environ["COLUMNS"] = str(width)
    try:
        yield
    finally:
        os.environ.pop("COLUMNS") if before is None else os.environ.update(COLUMNS=before)


def block(text: str) -> str:
    """Text as it was printed."""
    lines = [line.rstrip() for line in text.strip("\n").splitlines()]
    return "\n".join(["```text", *lines, "```"])


# -- notebooks ------------------------------------------------------------------------------------


def notebook(path: Path) -> str:
    """A notebook as a page: its text, its code, and the output that is kept with it."""
    title, *cells = json.loads(path.read_text(encoding="utf-8"))["cells"]
    about = (
        f"[The notebook]({path.name}) lies in `docs/notebooks`. To run it: "
        "`.venv/bin/pip install jupyterlab`, then `.venv/bin/jupyter lab docs/notebooks`."
    )
    parts = ["".join(title["source"]), about]
    for cell in cells:
        source = "".join(cell["source"])
        if cell["cell_type"] == "markdown":
            # The same pages, seen from the site and not from the folder of notebooks.
            parts.append(source.replace("](../pages/", "](../").replace(".ipynb)", ".md)"))
        else:
            parts += [f"```python\n{source}\n```", *map(output, cell["outputs"])]
    return "\n\n".join(parts)


def output(kept: dict[str, Any]) -> str:
    """The text that a cell printed, or the value of its last line."""
    if kept["output_type"] == "stream":
        return block("".join(kept["text"]))
    shown = {kind: "".join(text) for kind, text in kept["data"].items()}
    if "image/svg+xml" in shown:
        picture = base64.b64encode(shown["image/svg+xml"].encode()).decode()
        return f'<img alt="What the code above draws" src="data:image/svg+xml;base64,{picture}">'
    if "text/html" in shown:
        # Without the class of pandas a table looks like every table of the site.
        table = shown["text/html"].replace('border="1" class="dataframe"', "")
        return f"<div>{table}</div>"
    return block(shown["text/plain"])


# -- languages ------------------------------------------------------------------------------------


def languages() -> str:
    """Every registered language in a table, and the classes that they are made of."""
    rows = ["| name | type | symbols | example | near miss | recipes |", "|" + "---|" * 6]
    for name in LANGUAGES:
        known = language(name)
        missed = known.near_miss_example()
        cells = [" ".join(known.vocabulary.symbols), " ".join(known.example())]
        cells += [" ".join(missed) if missed else "-", " ".join(recipes_of(name))]
        shown = " | ".join(f"`{cell}`" for cell in cells)
        rows.append(f"| `{name}` | {known.chomsky} | {shown} |")
    room = ROOT / "models" / "languages"
    files = [file for part in (".", "grammars", "pairs", "tokens") for file in modules(room / part)]
    body = reference("models.languages", first_line(room), files)
    head, _, rest = body.partition("\n\n")
    return "\n\n".join([head, "## Every language", "\n".join(rows), "## The classes", rest])


# -- modules --------------------------------------------------------------------------------------


def modules(folder: Path) -> list[Path]:
    """The files of a package that have something to say."""
    return sorted(path for path in folder.rglob("*.py") if path.name != "__init__.py")


def first_line(folder: Path) -> str:
    """The description of a package, by itself."""
    tree = ast.parse((folder / "__init__.py").read_text(encoding="utf-8"))
    return (ast.get_docstring(tree) or "").splitlines()[0]


def reference(title: str, about: str, files: list[Path]) -> str:
    """A page of the public names of some modules; mkdocstrings reads them."""
    names = [".".join(path.relative_to(ROOT).with_suffix("").parts) for path in files]
    return "\n\n".join([f"# {title}", about, *(f"::: {name}" for name in names)])


# -- tables of the glossary ------------------------------------------------------------------------


def measures() -> str:
    """The meaning of each measure of explanations."""
    rows = [f"| {name} | {meaning} |" for name, meaning in MEANINGS.items()]
    return "\n".join(["| measure | what it says |", "|---|---|", *rows])


def hooks() -> str:
    """A table for each family of models: every hook that any of its configurations has."""
    parts = []
    for family in FAMILIES:
        rows = ["| hook | shape | what it is | only with |", "|---|---|---|---|"]
        for row, options in hooks_of(family):
            only = " or ".join(f"`{option}`" for option in options)
            rows.append(f"| `{row.name}` | {' '.join(row.shape)} | {row.meaning} | {only} |")
        parts += [f"### Hooks of {family}", "\n".join(rows)]
    return "\n\n".join(parts)


def hooks_of(family: str) -> list[tuple[HookRow, list[str]]]:
    """Every hook of a family, with the options without which it is not there."""
    base = ModelConfig(architecture=family)
    usual = {row.name: row for row in base.hook_rows}
    special: dict[str, tuple[HookRow, list[str]]] = {}
    for option, config in variants(base):
        for row in config.hook_rows:
            if row.name not in usual:
                special.setdefault(row.name, (row, []))[1].append(option)
    return [*((row, []) for row in usual.values()), *special.values()]


def variants(base: ModelConfig) -> list[tuple[str, ModelConfig]]:
    """The same model with one other choice each, and the option that makes it."""
    reads = base.family.reads
    made = [
        (f"--model.{field.replace('_', '-')} {choice}", replace(base, **{field: choice}))
        for field, kind in CHOICES.items()
        for choice in get_args(kind)
        if field in reads
    ]
    if "counting.counters" in reads:
        counters = Counting(averaging_heads=1, counters=True)
        made += [
            ("--model.counting.head-norm", replace(base, counting=Counting(head_norm=True))),
            ("--model.counting.counters", replace(base, counting=counters)),
        ]
    return made
