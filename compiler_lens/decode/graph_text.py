"""Graphs, from the text that `GraphModule.print_readable` makes of them.

The text is what torch sends in `dynamo_output_graph`, `aot_*_graph` and `inductor_post_grad_graph`, live and from
its caches. One class per graph module, with the graphs that its higher-order ops run as classes inside it
(torch/fx/graph_module.py, `_print_readable`).
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping

from msgspec import Struct

from compiler_lens.decode.fx_expression import (
    INPLACE,
    Expression,
    is_closed,
    names_in,
    read_expression,
    read_specs,
    split_commas,
)
from compiler_lens.recording.errors import PayloadError
from compiler_lens.recording.event import Event
from compiler_lens.recording.model import CompileId, Node, SourceLine, Subgraph, TensorSpec

_CLASS = re.compile(r"^( *)class (.+)\(torch\.nn\.Module\):$", re.MULTILINE)
_DEF = re.compile(r"^ *def \w+\((.*?)\)(?: -> [^\n]+)?:(?:\n|\Z)", re.MULTILINE | re.DOTALL)
_TRAILING_COMMENT = re.compile(r"  # [^\n]*")
_PARAMETER = re.compile(r"\*{0,2}(\w+)\s*(?::\s*(?:\"([^\"]*)\"|[^=]*?))?\s*(?:=\s*(.*))?", re.DOTALL)
# Joint graphs take a pytree: their placeholders are on the left of this line (torch/fx/graph.py, `_PyTreeCodeGen`).
_UNFLATTEN = re.compile(
    r"^ *(\w[^\n]*?), = (?:fx_pytree\.tree_flatten_spec|self\._in_shuffle_graph)\(.*$", re.MULTILINE
)
_ANNOTATION = re.compile(r"(\w+)\s*:\s*\"([^\"]*)\"")
_BOXED_CLEAR = re.compile(r"^ *args_list\.clear\(\)$", re.MULTILINE)  # `_BoxedCodeGen`
_BOXED_INPUT = re.compile(r"^ *(\w+) = next\(args_iter\)$", re.MULTILINE)

_ASSIGN = re.compile(r"(\w+)(?:: \"([^\"]*)\"| : [^=]+?)? = ")
_OTHER = re.compile(r"return\b|\w+(?:\[.*\] =| [^\s=]{1,3}=) ")  # the output; operators in place
_OPEN = frozenset("([{,")
_INPLACE = re.compile(
    r"(?:(?P<a>.+?) (?P<op>\S{1,3}=) (?P<b>.+)|(?P<c>.+?)\[(?P<key>.*?)\] = (?P<value>.+));  "
    r"(?P<name>\w+)(?:: \"(?P<type>[^\"]*)\"| : [^=]+?)? = [^;]+",
    re.DOTALL,
)
# torch 2.15 builds boxed arguments on a line of their own, before the call that takes them.
_BOXED_ARGUMENT = re.compile(r"\w+_boxed_arg_\d+")
_SOURCE = re.compile(r"File: (.+?):(\d+) in (.+?), code: ?(.*)")


class GraphText(Struct, frozen=True):
    """A graph as torch printed it, and the nodes read from that text."""

    compile_id: CompileId
    name: str  # the event's: "aot_forward_graph"
    code: str
    nodes: tuple[Node, ...]
    subgraphs: tuple[Subgraph, ...] = ()
    attempt: int = 0


Placeholder = tuple[str, tuple[TensorSpec, ...], str]  # target, specs, default


def read_graph(event: Event, compile_id: CompileId, _files: Mapping[int, str]) -> tuple[GraphText, ...]:
    """Read a graph as torch printed it: its nodes, and those of the graphs inside it."""
    code = event.text or ""
    modules = list(_modules(code))
    if not modules:
        raise PayloadError(f"{event.name}: not a printed graph module: {code[:80]!r}")
    (_, nodes), *inner = modules
    subgraphs = tuple(Subgraph(name, nodes) for name, nodes in inner)
    return (GraphText(compile_id, event.name, code, nodes, subgraphs, event.attempt),)


def _modules(code: str) -> Iterator[tuple[str, tuple[Node, ...]]]:
    _, *parts = _CLASS.split(code)
    path: list[str] = []
    for indent, name, text in zip(parts[::3], parts[1::3], parts[2::3], strict=True):
        path[len(indent) // 4 :] = [name]
        yield ".".join(path[1:]), _read_module(text)


def _read_module(text: str) -> tuple[Node, ...]:
    match = _DEF.search(text)
    if match is None:
        raise PayloadError(f"a graph module without a forward function: {text[:80]!r}")
    placeholders, body = _placeholders(match[1], text[match.end() :])
    return _Body(placeholders).read(body)


def _placeholders(signature: str, body: str) -> tuple[list[Placeholder], str]:
    if ("tree_flatten_spec(" in body or "_in_shuffle_graph(" in body) and (match := _UNFLATTEN.search(body)):
        types = dict(_ANNOTATION.findall(body[: match.start()]))
        names = [name.strip() for name in match[1].split(",")]
        return [(name, read_specs(types.get(name, "")), "") for name in names], body[match.end() :]
    if "args_list.clear()" in body and (match := _BOXED_CLEAR.search(body)):
        names = _BOXED_INPUT.findall(body[: match.start()])
        return [(name, (), "") for name in names], body[match.end() :]
    return [_parameter(p) for p in split_commas(_TRAILING_COMMENT.sub("", signature)) if p not in {"", "self"}], body


def _parameter(text: str) -> Placeholder:
    match = _PARAMETER.fullmatch(text)
    if match is None:
        raise PayloadError(f"a parameter of an unknown form: {text[:80]!r}")
    target = text[: match.end(1)]
    return target, read_specs(match[2] or ""), match[3] or ""


def _statements(body: str) -> Iterator[tuple[str, str, re.Match[str] | None]]:
    """Each statement with the comment line that it stands under, and what it assigns to."""
    comment = pending = ""
    assigns: re.Match[str] | None = None
    for line in body.split("\n"):
        text = line.strip()
        if not text:
            continue
        if pending.startswith("return"):  # always the last one, and may run over many lines
            pending += "\n" + text
        elif text[0] == "#":
            if pending:
                yield comment, pending, assigns
            comment, pending = text, ""
        elif pending[-1:] not in _OPEN and ((match := _ASSIGN.match(text)) or _OTHER.match(text)):
            if pending:
                yield comment, pending, assigns
            pending, assigns = text, match
        elif pending and not is_closed(pending):  # a printed argument had a line break in it
            pending += "\n" + text
    if pending:
        yield comment, pending, assigns


def _without_deletes(text: str) -> str:
    """The statement without the `;  x = y = None` that frees what is read for the last time."""
    while text.endswith(" = None") and (cut := text.rfind(";  ")) > 0:
        text = text[:cut]
    return text


def _source(comment: str) -> tuple[SourceLine, ...]:
    match = _SOURCE.search(comment)
    return (SourceLine(match[1], int(match[2]), match[3], match[4]),) if match else ()


def _returned(text: str) -> str:
    """What a return statement returns, on one line, without the comments beside outputs."""
    text = _TRAILING_COMMENT.sub("", text).removeprefix("return").strip()
    text = text.removeprefix("pytree.tree_unflatten(").removesuffix(", self._out_spec)")
    return text.replace("\n", " ").replace("( ", "(").replace("[ ", "[").replace(", ]", "]").replace(", )", ",)")


class _Body:
    """Reads the statements of one forward function, in order: a node may read those before it."""

    def __init__(self, placeholders: list[Placeholder]) -> None:
        self.placeholders = {target.lstrip("*"): (target, specs, default) for target, specs, default in placeholders}
        self.names = {raw: raw for raw in self.placeholders}  # of placeholder nodes, by their name in the signature
        self.known = set(self.placeholders)
        self.nodes: list[Node] = []
        self.boxed: dict[str, str] = {}
        self.specs: dict[str | None, tuple[TensorSpec, ...]] = {None: ()}
        self.sources: dict[str, tuple[SourceLine, ...]] = {}

    def read(self, body: str) -> tuple[Node, ...]:
        """Return all nodes: placeholders first."""
        for comment, statement, assigns in _statements(body):
            text = _without_deletes(statement)
            if assigns:
                self._assignment(comment, assigns[1], assigns[2], text[assigns.end() :])
            elif text.startswith("return"):
                self._output(text)
            elif match := _INPLACE.fullmatch(text):
                self._inplace(comment, match)
        inputs = [
            Node(self.names[raw], "placeholder", target, specs=specs, arguments=default)
            for raw, (target, specs, default) in self.placeholders.items()
        ]
        return (*inputs, *self.nodes)

    def _assignment(self, comment: str, name: str, annotation: str | None, value: str) -> None:
        if value in self.names:  # `l_x_ = L_x_`: the node of a placeholder has another name than its parameter
            self.known.discard(value)
            self.known.add(name)
            self.names[value] = name
        elif _BOXED_ARGUMENT.fullmatch(name):
            self.boxed[name] = value
        else:
            if self.boxed:
                value = _BOXED_ARGUMENT.sub(lambda m: self.boxed.get(m[0], m[0]), value)
            self._add(comment, name, annotation, read_expression(value, self.known))

    def _inplace(self, comment: str, match: re.Match[str]) -> None:
        if match["op"]:
            expression = ("call_function", INPLACE.get(match["op"], match["op"]), f"{match['a']}, {match['b']}")
        else:
            expression = ("call_function", "operator.setitem", f"{match['c']}, {match['key']}, {match['value']}")
        self._add(comment, match["name"], match["type"], expression)

    def _add(self, comment: str, name: str, annotation: str | None, expression: Expression) -> None:
        op, target, arguments = expression
        if (specs := self.specs.get(annotation)) is None:
            specs = self.specs[annotation] = read_specs(annotation or "")
        if (source := self.sources.get(comment)) is None:
            source = self.sources[comment] = _source(comment)
        inputs = names_in(arguments, self.known)
        backward = "Backward of forward node" in comment  # torch 2.15 and later say so
        self.nodes.append(Node(name, op, target, inputs, specs, source, arguments=arguments, backward=backward))
        self.known.add(name)

    def _output(self, text: str) -> None:
        name, count = "output", 0
        while name in self.known:
            count += 1
            name = f"output_{count}"
        returned = _returned(text)
        self.nodes.append(Node(name, "output", "output", names_in(returned, self.known), arguments=returned))
