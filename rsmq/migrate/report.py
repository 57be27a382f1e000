"""
The report of a migration, for people and for programs.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, Literal, TypeAlias

from rsmq.migrate.sources.item import STATES, Item, ItemState

Way: TypeAlias = Literal["copy", "move"]

_EXAMPLES = 5


@dataclass(slots=True)
class Note:
    """
    Something that has no place in a queue.

    Attributes:
        text: what.
        number: of how many messages; 0 is of the queue itself.
        examples: some of them, as their source names them.
    """

    text: str
    number: int = 0
    examples: list[str] = field(default_factory=list)


@dataclass(slots=True)
class Report:
    """
    What became of one queue.

    Attributes:
        source: the queue, as in ``rfq:ndvi``.
        queue: where its messages go.
        way: copy or move.
        dry_run: whether nothing was done.
        found: how many messages there were, by state.
        arrived: how many came to the queue now.
        before: how many were there from an earlier run; of a move how many were copied before,
            and are taken from the source only.
        consumed: how many of those are not there any more.
        left: how many stayed at the source as they are in flight.
        left_out: how many go nowhere; the notes say why.
        missing: how many could not be found again, or not as they were.
        checksum: of all messages that are in both; the same for the same bodies.
        created: whether the queue was made.
        verified: whether every message is where it must be.
        seconds: how long it took.
        notes: what has no place in a queue.
    """

    source: str
    queue: str
    way: Way
    dry_run: bool = False
    found: dict[ItemState, int] = field(default_factory=lambda: dict.fromkeys(STATES, 0))
    arrived: int = 0
    before: int = 0
    consumed: int = 0
    left: int = 0
    left_out: int = 0
    missing: int = 0
    checksum: int = 0
    created: bool = False
    verified: bool = False
    seconds: float = 0.0
    notes: dict[str, Note] = field(default_factory=dict)

    def note(self, text: str, example: str | None = None) -> None:
        """Note something of the queue, or of a message of this name."""
        note = self.notes.setdefault(text, Note(text))
        if example is not None:
            note.number += 1
            if len(note.examples) < _EXAMPLES:
                note.examples.append(example)

    def note_items(self, items: Iterable[Item], maxsize: int) -> None:
        """Note what has no place of each message, and which are larger than the queue takes."""
        for item in items:
            for text in item.notes:
                self.note(text, name_of(item))
            if item.body is not None and -1 != maxsize < len(item.body):
                self.note(f"larger than the queue's maxsize of {maxsize}: kept", name_of(item))

    @property
    def done(self) -> bool:
        """Whether all is well."""
        return self.dry_run or self.verified

    def as_dict(self) -> dict[str, Any]:
        """As JSON has it."""
        return {
            "source": self.source,
            "queue": self.queue,
            "way": self.way,
            "dry_run": self.dry_run,
            "created": self.created,
            "found": dict(self.found),
            "arrived": self.arrived,
            "before": self.before,
            "consumed": self.consumed,
            "left": self.left,
            "left_out": self.left_out,
            "missing": self.missing,
            "checksum": f"{self.checksum:032x}",
            "verified": self.verified,
            "seconds": round(self.seconds, 3),
            "notes": [
                {"text": note.text, "messages": note.number, "examples": note.examples}
                for note in self.notes.values()
            ],
        }

    def as_text(self) -> str:
        """A few lines."""
        return "\n".join(map(_printable, _lines(self)))

    def as_bridge_text(self) -> list[str]:
        """A line on what a bridge has moved, and those on what was otherwise."""
        lines = [f"{self.arrived:,} messages moved", *_numbers(self), *_notes(self)]
        return list(map(_printable, lines))


def _lines(report: Report) -> Iterable[str]:
    states = ", ".join(f"{n:,} {s.replace('_', ' ')}" for s, n in report.found.items() if n)
    yield f"{report.source} -> {report.queue}: {states or 'no messages'}"
    verb = "copied" if report.way == "copy" else "moved"
    if report.dry_run:
        yield f"  would be {verb}: {report.arrived:,}"
    else:
        rate = f", {report.arrived / report.seconds:,.0f} a second" if report.seconds > 1 else ""
        created = "; the queue was created" if report.created else ""
        yield f"  {verb}: {report.arrived:,} in {report.seconds:.1f} s{rate}{created}"
    yield from _numbers(report)
    yield from _notes(report)
    if not report.dry_run:
        told = "verified" if report.verified else "NOT VERIFIED: run it again"
        yield (
            f"  {told}, checksum {report.checksum:032x}"
            if any(report.found.values())
            else f"  {told}"
        )


def _numbers(report: Report) -> Iterable[str]:
    earlier = "there from an earlier run"
    if report.way == "move":
        earlier = "were here before, by a copy or a broken-off run: only taken from the source"
    for number, text in (
        (report.before, earlier),
        (report.consumed, "copied before and consumed since"),
        (report.left, "in flight: left at the source; --in-flight takes them too"),
        (report.left_out, "left out, as noted below"),
        (report.missing, "NOT FOUND AGAIN as they were"),
    ):
        if number:
            yield f"  {number:,} {text}"


def _notes(report: Report) -> Iterable[str]:
    for note in report.notes.values():
        messages = f" ({note.number:,}: {', '.join(note.examples)}{_more(note)})"
        yield f"  note: {note.text}{messages if note.number else ''}"


def _printable(line: str) -> str:
    """Without what a terminal would obey: names are whatever their source has."""
    return "".join(each if each.isprintable() else repr(each)[1:-1] for each in line)


def _more(note: Note) -> str:
    return ", ..." if note.number > len(note.examples) else ""


def name_of(item: Item) -> str:
    """A message as a report names it."""
    raw = item.identity or item.element.raw
    text = raw.decode("utf-8", "backslashreplace")
    return text if len(text) <= 40 else text[:37] + "..."  # noqa: PLR2004 - a line has room for it


def as_json(reports: Iterable[Report]) -> str:
    """All reports of a run, as one JSON text."""
    parts: list[Mapping[str, Any]] = [report.as_dict() for report in reports]
    return json.dumps(parts, ensure_ascii=False, indent=2)
