"""The wheel holds all that the lab needs: it works from another folder, without the repository."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path
from zipfile import ZipFile

import pytest

ROOT = Path(__file__).parents[2]
ROOMS = ("models", "interp", "analyses", "dashboard")
CODE = """
import analyses, sys
from analyses.command_line.app import main
from importlib.util import find_spec
for room in ("models", "interp", "analyses", "dashboard"):
    assert find_spec(room).origin.startswith(sys.argv[1]), find_spec(room).origin
for words in ("languages", "train an --steps 2", "evaluate runs/an-s0 --max-n 9"):
    assert main(words.split()) == 0, words
import dashboard.glossary
from pathlib import Path
import dashboard.server
assert Path(dashboard.server.__file__).with_name(".streamlit").joinpath("config.toml").exists()
"""


@pytest.mark.slow
def test_what_is_installed_from_the_wheel_works_elsewhere(tmp_path: Path) -> None:
    pip = [sys.executable, "-m", "pip", "--disable-pip-version-check", "-q"]
    source, made, installed, elsewhere = (tmp_path / f"{i}" for i in range(4))
    elsewhere.mkdir()
    for room in ROOMS:  # a build leaves files where it is made
        shutil.copytree(ROOT / room, source / room, ignore=shutil.ignore_patterns("__pycache__"))
    for file in ("pyproject.toml", "README.md", "LICENSE"):
        shutil.copy(ROOT / file, source / file)
    build = ["wheel", "--no-deps", "--no-build-isolation", "-w", str(made), str(source)]
    subprocess.run([*pip, *build], check=True, timeout=300)
    (wheel,) = made.glob("*.whl")
    with ZipFile(wheel) as files:  # as pip unpacks it
        files.extractall(installed)
    done = subprocess.run(
        [sys.executable, "-P", "-c", CODE, str(installed)],
        cwd=elsewhere,
        env=os.environ | {"PYTHONPATH": str(installed)},
        capture_output=True,
        text=True,
        check=False,
        timeout=300,
    )
    assert done.returncode == 0, done.stderr
