"""
The headers of stored bodies, and envelopes: JSON with headers beside a body.
"""

from __future__ import annotations

import json
from typing import Any

from rsmq.wire.body_format import headers_of, is_formatted

#: The names of the fields of an envelope.
ENVELOPE_FIELDS = {"headers", "body"}


def read_headers(raw: bytes) -> dict[str, str]:
    """
    Return the headers of a stored body; empty if it has none.

    Args:
        raw: an envelope, the body of a task, or a body in the form of ``rsmq.wire.body_format``.
    """
    if is_formatted(raw):
        return headers_of(raw)
    parsed = _parse_with_headers(raw)
    if parsed is None or not (
        parsed.keys() == ENVELOPE_FIELDS or isinstance(parsed.get("task"), str)
    ):
        return {}
    return text_headers(parsed["headers"])


def split_envelope(raw: bytes) -> tuple[dict[str, str], Any] | None:
    """Return the headers and the body of an envelope; None if it is not one."""
    parsed = _parse_with_headers(raw)
    if parsed is None or parsed.keys() != ENVELOPE_FIELDS:
        return None
    return text_headers(parsed["headers"]), parsed["body"]


def text_headers(headers: object) -> dict[str, str]:
    """Return those headers of a message that are text; other programs may write anything."""
    if not isinstance(headers, dict):
        return {}
    return {name: value for name, value in headers.items() if isinstance(value, str)}


def _parse_with_headers(raw: bytes) -> dict[str, Any] | None:
    """Return a JSON object with an object of headers; None for other bodies, mostly unparsed."""
    if b'"headers"' not in raw or not raw.lstrip().startswith(b"{"):
        return None
    try:
        parsed = json.loads(raw)
    except (ValueError, RecursionError):
        return None
    has_headers = isinstance(parsed, dict) and isinstance(parsed.get("headers"), dict)
    return parsed if has_headers else None
