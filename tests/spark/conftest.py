"""
Fixtures that call the data source as Spark does, without a JVM, against a real server.

Objects that Spark sends from one process to another are pickled here, too: the reader that plans is
never the one that reads, and the writer that writes is never the one that commits.
"""

from __future__ import annotations

import itertools
import json
import pickle
import threading
from contextlib import contextmanager

import pyarrow as pa
import pytest
import redis
from pyspark import cloudpickle
from pyspark.sql.datasource import CaseInsensitiveDict, InputPartition
from pyspark.sql.pandas.types import to_arrow_schema
from pyspark.sql.types import StructType
from pyspark.sql.worker.plan_data_source_read import records_to_arrow_batches

from rsmq import RSMQ
from rsmq.spark import RsmqDataSource, connections
from rsmq.spark.connection_options import parse_connection_options
from rsmq.spark.stream.batches import BatchesInFlight
from rsmq.spark.write import sink
from rsmq.wire.keys import Namespace

_numbers = itertools.count()


def pickle_round_trip(value):
    """Return a copy of an object, as another process receives it from either pickler."""
    return pickle.loads(cloudpickle.dumps(pickle.loads(pickle.dumps(value))))


def json_round_trip(value):
    """Return a copy of an offset or a limit, as Spark receives it over its socket."""
    return json.loads(json.dumps(value))


def columns(**types):
    """Return a schema of columns, from Spark's names of their types."""
    schema = StructType()
    for name, kind in types.items():
        schema.add(name, kind)
    return schema


class Crashed(Exception):
    """The simulated end of a process."""


@contextmanager
def crash_at_call(server, calls, *, answered=False, thread=None):
    """
    Raise Crashed at a call of operations; calls of the heartbeat do not count.

    Args:
        server: the server that is called.
        calls: how many calls succeed before.
        answered: whether the server runs the operation of the crash.
        thread: the name of the only thread whose calls count; None is any thread.
    """
    run, left = server.rsmq.run, itertools.count(calls, -1)

    def run_or_crash(operation):
        caller = threading.current_thread().name
        if caller == "rsmq-lease" or thread not in (None, caller) or next(left) > 0:
            return run(operation)
        if answered:
            run(operation)
        if caller == "rsmq-ahead":  # ends, as the process does, without a warning of pytest
            raise redis.exceptions.ConnectionError
        raise Crashed

    server.rsmq.run = run_or_crash
    try:
        yield
    finally:
        del server.rsmq.run


class Env:
    """A namespace on a server, with access to its raw keys."""

    def __init__(self, redis_server, **secret):
        self.redis = redis_server
        self.ns = f"s{next(_numbers)}"
        self.raw = redis_server.raw(**secret)
        self.rsmq = RSMQ.from_url(redis_server.url, ns=self.ns, **secret)
        self._closers = []

    def options(self, **options):
        """Return options with those of the connection, as texts, as Spark passes them."""
        options = {"url": self.redis.url, "ns": self.ns, **options}
        texts = CaseInsensitiveDict()
        for name, value in options.items():
            text = value if isinstance(value, str) else json.dumps(value)
            texts[name.replace("__", ".")] = text
        return texts

    def source(self, **options):
        return pickle_round_trip(RsmqDataSource(options=self.options(**options)))

    def server(self):
        """Return the connections of this process, which readers and writers use."""
        return connections.get_server(parse_connection_options(self.options()))

    def keys(self, queue="q"):
        return Namespace(self.ns).queue(queue)

    def queue(self, name="q"):
        return connections.SparkQueue(self.server(), self.keys(name))

    def fields(self, queue="q"):
        stored = self.raw.hgetall(self.keys(queue).hash)
        return {name.decode(errors="replace"): value for name, value in stored.items()}

    def scores(self, queue="q"):
        stored = self.raw.zrange(self.keys(queue).zset, 0, -1, withscores=True)
        return {id.decode(errors="replace"): score for id, score in stored}

    def bodies(self, queue="q"):
        """Return the bodies of all messages, in the order in which they become visible."""
        ids = self.raw.zrange(self.keys(queue).zset, 0, -1)
        return self.raw.hmget(self.keys(queue).hash, ids) if ids else []

    def put(self, id, body, queue="q", score=None, **fields):
        """Store a message as another client may store it."""
        id = id if isinstance(id, bytes) else id.encode()
        score = self.now_ms() - 1 if score is None else score
        named = {id + b":" + name.encode(): value for name, value in fields.items()}
        self.raw.hset(self.keys(queue).hash, mapping={id: body, **named})
        self.raw.zadd(self.keys(queue).zset, {id: score})

    def state(self):
        """
        Return all keys of the namespace, and whether each of them expires.

        Without the entries of streams, which each stream writes and deletes: test_why.py.
        """
        return {
            key: (self.raw.dump(key), self.raw.pttl(key) >= 0)
            for key in sorted(self.raw.keys(f"{self.ns}:*"))
            if key != f"{self.ns}:x:streams".encode()
        }

    def now_ms(self):
        seconds, microseconds = self.raw.time()
        return seconds * 1000 + microseconds // 1000

    def elapse(self, seconds, queue="q"):
        """Simulate that time passes, by lowering the scores."""
        for id, score in self.raw.zrange(self.keys(queue).zset, 0, -1, withscores=True):
            self.raw.zadd(self.keys(queue).zset, {id: score - seconds * 1000})

    @contextmanager
    def commands(self):
        """Collect the commands that the server runs in this block, including those of scripts."""
        found = []
        self.raw.ping()
        with self.redis.raw() as client, client.monitor() as monitor:
            yield found
            self.raw.echo("end of commands")
            for command in monitor.listen():
                if command["command"] == "ECHO end of commands":
                    break
                found.append(command["command"])

    def read(self, schema=None, filters=None, **options):
        """Return all rows of a batch read."""
        return [row for batch in self.plan_read(schema, filters, **options)() for row in batch]

    def plan_read(self, schema=None, filters=None, **options):
        """Plan a batch read; return a function that reads each partition."""
        source = self.source(**options)
        schema = _parsed(schema or source.schema())
        reader = source.reader(schema=schema)
        remaining = None if filters is None else list(reader.pushFilters(filters))
        on_executors = pickle_round_trip(reader)  # before the partitions are planned, as in Spark
        partitions = [pickle_round_trip(each) for each in reader.partitions()]

        def read():
            return [
                _rows(source, on_executors, schema, each)
                for each in partitions or [InputPartition(None)]
            ]

        read.partitions, read.remaining_filters = partitions, remaining
        return read

    def query(self, *, kind=None, **options):
        """Start a streaming query."""
        query = (kind or Query)(self, **options)
        self._closers.append(query.crash)
        return query

    def write(self, schema, **options):
        """Start a batch write."""
        return Write(self, schema, {"queue": "q", **options})

    def disconnect(self):
        """Close the connections of this process, so that the next call makes new ones."""
        servers = connections._servers
        for key in [key for key in servers if self.ns in key[1].names]:
            servers.pop(key).rsmq.close()

    def close(self):
        for close in self._closers:
            close()
        self.disconnect()
        self.rsmq.close()
        self.raw.close()


class SeveralEnv(Env):
    """
    Several namespaces on a server, of which the first one has the attributes of ``Env``.

    Attributes:
        names: the namespaces.
        clients: a client of each.
    """

    def __init__(self, redis_server, number=2):
        super().__init__(redis_server)
        self.names = [self.ns, *(f"{{{self.ns}}}-{each}" for each in range(1, number))]
        others = [RSMQ.from_url(redis_server.url, ns=name) for name in self.names[1:]]
        self.clients = [self.rsmq, *others]
        self._closers += [client.close for client in others]

    def options(self, **options):
        return super().options(**{"ns": ", ".join(self.names), **options})

    def servers(self):
        """Return the connections of this process to each namespace."""
        return connections.get_servers(parse_connection_options(self.options()))

    def create_queue(self, name):
        for client in self.clients:
            client.create_queue(name)

    def stored(self, queue="q"):
        """Return the bodies of each namespace as Redis stores them, in the order of the queue."""
        found = []
        for name in self.names:
            keys = Namespace(name).queue(queue)
            ids = self.raw.zrange(keys.zset, 0, -1)
            found.append([self.raw.hget(keys.hash, id).decode() for id in ids])
        return found


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
    A streaming query that makes the calls of Spark's engine, in its order.

    The logs, and the sink, which has each batch once, survive a crash; the reader does not.
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
        """Start a new process, which reads the logs."""
        self.reader = pickle_round_trip(self._source).streamReader(schema=self._schema)
        self.on_executors = pickle_round_trip(self._source.streamReader(schema=self._schema))
        self._end = None
        if self._available_now:
            self.reader.prepareForTriggerAvailableNow()

    def request_offset(self, *, wake=True):
        """
        Return the offset after the last batch in the log; None if there are no messages.

        Wakes an idle reader before, as a message does, unless ``wake`` is False.
        """
        if wake and self.reader.consumer is not None:
            self.reader.consumer.idle_wait.end()
        start = self.offsets[-1] if self.offsets else json_round_trip(self.reader.initialOffset())
        end = json_round_trip(self.latest_offset(self.reader, start))
        self.reader.consumer.background.finish()
        self.progress = json_round_trip(self.reader.reportLatestOffset())
        return None if json.dumps(start) == json.dumps(end) else end

    def latest_offset(self, reader, start):
        """Return the latest offset of a reader, in the call of this version of Spark."""
        return reader.latestOffset(
            json_round_trip(start), self._limit or reader.getDefaultReadLimit()
        )

    def poll(self):
        """Request a batch and log it; return whether there is one."""
        end = self.request_offset()
        if end is not None:
            if self.offsets:
                self.reader.commit(self.offsets[-1])
            self.offsets.append(end)
        return end is not None

    def plan(self):
        """Return the partitions of the last batch in the log."""
        earlier = self.offsets[-2:-1] or [json_round_trip(self.reader.initialOffset())]
        partitions = self.reader.partitions(
            json_round_trip(earlier[0]), json_round_trip(self.offsets[-1])
        )
        return [pickle_round_trip(each) for each in partitions]

    def tasks(self, partitions):
        """Return the rows that each task reads."""
        return [
            _rows(self._source, pickle_round_trip(self.on_executors), self._schema, each)
            for each in partitions or [InputPartition(None)]
        ]

    def finish(self):
        """Read the last batch in the log into the sink; replace rows of an earlier attempt."""
        rows = [row for task in self.tasks(self.plan()) for row in task]
        if self.reader.consumer is not None:  # OlderStreamReader has none for an empty batch
            self.reader.consumer.background.finish()
        self.sink[len(self.offsets)] = rows
        self.done = len(self.offsets)
        return rows

    def run(self):
        """Run the next batch and return its rows; None if there are no messages."""
        return self.finish() if self.poll() else None

    def run_until_empty(self):
        """Run batches until there are no messages; return the rows of each batch."""
        return list(iter(self.run, None))

    def crash(self, *, is_stopped=False):
        """
        End the process of the reader, and wait for its threads, so that it does nothing more.

        Unless it is stopped, it does not release the batch that it received ahead.
        """
        lease = self.reader.consumer
        if lease is not None and not is_stopped:
            lease.heartbeat.stopped.set()
            lease.background.finish()
            lease.parts.batches = BatchesInFlight()
        self.reader.stop()
        if lease is not None and lease.heartbeat.is_alive():
            lease.heartbeat.join()

    def restart(self):
        """Start a new process; return the rows of the logged batch that was not done, or None."""
        self.crash()
        self.start()
        return self.finish() if self.done < len(self.offsets) else None

    def ids(self):
        """Return the ids of all rows in the sink."""
        return [row["id"] for number in sorted(self.sink) for row in self.sink[number]]


class OlderQuery(Query):
    """
    A query of PySpark 4.0 or 4.1, which does not pass the reader what its logs have.

    A new checkpoint requests and logs its first offset before ``plan`` calls ``initialOffset``.
    """

    def request_offset(self, *, wake=True):
        if wake and self.reader.consumer is not None:
            self.reader.consumer.idle_wait.end()
        end = json_round_trip(self.latest_offset(self.reader, None))
        self.reader.consumer.background.finish()
        is_new = not self.offsets or json.dumps(self.offsets[-1]) != json.dumps(end)
        return end if is_new else None

    def latest_offset(self, reader, start):
        return reader.latestOffset()


class Write:
    """A write of a frame, as in Spark: tasks that each have their own writer, and a driver."""

    def __init__(self, env, schema, options):
        self.schema = _parsed(schema)
        source = env.source(**options)
        self.writer = pickle_round_trip(source.writer(schema=self.schema, overwrite=False))

    def batch(self, rows, timezone="UTC"):
        """Return rows as a record batch, as a task receives them."""
        schema = to_arrow_schema(self.schema, timezone=timezone)
        return pa.RecordBatch.from_pylist(rows, schema=schema)

    def task(self, *batches):
        """Run one attempt of a task with these batches of rows."""
        writer = pickle_round_trip(self.writer)
        rows = (each if isinstance(each, pa.RecordBatch) else self.batch(each) for each in batches)
        return pickle_round_trip(writer.write(rows))

    def commit(self, *messages):
        pickle_round_trip(self.writer).commit(list(messages))

    def abort(self, *messages):
        pickle_round_trip(self.writer).abort(list(messages))

    def run(self, *tasks):
        """Run a task for each list of rows, and commit."""
        messages = [self.task(rows) for rows in tasks]
        self.commit(*messages)
        return messages


class StreamWrite(Write):
    """One batch of a streaming query; each step creates a new writer."""

    def __init__(self, env, schema, options, number, monkeypatch, query="query"):
        self.schema = _parsed(schema)
        self._number = number
        self._make_writer = lambda: env.source(**{"queue": "q", **options}).streamWriter(
            schema=self.schema, overwrite=False
        )
        self._set_task_batch = lambda: monkeypatch.setattr(
            sink, "read_query_and_batch", lambda: (query, number)
        )

    @property
    def writer(self):
        self._set_task_batch()
        return self._make_writer()

    def commit(self, *messages):
        self.writer.commit(list(messages), self._number)

    def abort(self, *messages):
        self.writer.abort(list(messages), self._number)


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
