"""The commands on a set of cells, in this process."""

from __future__ import annotations

import json
import signal

import pytest

from rsmq._sync import membership
from rsmq.wire.cells import cell_of_key
from rsmq.worker.operations import (
    Identity,
    ReceiveRequest,
    Settlement,
    receive_for_worker,
    register_worker,
    settle_messages,
)
from tests.cli.test_exporter import scrape
from tests.ports import free_port
from tests.sets import SetOfCells, set_of_cells
from tests.workers.polling import wait_until

#: The commands that work on one namespace only.
REFUSED = [
    ["export", "q"],
    ["import", "/dev/null"],
    ["migrate", "--copy", "--from", "rfq:q"],
    ["bridge", "--from", "rfq:q", "--to", "q"],
    ["rfq", "info"],
]


class CellsUnderTest(SetOfCells):
    """A set of three cells on one server, with the program for it."""

    def __init__(self, cli, url, raw, ns):
        super().__init__(url, raw, ns)
        self.cli = cli

    def __call__(self, *arguments, **options):
        return self.cli("--cells", "3", *arguments, **options)

    def with_cell_2_down(self, *arguments):
        """Run the program while cell 2 can't be reached."""
        urls = f"{self.url} {self.url} redis://127.0.0.1:{free_port()}"
        return self("--url", urls, *arguments)


@pytest.fixture
def cells(cli, raw, ns, server):
    with set_of_cells(CellsUnderTest, cli, server.url, raw, ns) as cells:
        yield cells


@pytest.fixture
def queue(cells):
    cells.client.create_queue("q")
    return "q"


# Queues.


def test_create_and_list_and_delete_act_on_all_cells(cells):
    assert cells("create", "q", "--vt", "7").out == "q: created\n"
    assert cells.field("vt") == [b"7", b"7", b"7"]
    assert cells("create", "q").code == 3
    assert cells("create", "q", "--exist-ok").out == "q: exists\n"
    assert cells("list", "--json").json == ["q"]
    assert cells("delete-queue", "q", "--yes").out == "q: deleted\n"
    assert [key for key in cells.all_keys() if not key.endswith(b":x:cell")] == []


def test_attributes_and_stats_are_sums(cells, queue):
    cells.send()
    cells.client.cells[1].receive_message("q")

    assert cells("attributes", "q", "--vt", "9", "--json").json["messages"] == 6
    assert cells.field("vt") == [b"9", b"9", b"9"]
    (found,) = cells("stats", "--json").json
    assert (found["visible"], found["in_flight"], found["total_sent"]) == (5, 1, 6)


def test_pause_resume_and_purge_act_on_all_cells(cells, queue):
    cells.send()

    assert cells("pause", "q").out == "q: paused\n"
    assert None not in cells.field("x:paused")
    assert cells("resume", "q*").out == "q: resumed\n"
    assert cells.field("x:paused") == [None, None, None]
    assert cells("purge", "q", "--yes").out == "q: 6 removed\n"
    assert cells.counts() == [0, 0, 0]


# Messages.


def test_send_with_a_key_goes_to_its_cell(cells, queue):
    target = cell_of_key("customer 7", 3)
    sent = cells("send", "q", "a", "b", "--key", "customer 7")

    assert [line.partition("-")[0] for line in sent.lines] == [str(target)] * 2
    assert cells.counts() == [2 if cell == target else 0 for cell in range(3)]
    ids = cells("publish", "q", "--body", "c", "--key", "customer 7", "--json").json
    assert ids["q"].startswith(f"{target}-")


def test_send_without_a_key_goes_to_the_cells_in_turn(cells, queue):
    cells("send", "q", "--file", "-", stdin=b"a\nb\n")

    assert sorted(cells.counts()) == [0, 0, 2]


def test_key_without_cells_is_refused(cli, rsmq):
    rsmq.create_queue("q")
    sent = cli("send", "q", "a", "--key", "x")

    assert sent.code == 2
    assert sent.error.startswith("--key chooses a cell of a set: add --cells, or leave out --key.")
    assert rsmq.get_queue_attributes("q").messages == 0


def test_receive_and_delete_by_ids_with_and_without_the_cell(cells, queue):
    ids = cells.send()
    received = cells("receive", "q", "-n", "6", "--json").json
    assert sorted(each["id"] for each in received) == sorted(ids)
    missing = "1-" + "a" * 32
    bare = ids[0].partition("-")[2]
    deleted = cells("delete", "q", bare, ids[2], missing, "--json")

    assert deleted.code == 1
    assert sorted(deleted.json["deleted"]) == sorted([ids[0], ids[2]])
    assert deleted.json["missing"] == [missing]
    assert cells.counts() == [1, 1, 2]


def test_bare_ids_are_not_reported_as_missing(cells, queue):
    bare = cells.send()[3].partition("-")[2]

    assert cells("visibility", "q", bare, "--vt", "60").code == 0
    assert cells("get", "q", bare).code == 0
    assert cells("release", "q", bare).code == 0
    assert cells("delete", "q", bare).code == 0
    assert cells.counts() == [2, 1, 2]


def test_pop_takes_messages_of_several_cells(cells, queue):
    cells.send()
    popped = cells("pop", "q", "-n", "5", "--json")

    assert popped.code == 0
    assert len(popped.json) == 5
    assert sum(cells.counts()) == 1
    assert cells("pop", "q", "--wait", "1").code == 0
    assert cells("pop", "q", "--wait", "10ms").code == 1


def test_peek_and_get_show_which_worker_has_a_message_in_a_cell(cells, queue):
    ids = [cells.client.send_message(queue, "x") for _ in "ab"]
    cell, stored = ids[0].split("-", 1)
    home = cells.client.cells[(int(cell) + 1) % 3]
    client = cells.client.cells[int(cell)]
    home.run(register_worker(Identity(home.namespace, "w", "t"), {}, ttl=60, dead=""))
    request = ReceiveRequest(client.namespace.queue(queue), 60_000, 1, 0, 10)
    [result] = client.run(receive_for_worker(Identity(client.namespace, "w", "t"), [request], 10))
    assert stored in result.ids
    in_flight = {f"{cell}-{each}" for each in result.ids}

    found = {each["id"]: each["held_by"] for each in cells("peek", queue, "--json").json}
    assert found == {id: "w" if id in in_flight else None for id in ids}
    assert [each["held_by"] for each in cells("get", queue, ids[0], "--json").json] == ["w"]


def test_messages_that_wait_for_a_retry_are_counted_in_all_cells(cells, queue):
    ids = []
    for client in cells.client.cells[:2]:
        worker, keys = Identity(client.namespace, "w", "t"), client.namespace.queue(queue)
        client.send_message(queue, "x")
        request = ReceiveRequest(keys, 60_000, 1, 0, 1)
        [result] = client.run(receive_for_worker(worker, [request], 1))
        group = Settlement(keys, "retry", 1, [(result.ids[0], 90_000, "E: e")])
        assert client.run(settle_messages(worker, [group])) == b"1"
        ids += result.ids
    (fields,) = cells("stats", queue, "--json").json

    assert (fields["in_flight"], fields["retrying"]) == (0, 2)
    found = cells.client.peek_messages(queue, state="retrying")
    assert [(each.id, each.last_error) for each in found] == [
        (f"{cell}-{id}", "E: e") for cell, id in enumerate(ids)
    ]


def test_peek_get_recover_and_release(cells, queue):
    ids = cells.send()

    assert [each["id"] for each in cells("peek", "q", "--json").json] == ids
    assert cells("get", "q", ids[5], "--raw").out == "2.1\n"
    cells.client.receive_messages("q", 6)
    assert len(cells("recover", "q", "--idle", "0", "-n", "4", "--json").json) == 4
    assert cells("release", "q", "--all", "--json").json == {"queue": "q", "released": 6}


def test_move_sweep_and_redrive(cells, queue):
    cells.client.create_queue("dead")
    ids = cells.send()
    assert cells("move", "q", ids[0], ids[4], "--to", "dead").lines == [ids[0], ids[4]]
    assert cells.counts("dead") == [1, 0, 1]
    assert cells("dead-letter", "q", "dead", "--max-receives", "1").code == 0
    assert cells.field("x:dlq") == [b"dead"] * 3
    cells.client.receive_messages("q", 4, vt=0)
    swept = cells("sweep", "q")
    assert sorted(swept.lines) == sorted({*ids} - {ids[0], ids[4]})
    assert swept.stderr == "4 messages moved: 1 in cell 0, 2 in cell 1, 1 in cell 2\n"
    redriven = cells("redrive", "dead", "--to", "q", "-n", "5", "--json")
    assert len(redriven.json) == 5
    assert cells.counts() == [2, 2, 1]


def test_option_url_is_repeated_for_each_cell(cells, queue):
    urls = [each for _ in range(3) for each in ("--url", cells.url)]

    assert cells(*urls, "list").lines == ["q"]
    assert cells(*urls[:4], "list").code == 2


# Errors.


@pytest.mark.parametrize("arguments", REFUSED, ids=lambda each: each[0])
def test_commands_for_one_namespace_are_refused(cells, queue, arguments):
    before = cells.all_keys()
    refused = cells(*arguments)

    assert refused.code == 2
    assert refused.error == (
        "This command works on one namespace, and not on a set of cells. Each cell is an ordinary "
        f"namespace: without --cells, name one by --ns '{cells.names[0]}'. rsmq cells lists them. "
        "Nothing was changed."
    )
    assert cells.all_keys() == before


def test_namespace_of_a_cell_works_without_cells(cells, queue, monkeypatch):
    cells.send()
    monkeypatch.setenv("RSMQ_CELLS", "3")

    assert cells.cli("stats", "--json").json[0]["visible"] == 6
    assert cells.cli("--ns", cells.names[1], "stats", "--json").json[0]["visible"] == 2
    assert cells.cli("--ns", cells.names[1], "--cells", "3", "stats").code == 2
    monkeypatch.setenv("RSMQ_NS", cells.names[1])
    assert cells.cli("stats", "--json").json[0]["visible"] == 2


@pytest.mark.parametrize(
    ("arguments", "error"),
    [
        (["--cells", "0"], "--cells must be between 1 and 1000, not 0."),
        (["--cells", "4"], "The namespace '{"),
        (["--cells", "x"], "Invalid value for '--cells': 'x' is not a valid integer."),
        (
            ["--url", "redis://a", "--url", "redis://b", "--cells", "3"],
            "Invalid url format: '2 for",
        ),
        (["--url", "redis://a redis://b"], "2 URLs, but no number of cells."),
        (["--url", "redis://a", "--url", "redis://b"], "2 URLs, but no number of cells."),
    ],
)
def test_wrong_options_are_refused(cells, queue, arguments, error):
    before = cells.all_keys()
    refused = cells.cli("list", *arguments)

    assert refused.code == 2
    assert refused.error.startswith(error)
    assert cells.all_keys() == before


def test_wrong_variable_is_refused(cells, monkeypatch):
    monkeypatch.setenv("RSMQ_CELLS", "many")

    assert cells.cli("list").error == (
        "RSMQ_CELLS is not a whole number: 'many'. It is the number of cells, as in RSMQ_CELLS=12. "
        "Without cells, unset it."
    )


def test_profile_has_urls_and_number_of_cells(cells, queue, monkeypatch, tmp_path):
    path = tmp_path / "config.toml"
    path.write_text(
        f'[profiles.spread]\nurl = "{cells.url} {cells.url} {cells.url}"\nns = "{cells.ns}"\n'
        f'cells = 3\n[profiles.plain]\nns = "other"\n'
    )
    monkeypatch.setenv("RSMQ_CONFIG", str(path))
    monkeypatch.setenv("RSMQ_CELLS", "9")

    assert cells.cli("--profile", "spread", "list").lines == ["q"]
    assert cells.cli("--profile", "plain", "list").lines == []
    path.write_text('[profiles.spread]\ncells = "3"\n')
    assert cells.cli("list").error.endswith("profiles.spread.cells must be a whole number")


# A cell that is down.


def test_command_acts_on_the_other_cells_and_names_the_failed_one(cells, queue):
    cells.send()
    ended = cells.with_cell_2_down("purge", "q", "--yes")

    assert (ended.code, ended.out) == (1, "q: 4 removed\n")
    assert ended.error.startswith("Not done in cell 2 of 3. Cell 2: ConnectionError: ")
    assert ended.error.endswith(
        " The output is that of the other cells. Repeat the command when the cause is gone; "
        "rsmq cells shows all."
    )
    assert cells.counts() == [0, 0, 2]


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        (["list", "--json"], ["q"]),
        (["pause", "q", "--json"], [{"queue": "q", "paused": True}]),
        (["create", "new", "--json"], {"queue": "new", "created": True}),
    ],
)
def test_results_of_the_other_cells_are_written(cells, queue, arguments, expected):
    ended = cells.with_cell_2_down(*arguments)

    assert (ended.code, ended.json) == (1, expected)
    assert '"error": "partlyDone", "message": "Not done in cell 2 of 3"' in ended.stderr


def test_messages_of_a_failed_cell_are_not_called_missing(cells, queue):
    ids = cells.send()
    missing = "0-" + "a" * 32
    bare = ids[5].partition("-")[2]
    ended = cells.with_cell_2_down("delete", "q", ids[0], ids[4], missing, bare, "--json")

    assert ended.code == 1
    assert ended.json == {"deleted": [ids[0]], "missing": [missing]}
    assert cells.counts() == [1, 2, 2]
    peeked = cells.with_cell_2_down("peek", "q", "--json")
    assert [each["id"] for each in peeked.json] == ids[1:4]


def test_queue_that_some_cells_lack_is_reported_with_the_remedy(cells, queue):
    cells.client.cells[1].delete_queue("q")
    ended = cells("stats", "q")

    assert ended.code == 1
    assert ended.error.startswith("Not done in cell 1 of 3. Cell 1: QueueNotFound: ")
    assert ended.error.endswith("rsmq doctor --fix creates a queue in the cells that lack it.")


def test_all_cells_down_is_one_error_after_one_deadline(cells, monkeypatch):
    asked = []
    claim = membership.claim_cell
    monkeypatch.setattr(
        membership, "claim_cell", lambda *arguments: asked.append(1) or claim(*arguments)
    )
    ended = cells.cli("--cells", "100", "--url", f"redis://127.0.0.1:{free_port()}", "list")

    assert ended.code == 4
    assert len(asked) < 3_000, "each cell in each pass, and not all cells for each"


# Monitoring.


def test_cells_are_listed_with_their_namespaces_and_servers(cells, raw):
    unused = cells("cells", "--json")
    assert [each["state"] for each in unused.json] == ["unused"] * 3
    assert cells.all_keys() == []
    cells.client.create_queue("q")
    cells.send()
    rows = cells("cells", "--json").json
    address = cells.url.partition("//")[2].partition("/")[0]

    assert [each["ns"] for each in rows] == cells.names
    assert {each["server"] for each in rows} == {address}
    assert [(each["queues"], each["messages"], each["state"]) for each in rows] == [
        (1, 2, "ok")
    ] * 3
    shown = cells("cells")
    assert shown.code == 0
    assert shown.lines[0].split() == ["CELL", "NAMESPACE", "SERVER", "QUEUES", "MESSAGES", "STATE"]


def test_cells_that_can_not_be_used_are_listed(cells, queue, raw):
    down = cells.with_cell_2_down("cells", "--json")
    assert (down.code, [each["state"] for each in down.json]) == (1, ["ok", "ok", "unreachable"])
    assert "refused" in down.json[2]["error"]
    raw.hset(f"{cells.names[1]}:x:cell", "index", 5)
    wrong = cells("cells")
    assert wrong.code == 1
    assert wrong.stderr.startswith("cell 1: It is cell 5 of 3 of the set ")
    assert cells("--url", f"redis://127.0.0.1:{free_port()}", "cells").code == 4
    assert cells.cli("cells").error.startswith("This shows the cells of a set: add --cells N.")


def test_top_shows_sums(cells, queue):
    cells.send()
    document = cells("top", "--once", "--json").json
    assert document["queues"][0]["visible"] == document["totals"]["visible"] == 6
    down = cells.with_cell_2_down("top", "--once", "--json")

    assert (down.code, down.json["queues"][0]["visible"]) == (1, 4)
    assert down.json["failed_cells"] == "Not done in cell 2 of 3"
    assert cells("top", "missing").code == 3


def test_workers_of_all_cells_are_shown(cells, queue):
    assert cells("workers").lines[0].startswith("CELL  NAME")
    assert cells("workers", "--json").json == []


def test_completion_has_the_queues_of_cells(cells, queue, monkeypatch):
    monkeypatch.setenv("RSMQ_CELLS", "3")
    monkeypatch.setenv("_RSMQ_COMPLETE", "zsh_complete")
    monkeypatch.setenv("COMP_WORDS", "rsmq send ")
    monkeypatch.setenv("COMP_CWORD", "2")

    assert cells.cli().lines == ["plain", "q", "_"]


def test_tail_shows_the_messages_of_all_cells(processes, cells, queue):
    ids = cells.send()
    process = processes.start("--cells", "3", "tail", "q", "-n", "3", "--json")
    shown = [json.loads(process.stdout.readline()) for _ in range(3)]
    assert {each["id"] for each in shown} <= set(ids)
    new = {cells.client.send_message("q", f"new {number}") for number in range(3)}
    assert {json.loads(process.stdout.readline())["id"] for _ in range(3)} == new
    process.send_signal(signal.SIGINT)

    assert process.wait(20) == 130


def test_tail_continues_without_a_cell_that_is_down(processes, cells, queue):
    urls = f"{cells.url} {cells.url} redis://127.0.0.1:{free_port()}"
    process = processes.start("--cells", "3", "--url", urls, "tail", "q", "--from-start", "--json")
    cells.send()
    shown = {json.loads(process.stdout.readline())["body"] for _ in range(4)}
    process.send_signal(signal.SIGINT)

    assert process.wait(20) == 130
    assert shown == {"0.0", "0.1", "1.0", "1.1"}


def test_exporter_serves_sums_and_cells(processes, cells, queue):
    cells.send()
    port = free_port()
    process = processes.start("--cells", "3", "exporter", "--port", port, "--interval", "1s")
    wait_until(lambda: 'rsmq_queue_unfinished{queue="q"} 6.0' in scrape(port))
    text = scrape(port)
    process.terminate()

    assert process.wait(20) == 0
    assert 'rsmq_cell_up{cell="2"} 1.0' in text


# A cluster.


def test_set_on_a_cluster(cli, cluster):
    seeds = ",".join(f"127.0.0.1:{node.port}" for node in cluster.nodes[:2])
    url = f"redis+cluster://{seeds}"
    name = f"cli-{free_port()}"
    options = ["--url", url, "--ns", name, "--cells", "6"]
    assert cli("create", "q", *options).code == 0
    assert len(cli("send", "q", "a", "b", *options).lines) == 2
    assert cli("send", "q", "c", *options).code == 0
    rows = cli("cells", "--json", *options).json

    assert len({row["server"] for row in rows}) == 3
    assert sum(row["messages"] for row in rows) == 3
    ids = [each["id"] for each in cli("receive", "q", "-n", "9", "--json", *options).json]
    assert cli("delete", "q", *ids, *options).code == 0
    assert cli("top", "--once", "--json", *options).json["totals"]["visible"] == 0
    alone = cli("stats", "--url", url, "--ns", rows[4]["ns"], "--json").json
    assert alone[0]["queue"] == "q"
    assert cli("delete-queue", "q", "--yes", *options).code == 0
