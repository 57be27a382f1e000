"""
``RedisSMQ``, PyRSMQ's controller, which creates the commands.
"""

from __future__ import annotations

import threading
from typing import Any, Self, TypeVar

import redis

from rsmq._sync.client import RSMQ
from rsmq.codecs import BYTES
from rsmq.errors import RSMQError
from rsmq.pyrsmq import cmd
from rsmq.pyrsmq.cmd.caller_warnings import warn
from rsmq.pyrsmq.cmd.exceptions import InvalidParameterValue
from rsmq.wire.keys import DEFAULT_NS, Namespace

_C = TypeVar("_C", bound=cmd.Command)


class RedisSMQ:
    """
    PyRSMQ's controller: a connection to Redis, defaults for commands, and the commands.

    Every command is one round trip and one atomic script of this library, except
    changeMessageVisibility without a vt, which reads the queue's vt first.
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
        Create a controller. Without a client it connects when the first command is executed.

        Args:
            client: a ``redis.Redis``. If its decode_responses is off, ids and bodies are returned
                as bytes.
            host: the host to connect to if there is no client.
            port: the port to connect to if there is no client.
            options: more options of redis-py for this connection.
            kwargs: ``ns`` (default ``rsmq``), ``realtime`` (True publishes Node's notification;
                default False), ``exceptions`` (False makes commands return False on an error;
                default True), ``retry_deadline`` (seconds, as for ``rsmq.RSMQ``; default 0: only
                connecting is retried, by the client's own settings). All others are defaults of
                the commands' parameters.

        Raises:
            InvalidParameterValue: ns is empty or not a str.
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
        self._owns_client = False
        self._lock = threading.Lock()
        self._core: RSMQ | None = None
        try:
            self.namespace: Namespace = Namespace(self.options["ns"], strict_names=False)
        except RSMQError as error:
            raise InvalidParameterValue("ns", self.options["ns"], error.hint) from error

    @property
    def client(self) -> Any:
        """The redis-py client; created at the first use if the controller has none."""
        with self._lock:
            if self._client is None:
                self._client = redis.Redis(**self.redis_options)
                self._owns_client = True
            return self._client

    def setClient(self, client: Any) -> Self:
        """Use another client from now on."""
        self.quit()
        self._client = client
        return self

    def quit(self) -> None:
        """Close the connection if the controller opened it; the next command opens another."""
        if self._core is not None:
            self._core.close()  # its own connections, to where the client connects
        if self._owns_client:
            self._client.close()
        self._client, self._core, self._owns_client = None, None, False

    def exceptions(self, enabled: bool = True) -> Self:  # noqa: FBT001, FBT002 - PyRSMQ's
        """Choose whether commands raise (True) or return False on an error."""
        self.options["exceptions"] = bool(enabled)
        return self

    def reset_scripts(self) -> None:
        """Do nothing: a server that has lost the scripts gets them again automatically."""

    @property
    def core(self) -> RSMQ:
        """This library's client, on the same connection."""
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
        """
        Return bytes in the form in which the client returns them.

        This is text if the client's decode_responses is on and it can decode them, else bytes.
        """
        try:
            text: str | bytes = self.client.get_encoder().decode(raw)
        except UnicodeDecodeError:
            return raw
        return text

    def createQueue(self, **kwargs: Any) -> cmd.CreateQueueCommand:
        """Return a command that creates a queue."""
        return self._make_command(cmd.CreateQueueCommand, kwargs)

    def deleteQueue(self, **kwargs: Any) -> cmd.DeleteQueueCommand:
        """Return a command that deletes a queue."""
        return self._make_command(cmd.DeleteQueueCommand, kwargs)

    def listQueues(self, **kwargs: Any) -> cmd.ListQueuesCommand:
        """Return a command that lists the queues."""
        return self._make_command(cmd.ListQueuesCommand, kwargs)

    def getQueueAttributes(self, **kwargs: Any) -> cmd.GetQueueAttributesCommand:
        """Return a command that reads a queue's attributes."""
        return self._make_command(cmd.GetQueueAttributesCommand, kwargs)

    def setQueueAttributes(self, **kwargs: Any) -> cmd.SetQueueAttributesCommand:
        """Return a command that sets a queue's attributes."""
        return self._make_command(cmd.SetQueueAttributesCommand, kwargs)

    def sendMessage(self, **kwargs: Any) -> cmd.SendMessageCommand:
        """Return a command that sends a message."""
        return self._make_command(cmd.SendMessageCommand, kwargs)

    def receiveMessage(self, **kwargs: Any) -> cmd.ReceiveMessageCommand:
        """Return a command that receives a message."""
        return self._make_command(cmd.ReceiveMessageCommand, kwargs)

    def popMessage(self, **kwargs: Any) -> cmd.PopMessageCommand:
        """Return a command that receives a message and deletes it."""
        return self._make_command(cmd.PopMessageCommand, kwargs)

    def changeMessageVisibility(self, **kwargs: Any) -> cmd.ChangeMessageVisibilityCommand:
        """Return a command that changes the visibility of a message."""
        return self._make_command(cmd.ChangeMessageVisibilityCommand, kwargs)

    def deleteMessage(self, **kwargs: Any) -> cmd.DeleteMessageCommand:
        """Return a command that deletes a message."""
        return self._make_command(cmd.DeleteMessageCommand, kwargs)

    def _make_command(self, kind: type[_C], params: dict[str, Any]) -> _C:
        unknown = params.keys() - set(kind.parameters)
        if unknown:
            warn(
                f"{kind.__name__} has no parameter {min(unknown)!r}; it is ignored. "
                f"It takes {', '.join(kind.parameters)}."
            )
        return kind(self, **{**self._defaults, **params})
