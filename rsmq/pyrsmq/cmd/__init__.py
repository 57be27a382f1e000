"""
PyRSMQ's commands: an object for each call, which takes its parameters and is then executed.

    rsmq.createQueue().qname("orders").vt(20).execute()
    rsmq.createQueue(qname="orders", vt=20).execute()      # the same

A parameter that is wrong raises at once from its own call, and from ``execute`` as a keyword.
With exceptions switched off, ``execute`` logs what went wrong and returns False.
"""

from __future__ import annotations

import inspect
import logging
import math
import warnings
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, ClassVar, Protocol, Self

from rsmq import errors
from rsmq.client import RSMQ
from rsmq.codecs import BYTES
from rsmq.operations.messages import send_message
from rsmq.pyrsmq.cmd import utils
from rsmq.pyrsmq.cmd.exceptions import (
    CommandNotImplementedException,
    InvalidParameterValue,
    NoMessageInQueue,
    QueueAlreadyExists,
    QueueDoesNotExist,
    RedisSMQException,
)
from rsmq.pyrsmq.cmd.utils import encode_message
from rsmq.wire.fields import TOTAL_RECEIVED, TOTAL_SENT, first_received_field, receive_count_field
from rsmq.wire.keys import Namespace
from rsmq.wire.limits import (
    DEFAULT_DELAY,
    DEFAULT_MAXSIZE,
    DEFAULT_VT,
    MAX_MAXSIZE,
    MAX_SECONDS,
    MIN_MAXSIZE,
    UNLIMITED,
)
from rsmq.wire.names import decode_name, encode_name

if TYPE_CHECKING:
    from collections.abc import Iterator

    from redis.client import Pipeline

    from rsmq.model import Message, QueueAttributes

__all__ = [
    "ChangeMessageVisibilityCommand",
    "Command",
    "CommandNotImplementedException",
    "CreateQueueCommand",
    "DeleteMessageCommand",
    "DeleteQueueCommand",
    "GetQueueAttributesCommand",
    "InvalidParameterValue",
    "ListQueuesCommand",
    "NoMessageInQueue",
    "PopMessageCommand",
    "QueueAlreadyExists",
    "QueueDoesNotExist",
    "ReceiveMessageCommand",
    "RedisSMQException",
    "SendMessageCommand",
    "SetQueueAttributesCommand",
    "utils",
]

_LONGEST_NAME = 64
_LARGEST_MAXSIZE = 65565  # PyRSMQ's own limit; the wire's is 65536

_SECONDS = f"Seconds from 0 to {MAX_SECONDS}."
_SIZE = f"A size from {MIN_MAXSIZE} to {MAX_MAXSIZE}, or -1 for unlimited."


class Maker(Protocol):
    """What a command uses of the ``RedisSMQ`` that made it."""

    namespace: Namespace
    options: dict[str, Any]

    @property
    def client(self) -> Any:
        """The client of redis-py."""

    @property
    def core(self) -> RSMQ:
        """The client of this library on the same connection."""

    def as_client_has_it(self, raw: bytes) -> str | bytes:
        """Return bytes as the client of redis-py would return them."""


class Command:
    """A call in the making."""

    #: What the command takes; the controller's defaults for others are not for it.
    parameters: ClassVar[tuple[str, ...]] = ("qname", "quiet")
    _required: ClassVar[tuple[str, ...]] = ("qname",)

    def __init__(self, rsmq: Maker, **params: Any) -> None:
        self._rsmq = rsmq
        self._raises: bool | None = None
        self._refused: dict[str, InvalidParameterValue] = {}
        self._values: dict[str, Any] = {}
        for name, value in params.items():
            if name in self.parameters and value is not None:
                self._take(name, value)

    def exceptions(self, enabled: bool = True) -> Self:  # noqa: FBT001, FBT002 - PyRSMQ's
        """Choose whether this command raises (True) or returns False on an error."""
        self._raises = enabled is not False
        return self

    def quiet(self, value: bool = True) -> Self:  # noqa: FBT001, FBT002 - PyRSMQ's
        """Log no errors while exceptions are off."""
        self._values["quiet"] = value
        return self

    def ready(self) -> bool:
        """Whether every required parameter has a valid value."""
        return not self._refused and self._missing() is None

    def execute(self) -> Any:
        """
        Do it.

        Returns:
            What the command answers; False on an error while exceptions are off.

        Raises:
            RedisSMQException: one of its subclasses, unless exceptions are off.
        """
        try:
            return self.exec_command()
        except RedisSMQException as error:
            if self._raising:
                raise
            if not self._values.get("quiet"):
                # PyRSMQ's name of the logger: programs filter by it.
                log = logging.getLogger(f"rsmq.cmd.{type(self).__name__}")
                text = " ".join([str(error), *getattr(error, "__notes__", ())])
                log.warning("%s: %s", type(error).__name__, text)
            return False

    def exec_command(self) -> Any:
        """Do it as ``execute`` does, and raise on an error in any case."""
        self._check()
        with self._translated():
            return self._run()

    def _run(self) -> Any:
        raise CommandNotImplementedException

    def _check(self) -> None:
        for error in self._refused.values():
            raise error
        missing = self._missing()
        if missing is not None:
            raise InvalidParameterValue(missing, None, "It is required.")

    @property
    def namespace(self) -> Namespace:
        """The keys of the controller's namespace."""
        return self._rsmq.namespace

    @property
    def _raising(self) -> bool:
        return self._rsmq.options["exceptions"] if self._raises is None else self._raises

    @property
    def _qname(self) -> str:
        qname: str = self._values["qname"]
        return qname

    def _missing(self) -> str | None:
        return next((name for name in self._required if name not in self._values), None)

    def _set(self, name: str, value: object) -> Self:
        """A parameter given by its own call."""
        self._take(name, value)
        if name in self._refused and self._raising:
            raise self._refused[name]
        return self

    def _take(self, name: str, value: object) -> None:
        self._refused.pop(name, None)
        try:
            self._values[name] = _CHECKS[name](self, value) if name in _CHECKS else value
        except InvalidParameterValue as error:
            self._refused[name] = error

    @contextmanager
    def _translated(self) -> Iterator[None]:
        """Raise this library's errors as PyRSMQ's."""
        try:
            yield
        except errors.QueueNotFound as error:
            raise QueueDoesNotExist(self._qname) from error
        except errors.QueueExists as error:
            raise QueueAlreadyExists(self._qname) from error
        except errors.RSMQError as error:
            raise RedisSMQException(f"{error}. {error.hint or ''}".strip()) from error


class _QueueCommand(Command):
    """A command about one queue."""

    def qname(self, value: str) -> Self:
        """The name of the queue: 1 to 64 characters, no colon."""
        return self._set("qname", value)


class _AttributesCommand(_QueueCommand):
    """A command that takes a queue's attributes."""

    parameters = ("qname", "vt", "delay", "maxsize", "quiet")

    def vt(self, value: float) -> Self:
        """The visibility timeout, seconds; 30 if a queue is created without."""
        return self._set("vt", value)

    def delay(self, value: float) -> Self:
        """The delay of new messages, seconds; 0 if a queue is created without."""
        return self._set("delay", value)

    def maxsize(self, value: int) -> Self:
        """The size limit, 1024 to 65536, or -1 for none; 65536 if a queue is created without."""
        return self._set("maxsize", value)


class CreateQueueCommand(_AttributesCommand):
    """Creates a queue: True, or QueueAlreadyExists."""

    def _run(self) -> bool:
        try:
            Namespace().queue(self._qname)
        except errors.RSMQError:
            warn(
                f"Queue {self._qname!r}: clients in other languages refuse this name; "
                "only A-Z a-z 0-9 _ - are shared."
            )
        return self._rsmq.core.create_queue(
            self._qname,
            vt=_whole("vt", self._values.get("vt", DEFAULT_VT)),
            delay=_whole("delay", self._values.get("delay", DEFAULT_DELAY)),
            maxsize=_limit(self._values.get("maxsize", DEFAULT_MAXSIZE)),
        )


class DeleteQueueCommand(_QueueCommand):
    """Deletes a queue with its messages: True, or QueueDoesNotExist."""

    def _run(self) -> bool:
        self._rsmq.core.delete_queue(self._qname)
        return True


class ListQueuesCommand(Command):
    """Lists the queues of the namespace: a set of names."""

    parameters = ("quiet",)
    _required = ()

    def _run(self) -> set[str | bytes]:
        names = self._rsmq.core.list_queues()
        return {self._rsmq.as_client_has_it(encode_name(name)) for name in names}


class GetQueueAttributesCommand(_QueueCommand):
    """
    Reads a queue's attributes and counts: a dict under Node's names.

    vt and delay are floats, as in PyRSMQ; created and modified are Unix seconds, None if another
    client stored what is not a time.
    """

    def _run(self) -> dict[str, Any]:
        return _under_nodes_names(self._rsmq.core.get_queue_attributes(self._qname))


class SetQueueAttributesCommand(_AttributesCommand):
    """Sets those attributes of a queue that are given; answers all, as getQueueAttributes."""

    def _run(self) -> Any:
        given = {
            name: _limit(value) if name == "maxsize" else _whole(name, value)
            for name, value in self._values.items()
            if name in ("vt", "delay", "maxsize")
        }
        core = self._rsmq.core
        return _under_nodes_names(
            core.set_queue_attributes(self._qname, **given)
            if given
            else core.get_queue_attributes(self._qname)
        )


class SendMessageCommand(_QueueCommand):
    """
    Sends a message: its id.

    A str or bytes goes as it is, anything else as JSON. The queue's maxsize is not enforced, as
    in PyRSMQ; empty bodies are allowed.
    """

    parameters = ("qname", "message", "delay", "encode", "quiet")
    _required = ("qname", "message")

    def message(self, value: object) -> Self:
        """The body."""
        return self._set("message", value)

    def delay(self, value: float) -> Self:
        """Seconds until it is visible, fractions allowed; the queue's delay if not given."""
        return self._set("delay", value)

    def encode(self, value: bool = True) -> Self:  # noqa: FBT001, FBT002 - PyRSMQ's
        """Encode as JSON what is neither str nor bytes; this is done in any case."""
        return self._set("encode", value)

    def _run(self) -> str:
        message = self._values["message"]
        if not isinstance(message, bytes):
            try:
                message = self._rsmq.client.get_encoder().encode(encode_message(message))
            except (TypeError, ValueError) as error:
                raise InvalidParameterValue("message", message, f"{error}.") from error
        return self._rsmq.core.run(
            send_message(
                self.namespace,
                self._qname,
                message,
                delay=self._values.get("delay"),
                codec=BYTES,
                realtime=bool(self._rsmq.options["realtime"]),
                enforce_maxsize=False,
            )
        )


class _Taking(_QueueCommand):
    """Receive and pop: a dict of id, message, rc and ts, or NoMessageInQueue."""

    def _answer(self, message: Message | None) -> dict[str, Any]:
        if message is None:
            raise NoMessageInQueue(self._qname)
        return {
            "id": self._rsmq.as_client_has_it(encode_name(message.id)),
            "message": self._rsmq.as_client_has_it(message.raw),
            "rc": message.receive_count,
            "ts": message.first_received_ms,
        }


class ReceiveMessageCommand(_Taking):
    """
    Receives a message and hides it: a dict of id, message, rc and ts, or NoMessageInQueue.

    ts is the time of the first receive in Unix ms. A body that is not text comes as bytes.
    """

    parameters = ("qname", "vt", "quiet")

    def vt(self, value: float) -> Self:
        """Seconds to hide it, fractions allowed; the queue's vt if not given."""
        return self._set("vt", value)

    def _run(self) -> dict[str, Any]:
        return self._answer(self._rsmq.core.receive_message(self._qname, vt=self._values.get("vt")))


class PopMessageCommand(_Taking):
    """Receives a message and deletes it at once: as ReceiveMessageCommand, at most once."""

    def _run(self) -> dict[str, Any]:
        return self._answer(self._rsmq.core.pop_message(self._qname))


class _MessageCommand(_QueueCommand):
    """A command about one message."""

    parameters: ClassVar[tuple[str, ...]] = ("qname", "id", "quiet")
    _required = ("qname", "id")

    def id(self, value: str | bytes) -> Self:
        """The id of the message."""
        return self._set("id", value)

    @property
    def _id(self) -> str:
        id: str = self._values["id"]
        return id


class ChangeMessageVisibilityCommand(_MessageCommand):
    """Hides a message for a time from now: True, or NoMessageInQueue if there is none."""

    parameters = ("qname", "id", "vt", "quiet")

    def vt(self, value: float) -> Self:
        """Seconds from now, fractions allowed; the queue's vt if not given."""
        return self._set("vt", value)

    def _run(self) -> bool:
        vt = self._values.get("vt")
        if vt is None:
            vt = self._rsmq.core.get_queue_attributes(self._qname).vt
        try:
            changed = self._rsmq.core.change_message_visibility(self._qname, self._id, vt)
        except errors.InvalidFormat:  # no id of any client: there is no such message
            changed = False
        if not changed:
            raise NoMessageInQueue(self._qname)
        return True


class DeleteMessageCommand(_MessageCommand):
    """Deletes a message: True if it was there, else False."""

    def _run(self) -> bool:
        try:
            return self._rsmq.core.delete_message(self._qname, self._id)
        except errors.InvalidFormat:  # no id of any client: there is no such message
            return False

    def get_transaction(self) -> Pipeline:
        """
        A MULTI of redis-py that deletes the message, for more commands to go with it.

        Returns:
            The pipeline. When executed, its first two answers are the number of ids and of hash
            fields that went: 1 and at least 1 if the message was there.

        Raises:
            InvalidParameterValue: the name or the id is missing or wrong.
        """
        self._check()
        keys = self.namespace.queue(self._qname)
        pipeline: Pipeline = self._rsmq.client.pipeline(transaction=True)
        pipeline.zrem(keys.zset, self._id)
        id = encode_name(self._id)
        pipeline.hdel(keys.hash, id, receive_count_field(id), first_received_field(id))
        return pipeline


def _under_nodes_names(read: QueueAttributes) -> dict[str, Any]:
    return {
        "vt": float(read.vt),
        "delay": float(read.delay),
        "maxsize": read.maxsize,
        TOTAL_RECEIVED: read.total_received,
        TOTAL_SENT: read.total_sent,
        "created": None if read.created is None else int(read.created.timestamp()),
        "modified": None if read.modified is None else int(read.modified.timestamp()),
        "msgs": read.messages,
        "hiddenmsgs": read.hidden_messages,
    }


def _check_qname(command: Command, value: object) -> str:
    if not isinstance(value, str) or not 1 <= len(value) <= _LONGEST_NAME or ":" in value:
        raise InvalidParameterValue(
            "qname", value, f"A name has 1 to {_LONGEST_NAME} characters, none of them a colon."
        )
    try:
        command.namespace.queue(value)
    except errors.RSMQError as error:
        raise InvalidParameterValue("qname", value, error.hint) from error
    return str.__str__(value)  # a member of an enum of names has another text when formatted


def _check_message(_: Command, value: object) -> object:
    if value is None:
        raise InvalidParameterValue("message", value, "It is required.")
    return value


def _check_id(_: Command, value: object) -> str:
    if isinstance(value, bytes):
        return decode_name(value)
    if not isinstance(value, str) or not value:
        raise InvalidParameterValue("id", value, "An id is a str or bytes, and not empty.")
    return str.__str__(value)


def check_seconds(name: str, value: object) -> float:
    """Seconds as PyRSMQ takes them, a number or one as text; else InvalidParameterValue."""
    number = _number(value)
    # PyRSMQ cuts before it compares, so that -0.5 counts as 0, and 9999999.5 as 9999999.
    if number is None or not 0 <= int(number) <= MAX_SECONDS:
        raise InvalidParameterValue(name, value, _SECONDS)
    return min(max(number, 0), MAX_SECONDS)


def _check_maxsize(_: Command, value: object) -> float:
    number = _number(value)
    if number is None or (
        number != UNLIMITED and not MIN_MAXSIZE <= int(number) <= _LARGEST_MAXSIZE
    ):
        raise InvalidParameterValue("maxsize", value, _SIZE)
    return number


def _number(value: Any) -> float | None:
    """A number, or what can be made one: PyRSMQ takes texts, bools and decimals too."""
    try:
        number = float(value)
    except (OverflowError, TypeError, ValueError):
        return None
    return number if math.isfinite(number) else None


_CHECKS: dict[str, Any] = {
    "qname": _check_qname,
    "id": _check_id,
    "vt": lambda _, value: check_seconds("vt", value),
    "delay": lambda _, value: check_seconds("delay", value),
    "maxsize": _check_maxsize,
    "message": _check_message,
}


def _whole(name: str, seconds: float) -> int:
    """Seconds as a queue can hold them: other clients don't read fractions."""
    whole = math.ceil(seconds)
    if whole != seconds:
        warn(
            f"{name}={seconds:g} of a queue is stored as {whole}: other clients read whole seconds"
        )
    return whole


def _limit(size: float) -> int:
    """A size limit as other clients take it."""
    limit = min(math.ceil(size), MAX_MAXSIZE)
    if limit != size:
        warn(f"maxsize={size:g} of a queue is stored as {limit}: other clients refuse it")
    return limit


def warn(text: str) -> None:
    """Warn of the line of the program that called into this package."""
    level, frame = 1, inspect.currentframe()
    while frame is not None and frame.f_globals.get("__name__", "").startswith("rsmq.pyrsmq"):
        level, frame = level + 1, frame.f_back
    warnings.warn(text, UserWarning, stacklevel=level)
