"""The deeper views behind the report, by name."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from rich.text import Text

from compiler_lens.facts.program.select import Selection
from compiler_lens.recording.model import Recording
from compiler_lens.render.console.page import Page
from compiler_lens.views.console.next_steps import finding_lines

View = Callable[[Recording, Selection, Page], list[Text]]

VIEWS: Mapping[str, View] = {
    "findings": finding_lines,
}
