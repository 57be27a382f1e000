"""
The generator of the synchronous client from the asyncio client: scripts/generate-sync.

The clients differ in names, in ``async`` and ``await``, and in some texts of their docstrings.
``TEXTS`` has both forms of these texts.
"""

from __future__ import annotations

import io
import subprocess
import sys
import tokenize
from pathlib import Path

_ROOT = Path(__file__).resolve().parents[1]
_SOURCE, _TARGET = _ROOT / "rsmq" / "aio.py", _ROOT / "rsmq" / "client.py"
_RUFF = str(Path(sys.executable).with_name("ruff"))

#: Names in the asyncio client, and the names that replace them; "" also removes the dot before it.
NAMES = {
    "AsyncCaller": "Caller",
    "AsyncRSMQ": "RSMQ",
    "AsyncWatcher": "Watcher",
    "AsyncWatchers": "Watchers",
    "OnlyAsyncWith": "OnlyWith",
    "__aenter__": "__enter__",
    "__aexit__": "__exit__",
    "aio": "sync",
    "async_caller_from_client": "caller_from_client",
    "async_caller_from_url": "caller_from_url",
    "async_client": "client",
    "asyncio": "",
}

#: Texts in the asyncio client, each of which occurs once, and the texts that replace them.
TEXTS = {
    """\
The asyncio client, ``AsyncRSMQ``.

``client.py`` is generated from this file by ``scripts/generate-sync``.
""": """\
The synchronous client, ``RSMQ``.

Generated from ``aio.py`` by ``scripts/generate-sync``: change it there.
""",
    "An asyncio client for RSMQ queues on a Redis server.": (
        "A client for RSMQ queues on a Redis server."
    ),
    """\
    Event loops: a client from ``from_url`` has one connection for each event loop. All calls of the
    loop share it, and concurrent calls are sent together. A client that uses a passed-in client
    belongs to that client's event loop, and takes a connection from its pool for each call.

    Cancellation: a receive that is cancelled, at any point, releases its messages before
    CancelledError is raised, which takes at most a second. Any other call that is cancelled after
    it was sent may or may not have run.

    Closing: ``close`` waits at most a second for running calls. A call that has not ended by then
    raises ClientClosed, and may have run. Every later call raises ClientClosed.
""": """\
    Threads: several threads may use a client at the same time. A client may also be used after a
    fork, in the parent and in the child.

    Signals: Ctrl-C (and a handler of SIGTERM or SIGALRM that raises) takes effect when the running
    call has ended. More signals within the next second also wait for that. A later signal takes
    effect at once; a message that was being received may then stay hidden until its visibility
    timeout ends. The same can happen, rarely, if two signals arrive within microseconds of each
    other just as a receive ends.
""",
    "client: a ``Redis`` or ``RedisCluster`` of redis.asyncio; close() leaves it open.": (
        "client: a ``Redis`` or ``RedisCluster`` of redis; close() leaves it open."
    ),
    "Open connections that close() closes; one for each event loop.": (
        "Open connections that close() closes; one for each thread that makes calls."
    ),
    """\
                slow link may take longer). ``max_connections`` has no effect.
""": """\
                slow link may take longer). With ``max_connections`` the threads share a pool of
                that size.
""",
    """\
        A cancellation during the call releases the message at once; its receive count stays raised.
""": """\
        An interruption (Ctrl-C) during the call releases the message at once; its receive count
        stays raised. With a RedisCluster client the message stays hidden until its visibility
        timeout ends.
""",
    "Waiting calls in other event loops end with ClientClosed.": (
        "Waiting calls in other threads end with ClientClosed."
    ),
}


def to_synchronous(source: str) -> str:
    """Return the synchronous form of the source of the asyncio client, not yet formatted."""
    lines = source.splitlines(keepends=True)
    tokens = list(tokenize.generate_tokens(io.StringIO(source).readline))
    for before, token, after in reversed(list(zip(tokens, tokens[1:], tokens[2:], strict=False))):
        if token.type != tokenize.NAME:
            continue
        (row, begin), (_, end) = token.start, token.end
        if token.string in {"async", "await"}:
            new, end = "", after.start[1]
        elif token.string in NAMES:
            new = NAMES[token.string]
            if not new:
                begin = before.start[1]  # the dot before it
        else:
            continue
        line = lines[row - 1]
        lines[row - 1] = line[:begin] + new + line[end:]
    text = "".join(lines)
    for async_text, sync_text in TEXTS.items():
        count = text.count(async_text)
        if count != 1:
            sys.exit(f"This text of aio.py is there {count} times, not once: {async_text}")
        text = text.replace(async_text, sync_text)
    return text


def format_source(text: str) -> str:
    """Return a source text with imports sorted and code formatted by ruff."""
    for command in (["check", "--select", "I", "--fix", "--quiet"], ["format", "--quiet"]):
        run = subprocess.run(
            [_RUFF, *command, "--stdin-filename", str(_TARGET), "-"],
            input=text, text=True, stdout=subprocess.PIPE, check=True,
        )  # fmt: skip
        text = run.stdout
    return text


if __name__ == "__main__":
    generated = format_source(to_synchronous(_SOURCE.read_text()))
    if sys.argv[1:] == ["--check"]:
        if generated != _TARGET.read_text():
            sys.exit("rsmq/client.py is not up to date: scripts/generate-sync")
    else:
        _TARGET.write_text(generated)
