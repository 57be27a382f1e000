"""Server processes that tests freeze, kill and restart, for clusters and Sentinel groups."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path
from typing import Any

import redis

from tests.ports import free_port
from tests.scale import WAIT_SECONDS

_FIRST_STARTS = 5
_CONTROL_TIMEOUT_SECONDS = 5

# The program becomes the server. On Linux the server is killed when its parent thread ends.
_LAUNCHER = """
import ctypes, os, signal, sys
if sys.platform == "linux":
    pr_set_pdeathsig = 1
    ctypes.CDLL(None).prctl(pr_set_pdeathsig, signal.SIGKILL, 0, 0, 0)
if os.getppid() != int(sys.argv[1]):
    sys.exit("the tests have ended")
os.execv(sys.argv[2], sys.argv[2:])
"""

# One thread starts all servers: it ends with this process, unlike a thread of a test.
_starter = ThreadPoolExecutor(max_workers=1, thread_name_prefix="server-starter")


def wait_until(
    condition: Callable[[], Any],
    seconds: float = WAIT_SECONDS,
    failure: str | Callable[[], object] = "the condition does not become true",
) -> Any:
    """
    Wait until the condition is true, and return its result.

    Args:
        condition: is called in pauses that grow from 20 to 50 milliseconds; an error of a
            connection counts as false.
        seconds: how long to wait before the test fails.
        failure: the text of the failure, or a function that returns it.
    """
    deadline = time.monotonic() + seconds
    pause = 0.02
    while True:
        value = None
        with suppress(redis.exceptions.ConnectionError, redis.exceptions.TimeoutError):
            value = condition()
        if value:
            return value
        if time.monotonic() > deadline:
            raise AssertionError(failure() if callable(failure) else failure)
        time.sleep(pause)
        pause = min(pause * 1.2, 0.05)


class Node:
    """
    One server process on loopback. It keeps its port over restarts, and its data only if the
    configuration says ``appendonly yes``.

    Attributes:
        port: the port; it is chosen at the first start.
        folder: the folder of the configuration and the log.
        password: the password of clients, or None.
        is_frozen: whether the process is suspended.
        control: a client for the helpers of tests: RESP2, no retries, 5 seconds for a reply.
    """

    def __init__(
        self,
        binary: str,
        config: Iterable[str] = (),
        *,
        password: str | None = None,
        is_sentinel: bool = False,
    ) -> None:
        """
        Prepare a process; ``start`` starts it.

        Args:
            binary: the path of the server program.
            config: lines of the configuration file.
            password: the password that the server asks of clients.
            is_sentinel: whether the process is a Sentinel.
        """
        self.port = 0
        self.folder = Path(tempfile.mkdtemp(prefix="rsmq-test-"))
        self.password = password
        self.is_frozen = False
        self.control: redis.Redis | None = None
        self._config = [*config]
        if password is not None:
            self._config.append(f"requirepass {password}")
        if not is_sentinel:
            self._config[:0] = ['save ""', "appendonly no"]  # lines behind them replace them
        self._command = [binary, str(self.folder / "server.conf")]
        self._command += ["--sentinel"] if is_sentinel else []
        self._process: subprocess.Popen | None = None
        self._has_started = False

    def __repr__(self) -> str:
        return f"<Node {self.port}>"

    @property
    def pid(self) -> int:
        """The process id of the running server."""
        assert self._process, "the server was never started"
        return self._process.pid

    @property
    def is_alive(self) -> bool:
        """Whether the process exists; it may be suspended."""
        return self._process is not None and self._process.poll() is None

    @property
    def is_running(self) -> bool:
        """Whether the process exists and is not suspended."""
        return self.is_alive and not self.is_frozen

    def start(self) -> None:
        """Start the process, and wait until it answers."""
        self.launch()
        self.wait_until_ready()

    def launch(self) -> None:
        """Start the process without waiting, so that several start at the same time."""
        assert not self.is_alive, f"{self} runs already"
        if not self._has_started:
            # Later the server itself writes into this file.
            self._choose_port()
        command = [sys.executable, "-I", "-S", "-c", _LAUNCHER, str(os.getpid()), *self._command]
        self._process = _starter.submit(
            subprocess.Popen, command, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL
        ).result()
        self.is_frozen = False

    def _choose_port(self) -> None:
        if self.control is not None:
            self.control.close()
        self.port = free_port()
        lines = [
            f"port {self.port}",
            "bind 127.0.0.1",
            f"dir {self.folder}",
            f"logfile {self.folder / 'server.log'}",
            "daemonize no",
            *self._config,
        ]
        (self.folder / "server.conf").write_text("".join(f"{line}\n" for line in lines))
        self.control = self.raw(protocol=2, socket_timeout=_CONTROL_TIMEOUT_SECONDS)

    def wait_until_ready(self) -> None:
        """Wait until the started process answers."""
        for _ in range(_FIRST_STARTS):
            deadline = time.monotonic() + WAIT_SECONDS
            while self.is_alive:
                try:
                    self.control.ping()
                except redis.exceptions.BusyLoadingError:
                    pass
                except redis.exceptions.ConnectionError:
                    assert time.monotonic() < deadline, f"{self} does not answer: {self.log()}"
                else:
                    self._has_started = True
                    return
                time.sleep(0.01)
            if self._has_started:
                break
            # Another process has taken the port in the meantime.
            self.launch()
        raise AssertionError(f"{self} does not start: {self.log()}")

    def log(self) -> str:
        """Return the last lines of the server's log."""
        path = self.folder / "server.log"
        return "\n".join(path.read_text().splitlines()[-20:]) if path.exists() else "no log"

    def raw(self, **options: object) -> redis.Redis:
        """Return a client of redis-py without retries."""
        defaults = {
            "host": "127.0.0.1",
            "port": self.port,
            "password": self.password,
            "retry": redis.retry.Retry(redis.backoff.NoBackoff(), 0),
        }
        return redis.Redis(**{**defaults, **options})

    def ask(self, *command: object) -> Any:
        """Send a command, and return its reply as RESP2 has it."""
        return self.control.execute_command(*command)

    def info(self, section: str) -> dict[str, str]:
        """Return the fields of a section of INFO."""
        return fields(self.ask("INFO", section))

    def freeze(self) -> None:
        """Suspend the process (SIGSTOP), and wait until it is suspended."""
        assert self.is_running, f"{self} does not run"
        os.kill(self.pid, signal.SIGSTOP)
        os.waitid(os.P_PID, self.pid, os.WSTOPPED | os.WEXITED | os.WNOWAIT)
        self.is_frozen = True

    def thaw(self) -> None:
        """Continue the suspended process (SIGCONT)."""
        os.kill(self.pid, signal.SIGCONT)
        self.is_frozen = False

    def kill(self) -> None:
        """End the process (SIGKILL), and wait until it has ended."""
        self._process.kill()
        self._process.wait()
        self.is_frozen = False
        self.control.connection_pool.disconnect()

    def restart(self) -> None:
        """Kill the process if it exists, start it again without its data, and wait for it."""
        if self.is_alive:
            self.kill()
        self.start()

    def stop(self) -> None:
        """End the process, and remove its folder."""
        if self.is_alive:
            self.kill()
        if self.control is not None:
            self.control.close()
        shutil.rmtree(self.folder, ignore_errors=True)


def fields(reply: bytes | dict) -> dict[str, str]:
    """Return the lines ``name:value`` of a reply, such as that of INFO, as a dictionary."""
    if isinstance(reply, dict):  # redis-py has parsed it
        return {str(name): str(value) for name, value in reply.items()}
    lines = (line.partition(":") for line in reply.decode().splitlines())
    return {name: value for name, colon, value in lines if colon}


def wait_until_in_step(primary: Node, replicas: Callable[[], Iterable[Node]]) -> float:
    """
    Wait until all replicas have read what the primary had written, and return until when.

    Args:
        primary: the primary.
        replicas: returns its replicas.
    """

    def check() -> float | None:
        begin = time.monotonic()
        return begin if are_in_step(primary, replicas()) else None

    written_until: float = wait_until(check, failure=f"the replicas of {primary} are not in step")
    return written_until


def are_in_step(primary: Node, replicas: Iterable[Node]) -> bool:
    """Return whether all replicas have read everything that the primary had written until now."""
    offset = int(primary.info("replication")["master_repl_offset"])
    for replica in replicas:
        state = replica.info("replication")
        if state.get("master_link_status") != "up" or state["master_sync_in_progress"] != "0":
            return False
        if state["master_port"] != str(primary.port):
            return False
        if int(state["slave_repl_offset"]) < offset:
            return False
    return True
