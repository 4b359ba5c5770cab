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
    "CaptureError",
    "Diff",
    "Drawing",
    "Explanation",
    "Lens",
    "LensError",
    "Modes",
    "PayloadError",
    "Phase",
    "Recording",
    "RecordingFileError",
    "UsageError",
    "compare_modes",
    "diff",
    "draw",
    "explain",
    "load",
    "named_lens",
    "profile",
    "what_if",
]
__version__ = "0.1.0"

# Loaded when first asked for: the lens needs torch, the others take time that `--help` should not.
_WHERE = {
    "Diff": "compiler_lens.render.results",
    "diff": "compiler_lens.render.results",
    "Explanation": "compiler_lens.facts.overview.explanation",
    "Drawing": "compiler_lens.render.picture.drawing",
    "draw": "compiler_lens.render.picture.drawing",
    "explain": "compiler_lens.facts.overview.explanation",
    "Lens": "compiler_lens.lens",
    "Recording": "compiler_lens.recording.model",
    "load": "compiler_lens.decode.recording_file",
    "named_lens": "compiler_lens.lens",
    "profile": "compiler_lens.lens",
    "Modes": "compiler_lens.render.results",
    "Phase": "compiler_lens.measure.modes.wanted",
    "compare_modes": "compiler_lens.lens",
    "what_if": "compiler_lens.lens",
}


def __getattr__(name: str) -> Any:
    if name in _WHERE:
        return getattr(importlib.import_module(_WHERE[name]), name)
    raise AttributeError(f"module 'compiler_lens' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
