"""
``Task``, a consumed message.
"""

from __future__ import annotations

import logging
from datetime import datetime
from typing import Any

from rsmq.compat.rfq.connection import default_redis, open_client
from rsmq.errors import InvalidFormat
from rsmq.model import Message
from rsmq.wire.keys import DEFAULT_NS

_LOG = logging.getLogger("rsmq.compat.rfq")


class Task:
    """
    A message that was consumed, and is in flight until ``done`` is called or it is harvested.

    Attributes:
        topic: its topic, which is the name of its queue.
        msgid: its id.
        msg: its texts.
        r: the client that was handed in.
    """

    def __init__(
        self,
        topic: str,
        msgid: str,
        msg: dict[str, str],
        redis: Any = None,
        *,
        ns: str = DEFAULT_NS,
        receipt: Message | None = None,
    ) -> None:
        """
        Make a task. Nothing is sent to Redis.

        Args:
            topic: the topic of the message.
            msgid: the id of the message.
            msg: what ``result`` returns.
            redis: as for ``Queue``.
            ns: as for ``Queue``.
            receipt: the received message. With it ``done`` deletes the message only if no consumer
                has received it since; without it, unconditionally.
        """
        self.r = default_redis() if redis is None else redis
        self.topic = topic
        self.msgid = msgid
        self.msg = msg
        self._rsmq = open_client(self.r, ns)
        self._receipt = receipt

    def result(self) -> dict[str, str]:
        """Return the texts of the message."""
        return self.msg

    def done(self) -> str:
        """
        Delete the message, and return its id.

        If another consumer has received it since, it is not deleted, and a warning is logged.
        """
        if self._receipt is None:
            self._rsmq.delete_message(self.topic, self.msgid)
        elif not self._rsmq.delete_message(self._receipt) and self._exists():
            _LOG.warning(
                "Message %s of %s was received by another consumer meanwhile: it is not deleted",
                self.msgid,
                self.topic,
            )
        return self.msgid

    def cancel(self) -> str:
        """
        Return the id. As in rfq, nothing else happens: the message stays in flight.

        ``Queue.harvest`` releases it, and so does the end of its visibility timeout.
        """
        return self.msgid

    def published(self) -> datetime:
        """
        Return when the message was published: UTC, without a time zone, as in rfq.

        Raises:
            InvalidFormat: the id contains no time, because another client made it.
        """
        sent_at = Message(self.topic, self.msgid, b"", 0, None).sent_at
        if sent_at is None:
            raise InvalidFormat("message id", value=self.msgid, hint="It contains no time.")
        return sent_at.replace(tzinfo=None)

    def _exists(self) -> bool:
        return self._rsmq.get_message(self.topic, self.msgid) is not None

    def __repr__(self) -> str:
        return f"<{type(self).__name__} topic='{self.topic}' id='{self.msgid}'>"
