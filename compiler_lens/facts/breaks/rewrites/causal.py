"""A mask of `torch.nn.Transformer` and its parts: they compare it with a causal one unless they are told what it is."""

from __future__ import annotations

import ast

from compiler_lens.facts.breaks.remedies import Rewrite
from compiler_lens.facts.breaks.rewrites.site import Change, Site
from compiler_lens.facts.breaks.rewrites.syntax import called, calls_in
from compiler_lens.recording.model import BreakCause

_TOLD = {"mask": "is_causal", "src_mask": "src_is_causal", "tgt_mask": "tgt_is_causal"}
_POSITIONS = {1: "is_causal", 2: "tgt_is_causal"}  # of a mask among what an encoder, and a decoder, is given
_MAKES_CAUSAL = "generate_square_subsequent_mask"
_IS = "torch is told that the mask is causal, and does not look"
_MAY_BE = "torch takes the mask as it is, and does not look whether it is causal: on a GPU that may be slower"


def told_causal(site: Site, _cause: BreakCause) -> Rewrite | None:
    """Write `tgt_is_causal=True` beside a mask that is made as a causal one, and False beside any other."""
    changes: list[Change] = []
    prices: dict[str, None] = {}
    for call in calls_in(site.statement):
        mask, told = _mask(call)
        if mask is None or any(one.arg in {told, None} for one in call.keywords):
            continue
        is_causal = _is_made_causal(site, mask)
        last = call.keywords[-1].value if call.keywords else call.args[-1]
        changes.append((last, f"{site.source(last)}, {told}={is_causal}"))
        prices[_IS if is_causal else _MAY_BE] = None
    return site.edit(changes, "; ".join(prices)) if changes else None


def _mask(call: ast.Call) -> tuple[ast.expr | None, str]:
    """Return the mask that a call gives, and the word that says whether it is causal."""
    for keyword in call.keywords:
        if keyword.arg in _TOLD:
            return keyword.value, _TOLD[keyword.arg]
    place = len(call.args) - 1
    mask = call.args[-1] if place in _POSITIONS and isinstance(call.func, ast.Attribute) else None
    return (mask, _POSITIONS[place]) if isinstance(mask, ast.Name) and "mask" in mask.id else (None, "")


def _is_made_causal(site: Site, mask: ast.expr) -> bool:
    value = site.value_of(mask.id) if isinstance(mask, ast.Name) else mask
    return value is not None and any(called(one) == _MAKES_CAUSAL for one in calls_in(value))
