"""A comparison of modes as JSON, and back."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from compiler_lens.facts.measured.modes import (
    Comparison,
    Deviation,
    Row,
    above_noise,
    break_even,
    choose,
    no_verdict,
    speedup,
)
from compiler_lens.recording.codec import plain, unpacked
from compiler_lens.recording.errors import PayloadError, RecordingFileError
from compiler_lens.views.json import FORMAT


def modes_json(result: Comparison) -> str:
    """The rows for programs: every field of them, what follows from them, and the name of the one to use."""
    best = choose(result)
    data = {name: getattr(result, name) for name in Comparison.__dataclass_fields__ if name != "diffs_told"}
    data["rows"] = [plain(row) | _derived(row, result) for row in result.rows]
    data["best"] = best.row.name if best else None
    data["best_because"] = best.why if best else no_verdict(result)
    data["diffs"] = {name: list(lines) for name, lines in told_diffs(result).items()}
    return json.dumps(plain({"format": FORMAT, "view": "modes"} | data), indent=1, allow_nan=False)


def _derived(row: Row, result: Comparison) -> dict[str, Any]:
    return {
        "seconds": row.seconds,
        "speedup": speedup(row, result.eager),
        "above_noise_of_eager": above_noise(row, result.eager) if result.eager else None,
        "break_even_cold": break_even(row, result.eager, row.cold_seconds),
        "break_even_warm": break_even(row, result.eager, row.warm_seconds),
        "medians": {timing.phase: timing.median for timing in row.timings},
        "tokens_per_second": {timing.phase: timing.tokens_per_second for timing in row.timings},
    }


def told_diffs(result: Comparison) -> Mapping[str, tuple[str, ...]]:
    """The differences of each row from default in a few lines, as they are shown."""
    diffs: Mapping[str, Any] = getattr(result, "diffs", {})
    if not diffs:
        return result.diffs_told
    return {name: _told(diff) for name, diff in diffs.items()}


def _told(diff: Any) -> tuple[str, ...]:
    from compiler_lens.views.diff.summary import summary_lines

    return tuple(summary_lines(diff))


def comparison_of(text: str) -> Comparison:
    """What `modes_json` wrote. Raises `RecordingFileError` for any other text."""
    try:
        data = json.loads(text)
        if data["view"] != "modes" or data["format"] != FORMAT:
            raise RecordingFileError(f"this is {data['view']}, format {data['format']}, and not modes, format {FORMAT}")
        return _comparison(data)
    except (PayloadError, ValueError, KeyError, TypeError, AttributeError) as error:
        raise RecordingFileError("this is not the JSON of a comparison of modes") from error


def _comparison(data: Mapping[str, Any]) -> Comparison:
    found = unpacked(Comparison, {**data, "rows": [], "diffs_told": data["diffs"]})
    return replace(found, rows=tuple(map(_row, data["rows"])))


def _row(data: Mapping[str, Any]) -> Row:
    row, deviation = unpacked(Row, {**data, "deviation": None}), data["deviation"]
    return replace(
        row, deviation=Deviation(**{name: _number(deviation[name]) for name in deviation}) if deviation else None
    )


def _number(value: float | None) -> float:
    return math.inf if value is None else float(value)  # JSON has no infinity
