"""
The program of a child process, which calls handlers for a worker; see ``child_process.py``.
"""

from __future__ import annotations

import math
import os
import signal
import socket
import sys
import threading
import time
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import astuple
from itertools import chain
from queue import SimpleQueue
from types import FrameType
from typing import Any

from rsmq.worker.children.channel import Channel
from rsmq.worker.children.child_process import INTERRUPT
from rsmq.worker.children.child_state import become_child
from rsmq.worker.children.remote_results import describe_failure
from rsmq.worker.importing import import_worker, use_other_place
from rsmq.worker.logging import log_to_standard_error
from rsmq.worker.middleware import Hooks
from rsmq.worker.outcome import HandlerCancelled, HandlerStopped, HandlerTimedOut
from rsmq.worker.run.invoke import Invoker
from rsmq.worker.state.calls import Job, Lease
from rsmq.worker.state.error_reader import read_error
from rsmq.worker.state.jobs import BatchJob, GroupJob, SingleJob, TrackedJob, single_job_class
from rsmq.worker.state.lane import Lane
from rsmq.worker.state.message_state import (
    BEGIN,
    BEGIN_CALL,
    END_CALL,
    LOSE,
    change_call,
    change_message,
)
from rsmq.worker.stop_event import StopEvent

#: Seconds between two looks at the progress of a tracked handler.
_PROGRESS_SECONDS = 0.5


def main(number: int, parent: int) -> None:
    """
    Make calls until the worker closes its end of the channel.

    Args:
        number: the file descriptor of this end.
        parent: the process id of the worker.
    """
    become_child(parent)
    own = socket.socket(fileno=number)
    own.set_inheritable(False)
    child = _Child(Channel(own))
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.signal(signal.SIGTERM, child.handle_sigterm)
    child.run()


class _Child:
    def __init__(self, channel: Channel) -> None:
        self._channel = channel
        #: Each call, and the job that was made of it.
        self._calls: SimpleQueue[tuple[dict[str, Any], Job] | None] = SimpleQueue()
        self._lanes: Mapping[str, Lane] = {}
        self._invoker: Invoker
        self._leases: dict[str, Lease] = {}
        self._lock = threading.Lock()
        self._pid = os.getpid()
        self._number = 0
        self._sent_progress = b""
        self._poll_seconds = math.inf
        self._is_running = self._is_interrupted = False
        self._stopping = StopEvent()
        self._deadline: float | None = None  # until it is over
        self._max_runtime = 0.0

    def run(self) -> None:
        """Import the worker, and make calls."""
        try:
            settings = self._channel.receive()
            self._lanes = _prepare(settings)
            for part in chain.from_iterable(lane.parts for lane in self._lanes.values()):
                part.stopping = self._stopping
            self._invoker = Invoker(Hooks([]), lambda _job: None)
        except Exception as error:  # noqa: BLE001 - the worker reports it
            self._channel.send({"error": f"{type(error).__name__}: {error}"})
            return
        if any(lane.listener.result_ttl is not None for lane in self._lanes.values()):
            self._poll_seconds = _PROGRESS_SECONDS
        self._channel.send({"ready": sorted(self._lanes)})
        threading.Thread(target=self._read, name="rsmq-reader", daemon=True).start()
        while (call := self._calls.get()) is not None:
            self._channel.send(self._make_call(*call))

    def _read(self) -> None:
        """Read calls and changes of leases until the end of the channel."""
        try:
            with suppress(EOFError, OSError):
                while True:
                    has_message = self._channel.has_message(self._poll_seconds)
                    self._send_progress()
                    if not has_message:
                        continue
                    message = self._channel.receive()
                    if "cancel" in message:
                        self._cancel(message["cancel"])
                    elif "stop" in message:
                        self._note_stop(message["stop"])
                    elif "leases" in message:
                        self._change_leases(message["leases"])
                    else:
                        self._accept(message)
        finally:  # also after other errors: later calls could not be read
            if self._is_running:  # the worker has died
                os.killpg(0, signal.SIGKILL)
            self._calls.put(None)

    def _accept(self, call: dict[str, Any]) -> None:
        """Let a call be made. A cancel that is read next finds its lease already."""
        job = _make_job(self._lanes[call["queue"]].find_variant(call["messages"][0]["raw"]), call)
        with self._lock:
            self._leases = {lease.id: lease for lease in job.leases}
            self._number, self._sent_progress = call["number"], b""
        self._calls.put((call, job))

    def _send_progress(self) -> None:
        """Send the progress that the handler has reported since the last time."""
        with self._lock:  # its call does not end meanwhile, so no answer is sent
            for lease in self._leases.values():
                progress = lease.new_progress
                if progress and progress is not self._sent_progress and self._channel.has_room():
                    self._channel.send({"number": self._number, "reported": progress})
                    self._sent_progress = progress

    def _cancel(self, id: str) -> None:
        """Cancel the call for a message."""
        with self._lock:
            lease = self._leases.get(id)
            if not isinstance(lease, TrackedJob):
                return
            lease.mark_cancelled()
        _signal_main_thread()

    def _note_stop(self, stop: int) -> None:
        """Let the handler see that the worker stops; interrupt it if the grace period is over."""
        self._stopping.set()
        if stop == INTERRUPT:
            self._is_interrupted = True
            _signal_main_thread()

    def _change_leases(self, changes: Mapping[str, float]) -> None:
        with self._lock:
            for id, expires_at in changes.items():
                lease = self._leases.get(id)
                if lease is None:
                    continue
                if expires_at:
                    lease.expires_at = expires_at
                else:
                    change_message(lease, LOSE)

    def handle_sigterm(self, number: int, _frame: FrameType | None) -> None:
        """
        Raise HandlerCancelled in the handler if its job is to be cancelled, HandlerTimedOut if its
        max_runtime is over, and HandlerStopped if the grace period of the worker is over.

        Otherwise the signal came from a program that stops all processes of the worker. Then the
        worker decides how long the handler may run.
        """
        if os.getpid() != self._pid:  # a process that the handler forked
            signal.signal(number, signal.SIG_DFL)
            os.kill(os.getpid(), number)
            return
        if self._deadline is None:
            return
        if any(lease.is_cancelled for lease in self._leases.values()):
            self._deadline = None
            raise HandlerCancelled("its job was cancelled")
        if time.monotonic() >= self._deadline:
            self._deadline = None
            raise HandlerTimedOut(f"its handler ran for more than {self._max_runtime:g} s")
        if self._is_interrupted:
            self._deadline = None
            raise HandlerStopped("its worker stops")

    def _make_call(self, call: Mapping[str, Any], job: Job) -> dict[str, Any]:
        lane = job.lane
        self._max_runtime, self._is_running = lane.listener.max_runtime, True
        try:
            self._deadline = call["deadline"]
            self._invoker.call(job)
            self._deadline = None
        except (
            HandlerTimedOut,
            HandlerCancelled,
            HandlerStopped,
        ) as error:  # it was raised when the handler had ended
            job.failure = read_error(error, lane.policy)
        self._deadline, self._is_running = None, False
        with self._lock:
            self._leases = {}
        change_call(job, END_CALL)
        is_single, following = isinstance(job, SingleJob), job.next_message
        return {
            "number": call["number"],
            "type": job.message_type,
            "result": job.result if isinstance(job, TrackedJob) else None,
            "progress": job.new_progress if isinstance(job, TrackedJob) else b"",
            "next": None if following is None else astuple(following),
            "error": None if job.failure is None else describe_failure(job.failure),
            "errors": {
                lease.id: describe_failure(lease.failure)
                for lease in ([] if is_single else job.leases)
                if lease.failure is not None
            },
        }


def _signal_main_thread() -> None:
    signal.pthread_kill(threading.main_thread().ident or 0, signal.SIGTERM)


def _prepare(settings: Mapping[str, Any]) -> dict[str, Lane]:
    """Import the worker. Return the lanes of its listeners with ``process=True``."""
    if settings["log_level"] is not None:
        name = settings["name"]
        log_to_standard_error(settings["log_level"], lambda: name, as_json=settings["log_as_json"])
    sys.path[:] = settings["path"]
    worker = import_worker(settings["app"])
    if settings["place"] is not None:
        use_other_place(worker, settings["place"])
    return worker.prepare_child(settings["name"])


def _make_job(lane: Lane, call: Mapping[str, Any]) -> Job:
    singles = []
    handler = call["handler"]
    make_job = GroupJob if handler is not None else single_job_class(lane.listener)
    for message in call["messages"]:
        single = make_job(
            lane,
            message["id"],
            message["raw"],
            message["count"],
            message["first_received_ms"],
            call["received_at"],
        )
        single.unbegun, single.expires_at = message["unbegun"], message["expires_at"]
        if isinstance(single, GroupJob):
            single.handler = handler
        singles.append(single)
    job = (
        singles[0] if lane.listener.batch is None else BatchJob(lane, singles, call["received_at"])
    )
    change_call(job, BEGIN_CALL)
    job.started_at = time.monotonic()
    for lease in job.leases:
        change_message(lease, BEGIN)
    return job
