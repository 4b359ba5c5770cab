"""One case per remedy, named after it: code that breaks, and the same in the spirit of the remedy's `after`.

`config` is set for both. `answer` says what eager gives, where the broken function cannot run without the compiler.
`matters` takes out of a result what has to be the same.
"""

# What breaks is often what a linter would not have either.
# ruff: noqa: FURB192, LOG015, SIM210, UP032, N801, N805, N812, NPY002, PTH110, PTH123, RUF012, T100

import contextlib
import contextvars
import copy
import decimal
import hashlib
import importlib
import json
import logging
import math
import os
import queue
import random
import sys
import threading
import time
import warnings
import weakref
import zlib

import numpy as np
import torch
import torch.nn.functional as F
from torch import nn
from torch.nn.utils.rnn import pack_padded_sequence
from torch.utils.checkpoint import checkpoint
from tqdm import tqdm

ALL = ("2.11", "2.13", "2.15")


class Case:
    versions = ALL  # where it breaks for the reason that the remedy is about
    config = {}
    calls = 1
    backend = "eager"
    effect = False  # the remedy is about what followed from the root cause

    def inputs():
        return (torch.linspace(-1, 1, 12).reshape(3, 4),)

    def matters(result):
        return result


class NeedsGrad(Case):
    def inputs():
        return (torch.linspace(-1, 1, 12).reshape(3, 4).requires_grad_(),)


linear = nn.Linear(4, 4)

# -- values


class mask_write(Case):
    backend = "aot_eager"  # it is the gradient that has no known size

    def inputs():
        return (torch.linspace(-1, 1, 8).reshape(2, 4).requires_grad_(), torch.tensor([False, True, True]))

    def broken(x, mask):
        y = torch.ones(3, 4)
        y[mask] = x * 2
        return y

    def mended(x, mask):
        return torch.ones(3, 4).masked_scatter(mask[:, None], x * 2)


class branch_on_tensor(Case):
    def broken(x):
        if x.sum() > 0:
            return x + 1
        return x - 1

    def mended(x):
        return torch.where(x.sum() > 0, x + 1, x - 1)


class assert_on_tensor(Case):
    def broken(x):
        assert x.sum() < 100, f"bad sum {x.sum()}"
        return x + 1

    def mended(x):
        assert x.sum() < 100, "bad sum"
        return x + 1


class while_on_tensor(Case):
    def broken(x):
        while x.sum() < 10:
            x = x + 1
        return x

    def mended(x):
        for _ in range(5):
            x = torch.where(x.sum() < 10, x + 1, x)
        return x


class branch_on_random(Case):
    def inputs():
        random.seed(3)
        return (torch.ones(3),)

    def broken(x):
        return x + 1 if random.randint(0, 9) > 4 else x - 1

    def mended_inputs():
        random.seed(3)
        return torch.ones(3), torch.tensor(random.randint(0, 9))

    def mended(x, drawn):
        return torch.where(drawn > 4, x + 1, x - 1)


class check_that_stops(Case):
    def broken(x):
        for _ in range(5):
            x = torch.where(x < 10, x * 2, x)
            if (x >= 10).all():
                break
        return x

    def mended(x):
        for _ in range(5):
            x = torch.where(x < 10, x * 2, x)
        return x


class branch_that_tells(Case):
    def broken(x):
        size = x.abs().mean()
        if size > 9:
            print("stopped")
            return None
        return x * 2

    def mended(x):
        return x * 2, x.detach().abs().mean()

    def matters(result):
        return result[0] if isinstance(result, tuple) else result


class Tally:
    rounds = 0


class Centred(nn.Module):
    def __init__(self):
        super().__init__()
        self.register_buffer("initialized", torch.tensor(False))
        self.register_buffer("mean", torch.zeros(4))

    def initialize(self, x):
        self.mean.copy_(x.detach().mean(0))
        self.initialized.fill_(True)
        return self


class set_up_once(Case):
    def inputs():
        return Centred(), *Case.inputs()

    def broken(net, x):
        if not net.initialized:
            net.mean.copy_(x.detach().mean(0))
            net.initialized.fill_(True)
        return x - net.mean

    def mended_inputs():
        (x,) = Case.inputs()
        return Centred().initialize(x), x

    def mended(net, x):
        return x - net.mean


class branch_that_changes(Case):
    def inputs():
        return Centred(), *Case.inputs()

    def broken(net, x):
        if x.abs().sum() > 1:
            net.mean.copy_(x.detach().mean(0))
        return x * 2

    def mended(net, x):
        is_new, mean = x.abs().sum() > 1, x.detach().mean(0)
        return x * 2 + 0 * (mean * is_new)


class branch_that_counts(Case):
    def broken(x):
        if x.sum() > 9:
            Tally.rounds += 1
        return x * 2

    def mended(x):
        counter = {"rounds": 0}
        counter["rounds"] = counter["rounds"] + (x.sum() > 9)
        return x * 2


class round_that_is_counted(Case):
    def broken(x):
        y = x
        skipped = 0
        for row in x:
            if row.sum() < 0:
                skipped += 1
                continue
            y = y + row
        return y, torch.tensor(skipped)

    def mended(x):
        y, skipped = x, 0
        for row in x:
            skips = row.sum() < 0
            skipped = skipped + skips
            y = torch.where(skips, y, y + row)
        return y, skipped


class round_that_is_told(Case):
    def broken(x):
        y = x
        for row in x:
            if row.sum() < 0:
                print("skipped")
                continue
            y = y + row
        return y

    def mended(x):
        y, sums = x, []
        for row in x:
            sums.append(row.sum())
            y = torch.where(sums[-1] < 0, y, y + row)
        return y, torch.stack(sums).detach()

    def matters(result):
        return result[0] if isinstance(result, tuple) else result


class truth_of_tensors(Case):
    versions = ("2.13", "2.15")  # 2.11 does not say where in the line

    def broken(x):
        inside = (x > -9).all() and (x < 9).all()
        return torch.where(inside, x, x + 1)

    def mended(x):
        return torch.where((x > -9).all() & (x < 9).all(), x, x + 1)


class member_of_tensor(Case):
    versions = ("2.13", "2.15")

    def broken(x):
        y = x * 2
        return y if 0.0 in y else y + 1

    def mended(x):
        y = x * 2
        return torch.where((y == 0.0).any(), y, y + 1)


class bounds_of_slice(Case):
    versions = ("2.13", "2.15")

    def broken(x):
        return x[:, : (x > 9).sum() + 1].sum(1)

    def mended(x):
        return torch.where(torch.arange(x.shape[1]) < (x > 9).sum() + 1, x, 0).sum(1)


class sizes_from_tensor(Case):
    versions = ("2.13", "2.15")

    def broken(x):
        counts = torch.stack([(x > 9).sum(), x.shape[0] - (x > 9).sum()])
        first, second = torch.split(x, counts.tolist())
        return torch.cat([first + 1, second * 2])

    def mended(x):
        mine = (torch.arange(x.shape[0]) < (x > 9).sum()).unsqueeze(-1)
        return torch.where(mine, x + 1, x * 2)


class looked_up_in_python(Case):
    def inputs():
        return (torch.tensor([0, 2, 1]),)

    def broken(ids):
        prices = {0: 1.0, 1: 2.0, 2: 4.0}
        return torch.tensor([prices[i] for i in ids.tolist()]).view(ids.shape)

    def mended(ids):
        return torch.tensor([1.0, 2.0, 4.0])[ids]


class loop_over_numbers(Case):
    def inputs():
        return torch.ones(2, 8), torch.tensor([[0, 2, 1, 2], [5, 3, 3, 0]])

    def broken(y, ids):
        y = y.clone()
        for row, tokens in enumerate(ids.tolist()):
            y[row, tokens] = y[row, tokens] / 2
        return y

    def mended(y, ids):
        return y.scatter(1, ids, y.gather(1, ids) / 2)


class test_of_drawn_number(Case):
    versions = ("2.13", "2.15")

    def inputs():
        np.random.seed(3)
        return (torch.ones(3),)

    def broken(x):
        return x + 1 if np.random.uniform(0, 1) > 0.5 else x - 1

    def mended_inputs():
        np.random.seed(3)
        return torch.ones(3), torch.tensor(np.random.uniform(0, 1) > 0.5)

    def mended(x, drawn):
        return torch.where(drawn, x + 1, x - 1)

    def matters(result):
        return result.shape


class not_of_tensor(Case):
    versions = ("2.13", "2.15")

    def broken(x):
        empty = not (x > 9).any()
        return torch.zeros_like(x) if empty else x

    def mended(x):
        return torch.where(~(x > 9).any(), torch.zeros_like(x), x)


class branch_on_item(Case):
    def broken(x):
        n = x.sum().item()
        y = x * 2
        if n > 3:
            y = y + 1
        return y

    def mended(x):
        y = x * 2
        return torch.where(x.sum() > 3, y + 1, y)


class layer_left_out(Case):
    def broken(x):
        if torch.rand(1).item() < 0.0:
            return x
        return x + linear(x)

    def mended(x):
        return torch.where(torch.rand(()) < 0.0, x, x + linear(x))


class loop_on_item(Case):
    def broken(x):
        n = int((x > 0).sum())
        for i in range(n):
            x = x + i
        return x

    def mended(x):
        n = (x > 0).sum()
        for i in range(x.numel()):
            x = torch.where(i < n, x + i, x)
        return x


class key_from_tensor(Case):
    def broken(x):
        scales = {0: 1.0, 1: 0.5}
        chosen = int((x > 0).any())
        return x * scales[chosen]

    def mended(x):
        return x * torch.tensor([1.0, 0.5])[(x > 0).any().long()[None]]


class number_in_text(Case):
    versions = ("2.13", "2.15")

    def broken(x):
        scales = {"t0": 1.0, "t1": 2.0}
        return x * scales[f"t{(x > 9).any().long().item()}"]

    def mended(x):
        return x * torch.tensor([1.0, 2.0])[(x > 9).any().long()[None]]


class number_in_f_string(Case):
    versions = ("2.13", "2.15")
    config = {"assume_static_by_default": False}

    def inputs():
        return (torch.linspace(-1, 1, 12).reshape(3, 4), 5)

    def broken(x, rows):
        return x * rows, f"{rows:>4d} rows"

    def mended(x, rows):
        return x * rows, "{:>4d} rows".format(rows)


class branch_on_number(Case):
    config = {"capture_scalar_outputs": True}

    def broken(x):
        n = x.sum().item()
        return x + 1 if n > 3 else x - 1

    def mended(x):
        return torch.where(x.sum() > 3, x + 1, x - 1)


class item(Case):
    def broken(x):
        return x * x.sum().item()

    def mended(x):
        return x * x.sum().detach()


class numbers_from_tensor(Case):
    def broken(x):
        sizes = (x > 0).sum(1).tolist()
        return x + sizes[0]

    def mended(x):
        return x + (x > 0).sum(1)[0]


class numbers_from_tensor_2(Case):
    def inputs():
        return (torch.linspace(1, 2, 12).reshape(3, 4),)

    def broken(x):
        return x * math.sqrt(x.sum())

    def mended(x):
        return x * torch.sqrt(x.sum().detach())


class compare_tensors(Case):
    def broken(x):
        return x if torch.equal(x, x * 2) else x + 1

    def mended(x):
        return torch.where((x == x * 2).all(), x, x + 1)


class tolist_of_floats(Case):
    def broken(x):
        return x * x.sum(1).tolist()[0]

    def mended(x):
        return x * x.sum(1)[0].detach()


class range_of_tensor(Case):
    versions = ("2.11", "2.13")  # 2.15 asks for the number first: item

    def broken(x):
        for i in range((x[:, 0] > 0).sum()):
            x = x + i
        return x

    def mended(x):
        n = (x[:, 0] > 0).sum()
        for i in range(x.shape[0]):
            x = torch.where(i < n, x + i, x)
        return x


class index_list_with_tensor(Case):
    versions = ("2.11",)  # later ones ask for the number first: item

    def broken(x):
        return [x, x * 2][(x.sum() > 0).long()]

    def mended(x):
        return torch.where(x.sum() > 0, x * 2, x)


class sort_tensors(Case):
    def broken(x):
        return sorted([x.sum(), x.mean()])[0] + 1

    def mended(x):
        return torch.stack([x.sum(), x.mean()]).min() + 1


class text_of_tensor(Case):
    def broken(x):
        return x + 1, str(x.sum())

    def mended(x):
        return x + 1, x.sum()

    def matters(result):
        return result[0], str(result[1])


# -- sizes


class size_from_mask(Case):
    def broken(x):
        return x[x > 0].sum()

    def mended(x):
        return torch.where(x > 0, x, 0).sum()


class repeat_interleave(Case):
    def broken(x):
        return x.repeat_interleave(torch.tensor([1, 2, 1]), dim=0) + 1

    def mended(x):
        return x.repeat_interleave(torch.tensor([1, 2, 1]), dim=0, output_size=4) + 1


class bincount(Case):
    def inputs():
        return (torch.tensor([0, 2, 2, 1]),)

    def broken(experts):
        return torch.bincount(experts) + 1

    def mended(experts):
        return experts.new_zeros(3).index_add(0, experts, torch.ones_like(experts)) + 1


class size_from_data(Case):
    def broken(x):
        return torch.unique(x).sum()

    def mended(x):
        return x.sum()


class one_hot(Case):
    def broken(x):
        return F.one_hot((x > 0).long())

    def mended(x):
        return F.one_hot((x > 0).long(), num_classes=2)


class resize(Case):
    def broken(x):
        y = x * 2
        y.resize_(6)
        return y

    def mended(x):
        return (x * 2).flatten()[:6]


class out_argument(Case):
    def broken(x):
        buffer = torch.empty(0)
        torch.add(x, 1, out=buffer)
        return buffer

    def mended(x):
        return torch.add(x, 1)


# -- printing, clocks, files

LOGGER = logging.getLogger("remedies")


class reordered_log(Case):
    config = {"reorderable_logging_functions": {print}, "capture_scalar_outputs": True}

    def broken(x):
        y = x + 1
        print("mean", y.mean().item())
        return y * 2

    def mended(x):
        y = x + 1
        print("mean", y.mean())
        return y * 2


class print_(Case):
    def broken(x):
        y = x + 1
        print(y.shape)
        return y * 2

    def mended(x):
        y = x + 1
        if not torch.compiler.is_compiling():
            print(y.shape)
        return y * 2


class print_2(Case):
    def broken(x):
        y = x + 1
        print(y.sum())
        return y * 2

    def mended(x):
        return (x + 1) * 2


class logging_(Case):
    def broken(x):
        y = x + 1
        LOGGER.info("shape %s", y.shape)
        return y * 2

    def mended(x):
        y = x + 1
        if not torch.compiler.is_compiling():
            LOGGER.info("shape %s", y.shape)
        return y * 2


class logging_2(Case):
    def broken(x):
        y = x + 1
        logging.info("shape")
        return y * 2

    def mended(x):
        y = x + 1
        if not torch.compiler.is_compiling():
            logging.info("shape")
        return y * 2


class warn(Case):
    def broken(x):
        y = x + 1
        warnings.warn("slow path", stacklevel=2)
        return y * 2

    def mended(x):
        y = x + 1
        if not torch.compiler.is_compiling():
            warnings.warn("slow path", stacklevel=2)
        return y * 2


class warning_filters(Case):
    def broken(x):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            return x + 1

    def mended(x):
        return x + 1


class clock(Case):
    def broken(x):
        start = time.perf_counter()
        return x + 1, time.perf_counter() - start

    def mended(x):
        return x + 1, 0.0

    def matters(result):
        return result[0]


class files(Case):
    def broken(x):
        with open(os.devnull, "w") as file:
            file.write("step")
        return x + 1

    def mended(x):
        return x + 1


class torch_save(Case):
    def broken(x):
        y = x + 1
        torch.save(y, os.devnull)
        return y * 2

    def mended(x):
        return (x + 1) * 2


class system_call(Case):
    def broken(x):
        return x + 1 if os.path.exists(os.sep) else x

    FOUND = os.path.exists(os.sep)

    def mended(x):
        return x + 1 if system_call.FOUND else x


class waiting_for_input(Case):
    def broken(x):
        y = x + 1
        return y * 2, input()

    def mended(x):
        return (x + 1) * 2, ""


class waiting_for_input_2(Case):
    def broken(x):
        y = x + 1
        breakpoint()
        return y * 2

    def mended(x):
        return (x + 1) * 2


# -- random numbers


class python_random(Case):
    def broken(x):
        return x + random.choice([1, 2])

    def mended(x):
        return x + torch.randint(1, 3, ())

    def matters(result):
        return result.shape


class python_random_number(Case):
    versions = ("2.11", "2.13")

    def broken(x):
        return x * random.random()

    def mended(x):
        return x * random.uniform(0.0, 1.0)

    def matters(result):
        return result.shape


class numpy_random(Case):
    def broken(x):
        return x[np.random.permutation(3)].sum()

    def mended(x):
        return x[torch.randperm(3)].sum()


class random_state(Case):
    def broken(x):
        torch.manual_seed(0)
        return x + torch.rand(4)

    def mended(x):
        return x + torch.rand(4)


class random_state_2(Case):
    versions = ("2.11", "2.13")  # 2.15 stops at a question about CUDA devices inside of it: machine_state

    def broken(x):
        with torch.random.fork_rng():
            return x + torch.rand(4)

    def mended(x):
        return x + torch.rand(4)


class random_state_3(Case):
    def broken(x):
        state = torch.get_rng_state()
        y = x + torch.rand(4)
        torch.set_rng_state(state)
        return y

    def mended(x):
        return x + torch.rand(4)


generator_of_noise = torch.Generator()


class generator(Case):
    def broken(x):
        return x + torch.rand(4, generator=generator_of_noise)

    def mended(x):
        return x + torch.rand(4)

    def matters(result):
        return result.shape


class generator_2(Case):
    def broken(x):
        noise = torch.Generator().manual_seed(3)
        return x + torch.rand(4, generator=noise)

    def mended(x):
        return x + torch.rand(4)

    def matters(result):
        return result.shape


class random_in_place(Case):
    def broken(x):
        return torch.empty(3).random_(0, 5)

    def mended(x):
        return torch.randint(0, 5, (3,)).float()

    def matters(result):
        return result.shape


class uniform_in_place(Case):
    def broken(x):
        return torch.empty(3).uniform_(**{"from": 0, "to": 1})

    def mended(x):
        return torch.empty(3).uniform_(0, 1)


# -- modules

lstm = nn.LSTM(4, 4)
cell = nn.LSTMCell(4, 4)
cell.load_state_dict({name.removesuffix("_l0"): value for name, value in lstm.state_dict().items()})
gru = nn.GRU(4, 4)
gru_cell = nn.GRUCell(4, 4)
gru_cell.load_state_dict({name.removesuffix("_l0"): value for name, value in gru.state_dict().items()})


class rnn(Case):
    def broken(x):
        return lstm(x)[0]

    def mended(x):
        h = c = x.new_zeros(4)
        out = []
        for step in x:
            h, c = cell(step, (h, c))
            out.append(h)
        return torch.stack(out)


class rnn_2(Case):
    def broken(x):
        return gru(x)[0]

    def mended(x):
        h = x.new_zeros(4)
        out = []
        for step in x:
            h = gru_cell(step, h)
            out.append(h)
        return torch.stack(out)


class new_parameter(Case):
    def broken(x):
        return x * nn.Parameter(torch.ones(4))

    def mended(x):
        return x * torch.ones(4)

    def matters(result):
        return result.detach()


class new_parameter_2(Case):
    def broken(x):
        return nn.Linear(4, 4)(x)

    def mended(x):
        return linear(x)

    def matters(result):
        return result.shape


class deepcopy(Case):
    def broken(x):
        return copy.deepcopy(x) + 1

    def mended(x):
        return x.detach().clone() + 1


class deepcopy_2(Case):
    def broken(x):
        return copy.deepcopy(linear)(x)

    def mended(x):
        return linear(x)


class copy_(Case):
    def broken(x):
        return copy.copy(x) + 1

    def mended(x):
        return x.detach() + 1


class load_state(Case):
    def broken(x):
        linear.load_state_dict(linear.state_dict())
        return linear(x)

    def mended(x):
        return linear(x)


class script(Case):
    module = torch.jit.trace(linear, torch.ones(3, 4))

    def broken(x):
        return script.module(x) * 2

    def mended(x):
        return linear(x) * 2


class script_2(Case):
    module = torch.jit.script(linear)

    def broken(x):
        return script_2.module(x) * 2

    def mended(x):
        return linear(x) * 2


class packed_sequence(Case):
    lengths = torch.tensor([4, 2, 1])

    def inputs():
        return (torch.ones(4, 3, 1),)

    def broken(x):
        return pack_padded_sequence(x, packed_sequence.lengths).data.sum()

    def mended(x):
        inside = torch.arange(4)[:, None] < packed_sequence.lengths
        return (x * inside[:, :, None]).sum()


class global_setting(Case):
    def broken(x):
        torch.set_num_threads(torch.get_num_threads())
        return x + 1

    def mended(x):
        return x + 1


class global_setting_2(Case):
    versions = ("2.11",)

    def broken(x):
        torch.use_deterministic_algorithms(False, warn_only=True)
        return x + 1

    def mended(x):
        return x + 1


@torch.library.custom_op("remedies::twice", mutates_args=())
def _twice(x: torch.Tensor) -> torch.Tensor:
    return x * 2


@torch.library.custom_op("remedies::twice_known", mutates_args=())
def _twice_known(x: torch.Tensor) -> torch.Tensor:
    return x * 2


_twice_known.register_fake(torch.empty_like)


class fake_kernel(Case):
    def broken(x):
        return _twice(x) + 1

    def mended(x):
        return _twice_known(x) + 1


class math_of_tensor(Case):
    parts = torch.tensor(3)

    def broken(x):
        return x * math.ceil(math_of_tensor.parts)

    def mended(x):
        return x * torch.ceil(math_of_tensor.parts)


class machine_state(Case):
    threads = torch.get_num_threads()

    def broken(x):
        return x / torch.get_num_threads()

    def mended(x):
        return x / machine_state.threads


# -- gradients


class backward(Case):
    def broken(x):
        loss = linear(x).sum()
        loss.backward()
        return loss

    def mended(x):
        return linear(x).sum()


class autograd_grad(NeedsGrad):
    def broken(x):
        return torch.autograd.grad((x * x).sum(), x)[0]

    def mended(x):
        return torch.func.grad(lambda x: (x * x).sum())(x.detach())


class optimizer(Case):
    sgd = torch.optim.SGD(linear.parameters(), 0.1)

    def broken(x):
        optimizer.sgd.zero_grad()
        return linear(x)

    def mended(x):
        return linear(x)


class new_tensor_with_grad(Case):
    w = torch.ones(4, requires_grad=True)

    def broken(x):
        return x * torch.ones(4, requires_grad=True)

    def mended(x):
        return x * new_tensor_with_grad.w


class requires_grad(Case):
    def broken(x):
        y = x.detach()
        y.requires_grad_()
        return y * 2

    def mended(x):
        return x.detach() * 2

    def matters(result):
        return result.detach()


class requires_grad_2(Case):
    def broken(x):
        for p in linear.parameters():
            p.requires_grad = True
        return linear(x)

    def mended(x):
        return linear(x)


HANDLES = []


class tensor_hook(NeedsGrad):
    def broken(x):
        y = x * 2
        HANDLES.append(y.register_hook(lambda grad: grad * 2))
        return y * 2

    def mended(x):
        y = x * 2
        y.register_hook(lambda grad: grad * 2)
        return y * 2


class module_backward_hook(NeedsGrad):
    hooked = copy.deepcopy(linear)
    hooked.register_full_backward_hook(lambda module, grad_in, grad_out: None)

    def broken(x):
        return module_backward_hook.hooked(x)

    def mended(x):
        y = linear(x)
        y.register_hook(lambda grad: None)
        return y


class forward_hook(Case):
    versions = ("2.13", "2.15")  # 2.11 does not say of which class the attribute is: set_attribute
    hooked = copy.deepcopy(linear)
    hooked.register_forward_hook(lambda module, inputs, output: output * 2)

    def broken(x):
        handle = linear.register_forward_hook(lambda module, inputs, output: output * 2)
        y = linear(x)
        handle.remove()
        return y

    def mended(x):
        return forward_hook.hooked(x)


class retain_grad(NeedsGrad):
    def broken(x):
        y = x * 2
        y.retain_grad()
        return y * 2

    def mended(x):
        return x * 2 * 2


class grad_fn(NeedsGrad):
    def broken(x):
        y = x * 2
        return y * 2 if y.grad_fn is not None else y

    def mended(x):
        y = x * 2
        return y * 2 if y.requires_grad else y


class Double(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        return x * 2

    @staticmethod
    def backward(ctx, grad):
        return grad * 2


class DoubleBothWays(Double):
    @staticmethod
    def jvp(ctx, tangent):
        return tangent * 2


class DoubleByVjp(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        return x * 2

    @staticmethod
    def vjp(ctx, grad):
        return grad * 2


class DoubleInPlace(Double):
    @staticmethod
    def forward(ctx, x):
        ctx.mark_dirty(x)
        return x.mul_(2)


class function_with_jvp(NeedsGrad):
    def broken(x):
        return DoubleBothWays.apply(x)

    def mended(x):
        return Double.apply(x)


class function_with_vjp(NeedsGrad):
    def broken(x):
        return DoubleByVjp.apply(x)

    def mended(x):
        return Double.apply(x)


class mark_dirty(Case):
    versions = ("2.13", "2.15")  # 2.11 compiles it

    def broken(x):
        return DoubleInPlace.apply(x * 1)

    def mended(x):
        return Double.apply(x * 1)


class saved_tensors_hooks(NeedsGrad):
    def broken(x):
        with torch.autograd.graph.save_on_cpu():
            return x * x.sin()

    def mended(x):
        return checkpoint(lambda x: x * x.sin(), x, use_reentrant=False)


class detect_anomaly(Case):
    def broken(x):
        with torch.autograd.detect_anomaly():
            return x + 1

    def mended(x):
        return x + 1


# -- tensors of other kinds


class set_data(Case):
    def broken(x):
        y = x * 2
        y.data = torch.ones(5)
        return y + 1

    def mended(x):
        y = torch.ones(5)
        return y + 1


class storage(Case):
    def broken(x):
        return x + x.untyped_storage().nbytes()

    def mended(x):
        return x + x.nbytes


class storage_2(Case):
    def broken(x):
        y = x * 2
        y.set_(x.untyped_storage(), 0, (2,))
        return y + 1

    def mended(x):
        return x.flatten()[:2] + 1


class share_memory(Case):
    def broken(x):
        y = x * 2
        y.share_memory_()
        return y + 1

    def mended(x):
        return x * 2 + 1


class sparse(Case):
    def inputs():
        return torch.eye(3).to_sparse(), torch.ones(3, 4)

    def broken(adjacency, x):
        return (adjacency @ x) + 1

    def mended(adjacency, x):
        return x + 1


class nested(Case):
    rows = (torch.ones(2), torch.ones(3))

    def inputs():
        return (torch.nested.nested_tensor(list(nested.rows)),)

    def broken(x):
        return x + 1

    def mended(x):
        return x + 1

    def mended_inputs():
        return (torch.nested.nested_tensor(list(nested.rows), layout=torch.jagged),)

    def matters(result):
        return tuple(row.clone() for row in result.unbind())


class quantized(Case):
    def inputs():
        return (torch.quantize_per_tensor(torch.ones(4), 0.5, 0, torch.qint8),)

    def broken(x):
        return x.dequantize() + 1

    def mended(x):
        return x + 1

    def mended_inputs():
        return (torch.ones(4),)


class inference_mode(Case):
    def broken(x):
        return x + (1 if torch.is_inference_mode_enabled() else 2)

    def mended(x):
        return x + (2 if torch.is_grad_enabled() else 1)


class inference_mode_2(Case):
    def broken(x):
        return x + (1 if x.is_inference() else 2)

    def mended(x):
        return x + (2 if torch.is_grad_enabled() else 1)


LIBRARY = torch.library.Library("remedies_of_compiler_lens", "FRAGMENT")
for operator in ("unknown_shape", "known_shape"):
    LIBRARY.define(f"{operator}(Tensor x) -> Tensor")
    LIBRARY.impl(operator, lambda x: x + 1, "CPU")
torch.library.register_fake("remedies_of_compiler_lens::known_shape", torch.empty_like, lib=LIBRARY)


class custom_op_without_shapes(Case):
    def broken(x):
        return torch.ops.remedies_of_compiler_lens.unknown_shape(x) * 2

    def mended(x):
        return torch.ops.remedies_of_compiler_lens.known_shape(x) * 2


LEVELS, STEPS = np.linspace(0, 1, 9), np.arange(4)
LISTED = LEVELS.tolist()


class numpy_of_number(Case):
    def inputs():
        return torch.linspace(-1, 1, 12).reshape(3, 4), STEPS[2]

    def broken(x, step):
        return x * LEVELS[int(step)]

    def mended_inputs():
        return torch.linspace(-1, 1, 12).reshape(3, 4), STEPS.tolist()[2]

    def mended(x, step):
        return x * LISTED[int(step)]


class number_of_numpy(Case):
    backend = "aot_eager"

    def inputs():
        return torch.linspace(-1, 1, 12).reshape(3, 4), STEPS[2]

    def broken(x, step):
        return x + torch.full((4,), int(step))

    def mended_inputs():
        return torch.linspace(-1, 1, 12).reshape(3, 4), STEPS.tolist()[2]

    def mended(x, step):
        return x + torch.full((4,), int(step))


class math_of_item(Case):
    config = {"capture_scalar_outputs": True}

    def broken(x):
        return x * math.exp(x.mean().item())

    def mended(x):
        return x * x.mean().detach().exp()


class branch_on_numpy_random(test_of_drawn_number):
    config = {"capture_scalar_outputs": True}


class number_not_known(Case):
    config = {"capture_scalar_outputs": True}

    def broken(x):
        return x * [1.0, 2.0][int(x.sum().item() > 3)]

    def mended(x):
        return x * torch.where(x.sum() > 3, 2.0, 1.0)


class number_not_known_2(Case):
    config = {"capture_scalar_outputs": True}

    def broken(x):
        return x * {True: 2.0, False: 1.0}[x.sum().item() > 3]

    def mended(x):
        return x * torch.where(x.sum() > 3, 2.0, 1.0)


class flag_of_sizes(Case):
    config = {"assume_static_by_default": False}

    def broken(x):
        return x.sum(-1, keepdim=x.shape[1] > 2)

    def mended(x):
        return x.sum(-1, keepdim=True if x.shape[1] > 2 else False)


class wrong_shapes(Case):
    def broken(x):
        return x @ x

    def mended(x):
        return x @ x.T

    answer = mended


# -- functions handed to torch

SEEN = []


class checkpoint_side_effect(NeedsGrad):
    def broken(x):
        def block(x):
            SEEN.append(x.shape)
            return x.sin()

        return checkpoint(block, x, use_reentrant=False)

    def mended(x):
        def block(x):
            return x.sin()

        y = checkpoint(block, x, use_reentrant=False)
        SEEN.append(x.shape)
        return y


class branch_side_effect(Case):
    def broken(x):
        def up(x):
            SEEN.append(1)
            return x + 1

        return torch.cond(x.sum() > 0, up, lambda x: x - 1, (x,))

    def mended(x):
        y = torch.cond(x.sum() > 0, lambda x: x + 1, lambda x: x - 1, (x,))
        SEEN.append(1)
        return y

    def answer(x):
        return x - 1


class branch_changes_input(Case):
    def broken(x):
        return torch.cond(x.sum() > 0, lambda x: x.add_(1), lambda x: x - 1, (x.clone(),))

    def mended(x):
        return torch.cond(x.sum() > 0, lambda x: x + 1, lambda x: x - 1, (x,))

    def answer(x):
        return x - 1


class branch_returns_input(Case):
    def broken(x):
        return torch.cond(x.sum() > 0, lambda x: x, lambda x: x - 1, (x,))

    def mended(x):
        return torch.cond(x.sum() > 0, lambda x: x.clone(), lambda x: x - 1, (x,))

    def answer(x):
        return x - 1


class branch_returns_object(Case):
    def broken(x):
        return torch.cond(x.sum() > 0, lambda x: (x + 1, "up"), lambda x: (x - 1, "down"), (x,))

    def mended(x):
        return torch.cond(x.sum() > 0, lambda x: x + 1, lambda x: x - 1, (x,))

    def answer(x):
        return x - 1


# -- Python


class iterator(Case):
    def inputs():
        return torch.ones(4), (i for i in range(3))

    def broken(x, numbers):
        for i in numbers:
            x = x + i
        return x

    mended = broken

    def mended_inputs():
        return torch.ones(4), list(range(3))


class iterator_2(iterator):
    def inputs():
        return torch.ones(4), map(int, "012")


class iterator_3(iterator):
    def broken(x, numbers):
        return x + next(numbers)

    def mended(x, numbers):
        return x + numbers[0]


class progress_bar(Case):
    def broken(x):
        for _ in tqdm(range(3), disable=True):
            x = x + 1
        return x

    def mended(x):
        for _ in range(3):
            x = x + 1
        return x


class data_loader(Case):
    loader = torch.utils.data.DataLoader(torch.utils.data.TensorDataset(torch.ones(2, 4)))

    def broken(x):
        for (batch,) in data_loader.loader:
            x = x + batch
        return x

    def mended(x):
        for batch in (torch.ones(1, 4), torch.ones(1, 4)):
            x = x + batch
        return x


class set_of_tensors(Case):
    def inputs():
        return torch.ones(4), {torch.ones(4), torch.ones(4)}

    def broken(x, others):
        for other in others:
            x = x + other
        return x

    mended = broken

    def mended_inputs():
        return torch.ones(4), [torch.ones(4), torch.ones(4)]


class unknown_divmod(Case):
    versions = ("2.13",)  # others were not asked
    config = {"capture_scalar_outputs": True}

    def broken(x):
        rows, rest = divmod((x > 0).sum().item(), 4)
        return x * rows + rest

    def mended(x):
        n = (x > 0).sum().item()
        rows, rest = n // 4, n % 4
        return x * rows + rest


class address(Case):
    def broken(x):
        return x + 1 if x.data_ptr() % 2 == 0 else x

    def mended(x):
        return x + 1


class address_2(Case):
    def broken(x):
        y = x * 2
        return y + id(y) % 1

    def mended(x):
        return x * 2


class exception(Case):
    def broken(x):
        if x.dim() != 3:
            raise ValueError("want 3 dimensions")
        return x + 1

    def mended(x):
        return x + 1

    answer = mended


class threads(Case):
    lock = threading.Lock()

    def broken(x):
        with threads.lock:
            return x + 1

    def mended(x):
        return x + 1


class threads_2(Case):
    def broken(x):
        threads.lock.acquire()
        x = x + 1
        threads.lock.release()
        return x

    def mended(x):
        return x + 1


class context_variable(Case):
    mode = contextvars.ContextVar("mode", default=1)

    def broken(x):
        token = context_variable.mode.set(2)
        x = x + 1
        context_variable.mode.reset(token)
        return x

    def mended(x):
        return x + 1


class context_manager(Case):
    def broken(x):
        with contextlib.redirect_stdout(None):
            return x + 1

    def mended(x):
        return x + 1


class Timer:
    def __enter__(self):
        return self

    def __exit__(self, *_):
        return None


class break_in_context(Case):
    effect = True

    def broken(x):
        with Timer():
            y = x + 1
            print("here")
            return y * 2

    def mended(x):
        with Timer():
            y = x + 1
            return y * 2


class break_in_loop(Case):
    effect = True

    def broken(x):
        for _ in range(3):
            x = x + 1
            print("here")
        return x

    def mended(x):
        for _ in range(3):
            x = x + 1
        return x


def helper(x):
    return x + 1


class disabled(Case):
    helper = torch.compiler.disable(helper)

    def broken(x):
        return disabled.helper(x) * 2

    def mended(x):
        return helper(x) * 2


class call_of_disable(Case):
    def broken(x):
        return torch.compiler.disable(helper)(x) * 2

    def mended(x):
        return helper(x) * 2


class call_of_the_compiler(Case):
    def broken(x):
        torch.compiler.cudagraph_mark_step_begin()
        return x + 1

    def mended(x):
        return x + 1


class asked_for(Case):
    def broken(x):
        x = x + 1
        torch._dynamo.graph_break()
        return x * 2

    def mended(x):
        x = x + 1
        return x * 2


class numpy_function(Case):
    def broken(x):
        return x + float(np.nansum(x.numpy())) * 0

    def mended(x):
        return x + torch.nansum(x) * 0


class numpy_objects(Case):
    def inputs():
        return torch.ones(4), np.array(["a", "b"])

    def broken(x, labels):
        return x + len(labels)

    mended = broken

    def mended_inputs():
        return torch.ones(4), ["a", "b"]


class serialize(Case):
    length = len(json.dumps({"a": 1}))

    def broken(x):
        return x + len(json.dumps({"a": 1}))

    def mended(x):
        return x + serialize.length


class serialize_2(Case):
    length = len(hashlib.sha256(b"a").hexdigest())

    def broken(x):
        return x + len(hashlib.sha256(b"a").hexdigest())

    def mended(x):
        return x + serialize_2.length


SCALE = 3


class namespace(Case):
    def broken(x):
        return x * globals()["SCALE"]

    def mended(x):
        return x * SCALE


class frames(Case):
    def broken(x):
        return x + sys._getframe().f_lineno * 0

    def mended(x):
        return x + 0


class weak_reference(Case):
    cache = weakref.WeakValueDictionary()

    def broken(x):
        weak_reference.cache["helper"] = linear
        return x + len(weak_reference.cache)

    def mended(x):
        cache = {}
        cache["helper"] = linear
        return x + len(cache)


class Options:
    scale = 2


class class_definition(Case):
    def broken(x):
        class Local:
            scale = 2

        return x * Local.scale

    def mended(x):
        return x * Options.scale


class Watched:
    def __init__(self):
        self.scale = 2

    def __getattribute__(self, name):
        return object.__getattribute__(self, name)


class getattribute(Case):
    versions = ("2.11", "2.13")
    watched = Watched()
    plain = Options()

    def broken(x):
        return x * getattribute.watched.scale

    def mended(x):
        return x * getattribute.plain.scale


class set_attribute(Case):
    versions = ("2.11", "2.13")  # 2.15 compiles it
    state = Options()

    def broken(x):
        helper.calls = 1
        return helper(x)

    def mended(x):
        set_attribute.state.calls = 1
        return helper(x)


class foreign_argument(Case):
    def broken(x):
        return x.apply_(lambda v: v + 1)

    def mended(x):
        return x + 1


class Counter(nn.Module):
    def __init__(self):
        super().__init__()
        self.n = 0
        self.register_buffer("count", torch.tensor(0))


class recompile_limit(Case):
    calls = 12
    counter = Counter()

    def broken(x):
        recompile_limit.counter.n += 1
        return x + (recompile_limit.counter.n > 0)

    def mended(x):
        recompile_limit.counter.count.add_(1)
        return x + (recompile_limit.counter.count > 0)


class builtin(Case):
    def broken(x):
        return x + len(memoryview(b"abc"))

    def mended(x):
        return x + len(b"abc")


class method(Case):
    queue = queue.SimpleQueue()

    def broken(x):
        return x + method.queue.qsize()

    def mended(x):
        return x + 0


class function(Case):
    rate = float(decimal.Decimal("1.5"))

    def broken(x):
        decimal.Decimal("1.5")
        return x * 1.5

    def mended(x):
        return x * function.rate


class c_function(Case):
    key = zlib.crc32(b"name") % 7

    def broken(x):
        return x + zlib.crc32(b"name") % 7

    def mended(x):
        return x + c_function.key


class skipped_function(Case):
    def broken(x):
        return x * importlib.import_module("math").pi

    def mended(x):
        return x * math.pi
