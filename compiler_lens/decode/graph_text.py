"""Graphs, from the text that `GraphModule.print_readable` makes of them.

The text is what torch sends in `dynamo_output_graph`, `aot_*_graph` and `inductor_post_grad_graph`, live and from
its caches. One class per graph module, with the graphs that its higher-order ops run as classes inside it
(torch/fx/graph_module.py, `_print_readable`). How FX prints a node is in torch/fx/graph.py,
`CodeGen._gen_python_code.emit_node`.
"""

from __future__ import annotations

import math
import operator
import re
from collections import deque
from collections.abc import Container, Iterator, Mapping
from sys import intern

from msgspec import Struct

from compiler_lens.decode.shared_text import EACH_ITS_OWN, Texts
from compiler_lens.decode.stacks import STRING, source_line
from compiler_lens.recording.errors import PayloadError
from compiler_lens.recording.event import Event
from compiler_lens.recording.model import CompileId, Node, SourceLine, Subgraph, TensorSpec
from compiler_lens.recording.torch_names import GRADIENT_PREFIX

_CLASS = re.compile(r"^( *)class (.+)\(torch\.nn\.Module\):$", re.MULTILINE)
_DEF = re.compile(r"^ *def \w+\(", re.MULTILINE)
_TRAILING_COMMENT = re.compile(r"  # [^\n]*")
_PARAMETER = re.compile(r"(\*{0,2}\w+)\s*(:|=|\Z)")
# Joint graphs take a pytree: their placeholders are on the left of this line (torch/fx/graph.py, `_PyTreeCodeGen`).
_UNFLATTEN = re.compile(
    r"^ *(\w[^\n]*?), = (?:fx_pytree\.tree_flatten_spec|self\._in_shuffle_graph)\(.*$", re.MULTILINE
)
_ANNOTATION = re.compile(r"(?<!\w)(\w+)\s*:\s*\"([^\"]*)\"")
_BOXED_CLEAR = re.compile(r"^ *args_list\.clear\(\)$", re.MULTILINE)  # `_BoxedCodeGen`
_BOXED_INPUT = re.compile(r"^ *(\w+) = next\(args_iter\)$", re.MULTILINE)

_ASSIGN = re.compile(r"(\w+)(?:: \"([^\"]*)\"| : [^=]+?)? = ")
_OTHER = re.compile(r"return\b|\w+(?:\[.*\] =| [^\s=]{1,3}=) ")  # the output; operators in place
_OPEN = frozenset("([{,")
_INPLACE = re.compile(r"(?<=.) (\S{1,3}=) (?=.)", re.DOTALL)
# torch 2.15 builds boxed arguments on a line of their own, before the call that takes them.
_BOXED_ARGUMENT = re.compile(r"(?<!\w)\w+_boxed_arg_\d+")
_SOURCE = re.compile(r":(\d{1,9}) in ")


class GraphText(Struct, frozen=True):
    """A graph as torch printed it, and the nodes read from that text."""

    compile_id: CompileId
    name: str  # the event's: "aot_forward_graph"
    code: str
    nodes: tuple[Node, ...]
    subgraphs: tuple[Subgraph, ...] = ()
    attempt: int = 0

    @property
    def takes_gradients(self) -> bool:
        """Whether it is a backward's, by the names of its inputs."""
        return any(node.op == "placeholder" and node.name.startswith(GRADIENT_PREFIX) for node in self.nodes)


Placeholder = tuple[str, tuple[TensorSpec, ...], str]  # target, specs, default


def read_graph(
    event: Event, compile_id: CompileId, _files: Mapping[int, str], texts: Texts = EACH_ITS_OWN
) -> tuple[GraphText, ...]:
    """Read a graph as torch printed it: its nodes, and those of the graphs inside it."""
    code = event.text or ""
    first, *inner = texts.read(read_printed, code)
    return (GraphText(compile_id, event.name, code, first.nodes, tuple(inner), event.attempt),)


def read_printed(code: str) -> tuple[Subgraph, ...]:
    """Read a printed graph module, then those inside it. Raises `PayloadError` for a text that is none."""
    _, *parts = _CLASS.split(code)
    if not parts:
        raise PayloadError(f"not a printed graph module: {code[:80]!r}")
    path: list[str] = []
    graphs = []
    for indent, name, text in zip(parts[::3], parts[1::3], parts[2::3], strict=True):
        path[len(indent) // 4 :] = [name]
        placeholders, body = _placeholders(*_forward(text))
        graphs.append(Subgraph(".".join(path[1:]), _Body(placeholders).read(body)))
    return tuple(graphs)


def _forward(text: str) -> tuple[str, str]:
    """What stands between the brackets of a graph module's function, and the function's body."""
    head = _DEF.search(text)
    begin = head.end() if head else len(text)
    end = text.find(":", begin)
    while end >= 0:
        if text[end + 1 : end + 2] in ("", "\n"):
            line = text[max(text.rfind("\n", begin, end) + 1, begin) : end]
            arrow = line.find(") -> ")
            if arrow >= 0 or line.endswith(")"):
                close = end - len(line) + arrow if arrow >= 0 else end - 1
                return text[begin:close], text[end + 2 :]
        end = text.find(":", end + 1)
    raise PayloadError(f"a graph module without a forward function: {text[:80]!r}")


def _placeholders(signature: str, body: str) -> tuple[list[Placeholder], str]:
    if ("tree_flatten_spec(" in body or "_in_shuffle_graph(" in body) and (match := _UNFLATTEN.search(body)):
        types = dict(_ANNOTATION.findall(body[: match.start()]))
        names = [name.strip() for name in match[1].split(",")]
        return [(name, _read_specs(types.get(name, "")), "") for name in names], body[match.end() :]
    if "args_list.clear()" in body and (match := _BOXED_CLEAR.search(body)):
        names = _BOXED_INPUT.findall(body[: match.start()])
        return [(name, (), "") for name in names], body[match.end() :]
    found: list[Placeholder] = []
    for text in split_commas(_TRAILING_COMMENT.sub("", signature)):
        parameter = _PARAMETER.match(text)
        if parameter is None and text:
            raise PayloadError(f"a parameter of an unknown form: {text[:80]!r}")
        if parameter is not None and text != "self":
            _, quote, rest = text[parameter.end(2) :].partition('"') if parameter[2] == ":" else ("", "", "")
            annotation, _, rest = rest.partition('"') if quote else ("", "", text[parameter.start(2) :])
            found.append((parameter[1], _read_specs(annotation), rest.partition("=")[2].lstrip()))
    return found, body


def _statements(body: str) -> Iterator[tuple[str, str, re.Match[str] | None]]:  # noqa: C901 -- for each kind of line
    """Each statement with the comment line that it stands under, and what it assigns to."""
    comment = pending = ""
    depth = read = 0  # of the brackets that are open in the first so many characters of `pending`
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
            comment, pending, depth, read = text, "", 0, 0
        elif pending[-1:] not in _OPEN and ((match := _ASSIGN.match(text)) or _OTHER.match(text)):
            if pending:
                yield comment, pending, assigns
            pending, assigns, depth, read = text, match, 0, 0
        elif pending:
            depth += _left_open(pending[read:])
            read = len(pending)
            if depth > 0:  # a printed argument had a line break in it
                pending += "\n" + text
    if pending:
        yield comment, pending, assigns


def _left_open(text: str) -> int:
    """The number of brackets that are opened in a text and not closed."""
    return next((depth for depth, *_ in deque(_marks(text), maxlen=1)), 0)


class _Body:
    """Reads the statements of one forward function, in order: a node may read those before it."""

    def __init__(self, placeholders: list[Placeholder]) -> None:
        self.placeholders = {target.lstrip("*"): (target, specs, default) for target, specs, default in placeholders}
        self.names = {raw: raw for raw in self.placeholders}  # of placeholder nodes, by their name in the signature
        self.known = {name: name for name in self.placeholders}  # each name once, for all that read it
        self.nodes: list[Node] = []
        self.boxed: dict[str, str] = {}
        self.specs: dict[str | None, tuple[TensorSpec, ...]] = {None: ()}
        self.sources: dict[str, tuple[SourceLine, ...]] = {}

    def read(self, body: str) -> tuple[Node, ...]:
        """Return all nodes: placeholders first."""
        for comment, statement, assigns in _statements(body):
            end = len(statement)  # without the `;  x = y = None` that frees what is read for the last time
            while statement.endswith(" = None", 0, end) and (cut := statement.rfind(";  ", 0, end)) > 0:
                end = cut
            text = statement[:end]
            if assigns:
                self._assignment(comment, assigns[1], assigns[2], text[assigns.end() :])
            elif text.startswith("return"):
                self._output(text)
            else:
                self._inplace(comment, text)
        inputs = [
            Node(self.names[raw], "placeholder", target, specs=specs, arguments=default)
            for raw, (target, specs, default) in self.placeholders.items()
        ]
        return (*inputs, *self.nodes)

    def _assignment(self, comment: str, name: str, annotation: str | None, value: str) -> None:
        if name in self.known:  # FX names no two nodes alike: this is part of a printed argument
            return
        if value in self.names:  # `l_x_ = L_x_`: the node of a placeholder has another name than its parameter
            self.known.pop(value, None)
            self.names[value] = self.known[name] = name
        elif _BOXED_ARGUMENT.fullmatch(name):
            self.boxed[name] = value
        else:
            if self.boxed:
                value = _BOXED_ARGUMENT.sub(lambda m: self.boxed.get(m[0], m[0]), value)
            self._add(comment, name, annotation, _read_expression(value, self.known))

    def _inplace(self, comment: str, text: str) -> None:
        """`x += y;  add_ = x`, `x[0] = y;  setitem = x`."""
        done, _, named = text.rpartition(";  ")
        assigns = _ASSIGN.match(named)
        if not done or assigns is None or assigns[1] in self.known:
            return
        if operator_ := _INPLACE.search(done):
            target = _INPLACE_OPS.get(operator_[1], operator_[1])
            arguments = f"{done[: operator_.start()]}, {done[operator_.end() :]}"
        else:
            container, _, rest = done.partition("[")
            key, is_setting, value = rest.partition("] = ")
            if not is_setting:
                return
            target, arguments = "operator.setitem", f"{container}, {key}, {value}"
        self._add(comment, assigns[1], assigns[2], ("call_function", target, arguments))

    def _add(self, comment: str, name: str, annotation: str | None, expression: Expression) -> None:
        op, target, arguments = expression
        if (specs := self.specs.get(annotation)) is None:
            specs = self.specs[annotation] = _read_specs(annotation or "")
        if (source := self.sources.get(comment)) is None:
            source = self.sources[comment] = _source(comment)
        inputs = _names_in(arguments, self.known)
        backward = "Backward of forward node" in comment  # torch 2.15 and later say so
        name, target = intern(name), intern(target)  # they come in each stage of a graph, and in what hooks saw of it
        self.nodes.append(Node(name, op, target, inputs, specs, source, arguments=intern(arguments), backward=backward))
        self.known[name] = name

    def _output(self, text: str) -> None:
        name, count = "output", 0
        while name in self.known:
            count += 1
            name = f"output_{count}"
        # What it returns, on one line, without the comments beside outputs.
        text = _TRAILING_COMMENT.sub("", text).removeprefix("return").strip()
        text = text.removeprefix("pytree.tree_unflatten(").removesuffix(", self._out_spec)").replace("\n", " ")
        text = text.replace("( ", "(").replace("[ ", "[").replace(", ]", "]").replace(", )", ",)")
        self.nodes.append(Node(name, "output", "output", _names_in(text, self.known), arguments=text))


def _source(comment: str) -> tuple[SourceLine, ...]:
    """The place in `# File: model.py:41 in forward, code: return x + 1`."""
    place, has_code, code = comment.partition("File: ")[2].partition(", code:")
    at = _SOURCE.search(place) if has_code else None
    return (source_line(place[: at.start()], int(at[1]), place[at.end() :], code.removeprefix(" ")),) if at else ()


# -- the right-hand sides of printed nodes, and the types that stand beside their names

# `magic_methods` of torch/fx/graph.py: these are printed as operators.
_BINARY = {
    "==": "operator.eq", "!=": "operator.ne", "<": "operator.lt", ">": "operator.gt", "<=": "operator.le",
    ">=": "operator.ge", "+": "operator.add", "-": "operator.sub", "*": "operator.mul", "//": "operator.floordiv",
    "/": "operator.truediv", "%": "operator.mod", "**": "operator.pow", "<<": "operator.lshift",
    ">>": "operator.rshift", "&": "operator.and_", "|": "operator.or_", "^": "operator.xor", "@": "operator.matmul",
}  # fmt: skip
_UNARY_OPS = {"-": "operator.neg", "~": "operator.invert", "+": "operator.pos"}
# `inplace_methods` of the same file.
_INPLACE_OPS = {
    "+=": "operator.iadd", "&=": "operator.iand", "//=": "operator.ifloordiv", "<<=": "operator.ilshift",
    "%=": "operator.imod", "*=": "operator.imul", "@=": "operator.imatmul", "|=": "operator.ior",
    "**=": "operator.ipow", ">>=": "operator.irshift", "-=": "operator.isub", "/=": "operator.itruediv",
    "^=": "operator.ixor",
}  # fmt: skip

_OPERATORS = r"==|!=|<=|>=|<<|>>|//|\*\*|[-+*/%&|^@<>]"
_HEAD = re.compile(r"([A-Za-z_]\w*)((?:\.\w+)*)(\()?")
_SIMPLE_BINARY = re.compile(rf"([\w.]+) ({_OPERATORS}) (.+)", re.DOTALL)
_SIMPLE_ITEM = re.compile(r"(\w+)\[(.+)\]", re.DOTALL)
_UNARY = re.compile(r"([-+~])([A-Za-z_]\w*)")
_MARKS = re.compile(rf"{STRING}|[(\[{{]|[)\]}}]| (?:{_OPERATORS}) |,", re.DOTALL)
_GETATTR = re.compile(r"getattr\(([^\s(),]+), \"([^\"]*)\"\)")
_SELF = re.compile(r"self\.([^(]+)(?:\((.*)\))?", re.DOTALL)
_NAMES = re.compile(rf"{STRING}|(?<![\w.])([A-Za-z_]\w*)(?!\w|\s?=[^=])", re.DOTALL)
_SPEC = re.compile(r"(?<!\w)(\w+)\[([^\[\]]*)\](?:\[([^\[\]]*)\])?([a-z][\w:]*)?")

# FX prints a function from outside torch as one name, `math_floor` (`CodeGen` add_global).
_FLATTENED = {
    **{f"math_{name}": f"math.{name}" for name in dir(math)},
    **{f"_operator_{name}": f"operator.{name}" for name in dir(operator)},
}

_DEEPEST = 50  # attributes of attributes whose names are no identifiers

Expression = tuple[str, str, str]  # op, target, arguments


def _read_expression(text: str, known: Container[str]) -> Expression:
    """Read what a node computes; `known` are the nodes so far, to know `x.view(2)` from `torch.relu(x)`."""
    head = _HEAD.match(text)
    if head is None:
        return _operation(text)
    root, path, paren = head.groups()
    if paren and text[-1] == ")":
        return _call(root, path[1:], text[head.end() : -1], known)
    if paren and root == "getattr" and not path:
        return _attribute_call(text, known)
    if path and head.end() == len(text):
        is_own = root == "self" and root not in known
        return ("get_attr", path[1:], "") if is_own else ("call_function", "getattr", f"{root}, {path[1:]!r}")
    return _operation(text)


def _call(root: str, path: str, arguments: str, known: Container[str]) -> Expression:
    if path and root in known:
        return "call_method", path, f"{root}, {arguments}" if arguments else root
    if path and root == "self":
        return "call_module", path, arguments
    if root == "getattr" and '"' in arguments:
        return _attribute_call(f"getattr({arguments})", known)
    function = f"{root}.{path}" if path else root
    return "call_function", _FLATTENED.get(function, function), arguments


def _attribute_call(text: str, known: Container[str]) -> Expression:
    """`getattr(self.layers, "0")(x)`: how FX prints a path with a part that is no identifier (`_format_target`)."""
    flat = text
    for _ in range(_DEEPEST):
        flat, count = _GETATTR.subn(r"\1.\2", flat)
        if not count:
            break
    if match := _SELF.fullmatch(flat):
        path, arguments = match.groups()
        return ("get_attr", path, "") if arguments is None else ("call_module", path, arguments)
    root, dot, rest = flat.partition(".")
    if dot and root in known:
        path, paren, arguments = rest.partition("(")
        return _call(root, path, arguments[:-1], known) if paren else ("call_function", "getattr", f"{root}, {path!r}")
    return "call_function", "getattr", text.removeprefix("getattr(").removesuffix(")")


def _operation(text: str) -> Expression:
    if match := _SIMPLE_BINARY.fullmatch(text):
        return "call_function", _BINARY[match[2]], f"{match[1]}, {match[3]}"
    if match := _SIMPLE_ITEM.fullmatch(text):
        return "call_function", "operator.getitem", f"{match[1]}, {match[2]}"
    if match := _UNARY.fullmatch(text):
        return "call_function", _UNARY_OPS[match[1]], match[2]
    for depth, mark, start, end in _marks(text):
        if depth == 0 and mark[0] == " ":
            return "call_function", _BINARY[mark[1:-1]], f"{text[:start]}, {text[end:]}"
        if depth == 1 and mark == "[" and start and text[-1] == "]":
            return "call_function", "operator.getitem", f"{text[:start]}, {text[end:-1]}"
    return "call_function", text, text


def _marks(text: str) -> Iterator[tuple[int, str, int, int]]:
    """Brackets, infix operators and commas outside of strings, with the depth that they leave."""
    depth = 0
    for match in _MARKS.finditer(text):
        mark = match[0]
        depth += (mark in "([{") - (mark in ")]}")
        if mark[0] not in "'\"":
            yield depth, mark, match.start(), match.end()


def split_commas(text: str) -> list[str]:
    """Return the parts between the commas that are inside no bracket and no string."""
    parts, begin = [], 0
    for depth, mark, start, end in _marks(text):
        if depth == 0 and mark == ",":
            parts.append(text[begin:start].strip())
            begin = end
    return [*parts, text[begin:].strip()]


def _names_in(text: str, known: Mapping[str, str]) -> tuple[str, ...]:
    """Return the nodes that an argument list names, in order; no keywords, no attributes, no words in strings."""
    return tuple(dict.fromkeys([known[name] for name in _NAMES.findall(text) if name in known]))


def _read_specs(annotation: str) -> tuple[TensorSpec, ...]:
    """Read `f32[s0, 64][64, 1]cpu`, alone or in a subclass's brackets. Empty for `Sym(s0)` and anything else."""
    match = _SPEC.search(annotation)
    if match is None or annotation.startswith("Sym("):
        return ()
    dtype, shape, stride, device = match.groups()
    strides = None if stride is None else _sizes(stride)
    return (TensorSpec(intern(dtype), _sizes(shape), strides, device and intern(device)),)


_SIZE = re.compile(r"[0-9]{1,18}")


def _sizes(text: str) -> tuple[int | str, ...]:
    parts = split_commas(text) if "(" in text else text.split(", ")
    return tuple(int(part) if _SIZE.fullmatch(part) else part for part in parts if part)
