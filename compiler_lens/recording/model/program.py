"""What Dynamo made of the user's functions: compilations, graph breaks, guards, recompiles."""

from __future__ import annotations

from collections.abc import Mapping
from enum import Enum
from typing import Any

from msgspec import Struct, field

from compiler_lens.recording.ids import CompileId, TorchFunction
from compiler_lens.recording.model.lines import SourceLine
from compiler_lens.recording.shape import Count, Figure, Time


class BreakOutcome(Enum):
    """What a graph break did to its frame."""

    SPLIT = "split"  # the graph ends here; a resume function runs the rest
    SKIPPED_REST = "skipped_rest"  # compiled up to here, the rest of the function runs eagerly
    SKIPPED_FRAME = "skipped_frame"  # the whole frame runs eagerly


class BreakCause(Struct, frozen=True):
    """Why, in the graph break registry's own terms."""

    gb_type: str
    gbid: str | None = None  # "GB0170"
    explanation: str = ""
    hints: tuple[str, ...] = ()
    context: str = ""
    higher_order_op: str = ""  # "torch.utils.checkpoint.checkpoint", if it broke inside of one


class GraphBreak(Struct, frozen=True):
    """One break event that torch raised."""

    compile_id: CompileId
    attempt: Count
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


class Guard(Struct, frozen=True):
    """A condition under which compiled code is reused."""

    compile_id: CompileId
    kind: str  # "TENSOR_MATCH"
    expression: str
    source: str = ""  # what is guarded: "L['x']"
    user_line: SourceLine | None = None


class GuardFailure(Struct, frozen=True):
    """One cached entry that did not fit, and why."""

    entry: str  # the compile id of that entry, as torch prints it: "0/0"
    text: str  # "tensor 'x' size mismatch at index 0. expected 8, actual 4"
    source: str = ""  # "x"
    old: str = ""
    new: str = ""
    user_stack: tuple[SourceLine, ...] = ()
    hint: str = ""  # torch's remark on this kind of guard, if it has one


class Recompile(Struct, frozen=True):
    """A frame compiled again because the guards of every entry failed."""

    compile_id: CompileId
    failures: tuple[GuardFailure, ...]


class EnumMember(Struct, frozen=True):
    """A member of an enum that a guard knows by its address."""

    address: Count
    name: str  # "Mode.FAST"


class Symbol(Struct, frozen=True):
    """A size that became symbolic, or a symbol that was pinned to a value."""

    compile_id: CompileId
    name: str
    source: str = ""
    value: str = ""  # the value seen; for a specialisation, the value it was pinned to
    value_range: str = ""
    specialized: bool = False
    reason: str = ""
    user_stack: tuple[SourceLine, ...] = ()


class CompileSite(Struct, frozen=True):
    """Something that torch.compile was given, whether or not it was called then."""

    defined: SourceLine  # file, line and qualified name of the function; of a module's forward
    place: SourceLine | None = None  # the user's line that gave it
    module: str = ""  # its class
    methods: tuple[str, ...] = ()  # of that class, by its author: calls of them are not compiled
    in_place: bool = False  # by `Module.compile()`, which returns nothing
    is_dropped: bool = False  # nothing is done with what that returned: no call can go through it
    is_generator: bool = False  # torch passes over one, 2.11 without a word
    is_disabled: bool = False  # `torch._dynamo.config.disable` was True there: torch 2.11 says nothing of the calls


class Stance(Struct, frozen=True):
    """A stance other than torch's default, taken with `torch.compiler.set_stance`."""

    name: str  # "force_eager", "eager_on_recompile", "fail_on_recompile", …; "default" with a backend or without guards
    place: SourceLine | None = None  # where it was taken first
    skips_guards: bool = False
    backend: str = ""  # that everything is compiled with in place of its own


class EagerCalls(Struct, frozen=True):
    """Calls of a compiled function that ran eagerly because a stance, `force_eager`, wants it."""

    function: SourceLine  # its file, line and qualified name, as far as that is known
    calls: Count


class LateHook(Struct, frozen=True):
    """A hook that was registered on a module after that was compiled: the compiled code does not call it."""

    compile_id: CompileId  # one that was compiled without, and stood then
    hook: str  # "forward hook", "backward pre-hook"
    module: str = ""  # its class; empty for a hook of all modules
    place: SourceLine | None = None  # the user's line that registers it
    by_hand: bool = False  # put into the module's table, which nobody hears of: the line is not known


class Outcome(Enum):
    """How compiling a frame ended."""

    COMPILED = "compiled"
    EMPTY = "empty"  # nothing to compile: no ops
    TRACED = "traced"  # made into a graph by a call that compiles nothing: torch.export, make_fx
    SKIPPED = "skipped"  # Dynamo gave up on the frame: it runs eagerly
    FAILED = "failed"  # an error reached the user
    RECOMPILE_LIMIT = "recompile_limit"  # too many recompiles: runs eagerly from here on
    UNFINISHED = "unfinished"  # the recording ends before the compilation does


class Compilation(Struct, frozen=True):
    """One compiling of one frame."""

    compile_id: CompileId
    function: str  # code name: "forward"
    file: str
    line: Count
    outcome: Outcome
    reason: str = ""  # why skipped or failed
    failure: BreakCause | None = None  # a failure under fullgraph=True, in the registry's terms
    failure_line: SourceLine | None = None
    attempts: Count = 1
    restart_reasons: tuple[str, ...] = ()
    stack: tuple[SourceLine, ...] = ()  # who called the frame, outermost first
    backend: str = ""
    mode: str = "default"
    options: Mapping[str, str] = field(default_factory=dict)
    dynamic: bool | None = None
    # Settings of the process that differed from torch's defaults when it began; None where that was not recorded.
    config: Mapping[str, str] | None = None
    started: Time = 0.0  # seconds since the epoch
    seconds: Figure | None = None  # wall time, without a lazy backward's
    backward_seconds: Figure | None = None  # the lazy backward's
    guard_count: Count | None = None
    op_count: Count | None = None
    module: str = ""  # the class of the module compiled, if it was one
    instance: Count = 0  # of a method: which object of its class, the first seen is 1; 0 where that is not known
    # What the author calls it: for torch's wrapper around a module, the module's forward. None where that is not known.
    definition: SourceLine | None = None  # file, line of the def, qualified name: "MoE.forward"
    parameters: tuple[str, ...] = ()  # of that function, without self: what `args[0]` of a wrapper means
    door: str = (
        ""  # the call that compiled or traced it without torch.compile: "AOTInductor"; its place is the caller's
    )
    resumes: str = ""  # for a resume function: the function that it is the rest of
    metrics: Mapping[str, Any] = field(default_factory=dict)

    @property
    def torch_function(self) -> TorchFunction:
        """The code object that was compiled."""
        return TorchFunction(self.file, self.line, self.function)
