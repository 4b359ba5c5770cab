"""All that the page of two recordings shows, found out once."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from msgspec import Struct, field

from compiler_lens.facts.compare.model import LaunchRef, RecordingDiff
from compiler_lens.facts.kernels.kernels import Costs
from compiler_lens.facts.kernels.lineage import Lineage
from compiler_lens.facts.kernels.provenance import Provenance
from compiler_lens.facts.kernels.tuned import Tuned
from compiler_lens.facts.program.ownership import Ownership, UserPaths
from compiler_lens.recording.ids import KernelId
from compiler_lens.recording.model import Kernel, Launch, Recording
from compiler_lens.render.names import FileNames
from compiler_lens.render.page.diff.pairs import Pair, pairs_of
from compiler_lens.render.page.pool import Pool


class Half(Struct, frozen=True):
    """One of the two recordings."""

    recording: Recording
    provenance: Provenance
    costs: Costs
    tuned: Tuned
    places: Mapping[KernelId, int]  # of each kernel in the recording

    @classmethod
    def of(cls, recording: Recording, own: Ownership) -> Half:
        """Of a recording."""
        places = {kernel.id: place for place, kernel in reversed([*enumerate(recording.kernels)])}
        return cls(recording, Provenance.of(recording, own), Costs.of(recording), Tuned.of(recording), places)

    def kernel(self, one: LaunchRef) -> Kernel | None:
        """The kernel that a launch is of."""
        place = self.places.get(one.kernel_id)
        return None if place is None else self.recording.kernels[place]

    def launch(self, one: LaunchRef) -> Launch | None:
        """The launch itself."""
        kernel = self.kernel(one)
        return kernel.launches[one.launch] if kernel and one.launch < len(kernel.launches) else None

    def lineages(self, launches: Sequence[LaunchRef]) -> tuple[Lineage, ...]:
        """Where some launches of one kernel come from."""
        place = self.places.get(launches[0].kernel_id)
        of_kernel = () if place is None else self.provenance.of_kernel(place)
        if of_kernel and of_kernel[0].launch is None:
            return of_kernel
        # In order: a library's kernel has thousands of launches, and is asked for each.
        return tuple(of_kernel[n] for n in sorted({each.launch for each in launches}) if n < len(of_kernel))


class Both(Struct, frozen=True):
    """Two recordings and what differs, with what is known of their kernels, and where the texts go."""

    diff: RecordingDiff
    before: Half
    after: Half
    files: FileNames
    names: tuple[str, str]  # of the two, for the reader
    pairs: tuple[Pair, ...]
    pool: Pool = field(default_factory=Pool)

    @classmethod
    def of(
        cls, before: Recording, after: Recording, diff: RecordingDiff, names: tuple[str, str], user_paths: UserPaths
    ) -> Both:
        """Of two recordings."""
        own = Ownership.of(user_paths)
        left, right = Half.of(before, own), Half.of(after, own)
        files = FileNames.of(before).joined(FileNames.of(after))
        return cls(diff, left, right, files, names, pairs_of(diff, left.kernel, right.kernel))

    @property
    def halves(self) -> tuple[Half, Half]:
        """Both sides."""
        return self.before, self.after
