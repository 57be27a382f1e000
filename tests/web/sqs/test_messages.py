"""What calls of SQS store, and what other clients of the same queues see of it."""

import asyncio
import base64
import json

import pytest

from rsmq import BYTES, JSON, TEXT
from rsmq.codecs import EnvelopeCodec
from rsmq.headers import use_headers
from rsmq.operations.plain import parse_fields, plain_command
from rsmq.web.liveness import liveness_of

_COLOUR = {"DataType": "String", "StringValue": "red"}


async def _fields(queues, qname):
    """Return the fields of a queue's hash, without times and totals."""
    key = queues.namespace.queue(qname).hash
    found = parse_fields(await queues.run(plain_command("HGETALL", key)))
    dropped = {b"created", b"modified", b"totalsent", b"totalrecv"}
    return {k: v for k, v in found.items() if k not in dropped}


def test_a_new_queue_has_the_fields_of_node_and_the_retention(run_sqs):
    async def test(sqs, queues):
        await sqs.ok("CreateQueue", QueueName="q")
        assert await _fields(queues, "q") == {
            b"vt": b"30", b"delay": b"0", b"maxsize": b"-1", b"x:keep": b"345600",
        }  # fmt: skip
        assert await queues.list_queues() == ["q"]

    run_sqs(test)


def test_attributes_that_only_sqs_has_are_one_field_that_a_purge_keeps(run_sqs):
    async def test(sqs, queues):
        attributes = {"VisibilityTimeout": "5", "MaximumMessageSize": "2048", "Policy": "{}"}
        attributes["ReceiveMessageWaitTimeSeconds"] = "0"
        await sqs.ok("CreateQueue", QueueName="q", Attributes=attributes, tags={"a": "b"})
        stored = b'{"attributes": {"Policy": "{}"}, "tags": {"a": "b"}}'
        expected = {b"vt": b"5", b"delay": b"0", b"maxsize": b"2048", b"x:keep": b"345600"}
        assert await _fields(queues, "q") == expected | {b"x:sqs": stored}
        await sqs.ok("SendMessage", queue="q", MessageBody="a")
        await sqs.ok("PurgeQueue", queue="q")
        assert await _fields(queues, "q") == expected | {b"x:sqs": stored}
        await sqs.ok("SetQueueAttributes", queue="q", Attributes={"MaximumMessageSize": "70000"})
        assert (await _fields(queues, "q"))[b"maxsize"] == b"-1"
        answer = await sqs.ok("GetQueueAttributes", queue="q", AttributeNames=["All"])
        assert answer["Attributes"]["MaximumMessageSize"] == "70000"
        assert answer["Attributes"]["Policy"] == "{}"

    run_sqs(test)


def test_a_body_without_attributes_is_stored_as_it_is(run_sqs):
    async def test(sqs, queues):
        await queues.create_queue("q")
        await sqs.ok("SendMessage", queue="q", MessageBody='{"order": 17}')
        message = await queues.receive_message("q", codec=JSON)
        assert (message.raw, message.body, message.headers) == (
            b'{"order": 17}', {"order": 17}, {},
        )  # fmt: skip
        await queues.send_message("q", "from Python")
        answer = await sqs.ok("ReceiveMessage", queue="q")
        assert answer["Messages"][0]["Body"] == "from Python"

    run_sqs(test)


def test_attributes_are_headers_and_json_stays_json(run_sqs):
    async def test(sqs, queues):
        await queues.create_queue("q")
        attributes = {
            "colour": _COLOUR,
            "size": {"DataType": "Number", "StringValue": "3"},
            "seal": {"DataType": "Binary.png", "BinaryValue": "AAE="},
        }
        await sqs.ok(
            "SendMessage", queue="q", MessageBody='{"order": 1.0}', MessageAttributes=attributes
        )
        message = await queues.receive_message("q", codec=EnvelopeCodec(JSON), vt=0)
        assert message.body == {"order": 1.0}
        assert message.headers["colour"] == "red"
        assert message.headers["size"] == "3"
        assert message.headers["seal"] == "AAE="
        types = {"types": {"size": "Number", "seal": "Binary.png"}}
        assert json.loads(message.headers["sqs:meta"]) == types
        answer = await sqs.ok("ReceiveMessage", queue="q", MessageAttributeNames=["All"])
        (received,) = answer["Messages"]
        assert received["Body"] == '{"order": 1.0}'
        assert received["MessageAttributes"] == attributes

    run_sqs(test)


def test_headers_of_python_are_attributes(run_sqs):
    async def test(sqs, queues):
        await queues.create_queue("q")
        with use_headers({"request_id": "7f3a", "not a name": "x"}):
            await queues.send_message("q", {"a": 1}, codec=EnvelopeCodec(JSON))
            await queues.send_message("q", "text", codec=EnvelopeCodec(TEXT))
        answer = await sqs.ok(
            "ReceiveMessage", queue="q", MessageAttributeNames=["All"], MaxNumberOfMessages=10
        )
        expected = {"request_id": {"DataType": "String", "StringValue": "7f3a"}}
        assert [each["MessageAttributes"] for each in answer["Messages"]] == [expected] * 2
        assert [each["Body"] for each in answer["Messages"]] == ['{"a":1}', "text"]

    run_sqs(test)


@pytest.mark.parametrize(
    "body", ['{"headers": {"a": "b"}, "body": "c"}', 'rsmq-trace:1 {"a":"b"}\nbody', '"text"', "[1"]
)
def test_a_body_that_looks_like_an_envelope_comes_back_as_it_was(run_sqs, body):
    async def test(sqs, queues):
        await queues.create_queue("q")
        for attributes in ({}, {"colour": _COLOUR}):
            await sqs.ok("SendMessage", queue="q", MessageBody=body, MessageAttributes=attributes)
            answer = await sqs.ok("ReceiveMessage", queue="q", MessageAttributeNames=["All"])
            (received,) = answer["Messages"]
            assert received["Body"] == body
            assert received.get("MessageAttributes", {}) == attributes

    run_sqs(test)


def test_a_body_that_no_protocol_can_carry_has_replacement_characters(run_sqs):
    async def test(sqs, queues):
        await queues.create_queue("q")
        await queues.send_message("q", b"\xff\x00ok", codec=BYTES)
        answer = await sqs.ok("ReceiveMessage", queue="q")
        assert answer["Messages"][0]["Body"] == "\ufffd\ufffdok"

    run_sqs(test)


def test_messages_of_a_batch_are_stored_in_their_order(run_sqs):
    async def test(sqs, queues):
        await queues.create_queue("q")
        entries = [{"Id": str(n), "MessageBody": f"m{n}"} for n in range(10)]
        entries[3]["DelaySeconds"] = 60
        entries[5]["MessageBody"] = "\x01"
        answer = await sqs.ok("SendMessageBatch", queue="q", Entries=entries)
        assert [each["Id"] for each in answer["Successful"]] == list("012346789")
        assert [(each["Id"], each["Code"]) for each in answer["Failed"]] == [
            ("5", "InvalidMessageContents")
        ]
        states = [(each.body, each.state) for each in await queues.peek_messages("q", 0, 20)]
        expected = [(f"m{n}", "visible") for n in (0, 1, 2, 4, 6, 7, 8, 9)]
        assert states == [*expected, ("m3", "delayed")]

    run_sqs(test)


def test_a_handle_counts_only_for_its_queue_and_its_receive(run_sqs):
    async def test(sqs, queues):
        for name in ("q", "r"):
            await queues.create_queue(name)
            await queues.send_message(name, "a")
        answer = await sqs.ok("ReceiveMessage", queue="q", VisibilityTimeout=0)
        handle = answer["Messages"][0]["ReceiptHandle"]
        raw = bytearray(base64.b64decode(handle))
        raw[-1] ^= 1
        forged = base64.b64encode(raw).decode()
        for queue, wrong in (("r", handle), ("q", forged), ("q", "x"), ("q", "é" * 20)):
            error = await sqs.refused("DeleteMessage", queue=queue, ReceiptHandle=wrong)
            assert error == "ReceiptHandleIsInvalid"
        await sqs.ok("ReceiveMessage", queue="q")  # another consumer has it now
        await sqs.ok("DeleteMessage", queue="q", ReceiptHandle=handle)
        changing = {"queue": "q", "ReceiptHandle": handle, "VisibilityTimeout": 0}
        refused = await sqs.refused("ChangeMessageVisibility", **changing)
        assert refused == "InvalidParameterValueException"
        assert [each.state for each in await queues.peek_messages("q")] == ["in_flight"]

    run_sqs(test)


def test_another_server_of_the_namespace_accepts_a_handle(run_sqs):
    async def test(sqs, queues):
        from rsmq.web import create_app
        from tests.web.sqs.conftest import SqsHttp

        await queues.create_queue("q")
        await queues.send_message("q", "a")
        answer = await sqs.ok("ReceiveMessage", queue="q")
        other = SqsHttp(create_app(queues, auth=False).state.sqs)
        handle = answer["Messages"][0]["ReceiptHandle"]
        await other.ok("DeleteMessage", queue="q", ReceiptHandle=handle)
        assert (await queues.get_queue_attributes("q")).messages == 0

    run_sqs(test)


def test_a_client_that_leaves_a_long_poll_gets_nothing(run_sqs):
    async def test(sqs, queues):
        await queues.create_queue("q")
        left = asyncio.Event()
        waiting = asyncio.create_task(
            sqs("ReceiveMessage", queue="q", WaitTimeSeconds=20, left=left)
        )
        while not liveness_of(queues).waiting:
            await asyncio.sleep(0.001)
        left.set()
        await queues.send_message("q", "a")
        assert await waiting is None
        answer = await sqs.ok("ReceiveMessage", queue="q")
        assert answer["Messages"][0]["Body"] == "a"

    run_sqs(test)


def test_a_queue_with_the_stored_name_of_a_fifo_queue_is_another_one(run_sqs):
    async def test(sqs, queues):
        await queues.create_queue("a_fifo")
        assert await sqs.refused("GetQueueUrl", QueueName="a.fifo") == "QueueDoesNotExist"
        fifo = {"FifoQueue": "true"}
        error = await sqs.refused("CreateQueue", QueueName="a.fifo", Attributes=fifo)
        assert error == "QueueNameExists"
        await sqs.ok("CreateQueue", QueueName="b.fifo", Attributes=fifo)
        assert await sqs.refused("GetQueueUrl", QueueName="b_fifo") == "QueueDoesNotExist"
        urls = (await sqs.ok("ListQueues"))["QueueUrls"]
        assert [each.rpartition("/")[2] for each in urls] == ["a_fifo", "b.fifo"]

    run_sqs(test)


def test_lists_have_pages(run_sqs):
    async def test(sqs, queues):
        for n in range(5):
            await queues.create_queue(f"q{n}")
        found, token = [], None
        while True:
            more = {} if token is None else {"NextToken": token}
            answer = await sqs.ok("ListQueues", MaxResults=2, **more)
            found += [each.rpartition("/")[2] for each in answer["QueueUrls"]]
            token = answer.get("NextToken")
            if token is None:
                break
        assert found == ["q0", "q1", "q2", "q3", "q4"]

    run_sqs(test)


@pytest.mark.parametrize("queue", ["q", "q.fifo"])
def test_the_three_counts_by_which_keda_scales_are_exact(run_sqs, queue):
    async def test(sqs, queues):
        is_fifo = queue.endswith(".fifo")
        await sqs.ok(
            "CreateQueue", QueueName=queue, Attributes={"FifoQueue": "true"} if is_fifo else {}
        )
        for number in range(5):
            order = {"MessageGroupId": f"g{number}", "MessageDeduplicationId": f"{number}"}
            delay = {} if is_fifo or number else {"DelaySeconds": 900}
            await sqs.ok(
                "SendMessage", queue=queue, MessageBody="a", **(order if is_fifo else delay)
            )
        await sqs.ok("ReceiveMessage", queue=queue, MaxNumberOfMessages=2)
        prefix = "ApproximateNumberOfMessages"
        names = [prefix, f"{prefix}NotVisible", f"{prefix}Delayed"]
        answer = await sqs.ok("GetQueueAttributes", queue=queue, AttributeNames=names)
        delayed = 0 if is_fifo else 1
        expected = [str(3 - delayed), "2", str(delayed)]
        assert answer == {"Attributes": dict(zip(names, expected, strict=True))}

    run_sqs(test)
