"""All that the page shows, found out once."""

from __future__ import annotations

from msgspec import Struct, field

from compiler_lens.facts.kernels.kernels import Costs, KernelRow, kernel_rows
from compiler_lens.facts.kernels.provenance import Provenance
from compiler_lens.facts.overview.explanation import Summary
from compiler_lens.facts.overview.shared import costs_of, files_of, provenance_of, summary_of
from compiler_lens.facts.overview.source_view import FileView
from compiler_lens.facts.program.ownership import Ownership, UserPaths
from compiler_lens.facts.program.select import Selection
from compiler_lens.recording.model import Recording
from compiler_lens.render.page.links import PageLinks
from compiler_lens.render.page.pool import Pool


class PageContext(Struct, frozen=True):
    """A recording with its analyses, and where their texts go."""

    recording: Recording
    summary: Summary
    own: Ownership
    selection: Selection
    views: tuple[FileView, ...]
    provenance: Provenance
    costs: Costs
    rows: tuple[KernelRow, ...]  # one for each kernel: the slowest first, those that compute the same beside each other
    links: PageLinks
    pool: Pool = field(default_factory=Pool)

    @classmethod
    def of(cls, recording: Recording, user_paths: UserPaths, path: str) -> PageContext:
        """Of a recording."""
        own, selection = Ownership.of(user_paths), Selection(user_paths=user_paths, folds_nothing=True, kept={})
        provenance, costs = provenance_of(recording, selection), costs_of(recording, selection)
        views = tuple(view for view in files_of(recording, selection) if view.facts)
        return cls(
            recording,
            summary_of(recording, selection),
            own,
            selection,
            views,
            provenance,
            costs,
            kernel_rows(provenance.lineages, costs, folded=False),
            PageLinks.of(recording, views, path),
        )
