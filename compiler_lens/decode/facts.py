"""What readers find that is not yet a value of `model`: pieces that the fold joins. Standard library only."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from compiler_lens.recording.model import BreakCause, BufferAccess, CompileId, Direction, Node, SourceLine, Subgraph


@dataclass(frozen=True, slots=True)
class FrameStart:
    """A frame entered the compiler (`dynamo_start`, or our own hook, which knows more)."""

    compile_id: CompileId
    at: float
    stack: tuple[SourceLine, ...] = ()
    function: str = ""
    file: str = ""
    line: int = 0
    attempt: int = 0
    backend: str = ""
    mode: str = ""
    options: Mapping[str, str] = field(default_factory=dict)
    dynamic: bool | None = None
    module: str = ""
    definition: SourceLine | None = None
    parameters: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class FrameEnd:
    """A frame left the compiler, as our hook saw it."""

    compile_id: CompileId
    at: float
    result: str  # "code", "none" or "error"
    reason: str = ""


@dataclass(frozen=True, slots=True)
class Metrics:
    """`compilation_metrics` or `bwd_compilation_metrics`."""

    compile_id: CompileId
    at: float
    values: Mapping[str, Any]
    backward: bool = False


@dataclass(frozen=True, slots=True)
class Failure:
    """`dynamo_error`: a compilation ended with an exception."""

    compile_id: CompileId
    cause: BreakCause | None
    message: str
    line: SourceLine | None
    text: str


@dataclass(frozen=True, slots=True)
class ResumeName:
    """The name of a resume function that torch made for a break."""

    compile_id: CompileId
    name: str  # torch_dynamo_resume_in_forward_at_23


@dataclass(frozen=True, slots=True)
class GraphText:
    """A graph as torch printed it, and the nodes read from that text."""

    compile_id: CompileId
    name: str  # the event's: "aot_forward_graph"
    code: str
    nodes: tuple[Node, ...]
    subgraphs: tuple[Subgraph, ...] = ()
    attempt: int = 0


@dataclass(frozen=True, slots=True)
class NodeFact:
    """What live objects told of one node, beyond the text."""

    name: str
    module: str = ""
    module_type: str = ""
    origins: tuple[str, ...] = ()
    original_aten: str = ""
    seq_nr: int | None = None  # autograd's number: shared by a forward op and its backward
    source: tuple[SourceLine, ...] = ()


@dataclass(frozen=True, slots=True)
class NodeFacts:
    """Our hook's facts about all nodes of one graph, to be joined with its text by node name."""

    compile_id: CompileId
    stage: str  # dynamo, joint, forward, backward, inference, post_grad
    facts: tuple[NodeFact, ...]
    cached: bool = False
    attempt: int = 0


@dataclass(frozen=True, slots=True)
class KernelNodes:
    """Our hook's word on which post-grad nodes each kernel computes, one entry per code generation call, in order."""

    compile_id: CompileId
    direction: Direction
    kernels: tuple[tuple[str, tuple[str, ...]], ...]  # kernel name, node names
    cached: bool = False
    ops: tuple[tuple[str, ...], ...] = ()  # the scheduler's names for each entry of `kernels`


@dataclass(frozen=True, slots=True)
class FinalNode:
    """A node of Inductor's scheduler after fusion."""

    ops: tuple[str, ...]  # what was fused in it
    kind: str  # the scheduler's class, or of what it calls as it is the IR's
    reads: tuple[BufferAccess, ...]
    writes: tuple[BufferAccess, ...]


@dataclass(frozen=True, slots=True)
class Fusion:
    """Our hook's word on one output code: its nodes after fusion, and pairs that share memory and were left apart."""

    compile_id: CompileId
    direction: Direction
    nodes: tuple[FinalNode, ...]
    unfused: tuple[tuple[str, str, str, tuple[BufferAccess, ...]], ...]  # the first op of each, torch's reason, shared


@dataclass(frozen=True, slots=True)
class CodeKey:
    """What torch's cache calls one compiled graph, in the order in which the graphs were done."""

    compile_id: CompileId
    direction: Direction
    key: str


@dataclass(frozen=True, slots=True)
class TritonTuning:
    """The configs that a Triton kernel was tried with, or the one it was given."""

    compile_id: CompileId
    kernel: str
    configs: tuple[Mapping[str, Any], ...]  # values, milliseconds, registers, spills, shared_bytes, chosen
    cached: bool = False
    # What torch's triton_kernel_info tells; empty: our hook's word.
    info: Mapping[str, Any] = field(default_factory=dict)
    backward: bool | None = None  # whether the kernel is a backward's; None where nobody said


@dataclass(frozen=True, slots=True)
class TimedMark:
    """The start or end of one of torch's timed events."""

    compile_id: CompileId | None
    name: str
    phase: str  # "B" or "E"
    at: float  # seconds since the epoch
    thread: int
