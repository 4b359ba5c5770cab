"""FX graphs: their nodes, and what became of these."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from math import prod

from msgspec import Struct

from compiler_lens.recording.ids import CompileId, GraphId, GraphStage
from compiler_lens.recording.model.lines import SourceLine, Trust
from compiler_lens.recording.shape import MOST, Count

# Bytes per element, by the short dtype names that torch.fx prints.
DTYPE_BYTES: Mapping[str, float] = {
    "f64": 8, "f32": 4, "f16": 2, "bf16": 2, "i64": 8, "i32": 4, "i16": 2, "i8": 1, "u8": 1,
    "u16": 2, "u32": 4, "u64": 8, "b8": 1, "c32": 4, "c64": 8, "c128": 16,
    "f8e4m3fn": 1, "f8e5m2": 1, "f8e4m3fnuz": 1, "f8e5m2fnuz": 1, "f8e8m0fnu": 1, "f4e2m1fn_x2": 1,
}  # fmt: skip


class TensorSpec(Struct, frozen=True, gc=False):
    """A tensor's type: `f32[s0, 64][64, 1]cpu`. Symbolic sizes stay symbols, as text."""

    dtype: str
    shape: tuple[Count | str, ...]
    stride: tuple[Count | str, ...] | None = None  # in elements
    device: str | None = None

    @property
    def bytes(self) -> int | None:
        """Size in bytes if dense; None where a size is symbolic, the dtype unknown, or no memory so large."""
        sizes = [size for size in self.shape if isinstance(size, int)]
        width = DTYPE_BYTES.get(self.dtype)
        if width is None or len(sizes) < len(self.shape) or (elements := prod(sizes)) > MOST:
            return None
        return int(elements * width)

    def __str__(self) -> str:
        return f"{self.dtype}[{', '.join(map(str, self.shape))}]"


class Node(Struct, frozen=True, gc=False):
    """One node of an FX graph."""

    name: str
    op: str  # placeholder, get_attr, call_function, call_method, call_module, output
    target: str  # "torch.nn.functional.layer_norm", "torch.ops.aten.mm.default", a method's name
    inputs: tuple[str, ...] = ()  # names of the nodes it reads
    specs: tuple[TensorSpec, ...] = ()  # one for a tensor, several for a tuple, none if unknown
    source: tuple[SourceLine, ...] = ()  # the user's lines, outermost first, as far as torch says
    module: str = ""  # "layers.0.attn", from nn_module_stack
    module_type: str = ""  # "Attention"
    origins: tuple[str, ...] = ()  # Dynamo node names it came from; for a backward node, those it differentiates
    original_aten: str = ""  # the ATen op before decomposition
    arguments: str = ""  # as printed, positional and by name
    backward: bool = False  # part of a gradient: its origins are what it differentiates


class Subgraph(Struct, frozen=True):
    """A graph inside a graph: what a higher-order op runs (cond, flex_attention, a checkpointed block)."""

    name: str  # the attribute that holds it: "wrap_body_0"; within another one "true_graph_0.wrap_body_0"
    nodes: tuple[Node, ...]


class SavedTensor(Struct, frozen=True):
    """A value that the forward keeps for the backward."""

    name: str
    spec: TensorSpec | None
    is_input: bool  # a parameter or an input: kept alive, but costs no memory of its own

    @property
    def bytes(self) -> int | None:
        """Size in bytes, None if unknown."""
        return self.spec.bytes if self.spec else None


class Graph(Struct, frozen=True):
    """One FX graph at one stage. `code` is torch's own printing of it."""

    compile_id: CompileId
    stage: GraphStage
    code: str
    nodes: tuple[Node, ...]
    ordinal: Count = 0  # counts graphs of one stage within one compilation (DDP splits make several)
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
        return _computing(self.nodes)

    @property
    def all_ops(self) -> tuple[Node, ...]:
        """The same with those of its subgraphs, which higher-order ops run."""
        return (*self.ops, *(node for inner in self.subgraphs for node in _computing(inner.nodes)))


def _computing(nodes: Iterable[Node]) -> tuple[Node, ...]:
    return tuple(n for n in nodes if n.op.startswith("call_"))


class Decomposition(Struct, frozen=True):
    """What one op of the user's program became."""

    compile_id: CompileId
    node: str  # the Dynamo node
    target: str  # "torch.nn.functional.layer_norm"
    forward: tuple[str, ...]  # ATen and prims ops, in graph order: "aten.addmm.default"; empty: it vanished
    backward: tuple[str, ...] = ()
    trust: Trust = Trust.EXACT
