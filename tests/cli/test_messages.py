"""The commands that receive, show, delete and move messages."""

from __future__ import annotations

import base64
import json

import pytest

from rsmq import BYTES
from rsmq.worker.operations import (
    Identity,
    ReceiveRequest,
    Settlement,
    dead_letter_messages,
    receive_for_worker,
    register_worker,
    settle_messages,
)

BODIES = {
    b"plain text": "plain text",
    "grüße 😀".encode(): "grüße 😀",
    b'{"a": "\\n"}': '{"a": "\\n"}',
    b"": '""',
    b"a\nb": '"a\\nb"',
    b" x": '" x"',
    b'"x"': '"\\"x\\""',
    b'b"x"': '"b\\"x\\""',
    b"\x1b[31m": '"\\u001b[31m"',
    "\x9b31m".encode(): '"\\u009b31m"',
    "\u202eabc".encode(): '"\\u202eabc"',
    b"\xff'\"\\\n": 'b"\\xff\'\\"\\\\\\n"',
    b"\x00": '"\\u0000"',
}


@pytest.fixture
def q(rsmq):
    rsmq.create_queue("q")
    return "q"


def test_bodies_are_shown_as_unambiguous_lines(cli, rsmq, q):
    rsmq.send_messages(q, list(BODIES), codec=BYTES)
    heading, *lines = cli("receive", q, "-n", 100).lines

    assert heading.split() == ["ID", "RECEIVED", "SENT", "BODY"]
    assert [line[heading.index("BODY") :] for line in lines] == list(BODIES.values())
    for raw, text in BODIES.items():
        if text.startswith('b"'):
            assert eval(text) == raw
        elif text.startswith('"'):
            assert json.loads(text).encode() == raw


def test_messages_are_received_and_hidden(cli, raw, ns, rsmq, q):
    ids = rsmq.send_messages(q, ["a", "b", "c"])
    result = cli("receive", q, "-n", 2, "--vt", 1000)

    assert [line.split()[:2] for line in result.lines[1:]] == [[ids[0], "1"], [ids[1], "1"]]
    assert raw.hget(f"{ns}:q:Q", f"{ids[0]}:rc") == b"1"
    now = raw.time()[0] * 1000
    assert 990_000 < raw.zscore(f"{ns}:q", ids[0]) - now <= 1_001_000
    assert cli("rc", q).lines[1].split()[0] == ids[2]


def test_json_keys_are_the_names_of_the_attributes(cli, rsmq, q):
    (id,) = rsmq.send_messages(q, [b"\xff"], codec=BYTES)
    rsmq.send_message(q, "é")
    first, second = cli("receive", q, "-n", 2, "--json").json
    stored = rsmq.get_message(q, id)

    assert first == {
        "queue": q,
        "id": id,
        "body_base64": base64.b64encode(b"\xff").decode(),
        "receive_count": 1,
        "first_received_ms": stored.first_received_ms,
        "sent_ms": stored.sent_ms,
    }
    assert second["body"] == "é"


def test_an_empty_queue_has_an_exit_code(cli, q):
    assert cli("receive", q) == (1, b"", "no message\n")
    assert cli("receive", q, "--json") == (1, b"[]\n", "")
    assert cli("pop", q, "--raw") == (1, b"", "no message\n")
    assert cli("peek", q).code == 1
    assert cli("recover", q, "--idle", 0).code == 1
    assert cli("receive", "none").code == 3


def test_raw_bodies_are_written_unchanged(cli, raw, ns, rsmq, q):
    rsmq.send_messages(q, [b"a\nb", b"\xff\x00", b""], codec=BYTES)

    assert cli("peek", q, "--raw").raw == b"a\nb\n\xff\x00\n\n"
    assert cli("receive", q, "--raw", "-n", 3, "--vt", 0).raw == b"a\nb\n\xff\x00\n\n"
    assert cli("pop", q, "-0", "-n", 3).raw == b"a\nb\0\xff\x00\0\0"
    assert not raw.exists(f"{ns}:q")
    assert "exclude each other" in cli("pop", q, "--raw", "--json").stderr


def test_a_receive_waits_for_a_message(processes, rsmq, q):
    process = processes.start("receive", q, "--wait", "forever", "--raw")
    rsmq.send_message(q, "at last")

    assert process.communicate()[0] == b"at last\n"
    assert "wait must be between 0 and 9999999" in processes("pop", q, "--wait", "-1")[2]


def test_receive_from_several_queues_prefers_the_first(cli, rsmq, q):
    rsmq.create_queue("urgent")
    rsmq.send_message(q, "a")
    rsmq.send_message("urgent", "b")
    result = cli("receive", "urgent", q, "-n", 5)

    assert [line.split()[0] for line in result.lines] == ["QUEUE", "urgent", "q"]


def test_messages_of_a_group_are_received_together(cli, rsmq, q):
    rsmq.send_messages(q, ["a1", "b1", "a2"], groups=["a", "b", "a"])

    assert cli("receive", q, "-n", 5, "--vt", 0, "--raw").lines == ["a1", "b1"]
    received = cli("receive", q, "-n", 5, "--extend-groups", "--raw").lines
    assert received == ["a1", "a2", "b1"]


def test_messages_are_popped(cli, raw, ns, rsmq, q):
    rsmq.send_messages(q, ["a", "b"])

    assert cli("pop", q, "--json").json[0]["body"] == "a"
    assert raw.zcard(f"{ns}:q") == 1
    assert raw.hlen(f"{ns}:q:Q") == 5 + 2 + 1  # attributes, totals, a body


def test_messages_are_deleted_by_their_ids(cli, raw, ns, rsmq, q):
    ids = rsmq.send_messages(q, ["a", "b", "c"])
    missing_id = "x" * 32
    result = cli("delete", q, ids[0], missing_id, ids[1])

    assert (result.code, result.lines, result.stderr) == (
        1,
        ids[:2],
        f"{missing_id}: not there\n",
    )
    assert raw.zrange(f"{ns}:q", 0, -1) == [ids[2].encode()]
    assert cli("rm", q, ids[2], "--json") == (
        0, json.dumps({"deleted": [ids[2]], "missing": []}).encode() + b"\n", "",
    )  # fmt: skip
    assert cli("delete", q, "short").error.startswith("Invalid id format: 'short'. ")
    assert cli("delete", "none", ids[0]).code == 1


def test_visibility_is_changed(cli, raw, ns, rsmq, q):
    ids = rsmq.send_messages(q, ["a", "b"])

    assert cli("visibility", q, *ids, "--vt", 1000).lines == ids
    assert raw.zscore(f"{ns}:q", ids[1]) > (raw.time()[0] + 900) * 1000
    assert cli("vs", q, ids[1], "--vt", 0).code == 0
    assert rsmq.receive_message(q).id == ids[1]
    assert cli("visibility", q, "x" * 32, "--vt", 1).code == 1
    assert cli("visibility", q, ids[0]).error.startswith("Missing option '--vt'")


def test_messages_are_released_in_their_old_places(cli, raw, ns, rsmq, q):
    ids = rsmq.send_messages(q, ["a", "b"])
    rsmq.receive_messages(q, 2)

    assert cli("release", q, ids[1]).lines == [ids[1]]
    assert rsmq.receive_message(q).id == ids[1]
    assert cli("release", q, "--all").out == "2 released\n"
    assert raw.zrange(f"{ns}:q", 0, -1) == [id.encode() for id in ids]
    assert cli("release", q, "--all", "--json").json == {"queue": q, "released": 0}
    assert "one of them" in cli("release", q).error
    assert "one of them" in cli("release", q, ids[0], "--all").error


def test_messages_are_recovered(cli, raw, ns, rsmq, q):
    (id,) = rsmq.send_messages(q, ["a"])
    rsmq.receive_message(q)

    assert cli("recover", q, "--idle", 3600).code == 1
    assert cli("recover", q, "--idle", 0, "--json").json[0]["receive_count"] == 2
    assert raw.hget(f"{ns}:q:Q", f"{id}:rc") == b"2"
    assert cli("recover", q).error.startswith("Missing option '--idle'")


def test_peek_and_get_show_messages_and_change_nothing(cli, raw, ns, rsmq, q):
    ids = rsmq.send_messages(q, ["a", "b", "c"])
    rsmq.receive_message(q)
    before = raw.hgetall(f"{ns}:q:Q"), raw.zrange(f"{ns}:q", 0, -1, withscores=True)
    messages = cli("peek", q, "--json").json

    assert [each["id"] for each in messages] == [*ids[1:], ids[0]]
    assert [each["state"] for each in messages] == ["visible", "visible", "in_flight"]
    assert messages[2]["visible_at_ms"] == raw.zscore(f"{ns}:q", ids[0])
    assert messages[2]["reason"] is None
    assert cli("peek", q, "--start", -1, "--raw").raw == b"a\n"
    assert cli("peek", q, "--start", 1, "-n", 1, "--raw").raw == b"c\n"
    assert cli("peek", q, "--state", "in_flight").lines[1].split()[0] == ids[0]
    assert cli("peek", q, "--count", 0).code == 2
    assert cli("get", q, ids[1], "--raw").raw == b"b\n"
    result = cli("get", q, "x" * 32, ids[2], "--json")
    assert (result.code, [each["body"] for each in result.json]) == (1, ["c"])
    assert before == (raw.hgetall(f"{ns}:q:Q"), raw.zrange(f"{ns}:q", 0, -1, withscores=True))


def test_peek_shows_the_reason_of_a_dead_letter(cli, rsmq, q):
    rsmq.create_queue("dead")
    rsmq.send_message(q, "poison")
    message = rsmq.receive_message(q)
    worker = Identity(rsmq.namespace, "w", "t")
    reason = {
        "queue": q, "text": "3 attempts\nfailed", "exception": "ValueError: bad", "traceback": None,
        "worker": "w", "attempts": 3,
    }  # fmt: skip
    keys = rsmq.namespace.queue
    rsmq.run(dead_letter_messages(worker, keys(q), keys("dead"), [(message.id, 1, reason)]))
    _, line, reason_line, exception = cli("peek", "dead").lines

    assert line.endswith("  poison")
    assert reason_line.startswith("  from q, 20")
    assert reason_line.endswith('worker w, received 3: "3 attempts\\nfailed"')
    assert exception == "  ValueError: bad"
    assert cli("peek", "dead", "--json").json[0]["reason"]["attempts"] == 3


@pytest.fixture
def held(rsmq, q):
    """A message that waits for a retry, and one that a worker has in flight."""
    worker, keys = Identity(rsmq.namespace, "w", "t"), rsmq.namespace.queue(q)
    rsmq.run(register_worker(worker, {}, ttl=60, dead=""))
    ids = rsmq.send_messages(q, ["bad", "slow"])
    receive = receive_for_worker(worker, [ReceiveRequest(keys, 60_000, 1, 0, 10)], 10)
    assert rsmq.run(receive)[0].ids == ids
    group = Settlement(keys, "retry", 1, [(ids[0], 90_000, "ValueError: bad\ntile")])
    assert rsmq.run(settle_messages(worker, [group])) == b"1"
    rsmq.send_message(q, "other", front=True)
    other = rsmq.receive_message(q, vt=30)
    return {"bad": ids[0], "slow": ids[1], "other": other.id}


def test_peek_and_get_show_the_group(cli, q):
    cli("send", q, "one", "--group", "a b")
    second = cli("send", q, "two", "--group", "a b").lines[0]
    lines = cli("peek", q).lines

    assert [line.strip() for line in lines[2::2]] == ["in group a b"] * 2
    assert lines[3].split()[1:2] + lines[3].split()[3:] == ["0", "held_back", "-", "two"]
    assert cli("get", q, second).lines[2] == lines[4]
    assert cli("get", q, second, "--json").json[0]["group"] == "a b"


def test_peek_and_get_show_the_last_error_and_the_worker_that_has_a_message(cli, raw, ns, q, held):
    before = raw.hgetall(f"{ns}:q:x:retrying"), raw.hgetall(f"{ns}:x:held:w")
    lines = cli("peek", q).lines

    assert [line.split()[-1] for line in lines] == [
        "BODY",
        "other",
        "slow",
        "w",
        "bad",
        'bad\\ntile"',
    ]
    assert lines[3] == "  at worker w"
    assert lines[5] == '  "ValueError: bad\\ntile"'
    assert cli("get", q, held["slow"]).lines[2] == "  at worker w"
    assert cli("get", q, held["bad"]).lines[2] == lines[5]
    found = {each["body"]: each for each in cli("peek", q, "--json").json}
    assert {name: each["held_by"] for name, each in found.items()} == {
        "other": None, "slow": "w", "bad": None,
    }  # fmt: skip
    assert {name: (each["state"], each["last_error"]) for name, each in found.items()} == {
        "other": ("in_flight", None),
        "slow": ("in_flight", None),
        "bad": ("retrying", "ValueError: bad\ntile"),
    }
    assert [each["id"] for each in cli("peek", q, "--state", "retrying", "--json").json] == [
        held["bad"]
    ]
    assert before == (raw.hgetall(f"{ns}:q:x:retrying"), raw.hgetall(f"{ns}:x:held:w"))


def test_peek_works_if_the_workers_can_not_be_read(cli, raw, ns, q, held):
    raw.delete(f"{ns}:x:workers")
    raw.set(f"{ns}:x:workers", "not a hash")

    assert {each["held_by"] for each in cli("peek", q, "--json").json} == {None}


def test_stats_and_top_and_rfq_count_messages_that_wait_for_a_retry(cli, q, held):
    (fields,) = cli("stats", q, "--json").json
    assert (fields["visible"], fields["in_flight"], fields["retrying"]) == (0, 2, 1)
    assert cli("stats", q).lines[1].split()[1:5] == ["0", "2", "1", "0"]
    assert cli("top", q, "--once").lines[1].split()[1:5] == ["0", "2", "1", "0"]
    (figures,) = json.loads(cli("top", q, "--once", "--json").out)["queues"]
    assert (figures["in_flight"], figures["retrying"]) == (2, 1)
    assert cli("rfq", "info", "--json").json == [{"topic": q, "backlog": 0, "nextlog": 3}]
    assert sorted(cli("rfq", "list-queue", "-t", q, "-q", "nextlog").lines) == sorted(held.values())


# Dead letters.


def test_a_policy_is_set_shown_and_removed(cli, raw, ns, rsmq, q):
    rsmq.create_queue("dead")

    assert cli("dead-letter", q).out == "q: no dead-letter policy\n"
    assert cli("dead-letter", q, "dead", "--max-receives", 3).out == "q: to dead after 3 receives\n"
    assert raw.hmget(f"{ns}:q:Q", "x:dlq", "x:max") == [b"dead", b"3"]
    assert cli("dead-letter", q, "--json").json == {
        "queue": q, "dead_letter_queue": "dead", "max_receives": 3,
    }  # fmt: skip
    assert cli("dead-letter", q, "dead").code == 2
    assert cli("dead-letter", q, "dead", "--max-receives", 3, "--remove").code == 2
    assert cli("dead-letter", q, "none", "--max-receives", 3).code == 3
    assert cli("dead-letter", q, "--remove").code == 0
    assert raw.hmget(f"{ns}:q:Q", "x:dlq", "x:max") == [None, None]


def test_messages_received_too_often_are_swept_and_redriven(cli, raw, ns, rsmq, q):
    rsmq.create_queue("dead")
    rsmq.set_dead_letter_policy(q, "dead", 1)
    (id,) = rsmq.send_messages(q, ["a"])
    rsmq.receive_message(q, vt=0)

    assert cli("sweep", q, "--json").json == [id]
    assert raw.zrange(f"{ns}:dead", 0, -1) == [id.encode()]
    assert cli("sweep", q) == (0, b"", "")
    (line,) = cli("redrive", "dead").lines
    assert line.split()[0] == id
    assert raw.zrange(f"{ns}:q", 0, -1) == [line.split()[1].encode()]
    assert cli("redrive", "dead", "--to", q, "-n", 1, "--json") == (1, b"[]\n", "")
    assert cli("redrive", "dead", "--to", q) == (1, b"", "no message\n")
    rsmq.set_dead_letter_policy(q, None)
    rsmq.send_message("dead", "no record")
    assert "as in --to orders" in cli("redrive", "dead").error


def test_dead_letters_are_redriven_by_their_ids(cli, raw, ns, rsmq, q):
    rsmq.create_queue("dead")
    ids = rsmq.send_messages("dead", ["a", "b", "c"])
    for id in ids:
        raw.hset(f"{ns}:dead:x:reasons", id, '5:{"queue": "q"}')

    (line,) = cli("redrive", "dead", ids[1]).lines
    assert line.split()[0] == ids[1]
    assert raw.zrange(f"{ns}:q", 0, -1) == [line.split()[1].encode()]
    result = cli("redrive", "dead", ids[1], ids[2])
    assert result.code == 1
    assert f"{ids[1]}: not there" in result.stderr
    assert raw.zrange(f"{ns}:dead", 0, -1) == [ids[0].encode()]
    assert cli("redrive", "dead", ids[0], "-n", 1).code == 2


def test_messages_are_moved(cli, raw, ns, rsmq, q):
    rsmq.create_queue("other")
    ids = rsmq.send_messages(q, ["a", "b"])

    assert cli("move", q, ids[0], "--to", "other").lines == [ids[0]]
    assert raw.zrange(f"{ns}:other", 0, -1) == [ids[0].encode()]
    assert raw.zrange(f"{ns}:q", 0, -1) == [ids[1].encode()]
    assert cli("move", q, ids[0], "--to", "other").code == 1
