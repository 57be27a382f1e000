"""
The commands for messages: send, receive, pop, delete and change visibility.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, ClassVar, Self

from rsmq.codecs import BYTES
from rsmq.errors import InvalidFormat
from rsmq.operations.messages import send_message
from rsmq.operations.sending import set_counted_size
from rsmq.pyrsmq.cmd.base_command import QueueCommand
from rsmq.pyrsmq.cmd.exceptions import InvalidParameterValue, NoMessageInQueue
from rsmq.pyrsmq.cmd.utils import encode_message
from rsmq.wire.fields import first_received_field, receive_count_field
from rsmq.wire.names import encode_name

if TYPE_CHECKING:
    from redis.client import Pipeline

    from rsmq.model import Message


class SendMessageCommand(QueueCommand):
    """
    A command that sends a message, and returns its id.

    A str or bytes is sent as it is, anything else as JSON. The queue's maxsize is not enforced, as
    in PyRSMQ; empty bodies are allowed.
    """

    parameters: ClassVar[tuple[str, ...]] = ("qname", "message", "delay", "encode", "quiet")
    _required = ("qname", "message")

    def message(self, value: object) -> Self:
        """Set the body."""
        return self._set("message", value)

    def delay(self, value: float) -> Self:
        """Set the seconds until it is visible, fractions allowed; default: the queue's delay."""
        return self._set("delay", value)

    def encode(self, value: bool = True) -> Self:  # noqa: FBT001, FBT002 - PyRSMQ's
        """Do nothing: what is neither str nor bytes is always encoded as JSON."""
        return self._set("encode", value)

    def _run(self) -> str:
        message = self._values["message"]
        if not isinstance(message, bytes):
            try:
                message = self._rsmq.client.get_encoder().encode(encode_message(message))
            except (TypeError, ValueError) as error:
                raise InvalidParameterValue("message", message, f"{error}.") from error
        options = {"delay": self._values.get("delay")}
        realtime = bool(self._rsmq.options["realtime"])
        operation = send_message(
            self.namespace, self._qname, message, options, codec=BYTES, realtime=realtime
        )
        set_counted_size(operation, 0)
        return self._rsmq.core.run(operation)


class _ReceivingCommand(QueueCommand):
    """A command that receives a message."""

    def _make_message_dict(self, message: Message | None) -> dict[str, Any]:
        if message is None:
            raise NoMessageInQueue(self._qname)
        return {
            "id": self._rsmq.as_client_has_it(encode_name(message.id)),
            "message": self._rsmq.as_client_has_it(message.raw),
            "rc": message.receive_count,
            "ts": message.first_received_ms,
        }


class ReceiveMessageCommand(_ReceivingCommand):
    """
    A command that receives a message and hides it.

    It returns a dict of id, message, rc and ts, or raises NoMessageInQueue. ts is the time of the
    first receive in Unix ms. A body that the client can't decode is returned as bytes.
    """

    parameters: ClassVar[tuple[str, ...]] = ("qname", "vt", "quiet")

    def vt(self, value: float) -> Self:
        """Set the visibility timeout, seconds, fractions allowed; default: the queue's vt."""
        return self._set("vt", value)

    def _run(self) -> dict[str, Any]:
        vt = self._values.get("vt")
        return self._make_message_dict(self._rsmq.core.receive_message(self._qname, vt=vt))


class PopMessageCommand(_ReceivingCommand):
    """
    A command that receives a message and deletes it at once: delivery is at most once.

    It returns and raises the same as ReceiveMessageCommand.
    """

    def _run(self) -> dict[str, Any]:
        return self._make_message_dict(self._rsmq.core.pop_message(self._qname))


class _MessageCommand(QueueCommand):
    """A command for one message."""

    parameters: ClassVar[tuple[str, ...]] = ("qname", "id", "quiet")
    _required = ("qname", "id")

    def id(self, value: str | bytes) -> Self:
        """Set the id of the message."""
        return self._set("id", value)

    @property
    def _id(self) -> str:
        id: str = self._values["id"]
        return id


class ChangeMessageVisibilityCommand(_MessageCommand):
    """
    A command that hides a message for a time from now.

    It returns True, or raises NoMessageInQueue if the queue has no such message.
    """

    parameters: ClassVar[tuple[str, ...]] = ("qname", "id", "vt", "quiet")

    def vt(self, value: float) -> Self:
        """Set the seconds from now, fractions allowed; default: the queue's vt."""
        return self._set("vt", value)

    def _run(self) -> bool:
        vt = self._values.get("vt")
        if vt is None:
            vt = self._rsmq.core.get_queue_attributes(self._qname).vt
        try:
            changed = self._rsmq.core.change_message_visibility(self._qname, self._id, vt)
        except InvalidFormat:  # no client makes such an id, so the message does not exist
            changed = False
        if not changed:
            raise NoMessageInQueue(self._qname)
        return True


class DeleteMessageCommand(_MessageCommand):
    """A command that deletes a message, and returns whether it existed."""

    def _run(self) -> bool:
        try:
            return self._rsmq.core.delete_message(self._qname, self._id)
        except InvalidFormat:  # no client makes such an id, so the message does not exist
            return False

    def get_transaction(self) -> Pipeline:
        """
        Return a MULTI of redis-py that deletes the message; more commands can be added.

        Returns:
            The pipeline. The first two results of its execution are the numbers of removed ids and
            of removed hash fields: 1 and at least 1 if the message existed.

        Raises:
            InvalidParameterValue: the name or the id is missing or invalid.
        """
        self._check_parameters()
        keys = self.namespace.queue(self._qname)
        pipeline: Pipeline = self._rsmq.client.pipeline(transaction=True)
        pipeline.zrem(keys.zset, self._id)
        id = encode_name(self._id)
        pipeline.hdel(keys.hash, id, receive_count_field(id), first_received_field(id))
        return pipeline
