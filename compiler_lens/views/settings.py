"""Which settings of torch and Inductor differ from the defaults, since when, and what each touches."""

from __future__ import annotations

from collections.abc import Mapping

from msgspec import Struct

from compiler_lens.facts.overview.settings import SetBy, Setting, Touches, settings
from compiler_lens.facts.program.select import Selection
from compiler_lens.recording.model import Recording
from compiler_lens.views.document import Column, Document, Section, Table, line
from compiler_lens.views.parts import Cell, Compiled, Kind, Tone
from compiler_lens.views.text import plural

_TOUCHES: Mapping[Touches, str] = {
    Touches.GRAPHS: "what is traced, and where graphs break",
    Touches.SHAPES: "which sizes may vary, and so recompiles",
    Touches.BACKWARD: "the backward, and what is kept for it",
    Touches.FUSION: "which ops become one kernel",
    Touches.TUNING: "which kernels and configurations are chosen",
    Touches.CUDA_GRAPHS: "how kernels are launched",
    Touches.CACHES: "what is compiled again in the next process",
    Touches.CODE: "the generated code",
    Touches.REPORTS: "only what torch reports",
    Touches.OTHER: "",
}


class Data(Struct, frozen=True):
    """The settings that differ from torch's defaults."""

    settings: tuple[Setting, ...]


def document(recording: Recording, selection: Selection) -> Document:
    """Return each setting that differs from torch's default: its value, who set it, since when, what it touches."""
    compilations = [one for one in recording.compilations if selection.has(one)]
    found = settings(recording.environment, compilations)
    if not found:
        return Document((line("Every setting has torch's default."),), Data(()), count=0)
    columns = (
        Column("setting", tone=Tone.STRONG, flexible=True, middle=True),
        Column("value", flexible=True),
        Column("set by", choice=True),
        Column("since"),
        Column("compilations", Kind.COUNT),
        Column("touches", tone=Tone.QUIET, flexible=True, choice=True),
    )
    table = Table(columns, tuple(_row(one) for one in found))
    told = f"{plural(len(found), 'setting')} that {'differs' if len(found) == 1 else 'differ'} from torch's defaults"
    return Document((Section("Settings", (table,), told),), Data(found), count=len(found))


def _row(setting: Setting) -> tuple[Cell, ...]:
    since = Compiled(setting.since) if setting.since else "the start"
    return setting.name, setting.value, _set_by(setting), since, setting.compilations, _TOUCHES[setting.touches]


def _set_by(setting: Setting) -> str:
    if setting.set_by is SetBy.CONFIG:
        return "torch's config"
    if setting.set_by is SetBy.MODE:
        return f"mode={setting.mode}"
    return "options=" if setting.set_by is SetBy.OPTIONS else f"{setting.name}="
