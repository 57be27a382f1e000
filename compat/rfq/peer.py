"""
The real rfq, for the migration tests: ``python peer.py PORT``, in its own environment.

Without further arguments it replies to requests on standard input, one JSON object per line in the
format of compat/README.md: the methods of rfq's ``Queue`` under their names, and ``done`` and
``published`` of a task, and ``signatures``, the parameters of all methods.

With further arguments it works until it is ended, and appends each finished number to a Redis list:

    produce TOPIC LOG   publish {"n": "0"}, {"n": "1"} ...
    consume TOPIC LOG   consume, append n, and only then mark it as done: a kill between repeats it
"""

from __future__ import annotations

import inspect
import itertools
import json
import sys
import time
from importlib.metadata import version

import redis
from rfq.rfq import Queue, Task

port, work = int(sys.argv[1]), sys.argv[2:]
client = redis.Redis(port=port, decode_responses=True)
queue = Queue(client)


def perform(op, topic=None, **args):
    if op == "version":
        return version("rfq")
    if op == "topics":
        return queue.topics()
    if op == "signatures":
        return {kind.__name__: read_signatures(kind) for kind in (Queue, Task)}
    if op == "consume":
        task = queue.consume(topic)
        return {"id": task.msgid, "message": task.result()}
    if op in {"done", "published"}:
        return str(getattr(Task(topic, args["msgid"], {}, client), op)())
    return getattr(queue, op)(topic=topic, **args)


def read_signatures(kind):
    return {
        name: list(inspect.signature(member).parameters)
        for name, member in vars(kind).items()
        if callable(member) and (name == "__init__" or not name.startswith("_"))
    }


def serve():
    for line in sys.stdin:
        request = json.loads(line)
        try:
            reply = {"result": perform(request["op"], **request.get("args", {}))}
        except Exception as error:  # noqa: BLE001 - any exception of rfq is the reply
            reply = {"error": {"name": type(error).__name__, "message": str(error)}}
        print(json.dumps(reply), flush=True)


def produce(topic, log):
    for number in itertools.count():
        queue.publish(topic, {"n": str(number)})
        client.rpush(log, number)
        time.sleep(0.001)


def consume(topic, log):
    while True:
        task = queue.consume(topic)
        client.rpush(log, task.result()["n"])
        task.done()


if not work:
    serve()
elif work[0] == "produce":
    produce(*work[1:])
else:
    consume(*work[1:])
