"""
Connections to Redis in Spark's processes: the driver and the Python workers of executors.

Each process has one set of connections for each server and namespace.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import redis
from redis.backoff import ExponentialBackoff, NoBackoff
from redis.exceptions import NoPermissionError, ResponseError
from redis.retry import Retry

from rsmq import BYTES, RSMQ
from rsmq.errors import InvalidOption, QueueNotFound, RSMQError
from rsmq.spark.connection_options import ConnectionOptions
from rsmq.spark.scan import ScanStep
from rsmq.spark.source_options import SourceOptions
from rsmq.transport.routed_client import open_routed_pool
from rsmq.transport.socket import pack
from rsmq.transport.url import is_group_url, option_names
from rsmq.waiting.sync import Watcher
from rsmq.wire.keys import Namespace, QueueKeys

_MAX_RETRY_PAUSE_SECONDS = 1.0


@dataclass(frozen=True, slots=True)
class Server:
    """
    A Redis server and a namespace, as a process of Spark uses them.

    Attributes:
        rsmq: a client that runs operations.
        raw: a redis-py client for idempotent commands, which it retries for at least
            ``retry_deadline`` seconds.
        namespace: the namespace of the queues.
        watcher: waits for messages.
        make_unretried_connection: makes a connection that does not retry.
        open_patient_client: makes a redis-py client for a command that takes long, with the number
            of seconds that it waits for a reply. It does not repeat a command after that time.
    """

    rsmq: RSMQ
    raw: Any  # a redis.Redis, whose replies depend on its settings
    namespace: Namespace
    watcher: Watcher
    make_unretried_connection: Callable[[], Any]
    open_patient_client: Callable[[float], Any]

    def find_queues(self, source: SourceOptions) -> list[QueueKeys]:
        """
        Return the keys of the queues that a source reads and that exist now.

        Raises:
            QueueNotFound: a queue that the options name does not exist.
        """
        if source.pattern is not None:
            matches = re.compile(source.pattern).fullmatch
            names = [name for name in self.rsmq.list_queues() if matches(name)]
            return [self.namespace.queue(name) for name in names]
        for name in source.queues:
            self.require(name)
        return [self.namespace.queue(name) for name in source.queues]

    def require(self, name: str) -> None:
        """
        Raise an error if a queue does not exist.

        Raises:
            QueueNotFound: the queue does not exist, or lacks some of its attributes.
        """
        hash = self.namespace.queue(name).hash
        if None in self.raw.hmget(hash, ["vt", "delay", "maxsize"]):
            raise QueueNotFound(name, self.namespace.name)

    def hmget(self, hash: bytes, fields: list[bytes]) -> list[bytes | None]:
        """
        Return thousands of fields of a hash; retry as ``raw`` does.

        Packs the command itself: redis-py inspects each argument, which takes as long as all the
        rest of the call.
        """
        packed = list(pack((b"HMGET", hash, *fields)))
        pool = self.raw.connection_pool
        connection = pool.get_connection()

        def request() -> list[bytes | None]:
            connection.send_packed_command(packed)
            values: list[bytes | None] = connection.read_response(disable_decoding=True)
            return values

        try:
            answer: list[bytes | None] = connection.retry.call_with_retry(
                request, lambda _: connection.disconnect()
            )
            return answer
        finally:
            pool.release(connection)

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

    def make_scanner(self, keys: QueueKeys) -> Callable[[int, int], ScanStep]:
        """Return a function that reads a step of the scan of a queue's ids."""

        def read_step(cursor: int, count: int) -> ScanStep:
            pipeline = self.raw.pipeline(transaction=False)
            # A name in bytes: redis-py would convert the reply of its own command.
            pipeline.execute_command(b"ZSCAN", keys.zset, cursor, "COUNT", count)
            pipeline.zcard(keys.zset)
            (following, members), messages = pipeline.execute()
            return ScanStep(int(following), members, messages)

        return read_step

    def now_ms(self) -> int:
        """Return the time of the server's clock, Unix milliseconds."""
        seconds, microseconds = self.raw.time()
        return int(seconds) * 1000 + int(microseconds) // 1000


# By process id, too: a forked process must not use the connections of its parent.
_servers: dict[tuple[int, ConnectionOptions], Server] = {}


def get_server(options: ConnectionOptions) -> Server:
    """
    Return the server that options name; make its clients at the first call of this process.

    Raises:
        InvalidOption: the password can't be read, or redis-py refuses an option.
    """
    key = os.getpid(), options
    if key not in _servers:
        _servers[key] = _make_server(options)
    return _servers[key]


def _make_server(options: ConnectionOptions) -> Server:
    credentials: dict[str, Any] = {}
    password = _read_password(options)
    if password is not None:
        credentials["password"] = password
    deadline = options.retry_deadline
    attempts = 6 + round(deadline / _MAX_RETRY_PAUSE_SECONDS) if deadline else 0
    namespace = options.namespace
    try:
        rsmq = RSMQ.from_url(
            options.url,
            ns=namespace.name,
            strict_names=namespace.strict_names,
            codec=BYTES,
            retry_deadline=deadline,
            **credentials,
        )
    except RSMQError as error:
        names = [f"redis.{name}" for name in option_names(options.url)]
        raise InvalidOption(" or ".join(["url", *names]), str(error)) from None
    timeouts: dict[str, Any] = {"socket_timeout": 5.0, "socket_connect_timeout": 5.0}
    retrying = Retry(ExponentialBackoff(cap=_MAX_RETRY_PAUSE_SECONDS, base=0.05), attempts)
    settings = {**timeouts, **credentials, "protocol": 2}
    raw = redis.Redis.from_pool(_open_pool(options, retrying, settings))
    unretried = _open_pool(options, Retry(NoBackoff(), 0), settings)

    def open_patient_client(seconds: float) -> Any:
        backoff = ExponentialBackoff(cap=_MAX_RETRY_PAUSE_SECONDS, base=0.05)
        retry = Retry(backoff, attempts, supported_errors=(redis.exceptions.ConnectionError,))
        pool = _open_pool(options, retry, {**settings, "socket_timeout": seconds})
        return redis.Redis.from_pool(pool)

    return Server(
        rsmq,
        raw,
        namespace,
        rsmq.watcher,
        lambda: unretried.connection_class(**unretried.connection_kwargs),
        open_patient_client,
    )


def _open_pool(
    options: ConnectionOptions, retry: Retry, settings: dict[str, Any]
) -> redis.ConnectionPool:
    if is_group_url(options.url):
        return open_routed_pool(options.url, options.namespace.queues, retry, **settings)
    return redis.Redis.from_url(options.url, retry=retry, **settings).connection_pool


def _read_password(options: ConnectionOptions) -> str | None:
    if options.password_env is not None:
        password = os.environ.get(options.password_env)
        if password is None:
            raise InvalidOption(
                "passwordEnv",
                f"there is no environment variable {options.password_env} in this process. "
                "Executors get one by spark.executorEnv.NAME, or take passwordFile.",
            )
        return password
    if options.password_file is not None:
        try:
            return Path(options.password_file).read_text("utf-8").rstrip("\r\n")
        except (OSError, UnicodeDecodeError) as error:
            raise InvalidOption(
                "passwordFile",
                f"{options.password_file} can't be read on this machine: "
                f"{getattr(error, 'strerror', None) or 'no UTF-8'}.",
            ) from None
    return None
