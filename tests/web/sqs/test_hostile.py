"""Requests, and records of other clients, that are made to do harm."""

import json

import pytest

from rsmq import BYTES
from rsmq.operations.plain import plain_command
from rsmq.web.fields import Refused
from rsmq.web.sqs.errors import SqsError
from rsmq.web.sqs.message_attributes import check_attributes
from rsmq.web.sqs.signatures import Signatures

#: With steps that grow with the square of this, a test would take hours.
_LONG = 2_000_000

_KIND = json.dumps({"types": {"a": "String.\ud800"}})


def test_a_number_that_is_none_is_refused_in_linear_time():
    for value in ("1" * _LONG + "x", "1" * _LONG + "." + "1" * _LONG + "x", "\u0661"):
        with pytest.raises(SqsError):
            check_attributes({"a": {"DataType": "Number", "StringValue": value}})
    for value in ("1", "-1.", "+.5", "1.5e-3", "1E9"):
        check_attributes({"a": {"DataType": "Number", "StringValue": value}})


def test_a_signature_of_another_form_is_refused_in_linear_time():
    signatures = Signatures(lambda: None, None, lambda _: True)
    for text in ("a" * _LONG, "a=" * _LONG, "=" * _LONG, "a," * _LONG):
        with pytest.raises(SqsError):
            signatures.read({"authorization": f"AWS4-HMAC-SHA256 {text}"}, b"")


@pytest.mark.parametrize("raw", [
    b'{"headers": {"a": "b"}, "body": {"x": "\xed\xa0\x80"}}',
    json.dumps({"headers": {"a": "b", "sqs:meta": _KIND}, "body": "x"}).encode(),
    b'{"headers": {"\xed\xa0\x80": "\\ud800", "b": "\\ud800"}, "body": [1e999]}',
    '{"headers": {"a": "b"}, "body": {"x": "aa\u2222"}}'.encode("utf-16-le") + b' "headers" ',
    b'{"headers": {"a": "b"}, "body": {"c": 1}}',
    b'{"headers": {}, "body": ' + b"[" * 100_000 + b"]" * 100_000 + b"}",
    b"\xff\x00", b"",
])  # fmt: skip
def test_a_body_of_another_client_never_stops_a_queue(run_sqs, raw):
    async def test(sqs, queues):
        await queues.create_queue("q", maxsize=-1)
        await queues.send_messages("q", [raw, b"good"], codec=BYTES)
        answer = await sqs.ok(
            "ReceiveMessage", queue="q", MaxNumberOfMessages=10, MessageAttributeNames=["All"],
            AttributeNames=["All"],
        )  # fmt: skip
        assert [each["Body"] for each in answer["Messages"]][1:] == ["good"]
        json.dumps(answer, ensure_ascii=False).encode()

    run_sqs(test)


def test_messages_are_released_if_the_answer_can_not_be_made(run_sqs, monkeypatch):
    async def test(sqs, queues):
        from rsmq.web.sqs import receives

        await queues.create_queue("q")
        await queues.send_message("q", "a")
        monkeypatch.setattr(receives, "decode", lambda _: 1 / 0)
        assert await sqs.refused("ReceiveMessage", queue="q") == "InternalFailure"
        (stored,) = await queues.peek_messages("q")
        assert stored.state == "visible"

    run_sqs(test)


@pytest.mark.parametrize("settings", [
    {"attributes": {"ReceiveMessageWaitTimeSeconds": "x", "MaximumMessageSize": "9" * 5000}},
    {"attributes": {"ReceiveMessageWaitTimeSeconds": "9" * 5000, "MaximumMessageSize": "\u00b2"}},
    {"attributes": {"ReceiveMessageWaitTimeSeconds": "100", "MaximumMessageSize": "-5"}},
    {"attributes": [], "tags": {"a": 1}}, [], "x",
])  # fmt: skip
def test_stored_settings_that_are_not_valid_count_as_missing(run_sqs, settings):
    async def test(sqs, queues):
        await queues.create_queue("q", maxsize=-1)
        key = queues.namespace.queue("q").hash
        await queues.run(plain_command("HSET", key, "x:sqs", json.dumps(settings)))
        await sqs.ok("SendMessage", queue="q", MessageBody="a")
        await sqs.ok("ReceiveMessage", queue="q")
        answer = await sqs.ok("GetQueueAttributes", queue="q", AttributeNames=["All"])
        assert answer["Attributes"]["MaximumMessageSize"] == "1048576"

    run_sqs(test)


def test_a_queue_whose_name_sqs_can_not_say_hides_no_other(run_sqs):
    async def test(sqs, queues):
        await queues.create_queue("a")
        await queues.create_queue("z")
        for name in (b"b\xff", b"c/d", b"e.fifo", b"f g"):
            key = queues.namespace.queue("a").hash
            await queues.run(plain_command("SADD", queues.namespace.queues, name))
            hash = key.replace(b":a:", b":" + name + b":")
            await queues.run(plain_command("HSET", hash, "vt", 30, "delay", 0, "maxsize", -1))
        answer = await sqs.ok("ListQueues", MaxResults=1)
        assert answer["QueueUrls"] == ["http://localhost/000000000000/a"]
        answer = await sqs.ok("ListQueues", NextToken=answer["NextToken"])
        assert answer["QueueUrls"] == ["http://localhost/000000000000/z"]

    run_sqs(test)


def test_a_new_queue_has_at_most_fifty_tags(run_sqs):
    async def test(sqs, queues):
        tags = {f"t{number}": "a" for number in range(51)}
        error = await sqs.refused("CreateQueue", QueueName="q", tags=tags)
        assert error == "InvalidParameterValueException"
        assert await queues.list_queues() == []
        tags.popitem()
        await sqs.ok("CreateQueue", QueueName="q", tags=tags)
        error = await sqs.refused("TagQueue", queue="q", Tags={"another": "a"})
        assert error == "InvalidParameterValueException"

    run_sqs(test)


def test_a_trace_header_has_a_limit(run_sqs):
    async def test(sqs, queues):
        await queues.create_queue("q")
        for length, is_good in ((1000, True), (100_000, False)):
            trace = {"AWSTraceHeader": {"DataType": "String", "StringValue": "a" * length}}
            status, _ = await sqs(
                "SendMessage", queue="q", MessageBody="a", MessageSystemAttributes=trace
            )
            assert (status == 200) == is_good
        assert (await queues.get_queue_attributes("q")).messages == 1

    run_sqs(test)


def test_lists_of_names_have_a_limit(run_sqs):
    async def test(sqs, queues):
        await queues.create_queue("q")
        for name in ("AttributeNames", "MessageAttributeNames", "MessageSystemAttributeNames"):
            error = await sqs.refused("ReceiveMessage", queue="q", **{name: ["a.*"] * 5000})
            assert error == "InvalidParameterValueException"

    run_sqs(test)


def test_an_error_does_not_repeat_a_long_value(run_sqs):
    async def test(sqs, queues):
        await queues.create_queue("q")
        for operation, parameters in (
            ("SendMessage", {"MessageBody": "a", "MessageGroupId": "a" * 100_000}),
            ("StartMessageMoveTask", {"SourceArn": "a" * 100_000}),
            ("DeleteMessage", {"ReceiptHandle": "a" * 100_000}),
            ("GetQueueAttributes", {"AttributeNames": ["a" * 100_000]}),
        ):
            status, answer = await sqs(operation, queue="q", **parameters)
            assert (status, len(answer["message"]) < 3000) == (400, True)

    run_sqs(test)


def test_a_long_name_is_not_recorded_whole(run_sqs):
    async def test(sqs, queues):
        from rsmq.web.audit import read_entries

        await sqs.refused("CreateQueue", QueueName="a" * 100_000)
        entries, _ = await read_entries(queues, 10, None, lambda _: True)
        assert {len(each["queue"]) < 1000 for each in entries} == {True}

    run_sqs(test)


def test_json_with_a_name_twice_is_refused(run_sqs):
    async def test(sqs, queues):
        await queues.create_queue("q")
        body = b'{"QueueUrl": "q", "MessageBody": "a", "MessageBody": "b"}'
        reply = await sqs.http(
            "POST", "/", body=body, headers={"x-amz-target": "AmazonSQS.SendMessage"}
        )
        assert reply.status == 400
        assert (await queues.get_queue_attributes("q")).messages == 0

    run_sqs(test)


def test_the_steps_of_a_batch_fail_alone(run_sqs):
    async def test(sqs, queues):
        await queues.create_queue("q", maxsize=-1)
        await sqs.ok("SendMessage", queue="q", MessageBody="a")  # the queue is read
        await queues.set_queue_attributes("q", maxsize=1024)
        entries = [
            {"Id": "small", "MessageBody": "b", "DelaySeconds": 1},
            {"Id": "large", "MessageBody": "c" * 2000},
        ]
        answer = await sqs.ok("SendMessageBatch", queue="q", Entries=entries)
        assert [each["Id"] for each in answer["Successful"]] == ["small"]
        (failed,) = answer["Failed"]
        assert (failed["Id"], failed["Code"]) == ("large", "InvalidParameterValue")
        assert (await queues.get_queue_attributes("q")).messages == 2

    run_sqs(test)


def test_a_policy_needs_the_right_to_send_to_its_dead_letter_queue(run_sqs, monkeypatch):
    async def test(sqs, queues):
        from rsmq.web.access.principals import Principal
        from rsmq.web.table import Scope

        await queues.create_queue("orders")
        await queues.create_queue("secret")
        caller = Principal("shop", frozenset(Scope), ("orders*",))
        monkeypatch.setattr("rsmq.web.sqs.application.EVERYONE", caller)
        policy = json.dumps(
            {"deadLetterTargetArn": "arn:aws:sqs:us-east-1:0:secret", "maxReceiveCount": 1}
        )
        attributes = {"RedrivePolicy": policy}
        error = await sqs.refused("SetQueueAttributes", queue="orders", Attributes=attributes)
        assert error == "AccessDeniedException"
        error = await sqs.refused("CreateQueue", QueueName="orders-2", Attributes=attributes)
        assert error == "AccessDeniedException"
        assert await queues.list_queues() == ["orders", "secret"]
        assert (await queues.get_queue_attributes("orders")).dead_letter_queue is None
        key = queues.namespace.queue("secret").hash
        assert await queues.run(plain_command("HEXISTS", key, "x:sqs")) == 0

    run_sqs(test)


def test_refused_is_not_an_error_of_the_server():
    from rsmq.web.sqs.errors import as_sqs_error

    assert as_sqs_error(Refused("requestTooLong", "It is too long", status=413)).status == 400
