"""What a launch's nodes lead back to: nodes of the user's program, its modules and lines."""

from __future__ import annotations

from enum import Enum

from msgspec import Struct

from compiler_lens.recording.ids import CompileId, KernelId, LaunchId
from compiler_lens.recording.model import Graph, Kernel, Launch, Node, SourceLine, Subgraph, Trust

# From the one that says least.
DOUBT = (Trust.UNKNOWN, Trust.TEXT, Trust.EXACT)

# Ops that only look at memory in another way: Inductor makes them part of how the next op reads.
_VIEWS = frozenset(
    (
        "aten.view", "aten._unsafe_view", "aten.reshape", "aten.permute", "aten.transpose", "aten.t", "aten.select",
        "aten.slice", "aten.expand", "aten.squeeze", "aten.unsqueeze", "aten.as_strided", "aten.alias", "aten.detach",
        "aten.unbind", "aten.split", "aten.split_with_sizes", "aten.diagonal", "aten.view_as_real",
        "aten.view_as_complex", "aten.unfold", "operator.getitem",
        "_operator.getitem",
    )
)  # fmt: skip


class Role(Enum):
    """What a node of a launch has to do with an op of the user's program."""

    COMPUTES = "computes"
    DIFFERENTIATES = "differentiates"
    RECOMPUTES = "recomputes"  # a part of the forward, again in the backward
    FEEDS = "feeds"  # autograd or a pass added it, without an origin of its own: this is where its result goes


class TracedOrigin(Struct, frozen=True):
    """Where in the user's program something comes from: a node of a Dynamo graph, or where none is known a line."""

    compile_id: CompileId
    node: str | None  # of the Dynamo graph, with the name of its subgraph; None: only the line is known
    target: str
    module: str
    module_type: str
    stack: tuple[SourceLine, ...]  # the calls that led there, outermost first
    line: SourceLine | None  # the innermost one of the user's own, or else the innermost of a library


class Origin(TracedOrigin, frozen=True):
    """The same with its place among `Provenance.origins`."""

    number: int


class TracedNode(Struct, frozen=True):
    """One node of a launch, followed back."""

    name: str
    target: str | None  # None where only a comment names it
    aten_node: str | None  # the AOT node that it is, if that graph still calls it so
    original_aten: str | None
    role: Role
    trust: Trust  # of the weakest link
    origins: tuple[TracedOrigin, ...]


class NodeProvenance(TracedNode, frozen=True):
    """The same with the node itself."""

    origins: tuple[Origin, ...]
    node: Node | None  # of the post-grad graph

    @property
    def is_view(self) -> bool:
        """Whether it moves no memory of its own."""
        return self.target is not None and is_view(self.target)


class Lineage(Struct, frozen=True):
    """One launch and all that its nodes come from."""

    index: int  # of the kernel in `Recording.kernels`
    launch: int | None  # which of its launches, from 0; None: all of them, where it is not known which computes what
    kernel: Kernel
    nodes: tuple[NodeProvenance, ...]
    lost: tuple[str, ...] = ()  # nodes that it is said to compute and that its graph does not show

    @property
    def id(self) -> LaunchId | KernelId:
        """Which launch it is; of which kernel, where launches are not known one by one."""
        return self.kernel.id if self.launch is None else self.kernel.launch_id(self.launch)

    @property
    def called(self) -> Launch | None:
        """The launch itself."""
        return None if self.launch is None else self.kernel.launches[self.launch]

    @property
    def deciding(self) -> tuple[NodeProvenance, ...]:
        """The nodes that say what it is for: those that only feed something count where there are no others."""
        known = tuple(traced for traced in self.nodes if traced.origins)
        return tuple(traced for traced in known if traced.role is not Role.FEEDS) or known

    @property
    def trust(self) -> Trust:
        """How far its lines are known: as far as of the best known node."""
        return max((traced.trust for traced in self.deciding), key=DOUBT.index, default=Trust.UNKNOWN)

    @property
    def origins(self) -> tuple[Origin, ...]:
        """What it computes, differentiates or recomputes; where there is no such thing, what it feeds."""
        return tuple({origin.number: origin for traced in self.deciding for origin in traced.origins}.values())

    @property
    def lines(self) -> tuple[SourceLine, ...]:
        """The user's lines that it is for, in the order of its nodes."""
        return tuple({o.line.place: o.line for o in self.origins if o.line}.values())

    @property
    def modules(self) -> tuple[str, ...]:
        """The modules that it is for."""
        return tuple(dict.fromkeys(o.module for o in self.origins if o.module))


class LaunchMatch(Struct, frozen=True):
    """A launch, and those of its nodes that tie it to what was asked for."""

    lineage: Lineage
    nodes: tuple[NodeProvenance, ...]

    @property
    def role(self) -> Role:
        """The closest role that one of its nodes has."""
        return min((traced.role for traced in self.nodes), key=tuple(Role).index)

    @property
    def trust(self) -> Trust:
        """How it is known."""
        return max((traced.trust for traced in self.nodes), key=DOUBT.index)


class OriginsAt(Struct, frozen=True):
    """What a line, or a module, has in the Dynamo graphs."""

    direct: tuple[Origin, ...] = ()  # of this very line
    calls: tuple[Origin, ...] = ()  # of what is called on it

    @property
    def every(self) -> tuple[Origin, ...]:
        """Both."""
        return (*self.direct, *self.calls)


def bodies(graph: Graph) -> tuple[Subgraph, ...]:
    """Return a graph as the first, without a name, of all the graphs that are in it."""
    return (Subgraph("", graph.nodes), *graph.subgraphs)


def is_generated(kernel: Kernel) -> bool:
    """Return whether Inductor wrote the kernel, or filled in a template: only such a kernel fuses anything."""
    return not kernel.kind.is_library


def is_view(target: str) -> bool:
    """Return whether an op only looks at memory in another way."""
    return op_packet(target) in _VIEWS


def op_packet(target: str) -> str:
    """Return an op without its overload: `torch.ops.aten.mm.default` -> `aten.mm`."""
    return ".".join(target.removeprefix("torch.ops.").split(".")[:2])
