"""The program in processes of its own, with pipes or in a terminal."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pexpect
import pytest

ROOT = Path(__file__).parents[2]
PROGRAM = [sys.executable, "-c", "import sys; from rsmq.cli import main; sys.exit(main())"]


class Processes:
    """A caller of the program in processes of its own, for the queues of a namespace."""

    def __init__(self, url, ns, folder):
        self.folder = folder
        self._started = []
        self.environment = {
            name: value
            for name, value in os.environ.items()
            if not name.startswith(("RSMQ_", "XDG_"))
        }
        self.environment |= {
            "PYTHONPATH": str(ROOT), "PYTHONUNBUFFERED": "1", "HOME": str(folder), "TERM": "xterm",
            "RSMQ_URL": url, "RSMQ_NS": ns, "COLUMNS": "100", "LINES": "30", "LANG": "C.UTF-8",
        }  # fmt: skip

    def start(self, *arguments, **options):
        process = subprocess.Popen(
            [*PROGRAM, *map(str, arguments)], env=self.environment, cwd=self.folder,
            **{"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, **options},
        )  # fmt: skip
        self._started.append(process)
        return process

    def __call__(self, *arguments, stdin=b""):
        process = self.start(*arguments, stdin=subprocess.PIPE)
        out, stderr = process.communicate(stdin)
        return process.returncode, out, stderr.decode()

    def shell(self, line):
        """Run a line of bash, in which ``rsmq`` is the program."""
        program = " ".join(f"'{part}'" for part in PROGRAM)
        script = f'rsmq() {{ {program} "$@"; }}\nset -o pipefail\n{line}'
        completed = subprocess.run(
            ["bash", "-c", script], env=self.environment, cwd=self.folder,
            capture_output=True, check=False,
        )  # fmt: skip
        return completed.returncode, completed.stdout.decode(), completed.stderr.decode()

    def terminal(self, *arguments):
        """Start the program in a terminal of its own."""
        process = pexpect.spawn(
            PROGRAM[0], [*PROGRAM[1:], *map(str, arguments)], env=self.environment,
            cwd=str(self.folder), dimensions=(30, 100), encoding="utf-8", timeout=20,
        )  # fmt: skip
        self._started.append(process)
        return process

    def close(self):
        for process in self._started:
            if isinstance(process, pexpect.spawn):
                process.close(force=True)
            else:
                if process.poll() is None:
                    process.kill()
                process.wait()
                for pipe in (process.stdin, process.stdout, process.stderr):
                    if pipe is not None:
                        pipe.close()


@pytest.fixture
def processes(server, ns, tmp_path):
    processes = Processes(server.url, ns, tmp_path)
    yield processes
    processes.close()
