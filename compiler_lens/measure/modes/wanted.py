"""What a user asks to measure: rows, as what torch.compile takes, and phases, each with calls of the model."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

import torch
from msgspec import Struct, field

from compiler_lens.capture.torch_api import settings
from compiler_lens.facts.measured.modes import DEFAULT, EAGER
from compiler_lens.facts.program.select import nearest
from compiler_lens.measure.program import known_mode
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


class Wanted(Struct, frozen=True):
    """A row to measure."""

    name: str
    mode: str | None = None
    options: Mapping[str, Any] = field(default_factory=dict)

    @property
    def is_eager(self) -> bool:
        """Whether nothing is to be compiled."""
        return self.name == EAGER

    @property
    def as_text(self) -> dict[str, str]:
        """The arguments of torch.compile that are not its defaults, as text."""
        mode = {"mode": self.mode} if self.mode else {}
        return mode | {name: str(value) for name, value in self.options.items()}

    def compile(self, function: Any, dynamic: bool | None) -> Any:
        """Return the function as this row runs it."""
        if self.is_eager:
            return function
        if not self.options:
            return torch.compile(function, dynamic=dynamic, mode=self.mode)
        base = settings.modes()[self.mode] if self.mode else {}
        return torch.compile(function, dynamic=dynamic, options={**base, **self.options})


def wanted_rows(modes: Iterable[str] | str, options: Mapping[str, Mapping[str, Any]] | None) -> tuple[Wanted, ...]:
    """Return the rows that a user asked for. Raises `UsageError` for names that torch does not have."""
    names = dict.fromkeys([modes] if isinstance(modes, str) else modes)
    rows = [Wanted(name, None if name in {EAGER, DEFAULT} else known_mode(name, EAGER)) for name in names]
    rows += [_of_options(name, values) for name, values in (options or {}).items()]
    known = [row.name for row in rows]
    if twice := [name for name in options or {} if known.count(name) > 1]:
        raise UsageError(f"two rows are named {twice[0]}")
    if not rows:
        raise UsageError("there is nothing to measure: name modes or options")
    return tuple(rows)


def _of_options(name: str, values: Any) -> Wanted:
    if not isinstance(values, Mapping):
        raise UsageError(f"the options of {name} are a dict of Inductor's options, not {type(values).__name__}")
    known = dict.fromkeys(settings.option_names())
    for option in values:
        if option != "mode" and str(option).replace("-", "_") not in known:
            meant = nearest(str(option), known)
            raise UsageError(f"Inductor has no option {option}{f': did you mean {meant}?' if meant else ''}")
    mode = known_mode(values["mode"]) if values.get("mode", DEFAULT) != DEFAULT else None
    return Wanted(str(name), mode, {option: value for option, value in values.items() if option != "mode"})
