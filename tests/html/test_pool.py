"""What the page's script reads: everything comes back, without what could steer a reader's eye."""

from __future__ import annotations

import base64
import gzip
import json

import pytest

from compiler_lens.render.page import pool
from compiler_lens.render.page.pool import Pool, packed, shelved


def unpacked(text: str) -> object:
    return json.loads(gzip.decompress(base64.b64decode(text)))


@pytest.mark.parametrize(
    ("raw", "shown"),
    [
        ("a\x0cb", "ab"),  # a form feed: JSON writes \f, which is printable
        ("a\x08b", "ab"),
        ("a\x1b[31mb", "ab"),
        ("a\u202eb", "ab"),
        ("a\x7fb", "ab"),
        ("a\tb", "a   b"),
        ("a\nb", "a\nb"),
        ("模型 é", "模型 é"),
        ("C:\\frame \\u0041", "C:\\frame \\u0041"),
    ],
)
def test_control_characters_do_not_reach_the_page(raw: str, shown: str) -> None:
    assert unpacked(packed({"code": [raw], raw: (1, None)})) == {"code": [shown], shown: [1, None]}
    (_, pack) = list(shelved("kernel", [("k", raw)]))[1]
    assert unpacked(pack) == [shown]


def test_a_text_is_kept_once_and_found_by_its_place() -> None:
    kept = Pool()
    assert [kept.add(text) for text in ("a", "b", "a", "c")] == [(0, 0), (0, 1), (0, 0), (0, 2)]
    assert [(name, unpacked(text)) for name, text in kept.parts()] == [("texts-0", ["a", "b", "c"])]


def test_many_texts_are_in_packs_of_a_size(monkeypatch: pytest.MonkeyPatch) -> None:
    kept = Pool(_room=10)
    monkeypatch.setattr(pool, "_PACK", 5)
    assert [kept.add(text) for text in ("x" * 10, "y" * 4, "z", "w")] == [(0, 0), (1, 0), (1, 1), (2, 0)]
    assert [name for name, _ in kept.parts()] == ["texts-0", "texts-1", "texts-2"]


def test_many_things_are_in_packs_that_name_their_keys(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pool, "_SHELF", 6)
    packs = {name: unpacked(text) for name, text in shelved("kernel", [("a", "1234"), ("b", "5"), ("c", "6")])}
    assert packs == {"kernel": [["a"], ["b", "c"]], "kernel-0": ["1234"], "kernel-1": ["5", "6"]}
    assert dict(shelved("none", [])).keys() == {"none"}


def test_the_same_data_give_the_same_bytes_that_no_element_ends_in() -> None:
    data = {"code": "</script><script>alert(1)</script>" * 9}
    assert packed(data) == packed(dict(data))
    assert "<" not in packed(data)
