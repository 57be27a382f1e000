"""
The processes that push to subscribers: any number of them, without a leader.

``SubscriberPusher`` copies the messages of queues to the queues of their subscribers, and pushes
each of these as a webhook of a worker of its own. So no subscriber takes the slots of another.
"""

from __future__ import annotations

import math
import os
import threading
import time
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from dataclasses import replace
from typing import Any, Self

from redis.exceptions import RedisError, ResponseError

from rsmq._sync.client import RSMQ
from rsmq.errors import ClientClosed, InvalidFormat, QueueNotFound, RSMQError
from rsmq.errors.guarded_log import get_logger
from rsmq.operations.arguments import resolve_queues
from rsmq.push.operations import RECORD_CHANGED, fan_out, list_subscribers, remove_subscriber
from rsmq.push.subscriber import Subscriber, parse_subscriber
from rsmq.transport.signals import Flag
from rsmq.webhooks.proxy import Reach
from rsmq.webhooks.shared_breaker import note_refusal
from rsmq.wire.limits import check_duration
from rsmq.worker.loop.shutdown import Signals
from rsmq.worker.middleware import Middleware, MiddlewareOfOneWorker
from rsmq.worker.registry import list_workers
from rsmq.worker.worker import Worker

_log = get_logger("rsmq.push")

#: Seconds between two reads of the version of the subscribers.
REFRESH_SECONDS = 1.0
#: Seconds between two attempts to read or copy after an error.
_RETRY_SECONDS = 1.0
_GRACE_SECONDS = 30.0


class FanOut:
    """
    Copies the messages of queues in one namespace to the queues of their subscribers.

    It runs in a thread of its own.

    Attributes:
        subscribers: the subscribers by their fields, as last read; those that can't be read are
            None. Only this thread writes it.
    """

    def __init__(
        self,
        client: RSMQ[Any],
        queues: frozenset[str] | None,
        note_change: Callable[[], object],
    ) -> None:
        """
        Make it.

        Args:
            client: the client of the namespace.
            queues: the queues whose messages are copied; None is all.
            note_change: called when other subscribers were read.
        """
        self.subscribers: dict[str, Subscriber | None] = {}
        self._client = client
        self._queues = queues
        self._note_change = note_change
        self._version = b""
        self._read_at = -math.inf
        self._sources: dict[str, list[str]] = {}
        self._warnings: dict[str, str] = {}
        self._stopped = Flag()
        self._thread = threading.Thread(target=self._run, name="rsmq-subscribers", daemon=True)

    def start(self) -> None:
        """Start its thread."""
        self._thread.start()

    def stop(self) -> None:
        """End its thread within a second, and wait for that."""
        self._stopped.set()
        self._thread.join()

    def _run(self) -> None:
        while not self._stopped.is_set():
            try:
                self._run_once()
                self._warnings.pop("", None)
            except ClientClosed as error:
                self._warn("", f"the copies for subscribers end: {error}")
                return
            except (RedisError, RSMQError, OSError, RuntimeError) as error:
                # A RuntimeError is that of the watcher, which the next wait starts again.
                self._warn("", f"nothing is copied to subscribers: {error}")
                self._stopped.wait(_RETRY_SECONDS)

    def _run_once(self) -> None:
        self.refresh()
        if self.copy_due():
            return
        zsets = tuple(self._client.namespace.queue(each).zset for each in self._sources)
        if not zsets:
            self._stopped.wait(REFRESH_SECONDS)
            return
        self._client.watcher.wait(self.copy_due, lambda _: None, 0, zsets, REFRESH_SECONDS)

    def refresh(self) -> None:
        """Read the subscribers if they may have changed, and end those that are removed."""
        if time.monotonic() - self._read_at < REFRESH_SECONDS:
            return
        namespace = self._client.namespace
        record = self._client.run(list_subscribers(namespace, self._version))
        self._read_at = time.monotonic()
        if record is not None and (record or self._version):
            self._take_over(record)
        for queue in sorted((self._queues or frozenset()) - self._sources.keys()):
            self._warn(queue, f"{queue} has no subscribers: its messages wait there")
        for field, subscriber in self.subscribers.items():
            if subscriber is not None and subscriber.removed_ms is not None:
                own = subscriber.own_queue
                if self._client.run(remove_subscriber(namespace, field, own, "finish")):
                    self._read_at = -math.inf

    def _take_over(self, record: dict[str, bytes]) -> None:
        self._version = record.pop("", b"")
        subscribers: dict[str, Subscriber | None] = {}
        sources: dict[str, list[str]] = {}
        for field, text in sorted(record.items()):
            queue, _, name = field.rpartition("/")
            if self._queues is not None and queue not in self._queues:
                continue
            subscribers[field] = subscriber = parse_subscriber(field, text)
            # One that can't be read, perhaps of a newer version, loses no message.
            if subscriber is None or subscriber.removed_ms is None:
                sources.setdefault(queue, []).append(f"{queue}-{name}")
        self.subscribers, self._sources = subscribers, sources
        self._note_change()

    def copy_due(self) -> int:
        """
        Copy visible messages, one step for each queue.

        Returns:
            0 if nothing was copied, so that a message is waited for; another number if the next
            step may copy some.
        """
        copied = 0
        for source, own_queues in self._sources.items():
            number = self._copy(source, own_queues)
            if number == RECORD_CHANGED:
                self._read_at = -math.inf
                return 1
            copied += max(number, 0)
        return copied

    def _copy(self, source: str, own_queues: list[str]) -> int:
        client = self._client
        try:
            number = client.run(fan_out(client.namespace, source, own_queues, self._version))
        except (QueueNotFound, ResponseError) as error:
            # The messages stay where they are; those of other queues are copied.
            self._warn(source, f"the messages of {source} are not copied to subscribers: {error}")
            return 0
        self._warnings.pop(source, None)
        return number

    def _warn(self, about: str, text: str) -> None:
        """Log a warning, once until it has ended."""
        if self._warnings.get(about) != text:
            self._warnings[about] = text
            _log.warning("%s", text)


class SubscriberPusher(Middleware):
    """
    Pushes the messages of queues to their subscribers, until it is stopped.

    Any number of processes may do so. Each also copies the messages of the queues to the queues of
    their subscribers, in atomic steps. Other consumers of these queues compete with the copies: a
    message that they receive first is not pushed unless they release it.

    It is a program of its own (``run``), a context, or the middleware of a worker: then it starts
    and stops with the worker.
    """

    def __init__(
        self,
        rsmq: RSMQ[Any],
        queues: str | Iterable[str] | None = None,
        *,
        allow: str | Iterable[str] = (),
        allow_http: bool = False,
        proxy: str | None = None,
        grace: float = _GRACE_SECONDS,
        middleware: Iterable[Middleware] = (),
    ) -> None:
        """
        Make it; nothing is pushed before ``run`` or ``start``.

        Args:
            rsmq: a synchronous client. Close it afterwards.
            queues: the queue or the queues whose subscribers are served; None is all.
            allow: ranges of addresses that are not public and may be connected to, as in
                ``10.0.0.0/8``, for all subscribers.
            allow_http: whether URLs may have http instead of https.
            proxy: the URL of a proxy that connects to all subscribers, see ``Worker.webhook``.
            grace: seconds from 0 that running pushes have to end when it stops.
            middleware: hooks of the workers that push: one worker for each subscriber. So
                ``RateLimit``, ``LockByKey`` and ``SlowCalls`` can't be used.

        Raises:
            MissingExtra: the extra ``push`` is not installed.
            MissingParameter, InvalidFormat: a queue's name, a range of addresses, the proxy or a
                middleware is invalid.
            InvalidValue: grace is out of range.
        """
        from rsmq.worker.webhook import make_webhook  # noqa: F401, PLC0415 - fails now without the extra

        self.rsmq = rsmq
        self._queues = (
            None
            if queues is None
            else frozenset(each.name for each in resolve_queues(rsmq.namespace, queues))
        )
        self._allow = [allow] if isinstance(allow, str) else list(allow)
        self._allow_http = allow_http
        self._proxy = proxy
        Reach.parse(self._allow, allow_http, proxy)
        self._grace = check_duration("grace", grace)
        self._middleware = list(middleware)
        for each in self._middleware:
            if isinstance(each, MiddlewareOfOneWorker):
                raise InvalidFormat(
                    "middleware",
                    value=type(each).__name__,
                    hint="It is for one worker, and each subscriber has a worker of its own. Leave "
                    "it out.",
                )
        self._fan_out: FanOut | None = None
        self._workers: dict[Subscriber, Worker[Any]] = {}
        self._failures: dict[Subscriber, str] = {}
        self._ending: list[threading.Thread] = []
        self._is_stopped = False
        self._changed = Flag()
        self._thread: threading.Thread | None = None

    # As a middleware of a worker.

    def before_start(self, worker: object) -> None:  # noqa: ARG002 - a hook
        """Start with a worker."""
        self.start()

    def after_stop(self, worker: object) -> None:  # noqa: ARG002 - a hook
        """Stop with a worker."""
        self.stop()

    def start(self) -> None:
        """
        Start, in threads of its own, and return.

        Raises:
            InvalidFormat: it runs already.
        """
        if self._thread is not None:
            raise InvalidFormat("pusher", hint="It runs already. Call stop() first.")
        self._is_stopped = False
        self._fan_out = FanOut(self.rsmq, self._queues, self._changed.set)
        self._fan_out.start()
        self._thread = threading.Thread(
            target=self._run, args=(self._fan_out,), name="rsmq-pusher", daemon=True
        )
        self._thread.start()

    def stop(self) -> None:
        """Stop, let running pushes end within ``grace``, release the other messages, and return."""
        thread, self._thread = self._thread, None
        if thread is None or self._fan_out is None:
            return
        self._is_stopped = True
        self._changed.set()
        self._fan_out.stop()
        thread.join()

    def run(self) -> None:
        """
        Run until SIGTERM or SIGINT, or until ``stop`` is called in another thread.

        Call it in the main thread; elsewhere it ignores signals. A second signal ends the process
        at once.
        """
        ended = Flag()

        def stop(name: str) -> bool:
            _log.info("the pusher stops, by %s; again to end at once", name)
            ended.set()
            return True

        with Signals(stop, lambda: "the pusher"):
            self.start()
            while not ended.wait(REFRESH_SECONDS) and not self._is_stopped:
                pass
            self.stop()

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()

    # Its thread: a worker for each subscriber.

    def _run(self, fan_out: FanOut) -> None:
        try:
            while not self._is_stopped:
                self._update_workers(fan_out.subscribers)
                self._changed.wait(REFRESH_SECONDS)
                self._changed.clear()
        finally:
            for worker in self._workers.values():
                self._end(worker)
            self._workers.clear()
            for thread in self._ending:
                thread.join()
            self._ending.clear()

    def _update_workers(self, stored: Mapping[str, Subscriber | None]) -> None:
        """Start the workers of new subscribers, and stop those of removed and changed ones."""
        subscribers = {_without_times(each) for each in stored.values() if each is not None}
        for subscriber, worker in list(self._workers.items()):
            if subscriber not in subscribers:
                del self._workers[subscriber]
                self._end(worker)
            elif not worker.health().is_running:
                del self._workers[subscriber]
        self._ending = [each for each in self._ending if each.is_alive()]
        self._failures = {
            each: self._failures[each] for each in self._failures.keys() & subscribers
        }
        for subscriber in subscribers - self._workers.keys():
            if self._is_stopped:
                return
            self._begin(subscriber)

    def _begin(self, subscriber: Subscriber) -> None:
        """Start the worker of a subscriber; if that fails, it is tried again."""
        name = f"subscriber {subscriber.name} of {subscriber.queue}"
        worker: Worker[Any] = Worker(
            self.rsmq,
            concurrency=subscriber.concurrency,
            grace=self._grace,
            middleware=self._middleware,
        )
        try:
            worker.webhook(
                subscriber.own_queue,
                subscriber.url,
                secret=_read_secret(subscriber),
                content_type=subscriber.content_type,
                allow=self._allow,
                allow_http=self._allow_http,
                proxy=self._proxy,
                concurrency=subscriber.concurrency,
                max_retries=subscriber.max_retries,
            )
            worker.start()
        except (RSMQError, RedisError, OSError, RuntimeError) as error:  # as of threads
            if self._failures.get(subscriber) != str(error):
                self._failures[subscriber] = str(error)
                _log.error("nothing is pushed to %s: %s", name, error)
            if isinstance(error, InvalidFormat):  # it stays so until it is repaired
                self._note_refusal(subscriber, str(error))
            return
        self._failures.pop(subscriber, None)
        self._workers[subscriber] = worker
        _log.info("%s is pushed to %s", name, subscriber.shown_url)

    def _note_refusal(self, subscriber: Subscriber, reason: str) -> None:
        """
        Store why nothing is pushed, unless another process pushes.

        Without the right to it, only the log says so.
        """
        queue = subscriber.own_queue
        with suppress(RedisError, RSMQError, OSError):
            workers = list_workers(self.rsmq)
            if not any(each.alive and queue in each.queues for each in workers):
                note_refusal(self.rsmq, queue, subscriber.url, reason)

    def _end(self, worker: Worker[Any]) -> None:
        """Stop a worker, without waiting for its pushes."""
        thread = threading.Thread(target=worker.stop, name="rsmq-pusher-stop", daemon=True)
        thread.start()
        self._ending.append(thread)


def _without_times(subscriber: Subscriber) -> Subscriber:
    """Return what a worker depends on: a subscriber that is being removed is pushed as before."""
    return replace(subscriber, created_ms=0, removed_ms=None)


def _read_secret(subscriber: Subscriber) -> list[str] | None:
    """
    Return the secrets of a subscriber.

    Raises:
        InvalidFormat: the environment variable is not set. Nothing is pushed without a signature.
    """
    name = subscriber.secret_env
    if name is None:
        return None
    secrets = os.environ.get(name, "").split()
    if not secrets:
        raise InvalidFormat(
            "secret_env",
            value=name,
            hint="This environment variable is not set in this process. Set it to the secret.",
        )
    return secrets
