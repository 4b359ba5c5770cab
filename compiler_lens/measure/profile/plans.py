"""What was to run: the launches of each output code in their order; and the code that a call of a graph follows."""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

from msgspec import Struct
from msgspec.structs import replace

from compiler_lens.facts.kernels.launches import running_order
from compiler_lens.measure.profile.trace import Range
from compiler_lens.recording.ids import CodeId, CompileId, LaunchId
from compiler_lens.recording.model import (
    CacheLayer,
    Kernel,
    KernelKind,
    OutputCode,
    Recording,
    Remark,
)


class Planned(Struct, frozen=True):
    """One launch, and how it is recognised."""

    id: LaunchId
    anchors: frozenset[str]  # the names by which the device knows it for sure; none for a library's call
    op: str  # the op of the CPU that a library's call is
    on_host: bool


class Plan(Struct, frozen=True):
    """The launches of one output code, in the order in which they run."""

    code: OutputCode
    launches: tuple[Planned, ...]
    names: Counter[str]


def _plan(code: OutputCode, kernels: Sequence[Kernel]) -> Plan:
    place = running_order(code.code)
    known = {kernel.name: kernel for kernel in kernels}
    placed: list[tuple[Any, Planned]] = []
    for kernel in kernels:
        anchors, op = _anchors(kernel, known), _op_name(kernel.name)
        on_host = kernel.device.partition(":")[0] == "cpu"
        for index, launch in enumerate(kernel.launches):
            placed.append((place(launch.line), Planned(kernel.launch_id(index), anchors, op, on_host)))
    launches = tuple(launch for _, launch in sorted(placed, key=lambda pair: pair[0]))
    return Plan(code, launches, Counter(name for launch in launches for name in launch.anchors or (launch.op,)))


_FUNCTION = re.compile(r"^\s*def (\w+)\(", re.MULTILINE)


def _anchors(kernel: Kernel, known: Mapping[str, Kernel]) -> frozenset[str]:
    if kernel.kind.is_library:
        return frozenset()
    names = {kernel.name, str(kernel.meta.get("compiled_as", kernel.name))}
    for choice in kernel.meta.get("choices", ()):  # of a multi-kernel: one of them runs
        names |= {str(choice), *_FUNCTION.findall(known[choice].source if choice in known else "")}
    if kernel.kind is KernelKind.USER:  # numbered in the output code, by its own name on the device
        names |= set(_FUNCTION.findall(kernel.source))
    return frozenset(names)


def _op_name(kernel: str) -> str:
    """`extern_kernels.bias_addmm` -> addmm, `torch.ops.aten.topk.default` -> topk, `Tensor.copy_` -> copy_."""
    parts = kernel.removeprefix("torch.ops.").split(".")
    if len(parts) > 2:  # noqa: PLR2004 -- namespace, op, overload
        return parts[1]
    return parts[-1].removeprefix("bias_")


def with_keys(recording: Recording) -> tuple[OutputCode, ...]:
    """Return the output codes with the keys of torch's cache; one without its own gets what the cache was asked for."""
    asked: dict[CompileId, list[str]] = defaultdict(list)
    for outcome in recording.caches:
        if outcome.layer is CacheLayer.FX_GRAPH and outcome.key:
            asked[outcome.compile_id].append(outcome.key)
    by_id: dict[CompileId, list[OutputCode]] = defaultdict(list)
    for code in recording.output_codes:
        by_id[code.compile_id].append(code)
    keys: dict[CodeId, str] = {}
    for compile_id, codes in by_id.items():
        if len(asked[compile_id]) == len(codes):  # both in the order of compiling
            keys.update({code.id: key for code, key in zip(codes, asked[compile_id], strict=True)})
    found = [(code, code.key or keys.get(code.id, "")) for code in recording.output_codes]
    return tuple(code if code.key == key else replace(code, key=key) for code, key in found)


class Plans:
    """The plans of a recording, and which of them a range follows."""

    def __init__(self, codes: Sequence[OutputCode], kernels: Sequence[Kernel]) -> None:
        own: dict[CodeId, list[Kernel]] = defaultdict(list)
        for kernel in kernels:
            own[kernel.code_id].append(kernel)
        self._all = [_plan(code, own.get(code.id, ())) for code in codes]
        self._by_key: dict[str, list[Plan]] = defaultdict(list)
        for plan in self._all:
            self._by_key[plan.code.key].append(plan)
        self._alike: dict[tuple[str, ...], Plan | None] = {}

    def of(self, one: Range, names: Iterable[str], note: Callable[[Remark], object]) -> Plan | None:
        """Return the plan of a range: by its key, else by its kernels, whose names these are."""
        same = self._by_key.get(one.key, []) if one.key else []
        if len(same) > 1 and one.region:
            same = [plan for plan in same if str(plan.code.compile_id).partition("@")[0] == one.region] or same
        if not same:
            return self._likely(tuple(names), note)
        if len({(str(plan.code.compile_id), plan.code.direction) for plan in same}) > 1:
            note(Remark.SAME_CODE)
        return same[-1]

    def _likely(self, names: tuple[str, ...], note: Callable[[Remark], object]) -> Plan | None:
        if names not in self._alike:
            self._alike[names] = _most_alike(Counter(names), self._by_key.get("") or self._all)
        likely = self._alike[names]
        note(Remark.UNKNOWN_GRAPH if likely is None else Remark.BY_NAMES)
        return likely


def _most_alike(names: Counter[str], plans: Iterable[Plan]) -> Plan | None:
    """The code whose kernels these are; none if no generated kernel is among them."""

    def likeness(plan: Plan) -> tuple[int, int]:
        shared = sum((plan.names & names).values())
        return shared, -abs(len(plan.launches) - shared)

    return max((plan for plan in plans if likeness(plan)[0]), key=likeness, default=None)
