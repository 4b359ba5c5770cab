"""Random numbers that compiled code draws: Inductor has its own way to, so a trial compares others than a run gives."""

from __future__ import annotations

from collections.abc import Iterator

from compiler_lens.facts.program.ownership import Ownership
from compiler_lens.recording.model import GraphStage, Node, Recording, SourceLine

# Ops for which Inductor draws others than eager, from one seed; of `normal_`, `uniform_`, `multinomial`, `randperm`
# and dropout of whole channels it draws the same (torch 2.13, CPU).
_DRAWING = frozenset({
    "rand", "rand_like", "randn", "randn_like", "randint", "randint_like", "bernoulli", "exponential_",
    "gumbel_softmax", "rrelu",
})  # fmt: skip
# torch/_numpy/random.py, as Dynamo names these in a graph: after `wrapped_`.
_OF_NUMPY = frozenset({
    "choice", "normal", "rand", "randint", "randn", "random", "random_sample", "sample", "shuffle", "uniform",
})  # fmt: skip
_DROPS = "dropout"
_ATTENTION = "scaled_dot_product_attention"
_OFF = 2  # the argument of these that says whether they do anything: after the tensor and the probability


def drawn_at(recording: Recording, own: Ownership) -> SourceLine | None:
    """Return the first line of the user's of which compiled code draws random numbers; None where none does."""
    drawing = filter(_draws, _captured(recording))
    return next((at for node in drawing if (at := own.innermost(node.source))), None)


def draws_of_numpy(recording: Recording) -> bool:
    """Return whether compiled code draws what the program asks NumPy for: torch's generator gives other numbers."""
    return any(node.target.partition("_wrapped_")[2] in _OF_NUMPY for node in _captured(recording))


def _captured(recording: Recording) -> Iterator[Node]:
    graphs = (one for one in recording.graphs if one.stage is GraphStage.DYNAMO)
    return (node for graph in graphs for node in graph.all_ops)


def _draws(node: Node) -> bool:
    name = node.target.rpartition(".")[2]
    is_dropping = name == _ATTENTION and "dropout_p" in node.arguments and "dropout_p = 0.0" not in node.arguments
    return name in _DRAWING or is_dropping or (name == _DROPS and not _is_off(node.arguments))


def _is_off(arguments: str) -> bool:
    """Whether dropout drops nothing: in evaluation, or with a probability of 0."""
    given = [one.strip() for one in arguments.split(",")]
    named = {"training = False", "p = 0.0"} & set(given)
    return bool(named) or given[_OFF : _OFF + 1] == ["False"] or given[_OFF - 1 : _OFF] == ["0.0"]
