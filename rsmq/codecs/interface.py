"""
The interface of codecs, and the errors of this library's codecs.
"""

from __future__ import annotations

from collections.abc import Iterator
from types import GenericAlias
from typing import TYPE_CHECKING, Any, Generic, Protocol, TypeGuard, cast, runtime_checkable

from rsmq.codecs.type_variables import In_contra, Out_co
from rsmq.errors import BodyNotDecodable, InvalidFormat, Shown, show
from rsmq.errors.printable import format_count
from rsmq.wire.body_format import describe, is_formatted, key_id_of

_NEEDS_QUEUE = "Pass it to a client, or use its for_queue(b'NAMESPACE:QUEUE')."


@runtime_checkable
class Codec(Protocol[In_contra, Out_co]):
    """
    The interface of codecs.

    ``Codec[In, Out]`` encodes bodies of type In, and decodes them as Out. ``Codec[Order]`` is
    ``Codec[Order, Order]``, and ``Codec`` is ``Codec[Any, Any]``.
    """

    if not TYPE_CHECKING:  # Protocol's own refuses Codec[Order]: before 3.13 it has no defaults
        __class_getitem__ = classmethod(GenericAlias)

    def encode(self, body: In_contra) -> str | bytes:
        """
        Return the text or bytes to store for a body.

        For a text, maxsize limits the number of UTF-16 code units, as in Node; for bytes, their
        number. If this raises any exception, the send raises MessageNotString.
        """

    def decode(self, raw: bytes) -> Out_co:
        """
        Return the body that these stored bytes represent.

        If this raises any exception, ``Message.body`` raises BodyNotDecodable.
        """


@runtime_checkable
class BodyStore(Protocol):
    """
    A store of bodies. Several threads call it at the same time.

    Each object has a place, the namespace and the name of the queue for which it was stored, as in
    ``b"rsmq:orders"``, and a name of 32 characters of ``0-9 a-f``. Methods raise any exception if
    the store does not answer, or refuses the access.
    """

    def write(self, place: bytes, name: str, body: bytes) -> None:
        """Store an object, completely or not at all for its readers."""

    def read(self, place: bytes, name: str, size: int) -> bytes:
        """
        Return an object; another number of bytes if it has not this size, without reading it all.

        Raises:
            FileNotFoundError: it does not exist.
        """

    def delete(self, place: bytes, name: str) -> None:
        """Delete an object; nothing happens if it does not exist."""

    def list(self, namespace: bytes) -> Iterator[tuple[bytes, str]]:
        """Yield place and name of each object of the queues of a namespace."""


class QueueCodec(Generic[In_contra, Out_co]):
    """
    The base class of codecs whose bodies may depend on the queue, such as ``Encrypted``.

    Clients, workers and schedules call ``for_queue``, and use the codec that it returns. They look
    for this class once in a call, not for each message.
    """

    __slots__ = ()

    @property
    def blocks(self) -> bool:
        """Whether it waits for a server, so that an event loop must call it in a thread."""
        return False

    @property
    def store(self) -> BodyStore | None:
        """The store of large bodies; None without one."""
        return None

    @property
    def grace_seconds(self) -> float:
        """How long an object is in no message before a sweep of a worker deletes it."""
        return 0.0

    def load(self, raw: bytes) -> bytes:
        """
        Return a body that needs no server to be decoded, for one that is stored elsewhere.

        Raises:
            BodyUnavailable: the store does not answer.
            CannotDecode: it can't be read.
        """
        return raw

    def for_queue(self, place: bytes) -> Codec[In_contra, Out_co]:
        """
        Return the codec of the bodies of one queue.

        Args:
            place: the namespace and the name of the queue, as in ``b"rsmq:orders"``.
        """
        raise NotImplementedError

    def for_message(self, place: bytes, id_end: bytes) -> Codec[In_contra, Out_co]:  # noqa: ARG002
        """
        Return the codec that encodes the body of one message.

        Args:
            place: as for ``for_queue``.
            id_end: the last 22 characters of the id that it will have.
        """
        return self.for_queue(place)

    def discard(self, raw: bytes, id: str) -> None:
        """
        Delete what is stored elsewhere for a message of this queue that was deleted.

        Only what no other message can have is deleted; the sweep does the rest. Nothing is raised.

        Args:
            raw: the body as it was in the queue.
            id: the id of the message.
        """

    def encode(self, body: In_contra) -> str | bytes:
        """Raise CannotEncode: the queue is not known."""
        raise CannotEncode(self, body, _NEEDS_QUEUE)

    def decode(self, raw: bytes) -> Out_co:  # noqa: ARG002
        """Raise CannotDecode: the queue is not known."""
        raise CannotDecode(f"{self!r} needs the queue of the body", _NEEDS_QUEUE)


def bind_codec(codec: Codec, place: bytes) -> Codec:
    """Return the codec of the bodies of one queue, with ``place`` as ``for_queue`` has it."""
    return codec.for_queue(place) if isinstance(codec, QueueCodec) else codec


def blocks(codec: Codec) -> TypeGuard[QueueCodec[Any, Any]]:
    """Return whether a codec waits for a server."""
    return isinstance(codec, QueueCodec) and codec.blocks


class CannotEncode(TypeError):
    """
    A codec of this library can't encode a body; the text does not contain the body.

    Attributes:
        hint: the remedy.
    """

    def __init__(self, codec: object, part: object, hint: str) -> None:
        super().__init__(f"{codec} can't encode {type(part).__name__}")
        self.hint = hint


class CannotDecode(ValueError):
    """
    A codec of this library can't decode a body; the text does not contain the body.

    Attributes:
        hint: the remedy; empty if there is none.
    """

    def __init__(self, text: str, hint: str = "") -> None:
        super().__init__(text)
        self.hint = hint


def make_not_decodable(queue: str, id: str, raw: bytes, error: BaseException) -> BodyNotDecodable:
    """Return the error of a body that a codec can't decode, for its own error as the cause."""
    hint = None
    if isinstance(error, CannotDecode) and error.hint:
        hint = f"{error}. {error.hint}"
    elif is_formatted(raw):
        hint = f"The body is {describe(raw)}. Receive it with the codec of its sender."
    found = BodyNotDecodable(queue, id, raw, hint=hint)
    if is_formatted(raw):
        found.value = Shown(f"a body of {format_count(len(raw), 'byte')}")
        found.key_id = key_id_of(raw)
    found.__cause__ = error
    return found


def check_codec(codec: object) -> Codec:
    """
    Check a codec, and return it.

    Raises:
        InvalidFormat: it lacks ``encode`` or ``decode``.
    """
    # As isinstance with the protocol, which takes ten times as long.
    has_both = callable(getattr(codec, "encode", None)) and callable(getattr(codec, "decode", None))
    if has_both and not isinstance(codec, type):
        return cast("Codec", codec)
    raise InvalidFormat(
        "codec",
        value=show(codec),
        hint="A codec is TEXT, BYTES, JSON, MSGPACK, or an object with encode(body) and "
        "decode(raw).",
    )
