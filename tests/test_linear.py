"""Every regular expression that sees input takes time in proportion to it, whatever it is; and so do the readers.

The texts to try are made of each expression's own parts: what it repeats, over and over, after what leads there.
"""

from __future__ import annotations

import importlib
import pkgutil
import re
import sys
import time
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import pytest

import compiler_lens

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


def expressions() -> dict[str, tuple[re.Pattern[Any], frozenset[str]]]:
    """All that the package's modules hold, with the methods that are called on them."""
    found = {}
    for info in pkgutil.walk_packages(compiler_lens.__path__, "compiler_lens."):
        if "startup" in info.name or "capture" in info.name or info.name.endswith("__main__"):
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
    return made + [partial(repeated, "", unit, "a" * SIZE) for _, unit in sorted(parts)]


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


@pytest.mark.parametrize("written", [r"\n+from user code", r"(\w+)\s*:\s*\"", r"\[(.*?)\], x: \["])
def test_what_is_quadratic_is_found(written: str) -> None:
    pattern = re.compile(written)
    assert any(grows_too_fast(partial(_searched, pattern, text)) for text in texts(pattern))


def _searched(pattern: re.Pattern[Any], text: Callable[[int], str], size: int) -> Callable[[], object]:
    return use(pattern, "search", text(size))
