"""What a failed guard was about: its class, what changed in the author's names, from which value to which."""

from __future__ import annotations

import re
from collections.abc import Sequence

from msgspec import Struct
from msgspec.structs import replace

from compiler_lens.facts.recompiles.fixes import CauseClass
from compiler_lens.facts.recompiles.guard_values import DTYPES, UNNAMED, EntryValues, Names, literal_class, readable
from compiler_lens.recording.model import GuardFailure

_C = CauseClass

_TENSOR = re.compile(
    r"tensor '(?P<tensor>.*)' (?P<what>size|stride|dtype|dispatch key set|requires_grad|rank|device index) "
)
_OF_TENSOR = {  # the class, the attribute, what entries call it
    "dtype": (_C.DTYPE, "dtype", "dtype"),
    "requires_grad": (_C.REQUIRES_GRAD, "requires_grad", "requires_grad"),
    "rank": (_C.RANK, "dim()", "dim"),
    "device index": (_C.DEVICE, "device", "device"),
}
_INDEX = re.compile(r" mismatch at index (\d+)\.")
_OFFSET = re.compile(r"(?<![\w.\[\]'\"])[\w.\[\]'\"]+\.storage_offset\(\)")
_SIZE = re.compile(r"(?P<tensor>.+)\.shape\[(?P<axis>\d+)\]\Z")
_NUMBER = re.compile(r"-?\d+\Z")
_FLOAT = re.compile(r"-?(?:\d+\.\d*(?:e[-+]?\d+)?|\d+e[-+]?\d+|inf|nan)\Z")
# torch/__init__.py: `_TorchCompileWrapper(compiler='eager', dynamic=None) (id=…)`; of mode and options it says nothing.
_BACKEND = re.compile(r"(?:\w+\(compiler=)?'?(?:<(?:function|bound method) )?([^'<>,() ]+)")
_INDUCTOR = re.compile(r"_TorchCompile(?:AOT)?InductorWrapper\b")
_PRESENCE = re.compile(r"[\w.]+\((.+), '?([^,']+)'?\)\Z")
_UNEQUAL = re.compile(r"(\w+) != (-?\d+)\Z")
_CONSTANTS = frozenset(("None", "True", "False"))
_SELF = re.compile(r"self\b")
_INT_OF_MODULE = "allow_unspec_int_on_nn_module"  # which torch's hint names for it, and for nothing else
_IN_MODULE = re.compile(r"\b_(?:modules|parameters|buffers)\b")
_STATE = "GLOBAL_STATE changed"
_UNEXPECTED = "Unexpected recompilation: "  # get_guard_fail_reason_helper() in torch/_dynamo/guards.py
# c10/core/InferenceMode.h: inside, no tensor has a key of autograd's; the second one a tensor lacks that was made and
# is used inside. One that was made inside and is used outside looks like one that was made outside and is used inside.
_AUTOGRAD, _IN_PLACE = "Autograd", "ADInplaceOrView"
_KEYS_OF, _TYPE_OF = "keys of ", "type of "
_MODES = "___check_torch_function_mode_stack()"
_DEVICE = "utils_device.CURRENT_DEVICE"  # DEFAULT_DEVICE in torch/_dynamo/guards.py: also a mode, where it is set
# StorageOverlap in torch/_guards.py: which inputs share memory, where AOTAutograd had to know.
_RAISED = re.compile(r"(?:AttributeError: )?'(\w+)' object has no attribute '(\w+)'\Z")
_OVERLAP = re.compile(r"check_overlapping\(overlapping=\[((?:(?!\], non_).)*)\], non_overlapping=\[(.*)\]\)")
_BACKENDS = frozenset(("CPU", "CUDA", "Meta", "MPS", "XPU", "HPU", "XLA", "PrivateUse1", "IPU", "VE", "MTIA"))
# Causes that ask what class a value is of.
OF_CLASS = frozenset((_C.BOOL_OR_NONE, _C.OBJECT_TYPE, _C.TENSOR_TYPE, _C.TENSOR_OR_NUMBER))
_NUMBERS = frozenset(("int", "float", "bool", "complex"))  # types of what is passed in place of a tensor

# Where batches and sequences are: by the number of dimensions, and for two by names that speak of tokens.
_TOKENS = re.compile(r"ids|mask|token|label|position", re.IGNORECASE)
_PLURAL_RANK = 2
_SEQUENCE_RANK = 3


class Failed(Struct, frozen=True):
    """One failed guard, understood."""

    cause: CauseClass
    subject: str  # "x.shape[0]", "self.step", "len(cache)"
    key: str  # under which the values of other entries have it
    old: str = ""
    new: str = ""


def understand(failure: GuardFailure, names: Names, entry: EntryValues, now: EntryValues) -> Failed:
    """Return a failed guard of `entry`, when `now` was compiled; a value that is not known is empty."""
    made = _of_tensor(failure, names, entry, now) or _sentence(failure, names, entry, now)
    made = made or _expression(failure, names, entry, now)
    kinds = entry.kind(made.subject), now.kind(made.subject)
    if made.cause in OF_CLASS and "None" in kinds and all(kinds):
        return Failed(_C.BOOL_OR_NONE, made.subject, made.key, *kinds)
    values = entry.values.get(made.subject, ""), now.values.get(made.subject, "")
    if made.cause is _C.OBJECT_TYPE and all(map(literal_class, values)):  # torch asks for the class before the value
        return replace(made, cause=_value_class(failure, made.subject, values[1], names), old=values[0], new=values[1])
    old = made.old if made.old and not made.old.startswith((">=", "<=")) else entry.values.get(made.key) or made.old
    new = made.new or now.values.get(made.key) or ("Tensor" if now.is_tensor(made.key) else "")
    if made.cause in OF_CLASS:
        new = new or kinds[1]
    return replace(made, old=_plain(made.cause, old), new=_plain(made.cause, new))


def _plain(cause: CauseClass, value: str) -> str:
    """A value as its author would write it."""
    if cause is _C.REQUIRES_GRAD:
        return {"0": "False", "1": "True"}.get(value, value)
    if cause is _C.BACKEND:
        found = _BACKEND.match(value)
        return "inductor" if _INDUCTOR.match(value) else found[1] if found else value
    if value.startswith("<class '") and value.endswith("'>"):
        return value[8:-2].rpartition(".")[2]
    return DTYPES.get(value, value) if cause is _C.DTYPE else value


# -- tensors


def _of_tensor(failure: GuardFailure, names: Names, entry: EntryValues, now: EntryValues) -> Failed | None:
    found, index = _TENSOR.match(failure.text), _INDEX.search(failure.text)
    if found is None:
        return None
    tensor, what, old, new = readable(found["tensor"], names), found["what"], failure.old, failure.new
    if what == "size" and index:
        axis = f".shape[{index[1]}]"
        # By the first argument whose same dimension changed in the same way: a batch is many tensors' size.
        fixed = (key for key, value in entry.values.items() if value == old and key not in entry.varying)
        changed = (key for key in fixed if key.endswith(axis) and now.values.get(key) == new)
        name = next((key for key in changed if key.removesuffix(axis).isidentifier()), f"{tensor}{axis}")
        # torch/fx/experimental/symbolic_shapes.py: sizes 0 and 1 never become symbols.
        cause = _C.ZERO_ONE if {old, new} & {"0", "1"} else _dimension(_SIZE.match(name), names, entry, now)
        return Failed(cause, name, name, old, new)
    if what == "stride" and index:
        name = f"{tensor}.stride({index[1]})"
        return Failed(_C.STRIDE, name, name, old, new)
    if what == "dispatch key set":
        return _keys(tensor, failure, entry, now)
    if what not in _OF_TENSOR:  # a size or a stride at no index: torch writes no such line
        return None
    cause, attribute, key = _OF_TENSOR[what]
    return Failed(cause, f"{tensor}.{attribute}", f"{key} of {tensor}", old, new)


def _dimension(found: re.Match[str] | None, names: Names, entry: EntryValues, now: EntryValues) -> CauseClass:
    if found is None:
        return _C.SIZE
    tensor, axis = found["tensor"], int(found["axis"])
    rank = entry.rank(tensor) or now.rank(tensor) or 0
    if axis == 0 and rank >= _PLURAL_RANK and names.comes_with_each_call(tensor):
        return _C.BATCH_SIZE
    tokens = _TOKENS.search(tensor) is not None
    if axis == 1 and ((rank == _PLURAL_RANK and tokens) or rank == _SEQUENCE_RANK):
        return _C.SEQUENCE_LENGTH
    return _C.SIZE


def role(name: str, names: Names, values: EntryValues) -> CauseClass:
    """Return what a value that may vary is for: a batch, a sequence, another size, or a number."""
    found = _SIZE.match(name)
    return _dimension(found, names, values, values) if found else _C.INT_ARGUMENT


def _keys(tensor: str, failure: GuardFailure, entry: EntryValues, now: EntryValues) -> Failed:
    sets = failure.old, failure.new
    old, new = map(_key_list, sets)
    before, after = (next((key for key in keys if key in _BACKENDS), "").lower() for keys in (old, new))
    if before != after:
        return Failed(_C.DEVICE, f"{tensor}.device", f"device of {tensor}", before, after)
    if _seen_by_inference(failure.old) != _seen_by_inference(failure.new):
        entry, now = (_with_keys(values, tensor, keys) for values, keys in zip((entry, now), sets, strict=True))
        return _inference(tensor, entry, now)
    gone = ", ".join(key for key in old if key not in new) or "plain"
    come = ", ".join(key for key in new if key not in old) or "plain"
    return Failed(_C.DISPATCH_KEYS, tensor, f"{_KEYS_OF}{tensor}", gone, come)


def _key_list(text: str) -> list[str]:
    return text.removeprefix("DispatchKeySet(").removesuffix(")").split(", ")


def _is_recorded(keys: Sequence[str]) -> bool:
    """Whether autograd hears of a tensor, which it does outside of inference mode, also under `torch.no_grad()`."""
    return any(key.startswith(_AUTOGRAD) for key in keys)


def _seen_by_inference(text: str) -> tuple[bool, bool]:
    """What inference mode changes of a tensor's keys: it leaves out one, then the other."""
    keys = _key_list(text)
    return _IN_PLACE in keys, _is_recorded(keys)


def _with_keys(values: EntryValues, tensor: str, keys: str) -> EntryValues:
    return replace(values, values={**values.values, f"{_KEYS_OF}{tensor}": keys})


def _is_inside(values: EntryValues) -> bool | None:
    """Whether a compilation was for inference mode, by its tensors; None if they leave it open."""
    of_tensors = [_key_list(keys) for name, keys in values.values.items() if name.startswith(_KEYS_OF)]
    if any(map(_is_recorded, of_tensors)):
        return False
    return None if all(_IN_PLACE in keys for keys in of_tensors) else True


def _stayed(entry: EntryValues, now: EntryValues) -> bool | None:
    """Whether both compilations were for inference mode, or neither; None if it is not known."""
    for name, kind in entry.values.items():
        if kind == "Parameter" and name.startswith(_TYPE_OF):  # which is made once: what differs is the mode
            key = f"{_KEYS_OF}{name.removeprefix(_TYPE_OF)}"
            if key in entry.values and key in now.values:
                return _seen_by_inference(entry.values[key]) == _seen_by_inference(now.values[key])
    was_inside, is_inside = _is_inside(entry), _is_inside(now)
    return None if was_inside is None or is_inside is None else was_inside == is_inside


def _inference(tensor: str, entry: EntryValues, now: EntryValues) -> Failed:
    """Of a tensor that was made or used inside of inference mode, and not both each time."""
    key = f"inference mode, {tensor}"  # not the keys themselves, which say nothing to an author
    stayed = _stayed(entry, now)
    if stayed is None:
        return Failed(_C.INFERENCE_MODE, tensor, key)
    old, new = (_seen_by_inference(values.values[f"{_KEYS_OF}{tensor}"]) for values in (entry, now))
    inside_lacks_more = old > new
    if stayed:
        made = ("outside", "inside") if inside_lacks_more else ("inside", "outside")
        return Failed(_C.INFERENCE_TENSOR, tensor, key, *made)
    states = ("off", "on") if inside_lacks_more else ("on", "off")
    return Failed(_C.INFERENCE_MODE, "inference mode", "inference mode", *states)


def _inference_of_any(entry: EntryValues, now: EntryValues) -> Failed | None:
    """Of the first tensor that inference mode makes another one between two compilations; None if there is none."""
    for key, keys in entry.values.items():
        if not key.startswith(_KEYS_OF) or key not in now.values:
            continue
        if _seen_by_inference(keys) != _seen_by_inference(now.values[key]):
            return _inference(key.removeprefix(_KEYS_OF), entry, now)
    return None


# -- sentences of torch's


def _sentence(  # noqa: C901, PLR0911, PLR0912 -- one for each sentence
    failure: GuardFailure, names: Names, entry: EntryValues, now: EntryValues
) -> Failed | None:
    text = failure.text
    name = readable(failure.source, names)
    if text.startswith(_STATE):
        # torch looks again at what changed, and names nothing where it has been changed back meanwhile.
        subject = ", ".join(word.replace("_", " ") for word in name.split()) or "a global setting"
        cause = _C.OTHER_GLOBAL_STATE
        if name == "grad_mode":
            # Inference mode takes the gradients, too, and torch asks for those first.
            if made := _inference_of_any(entry, now):
                return made
            cause = _C.GRAD_MODE
        elif "autocast" in name:
            cause, subject = _C.AUTOCAST, "autocast"
        return Failed(cause, subject, f"global {name}", failure.old, failure.new)
    if text.startswith("expected type of "):
        cause = _C.TENSOR_OR_NUMBER if _plain(_C.TENSOR_TYPE, failure.new) in _NUMBERS else _C.TENSOR_TYPE
        cause = _C.BOOL_OR_NONE if "NoneType" in failure.old + failure.new else cause
        old = "" if failure.old == "a tensor type" else failure.old  # torch before 2.15 does not say which
        new = "None" if "NoneType" in failure.new else failure.new
        return Failed(cause, name, f"type of {name}", old, new)
    if found := _OVERLAP.match(text):
        # Those that shared memory; where none did, those that were apart, and are not now.
        tensors = ", ".join(readable(tensor, names) for tensor in (found[1] or found[2]).split(", "))
        values = ("", "") if found[1] else ("apart", "overlapping")
        return Failed(_C.SHARED_MEMORY, f"the memory of {tensors}", text, *values)
    if text.startswith("Duplicate tensors found"):
        return Failed(_C.ALIASING, name.replace('"', ""), text)
    if text.startswith("BACKEND_MATCH"):
        return Failed(_C.BACKEND, "the backend", "backend", failure.old, failure.new)
    if text.startswith(_UNEXPECTED):
        return Failed(_C.TORCH_ERROR, "", text)
    if text.startswith("Cache line invalidated"):
        return Failed(_C.DEAD_OBJECT, name, f"life of {name}")
    if text.startswith("KeyError on ") and names.keywords and name.startswith(f"{names.keywords}["):
        return _keywords(names.keywords, entry, now)
    gone = ("KeyError on ", _C.DICT_KEYS, "key"), ("IndexError on ", _C.LIST_LENGTH, "index")
    for start, cause, what in (*gone, ("getattr failed on source ", _attribute(name, text), "attribute")):
        if text.startswith(start):
            return Failed(cause, name, f"{what} {name}", "present", "missing")
    if found := _RAISED.match(text):
        # A guard in Python that raises, in torch/csrc/dynamo/guards.cpp: all that torch keeps is the message.
        cause = _C.BOOL_OR_NONE if found[1] == "NoneType" else _C.OBJECT_TYPE
        came = found[1].replace("NoneType", "None")
        return Failed(cause, UNNAMED, text, f"with .{found[2]}", came)
    if "Accessor: " in text:
        function = name.removesuffix(".__code__")
        return Failed(_C.OBJECT_IDENTITY, function, f"identity of {function}", "a function" if function != name else "")
    return None


def _keywords(name: str, entry: EntryValues, now: EntryValues) -> Failed:
    old, new = (
        ", ".join(values.keys_of(name)) or _unnamed(values.values.get(f"len({name})", "")) for values in (entry, now)
    )
    return Failed(_C.KEYWORDS, f"**{name}", f"len({name})", old, new)


def _unnamed(count: str) -> str:
    """Keywords that no guard names: nothing asked for one of them."""
    return "none" if count in {"", "0"} else f"{count} that nothing reads"


# -- expressions


def _expression(  # noqa: PLR0911 -- one for each kind
    failure: GuardFailure, names: Names, entry: EntryValues, now: EntryValues
) -> Failed:
    name, text, old = readable(failure.source, names), failure.text, failure.old
    if text.startswith((_MODES, _DEVICE)):
        return _modes(entry, now)
    if found := _UNEQUAL.match(text):  # of an int that varies: which way a branch on it went
        return Failed(_C.INT_ARGUMENT, readable(found[1], names), text, f"not {found[2]}", found[2])
    if old.isidentifier() and old not in _CONSTANTS and text.endswith(f" is {old}"):
        return Failed(_C.ALIASING, f"{name}, {old}", text)
    if text.startswith("___check_obj_id("):
        is_flag = old in {"<class 'NoneType'>", "<class 'bool'>", "None", "True", "False"}
        cause = _C.BOOL_OR_NONE if is_flag else _C.OBJECT_IDENTITY
        cause = _C.ANOTHER_MODULE if name == "self" and names.wrapper else cause
        return Failed(cause, name, f"identity of {name}", _member(entry.values.get(f"identity of {name}", "")) or old)
    if text.startswith("___check_type_id("):
        return Failed(_C.ANOTHER_MODULE if name == "self" else _C.OBJECT_TYPE, name, f"type of {name}", old)
    if name.startswith("len(") and name.endswith(")"):
        inside = name[len("len(") : -1]
        if names.wrapper and inside in {"args", "kwargs"}:
            subject = "arguments by position" if inside == "args" else "arguments by keyword"
            return Failed(_C.CALL_STYLE, subject, name, old)
        if inside == names.keywords:
            return _keywords(inside, entry, now)
        # DictGuardManager writes `len(d) != 2` for the two it wants; any other length is a leaf guard of its own kind.
        a_dict = "!=" in text or inside in entry.dicts | now.dicts
        return Failed(_C.DICT_KEYS if a_dict else _C.LIST_LENGTH, name, name, old)
    if offset := _OFFSET.search(readable(text, names)):
        return Failed(_C.STORAGE_OFFSET, offset[0], name or offset[0], old)
    is_of_sizes = ".shape[" in name or ".stride(" in name or not name
    return _on_sizes(name, failure, names) if is_of_sizes else _on_value(name, failure, names)


def _member(value: str) -> str:
    """Return a value that is a member of an enum, `Mode.FAST`, `Flags.A|Flags.B` or `Flags(0)`; empty for another."""
    return value if all(map(_is_of_enum, value.split("|"))) else ""


def _is_of_enum(value: str) -> bool:
    kind, opened, number = value.partition("(")
    if opened:
        return kind.isidentifier() and number.endswith(")") and number[:-1].removeprefix("-").isdecimal()
    kind, _, name = value.partition(".")
    return kind.isidentifier() and name.isidentifier()


def _modes(entry: EntryValues, now: EntryValues) -> Failed:
    """What is open around a call; torch names the default device alone."""
    devices = [values.values.get(_DEVICE, "") for values in (entry, now)]
    if devices[0] != devices[1]:
        return Failed(_C.TORCH_FUNCTION_MODE, "the default device", _DEVICE, *devices)
    return Failed(_C.TORCH_FUNCTION_MODE, "modes", _MODES)


def _on_value(name: str, failure: GuardFailure, names: Names) -> Failed:
    if name.startswith("list(dict.keys("):
        inside = name.rpartition("(")[2].partition(")")[0]
        return Failed(_C.DICT_KEYS, f"the keys of {inside}", name, failure.old)
    if name.startswith(("set.__contains__(", "___dict_contains(", "hasattr(")):
        return _presence(name, failure)
    if name.startswith("math.isnan("):
        inner = name[len("math.isnan(") : -1]
        return Failed(_C.FLOAT_ARGUMENT, inner, inner)
    words = set(re.findall(r"[A-Za-z_]\w*", name))
    if name.startswith("(") and len(words) == 1:  # of a number: `((-1)*level) == (-0.7)`
        cause = _C.INT_ARGUMENT if _NUMBER.match(failure.old.strip("()")) else _C.FLOAT_ARGUMENT
        number, old = words.pop(), failure.old.strip("()")
        negated = old.removeprefix("-") if old.startswith("-") else f"-{old}"
        return Failed(cause, number, name, negated if name == f"((-1)*{number})" else f"{name[1:-1]} = {old}")
    subject = f"global {name}" if failure.source.startswith("G[") else name
    return Failed(_value_class(failure, name, failure.old, names), subject, name, failure.old)


def _presence(name: str, failure: GuardFailure) -> Failed:
    """Of a key, a member of a set or an attribute, that was wanted to be there or not to."""
    old, new = ("missing", "present") if failure.old == "False" else ("present", "missing")
    found = _PRESENCE.match(name)
    if found is None:
        return Failed(_C.DICT_KEYS, name, name, old, new)
    if name.startswith("hasattr("):
        return Failed(_attribute(found[1], failure.source), f"{found[1]}.{found[2]}", name, old, new)
    holder, key = (found[1], found[2]) if name.startswith("set.") else (found[2], found[1])
    return Failed(_C.DICT_KEYS, f"{key} in {holder}", name, old, new)


def _on_sizes(name: str, failure: GuardFailure, names: Names) -> Failed:
    text = readable(failure.text, names)
    found = _SIZE.match(name)
    if found and text == f"2 <= {name}":
        return Failed(_C.ZERO_ONE, name, name, failure.old)
    if ".stride(" in text or "._base" in text:
        return Failed(_C.STRIDE, name or text, name or text)
    if found and failure.old:
        return Failed(_C.SHAPE_EXPRESSION, text, name, failure.old)
    if name or ".shape[" in text:
        return Failed(_C.SHAPE_EXPRESSION, text, text, "True", "False")
    return Failed(_C.OTHER, text, text)


def _value_class(failure: GuardFailure, name: str, value: str, names: Names) -> CauseClass:  # noqa: PLR0911 -- one each
    root, *path = re.split(r"(?=[.\[])", name, maxsplit=1)
    if failure.source.startswith("G["):
        return _C.GLOBAL
    if ".param_groups[" in name or name.startswith("param_groups["):
        return _C.OPTIMIZER
    if name.endswith(".training"):
        return _C.TRAINING_MODE
    if names.is_captured(root):
        return _C.CLOSURE
    if path and "." in path[0]:
        return _attribute(name, failure.source, failure.hint)
    if value in {"True", "False", "None", "not None"}:
        return _C.BOOL_OR_NONE
    if value.startswith((">= ", "<= ")) or _NUMBER.match(value):
        return _C.INT_ARGUMENT
    if _FLOAT.match(value):
        return _C.FLOAT_ARGUMENT
    return _C.STRING_ARGUMENT if value[:1] in {"'", '"'} else _C.OTHER


def _attribute(name: str, source: str, hint: str = "") -> CauseClass:
    """Of a module, as far as its name or torch's hint shows, or of another object."""
    is_in_module = _SELF.match(name) or _IN_MODULE.search(source) or _INT_OF_MODULE in hint
    return _C.MODULE_ATTRIBUTE if is_in_module else _C.OBJECT_ATTRIBUTE
