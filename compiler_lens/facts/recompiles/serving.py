"""Which compilation of a model that serves is for the prompt (prefill), and which for a token after it (decode)."""

from __future__ import annotations

import re
from collections.abc import Mapping
from enum import Enum

from compiler_lens.facts.recompiles.guard_values import EntryValues
from compiler_lens.recording.model import CompileId

_RANK_OF = re.compile(r"dim of (?P<tensor>[\w.]+)\Z")
_TOKENS = re.compile(r"(?:^|_|\.)(?:ids|tokens?|embeds|hidden_states)\Z", re.IGNORECASE)


class Stage(Enum):
    """What a call of such a model is for."""

    PREFILL = "prefill"
    DECODE = "decode"


def stages(entries: Mapping[CompileId, EntryValues]) -> tuple[tuple[CompileId, Stage], ...]:
    """Return what each compilation is for, by the length of its tokens; nothing where not both kinds are there."""
    found = [(compile_id, stage) for compile_id, values in entries.items() if (stage := _stage(values))]
    return tuple(found) if len({stage for _, stage in found}) == len(Stage) else ()


def _stage(values: EntryValues) -> Stage | None:
    """One token, or several: `input_ids` of [batch, length], `hidden_states` of [batch, length, width]."""
    for key in values.values:
        found = _RANK_OF.match(key)
        if found and _TOKENS.search(found["tensor"]) and (length := values.values.get(f"{found['tensor']}.shape[1]")):
            return Stage.DECODE if length == "1" else Stage.PREFILL
    return None
