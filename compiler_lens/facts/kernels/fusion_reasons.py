"""Why Inductor's scheduler leaves two kernels apart: torch's sentences, sorted.

`WhyNoFuse` in torch/_inductor/scheduler.py says them, in 2.11, 2.13 and 2.15, from there and from choices.py,
codegen/simd.py and codegen/cutlass/scheduling.py.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from enum import Enum


class Reason(Enum):
    """What keeps two launches apart."""

    LIBRARY = "library"  # one of them is the call of a library, or of an op as it is
    LIBRARIES = "libraries"  # both are
    USER_KERNEL = "user kernel"  # one of them is the user's own Triton kernel
    DIFFERENT_ORDER = "different order"  # they go through what they share in different orders
    DIFFERENT_SIZES = "different sizes"  # their loops are of different lengths
    TILING = "tiling"  # they would be cut into blocks in different ways
    IN_BETWEEN = "in between"  # another kernel has to run after the one and before the other
    TOO_MANY_OPS = "too many ops"
    TOO_MANY_BUFFERS = "too many buffers"
    PEAK_MEMORY = "peak memory"
    FAR_APART = "far apart"
    LITTLE_SHARED = "little shared"
    SPILLS = "register spills"
    BEFORE_TEMPLATE = "before template"  # what goes into a template cannot be computed in it
    AFTER_TEMPLATE = "after template"  # what follows a template cannot be computed in it
    SWITCHED_OFF = "switched off"
    FOREACH = "foreach"
    SCAN = "scan"
    STAGED = "staged reduction"  # 2.15: reductions of reductions, in one kernel already
    STRICT_ORDER = "strict order"  # 2.15: reductions whose order of adding must be kept
    DEVICES = "devices"
    GROUPED = "grouped"  # nodes that must stay together, as for communication
    JOINED = "joined"  # the first writes a part of a concatenation, which the second reads
    NO_KERNEL = "no kernel"  # one of them is memory only
    NOT_TRIED = "not tried"  # torch gave no reason
    OTHER = "other"  # a sentence that we do not know


# How a sentence begins, or for those of CUTLASS what is in it; the first that fits.
SENTENCES: Mapping[str, Reason] = {
    # choices.py
    "no shared data due to indexing mismatch": Reason.DIFFERENT_ORDER,
    "no shared data": Reason.DIFFERENT_ORDER,
    "exceeds max fusion": Reason.TOO_MANY_OPS,
    "Fusion will increase peak memory": Reason.PEAK_MEMORY,
    "fusion_prevent_too_many_reads_and_writes": Reason.TOO_MANY_BUFFERS,
    "score_fusion_memory_threshold": Reason.LITTLE_SHARED,
    "Nodes are too far away": Reason.FAR_APART,
    # codegen/simd.py
    "Split scan cannot fuse with reductions": Reason.SCAN,
    "numel/rnumel mismatch (reduce)": Reason.DIFFERENT_SIZES,
    "numel/rnumel mismatch (non-reduce)": Reason.DIFFERENT_SIZES,
    "numel/rnumel mismatch prologue mismatch": Reason.BEFORE_TEMPLATE,
    "nodes numel/rnumel incompatibility": Reason.DIFFERENT_SIZES,
    "nodes numel incompatibility": Reason.DIFFERENT_SIZES,
    "tiling mismatch": Reason.TILING,
    "invalid tiling for reduction": Reason.TILING,
    "invalid loop order and tiling for native matmul": Reason.TILING,
    "staged reduction plan would be lost": Reason.STAGED,
    "invalid sub-parent epilogue fusion": Reason.STAGED,
    # scheduler.py, on foreach
    "foreach do not have same length": Reason.FOREACH,
    "candidate producer is a reduction, foreach ops": Reason.FOREACH,
    "candidate consumer is a reduction, foreach ops": Reason.FOREACH,
    "candidate producer is not dep of any foreach consumer": Reason.FOREACH,
    "candidate consumer has no dep in any foreach producer": Reason.FOREACH,
    "a consumer depends on another producer sub-node": Reason.FOREACH,
    # scheduler.py, on what cannot be part of a kernel
    "node1 is extern or nop": Reason.LIBRARY,
    "node2 is extern or nop": Reason.LIBRARY,
    "node1 is extern but not a triton kernel": Reason.LIBRARY,
    "node1 is nop": Reason.NO_KERNEL,
    "node1's triton kernel doesn't support epilogue fusion": Reason.USER_KERNEL,
    "node1 is extern but node2": Reason.USER_KERNEL,
    "epilogue reads from buffers other than the mutated output": Reason.USER_KERNEL,
    "epilogue is not a unary read of the output buffer": Reason.USER_KERNEL,
    "epilogue's read and write indices differ": Reason.USER_KERNEL,
    "node1 and node2 uses different buf layouts": Reason.USER_KERNEL,
    "grouped node must not be fused with other nodes": Reason.GROUPED,
    "fusion for buffer explicit disabled": Reason.SWITCHED_OFF,
    "device mismatch": Reason.DEVICES,
    # scheduler.py, on their order
    "node1 must go before node2": Reason.IN_BETWEEN,
    "will create cycle": Reason.IN_BETWEEN,
    "intermediate nodes between node1 & node2": Reason.IN_BETWEEN,
    "memory deps did not match": Reason.DIFFERENT_ORDER,
    # scheduler.py, after trying
    "register spilling of the": Reason.SPILLS,
    # scheduler.py, on templates
    "prologue fusion turned off": Reason.SWITCHED_OFF,
    "prologue fusion": Reason.BEFORE_TEMPLATE,
    "template has no allowed prologue inputs": Reason.BEFORE_TEMPLATE,
    "template prologue can only fuse": Reason.BEFORE_TEMPLATE,
    "template epilogue not satisfied": Reason.AFTER_TEMPLATE,
    "multi-output template epilogue requires ComputedBuffer": Reason.AFTER_TEMPLATE,
    # scheduler.py of 2.15: reductions of reductions, and reductions whose order counts
    "incompatible reduction contracts": Reason.STRICT_ORDER,
    "template fusion does not preserve strict reduction ordering": Reason.STRICT_ORDER,
    "reduction fusion does not preserve strict reduction ordering": Reason.STRICT_ORDER,
    "nested reduction append": Reason.STAGED,
    "sub-parent epilogue planning failed": Reason.STAGED,
    "consumer is not wholly in the sub-parent epilogue": Reason.STAGED,
    "staged fusion dependency proof failed": Reason.STAGED,
    # codegen/cutlass/scheduling.py
    "cutlass epilogue fusion is not enabled": Reason.SWITCHED_OFF,
    "epilogue fusion is only supported for TMA-enabled gemm ops": Reason.AFTER_TEMPLATE,
    "Cannot fuse epilogue node": Reason.AFTER_TEMPLATE,
    "external read": Reason.AFTER_TEMPLATE,
}
_CUTLASS = re.compile(
    r" has aliasing or mutation$| is not a ComputedBuffer$| is not a Pointwise op$| is a reduction which is not yet "
    r"supported by EVT$| does not have a computed buffer name$|'s\s+size: (?:(?!'s\s).)* differs from ",
    re.DOTALL,
)


def reason_of(sentence: str) -> Reason:
    """Return what a sentence of torch's means."""
    if not sentence:
        return Reason.NOT_TRIED
    for start, reason in SENTENCES.items():
        if sentence.startswith(start):
            return reason
    return Reason.AFTER_TEMPLATE if _CUTLASS.search(sentence) else Reason.OTHER
