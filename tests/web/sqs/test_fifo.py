"""FIFO queues on ordered groups, on raw keys, and beside Python."""

import asyncio
import hashlib

from rsmq.operations.plain import parse_fields, plain_command

_FIFO = {"FifoQueue": "true"}


async def _create(sqs, name, **attributes):
    await sqs.ok("CreateQueue", QueueName=name, Attributes={**_FIFO, **attributes})


async def _hash(queues, key):
    return parse_fields(await queues.run(plain_command("HGETALL", key)))


async def _send(sqs, queue, body, group, **more):
    return await sqs.ok("SendMessage", queue=queue, MessageBody=body, MessageGroupId=group, **more)


async def _receive(sqs, queue, number=10, **more):
    answer = await sqs.ok("ReceiveMessage", queue=queue, MaxNumberOfMessages=number, **more)
    return answer.get("Messages", [])


def test_a_message_has_its_group_and_its_id_in_the_keys_of_the_library(run_sqs):
    async def test(sqs, queues):
        await _create(sqs, "q.fifo", ContentBasedDeduplication="true")
        keys = queues.namespace.queue("q_fifo")
        await _send(sqs, "q.fifo", "plain", "g")
        await _send(sqs, "q.fifo", "named", "g", MessageDeduplicationId="d")
        stored = await queues.peek_messages("q_fifo", 0, 10)
        assert [each.raw for each in stored] == [
            b"plain",
            b'{"headers":{"sqs:meta": "{\\"dedup\\": \\"d\\"}"},"body":"named"}',
        ]
        assert [(each.group, each.state) for each in stored] == [
            ("g", "visible"), ("g", "held_back"),
        ]  # fmt: skip
        digest = hashlib.sha256(b"plain").hexdigest().encode()
        assert {digest, b"d"} <= (await _hash(queues, keys.dedup)).keys()

    run_sqs(test)


def test_the_scope_of_a_group_hashes_it_with_the_id(run_sqs):
    async def test(sqs, queues):
        await _create(sqs, "q.fifo", DeduplicationScope="messageGroup")
        for group in ("a", "b", "a"):
            await _send(sqs, "q.fifo", "x", group, MessageDeduplicationId="d")
        keys = queues.namespace.queue("q_fifo")
        digests = {hashlib.sha256(f"{each}\0d".encode()).hexdigest().encode() for each in "ab"}
        assert digests <= (await _hash(queues, keys.dedup)).keys()
        assert (await queues.get_queue_attributes("q_fifo")).messages == 2

    run_sqs(test)


def test_a_delete_after_the_timeout_fails_and_a_second_one_does_not(run_sqs):
    async def test(sqs, queues):
        await _create(sqs, "q.fifo", ContentBasedDeduplication="true")
        await _send(sqs, "q.fifo", "a", "g")
        (late,) = await _receive(sqs, "q.fifo", VisibilityTimeout=0)
        handle = {"queue": "q.fifo", "ReceiptHandle": late["ReceiptHandle"]}
        status, answer = await sqs("DeleteMessage", **handle)
        assert (status, answer["message"].rpartition("Reason: ")[2]) == (
            400, "The receipt handle has expired.",
        )  # fmt: skip
        refused = await sqs.refused("ChangeMessageVisibility", VisibilityTimeout=9, **handle)
        assert refused == "InvalidParameterValueException"
        assert (await queues.get_queue_attributes("q_fifo")).messages == 1
        (good,) = await _receive(sqs, "q.fifo")
        entries = [
            {"Id": id, "ReceiptHandle": each["ReceiptHandle"]}
            for id, each in (("good", good), ("late", late))
        ]
        answer = await sqs.ok("DeleteMessageBatch", queue="q.fifo", Entries=entries)
        assert [each["Id"] for each in answer["Successful"]] == ["good"]
        assert [each["Id"] for each in answer["Failed"]] == ["late"]
        await sqs.ok("DeleteMessage", queue="q.fifo", ReceiptHandle=good["ReceiptHandle"])
        assert (await queues.get_queue_attributes("q_fifo")).messages == 0

    run_sqs(test)


def test_a_message_that_is_held_back_again_is_not_deleted(run_sqs):
    async def test(sqs, queues):
        await _create(sqs, "q.fifo", ContentBasedDeduplication="true")
        for body in ("1", "2"):
            await _send(sqs, "q.fifo", body, "g")
        _, second = await _receive(sqs, "q.fifo")
        handle = {"queue": "q.fifo", "ReceiptHandle": second["ReceiptHandle"]}
        await sqs.ok("ChangeMessageVisibility", VisibilityTimeout=0, **handle)
        assert await _receive(sqs, "q.fifo") == []
        error = await sqs.refused("DeleteMessage", **handle)
        assert error == "InvalidParameterValueException"

    run_sqs(test)


def test_python_sends_to_a_fifo_queue_and_receives_from_it(run_sqs):
    async def test(sqs, queues):
        await _create(sqs, "q.fifo", ContentBasedDeduplication="true")
        await queues.send_message("q_fifo", "of Python", group="g 1")
        await _send(sqs, "q.fifo", "of SQS", "g2")
        received = await _receive(sqs, "q.fifo", AttributeNames=["All"])
        groups = [each["Attributes"]["MessageGroupId"] for each in received]
        assert groups == ["g 1", "g2"]
        numbers = [int(each["Attributes"]["SequenceNumber"]) for each in received]
        assert numbers[0] < numbers[1] < 2**128
        await sqs.ok("PurgeQueue", queue="q.fifo")
        await _send(sqs, "q.fifo", "of SQS", "g2")  # a purge forgets the ids
        message = await queues.receive_message("q_fifo")
        assert message.body == "of SQS"

    run_sqs(test)


def test_a_long_poll_gets_the_next_message_when_the_one_before_is_deleted(run_sqs):
    async def test(sqs, queues):
        from rsmq.web.liveness import liveness_of

        await _create(sqs, "q.fifo", ContentBasedDeduplication="true")
        for body in ("1", "2"):
            await _send(sqs, "q.fifo", body, "g")
        (first,) = await _receive(sqs, "q.fifo", 1)
        waiting = asyncio.create_task(_receive(sqs, "q.fifo", 1, WaitTimeSeconds=20))
        while not liveness_of(queues).waiting:
            await asyncio.sleep(0.001)
        await sqs.ok("DeleteMessage", queue="q.fifo", ReceiptHandle=first["ReceiptHandle"])
        assert [each["Body"] for each in await waiting] == ["2"]

    run_sqs(test)


def test_a_dead_letter_queue_is_of_the_same_kind_and_keeps_the_group(run_sqs):
    async def test(sqs, queues):
        import json

        await _create(sqs, "dead.fifo")
        arn = "arn:aws:sqs:us-east-1:000000000000:dead.fifo"
        policy = json.dumps({"deadLetterTargetArn": arn, "maxReceiveCount": 1})
        await _create(sqs, "q.fifo", ContentBasedDeduplication="true", RedrivePolicy=policy)
        await _send(sqs, "q.fifo", "a", "g")
        await _receive(sqs, "q.fifo", VisibilityTimeout=0)
        assert await _receive(sqs, "q.fifo") == []
        (dead,) = await _receive(sqs, "dead.fifo", AttributeNames=["All"], VisibilityTimeout=0)
        assert dead["Attributes"]["MessageGroupId"] == "g"
        source = "arn:aws:sqs:us-east-1:000000000000:q.fifo"
        assert dead["Attributes"]["DeadLetterQueueSourceArn"] == source
        assert (await queues.redrive_messages("dead_fifo")) != []
        (again,) = await _receive(sqs, "q.fifo", AttributeNames=["All"])
        assert again["Attributes"]["MessageGroupId"] == "g"
        assert again["Attributes"]["ApproximateReceiveCount"] == "1"

    run_sqs(test)
