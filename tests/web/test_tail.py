"""The tail of a queue, as events."""

import asyncio
import contextlib
import json
from contextlib import asynccontextmanager

import pytest

from rsmq.operations.plain import plain_command
from rsmq.search.redaction import Redaction
from rsmq.web import tail
from rsmq.web.access.secrets import hash_token
from tests.scale import WAIT_SECONDS


class Events:
    """The events of a client that follows a queue; comments are None."""

    def __init__(self, http, path="/queues/q/tail", headers=None):
        self._left = asyncio.Event()
        self._sent = []
        self._begin = 0
        self.task = asyncio.create_task(
            http("GET", path, headers=headers, left=self._left, sent=self._sent)
        )

    async def next(self, *, with_comments=False):
        """Return the kind, the data and the id of the next event."""
        while True:
            while len(self._sent) <= self._begin:
                await asyncio.sleep(0.01)
            event = self._sent[self._begin]
            self._begin += 1
            if event["type"] == "http.response.start":
                assert event["status"] == 200
                assert (b"Content-Type", b"text/event-stream") in event["headers"]
                continue
            if not event.get("more_body"):
                return "end", None, None
            text = event["body"].decode()
            assert text.endswith("\n\n")
            lines = dict(line.split(": ", 1) for line in text.splitlines() if ": " in line)
            if "data" in lines:
                return lines["event"], json.loads(lines["data"]), lines.get("id")
            if with_comments and text.startswith(":"):
                return None

    async def leave(self):
        self._left.set()
        await self.task


@asynccontextmanager
async def following(http, **options):
    events = Events(http, **options)
    while not events._sent:
        await asyncio.sleep(0.01)
    yield events
    await events.leave()


@pytest.fixture(autouse=True)
def quick(monkeypatch):
    monkeypatch.setattr(tail, "_POLL_SECONDS", 0.02)
    monkeypatch.setattr(tail, "pause_after_poll", lambda interval, _: interval)
    monkeypatch.setattr(tail, "LINGER_SECONDS", WAIT_SECONDS)


async def _end_readers(queues):
    """Let the readers without clients end, and wait for it."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(tail, "LINGER_SECONDS", 0)
        while tail._tails[queues]:
            await asyncio.sleep(0.01)


async def _keeps_rights():
    return True


async def _stored(queues):
    return [
        await queues.run(plain_command(*words))
        for words in (
            ("HGETALL", "rsmq:q:Q"), ("ZRANGE", "rsmq:q", 0, -1, "WITHSCORES"), ("KEYS", "rsmq:*"),
        )
    ]  # fmt: skip


async def test_a_message_is_shown_when_it_is_sent_received_and_removed_and_nothing_changes(
    http, queues
):
    await queues.create_queue("q")
    await queues.send_message("q", "before")
    async with following(http) as events:
        id = await queues.send_message("q", "a")
        before = await _stored(queues)
        kind, shown, event_id = await events.next()
        while shown["body"] == "before":  # sent in the millisecond of the start
            kind, shown, event_id = await events.next()
        assert (kind, shown["id"], shown["body"]) == ("message", id, "a")
        assert (shown["truncated"], shown["size"], shown["state"]) == (False, 1, "visible")
        assert event_id
        assert await _stored(queues) == before
        got = [await queues.receive_message("q") for _ in range(2)]
        kind, shown, _ = await events.next()
        assert (kind, shown["receive_count"]) == ("received", 1)
        await queues.delete_messages([each for each in got if each.id == id])
        while shown["id"] != id or kind != "removed":
            kind, shown, _ = await events.next()


def test_values_of_bodies_are_redacted(run):
    async def test(http, queues):
        await queues.create_queue("q")
        async with following(http) as events:
            await queues.send_message("q", '{"email": "anna@example.org", "a": 1}')
            shown = (await events.next())[1]
            assert (shown["body"], shown["redacted"]) == ('{"email":"[redacted]","a":1}', True)

    run(test, redact=["email"])


async def test_a_long_body_is_cut_and_says_so(http, queues):
    await queues.create_queue("q")
    async with following(http) as events:
        await queues.send_message("q", "a" + "é" * 5000)
        shown = (await events.next())[1]
        assert shown["body"] == "a" + "é" * 2047
        assert (shown["truncated"], shown["size"]) == (True, 10_001)


async def test_a_hundred_clients_cost_redis_what_one_does(http, queues):
    await queues.create_queue("q")
    async with following(http) as first:
        clients = [Events(http) for _ in range(99)]
        while not all(each._sent for each in clients):
            await asyncio.sleep(0.01)
        assert len(tail._tails[queues]) == 1
        await queues.send_message("q", "a")
        found = [await each.next() for each in (first, *clients)]
        assert {event_id for _, _, event_id in found} == {found[0][2]}
        for each in clients:
            await each.leave()
    await _end_readers(queues)


async def test_a_client_that_connects_again_gets_what_it_has_missed(http, queues):
    await queues.create_queue("q")
    async with following(http) as events:
        await queues.send_message("q", "a")
        last = (await events.next())[2]
    await queues.send_message("q", "b")
    async with following(http, headers={"last-event-id": last}) as events:
        assert (await events.next())[1]["body"] == "b"
        last = last.split(".")
        # Of another process: it gets what was sent since, and perhaps more.
        other = f"{last[0]}.00000000.{last[2]}"
    await _end_readers(queues)
    async with following(http, headers={"last-event-id": other}) as events:
        bodies = []
        while "b" not in bodies:
            bodies.append((await events.next())[1]["body"])
    await _end_readers(queues)
    async with following(http, headers={"last-event-id": f"1.{last[1]}.0"}) as events:
        assert (await events.next())[:2] == ("missed", {"number": None})
        assert (await events.next())[1]["body"] == "a"


def test_a_queue_that_nobody_follows_any_more_gives_its_place_to_another(run, monkeypatch):
    monkeypatch.setattr(tail, "_MAX_QUEUES", 1)

    async def test(http, queues):
        await queues.create_queue("q")
        await queues.create_queue("r")
        async with following(http):
            assert (await http("GET", "/queues/r/tail")).status == 429
        async with following(http, path="/queues/r/tail") as events:
            assert (await http("GET", "/queues/q/tail")).status == 429
            id = await queues.send_message("r", "a")
            kind, message, _ = await events.next()
            assert (kind, message["id"]) == ("message", id)

    run(test)


def test_a_slow_client_misses_events_and_needs_no_memory(run, monkeypatch):
    monkeypatch.setattr(tail, "MAX_EVENTS", 8)

    async def test(http, queues):
        await queues.create_queue("q")
        async with following(http):
            reader = tail._tails[queues]["q", Redaction()]
            slow = reader.follow(reader.place_of(None), _keeps_rights)
            assert (await anext(slow)).startswith(b"retry")
            await queues.send_messages("q", [str(each) for each in range(20)])
            while reader.place_of(None) < 20:
                await asyncio.sleep(0.01)
            assert b"missed" in await anext(slow)
            kept = [await anext(slow) for _ in range(8)]
            assert b'"body": "19"' in kept[-1]
            await slow.aclose()

    run(test)


def test_it_sends_heartbeats_and_ends_with_the_queue(run, monkeypatch):
    monkeypatch.setattr(tail, "HEARTBEAT_SECONDS", 0.2)  # ten polls

    async def test(http, queues):
        assert (await http("GET", "/queues/q/tail")).json["code"] == "queueNotFound"
        await queues.create_queue("q")
        async with following(http) as events:
            while await events.next(with_comments=True) is not None:
                pass
            await queues.delete_queue("q")
            kind, shown, _ = await events.next()
            assert (kind, shown["code"]) == ("ended", "queueNotFound")
            assert (await events.next())[0] == "end"
        while tail._tails[queues]:
            await asyncio.sleep(0.01)

    run(test)


def _write_tokens(path, **scopes):
    text = "".join(
        f'[tokens.{name}]\nsha256 = "{hash_token(name)}"\nscopes = {value}\n'
        for name, value in scopes.items()
    )
    path.write_text(text)
    path.chmod(0o600)
    return path


def test_a_tail_ends_with_the_rights_of_its_caller(run, tmp_path, monkeypatch):
    users = tmp_path / "users.toml"
    _write_tokens(users, kept=["peek"], changed=["peek", "send"], removed=["peek"])

    async def test(http, queues):
        await queues.create_queue("q")
        async with contextlib.AsyncExitStack() as stack:
            kept, changed, removed = [
                await stack.enter_async_context(
                    following(http, headers={"authorization": f"Bearer {name}"})
                )
                for name in ("kept", "changed", "removed")
            ]
            await queues.send_message("q", "a")
            for each in (kept, changed, removed):
                assert (await each.next())[1]["body"] == "a"
            _write_tokens(users, kept=["peek"], changed=["stats"], other=["peek"])
            await queues.send_message("q", "secret")
            assert (await kept.next())[1]["body"] == "secret"
            for each in (changed, removed):
                assert (await each.next())[0] == "end"
        monkeypatch.setattr(tail, "HEARTBEAT_SECONDS", 0.03)
        async with following(http, headers={"authorization": "Bearer kept"}) as quiet:
            _write_tokens(users)
            assert (await quiet.next())[0] == "end"  # also without an event

    run(test, auth=True, users=users)


async def test_rights_are_checked_once_for_events_that_are_there(http, queues):
    await queues.create_queue("q")
    async with following(http):
        reader = tail._tails[queues]["q", Redaction()]
        checks = []

        async def keeps_rights():
            checks.append(1)
            return len(checks) < 2

        pieces = reader.follow(reader.place_of(None), keeps_rights)
        await queues.send_messages("q", ["a"] * 5)
        while reader.place_of(None) < 5:
            await asyncio.sleep(0.01)
        assert len([await anext(pieces) for _ in range(6)]) == 6
        assert len(checks) == 1
        await queues.send_message("q", "b")
        assert await anext(pieces, None) is None
