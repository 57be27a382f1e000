"""Many long polls in one process: each message ends one of them, whoever has made it visible."""

import asyncio
import gc

from rsmq.operations.plain import encode_command, plain_commands
from rsmq.web.delivery import Departure
from rsmq.web.liveness import liveness_of
from tests.scale import scaled

_POLLS, _QUEUES = scaled(200, 2000), 10


async def _poll(sqs, queue, received, left=None):
    """Poll until a message comes."""
    while True:
        reply = await sqs("ReceiveMessage", queue=queue, WaitTimeSeconds=20, left=left)
        if reply is None:  # this client has left
            return
        status, answer = reply
        assert status == 200, answer
        if messages := answer.get("Messages"):
            (message,) = messages
            received.put_nowait((queue, message))
            return


async def _send_as_node(queues, queue):
    """Send with the commands of Node's client."""
    keys = queues.namespace.queue(queue)
    id = b"g" * 32
    commands = [
        ("ZADD", keys.zset, "1", id),
        ("HSET", keys.hash, id, b"of Node"),
        ("HINCRBY", keys.hash, "totalsent", "1"),
    ]
    encoded = map(encode_command, commands)
    await queues.run(plain_commands(keys.zset, encoded, in_transaction=True))


def test_each_of_many_polls_ends_with_one_message_of_any_client(run_sqs):
    async def test(sqs, queues):
        received = asyncio.Queue()
        names = [f"q{number}" for number in range(_QUEUES)]
        for name in names:
            await sqs.ok("CreateQueue", QueueName=name)
        tasks = [
            asyncio.create_task(_poll(sqs, names[number % _QUEUES], received))
            for number in range(_POLLS)
        ]
        while liveness_of(queues).waiting < _POLLS:
            await asyncio.sleep(0.001)

        async def by_python(name):
            await queues.send_message(name, "of Python")

        async def by_sqs(name):
            await sqs.ok("SendMessage", queue=name, MessageBody="of SQS")

        async def after_a_delay(name):
            await queues.send_message(name, "delayed", delay=0.05)

        async def by_node(name):
            await _send_as_node(queues, name)

        for send, body in (
            (by_python, "of Python"), (by_node, "of Node"), (by_sqs, "of SQS"),
            (after_a_delay, "delayed"),
        ):  # fmt: skip
            for name in names[:2]:
                await send(name)
            found = [await received.get() for _ in range(2)]
            assert [message["Body"] for _, message in found] == [body] * 2
            assert sorted(name for name, _ in found) == names[:2]
        (_, message) = found[0]
        handle = {"queue": found[0][0], "ReceiptHandle": message["ReceiptHandle"]}
        await sqs.ok("ChangeMessageVisibility", VisibilityTimeout=0, **handle)
        name, again = await received.get()
        assert (name, again["MessageId"]) == (handle["queue"], message["MessageId"])
        done = sum(each.done() for each in tasks)
        assert done == 4 * 2 + 1
        assert received.empty()
        for each in tasks:
            each.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    run_sqs(test)


def test_a_message_for_a_client_that_leaves_ends_the_next_poll_at_once(run_sqs):
    async def test(sqs, queues):
        received, left = asyncio.Queue(), asyncio.Event()
        await sqs.ok("CreateQueue", QueueName="q")
        leaving = asyncio.create_task(_poll(sqs, "q", received, left))
        while not liveness_of(queues).waiting:
            await asyncio.sleep(0.001)
        staying = asyncio.create_task(_poll(sqs, "q", received))
        while liveness_of(queues).waiting < 2:
            await asyncio.sleep(0.001)
        left.set()
        await queues.send_message("q", "a")
        await leaving
        await staying
        _, message = await received.get()
        assert message["Body"] == "a"
        (stored,) = await queues.peek_messages("q", 0, 10)
        assert stored.state == "in_flight"

    run_sqs(test)


def test_a_poll_leaves_nothing_to_the_garbage_collector(run_sqs):
    async def test(sqs, queues):
        await sqs.ok("CreateQueue", QueueName="q")
        await queues.send_message("q", "a", delay=0.05)
        gc.collect()
        gc.disable()
        try:
            for _ in range(2):
                await sqs.ok("ReceiveMessage", queue="q", WaitTimeSeconds=1)
            await asyncio.sleep(0)  # the cancelled tasks end
            left = [each for each in gc.get_objects() if isinstance(each, Departure)]
        finally:
            gc.enable()
        assert left == []

    run_sqs(test)
