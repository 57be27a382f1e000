"""Signal handlers that C code has installed stay, as those of application servers do."""

from __future__ import annotations

import signal
import subprocess
import sys
import textwrap

import pytest

from rsmq import RSMQ

#: It makes ``_exit`` the handler of a signal: the process ends with the number of the signal.
INSTALL = """
import asyncio, ctypes, os, signal, sys, time
from rsmq import RSMQ, AsyncRSMQ

number, url, ns = int(sys.argv[1]), sys.argv[2], sys.argv[3]

def install_native_handler():
    libc = ctypes.CDLL(None)
    libc.signal.argtypes = (ctypes.c_int, ctypes.c_void_p)
    libc.signal(number, ctypes.cast(libc._exit, ctypes.c_void_p))
"""

#: Calls that defer signals, in both clients.
CALLS = """
def calls():
    with RSMQ.from_url(url, ns=ns) as queues:
        queues.send_message("q", "m")
        queues.receive_message("q", vt=0, wait=1)

async def asyncio_calls():
    async with AsyncRSMQ.from_url(url, ns=ns) as queues:
        for _ in range(2):
            await asyncio.gather(*(queues.send_message("q", "m") for _ in range(20)))
        assert await queues.receive_message("q", vt=0, wait=1)
"""


def ended_by(number, url, ns, steps):
    """Return how a program has ended that raises a signal after some steps."""
    program = textwrap.dedent(INSTALL + CALLS) + "\n".join(steps)
    program += "\nos.kill(os.getpid(), number)\ntime.sleep(60)\n"
    done = subprocess.run(
        [sys.executable, "-c", program, str(int(number)), url, ns],
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    return done.returncode, done.stderr


@pytest.fixture
def queue(raw, ns):
    with RSMQ(raw, ns=ns) as client:
        client.create_queue("q")


@pytest.mark.usefixtures("queue")
@pytest.mark.parametrize("call", ["calls()", "asyncio.run(asyncio_calls())"])
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
@pytest.mark.parametrize("is_first", [True, False], ids=["first", "later"])
def test_a_call_keeps_a_handler_of_c(server, ns, number, call, is_first):
    """Also one that was installed after other calls; Python has had a handler before."""
    steps = ["signal.signal(number, lambda *_: sys.exit(99))", "install_native_handler()", call]
    if not is_first:
        steps.insert(0, "calls()")
    code, errors = ended_by(number, server.url, ns, steps)
    assert (code, errors) == (number, "")


@pytest.mark.usefixtures("queue")
def test_a_handler_of_python_that_replaces_that_of_c_is_deferred_again(server, ns):
    steps = [
        "install_native_handler()",
        "calls()",
        "signal.signal(number, lambda *_: sys.exit(99))",
        "from rsmq.transport.signals import DeferredSignals",
        "with DeferredSignals():",
        "    os.kill(os.getpid(), number)",
        "    print('in the block', file=sys.stderr)",
    ]
    assert ended_by(signal.SIGINT, server.url, ns, steps) == (99, "in the block\n")
