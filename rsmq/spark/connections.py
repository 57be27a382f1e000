"""
Connections to Redis in Spark's processes: the driver and the Python workers of executors.

Each process has one set of connections for each server and namespace. An ordinary namespace is
treated as the only cell of a set.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

from redis.exceptions import NoPermissionError, RedisError, ResponseError

from rsmq import BYTES, RSMQ
from rsmq.errors import CellFailed, InvalidOption, QueueNotFound, RSMQError
from rsmq.operations.operation import Command, Operation
from rsmq.operations.plain import (
    Word,
    parse_info,
    parse_time_us,
    plain_command,
    plain_commands,
)
from rsmq.spark.connection_options import ConnectionOptions
from rsmq.spark.read.field_request import pack_fields
from rsmq.spark.read.scan import PendingStep
from rsmq.spark.read.source_options import SourceOptions
from rsmq.transport.threads.caller import Caller
from rsmq.transport.threads.pending import PendingCall
from rsmq.transport.url import option_names
from rsmq.waiting.threads import Watcher
from rsmq.wire.cells import cell_of_key, join_id
from rsmq.wire.keys import Namespace, QueueKeys

T = TypeVar("T")


@dataclass(frozen=True, slots=True, eq=False)
class SparkServer:
    """
    A Redis server and a namespace, as a process of Spark uses them.

    Attributes:
        rsmq: a client that runs operations.
        caller: runs plain commands.
        cell: the number of the cell; None for an ordinary namespace.
        find_watcher: returns what waits for messages. Cells of one server share it.
    """

    rsmq: RSMQ
    caller: Caller
    namespace: Namespace
    cell: int | None
    find_watcher: Callable[[], Watcher]

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
        return None not in self.call("HMGET", hash, "vt", "delay", "maxsize")

    def require(self, name: str) -> None:
        """
        Raise an error if a queue does not exist.

        Raises:
            QueueNotFound: the queue does not exist, or lacks some of its attributes.
        """
        if not self.has(name):
            raise make_queue_not_found(name, self.namespace.name)

    def call(self, *words: Word, parse: Callable[[Any], Any] = lambda reply: reply) -> Any:
        """Run a plain command that may run again, and return its reply."""
        return self.caller.run(plain_command(*words, key=self.namespace.queues, parse=parse))

    def call_atomically(self, commands: Sequence[Command], seconds: float | None = None) -> Any:
        """
        Return the replies to plain commands that change nothing; atomic.

        Args:
            commands: the commands.
            seconds: how long to wait for the replies, if they take long. The commands are not
                repeated after that time.
        """
        operation = plain_commands(
            self.namespace.queues, commands, in_transaction=True, reply_timeout=seconds
        )
        if seconds is not None:
            operation.retry_deadline = min(seconds, self.caller.origin.retry_deadline)
        return self.caller.run(operation)

    def hmget(
        self, hash: bytes, ids: Sequence[bytes], suffixes: Sequence[bytes] = (b"",)
    ) -> list[bytes | None]:
        """Return fields of many messages, as ``pack_fields`` requests them."""
        values: list[bytes | None] = self.request([pack_fields(hash, ids, suffixes)])[0]
        return values

    def request(self, commands: Sequence[Command]) -> list[Any]:
        """Send commands that change nothing, and return their replies."""
        return self.caller.run(plain_commands(self.namespace.queues, commands))

    def begin_request(self, commands: Sequence[Command]) -> PendingCall[list[Any]]:
        """Send commands as ``request`` does, and read their replies later."""
        return self.caller.begin(plain_commands(self.namespace.queues, commands))

    def find_queues_with_reasons(self, names: Iterable[str]) -> list[str]:
        """
        Return the queues beside which reasons of dead letters are stored, in order.

        Empty if the user lacks the right to read them.
        """
        try:
            return [name for name in names if self.call("HLEN", self.namespace.queue(name).reasons)]
        except NoPermissionError:
            return []

    def read_reasons(self, keys: QueueKeys, ids: list[bytes]) -> list[bytes | None]:
        """Return the stored reasons of dead letters; None for each if the user lacks the right."""
        try:
            return self.hmget(keys.reasons, ids)
        except NoPermissionError:
            return [None] * len(ids)

    def count_held_back(self, keys: QueueKeys) -> int:
        """Return the number of records of messages that are held back; 0 without the right."""
        try:
            number: int = self.call("ZCARD", keys.held_back)
        except NoPermissionError:
            return 0
        return number

    def read_run(self) -> bytes | None:
        """
        Return the id of the present run of the server that has the queues.

        None if the user lacks the right, or if the server does not report it.
        """
        try:
            run = self.call("INFO", "server", parse=parse_info).get("run_id")
        except ResponseError:
            return None
        return None if run is None else run.encode()

    def make_scanner(self, keys: QueueKeys) -> Callable[[int, int], PendingStep]:
        """Return a function that begins a step of the scan of a queue's ids."""

        def begin_step(cursor: int, count: int) -> PendingStep:
            scan = b"ZSCAN", keys.zset, b"%d" % cursor, b"COUNT", b"%d" % count
            return PendingStep(self.begin_request([scan, (b"ZCARD", keys.zset)]))

        return begin_step

    def now_ms(self) -> int:
        """
        Return the time of the server's clock, Unix milliseconds.

        Raises:
            CellFailed: as of ``naming_cell``.
        """
        with self.naming_cell():
            time_us: int = self.call("TIME", parse=parse_time_us)
        return time_us // 1000


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


def require_queues(options: ConnectionOptions, names: Collection[str]) -> None:
    """
    Raise an error if a queue does not exist in each cell.

    Raises:
        QueueNotFound: a queue does not exist, or is missing in a cell.
        CellFailed: the server of a cell can't be reached.
    """
    for server in get_servers(options):
        with server.naming_cell():
            for name in names:
                server.require(name)


def get_home(options: ConnectionOptions, write: str) -> SparkServer:
    """
    Return the server that stores the decisions of a write.

    Args:
        write: the name of the write. The cell depends on it, so that writes are spread over cells.
    """
    return get_server(options, cell_of_key(write, options.cells or 1))


def _make_server(options: ConnectionOptions, cell: int) -> SparkServer:
    credentials = _read_credentials(options)
    url = options.urls[cell if len(options.urls) > 1 else 0]
    try:
        rsmq, caller, find_watcher = _open_client(options, credentials)
    except RSMQError as error:
        names = [f"redis.{name}" for name in option_names(url)]
        words = re.findall(r"\w+", str(error))
        named = [name for name in names if name.removeprefix("redis.") in words]
        option = " or ".join(named or ["url", *names])
        raise InvalidOption(option, str(error), value=error.value) from None
    number = None if options.cells is None else cell
    return SparkServer(rsmq, caller, rsmq.namespace, number, find_watcher)


def _open_client(
    options: ConnectionOptions, credentials: dict[str, Any]
) -> tuple[RSMQ[Any], Caller, Callable[[], Watcher]]:
    """Return a client of the namespace, its caller, and the function that finds its watcher."""
    namespace = options.namespace
    settings: dict[str, Any] = {
        "ns": namespace.name,
        "strict_names": namespace.strict_names,
        "codec": BYTES,
        "retry_deadline": options.retry_deadline,
        **credentials,
    }
    rsmq = RSMQ.from_url(options.urls[0], **settings)
    return rsmq, rsmq.caller, lambda: rsmq.watcher


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
