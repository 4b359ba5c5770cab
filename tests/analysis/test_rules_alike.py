"""A rewrite is right for every input, or says what it takes for granted: tried on many, with gradients."""

import re
from typing import NamedTuple

import pytest
import torch

from compiler_lens import Lens
from compiler_lens.facts.breaks.rewrites import Rewrite
from compiler_lens.facts.overview.explanation import explain
from tests.alike import ARGUMENTS, applied, differences, loaded

HEAD = "import random\nimport torch\nimport torch.nn.functional as F\ntorch.manual_seed(0)\n"


pytestmark = pytest.mark.usefixtures("lines_of_the_test")


def offered(text: str) -> Rewrite | None:
    """What the card of a real break offers, of `f` compiled once."""
    torch.compiler.reset()
    f = loaded(text).f
    names = f.__code__.co_varnames[: f.__code__.co_argcount]
    with Lens(strict=True) as lens:
        torch.compile(f, backend="eager")(*(ARGUMENTS[name].clone() for name in names))
    cards = explain(lens.recording).cards
    assert cards, "nothing broke: the test proves nothing"
    return cards[0].rewrite


class Excuse(NamedTuple):
    """What may differ under a condition, in which runs."""

    differs: frozenset[str]
    runs: str = ""


INTEGRAL = r"torch\.(u?int|bool)"
OTHER_DTYPES = r"torch\."
OTHER_SHAPES = r"row|element|dimension|contiguous|second"
# By the words of a condition.
EXCUSED = {
    "one shape and dtype": Excuse(
        frozenset({"dtype", "shape", "raises", "raises no more"}), f"{OTHER_DTYPES}|{OTHER_SHAPES}"
    ),
    "one shape, dtype and layout": Excuse(frozenset({"raises"}), f"{OTHER_DTYPES}|{OTHER_SHAPES}|float16"),
    "and one dtype": Excuse(frozenset({"raises", "raises no more"}), f"{OTHER_DTYPES}|{OTHER_SHAPES}"),
    "has one dimension and the tensors two": Excuse(frozenset({"raises", "raises no more"}), OTHER_SHAPES),
    "of one floating dtype": Excuse(frozenset({"raises", "raises no more", "dtype"}), OTHER_DTYPES),
    "has the shape of": Excuse(frozenset({"raises", "raises no more"}), OTHER_SHAPES),
    "keeps its shape and dtype": Excuse(frozenset({"raises"}), f"{OTHER_DTYPES}|row|element|dimension"),
    "contiguous before the loop": Excuse(frozenset({"raises"}), "every second"),
    "does not run, `t` is then a copy": Excuse(frozenset({"values"}), "changed after"),
    "the loop runs at least once": Excuse(frozenset({"gradient"}), "nan|inf|large"),
    "is of a floating dtype": Excuse(frozenset({"dtype", "raises no more"}), INTEGRAL),
    "the mask is nowhere empty": Excuse(frozenset({"raises no more"})),
    "fits int64": Excuse(frozenset({"raises no more"}), "nan|inf|no rows"),
    "is not 0": Excuse(frozenset({"raises no more"}), f"0|zeros|{INTEGRAL}"),
    "computed every time": Excuse(frozenset({"raises", "backward raises"})),
    "computed for no rows": Excuse(frozenset({"raises"}), OTHER_SHAPES),
    "computed, and written, every time": Excuse(frozenset({"raises"}), f"leaves|{INTEGRAL}"),
    "is then rounded to float32": Excuse(frozenset({"values", "arguments"}), "float64"),
    "gradients are nan": Excuse(frozenset({"nan gradient"})),
    "a gradient of zeros": Excuse(frozenset({"zeros for none"})),
    "is then a new tensor": Excuse(frozenset({"values"}), "changed after"),
    "what it meets has dimensions": Excuse(frozenset({"dtype"}), r"no dimensions of torch\."),
    "is then a tensor": Excuse(frozenset({"kind"})),
}


OFFERED = {
    "a write of a logarithm": """
def f(x):
    y = x * 2
    y[y > 1] = y[y > 1].log()
    return y
""",
    "a write of a product in place": """
def f(x):
    y = x * 2
    m = y > 1
    y[m] *= 2
    return y
""",
    "a write of an exponential": """
def f(x):
    y = x * 2
    y[y < 0] = y[y < 0].exp() * 2
    return y
""",
    "a product of the argument": """
def f(x):
    x[x < 0] *= 0.5
    return x.sum()
""",
    "a quotient of the argument": """
def f(x):
    x[x < 0] /= 2
    return x.sum()
""",
    "a write of another's logarithm": """
def f(x):
    y = torch.zeros_like(x)
    m = x > 0
    y[m] = x[m].log()
    return y
""",
    "a write of another's quotient": """
def f(x, y):
    m = x > 0
    y[m] = 1 / x[m] + 1
    return y
""",
    "a write by a mask of the caller's": """
def f(x, m):
    y = x.exp()
    y[m] = x[m] - 1
    return y
""",
    "a product of two in place": """
def f(x, y):
    m = x > 0
    x[m] *= y[m]
    return x + 0
""",
    "a write of the inverse": """
def f(x, m):
    m[x > 0] = ~m[x > 0]
    return m
""",
    "a write of a root by a mask of two": """
def f(x):
    keep = ~(x > 1) & (x < 50)
    x[keep] = x[keep].clamp(min=0).sqrt()
    return x
""",
    "a write of a square": """
def f(x):
    x[x > 1] = x[x > 1] ** 2
    return x
""",
    "a difference in place": """
def f(x):
    x[x > 1] -= 1
    return x
""",
    "a write with a parameter of the module": """
class M(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.scale = torch.nn.Parameter(torch.tensor(2.0))
    def forward(self, x):
        x = x.clone()
        m = x > 0
        x[m] = x[m] * self.scale
        return x
model = M()
def f(x):
    return model(x)
""",
    "a sum of selected": """
def f(x):
    return x[x > 0].sum()
""",
    "a mean of selected": """
def f(x):
    m = x > 0
    return x / x[m].mean()
""",
    "a largest of selected": """
def f(x):
    return x[x < 100].max()
""",
    "a sum of selected logarithms": """
def f(x):
    return x.log()[x > 0].sum()
""",
    "a sum by another's mask": """
def f(x, y):
    return x[y > 0].sum()
""",
    "a branch": """
def f(x):
    if x.sum() > 0:
        y = x + 1
    else:
        y = x - 1
    return y * 2
""",
    "a message and a branch": """
def f(x):
    if x.max() > 1:
        print(f"large: {x.max().item():.1f}")
        x = x.clamp(-1, 1)
    return x * 2
""",
    "a branch by torch.equal": """
def f(x, y):
    if torch.equal(x, y):
        x = x + y
    return x * 2
""",
    "a branch by torch.allclose": """
def f(x, y):
    if torch.allclose(x, y.abs()):
        x = x + 1
    return x * 2
""",
    "a branch that returns the argument": """
def f(x):
    if x.sum() > 0:
        x = x + 1
    return x
""",
    "a branch in place": """
def f(x):
    if x.sum() > 0:
        x += 1
    return x * 2
""",
    "a branch in place by a number that is no float32": """
def f(x):
    if x.sum() > 0:
        x *= 0.1
    return x * 2
""",
    "a branch by a number": """
def f(x, t):
    if t > 0:
        x = x + 1
    return x * 2
""",
    "a branch by item": """
def f(x, t):
    if t.item() > 0:
        x = x + 1
    return x * 2
""",
    "a branch by a bare number": """
def f(x, t):
    if t:
        x = x + 1
    return x * 2
""",
    "a branch by a comparison of int": """
def f(x):
    if int(x.max()) > 3:
        x = x + 1
    return x * 2
""",
    "a branch by int": """
def f(x):
    if int(x.mean()):
        x = x + 1
    return x * 2
""",
    "a branch by item and a number that no dtype has": """
def f(x, t):
    if t.item() > 0.1:
        x = x + 1
    return x * 2
""",
    "a branch with a root": """
def f(x, on):
    y = x.sqrt() if on.any() else x * 2
    return y
""",
    "a branch with a quotient": """
def f(x, on):
    if on:
        y = 1 / x
    else:
        y = x + 1
    return y
""",
    "a branch that uses another": """
def f(x, y, on):
    if on:
        x = x + y
    return x * 2
""",
    "a branch with an exponential": """
def f(x, on):
    if on:
        y = x.exp()
    else:
        y = x + 1
    return y
""",
    "a branch with what is not finite before": """
def f(x, y):
    z = y.log()
    return x + z if z.sum() > 0 else x + 1
""",
    "numbers": """
def f(x):
    if x.sum() > 0:
        scale = 2.0
    else:
        scale = 0.1
    return x * scale
""",
    "whole numbers": """
def f(x):
    sign = 1 if x.sum() > 0 else -1
    return x * sign
""",
    "a number that float16 has none of": """
def f(x):
    if x.sum() > 0:
        scale = 100000.0
    else:
        scale = 0.5
    return x * scale
""",
    "a number in place of a tensor": """
def f(x):
    y = x.sum() if x.max() > 0 else 0.0
    return y
""",
    "a chain": """
def f(x):
    if x.sum() > 5:
        y = x + 1
    elif x.sum() < -5:
        y = x.exp()
    else:
        y = x
    return y
""",
    "a test of parts": """
def f(x):
    if 0 < x.sum() < 20 and not x.min() < 0:
        x = x * 2
    return x * 3
""",
    "two returns": """
def f(x):
    if x.sum():
        return x + 1
    return x
""",
    "a test of two": """
def f(x, t):
    if x.sum() > 0 and t > 0:
        return x + 1
    return x - 1
""",
    "a truth": """
def f(x):
    return (x > 0).any() and (x < 0).any()
""",
    "a branch of calls": """
layer = torch.nn.Linear(3, 3)
def f(x):
    z = x * 2
    if z.sum() > 0:
        x = layer(x) + z
    return x
""",
    "a root above a number": """
def f(x):
    loss = (x * x).sum() * 1
    if loss > 1:
        loss = loss.sqrt()
    return loss
""",
    "a quotient by a norm": """
def f(x):
    norm = x.sum()
    if norm > 1.0:
        x = x / norm
    return x * 2
""",
    "a branch by what is finite": """
def f(x):
    if x.isfinite().all():
        y = x * x
    else:
        y = x * 0
    return y
""",
    "a branch by what is finite, with a weight": """
def f(x, w):
    if x.isfinite().all():
        y = x * w
    else:
        y = x + 1
    return y
""",
    "a test with a quotient of numbers": """
def f(x, t):
    if x.sum().item() / t.item() > 1:
        x = x + 1
    return x * 2
""",
    "a branch whose result is kept": """
state = {}
def f(x):
    h = x
    if x.sum() > 0:
        h = x * 2
    state["h"] = h
    return x + 1, h
""",
    "a branch of a view": """
def f(x):
    h = x.view(-1)
    if x.sum() > 0:
        h = h * 2
    return h
""",
    "a branch before a write in place": """
def f(x):
    h = x * 2
    if x.sum() > 0:
        h = h * 2
    h += 1
    return h
""",
    "a check alone": """
def f(x):
    m = x > 3
    if m.any():
        x = x.masked_fill(m, 0.5)
    return x
""",
    "a check alone, by a number of the module": """
low = -1.0
def f(x, m):
    if m.any():
        x = x.masked_fill(m, low)
    return x * 2
""",
    "a check alone, in place": """
def f(x, m):
    if m.any():
        x.masked_fill_(m, 2.0)
    return x * 2
""",
    "a check alone, of what backward needs": """
def f(x):
    y = x.sigmoid()
    m = x > 3.5
    if m.any():
        y[m] = 0.0
    return y
""",
    "a write in a branch": """
def f(x):
    if x.sum() > 0:
        x[x < 1] = 1
    return x * 2
""",
    "an error": """
def f(x):
    if x.isnan().any():
        raise ValueError("nan")
    return x + 1
""",
    "an assertion": """
def f(x):
    assert x.sum() > -1e9, f"bad: {x}"
    return x + 1
""",
    "an error unless": """
def f(x):
    if not x.isfinite().all():
        raise ValueError
    return x + 1
""",
    "a loop that ends": """
def f(x):
    for i in range(5):
        x = x + i
        if x.sum() > 12:
            break
    return x
""",
    "a loop with two that ends": """
def f(x):
    y = x
    for i in range(5):
        x = x + i
        if x.sum() > 12:
            break
        y = y - x
    return y
""",
    "a loop of squares": """
def f(x):
    for i in range(5):
        x = x * x
        if x.sum() > 12:
            break
    return x
""",
}

OFFERED |= {
    "a loop that goes on where nothing is true": """
def f(x, y):
    for k in range(3):
        m = y > k
        if not m.any():
            continue
        x[m] = x[m] * 2
    return x * 1
""",
    "a loop that goes on, and fills": """
def f(x, y):
    for k in range(3):
        m = y > k
        if m.sum() == 0:
            continue
        x[m] = 0.5
        y.masked_fill_(m, 2.0)
    return x * y
""",
    "a loop over experts": """
experts = torch.nn.ModuleList([torch.nn.Linear(3, 3) for _ in range(2)])
def f(x):
    out = x * 0
    choice = (x.sum(1) > 0).long()
    for k in range(2):
        chosen = choice == k
        if not chosen.any():
            continue
        out[chosen] = experts[k](x[chosen])
    return out
""",
    "a loop over experts by their rows": """
experts = torch.nn.ModuleList([torch.nn.Linear(3, 3) for _ in range(2)])
def f(x):
    out = x * 0
    choice = (x.sum(1) > 0).long()
    for k in range(2):
        chosen = choice == k
        if chosen.any():
            rows = torch.where(chosen)[0]
            h = experts[k](x[rows])
            out.index_add_(0, rows, h * 2)
    return out
""",
    "a count before a fill": """
def f(x):
    m = x > 3
    n = m.sum().item()
    if n > 0:
        x[m] = 0.5
    return x * 2
""",
    "a count, and what comes between": """
def f(x, y):
    for k in range(3):
        m = y > k
        n = int(m.sum())
        z = x * 2
        if n == 0:
            continue
        x[m] += 1
    return x * z
""",
    "a count before a branch": """
def f(x):
    n = (x > 0).sum().item()
    if n > 3:
        y = x + 1
    else:
        y = x - 1
    return y
""",
    "a flag before a branch": """
def f(x):
    big = bool((x > 3).any())
    if big:
        x = x + 1
    return x * 2
""",
    "a number of bools": """
def f(x, w):
    if int((x > 3).any()) + int((w > 0).any()) == 1:
        x = x + 1
    return x * 2
""",
    "rows of itself": """
def f(x):
    chosen = x.sum(1) > 0
    out = x * 1
    i = torch.where(chosen)[0]
    out[i] = out[i] ** 2
    return out
""",
    "rows added that are their own product": """
def f(x):
    chosen = x.sum(1) > 0
    out = torch.ones_like(x)
    (i,) = torch.where(chosen)
    out[i] += x[i] * out[i]
    return out
""",
    "rows in proportion": """
def f(x):
    chosen = x.sum(1) > 0
    out = torch.zeros_like(x)
    i = torch.where(chosen)[0]
    out.index_add_(0, i, x[i] / x[i].norm(dim=-1, keepdim=True))
    return out
""",
    "rows of an expert": """
layer = torch.nn.Linear(3, 3)
def f(x):
    out = torch.zeros_like(x)
    choice = (x.sum(1) > 0).long()
    for e in range(3):
        i = torch.where(choice == e)[0]
        if i.numel() == 0:
            continue
        out.index_add_(0, i, layer(x[i]) * 2)
    return out
""",
    "one of two, and more of it": """
def f(x, y):
    z = (x if x.sum() > y.sum() else y).abs()
    return z
""",
    "two numbers before a branch": """
def f(x):
    n = int(x.sum())
    if n > 2 and x.min() < 0:
        x = x + 1
    return x * 2
""",
    "two names": """
def f(x):
    z = x * 2
    if x.sum() > 0:
        x = z
        z = x + 1
    return x, z
""",
    "a parameter of a module": """
class M(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.scale = torch.nn.Parameter(torch.tensor(2.0))
    def forward(self, x):
        if self.scale > 0:
            x = x * self.scale
        return x
model = M()
def f(x):
    return model(x)
""",
    "rows in a list": """
def f(x):
    out = []
    for i in range(2):
        y = x[i]
        if y.sum() > 0:
            y = y * 2
        out.append(y)
    return torch.stack(out)
""",
    "a factor": """
def f(x):
    return x * (2.0 if x.sum() > 0 else 0.5)
""",
    "an error by two numbers": """
def f(x):
    if x.max().item() > 100 or x.min().item() < -100:
        raise ValueError("no")
    return x * 2
""",
    "a smallest of selected": """
def f(x):
    v = x.abs()
    return v[v > 1].min()
""",
    "a loop that a number ends": """
def f(x, t):
    t = t + 0
    while t < 3:
        t = t + 1
        x = x * 2
    return x * 1, t * 1
""",
    "a loop that gives what it was given": """
def f(t):
    while t < 0:
        t = t + 1
    return t
""",
    "a difference before a product": """
def f(x, t):
    if (x.sum() - t).item() * 2 > 3:
        x = x + 1
    return x * 2
""",
}


SURE = {"a write of a product in place", "a difference in place", "a sum of selected"}


@pytest.mark.parametrize("name", OFFERED)
def test_a_rewrite_is_right_for_every_input_or_says_for_which(name):
    text = HEAD + OFFERED[name]
    found = offered(text)
    assert found is not None
    excuses = [excuse for words, excuse in EXCUSED.items() if words in found.needs]
    differing = differences(loaded(text), loaded(applied(text, found)))
    unsaid = [
        (what, run)
        for what, several in differing.items()
        for run in several
        if not any(what in excuse.differs and re.search(excuse.runs, run) for excuse in excuses)
    ]
    assert not unsaid, found
    assert (name in SURE) == (not found.needs)


REFUSED = {
    "a side that is written in place later": """
def f(x):
    y = x if x.sum() > 0 else x * 2
    y.add_(1)
    return y * 2
""",
    "an argument that is added to later": """
def f(x):
    if x.sum() > 0:
        x = x + 1
    x += 1
    return x * 2
""",
    "an argument that is changed in place by either side": """
def f(x):
    if x.sum() > 0:
        x *= 2
    else:
        x -= 2
    return x * 2
""",
    "a power in place": """
def f(x):
    if x.sum() > 0:
        x **= 2
    return x * 2
""",
    "a product of another dtype": """
def f(x):
    return x.half() * 2 if x.sum() > 0 else x * 2
""",
    "another dtype": """
def f(x):
    return x.half() if x.sum() > 0 else x
""",
    "a number that is returned": """
def f(x):
    if x.sum() > 0:
        scale = 2.0
    else:
        scale = 0.1
    return x, scale
""",
    "numbers of two types": """
def f(x):
    sign = 1.5 if x.sum() > 0 else 2
    return x * sign
""",
    "numbers of two types, one of them a name's": """
def f(x):
    k = 2
    if x.sum() > 0:
        scale = -k
    else:
        scale = 0.5
    return x * scale
""",
    "a factor of two types": """
def f(x):
    return x * (2 if x.sum() > 0 else 0.5)
""",
    "a chain of numbers of two types": """
def f(x):
    if x.sum() > 5:
        s = 1
    elif x.sum() < -5:
        s = 2.0
    else:
        s = 3
    return x * s
""",
    "a number that is a size": """
def f(x):
    if x.sum() > 0:
        n = 2
    else:
        n = 1
    return x[:n]
""",
    "a sum, or all": """
def f(x):
    y = x.sum() if x.max() > 0 else x
    return y * 2
""",
    "a transposed one, or not": """
def f(x):
    y = x.t() if x.sum() > 0 else x
    return y * 2
""",
    "a row, or all": """
def f(x):
    y = x[:1] if x.sum() > 0 else x
    return y * 2
""",
    "an argument that is changed in place by calls": """
layer = torch.nn.Linear(3, 3)
def f(x):
    if x.sum() > 0:
        x += layer(x)
    return x * 2
""",
    "what has two names": """
def f(x):
    h = x * 2
    g = h
    if x.sum() > 0:
        h = h * 2
    h += 1
    return h, g
""",
    "an argument that a loop changes in place": """
def f(x):
    for i in range(5):
        x += i
        if x.sum() > 12:
            break
    return x * 2
""",
    "an argument that an endless loop changes in place": """
def f(x):
    while x.sum() < 12:
        x += 3
    return x * 2
""",
}

REFUSED["a fill with what may be None"] = """
def f(x, m):
    return g(x, m, 0.5)

def g(x, m, value=None):
    if m.any():
        x = x.masked_fill(m, value)
    return x * 2
"""
REFUSED["a fill of what is written in place later"] = """
def f(x, m):
    if m.any():
        x = x.masked_fill(m, 0.5)
    x += 1
    return x * 2
"""

REFUSED |= {
    "a loop that goes on, and counts": """
def f(x, y):
    n = 0
    for k in range(3):
        m = y > k
        if not m.any():
            continue
        x[m] = 0.5
        n += 1
    return x * n
""",
    "a loop that goes on, and keeps a name": """
def f(x, y):
    last = x
    for k in range(3):
        m = y > k
        if not m.any():
            continue
        last = x[m]
        x[m] = 0.5
    return x, last
""",
    "a loop that goes on where another mask was": """
def f(x, y):
    for k in range(3):
        m = y > k
        some = m.any()
        m = x > k
        if not some:
            continue
        x[m] = 0.5
    return x
""",
    "a largest of the chosen": """
def f(x, y):
    for k in range(3):
        m = y > k
        if not m.any():
            continue
        x[m] = x[m].max()
    return x
""",
    "numbers as an index": """
def f(x, m):
    return g(x, m.long())
def g(x, k):
    if k.any():
        x[k] = 0.0
    return x
""",
    "a count of what is another by then": """
def f(x):
    m = x > 3
    n = m.sum().item()
    m = ~m
    if n > 0:
        x[m] = 0.5
    return x * 2
""",
    "one of two that is written in place": """
def f(x, y):
    return (x if x.sum() > y.sum() else y).add_(1)
""",
    "what another name is a view of that is written later": """
def f(x):
    h = torch.relu(x)
    g = h.view(-1)
    if x.sum() > 0:
        h = h + 1
    g += 1
    return h
""",
    "a dimension": """
def f(x):
    return x.sum(0 if x.sum() > 0 else 1)
""",
    "a number that is returned at once": """
def f(x):
    return 1 if x.sum() > 0 else -1
""",
    "a count that is returned": """
def f(x):
    m = x > 3
    n = m.sum().item()
    if n > 0:
        x[m] = 0.5
    return x, n
""",
}


@torch._dynamo.config.patch(capture_scalar_outputs=True)
def test_a_branch_on_a_number_in_the_graph_asks_the_tensor():
    text = HEAD + OFFERED["a count before a branch"]
    found = offered(text)
    assert found.after == ("y = torch.where((x > 0).sum() > 3, x + 1, x - 1)",)
    assert differences(loaded(text), loaded(applied(text, found))).keys() <= {"raises"}


OF_SIZES = {
    "a size": """
def f(x):
    y = x[x > 0]
    if y.shape[0] > 2:
        x = x + 1
    return x * 2
""",
    "sizes with names": """
def f(x):
    y = x.nonzero()
    rows, _ = y.shape
    return x + 1 if rows > 2 else x - 1
""",
}


@pytest.mark.parametrize("source", OF_SIZES.values(), ids=OF_SIZES)
@torch._dynamo.config.patch(capture_dynamic_output_shape_ops=True)
def test_a_size_that_decides_is_no_tensor(source):
    assert offered(HEAD + source) is None


def test_a_size_after_a_tensors_test_is_no_tensor():
    chain = """
def f(x, y):
    if x.sum() > 0:
        z = x + 2
    elif y.numel() > 100:
        z = x + 1
    else:
        z = x + 3
    return z
"""
    assert offered(HEAD + chain) is None
    found = offered(HEAD + chain.replace("y.numel() > 100", "y.sum() > y.numel()"))
    assert found.after == ("z = torch.where(x.sum() > 0, x + 2, torch.where(y.sum() > y.numel(), x + 1, x + 3))",)


@pytest.mark.parametrize("source", REFUSED.values(), ids=REFUSED)
def test_what_is_likely_wrong_is_not_offered(source):
    assert offered(HEAD + source) is None


def test_of_what_is_not_contiguous_a_loop_is_the_error_that_is_said():
    text = f"{HEAD}def f(x):\n    while x.sum() < 12:\n        x = x + 3\n    return x\n"
    found = offered(text)
    assert "`x` contiguous before the loop, else it is an error" in found.needs
    new, x = loaded(applied(text, found)).f, ARGUMENTS["x"]
    assert new(x).sum() >= 12
    with pytest.raises(torch._dynamo.exc.UncapturedHigherOrderOpError):
        new(x.repeat(1, 2)[:, ::2])
