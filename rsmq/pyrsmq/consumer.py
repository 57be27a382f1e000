"""
PyRSMQ's consumers: call a function with each message, in the calling thread or their own.
"""

from __future__ import annotations

import logging
import threading
from contextlib import suppress
from typing import TYPE_CHECKING, Any

from redis.exceptions import RedisError, ResponseError

from rsmq.errors import RSMQError
from rsmq.model import Message
from rsmq.pyrsmq.cmd.exceptions import NoMessageInQueue, RedisSMQException
from rsmq.pyrsmq.cmd.parameter_checks import check_seconds
from rsmq.pyrsmq.cmd.utils import decode_message
from rsmq.pyrsmq.rsmq import RedisSMQ
from rsmq.transport.signals import Flag
from rsmq.wire.limits import DEFAULT_VT
from rsmq.wire.names import decode_name

if TYPE_CHECKING:
    from collections.abc import Callable

_LOG = logging.getLogger("rsmq.consumer")  # PyRSMQ's name: programs filter by it
_MAX_PAUSE_SECONDS = 60.0
_REDIS_ERRORS = (RedisSMQException, RSMQError, RedisError, OSError)


class RedisSMQConsumer:
    """
    A consumer that calls a function, the processor, with each message of a queue.

    While the processor runs, the message's lease is renewed. If the processor returns a true value,
    the message is deleted. If it returns another value or raises, the message is visible again
    after ``retry_delay``. A message that another consumer has received since is not changed.
    """

    def __init__(self, qname: str, processor: Callable[..., Any], **rsmq_params: Any) -> None:
        """
        Create a consumer. Nothing is sent to Redis before ``run``.

        Args:
            qname: the queue; ``run`` creates it if it is missing.
            processor: called as ``processor(id=, message=, rc=, ts=)``.
            rsmq_params: ``retry_delay`` (seconds until a failed message is visible again, default
                0; None is the visibility timeout),
                ``empty_queue_delay`` (seconds between receives while no message is visible,
                default 2.0), ``decode`` (False leaves bodies that are JSON as text), ``vt``
                (seconds, default the queue's), ``trace`` (True logs each step). All others are
                parameters of ``RedisSMQ``.

        Raises:
            InvalidParameterValue: retry_delay or vt is not a number of seconds.
        """
        self.qname = qname
        self.processor = processor
        delay = rsmq_params.pop("retry_delay", 0)
        self.retry_delay = None if delay is None else check_seconds("retry_delay", delay)
        self.empty_queue_delay: float = rsmq_params.pop("empty_queue_delay", 2.0) or 0.0
        self.decode: bool = rsmq_params.pop("decode", True)
        self._trace: bool = rsmq_params.pop("trace", False)
        vt = rsmq_params.get("vt")
        self._vt = None if vt is None else check_seconds("vt", vt)
        self.rsqm = RedisSMQ(qname=qname, **rsmq_params)
        self._stopping = Flag()
        self._ended = Flag()

    @property
    def vt(self) -> float:
        """
        The visibility timeout, seconds.

        If it is not set, the queue's is read once. While the queue does not exist, it is 30.
        """
        if self._vt is None:
            try:
                self._vt = float(self.rsqm.getQueueAttributes().exceptions().execute()["vt"])
            except RedisSMQException:
                return DEFAULT_VT
        return self._vt

    @vt.setter
    def vt(self, value: float | None) -> None:
        self._vt = None if value is None else check_seconds("vt", value)

    def run(self) -> None:
        """
        Receive and process messages until ``stop`` is called.

        The queue is created if it is missing. Errors of Redis, and those that hooks of a subclass
        raise, are logged, and the consumer continues. If they repeat, pauses grow to 60 seconds.
        """
        self._ended.clear()
        self.trace("Consumer of %s begins", self.qname)
        is_created, pause = False, 0.0
        try:
            while not self._stopping.is_set():
                try:
                    if not is_created:
                        self.create_queue()
                        is_created = True
                    self._process(self.rsqm.receiveMessage().exceptions().execute())
                    pause = 0.0
                except NoMessageInQueue:
                    pause = 0.0
                    self.trace("Nothing is due; next try in %s s", self.empty_queue_delay)
                    self._stopping.wait(self.empty_queue_delay)
                except (RedisSMQException, RSMQError) as error:
                    # For example, the queue was deleted: it may be created again.
                    _LOG.warning("Consumer of %s: %s", self.qname, error)
                    self._stopping.wait(self.empty_queue_delay or 1.0)
                except Exception as error:  # noqa: BLE001 - of a connection or a hook
                    _LOG.warning("Consumer of %s: %r; next try in %s s", self.qname, error, pause)
                    self._stopping.wait(pause)
                    pause = min(max(1.0, 2 * pause), _MAX_PAUSE_SECONDS)
        finally:
            self._stopping.clear()
            self._ended.set()
            self.trace("Consumer of %s has ended", self.qname)

    def stop(self, wait: float | None = None) -> bool:
        """
        Request that ``run`` ends. A message that is being processed is finished first.

        Args:
            wait: seconds to wait for the end of ``run``; None does not wait.

        Returns:
            Whether ``run`` has ended.
        """
        self._stopping.set()
        if wait:
            self._ended.wait(wait)
        return self._ended.is_set()

    def create_queue(self) -> None:
        """
        Create the queue if it is missing.

        If the user's rights do not permit this, log a warning: the queue may exist.
        """
        try:
            self.rsqm.createQueue().quiet().exceptions(enabled=False).execute()
        except ResponseError as error:
            _LOG.warning("Queue %s was not created: %s", self.qname, error)

    def on_success(self, msg: dict[str, Any] | None) -> None:
        """Delete a message after its processor returned a true value."""
        if not msg or "id" not in msg:
            return
        if "rc" not in msg:
            self.rsqm.deleteMessage(id=msg["id"]).exceptions().execute()
        elif not self.rsqm.core.delete_message(self._make_receipt(msg)) and self._exists(msg):
            _LOG.warning("Message %s was received by another consumer meanwhile", msg["id"])

    def on_failure(self, msg: dict[str, Any] | None) -> None:
        """Make a message visible again after ``retry_delay``."""
        if not msg or "id" not in msg:
            return
        _LOG.warning("Failed to process message %s", msg["id"])
        delay = self.vt if self.retry_delay is None else self.retry_delay
        if "rc" not in msg:
            self.rsqm.changeMessageVisibility(id=msg["id"], vt=delay).exceptions().execute()
        else:
            self.rsqm.core.change_message_visibility(self._make_receipt(msg), delay)

    def trace(self, fmt: str, *args: Any) -> None:
        """Log a step at level DEBUG if the consumer was created with ``trace=True``."""
        if self._trace:
            _LOG.debug(fmt, *args)

    def _make_receipt(self, msg: dict[str, Any]) -> Message:
        id = msg["id"]
        name = decode_name(id) if isinstance(id, bytes) else id
        return Message(self.qname, name, b"", msg["rc"], None)

    def _exists(self, msg: dict[str, Any]) -> bool:
        return self.rsqm.core.get_message(self.qname, self._make_receipt(msg).id) is not None

    def _process(self, msg: dict[str, Any]) -> None:
        if self.decode:
            msg["message"] = decode_message(msg["message"])
        renewal = _LeaseRenewal(self.rsqm, self._make_receipt(msg), self.vt)
        try:
            renewal.start()
            is_done = bool(self.processor(**msg))
        except Exception:  # noqa: BLE001 - of the processor: the message is retried
            _LOG.exception("The processor failed on message %s", msg["id"])
            is_done = False
        except BaseException:  # the program ends, as by Ctrl-C: release the message
            renewal.stop()
            with suppress(*_REDIS_ERRORS):
                self.rsqm.core.change_message_visibility(self._make_receipt(msg), 0)
            raise
        finally:
            renewal.stop()
        if is_done:
            self.on_success(msg)
        else:
            self.on_failure(msg)


class _LeaseRenewal(threading.Thread):
    """A thread that renews the lease of one message each time half of its vt has passed."""

    def __init__(self, rsqm: RedisSMQ, receipt: Message, vt: float) -> None:
        super().__init__(name=f"extends {receipt.id}", daemon=True)
        self._rsqm = rsqm
        self._receipt = receipt
        self._vt = vt
        self._stop_requested = threading.Event()

    def stop(self) -> None:
        """Stop the thread. No extension follows after this returns."""
        self._stop_requested.set()
        if self.is_alive():
            self.join()

    def run(self) -> None:
        while self._vt > 0 and not self._stop_requested.wait(self._vt / 2):
            try:
                has_lease = self._rsqm.core.change_message_visibility(self._receipt, self._vt)
            except _REDIS_ERRORS as error:
                _LOG.warning("Message %s was not extended: %s", self._receipt.id, error)
                continue
            if not has_lease:
                _LOG.warning("Message %s is no longer ours", self._receipt.id)
                return


class RedisSMQConsumerThread(RedisSMQConsumer, threading.Thread):
    """A ``RedisSMQConsumer`` in its own daemon thread: ``start`` starts it, ``stop`` ends it."""

    def __init__(self, qname: str, processor: Callable[..., Any], **rsmq_params: Any) -> None:
        RedisSMQConsumer.__init__(self, qname, processor, **rsmq_params)
        threading.Thread.__init__(self, name=f"RedisSMQConsumer:{qname}", daemon=True)
