"""What differs between two recordings, for a terminal."""

from __future__ import annotations

from shlex import quote

from msgspec.structs import replace

from compiler_lens.render.console.document import block_lines
from compiler_lens.render.console.open_page import page_for
from compiler_lens.render.console.page import render
from compiler_lens.views.diff.views import SUMMARY, Asked, Compared, diff_view


def diff_report(
    compared: Compared, view: str = SUMMARY, name: str = "", *, width: int | None = None, color: bool | None = None
) -> str:
    """Return one view as text; `width` in columns and `color` default to what standard output can show."""
    found = diff_view(view)
    page, other = (page_for(one, width=width, color=color) for one in (compared.after, compared.before))
    target = " ".join(given if given in {"BEFORE", "AFTER"} else quote(given) for given in compared.names)
    page = replace(page, target=target, verb="diff", names=other.names.joined(page.names))
    asked = Asked(compared.result, compared.before, compared.after, compared.names, name, page.width // 2 - 6)
    return render(block_lines(found.blocks(asked), page), page)
