"""Walks through all queues: what they return, and how long pages share one."""

import asyncio
import functools

import pytest

from rsmq import AsyncRSMQ
from rsmq.web import walks as walks_module
from rsmq.web.walks import QueueWalks, SharedWalks
from rsmq.wire.keys import Namespace
from tests.web.pages_client import open_pages, read_page, run_action

SORTS = ("depth", "visible", "hidden", "oldest", "sent", "received", "created", "dead_letters")


def with_loop(test):
    """Run a test in an event loop of its own."""

    @functools.wraps(test)
    def run(*args, **options):
        asyncio.run(test(*args, **options))

    return run


class Clock:
    """A clock that a test moves."""

    now = 100.0

    def __call__(self):
        return self.now


class Counted(SharedWalks):
    """Walks whose reads take a time that a test chooses, and are counted."""

    def __init__(self, seconds):
        self.clock, self.seconds, self.reads = Clock(), seconds, []
        super().__init__(None, self.clock)

        async def read(kind, content):
            self.reads.append(kind)
            await asyncio.sleep(0)
            self.clock.now += self.seconds
            if isinstance(content, Exception):
                raise content
            return content

        self.content = {}

        class Client:
            namespace = Namespace("rsmq")

            def run_steps(_, steps):  # noqa: N805
                is_names = steps.__name__ == "list_queues_in_steps"
                return read("names", ["q"]) if is_names else read("states", self.content)

        self._queues = Client()

    async def later(self, seconds):
        """Ask after a time; return how many walks that made."""
        self.clock.now += seconds
        before = self.reads.count("states")
        await self.states(["q"])
        return self.reads.count("states") - before


@pytest.mark.parametrize(("seconds", "lasts"), [(0.001, 1.5), (0.1, 15), (5, 60)])
@with_loop
async def test_a_walk_lasts_for_many_times_what_it_took(monkeypatch, seconds, lasts):
    walks = Counted(seconds)
    walks._walks["names"] = walks_module._LastWalk(["q"], walks.clock.now, 1)  # for a minute
    assert await walks.later(0) == 1
    _, age = await walks.states(["q"])
    assert age == pytest.approx(seconds)
    del walks._walks["names"]
    assert await walks.names() == ["q"]  # those of the walk
    assert walks.reads == ["states"]
    assert await walks.later(lasts - 2 * seconds) == 0
    assert await walks.later(3 * seconds) == 1


@with_loop
async def test_all_who_ask_at_once_share_a_walk_and_a_change_ends_it(monkeypatch):
    walks = Counted(0.001)
    await asyncio.gather(*(walks.states(["q"]) for _ in range(100)))
    assert walks.reads == ["names", "states"]
    running = asyncio.create_task(walks.states(["q"]))
    walks.clock.now += 10
    await asyncio.sleep(0)
    walks.forget_all()  # a walk that runs may have passed the queue before the change
    await walks.states(["q"])
    await running
    assert walks.reads.count("states") == 3
    assert await walks.later(0) == 0


@with_loop
async def test_a_walk_that_fails_is_not_kept_and_one_that_is_cancelled_goes_on(monkeypatch):
    walks = Counted(0.001)
    walks.content = OSError("away")
    with pytest.raises(OSError, match="away"):
        await walks.states(["q"])
    walks.content = {}
    leaving, staying = (asyncio.create_task(walks.states(["q"])) for _ in range(2))
    await asyncio.sleep(0)
    leaving.cancel()
    assert (await staying)[0] == {}
    assert walks.reads.count("states") == 2


async def _fill(queues):
    for name in ("a", "b", "dead", "empty"):
        await queues.create_queue(name)
    await queues.send_messages("a", ["x"] * 5)
    await queues.send_message("b", "x", delay=60)
    await queues.send_messages("dead", ["x"] * 2)
    await queues.receive_message("a")
    await queues.set_dead_letter_policy("a", "dead", 3)
    await queues.create_queue("gone")
    await queues.set_dead_letter_policy("b", "gone", 3)
    await queues.delete_queue("gone")


@with_loop
async def test_shared_walks_have_the_values_of_own_ones():
    async with AsyncRSMQ.from_url("memory://walks") as client:
        await _fill(client)
        own, shared = QueueWalks(client), SharedWalks(client)
        names = await shared.names()
        assert sorted(names) == sorted(await own.names()) == ["a", "b", "dead", "empty"]
        assert (await shared.states(names))[0] == (await own.states(names))[0]
        for sort in SORTS:
            assert await shared.values(names, sort) == await own.values(names, sort), sort
        assert await shared.values(["a"], "depth") == ({"a": 5}, {"dead"})
        assert await shared.rates(names) == await own.rates(names) == {}


def _note_walks(monkeypatch):
    """Return a list to which each walk that begins adds the name of its read."""
    begun = []

    def note(name):
        read = getattr(walks_module, name)

        def noted(*args):
            begun.append(name)
            return read(*args)

        monkeypatch.setattr(walks_module, name, noted)

    for name in ("list_queues_in_steps", "read_queues_in_steps"):
        note(name)
    return begun


def test_pages_share_a_walk_until_an_action_and_programs_get_new_ones(run, monkeypatch):
    monkeypatch.setattr(walks_module, "_MIN_SECONDS", 60)  # on a slow machine, too
    begun = _note_walks(monkeypatch)

    async def test(http, queues):
        await queues.create_queue("q")
        for messages in (1, 2):
            await queues.send_message("q", "x")
            reply = await http("GET", "/queues?sort=-depth")
            assert reply.json["queues"][0]["messages"] == messages
        assert begun == ["list_queues_in_steps", "read_queues_in_steps"] * 2
        begun.clear()
        open_pages(http)
        for path in (
            "/", "/queues?sort=-hidden", "/queues?sort=-oldest", "/queues?q=q", "/delayed",
            "/dead-letters",
        ):  # fmt: skip
            await read_page(http, path)
        assert begun == ["list_queues_in_steps", "read_queues_in_steps"]
        begun.clear()
        assert (await run_action(http, "pause", queue="q")).status == 303
        begun.clear()  # an action does not share
        for path in ("/", "/queues?sort=-oldest"):
            await read_page(http, path)
        assert begun == ["list_queues_in_steps", "read_queues_in_steps"]

    run(test)
