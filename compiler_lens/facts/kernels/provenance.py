"""From a launch to the user's lines and modules, and back: each node that it computes is followed to its origin."""

from __future__ import annotations

from bisect import bisect_left
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence

from msgspec import Struct

from compiler_lens.facts.kernels.lineage import LaunchMatch, Lineage, NodeProvenance, Origin, OriginsAt, Role
from compiler_lens.facts.kernels.origins import Origins, Scopes
from compiler_lens.facts.program.ownership import Ownership
from compiler_lens.recording.errors import UsageError
from compiler_lens.recording.model import Direction, GraphStage, Kernel, Recording, Trust


class Provenance(Struct, frozen=True):
    """Every launch with its lineage, and the ways back from the user's program to the launches."""

    lineages: tuple[Lineage, ...]  # launch by launch, in the order of `Recording.kernels`
    origins: tuple[Origin, ...]
    _starts: tuple[int, ...]  # where the lineages of each kernel begin
    _by_origin: Mapping[int, Sequence[tuple[int, NodeProvenance]]]  # an origin's, each with the place of its lineage
    # By file, then line: an origin at each line of its stack, and whether that is the innermost.
    _lines: Mapping[str, Mapping[int, Mapping[int, bool]]]
    _modules: Sequence[tuple[str, int]]  # sorted

    @classmethod
    def of(cls, recording: Recording, own: Ownership | None = None) -> Provenance:
        """Follow all launches of a recording back, once."""
        origins = Origins(own or Ownership())
        for graph in recording.graphs:
            if graph.stage is GraphStage.DYNAMO:
                origins.add_graph(graph)
        scopes = Scopes(recording, origins)
        lineages: list[Lineage] = []
        starts = [0]
        for index, kernel in enumerate(recording.kernels):
            launches = kernel.launches
            numbers: Iterable[int | None] = range(len(launches))
            if len(launches) != 1 and not any(launch.nodes or launch.source_nodes for launch in launches):
                numbers = (None,)  # what all of them compute together is known, and not which computes what
            lineages += [_lineage(index, number, kernel, scopes) for number in numbers]
            starts.append(len(lineages))
        by_origin: dict[int, list[tuple[int, NodeProvenance]]] = defaultdict(list)
        for place, lineage in enumerate(lineages):
            for node in lineage.deciding:
                for origin in node.origins:
                    by_origin[origin.number].append((place, node))
        modules = sorted((origin.module, origin.number) for origin in origins.all if origin.module)
        return cls(tuple(lineages), tuple(origins.all), tuple(starts), by_origin, origins.lines, modules)

    def of_kernel(self, index: int) -> tuple[Lineage, ...]:
        """Return the launches of a kernel, by its place in `Recording.kernels`; one for all if no more is known."""
        return self.lineages[self._starts[index] : self._starts[index + 1]]

    def at_line(self, file: str, number: int) -> OriginsAt:
        """Return the ops of a line.

        Any ending of the file's path will do. Raises `UsageError` where several files have it.
        """
        found = self._lines.get(self._file(file), {}).get(number, {})
        direct = tuple(self.origins[n] for n, is_direct in found.items() if is_direct)
        return OriginsAt(direct, tuple(self.origins[n] for n, is_direct in found.items() if not is_direct))

    def _file(self, file: str) -> str:
        if file in self._lines:
            return file
        ending = "/" + file.replace("\\", "/").removeprefix("./")
        found = [known for known in self._lines if known.replace("\\", "/").endswith(ending)]
        if len(found) > 1:
            raise UsageError(f"{file!r} is the end of several files: {', '.join(sorted(found))}")
        return found[0] if found else file

    def in_module(self, path: str) -> OriginsAt:
        """Return the ops of a module and of all below it."""
        return OriginsAt(self._between(path, f"{path}\0"), self._between(f"{path}.", f"{path}/"))

    def _between(self, first: str, last: str) -> tuple[Origin, ...]:
        start, end = bisect_left(self._modules, (first, -1)), bisect_left(self._modules, (last, -1))
        return tuple(self.origins[number] for _, number in self._modules[start:end])

    @property
    def modules(self) -> tuple[str, ...]:
        """Every module that an op is directly in, sorted."""
        return tuple(dict.fromkeys(path for path, _ in self._modules))

    def launches_of(self, origins: Iterable[Origin]) -> tuple[LaunchMatch, ...]:
        """Return the launches that any of these origins led to, in order."""
        found: dict[int, dict[str, NodeProvenance]] = defaultdict(dict)
        for origin in origins:
            for place, node in self._by_origin.get(origin.number, ()):
                found[place][node.name] = node
        return tuple(LaunchMatch(self.lineages[place], tuple(found[place].values())) for place in sorted(found))


def _lineage(index: int, number: int | None, kernel: Kernel, scopes: Scopes) -> Lineage:
    launch = None if number is None else kernel.launches[number]
    names = launch.nodes if launch else kernel.nodes
    if len(kernel.launches) == 1:
        names = names or kernel.nodes
    if not names:
        return Lineage(index, number, kernel, tuple(_by_comment(kernel, launch.source_nodes if launch else (), scopes)))
    scope, certain = scopes.of_launch(kernel, number, names)
    if scope is None:
        return Lineage(index, number, kernel, (), names)
    known = kernel.trust if certain else Trust.TEXT
    nodes = tuple(scopes.traced(scope, name, kernel, known) for name in names if name in scope.nodes)
    return Lineage(index, number, kernel, nodes, tuple(name for name in names if name not in scope.nodes))


def _by_comment(kernel: Kernel, names: Iterable[str], scopes: Scopes) -> Iterator[NodeProvenance]:
    """Yield what the comment above a launch names: Dynamo nodes, and in a backward nodes of its own graph."""
    is_backward = kernel.direction is Direction.BACKWARD
    scope = next(iter(scopes.of(kernel)), None)
    for name in names:
        origin = scopes.origins.named(kernel.compile_id, name)
        if is_backward and scope is not None and name in scope.nodes:
            node = scopes.traced(scope, name, kernel, Trust.TEXT)
            if origin is None or origin in node.origins:  # otherwise it is one of two, and nobody says which
                yield node
        elif origin is not None:
            role = Role.RECOMPUTES if is_backward else Role.COMPUTES
            yield NodeProvenance(name, None, None, None, role, Trust.TEXT, (origin,), None)
