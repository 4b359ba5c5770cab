"""How the page names things and where their names lead to."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any
from urllib.parse import quote

from rich.text import Text

from compiler_lens.facts.overview.source_view import FileView
from compiler_lens.recording.ids import CompileId, KernelId
from compiler_lens.recording.model import Kernel, Recording
from compiler_lens.render.console.open_page import page_for
from compiler_lens.render.console.page import BAD, GOOD, WARN, Page
from compiler_lens.render.names import FileNames
from compiler_lens.views.parts import Located
from compiler_lens.views.text import clean, short_paths

_WIDE = 100_000  # columns: a browser folds lines itself
_MOODS = ((BAD, "bad"), (WARN, "warn"), (GOOD, "good"))

# Text; or text, what it is sorted by, where it leads to; then what stands beneath it, what else it is found by, and by
# what those beneath are sorted.
Cell = str | tuple[Any, ...]


@dataclass(frozen=True, slots=True)
class PageLinks:
    """Names and addresses of everything that the page shows."""

    names: FileNames
    page: Page  # that of the console, as wide as can be: names are the same there
    files: Mapping[str, str]  # the files of the source view, each by its address
    kernels: Mapping[KernelId, str]  # the address of each kernel
    addresses: tuple[str, ...]  # of the kernels, in the order of `Recording.kernels`

    @classmethod
    def of(cls, recording: Recording, views: Sequence[FileView], path: str) -> PageLinks:
        """Of a recording."""
        page = page_for(recording, width=_WIDE, color=False, path=path)
        kernels = _kernel_addresses(recording.kernels)
        files = {view.file: clean(name) for view, name in zip(views, _short(views), strict=True)}
        return cls(page.names, page, files, kernels, tuple(kernels[kernel.id] for kernel in recording.kernels))

    def at(self, place: Located) -> str:
        """`model.py:41`."""
        return clean(self.page.at(place))

    def href(self, place: Located | None) -> str:
        """The line in the source view; empty where the page does not have its file."""
        if place is None or place.file not in self.files:
            return ""
        return f"#/source/{quote(self.files[place.file])}:{place.line}"

    def kernel(self, kernel: Kernel) -> str:
        """The kernel's own view."""
        return f"#/kernel/{self.kernels[kernel.id]}"

    def kernel_at(self, index: int) -> str:
        """The view of a kernel, by its place in the recording."""
        return f"#/kernel/{self.addresses[index]}"

    @staticmethod
    def graph(compile_id: CompileId, stage: str = "") -> str:
        """A compilation's graphs, or one of them."""
        return f"#/graphs/{address(compile_id)}" + (f"/{stage}" if stage else "")


def address(compile_id: CompileId) -> str:
    """A compile id as a part of an address: 0_1."""
    return str(compile_id).replace("/", "_")


def plain(lines: Iterable[Text]) -> list[str]:
    """Lines of the console as texts."""
    return [text for one in lines if (text := one.plain.strip())]


def mood(text: Text) -> str:
    """Whether a line of the console is good or bad news."""
    styles = " ".join(str(span.style) for span in text.spans)
    return next((name for style, name in _MOODS if style in styles), "")


def _short(views: Sequence[FileView]) -> list[str]:
    short = short_paths(view.file for view in views)
    return [short[view.file] for view in views]


def _kernel_addresses(kernels: Iterable[Kernel]) -> Mapping[KernelId, str]:
    """`0_0/triton_poi_fused_add_3`; where forward and backward have one of that name, the second says so."""
    taken: set[str] = set()
    found: dict[KernelId, str] = {}
    for kernel in kernels:
        base = f"{address(kernel.compile_id)}/{quote(clean(kernel.name), safe='')}"
        ways = (base, f"{base}/{kernel.direction.value}", f"{base}/{kernel.direction.value}/{kernel.ordinal}")
        free = next((way for way in ways if way not in taken), f"{ways[-1]}/{len(taken)}")
        taken.add(free)
        found[kernel.id] = free
    return found
