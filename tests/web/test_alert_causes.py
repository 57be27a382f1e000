"""An alert of a queue is a cause beyond a threshold: no face of the causes says something else."""

from __future__ import annotations

import asyncio
import itertools
import re
from datetime import UTC, datetime
from html import escape

import pytest

from rsmq import AsyncRSMQ
from rsmq.explain import Cause
from rsmq.explain.alerts.alert import CAUSES, AlertKind
from rsmq.history.recorder import record_queues
from rsmq.operations.plain import plain_command
from rsmq.web import create_app
from rsmq.webhooks.breaker import Breaker, TargetState
from rsmq.webhooks.shared_breaker import encode
from rsmq.webhooks.targets import target_field
from rsmq.worker.operations import Identity, ReceiveRequest, receive_for_worker, register_worker
from tests.program import Program
from tests.servers import Server, redis_7
from tests.web.asgi import Http

_numbers = itertools.count()


class Place:
    """A queue with what is planted beside it."""

    def __init__(self, queues):
        self.queues, self.namespace = queues, queues.namespace
        self.q = queues.namespace.queue("q")
        self.minute = _minute()

    async def age(self, seconds):
        """Have all messages visible for some seconds."""
        now, _ = await self.queues.run(plain_command("TIME", key=self.q.zset))
        ids = await self.queues.run(plain_command("ZRANGE", self.q.zset, 0, -1))
        for id in ids:
            score = int(now) * 1000 - seconds * 1000
            await self.queues.run(plain_command("ZADD", self.q.zset, score, id))

    async def register(self, *, ttl=60, name="w"):
        """Register a worker; with a negative ttl one that is dead."""
        worker = Identity(self.namespace, name, f"token-{name}")
        info = {"queues": {"q": 1}, "slots": 2, "running": 1}
        await self.queues.run(register_worker(worker, info, ttl=ttl, dead="token"))
        return worker

    async def record(self, *sent_and_received):
        """Record minutes, the last one as now, in which so many were sent and received."""
        first = self.minute - len(sent_and_received)
        await record_queues(self.queues, first)
        for at, (sent, received) in enumerate(sent_and_received, first + 1):
            await self.queues.send_messages("q", ["m"] * sent)
            if received:
                await self.queues.receive_messages("q", received, vt=0)
            await record_queues(self.queues, at)


async def _paused(place):
    await place.queues.send_message("q", "m")
    await place.queues.pause_queue("q")


async def _without_workers(place):
    await place.queues.send_message("q", "m")
    await place.record((1, 0), (1, 0))
    await place.age(120)


async def _received_long_ago(place):
    """Something was received within the time of the rates, but not of late."""
    await place.queues.send_message("q", "m")
    await place.record((1, 1), *[(1, 0)] * 7)
    await place.age(120)


async def _stalled(place):
    await place.register()
    await place.record(*[(1, 0)] * 6)
    await place.age(400)


async def _growing(place):
    await place.register()
    await place.record(*[(60, 20)] * 8)


async def _growing_and_drained_again(place):
    """The last two minutes say that the queue is drained, so it does not grow."""
    await place.register()
    await place.record(*[(60, 20)] * 6, (2, 20), (2, 20))


async def _received_again(place):
    await place.queues.send_message("q", "m")
    for _ in range(3):
        message = await place.queues.receive_message("q", vt=0.001)
        while message is None:
            message = await place.queues.receive_message("q", vt=0.001)
    while await place.queues.receive_message("q", vt=600) is None:
        pass


async def _dead_worker(place, *, is_held=True):
    await place.queues.send_message("q", "m")
    worker = await place.register()
    request = ReceiveRequest(place.q, 600_000, 1, 0, 1)
    [result] = await place.queues.run(receive_for_worker(worker, [request], 1))
    await place.register(ttl=-3600)
    if not is_held:
        await place.queues.change_message_visibility("q", result.ids[0], 0)
        await place.queues.receive_message("q", vt=600)


async def _crash_loop(place):
    """A worker dies twice, and its message is received again each time."""
    await place.queues.send_message("q", "m")
    for number in range(3):
        message = await place.queues.receive_message("q", vt=0.001 if number < 2 else 600)
        while message is None:
            message = await place.queues.receive_message("q", vt=0.001 if number < 2 else 600)
    now, _ = await place.queues.run(plain_command("TIME", key=place.q.zset))
    deaths = [int(now) * 1000 - 90_000, int(now) * 1000 - 30_000]
    worker = Identity(place.namespace, "w", "token-w")
    info = {"queues": {"q": 1}, "slots": 2, "running": 1, "deaths": deaths}
    await place.queues.run(register_worker(worker, info, ttl=60, dead="token"))


async def _blocked_worker(place):
    await place.queues.send_message("q", "m")
    stalled = {"cause": "The handler of q blocks the event loop", "since_ms": 0, "queue": "q"}
    worker = Identity(place.namespace, "w", "token-w")
    info = {"queues": {"q": 1}, "slots": 2, "running": 1, "stalled": stalled}
    await place.queues.run(register_worker(worker, info, ttl=60, dead="token"))


async def _flooded(place):
    for key, number in (("acme", 120), ("initech", 2)):
        await place.queues.send_messages(
            "q", ["m"] * number, limit_keys=[key] * number, max_running=200
        )
    await place.register()


async def _webhook_stopped(place):
    await place.queues.send_message("q", "m")
    await _store_target(place, Breaker(TargetState.OPEN, text="503"))


async def _webhook_pushes(place):
    await place.queues.send_message("q", "m")
    await _store_target(place, Breaker(TargetState.CLOSED))


async def _store_target(place, breaker):
    url = "https://example.org/hooks"
    field, state = target_field("q", url), encode("q", url, breaker)
    await place.queues.run(plain_command("HSET", place.namespace.push_targets, field, state))


async def _late_schedule(place):
    await place.queues.schedules.add("s", queue="q", body="m", every=3600)
    now, _ = await place.queues.run(plain_command("TIME", key=place.q.zset))
    late = int(now) * 1000 - 90_000
    await place.queues.run(plain_command("ZADD", place.namespace.due_schedules, late, "s"))


async def _full_memory(place):
    await place.queues.send_message("q", "m")
    key = place.q.zset
    text = await place.queues.run(plain_command("INFO", "memory", key=key))
    used = int(re.search(rb"used_memory:(\d+)", text)[1])
    most = str(round(used / 0.88))
    await place.queues.run(plain_command("CONFIG", "SET", "maxmemory", most, key=key))


async def _dead_worker_whose_message_another_one_has(place):
    await _dead_worker(place, is_held=False)


@pytest.mark.parametrize(
    ("plant", "kind", "cause"),
    [
        (_paused, AlertKind.PAUSED, Cause.PAUSED),
        (_without_workers, AlertKind.NOT_RECEIVED, Cause.NO_WORKER),
        (_received_long_ago, AlertKind.NOT_RECEIVED, Cause.NO_WORKER),
        (_stalled, AlertKind.NOT_RECEIVED, Cause.STALLED),
        (_growing, AlertKind.GROWING, Cause.FILLED_FASTER),
        (_growing_and_drained_again, None, Cause.DRAINING),
        (_received_again, AlertKind.RECEIVED_AGAIN, Cause.RECEIVED_AGAIN),
        (_dead_worker, AlertKind.DEAD_WORKER, Cause.DEAD_WORKER),
        (_blocked_worker, AlertKind.BLOCKED_WORKER, Cause.BLOCKED_WORKER),
        (_crash_loop, AlertKind.CRASH_LOOP, Cause.CRASH_LOOP),
        (_dead_worker_whose_message_another_one_has, None, Cause.ALL_HIDDEN),
        (_flooded, AlertKind.FLOODED, Cause.FLOODED),
        (_webhook_stopped, AlertKind.WEBHOOK_STOPPED, Cause.WEBHOOK_STOPPED),
        (_webhook_pushes, None, Cause.WAITING),
        (_late_schedule, AlertKind.LATE_SCHEDULE, Cause.LATE_SCHEDULE),
        (_full_memory, AlertKind.MEMORY, Cause.MEMORY),
    ],
)
def test_a_page_the_api_the_program_and_an_alert_agree(monkeypatch, plant, kind, cause):
    own = Server(redis_7()) if plant is _full_memory else None  # memory:// has no INFO

    async def test():
        url = f"memory://faces{next(_numbers)}" if own is None else own.url
        program = Program(monkeypatch, url, "rsmq")
        async with AsyncRSMQ.from_url(url) as queues:
            await queues.create_queue("q", vt=600)
            await plant(Place(queues))
            api = Http(create_app(queues, auth=False))
            pages = Http(api.app, "", {"accept": "text/html"})
            why = (await api("GET", "/queues/q/why")).json
            causes = {each["cause"] for each in why["causes"]}
            assert cause in causes

            alerts = (await api("GET", "/alerts")).json["alerts"]
            found = {AlertKind(each["kind"]): each for each in alerts}
            assert found.keys() & CAUSES.keys() == ({kind} if kind else set())
            for each in found.keys() & CAUSES.keys():
                assert causes & CAUSES[each]

            home = (await pages("GET", "/")).content.decode()
            for each in found.values():
                assert escape(_without_times(each["text"])) in home
            page = (await pages("GET", "/queues/q")).content.decode()
            for each in why["causes"]:
                assert escape(_without_times(each["text"])) in page

            said = (await asyncio.to_thread(program, "why", "q", "--json")).json
            assert [each["cause"] for each in said["causes"]] == [
                each["cause"] for each in why["causes"]
            ]

    minute = _minute()
    try:
        asyncio.run(test())
    except AssertionError:
        if minute == _minute():
            raise
        asyncio.run(test())  # rates are of whole minutes, and one has ended meanwhile
    finally:
        if own is not None:
            own.stop()


def _minute():
    return int(datetime.now(UTC).timestamp()) // 60


def _without_times(text):
    """Return the begin of a sentence: what follows may be of another second, or a new share."""
    return re.split(r"\d+(?:%| s\b)", text)[0][:40]


def test_each_alert_of_causes_has_a_state_in_the_test_above():
    [mark] = test_a_page_the_api_the_program_and_an_alert_agree.pytestmark
    kinds = {kind for _, kind, _ in mark.args[1]}
    assert kinds - {None} == CAUSES.keys()
    assert {cause for _, kind, cause in mark.args[1] if kind} == {
        cause for causes in CAUSES.values() for cause in causes
    }
