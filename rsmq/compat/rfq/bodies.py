"""
Messages of rfq, which are dicts of texts, as the JSON objects that are stored.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from rsmq.errors import MessageNotString

_HINT = "A message is a dict of texts with at least one name, as in {'tile': '7'}."


def encode_body(message: Mapping[str, Any]) -> bytes:
    """
    Return the JSON object to store.

    Numbers and bytes become the texts that rfq stores.

    Raises:
        MessageNotString: the message is not a dict, or is empty, or a name or a value is not a
            text, a number, or bytes of UTF-8.
    """
    if not isinstance(message, Mapping) or not message:
        kind = "an empty dict" if isinstance(message, Mapping) else f"a {type(message).__name__}"
        raise MessageNotString(summary=f"The message is {kind}", hint=_HINT)
    texts = {_as_text(name): _as_text(value) for name, value in message.items()}
    return json.dumps(texts, ensure_ascii=False, separators=(",", ":")).encode()


def _as_text(part: object) -> str:
    try:
        if isinstance(part, bytes):
            return part.decode()
        if isinstance(part, str):
            part.encode()
            return part
    except (UnicodeDecodeError, UnicodeEncodeError) as error:
        summary = f"A name or a value of the message is not UTF-8 ({error.reason})"
        raise MessageNotString(summary=summary, hint=_HINT) from None
    if isinstance(part, int | float) and not isinstance(part, bool):
        return repr(part)
    summary = f"A name or a value of the message is a {type(part).__name__}"
    raise MessageNotString(summary=summary, hint=f"{_HINT} Convert it to str.")


def decode_body(raw: bytes) -> dict[str, str]:
    """
    Return the texts of a body.

    Values of a JSON object that are not texts are returned as JSON. Any other body is the text
    ``message``. ``rsmq bridge --to rfq:TOPIC`` does the same.
    """
    try:
        found = json.loads(raw)
        if isinstance(found, dict) and found:
            return {
                name: value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
                for name, value in found.items()
            }
    except (ValueError, RecursionError):
        pass
    return {"message": raw.decode("utf-8", "surrogateescape")}
