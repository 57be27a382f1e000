"""Dead letters keep the queue that they came from, if SQS has set the policy."""

import json

from rsmq.operations.plain import parse_fields, plain_command


def _arn(name):
    return f"arn:aws:sqs:us-east-1:000000000000:{name}"


async def _reasons(queues, qname):
    key = queues.namespace.queue(qname).reasons
    return parse_fields(await queues.run(plain_command("HGETALL", key)))


def test_a_dead_letter_has_its_source_and_returns_to_it(run_sqs):
    async def test(sqs, queues):
        await sqs.ok("CreateQueue", QueueName="dead")
        policy = json.dumps({"deadLetterTargetArn": _arn("dead"), "maxReceiveCount": "1"})
        for name in ("a", "b"):
            await sqs.ok("CreateQueue", QueueName=name, Attributes={"RedrivePolicy": policy})
            id = await queues.send_message(name, f"of {name}")
            await sqs.ok("ReceiveMessage", queue=name, VisibilityTimeout=0)
            assert await sqs.ok("ReceiveMessage", queue=name) == {}
        (stored,) = [v for k, v in (await _reasons(queues, "dead")).items() if k == id.encode()]
        ms, _, reason = stored.partition(b":")
        assert ms.isdigit()
        assert json.loads(reason) == {
            "queue": "b", "worker": "", "attempts": 1, "exception": None, "traceback": None,
            "text": "It was received as often as its queue allows, or has expired.",
        }  # fmt: skip
        answer = await sqs.ok(
            "ReceiveMessage", queue="dead", AttributeNames=["DeadLetterQueueSourceArn"],
            MaxNumberOfMessages=10, VisibilityTimeout=0,
        )  # fmt: skip
        sources = [each["Attributes"] for each in answer["Messages"]]
        assert sources == [{"DeadLetterQueueSourceArn": _arn(each)} for each in ("a", "b")]
        urls = (await sqs.ok("ListDeadLetterSourceQueues", queue="dead"))["queueUrls"]
        assert [each.rpartition("/")[2] for each in urls] == ["a", "b"]
        await queues.redrive_messages("dead")
        for name in ("a", "b"):
            assert (await queues.peek_messages(name))[0].body == f"of {name}"
        assert await _reasons(queues, "dead") == {}

    run_sqs(test)


def test_a_policy_that_python_has_set_stores_no_source(run_sqs):
    async def test(sqs, queues):
        await queues.create_queue("q")
        await queues.create_queue("dead")
        await queues.set_dead_letter_policy("q", "dead", 1)
        await queues.send_message("q", "a")
        await queues.receive_message("q", vt=0)
        assert await queues.receive_message("q") is None
        assert await _reasons(queues, "dead") == {}

    run_sqs(test)


def test_a_target_that_is_missing_or_of_the_other_kind_is_refused(run_sqs):
    async def test(sqs, queues):
        await queues.create_queue("q")
        await sqs.ok("CreateQueue", QueueName="d.fifo", Attributes={"FifoQueue": "true"})
        for target in ("none", "d.fifo", "q"):
            policy = json.dumps({"deadLetterTargetArn": _arn(target), "maxReceiveCount": 3})
            error = await sqs.refused(
                "SetQueueAttributes", queue="q", Attributes={"RedrivePolicy": policy}
            )
            assert error == "InvalidParameterValueException", target
        assert (await queues.get_queue_attributes("q")).dead_letter_queue is None

    run_sqs(test)
