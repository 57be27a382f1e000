"""Clients that generators make of the OpenAPI document have all operations, with their types."""

from __future__ import annotations

import asyncio
import importlib
import inspect
import json
import os
import re
import shutil
import subprocess
import sys
from contextlib import asynccontextmanager
from pathlib import Path
from typing import get_args

import httpx
import pytest

from rsmq import AsyncRSMQ
from rsmq.web import create_app
from rsmq.web.openapi import make_document
from rsmq.web.routes import TABLE

pytestmark = pytest.mark.slow

_BIN = Path(sys.executable).parent
_KEY = "a key of some length"
#: The operations that are not called: the answer of the first does not end, the second one waits
#: for a second look.
_NOT_CALLED = {"get_queues_queue_tail", "get_doctor"}


@pytest.fixture(scope="module")
def document():
    return make_document(TABLE, "1.0", "/api/v1")


@pytest.fixture(scope="module")
def operations(document):
    """The operations by their names in Python."""
    return {
        operation["operationId"].replace("-", "_"): operation
        for path in document["paths"].values()
        for operation in path.values()
    }


def _generate(document, folder, *command):
    (folder / "openapi.json").write_text(json.dumps(document))
    ended = subprocess.run(
        command, cwd=folder, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
        check=False, env={**os.environ, "PATH": f"{_BIN}:{os.environ['PATH']}"},
    )  # fmt: skip
    assert ended.returncode == 0, ended.stdout
    return ended.stdout


@pytest.fixture(scope="module")
def generated(document, tmp_path_factory):
    """The folder of the package that openapi-python-client makes."""
    folder = tmp_path_factory.mktemp("generated")
    package = f"generated_{os.getpid()}"
    (folder / "config.yml").write_text("post_hooks: []\n")
    printed = _generate(
        document, folder, _BIN / "openapi-python-client", "generate", "--path", "openapi.json",
        "--output-path", package, "--meta", "none", "--config", "config.yml",
    )  # fmt: skip
    assert "will not be generated" not in printed
    sys.path.insert(0, str(folder))
    yield folder / package
    sys.path.remove(str(folder))


def _import(generated, name):
    return importlib.import_module(f"{generated.name}.{name}")


def _sample(schema):
    """Return a value that fits a schema of a required field."""
    kind = schema.get("type")
    if kind == "object":
        return {name: _sample(schema["properties"][name]) for name in schema.get("required", ())}
    values = {"string": "x", "integer": 1, "number": 1, "boolean": True, "array": []}
    return schema.get("enum", [values.get(kind)])[0]


def _arguments(generated, operation, function):
    """Return arguments for the parameters that an operation needs, and for its flags."""
    arguments = {}
    for each in operation["parameters"]:
        if each["required"] or each["schema"].get("type") == "boolean":
            is_queue = each["name"] == "queue"
            arguments[each["name"]] = "q" if is_queue else _sample(each["schema"])
    content = operation.get("requestBody", {}).get("content", {})
    for media_type, described in content.items():
        if media_type == "application/json":
            kind = inspect.signature(function).parameters["body"].annotation
            model, *_ = get_args(kind) or [kind]
            arguments["body"] = model.from_dict(_sample(described["schema"]))
        else:
            arguments["body"] = _import(generated, "types").File(payload=b"x")
    return arguments


@asynccontextmanager
async def _serve(generated, server, ns):
    """Yield a generated client of an application in this process, and the queues of that."""
    async with AsyncRSMQ.from_url(server.url, ns=ns) as queues:
        await queues.create_queue("q")
        client = _import(generated, "client").AuthenticatedClient("", token=_KEY)
        async with httpx.AsyncClient(
            transport=httpx.ASGITransport(create_app(queues, key=_KEY)),
            base_url="http://localhost/api/v1",
            headers={"authorization": f"Bearer {_KEY}"},
        ) as http:
            yield client.set_async_httpx_client(http), queues


def test_each_operation_of_a_generated_client_is_answered(generated, operations, server, ns):
    modules = {path.stem for path in (generated / "api" / "default").glob("[!_]*.py")}
    assert modules == operations.keys()

    async def main():
        async with _serve(generated, server, ns) as (client, queues):
            for name in sorted(operations.keys() - _NOT_CALLED):
                await queues.create_queue("q", exist_ok=True)
                function = _import(generated, f"api.default.{name}").asyncio_detailed
                arguments = _arguments(generated, operations[name], function)
                reply = await function(client=client, **arguments)
                assert str(int(reply.status_code)) in operations[name]["responses"], name
                assert reply.status_code < 500, (name, reply.content)
                # Of a wrong kind, missing or unknown.
                assert b"The field " not in reply.content, (name, reply.content)
                assert b"unknownField" not in reply.content, (name, reply.content)

    asyncio.run(main())


def test_messages_of_a_generated_client_have_fields(generated, server, ns):
    models = _import(generated, "models")
    api = {
        name: _import(generated, f"api.default.{name}").asyncio
        for name in (
            "delete_queues_queue_messages_id", "post_queues_queue_messages",
            "post_queues_queue_messages_batch", "post_receive",
        )
    }  # fmt: skip
    one = models.PostQueuesQueueMessagesBody(body="a", delay=0, unique_key="u")
    item = models.PostQueuesQueueMessagesBatchBodyMessagesItem(body="b", group="g")
    batch = models.PostQueuesQueueMessagesBatchBody(messages=[item])
    queues = models.PostReceiveBody(queues=["q"], max_=5)

    async def main():
        async with _serve(generated, server, ns) as (client, _):
            await api["post_queues_queue_messages"]("q", client=client, body=one)
            sent = await api["post_queues_queue_messages_batch"]("q", client=client, body=batch)
            received = await api["post_receive"](client=client, body=queues)
            assert [(each.body, each.receive_count) for each in received.messages] == [
                ("a", 1), ("b", 1),
            ]  # fmt: skip
            assert received.messages[1].id == sent.ids[0]
            delete = api["delete_queues_queue_messages_id"]
            done = await delete("q", sent.ids[0], client=client, undo=True)
            assert done.undo is not None

    asyncio.run(main())


def test_openapi_generator_makes_each_operation_with_flags(document, operations, tmp_path):
    assert shutil.which("java"), "openapi-generator needs Java: scripts/requirements java"
    _generate(
        document, tmp_path, _BIN / "openapi-generator-cli", "generate", "-i", "openapi.json",
        "-g", "python", "-o", "made", "--global-property", "apiDocs=false,apiTests=false,"
        "modelDocs=false,modelTests=false,apis,models",
    )  # fmt: skip
    text = (tmp_path / "made" / "openapi_client" / "api" / "default_api.py").read_text()
    methods = dict(
        re.findall(r"^    def ([a-z]\w*)\((.*?)\n    \)", text, re.MULTILINE | re.DOTALL)
    )
    assert operations.keys() <= methods.keys()
    for name, operation in operations.items():
        for each in operation["parameters"]:
            if each["schema"].get("type") == "boolean":
                assert re.search(rf"\b{each['name']}: .*\bStrictBool\b", methods[name]), name
