"""
The data source as Spark drives it, without a JVM: call by call, over a real server.

What Spark sends from one process to another is pickled here, too: the reader that plans is never
the one that reads, nor the writer that writes the one that commits.
"""

from __future__ import annotations

import itertools
import json
import pickle
import threading
from contextlib import contextmanager

import pyarrow as pa
import pytest
from pyspark import cloudpickle
from pyspark.sql.datasource import CaseInsensitiveDict, InputPartition
from pyspark.sql.pandas.types import to_arrow_schema
from pyspark.sql.types import StructType
from pyspark.sql.worker.plan_data_source_read import records_to_arrow_batches

from rsmq import RSMQ
from rsmq.spark import RsmqDataSource, connections, sink
from rsmq.spark.connection_options import parse_connection_options
from rsmq.wire.keys import Namespace

_numbers = itertools.count()


def shipped(thing):
    """A thing as it arrives in another process, however it is pickled."""
    return pickle.loads(cloudpickle.dumps(pickle.loads(pickle.dumps(thing))))


def plain(value):
    """An offset, or a limit, as it arrives on the other side of Spark's socket."""
    return json.loads(json.dumps(value))


def columns(**types):
    """Columns of a frame, by Spark's names of their types."""
    schema = StructType()
    for name, kind in types.items():
        schema.add(name, kind)
    return schema


class Died(Exception):
    """The process ended here."""


@contextmanager
def dies(at, calls, *, answered=False):
    """
    The process ends at one of its calls, 0 is the first.

    Args:
        at: the server that is called.
        calls: how many calls go well.
        answered: whether the server has done what the last one asked.
    """
    run, left = at.rsmq.run, itertools.count(calls, -1)

    def dying(operation):
        if threading.current_thread().name == "rsmq-lease" or next(left) > 0:
            return run(operation)
        if answered:
            run(operation)
        raise Died

    at.rsmq.run = dying
    try:
        yield
    finally:
        del at.rsmq.run


class Env:
    """One namespace of one server, with its raw keys."""

    def __init__(self, redis_server, **secret):
        self.redis = redis_server
        self.ns = f"s{next(_numbers)}"
        self.raw = redis_server.raw(**secret)
        self.rsmq = RSMQ.from_url(redis_server.url, ns=self.ns, **secret)
        self._ends = []

    def options(self, **options):
        """Options with the place of the queues, as Spark hands them over: texts."""
        options = {"url": self.redis.url, "ns": self.ns, **options}
        given = CaseInsensitiveDict()
        for name, value in options.items():
            text = value if isinstance(value, str) else json.dumps(value)
            given[name.replace("__", ".")] = text
        return given

    def source(self, **options):
        return shipped(RsmqDataSource(options=self.options(**options)))

    def at(self):
        """This process's connections to the server, those of readers and writers."""
        return connections.get_server(parse_connection_options(self.options()))

    def keys(self, queue="q"):
        return Namespace(self.ns).queue(queue)

    def fields(self, queue="q"):
        stored = self.raw.hgetall(self.keys(queue).hash)
        return {name.decode(errors="replace"): value for name, value in stored.items()}

    def scores(self, queue="q"):
        stored = self.raw.zrange(self.keys(queue).zset, 0, -1, withscores=True)
        return {id.decode(errors="replace"): score for id, score in stored}

    def bodies(self, queue="q"):
        """The bodies of all messages, in the order in which they become visible."""
        ids = self.raw.zrange(self.keys(queue).zset, 0, -1)
        return self.raw.hmget(self.keys(queue).hash, ids) if ids else []

    def put(self, id, body, queue="q", score=None, **fields):
        """A message as some other client stores it."""
        id = id if isinstance(id, bytes) else id.encode()
        score = self.now_ms() - 1 if score is None else score
        named = {id + b":" + name.encode(): value for name, value in fields.items()}
        self.raw.hset(self.keys(queue).hash, mapping={id: body, **named})
        self.raw.zadd(self.keys(queue).zset, {id: score})

    def state(self):
        """Everything in the namespace, and what of it will expire."""
        return {
            key: (self.raw.dump(key), self.raw.pttl(key) >= 0)
            for key in sorted(self.raw.keys(f"{self.ns}:*"))
        }

    def now_ms(self):
        seconds, microseconds = self.raw.time()
        return seconds * 1000 + microseconds // 1000

    def elapse(self, seconds, queue="q"):
        """Let time pass, by the scores."""
        for id, score in self.raw.zrange(self.keys(queue).zset, 0, -1, withscores=True):
            self.raw.zadd(self.keys(queue).zset, {id: score - seconds * 1000})

    @contextmanager
    def commands(self):
        """What the server is told in this block, those of scripts included, as text."""
        found = []
        self.raw.ping()
        with self.redis.raw() as client, client.monitor() as monitor:
            yield found
            self.raw.echo("that is all")
            for command in monitor.listen():
                if command["command"] == "ECHO that is all":
                    break
                found.append(command["command"])

    def read(self, schema=None, filters=None, **options):
        """All rows of a batch read."""
        return [row for batch in self.planned(schema, filters, **options)() for row in batch]

    def planned(self, schema=None, filters=None, **options):
        """A batch read whose partitions are made; a call of the result reads each of them."""
        source = self.source(**options)
        schema = _parsed(schema or source.schema())
        reader = source.reader(schema=schema)
        left = None if filters is None else list(reader.pushFilters(filters))
        on_executors = shipped(reader)  # before the partitions are made, as Spark does
        partitions = [shipped(each) for each in reader.partitions()]

        def read():
            return [
                _rows(source, on_executors, schema, each)
                for each in partitions or [InputPartition(None)]
            ]

        read.partitions, read.left = partitions, left
        return read

    def query(self, **options):
        """A streaming query that has been started."""
        query = Query(self, **options)
        self._ends.append(query.crash)
        return query

    def write(self, schema, **options):
        """A batch write that has begun."""
        return Write(self, schema, {"queue": "q", **options})

    def disconnect(self):
        """This process has no connections, as one that has just begun."""
        for key, server in list(connections._servers.items()):
            if server.namespace.name == self.ns:
                server.watcher.close()
                server.rsmq.close()
                server.raw.close()
                del connections._servers[key]

    def close(self):
        for end in self._ends:
            end()
        self.disconnect()
        self.rsmq.close()
        self.raw.close()


def _parsed(schema):
    return StructType.fromJson(json.loads(schema.json()))


def _rows(source, reader, schema, partition):
    rows = []
    batches = records_to_arrow_batches(reader.read(partition), 10_000, schema, source)
    for batch in batches:
        assert batch.schema.equals(to_arrow_schema(schema, timezone="UTC"))
        batch.validate(full=True)
        rows += batch.to_pylist()
    return rows


class Query:
    """
    A streaming query, as Spark's engine runs it: what it asks, in its order, and what it logs.

    The logs, and the sink that has each batch once, outlive a crash; the reader does not.
    """

    def __init__(self, env, *, limit=None, available_now=False, schema=None, **options):
        self._env = env
        self._limit = limit
        self._available_now = available_now
        self._source = env.source(**{"queue": "q", "idleWait": 0.01, **options})
        self._schema = _parsed(schema or self._source.schema())
        self.offsets = []
        self.done = 0
        self.sink = {}
        self.progress = None
        self.start()

    def start(self):
        """A new process, which knows the logs."""
        self.reader = shipped(self._source).streamReader(schema=self._schema)
        self.on_executors = shipped(self._source.streamReader(schema=self._schema))
        self._end = None
        if self._available_now:
            self.reader.prepareForTriggerAvailableNow()

    def ask(self):
        """What comes after the last batch in the log."""
        start = self.offsets[-1] if self.offsets else plain(self.reader.initialOffset())
        limit = self._limit or self.reader.getDefaultReadLimit()
        end = plain(self.reader.latestOffset(plain(start), limit))
        self.progress = plain(self.reader.reportLatestOffset())
        return None if json.dumps(start) == json.dumps(end) else end

    def poll(self):
        """Ask for a batch and log it; whether there is one."""
        end = self.ask()
        if end is not None:
            if self.offsets:
                self.reader.commit(self.offsets[-1])
            self.offsets.append(end)
        return end is not None

    def plan(self):
        """The partitions of the last batch in the log."""
        earlier = self.offsets[-2:-1] or [plain(self.reader.initialOffset())]
        partitions = self.reader.partitions(plain(earlier[0]), plain(self.offsets[-1]))
        return [shipped(each) for each in partitions]

    def tasks(self, partitions):
        """The rows that each task reads."""
        return [
            _rows(self._source, shipped(self.on_executors), self._schema, each)
            for each in partitions or [InputPartition(None)]
        ]

    def finish(self):
        """Read the last batch in the log into the sink, in place of an earlier attempt's."""
        rows = [row for task in self.tasks(self.plan()) for row in task]
        self.sink[len(self.offsets)] = rows
        self.done = len(self.offsets)
        return rows

    def run(self):
        """The rows of the next batch; None if there is none."""
        return self.finish() if self.poll() else None

    def run_out(self):
        """The rows of each batch until there is none."""
        return list(iter(self.run, None))

    def crash(self):
        """The process ends; beyond the stop there is nothing that it could still do."""
        self.reader.stop()
        lease = self.reader._lease
        if lease is not None and lease._thread is not None:
            lease._thread.join()

    def restart(self):
        """A new process; the rows of the batch that was logged and not done, if there is one."""
        self.crash()
        self.start()
        return self.finish() if self.done < len(self.offsets) else None

    def ids(self):
        """Of all rows in the sink."""
        return [row["id"] for number in sorted(self.sink) for row in self.sink[number]]


class Write:
    """A write of a frame, as Spark runs it: tasks, each with a writer of its own, and a driver."""

    def __init__(self, env, schema, options):
        self.schema = _parsed(schema)
        source = env.source(**options)
        self._writer = shipped(source.writer(schema=self.schema, overwrite=False))

    def batch(self, rows, timezone="UTC"):
        """Rows as a task gets them."""
        schema = to_arrow_schema(self.schema, timezone=timezone)
        return pa.RecordBatch.from_pylist(rows, schema=schema)

    def task(self, *batches):
        """One attempt of a task that has rows in these batches."""
        writer = shipped(self._writer)
        rows = (each if isinstance(each, pa.RecordBatch) else self.batch(each) for each in batches)
        return shipped(writer.write(rows))

    def commit(self, *messages):
        shipped(self._writer).commit(list(messages))

    def abort(self, *messages):
        shipped(self._writer).abort(list(messages))

    def run(self, *tasks):
        """All of it, where nothing goes wrong; each task has one batch."""
        messages = [self.task(rows) for rows in tasks]
        self.commit(*messages)
        return messages


class StreamWrite(Write):
    """One batch of a streaming query; each step has a writer that was made for it."""

    def __init__(self, env, schema, options, number, monkeypatch, query="query"):
        self.schema = _parsed(schema)
        self._number = number
        self._make = lambda: env.source(**{"queue": "q", **options}).streamWriter(
            schema=self.schema, overwrite=False
        )
        self._of_task = lambda: monkeypatch.setattr(
            sink, "read_query_and_batch", lambda: (query, number)
        )

    @property
    def _writer(self):
        self._of_task()
        return self._make()

    def commit(self, *messages):
        self._writer.commit(list(messages), self._number)

    def abort(self, *messages):
        self._writer.abort(list(messages), self._number)


@pytest.fixture
def env(server):
    env = Env(server)
    yield env
    env.close()


@pytest.fixture
def queue(env):
    """A queue with default attributes."""
    env.rsmq.create_queue("q")
    return "q"
