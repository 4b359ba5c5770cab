"""What differs between two recordings as one HTML file, put together as the page of one recording is."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path

from compiler_lens.facts.program.ownership import Ownership, UserPaths
from compiler_lens.recording.errors import UsageError, writing
from compiler_lens.recording.output_files import Product, write_whole
from compiler_lens.recording.redact import redacted_diff
from compiler_lens.render.names import FileNames
from compiler_lens.render.page.document import document_part, drawn_part
from compiler_lens.render.page.links import PageLinks, addresses_of
from compiler_lens.render.page.pool import Pool, packed, shelved
from compiler_lens.render.page.shell import own_file, rendered, script
from compiler_lens.views.diff import words as told
from compiler_lens.views.diff.kernels import change_blocks
from compiler_lens.views.diff.pair import pair_blocks
from compiler_lens.views.diff.pairs import Half, pairs_of
from compiler_lens.views.diff.views import SUMMARY, VIEWS, Asked, Compared
from compiler_lens.views.document import Block, Document
from compiler_lens.views.text import number, short_paths


def diff_page(compared: Compared, *, user_paths: UserPaths = (), redact: bool = False) -> str:
    """Return the whole page. With `redact`, without source text and without the folders of files."""
    asked = asked_of(compared, user_paths=user_paths, redact=redact)
    names = FileNames.of(asked.before).joined(FileNames.of(asked.after))
    after = [(pair.first.after or pair.first.before)[0] for pair in asked.pairs]
    addresses = addresses_of((one.compile_id, one.kernel, one.direction.value, one.launch) for one in after)
    links, pool = PageLinks(names, "", {}, {}, addresses), Pool()
    parts = {}
    for view_name, view in VIEWS.items():
        count = view.count(asked.diff)
        if view.title and count != 0:
            name = "overview" if view_name == SUMMARY else view_name
            document = Document(view.blocks(asked), None, count)
            parts[name] = document_part(name, view.title, document, links, pool)
    return rendered(
        "diff.html",
        own_file("page.css") + own_file("diff.css"),
        script("elements", "code", "comparison", "tables", "diff", "search", "views"),
        name=" → ".join(asked.names),
        views=[(name, part.title, "" if part.count is None else number(part.count)) for name, part in parts.items()],
        documents=[part.html for part in parts.values()],
        redact=redact,
        data=[
            *((name, packed(part.tables)) for name, part in parts.items() if part.tables),
            *_data(asked, links, pool),
            *pool.parts(),
        ],
    )


def write_diff(
    compared: Compared, target: Path, *, user_paths: UserPaths = (), redact: bool = False, overwrite: bool = False
) -> None:
    """Write the page to a file. Raises `UsageError` where it cannot be written, or is there and no page of ours."""
    page = diff_page(compared, user_paths=user_paths, redact=redact)
    with writing(target, UsageError):
        write_whole(target, page.encode(), Product.PAGE, overwrite=overwrite)


def asked_of(compared: Compared, *, user_paths: UserPaths = (), redact: bool = False) -> Asked:
    """Return all that a page shows of two recordings, found out once."""
    before, after, result, names = compared.before, compared.after, compared.result, compared.names
    own = Ownership.of(user_paths)
    if redact:
        before, after, result = redacted_diff(before, after, result, own.owns)
        names = ("BEFORE", "AFTER")
    short = short_paths(names)
    halves = Half.of(before, own), Half.of(after, own)
    pairs = pairs_of(result, *halves)
    return Asked(result, before, after, (short[names[0]], short[names[1]]), halves=halves, pairs=pairs)


def _data(asked: Asked, links: PageLinks, pool: Pool) -> Iterator[tuple[str, str]]:
    """What the script reads besides tables: what the search finds, and the views of single pairs and changes."""
    keys = links.addresses
    found = [
        (name, pair.verdict, f"#/kernel/{key}", told.case_names(pair.first))
        for key, pair in zip(keys, asked.pairs, strict=True)
        for name in dict.fromkeys(one.kernel for one in (*pair.first.before, *pair.first.after))
    ]
    yield "main", packed({"search": found})

    def drawn(view: str, key: str, name: str, blocks: Sequence[Block]) -> tuple[str, dict[str, object]]:
        return key, {"key": key, "name": name, **drawn_part(view, Document(tuple(blocks), None), links, pool)}

    pairs = zip(keys, asked.pairs, strict=True)
    yield from shelved("kernel", (drawn("kernel", k, told.names(p.first), [*pair_blocks(asked, p)]) for k, p in pairs))
    changes = enumerate(asked.diff.kernels)
    yield from shelved(
        "change", (drawn("change", f"{n + 1}", told.change_words(c), change_blocks(asked, n)) for n, c in changes)
    )
