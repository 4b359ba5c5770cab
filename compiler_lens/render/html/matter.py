"""All that the page shows, found out once."""

from __future__ import annotations

from dataclasses import dataclass, field

from compiler_lens.analysis.kernel_rows import Costs
from compiler_lens.analysis.ownership import Ownership, UserPaths
from compiler_lens.analysis.provenance import Provenance
from compiler_lens.analysis.source_view import FileView, source_view
from compiler_lens.analysis.summary import Summary, summarize
from compiler_lens.model import Recording
from compiler_lens.render.html.ink import Ink
from compiler_lens.render.html.pool import Pool


@dataclass(frozen=True, slots=True)
class Matter:
    """A recording with its analyses, and where their texts go."""

    recording: Recording
    summary: Summary
    own: Ownership
    views: tuple[FileView, ...]
    provenance: Provenance
    costs: Costs
    ink: Ink
    pool: Pool = field(default_factory=Pool)

    @classmethod
    def of(cls, recording: Recording, user_paths: UserPaths, path: str) -> Matter:
        """Of a recording."""
        own = Ownership.of(user_paths)
        views = tuple(view for view in source_view(recording, own) if view.facts)
        return cls(
            recording,
            summarize(recording, user_paths),
            own,
            views,
            Provenance.of(recording, own),
            Costs.of(recording),
            Ink.of(recording, views, path),
        )
