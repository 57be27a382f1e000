"""
Random sequences of requests to rest-rsmq's routes, and how their answers are compared.

``scripts/compare-rest-rsmq`` sends them to the original and to ours, and records them for
``test_rest_rsmq.py``. Visibility timeouts and delays are 0 or long, so that an answer does not
depend on the speed of a server.
"""

from __future__ import annotations

import gzip
import json
import random
import re
import zlib
from typing import NamedTuple

_NAMES = [*(["q1"] * 12), *(["q2"] * 4), "Odd-name_9", "constructor", "__proto__"]
_ODD_NAMES = [
    "a" * 80, "a" * 161, "a%20b", "a%2Fb", "%71%31", "%2571", "%FF", "%", "%zz", "%E2%82%AC",
    "q1%00", "q1%0A", "a+b", "a.b", "..", "%2e%2e", "a:b", "q1'", "%22", "*", "q1;x", "nope", "~",
]  # fmt: skip
_IDS = ["{id}"] * 12 + ["{first}"] * 4 + [
    "x" * 32, "x" * 31, "x" * 33, "abc", "a%20b", "a:" + "b" * 30, "%FF", "e" * 31 + "-", "0" * 32,
]  # fmt: skip
#: As values of JSON. A short time would let a message appear between two requests.
_NUMBERS = [
    "0", "0", "0", "60", "90", "9999999", "10000000", "-1", "-0", "-0.5", "60.7", "9e25", "1e400",
    "-1e400", "9e400", "9" + "0" * 30, "<9*400>", "<9*5000>", "1024", "1023", "2048", "65536",
    "65537", "65536.9", "9.5e-7", "4294967356", "18446744073709551676", "9e3", "2.048e3",
    "null", "true", "false", "[]", "[60]", "[null]", '["60", 5]', "[[60]]", "[[], 60]", "{}",
    '{"a": 60}', '""', '"abc"', '"60"', '" 60"', '"+60"', '"60abc"', '"0x60"', '"-60"', '"6e9"',
    '"\\u00a060"', '"\\ufeff60"', '"\\u001c60"', '"\\u008560"', '"\\n60"', '"\\u0666\\u0660"',
    '"2048"', '"1e9"', '"Infinity"', '"NaN"', '"- 60"', '"60,5"',
]  # fmt: skip
_MESSAGES = [
    '"a"', '"b"', '"c"', '"a"', '""', '" "', '"ä€😀"', '"\\ud83d\\ude00"', '"\\ud800"',
    '"\\udc00a\\ud800\\ud800"', '"\\u0000\\u001f\\u007f\\u2028\\u2029\\"\\\\/\\b\\f\\t"',
    '"</script>"', '"<x*1024>"', '"<x*1025>"', '"<x*2048>"', '"<x*2049>"', '"<x*65536>"',
    '"<x*65537>"', '"<€*1024>"', '"<😀*512>"', '"<😀*513>"', '"<😀*32768>"', '"\\ud800<x*1023>"',
    '"{\\"a\\": 1}"', "null", "5", "1.5", "true", "[]", '["a"]', "{}", '{"a": 1}',
    '"\\uffff\\ufffe"',
]  # fmt: skip
_BODIES = [
    "", " ", "{bad", "[1]", "[]", '"x"', "null", "5", '{"vt": NaN}', '{"vt": Infinity}', "{} x",
    '{"vt": 60, "vt": 90}', "\ufeff{}", '\ufeff{"vt": 60}', '{"vt": 0x60}', "{'vt': 60}", "\v{}",
    "\u00a0{}", '\n\t {"vt": 60}', '{"__proto__": {"vt": 60}}', '{"qname": "q2", "id": "x"}',
    '{"constructor": 1, "vt": 60}', '{"vt": 060}', '{"message": "a\nb"}', '{"message": "<ff>"}',
    '{"VT": 60}', '{"vt ": 60}', "{", "}", '{"vt":60,}', '{"message": "\\x"}', '["message"]',
    '{"message": "a", "vt": 60, "delay": 60, "maxsize": 2048, "ns": "x", "realtime": true}',
    "\n", "\n\n{}", '{"a": {"b": [{"c": null}]}, "message": "deep"}',
]  # fmt: skip
_FORMS = [
    "vt=60", "vt=60&delay=0", "vt=", "vt", "vt=abc", "vt=60&vt=90", "vt=abc&vt=60", "vt[]=60",
    "vt[0]=60", "vt[1]=60", "vt[21]=60", "vt[a]=60", "vt[]=abc&vt[]=60", "vt=%36%30", "vt=%zz",
    "vt=+60", "vt=%2B60", "v%74=60", "VT=60", "&&vt=60&", "=60", "vt==60", "vt=60=5", "vt;60",
    "a=b", "vt[=60", "vt]=60", "vt[a][b]=60", "[vt]=60", "vt.a=60", "vt=60&vt[]=90",
    "vt=60&vt[a]=1",
    "vt[]=60&vt=90", "vt[]", "_method=DELETE", "message=a", "message=a+b%20c", "message=",
    "message", "message=a&message=b", "message[]=a", "message[a]=b", "message=%E2%82%AC",
    "message=%FF", "message=%", "message=a&delay=60", "message=a&delay=x", "message=%zz+a",
    "maxsize=2048", "maxsize=5", "vt=60&delay=60&maxsize=2048", "qname=q2&vt=60", "message=€",
    "message=a%00b", "message=<x*2048>", "vt=60?vt=90", "vt=60;vt=90", "toString=1", "vt=0",
    "vt=%C2%A060", "vt=%1C60", "vt=%EF%BB%BF60", "vt=%", "vt=%F", "vt=60%", "message=%E2%82",
]  # fmt: skip
_TYPES = ["application/json"] * 12 + [
    "application/json; charset=utf-8", "application/json;charset=UTF-8", "Application/JSON",
    'application/json; charset="utf-8"', "application/json; charset=latin1", "text/json",
    "application/vnd.a+json", "text/plain", "application/json; charset=utf-7x", "", "x", None,
    "application/json; charset", "application/json; x=y", "application/octet-stream", "*/*",
    "application/json, text/plain", "application/jsonp", "application/json;", "text/html+json",
]  # fmt: skip
_FORM_TYPES = ["application/x-www-form-urlencoded"] * 6 + [
    "application/x-www-form-urlencoded; charset=utf-8", "Application/X-WWW-Form-Urlencoded",
    "application/x-www-form-urlencoded; charset=latin1",
]  # fmt: skip
_HEADERS = [
    {"if-none-match": "*"}, {"if-none-match": '"x"'}, {"if-none-match": '"x", *'},
    {"if-none-match": "*", "cache-control": "no-cache"}, {"x-http-method-override": "DELETE"},
    {"if-none-match": "*", "cache-control": "max-age=0"}, {"accept": "text/html"},
    {"if-none-match": "*", "if-modified-since": "Sat, 29 Oct 2050 19:43:31 GMT"},
    {"if-modified-since": "Sat, 29 Oct 2050 19:43:31 GMT"}, {"accept-encoding": "gzip"},
    {"content-encoding": "gzip"}, {"content-encoding": "deflate"}, {"content-encoding": "br"},
    {"content-encoding": "GZIP"}, {"content-encoding": "identity"},
]  # fmt: skip
_PATHS = [
    "/", "/nothing", "//queues", "/queues//", "/messages", "/messages/", "/queues/q1/x", "/queue",
    "/queues/q1//", "/messages/q1//", "/messages/q1/x/y", "/messages//x", "/QUEUES", "/Queues/q1",
    "/MESSAGES/q1", "/queues/q1/", "/messages/q1/", "/queues/", "/queues?x=/", "/queues/?",
    "/a?<b>",
    "/queues/q1?", "/%71ueues", "/<b>'\"&", "/queues/q1/../q2", "/./queues", "/queues;x", "/a%0A",
    "/messages/q1/{id}/", "/messages/q1/{id}//", "/MESSAGES/q1/{id}", "/x?id={id}", "/queues/%",
    "/messages/%FF/{id}", "/queues%2Fq1", "/queues/q1%2F", "/robots.txt", "/messages/q1/{id}/x",
]  # fmt: skip
_METHODS = ["GET", "POST", "PUT", "DELETE", "PATCH", "HEAD", "OPTIONS"]
_FOUND = [
    ("GET", "/queues"), ("GET", "/queues/{q}"), ("POST", "/queues/{q}"), ("DELETE", "/queues/{q}"),
    ("POST", "/messages/{q}"), ("GET", "/messages/{q}"), ("PUT", "/messages/{q}/{m}"),
    ("DELETE", "/messages/{q}/{m}"),
]  # fmt: skip
_WEIGHTS = [4, 8, 7, 3, 20, 16, 10, 8]


class NodeRequest(NamedTuple):
    """A request; ``{id}`` in its path is the last id that was sent, ``{first}`` the first."""

    method: str
    path: str
    headers: dict[str, str]
    body: str | None

    def encode_body(self) -> bytes | None:
        """Return the bytes of the body."""
        if self.body is None:
            return None
        text = re.sub(r"<(.)\*(\d+)>", lambda found: found[1] * int(found[2]), self.body)
        body = text.encode().replace(b"<ff>", b"\xff")
        encoding = self.headers.get("content-encoding", "").lower()
        if encoding == "gzip":
            return gzip.compress(body, mtime=0)
        return zlib.compress(body) if encoding == "deflate" else body


class Answer(NamedTuple):
    """What is compared."""

    status: int
    content_type: str
    body: str


def make_sequence(chance: random.Random) -> list[NodeRequest]:
    """Return 5 to 15 requests; the first ones make a queue with a message, mostly."""
    requests = []
    if chance.random() < 0.9:
        sizes = ["{}", '{"vt": 60}', '{"maxsize": 1024}', '{"vt": 0}', '{"delay": 60}', "{}"]
        requests.append(_json("POST", "/queues/q1", chance.choice(sizes)))
    if chance.random() < 0.7:
        requests.append(_json("POST", "/messages/q1", '{"message": "first"}'))
    length = chance.randrange(5, 16)
    while len(requests) < length:
        requests.append(_make_request(chance))
    return requests


def _json(method: str, path: str, body: str) -> NodeRequest:
    return NodeRequest(method, path, {"content-type": "application/json"}, body)


def _make_request(chance: random.Random) -> NodeRequest:
    method, path = chance.choices(_FOUND, _WEIGHTS)[0]
    path = path.replace("{q}", chance.choice(_NAMES if chance.random() < 0.9 else _ODD_NAMES))
    path = path.replace("{m}", chance.choice(_IDS))
    body: str | None = None
    headers: dict[str, str] = {}
    if chance.random() < 0.06:
        path = chance.choice(_PATHS)
    if chance.random() < 0.06:
        method = chance.choice(_METHODS)
    elif method == "GET" and not path.startswith("/messages") and chance.random() < 0.1:
        method = "HEAD"
    if method == "HEAD" and path.lower().startswith("/messages"):
        method = "OPTIONS"  # which receives nothing in the original either
    if (method in {"GET", "PUT"} and chance.random() < 0.5) or chance.random() < 0.05:
        plain = ["vt=0", "vt=60", "vt=9999999", "vt=90"]
        path += ("&" if "?" in path else "?") + _quote(
            chance.choice(plain if chance.random() < 0.5 else _FORMS)
        )
    if method in {"POST", "PATCH"} or chance.random() < 0.15:
        body, content_type = _make_body(chance, path)
        if content_type is not None and body is not None:
            headers["content-type"] = content_type
    if chance.random() < 0.06:
        headers |= chance.choice(_HEADERS)
    if body is None:
        headers.pop("content-encoding", None)
    return NodeRequest(method, path, headers, body)


def _quote(text: str) -> str:
    return "".join(each if each.isascii() else "%E2%82%AC" for each in text).replace(
        "<x*2048>", "x"
    )


def _make_body(chance: random.Random, path: str) -> tuple[str | None, str | None]:
    kind = chance.random()
    if kind < 0.06:
        return None, None
    if kind < 0.16:
        return chance.choice(_BODIES), chance.choice(_TYPES)
    if kind < 0.28:
        return chance.choice(_FORMS), chance.choice(_FORM_TYPES)
    if kind < 0.283:
        size = chance.choice([1_048_576 - 14, 1_048_576 - 13, 1_200_000])
        return f'{{"message":"<x*{size}>"}}', "application/json"
    fields = {}
    if "/messages" in path.lower() and chance.random() < 0.95:
        plain = chance.random() < 0.6
        fields["message"] = chance.choice(_MESSAGES[:4] if plain else _MESSAGES)
    for name in ("vt", "delay", "maxsize"):
        if chance.random() < 0.25:
            plain = chance.random() < 0.3
            fields[name] = chance.choice(_NUMBERS[:5] if plain else _NUMBERS)
    content = ", ".join(f'"{name}": {value}' for name, value in fields.items())
    return f"{{{content}}}", "application/json" if chance.random() < 0.9 else chance.choice(_TYPES)


_ID = re.compile(r"\b[a-z0-9]{10}[A-Za-z0-9]{22}\b")
#: Times, and what the original counts by whole seconds.
_NUMBER = re.compile(r'("(?:fr|sent|created|modified|hiddenmsgs)": )\d+(?:\.\d+)?')


def mask(status: int, content_type: str | None, body: str) -> Answer:
    """Return what is compared: without ids, times, traces, the order of queues."""
    if status in {400, 413, 415}:
        body = re.split(r"<br>|\n", body)[0]
        # The words of a fault in JSON or gzip are those of the system.
        body = re.sub(
            r"^(SyntaxError|Error: (?:incorrect|invalid .*block|unexpected end)).*", r"\1", body
        )
        body = re.sub(r"^Error: Failed to decode param.*", "Error: Failed to decode param", body)
    # An ASGI server does not tell an empty query from none.
    body = re.sub(r"^(Cannot .*)\?\n$", "\\1\n", body)
    if body.startswith('{\n  "queues": ['):
        body = json.dumps(sorted(json.loads(body)["queues"]))
    text = _NUMBER.sub(r"\g<1>0", _ID.sub("ID", body))
    return Answer(status, content_type or "", re.sub(r"(.)\1{99,}", _shorten, text))


def _shorten(found: re.Match[str]) -> str:
    return f"<{found[1]}*{len(found[0])}>"


class Sequence:
    """A run of requests, and the ids that their answers had."""

    def __init__(self) -> None:
        self._ids = ["0" * 32]

    def path_of(self, request: NodeRequest) -> str:
        """Return the path with ids."""
        first = self._ids[min(1, len(self._ids) - 1)]
        return request.path.replace("{id}", self._ids[-1]).replace("{first}", first)

    def note(self, body: str) -> None:
        """Keep the id of an answer to a send."""
        if found := re.fullmatch(r'{\n  "id": "(\w{32})"\n}', body):
            self._ids.append(found[1])
