"""Ways of being wrong that were seen once: of each class other members, with what must be said and what must not."""

from __future__ import annotations

import re
from collections import Counter
from pathlib import Path

import pytest
import torch
from msgspec import Struct, field, toml

from compiler_lens.render.console import report, view
from compiler_lens.render.console.page import Page
from tests.truth.trial import Trial, compiled, eager, equal
from tests.truth.verdict import said
from tests.truth_classes.hints import unprinted

PROGRAMS = Path(__file__).with_name("programs")
NAMES = sorted(path.stem for path in PROGRAMS.glob("*.py"))
WIDE = Page(width=400, color=False)


class Member(Struct, frozen=True, forbid_unknown_fields=True):
    """What stands in the TOML file beside a program: regular expressions on all that is said of it."""

    kind: str = field(name="class")
    said: tuple[str, ...]
    never: tuple[str, ...]


def member(name: str) -> Member:
    return toml.decode((PROGRAMS / f"{name}.toml").read_bytes(), type=Member)


def everything(run: Trial) -> str:
    """All findings, what to do first, and the views of breaks and recompiles, on lines that are not cut."""
    first = report(run.recording, width=400, color=False)
    views = [view(run.recording, name, WIDE) for name in ("breaks", "recompiles")]
    return "\n".join([*map(said, run.explained.findings), first, *views])


# It says not where a branch's tensor is computed, and compiles what is printed another number of times.
NOT_IN_2_11 = {"norm_in_caller", "scores_in_parts"}


@pytest.mark.parametrize("name", NAMES)
def test_what_must_be_said_is_and_what_must_not_is_not(name: str) -> None:
    one, source = member(name), (PROGRAMS / f"{name}.py").read_text()
    run = compiled(name, source)
    assert not run.error
    assert run.events
    assert equal(run.results, eager(name, source))
    words = everything(run)
    missing = [wanted for wanted in one.said if not re.search(wanted, words)]
    assert bool(missing) == (torch.__version__ < "2.12" and name in NOT_IN_2_11), missing
    assert unprinted(run.explained.cards, view(run.recording, "breaks", Page(width=1000, color=False))) == []
    assert [found[0] for wrong in one.never if (found := re.search(wrong, words))] == []


def test_each_class_has_two_members_or_more() -> None:
    members = Counter(member(name).kind for name in NAMES)
    assert min(members.values()) > 1, members
