"""
Message attributes of SQS in the headers of this library, and the other way round.

A body without attributes is stored as it is. With attributes it is in an envelope, as
``EnvelopeCodec`` writes it. An attribute of the type String is a header; the header ``sqs:meta``
has the types of the others, whose values are texts there, those of bytes in base64, and what else
of SQS a message has. A body that is an object or a list of JSON stays a value of JSON.
"""

from __future__ import annotations

import base64
import binascii
import json
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from rsmq.wire.envelopes import split_envelope
from rsmq.wire.json_constants import refuse_constant

_META = "sqs:meta"
_HEAD, _BETWEEN = '{"headers":', ',"body":'
MAX_ATTRIBUTES = 10
ATTRIBUTE_NAME = re.compile(
    r"(?!\.)(?!aws\.|amazon\.)[a-z0-9_.-]{1,256}(?<!\.)", re.ASCII | re.IGNORECASE
)
ATTRIBUTE_TYPE = re.compile(r"(String|Number|Binary)(\.[^.].*)?", re.DOTALL)
#: The characters that XML can't have.
_NOT_IN_XML = re.compile("[^\t\n\r\x20-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")
_DECODER = json.JSONDecoder()

Attributes = Mapping[str, Mapping[str, Any]]


def as_xml_text(text: str) -> str:
    """Return a text with U+FFFD for each character that no protocol of SQS can carry."""
    return _NOT_IN_XML.sub("\ufffd", text)


def has_only_xml_characters(text: str) -> bool:
    """Return whether the protocols of SQS can carry a text."""
    return _NOT_IN_XML.search(text) is None


@dataclass(frozen=True, slots=True)
class SqsContent:
    """
    The body of a message of SQS, with its attributes.

    Attributes:
        attributes: of the message, as the JSON protocol has them.
        group: the group of a message in a standard queue; None without one.
        dedup_id: the deduplication id that the sender has given; None without one.
        trace: the system attribute AWSTraceHeader; None without it.
    """

    body: str
    attributes: Attributes = field(default_factory=dict)
    group: str | None = None
    dedup_id: str | None = None
    trace: str | None = None

    @property
    def size(self) -> int:
        """The bytes of body and attributes, as SQS counts them."""
        return len(self.body.encode()) + sum(
            len(name.encode()) + len(each["DataType"].encode()) + _size_of(each)
            for name, each in self.attributes.items()
        )

    def encode(self) -> str:
        """Return the body to store."""
        if not (self.attributes or self.group or self.dedup_id or self.trace) and (
            split_envelope(self.body.encode()) is None
        ):
            return self.body
        types = {
            name: each["DataType"]
            for name, each in self.attributes.items()
            if each["DataType"] != "String"
        }
        others = {"group": self.group, "dedup": self.dedup_id, "trace": self.trace}
        meta = {name: value for name, value in ({"types": types} | others).items() if value}
        headers = {
            name: each.get("StringValue") or each["BinaryValue"]
            for name, each in self.attributes.items()
        }
        if meta:
            headers[_META] = json.dumps(meta)
        body = self.body if _is_object_or_list(self.body) else json.dumps(self.body)
        return f"{_HEAD}{json.dumps(headers)}{_BETWEEN}{body}}}"


def _size_of(attribute: Mapping[str, Any]) -> int:
    if "BinaryValue" in attribute:
        return len(base64.b64decode(attribute["BinaryValue"]))
    return len(attribute["StringValue"].encode())


def _is_object_or_list(text: str) -> bool:
    if not text.startswith(("{", "[")) or not text.endswith(("}", "]")):
        return False
    try:
        json.loads(text, parse_constant=refuse_constant)
    except (ValueError, RecursionError):
        return False
    return True


def decode(raw: bytes) -> SqsContent:
    """
    Return the content of a stored body, also if another client has sent it.

    Characters that SQS can't carry, and bytes that are not UTF-8, become U+FFFD.
    """
    envelope = split_envelope(raw)
    if envelope is None:
        return SqsContent(as_xml_text(raw.decode(errors="replace")))
    headers, body = envelope
    text = body if isinstance(body, str) else _written_body(raw, body)
    return _content_of(text, headers)


def decode_whole(raw: bytes) -> SqsContent:
    """
    Return the content of a stored body, with all that is in it.

    If the headers of an envelope can't all be attributes, the envelope itself is the body.

    Raises:
        ValueError: SQS can't carry it: it is empty, is not UTF-8, or has other characters.
    """
    text = raw.decode()
    if not text or not has_only_xml_characters(text):
        raise ValueError
    content, envelope = decode(raw), split_envelope(raw)
    if envelope is not None:
        headers, body = envelope
        values = (body if isinstance(body, str) else "", *headers.values())
        names = headers.keys() - {_META}
        if (
            not content.body
            or content.attributes.keys() != names
            or not all(map(has_only_xml_characters, values))
        ):
            return SqsContent(text)
    return content


def _written_body(raw: bytes, body: Any) -> str:
    """Return the JSON of a body as it was written, as far as it is in the form of this library."""
    text = raw.decode(errors="replace")  # JSON may be in UTF-16, or have surrogates
    if text.startswith(_HEAD + "{"):
        _, end = _DECODER.raw_decode(text, len(_HEAD))
        if text.startswith(_BETWEEN, end) and text.endswith("}"):
            return text[end + len(_BETWEEN) : -1]
    return json.dumps(body)


def _content_of(body: str, headers: Mapping[str, str]) -> SqsContent:
    meta = _read_meta(headers)
    types = meta.get("types")
    attributes: dict[str, dict[str, str]] = {}
    for name, value in headers.items():
        if len(attributes) == MAX_ATTRIBUTES or not value or not ATTRIBUTE_NAME.fullmatch(name):
            continue
        kind = types.get(name, "String") if isinstance(types, dict) else "String"
        if not isinstance(kind, str) or not ATTRIBUTE_TYPE.fullmatch(kind):
            kind = "String"
        is_binary = kind.startswith("Binary") and is_base64(value)
        kind = kind if is_binary or not kind.startswith("Binary") else "String"
        key = "BinaryValue" if is_binary else "StringValue"
        attributes[name] = {key: as_xml_text(value), "DataType": as_xml_text(kind)}
    texts = {
        name: as_xml_text(meta[name])
        for name in ("group", "dedup", "trace")
        if isinstance(meta.get(name), str)
    }
    return SqsContent(
        as_xml_text(body), attributes, texts.get("group"), texts.get("dedup"), texts.get("trace")
    )


def _read_meta(headers: Mapping[str, str]) -> dict[str, Any]:
    try:
        meta = json.loads(headers.get(_META, "{}"))
    except (ValueError, RecursionError):
        return {}
    return meta if isinstance(meta, dict) else {}


def is_base64(value: object) -> bool:
    """Return whether a value is a text in base64."""
    try:
        base64.b64decode(value, validate=True)  # type: ignore[arg-type]
    except (ValueError, TypeError, binascii.Error):
        return False
    return True
