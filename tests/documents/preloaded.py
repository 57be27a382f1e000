"""
Python processes that begin with modules imported, such as the clients of rsmq, which takes 0.25 s.

``Preloaded`` starts a server, which forks for each of them. A short program stands for it: it hands
its standard streams, folder and variables to the server, passes SIGTERM on, and ends with the exit
code.
"""

from __future__ import annotations

import gc
import importlib
import json
import os
import runpy
import select
import socket
import subprocess
import sys
from contextlib import suppress
from pathlib import Path

FOLDER = Path(__file__).parent
#: ``-I -S``: it starts in 10 ms.
STUB = """#!{python} -IS
import json, os, signal, socket, sys
with socket.socket(socket.AF_UNIX) as server:
    server.connect({address!r})
    request = [{words!r} + sys.argv[1:], os.getcwd(), dict(os.environ)]
    socket.send_fds(server, [json.dumps(request).encode() + b"\\n"], [0, 1, 2])
    process = int.from_bytes(server.recv(4), "big")
    signal.signal(signal.SIGTERM, lambda *_: os.kill(process, signal.SIGTERM))
    code = server.recv(1)
sys.exit(code[0] if code else "The server of tests/documents/preloaded.py has ended.")
"""


class Preloaded:
    """
    The server.

    Attributes:
        programs: a folder for PATH, with the program ``rsmq``.
        session: the program ``session.py``, where warnings are errors.
        python: a Python that only runs modules.
    """

    def __init__(self, folder: Path, *modules: str, options: tuple[str, ...] = ()) -> None:
        """Start it in an empty folder, with these modules imported, and options of Python."""
        address = str(folder / "socket")
        self.programs = folder / "programs"
        self.programs.mkdir()
        self.session, self.python = folder / "session", folder / "python"
        for path in (self.programs / "rsmq", self.session, self.python):
            words = [path.name]
            path.write_text(STUB.format(python=sys.executable, address=address, words=words))
            path.chmod(0o755)
        self._process = subprocess.Popen(
            [sys.executable, *options, "-m", __name__, address, *modules],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE,
            # A thread of OpenBLAS would not survive the fork.
            env=os.environ | {"PYTHONUNBUFFERED": "1", "OPENBLAS_NUM_THREADS": "1"},
        )  # fmt: skip
        assert self._process.stdout.readline() == b"ready\n"

    def close(self) -> None:
        """End the server."""
        self._process.communicate()


def serve(address: str, *modules: str) -> int:
    """Serve until the standard input ends. A process that was forked returns its exit code."""
    for each in modules:
        with suppress(ImportError):  # an earlier version of PySpark does not have it
            importlib.import_module(each)
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
            with suppress(ConnectionError):  # what stands for it may be killed
                connection.sendall(process.to_bytes(4, "big"))
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
    if sys.argv[0] == "python":
        sys.path.insert(0, folder)
        sys.argv[:2] = []
        sys.modules.pop(sys.argv[0], None)
        runpy.run_module(sys.argv[0], run_name="__main__", alter_sys=True)
        return 0
    from tests.documents import session

    session.main()
    return 0


if __name__ == "__main__":
    sys.exit(serve(*sys.argv[1:]))
