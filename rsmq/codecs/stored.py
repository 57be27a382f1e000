"""
``Stored``: a codec whose large bodies are in an object store, with a reference in the message.
"""

from __future__ import annotations

import hashlib
import re
from dataclasses import replace
from datetime import timedelta
from os import urandom
from typing import ClassVar, NoReturn

from rsmq.codecs.compression import check_size
from rsmq.codecs.inflation import MAX_BODY_BYTES
from rsmq.codecs.interface import (
    BodyStore,
    CannotDecode,
    CannotEncode,
    Codec,
    QueueCodec,
    bind_codec,
    blocks,
)
from rsmq.codecs.steps import OpenedStep, StepCodec, Stepped
from rsmq.codecs.type_variables import In_contra, Out_co
from rsmq.errors import BodyUnavailable, InvalidFormat, InvalidValue, NotPossible, show
from rsmq.errors.guarded_log import get_logger
from rsmq.errors.printable import format_count
from rsmq.wire.body_format import (
    BodyStep,
    FormatError,
    add_origin,
    is_formatted,
    is_stored,
    name_object,
    owned_object,
    parse_body,
)
from rsmq.wire.limits import check_duration

_log = get_logger("rsmq.codecs")

_STEP = "stored"
_NAME_BYTES = 16
DEFAULT_GRACE_SECONDS = 86_400
MIN_GRACE_SECONDS = 60
_MAX_GRACE_SECONDS = 365 * 86_400
_NAME = re.compile(r"[0-9a-f]{32}")
_SHA256 = re.compile(r"[0-9a-f]{64}")
_SIZE = re.compile(r"[0-9]{1,9}")


class Stored(StepCodec[In_contra, Out_co]):
    """
    A codec that writes large bodies of another codec to a store; a message has the reference.

    The object is written before the message is sent: if the store does not answer, nothing is sent.
    It also decodes bodies that are not stored elsewhere: give it to consumers before producers.
    The asyncio client writes in a thread, and loads the bodies when it receives the messages.

    The object of a message is deleted after the message, by the client or worker that deletes it
    and has this codec, if no other message can have it. The sweep deletes all others.

    If an object is missing, or has another size or hash, ``Message.body`` raises BodyNotDecodable.
    If the store does not answer, it raises BodyUnavailable; a worker defers the message.
    """

    __slots__ = ("_deletes", "_grace", "_limit", "_store", "above")

    rank: ClassVar[int] = 3
    step_names: ClassVar[frozenset[str]] = frozenset({_STEP})

    def __init__(
        self,
        codec: Codec[In_contra, Out_co],
        *,
        store: BodyStore,
        above: int = 256_000,
        limit: int = MAX_BODY_BYTES,
        deletes: bool = True,
        grace: float | timedelta = DEFAULT_GRACE_SECONDS,
    ) -> None:
        """
        Wrap a codec.

        Args:
            codec: TEXT, JSON, another codec, ``Compressed`` or ``Encrypted``.
            store: an ``ObjectStore`` or ``RedisStore`` of ``rsmq.body_stores``, or an own one.
            above: a body that has more bytes is stored, after compression and encryption; 0 to
                512 MiB.
            limit: the largest body that it writes or reads, bytes, 1 to 512 MiB; 64 MiB by default,
                and at most with a ``RedisStore``.
            deletes: whether objects are deleted with their messages. False leaves all to the sweep:
                for consumers without the right to delete objects, or if a failover or a
                backup of Redis may restore messages.
            grace: how long an object is in no message before the hourly sweep of workers deletes
                it: seconds, 60 to a year; a day by default. As of ``sweep_bodies``.

        Raises:
            InvalidFormat: codec is not a codec, or stores already; store lacks a method; or deletes
                is not a bool.
            InvalidValue: above, limit or grace is out of range.
        """
        super().__init__(codec)
        if isinstance(store, type) or not isinstance(store, BodyStore):
            raise InvalidFormat(
                "store",
                value=show(store),
                hint="Pass an ObjectStore or a RedisStore of rsmq.body_stores.",
            )
        if not isinstance(deletes, bool):
            raise InvalidFormat("deletes", value=show(deletes), hint="Pass True or False.")
        self._store = store
        self._deletes = deletes
        self._grace = check_grace(grace)
        self.above: int = check_size("above", above, 0)
        self._limit = check_size("limit", limit, 1)
        most = getattr(store, "max_bytes", self._limit)
        if self._limit > most:
            raise InvalidValue("limit", 1, most, value=limit)

    @property
    def blocks(self) -> bool:
        return True

    @property
    def store(self) -> BodyStore:
        """The store of the bodies."""
        return self._store

    @property
    def grace_seconds(self) -> float:
        return self._grace

    def apply(self, stepped: Stepped, place: bytes, id_end: bytes = b"") -> Stepped:
        body = stepped.payload
        if len(body) <= self.above:
            return stepped
        if len(body) > self._limit:
            size = format_count(len(body), "byte")
            raise CannotEncode(self, body, f"It has {size}, and the limit is {self._limit:,}.")
        name = name_object(id_end) if id_end else urandom(_NAME_BYTES).hex()
        try:
            self._store.write(place, name, body)
        except Exception as error:
            raise BodyUnavailable("The store of the body") from error
        parameters = (name, str(len(body)), hashlib.sha256(body).hexdigest())
        return Stepped(b"", (*stepped.steps, BodyStep(_STEP, parameters)))

    def undo(self, opened: OpenedStep) -> bytes:
        name, size, digest = self._check_reference(opened)
        try:
            body = self._store.read(opened.place, name, size)
        except FileNotFoundError:
            raise CannotDecode(
                "The object with the body is missing from the store",
                "Compare the store of the codec with that of the sender. Otherwise it was deleted, "
                "or the message was copied here from another queue by hand.",
            ) from None
        except Exception as error:
            raise BodyUnavailable("The store of the body") from error
        if len(body) != size or hashlib.sha256(body).hexdigest() != digest:
            raise CannotDecode(
                "The object with the body has another size or hash than the message says",
                "It was changed or damaged in the store: restore it there, and receive the message "
                "again.",
            )
        return body

    def _check_reference(self, opened: OpenedStep) -> tuple[str, int, str]:
        """Return name, size and hash; a reference can't name anything but an object of a queue."""
        if len(opened.step.parameters) != 3:  # noqa: PLR2004
            _refuse_reference()
        name, size, digest = opened.step.parameters
        is_valid = _NAME.fullmatch(name) and _SIZE.fullmatch(size) and _SHA256.fullmatch(digest)
        if not is_valid or b":" not in opened.place or opened.payload:
            _refuse_reference()
        if int(size) > self._limit:
            raise CannotDecode(
                f"The body has {format_count(int(size), 'byte')}, and the limit is {self._limit:,}",
                "Receive it with codec=Stored(..., limit=...), if its sender is trusted.",
            )
        return name, int(size), digest

    def discard_from(self, raw: bytes, place: bytes, id: str) -> None:
        name = owned_object(raw, id) if self._deletes else None
        if name is None:
            return
        try:
            self._store.delete(place, name)
        except Exception as error:  # noqa: BLE001 - the sweep deletes it
            _log.warning(
                "the stored body of a deleted message remains until the sweep, since %r can't "
                "delete it: %s",
                self._store,
                type(error).__name__,
            )

    def load_from(self, raw: bytes, place: bytes) -> bytes:
        if not is_formatted(raw):
            return raw
        try:
            body = parse_body(raw)
        except FormatError as error:
            raise CannotDecode(str(error), error.hint) from None
        if not body.steps or body.steps[-1].name != _STEP:
            return raw
        origin = place if body.origin is None else body.origin
        payload = self.undo(OpenedStep(body.steps[-1], body.steps, body.payload, origin))
        return replace(body, steps=body.steps[:-1], payload=payload).format().encode()

    def __repr__(self) -> str:
        return f"Stored({self.wrapped!r}, store={self._store!r}, above={self.above})"


def check_grace(grace: float | timedelta) -> float:
    """Return the seconds of a grace; raise InvalidValue if they are not 60 to a year."""
    return check_duration("grace", grace, MIN_GRACE_SECONDS, _MAX_GRACE_SECONDS)


def without_store(codec: Codec) -> Codec:
    """Return the codec inside a ``Stored``; another codec itself."""
    return codec.wrapped if isinstance(codec, Stored) else codec


def leave_namespace(raw: bytes, place: bytes, codec: Codec | None = None) -> bytes:
    """
    Return a body as it leaves a namespace: it names its queue, and no object of a store.

    Args:
        raw: the body as it is in its queue.
        place: the namespace and the name of the queue.
        codec: loads a body that is stored elsewhere, if it can.

    Raises:
        NotPossible: the body is stored elsewhere, and the codec can't load it.
        BodyUnavailable, CannotDecode: those of ``QueueCodec.load``.
    """
    if is_stored(raw):
        bound = None if codec is None or not blocks(codec) else bind_codec(codec, place)
        if not isinstance(bound, QueueCodec):
            raise NotPossible(
                "A message whose body is stored elsewhere can't leave its namespace",
                hint="The sweep of the namespace would delete the object. Export it with the codec "
                "that has stored it, as in rsmq export --codec app:codec.",
            )
        raw = bound.load(raw)
    return add_origin(raw, place)


def refuse_copy(raw: bytes) -> None:
    """
    Check a body that is sent as it was stored, as by Spark.

    Raises:
        NotPossible: it names an object, which belongs to another message: that may be deleted
            together with it.
    """
    if is_stored(raw):
        raise NotPossible(
            "A body that is stored elsewhere can't be copied by its reference",
            hint="Read and write it with the codec that has stored it.",
        )


def _refuse_reference() -> NoReturn:
    raise CannotDecode(
        "The reference to the object with the body is damaged",
        "Its sender did not write it with Stored of rsmq.codecs; nothing was read from the store.",
    )
