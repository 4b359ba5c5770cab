"""Meters that a compiled function is given: their calls come after what computes, in the function itself."""

from __future__ import annotations

import copy
import linecache
from types import ModuleType
from typing import Any

import pytest
import torch

from compiler_lens.facts.measured.bookkeeping import lines_of_books, split
from compiler_lens.facts.measured.reached import reached
from compiler_lens.facts.measured.unanswered import called_at, waits

TEXT = """\
import torch


class AverageMeter:
    def __init__(self, name):
        self.name = name
        self.val = self.sum = self.count = self.avg = 0

    def update(self, val, n=1):
        self.val = val
        self.sum += val * n
        self.count += n
        self.avg = self.sum / self.count

    def __str__(self):
        return "{name} {val:.3f} ({avg:.3f})".format(**self.__dict__)


def step(model, x, losses, errors):
    loss = model(x).square().sum(1).mean()
    errors.update(loss.item() * 2, x.size(0))
    losses.update(loss.item(), x.size(0))
    return loss


def main(model, xs):
    compiled = torch.compile(step, backend="eager")
    losses, errors = AverageMeter("loss"), AverageMeter("error")
    for x in xs:
        compiled(model, x, losses, errors).backward()
    return str(losses), str(errors), losses.count
"""
CALL = "losses.update(loss.item(), x.size(0))"
OTHER = "errors.update(loss.item() * 2, x.size(0))"


def ran(text: str) -> Any:
    torch._dynamo.reset()
    linecache.cache["/app/meters.py"] = len(text), None, text.splitlines(keepends=True), "/app/meters.py"
    module = ModuleType("meters")
    exec(compile(text, "/app/meters.py", "exec"), module.__dict__)
    torch.manual_seed(0)
    model = torch.nn.Linear(4, 3)
    said = module.__dict__["main"](model, [torch.randn(5, 4) for _ in range(3)])
    return said, {name: one.grad for name, one in copy.copy(model).named_parameters()}


def line(text: str, code: str) -> int:
    return next(number for number, one in enumerate(text.split("\n"), 1) if one.strip() == code)


def only(text: str) -> str:
    return text.replace(f"    {OTHER}\n", "")


def test_they_are_called_by_the_function_itself_once_all_is_computed() -> None:
    text = only(TEXT)
    assert lines_of_books(text, "step") == {line(text, CALL)}
    new = split(text, "step")
    assert new is not None
    assert "added" not in new
    assert new.index("step_computed(") < new.index(CALL)
    (said, gradients), (said_then, gradients_then) = ran(text), ran(new)
    assert said_then == said
    torch.testing.assert_close(gradients_then, gradients)


def test_what_such_a_method_does_is_no_reason_for_a_list() -> None:
    text = only(TEXT)
    inside = line(text, "self.val = val")
    assert waits(text, inside)
    assert called_at(text, inside, "step") == lines_of_books(text, "step")


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("    return loss\n", "    return loss * losses.avg\n"),  # read by what computes
        ("    return loss\n", "    return loss, losses\n"),
        ("    return loss\n", "    return loss, f'{losses}'\n"),
        ("    return loss\n", "    return loss, str(losses)\n"),
        ("    return loss\n", "    return loss, getattr(losses, 'sum')\n"),
        ('AverageMeter("error")\n', 'AverageMeter("error")\n    losses = {}\n'),  # a dict's `update`
        ("compiled(model, x, losses, errors)", "compiled(model, x, made(), errors)"),
    ],
)
def test_what_may_be_read_meanwhile_or_be_something_else_stays(old: str, new: str) -> None:
    text = only(TEXT)
    text = f"{text}\n\nclass Other:\n    def update(self, a, b):\n        return a\n"
    assert lines_of_books(text, "step")
    assert old in text
    assert not lines_of_books(text.replace(old, new), "step")


def test_a_tensors_method_reads_nothing_of_a_meter_that_has_such_an_attribute() -> None:
    assert ".sum(1)" in TEXT
    assert lines_of_books(only(TEXT), "step")


def test_what_gives_a_text_is_come_to_where_one_is_made() -> None:
    def has_text(text: str) -> bool:
        return "__str__" in {getattr(one, "name", "") for one in reached(text, ["step"])}

    assert not has_text(TEXT)
    for said in ("print(loss)", "x = f'{loss}'", "x = '%s' % loss", "x = str(loss)"):
        assert has_text(TEXT.replace(f"    {CALL}\n", f"    {said}\n"))


def test_a_meter_that_the_function_around_is_given() -> None:
    text = only(TEXT).replace("def step(model, x, losses, errors):", "def make(losses):\n  def step(model, x):")
    head, _, rest = text.partition("  def step(model, x):\n")
    body, _, main = rest.partition("\n\ndef main")
    inner = "".join(f"  {line}\n" if line else "" for line in body.split("\n"))
    main = main.replace("torch.compile(step,", "torch.compile(make(losses),").replace("x, losses, errors)", "x)")
    lines = main.split("\n")
    lines[1], lines[2] = lines[2], lines[1]  # the meters first
    text = f"{head}  def step(model, x):\n{inner}  return step\n\n\ndef main" + "\n".join(lines)
    assert waits(text, line(text, CALL))
    assert not waits(
        text.replace("make(losses)):", "make(losses, *more)):").replace("make(losses),", "make({}),"), line(text, CALL)
    )
