"""
The commands for queues: create, delete, list, and their attributes.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any, ClassVar, Self

from rsmq.errors import RSMQError
from rsmq.pyrsmq.cmd.base_command import Command, QueueCommand
from rsmq.pyrsmq.cmd.caller_warnings import warn
from rsmq.wire.fields import TOTAL_RECEIVED, TOTAL_SENT
from rsmq.wire.keys import Namespace
from rsmq.wire.limits import DEFAULT_DELAY, DEFAULT_MAXSIZE, DEFAULT_VT, MAX_MAXSIZE
from rsmq.wire.names import encode_name

if TYPE_CHECKING:
    from rsmq.model import QueueAttributes


class _AttributesCommand(QueueCommand):
    """A command that has a queue's attributes as parameters."""

    parameters: ClassVar[tuple[str, ...]] = ("qname", "vt", "delay", "maxsize", "quiet")

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
            vt=_round_up_seconds("vt", self._values.get("vt", DEFAULT_VT)),
            delay=_round_up_seconds("delay", self._values.get("delay", DEFAULT_DELAY)),
            maxsize=_limit_maxsize(self._values.get("maxsize", DEFAULT_MAXSIZE)),
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
        attributes: dict[str, Any] = {
            name: _limit_maxsize(value) if name == "maxsize" else _round_up_seconds(name, value)
            for name, value in self._values.items()
            if name in ("vt", "delay", "maxsize")
        }
        core = self._rsmq.core
        return _make_attributes_dict(
            core.set_queue_attributes(self._qname, **attributes)
            if attributes
            else core.get_queue_attributes(self._qname)
        )


def _make_attributes_dict(attributes: QueueAttributes) -> dict[str, Any]:
    created, modified = attributes.created, attributes.modified
    return {
        "vt": float(attributes.vt),
        "delay": float(attributes.delay),
        "maxsize": attributes.maxsize,
        TOTAL_RECEIVED: attributes.total_received,
        TOTAL_SENT: attributes.total_sent,
        "created": None if created is None else int(created.timestamp()),
        "modified": None if modified is None else int(modified.timestamp()),
        "msgs": attributes.messages,
        "hiddenmsgs": attributes.hidden_messages,
    }


def _round_up_seconds(name: str, seconds: float) -> int:
    """Return seconds as a whole number: other clients can't read fractions in a queue."""
    rounded = math.ceil(seconds)
    if rounded != seconds:
        warn(
            f"{name}={seconds:g} of a queue is stored as {rounded}: "
            "other clients read whole seconds"
        )
    return rounded


def _limit_maxsize(size: float) -> int:
    """Return a size limit as a whole number that other clients accept."""
    limit = min(math.ceil(size), MAX_MAXSIZE)
    if limit != size:
        warn(f"maxsize={size:g} of a queue is stored as {limit}: other clients refuse it")
    return limit
