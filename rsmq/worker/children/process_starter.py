"""
The thread that starts child processes.
"""

from __future__ import annotations

import os
import subprocess
import sys
import threading
from concurrent.futures import Future
from queue import SimpleQueue

from rsmq.worker.children.child_process import ChildNotStarted


class ProcessStarter:
    """
    A thread that starts processes.

    Linux ends a child with the thread that has started it, not only with the process. This thread
    is a daemon, not one of ``concurrent.futures``: those end with the main thread, while other
    threads may keep the program alive.
    """

    def __init__(self) -> None:
        self._requests: SimpleQueue[tuple[int, Future[subprocess.Popen[bytes]]] | None] = (
            SimpleQueue()
        )
        self._lock = threading.Lock()
        self._is_stopped = False
        threading.Thread(target=self._run, name="rsmq-children", daemon=True).start()

    def start_process(self, number: int) -> subprocess.Popen[bytes]:
        """
        Start a child process.

        Args:
            number: the file descriptor of its end of the channel.

        Raises:
            ChildNotStarted: this thread is stopped.
            OSError: the system can't start it.
        """
        future: Future[subprocess.Popen[bytes]] = Future()
        with self._lock:
            if self._is_stopped:
                raise ChildNotStarted("the worker stops")
            self._requests.put((number, future))
        return future.result()

    def _run(self) -> None:
        while (request := self._requests.get()) is not None:
            number, future = request
            try:
                future.set_result(_start_process(number))
            except BaseException as error:  # noqa: BLE001 - raised by ``start_process``
                future.set_exception(error)

    def stop(self) -> None:
        """End the thread when it has started the processes that were requested."""
        with self._lock:
            self._is_stopped = True
            self._requests.put(None)


def _start_process(number: int) -> subprocess.Popen[bytes]:
    program = f"from rsmq.worker.child import main; main({number}, {os.getpid()})"
    return subprocess.Popen(  # noqa: S603 - our own program
        [sys.executable, "-c", program],
        stdin=subprocess.DEVNULL,
        pass_fds=(number,),
        process_group=0,
    )
