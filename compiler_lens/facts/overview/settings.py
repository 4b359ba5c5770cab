"""Which settings of torch differ from their defaults, by whom each was set, since when, and what it touches."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from enum import Enum

from msgspec import Struct

from compiler_lens.recording.ids import CompileId
from compiler_lens.recording.model import Compilation, Environment


class SetBy(Enum):
    """Where a setting was made."""

    CONFIG = "config"  # of torch, for the whole process
    MODE = "mode"  # `torch.compile(mode=...)`
    OPTIONS = "options"  # `torch.compile(options=...)`
    ARGUMENT = "argument"  # another argument of `torch.compile`


class Touches(Enum):
    """What of the compiler's work a setting is about."""

    GRAPHS = "graphs"  # what is traced, and where graphs break
    SHAPES = "shapes"  # which sizes may vary, and so recompiles
    BACKWARD = "backward"
    FUSION = "fusion"
    TUNING = "tuning"
    CUDA_GRAPHS = "cuda_graphs"
    CACHES = "caches"
    CODE = "code"  # the generated code, and how it is built
    REPORTS = "reports"  # only what torch logs
    OTHER = "other"


# What the modes of torch.compile stand for: list_mode_options() in torch/_inductor/__init__.py, 2.11 to 2.15.
_MODES: Mapping[str, Mapping[str, str]] = {
    "default": {},
    "reduce-overhead": {"triton.cudagraphs": "True"},
    "max-autotune-no-cudagraphs": {"max_autotune": "True", "coordinate_descent_tuning": "True"},
    "max-autotune": {"max_autotune": "True", "coordinate_descent_tuning": "True", "triton.cudagraphs": "True"},
}

# By a part of a setting's name; the first that fits counts.
_PARTS: tuple[tuple[str, Touches], ...] = (
    ("cudagraph", Touches.CUDA_GRAPHS),
    ("autotune", Touches.TUNING),
    ("coordinate_descent", Touches.TUNING),
    ("benchmark", Touches.TUNING),
    ("cache", Touches.CACHES),
    ("pgo", Touches.CACHES),
    ("dynamic", Touches.SHAPES),
    ("static", Touches.SHAPES),
    ("specialize", Touches.SHAPES),
    ("recompile", Touches.SHAPES),
    ("fusion", Touches.FUSION),
    ("fuse", Touches.FUSION),
    ("combo_kernel", Touches.FUSION),
    ("activation_memory", Touches.BACKWARD),
    ("recompute", Touches.BACKWARD),
    ("trace", Touches.REPORTS),
    ("log", Touches.REPORTS),
    ("debug", Touches.REPORTS),
    ("verbose", Touches.REPORTS),
    ("_dynamo.", Touches.GRAPHS),
    ("_functorch.", Touches.BACKWARD),
    ("_inductor.", Touches.CODE),
)


class Setting(Struct, frozen=True):
    """A setting that differs from torch's default."""

    name: str  # as torch calls it: "_inductor.config.max_autotune"
    value: str
    set_by: SetBy
    touches: Touches
    mode: str = ""  # the mode that stands for it
    since: CompileId | None = None  # the first compilation that it held for; None: it held before the first
    compilations: int = 0  # how many it held for


def settings(environment: Environment, compilations: Sequence[Compilation]) -> tuple[Setting, ...]:
    """Return every setting that differs from torch's default: those of the process first, then by first use."""
    found: dict[tuple[str, str, SetBy, str], list[CompileId]] = {}
    for compilation in compilations:
        whole = environment.config if compilation.config is None else compilation.config
        for name, value in sorted(whole.items()):
            found.setdefault((name, value, SetBy.CONFIG, ""), []).append(compilation.compile_id)
        mode = compilation.mode
        asked = [(name, value, SetBy.MODE, mode) for name, value in _MODES.get(mode, {"mode": mode}).items()]
        asked += [(name, value, SetBy.OPTIONS, "") for name, value in compilation.options.items()]
        if compilation.dynamic is not None:
            asked.append(("dynamic", str(compilation.dynamic), SetBy.ARGUMENT, ""))
        for name, value, set_by, of_mode in asked:
            full_name = name if name == "mode" or set_by is SetBy.ARGUMENT else f"_inductor.config.{name}"
            found.setdefault((full_name, value, set_by, of_mode), []).append(compilation.compile_id)
    for name, value in environment.config.items():
        found.setdefault((name, value, SetBy.CONFIG, ""), [])
    held = []
    for (name, value, set_by, mode), ids in found.items():
        from_the_start = set_by is SetBy.CONFIG and environment.config.get(name) == value
        since = None if from_the_start else ids[0]
        held.append(Setting(name, value, set_by, touches(name), mode, since, len(ids)))
    return tuple(sorted(held, key=lambda setting: setting.set_by is not SetBy.CONFIG))


def touches(name: str) -> Touches:
    """Return what a setting is about, by its name."""
    return next((kind for part, kind in _PARTS if part in name), Touches.OTHER)
