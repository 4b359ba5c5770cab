"""What is doubtful though it compiled, in words."""

from __future__ import annotations

from collections.abc import Mapping

from compiler_lens.facts.overview.all_clear import Against, Contradiction
from compiler_lens.facts.overview.unintended import Doubt, Unintended
from compiler_lens.views.parts import At, Parts, sequence
from compiler_lens.views.text import nbytes, one_line, seconds, times

_UNINTENDED: Mapping[Doubt, tuple[str, str]] = {
    Doubt.DROPOUT: (
        "`{what}` is on where no gradients are wanted: results differ from call to call.",
        "Call `model.eval()` before it. Leave it where that is meant, as in Monte Carlo dropout.",
    ),
    Doubt.FLOAT64: (
        "`{what}` is float64 and meets narrower numbers: {ops} of the {total_ops} ops of its graph compute in float64.",
        "Make it float32 where it is made: `dtype=torch.float32`, or `.float()`.",
    ),
    Doubt.ATTENTION: (
        "is attention by hand, and no pattern of torch's makes one kernel of it: its weights are computed whole.",
        "Call `torch.nn.functional.scaled_dot_product_attention` where your formula is its own.",
    ),
    Doubt.COPY: ("is copied between devices in each call: {what}.", "Make it on that device, or once and outside."),
    Doubt.WAIT: (
        "`{what}` makes the CPU wait for the device in each call.",
        "Keep it a tensor, or ask for its value outside of what is compiled.",
    ),
}


def unintended(found: Unintended) -> tuple[str, str]:
    """Return what is probably not meant, with what it costs, and what to do about it."""
    told, change = _UNINTENDED[found.doubt]
    what = told.format(what=one_line(found.what, 60), ops=found.ops, total_ops=found.total_ops)
    counted = [times(len(found.nodes))] if len(found.nodes) > 1 else []
    counted += [nbytes(found.bytes)] if found.bytes else []
    return f"{what[:-1]} ({', '.join(counted)})." if counted else what, change


# What there is beside findings that ask for a change: {count} of them is put before, where there are several.
_AGAINST: Mapping[Contradiction, tuple[str, str]] = {
    Contradiction.DAMAGED: ("a part that could not be read", ""),
    Contradiction.UNFINISHED: ("no end to the recording", ""),
    Contradiction.NOT_RECORDED: ("1 thing that could not be recorded", "things that could not be recorded"),
    Contradiction.NOT_OFFERED: ("1 fact that this torch does not offer", "facts that this torch does not offer"),
    Contradiction.LOG: ("only a log of torch's, which tells neither of stances nor of what is never called", ""),
    Contradiction.NOT_WHOLE: (
        "1 function that does not run compiled",
        "functions that do not run compiled",
    ),
    Contradiction.CUT: ("1 place where graphs are cut on purpose", "places where graphs are cut on purpose"),
    Contradiction.STANCE: ("a stance", "stances"),
    Contradiction.CHILDREN: ("processes that are not recorded", ""),
    Contradiction.RECOMPILES: ("1 recompile", "recompiles"),
    Contradiction.AGAIN: (
        "1 function compiled again after `torch._dynamo.reset()`",
        "compilations again after `torch._dynamo.reset()`",
    ),
    Contradiction.TUNING: ("autotuning", ""),
    Contradiction.UNINTENDED: ("1 line that may not be meant", "lines that may not be meant"),
}
_PLACES = 2


def contradicted(found: Against) -> Parts:
    """Return what stands against "nothing to fix", in a few words."""
    one, several = _AGAINST[found.what]
    told = f"{found.count:,} {several}" if several and found.count > 1 else one
    if found.what is Contradiction.RECOMPILES:
        told += f" in {seconds(found.seconds)}, as expected"
    if found.what is Contradiction.TUNING:
        paid = f"paid back after some {found.calls:,} calls" if found.calls else "which gained nothing"
        told = f"{seconds(found.seconds)} of {told}, {paid}"
    if found.what is Contradiction.NOT_WHOLE:
        told += f": `{one_line(found.said, 60)}`"
    places = [At(place) for place in found.places[:_PLACES]]
    more = ", …" if len(found.places) > _PLACES else ""
    return (told, " (", *sequence(places), f"{more})") if places else (told,)
