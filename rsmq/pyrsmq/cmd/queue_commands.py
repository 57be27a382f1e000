"""
The commands for queues: create, delete, list, and their attributes.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, ClassVar, Self

from rsmq.errors import RSMQError
from rsmq.pyrsmq.cmd.base_command import Command, QueueCommand
from rsmq.pyrsmq.cmd.caller_warnings import warn
from rsmq.vocabulary.queues import NODE_SETTINGS, show_as_node
from rsmq.vocabulary.sends import ValueKind
from rsmq.wire.keys import Namespace
from rsmq.wire.names import encode_name

if TYPE_CHECKING:
    from rsmq.model import QueueAttributes


class _AttributesCommand(QueueCommand):
    """A command that has a queue's attributes as parameters."""

    parameters: ClassVar[tuple[str, ...]] = ("qname", *NODE_SETTINGS, "quiet")

    def _settings(self, defaults: Mapping[str, Any]) -> dict[str, Any]:
        """Return the attributes that are set, or have a default, as they are stored."""
        values = {**defaults, **self._values}
        return {name: _to_stored(name, values[name]) for name in NODE_SETTINGS if name in values}

    def vt(self, value: float) -> Self:
        """Set the visibility timeout, seconds. A new queue's default is 30."""
        return self._set("vt", value)

    def delay(self, value: float) -> Self:
        """Set the delay of new messages, seconds. A new queue's default is 0."""
        return self._set("delay", value)

    def maxsize(self, value: int) -> Self:
        """Set the size limit, 1024 to 65536, or -1 for none. A new queue's default is 65536."""
        return self._set("maxsize", value)


class CreateQueueCommand(_AttributesCommand):
    """A command that creates a queue: returns True, or raises QueueAlreadyExists."""

    def _run(self) -> bool:
        try:
            Namespace().queue(self._qname)
        except RSMQError:
            warn(
                f"Queue {self._qname!r}: clients in other languages refuse this name; "
                "only A-Z a-z 0-9 _ - are shared."
            )
        return self._rsmq.core.create_queue(
            self._qname,
            **self._settings({name: each.default for name, each in NODE_SETTINGS.items()}),
        )


class DeleteQueueCommand(QueueCommand):
    """
    A command that deletes a queue and its messages.

    It returns True, or raises QueueDoesNotExist.
    """

    def _run(self) -> bool:
        self._rsmq.core.delete_queue(self._qname)
        return True


class ListQueuesCommand(Command):
    """A command that returns the names of the queues of the namespace, as a set."""

    parameters: ClassVar[tuple[str, ...]] = ("quiet",)
    _required = ()

    def _run(self) -> set[str | bytes]:
        names = self._rsmq.core.list_queues()
        return {self._rsmq.as_client_has_it(encode_name(name)) for name in names}


class GetQueueAttributesCommand(QueueCommand):
    """
    A command that returns a queue's attributes and counts, as a dict with Node's names.

    vt and delay are floats, as in PyRSMQ. created and modified are Unix seconds; None if another
    client stored a value that is not a time.
    """

    def _run(self) -> dict[str, Any]:
        return _make_attributes_dict(self._rsmq.core.get_queue_attributes(self._qname))


class SetQueueAttributesCommand(_AttributesCommand):
    """
    A command that changes the attributes of a queue that are set as parameters.

    It returns all attributes and counts, as GetQueueAttributesCommand does.
    """

    def _run(self) -> Any:
        attributes = self._settings({})
        core = self._rsmq.core
        return _make_attributes_dict(
            core.set_queue_attributes(self._qname, **attributes)
            if attributes
            else core.get_queue_attributes(self._qname)
        )


def _make_attributes_dict(attributes: QueueAttributes) -> dict[str, Any]:
    shown = show_as_node(attributes)
    return {**shown, "vt": float(attributes.vt), "delay": float(attributes.delay)}


def _to_stored(name: str, value: float) -> int:
    """Return the nearest value that other clients accept: a whole number within the range."""
    setting = NODE_SETTINGS[name]
    stored = min(math.ceil(value), int(setting.high or 0))
    if stored != value:
        is_time = setting.kind is ValueKind.SECONDS
        reason = "read whole seconds" if is_time else "refuse it"
        warn(f"{name}={value:g} of a queue is stored as {stored}: other clients {reason}")
    return stored
