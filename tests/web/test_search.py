"""Lists of messages: filters, pages, what is cut, and what is redacted."""

import json
import random
import threading
import time
from functools import cached_property
from urllib.parse import quote

import pytest

from rsmq.errors import InvalidFormat
from rsmq.operations.plain import plain_command
from rsmq.search.redaction import Redaction
from rsmq.web import create_app, search
from rsmq.web.access.secrets import hash_token
from tests.scale import scaled
from tests.web.asgi import open_queues

_WORDS = ("red", "blue", "Red", "\u00e4", 'a"b', "a b", "5", "5.0", "true", "null", "")
_NAMES = ("a", "b", "c d", "0", "*")
_ALPHABET = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789"


def _base36(number):
    digits = ""
    while number:
        number, digit = divmod(number, 36)
        digits = "0123456789abcdefghijklmnopqrstuvwxyz"[digit] + digits
    return digits


def _json_value(chance, depth=0):
    kind = chance.randrange(8 if depth < 3 else 5)
    if kind < 3:
        return chance.choice(_WORDS)
    if kind == 3:
        return chance.choice([0, 1, 5, 5.0, -3, 2.5, 10**17, 1e300])
    if kind == 4:
        return chance.choice([True, False, None])
    if kind == 5:
        return [_json_value(chance, depth + 1) for _ in range(chance.randrange(4))]
    return {name: _json_value(chance, depth + 1) for name in chance.sample(_NAMES, 3)}


def _body(chance):
    kind = chance.randrange(10)
    if kind < 7:
        text = json.dumps(_json_value(chance), ensure_ascii=chance.random() < 0.5)
        return text.encode()
    if kind == 7:
        return bytes(chance.randrange(256) for _ in range(20))
    if kind == 8:
        return b"x" * chance.randrange(3000, 6000) + chance.choice(_WORDS).encode()
    return " ".join(chance.choices(_WORDS, k=4)).encode()


class _Stored:
    """A message of the reference."""

    def __init__(self, chance, now_ms):
        self.body = _body(chance)
        self.count = chance.choice([0, 0, 0, 1, 2, 3, 12])
        self.sent_us = now_ms * 1000 - chance.randrange(3) * 60_000_000
        end = "".join(chance.choices(_ALPHABET, k=22))
        self.id = _base36(self.sent_us) + end
        if chance.random() < 0.1:  # of a client with another form of id
            self.sent_us = None
            self.id = "".join(chance.choices("0123456789abcdef-", k=40))
        self.score = now_ms + chance.choice([-100_000, -99_999, -99_999.5, 10**8, 10**8 + 1])
        self.state = "visible" if self.score <= now_ms else "in_flight" if self.count else "delayed"

    @cached_property
    def document(self):
        try:
            return json.loads(self.body.decode().split("}\n", 1)[-1])
        except ValueError:
            return _NOTHING


_NOTHING = object()


def _at(value, path):
    """Return the values at a path, each of a list as well."""
    found = []
    if isinstance(value, list):
        for number, each in enumerate(value):
            found += _at(each, path)
            if path and path[0] in {str(number), None}:
                found += _at(each, path[1:])
    if not path:
        return [*found, value]
    if isinstance(value, dict):
        names = value if path[0] is None else [path[0]]
        for name in names:
            found += _at(value[name], path[1:]) if name in value else []
    return found


def _same(left, right):
    is_number = [type(each) in {int, float} for each in (left, right)]
    return left == right if all(is_number) else type(left) is type(right) and left == right


_COMPARE = {
    "<": lambda a, b: a < b, "<=": lambda a, b: a <= b, ">": lambda a, b: a > b,
    ">=": lambda a, b: a >= b, ":": lambda a, b: a == b,
}  # fmt: skip
_PLAIN = {"5": 5, "5.0": 5.0, "true": True, "null": None}


def _term(chance, messages):
    """Return the text of a term, and whether a message fits it."""
    kind = chance.choice(["id", "body", "rc", "sent", "json", "json", "json", "number"])
    if kind == "id":
        start = chance.choice(messages).id[: chance.choice([1, 6, 8, 32])]
        return f"id:{start}", lambda each: each.id.startswith(start)
    if kind == "body":
        word = chance.choice(_WORDS)
        return f"body:{json.dumps(word)}", lambda each: word.encode() in each.body
    sign = chance.choice(list(_COMPARE))
    if kind == "rc":
        number = chance.randrange(4)
        return f"rc{sign}{number}", lambda each: _COMPARE[sign](each.count, number)
    if kind == "sent":
        sign = chance.choice(["<", ">=", ">", "<="])
        us = chance.choice(messages).sent_us or 0
        text = time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(us // 1_000_000))
        return (
            f"sent{sign}{text}.{us % 1_000_000:06}Z",
            lambda each: each.sent_us is not None and _COMPARE[sign](each.sent_us, us),
        )
    path = [chance.choice([*_NAMES, "1", None]) for _ in range(chance.randrange(1, 3))]
    shown = ".".join("*" if each is None else json.dumps(each) for each in path)
    if kind == "number":
        number = chance.choice([0, 2.5, 5, 10**17])
        return f"json.{shown}{sign}{number}", lambda each: any(
            (type(value) in {int, float} and _COMPARE[sign](value, number))
            or (sign == ":" and value == str(number) and isinstance(value, str))
            for value in _at(each.document, path)
        )
    word = chance.choice(_WORDS)
    values = [word]
    if word in _PLAIN and chance.random() < 0.7:
        text, values = word, [word, _PLAIN[word]]
    else:
        text = json.dumps(word)
    return f"json.{shown}:{text}", lambda each: any(
        _same(found, value) for found in _at(each.document, path) for value in values
    )


async def _fill(queues, messages):
    await queues.create_queue("q")
    for each in messages:
        fields = [each.id, each.body, *([f"{each.id}:rc", each.count] if each.count else [])]
        await queues.run(plain_command("HSET", "rsmq:q:Q", *fields))
        await queues.run(plain_command("ZADD", "rsmq:q", each.score, each.id))


async def _walk(http, query):
    """Return the messages of all pages, and the number that was looked at."""
    found, scanned, cursor = [], 0, ""
    while cursor is not None:
        reply = await http("GET", f"/queues/q/messages?{query}{cursor and '&cursor=' + cursor}")
        assert reply.status == 200, (query, reply.content)
        found += reply.json["messages"]
        scanned += reply.json["scanned"]
        cursor = reply.json["cursor"]
    return found, scanned


async def check_random_filters(http, queues, *, messages, filters, seed):
    """Compare random filters with the reference."""
    chance = random.Random(seed)
    now_ms = int(time.time() * 1000)
    made = (_Stored(chance, now_ms) for _ in range(messages))
    stored = list({each.id: each for each in made}.values())
    await _fill(queues, stored)
    stored.sort(key=lambda each: (each.score, each.id))
    for _ in range(filters):
        terms = [_term(chance, stored) for _ in range(chance.randrange(4))]
        state = chance.choice([None, None, "visible", "in_flight", "delayed"])
        expected = [
            each.id
            for each in stored
            if state in {None, each.state} and all(fits(each) for _, fits in terms)
        ]
        text = " ".join(each for each, _ in terms)
        limit = chance.choice([1, 3, 50]) if len(expected) < 300 else 1000
        query = f"filter={quote(text)}&limit={limit}" + (f"&state={state}" if state else "")
        found, _ = await _walk(http, query)
        assert [each["id"] for each in found] == expected, (seed, text, state, limit)


def test_random_filters_find_what_a_simple_search_finds(run, monkeypatch):
    monkeypatch.setattr(search, "_PAUSE", 0)
    monkeypatch.setattr(search, "STEP", 11)
    seed = random.randrange(2**32)

    async def test(http, queues):
        await check_random_filters(http, queues, messages=100, filters=scaled(12, 400), seed=seed)

    run(test)


async def _send(queues, *bodies):
    await queues.create_queue("q", maxsize=-1, exist_ok=True)
    return [await queues.send_message("q", body) for body in bodies]


def test_a_search_that_takes_long_is_resumed_where_it_was(run, monkeypatch):
    monkeypatch.setattr(search, "STEP", 2)
    monkeypatch.setattr(search, "MAX_SECONDS", 0)

    async def test(http, queues):
        ids = await _send(queues, *"abcabc")
        first = (await http("GET", "/queues/q/messages?filter=body:c")).json
        assert (first["messages"], first["scanned"]) == ([], 2)
        found, scanned = await _walk(http, "filter=body:c")
        assert ([each["id"] for each in found], scanned) == ([ids[2], ids[5]], 6)

    run(test)


async def test_messages_that_came_or_went_do_not_shift_the_pages(http, queues):
    ids = await _send(queues, *"abcd")
    first = (await http("GET", "/queues/q/messages?limit=2")).json
    await queues.delete_message("q", ids[0])
    await queues.send_message("q", "front", front=True)
    rest = (await http("GET", f"/queues/q/messages?cursor={first['cursor']}")).json
    assert [each["id"] for each in rest["messages"]] == ids[2:]
    assert rest["cursor"] is None


async def test_positions_count_among_the_messages_of_a_state(http, queues):
    ids = await _send(queues, *"abcd")
    hidden = [await queues.send_message("q", "e", delay=100) for _ in range(3)]

    async def bodies(query):
        found, _ = await _walk(http, query)
        return [each["id"] for each in found]

    assert await bodies("start=1&limit=1") == [*ids[1:], *hidden]
    assert await bodies("start=-1") == hidden[2:]
    assert await bodies("state=visible&start=-2") == ids[2:]
    assert await bodies("state=delayed&start=1&limit=1") == hidden[1:]
    assert await bodies("start=2&filter=body:a") == []
    assert await bodies("start=50") == []


async def test_long_bodies_are_cut_between_characters(http, queues):
    text = "x" * 4095 + "\u00e4" * 100
    [id] = await _send(queues, text)
    for query in ("", "?filter=json.a:1", "?filter=body:x"):
        found = (await http("GET", f"/queues/q/messages{query}")).json["messages"]
        for message in found:
            assert (message["body"], message["truncated"]) == ("x" * 4095, True)
            assert message["size"] == len(text.encode())
        assert len(found) == (0 if "json" in query else 1)
    whole = (await http("GET", f"/queues/q/messages/{id}")).json
    assert (whole["body"], whole["truncated"]) == (text, False)
    part = (await http("GET", f"/queues/q/messages/{id}?max_bytes=4096")).json
    assert (part.pop("body"), part.pop("truncated")) == ("x" * 4095, True)
    assert part == {name: value for name, value in whole.items() if name in part}
    assert (part["size"], part["state"]) == (len(text.encode()), "visible")
    none = await http("GET", f"/queues/q/messages/{'a' * 32}?max_bytes=1")
    assert none.json["code"] == "messageNotFound"


async def test_a_part_of_a_message_is_cut_by_the_server_unless_values_are_redacted(server, ns):
    async with open_queues(server.url, ns=ns) as queues:
        await queues.create_queue("q")
        id = await queues.send_message("q", '{"a": "' + "x" * 9000 + '"}')
        for redaction, number in ((Redaction(), 100), (Redaction((("b",),)), 9009)):
            found = await search.read_message(queues, "q", id, redaction, 100)
            assert (len(found.message.raw), found.size) == (number, 9009)
            assert found.message.id == id


@pytest.mark.parametrize(
    ("query", "hint"),
    [
        ("filter=body:a%20word", "At character 8: "),
        ("filter=rc>=x", "At character 5: "),
        ("state=dead", "It is one of "),
        ("cursor=x", "It is that of a page"),
        ("cursor=WyIiLCAwLCAwXQ==", "It is that of a page"),  # its id is no text
    ],
)
async def test_what_a_search_refuses(query, hint, http, queues):
    await _send(queues, "a")
    reply = await http("GET", f"/queues/q/messages?{query}")
    assert reply.status == 422
    assert reply.json["hint"].startswith(hint)


_CUSTOMER = b'{"customer": {"email": "anna@example.org", "city": "Rome"}}'
_USERS = """
[users]
[tokens.reader]
sha256 = "%s"
scopes = ["peek", "receive"]
[tokens.auditor]
sha256 = "%s"
scopes = ["peek"]
redact = false
[tokens.other]
sha256 = "%s"
scopes = ["peek"]
redact = ["customer.city"]
"""


@pytest.fixture
def users(tmp_path):
    path = tmp_path / "users.toml"
    path.write_text(_USERS % tuple(map(hash_token, ("reader", "auditor", "other"))))
    path.chmod(0o600)
    return path


def _as(token):
    return {"headers": {"authorization": f"Bearer {token}"}}


def test_a_reader_does_not_see_redacted_values_anywhere(run, users):
    async def test(http, queues):
        ids = await _send(queues, _CUSTOMER.decode(), "anna@example.org", '{"a": 1}')
        listed = (await http("GET", "/queues/q/messages", **_as("reader"))).json["messages"]
        shown = '{"customer":{"email":"[redacted]","city":"Rome"}}'
        assert [each["body"] for each in listed] == [shown, None, '{"a": 1}']
        assert [each["redacted"] for each in listed] == [True, True, False]
        one = (await http("GET", f"/queues/q/messages/{ids[0]}", **_as("reader"))).json
        assert (one["body"], one["redacted"]) == (shown, True)
        body = await http("GET", f"/queues/q/messages/{ids[0]}/body", **_as("reader"))
        assert (body.content, body.headers["rsmq-redacted"]) == (shown.encode(), "true")
        withheld = await http("GET", f"/queues/q/messages/{ids[1]}/body", **_as("reader"))
        assert (withheld.status, withheld.json["code"]) == (403, "redacted")
        for token, city, email in (("auditor", "Rome", "anna"), ("other", "[red", "[red")):
            [first, *_] = (await http("GET", "/queues/q/messages", **_as(token))).json["messages"]
            assert json.loads(first["body"])["customer"]["city"].startswith(city)
            assert json.loads(first["body"])["customer"]["email"].startswith(email)

    run(test, auth=True, users=users, redact=["customer.email"])


def test_the_size_of_a_redacted_body_does_not_tell_the_length_of_its_values(run):
    async def test(http, queues):
        for length in (1, 500):
            value = "x" * length
            await _send(queues, json.dumps({"customer": {"email": value}}), value)
        listed = (await http("GET", "/queues/q/messages")).json["messages"]
        assert [each["size"] for each in listed] == [35, None, 35, None]
        for each in listed:
            one = (await http("GET", f"/queues/q/messages/{each['id']}?max_bytes=10")).json
            assert one["size"] == each["size"]

    run(test, redact=["customer.email"])


def test_a_redacted_body_that_is_longer_than_the_stored_one_is_not_cut(run):
    async def test(http, queues):
        [id] = await _send(queues, '{"customer":{"email":5}}')
        one = (await http("GET", f"/queues/q/messages/{id}")).json
        [listed] = (await http("GET", "/queues/q/messages")).json["messages"]
        for shown in (one, listed):
            assert shown["body"] == '{"customer":{"email":"[redacted]"}}'
            assert (shown["truncated"], shown["size"]) == (False, 35)

    run(test, redact=["customer.email"])


def test_a_filter_finds_nothing_by_a_redacted_value(run, users):
    async def test(http, queues):
        ids = await _send(queues, _CUSTOMER.decode(), "anna@example.org")

        async def found(text, token="reader"):
            path = f"/queues/q/messages?filter={quote(text)}"
            reply = await http("GET", path, **_as(token))
            return [each["id"] for each in reply.json["messages"]]

        for text in ("body:anna", "json.customer.email:anna@example.org", "body:anna id:0"):
            assert await found(text) == []
        assert await found('json.customer.email:"[redacted]"') == ids[:1]
        assert await found("json.customer.city:Rome body:Rome") == ids[:1]
        assert await found("rc:0") == ids
        assert await found("body:anna", "auditor") == ids

    run(test, auth=True, users=users, redact=["customer.email"])


def test_what_a_consumer_receives_is_not_redacted(run, users):
    async def test(http, queues):
        await _send(queues, _CUSTOMER.decode())
        received = await http("POST", "/receive", {"queues": ["q"]}, **_as("reader"))
        assert received.json["messages"][0]["body"] == _CUSTOMER.decode()

    run(test, auth=True, users=users, redact=["customer.email"])


def test_the_reason_of_a_dead_letter_is_shown_without_texts_that_quote_values(run, users):
    async def test(http, queues):
        [id] = await _send(queues, _CUSTOMER.decode())
        reason = {
            "queue": "q", "text": "anna", "exception": "ValueError: anna", "traceback": "anna",
            "worker": "w", "attempts": 3, "answer": "anna",
        }  # fmt: skip
        stored = f"1700000000000:{json.dumps(reason)}"
        await queues.run(plain_command("HSET", "rsmq:q:x:reasons", id, stored))
        reply = await http("GET", f"/queues/q/messages/{id}", **_as("reader"))
        assert reply.json["reason"]["exception"] == "ValueError: [redacted]"
        assert reply.json["reason"]["attempts"] == 3
        assert b"anna" not in reply.content
        assert b"anna" in (await http("GET", f"/queues/q/messages/{id}", **_as("auditor"))).content

    run(test, auth=True, users=users, redact=["customer.email"])


def test_the_body_of_a_schedule_is_redacted(run):
    async def test(http, queues):
        await queues.create_queue("q")
        await queues.schedules.add("s", queue="q", every=60, body=_CUSTOMER.decode())
        for path in ("/schedules", "/schedules/s"):
            assert b"anna" not in (await http("GET", path)).content

    run(test, redact=["customer.email"])


@pytest.mark.parametrize("value", ["true", '"a.b"', "[1]", '["$.a"]'])
def test_a_bad_redaction_of_a_users_file_is_refused(users, value):
    users.write_text(users.read_text().replace("redact = false", f"redact = {value}"))
    with pytest.raises(InvalidFormat):
        create_app("memory://refused", users=users)


def test_bodies_are_redacted_once_and_many_of_them_beside_the_event_loop(run, users, monkeypatch):
    body = json.dumps({"customer": {"email": "a"}, "rows": list(range(5000))})

    async def test(http, queues):
        await queues.create_queue("q")
        await queues.send_messages("q", [body] * 20)
        threads = []

        def redact(redaction, raw):
            threads.append(threading.current_thread())
            return redact_body(redaction, raw)

        redact_body = Redaction.body
        monkeypatch.setattr(Redaction, "body", redact)
        listed = (await http("GET", "/queues/q/messages", **_as("reader"))).json
        assert [each["redacted"] for each in listed["messages"]] == [True] * 10
        assert len(threads) == len(listed["messages"]) == 10
        assert threading.main_thread() not in threads

    run(test, auth=True, users=users, redact=["customer.email"])
