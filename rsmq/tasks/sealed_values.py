"""
Arguments and results of tasks that are compressed and encrypted, each value for itself.

The rest of the body of a task stays JSON: names of tasks, headers and flows need no key. A value is
not bound to a queue, because workers, flows and dead letters take it to others, but to tasks: it
can't be decoded as the body of a message, and no body as a value.
"""

from __future__ import annotations

from typing import Any

from rsmq.codecs import JSON, CannotDecode, Codec
from rsmq.codecs.steps import StepCodec
from rsmq.codecs.stored import Stored, without_store
from rsmq.errors.printable import format_count
from rsmq.tasks.body import is_result
from rsmq.tasks.converters import ArgumentConverter, WrongArgument
from rsmq.wire.body_format import FormattedBody, is_formatted

#: The place of values; that of a queue has a colon.
_PLACE = b"task"


class SealedValues:
    """The values of JSON of tasks, with the steps of a codec."""

    def __init__(self, codec: StepCodec[Any, Any] | None, stored_above: int | None = None) -> None:
        """
        Use a codec.

        Args:
            codec: compresses or encrypts values; None leaves them as they are.
            stored_above: the size above which the client's codec stores bodies elsewhere, bytes;
                None if it does not. Values are not: flows, results and what follows copy them.
        """
        self._codec = codec
        self._stored_above = stored_above

    def check_size(self, name: str, value: Any) -> None:
        """
        Check the size of an argument that is sent.

        Raises:
            WrongArgument: a body of this size would be stored elsewhere.
        """
        limit = self._stored_above
        if limit is None or is_result(value):
            return
        size = len(JSON.encode(value).encode())
        if size > limit:
            raise WrongArgument(
                f"{name} has {format_count(size, 'byte')}, and the codec stores bodies of more "
                f"than {limit:,} elsewhere, but no arguments of tasks. Write it to a store, and "
                "pass its name"
            )

    def seal(self, value: Any) -> Any:
        """Return a value of JSON with its steps, a text; the same value if it needs none."""
        if self._codec is None:
            return value
        text = JSON.encode(value)
        sealed = self._codec.close(text, _PLACE)
        if isinstance(sealed, str) and is_formatted(sealed.encode()):
            return sealed
        parts = value if isinstance(value, list) else [value]
        return FormattedBody((), text.encode()).format() if any(map(_is_sealed, parts)) else value

    def open(self, value: Any) -> Any:
        """
        Return a value without its steps, or a list of results with theirs.

        Raises:
            WrongArgument: the codec can't undo them.
        """
        if self._codec is None:
            return value
        if isinstance(value, list) and any(map(_is_sealed, value)):
            return [self.open(each) for each in value]
        raw = value if _is_sealed(value) else JSON.encode(value)
        try:
            return JSON.decode(self._codec.open(raw.encode(), _PLACE))
        except CannotDecode as error:
            raise WrongArgument(f"{error}. {error.hint}".rstrip(". ")) from None

    def around(self, converter: ArgumentConverter) -> ArgumentConverter:
        """Return a converter whose values of JSON have the steps."""
        return _SealedConverter(self, converter)


class _SealedConverter:
    def __init__(self, values: SealedValues, converter: ArgumentConverter) -> None:
        self._values = values
        self._converter = converter

    def to_json(self, value: Any) -> Any:
        return self._values.seal(self._converter.to_json(value))

    def from_json(self, value: Any) -> Any:
        return self._converter.from_json(self._values.open(value))


def find_values(codec: Codec) -> SealedValues | None:
    """Return the values of tasks of a client with this codec; None without steps."""
    if not isinstance(codec, StepCodec):
        return None
    inline = without_store(codec)
    stored_above = codec.above if isinstance(codec, Stored) else None
    return SealedValues(inline if isinstance(inline, StepCodec) else None, stored_above)


def _is_sealed(value: object) -> bool:
    return isinstance(value, str) and value.startswith("rsmq-body/")
