"""
The wire: every key, field, limit and rule of RSMQ that this library knows, once.

Key builders, names, ids and numbers live here and nowhere else. Nothing in here talks to Redis.

Glossary, wire word to ours:

    rc          receive_count        times the message was received
    fr          first_received_ms    Unix ms of the first receive
    sent        sent_ms              Unix ms of the send, from the id
    totalsent   total_sent           messages ever sent to the queue
    totalrecv   total_received       receives and pops ever, redeliveries included
    msgs        messages             messages in the queue, hidden ones included
    hiddenmsgs  hidden_messages      messages not visible now

Source: npm rsmq 0.12.4, index.js (keys, fields, limits, ids).
"""

from __future__ import annotations

import math
import os
import re
from collections.abc import Collection, Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import lru_cache

from rsmq.errors import InvalidFormat, InvalidValue, MessageTooLong, MissingParameter, show

#: Defaults: of a queue seconds, seconds, UTF-16 code units (or bytes); of a dedup_id seconds.
DEFAULT_NS = "rsmq"
DEFAULT_VT = 30
DEFAULT_DELAY = 0
DEFAULT_MAXSIZE = 65536
DEFAULT_DEDUP_WINDOW = 300

#: Limits: vt and delay in seconds, maxsize in UTF-16 code units (or bytes).
MAX_SECONDS = 9_999_999
MIN_MAXSIZE = 1024
MAX_MAXSIZE = 65536
UNLIMITED = -1

#: Limits of a batch: messages, and bytes of all bodies.
MAX_BATCH = 10_000
MAX_BATCH_BYTES = 16 * 1024 * 1024

#: The largest body that Redis takes, bytes: the default of its setting proto-max-bulk-len.
MAX_BODY_BYTES = 512 * 1024 * 1024

#: Limits of extension data: how often a message may be received, characters of a dedup_id.
MAX_RECEIVES = 1_000_000
MAX_DEDUP_ID = 128

#: The attribute fields of a queue's hash, in the order in which scripts answer them.
ATTRIBUTE_FIELDS = (
    "vt",
    "delay",
    "maxsize",
    "totalrecv",
    "totalsent",
    "created",
    "modified",
    "x:dlq",
    "x:max",
    "x:paused",
)

#: Node's attribute names, and how those of extensions begin: no message has such an id. What seems
#: to be the body of such an id is an attribute of the queue. See lua/_reserved.lua.
_NODE_ATTRIBUTES = frozenset(name.encode() for name in ATTRIBUTE_FIELDS if ":" not in name)
_EXTENSION = b"x:"

#: A name that would make the queue's sorted set the index of queues.
RESERVED_NAME = "QUEUES"

ID_ALPHABET = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789"
ID_RANDOM_LENGTH = 22

_NAME = re.compile(r"[a-zA-Z0-9_-]{1,160}")
_BARE_ID = re.compile(r"[A-Za-z0-9:_-]{20,64}")
_HEX = re.compile(r"[0-9a-f]{32}")
_LONGEST_NUMBER = 20  # characters; lua/_attributes.lua reads numbers by the same rule
_DECIMAL = re.compile(rb"[+-]?(?:\d+\.?\d*|\.\d+)")

_NAME_RULE = "A queue name has 1 to 160 characters of A-Z a-z 0-9 _ -"
_WORKER_RULE = "A worker's name has 1 to 160 characters of A-Z a-z 0-9 _ -"
_ID_RULE = "An id has 20 to 64 characters of A-Z a-z 0-9 : _ -"


@dataclass(frozen=True, slots=True)
class QueueKeys:
    """
    The Redis keys of one queue, and its notification channel.

    Attributes:
        name: the queue's name.
        zset: the ids of its messages.
        hash: its attributes, bodies and counters.
        channel: where a send with realtime publishes.
        namespace: the first part of all keys.
        dedup: extension data, made by a send with a dedup_id: what was sent under which.
        leases: extension data, made by streams: receipts of the batches that they hold.
        staged: extension data, made by writes in two steps: what is to be sent, or never.
        reasons: extension data, made by workers: why messages of this dead-letter queue died.
        alone: extension data, made by workers: messages handled alone, of which no end is known.
        copied: extension data, made by copies from other systems: digests of what was copied.
    """

    name: str
    zset: bytes
    hash: bytes
    channel: bytes
    namespace: bytes
    dedup: bytes
    leases: bytes
    staged: bytes
    reasons: bytes
    alone: bytes
    copied: bytes

    @property
    def extensions(self) -> tuple[bytes, ...]:
        """All keys of extension data, which go with the queue and with its messages."""
        return self.dedup, self.leases, self.staged, self.reasons, self.alone, self.copied


@dataclass(frozen=True, slots=True)
class Namespace:
    """
    All keys of one namespace.

    Attributes:
        name: the prefix that the keys of all its queues share, without the colon.
        strict_names: True takes Node's queue names only; False also reaches queues that other
            clients made under other names.
    """

    name: str = DEFAULT_NS
    strict_names: bool = True

    def __post_init__(self) -> None:
        if self.name is None or self.name == "":
            raise MissingParameter("ns", value=self.name, hint="The default is 'rsmq'.")
        if not isinstance(self.name, str):
            raise InvalidFormat("ns", value=self.name, hint="A namespace is a str.")
        if not _encodable(self.name):
            raise InvalidFormat("ns", value=self.name, hint=_NOT_ENCODABLE)

    @property
    def queues(self) -> bytes:
        """The set of queue names."""
        return encode_name(f"{self.name}:{RESERVED_NAME}")

    @property
    def written(self) -> bytes:
        """Extension data: of writes in two steps, which may go to many queues, what was decided."""
        return encode_name(f"{self.name}:x:written")

    @property
    def acknowledged(self) -> bytes:
        """Extension data: of each query of a stream the last batch that was acknowledged."""
        return encode_name(f"{self.name}:x:acked")

    @property
    def workers(self) -> bytes:
        """Extension data: the workers that are alive, by name."""
        return encode_name(f"{self.name}:x:workers")

    def aside(self, source: str) -> bytes:
        """Extension data: what was taken from a queue of another system, on its way elsewhere."""
        return encode_name(f"{self.name}:x:aside:{source}")

    def held(self, worker: str) -> bytes:
        """
        Extension data: the messages that a worker holds.

        Raises:
            MissingParameter: its name is None or empty.
            InvalidFormat: its name has other characters than a queue's.
        """
        if worker is None or worker == "":
            raise MissingParameter("name", value=worker, hint=f"{_WORKER_RULE}.")
        if not isinstance(worker, str) or not _NAME.fullmatch(worker):
            raise InvalidFormat("name", value=worker, hint=f"{_WORKER_RULE}; got {show(worker)}.")
        return encode_name(f"{self.name}:x:held:{worker}")

    @property
    def hash_tag(self) -> str | None:
        """The part between the first braces, by which Redis Cluster places keys; None if none."""
        start = self.name.find("{")
        end = self.name.find("}", start + 1)
        return self.name[start + 1 : end] if start >= 0 and end > start + 1 else None

    def queue(self, qname: str) -> QueueKeys:
        """
        The keys of a queue.

        Raises:
            MissingParameter: the name is None or empty.
            InvalidFormat: the name is not one that this namespace takes.
        """
        if not isinstance(qname, str):
            raise _bad_name(qname)
        # The text itself: a member of an enum of names has another text when formatted.
        return _queue_keys(self.name, self.strict_names, str.__str__(qname))


@lru_cache(maxsize=1024)
def _queue_keys(prefix: str, strict: bool, qname: str) -> QueueKeys:  # noqa: FBT001 - a key
    if not qname or qname == RESERVED_NAME:
        raise _bad_name(qname)
    if not _encodable(qname):
        raise InvalidFormat("qname", value=qname, hint=_NOT_ENCODABLE)
    # `a:Q` names the hash of queue `a`, be it by the queue's name or by the namespace's end.
    if qname.endswith(":Q") or (qname == "Q" and ":" in prefix):
        raise InvalidFormat(
            "qname",
            value=qname,
            hint=f"The key of queue {show(qname)} in namespace {show(prefix)} would be the hash "
            "of another queue. Use another name.",
        )
    # What follows `:x:` names a key of extension data, of another queue or of the namespace.
    if ":x:" in f":{qname}":
        raise InvalidFormat(
            "qname",
            value=qname,
            hint=f"The key of queue {show(qname)} in namespace {show(prefix)} could be one of "
            "extension data, whose names hold ':x:'. Use another name.",
        )
    # Last: its hint leads to strict_names=False, which takes none of the names above.
    if strict and not _NAME.fullmatch(qname):
        raise _bad_name(qname)
    return QueueKeys(
        qname,
        encode_name(f"{prefix}:{qname}"),
        encode_name(f"{prefix}:{qname}:Q"),
        encode_name(f"{prefix}:rt:{qname}"),
        encode_name(prefix),
        encode_name(f"{prefix}:{qname}:x:dedup"),
        encode_name(f"{prefix}:{qname}:x:leases"),
        encode_name(f"{prefix}:{qname}:x:staged"),
        encode_name(f"{prefix}:{qname}:x:reasons"),
        encode_name(f"{prefix}:{qname}:x:alone"),
        encode_name(f"{prefix}:{qname}:x:copied"),
    )


def _bad_name(qname: object) -> MissingParameter | InvalidFormat:
    if qname is None or qname == "":
        return MissingParameter("qname", value=qname, hint=f"{_NAME_RULE}.")
    if qname == RESERVED_NAME:
        return InvalidFormat(
            "qname",
            value=qname,
            hint="'QUEUES' is the key of the index of queues. Use another name.",
        )
    if not isinstance(qname, str):
        return InvalidFormat("qname", value=qname, hint=f"{_NAME_RULE}; got {show(qname)}.")
    return InvalidFormat(
        "qname",
        value=qname,
        hint=f"{_NAME_RULE}; got {show(qname)}. "
        "strict_names=False reaches queues that other clients made under other names.",
    )


def encode_name(name: str) -> bytes:
    """A queue name or message id as it stands in Redis."""
    return name.encode("utf-8", "surrogateescape")


_NOT_ENCODABLE = "It holds a lone surrogate, which UTF-8 can't carry."


def _encodable(name: str) -> bool:
    try:
        encode_name(name)
    except UnicodeEncodeError:
        return False
    return True


def decode_name(raw: bytes) -> str:
    """A queue name or message id as read from Redis."""
    return raw.decode("utf-8", "surrogateescape")


def encode_names(names: Collection[str]) -> list[bytes]:
    """Many at once, which takes a third of the time."""
    raws = "\n".join(names).encode("utf-8", "surrogateescape").split(b"\n")
    # An id of another client may hold anything.
    return raws if len(raws) == len(names) else [encode_name(name) for name in names]


def decode_names(raws: Collection[bytes]) -> list[str]:
    """Many at once, which takes a third of the time."""
    names = b"\n".join(raws).decode("utf-8", "surrogateescape").split("\n")
    return names if len(names) == len(raws) else [decode_name(raw) for raw in raws]


def check_id(id: object) -> str:
    """
    A message id that a caller gives without its message.

    Raises:
        MissingParameter: the id is None or empty.
        InvalidFormat: it is not 20 to 64 characters of ``[A-Za-z0-9:_-]``.
    """
    if id is None or id == "":
        raise MissingParameter("id", value=id, hint=f"{_ID_RULE}.")
    if not isinstance(id, str) or not _BARE_ID.fullmatch(id):
        raise InvalidFormat("id", value=id, hint=f"{_ID_RULE}; got {show(id)}.")
    return id


def is_reserved_id(raw: bytes) -> bool:
    """Return whether an id as it stands in Redis is the name of an attribute."""
    return raw in _NODE_ATTRIBUTES or raw.startswith(_EXTENSION)


def has_reserved_ids(raws: Collection[bytes]) -> bool:
    """Return whether any of many ids may be reserved; in a tenth of the time."""
    joined = b"\n%b\n" % b"\n".join(raws)
    if b"\n" + _EXTENSION in joined:
        return True
    return any(b"\n%b\n" % name in joined for name in _NODE_ATTRIBUTES)


_TO_ALPHABET = bytes(ID_ALPHABET[byte % 62] for byte in range(256))
_UNEVEN = bytes(range(248, 256))  # 248 = 4 * 62: above it some characters would be likelier


_prepared: Iterator[bytes] = iter(())


def random_suffix() -> bytes:
    """The 22 random characters of a new id, from the system's generator."""
    global _prepared  # noqa: PLW0603 - many are made at once, which takes a third of the time
    suffix = next(_prepared, None)
    while suffix is None:
        _prepared = iter(random_suffixes(256))
        suffix = next(_prepared, None)
    return suffix


def _forget_prepared() -> None:
    global _prepared  # noqa: PLW0603 - a child process would give out its parent's
    _prepared = iter(())


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_forget_prepared)


def random_suffixes(number: int) -> list[bytes]:
    """
    The random characters of the ids of a batch, sorted.

    All ids of a batch begin with the same time; so their order is the order of the batch.
    """
    wanted = number * ID_RANDOM_LENGTH
    characters = b""
    while len(characters) < wanted:
        missing = wanted - len(characters)
        characters += os.urandom(missing + missing // 16 + 32).translate(_TO_ALPHABET, _UNEVEN)
    ends = range(ID_RANDOM_LENGTH, wanted + 1, ID_RANDOM_LENGTH)
    return sorted(characters[end - ID_RANDOM_LENGTH : end] for end in ends)


_EARLIEST_US = 1_262_304_000_000_000  # 2010-01-01: RSMQ is younger
_LATEST_US = 36**10 - 1  # the last id of ten digits, in 2085
_DAY_US = 86_400_000_000

#: Microseconds in a unit of the time part, by its number of digits, and their divisor.
_TIME_UNITS = {10: (1, 1), 8: (1_000, 1), 6: (1_000_000, 1), 12: (1, 1_000)}
_NODE_ID = 32
_OLDEST_NODE_ID = 42


def sent_us(id: str, seen_ms: int | None = None) -> int | None:
    """
    When the message was sent, as its id tells.

    Ids of Node and its ports are ten base-36 digits of microseconds and 22 random characters.
    Others have milliseconds (8 digits), seconds (6) or milliseconds times a million (12).

    Args:
        id: the id of a message, of any client.
        seen_ms: a Unix time in ms at which the message was there already, if one is known.

    Returns:
        Unix microseconds, or None if the id holds no plausible time.
    """
    if len(id) == _NODE_ID and not id.islower() and id.isascii() and id.isalnum():
        us = int(id[:10], 36)  # Node's: one with capitals is no hexadecimal number
        if _EARLIEST_US <= us <= (_LATEST_US if seen_ms is None else seen_ms * 1000 + _DAY_US):
            return us
    digits = id[:10] if len(id) == _OLDEST_NODE_ID else id[:-ID_RANDOM_LENGTH]
    unit = _TIME_UNITS.get(len(digits))
    if unit is None or not (digits.isascii() and digits.isalnum()):
        return None
    if _HEX.fullmatch(id):
        return None
    times, divisor = unit
    us = int(digits, 36) * times // divisor
    latest = _LATEST_US if seen_ms is None else seen_ms * 1000 + _DAY_US
    return us if _EARLIEST_US <= us <= latest else None


def sent_us_of(ids: Collection[bytes]) -> list[int | None]:
    """``sent_us`` of many ids as they stand in Redis; for Node's in a third of the time."""
    if set(map(len, ids)) == {_NODE_ID} and b"".join(ids).isalnum():
        moments = [int(id[:10], 36) for id in ids if not id.islower()]
        if len(moments) == len(ids) and min(moments) >= _EARLIEST_US:
            return list(moments)
    return [sent_us(id) for id in decode_names(ids)]


def seconds(item: str, value: object) -> int:
    """
    A whole number of seconds to be stored as a queue attribute.

    Raises:
        InvalidValue: it is not a whole number from 0 to 9,999,999.
    """
    number = _number(value)
    if number is None or number != int(number) or not 0 <= number <= MAX_SECONDS:
        raise InvalidValue(
            item,
            0,
            MAX_SECONDS,
            value=value,
            hint=f"{item} of a queue is a whole number of seconds from 0 to {MAX_SECONDS}; got "
            f"{show(value)}. Fractions are possible in a call, not in a queue's attributes.",
        )
    return int(number)


def milliseconds(item: str, value: object) -> int:
    """
    Seconds of a call, fractions allowed, as milliseconds on the wire (rounded to the nearest).

    Raises:
        InvalidValue: it is not a number from 0 to 9,999,999.
    """
    number = _number(value)
    if number is None or not 0 <= number <= MAX_SECONDS:
        raise InvalidValue(
            item,
            0,
            MAX_SECONDS,
            value=value,
            hint=f"{item} is a number of seconds from 0 to {MAX_SECONDS}; got {show(value)}.",
        )
    return round(number * 1000)


def maxsize(value: object) -> int:
    """
    A size limit to be stored as a queue attribute.

    Raises:
        InvalidValue: it is not a whole number from 1024 to 65,536, nor -1.
    """
    number = _number(value)
    if number is None or (
        number != UNLIMITED and (number != int(number) or not MIN_MAXSIZE <= number <= MAX_MAXSIZE)
    ):
        raise InvalidValue(
            "maxsize",
            MIN_MAXSIZE,
            MAX_MAXSIZE,
            value=value,
            hint=f"maxsize is a whole number from {MIN_MAXSIZE} to {MAX_MAXSIZE}, "
            f"or -1 for unlimited; got {show(value)}.",
        )
    return int(number)


def seconds_to_wait(value: object) -> float | None:
    """
    How long to wait for a message; None is for ever.

    Raises:
        InvalidValue: it is not a number from 0 to 9,999,999.
    """
    if value is None or (value == 0 and value.__class__ is int):  # soon said: the default
        return value
    return milliseconds("wait", value) / 1000


def whole(item: str, value: object, low: int, high: int) -> int:
    """
    A whole number within a range.

    Raises:
        InvalidValue: it is not.
    """
    number = _number(value)
    if number is None or number != int(number) or not low <= number <= high:
        raise InvalidValue(
            item,
            low,
            high,
            value=value,
            hint=f"{item} is a whole number from {low} to {high}; got {show(value)}.",
        )
    return int(number)


def check_body_size(size: int) -> None:
    """
    Check that Redis takes a body: on one that is too large it closes the connection.

    Args:
        size: bytes.

    Raises:
        MessageTooLong: it does not.
    """
    if size > MAX_BODY_BYTES:
        raise MessageTooLong(
            value=size,
            hint=f"Redis takes bodies of at most {MAX_BODY_BYTES} bytes; got {size}. Store the "
            "data elsewhere, and send where it is.",
        )


def check_dedup_id(value: object) -> bytes:
    """
    A name under which a message is sent once, as bytes.

    Raises:
        InvalidFormat: it is no str of 1 to 128 characters.
    """
    if not isinstance(value, str) or not 1 <= len(value) <= MAX_DEDUP_ID or not _encodable(value):
        raise InvalidFormat(
            "dedup_id",
            value=value,
            hint=f"A dedup_id is a str of 1 to {MAX_DEDUP_ID} characters; got {show(value)}.",
        )
    return encode_name(value)


def _number(value: object) -> float | None:
    if isinstance(value, bool) or not isinstance(value, int | float):
        return None
    # An int may be too large for a float; the ranges are checked on ints as they are.
    return value if isinstance(value, int) or math.isfinite(value) else None


def stored_number(raw: bytes | None) -> float | None:
    """A number as some client stored it: decimal digits, a fraction allowed; else None."""
    if raw is None or len(raw) > _LONGEST_NUMBER:
        return None
    if raw.isdigit():
        return int(raw)
    if not _DECIMAL.fullmatch(raw):
        return None
    if b"." not in raw:
        return int(raw)
    number = float(raw)
    return int(number) if number.is_integer() else number


_USUAL = 16  # digits


def stored_integer(raw: bytes | None) -> int | None:
    """A whole number as some client stored it, a fraction cut off; else None."""
    if raw is not None and raw.isdigit() and len(raw) < _USUAL:
        return int(raw)
    number = stored_number(raw)
    return None if number is None else int(number)


def stored_seconds(raw: bytes) -> float:
    """vt or delay as some client stored it, a number, kept within 0 to 9,999,999."""
    return min(max(stored_number(raw) or 0, 0), MAX_SECONDS)


def stored_maxsize(raw: bytes) -> int:
    """A size limit as some client stored it: what limits nothing sensible is the default."""
    number = stored_number(raw)
    if number is None or (number < 1 and number != UNLIMITED):
        return DEFAULT_MAXSIZE
    return int(number)


_IN_MILLISECONDS = 10**11  # seconds reach this in the year 5138


def stored_time(raw: bytes | None) -> datetime | None:
    """created or modified as some client stored it: seconds, or ms if large; else None."""
    number = stored_number(raw)
    if number is None:
        return None
    try:
        return datetime.fromtimestamp(number / 1000 if number > _IN_MILLISECONDS else number, UTC)
    except (OverflowError, OSError, ValueError):
        return None


def utf16_length(text: str) -> int:
    """The length of a text in UTF-16 code units, as Node counts it."""
    if text.isascii():
        return len(text)
    return len(text.encode("utf-16-le", "surrogatepass")) // 2
