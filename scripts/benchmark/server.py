"""The redis-server for all measurements."""

from __future__ import annotations

import socket
import subprocess
import time
from typing import Self

import redis

START_TIMEOUT_SECONDS = 10.0


class Server:
    """A redis-server on a free port of the loopback interface, without persistence."""

    def __init__(self) -> None:
        with socket.socket() as probe:
            probe.bind(("127.0.0.1", 0))
            self.port: int = probe.getsockname()[1]
        self.client = redis.Redis(port=self.port)
        self._process = subprocess.Popen(
            ["redis-server", "--port", str(self.port), "--bind", "127.0.0.1",
             "--save", "", "--appendonly", "no"],
            stdout=subprocess.DEVNULL,
            start_new_session=True,  # Ctrl-C is for the benchmark, which then stops this process
        )  # fmt: skip

    @property
    def url(self) -> str:
        """Return its url for clients."""
        return f"redis://127.0.0.1:{self.port}/0"

    def cpu_seconds(self) -> float:
        """Return the processor time of the thread that runs commands, in seconds."""
        cpu = self.client.info("cpu")
        return cpu["used_cpu_user_main_thread"] + cpu["used_cpu_sys_main_thread"]

    def calls(self, command: str) -> int:
        """Return the number of calls of a command."""
        command_statistics = self.client.info("commandstats")
        return command_statistics.get(f"cmdstat_{command}", {"calls": 0})["calls"]

    def __enter__(self) -> Self:
        try:
            self._wait_until_ready()
        except BaseException:
            self.__exit__()
            raise
        return self

    def _wait_until_ready(self) -> None:
        deadline = time.monotonic() + START_TIMEOUT_SECONDS
        while True:
            try:
                self.client.ping()
            except redis.ConnectionError:
                if self._process.poll() is not None or time.monotonic() > deadline:
                    raise
                time.sleep(0.01)
            else:
                return

    def __exit__(self, *_: object) -> None:
        self.client.close()
        self._process.terminate()
        self._process.wait()
