"""The Tab key: what is offered, and that bash asks for it."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import get_args

import pytest

from analyses.command_line.app import COMMANDS, main
from analyses.command_line.completion import SCRIPTS, candidates
from analyses.options.shipped import shipped
from analyses.registry import registered
from models.config import Tuned
from models.languages import LANGUAGES


@pytest.mark.parametrize(
    ("words", "offered"),
    [
        ([""], [*COMMANDS, "--help", "--version"]),
        (["tr"], ["train"]),
        (["train", "anbnc"], ["anbncn", "anbncndn"]),
        (["train", ""], list(LANGUAGES)),
        (["finetune", "runs/anbn-s0", "anbnc"], ["anbncn", "anbncndn"]),
        (["finetune", "runs/anbn-s0", "--tuned", ""], [*get_args(Tuned)]),
        (["train", "anbn", "--dev"], ["--device"]),
        (["train", "anbn", "--device", ""], ["auto", "cpu", "cuda"]),
        (["train", "anbn", "--recipe", ""], ["plain", "counting"]),
        (
            ["train", "anbn", "--model.no"],
            [
                "--model.no-bias",
                "--model.no-even-start",
                "--model.no-parallel",
                "--model.no-residual",
                "--model.norm",
                "--model.norm-placement",
            ],
        ),
        (["analyse", ""], []),  # a path: the shell offers files
        (["analyse", "runs/x", ""], [*registered(), "all"]),
        (["analyse", "runs/x", "pat"], ["patching"]),
        (["analyse", "runs/x", "patching", "--dir"], ["--direction"]),
        (["analyse", "runs/x", "patching", "--direction", ""], ["restore", "break"]),
        (["analyse", "runs/x", "patching", "--ag"], ["--again"]),
        (["show", "runs/x", "pro"], ["probing"]),
        (["show", "s"], ["size"]),
        (["show", "size", "--tok"], ["--tokens"]),
        (["show", "runs/x", "sc"], ["scaling"]),
        (["show", "runs/x", "scaling", "--by", ""], ["parameters", "words", "compute"]),
        (["seeds", "runs", "a"], ["ablation", "accuracy", "alignment", "all"]),
        (["sweep", ""], [*shipped(), "leaderboard", "few-labels"]),
        (["sweep", "few-labels", "--parent"], ["--parent-steps"]),
        (["analyse", "runs/x", "in-context", "--co"], ["--count"]),
        (["recover", "r"], ["rules"]),
        (["rule", "lines.tsv", "--mo"], ["--model"]),
        (["rule", "--model", "network", "--sy"], ["--symbols"]),
        (["completion", "z"], ["zsh"]),
        (["nonsense", ""], []),
    ],
)
def test_what_is_offered(words: list[str], offered: list[str]) -> None:
    assert sorted(candidates(words, COMMANDS)) == sorted(offered)


@pytest.mark.parametrize("shell", SCRIPTS)
def test_each_shell_asks_lab(shell: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["completion", shell]) == 0
    assert "lab --complete" in capsys.readouterr().out


@pytest.mark.slow
def test_bash_completes(tmp_path: Path) -> None:
    lab = tmp_path / "lab"
    lab.write_text(f'#!/bin/sh\nexec {sys.executable} -m analyses.command_line "$@"\n')
    lab.chmod(0o755)
    script = f"""PATH={tmp_path}:$PATH
source <(lab completion bash)
COMP_WORDS=(lab analyse runs/x pat) COMP_CWORD=3
_lab
echo "${{COMPREPLY[@]}}"
complete -p lab"""
    done = subprocess.run(["bash", "-c", script], capture_output=True, text=True, check=True)
    assert done.stdout == "patching\ncomplete -o default -F _lab lab\n"
