"""
The report of a migration, for people and for programs.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, fields
from typing import Any, Literal, TypeAlias

from rsmq.errors import RSMQError, add_remedy
from rsmq.errors.printable import escape_unprintable, format_count
from rsmq.migrate.sources.item import STATES, Item, ItemState

Way: TypeAlias = Literal["copy", "move", "verify"]

#: The outcome for the schedule of a periodic message: it is added; it is there; another one of its
#: name is there, and stays; or it can't be added.
ScheduleOutcome: TypeAlias = Literal["added", "present", "other", "failed"]

_MAX_EXAMPLES = 5
#: The texts of the notes of a report.
_NOT_IN_JSON = {"other_records", "lost_settings"}


@dataclass(slots=True)
class Note:
    """
    A fact to report about a queue or its messages, as one that a queue of RSMQ can't store.

    Attributes:
        text: the fact.
        number: the number of messages; 0 for the queue itself.
        examples: names of a few of the messages, as their source names them.
    """

    text: str
    number: int = 0
    examples: list[str] = field(default_factory=list)


@dataclass(slots=True)
class MigrationReport:
    """
    The result of the migration of one queue.

    Attributes:
        source: the queue of the source, as in ``rfq:ndvi``.
        queue: the target queue.
        way: copy, move, or verify, which changes nothing.
        dry_run: whether this was a dry run, which changes nothing.
        found: the number of messages of the source, by state.
        arrived: the number of messages that this run added to the target; of a dry run, that it
            would add.
        before: of a copy, the number of messages that are in the target from an earlier run; of a
            move, of those that were added earlier and are only removed from the source.
        consumed: the number of messages that were copied earlier and are not in the target any
            more.
        left: the number of messages that stay at the source, as they are in flight.
        left_out: the number of messages that are not added; the notes say why.
        missing: the number of messages whose id has another body in the target.
        aside: of a verification, the number of messages that are set aside at the source.
        other_records: the number of messages in the queue whose groups, or whose ``expires`` and
            ``max_retries``, are not those of the source.
        lost_settings: whether the queue lacks an attribute of the source by which messages end, as
            ``keep``.
        checksum: the sum of the hashes of bodies, in any order: of a copy, of all messages of the
            source that can be copied; of a move, of those that this run moved.
        created: whether the target queue was created.
        verified: whether every message was found where it must be, and expires when it must.
        seconds: the duration of the run.
        notes: the facts to report, by their text.
        schedules: the seconds between two times of each periodic message that is taken over, and
            what became of its schedule, by the name of the schedule.
    """

    source: str
    queue: str
    way: Way
    dry_run: bool = False
    created: bool = False
    found: dict[ItemState, int] = field(default_factory=lambda: dict.fromkeys(STATES, 0))
    arrived: int = 0
    before: int = 0
    consumed: int = 0
    left: int = 0
    left_out: int = 0
    missing: int = 0
    aside: int = 0
    other_records: int = 0
    lost_settings: bool = False
    checksum: int = 0
    verified: bool = False
    seconds: float = 0.0
    schedules: dict[str, tuple[float, ScheduleOutcome]] = field(default_factory=dict)
    notes: dict[str, Note] = field(default_factory=dict)

    def add_schedule(self, name: str, every: float, outcome: ScheduleOutcome) -> None:
        """Add the outcome for a schedule; "added" stays, if later messages find it present."""
        if outcome != "present" or name not in self.schedules:
            self.schedules[name] = every, outcome

    @property
    def has_all_schedules(self) -> bool:
        """Whether each periodic message that is taken over has its schedule."""
        wrong = {"other", "failed"} | ({"added"} if self.way == "verify" else set())
        return not any(outcome in wrong for _, outcome in self.schedules.values())

    def note(self, text: str, example: str | None = None) -> None:
        """
        Add a note on the queue, or count a message for a note.

        Args:
            text: the text of the note.
            example: the name of the message; None for the queue itself.
        """
        note = self.notes.setdefault(text, Note(text))
        if example is not None:
            note.number += 1
            if len(note.examples) < _MAX_EXAMPLES:
                note.examples.append(example)

    def note_items(self, items: Iterable[Item], maxsize: int) -> None:
        """Add the notes of messages, and a note on those that are larger than the maxsize."""
        for item in items:
            for text in item.notes:
                self.note(text, display_name(item))
            if item.body is not None and -1 != maxsize < len(item.body):
                self.note(f"larger than the queue's maxsize of {maxsize}: kept", display_name(item))

    @property
    def done(self) -> bool:
        """Return whether the run is verified, or was the dry run of a copy or a move."""
        return self.verified or (self.dry_run and self.way != "verify")

    def as_dict(self) -> dict[str, Any]:
        """Return the report as it is written in JSON."""
        texts = {
            "found": dict(self.found),
            "checksum": f"{self.checksum:032x}",
            "seconds": round(self.seconds, 3),
            "schedules": [
                {"name": name, "every": every, "outcome": outcome}
                for name, (every, outcome) in self.schedules.items()
            ],
            "notes": [
                {"text": note.text, "messages": note.number, "examples": note.examples}
                for note in self.notes.values()
            ],
        }
        shown = (each.name for each in fields(self) if each.name not in _NOT_IN_JSON)
        return {name: texts.get(name, getattr(self, name)) for name in shown}

    def as_text(self) -> str:
        """Return a few lines for people."""
        return "\n".join(map(escape_unprintable, _lines(self)))

    def as_bridge_text(self) -> list[str]:
        """Return the lines for people on what a bridge has moved, with the notes."""
        lines = [f"{format_count(self.arrived)} moved", *_number_lines(self)]
        lines += [*_schedule_lines(self), *_note_lines(self)]
        return list(map(escape_unprintable, lines))


def _lines(report: MigrationReport) -> Iterable[str]:
    states = ", ".join(f"{n:,} {s.replace('_', ' ')}" for s, n in report.found.items() if n)
    yield f"{report.source} -> {report.queue}: {states or 'no messages'}"
    verb = "copied" if report.way == "copy" else "moved"
    if report.way == "verify":
        yield from _verification_lines(report)
        return
    if report.dry_run:
        yield f"  would be {verb}: {report.arrived:,}"
    else:
        rate = f", {report.arrived / report.seconds:,.0f} a second" if report.seconds > 1 else ""
        created = "; the queue was created" if report.created else ""
        yield f"  {verb}: {report.arrived:,} in {report.seconds:.1f} s{rate}{created}"
    yield from _number_lines(report)
    yield from _schedule_lines(report)
    yield from _note_lines(report)
    if not report.dry_run:
        has_lost = report.lost_settings or report.other_records
        remedy = "see the notes" if has_lost else "run it again"
        verdict = "verified" if report.verified else f"NOT VERIFIED: {remedy}"
        yield (
            f"  {verdict}, checksum {report.checksum:032x}"
            if any(report.found.values())
            else f"  {verdict}"
        )


def _verification_lines(report: MigrationReport) -> Iterable[str]:
    for number, text in (
        (report.before, "in the queue, with the same bodies"),
        (report.consumed, "copied before and consumed since"),
        (report.arrived, "NOT IN THE QUEUE"),
        (report.missing, "IN THE QUEUE WITH ANOTHER BODY"),
        (report.aside, "SET ASIDE by a move that was interrupted: run it again"),
        (report.left_out, "that a copy leaves out, as noted below"),
    ):
        if number:
            yield f"  {number:,} {text}"
    yield from _schedule_lines(report)
    yield from _note_lines(report)
    yield "  verified" if report.verified else "  NOT VERIFIED"


def _number_lines(report: MigrationReport) -> Iterable[str]:
    earlier = "in the queue from an earlier run"
    if report.way == "move":
        earlier = "in the queue before, by a copy or another run: only removed from the source"
    for number, text in (
        (report.before, earlier),
        (report.consumed, "copied before and consumed since"),
        (report.left, "in flight: left at the source; --in-flight moves them too"),
        (report.left_out, "left out, as noted below"),
        (report.missing, "IN THE QUEUE WITH ANOTHER BODY"),
    ):
        if number:
            yield f"  {number:,} {text}"


def _schedule_lines(report: MigrationReport) -> Iterable[str]:
    added = "would be added" if report.dry_run else "added"
    texts = {
        "added": "NOT THERE" if report.way == "verify" else added,
        "present": "there before" if report.way == "move" else "there",
        "other": "ANOTHER ONE OF THIS NAME IS THERE, and stays",
        "failed": "NOT POSSIBLE, as noted below",
    }
    for name, (every, outcome) in report.schedules.items():
        yield f"  schedule {name}, every {every:g} s: {texts[outcome]}"


def _note_lines(report: MigrationReport) -> Iterable[str]:
    for note in report.notes.values():
        messages = f" ({note.number:,}: {', '.join(note.examples)}{_ellipsis(note)})"
        yield f"  note: {note.text}{messages if note.number else ''}"


def _ellipsis(note: Note) -> str:
    return ", ..." if note.number > len(note.examples) else ""


def add_progress(error: Exception, number: int, text: str) -> None:
    """
    Add to an error what a run had done before it, and the advice to run it again.

    Args:
        error: an error of Redis, or one of this library, which may have its own advice.
        number: the number of messages that the run had added. If it is 0, only an error of Redis
            gets the text.
        text: what the run had done, with a full stop.
    """
    own_advice = error.hint if isinstance(error, RSMQError) else None
    if number or not isinstance(error, RSMQError):
        advice = "" if own_advice else " Run it again: it continues."
        add_remedy(error, text + advice)


def display_name(item: Item) -> str:
    """Return the name of a message in a report, cut to 40 characters."""
    raw = item.identity or item.element.raw
    text = raw.decode("utf-8", "backslashreplace")
    return text if len(text) <= 40 else text[:37] + "..."  # noqa: PLR2004 - a line has room for it


def as_json(reports: Iterable[MigrationReport]) -> str:
    """Return all reports of a run as one JSON text."""
    parts: list[Mapping[str, Any]] = [report.as_dict() for report in reports]
    return json.dumps(parts, ensure_ascii=False, indent=2)
