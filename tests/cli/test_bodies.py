"""Bodies with steps in the program: with the codec, and without it."""

from __future__ import annotations

import json

import pytest

from rsmq import JSON, MSGPACK
from rsmq.codecs import Compressed, Encrypted
from rsmq.tasks import Tasks

KEY = bytes(range(32))
PROGRAM = f"""
from rsmq import JSON, MSGPACK
from rsmq.codecs import Compressed, Encrypted

KEYS = {{"k1": {KEY!r}}}
codec = Encrypted(Compressed(JSON), keys=KEYS)
packed = Compressed(MSGPACK, above=10)
number = 5
"""
CODEC = Encrypted(Compressed(JSON), keys={"k1": KEY})


@pytest.fixture
def q(rsmq, tmp_path, monkeypatch):
    (tmp_path / "bodies_of_test.py").write_text(PROGRAM)
    monkeypatch.syspath_prepend(str(tmp_path))
    rsmq.create_queue("q")
    return "q"


def test_a_body_is_sent_and_shown(cli, rsmq, q):
    option = ("--codec", "bodies_of_test:codec")
    cli("send", q, '{"card": 4111}', *option)
    (message,) = rsmq.peek_messages(q, codec=CODEC)

    assert message.raw.startswith(b"rsmq-body/1:aes256gcm=k1::")
    assert message.body == {"card": 4111}
    assert cli("peek", q, *option).lines[1].endswith('{"card": 4111}')
    assert cli("get", q, message.id, "--raw", *option).out == '{"card": 4111}\n'
    assert json.loads(cli("receive", q, "--json", *option).out)[0]["body"] == '{"card": 4111}'
    cli("release", q, message.id)
    assert cli("pop", q, "--raw", *option).out == '{"card": 4111}\n'


def test_without_the_codec_the_program_says_what_it_is(cli, rsmq, q):
    id = rsmq.send_message(q, {"card": 4111}, codec=CODEC)
    raw = rsmq.get_message(q, id).raw

    text = f"(encrypted (key k1), {len(raw)} bytes stored)"
    for command in (["peek", q], ["get", q, id], ["receive", q]):
        assert cli(*command).lines[1].endswith(text)
    assert cli("get", q, id, "--raw").out == raw.decode() + "\n"
    assert json.loads(cli("get", q, id, "--json").out)[0]["body"] == raw.decode()


def test_another_key_shows_the_same(cli, rsmq, q):
    other = Encrypted(JSON, keys={"k9": KEY})
    rsmq.send_message(q, 1, codec=other)
    assert "(encrypted (key k9), " in cli("peek", q, "--codec", "bodies_of_test:codec").lines[1]


def test_messagepack_is_json(cli, rsmq, q):
    option = ("--codec", "bodies_of_test:packed")
    cli(
        "send", q, '{"text": "a small thing, a small thing, a small thing, a small thing"}', *option
    )
    (message,) = rsmq.peek_messages(q, codec=Compressed(MSGPACK))
    assert message.body["text"].startswith("a small thing")
    assert cli("peek", q, *option).lines[1].endswith(JSON.encode(message.body))
    assert cli("send", q, "no json", *option).code != 0


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("bodies_of_test", "Write MODULE:NAME"),
        ("bodies_of_test:missing", "has no attribute 'missing'"),
        ("no_such_module:codec", "No module named 'no_such_module'"),
        ("bodies_of_test:number", "A codec is"),
    ],
)
def test_a_codec_that_is_not_there(cli, q, name, text):
    result = cli("peek", q, "--codec", name)
    assert result.code == 2
    assert text in result.stderr


def test_keys_are_counted(cli, rsmq, q):
    rsmq.create_queue("dead")
    ids = rsmq.send_messages(q, [1, 2, 3], codec=CODEC)
    rsmq.send_messages(q, [1, 2], codec=Encrypted(JSON, keys={"k0": KEY}))
    rsmq.send_message(q, "plain")
    rsmq.send_message(q, ["x" * 9000], codec=Compressed(JSON))
    rsmq.move_messages(q, "dead", ids[:1])
    rsmq.schedules.add("daily", queue=q, every=86_400, body=1, codec=CODEC)

    rest = {"results": 0, "undo": 0, "other": 0}
    expected = [
        {"key": "k0", "queue": "q", "messages": 2, "schedules": 0, **rest},
        {"key": "k1", "queue": "dead", "messages": 1, "schedules": 0, **rest},
        {"key": "k1", "queue": "q", "messages": 2, "schedules": 1, **rest},
    ]
    assert json.loads(cli("keys", "--json").out) == expected
    assert [line.split() for line in cli("keys").lines] == [
        ["KEY", "QUEUE", "MESSAGES", "SCHEDULES", "RESULTS", "UNDO", "OTHER"],
        *[[str(value) for value in each.values()] for each in expected],
    ]
    assert json.loads(cli("keys", "dead", "--json").out) == expected[1:2]
    rsmq.purge_queue("dead")
    assert "no encrypted bodies" in cli("keys", "dead").stderr


def test_keys_of_tasks_and_of_what_undo_restores_are_counted(cli, rsmq, server, ns, q):
    with Tasks.from_url(server.url, ns=ns, codec=CODEC) as tasks:

        @tasks.task(queue="t", track=True)
        def add(first: int, second: int) -> int:
            return first + second

        @tasks.task(queue="late", track=True)
        def show(total: int) -> None:
            raise NotImplementedError

        add.send(1, 2)
        tasks.run_all()
        add.send(3, 4)
        flow = tasks.flow()
        flow.add(show.signature(total=7), after=flow.add(add.signature(5, 6)))
        flow.send()
    rsmq.send_message(q, 1, codec=CODEC)
    rsmq.trash.purge_queue(q)

    rows = {each["queue"]: each for each in json.loads(cli("keys", "--json").out)}
    assert rows["t"]["messages"] == 2
    assert rows["t"]["results"] == 1
    assert rows[""]["undo"] == 1
    assert rows[""]["other"] >= 1  # the flow
    assert "q" not in rows
    only_t = json.loads(cli("keys", "t", "--json").out)
    assert only_t == [rows["t"]]


def test_more_messages_than_a_step(cli, rsmq, q):
    rsmq.send_messages(q, list(range(450)), codec=CODEC)
    rsmq.receive_messages(q, 120, vt=100)
    assert json.loads(cli("keys", "--json").out)[0]["messages"] == 450
