"""
The fields of a queue's hash: attributes, and the fields of each message.

Names on the wire, and the names in this library:

    rc          receive_count        how often the message was received
    fr          first_received_ms    Unix ms of the first receive
    sent        sent_ms              Unix ms of the send, from the id
    totalsent   total_sent           messages sent to the queue so far
    totalrecv   total_received       receives and pops so far, repeated receives included
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
#: Unix ms of the last resume: rates of the time before say nothing of now.
RESUMED = "x:resumed"
KEEP = "x:keep"
EXPIRED = "x:expired"
THROTTLE = "x:throttle"

#: Set by the first send with limits: receives then look for the limits of messages. Also set by the
#: first receive that took several messages of a group: receives then keep them in order. The value
#: is 1, 2, or 3 for both.
LIMITED = "x:limited"

#: Set to 1 by the first send with a group: workers then look for messages that can be admitted.
#: Their sweeps store the Unix ms of the next step, and behind a blank the position.
GROUPED = "x:groups"

#: Set by the first send with a dedup_id, and by the first one with a rate: without them, the
#: records are those of an earlier queue with the name.
NAMED = "x:named"
RATED = "x:rated"

#: The attributes and tags that only SQS has, as JSON.
SQS = "x:sqs"

#: The vt and the delay that the doctor stored when it divided them by 1000, separated by a blank.
DIVIDED = "x:divided"

#: The prefix of all attributes that belong to extensions.
EXTENSION_PREFIX = b"x:"

#: The attributes of the Node client, in its order. They can't be message ids: see
#: lua/fragments/reserved.lua.
NODE_FIELDS = ("vt", "delay", "maxsize", TOTAL_RECEIVED, TOTAL_SENT, "created", "modified")
NODE_ATTRIBUTES = frozenset(field.encode() for field in NODE_FIELDS)

#: The suffixes of a message's fields, after its id: receive count, time of the first receive, and
#: the metadata of apalis-rsmq.
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
