"""
PyRSMQ's API behind standard input and output: ``python peer.py MODULE PORT``.

MODULE is ``rsmq`` under PyRSMQ's own environment, or ``rsmq.pyrsmq`` under ours: one program for
both. One request a line, one answer a line; compat/README.md has the format.
"""

from __future__ import annotations

import base64
import importlib
import json
import sys
from importlib.metadata import version

import redis

module, port = sys.argv[1], sys.argv[2]
RedisSMQ = importlib.import_module(module).RedisSMQ
clients = {}


def client_of(ns, realtime):
    key = (ns, realtime)
    if key not in clients:
        clients[key] = RedisSMQ(host="127.0.0.1", port=port, ns=ns, realtime=realtime)
    return clients[key]


def command(rsmq, op, args, fluent):
    """The command with its arguments, as keywords or by one call each."""
    if not fluent:
        return getattr(rsmq, op)(**args)
    made = getattr(rsmq, op)()
    for name, value in args.items():
        made = getattr(made, name)(value)
    return made


def subscribe(channel):
    global listener, subscription
    listener = redis.Redis(host="127.0.0.1", port=int(port), decode_responses=True)
    subscription = listener.pubsub(ignore_subscribe_messages=False)
    subscription.subscribe(channel)
    subscription.get_message(timeout=5)
    return True


def heard():
    found = []
    message = subscription.get_message(timeout=5)
    while message:
        found.append([message["channel"], message["data"]])
        message = subscription.get_message(timeout=0.01)
    return found


def perform(request):
    op, args, ns = request["op"], request.get("args", {}), request.get("ns")
    if op == "version":
        return version("PyRSMQ" if module == "rsmq" else "rsmq")
    if op == "forget":
        for realtime in (False, True):
            client = clients.pop((ns, realtime), None)
            if client is not None:
                client.client.close()
        return None
    if op == "subscribe":
        return subscribe(**args)
    if op == "heard":
        return heard()
    rsmq = client_of(ns, bool(request.get("realtime")))
    return command(rsmq, op, args, request.get("fluent", False)).execute()


def plain(value):
    """The value as JSON has it."""
    if isinstance(value, bytes):
        return {"$b64": base64.b64encode(value).decode()}
    if isinstance(value, set):
        return sorted(map(plain, value))
    if isinstance(value, dict):
        return {name: plain(item) for name, item in value.items()}
    return value


listener = subscription = None
answers, sys.stdout = sys.stdout, sys.stderr  # PyRSMQ prints when it refuses a name
for line in sys.stdin:
    try:
        answer = {"result": plain(perform(json.loads(line)))}
    except Exception as error:  # noqa: BLE001 - whatever the client raises is its answer
        answer = {"error": {"name": type(error).__name__, "message": str(error)}}
    answers.write(json.dumps(answer) + "\n")
    answers.flush()
