"""
PyRSMQ's API, controlled over standard input and output: ``python peer.py MODULE PORT``.

MODULE is ``rsmq`` in PyRSMQ's own environment, or ``rsmq.pyrsmq`` in this library's: one
program for both. One line per request, one line per reply; compat/README.md describes the format.
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


def get_client(ns, realtime):
    key = (ns, realtime)
    if key not in clients:
        clients[key] = RedisSMQ(host="127.0.0.1", port=port, ns=ns, realtime=realtime)
    return clients[key]


def build_command(rsmq, op, args, fluent):
    """Return the command with its arguments, set by keywords or by one call each."""
    if not fluent:
        return getattr(rsmq, op)(**args)
    command = getattr(rsmq, op)()
    for name, value in args.items():
        command = getattr(command, name)(value)
    return command


def subscribe(channel):
    global listener, subscription
    listener = redis.Redis(host="127.0.0.1", port=int(port), decode_responses=True)
    subscription = listener.pubsub(ignore_subscribe_messages=False)
    subscription.subscribe(channel)
    subscription.get_message(timeout=5)
    return True


def read_received():
    messages = []
    message = subscription.get_message(timeout=5)
    while message:
        messages.append([message["channel"], message["data"]])
        message = subscription.get_message(timeout=0.01)
    return messages


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
        return read_received()
    rsmq = get_client(ns, bool(request.get("realtime")))
    return build_command(rsmq, op, args, request.get("fluent", False)).execute()


def to_json_value(value):
    """Return the value in a form that JSON can contain."""
    if isinstance(value, bytes):
        return {"$b64": base64.b64encode(value).decode()}
    if isinstance(value, set):
        return sorted(map(to_json_value, value))
    if isinstance(value, dict):
        return {name: to_json_value(item) for name, item in value.items()}
    return value


listener = subscription = None
replies, sys.stdout = sys.stdout, sys.stderr  # PyRSMQ prints to stdout when it refuses a name
for line in sys.stdin:
    try:
        reply = {"result": to_json_value(perform(json.loads(line)))}
    except Exception as error:  # noqa: BLE001 - any exception of the client is the reply
        reply = {"error": {"name": type(error).__name__, "message": str(error)}}
    replies.write(json.dumps(reply) + "\n")
    replies.flush()
