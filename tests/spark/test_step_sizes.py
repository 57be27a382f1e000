"""
No command of a read, a write or a stream with the default options uses more than a few thousand
elements, however long the queue is: so none blocks the server for long.
"""

from __future__ import annotations

import math

import pytest

from rsmq.operations.scripts import load, script_names
from tests.spark.conftest import columns

MESSAGES = 20_000
#: Three fields of each of 2,000 messages.
MOST_ELEMENTS = 3 * 2000
#: These return a complete set of names, or of parts: as many as there are queues, tasks or streams.
SMALL_KEYS = (":leases", ":staged", ":streams", ":QUEUES", "QUEUES")

SCANS = {"SCAN", "SSCAN", "HSCAN", "ZSCAN"}
WHOLE = {"KEYS", "HGETALL", "HKEYS", "HVALS", "SMEMBERS", "SORT"}
BY_PLACE = {"ZRANGE", "ZREVRANGE", "LRANGE", "ZREMRANGEBYRANK", "LTRIM"}
BY_SCORE = {"ZRANGEBYSCORE", "ZREVRANGEBYSCORE", "ZREMRANGEBYSCORE"}


def count_elements(command):
    """Return the number of elements that a command may use."""
    words = command.split()
    name, upper = words[0].upper(), [word.upper() for word in words]
    if name in SCANS:
        return int(words[upper.index("COUNT") + 1]) if "COUNT" in upper else 10
    if name in BY_SCORE or "BYSCORE" in upper:
        return int(words[upper.index("LIMIT") + 2]) if "LIMIT" in upper else math.inf
    if name in BY_PLACE:
        first, last = int(words[2]), int(words[3])
        return last - first + 1 if min(first, last) >= 0 else math.inf
    if name in WHOLE:
        return math.inf
    return len(words) - 2


@pytest.mark.parametrize(
    ("command", "elements"),
    [
        ("ZSCAN q 0 COUNT 2000", 2000),
        ("ZSCAN q 0", 10),
        ("ZRANGE q 0 -1 WITHSCORES", math.inf),
        ("ZRANGE q 0 99", 100),
        ("ZRANGEBYSCORE q -inf 5 LIMIT 0 1000", 1000),
        ("ZRANGEBYSCORE q -inf 5", math.inf),
        ("HGETALL q", math.inf),
        ("HMGET q a b c", 3),
    ],
)
def test_elements_of_commands(command, elements):
    assert count_elements(command) == elements


def check(commands):
    """Check the commands; return their names."""
    largest = {}
    for command in commands:
        name = command.split()[0].upper()
        if name in WHOLE and command.split()[1].endswith(SMALL_KEYS):
            continue
        largest[name] = max(largest.get(name, 0), count_elements(command))
    assert {name: size for name, size in largest.items() if size > MOST_ELEMENTS} == {}
    return set(largest)


@pytest.fixture
def filled(env, queue):
    for name, feature in script_names():  # else the first call sends the words of its script
        env.raw.script_load(load(name, feature).source)
    for _ in range(0, MESSAGES, 5000):
        env.rsmq.send_messages(queue, ["m"] * 5000)


@pytest.mark.usefixtures("filled")
@pytest.mark.parametrize("received", [0, 2000, 20_000])
def test_read(env, received):
    for _ in range(0, received, 2000):
        env.rsmq.receive_messages("q", 2000, vt=100)
    with env.commands() as commands:
        rows = env.read(queue="q")
    assert sum(map(len, rows)) == MESSAGES * 7
    assert check(commands) >= {"ZSCAN", "HMGET"}


@pytest.mark.parametrize("delivery", ["at-least-once", "exactly-once"])
def test_write(env, queue, delivery):
    write = env.write(columns(message="string"), delivery=delivery)
    rows = [{"message": "m"}] * (MESSAGES // 2)
    with env.commands() as commands:
        write.run(rows, rows)
    assert env.raw.zcard(env.keys(queue).zset) == MESSAGES
    assert check(commands) >= {"EVALSHA", "ZADD", "HSET"}


@pytest.mark.usefixtures("filled")
def test_stream(env):
    query = env.query()
    with env.commands() as commands:
        rows = query.run()
        assert query.run() is None
    assert len(rows) == MESSAGES
    assert env.raw.zcard(env.keys().zset) == 0
    assert check(commands) >= {"ZRANGEBYSCORE", "HMGET", "ZREM", "HDEL"}
