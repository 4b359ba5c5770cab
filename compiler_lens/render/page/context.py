"""All that the page shows, found out once."""

from __future__ import annotations

from dataclasses import dataclass, field

from compiler_lens.facts.kernels.kernel_rows import Costs, KernelRow, kernel_rows
from compiler_lens.facts.kernels.provenance import Provenance
from compiler_lens.facts.overview.source_view import FileView, source_view
from compiler_lens.facts.overview.summary import Summary, summarize
from compiler_lens.facts.program.ownership import Ownership, UserPaths
from compiler_lens.recording.model import Recording
from compiler_lens.render.page.ink import PageLinks
from compiler_lens.render.page.pool import Pool


@dataclass(frozen=True, slots=True)
class PageContext:
    """A recording with its analyses, and where their texts go."""

    recording: Recording
    summary: Summary
    own: Ownership
    user_paths: UserPaths
    views: tuple[FileView, ...]
    provenance: Provenance
    costs: Costs
    rows: tuple[KernelRow, ...]  # one for each kernel: the slowest first, those that compute the same beside each other
    ink: PageLinks
    pool: Pool = field(default_factory=Pool)

    @classmethod
    def of(cls, recording: Recording, user_paths: UserPaths, path: str) -> PageContext:
        """Of a recording."""
        own = Ownership.of(user_paths)
        provenance, costs = Provenance.of(recording, own), Costs.of(recording)
        views = tuple(view for view in source_view(recording, own) if view.facts)
        return cls(
            recording,
            summarize(recording, user_paths),
            own,
            user_paths,
            views,
            provenance,
            costs,
            kernel_rows(provenance.lineages, costs, folded=False),
            PageLinks.of(recording, views, path),
        )
