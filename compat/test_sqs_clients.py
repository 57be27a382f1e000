"""
One message through the clients of Amazon SQS, Node's rsmq and a Python worker.

tests/documents runs the programs of docs/sqs-clients.md with the same clients.
"""

from __future__ import annotations

import base64
import json
import os
import subprocess
import time
import uuid

import pytest

from compat.peers import FOLDER
from rsmq import RSMQ
from rsmq.web.sqs.digests import message_id
from rsmq.worker import Worker
from tests.scale import WAIT_SECONDS
from tests.web.sqs.conftest import SqsProcess, boto

PROGRAMS = FOLDER / "sqs" / ".venv" / "bin"
ARN = "arn:aws:sqs:us-east-1:000000000000:"
CELERY = """
from celery import Celery

app = Celery("shop", broker="sqs://any:any@{address}//")
app.conf.broker_transport_options = {{
    "region": "us-east-1", "is_secure": False, "wait_time_seconds": 1, "polling_interval": 0.1,
}}
app.conf.worker_redirect_stdouts = False


@app.task(name="shop.charge")
def charge(order):
    print("charged", order, flush=True)
"""


def wait_until(condition):
    deadline = time.monotonic() + WAIT_SECONDS
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.05)


@pytest.fixture
def sqs_url(server, ns):
    web = SqsProcess(server, ns)
    yield web.url
    web.stop()


@pytest.fixture
def queues(server, ns):
    with RSMQ.from_url(server.url, ns=ns) as queues:
        yield queues


def run_aws(url, *arguments):
    """Return the answer of the aws CLI."""
    keys = {"AWS_ACCESS_KEY_ID": "any", "AWS_SECRET_ACCESS_KEY": "any"}
    done = subprocess.run(
        [PROGRAMS / "aws", "--endpoint-url", url, "--region", "us-east-1", "sqs", *arguments],
        env={**os.environ, **keys}, capture_output=True, text=True, check=False,
        timeout=WAIT_SECONDS,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


class CeleryWorker:
    """A worker of Celery, and what its tasks have printed."""

    def __init__(self, folder, url):
        (folder / "shop.py").write_text(CELERY.format(address=url.partition("//")[2]))
        self._log = folder / "celery.log"
        with self._log.open("w") as log:
            self._process = subprocess.Popen(
                [PROGRAMS / "celery", "--quiet", "--app", "shop", "worker", "--pool", "solo"],
                cwd=folder, stdout=log, stderr=log,
            )  # fmt: skip

    def has_printed(self, text):
        assert self._process.poll() is None, self._log.read_text()
        return text in self._log.read_text().splitlines()

    def stop(self):
        self._process.terminate()
        assert self._process.wait(WAIT_SECONDS) == 0


@pytest.fixture
def start_celery(tmp_path, sqs_url):
    running = []

    def start():
        running.append(CeleryWorker(tmp_path, sqs_url))
        return running[-1]

    yield start
    for each in running:
        each.stop()


def make_task(order):
    """Return a message of Celery for the task ``shop.charge``."""
    id = str(uuid.uuid4())
    content = base64.b64encode(json.dumps([[order], {}, {}]).encode()).decode()
    return json.dumps({
        "body": content,
        "content-type": "application/json",
        "content-encoding": "utf-8",
        "headers": {"lang": "py", "task": "shop.charge", "id": id, "root_id": id},
        "properties": {
            "correlation_id": id,
            "delivery_mode": 2,
            "delivery_info": {"exchange": "", "routing_key": "celery"},
            "delivery_tag": str(uuid.uuid4()),
            "body_encoding": "base64",
        },
    })  # fmt: skip


def test_a_message_goes_from_node_through_boto3_a_worker_and_the_aws_cli_to_celery(
    node, keys, queues, sqs_url, start_celery
):
    sqs = boto(sqs_url)
    for queue in ("celery", "dead"):
        sqs.create_queue(QueueName=queue)
    policy = {"deadLetterTargetArn": f"{ARN}dead", "maxReceiveCount": 2}
    sqs.set_queue_attributes(QueueUrl="celery", Attributes={"RedrivePolicy": json.dumps(policy)})
    task = make_task("order 17")

    id = node.send_message("celery", task)
    (received,) = sqs.receive_message(QueueUrl="celery", WaitTimeSeconds=20)["Messages"]
    assert (received["MessageId"], received["Body"]) == (message_id(id), task)
    sqs.change_message_visibility(
        QueueUrl="celery", ReceiptHandle=received["ReceiptHandle"], VisibilityTimeout=0
    )

    calls = []
    worker = Worker(queues)

    @worker.listener("celery", max_retries=1, dead_letter_queue="dead")
    def fail(body, message):
        calls.append((message.id, message.receive_count, body))
        raise ValueError("Out of stock.")

    with worker:
        wait_until(lambda: keys.scores("dead"))
    assert calls == [(id, 2, task)]
    assert keys.scores("celery") == {}
    assert list(keys.scores("dead")) == [id.encode()]
    fields = keys.fields("dead")
    assert (fields[id.encode()], fields[f"{id}:rc".encode()]) == (task.encode(), b"2")

    run_aws(sqs_url, "start-message-move-task", "--source-arn", f"{ARN}dead")
    wait_until(lambda: keys.scores("celery"))
    assert keys.scores("dead") == {}
    (moved,) = (each.decode() for each in keys.scores("celery"))
    assert moved != id
    assert keys.fields("celery")[moved.encode()] == task.encode()
    (result,) = run_aws(sqs_url, "list-message-move-tasks", "--source-arn", f"{ARN}dead")["Results"]
    assert result["ApproximateNumberOfMessagesMoved"] == 1

    celery = start_celery()
    wait_until(lambda: celery.has_printed("charged order 17"))
    wait_until(lambda: not keys.scores("celery"))
    assert not {moved.encode(), id.encode()} & keys.fields("celery").keys()
