"""``rsmq top`` and ``rsmq tail``: what is seen of queues while they change."""

from __future__ import annotations

import contextlib
import json
import signal
import threading

import pexpect
import pytest

from rsmq import BYTES, RSMQ, QueueNotFound
from rsmq.cli.app.output import shortened, shown_time
from rsmq.cli.commands.figures import Reader, in_order, totals
from rsmq.cli.commands.tail import _Followed
from tests.servers import Server, redis_7


@pytest.fixture
def q(rsmq):
    rsmq.create_queue("q")
    return "q"


# top.


def test_top_shows_how_queues_stand_once_where_there_is_no_terminal(cli, rsmq, q):
    rsmq.create_queue("dead")
    rsmq.set_dead_letter_policy(q, "dead", 5)
    rsmq.send_message("dead", "x")
    rsmq.send_messages(q, ["a", "b", "c"])
    rsmq.send_message(q, "later", delay=100)
    rsmq.receive_message(q)
    rsmq.pause_queue("dead")
    heading, dead, row, sums = cli("top").lines

    assert heading.split() == [
        "QUEUE", "VISIBLE", "IN", "FLIGHT", "DELAYED", "DEAD", "SENT/S", "RECEIVED/S", "OLDEST",
    ]  # fmt: skip
    assert dead.split()[:3] == ["dead", "(paused)", "1"]
    assert row.split()[:7] == ["q", "2", "1", "1", "1", "-", "-"]
    assert sums.split()[:6] == ["2", "queues", "3", "1", "1", "1"]
    assert cli("top", q).lines[1].split()[0] == "q"
    assert cli("top", "none").code == 3
    assert cli("top", "--interval", 0).code == 2


def test_top_for_a_program_is_one_document_a_line(processes, rsmq, q):
    process = processes.start("top", "--json", "--interval", "0.05")
    first = json.loads(process.stdout.readline())
    rsmq.send_messages(q, ["a"] * 500)
    told = first
    while not told["queues"][0]["sent_per_second"]:
        told = json.loads(process.stdout.readline())
    process.send_signal(signal.SIGINT)

    assert process.wait(timeout=20) == 130
    (queue,) = first["queues"]
    assert (queue["queue"], queue["visible"], queue["sent_per_second"]) == (q, 0, None)
    assert told["queues"][0]["visible"] == 500
    assert told["totals"]["visible"] == 500


def test_rates_are_those_between_two_readings(rsmq, q, monkeypatch):
    clock = [100.0]
    monkeypatch.setattr("rsmq.gauges.time.monotonic", lambda: clock[0])
    reader = Reader(rsmq, ())
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


def test_a_walk_is_not_made_again_at_once_and_long_queues_have_none(rsmq, q, monkeypatch):
    clock, walks = [100.0], []
    monkeypatch.setattr("rsmq.gauges.time.monotonic", lambda: clock[0])
    counted = rsmq.count_messages
    monkeypatch.setattr(rsmq, "count_messages", lambda name: walks.append(name) or counted(name))
    reader = Reader(rsmq, (q,))
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
    assert (read.visible, read.in_flight, read.delayed) == (10_000, 1, 0)
    assert read.oldest_seconds >= 0
    assert rsmq.get_message(q, ids[0]).receive_count == 0


def test_a_dead_letter_queue_of_several_counts_once(rsmq):
    for name in ("a", "b", "dead"):
        rsmq.create_queue(name)
    for name in ("a", "b"):
        rsmq.set_dead_letter_policy(name, "dead", 3)
    rsmq.send_message("dead", "x")
    read = Reader(rsmq, ()).read()

    assert [each.dead for each in read] == [1, 1, None]
    assert totals(read)["dead"] == 1
    assert [each.queue for each in in_order(read, "visible")] == ["dead", "a", "b"]


def test_top_draws_on_a_terminal_and_outlives_redis(processes, rsmq, q):
    server = Server(redis_7())
    processes.environment["RSMQ_URL"] = server.url
    try:
        with RSMQ.from_url(server.url, ns=rsmq.namespace.name) as there:
            there.create_queue("orders")
            process = processes.terminal("top", "--interval", "0.1")
            process.expect("orders .* 0 ")
            there.send_messages("orders", ["a", "b", "c"])
            process.expect("orders .* 3 ")
            server.kill()
            process.expect("Connection refused")
            server.start()
            there.create_queue("anew")
            process.expect("anew")
        process.send("s")
        process.send("q")
        process.expect(pexpect.EOF)
        process.close()
    finally:
        server.stop()

    assert process.exitstatus == 0


# tail.


@contextlib.contextmanager
def tailed(processes, *arguments):
    """The messages that tail shows, by a function that takes the next ones."""
    process = processes.start("tail", *arguments, "--json", "--interval", "0.02")

    def shown(number):
        return [json.loads(process.stdout.readline()) for _ in range(number)]

    yield shown
    process.send_signal(signal.SIGINT)
    out, said = process.communicate(timeout=20)
    assert (process.returncode, out, said) == (130, b"", b"")


def test_tail_shows_what_comes_and_changes_nothing(processes, rsmq, raw, ns, q):
    rsmq.create_queue("other")
    old = rsmq.send_messages(q, ["old", "older"])
    with tailed(processes, q, "other", "-n", "1") as shown:
        assert [each["body"] for each in shown(1)] == ["older"]
        new = rsmq.send_messages(q, ["a", b"\xff".decode("latin-1")])
        assert [each["id"] for each in shown(2)] == new
        rsmq.send_message(q, "later", delay=100)
        assert [(each["body"], each["state"]) for each in shown(1)] == [("later", "delayed")]
        rsmq.send_message(q, "first", front=True)
        assert [each["body"] for each in shown(1)] == ["first"]
        rsmq.receive_messages(q, 2)
        rsmq.move_messages(q, "other", [old[0]])
        assert [(each["queue"], each["id"]) for each in shown(1)] == [("other", old[0])]
        before = raw.hgetall(f"{ns}:q:Q"), raw.zrange(f"{ns}:q", 0, -1, withscores=True)
        (id,) = rsmq.send_messages("other", ["end"])
        assert shown(1)[0]["id"] == id
        assert before == (raw.hgetall(f"{ns}:q:Q"), raw.zrange(f"{ns}:q", 0, -1, withscores=True))


def test_tail_shows_all_from_the_start_once(processes, rsmq, q):
    rsmq.send_messages(q, [str(number) for number in range(2500)])
    rsmq.receive_messages(q, 10)
    rsmq.send_message(q, "later", delay=100)
    with tailed(processes, q, "--from-start") as shown:
        assert {each["body"] for each in shown(2501)} == {*map(str, range(2500)), "later"}
        rsmq.send_message(q, "new")
        assert shown(1)[0]["body"] == "new"


def test_tail_misses_nothing_that_stays_while_others_send_and_receive(processes, server, rsmq, q):
    rsmq.send_message(q, "begin")
    with tailed(processes, q, "-n", "1") as shown:
        shown(1)
        sent = []

        def send(part):
            with RSMQ.from_url(server.url, ns=rsmq.namespace.name) as mine:
                for number in range(60):
                    bodies = [f"{part}-{number}-{each}" for each in range(10)]
                    sent.extend(mine.send_messages(q, bodies, delay=number % 3, front=False))
                    mine.receive_messages(q, 5, vt=0.01)

        senders = [threading.Thread(target=send, args=(part,)) for part in range(3)]
        for sender in senders:
            sender.start()
        found = [each["id"] for each in shown(1800)]
        for sender in senders:
            sender.join()
        rsmq.send_message(q, "end")
        assert shown(1)[0]["body"] == "end"

    assert sorted(found) == sorted(sent)


def test_tail_sees_what_a_slow_sender_had_begun_before(rsmq, raw, ns, q):
    followed = _Followed(rsmq, q)
    followed.begin(None, all_of_them=False)
    (id,) = rsmq.send_messages(q, ["first"])
    score = raw.zscore(f"{ns}:q", id)
    assert [each.id for each in followed.look()] == [id]
    (later,) = rsmq.send_messages(q, ["second"])
    assert [each.id for each in followed.look()] == [later]
    # Its time was taken before that of the second, and it comes only now.
    late = id[:10] + "A" * 22
    raw.hset(f"{ns}:q:Q", late, "late")
    raw.zadd(f"{ns}:q", {late: score})

    assert [each.id for each in followed.look()] == [late]
    assert list(followed.look()) == []


@pytest.mark.parametrize("kind", ["server", "old_server", "memory"])
def test_new_messages_are_found_on_every_server(request, ns, kind):
    url = "memory://" if kind == "memory" else request.getfixturevalue(kind).url
    with RSMQ.from_url(url, ns=ns) as rsmq:
        rsmq.create_queue("q")
        rsmq.send_messages("q", ["old"] * 3)
        followed = _Followed(rsmq, "q")
        followed.begin(1, all_of_them=False)
        front = rsmq.send_messages("q", ["front"] * 1500, front=True)
        back = rsmq.send_messages("q", ["back"] * 1500, delay=100)
        rsmq.receive_messages("q", 700)
        shown = [each.id for each in followed.look()]

        # And the last one of before; those, too, that were sent in the very millisecond it began.
        assert 3001 <= len(shown) <= 3003
        assert {*front, *back} < set(shown)
        assert list(followed.look()) == []
        rsmq.delete_queue("q")
        with pytest.raises(QueueNotFound):
            next(followed.look())


def test_tail_in_a_terminal_is_a_line_a_message(processes, rsmq, q):
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


def test_tail_goes_on_when_redis_is_back(processes, rsmq):
    server = Server(redis_7())
    processes.environment["RSMQ_URL"] = server.url
    try:
        with RSMQ.from_url(server.url, ns=rsmq.namespace.name) as there:
            there.create_queue("q")
            there.send_message("q", "first")
            process = processes.start("tail", "q", "-n", 1)
            assert process.stdout.readline().endswith(b"first\n")
            server.kill()
            assert b"Connection refused" in process.stderr.readline()
            server.start()
            there.create_queue("q", exist_ok=True)
            there.send_message("q", "second")
            assert process.stdout.readline().endswith(b"second\n")
    finally:
        server.stop()


@pytest.mark.parametrize(
    "arguments", [("none",), ("q", "-n", "0"), ("q", "-n", "1", "--from-start")]
)
def test_tail_says_what_is_wrong_and_ends(cli, q, arguments):
    ended = cli("tail", *arguments)

    assert ended.code == (3 if arguments == ("none",) else 2)
    assert ended.out == ""


LONG = "a" * 200 + "z"
WIDE = "\u8cbb" * 100


def test_on_a_terminal_bodies_are_cut_to_its_width(processes, rsmq, q):
    rsmq.send_messages(q, [LONG, WIDE, "short"])
    process = processes.terminal("peek", q)
    process.expect(pexpect.EOF)
    lines = process.before.splitlines()

    # The head takes nearly a row, so that there are two.
    assert (len(lines), len(lines[1])) == (4, 200)
    assert lines[1].endswith("aaa…")
    assert lines[2].endswith("\u8cbb…")
    assert 2 * lines[2].count("\u8cbb") <= 200 - lines[0].index("BODY") - 1
    assert lines[3].endswith("  short")
    followed = processes.terminal("tail", q, "-n", "3")
    followed.expect_exact("aaa…\r\n")
    followed.expect_exact("  short\r\n")
    assert "az" not in followed.before


@pytest.mark.parametrize("arguments", [["peek"], ["peek", "--raw"], ["peek", "--json"]])
def test_elsewhere_bodies_are_whole(cli, processes, rsmq, q, arguments):
    rsmq.send_message(q, LONG)

    assert LONG in cli(*arguments, q).out
    if len(arguments) > 1:
        process = processes.terminal(*arguments, q)
        process.expect(pexpect.EOF)
        assert LONG in process.before


def test_a_body_has_some_columns_on_a_narrow_terminal_too():
    assert shortened("head  " + "b" * 50, 10, behind=6) == "head  " + "b" * 23 + "…"
    assert shortened("head  " + "b" * 24, 10, behind=6) == "head  " + "b" * 24
    assert shortened("head  " + "b" * 50, 56, behind=6) == "head  " + "b" * 50
    assert shortened("head  " + "b" * 51, 56, behind=6) == "head  " + "b" * 49 + "…"
    assert shortened("e\u0301" * 30, 30, behind=0) == "e\u0301" * 30


@pytest.mark.parametrize(
    ("ms", "told"),
    [(1e308, "1e+308 ms"), (-1e300, "-1e+300 ms"), (1e17, "100000000000000000 ms"), (None, "-")],
)
def test_an_absurd_time_has_few_digits(ms, told):
    assert shown_time(ms) == told
