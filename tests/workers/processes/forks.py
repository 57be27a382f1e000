"""
Processes that are forked from one that has imported the program of ``program.py``, or ``rsmq``.

A start of Python with the imports takes 0.3 s of processor time, ten times as long as a fork. The
soak starts each process anew, and so do runs that measure coverage or delay calls to Redis.
"""

from __future__ import annotations

import atexit
import functools
import gc
import importlib
import json
import os
import queue
import select
import signal
import socket
import subprocess
import sys
import threading
from contextlib import suppress
from pathlib import Path

from tests.scale import SOAK, WAIT_SECONDS

ROOT = Path(__file__).parents[3]
#: The variables of runs that change each process when it starts.
_ANEW = "COVERAGE_PROCESS", "RSMQ_TEST_DELAYS"
_MAX_REQUEST_BYTES = 100_000
_PROGRAM = "tests.workers.processes.program"
_COMMANDS = "tests.workers.processes.commands"


def start_program(settings, errors, *, is_anew=False):
    """
    Start the program, and return the process: a ``subprocess.Popen``, or what is like it.

    Args:
        settings: its argument, as text.
        errors: the open file of its standard error.
        is_anew: whether this process has to be its parent.
    """
    return _start(_PROGRAM, settings, errors, is_anew=is_anew)


def start_command(*arguments, environment=None):
    """
    Start the program ``rsmq``, whose output is discarded, as ``start_program`` does.

    Args:
        arguments: its arguments, each as text.
        environment: the variables that it has beside those of this process.
    """
    settings = json.dumps([arguments, {**os.environ, **(environment or {})}])
    with Path(os.devnull).open("wb") as nowhere:
        return _start(_COMMANDS, settings, nowhere)


def _start(module, settings, errors, *, is_anew=False):
    is_anew |= SOAK or sys.platform != "linux"
    if is_anew or any(each.startswith(_ANEW) for each in os.environ):
        return subprocess.Popen(
            [sys.executable, "-m", module, settings],
            cwd=ROOT, env={**os.environ, "PYTHONPATH": str(ROOT)}, stderr=errors,
        )  # fmt: skip
    return _forks(module).start(settings, errors)


class ForkedProcess:
    """A process that another one has forked; with the methods of ``subprocess.Popen``."""

    def __init__(self, pid):
        self.pid = pid
        self.returncode = None
        self.has_ended = threading.Event()

    def poll(self):
        return self.returncode

    def wait(self, timeout=None):
        if not self.has_ended.wait(timeout):
            raise subprocess.TimeoutExpired("a forked program", timeout)
        return self.returncode

    def send_signal(self, number):
        if self.returncode is None:
            with suppress(ProcessLookupError):  # it has ended, and its code arrives soon
                os.kill(self.pid, number)

    def kill(self):
        self.send_signal(signal.SIGKILL)

    def terminate(self):
        self.send_signal(signal.SIGTERM)


class Forks:
    """The process that forks, which ends with this one."""

    def __init__(self, module):
        self._socket, its_socket = socket.socketpair(type=socket.SOCK_SEQPACKET)
        with its_socket:
            self._server = subprocess.Popen(
                [sys.executable, "-m", __name__, module], stdin=its_socket, cwd=ROOT,
                env={**os.environ, "PYTHONPATH": str(ROOT)},
            )  # fmt: skip
        self._lock = threading.Lock()
        self._started = queue.SimpleQueue()
        threading.Thread(target=self._read, daemon=True).start()
        atexit.register(self._close)

    def _read(self):
        processes = {}
        while message := self._socket.recv(100):
            kind, pid, status = json.loads(message)
            if kind == "started":
                processes[pid] = ForkedProcess(pid)
                self._started.put(processes[pid])
            else:
                process = processes.pop(pid)
                process.returncode = status
                process.has_ended.set()

    def start(self, settings, errors):
        """Fork, and return the process."""
        with self._lock:
            socket.send_fds(self._socket, [settings.encode()], [errors.fileno()])
            return self._started.get(timeout=WAIT_SECONDS)

    def _close(self):
        self._socket.shutdown(socket.SHUT_RDWR)
        self._server.wait()


_forks = functools.cache(Forks)


def _serve(requests):
    """Fork for each request. Return its text in the new process, and None at the end."""
    wakes, wake = os.pipe()
    os.set_blocking(wake, False)
    signal.set_wakeup_fd(wake)
    signal.signal(signal.SIGCHLD, lambda *_: None)
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    gc.collect()
    gc.freeze()
    running = set()
    while True:
        readable, _, _ = select.select([requests, wakes], [], [])
        if wakes in readable:
            os.read(wakes, 1000)
            for pid in list(running):
                ended, status = os.waitpid(pid, os.WNOHANG)
                if ended:
                    running.discard(pid)
                    requests.send(
                        json.dumps(["ended", pid, os.waitstatus_to_exitcode(status)]).encode()
                    )
        if requests not in readable:
            continue
        settings, files, _, _ = socket.recv_fds(requests, _MAX_REQUEST_BYTES, 1)
        if not settings:
            return None
        [errors] = files
        pid = os.fork()
        if pid == 0:
            signal.set_wakeup_fd(-1)
            signal.signal(signal.SIGCHLD, signal.SIG_DFL)
            signal.signal(signal.SIGINT, signal.default_int_handler)
            os.dup2(errors, 2)
            for each in (errors, wakes, wake, requests.detach()):
                os.close(each)
            return settings.decode()
        os.close(errors)
        running.add(pid)
        requests.send(json.dumps(["started", pid, None]).encode())


if __name__ == "__main__":
    program = importlib.import_module(sys.argv[1])
    settings = _serve(socket.socket(fileno=0))
    if settings is not None:
        sys.argv = [program.__file__, settings]
        program.main()
