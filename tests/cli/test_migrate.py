"""``rsmq migrate`` and ``rsmq bridge``: arguments, output and errors."""

from __future__ import annotations

import json
import signal
import threading
import urllib.request

import pexpect
import pytest

from tests.ports import free_port
from tests.servers import Server as RedisServer
from tests.servers import redis_7
from tests.workers.polling import wait_until


@pytest.fixture
def work_list(raw, ns):
    """A list with three messages."""
    key = f"{ns}:work"
    raw.lpush(key, "a", "b", "c")
    return key


def bodies(raw, ns, queue):
    return [raw.hget(f"{ns}:{queue}:Q", id) for id in raw.zrange(f"{ns}:{queue}", 0, -1)]


def test_move_reports_as_text_and_as_json(cli, raw, ns, work_list):
    result = cli("migrate", "--from", f"list:{work_list}", "--to", "q", "--move")

    assert (result.code, result.stderr) == (0, "")
    assert result.lines[0] == f"list:{work_list} -> q: 3 ready"
    assert result.lines[1].startswith("  moved: 3 in 0.")
    assert result.lines[1].endswith(" s; the queue was created")
    assert bodies(raw, ns, "q") == [b"a", b"b", b"c"]
    raw.lpush(work_list, "d")
    answer = cli("migrate", "--from", f"list:{work_list}", "--to", "q", "--move", "--json").json
    (report,) = answer["queues"]
    assert answer["failed"] == {}
    assert (report["arrived"], report["verified"], report["created"]) == (1, True, False)
    assert (report["source"], report["queue"], report["way"]) == (f"list:{work_list}", "q", "move")


def test_dry_run_changes_nothing_and_needs_neither_copy_nor_move(cli, raw, ns, work_list):
    before = {key: raw.dump(key) for key in raw.keys(f"{ns}:*")}
    result = cli("migrate", "--from", f"list:{work_list}", "--to", "q", "--dry-run")

    assert (result.code, result.lines) == (
        0, [f"list:{work_list} -> q: 3 ready", "  would be moved: 3"],
    )  # fmt: skip
    assert {key: raw.dump(key) for key in raw.keys(f"{ns}:*")} == before


@pytest.mark.parametrize(
    ("arguments", "error_start"),
    [
        (
            ("--from", "list:w"),
            "Give --copy or --move; --dry-run, to see what there is; or --verify, to compare.",
        ),
        (
            ("--from", "kafka:w", "--move"),
            "'kafka:w' is not a queue of another system. These are: ",
        ),
        (("--from", "list", "--move"), "Name the list, as in list:work: "),
        (("--from", "rfq", "--to", "q", "--move"), "--to is for one queue: name it, as in rfq:N"),
        (("--from", "rfq:t", "--copy", "--in-flight"), "--in-flight is for --move: "),
        (("--from", "rfq:t", "--move", "--finish"), "--finish is for --copy."),
        (("--from", "rfq:a b", "--copy"), "Invalid qname format: 'a b'. "),
    ],
)
def test_wrong_usage_is_one_line(cli, arguments, error_start):
    result = cli("migrate", *arguments)

    assert (result.code, result.out) == (2, "")
    assert result.error.startswith(error_start)


@pytest.mark.parametrize("kind", ["rfq", "list", "rqueue", "rsmq"])
def test_missing_source_queue_is_an_error(cli, kind, ns):
    result = cli("migrate", "--from", f"{kind}:{ns}-no", "--from-ns", f"{ns}-old", "--move")

    assert (result.code, result.out) == (3, "")
    assert f"`rsmq migrate --from {kind} --dry-run`" in result.error


def test_queue_as_its_own_source_is_an_error(cli, rsmq):
    rsmq.create_queue("q")
    result = cli("migrate", "--from", "rsmq:q", "--move")

    assert (result.code, result.out) == (2, "")
    assert result.error.startswith("The queue 'q' is the source and the target. Give another ")


def test_migrate_all_queues_reports_those_that_fail(cli, raw, ns, rsmq):
    old = f"{ns}-old"
    for name in ("good", "odd name"):
        raw.hset(f"{old}:{name}:Q", mapping={"vt": 30, "delay": 0, "maxsize": 65536})
    result = cli("migrate", "--from", "rsmq", "--from-ns", old, "--copy")

    assert result.code == 1
    assert "rsmq:good -> good: no messages" in result.lines
    assert result.lines[-1].startswith("rsmq:odd name: Invalid qname format: 'odd name'. ")
    assert rsmq.list_queues() == ["good"]
    raw.unlink(*raw.keys(f"{old}:*"))


def test_unreachable_source_server_is_reported_soon(cli):
    url = f"redis://:secret@127.0.0.1:{free_port()}/0"
    result = cli("migrate", "--from", "rfq", "--from-url", url, "--copy")

    assert (result.code, result.out) == (4, "")
    assert "refused" in result.error
    assert "secret" not in result.error


def test_migrate_on_a_terminal_shows_progress(processes, raw, ns):
    raw.lpush(f"{ns}:work", *(f"m{n}" for n in range(3000)))
    terminal = processes.terminal("migrate", "--from", f"list:{ns}:work", "--to", "q", "--move")
    terminal.expect("moving")
    terminal.expect("3,000 of 3,000 messages")
    terminal.expect("  moved: 3,000 in ")
    terminal.expect(pexpect.EOF)

    assert raw.zcard(f"{ns}:q") == 3000


def test_interrupted_migration_continues_in_the_next_run(processes, raw, ns):
    raw.lpush(f"{ns}:work", *(f"m{n}" for n in range(30_000)))
    # An interruption in coverage's lock leaves it locked: the process hangs.
    processes.environment.pop("COVERAGE_PROCESS_CONFIG", None)
    arguments = ("migrate", "--from", f"list:{ns}:work", "--to", "q", "--move")
    process = processes.start(*arguments)
    wait_until(lambda: raw.zcard(f"{ns}:q"))
    process.send_signal(signal.SIGINT)
    _, stderr = process.communicate()
    between = raw.zcard(f"{ns}:q"), raw.llen(f"{ns}:work")
    code, _, _ = processes(*arguments)

    if between[1]:
        assert process.returncode == 130
        assert stderr.decode().splitlines()[-1] == (
            f"rsmq: Interrupted, within list:{ns}:work. Nothing is lost: the same command "
            "continues."
        )
    assert sum(between) == 30_000
    assert code == (0 if between[1] else 3)
    assert sorted(raw.hmget(f"{ns}:q:Q", raw.zrange(f"{ns}:q", 0, -1))) == sorted(
        f"m{n}".encode() for n in range(30_000)
    )


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_bridge_runs_until_a_signal(processes, raw, ns, work_list, number):
    process = processes.start("bridge", "--from", f"list:{work_list}", "--to", "q")
    wait_until(lambda: raw.zcard(f"{ns}:q") == 3)
    raw.lpush(work_list, "d")
    wait_until(lambda: raw.zcard(f"{ns}:q") == 4)
    process.send_signal(number)
    out, stderr = process.communicate()

    assert (process.returncode, out) == (0, b"4 messages moved\n")
    assert stderr.decode().splitlines() == [
        f"list:{work_list} -> q: Ctrl-C ends it",
        "3 messages moved",
    ]


def test_bridge_from_a_queue_to_a_list(processes, raw, rsmq, ns):
    rsmq.create_queue("q")
    rsmq.send_messages("q", ["a", "b"])
    process = processes.start("bridge", "--from", "q", "--to", f"list:{ns}:work", "--json")
    wait_until(lambda: raw.llen(f"{ns}:work") == 2)
    process.send_signal(signal.SIGTERM)
    out, stderr = process.communicate()

    assert (process.returncode, stderr) == (0, b"")
    assert json.loads(out) == {"from": "q", "to": f"list:{ns}:work", "moved": 2}
    assert raw.lrange(f"{ns}:work", 0, -1) == [b"b", b"a"]


@pytest.mark.parametrize(
    ("origin", "to", "error_start"),
    [
        (
            "q",
            "p",
            "'p' is nothing that messages can go to from a queue. These are list:KEY, rfq:TOPIC, ",
        ),
        ("q", "rqueue:p", "'rqueue:p' is nothing that messages can go to from a queue. "),
        (
            "rfq:t",
            "list:p",
            "'list:p' is not a queue. One of the two is a queue of this namespace.",
        ),
        ("rfq:", "q", "'rfq:' is not a queue of another system. "),
    ],
)
def test_bridge_needs_one_queue_of_the_namespace(cli, origin, to, error_start):
    result = cli("bridge", "--from", origin, "--to", to)

    assert (result.code, result.out) == (2, "")
    assert result.error.startswith(error_start)


def test_bridge_from_a_missing_queue_is_an_error(cli, ns):
    before = signal.getsignal(signal.SIGINT)

    assert cli("bridge", "--from", "q", "--to", f"list:{ns}:work").code == 3
    assert signal.getsignal(signal.SIGINT) is before


def test_a_bridge_to_sqs_refuses_another_url(cli):
    pytest.importorskip("boto3")
    result = cli("bridge", "--from", "sqs:q", "--to", "q", "--other-url", "redis://127.0.0.1:1")
    assert result.code == 2
    assert "'redis://127.0.0.1:1' is not an endpoint of SQS. Give a URL with http" in result.stderr


def test_verify_reports_and_has_an_exit_code(cli, raw, ns):
    raw.hset(f"rfq:{ns}:message:m1", "n", "1")
    raw.lpush(f"rfq:{ns}:backlog", "m1")
    arguments = ("migrate", "--from", f"rfq:{ns}", "--to", "q", "--verify")
    assert cli(*arguments).code == 3  # there is no queue
    cli("create", "q")
    missing = cli(*arguments)
    assert (missing.code, missing.lines[1:]) == (1, ["  1 NOT IN THE QUEUE", "  NOT VERIFIED"])
    cli("migrate", "--from", f"rfq:{ns}", "--to", "q", "--copy")
    verified = cli(*arguments)
    assert (verified.code, verified.lines) == (
        0,
        [f"rfq:{ns} -> q: 1 ready", "  1 in the queue, with the same bodies", "  verified"],
    )
    raw.unlink(f"rfq:{ns}:message:m1", f"rfq:{ns}:backlog")


@pytest.mark.parametrize("option", ["--copy", "--move", "--dry-run", "--in-flight"])
def test_verify_goes_alone(cli, option):
    result = cli("migrate", "--from", "rfq:x", "--verify", option)

    assert result.code == 2
    assert result.error.startswith("--verify changes nothing, so it goes without --copy and ")


@pytest.fixture
def own_server():
    """A server for one test."""
    started = RedisServer(redis_7())
    yield started
    started.stop()


def fill_memory_after(raw, key, number):
    """Let Redis refuse to store more as soon as a sorted set has so many members."""
    wait_until(lambda: raw.zcard(key) >= number)
    raw.config_set("maxmemory", 1)


@pytest.mark.parametrize("way", ["--copy", "--move"])
def test_migration_on_a_full_server_says_what_was_done(cli, own_server, raw, ns, way):
    """It stops half-way, in the second queue, and continues when there is memory again."""
    for topic, count in ((f"{ns}-a", 3), (f"{ns}-b", 4000)):
        for number in range(count):
            raw.hset(f"rfq:{topic}:message:m{number}", "n", number)
            raw.lpush(f"rfq:{topic}:backlog", f"m{number}")
    arguments = (
        "migrate", "--from", "rfq", way, "--from-url", f"redis://127.0.0.1:{port_of(raw)}/0",
        "--url", own_server.url,
    )  # fmt: skip
    with own_server.raw() as target_raw:
        filling = threading.Thread(target=fill_memory_after, args=(target_raw, f"{ns}:{ns}-b", 1))
        filling.start()
        result = cli(*arguments)
        filling.join()
        target_raw.config_set("maxmemory", 0)
        there = target_raw.zcard(f"{ns}:{ns}-b")

        assert 0 < there < 4000
        assert result.code == 5
        assert result.lines[0] == f"rfq:{ns}-a -> {ns}-a: 3 ready"
        assert "Nothing was changed" not in result.error
        verb = "copied" if way == "--copy" else "moved"
        assert f"{there:,} messages of rfq:{ns}-b {verb} before" in result.error
        if way == "--move":
            aside = raw.hlen(f"{ns}:x:aside:rfq:{ns}-b") - 1
            assert (
                f"{aside:,} message{'s' if aside > 1 else ''} set aside at the source."
                in result.error
            )
            assert aside > 0
        assert result.error.endswith("Run it again: it continues.")
        assert cli(*arguments).code == 0
        assert target_raw.zcard(f"{ns}:{ns}-b") == 4000
    for key in raw.scan_iter(f"rfq:{ns}-*"):
        raw.unlink(key)


def port_of(raw):
    return raw.connection_pool.connection_kwargs["port"]


def test_bridge_waits_for_servers_that_start_later(cli, raw, ns, work_list, own_server):
    own_server.kill()
    starting = threading.Timer(1.0, own_server.start)
    starting.start()
    result = cli(
        "bridge", "--from", f"list:{work_list}", "--to", "q", "--limit", "3",
        "--url", own_server.url,
        "--other-url", f"redis://127.0.0.1:{port_of(raw)}/0",
    )  # fmt: skip
    starting.join()
    with own_server.raw() as own_raw:
        assert bodies(own_raw, ns, "q") == [b"a", b"b", b"c"]

    assert (result.code, result.out) == (0, "3 messages moved\n")
    assert "Waiting for up to 60 seconds." in result.stderr


def test_bridge_waits_no_longer_than_it_should(cli, ns, work_list):
    url = f"redis://127.0.0.1:{free_port()}/0"
    arguments = ("bridge", "--from", f"list:{work_list}", "--to", "q", "--wait-for-redis")
    at_once = cli(*arguments, "0", "--url", url)
    assert (at_once.code, "Waiting" in at_once.stderr) == (4, False)
    later = cli(*arguments, "0.6", "--other-url", url)
    assert later.code == 4
    assert later.stderr.count("Waiting for up to 0.6 seconds.") == 1
    assert later.stderr.splitlines()[-1].startswith("rsmq: The other server: ")


def test_bridge_does_not_wait_for_a_right_password(cli, work_list, own_server):
    with own_server.raw() as own_raw:
        own_raw.config_set("requirepass", "right")
    url = own_server.url.replace("redis://", "redis://:wrong@")
    result = cli("bridge", "--from", f"list:{work_list}", "--to", "q", "--url", url)

    assert result.code == 5
    assert "Waiting" not in result.stderr


def test_bridge_serves_metrics(cli, raw, ns, work_list):
    port = free_port()
    texts = []
    label = f'{{source="list:{work_list}",target="q"}}'

    def scrape():
        def read():
            try:
                with urllib.request.urlopen(f"http://127.0.0.1:{port}/metrics") as reply:
                    texts.append(reply.read().decode())
            except OSError:
                return False
            return (
                f"rsmq_bridge_moved_total{label} 3.0" in texts[-1]
                and f"rsmq_bridge_waiting{label} 0.0" in texts[-1]
            )

        wait_until(read)
        raw.lpush(work_list, "d")

    scraping = threading.Thread(target=scrape)
    scraping.start()
    result = cli(
        "bridge", "--from", f"list:{work_list}", "--to", "q", "--limit", "4",
        "--metrics-port", f"{port}",
    )  # fmt: skip
    scraping.join()

    assert (result.code, result.out) == (0, "4 messages moved\n")
    assert f"rsmq_bridge_waiting{label} 0.0" in texts[-1]


@pytest.mark.parametrize(
    "arguments",
    [
        ("migrate", "--from", "rqueue", "--prefix", "{prefix}", "--move"),
        ("bridge", "--from", "rqueue:{q}", "--to", "{q}", "--prefix", "{prefix}", "--limit", "1"),
    ],
)
def test_prefix_of_rqueue(cli, raw, ns, arguments):
    prefix, queue = f"{ns}-app::", f"{ns}-q"
    raw.rpush(f"{prefix}queue::{{{queue}}}", "m")
    result = cli(*(each.format(prefix=prefix, q=queue) for each in arguments))

    assert result.code == 0
    assert bodies(raw, ns, queue) == [b"m"]
    assert not raw.exists(f"{prefix}queue::{{{queue}}}")


def test_periodic_messages_and_ids_of_rqueue_are_taken_over(cli, raw, ns):
    message = {"id": "nightly", "message": "m", "period": 60_000, "processAt": 1, "queuedTime": 0}
    raw.rpush(f"{ns}__rq::queue::{{{ns}}}", json.dumps(message))
    arguments = ("migrate", "--from", f"rqueue:{ns}", "--to", "q", "--prefix", f"{ns}__rq::")
    options = ("--schedules", "--unique-ids")
    line = "  schedule q.nightly, every 60 s: "
    try:
        refused = cli(*arguments, "--copy", *options)
        assert refused.code == 2
        assert "--schedules is for --move" in refused.stderr
        assert f"{line}would be added" in cli(*arguments, "--dry-run", *options).lines
        result = cli(*arguments, "--move", *options)
    finally:
        raw.unlink(f"{ns}__rq::queue::{{{ns}}}")

    assert (result.code, result.stderr) == (0, "")
    assert f"{line}added" in result.lines
    assert raw.hkeys(f"{ns}:q:x:unique") == [b"nightly"]
    assert raw.zrange(f"{ns}:x:due", 0, -1) == [b"q.nightly"]
