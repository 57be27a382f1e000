"""
Workers: register a function as a handler, and have it called with the messages of a queue.

    worker = Worker(RSMQ.from_url("redis://127.0.0.1:6379/0"), name="orders-1", concurrency=8)

    @worker.listener("orders", codec=JSON, max_retries=5, dead_letter_queue="orders-dead")
    def handle(order, message): ...

    worker.run()
"""

from rsmq.wire.workers import WorkerInfo
from rsmq.worker.delivery import Delivery
from rsmq.worker.handler_group import HandlerGroup
from rsmq.worker.logging import DetailedLogging, JSONLines, Logging, MessageFilter
from rsmq.worker.middleware import Middleware
from rsmq.worker.outcome import (
    DeadLetter,
    Defer,
    DeferredTooOften,
    Discard,
    HandlerCancelled,
    HandlerProcessDied,
    HandlerStopped,
    HandlerTimedOut,
    RemoteError,
    Retry,
    Unroutable,
    exponential,
    fixed,
)
from rsmq.worker.registry import held_by, list_workers
from rsmq.worker.router import Router
from rsmq.worker.routing import event_payload, json_field
from rsmq.worker.run.invoke import current_message
from rsmq.worker.state.numbers import Numbers
from rsmq.worker.stop_event import StopEvent
from rsmq.worker.worker import Worker

__all__ = [
    "DeadLetter",
    "Defer",
    "DeferredTooOften",
    "Delivery",
    "DetailedLogging",
    "Discard",
    "HandlerCancelled",
    "HandlerGroup",
    "HandlerProcessDied",
    "HandlerStopped",
    "HandlerTimedOut",
    "JSONLines",
    "Logging",
    "MessageFilter",
    "Middleware",
    "Numbers",
    "RemoteError",
    "Retry",
    "Router",
    "StopEvent",
    "Unroutable",
    "Worker",
    "WorkerInfo",
    "current_message",
    "event_payload",
    "exponential",
    "fixed",
    "held_by",
    "json_field",
    "list_workers",
]
