"""Why two kernels are not one, in words, and what can be done where something can."""

from __future__ import annotations

from collections.abc import Mapping

from compiler_lens.facts.kernels.fusion import Cause
from compiler_lens.facts.kernels.fusion_reasons import Reason
from compiler_lens.facts.kernels.library_calls import Library, Template, can_try, template_of
from compiler_lens.recording.model import Compilation, Environment, Launch

# What is said of a pair.
REASONS: Mapping[Reason, str] = {
    Reason.LIBRARY: "one is a library's",
    Reason.LIBRARIES: "both are calls of libraries",
    Reason.USER_KERNEL: "one is your own Triton kernel",
    Reason.DIFFERENT_ORDER: "they go through what they share in different orders",
    Reason.DIFFERENT_SIZES: "their loops have different lengths",
    Reason.TILING: "they are cut into blocks in different ways",
    Reason.IN_BETWEEN: "another kernel has to run between the two",
    Reason.TOO_MANY_OPS: "one kernel would have too many ops",
    Reason.TOO_MANY_BUFFERS: "one kernel would read and write too many buffers",
    Reason.PEAK_MEMORY: "one kernel would need more memory at once",
    Reason.FAR_APART: "they are far apart, and what the one makes would have to be kept for the other",
    Reason.LITTLE_SHARED: "they share next to nothing",
    Reason.SPILLS: "one kernel would run out of registers",
    Reason.BEFORE_TEMPLATE: "one is a template, which cannot take in the other as work on its inputs",
    Reason.AFTER_TEMPLATE: "one is a template, which cannot take in the other as work on its result",
    Reason.SWITCHED_OFF: "a setting forbids it",
    Reason.FOREACH: "one does the same to a list of tensors, and the other does not fit each of them",
    Reason.SCAN: "one is a scan over blocks, the other a reduction",
    Reason.STAGED: "one is a reduction in several steps already",
    Reason.STRICT_ORDER: "a reduction would add in another order, which its settings forbid",
    Reason.DEVICES: "they are on different devices",
    Reason.GROUPED: "one belongs to a group that must stay together",
    Reason.JOINED: "the first writes a part of a concatenation, and the second reads the whole",
    Reason.NO_KERNEL: "one only makes memory",
    Reason.NOT_TRIED: "torch gave no reason",
    Reason.OTHER: "torch's own word",
}

# What torch's own sentence leaves out.
MEANT: Mapping[str, str] = {"no shared data": " (none that both go through in the same order)"}

LIBRARIES: Mapping[Library, str] = {
    Library.PRODUCT: "one is a library's matrix product",
    Library.CONVOLUTION: "one is a library's convolution",
    Library.ATTENTION: "one is a library's attention",
    Library.CHOSEN: "one is a library's kernel, which autotuning found fastest",
    Library.COPY: "one is a copy",
    Library.NO_LOWERING: "one is an op that Inductor calls as it is",
}

_TRIED = 'mode="max-autotune" also tries kernels of Inductor\'s own, which can compute what follows: for {} pairs'
NO_TEMPLATES: Mapping[Template, str] = {
    Template.CONSTANT_WEIGHT: (
        "on a CPU Inductor has matrix products of its own only for weights that freezing makes constants"
    ),
    Template.NONE: "on a CPU Inductor has no convolution of its own",
}
_NOT_TRIED: Mapping[Template, str] = {
    Template.CONSTANT_WEIGHT: 'mode="max-autotune" alone changes nothing',
    Template.NONE: 'mode="max-autotune" changes nothing',
}

# What can be done, where something can. "{ops}": of the largest pair.
_ADVICE: Mapping[Reason, str] = {
    Reason.TOO_MANY_OPS: 'options={{"max_fusion_size": {ops}}} allows it; the default is 64',
    Reason.TOO_MANY_BUFFERS: 'options={{"max_fusion_unique_io_buffers": {buffers}}} allows it',
    Reason.TILING: (
        'options={{"triton.tiling_prevents_pointwise_fusion": False}} allows it, for slower access to memory, '
        "and triton.tiling_prevents_reduction_fusion likewise"
    ),
    Reason.SWITCHED_OFF: (
        "epilogue_fusion, prologue_fusion and cutlass.cutlass_epilogue_fusion_enabled are the settings, "
        'as options={{"epilogue_fusion": True}}'
    ),
    Reason.USER_KERNEL: (
        'options={{"epilogue_fusion_user_defined_triton_kernel": True}} lets simple work on its result go into it '
        "(torch 2.13 and later)"
    ),
}
_TEMPLATED = (Library.PRODUCT, Library.CONVOLUTION)


def reason(cause_reason: Reason, library: Library | None) -> str:
    """What keeps two launches apart."""
    return LIBRARIES[library] if library else REASONS[cause_reason]


def remedy(cause: Cause, compilation: Compilation | None, environment: Environment) -> str:
    """What to do about it, compiled in this way; empty where nothing is known to help."""
    if cause.library is not None:
        return _with_template(cause, compilation, environment) if cause.library in _TEMPLATED else ""
    launches = [(pair.first.launch, pair.second.launch) for pair in cause.pairs]
    ops = max((len(first.ops) + len(second.ops) for first, second in launches), default=0)
    buffers = max((len(_buffers(first) | _buffers(second)) for first, second in launches), default=0)
    return _ADVICE.get(cause.reason, "").format(ops=ops, buffers=buffers)


def _with_template(cause: Cause, compilation: Compilation | None, environment: Environment) -> str:
    """A template takes in what follows the call that it stands for, not what comes before."""
    helped = sum(can_try(pair.first.kernel, compilation, environment) for pair in cause.pairs)
    if helped:
        return _TRIED.format(
            "all of these" if helped == len(cause.pairs) else f"{helped:,} of these {len(cause.pairs):,}"
        )
    known = {template_of(side.kernel) for pair in cause.pairs for side in (pair.first, pair.second)} - {None}
    told = next((template for template in NO_TEMPLATES if known == {template}), None)
    return f"{NO_TEMPLATES[told]}: {_NOT_TRIED[told]}" if told else ""


def _buffers(launch: Launch) -> set[str]:
    return {access.name for access in (*launch.reads, *launch.writes)}
