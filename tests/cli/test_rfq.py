"""``rsmq rfq``: the commands of rfq. The texts are those of rfq 1.4.0."""

from __future__ import annotations

import json
import math

import pytest

from tests.ports import free_port


@pytest.fixture
def rfq(cli):
    return lambda verb, *arguments: cli("rfq", verb, *arguments)


def test_publish_creates_the_topic(rfq, raw, ns):
    id = rfq("publish", "-t", "ndvi", "-m", '{"a": 1, "b": "ü"}').out.strip()

    assert raw.hget(f"{ns}:ndvi:Q", id) == '{"a":1,"b":"ü"}'.encode()
    assert raw.hget(f"{ns}:ndvi:Q", "maxsize") == b"-1"
    assert rfq("list-topics").out == "ndvi\n"


@pytest.mark.parametrize("text", ["no json", "[1]", '"x"', ""])
def test_a_message_is_an_object(rfq, raw, ns, text):
    result = rfq("publish", "-t", "ndvi", "-m", text)

    assert result.code == 2
    assert result.error.endswith('As in {"tile": 7}.')
    assert raw.keys(f"{ns}:*") == []


def test_list_queue_begins_with_the_next_message(rfq):
    first = rfq("publish", "-t", "t", "-m", "{}").out
    second = rfq("publish", "-t", "t", "-m", "{}").out
    front = rfq("publish", "--topic", "t", "--message", "{}", "--front").out

    assert rfq("list-queue", "-t", "t").out == front + first + second
    assert rfq("list-queue", "-t", "t", "-q", "nextlog").raw == b""
    assert rfq("list-queue", "-t", "t", "--json").json == [
        each.strip() for each in (front, first, second)
    ]


def test_consume_prints_and_deletes_a_message(rfq, raw, ns):
    rfq("publish", "-t", "t", "-m", '{"a": "1"}')

    assert rfq("consume", "-t", "t").out == '{"a": "1"}\n'
    assert not raw.exists(f"{ns}:t")


def test_consume_keep_leaves_the_message_for_commit(rfq, raw, ns, rsmq):
    id = rfq("publish", "-t", "t", "-m", '{"a": "1"}').out.strip()

    assert rfq("consume", "-t", "t", "--keep").out == f'{id}  {{"a": "1"}}\n'
    assert rfq("list-queue", "-t", "t", "-q", "nextlog").out == f"{id}\n"
    left = raw.zscore(f"{ns}:t", id) / 1000 - raw.time()[0]
    assert 86_000 < left < 87_000
    assert rfq("commit", "-t", "t", "-m", id) == (0, b"", "")
    assert not raw.exists(f"{ns}:t")
    assert rfq("commit", "-t", "t", "-m", id).code == 1


def test_consume_waits_for_a_topic_that_does_not_exist(processes, rsmq):
    process = processes.start("rfq", "consume", "-t", "t")
    while "t" not in rsmq.list_queues():
        assert process.poll() is None
    rsmq.send_message("t", '{"a": 1}')

    assert process.communicate()[0] == b'{"a": 1}\n'


def test_harvest_puts_messages_back_in_their_old_places(rfq, raw, ns, rsmq):
    rsmq.create_queue("t")
    ids = rsmq.send_messages("t", ["{}"] * 2500)
    rsmq.receive_messages("t", 2000)
    result = rfq("harvest", "-t", "t")

    assert result.code == 0
    assert sorted(result.lines) == ids[:2000]
    assert [id.decode() for id in raw.zrange(f"{ns}:t", 0, -1)] == ids
    assert rsmq.count_messages("t").visible == 2500
    assert rfq("harvest", "-t", "t").raw == b""


def test_info_draws_the_lists(rfq, rsmq):
    rsmq.create_queue("ndvi")
    rsmq.send_messages("ndvi", ["{}"] * 3)

    assert rfq("info").out == "topic\t\tndvi\nbacklog\t\t3\t\t#############\nnextlog\t\t0\t\t\n\n"
    rsmq.receive_messages("ndvi", 1)
    assert rfq("info", "--json").json == [{"topic": "ndvi", "backlog": 2, "nextlog": 1}]
    assert int(10 * math.log(3 + 1)) == 13


def test_peek_shows_a_message(rfq):
    id = rfq("publish", "-t", "t", "-m", '{"a":"1","b":"x"}').out.strip()

    assert rfq("peek", "-t", "t", "-m", id).out == '{"a": "1", "b": "x"}\n'
    assert rfq("peek", "-t", "t", "-m", "x" * 32) == (1, b"", "")
    assert rfq("peek", "-t", "none", "-m", "x" * 32).code == 1


def test_purge_queue_removes_one_of_the_lists(rfq, raw, ns, rsmq):
    rsmq.create_queue("t")
    ids = rsmq.send_messages("t", ["{}"] * 3)
    rsmq.receive_message("t")

    assert rfq("purge-queue", "-t", "t").code == 2
    assert rfq("purge-queue", "-t", "t", "--yes").lines == ids[1:]
    assert raw.zrange(f"{ns}:t", 0, -1) == [ids[0].encode()]
    assert rfq("purge-queue", "-t", "t", "-q", "nextlog", "-y").lines == ids[:1]
    assert not raw.exists(f"{ns}:t")


def test_versions_are_shown(rfq, raw):
    redis = raw.info("server")["redis_version"]

    assert rfq("version").lines[1] == f"redis {redis}"
    assert json.loads(rfq("version", "--json").raw)["redis"] == redis


def test_the_options_are_those_of_rfq(rfq):
    for verb in ("list-queue", "publish", "consume", "harvest", "purge-queue", "peek"):
        assert rfq(verb).error.startswith("Missing option '--topic' / '-t'")
    assert rfq("list-queue", "-t", "t", "-q", "other").code == 2
    assert "_rsmq_completion" in rfq("completions", "bash").out


def test_variables_of_rfq_are_the_last_source_of_the_url(cli, rsmq, server, monkeypatch, tmp_path):
    rsmq.create_queue("ndvi")
    monkeypatch.delenv("RSMQ_URL")
    monkeypatch.setenv("RFQ_REDIS_HOST", "127.0.0.1")
    monkeypatch.setenv("RFQ_REDIS_PORT", str(server.port))
    assert cli("rfq", "list-topics").lines == ["ndvi"]

    monkeypatch.setenv("RFQ_REDIS_PORT", str(free_port()))
    assert cli("rfq", "list-topics").code == 4
    assert cli("rfq", "list-topics", "--url", server.url).lines == ["ndvi"]
    assert cli("--url", server.url, "rfq", "list-topics").lines == ["ndvi"]
    monkeypatch.setenv("RSMQ_URL", server.url)
    assert cli("rfq", "list-topics").lines == ["ndvi"]
    monkeypatch.delenv("RSMQ_URL")
    (tmp_path / "config").write_text(f'profile = "p"\n[profiles.p]\nurl = "{server.url}"\n')
    monkeypatch.setenv("RSMQ_CONFIG", str(tmp_path / "config"))
    assert cli("rfq", "list-topics").lines == ["ndvi"]
    monkeypatch.setenv("RSMQ_CONFIG", "/dev/null")
    monkeypatch.setenv("RFQ_REDIS_PORT", "port")
    assert "Invalid url format" in cli("rfq", "list-topics").error
