"""
Connections to Redis in Spark's processes, one set for each process.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import parse_qsl

import redis
from redis.backoff import ExponentialBackoff, NoBackoff
from redis.retry import Retry

from rsmq import BYTES, RSMQ
from rsmq.errors import InvalidOption, QueueNotFound, RSMQError
from rsmq.spark.options import ConnectionOptions, SourceOptions
from rsmq.transport.socket import pack
from rsmq.waiting.sync import Watcher
from rsmq.wire.keys import Namespace, QueueKeys

#: The longest pause between two attempts to read, seconds.
_PAUSE = 1.0


@dataclass(frozen=True, slots=True)
class Server:
    """
    A Redis server.

    Attributes:
        rsmq: runs operations on it.
        raw: runs plain commands that may run twice, again and again until they are answered.
        namespace: whose queues these are.
        watcher: waits for messages.
        once: makes a connection that tries nothing twice.
    """

    rsmq: RSMQ
    raw: Any  # a redis.Redis, whose replies depend on its settings
    namespace: Namespace
    watcher: Watcher
    once: Callable[[], Any]

    def queues(self, source: SourceOptions) -> list[QueueKeys]:
        """
        The queues that a source reads, as they are there now.

        Raises:
            QueueNotFound: one that is named is missing.
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
        See that a queue is there.

        Raises:
            QueueNotFound: it is not, or only half made.
        """
        hash = self.namespace.queue(name).hash
        if None in self.raw.hmget(hash, ["vt", "delay", "maxsize"]):
            raise QueueNotFound(name)

    def hmget(self, hash: bytes, fields: list[bytes]) -> list[bytes | None]:
        """
        Thousands of fields of a hash, again and again until they are answered.

        Packed in one go: redis-py looks at each argument, which takes as long as all the rest.
        """
        packed = list(pack((b"HMGET", hash, *fields)))
        pool = self.raw.connection_pool
        connection = pool.get_connection()

        def ask() -> list[bytes | None]:
            connection.send_packed_command(packed)
            values: list[bytes | None] = connection.read_response(disable_decoding=True)
            return values

        try:
            answer: list[bytes | None] = connection.retry.call_with_retry(
                ask, lambda _: connection.disconnect()
            )
            return answer
        finally:
            pool.release(connection)

    def now_ms(self) -> int:
        """The server's clock."""
        seconds, microseconds = self.raw.time()
        return int(seconds) * 1000 + int(microseconds) // 1000


_open: dict[tuple[int, ConnectionOptions], Server] = {}


def server(options: ConnectionOptions) -> Server:
    """
    The server that the options name, for this process.

    Raises:
        InvalidOption: the password can't be found, or redis-py refuses an option.
    """
    place = os.getpid(), options  # a child process must not use its parent's connections
    if place not in _open:
        _open[place] = _connect(options)
    return _open[place]


def _connect(options: ConnectionOptions) -> Server:
    secret: dict[str, Any] = {}
    password = _password(options)
    if password is not None:
        secret["password"] = password
    deadline = options.retry_deadline
    attempts = 6 + round(deadline / _PAUSE) if deadline else 0
    namespace = options.namespace
    try:
        rsmq = RSMQ.from_url(
            options.url,
            ns=namespace.name,
            strict_names=namespace.strict_names,
            codec=BYTES,
            retry_deadline=deadline,
            **secret,
        )
    except RSMQError as error:
        # Not urlsplit: what is wrong with the url may be what it chokes at.
        given = [f"redis.{name}" for name, _ in parse_qsl(options.url.partition("?")[2])]
        name = " or ".join(["url", *given])
        raise InvalidOption(name, error.hint or str(error)) from None
    times: dict[str, Any] = {"socket_timeout": 5.0, "socket_connect_timeout": 5.0}
    patient = Retry(ExponentialBackoff(cap=_PAUSE, base=0.05), attempts)
    raw = redis.Redis.from_url(options.url, **{**times, **secret, "retry": patient, "protocol": 2})
    once = Retry(NoBackoff(), 0)
    waiting = redis.ConnectionPool.from_url(options.url, **{**times, **secret, "retry": once})
    watcher = Watcher(waiting, namespace, lambda: None)
    return Server(
        rsmq,
        raw,
        namespace,
        watcher,
        lambda: waiting.connection_class(**waiting.connection_kwargs),
    )


def _password(options: ConnectionOptions) -> str | None:
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
