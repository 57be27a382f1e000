"""
A program that sends, or receives and deletes, with npm's rsmq until SIGTERM.

    python -m scripts.chaos_runner.node_client producer|consumer PORT NAMESPACE FILE RATE

Node's client deletes by the id alone. An error of it does not say whether the call has run.
"""

from __future__ import annotations

import itertools
import signal
import sys
import threading
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from types import SimpleNamespace
from typing import Any

from compat.peers import Node, Refused

from .client import QUEUE, VT_SECONDS
from .recorder import Recorder

_PAUSE_SECONDS = 0.05


class NodeCaller:
    """Calls of Node's client that are recorded, until ``stops`` is set."""

    def __init__(self, peer: Node, recorder: Recorder, stops: threading.Event) -> None:
        self._stops = stops
        self._peer = peer
        self._recorder = recorder

    def _call(
        self, op: str, call: Callable[[], Any], result: Callable[[Any], dict[str, Any]]
    ) -> Any:
        try:
            reply = call()
        except Refused as error:
            self._recorder.end(op, "unknown", error=str(error))
            if "NOSCRIPT" in error.text:
                self._peer.close_clients(self._peer.ns)  # the next one loads the scripts
            time.sleep(_PAUSE_SECONDS)
            return None
        self._recorder.end(op, **result(reply))
        return reply

    def produce(self, name: str, rate: float) -> None:
        """Send messages."""
        for number in itertools.count():
            if self._stops.is_set():
                return
            begin, body = time.monotonic(), f"{name}-{number}"
            op = self._recorder.begin("send", body=body)
            self._call(op, partial(self._peer.send_message, QUEUE, body), lambda id: {"id": id})
            time.sleep(max(0.0, begin + 1 / rate - time.monotonic()))

    def consume(self) -> None:
        """Receive and delete messages."""
        while not self._stops.is_set():
            op = self._recorder.begin("receive", vt=VT_SECONDS, ignores_expiry=True)
            message = self._call(
                op, partial(self._peer.receive_message, QUEUE, vt=VT_SECONDS), _received
            )
            if message is None:
                time.sleep(_PAUSE_SECONDS)
                continue
            op = self._recorder.begin("delete", id=message["id"], count=None)
            self._call(
                op,
                partial(self._peer.delete_message, QUEUE, message["id"]),
                lambda is_done: {"done": is_done},
            )


def _received(message: dict[str, Any] | None) -> dict[str, Any]:
    if message is None:
        return {"id": None}
    return {"id": message["id"], "body": message["message"], "count": message["rc"]}


def main(role: str, port: str, ns: str, path: str, rate: str) -> None:
    """Run until SIGTERM."""
    peer = Node(SimpleNamespace(port=int(port)), ns)
    stops = threading.Event()
    signal.signal(signal.SIGTERM, lambda *_: stops.set())  # before the file says that it is ready
    caller = NodeCaller(peer, Recorder(Path(path)), stops)
    if role == "consumer":
        caller.consume()
    else:
        caller.produce(Path(path).stem, float(rate))
    peer.close()


if __name__ == "__main__":
    main(*sys.argv[1:])
