"""``rsmq top`` and ``rsmq tail``, while queues change."""

from __future__ import annotations

import contextlib
import json
import signal
import threading

import pexpect
import pytest

from rsmq import BYTES, RSMQ, QueueNotFound
from rsmq.cli.app.output import format_time, truncate
from rsmq.cli.commands.figures import FiguresReader, sort_figures, sum_figures
from rsmq.operations.following import QueueFollower
from tests.scale import WAIT_SECONDS
from tests.servers import Server, redis_7


@pytest.fixture
def q(rsmq):
    rsmq.create_queue("q")
    return "q"


# top.


def test_top_without_a_terminal_prints_the_table_once(cli, rsmq, q):
    rsmq.create_queue("dead")
    rsmq.set_dead_letter_policy(q, "dead", 5)
    rsmq.send_message("dead", "x")
    rsmq.send_messages(q, ["a", "b", "c"])
    rsmq.send_message(q, "later", delay=100)
    rsmq.receive_message(q)
    rsmq.pause_queue("dead")
    heading, dead, row, sums = cli("top").lines

    assert heading.split() == [
        "QUEUE", "VISIBLE", "IN", "FLIGHT", "RETRYING", "DELAYED", "DEAD", "SENT/S", "RECEIVED/S",
        "OLDEST", "DUE", "FOR",
    ]  # fmt: skip
    assert dead.split()[:3] == ["dead", "(paused)", "1"]
    assert row.split()[:8] == ["q", "2", "1", "0", "1", "1", "-", "-"]
    assert sums.split()[:7] == ["2", "queues", "3", "1", "0", "1", "1"]
    assert cli("top", q).lines[1].split()[0] == "q"
    assert cli("top", "none").code == 3
    assert cli("top", "--interval", 0).code == 2


def test_top_json_is_one_document_per_line(processes, rsmq, q):
    process = processes.start("top", "--json", "--interval", "0.05")
    first = json.loads(process.stdout.readline())
    rsmq.send_messages(q, ["a"] * 500)
    document = first
    while not document["queues"][0]["sent_per_second"]:
        document = json.loads(process.stdout.readline())
    process.send_signal(signal.SIGINT)

    assert process.wait(timeout=WAIT_SECONDS) == 130
    (queue,) = first["queues"]
    assert (queue["queue"], queue["visible"], queue["sent_per_second"]) == (q, 0, None)
    assert document["queues"][0]["visible"] == 500
    assert document["totals"]["visible"] == 500


@pytest.fixture
def namespaces(server, raw, ns):
    """The options of three namespaces: two with queues, and one that can't be read."""
    for name, number in (("a", 1), ("b", 2)):
        with RSMQ.from_url(server.url, ns=f"{ns}:{name}") as rsmq:
            rsmq.create_queue("dead")
            rsmq.create_queue("q")
            rsmq.set_dead_letter_policy("q", "dead", 3)
            rsmq.send_messages("q", ["x"] * number)
            rsmq.send_message("dead", "x")
    raw.set(f"{ns}:broken:QUEUES", "not a set")
    return [word for name in ("broken", "b", "a") for word in ("--ns", f"{ns}:{name}")]


def test_top_shows_several_namespaces_and_one_that_fails(cli, ns, namespaces):
    result = cli("top", *namespaces)
    heading, *rows, sums = result.lines

    assert heading.split()[:3] == ["NS", "QUEUE", "VISIBLE"]
    assert [row.split()[:3] for row in rows] == [
        [f"{ns}:a", "dead", "1"], [f"{ns}:b", "dead", "1"],
        [f"{ns}:a", "q", "1"], [f"{ns}:b", "q", "2"],
    ]  # fmt: skip
    assert sums.split()[:7] == ["4", "queues", "5", "0", "0", "0", "2"]
    assert result.code == 1
    assert f"{ns}:broken: left out." in result.stderr
    assert "WRONGTYPE" in result.stderr


def test_top_json_has_the_namespaces_and_those_that_fail(cli, ns, namespaces):
    result = cli("top", "--once", "--json", *namespaces)

    assert [(each["ns"], each["queue"], each["visible"]) for each in result.json["queues"]] == [
        (f"{ns}:a", "dead", 1), (f"{ns}:b", "dead", 1), (f"{ns}:a", "q", 1), (f"{ns}:b", "q", 2),
    ]  # fmt: skip
    assert (result.json["totals"]["visible"], result.json["totals"]["dead"]) == (5, 2)
    assert list(result.json["failed"]) == [f"{ns}:broken"]
    assert result.code == 1
    only = cli("top", "--once", "--json", *namespaces[:2])
    assert (only.code, only.raw) == (5, b"")


def test_top_on_a_terminal_names_a_namespace_that_fails(processes, ns, namespaces):
    process = processes.terminal("top", "--interval", "0.1", *namespaces)
    process.expect(f"{ns}:a +q +1 ")
    process.expect(f"{ns}:broken: .*WRONGTYPE")
    process.send("q")
    process.expect(pexpect.EOF)
    process.close()

    assert process.exitstatus == 0


def test_rates_are_computed_from_two_readings(rsmq, q, monkeypatch):
    clock = [100.0]
    monkeypatch.setattr("rsmq.figures.reader.time.monotonic", lambda: clock[0])
    reader = FiguresReader(rsmq, ())
    (first,) = reader.read()
    rsmq.send_messages(q, ["a"] * 10)
    rsmq.receive_messages(q, 4)
    clock[0] += 2
    (second,) = reader.read()
    rsmq.delete_queue(q)
    rsmq.create_queue(q)
    (third,) = reader.read()

    assert (first.sent_per_second, first.received_per_second) == (None, None)
    assert (second.sent_per_second, second.received_per_second) == (5.0, 2.0)
    assert third.sent_per_second is None


def test_messages_are_counted_every_few_seconds_and_not_in_long_queues(rsmq, q, monkeypatch):
    clock, walks = [100.0], []
    monkeypatch.setattr("rsmq.figures.reader.time.monotonic", lambda: clock[0])
    count_messages = rsmq.count_messages
    monkeypatch.setattr(
        rsmq, "count_messages", lambda name: walks.append(name) or count_messages(name)
    )
    reader = FiguresReader(rsmq, (q,))
    ids = rsmq.send_messages(q, ["a"] * 10_000)
    reader.read()
    reader.read()
    assert walks == [q]
    clock[0] += 6
    reader.read()
    assert walks == [q, q]
    rsmq.send_message(q, "more", delay=100)
    (read,) = reader.read()

    assert (walks, read.about) == ([q, q], True)
    assert (read.visible, read.in_flight, read.delayed) == (10_000, 0, 1)
    assert 0 <= read.due_seconds < 60
    assert read.oldest_seconds >= 0
    assert rsmq.get_message(q, ids[0]).receive_count == 0


def test_shared_dead_letter_queue_counts_once(rsmq):
    for name in ("a", "b", "dead"):
        rsmq.create_queue(name)
    for name in ("a", "b"):
        rsmq.set_dead_letter_policy(name, "dead", 3)
    rsmq.send_message("dead", "x")
    read = FiguresReader(rsmq, ()).read()

    assert [each.dead for each in read] == [1, 1, None]
    assert sum_figures(read)["dead"] == 1
    assert [each.queue for each in sort_figures(read, "visible")] == ["dead", "a", "b"]


def test_top_on_a_terminal_continues_after_a_restart_of_redis(processes, rsmq, q):
    server = Server(redis_7())
    processes.environment["RSMQ_URL"] = server.url
    try:
        with RSMQ.from_url(server.url, ns=rsmq.namespace.name) as second_client:
            second_client.create_queue("orders")
            process = processes.terminal("top", "--interval", "0.1")
            process.expect("orders .* 0 ")
            second_client.send_messages("orders", ["a", "b", "c"])
            process.expect("orders .* 3 ")
            server.kill()
            process.expect("Connection refused")
            server.start()
            second_client.create_queue("anew")
            process.expect("anew")
        process.send("sq")
        process.expect(pexpect.EOF)
        process.close()
    finally:
        server.stop()

    assert process.exitstatus == 0


def test_top_with_more_queues_than_lines_shows_totals_keys_and_errors(processes, rsmq):
    server = Server(redis_7())
    processes.environment["RSMQ_URL"] = server.url
    try:
        with RSMQ.from_url(server.url, ns=rsmq.namespace.name) as second_client:
            for number in range(60):
                second_client.create_queue(f"q{number}")
            process = processes.terminal("top", "--interval", "0.1")  # it has 30 lines
            process.expect("and 35 queues more")
            process.expect("60 queues .* 0 ")
            process.expect("q quits, s sorts")
            server.kill()
            process.expect("Connection refused")
            process.kill(signal.SIGTERM)
            process.expect_exact("\x1b[?1049l")  # leaves the other screen
            process.expect(pexpect.EOF)
            process.close()
    finally:
        server.stop()

    assert (process.exitstatus, process.signalstatus) == (128 + signal.SIGTERM, None)


# tail.


@contextlib.contextmanager
def run_tail(processes, *arguments):
    """Run tail, and yield a function that reads its next messages."""
    process = processes.start("tail", *arguments, "--json", "--interval", "0.02")

    def read_messages(number):
        return [json.loads(process.stdout.readline()) for _ in range(number)]

    yield read_messages
    process.send_signal(signal.SIGINT)
    out, stderr = process.communicate()
    assert (process.returncode, out, stderr) == (130, b"", b"")


def test_tail_shows_new_messages_and_changes_nothing(processes, rsmq, raw, ns, q):
    rsmq.create_queue("other")
    old = rsmq.send_messages(q, ["old", "older"])
    with run_tail(processes, q, "other", "-n", "1") as read_messages:
        assert [each["body"] for each in read_messages(1)] == ["older"]
        new = rsmq.send_messages(q, ["a", b"\xff".decode("latin-1")])
        assert [each["id"] for each in read_messages(2)] == new
        rsmq.send_message(q, "later", delay=100)
        assert [(each["body"], each["state"]) for each in read_messages(1)] == [
            ("later", "delayed")
        ]
        rsmq.send_message(q, "first", front=True)
        assert [each["body"] for each in read_messages(1)] == ["first"]
        rsmq.receive_messages(q, 2)
        rsmq.move_messages(q, "other", [old[0]])
        assert [(each["queue"], each["id"]) for each in read_messages(1)] == [("other", old[0])]
        before = raw.hgetall(f"{ns}:q:Q"), raw.zrange(f"{ns}:q", 0, -1, withscores=True)
        (id,) = rsmq.send_messages("other", ["end"])
        assert read_messages(1)[0]["id"] == id
        assert before == (raw.hgetall(f"{ns}:q:Q"), raw.zrange(f"{ns}:q", 0, -1, withscores=True))


def test_tail_from_start_shows_every_message_once(processes, rsmq, q):
    rsmq.send_messages(q, [str(number) for number in range(2500)])
    rsmq.receive_messages(q, 10)
    rsmq.send_message(q, "later", delay=100)
    with run_tail(processes, q, "--from-start") as read_messages:
        assert {each["body"] for each in read_messages(2501)} == {*map(str, range(2500)), "later"}
        rsmq.send_message(q, "new")
        assert read_messages(1)[0]["body"] == "new"


def test_tail_misses_no_message_while_others_send_and_receive(processes, server, rsmq, q):
    rsmq.send_message(q, "begin")
    with run_tail(processes, q, "-n", "1") as read_messages:
        read_messages(1)
        sent = []

        def send(part):
            with RSMQ.from_url(server.url, ns=rsmq.namespace.name) as client:
                for number in range(60):
                    bodies = [f"{part}-{number}-{each}" for each in range(10)]
                    sent.extend(client.send_messages(q, bodies, delay=number % 3, front=False))
                    client.receive_messages(q, 5, vt=0.01)

        senders = [threading.Thread(target=send, args=(part,)) for part in range(3)]
        for sender in senders:
            sender.start()
        found = [each["id"] for each in read_messages(1800)]
        for sender in senders:
            sender.join()
        rsmq.send_message(q, "end")
        assert read_messages(1)[0]["body"] == "end"

    assert sorted(found) == sorted(sent)


def poll_ids(rsmq, follower):
    found = []
    rsmq.run_steps(follower.poll(lambda messages: found.extend(each.id for each in messages)))
    return found


def test_tail_shows_messages_that_appear_after_their_sent_time(rsmq, raw, ns, q):
    follower = QueueFollower(rsmq.namespace.queue(q), BYTES)
    rsmq.run_steps(follower.start())
    (id,) = rsmq.send_messages(q, ["first"])
    score = raw.zscore(f"{ns}:q", id)
    assert poll_ids(rsmq, follower) == [id]
    (later,) = rsmq.send_messages(q, ["second"])
    assert poll_ids(rsmq, follower) == [later]
    # Its sent time is before that of the second, but it is stored only now.
    late = id[:10] + "A" * 22
    raw.hset(f"{ns}:q:Q", late, "late")
    raw.zadd(f"{ns}:q", {late: score})

    assert poll_ids(rsmq, follower) == [late]
    assert poll_ids(rsmq, follower) == []


@pytest.mark.parametrize("kind", ["server", "old_server", "memory"])
def test_new_messages_are_found_on_every_server(request, ns, kind):
    url = "memory://" if kind == "memory" else request.getfixturevalue(kind).url
    with RSMQ.from_url(url, ns=ns) as rsmq:
        rsmq.create_queue("q")
        rsmq.send_messages("q", ["old"] * 3)
        follower = QueueFollower(rsmq.namespace.queue("q"), BYTES)
        rsmq.run_steps(follower.start())
        front = rsmq.send_messages("q", ["front"] * 1500, front=True)
        back = rsmq.send_messages("q", ["back"] * 1500, delay=100)
        rsmq.receive_messages("q", 700)
        shown_ids = poll_ids(rsmq, follower)

        # Up to three were sent before, in the millisecond of the start.
        assert 3000 <= len(shown_ids) <= 3003
        assert {*front, *back} <= set(shown_ids)
        assert poll_ids(rsmq, follower) == []
        rsmq.delete_queue("q")
        with pytest.raises(QueueNotFound):
            poll_ids(rsmq, follower)


def test_tail_on_a_terminal_is_one_line_per_message(processes, rsmq, q):
    rsmq.send_message(q, "begin")
    process = processes.terminal("tail", q, "-n", "1")
    process.expect_exact("visible    begin")
    ids = rsmq.send_messages(q, [b"a\nb", b"\xff"], codec=BYTES)
    process.expect_exact(f'Z  {ids[0]}  visible    "a\\nb"\r\n')
    process.expect_exact(f'Z  {ids[1]}  visible    b"\\xff"\r\n')
    process.sendintr()
    process.expect(pexpect.EOF)
    process.close()

    assert process.exitstatus == 130


def test_tail_continues_after_a_restart_of_redis(processes, rsmq):
    server = Server(redis_7(), "--appendonly", "yes", "--appendfsync", "always")
    processes.environment["RSMQ_URL"] = server.url
    try:
        with RSMQ.from_url(server.url, ns=rsmq.namespace.name) as second_client:
            second_client.create_queue("q")
            second_client.send_message("q", "first")
            process = processes.start("tail", "q", "-n", 1)
            assert process.stdout.readline().endswith(b"first\n")
            server.kill()
            assert b"Connection refused" in process.stderr.readline()
            server.start()
            second_client.send_message("q", "second")
            assert process.stdout.readline().endswith(b"second\n")
    finally:
        server.stop()


@pytest.mark.parametrize(
    "arguments", [("none",), ("q", "-n", "0"), ("q", "-n", "1", "--from-start")]
)
def test_tail_ends_with_an_error_for_wrong_arguments(cli, q, arguments):
    result = cli("tail", *arguments)

    assert result.code == (3 if arguments == ("none",) else 2)
    assert result.out == ""


LONG = "a" * 200 + "z"
WIDE = "\u8cbb" * 100


def test_bodies_are_truncated_on_a_terminal(processes, rsmq, q):
    rsmq.send_messages(q, [LONG, WIDE, "short"])
    process = processes.terminal("peek", q)
    process.expect(pexpect.EOF)
    lines = process.before.splitlines()

    # The columns before the body fill nearly a row, so each line may have two rows.
    assert (len(lines), len(lines[1])) == (4, 200)
    assert lines[1].endswith("aaa…")
    assert lines[2].endswith("\u8cbb…")
    assert 2 * lines[2].count("\u8cbb") <= 200 - lines[0].index("BODY") - 1
    assert lines[3].endswith("  short")
    followed = processes.terminal("tail", q, "-n", "3")
    followed.expect_exact("aaa…\r\n")
    followed.expect_exact("  short\r\n")
    assert "aaaaaz" not in followed.before  # the end of the long body; ids are random


@pytest.mark.parametrize("arguments", [["peek"], ["peek", "--raw"], ["peek", "--json"]])
def test_bodies_are_complete_without_a_terminal(cli, processes, rsmq, q, arguments):
    rsmq.send_message(q, LONG)

    assert LONG in cli(*arguments, q).out
    if len(arguments) > 1:
        process = processes.terminal(*arguments, q)
        process.expect(pexpect.EOF)
        assert LONG in process.before


def test_truncate_leaves_columns_for_the_body_on_narrow_terminals():
    assert truncate("head  " + "b" * 50, 10, keep=6) == "head  " + "b" * 23 + "…"
    assert truncate("head  " + "b" * 24, 10, keep=6) == "head  " + "b" * 24
    assert truncate("head  " + "b" * 50, 56, keep=6) == "head  " + "b" * 50
    assert truncate("head  " + "b" * 51, 56, keep=6) == "head  " + "b" * 49 + "…"
    assert truncate("e\u0301" * 30, 30, keep=0) == "e\u0301" * 30


@pytest.mark.parametrize(
    ("ms", "text"),
    [(1e308, "1e+308 ms"), (-1e300, "-1e+300 ms"), (1e17, "100000000000000000 ms"), (None, "-")],
)
def test_time_that_is_not_a_date_has_few_digits(ms, text):
    assert format_time(ms) == text
