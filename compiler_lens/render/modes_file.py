"""A comparison of modes from the JSON that it was written to."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from typing import Any

from compiler_lens.analysis.modes import Comparison, Compiled, Deviation, Row, Timing
from compiler_lens.errors import RecordingFileError
from compiler_lens.model import SourceLine
from compiler_lens.render.json import FORMAT


def comparison_of(text: str) -> Comparison:
    """What `modes_json` wrote. Raises `RecordingFileError` for any other text."""
    try:
        data = json.loads(text)
        if data["view"] != "modes" or data["format"] != FORMAT:
            raise RecordingFileError(f"this is {data['view']}, format {data['format']}, and not modes, format {FORMAT}")
        return _comparison(data)
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise RecordingFileError("this is not the JSON of a comparison of modes") from error


def _comparison(data: Mapping[str, Any]) -> Comparison:
    return Comparison(
        rows=tuple(map(_row, data["rows"])),
        phases=tuple(data["phases"]),
        orders=tuple(map(tuple, data["orders"])),
        notes=tuple(data["notes"]),
        diffs_told={name: tuple(lines) for name, lines in data["diffs"].items()},
        **{name: data[name] for name in ("device", "torch", "training", "reference", "seed", "calls")},
    )


def _row(data: Mapping[str, Any]) -> Row:
    plain = ("cold_seconds", "warm_seconds", "peak_bytes", "compile_peak_bytes", "failure")
    line, deviation, compiled = data["failure_line"], data["deviation"], data["compiled"]
    return Row(
        data["name"],
        arguments=dict(data["arguments"]),
        timings=tuple(Timing(t["phase"], _passes(t["passes"]), t["tokens"]) for t in data["timings"]),
        failure_line=SourceLine(**line) if line else None,
        deviation=Deviation(_number(deviation["relative"]), _number(deviation["largest"])) if deviation else None,
        compiled=Compiled(**{**compiled, "skipped": tuple(compiled["skipped"])}) if compiled else None,
        **{name: data[name] for name in plain},
    )


def _passes(passes: Sequence[Sequence[float]]) -> tuple[tuple[float, ...], ...]:
    return tuple(tuple(float(seconds) for seconds in one) for one in passes)


def _number(value: float | None) -> float:
    return math.inf if value is None else float(value)  # JSON has no infinity
