"""Recordings as text for a terminal, and the same for a notebook."""

import random

# rich draws a random number when it is imported: the program must not draw others because of a report.
_before = random.getstate()
import rich.style  # noqa: E402, F401

random.setstate(_before)

from compiler_lens.render.console.page import page_for  # noqa: E402
from compiler_lens.render.console.reports import (  # noqa: E402
    diff_report,
    fix_report,
    html_fragment,
    modes_report,
    profile_report,
    report,
    report_on,
    view,
    what_if_report,
)

__all__ = [
    "diff_report", "fix_report", "html_fragment", "modes_report", "page_for", "profile_report", "report", "report_on",
    "view", "what_if_report",
]  # fmt: skip
