"""
The clients that the suite compares, with a common interface.

A client of the suite has the operations of the protocol under their Python names. It returns an id,
a bool, a dict with Node's names, or None for no message, whatever the client itself returns. An
error is ``Refused`` with Node's name of the error. A difference that can't be translated is a quirk
of the client: its class lists it, a test in test_pairs.py or test_quirks.py shows it, and the
matrix prints it.
"""

from __future__ import annotations

import base64
import json
import os
import subprocess
import sys
from abc import ABC, abstractmethod
from contextlib import contextmanager
from pathlib import Path
from typing import Any, ClassVar

from rsmq import BYTES, RSMQ, RSMQError

FOLDER = Path(__file__).parent
OPERATIONS = (
    "createQueue",
    "listQueues",
    "getQueueAttributes",
    "setQueueAttributes",
    "deleteQueue",
    "sendMessage",
    "receiveMessage",
    "popMessage",
    "changeMessageVisibility",
    "deleteMessage",
    "realtime",
)
#: Features of this library whose effect another client can see.
FEATURES = (
    "send_messages",
    "front=",
    "receive_messages",
    "several queues",
    "pop_messages",
    "delete_messages",
    "change_messages_visibility",
    "receipts of a batch",
    "release_messages",
    "release_all_messages",
    "recover_messages",
    "peek_messages",
    "count_messages",
    "set_dead_letter_policy",
    "dead letters by receive",
    "sweep_dead_letters",
    "redrive_messages",
    "move_messages",
    "dedup_id=",
    "unique_key=",
    "keep=",
    "expires= and max_retries=",
    "set_queue_limits",
    "wait=",
)


class Refused(Exception):
    """An error of a client: Node's name of the error, and the client's own text."""

    def __init__(self, name: str, text: str) -> None:
        super().__init__(f"{name}: {text}")
        self.name = name
        self.text = text


class Foreign(ABC):
    """
    A foreign client in a process of its own, controlled over its standard input and output.

    Attributes:
        name: its name in tests and in the matrix.
        missing_operations: the operations that it does not have.
        quirks: for each operation its difference from Node 0.12.4.
    """

    name: ClassVar[str]
    missing_operations: ClassVar[frozenset[str]] = frozenset()
    quirks: ClassVar[dict[str, str]] = {}
    #: Whether the client sends an empty body.
    sends_empty_bodies: ClassVar[bool] = True

    def __init__(self, server: Any, ns: str) -> None:
        self.server = server
        self.ns = ns
        self._process = subprocess.Popen(
            self.command(server.port), stdin=subprocess.PIPE, stdout=subprocess.PIPE
        )
        self.version = self.request("version")

    @abstractmethod
    def command(self, port: int) -> list[str]:
        """Return the command that starts the client."""

    def request(
        self, op: str, *, realtime: bool = False, ns: str | None = None, **args: Any
    ) -> Any:
        """Return the client's own result of an operation."""
        return self.send({"op": op, "args": args, "ns": ns or self.ns, "realtime": realtime})

    def send(self, request: dict[str, Any]) -> Any:
        """Return the client's own result of a request, which is sent unchanged."""
        self._process.stdin.write(json.dumps(request).encode() + b"\n")
        self._process.stdin.flush()
        return self.read_reply()

    def read_reply(self) -> Any:
        line = self._process.stdout.readline()
        assert line, f"{self.name} has died; its error output is above"
        reply = json.loads(line)
        if "error" in reply:
            raise self.translate_error(**reply["error"])
        return _decode(reply["result"])

    def translate_error(self, name: str, message: str) -> Refused:
        return Refused(name, message)

    def close_clients(self, ns: str) -> None:
        """Close the client's connections for a namespace."""
        self.request("forget", ns=ns)

    def close(self) -> None:
        self._process.stdin.close()
        self._process.wait(timeout=10)
        self._process.stdout.close()

    # The operations, with results as Node's.

    def create_queue(self, qname: str, **attributes: Any) -> bool:
        return self.request("createQueue", qname=qname, **attributes) in (1, True)

    def list_queues(self) -> list[str]:
        return sorted(self.request("listQueues"))

    def get_queue_attributes(self, qname: str) -> dict[str, Any]:
        return self.request("getQueueAttributes", qname=qname)

    def set_queue_attributes(self, qname: str, **attributes: Any) -> dict[str, Any]:
        return self.request("setQueueAttributes", qname=qname, **attributes)

    def delete_queue(self, qname: str) -> None:
        self.request("deleteQueue", qname=qname)

    def send_message(
        self, qname: str, message: str, *, realtime: bool = False, **delay: Any
    ) -> str:
        return self.request("sendMessage", realtime=realtime, qname=qname, message=message, **delay)

    def receive_message(self, qname: str, **vt: Any) -> dict[str, Any] | None:
        return self.translate_message(self.request("receiveMessage", qname=qname, **vt))

    def pop_message(self, qname: str) -> dict[str, Any] | None:
        return self.translate_message(self.request("popMessage", qname=qname))

    def change_message_visibility(self, qname: str, id: str, vt: Any) -> bool:
        return bool(self.request("changeMessageVisibility", qname=qname, id=id, vt=vt))

    def delete_message(self, qname: str, id: str) -> bool:
        return bool(self.request("deleteMessage", qname=qname, id=id))

    def translate_message(self, result: Any) -> dict[str, Any] | None:
        return result or None

    @contextmanager
    def listening(self, channel: str) -> Any:
        """Subscribe to a channel within the block; the yielded list is filled at the end."""
        received: list[tuple[str, str]] = []
        self.request("subscribe", channel=channel)
        self._wait_for_subscription(channel)
        yield received
        received.extend(map(tuple, self.request("heard")))

    def _wait_for_subscription(self, channel: str) -> None:
        with self.server.raw() as raw:
            while not raw.execute_command("PUBSUB", "NUMSUB", channel)[1]:
                pass


class Node(Foreign):
    """npm rsmq, the reference."""

    name = "Node 0.12.4"
    #: ``scripts/track-node`` has a newer one in a folder.
    package = os.environ.get("RSMQ_NODE_PACKAGE", "rsmq")

    def command(self, port: int) -> list[str]:
        return ["node", str(FOLDER / "node" / "peer.js"), self.package, str(port)]


class OldNode(Node):
    """The version that rsmq-worker, rsmq-cli and rest-rsmq depend on."""

    name = "Node 0.7.2"
    package = "rsmq-0.7"
    missing_operations = frozenset({"realtime"})
    quirks: ClassVar = {
        "createQueue": "refuses maxsize -1",
        "setQueueAttributes": "refuses maxsize -1; never updates modified",
        "sendMessage": "refuses every message for a queue with maxsize -1",
        "receiveMessage": "sent is cut to whole milliseconds",
        "popMessage": "sent is cut to whole milliseconds",
    }


class Php(Foreign):
    """eislambey/rsmq, or php/client.php if that can't be installed."""

    name = "PHP 0.1.0"
    quirks: ClassVar = {
        "createQueue": "refuses maxsize -1",
        "setQueueAttributes": "refuses maxsize -1",
        "getQueueAttributes": "hiddenmsgs is always 0",
        "sendMessage": "counts maxsize in code points",
        "receiveMessage": "fr is text",
        "popMessage": "fr is text",
        "realtime": "publishes on rt:$q",
    }
    _NAMES: ClassVar = {
        "Queue not found.": "queueNotFound",
        "Queue already exists.": "queueExists",
        "Message too long": "messageTooLong",
        "Invalid queue name": "invalidFormat",
        "Invalid message id": "invalidFormat",
    }

    @property
    def is_original(self) -> bool:
        """Return whether eislambey/rsmq runs, not our replacement."""
        return self.version is not None

    def command(self, port: int) -> list[str]:
        return ["php", str(FOLDER / "php" / "peer.php"), str(port)]

    def translate_error(self, name: str, message: str) -> Refused:
        translated = "invalidValue" if "must be between" in message else name
        return Refused(self._NAMES.get(message, translated), message)

    def translate_message(self, result: Any) -> dict[str, Any] | None:
        return {**result, "fr": int(result["fr"])} if result else None

    @contextmanager
    def listening(self, channel: str) -> Any:
        received: list[tuple[str, str]] = []
        self.request("listen", channel=channel)
        self._wait_for_subscription(channel)
        yield received
        received.extend(map(tuple, self.read_reply()))


class PyRSMQ(Foreign):
    """PyRSMQ in an environment of its own."""

    name = "PyRSMQ 0.6.1"
    module = "rsmq"
    sends_empty_bodies = False
    missing_operations = frozenset({"realtime"})
    quirks: ClassVar = {
        "createQueue": "maxsize is 65565 by default",
        "setQueueAttributes": "makes a hash of a queue that does not exist",
        "sendMessage": "refuses an empty body (False); maxsize is not enforced",
        "receiveMessage": "raises when nothing is due; no sent",
        "popMessage": "raises when nothing is due; no sent",
        "changeMessageVisibility": "raises for an unknown id",
        "deleteMessage": "False for a deleted message that was never received",
    }
    _NAMES: ClassVar = {
        "QueueDoesNotExist": "queueNotFound",
        "QueueAlreadyExists": "queueExists",
        "InvalidParameterValue": "invalidValue",
    }

    def command(self, port: int) -> list[str]:
        python = FOLDER / "pyrsmq" / ".venv" / "bin" / "python"
        return [str(python), str(FOLDER / "pyrsmq" / "peer.py"), self.module, str(port)]

    def translate_error(self, name: str, message: str) -> Refused:
        return Refused(self._NAMES.get(name, name), message)

    def get_queue_attributes(self, qname: str) -> dict[str, Any]:
        return _to_whole_numbers(super().get_queue_attributes(qname))

    def set_queue_attributes(self, qname: str, **attributes: Any) -> dict[str, Any]:
        return _to_whole_numbers(super().set_queue_attributes(qname, **attributes))

    def receive_message(self, qname: str, **vt: Any) -> dict[str, Any] | None:
        return self._call_or(None, super().receive_message, qname, **vt)

    def pop_message(self, qname: str) -> dict[str, Any] | None:
        return self._call_or(None, super().pop_message, qname)

    def change_message_visibility(self, qname: str, id: str, vt: Any) -> bool:
        return self._call_or(False, super().change_message_visibility, qname, id, vt)

    def delete_message(self, qname: str, id: str) -> bool:
        # The result is whether the message had been received; the keys show whether it was deleted.
        self.request("deleteMessage", qname=qname, id=id)
        with self.server.raw() as raw:
            return raw.zscore(f"{self.ns}:{qname}", id) is None

    def translate_message(self, result: Any) -> dict[str, Any] | None:
        return {**result, "fr": result["ts"]}

    @staticmethod
    def _call_or(default: Any, call: Any, *args: Any, **options: Any) -> Any:
        try:
            return call(*args, **options)
        except Refused as refused:
            if refused.name == "NoMessageInQueue":
                return default
            raise


class Shim(PyRSMQ):
    """``rsmq.pyrsmq``, run by the same program as the original."""

    name = "rsmq.pyrsmq"
    module = "rsmq.pyrsmq"
    sends_empty_bodies = True
    missing_operations = frozenset()
    quirks: ClassVar = {
        "sendMessage": "maxsize is not enforced",
        "receiveMessage": "raises when nothing is due; no sent",
        "popMessage": "raises when nothing is due; no sent",
        "changeMessageVisibility": "raises for an unknown id",
    }

    def command(self, port: int) -> list[str]:
        return [sys.executable, str(FOLDER / "pyrsmq" / "peer.py"), self.module, str(port)]

    def delete_message(self, qname: str, id: str) -> bool:
        return bool(self.request("deleteMessage", qname=qname, id=id))


class Ours:
    """This library, with the same interface."""

    name = "rsmq"
    sends_empty_bodies = True

    def __init__(self, server: Any, ns: str) -> None:
        self.server = server
        self.ns = ns
        self._clients: dict[Any, RSMQ] = {}

    def client(self, *, realtime: bool = False) -> RSMQ:
        if (self.ns, realtime) not in self._clients:
            client = RSMQ.from_url(self.server.url, ns=self.ns, realtime=realtime)
            self._clients[self.ns, realtime] = client
        return self._clients[self.ns, realtime]

    def close_clients(self, ns: str) -> None:
        for realtime in (False, True):
            client = self._clients.pop((ns, realtime), None)
            if client is not None:
                client.close()

    def close(self) -> None:
        for client in self._clients.values():
            client.close()

    def _call(self, method: str, *args: Any, realtime: bool = False, **options: Any) -> Any:
        try:
            return getattr(self.client(realtime=realtime), method)(*args, **options)
        except RSMQError as error:
            raise Refused(error.code, error.text) from error

    def create_queue(self, qname: str, **attributes: Any) -> bool:
        return self._call("create_queue", qname, **attributes)

    def list_queues(self) -> list[str]:
        return self._call("list_queues")

    def get_queue_attributes(self, qname: str) -> dict[str, Any]:
        return _attributes(self._call("get_queue_attributes", qname))

    def set_queue_attributes(self, qname: str, **attributes: Any) -> dict[str, Any]:
        return _attributes(self._call("set_queue_attributes", qname, **attributes))

    def delete_queue(self, qname: str) -> None:
        self._call("delete_queue", qname)

    def send_message(
        self, qname: str, message: str | bytes, *, realtime: bool = False, **delay: Any
    ) -> str:
        codec = {"codec": BYTES} if isinstance(message, bytes) else {}
        return self._call("send_message", qname, message, realtime=realtime, **codec, **delay)

    def receive_message(self, qname: str, **vt: Any) -> dict[str, Any] | None:
        return _message(self._call("receive_message", qname, **vt))

    def pop_message(self, qname: str) -> dict[str, Any] | None:
        return _message(self._call("pop_message", qname))

    def change_message_visibility(self, qname: str, id: str, vt: Any) -> bool:
        return self._call("change_message_visibility", qname, id, vt)

    def delete_message(self, qname: str, id: str) -> bool:
        return self._call("delete_message", qname, id)

    @contextmanager
    def listening(self, channel: str) -> Any:
        received: list[tuple[str, str]] = []
        with self.server.raw() as raw, raw.pubsub() as subscription:
            subscription.psubscribe(channel)
            subscription.get_message(timeout=5)
            yield received
            while message := subscription.get_message(timeout=0.2):
                received.append((message["channel"].decode(), message["data"].decode()))


def _message(message: Any) -> dict[str, Any] | None:
    if message is None:
        return None
    return {
        "id": message.id,
        "message": message.body,
        "rc": message.receive_count,
        "fr": message.first_received_ms,
        "sent": message.sent_ms,
    }


def _attributes(attributes: Any) -> dict[str, Any]:
    return {
        "vt": attributes.vt,
        "delay": attributes.delay,
        "maxsize": attributes.maxsize,
        "totalrecv": attributes.total_received,
        "totalsent": attributes.total_sent,
        "created": _seconds(attributes.created),
        "modified": _seconds(attributes.modified),
        "msgs": attributes.messages,
        "hiddenmsgs": attributes.hidden_messages,
    }


def _seconds(moment: Any) -> int | None:
    return None if moment is None else int(moment.timestamp())


def _to_whole_numbers(attributes: dict[str, Any]) -> dict[str, Any]:
    """Convert PyRSMQ's float vt and delay: 30.0 becomes 30."""
    return {
        name: int(value) if isinstance(value, float) and value.is_integer() else value
        for name, value in attributes.items()
    }


def _decode(value: Any) -> Any:
    if isinstance(value, dict):
        if set(value) == {"$b64"}:
            return base64.b64decode(value["$b64"])
        return {name: _decode(item) for name, item in value.items()}
    return value


PEERS: tuple[type[Foreign], ...] = (Node, OldNode, Php, PyRSMQ, Shim)
