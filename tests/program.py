"""The program ``rsmq``, called inside the process of the tests."""

from __future__ import annotations

import io
import json
import sys
from typing import NamedTuple

from rsmq.cli.app.program import run


class Ended(NamedTuple):
    """How a call ended: its exit code, and what it wrote."""

    code: int
    raw: bytes
    said: str

    @property
    def out(self):
        return self.raw.decode()

    @property
    def lines(self):
        return self.out.splitlines()

    @property
    def json(self):
        return json.loads(self.raw)

    @property
    def error(self):
        """The one line of an error."""
        (line,) = self.said.splitlines()
        assert line.startswith("rsmq: ")
        return line.removeprefix("rsmq: ")


class Program:
    """The program on the queues of a namespace."""

    def __init__(self, monkeypatch, url, ns):
        self._monkeypatch = monkeypatch
        for name in ("URL", "NS", "PROFILE"):
            monkeypatch.delenv(f"RSMQ_{name}", raising=False)
        monkeypatch.setenv("RSMQ_CONFIG", "/dev/null")
        monkeypatch.setenv("RSMQ_URL", url)
        monkeypatch.setenv("RSMQ_NS", ns)

    def __call__(self, *arguments, stdin=b""):
        out, said = io.BytesIO(), io.BytesIO()
        with self._monkeypatch.context() as patch:
            patch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(stdin), "utf-8"))
            patch.setattr(sys, "stdout", io.TextIOWrapper(out, "utf-8"))
            patch.setattr(sys, "stderr", io.TextIOWrapper(said, "utf-8"))
            code = run([str(each) for each in arguments])
            sys.stdout.flush()
            sys.stderr.flush()
            return Ended(code, out.getvalue(), said.getvalue().decode())
