"""The program ``rsmq``, run inside the process of the tests."""

from __future__ import annotations

import io
import json
import sys
from typing import NamedTuple

from rsmq.cli.app.program import root, run


class Result(NamedTuple):
    """
    The result of one run of the program.

    Attributes:
        code: its exit code.
        raw: the bytes of its standard output.
        stderr: the text of its standard error.
    """

    code: int
    raw: bytes
    stderr: str

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
        """The text of the one error line, without the name of the program."""
        (line,) = self.stderr.splitlines()
        assert line.startswith("rsmq: ")
        return line.removeprefix("rsmq: ")


class Program:
    """The program ``rsmq``, with a namespace. Call it with arguments."""

    def __init__(self, monkeypatch, url, ns):
        self._monkeypatch = monkeypatch
        for name in ("URL", "NS", "CELLS", "PROFILE"):
            monkeypatch.delenv(f"RSMQ_{name}", raising=False)
        monkeypatch.setenv("RSMQ_CONFIG", "/dev/null")
        monkeypatch.setenv("RSMQ_URL", url)
        monkeypatch.setenv("RSMQ_NS", ns)

    def __call__(self, *arguments, stdin=b""):
        out, err = io.BytesIO(), io.BytesIO()
        with self._monkeypatch.context() as patch:
            patch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(stdin), "utf-8"))
            patch.setattr(sys, "stdout", io.TextIOWrapper(out, "utf-8"))
            patch.setattr(sys, "stderr", io.TextIOWrapper(err, "utf-8"))
            code = run(root, "rsmq", [str(each) for each in arguments])
            sys.stdout.flush()
            sys.stderr.flush()
            return Result(code, out.getvalue(), err.getvalue().decode())
