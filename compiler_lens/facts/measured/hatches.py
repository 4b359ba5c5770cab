"""torch's own ways round code that Dynamo cannot follow: marks on a function of the user's, as offers for a trial.

What a mark takes for granted cannot be seen in the text. So each is made only where all calls that were heard while the
program ran eagerly fit it, only for what is left when all else was tried, and it says what it takes for granted.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator, Mapping, Sequence
from pathlib import PurePath

from msgspec import Struct
from msgspec.structs import replace

from compiler_lens.facts.breaks.rewrites import effects
from compiler_lens.facts.breaks.rewrites.site import Site, parsed, site_at
from compiler_lens.facts.breaks.rewrites.syntax import Function
from compiler_lens.facts.measured.called import Call, Called, Seen, qualified
from compiler_lens.facts.measured.edits import Lines
from compiler_lens.recording.model import SourceLine
from compiler_lens.recording.source_text import Sources, syntax_if_known

_LONGEST = 60  # lines of a function that is written anew
_MOST_RESULTS = 4
_MOST_CONSTANTS = 8  # values of one function: with more of them it is none
_OF_AN_OPERATOR = frozenset({"result", "results", "like", "real", "fake"})  # names in what is written of one
_NO_WORD = re.compile(r"\W+")
# Breaks at a value of a tensor: AOTAutograd, which traces what Dynamo does not, has no values either.
OF_VALUES = (
    "Data-dependent", "Data dependent", "Dynamic shape", "Unsupported Tensor.item()", "Tensor.tolist()",
    "Attempted to use `torch.nn.functional.one_hot`",
)  # fmt: skip


class Hatch(Struct, frozen=True):
    """A mark on a function."""

    lines: Lines
    price: str
    needs_aot: bool = False  # what it does shows only where AOTAutograd traces the graph


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
        plain_names = {name for call in self.calls for name, seen in call.given if seen.kind == "plain"}
        does_more = effects.varies(self.function) or effects.changed(self.function) - plain_names or self._reads_more
        if plain and len(by_arguments) == len(self.calls) <= _MOST_CONSTANTS and not does_more:
            values = " or ".join(dict.fromkeys(call.returned.text for call in self.calls))
            price = (
                f"`{self.function.name}` is called while it compiles, and not again: what it gives then ({values} in"
                " this run) is a constant of the compiled code, also where it would give something else later, and what"
                " else it does is not done again"
            )
            yield Hatch(self._mark(f"@{self.site.torch}.compiler.assume_constant_result"), price)

    @property
    def _reads_more(self) -> bool:
        """Whether it reads a name of the module's whose value the file changes."""
        tree, local = parsed(self.site.text), self.site.local()
        read = {n.id for n in ast.walk(self.function) if isinstance(n, ast.Name)} - local
        return tree is not None and bool(read & effects.changed_of_module(tree))

    def traced(self) -> Iterator[Hatch]:
        """`nonstrict_trace`: it returns tensors, which AOTAutograd finds by running it once."""
        fit = all(_tensors(call.returned) and not call.changed and _fits(call) for call in self.calls)
        if fit and not effects.draws(self.function):
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
        if (self._is_method and not self._is_apart()) or None in kinds or self._has_size_of_values():
            return
        if not fit or len({len(found) for found in results}) != 1:
            return
        tensors = {a.arg for a, kind in zip(self._parameters(), kinds, strict=True) if kind == self._tensor}
        written = effects.changed(self.function)
        # Of two calls with the same arguments compiled code may make one.
        if effects.varies(self.function) or written - {a.arg for a in self._parameters()}:
            return
        changed = sorted({name for call in self.calls for name in call.changed} | (written & tensors))
        fakes = [self._fake([found[n] for found in results]) for n in range(min(len(results[0]), _MOST_RESULTS))]
        known = [fake for fake in fakes if fake]
        owners = {fake.owner for fake in known}
        if len(known) < len(fakes) or len(owners) != 1:
            return
        lines = self._as_operator([kind or "" for kind in kinds], known, changed)
        if lines is not None:
            but = f" but {', '.join(f'`{name}`' for name in changed)}" if changed else ""
            price = (
                f"`{self.function.name}` runs as it is, as an operator of its own: what it returns is new memory and"
                f" follows from its arguments alone, and it changes none of them{but}, as of equal calls one may be"
                " made. A backward through it is an error, and where it returns another size, dtype or device than"
                " its fake says, or is given a value of another type than here, that is one, too, never another result"
            )
            yield Hatch(lines, price)

    def _has_size_of_values(self) -> bool:
        """Whether it depends on values how long what it returns is, however long it was here."""
        return effects.selects(self.function) or effects.collects_some(self.function)

    # -- lines

    def _operator_name(self) -> str:
        path = PurePath(self.at.file)
        stem = path.parent.name if path.stem == "__init__" else path.stem  # torch.ops has no namespace of that name
        return f"{_NO_WORD.sub('_', stem)}::{self.name.replace('.', '_')}"

    def _parameters(self) -> Sequence[ast.arg]:
        return (*self.function.args.args[self._is_method :], *self.function.args.kwonlyargs)

    @property
    def _is_method(self) -> bool:
        return "." in self.name

    def _is_apart(self) -> bool:
        """Whether a method would do the same as a function of the module: it reads nothing of its object or class."""
        nodes = list(ast.walk(self.function))
        names = {getattr(node, key, None) for node in nodes for key in ("id", "attr")}
        texts = [node for node in nodes if isinstance(node, (ast.Constant, ast.JoinedStr))]
        own = {self.function.args.args[0].arg} if self.function.args.args else set[str]()
        is_of_class = any(isinstance(one, str) and one.startswith("__") for one in names)
        is_over_lines = any(one.lineno != one.end_lineno for one in texts)  # an indent may be a part of it
        return (
            own == {"self"}
            and not names & {*own, "super"}
            and not (is_of_class or is_over_lines)
            and self.site.has_torch_at_top
        )

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

    def _fake(self, results: Sequence[Seen]) -> _Fake | None:
        """An expression on the parameters for an empty tensor like those that were returned."""
        tensors = [p.arg for p in self._parameters() if self._kind(p.arg) == self._tensor]
        given = {name: [dict(call.given)[name] for call in self.calls] for name in tensors}
        if not all(one.is_contiguous for one in results):
            return None
        for name, seen in given.items():
            if all(_alike(a, b) for a, b in zip(seen, results, strict=True)):
                return _Fake(name, f"{name}.new_empty({name}.shape)")
        devices = [one.device for one in results]
        owner = next((name for name, seen in given.items() if [one.device for one in seen] == devices), "")
        dtypes, ranks = {one.dtype for one in results}, {len(one.shape) for one in results}
        if not owner or len(dtypes) != 1 or len(ranks) != 1:
            return None
        sizes = [self._size([one.shape[n] for one in results], given) for n in range(ranks.pop())]
        dtype = dtypes.pop()
        keyword = "" if all(one.dtype == dtype for one in given[owner]) else f", dtype={self.site.torch}.{dtype}"
        return _Fake(owner, f"{owner}.new_empty({_tuple(sizes)}{keyword})") if None not in sizes else None

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

    def _as_operator(self, kinds: Sequence[str], fakes: Sequence[_Fake], changed: Sequence[str]) -> Lines | None:
        """Write an operator, which compares what the function returns with what its fake says."""
        function = self.function
        lines = [line[function.col_offset :].rstrip() for line in self._lines()]
        arguments = self._parameters()
        defaults = dict(zip([a.arg for a in reversed(arguments)], reversed(function.args.defaults), strict=False))
        if len(lines) > _LONGEST or function.body[0].lineno <= function.lineno or function.args.kwonlyargs:
            return None
        if not all(isinstance(default, ast.Constant) for default in defaults.values()):
            return None
        if not _OF_AN_OPERATOR.isdisjoint(a.arg for a in arguments):
            return None
        if not self._is_method:
            after = self._written(function.name, lines, kinds, fakes, changed, defaults)
            needed = "" if self.site.imports_torch else "torch"
            return Lines(self.at.file, function.lineno, tuple(lines), after, imports=needed)
        if "(self, " not in lines[0]:
            return None
        name = self._free(f"{function.name}_operator")
        alone = [lines[0].replace("(self, ", "(", 1), *lines[1:]]
        made = self._written(name, alone, kinds, fakes, changed, defaults)
        first, has_text = function.body[0], ast.get_docstring(function, clean=False) is not None
        head = lines[: ((first.end_lineno or 0) + 1 if has_text else first.lineno) - function.lineno]
        calls = f"    return {name}({', '.join(a.arg for a in arguments)})"
        return Lines(
            self.at.file, function.lineno, tuple(lines), (*head, calls), definitions=("\n".join(made),)
        )  # fmt: skip

    def _lines(self) -> Sequence[str]:
        return self.site.text.split("\n")[self.function.lineno - 1 : self.function.end_lineno]

    def _written(  # noqa: PLR0913, PLR0917 -- what an operator is made of
        self,
        name: str,
        lines: Sequence[str],
        kinds: Sequence[str],
        fakes: Sequence[_Fake],
        changed: Sequence[str],
        defaults: Mapping[str, ast.expr],
    ) -> tuple[str, ...]:
        """The lines of an operator with a name, of its fake, and of the function that it runs."""
        arguments = self._parameters()
        typed, plain = [], []
        for argument, kind in zip(arguments, kinds, strict=True):
            default = f" = {ast.unparse(defaults[argument.arg])}" if argument.arg in defaults else ""
            typed.append(f"{argument.arg}: {kind}{default}")
            plain.append(f"{argument.arg}{default.replace(' ', '')}")
        is_one = len(fakes) == 1 and self.calls[0].returned.kind == "tensor"
        gives = self._tensor if is_one else f"tuple[{', '.join([self._tensor] * len(fakes))}]"
        body, fake = self._free(f"_{self.function.name}"), self._free(f"_like_{self.function.name}")
        told = ", ".join(f'{a.arg}.to("meta")' if a.arg == fakes[0].owner else a.arg for a in arguments)
        given = ", ".join(a.arg for a in arguments)
        return (
            f'@{self.site.torch}.library.custom_op("{self._operator_name()}", mutates_args={tuple(changed)!r})',
            f"def {name}({', '.join(typed)}) -> {gives}:",
            *self._checked(f"{body}({given})", f"{fake}({told})", fakes[0].owner, is_one=is_one),
            "",
            "",
            f"@{name}.register_fake",
            f"def {fake}({', '.join(plain)}):",
            f"    return {fakes[0].made if is_one else _tuple([one.made for one in fakes])}",
            "",
            "",
            lines[0].replace(self.function.name, body, 1),
            *lines[1:],
        )

    def _checked(self, real: str, fake: str, owner: str, *, is_one: bool) -> tuple[str, ...]:
        """The body of an operator: compiled code relies on what the fake says, and does not look at what it gets."""
        compared = (
            "real = result.dtype, tuple(result.shape), result.device",
            f"fake = like.dtype, tuple(like.shape), {owner}.device",
            "if real != fake:",
            f'    raise RuntimeError(f"{self._operator_name()} returned {{real}}; its fake says {{fake}}")',
        )
        if is_one:
            return (
                f"    result, like = {real}, {fake}",
                *(f"    {line}" for line in compared),
                "    return result.contiguous()",
            )
        return (
            f"    results = {real}",
            f"    for result, like in zip(results, {fake}, strict=True):",
            *(f"        {line}" for line in compared),
            "    return tuple(result.contiguous() for result in results)",
        )

    @property
    def _tensor(self) -> str:
        return f"{self.site.torch}.Tensor"

    def _free(self, name: str) -> str:
        """A name that the file does not use yet."""
        tree = parsed(self.site.text)
        nodes = list(ast.walk(tree)) if tree else []
        used = {getattr(node, key, "") for node in nodes for key in ("id", "name", "arg", "attr")}
        while name in used:
            name += "_"
        return name


class _Fake(Struct, frozen=True):
    """What an operator returns, for torch to compile with."""

    owner: str  # the parameter whose device it has
    made: str  # an expression


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
