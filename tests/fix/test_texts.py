"""Texts with numbers that torch does not know: one call of `format`, which Dynamo follows, is the same text."""

from __future__ import annotations

import linecache
from types import ModuleType

import pytest
import torch

from compiler_lens import Lens
from compiler_lens.facts.breaks.rewrites import rewrite
from compiler_lens.facts.measured.edits import Lines, edited
from compiler_lens.facts.measured.elsewhere import says_what_varies
from compiler_lens.facts.measured.offers import observed
from compiler_lens.facts.program.ownership import Ownership
from compiler_lens.recording.model import BreakCause, Recording, SourceLine
from compiler_lens.recording.source_text import Sources

FILE = "/home/user/app/told.py"
OF_STR = BreakCause(
    "Failed to trace builtin operator",
    context="builtin str [<class 'torch._dynamo.variables.tensor.SymNodeVariable'>] False",
)
OF_SUM = BreakCause("missing sq_concat", context="sq_concat not defined for StringFormatVariable")
SETTING = "torch._dynamo.config.capture_scalar_outputs = True"


def after(line: str, cause: BreakCause = OF_STR, above: str = "import torch") -> tuple[str, ...] | None:
    text = f"{above}\ndef f(x, n, name):\n    {line}\n    return x\n"
    at = SourceLine(FILE, above.count("\n") + 3, "f", line)
    found = rewrite(cause, Sources({FILE: text}), at)
    return found.after if found else None


@pytest.mark.parametrize(
    ("line", "written"),
    [
        ("t = str(n)", 't = "{!s}".format(n)'),
        ('t = "n=" + str(n)', 't = "n={!s}".format(n)'),
        ('t = "{" + str(n + 1) + "}"', 't = "{{{!s}}}".format(n + 1)'),
        ("t = [str(n), 'a']", """t = ["{!s}".format(n), 'a']"""),
        ("t = str(n['k'])", """t = "{!s}".format(n['k'])"""),
        ('t = f"a {n:.2f}" + " | " + str(n)', 't = "a {:.2f} | {!s}".format(n, n)'),
        ("t = str(n) + str(x.pop())", None),  # which `format` calls before it writes any of them
        ("t = name + str(n)", None),  # of what `name` is nothing is known
        ("t = f'{str(n)}'", None),
        ("t = str(n, 'utf-8')", None),
        ("t = str(*n)", None),
    ],
)  # fmt: skip
def test_a_text_is_one_call_of_format(line: str, written: str | None) -> None:
    assert after(line) == ((written,) if written else None)


def test_only_what_broke_at_an_unknown_number_is_rewritten() -> None:
    assert after('t = f"{n}" + "a"', OF_SUM) == ('t = "{}a".format(n)',)
    assert after('t = f"{n}" + "a"', BreakCause("missing sq_concat", context="sq_concat not defined for X")) is None
    of_tensor = BreakCause(OF_STR.gb_type, context="builtin str [<class 'TensorVariable'>] False")
    assert after("t = str(n)", of_tensor) is None


@pytest.mark.parametrize(
    ("line", "written"),
    [
        ('t = f"lr {n:.3f} of {{x}}"', 't = "lr {:.3f} of {{x}}".format(n)'),
        ('t = f"{n=} {x.sum().item():>8}"', 't = "n={!r} {:>8}".format(n, x.sum().item())'),
        ('t = f"it\'s {n}"', 't = "it\'s {}".format(n)'),
        ('t = f"{n:{name}}"', None),
        ('t = f"{n} {x.pop()}"', None),
        ('print(f"n {n}")', None),
    ],
)
def test_an_f_string_of_a_number_that_varies_is_a_call_of_format(line: str, written: str | None) -> None:
    found = after(line, BreakCause("BUILD_STRING type error", context="SymNodeVariable()"))
    if line.startswith("print"):  # a message is left out of compiled code
        assert found is not None
        assert "is_compiling()" in found[0]
    else:
        assert found == ((written,) if written else None)


@pytest.mark.parametrize("above", ["str = repr", "from text import str", "from text import *", "def str(x): return x"])
def test_another_str_than_pythons_stays(above: str) -> None:
    assert after("t = str(n)", above=above) is None


PROGRAM = """
def said(x):
    total = x.sum().item()
    count = (x > 0).sum().item()
    told = "total " + str(total) + f" of {count}"
    return x * 2, told

def noted(x):
    total = x.sum().item()
    return x * 2, f"total {total:.3f}"
"""


def module_of(text: str, monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    monkeypatch.setitem(linecache.cache, FILE, (len(text), None, text.splitlines(keepends=True), FILE))
    module = ModuleType("told")
    exec(compile(text, FILE, "exec"), module.__dict__)
    return module


def called(module: ModuleType, name: str, *, captures: bool) -> tuple[list[tuple[torch.Tensor, str]], Recording]:
    torch._dynamo.reset()
    with torch._dynamo.config.patch(capture_scalar_outputs=captures), Lens(strict=True) as lens:
        compiled = torch.compile(getattr(module, name), backend="aot_eager")
        found = [compiled(torch.full((3,), value)) for value in (1.0, 2.5, -3.25)]
    return found, lens.recording


def test_with_the_setting_and_one_call_of_format_nothing_breaks_and_the_text_is_the_same(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    module = module_of(PROGRAM, monkeypatch)
    eager = [module.said(torch.full((3,), value)) for value in (1.0, 2.5, -3.25)]
    _, recording = called(module, "said", captures=True)
    (offer,) = (one for one in observed(recording, Ownership()).offers if isinstance(one.edit, Lines))
    assert offer.price == ""
    new = edited(offer.edit, {FILE: PROGRAM}, FILE)
    assert new is not None
    found, after = called(module_of(new[FILE], monkeypatch), "said", captures=True)
    assert (after.graph_breaks, after.recompiles) == ((), ())
    torch.testing.assert_close([one for one, _ in found], [one for one, _ in eager])
    assert [text for _, text in found] == [text for _, text in eager]


def test_a_number_that_varies_may_stand_in_a_text(monkeypatch: pytest.MonkeyPatch) -> None:
    """torch makes an unknown of a float or an int at its second value."""
    text = 'def scaled(x, lr):\n    return x * lr, f"lr {lr:.3f}"\n'
    rates = (0.5, 0.25, 2.0)

    def ran(module: ModuleType) -> tuple[list[str], Recording]:
        torch._dynamo.reset()
        with Lens(strict=True) as lens:
            compiled = torch.compile(module.scaled, backend="eager")
            told = [compiled(torch.ones(2), rate)[1] for rate in rates]
        return told, lens.recording

    told, recording = ran(module_of(text, monkeypatch))
    (offer,) = observed(recording, Ownership()).offers
    new = edited(offer.edit, {FILE: text}, FILE)
    assert new is not None
    assert '"lr {:.3f}".format(lr)' in new[FILE]
    again, after = ran(module_of(new[FILE], monkeypatch))
    assert again == told == ["lr 0.500", "lr 0.250", "lr 2.000"]
    assert (len(recording.graph_breaks), after.graph_breaks) == (1, ())


@pytest.mark.skipif(torch.__version__ < "2.12", reason="torch 2.11 breaks at the number in a text all the same")
def test_where_a_number_is_only_told_the_setting_is_to_be_tried(monkeypatch: pytest.MonkeyPatch) -> None:
    module = module_of(PROGRAM, monkeypatch)
    _, recording = called(module, "noted", captures=False)
    seen = observed(recording, Ownership())
    assert SETTING in [one.code for one in seen.offers]
    _, after = called(module, "noted", captures=True)
    assert not after.graph_breaks


CHECKED = """import torch


class Net:
    def __init__(self):
        self.layer = 3

    def forward(self, x):
        if torch.isnan(x).any():
            raise RuntimeError(f"nan in layer {self.layer}")
        return x.sin()
"""


@pytest.mark.parametrize(
    ("made", "varies"), [("Net()", False), ("[Net() for _ in range(3)]", True), ("Net(), Net()", True)]
)
def test_a_message_has_no_attribute_of_objects_that_share_their_code(made: str, *, varies: bool) -> None:
    code = 'torch._assert_async(~torch.isnan(x).any(), f"nan in layer {self.layer}")'
    known = Sources({FILE: f"class Net: ...\n\nnets = {made}\n"})
    assert says_what_varies(code, FILE, {"Net"}, known) == varies
    assert not says_what_varies(code, FILE, {"Other"}, known)
    assert not says_what_varies(code.replace("{self.layer}", "3"), FILE, {"Net"}, known)


@pytest.mark.parametrize(
    ("other", "is_offered"), [("net.layer = 4", False), ("net.layer += 1", False), ("print(net.layer)", True)]
)
def test_a_message_has_nothing_that_another_file_sets(
    other: str, *, is_offered: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(linecache.cache, FILE, (len(CHECKED), None, CHECKED.splitlines(keepends=True), FILE))
    module = ModuleType("told")
    exec(compile(CHECKED, FILE, "exec"), module.__dict__)
    torch._dynamo.reset()
    with Lens(strict=True) as lens:
        torch.compile(module.__dict__["Net"]().forward, backend="eager")(torch.ones(3))
    found = observed(lens.recording, Ownership(), loaded={"/home/user/app/train.py": f"import told\n{other}\n"})
    written = [offer.code for offer in found.offers if "_assert_async" in offer.code]
    assert written == ['torch._assert_async(~torch.isnan(x).any(), f"nan in layer {self.layer}")'] * is_offered
