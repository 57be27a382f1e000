"""
The digests of bodies and attributes, which SDKs verify; and ids and numbers of messages.
"""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Mapping
from typing import Any

#: The name of the ids of this library among UUIDs of version 5.
_NAMESPACE = bytes.fromhex("6f6e0d5c2d0c5b7f9a3fd5e0b5b6a1c4")
_RANDOM_AT, _RANDOM_BYTES = 10, 8


def md5(data: bytes) -> str:
    """Return the digest of a body."""
    return hashlib.md5(data, usedforsecurity=False).hexdigest()


def md5_of_attributes(attributes: Mapping[str, Mapping[str, Any]]) -> str:
    """Return the digest of attributes of a message."""
    digest = hashlib.md5(usedforsecurity=False)
    for name in sorted(attributes):
        attribute = attributes[name]
        is_binary = "BinaryValue" in attribute
        value = (
            base64.b64decode(attribute["BinaryValue"])
            if is_binary
            else attribute["StringValue"].encode()
        )
        for part in (name.encode(), attribute["DataType"].encode()):
            digest.update(len(part).to_bytes(4, "big") + part)
        digest.update(b"\2" if is_binary else b"\1")
        digest.update(len(value).to_bytes(4, "big") + value)
    return digest.hexdigest()


def message_id(id: str) -> str:
    """Return the UUID of a message, which is made of its id and stays when it is moved."""
    text = hashlib.sha1(_NAMESPACE + id.encode(errors="surrogateescape"), usedforsecurity=False)
    digits = text.hexdigest()
    variant = "89ab"[int(digits[16], 16) & 3]
    return f"{digits[:8]}-{digits[8:12]}-5{digits[13:16]}-{variant}{digits[17:20]}-{digits[20:32]}"


def sequence_number(id: str) -> str:
    """Return a number that rises like the ids of messages: time, and then the random part."""
    random = id[_RANDOM_AT : _RANDOM_AT + _RANDOM_BYTES].encode(errors="surrogateescape")
    try:
        us = int(id[:_RANDOM_AT], 36)
    except ValueError:
        us = 0
    return str(us << 8 * _RANDOM_BYTES | int.from_bytes(random, "big"))
