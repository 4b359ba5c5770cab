"""Kernel times that were measured: `lens.profile` events, written by us, as flat tables."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import fields
from math import isfinite
from typing import Any, TypeVar

from compiler_lens.recording.errors import PayloadError
from compiler_lens.recording.event import Event
from compiler_lens.recording.model import (
    Ceilings,
    CompileId,
    Direction,
    LaunchTime,
    OtherTime,
    Profile,
    ProfileNote,
    Remark,
    Trust,
)

Value = TypeVar("Value", int, str)

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
        "notes": [[note.remark.value, note.name, note.number, note.of] for note in profile.notes],
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
        launch.direction.value,
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
        names = [_of(str, name) for name in meta["names"]]
        return (
            Profile(
                calls=_of(int, meta["calls"]),
                microseconds=_number(meta["microseconds"]),
                spread=_number(meta["spread"]),
                busy_microseconds=_number(meta["busy_microseconds"]),
                launches=tuple(_launch(row, names) for row in meta["launches"]),
                others=tuple(
                    OtherTime(_of(str, name), _number(us), _number(runs)) for name, us, runs in meta["others"]
                ),
                ceilings=_ceilings(**meta["ceilings"]),
                timer=_of(str, meta["timer"]),
                training=bool(meta["training"]),
                notes=tuple(map(_note, meta["notes"])),
            ),
        )
    except (KeyError, TypeError, ValueError, IndexError, AttributeError, OverflowError) as error:
        raise PayloadError(f"a profile of an unknown shape: {error!r}") from error


def _ceilings(
    device: Any, bytes_per_second: Any = None, flops_per_second: Any = None, launch_microseconds: Any = None
) -> Ceilings:
    return Ceilings(
        _of(str, device),
        None if bytes_per_second is None else _number(bytes_per_second),
        {_of(str, dtype): _number(rate) for dtype, rate in (flops_per_second or {}).items()},
        None if launch_microseconds is None else _number(launch_microseconds),
    )


def _launch(row: Sequence[Any], names: Sequence[str]) -> LaunchTime:
    compile_id, direction, ordinal, kernel, launch, microseconds, spread, runs, device_kernels, trust = row
    frame, recompile, epoch, autograd = (None if number is None else _of(int, number) for number in compile_id)
    return LaunchTime(
        CompileId(frame, recompile, _of(int, epoch), autograd),
        Direction(direction),
        _of(int, ordinal),
        names[kernel],
        _of(int, launch),
        _number(microseconds),
        _number(spread),
        _number(runs),
        tuple(names[index] for index in device_kernels),
        Trust(trust),
    )


def _note(told: Any) -> ProfileNote:
    if isinstance(told, str):  # as they were until remarks became facts
        return ProfileNote(Remark.WORDS, told)
    remark, name, number, of = told
    return ProfileNote(
        Remark(remark),
        _of(str, name),
        None if number is None else _number(number),
        None if of is None else _of(int, of),
    )


def _of(kind: type[Value], value: Any) -> Value:
    """The value, which later code reckons with: what is of another type is said here."""
    if not isinstance(value, kind) or isinstance(value, bool):
        raise TypeError(f"{value!r} is no {kind.__name__}")
    return value


def _number(value: Any) -> float:
    if not isinstance(value, float) or not isfinite(value):
        return float(_of(int, value))
    return value
