"""Random requests to each operation: no answer is an error of the server."""

import random
from urllib.parse import quote

from rsmq.web.fields import BODY_FIELDS, Shape
from rsmq.web.routes import TABLE
from rsmq.web.table import RawBody
from tests.scale import scaled
from tests.web.test_errors import has_python

_TEXTS = (
    "q", "other", "", "a" * 161, "ä", "\ud800", "\x00", "q\n", "*", "x" * 32, f"{'x' * 32}.1", "-1",
    "2026-10-25T01:30:00Z", "2026-10-25", "0001-01-01T00:00:00+23:59", "9999-12-31T23:59:59-12:00",
    "https://example.org/", "http://[", "* * * * *", "UTC", "visible", "0-0",
    "18446744073709551615-0",
)  # fmt: skip
_NUMBERS = (
    0, 1, -1, 2, 0.001, 1.5, 60, 61, 9_999_999, 10_000_000, 2**31, 2**53, 2**64, -(2**63), 10**30,
    1e15, 1e300, 10**400,
)  # fmt: skip


def _value(chance, kind):  # noqa: PLR0911 - one for each kind
    if chance.random() < 0.2:
        kind = chance.choice(list(Shape))
    if kind in {Shape.TEXT, Shape.TIME}:
        return chance.choice(_TEXTS)
    if kind in {Shape.NUMBER, Shape.WHOLE}:
        return chance.choice(_NUMBERS)
    if kind is Shape.FLAG:
        return chance.random() < 0.5
    if kind is Shape.TEXTS:
        return [chance.choice(_TEXTS) for _ in range(chance.randrange(4))]
    if kind is Shape.OBJECTS:
        names = ("body", "json", "body_base64", "dedup_id", "unique_key", "x")
        return [{chance.choice(names): chance.choice(_TEXTS)} for _ in range(chance.randrange(4))]
    if kind is Shape.OBJECT:
        return {}
    return chance.choice([None, [], {}, "a", 1e300, [[[]]]])


def _request(chance, route, id):
    path = route.path
    for name in ("queue", "schedule", "worker", "subscriber", "id"):
        value = id if name == "id" and chance.random() < 0.7 else chance.choice(_TEXTS)
        value = "q" if name == "queue" and chance.random() < 0.8 else value
        path = path.replace(f"{{{name}}}", quote(value.encode(errors="surrogatepass"), safe=""))
    pairs = [
        (each.name, _value(chance, each.kind))
        for each in route.query
        if each.name != "wait" and (each.required or chance.random() < 0.5)
    ]
    query = "&".join(f"{name}={quote(str(value), errors='replace')}" for name, value in pairs)
    if isinstance(route.body, RawBody) or not route.body:
        return f"{path}?{query}", None
    fields = [each for each in route.body if each.name != "wait"]
    body = [chance.choice(BODY_FIELDS)] if BODY_FIELDS[0] in fields else []
    chosen = [each for each in fields if each.required or chance.random() < 0.3]
    content = {each.name: _value(chance, each.kind) for each in (*chosen, *body)}
    return f"{path}?{query}", content


def test_no_request_is_an_error_of_the_server(run):
    seed = random.randrange(2**32)
    chance = random.Random(seed)

    async def test(http, queues):
        routes = [
            each for each in TABLE if each.path not in {"/doctor", "/doctor:repair"}
        ]  # which waits for a second look
        for route in routes:
            for _ in range(scaled(15, 400)):
                await queues.create_queue("q", exist_ok=True)
                await queues.purge_queue("q")
                id = await queues.send_message("q", "a")
                path, content = _request(chance, route, id)
                reply = await http(route.method, path, content)
                assert reply.status < 500, (seed, route.method, path, content, reply.content)
                if reply.status >= 400:
                    assert reply.headers["content-type"] == "application/problem+json", path
                    assert not has_python(reply.json), (reply.content, path, content)
                else:
                    assert reply.status in route.answers, (seed, route.method, path, content)

    run(test)
