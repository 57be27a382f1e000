"""The columns with the reasons of dead letters, in frames and streams."""

from __future__ import annotations

import json
from datetime import UTC, datetime

import pytest

from rsmq.spark import InvalidOption
from rsmq.spark.read.sent_columns import REASON_COLUMNS
from rsmq.worker import Worker
from tests.scale import WAIT_SECONDS

WHOLE = {
    "queue": "q", "text": "failed once", "exception": "ValueError: no", "traceback": "Trace",
    "worker": "w1", "attempts": 3, "status": 503, "answer": "busy",
}  # fmt: skip


def store(env, reasons, queue="dead"):
    """Store dead letters with these reasons, as the bytes behind the time; None stores none."""
    env.rsmq.create_queue(queue)
    ids = env.rsmq.send_messages(queue, [str(number) for number in range(len(reasons))])
    for id, reason in zip(ids, reasons, strict=True):
        if reason is not None:
            env.raw.hset(env.keys(queue).reasons, id, reason)


def read(env, **options):
    rows = env.read(queue="dead", includeReasons=True, **options)
    return [[row[name] for name in REASON_COLUMNS] for row in sorted(rows, key=lambda r: r["id"])]


def test_columns_of_a_reason_that_a_worker_has_stored(env):
    env.rsmq.create_queue("q")
    env.rsmq.send_message("q", "bad")

    def fail(message):
        raise ValueError("no \N{SNOWMAN}")

    worker = Worker(env.rsmq, name="w1")
    worker.listener("q", max_retries=0, dead_letter_queue="dead")(fail)
    env.rsmq.create_queue("dead")
    worker.run(until_empty=True, timeout=WAIT_SECONDS)
    (row,) = env.read(queue="dead", includeReasons=True)
    reason = env.rsmq.peek_messages("dead")[0].reason

    assert (row["from_queue"], row["worker"], row["attempts"]) == ("q", "w1", 1)
    assert row["exception"] == "ValueError: no \N{SNOWMAN}"
    assert row["reason"] == reason.text
    assert "in fail" in row["traceback"]
    assert row["died_at"] == reason.died_at
    assert (row["status"], row["answer"]) == (None, None)


def test_schema_has_the_columns_on_request(env):
    names = env.source(queue="q", includeReasons=True).schema().fieldNames()
    assert names[-len(REASON_COLUMNS) :] == list(REASON_COLUMNS)
    assert names[:2] == ["queue", "id"]
    chosen = env.source(queue="q", columns="worker,id").schema().fieldNames()
    assert chosen == ["worker", "id"]


@pytest.mark.parametrize("options", [{}, {"snapshot": "exact"}, {"include": "visible"}])
def test_reasons_of_other_programs_are_read_as_far_as_they_fit(env, options):
    wrong_types = {**WHOLE, "text": ["x"], "exception": 1, "attempts": 2**64, "status": True}
    store(
        env,
        [
            b"1700000000123:" + json.dumps(WHOLE).encode(),
            None,
            b"no reason",
            b"1:[]",
            b"1:{}",
            b"99999999999999999999:" + json.dumps(wrong_types).encode(),
            b"1:" + json.dumps({**WHOLE, "text": "a\ud800b"}).encode(),
        ],
    )
    whole, *nothing, wrong, surrogate = read(env, **options)

    died_at = datetime(2023, 11, 14, 22, 13, 20, 123_000, UTC)
    assert whole == [
        "q", "failed once", "ValueError: no", "Trace", "w1", 3, died_at, 503, "busy",
    ]  # fmt: skip
    assert nothing == [[None] * len(REASON_COLUMNS)] * 4
    assert wrong == ["q", None, None, "Trace", "w1", None, None, None, "busy"]
    assert surrogate[1] == "a?b"


def test_user_without_the_right_to_reasons_gets_none(env, tmp_path):
    store(env, [b"1:" + json.dumps(WHOLE).encode()])
    env.raw.execute_command(
        "ACL", "SETUSER", "limited", "on", ">secret", f"~{env.ns}:QUEUES", f"~{env.ns}:dead",
        f"~{env.ns}:dead:Q", "+@all",
    )  # fmt: skip
    secret = tmp_path / "secret"
    secret.write_text("secret")

    assert read(env, username="limited", passwordFile=str(secret)) == [[None] * len(REASON_COLUMNS)]
    env.raw.execute_command("ACL", "DELUSER", "limited")


def test_a_stream_has_the_columns_that_it_names(env):
    store(env, [b"1700000000123:" + json.dumps(WHOLE).encode(), None])
    rows = env.query(queue="dead", columns="message,reason,worker,attempts").run()
    assert sorted(tuple(row.values()) for row in rows) == [
        ("0", "failed once", "w1", 3), ("1", None, None, None),
    ]  # fmt: skip


def test_streams_refuse_the_option_of_frames(env, queue):
    source = env.source(queue="q", includeReasons=True)
    with pytest.raises(InvalidOption):
        source.streamReader(schema=source.schema())
