"""torch's own ways round code that Dynamo cannot follow: marks on a function of the user's, as offers for a trial.

What a mark takes for granted cannot be seen in the text. So each is made only where all calls that were heard while the
program ran eagerly fit it, only for what is left when all else was tried, and it says what it takes for granted.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator, Sequence
from pathlib import PurePath

from msgspec import Struct
from msgspec.structs import replace

from compiler_lens.facts.breaks.rewrites.site import Site, site_at
from compiler_lens.facts.breaks.rewrites.syntax import Function, calls_in, dotted
from compiler_lens.facts.measured.called import Call, Called, Seen, qualified
from compiler_lens.facts.measured.edits import Lines
from compiler_lens.recording.model import SourceLine
from compiler_lens.recording.source_text import Sources, syntax_if_known

_LONGEST = 60  # lines of a function that is written anew
_MOST_RESULTS = 4
_NO_WORD = re.compile(r"\W+")
# Breaks at a value of a tensor: AOTAutograd, which traces what Dynamo does not, has no values either.
OF_VALUES = (
    "Data-dependent", "Data dependent", "Dynamic shape", "Unsupported Tensor.item()", "Tensor.tolist()",
    "Attempted to use `torch.nn.functional.one_hot`",
)  # fmt: skip
# What gives another value at each call, whatever it is given.
_VARYING = (
    "time",
    "random",
    "datetime",
    "uuid",
    "secrets",
    "next",
    "input",
    "np.random",
    "numpy.random",
    "perf_counter",
)


class Hatch(Struct, frozen=True):
    """A mark on a function."""

    lines: Lines
    price: str
    needs_aot: bool = False  # what it does shows only where AOTAutograd traces the graph
    operator: str = ""  # the name of the operator that it makes of the function


class Markable(Struct, frozen=True):
    """A function that a mark can be put on."""

    site: Site
    function: Function
    at: SourceLine
    name: str  # qualified


def markable(at: SourceLine, known: Sources) -> Markable | None:
    """Return the function around a line, of a module or of a class; None where it is marked already, or cannot be."""
    try:
        site = site_at(known, at)
    except RecursionError:
        return None
    function = site.function if site else None
    if site is None or function is None or function.decorator_list or not (tree := syntax_if_known(site.text)):
        return None
    # A mark is there when the function is defined, so torch is to be imported by then, and for everyone.
    if not site.has_torch_at_top:
        if site.torch != "torch":
            return None
        site = replace(site, imports_torch=False)
    name = next((name for name, one in qualified(tree).items() if one.lineno == function.lineno), "")
    several = function.args.vararg or function.args.kwarg or function.args.posonlyargs
    return Markable(site, function, at, name) if name and not several else None


def hatches(function: Markable, kind: str, called: Sequence[Called]) -> Iterator[Hatch]:
    """Yield the marks on a function that all its calls fit.

    Args:
        function: where the graph breaks.
        kind: torch's type of the break.
        called: what functions were given and returned, with their names.
    """
    heard = next((one for one in called if (one.file, one.name) == (function.at.file, function.name)), None)
    if heard is None or not heard.calls or not heard.is_whole:  # what was not heard may not fit
        return
    marked = _Marked(function.site, function.function, function.at, function.name, heard.calls)
    yield from marked.constant()
    yield from marked.operator()
    if not kind.startswith(OF_VALUES):
        yield from marked.traced()


class _Marked(Struct, frozen=True):
    """A function that gets a mark."""

    site: Site
    function: Function
    at: SourceLine
    name: str  # qualified
    calls: tuple[Call, ...]

    def constant(self) -> Iterator[Hatch]:
        """`assume_constant_result`: what it returned is a plain value, the same for the same arguments."""
        by_arguments = {tuple(seen for _, seen in call.given): call.returned for call in self.calls}
        plain = all(
            call.returned.kind == "plain" and all(seen.kind in {"plain", "module"} for _, seen in call.given)
            for call in self.calls
        )
        names = [dotted(call.func) for call in calls_in(self.function)]
        varies = any(name.startswith(_VARYING) or name.endswith(("random", "time")) for name in names)
        if plain and len(by_arguments) == len(self.calls) and not varies:
            values = " or ".join(dict.fromkeys(call.returned.text for call in self.calls))
            price = (
                f"`{self.function.name}` is called while it compiles, and not again: what it gives then ({values} in"
                " this run) is a constant of the compiled code, also where it would give something else later"
            )
            yield Hatch(self._mark(f"@{self.site.torch}.compiler.assume_constant_result"), price)

    def traced(self) -> Iterator[Hatch]:
        """`nonstrict_trace`: it returns tensors, which AOTAutograd finds by running it once."""
        if all(_tensors(call.returned) and not call.changed and _fits(call) for call in self.calls):
            price = (
                f"`{self.function.name}` is run once for each compilation, and its tensor operations are kept: whatever"
                " else it does is not done again, and tensors that are not among its arguments get no gradient"
            )
            yield Hatch(self._mark(f"@{self.site.torch}._dynamo.nonstrict_trace"), price, needs_aot=True)

    def operator(self) -> Iterator[Hatch]:
        """`custom_op`: it returns new tensors without a gradient, whose sizes follow from its arguments."""
        kinds = [self._kind(argument.arg) for argument in self._parameters()]
        results = [_tensors(call.returned) for call in self.calls]
        fit = all(found and not any(one.shares or one.requires_grad for one in found) for found in results)
        if "." in self.name or None in kinds or not fit or len({len(found) for found in results}) != 1:
            return
        fakes = [self._fake([found[n] for found in results]) for n in range(min(len(results[0]), _MOST_RESULTS))]
        lines = self._as_operator([kind or "" for kind in kinds], fakes) if None not in fakes else None
        if lines is not None:
            price = (
                f"`{self.function.name}` runs as it is, as an operator of its own; it has no gradient, and what it"
                " returns has the sizes and dtypes that its fake says, as in all calls of this run: where it has"
                " others, compiled code gives wrong numbers without an error"
            )
            yield Hatch(lines, price, operator=self._operator_name())

    # -- lines

    def _operator_name(self) -> str:
        path = PurePath(self.at.file)
        stem = path.parent.name if path.stem == "__init__" else path.stem  # torch.ops has no namespace of that name
        return f"{_NO_WORD.sub('_', stem)}::{self.function.name}"

    def _parameters(self) -> Sequence[ast.arg]:
        return (*self.function.args.args, *self.function.args.kwonlyargs)

    def _mark(self, decorator: str) -> Lines:
        head = self.site.text.split("\n")[self.function.lineno - 1].strip()
        needed = "" if self.site.imports_torch else "torch"
        return Lines(self.at.file, self.function.lineno, (head,), (decorator, head), imports=needed)

    def _kind(self, name: str) -> str | None:
        """The annotation of a parameter of an operator; None where it may be something that operators do not take."""
        seen = [one for call in self.calls for parameter, one in call.given if parameter == name]
        torch = self.site.torch
        if seen and all(one.kind == "tensor" for one in seen):
            return f"{torch}.Tensor"
        types = {_type(one) for one in seen}
        return types.pop() if len(types) == 1 and types <= {"bool", "int", "float", "str"} else None

    def _fake(self, results: Sequence[Seen]) -> str | None:
        """An expression on the parameters for an empty tensor like those that were returned."""
        tensors = [p.arg for p in self._parameters() if self._kind(p.arg) == f"{self.site.torch}.Tensor"]
        given = {name: [dict(call.given)[name] for call in self.calls] for name in tensors}
        for name, seen in given.items():
            if all(_alike(a, b) for a, b in zip(seen, results, strict=True)):
                return f"{self.site.torch}.empty_like({name})"
        devices = [one.device for one in results]
        owner = next((name for name, seen in given.items() if [one.device for one in seen] == devices), "")
        dtypes, ranks = {one.dtype for one in results}, {len(one.shape) for one in results}
        if not owner or len(dtypes) != 1 or len(ranks) != 1 or not all(one.is_contiguous for one in results):
            return None
        sizes = [self._size([one.shape[n] for one in results], given) for n in range(ranks.pop())]
        dtype = dtypes.pop()
        keyword = "" if all(one.dtype == dtype for one in given[owner]) else f", dtype={self.site.torch}.{dtype}"
        return f"{owner}.new_empty({_tuple(sizes)}{keyword})" if None not in sizes else None

    def _size(self, sizes: Sequence[int], given: dict[str, list[Seen]]) -> str | None:
        """A size of each result: that of an argument, an argument itself, else a number."""
        for name, seen in given.items():
            for axis in range(min(len(one.shape) for one in seen)):
                if [one.shape[axis] for one in seen] == list(sizes):
                    return f"{name}.shape[{axis}]"
        for parameter in self._parameters():
            if [dict(call.given)[parameter.arg].text for call in self.calls] == list(map(str, sizes)):
                return parameter.arg
        return str(sizes[0]) if len(set(sizes)) == 1 else None

    def _as_operator(self, kinds: Sequence[str], fakes: Sequence[str | None]) -> Lines | None:
        """Write the function with types, as an operator with a fake beneath."""
        function, torch = self.function, self.site.torch
        lines = self.site.text.split("\n")[function.lineno - 1 : function.end_lineno]
        body = self.site.text.split("\n")[function.body[0].lineno - 1 : function.end_lineno]
        defaults = dict(
            zip([a.arg for a in reversed(function.args.args)], reversed(function.args.defaults), strict=False)
        )
        if len(lines) > _LONGEST or function.body[0].lineno <= function.lineno or function.args.kwonlyargs:
            return None
        if not all(isinstance(default, ast.Constant) for default in defaults.values()):
            return None
        typed, plain = [], []
        for argument, kind in zip(self._parameters(), kinds, strict=True):
            default = f" = {ast.unparse(defaults[argument.arg])}" if argument.arg in defaults else ""
            typed.append(f"{argument.arg}: {kind}{default}")
            plain.append(f"{argument.arg}{default.replace(' ', '')}")
        tensor = f"{torch}.Tensor"
        gives = (
            tensor
            if len(fakes) == 1 and self.calls[0].returned.kind == "tensor"
            else f"tuple[{', '.join([tensor] * len(fakes))}]"
        )
        changed = sorted({name for call in self.calls for name in call.changed})
        made = str(fakes[0])
        after = (
            f'@{torch}.library.custom_op("{self._operator_name()}", mutates_args={tuple(changed)!r})',
            f"def {function.name}({', '.join(typed)}) -> {gives}:",
            *body,
            "",
            "",
            f"@{function.name}.register_fake",
            f"def _({', '.join(plain)}):",
            f"    return {made if gives == tensor else _tuple(fakes)}",
        )
        return Lines(
            self.at.file,
            function.lineno,
            tuple(line.rstrip() for line in lines),
            after,
            imports="" if self.site.imports_torch else "torch",
        )


def _tensors(seen: Seen) -> tuple[Seen, ...]:
    return (seen,) if seen.kind == "tensor" else seen.parts


def _tuple(items: Sequence[str | None]) -> str:
    listed = ", ".join(map(str, items))
    return f"({listed},)" if len(items) == 1 else f"({listed})"


def _fits(call: Call) -> bool:
    return all(seen.kind in {"tensor", "plain", "module", "tuple"} for _, seen in call.given)


def _alike(given: Seen, returned: Seen) -> bool:
    is_whole = given.is_contiguous and returned.is_contiguous
    return is_whole and (given.shape, given.dtype, given.device) == (returned.shape, returned.dtype, returned.device)


def _type(seen: Seen) -> str:
    if seen.kind != "plain":
        return ""
    try:
        return type(ast.literal_eval(seen.text)).__name__
    except (ValueError, SyntaxError):  # cut short, or `nan`
        return ""
