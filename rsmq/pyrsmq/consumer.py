"""
PyRSMQ's consumers: call a function with each message, in this thread or another.
"""

from __future__ import annotations

import logging
import threading
from contextlib import suppress
from typing import TYPE_CHECKING, Any

from redis.exceptions import RedisError, ResponseError

from rsmq.errors import RSMQError
from rsmq.model import Message
from rsmq.pyrsmq.cmd import check_seconds
from rsmq.pyrsmq.cmd.exceptions import NoMessageInQueue, RedisSMQException
from rsmq.pyrsmq.cmd.utils import decode_message
from rsmq.pyrsmq.rsmq import RedisSMQ
from rsmq.transport.signals import Flag
from rsmq.wire.limits import DEFAULT_VT
from rsmq.wire.names import decode_name

if TYPE_CHECKING:
    from collections.abc import Callable

_LOG = logging.getLogger("rsmq.consumer")  # PyRSMQ's name: programs filter by it
_LONGEST_PAUSE = 60.0
_TROUBLE = (RedisSMQException, RSMQError, RedisError, OSError)


class RedisSMQConsumer:
    """
    Calls a function with every message of a queue.

    While the function runs, the message's visibility timeout is extended. When it returns what is
    true, the message is deleted; when it returns anything else or raises, the message is due again
    after ``retry_delay``. Both happen only while no other consumer has received the message since.
    """

    def __init__(self, qname: str, processor: Callable[..., Any], **rsmq_params: Any) -> None:
        """
        Prepare; nothing is sent before ``run``.

        Args:
            qname: the queue; it is created if missing.
            processor: called as ``processor(id=, message=, rc=, ts=)``.
            rsmq_params: ``retry_delay`` (seconds until a failed message is due again, default 0;
                None is the visibility timeout),
                ``empty_queue_delay`` (seconds to wait when nothing is due, default 2.0),
                ``decode`` (False leaves bodies that are JSON as text), ``vt`` (seconds, default
                the queue's), ``trace`` (True logs each step); all others go to ``RedisSMQ``.

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
        """The visibility timeout, seconds; the queue's is read once."""
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
        """Receive and process until ``stop`` is called from elsewhere."""
        self._ended.clear()
        self.trace("Consumer of %s begins", self.qname)
        created, pause = False, 0.0
        try:
            while not self._stopping.is_set():
                try:
                    if not created:
                        self.create_queue()
                        created = True
                    self._process(self.rsqm.receiveMessage().exceptions().execute())
                    pause = 0.0
                except NoMessageInQueue:
                    pause = 0.0
                    self.trace("Nothing is due; next try in %s s", self.empty_queue_delay)
                    self._stopping.wait(self.empty_queue_delay)
                except (RedisSMQException, RSMQError) as error:
                    # The queue is gone, say: it may come back.
                    _LOG.warning("Consumer of %s: %s", self.qname, error)
                    self._stopping.wait(self.empty_queue_delay or 1.0)
                except Exception as error:  # noqa: BLE001 - of the connection, or of a hook
                    _LOG.warning("Consumer of %s: %r; next try in %s s", self.qname, error, pause)
                    self._stopping.wait(pause)
                    pause = min(max(1.0, 2 * pause), _LONGEST_PAUSE)
        finally:
            self._stopping.clear()
            self._ended.set()
            self.trace("Consumer of %s has ended", self.qname)

    def stop(self, wait: float | None = None) -> bool:
        """
        Ask for the end; the message at hand is finished.

        Args:
            wait: seconds to wait for it; None does not wait.

        Returns:
            True if it has ended.
        """
        self._stopping.set()
        if wait:
            self._ended.wait(wait)
        return self._ended.is_set()

    def create_queue(self) -> None:
        """Create the queue if it is missing; one who may not create goes on with what is there."""
        try:
            self.rsqm.createQueue().quiet().exceptions(enabled=False).execute()
        except ResponseError as error:
            _LOG.warning("Queue %s was not created: %s", self.qname, error)

    def on_success(self, msg: dict[str, Any] | None) -> None:
        """Delete a message that was processed."""
        if not msg or "id" not in msg:
            return
        if "rc" not in msg:
            self.rsqm.deleteMessage(id=msg["id"]).exceptions().execute()
        elif not self.rsqm.core.delete_message(self._receipt(msg)) and self._is_there(msg):
            _LOG.warning("Message %s was received by another consumer meanwhile", msg["id"])

    def on_failure(self, msg: dict[str, Any] | None) -> None:
        """Let a message that was not processed come back after ``retry_delay``."""
        if not msg or "id" not in msg:
            return
        _LOG.warning("Failed to process message %s", msg["id"])
        delay = self.vt if self.retry_delay is None else self.retry_delay
        if "rc" not in msg:
            self.rsqm.changeMessageVisibility(id=msg["id"], vt=delay).exceptions().execute()
        else:
            self.rsqm.core.change_message_visibility(self._receipt(msg), delay)

    def trace(self, fmt: str, *args: Any) -> None:
        """Log a step, if ``trace`` was asked for."""
        if self._trace:
            _LOG.debug(fmt, *args)

    def _receipt(self, msg: dict[str, Any]) -> Message:
        id = msg["id"]
        name = decode_name(id) if isinstance(id, bytes) else id
        return Message(self.qname, name, b"", msg["rc"], None)

    def _is_there(self, msg: dict[str, Any]) -> bool:
        return self.rsqm.core.get_message(self.qname, self._receipt(msg).id) is not None

    def _process(self, msg: dict[str, Any]) -> None:
        if self.decode:
            msg["message"] = decode_message(msg["message"])
        extender = _Extender(self.rsqm, self._receipt(msg), self.vt)
        try:
            extender.start()
            done = bool(self.processor(**msg))
        except Exception:  # noqa: BLE001 - the processor's own: the message comes back
            _LOG.exception("The processor failed on message %s", msg["id"])
            done = False
        except BaseException:  # the program ends
            extender.stop()
            with suppress(*_TROUBLE):
                self.rsqm.core.change_message_visibility(self._receipt(msg), 0)
            raise
        finally:
            extender.stop()
        if done:
            self.on_success(msg)
        else:
            self.on_failure(msg)


class _Extender(threading.Thread):
    """Extends the visibility timeout of one message, each time half of it has passed."""

    def __init__(self, rsqm: RedisSMQ, receipt: Message, vt: float) -> None:
        super().__init__(name=f"extends {receipt.id}", daemon=True)
        self._rsqm = rsqm
        self._receipt = receipt
        self._vt = vt
        self._over = threading.Event()

    def stop(self) -> None:
        """Return when no extension can follow any more."""
        self._over.set()
        if self.is_alive():
            self.join()

    def run(self) -> None:
        while self._vt > 0 and not self._over.wait(self._vt / 2):
            try:
                held = self._rsqm.core.change_message_visibility(self._receipt, self._vt)
            except _TROUBLE as error:
                _LOG.warning("Message %s was not extended: %s", self._receipt.id, error)
                continue
            if not held:
                _LOG.warning("Message %s is no longer ours", self._receipt.id)
                return


class RedisSMQConsumerThread(RedisSMQConsumer, threading.Thread):
    """A ``RedisSMQConsumer`` in a daemon thread of its own: ``start`` begins, ``stop`` ends it."""

    def __init__(self, qname: str, processor: Callable[..., Any], **rsmq_params: Any) -> None:
        RedisSMQConsumer.__init__(self, qname, processor, **rsmq_params)
        threading.Thread.__init__(self, name=f"RedisSMQConsumer:{qname}", daemon=True)
