"""
Start a Redis, traffic, workers that fail, and the dashboard, until Ctrl-C.

``scripts/dashboard-demo`` calls it.
"""

from __future__ import annotations

import argparse
import base64
import ctypes
import json
import secrets
import signal
import socket
import subprocess
import sys
import tempfile
import time
import urllib.request
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

import redis
from redis.exceptions import RedisError

from rsmq import JSON, RSMQ
from rsmq.web.access.secrets import hash_password, hash_token, make_token

from .incidents import INCIDENTS
from .traffic import create_queues

_WORKERS = {"shop-1": "worker", "shop-2": "worker", "thumbs-1": "thumbnails"}
#: Those that only an incident has.
_OTHERS = {"rates-1": "rates", "books-1": "books", "shop-3": "canary", "imports-1": "imports"}
#: A worker that has died is started again after this time, so that it is seen dead.
_DEAD_SECONDS = 20
_SECONDS_BETWEEN_KILLS = 70
_START_SECONDS = 60


class Demo:
    """
    The processes of a run, which end with it.

    Attributes:
        redis: the URL of Redis.
        web: that of the dashboard.
        traffic: the command of the traffic.
        workers: the names of those that are started again when they have died.
        key: with which the person at the browser is known as ``you``.
        password: that of the colleague, ``kim``.
    """

    def __init__(self, folder: str, port: int, *, is_calm: bool) -> None:
        """
        Choose the ports.

        Args:
            is_calm: whether nothing is wrong in the shop before an incident.
        """
        self._is_calm = is_calm
        self.key, self.password = make_token(), secrets.token_urlsafe(6)
        self._folder = Path(folder)
        self._port = _free_port()
        self._processes: dict[str, subprocess.Popen[bytes]] = {}
        self.workers = set(_WORKERS)
        self.redis = f"redis://127.0.0.1:{self._port}/0"
        self.web = f"http://127.0.0.1:{port or _free_port()}"
        self.traffic = (
            sys.executable, "-m", "scripts.demos.dashboard.traffic", self.redis, str(_free_port())
        )  # fmt: skip

    def start(self, name: str, *command: str) -> None:
        """Start a process instead of the one with this name."""
        self.kill(name)
        with (self._folder / f"{name}.log").open("ab") as log:
            self._processes[name] = subprocess.Popen(
                command, stdin=subprocess.DEVNULL, stdout=log, stderr=log,
                process_group=0,  # Ctrl-C of a terminal is for this process
                preexec_fn=_end_with_parent if sys.platform == "linux" else None,  # noqa: PLW1509
            )  # fmt: skip

    def kill(self, name: str) -> None:
        """Kill a process, if it runs."""
        if name in self._processes:
            self._processes[name].kill()
            self._processes[name].wait()

    def has_ended(self, name: str) -> bool:
        """Return whether a process has ended."""
        return self._processes[name].poll() is not None

    def start_all(self) -> None:
        """Start everything, and return when the dashboard answers."""
        self.start(
            "redis", "redis-server", "--port", str(self._port), "--bind", "127.0.0.1",
            "--dir", str(self._folder), "--save", "",
        )  # fmt: skip
        with redis.Redis.from_url(self.redis) as raw:
            self._wait("redis", raw.ping)
        with RSMQ.from_url(self.redis, codec=JSON) as queues:
            print("Recording a past ...", flush=True)
            create_queues(queues, self.redis, is_calm=self._is_calm)
        users = self._write_users()
        self.start(
            "web", sys.executable, "-m", "rsmq", "web", "--url", self.redis, "--users", str(users),
            "--port", self.web.rpartition(":")[2],
            "--push", "--push-allow", "127.0.0.1", "--push-allow-http",
        )  # fmt: skip
        for name in _WORKERS:
            self.start_worker(name)
        self.start("traffic", *self.traffic, *(["calm"] if self._is_calm else []))
        ready = f"{self.web}/readyz"
        self._wait("web", lambda: urllib.request.urlopen(ready, timeout=5).close())  # noqa: S310
        if not self._is_calm:
            self.call("queues/campaign:pause")

    def _write_users(self) -> Path:
        path = self._folder / "users.toml"
        path.touch(mode=0o600)
        path.write_text(
            f'[tokens.you]\nsha256 = "{hash_token(self.key)}"\nrole = "admin"\n'
            f'[users.kim]\npassword = "{hash_password(self.password)}"\nrole = "admin"\n'
        )
        return path

    def call(self, path: str, *, method: str = "POST", **content: object) -> None:
        """Call the API as the colleague, so that the audit knows who it was."""
        login = base64.b64encode(f"kim:{self.password}".encode()).decode()
        request = urllib.request.Request(  # noqa: S310
            f"{self.web}/api/v1/{path}", json.dumps(content).encode(),
            {"Content-Type": "application/json", "Authorization": f"Basic {login}"}, method=method,
        )  # fmt: skip
        urllib.request.urlopen(request, timeout=10).close()  # noqa: S310

    def start_worker(self, name: str) -> None:
        """Start a worker, also again: it takes over the messages of its dead predecessor."""
        self.workers.add(name)
        program = "from rsmq.cli import run_worker; run_worker()"
        where = f"scripts.demos.dashboard.shop:{(_WORKERS | _OTHERS)[name]}"
        self.start(name, sys.executable, "-c", program, where, "--name", name, "--url", self.redis)

    def _wait(self, name: str, is_ready: Callable[[], object]) -> None:
        deadline = time.monotonic() + _START_SECONDS
        while True:
            try:
                is_ready()
            except (RedisError, OSError):
                if self.has_ended(name) or time.monotonic() > deadline:
                    log = (self._folder / f"{name}.log").read_text()
                    raise SystemExit(f"{name} has not started:\n{log}") from None
                time.sleep(0.05)
            else:
                return

    def run(self, *, is_killing: bool) -> None:
        """
        Start workers again that have died.

        Args:
            is_killing: whether one is killed at intervals.
        """
        died: dict[str, float] = {}
        last_kill = time.monotonic()
        while True:
            time.sleep(0.5)
            now = time.monotonic()
            if is_killing and now - last_kill > _SECONDS_BETWEEN_KILLS:
                last_kill = now
                self.kill("shop-2")
            for name in self.workers:
                if self.has_ended(name) and now - died.setdefault(name, now) > _DEAD_SECONDS:
                    del died[name]
                    self.start_worker(name)

    def stop(self) -> None:
        """End all processes, Redis at last."""
        for name in reversed(self._processes):
            process = self._processes[name]
            process.terminate()
            with suppress(subprocess.TimeoutExpired):
                process.wait(3)
            self.kill(name)


def _end_with_parent() -> None:
    set_death_signal = 1
    ctypes.CDLL(None).prctl(set_death_signal, signal.SIGKILL, 0, 0, 0)


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


def _stop(*_: object) -> None:
    raise KeyboardInterrupt


def main() -> None:
    """Run the demo until Ctrl-C, SIGTERM or SIGHUP."""
    parser = argparse.ArgumentParser(prog="scripts/dashboard-demo", description=__doc__)
    parser.add_argument("--port", type=int, default=0, help="of the dashboard; a free one if 0")
    parser.add_argument("--incident", choices=INCIDENTS, help="something that goes wrong")
    arguments = parser.parse_args()
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, _stop)
    with tempfile.TemporaryDirectory(prefix="rsmq-demo-") as folder:
        demo = Demo(folder, arguments.port, is_calm=arguments.incident is not None)
        try:
            demo.start_all()
            print(f"The dashboard: {demo.web}  Ctrl-C ends it.")
            print(f"Log in without a name, with the token {demo.key}: you are called you.")
            print(f"Your colleague is kim, with the password {demo.password}", flush=True)
            if arguments.incident:
                incident = INCIDENTS[arguments.incident]
                incident.cause(demo)
                print(f"Incident: {incident.text}", flush=True)
            demo.run(is_killing=not arguments.incident)
        except KeyboardInterrupt:
            print("\nEnding ...", flush=True)
        finally:
            demo.stop()


if __name__ == "__main__":
    main()
