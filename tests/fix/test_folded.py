"""A number that is compared with itself is asked by `math.isnan` where torch would take it for itself."""

from __future__ import annotations

import pytest
import torch

from compiler_lens.facts.measured.edits import Setting, edited
from compiler_lens.facts.measured.folded import asks_by_name

TEXT = "import torch\n\n\ndef f(x):\n    v = x.sum().item()\n    if {}:\n        return x * 0\n    return x + 1\n"


@pytest.mark.parametrize(
    ("test", "asked"),
    [
        ("v != v", "math.isnan(v)"),
        ("v == v", "(not math.isnan(v))"),
        ("not (v == v) or x is None", "not ((not math.isnan(v))) or x is None"),
        ("float(v) != float(v)", "math.isnan(float(v))"),
        ("v != x", "v != x"),
    ],
)
def test_what_decides_is_asked_by_name(test: str, asked: str) -> None:
    assert asks_by_name(TEXT.format(test)) == (TEXT.format(asked), test != asked)


@pytest.mark.parametrize("test", ["x != x", "self.v != self.v", "v != v and w != w"])
def test_what_may_be_no_number_is_not_known(test: str) -> None:
    assert asks_by_name(TEXT.format(test)) is None
    assert (
        edited(Setting("torch._dynamo.config.capture_scalar_outputs = True"), {"a.py": TEXT.format(test)}, "a.py")
        is None
    )


def test_elements_of_a_tensor_stay_as_they_are() -> None:
    text = "import torch\n\n\ndef f(x):\n    return torch.where(x != x, 0, x)\n"
    assert asks_by_name(text) == (text, False)


def test_under_the_setting_a_nan_is_seen_as_without_torch_compile() -> None:
    """Without the change compiled code takes the other way, and says nothing."""
    setting, text = Setting("torch._dynamo.config.capture_scalar_outputs = True"), TEXT.format("v != v")
    new = edited(setting, {"a.py": text}, "a.py")
    assert new is not None
    assert "import math\n" in new["a.py"]
    x = torch.tensor([float("nan"), 1.0])

    def compiled(source: str) -> torch.Tensor:
        names: dict[str, object] = {}
        with torch._dynamo.config.patch(capture_scalar_outputs=False):
            exec(compile(source, "a.py", "exec"), names)
            torch._dynamo.reset()
            return torch.compile(names["f"], backend="eager")(x)  # type: ignore[call-overload,no-any-return]

    alone = text.replace("import torch\n", f"import torch\n{setting.code}\n")
    assert compiled(alone)[1] == 2, "torch sees it: the change is not needed any more"
    assert compiled(new["a.py"])[1] == 0
