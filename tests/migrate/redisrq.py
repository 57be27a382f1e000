"""
A server that speaks RedisRQ's commands, for a module that can't be installed here.

It is not a Redis: a queue a key, in memory, RESP2, and of Redis's own commands those that a client
needs to connect and to look around. What it answers is what RedisRQ (its commit cd2145a) does on a
Redis 5, its quirks included: RECOVER does not put messages back but gives them to the caller and
moves them to the tail of what is delivered; INFO and INSPECT refuse a key that is not there, where
ACK and RECOVER answer nil and POP an empty list.
"""

from __future__ import annotations

import contextlib
import fnmatch
import socket
import threading
import time
from collections import deque
from dataclasses import dataclass, field

_WRONG_TYPE = "WRONGTYPE Operation against a key holding the wrong kind of value"
_RUN_ID = "f" * 40


class Refused(Exception):
    """An error reply."""


class Status(str):
    """A reply of one line."""

    __slots__ = ()


@dataclass
class Message:
    id: bytes
    body: bytes
    deliveries: int = 0
    delivered_ms: int = 0


@dataclass
class Queue:
    """Two lists, first in first out; a delivered message goes from the one to the other."""

    undelivered: deque[Message] = field(default_factory=deque)
    delivered: deque[Message] = field(default_factory=deque)
    last: tuple[int, int] = (0, 0)

    def next_id(self):
        ms, number = self.last
        now = now_ms()
        self.last = (now, 1) if now > ms else (ms, number + 1)
        return b"%d-%d" % self.last

    def pop(self, count):
        popped = []
        while self.undelivered and len(popped) < count:
            message = self.undelivered.popleft()
            message.deliveries += 1
            message.delivered_ms = now_ms()
            self.delivered.append(message)
            popped.append(message)
        return popped


def now_ms():
    return time.time_ns() // 1_000_000


class RedisRQ:
    """
    The server: started by making one, on a free port of loopback.

    Attributes:
        keys: what is stored: Queue, or bytes of a plain string.
    """

    def __init__(self):
        self.keys: dict[bytes, Queue | bytes] = {}
        self._lock = threading.RLock()
        self._pushed = threading.Condition(self._lock)
        self._connections: set[Connection] = set()
        self._dropped: list[tuple[str, bool]] = []
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.port = self._listener.getsockname()[1]
        self._accepts = threading.Thread(target=self._accept, daemon=True)
        self._accepts.start()

    @property
    def url(self):
        return f"redis://127.0.0.1:{self.port}/0?protocol=2"

    def close(self):
        with contextlib.suppress(OSError):
            self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()
        self._accepts.join(10)
        self.kill_connections()

    def kill_connections(self):
        """Cut all clients off; they may connect again. A message is not lost by it."""
        with self._lock:
            for connection in list(self._connections):
                connection.cut()
            self._pushed.notify_all()

    def drop_next(self, command, *, executed):
        """Cut the next client off that sends this: before it is executed, or before it is told."""
        with self._lock:
            self._dropped.append((command.upper(), executed))

    def elapse(self, key, seconds):
        """Let time pass for what is delivered."""
        with self._lock:
            for message in self.keys[key.encode()].delivered:
                message.delivered_ms -= round(seconds * 1000)

    def _accept(self):
        while True:
            try:
                client, _ = self._listener.accept()
            except OSError:
                return
            connection = Connection(self, client)
            with self._lock:
                self._connections.add(connection)
            connection.start()

    def forget(self, connection):
        with self._lock:
            self._connections.discard(connection)

    def dropped(self, command, *, executed):
        with self._lock:
            if (command, executed) in self._dropped:
                self._dropped.remove((command, executed))
                return True
        return False

    def perform(self, connection, command, args):
        """The reply: None, int, bytes, Status or a list; or Refused."""
        method = getattr(self, "do_" + command.lower().replace(".", "_"), None)
        if method is None:
            raise Refused(f"ERR unknown command `{command}`")
        with self._lock:
            try:
                return method(connection, *args)
            except (TypeError, ValueError) as error:
                raise Refused(f"ERR wrong arguments for '{command}': {error}") from None

    def _queue(self, key):
        stored = self.keys.get(key)
        if stored is not None and not isinstance(stored, Queue):
            raise Refused(_WRONG_TYPE)
        return stored

    # RedisRQ's commands.

    def do_rq_push(self, _, key, first, *more):
        queue = self._queue(key)
        if queue is None:
            queue = self.keys[key] = Queue()
        messages = [Message(queue.next_id(), body) for body in (first, *more)]
        queue.undelivered.extend(messages)
        self._pushed.notify_all()
        return [message.id for message in messages]

    def do_rq_pop(self, connection, *args):
        count, block = 1, 0
        if len(args) >= 3 and args[0].upper() == b"COUNT":
            count, args = int(args[1]), args[2:]
        if len(args) >= 3 and args[0].upper() == b"BLOCK":
            block, args = int(args[1]), args[2:]
        if count < 0 or not args:
            raise Refused("ERR usage: RQ.POP [COUNT n] [BLOCK ms] key [key ...]")
        popped = []
        for key in args:
            try:
                queue = self._queue(key)
            except Refused:
                if not popped:
                    raise
                continue
            if queue and len(popped) < count:
                popped += [[key, m.id, m.body] for m in queue.pop(count - len(popped))]
        if popped or block == 0 or count == 0:
            return popped
        return self._wait(connection, args, count, None if block < 0 else block / 1000)

    def _wait(self, connection, keys, count, seconds):
        """Up to a count from the one key that is ready first; None when the time is over."""
        deadline = None if seconds is None else time.monotonic() + seconds
        while True:
            left = 0.02 if deadline is None else min(0.02, deadline - time.monotonic())
            if left <= 0:
                return None
            self._pushed.wait(left)
            if connection.gone():
                raise ConnectionError
            for key in keys:
                queue = self.keys.get(key)
                if isinstance(queue, Queue) and queue.undelivered:
                    return [[key, m.id, m.body] for m in queue.pop(count)]

    def do_rq_ack(self, _, key, first, *more):
        queue = self._queue(key)
        if queue is None:
            return None
        removed = []
        for id in (first, *more):
            message = next((each for each in queue.delivered if each.id == id), None)
            if message is not None:
                queue.delivered.remove(message)
                removed.append(id)
        return removed

    def do_rq_recover(self, _, key, count, elapsed_ms):
        queue = self._queue(key)
        if queue is None:
            return None
        recovered, now, delivered = [], now_ms(), queue.delivered
        while delivered and len(recovered) < int(count):
            message = delivered[0]
            if now - message.delivered_ms < int(elapsed_ms):
                break
            message.deliveries += 1
            message.delivered_ms = now
            recovered.append([message.id, message.body])
            if len(delivered) == 1:
                break
            delivered.rotate(-1)
        return recovered

    def do_rq_inspect(self, _, key, *args):
        queue = self._present(key)
        pending = args[0].upper() == b"PENDING"
        start, count = map(int, args[1:] if pending else args)
        if count <= 0:
            raise Refused("ERR usage: RQ.INSPECT key [PENDING] start count")
        messages = list(queue.delivered if pending else queue.undelivered)
        if start < 0:
            start += len(messages)
        if start < 0:
            return []
        shown = messages[start : start + count]
        if not pending:
            return [[message.id, message.body] for message in shown]
        now = now_ms()
        return [[m.id, m.body, m.delivered_ms, now - m.delivered_ms, m.deliveries] for m in shown]

    def do_rq_info(self, _, key):
        queue = self._present(key)
        return [b"undelivered", len(queue.undelivered), b"delivered", len(queue.delivered)]

    def _present(self, key):
        queue = self._queue(key)
        if queue is None:
            raise Refused("ERR the key does not exist")
        return queue

    # Of Redis's own, what a client needs.

    def do_ping(self, _, *text):
        return text[0] if text else Status("PONG")

    def do_select(self, _, number):
        if int(number) != 0:
            raise Refused("ERR DB index is out of range")
        return Status("OK")

    def do_client(self, _, what, *__):
        if what.upper() == b"SETNAME":
            return Status("OK")
        raise Refused(f"ERR Unknown subcommand or wrong number of arguments for '{what!r}'")

    def do_command(self, *_):
        return []

    def do_time(self, _):
        microseconds = time.time_ns() // 1000
        return [b"%d" % (microseconds // 1_000_000), b"%d" % (microseconds % 1_000_000)]

    def do_info(self, *_):
        lines = "# Server", "redis_version:5.0.14", f"run_id:{_RUN_ID}", "redis_mode:standalone"
        return ("\r\n".join(lines) + "\r\n").encode()

    def do_keys(self, _, pattern):
        return [key for key in self.keys if fnmatch.fnmatchcase(key.decode(), pattern.decode())]

    def do_scan(self, connection, cursor, *options):
        del cursor  # one step is the whole walk
        given = {
            name.upper(): value for name, value in zip(options[::2], options[1::2], strict=True)
        }
        keys = self.do_keys(connection, given.get(b"MATCH", b"*"))
        if b"TYPE" in given:
            keys = [key for key in keys if self.do_type(connection, key).encode() == given[b"TYPE"]]
        return [b"0", keys]

    def do_type(self, _, key):
        stored = self.keys.get(key)
        if stored is None:
            return Status("none")
        return Status("RELIABLEQ" if isinstance(stored, Queue) else "string")

    def do_exists(self, _, *keys):
        return sum(key in self.keys for key in keys)

    def do_set(self, _, key, value):
        self.keys[key] = value
        return Status("OK")

    def do_del(self, _, *keys):
        return sum(self.keys.pop(key, None) is not None for key in keys)


class Connection(threading.Thread):
    """A client, in a thread of its own."""

    def __init__(self, server, client):
        super().__init__(daemon=True)
        self._server = server
        self._client = client
        self._input = client.makefile("rb")
        self._queued = None  # what comes between MULTI and EXEC

    def run(self):
        try:
            while True:
                command, *args = self._request()
                name = command.decode().upper()
                if self._server.dropped(name, executed=False):
                    return
                reply = self._reply(name, args)
                if self._server.dropped(name, executed=True):
                    return
                self._client.sendall(reply)
        except (OSError, EOFError):
            pass  # the client, or cut()
        finally:
            self._server.forget(self)
            self.cut()
            self._input.close()
            self._client.close()

    def cut(self):
        with contextlib.suppress(OSError):
            self._client.shutdown(socket.SHUT_RDWR)

    def gone(self):
        """Whether the client has left, while it waits."""
        try:
            return self._client.recv(1, socket.MSG_PEEK | socket.MSG_DONTWAIT) == b""
        except BlockingIOError:
            return False
        except OSError:
            return True

    def _request(self):
        line = self._input.readline()
        if not line.startswith(b"*"):
            raise EOFError
        return [self._bulk() for _ in range(int(line[1:]))]

    def _bulk(self):
        size = int(self._input.readline()[1:])
        return self._input.read(size + 2)[:-2]

    def _reply(self, name, args):
        if name == "MULTI":
            self._queued = []
            return encoded(Status("OK"))
        if name == "EXEC":
            queued, self._queued = self._queued or [], None
            return b"*%d\r\n" % len(queued) + b"".join(self._done(*each) for each in queued)
        if self._queued is not None:
            self._queued.append((name, args))
            return encoded(Status("QUEUED"))
        return self._done(name, args)

    def _done(self, name, args):
        try:
            return encoded(self._server.perform(self, name, args))
        except Refused as refused:
            return f"-{refused}\r\n".encode()


def encoded(reply):
    """A reply as RESP2 has it."""
    if reply is None:
        return b"$-1\r\n"
    if isinstance(reply, Status):
        return f"+{reply}\r\n".encode()
    if isinstance(reply, int):
        return b":%d\r\n" % reply
    if isinstance(reply, bytes):
        return b"$%d\r\n%b\r\n" % (len(reply), reply)
    return b"*%d\r\n" % len(reply) + b"".join(map(encoded, reply))
