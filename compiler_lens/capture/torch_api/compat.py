"""Every private name of torch's that we use, in one place, and a probe for each.

Seen in torch 2.11, 2.13 and 2.15. A name that a torch does not have is no error: the fact behind it is
recorded as unavailable.
"""

from __future__ import annotations

import importlib
import logging
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from types import MethodType
from typing import Any

from compiler_lens.recording.event import WRAPPER_FILE


@dataclass(frozen=True, slots=True)
class Place:
    """A function of torch's that we put a hook round: where it is, and what we learn there."""

    module: str
    name: str  # "function" or "Class.method"
    fact: str

    @property
    def is_being_imported(self) -> bool:
        """Whether its module cannot be had yet: a lens may open in the middle of torch's imports, which go in circles.

        torch/_inductor/standalone_compile.py imports torch._dynamo; importing AOTAutograd at that moment fails, as it
        wants a class of that half imported file.
        """
        module = sys.modules.get(self.module)
        if module is not None:
            return _is_half_imported(module)
        return any(_is_half_imported(m) for name, m in list(sys.modules.items()) if name.startswith("torch."))

    def resolve(self) -> tuple[Any, str] | None:
        """The object that holds it and the attribute's name; None if this torch has no such thing."""
        try:
            holder: Any = importlib.import_module(self.module)
            *path, attribute = self.name.split(".")
            for part in path:
                holder = getattr(holder, part)
            getattr(holder, attribute)
        except Exception:  # noqa: BLE001 -- an import may fail in any way, and torch will say so itself
            return None
        return holder, attribute


def _is_half_imported(module: Any) -> bool:
    return bool(getattr(getattr(module, "__spec__", None), "_initializing", False))


FRAME = Place("torch._dynamo.convert_frame", "CatchErrorsWrapper.__call__", "how each frame ended, and whose it is")
DYNAMO_GRAPH = Place(
    "torch._dynamo.output_graph", "OutputGraph.call_user_compiler", "modules and stacks of Dynamo nodes"
)
JOINT_GRAPH = Place(
    "torch._functorch._aot_autograd.graph_compile", "_log_joint_graph", "origins of nodes of the joint graph"
)
TRAINING_GRAPHS = Place(
    "torch._functorch._aot_autograd.graph_compile", "_log_fw_bw_graphs", "origins of forward and backward nodes"
)
INFERENCE_GRAPH = Place(
    "torch._functorch._aot_autograd.graph_compile", "_log_inference_graph", "origins of inference nodes"
)
POST_GRAD = Place("torch._inductor.compile_fx", "_recursive_post_grad_passes", "origins of post-grad nodes")
# Code generators import it by name, IR nodes at each call.
KERNEL_NODES = tuple(
    Place(module, "set_kernel_post_grad_provenance_tracing", "which nodes each kernel computes")
    for module in ("torch._inductor.debug", "torch._inductor.codegen.cpp", "torch._inductor.codegen.triton")
)
FUSED = Place("torch._inductor.debug", "log_ir_post_fusion", "what each launch reads and writes")
NOT_FUSED = Place("torch._inductor.scheduler", "WhyNoFuse.__call__", "why two kernels were not fused into one")
AUTOTUNE = Place("torch._inductor.select_algorithm", "AlgorithmSelectorCache.log_results", "autotuning tables")
TRITON_CONFIGS = Place(
    "torch._inductor.runtime.triton_heuristics", "CachingAutotuner.benchmark_all_configs", "timings of Triton configs"
)
TRITON_DESCENT = Place(
    "torch._inductor.runtime.triton_heuristics",
    "CachingAutotuner.coordinate_descent_tuning",
    "the Triton configs that coordinate descent ends at",
)
POST_COMPILE = Place(
    "torch._inductor.output_code",
    "CompiledFxGraph.post_compile",
    "CUDA graphs, and facts of earlier runs on a warm cache",
)


def trace_logger() -> logging.Logger:
    """The logger that torch's structured trace goes through."""
    return logging.getLogger("torch.__trace")


def cudagraph_logger() -> logging.Logger:
    """The logger that says why a CUDA graph was skipped when it came to run."""
    return logging.getLogger("torch._inductor.cudagraph_utils.__cudagraphs")


def trace_structured_code() -> Any:
    """The code object of torch's trace function, to recognise its frame."""
    from torch._logging import _internal

    return _internal.trace_structured.__code__


def interned_files() -> dict[str, int]:
    """File names that the trace refers to by number."""
    from torch._logging import structured

    table: dict[str, int] = structured.INTERN_TABLE
    return table


def compile_context() -> Any:
    """The current CompileContext (its object is the same when a backward is compiled later), or None."""
    from torch._guards import CompileContext

    context = CompileContext.try_get()
    return None if context is None or context.compile_id is None else context


def torch_id(context: Any) -> tuple[int | None, int | None, int | None]:
    """Frame, recompile and compiled-autograd number of a CompileContext."""
    compile_id = context.compile_id
    return compile_id.frame_id, compile_id.frame_compile_id, getattr(compile_id, "compiled_autograd_id", None)


def innermost_backend(callback: Any) -> Any:
    """The user's backend under Dynamo's wrappers: a _TorchCompileWrapper, an Inductor wrapper or a callable."""
    for _ in range(20):
        inner = getattr(callback, "_torchdynamo_orig_backend", None)
        if inner is None:
            break
        callback = inner
    return callback


def module_class(value: Any) -> str:
    """The class name of a module, empty for anything else."""
    import torch

    # Not isinstance: a value's own `__class__` may be a property of the user's.
    return type(value).__name__ if issubclass(type(value), torch.nn.Module) else ""


def wrapped_module(frame: Any) -> Any:
    """The module that torch compiles through a wrapper of its own, inner(fn) in external_utils.py; or None."""
    if not frame.f_code.co_filename.endswith(WRAPPER_FILE):
        return None
    value = frame.f_locals.get("fn")
    value = value.__self__ if type(value) is MethodType else value
    return value if module_class(value) else None


def torch_folder() -> str:
    """Where torch is installed."""
    import torch

    return str(Path(torch.__file__).parent)


def inductor_wrapper(mode: str | None, options: dict[str, Any] | None, name: str | None) -> Callable[..., Any]:
    """What `torch.compile(backend="inductor")` builds: the compiler that we hand over to.

    Raises what torch raises for a mode or an option that it does not know.
    """
    import torch

    wrapper = torch._TorchCompileInductorWrapper
    if name is None:  # 2.11 knows no name
        return wrapper(mode, options, None)  # type: ignore[no-any-return]
    return wrapper(mode, options, None, name)  # type: ignore[no-any-return]


def mode_and_options(backend: Any) -> tuple[str, Mapping[str, Any]]:
    """What the user gave to `torch.compile` with a backend: a mode's name, and options beyond those of the mode.

    Inductor's own wrapper keeps only the options that a mode stands for: the largest mode that is in them is meant.
    """
    settings = getattr(backend, "kwargs", None)
    if isinstance(settings, dict):
        return settings.get("mode") or "default", settings.get("options") or {}
    config = getattr(backend, "config", None)
    if not isinstance(config, dict):
        return "default", {}
    from torch._inductor import list_mode_options

    modes = {name: _with_underscores(options) for name, options in list_mode_options().items()}
    meant = [name for name, options in modes.items() if options and options.items() <= config.items()]
    mode = max(meant, key=lambda name: len(modes[name]), default="default")
    return mode, {key: value for key, value in config.items() if key not in modes.get(mode, {})}


def _with_underscores(options: Mapping[str, Any]) -> dict[str, Any]:
    return {key.replace("-", "_"): value for key, value in options.items()}


def graph_lowering() -> Any:
    """Inductor's GraphLowering while it generates code, else None."""
    from torch._inductor.virtualized import V

    graph = V.graph
    return graph if hasattr(graph, "is_backward") else None


def cache_folder() -> str:
    """Where Inductor keeps its caches."""
    from torch._inductor.runtime.runtime_utils import cache_dir

    return str(cache_dir())


def fx_cache_key(compiled: Any) -> Any:
    """What a CompiledFxGraph, or what stands for one, says of its entry in the FX graph cache."""
    return getattr(compiled, "_fx_graph_cache_key", None) or getattr(compiled, "cache_key", None)


# make_set_enable_dynamic() in torch/_dynamo/eval_frame.py: what else it sets is as it is by default.
_FOR_DYNAMIC = {
    ("_dynamo.config.assume_static_by_default", "False"): True,
    ("_dynamo.config.automatic_dynamic_shapes", "False"): False,
}


def config_lines(dynamic: bool | None = None) -> dict[str, str]:
    """Settings of Dynamo, AOTAutograd and Inductor whose values differ from torch's defaults, as text.

    What torch patches while it compiles keeps its value as one that was set: after a mode, or an option, there is
    `max_autotune = False`. What it patches for the frame's `dynamic` is no setting either.
    """
    found: dict[str, str] = {}
    for module in ("torch._dynamo.config", "torch._functorch.config", "torch._inductor.config"):
        config: Any = importlib.import_module(module)
        for line in config.codegen_config().splitlines():
            full_name, equals, value = line.partition(" = ")
            name = full_name.removeprefix(f"{module}.")
            known = getattr(config, "_config", {}).get(name)
            if equals and name != full_name and (known is None or value != repr(known.default)):
                found[full_name.removeprefix("torch.")] = value[:200]
    patched = set() if dynamic is None else {setting for setting, value in _FOR_DYNAMIC.items() if value is dynamic}
    return {name: value for name, value in found.items() if (name, value) not in patched}


_EVERY_LENS = "compiler_lens, any"


class _EqualsEveryLens:
    """Stands in torch's registry for all lenses, without keeping one alive."""

    _tags = ()
    __hash__ = None  # type: ignore[assignment]

    def __init__(self, is_lens: Callable[[Any], bool]) -> None:
        self._is_lens = is_lens

    def __eq__(self, other: object) -> bool:
        return self._is_lens(other)


def register_lenses(is_lens: Callable[[Any], bool]) -> None:
    """Have torch treat a lens as a backend of its own: after a compilation it lets go of example tensors only then.

    _is_registered_backend() in torch/_dynamo/backends/registry.py compares with the registry's values.
    """
    from torch._dynamo.backends import registry

    registry._COMPILER_FNS[_EVERY_LENS] = _EqualsEveryLens(is_lens)


def forget_lenses() -> None:
    """Take back `register_lenses`."""
    from torch._dynamo.backends import registry

    registry._COMPILER_FNS.pop(_EVERY_LENS, None)


def registered_backend(name: str) -> Any:
    """The object that torch loaded for a backend's name, or None before anybody asked for it."""
    from torch._dynamo.backends import registry

    return registry._COMPILER_FNS.get(name)
