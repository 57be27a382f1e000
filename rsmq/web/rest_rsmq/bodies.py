"""
Bodies and queries as Express 3 reads them: JSON, forms, their character sets and compression.
"""

from __future__ import annotations

import html
import json
import re
import zlib
from collections.abc import Mapping
from typing import Any
from urllib.parse import unquote

from rsmq.wire.json_constants import refuse_constant

MAX_BODY_BYTES = 1024 * 1024
_MAX_FIELDS = 1000
#: Longest indexes in brackets; beyond them the brackets make an object.
_MAX_INDEX, _MAX_FORM_INDEX = 20, 100

_TOKEN = r"[!#$%&'*+\-.0-9A-Z^_`a-z|~]+"  # noqa: S105 - of RFC 2616
_VALUE = r'"(?:[ !\x23-\x5b\x5d-\x7e\x80-\xff]|\\[ -\x7e])*"'
_PARAMETER = re.compile(rf"; *({_TOKEN}) *= *({_VALUE}|{_TOKEN}) *")
_NAME = r"[A-Za-z0-9][A-Za-z0-9!#$&^_.+\-]{0,126}"
_MEDIA_TYPE = re.compile(rf" *({_NAME}/{_NAME}) *((?:{_PARAMETER.pattern})*)")
_IS_JSON = re.compile(r"application/(json|.+\+json)")
_UTF_16 = {"utf16": "utf-16", "utf16le": "utf-16-le", "utf16be": "utf-16-be"}
_INDEX = re.compile("0|[1-9][0-9]{0,3}")
_FIRST = re.compile(r"[ \t\n\r]*(.)")
_BROKEN_PERCENT = re.compile(r"%(?![0-9a-fA-F]{2})")


class Page(Exception):
    """An answer of the web server below rest-rsmq, in HTML."""

    def __init__(self, status: int, text: str) -> None:
        super().__init__(text)
        self.status = status
        self.text = text


def too_long() -> Page:
    """Return the answer to a body that is too long."""
    return Page(413, "Error: request entity too large")


def decode_percent(text: str) -> str | None:
    """Return what JavaScript's ``decodeURIComponent`` returns; None if it fails."""
    if _BROKEN_PERCENT.search(text):
        return None
    try:
        return unquote(text, errors="strict")
    except UnicodeDecodeError:
        return None


def read_body(headers: Mapping[str, str], content: bytes) -> Mapping[str, Any]:
    """
    Return the fields of a body; none if its media type is another one, or it is a list.

    Raises:
        Page: it is not valid, or too long without its compression.
    """
    media_type, charset = _read_media_type(headers.get("content-type", ""))
    is_json = _IS_JSON.fullmatch(media_type) is not None
    if not is_json and media_type != "application/x-www-form-urlencoded":
        return {}
    if not content and "content-length" not in headers and "transfer-encoding" not in headers:
        return {}
    if not (charset.startswith("utf-") if is_json else charset == "utf-8"):
        raise _unsupported("charset", charset.upper())
    plain = _inflate(headers.get("content-encoding", "identity").lower(), content)
    if not is_json:
        return _collect(plain.decode("utf-8-sig", errors="replace"), _MAX_FORM_INDEX)
    text = _decode(charset, plain)
    return _read_json(text) if text else {}


def read_query(text: str) -> Mapping[str, Any]:
    """Return the fields of a query."""
    return _collect(text, _MAX_INDEX)


def _read_media_type(text: str) -> tuple[str, str]:
    match = _MEDIA_TYPE.fullmatch(text)
    if match is None:
        return "", ""
    charset = "utf-8"
    for name, value in _PARAMETER.findall(match[2]):
        if name.lower() == "charset":
            charset = value.strip('"').lower()
    return match[1].lower(), charset


def _unsupported(what: str, value: str) -> Page:
    shown = html.escape(value)
    return Page(415, f"UnsupportedMediaTypeError: unsupported {what} &quot;{shown}&quot;")


def _inflate(encoding: str, content: bytes) -> bytes:
    if encoding == "identity":
        return content
    if encoding not in {"gzip", "deflate"}:
        raise _unsupported("content encoding", encoding)
    reader = zlib.decompressobj(zlib.MAX_WBITS + 16 if encoding == "gzip" else zlib.MAX_WBITS)
    try:
        plain = reader.decompress(content, MAX_BODY_BYTES + 1)
    except zlib.error:
        raise Page(400, "Error: incorrect header check") from None
    if len(plain) > MAX_BODY_BYTES:
        raise too_long()
    if not reader.eof:
        raise Page(400, "Error: unexpected end of file")
    return plain


def _decode(charset: str, content: bytes) -> str:
    short = re.sub("[^a-z0-9]", "", charset)
    if short == "utf8":
        return content.decode("utf-8-sig", errors="replace")
    if short not in _UTF_16:
        raise _unsupported("charset", charset.upper())
    return content.decode(_UTF_16[short], errors="replace").removeprefix("\ufeff")


def _read_json(text: str) -> Mapping[str, Any]:
    first = _FIRST.match(text)
    if first is None or first[1] not in "{[":
        raise Page(400, "Error: invalid json")
    try:
        # JavaScript has no whole numbers: what is too large is Infinity.
        read = json.loads(text, parse_int=float, parse_constant=refuse_constant)
    except (ValueError, RecursionError):
        raise Page(400, "SyntaxError: the body is not valid JSON") from None
    return read if isinstance(read, dict) else {}


def _collect(text: str, max_index: int) -> dict[str, Any]:
    """Return fields; one that is repeated is a list, one with a name in brackets an object."""
    raw: dict[str, Any] = {}
    for part in text.split("&")[:_MAX_FIELDS]:
        end = part.find("]=") + 1 or part.find("=")
        name, value = (part, "") if end < 0 else (part[:end], _decode_field(part[end + 1 :]))
        name = _decode_field(name)
        raw[name] = _join(raw[name], value) if name in raw else value
    fields: dict[str, Any] = {}
    for key, value in raw.items():
        parent = re.split(r"[\[\]]", key, maxsplit=1)[0]
        brackets = re.findall(r"\[([^\[\]]*)\]", key[len(parent) :])
        name, *inner = [parent, *brackets] if parent else brackets or [""]
        if name or key:
            _merge(fields, name, _nest(inner, value, max_index))
    return fields


def _decode_field(text: str) -> str:
    decoded = decode_percent(text.replace("+", " "))
    return text if decoded is None else decoded


def _join(left: Any, right: Any) -> list[Any]:
    return [
        *(left if isinstance(left, list) else [left]),
        *(right if isinstance(right, list) else [right]),
    ]


def _nest(names: list[str], value: Any, max_index: int) -> Any:
    """Return the value within lists, or an object: what is in one does not matter here."""
    for name in reversed(names):
        if not name:
            value = value if isinstance(value, list) else [value]
        elif _INDEX.fullmatch(name) and int(name) <= max_index:
            value = [value]
        else:
            value = {}
    return value


def _merge(fields: dict[str, Any], name: str, value: Any) -> None:
    old = fields.get(name)
    if name not in fields:
        fields[name] = value
    elif isinstance(old, dict) or (isinstance(old, list) and isinstance(value, dict)):
        fields[name] = {}
    else:
        fields[name] = _join(old, value)
