"""Clicks that a reader needs, from the first page to what was asked for, in Chromium."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from chromium import IDLE, clicks, counts, opened, serve
from conftest import TINY, made_once, tiny_config
from playwright.sync_api import BrowserContext, Locator, Page, expect

from models.runs.run import Run
from models.training.loop import train

pytestmark = [pytest.mark.browser, pytest.mark.slow]
WORDS = ("appel", "kaas", "melk", "thee")
GRAMMAR = "S -> 'a' S 'b' [0.7] | 'a' 'b' [0.3]"


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Five seeds of one layer, and five of two, which all know their language: nothing is said of
    the inside of others."""
    easy = tiny_config(language="last", steps=60, learning_rate=1e-2, evaluate_every=60)

    def make(folder: Path) -> None:
        for layers in (1, 2):
            for seed in range(5):
                model = replace(TINY, n_layers=layers)
                config = replace(easy, seed=seed, model=model)
                train(Run.create(folder / f"layers-{layers}-s{seed}", config), "cpu")

    return made_once(tmp_path_factory, "clicks", make)


@pytest.fixture(scope="module")
def address(folder: Path) -> Iterator[str]:
    with serve(folder) as address:
        yield address


@pytest.fixture
def page(context: BrowserContext) -> Iterator[Page]:
    page = context.new_page()
    page.set_viewport_size({"width": 1400, "height": 900})
    counts(page)
    yield page
    page.close()


def choose(page: Page, label: str, option: str) -> None:
    """Two clicks: the list, and what is left of it when something was typed."""
    page.get_by_role("combobox", name=label).click()
    page.keyboard.type(option)
    page.get_by_role("option", name=option, exact=True).click()


def goes_to(page: Page, name: str) -> None:
    page.locator("[data-testid=stSidebar]").get_by_role("link", name=name, exact=True).click()
    expect(page.get_by_role("heading", name=name, exact=True)).to_be_visible()


def saved(page: Page, button: Locator) -> Path:
    with page.expect_download() as download:
        button.click()
    return download.value.path()


def test_a_grammar_of_ones_own_is_trained_broken_and_taken_along(page: Page, address: str) -> None:
    opened(page, f"{address}/")
    goes_to(page, "Train")
    choose(page, "Language", "a grammar of mine")
    for label, typed in (("Its name", "mine"), ("Productions", GRAMMAR)):
        box = page.get_by_role("textbox", name=label)
        box.fill(typed)
        box.press("Control+Enter")
    expect(page.get_by_test_id("stCode").filter(has_text="[0.7]")).to_be_visible()
    page.wait_for_selector(IDLE)  # what is typed while the page is drawn again is lost
    steps = page.get_by_role("spinbutton", name="Steps", exact=True)
    steps.fill("20")
    steps.press("Enter")
    expect(page.get_by_text("--steps 20")).to_be_visible()
    page.get_by_role("button", name="Train", exact=True).click()
    main = page.locator("[data-testid=stMain]")
    main.get_by_role("link", name="Break it", exact=True).click()
    page.get_by_role("button", name="L0H1", exact=True).click()
    page.get_by_role("tab", name="Numbers, files, code").click()
    table = saved(page, page.get_by_role("button", name="Table (CSV)"))
    picture = saved(page, page.get_by_role("button", name="Picture (SVG)"))
    assert "mine" in str(pd.read_csv(table)["origin"].iloc[0])
    assert "<metadata>run: mine-s0" in picture.read_text("utf-8")
    assert clicks(page) <= 10


def test_2000_lines_of_ones_own_lead_to_the_rule_and_inside_what_learned_it(
    page: Page, address: str, tmp_path: Path
) -> None:
    rng, file = np.random.default_rng(0), tmp_path / "table.tsv"
    drawn = [rng.choice(WORDS, rng.integers(1, 5)) for _ in range(2000)]
    drawn[0] = np.array(WORDS)  # the label of the first line is the one that is described
    rows = [f"{'yes' if 'melk' in line else 'no'}\t{' '.join(line)}" for line in drawn]
    file.write_text("\n".join(rows), encoding="utf-8")
    opened(page, f"{address}/")
    goes_to(page, "From lines to a rule")
    with page.expect_file_chooser() as chooser:
        page.get_by_test_id("stFileUploaderDropzone").click()
    chooser.value.set_files(file)
    page.get_by_role("button", name="Discover the rule").click()
    expect(page.get_by_role("heading", name="A line is yes if it contains melk.")).to_be_visible()
    page.get_by_role("link", name="Look inside table-s0").click()
    expect(page.get_by_role("heading", name="Heads", exact=True)).to_be_visible()
    assert clicks(page) <= 7


def test_two_kinds_of_networks_are_compared_over_five_seeds(page: Page, address: str) -> None:
    opened(page, f"{address}/")
    goes_to(page, "Patching")
    choose(page, "Network", "layers-1-s0")
    choose(page, "Compare with", "layers-2-s0")
    page.get_by_role("button", name="Ask all networks of both kinds alike").click()
    expect(page.get_by_text("Means over 5 and 5 networks and their differences")).to_be_visible()
    drawn = page.get_by_label("layers-1-s0 less layers-2-s0, with 95% intervals.")
    expect(drawn.first).to_be_visible()
    assert clicks(page) <= 6
