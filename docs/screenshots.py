"""Pictures of the dashboard in Chromium.

    make screens                              the six of the pages, in docs/pages/screens
    python docs/screenshots.py runs FOLDER        every page, light and dark, wide and narrow

The runs are those of `lab demo`. A second argument names a folder for the pictures to look at; a
third one, such as heads,probing, names the pages.
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Literal, NamedTuple
from urllib.parse import urlencode

sys.path.insert(0, str(Path(__file__).parents[1] / "tests" / "dashboard"))

from chromium import launched, opened, serve
from playwright.sync_api import Browser

from analyses.console import progress_bar
from dashboard.pages import OWN

SCREENS = Path(__file__).parent / "pages" / "screens"
SIX: dict[str, tuple[str, dict[str, str]]] = {
    "story": ("", {"show": "the automaton"}),
    "try": ("try", {"run": "dieren-s0"}),
    "heads": ("heads", {"run": "dieren-s0"}),
    "beside": ("probing", {"run": "dieren-s0", "with": "anbn-s0"}),
    "explanations": ("explanations", {"run": "dieren-s0"}),
    "train": ("train", {"train_language": "a regular expression of mine"}),
}
"""A page and its link by the name of the picture."""
LOOKS: dict[str, tuple[int, Literal["light", "dark"]]] = {
    "light-wide": (1400, "light"),
    "light-narrow": (420, "light"),
    "dark-wide": (1400, "dark"),
    "dark-narrow": (420, "dark"),
}
TALLEST = 6000
FIRST = next(iter(OWN))
"""The page that the dashboard opens with: it has no address of its own."""


class Shot(NamedTuple):
    """A picture to be made: of a link, as a screen of this width and colour scheme shows it.

    Without a height it shows the page down to its end.
    """

    link: str
    file: Path
    width: int
    scheme: Literal["light", "dark"]
    height: int | None = None


def pictured(browser: Browser, address: str, shot: Shot) -> None:
    """Keeps what a reader sees."""
    context = browser.new_context(
        viewport={"width": shot.width, "height": shot.height or 900},
        color_scheme=shot.scheme,
        reduced_motion="reduce",
    )
    page = context.new_page()
    opened(page, f"{address}/{shot.link}")
    if shot.height is None:
        tall = page.evaluate("document.querySelector('[data-testid=stMain]').scrollHeight")
        page.set_viewport_size({"width": shot.width, "height": min(max(900, tall), TALLEST)})
    page.wait_for_timeout(1000)  # charts are drawn after the script has ended
    page.screenshot(path=shot.file)
    context.close()


def main(runs: Path, folder: Path | None, only: list[str]) -> None:
    """The pictures."""
    shots = [
        Shot(f"{page}?{urlencode(link)}", SCREENS / f"{name}.png", 1280, "light", 1200)
        for name, (page, link) in SIX.items()
    ]
    if folder is not None:
        shots = [
            Shot("" if page == FIRST else page, folder / f"{page.split('?')[0]}-{look}.png", *seen)
            for page in only or OWN
            for look, seen in LOOKS.items()
        ]
    (folder or SCREENS).mkdir(parents=True, exist_ok=True)
    with serve(runs) as address, launched() as browser, progress_bar("screenshots") as report:
        for number, shot in enumerate(shots):
            report(number, len(shots), shot.link)
            pictured(browser, address, shot)


if __name__ == "__main__":
    main(
        Path(sys.argv[1]),
        Path(sys.argv[2]) if len(sys.argv) > 2 else None,
        sys.argv[3].split(",") if len(sys.argv) > 3 else [],
    )
