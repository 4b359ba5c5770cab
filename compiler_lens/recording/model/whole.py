"""A recording of one process, whole; and what belongs to no graph: caches, spans, the environment, problems."""

from __future__ import annotations

from collections.abc import Mapping
from enum import Enum

from msgspec import Struct, field

from compiler_lens.recording.ids import CompileId
from compiler_lens.recording.model.graphs import Decomposition, Graph
from compiler_lens.recording.model.kernels import AutotuneResult, CudagraphOutcome, Kernel, OutputCode, UnfusedPair
from compiler_lens.recording.model.lines import SourceFile, SourceLine
from compiler_lens.recording.model.profile import Profile
from compiler_lens.recording.model.program import (
    Compilation,
    CompileSite,
    EagerCalls,
    EnumMember,
    GraphBreak,
    Guard,
    LateHook,
    Recompile,
    Stance,
    Symbol,
)
from compiler_lens.recording.model.tried import Tried
from compiler_lens.recording.shape import Count, Figure, Time


class CacheLayer(Enum):
    """Which of torch's compile caches."""

    AOT_AUTOGRAD = "AOTAutograd"
    FX_GRAPH = "FX graph"


class CacheResult(Enum):
    """What a cache answered."""

    HIT = "hit"
    MISS = "miss"
    BYPASS = "bypass"


class CacheOutcome(Struct, frozen=True):
    """One question to one cache."""

    compile_id: CompileId
    layer: CacheLayer
    result: CacheResult
    key: str = ""
    reason: str = ""  # of a bypass
    seconds_saved: Figure | None = None
    bundled: bool = False  # answered from inside an AOTAutograd entry


class CachedOtherwise(Struct, frozen=True):
    """A graph out of a cache that was traced under another setting than the one in force, which no key holds."""

    compile_id: CompileId
    setting: str  # "torch.nn.attention.sdpa_kernel"
    then: str
    now: str


class Span(Struct, frozen=True, gc=False):
    """A stretch of compile time, nested in its parent."""

    compile_id: CompileId | None
    name: str  # "dynamo", "inductor_compile"; as torch names its timed events
    start: Time  # seconds since the epoch
    seconds: Figure
    thread: Count = 0
    depth: Count = 0
    self_seconds: Figure = 0.0  # without the time of nested spans


DAMAGE = "what the file holds"  # what a problem is about where bytes of a file could not be read
THE_END = "the end of the recording"  # what a problem is about where a file was not written, or not read, to its end


class CaptureProblem(Struct, frozen=True):
    """Something that was there and that we could not read."""

    where: str  # the event or the hook
    message: str
    compile_id: CompileId | None = None


class Unavailable(Struct, frozen=True):
    """A fact that this torch, or this cache entry, does not offer."""

    fact: str
    reason: str
    compile_id: CompileId | None = None


class Environment(Struct, frozen=True):
    """Where the recording was made."""

    torch: str = ""
    python: str = ""
    triton: str = ""
    platform: str = ""
    device: str = ""
    threads: Count | None = None  # that torch computes with on the CPU
    argv: tuple[str, ...] = ()
    pid: Count | None = None
    rank: int | None = None
    started: Time = 0.0
    config: Mapping[str, str] = field(default_factory=dict)  # settings that differ from torch's defaults
    versions: Mapping[str, str] = field(default_factory=dict)


class ChildProcess(Struct, frozen=True):
    """Processes that were started at one line: what they compile is not recorded."""

    place: SourceLine | None = None
    compiled: bool | None = None  # whether one of them has; None: that is not known, as of any that is no fork


class Recording(Struct, frozen=True):
    """Everything that was recorded of one process."""

    environment: Environment = field(default_factory=Environment)
    compilations: tuple[Compilation, ...] = ()
    graph_breaks: tuple[GraphBreak, ...] = ()
    recompiles: tuple[Recompile, ...] = ()
    guards: tuple[Guard, ...] = ()
    members: tuple[EnumMember, ...] = ()  # of enums, that guards are on
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
    cached_otherwise: tuple[CachedOtherwise, ...] = ()
    spans: tuple[Span, ...] = ()
    sources: tuple[SourceFile, ...] = ()  # the files that frames, graphs and breaks point to
    tried: tuple[Tried, ...] = ()  # offers, from beside the recording
    sites: tuple[CompileSite, ...] = ()  # what torch.compile was given
    stances: tuple[Stance, ...] = ()  # that were taken, each once
    eager_calls: tuple[EagerCalls, ...] = ()  # that a stance made eager
    late_hooks: tuple[LateHook, ...] = ()  # of modules that were compiled without them
    children: tuple[ChildProcess, ...] = ()
    problems: tuple[CaptureProblem, ...] = ()
    unavailable: tuple[Unavailable, ...] = ()

    @property
    def unfinished(self) -> str:
        """Why there is no end to it: still being written, cut off, damaged. Empty where there is one."""
        return next((problem.message for problem in self.problems if problem.where == THE_END), "")

    @property
    def damage(self) -> str:
        """Which bytes of its file could not be read. Empty where all could."""
        return "; ".join(dict.fromkeys(problem.message for problem in self.problems if problem.where == DAMAGE))
