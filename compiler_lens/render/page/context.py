"""All that the page shows, found out once."""

from __future__ import annotations

from msgspec import Struct, field

from compiler_lens.facts.graphs.frame_graphs import FrameGraphs
from compiler_lens.facts.overview.explanation import Summary
from compiler_lens.facts.overview.shared import files_of, summary_of
from compiler_lens.facts.overview.source_view import FileView
from compiler_lens.facts.program.ownership import UserPaths
from compiler_lens.facts.program.select import Selection
from compiler_lens.recording.model import CompileId, Recording
from compiler_lens.render.page.links import PageLinks
from compiler_lens.render.page.pool import Pool


class PageContext(Struct, frozen=True):
    """A recording with its analyses, and where their texts go."""

    recording: Recording
    selection: Selection
    summary: Summary
    views: tuple[FileView, ...]
    frames: FrameGraphs
    broken: frozenset[CompileId]  # compilations with a graph break
    links: PageLinks
    pool: Pool = field(default_factory=Pool)

    @classmethod
    def of(cls, recording: Recording, user_paths: UserPaths, path: str) -> PageContext:
        """Return it for a recording that was opened as `path`."""
        selection = Selection(user_paths=user_paths, for_page=True, kept={})
        summary = summary_of(recording, selection)
        views = tuple(view for view in files_of(recording, selection) if view.facts)
        frames = FrameGraphs.of(recording, summary.coverage, summary.cards)
        broken = frozenset(event.compile_id for event in recording.graph_breaks)
        return cls(recording, selection, summary, views, frames, broken, PageLinks.of(recording, views, path))
