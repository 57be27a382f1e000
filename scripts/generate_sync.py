"""
The generator of the synchronous modules from the asyncio modules: scripts/generate-sync.

They differ in names, in ``async`` and ``await``, and in some texts, mostly of docstrings.
``TEXTS`` has both forms of these texts.
"""

from __future__ import annotations

import io
import re
import subprocess
import sys
import tokenize
from dataclasses import dataclass
from pathlib import Path

from scripts import generate_vocabulary

_PACKAGE = Path(__file__).resolve().parents[1] / "rsmq"
_RUFF = str(Path(sys.executable).with_name("ruff"))

#: Names in the asyncio modules and in their texts, and the names that replace them; "" also removes
#: the dot before it.
NAMES = {
    "AsyncCaller": "Caller",
    "AsyncConsumer": "Consumer",
    "AsyncFlowHandle": "FlowHandle",
    "AsyncJobHandle": "JobHandle",
    "AsyncMapJobs": "MapJobs",
    "AsyncPartitions": "Partitions",
    "AsyncProcessing": "Processing",
    "AsyncRSMQ": "RSMQ",
    "AsyncSchedules": "Schedules",
    "AsyncSubscribers": "Subscribers",
    "AsyncTrash": "Trash",
    "AsyncWatcher": "Watcher",
    "AsyncWatchers": "Watchers",
    "AsyncWorkers": "Workers",
    "AwaitsResult": "BlocksForResult",
    "OnlyAsyncWith": "OnlyWith",
    "__aenter__": "__enter__",
    "__aexit__": "__exit__",
    "__aiter__": "__iter__",
    "__anext__": "__next__",
    "StopAsyncIteration": "StopIteration",
    "async_caller_from_client": "caller_from_client",
    "async_caller_from_url": "caller_from_url",
    "async_client": "client",
    "asyncio": "",
}
_NAMES_IN_TEXTS = re.compile(
    rf"\b({'|'.join(name for name in NAMES if name.startswith('Async'))})\b"
)
#: The asyncio modules, and the synchronous ones that are generated from them.
SOURCES = {
    "rsmq.aio": "rsmq._sync.client",
    "rsmq.waiting.consuming": "rsmq._sync.consuming",
    "rsmq.partitions": "rsmq._sync.partitions",
    "rsmq.jobs.flows.asyncio_": "rsmq.jobs.flows.threads",
    "rsmq.jobs.asyncio_": "rsmq.jobs.threads",
    "rsmq.tasks.sends.asyncio_": "rsmq.tasks.sends.threads",
    "rsmq.schedules.asyncio_": "rsmq.schedules.threads",
    "rsmq.trash.asyncio_": "rsmq.trash.threads",
    "rsmq.push.async_subscribers": "rsmq.push.subscribers",
    "rsmq.explain.async_reader": "rsmq.explain.reader",
    "rsmq.control.asyncio_": "rsmq.control.threads",
}
#: Packages and modules of asyncio, and those of threads.
_FACES = {
    **SOURCES,
    "rsmq.transport.asyncio_": "rsmq.transport.threads",
    "rsmq.waiting.asyncio_": "rsmq.waiting.threads",
}
_IMPORTED = re.compile(
    rf"^( *from )({'|'.join(map(re.escape, sorted(_FACES, key=len, reverse=True)))})\b",
    re.MULTILINE,
)

#: Texts in the asyncio client, each of which occurs once, and the texts that replace them.
CLIENT_TEXTS = {
    """\
A watcher belongs to one process, and with
        asyncio to one event loop: read this property where it is used. Its methods are those of
        ``rsmq.waiting``, which may change in every release.
""": """\
A watcher belongs to one process: read this
        property where it is used. Its methods are those of ``rsmq.waiting``, which may change in
        every release.
""",
    "The asyncio client, ``AsyncRSMQ``.": "The synchronous client, ``RSMQ``.",
    "An asyncio client for RSMQ queues on a Redis server.": (
        "A client for RSMQ queues on a Redis server."
    ),
    """\
    Event loops: a client may be used in several event loops. It has one connection for each. All
    calls of the loop share it, and concurrent calls are sent together.

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
    """\
            client: a ``Redis`` or ``RedisCluster`` of redis.asyncio, or the ``master_for`` of a
                Sentinel, whose options are read now. It is never closed, and may be closed.
""": """\
            client: a ``Redis`` or ``RedisCluster`` of redis, or the ``master_for`` of a Sentinel,
                whose options are read now. It is never closed, and may be closed. The threads
                share at most ``max_connections`` of a ``Redis``.
""",
    "Open connections that close() closes; one for each event loop.": (
        "Open connections that close() closes; one for each thread that makes calls."
    ),
    """\
                slow link may take longer). ``max_connections`` has no effect. With several
                servers also""": """\
                slow link may take longer). With ``max_connections`` the threads share a pool of
                that size for each server. With several servers also""",
    """\
        A cancellation during the call releases the message at once; its receive count stays raised.
""": """\
        An interruption (Ctrl-C) during the call releases the message at once; its receive count
        stays raised.
""",
    "Waiting calls in other event loops end with ClientClosed.": (
        "Waiting calls in other threads end with ClientClosed."
    ),
    """\
            async with queues.consume("orders") as messages:
                async for message in messages:
                    async with queues.processing(message):
                        ...
""": """\
            with queues.consume("orders") as messages:
                for message in messages:
                    with queues.processing(message):
                        ...
""",
    """\
            async with queues.processing(message):
                ...
""": """\
            with queues.processing(message):
                ...
""",
    "also after ``break``, an exception or a cancellation, the messages\n": (
        "also after ``break`` or an exception (also Ctrl-C), the messages\n"
    ),
    "If it raises, also because of a cancellation, the message is released\n": (
        "If it raises, also because of Ctrl-C, the message is released\n"
    ),
}

#: The same for the context managers of the clients.
CONSUMING_TEXTS = {
    "The context managers of the asyncio client": "The context managers of the synchronous client",
    "Only one task may use it at a time.": "Only one thread may use it at a time.",
    '"async with queues.consume(...) as messages: async for message in messages"': (
        '"with queues.consume(...) as messages: for message in messages"'
    ),
}


#: The texts of each asyncio module that has some.
TEXTS = {
    "rsmq.jobs.flows.asyncio_": {
        "``queues.flow`` of the asyncio clients.": "``queues.flow`` of the synchronous clients.",
        "by its id; ``await flow`` is ``await flow.result()``.": "by its id.",
    },
    "rsmq.jobs.asyncio_": {
        "``queues.job`` of the asyncio clients.": "``queues.job`` of the synchronous clients.",
        "its id; ``await job`` is ``await job.result()``.": "its id.",
    },
    "rsmq.tasks.sends.asyncio_": {"with the asyncio client.": "with the synchronous client."},
    "rsmq.aio": CLIENT_TEXTS,
    "rsmq.waiting.consuming": CONSUMING_TEXTS,
    "rsmq.partitions": {
        "AsyncRSMQ.from_url(url, ns=name, **options))\n": (
            "AsyncRSMQ.from_url(url, ns=name, **options))\n"
            "        share_connections(client.caller for client in self.clients)\n"
        ),
        "from rsmq.wire.partitions": (
            "from rsmq.transport.threads.caller import share_connections\nfrom rsmq.wire.partitions"
        ),
        "Open connections that close() closes, when they are needed.": (
            "Open connections that close() closes: one of each thread to each server."
        ),
    },
    "rsmq.schedules.asyncio_": {
        "``queues.schedules`` of the asyncio clients.": (
            "``queues.schedules`` of the synchronous clients."
        ),
        "Make it for an asyncio client;": "Make it for a synchronous client;",
    },
    "rsmq.control.asyncio_": {
        "``queues.workers`` of the asyncio clients.": (
            "``queues.workers`` of the synchronous clients."
        ),
        "Make it for an asyncio client;": "Make it for a synchronous client;",
    },
    "rsmq.trash.asyncio_": {
        "``queues.trash`` of the asyncio clients.": "``queues.trash`` of the synchronous clients.",
        "Make it for an asyncio client;": "Make it for a synchronous client;",
    },
    "rsmq.explain.async_reader": {
        "a queue or a message, with an asyncio client.": "a queue or a message.",
        "the asyncio client that has": "the client that has",
        **{
            f"""\
        rsmq: an asyncio client.
        qname: the name of the queue.
{end}""": f"""\
        rsmq: a synchronous client.
        qname: the name of the queue.
{end}"""
            for end in ("        id:", "        sees_server:")
        },
    },
    "rsmq.push.async_subscribers": {
        "Subscribers of queues, for asyncio: the targets": "Subscribers of queues: the targets",
        "rsmq: an asyncio client.": "rsmq: a synchronous client.",
    },
}


@dataclass(frozen=True)
class Module:
    """
    A generated module.

    Attributes:
        source: the asyncio module.
        target: the synchronous module, which is generated from it.
        texts: texts that differ.
    """

    source: Path
    target: Path
    texts: dict[str, str]

    def generate(self) -> str:
        """Return the source of the synchronous module."""
        text = self.source.read_text()
        for async_text in self.texts:
            count = text.count(async_text)
            if count != 1:
                sys.exit(f"This text of {self.source} is there {count} times: {async_text}")
        for async_text, sync_text in self.texts.items():
            text = text.replace(async_text, sync_text)
        text = _IMPORTED.sub(lambda found: found[1] + _FACES[found[2]], text)
        text = _without_awaitables(to_synchronous(text))
        origin = self.source.relative_to(_PACKAGE.parent)
        first_line = f"# Generated from {origin} by scripts/generate-sync. Do not edit.\n"
        return first_line + format_source(text, self.target)


def _path_of(module: str) -> Path:
    """Return the file of a module of this library."""
    return _PACKAGE.parent / f"{module.replace('.', '/')}.py"


MODULES = tuple(
    Module(_path_of(source), _path_of(target), TEXTS.get(source, {}))
    for source, target in SOURCES.items()
)


def _without_awaitables(text: str) -> str:
    """Return a text with each type ``Awaitable[T]`` replaced by T."""
    begin = text.find("Awaitable[")
    while begin >= 0:
        depth, end = 1, begin + len("Awaitable[")
        while depth:
            depth += {"[": 1, "]": -1}.get(text[end], 0)
            end += 1
        text = text[:begin] + text[begin + len("Awaitable[") : end - 1] + text[end:]
        begin = text.find("Awaitable[")
    return text.replace("import Awaitable, ", "import ")


def to_synchronous(source: str) -> str:
    """Return the synchronous form of an asyncio module, not yet formatted, with its texts."""
    lines = source.splitlines(keepends=True)
    tokens = list(tokenize.generate_tokens(io.StringIO(source).readline))
    for before, token, after in reversed(list(zip(tokens, tokens[1:], tokens[2:], strict=False))):
        if token.type in {tokenize.STRING, tokenize.COMMENT}:
            _replace_names(lines, token)
            continue
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
    return "".join(lines)


def _replace_names(lines: list[str], token: tokenize.TokenInfo) -> None:
    """Replace names in a text or a comment, which may have several lines."""
    (first, begin), (last, end) = token.start, token.end
    before, after = lines[first - 1][:begin], lines[last - 1][end:]
    text = _NAMES_IN_TEXTS.sub(lambda found: NAMES[found[0]], token.string)
    lines[first - 1 : last] = [*f"{before}{text}{after}".splitlines(keepends=True)]


def format_source(text: str, path: Path) -> str:
    """Return a source text with imports sorted and code formatted by ruff."""
    for command in (["check", "--select", "I", "--fix", "--quiet"], ["format", "--quiet"]):
        run = subprocess.run(
            [_RUFF, *command, "--stdin-filename", str(path), "-"],
            input=text, text=True, stdout=subprocess.PIPE, check=True,
        )  # fmt: skip
        text = run.stdout
    return text


def find_strays() -> list[Path]:
    """Return the modules in ``rsmq/_sync`` that are not generated any more."""
    expected = {module.target for module in MODULES} | {_PACKAGE / "_sync" / "__init__.py"}
    return sorted({*(_PACKAGE / "_sync").glob("**/*.py")} - expected)


def write(target: Path, generated: str) -> None:
    """Write a generated module; with ``--check`` only compare it."""
    if sys.argv[1:] != ["--check"]:
        target.write_text(generated)
    elif not target.exists() or generated != target.read_text():
        sys.exit(f"{target} is not up to date: scripts/generate-sync")


if __name__ == "__main__":
    if strays := find_strays():
        sys.exit(f"Nothing generates {strays[0]}: delete it.")
    for path, text in generate_vocabulary.generate():
        write(path, text)
    for module in MODULES:
        write(module.target, module.generate())
