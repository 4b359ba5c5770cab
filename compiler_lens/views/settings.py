"""Which settings of torch and Inductor differ from the defaults, since when, and what each touches."""

from __future__ import annotations

from collections.abc import Mapping

from msgspec import Struct

from compiler_lens.facts.overview.settings import Setting, Touches, settings
from compiler_lens.facts.program.select import Selection
from compiler_lens.recording.model import Recording
from compiler_lens.views.document import Column, Document, Section, line, table
from compiler_lens.views.parts import Compiled, Tone
from compiler_lens.views.text import plural

_TOUCHES: Mapping[Touches, str] = {
    Touches.GRAPHS: "tracing",
    Touches.SHAPES: "sizes",
    Touches.BACKWARD: "backward",
    Touches.FUSION: "fusion",
    Touches.TUNING: "autotuning",
    Touches.CUDA_GRAPHS: "CUDA graphs",
    Touches.CACHES: "caches",
    Touches.CODE: "code",
    Touches.REPORTS: "logs only",
    Touches.OTHER: "",
}


class Data(Struct, frozen=True):
    """The settings that differ from torch's defaults."""

    settings: tuple[Setting, ...]


def document(recording: Recording, selection: Selection) -> Document:
    """Return each setting that differs from torch's default: its value, what it touches, how it was set, since when."""
    compilations = [one for one in recording.compilations if selection.has(one)]
    found = settings(recording.environment, compilations)
    if not found:
        return Document((line("Every setting has torch's default."),), Data(()), count=0)
    shown = table(
        found,
        (Column("setting", tone=Tone.STRONG, flexible=True, middle=True), lambda one: one.name),
        (Column("value", flexible=True), lambda one: one.value),
        (Column("touches", choice=True), lambda one: _TOUCHES[one.touches]),
        (Column("set by", choice=True), lambda one: one.set_by.value),
        (Column("since"), lambda one: Compiled(one.since) if one.since else "start"),
    )
    told = f"{plural(len(found), 'setting')} that {'differs' if len(found) == 1 else 'differ'} from torch's defaults"
    return Document((Section("Settings", (shown,), told),), Data(found), count=len(found))
