"""
The fields of a queue's hash: attributes, and those of each message.

Words of the wire, and the names of this library:

    rc          receive_count        how often the message was received
    fr          first_received_ms    Unix ms of the first receive
    sent        sent_ms              Unix ms of the send, from the id
    totalsent   total_sent           messages ever sent to the queue
    totalrecv   total_received       receives and pops ever, repeated receives included
    msgs        messages             messages in the queue, hidden ones included
    hiddenmsgs  hidden_messages      messages that are not visible now

Source: npm rsmq 0.12.4, index.js; apalis-rsmq for ``meta``.
"""

from __future__ import annotations

TOTAL_RECEIVED = "totalrecv"
TOTAL_SENT = "totalsent"
DEAD_LETTER_QUEUE = "x:dlq"
MAX_RECEIVES = "x:max"
PAUSED = "x:paused"

#: The attribute fields, in the order in which scripts return them.
ATTRIBUTE_FIELDS = (
    "vt",
    "delay",
    "maxsize",
    TOTAL_RECEIVED,
    TOTAL_SENT,
    "created",
    "modified",
    DEAD_LETTER_QUEUE,
    MAX_RECEIVES,
    PAUSED,
)

#: Every field that begins with this is an attribute of an extension.
EXTENSION_PREFIX = b"x:"

#: Node's own attributes. No message has the id of an attribute: see lua/fragments/reserved.lua.
NODE_ATTRIBUTES = frozenset(name.encode() for name in ATTRIBUTE_FIELDS if ":" not in name)

#: Behind a message's id, the fields of its receive count and of its first receive; and that of
#: apalis-rsmq's metadata.
RECEIVE_COUNT_SUFFIX = b":rc"
FIRST_RECEIVED_SUFFIX = b":fr"
META_SUFFIX = b":meta"
MESSAGE_SUFFIXES = (RECEIVE_COUNT_SUFFIX, FIRST_RECEIVED_SUFFIX, META_SUFFIX)


def receive_count_field(id: bytes) -> bytes:
    """Return the field of a message's receive count."""
    return id + RECEIVE_COUNT_SUFFIX


def first_received_field(id: bytes) -> bytes:
    """Return the field of the time, Unix ms, at which a message was first received."""
    return id + FIRST_RECEIVED_SUFFIX
