"""
The numbers of hidden messages by state, of long queues by a sample.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from rsmq.operations.arguments import digits
from rsmq.operations.operation import Operation, on_queue
from rsmq.operations.scripts import loader_of
from rsmq.wire.keys import QueueKeys

load = loader_of("figures")

#: The maximum number of messages of a queue that is walked through.
MAX_WALKED_MESSAGES = 10_000
#: Hidden messages that a sample looks at: about 3 ms of Redis's time.
SAMPLE = 400
#: The quantile of 95 %, and the largest number that is likely where a sample found none: 3 of it.
_QUANTILE, _RULE_OF_THREE = 1.96, 3


@dataclass(frozen=True, slots=True)
class HiddenCounts:
    """
    The numbers of hidden messages by state.

    Attributes:
        in_flight: messages that were received and are hidden, without those that wait for a retry.
        retrying: messages that wait for a retry after a failure.
        delayed: messages that were never received and are hidden, without those held back.
        margin: by how much each of these numbers differs at most, with a probability of 95 %; 0 if
            they are exact.
        held_back: messages that wait for another message of their group.
    """

    in_flight: int = 0
    retrying: int = 0
    delayed: int = 0
    margin: int = 0
    held_back: int = 0


def parse_hidden(reply: list[int]) -> HiddenCounts:
    """Return the counts in the reply of ``hidden.lua``."""
    hidden, looked_at, *counted = reply
    if not looked_at:
        return HiddenCounts()
    # Floor, so that the numbers are those of all hidden messages.
    in_flight, retrying, held_back = (hidden * each // looked_at for each in counted)
    delayed = hidden - in_flight - retrying - held_back
    if looked_at == hidden:
        return HiddenCounts(in_flight, retrying, delayed, held_back=held_back)
    shares = [each / looked_at for each in counted]
    deviation = max(_QUANTILE * math.sqrt(p * (1 - p) / looked_at) for p in shares)
    margin = math.ceil(hidden * max(deviation, _RULE_OF_THREE / looked_at))
    return HiddenCounts(in_flight, retrying, delayed, margin, held_back)


def sample_hidden(keys: QueueKeys) -> Operation[HiddenCounts]:
    """Count the hidden messages of a queue by state; of more than 400, a sample."""
    script, places = load("sample_hidden"), (keys.hash, keys.zset)
    return on_queue(keys, script, places, (digits(SAMPLE),), parse_hidden)
