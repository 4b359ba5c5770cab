"""The deeper views behind the report, by name."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from rich.text import Text

from compiler_lens.facts.program.select import Selection
from compiler_lens.recording.model import Recording
from compiler_lens.render.console.page import Page
from compiler_lens.views.console.kernels import kernel_lines, one_kernel_lines
from compiler_lens.views.console.next_steps import finding_lines
from compiler_lens.views.console.profile import profile_lines
from compiler_lens.views.console.source import source_lines

View = Callable[[Recording, Selection, Page], list[Text]]

VIEWS: Mapping[str, View] = {
    "kernels": kernel_lines,
    "kernel": one_kernel_lines,
    "source": source_lines,
    "profile": profile_lines,
    "findings": finding_lines,
}
