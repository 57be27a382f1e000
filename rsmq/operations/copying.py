"""
Copies of queues: the settings that a copy gets, and those that it does not have.

Imports, migrations and Spark's job migrate copy queues in this way. Messages are added afterwards.
"""

from __future__ import annotations

from collections.abc import Container, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from rsmq.model import QueueAttributes
from rsmq.operations.dead_letters import set_dead_letter_policy
from rsmq.operations.operation import Operation, Steps
from rsmq.operations.plain import plain_command
from rsmq.operations.queues import (
    create_queue,
    get_queue_attributes,
    pause_queue,
    set_queue_attributes,
    set_queue_limits,
)
from rsmq.vocabulary.queues import COPIED_ATTRIBUTES, CREATE, LIMIT, POLICY, SET
from rsmq.vocabulary.stored import COPIED_FIELDS
from rsmq.wire.keys import Namespace


@dataclass(frozen=True, slots=True)
class SettingDifference:
    """
    A setting of a queue that its copy does not have.

    Attributes:
        name: the attribute.
        wanted: its value at the source.
        has: its value in the copy.
    """

    name: str
    wanted: Any
    has: Any


def read_settings(attributes: QueueAttributes) -> dict[str, Any]:
    """Return the attributes of a queue that a copy gets, by name."""
    return {each.name: getattr(attributes, each.name) for each in COPIED_ATTRIBUTES}


def fit_settings(settings: Mapping[str, Any]) -> dict[str, Any]:
    """Return the nearest values that a queue of this library can have."""
    attributes = {each.name: each for each in COPIED_ATTRIBUTES}
    return {name: attributes[name].fit(value) for name, value in settings.items()}


def find_unfit(settings: Mapping[str, Any]) -> Iterator[SettingDifference]:
    """Yield the settings that a queue of this library can't have, with the nearest values."""
    for name, new in fit_settings(settings).items():
        if settings[name] is not None and settings[name] != new:
            yield SettingDifference(name, settings[name], new)


def compare_settings(
    settings: Mapping[str, Any], stored: QueueAttributes
) -> Iterator[SettingDifference]:
    """Yield the settings that a queue does not have, in the order of the table."""
    for each in COPIED_ATTRIBUTES:
        if each.name in settings:
            wanted, has = settings[each.name], getattr(stored, each.name)
            if wanted != has:
                yield SettingDifference(each.name, wanted, has)


def read_fields(hash: bytes) -> Operation[dict[str, bytes]]:
    """Return the fields of a queue's hash that a copy gets, by name; an empty one is none."""
    names = [each.field for each in COPIED_FIELDS]

    def parse(values: Sequence[bytes | None]) -> dict[str, bytes]:
        return {name: bytes(value) for name, value in zip(names, values, strict=True) if value}

    return plain_command("HMGET", hash, *names, parse=parse)


def fit_fields(qname: str, fields: Mapping[str, bytes]) -> dict[str, bytes]:
    """Return the fields that a queue of a name can have."""
    return {
        each.field: fields[each.field]
        for each in COPIED_FIELDS
        if each.field in fields and each.find_obstacle(qname, fields[each.field]) is None
    }


def compare_fields(
    qname: str, fields: Mapping[str, bytes], stored: Mapping[str, bytes]
) -> Iterator[tuple[str, str]]:
    """
    Yield the fields of a queue that its copy does not have, each with a sentence why.

    Args:
        qname: the name of the copy.
        fields: those of the queue.
        stored: those of the copy.
    """
    for each in COPIED_FIELDS:
        value = fields.get(each.field)
        if value is not None and value != stored.get(each.field):
            reason = each.find_obstacle(qname, value) or "the queue keeps its own, or none"
            yield each.field, f"{each.text} are not carried: {reason}"


def copy_queue(
    namespace: Namespace,
    qname: str,
    settings: Mapping[str, Any],
    fields: Mapping[str, bytes],
    *,
    if_unused: Container[str] = (),
) -> Steps[bool]:
    """
    Create a queue with settings and fields of another one; the result is whether it was created.

    An existing queue keeps its own settings. ``copy_policy`` sets those that need another queue.

    Args:
        settings: the attributes of the other queue, by name; the others have their defaults.
        fields: those of ``read_fields``. One that a queue of the name can't have is left out.
        if_unused: the attributes that an existing queue gets too if nothing was sent to it yet.
    """
    fitted = fit_settings(settings)
    given = {name: fitted[name] for name in CREATE.options if name in fitted}
    created = yield create_queue(
        namespace, qname, exist_ok=True, fields=fit_fields(qname, fields), **given
    )
    if not created:
        stored = yield get_queue_attributes(namespace, qname)
        is_used = stored.total_sent or stored.messages
        fitted = {} if is_used else {name: fitted[name] for name in fitted if name in if_unused}
    limits = {name: fitted.get(name) for name in LIMIT.options}
    if any(limits.values()):
        yield set_queue_limits(namespace, qname, **limits)
    if fitted.get("paused"):
        yield pause_queue(namespace, qname, pause=True)
    return bool(created)


def copy_policy(namespace: Namespace, qname: str, settings: Mapping[str, Any]) -> Steps[None]:
    """
    Give a queue the dead-letter policy of another one, and the settings that may need a policy.

    Args:
        settings: as for ``copy_queue``.

    Raises:
        QueueNotFound: there is no queue, or no dead-letter queue of the policy's name.
        RSMQError: a setting can't be set.
    """
    target, most = (settings.get(name) for name in POLICY.options)
    if target is not None and most:
        yield set_dead_letter_policy(namespace, qname, target, most)
    others = {
        name: settings[name]
        for name, each in SET.options.items()
        if name not in CREATE.options and settings.get(name, each.default) != each.default
    }
    if others:
        yield set_queue_attributes(namespace, qname, **others)
