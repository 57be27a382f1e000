"""
Connections to Redis in Spark's processes: the driver and the Python workers of executors.

Each process has one set of connections for each server and namespace. An ordinary namespace is
treated as the only cell of a set.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import redis
from redis.backoff import ExponentialBackoff, NoBackoff
from redis.exceptions import NoPermissionError, RedisError, ResponseError
from redis.retry import Retry

from rsmq import BYTES, RSMQ
from rsmq.errors import CellFailed, InvalidOption, QueueNotFound, RSMQError
from rsmq.operations.operation import Operation
from rsmq.spark.connection_options import ConnectionOptions
from rsmq.spark.read.field_request import pack_fields
from rsmq.spark.read.pending_request import PendingRequest, read_replies
from rsmq.spark.read.scan import PendingStep
from rsmq.spark.read.source_options import SourceOptions
from rsmq.transport.socket import pack
from rsmq.transport.threads.routed_client import open_routed_pool
from rsmq.transport.url import is_group_url, option_names
from rsmq.waiting.threads import Watcher
from rsmq.wire.cells import cell_of_key, join_id
from rsmq.wire.keys import Namespace, QueueKeys

if TYPE_CHECKING:
    from rsmq.spark.cells_of_process import CellsOfProcess

T = TypeVar("T")

_MAX_RETRY_PAUSE_SECONDS = 1.0


@dataclass(frozen=True, slots=True, eq=False)
class SparkServer:
    """
    A Redis server and a namespace, as a process of Spark uses them.

    Attributes:
        rsmq: a client that runs operations.
        raw: a redis-py client for idempotent commands, which it retries for at least
            ``retry_deadline`` seconds.
        cell: the number of the cell; None for an ordinary namespace.
        find_watcher: returns what waits for messages. Cells of one server share it.
        make_unretried_connection: makes a connection that does not retry.
        open_patient_client: makes a redis-py client for a command that takes long, with the number
            of seconds that it waits for a reply. It does not repeat a command after that time.
    """

    rsmq: RSMQ
    raw: Any  # a redis.Redis, whose replies depend on its settings
    namespace: Namespace
    cell: int | None
    find_watcher: Callable[[], Watcher]
    make_unretried_connection: Callable[[], Any]
    open_patient_client: Callable[[float], Any]

    @property
    def id_prefix(self) -> bytes:
        """The number of the cell with its hyphen, with which ids begin; empty without cells."""
        return b"" if self.cell is None else join_id(self.cell, "").encode()

    @contextmanager
    def naming_cell(self) -> Iterator[None]:
        """
        Name the cell in errors of Redis.

        Raises:
            CellFailed: instead of an error of Redis, if this is a cell.
        """
        try:
            yield
        except (RedisError, OSError) as error:
            if self.cell is None:
                raise
            raise CellFailed(self.cell, self.namespace.name, error) from error

    def run(self, operation: Operation[T]) -> T:
        """
        Run an operation.

        Raises:
            CellFailed: as of ``naming_cell``.
        """
        with self.naming_cell():
            return self.rsmq.run(operation)

    def find_queues(self, source: SourceOptions, *, may_lack: bool = False) -> list[QueueKeys]:
        """
        Return the keys of the queues that a source reads and that exist now.

        Args:
            may_lack: whether queues that the options name are left out if they do not exist.

        Raises:
            QueueNotFound: a queue that the options name does not exist.
            CellFailed: as of ``naming_cell``.
        """
        with self.naming_cell():
            if source.pattern is not None:
                matches = re.compile(source.pattern).fullmatch
                names = [name for name in self.rsmq.list_queues() if matches(name)]
                return [self.namespace.queue(name) for name in names]
            if not may_lack:
                for name in source.queues:
                    self.require(name)
            return [
                self.namespace.queue(name)
                for name in source.queues
                if not may_lack or self.has(name)
            ]

    def has(self, name: str) -> bool:
        """Return whether a queue exists, with its attributes."""
        hash = self.namespace.queue(name).hash
        return None not in self.raw.hmget(hash, ["vt", "delay", "maxsize"])

    def require(self, name: str) -> None:
        """
        Raise an error if a queue does not exist.

        Raises:
            QueueNotFound: the queue does not exist, or lacks some of its attributes.
        """
        if not self.has(name):
            raise make_queue_not_found(name, self.namespace.name)

    def hmget(
        self, hash: bytes, ids: Sequence[bytes], suffixes: Sequence[bytes] = (b"",)
    ) -> list[bytes | None]:
        """Return fields of many messages, as ``pack_fields`` requests them; retry as ``raw``."""
        values: list[bytes | None] = self.request(pack_fields(hash, ids, suffixes), 1)[0]
        return values

    def request(self, packed: list[Any], number: int) -> list[Any]:
        """
        Send packed commands that change nothing, and return their replies; retry as ``raw`` does.

        redis-py inspects each argument of a command, which takes as long as all the rest of a call.

        Args:
            number: the number of commands.
        """
        pool = self.raw.connection_pool
        connection = pool.get_connection()

        def send() -> list[Any]:
            connection.send_packed_command(packed)
            return read_replies(connection, number)

        try:
            replies: list[Any] = connection.retry.call_with_retry(
                send, lambda _: connection.disconnect()
            )
            return replies
        finally:
            pool.release(connection)

    def begin_request(self, packed: list[Any], number: int) -> PendingRequest:
        """Send commands as ``request`` does, and read their replies later."""
        pool = self.raw.connection_pool
        return PendingRequest(pool, packed, number, lambda: self.request(packed, number))

    def find_queues_with_reasons(self, names: Iterable[str]) -> list[str]:
        """
        Return the queues beside which reasons of dead letters are stored, in order.

        Empty if the user lacks the right to read them.
        """
        try:
            return [name for name in names if self.raw.hlen(self.namespace.queue(name).reasons)]
        except NoPermissionError:
            return []

    def read_reasons(self, keys: QueueKeys, ids: list[bytes]) -> list[bytes | None]:
        """Return the stored reasons of dead letters; None for each if the user lacks the right."""
        try:
            return self.hmget(keys.reasons, ids)
        except NoPermissionError:
            return [None] * len(ids)

    def read_run(self) -> bytes | None:
        """
        Return the id of the present run of the server that has the queues.

        None if the user lacks the right, or if the server does not report it.
        """
        try:
            run: bytes | str | None = self.raw.info("server").get("run_id")
        except ResponseError:
            return None
        return run.encode() if isinstance(run, str) else run

    def make_scanner(self, keys: QueueKeys) -> Callable[[int, int], PendingStep]:
        """Return a function that begins a step of the scan of a queue's ids."""

        def begin_step(cursor: int, count: int) -> PendingStep:
            scan = b"ZSCAN", keys.zset, b"%d" % cursor, b"COUNT", b"%d" % count
            packed = [*pack(scan), *pack((b"ZCARD", keys.zset))]
            return PendingStep(self.begin_request(packed, 2))

        return begin_step

    def now_ms(self) -> int:
        """Return the time of the server's clock, Unix milliseconds."""
        seconds, microseconds = self.raw.time()
        return int(seconds) * 1000 + int(microseconds) // 1000


@dataclass(frozen=True, slots=True)
class PlacedQueue:
    """A queue of one namespace: of a cell, or an ordinary one."""

    server: SparkServer
    keys: QueueKeys

    @property
    def label(self) -> str:
        """The name of the queue. For a cell it begins with the number of the cell, as ids do."""
        return make_label(self.server.cell, self.keys.name)


def make_queue_not_found(name: str, ns: str) -> QueueNotFound:
    """Return the error of a queue that does not exist, with the remedy in Spark."""
    error = QueueNotFound(name, ns)
    error.hint = "Name a queue that exists, or check the options url and ns"
    return error


def make_label(cell: int | None, queue: str) -> str:
    """Return the label of a queue; see ``PlacedQueue``."""
    return queue if cell is None else join_id(cell, queue)


def find_placed_queue(options: ConnectionOptions, label: str) -> PlacedQueue:
    """Return the queue of a label; see ``PlacedQueue``."""
    if options.cells is None:
        server, name = get_server(options), label
    else:
        cell, _, name = label.partition("-")
        server = get_server(options, int(cell))
    return PlacedQueue(server, server.namespace.queue(name))


# By process id, too: a forked process must not use the connections of its parent.
_servers: dict[tuple[int, ConnectionOptions, int], SparkServer] = {}
_sets: dict[tuple[int, ConnectionOptions], CellsOfProcess] = {}
_pools: dict[tuple[int, ConnectionOptions, int, str], _Pools] = {}


def get_server(options: ConnectionOptions, cell: int = 0) -> SparkServer:
    """
    Return the server that options name; make its clients at the first call of this process.

    Args:
        cell: the number of the cell; 0 also for an ordinary namespace. At its first use it is
            checked that the cell belongs to the set.

    Raises:
        InvalidOption: the password can't be read, or redis-py refuses an option.
        CellsMismatch: the cell belongs to another set.
        CellFailed: its server can't be reached.
    """
    key = os.getpid(), options, cell
    if key not in _servers:
        _servers[key] = _make_server(options, cell)
    return _servers[key]


def get_servers(options: ConnectionOptions) -> list[SparkServer]:
    """Return the server of each cell, or the only one; the errors are those of ``get_server``."""
    return [get_server(options, cell) for cell in range(options.cells or 1)]


def get_home(options: ConnectionOptions, write: str) -> SparkServer:
    """
    Return the server that stores the decisions of a write.

    Args:
        write: the name of the write. The cell depends on it, so that writes are spread over cells.
    """
    return get_server(options, cell_of_key(write, options.cells or 1))


@dataclass(frozen=True, slots=True)
class _Pools:
    """Pools of connections to one server: one that retries, and one that does not."""

    retried: redis.ConnectionPool
    unretried: redis.ConnectionPool


def _make_server(options: ConnectionOptions, cell: int) -> SparkServer:
    credentials = _read_credentials(options)
    deadline = options.retry_deadline
    attempts = 6 + round(deadline / _MAX_RETRY_PAUSE_SECONDS) if deadline else 0
    url = options.urls[cell if len(options.urls) > 1 else 0]
    try:
        rsmq, find_watcher = _open_client(options, cell, credentials)
    except RSMQError as error:
        names = [f"redis.{name}" for name in option_names(url)]
        raise InvalidOption(" or ".join(["url", *names]), str(error)) from None
    timeouts: dict[str, Any] = {"socket_timeout": 5.0, "socket_connect_timeout": 5.0}
    settings = {**timeouts, **credentials, "protocol": 2}
    namespace = rsmq.namespace

    def open_pool(retry: Retry, **more: Any) -> redis.ConnectionPool:
        return _open_pool(url, namespace, retry, {**settings, **more})

    # Cells on one server share its connections; those of a group are for one slot.
    key = os.getpid(), options, cell if is_group_url(url) else -1, url
    if key not in _pools:
        retrying = Retry(ExponentialBackoff(cap=_MAX_RETRY_PAUSE_SECONDS, base=0.05), attempts)
        _pools[key] = _Pools(open_pool(retrying), open_pool(Retry(NoBackoff(), 0)))
    pools = _pools[key]

    def open_patient_client(seconds: float) -> Any:
        backoff = ExponentialBackoff(cap=_MAX_RETRY_PAUSE_SECONDS, base=0.05)
        retry = Retry(backoff, attempts, supported_errors=(redis.exceptions.ConnectionError,))
        return redis.Redis.from_pool(open_pool(retry, socket_timeout=seconds))

    unretried = pools.unretried
    server = SparkServer(
        rsmq,
        redis.Redis.from_pool(pools.retried),
        namespace,
        None if options.cells is None else cell,
        find_watcher,
        lambda: unretried.connection_class(**unretried.connection_kwargs),
        open_patient_client,
    )
    if options.cells is not None:
        with server.naming_cell():
            _sets[os.getpid(), options].check_cell(cell)
    return server


def _open_client(
    options: ConnectionOptions, cell: int, credentials: dict[str, Any]
) -> tuple[RSMQ[Any], Callable[[], Watcher]]:
    """Return a client of the namespace, and the function that finds its watcher."""
    namespace = options.namespace
    settings: dict[str, Any] = {
        "ns": namespace.name,
        "strict_names": namespace.strict_names,
        "codec": BYTES,
        "retry_deadline": options.retry_deadline,
        **credentials,
    }
    if options.cells is None:
        rsmq = RSMQ.from_url(options.urls[0], **settings)
        return rsmq, lambda: rsmq.watcher
    key = os.getpid(), options
    if key not in _sets:
        from rsmq.spark.cells_of_process import CellsOfProcess  # noqa: PLC0415 - takes time

        _sets[key] = CellsOfProcess.from_url(options.urls, cells=options.cells, **settings)
    cells = _sets[key]
    return cells.cells[cell], lambda: cells.find_watcher(cell)


def _open_pool(
    url: str, namespace: Namespace, retry: Retry, settings: dict[str, Any]
) -> redis.ConnectionPool:
    if is_group_url(url):
        return open_routed_pool(url, namespace.queues, retry, **settings)
    return redis.Redis.from_url(url, retry=retry, **settings).connection_pool


def _read_credentials(options: ConnectionOptions) -> dict[str, str]:
    """Return the passwords that the options name, as options of a client."""
    passwords = {
        "password": _read_password("password", options.password_env, options.password_file),
        "sentinel_password": _read_password(
            "sentinelPassword", options.sentinel_password_env, options.sentinel_password_file
        ),
    }
    return {name: password for name, password in passwords.items() if password is not None}


def _read_password(option: str, variable: str | None, file: str | None) -> str | None:
    """
    Return a password.

    Args:
        option: the beginning of the names of its two options.
        variable: the environment variable that holds it; None if there is none.
        file: the file that holds it; None if there is none.

    Raises:
        InvalidOption: the variable is missing, or the file can't be read.
    """
    if variable is not None:
        password = os.environ.get(variable)
        if password is None:
            raise InvalidOption(
                f"{option}Env",
                f"there is no environment variable {variable} in this process. "
                f"Executors get one by spark.executorEnv.NAME, or take {option}File.",
            )
        return password
    if file is not None:
        try:
            return Path(file).read_text("utf-8").rstrip("\r\n")
        except (OSError, UnicodeDecodeError) as error:
            raise InvalidOption(
                f"{option}File",
                f"{file} can't be read on this machine: "
                f"{getattr(error, 'strerror', None) or 'no UTF-8'}.",
            ) from None
    return None
