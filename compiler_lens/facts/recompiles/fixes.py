"""What to do about each class of recompile, as fixes.toml says."""

from __future__ import annotations

import functools
from collections.abc import Mapping
from enum import Enum
from pathlib import Path

from msgspec import Struct

from compiler_lens.facts.breaks.remedies import Setting
from compiler_lens.facts.data_file import read_data

_FILE = Path(__file__).with_name("fixes.toml")


class CauseClass(Enum):
    """What kind of thing changed so that compiled code could not be reused."""

    BATCH_SIZE = "batch size"
    SEQUENCE_LENGTH = "sequence length"
    SIZE = "size"
    ZERO_ONE = "a size of 0 or 1"
    SHAPE_EXPRESSION = "condition on sizes"
    RANK = "number of dimensions"
    STRIDE = "memory layout"
    STORAGE_OFFSET = "place in memory"
    DTYPE = "dtype"
    DEVICE = "device"
    DISPATCH_KEYS = "kind of tensor"
    INFERENCE_TENSOR = "tensor of inference mode"
    REQUIRES_GRAD = "requires_grad"
    TENSOR_TYPE = "type of tensor"
    TENSOR_OR_NUMBER = "tensor or number"
    ALIASING = "one tensor passed twice"
    SHARED_MEMORY = "shared memory"
    INT_ARGUMENT = "Python int"
    FLOAT_ARGUMENT = "Python float"
    STRING_ARGUMENT = "string"
    BOOL_OR_NONE = "bool or None"
    OBJECT_TYPE = "type of object"
    OBJECT_IDENTITY = "another object"
    CALL_STYLE = "positional or by keyword"
    KEYWORDS = "keywords"
    LIST_LENGTH = "length of a list"
    DICT_KEYS = "keys of a dict"
    MODULE_ATTRIBUTE = "attribute"
    OBJECT_ATTRIBUTE = "attribute of an object"
    TRAINING_MODE = "train or eval"
    ANOTHER_MODULE = "another module"
    ANOTHER_INSTANCE = "another instance"
    GLOBAL = "global variable"
    CLOSURE = "variable of the function around"
    OPTIMIZER = "optimizer setting"
    GRAD_MODE = "grad mode"
    INFERENCE_MODE = "inference mode"
    TORCH_FUNCTION_MODE = "modes around the call"
    AUTOCAST = "autocast"
    OTHER_GLOBAL_STATE = "torch setting"
    BACKEND = "backend"
    DEAD_OBJECT = "object gone"
    TORCH_ERROR = "an error of torch's own"
    OTHER = "other"


# Of tensors, which torch leaves open once it has seen two of one.
SIZES = frozenset((CauseClass.BATCH_SIZE, CauseClass.SEQUENCE_LENGTH, CauseClass.SIZE))


class Fix(Struct, frozen=True):
    """What to do about recompiles of one class."""

    why: str  # one sentence
    change: str  # code in backticks
    leave: str  # when nothing need be done
    free: int = 0  # so many recompiles of one cause are how torch.compile is meant to work
    setting: Setting | None = None  # for ints only


class FixTable(Struct, frozen=True):
    """What fixes.toml says. What `change` names in braces is filled in by who knows it."""

    of_class: Mapping[CauseClass, Fix]
    others: Mapping[str, Fix]  # for what is known beyond the class
    in_a_library: str  # what to change where the function is not the user's
    follows_in_a_library: str
    size_in_a_library: str
    unspec: str  # what else will do for an int


# Fixes that stand in the place of a class's own, by what reports.py knows of the cause.
OTHERS = frozenset((
    "counted", "counted_in_module", "counted_int_in_module", "no_number", "int_in_module", "int_elsewhere",
    "counted_int_elsewhere", "unrolled",
    "unrolled_in_module",
    "pinned", "pinned_text", "not_lr",
    "another_kind", "inference_of_which", "optimizer_state", "after_a_break", "prefill_and_decode",
    "array_size", "array_dtype", "array_rank", "array_layout", "array_or_number", "array_zero_one",
    "enum_member", "held", "counted_held", "learned", "pinned_key", "pinned_index", "pinned_number",
    "size_as_asked", "zero_one_within", "kept_by_inductor", "base_layout", "drawn_with",
))  # fmt: skip


@functools.cache
def fix_table() -> FixTable:
    """Return the fixes of the package. Raise KeyError or TypeError for a class or a field that the file has wrong."""
    data = read_data(_FILE)
    texts = {name: data.pop(name) for name in ("in_a_library", "follows_in_a_library", "size_in_a_library", "unspec")}
    settings = {name: Setting(**entry) for name, entry in data.pop("settings").items()}
    for entry in data.values():
        if "setting" in entry:
            entry["setting"] = settings[entry["setting"]]
    fixes = {name: Fix(**entry) for name, entry in data.items()}
    others = {name: fixes.pop(name) for name in OTHERS}
    return FixTable({CauseClass[name.upper()]: fix for name, fix in fixes.items()}, others, **texts)
