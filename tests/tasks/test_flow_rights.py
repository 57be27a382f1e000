"""The rights that users of Redis need for flows, as docs/security.md lists them."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from redis.exceptions import ResponseError

from rsmq import RSMQ
from rsmq.jobs.flows.threads import FlowHandle
from rsmq.tasks import RESULT, Tasks, chain
from tests.contract.conftest import ADMIN, CONSUMER, WAITING
from tests.scale import WAIT_SECONDS

SECURITY = (Path(__file__).parents[2] / "docs" / "security.md").read_text()
ROW = re.search(r"^\| producer \| (.*) \|$", SECURITY, re.MULTILINE)[1].replace("\\|", "|")
#: The rights of a producer without options, and what the row adds for a flow.
BASE = re.findall(r"(\+[\w|]+)", ROW.partition(";")[0])
TRACKED = re.search(r"for `track=True` also `(.*?)`", ROW)[1].split()
ADDED = [*TRACKED, *re.search(r"for a \[flow\]\(flows.md\) also `(.*?)`", ROW)[1].split()]


@pytest.fixture
def raw(server):
    """A client of redis-py: the tests of this folder have another fixture of the name."""
    with server.raw() as raw:
        yield raw


@pytest.fixture
def log_in(server, raw, ns, rsmq):
    """Make a user with rights to the two keys of the queues a and b and more; return its client."""
    clients = []

    def make(rules):
        of_queues = [
            each.replace("orders", queue) if each.startswith("~") else each
            for each in ["~rsmq:orders", "~rsmq:orders:Q", *rules]
            for queue in "ab"
        ]
        keys = [each.replace("~rsmq:", f"~{ns}:") for each in of_queues]
        raw.execute_command("ACL", "SETUSER", "flows", "reset", "on", ">secret", *keys)
        raw.acl_log_reset()
        url = server.url.replace("://", "://flows:secret@")
        clients.append(RSMQ.from_url(url, ns=ns))
        return clients[-1]

    for queue in "ab":
        rsmq.create_queue(queue)
    yield make
    for client in clients:
        client.close()
    raw.acl_deluser("flows")


def declare(client):
    """Declare two tasks, and return them with a flow that runs one after the other."""
    tasks = Tasks(client)

    @tasks.task(queue="a", name="first", track=True)
    def first() -> int:
        return 1

    @tasks.task(queue="b", name="second", track=True)
    def second(number: int) -> int:
        return number

    return tasks, chain(first.signature(), second.signature(RESULT))


def send(client):
    """Send the flow; return its id."""
    return declare(client)[1].send().id


def dump(raw, ns):
    return {key: raw.dump(key) for key in raw.keys(f"{ns}:*")}


def test_the_documented_rights_are_those_of_the_scripts():
    assert ADDED == [
        "~rsmq:orders:x:job:*", "+hget", "+hdel", "+pexpire", "~rsmq:x:flow:*", "~rsmq:x:due",
        "+zremrangebyrank",
    ]  # fmt: skip


def test_the_documented_rights_are_sufficient_to_send_a_flow(log_in, raw, ns):
    id = send(log_in([*BASE, *ADDED]))
    assert {each["object"] for each in raw.acl_log()} <= {"exists"}  # for Redis Cluster
    assert raw.hmget(f"{ns}:x:flow:{id}", "state", "sent", "pending") == [b"running", b"1", b"1"]
    assert raw.zrange(f"{ns}:x:due", 0, -1) == [f"flow:{id}".encode()]
    assert raw.zrange(f"{ns}:x:flow:all", 0, -1) == [id.encode()]
    (message,) = raw.zrange(f"{ns}:a", 0, -1)
    assert raw.hget(f"{ns}:a:x:job:{message.decode()}", "flow") == f"{ns}:x:flow:{id} 0".encode()


WRITING = ["+zadd", "+hset", "+hincrby"]


@pytest.mark.parametrize("right", [*WRITING, *ADDED])
def test_a_flow_that_is_sent_without_one_of_these_rights_is_not_stored_in_part(
    log_in, raw, ns, right
):
    before = dump(raw, ns)
    for more in ([], ["+exists", "+zrem"]):  # with these, a refusal came after the first change
        rules = [*(each for each in [*BASE, *ADDED] if each != right), *more]
        with pytest.raises(ResponseError, match="all rights"):
            send(log_in(rules))
        assert dump(raw, ns) == before


def test_a_consumer_of_these_keys_reads_and_cancels_a_flow(log_in, rsmq, raw, ns):
    keys = [each for each in ADDED if each.startswith("~")]
    client = log_in([*CONSUMER.split(), "+pexpire", *keys])
    popped = FlowHandle(client, send(rsmq))
    assert [each.state.value for each in popped.nodes()] == ["waiting", "pending"]
    rsmq.pop_message("a")  # without an outcome
    assert popped.status().state == "failed"
    cancelled = FlowHandle(client, send(rsmq))
    assert cancelled.cancel().value == "cancelled"
    for flow, state in ((popped, b"failed"), (cancelled, b"cancelled")):
        assert raw.hget(f"{ns}:x:flow:{flow.id}", "state") == state
        assert 0 < raw.pttl(f"{ns}:x:flow:{flow.id}") <= 86_400_000
    assert raw.zcard(f"{ns}:x:due") == 0
    assert {each["object"] for each in raw.acl_log()} <= {"exists"}


@pytest.mark.parametrize(
    ("realtime", "more", "state"),
    [
        (False, [], "succeeded"),
        (True, [], "failed"),
        (True, ["&rsmq:rt:*", "+publish"], "succeeded"),
    ],
)
def test_workers_send_nodes_with_their_documented_rights(
    server, log_in, raw, ns, realtime, more, state
):
    (row,) = re.findall(r"^\| workers, .*?\| (.*) \|$", SECURITY, re.MULTILINE)
    channel = [each.replace("rsmq:", f"{ns}:") for each in more]
    rules = [*ADMIN.split(), *WAITING.split(), *re.findall(r"\+\w+", row), *channel]
    client = log_in(["~rsmq:*", *rules])
    with RSMQ.from_url(server.url, ns=ns, realtime=realtime) as sender:
        flow = FlowHandle(sender, send(sender))
        declare(client)[0].worker().run(until_empty=True, timeout=WAIT_SECONDS)
        assert flow.status().state == state
        error = flow.nodes()[1].error
    assert (error is None) == (state == "succeeded")
    refused = {"publish"} if state == "failed" else set()
    assert {each["object"] for each in raw.acl_log()} - {"exists", "sscan"} == refused
    assert raw.zcard(f"{ns}:b") == 0
