"""Redis and ``rsmq web`` are killed while clients of SQS send and receive: nothing is lost."""

import random
import threading
import time

import pytest
from botocore.exceptions import BotoCoreError, ClientError

from tests.ports import free_port
from tests.scale import WAIT_SECONDS, scaled
from tests.servers import Server, redis_7
from tests.web.sqs.conftest import SqsProcess, boto

_THREADS = scaled(3, 32)
_KILLS = scaled(3, 20)
_SECONDS_BETWEEN = 1.0
_FAILURES = (BotoCoreError, ClientError)


class _Traffic:
    """Producers and consumers of a queue, and what they know of it."""

    def __init__(self, url, queue, *, fifo):
        self.url, self.queue, self.fifo = url, queue, fifo
        self.stopping = threading.Event()
        self.draining = threading.Event()
        self.sent, self.received = {}, {}
        self.uncertain = set()
        self.threads = [
            threading.Thread(target=work, args=(number,))
            for work in (self._produce, self._consume)
            for number in range(_THREADS)
        ]
        for each in self.threads:
            each.start()

    def _produce(self, number):
        client = boto(self.url, retries=0)
        each = 0
        while not self.stopping.is_set():
            each += 1
            body = f"{number}-{each}"
            order = {"MessageGroupId": f"g{number}", "MessageDeduplicationId": body}
            while True:
                try:
                    answer = client.send_message(
                        QueueUrl=self.queue, MessageBody=body, **(order if self.fifo else {})
                    )
                except _FAILURES:
                    time.sleep(0.05)
                    if not self.fifo:  # a second send could double it
                        self.uncertain.add(body)
                        break
                else:
                    self.sent[body] = answer["MessageId"]
                    break
            time.sleep(0.002)

    def _consume(self, number):
        client = boto(self.url, retries=0)
        while not self.draining.is_set():
            try:
                answer = client.receive_message(
                    QueueUrl=self.queue, MaxNumberOfMessages=10, WaitTimeSeconds=1,
                    VisibilityTimeout=3,
                )  # fmt: skip
            except _FAILURES:
                time.sleep(0.05)
                continue
            for message in answer.get("Messages", []):
                ids = self.received.setdefault(message["Body"], [])
                ids.append(message["MessageId"])
                try:
                    client.delete_message(
                        QueueUrl=self.queue, ReceiptHandle=message["ReceiptHandle"]
                    )
                except _FAILURES:
                    time.sleep(0.05)

    def join(self, threads):
        for each in threads:
            each.join(WAIT_SECONDS)
            assert not each.is_alive()


@pytest.mark.parametrize("queue", ["q", "q.fifo"])
def test_kills_lose_and_double_nothing(queue):
    fifo = queue.endswith(".fifo")
    server = Server(redis_7(), "--appendonly", "yes", "--appendfsync", "always")
    port = free_port()
    web = SqsProcess(server, "kills", "--no-auth", sqs_port=port)
    choose = random.Random(5)
    try:
        boto(web.url).create_queue(
            QueueName=queue, Attributes={"FifoQueue": "true"} if fifo else {}
        )
        traffic = _Traffic(web.url, queue, fifo=fifo)
        for number in range(_KILLS):
            time.sleep(choose.uniform(0.2, _SECONDS_BETWEEN))
            if number % 2:
                server.kill()
                server.start()
            else:
                web.process.kill()
                web.stop()
                web = SqsProcess(server, "kills", "--no-auth", sqs_port=port)
        before = len(traffic.sent)
        deadline = time.monotonic() + WAIT_SECONDS
        while len(traffic.sent) < before + 10:  # they have recovered
            assert time.monotonic() < deadline
            time.sleep(0.01)
        traffic.stopping.set()
        traffic.join(traffic.threads[:_THREADS])
        client = boto(web.url)
        while True:
            counts = client.get_queue_attributes(QueueUrl=queue, AttributeNames=["All"])
            numbers = [
                int(value)
                for name, value in counts["Attributes"].items()
                if name.startswith("ApproximateNumber")
            ]
            if not any(numbers):
                break
            assert time.monotonic() < deadline, numbers
            time.sleep(0.1)
        traffic.draining.set()
        traffic.join(traffic.threads)
        assert traffic.sent.keys() - traffic.received.keys() == set(), "lost"
        assert traffic.received.keys() <= traffic.sent.keys() | traffic.uncertain
        doubled = {body for body, ids in traffic.received.items() if len(set(ids)) > 1}
        assert doubled == set()
        print(f"{len(traffic.sent)} sent, {len(traffic.uncertain)} uncertain, {_KILLS} kills")
    finally:
        if "traffic" in locals():
            traffic.stopping.set()
            traffic.draining.set()
        web.stop()
        server.stop()
