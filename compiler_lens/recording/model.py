"""What a recording holds. Plain frozen values."""

# ruff: noqa: PLC0414 -- the names of ids are looked for here, too

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import Enum
from math import prod
from typing import Any

from compiler_lens.recording.ids import CodeId as CodeId
from compiler_lens.recording.ids import CompileId as CompileId
from compiler_lens.recording.ids import Direction as Direction
from compiler_lens.recording.ids import GraphId as GraphId
from compiler_lens.recording.ids import GraphStage as GraphStage
from compiler_lens.recording.ids import KernelId as KernelId
from compiler_lens.recording.ids import LaunchId as LaunchId
from compiler_lens.recording.ids import SourcePlace as SourcePlace
from compiler_lens.recording.ids import TorchFunction as TorchFunction


@dataclass(frozen=True, slots=True)
class SourceLine:
    """A line of Python. `code` is empty where torch did not give its text."""

    file: str
    line: int
    function: str = ""
    code: str = ""

    @property
    def place(self) -> SourcePlace:
        """Where it is."""
        return SourcePlace(self.file, self.line)


# Bytes per element, by the short dtype names that torch.fx prints.
DTYPE_BYTES: Mapping[str, float] = {
    "f64": 8, "f32": 4, "f16": 2, "bf16": 2, "i64": 8, "i32": 4, "i16": 2, "i8": 1, "u8": 1,
    "u16": 2, "u32": 4, "u64": 8, "b8": 1, "c32": 4, "c64": 8, "c128": 16,
    "f8e4m3fn": 1, "f8e5m2": 1, "f8e4m3fnuz": 1, "f8e5m2fnuz": 1, "f8e8m0fnu": 1, "f4e2m1fn_x2": 1,
}  # fmt: skip


@dataclass(frozen=True, slots=True)
class TensorSpec:
    """A tensor's type: `f32[s0, 64][64, 1]cpu`. Symbolic sizes stay symbols, as text."""

    dtype: str
    shape: tuple[int | str, ...]
    stride: tuple[int | str, ...] | None = None  # in elements
    device: str | None = None

    @property
    def bytes(self) -> int | None:
        """Size in bytes if dense; None where a size is symbolic or the dtype unknown."""
        sizes = [size for size in self.shape if isinstance(size, int)]
        width = DTYPE_BYTES.get(self.dtype)
        return None if width is None or len(sizes) < len(self.shape) else int(prod(sizes) * width)

    def __str__(self) -> str:
        return f"{self.dtype}[{', '.join(map(str, self.shape))}]"


class Trust(Enum):
    """How a link between two things is known."""

    EXACT = "exact"  # live compiler objects told us, in this process or in the one that filled the cache
    TEXT = "text"  # read from comments and names in torch's own text
    UNKNOWN = "unknown"


@dataclass(frozen=True, slots=True)
class Node:
    """One node of an FX graph."""

    name: str
    op: str  # placeholder, get_attr, call_function, call_method, call_module, output
    target: str  # "torch.nn.functional.layer_norm", "torch.ops.aten.mm.default", a method's name
    inputs: tuple[str, ...] = ()  # names of the nodes it reads
    specs: tuple[TensorSpec, ...] = ()  # one for a tensor, several for a tuple, none if unknown
    source: tuple[SourceLine, ...] = ()  # the user's lines, outermost first, as far as torch tells
    module: str = ""  # "layers.0.attn", from nn_module_stack
    module_type: str = ""  # "Attention"
    origins: tuple[str, ...] = ()  # Dynamo node names it came from; for a backward node, those it differentiates
    original_aten: str = ""  # the ATen op before decomposition
    arguments: str = ""  # as printed, positional and by name
    backward: bool = False  # part of a gradient: its origins are what it differentiates


@dataclass(frozen=True, slots=True)
class Subgraph:
    """A graph inside a graph: what a higher-order op runs (cond, flex_attention, a checkpointed block)."""

    name: str  # the attribute that holds it: "wrap_body_0"; within another one "true_graph_0.wrap_body_0"
    nodes: tuple[Node, ...]


@dataclass(frozen=True, slots=True)
class SavedTensor:
    """A value that the forward keeps for the backward."""

    name: str
    spec: TensorSpec | None
    is_input: bool  # a parameter or an input: kept alive, but costs no memory of its own

    @property
    def bytes(self) -> int | None:
        """Size in bytes, None if unknown."""
        return self.spec.bytes if self.spec else None


@dataclass(frozen=True, slots=True)
class Graph:
    """One FX graph at one stage. `code` is torch's own printing of it."""

    compile_id: CompileId
    stage: GraphStage
    code: str
    nodes: tuple[Node, ...]
    ordinal: int = 0  # counts graphs of one stage within one compilation (DDP splits make several)
    origins: Trust = Trust.UNKNOWN  # how node origins and modules are known
    saved: tuple[SavedTensor, ...] = ()  # on a forward graph: what it keeps for the backward
    subgraphs: tuple[Subgraph, ...] = ()  # their nodes are not among `nodes`

    @property
    def id(self) -> GraphId:
        """Which graph it is."""
        return GraphId(self.compile_id, self.stage, self.ordinal)

    @property
    def ops(self) -> tuple[Node, ...]:
        """The nodes that compute: neither inputs nor outputs nor attribute reads."""
        return tuple(n for n in self.nodes if n.op.startswith("call_"))


@dataclass(frozen=True, slots=True)
class Decomposition:
    """What one op of the user's program became."""

    compile_id: CompileId
    node: str  # the Dynamo node
    target: str  # "torch.nn.functional.layer_norm"
    forward: tuple[str, ...]  # ATen and prims ops, in graph order: "aten.addmm.default"; empty: it vanished
    backward: tuple[str, ...] = ()
    trust: Trust = Trust.EXACT


class BreakOutcome(Enum):
    """What a graph break did to its frame."""

    SPLIT = "split"  # the graph ends here; a resume function goes on behind the break
    SKIPPED_REST = "skipped_rest"  # compiled up to here, the rest of the function runs eagerly
    SKIPPED_FRAME = "skipped_frame"  # the whole frame runs eagerly


@dataclass(frozen=True, slots=True)
class BreakCause:
    """Why, in the graph break registry's own terms."""

    gb_type: str
    gbid: str | None = None  # "GB0170"
    explanation: str = ""
    hints: tuple[str, ...] = ()
    context: str = ""
    higher_order_op: str = ""  # "torch.utils.checkpoint.checkpoint", if it broke inside of one


@dataclass(frozen=True, slots=True)
class GraphBreak:
    """One break event that torch raised."""

    compile_id: CompileId
    attempt: int
    causes: tuple[BreakCause, ...]  # the root first; later ones happened while handling the one before
    reason: str  # torch's sentence before the cause, may be empty
    user_stack: tuple[SourceLine, ...]  # outermost first
    location: SourceLine | None  # where torch says it broke
    outcome: BreakOutcome
    resume_function: str | None = None
    text: str = ""  # all that torch said

    @property
    def root(self) -> BreakCause:
        """The cause that came first."""
        return self.causes[0]


@dataclass(frozen=True, slots=True)
class Guard:
    """A condition under which compiled code is reused."""

    compile_id: CompileId
    kind: str  # "TENSOR_MATCH"
    expression: str
    source: str = ""  # what is guarded: "L['x']"
    user_line: SourceLine | None = None


@dataclass(frozen=True, slots=True)
class GuardFailure:
    """One cached entry that did not fit, and why."""

    entry: str  # the compile id of that entry, as torch prints it: "0/0"
    text: str  # "tensor 'x' size mismatch at index 0. expected 8, actual 4"
    source: str = ""  # "x"
    old: str = ""
    new: str = ""
    user_stack: tuple[SourceLine, ...] = ()
    hint: str = ""  # torch's remark on this kind of guard, if it has one


@dataclass(frozen=True, slots=True)
class Recompile:
    """A frame compiled again because the guards of every entry failed."""

    compile_id: CompileId
    failures: tuple[GuardFailure, ...]


@dataclass(frozen=True, slots=True)
class Symbol:
    """A size that became symbolic, or a symbol that was pinned to a value."""

    compile_id: CompileId
    name: str
    source: str = ""
    value: str = ""  # the value seen; for a specialisation, the value it was pinned to
    value_range: str = ""
    specialized: bool = False
    reason: str = ""
    user_stack: tuple[SourceLine, ...] = ()


class Outcome(Enum):
    """How compiling a frame ended."""

    COMPILED = "compiled"
    EMPTY = "empty"  # nothing to compile: no ops
    SKIPPED = "skipped"  # Dynamo gave up on the frame: it runs eagerly
    FAILED = "failed"  # an error reached the user
    RECOMPILE_LIMIT = "recompile_limit"  # too many recompiles: runs eagerly from here on
    UNFINISHED = "unfinished"  # the recording ends before the compilation does


@dataclass(frozen=True, slots=True)
class Compilation:
    """One compiling of one frame."""

    compile_id: CompileId
    function: str  # code name: "forward"
    file: str
    line: int
    outcome: Outcome
    reason: str = ""  # why skipped or failed
    failure: BreakCause | None = None  # a failure under fullgraph=True, in the registry's terms
    failure_line: SourceLine | None = None
    attempts: int = 1
    restart_reasons: tuple[str, ...] = ()
    stack: tuple[SourceLine, ...] = ()  # who called the frame, outermost first
    backend: str = ""
    mode: str = "default"
    options: Mapping[str, str] = field(default_factory=dict)
    dynamic: bool | None = None
    started: float = 0.0  # seconds since the epoch
    seconds: float | None = None  # wall time, without a lazy backward's
    backward_seconds: float | None = None  # the lazy backward's
    guard_count: int | None = None
    op_count: int | None = None
    module: str = ""  # the class of the module compiled, if it was one
    # What the author calls it: for torch's wrapper around a module, the module's forward. None where nobody told.
    definition: SourceLine | None = None  # file, line of the def, qualified name: "MoE.forward"
    parameters: tuple[str, ...] = ()  # of that function, without self: what `args[0]` of a wrapper means
    resumes: str = ""  # for a resume function: the function that it is the rest of
    metrics: Mapping[str, Any] = field(default_factory=dict)

    @property
    def torch_function(self) -> TorchFunction:
        """The code object that was compiled."""
        return TorchFunction(self.file, self.line, self.function)


class KernelKind(Enum):
    """Who wrote a kernel."""

    TRITON = "triton"
    CPP = "cpp"
    TEMPLATE = "template"  # a Triton, CUTLASS or C++ template, filled in (GEMM, attention, convolution)
    FOREACH = "foreach"
    EXTERN = "extern"  # a library's: cuBLAS, MKL, cuDNN
    FALLBACK = "fallback"  # an ATen op called as it is
    USER = "user"  # a Triton kernel of the user's own
    OTHER = "other"  # generated by another backend of Inductor's: Metal, Halide, Pallas


@dataclass(frozen=True, slots=True)
class BufferAccess:
    """Memory that one launch reads or writes."""

    name: str  # as the output code calls it: "buf3", "primals_1"
    bytes: int | None  # each element counted once, as far as it is touched; None where a size is not known


@dataclass(frozen=True, slots=True)
class Launch:
    """One call of a kernel in the output code."""

    line: int  # in the output code, from 1
    arguments: tuple[str, ...]
    nodes: tuple[str, ...] = ()  # post-grad nodes it computes
    grid: str = ""
    source_nodes: tuple[str, ...] = ()  # Dynamo nodes (in a backward: AOT nodes) that the comment above it names
    aten: tuple[str, ...] = ()  # the ATen ops that the comment above it names
    ops: tuple[str, ...] = ()  # the scheduler's names for what is fused here: "op3"; a `Refusal` speaks of them
    reads: tuple[BufferAccess, ...] = ()  # from memory, what the kernel itself wrote left out; empty if not known
    writes: tuple[BufferAccess, ...] = ()


@dataclass(frozen=True, slots=True)
class UnfusedPair:
    """Two launches that share memory and that the scheduler did not fuse into one."""

    compile_id: CompileId
    direction: Direction
    first: str  # the first op of each, as in `Launch.ops`; `first` runs before `second`
    second: str
    reason: str  # torch's last word on the pair: "exceeds max fusion"; empty where it never tried
    shared: tuple[BufferAccess, ...]  # with the bytes that one kernel would not have to move
    ordinal: int = 0  # of the output code

    @property
    def code_id(self) -> CodeId:
        """The output code that both are in."""
        return CodeId(self.compile_id, self.direction, self.ordinal)


@dataclass(frozen=True, slots=True)
class Buffer:
    """Memory that the output code allocates or takes over."""

    name: str
    spec: TensorSpec | None
    reuses: str = ""  # the buffer whose memory it takes


@dataclass(frozen=True, slots=True)
class KernelConfig:
    """A way to run a Triton kernel."""

    values: Mapping[str, bool | int | str]  # XBLOCK, num_warps, num_stages
    milliseconds: float | None = None
    registers: int | None = None
    spills: int | None = None
    shared_bytes: int | None = None
    chosen: bool = False


@dataclass(frozen=True, slots=True)
class Kernel:
    """One generated or external kernel, with all its launches."""

    compile_id: CompileId
    direction: Direction
    name: str
    kind: KernelKind
    shape: str = ""  # pointwise, reduction, persistent_reduction, template, foreach; empty for extern
    source: str = ""  # empty for extern
    nodes: tuple[str, ...] = ()  # post-grad nodes that it computes
    aten: tuple[str, ...] = ()  # the ATen ops that it came from
    trust: Trust = Trust.UNKNOWN  # how `nodes` is known
    launches: tuple[Launch, ...] = ()
    configs: tuple[KernelConfig, ...] = ()
    device: str = ""
    meta: Mapping[str, Any] = field(default_factory=dict)  # size hints, bytes, as Inductor wrote them
    ordinal: int = 0  # which output code of its compilation and pass it is in
    language: str = ""  # that it is written in, as people call it: "Triton", "C++", "CUTLASS"; empty for ATen's
    lexer: str = "python"  # that Pygments reads its source with

    @property
    def code_id(self) -> CodeId:
        """The output code that it is in."""
        return CodeId(self.compile_id, self.direction, self.ordinal)

    @property
    def id(self) -> KernelId:
        """Which kernel it is."""
        return KernelId(self.code_id, self.name)

    def launch_id(self, launch: int) -> LaunchId:
        """Which launch one of its launches is, counted from 0."""
        return LaunchId(self.code_id, self.name, launch)


@dataclass(frozen=True, slots=True)
class OutputCode:
    """The file that Inductor writes for one graph."""

    compile_id: CompileId
    direction: Direction
    code: str
    path: str = ""
    buffers: tuple[Buffer, ...] = ()
    ordinal: int = 0
    key: str = ""  # of torch's cache; a profile calls the graph "## Call CompiledFxGraph KEY ##"

    @property
    def id(self) -> CodeId:
        """Which output code it is."""
        return CodeId(self.compile_id, self.direction, self.ordinal)


@dataclass(frozen=True, slots=True)
class AutotuneChoice:
    """One candidate that autotuning timed."""

    name: str
    kind: KernelKind
    milliseconds: float | None  # None: it failed
    detail: str = ""


@dataclass(frozen=True, slots=True)
class AutotuneResult:
    """What max-autotune tried for one op."""

    compile_id: CompileId
    op: str  # "mm"
    inputs: tuple[str, ...]  # specs of its inputs
    choices: tuple[AutotuneChoice, ...]  # fastest first
    seconds: float | None = None  # spent on benchmarking
    precompile_seconds: float | None = None
    cached: bool = False  # measured by an earlier run: this one took its result out of a cache

    @property
    def winner(self) -> AutotuneChoice | None:
        """The fastest choice that ran."""
        return next((c for c in self.choices if c.milliseconds is not None), None)

    @property
    def margin(self) -> float | None:
        """How many times slower the runner-up is than the winner."""
        ran = [c.milliseconds for c in self.choices if c.milliseconds]
        return ran[1] / ran[0] if len(ran) > 1 else None


class CudagraphState(Enum):
    """What became of CUDA graphs for one compiled graph."""

    CAPTURED = "captured"
    PARTITIONED = "partitioned"
    SKIPPED = "skipped"
    NOT_REQUESTED = "not_requested"


@dataclass(frozen=True, slots=True)
class CudagraphOutcome:
    """Whether one compiled graph runs as a CUDA graph."""

    compile_id: CompileId
    direction: Direction | None
    state: CudagraphState
    reason: str = ""
    partitions: int = 0
    user_stack: tuple[SourceLine, ...] = ()


class CacheLayer(Enum):
    """Which of torch's compile caches."""

    AOT_AUTOGRAD = "AOTAutograd"
    FX_GRAPH = "FX graph"


class CacheResult(Enum):
    """What a cache answered."""

    HIT = "hit"
    MISS = "miss"
    BYPASS = "bypass"


@dataclass(frozen=True, slots=True)
class CacheOutcome:
    """One question to one cache."""

    compile_id: CompileId
    layer: CacheLayer
    result: CacheResult
    key: str = ""
    reason: str = ""  # of a bypass
    seconds_saved: float | None = None
    bundled: bool = False  # answered from inside an AOTAutograd entry


@dataclass(frozen=True, slots=True)
class Span:
    """A stretch of compile time, nested in its parent."""

    compile_id: CompileId | None
    name: str  # "dynamo", "inductor_compile"; as torch names its timed events
    start: float  # seconds since the epoch
    seconds: float
    thread: int = 0
    depth: int = 0
    self_seconds: float = 0.0  # without the time of nested spans


@dataclass(frozen=True, slots=True)
class LaunchTime:
    """How long one launch took, measured in real calls."""

    compile_id: CompileId
    direction: Direction
    ordinal: int  # of the output code
    kernel: str
    launch: int  # which of the kernel's launches, from 0
    microseconds: float  # median over all times that it ran; mean of medians, if it runs several times in a call
    spread: float  # between the quartiles, microseconds
    runs: float  # how often it ran in one call of the model
    device_kernels: tuple[str, ...] = ()  # what ran, as the device's tracer names it: several for a library's call
    trust: Trust = Trust.EXACT  # TEXT: told by its place between its neighbours

    @property
    def kernel_id(self) -> KernelId:
        """The kernel that was called."""
        return KernelId(CodeId(self.compile_id, self.direction, self.ordinal), self.kernel)

    @property
    def id(self) -> LaunchId:
        """Which launch it is."""
        return LaunchId(CodeId(self.compile_id, self.direction, self.ordinal), self.kernel, self.launch)


@dataclass(frozen=True, slots=True)
class OtherTime:
    """Work outside of all compiled graphs: eager ops, copies, what belongs to no launch."""

    name: str
    microseconds: float  # in one call of the model
    runs: float  # in one call of the model


@dataclass(frozen=True, slots=True)
class Ceilings:
    """What this device can do, measured on it: copying, multiplying, launching."""

    device: str  # "NVIDIA H200"
    bytes_per_second: float | None = None
    flops_per_second: Mapping[str, float] = field(default_factory=dict)  # by dtype: "bf16"
    launch_microseconds: float | None = None  # the shortest that any kernel takes


class Remark(Enum):
    """What is to be known of a profile besides its figures."""

    NO_GRADIENTS = "no_gradients"  # called without them, though they were on
    STILL_COMPILING = "still_compiling"  # while calls were timed; `number` of compilations
    LESS_PRECISION = "less_precision"  # products of f32 may be made in less; `name`: the setting that says so
    NO_CPP_TIMES = "no_cpp_times"  # C++ kernels of the recording were not found in the process
    NO_TIME = "no_time"  # `number` of launches of graphs that ran
    LOSS_ADDED = "loss_added"  # the backward starts from a sum that is no part of the program
    TIMING_COST = "timing_cost"  # each launch seems `number` of microseconds longer than it is
    SAME_CODE = "same_code"  # several compilations have the same output code: times are with the last one
    UNKNOWN_GRAPH = "unknown_graph"  # one ran that is not in this recording
    BY_NAMES = "by_names"  # a graph was recognised by the names of its kernels
    OTHER_COUNT = "other_count"  # the kernel `name` ran `number` of times in a call of its graph, and has `of` launches
    TOO_FEW = "too_few"  # fewer kernels ran than libraries were called, between two generated kernels
    BY_PLACE = "by_place"  # kernels of several library calls in a row were shared out among them
    KEPT_WAITING = "kept_waiting"  # `number`: the share of a usual call for which the calling thread had a processor
    UNEVEN = "uneven"  # a usual call took `number` times as long as the fastest
    WORDS = "words"  # `name`: a sentence, from before remarks were facts


@dataclass(frozen=True, slots=True)
class ProfileNote:
    """A remark on a profile, with what it is about."""

    remark: Remark
    name: str = ""
    number: float | None = None
    of: int | None = None


@dataclass(frozen=True, slots=True)
class Profile:
    """Kernel times of one model, from real calls of it."""

    calls: int  # that were measured
    microseconds: float  # one call from outside, median, without the profiler; of several calls their mean
    spread: float  # between the quartiles
    busy_microseconds: float  # in one call, the device working
    launches: tuple[LaunchTime, ...]
    others: tuple[OtherTime, ...] = ()
    ceilings: Ceilings = field(default_factory=lambda: Ceilings(""))
    timer: str = ""  # "torch.profiler"
    training: bool = False
    notes: tuple[ProfileNote, ...] = ()  # what could not be matched or measured, and what measuring did to it


@dataclass(frozen=True, slots=True)
class SourceFile:
    """A file of Python as it was when it was compiled."""

    file: str
    text: str


THE_END = "the end of the recording"  # what a problem is about where a file was not written, or not read, to its end


@dataclass(frozen=True, slots=True)
class CaptureProblem:
    """Something that was there and that we could not read."""

    where: str  # the event or the hook
    message: str
    compile_id: CompileId | None = None


@dataclass(frozen=True, slots=True)
class Unavailable:
    """A fact that this torch, or this cache entry, does not offer."""

    fact: str
    reason: str
    compile_id: CompileId | None = None


@dataclass(frozen=True, slots=True)
class Environment:
    """Where the recording was made."""

    torch: str = ""
    python: str = ""
    triton: str = ""
    platform: str = ""
    device: str = ""
    threads: int | None = None  # that torch computes with on the CPU
    argv: tuple[str, ...] = ()
    pid: int | None = None
    rank: int | None = None
    started: float = 0.0
    config: Mapping[str, str] = field(default_factory=dict)  # settings that differ from torch's defaults
    versions: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Recording:
    """Everything that was recorded of one process."""

    environment: Environment = field(default_factory=Environment)
    compilations: tuple[Compilation, ...] = ()
    graph_breaks: tuple[GraphBreak, ...] = ()
    recompiles: tuple[Recompile, ...] = ()
    guards: tuple[Guard, ...] = ()
    symbols: tuple[Symbol, ...] = ()
    graphs: tuple[Graph, ...] = ()
    decompositions: tuple[Decomposition, ...] = ()
    output_codes: tuple[OutputCode, ...] = ()
    kernels: tuple[Kernel, ...] = ()
    unfused: tuple[UnfusedPair, ...] = ()
    profiles: tuple[Profile, ...] = ()
    autotunes: tuple[AutotuneResult, ...] = ()
    cudagraphs: tuple[CudagraphOutcome, ...] = ()
    caches: tuple[CacheOutcome, ...] = ()
    spans: tuple[Span, ...] = ()
    sources: tuple[SourceFile, ...] = ()  # the files that frames, graphs and breaks point to
    problems: tuple[CaptureProblem, ...] = ()
    unavailable: tuple[Unavailable, ...] = ()

    @property
    def unfinished(self) -> str:
        """Why there is no end to it: still being written, cut off, damaged. Empty where there is one."""
        return next((problem.message for problem in self.problems if problem.where == THE_END), "")
