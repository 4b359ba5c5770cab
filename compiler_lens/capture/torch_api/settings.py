"""Settings of Dynamo, AOTAutograd and Inductor: what differs from the defaults, and what a measurement changes."""

from __future__ import annotations

import contextlib
import functools
import importlib
import sys
import threading
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from collections.abc import Set as AbstractSet
from contextvars import ContextVar, copy_context
from operator import attrgetter, is_
from pathlib import Path
from typing import Any

from msgspec import Struct

from compiler_lens.capture.torch_api.places import Place

# All settings are set by the one and taken back by the other, also within `patch` and for `triton.cudagraphs`.
SET, TAKEN_BACK = (
    Place(
        "torch.utils._config_module",
        f"ConfigModule.{name}",
        "settings that are made between two compilations",
        ("name",),
    )
    for name in ("__setattr__", "__delattr__")
)

_MODULES = _DYNAMO, _FUNCTORCH, _INDUCTOR = "torch._dynamo.config", "torch._functorch.config", "torch._inductor.config"

# make_set_enable_dynamic() in torch/_dynamo/eval_frame.py: what else it sets is as it is by default.
_FOR_DYNAMIC = {
    ("_dynamo.config.assume_static_by_default", "False"): True,
    ("_dynamo.config.automatic_dynamic_shapes", "False"): False,
}


class Settings:
    """The settings of Dynamo, AOTAutograd and Inductor, which are asked for each time a frame compiles.

    Rendering them takes torch 2.11 half a millisecond, so nothing is rendered again while nothing was set since. To
    look at all eight hundred for that is a sixth of what we take of the smallest compilation: where it is heard which
    ones are set, those are looked at, once a thread has looked at all.
    """

    def __init__(self) -> None:
        self._look: _Look | None = None  # the last
        self._local = threading.local()

    def lines(self, dynamic: bool | None = None, heard: AbstractSet[str] | None = None) -> Mapping[str, str]:
        """Return the settings whose values differ from torch's defaults, as text.

        What torch patches while it compiles keeps its value as one that was set: after a mode, or an option, there is
        `max_autotune = False`. What it patches for the frame's `dynamic` is no setting either.

        Args:
            dynamic: the frame's.
            heard: the names of all settings that were set since somebody listens, a set that grows; None where nobody
                does.
        """
        look = self._look
        if look is None or not (self._stands(look, heard) and repr(look.changeable) == look.said):
            look = self._look = _look()
            self._look_closely(look, heard)
        if dynamic is None:
            return look.lines
        patched = {setting for setting, value in _FOR_DYNAMIC.items() if value is dynamic}
        return {name: value for name, value in look.lines.items() if (name, value) not in patched}

    def _stands(self, look: _Look, heard: AbstractSet[str] | None) -> bool:
        close: _Close | None = getattr(self._local, "close", None)
        if (
            close is not None
            and close.is_of(look, heard)
            and all(map(is_, map(close.read, close.places), close.values))
        ):
            return True
        is_same = look.values is not None and _is_as_it_was(look.values)
        if is_same:
            self._look_closely(look, heard)
        return is_same

    def _look_closely(self, look: _Look, heard: AbstractSet[str] | None) -> None:
        self._local.close = None if heard is None or look.values is None else _close(look, heard)


class _Look(Struct, frozen=True):
    """What was set, when that was last looked at."""

    values: _Values | None  # None where this torch keeps them otherwise
    changeable: Sequence[Any]  # those of them that can change in place
    said: str  # by these then
    lines: Mapping[str, str]


class _Close(Struct, frozen=True):
    """What is looked at again of a look: the settings that may have been set since."""

    look: _Look
    heard: AbstractSet[str]
    count: int  # how many were heard then
    places: Sequence[Any]
    read: Callable[[Any], Any]
    values: Sequence[Any]

    def is_of(self, look: _Look, heard: AbstractSet[str] | None) -> bool:
        """Return whether nothing else was heard since that look."""
        return self.look is look and self.heard is heard and self.count == len(self.heard)


def _look() -> _Look:
    values = _values_set()
    lines = {name: value for module in _MODULES for name, value in _lines_of(module).items()}
    changeable = [value for value in (values[1] if values else ()) if type(value) not in _CONSTANT]
    return _Look(values, changeable, repr(changeable), lines)


def _close(look: _Look, heard: AbstractSet[str]) -> _Close:
    count = len(heard)  # before they are read: another thread may set one meanwhile
    every = map(_entries_of, _MODULES)
    places: Sequence[Any] = (*_unheard(), *(one[name] for one in every for name in tuple(heard) if name in one))
    read: Callable[[Any], Any] = _OVERRIDE
    if _variables() is not None:
        places, read = tuple(map(_OVERRIDE, places)), ContextVar.get
    return _Close(look, heard, count, places, read, tuple(map(read, places)))


@functools.cache
def _unheard() -> tuple[Any, ...]:
    """What torch keeps of settings that it sets by other ways, as of those that a reader gets a copy of."""
    names = [name.removeprefix("_dynamo.config.") for name, _ in _FOR_DYNAMIC]
    patched = [_entries_of(_DYNAMO)[name] for name in (*names, "_shapes_spec") if name in _entries_of(_DYNAMO)]
    return (*patched, *(entry for entry in _entries() if type(entry.default) not in _CONSTANT))


@functools.cache
def settings_of_process() -> Settings:
    """Return what is asked for settings, by one lens after the other."""
    return Settings()


# What cannot change in place; torch's sign for "not set" is an object().
_CONSTANT = frozenset((object, bool, int, float, str, type(None)))
_OVERRIDE = attrgetter("user_override")
# Where the program's values of settings are kept, and these values, or the sign that there is none.
_Values = tuple[Sequence[Any], Sequence[Any]]


def _values_set() -> _Values | None:
    """What the program set; None where this torch keeps that otherwise."""
    try:
        if (variables := _variables()) is None:
            return _entries(), tuple(map(_OVERRIDE, _entries()))
    except AttributeError:
        return None
    now = copy_context()
    found = tuple(_set_in(now, variables))
    return found, tuple(now[variable] for variable in found)


def _is_as_it_was(known: _Values) -> bool:
    """Whether the program set nothing since."""
    places, values = known
    if (variables := _variables()) is None:  # of each of eight hundred, so no step is Python's
        return all(map(is_, map(_OVERRIDE, places), values))
    now = copy_context()
    is_same = all(map(is_, map(now.get, places), values))
    return is_same and len(places) == len(_set_in(now, variables))


def _set_in(now: Mapping[ContextVar[Any], Any], variables: frozenset[ContextVar[Any]]) -> Collection[ContextVar[Any]]:
    """Which variables have a value: a handful. torch 2.13 leaves two of its own behind in each compilation."""
    return variables.intersection(now) if len(now) < len(variables) else [one for one in variables if one in now]


@functools.cache
def _variables() -> frozenset[ContextVar[Any]] | None:
    """The variables that hold what is set, of newer torches; None where each entry holds a value itself."""
    overrides = list(map(_OVERRIDE, _entries()))
    return frozenset(overrides) if all(isinstance(one, ContextVar) for one in overrides) else None


@functools.cache
def _entries() -> tuple[Any, ...]:
    """What torch keeps of each setting: a module of settings has all of them once it is imported."""
    return tuple(entry for module in _MODULES for entry in _entries_of(module).values())


def _entries_of(module: str) -> Mapping[str, Any]:
    entries: Mapping[str, Any] = _config(module)._config
    return entries


def _config(module: str) -> Any:
    return sys.modules.get(module) or importlib.import_module(module)


# AotCodeCompiler.compile() in torch/_inductor/codecache.py notes in the user's dict what it compiled for.
_METADATA, _OWN = "aot_inductor.metadata", "AOTI_"


def _lines_of(module: str) -> dict[str, str]:
    config = _config(module)
    found: dict[str, str] = {}
    for line in config.codegen_config().splitlines():
        full_name, equals, value = line.partition(" = ")
        name = full_name.removeprefix(f"{module}.")
        known = getattr(config, "_config", {}).get(name)
        if name == _METADATA:
            value = repr({key: told for key, told in config.aot_inductor.metadata.items() if not key.startswith(_OWN)})
        if equals and name != full_name and (known is None or value != repr(known.default)):
            found[full_name.removeprefix("torch.")] = value[:200]
    return found


def unkeyed() -> dict[str, str]:
    """Return settings that choose ops while a graph is traced and are no part of a cache's key (pytorch#185449)."""
    from torch.backends import cuda

    kinds = ("flash", "mem_efficient", "math", "cudnn")
    allowed = [kind for kind in kinds if getattr(cuda, f"{kind}_sdp_enabled", bool)()]
    return {"torch.nn.attention.sdpa_kernel": ", ".join(allowed)}


# -- modes and options of torch.compile


def modes() -> dict[str, dict[str, Any]]:
    """Return the modes of torch.compile, each with the options that it stands for."""
    from torch._inductor import list_mode_options

    found: dict[str, dict[str, Any]] = list_mode_options()
    return found


def option_names() -> list[str]:
    """Return the names of all options of Inductor."""
    from torch._inductor import list_options

    return list(list_options())


def mode_and_options(backend: Any) -> tuple[str, Mapping[str, Any]]:
    """Return what the user gave to `torch.compile` with a backend: a mode's name, and options beyond those of the mode.

    Inductor's own wrapper keeps only the options that a mode stands for: the largest mode that is in them is meant.
    """
    settings = getattr(backend, "kwargs", None)
    if isinstance(settings, dict):
        return settings.get("mode") or "default", settings.get("options") or {}
    config = getattr(backend, "config", None)
    if not isinstance(config, dict):
        return "default", {}
    known = {
        name: {key.replace("-", "_"): value for key, value in options.items()} for name, options in modes().items()
    }
    meant = [name for name, options in known.items() if options and options.items() <= config.items()]
    mode = max(meant, key=lambda name: len(known[name]), default="default")
    return mode, {key: value for key, value in config.items() if key not in known.get(mode, {})}


# -- what a measurement changes


# Caches on other machines, and what was learned of sizes: a cold compile must find none of it.
_SHARED = {
    _INDUCTOR: ("fx_graph_remote_cache", "autotune_remote_cache", "bundled_autotune_remote_cache"),
    _FUNCTORCH: ("enable_remote_autograd_cache",),
    _DYNAMO: ("automatic_dynamic_local_pgo", "automatic_dynamic_remote_pgo"),
}


@contextlib.contextmanager
def without_shared_caches() -> Iterator[None]:
    """Use no cache of other machines or earlier processes while the block runs, but those in torch's cache folder."""
    with contextlib.ExitStack() as stack:
        for module, names in _SHARED.items():
            config = _config(module)
            stack.enter_context(config.patch({name: False for name in names if hasattr(config, name)}))
        yield


@contextlib.contextmanager
def caches_in(folder: Path) -> Iterator[None]:
    """Keep torch's caches on disk in a folder, those in memory empty; afterwards they are where they were."""
    from torch._inductor import utils

    place: Any = utils._set_env  # what its fresh_cache uses, which knows no folder that is there already
    with place("TORCHINDUCTOR_CACHE_DIR", str(folder)), place("TRITON_CACHE_DIR", str(folder / "triton")):
        utils.clear_caches()
        try:
            yield
        finally:
            utils.clear_caches()


def has_setting(name: str) -> bool:
    """Return whether this torch has a setting of Dynamo."""
    return hasattr(_dynamo(), name)


def recompile_limit() -> int:
    """Return how often a frame is compiled before torch gives it up."""
    return int(getattr(_dynamo(), "recompile_limit", 8))


def is_set(values: Mapping[str, object]) -> bool:
    """Return whether these settings of Dynamo are in force already."""
    return all(_meant(name, value) == getattr(_dynamo(), name) for name, value in values.items())


def dynamo_settings(values: Mapping[str, object]) -> contextlib.AbstractContextManager[Any]:
    """Set settings of Dynamo for a block; to one that is a set, a frozenset's values are added.

    What the block shows of sizes is kept from the disk: later processes must not learn it (torch/_dynamo/pgo.py).
    """
    off_disk: dict[str, Any] = {name: False for name in _SHARED[_DYNAMO] if has_setting(name)}
    patched: contextlib.AbstractContextManager[Any] = _dynamo().patch(
        off_disk | {name: _meant(name, value) for name, value in values.items()}
    )
    return patched


def inductor_draws_as_eager() -> contextlib.AbstractContextManager[Any]:
    """Have what Inductor generates draw random numbers as torch does without it, for a block."""
    config = importlib.import_module(_INDUCTOR)
    patched: contextlib.AbstractContextManager[Any] = config.patch(fallback_random=True)
    return patched


def kept_dynamo_settings() -> Callable[[], None]:
    """Return a function that gives all settings of Dynamo the values of now."""
    config = _dynamo()
    kept = config.get_config_copy()

    def restore() -> None:
        now = config.get_config_copy()
        for name, value in kept.items():
            if now[name] != value:
                setattr(config, name, value)

    return restore


def _dynamo() -> Any:
    return _config(_DYNAMO)


def _meant(name: str, value: object) -> object:
    return {*getattr(_dynamo(), name), *value} if isinstance(value, frozenset) else value
