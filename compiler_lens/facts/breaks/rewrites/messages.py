"""Whether a call is there for its message alone: by its name, unless the file shows that the name is something else."""

from __future__ import annotations

import ast
from collections.abc import Iterator, Sequence
from functools import lru_cache

from msgspec import Struct
from msgspec.structs import replace

from compiler_lens.facts.breaks.rewrites import effects, syntax
from compiler_lens.facts.breaks.rewrites.site import Site, parsed
from compiler_lens.facts.breaks.rewrites.syntax import called, dotted

_LOGGERS = frozenset({"logger", "log", "_logger", "LOG", "LOGGER", "logging", "_log", "self.logger", "self.log"})
_EFFECTS = frozenset({
    "print", "breakpoint", "warnings.warn", "pdb.set_trace", "time.sleep", "gc.collect", "sys.stdout.write",
    "sys.stdout.flush", "torch.cuda.synchronize", "torch.cuda.empty_cache", "torch.cuda.reset_peak_memory_stats",
})  # fmt: skip
LEVELS = frozenset({
    "debug", "info", "warning", "warn", "error", "critical", "exception", "log",
    "info_once", "warning_once", "warning_advice",  # which transformers gives to loggers, and diffusers
})  # fmt: skip
_OF_LOGGING = frozenset({"Logger", "LoggerAdapter", "RootLogger"})
_MADE = frozenset({"getChild", "bind", "opt"})  # of a logger, another one
_TERMINAL = ("sys.stdout", "sys.stderr", "sys.__stdout__", "sys.__stderr__")
_OF_PRINT = frozenset({"sep", "end", "flush", "file"})
_REDIRECTING = frozenset({"redirect_stdout", "redirect_stderr"})
_FOLLOWED = 3  # names that are one another's


def is_message(site: Site, call: ast.Call) -> bool:
    """Return whether a call is of what writes a message, as far as the file shows, and of nothing that others count."""
    return is_message_in(parsed(site.text), site.function, call)


def is_message_in(tree: ast.Module | None, function: syntax.Function | None, call: ast.Call) -> bool:
    """Return whether a call in a function of a file is of what writes a message, and of nothing that others count."""
    name = dotted(call.func)
    owner, _, level = name.rpartition(".")
    if name not in _EFFECTS and not (owner in _LOGGERS and level in LEVELS):
        return False
    if not _goes_to_the_terminal(call) or (level == "log" and not _is_level(call)):
        return False
    if tree is None or function is None:
        return True
    file = _File(tree, function)
    return _is_what_it_says(file, name) if name in _EFFECTS else _logs(file, owner, level) and not is_counted(tree)


def _goes_to_the_terminal(call: ast.Call) -> bool:
    """Whether a `print` is given nothing but what its text looks like: another file holds data."""
    if dotted(call.func) != "print":
        return True
    files = [word.value for word in call.keywords if word.arg == "file"]
    return {word.arg for word in call.keywords} <= _OF_PRINT and all(dotted(one) in _TERMINAL for one in files)


def _is_what_it_says(file: _File, name: str) -> bool:
    """Whether a name of Python's, or of a module's, is no other thing here, and nobody reads what it writes."""
    root, _, last = name.partition(".")
    if not all(_is_import(one.value) and last for one in file.bound(root)):
        return False
    if name == "print" or name.startswith("sys.stdout"):
        return not _words(file.tree) & _REDIRECTING and not _stored(file.tree) & {"sys.stdout", "builtins.print"}
    if name == "warnings.warn":
        hears = _words(file.tree) & {"catch_warnings", "showwarning", "captureWarnings"}
        return not hears and not _raises_warnings(file.tree)
    return name not in _stored(file.tree)


def _is_import(value: ast.AST) -> bool:
    """Whether a value is a module, or None in its place."""
    return isinstance(value, ast.Import | ast.ImportFrom | ast.Constant)


def _raises_warnings(tree: ast.Module) -> bool:
    """Whether a warning may be an error."""
    filters = [call for call in syntax.calls_in(tree) if called(call) in ("simplefilter", "filterwarnings")]
    given = (n for call in filters for n in (*call.args[:1], *(word.value for word in call.keywords)))
    return any(not isinstance(n, ast.Constant) or n.value == "error" for n in given)


def _is_level(call: ast.Call) -> bool:
    """Whether the first argument of `logger.log` is a level, not a name of what is kept."""
    match call.args[:1]:
        case [ast.Constant(value=int())]:
            return True
        case [ast.Name(id=name) | ast.Attribute(attr=name)]:
            return name.isupper() or name.lower().endswith("level")
    return False


# -- loggers


def _logs(file: _File, owner: str, level: str, depth: int = _FOLLOWED) -> bool:
    """Whether all that a name is bound to is a logger of Python's, or of a library, by its looks."""
    bound = file.bound(owner)
    if owner == "logging":
        return all(_is_import(one.value) for one in bound)
    if f"{owner}.{level}" in _stored(file.tree):
        return False
    is_open = not bound or any(isinstance(one.value, ast.arg) and one.value.annotation is None for one in bound)
    # Where nothing says what it is, a class of the file that has such a method may be it.
    if is_open and any(_has_method(one, level) and not _is_logger(file, one) for one in file.classes.values()):
        return False
    return all(_is_made_a_logger(replace(file, function=one.home), one.value, level, depth) for one in bound)


def _is_made_a_logger(  # noqa: PLR0911 -- one for each kind of syntax
    file: _File, value: ast.AST, level: str, depth: int
) -> bool:
    match value:
        case ast.Import() | ast.ImportFrom() | ast.Constant(value=None):
            return True
        case ast.arg(annotation=kind):
            return kind is None or _is_kind_of_logger(file, kind)
        case ast.FunctionDef():  # a property
            return _asks_for_logger(value)
        case ast.Call():
            return _gives_logger(file, value)
        case ast.IfExp(body=one, orelse=other):
            parts = [one, other]
            return all(_is_made_a_logger(file, part, level, depth) for part in parts)
        case ast.BoolOp(values=parts):
            return all(_is_made_a_logger(file, part, level, depth) for part in parts)
        case ast.Name(id=name) if depth:
            return _logs(file, name, level, depth - 1)
        case ast.Attribute(attr=name):
            return name in _LOGGERS or dotted(value) == "logging.root"
    return False


def _gives_logger(file: _File, call: ast.Call) -> bool:
    """Whether a call gives a logger: `logging.getLogger(…)`, a function named so, a class that is one."""
    name, known = called(call), file.classes
    if name in known:
        return _is_logger(file, known[name])
    if name[:1].isupper():
        return name in _OF_LOGGING
    made = [n for n in ast.walk(file.tree) if isinstance(n, syntax.Function) and n.name == name]
    if made:
        return all(map(_asks_for_logger, made))
    return "logger" in name.lower() or name in _MADE


def _asks_for_logger(function: syntax.Function) -> bool:
    return any(called(inner) in ("getLogger", "get_logger") for inner in syntax.calls_in(function))


def _is_kind_of_logger(file: _File, kind: ast.expr) -> bool:
    """Whether an annotation is of loggers: of anything else the name may keep what it is told."""
    text = kind.value if isinstance(kind, ast.Constant) and isinstance(kind.value, str) else ast.unparse(kind)
    words = [word.rpartition(".")[2] for word in text.replace("[", "|").replace("]", "").split("|")]
    named = [word.strip() for word in words if word.strip() not in ("None", "Optional", "Any")]
    known = file.classes
    return all(_is_logger(file, known[word]) if word in known else word in _OF_LOGGING for word in named)


def _is_logger(file: _File, kind: ast.ClassDef, depth: int = _FOLLOWED) -> bool:
    """Whether a class of the file is a logger of Python's that keeps nothing of what it is told."""
    known, bases = file.classes, [dotted(base).rpartition(".")[2] for base in kind.bases]
    is_one = any(
        _is_logger(file, known[base], depth - 1) if base in known and depth else base in _OF_LOGGING for base in bases
    )
    methods = [n for n in kind.body if isinstance(n, syntax.Function) and n.name != "__init__"]
    return is_one and not any(effects.changed(method) for method in methods)


def is_counted(tree: ast.Module) -> bool:
    """Return whether a handler or a filter of the file's own hears what is logged."""
    own = (one for one in _classes(tree).values() if _has_method(one, "emit") or _has_method(one, "filter"))
    of_logging = any(dotted(base).endswith(("Handler", "Filter")) for one in own for base in one.bases)
    return of_logging or bool(_words(tree) & {"addFilter", "assertLogs", "assertNoLogs", "setLoggerClass"})


def _has_method(kind: ast.ClassDef, name: str) -> bool:
    return any(isinstance(n, syntax.Function) and n.name == name for n in kind.body)


# -- what is found out once of a file


class _Binding(Struct, frozen=True):
    """What a name, or an attribute of `self`, is bound to: a value, an import, a parameter, a class."""

    name: str
    value: ast.AST
    home: ast.AST | None  # the function that binds it
    is_local: bool  # to that function


class _File(Struct, frozen=True):
    """A file as one of its functions sees it."""

    tree: ast.Module
    function: ast.AST | None  # None: as its top does

    @property
    def classes(self) -> dict[str, ast.ClassDef]:
        """Classes by name."""
        return _classes(self.tree)

    def bound(self, name: str) -> list[_Binding]:
        """Return all that a name of the function's, or of what is around it, is bound to."""
        line = getattr(self.function, "lineno", 0)
        found = (one for one in _bindings(self.tree) if one.name == name)
        return [one for one in found if not one.is_local or _is_around(one.home, line)]


def _is_around(function: ast.AST | None, line: int) -> bool:
    return getattr(function, "lineno", 0) <= line <= (getattr(function, "end_lineno", 0) or 0)


@lru_cache(maxsize=4)
def _classes(tree: ast.Module) -> dict[str, ast.ClassDef]:
    return {n.name: n for n in ast.walk(tree) if isinstance(n, ast.ClassDef)}


@lru_cache(maxsize=4)
def _bindings(tree: ast.Module) -> Sequence[_Binding]:
    found: list[_Binding] = []
    left: list[tuple[ast.AST, ast.AST | None, frozenset[str], bool]] = [(tree, None, frozenset(), False)]
    while left:
        node, function, outer, is_of_class = left.pop()
        for name, value in _bound_by(node):
            is_local = function is not None and "." not in name and name not in outer
            found.append(_Binding(f"self.{name}" if is_of_class else name, value, function, is_local))
        if isinstance(node, syntax.Function | ast.Lambda):
            outer = frozenset(name for n in ast.walk(node) if isinstance(n, ast.Global) for name in n.names)
            function = node
        is_class = isinstance(node, ast.ClassDef)
        left += [(child, function, outer, is_class) for child in ast.iter_child_nodes(node)]
    return found


def _bound_by(node: ast.AST) -> Iterator[tuple[str, ast.AST]]:
    match node:
        case ast.Assign(targets=targets, value=value):
            yield from ((name, value) for target in targets for name in _named(target))
        case ast.AnnAssign(target=target, value=ast.expr() as value) | ast.NamedExpr(target=target, value=value):
            yield from ((name, value) for name in _named(target))
        case ast.For(target=target) | ast.withitem(optional_vars=ast.expr() as target) | ast.AugAssign(target=target):
            yield from ((name, node) for name in _named(target))
        case ast.Import(names=names) | ast.ImportFrom(names=names):
            yield from (((one.asname or one.name).partition(".")[0], node) for one in names)
        case ast.arg(arg=name):
            yield name, node
        case ast.ClassDef(name=name) | ast.FunctionDef(name=name) | ast.AsyncFunctionDef(name=name):
            yield name, node


def _named(target: ast.AST) -> Iterator[str]:
    for node in ast.walk(target):
        if isinstance(node, ast.Name | ast.Attribute) and isinstance(node.ctx, ast.Store) and dotted(node):
            yield dotted(node)


@lru_cache(maxsize=4)
def _stored(tree: ast.Module) -> frozenset[str]:
    """Return the attributes that are assigned anywhere: `sys.stdout`, `logger.warning`."""
    return frozenset(one.name for one in _bindings(tree) if "." in one.name)


@lru_cache(maxsize=4)
def _words(tree: ast.Module) -> frozenset[str]:
    nodes = (n for n in ast.walk(tree) if isinstance(n, ast.Name | ast.Attribute))
    return frozenset(n.id if isinstance(n, ast.Name) else n.attr for n in nodes)
