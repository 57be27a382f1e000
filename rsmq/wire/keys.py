"""
The Redis keys of namespaces and queues.

Source: npm rsmq 0.12.4, index.js, for the keys without ``x:``. Keys with ``x:`` are extension data.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field, fields
from enum import Enum
from functools import lru_cache
from typing import ClassVar

from rsmq.errors import InvalidFormat, MissingParameter, show
from rsmq.errors.hints import Hint, Method, Passed
from rsmq.wire.names import NOT_ENCODABLE, decode_name, encode_name, is_encodable

#: The default namespace.
DEFAULT_NS = "rsmq"

#: The index of queues has the key that a queue of this name would have, so no queue may have it.
RESERVED_NAME = "QUEUES"

_HASH_SUFFIX = ":Q"
_EXTENSION = ":x:"

_ASIDE_PREFIX = "x:aside:"
_JOB_INFIX = b":x:job:"
_FLOW_INFIX = b":x:flow:"
_BODY_INFIX = b":x:body:"
_LOCK_SUFFIX = ":held"

#: The field that names the target queue, in a hash of messages that were set aside.
TARGET_FIELD = b""

#: The field of the time when a copy was opened, in the record of copies.
COPY_BEGUN_FIELD = b"begun"

_NAME = re.compile(r"[a-zA-Z0-9_-]{1,160}")
_NAME_RULE = "A queue name has 1 to 160 characters of A-Z a-z 0-9 _ -"
_WORKER_RULE = "A worker's name has 1 to 160 characters of A-Z a-z 0-9 _ -"


#: Marks extension data whose fields are ids of messages.
_BY_ID = {"by_id": True}
#: Marks extension data that a purge keeps.
_OF_QUEUE = {"of_queue": True}


@dataclass(frozen=True, slots=True)
class QueueKeys:
    """
    The Redis keys of one queue, and its notification channel.

    The attributes behind ``namespace`` are extension data, which is deleted together with the
    queue. Their keys end with their names, but for ``quarantined``.

    Attributes:
        zset: the sorted set of message ids.
        hash: the attributes, bodies and counters.
        channel: the channel to which a send with realtime publishes.
        namespace: the first part of all keys.
        dedup: of sends with a dedup_id: the id of each message by its dedup_id.
        leases: of streams: the receipts of the batches in flight.
        staged: of writes in two steps: messages that are not sent yet.
        reasons: of workers: why messages were moved to this dead-letter queue.
        quarantined: of workers: the quarantine records of messages that were not settled.
        unbegun: of workers: the receives of messages that are no attempts.
        retrying: of workers: the errors of messages that wait for a retry.
        copied: of migrations: digests of the messages that were copied.
        unique: of sends with a unique_key: the id of the message that has each key.
        finished: of workers: which handlers of a message have finished.
        locks: of workers: the receipt of the message that has each lock.
        limits: of sends with max_retries or expires: the limits of each message.
        group_of: of sends with a group: when each message is due, and its group.
        admitted, held_back: of sends with a group: the messages of each group, one of which is
            admitted.
        running: of queues with limits: what of them is used.
        rates: of sends with a rate: when the next message of each key is due.
        history: of recorders: what has happened in each minute and hour.
        calls: of workers: figures of the calls of each task, since the first one.
        call_times: of workers: the same of the last minutes, hours and days.
    """

    name: str
    zset: bytes
    hash: bytes
    channel: bytes
    namespace: bytes
    dedup: bytes
    leases: bytes
    staged: bytes
    reasons: bytes = field(metadata=_BY_ID)
    quarantined: bytes = field(metadata=_BY_ID)
    unbegun: bytes = field(metadata=_BY_ID)
    retrying: bytes = field(metadata=_BY_ID)
    copied: bytes
    unique: bytes
    finished: bytes = field(metadata=_BY_ID)
    locks: bytes
    limits: bytes = field(metadata=_BY_ID)
    group_of: bytes = field(metadata=_BY_ID)
    admitted: bytes
    held_back: bytes
    running: bytes
    rates: bytes
    history: bytes = field(metadata=_OF_QUEUE)
    calls: bytes = field(metadata=_OF_QUEUE)
    call_times: bytes = field(metadata=_OF_QUEUE)

    @property
    def extensions(self) -> tuple[bytes, ...]:
        """All keys of extension data, which are deleted together with the queue."""
        return tuple(getattr(self, each.name) for each in _EXTENSION_FIELDS)

    @property
    def extensions_of_messages(self) -> tuple[bytes, ...]:
        """The keys of extension data that are deleted when a queue is purged."""
        found = (each.name for each in _EXTENSION_FIELDS if "of_queue" not in each.metadata)
        return tuple(getattr(self, name) for name in found)

    @property
    def extensions_by_id(self) -> tuple[bytes, ...]:
        """Those keys of extension data whose fields are ids of messages."""
        found = (each.name for each in _EXTENSION_FIELDS if "by_id" in each.metadata)
        return tuple(getattr(self, name) for name in found)

    def short_name(self, key: bytes) -> str:
        """Return the name of a key of this queue among its keys, as in hash, zset and dedup."""
        if key in {self.hash, self.zset}:
            return "hash" if key == self.hash else "zset"
        return decode_name(key[len(self.zset) + len(_EXTENSION) :])

    def job(self, id: str) -> bytes:
        """Return the key of the record of a tracked message, which has a time to live."""
        return job_key(self.zset, encode_name(id))


_EXTENSION_FIELDS = fields(QueueKeys)[5:]


class _NamespaceKey:
    """The key ``NS:x:NAME`` of extension data of a namespace, an attribute of ``Namespace``."""

    def __init__(self, name: str) -> None:
        self._suffix = encode_name(f"{_EXTENSION}{name}")

    def __get__(self, namespace: Namespace, _: type) -> bytes:
        return encode_name(namespace.name) + self._suffix


@dataclass(frozen=True, slots=True)
class Namespace:
    """
    The Redis keys of one namespace.

    Attributes:
        name: the prefix that all its keys share, without the colon.
        strict_names: True allows only queue names that the Node client allows; False also allows
            the names that other clients allow.
    """

    name: str = DEFAULT_NS
    strict_names: bool = True

    def __post_init__(self) -> None:
        if self.name is None or self.name == "":
            raise MissingParameter("ns", value=self.name, hint="The default is 'rsmq'.")
        if not isinstance(self.name, str):
            raise InvalidFormat("ns", value=self.name, hint="A namespace is a str.")
        if not is_encodable(self.name):
            raise InvalidFormat("ns", value=self.name, hint=NOT_ENCODABLE)

    @property
    def queues(self) -> bytes:
        """The index of queues: the set of their names."""
        return encode_name(f"{self.name}:{RESERVED_NAME}")

    #: Extension data of writes in two steps: which of them were published or dropped.
    written: ClassVar[_NamespaceKey] = _NamespaceKey("written")

    #: Extension data of streams: the last acknowledged batch of each query.
    acknowledged: ClassVar[_NamespaceKey] = _NamespaceKey("acked")

    #: Extension data of streams: those that read queues now, by the name of the query.
    streams: ClassVar[_NamespaceKey] = _NamespaceKey("streams")

    #: Extension data of workers: the workers that are alive, by name.
    workers: ClassVar[_NamespaceKey] = _NamespaceKey("workers")

    #: Extension data of webhooks: the state of each target.
    push_targets: ClassVar[_NamespaceKey] = _NamespaceKey("push")

    #: Extension data of webhooks: the subscribers of queues.
    subscribers: ClassVar[_NamespaceKey] = _NamespaceKey("subscribers")

    #: Extension data of alerts: targets, silences, and what was announced of which alert.
    alerts: ClassVar[_NamespaceKey] = _NamespaceKey("alerts")

    #: Extension data of HTTP: a stream of the calls that change or remove something.
    audit: ClassVar[_NamespaceKey] = _NamespaceKey("audit")

    #: Extension data of HTTP: a sorted set of the sessions that have ended by a log out.
    ended_sessions: ClassVar[_NamespaceKey] = _NamespaceKey("ended_sessions")

    #: Extension data of HTTP: the random key that signs receipt handles of SQS.
    sqs_key: ClassVar[_NamespaceKey] = _NamespaceKey("sqs_key")

    #: Extension data of HTTP: a sorted set of the ids of operations of many messages.
    operations: ClassVar[_NamespaceKey] = _NamespaceKey("operations")

    def operation(self, id: str) -> bytes:
        """Return the key of the record of an operation of many messages."""
        return encode_name(f"{self.name}:x:operation:{id}")

    #: Extension data of HTTP: selections of messages that were shown to someone.
    selections: ClassVar[_NamespaceKey] = _NamespaceKey("selections")

    #: Extension data of deletions that can be undone: what was deleted, by the id of each.
    trash: ClassVar[_NamespaceKey] = _NamespaceKey("trash")

    def in_trash(self, id: str, name: str) -> bytes:
        """Return the key that keeps what a deletion has removed from the key with this name."""
        return self.trash + encode_name(f":{id}:{name}")

    #: Extension data of stored bodies: random bytes that the store has too, see the sweep.
    owner_of_bodies: ClassVar[_NamespaceKey] = _NamespaceKey("owner_of_bodies")

    #: Extension data of stored bodies: since when each object is in no message, by its name.
    unused_bodies: ClassVar[_NamespaceKey] = _NamespaceKey("unused_bodies")

    #: Extension data of stored bodies: is there for an hour after workers have swept them.
    swept_bodies: ClassVar[_NamespaceKey] = _NamespaceKey("swept_bodies")

    #: Extension data of recorders: the sums of the histories of all queues.
    history: ClassVar[_NamespaceKey] = _NamespaceKey("history")

    #: Extension data of schedules: the definition and the state of each, by name.
    schedules: ClassVar[_NamespaceKey] = _NamespaceKey("schedules")

    #: Extension data of schedules: a sorted set of their names, by the next attempt. Unfinished
    #: flows of tasks are in it too, by the next check.
    due_schedules: ClassVar[_NamespaceKey] = _NamespaceKey("due")

    def task_map(self, map_id: str) -> bytes:
        """Return the key of the extension data of a map of tasks: its unfinished messages."""
        return encode_name(f"{self.name}:x:map:{map_id}")

    def flow(self, id: str) -> bytes:
        """Return the key of the extension data of a flow of tasks: its nodes and their states."""
        return encode_name(f"{self.name}{_FLOW_INFIX.decode()}{id}")

    @property
    def flows(self) -> bytes:
        """
        Extension data of flows of tasks: a sorted set of the ids of the last 10,000, by the ms of
        their sends. Users with the right to all flows have that to it too.
        """
        return self.flow("all")

    def rate(self, name: str, key: str) -> bytes:
        """Return the key of the extension data of a rate limit, with the key that it is for."""
        # A key may come from a body, so it may be a text that is not valid.
        suffix = f":{key}".encode("utf-8", "surrogatepass") if key else b""
        return encode_name(f"{self.name}:x:rate:{name}") + suffix

    def aside(self, source: str) -> bytes:
        """
        Return the key of a move's extension data: messages on their way from a queue to another
        server.
        """
        return encode_name(f"{self.name}:{_ASIDE_PREFIX}{source}")

    @property
    def hash_of_reserved_name(self) -> bytes:
        """The hash of a queue with the reserved name, which other clients may have created."""
        return encode_name(f"{self.name}:{RESERVED_NAME}{_HASH_SUFFIX}")

    @property
    def nameless_queue(self) -> tuple[bytes, bytes]:
        """The hash and the sorted set of a queue with an empty name, which no queue may have."""
        return encode_name(f"{self.name}:{_HASH_SUFFIX}"), encode_name(f"{self.name}:")

    @property
    def index_without_colon(self) -> bytes:
        """The index of queues that clients create which omit the colon of the prefix."""
        return encode_name(f"{self.name}{RESERVED_NAME}")

    def held(self, worker: str) -> bytes:
        """
        Return the key of a worker's extension data: the messages that it has in flight.

        Raises:
            MissingParameter: the worker's name is None or empty.
            InvalidFormat: the worker's name has characters that are not allowed in a queue's name.
        """
        if worker is None or worker == "":
            raise MissingParameter("name", value=worker, hint=f"{_WORKER_RULE}.")
        if not isinstance(worker, str) or not _NAME.fullmatch(worker):
            raise InvalidFormat("name", value=worker, hint=f"{_WORKER_RULE}.")
        return self.held_prefix + encode_name(worker)

    @property
    def held_prefix(self) -> bytes:
        """The begin of the keys of all workers' messages in flight; their names follow."""
        return encode_name(f"{self.name}:x:held:")

    @property
    def hash_tag(self) -> str | None:
        """The part of the name in the first braces, which decides the node of Redis Cluster."""
        start = self.name.find("{")
        end = self.name.find("}", start + 1)
        return self.name[start + 1 : end] if start >= 0 and end > start + 1 else None

    def queue(self, qname: str) -> QueueKeys:
        """
        Return the keys of a queue.

        Raises:
            MissingParameter: the name is None or empty.
            InvalidFormat: this namespace does not allow the name.
        """
        if not isinstance(qname, str):
            raise _name_error(qname)
        # The plain str: a member of a str enum is formatted as another text.
        return _queue_keys(self.name, self.strict_names, str.__str__(qname))


@lru_cache(maxsize=1024)
def _queue_keys(prefix: str, strict: bool, qname: str) -> QueueKeys:  # noqa: FBT001 - a key
    if not qname or qname == RESERVED_NAME:
        raise _name_error(qname)
    if not is_encodable(qname):
        raise InvalidFormat("qname", value=qname, hint=NOT_ENCODABLE)
    # The key of queue `a:Q`, or of queue `Q` in a namespace that ends with `:a`, is the hash of
    # queue `a`.
    if qname.endswith(_HASH_SUFFIX) or (qname == _HASH_SUFFIX[1:] and ":" in prefix):
        raise InvalidFormat(
            "qname",
            value=qname,
            hint=f"In namespace {show(prefix)} its key would be the hash of another queue. Use "
            "another name.",
        )
    # `:x:` begins the name of extension data, of another queue or of the namespace.
    if _EXTENSION in f":{qname}":
        raise InvalidFormat(
            "qname",
            value=qname,
            hint=f"In namespace {show(prefix)} its key could be one of extension data, whose names "
            "contain ':x:'. Use another name.",
        )
    # Checked last: the hint suggests strict_names=False, which also refuses the names above.
    if strict and not _NAME.fullmatch(qname):
        raise _name_error(qname)
    return QueueKeys(
        qname,
        encode_name(f"{prefix}:{qname}"),
        encode_name(f"{prefix}:{qname}{_HASH_SUFFIX}"),
        encode_name(f"{prefix}:rt:{qname}"),
        encode_name(prefix),
        *(extension_key(encode_name(f"{prefix}:{qname}"), each.name) for each in _EXTENSION_FIELDS),
    )


def _name_error(qname: object) -> MissingParameter | InvalidFormat:
    if qname is None or qname == "":
        return MissingParameter("qname", value=qname, hint=f"{_NAME_RULE}.")
    if qname == RESERVED_NAME:
        return InvalidFormat(
            "qname",
            value=qname,
            hint="This is the key of the index of queues. Use another name.",
        )
    if isinstance(qname, list | tuple | set | frozenset):
        return InvalidFormat(
            "qname",
            value=show(qname),
            hint=Hint(
                "Pass the name of one queue. ",
                Method("receive_messages"),
                " and ",
                Method("pop_messages"),
                " take several.",
            ),
        )
    if not isinstance(qname, str):
        return InvalidFormat("qname", value=show(qname), hint=f"{_NAME_RULE}.")
    return InvalidFormat(
        "qname",
        value=qname,
        hint=Hint(
            f"{_NAME_RULE}. Pass ",
            Passed("strict_names", False),
            " for queues that other clients created under other names.",
        ),
    )


def escape_pattern(key: bytes) -> bytes:
    """Return the pattern for SCAN that matches exactly these bytes."""
    return re.sub(rb"([*?\[\]\\])", rb"\\\1", key)


@dataclass(frozen=True, slots=True)
class PrefixKeys:
    """
    The keys of queues under any prefix and any name, without the checks of ``Namespace``.

    Attributes:
        prefix: the first part of all keys, with its colon if it has one.
    """

    prefix: bytes

    @property
    def index(self) -> bytes:
        """The set of queue names."""
        return self.prefix + RESERVED_NAME.encode()

    @property
    def hash_pattern(self) -> bytes:
        """The pattern for SCAN that matches the hash of every queue."""
        return escape_pattern(self.prefix) + b"*" + _HASH_SUFFIX.encode()

    def zset(self, name: str) -> bytes:
        """Return the key of a queue's sorted set."""
        return self.prefix + encode_name(name)

    def hash(self, name: str) -> bytes:
        """Return the key of a queue's hash."""
        return self.zset(name) + _HASH_SUFFIX.encode()

    def name_of_hash(self, key: bytes) -> bytes:
        """Return the name of the queue that has a hash."""
        return key[len(self.prefix) : -len(_HASH_SUFFIX)]


class KeyKind(Enum):
    """The kind of a key that begins with a namespace's prefix."""

    QUEUE = "queue"  # a queue's sorted set, hash, or extension data
    ASIDE = "aside"  # messages that a move has set aside
    NAMESPACE = "namespace"  # the index of queues, and extension data of the namespace
    OTHER_NAMESPACE = "other namespace"  # the index of a namespace whose name begins with this one


def classify_key(namespace: str, key: bytes) -> tuple[KeyKind, str]:
    """
    Return the kind and the name of a key of a namespace.

    Args:
        key: a key that begins with the name and a colon.

    Returns:
        The kind, and a name: of the queue; of the source of messages that were set aside; or of the
        other namespace, without this one and with its colon.
    """
    name = decode_name(key)[len(namespace) + 1 :]
    if name.endswith(f":{RESERVED_NAME}"):
        return KeyKind.OTHER_NAMESPACE, name.removesuffix(RESERVED_NAME)
    if name.startswith(_ASIDE_PREFIX) and not name.endswith(_LOCK_SUFFIX):
        return KeyKind.ASIDE, name.removeprefix(_ASIDE_PREFIX)
    if name == RESERVED_NAME or name.startswith(_EXTENSION[1:]):
        return KeyKind.NAMESPACE, ""
    return KeyKind.QUEUE, name.partition(_EXTENSION)[0].removesuffix(_HASH_SUFFIX)


def extension_key(zset: bytes, name: str) -> bytes:
    """Return the key of extension data, for a queue's sorted set and an attribute of QueueKeys."""
    return zset + f"{_EXTENSION}{'alone' if name == 'quarantined' else name}".encode()


def job_key(zset: bytes, id: bytes) -> bytes:
    """Return the key of the record of a tracked message, for a queue's sorted set."""
    return zset + _JOB_INFIX + id


def body_key(zset: bytes, name: str) -> bytes:
    """Return the key of a body that is not in the message, for a queue's sorted set."""
    return zset + _BODY_INFIX + encode_name(name)


def pattern_of_bodies(namespace: bytes) -> bytes:
    """Return the pattern for SCAN of the bodies that are not in the messages of a namespace."""
    return escape_pattern(namespace) + b":*" + _BODY_INFIX + b"*"


def is_body(key: bytes) -> bool:
    """Return whether a key is that of a body that is not in its message."""
    return _BODY_INFIX in key


def parse_body_key(key: bytes) -> tuple[bytes, str]:
    """Return the queue's sorted set and the name, for a key of ``body_key``."""
    zset, _, name = key.rpartition(_BODY_INFIX)
    return zset, decode_name(name)


def find_owner(namespace: Namespace, key: bytes) -> tuple[str, str]:
    """
    Return what has the bodies in a key, and the name of its queue, '' if it is not that of a queue.

    It is "messages", "schedules", "results" (of tracked messages), "undo" or "other".
    """
    prefix = encode_name(namespace.name) + b":"
    queue = decode_name(key.removeprefix(prefix).partition(b":")[0])
    if key == prefix + encode_name(queue) + _HASH_SUFFIX.encode() and queue != RESERVED_NAME:
        return "messages", queue
    if _JOB_INFIX in key:
        return "results", queue
    if key.startswith(namespace.trash + b":"):
        return "undo", ""
    return "schedules" if key == namespace.schedules else "other", ""


def order_field(source: str, *, in_flight: bool = False) -> bytes:
    """
    Return the field of the watermark of a source, in the record of copies.

    It has a colon, so it differs from the digest of any message.

    Args:
        source: the source, as in ``rfq:ndvi``.
        in_flight: True for the messages that were in flight, which have an order of their own.
    """
    return (b"order:in_flight:" if in_flight else b"order:") + encode_name(source)


def run_field(source: str) -> bytes:
    """Return the field, in the record of copies, of the run that may add messages of a source."""
    return b"run:" + encode_name(source)


def lock_of_aside(aside: bytes) -> bytes:
    """Return the key of the lock of the run that owns messages that were set aside."""
    return aside + _LOCK_SUFFIX.encode()


def unused_key(keys: QueueKeys) -> bytes:
    """Return a key among a queue's extension data that never exists, to check the user's rights."""
    return keys.zset + _EXTENSION.encode() + b"nothing"


def is_job(key: bytes) -> bool:
    """Return whether a key is the record of a tracked message or a flow; no queue has its name."""
    return _JOB_INFIX in key or _FLOW_INFIX in key


def is_hash_of(key: str, qname: str) -> bool:
    """Return whether a key ends like the hash of a queue."""
    return key.endswith(f":{qname}{_HASH_SUFFIX}")


def namespace_of_hash(key: str, qname: str) -> str | None:
    """Return the namespace of a queue's hash; None if the key is not the hash of this queue."""
    return key.removesuffix(f":{qname}{_HASH_SUFFIX}") if is_hash_of(key, qname) else None


def require_hash_tag(namespace: Namespace) -> None:
    """
    Check that all keys of a namespace are in one slot of Redis Cluster.

    Raises:
        InvalidFormat: the name has no hash tag, so its keys would be on several nodes.
    """
    if namespace.hash_tag is None:
        raise InvalidFormat(
            "ns",
            value=namespace.name,
            hint=Hint(
                "On Redis Cluster all keys of a queue must be in one slot. Use a namespace with a "
                "hash tag, as in ",
                Passed("ns", f"{{{namespace.name}}}"),
                ".",
            ),
        )
