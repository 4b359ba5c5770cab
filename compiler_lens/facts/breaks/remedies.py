"""What to change about a graph break: our own advice, for readers who know PyTorch and nothing of the compiler."""

from __future__ import annotations

import functools
import re
from collections.abc import Mapping
from enum import Enum
from pathlib import Path

from msgspec import Struct
from msgspec.structs import replace

from compiler_lens.facts.data_file import read_data
from compiler_lens.recording.model import BreakCause

_LONGEST = 10_000  # characters of a cause that are looked at
_FILE = Path(__file__).with_name("remedies.toml")


class Arm(Enum):
    """What happens where the test of an `if` is true, as far as its own lines show."""

    RAISES = "raises"  # an error, and nothing else
    ENDS = "ends"  # a `return`, a `break`
    SAVES_WORK = "saves work"  # on to the next round of a loop, since there is nothing to compute with
    OTHER = "other"


class Setting(Struct, frozen=True):
    """A configuration under which the same code does not break."""

    name: str  # "torch._dynamo.config.capture_scalar_outputs"
    value: str  # "True"
    price: str  # what it costs, one sentence


class Remedy(Struct, frozen=True, kw_only=True):
    """One kind of break, why the compiler cannot go on there, and how the code looks without it."""

    name: str  # ours, stable: "branch_on_tensor"
    gb_types: tuple[str, ...]  # as the registry of any supported torch has them
    about: str = ""  # a regular expression that the cause's type, operator, context or explanation holds; empty: any
    why: str
    change: str
    before: str
    after: str
    setting: Setting | None = None
    leave: str = ""  # when not to touch it


class Rewrite(Struct, frozen=True):
    """A suggestion for lines of the user's own."""

    before: tuple[str, ...]  # the user's lines, dedented
    after: tuple[str, ...]  # what to write instead, with their own names
    is_complete: bool  # False: a sketch; its `...`, or what `needs` says, is left to the user
    needs: str = ""  # what the rewrite assumes


class RemedyTable(Struct, frozen=True):
    """What remedies.toml says."""

    remedies: Mapping[str, Remedy]  # by name, in the file's order
    branches: tuple[str, ...]  # the remedies for a branch on a value
    of_arms: Mapping[Arm, Remedy]  # instead of these, where the branch is there for that
    by_type: Mapping[str, tuple[Remedy, ...]]  # all others by registry type: those that ask for certain words first


@functools.cache
def remedy_table() -> RemedyTable:
    """Return the remedies of the package. Raise KeyError or TypeError for a name or a field that the file has wrong."""
    data = read_data(_FILE)
    settings = {name: Setting(**entry) for name, entry in data["settings"].items()}
    remedies = {}
    for name, entry in data["remedies"].items():
        gb_types: list[str] = []
        for gb_type in entry.pop("gb_types"):
            gb_types += data["groups"][gb_type[1:]] if gb_type.startswith("@") else [gb_type]
        setting = settings[entry.pop("setting")] if "setting" in entry else None
        remedies[name] = Remedy(name=name, gb_types=tuple(gb_types), setting=setting, **entry)
    of_arms = {Arm(arm): remedies[name] for arm, name in data["branches_that"].items()}
    by_type: dict[str, tuple[Remedy, ...]] = {}
    for remedy in sorted(remedies.values(), key=lambda remedy: not remedy.about):
        for gb_type in remedy.gb_types if remedy not in of_arms.values() else ():
            by_type[gb_type] = (*by_type.get(gb_type, ()), remedy)
    return RemedyTable(remedies, tuple(data["branches"]), of_arms, by_type)


def remedy_for(cause: BreakCause, arm: Arm | None = None) -> Remedy | None:
    """Return the most specific advice on a cause; None where we have none.

    Args:
        cause: what torch says about the break.
        arm: what happens where the test of the branch at its line is true, if there is one.

    """
    table = remedy_table()
    # Not more than torch ever says: some patterns look at each beginning for all that follows.
    said = f"{cause.gb_type}\n{cause.higher_order_op}\n{cause.context}\n{cause.explanation}"[:_LONGEST]
    found = next((r for r in table.by_type.get(cause.gb_type, ()) if re.search(r.about, said)), None)
    if found is None or arm is None or found.name not in table.branches:
        return found
    return table.of_arms.get(arm) or (replace(found, leave="") if arm is Arm.OTHER else found)
