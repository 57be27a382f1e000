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

from rsmq.headers import split_envelope
from rsmq.web.sqs.errors import invalid
from rsmq.web.sqs.protocols import as_xml_text, has_only_xml_characters

_META = "sqs:meta"
_HEAD, _BETWEEN = '{"headers":', ',"body":'
_MAX_ATTRIBUTES, _MAX_NAME = 10, 256
_NAME = re.compile(r"(?!\.)(?!aws\.|amazon\.)[a-z0-9_.-]{1,256}(?<!\.)", re.IGNORECASE)
_TYPE = re.compile(r"(String|Number|Binary)(\.[^.].*)?", re.DOTALL)
_NUMBER = re.compile(r"[+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d+)?")
_DECODER = json.JSONDecoder()

Attributes = Mapping[str, Mapping[str, Any]]


@dataclass(frozen=True, slots=True)
class SqsContent:
    """
    What a message of SQS has beside its times and counts.

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
        raw = self.body.encode()
        is_plain = split_envelope(raw) is None
        if not headers and is_plain:
            return self.body
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
        json.loads(text, parse_constant=_refuse)
    except (ValueError, RecursionError):
        return False
    return True


def _refuse(name: str) -> Any:
    raise ValueError(name)


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


def _written_body(raw: bytes, body: Any) -> str:
    """Return the JSON of a body as it was written, as far as it is in the form of this library."""
    text = raw.decode()
    if text.startswith(_HEAD):
        _, end = _DECODER.raw_decode(text, len(_HEAD))
        if text.startswith(_BETWEEN, end) and text.endswith("}"):
            return text[end + len(_BETWEEN) : -1]
    return json.dumps(body)


def _content_of(body: str, headers: Mapping[str, str]) -> SqsContent:
    meta = _read_meta(headers)
    types = meta.get("types")
    attributes: dict[str, dict[str, str]] = {}
    for name, value in headers.items():
        if len(attributes) == _MAX_ATTRIBUTES or not value or not _NAME.fullmatch(name):
            continue
        kind = types.get(name, "String") if isinstance(types, dict) else "String"
        if not isinstance(kind, str) or not _TYPE.fullmatch(kind):
            kind = "String"
        is_binary = kind.startswith("Binary") and _is_base64(value)
        kind = kind if is_binary or not kind.startswith("Binary") else "String"
        key = "BinaryValue" if is_binary else "StringValue"
        attributes[name] = {key: as_xml_text(value), "DataType": kind}
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


def _is_base64(value: object) -> bool:
    try:
        base64.b64decode(value, validate=True)  # type: ignore[arg-type]
    except (ValueError, TypeError, binascii.Error):
        return False
    return True


def check_attributes(given: Any) -> dict[str, dict[str, str]]:
    """
    Check the attributes of a message to send, and return them without fields that do not count.

    Raises:
        SqsError: they are not valid.
    """
    if given is None:
        return {}
    if not isinstance(given, dict):
        raise invalid("MessageAttributes is not a map.")
    if len(given) > _MAX_ATTRIBUTES:
        raise invalid(
            f"Number of message attributes [{len(given)}] exceeds the allowed maximum "
            f"[{_MAX_ATTRIBUTES}]."
        )
    return {name: _check_attribute(name, each) for name, each in given.items()}


def _check_attribute(name: str, attribute: Any) -> dict[str, str]:
    if not _NAME.fullmatch(name):
        raise invalid(
            f"Message (user) attribute name '{name[:_MAX_NAME]}' is invalid: it has 1 to "
            f"{_MAX_NAME} characters of A-Z, a-z, 0-9, '_', '-' and '.', does not start with AWS. "
            "or Amazon., and neither starts nor ends with a dot."
        )
    kind = attribute.get("DataType") if isinstance(attribute, dict) else None
    if not isinstance(kind, str) or not kind:
        raise invalid(
            f"The message attribute '{name}' must contain a non-empty message attribute type."
        )
    if not _TYPE.fullmatch(kind) or len(kind) > _MAX_NAME or not has_only_xml_characters(kind):
        raise invalid(
            f"The type of message (user) attribute '{name}' is invalid. You must use only the "
            "following supported type prefixes: Binary, Number, String."
        )
    base = kind.partition(".")[0]
    key = "BinaryValue" if base == "Binary" else "StringValue"
    value = attribute.get(key)
    if not isinstance(value, str) or not value:
        raise invalid(
            f"Message (user) attribute '{name}' must contain a non-empty value of type '{base}'."
        )
    is_good = {
        "Binary": _is_base64(value),
        "Number": _NUMBER.fullmatch(value) is not None,
        "String": has_only_xml_characters(value),
    }[base]
    if not is_good:
        raise invalid(
            f"Can't cast the value of message (user) attribute '{name}' to a {base.lower()}."
        )
    return {key: value, "DataType": kind}


def choose_attributes(attributes: Attributes, names: list[str]) -> Attributes:
    """Return those attributes that a receive asks for, by names, or by begins with a star."""
    if not names or not attributes:
        return {}
    if {"All", "*", ".*"} & set(names):
        return attributes
    prefixes = tuple(each[:-2] for each in names if each.endswith(".*"))
    return {
        name: each
        for name, each in attributes.items()
        if name in names or (prefixes and name.startswith(prefixes))
    }
