"""Recompile reasons of three torch versions: what failed, and the values that torch told."""

from __future__ import annotations

from pathlib import Path

import pytest

from compiler_lens.decode.guards import GuardValues, read_recompiles, read_values
from compiler_lens.recording.errors import PayloadError
from compiler_lens.recording.event import Event
from compiler_lens.recording.model import CompileId, GuardFailure, Recompile, SourceLine

PAYLOADS = Path(__file__).parent.parent / "payloads"
VERSIONS = ("2.11", "2.13", "2.15")

# Payload -> entries that did not fit, then source, old and new value of the newest.
EXPECTED = {
    "batch": (1, "x", "8", "4"),
    "batch_of_one": (2, "x.size()[0]", ">= 2", ""),
    "stride": (2, "x", "1", "16"),
    "dtype": (1, "x", "Float", "Double"),
    "rank": (1, "x", "1", "2"),
    "requires_grad": (1, "x", "0", ""),
    "grad_mode": (1, "grad_mode", "", ""),
    "autocast": (1, "autocast(cpu)_enabled", "", ""),
    "string": (2, "mode", "'slow: yes'", ""),
    "integer": (2, "a", "4", ""),
    "floating": (1, "a", "3.5", ""),
    "none": (1, "a", "None", ""),
    "length": (2, "len(xs)", "2", ""),
    "keys": (3, "len(d)", "1", ""),
    "step": (1, "self.step", "0", ""),
    "cache": (2, "len(self.cache)", "1", ""),
    "training": (1, "fn._modules['0'].training", "True", ""),
    "global": (1, "G['SCALE']", "2", ""),
    "closure": (1, "k[0]", "2.0", ""),
    "container_type": (2, "xs", "<class 'tuple'>", ""),
    "attribute": (2, "o", "<class 'ex.Obj'>", ""),
    "not_a_function": (2, "self.act.__code__", "", ""),
    "alias": (1, '"x", "y"', "", ""),
    "member": (1, "set.__contains__(s, 'a')", "True", ""),
    "hasattr": (1, "hasattr(o, 'w')", "False", ""),
    "even": (1, "x.size()[0]", "", ""),
    "relation": (1, "x.size()[0]", "", ""),
    "odd": (1, "", "", ""),
}
# Payloads in which the versions differ.
DIFFERENT = {
    ("2.11", "callable"): (1, "self.act", "<built-in method relu of type object at 0x7f0000000000>", ""),
    ("2.13", "callable"): (1, "self.act", "<class 'builtin_function_or_method'>", ""),
    ("2.11", "enum"): (1, "c", "<Color.RED: 1>", ""),
    ("2.15", "enum"): (1, "c", "<class 'ex.Color'>", ""),
    ("2.11", "parameter"): (1, "x", "a tensor type", "<class 'torch.nn.parameter.Parameter'>"),
    ("2.15", "parameter"): (1, "x", "<class 'torch.Tensor'>", "<class 'torch.nn.parameter.Parameter'>"),
    ("2.11", "nan"): (2, "", "", ""),
    ("2.13", "nan"): (2, "math.isnan(a)", "False", ""),
    ("2.11", "backend"): (1, "BACKEND_MATCH", "", ""),
}
CASES = [(version, name, told) for name, told in EXPECTED.items() for version in VERSIONS]
CASES += [(version, name, told) for (version, name), told in DIFFERENT.items()]


def read(text: str) -> Recompile:
    (found,) = read_recompiles(Event("recompile_reasons", 1.0, text=text), CompileId(0, 2), {})
    return found


def payload(version: str, name: str) -> Recompile:
    return read((PAYLOADS / version / "recompiles" / f"{name}.txt").read_text())


def newest(version: str, name: str) -> GuardFailure:
    return payload(version, name).failures[0]


@pytest.mark.parametrize(("version", "name", "told"), CASES)
def test_a_failed_guard_tells_its_source_and_values(version: str, name: str, told: tuple[int, str, str, str]) -> None:
    found = payload(version, name)
    first = found.failures[0]
    assert (len(found.failures), first.source, first.old, first.new) == told
    assert found.compile_id == CompileId(0, 2)


@pytest.mark.parametrize("path", sorted(PAYLOADS.glob("*/recompiles/*.txt")), ids=lambda p: f"{p.parts[-3]}/{p.stem}")
def test_every_payload_is_read_without_torchs_comments(path: Path) -> None:
    for failure in read(path.read_text()).failures:
        assert failure.entry.startswith("0/")
        assert failure.text
        assert "  # " not in failure.text
        assert "HINT" not in failure.text + failure.hint
        assert "User stack trace" not in failure.text


@pytest.mark.parametrize("version", VERSIONS)
def test_one_reason_is_plain_text_and_several_are_a_list(version: str) -> None:
    assert [f.entry for f in payload(version, "batch").failures] == ["0/0"]
    assert [f.entry for f in payload(version, "keys").failures] == ["0/2", "0/1", "0/0"]


@pytest.mark.parametrize("version", VERSIONS)
def test_the_old_value_of_each_entry_is_its_own(version: str) -> None:
    newer, older = payload(version, "batch_of_one").failures
    assert (newer.text, newer.old) == ("2 <= x.size()[0]", ">= 2")
    assert (older.old, older.new) == ("8", "1")


@pytest.mark.parametrize("version", VERSIONS)
def test_a_string_may_look_like_a_comment_or_a_reason(version: str) -> None:
    newer, older = payload(version, "string").failures
    assert (newer.text, older.text) == ("mode == 'slow: yes'", "mode == 'fast'")
    assert newer.user_stack[-1].code.endswith('if mode == "fast: # quick" else x - 1')


@pytest.mark.parametrize("version", VERSIONS)
def test_the_users_stack_is_torchs_where_torch_has_one(version: str) -> None:
    stack = newest(version, "training").user_stack
    assert [frame.function for frame in stack] == ["inner", "forward", "forward"]
    assert newest(version, "integer").user_stack == (
        SourceLine("/home/user/app/ex.py", 322, "times", "def times(x, a): return x * a"),
    )


@pytest.mark.parametrize("version", VERSIONS)
def test_without_a_stack_the_guards_comment_tells_the_line(version: str) -> None:
    assert newest(version, "even").user_stack == (
        SourceLine("user/app/ex.py", 459, "f", "if x.shape[0] % 2 == 0: return x + 1"),
    )
    assert newest(version, "batch").user_stack == ()


@pytest.mark.parametrize("version", VERSIONS)
def test_torchs_advice_is_kept_and_its_own_lines_are_not(version: str) -> None:
    assert newest(version, "step").hint.startswith("torch.compile considers integer attributes of the nn.Module")
    assert newest(version, "step").hint.endswith("or convert this integer into a tensor.")
    assert newest(version, "batch_of_one").hint.endswith("try torch._dynamo.decorators.mark_unbacked(tensor, dim)")
    assert newest(version, "container_type").hint == "type tuple"
    assert newest(version, "relation").hint == ""


@pytest.mark.parametrize(
    ("text", "told"),
    [
        (
            "tensor 'self._modules['a']' size mismatch at index 2. expected 3, actual 5",
            ("self._modules['a']", "3", "5"),
        ),
        ("tensor 'x' Tensor device index mismatch. Expected device index to be 0, actual 1", ("x", "0", "1")),
        ("GLOBAL_STATE changed: grad_mode autocast(cuda)_enabled ", ("grad_mode autocast(cuda)_enabled", "", "")),
        ("d['a == b'] == {'c == d': 1}", ("d['a == b']", "{'c == d': 1}", "")),
        ("2 <= args[0].size()[1] <= 128", ("args[0].size()[1]", ">= 2, <= 128", "")),
        ("x.size()[0] <= 4096", ("x.size()[0]", "<= 4096", "")),
        ("x.size()[0] == 8", ("x.size()[0]", "8", "")),
        ("x.size()[0] == y.size()[0]", ("x.size()[0]", "", "")),
        ("2*x.size()[0] == 8", ("x.size()[0]", "", "")),
        ("x.grad is not None", ("x.grad", "not None", "")),
        ("___as_tensor(self.net.scale).item() == 0.25", ("self.net.scale", "0.25", "")),  # 2.11's, of a float
        ("((-1)*___as_tensor(level).item()) == (-0.7)", ("level", "0.7", "")),
        ("((-1)*___as_tensor(level).item()) == 1e-3", ("level", "-1e-3", "")),
        ("(2*___as_tensor(level).item()) == 0.7", ("level", "", "")),
        ("___as_tensor(a).item() == ___as_tensor(b).item()", ("", "", "")),
        ("not ___dict_contains('forward', self.__dict__)", ("___dict_contains('forward', self.__dict__)", "False", "")),
        ("KeyError on d['a']", ("d['a']", "", "")),
        ("Cache line invalidated because self.lin got deallocated", ("self.lin", "", "")),
    ],
)
def test_shapes_of_guards(text: str, told: tuple[str, str, str]) -> None:
    assert read_values(text) == GuardValues(*told)


def test_of_a_range_with_two_origins_the_first_is_told() -> None:
    text = "0/0: 2 <= x.size()[0] <= 128  # y = x  # app/a.py:12 in f (shown is first use; try f(x, n)) and "
    (failure,) = read(text + "(_inductor/codegen/cpp.py:2273 in need_use_acc_helper)").failures
    assert failure.hint == "shown is first use; try f(x, n)"
    assert failure.user_stack == (SourceLine("app/a.py", 12, "f", "y = x"),)


def test_a_reason_without_a_compile_id_is_an_error() -> None:
    with pytest.raises(PayloadError, match="without a compile id"):
        read("nonsense")
    with pytest.raises(PayloadError):
        read('["0/0: x == 3"')
