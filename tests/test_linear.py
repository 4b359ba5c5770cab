"""Every regular expression takes time in proportion to its input, whatever it is, also while the user's program compiles.

The texts to try are made of each expression's own parts: what it repeats, over and over, after what leads there. An
expression that is put together while the program runs is tried where it is used, on texts written for it.
"""

from __future__ import annotations

import ast
import importlib
import pkgutil
import re
import sys
import time
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import pytest

import compiler_lens
from compiler_lens.decode.compilations import name_definitions
from compiler_lens.decode.op_names import ops_in_kernel_name
from compiler_lens.facts.breaks.cards import break_cards
from compiler_lens.facts.breaks.remedies import for_line, remedy_for, remedy_table
from compiler_lens.facts.recompiles.causes import _is_made
from compiler_lens.facts.recompiles.dimensions import dimensions
from compiler_lens.facts.recompiles.guard_values import EntryValues
from compiler_lens.facts.recompiles.written import assigns, writing_lines
from compiler_lens.recording.model import (
    BreakCause,
    BreakOutcome,
    CaptureProblem,
    Compilation,
    CompileId,
    Direction,
    GraphBreak,
    Guard,
    Kernel,
    KernelKind,
    Outcome,
    OutputCode,
    Recording,
    SourceFile,
    SourceLine,
    Symbol,
)  # fmt: skip
from compiler_lens.recording.redact import redacted
from compiler_lens.recording.source_text import Definition, Sources
from compiler_lens.views.text import short_paths

kinds: Any = importlib.import_module("re._constants" if sys.version_info >= (3, 11) else "sre_constants")
parser: Any = importlib.import_module("re._parser" if sys.version_info >= (3, 11) else "sre_parse")

SIZE = 2_000  # characters; four times as many take four times as long, and not 16 times
GROWTH = 9
ENOUGH = 0.004  # seconds, below which a clock says nothing
REPEATS = (kinds.MAX_REPEAT, kinds.MIN_REPEAT)
OF_CATEGORY = {kinds.CATEGORY_DIGIT: "1", kinds.CATEGORY_SPACE: " ", kinds.CATEGORY_NOT_WORD: "-"}


# -- the expressions


def compiled(value: object, depth: int = 0) -> Iterator[re.Pattern[Any]]:
    if isinstance(value, re.Pattern):
        yield value
    elif depth < 3 and isinstance(value, (tuple, list, dict)):
        for item in value.values() if isinstance(value, dict) else value:
            yield from compiled(item, depth + 1)


class Call(NamedTuple):
    """A call of a function of `re`, where it stands in the package."""

    where: str  # "compiler_lens.recording.redact", and the function after a dot
    way: str  # "sub"
    line: int
    written: ast.expr  # the expression

    @property
    def literal(self) -> str | bytes | None:
        return self.written.value if isinstance(self.written, ast.Constant) else None


def calls_in(node: ast.AST, where: str) -> Iterator[Call]:
    for child in ast.iter_child_nodes(node):
        inner = f"{where}.{child.name}" if isinstance(child, (ast.FunctionDef, ast.ClassDef)) else where
        match child:
            case ast.Call(func=ast.Attribute(value=ast.Name("re"), attr=way), args=[written, *_]) if way != "escape":
                yield Call(where, way, child.lineno, written)
            case ast.ImportFrom(module="re") | ast.Import(names=[ast.alias(name="re", asname=str())]):
                raise AssertionError(f"{where} calls re by another name, which is not looked for here")
        yield from calls_in(child, inner)


def calls() -> Iterator[Call]:
    root = Path(compiler_lens.__path__[0])
    for path in sorted(root.rglob("*.py")):
        name = ".".join(path.relative_to(root.parent).with_suffix("").parts).removesuffix(".__init__")
        text = path.read_text()
        if re.search(r"\bre\b", text):
            yield from calls_in(ast.parse(text), name)


def expressions() -> dict[str, tuple[re.Pattern[Any], frozenset[str]]]:
    """All that the package's modules hold, with the methods that are called on them, and all in their functions."""
    found = {
        f"{call.where}.{call.line}": (re.compile(call.literal), frozenset((call.way,)))
        for call in calls()
        if call.literal is not None and call.way != "compile"
    }
    for info in pkgutil.walk_packages(compiler_lens.__path__, "compiler_lens."):
        if "startup" in info.name or info.name.endswith("__main__"):
            continue
        module = importlib.import_module(info.name)
        source = Path(module.__file__ or "").read_text()
        for name, value in vars(module).items():
            for number, pattern in enumerate(compiled(value)):
                if f"{name} = " in source or f"{name}: " in source:
                    found[f"{info.name}.{name}.{number}"] = (pattern, ways_of(name, source))
    return found


def ways_of(name: str, source: str) -> frozenset[str]:
    """How an expression is used where it stands, by its own name or that of a loop; if it is nowhere, by a search."""
    names = [name, *re.findall(rf"for (\w+)(?:, \w+)* in {name}\b", source)]
    called = rf"\b(?:{'|'.join(names)})(?:\[\w+\])?\.(match|search|fullmatch|sub|findall|finditer|split)\("
    return frozenset(re.findall(called, source) or ("search",))


ALL = expressions()


# -- texts for them


def one(op: Any, value: Any) -> str:  # noqa: PLR0911 -- one for each kind
    """A text that a part matches."""
    if op is kinds.LITERAL:
        return chr(value)
    if op is kinds.NOT_LITERAL:
        return "b" if chr(value) == "a" else "a"
    if op is kinds.ANY:
        return "a"
    if op is kinds.IN:
        if value[0][0] is kinds.NEGATE:
            without = {chr(item) for kind, item in value if kind is kinds.LITERAL}
            return next(c for c in "a1-(~" if c not in without)
        kind, item = value[0]
        return OF_CATEGORY.get(item, "a") if kind is kinds.CATEGORY else chr(item[0] if kind is kinds.RANGE else item)
    if op in REPEATS:
        return sample(value[2]) * max(value[0], 1)
    if op is kinds.SUBPATTERN:
        return sample(value[3])
    return sample(value[1][0]) if op is kinds.BRANCH else ""


def sample(parts: Any) -> str:
    return "".join(one(op, value) for op, value in parts)


def parts_of(pattern: Any, before: str = "") -> Iterator[tuple[str, str]]:
    """What leads to each part that may repeat, and what it repeats."""
    for op, value in pattern:
        if op in REPEATS:
            yield before, sample(value[2])
            yield from parts_of(value[2], before)
        elif op is kinds.SUBPATTERN:
            yield from parts_of(value[3], before)
        elif op is kinds.BRANCH:
            for each in value[1]:
                yield from parts_of(each, before)
        before += one(op, value)
        yield "", before


def texts(pattern: re.Pattern[Any]) -> list[partial[str]]:
    written = pattern.pattern if isinstance(pattern.pattern, str) else pattern.pattern.decode("latin1")
    parts = {each for each in parts_of(parser.parse(written, pattern.flags & ~re.UNICODE)) if each[1]}
    pumped = sorted(parts | {(before, c) for before, _ in parts for c in " \n['\\"})
    made = [partial(repeated, before, unit, end) for before, unit in pumped for end in ("", "!\n")]
    units = sorted({unit for _, unit in parts})
    made += [partial(repeated, "a", unit, "a") for unit in units]  # what is looked for at the end is not, and not at 0
    # What may not stand before a match has to have each character that the match repeats.
    made += [
        partial(repeated, "", c, "")
        for c in sorted(set(in_classes(parser.parse(written, pattern.flags & ~re.UNICODE))))
    ]
    return made + [partial(repeated, "", unit, "a" * SIZE) for unit in units]


def in_classes(pattern: Any) -> Iterator[str]:
    """The characters that classes name."""
    for op, value in pattern:
        if op is kinds.IN:
            yield from (chr(item) for kind, item in value if kind is kinds.LITERAL)
        elif op in REPEATS:
            yield from in_classes(value[2])
        elif op is kinds.SUBPATTERN:
            yield from in_classes(value[3])
        elif op is kinds.BRANCH:
            yield from (c for each in value[1] for c in in_classes(each))


def repeated(before: str, unit: str, end: str, size: int) -> str:
    return before + unit * (size // len(unit)) + end * (1 if len(end) < SIZE else size // SIZE)


def seconds(act: Callable[[], object], repeats: int = 1) -> float:
    taken = []
    for _ in range(repeats):
        start = time.process_time()
        act()
        taken.append(time.process_time() - start)
    return min(taken)


def grows_too_fast(act: Callable[[int], Callable[[], object]]) -> bool:
    large = act(4 * SIZE)
    if seconds(large) < ENOUGH:
        return False
    return seconds(large, 3) > GROWTH * max(seconds(act(SIZE), 3), ENOUGH / 16)


def use(pattern: re.Pattern[Any], way: str, text: str) -> Callable[[], object]:
    subject: Any = text if isinstance(pattern.pattern, str) else text.encode("latin1", "replace")
    if way == "sub":
        return lambda: pattern.sub(subject[:0], subject)
    if way == "finditer":
        return lambda: [*pattern.finditer(subject)]
    return lambda: getattr(pattern, way)(subject)


@pytest.mark.parametrize("name", sorted(ALL))
def test_an_expression_takes_time_in_proportion_to_its_text(name: str) -> None:
    pattern, ways = ALL[name]
    for way in ways:
        for text in texts(pattern):
            assert not grows_too_fast(lambda n, t=text, w=way: use(pattern, w, t(n))), (way, text(60))  # type: ignore[misc]


@pytest.mark.parametrize("written", [r"\n+from user code", r"\A\W+|\W+\Z", r"(\w+)\s*:\s*\"", r"\[(.*?)\], x: \["])
def test_what_is_quadratic_is_found(written: str) -> None:
    pattern = re.compile(written)
    tries = [text for _ in range(3) for text in texts(pattern)]  # a busy machine may hide it once
    assert any(grows_too_fast(partial(_searched, pattern, text)) for text in tries)


def _searched(pattern: re.Pattern[Any], text: Callable[[int], str], size: int) -> Callable[[], object]:
    return use(pattern, "search", text(size))


# -- expressions that are put together while the program runs

ID = CompileId(0, 0)


def a_break(size: int) -> Callable[[], object]:
    """A cause that is longer than what is looked at, once for each type that there is advice on."""
    types = remedy_table().by_type
    return lambda: [
        remedy_for(BreakCause(kind, "x", context="a\n" * size, explanation=" .f(" * size)) for kind in types
    ]


def a_line_that_breaks(size: int) -> Callable[[], object]:
    remedies = [one for one in remedy_table().remedies.values() if one.leave_at]
    lines = [unit * size for unit in ("loss", "losses", "_loss", "xloss", "los", "_", "losslosses ")]
    return lambda: [for_line(one, code, {}) for one in remedies for code in lines]


def a_size_in_guards(size: int) -> Callable[[], object]:
    symbols = (Symbol(ID, "s0", "L['x'].size()[0]", "8", "[2, 9]"),)
    guards = tuple(Guard(ID, "LAMBDA_GUARD", text * size) for text in ("L['x'].", ".size()[0]", "(L['x'].size()["))
    return partial(dimensions, Recording(symbols=symbols, guards=guards))


def a_line_that_writes(size: int) -> Callable[[], object]:
    lines = (
        ".calls = " * size, ".calls" + "]" * size, ".calls \n=" * size, "'calls'] << " * size, " " * size,
        ".calls, " * size, "setattr(" * size, "setattr(.calls" * size, ".calls[" * size, ".calls[x]" * size,
    )  # fmt: skip
    subjects = "self.calls", "len(self.calls)"
    return lambda: [writing_lines(Sources(), SourceLine("m.py", 1, "f", a), s) for a in lines for s in subjects]


def lines_that_may_write(size: int) -> Callable[[], object]:
    starts = "a." * size + "b", "a" * size, "a" + "[0]" * size, "a.calls," * size, "a.calls" + " " * size
    text = (
        "def f(self):\n    if self:\n        self.calls += 1\n    g(self.calls)\n" + '"""' + "\n".join(starts) + '"""'
    )
    texts, at = Sources({"m.py": text}), SourceLine("m.py", 4, "f", "g(self.calls)")
    return lambda: writing_lines(texts, at, "self.calls")


def a_line_that_assigns(size: int) -> Callable[[], object]:
    rests = (
        ".calls = " * size,
        ".calls" + "]" * size,
        ".calls \\\\=" * size,
        "'calls'] //" * size,
        ".calls" + " " * size,
    )
    texts = [Sources({"m.py": f"def f(self):\n    x = '{one}'\n"}) for one in rests]
    return lambda: [assigns(one, "m.py", "self.calls", [Definition("f", 1, 1, 2, ())]) for one in texts]


def a_name_that_is_made(size: int) -> Callable[[], object]:
    names = ("n = " * size, "n, " * size, "for n " * size, " " * size, "n,=" * size)
    where = "torch_dynamo_resume_in_f_at_3"
    rests = tuple(a_compilation(1, where, 3, resumes="f") for _ in names)
    texts = [Sources({"m.py": f"def f(x):\n    {name!r}\n    g(x)\n"}) for name in names]
    return lambda: [_is_made("n", c, 3, text) for c, text in zip(rests, texts, strict=True)]


def keys_in_guards(size: int) -> Callable[[], object]:
    guards = ("kwargs['" * size, "kwargs['" + "a" * size, "kwargs['a'] " * size, "." * size)
    return lambda: [EntryValues({guard: ""}).keys_of("kwargs") for guard in guards]


RUN_TIME: dict[str, Callable[[int], Callable[[], object]]] = {
    "compiler_lens.facts.breaks.remedies.remedy_for": a_break,
    "compiler_lens.facts.breaks.remedies.for_line": a_line_that_breaks,
    "compiler_lens.facts.recompiles.dimensions._dimension": a_size_in_guards,
    "compiler_lens.facts.recompiles.causes._is_made": a_name_that_is_made,
    "compiler_lens.facts.recompiles.written._written": a_line_that_writes,
    "compiler_lens.facts.recompiles.written._others": lines_that_may_write,
    "compiler_lens.facts.recompiles.written.assigns": a_line_that_assigns,
    "compiler_lens.facts.recompiles.guard_values.EntryValues.keys_of": keys_in_guards,
}


@pytest.mark.parametrize("name", RUN_TIME)
def test_what_is_put_together_takes_time_in_proportion_too(name: str) -> None:
    assert not grows_too_fast(RUN_TIME[name])


def test_every_call_of_re_is_tried_here() -> None:
    """By what it is made of, where that is known before the program runs; else by texts of its own."""
    known = {pattern.pattern for pattern, _ in ALL.values()}
    assert {call.where for call in calls() if not is_known(call, known)} == set(RUN_TIME)


def is_known(call: Call, known: set[str | bytes]) -> bool:
    if call.literal is not None:
        return call.literal in known
    try:
        return eval(ast.unparse(call.written), dict(vars(importlib.import_module(call.where)))) in known
    except ImportError:  # in a function
        return False
    except NameError:  # one of several that make a value of the module, which is among ALL
        return True


@pytest.mark.parametrize("kernels", ["k", "of"])
def test_a_kernel_that_is_left_out_is_looked_for_once(kernels: str) -> None:
    def redacting(size: int) -> Callable[[], object]:
        code = OutputCode(ID, Direction.FORWARD, "\nk = async_compile.triton('k', '''" * (size // 8))
        own = Kernel(ID, Direction.FORWARD, kernels, KernelKind.USER, source="x")
        return partial(redacted, Recording(output_codes=(code,), kernels=(own,)))

    assert not grows_too_fast(redacting)


@pytest.mark.parametrize("unit", ["x", "_", "x_", "add_", "native_"])
def test_the_ops_of_a_kernels_name_are_found_in_time_in_proportion_to_it(unit: str) -> None:
    def split(size: int) -> Callable[[], object]:
        return partial(ops_in_kernel_name, f"cpp_fused_{unit * (size // len(unit))}_0")

    assert not grows_too_fast(lambda size: split(4 * size))


def test_short_paths_are_found_in_time_in_proportion_to_what_they_share() -> None:
    def shorten(size: int) -> Callable[[], object]:
        return partial(short_paths, [f"/{number}/{'a/' * size}model.py" for number in range(4)])

    assert not grows_too_fast(shorten)


def test_lines_that_begin_alike_are_looked_for_at_once() -> None:
    def redacting(size: int) -> Callable[[], object]:
        begun = "result = self.model.layers.forward(alpha, beta, "
        lines = "".join(f"{begun}{n})\n" for n in range(size // 4))
        others = "".join(f"{begun}{n} z)\n" for n in range(size // 4))
        problem = CaptureProblem("a", others)
        return partial(redacted, Recording(sources=(SourceFile("/u/m.py", lines),), problems=(problem,)))

    assert not grows_too_fast(redacting)


def a_compilation(number: int, function: str, line: int, **facts: Any) -> Compilation:
    return Compilation(CompileId(number, 0), function, "m.py", line, Outcome.COMPILED, **facts)


def test_functions_and_what_resumes_them_are_joined_at_once() -> None:
    def naming(size: int) -> Callable[[], tuple[Compilation, ...]]:
        lines = [SourceLine("m.py", 2 * n + 1, "f") for n in range(size // 4)]
        functions = [a_compilation(n, "f", at.line, definition=at) for n, at in enumerate(lines)]
        rest = [a_compilation(-n, "rest", at.line + 1, resumes="f") for n, at in enumerate(lines)]
        return partial(name_definitions, [*functions, *rest], ())

    assert all(c.definition and c.definition.line in {c.line, c.line - 1} for c in naming(400)())
    assert not grows_too_fast(naming)


def test_the_parts_of_a_function_are_counted_once() -> None:
    def explaining(size: int) -> Callable[[], object]:
        frames = tuple(a_compilation(n, "f", 1) for n in range(size // 8))
        stack = (SourceLine("m.py", 3, "f"),)
        breaks = tuple(
            GraphBreak(c.compile_id, 0, (BreakCause(f"kind {n}"),), "", stack, None, BreakOutcome.SPLIT)
            for n, c in enumerate(frames)
        )
        return partial(break_cards, Recording(compilations=frames, graph_breaks=breaks))

    assert not grows_too_fast(explaining)
