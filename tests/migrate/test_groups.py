"""Migration on a Redis Cluster, and on a primary with Sentinels."""

from __future__ import annotations

import pytest

from rsmq.migrate import RFQ, Lists, Queues, Server, copy, move


@pytest.fixture(scope="module", autouse=True)
def _no_keys_of_earlier_tests():
    """Remove nothing: the servers are groups, and no test compares all of their keys."""


@pytest.fixture(params=["cluster", "sentinels"])
def group(request):
    """Return the URL of a group of servers, and a client of redis-py for it."""
    started = request.getfixturevalue(request.param)
    raw = started.raw if request.param == "cluster" else started.raw()
    yield started.url, raw
    for key in raw.scan_iter("*{migrate}*"):
        raw.unlink(key)


@pytest.fixture
def server(group):
    with Server.from_url(group[0], ns="{migrate}") as server:
        yield server


@pytest.fixture
def raw(group):
    return group[1]


def bodies(raw, queue):
    """Return the bodies of a queue in their order."""
    ids = raw.zrange(f"{{migrate}}:{queue}", 0, -1)
    return raw.hmget(f"{{migrate}}:{queue}:Q", ids)


def test_list_is_moved(server, raw):
    raw.lpush("{migrate}-work", "a", "b", "c")
    report = move(Lists(server), "{migrate}-work", server, "to")
    assert report.verified
    assert bodies(raw, "to") == [b"a", b"b", b"c"]
    assert not raw.exists("{migrate}-work")


def test_lists_of_all_nodes_are_found(server, raw):
    names = {f"{number}{{migrate}}{number}" for number in range(3)} | {
        f"{{{number}}}-{{migrate}}" for number in range(30)
    }
    for name in names:
        raw.lpush(name, "m")
    assert names <= set(Lists(server).queues())


def test_topic_of_rfq_is_copied(server, raw):
    for number in range(3):
        raw.hset(f"rfq:{{migrate}}:message:id{number}", "n", number)
        raw.lpush("rfq:{migrate}:backlog", f"id{number}")
    assert copy(RFQ(server), "{migrate}", server, "to").verified
    assert bodies(raw, "to") == [b'{"n": "%d"}' % number for number in range(3)]


def test_queue_is_moved_while_its_source_is_listed(server, raw, group):
    with Server.from_url(group[0], ns="old{migrate}") as old:
        old.rsmq.create_queue("q")
        id = old.rsmq.send_message("q", "m")
        assert Queues(old).queues() == ["q"]
        assert move(Queues(old), "q", server, "q").verified
    assert bodies(raw, "q") == [b"m"]
    assert raw.zrange("{migrate}:q", 0, -1) == [id.encode()]


def test_address_names_the_group(server, group):
    kind = "Redis Cluster" if "cluster" in group[0] else "the master"
    assert kind in server.address
