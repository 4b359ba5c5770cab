"""Which settings of torch and Inductor differ from the defaults, since when, and what each touches."""

from __future__ import annotations

from collections.abc import Mapping

from msgspec import Struct

from compiler_lens.facts.overview.settings import SetBy, Setting, Touches, settings
from compiler_lens.facts.program.select import Selection
from compiler_lens.recording.model import Recording
from compiler_lens.views.document import Column, Document, Section, Table, line
from compiler_lens.views.parts import Cell, Compiled, Tone
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
    columns = (
        Column("setting", tone=Tone.STRONG, flexible=True, middle=True),
        Column("value", flexible=True),
        Column("touches", choice=True),
        Column("set by", choice=True),
        Column("since"),
    )
    table = Table(columns, tuple(_row(one) for one in found))
    told = f"{plural(len(found), 'setting')} that {'differs' if len(found) == 1 else 'differ'} from torch's defaults"
    return Document((Section("Settings", (table,), told),), Data(found), count=len(found))


def _row(setting: Setting) -> tuple[Cell, ...]:
    by = {SetBy.CONFIG: "config", SetBy.MODE: "mode", SetBy.OPTIONS: "options", SetBy.ARGUMENT: "argument"}
    since = Compiled(setting.since) if setting.since else "start"
    return setting.name, setting.value, _TOUCHES[setting.touches], by[setting.set_by], since
