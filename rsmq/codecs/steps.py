"""
The base of the codecs that do something with the bytes of another codec's body: compress, encrypt,
store.
"""

from __future__ import annotations

from typing import ClassVar, NamedTuple

from rsmq.codecs.envelope import EnvelopeCodec
from rsmq.codecs.inflation import LEVELS, inflate
from rsmq.codecs.interface import BodyStore, CannotDecode, Codec, QueueCodec, check_codec
from rsmq.codecs.type_variables import In_contra, Out_co
from rsmq.errors import InvalidFormat, show
from rsmq.headers import current_headers
from rsmq.wire.body_format import BodyStep, FormatError, FormattedBody, is_formatted, parse_body


class Stepped(NamedTuple):
    """
    The bytes of a body after some steps.

    Attributes:
        payload: the bytes.
        steps: what was done, in order; none means that the body may be stored as it was encoded.
    """

    payload: bytes
    steps: tuple[BodyStep, ...] = ()


class OpenedStep(NamedTuple):
    """
    A step that is to be undone.

    Attributes:
        step: the step.
        earlier: all steps up to this one, this one included.
        payload: the bytes that came out of it.
        place: the queue for which the body was encoded, as ``NAMESPACE:QUEUE``.
    """

    step: BodyStep
    earlier: tuple[BodyStep, ...]
    payload: bytes
    place: bytes


class StepCodec(QueueCodec[In_contra, Out_co]):
    """
    A codec that does a step with the bytes of another codec's body.

    The order is fixed: encode, compress, encrypt, store. A subclass has its place in it, ``rank``,
    the names of its steps, ``apply`` and ``undo``. ``EnvelopeCodec`` may be inside: then headers
    are in clear text before the payload, and ``Message.headers`` reads them.

    Attributes:
        wrapped: the codec inside.
        chain: the codecs with steps, in order; this one is the last.
        envelope: the EnvelopeCodec inside; None without one.
        leaf: the codec that encodes bodies.
    """

    __slots__ = ("chain", "envelope", "leaf", "wrapped")

    #: The place in the order, from 1.
    rank: ClassVar[int]
    #: The names of the steps that ``undo`` undoes.
    step_names: ClassVar[frozenset[str]]

    def __init__(self, codec: Codec[In_contra, Out_co]) -> None:
        self.wrapped: Codec[In_contra, Out_co] = check_codec(codec)
        self.envelope: EnvelopeCodec[In_contra, Out_co] | None = None
        self.leaf: Codec[In_contra, Out_co] = codec
        self.chain: tuple[StepCodec[In_contra, Out_co], ...] = (self,)
        if isinstance(codec, StepCodec):
            if codec.rank >= self.rank:
                raise InvalidFormat(
                    "codec",
                    value=show(codec),
                    hint="The order is Stored(Encrypted(Compressed(JSON))), each at most once: "
                    f"{type(self).__name__} can't be around {type(codec).__name__}.",
                )
            self.envelope, self.leaf = codec.envelope, codec.leaf
            self.chain = (*codec.chain, self)
        elif isinstance(codec, EnvelopeCodec):
            self.envelope, self.leaf = codec, codec.inner

    @property
    def writes_headers(self) -> bool:
        """Whether bodies have headers; tracing looks at it."""
        return self.envelope is not None

    def apply(self, stepped: Stepped, place: bytes, id_end: bytes = b"") -> Stepped:
        """
        Do the step, or return the same.

        Args:
            stepped: the bytes after the steps before.
            place: the namespace and the name of the queue.
            id_end: the last 22 characters of the id of the message; empty if it is not known, or if
                several messages get the body.
        """
        raise NotImplementedError

    def undo(self, opened: OpenedStep) -> bytes:
        """
        Undo one of the steps of ``step_names``.

        Raises:
            CannotDecode: that fails.
        """
        raise NotImplementedError

    def load_from(self, raw: bytes, place: bytes) -> bytes:  # noqa: ARG002
        """Return a body of a queue without its last step, if that needs a server."""
        return raw

    def discard_from(self, raw: bytes, place: bytes, id: str) -> None:
        """Do what ``QueueCodec.discard`` does, for a queue."""

    def check_steps(self, steps: tuple[BodyStep, ...]) -> None:
        """Raise CannotDecode if this codec refuses bodies with these steps; none is a plain one."""

    def for_queue(self, place: bytes) -> Codec[In_contra, Out_co]:
        return BoundCodec(self, place)

    def for_message(self, place: bytes, id_end: bytes) -> Codec[In_contra, Out_co]:
        return BoundCodec(self, place, id_end) if self.blocks else self.for_queue(place)

    def encode_for(self, body: In_contra, place: bytes, id_end: bytes = b"") -> str | bytes:
        """Return the body for a queue; without any step as the inner codec encodes it."""
        return self.close(self.leaf.encode(body), place, id_end)

    def close(self, encoded: str | bytes, place: bytes, id_end: bytes = b"") -> str | bytes:
        """Return the body for what the innermost codec has encoded."""
        raw = encoded.encode() if isinstance(encoded, str) else encoded
        if not isinstance(raw, bytes):
            return encoded  # the send refuses it
        stepped = Stepped(raw)
        for codec in self.chain:
            stepped = codec.apply(stepped, place, id_end)
        payload, steps = stepped
        if not steps and not is_formatted(raw):
            return encoded if self.envelope is None else self.envelope.envelop(encoded)
        headers = {} if self.envelope is None else current_headers()
        return FormattedBody(steps, payload, headers=headers).format()

    def decode_from(self, raw: bytes, place: bytes) -> Out_co:
        """
        Return the body that is stored in a queue; a plain one too.

        Raises:
            CannotDecode: it can't be read, or lacks a step that this codec requires.
            Errors of the inner codec.
        """
        codec: Codec[In_contra, Out_co] = self.leaf
        if self.envelope is not None and not is_formatted(raw):
            codec = self.envelope
        return codec.decode(self.open(raw, place))

    def open(self, raw: bytes, place: bytes) -> bytes:
        """
        Return the bytes of the innermost codec; of a plain body the same.

        Args:
            raw: a stored body.
            place: the queue that it is in.

        Raises:
            CannotDecode: it can't be read.
        """
        if not is_formatted(raw):
            self._check_all(())
            return raw
        try:
            body = parse_body(raw)
        except FormatError as error:
            raise CannotDecode(str(error), error.hint) from None
        self._check_all(body.steps)
        payload = body.payload
        origin = place if body.origin is None else body.origin
        for at in range(len(body.steps), 0, -1):
            step = body.steps[at - 1]
            opened = OpenedStep(step, body.steps[:at], payload, origin)
            codecs = (each for each in self.chain if step.name in each.step_names)
            codec = next(codecs, None)
            payload = undo_step(opened) if codec is None else codec.undo(opened)
        return payload

    def _check_all(self, steps: tuple[BodyStep, ...]) -> None:
        for codec in self.chain:
            codec.check_steps(steps)


class BoundCodec(QueueCodec[In_contra, Out_co]):
    """A ``StepCodec`` for the bodies of one queue, or for the body of one message."""

    __slots__ = ("_codec", "_id_end", "_place")

    def __init__(
        self, codec: StepCodec[In_contra, Out_co], place: bytes, id_end: bytes = b""
    ) -> None:
        self._codec = codec
        self._place = place
        self._id_end = id_end

    def for_queue(self, place: bytes) -> Codec[In_contra, Out_co]:
        return self._codec.for_queue(place)

    def for_message(self, place: bytes, id_end: bytes) -> Codec[In_contra, Out_co]:
        return self._codec.for_message(place, id_end)

    def encode(self, body: In_contra) -> str | bytes:
        return self._codec.encode_for(body, self._place, self._id_end)

    def decode(self, raw: bytes) -> Out_co:
        return self._codec.decode_from(raw, self._place)

    def load(self, raw: bytes) -> bytes:
        return self._codec.load_from(raw, self._place)

    def discard(self, raw: bytes, id: str) -> None:
        self._codec.discard_from(raw, self._place, id)

    @property
    def blocks(self) -> bool:
        return self._codec.blocks

    @property
    def store(self) -> BodyStore | None:
        return self._codec.store

    @property
    def grace_seconds(self) -> float:
        return self._codec.grace_seconds

    @property
    def writes_headers(self) -> bool:
        """As of the codec."""
        return self._codec.writes_headers

    def __repr__(self) -> str:
        return repr(self._codec)


def undo_step(opened: OpenedStep) -> bytes:
    """
    Undo a step, if each reader can do that without a setting.

    Raises:
        CannotDecode: this reader can't.
    """
    step = opened.step
    if step.name in LEVELS:
        return inflate(step, opened.payload)
    first = step.parameters[0] if step.parameters else ""
    if step.name == "aes256gcm":
        raise CannotDecode(
            f"The body is encrypted with the key {show(first)}",
            "Receive it with codec=Encrypted(..., keys=...) of rsmq.codecs.",
        )
    if step.name == "stored":
        raise CannotDecode(
            "The body is stored elsewhere",
            "Receive it with codec=Stored(..., store=...) of rsmq.codecs, as its sender.",
        )
    raise CannotDecode(
        f"The body has the step {show(step.name)}, which this version of rsmq does not know",
        "Update rsmq, or receive it with the codec of its sender.",
    )
