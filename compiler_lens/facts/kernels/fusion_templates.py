"""For which calls of libraries Inductor has kernels of its own to try, which can compute what follows: facts of torch.

From torch/_inductor/kernel/mm.py, bmm.py, conv.py and `use_triton_template`, `use_cpp_gemm_template` in utils.py, the
same in 2.11, 2.13 and 2.15. What is not listed here is not known, and nothing is advised for it.
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import Enum

from compiler_lens.recording.model import Compilation, Environment, Kernel, KernelKind


class Template(Enum):
    """Whether there is a template for an op on a device."""

    TRIED = "tried"  # by mode="max-autotune"
    CONSTANT_WEIGHT = "constant weight"  # only where freezing made the weight a constant
    NONE = "none"


# By type of device, and by the last part of the name that is called. A CPU's bmm and baddbmm have a template for some
# dtypes and layouts, which no recording has.
TEMPLATES: Mapping[tuple[str, str], Template] = {
    ("cuda", "mm"): Template.TRIED,
    ("cuda", "addmm"): Template.TRIED,
    ("cuda", "bmm"): Template.TRIED,
    ("cuda", "baddbmm"): Template.TRIED,
    ("cuda", "convolution"): Template.TRIED,
    ("cpu", "mm"): Template.CONSTANT_WEIGHT,
    ("cpu", "addmm"): Template.CONSTANT_WEIGHT,
    ("cpu", "convolution"): Template.NONE,
}

# The setting that names whose kernels are tried, and the name that it must hold for Inductor's own.
_BACKENDS: Mapping[str, str] = {"convolution": "max_autotune_conv_backends"}
_GEMM_BACKENDS = "max_autotune_gemm_backends"


def template_of(kernel: Kernel) -> Template | None:
    """Return what is known of a library's call; None where nothing is, or where it is not a library's."""
    if kernel.kind is not KernelKind.EXTERN:
        return None
    return TEMPLATES.get((kernel.device.partition(":")[0], _called(kernel)))


def can_try(kernel: Kernel, compilation: Compilation | None, environment: Environment) -> bool:
    """Return whether mode="max-autotune" would try a template in place of a call, and nothing has done so yet."""
    if template_of(kernel) is not Template.TRIED or asks_for_tuning(compilation, environment):
        return False
    backends = _setting(_BACKENDS.get(_called(kernel), _GEMM_BACKENDS), compilation, environment)
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
