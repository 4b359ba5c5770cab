"""What is said of a profile: what bounds a kernel, what to do, what speaks against the times, and remarks."""

from __future__ import annotations

from collections.abc import Mapping

from compiler_lens.facts.kernels.launch_costs import Bound, Doubt
from compiler_lens.facts.kernels.roofline import Advice
from compiler_lens.recording.model import ProfileNote, Remark
from compiler_lens.views.text import UNKNOWN, percent, plural

BOUNDS: Mapping[Bound, str] = {
    Bound.MEMORY: "memory",
    Bound.COMPUTE: "compute",
    Bound.LAUNCH: "launch",
    Bound.NEITHER: "neither",
    Bound.UNKNOWN: UNKNOWN,
}

# What is said of the time of kernels that nothing is known to bound.
NO_BOUND: Mapping[Bound, str] = {Bound.NEITHER: "neither compute- nor memory-bound", Bound.UNKNOWN: ""}

TO_DO: Mapping[Advice, str] = {
    Advice.REDUCE_OVERHEAD: (
        'The device waits for launches: mode="reduce-overhead" replays them without the CPU. '
        "To see what else keeps it waiting: `frames` and `breaks`"
    ),
    Advice.HOST: (
        "The device waits though launches are replayed: what the CPU does around them takes longer "
        "(Python, guards, autograd, eager ops). More work in each call hides it"
    ),
    Advice.OUTSIDE: "More work runs outside of compiled graphs than within: see `frames` for what runs eagerly",
    Advice.COPIES: (
        "Inputs are copied before each replay of launches: keep them in the same tensors "
        "(torch._dynamo.mark_static_address), or give fewer"
    ),
    Advice.MAX_AUTOTUNE: (
        'Matrix products are far below the ceiling: mode="max-autotune" looks for faster ones; small sizes stay slow'
    ),
    Advice.FUSION: "Most time goes into moving memory: fewer bytes help, by fusion or a smaller dtype; see `kernels`",
    Advice.MEASURE_AGAIN: "Measure again on a quiet machine; more calls with --repeats N, in Python repeats=N",
}
DOUBTS: Mapping[Doubt, str] = {
    Doubt.WAITED: "calls waited for a processor: other programs run, or more threads than there are processors",
    Doubt.UNEVEN: "a usual call took more than three times as long as the fastest",
    Doubt.SPREAD: "calls of the same work differ by more than half of their median",
    Doubt.HELD_UP: "under the profiler the same work took longer than a whole call without it",
    Doubt.FAR_BELOW: "every kernel took more than 100 times what this device needs for its work",
}
UNUSABLE = "times of this profile are not usable: see `profile`"
CEILING_TOO_LOW = (
    "A kernel computes faster than this device can, as measured: that ceiling was measured on a busy machine, and "
    "possible savings are larger than shown"
)

_REMARKS: Mapping[Remark, str] = {
    Remark.NO_GRADIENTS: "called without gradients: --training, in Python training=True, times forward and backward",
    Remark.STILL_COMPILING: "it went on compiling while calls were timed ({times}): these are not steady calls",
    Remark.LESS_PRECISION: (
        'products of f32 may be made in less precision: torch.get_float32_matmul_precision() is "{name}"'
    ),
    Remark.NO_CPP_TIMES: "C++ kernels of this recording were not found in this process: they have no times",
    Remark.NO_TIME: "no time is known of {launches} of the graphs that ran: not run, or not told apart from others",
    Remark.LOSS_ADDED: (
        "the backward starts from the sum of what the call returns: aten::sum and aten::ones_like are for that"
    ),
    Remark.TIMING_COST: "each launch seems {microseconds} longer than it is: what it takes to time it",
    Remark.SAME_CODE: "several compilations have the same output code: their times are with the last one",
    Remark.UNKNOWN_GRAPH: "a compiled graph ran that is not in this recording",
    Remark.BY_NAMES: "a compiled graph was recognised by the names of its kernels",
    Remark.OTHER_COUNT: "{name} ran {times} in a call of its graph, whose code has {of}",
    Remark.TOO_FEW: ("between two generated kernels fewer kernels ran than libraries were called: they have no times"),
    Remark.BY_PLACE: "kernels of several library calls in a row are shared out among them by their place",
    Remark.KEPT_WAITING: "the calling thread had a processor for {share} of a usual call",
    Remark.UNEVEN: "a usual call took {ratio} times as long as the fastest",
    Remark.WORDS: "{name}",
}


def note_words(told: ProfileNote) -> str:
    """A remark as a sentence."""
    number = told.number or 0
    return _REMARKS[told.remark].format(
        name=told.name,
        times=plural(int(number), "time"),
        launches=plural(int(number), "launch", "launches"),
        microseconds=f"{number:.2f} µs",
        share=percent(number, 1),
        ratio=f"{number:.3g}",
        of=plural(told.of or 0, "launch", "launches"),
    )
