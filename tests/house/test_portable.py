"""The rooms open on Windows and macOS too: nothing in them asks for what POSIX alone has."""

from __future__ import annotations

import ast
import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
ROOMS = ("models", "interp", "analyses", "dashboard")
MODULES = {"fcntl", "resource", "termios", "pty", "pwd", "grp", "syslog", "posix"}
LINUX_OR_POSIX = {
    *("sched_getaffinity", "sched_setaffinity", "fork", "forkpty", "setsid", "killpg", "getpgid"),
    *("getuid", "geteuid", "getgid", "getegid", "chown", "lchown", "mkfifo", "mknod", "nice"),
    *("uname", "statvfs", "getloadavg", "wait", "sync", "sendfile", "O_DIRECTORY", "O_NOFOLLOW"),
    *("SIGKILL", "SIGHUP", "SIGXFSZ", "SIGALRM", "alarm", "setitimer", "SIGUSR1", "SIGCHLD"),
}
"""Of ``os`` and ``signal``."""

IMPORT_ALL = """
import sys
import distributed  # before: below it each system has a file of its own, and Linux's needs both
sys.modules.update(dict.fromkeys(sys.argv[1].split(","), None))
from importlib import import_module
from pathlib import Path

for room in sys.argv[2:]:
    for file in sorted(Path(room).rglob("*.py")):
        if file.name != "__main__.py":
            import_module(".".join(file.with_suffix("").parts).removesuffix(".__init__"))
            print(file)
"""


def posix_only(source: str) -> set[str]:
    """The modules and attributes in a file's text that Windows or macOS lacks."""
    found = set()
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Import):
            found |= {alias.name.split(".")[0] for alias in node.names} & MODULES
        elif isinstance(node, ast.ImportFrom):
            found |= {node.module or ""} & MODULES
            if node.module in ("os", "signal"):
                found |= {alias.name for alias in node.names} & LINUX_OR_POSIX
        elif isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name):
            found |= {node.attr} & LINUX_OR_POSIX if node.value.id in ("os", "signal") else set()
    return found


@pytest.mark.parametrize("room", ROOMS)
def test_nothing_is_asked_of_one_system_alone(room: str) -> None:
    files = sorted((ROOT / room).rglob("*.py"))
    assert files
    found = {str(file): posix_only(file.read_text(encoding="utf-8")) for file in files}
    assert {file: names for file, names in found.items() if names} == {}


def test_what_one_system_alone_has_is_found() -> None:
    source = "import fcntl, os\ndef f():\n    from signal import SIGKILL\n    return os.fork()"
    assert posix_only(source) == {"fcntl", "SIGKILL", "fork"}
    assert posix_only("import os\nos.replace('a', 'b')") == set()


@pytest.mark.slow
def test_all_modules_are_imported_without_posix() -> None:
    """In a process of its own, which has no ``fcntl`` and no ``resource``."""
    command = [sys.executable, "-c", IMPORT_ALL, "fcntl,resource", *ROOMS]
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    done = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert len(done.stdout.splitlines()) > 100
