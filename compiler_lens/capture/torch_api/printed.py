"""The text of a Dynamo graph, the same as `GraphModule.print_readable` makes it, in a third of the time; and of guards.

torch generates runnable code for a graph, with a table of globals, which nobody runs: half a millisecond of a small
graph's compilation. This prints what almost all graphs are made of, as `CodeGen._gen_python_code` in torch/fx/graph.py
does. Where a graph has anything else, torch prints it. Guards are printed as GuardManagerWrapper in
torch/_dynamo/guards.py does, without its buffer, which asks each line what it is. torch also prints the first text of a
process, all if that one differs, and graphs under FX_GRAPH_SHOW_META.
"""

from __future__ import annotations

import functools
import os
from collections.abc import Callable, Iterable, Mapping
from typing import Any

# What nodes of a Dynamo graph have in their meta. Of these torch prints `stack_trace` and `example_value`.
_KNOWN = frozenset((
    "creation_timestamp", "example_value", "fwd_nn_module_stack", "grapharg", "nn_module_stack", "source_fn_stack",
    "stack_trace", "steal_arg", "tensor_dict",
))  # fmt: skip
_WITHOUT_TYPE = frozenset((bool, int, float, str, tuple, list, type(None)))  # values beside which torch prints no type
_PLAIN = frozenset((bool, int, float, str, type(None), type(...)))  # arguments that are printed as Python prints them
_INDENT = "        "
_SHOWS_META = "FX_GRAPH_SHOW_META"  # torch/fx/graph.py asks for it with each graph


class _UnusualError(Exception):
    """Only torch itself prints this surely as torch does."""


class _Torchs:
    """What torch has for printing."""

    def __init__(self) -> None:
        import torch
        from torch._subclasses import FakeTensor
        from torch.fx import GraphModule, Node, graph
        from torch.fx.immutable_collections import immutable_list
        from torch.utils._dtype_abbrs import dtype_abbrs

        self.FakeTensor, self.GraphModule, self.Node, self.CodeGen = FakeTensor, GraphModule, Node, graph.CodeGen
        self.dtype, self.device, self.immutable_list = torch.dtype, torch.device, immutable_list
        self.dtype_abbrs: Any = dtype_abbrs
        self.magic_methods, self.inplace_methods = graph.magic_methods, graph.inplace_methods
        self.parse_stack_trace, self.format_target = graph._parse_stack_trace, graph._format_target
        self.is_from_torch, self.qualified_name = graph._is_from_torch, graph._get_qualified_name
        self.taken_names = graph._illegal_names  # words of Python's and of the module that FX writes: a node is renamed


@functools.cache
def _torchs() -> _Torchs:
    return _Torchs()


Known = tuple[object, str]  # something of torch's, and the text of it that was printed before its record came


class Printer:
    """Gives the text for a kind of record of torch's trace; `own` prints it, or gives None where it cannot."""

    def __init__(self, own: Callable[[Mapping[str, Any], Known | None], str]) -> None:
        self._own = own
        self._agrees: bool | None = None  # with torch, as far as was seen

    def text(self, payload: Callable[[], Any], known: Known | None = None) -> Any:
        """Return what the payload function of a record gives."""
        printed = None if self._agrees is False else self._printed(payload, known)
        if self._agrees and printed is not None:
            return printed
        rendered = payload()
        if printed is not None:
            self._agrees = rendered == printed
        return rendered

    def _printed(self, payload: Callable[[], Any], known: Known | None) -> str | None:
        try:
            cells = zip(payload.__code__.co_freevars, payload.__closure__ or (), strict=True)
            return self._own({name: cell.cell_contents for name, cell in cells}, known)
        except Exception:  # noqa: BLE001 -- of another form, in whatever way: torch prints it
            return None


@functools.cache
def printers() -> Mapping[str, Printer]:
    """Return those of this process, by the name of the record."""
    return {
        "dynamo_output_graph": Printer(lambda cells, _known: readable(cells["gm"])),
        "dynamo_cpp_guards_str": Printer(
            lambda cells, known: guards(cells["self"].guard_manager, cells["latency"], known)
        ),
    }


# -- guards


def guards(wrapper: Any, latency: float, known: Known | None = None) -> str:
    """Return the text of a frame's guards, a GuardManagerWrapper, with the microseconds that a check of them takes."""
    tree = known[1] if known is not None and known[0] is wrapper else guard_tree(wrapper)
    return f"{tree}\nGuard latency = {latency:.2f} us"


def guard_tree(wrapper: Any) -> str:
    """Return that text up to the last line."""
    lines: list[str] = []
    root = wrapper.root
    _add_guards(lines, root, "| +- ", set(), _guard_torchs())
    if hasattr(root, "get_epilogue_lambda_guards"):
        for guard in root.get_epilogue_lambda_guards():
            name = type(guard).__name__
            lines += [f"+- {name}: {part}\n" for part in guard.verbose_code_parts()]
    return f"\nTREE_GUARD_MANAGER:\n+- RootGuardManager\n{''.join(lines)}"


@functools.cache
def _guard_torchs() -> tuple[Any, Any]:
    from torch._C._dynamo.guards import DictGuardManager, RelationalGuard

    return DictGuardManager, RelationalGuard


def _add_guards(lines: list[str], manager: Any, begin: str, told: set[Any], torchs: tuple[Any, Any]) -> None:
    """Add the lines of what a guard manager checks, as GuardManagerWrapper in torch/_dynamo/guards.py prints it."""
    of_a_dict, relational = torchs
    for guard in manager.get_leaf_guards():
        name = type(guard).__name__
        if isinstance(guard, relational):  # it may be of several managers
            if guard in told:
                lines.append(f"{begin}{name}\n")
                continue
            told.add(guard)
        for part in guard.verbose_code_parts():
            lines.append(f"{begin}{name}: {part}\n")  # noqa: PERF401 -- until Python 3.12 a comprehension is a call
    inner = f"| {begin}"
    if isinstance(manager, of_a_dict):
        for index, pair in sorted(manager.get_key_value_managers().items()):
            lines.append(f"{begin}KeyValueManager pair at index={index}\n")
            for name, one in zip(("KeyManager", "ValueManager"), pair, strict=True):
                if one:
                    lines.append(f"{inner}{name}: {_manager(one, '')}\n")
                    _add_guards(lines, one, f"| {inner}", told, torchs)
    for accessor, child in zip(manager.get_accessors(), manager.get_child_managers(), strict=False):
        lines.append(f"{begin}{_manager(child, f', accessed_by={accessor.repr()}')}\n")
        _add_guards(lines, child, inner, told, torchs)


def _manager(manager: Any, accessed: str) -> str:
    is_safe = f"tag_safe=({manager.is_tag_safe()}, {manager.is_tag_safe_root()})"
    kind = manager.get_type_of_guarded_value()
    return f"{type(manager).__name__}: source={manager.get_source()}{accessed}, type={kind}, {is_safe}"


# -- graphs


def readable(graph_module: Any) -> str:
    """Return the text of a graph module with strides and devices; raises where it is not known how torch prints it."""
    torchs = _torchs()
    graph = graph_module.graph
    codegen, nodes = graph._codegen, list(graph.nodes)
    is_usual = type(codegen) is torchs.CodeGen and codegen._body_transformer is None and nodes[-1].op == "output"
    inside = graph_module._modules.values()
    if (
        os.environ.get(_SHOWS_META) == "1"
        or not is_usual
        or any(isinstance(module, torchs.GraphModule) for module in inside)
    ):
        raise _UnusualError
    parameters, lines = ["self"], [""]
    _add_lines(parameters, lines, nodes)
    lines[0] = f"class {graph_module._get_name()}(torch.nn.Module):\n    def forward({', '.join(parameters)}):\n"
    return "".join(lines)


def _add_lines(parameters: list[str], lines: list[str], nodes: list[Any]) -> None:
    """Add the parameters of the function and its statements, each under the line of source that it comes from."""
    freed, taken_names = _freed(nodes), _torchs().taken_names
    before, begins = "", ""
    for node in nodes:
        op, name = node.op, node.name
        if not node.meta.keys() <= _KNOWN or name in taken_names:
            raise _UnusualError
        if op == "placeholder":
            parameters.append(_parameter(node))
            if name != node.target:
                lines.append(f"{_INDENT}{name} = {node.target}\n")
                begins = "\n"
            continue
        if op == "output":
            if node.type is not None:
                raise _UnusualError
            lines.append(f"{_INDENT}return {_argument(node.args[0])}\n")
            return
        source = _source(node.meta.get("stack_trace"))
        if source != before:
            lines.append(f"{begins}{_INDENT}# {source}\n")
            before = source
        begins = "\n"
        ends = f";  {' = '.join(freed[node])} = None" if node in freed else ""
        lines.append(f"{_INDENT}{_statement(node)}{ends}\n")


def _parameter(node: Any) -> str:
    shown = _type(node)
    if node.args or node.target[:1] == "*" or (not shown and node.type is not None):
        raise _UnusualError
    return f"{node.target}{shown}"


def _freed(nodes: list[Any]) -> dict[Any, list[str]]:
    """What each node is the last to use, itself where nobody uses it."""
    seen: set[Any] = set()
    found: dict[Any, list[str]] = {}
    for node in reversed(nodes):
        last: list[str] = []
        for one in node.all_input_nodes:
            if one not in seen:
                seen.add(one)
                last.append(one.name)
        if not node.users:
            last.append(node.name)
        if last:
            found[node] = last
    return found


@functools.lru_cache(256)
def _source(stack: str | None) -> str:
    parsed = _torchs().parse_stack_trace(stack) if stack else None
    return parsed.get_summary_str() if parsed else "No stacktrace found for following nodes"


def _type(node: Any) -> str:
    value = node.meta.get("example_value")
    if type(value) is _torchs().FakeTensor:
        sizes = f"{[*value.shape]}{[*value.stride()]}"
        return f': "{_torchs().dtype_abbrs[value.dtype]}{sizes}{_device(value.fake_device)}"'
    if type(value) not in _WITHOUT_TYPE and type(value).__module__ != "torch.return_types":
        raise _UnusualError
    return ""


_device = functools.lru_cache(64)(str)  # torch makes it by a stream of C++


# -- a node's statement


def _statement(node: Any) -> str:
    torchs = _torchs()
    shown = _type(node)
    if node.type is not None and not shown:
        raise _UnusualError
    begin, target = f"{node.name}{shown} = ", node.target
    if node.op == "call_function":
        return _call(node, begin)
    if node.op == "call_method":
        return (
            f"{begin}{torchs.format_target(_argument(node.args[0]), target)}({_arguments(node.args[1:], node.kwargs)})"
        )
    if node.op not in ("call_module", "get_attr"):
        raise _UnusualError
    path = torchs.format_target("self", target)
    return f"{begin}{path}" if node.op == "get_attr" else f"{begin}{path}({_arguments(node.args, node.kwargs)})"


def _call(node: Any, begin: str) -> str:
    torchs, target = _torchs(), node.target
    if getattr(target, "__module__", "") == "_operator":
        arguments = map(_argument, node.args)
        if target.__name__ in torchs.magic_methods:
            return f"{begin}{torchs.magic_methods[target.__name__].format(*arguments)}"
        changed = torchs.inplace_methods[target.__name__].format(*arguments)
        return f"{changed};  {begin}{_argument(node.args[0])}"
    if target is getattr:
        receiver, name = node.args
        if not name.isidentifier():
            raise _UnusualError
        return f"{begin}{_argument(receiver)}.{name}"
    return f"{begin}{_function(target)}({_arguments(node.args, node.kwargs)})"


def _function(target: Any) -> str:
    if not _torchs().is_from_torch(target) or target is _torchs().device:
        raise _UnusualError
    name: str = _torchs().qualified_name(target)
    return name


def _arguments(args: Iterable[Any], kwargs: dict[str, Any]) -> str:
    return ", ".join([*map(_argument, args), *(f"{name} = {_argument(value)}" for name, value in kwargs.items())])


def _argument(value: Any) -> str:
    torchs = _torchs()
    kind = type(value)
    if kind is torchs.Node:
        name: str = value.name
        return name
    if kind in _PLAIN or kind is torchs.dtype:
        return repr(value)
    if kind is tuple:
        return f"({_argument(value[0])},)" if len(value) == 1 else f"({', '.join(map(_argument, value))})"
    if kind is list or kind is torchs.immutable_list:
        return f"[{', '.join(map(_argument, value))}]"
    if kind is slice:
        return f"slice({', '.join(map(_argument, (value.start, value.stop, value.step)))})"
    raise _UnusualError
