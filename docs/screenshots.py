"""Renew the screenshots in docs/images: `python docs/screenshots.py [REC]`, with Chromium on the PATH.

REC is, unless told otherwise, a small decoder's training on an H200: measured, it breaks, and it compiles again.
"""

import sys
import tempfile
from pathlib import Path

from compiler_lens import load
from compiler_lens.render.html import report_page

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT / "tests" / "html"))
from browser import Browser  # noqa: E402 -- the tests' own way to a Chromium

REC = ROOT / "tests" / "gpu" / "data" / "decoder-default-profiled.clens.gz"
SHOTS = (
    ("page_overview", "#/overview"),
    ("page_graph", "#/graphs/1_0"),
    ("page_kernel", "#/kernel/1_0/triton_poi_fused_gelu_gelu_backward_view_4"),
)


def main() -> None:
    recording = load(sys.argv[1] if len(sys.argv) > 1 else REC)
    browser = Browser(width=1180, height=1000)
    try:
        with tempfile.TemporaryDirectory() as folder:
            page = Path(folder) / "decoder.html"
            page.write_text(report_page(recording), encoding="utf-8")
            browser.open(page.as_uri())
            browser.ask("Emulation.setScrollbarsHidden", hidden=True)
            for name, view in SHOTS:
                if view != "#/overview":
                    browser.go(view)
                browser.picture(ROOT / "docs" / "images" / f"{name}.png")
    finally:
        browser.close()


if __name__ == "__main__":
    main()
