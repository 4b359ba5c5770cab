"""A function in two does what it did: results, gradients, lists, counters and messages, eagerly and compiled."""

from __future__ import annotations

import ast
import linecache
import random
import subprocess
import sys
from pathlib import Path
from textwrap import dedent
from types import ModuleType
from typing import Any

import pytest
import torch
from msgspec.structs import replace

from compiler_lens import Lens, load
from compiler_lens.facts.measured.bookkeeping import function_at, is_of_numbers, split
from compiler_lens.facts.measured.collected import collects
from compiler_lens.facts.measured.edits import EndApart, Split, edited, logs
from compiler_lens.facts.measured.offers import observed
from compiler_lens.facts.program.ownership import Ownership
from tests.alike import loaded

HEAD = "import logging\nimport random\nimport time\n\nimport torch\n\nlog = logging.getLogger('books')\nTIMES, SEEN = [], {'n': []}\n\n\n"
DRIVE = """
model, out = Model(), []
called = compiled(model)
with torch.no_grad():
    for n in range(5):
        out.append(called(torch.arange(4.0) + n))
state = {name: value for name, value in vars(model).items() if not name.startswith("_") and name != "training"}
state = [state, len(TIMES), SEEN]
"""

OF_MODULES = {
    "a clock, a counter and a list": """
class Model(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.calls, self.means = 0, []

    def forward(self, x):
        \"\"\"Twice.\"\"\"
        started = time.time()  # now
        self.calls += 1
        # twice
        y = x * 2
        z = y + 1
        self.means.append(y.float().mean().item())
        TIMES.append(time.time() - started)
        return z, y
""",
    "messages on the way": """
class Model(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.calls = 0

    def forward(self, x):
        self.calls += 1
        y = x * 2
        if self.calls % 2 == 0:
            print("mean", self.calls, y.mean().item())
        log.warning("sum %.1f", y.sum().item())
        return (y + 1).relu()
""",
    "what is read of a list": """
class Model(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.made = []

    def mixed(self, x, by=0.5):
        for t in self.made[-2:]:
            x = x + t * by
        return x

    def forward(self, x):
        y = self.mixed(x.sin()) * 2
        self.made.append(y)
        return y
""",
    "what is read of a list at once": """
class Model(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.made = []

    def forward(self, x):
        y = x.sin()
        for t in self.made[-2:]:
            y = y + t
        self.made.append(y)
        return y
""",
    "a random number and a number of each row": """
class Model(torch.nn.Module):
    def forward(self, x):
        y = x * 2
        scale = random.random() * 0.5
        SEEN["n"].append(y.sum().item())
        return y * scale, {"y": y}
""",
    "a tensor that is computed for a list": """
class Model(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.made = []

    def forward(self, x):
        y = x * 2
        self.made.append(y.relu() + 1)
        # what is returned
        return y.exp()
""",
    "a way out that counts and says why": """
class Model(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.means, self.skipped = [], 0

    def forward(self, x):
        y = x * 2
        mean = y.mean().item()
        self.means.append(mean)
        if mean > 6:
            self.skipped += 1
            print(f"stop at {mean:.1f}")
            return None
        z = y + 1
        log.info("mean %.1f", mean)
        return z.sqrt()
""",
    "a check for nan": """
class Model(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.losses = []

    def forward(self, x):
        loss = (x / (x - 2)).log().mean()
        if torch.isnan(loss):
            log.warning("nan")
            return 0.0
        value = round(loss.item(), 2)
        self.losses.append(value)
        scaled = loss * 2
        return scaled
""",
    "nothing that is returned": """
class Model(torch.nn.Module):
    def forward(self, x):
        print("in place")
        x.mul_(2)
""",
}


def run(text: str, *, compiled: bool) -> tuple[Any, ...]:
    """What a program returns and leaves."""
    random.seed(0)
    torch.manual_seed(0)
    torch._dynamo.reset()
    with Lens(strict=True) as lens:
        compiling = (lambda m: torch.compile(m, backend="eager")) if compiled else lambda m: m
        module = loaded(HEAD + text + DRIVE, compiled=compiling)
    breaks = [event.root.gb_type for event in lens.recording.graph_breaks]
    return module.__dict__["out"], module.__dict__["state"], breaks, len(lens.recording.compilations)


def are_same(one: Any, other: Any) -> bool:
    if isinstance(one, torch.Tensor):
        return isinstance(other, torch.Tensor) and torch.equal(one, other)
    if isinstance(one, dict):
        return one.keys() == other.keys() and all(are_same(value, other[name]) for name, value in one.items())
    if isinstance(one, (list, tuple)):
        return type(one) is type(other) and len(one) == len(other) and all(map(are_same, one, other))
    return bool(one == other)


@pytest.mark.parametrize("text", OF_MODULES.values(), ids=OF_MODULES)
def test_a_function_in_two_does_what_it_did(text: str, capfd: pytest.CaptureFixture[str]) -> None:
    new = split(HEAD + text, "Model.forward")
    assert new is not None
    better = new.removeprefix(HEAD)
    results, state, *_ = run(text, compiled=False)
    said = capfd.readouterr()
    for compiled in (False, True):
        found, left, breaks, _ = run(better, compiled=compiled)
        assert are_same((results, state), (found, left))
        assert not breaks
        assert capfd.readouterr() == said
    *_, broken, number = run(text, compiled=True)
    *_, fewer = run(better, compiled=True)
    assert broken or number > fewer, "nothing broke: the test proves nothing"
    assert split(new, "Model.forward") is None  # once
    assert new.count("#") == (HEAD + text).count("#")


@pytest.mark.parametrize(
    "change",
    [
        "self.made.append(x)",
        "self.made = []",
        "self.made.pop()",
        "self.made[0] = x",
        "self.made += [x]",
        "del self.made[0]",
    ],
)
def test_what_is_read_of_a_list_that_is_changed_on_the_way_is_no_argument(change: str) -> None:
    text = HEAD + OF_MODULES["what is read of a list"].replace(
        "        for t in", f"        {change}\n        for t in"
    )
    new = split(text, "Model.forward")
    assert new is not None
    assert "last_made" not in new
    assert f"        {change}\n        for t in self.made[-2:]:" in new


DECORATED = """
@torch.compile(backend="eager")
def step(x, *, by=2):
    SEEN["n"].append(len(SEEN["n"]))
    y = x * by
    print("step", y.sum().item())
    return y

def Model():
    return step
"""


def test_a_decorated_function_in_two_is_compiled_whole(capfd: pytest.CaptureFixture[str]) -> None:
    new = split(HEAD + DECORATED, "step")
    assert new is not None
    results, (_, _, seen), broken, _ = run(DECORATED, compiled=False)
    said = capfd.readouterr()
    assert broken
    found, (_, _, left), breaks, number = run(new.removeprefix(HEAD), compiled=False)
    assert are_same((results, seen, []), (found, left, breaks))
    assert (capfd.readouterr(), number) == (said, 1)


NESTED = """
def Model():
    scale = 3

    def shifted(x):
        return x + scale

    @torch.compile(backend="eager")
    def step(x, *, by=2):
        SEEN["n"].append(len(SEEN["n"]))
        y = shifted(x) * by
        print("step", y.sum().item())
        return y

    return step
"""


def test_a_function_in_a_function_is_made_two_beside_what_it_closes_over(capfd: pytest.CaptureFixture[str]) -> None:
    text = HEAD + NESTED
    line = next(number for number, code in enumerate(text.split("\n"), 1) if "def step(" in code)
    assert (function_at(text, line), function_at(text, line - 1), function_at(text, line + 1)) == ("step", "step", "")
    new = split(text, "step")
    assert new is not None
    assert "    @torch._dynamo.decorators.skip\n    def step(x, *, by=2):\n" in new
    assert "        return y\n\n    def step_computed(x, by):\n" in new
    results, (_, _, seen), broken, _ = run(NESTED, compiled=False)
    said = capfd.readouterr()
    assert broken
    found, (_, _, left), breaks, number = run(new.removeprefix(HEAD), compiled=False)
    assert are_same((results, seen, []), (found, left, breaks))
    assert (capfd.readouterr(), number) == (said, 1)
    twice = text.replace("def shifted(", "def step(").replace("return step", "def step(x): ...")
    assert split(twice, "step") is None  # which one is meant?


@pytest.mark.parametrize("told", ["def told(): return len(SEEN['n'])", "told = lambda: len(SEEN['n'])"])
def test_what_a_function_beside_it_reads_of_a_list_is_added_to_there(told: str) -> None:
    text = HEAD + COLLECTED.replace("def Model():\n    return loss\n\ndef loss(x):\n    y = inner(inner(x))\n    return y.sum()", f"""def Model():
    {told}

    def loss(x):
        y = inner(inner(x))
        return y.sum() + ADDED

    return loss""")  # fmt: skip
    line = 'SEEN["n"].append(y.max().item())'
    assert split(text.replace("ADDED", "1"), "loss", (line,)) is not None
    assert split(text.replace("ADDED", "told()"), "loss", (line,)) is None


LOGGED = """
import logging
import sys

import torch

logging.basicConfig(level=sys.argv[1], stream=sys.stdout)
log = logging.getLogger("books")


@torch.compile(backend="eager")
def step(x):
    y = (x * 2).sum()
    log.info("sum %.1f", y)
    return y + 1


print(step(torch.ones(3)))
print(sum(torch._dynamo.utils.counters["graph_break"].values()))
"""


@pytest.mark.parametrize(
    ("edit", "level", "said"),
    [
        (Split("logged.py", "step"), "INFO", "INFO:books:sum 6.0\n"),
        pytest.param(EndApart("logged.py", "step", 'log.info("sum %.1f", y)'), "WARNING", "", marks=pytest.mark.long),
    ],
)
def test_what_logging_does_outside_a_graph_is_compiled_no_more(edit: Split | EndApart, level: str, said: str) -> None:
    """Dynamo follows what a function that it passes over calls: a logger's methods break then, at any level."""
    new = edited(edit, {"logged.py": LOGGED}, "logged.py")
    assert new is not None
    without = new["logged.py"].replace('torch._dynamo.trace_rules.add("logging")\n', "")
    outputs = [
        subprocess.run([sys.executable, "-c", text, level], capture_output=True, text=True, check=True).stdout
        for text in (new["logged.py"], without)
    ]
    assert outputs[0] == f"{said}tensor(7.)\n0\n"
    assert outputs[1].startswith(f"{said}tensor(7.)\n")
    assert outputs[1] != outputs[0]


@pytest.mark.parametrize(
    ("line", "is_logger"),
    [
        ("log.info('sum %s', x)", True),
        ("log.log(20, 'sum %s', x)", True),
        ("return x.log().sum()", False),
        ("self.log(loss=x)", False),
        ("self.log(x)", False),
    ],
)
def test_a_method_named_log_is_a_loggers_where_it_is_given_a_level(line: str, *, is_logger: bool) -> None:
    assert logs(f"def step(self, x):\n    {line}\n", "step") == is_logger


INSIDE = """
def Model():
    seen, scale = SEEN["n"], torch.ones(4)

    @torch.compile(backend="eager")
    def step(x):
        y = (x * scale).sum()
        if y.item() > 8:
            print("large", y.item())
        seen.append(1)
        return y

    return step
"""


def test_a_function_in_another_is_two_there_with_what_it_closes_over(capfd: pytest.CaptureFixture[str]) -> None:
    text = HEAD + INSIDE
    name = function_at(text, text[: text.index("    def step")].count("\n") + 1)
    new = split(text, name)
    assert new is not None
    assert "\n\n\n    def step_computed(x):" not in new
    results, (_, _, seen), broken, _ = run(INSIDE, compiled=False)
    said = capfd.readouterr()
    assert broken
    found, (_, _, left), breaks, number = run(new.removeprefix(HEAD), compiled=False)
    assert are_same((results, seen, []), (found, left, breaks))
    assert (capfd.readouterr(), number) == (said, 1)


def test_a_function_in_another_is_offered_in_two(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file, text = str(tmp_path / "books.py"), HEAD + INSIDE
    monkeypatch.setitem(linecache.cache, file, (len(text), None, text.splitlines(keepends=True), file))
    module = ModuleType("books")
    exec(compile(text, file, "exec"), module.__dict__)
    torch._dynamo.reset()
    with Lens(strict=True) as lens:
        module.__dict__["Model"]()(torch.ones(4))
    offers = observed(lens.recording, Ownership((str(tmp_path),))).offers
    assert [one.edit for one in offers if isinstance(one.edit, Split)] == [Split(file, "step")]


COLLECTED = """
class Inner(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.layer = torch.nn.Linear(4, 4)
        torch.nn.init.ones_(self.layer.weight)

    def forward(self, x):
        y = self.layer(x)
        SEEN["n"].append(y.max().item())
        return y

inner = Inner()

def Model():
    return loss

def loss(x):
    y = inner(inner(x))
    return y.sum()
"""


@pytest.mark.parametrize("body", ["y = inner(inner(x))\n    return y.sum()", "return inner(inner(x)).sum()"])
def test_what_functions_that_it_calls_add_to_a_list_is_added_after_the_call(body: str) -> None:
    line = '        SEEN["n"].append(y.max().item())'
    program = COLLECTED.replace("y = inner(inner(x))\n    return y.sum()", body)
    number = (HEAD + program).split("\n").index(line) + 1
    assert collects(HEAD + program, number)
    new = split(HEAD + program, "loss", (line.strip(),))
    assert new is not None
    better = new[len(HEAD) :]
    old = run(program.replace("self.layer(x)", "self.layer(x).detach()"), compiled=False)
    results, (_, _, seen), *_ = old
    assert len(seen["n"]) == 10
    numbers = []
    for compiled in (False, True):
        found, (_, _, left), breaks, number = run(
            better.replace("self.layer(x)", "self.layer(x).detach()"), compiled=compiled
        )
        assert are_same((results, seen), (found, left))
        assert not breaks
        numbers.append(number)
    assert numbers == [0, 1]


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("        return y\n\ninner", '        return y * SEEN["n"][-1]\n\ninner'),
        ("    return y.sum()", '    return y.sum() + len(SEEN["n"])'),
        ("    return y.sum()", "    return y.sum() + other()\n\ndef other():\n    return len(SEEN['n'])"),
    ],
)
def test_a_list_that_compiled_code_reads_is_added_to_there(old: str, new: str) -> None:
    text = HEAD + COLLECTED
    assert old in text
    assert split(text, "loss", ('SEEN["n"].append(y.max().item())',)) is not None
    assert split(text.replace(old, new), "loss", ('SEEN["n"].append(y.max().item())',)) is None


OF_OBJECTS = """
class Gate(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.layer = torch.nn.Linear(4, 4)
        self.history = []

    def forward(self, x):
        w = self.layer(x).sigmoid()
        self.history.append(w.mean())
        return x * w

    def report(self):
        return len(self.history)

class Model(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.gates = torch.nn.ModuleList(Gate() for _ in range(2))
        self.shared = Gate()
        self.calls = 0

    def forward(self, x):
        self.calls += 1
        for gate in (*self.gates, self.shared, self.shared):
            x = gate(x)
        return x.sum()
"""
ADDED = "self.history.append(w.mean())"
SECOND = "\nclass Other(Gate):\n    def forward(self, x):\n        self.history.append(x)\n        return x\n"


def trained(text: str, backend: str) -> tuple[Any, ...]:
    """What five calls of a model return and leave in the lists of its parts, with a backward of each, and compilations."""
    torch.manual_seed(0)
    torch._dynamo.reset()
    module = loaded(text)
    model = module.__dict__["Model"]()
    compiled = torch.compile(model, backend=backend) if backend else model
    found = []
    with Lens(strict=True) as lens:
        for n in range(5):
            loss = compiled(torch.arange(8.0).view(2, 4) + n)
            loss.backward()
            found.append(loss.detach())
    lists = [list(gate.history) for gate in (*model.gates, model.shared)]
    needed = [getattr(one, "requires_grad", None) for values in lists for one in values]
    lists = [[one.detach() if isinstance(one, torch.Tensor) else one for one in values] for values in lists]
    gradients = [one.grad for one in model.parameters()]
    recording = lens.recording
    numbers = (len(recording.graph_breaks), len(recording.recompiles), len(recording.compilations))
    return [found, lists, needed, gradients], numbers


@pytest.mark.parametrize("backend", ["eager", pytest.param("aot_eager", marks=pytest.mark.long)])
@pytest.mark.parametrize(
    ("made", "line"),
    [
        ("[]", ADDED),
        ("[]", "self.history.append(w.detach().mean())"),
        ("[]", "self.history.append(w)"),
        ("[]", "self.history.append(w.detach().mean().item())"),
        ("[]", "self.history.append(float(w.detach().sum()))"),
        ("collections.deque(maxlen=3)", "self.history.appendleft(w.detach().mean())"),
    ],
)
def test_what_parts_of_a_model_add_to_their_lists_is_added_after_the_call(made: str, line: str, backend: str) -> None:
    text = "import collections\n" + HEAD + OF_OBJECTS.replace("self.history = []", f"self.history = {made}")
    text = text.replace(ADDED, line)
    new = split(text, "Model.forward", (line,))
    assert new is not None
    wanted, _ = trained(text, "")
    eager, _ = trained(new, "")
    compiled, numbers = trained(new, backend)
    torch.testing.assert_close(eager, wanted)
    torch.testing.assert_close(compiled, wanted)
    assert numbers == (0, 0, 1)
    _, (breaks, recompiles, _) = trained(text, backend)
    assert breaks + recompiles, "nothing broke: the test proves nothing"
    number = new.split("\n").index(f"            {line}") + 1
    assert not collects(new, number)  # once


def test_a_function_that_is_two_empties_a_list_as_well() -> None:
    text = HEAD + OF_OBJECTS
    two = split(text, "Model.forward")
    assert two is not None
    assert split(two, "Model.forward", (ADDED,)) == split(text, "Model.forward", (ADDED,))
    two = split(text.replace("self.calls += 1", "print('first')"), "Model.forward")
    assert two is not None
    assert "        return self.forward_computed(x)\n" in two
    more = split(two, "Model.forward", (ADDED,))
    assert more is not None
    whole = "        try:\n            return self.forward_computed(x)\n        finally:\n            taken, added[:] = added[:], []\n            for owner, value in taken:\n"
    assert whole in more
    assert trained(more, "eager")[1] == (0, 0, 1)


def test_names_that_a_function_has_stay_what_they_are() -> None:
    text = (
        (HEAD + OF_OBJECTS).replace("x.sum()", "value").replace("x = gate(x)", "x = gate(x)\n        value = x.sum()")
    )
    new = split(text, "Model.forward", (ADDED,))
    assert new is not None
    assert "for owner, value_2 in taken:\n                owner.history.append(value_2)\n" in new
    torch.testing.assert_close(trained(new, "eager")[0], trained(text, "")[0])


def test_lists_are_emptied_before_what_may_return_early() -> None:
    text = (HEAD + OF_OBJECTS).replace(
        "return x.sum()", "y = x.sum()\n        if y > 0:\n            return None\n        return y"
    )
    new = split(text, "Model.forward", (ADDED,))
    assert new is not None
    assert new.index("taken, added[:] = added[:], []") < new.index("return None")


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("return x * w", "return x * w + len(self.history)"),
        ("return x * w", "return x * w + self.report()"),
        ("return x * w", "return x * w + len(getattr(self, 'history'))"),
        ("return x.sum()", "return x.sum() + self.gates[0].report()"),
        ("return x.sum()", "return x.sum() + sum(map(Gate.report, self.gates))"),
        ("return x.sum()", "return x.sum() + self.gates[0].history[-1]"),
        ("def report(self)", "def __len__(self)"),
        ("self.calls += 1", "self.shared.history = []"),
        ("self.calls += 1", "Gate()(x)"),
        ("self.history = []", "self.history = made_elsewhere()"),
        ("self.history = []", "pass"),
        ("self.history = []", "self.history = []\n        self.register_forward_hook(lambda *_: self.report())"),
        ("return x * w", f"{ADDED}\n        return x * w"),
        ("\nclass Model", f"{SECOND}\nclass Model"),
        (ADDED, "self.history.append(w.add_(1))"),
        (ADDED, "self.history.append(noted(w))"),
        (ADDED, "self.history.extend(w)"),
        (ADDED, "gate.history.append(w)"),
        (ADDED, "if w.dim() > 1: self.history.append(w.mean())"),
    ],
)
def test_a_list_of_an_object_that_may_be_read_or_be_another_is_added_to_there(old: str, new: str) -> None:
    text = HEAD + OF_OBJECTS
    assert old in text
    line = new if old == ADDED else ADDED
    assert split(text, "Model.forward", (ADDED,)) is not None
    assert split(text.replace(old, new), "Model.forward", (line,)) is None


OF_TWO_MODELS = """
class Another(torch.nn.Module):
    def forward(self, x):
        print("another")
        y = x * 2
        return y
"""


@pytest.mark.parametrize(
    ("names", "expected"),
    [
        (["Model"], [("Model.forward", (ADDED,))]),
        (["Model", "Another"], [
            ("Model.forward", (ADDED,)), ("Model.forward", ()), ("Another.forward", (ADDED,)), ("Another.forward", ()),
        ]),
    ],
)  # fmt: skip
def test_a_function_is_made_two_with_all_lists_and_of_several_functions_also_without(
    names: list[str], expected: list[tuple[str, tuple[str, ...]]], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file, text = (
        str(tmp_path / "books.py"),
        HEAD + OF_OBJECTS.replace("self.calls += 1", "print('one')") + OF_TWO_MODELS,
    )
    monkeypatch.setitem(linecache.cache, file, (len(text), None, text.splitlines(keepends=True), file))
    module = ModuleType("books")
    exec(compile(text, file, "exec"), module.__dict__)
    torch._dynamo.reset()
    with Lens(strict=True) as lens:
        for compiled in [torch.compile(module.__dict__[name](), backend="eager") for name in names]:
            for _ in range(4):
                compiled(torch.ones(2, 4))
    sources = tuple(one for one in lens.recording.sources if one.file == file)  # this file names such lists, too
    offers = observed(replace(lens.recording, sources=sources), Ownership((str(tmp_path),))).offers
    splits = [(one.edit.name, one.edit.collected) for one in offers if isinstance(one.edit, Split)]
    assert splits == expected
    assert all(("within it" in one.price) == bool(one.edit.collected) for one in offers if isinstance(one.edit, Split))


HISTORY = """
from reg import penalty

class Layer(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.history = []

    def forward(self, x):
        self.history.append(x.amin())
        return x * 2

class Model(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.layer = Layer()

    def forward(self, x):
        return self.layer(x) + penalty(self)
"""
NO_PENALTY = "def penalty(model):\n    return 0.0\n"


@pytest.mark.parametrize(
    ("beside", "is_offered"),
    [
        (NO_PENALTY, True),
        ("def penalty(model):\n    return model.layer.history[-1]\n", False),
        ("def penalty(model):\n    return getattr(model.layer, 'history')[-1]\n", False),
        (NO_PENALTY + "\nclass Other:\n    def last(self):\n        return self.history[-1]\n", True),
        (NO_PENALTY + "\nimport books\nprint(books.net.layer.history)\n", True),  # which runs when it is imported
        ("penalty = None\n", False),  # where the function is does not show: it is given the model
    ],
)
def test_what_other_files_may_read_meanwhile_is_added_to_there(
    beside: str, is_offered: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file, text = str(tmp_path / "books.py"), HEAD + HISTORY
    monkeypatch.setitem(linecache.cache, file, (len(text), None, text.splitlines(keepends=True), file))
    other = ModuleType("reg")
    exec(NO_PENALTY, other.__dict__)
    monkeypatch.setitem(sys.modules, "reg", other)
    module = ModuleType("books")
    exec(compile(text, file, "exec"), module.__dict__)
    torch._dynamo.reset()
    with Lens(strict=True) as lens:
        compiled = torch.compile(module.__dict__["Model"](), backend="eager")
        for _ in range(12):
            compiled(torch.ones(2, 4))
    own, loaded = Ownership((str(tmp_path),)), {str(tmp_path / "lib.py"): beside}
    offers = observed(lens.recording, own, loaded=loaded).offers
    assert any(isinstance(one.edit, Split) for one in offers) == is_offered


NOT_IN_TWO = {
    "a name that is imported": """
def f(x):
    import warnings
    y = x * 2
    if y.sum() > 1:
        warnings.warn("large")
    return y
""",
    "an attribute, where others get the object": """
def f(self, x):
    y = x * 2
    SEEN["n"].append(self.drop)
    tuned(self)
    return y * self.drop
""",
    "a method that another class has as its own": """
class M:
    def f(self, x):
        y = x * 2
        print("made")
        return y

class N:
    f = M.f
""",
    "a list that what follows reads": """
def f(self, x):
    y = x * 2
    self.made.append(y)
    return x + len(self.made)
""",
    "a list that a method may read": """
def f(self, x):
    y = x * 2
    self.made.append(y)
    z = self.other(y)
    return z
""",
    "a clock in between": """
def f(x):
    y = x * 2
    started = time.time()
    z = y * 2
    TIMES.append(time.time() - started)
    return z
""",
    "what is said of a tensor that is written in place then": """
def f(x):
    y = x * 2
    print(y)
    y.add_(1)
    z = y * 2
    return z
""",
    "what is said of a name that means another then": """
def f(x):
    y = x * 2
    print(y)
    y = y * 2
    return y
""",
    "what is said before an error": """
def f(x):
    y = x * 2
    print(y)
    if y.dim() > 3:
        raise ValueError("large")
    return y
""",
    "a random number after another of a function's": """
def other():
    return random.gauss(0, 1)

def f(x):
    y = x * other()
    scale = random.random()
    return y * scale
""",
    "a sum of tensors": """
def f(self, x):
    y = x * 2
    self.total += y
    return y
""",
    "another name for the object": """
class M:
    def f(this, x):
        print(x)
        return x * 2
""",
    "an early return": """
def f(x):
    print(x)
    if x.dim() == 1:
        return x
    return x * 2
""",
    "a way out before a module that may count": """
def f(self, x):
    y = x * 2
    if y.sum() > 1:
        self.skipped += 1
        return None
    return self.net(y)
""",
    "a way out before a function that nobody knows": """
def f(x):
    y = x * 2
    if y.sum() > 1:
        print("large")
        return None
    z = noted(y)
    return z
""",
    "a way out before what is written in place": """
def f(x):
    y = x * 2
    if y.sum() > 1:
        print("large")
        return None
    x.mul_(2)
    return y
""",
    "a way out from within a loop": """
def f(x):
    y = x * 2
    for n in range(3):
        if y.sum() > n:
            print("large")
            return None
    return y
""",
    "a name that is not always there": """
def f(x, on):
    if on:
        y = x * 2
    print(y)
    return x
""",
    "a queue's next": """
def f(x, left):
    y = x * 2
    print(left.get())
    return y
""",
    "a list that a function which it calls reads": """
def number():
    return len(TIMES)

def f(x):
    y = x * 2
    TIMES.append(1)
    z = y * number()
    return z
""",
    "a list of the function around, which another one in it reads": """
def around():
    times = []

    def number():
        return len(times)

    def f(x):
        y = x * 2
        times.append(1)
        z = y * number()
        return z

    return f
""",
    "a random number after an early return": """
def f(model, x):
    y = x * 2
    if y.sum() > 3:
        print("large")
        return None
    return y + torch.rand_like(y)
""",
    "a layer after an early return": """
def f(model, x):
    y = x * 2
    if y.sum() > 3:
        print("large")
        return None
    return model.head(y)
""",
    "a largest value of what may be empty after an early return": """
def f(model, x):
    y = x * 2
    if y.sum() > 3:
        print("large")
        return None
    return y.amax(dim=0)
""",
    "no books": """
def f(x):
    return x * 2
""",
    "a number that is counted in between": """
def f(self, x):
    y = x * 2
    self.calls += 1
    z = y * self.calls
    return z
""",
}


@pytest.mark.parametrize("text", NOT_IN_TWO.values(), ids=NOT_IN_TWO)
def test_what_would_be_another_program_is_not_made_two(text: str) -> None:
    assert split(HEAD + text, "M.f" if "class M" in text else "f") is None


def test_a_number_of_a_layer_is_that_of_then_also_where_it_changes_before_the_call_ends() -> None:
    line = "self.seen.append(self.scale.item())"
    text = f"""
class Scale(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.register_buffer("scale", torch.ones(()))
        self.seen = []

    def forward(self, x):
        {line}
        self.scale.mul_(0.5)
        return x * self.scale

inner = Scale()

def Model():
    SEEN["n"] = inner.seen
    return loss

def loss(x):
    y = inner(x)
    return y.sum()
"""
    new = split(HEAD + text, "loss", (line,))
    assert new is not None
    results, state, *_ = run(text, compiled=False)
    for compiled in (False, True):
        found, left, *_ = run(new.removeprefix(HEAD), compiled=compiled)
        assert are_same((results, state), (found, left))


def test_lists_of_layers_are_emptied_also_where_the_call_raises() -> None:
    text = (HEAD + OF_OBJECTS).replace(
        "return x.sum()", "if x.dim() > 5:\n            raise ValueError\n        return x.sum()"
    )
    new = split(text, "Model.forward", (ADDED,))
    assert new is not None
    assert new.index("finally:") < new.index("taken, added[:] = added[:], []") < new.index("def forward_computed")


@pytest.mark.parametrize(
    "more",
    ["vars(self)", "self.__dict__", "dir(self)", "getattr(self, str(x.dim()))"],
)
def test_a_layer_that_reads_its_list_without_its_name_keeps_it(more: str) -> None:
    text = HEAD + OF_OBJECTS
    assert split(text, "Model.forward", (ADDED,)) is not None
    assert split(text.replace(ADDED, f"{ADDED}\n        seen = {more}", 1), "Model.forward", (ADDED,)) is None


HANDED_ON = """
def rescaled(loss):
    loss.mul_(0.5)

def Model():
    return step

def step(x):
    loss = (x * 2).sum()
    SEEN["n"].append(loss.item())
    rescaled(loss)
    return loss + 1
"""


def test_a_number_of_what_a_function_is_handed_afterwards_is_that_of_then() -> None:
    new = split(HEAD + HANDED_ON, "step")
    assert new is not None
    assert "kept = loss.clone()" in new
    results, state, *_ = run(HANDED_ON, compiled=False)
    for compiled in (False, True):
        found, left, *_ = run(new.removeprefix(HEAD), compiled=compiled)
        assert are_same((results, state), (found, left))


DRAWING = """
class Model(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.layer = torch.nn.Linear(4, 4)

    def forward(self, x):
        h = self.layer(x).relu()
        keep = random.random()
        return h * keep
"""


@pytest.mark.parametrize(
    ("beside", "is_offered"), [("", True), ("import random\n\ndef f(x):\n    return x * random.uniform(0, 1)\n", False)]
)
def test_a_draw_stays_where_it_is_if_another_file_draws_too(
    beside: str, is_offered: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file, text = str(tmp_path / "drawing.py"), "from augment import f\n\n" + HEAD + DRAWING
    other = ModuleType("augment")
    exec(beside + "\n\ndef f(x): ...\n", other.__dict__)
    monkeypatch.setitem(sys.modules, "augment", other)
    monkeypatch.setitem(linecache.cache, file, (len(text), None, text.splitlines(keepends=True), file))
    module = ModuleType("drawing")
    exec(compile(text, file, "exec"), module.__dict__)
    torch._dynamo.reset()
    with Lens(strict=True) as lens:
        torch.compile(module.__dict__["Model"](), backend="eager")(torch.ones(2, 4))
    own, loaded = Ownership((str(tmp_path),)), {str(tmp_path / "augment.py"): beside}
    offers = observed(lens.recording, own, loaded=loaded).offers
    assert any(isinstance(one.edit, Split) for one in offers) == is_offered


METRICS = dedent("""
    import torch


    class Model:
        def __init__(self):
            self.updates, self.scale, self.history = 0, 0.0, {"a": [], "b": []}

        def loss(self, x):
            self.updates += 1
            self.scale = min(1.0, self.updates / 10)
            a, b = x.sin().sum(), x.cos().sum()
            loss = a + self.scale * b
            for name, value in (("a", a), ("b", b)):
                self.history[name].append(value.item())
            return loss, (a.detach(), b)
""")


def test_a_loop_that_keeps_books_comes_after_what_computes() -> None:
    new = split(METRICS, "Model.loss")
    assert new is not None
    assert "        self.scale = min(1.0, self.updates / 10)\n        result, a, b = self.loss_computed(x)\n" in new
    assert '        for name, value in (("a", a), ("b", b)):\n' in new.partition("def loss_computed")[0]
    before, after = loaded(METRICS).__dict__["Model"](), loaded(new).__dict__["Model"]()
    for size in (1.0, 2.0):
        torch.testing.assert_close(after.loss(torch.full((3,), size)), before.loss(torch.full((3,), size)))
    assert after.__dict__ == before.__dict__


@pytest.mark.parametrize(
    ("old", "new"),
    [
        (
            "self.history[name].append(value.item())",
            "self.history[name].append(value.item())\\n            self.scale += loss",
        ),
        ('(("a", a), ("b", b))', "self.named(a, b)"),
        ("return loss, (a.detach(), b)", "return self.scaled(loss), value"),
    ],
)
def test_a_loop_that_does_more_stays_where_it_is(old: str, new: str) -> None:
    text = METRICS.replace(old, new)
    assert text != METRICS
    found = split(text, "Model.loss")
    assert found is None or "for name, value in" in found.partition("def loss_computed")[2]


@pytest.mark.parametrize(
    ("line", "is_number"),
    [
        ("self.scale = min(1.0, self.n / 10)", True),
        ("decay = min(self.decay, (1 + self.n) / (10 + self.n))", True),
        ("decay = max(0, math.cos(self.n))", True),
        ("decay = self.decay * self.n", False),
        ("decay = min(self.decay, x)", False),
        ("decay = min(self.of(2), 1)", False),
        ("self.scale += min(1.0, self.n / 10)", False),
    ],
)
def test_a_number_of_the_objects_numbers_is_pythons(line: str, is_number: bool) -> None:
    assert is_of_numbers(ast.parse(line).body[0]) is is_number


ANNEALED = dedent("""
    import torch


    class Model:
        def __init__(self):
            self.iteration, self.hits = 0, {"a": []}

        def loss(self, x):
            self.iteration += 1
            y = torch.sin(x)
            smoothing = 0.1 * max(0.0, 1 - self.iteration / 30)
            loss = y.sum() * smoothing
            with torch.no_grad():
                self.hits["a"].append((y > 0).float().mean().item())
            return loss
""")


def test_a_number_that_is_made_between_is_handed_in_and_books_without_gradients_come_last() -> None:
    new = split(ANNEALED, "Model.loss")
    assert new is not None
    assert (
        "smoothing = 0.1 * max(0.0, 1 - self.iteration / 30)\n        loss, kept = self.loss_computed(x, smoothing)"
        in new
    )
    assert '        with torch.no_grad():\n            self.hits["a"].append(kept.item())\n        return loss\n' in new
    before, after = loaded(ANNEALED).__dict__["Model"](), loaded(new).__dict__["Model"]()
    for size in (1.0, -2.0):
        torch.testing.assert_close(after.loss(torch.full((3,), size)), before.loss(torch.full((3,), size)))
    assert after.__dict__ == before.__dict__


def test_a_number_of_what_is_written_before_it_stays() -> None:
    text = ANNEALED.replace("y = torch.sin(x)", "y = torch.sin(x)\n        self.iteration = len(x)")
    new = split(text, "Model.loss")
    assert new is not None
    assert "smoothing = " in new.partition("def loss_computed")[2]


TWO_GIVEN = """
import torch
from torch import nn


class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.history = []
        self.linear = nn.Linear(3, 3)

    def forward(self, x):
        loss = self.linear(x).square().mean()
        self.history.append(loss.item())
        return loss


@torch.compile(backend="eager")
def shrink(weight, most=1.0):
    new = weight * 0.5
    norm = new.norm(dim=-1, keepdim=True)
    if (norm >= most).any():
        new = new / norm
    weight.copy_(new)
    return norm.max().item()


model = Model()
compiled = torch.compile(model, backend="eager")
for n in range(3):
    compiled(torch.ones(2, 3))
    shrink(model.linear.weight.detach())
"""


def test_what_another_compiled_function_keeps_is_kept_by_that_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("train.py").write_text(TWO_GIVEN)
    command = [sys.executable, "-m", "compiler_lens", "run", "-o", "train.clens", "train.py"]
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
    seen = observed(load("train.clens"), Ownership())
    splits = {one.edit.name: one.edit.collected for one in seen.offers if isinstance(one.edit, Split)}
    assert splits == {"Model.forward": ()}


COUNTED = """
import torch
from torch import nn


class Tagger(nn.Module):
    def __init__(self):
        super().__init__()
        self.tokens_seen, self.embedding = 0, nn.Embedding(9, 4)

    def scaled(self, x):
        return x * 2

    def forward(self, ids):
        mask = ids != 0
        self.tokens_seen += int(mask.sum())
        return self.scaled(self.embedding(ids)) * mask.unsqueeze(-1)
"""


def test_a_counter_among_calls_of_methods_waits_where_none_of_them_reads_it() -> None:
    new = split(COUNTED, "Tagger.forward") or ""
    assert "        result, kept = self.forward_computed(ids)\n        self.tokens_seen += int(kept)\n" in new
    torch.manual_seed(0)
    one, other = loaded(COUNTED).__dict__["Tagger"](), loaded(new).__dict__["Tagger"]()
    other.load_state_dict(one.state_dict())
    ids = torch.tensor([[1, 0, 3]])
    assert torch.equal(one(ids), other(ids))
    assert one.tokens_seen == other.tokens_seen == 2
    assert split(COUNTED.replace("return x * 2", "return x * self.tokens_seen"), "Tagger.forward") is None


GUARDED = """\
import logging

import torch
from torch import nn

logger = logging.getLogger("ecg")


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.layer = nn.Linear(4, 4)
        self.calls, self.log = 0, []

    def forward(self, x, scale):
        self.calls += 1
        if torch.isnan(x).any():
            logger.warning("electrode off in batch %d", self.calls)
            x = torch.nan_to_num(x)
        x = self.layer(x) * scale
        self.log.append(x.mean().item())
        return x.tanh()
"""
MENDS = "x = torch.nan_to_num(x)"


def test_what_is_said_of_an_argument_that_is_mended_is_said_before_what_computes() -> None:
    better = split(GUARDED, "Net.forward")
    assert better is not None
    outer, _, inner = better.partition("    def forward_computed(")
    assert "is_compiling" not in better
    assert MENDS in outer
    assert MENDS not in inner
    torch._dynamo.reset()
    module = ModuleType("guarded")
    exec(compile(better, "guarded.py", "exec"), module.__dict__)
    net = module.__dict__["Net"]()
    compiled = torch.compile(net, backend="eager")
    said: list[str] = []
    module.__dict__["logger"].warning = lambda text, *args: said.append(text % args)
    with Lens(strict=True) as lens:
        for number in range(4):
            x = torch.full((2, 4), float("nan") if number % 2 else 1.0)
            assert not compiled(x, 2.0).isnan().any()
    assert said == ["electrode off in batch 2", "electrode off in batch 4"]
    assert not lens.recording.graph_breaks
    assert len(net.log) == 4


@pytest.mark.parametrize(
    ("old", "new"),
    [
        (f"            {MENDS}\n", f"            {MENDS}\n            self.layer(x)\n"),
        ("torch.nan_to_num(x)", "self.layer(x)"),
        (MENDS, f"y = {MENDS}"),
        ("self.calls += 1", "x = self.layer(x)"),
    ],
)
def test_what_does_more_than_to_mend_an_argument_is_compiled(old: str, new: str) -> None:
    text = GUARDED.replace(old, new, 1)
    assert text != GUARDED
    found = split(text, "Net.forward")
    assert (
        found is None
        or "electrode off" not in found.partition("    def forward_computed(")[0].partition("def forward")[2]
    )
