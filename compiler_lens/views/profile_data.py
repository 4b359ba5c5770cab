"""The last profile of a recording as plain data, with every launch."""

from __future__ import annotations

from typing import Any

from compiler_lens.facts.kernels.launch_costs import LaunchCost
from compiler_lens.facts.kernels.roofline import GroupCost, roofline
from compiler_lens.facts.overview.profile_part import profile_part
from compiler_lens.facts.program.select import Selection
from compiler_lens.recording.model import ProfileNote, Recording
from compiler_lens.views.profile_words import note_words


def profile_data(recording: Recording, selection: Selection) -> dict[str, Any]:
    """What `show REC profile --json` has; `profile` is null where nothing was timed."""
    if not recording.profiles:
        return {"profile": None}
    found = roofline(recording, recording.profiles[-1])
    profile, parts = found.profile, found.parts
    part = profile_part(recording, found, selection)
    return {
        "profile": {
            "timer": profile.timer,
            "training": profile.training,
            "calls": profile.calls,
            "microseconds": profile.microseconds,
            "spread": profile.spread,
            "busy_microseconds": profile.busy_microseconds,
            "busy_share": parts.busy_share,
            "kernel_microseconds": parts.kernels,
            "other_microseconds": parts.other,
            "idle_microseconds": parts.idle,
            "launches_per_call": parts.launches,
            "ceilings": profile.ceilings,
            "kernels": [_group(group) for group in part.groups],
            "launches_without_time": part.untimed if part.named else None,
            "others": profile.others,
            "notes": [_note(note) for note in profile.notes],
            "advice": found.advice,
            "doubts": found.doubts,
            "is_usable": found.is_usable,
        }
    }


def _note(note: ProfileNote) -> dict[str, Any]:
    return {
        "remark": note.remark,
        "name": note.name,
        "number": note.number,
        "of": note.of,
        "words": note_words(note),
    }


def _group(group: GroupCost) -> dict[str, Any]:
    return {
        "names": list(dict.fromkeys(kernel.name for kernel in group.group.kernels)),
        "kind": group.group.first.kind,
        "aten": group.group.first.aten,
        "ops": group.group.op_count,
        "microseconds_above_floor": group.above,
        "microseconds": group.total,
        "runs": group.runs,
        "bytes_per_second": group.bytes_per_second,
        "flops_per_second": group.flops_per_second,
        "bound": group.bound,
        "launches": [_launch(cost) for cost in group.launches],
    }


def _launch(cost: LaunchCost) -> dict[str, Any]:
    time = cost.time
    return {
        "compile_id": time.compile_id,
        "pass": time.direction,
        "ordinal": time.ordinal,
        "kernel": time.kernel,
        "launch": time.launch,
        "line": cost.kernel.launches[time.launch].line if time.launch < len(cost.kernel.launches) else None,
        "microseconds": time.microseconds,
        "spread": time.spread,
        "runs": time.runs,
        "trust": time.trust,
        "device_kernels": time.device_kernels,
        "bytes_read": cost.traffic.read if cost.traffic else None,
        "bytes_written": cost.traffic.written if cost.traffic else None,
        "bytes_trust": cost.traffic.trust if cost.traffic else None,
        "flops": cost.work.flops if cost.work else None,
        "dtype": cost.work.dtype if cost.work else None,
        "floor_microseconds": cost.floor,
        "above_floor_microseconds": cost.above,
        "memory_share": cost.memory_share,
        "compute_share": cost.compute_share,
        "bound": cost.bound,
    }
