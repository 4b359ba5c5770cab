"""Renew the screenshots in docs/images, from recordings of an H200: `python docs/screenshots.py`, with Chromium."""

import sys
import tempfile
from pathlib import Path

from compiler_lens import diff, load
from compiler_lens.render.page.page import report_page

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT / "tests" / "html"))
from browser import Browser  # noqa: E402 -- the tests' own way to a Chromium

DATA = ROOT / "tests" / "gpu" / "data"
# Pages, and the views of each that are shown.
DECODER = {
    "page_overview": "#/overview",
    "page_graph": "#/graphs/1_0",
    "page_kernel": "#/kernel/1_0/triton_poi_fused_gelu_gelu_backward_view_4",
}
MODES = {"page_diff": "#/overview"}


def main() -> None:
    browser = Browser(width=1180, height=1000)
    browser.ask("Emulation.setScrollbarsHidden", hidden=True)
    try:
        with tempfile.TemporaryDirectory() as folder:
            page, other = Path(folder) / "decoder.html", Path(folder) / "modes.html"
            page.write_text(report_page(load(DATA / "decoder-default-profiled.clens.gz")), encoding="utf-8")
            modes = (DATA / f"gpt-{mode}-profiled.clens.gz" for mode in ("default", "max-autotune"))
            diff(*modes).html(other)
            for address, views in ((page, DECODER), (other, MODES)):
                browser.open(address.as_uri())
                for name, view in views.items():
                    if view != "#/overview":
                        browser.go(view)
                    browser.picture(ROOT / "docs" / "images" / f"{name}.png")
    finally:
        browser.close()


if __name__ == "__main__":
    main()
