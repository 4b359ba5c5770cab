"""Which fix is for a cause of recompiles, by what a recording shows of it."""

from __future__ import annotations

import re
from collections.abc import Sequence
from collections.abc import Set as AbstractSet
from enum import Enum

from msgspec import Struct
from msgspec.structs import replace

from compiler_lens.facts.program.coverage import FunctionName
from compiler_lens.facts.program.uses import Use, makes_text
from compiler_lens.facts.recompiles.fixes import CauseClass, Fix, fix_table
from compiler_lens.facts.recompiles.guard_values import FROM_NUMPY, EntryValues, authored, literal_class
from compiler_lens.facts.recompiles.recompile_facts import Decided, Facts
from compiler_lens.recording.model import CompileId, Recompile, SourceLine

_NUMBER = re.compile(r"-?[\d.]+(?:e[-+]?\d+)?\Z")
HELD = (
    CauseClass.MODULE_ATTRIBUTE, CauseClass.OBJECT_ATTRIBUTE, CauseClass.GLOBAL, CauseClass.CLOSURE,
    CauseClass.INT_ARGUMENT, CauseClass.FLOAT_ARGUMENT,
)  # fmt: skip
_OF_OBJECTS = frozenset({CauseClass.MODULE_ATTRIBUTE, CauseClass.OBJECT_ATTRIBUTE})
# Inductor makes a tensor of a float that is an input of its graph (torch/fx/passes/_tensorify_python_scalars.py), and
# what the graph assigns of it stays what it was when that was compiled: seen with 2.13, not with 2.11.
_KEEPS_FLOATS = (2, 13)
_OPTIMIZERS = re.compile(r"(?:^|/)torch/optim/\w+\.py\Z")
_PLAIN_KINDS = frozenset(("plain", "Conjugate", "Negative", "Conjugate, Negative"))
_OWN_MODULE = re.compile(r"_modules(?:'\])?\['[^']{1,200}'\]\Z")  # the end of a source of torch's
_KEPT = ("_modules", "_parameters", "_buffers")  # where nn.Module keeps them: guards ask no other object
_LEARNING_RATE = re.compile(r"\blr\b")
_SIZES = (CauseClass.BATCH_SIZE, CauseClass.SEQUENCE_LENGTH, CauseClass.SIZE)
_OF_ARRAYS = {
    **dict.fromkeys(_SIZES, "array_size"), CauseClass.DTYPE: "array_dtype", CauseClass.RANK: "array_rank",
    CauseClass.STRIDE: "array_layout", CauseClass.TENSOR_OR_NUMBER: "array_or_number",
    CauseClass.ZERO_ONE: "array_zero_one",
}  # fmt: skip
_OF_BASE = "._base"  # what a tensor is a view of
_DRAWN_WITH = re.compile(r"\btorch\.(?:normal|full|full_like)\(")
_OF_AN_EXPRESSION = " = "  # `1.0 + clip = 1.25`: what is asked of a number that a line computes with
_INDEXED = re.compile(r"\b([A-Za-z_][\w.]{0,200})\[")
_TENSORS = frozenset(("Tensor", "Parameter", "Buffer"))


def is_number(text: str) -> bool:
    """Return whether a value is a number as guards write it."""
    return _NUMBER.match(text) is not None


class Change(Struct, frozen=True):
    """One recompile: what a value was and what it became; empty where neither torch nor a guard says it."""

    decided: Decided
    frame: CompileId  # the first compilation of its frame
    old: str = ""
    new: str = ""

    @property
    def recompile(self) -> Recompile:
        """The recompile itself, with all that torch said."""
        return self.decided.recompile


class Known(Struct, frozen=True):
    """What a recording shows of one cause."""

    changes: tuple[Change, ...]
    seconds: float
    most: int  # recompiles of the frame that has most of them
    line: SourceLine | None  # that depends on what changed
    writes: SourceLine | None  # of the user's own that changes it
    may_change: tuple[SourceLine, ...]  # of the user's own, if that is not known of any
    uses: frozenset[Use]  # of a number
    follows: SourceLine | None  # the break that hands it over
    pinned: SourceLine | None  # that needs a size as a number
    is_serving: bool
    objects: int
    first: str  # the value that came first, as a number may be written
    assigned: bool  # the compiled functions give this attribute a value


class _Holder(Enum):
    """What holds a value that a module's function reads."""

    MODULE = "module"  # as an attribute of its own
    IN_MODULE = "in_module"  # a dict, a list or another object that a module has
    OBJECT = "object"  # with no module around


def chosen(  # noqa: PLR0913, PLR0917 -- what a fix is chosen by
    kind: CauseClass, subject: str, known: Known, group: Sequence[Decided], function: FunctionName, facts: Facts
) -> Fix:
    """Return the fix for what is known of a cause, as the table has it."""
    others = fix_table().others
    if known.follows:
        fix = others["after_a_break"]
    elif subject.startswith("len(self.state[") and _OPTIMIZERS.search(function.file):
        fix = others["optimizer_state"]
    elif known.is_serving:
        fix = others["prefill_and_decode"]
    elif known.pinned:
        fix = others[_pinned_by(kind, known, group, facts)]
    elif kind in _SIZES and _is_static(known, facts) and not group[0].failed.subject.startswith(FROM_NUMPY):
        fix = others["size_as_asked"]
    elif kind is CauseClass.ZERO_ONE and facts.is_within(known.changes[0].recompile.compile_id):
        fix = others["zero_one_within"]
    elif kind in _OF_OBJECTS and _is_kept_by_inductor(group, known, facts):
        fix = others["kept_by_inductor"]
    else:
        fix = _of_values(kind, group, known, facts)
    is_int = all(change.old.lstrip("-").isdigit() for change in known.changes)
    return fix if is_int else replace(fix, setting=None)


def _is_static(known: Known, facts: Facts) -> bool:
    """Whether torch.compile was told to compile each size by itself."""
    compilations = [facts.compilations.get(change.recompile.compile_id) for change in known.changes]
    return bool(compilations) and all(one is not None and one.dynamic is False for one in compilations)


def _of_values(  # noqa: PLR0911 -- one for each thing that is known of a value
    kind: CauseClass, group: Sequence[Decided], known: Known, facts: Facts
) -> Fix:
    """The fix of a class, but for what its values are; of numbers also what is known of these."""
    table = fix_table()
    fix, others = table.of_class[kind], table.others
    values = {value for change in known.changes for value in (change.old, change.new) if value}
    if group[0].failed.subject.startswith(FROM_NUMPY) and kind in _OF_ARRAYS:
        return others[_OF_ARRAYS[kind]]
    if kind is CauseClass.STRIDE and _OF_BASE in group[0].failed.subject:
        return others["base_layout"]
    if kind is CauseClass.FLOAT_ARGUMENT and known.line and _DRAWN_WITH.search(known.line.code):
        return others["drawn_with"]
    if kind is CauseClass.INFERENCE_MODE and not values:
        return others["inference_of_which"]
    if kind is CauseClass.DISPATCH_KEYS and not values <= _PLAIN_KINDS:
        return others["another_kind"]
    if kind is CauseClass.OBJECT_IDENTITY and values and all(_is_enum(value, facts) for value in values):
        return others["enum_member"]
    if kind is CauseClass.OPTIMIZER:
        return fix if _LEARNING_RATE.search(group[0].failed.subject) else others["not_lr"]
    if kind not in HELD:
        return fix
    values = {value.rpartition(_OF_AN_EXPRESSION)[2] for value in values}
    if not values or not all(map(is_number, values)):
        return others["no_number"]
    return _of_numbers(kind, group, known, values, facts)


_MEMBER = re.compile(
    r"<(\w{1,200})\.[\w|]{1,200}: .{0,200}>\Z"
)  # in guards of torch 2.11, where a lens did not note it


def _is_enum(value: str, facts: Facts) -> bool:
    """Whether an object's class is an enum, as its text says: its members are made once already."""
    found = _MEMBER.match(value)
    name = found[1] if found else value.partition(".")[0].partition("(")[0]
    lines = (line.strip() for text in facts.texts.texts.values() if name in text for line in text.split("\n"))
    bases = (line.partition("(")[2].partition(")")[0] for line in lines if line.startswith(f"class {name}("))
    return any(base.strip().endswith(("Enum", "Flag")) for listed in bases for base in listed.split(","))


def _of_numbers(
    kind: CauseClass, group: Sequence[Decided], known: Known, values: AbstractSet[str], facts: Facts
) -> Fix:
    """The fix for a number that something holds, or that is handed in, by what it is used for and who changes it."""
    table, used = fix_table(), known.uses
    fix, others = table.of_class[kind], table.others
    is_int = all(value.lstrip("-").isdigit() for value in values)
    is_in_module = kind is CauseClass.MODULE_ATTRIBUTE and _holder(group[0], facts) is not _Holder.OBJECT
    varies = any(d.failed.key in facts.values.get(d.recompile.compile_id, EntryValues()).varying for d in group)
    is_counted = not varies and known.writes is not None
    if is_in_module and is_counted:
        used -= {Use.TEXT}  # each value is a graph of its own anyway, also where the text is never come to
    if used & {Use.LOOP, Use.TEXT, Use.KEY}:
        may_vary = is_int and is_in_module and Use.LOOP not in used
        return others["unrolled_in_module" if may_vary else "unrolled"]
    if used and not (is_counted and is_int and not is_in_module and used == {Use.INDEX}):  # an index may be a tensor
        where = "int_in_module" if is_in_module else "int_elsewhere"
        return others[f"{'counted_' if is_counted else ''}{where}" if is_int else "no_number"]
    if kind is CauseClass.MODULE_ATTRIBUTE:
        return _in_module(group[0], is_counted=is_counted, facts=facts)
    if varies and is_int and kind in {CauseClass.CLOSURE, CauseClass.GLOBAL}:
        return others["learned"]
    if is_counted and is_int and _is_of_a_module(group[0], facts):  # of a model that the function closes over, or gets
        return others["counted_held"]
    return others["counted"] if is_counted else fix


def _is_kept_by_inductor(group: Sequence[Decided], known: Known, facts: Facts) -> bool:
    """Return whether compiled code assigns a float that is an input of its graph: with Inductor it is one number."""
    values = [value for change in known.changes for value in (change.old, change.new)]
    varies = any(d.failed.key in facts.values.get(d.recompile.compile_id, EntryValues()).varying for d in group)
    is_float = "float" in map(literal_class, values)
    return is_float and varies and known.assigned and facts.is_since(_KEEPS_FLOATS)


def _in_module(decided: Decided, *, is_counted: bool, facts: Facts) -> Fix:
    """The fix for a number that a module holds: a buffer is only what is a module's own attribute."""
    table = fix_table()
    holder, owner = _holder(decided, facts), table.others
    if holder is _Holder.MODULE:
        return owner["counted_in_module"] if is_counted else table.of_class[CauseClass.MODULE_ATTRIBUTE]
    if holder is _Holder.IN_MODULE:
        return owner["counted_held" if is_counted else "held"]
    return owner["counted"] if is_counted else table.of_class[CauseClass.OBJECT_ATTRIBUTE]


def _is_of_a_module(decided: Decided, facts: Facts) -> bool:
    """Return whether guards, or torch, say that a value is an attribute of a module's."""
    values = facts.values.get(decided.recompile.compile_id, EntryValues()).values
    owner = authored(decided.failed.subject).rpartition(".")[0]
    source = decided.failure.source.rpartition(".")[0] if decided.failure else ""
    return _OWN_MODULE.search(source) is not None or any(f"type of {owner}.{kept}" in values for kept in _KEPT)


def _holder(decided: Decided, facts: Facts) -> _Holder:
    """Return what holds a value, as far as guards and torch say it; a module where nothing is known."""
    this, subject = decided.recompile.compile_id, authored(decided.failed.subject)
    compilation, values = facts.compilations.get(this), facts.values.get(this, EntryValues()).values
    is_of_module = compilation is None or bool(compilation.module) or not compilation.instance
    within = _Holder.IN_MODULE if is_of_module else _Holder.OBJECT
    if subject.endswith("]"):
        return within
    owner = subject.rpartition(".")[0]
    if _is_of_a_module(decided, facts):
        return _Holder.MODULE
    if owner in {"self", ""}:
        return _Holder.MODULE if is_of_module else _Holder.OBJECT
    return within if f"type of {owner}" in values else _Holder.MODULE


def _pinned_by(kind: CauseClass, known: Known, group: Sequence[Decided], facts: Facts) -> str:
    """Return the name of the fix for what a line needs as a number: a size, an index, or which of several it picks."""
    if kind is not CauseClass.INT_ARGUMENT or not known.pinned:
        is_text = known.pinned is not None and makes_text(facts.texts, known.pinned.file, known.pinned.line)
        return "pinned_text" if is_text else "pinned"
    values = facts.values.get(group[0].recompile.compile_id, EntryValues())
    kinds = {of for base in _INDEXED.findall(known.pinned.code) if (of := values.kind(base))}
    is_picked = bool(kinds - _TENSORS) if kinds else Use.KEY in known.uses
    if known.uses & {Use.KEY, Use.INDEX}:
        return "pinned_key" if is_picked else "pinned_index"
    return "unrolled" if Use.TEXT in known.uses else "pinned_number"
