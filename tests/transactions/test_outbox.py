"""The outbox of docs/transactions.md, on PostgreSQL: each committed row is in the queue once."""

from __future__ import annotations

import itertools
import json
import os
import random
import subprocess
import sys

import psycopg
import pytest

from rsmq.errors import QueueNotFound
from rsmq.tasks import Tasks
from tests.scale import scaled
from tests.workers.polling import wait_until

pytestmark = pytest.mark.foreign

QUEUES = ("a", "b", "c")
ROWS = scaled(900, 20_000)
KILLS = scaled(4, 50)


@pytest.fixture
def outbox(database, documented, rsmq):
    """The database with the documented table, and the queues."""
    database.execute("CREATE TABLE orders (number bigint)")
    database.execute(documented["outbox.sql"])
    for queue in QUEUES:
        rsmq.create_queue(queue)
    return database


@pytest.fixture
def drain(documented):
    names = {"__name__": "drain"}
    exec(compile(documented["drain.py"], "drain.py", "exec", dont_inherit=True), names)
    return names["drain"]


def insert(database, queue, bodies):
    database.cursor().executemany(
        "INSERT INTO outbox (queue, body) VALUES (%s, %s)", [(queue, body) for body in bodies]
    )


def count(database):
    return database.execute("SELECT count(*) FROM outbox").fetchone()[0]


def stored(raw, ns, queue):
    """Return the raw bodies in a queue, in its order."""
    ids = raw.zrange(f"{ns}:{queue}", 0, -1)
    return [raw.hget(f"{ns}:{queue}:Q", id).decode() for id in ids]


def test_a_row_is_sent_and_deleted(outbox, rsmq, raw, ns, drain, documented):
    rsmq.create_queue("orders")
    outbox.execute(documented["order.sql"])
    [(id,)] = outbox.execute("SELECT id FROM outbox").fetchall()

    assert drain(outbox, rsmq) == 1
    assert drain(outbox, rsmq) == 0
    assert stored(raw, ns, "orders") == ["order 17"]
    assert str(id).encode() in raw.hkeys(f"{ns}:orders:x:dedup")
    assert count(outbox) == 0


def test_the_row_of_a_task_is_its_message(outbox, rsmq, raw, ns, drain):
    tasks = Tasks(rsmq)
    done = []

    @tasks.task(queue="a", name="welcome")
    def welcome(user_id: int) -> None:
        done.append(user_id)

    call = welcome.signature(17)
    insert(outbox, call.queue, [json.dumps(call.body)])
    drain(outbox, rsmq)
    tasks.run_all()

    assert done == [17]


class DyingQueues:
    """
    A client in a drainer that dies at a send: its session of the database ends with it.

    After ``sends`` sends, or after the last one if it is their number.
    """

    def __init__(self, queues, sends, die):
        self._queues, self._sends, self._die = queues, sends, die

    def send_messages(self, *arguments, **options):
        if self._sends == 0:
            self._die()
            raise KeyboardInterrupt
        self._queues.send_messages(*arguments, **options)
        self._sends -= 1
        if self._sends == 0:
            self._die()


@pytest.mark.parametrize("sends", range(len(QUEUES) + 1))
def test_a_drainer_that_dies_after_some_sends_loses_and_doubles_no_row(
    outbox, postgresql, rsmq, raw, ns, drain, sends
):
    for queue in QUEUES:
        insert(outbox, queue, [f"{queue}{number}" for number in range(3)])
    with postgresql.connect() as dying:

        def die():
            outbox.execute("SELECT pg_terminate_backend(%s, 10000)", [dying.info.backend_pid])

        with pytest.raises((KeyboardInterrupt, psycopg.OperationalError)):
            drain(dying, DyingQueues(rsmq, sends, die))

    assert count(outbox) == 9
    assert sum(len(stored(raw, ns, queue)) for queue in QUEUES) == 3 * sends
    assert drain(outbox, rsmq) == 9
    assert [stored(raw, ns, queue) for queue in QUEUES] == [
        [f"{queue}{number}" for number in range(3)] for queue in QUEUES
    ]
    assert count(outbox) == 0


def test_two_drainers_never_wait_for_the_rows_of_each_other(outbox, postgresql, rsmq, drain):
    insert(outbox, "a", ["first"])
    with postgresql.connect() as other, other.transaction():
        other.execute("SELECT 1 FROM outbox FOR UPDATE")
        insert(outbox, "a", ["second"])
        assert drain(outbox, rsmq) == 1
    assert [each.body for each in rsmq.peek_messages("a")] == ["second"]
    assert drain(outbox, rsmq) == 1


def test_a_row_for_a_missing_queue_stops_the_drainer_and_stays(outbox, rsmq, drain):
    insert(outbox, "typo", ["x"])
    with pytest.raises(QueueNotFound, match="'typo'"):
        drain(outbox, rsmq)

    assert count(outbox) == 1


@pytest.mark.slow
def test_each_committed_row_is_in_its_queue_once_through_kills(
    outbox, postgresql, server, rsmq, raw, ns, documented, tmp_path
):
    # Small batches, and a pause between the sends and the end of the transaction: kills hit it.
    outbox.execute(
        "CREATE FUNCTION pause() RETURNS trigger LANGUAGE plpgsql AS"
        " $$ BEGIN PERFORM pg_sleep(0.02); RETURN NULL; END $$;"
        "CREATE TRIGGER pause AFTER DELETE ON outbox EXECUTE FUNCTION pause()"
    )
    code = documented["drain.py"].replace("BATCH = 200", "BATCH = 25")
    program = tmp_path / "drain.py"
    program.write_text(code.replace('os.environ["RSMQ_URL"]', f'"{server.url}", ns="{ns}"'))

    def start():
        return subprocess.Popen(
            [sys.executable, program],
            env={**os.environ, "DATABASE_URL": postgresql.url},
            stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
        )  # fmt: skip

    def commit(numbers):
        for queue, each in zip(itertools.cycle(QUEUES), numbers, strict=False):
            with outbox.transaction(force_rollback=each % 10 == 0):
                outbox.execute(
                    "INSERT INTO outbox (queue, body) VALUES (%s, %s)", [queue, str(each)]
                )

    chance = random.Random(7)
    step = ROWS // (KILLS + 1)
    drainers = [start(), start()]
    try:
        for kill in range(KILLS + 1):
            commit(range(kill * step, (kill + 1) * step))
            if kill < KILLS:
                goal = chance.randrange(step)
                wait_until(lambda: count(outbox) <= goal)  # noqa: B023 - used at once
                chosen = chance.randrange(2)
                drainers[chosen].kill()
                drainers[chosen].wait()
                drainers[chosen] = start()
        wait_until(lambda: count(outbox) == 0)
    finally:
        for each in drainers:
            each.kill()
            each.wait()

    found = sorted(int(body) for queue in QUEUES for body in stored(raw, ns, queue))
    assert found == [each for each in range(step * (KILLS + 1)) if each % 10]
