"""
The attributes of messages in requests.
"""

from __future__ import annotations

import re
from typing import Any

from rsmq.codecs.sqs_content import (
    ATTRIBUTE_NAME,
    ATTRIBUTE_TYPE,
    MAX_ATTRIBUTES,
    Attributes,
    has_only_xml_characters,
    is_base64,
)
from rsmq.web.sqs.errors import invalid

_MAX_NAME = 256
#: In one way only, so that a long text takes linear time.
_NUMBER = re.compile(r"[+-]?([0-9]+(\.[0-9]*)?|\.[0-9]+)([eE][+-]?[0-9]+)?")


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
    if len(given) > MAX_ATTRIBUTES:
        raise invalid(
            f"Number of message attributes [{len(given)}] exceeds the allowed maximum "
            f"[{MAX_ATTRIBUTES}]."
        )
    return {name: _check_attribute(name, each) for name, each in given.items()}


def _check_attribute(name: str, attribute: Any) -> dict[str, str]:
    if not ATTRIBUTE_NAME.fullmatch(name):
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
    if (
        not ATTRIBUTE_TYPE.fullmatch(kind)
        or len(kind) > _MAX_NAME
        or not has_only_xml_characters(kind)
    ):
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
        "Binary": is_base64(value),
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
