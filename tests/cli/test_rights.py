"""
Each command as a user of Redis that has the rights that docs/security.md lists for it, and no more.

The list is compared with the commands that the server has run for the call, in scripts too.
"""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from obstore.store import MemoryStore

from rsmq import JSON, RSMQ
from rsmq.body_stores import ObjectStore, sweep_bodies
from rsmq.body_stores.sweep import claim_sweep
from rsmq.cli.app import command_table
from rsmq.codecs import Stored
from rsmq.jobs.flows.operations import FlowNode, FlowPlan, send_flow
from rsmq.webhooks.breaker import Breaker, TargetState
from rsmq.webhooks.shared_breaker import encode
from rsmq.webhooks.targets import target_field
from rsmq.wire.ids import make_flow_id
from rsmq.worker import Worker
from tests.cli.test_exporter import scrape
from tests.migrate.rqueue_states import Rqueue
from tests.ports import free_port
from tests.program import Program
from tests.scale import WAIT_SECONDS
from tests.servers import Server, redis_7
from tests.workers.polling import wait_until

SECURITY = (Path(__file__).parents[2] / "docs" / "security.md").read_text()
_URL = "https://example.org/hooks"

#: The calls of each entry of the table of commands. A name in braces is one of ``_prepare``.
LISTED = {
    "alerts": [
        "alerts add ops https://example.org/", "alerts list", "alerts test ops",
        "alerts remove ops", "alerts silence all --for 1h --by a --why b", "alerts silences",
        "alerts unsilence all",
    ],
    "bridge --from list": ["bridge --from list:{ns}:work --to p --limit 1"],
    "bridge --from rfq": ["bridge --from rfq:{ns}-t --to p --limit 1"],
    "bridge --from rqueue": ["bridge --from rqueue:{ns}-r --to p --limit 1"],
    "bridge --from rsmq": ["bridge --from rsmq:q-dead --to p --limit 1"],
    "bridge --to list": ["bridge --from p --to list:{ns}:work --limit 1"],
    "bridge --to rfq": ["bridge --from p --to rfq:{ns}-t --limit 1"],
    "bridge --to stream": ["bridge --from p --to stream:{ns}:events --limit 1"],
    "delete-queue --undo": ["delete-queue q --yes --undo"],
    "export": ["export -o {folder}/out.jsonl"],
    "keys": ["keys"],
    "history": ["history", "history q"],
    "tasks": ["tasks", "tasks q"],
    "mark": ["mark v2 --by ci"],
    "migrate --from list": [
        "migrate --from list:{ns}:work --to new --dry-run",
        "migrate --from list:{ns}:work --to new --copy",
        "migrate --from list:{ns}:work --to new --verify",
        "migrate --from list:{ns}:work --to new --copy --finish",
        "migrate --from list:{ns}:more --to more-jobs --move",
        "migrate --from list:{ns}:last --to last-jobs --move --in-flight --processing {ns}:held*",
    ],
    "migrate --from rfq": [
        "migrate --from rfq --dry-run",
        "migrate --from rfq:{ns}-t --to new --copy",
        "migrate --from rfq:{ns}-t --to new --verify",
        "migrate --from rfq:{ns}-t --to new --copy --finish",
        "migrate --from rfq:{ns}-u --to moved --move --in-flight",
    ],
    "migrate --from rqueue": [
        "migrate --from rqueue --dry-run",
        "migrate --from rqueue:{ns}-r --to new --copy",
        "migrate --from rqueue:{ns}-r --to new --verify",
        "migrate --from rqueue:{ns}-r --to new --copy --finish",
        "migrate --from rqueue:{ns}-s --to moved --move --in-flight",
    ],
    "migrate --from rsmq": [
        "migrate --from rsmq:q --to new --dry-run",
        "migrate --from rsmq:q --to new --copy",
        "migrate --from rsmq:q --to new --verify",
        "migrate --from rsmq:q --to new --copy --finish",
        "migrate --from rsmq:p --to moved --move --in-flight",
    ],
    "purge --undo": ["purge q --yes --undo"],
    "push --list": ["push --list"],
    "push --remove": ["push q --remove"],
    "push --resume": ["push q --resume"],
    "rfq version": ["rfq version"],
    "subscribers": [
        "subscribers add q crm https://example.org/", "subscribers list", "subscribers remove q crm"
    ],
    "sweep-bodies": ["sweep-bodies --codec tests.cli.stored_codec:codec"] * 2,
    "undo": ["undo", "undo {undo}"],
    "why": ["why q", "why q-dead"],
    "why ID": [
        "why q {waiting}", "why q {tracked}", "why q {held_back}", "why p {unique}",
        "why q-dead {dead}",
    ],
    "workers": ["workers"],
}  # fmt: skip

#: The calls that need the rights of an administrator.
UNLISTED = {
    "attributes": ["attributes q", "attributes q --vt 5"],
    "cancel": ["cancel q {tracked}"],
    "create": ["create new"],
    "dead-letter": [
        "dead-letter q", "dead-letter q q-dead --max-receives 3", "dead-letter q --remove"
    ],
    "dead-letters": ["dead-letters q-dead"],
    "delete": ["delete q {waiting}"],
    "delete-queue": ["delete-queue q --yes"],
    "flows": ["flows"],
    "flow": ["flow {flow}", "flow {flow} --cancel"],
    "get": ["get q {waiting}"],
    "import": ["import {folder}/in.jsonl"],
    "job": ["job q {tracked}"],
    "jobs": ["jobs q"],
    "limit": ["limit q", "limit q --max-running 5 --rate 50/s", "limit q --remove"],
    "list": ["list"],
    "move": ["move q --to p {waiting} {grouped}"],
    "pause": ["pause q"],
    "peek": ["peek q"],
    "pop": ["pop p"],
    "publish": ["publish q p --body m"],
    "purge": ["purge q --yes"],
    "receive": ["receive p"],
    "recover": ["receive p", "recover p --idle 0"],
    "redrive": ["redrive q-dead"],
    "release": ["release p --all"],
    "resume": ["resume q"],
    "rfq": ["rfq list-topics", "rfq info", "rfq harvest -t p"],
    "schedule": [
        "schedule add s q m --cron @daily", "schedule list", "schedule pause s",
        "schedule resume s", "schedule run s", "schedule remove s",
    ],
    "scheduler": ["scheduler --once"],
    "send": ["send q m"],
    "stats": ["stats q"],
    "sweep": ["dead-letter p q-dead --max-receives 1", "sweep p"],
    "sweep-expired": ["sweep-expired q"],
    "sweep-groups": ["sweep-groups q"],
    "top": ["top --once"],
    "visibility": ["visibility q {waiting} --vt 5"],
}  # fmt: skip

#: The commands that run until they are stopped, and are tested as processes.
LASTING = {"exporter", "tail"}
#: The commands that run without Redis, or that have a row of their own in the table of parts.
OTHERS = {"completion", "doctor", "pipeline", "push", "web", "web-user", "worker"}

#: The commands without which the program works too, as the text below the tables says.
OPTIONAL = {"exists", "sscan"}
#: The commands that every user may call to log in.
_OF_CONNECTIONS = {"auth", "hello", "select", "client|setinfo", "client|setname"}


def _rules(text):
    return set(re.findall(r"\+([\w\\|]+)", text.replace("\\|", "|")))


def _rows():
    """Return the rules of each row of both tables, by the text of its first column."""
    return {
        name: rules
        for names, rules in re.findall(r"^\| (.*?) \| (.*\+.*) \|$", SECURITY, re.MULTILINE)
        for name in (re.findall(r"`(.+?)`", names) if names.startswith("`") else [names])
    }


def _administrator():
    rows = _rows()
    producer = rows["producer"].partition(";")[0]
    return _rules(producer + rows["consumer"] + rows["administrator, on `~rsmq:*`"])


def _prepare(rsmq, raw, ns, cli, folder):
    """Make queues with messages of each kind, and sources of other systems."""
    for name in ("q", "q-dead", "p", "gone"):
        rsmq.create_queue(name)
    worker = Worker(rsmq)

    @worker.listener("q", track=True, max_retries=0, dead_letter_queue="q-dead")
    def handle(body):
        raise ValueError(body)

    rsmq.send_messages("q", ["a", "b"], track=True)
    worker.run(until_empty=True, timeout=WAIT_SECONDS)
    values = {
        "waiting": rsmq.send_message("q", "w"),
        "tracked": rsmq.send_message("q", "t", track=True),
        "grouped": rsmq.send_message("q", "g", group="a"),
        "held_back": rsmq.send_message("q", "g", group="a"),
        "unique": rsmq.send_message("p", "u", unique_key="u"),
        "dead": rsmq.peek_messages("q-dead")[0].id,
        "folder": folder,
        "ns": ns,
    }
    rsmq.send_message("q", "l", expires=600, max_retries=4)
    rsmq.set_queue_limits("q", max_running=9, rate="9/s")
    rsmq.send_message("p", "d", dedup_id="d")
    rsmq.receive_message("p", vt=600)
    rsmq.send_messages("p", ["m", "n"])
    rsmq.send_message("gone", "d", dedup_id="d")
    values["flow"] = make_flow_id(None)
    nodes = [FlowNode("p", b"first", 5, (), ()), FlowNode("q", b"second", 6, (0,), ())]
    rsmq.run(send_flow(rsmq.namespace, FlowPlan(values["flow"], nodes), realtime=False))
    for name in ("q", "gone"):
        gone = cli("delete-queue", name, "--yes", "--undo", "--json").json
        values["undo"] = gone[0]["undo"]
        if name == "q":
            assert cli("undo", values["undo"]).code == 0
    assert cli("subscribers", "add", "p", "crm", _URL).code == 0
    state = encode("q", _URL, Breaker(TargetState.GONE))
    raw.hset(f"{ns}:x:push", target_field("q", _URL), state)
    assert cli("export", "p", "-o", folder / "in.jsonl").code == 0
    for key in ("work", "more", "last", "held-1"):
        raw.rpush(f"{ns}:{key}", "a", "b")
    for topic in ("t", "u"):
        for id, place in (("1", "backlog"), ("2", "backlog"), ("3", "nextlog")):
            raw.hset(f"rfq:{ns}-{topic}:message:{id}", "tile", id)
            raw.lpush(f"rfq:{ns}-{topic}:{place}", id)
    rqueue = Rqueue(raw)
    for queue in (f"{ns}-r", f"{ns}-s"):
        rqueue.configure(queue)
        for body in ("a", "b", "c"):
            rqueue.enqueue(queue, body)
        rqueue.receive(queue)
    return values


def _log_in(server, raw, ns, commands):
    """Make a user who may run the commands only, and return its URL."""
    raw.execute_command(
        "ACL", "SETUSER", "operator", "reset", "on", ">secret", f"~*{ns}*", "~__rq::*", "-@all",
        *(f"+{each}" for each in commands),
    )  # fmt: skip
    raw.acl_log_reset()
    return server.url.replace("://", "://operator:secret@")


def _refused(raw):
    return {each["object"] for each in raw.acl_log()}


def _called(raw):
    """Return the commands that the server has run since its counts were reset."""
    stats = raw.info("commandstats")
    return {name.removeprefix("cmdstat_") for name, each in stats.items() if each["calls"]}


@pytest.fixture(scope="module")
def server():
    """A server of its own: the commands that it has run are counted, and its data is removed."""
    server = Server(redis_7())
    yield server
    server.stop()


@pytest.mark.parametrize("name", [*LISTED, *UNLISTED])
def test_the_documented_rights_are_sufficient_and_needed(
    monkeypatch, server, raw, ns, rsmq, cli, tmp_path, name
):
    raw.flushall()  # Rqueue and rfq have no namespace
    values = _prepare(rsmq, raw, ns, cli, tmp_path)
    administrator, listed = _administrator(), _rules(_rows().get(name, ""))
    url = _log_in(server, raw, ns, administrator | listed)
    user = Program(monkeypatch, url, ns)
    raw.config_resetstat()
    try:
        for line in LISTED.get(name) or UNLISTED[name]:
            result = user(*(each.format(**values) for each in line.split()))
            assert result.code == 0, (line, result.out, result.stderr)
    finally:
        called = _called(raw) - _OF_CONNECTIONS
        refused = _refused(raw)
        raw.acl_deluser("operator")
        raw.flushall()

    assert refused <= OPTIONAL
    assert called - administrator - {"acl|log", "config|resetstat"} == listed


@pytest.mark.parametrize("line", ["doctor", "dead-letters q"])
def test_documented_rights_are_sufficient_for_queues_that_are_read_in_steps(
    monkeypatch, server, raw, ns, rsmq, line
):
    raw.flushall()
    rsmq.create_queue("q")
    rsmq.send_messages("q", ["m"] * 2500)
    rights = _administrator() | _rules(_rows().get(f"{line}, on `~rsmq:*`", ""))
    user = Program(monkeypatch, _log_in(server, raw, ns, rights), ns)
    try:
        result = user(*line.split())
        assert result.code in {0, 1}  # the server of the tests has faults
        assert "Redis:" not in result.stderr
        assert "2,500" in result.out or line != "doctor"
    finally:
        raw.acl_deluser("operator")
        raw.flushall()


def test_documented_rights_are_sufficient_for_commands_that_last(processes, server, raw, ns, rsmq):
    rsmq.create_queue("q")
    rsmq.send_message("q", "m")
    administrator, port = _administrator(), free_port()
    processes.environment["RSMQ_URL"] = _log_in(server, raw, ns, administrator)
    try:
        assert b"m" in processes.start("tail", "q", "-n", 1).stdout.readline()
        assert _refused(raw) <= OPTIONAL
        _log_in(server, raw, ns, administrator | _rules(_rows()["exporter"]))
        processes.start("exporter", "--port", port, "--interval", "1s")
        wait_until(lambda: f'rsmq_queue_unfinished{{ns="{ns}",queue="q"}} 1.0' in scrape(port))
        assert _refused(raw) <= OPTIONAL
    finally:
        raw.acl_deluser("operator")


def test_every_command_is_tested_and_every_row_has_a_test():
    tested = {line.split()[0] for lines in (LISTED | UNLISTED).values() for line in lines}
    assert tested | LASTING | OTHERS == command_table.COMMANDS.keys()
    of_parts = {name for name in _rows() if "rsmq:" in name or name in {"producer", "consumer"}}
    assert _rows().keys() - of_parts == LISTED.keys() | {"exporter"}


def test_the_rights_of_sweep_bodies_are_enough_for_a_worker_that_deletes(server, raw, ns, rsmq):
    raw.flushall()
    store = ObjectStore(MemoryStore())
    rsmq.create_queue("q")
    id = rsmq.send_message("q", ["x" * 50], codec=Stored(JSON, store=store, above=20))
    rsmq.delete_message("q", id)
    rights = _administrator() | _rules(_rows()["sweep-bodies"]) | {"set"}
    notes = f"{ns}:x:unused_bodies"
    with RSMQ.from_url(_log_in(server, raw, ns, rights), ns=ns) as queues:
        assert claim_sweep(queues)
        assert sweep_bodies(queues, store).unused == 1
        for name in raw.hkeys(notes):
            raw.hset(notes, name, 5)
        assert sweep_bodies(queues, store).deleted == 1
    raw.acl_deluser("operator")
    raw.flushall()
