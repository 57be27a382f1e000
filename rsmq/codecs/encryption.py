"""
``Encrypted``: a codec whose bodies are encrypted with AES-256-GCM.
"""

from __future__ import annotations

from os import urandom
from typing import ClassVar

from rsmq.codecs.interface import CannotDecode, Codec
from rsmq.codecs.keys import Keys, KeySource, UnknownKey, check_key_id
from rsmq.codecs.steps import OpenedStep, StepCodec, Stepped
from rsmq.codecs.type_variables import In_contra, Out_co
from rsmq.errors import show
from rsmq.wire.body_format import BodyStep, format_steps

_STEP = "aes256gcm"
_NONCE_BYTES = 12


class Encrypted(StepCodec[In_contra, Out_co]):
    """
    A codec that encrypts the bodies of another codec: AES-256-GCM, with a new nonce for each body.

    The id of the key, the steps, the namespace and the name of the queue are authenticated too: a
    body that is copied to another queue by hand can't be decoded there. Moves, dead letters,
    redrives, exports and the like of this library write the queue where it was encrypted before
    the payload, so they keep it readable.

    It also decodes bodies that are not encrypted, unless ``allow_plain`` is False: give it to
    consumers before producers. **Headers, unique keys, deduplication ids and groups are not
    encrypted**; ``keyed`` makes one of a value that must not be seen.

    If a body can't be decrypted, ``Message.body`` raises BodyNotDecodable with the id of its key.
    The codec can be pickled if its keys can be; then it contains them.
    """

    __slots__ = ("_allow_plain", "_keys")

    rank: ClassVar[int] = 2
    step_names: ClassVar[frozenset[str]] = frozenset({_STEP})

    def __init__(
        self,
        codec: Codec[In_contra, Out_co],
        *,
        keys: KeySource,
        allow_plain: bool = True,
    ) -> None:
        """
        Wrap a codec.

        Args:
            codec: TEXT, JSON, another codec, or ``Compressed`` around one of them.
            keys: the keys, each 32 bytes, or their base64, by an id of 1 to 64 characters of
                ``A-Z a-z 0-9 . _ -``: a dict; a path of a file, or ``"env:NAME"``, with
                ``ID:BASE64`` for each key, separated by whitespace or commas; or a function, see
                ``rsmq.codecs.keys``. The first key encrypts, all others decrypt.
            allow_plain: if False, a body that is not encrypted raises BodyNotDecodable. Set it once
                a queue has only encrypted ones: then a body can be added only with a key.

        Raises:
            InvalidFormat: codec is not a codec, or encrypts already; or keys is not one of these,
                is empty, or has an invalid id or key.
            MissingParameter: the environment has no such variable.
            MissingExtra: the extra ``bodies`` is not installed.
            OSError: the file can't be read.
        """
        super().__init__(codec)
        self._keys = Keys(keys)
        self._allow_plain = allow_plain

    def keyed(self, value: str) -> str:
        """
        Return a keyed hash of a value, for a unique key, a deduplication id or a group.

        It is the same for the same value and the same first key, so it changes with a new key.

        Args:
            value: what must not be seen in Redis.

        Returns:
            43 characters of ``A-Z a-z 0-9 _ -``.
        """
        return self._keys.keyed(value)

    def apply(self, stepped: Stepped, place: bytes, id_end: bytes = b"") -> Stepped:  # noqa: ARG002
        key_id, cipher = self._keys.current()
        steps = (*stepped.steps, BodyStep(_STEP, (key_id,)))
        nonce = urandom(_NONCE_BYTES)
        sealed: bytes = cipher.encrypt(nonce, stepped.payload, _associated(steps, place))
        return Stepped(nonce + sealed, steps)

    def undo(self, opened: OpenedStep) -> bytes:
        key_id = check_key_id(opened.step.parameters)
        try:
            cipher = self._keys.find(key_id)
        except UnknownKey:
            raise CannotDecode(
                f"The body is encrypted with the key {show(key_id)}, which the codec does not have",
                "Add the key to the keys of the codec, behind the first one.",
            ) from None
        nonce, sealed = opened.payload[:_NONCE_BYTES], opened.payload[_NONCE_BYTES:]
        try:
            body: bytes = cipher.decrypt(nonce, sealed, _associated(opened.earlier, opened.place))
        except Exception:  # noqa: BLE001 - InvalidTag, or a ValueError of a damaged nonce
            raise CannotDecode(
                f"The body does not open with the key {show(key_id)}",
                "It is damaged, was copied here from another queue by hand, or the key with this "
                "id is another one.",
            ) from None
        return body

    def check_steps(self, steps: tuple[BodyStep, ...]) -> None:
        if not self._allow_plain and all(each.name != _STEP for each in steps):
            raise CannotDecode(
                "The body is not encrypted", "With allow_plain=True the codec reads plain bodies."
            )

    def __repr__(self) -> str:
        return f"Encrypted({self.wrapped!r}, keys={self._keys!r})"


def _associated(steps: tuple[BodyStep, ...], place: bytes) -> bytes:
    """Return what is authenticated beside a body: the version, the steps, and the queue."""
    return b"%b:%b" % (format_steps(steps).encode(), place)
