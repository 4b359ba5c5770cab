"""Functions that are compiled again, one for each class of cause, each beside its mended self. Needs torch."""

from __future__ import annotations

import contextlib
import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import torch
from torch import nn
from torch.overrides import TorchFunctionMode

from compiler_lens.facts.recompiles.fixes import CauseClass as C

SCALE = 2


@dataclass(frozen=True)
class Scene:
    """What to run, what must be told of it, and the same with its fix."""

    name: str
    cause: C
    subject: str
    series: str  # "8 -> 4"; a question mark where nobody told
    run: Callable[[], None]
    mended: Callable[[], None] | None  # None: the fix is to leave it


def compiled(function, **options):
    return torch.compile(function, backend="eager", **options)


# -- sizes


def plus_one(x):
    return x + 1


def with_options(x, **options):
    x = x + 1
    for value in options.values():
        x = x * value
    return x


def keywords(*, always):
    f, two = compiled(with_options), {"scale": torch.ones(3), "shift": torch.ones(3)}
    for names in ((), ("scale",), ("scale", "shift"), ("shift",)):
        f(torch.ones(3), **(two if always else {name: two[name] for name in names}))


class Head(nn.Module):
    def __init__(self, key):
        super().__init__()
        self.key = key

    def forward(self, batch):
        return batch[self.key] * 2


def heads(*, apart):
    both = [Head("a"), Head("b")]
    f = [compiled(head) for head in both] if apart else [compiled(lambda batch: [head(batch) for head in both])]
    for one in f:
        one({"a": torch.ones(3), "b": torch.ones(3)})


class Filter:
    def __init__(self, kind):
        self.kind = kind

    def run(self, x):
        return x * len(self.kind)


def filters(*, apart):
    both = [Filter("a"), Filter("bb")]
    f = [compiled(one.run) for one in both] if apart else [compiled(lambda x: [one.run(x) for one in both])]
    for one in f:
        one(torch.ones(3))


def levels(*several):
    f = compiled(lambda x, level: x * torch.exp(-level) if isinstance(level, torch.Tensor) else x * math.exp(-level))
    for level in several:
        f(torch.ones(3), level)


def sizes(*batches, dynamic=None):
    f = compiled(plus_one, dynamic=dynamic)
    for n in batches:
        f(torch.ones(n, 3))


def marked_batches():
    f = compiled(plus_one)
    for n in (8, 4, 2):
        x = torch.ones(n, 3)
        torch._dynamo.mark_dynamic(x, 0)
        f(x)


def unbacked_batches():
    f = compiled(plus_one)
    for n in (8, 4, 1):
        x = torch.ones(n, 3)
        torch._dynamo.decorators.mark_unbacked(x, 0)
        f(x)


class Encoder(nn.Module):
    def __init__(self):
        super().__init__()
        self.lin = nn.Linear(4, 4)

    def forward(self, hidden, mask=None):
        return self.lin(hidden) * (1 if mask is None else mask)


def lengths(mark):
    model = compiled(Encoder())
    for n in (5, 7, 9):
        hidden = torch.ones(2, n, 4)
        if mark:
            torch._dynamo.mark_dynamic(hidden, 1)
        model(hidden)


def vectors(**options):
    f = compiled(plus_one, **options)
    for n in (5, 7, 9):
        f(torch.ones(n))


def rows(*places, copied):
    f = compiled(plus_one, dynamic=True)
    x = torch.ones(64, 4)
    for place in places:
        f(x[place].clone() if copied else x[place])


def by_eight(x):
    return x + 1 if x.shape[0] % 8 == 0 else x - 1


def eights(*sizes):
    f = compiled(by_eight, dynamic=True)
    for n in sizes:
        f(torch.ones(n))


# -- tensors


def tensors(*calls):
    f = compiled(plus_one)
    for x in calls:
        f(x)


class Marked(torch.Tensor):
    pass


def added(x, y):
    return x + y


def pairs(*calls):
    f = compiled(added)
    for x, y in calls:
        f(x, y)


def grown_in(second):
    """Two views of one memory, of which one is changed: the first time apart, then the other from `second` on."""

    def grown(a, b):
        a.add_(1)
        return b + 1

    f = torch.compile(grown, backend="aot_eager", dynamic=True)
    for start in (20, second):
        memory = torch.ones(40)
        f(memory[:8], memory[start : start + 8])


def aliased():
    x = torch.ones(3)
    pairs((x, torch.ones(3)), (x, x))


def copied():
    x = torch.ones(3)
    pairs((x, torch.ones(3)), (x, x.clone()))


# -- arguments


def scaled(x, factor):
    return x * factor


def by_branch(x, k):
    return x * k if k > 2 else x - k


def chosen(x, mode):
    return x + 1 if mode == "train" else x - 1


def optional(x, bias):
    return x * 2 if bias is None else x + bias


def with_width(x, config):
    return x * config.width


class Small:
    width = 2


class Large:
    width = 3


def applied(x, function):
    return function(x)


def called(function, *arguments):
    f = compiled(function)
    for argument in arguments:
        f(torch.ones(3), argument)


def by_keyword():
    model = compiled(nn.Sequential(nn.ReLU()))
    model(torch.ones(3))
    model(input=torch.ones(3))


def by_position():
    model = compiled(nn.Sequential(nn.ReLU()))
    model(torch.ones(3))
    model(torch.ones(3))


# -- containers


def total(xs):
    return sum(x.sum() for x in xs)


def growing_list():
    f, xs = compiled(total), []
    for _ in range(12):
        xs.append(torch.ones(3))
        f(xs)


def total_of_stack(xs, count):
    return (xs * (torch.arange(xs.shape[0]) < count)[:, None]).sum()


def allocated_list():
    f, xs = compiled(total_of_stack), torch.zeros(12, 3)
    for i in range(12):
        xs[i] = 1
        f(xs, torch.tensor(i + 1))


class Layer(nn.Module):
    def __init__(self, index):
        super().__init__()
        self.index = index
        self.lin = nn.Linear(4, 4)

    def forward(self, x, cache):
        y = self.lin(x)
        cache[self.index] = y
        return y


@torch.no_grad()
def growing_cache():
    cache, x = {}, torch.ones(2, 4)
    for index in range(12):
        x = compiled(Layer(index))(x, cache)


@torch.no_grad()
def written_outside():
    cache, x = {}, torch.ones(2, 4)
    layer = compiled(nn.Linear(4, 4))
    for index in range(12):
        cache[index] = x = layer(x)


# -- modules


class Counter(nn.Module):
    def __init__(self):
        super().__init__()
        self.step = 0

    def forward(self, x):
        self.step += 1
        return x * self.step


class CounterInBuffer(nn.Module):
    def __init__(self):
        super().__init__()
        self.register_buffer("step", torch.tensor(0))

    def forward(self, x):
        self.step += 1
        return x * self.step


def twelve_calls(model):
    model = compiled(model)
    for _ in range(12):
        model(torch.ones(3))


class Cfg:
    scale = 2


def with_scale(x, cfg):
    return x * cfg.scale if cfg.scale < 100 else x


def objects_attribute(*, outside):
    cfg = Cfg()
    f = compiled(scaled if outside else with_scale)
    for cfg.scale in (2, 3, 4):
        f(torch.ones(3), torch.tensor(cfg.scale) if outside else cfg)


class Normed(nn.Module):
    def __init__(self):
        super().__init__()
        self.norm = nn.BatchNorm1d(3)

    def forward(self, x):
        return self.norm(x)


def train_and_eval():
    model = Normed()
    f = compiled(model)
    f(torch.ones(2, 3))
    model.eval()
    f(torch.ones(2, 3))


class Attention(nn.Module):
    def __init__(self):
        super().__init__()
        self.act = torch.relu

    def forward(self, x):
        return self.act(x)


class Holder(nn.Module):
    def __init__(self):
        super().__init__()
        self.attn = Attention()

    def forward(self, x):
        return self.attn(x)


def swapped_function():
    model = Holder()
    f = compiled(model)
    for act in (torch.relu, torch.sigmoid, torch.tanh):
        model.attn.act = act
        f(torch.ones(3))


def kept_function():
    model = Holder()
    model.attn.act = torch.tanh
    f = compiled(model)
    for _ in range(3):
        f(torch.ones(3))


def several_modules():
    for module in (nn.ReLU(), nn.Sigmoid(), nn.Tanh()):
        compiled(module)(torch.ones(3))


def one_module():
    compiled(nn.Sequential(nn.ReLU(), nn.Sigmoid(), nn.Tanh()))(torch.ones(3))


# -- what is around


def by_global(x):
    return x * SCALE


def global_changes():
    global SCALE  # noqa: PLW0603
    f = compiled(by_global)
    for value in (2, 3, 4):
        SCALE = value
        f(torch.ones(3))
    SCALE = 2


def closure_changes():
    factor = 2.0

    def by_closure(x):
        return x * factor

    f = compiled(by_closure)
    f(torch.ones(3))
    factor = 3.0
    f(torch.ones(3))


def passed_as_tensor():
    called(scaled, torch.tensor(2.0), torch.tensor(3.0), torch.tensor(4.0))


def optimizer_steps(lr):
    weight = nn.Parameter(torch.ones(3))
    optimizer = torch.optim.SGD([weight], lr=lr)
    step = compiled(optimizer.step)
    for i in range(4):
        if isinstance(lr, torch.Tensor):
            lr.fill_(0.1 / (i + 1))
        else:
            optimizer.param_groups[0]["lr"] = 0.1 / (i + 1)
        weight.grad = torch.ones(3)
        step()


def forgotten_optimizers():
    weight = nn.Parameter(torch.ones(3))
    for _ in range(3):
        optimizer = torch.optim.SGD([weight], lr=0.1)
        weight.grad = torch.ones(3)
        compiled(optimizer.step)()


def one_optimizer():
    weight = nn.Parameter(torch.ones(3))
    optimizer = torch.optim.SGD([weight], lr=0.1)
    for _ in range(3):
        weight.grad = torch.ones(3)
        compiled(optimizer.step)()


def grad_modes():
    f, x = compiled(plus_one), torch.ones(3)
    for _ in range(2):
        f(x)
        with torch.no_grad():
            f(x)


@torch.no_grad()
def one_grad_mode():
    f, x = compiled(plus_one), torch.ones(3)
    for _ in range(2):
        f(x)
        with torch.no_grad():
            f(x)


def inference_modes(*inside, no_grad=True):
    """Call a model, which holds a parameter: that says whether the call or only its input is of inference mode."""
    linear, x = nn.Linear(3, 3), torch.ones(2, 3)
    f = compiled(linear)
    for is_inside in inside:
        with torch.no_grad() if no_grad else contextlib.nullcontext(), torch.inference_mode(is_inside):
            f(x)


def made_under_inference_mode(*inside, used_inside):
    linear = nn.Linear(3, 3)
    f = compiled(linear)
    for is_inside in inside:
        with torch.inference_mode(is_inside):
            x = torch.ones(2, 3)
        with torch.inference_mode(used_inside), torch.no_grad():
            f(x)


def only_input_of_inference_mode():
    f, x = compiled(plus_one), torch.ones(3)
    with torch.no_grad():
        f(x)
    with torch.inference_mode():
        f(x)


class NothingElse(TorchFunctionMode):
    def __torch_function__(self, function, types, args=(), kwargs=None):
        return function(*args, **(kwargs or {}))


def function_modes(*modes):
    f, x = compiled(plus_one), torch.ones(3)
    for mode in modes:
        with mode:
            f(x)


def default_devices(*devices):
    f, x = compiled(plus_one), torch.ones(3)
    try:
        for device in devices:
            torch.set_default_device(device)
            f(x)
    finally:
        torch.set_default_device(None)


def autocast(*enabled):
    f, x = compiled(plus_one), torch.ones(3)
    for on in enabled:
        with torch.autocast("cpu", dtype=torch.bfloat16, enabled=on):
            f(x)


def deterministic(*modes):
    f, x = compiled(plus_one), torch.ones(3)
    try:
        for mode in modes:
            torch.use_deterministic_algorithms(mode)
            f(x)
    finally:
        torch.use_deterministic_algorithms(False)


def backends(*names):
    for name in names:
        torch.compile(plus_one, backend=name)(torch.ones(3))


ONES = torch.ones(4, 6)

# -- numbers that a module does not hold as its own attributes


@dataclass
class Progress:
    step: object = 0


class Holding(nn.Module):
    def __init__(self, start):
        super().__init__()
        self.layer = nn.Linear(3, 3)
        self.stats, self.progress, self.seen = {"calls": start}, Progress(start), [start]


class InDict(Holding):
    def forward(self, x):
        self.stats["calls"] += 1
        return self.layer(x) * self.stats["calls"]


class InObject(Holding):
    def forward(self, x):
        self.progress.step += 1
        return self.layer(x) * self.progress.step


class InList(Holding):
    def forward(self, x):
        self.seen[0] += 1
        return self.layer(x) * self.seen[0]


class NoModule:
    def __init__(self):
        self.layer, self.gain = nn.Linear(3, 3), 1.5

    def run(self, x):
        return self.layer(x) * self.gain


def gains():
    one = NoModule()
    f = compiled(one.run)
    for gain in (1.5, 2.5):
        one.gain = gain
        f(torch.ones(3))


def three_calls(module):
    f = compiled(module)
    for _ in range(3):
        f(torch.ones(3))


# -- indexes


def column(x, i):
    return x[:, i] * 2


def selected(x, i):
    return x.select(1, i) * 2


def picked(x, gains, i):
    return x * gains[i]


def indexed(function, *given):
    f = compiled(function)
    for i in (2, 3, 4):
        f(torch.ones(6, 6), *given, i)


def chosen_before():
    f = compiled(lambda x, gain: x * gain)
    for gain in torch.tensor([0.1, 0.2, 0.3]):
        f(torch.ones(6, 6), gain)


# -- what is NumPy's, and iterators


def times(x, other):
    return x * other


def others(*values, **options):
    f = compiled(times, **options)
    for value in values:
        f(torch.ones(1, 1, 1), value)


def arrays(*sizes, **options):
    others(*(np.ones(size, dtype=np.float32) for size in sizes), **options)


def added_up(x, numbers):
    for number in numbers:
        x = x + number
    return x


def iterated(*lengths):
    f = compiled(added_up)
    for length in lengths:
        f(torch.ones(3), iter(tuple(range(length))))


WIDE = np.ones((4, 4), dtype=np.float32)

SCENES = (
    Scene("batch", C.BATCH_SIZE, "x.shape[0]", "8 -> 4", lambda: sizes(8, 4, 2), marked_batches),
    Scene("batch_dynamic", C.BATCH_SIZE, "x.shape[0]", "8 -> 4", lambda: sizes(8, 4, 2), lambda: sizes(8, 4, 2, dynamic=True)),
    Scene("zero_one", C.ZERO_ONE, "x.shape[0]", "8 -> 1 -> 0", lambda: sizes(8, 1, 0, dynamic=True), unbacked_batches),
    Scene("length", C.SEQUENCE_LENGTH, "hidden.shape[1]", "5 -> 7", lambda: lengths(False), lambda: lengths(True)),
    Scene("size", C.SIZE, "x.shape[0]", "5 -> 7", vectors, lambda: vectors(dynamic=True)),
    Scene("array_size", C.SIZE, "other.shape[0]", "5 -> 7", lambda: arrays(5, 7), lambda: arrays(5, 7, dynamic=True)),
    Scene("array_zero_one", C.ZERO_ONE, "other.shape[0]", "8 -> 1", lambda: arrays(8, 1, dynamic=True), lambda: arrays(8, 2, dynamic=True)),
    Scene("array_dtype", C.DTYPE, "other.dtype", "float64 -> float32", lambda: others(np.float64(2), np.float32(2)), lambda: others(*(n.astype(np.float32) for n in (np.float64(2), np.float32(2))))),
    Scene("array_rank", C.RANK, "other.dim()", "1 -> 2", lambda: others(WIDE[0], WIDE), lambda: others(WIDE[0].reshape(1, -1), WIDE[1:2])),
    Scene("array_layout", C.STRIDE, "other.stride(0)", "4 -> 1", lambda: others(WIDE, WIDE.T), lambda: others(WIDE, np.ascontiguousarray(WIDE.T))),
    Scene("array_or_number", C.TENSOR_OR_NUMBER, "other", "Tensor -> int", lambda: others(np.int64(2), 3), lambda: others(np.asarray(2), np.asarray(3))),
    Scene("iterator", C.LIST_LENGTH, "len(list(numbers))", "2 -> 3", lambda: iterated(2, 3), lambda: iterated(3, 3)),
    Scene("in_dict", C.MODULE_ATTRIBUTE, "self.stats['calls']", "0 -> 1 -> 2", lambda: three_calls(InDict(0)), lambda: three_calls(InDict(torch.tensor(0)))),
    Scene("in_object", C.MODULE_ATTRIBUTE, "self.progress.step", "0 -> 1 -> 2", lambda: three_calls(InObject(0)), lambda: three_calls(InObject(torch.tensor(0)))),
    Scene("in_list", C.MODULE_ATTRIBUTE, "self.seen[0]", "0 -> 1 -> 2", lambda: three_calls(InList(0)), lambda: three_calls(InList(torch.tensor(0)))),
    Scene("no_module", C.MODULE_ATTRIBUTE, "self.gain", "1.5 -> 2.5", gains, None),
    Scene("column", C.INT_ARGUMENT, "i", "2 -> 3 -> 4", lambda: indexed(column), None),
    Scene("picked", C.INT_ARGUMENT, "i", "2 -> 3 -> 4", lambda: indexed(picked, [0.1, 0.2, 0.3, 0.4, 0.5]), chosen_before),
    Scene("expression", C.SHAPE_EXPRESSION, "(x.shape[0] % 8) == 0", "True -> False", lambda: eights(16, 15, 24), lambda: eights(16, 8, 24)),
    Scene("rank", C.RANK, "x.dim()", "1 -> 2", lambda: tensors(torch.ones(4), torch.ones(1, 4)), lambda: tensors(torch.ones(4).unsqueeze(0), torch.ones(1, 4))),
    Scene("stride", C.STRIDE, "x.stride(0)", "6 -> 1", lambda: tensors(ONES, torch.ones(6, 4).t()), lambda: tensors(ONES, torch.ones(6, 4).t().contiguous())),
    Scene("row", C.STORAGE_OFFSET, "x.storage_offset()", "20 -> ?", lambda: rows(5, 0, 7, copied=False), lambda: rows(5, 0, 7, copied=True)),
    Scene("dtype", C.DTYPE, "x.dtype", "float32 -> float64", lambda: tensors(ONES, ONES.double()), lambda: tensors(ONES, ONES.double().to(torch.float32))),
    Scene("device", C.DEVICE, "x.device", "cpu -> meta", lambda: tensors(ONES, ONES.to("meta")), lambda: tensors(ONES.to("meta"), ONES.to("meta"))),
    Scene("conjugate", C.DISPATCH_KEYS, "x", "plain -> Conjugate", lambda: tensors(ONES.cfloat(), ONES.cfloat().conj()), lambda: tensors(ONES.cfloat(), ONES.cfloat().conj().resolve_conj())),
    Scene("requires_grad", C.REQUIRES_GRAD, "x.requires_grad", "False -> True", lambda: tensors(ONES, ONES.clone().requires_grad_()), lambda: tensors(ONES, ONES.clone().requires_grad_().detach())),
    Scene("parameter", C.TENSOR_TYPE, "x", "Tensor -> Parameter", lambda: tensors(ONES, nn.Parameter(ONES.clone(), requires_grad=False)), lambda: tensors(ONES, nn.Parameter(ONES.clone(), requires_grad=False).as_subclass(torch.Tensor))),
    Scene("subclass", C.TENSOR_TYPE, "x", "Tensor -> Marked", lambda: tensors(ONES, ONES.as_subclass(Marked)), lambda: tensors(ONES, ONES.as_subclass(Marked).as_subclass(torch.Tensor))),
    Scene("number", C.TENSOR_OR_NUMBER, "x", "Tensor -> float", lambda: tensors(torch.tensor(2.0), 0.5), lambda: tensors(torch.tensor(2.0), torch.tensor(0.5))),
    Scene("alias", C.ALIASING, "x, y", "", aliased, copied),
    Scene("overlap", C.SHARED_MEMORY, "the memory of a, b", "apart -> overlapping", lambda: grown_in(4), lambda: grown_in(20)),
    Scene("integer", C.INT_ARGUMENT, "k", "3 -> 4 -> 2", lambda: called(by_branch, 3, 4, 2), lambda: called(scaled, *map(torch.tensor, (3, 4, 2)))),
    Scene("float", C.FLOAT_ARGUMENT, "factor", "0.5 -> 0.25", lambda: called(scaled, 0.5, 0.25, 1.5), passed_as_tensor),
    Scene("string", C.STRING_ARGUMENT, "mode", "'train' -> 'eval' -> 'fast'", lambda: called(chosen, "train", "eval", "fast"), lambda: called(chosen, "train", "train", "train")),
    Scene("none", C.BOOL_OR_NONE, "bias", "None -> Tensor", lambda: called(optional, None, torch.ones(3)), lambda: called(optional, torch.zeros(3), torch.ones(3))),
    Scene("type", C.OBJECT_TYPE, "config", "Small -> Large", lambda: called(with_width, Small(), Large()), lambda: called(with_width, Small(), Small())),
    Scene("callable", C.OBJECT_IDENTITY, "function", "a function -> builtin_function_or_method", lambda: called(applied, plus_one, torch.relu), lambda: called(applied, torch.relu, torch.relu)),
    Scene("identity", C.OBJECT_IDENTITY, "self.attn.act", "builtin_function_or_method x3", swapped_function, kept_function),
    Scene("style", C.CALL_STYLE, "arguments by position", "1 -> 0", by_keyword, by_position),
    Scene("keywords", C.KEYWORDS, "**options", "none -> scale -> scale, shift -> shift", lambda: keywords(always=False), lambda: keywords(always=True)),
    Scene("heads", C.ANOTHER_MODULE, "self.key", "'a' -> 'b'", lambda: heads(apart=True), lambda: heads(apart=False)),
    Scene("instances", C.ANOTHER_INSTANCE, "self.kind", "'a' -> 'bb'", lambda: filters(apart=True), lambda: filters(apart=False)),
    Scene("exponent", C.FLOAT_ARGUMENT, "level", "0.9 -> 0.7 -> 0.5 -> ?", lambda: levels(0.9, 0.7, 0.5, 0.3), lambda: levels(*map(torch.tensor, (0.9, 0.7, 0.5)))),
    Scene("list", C.LIST_LENGTH, "len(xs)", "1 -> 2 -> 3 -> 4 -> 5 -> 6 -> 7 -> 8 -> ?", growing_list, allocated_list),
    Scene("cache", C.DICT_KEYS, "len(cache)", "0 -> 1 -> 2 -> 3 -> 4 -> 5 -> 6 -> 7 -> ?", growing_cache, written_outside),
    Scene("counter", C.MODULE_ATTRIBUTE, "self.step", "0 -> 1 -> 2 -> 3 -> 4 -> 5 -> 6 -> 7 -> ?", lambda: twelve_calls(Counter()), lambda: twelve_calls(CounterInBuffer())),
    Scene("object", C.OBJECT_ATTRIBUTE, "cfg.scale", "2 -> 3", lambda: objects_attribute(outside=False), lambda: objects_attribute(outside=True)),
    Scene("training", C.TRAINING_MODE, "self.norm.training", "True -> False", train_and_eval, None),
    Scene("modules", C.ANOTHER_MODULE, "self", "ReLU -> Sigmoid", several_modules, one_module),
    Scene("global", C.GLOBAL, "global SCALE", "2 -> 3 -> 4", global_changes, passed_as_tensor),
    Scene("closure", C.CLOSURE, "factor", "2.0 -> 3.0", closure_changes, passed_as_tensor),
    Scene("optimizer", C.OPTIMIZER, "self.param_groups[0]['lr']", "0.1 -> 0.05", lambda: optimizer_steps(0.1), lambda: optimizer_steps(torch.tensor(0.1))),
    Scene("dead", C.DEAD_OBJECT, "self", "", forgotten_optimizers, one_optimizer),
    Scene("grad_mode", C.GRAD_MODE, "grad mode", "True -> False", grad_modes, one_grad_mode),
    Scene("inference_mode", C.INFERENCE_MODE, "inference mode", "off -> on", lambda: inference_modes(False, True), lambda: inference_modes(True, True)),
    Scene("inference_mode_after_gradients", C.INFERENCE_MODE, "inference mode", "off -> on", lambda: inference_modes(False, True, no_grad=False), lambda: inference_modes(False, False, no_grad=False)),
    Scene("inference_mode_left", C.INFERENCE_MODE, "inference mode", "on -> off", lambda: inference_modes(True, False, no_grad=False), lambda: inference_modes(True, True)),
    Scene("inference_mode_of_which", C.INFERENCE_MODE, "x", "", only_input_of_inference_mode, lambda: inference_modes(False, False)),
    Scene("made_under_inference_mode", C.INFERENCE_TENSOR, "input", "outside -> inside", lambda: made_under_inference_mode(False, True, used_inside=True), lambda: made_under_inference_mode(True, True, used_inside=True)),
    Scene("used_outside_of_inference_mode", C.INFERENCE_TENSOR, "input", "inside -> outside", lambda: made_under_inference_mode(True, False, used_inside=False), lambda: made_under_inference_mode(False, False, used_inside=False)),
    Scene("function_mode", C.TORCH_FUNCTION_MODE, "modes", "", lambda: function_modes(contextlib.nullcontext(), NothingElse()), lambda: function_modes(NothingElse(), NothingElse())),
    Scene("default_device", C.TORCH_FUNCTION_MODE, "the default device", "None -> device(type='meta')", lambda: default_devices(None, "meta"), lambda: default_devices("meta", "meta")),
    Scene("autocast", C.AUTOCAST, "autocast", "False -> True", lambda: autocast(False, True), lambda: autocast(True, True)),
    Scene("setting", C.OTHER_GLOBAL_STATE, "deterministic algorithms", "False -> True", lambda: deterministic(False, True), lambda: deterministic(True, True)),
    Scene("backend", C.BACKEND, "the backend", "eager -> aot_eager", lambda: backends("eager", "aot_eager"), lambda: backends("eager", "eager")),
)  # fmt: skip
