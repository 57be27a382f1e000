"""A server for clients of SQS: inside this process, or as ``rsmq web``."""

from __future__ import annotations

import json
import os
import subprocess
import sys

import boto3
import pytest
from botocore.config import Config

from tests.web.asgi import Http

ACCOUNT = "000000000000"


class SqsHttp:
    """Sends requests of the JSON protocol to an application."""

    def __init__(self, app):
        self.http = Http(app, "")

    async def __call__(self, operation, *, queue=None, left=None, **parameters):
        """Return the status and the answer."""
        if queue is not None:
            parameters["QueueUrl"] = f"http://localhost/{ACCOUNT}/{queue}"
        headers = {
            "x-amz-target": f"AmazonSQS.{operation}",
            "content-type": "application/x-amz-json-1.0",
        }
        body = json.dumps(parameters).encode()
        reply = await self.http("POST", "/", body=body, headers=headers, left=left)
        return None if reply is None else (reply.status, json.loads(reply.content))

    async def ok(self, operation, **options):
        """Return the answer, which is not an error."""
        status, answer = await self(operation, **options)
        assert status == 200, answer
        return answer

    async def refused(self, operation, **options):
        """Return the short name of the error."""
        status, answer = await self(operation, **options)
        assert status != 200, answer
        return answer["__type"].partition("#")[2]


@pytest.fixture
def run_sqs(run):
    """Run a coroutine function with a client of SQS, and a client of the same queues."""

    def run_test(test, **options):
        async def with_sqs(http, queues):
            await test(SqsHttp(http.app.state.sqs), queues)

        run(with_sqs, **options)

    return run_test


class SqsProcess:
    """A running ``rsmq web`` with a port for SQS."""

    def __init__(self, server, ns, *arguments, sqs_port=0):
        command = ["-m", "rsmq", "web", "--port", "0", "--sqs-port", str(sqs_port), "--no-record"]
        self.process = subprocess.Popen(
            [sys.executable, *command, *arguments],
            env={**os.environ, "RSMQ_URL": server.url, "RSMQ_NS": ns, "RSMQ_CONFIG": "/dev/null"},
            stderr=subprocess.PIPE,
            text=True,
        )
        lines = iter(self.process.stderr.readline, "")
        self.url = next(each for each in lines if "Amazon SQS" in each).rpartition(": ")[0]

    def stop(self):
        self.process.terminate()
        self.process.stderr.read()
        self.process.stderr.close()
        self.process.wait()


@pytest.fixture
def start_sqs(server, ns):
    """Start ``rsmq web``; returns it."""
    running = []

    def start(*arguments):
        running.append(SqsProcess(server, ns, *arguments))
        return running[-1]

    yield start
    for each in running:
        each.stop()


def boto(url, id="any", secret="any", *, retries=8):
    """Return a client of boto3, which repeats calls so often that Redis does not answer in time."""
    config = Config(retries={"max_attempts": retries}, read_timeout=120)
    return boto3.client(
        "sqs", endpoint_url=url, region_name="us-east-1", aws_access_key_id=id,
        aws_secret_access_key=secret, config=config,
    )  # fmt: skip
