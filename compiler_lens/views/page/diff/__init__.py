"""The page of two recordings: what differs between them, side by side."""

from __future__ import annotations

from compiler_lens.views.page.diff.page import diff_page, write_diff

__all__ = ["diff_page", "write_diff"]
