"""torch's own ways round code that Dynamo cannot follow: when a mark is offered, and that it does what it says."""

from __future__ import annotations

import json
import linecache
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from textwrap import dedent
from types import ModuleType
from typing import Any

import pytest
import torch
from msgspec.structs import replace

from compiler_lens.cli import main
from compiler_lens.facts.measured.called import Call, Called, Seen, named
from compiler_lens.facts.measured.edits import edited
from compiler_lens.facts.measured.hatches import Hatch, hatches, markable
from compiler_lens.measure.fix.observing import Observer
from compiler_lens.recording.model import SourceLine
from compiler_lens.recording.source_text import Sources

FILE = "/home/user/app/user_model.py"
SKIPPED = "Attempted to call function marked as skipped"

TEXT = """
import os
import random

import numpy as np
import torch


def scale_of(name):
    return 2.0 if os.path.exists(name) else 1.0


def chance(name):
    return random.random() + len(name)


def top_rows(x, k=2):
    rows = x.detach().numpy()
    return torch.from_numpy(rows[np.lexsort((rows[:, 0], rows[:, 1]))][:k].copy())


def widths(x, signed):
    sign = np.sign(x.numpy()) if signed else 1
    return torch.from_numpy((x.numpy() * sign).sum(1) > 0), x * 2


def halves(x):
    os.path.exists("/tmp")
    both = x * 2
    return both[:1], both[1:]


def activated(x, layer):
    os.path.exists("/tmp")
    return layer(x).relu()


def same(x):
    os.path.exists("/tmp")
    return x


def counted(x):
    x.add_(len(os.listdir("/")) * 0 + 1)
    return x * 2


def noised(x):
    return x + torch.from_numpy(np.random.randn(*x.shape))


def blurred(x):
    os.path.exists("/tmp")
    return x + torch.randn_like(x)


SEEN = []


def counting(x):
    SEEN.append(len(x))
    return x * len(SEEN)


def counter(name):
    SEEN.append(name)
    return len(SEEN)


def shared(x):
    return torch.from_numpy(x.numpy()[1:])


def lowered(x, below):
    rows = x.numpy()
    if below > 9:
        rows[rows > below] = below
    return torch.from_numpy(np.sort(rows))


def ranked(x, in_place):
    rows = x.numpy()
    if in_place:
        rows.sort()
    return torch.from_numpy(np.sort(rows))


def ordered(x):
    os.path.exists("/tmp")
    return x.sort().values


def time_step(n):
    next_input = max(n, 1)
    return os.path.getsize("/") * 0 + next_input


@torch.no_grad()
def marked(x):
    os.path.exists("/tmp")
    return x * 2
"""


@pytest.fixture(autouse=True)
def _lines_of_the_test() -> Iterator[None]:
    yield
    linecache.cache.pop(FILE, None)
    sys.modules.pop("user_model", None)


def loaded(text: str) -> ModuleType:
    linecache.cache[FILE] = (len(text), None, text.splitlines(keepends=True), FILE)
    module = ModuleType("user_model")
    sys.modules["user_model"] = module
    exec(compile(text, FILE, "exec"), module.__dict__)
    return module


def heard(text: str, calls: Callable[[Any], object]) -> tuple[Called, ...]:
    """What the functions of the text were given and returned."""
    observer = Observer(frozenset({FILE}))
    with observer.observing():
        calls(loaded(text))
    return named(observer.called, {FILE: text})


def offered(function: str, called: tuple[Called, ...], kind: str = SKIPPED, text: str = TEXT) -> dict[str, Hatch]:
    """The marks on a function, by name."""
    start = next(n for n, line in enumerate(text.split("\n"), 1) if line.startswith(f"def {function}("))
    at = SourceLine(FILE, start + 1, function, text.split("\n")[start].strip())
    found = markable(at, Sources({FILE: text}))
    marks = hatches(found, kind, called) if found else ()
    return {mark.lines.after[0].partition("(")[0].rpartition(".")[2]: mark for mark in marks}


def applied(mark: Hatch, text: str = TEXT) -> str:
    new = edited(mark.lines, {FILE: text}, FILE)
    assert new is not None
    return new[FILE]


def same_in_a_graph(new: str, function: Callable[[Any], Callable[..., Any]], *inputs: Any, backend: str) -> None:
    """The marked function is in one graph, and computes what the text as it was does, values and gradients."""
    torch.compiler.reset()
    before, after = function(loaded(TEXT)), torch.compile(function(loaded(new)), backend=backend, fullgraph=True)
    for given in inputs:
        results = []
        for one in (before, after):
            x = given.clone().requires_grad_()
            result = one(x)
            if result.requires_grad:
                result.sum().backward()
            results.append((result.detach(), x.grad))
        torch.testing.assert_close(*results)


X = torch.tensor([[1.0, 2.0, 3.0], [-1.0, 4.0, 0.5], [0.0, -7.0, 1.0]])


@pytest.mark.parametrize("backend", ["aot_eager", pytest.param("inductor", marks=pytest.mark.long)])
def test_an_operator_runs_what_dynamo_cannot_and_its_fake_has_the_sizes_that_eager_returned(backend: str) -> None:
    called = heard(TEXT, lambda m: [m.top_rows(x, k) for x in (X, X[:2]) for k in (1, 2)])
    new = applied(offered("top_rows", called)["custom_op"])
    assert "def top_rows(x: torch.Tensor, k: int = 2) -> torch.Tensor:" in new
    assert "@top_rows.register_fake\ndef _like_top_rows(x, k=2):\n    return x.new_empty((k, x.shape[1]))" in new
    for k in (1, 2):
        same_in_a_graph(
            new, lambda m, k=k: lambda x: x + m.top_rows(x.detach(), k).sum(), X, -X, X[1:], backend=backend
        )


# Below a threshold no call of the run came: there it returns something else.
ELSEWHERE = """
import numpy as np
import torch


def sorted_rows(x):
    if x.max() < 0:
        return OTHER
    return torch.from_numpy(x.numpy()[np.lexsort((x.numpy()[:, 0],))].copy())


def both(x):
    if x.max() < 0:
        return torch.zeros(3), OTHER
    return torch.zeros(3), torch.from_numpy(np.sort(x.numpy()))
"""
WRONG = {
    "dtype": "x.double() * 3",
    "whole numbers": "(x * 3).int()",
    "size": "x[1:] * 3",
    "rank": "(x * 3).flatten()",
    "a dimension more": "(x * 3).unsqueeze(0)",
    "device": "x.to('meta')",
    "its argument": "x",
    "a view": "x[:]",
    "none": "None",
}


@pytest.mark.parametrize("backend", ["eager", pytest.param("inductor", marks=pytest.mark.long)])
@pytest.mark.parametrize("other", WRONG.values(), ids=WRONG)
def test_an_operator_that_returns_something_else_is_an_error_and_never_another_result(other: str, backend: str) -> None:
    text = ELSEWHERE.replace("OTHER", other)
    called = heard(text, lambda m: [step(x) for x in (X, X[:2]) for step in (m.sorted_rows, m.both)])
    for name, last in (("sorted_rows", lambda r: r), ("both", lambda r: r[1])):
        marks = offered(name, called, text=text)
        if other in {"x", "x[:]"} and name == "both":
            continue
        module = loaded(applied(marks["custom_op"], text))
        torch.compiler.reset()
        compiled = torch.compile(lambda x, m=module, n=name, f=last: f(getattr(m, n)(x)) * 2 + 1, backend=backend)
        torch.testing.assert_close(compiled(X), last(getattr(loaded(text), name)(X)) * 2 + 1)
        with pytest.raises((RuntimeError, AttributeError), match=r"returned|alias|no attribute"):
            compiled(-X.abs() - 1)


def test_an_operator_may_return_its_numbers_in_another_order_of_memory() -> None:
    """A fake says that they lie one after the other: compiled code would read them so."""
    text = ELSEWHERE.replace("OTHER", "(x * 3).t().contiguous().t()")
    called = heard(text, lambda m: [m.sorted_rows(X), m.sorted_rows(X[:2])])
    module = loaded(applied(offered("sorted_rows", called, text=text)["custom_op"], text))
    torch.compiler.reset()
    compiled = torch.compile(lambda x: module.sorted_rows(x) * 2)
    for x in (X, -X.abs() - 1):
        torch.testing.assert_close(compiled(x), loaded(text).sorted_rows(x) * 2)


def test_an_operator_of_two_results_one_of_another_dtype() -> None:
    called = heard(TEXT, lambda m: [m.widths(x, signed) for x in (X, X[:2]) for signed in (True, False)])
    new = applied(offered("widths", called)["custom_op"])
    assert "    return (x.new_empty((x.shape[0],), dtype=torch.bool), x.new_empty(x.shape))" in new
    for signed in (True, False):
        chosen = lambda m, s=signed: lambda x: torch.where(m.widths(x.detach(), s)[0].unsqueeze(1), x, x * 3)  # noqa: E731
        same_in_a_graph(new, chosen, X, -X, backend="aot_eager")


METHODS = """
import torch

SHELF = {n: n * 7 % 5 for n in range(50)}


class Shop:
    def __init__(self):
        self.shelves = SHELF

    def shelf_of(self, ids, offset=0):
        \"\"\"Where things stand.\"\"\"
        return torch.tensor([SHELF[i] + offset for i in ids.flatten().tolist()]).view(ids.shape)

    def kept_in(self, ids):
        return torch.tensor([self.shelves[i] for i in ids.tolist()])

    def told(self, ids):
        text = '''so many:
        things'''
        return torch.tensor([len(text) + i for i in ids.tolist()])

    def priced(self, ids):
        return torch.tensor([i + len(__class__.__name__) for i in ids.tolist()])
"""


def of_a_method(name: str, called: tuple[Called, ...]) -> list[str]:
    start = next(n for n, line in enumerate(METHODS.split("\n"), 1) if f"def {name}(" in line)
    line = next(n for n, text in enumerate(METHODS.split("\n"), 1) if n > start and "return" in text)
    at = SourceLine(FILE, line, name, METHODS.split("\n")[line - 1].strip())
    found = markable(at, Sources({FILE: METHODS}))
    assert found is not None
    return [applied(one, METHODS) for one in hatches(found, "Tensor.tolist()", called)]


@pytest.mark.parametrize("backend", ["aot_eager", pytest.param("inductor", marks=pytest.mark.long)])
def test_a_method_that_reads_nothing_of_its_object_is_an_operator_too(backend: str) -> None:
    ids = torch.arange(1, 20)
    called = heard(METHODS, lambda m: [m.Shop().shelf_of(ids[:n], k) for n in range(1, 16) for k in (0, 3)])
    (new,) = of_a_method("shelf_of", called)
    assert '@torch.library.custom_op("user_model::Shop_shelf_of", mutates_args=())' in new
    assert 'Where things stand."""\n        return shelf_of_operator(ids, offset)\n\n    def kept_in' in new
    assert "def _shelf_of(ids, offset=0):" in new
    torch.compiler.reset()
    before, after = loaded(METHODS).Shop(), loaded(new).Shop()
    compiled = torch.compile(lambda x: after.shelf_of(x, 2) * 2, backend=backend, fullgraph=True)
    for n in (3, 7, 19):
        torch.testing.assert_close(compiled(ids[:n]), before.shelf_of(ids[:n], 2) * 2)


@pytest.mark.parametrize("name", ["kept_in", "told", "priced"])
def test_a_method_is_no_operator_where_it_would_do_something_else_in_the_module(name: str) -> None:
    called = heard(METHODS, lambda m: [getattr(m.Shop(), name)(torch.arange(1, n)) for n in (3, 4)])
    assert of_a_method(name, called) == []


@pytest.mark.skipif(torch.__version__ < "2.12", reason="torch 2.11 takes no modules there")
@pytest.mark.parametrize("backend", ["aot_eager", pytest.param("inductor", marks=pytest.mark.long)])
def test_what_only_dynamo_cannot_follow_is_traced_by_aotautograd(backend: str) -> None:
    torch.manual_seed(0)
    layer = torch.nn.Linear(3, 3)
    mark = offered("activated", heard(TEXT, lambda m: m.activated(X, layer)))["nonstrict_trace"]
    assert mark.needs_aot
    assert "no gradient" in mark.price
    same_in_a_graph(applied(mark), lambda m: lambda x: m.activated(x, layer) * 2, X, -X, backend=backend)


def test_a_plain_value_is_a_constant_on_a_condition_that_is_said() -> None:
    mark = offered("scale_of", heard(TEXT, lambda m: [m.scale_of("/tmp"), m.scale_of("/not/there")]))
    assert set(mark) == {"assume_constant_result"}
    price = mark["assume_constant_result"].price
    assert (
        "(2.0 or 1.0 in this run) is a constant of the compiled code, also where it would give something else" in price
    )
    for name in ("/tmp", "/not/there"):
        new = applied(mark["assume_constant_result"])
        same_in_a_graph(new, lambda m, name=name: lambda x: x * m.scale_of(name), X, -X, backend="aot_eager")


NOT_OFFERED: dict[str, tuple[str, Callable[[Any], object], set[str]]] = {
    "what it returns differs for the same arguments": (
        "scale_of",
        lambda m: [m.scale_of("/tmp"), setattr(m.os, "path", type("", (), {"exists": lambda _: False})), m.scale_of("/tmp")],
        set(),
    ),
    "a random number": ("chance", lambda m: m.chance("a"), set()),
    "what it returns is its argument": ("same", lambda m: m.same(X), {"nonstrict_trace"}),
    "what it returns needs a gradient": (
        "activated", lambda m: m.activated(X, torch.nn.Linear(3, 3)), {"nonstrict_trace"},
    ),
    "it changes an argument": ("counted", lambda m: m.counted(X.clone()), {"custom_op"}),
    "it adds random numbers": ("noised", lambda m: m.noised(X), set()),
    "it adds random numbers of torch's": ("blurred", lambda m: m.blurred(X), {"nonstrict_trace"}),
    "it counts": ("counting", lambda m: m.counting(X), {"nonstrict_trace"}),
    "it counts, and returns a number": ("counter", lambda m: m.counter("a"), set()),
    "it hands on memory by NumPy": ("shared", lambda m: m.shared(X), {"nonstrict_trace"}),
    "its results share their memory": ("halves", lambda m: m.halves(X), {"nonstrict_trace"}),
    "it is marked already": ("marked", lambda m: m.marked(X), set()),
    "it was not called": ("scale_of", lambda _: None, set()),
    "sizes that do not follow from arguments": (
        "top_rows", lambda m: [m.top_rows(X, -1), m.top_rows(X[1:], -1), m.top_rows(X, 1)], {"nonstrict_trace"},
    ),
}  # fmt: skip


@pytest.mark.parametrize(("function", "calls", "left"), NOT_OFFERED.values(), ids=NOT_OFFERED)
def test_a_mark_is_not_offered_where_calls_do_not_fit_it(
    function: str, calls: Callable[[Any], object], left: set[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    import os

    monkeypatch.setattr(os, "path", os.path)  # put back what a case changes
    assert set(offered(function, heard(TEXT, calls))) == left


def test_an_operator_that_changes_an_argument_says_so() -> None:
    new = applied(offered("counted", heard(TEXT, lambda m: m.counted(X.clone())))["custom_op"])
    assert "mutates_args=('x',)" in new
    torch.compiler.reset()
    for step in (loaded(TEXT).counted, torch.compile(loaded(new).counted, backend="aot_eager")):
        x = X.clone()
        torch.testing.assert_close((step(x), x), ((X + 1) * 2, X + 1))


def test_an_operator_that_may_change_an_argument_says_so_though_it_did_not() -> None:
    called = heard(TEXT, lambda m: [m.lowered(X.clone(), 5), m.lowered(X[:2].clone(), 5)])
    new = applied(offered("lowered", called)["custom_op"])
    assert "mutates_args=('x',)" in new
    x, y = torch.full((2, 2), 12.0), torch.full((2, 2), 12.0)
    torch.compiler.reset()
    results = [
        step(one, 10) + one for step, one in ((loaded(TEXT).lowered, x), (torch.compile(loaded(new).lowered), y))
    ]
    torch.testing.assert_close(*results)
    torch.testing.assert_close(x, y)


def test_a_method_changes_its_owner_where_nobody_reads_what_it_gives() -> None:
    called = heard(TEXT, lambda m: [m.ranked(X, in_place=False), m.ordered(X), m.ordered(X[:2])])
    assert "mutates_args=('x',)" in applied(offered("ranked", called)["custom_op"])
    assert "mutates_args=()" in applied(offered("ordered", called)["custom_op"])


def test_a_name_that_begins_like_a_clock_is_none() -> None:
    assert set(offered("time_step", heard(TEXT, lambda m: [m.time_step(2), m.time_step(3)]))) == {
        "assume_constant_result"
    }


def test_a_break_at_a_value_is_not_left_to_aotautograd() -> None:
    called = heard(TEXT, lambda m: m.activated(X, torch.nn.Linear(3, 3)))
    assert set(offered("activated", called, "Data-dependent branching")) == set()


def test_a_file_that_imports_torch_where_it_may_not_be_there_gets_no_mark() -> None:
    """As below `if is_torch_available():`, or in a function: a mark needs it where the file is imported."""
    text = TEXT.replace("import torch\n", "if True:\n    import torch\n", 1)
    called = heard(text, lambda m: m.activated(X, torch.nn.Linear(3, 3)))
    mark = offered("activated", called, text=text)["nonstrict_trace"]
    assert edited(mark.lines, {FILE: text}, FILE) is None
    as_another = text.replace("import torch", "import torch as th").replace("torch.", "th.")
    assert (
        offered("activated", heard(as_another, lambda m: m.activated(X, torch.nn.Linear(3, 3))), text=as_another) == {}
    )


def test_calls_that_were_not_all_heard_make_no_constant() -> None:
    one = Call((("name", Seen("plain", "'a'")),), Seen("plain", "2.0"))
    called = Called(FILE, 8, (one,), name="scale_of")
    assert set(offered("scale_of", (called,))) == {"assume_constant_result"}
    assert set(offered("scale_of", (replace(called, is_whole=False),))) == set()


@pytest.mark.parametrize(
    ("elsewhere", "is_offered"),
    [
        ("print(SCALES)", True),
        ("SCALES['/tmp'] = 3.0", False),
        ("SCALES.update(a=1.0)", False),
        ("def f():\n    global SCALES\n    SCALES = {}", False),
        ("SCALES = {}", False),
    ],
)
def test_what_reads_a_value_that_the_file_changes_is_no_constant(elsewhere: str, *, is_offered: bool) -> None:
    reading = "return SCALES.get(name, 2.0) if os.path.exists(name) else 1.0"
    text = TEXT.replace("return 2.0 if os.path.exists(name) else 1.0", reading) + f"\nSCALES = {{}}\n{elsewhere}\n"
    called = heard(text, lambda m: [m.scale_of("/tmp"), m.scale_of("/not/there")])
    assert ("assume_constant_result" in offered("scale_of", called, text=text)) == is_offered


def test_what_has_many_values_is_no_constant() -> None:
    few, many = (heard(TEXT, lambda m, n=n: [m.scale_of("/" * k) for k in range(1, n)]) for n in (9, 10))
    assert set(offered("scale_of", few)) == {"assume_constant_result"}
    assert offered("scale_of", many) == {}


def test_sizes_that_changed_after_the_calls_that_are_kept_make_no_operator_and_no_trace() -> None:
    few, many = (heard(TEXT, lambda m, n=n: [m.top_rows(torch.rand(k, 3), k) for k in range(1, n)]) for n in (32, 40))
    assert set(offered("top_rows", few)) == {"custom_op", "nonstrict_trace"}
    assert offered("top_rows", many) == {}


@pytest.mark.skipif(torch.__version__ < "2.12", reason="in torch 2.11 they are another thing")
def test_inductor_refuses_leaf_functions() -> None:
    """Why they are not offered, though the graph that Dynamo captures runs: when this fails, offer them."""
    decorators = pytest.importorskip("torch._dynamo.decorators")
    if not hasattr(decorators, "leaf_function"):
        pytest.skip("this torch has none")

    @decorators.leaf_function
    def leaf(x: torch.Tensor) -> torch.Tensor:
        return x * 2 if x.sum() > 0 else x

    leaf.register_fake(torch.empty_like)
    torch.compiler.reset()
    torch.testing.assert_close(torch.compile(leaf, backend="eager", fullgraph=True)(X), X * 2)
    torch.compiler.reset()
    with pytest.raises(torch._inductor.exc.InductorError, match=r"^AssertionError"):
        torch.compile(leaf, fullgraph=True)(X)


def test_what_keeps_a_part_without_breaks_raises_where_one_comes_back() -> None:
    """As the last words of `fix` have it: round lines or above a function, also for what these call, and no further."""

    def branching(x: torch.Tensor) -> torch.Tensor:
        if x.sum() > 0:
            x = x + 1
        return x

    def chosen(x: torch.Tensor) -> torch.Tensor:
        return torch.where(x.sum() > 0, x + 1, x)

    def step(part: Callable[[torch.Tensor], torch.Tensor]) -> Callable[[torch.Tensor], torch.Tensor]:
        def lines(x: torch.Tensor) -> torch.Tensor:
            torch._dynamo.graph_break()
            with torch._dynamo.error_on_graph_break(True):
                return part(x * 2)

        return lines

    def marked(part: Callable[[torch.Tensor], torch.Tensor]) -> Callable[[torch.Tensor], torch.Tensor]:
        return torch._dynamo.error_on_graph_break(True)(lambda x: part(x * 2))

    for kept in (step, marked):
        torch.compiler.reset()
        torch.testing.assert_close(torch.compile(kept(chosen), backend="eager")(X), chosen(X * 2))
        with pytest.raises(torch._dynamo.exc.Unsupported, match="Data-dependent branching"):
            torch.compile(kept(branching), backend="eager")(X)
        torch.testing.assert_close(kept(branching)(X), chosen(X * 2))


PROGRAM = """
    import os

    import numpy as np
    import torch
    from torch import nn


    def device_scale(name):
        return 2.0 if os.path.exists(name) else 1.0


    def lowest(x, k):
        rows = x.numpy()
        return torch.from_numpy(rows[np.lexsort((rows[:, 0], rows[:, 1]))][:k].copy())


    class Net(nn.Module):
        def __init__(self):
            super().__init__()
            self.layer = nn.Linear(4, 4)

        def forward(self, x):
            x = self.layer(x) * device_scale("/tmp")
            return x.sum() + lowest(x.detach(), 3).sum()


    net = torch.compile(Net())
    for n in (5, 6, 7):
        net(torch.randn(n, 4)).backward()
"""


# In an operator whose argument needs a gradient none is taken: what the function returned while it was heard is another dtype.
OTHERWISE = """
    import numpy as np
    import torch


    def lowest(x):
        rows = x.detach().numpy()
        low = torch.from_numpy(rows[np.lexsort((rows[:, 0], rows[:, 1]))][:2].copy())
        return low.double() if torch.is_grad_enabled() else low


    def step(x):
        return (x + lowest(x).float().sum()).relu()


    step = torch.compile(step)
    for n in (5, 6):
        step(torch.randn(n, 4, requires_grad=True))
"""


@pytest.mark.long
def test_an_operator_whose_fake_is_wrong_in_its_trial_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "train.py").write_text(dedent(OTHERWISE).lstrip())
    monkeypatch.chdir(tmp_path)
    main(["fix", "--own-inputs", "--json", "train.py"])
    found = json.loads(capsys.readouterr().out)
    operator = next(one for one in found["tried"] if "custom_op" in one["offer"])
    assert (
        "train::lowest returned (torch.float32, (2, 4), device(type='cpu')); its fake says (torch.float64,"
        in (operator["error"])
    )
    assert "custom_op" not in str(found["best"])


@pytest.mark.long
def test_what_is_left_gets_marks_that_were_tried(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "train.py").write_text(dedent(PROGRAM).lstrip())
    monkeypatch.chdir(tmp_path)
    assert main(["fix", "--own-inputs", "--json", "--apply", "train.py"]) == 0
    best = json.loads(capsys.readouterr().out)["best"]
    assert best["results"] == "equal"
    assert best["before"]["graph_breaks"] > best["after"]["graph_breaks"] == 0
    assert {offer.partition("(")[0].split()[0] for offer in best["offers"]} == {
        "@torch.library.custom_op", "@torch.compiler.assume_constant_result",
    }  # fmt: skip
    text = (tmp_path / "train.py").read_text().replace("torch.compile(Net())", "torch.compile(Net(), fullgraph=True)")
    (tmp_path / "train.py").write_text(text)  # and Inductor compiles it whole
    subprocess.run([sys.executable, "train.py"], check=True)
