"""How files are called: each as short as it is clear."""

from __future__ import annotations

from collections.abc import Mapping

from msgspec import Struct, field

from compiler_lens.recording.model import Recording
from compiler_lens.recording.own_files import is_own
from compiler_lens.views.parts import Located
from compiler_lens.views.text import short_paths

_SEPARATORS = ("site-packages/", "dist-packages/")


class FileNames(Struct, frozen=True):
    """The names of a recording's files, of the user's own without what they share."""

    short: Mapping[str, str] = field(default_factory=dict)

    @classmethod
    def of(cls, recording: Recording) -> FileNames:
        """Return the names of the files that compilations and graph breaks point to."""
        found = {c.file for c in recording.compilations}
        found.update(at.file for c in recording.compilations for at in c.stack)
        found.update(at.file for b in recording.graph_breaks for at in b.user_stack)
        return cls(short_paths(filter(is_own, found)))

    def joined(self, others: FileNames) -> FileNames:
        """Return the names of both; where they differ, those of the others."""
        return FileNames({**self.short, **others.short})

    def at(self, place: Located) -> str:
        """Return `model.py:41`."""
        return f"{self.file(place.file)}:{place.line}" if place.file else "an unknown place"

    def short_at(self, place: Located) -> str:
        """Return `model.py:41`, without the package of a package's file: where there is little room."""
        return f"{self.file(place.file).rpartition('…/')[2]}:{place.line}"

    def file(self, path: str) -> str:
        """Return a file's name; that of a package's file begins with its package."""
        path = path.replace("\\", "/")
        for separator in _SEPARATORS:
            if separator in path:
                package, _, rest = path.rpartition(separator)[2].partition("/")
                return f"{package}/…/{rest.rpartition('/')[2]}" if "/" in rest else f"{package}/{rest}".rstrip("/")
        known = self.short.get(path)
        if known:
            return known
        ends = 2 if path.endswith("__init__.py") else 1
        return "/".join(path.rsplit("/", ends)[1:]) or path
