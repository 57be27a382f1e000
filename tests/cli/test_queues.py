"""``rsmq`` and queues: what it writes, and what stands in Redis after it."""

from __future__ import annotations


def test_a_queue_is_created_with_its_attributes(cli, raw, ns):
    ended = cli("create", "q", "--vt", 60, "--delay", 5, "--maxsize", -1)

    assert (ended.code, ended.out, ended.said) == (0, "q: created\n", "")
    assert raw.hmget(f"{ns}:q:Q", "vt", "delay", "maxsize") == [b"60", b"5", b"-1"]
    assert raw.smembers(f"{ns}:QUEUES") == {b"q"}


def test_a_queue_that_exists_is_an_error_or_is_told(cli, raw, ns):
    cli("create", "q", "--vt", 60)
    ended = cli("create", "q")

    assert (ended.code, ended.out) == (3, "")
    assert ended.error.startswith("Queue exists. Queue 'q' keeps its attributes: --exist-ok ")
    assert cli("create", "q", "--exist-ok").out == "q: exists\n"
    assert cli("create", "q", "--exist-ok", "--json").json == {"queue": "q", "created": False}
    assert raw.hget(f"{ns}:q:Q", "vt") == b"60"
