"""Requests that are not valid have an error of AWS, and change nothing."""

# ruff: noqa: E501 - requests are on one line each

import json
import random

import pytest

_BINARY = {"DataType": "Binary", "BinaryValue": "AA=="}


def test_a_mebibyte_is_the_most(run_sqs):
    async def test(sqs, queues):
        await sqs.ok("CreateQueue", QueueName="q")
        size = 1024 * 1024
        await sqs.ok("SendMessage", queue="q", MessageBody="a" * size)
        await sqs.ok("SendMessage", queue="q", MessageBody="\u00e9" * (size // 2))
        attributes = {"k": _BINARY}  # 1 + 6 + 1 bytes
        for body, more in (
            ("a" * (size + 1), {}), ("\u00e9" * (size // 2) + "a", {}),
            ("a" * (size - 7), {"MessageAttributes": attributes}),
        ):  # fmt: skip
            error = await sqs.refused("SendMessage", queue="q", MessageBody=body, **more)
            assert error == "InvalidParameterValueException"
        await sqs.ok(
            "SendMessage", queue="q", MessageBody="\u00ff" * ((size - 8) // 2),
            MessageAttributes=attributes,
        )  # fmt: skip
        sizes = []
        while received := (await sqs.ok("ReceiveMessage", queue="q")).get("Messages"):
            sizes.append(len(received[0]["Body"].encode()))
        assert sizes == [size, size, size - 8]

    run_sqs(test)


def test_a_request_that_is_too_long_is_refused_before_it_is_read(run_sqs):
    async def test(sqs, queues):
        headers = {"x-amz-target": "AmazonSQS.ListQueues", "content-length": str(8 * 1024 * 1024)}
        reply = await sqs.http("POST", "/", body=b"{}", headers=headers)
        assert (reply.status, reply.json["__type"].rpartition("#")[2]) == (
            400, "InvalidParameterValueException",
        )  # fmt: skip

    run_sqs(test)


def test_unknown_parameters_are_ignored(run_sqs):
    async def test(sqs, queues):
        await sqs.ok("CreateQueue", QueueName="q", Unknown=[1, {"a": None}])
        await sqs.ok("SendMessage", queue="q", MessageBody="a", ReceiveRequestAttemptId="x")
        answer = await sqs.ok("ReceiveMessage", queue="q", ReceiveRequestAttemptId="x")
        assert answer["Messages"][0]["Body"] == "a"

    run_sqs(test)


@pytest.mark.parametrize(
    ("operation", "parameters"),
    [
        ("CreateQueue", {}), ("CreateQueue", {"QueueName": ""}),
        ("CreateQueue", {"QueueName": "a b"}), ("CreateQueue", {"QueueName": "a" * 81}),
        ("CreateQueue", {"QueueName": "QUEUES"}), ("CreateQueue", {"QueueName": 5}),
        ("CreateQueue", {"QueueName": "a", "Attributes": {"Unknown": "1"}}),
        ("CreateQueue", {"QueueName": "a", "Attributes": {"DelaySeconds": "x"}}),
        ("CreateQueue", {"QueueName": "a", "Attributes": {"DelaySeconds": "1" * 5000}}),
        ("CreateQueue", {"QueueName": "a", "Attributes": ["DelaySeconds"]}),
        ("CreateQueue", {"QueueName": "a", "tags": ["b"]}),
        ("CreateQueue", {"QueueName": "a", "tags": {"b" * 129: "c"}}),
        ("ListQueues", {"MaxResults": 0}), ("ListQueues", {"MaxResults": 1001}),
        ("ListQueues", {"NextToken": "\u00e9"}), ("GetQueueUrl", {}),
        ("SendMessage", {}), ("SendMessage", {"QueueUrl": 5}),
        ("SendMessage", {"QueueUrl": "q", "MessageBody": ["a"]}),
        ("SendMessage", {"QueueUrl": "q", "MessageBody": "a", "DelaySeconds": "x"}),
        ("SendMessage", {"QueueUrl": "q", "MessageBody": "a", "DelaySeconds": True}),
        ("SendMessage", {"QueueUrl": "q", "MessageBody": "a", "MessageAttributes": [1]}),
        ("SendMessage", {"QueueUrl": "q", "MessageBody": "a", "MessageAttributes": {"a": 1}}),
        ("SendMessage", {"QueueUrl": "q", "MessageBody": "a", "MessageSystemAttributes": {"x": 1}}),
        ("SendMessage", {"QueueUrl": "q", "MessageBody": "a", "MessageDeduplicationId": "d"}),
        ("SendMessageBatch", {"QueueUrl": "q"}), ("SendMessageBatch", {"QueueUrl": "q", "Entries": 5}),
        ("SendMessageBatch", {"QueueUrl": "q", "Entries": [5]}),
        ("SendMessageBatch", {"QueueUrl": "q", "Entries": [{"Id": ["a"], "MessageBody": "b"}]}),
        ("ReceiveMessage", {"QueueUrl": "q", "MaxNumberOfMessages": 11}),
        ("ReceiveMessage", {"QueueUrl": "q", "MaxNumberOfMessages": 0}),
        ("ReceiveMessage", {"QueueUrl": "q", "WaitTimeSeconds": 21}),
        ("ReceiveMessage", {"QueueUrl": "q", "VisibilityTimeout": 43_201}),
        ("ReceiveMessage", {"QueueUrl": "q", "VisibilityTimeout": "-1"}),
        ("DeleteMessage", {"QueueUrl": "q"}), ("DeleteMessage", {"QueueUrl": "q", "ReceiptHandle": 5}),
        ("DeleteMessage", {"QueueUrl": "q", "ReceiptHandle": "A" * 5000}),
        ("ChangeMessageVisibility", {"QueueUrl": "q", "ReceiptHandle": "x"}),
        ("GetQueueAttributes", {"QueueUrl": "q", "AttributeNames": ["Unknown"]}),
        ("SetQueueAttributes", {"QueueUrl": "q"}), ("TagQueue", {"QueueUrl": "q"}),
        ("UntagQueue", {"QueueUrl": "q"}), ("AddPermission", {"QueueUrl": "q"}),
        ("SetQueueAttributes", {"QueueUrl": "q", "Attributes": {"RedrivePolicy": "[" * 9000}}),
        ("SetQueueAttributes", {"QueueUrl": "q", "Attributes": {"RedrivePolicy": "[]"}}),
        ("SetQueueAttributes", {"QueueUrl": "q", "Attributes": {"Policy": "x" * 70_000}}),
        ("StartMessageMoveTask", {}), ("StartMessageMoveTask", {"SourceArn": "x"}),
        ("CancelMessageMoveTask", {"TaskHandle": "e30="}), ("ListMessageMoveTasks", {"SourceArn": []}),
        ("Unknown", {}), ("", {}),
    ],
)  # fmt: skip
def test_it_is_refused_as_a_fault_of_the_sender(run_sqs, operation, parameters):
    async def test(sqs, queues):
        await queues.create_queue("q")
        status, answer = await sqs(operation, **parameters)
        assert (status // 100, "__type" in answer) == (4, True), answer
        assert await queues.list_queues() == ["q"]
        assert (await queues.get_queue_attributes("q")).messages == 0

    run_sqs(test)


@pytest.mark.parametrize("body", [
    b"", b"[]", b"{", b"\xff", b'{"QueueName": "\\ud800"}', b"[" * 100_000, b'"x"', b"NaN",
])  # fmt: skip
def test_broken_json_has_an_answer(run_sqs, body):
    async def test(sqs, queues):
        reply = await sqs.http(
            "POST", "/", body=body, headers={"x-amz-target": "AmazonSQS.CreateQueue"}
        )
        assert reply.status == 400
        assert "__type" in reply.json

    run_sqs(test)


@pytest.mark.parametrize("query", [
    "Action=SendMessage&QueueUrl=q&MessageBody=%FF", "Action=%00", "Action=SendMessage.1&Action.2=x",
    "Action=SendMessage&QueueUrl=q&MessageAttribute=x", "A&B&C", "&&&", "Action=CreateQueue&Tag.1=x",
    "Action=SendMessageBatch&QueueUrl=q&SendMessageBatchRequestEntry.x.Id=1",
    "Action=SendMessageBatch&QueueUrl=q&SendMessageBatchRequestEntry.1=x",
    "Action=SendMessage&QueueUrl=q&MessageAttribute.1.Name=a&MessageAttribute.1.Value=b&MessageBody=c",
    "Action=ListQueues&MaxResults=x", "Action=GetQueueUrl&QueueName=" + "x" * 3000,
    "Action=SendMessage&a.b.c.d.e.f.g.h.i.j=k", "Action=SendMessage&a=b&a.c=d",
    "&".join(f"a{n}=b" for n in range(2500)),
])  # fmt: skip
def test_broken_queries_have_an_answer(run_sqs, query):
    async def test(sqs, queues):
        await queues.create_queue("q")
        reply = await sqs.http("GET", f"/?{query}")
        assert reply.status // 100 == 4, reply.content
        assert reply.headers["content-type"] == "text/xml"
        assert (await queues.get_queue_attributes("q")).messages == 0

    run_sqs(test)


def test_random_requests_never_fail_in_the_server(run_sqs):
    choose = random.Random(3)
    values = [
        None, True, 0, -1, 1e300, "", "q", "\u0000", "x" * 2000, [], [[]], {}, {"a": {"b": []}},
        [None], {"DataType": "String"}, "AAAA", {"Id": "a", "MessageBody": "b"},
    ]  # fmt: skip
    names = [
        "QueueUrl", "QueueName", "Attributes", "tags", "Tags", "TagKeys", "MessageBody", "Entries",
        "DelaySeconds", "MessageAttributes", "MessageSystemAttributes", "ReceiptHandle", "MaxResults",
        "VisibilityTimeout", "AttributeNames", "MessageAttributeNames", "NextToken", "SourceArn",
        "MessageSystemAttributeNames", "MaxNumberOfMessages", "WaitTimeSeconds", "MessageGroupId",
        "MessageDeduplicationId", "TaskHandle", "DestinationArn", "QueueNamePrefix",
    ]  # fmt: skip

    async def test(sqs, queues):
        from rsmq.web.sqs.actions import ACTIONS

        for _ in range(1500):
            await queues.create_queue("q", exist_ok=True)
            operation = choose.choice(list(ACTIONS))
            parameters = {name: choose.choice(values) for name in choose.sample(names, 5)}
            if choose.random() < 0.8:
                parameters["QueueUrl"] = "q"
            status, answer = await sqs(operation, **parameters)
            assert status < 500, (operation, parameters, answer)
            json.dumps(answer).encode()

    run_sqs(test)
