"""
``RedisSMQ``, PyRSMQ's controller, which makes the commands.
"""

from __future__ import annotations

import threading
from typing import Any, Self, TypeVar

import redis

from rsmq.client import RSMQ
from rsmq.codecs import BYTES
from rsmq.errors import RSMQError
from rsmq.pyrsmq import cmd
from rsmq.pyrsmq.cmd.exceptions import InvalidParameterValue
from rsmq.wire.keys import DEFAULT_NS, Namespace

_C = TypeVar("_C", bound=cmd.Command)


class RedisSMQ:
    """
    PyRSMQ's controller.

    Every command is one round trip and one atomic script of this library.
    """

    def __init__(
        self,
        client: Any = None,
        host: str = "127.0.0.1",
        port: str | int = "6379",
        options: dict[str, Any] | None = None,
        **kwargs: Any,
    ) -> None:
        """
        Take a client, or the address to connect to at the first command.

        Args:
            client: a ``redis.Redis``, whatever its decode_responses: with it off, ids and bodies
                come as bytes.
            host: where to connect without a client.
            port: where to connect without a client.
            options: more of redis-py's options for that.
            kwargs: ``ns`` (default ``rsmq``), ``realtime`` (True publishes Node's notification;
                default False), ``exceptions`` (False makes commands return False on an error;
                default True), ``retry_deadline`` (seconds, as for ``rsmq.RSMQ``; default 0: only
                connecting is tried again, as the client's own settings say); all others are
                defaults of the commands' parameters.

        Raises:
            InvalidParameterValue: ns is empty or no str.
        """
        self.options: dict[str, Any] = {
            "ns": kwargs.pop("ns", DEFAULT_NS),
            "realtime": kwargs.pop("realtime", False),
            "exceptions": kwargs.pop("exceptions", True),
        }
        self._retry_deadline: float = kwargs.pop("retry_deadline", 0)
        self.redis_options: dict[str, Any] = {
            "encoding": "utf-8",
            "decode_responses": True,
            "host": host,
            "port": port,
            **(options or {}),
        }
        self._defaults = {name: value for name, value in kwargs.items() if value is not None}
        self._client = client
        self._opened = False
        self._lock = threading.Lock()
        self._core: RSMQ | None = None
        try:
            self.namespace = Namespace(self.options["ns"], strict_names=False)
        except RSMQError as error:
            raise InvalidParameterValue("ns", self.options["ns"], error.hint) from error

    @property
    def client(self) -> Any:
        """The redis-py client; made at the first use if none was given."""
        with self._lock:
            if self._client is None:
                self._client = redis.Redis(**self.redis_options)
                self._opened = True
            return self._client

    def setClient(self, client: Any) -> Self:
        """Use another client from now on."""
        self.quit()
        self._client = client
        return self

    def quit(self) -> None:
        """Close the connection if it is our own; the next command opens another."""
        if self._opened:
            self._client.close()
        self._client, self._core, self._opened = None, None, False

    def exceptions(self, enabled: bool = True) -> Self:  # noqa: FBT001, FBT002 - PyRSMQ's
        """Choose whether commands raise (True) or return False on an error."""
        self.options["exceptions"] = bool(enabled)
        return self

    def reset_scripts(self) -> None:
        """Do nothing: a server that has lost the scripts gets them again by itself."""

    @property
    def core(self) -> RSMQ:
        """This library's own client, on the same connection."""
        if self._core is None:
            self._core = RSMQ(
                self.client,
                ns=self.namespace.name,
                codec=BYTES,
                realtime=bool(self.options["realtime"]),
                strict_names=False,
                retry_deadline=self._retry_deadline,
            )
        return self._core

    def as_client_has_it(self, raw: bytes) -> str | bytes:
        """Bytes of Redis as the client answers them: text if it decodes and they are text."""
        try:
            text: str | bytes = self.client.get_encoder().decode(raw)
        except UnicodeDecodeError:
            return raw
        return text

    def createQueue(self, **kwargs: Any) -> cmd.CreateQueueCommand:
        """A command that creates a queue."""
        return self._made(cmd.CreateQueueCommand, kwargs)

    def deleteQueue(self, **kwargs: Any) -> cmd.DeleteQueueCommand:
        """A command that deletes a queue."""
        return self._made(cmd.DeleteQueueCommand, kwargs)

    def listQueues(self, **kwargs: Any) -> cmd.ListQueuesCommand:
        """A command that lists the queues."""
        return self._made(cmd.ListQueuesCommand, kwargs)

    def getQueueAttributes(self, **kwargs: Any) -> cmd.GetQueueAttributesCommand:
        """A command that reads a queue's attributes."""
        return self._made(cmd.GetQueueAttributesCommand, kwargs)

    def setQueueAttributes(self, **kwargs: Any) -> cmd.SetQueueAttributesCommand:
        """A command that sets a queue's attributes."""
        return self._made(cmd.SetQueueAttributesCommand, kwargs)

    def sendMessage(self, **kwargs: Any) -> cmd.SendMessageCommand:
        """A command that sends a message."""
        return self._made(cmd.SendMessageCommand, kwargs)

    def receiveMessage(self, **kwargs: Any) -> cmd.ReceiveMessageCommand:
        """A command that receives a message."""
        return self._made(cmd.ReceiveMessageCommand, kwargs)

    def popMessage(self, **kwargs: Any) -> cmd.PopMessageCommand:
        """A command that receives a message and deletes it."""
        return self._made(cmd.PopMessageCommand, kwargs)

    def changeMessageVisibility(self, **kwargs: Any) -> cmd.ChangeMessageVisibilityCommand:
        """A command that changes the visibility of a message."""
        return self._made(cmd.ChangeMessageVisibilityCommand, kwargs)

    def deleteMessage(self, **kwargs: Any) -> cmd.DeleteMessageCommand:
        """A command that deletes a message."""
        return self._made(cmd.DeleteMessageCommand, kwargs)

    def _made(self, kind: type[_C], given: dict[str, Any]) -> _C:
        unknown = given.keys() - set(kind.parameters)
        if unknown:
            cmd.warn(
                f"{kind.__name__} has no parameter {min(unknown)!r}; it is ignored. "
                f"It takes {', '.join(kind.parameters)}."
            )
        return kind(self, **{**self._defaults, **given})
