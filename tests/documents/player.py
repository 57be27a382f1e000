"""The player of a page, which runs its blocks in order, in a folder of their own."""

from __future__ import annotations

import io
import json
import os
import re
import signal
import subprocess
import sys
import time
import tokenize
from pathlib import Path

from tests.documents.pages import ROOT, Block, matches
from tests.scale import WAIT_SECONDS

SESSION = Path(__file__).with_name("session.py")
#: A block ends at the first command that fails. The doctor's exit code is 1 for a fault.
STRICT = """
set -o pipefail
trap 'code=$?; [[ $code = 1 && $BASH_COMMAND = "rsmq doctor"* ]] || exit $code' ERR
"""


def read_comments(code: str) -> dict[int, str]:
    """Return the comments of Python code by their lines, without those on lines of their own."""
    return {
        token.start[0]: token.string.lstrip("# ")
        for token in tokenize.generate_tokens(io.StringIO(code).readline)
        if token.type == tokenize.COMMENT and token.line[: token.start[1]].strip()
    }


def agrees(comment: str, text: str) -> bool:
    """Return whether a comment is the printed text, alone or with a remark behind a colon."""
    return matches(text, comment) or any(
        matches(text, comment[: colon.start()]) for colon in re.finditer(": ", comment)
    )


class Player:
    """
    Runs blocks in order: Python in one interpreter, shell commands by bash with ``set -e``.

    Addresses with the port 6379 become those of the test's server, and a wait of at least ten
    seconds may take as long as any wait of a test. Nothing may be written to the
    standard error of the interpreter, unless ``is_silent`` is False. ``preloaded`` starts the
    interpreter, and the commands of ``rsmq`` that do not run in the background. ``python`` is the
    interpreter of another environment, whose rsmq is used in place of this clone's.
    """

    def __init__(
        self, server, folder, environment=None, *, preloaded=None, python=None, is_silent=True
    ):
        self._is_silent = is_silent
        self._server = server
        self.folder = folder
        self._background = []
        self._environment = {
            name: value
            for name, value in os.environ.items()
            if not name.startswith(("RSMQ_", "XDG_"))
        }
        self._environment |= {
            "PYTHONPATH": str(folder) if python else f"{ROOT}{os.pathsep}{folder}",
            "PATH": f"{Path(python or sys.executable).parent}{os.pathsep}{os.environ['PATH']}",
            "HOME": str(folder), "LANG": "C.UTF-8", "COLUMNS": "100", "PYTHONUNBUFFERED": "1",
            "RSMQ_URL": server.url,
        } | (environment or {})  # fmt: skip
        self._session = None
        self._interpreter = [python or sys.executable, *["-W", "error"] * is_silent, SESSION]
        self._commands_environment = self._environment
        if preloaded:
            self._interpreter = [preloaded.session]
            path = f"{preloaded.programs}{os.pathsep}{self._environment['PATH']}"
            self._commands_environment = self._environment | {"PATH": path}

    def play(self, blocks: list[Block]) -> None:
        """Run blocks, and compare their outputs with the documented ones."""
        try:
            for block in blocks:
                self._play_one(block)
            for block, running, log in self._background:
                self._end(block, running, log)
            if self._session is not None:
                _, error = self._session.communicate(timeout=WAIT_SECONDS)
                assert self._session.returncode == 0, error
                assert not (self._is_silent and error), error
        finally:
            for process in (self._session, *(running for _, running, _ in self._background)):
                if process is not None and process.poll() is None:
                    process.kill()
                    process.communicate()

    def _play_one(self, block):
        code = block.code.replace("127.0.0.1:6379", f"127.0.0.1:{self._server.port}").replace(
            "port=6379", f"port={self._server.port}"
        )
        code = re.sub(r"\btimeout=\d\d\b", f"timeout={WAIT_SECONDS}", code)
        if block.how == "file":
            (self.folder / block.file).write_text(code)
        elif block.how == "background":
            self._start(block, code)
        elif block.language == "python":
            self._run_python(block, code)
        elif block.language == "sh":
            self.run_commands(block, code)

    def _run_python(self, block, code):
        if self._session is None:
            self._session = subprocess.Popen(
                self._interpreter,
                cwd=self.folder, env=self._environment, text=True,
                stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
            )  # fmt: skip
        self._session.stdin.write(json.dumps({"name": str(block), "code": code}) + "\n")
        self._session.stdin.flush()
        answer = self._session.stdout.readline()
        assert answer, f"{block}: the interpreter ended: {self._session.communicate()[1]}"
        result = json.loads(answer)
        assert result["error"] is None, f"{block}: {result['error']}"
        if block.output is not None:
            check_output(block, result["output"])
        else:
            check_prints(block, result["prints"])

    def run_commands(self, block, code):
        deadline = time.monotonic() + WAIT_SECONDS
        while True:
            done = subprocess.run(
                ["bash", "-c", f"{STRICT}\n{code}\nexit 0"], cwd=self.folder,
                env=self._commands_environment, capture_output=True, text=True, check=False,
                timeout=WAIT_SECONDS,
            )  # fmt: skip
            if block.how != "repeat" or (
                done.returncode == 0
                and (block.output is None or matches(done.stdout, block.output))
            ):
                break
            assert time.monotonic() < deadline, f"{block}: {done.stdout}{done.stderr}"
            time.sleep(0.1)
        assert done.returncode == 0, f"{block}: {done.returncode} {done.stdout}{done.stderr}"
        if block.output is not None:
            check_output(block, done.stdout)

    def _start(self, block, code):
        log = self.folder / f"background-{block.line}.log"
        with log.open("w") as output:
            running = subprocess.Popen(
                ["bash", "-c", f"exec {code}"], cwd=self.folder, env=self._environment,
                stdout=output, stderr=subprocess.PIPE, text=True,
            )  # fmt: skip
        self._background.append((block, running, log))

    @staticmethod
    def _end(block, running, log):
        deadline = time.monotonic() + WAIT_SECONDS
        while block.output is not None and not matches(log.read_text(), block.output):
            assert time.monotonic() < deadline, f"{block}: {log.read_text()}"
            assert running.poll() is None, f"{block}: ended: {running.communicate()[1]}"
            time.sleep(0.1)
        running.send_signal(signal.SIGTERM)
        _, error = running.communicate(timeout=WAIT_SECONDS)
        assert running.returncode == 0, f"{block}: {error}"


def check_output(block: Block, output: str) -> None:
    """Compare the output of a block with the documented one."""
    assert matches(output, block.output), (
        f"{block} is documented to print\n{block.output}\nand prints\n{output}"
    )


def check_prints(block: Block, prints: list[list]) -> None:
    """Compare each printed text with the comment beside its call of print."""
    comments = read_comments(block.code)
    for line, text in prints:
        place = f"{block.page}:{block.line + line - 1}"
        assert line in comments, f"{place}: a print without a comment on its output"
        assert agrees(comments[line], text), f"{place}: prints {text!r}, not {comments[line]!r}"
    lines = {line for line, _ in prints}
    for number, text in enumerate(block.code.splitlines(), 1):
        assert not re.match(r"\s*print\(", text) or number in lines, (
            f"{block.page}:{block.line + number - 1}: this print was not reached"
        )
