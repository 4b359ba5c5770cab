"""What every view shows is as in gold files, byte for byte: nothing changes there unless somebody means it."""

from __future__ import annotations

import difflib
import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parent))

from shown import GOLD, texts

_TEXTS = texts()
_LISTED = 60  # lines of a difference


@pytest.mark.parametrize("name", _TEXTS)
def test_what_is_shown_is_as_in_its_gold_file(name: str) -> None:
    made, gold = _TEXTS[name](), GOLD / name
    before = gold.read_text(encoding="utf-8") if gold.exists() else ""
    if made != before:
        changed = list(difflib.unified_diff(before.splitlines(), made.splitlines(), "gold", "now", n=1, lineterm=""))
        shown = "\n".join(changed[:_LISTED])
        pytest.fail(f"{gold} differs; if it is better now: python tests/gold/renew.py\n{shown}", pytrace=False)


def test_there_is_no_gold_file_of_nothing() -> None:
    assert {path.name for path in GOLD.iterdir()} == set(_TEXTS)
