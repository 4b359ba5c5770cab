"""What each row's compiler did differently from default's."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from compiler_lens.analysis.modes import DEFAULT
from compiler_lens.model import Recording


def differences(recordings: Mapping[str, Recording]) -> dict[str, Any]:
    """For each row but default, the `RecordingDiff` from default's recording to its own."""
    from compiler_lens.analysis.diff import diff

    before = recordings.get(DEFAULT)
    if before is None:
        return {}
    return {name: diff(before, after) for name, after in recordings.items() if name != DEFAULT}
