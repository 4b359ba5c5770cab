"""Recordings, the pages of them, and what stands in a page."""

from __future__ import annotations

import base64
import gzip
import json
import re
from functools import cache
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

from msgspec import Struct
from msgspec.structs import replace

import compiler_lens
from compiler_lens.recording.model import Graph, Kernel, Recording, SourceFile, SourceLine
from compiler_lens.render.page.page import report_page

TESTS = Path(__file__).parent.parent
FILES = {
    "gpt": TESTS / "gpu" / "data" / "gpt-default-profiled.clens.gz",
    "tuned": TESTS / "gpu" / "data" / "gpt-max-autotune-cold.clens.gz",
    "odd": TESTS / "gpu" / "data" / "oddities-reduce-overhead-cold.clens.gz",
    "log": TESTS / "gpu" / "data" / "resnet-max-autotune-cold.trace.log.gz",
    "broken": TESTS / "pictures" / "data" / "broken.clens.gz",
}
EVIL = "</script><!--<img src=x onerror=\"hacked=1\"><svg onload='hacked=1'>&amp;\u202e\u2028`${hacked=1}`{{7*7}}]]>"


@cache
def recording(name: str) -> Recording:
    """One of the recordings of the repository."""
    return compiler_lens.load(FILES[name], strict=True)


@cache
def page(name: str, *, redact: bool = False) -> str:
    """Its page."""
    return report_page(recording(name), redact=redact)


def data(html: str) -> dict[str, Any]:
    """Everything that a page holds as data, by name."""
    found = re.findall(r'<script type="application/octet-stream" id="data-([\w-]+)">([A-Za-z0-9+/=]*)</script>', html)
    held = {name: json.loads(gzip.decompress(base64.b64decode(packed))) for name, packed in found}
    for shelf in ("file", "kernel", "graph", "change"):
        if shelf in held:
            keys = [key for pack in held[shelf] for key in pack]
            held[shelf] = [one for number in range(len(held[shelf])) for one in held.pop(f"{shelf}-{number}")]
            assert len(keys) == len(set(keys)) == len(held[shelf])
    return held


def longer(value: Any, lines: int) -> Any:
    """A recording of the same program, written so many lines further down."""
    if isinstance(value, SourceFile):
        return SourceFile(value.file, "# above\n" * lines + value.text)
    if isinstance(value, SourceLine):
        return replace(value, line=value.line + lines)
    if isinstance(value, (tuple, list)):
        return type(value)(longer(each, lines) for each in value)
    if not isinstance(value, Struct):
        return value
    return replace(value, **{name: longer(getattr(value, name), lines) for name in value.__struct_fields__})


def rows(block: dict[str, Any]) -> list[list[Any]]:
    """The rows of a table, cell by cell."""
    columns = [[one["cells"][at] for at in one["rows"]] for one in block["columns"]]
    assert all(len(column) == block["size"] for column in columns)
    return [list(row) for row in zip(*columns, strict=True)]


def all_text(html: str) -> str:
    """All that stands in a page, without its own program, the data opened."""
    shown = re.sub(r"<script[ >].*?</script>|<style>.*?</style>", "", html, flags=re.DOTALL)
    return shown + json.dumps(data(html), ensure_ascii=False)


class Elements(HTMLParser):
    """The elements of a page with their attributes; what is open must be closed again in order."""

    VOID = frozenset(("meta", "input", "br", "link", "img", "rect", "path"))

    def __init__(self, html: str) -> None:
        super().__init__()
        self.open: list[str] = []
        self.found: list[tuple[str, dict[str, str | None]]] = []
        self.feed(html)
        self.close()
        assert not self.open, self.open

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.found.append((tag, dict(attrs)))
        if tag not in self.VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.found.append((tag, dict(attrs)))

    def handle_endtag(self, tag: str) -> None:
        if tag not in self.VOID:
            assert self.open[-1:] == [tag], f"</{tag}> in {self.open[-4:]} at {self.getpos()}"
            self.open.pop()


_KEPT = frozenset(("dtype", "op", "target", "device", "torch", "key", "gbid", "entry"))


def hostile(value: Any) -> Any:
    """A recording in which everything that a user can name has a name of an attacker's."""
    if isinstance(value, SourceFile):
        lines = value.text.splitlines()
        lines[1:1] = [EVIL, "x" * 1_000_000, '"""']
        return SourceFile(_evil_path(value.file), "\n".join(lines))
    if isinstance(value, (tuple, list)):
        return type(value)(hostile(each) for each in value)
    if not isinstance(value, Struct):
        return value
    return replace(value, **{name: _hostile(name, getattr(value, name), value) for name in value.__struct_fields__})


def _hostile(name: str, inside: Any, of: Any) -> Any:
    if not isinstance(inside, str):
        return hostile(inside)
    if name == "file":
        return _evil_path(inside)
    if not inside or name in _KEPT or (name == "name" and not isinstance(of, Kernel)):
        return inside
    return f"{inside}{EVIL}" if not isinstance(of, Graph) or name != "code" else inside.replace("#", f"#{EVIL}")


def _evil_path(file: str) -> str:
    return file and file.replace(".py", f"{EVIL.replace('/', '')}.py")


def contrast(one: list[float], other: list[float]) -> float:
    """How well one colour is seen on another: 4.5 is what text needs."""
    light, dark = sorted((_luminance(one), _luminance(other)), reverse=True)
    return (light + 0.05) / (dark + 0.05)


def _luminance(colour: list[float]) -> float:
    parts = [c / 255 / 12.92 if c <= 10 else ((c / 255 + 0.055) / 1.055) ** 2.4 for c in colour[:3]]
    return 0.2126 * parts[0] + 0.7152 * parts[1] + 0.0722 * parts[2]
