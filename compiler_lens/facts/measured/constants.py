"""A tensor's value that compiled code takes for a constant, with a check that it is the same: sizes, lists, lengths.

`torch.compiler.assume_constant_result` gives the value that a tensor has in the call that is compiled; `_assert_async`
has each call compare. Without torch.compile the line does what it did. In compiled code a call with another value is an
error, never another result.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator, Sequence

from msgspec import Struct

from compiler_lens.facts.breaks.remedies import Rewrite
from compiler_lens.facts.breaks.rewrites.masks import is_mask
from compiler_lens.facts.breaks.rewrites.site import Change, Site, site_at
from compiler_lens.facts.breaks.rewrites.syntax import (
    NOT_ON_TENSORS,
    SIMPLE,
    called,
    has_no_dimensions,
    is_method,
    of_torch,
)
from compiler_lens.facts.measured.edits import Lines
from compiler_lens.facts.program.uses import SIZED
from compiler_lens.recording.model import BreakCause, SourceLine
from compiler_lens.recording.source_text import Sources

_SHAPES = "Dynamic shape operator"
_KINDS = (
    "Data-dependent branching",
    "Data dependent operator",
    "Unsupported Tensor.item() call",
    _SHAPES,
    "UserError: Consider annotating your code",
    "Could not",  # guard on, or extract, what a setting lets torch take from a tensor
)
_LENGTH = "Could not extract specialized integer"  # among others for a loop over as many rows as torch does not know
_SIZES = SIZED | {"multinomial"}
_SECOND = frozenset({"chunk", "interpolate", "multinomial", "pad", "split", "split_with_sizes", "topk"})  # no more
_MADE = frozenset({"arange", "empty", "eye", "full", "linspace", "ones", "rand", "randn", "zeros"})  # of sizes alone
_OTHER_WORDS = frozenset({"device", "dtype", "mode", "layout", "requires_grad", "align_corners", "fill_value", "dim"})
_MOST = 6  # parts of a statement
_PRICE = (
    "in compiled code {0} {1} taken to be what {2} in the call that is compiled, whose steps up to there run once more"
    " for it; a call for which {3} is an error there; on a GPU a failed check ends the process's CUDA context"
)

_VALUE = """\
@{torch}.compiler.assume_constant_result
def _value_while_compiling(tensor):
    return tensor.tolist()
"""
_CONSTANT = """\
def _constant(tensor):
    if not {torch}.compiler.is_compiling():
        return tensor.tolist()
    value = _value_while_compiling(tensor)
    is_same = tensor == {torch}.tensor(value, dtype=tensor.dtype, device=tensor.device)
    {torch}._assert_async(is_same.all(), "another value than in the call that was compiled")
    return value
"""
_CONSTANTS = """\
def _constants(value):
    if {torch}.compiler.is_compiling() and isinstance(value, {torch}.Tensor):
        return _constant(value)
    if {torch}.compiler.is_compiling() and type(value) in (list, tuple):
        return type(value)(map(_constants, value))
    return value
"""


class Constant(Struct, frozen=True):
    """Values that are taken for granted at a line."""

    lines: Lines
    price: str


def constants(at: SourceLine, cause: BreakCause, known: Sources) -> Constant | None:
    """Return a change that has compiled code take what a line asks tensors for as constants; None if that is not clear.

    Args:
        at: where the graph breaks.
        cause: what torch says about it.
        known: the texts of files.
    """
    if not cause.gb_type.startswith(_KINDS):
        return None
    try:
        site = site_at(known, at)
        if site is None or site.function is None or any(type(one).__name__.startswith("Try") for one in site.around):
            return None
        return _constant(site, at, cause)
    except RecursionError:  # an expression nested deeper than Python's stack
        return None


def _constant(site: Site, at: SourceLine, cause: BreakCause) -> Constant | None:
    if cause.gb_type.startswith(_SHAPES):
        changes = _of_shapes(site, cause)
    else:
        is_of_length = _LENGTH in cause.gb_type
        changes = _asked(site) or (_iterated(site) if is_of_length else []) or _as_sizes(site)
    texts = [site.source(node) for node, _ in changes]
    if not 0 < len(changes) <= _MOST or any("\n" in text for text in texts):
        return None
    found, needs_import = _edited(site, changes), _needs_import(site)
    if found is None or needs_import is None:
        return None
    used = "\n".join(found.after)
    every = [_VALUE, _CONSTANT, *([_CONSTANTS] if "_constants(" in used else [])]
    definitions = tuple(one.format(torch=site.torch) for one in every)
    lines = Lines(
        at.file, at.line, found.before, found.after, imports="torch" if needs_import else "", definitions=definitions
    )  # fmt: skip
    return Constant(lines, _price(texts, is_of_shapes=cause.gb_type.startswith(_SHAPES)))


def _price(texts: Sequence[str], *, is_of_shapes: bool) -> str:
    said = ", ".join(f"`{text}`" for text in dict.fromkeys(texts))
    if is_of_shapes:
        return _PRICE.format(f"the size of {said}", "is", "it is", "it is another")
    is_one = len(set(texts)) == 1
    words = ("is", "it is", "it is another") if is_one else ("are", "they are", "one is another")
    return _PRICE.format(said, *words)


def _edited(site: Site, changes: Sequence[Change]) -> Rewrite | None:
    """Return the statement with parts of it changed; of a loop or a branch its head alone."""
    match site.statement:
        case ast.For() | ast.If() | ast.While() | ast.With() as statement:
            head = tuple(line.rstrip() for line in site.head(statement))
            after = tuple(line.rstrip() for line in site.lines(changes)[: len(head)])
            return Rewrite(head, after, is_complete=True) if head and after != head else None
    return site.edit(changes) if isinstance(site.statement, SIMPLE) else None


def _needs_import(site: Site) -> bool | None:
    """Whether the module has to import torch for what stands in it; None where it calls something else `torch`."""
    if site.has_torch_at_top:
        return False
    return True if site.torch == "torch" else None


def _parts(site: Site) -> Iterator[ast.AST]:
    """Yield what the statement asks: of a loop or a branch its head."""
    match site.statement:
        case ast.For(iter=head) | ast.If(test=head) | ast.While(test=head):
            yield from ast.walk(head)
        case ast.With(items=items):
            for item in items:
                yield from ast.walk(item)
        case _:
            yield from ast.walk(site.statement)


# -- what asks for a number by its own words


def _asked(site: Site) -> list[Change]:
    """Change `x.tolist()`, `x.item()` and `int(x)`."""
    found: list[Change] = []
    for node in _parts(site):
        match node:
            case ast.Call(func=ast.Attribute(value=tensor, attr="tolist"), args=[], keywords=[]):
                found.append((node, f"_constant({site.source(tensor)})"))
            case ast.Call(func=ast.Attribute(value=tensor, attr="item"), args=[], keywords=[]):
                # one element in any number of dimensions
                one = site.source(tensor) if has_no_dimensions(tensor) else f"{site.atom(tensor)}.reshape(())"
                found.append((node, f"_constant({one})"))
            case ast.Call(func=ast.Name(id="int" | "float"), args=[ast.expr() as inner], keywords=[]):
                if _is_open(site, inner) and called(inner) not in ("item", "tolist"):
                    found.append((inner, f"_constants({site.source(inner)})"))
    return _outermost(found)


def _outermost(changes: Sequence[Change]) -> list[Change]:
    """Leave out what lies within another part that changes."""
    inside = {part for node, _ in changes for part in ast.walk(node) if part is not node}
    return [(node, new) for node, new in changes if node not in inside]


def _iterated(site: Site) -> list[Change]:
    """Change the tensor whose rows a loop goes through."""
    loops = [node for node in _parts(site) if isinstance(node, ast.comprehension)]
    iterated = [loop.iter for loop in loops]
    if isinstance(site.statement, ast.For):
        iterated.append(site.statement.iter)
    return [(node, f"_constants({site.source(node)})") for node in iterated if isinstance(node, ast.Name)]


# -- what is a number by its place


def _as_sizes(site: Site) -> list[Change]:
    """Change what may be a tensor in the place of a size, a bound or a length."""
    found = [node for part in _parts(site) for node in _places(site, part) if _is_open(site, node)]
    return _outermost([(node, f"_constants({site.source(node)})") for node in dict.fromkeys(found)])


def _places(site: Site, node: ast.AST) -> Iterator[ast.expr]:
    match node:
        case ast.Slice(lower=lower, upper=upper, step=step):
            yield from filter(None, (lower, upper, step))
        case ast.Compare(left=left, ops=[op], comparators=[right]) if not isinstance(op, NOT_ON_TENSORS):
            is_of_text = isinstance(right, ast.Constant) and isinstance(right.value, str)
            yield from (left, right) if _decides(site, node) and not is_of_text else ()
        case ast.Call(func=ast.Name(id="range"), args=args):
            yield from args
        case ast.Call(args=args, keywords=words) if called(node) in _SIZES | _MADE:
            is_first_a_tensor = called(node) not in _MADE and not is_method(node)  # `F.pad(x, …)`, `self.pad(x, …)`
            yield from args[is_first_a_tensor : is_first_a_tensor + 1 if called(node) in _SECOND else None]
            yield from (word.value for word in words if word.arg and word.arg not in _OTHER_WORDS)


def _decides(site: Site, node: ast.AST) -> bool:
    """Whether a comparison is a test, or a part of one by `and`, `or` and `not`."""
    around = site.parents().get(node)
    match around:
        case ast.BoolOp() | ast.UnaryOp(op=ast.Not()):
            return _decides(site, around)
        case ast.If(test=test) | ast.While(test=test) | ast.IfExp(test=test):
            return test is node
    return False


def _is_open(site: Site, node: ast.expr) -> bool:
    """Whether an expression may be a tensor, or hold some: it is no constant, and not made of sizes that are known."""
    match node:
        case ast.Name(id=name):
            value = site.value_of(name)
            return value is None or isinstance(value, ast.Name) or _is_open(site, value)
        case ast.Subscript(value=ast.Attribute(attr="shape")) | ast.Attribute(attr="shape"):
            return False
        case ast.Call():
            return called(node) not in {"len", "size", "dim", "numel", "ndimension"}
        case ast.Tuple() | ast.List() | ast.BinOp() | ast.UnaryOp():
            return any(_is_open(site, part) for part in ast.iter_child_nodes(node) if isinstance(part, ast.expr))
    return isinstance(node, (ast.Attribute, ast.Subscript))


# -- how many there are


def _of_shapes(site: Site, cause: BreakCause) -> list[Change]:
    """Say how many rows `x[mask]`, `mask.nonzero()` and `repeat_interleave` give."""
    parts = list(_parts(site))
    counted = [(node, new) for node in parts if isinstance(node, ast.Call) for new in _counted(site, node)]
    if counted:
        return _outermost(counted)
    masks = {ast.dump(mask): mask for node in parts if (mask := _mask_of(node)) is not None}
    # Of a single index torch says that it is a mask: it looks for the places of no other.
    is_told = len(masks) == 1 and "aten.nonzero" in cause.context
    sure = {text for text, mask in masks.items() if is_told or is_mask(site, mask)}
    found: list[Change] = []
    for node in parts:
        match node:
            case ast.Subscript(value=value, slice=index) if (mask := _mask_of(node)) and ast.dump(mask) in sure:
                before = len(index.elts) - 1 if isinstance(index, ast.Tuple) else 0
                found.append((node, _selected(site, value, mask, before)))
    return _outermost(found)


def _mask_of(node: ast.AST) -> ast.expr | None:
    """Return what may be a mask of `x[mask]` and `x[:, mask]`, where that is read."""
    match node:
        case ast.Subscript(slice=ast.Tuple(elts=[*before, index]), ctx=ast.Load()) if all(map(_is_whole, before)):
            pass
        case ast.Subscript(slice=index, ctx=ast.Load()):
            pass
        case _:
            return None
    match index:
        case ast.Name() | ast.Compare() | ast.UnaryOp(op=ast.Invert()) | ast.BinOp(op=ast.BitAnd() | ast.BitOr()):
            return index
    return None


def _is_whole(node: ast.expr) -> bool:
    return isinstance(node, ast.Slice) and node.lower is node.upper is node.step is None


def _places_of(site: Site, mask: ast.expr) -> str:
    size = f"_constant({site.atom(mask)}.count_nonzero())"
    return f"{site.torch}.nonzero_static({site.source(mask)}, size={size})"


def _selected(site: Site, value: ast.expr, mask: ast.expr, before: int) -> str:
    index = f"{_places_of(site, mask)}.unbind(1)"
    if before:
        index = f"({'slice(None), ' * before}*{index})"
    return f"{site.atom(value)}[{index}]"


def _counted(site: Site, node: ast.Call) -> Iterator[str]:
    words = {word.arg: ast.unparse(word.value) for word in node.keywords}
    match node:
        case ast.Call(func=ast.Attribute(value=owner, attr="nonzero" | "where" as name), args=args):
            masks = args if of_torch(node) else [owner, *args]
            if len(masks) == 1 and words.keys() <= {"as_tuple"}:
                is_tuple = name == "where" or words.get("as_tuple") == "True"
                yield f"{_places_of(site, masks[0])}{'.unbind(1)' if is_tuple else ''}"
        case ast.Call(func=ast.Attribute(attr="repeat_interleave"), args=[*_, repeats]):
            text, is_of_two = site.edited(node), len(node.args) == 1 + of_torch(node)
            if is_of_two and words.keys() <= {"dim"} and _is_open(site, repeats) and "\n" not in text:
                yield f"{text.removesuffix(')')}, output_size=_constant({site.atom(repeats)}.sum()))"
