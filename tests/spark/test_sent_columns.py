"""The columns of facts beside messages: read, and those of options restored."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest

from rsmq import JSON
from rsmq.codecs import EnvelopeCodec
from rsmq.headers import use_headers
from rsmq.spark import InvalidOption
from rsmq.spark.read.sent_columns import SENT_COLUMNS
from rsmq.worker import Worker
from tests.spark.conftest import columns

KEPT = ["id", "message", "visible_at", "receive_count", "first_received", *SENT_COLUMNS]
STRUCT = columns(
    id="string", message="string", visible_at="timestamp", receive_count="long",
    first_received="timestamp", **{name: kind.typeName() for name, kind in SENT_COLUMNS.items()},
)  # fmt: skip


@pytest.fixture
def sent(env, queue):
    """Messages of each kind; their ids by body."""
    names = ["a1", "a2", "a3"]
    ids = dict(zip(names, env.rsmq.send_messages("q", names, groups=["a"] * 3), strict=True))
    for name in ("k1", "k2", "k3"):
        ids[name] = env.rsmq.send_message("q", name, limit_key="k:1", max_running=2)
    ids["plain"] = env.rsmq.send_message("q", "plain")
    ids["limited"] = env.rsmq.send_message("q", "limited", expires=9000, max_retries=2, group="b")
    return ids


def read(env, queue="q"):
    rows = env.read(queue=queue, columns=",".join(KEPT), snapshot="exact")
    return {row["message"]: row for row in rows}


def test_a_frame_has_the_options_of_each_message(env, sent):
    found = {
        name: tuple(row[each] for each in ("group", "limit_key", "max_running", "max_retries"))
        for name, row in read(env).items()
    }
    assert found == {
        **dict.fromkeys(("a1", "a2", "a3"), ("a", None, None, None)),
        **dict.fromkeys(("k1", "k2", "k3"), (None, "k:1", 2, None)),
        "plain": (None, None, None, None),
        "limited": ("b", None, None, 2),
    }
    rows = read(env)
    ends = int(env.raw.hget(env.keys().limits, sent["limited"]).split(b":")[1])
    assert rows["limited"]["expires_at"] == datetime.fromtimestamp(0, UTC) + timedelta(
        milliseconds=ends
    )
    now = datetime.fromtimestamp(env.now_ms() / 1000, UTC)
    assert max(row["visible_at"] for row in rows.values()) <= now  # also of those held back


def test_a_read_without_these_columns_makes_no_command_for_them(env, sent):
    with env.commands() as commands:
        env.read(queue="q")
    assert not [each for each in commands if ":x:" in each or "EVAL" in each]
    query = env.query()
    query.poll()
    with env.commands() as commands:
        query.tasks(query.plan())
        query.reader.consumer.background.finish()
    own = [each for each in commands if not each.startswith(("LUA", "EVAL", "SCRIPT"))]
    assert {each.split()[0] for each in own if "HELLO" not in each} <= {
        "HGET", "HMGET", "HEXISTS", "CLIENT", "TIME",
    }  # fmt: skip
    assert not [each for each in own if ":x:group_of" in each or ":x:limits" in each]


def test_a_stream_has_the_options_of_each_message(env, sent):
    names = ["message", "group", "limit_key", "max_running", "max_retries"]
    rows = env.query(columns=",".join(names)).run()
    assert {tuple(row.values()) for row in rows} == {
        ("a1", "a", None, None, None), ("k1", None, "k:1", 2, None), ("k2", None, "k:1", 2, None),
        ("plain", None, None, None, None), ("limited", "b", None, None, 2),
    }  # fmt: skip


@pytest.mark.parametrize("kind", ["frame", "stream"])
def test_headers_are_a_map(env, queue, kind):
    with use_headers({"request_id": "7f3a", "tenant": "ü"}):
        env.rsmq.send_message("q", {"n": 1}, codec=EnvelopeCodec(JSON))
    env.rsmq.send_message("q", "plain")
    read = env.read if kind == "frame" else lambda **options: env.query(**options).run()

    rows = read(queue="q", columns="headers,id")

    assert [dict(row["headers"]) for row in sorted(rows, key=lambda row: row["id"])] == [
        {"request_id": "7f3a", "tenant": "ü"}, {},
    ]  # fmt: skip


@pytest.mark.parametrize("kind", ["frame", "stream"])
def test_track_is_whether_a_message_has_a_record_as_a_job(env, queue, kind):
    env.rsmq.send_message("q", "tracked", track=True)
    env.rsmq.send_message("q", "plain")
    read = env.read if kind == "frame" else lambda **options: env.query(**options).run()

    rows = read(queue="q", columns="track,message")

    assert {row["message"]: row["track"] for row in rows} == {"tracked": True, "plain": False}


@pytest.mark.parametrize("options", [{}, {"snapshot": "exact"}])
def test_a_frame_has_the_state_of_each_message(env, queue, options):
    queues = env.rsmq
    queues.send_message("q", "fails")
    worker = Worker(queues)

    @worker.listener("q", backoff=1000, retry_forever=True)
    def fail(message):
        worker.stop()
        raise ValueError

    worker.run()
    queues.send_messages("q", ["first", "behind"], groups=["a", "a"])
    queues.send_message("q", "delayed", delay=1000)
    queues.send_message("q", "over", expires=0.001)
    queues.receive_message("q", vt=1000)
    queues.send_message("q", "visible")
    ids = env.raw.zrange(env.keys().zset, 0, -1)
    shown = {id.decode(): queues.get_message("q", id.decode()).state for id in ids}

    rows = env.read(queue="q", columns="id,message,state", **options)

    assert {row["message"]: row["state"] for row in rows} == {
        "fails": "retrying", "first": "in_flight", "behind": "held_back", "delayed": "delayed",
        "over": "expired", "visible": "visible",
    }  # fmt: skip
    rows = [row for row in rows if row["message"] != "over"]  # other readers show it as visible
    assert [row["state"] for row in rows] == [shown[row["id"]] for row in rows]


def test_the_messages_of_a_stream_are_in_flight(env, queue):
    env.rsmq.send_message("q", "m")
    assert env.query(columns="state").run() == [{"state": "in_flight"}]


@pytest.mark.parametrize("delivery", ["at-least-once", "exactly-once"])
def test_messages_are_restored_with_their_options(env, sent, delivery):
    received = env.rsmq.receive_message("q", vt=100)
    assert received.body == "a1"
    before, rows = read(env), list(read(env).values())
    states = {id: env.rsmq.get_message("q", id).state for id in sent.values()}
    limits = env.raw.hgetall(env.keys().limits)
    assert sorted(states.values()).count("held_back") == 3

    for _ in range(2):
        env.rsmq.purge_queue("q")
        write = env.write(STRUCT, restore=True, delivery=delivery)
        write.run(sorted(rows, key=lambda row: row["id"]))

        assert read(env) == before
        assert {id: env.rsmq.get_message("q", id).state for id in sent.values()} == states
        assert env.raw.hgetall(env.keys().limits) == limits
        env.write(STRUCT, restore=True, delivery=delivery).run(rows)  # changes nothing
        assert read(env) == before
    env.rsmq.delete_message("q", sent["a1"])
    assert env.rsmq.get_message("q", sent["a2"]).state == "visible"


@pytest.mark.parametrize(
    ("change", "rule"),
    [
        ({"group": "a", "limit_key": "k"}, "not both"),
        ({"group": ""}, "roup"),
        ({"limit_key": "k"}, "max_running is 1 to 1000"),
        ({"limit_key": "k", "max_running": 1001}, "max_running is 1 to 1000"),
        ({"group": "a", "id": "x" * 32}, "ends in Gr"),
        ({"max_retries": -1}, "max_retries is 0 to"),
        ({"expires_at": datetime(1969, 1, 1, tzinfo=UTC)}, "expires_at is 1970"),
    ],
)
def test_wrong_options_of_a_restored_message_are_refused(env, sent, change, rule):
    row = dict.fromkeys(KEPT) | {"id": sent["a1"], "message": "m"} | change
    env.rsmq.purge_queue("q")
    with pytest.raises(InvalidOption, match=rule):
        env.write(STRUCT, restore=True).task([row])
    assert env.scores() == {}
