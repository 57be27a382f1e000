"""Jobs keep groups, limit keys, expiry and retries, and take all messages, in new messages too."""

from __future__ import annotations

import pytest
from pyspark.sql.functions import upper

from rsmq import RSMQ
from rsmq.spark import pipelines


@pytest.fixture
def queues(server, ns):
    return pipelines.Queues(server.url, ns)


@pytest.fixture
def sent(rsmq):
    """Messages with groups and limit keys in a queue; their ids by body."""
    rsmq.create_queue("q")
    names = [f"{group}{number}" for number in range(4) for group in "abc"]
    ids = dict(
        zip(names, rsmq.send_messages("q", names, groups=[n[0] for n in names]), strict=True)
    )
    for name in ("k0", "k1", "k2"):
        ids[name] = rsmq.send_message("q", name, limit_key="k", max_running=2)
    ids["plain"] = rsmq.send_message("q", "plain", expires=9000, max_retries=1)
    return ids


def snapshot(raw, ns):
    """Return what is stored of groups and limits, without times that change."""
    return {key: raw.zrange(f"{ns}:q:x:{key}", 0, -1) for key in ("admitted", "held_back")} | {
        key: raw.hgetall(f"{ns}:q:x:{key}") for key in ("group_of", "limits")
    }


def receive_all(rsmq, queue="q"):
    """Receive and delete all messages, one at a time; return their bodies in order."""
    bodies = []
    while (message := rsmq.receive_message(queue)) is not None:
        bodies.append(message.body)
        rsmq.delete_message(message)
    return bodies


def check_order(bodies, sent):
    assert sorted(bodies) == sorted(sent)
    for group in "abck":
        names = [body for body in bodies if body[0] == group]
        assert names == sorted(names)


def test_a_migration_keeps_groups_and_limit_keys(spark, server, rsmq, raw, ns, queues, sent):
    assert rsmq.receive_message("q", vt=500).body == "a0"
    target = pipelines.Queues(server.url, f"{ns}-other")
    before = snapshot(raw, ns)
    for _ in range(2):
        assert pipelines.migrate(spark, queues, target).verified
        after = snapshot(raw, f"{ns}-other")
        assert after.keys() == before.keys()
        for key in ("admitted", "held_back", "limits"):
            assert after[key] == before[key]
        assert after["group_of"].keys() == before["group_of"].keys()
    assert snapshot(raw, ns) == before

    with RSMQ.from_url(server.url, ns=f"{ns}-other") as other:
        states = other.count_messages("q")
        assert (states.visible, states.in_flight, states.held_back) == (5, 1, 10)
        other.delete_message("q", sent["a0"])
        check_order(["a0", *receive_all(other)], sent)


def test_an_archive_of_kept_messages_is_restored_with_groups(
    spark, rsmq, raw, ns, queues, sent, tmp_path
):
    path = str(tmp_path / "archive")
    before = snapshot(raw, ns)
    assert pipelines.archive(spark, queues, "q", path, keep=True).messages == len(sent)
    assert snapshot(raw, ns) == before
    rsmq.delete_queue("q")
    rsmq.create_queue("q")
    assert pipelines.replay(spark, path, queues).messages == len(sent)  # as new messages
    counts = rsmq.count_messages("q")
    assert (counts.visible, counts.held_back) == (6, 10)
    assert raw.exists(f"{ns}:q:x:limits") == 0
    assert set(raw.zrange(f"{ns}:q", 0, -1)).isdisjoint(id.encode() for id in sent.values())
    check_order(receive_all(rsmq), sent)
    assert pipelines.replay(spark, path, queues, restore=True).messages == len(sent)
    assert snapshot(raw, ns) == before
    check_order(receive_all(rsmq), sent)


def test_an_archive_and_a_drain_take_all_messages_of_groups(
    spark, rsmq, raw, ns, queues, sent, tmp_path
):
    path = str(tmp_path / "archive")
    assert pipelines.archive(spark, queues, "q", path).messages == len(sent)
    assert raw.zcard(f"{ns}:q") == 0
    assert pipelines.replay(spark, path, queues, restore=True).messages == len(sent)
    assert rsmq.count_messages("q").held_back == 10

    done = pipelines.drain(spark, queues, "q", str(tmp_path / "drained"))
    assert (done.messages, raw.zcard(f"{ns}:q")) == (len(sent), 0)
    rows = spark.read.json(str(tmp_path / "drained"))
    assert {(row["group"] or row["limit_key"]) for row in rows.collect()} == {
        "a",
        "b",
        "c",
        "k",
        None,
    }


def test_an_archive_takes_many_messages_of_few_groups_in_one_batch(
    spark, rsmq, raw, ns, queues, tmp_path
):
    rsmq.create_queue("q")
    names = [f"{group}{number:03}" for number in range(50) for group in "abcd"]
    rsmq.send_messages("q", names, groups=[name[0] for name in names])
    batches = []
    done = pipelines.archive(spark, queues, "q", str(tmp_path / "archive"), tell=batches.append)

    assert done.messages == 200
    assert len(batches) == 1
    assert raw.zcard(f"{ns}:q") == 0
    assert sorted(raw.keys(f"{ns}:q:x:*")) == [  # its history
        f"{ns}:q:x:call_times".encode(), f"{ns}:q:x:calls".encode(),
    ]  # fmt: skip
    rows = spark.read.parquet(str(tmp_path / "archive")).select("message", "group").collect()
    assert sorted(bytes(row["message"]).decode() for row in rows) == sorted(names)


def test_a_transformation_passes_groups_on(spark, rsmq, queues, sent, tmp_path):
    pipelines.transform(
        spark, queues, "q", queues, "out",
        lambda frame: frame.withColumn("message", upper("message")),
        checkpoint=str(tmp_path / "checkpoint"), create=True,
    )  # fmt: skip
    counts = rsmq.count_messages("out")
    assert (counts.visible, counts.held_back) == (6, 10)
    check_order([body.lower() for body in receive_all(rsmq, "out")], sent)


def test_a_transformation_takes_all_messages_of_groups(spark, rsmq, queues, sent, tmp_path):
    done = pipelines.transform(
        spark, queues, "q", queues, "out", lambda frame: frame.select("message"),
        checkpoint=str(tmp_path / "checkpoint"), create=True,
    )  # fmt: skip
    assert done.messages == len(sent)
    check_order(receive_all(rsmq, "out"), sent)


def test_a_redrive_keeps_groups_and_limit_keys(spark, rsmq, raw, ns, queues, sent, tmp_path):
    for name in ("dead", "rest"):
        rsmq.create_queue(name)
    rsmq.move_messages("q", "dead", ids=list(sent.values()))
    checkpoint = str(tmp_path / "checkpoint")
    to = "CASE WHEN message <> 'plain' THEN 'q' END"

    done = pipelines.redrive(spark, queues, "dead", to, "rest", checkpoint=checkpoint)

    assert (done.messages, raw.zcard(f"{ns}:dead")) == (len(sent), 0)
    assert [each.body for each in rsmq.receive_messages("rest", 10)] == ["plain"]
    found = {each.body: each for each in rsmq.peek_messages("q", 0, 100)}
    assert {(m.group, m.limit_key, m.max_running) for m in found.values()} == {
        ("a", None, None), ("b", None, None), ("c", None, None), (None, "k", 2),
    }  # fmt: skip
    check_order(receive_all(rsmq), [name for name in sent if name != "plain"])


def test_a_report_counts_all_states_as_the_library_does(spark, rsmq, raw, ns, queues, sent):
    rsmq.create_queue("empty")
    rsmq.send_message("q", "later", delay=500)
    message = rsmq.receive_message("q", vt=500)
    rsmq.receive_message("q", vt=500)
    created = raw.hget(f"{ns}:q:Q", "created")
    raw.hset(f"{ns}:q:x:retrying", mapping={"": created, message.id: "1:ValueError: no"})
    states = ("visible", "in_flight", "retrying", "held_back", "delayed")
    expected = dict(zip(states, (4, 1, 1, 10, 1), strict=True))
    counts = rsmq.count_messages("q")
    assert {state: getattr(counts, state) for state in states} == expected

    empty, row = pipelines.report(spark, queues).queues

    assert {state: row[state] for state in states} == expected
    assert (row["messages"], row["bytes"]) == (17, sum(map(len, [*sent, "later"])))
    assert (empty["messages"], empty["bytes"], empty["age_max"]) == (0, 0, None)


def test_columns_of_another_program_are_not_groups(spark, rsmq, raw, ns, queues, tmp_path):
    lines = tmp_path / "events.jsonl"
    lines.write_text('{"id": "7", "message": "m", "group": "of users", "limit_key": "k"}\n')
    rsmq.create_queue("q")
    assert pipelines.replay(spark, str(lines), queues, "q", kind="json").messages == 1
    assert receive_all(rsmq) == ["m"]
