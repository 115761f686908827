"""The command line `lab`."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pkgutil import resolve_name

from analyses.console import OUT, exit_status
from analyses.options.shipped import shipped
from analyses.registry import registered
from models.errors import UserError

USAGE = """[bold]lab[/bold]: small Transformers on languages whose truth is known, seen from inside.

  lab languages                        what can be trained
  lab train anbn                       train on a language; options: lab train --help
  lab train anbn --recipe counting     the same with heads that count built in
  lab train --corpus lines.tsv         your own lines: label <tab> words
  lab resume RUN                       go on with an interrupted run
  lab evaluate RUN                     a curve by length
  lab predict RUN "a a b b"            what may follow each symbol; in or out
  lab analyse RUN \\[NAME]              {names}, or all
  lab discover lines.tsv               from labelled lines to the rule behind them
  lab recover STUDY                    how much of a planted rule comes back?
  lab seeds PATH NAME                  all seeds of a run, or of a sweep: means with 95% intervals
  lab sweep FILE                       {sweeps}: many runs here or on a cluster
  lab leaderboard                      which explanation method tells the truth? several seeds
  lab hooks RUN                        every hook of a run's model, with its shape
  lab kernels                          kernel attention (Nadaraya-Watson) in one picture
  lab dashboard \\[RUNS]                browse it all
  lab demo                             everything above, on four languages

Each command takes --help."""

COMMANDS = {
    "languages": "one_run:languages",
    "train": "one_run:train",
    "resume": "one_run:resume",
    "evaluate": "one_run:evaluate",
    "predict": "one_run:predict",
    "analyse": "one_run:analyse",
    "discover": "lines:discover",
    "recover": "lines:recover",
    "seeds": "many_runs:seeds",
    "sweep": "many_runs:sweep",
    "leaderboard": "many_runs:leaderboard",
    "hooks": "one_run:hooks",
    "kernels": "show:kernels",
    "dashboard": "show:dashboard",
    "demo": "demo:demo",
}
"""Where the work of each lies. It is imported once its options are read."""


def main(argv: Sequence[str] | None = None) -> int:
    """Runs one command; a user's mistake is one line on stderr and exit status 2."""
    args = list(sys.argv[1:] if argv is None else argv)
    if not args or args[0] in ("-h", "--help"):
        OUT.print(USAGE.format(names=", ".join(registered()), sweeps=", ".join(shipped())))
        return 0

    def command() -> None:
        name, *rest = args
        if name not in COMMANDS:
            raise UserError(f"unknown command {name!r}: use one of {', '.join(COMMANDS)}")
        from analyses.command_line.arguments import read  # languages and recipes: not for a list

        options = read(name, rest)
        resolve_name(f"analyses.command_line.{COMMANDS[name]}")(options)

    return exit_status(command)
