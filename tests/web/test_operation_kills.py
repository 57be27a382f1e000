"""Operations of many messages whose process is killed at any moment."""

import asyncio
import os
import random
import sys
from collections import Counter

import pytest

from rsmq import AsyncRSMQ
from rsmq.operations.plain import plain_command
from rsmq.web import create_app
from rsmq.web.bulk.records import read_operation
from tests.web.asgi import Http

pytestmark = pytest.mark.slow

_KILLS = 50 if os.environ.get("RSMQ_SOAK") else 3
_MESSAGES = 2000 * _KILLS
#: Starts an application at each line, which takes no new interpreter, and kills it at the next one.
_PROGRAM = """
import asyncio, os, signal, sys
from rsmq import AsyncRSMQ
from rsmq.web import create_app
async def main():
    async with AsyncRSMQ.from_url(sys.argv[1], ns=sys.argv[2]) as queues:
        app = create_app(queues, auth=False)
        async with app.router.lifespan_context(app):
            await asyncio.sleep(600)
print("ready", flush=True)
pid = None
for line in sys.stdin:
    if pid is None:
        pid = os.fork()
        if not pid:
            asyncio.run(main())
    else:
        os.kill(pid, signal.SIGKILL)
        os.waitpid(pid, 0)
        pid = None
    print("done", flush=True)
"""


@pytest.mark.parametrize("kind", ["redrive", "move"])
async def test_each_message_is_in_one_queue_after_kills_at_any_moment(server, ns, kind):
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-c", _PROGRAM, server.url, ns,
        stdin=asyncio.subprocess.PIPE, stdout=asyncio.subprocess.PIPE,
    )  # fmt: skip
    try:
        await process.stdout.readline()
        async with AsyncRSMQ.from_url(server.url, ns=ns) as queues:
            await _check(queues, process, kind)
    finally:
        process.kill()
        await process.wait()


async def _check(queues, process, kind):
    for name in ("q", "to"):
        await queues.create_queue(name)
    bodies = [str(each) for each in range(_MESSAGES)]
    for at in range(0, _MESSAGES, 10_000):
        await queues.send_messages("q", bodies[at : at + 10_000])
    http = Http(create_app(queues, auth=False))
    if kind == "redrive":
        headers = {"prefer": "respond-async"}
        reply = await http("POST", "/queues/q:redrive", {"destination": "to"}, headers=headers)
    else:
        content = {"filter": "rc<1", "destination": "to"}
        reply = await http("POST", "/queues/q/messages:move", content)
    id = reply.json["operation"]
    kills = 0
    while kills < _KILLS:
        done = (await read_operation(queues, id)).done
        await _toggle(process)
        async with asyncio.timeout(60):
            while (record := await read_operation(queues, id)).done == done:
                await asyncio.sleep(0.001)
        await asyncio.sleep(random.uniform(0, 0.03))
        await _toggle(process)
        kills += 1
        assert record.ended_ms is None  # else it was not killed while it ran
        counts = [(await queues.get_queue_attributes(name)).messages for name in ("q", "to")]
        assert sum(counts) == _MESSAGES
        # As if the lease had ended: waiting would take 15 seconds.
        await queues.run(plain_command("ZADD", queues.namespace.operations, 0, id))
        await queues.run(plain_command("HSET", queues.namespace.operation(id), "lease", 0))
    await _toggle(process)
    async with asyncio.timeout(60):
        while (record := await read_operation(queues, id)).ended_ms is None:
            await asyncio.sleep(0.01)
    await _toggle(process)
    assert record.state.value == "succeeded"
    assert (await queues.get_queue_attributes("q")).messages == 0
    found = Counter()
    while messages := await queues.pop_messages("to", 10_000):
        found.update(each.body for each in messages)
    assert found == Counter(bodies)
    print(f"{kills} kills, {_MESSAGES} messages, {_MESSAGES - record.done} not counted as done")


async def _toggle(process):
    """Start the application, or kill it."""
    process.stdin.write(b"\n")
    assert await process.stdout.readline() == b"done\n"
