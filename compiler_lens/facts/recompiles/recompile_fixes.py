"""What to do about each class of recompile: a literal table.

In `change`, `{name}` is what changes, `{tensor}` the tensor and `{axis}` its dimension, `{function}` the function.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import Enum


class CauseClass(Enum):
    """What kind of thing changed so that compiled code could not be reused."""

    BATCH_SIZE = "batch size"
    SEQUENCE_LENGTH = "sequence length"
    SIZE = "size"
    ZERO_ONE = "a size of 0 or 1"
    SHAPE_EXPRESSION = "condition on sizes"
    RANK = "number of dimensions"
    STRIDE = "memory layout"
    DTYPE = "dtype"
    DEVICE = "device"
    DISPATCH_KEYS = "kind of tensor"
    REQUIRES_GRAD = "requires_grad"
    TENSOR_TYPE = "type of tensor"
    ALIASING = "one tensor passed twice"
    INT_ARGUMENT = "Python int"
    FLOAT_ARGUMENT = "Python float"
    STRING_ARGUMENT = "string"
    BOOL_OR_NONE = "bool or None"
    OBJECT_TYPE = "type of object"
    OBJECT_IDENTITY = "another object"
    CALL_STYLE = "positional or by keyword"
    LIST_LENGTH = "length of a list"
    DICT_KEYS = "keys of a dict"
    MODULE_ATTRIBUTE = "attribute"
    OBJECT_ATTRIBUTE = "attribute of an object"
    TRAINING_MODE = "train or eval"
    ANOTHER_MODULE = "another module"
    GLOBAL = "global variable"
    CLOSURE = "variable of the function around"
    OPTIMIZER = "optimizer setting"
    GRAD_MODE = "grad mode"
    AUTOCAST = "autocast"
    OTHER_GLOBAL_STATE = "torch setting"
    BACKEND = "backend"
    DEAD_OBJECT = "object gone"
    OTHER = "other"


@dataclass(frozen=True, slots=True)
class Fix:
    """What to do about recompiles of one class."""

    why: str  # one sentence
    change: str  # code in backticks
    leave: str  # when nothing need be done
    free: int = 0  # so many recompiles of one cause are how torch.compile is meant to work


FIXES: Mapping[CauseClass, Fix] = {
    CauseClass.BATCH_SIZE: Fix(
        "The first compilation is for one batch size; when another one comes, torch compiles again for any size.",
        "Call `torch._dynamo.maybe_mark_dynamic({tensor}, {axis})`, and so for each input of that size, before the "
        "first call, or compile with `torch.compile(…, dynamic=True)`; drop or pad the last batch of an epoch.",
        "One recompile is how torch learns that a size varies.",
        free=1,
    ),
    CauseClass.SEQUENCE_LENGTH: Fix(
        "The first compilation is for one length; when another one comes, torch compiles again for any length.",
        "Call `torch._dynamo.maybe_mark_dynamic({tensor}, {axis})`, and so for each input of that length, before the "
        "first call, or pad to a few fixed lengths.",
        "One recompile is how torch learns that a length varies.",
        free=1,
    ),
    CauseClass.SIZE: Fix(
        "The first compilation is for one size; when another one comes, torch compiles again for any size.",
        "Call `torch._dynamo.maybe_mark_dynamic({tensor}, {axis})`, and so for each input of that size, before the "
        "first call, or compile with `torch.compile(…, dynamic=True)`.",
        "One recompile is how torch learns that a size varies.",
        free=1,
    ),
    CauseClass.ZERO_ONE: Fix(
        "Sizes 0 and 1 broadcast and vanish, so torch compiles them apart even where the size may vary.",
        "Pad to 2 or handle a size of 1 before the call; where the code must serve all sizes, call "
        "`torch._dynamo.decorators.mark_unbacked({tensor}, {axis})` before the first call.",
        "One more compilation for a size of 1 is normal, and one for 0.",
        free=1,
    ),
    CauseClass.SHAPE_EXPRESSION: Fix(
        "The code takes a decision on sizes, so each way it can go is compiled apart.",
        "Decide it before the call, pad the size so that it always goes one way, or state it with "
        "`torch._check({name})` where it always holds.",
        "Two ways are two compilations, and no more.",
        free=1,
    ),
    CauseClass.RANK: Fix(
        "Compiled code is for one number of dimensions.",
        "Give {tensor} the same number of dimensions at every call: `{tensor}.unsqueeze(0)` or "
        "`{tensor}.flatten(0, 1)` before it.",
        "Two ranks that both are meant are two compilations, and no more.",
    ),
    CauseClass.STRIDE: Fix(
        "The compiled code reads the tensor's memory in one layout, and this call brought another.",
        "Pass `{tensor}.contiguous()`, or make it in the same layout at every call.",
        "Two layouts that both are needed are two compilations.",
    ),
    CauseClass.DTYPE: Fix(
        "Compiled code is for one dtype.",
        "Convert before the call, `{tensor}.to(torch.float32)` for example, so that it is always the same.",
        "Two dtypes that both are meant are two compilations, and no more.",
    ),
    CauseClass.DEVICE: Fix(
        "Compiled code is for one device.",
        "Move {tensor} before the call, `{tensor}.to(device)`, so that it is always the same device.",
        "Two devices that both are meant are two compilations, and no more.",
    ),
    CauseClass.DISPATCH_KEYS: Fix(
        "The tensor is of another kind inside of torch: conjugated, negated, made under inference_mode.",
        "Make it plain before the call: `{tensor}.resolve_conj()`, `{tensor}.resolve_neg()`, or `{tensor}.clone()` "
        "of one made under `torch.inference_mode()`.",
        "Two kinds that both are meant are two compilations, and no more.",
    ),
    CauseClass.REQUIRES_GRAD: Fix(
        "A tensor that needs a gradient is compiled together with its backward, another one is not.",
        "Keep it the same at every call: `{tensor}.detach()` where no gradient is wanted.",
        "One compilation for training and one for inference is normal.",
        free=1,
    ),
    CauseClass.TENSOR_TYPE: Fix(
        "Compiled code is for one class of tensor: torch.Tensor, nn.Parameter and each subclass are apart.",
        "Pass the same class at every call: `{tensor}.detach()` makes a tensor of a Parameter, "
        "`{tensor}.as_subclass(torch.Tensor)` of a subclass.",
        "Two classes that both are meant are two compilations, and no more.",
    ),
    CauseClass.ALIASING: Fix(
        "One tensor came as two arguments; code that was compiled for two tensors does not fit.",
        "Pass a copy, `.clone()`, as one of {name}, or always pass the same tensor as both.",
        "Both ways are two compilations, and no more.",
        free=1,
    ),
    CauseClass.INT_ARGUMENT: Fix(
        "A Python int is part of the compiled code; when it changes, torch compiles again for any int, "
        "but not for 0 and 1, and not across a branch on it.",
        "Take what branches on {name} out of {function}, or pass `torch.tensor({name})`.",
        "One recompile is how torch learns that an int varies.",
        free=1,
    ),
    CauseClass.FLOAT_ARGUMENT: Fix(
        "A Python float is part of the compiled code; when it changes, torch compiles again for any float "
        "if it can, and for each value if it cannot.",
        "Pass it as a tensor: `torch.tensor({name})`.",
        "One recompile is how torch learns that a float varies.",
        free=1,
    ),
    CauseClass.STRING_ARGUMENT: Fix(
        "A string is part of the compiled code: each value is compiled apart.",
        "Choose by {name} outside of {function}, for example with one function for each value, and pass no text "
        "that varies.",
        "A few values are as many compilations.",
        free=1,
    ),
    CauseClass.BOOL_OR_NONE: Fix(
        "True, False and None are part of the compiled code: each is compiled apart.",
        "Always pass {name} the same way: in place of None a default tensor, or an empty cache; one function for each "
        "flag.",
        "Two values are two compilations, and no more.",
        free=1,
    ),
    CauseClass.OBJECT_TYPE: Fix(
        "Compiled code is for one class of object.",
        "Pass {name} as the same class at every call{classes}.",
        "Two classes that both are meant are two compilations, and no more.",
    ),
    CauseClass.OBJECT_IDENTITY: Fix(
        "The compiled code is for one particular object, a function, class or instance; this call brought another.",
        "Make {name} once, before compiling, and keep it; set it before the first call, not between calls.",
        "A few objects that take turns are as many compilations.",
    ),
    CauseClass.CALL_STYLE: Fix(
        "Arguments came by position at one call and by keyword at another; for torch these are different calls.",
        "Call {function} the same way everywhere.",
        "Two ways are two compilations, and no more.",
        free=1,
    ),
    CauseClass.LIST_LENGTH: Fix(
        "A list or tuple is compiled element by element, so its length is part of the compiled code.",
        "Keep its length the same: stack it into one tensor, `torch.stack({list})`, allocate it in full before the "
        "first call, or append to it outside of {function}.",
        "A few lengths are as many compilations.",
    ),
    CauseClass.DICT_KEYS: Fix(
        "A dict is compiled key by key, so which keys it has is part of the compiled code.",
        "Have all keys there before the first call, or write to it outside of {function}; for a cache, a tensor "
        "allocated in full and written by index.",
        "A few sets of keys are as many compilations.",
    ),
    CauseClass.MODULE_ATTRIBUTE: Fix(
        "An attribute that is a plain Python value is part of the compiled code: each new value is compiled apart.",
        "Change {name} outside of the compiled function if it is not needed there, keep it in a tensor "
        '(`self.register_buffer("{attribute}", torch.tensor(0))`), or set '
        "`torch._dynamo.config.allow_unspec_int_on_nn_module = True` for an int of a module.",
        "A value that changes once, between training and inference, is one more compilation.",
        free=1,
    ),
    CauseClass.OBJECT_ATTRIBUTE: Fix(
        "What an object holds as a plain Python value is part of the compiled code: each new value may be compiled "
        "apart.",
        "Pass it as a tensor argument, `torch.tensor({name})` for a number, or read {name} before the compiled "
        "function and choose by it there.",
        "One recompile is how torch learns that a number varies.",
        free=1,
    ),
    CauseClass.TRAINING_MODE: Fix(
        "Training and evaluation are compiled apart: dropout and batch norm differ.",
        "Nothing; or compile two models, one for each.",
        "One compilation for `model.train()` and one for `model.eval()` is normal.",
        free=1,
    ),
    CauseClass.ANOTHER_MODULE: Fix(
        "Several modules share one compiled function: each is a compilation of it, and counts for its recompile limit.",
        "Compile the model that holds them as a whole, or raise `torch._dynamo.config.recompile_limit`.",
        "One compilation for each module is normal.",
        free=6,
    ),
    CauseClass.GLOBAL: Fix(
        "A module's global variable is part of the compiled code.",
        "Pass {name} as an argument, as a tensor if it varies, or set it once before the first call.",
        "A value that changes once is one more compilation.",
    ),
    CauseClass.CLOSURE: Fix(
        "A variable of the function around is part of the compiled code.",
        "Pass {name} as an argument, as a tensor if it varies.",
        "A value that changes once is one more compilation.",
    ),
    CauseClass.OPTIMIZER: Fix(
        "Settings of an optimizer that are Python numbers are part of the compiled step.",
        "Make it a tensor: `torch.optim.Adam(…, lr=torch.tensor(1e-3))`, and step the scheduler outside of what is "
        "compiled.",
        "One recompile is how torch learns that a float varies.",
        free=1,
    ),
    CauseClass.GRAD_MODE: Fix(
        "Code with and without gradients is compiled apart.",
        "Keep one grad mode for all calls of {function}: put `torch.no_grad()` where it is always entered, or inside.",
        "One compilation for training and one under `torch.no_grad()` is normal.",
        free=1,
    ),
    CauseClass.AUTOCAST: Fix(
        "Code under autocast is compiled apart from code without.",
        "Enter `torch.autocast` at every call, or inside of {function}.",
        "One compilation with and one without is all there is.",
        free=1,
    ),
    CauseClass.OTHER_GLOBAL_STATE: Fix(
        "A setting of torch's that the compiled code depends on was changed between calls.",
        "Set it once, before the first call: default dtype, deterministic algorithms, number of threads.",
        "A setting that changes once is one more compilation.",
    ),
    CauseClass.BACKEND: Fix(
        "The same function was compiled with another backend or other options.",
        "Compile it once, and keep what `torch.compile` returned.",
        "Comparing backends compiles once for each.",
    ),
    CauseClass.DEAD_OBJECT: Fix(
        "The object that the code was compiled for does not exist any more, so its compiled code was thrown away.",
        "Keep {name} alive and use it again: make the optimizer, model or tensor once.",
        "At the end of one experiment and the start of the next it is normal.",
    ),
    CauseClass.OTHER: Fix(
        "Something that the compiled code relies on changed.",
        "See torch's own words below: keep what they name the same at every call.",
        "One more compilation may be all there is.",
    ),
}

# What is written in the compiled function itself brings a new value at every call.
COUNTED = Fix(
    "The compiled function changes the value itself, so every call brings another one, and each is compiled apart.",
    "Change {name} outside of {function}, or keep it in a tensor.",
    "For a few calls it is as many compilations.",
)
COUNTED_IN_MODULE = Fix(
    COUNTED.why,
    "Change {name} outside of {function}, keep it in a tensor "
    '(`self.register_buffer("{attribute}", torch.tensor(0))`), or set '
    "`torch._dynamo.config.allow_unspec_int_on_nn_module = True` for an int.",
    COUNTED.leave,
)

# What a line that breaks the graph gave to the code behind it: without that break there is no such value.
BEHIND_A_BREAK = "Mend the graph break at line {line}: it hands {name} over, and the recompiles go with it."
