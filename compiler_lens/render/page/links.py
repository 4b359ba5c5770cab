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
from compiler_lens.views.text import clean, readable, short_paths


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
        addresses = addresses_of((k.compile_id, k.name, k.direction.value, k.ordinal) for k in recording.kernels)
        kernels = {kernel.id: where for kernel, where in zip(recording.kernels, addresses, strict=True)}
        short = short_paths(view.file for view in views)
        files = {view.file: clean(short[view.file]) for view in views}
        return cls(FileNames.of(recording), path, files, kernels, addresses)

    def at(self, place: Located) -> str:
        """Return how a place is written: `model.py:41`."""
        return readable(self.names.at(place))

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


def addresses_of(named: Iterable[tuple[CompileId, str, str, int]]) -> tuple[str, ...]:
    """Return an address for each kernel, by its compile id, name, pass and number: `0_0/triton_poi_fused_add_3`.

    The second of a name says the pass, too, and a third the number.
    """
    taken: dict[str, None] = {}
    for compile_id, name, direction, number in named:
        base = f"{address(compile_id)}/{quote(readable(name), safe='')}"
        ways = (base, f"{base}/{direction}", f"{base}/{direction}/{number}")
        taken[next((way for way in ways if way not in taken), f"{ways[-1]}/{len(taken)}")] = None
    return tuple(taken)
