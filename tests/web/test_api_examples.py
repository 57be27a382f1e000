"""The examples of the page of the API, run as they are there against a server."""

from __future__ import annotations

import io
import json
import shlex
import shutil
import subprocess
import time
import urllib.request
from contextlib import redirect_stdout

import pytest

from rsmq import JSON, RSMQ
from rsmq.errors import RSMQError
from rsmq.jobs.flows.operations import FlowNode, FlowPlan, send_flow
from rsmq.operations.plain import plain_command
from rsmq.web.bulk.records import OperationKind, begin_operation
from rsmq.web.pages.api_examples import FLOW, MESSAGE, OPERATION, UNDO, make_examples
from rsmq.web.routes import TABLE
from tests.browser.serving import serving
from tests.servers import Server, redis_7

_HOOK = "https://crm.example/orders"
#: One never ends, and the other waits for the answer of a worker.
_NOT_RUN = {("GET", "/queues/{queue}/tail"), ("POST", "/workers/{worker}:running")}


@pytest.fixture(scope="module")
def site():
    server = Server(redis_7())
    try:
        with serving(server.url) as address:
            yield server, address
    finally:
        server.stop()


def _plant(server, address, route):
    """Make what the examples name; return the ids that they have instead of those of the page."""
    with server.raw() as raw:
        raw.flushall()
    with RSMQ.from_url(server.url, codec=JSON) as queues:
        for name in ("orders", "orders-dead", "archive"):
            queues.create_queue(name)
        id = queues.send_message("orders", {"order": 7}, track=True)
        queues.receive_message("orders", vt=600)
        queues.schedules.add("nightly", every=3600, queue="orders", body={})
        queues.create_queue("purged")
        undo = queues.trash.purge_queue("purged").id
        operation, begin = begin_operation(
            queues.namespace, OperationKind.REDRIVE, "orders-dead", {}, total=1, creator="",
            address="",
        )  # fmt: skip
        queues.run(begin)
        node = b'{"task":"a","flow":{"id":"%b"}}' % FLOW.encode()
        plan = FlowPlan(FLOW, [FlowNode("orders", node, 1, range(0), ())])
        queues.run(send_flow(queues.namespace, plan, realtime=False))
        queues.set_dead_letter_policy("orders", "orders-dead", 3)
        facts = {"since_ms": 1, "host": "h", "pid": 1, "queues": {"orders": 0}}
        is_dead = route.path == "/workers/{worker}:release"
        until_ms = int(time.time() * 1000) + (-1 if is_dead else 1) * 600_000
        entry = f"{until_ms}:token:{json.dumps(facts)}"
        held = queues.namespace.held("worker-1")
        queues.run(plain_command("HSET", held, "", "token"))
        queues.run(plain_command("HSET", held, ":running", "[]"))
        hook = {"queue": "orders", "url": _HOOK, "state": "open", "failures": 2, "owner": "w"}
        queues.run(plain_command("HSET", "rsmq:x:push", "0" * 32, json.dumps(hook)))
        queues.run(plain_command("HSET", queues.namespace.workers, "worker-1", entry))
    _call(address, "PUT", "/queues/orders/subscribers/crm", url=_HOOK)
    _call(address, "PUT", "/alert-targets/on-call", url=_HOOK)
    _call(address, "PUT", "/alert-silences/paused", subject="orders", seconds=60, why="a deploy")
    if route.path == "/operations/{operation}:resume":
        _call(address, "POST", f"/operations/{operation}:pause")
    if (route.method, route.path) == ("PUT", "/queues/{queue}"):
        _call(address, "DELETE", "/queues/orders")
    url = {"redis://127.0.0.1:6379/0": server.url}
    return {MESSAGE: id, UNDO: undo, OPERATION: operation, **url}


def _call(address, method, path, **content):
    body, headers = json.dumps(content).encode(), {"Content-Type": "application/json"}
    request = urllib.request.Request(
        f"{address}/api/v1{path}", body if content else None, headers, method=method
    )
    urllib.request.urlopen(request, timeout=30).close()


def _in_curl(text):
    words = [*shlex.split(text), "-s", "-o", "/dev/null", "-w", "%{http_code}"]
    return subprocess.run(words, capture_output=True, text=True, timeout=60, check=True).stdout


def _in_python(text):
    """Return what it prints; 200 before it if it is a call of the client, which raises errors."""
    printed = io.StringIO()
    with redirect_stdout(printed):
        exec(text, {})
    return printed.getvalue() if "urlopen" in text else f"200 {printed.getvalue()}"


#: Runs the modules that it reads, each as a line of JSON.
_NODE = """
import { createInterface } from "node:readline";
for await (const line of createInterface({ input: process.stdin })) {
  const module = "data:text/javascript," + encodeURIComponent(JSON.parse(line));
  await import(module).catch((error) => console.log(String(error)));
  console.log("end");
}
"""


@pytest.fixture
def run(request):
    """Return what an example prints."""
    if request.param != "node":
        yield {"curl": _in_curl, "python": _in_python}[request.param]
        return
    if shutil.which("node") is None:
        pytest.skip("needs node")
    command = ["node", "--input-type=module", "-e", _NODE]
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE}
    with subprocess.Popen(command, text=True, bufsize=1, **pipes) as node:

        def run_in_node(text):
            node.stdin.write(json.dumps(text) + "\n")
            return "".join(iter(node.stdout.readline, "end\n"))

        yield run_in_node
        node.stdin.close()


@pytest.mark.parametrize(
    ("run", "language"), [(each, each) for each in ("curl", "python", "node")], indirect=["run"]
)
def test_each_example_does_what_its_operation_says(site, run, language):
    server, address = site
    wrong = {}
    examples = make_examples(TABLE, f"{address}/api/v1", "rsmq")
    for route, example in zip(TABLE, examples, strict=True):
        if (route.method, route.path) in _NOT_RUN:
            continue
        text = getattr(example, language)
        for old, new in _plant(server, address, route).items():
            text = text.replace(old, new)
        try:
            printed = run(text)
        except (OSError, RSMQError, TypeError) as error:
            printed = repr(error)
        if printed[:3] not in {"200", *map(str, route.answers)}:
            wrong[f"{route.method} {route.path}"] = printed[:300]
    assert wrong == {}
