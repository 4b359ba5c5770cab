"""What a recording holds. Plain frozen values, a file per subject; here all of them, and what they are known by."""

# ruff: noqa: I001, RUF022 -- names side by side
# fmt: off
from compiler_lens.recording.ids import (
    CodeId, CompileId, Direction, GraphId, GraphStage, KernelId, LaunchId, SourcePlace, TorchFunction,
)
from compiler_lens.recording.model.graphs import (
    DTYPE_BYTES, Decomposition, Graph, Node, SavedTensor, Subgraph, TensorSpec,
)
from compiler_lens.recording.model.kernels import (
    AutotuneChoice, AutotuneResult, Buffer, BufferAccess, CudagraphOutcome, CudagraphState, Kernel, KernelConfig,
    KernelKind, Launch, OutputCode, UnfusedPair,
)
from compiler_lens.recording.model.lines import SourceFile, SourceLine, Trust
from compiler_lens.recording.model.profile import Ceilings, LaunchTime, OtherTime, Profile, ProfileNote, Remark
from compiler_lens.recording.model.program import (
    BreakCause, BreakOutcome, Compilation, CompileSite, EagerCalls, EnumMember, GraphBreak, Guard, GuardFailure,
    LateHook, Outcome, Recompile, Stance, Symbol,
)
from compiler_lens.recording.model.tried import Figures, NextBreak, Results, Tried
from compiler_lens.recording.model.whole import (
    CacheLayer, CacheOutcome, CacheResult, CachedOtherwise, CaptureProblem, ChildProcess, DAMAGE, Environment,
    Recording, Span, THE_END, Unavailable,
)

__all__ = [
    "AutotuneChoice", "AutotuneResult", "BreakCause", "BreakOutcome", "Buffer", "BufferAccess", "CacheLayer",
    "CacheOutcome", "CacheResult", "CachedOtherwise", "CaptureProblem", "Ceilings", "ChildProcess", "CodeId",
    "Compilation", "CompileId", "CompileSite", "CudagraphOutcome", "CudagraphState", "DAMAGE", "DTYPE_BYTES",
    "Decomposition", "Direction", "EagerCalls", "EnumMember", "Environment", "Figures", "Graph", "GraphBreak",
    "GraphId", "GraphStage", "Guard", "GuardFailure", "Kernel", "KernelConfig", "KernelId", "KernelKind", "Launch",
    "LaunchId", "LateHook", "LaunchTime", "NextBreak", "Node", "OtherTime", "Outcome", "OutputCode", "Profile",
    "ProfileNote", "Recompile", "Recording", "Remark", "Results", "SavedTensor", "SourceFile", "SourceLine",
    "SourcePlace", "Span", "Stance", "Subgraph", "Symbol", "THE_END", "TensorSpec", "TorchFunction", "Tried", "Trust",
    "Unavailable", "UnfusedPair",
]
