"""
The two protocols: AWS JSON 1.0, and Query with answers in XML. Both carry the same parameters.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, TypeAlias
from urllib.parse import parse_qsl
from xml.sax.saxutils import escape

from rsmq.codecs.sqs_content import as_xml_text
from rsmq.web import json_requests
from rsmq.web.sqs.errors import SqsError, invalid

_TARGET = "AmazonSQS."
_JSON_TYPE, _XML_TYPE = "application/x-amz-json-1.0", "text/xml"
_XML_SPACE = "http://queue.amazonaws.com/doc/2012-11-05/"
_MAX_FIELDS = 2000
_SURROGATE = re.compile(r"\\u[dD][89a-fA-F]")
#: Characters that XML would change: a CR becomes a line feed.
_ENTITIES = {"\r": "&#13;", '"': "&quot;"}
#: Lists and maps of requests in the query protocol: the names of their elements, and the names of
#: keys and values of a map.
_LISTS = {
    "AttributeNames": "AttributeName",
    "MessageAttributeNames": "MessageAttributeName",
    "MessageSystemAttributeNames": "MessageSystemAttributeName",
    "TagKeys": "TagKey",
}
_MAPS = {
    "Attributes": ("Attribute", "Name"),
    "MessageAttributes": ("MessageAttribute", "Name"),
    "MessageSystemAttributes": ("MessageSystemAttribute", "Name"),
    "tags": ("Tag", "Key"),
    "Tags": ("Tag", "Key"),
}
#: The lists of answers in the query protocol; those of batches have the name of the operation.
_RESULT_LISTS = {
    "QueueUrls": "QueueUrl",
    "queueUrls": "QueueUrl",
    "Messages": "Message",
    "Failed": "BatchResultErrorEntry",
    "Results": "ListMessageMoveTasksResultEntry",
}


#: Encodes an error; returns the media type, the content and further headers.
Refuse: TypeAlias = Callable[[SqsError, str], tuple[str, bytes, dict[str, str]]]


@dataclass(frozen=True, slots=True)
class SqsRequest:
    """
    A request for an operation.

    Attributes:
        operation: its name; empty without one.
        parameters: as the JSON protocol has them.
        answer: encodes a result; returns the media type and the content.
        refuse: encodes an error.
    """

    operation: str
    parameters: Mapping[str, Any]
    answer: Callable[[Mapping[str, Any] | None, str], tuple[str, bytes]]
    refuse: Refuse


def is_json_request(headers: Mapping[str, str]) -> bool:
    """Return whether a request is one of the JSON protocol."""
    return "x-amz-target" in headers


def read_request(
    headers: Mapping[str, str], query: bytes, path_name: str, body: bytes
) -> SqsRequest:
    """
    Return what a request asks for.

    Args:
        headers: by names in lower case.
        query: that of the URL.
        path_name: the path, if it is that of a queue; else empty.
        body: the content.

    Raises:
        SqsError: it is not valid; the protocol is that of ``is_json_request``.
    """
    if is_json_request(headers):
        operation = headers["x-amz-target"].removeprefix(_TARGET)
        return SqsRequest(operation, _read_json(body), _answer_in_json, refuse_in_json)
    fields = _read_pairs(query)
    fields |= _read_pairs(body)
    operation = fields.pop("Action", "")
    parameters = _nest(operation, fields)
    if path_name and "QueueUrl" not in parameters:
        parameters["QueueUrl"] = path_name

    def answer(result: Mapping[str, Any] | None, id: str) -> tuple[str, bytes]:
        return _answer_in_xml(operation, result, id)

    return SqsRequest(operation, parameters, answer, refuse_in_xml)


def _read_json(body: bytes) -> dict[str, Any]:
    try:
        text = body.decode() or "{}"
        found = json_requests.decode(text)
        if _SURROGATE.search(text):  # a lone one can't be encoded, so it is a fault as any other
            json.dumps(found, ensure_ascii=False).encode()
    except (ValueError, RecursionError):
        raise SqsError("SerializationException", "The body is not valid JSON.") from None
    if not isinstance(found, dict):
        raise SqsError("SerializationException", "The body is not an object.")
    return found


def _read_pairs(text: bytes) -> dict[str, str]:
    try:
        pairs = parse_qsl(
            text.decode(), keep_blank_values=True, errors="strict", max_num_fields=_MAX_FIELDS
        )
    except ValueError:
        raise invalid("The parameters are not valid.") from None
    return dict(pairs)


def _nest(operation: str, fields: Mapping[str, str]) -> dict[str, Any]:
    """Return the parameters of the query protocol as the JSON protocol has them."""
    tree: dict[str, Any] = {}
    for name, value in fields.items():
        *parents, last = name.split(".")
        place = tree
        for each in parents[:_MAX_DEPTH]:
            inner = place.setdefault(each, {})
            if not isinstance(inner, dict):
                raise invalid(f"The parameter {name[:100]} is not valid.")
            place = inner
        place[last] = value
    return _rename(tree, f"{operation}RequestEntry")


_MAX_DEPTH = 6


def _rename(tree: Mapping[str, Any], entries: str) -> dict[str, Any]:
    found: dict[str, Any] = {}
    lists = {element: name for name, element in _LISTS.items()}
    maps = {element: (name, key) for name, (element, key) in _MAPS.items()}
    for name, value in tree.items():
        if name == entries and isinstance(value, dict):
            rows = _in_order(value)
            found["Entries"] = [_rename(row, "") if isinstance(row, dict) else row for row in rows]
        elif name in lists:
            found[lists[name]] = _in_order(value)
        elif name in maps:
            key_of, key = maps[name]
            rows = [each for each in _in_order(value) if isinstance(each, dict)]
            found[key_of] = {row.get(key, ""): row.get("Value", "") for row in rows}
        else:
            found[name] = value
    return found


def _in_order(numbered: Any) -> list[Any]:
    """Return the elements of a list; one without a number is a list of itself."""
    if not isinstance(numbered, dict):
        return [numbered]
    numbers = [each for each in numbered if each.isdecimal()]
    return [numbered[each] for each in sorted(numbers, key=lambda each: int(each[:9]))]


def _answer_in_json(result: Mapping[str, Any] | None, _id: str) -> tuple[str, bytes]:
    return _JSON_TYPE, json.dumps(result or {}).encode()


def refuse_in_json(error: SqsError, _id: str) -> tuple[str, bytes, dict[str, str]]:
    """Return an error of the JSON protocol. Its header has the code of the query protocol."""
    content = json.dumps({"__type": error.shape, "message": str(error)}).encode()
    code = error.code.encode("latin-1", "replace").decode("latin-1")
    return _JSON_TYPE, content, {"x-amzn-query-error": f"{code};{error.fault}"}


def _answer_in_xml(operation: str, result: Mapping[str, Any] | None, id: str) -> tuple[str, bytes]:
    parts = [f'<?xml version="1.0"?><{operation}Response xmlns="{_XML_SPACE}">']
    if result is not None:
        inner = "".join(_elements_of(operation, result))
        name = f"{operation}Result"
        parts.append(f"<{name}>{inner}</{name}>" if inner else f"<{name}/>")
    parts.append(f"<ResponseMetadata><RequestId>{id}</RequestId></ResponseMetadata>")
    parts.append(f"</{operation}Response>")
    return _XML_TYPE, "".join(parts).encode()


def refuse_in_xml(error: SqsError, id: str) -> tuple[str, bytes, dict[str, str]]:
    """Return an error of the query protocol."""
    text = (
        f'<?xml version="1.0"?><ErrorResponse xmlns="{_XML_SPACE}"><Error>'
        f"<Type>{error.fault}</Type><Code>{_escape(error.code)}</Code>"
        f"<Message>{_escape(error.query_text())}</Message><Detail/></Error>"
        f"<RequestId>{id}</RequestId></ErrorResponse>"
    )
    return _XML_TYPE, text.encode(), {}


def _escape(text: str) -> str:
    return escape(as_xml_text(text), _ENTITIES)


def _elements_of(operation: str, content: Mapping[str, Any]) -> list[str]:
    found: list[str] = []
    for name, value in content.items():
        if name in _MAPS:
            element, key = _MAPS[name]
            found += (
                f"<{element}><{key}>{_escape(each)}</{key}>{_element(operation, 'Value', inner)}"
                f"</{element}>"
                for each, inner in value.items()
            )
        elif isinstance(value, list):
            element = _RESULT_LISTS.get(name, f"{operation}ResultEntry")
            found += (_element(operation, element, each) for each in value)
        else:
            found.append(_element(operation, name, value))
    return found


def _element(operation: str, name: str, value: Any) -> str:
    if isinstance(value, dict):
        return f"<{name}>{''.join(_elements_of(operation, value))}</{name}>"
    text = str(value).lower() if isinstance(value, bool) else str(value)
    return f"<{name}>{_escape(text)}</{name}>"
