"""Kernel times that were measured: `lens.profile` events, written by us, as flat tables."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import fields
from typing import Any

from compiler_lens.errors import PayloadError
from compiler_lens.event import Event
from compiler_lens.model import Ceilings, CompileId, LaunchTime, OtherTime, Pass, Profile, Trust

_PLAIN = ("calls", "microseconds", "spread", "busy_microseconds", "timer", "training")


def profile_meta(profile: Profile) -> dict[str, Any]:
    """A profile as the meta of an event. Names stand once: a library's kernels have long ones."""
    names = _Names()
    rows = [_row(launch, names) for launch in profile.launches]
    return {
        **{name: getattr(profile, name) for name in _PLAIN},
        "launches": rows,
        "names": list(names.known),
        "others": [[o.name, round(o.microseconds, 3), o.runs] for o in profile.others],
        "ceilings": {f.name: _json(getattr(profile.ceilings, f.name)) for f in fields(Ceilings)},
        "notes": list(profile.notes),
    }


def _json(value: Any) -> Any:
    return dict(value) if isinstance(value, Mapping) else value


class _Names:
    def __init__(self) -> None:
        self.known: dict[str, int] = {}

    def __call__(self, name: str) -> int:
        return self.known.setdefault(name, len(self.known))


def _row(launch: LaunchTime, names: _Names) -> list[Any]:
    compile_id = launch.compile_id
    return [
        [compile_id.frame, compile_id.recompile, compile_id.epoch, compile_id.autograd],
        launch.part.value,
        launch.ordinal,
        names(launch.kernel),
        launch.launch,
        round(launch.microseconds, 3),
        round(launch.spread, 3),
        launch.runs,
        [names(kernel) for kernel in launch.device_kernels],
        launch.trust.value,
    ]


def read_profile(event: Event, _compile_id: CompileId, _files: Mapping[int, str]) -> tuple[Profile, ...]:
    """The profile that an event tells of."""
    meta = event.meta
    try:
        return (
            Profile(
                **{name: meta[name] for name in _PLAIN},
                launches=tuple(_launch(row, meta["names"]) for row in meta["launches"]),
                others=tuple(OtherTime(str(name), us, runs) for name, us, runs in meta["others"]),
                ceilings=Ceilings(**meta["ceilings"]),
                notes=tuple(map(str, meta["notes"])),
            ),
        )
    except (KeyError, TypeError, ValueError, IndexError) as error:
        raise PayloadError(f"a profile of an unknown shape: {error!r}") from error


def _launch(row: Sequence[Any], names: Sequence[str]) -> LaunchTime:
    compile_id, part, ordinal, kernel, launch, microseconds, spread, runs, device_kernels, trust = row
    return LaunchTime(
        CompileId(*compile_id),
        Pass(part),
        ordinal,
        names[kernel],
        launch,
        microseconds,
        spread,
        runs,
        tuple(names[index] for index in device_kernels),
        Trust(trust),
    )
