"""See what torch.compile did.

    lens = compiler_lens.Lens()
    model = torch.compile(model, backend=lens)
    model(x)
    print(lens.report())

Importing this has no effect and does not import torch; `Lens` does when it is first used.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

from compiler_lens.recording.errors import CaptureError, LensError, PayloadError, RecordingFileError, UsageError

if TYPE_CHECKING:
    from compiler_lens.decode.recording_file import load
    from compiler_lens.facts.overview.explanation import Explanation, explain
    from compiler_lens.lens import Lens, compare_modes, named_lens, profile, what_if
    from compiler_lens.measure.modes.wanted import Phase
    from compiler_lens.recording.model import Recording
    from compiler_lens.render.picture.drawing import Drawing, draw
    from compiler_lens.render.results import Diff, Modes, diff

__all__ = [
    "CaptureError", "Diff", "Drawing", "Explanation", "Lens", "LensError", "Modes", "PayloadError", "Phase",
    "Recording", "RecordingFileError", "UsageError", "compare_modes", "diff", "draw", "explain", "load", "named_lens",
    "profile", "what_if",
]  # fmt: skip
__version__ = "0.1.0"

# Loaded when first asked for: the lens needs torch, the others take time that `--help` should not.
_WHERE = {
    "compiler_lens.decode.recording_file": ("load",),
    "compiler_lens.facts.overview.explanation": ("Explanation", "explain"),
    "compiler_lens.lens": ("Lens", "compare_modes", "named_lens", "profile", "what_if"),
    "compiler_lens.measure.modes.wanted": ("Phase",),
    "compiler_lens.recording.model": ("Recording",),
    "compiler_lens.render.picture.drawing": ("Drawing", "draw"),
    "compiler_lens.render.results": ("Diff", "Modes", "diff"),
}


def __getattr__(name: str) -> Any:
    for module, names in _WHERE.items():
        if name in names:
            return getattr(importlib.import_module(module), name)
    raise AttributeError(f"module 'compiler_lens' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
