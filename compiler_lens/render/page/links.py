"""How the page names things and where their names lead to."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from urllib.parse import quote

from msgspec import Struct

from compiler_lens.facts.overview.source_view import FileView
from compiler_lens.recording.ids import CompileId, KernelId
from compiler_lens.recording.model import Kernel, Recording
from compiler_lens.render.names import FileNames
from compiler_lens.views.parts import Located
from compiler_lens.views.text import clean, short_paths


class PageLinks(Struct, frozen=True):
    """Names and addresses of everything that the page shows."""

    names: FileNames
    target: str  # what the recording was opened as
    files: Mapping[str, str]  # the files of the source view, each by its address
    kernels: Mapping[KernelId, str]  # the address of each kernel
    addresses: tuple[str, ...]  # of the kernels, in the order of `Recording.kernels`

    @classmethod
    def of(cls, recording: Recording, views: Sequence[FileView], path: str) -> PageLinks:
        """Return them for a recording, and for files of its source view."""
        kernels = _kernel_addresses(recording.kernels)
        short = short_paths(view.file for view in views)
        files = {view.file: clean(short[view.file]) for view in views}
        addresses = tuple(kernels[kernel.id] for kernel in recording.kernels)
        return cls(FileNames.of(recording), path, files, kernels, addresses)

    def at(self, place: Located) -> str:
        """Return how a place is written: `model.py:41`."""
        return clean(self.names.at(place))

    def href(self, place: Located | None) -> str:
        """Return the line in the source view; empty where the page does not have its file."""
        if place is None or place.file not in self.files:
            return ""
        return f"#/source/{quote(self.files[place.file])}:{place.line}"

    def kernel(self, kernel: Kernel) -> str:
        """Return where the kernel's own view is."""
        return f"#/kernel/{self.kernels[kernel.id]}"

    def kernel_at(self, index: int) -> str:
        """Return where the view of a kernel is, by its place in the recording."""
        return f"#/kernel/{self.addresses[index]}"

    @staticmethod
    def graph(compile_id: CompileId) -> str:
        """Return where a compilation's graphs are."""
        return f"#/graphs/{address(compile_id)}"


def address(compile_id: CompileId) -> str:
    """Return a compile id as a part of an address: 0_1."""
    return str(compile_id).replace("/", "_")


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
