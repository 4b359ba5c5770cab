"""A function of torch that a hook goes round: where it is, what it shows, and which of its arguments are read."""

from __future__ import annotations

import importlib
import inspect
import sys
from typing import Any

from msgspec import Struct


class NotOfferedError(Exception):
    """This torch does not have a function, or has one that takes other arguments. The message names what is missing."""


class Arguments(Struct, frozen=True):
    """Reads the arguments that an observer wants, by position or by name as the call gave them."""

    wanted: tuple[tuple[str, int, Any], ...]  # name, position, default; "*name" stands for all from there on

    def of(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> list[Any]:
        """Return the wanted arguments of one call, in the order in which they are wanted."""
        found: list[Any] = []
        for name, position, default in self.wanted:
            if name in kwargs:
                found.append(kwargs[name])
            elif name.startswith("*"):
                found.append(args[position:])
            else:
                found.append(args[position] if position < len(args) else default)
        return found


class Place(Struct, frozen=True):
    """A function of torch, and what we learn there."""

    module: str
    name: str  # "function" or "Class.method"
    fact: str
    reads: tuple[str, ...] = ()  # the parameters that our observer reads; "*args" for the rest of the positional ones
    needs: tuple[str, ...] = ()  # what else it reads: attributes of classes in this or another module, "module:A.b"

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
        """Return the object that holds the function and the attribute's name; None if this torch has no such thing."""
        return _resolve(self.module, self.name)

    def find(self) -> tuple[Any, str, Arguments]:
        """Return the holder, the attribute's name, and how to read the arguments of a call.

        Raises `NotOfferedError` if this torch has no such function, or one that does not give what is read.
        """
        found = self.resolve()
        if found is None:
            raise NotOfferedError(f"{self.module}.{self.name}")
        for need in self.needs:
            module, _, name = need.partition(":")
            if _resolve(module, name) is None:
                raise NotOfferedError(f"{module}.{name}")
        function = inspect.getattr_static(*found)
        function = function.__func__ if isinstance(function, (staticmethod, classmethod)) else function
        try:
            parameters = list(inspect.signature(function).parameters.values())
        except (TypeError, ValueError) as error:
            raise NotOfferedError(f"parameters of {self.module}.{self.name}") from error
        by_name = {f"*{p.name}" if p.kind is p.VAR_POSITIONAL else p.name: p for p in parameters}
        lacking = [name for name in self.reads if name not in by_name]
        if lacking:
            raise NotOfferedError(f"parameter {', '.join(lacking)} of {self.module}.{self.name}")
        return *found, Arguments(tuple(_wanted(name, by_name[name], parameters) for name in self.reads))


def _resolve(module: str, name: str) -> tuple[Any, str] | None:
    try:
        holder: Any = importlib.import_module(module)
        *path, attribute = name.split(".")
        for part in path:
            holder = getattr(holder, part)
        getattr(holder, attribute)
    except Exception:  # noqa: BLE001 -- an import may fail in any way, and torch will say so itself
        return None
    return holder, attribute


def _wanted(name: str, parameter: inspect.Parameter, parameters: list[inspect.Parameter]) -> tuple[str, int, Any]:
    if parameter.kind is parameter.KEYWORD_ONLY:
        return name, sys.maxsize, parameter.default
    return name, parameters.index(parameter), parameter.default


def _is_half_imported(module: Any) -> bool:
    return bool(getattr(getattr(module, "__spec__", None), "_initializing", False))
