"""Whatever is asked of a run is a question of the registry, and is reached through it alone."""

from __future__ import annotations

from functools import partial

import pytest

from analyses.answers import question
from analyses.command_line.app import COMMANDS, GONE, MOVED, main
from analyses.command_line.arguments import SHOWN, SHOWN_OF, STUDIES, TAKES
from analyses.command_line.completion import candidates
from analyses.needs import NEEDS
from analyses.registry import BUILT_IN, options_of, usual
from dashboard.pages import OWN, pages
from dashboard.pages import SHOWN as SHOWN_AT
from dashboard.views import question as common

MOST_COMMANDS = 20
OF_QUESTIONS = {"train", "finetune", "analyse"}
"""Commands whose options are read in steps."""


def test_the_first_screen_is_short() -> None:
    assert len(COMMANDS) <= MOST_COMMANDS
    assert set(COMMANDS) == set(TAKES) | OF_QUESTIONS


@pytest.mark.parametrize("name", [*BUILT_IN, *MOVED])
def test_a_name_that_is_no_command_says_where_it_went(
    name: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert name not in COMMANDS
    assert main([name, "--help"]) == 2
    said = capsys.readouterr().err
    assert said.startswith(f"lab: {name} is no command of its own any more: write `lab ")
    assert said.count("\n") == 1


def test_what_is_gone_says_what_is_there_instead(capsys: pytest.CaptureFixture[str]) -> None:
    for name, instead in GONE.items():
        assert main([name]) == 2
        assert capsys.readouterr().err == f"lab: {name} is no command any more: {instead}\n"


@pytest.mark.parametrize("name", BUILT_IN)
def test_every_question_has_every_part(name: str) -> None:
    about = question(name)
    assert about.name == name
    assert about.asks == BUILT_IN[name].asks
    assert about.options is options_of(name)
    assert set(about.needs) <= set(NEEDS)
    assert about.planned or not about.outcomes
    if name not in usual():
        assert about.how_to_read


def test_each_is_offered_everywhere_once(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        main(["analyse", "--help"])
    said = capsys.readouterr().out.splitlines()
    for name, about in BUILT_IN.items():
        assert sum(line.split(maxsplit=1)[:1] == [name] for line in said) == 1, name
        assert any(about.asks in line for line in said), name
    assert candidates(["analyse", "RUN", ""], COMMANDS)[:-1] == list(BUILT_IN)
    for name in STUDIES:
        assert name in candidates(["sweep", ""], COMMANDS)
    assert {*SHOWN} <= {*candidates(["show", ""], COMMANDS)}
    assert {*SHOWN_OF} <= {*candidates(["show", "RUN", ""], COMMANDS)}


def test_each_is_on_one_page() -> None:
    at = [name for name in OWN if name in BUILT_IN]
    at += [name for names in SHOWN_AT.values() for name in names]
    show = pages()["questions"].show
    assert isinstance(show, partial)
    assert show.func is common.show_some
    (rest,) = show.args
    assert sorted([*at, *rest]) == sorted(BUILT_IN)


def test_every_need_is_somebodys() -> None:
    asked = {need for name in BUILT_IN for need in question(name).needs}
    assert asked == set(NEEDS)
