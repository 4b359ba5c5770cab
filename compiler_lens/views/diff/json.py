"""What differs between two recordings, for programs."""

from __future__ import annotations

import json

from compiler_lens.facts.compare.model import Case, RecordingDiff, Side
from compiler_lens.recording.codec import plain
from compiler_lens.views.json import FORMAT, Data


def diff_json(d: RecordingDiff) -> str:
    """Every field of a diff, as one document."""
    data: Data = {"format": FORMAT, "view": "diff", "is_empty": d.is_empty, "same_kernels": d.same_kernels}
    data |= {"before": _side(d.before), "after": _side(d.after), "kernel_times": plain(d.kernel_times)}
    data["timed_launches"] = plain(dict(zip(("before", "after"), d.timed_launches, strict=True)))
    data |= {"call_times": plain(d.call_times), "idle_times": plain(d.idle_times)}
    data["kernels"] = [plain(change) | {"times": plain(change.times)} for change in d.kernels]
    data |= {name: [_case(case) for case in getattr(d, name)] for name in ("identical", "retuned")}
    for name in ("graphs", "frames", "breaks", "recompiles", "autotunes", "cudagraphs", "settings"):
        data[name] = plain(getattr(d, name))
    return json.dumps(data, indent=1, allow_nan=False)


def _side(side: Side) -> Data:
    phases = dict(side.phases.both)
    data: Data = plain(side)
    return data | {"phases": plain(phases), "compile_seconds": side.phases.total if side.phases.timed else None}


def _case(case: Case) -> Data:
    """An identical launch needs no more than its names."""
    before, after = case.before[0], case.after[0]
    return {
        "before": {"compile_id": str(before.compile_id), "part": before.direction.value, "kernel": before.kernel},
        "after": {"compile_id": str(after.compile_id), "part": after.direction.value, "kernel": after.kernel},
        "differences": plain(case.differences),
        "times": plain(case.times),
    }
