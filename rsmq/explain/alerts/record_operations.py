"""
Operations on the record of alerts: read it, and change it from what was read.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any, TypeAlias

from rsmq.errors import InvalidValue
from rsmq.explain.alerts.record import (
    EVENTS,
    MAX_SILENCES,
    MAX_TARGETS,
    AlertMessage,
    AlertRecord,
    Change,
    OpenAlert,
    check_kind,
    check_subject,
    check_target_name,
    encode_change,
    make_silence,
    make_target,
    parse_record,
    show_silence,
    silence_name,
)
from rsmq.operations.operation import Operation, RetryClass, Steps
from rsmq.operations.scripts import loader_of
from rsmq.wire.keys import Namespace

load = loader_of("explain")

#: The kind and the text of the alert that tests a target.
TEST = "test"

Find: TypeAlias = Callable[[AlertRecord], Sequence[Change]]


def change_record(
    namespace: Namespace, changes: Sequence[Change] = ()
) -> Operation[tuple[bool, AlertRecord]]:
    """
    Change fields of the record, in one atomic step, if all of them have their expected values.

    A repeated call finds that it is done.

    Returns:
        Whether they have the new values; and if not, or without changes, the record. Of a record
        whose fields were changed, only the time is read.
    """
    words = [word for each in changes for word in encode_change(each)]
    return Operation(
        load("change_alert_record"),
        (namespace.alerts,),
        tuple(words),
        lambda reply: (
            reply[1] == 1,
            parse_record(int(reply[0]), dict(zip(reply[2][::2], reply[2][1::2], strict=True))),
        ),
        RetryClass.ALWAYS,
    )


def read_record(namespace: Namespace) -> Operation[AlertRecord]:
    """Read the record."""
    operation: Operation[AlertRecord] = change_record(namespace)  # type: ignore[assignment]
    parse = operation.parse
    operation.parse = lambda reply: parse(reply)[1]  # type: ignore[index]
    return operation


def _change_in_steps(namespace: Namespace, find: Find) -> Steps[tuple[AlertRecord, bool]]:
    """Change the record as often as another caller was faster; return what it was before."""
    record: AlertRecord = yield read_record(namespace)
    while changes := find(record):
        is_done, newer = yield change_record(namespace, changes)
        if is_done:
            return record, True
        record = newer
    return record, False


def set_target_in_steps(
    namespace: Namespace, name: str, url: str | None, format: str, secret_env: str | None
) -> Steps[bool]:
    """
    Add a target of alerts, or change it. Return whether it is a new one.

    Raises:
        The errors of ``check_target_name`` and ``make_target``.
        InvalidValue: the namespace has 20 targets already.
    """
    check_target_name(name)

    def find(record: AlertRecord) -> Sequence[Change]:
        earlier = record.targets.get(name)
        made = make_target(
            url, format, secret_env, record.now_ms if earlier is None else earlier.created_ms
        )
        _check_room("targets of alerts", MAX_TARGETS, len(record.targets.keys() | {name}))
        # A changed target is tried at once.
        return [record.change(f"target:{name}", made), record.change(f"status:{name}", None)]

    before, _ = yield from _change_in_steps(namespace, find)
    return name not in before.targets


def remove_target_in_steps(namespace: Namespace, name: str) -> Steps[bool]:
    """Remove a target with the messages that wait for it; return whether there was one."""

    def find(record: AlertRecord) -> Sequence[Change]:
        fields = [f"target:{name}", f"status:{name}"]
        if fields[0] not in record.fields:
            return []
        fields += [f"message:{id}" for id, each in record.messages.items() if each.target == name]
        return [record.change(field, None) for field in fields]

    _, is_removed = yield from _change_in_steps(namespace, find)
    return is_removed


def test_target_in_steps(namespace: Namespace, name: str) -> Steps[bool]:
    """
    Let the servers send a test alert to a target, its begin and its end.

    They try it once, within a step. It replaces one that waits. Return whether there is such a
    target.
    """

    def find(record: AlertRecord) -> Sequence[Change]:
        if name not in record.targets:
            return []
        now = record.now_ms
        text = f"This is a test of the target {name}."
        alert = OpenAlert(TEST, "note", name, text, "Nothing is wrong.", None, now, now)
        status = record.statuses.get(name)
        return [
            # One test waits at most, also if no server sends.
            *(
                record.change(f"message:{id}", None)
                for id, each in record.messages.items()
                if (each.target, each.alert.kind, each.claimed_ms) == (name, TEST, 0)
            ),
            # Also during a pause after failures.
            record.change(f"status:{name}", status and replace(status, until_ms=0)),
            *(
                record.change(message_field(now, at, name), AlertMessage(name, event, now, alert))
                for at, event in enumerate(EVENTS)
            ),
        ]

    _, is_there = yield from _change_in_steps(namespace, find)
    return is_there


def silence_in_steps(
    namespace: Namespace, kind: str, subject: str, silence: tuple[str, str, object]
) -> Steps[dict[str, Any]]:
    """
    Silence an alert, or all of them, and return the silence. It replaces one of the same alert.

    Args:
        kind: the kind of the alert; or ALL.
        subject: its subject; empty for that of the server.
        silence: by whom, why, and for how many seconds.

    Raises:
        The errors of ``check_kind``, ``check_subject`` and ``make_silence``.
        InvalidValue: the namespace has 100 silences already.
    """
    name = silence_name(check_kind(kind), check_subject(subject))

    def find(record: AlertRecord) -> Sequence[Change]:
        ended = [each for each, of in record.silences.items() if of.until_ms <= record.now_ms]
        _check_room("silences", MAX_SILENCES, len({*record.silences, name}.difference(ended)))
        return [
            # Without targets, no server removes them.
            *(record.change(f"silence:{each}", None) for each in ended if each != name),
            record.change(f"silence:{name}", make_silence(*silence, record.now_ms)),
        ]

    before, _ = yield from _change_in_steps(namespace, find)
    return show_silence(name, make_silence(*silence, before.now_ms))


def end_silence_in_steps(
    namespace: Namespace, kind: str, subject: str
) -> Steps[dict[str, Any] | None]:
    """Remove a silence, and return it; None if there is none."""
    name = silence_name(check_kind(kind), check_subject(subject))

    def find(record: AlertRecord) -> Sequence[Change]:
        is_there = name in record.silences
        return [record.change(f"silence:{name}", None)] if is_there else []

    before, is_removed = yield from _change_in_steps(namespace, find)
    return show_silence(name, before.silences[name]) if is_removed else None


def message_field(at_ms: int, number: int, target: str) -> str:
    """Return the field of a message; they are sent in the order of their fields."""
    return f"message:{at_ms:015}:{number:04}:{target}"


def _check_room(item: str, most: int, number: int) -> None:
    if number > most:
        raise InvalidValue(
            f"number of {item}", 0, most, value=number, hint="Remove one of the namespace first."
        )
