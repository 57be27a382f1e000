"""
A server that implements RedisRQ's commands, because the module can't be installed here.

It is not a Redis. It stores one queue for each key, in memory, speaks RESP2, and has those
commands of Redis that a client needs to connect and to find keys. It replies as RedisRQ (commit
cd2145a) does on Redis 5, with its quirks: RECOVER does not make messages visible again, but returns
them to the caller and moves them to the tail of the delivered messages. For a missing key INFO and
INSPECT reply with an error, ACK and RECOVER with nil, POP with an empty list.
"""

from __future__ import annotations

import contextlib
import fnmatch
import socket
import threading
import time
from collections import deque
from dataclasses import dataclass, field

from rsmq.operations.scripts import load

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
    """Two lists, first in, first out: POP moves a message from `undelivered` to `delivered`."""

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
    The server: the constructor starts it, on a free port of the loopback interface.

    Attributes:
        keys: the stored values: a Queue, or the bytes of a string.
        executing: the lock that is held while a command is executed.
    """

    def __init__(self):
        self.keys: dict[bytes, Queue | bytes] = {}
        self.executing = threading.RLock()
        self._pushed = threading.Condition(self.executing)
        self._connections: set[Connection] = set()
        self._drops: list[tuple[str, bool]] = []
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.port = self._listener.getsockname()[1]
        self._accept_thread = threading.Thread(target=self._accept, daemon=True)
        self._accept_thread.start()

    @property
    def url(self):
        return f"redis://127.0.0.1:{self.port}/0?protocol=2"

    def close(self):
        with contextlib.suppress(OSError):
            self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()
        self._accept_thread.join(10)
        self.kill_connections()

    def kill_connections(self):
        """Disconnect all clients; they may connect again. This loses no message."""
        with self.executing:
            for connection in list(self._connections):
                connection.disconnect()
            self._pushed.notify_all()

    def drop_next(self, command, *, executed):
        """
        Disconnect the next client that sends this command, before it is executed or before the
        reply.
        """
        with self.executing:
            self._drops.append((command.upper(), executed))

    def advance_time(self, key, seconds):
        """Make delivered messages older by this many seconds."""
        with self.executing:
            for message in self.keys[key.encode()].delivered:
                message.delivered_ms -= round(seconds * 1000)

    def _accept(self):
        while True:
            try:
                client, _ = self._listener.accept()
            except OSError:
                return
            connection = Connection(self, client)
            with self.executing:
                self._connections.add(connection)
            connection.start()

    def remove_connection(self, connection):
        with self.executing:
            self._connections.discard(connection)

    def consume_drop(self, command, *, executed):
        with self.executing:
            if (command, executed) in self._drops:
                self._drops.remove((command, executed))
                return True
        return False

    def perform(self, connection, command, args):
        """Return the reply (None, int, bytes, Status or a list), or raise Refused."""
        method = getattr(self, "do_" + command.lower().replace(".", "_"), None)
        if method is None:
            raise Refused(f"ERR unknown command `{command}`")
        with self.executing:
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
        """Pop up to `count` messages from the first key that has some; return None on timeout."""
        deadline = None if seconds is None else time.monotonic() + seconds
        while True:
            remaining = 0.02 if deadline is None else min(0.02, deadline - time.monotonic())
            if remaining <= 0:
                return None
            self._pushed.wait(remaining)
            if connection.has_disconnected():
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
        queue = self._existing_queue(key)
        is_pending = args[0].upper() == b"PENDING"
        start, count = map(int, args[1:] if is_pending else args)
        if count <= 0:
            raise Refused("ERR usage: RQ.INSPECT key [PENDING] start count")
        messages = list(queue.delivered if is_pending else queue.undelivered)
        if start < 0:
            start += len(messages)
        if start < 0:
            return []
        selected = messages[start : start + count]
        if not is_pending:
            return [[message.id, message.body] for message in selected]
        now = now_ms()
        return [
            [m.id, m.body, m.delivered_ms, now - m.delivered_ms, m.deliveries] for m in selected
        ]

    def do_rq_info(self, _, key):
        queue = self._existing_queue(key)
        return [b"undelivered", len(queue.undelivered), b"delivered", len(queue.delivered)]

    def _existing_queue(self, key):
        queue = self._queue(key)
        if queue is None:
            raise Refused("ERR the key does not exist")
        return queue

    # Commands of Redis that a client needs.

    def do_ping(self, _, *text):
        return text[0] if text else Status("PONG")

    def do_select(self, _, number):
        if int(number) != 0:
            raise Refused("ERR DB index is out of range")
        return Status("OK")

    def do_client(self, _, subcommand, *__):
        if subcommand.upper() == b"SETNAME":
            return Status("OK")
        raise Refused(f"ERR Unknown subcommand or wrong number of arguments for '{subcommand!r}'")

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
        del cursor  # one step covers all keys
        options_by_name = {
            name.upper(): value for name, value in zip(options[::2], options[1::2], strict=True)
        }
        keys = self.do_keys(connection, options_by_name.get(b"MATCH", b"*"))
        if b"TYPE" in options_by_name:
            keys = [
                key
                for key in keys
                if self.do_type(connection, key).encode() == options_by_name[b"TYPE"]
            ]
        return [b"0", keys]

    def do_type(self, _, key):
        stored = self.keys.get(key)
        if stored is None:
            return Status("none")
        return Status("RELIABLEQ" if isinstance(stored, Queue) else "string")

    def do_exists(self, _, *keys):
        return sum(key in self.keys for key in keys)

    def do_get(self, _, key):
        return self.keys.get(key)

    def do_set(self, _, key, value, *expiry):
        del expiry  # no test runs for so long
        self.keys[key] = value
        return Status("OK")

    def do_evalsha(self, _, *args):
        raise Refused("NOSCRIPT No matching script.")

    def do_eval(self, _, script, number, lock, holder, run, lifetime):
        """Run replace_lock.lua."""
        del number, lifetime  # as in do_set
        assert script == load("replace_lock", "migrate").source
        if self.keys.get(lock, b"") not in {holder, run}:
            return 0
        self.keys[lock] = run
        return 1

    def do_del(self, _, *keys):
        return sum(self.keys.pop(key, None) is not None for key in keys)


class Connection(threading.Thread):
    """A client, in a thread of its own."""

    def __init__(self, server, client):
        super().__init__(daemon=True)
        self._server = server
        self._client = client
        self._input = client.makefile("rb")
        self._queued = None  # the commands between MULTI and EXEC

    def run(self):
        try:
            while True:
                command, *args = self._request()
                name = command.decode().upper()
                if self._server.consume_drop(name, executed=False):
                    return
                reply = self._reply(name, args)
                if self._server.consume_drop(name, executed=True):
                    return
                self._client.sendall(reply)
        except (OSError, EOFError):
            pass  # the client disconnected, or cut() was called
        finally:
            self._server.remove_connection(self)
            self.disconnect()
            self._input.close()
            self._client.close()

    def disconnect(self):
        with contextlib.suppress(OSError):
            self._client.shutdown(socket.SHUT_RDWR)

    def has_disconnected(self):
        """Return whether the client has disconnected while it waits."""
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
            return encode(Status("OK"))
        if name == "EXEC":
            queued, self._queued = self._queued or [], None
            with self._server.executing:
                return b"*%d\r\n" % len(queued) + b"".join(self._execute(*each) for each in queued)
        if self._queued is not None:
            self._queued.append((name, args))
            return encode(Status("QUEUED"))
        return self._execute(name, args)

    def _execute(self, name, args):
        try:
            return encode(self._server.perform(self, name, args))
        except Refused as refused:
            return f"-{refused}\r\n".encode()


def encode(reply):
    """Return a reply encoded as RESP2."""
    if reply is None:
        return b"$-1\r\n"
    if isinstance(reply, Status):
        return f"+{reply}\r\n".encode()
    if isinstance(reply, int):
        return b":%d\r\n" % reply
    if isinstance(reply, bytes):
        return b"$%d\r\n%b\r\n" % (len(reply), reply)
    return b"*%d\r\n" % len(reply) + b"".join(map(encode, reply))
