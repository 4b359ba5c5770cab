"""Makes `browser` and `pages` importable, and starts the one browser of all tests."""

import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

sys.path.insert(0, str(Path(__file__).parent))

from browser import CHROMIUM, Browser


def pytest_runtest_setup(item: pytest.Item) -> None:
    if CHROMIUM is None and item.get_closest_marker("browser"):
        pytest.skip("no Chromium on the PATH")


@pytest.fixture(scope="session")
def chromium() -> Iterator[Browser]:
    browser = Browser()
    yield browser
    browser.close()


@pytest.fixture
def open_page(chromium: Browser, addresses: dict[str, str]) -> Iterator[Any]:
    """Opens a page of the module's `addresses`, and sees to it that nothing was asked for and nothing went wrong."""
    chromium.requests.clear()
    chromium.errors.clear()

    def opened(name: str, at: str = "") -> Browser:
        chromium.ask("Page.navigate", url="about:blank")
        chromium.open(addresses[name] + at)
        return chromium

    yield opened
    assert not chromium.errors
    asked = {url.partition("#")[0] for url in chromium.requests if url != "about:blank"}
    assert asked <= set(addresses.values())
