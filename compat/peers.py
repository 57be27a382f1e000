"""
The clients that the suite sets against each other, behind one face.

A client of the suite has the operations of the wire under their names in Python, and answers in
one vocabulary, whatever its own is: an id, a bool, a dict under Node's names, or None for no
message; a refusal is ``Refused`` with Node's name of the error. What can't be translated is a
quirk of the client: it stands in its class, a test of test_pairs.py or test_quirks.py shows it,
and the matrix prints it.
"""

from __future__ import annotations

import base64
import json
import subprocess
import sys
from abc import ABC, abstractmethod
from contextlib import contextmanager
from pathlib import Path
from typing import Any, ClassVar

from rsmq import BYTES, RSMQ, RSMQError

HERE = Path(__file__).parent
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
#: What this library adds, where another client can see its effect.
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
    "wait=",
)


class Refused(Exception):
    """The client refused the call: Node's name of the error, and the client's own text."""

    def __init__(self, name: str, text: str) -> None:
        super().__init__(f"{name}: {text}")
        self.name = name
        self.text = text


class Foreign(ABC):
    """
    A foreign client in a process of its own, asked over its standard input and output.

    Attributes:
        name: how tests and the matrix call it.
        lacks: the operations that it does not have.
        quirks: operation to what it does otherwise than Node 0.12.4.
    """

    name: ClassVar[str]
    lacks: ClassVar[frozenset[str]] = frozenset()
    quirks: ClassVar[dict[str, str]] = {}
    #: Whether the client sends an empty body.
    takes_empty: ClassVar[bool] = True

    def __init__(self, server: Any, ns: str) -> None:
        self.server = server
        self.ns = ns
        self._process = subprocess.Popen(
            self.command(server.port), stdin=subprocess.PIPE, stdout=subprocess.PIPE
        )
        self.version = self.ask("version")

    @abstractmethod
    def command(self, port: int) -> list[str]:
        """How to start it."""

    def ask(self, op: str, *, realtime: bool = False, ns: str | None = None, **args: Any) -> Any:
        """The client's own answer."""
        return self.send({"op": op, "args": args, "ns": ns or self.ns, "realtime": realtime})

    def send(self, request: dict[str, Any]) -> Any:
        """The client's own answer to a request as it stands."""
        self._process.stdin.write(json.dumps(request).encode() + b"\n")
        self._process.stdin.flush()
        return self.hear()

    def hear(self) -> Any:
        line = self._process.stdout.readline()
        assert line, f"{self.name} has died; its error output is above"
        answer = json.loads(line)
        if "error" in answer:
            raise self.refused(**answer["error"])
        return _unpacked(answer["result"])

    def refused(self, name: str, message: str) -> Refused:
        return Refused(name, message)

    def forget(self, ns: str) -> None:
        """Close what the client holds open for a namespace."""
        self.ask("forget", ns=ns)

    def close(self) -> None:
        self._process.stdin.close()
        self._process.wait(timeout=10)
        self._process.stdout.close()

    # The operations, as Node answers them.

    def create_queue(self, qname: str, **attributes: Any) -> bool:
        return self.ask("createQueue", qname=qname, **attributes) in (1, True)

    def list_queues(self) -> list[str]:
        return sorted(self.ask("listQueues"))

    def get_queue_attributes(self, qname: str) -> dict[str, Any]:
        return self.ask("getQueueAttributes", qname=qname)

    def set_queue_attributes(self, qname: str, **attributes: Any) -> dict[str, Any]:
        return self.ask("setQueueAttributes", qname=qname, **attributes)

    def delete_queue(self, qname: str) -> None:
        self.ask("deleteQueue", qname=qname)

    def send_message(
        self, qname: str, message: str, *, realtime: bool = False, **delay: Any
    ) -> str:
        return self.ask("sendMessage", realtime=realtime, qname=qname, message=message, **delay)

    def receive_message(self, qname: str, **vt: Any) -> dict[str, Any] | None:
        return self.message(self.ask("receiveMessage", qname=qname, **vt))

    def pop_message(self, qname: str) -> dict[str, Any] | None:
        return self.message(self.ask("popMessage", qname=qname))

    def change_message_visibility(self, qname: str, id: str, vt: Any) -> bool:
        return bool(self.ask("changeMessageVisibility", qname=qname, id=id, vt=vt))

    def delete_message(self, qname: str, id: str) -> bool:
        return bool(self.ask("deleteMessage", qname=qname, id=id))

    def message(self, answer: Any) -> dict[str, Any] | None:
        return answer or None

    @contextmanager
    def listening(self, channel: str) -> Any:
        """Within the block the client listens to a channel; the list fills when it ends."""
        heard: list[tuple[str, str]] = []
        self.ask("subscribe", channel=channel)
        self._listened(channel)
        yield heard
        heard.extend(map(tuple, self.ask("heard")))

    def _listened(self, channel: str) -> None:
        with self.server.raw() as raw:
            while not raw.execute_command("PUBSUB", "NUMSUB", channel)[1]:
                pass


class Node(Foreign):
    """npm rsmq, the reference."""

    name = "Node 0.12.4"
    package = "rsmq"

    def command(self, port: int) -> list[str]:
        return ["node", str(HERE / "node" / "peer.js"), self.package, str(port)]


class OldNode(Node):
    """The line that rsmq-worker, rsmq-cli and rest-rsmq pull in."""

    name = "Node 0.7.2"
    package = "rsmq-0.7"
    lacks = frozenset({"realtime"})
    quirks: ClassVar = {
        "createQueue": "refuses maxsize -1",
        "setQueueAttributes": "refuses maxsize -1; never updates modified",
        "sendMessage": "refuses every message for a queue with maxsize -1",
        "receiveMessage": "sent is cut to whole milliseconds",
        "popMessage": "sent is cut to whole milliseconds",
    }


class Php(Foreign):
    """eislambey/rsmq, or php/client.php where that can't be installed."""

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
    def real(self) -> bool:
        """Whether eislambey/rsmq runs, and not our peer in its place."""
        return self.version is not None

    def command(self, port: int) -> list[str]:
        return ["php", str(HERE / "php" / "peer.php"), str(port)]

    def refused(self, name: str, message: str) -> Refused:
        known = "invalidValue" if "must be between" in message else name
        return Refused(self._NAMES.get(message, known), message)

    def message(self, answer: Any) -> dict[str, Any] | None:
        return {**answer, "fr": int(answer["fr"])} if answer else None

    @contextmanager
    def listening(self, channel: str) -> Any:
        heard: list[tuple[str, str]] = []
        self.ask("listen", channel=channel)
        self._listened(channel)
        yield heard
        heard.extend(map(tuple, self.hear()))


class PyRSMQ(Foreign):
    """PyRSMQ in an environment of its own."""

    name = "PyRSMQ 0.6.1"
    module = "rsmq"
    takes_empty = False
    lacks = frozenset({"realtime"})
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
        python = HERE / "pyrsmq" / ".venv" / "bin" / "python"
        return [str(python), str(HERE / "pyrsmq" / "peer.py"), self.module, str(port)]

    def refused(self, name: str, message: str) -> Refused:
        return Refused(self._NAMES.get(name, name), message)

    def get_queue_attributes(self, qname: str) -> dict[str, Any]:
        return _whole(super().get_queue_attributes(qname))

    def set_queue_attributes(self, qname: str, **attributes: Any) -> dict[str, Any]:
        return _whole(super().set_queue_attributes(qname, **attributes))

    def receive_message(self, qname: str, **vt: Any) -> dict[str, Any] | None:
        return self._or(None, super().receive_message, qname, **vt)

    def pop_message(self, qname: str) -> dict[str, Any] | None:
        return self._or(None, super().pop_message, qname)

    def change_message_visibility(self, qname: str, id: str, vt: Any) -> bool:
        return self._or(False, super().change_message_visibility, qname, id, vt)

    def delete_message(self, qname: str, id: str) -> bool:
        # Its answer tells whether the message had been received; that it went, the keys tell.
        self.ask("deleteMessage", qname=qname, id=id)
        with self.server.raw() as raw:
            return raw.zscore(f"{self.ns}:{qname}", id) is None

    def message(self, answer: Any) -> dict[str, Any] | None:
        return {**answer, "fr": answer["ts"]}

    @staticmethod
    def _or(nothing: Any, call: Any, *args: Any, **options: Any) -> Any:
        try:
            return call(*args, **options)
        except Refused as refused:
            if refused.name == "NoMessageInQueue":
                return nothing
            raise


class Shim(PyRSMQ):
    """``rsmq.pyrsmq``, through the same program as the real one."""

    name = "rsmq.pyrsmq"
    module = "rsmq.pyrsmq"
    takes_empty = True
    lacks = frozenset()
    quirks: ClassVar = {
        "sendMessage": "maxsize is not enforced",
        "receiveMessage": "raises when nothing is due; no sent",
        "popMessage": "raises when nothing is due; no sent",
        "changeMessageVisibility": "raises for an unknown id",
    }

    def command(self, port: int) -> list[str]:
        return [sys.executable, str(HERE / "pyrsmq" / "peer.py"), self.module, str(port)]

    def delete_message(self, qname: str, id: str) -> bool:
        return bool(self.ask("deleteMessage", qname=qname, id=id))


class Ours:
    """This library, under the same face."""

    name = "rsmq"
    takes_empty = True

    def __init__(self, server: Any, ns: str) -> None:
        self.server = server
        self.ns = ns
        self._clients: dict[Any, RSMQ] = {}

    def client(self, *, realtime: bool = False) -> RSMQ:
        if (self.ns, realtime) not in self._clients:
            made = RSMQ.from_url(self.server.url, ns=self.ns, realtime=realtime)
            self._clients[self.ns, realtime] = made
        return self._clients[self.ns, realtime]

    def forget(self, ns: str) -> None:
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
            raise Refused(error.code, str(error)) from error

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
        heard: list[tuple[str, str]] = []
        with self.server.raw() as raw, raw.pubsub() as subscription:
            subscription.psubscribe(channel)
            subscription.get_message(timeout=5)
            yield heard
            while message := subscription.get_message(timeout=0.2):
                heard.append((message["channel"].decode(), message["data"].decode()))


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


def _whole(attributes: dict[str, Any]) -> dict[str, Any]:
    """PyRSMQ gives vt and delay as floats; 30.0 is 30."""
    return {
        name: int(value) if isinstance(value, float) and value.is_integer() else value
        for name, value in attributes.items()
    }


def _unpacked(value: Any) -> Any:
    if isinstance(value, dict):
        if set(value) == {"$b64"}:
            return base64.b64decode(value["$b64"])
        return {name: _unpacked(item) for name, item in value.items()}
    return value


PEERS: tuple[type[Foreign], ...] = (Node, OldNode, Php, PyRSMQ, Shim)
