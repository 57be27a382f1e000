"""Frames, streams and writes of sets of cells."""

from __future__ import annotations

import dataclasses

import pytest
from pyspark.sql.datasource import EqualTo

from rsmq import Cells, CellsMismatch
from rsmq.spark import CellFailed, CheckpointSetBack, InvalidOption
from rsmq.spark.connection_options import parse_connection_options
from rsmq.spark.connections import get_home, get_servers
from rsmq.spark.stream.acknowledgement import acknowledge_offset
from rsmq.spark.write.task_writer import TaskWriter
from rsmq.wire.cells import cell_of_key, name_of_cell
from rsmq.wire.keys import Namespace
from tests.servers import Server, redis_7
from tests.spark.conftest import Crashed, Env, StreamWrite, columns, crash_at_call

NUMBER = 3
TEXT = columns(message="string")


class CellsEnv(Env):
    """A set of three cells, of which the last one is on another server."""

    def __init__(self, server, other):
        super().__init__(server)
        self.rsmq.close()
        self.servers = [server, server, other]
        self.raws = [each.raw() for each in self.servers]
        self.urls = [each.url for each in self.servers]
        self.rsmq = Cells.from_url(self.urls, cells=NUMBER, ns=self.ns)

    def options(self, **options):
        return super().options(
            **{"url": " ".join(self.urls), "cells": NUMBER, "retryDeadline": 0, **options}
        )

    def connection(self):
        return parse_connection_options(self.options())

    def cell_keys(self, cell, queue="q"):
        return Namespace(name_of_cell(self.ns, cell)).queue(queue)

    def bodies_of(self, cell, queue="q"):
        """Return the bodies of a cell, in the order of the queue, as Redis stores them."""
        keys = self.cell_keys(cell, queue)
        ids = self.raws[cell].zrange(keys.zset, 0, -1)
        return [self.raws[cell].hget(keys.hash, id).decode() for id in ids]

    def all_bodies(self):
        return [body for cell in range(NUMBER) for body in self.bodies_of(cell)]

    def staged(self):
        return [self.raws[cell].hlen(self.cell_keys(cell).staged) for cell in range(NUMBER)]

    def send(self, number, prefix="m"):
        """Send messages with different keys; return their ids."""
        return [
            self.rsmq.send_message("q", f"{prefix}{each}", key=f"k{each}") for each in range(number)
        ]

    def close(self):
        super().close()
        for raw in self.raws:
            raw.close()


@pytest.fixture(scope="module")
def other():
    started = Server(redis_7())
    yield started
    started.stop()


@pytest.fixture
def env(server, other):
    env = CellsEnv(server, other)
    env.rsmq.create_queue("q")
    yield env
    env.close()


@pytest.mark.parametrize("snapshot", ["scan", "exact"])
def test_frame_has_the_messages_of_all_cells(env, snapshot):
    sent = env.send(30)
    read = env.plan_read(queue="q", snapshot=snapshot)
    rows = [row for rows in read() for row in rows]
    assert {partition.cell for partition in read.partitions} == {0, 1, 2}
    assert sorted(row["id"] for row in rows) == sorted(sent)
    stored = {env.rsmq.get_message("q", row["id"]).body: row["message"] for row in rows}
    assert all(body == message for body, message in stored.items())
    assert {row["queue"] for row in rows} == {"q"}
    assert None not in {row["sent"] for row in rows}


def test_large_cells_are_divided(env):
    for cell in range(NUMBER):
        env.rsmq.cells[cell].send_messages("q", ["x"] * 3000)
    read = env.plan_read(queue="q", columns="id", numPartitions=6)
    assert len(read.partitions) == 6
    assert len({row["id"] for rows in read() for row in rows}) == 9000


def test_filter_on_the_id_reads_one_cell(env):
    sent = env.send(30)
    wanted = next(id for id in sent if id.startswith("1-"))
    read = env.plan_read(filters=[EqualTo(("id",), wanted)], queue="q", pushdown=True)
    assert {partition.cell for partition in read.partitions} == {1}
    assert [row["id"] for rows in read() for row in rows] == [wanted]


def test_each_cell_is_checked(env):
    env.send(1)
    with pytest.raises(CellsMismatch, match="of 3 of the set"):
        env.read(queue="q", cells=4, url=env.urls[0])
    with pytest.raises(CellsMismatch):
        env.read(queue="q", url=" ".join(reversed(env.urls)))


@pytest.mark.parametrize(
    ("options", "text"),
    [
        ({"cells": 0}, "Option cells: is a whole number from 1 to 1000"),
        ({"ns": "{a}"}, "Option ns: .*no braces"),
        ({"url": "redis://a redis://b"}, "Option url: has 2 URLs for 3 cells"),
        ({"url": "redis://a redis://b redis://:x@c"}, "Option url: has a password"),
    ],
)
def test_wrong_options_are_refused(env, options, text):
    with pytest.raises(InvalidOption, match=text):
        env.read(queue="q", **options)


def test_several_urls_need_cells():
    with pytest.raises(InvalidOption, match="several URLs"):
        parse_connection_options({"url": "redis://a redis://b"})


@pytest.mark.parametrize("options", [{}, {"delivery": "exactly-once", "writeId": "w"}])
def test_frame_is_spread_over_cells(env, options):
    write = env.write(TEXT, batchSize=2, **options)
    write.run([{"message": f"a{n}"} for n in range(6)], [{"message": f"b{n}"} for n in range(6)])
    assert [len(env.bodies_of(cell)) for cell in range(NUMBER)] == [4, 4, 4]
    assert sorted(env.all_bodies()) == sorted(f"{task}{n}" for task in "ab" for n in range(6))
    assert env.staged() == [0, 0, 0]


@pytest.mark.parametrize("delivery", ["at-least-once", "exactly-once"])
def test_key_decides_the_cell_and_keeps_the_order(env, delivery):
    rows = [{"message": f"{n % 5} {n}", "customer": f"c{n % 5}"} for n in range(50)]
    env.write(
        columns(message="string", customer="string"),
        keyColumn="customer", delivery=delivery, batchSize=7,
    ).run(rows)  # fmt: skip
    for customer in range(5):
        found = env.bodies_of(cell_of_key(f"c{customer}", NUMBER))
        assert [body for body in found if body.startswith(f"{customer} ")] == [
            f"{customer} {n}" for n in range(customer, 50, 5)
        ]


def test_key_column_needs_cells(env):
    schema = columns(message="string", id="string")
    with pytest.raises(InvalidOption, match="goes with the option cells"):
        Env.write(env, schema, keyColumn="id", restore=True)
    with pytest.raises(InvalidOption, match="no column customer"):
        env.write(schema, keyColumn="customer")


def test_missing_queue_is_created_in_all_cells(env):
    env.write(TEXT, queue="new", createQueue=True).run([{"message": "a"}])
    assert [client.list_queues().count("new") for client in env.rsmq.cells] == [1, 1, 1]


def test_messages_are_restored_into_their_cells(env):
    sent = env.send(12)
    rows = env.read(queue="q", columns="id,message,visible_at,receive_count,first_received")
    env.rsmq.purge_queue("q")
    bare = "0123456789abcdefABCDEFGHIJKLMNOP"
    rows.append({**rows[0], "id": bare, "message": "bare"})
    schema = columns(
        id="string", message="string", visible_at="timestamp", receive_count="long",
        first_received="timestamp",
    )  # fmt: skip
    for _ in range(2):
        env.write(schema, restore=True).run(rows)
    assert sorted(row["id"] for row in env.read(queue="q", columns="id")) == sorted(
        [*sent, f"{cell_of_key(bare, NUMBER)}-{bare}"]
    )


def test_write_that_is_killed_between_cells_is_completed_by_the_next(env):
    write = env.write(TEXT, delivery="exactly-once", writeId="w", batchSize=1)
    message = write.task([{"message": f"a{n}"} for n in range(6)])
    assert env.staged() == [2, 2, 2]
    home = get_home(env.connection(), "w")
    others = [each for each in get_servers(env.connection()) if each is not home]
    with crash_at_call(others[0], 2), pytest.raises(Crashed):  # checked, and one of two published
        write.commit(message)
    assert 0 < len(env.all_bodies()) < 6

    env.disconnect()
    again = env.write(TEXT, delivery="exactly-once", writeId="w", batchSize=1)
    again.commit(again.task([{"message": f"b{n}"} for n in range(6)]))

    assert sorted(env.all_bodies()) == [f"a{n}" for n in range(6)]
    assert env.staged() == [0, 0, 0]
    records = [
        raw.hlen(Namespace(name_of_cell(env.ns, cell)).written) for cell, raw in enumerate(env.raws)
    ]
    assert sum(records) == 1
    assert records[cell_of_key("w", NUMBER)] == 1


def test_late_attempt_of_a_task_stages_nothing(env, monkeypatch):
    options = {"delivery": "exactly-once", "batchSize": 1}
    rows = [{"message": f"a{n}"} for n in range(6)]
    batch = StreamWrite(env, TEXT, options, 4, monkeypatch)
    message = batch.task(rows)
    # The attempt has begun before the batch was done.
    late = TaskWriter(batch.writer._options, "query", 4, is_text=True)
    batch.commit(message)
    assert not any(late.write([batch.batch(rows)]).parts.values())
    assert env.staged() == [0, 0, 0]
    assert len(env.all_bodies()) == 6


def test_batch_of_a_stream_is_written_once(env, monkeypatch):
    options = {"delivery": "exactly-once", "batchSize": 1}
    for _ in range(2):  # Spark repeats the batch
        batch = StreamWrite(env, TEXT, options, 4, monkeypatch)
        batch.commit(batch.task([{"message": f"a{n}"} for n in range(6)]))
    assert sorted(env.all_bodies()) == [f"a{n}" for n in range(6)]
    earlier = StreamWrite(env, TEXT, options, 3, monkeypatch)
    with pytest.raises(CheckpointSetBack):
        earlier.task([{"message": "b"}])


def test_stream_has_the_messages_of_all_cells_once(env):
    query = env.query()
    sent = env.send(20)
    assert sorted(row["id"] for row in query.run()) == sorted(sent)
    assert query.offsets[-1]["cells"] == NUMBER
    assert sum(query.offsets[-1]["queues"].values()) == 20
    assert query.progress["backlog"] == {"q": {"visible": 0, "hidden": 20, "held_back": 0}}
    sent += env.send(5, "n")
    query.run_until_empty()
    assert sorted(query.ids()) == sorted(sent)
    assert env.all_bodies() == []
    assert query.progress["acknowledged"] == 25
    assert query.progress["lost"] == 0


def test_acknowledgement_that_is_killed_between_cells_is_completed(env):
    query = env.query()
    env.send(20)
    query.run()
    with crash_at_call(get_servers(env.connection())[1], 0), pytest.raises(Crashed):
        query.request_offset()
    assert env.bodies_of(0) == []
    assert env.bodies_of(1) != []
    assert query.restart() is None
    assert query.run() is None
    assert env.all_bodies() == []
    assert len(query.ids()) == 20


def test_receive_that_is_killed_between_cells_is_continued(env):
    query = env.query()
    sent = env.send(1)
    query.run_until_empty()
    sent += env.send(20, "n")
    with crash_at_call(get_servers(env.connection())[1], 0), pytest.raises(Crashed):
        query.request_offset()
    query.restart()
    query.run_until_empty()
    assert sorted(query.ids()) == sorted(sent)
    assert env.all_bodies() == []


def test_checkpoint_that_is_set_back_is_refused(env):
    query = env.query(limit=None)
    env.rsmq.cells[0].send_message("q", "a")
    query.run()
    env.rsmq.cells[2].send_message("q", "b")
    query.run()
    query.run_until_empty()
    del query.offsets[1:]
    env.rsmq.cells[0].send_message("q", "c")  # cell 0 has acknowledged batch 1 only
    with pytest.raises(CheckpointSetBack):
        query.restart()
        query.run()


@pytest.mark.parametrize(("cells", "text"), [(None, "without cells"), ("2", "reads 2 cells")])
def test_checkpoint_of_another_number_of_cells_is_refused(env, cells, text):
    query = env.query()
    env.send(3)
    query.run()
    options = {} if cells is None else {"cells": cells}
    other = Env.source(env, queue="q")
    connection = parse_connection_options({"url": env.urls[0], "ns": env.ns + "x", **options})
    reader = other.streamReader(schema=other.schema())
    reader.source = dataclasses.replace(reader.source, connection=connection)
    with pytest.raises(InvalidOption, match=f"checkpoint is of 3 cells.*{text}"):
        reader.latestOffset(query.offsets[-1], reader.getDefaultReadLimit())
    with pytest.raises(InvalidOption, match=text):
        reader.partitions({"batch": 0}, query.offsets[-1])


def test_offset_of_a_plain_queue_has_no_cells(server):
    env = Env(server)
    env.rsmq.create_queue("q")
    query = env.query()
    env.rsmq.send_message("q", "a")
    query.run()
    (offset,) = query.offsets
    lease = offset["lease"]
    assert offset == {
        "version": 1, "lease": lease, "batch": 1, "queues": {"q": 1}, "ns": env.ns,
    }  # fmt: skip
    env.close()


def test_listener_acknowledges_the_last_batch_in_all_cells(env):
    query = env.query()
    env.send(9)
    query.run()
    query.crash()
    plain = parse_connection_options({"url": env.urls[0], "ns": env.ns})
    assert acknowledge_offset(plain, query.offsets[-1]) == (0, 0)
    assert acknowledge_offset(env.connection(), query.offsets[-1]) == (9, 0)
    assert env.all_bodies() == []


def test_second_query_of_a_consumer_group_starts_behind_the_first(env):
    first = env.query(consumerGroup="g")
    env.send(9)
    first.run()
    first.run()  # acknowledges
    first.crash()
    env.send(3, "n")
    second = env.query(consumerGroup="g")
    second.run_until_empty()
    assert len(second.ids()) == 3
    assert second.offsets[0]["batch"] == 2
    assert env.all_bodies() == []


def test_idle_query_is_woken_by_each_cell(env):
    query = env.query()
    assert query.request_offset() is None
    for cell in range(NUMBER):
        env.rsmq.cells[cell].send_message("q", "a")
        for _ in range(600):
            if query.request_offset(wake=False) is not None:
                break
        else:
            pytest.fail("the query was not woken")
        query.run_until_empty()


class TestServerThatIsDown:
    @pytest.fixture
    def down(self, server):
        started = Server(redis_7(), "--appendonly", "yes", "--appendfsync", "always")
        env = CellsEnv(server, started)
        env.rsmq.create_queue("q")
        yield env, started
        env.close()
        started.stop()

    def test_errors_name_its_cell_and_nothing_is_lost(self, down):
        env, started = down
        query = env.query()
        sent = env.send(20)
        assert query.poll()
        write = env.write(TEXT, delivery="exactly-once", writeId="w", batchSize=1)
        message = write.task([{"message": f"a{n}"} for n in range(6)])
        started.kill()
        with pytest.raises(CellFailed, match=r"^Cell 2, the namespace '\{s\d+\.2\."):
            query.finish()
        with pytest.raises(CellFailed, match="Cell 2"):
            env.read(queue="q")
        with pytest.raises(CellFailed, match="Cell 2"):
            write.commit(message)
        write.abort(message)

        started.start()
        query.restart()
        query.run_until_empty()
        assert sorted(query.ids()) == sorted(sent)
        again = env.write(TEXT, delivery="exactly-once", writeId="w", batchSize=1)
        again.run([{"message": f"a{n}"} for n in range(6)])
        assert sorted(env.all_bodies()) == [f"a{n}" for n in range(6)]
