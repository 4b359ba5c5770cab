"""Every node of the Dynamo graphs as an origin of kernels, and where in the user's files it stands."""

from __future__ import annotations

from collections import defaultdict

from compiler_lens.facts.kernels.lineage import DOUBT, Origin
from compiler_lens.facts.program.ownership import Ownership
from compiler_lens.recording.model import CompileId, Graph, Node, SourceLine, Trust
from compiler_lens.recording.own_files import is_machinery


class Origins:
    """Every origin, and where in the files it stands."""

    def __init__(self, own: Ownership) -> None:
        self.own = own
        self.all: list[Origin] = []
        self.lines: dict[tuple[str, int], dict[int, bool]] = defaultdict(dict)
        self.trust: dict[CompileId, Trust] = {}
        self._named: dict[tuple[CompileId, str], Origin | None] = {}
        self._unnamed: dict[tuple[CompileId, str, tuple[SourceLine, ...]], Origin] = {}
        self._kinds: dict[str, str | None] = {}

    def add_graph(self, graph: Graph) -> None:
        """Add the nodes of a Dynamo graph. A name that two graphs of one compilation have says nothing."""
        known = graph.origins if graph.origins is Trust.EXACT else Trust.TEXT
        self.trust[graph.compile_id] = min(self.trust.get(graph.compile_id, Trust.EXACT), known, key=DOUBT.index)
        for prefix, nodes in (("", graph.nodes), *((f"{s.name}.", s.nodes) for s in graph.subgraphs)):
            for node in nodes:
                if node.op.startswith(("call_", "get_attr")):
                    key = graph.compile_id, prefix + node.name
                    self._named[key] = None if key in self._named else self._made(*key, node)

    def named(self, compile_id: CompileId, name: str) -> Origin | None:
        """Return the Dynamo node of this name."""
        return self._named.get((compile_id, name))

    def of_line(self, compile_id: CompileId, node: Node) -> Origin:
        """Return the origin of a node of which only the line is known."""
        key = compile_id, node.module, node.source
        if key not in self._unnamed:
            self._unnamed[key] = self._made(compile_id, "", node)
        return self._unnamed[key]

    def _made(self, compile_id: CompileId, name: str, node: Node) -> Origin:
        number = len(self.all)
        inner: dict[str, SourceLine] = {}  # the innermost line of the user's, "", and of each file of a library
        for place in reversed(node.source):
            kind = self._kind(place.file)
            if kind is not None:
                at = self.lines[place.file, place.line]
                at[number] = at.get(number, False) or kind not in inner
                inner.setdefault(kind, place)
        line = inner.get("") or next(iter(inner.values()), None)
        target = node.target if name else ""
        made = Origin(number, compile_id, name, target, node.module, node.module_type, node.source, line)
        self.all.append(made)
        return made

    def _kind(self, file: str) -> str | None:
        # As in the source view: the user's files count as one, each file of a library as one, torch's as none.
        if file not in self._kinds:
            kind = None if is_machinery(file) else file
            self._kinds[file] = "" if self.own.owns(file) else kind
        return self._kinds[file]
