"""The dashboard in a real browser: every page opens, and nothing leaves the machine."""

from __future__ import annotations

import re
from collections.abc import Iterator

import pytest
from chromium import IDLE, PATIENCE, assert_short, leaves, opened
from playwright.sync_api import Browser, BrowserContext, Page, TimeoutError, expect

pytestmark = pytest.mark.browser
PAGES = ("runs", "try", "model", "probing", "interventions", "heads", "patching", "circuits")
PAGES += ("explanations", "leaderboard", "discovery", "discover", "emergence", "generate")


@pytest.fixture
def page(context: BrowserContext) -> Iterator[Page]:
    page = context.new_page()
    yield page
    page.close()


def choose(page: Page, box: str, option: str) -> None:
    """Chooses from a list. Scrolling, or a page drawn again, closes it: then it is opened again."""
    for _ in range(PATIENCE // 2_000):
        page.wait_for_selector(IDLE)
        page.get_by_role("combobox", name=box).click()
        try:
            page.get_by_role("option", name=option).click(timeout=2_000)
        except TimeoutError:
            continue
        return
    raise AssertionError(f"{box} offers no {option}")


def test_every_page_opens(page: Page, address: str) -> None:
    """In the light, and short, on a telephone too; test_all_the_way goes over most of them in the
    dark."""
    page.set_viewport_size({"width": 1400, "height": 900})
    outside, crashed = [], []
    page.on("request", lambda r: outside.append(r.url) if leaves(r.url, address) else None)
    page.on("pageerror", lambda error: crashed.append(str(error)))
    for name in PAGES:
        run = "anbn-counting-s0" if name == "generate" else "dieren-s0"
        opened(page, f"{address}/{name}?run={run}")
        expect(page.locator("h1").first).to_be_visible()
        assert page.locator("[data-testid=stException]").count() == 0, name
        assert page.locator("[data-testid=stAlertContentError]").count() == 0, name
        expect(page.locator("[data-testid=stVegaLiteChart]").first).to_be_visible()
        drawn = page.locator("[data-testid=stVegaLiteChart] :is(canvas, svg)")
        expect(drawn.first).to_be_visible()
        assert_short(page)
    page.set_viewport_size({"width": 420, "height": 900})
    for name in ("try", "explanations", "patching", "interventions", "generate"):  # the longest
        run = "anbn-counting-s0" if name == "generate" else "dieren-s0"
        opened(page, f"{address}/{name}?run={run}")
        expect(page.locator("[data-testid=stVegaLiteChart] svg").first).to_be_visible()
        assert_short(page)
    opened(page, address)
    expect(page.get_by_text("muis muis leeuw leeuw leeuw aap kanarie")).to_be_visible()
    assert_short(page)
    assert outside == []
    assert crashed == []


def test_which_head_looks_at_a_word_takes_two_clicks(page: Page, address: str) -> None:
    """And whether that matters: beside it stands what hangs on the look."""
    opened(page, address)
    sidebar = page.locator("[data-testid=stSidebar]")
    sidebar.get_by_role("link", name="This line", exact=True).click()
    expect(page.get_by_text("Most hangs on the look of")).to_be_visible()
    page.wait_for_selector(IDLE)  # a click on what is drawn again is lost
    page.get_by_role("radio", name="4 leeuw", exact=True).click()
    told = page.get_by_text("While it reads 4 leeuw, the head that looks most at a symbol")
    expect(told).to_contain_text(re.compile(r"\d olifant L\dH\d \(\d+%, [+-]\d+\.\d\d\)"))
    expect(page.locator("[data-testid=stVegaLiteChart]").nth(3)).to_be_visible()


def test_only_what_a_run_can_be_asked_is_in_the_list(page: Page, address: str) -> None:
    """A link to what it cannot be asked says why."""
    sidebar = page.locator("[data-testid=stSidebar]")
    for run, there, gone in (
        ("dieren-s0", "Heads", "Generate"),
        ("an-s0", "Generate", "Syntax"),
    ):
        opened(page, f"{address}/runs?run={run}")
        expect(sidebar.get_by_role("link", name=there, exact=True)).to_be_visible()
        expect(sidebar.get_by_role("link", name=gone, exact=True)).to_have_count(0)
    opened(page, f"{address}/generate?run=dieren-s0")
    expect(page.get_by_text("was taught verdicts alone, and knows no next symbol")).to_be_visible()


def test_a_typed_word_is_judged_and_linked(page: Page, browser: Browser, address: str) -> None:
    opened(page, f"{address}/try?run=anbn-counting-s0")
    box = page.get_by_role("textbox", name="Line")
    box.fill("a a b b b")
    box.press("Enter")
    expect(page.get_by_text("not in the language")).to_be_visible()
    assert "word_anbn=a" in page.url
    assert page.get_by_text("does not know its language").count() == 0
    other = browser.new_page()
    opened(other, page.url)  # the link brings the word along
    expect(other.get_by_text("not in the language")).to_be_visible()
    other.close()


def test_an_unknown_symbol_is_one_readable_line(page: Page, address: str) -> None:
    opened(page, f"{address}/try?run=anbn-counting-s0")
    box = page.get_by_role("textbox", name="Line")
    box.fill("a x b")
    box.press("Enter")
    expect(page.get_by_text("unknown symbol 'x': use only a b")).to_be_visible()
    assert page.locator("[data-testid=stException]").count() == 0


def test_another_run_has_its_own_word(page: Page, address: str) -> None:
    opened(page, f"{address}/try?run=anbn-counting-s0&word_anbn=a+a+b+b+b")
    expect(page.get_by_text("not in the language")).to_be_visible()
    choose(page, "Network", "dieren-s0")
    box = page.get_by_role("textbox", name="Line")
    expect(box).to_have_value(re.compile("leeuw olifant"))
    assert page.locator("[data-testid=stAlertContentError]").count() == 0


def test_patching_of_a_typed_word(page: Page, address: str) -> None:
    opened(page, f"{address}/patching?run=dieren-s0")
    box = page.get_by_role("textbox", name="Line")
    box.fill("aap leeuw olifant leeuw")
    box.press("Enter")
    carried = page.get_by_text("of the difference between this word and others").first
    expect(carried).to_be_visible()
    expect(page.get_by_text("In colour: the positions at which")).to_be_visible()


def test_a_click_chooses_a_head(page: Page, address: str) -> None:
    """Each cell is 62 by 40 pixels; the second click meets a number, the third a chosen head. The
    head that costs most is not in the link: the page opens with it."""
    opened(page, f"{address}/heads?run=anbn-counting-s0")
    for layer, head in ((1, 2), (0, 0), (0, 0)):
        cells = page.locator("[data-testid=stVegaLiteChart]").first
        cells.scroll_into_view_if_needed()
        box = cells.bounding_box()
        assert box is not None
        page.mouse.click(box["x"] + 59 + 62 * head, box["y"] + 95 + 40 * layer)
        expect(page.get_by_role("heading", name=f"L{layer}H{head} on this line")).to_be_visible()
        assert f"head_of_2x4=L{layer}H{head}" in page.url
