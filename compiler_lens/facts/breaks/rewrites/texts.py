"""Texts with numbers that torch does not know: Dynamo follows `str.format` of one, and no `str(n)`, `+` or f-string."""

from __future__ import annotations

import ast
from collections.abc import Iterator, Sequence

from compiler_lens.facts.breaks.remedies import Rewrite
from compiler_lens.facts.breaks.rewrites.site import Change, Site, parsed
from compiler_lens.facts.breaks.rewrites.syntax import called
from compiler_lens.recording.model import BreakCause

_CONCATENATED, _F_STRING = "missing sq_concat", "BUILD_STRING type error"
# What is called in a text and changes nothing: `format` computes all that it shows before it writes any of it.
_HARMLESS = frozenset(
    {"item", "int", "float", "round", "len", "abs", "min", "max", "str", "numel", "size", "dim", "sum", "mean"}
)


def one_text(site: Site, cause: BreakCause) -> Rewrite | None:
    """Write `"n={!s}".format(n)` for `"n=" + str(n)`, and `"{:.3f}".format(n)` for an f-string.

    `"{!s}".format(x)` is `str(x)` of whatever `x` is.
    """
    is_of_number = "SymNodeVariable" in cause.context
    is_of_str = is_of_number and cause.context.startswith("builtin str [")
    is_f_string = is_of_number and cause.gb_type == _F_STRING
    is_sum = cause.gb_type == _CONCATENATED and "StringFormatVariable" in cause.context
    if not (is_of_str or is_f_string or is_sum) or _is_bound(site):
        return None
    changes: list[Change] = []
    for node in _outermost(site.statement, f_strings=is_f_string):
        leaves = list(_leaves(node))
        if any(isinstance(leaf, ast.expr) for leaf in leaves):
            return None  # of what is added to a text here nothing shows what it is
        values = [value for leaf in leaves if not isinstance(leaf, ast.expr) for value in leaf]
        if (text := _written(values)) is None:
            return None
        changes.append((node, text))
    return site.edit(changes)


def _is_bound(site: Site) -> bool:
    """Whether `str` may be another thing than Python's in the file."""
    tree = parsed(site.text)
    for node in ast.walk(tree) if tree else ():
        match node:
            case ast.Name(id="str", ctx=ast.Store()) | ast.arg(arg="str"):
                return True
            case ast.FunctionDef(name="str") | ast.ClassDef(name="str") | ast.alias(asname="str"):
                return True
            case ast.alias(name="str" | "*"):
                return True
    return False


def _outermost(node: ast.AST, *, f_strings: bool) -> Iterator[ast.expr]:
    """Yield the texts in a statement that are put together, or are a number's, but not what stands in f-strings."""
    for child in ast.iter_child_nodes(node):
        if isinstance(child, ast.stmt):
            continue
        is_sum = isinstance(child, ast.BinOp) and any(map(_is_text, _operands(child)))
        if isinstance(child, ast.JoinedStr):
            yield from (child,) if f_strings else ()
        elif isinstance(child, ast.expr) and (is_sum or _of_number(child) is not None):
            yield child
        else:
            yield from _outermost(child, f_strings=f_strings)


def _operands(node: ast.expr) -> Iterator[ast.expr]:
    match node:
        case ast.BinOp(left=left, op=ast.Add(), right=right):
            yield from _operands(left)
            yield from _operands(right)
        case _:
            yield node


def _is_text(node: ast.expr) -> bool:
    is_constant = isinstance(node, ast.Constant) and isinstance(node.value, str)
    return is_constant or isinstance(node, ast.JoinedStr) or _of_number(node) is not None


def _of_number(node: ast.expr) -> ast.expr | None:
    match node:
        case ast.Call(func=ast.Name(id="str"), args=[value], keywords=[]) if not isinstance(value, ast.Starred):
            return value
    return None


def _leaves(node: ast.expr) -> Iterator[list[ast.expr] | ast.expr]:
    """Yield the parts of an f-string for each text; what is none, as it is."""
    for one in _operands(node):
        if isinstance(one, ast.JoinedStr):
            yield one.values
        elif (value := _of_number(one)) is not None:
            yield [ast.FormattedValue(value=value, conversion=ord("s"), format_spec=None)]
        else:
            yield [one] if _is_text(one) else one


def _written(values: Sequence[ast.expr]) -> str | None:
    """Return a call of `format`; None where it may give another text, or its parts are not plain."""
    shown = [value for value in values if isinstance(value, ast.FormattedValue)]
    if not shown or (len(shown) > 1 and not all(_is_harmless(one.value) for one in shown)):
        return None
    template = ""
    for value in values:
        match value:
            case ast.Constant(value=str() as text):
                template += text.replace("{", "{{").replace("}", "}}")
            case ast.FormattedValue(
                conversion=flag, format_spec=None | ast.JoinedStr(values=[] | [ast.Constant()]) as spec
            ):
                said = (
                    "".join(str(part.value) for part in spec.values if isinstance(part, ast.Constant)) if spec else ""
                )
                template += f"{{{'!' + chr(flag) if flag > 0 else ''}{':' + said if said else ''}}}"
            case _:
                return None
    quoted = repr(template)
    is_plain = quoted.startswith("'") and not set(quoted[1:-1]) & set("'\"\\")
    arguments = ", ".join(ast.unparse(one.value) for one in shown)
    text = f'"{template}"' if is_plain else quoted
    return f"{text}.format({arguments})"


def _is_harmless(node: ast.expr) -> bool:
    calls = (one for one in ast.walk(node) if isinstance(one, ast.Call))
    is_plain = not any(isinstance(one, ast.NamedExpr | ast.Await | ast.Yield) for one in ast.walk(node))
    return is_plain and all(called(one) in _HARMLESS for one in calls)
