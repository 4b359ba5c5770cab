"""Guard trees of three torch versions."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from compiler_lens.decode.guards import read_guards
from compiler_lens.recording.errors import PayloadError
from compiler_lens.recording.event import Event
from compiler_lens.recording.model import CompileId, Guard, SourceLine

PAYLOADS = Path(__file__).parent.parent / "payloads"
VERSIONS = ("2.11", "2.13", "2.15")
TEXTS = sorted(PAYLOADS.glob("*/guards/*.txt"))
ID = CompileId(0, 1)


def read(text: str) -> tuple[Guard, ...]:
    return read_guards(Event("dynamo_cpp_guards_str", 1.0, text=text), ID, {})


def payload(version: str, name: str) -> tuple[Guard, ...]:
    return read((PAYLOADS / version / "guards" / f"{name}.txt").read_text())


def only(guards: tuple[Guard, ...], kind: str, source: str) -> Guard:
    (found,) = [guard for guard in guards if (guard.kind, guard.source) == (kind, source)]
    return found


@pytest.mark.parametrize("path", TEXTS, ids=lambda p: f"{p.parts[-3]}/{p.stem}")
def test_every_leaf_of_the_tree_is_a_guard(path: Path) -> None:
    text = path.read_text()
    leaves = re.findall(r"^(?:\| )*\+- ([A-Z_]+): (.*)", text, re.MULTILINE)
    guards = read(text)
    assert [guard.kind for guard in guards] == [kind for kind, _ in leaves]
    for guard, (_, said) in zip(guards, leaves, strict=True):
        assert said.startswith(guard.expression)
        assert "  # " not in guard.expression
        assert "HINT" not in guard.expression
        assert guard.compile_id == ID


@pytest.mark.parametrize("version", VERSIONS)
def test_a_guard_has_its_managers_source_and_the_users_line(version: str) -> None:
    guard = only(payload(version, "dictionary"), "TENSOR_MATCH", "L['d']['b']")
    assert guard.expression.startswith("check_tensor(L['d']['b'], Tensor, ")
    assert guard.user_line is not None
    assert guard.user_line.line > 0
    key = only(payload(version, "dictionary"), "EQUALS_MATCH", "list(dict.keys(L['d']))[1]")
    assert key.expression == "list(dict.keys(L['d']))[1] == 'b'"
    assert key.user_line == SourceLine("user/app/ex.py", 364, "f", "def f(d): return sum(d.values())")


@pytest.mark.parametrize("version", VERSIONS)
def test_guards_on_sizes_stand_behind_the_tree_and_have_no_manager(version: str) -> None:
    sizes = [g for g in payload(version, "dynamic") if g.kind == "LAMBDA_GUARD" and "size()" in g.expression]
    assert [g.expression for g in sizes] == [
        "L['x'].size()[0] > 2*L['y'].size()[0]",
        "5 <= L['x'].size()[0]",
        "2 <= L['y'].size()[0]",
    ]
    assert {g.source for g in sizes} == {""}
    assert {g.user_line.line for g in sizes if g.user_line} == {465}


@pytest.mark.parametrize("version", VERSIONS)
def test_guards_that_torch_adds_to_every_frame_have_no_line_of_the_users(version: str) -> None:
    ambient = payload(version, "alias")[:4]
    assert [g.kind for g in ambient] == ["LAMBDA_GUARD", "GLOBAL_STATE", "TORCH_FUNCTION_MODE_STACK", "DEFAULT_DEVICE"]
    assert [g.user_line for g in ambient] == [None] * 4


@pytest.mark.parametrize("version", VERSIONS)
def test_an_aliasing_guard_counts_once(version: str) -> None:
    text = (PAYLOADS / version / "guards" / "alias.txt").read_text()
    assert text.count("NO_TENSOR_ALIASING") == 2
    assert only(read(text), "NO_TENSOR_ALIASING", "L['x']").expression == "check_no_aliasing(L['x'], L['y'])"


def test_a_guard_of_several_lines_is_one_guard() -> None:
    text = """
TREE_GUARD_MANAGER:
+- RootGuardManager
| +- GuardManager: source=L['args'], accessed_by=TupleGetItemGuardAccessor(0), type=<class 'tuple'>, tag_safe=(False, False)
| | +- ID_MATCH: ___check_obj_id(L['args'], 140000000000000), type=Adam (
Parameter Group 0
    eps: 1e-08
)  # self = cast(Optimizer, self)  # optim/optimizer.py:515 in wrapper
| | +- LENGTH_CHECK: len(L['args']) == 1

Guard latency = 3.00 us"""
    first, second = read(text)
    assert first.expression.endswith("type=Adam (\nParameter Group 0\n    eps: 1e-08\n)")
    assert first.user_line == SourceLine("optim/optimizer.py", 515, "wrapper", "self = cast(Optimizer, self)")
    assert (second.expression, second.source) == ("len(L['args']) == 1", "L['args']")


def test_a_guard_of_several_lines_outside_of_the_tree_is_one_guard_too() -> None:
    text = """
TREE_GUARD_MANAGER:
+- RootGuardManager
| +- DEFAULT_DEVICE: utils_device.CURRENT_DEVICE == None
+- LAMBDA_GUARD: torch.equal(
    L['x'].size()[0], 3)

Guard latency = 3.00 us"""
    assert [guard.expression for guard in read(text)] == [
        "utils_device.CURRENT_DEVICE == None",
        "torch.equal(\n    L['x'].size()[0], 3)",
    ]


def test_reading_is_linear(calls_of) -> None:
    head, *lines = (PAYLOADS / "2.13" / "guards" / "module.txt").read_text().strip().partition("\n\n")[0].split("\n")

    def calls(count: int) -> int:
        text = "\n".join([head, *(lines * (count // len(lines) + 1))[:count]])
        return calls_of(lambda: read(text))

    assert calls(20_000) < 1.2 * 20 * calls(1_000)


def test_what_is_no_tree_is_an_error() -> None:
    with pytest.raises(PayloadError, match="not a guard tree"):
        read("something else")
