"""Queues that were exported and imported, as clients of SQS see them."""

import io

import pytest

from rsmq.transfer import export_queues, import_queues
from tests.web.sqs.conftest import boto

_CHANGING = ("QueueArn", "LastModifiedTimestamp")


def _describe(client, name):
    url = client.get_queue_url(QueueName=name)["QueueUrl"]
    attributes = client.get_queue_attributes(QueueUrl=url, AttributeNames=["All"])["Attributes"]
    kept = {each: value for each, value in attributes.items() if each not in _CHANGING}
    return kept, client.list_queue_tags(QueueUrl=url).get("Tags")


def _receive(client, name):
    url = client.get_queue_url(QueueName=name)["QueueUrl"]
    return [each["Body"] for each in client.receive_message(QueueUrl=url)["Messages"]]


def test_the_copy_of_a_fifo_queue_is_the_same_queue(start_sqs, rsmq):
    client = boto(start_sqs().url)
    url = client.create_queue(
        QueueName="q.fifo",
        Attributes={
            "FifoQueue": "true", "ContentBasedDeduplication": "true", "VisibilityTimeout": "77",
            "MaximumMessageSize": "1048576", "Policy": '{"Version":"2012-10-17"}',
        },
        tags={"team": "grün"},
    )["QueueUrl"]  # fmt: skip
    client.send_message(QueueUrl=url, MessageBody="one", MessageGroupId="g")
    described = _describe(client, "q.fifo")
    file = io.BytesIO()
    export_queues(rsmq, ["q_fifo"], file)
    for name in ("copy_fifo", "standard"):
        file.seek(0)
        import_queues(rsmq, file, queues={"q_fifo": name})

    assert _describe(client, "copy.fifo") == described
    assert described[1] == {"team": "grün"}
    with pytest.raises(client.exceptions.QueueDoesNotExist):
        client.get_queue_url(QueueName="copy_fifo")
    standard, tags = _describe(client, "standard")
    assert (standard["VisibilityTimeout"], tags) == ("77", None)
    assert "FifoQueue" not in standard
    assert _receive(client, "copy.fifo") == _receive(client, "standard") == ["one"]
    client.close()
