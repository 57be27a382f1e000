"""A PostgreSQL server for tests: on a free port of loopback, in a folder that is deleted."""

from __future__ import annotations

import contextlib
import os
import pwd
import shutil
import signal
import subprocess
import tempfile
import time
from pathlib import Path

import psycopg

from tests.ports import free_port
from tests.scale import WAIT_SECONDS

USER = "rsmq"


def program(name: str) -> str:
    """Return the path of a program of PostgreSQL; Debian has them in a folder for each version."""
    folders = sorted(
        Path("/usr/lib/postgresql").glob("*/bin"), key=lambda each: int(each.parent.name)
    )
    found = shutil.which(name, path=os.pathsep.join(map(str, reversed(folders)))) or shutil.which(
        name
    )
    assert found, f"{name} of PostgreSQL is missing: run scripts/peers"
    return found


class PostgreSQL:
    """
    One server without passwords.

    Root can't run it: then the user of Debian's package does.
    """

    def __init__(self) -> None:
        self.port = free_port()
        self._folder = Path(tempfile.mkdtemp(prefix="rsmq-test-"))
        self._options: dict = {"cwd": self._folder}
        if os.geteuid() == 0:
            owner = pwd.getpwnam("postgres")
            os.chown(self._folder, owner.pw_uid, owner.pw_gid)
            self._options |= {"user": owner.pw_uid, "group": owner.pw_gid, "extra_groups": ()}
        made = subprocess.run(
            [
                program("initdb"), "--pgdata", "data", "--username", USER, "--auth", "trust",
                "--encoding", "UTF8", "--locale", "C", "--no-sync",
            ],
            capture_output=True, text=True, check=False, **self._options,
        )  # fmt: skip
        assert made.returncode == 0, made.stderr
        self._log = self._folder / "log"
        with self._log.open("w") as log:
            self._process = subprocess.Popen(
                [
                    program("postgres"), "-D", "data", "-h", "127.0.0.1", "-p", str(self.port),
                    "-k", "", "-c", "fsync=off", "-c", "shared_buffers=16MB",
                ],
                stdout=log, stderr=log, **self._options,
            )  # fmt: skip
        self._wait()

    def _wait(self) -> None:
        deadline = time.monotonic() + WAIT_SECONDS
        while True:
            with contextlib.suppress(psycopg.OperationalError), self.connect():
                return
            assert self._process.poll() is None, self._log.read_text()
            assert time.monotonic() < deadline, "PostgreSQL does not answer"
            time.sleep(0.02)

    @property
    def url(self) -> str:
        return f"postgresql://{USER}@127.0.0.1:{self.port}/postgres"

    def connect(self) -> psycopg.Connection:
        return psycopg.connect(self.url, autocommit=True)

    def stop(self) -> None:
        # An immediate end: the data is not used again.
        self._process.send_signal(signal.SIGQUIT)
        self._process.wait()
        shutil.rmtree(self._folder, ignore_errors=True)
