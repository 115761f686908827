"""A reader goes all the way: the tour, a training, two runs, a broken head, the report, a link.

Once as on a desk in the light, and once as on a telephone in the dark. Wherever the reader comes,
axe-core finds nothing serious, nothing leaves the machine, and nothing is missing.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import pytest
from axe_playwright_python.sync_playwright import Axe
from chromium import leaves, opened
from playwright.sync_api import Browser, Page, expect

from dashboard.tours import TOURS
from models.runs.run import Run

pytestmark = [pytest.mark.browser, pytest.mark.slow]
SERIOUS = {"serious", "critical"}
HERE = "[data-testid=stMain]"
LINE = TOURS["linguist"].stops[2].shown["word_dieren"]


DESK, TELEPHONE = ("light", 1400), ("dark", 420)


@pytest.fixture
def page(request: pytest.FixtureRequest, browser: Browser, address: str) -> Iterator[Page]:
    scheme, width = request.param
    outside, crashed, missing = list[str](), list[str](), list[str]()
    context = browser.new_context(
        color_scheme=scheme,
        viewport={"width": width, "height": 900},
        reduced_motion="reduce",
        accept_downloads=True,
    )
    page = context.new_page()
    page.on("request", lambda r: outside.append(r.url) if leaves(r.url, address) else None)
    page.on("pageerror", lambda error: crashed.append(str(error)))
    page.on("response", lambda r: missing.append(r.url) if r.status >= 400 else None)
    yield page
    context.close()
    assert (outside, crashed, missing) == ([], [], [])


def settled(page: Page) -> None:
    """Waits until all is drawn, and has axe-core look at it."""
    expect(page.locator("[data-testid=stApp][data-test-script-state=notRunning]")).to_be_visible()
    expect(page.locator("[data-testid=stSpinner], [data-stale=true]")).to_have_count(0)
    assert page.locator("[data-testid=stException]").count() == 0
    # The list of pages is Streamlit's own.
    found = Axe().run(page, {"exclude": [["[data-testid=stSidebar]"]]}).response["violations"]
    assert [
        (each["id"], node["html"], node["failureSummary"])
        for each in found
        if each["impact"] in SERIOUS
        for node in each["nodes"]
    ] == []


@pytest.mark.parametrize(
    "page",
    [
        pytest.param(DESK, id="desk", marks=pytest.mark.torture),
        pytest.param(TELEPHONE, id="telephone"),
    ],
    indirect=True,
)
def test_the_tour_from_first_to_last(page: Page, address: str) -> None:
    stops = TOURS["linguist"].stops
    lecture = "?lecture=true" if wide(page) else ""
    opened(page, f"{address}/tour{lecture}")
    page.locator(HERE).get_by_role("link", name=stops[0].title).click()
    for number, stop in enumerate(stops, 1):
        expect(page.get_by_text(f"stop {number} of {len(stops)}")).to_be_visible()
        expect(page.locator(HERE).get_by_text(stop.title, exact=True)).to_be_visible()
        if "word_dieren" in stop.shown:
            expect(page.get_by_role("textbox", name="Line").first).to_have_value(LINE)
        if stop.page == "try":  # the reader is to find the rule
            truth = page.get_by_text("The rule: a word is in the language if it")
            expect(truth).to_be_hidden()
            page.get_by_role("tab", name="The truth: the rule, and what decides").click()
            expect(truth).to_be_visible()
        if number == 1:  # nor is it named before the reader has guessed
            expect(page.get_by_text("Open it when you have guessed")).to_be_visible()
            expect(page.get_by_text("contains leeuw").first).to_be_hidden()
        if "show" in stop.shown:
            chosen = page.get_by_role("radio", name=stop.shown["show"], exact=True)
            expect(chosen).to_have_attribute("aria-checked", "true")
        settled(page)
        background = page.evaluate(
            "getComputedStyle(document.querySelector('[data-testid=stApp]')).backgroundColor"
        )
        light = sum(int(part) for part in background[4:-1].split(",")[:3]) > 3 * 128
        assert light == wide(page)  # at a desk
        if number < len(stops) and wide(page):  # as in a lecture: by the arrow key
            page.locator(HERE).press("ArrowRight")
        elif number < len(stops):
            page.get_by_role("link", name=f"Next: {stops[number].title}").click()
    if wide(page):
        sidebar = page.locator("[data-testid=stSidebar]")
        expect(sidebar).to_be_hidden()
        page.get_by_role("button", name="End the lecture").click()
        expect(sidebar).to_be_visible()
    # The first page has no address of its own: a copied link to a stop there names another page.
    opened(page, f"{address}/tour?tour=linguist&stop=2")
    expect(page.get_by_role("heading", name="Structure Lab")).to_be_visible()
    chosen = page.get_by_role("radio", name="the network", exact=True)
    expect(chosen).to_have_attribute("aria-checked", "true")


def wide(page: Page) -> bool:
    assert page.viewport_size is not None
    return page.viewport_size["width"] > 1000


def trained(page: Page, address: str, folder: Path) -> str:
    """Trains a run from the page, stops it, and goes on with it: its name.

    The training is long enough to be stopped on a machine that has nothing else to do.
    """
    seed, name = 7, "anbn-s7"
    opened(page, f"{address}/train")
    for label, number in (("Seed", seed), ("Steps", 500)):
        box = page.get_by_role("spinbutton", name=label, exact=True)
        box.fill(str(number))
        box.press("Enter")
        expect(page.get_by_text(f"--{label.lower()} {number}")).to_be_visible()
    train = page.get_by_role("button", name="Train", exact=True)
    train.click()
    expect(page.get_by_text("s left")).to_be_visible()
    page.get_by_role("button", name="Stop", exact=True).click()
    expect(page.get_by_text("interrupted at")).to_be_visible()
    step = Run(folder / name).metrics()[-1]["step"]
    assert step < Run(folder / name).config.steps
    settled(page)
    page.get_by_role("button", name="Go on", exact=True).click()
    expect(page.get_by_text(f"{name} is trained.")).to_be_visible()
    assert Run(folder / name).record["status"] == "finished"
    assert Run(folder / name).record["steps"] > step
    page.get_by_role("link", name=f"See {name}").click()
    expect(page.get_by_role("heading", name=name)).to_be_visible()
    return name


@pytest.mark.parametrize(
    "page",
    [
        pytest.param(DESK, id="desk", marks=pytest.mark.torture),
        pytest.param(TELEPHONE, id="telephone"),
    ],
    indirect=True,
)
def test_from_a_training_to_a_link(page: Page, shown: tuple[Path, str]) -> None:
    """On the telephone with a run that is there already: ``test_clicks`` trains one at a desk."""
    folder, address = shown
    name = trained(page, address, folder) if wide(page) else "dieren-s0"
    language, word = ("anbn", "a a b b") if wide(page) else ("dieren", LINE)

    opened(page, f"{address}/try?run={name}&with={name}&other_step_of_{name}=0")
    box = page.get_by_role("textbox", name="Line")
    box.fill(word)
    box.press("Enter")
    page.wait_for_url(f"**word_{language}=**")
    expect(page.get_by_text(f"{name}, step 0", exact=True)).to_be_visible()
    expect(page.get_by_text(re.compile(f"{name}, step \\d+ says:"))).to_have_count(2)
    settled(page)

    opened(page, f"{address}/break?run={name}")
    page.get_by_role("button", name="L0H1", exact=True).click()
    expect(page.locator(HERE).get_by_text("Without L0H1, ").first).to_be_visible()
    settled(page)
    said = page.locator(HERE).get_by_text("Without L0H1, ").first.inner_text()
    link = page.url
    assert "off_of_2x4=L0H1" in link

    opened(page, f"{address}/runs?run={name}&part_of_accuracy=Report+and+removal")
    with page.expect_download() as download:
        page.get_by_role("button", name="Report of this run").click()
    report = download.value.path().read_text(encoding="utf-8")
    assert f"<h1>{name}</h1>" in report

    assert page.context.browser is not None
    other = page.context.browser.new_page()  # a browser that knows nothing of this one
    opened(other, link)
    expect(other.locator(HERE).get_by_text("Without L0H1, ").first).to_have_text(said)
    other.close()
