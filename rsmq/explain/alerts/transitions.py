"""
The decision which alerts are announced, without I/O: from the record and the present alerts.

An alert begins when it is first seen, and ends when it was gone for END_AFTER_MS: if it is seen
again before, it has not ended, so a flapping alert is announced once. A silenced alert neither
begins nor ends; when the silence ends, both are made up for. At most MAX_OPEN alerts are open;
those beyond are counted by one more alert, and begin when there is room.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace

from rsmq.errors.printable import format_count
from rsmq.explain.alerts.alert import Alert, AlertKind
from rsmq.explain.alerts.record import (
    MORE,
    AlertMessage,
    AlertRecord,
    Change,
    Event,
    OpenAlert,
    alert_name,
)
from rsmq.explain.alerts.record_operations import message_field

MAX_OPEN = 20
END_AFTER_MS = 120_000
_MORE = f"{MORE}:"


def find_changes(record: AlertRecord, alerts: Sequence[Alert]) -> list[Change]:
    """
    Return the changes that announce what has begun and ended, with the messages to each target.

    Args:
        alerts: the present ones, the worst first.
    """
    changes = [
        record.change(f"silence:{name}", None)
        for name, each in record.silences.items()
        if each.until_ms <= record.now_ms
    ]
    if not record.targets:
        return changes + [record.change(f"alert:{name}", None) for name in record.open]
    present = {alert_name(each): each for each in alerts if _is_announced(each)}
    new = [
        _open(each, record.now_ms)
        for name, each in present.items()
        if name not in record.open and record.silence_of(each.kind.value, each.subject) is None
    ]
    room = max(MAX_OPEN - len(record.open.keys() - {_MORE}), 0)
    announced: list[tuple[Event, OpenAlert]] = [("begin", each) for each in new[:room]]
    has_more = len(new) > room
    if has_more and _MORE not in record.open and record.silence_of(MORE, "") is None:
        announced.append(("begin", _count_more(len(new) - room, record.now_ms)))
    for name, alert in record.open.items():
        if record.silence_of(alert.kind, alert.subject) is not None:
            continue
        if name in present or (name == _MORE and has_more):
            if alert.gone_ms is not None:
                changes.append(record.change(f"alert:{name}", replace(alert, gone_ms=None)))
        elif alert.gone_ms is None:
            changes.append(record.change(f"alert:{name}", replace(alert, gone_ms=record.now_ms)))
        elif record.now_ms - alert.gone_ms >= END_AFTER_MS:
            announced.append(("end", alert))
    changes += [
        record.change(f"alert:{alert_name(each)}", each if event == "begin" else None)
        for event, each in announced
    ]
    return changes + list(_messages(record, announced))


def _is_announced(alert: Alert) -> bool:
    """Return whether it is announced: no note, and no history that has just begun."""
    is_new_history = alert.kind is AlertKind.NOT_RECORDED and alert.since_ms is None
    return alert.level != "note" and not is_new_history


def _messages(
    record: AlertRecord, announced: Sequence[tuple[Event, OpenAlert]]
) -> Iterator[Change]:
    for at, (event, alert) in enumerate(announced):
        for name, target in record.targets.items():
            if target.created_ms <= alert.begun_ms:  # a later one does not know of its begin
                field = message_field(record.now_ms, at, name)
                message = AlertMessage(name, event, record.now_ms, alert)
                yield record.change(field, message)


def _open(alert: Alert, now_ms: int) -> OpenAlert:
    return OpenAlert(
        alert.kind.value, alert.level, alert.subject, alert.text, alert.evidence, alert.queue,
        alert.since_ms, now_ms,
    )  # fmt: skip


def _count_more(number: int, now_ms: int) -> OpenAlert:
    return OpenAlert(
        MORE, "warn", "", f"{format_count(number, 'more alert')} at the same time.",
        f"At most {MAX_OPEN} are announced one by one; the overview of the dashboard lists all.",
        None, now_ms, now_ms,
    )  # fmt: skip
