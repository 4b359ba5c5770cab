"""The part of a profile that a user asks for: the launches of a compilation, a line, a module or a kernel."""

from __future__ import annotations

from collections.abc import Iterable

from msgspec import Struct
from msgspec.structs import replace

from compiler_lens.facts.kernels.kernels import launch_ids
from compiler_lens.facts.kernels.provenance import Provenance
from compiler_lens.facts.kernels.roofline import GroupCost, Roofline
from compiler_lens.facts.overview.line_story import selected
from compiler_lens.facts.program.ownership import Ownership
from compiler_lens.facts.program.select import Selection
from compiler_lens.recording.ids import LaunchId
from compiler_lens.recording.model import Recording


class ProfilePart(Struct, frozen=True):
    """What was asked for: kernels with those of their launches that are meant."""

    groups: tuple[GroupCost, ...]  # the most to gain first
    launches: int  # that were timed
    untimed: int = 0  # of what was named, that have no time
    named: str = ""  # what was asked for; empty: all


def profile_part(recording: Recording, found: Roofline, selection: Selection) -> ProfilePart:
    """Return the launches that a selection means; of all, where it names nothing."""
    if selection.ids is None and not selection.place:
        return ProfilePart(found.groups, _count(found.groups))
    provenance = Provenance.of(recording, Ownership.of(selection.user_paths))
    wanted = frozenset(launch_ids(selected(recording, provenance, selection, with_views=False)))
    groups = _only(found.groups, wanted)
    named = selection.place or ", ".join(f"[{i}]" for i in sorted(selection.ids or (), key=str))
    return ProfilePart(groups, _count(groups), len(wanted) - _count(groups), named)


def _count(groups: Iterable[GroupCost]) -> int:
    return sum(len(group.launches) for group in groups)


def _only(groups: Iterable[GroupCost], wanted: frozenset[LaunchId]) -> tuple[GroupCost, ...]:
    found = []
    for group in groups:
        launches = tuple(cost for cost in group.launches if cost.time.id in wanted)
        if launches:
            own = {cost.kernel.id for cost in launches}
            kernels = tuple(kernel for kernel in group.group.kernels if kernel.id in own)
            found.append(GroupCost(replace(group.group, kernels=kernels), launches))
    return tuple(sorted(found, key=lambda group: (-group.above, -group.total)))
