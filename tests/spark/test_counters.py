"""The counters in frames: those of one moment, in whatever state clients have left the queue."""

from __future__ import annotations

import itertools

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from rsmq.spark.connections import SparkServer
from rsmq.spark.read.message_fetch import MessageFetch, Wanted

KINDS = ("new", "received", "dead", "ghost", "orphan", "count only", "first only", "odd count")
PROJECTIONS = (None, "id,message,receive_count,first_received", "id,receive_count", "id,message")
_names = itertools.count()


def add(env, queue, kind, number):
    """Store one message of a kind, as clients and accidents leave it."""
    id = f"hodaoj9vh0{chr(65 + number % 26)}{number:021}"
    first = 1_700_000_000_000 + number
    counters = {
        "dead": {"rc": 4, "fr": first},
        "received": {"rc": 2, "fr": first},
        "count only": {"rc": 3},
        "odd count": {"rc": "many", "fr": "then"},
        "first only": {"fr": first},
    }
    env.put(id, f"m{number}", queue, **counters.get(kind, {}))
    if kind == "ghost":
        env.raw.hdel(env.keys(queue).hash, id)
    if kind == "orphan":
        env.raw.zrem(env.keys(queue).zset, id)
    if kind == "received":
        env.raw.hincrby(env.keys(queue).hash, "totalrecv", 2)


def stored_rows(env, queue):
    """Return body, receive count and time of the first receive by id, from the raw keys."""
    fields, rows = env.fields(queue), {}
    for id in env.scores(queue):
        count, first = fields.get(f"{id}:rc"), fields.get(f"{id}:fr")
        if id in fields:
            rows[id] = (
                fields[id].decode(),
                int(count) if count is not None and count.isdigit() else 0,
                int(first) if count is not None and first is not None and first.isdigit() else None,
            )
    return rows


def to_tuple(row):
    first = row["first_received"]
    return row["message"], row["receive_count"], first and round(first.timestamp() * 1000)


@settings(max_examples=60, deadline=None, suppress_health_check=list(HealthCheck))
@given(
    kinds=st.lists(st.sampled_from(KINDS), max_size=40),
    snapshot=st.sampled_from(["scan", "exact"]),
    projection=st.sampled_from(PROJECTIONS),
    fetch_size=st.integers(1, 12),
)
def test_rows_have_what_is_stored(env, kinds, snapshot, projection, fetch_size):
    queue = f"q{next(_names)}"
    env.rsmq.create_queue(queue)
    for number, kind in enumerate(kinds):
        add(env, queue, kind, number)
    options = {"queue": queue, "snapshot": snapshot, "fetchSize": fetch_size}
    rows = env.read(**options, **({"columns": projection} if projection else {}))

    expected = stored_rows(env, queue)
    if projection == "id,receive_count":  # ghosts are left out only where bodies are read
        rows = [row for row in rows if row["id"] in expected]
    assert sorted(row["id"] for row in rows) == sorted(expected)
    for row in rows:
        body, count, first = expected[row["id"]]
        assert row.get("message", body) == body
        assert row.get("receive_count", count) == count
        if "first_received" in row:
            assert to_tuple(row)[2] == first


@settings(max_examples=40, deadline=None, suppress_health_check=list(HealthCheck))
@given(
    kinds=st.lists(st.sampled_from(("new", "received", "dead", "ghost")), min_size=1, max_size=30),
    actions=st.lists(
        st.tuples(st.sampled_from(["receive", "delete", "release"]), st.integers(0, 29)),
        max_size=12,
    ),
    snapshot=st.sampled_from(["scan", "exact"]),
    fetch_size=st.integers(1, 12),
)
def test_counters_are_those_of_one_moment(env, monkeypatch, kinds, actions, snapshot, fetch_size):
    queue = f"q{next(_names)}"
    env.rsmq.create_queue(queue)
    for number, kind in enumerate(kinds):
        add(env, queue, kind, number)
    states = [stored_rows(env, queue)]
    left = iter(actions)

    def begin_request(server, commands):
        """Let another client act before each request."""
        kind, number = next(left, (None, 0))
        ids = sorted(states[-1])
        if kind == "receive":
            env.rsmq.receive_messages(queue, 1 + number % 3, vt=100)
        elif kind and ids:
            id = ids[number % len(ids)]
            act = env.rsmq.delete_message if kind == "delete" else env.rsmq.release_messages
            act(queue, id if kind == "delete" else [id])
        states.append(stored_rows(env, queue))
        return begin(server, commands)

    begin = SparkServer.begin_request
    with monkeypatch.context() as patch:
        patch.setattr(SparkServer, "begin_request", begin_request)
        rows = env.read(queue=queue, snapshot=snapshot, fetchSize=fetch_size, numPartitions=2)

    found = [row["id"] for row in rows]
    assert len(found) == len(set(found))
    assert set.intersection(*map(set, states)) <= set(found)
    for row in rows:
        assert to_tuple(row) in [state.get(row["id"]) for state in states]


def read(fetch, ids):
    pending = fetch.begin(ids)
    assert fetch.receive(pending)
    return fetch.finish(pending)


def test_received_messages_are_read_with_all_fields(env):
    """Where few are received only these are read again; where many are, all at once."""
    env.rsmq.create_queue("q")
    sent = [id.encode() for id in env.rsmq.send_messages("q", [str(n) for n in range(100)])]
    env.rsmq.receive_messages("q", 10, vt=100)
    wanted = Wanted(bodies=True, receive_counts=True, first_received=True)
    fetch = MessageFetch(env.server(), env.keys(), wanted, 10**6)
    with env.commands() as commands:
        columns = read(fetch, sent)
    assert [len(each.split()) - 2 for each in commands] == [200, 30]
    assert columns["receive_count"].count(1) == 10
    assert columns["receive_count"][10:] == columns["first_received"][10:] == [None] * 90

    env.rsmq.receive_messages("q", 30, vt=100)
    read(fetch, sent)  # more than a quarter are received now
    with env.commands() as commands:
        columns = read(fetch, sent)
    assert [len(each.split()) - 2 for each in commands] == [300]
    fields = env.fields()
    for number, id in enumerate(sent):
        first = fields.get(f"{id.decode()}:fr")
        assert columns["first_received"][number] == (None if first is None else int(first))
        assert columns["raw"][number] == b"%d" % number
