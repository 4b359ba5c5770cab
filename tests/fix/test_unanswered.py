"""Calls of methods that keep books wait until compiled code is left, and leave the state that they left before."""

from __future__ import annotations

import copy
import linecache
import logging
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
import torch

from compiler_lens import Lens
from compiler_lens.facts.measured.bookkeeping import split
from compiler_lens.facts.measured.collected import collects
from compiler_lens.facts.measured.edits import Split
from compiler_lens.facts.measured.fix import Offer
from compiler_lens.facts.measured.offers import observed
from compiler_lens.facts.measured.unanswered import may_be_anothers, waiting, waits
from compiler_lens.facts.program.ownership import Ownership

HEAD = """\
from collections import Counter, defaultdict

import numpy as np
import torch

CLASSES = 3

"""
METER = """
class Meter:
    def __init__(self, classes):
        self.table = np.zeros((classes, classes), dtype=np.int64)
        self.seen, self.total = Counter(), 0.0
        self.classes = classes

    def update(self, logits, target):
        pred = logits.detach().argmax(1).cpu().numpy()
        for p, t in zip(pred.tolist(), target.tolist()):
            self.table[t, p] += 1
            self._note(p)
        self.total += logits.sum().item() / self.classes

    def _note(self, p):
        self.seen[p] += 1

    def accuracy(self):
        return self.table.trace() / max(self.table.sum(), 1)
"""
MODEL = """
class Block(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.layer = torch.nn.Linear(3, 3)
        self.meter = Meter(CLASSES)

    def forward(self, x, target):
        y = self.layer(x)
        self.meter.update(y, target)
        return y.sigmoid()


class Model(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.blocks = torch.nn.ModuleList(Block() for _ in range(2))

    def forward(self, x, target):
        for block in self.blocks:
            x = block(x, target)
        return x.sum()
"""
TEXT = HEAD + METER + MODEL
CALL = "self.meter.update(y, target)"
LINE = "for p, t in zip(pred.tolist(), target.tolist()):"
FUNCTION = "Model.forward"


def state(value: Any) -> Any:
    """What an object keeps, of counters in the order of their keys."""
    if isinstance(value, dict):
        return [(key, state(one)) for key, one in value.items()]
    return sorted(value) if isinstance(value, set) else value


def kept(meter: Any) -> Any:
    return {name: copy.deepcopy(state(value)) for name, value in vars(meter).items() if not isinstance(value, str)}


def trained(text: str, backend: str) -> tuple[Any, tuple[int, int, int]]:
    """What four calls of a model return, and leave after each, with gradients; breaks, recompiles, compilations."""
    torch.manual_seed(0)
    torch._dynamo.reset()
    module = ModuleType("books")
    exec(compile(text, "books.py", "exec"), module.__dict__)
    model = module.__dict__["Model"]()
    called = torch.compile(model, backend=backend) if backend else model
    found = list[Any]()
    with Lens(strict=True) as lens:
        for n in range(4):
            loss = called(torch.randn(4, 3) * n, torch.arange(4) % 3)
            loss.backward()
            found.append((loss.detach(), [kept(block.meter) for block in model.blocks]))
    recording = lens.recording
    numbers = (len(recording.graph_breaks), len(recording.recompiles), len(recording.compilations))
    return (found, [one.grad for one in model.parameters()]), numbers


@pytest.mark.parametrize("backend", ["eager", pytest.param("aot_eager", marks=pytest.mark.long)])
@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("", ""),
        (CALL, "self.meter.update(y.softmax(-1), target)"),
        ("return y.sigmoid()", "y.add_(1)\n        return y.sigmoid()"),  # what is given changes later
        (CALL, f"if x.size(0) > 2:\n            {CALL}\n        {CALL}"),
        ("    def update", "    @torch.no_grad()\n    def update"),
        ("self.table[t, p] += 1", "table = self.table\n            table[t, p] += 1"),
        ("self.seen[p] += 1", "self.seen.update([p, p])"),
        ("self.seen, self.total = Counter()", "self.seen, self.total = defaultdict(int)"),
        ("self.total += logits.sum().item()", "self.total += int(np.bincount(pred, minlength=3).max())"),
    ],
)
def test_a_meter_that_compiled_code_calls_has_what_it_had(old: str, new: str, backend: str) -> None:
    text = TEXT.replace(old, new)
    better = split(text, FUNCTION, (LINE,))
    assert better is not None
    wanted, _ = trained(text, "")
    _, before = trained(text, backend)
    assert before[0], "nothing broke: the test proves nothing"
    for how, numbers in (("", (0, 0, 0)), (backend, (0, 0, 1))):
        found, after = trained(better, how)
        torch.testing.assert_close(found, wanted)
        assert after == numbers


GIVEN = (
    HEAD
    + """
class Averages:
    def __init__(self):
        self.values = {}

    def observe(self, name, value):
        old = self.values.get(name)
        self.values[name] = value if old is None else 0.9 * old + 0.1 * value


class Block(torch.nn.Module):
    def __init__(self, name):
        super().__init__()
        self.name = name
        self.layer = torch.nn.Linear(3, 3)

    def forward(self, x, averages):
        y = self.layer(x)
        averages.observe(self.name, y.abs().mean().item())
        return y.sigmoid()


class Model(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.blocks = torch.nn.ModuleList(Block(f"block{i}") for i in range(2))
        self.meter = self.blocks[0].meter = self.blocks[1].meter = Averages()

    def forward(self, x, target):
        for block in self.blocks:
            x = block(x, self.meter)
        return x.sum()
"""
)
OBSERVED = "averages.observe(self.name, y.abs().mean().item())"


def test_books_that_are_handed_on_as_an_argument_wait() -> None:
    better = split(GIVEN, FUNCTION, (OBSERVED,))
    assert better is not None
    assert "owner.observe(values[0], values[1].item())" in better
    assert trained(better, "eager")[1] == (0, 0, 1)
    assert repr(trained(better, "eager")[0]) == repr(trained(GIVEN, "")[0])


@pytest.mark.parametrize(
    ("old", "new", "waits_then"),
    [
        ("(self, x, averages)", "(self, x, averages: Averages)", True),
        ("(self, x, averages)", "(self, x, averages: 'Averages')", True),
        ("old = self.values.get(name)", "old = self.values[name] if name in self.values else None", True),
        ("(self, x, averages)", "(self, x, averages: Elsewhere)", False),
        ("class Block", "class Other:\n    def observe(self): ...\n\n\nclass Block", False),
        ("        y = self.layer(x)", "        averages = made()\n        y = self.layer(x)", False),
        ("return y.sigmoid()", "return y.sigmoid() * len(averages)", False),
        ("return y.sigmoid()", "return y.sigmoid() * averages.values[self.name]", False),
        ("observe", "update", False),  # a dict has that
        ("old = self.values.get(name)", "old = name.get(self.values)", False),  # what it is given may be a tensor
        ("self.values = {}", "self.values = torch.zeros(3)", False),
    ],
)
def test_what_is_handed_on_waits_where_its_class_is_known(old: str, new: str, *, waits_then: bool) -> None:
    assert old in GIVEN
    line = OBSERVED.replace(old, new)
    assert (split(GIVEN.replace(old, new), FUNCTION, (line,)) is not None) == waits_then


@pytest.mark.parametrize(
    ("text", "other", "is_anothers"),
    [
        (TEXT, "model.block.meter = Elsewhere()", True),
        (TEXT, "class Other(Meter):\n    pass", True),
        (TEXT, "class Other:\n    def update(self): ...\nprint(model.block.meter)", False),
        (GIVEN, "class Other:\n    def observe(self): ...", True),
        (GIVEN, "class Other:\n    def update(self): ...", False),
    ],
)
def test_another_file_may_have_another_class_for_the_object(text: str, other: str, *, is_anothers: bool) -> None:
    code = CALL if text == TEXT else OBSERVED
    line = next(number for number, one in enumerate(text.split("\n"), 1) if one.strip() == code)
    assert may_be_anothers(text, line, [other]) == is_anothers
    assert not may_be_anothers(text, line, [])


def test_each_line_of_the_method_and_its_call_lead_to_the_same() -> None:
    lines = TEXT.split("\n")
    for line in (LINE, CALL, "self.seen[p] += 1", "self.total += logits.sum().item() / self.classes"):
        number = next(n for n, one in enumerate(lines, 1) if one.strip() == line)
        assert waits(TEXT, number)
        assert split(TEXT, FUNCTION, (line,)) == split(TEXT, FUNCTION, (LINE,))
    more = (LINE, "self.total += logits.sum().item() / self.classes")
    assert split(TEXT, FUNCTION, more) == split(TEXT, FUNCTION, (LINE,))
    assert not waits(TEXT, lines.index("        return y.sigmoid()") + 1)


def test_calls_beside_what_is_compiled_stay_as_they_are() -> None:
    more = "\n\ndef evaluated(block, x, t):\n    def once():\n        METER.update(block(x, t), *t)\n    once()\n\n\nMETER = Meter(CLASSES)\n"
    found, better = split(TEXT, FUNCTION, (LINE,)), split(TEXT + more, FUNCTION, (LINE,))
    assert found is not None
    assert better == found + more


def test_a_function_in_another_has_its_call_wait_once() -> None:
    text = (
        HEAD
        + METER
        + """
def step(x, target):
    def inner(y):
        METER.update(y, target)
        return y
    return inner(x * 2).sum()

METER = Meter(CLASSES)
"""
    )
    lines = [n for n, one in enumerate(text.split("\n"), 1) if one.strip() == "METER.update(y, target)"]
    assert waits(text, lines[0])
    found = waiting(text, "METER.update(y, target)", "step")
    assert found is not None
    assert found[0].count("is_compiling()") == 1
    compile(found[0], "books.py", "exec")


AVERAGE = """
class Meter:
    def __init__(self):
        self.total, self.number = 0.0, 0

    def add(self, value, n=1):
        self.total += value * n
        self.number += n
"""


def test_numbers_that_a_call_gives_are_taken_when_it_is_made() -> None:
    line = "self.meter.add(y.mean().item(), x.size(0))"
    text = HEAD + AVERAGE + MODEL.replace(CALL, line).replace("Meter(CLASSES)", "Meter()")
    again = "self.meter.add(x.mean().item(), 2)"
    text = text.replace(line, f"{line}\n        {again}")
    better = split(text, FUNCTION, (line,))
    assert better is not None
    assert split(text, FUNCTION, (line, again)) == better
    assert "added.append((self.meter, (y.mean().detach().clone(), x.size(0))))" in better
    wanted, _ = trained(text, "")
    found, numbers = trained(better, "aot_eager")
    torch.testing.assert_close(found, wanted)
    assert numbers == (0, 0, 1)
    assert trained(text, "aot_eager")[1][0]


def test_a_method_of_the_model_itself_waits() -> None:
    text = TEXT.replace("self.meter = Meter(CLASSES)", "self.meter, self.seen = Meter(CLASSES), Counter()")
    text = text.replace(CALL, "self.note(target)").replace(
        "        return y.sigmoid()\n",
        "        return y.sigmoid()\n\n    def note(self, t):\n        for n in t.tolist():\n            self.seen[n] += 1\n",
    ).replace("self._note(p)", "pass").replace("self.seen, self.total = Counter(), 0.0", "self.total = 0.0")  # fmt: skip
    better = split(text, FUNCTION, ("for n in t.tolist():",))
    assert better is not None
    assert "owner.note(values[0])" in better
    assert trained(better, "aot_eager")[1] == (0, 0, 1)


def test_what_waits_is_called_where_the_rest_raises_and_not_again() -> None:
    better = split(TEXT, FUNCTION, (LINE,))
    assert better is not None
    module = ModuleType("books")
    exec(compile(better, "books.py", "exec"), module.__dict__)
    torch._dynamo.reset()
    model = module.__dict__["Model"]()
    called = torch.compile(model, backend="eager")
    called(torch.ones(4, 3), torch.arange(4) % 3)
    with pytest.raises(IndexError):  # of the method, in its first call
        called(torch.ones(4, 3), torch.arange(4))
    assert not module.__dict__["added"]
    tables = [int(block.meter.table.sum()) for block in model.blocks]
    called(torch.ones(4, 3), torch.arange(4) % 3)
    assert [int(block.meter.table.sum()) for block in model.blocks] == [n + 4 for n in tables]


@pytest.mark.parametrize(
    ("old", "new"),
    [
        # the state, or the object, is read in what is compiled
        ("return y.sigmoid()", "return y.sigmoid() * self.meter.accuracy()"),
        ("return y.sigmoid()", "return y.sigmoid() * self.meter.total"),
        ("return y.sigmoid()", "return y.sigmoid() * len(getattr(self.meter, 'seen'))"),
        ("return x.sum()", "return x.sum() * self.blocks[0].meter.total"),
        ("return y.sigmoid()", "return noted(y.sigmoid(), self.meter)"),
        ("def accuracy(self)", "def __len__(self)"),
        ("return x.sum()", "return x.sum() + TABLE.sum()\n\n\nTABLE = Block().meter.table"),
        (
            "return x.sum()",
            "return x.sum() * keeper.value\n\n\nkeeper = keeping(Block().meter.table)\n\n\ndef keeping(t): ...",
        ),
        (
            "self.table.trace() / max(self.table.sum(), 1)",
            "self.table\n\n\nTABLE = Meter(3).accuracy()\n\n\ndef forward(y):\n    return y * TABLE.sum()",
        ),
        (CALL, "self.meter.update(y, [target])"),
        # the result is used, or the call is another one as well
        (CALL, f"y = y + {CALL}"),
        (CALL, f"{CALL}\n        meter = self.meter\n        meter.update(x, target)"),
        (CALL, f"{CALL}\n        self.meter._note(1)"),
        (CALL, f"{CALL}\n        self.meter.update(*both(y, target))"),
        (CALL, f"try:\n            {CALL}\n        except IndexError:\n            pass"),
        (CALL, f"with torch.autocast('cpu'):\n            {CALL}"),
        # the method is not known
        ("self.meter = Meter(CLASSES)", "self.meter = made_elsewhere()"),
        ("self.meter = Meter(CLASSES)", "self.meter = meter"),
        ("class Meter:", "class Meter(Elsewhere):"),
        ("    def update", "    @noted\n    def update"),
        ("\nclass Model", "\nBlock().meter.update = print\n\n\nclass Model"),
        ("\nclass Model", "\nsetattr(Meter, name, print)\n\n\nclass Model"),
        ("    def accuracy", "    update = noted(update)\n\n    def accuracy"),
        ("\nclass Model", "\nclass Meter:\n    pass\n\n\nclass Model"),
        # it changes what it is given, or does more than to keep books
        ("pred = logits", "logits.mul_(0)\n        pred = logits"),
        ("pred = logits", "logits += 1\n        pred = logits"),
        ("pred = logits", "logits[0] = 1\n        pred = logits"),
        ("pred = logits", "same = logits\n        same += 1\n        pred = logits"),
        ("pred = logits", "print('now')\n        pred = logits"),
        ("pred = logits", "logits = logits + torch.rand_like(logits)\n        pred = logits"),
        ("pred = logits", "global LAST\n        LAST = 1\n        pred = logits"),
        ("pred = logits", "assert len(logits) > 1\n        pred = logits"),
        ("pred = logits", "SEEN.append(1)\n        pred = logits"),
        # it keeps what others may change, or reads it
        ("self.seen[p] += 1", "self.seen[p] += OTHERS[p]"),
        ("self.total += logits.sum().item()", "self.last = logits\n        self.total += 1"),
        ("self.total += logits.sum().item()", "self.total += logits.sum()"),
        ("self.total += logits.sum().item()", "self.rows.append(pred)\n        self.total += 1"),
        ("self.total += logits.sum().item()", "self.seen[logits[0, 0]] = 1\n        self.total += 1"),
        ("self.classes = classes", "self.classes = Block.classes"),
        ("Meter(CLASSES)", "Meter(self.layer.weight)"),
    ],
)
def test_what_may_be_seen_to_wait_does_not(old: str, new: str) -> None:
    assert old in TEXT
    text = TEXT.replace(old, new).replace("self.classes = classes", "self.classes, self.rows = classes, []")
    if old == "self.classes = classes":
        text = TEXT.replace(old, new)
    assert split(TEXT.replace("self.classes = classes", "self.classes, self.rows = classes, []"), FUNCTION, (LINE,))
    assert split(text, FUNCTION, (LINE,)) is None


# -- what logs, asks its object and has a name

MONITOR = """
class Monitor:
    def __init__(self, name, every=2):
        self.name, self.every = name, every
        self.calls, self.total = 0, 0.0

    def observe(self, probs):
        entropy = -(probs * probs.clamp_min(1e-9).log()).sum(-1).mean()
        self.calls += 1
        self.total += entropy.item()
        if self.calls % self.every == 0:
            logger.info("%s: entropy %.3f", self.name, self.mean())

    def mean(self):
        return self.total / max(self.calls, 1)


class Block(torch.nn.Module):
    def __init__(self, name):
        super().__init__()
        self.name = name
        self.layer = torch.nn.Linear(3, 3)
        self.meter = Monitor(name)

    def forward(self, x, target):
        probs = self.layer(x).softmax(-1)
        self.meter.observe(probs)
        return noted(probs + probs.mean(), self.name)


def noted(x, name):
    return x * len(name)


class Model(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.blocks = torch.nn.ModuleList(Block(f"block{i}") for i in range(2))

    def forward(self, x, target):
        for block in self.blocks:
            x = block(x, target)
        return x.sum()
"""
LOGGED = (
    HEAD.replace("import numpy", "import logging\n\nimport numpy") + 'logger = logging.getLogger("books")\n' + MONITOR
)
TOTAL = "self.total += entropy.item()"


class Said(logging.Handler):
    """What a program has logged."""

    def __init__(self) -> None:
        super().__init__()
        self.lines = list[str]()

    def emit(self, record: logging.LogRecord) -> None:
        self.lines.append(record.getMessage())


@pytest.fixture
def said() -> Iterator[list[str]]:
    handler, logger = Said(), logging.getLogger("books")
    logger.addHandler(handler)
    logger.setLevel(logging.INFO)
    yield handler.lines
    logger.removeHandler(handler)


def test_a_method_that_logs_and_asks_its_object_for_a_number_waits(said: list[str]) -> None:
    better = split(LOGGED, FUNCTION, (TOTAL,))
    assert better is not None
    assert "added.append((self.meter, (probs.detach().clone(),)))" in better
    wanted, _ = trained(LOGGED, "")
    expected = said[:]
    assert len(expected) == 4
    assert trained(LOGGED, "eager")[1][0], "nothing broke: the test proves nothing"
    for how, numbers in (("", (0, 0, 0)), ("eager", (0, 0, 1)), ("aot_eager", (0, 0, 1))):
        said.clear()
        found, after = trained(better, how)
        torch.testing.assert_close(found, wanted)
        assert after == numbers
        assert said == expected


@pytest.mark.parametrize(
    ("old", "new"),
    [
        # what it says, or to whom, may be another by then
        ("self.name, self.mean())", "probs, self.mean())"),
        ("logger.info(", "print("),
        ("logger.info(", "warnings.warn("),
        ("logger.info(", "self.hook("),
        ('logger = logging.getLogger("books")', "logger = made_elsewhere()"),
        ("self.name, self.mean())", "self.name, self.mean(), extra=self.every)"),
        # what it asks its object for is more than a number, or does more
        ("return self.total / max(self.calls, 1)", "return self"),
        ("return self.total / max(self.calls, 1)", "return self.observe(OTHER) or self.total / 2"),
        ("return self.total / max(self.calls, 1)", "print(self.total)\n        return self.total / 2"),
        ("return self.total / max(self.calls, 1)", "return self.total / OTHER"),
        # the name, or the number, is not what it was made with, or compiled code reads one that changes
        ('Block(f"block{i}")', "Block(NAMES[i])"),
        ("self.name = name\n", "self.name = measured()\n"),
        ("self.meter.observe(probs)", "self.name = self.name + str(1)\n        self.meter.observe(probs)"),
        ("noted(probs + probs.mean(), self.name)", "noted(probs + self.meter.total, self.name)"),
        ("noted(probs + probs.mean(), self.name)", "noted(probs + self.meter.mean(), self.name)"),
    ],
)
def test_what_may_be_said_or_asked_otherwise_does_not_wait(old: str, new: str) -> None:
    assert old in LOGGED
    assert split(LOGGED, FUNCTION, (TOTAL,)) is not None
    assert split(LOGGED.replace(old, new), FUNCTION, (TOTAL,)) is None


# -- what counts by itself

COUNTED = """
class Meter:
    def __init__(self):
        self.seen = Counter()

    def record(self, ids):
        self.seen.update(ids.flatten().tolist())
        return self
"""
COUNTING = "self.seen.update(ids.flatten().tolist())"


@pytest.mark.parametrize("made", ["Counter()", "set()", "{0}"])
def test_what_a_counter_or_a_set_is_updated_with_is_kept(made: str) -> None:
    text = HEAD + COUNTED + MODEL.replace(CALL, "y = y + 0 * int(self.meter.record(target) is None)")
    text = text.replace("Meter(CLASSES)", "Meter()").replace("Counter()", made)
    assert collects(text, text.split("\n").index(f"        {COUNTING}") + 1)
    better = split(text, FUNCTION, (COUNTING,))
    assert better is not None
    assert "owner.seen.update(value.tolist())" in better
    wanted, _ = trained(text, "")
    found, numbers = trained(better, "aot_eager")
    torch.testing.assert_close(found, wanted)
    assert numbers == (0, 0, 1)


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("Counter()", "made_elsewhere()"),
        ("Counter()", "torch.nn.Linear(2, 2)"),
        (".flatten().tolist()", ""),
        ("return self", "return len(self.seen)"),
    ],
)
def test_an_update_of_something_else_is_not_kept(old: str, new: str) -> None:
    text = HEAD + COUNTED + MODEL.replace(CALL, "y = y + int(self.meter.record(target) is None)")
    text = text.replace("Meter(CLASSES)", "Meter()")
    assert split(text, FUNCTION, (COUNTING,)) is not None
    line = COUNTING.replace(old, new)
    assert split(text.replace(old, new), FUNCTION, (line,)) is None


def splits_offered(text: str, folder: Path, patch: pytest.MonkeyPatch) -> list[Offer]:
    """What a recording of the model in two calls offers."""
    file = str(folder / "books.py")
    patch.setitem(linecache.cache, file, (len(text), None, text.splitlines(keepends=True), file))
    module = ModuleType("books")
    exec(compile(text, file, "exec"), module.__dict__)
    torch._dynamo.reset()
    with Lens(strict=True) as lens:
        compiled = torch.compile(module.__dict__["Model"](), backend="eager")
        for _ in range(2):
            compiled(torch.ones(4, 3), torch.arange(4) % 3)
    offers = observed(lens.recording, Ownership((str(folder),))).offers
    return [one for one in offers if isinstance(one.edit, Split)]


def test_it_is_offered_where_the_graph_breaks_in_the_method(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    splits = splits_offered(TEXT, tmp_path, monkeypatch)
    assert splits
    assert all("gives a method that keeps books" in one.price for one in splits)
    assert any(split(TEXT, FUNCTION, one.edit.collected) for one in splits if isinstance(one.edit, Split))


def test_it_is_not_offered_where_another_run_compiles_more_of_the_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What adds there would never be told."""
    text = f"{TEXT}\n\ndef predicting(model):\n    return torch.compile(model.logits)\n"
    splits = splits_offered(text, tmp_path, monkeypatch)
    assert not [one for one in splits if isinstance(one.edit, Split) and one.edit.collected]


BY_NAME = (
    HEAD
    + """
class Meter:
    def __init__(self):
        self.history = {}

    def update(self, **kwargs):
        for name, value in kwargs.items():
            if isinstance(value, torch.Tensor):
                value = value.item()
            self.history.setdefault(name, []).append(value)
"""
    + MODEL.replace("Meter(CLASSES)", "Meter()").replace(
        CALL,
        "number = 0\n        for one in y:\n            number += one.sum()\n        "
        "self.meter.update(loss=y.mean(), number=number, size=y.size(0))",
    )
)
BY_NAME_CALL = "self.meter.update(loss=y.mean(), number=number, size=y.size(0))"


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("", ""),
        ("isinstance(value, torch.Tensor)", "torch.is_tensor(value)"),
        ("update(self, **kwargs)", "update(self, size, **kwargs)"),
        ("update(self, **kwargs)", "update(self, *, size=1, **kwargs)"),
        ("number = 0\n", "number = 0.5\n"),
        ("number += one.sum()", "number = number + one.sum().item() / 2"),
    ],
)
def test_what_is_given_by_name_is_told_by_name(old: str, new: str) -> None:
    text = BY_NAME.replace(old, new)
    better = split(text, FUNCTION, (BY_NAME_CALL,))
    assert better is not None
    assert "owner.update(loss=values[0], number=values[1], size=values[2])" in better
    found, numbers = trained(better, "eager")
    assert repr(found) == repr(trained(text, "")[0])
    assert (numbers == (0, 0, 1)) == ("item() / 2" not in new)


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("number = 0\n", "number = x\n"),  # an argument: what it is does not show
        ("number = 0\n", "number = [0]\n"),
        ("for one in y:", "for number in y:"),
        ("if isinstance(value, torch.Tensor):", "if isinstance(value, float):"),
        ("value = value.item()", "value = value"),
        ("number=number", "**{'number': number}"),
        ("update(self, **kwargs):", "update(self, *kwargs):"),
        ("append(value)", "append(kwargs)"),
    ],
)
def test_what_may_be_more_than_a_number_does_not_wait(old: str, new: str) -> None:
    assert old in BY_NAME
    assert split(BY_NAME.replace(old, new), FUNCTION, (BY_NAME_CALL.replace(old, new),)) is None
