"""
Headers: names with values that travel with a message, beside its body.

    with use_headers({"request_id": "7f3a"}):
        queues.send_message("orders", order, codec=EnvelopeCodec(JSON))

RSMQ messages have no headers. ``EnvelopeCodec`` writes the current ones into the body, tasks write
them into theirs, and ``Message.headers`` reads them (``rsmq.wire.envelopes``).
"""

from __future__ import annotations

import logging
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from types import MappingProxyType

from rsmq.errors import InvalidFormat, show, show_type

#: The header of a correlation id.
REQUEST_ID = "request_id"
_NONE: Mapping[str, str] = MappingProxyType({})

_current: ContextVar[Mapping[str, str]] = ContextVar("rsmq_headers", default=_NONE)


def current_headers() -> Mapping[str, str]:
    """Return the headers that messages sent here get, in this thread or task; read-only."""
    return _current.get()


@contextmanager
def use_headers(headers: Mapping[str, str]) -> Iterator[None]:
    """
    Add headers to the current ones, in this thread or task, until the block ends.

    Messages that are sent meanwhile have them, if an ``EnvelopeCodec`` encodes them or if they are
    tasks. Others do not change. It costs Redis nothing but the bytes.

    Args:
        headers: values by name, both str. The names are not empty.

    Raises:
        InvalidFormat: headers is not such a mapping.
    """
    token = _current.set(MappingProxyType({**_current.get(), **_check_headers(headers)}))
    try:
        yield
    finally:
        _current.reset(token)


def _check_headers(headers: object) -> Mapping[str, str]:
    if not isinstance(headers, Mapping):
        hint = "Pass a dict, as in {'request_id': '7f3a'}."
        raise InvalidFormat("headers", value=show_type(headers), hint=hint)
    for name, value in headers.items():
        if not isinstance(name, str) or not isinstance(value, str) or not name:
            hint = "Names and values are str, and a name is not empty."
            raise InvalidFormat("headers", value=show(name), hint=hint)
    return headers


class HeaderFilter(logging.Filter):
    """
    A filter that sets current headers as fields of each log record; '' if there is no such header.

    Add it to a logging handler; then its formatter can use them, as in ``%(request_id)s``.
    """

    def __init__(self, *names: str) -> None:
        """
        Make one.

        Args:
            names: the headers; none means ``request_id``.
        """
        super().__init__()
        self._names = names or (REQUEST_ID,)

    def filter(self, record: logging.LogRecord) -> bool:
        headers = _current.get()
        for name in self._names:
            if not hasattr(record, name):
                setattr(record, name, headers.get(name, ""))
        return True
