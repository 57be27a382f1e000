"""
Requests that schemathesis makes of the OpenAPI document, with all its checks: each answer has a
status, a media type and a body that the document has, and no answer is an error of the server.
"""

import asyncio
import contextlib
import json
import random
import sys
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
import uvicorn

from rsmq import AsyncRSMQ
from rsmq.web import create_app
from rsmq.web.access import attempts
from rsmq.web.openapi import make_document
from rsmq.web.routes import TABLE
from tests.scale import SOAK
from tests.servers import free_port

pytestmark = pytest.mark.slow

_KEY = "a key of some length"


def _document():
    """Return the document, with waits that end at once, and with a queue that often exists."""
    document = make_document(TABLE, "1.0", "/api/v1")
    known = {"anyOf": [{"enum": ["q"]}, {"type": "string", "minLength": 1}]}
    for operation in (each for path in document["paths"].values() for each in path.values()):
        for each in operation["parameters"]:
            if each["name"] == "queue":
                each["schema"] = known
            elif each["schema"].get("type") == "boolean":
                each["schema"] = {"enum": [True, False, "1", "0", ""]}  # the server reads all five
            elif each["name"] == "wait":
                each["schema"]["maximum"] = 0.001
        for content in operation.get("requestBody", {}).get("content", {}).values():
            fields = content["schema"].get("properties", {})
            if "wait" in fields:
                fields["wait"]["maximum"] = 0.001
            if "queues" in fields:
                fields["queues"]["items"] = known
    return document


@asynccontextmanager
async def _serve(queues):
    app = create_app(queues, key=_KEY)
    config = uvicorn.Config(app, port=free_port(), log_level="critical", lifespan="off")
    running = uvicorn.Server(config)
    running.capture_signals = contextlib.nullcontext
    task = asyncio.create_task(running.serve())
    yield f"http://127.0.0.1:{config.port}/api/v1"
    running.should_exit = True
    await task


def test_each_answer_to_a_request_of_schemathesis_is_in_the_document(
    server, ns, tmp_path, monkeypatch
):
    monkeypatch.setattr(attempts, "_MAX_FAILURES", 10**9)  # of one address, on purpose
    path = tmp_path / "openapi.json"
    path.write_text(json.dumps(_document()))
    command = [
        sys.executable, "-c", "from schemathesis.cli import schemathesis; schemathesis()",
        "--no-color", "--config-file", str(Path(__file__).with_name("schemathesis.toml")),
        "run", str(path), "--checks", "all", "--header", f"Authorization: Bearer {_KEY}",
        "--exclude-path", "/doctor",  # it waits for a second look
        "--exclude-path", "/queues/{queue}/tail",  # its answer does not end
        "--generation-database", "none", "--warnings", "off",
    ]  # fmt: skip
    if SOAK:
        command += ["--max-examples", "400", "--seed", str(random.randrange(2**32))]
    else:
        command += ["--max-examples", "3", "--seed", "1", "--phases", "fuzzing"]

    async def main():
        async with AsyncRSMQ.from_url(server.url, ns=ns) as queues, _serve(queues) as url:
            ended = await asyncio.create_subprocess_exec(
                *command, "--url", url, cwd=tmp_path,
                stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.STDOUT,
            )  # fmt: skip
            printed, _ = await ended.communicate()
            assert ended.returncode == 0, printed.decode()

    asyncio.run(main())
