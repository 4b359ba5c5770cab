"""What is added to a class has no name that a class which shares its objects has, in whatever file that stands."""

from __future__ import annotations

from compiler_lens.facts.measured.edits import Apart, Split, edited
from compiler_lens.facts.measured.relatives import methods_of_relatives

BASE = """
import torch


class Base(torch.nn.Module):
    def forward(self, x):
        y = torch.sin(x) + torch.cos(x)
        if y.sum().item() > 0:
            self.best = y.max().item()
        return torch.sin(y) * torch.cos(y)
"""
CHILD = """
import torch

from base import Base


class Child(Base):
    def forward(self, x):
        y = torch.cos(x) + torch.exp(x)
        if y.sum().item() > 0:
            self.best = y.max().item()
        return super().forward(y)
"""
LINE = "if y.sum().item() > 0:"
TEXTS = {"base.py": BASE, "child.py": CHILD, "other.py": BASE.replace("Base", "Other")}


def test_parts_of_classes_that_share_objects_have_other_names() -> None:
    texts = edited(Apart("base.py", "Base.forward", (LINE,)), TEXTS, "child.py")
    assert texts is not None
    texts = edited(Apart("child.py", "Child.forward", (LINE,)), texts, "child.py")
    assert texts is not None
    assert "def forward_computed(" in texts["base.py"]
    assert "def forward_computed_2(" in texts["base.py"]
    assert "def forward_computed_3(" in texts["child.py"]
    assert "def forward_computed(" not in texts["child.py"]
    texts = edited(Apart("other.py", "Other.forward", (LINE,)), texts, "child.py")
    assert texts is not None
    assert "def forward_computed(" in texts["other.py"]


def test_a_function_is_not_made_two_where_a_relative_is() -> None:
    counted = {name: text.replace(LINE, "self.calls += 1\n        if True:") for name, text in TEXTS.items()}
    counted = {name: text.replace("self.best = y.max().item()", "y = y + 1") for name, text in counted.items()}
    counted = {
        name: text.replace("        y = ", "        self.calls += 1\n        y = ", 1) for name, text in counted.items()
    }
    texts = edited(Split("base.py", "Base.forward"), counted, "child.py")
    assert texts is not None
    assert edited(Split("child.py", "Child.forward"), texts, "child.py") is None
    assert edited(Split("other.py", "Other.forward"), texts, "child.py") is not None


def test_classes_that_only_are_modules_share_nothing() -> None:
    assert methods_of_relatives(TEXTS, "Other.forward") == {"forward"}
    mixed = {**TEXTS, "both.py": "class Mixed:\n    def more(self): ...\n\n\nclass Both(Base, Mixed): ...\n"}
    assert methods_of_relatives(mixed, "Base.forward") == {"forward"}
    assert methods_of_relatives(mixed, "Both.forward") == {"forward", "more"}
    assert methods_of_relatives(TEXTS, "forward") == set()
