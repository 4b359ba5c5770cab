"""What a program asked of torch.compile beside a call: sites and stances."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from msgspec import Struct

from compiler_lens.recording.event import Event
from compiler_lens.recording.model import (
    ChildProcess,
    CompileId,
    CompileSite,
    EagerCalls,
    LateHook,
    SourceLine,
    Stance,
)
from compiler_lens.recording.shape import Count, shaped


class _At(Struct, frozen=True):
    file: str = ""
    line: Count = 0

    def line_of(self, function: str = "") -> SourceLine | None:
        return SourceLine(self.file, self.line, function) if self.file else None


class _Site(_At, frozen=True):
    function: str = ""
    defined: _At = _At()
    module: str = ""
    methods: tuple[str, ...] = ()
    in_place: bool = False
    is_dropped: bool = False
    is_generator: bool = False
    is_disabled: bool = False


class _Stance(_At, frozen=True):
    name: str = ""
    skips_guards: bool = False
    backend: str = ""


class _Calls(_At, frozen=True):
    function: str = ""
    calls: Count = 0


def read_eager_calls(event: Event, _id: CompileId, _files: Mapping[int, str]) -> tuple[EagerCalls, ...]:
    """Read how many calls of a function ran eagerly under a stance."""
    told = shaped(_Calls, event.meta)
    return (EagerCalls(SourceLine(told.file, told.line, told.function), told.calls),)


class _LateHook(_At, frozen=True):
    hook: str = ""
    module: str = ""
    by_hand: bool = False


def read_late_hook(event: Event, compile_id: CompileId, _files: Mapping[int, str]) -> tuple[LateHook, ...]:
    """Read where a hook was registered on a module that was compiled without."""
    told = shaped(_LateHook, event.meta)
    return (LateHook(compile_id, told.hook, told.module, told.line_of(), told.by_hand),)


class _Child(_At, frozen=True):
    compiled: bool | None = None


def read_child(event: Event, _id: CompileId, _files: Mapping[int, str]) -> tuple[ChildProcess, ...]:
    """Read where a child process was started, and later whether it has compiled."""
    told = shaped(_Child, event.meta)
    return (ChildProcess(told.line_of(), told.compiled),)


def join_children(told: Iterable[ChildProcess]) -> tuple[ChildProcess, ...]:
    """Return the processes of each line once, as they were told of last."""
    return tuple({child.place: child for child in told}.values())


def read_site(event: Event, _id: CompileId, _files: Mapping[int, str]) -> tuple[CompileSite, ...]:
    """Read where something was given to torch.compile."""
    told = shaped(_Site, event.meta)
    defined = SourceLine(told.defined.file, told.defined.line, told.function)
    site = CompileSite(
        defined, told.line_of(), told.module, told.methods,
        in_place=told.in_place, is_dropped=told.is_dropped,
        is_generator=told.is_generator, is_disabled=told.is_disabled,
    )  # fmt: skip
    return (site,)


def read_stance(event: Event, _id: CompileId, _files: Mapping[int, str]) -> tuple[Stance, ...]:
    """Read a stance that was taken."""
    told = shaped(_Stance, event.meta)
    return (Stance(told.name, told.line_of(), told.skips_guards, told.backend),)
