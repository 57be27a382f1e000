"""``rsmq migrate`` and ``rsmq bridge``: what they ask for, tell and answer."""

from __future__ import annotations

import json
import signal

import pexpect
import pytest

from tests.servers import free_port
from tests.workers.until import until


@pytest.fixture
def work(raw, ns):
    """A list with three messages."""
    key = f"{ns}:work"
    raw.lpush(key, "a", "b", "c")
    return key


def bodies(raw, ns, queue):
    return [raw.hget(f"{ns}:{queue}:Q", id) for id in raw.zrange(f"{ns}:{queue}", 0, -1)]


def test_a_move_is_told_to_a_person_and_to_a_program(cli, raw, ns, work):
    ended = cli("migrate", "--from", f"list:{work}", "--to", "q", "--move")

    assert (ended.code, ended.stderr) == (0, "")
    assert ended.lines[0] == f"list:{work} -> q: 3 ready"
    assert ended.lines[1].startswith("  moved: 3 in 0.")
    assert ended.lines[1].endswith(" s; the queue was created")
    assert bodies(raw, ns, "q") == [b"a", b"b", b"c"]
    raw.lpush(work, "d")
    told = cli("migrate", "--from", f"list:{work}", "--to", "q", "--move", "--json").json
    (report,) = told["queues"]
    assert told["failed"] == {}
    assert (report["arrived"], report["verified"], report["created"]) == (1, True, False)
    assert (report["source"], report["queue"], report["way"]) == (f"list:{work}", "q", "move")


def test_a_dry_run_changes_nothing_and_needs_no_way(cli, raw, ns, work):
    before = {key: raw.dump(key) for key in raw.keys(f"{ns}:*")}
    ended = cli("migrate", "--from", f"list:{work}", "--to", "q", "--dry-run")

    assert (ended.code, ended.lines) == (
        0, [f"list:{work} -> q: 3 ready", "  would be moved: 3"],
    )  # fmt: skip
    assert {key: raw.dump(key) for key in raw.keys(f"{ns}:*")} == before


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        (("--from", "list:w"), "Say --copy or --move; or --dry-run, to see what there is."),
        (("--from", "kafka:w", "--move"), "'kafka:w' is no queue of another system. These are: "),
        (("--from", "list", "--move"), "Name the list, as in list:work: "),
        (("--from", "rfq", "--to", "q", "--move"), "--to is for one queue: name it, as in rfq:N"),
        (("--from", "rfq:t", "--copy", "--in-flight"), "--in-flight is for --move: "),
        (("--from", "rfq:t", "--move", "--finish"), "--finish is for --copy."),
        (("--from", "rfq:a b", "--copy"), "Invalid qname format. "),
    ],
)
def test_wrong_usage_is_one_line(cli, arguments, told):
    ended = cli("migrate", *arguments)

    assert (ended.code, ended.out) == (2, "")
    assert ended.error.startswith(told)


@pytest.mark.parametrize("kind", ["rfq", "list", "rqueue", "rsmq"])
def test_a_queue_that_is_not_there_is_told(cli, kind, ns):
    ended = cli("migrate", "--from", f"{kind}:{ns}-no", "--from-ns", f"{ns}-old", "--move")

    assert (ended.code, ended.out) == (3, "")
    assert f"`rsmq migrate --from {kind} --dry-run`" in ended.error


def test_a_queue_is_not_its_own_source(cli, rsmq):
    rsmq.create_queue("q")
    ended = cli("migrate", "--from", "rsmq:q", "--move")

    assert (ended.code, ended.out) == (2, "")
    assert ended.error.startswith("The queue 'q' is the source and the target. Give another ")


def test_all_queues_of_a_system_go_and_those_that_cannot_are_told(cli, raw, ns, rsmq):
    old = f"{ns}-old"
    for name in ("good", "odd name"):
        raw.hset(f"{old}:{name}:Q", mapping={"vt": 30, "delay": 0, "maxsize": 65536})
    ended = cli("migrate", "--from", "rsmq", "--from-ns", old, "--copy")

    assert ended.code == 1
    assert "rsmq:good -> good: no messages" in ended.lines
    assert ended.lines[-1].startswith("rsmq:odd name: Invalid qname format. ")
    assert rsmq.list_queues() == ["good"]
    raw.unlink(*raw.keys(f"{old}:*"))


def test_a_server_that_cannot_be_reached_is_told_soon(cli):
    url = f"redis://:secret@127.0.0.1:{free_port()}/0"
    ended = cli("migrate", "--from", "rfq", "--from-url", url, "--copy")

    assert (ended.code, ended.out) == (4, "")
    assert "refused" in ended.error
    assert "secret" not in ended.error


def test_a_person_sees_how_far_it_is(processes, raw, ns):
    raw.lpush(f"{ns}:work", *(f"m{n}" for n in range(3000)))
    terminal = processes.terminal("migrate", "--from", f"list:{ns}:work", "--to", "q", "--move")
    terminal.expect("moving")
    terminal.expect("3,000 of 3,000 messages")
    terminal.expect("  moved: 3,000 in ")
    terminal.expect(pexpect.EOF)

    assert raw.zcard(f"{ns}:q") == 3000


def test_a_migration_that_is_interrupted_goes_on_when_it_is_run_again(processes, raw, ns):
    raw.lpush(f"{ns}:work", *(f"m{n}" for n in range(30_000)))
    arguments = ("migrate", "--from", f"list:{ns}:work", "--to", "q", "--move")
    process = processes.start(*arguments)
    until(lambda: raw.zcard(f"{ns}:q"))
    process.send_signal(signal.SIGINT)
    _, said = process.communicate(timeout=20)
    between = raw.zcard(f"{ns}:q"), raw.llen(f"{ns}:work")
    code, _, _ = processes(*arguments)

    if between[1]:
        assert process.returncode == 130
        assert said.decode().splitlines()[-1] == (
            f"rsmq: Interrupted, within list:{ns}:work. Nothing is lost: the same command goes on."
        )
    assert sum(between) == 30_000
    assert code == (0 if between[1] else 3)
    assert sorted(raw.hmget(f"{ns}:q:Q", raw.zrange(f"{ns}:q", 0, -1))) == sorted(
        f"m{n}".encode() for n in range(30_000)
    )


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_bridge_goes_on_until_it_is_told_to_stop(processes, raw, ns, work, number):
    process = processes.start("bridge", "--from", f"list:{work}", "--to", "q")
    until(lambda: raw.zcard(f"{ns}:q") == 3)
    raw.lpush(work, "d")
    until(lambda: raw.zcard(f"{ns}:q") == 4)
    process.send_signal(number)
    out, said = process.communicate(timeout=20)

    assert (process.returncode, out) == (0, b"4 messages moved\n")
    assert said.decode().splitlines() == [
        f"list:{work} -> q: Ctrl-C ends it",
        "3 messages moved",
    ]


def test_a_bridge_the_other_way_round(processes, raw, rsmq, ns):
    rsmq.create_queue("q")
    rsmq.send_messages("q", ["a", "b"])
    process = processes.start("bridge", "--from", "q", "--to", f"list:{ns}:work", "--json")
    until(lambda: raw.llen(f"{ns}:work") == 2)
    process.send_signal(signal.SIGTERM)
    out, said = process.communicate(timeout=20)

    assert (process.returncode, said) == (0, b"")
    assert json.loads(out) == {"from": "q", "to": f"list:{ns}:work", "moved": 2}
    assert raw.lrange(f"{ns}:work", 0, -1) == [b"b", b"a"]


@pytest.mark.parametrize(
    ("origin", "to", "told"),
    [
        ("q", "p", "'p' is nothing that messages can go to from a queue. These are list:KEY and "),
        ("q", "rqueue:p", "'rqueue:p' is nothing that messages can go to from a queue. "),
        ("rfq:t", "list:p", "'list:p' is no queue. One of the two is a queue of this namespace."),
        ("rfq:", "q", "'rfq:' is no queue of another system. "),
    ],
)
def test_a_bridge_has_a_queue_at_one_end(cli, origin, to, told):
    ended = cli("bridge", "--from", origin, "--to", to)

    assert (ended.code, ended.out) == (2, "")
    assert ended.error.startswith(told)


def test_a_bridge_from_a_queue_that_is_missing_is_an_error(cli, ns):
    before = signal.getsignal(signal.SIGINT)

    assert cli("bridge", "--from", "q", "--to", f"list:{ns}:work").code == 3
    assert signal.getsignal(signal.SIGINT) is before
