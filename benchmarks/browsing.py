"""How long a page takes in Chromium: until something is seen, and from a click to the frame that shows its answer."""

from __future__ import annotations

import sys
import time
from collections.abc import Sequence
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent.parent / "tests" / "html"))

from browser import CHROMIUM, Browser

ROUNDS = 3  # each with a page that is read anew
PAUSE = 0.4  # seconds: nobody clicks faster

# In the page: the click, what it does, then the next frame and what that paints.
_FRAME = "requestAnimationFrame(() => setTimeout(() => done(performance.now() - start)))"
_TO_A_VIEW = f"""new Promise((done) => {{
  const start = performance.now();
  new MutationObserver((_, watch) => {{ watch.disconnect(); {_FRAME}; }})
    .observe(document.body, {{ attributeFilter: ["data-ready"] }});
  %s.click();
}})"""
_IN_PLACE = f"new Promise((done) => {{ const start = performance.now(); %s.click(); {_FRAME}; }})"
_PAINT = "performance.getEntriesByName('first-contentful-paint').map((entry) => entry.startTime)[0]"

_MENU = "[...document.querySelectorAll('.menu a')].map((a) => a.dataset.view)"
_ROW = "document.querySelector('#drawn tbody a')"
# What is clicked besides every view of the menu, each from where the one before led: its name, a view of the menu to
# begin at, what is clicked, and whether that leads to another view.
_CLICKS = (
    ("a graph", "graphs", _ROW, True),
    ("its next stage", "", "document.querySelectorAll('.tabs a')[1]", True),
    ("a stage after that", "", "document.querySelectorAll('.tabs a')[2]", True),
    ("a kernel", "kernels", _ROW, True),
    ("a line", "source", "document.querySelector('.row.has .src')", True),
    ("guards, sorted", "guards", "document.querySelectorAll('.data th button')[2]", False),
    ("guards, more rows", "", "document.querySelector('button.more')", False),
    ("kernels, sorted", "kernels", "document.querySelector('.data th button')", False),
)


def browsed(path: Path) -> tuple[float, dict[str, float]] | None:
    """Milliseconds until the first paint, and of each click, the least of some; None without a Chromium."""
    if CHROMIUM is None:
        return None
    browser = Browser()
    try:
        rounds = [_round(browser, path.absolute().as_uri()) for _ in range(ROUNDS)]
    finally:
        browser.close()
    clicks = {name: min(told[name] for _, told in rounds) for name in rounds[0][1]}
    return min(paint for paint, _ in rounds), clicks


def _round(browser: Browser, address: str) -> tuple[float, dict[str, float]]:
    browser.ask("Page.navigate", url="about:blank")
    browser.open(address)
    browser.wait(_PAINT)
    paint = float(browser.run(_PAINT))
    views: Sequence[str] = browser.run(_MENU)
    told = {view: _clicked(browser, _TO_A_VIEW, _item(view)) for view in (*views[1:], views[0])}
    for name, start, found, leads in _CLICKS:
        if start in views:
            _clicked(browser, _TO_A_VIEW, _item(start))
        if (not start or start in views) and browser.run(f"!!{found}"):
            told[name] = _clicked(browser, _TO_A_VIEW if leads else _IN_PLACE, found)
    return paint, told


def _clicked(browser: Browser, script: str, found: str) -> float:
    time.sleep(PAUSE)
    return float(browser.run(script % found))


def _item(view: str) -> str:
    return f"document.querySelector('.menu a[data-view={view}]')"
