"""The work that is measured: phases, each of which makes some calls of the model."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from msgspec import Struct

from compiler_lens.recording.errors import UsageError


class Phase(Struct, frozen=True):
    """A piece of the work that is timed apart.

    `run(model)` makes one piece of it with the model it is given, which is compiled or as it is, and returns what it
    computed: that is compared with a reference. `tokens` is how many tokens one run makes.
    """

    name: str
    run: Callable[[Any], Any]
    tokens: int | None = None


def checked(phases: Any) -> tuple[Phase, ...]:
    """Return the phases that a user gave. Raises `UsageError` for what cannot be meant."""
    if isinstance(phases, Phase):
        phases = (phases,)
    made = tuple(phases) if isinstance(phases, Sequence) else ()
    if not made or not all(isinstance(phase, Phase) for phase in made):
        raise UsageError('phases is a sequence of compiler_lens.Phase("name", run), and run takes the model')
    names = [phase.name for phase in made]
    if len(set(names)) < len(names):
        raise UsageError(f"two phases have one name: {', '.join(names)}")
    return made
