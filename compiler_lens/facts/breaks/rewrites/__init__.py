"""What to write instead of the user's own line at a graph break, or nothing where that is not sure."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import TypeVar

from compiler_lens.facts.breaks.remedies import Rewrite
from compiler_lens.facts.breaks.rewrites import calls
from compiler_lens.facts.breaks.rewrites.both import both_sides, continued, needless, reduced_sides, returned
from compiler_lens.facts.breaks.rewrites.branches import branching, counted, guarded_branching
from compiler_lens.facts.breaks.rewrites.causal import told_causal
from compiler_lens.facts.breaks.rewrites.classes import each_class
from compiler_lens.facts.breaks.rewrites.clocks import clock
from compiler_lens.facts.breaks.rewrites.distinct import distinct
from compiler_lens.facts.breaks.rewrites.drawn import chosen
from compiler_lens.facts.breaks.rewrites.either import first_way, second_way
from compiler_lens.facts.breaks.rewrites.elements import taken
from compiler_lens.facts.breaks.rewrites.flags import plain_flag
from compiler_lens.facts.breaks.rewrites.handlers import is_handled, is_handled_by_a_caller
from compiler_lens.facts.breaks.rewrites.hardest import hardest
from compiler_lens.facts.breaks.rewrites.kept_numbers import (
    element_of_table,
    function_of_element,
    kept_as_double,
    kept_in_tensor,
    largest_kept,
)
from compiler_lens.facts.breaks.rewrites.lists import masked_list
from compiler_lens.facts.breaks.rewrites.looked_up import looked_up
from compiler_lens.facts.breaks.rewrites.masks import masked, masked_row
from compiler_lens.facts.breaks.rewrites.nothing import early_return, filled, gone_on_for_none, longer_way, shortcut
from compiler_lens.facts.breaks.rewrites.put_off import allows
from compiler_lens.facts.breaks.rewrites.ragged import ragged
from compiler_lens.facts.breaks.rewrites.rows import weighed, weighed_and_filled, weighed_and_ones, weighed_of_any_rank
from compiler_lens.facts.breaks.rewrites.shown import bounds_at, column_of_only, columns_at, shown_at, used_later
from compiler_lens.facts.breaks.rewrites.site import NOTHING_SEEN, SeenTensors, Site, site_at
from compiler_lens.facts.breaks.rewrites.spread import spread, spread_branch
from compiler_lens.facts.breaks.rewrites.stops import all_rounds, goes_on
from compiler_lens.facts.breaks.rewrites.tells import words_for
from compiler_lens.facts.breaks.rewrites.texts import one_text
from compiler_lens.facts.breaks.rewrites.tokens import named_elements
from compiler_lens.facts.breaks.rewrites.undone import undone
from compiler_lens.facts.breaks.rewrites.windows import between, window
from compiler_lens.recording.model import BreakCause, SourceLine
from compiler_lens.recording.source_text import Sources

__all__ = [
    "Rewrite",
    "allows",
    "alternatives",
    "bounds_at",
    "column_of_only",
    "columns_at",
    "rewrite",
    "shown_at",
    "used_later",
    "words_for",
]

_Rule = Callable[[Site, BreakCause], Rewrite | None]
_T = TypeVar("_T")

# By the words of torch's graph break registry, 2.11 to 2.15; the first rule that knows the statement answers.
_RULES: Mapping[str, tuple[_Rule, ...]] = {
    "Data-dependent branching": (calls.said_on_a_condition, chosen, branching),
    "Data dependent operator": (
        calls.said_on_a_condition,
        chosen,
        branching,
        counted,
        calls.checked_all,
        taken,
        calls.python_number,
        calls.array_number,
        calls.random_number,
    ),
    "Dynamic shape operator": (masked, distinct),
    "Backend compiler exception": (masked_row,),
    "Unsupported Tensor.item() call with capture_scalar_outputs=False": (
        calls.said_on_a_condition,
        chosen,
        branching,
        counted,
        calls.checked_all,
        taken,
        calls.python_number,
    ),
    "Tensor.tolist() with non-integer tensor": (calls.python_number,),
    "Failed to trace builtin operator": (calls.effect, one_text),
    "missing sq_concat": (one_text,),
    "BUILD_STRING type error": (calls.effect, one_text),
    "Unsupported python_type() call": (calls.effect, calls.converted),
    "Unsupported method call": (calls.effect,),
    "logging.Logger method not supported for non-export cases": (calls.effect,),
    "Attempted to call function marked as skipped": (calls.effect, calls.random_number, clock, branching),
    "Call to a time function": (calls.effect, clock),
    "Attempted to copy.deepcopy a tensor": (calls.deep_copy,),
    "copy.deepcopy()": (calls.deep_copy,),
    "Failed to mutate tensor data attribute": (calls.data_of,),
    "Data pointer comparison": (calls.same_memory,),
    "Builtin `operator.*` comparison with constant `self` failed": (calls.same_memory,),
    "UserError: DataPtrVariable() has no type": (calls.same_memory,),  # 2.11, for `!=`
    "setattr() on Tensor.requires_grad": (calls.requires_grad,),
    "Unsupported Tensor.requires_grad_() call": (calls.requires_grad,),
    "requires_grad_() intermediate leaked as output": (calls.requires_grad,),
    "Attempted to use tensor creation function with requires_grad=True": (calls.made_outside,),
    "Attempted to use `torch.nn.Parameter()` constructor with Dynamo": (calls.made_outside,),
    "Tensor.numpy() with trace_numpy=False": (calls.numpy_function,),
    "attempted to trace numpy function with config.trace_numpy=False": (calls.numpy_function,),
    "call `torch.from_numpy` with `torch._dynamo.config.trace_numpy=False`": (calls.numpy_function,),
    "RuntimeError when making fake tensor call": (calls.stacked_index,),
    "TypeError when making fake tensor call": (plain_flag,),
}
# What torch says where a type is the text of an error, with the names of its symbols in it.
_BY_WORDS: Mapping[str, tuple[_Rule, ...]] = {
    "Could not guard on data-dependent expression": (calls.number_above,),
    "Could not extract specialized integer from data-dependent expression": (calls.repeated,),
}


# What only a trial shows to be right: newer parts of torch, and what helps in evaluation alone. Of each group the first
# rule that knows the statement answers.
_ALTERNATIVES: Mapping[str, tuple[tuple[_Rule, ...], ...]] = {
    "Data-dependent branching": (
        (guarded_branching, gone_on_for_none, early_return, filled, goes_on),
        (reduced_sides,),
        (spread_branch,),
    ),
    "Failed to trace builtin operator": ((calls.printed_in_the_graph,),),
    "Data dependent operator": ((calls.number_for_training,),),
    "Attempted to call function marked as skipped": ((calls.number_for_training,), (calls.number_that_is_asked,)),
    "torch.* op returned non-Tensor": ((calls.other_kernels,),),
    "Unsupported context manager": ((calls.other_kernels,),),
}
# The same, where no rewrite is known to be right.
_NUMBERS: tuple[tuple[_Rule, ...], ...] = (
    (told_causal,),
    (ragged,),
    (needless, both_sides, returned, continued),
    (looked_up,),
    (each_class,),
    (window, between),
    (named_elements,),
    (element_of_table,),
    (function_of_element,),
    (largest_kept,),
    (kept_in_tensor,),
    (kept_as_double,),
)
_GUESSES: Mapping[str, tuple[tuple[_Rule, ...], ...]] = {
    "Data-dependent branching": (
        (told_causal,), (needless, masked_list, both_sides, returned, continued, undone), (all_rounds,),
        (named_elements,), (shortcut, longer_way), (first_way,), (second_way,),
    ),
    "Dynamic shape operator": (
        (hardest,), (each_class,), (weighed,), (weighed_of_any_rank,), (weighed_and_filled,), (weighed_and_ones,),
        (named_elements,), (spread,),
    ),
    "Unsupported Tensor.item() call with capture_scalar_outputs=False": _NUMBERS,
    "Tensor.tolist() with non-integer tensor": ((ragged,), (looked_up,), (each_class,), (named_elements,)),
    "Data dependent operator": _NUMBERS,
}  # fmt: skip
_GUESSES_BY_WORDS: Mapping[str, tuple[tuple[_Rule, ...], ...]] = {
    "Could not guard on data-dependent expression": ((gone_on_for_none, early_return, goes_on, both_sides, returned),),
}


def rewrite(cause: BreakCause, sources: Sources, at: SourceLine, seen: SeenTensors = NOTHING_SEEN) -> Rewrite | None:
    """Return what to write instead of a line that breaks the graph; None where no rewrite is known to be right.

    Args:
        cause: what torch says about the break.
        sources: the texts of files.
        at: the line.
        seen: the names of each function that were tensors whenever torch compiled it.

    """
    return _first(_RULES.get(cause.gb_type) or _by_words(cause, _BY_WORDS), cause, sources, at, seen)


def alternatives(
    cause: BreakCause, sources: Sources, at: SourceLine, seen: SeenTensors = NOTHING_SEEN
) -> Iterator[Rewrite]:
    """Yield what else to write instead, which may be better and has to be tried. Arguments are those above."""
    guesses = _GUESSES.get(cause.gb_type) or _by_words(cause, _GUESSES_BY_WORDS)
    is_known = not guesses or rewrite(cause, sources, at, seen) is not None
    for rules in (*_ALTERNATIVES.get(cause.gb_type, ()), *(() if is_known else guesses)):
        if found := _first(rules, cause, sources, at, seen):
            yield found


def _by_words(cause: BreakCause, by_words: Mapping[str, tuple[_T, ...]]) -> tuple[_T, ...]:
    said = f"{cause.gb_type} {cause.explanation}"
    return next((rules for words, rules in by_words.items() if words in said), ())


def _first(
    rules: tuple[_Rule, ...], cause: BreakCause, sources: Sources, at: SourceLine, seen: SeenTensors
) -> Rewrite | None:
    try:
        site = site_at(sources, at, seen) if rules else None
        if site is None or is_handled(site):
            return None
        found = next((found for rule in rules if (found := rule(site, cause)) is not None), None)
        # an error of another type is one that the caller's handler does not know
        is_check = found is not None and any("._assert_async(" in line for line in found.after)
        return None if is_check and is_handled_by_a_caller(site) else found
    except RecursionError:  # an expression nested deeper than Python's stack
        return None
