"""
Connections to Redis in Spark's processes: the driver and the Python workers of executors.

Each process has one client for each server and namespace.
"""

from __future__ import annotations

import gc
import os
import re
import sys
from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from redis.exceptions import NoPermissionError, ResponseError

from rsmq import BYTES, RSMQ
from rsmq.errors import InvalidOption, QueueNotFound, RSMQError
from rsmq.operations.operation import Command
from rsmq.operations.plain import Word, parse_info, parse_time_us, plain_command, plain_commands
from rsmq.spark.connection_options import ConnectionOptions
from rsmq.spark.read.scan import PendingStep
from rsmq.spark.read.source_options import SourceOptions
from rsmq.transport.packing import pack
from rsmq.transport.threads.caller import Caller
from rsmq.transport.threads.pending import PendingCall
from rsmq.transport.url import option_names
from rsmq.wire.keys import Namespace, QueueKeys


def pack_fields(
    hash: bytes, ids: Sequence[bytes], suffixes: Sequence[bytes]
) -> list[bytes | memoryview]:
    """
    Return a packed HMGET of the fields of messages: for each id, those with the suffixes.

    If all ids have one length, which is usual, numpy fills a template of their rows: a command of
    thousands of fields is packed in a fifth of the time.

    Args:
        hash: the key of the hash.
        ids: the ids, at least one.
        suffixes: the ends of the names of the fields; an empty one is that of the body.
    """
    lengths = set(map(len, ids))
    length = lengths.pop()
    if lengths:
        return list(pack((b"HMGET", hash, *[id + suffix for id in ids for suffix in suffixes])))
    template, places = b"", []
    for suffix in suffixes:
        template += b"$%d\r\n" % (length + len(suffix))
        places.append(len(template))
        template += bytes(length) + suffix + b"\r\n"
    rows = np.empty((len(ids), len(template)), np.uint8)
    rows[:] = np.frombuffer(template, np.uint8)
    characters = np.frombuffer(b"".join(ids), np.uint8).reshape(len(ids), length)
    for place in places:
        rows[:, place : place + length] = characters
    number = 2 + len(ids) * len(suffixes)
    return [
        b"*%d\r\n$5\r\nHMGET\r\n$%d\r\n%b\r\n" % (number, len(hash), hash),
        rows.reshape(-1).data,
    ]


_modules_seen = 0


def spare_loaded_modules() -> None:
    """
    Exclude the objects that exist now from garbage collection, if modules were loaded since.

    Spark collects the garbage of this process after each task. With the modules that tasks need,
    this takes as long as the reading of thousands of messages. Does nothing while no module is
    loaded, so an object is excluded a few times at most.
    """
    global _modules_seen  # noqa: PLW0603 - of the process, as is the collector
    if len(sys.modules) != _modules_seen:
        _modules_seen = len(sys.modules)
        gc.freeze()


@dataclass(frozen=True, slots=True, eq=False)
class SparkServer:
    """
    A Redis server and a namespace, as a process of Spark uses them.

    Attributes:
        rsmq: a client that runs operations.
        caller: runs plain commands.
        is_only: whether the options name no other namespace.
    """

    rsmq: RSMQ
    caller: Caller
    namespace: Namespace
    is_only: bool

    def make_label(self, queue: str) -> str:
        """Return the name of a queue for people: behind the namespace, if there are others."""
        return queue if self.is_only else f"{self.namespace.name}:{queue}"

    def find_queues(self, source: SourceOptions, *, may_lack: bool = False) -> list[QueueKeys]:
        """
        Return the keys of the queues that a source reads and that exist now.

        Args:
            may_lack: whether queues that the options name are left out if they do not exist.

        Raises:
            QueueNotFound: a queue that the options name does not exist.
        """
        if source.pattern is not None:
            matches = re.compile(source.pattern).fullmatch
            names = [name for name in self.rsmq.list_queues() if matches(name)]
            return [self.namespace.queue(name) for name in names]
        if not may_lack:
            for name in source.queues:
                self.require(name)
        return [
            self.namespace.queue(name) for name in source.queues if not may_lack or self.has(name)
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

    def read_reasons(self, keys: QueueKeys, ids: Sequence[bytes]) -> list[bytes | None]:
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
        """Return the time of the server's clock, Unix milliseconds."""
        time_us: int = self.call("TIME", parse=parse_time_us)
        return time_us // 1000


@dataclass(frozen=True, slots=True)
class SparkQueue:
    """A queue of a server and namespace."""

    server: SparkServer
    keys: QueueKeys

    @property
    def label(self) -> str:
        """The name of the queue; see ``SparkServer.make_label``."""
        return self.server.make_label(self.keys.name)


def make_queue_not_found(name: str, ns: str) -> QueueNotFound:
    """Return the error of a queue that does not exist, with the remedy in Spark."""
    error = QueueNotFound(name, ns)
    error.hint = "Name a queue that exists, or check the options url and ns"
    return error


# By process id, too: a forked process must not use the connections of its parent.
_servers: dict[tuple[int, ConnectionOptions, str], SparkServer] = {}


def get_server(options: ConnectionOptions, ns: str | None = None) -> SparkServer:
    """
    Return the server that options name; make its client at the first call of this process.

    Args:
        ns: the namespace; None is the only one, or the first.

    Raises:
        InvalidOption: the password can't be read, or redis-py refuses an option.
    """
    ns = options.names[0] if ns is None else ns
    key = os.getpid(), options, ns
    if key not in _servers:
        _servers[key] = _make_server(options, ns)
    return _servers[key]


def get_servers(options: ConnectionOptions) -> list[SparkServer]:
    """Return the server of each namespace; the errors are those of ``get_server``."""
    return [get_server(options, ns) for ns in options.names]


def get_queue(options: ConnectionOptions, ns: str, name: str) -> SparkQueue:
    """Return a queue of a namespace; the errors are those of ``get_server``."""
    server = get_server(options, ns)
    return SparkQueue(server, server.namespace.queue(name))


def require_queues(options: ConnectionOptions, names: Collection[str]) -> None:
    """
    Raise an error if a queue does not exist in each namespace.

    Raises:
        QueueNotFound: a queue is missing in a namespace.
    """
    for server in get_servers(options):
        for name in names:
            server.require(name)


def _make_server(options: ConnectionOptions, ns: str) -> SparkServer:
    settings: dict[str, Any] = {
        "ns": ns,
        "strict_names": options.namespaces[0].strict_names,
        "codec": BYTES,
        "retry_deadline": options.retry_deadline,
        **_read_credentials(options),
    }
    try:
        rsmq: RSMQ[Any] = RSMQ.from_url(options.url, **settings)
    except RSMQError as error:
        names = [f"redis.{name}" for name in option_names(options.url)]
        words = re.findall(r"\w+", str(error))
        named = [name for name in names if name.removeprefix("redis.") in words]
        option = " or ".join(named or ["url", *names])
        raise InvalidOption(option, str(error), value=error.value) from None
    return SparkServer(rsmq, rsmq.caller, rsmq.namespace, options.names == (ns,))


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
