"""The arguments min_replicas, replica_timeout and fsync still work, and warn of their end."""

from __future__ import annotations

import asyncio
import itertools
import re
from contextlib import contextmanager
from pathlib import Path

import pytest
import redis
import redis.asyncio

from rsmq import (
    RSMQ,
    AsyncCells,
    AsyncRSMQ,
    Cells,
    Confirm,
    InvalidFormat,
    InvalidValue,
    NotReplicated,
)
from tests.blocking import Blocking

_numbers = itertools.count()

OLD = {"min_replicas": 1, "replica_timeout": 0.001}
NEW = {"confirm": Confirm(replicas=1, timeout=0.001)}
WARNING = re.escape(
    "min_replicas and replica_timeout will be removed. "
    "Pass confirm=Confirm(replicas=1, timeout=0.001, fsync=False)"
)

#: Each method that takes them. Its server has no replica, so it is never confirmed.
METHODS = {
    "send_message": lambda client, **copies: client.send_message("q", "a", **copies),
    "send_messages": lambda client, **copies: client.send_messages("q", ["a", "b"], **copies),
    "publish": lambda client, **copies: client.publish(["q", "other"], "a", **copies),
    "redrive_messages": lambda client, **copies: client.redrive_messages("dead", "q", **copies),
    "move_messages": lambda client, **copies: client.move_messages(
        client.receive_messages("dead", 2), "q", **copies
    ),
}


class Place:
    """A server, and clients of one class, each in a namespace of its own."""

    def __init__(self, kind, server, raw, runner):
        self.kind = kind
        self.url = f"redis://127.0.0.1:{server.port}/0"
        self.raw = raw
        self._runner = runner
        self._is_async = kind in {AsyncRSMQ, AsyncCells}

    def open(self, **options):
        """Return a client whose methods block, with queues, of which one has two messages."""
        client = self.make(**options)
        if self._is_async:
            client = Blocking(self._runner, client)
        for queue in ("q", "other", "dead"):
            client.create_queue(queue)
        client.send_messages("dead", ["c", "d"], confirm=Confirm())
        return client

    def make(self, *, inner=None, **options):
        """Return a client of a new namespace, with a client of redis-py if there is one."""
        options["ns"] = self.ns = f"old{next(_numbers)}"
        if self.kind in {Cells, AsyncCells}:
            options["cells"] = 1
        if inner is None:
            return self.kind.from_url(self.url, **options)
        return self.kind(inner, **options)

    @contextmanager
    def redis_client(self):
        """Yield a client of redis-py of the kind that the class takes."""
        if not self._is_async:
            with redis.Redis.from_url(self.url) as client:
                yield client
            return
        client = redis.asyncio.Redis.from_url(self.url)
        yield client
        self._runner.run(client.aclose())

    def contents(self):
        """Return what the keys of the last client contain, without ids and times, by queue."""
        found = {}
        for key in self.raw.scan_iter(f"*{self.ns}[:.]*"):
            kind = self.raw.type(key)
            if kind == b"zset":
                found[key] = self.raw.zcard(key)
            elif kind == b"hash":
                fields = self.raw.hgetall(key).items()
                found[key] = sorted(
                    (re.sub(rb"^[a-zA-Z0-9]{32}", b"ID", name), value if len(value) == 1 else b"")
                    for name, value in fields
                )
            else:
                found[key] = kind
        return {key.partition(b":")[2]: value for key, value in found.items()}


@pytest.fixture(params=[RSMQ, AsyncRSMQ, Cells, AsyncCells])
def place(request, server):
    with asyncio.Runner() as runner, redis.Redis(port=server.port) as raw:
        yield Place(request.param, server, raw, runner)


@pytest.mark.parametrize("name", METHODS)
def test_a_method_takes_them_and_warns_and_stores_the_same(place, name):
    stored = []
    for copies in (OLD, NEW):
        client = place.open()
        with pytest.raises(NotReplicated, match="confirmed by 0 of 1 replicas"):
            if copies is OLD:
                with pytest.warns(DeprecationWarning, match=WARNING) as caught:
                    METHODS[name](client, **copies)
            else:
                METHODS[name](client, **copies)
        stored.append(place.contents())
        client.close()

    assert ["tests" in Path(each.filename).parts for each in caught] == [True]
    assert stored[0] == stored[1]
    assert stored[0][b"q"]


@pytest.mark.parametrize("is_handed_in", [False, True])
def test_a_client_takes_them_and_warns(place, is_handed_in):
    with place.redis_client() as inner:
        with pytest.warns(DeprecationWarning, match=WARNING) as caught:
            client = place.open(inner=inner if is_handed_in else None, **OLD)
        assert [each.filename for each in caught] == [__file__]
        with pytest.raises(NotReplicated, match="confirmed by 0 of 1 replicas"):
            client.send_message("q", "a")
        client.close()


@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_what_a_call_leaves_out_is_that_of_the_client(place):
    client = place.open(replica_timeout=0.002)
    assert client.send_message("q", "a")
    with pytest.raises(NotReplicated) as caught:
        client.send_message("q", "a", min_replicas=2)
    assert "After 0.002 seconds" in str(caught.value)
    client.close()

    client = place.open(confirm=Confirm(replicas=3, timeout=0.001))
    with pytest.raises(NotReplicated, match="confirmed by 0 of 3 replicas") as caught:
        client.send_message("q", "a", replica_timeout=0.002)
    assert "After 0.002 seconds" in str(caught.value)
    assert client.send_message("q", "a", min_replicas=0)
    client.close()


@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_wrong_ones_are_refused(place):
    client = place.open()
    for kind, options, text in (
        (InvalidValue, {"min_replicas": 101}, "replicas must be between 0 and 100"),
        (InvalidValue, {"replica_timeout": 0}, "timeout must be between 0.001 and 60"),
        (InvalidFormat, {"fsync": 1}, "Invalid fsync format"),
        (InvalidFormat, {"replica_timeout": 1}, "It needs min_replicas or fsync"),
        (InvalidFormat, OLD | NEW, "Pass it without min_replicas and replica_timeout"),
    ):
        with pytest.raises(kind, match=text):
            client.send_message("q", "a", **options)
    with pytest.raises(InvalidFormat, match="Pass it without min_replicas and replica_timeout"):
        place.make(**OLD, **NEW)
    client.close()


@pytest.mark.parametrize("name", METHODS)
def test_other_arguments_raise_the_error_of_python(place, name):
    client = place.open()
    method = f"{place.kind.__name__}.{name}"
    with pytest.raises(TypeError, match=rf"^{method}\(\) got an unexpected keyword argument 'x'$"):
        METHODS[name](client, x=1)
    client.close()
