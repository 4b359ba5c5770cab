"""The words for in what two launches differ that compute the same."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping

from compiler_lens.facts.compare.model import Aspect, Difference, KernelChange
from compiler_lens.recording.model import KernelKind
from compiler_lens.views import words
from compiler_lens.views.text import times

# In what two launches differ.
ASPECTS: Mapping[Aspect, str] = {
    Aspect.KIND: "kind",
    Aspect.OPS: "ops",
    Aspect.FUSED: "fused with it",
    Aspect.MOVED: "moved",
    Aspect.SIZES: "sizes",
    Aspect.DTYPE: "dtype",
    Aspect.REDUCTION: "loops",
    Aspect.TEMPLATE: "template",
    Aspect.TILING: "tiling",
    Aspect.WARPS: "warps",
    Aspect.ACCESS: "memory accesses",
    Aspect.CODE: "code",
}

CONSTANTS = ("BLOCK_M", "BLOCK_N", "BLOCK_K")  # of a template's constants, those that a reader looks for first
_KINDS = frozenset(kind.value for kind in KernelKind)
_SHOWN = 3  # differences of one change, told in one line
_LONGEST = 60  # of a value
_ARROW = "→"


def sizes(change: KernelChange) -> str:
    """`sizes 8 → 24`, where all that differs follows from that."""
    shapes = [d for case in change.cases for d in case.differences if d.aspect is Aspect.SIZES]
    if not shapes or not set(change.aspects) <= {Aspect.SIZES, Aspect.ACCESS, Aspect.TILING, Aspect.WARPS}:
        return ""
    dims: dict[tuple[str, str], None] = {}
    for d in shapes:
        before, after = (value.strip("[]").split(", ") for value in (d.before, d.after))
        if len(before) == len(after):
            dims.update(dict.fromkeys(pair for pair in zip(before, after, strict=True) if pair[0] != pair[1]))
    told = [f"{before} {_ARROW} {after}" for before, after in dims]
    return f"sizes {', '.join(told[:_SHOWN])}{', …' if len(told) > _SHOWN else ''}" if told else "other sizes"


def differences(found: Iterable[Difference], most: int = _SHOWN) -> str:
    """`XBLOCK 512 → 128, num_warps 4 → 8`: the telling ones first."""
    listed = [d for d in found if not _is_detail(d)]
    if any(d.aspect is Aspect.KIND for d in listed):
        listed = [d for d in listed if d.aspect in (Aspect.KIND, Aspect.FUSED, Aspect.TEMPLATE, Aspect.DTYPE)]
    listed.sort(key=lambda d: (list(Aspect).index(d.aspect), d.name not in CONSTANTS or CONSTANTS.index(d.name) - 9))
    told = list(dict.fromkeys(filter(None, map(difference, listed))))
    return ", ".join(told[:most]) + (", …" if len(told) > most else "")


def _is_detail(d: Difference) -> bool:
    return d.aspect is Aspect.TEMPLATE and not (d.before and d.after) and d.name not in CONSTANTS


def difference(d: Difference) -> str:
    """One difference in words."""
    before, after = (_value(d, value) for value in (d.before, d.after))
    if d.aspect is Aspect.FUSED:
        parts = [f"no longer {before}" if before else "", f"also {after}" if after else ""]
        return ", ".join(part for part in parts if part)
    if d.aspect is Aspect.MOVED:
        return f"{words.op_name(d.name)} moved from {d.before} to {d.after}"
    if d.aspect is Aspect.KIND and "." in d.before and "." in d.after:
        return ""  # two functions of a library: their names say it
    if d.aspect is Aspect.CODE:
        return "other code"
    if d.aspect is Aspect.ACCESS and not d.name:
        return "other memory accesses"
    name = f"{d.name} " if d.name else ""
    return f"{name}{before} {_ARROW} {after}" if before and after else f"{name}{before or after}"


def _value(d: Difference, value: str) -> str:
    if d.aspect in (Aspect.OPS, Aspect.FUSED):
        return op_names(value.split())
    if d.aspect is Aspect.KIND:
        if value in _KINDS:
            return words.KERNEL_KINDS[KernelKind(value)]
        return words.KERNEL_KINDS[KernelKind.EXTERN] if "." in value else value  # a function's name, or a language's
    return value if len(value) <= _LONGEST else value[: _LONGEST - 1] + "…"


def op_names(targets: Iterable[str]) -> str:
    """Ops by their short names, each once."""
    counts = Counter(words.op_name(target) for target in targets)
    told = [f"{op} {times(n)}" if n > 1 else op for op, n in counts.items()]
    return ", ".join(told[:_SHOWN]) + (", …" if len(told) > _SHOWN else "")
