"""A Document as a part of the page: what is read stands there as text, tables are data for the script."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any

from markupsafe import Markup, escape

from compiler_lens.render.figures import written
from compiler_lens.render.page.ink import PageLinks
from compiler_lens.render.page.pool import Pool
from compiler_lens.views.document import (
    Annotated,
    Aside,
    Block,
    Branch,
    Card,
    Change,
    Column,
    Command,
    Comparison,
    Document,
    Excerpt,
    Fields,
    Fold,
    Gap,
    Lead,
    Line,
    Listing,
    Paragraph,
    Quoted,
    Section,
    Table,
    Tiles,
    Timeline,
    Tree,
)
from compiler_lens.views.parts import (
    At,
    Cell,
    Compiled,
    Figure,
    File,
    KernelName,
    Kind,
    Part,
    Parts,
    Places,
    Span,
    Stacked,
    Tone,
    ToView,
    Web,
)
from compiler_lens.views.text import clean, one_line, seconds

_LONGEST = 400  # characters of a line of code
_LONGEST_TEXT = 2_000


@dataclass(frozen=True, slots=True)
class DocumentPart:
    """One view's part of the page: its text, and the tables that the script makes in it."""

    title: str
    count: int | None
    html: Markup
    tables: tuple[dict[str, Any], ...]


def document_part(view: str, title: str, document: Document, links: PageLinks) -> DocumentPart:
    """Return the part of the page that shows a view's document; addresses call it `view`."""
    writer = _Writer(view, links)
    inside = _joined(writer.top(title, document.blocks))
    html = Markup('<section class="view" id="view-{}">\n<h1>{}</h1>\n{}</section>\n').format(view, title, inside)
    return DocumentPart(title, document.count, html, tuple(writer.tables))


def drawn_part(view: str, document: Document, links: PageLinks, pool: Pool) -> dict[str, Any]:
    """Return a document for the script, which draws it when it is first looked at; code goes to the pool of texts."""
    writer = _Writer(view, links, pool)
    return {"html": writer.blocks(document.blocks), "tables": writer.tables}


@dataclass(slots=True)
class _Writer:
    view: str
    links: PageLinks
    pool: Pool | None = None  # where code goes that the script shows
    tables: list[dict[str, Any]] = field(default_factory=list)

    def top(self, title: str, blocks: Sequence[Block]) -> Iterable[Markup]:
        for block in blocks:
            if isinstance(block, Section) and block.title == title:  # which stands above it already
                yield Markup('<p class="figures"><span>{}</span></p>\n').format(clean(block.summary))
                yield self.blocks(block.blocks)
            else:
                yield self._block(block)

    def blocks(self, blocks: Sequence[Block]) -> Markup:
        return _joined(self._block(block) for block in blocks)

    def _block(self, block: Block) -> Markup:  # noqa: C901, PLR0911, PLR0912 -- one for each type of block
        match block:
            case Gap() | Command():  # commands are for who reads this on a terminal
                return Markup()
            case Line() | Paragraph():
                tone = block.tone if isinstance(block, Paragraph) else Tone.PLAIN
                return _element("p", self._parts(block.parts), tone.value) + _NEWLINE
            case Quoted():
                quoted = one_line(block.text, _LONGEST_TEXT)
                return Markup("<p{}>{}</p>\n").format(_class(block.tone), quoted) if quoted else Markup()
            case Table():
                return self._standing(block) if block.beneath or block.is_short else self._table(block)
            case Fields():
                rows = ((row.label, self.blocks(row.blocks)) for row in block.fields)
                return Markup("<dl>\n{}</dl>\n").format(
                    _joined(Markup("<dt>{}</dt><dd>{}</dd>\n").format(*row) for row in rows)
                )
            case Excerpt():
                return _excerpt(block)
            case Change():
                return _change(block)
            case Listing():
                return self._listing(block)
            case Annotated():
                return Markup()  # the script draws files: render/page/source.py has what it reads
            case Comparison():
                both = (
                    Markup('<pre class="code">{}</pre>').format("\n".join(side)) for side in (block.before, block.after)
                )
                return _joined(both)
            case Tree():
                return self._branches(block.branches)
            case Tiles():
                tiles = ((one.label, self._part(one.value), _note(one.note)) for one in block.tiles)
                made = (Markup("<div><dt>{}</dt><dd>{}{}</dd></div>\n").format(*one) for one in tiles)
                return Markup('<dl class="tiles">\n{}</dl>\n').format(_joined(made)) if block.tiles else Markup()
            case Lead():
                return Markup('<div class="lead">\n{}</div>\n').format(self.blocks(block.blocks))
            case Card():
                return self._card(block)
            case Aside():
                return Markup("<details><summary>{}</summary>\n{}</details>\n").format(
                    block.title, self.blocks(block.blocks)
                )
            case Fold():
                head = Markup('<summary>{} <span class="quiet">{}</span></summary>\n').format(
                    self._parts(block.head), clean(block.summary)
                )
                return Markup("<details>{}{}</details>\n").format(head, self.blocks(block.blocks))
            case Timeline():
                self.tables.append({"strip": timeline_data(block)})
                return self._drawn("strip later", "compilations in order")
            case Section():
                summary = Markup(' <span class="quiet">{}</span>').format(clean(block.summary)) if block.summary else ""
                head = Markup("<h2>{}{}</h2>\n").format(block.title, summary) if block.title else Markup()
                return head + self.blocks(block.blocks)

    def _card(self, card: Card) -> Markup:
        counted = Markup('<span class="quiet">{}.</span> ').format(card.number) if card.is_counted else Markup()
        note = Markup(' <span class="chip">{}</span>').format(self._parts(card.note)) if card.note else Markup()
        inside = self._parts(card.head) + note, self.blocks(card.blocks)
        if not card.number:
            return Markup('<div class="chapter">\n<p class="head">{}</p>\n{}</div>\n').format(*inside)
        return Markup('<article class="card" id="{}-{}">\n<h2>{}{}</h2>\n{}</article>\n').format(
            self.view, card.number, counted, *inside
        )

    def _listing(self, block: Listing) -> Markup:
        if self.pool is None:
            return Markup('<pre class="code">{}</pre>\n').format(clean(block.code))
        pack, place = self.pool.add(block.code)
        return Markup('<div class="later" data-text="{}-{}" data-language="{}"></div>\n').format(
            pack, place, block.language
        )

    def _branches(self, branches: Sequence[Branch]) -> Markup:
        if not branches:
            return Markup()
        items = (_element("li", self._parts(one.parts) + self._branches(one.children)) for one in branches)
        return _element("ul", _joined(items), "tree")

    def _parts(self, parts: Parts) -> Markup:
        return _joined(self._part(part) for part in parts)

    def _part(self, part: Part) -> Markup:
        if isinstance(part, str):
            return ticks(part)
        if isinstance(part, Places):
            return Markup(", ").join(_link(*line, "place") for line in self._lines(part))
        told, address = self._told(part)
        if isinstance(part, Span) and part.tone is Tone.CODE:
            return _element("code", escape(told))
        if isinstance(part, Web):
            return Markup('<a href="{}" rel="noreferrer noopener" target="_blank">{}</a>').format(address, told)
        if address:
            return _link(told, address, _LINKS[type(part)])
        text = ticks(told) if isinstance(part, Span) else escape(told)
        return _element("span", text, part.tone.value) if part.tone is not Tone.PLAIN else text

    def _told(self, part: Part) -> tuple[str, str]:  # noqa: C901, PLR0911 -- one for each type of part
        """How a part is written, and where it leads to."""
        match part:
            case At(place=place):
                return self.links.at(place), self.links.href(place)
            case Places():
                return ", ".join(text for text, _ in self._lines(part)), ""
            case File(path=path):
                return clean(self.links.names.file(path)), ""
            case Compiled(compile_id=compile_id):
                return f"[{compile_id}]", self.links.graph(compile_id)
            case KernelName(name=name, index=index):
                return clean(name), self.links.kernel_at(index)
            case ToView(words=words, view=view, card=card):
                return clean(words), f"#/{view}/{card}" if card else f"#/{view}"
            case Web(title=title, address=address):
                return clean(title), address
            case Figure(value=value, kind=kind):
                return ("~" if part.about else "") + written(value, kind), ""
            case Span(text=text):
                return clean(text), ""
            case str():
                return clean(part), ""

    def _lines(self, part: Places) -> tuple[tuple[str, str], ...]:
        """How each line is written, and where it leads to."""
        told = []
        last = ""
        for at in part.places:
            told.append((str(at.line) if at.file == last else self.links.at(at), self.links.href(at)))
            last = at.file
        return tuple(told)

    def _table(self, table: Table) -> Markup:
        self.tables.append(self._data(table))
        return self._drawn("later", table.title or "table")

    def _drawn(self, kind: str, name: str) -> Markup:
        """Where the script puts what was noted last in `tables`."""
        return Markup('<div class="{}" data-table="{}" data-of="{}" aria-label="{}"></div>\n').format(
            kind, len(self.tables) - 1, self.view, name
        )

    def _standing(self, table: Table) -> Markup:
        """A table that is read, not searched, and needs no script."""
        used = [i for i, _ in enumerate(table.columns) if any(row[i] not in {None, ""} for row in table.rows)]
        columns = [table.columns[i] for i in used]
        names = _joined(Markup('<th scope="col">{}</th>').format(column.name) for column in columns)
        head = Markup("<thead><tr>{}</tr></thead>\n").format(names) if any(c.name for c in columns) else Markup()
        rows = []
        for number, row in enumerate(table.rows):
            cells = (self._standing_cell(row[i], table.columns[i]) for i in used)
            rows.append(Markup("<tr>{}</tr>\n").format(_joined(cells)))
            beneath = self.blocks(table.beneath[number]) if table.beneath else ""
            if beneath:
                rows.append(Markup('<tr class="under"><td colspan="{}">{}</td></tr>\n').format(len(used), beneath))
        kind = "small" if table.is_short else "list"
        return Markup('<table class="{}">\n{}<tbody>\n{}</tbody></table>\n').format(kind, head, _joined(rows))

    def _standing_cell(self, value: Cell, column: Column) -> Markup:
        if isinstance(value, Stacked):
            value = value.upper
        if value is None or isinstance(value, (int, float)):
            shown = escape(written(value, column.kind))
        else:
            shown = self._parts(value if isinstance(value, tuple) else (value,))
        given = Markup(' class="n"') if column.kind.is_figure else _class(column.tone)
        return Markup("<td{}>{}</td>").format(given, shown)

    def _data(self, table: Table) -> dict[str, Any]:
        """A table for the script: each column with what stands in it, each once, and which of that each row has."""
        made = []
        for number, column in enumerate(table.columns):
            if column.kind is Kind.BAR:
                continue
            places: dict[Any, int] = {}
            rows = [places.setdefault(self._cell(row[number], column), len(places)) for row in table.rows]
            if any(cell != "" for cell in places):
                name = f"{column.name}\n{column.beneath}".rstrip()
                made.append({"name": _sign(column) + name, "cells": list(places), "rows": rows})
        return {"table": table.title, "note": "", "size": len(table.rows), "columns": made}

    def _cell(self, value: Cell, column: Column) -> Any:  # noqa: PLR0911 -- one for each type of cell
        """Text; or text, what it is sorted by, and where it leads to; then what stands beneath, and the like of it."""
        if isinstance(value, Stacked):
            return self._stacked(value, column)
        if value is None or isinstance(value, str):
            return clean(value or column.missing)
        if isinstance(value, (int, float)):
            text = written(value, column.kind)
            return (text, value) if text else ""
        if isinstance(value, Places):
            return ("", None, self._lines(value)) if value.places else ""
        if isinstance(value, Figure):
            return (self._told(value)[0], value.value)
        if isinstance(value, tuple):
            told = [self._told(part) for part in value]
            address = next((address for _, address in told if address), None)
            return "".join(text for text, _ in told), None, address
        text, address = self._told(value)
        return (text, None, address) if address else text

    def _stacked(self, value: Stacked, column: Column) -> Any:
        upper, beneath = self._cell(value.upper, column), self._cell(value.beneath, _PLAIN)
        if not beneath and not value.found_by:
            return upper
        text, *more = upper if isinstance(upper, tuple) else (upper,)
        rank, address = (*more, None, None)[:2]
        under, under_rank = beneath[:2] if isinstance(beneath, tuple) else (beneath, None)
        return text, rank, address, under, clean(value.found_by) or under, under_rank


_PLAIN = Column()


def _sign(column: Column) -> str:
    """How a column's name tells the script what it holds: figures, few values to choose from, code."""
    if column.kind.is_figure:
        return "#"
    if column.choice:
        return "="
    return "`" if column.kind is Kind.CODE else ""


def timeline_data(timeline: Timeline) -> dict[str, Any]:
    """Return a timeline for the script: of each compilation where it leads to, its name, seconds, and what happened."""
    bars = []
    for bar in timeline.bars:
        told = f"[{bar.compile_id}] {clean(bar.name)}, {seconds(bar.seconds)}"
        parts = [round(part, 6) for part in bar.parts]
        address = PageLinks.graph(bar.compile_id)
        bars.append([address, told, bar.seconds or 0.0, parts, bar.graph_breaks, int(bar.is_recompile)])
    return {"phases": list(timeline.phases), "bars": bars}


_LINKS: dict[type, str] = {At: "place", Compiled: "id", KernelName: "name mono", ToView: "to"}


def _note(note: str) -> Markup:
    return Markup('<span class="quiet">{}</span>').format(clean(note)) if note else Markup()


_NEWLINE = Markup("\n")


def _element(name: str, inside: Markup, kind: str = "") -> Markup:
    """An element. This is much faster than `Markup.format`, and pages are made of thousands."""
    given = f' class="{kind}"' if kind else ""
    return Markup(f"<{name}{given}>{inside}</{name}>")  # noqa: S704 -- names and classes are ours, the rest is escaped


def _link(text: str, address: str, kind: str) -> Markup:
    if not address:
        return escape(text)
    return Markup(f'<a class="{kind}" href="{escape(address)}">{escape(text)}</a>')  # noqa: S704 -- escaped here


def _class(tone: Tone) -> Markup:
    return Markup(' class="{}"').format(tone.value) if tone.value else Markup()


def ticks(text: str) -> Markup:
    """Return text whose backticks mark code."""
    cleaned = clean(text)
    if "`" not in cleaned:
        return escape(cleaned)
    parts = enumerate(map(escape, cleaned.split("`")))
    return _joined(_element("code", part) if number % 2 else part for number, part in parts)


def _excerpt(block: Excerpt) -> Markup:
    lines = (
        Markup('<span class="{}"><i>{}</i>{}</span>\n').format(
            "hit" if number == block.marked else "", number, clean(text)[:_LONGEST]
        )
        for number, text in enumerate(block.lines, block.first)
    )
    return Markup('<pre class="code numbered">{}</pre>\n').format(_joined(lines))


def _change(block: Change) -> Markup:
    removed = [Markup("<del>{}</del>\n").format(clean(text)) for text in block.before]
    added = [Markup("<ins>{}</ins>\n").format(clean(text)) for text in block.after]
    return Markup('<pre class="code swap">{}</pre>\n').format(_joined([*removed, *added]))


def _joined(parts: Iterable[Markup]) -> Markup:
    return Markup("").join(parts)
