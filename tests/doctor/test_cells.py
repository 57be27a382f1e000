"""The doctor on sets of cells."""

from __future__ import annotations

import pytest
import redis

from rsmq import Cells, QueueNotFound
from rsmq.doctor import examine, examine_cells, queue_faults, repair, repair_cells
from rsmq.doctor.catalogue import SERVER_FAULTS
from rsmq.wire.cells import name_of_cell, name_of_set
from tests.ports import free_port
from tests.sets import SetOfCells, set_of_cells

GHOST = "hod98j94h7HkqVvzKrlMYXegVzlPtuLy"


@pytest.fixture
def cells(server, raw, ns):
    with set_of_cells(SetOfCells, server.url, raw, ns) as cells:
        cells.client.create_queue("q", vt=7)
        cells.client.create_queue("dead")
        yield cells


def find(client, queues=None):
    """Return the code, the queue and the cells of the findings, without those of the server."""
    return [
        (each.code, each.queue, each.cells)
        for each in examine_cells(client, queues).findings
        if each.code not in SERVER_FAULTS
    ]


def fix(client, *also):
    done = repair_cells(client, examine_cells(client).findings, also=also)
    assert [each.error for each in done if each.error] == []
    return [(each.finding.code, each.number) for each in done]


def test_set_without_faults_has_no_findings(cells):
    cells.client.cells[0].send_messages("q", ["x"] * 500)
    before = cells.dump()
    report = examine_cells(cells.client)

    assert find(cells.client) == []
    assert (report.ns, report.queues, report.messages, report.cells) == (cells.ns, 2, 500, 3)
    assert cells.dump() == before


def test_both_names_of_a_function_accept_both_kinds_of_client(cells, rsmq, raw):
    cells.client.cells[1].delete_queue("q")
    rsmq.create_queue("q")
    raw.srem(f"{rsmq.namespace.name}:QUEUES", "q")

    for client, code in ((cells.client, "missing-in-cells"), (rsmq, "unlisted-queue")):
        findings = examine(client, ["q"]).findings
        assert findings == examine_cells(client, ["q"]).findings
        assert [each.finding.code for each in repair(client, findings)] == [code]
        assert [each.number for each in repair_cells(client, findings)] == [0]


def test_queue_is_read_once_in_each_cell(cells, rsmq, monkeypatch):
    rsmq.create_queue("q")
    operation = queue_faults.examine_queue
    names = []

    def examine_queue(namespace, name):
        names.append((namespace.name, name))
        return operation(namespace, name)

    monkeypatch.setattr(queue_faults, "examine_queue", examine_queue)
    for client in (cells.client, rsmq):
        names.clear()
        report = examine(client, ["q"])

        assert not {each.code for each in report.findings} - SERVER_FAULTS
        assert names == [(each.namespace.name, "q") for each in client.cells]


def test_faults_of_servers_are_reported_once(cells):
    of_server = examine_cells(cells.client).findings

    assert len({each.text for each in of_server}) == len(of_server)
    assert all(each.cells == (0, 1, 2) for each in of_server)


def test_missing_queue_is_created_with_the_attributes_of_the_others(cells):
    cells.client.pause_queue("q")
    cells.client.cells[0].delete_queue("q")
    cells.client.cells[2].delete_queue("q")
    assert find(cells.client) == [("missing-in-cells", "q", (0, 2))]
    before = cells.dump()
    assert fix(cells.client) == [("missing-in-cells", 2)]

    assert cells.field("vt") == [b"7"] * 3
    assert None not in cells.field("x:paused")
    assert all(cells.raw.sismember(f"{name}:QUEUES", "q") for name in cells.names)
    after = cells.dump()
    assert {key: after[key] for key in before if b":QUEUES" not in key} == {
        key: value for key, value in before.items() if b":QUEUES" not in key
    }
    assert find(cells.client) == []


def test_different_attributes_become_those_of_the_first_cell(cells):
    cells.client.cells[1].set_queue_attributes("q", vt=9, maxsize=2048)
    (finding,) = [
        each for each in examine_cells(cells.client).findings if each.code not in SERVER_FAULTS
    ]

    assert (finding.code, finding.cells) == ("different-attributes", (1,))
    assert finding.text == (
        "attributes differ: cell 0 has vt 7, delay 0, maxsize 65536, cell 1 has vt 9, delay 0, "
        "maxsize 2048"
    )
    assert fix(cells.client) == [("different-attributes", 1)]
    assert cells.field("vt") == [b"7"] * 3
    assert cells.field("maxsize") == [b"65536"] * 3


def test_different_policy_becomes_that_of_the_first_cell(cells):
    cells.client.cells[0].set_dead_letter_policy("q", "dead", 3)
    cells.client.cells[2].set_dead_letter_policy("q", "dead", 4)
    assert find(cells.client) == [("different-policy", "q", (1, 2))]
    assert fix(cells.client) == [("different-policy", 2)]
    assert cells.field("x:max") == [b"3"] * 3
    for client in cells.client.cells[1:]:
        client.create_queue("other")
        client.set_dead_letter_policy("dead", "other", 2)
    assert fix(cells.client)[-1] == ("different-policy", 2)
    assert cells.field("x:dlq", "dead") == [None] * 3


def test_pause_in_some_cells_is_reported_and_kept(cells):
    cells.client.cells[1].pause_queue("q")

    assert find(cells.client) == [("paused-in-some-cells", "q", (1,))]
    assert fix(cells.client) == []
    assert cells.field("x:paused")[0] is None


def test_missing_record_is_stored_again(cells, raw):
    record = raw.hgetall(f"{cells.names[0]}:x:cell")
    raw.delete(f"{cells.names[1]}:x:cell")
    assert find(cells.client) == [("no-cell-record", None, (1,))]
    assert fix(cells.client) == [("no-cell-record", 1)]

    assert raw.hgetall(f"{cells.names[1]}:x:cell") == {**record, b"index": b"1"}


def test_cell_of_another_set_is_reported_and_not_examined(cells, raw):
    raw.hset(f"{cells.names[1]}:x:cell", "set", "another")
    cells.client.cells[1].delete_queue("q")
    before = cells.dump()
    (finding,) = [
        each for each in examine_cells(cells.client).findings if each.code not in SERVER_FAULTS
    ]

    assert (finding.code, finding.cells) == ("other-set", (1,))
    assert finding.text.startswith("the cell belongs to another set: it is cell 1 of 3 of the set ")
    assert fix(cells.client) == []
    assert cells.dump() == before


def test_wrong_number_of_cells_changes_nothing(cells):
    before = cells.dump()
    with Cells.from_url(cells.url, cells=4, ns=cells.ns) as wrong:
        assert find(wrong) == [("other-set", None, (cell,)) for cell in range(3)]
        assert fix(wrong) == []

    assert cells.dump() == before
    assert cells.raw.keys(f"{name_of_cell(cells.ns, 3)}*") == []


def test_faults_of_one_cell_are_repaired_there(cells, raw):
    raw.zadd(f"{cells.names[2]}:q", {GHOST: 5})
    raw.srem(f"{cells.names[1]}:QUEUES", "q")
    assert sorted(find(cells.client)) == [
        ("ghost", "q", (2,)),
        ("unlisted-queue", "q", (1,)),
    ]
    assert sorted(fix(cells.client)) == [("ghost", 1), ("unlisted-queue", 1)]
    assert find(cells.client) == []


def test_cell_that_is_down_is_reported_and_the_others_are_repaired(cells):
    cells.client.cells[1].delete_queue("q")
    down = f"redis://127.0.0.1:{free_port()}"
    with Cells.from_url(
        [down, cells.url, cells.url], cells=3, ns=cells.ns, retry_deadline=0
    ) as partly:
        assert find(partly) == [
            ("cell-unreachable", None, (0,)),
            ("missing-in-cells", "q", (1,)),
        ]
        assert fix(partly) == [("missing-in-cells", 1)]
    assert cells.field("vt") == [b"7"] * 3
    with (
        Cells.from_url(down, cells=3, ns=cells.ns, retry_deadline=0) as none,
        pytest.raises(redis.ConnectionError),
    ):
        examine_cells(none)


def test_named_queues_are_examined_where_they_exist(cells):
    cells.client.cells[0].delete_queue("q")
    cells.client.cells[1].set_queue_attributes("dead", vt=1)

    assert find(cells.client, ["q"]) == [("missing-in-cells", "q", (0,))]
    with pytest.raises(QueueNotFound, match="'missing'"):
        examine_cells(cells.client, ["q", "missing"])


def test_data_that_a_deleted_queue_has_left_in_a_cell_are_found(cells, raw):
    raw.hset(f"{cells.names[2]}:gone:x:dedup", "name", "1")

    assert find(cells.client, ["gone"]) == [("left-over-extension", "gone", (2,))]
    assert fix(cells.client) == [("left-over-extension", 1)]


def test_name_of_a_set_is_found_in_the_name_of_a_cell():
    assert name_of_set(name_of_cell("my.set.7", 12)) == "my.set.7"


# The command.


def test_command_names_the_cells_and_repairs_them(cli, cells, raw):
    cells.client.cells[1].delete_queue("q")
    raw.zadd(f"{cells.names[2]}:q", {GHOST: 5})
    examined = cli("--cells", "3", "doctor")

    assert examined.code == 1
    assert "error    cell 1: q: the queue is missing, and cell 0 has it  [missing-in-cells]" in (
        examined.lines
    )
    assert "warning  cell 2: q: ids without a body: 1  [ghost]" in examined.lines
    assert any(line.startswith("warning  all cells: ") for line in examined.lines)
    assert examined.lines[-1].startswith("2 queues in 3 cells, 1 message: ")
    repaired = cli("--cells", "3", "doctor", "--fix", "--yes", "--json").json
    assert [(each["code"], each["cells"]) for each in repaired["repairs"]] == [
        ("ghost", [2]),
        ("missing-in-cells", [1]),
    ]
    assert not {each["code"] for each in repaired["left"]} - SERVER_FAULTS
    assert cells.field("vt") == [b"7"] * 3
    lines = cli("--cells", "3", "doctor", "q*", "--fix", "--yes").lines
    assert "Nothing to do." in lines


def test_command_stores_no_records_in_an_unused_set(cli, raw, ns):
    assert cli("--cells", "3", "doctor", "--json").json["queues"] == 0
    assert cli("--cells", "3", "doctor", "q*").code == 3
    assert raw.keys(f"{{{ns}.*") == []


def test_command_on_a_cluster(cli, cluster):
    url = f"redis+cluster://127.0.0.1:{cluster.nodes[0].port}"
    options = ["--url", url, "--ns", f"doctor-{free_port()}", "--cells", "3"]
    assert cli("create", "q", *options).code == 0
    name = cli("cells", "--json", *options).json[1]["ns"]
    assert cli("--url", url, "--ns", name, "delete-queue", "q", "--yes").code == 0
    done = cli("doctor", "--fix", "--yes", "--json", *options).json

    assert [each["code"] for each in done["repairs"]] == ["missing-in-cells"]
    assert cli("delete-queue", "q", "--yes", *options).code == 0
