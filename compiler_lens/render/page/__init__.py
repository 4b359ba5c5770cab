"""The page: a whole recording as one HTML file that needs nothing else."""

from __future__ import annotations

from compiler_lens.render.page.page import report_page, write_page

__all__ = ["report_page", "write_page"]
