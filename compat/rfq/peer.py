"""
The real rfq, for the tests of moving over: ``python peer.py PORT``, under its own environment.

Without more it answers requests on standard input, one JSON object a line as compat/README.md has
it: the methods of rfq's ``Queue`` under their names, and a task's ``done`` and ``published``.

With more it works until it is ended, and notes each number in a Redis list once that is done:

    produce TOPIC LOG   publishes {"n": "0"}, {"n": "1"} ...
    consume TOPIC LOG   consumes, notes n, and only then says done; so a kill between repeats
"""

from __future__ import annotations

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
    if op == "consume":
        task = queue.consume(topic)
        return {"id": task.msgid, "message": task.result()}
    if op in {"done", "published"}:
        return str(getattr(Task(topic, args["msgid"], {}, client), op)())
    return getattr(queue, op)(topic=topic, **args)


def answer():
    for line in sys.stdin:
        request = json.loads(line)
        try:
            told = {"result": perform(request["op"], **request.get("args", {}))}
        except Exception as error:  # noqa: BLE001 - whatever rfq raises is its answer
            told = {"error": {"name": type(error).__name__, "message": str(error)}}
        print(json.dumps(told), flush=True)


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
    answer()
elif work[0] == "produce":
    produce(*work[1:])
else:
    consume(*work[1:])
