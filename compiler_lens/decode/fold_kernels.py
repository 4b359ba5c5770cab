"""Joins kernels read from output codes with what our hooks know of them: their nodes, their configs."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any, TypeVar

from compiler_lens.decode.facts import CodeKey, Fusion, KernelNodes, TritonTuning
from compiler_lens.decode.output_code import aot_id
from compiler_lens.recording.model import CompileId, Direction, Kernel, KernelConfig, KernelKind, OutputCode, Trust

Value = TypeVar("Value")
Fact = TypeVar("Fact", CodeKey, KernelNodes, Fusion)  # of an output code, in the order in which they were written
# The program of a compilation. On a cache hit a hook may call an inference graph "forward": only one of them exists.
Program = tuple[CompileId, bool]
Place = tuple[Program, int]  # an output code: which of its program's, from 0
# A kernel by compilation and name, and whether it is a backward's, if that is known.
_TuningKey = tuple[CompileId, str, "bool | None"]
# The node lists of one kernel name, one for each code generation call, in order.
NodeLists = Mapping[str, Sequence[tuple[str, ...]]]


def join_kernels(
    kernels: Sequence[Kernel], nodes: Sequence[KernelNodes], tunings: Sequence[TritonTuning]
) -> tuple[Kernel, ...]:
    """The same kernels, with exact nodes and the configs tried, and numbered by output code."""
    numbered = _numbered(kernels)
    told = _node_lists(numbered, nodes)
    tuned = _tunings_by_kernel(numbered, tunings)
    return tuple(
        _with_tunings(_with_nodes(kernel, told.get(place_of(kernel), {}).get(kernel.name, ())), tuned.get(index, ()))
        for index, kernel in enumerate(numbered)
    )


def number_output_codes(codes: Iterable[OutputCode], keys: Iterable[CodeKey] = ()) -> tuple[OutputCode, ...]:
    """The same output codes with their keys, numbered: DDP splits make several for one compilation and pass."""
    codes = tuple(codes)
    programs = [_program(code.compile_id, code.direction) for code in codes]
    ordinals = _ordinals(zip(programs, (aot_id(code.code) for code in codes), strict=True))
    told = _keys_in_order(set(zip(programs, ordinals, strict=True)), keys)
    return tuple(
        replace(code, ordinal=ordinal, key=told.get((program, ordinal), ""))
        for code, ordinal, program in zip(codes, ordinals, programs, strict=True)
    )


def _keys_in_order(places: Iterable[Place], keys: Iterable[CodeKey]) -> Mapping[Place, str]:
    # A graph is done after its code is written and before the next one's is, so they come in one order.
    counts = Counter(program for program, _ in places)
    matched = {program: listed for program, listed in _by_program(keys).items() if len(listed) == counts[program]}
    return {(program, ordinal): e.key for program, listed in matched.items() for ordinal, e in enumerate(listed)}


def _numbered(kernels: Sequence[Kernel]) -> list[Kernel]:
    ordinals = _ordinals((_program(k.compile_id, k.direction), str(k.meta.get("aot_id", ""))) for k in kernels)
    return [replace(k, ordinal=ordinal) for k, ordinal in zip(kernels, ordinals, strict=True)]


def _ordinals(places: Iterable[tuple[Program, str]]) -> list[int]:
    seen: dict[Program, dict[str, int]] = defaultdict(dict)
    return [seen[program].setdefault(aot, len(seen[program])) for program, aot in places]


def _program(compile_id: CompileId, direction: Direction) -> Program:
    return compile_id, direction is Direction.BACKWARD


def place_of(kernel: Kernel) -> Place:
    """The output code that it is in."""
    return _program(kernel.compile_id, kernel.direction), kernel.ordinal


# Which name our hook hears (on 2.11, 2.13 and 2.15 alike):
# - triton and C++: codegen_comment() in codegen/triton.py and codegen/cpp.py passes what define_kernel() returned, the
#   final name; CUTLASS, CuteDSL, NVGEMM likewise. A multi-kernel goes by its own name (codegen/simd.py), so the kernels
#   that it chooses from have no entry.
# - extern: ExternKernel.codegen_comment() in ir.py passes get_kernel_name(), the text of the call: "extern_kernels.mm",
#   "torch.ops.aten.topk.default". A user's Triton kernel passes its numbered name.
# - nothing for mix-order reductions (codegen_comment(node_schedule, None) in codegen/simd.py), scatter and index_put
#   fallbacks, device copies and in-place random fills.
# - each part of a combo kernel hears of the nodes of all its parts (codegen_combo_kernel() in codegen/simd.py).
def _node_lists(kernels: Sequence[Kernel], nodes: Sequence[KernelNodes]) -> dict[Place, NodeLists]:
    matched = in_place(kernels, nodes)
    told = _by_program(nodes)  # which belongs to which is not known: what a name computes still is, over all of them
    return {
        place: _by_name([matched[place]] if place in matched else told[place[0]])
        for place in dict.fromkeys(place_of(kernel) for kernel in kernels)
        if place[0] in told
    }


def in_place(kernels: Iterable[Kernel], facts: Iterable[Fact]) -> dict[Place, Fact]:
    """What our hook told of each output code: the same order, where there is one of it for each code."""
    ordinals: dict[Program, dict[int, None]] = defaultdict(dict)
    for kernel in kernels:
        program, ordinal = place_of(kernel)
        ordinals[program][ordinal] = None
    told = _by_program(facts)
    matched = {program: listed for program, listed in told.items() if len(listed) == len(ordinals[program])}
    return {
        (program, ordinal): fact
        for program, listed in matched.items()
        for ordinal, fact in zip(ordinals[program], listed, strict=True)
    }


def _by_program(facts: Iterable[Fact]) -> Mapping[Program, list[Fact]]:
    told: dict[Program, list[Fact]] = defaultdict(list)
    for fact in facts:
        told[_program(fact.compile_id, fact.direction)].append(fact)
    return told


def _by_name(entries: Iterable[KernelNodes]) -> NodeLists:
    lists: dict[str, list[tuple[str, ...]]] = defaultdict(list)
    for entry in entries:
        for name, nodes in entry.kernels:
            lists[name].append(nodes)
    return lists


def _with_nodes(kernel: Kernel, lists: Sequence[tuple[str, ...]]) -> Kernel:
    nodes = tuple(dict.fromkeys(node for listed in lists for node in listed))
    if not nodes:
        return kernel
    launches = kernel.launches
    if len(lists) == len(launches):  # both are in the order of code generation
        launches = tuple(replace(launch, nodes=listed) for launch, listed in zip(launches, lists, strict=True))
    return replace(kernel, nodes=nodes, trust=Trust.EXACT, launches=launches)


def _tunings_by_kernel(kernels: Sequence[Kernel], tunings: Sequence[TritonTuning]) -> dict[int, list[TritonTuning]]:
    # Forward and backward may have kernels of one name, and torch does not say which it tells of: they are tuned in
    # the order in which they were compiled.
    places: dict[_TuningKey, list[int]] = defaultdict(list)
    for index, kernel in enumerate(kernels):
        for name in {kernel.name, str(kernel.meta.get("compiled_as", kernel.name))}:
            for backward in (None, kernel.direction is Direction.BACKWARD):
                places[kernel.compile_id, name, backward].append(index)
    found: dict[int, list[TritonTuning]] = defaultdict(list)
    for reported_by_torch in (False, True):
        for key, entries in _grouped(tunings, reported_by_torch=reported_by_torch).items():
            for index, entry in _paired(places.get(key, []), entries):
                found[index].append(entry)
    return found


def _grouped(tunings: Iterable[TritonTuning], *, reported_by_torch: bool) -> dict[_TuningKey, list[TritonTuning]]:
    groups: dict[_TuningKey, list[TritonTuning]] = defaultdict(list)
    for tuning in tunings:
        if bool(tuning.info) is reported_by_torch:
            groups[tuning.compile_id, tuning.kernel, tuning.backward].append(tuning)
    return groups


def _paired(places: Sequence[int], entries: Sequence[Value]) -> Iterable[tuple[int, Value]]:
    if len(places) == 1:
        return [(places[0], entry) for entry in entries]
    return zip(places, entries, strict=True) if len(places) == len(entries) else ()


def _with_tunings(kernel: Kernel, tunings: Sequence[TritonTuning]) -> Kernel:
    if not tunings:
        return kernel
    timed = [row for tuning in tunings if not tuning.info for row in tuning.configs]
    known = [row for tuning in tunings if tuning.info for row in tuning.configs]
    configs = _configs(timed) or kernel.configs or _configs(known)  # a template's source tells more than torch's log
    if timed and _descended(kernel) and not any(row.get("chosen") and row.get("milliseconds") is None for row in timed):
        configs = tuple(replace(config, chosen=False) for config in configs)
    info = {key: value for tuning in tunings for key, value in tuning.info.items()}
    return replace(kernel, configs=configs, meta={**kernel.meta, **info})


def _descended(kernel: Kernel) -> bool:
    # CachingAutotuner.run() in torch/_inductor/runtime/triton_heuristics.py goes on from the fastest of the configs, so
    # that one is not what runs. A config chosen without a time is the hook's word on where the descent ended.
    return bool(kernel.meta.get("coordinate_descent_tuning")) and kernel.kind is KernelKind.TRITON


def _configs(rows: Iterable[Mapping[str, Any]]) -> tuple[KernelConfig, ...]:
    """Each config once: of those told twice the later timing holds, if it has one, and the later choice."""
    rows = list(rows)
    by_values: dict[tuple[tuple[str, str], ...], Mapping[str, Any]] = {}
    for row in rows:
        key = tuple(sorted((name, str(value)) for name, value in row["values"].items()))
        if row.get("milliseconds") is not None or key not in by_values:
            by_values[key] = row
    chosen = next((row for row in reversed(rows) if row.get("chosen")), None)
    configs = [
        KernelConfig(
            values=dict(row["values"]),
            milliseconds=row.get("milliseconds"),
            registers=row.get("registers"),
            spills=row.get("spills"),
            shared_bytes=row.get("shared_bytes"),
            chosen=chosen is not None and row["values"] == chosen["values"],
        )
        for row in by_values.values()
    ]
    return tuple(sorted(configs, key=_milliseconds))


def _milliseconds(config: KernelConfig) -> float:
    return float("inf") if config.milliseconds is None else config.milliseconds
