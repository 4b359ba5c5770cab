"""Calls of libraries: why there is one, what it computes, what only makes its inputs ready, what could stand for it.

Inductor counts a kernel that makes inputs ready to the same op as the call. Which ops it has templates of its own for,
which can compute what follows, is a fact of torch: torch/_inductor/kernel/mm.py, bmm.py, conv.py and
`use_triton_template`, `use_cpp_gemm_template` in utils.py, the same in 2.11, 2.13 and 2.15.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Mapping
from enum import Enum

from msgspec import Struct

from compiler_lens.facts.kernels.lineage import Lineage, NodeProvenance, is_generated, op_packet
from compiler_lens.recording.ids import CodeId, CompileId, KernelId, LaunchId
from compiler_lens.recording.model import Compilation, Environment, Kernel, KernelKind

# Ops that Inductor gives to a library or fills into a template: no other kernel of its own computes them.
_LIBRARY_OPS = frozenset(
    ("aten.convolution", "aten.convolution_backward", "aten.mm", "aten.addmm", "aten.bmm", "aten.baddbmm")
)


class Library(Enum):
    """Why a launch is the call of something that Inductor did not write."""

    PRODUCT = "matrix product"
    CONVOLUTION = "convolution"
    ATTENTION = "attention"
    CHOSEN = "chosen by autotuning"  # among kernels that Inductor can write, and this was the fastest
    COPY = "copy"  # plain work on a tensor, between devices as a rule
    NO_LOWERING = "no lowering"  # an op that Inductor calls as it is


class Help(Struct, frozen=True):
    """What a generated launch does for a later call of a library whose op it has too."""

    call: Kernel
    whole: bool  # it has no other op: it is a copy into the layout that the library wants


_LIBRARIES: tuple[tuple[re.Pattern[str], Library], ...] = (
    (re.compile(r"attention"), Library.ATTENTION),
    (re.compile(r"convolution|conv[123]d"), Library.CONVOLUTION),
    (re.compile(r"mm(?![a-z])|matmul|linear|\b(?:add)?mv\b|\bdot\b"), Library.PRODUCT),
)


def library_of(kernel: Kernel, won: Mapping[CompileId, Collection[str]]) -> Library | None:
    """Return why a kernel is not one of Inductor's own; None for one that is.

    `won` has the ops for which a library's kernel won against Inductor's.
    """
    if is_generated(kernel):
        return None
    called = kernel.name.split(".")[1:]  # "extern_kernels.mm", "torch.ops.aten.topk.default"
    if not set(called).isdisjoint(won.get(kernel.compile_id, ())):
        return Library.CHOSEN
    if kernel.name.startswith("Tensor."):
        return Library.COPY
    # A fallback is called by its op's name; a library's function may have a name that says nothing.
    for text in (".".join(called), " ".join(kernel.aten) if kernel.kind is KernelKind.EXTERN else ""):
        for pattern, library in _LIBRARIES:
            if pattern.search(text):
                return library
    return Library.NO_LOWERING


def helps(lineages: Iterable[Lineage]) -> Mapping[LaunchId | KernelId, Help]:
    """Return the launches that have an op of a library's call, with the first such call of each."""
    lineages = tuple(lineages)
    calls: dict[tuple[CodeId, str], tuple[int, Kernel]] = {}  # with their lines
    for one in lineages:
        if one.called is not None and not is_generated(one.kernel):
            for node in _library_nodes(one):
                calls.setdefault((one.kernel.code_id, node.name), (one.called.line, one.kernel))
    found: dict[LaunchId | KernelId, Help] = {}
    for one in lineages:
        if is_generated(one.kernel) and one.kernel.kind is not KernelKind.TEMPLATE:
            served = [calls.get((one.kernel.code_id, node.name)) for node in _library_nodes(one)]
            theirs = [call for call in served if call is not None]
            if theirs and (one.called.line if one.called else 0) < theirs[0][0]:
                found[one.id] = Help(theirs[0][1], len(theirs) == sum(not node.is_view for node in one.nodes))
    return found


def computed_ops(lineages: Iterable[Lineage]) -> tuple[str, ...]:
    """Return the ATen ops of calls of a library: of all that is counted to one, what it is called for."""
    lineages = tuple(lineages)
    nodes = [node for one in lineages for node in _library_nodes(one)]
    nodes = nodes or [node for one in lineages for node in one.nodes]
    return tuple(dict.fromkeys(op_packet(node.target) for node in nodes if node.target and not node.is_view))


def _library_nodes(lineage: Lineage) -> list[NodeProvenance]:
    return [node for node in lineage.nodes if node.target and op_packet(node.target) in _LIBRARY_OPS]


# -- templates in their place


class Template(Enum):
    """Whether there is a template for an op on a device."""

    TRIED = "tried"  # by mode="max-autotune"
    CONSTANT_WEIGHT = "constant weight"  # only where freezing made the weight a constant
    NONE = "none"


# By type of device, and by the last part of the name that is called; nothing is known of others, nor advised. A CPU's
# bmm and baddbmm have a template for some dtypes and layouts, which no recording has.
TEMPLATES: Mapping[tuple[str, str], Template] = {
    **{("cuda", op): Template.TRIED for op in ("mm", "addmm", "bmm", "baddbmm", "convolution")},
    **{("cpu", op): Template.CONSTANT_WEIGHT for op in ("mm", "addmm")},
    ("cpu", "convolution"): Template.NONE,
}


def template_of(kernel: Kernel) -> Template | None:
    """Return what is known of a library's call; None where nothing is, or where it is not a library's."""
    if kernel.kind is not KernelKind.EXTERN:
        return None
    return TEMPLATES.get((kernel.device.partition(":")[0], _called(kernel)))


def can_try(kernel: Kernel, compilation: Compilation | None, environment: Environment) -> bool:
    """Return whether mode="max-autotune" would try a template in place of a call, and nothing has done so yet."""
    if template_of(kernel) is not Template.TRIED or asks_for_tuning(compilation, environment):
        return False
    # It names whose kernels are tried: Triton's are Inductor's own.
    setting = "max_autotune_conv_backends" if _called(kernel) == "convolution" else "max_autotune_gemm_backends"
    backends = _setting(setting, compilation, environment)
    return not backends or "TRITON" in backends.upper()


def asks_for_tuning(compilation: Compilation | None, environment: Environment) -> bool:
    """Return whether templates are tried already."""
    if compilation is not None and compilation.mode.startswith("max-autotune"):
        return True
    return any(_setting(name, compilation, environment) == "True" for name in ("max_autotune", "max_autotune_gemm"))


def _called(kernel: Kernel) -> str:
    return kernel.name.rpartition(".")[2]


def _setting(name: str, compilation: Compilation | None, environment: Environment) -> str:
    """Return a setting of Inductor's as text; empty where it is torch's default."""
    options = compilation.options if compilation is not None else {}
    return str(options[name]) if name in options else environment.config.get(f"_inductor.config.{name}", "")
