"""A command's arguments in any order: `graph run.clens --stage kernels 0/0`."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from typing import Any

_ONE = (None, 1)


class MixedParser(argparse.ArgumentParser):
    """Takes options also between its other arguments.

    argparse gives optional positional arguments away before the first option, and then knows no place for later ones.
    """

    def parse_known_args(self, args: Sequence[str] | None = None, namespace: Any = None) -> Any:  # type: ignore[override]
        """Parse, options first."""
        return super().parse_known_args(args if args is None else self._options_first(args), namespace)

    def _options_first(self, args: Sequence[str]) -> list[str]:
        if any(not action.option_strings and action.nargs in {"...", "A..."} for action in self._actions):
            return list(args)  # what a command passes on to a script stays as it is
        options: list[str] = []
        others: list[str] = []
        rest = iter(args)
        for argument in rest:
            if argument == "--":
                return [*options, *others, "--", *rest]
            if not argument.startswith("-") or argument == "-":
                others.append(argument)
                continue
            options.append(argument)
            if self._takes_next(argument):
                value = next(rest, None)
                if value is None:  # an option without its value stays last, and does not take another argument
                    return [*options[:-1], *others, argument]
                options.append(value)
        return [*options, *others]

    def _takes_next(self, argument: str) -> bool:
        """Whether an option's value is the argument behind it."""
        known = self._option_string_actions
        fitting = {id(a): a for name, a in known.items() if name == argument} or {
            id(a): a for name, a in known.items() if argument.startswith("--") and name.startswith(argument)
        }
        return len(fitting) == 1 and next(iter(fitting.values())).nargs in _ONE
