"""
Python processes that begin with redis-py and the clients of rsmq imported, which takes 0.25 s.

``Preloaded`` starts a server, which forks for each of them. A short program stands for it: it hands
its standard streams, folder and variables to the server, and ends with the exit code.
"""

from __future__ import annotations

import gc
import json
import os
import select
import socket
import subprocess
import sys
from pathlib import Path

FOLDER = Path(__file__).parent
#: ``-I -S``: it starts in 10 ms.
STUB = """#!{python} -IS
import json, os, socket, sys
with socket.socket(socket.AF_UNIX) as server:
    server.connect({address!r})
    request = [{words!r} + sys.argv[1:], os.getcwd(), dict(os.environ)]
    socket.send_fds(server, [json.dumps(request).encode() + b"\\n"], [0, 1, 2])
    code = server.recv(1)
sys.exit(code[0] if code else "The server of tests/documents/preloaded.py has ended.")
"""


class Preloaded:
    """
    The server.

    Attributes:
        programs: a folder for PATH, with the program ``rsmq``.
        session: the program ``session.py``, where warnings are errors.
    """

    def __init__(self, folder: Path) -> None:
        address = str(folder / "socket")
        self.programs = folder / "programs"
        self.programs.mkdir()
        self.session = folder / "session"
        for path, words in ((self.programs / "rsmq", ["rsmq"]), (self.session, ["session"])):
            path.write_text(STUB.format(python=sys.executable, address=address, words=words))
            path.chmod(0o755)
        self._process = subprocess.Popen(
            [sys.executable, "-W", "error", "-m", __name__, address],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE,
            env=os.environ | {"PYTHONUNBUFFERED": "1"},
        )  # fmt: skip
        assert self._process.stdout.readline() == b"ready\n"

    def close(self) -> None:
        """End the server."""
        self._process.communicate()


def serve(address: str) -> int:
    """Serve until the standard input ends. A process that was forked returns its exit code."""
    from rsmq import RSMQ, AsyncRSMQ  # noqa: F401 - not in the tests that start the server

    gc.collect()
    gc.freeze()
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(address)
        listener.listen()
        print("ready", flush=True)
        while listener in select.select([listener, sys.stdin], [], [])[0]:
            connection, _ = listener.accept()
            if not os.fork():
                listener.close()
                return answer(connection)
            connection.close()
            reap(os.WNOHANG)
    reap(0)
    return 0


def reap(options: int) -> None:
    try:
        while os.waitpid(-1, options) != (0, 0):
            pass
    except ChildProcessError:
        pass


def answer(connection: socket.socket) -> int:
    """Fork the process that was asked for, and send its exit code."""
    with connection:
        data, descriptors, _, _ = socket.recv_fds(connection, 1 << 20, 3)
        while not data.endswith(b"\n"):
            data += connection.recv(1 << 20)
        if process := os.fork():
            code = os.waitstatus_to_exitcode(os.waitpid(process, 0)[1])
            connection.sendall(bytes([code % 256]))
            return 0
    for number, descriptor in enumerate(descriptors):
        os.dup2(descriptor, number)
        os.close(descriptor)
    sys.argv, folder, variables = json.loads(data)
    os.chdir(folder)
    os.environ.clear()
    os.environ.update(variables)
    sys.path[:0] = os.environ["PYTHONPATH"].split(os.pathsep)
    if sys.argv[0] == "rsmq":
        from rsmq.cli import main

        return main()
    from tests.documents import session

    session.main()
    return 0


if __name__ == "__main__":
    sys.exit(serve(sys.argv[1]))
