"""The faults in the recorded keyspaces of each client, at every step of its session."""

from __future__ import annotations

import pytest

from compat import recordings
from rsmq import RSMQ
from rsmq.doctor import examine
from rsmq.doctor.catalogue import _SERVER

UNDELETABLE = {"undeletable-id"}
SECONDS_SCORES = {"seconds-score"}

#: The codes of each client's faults. Clients that are not named here leave none.
EXPECTED_CODES = {
    "ebuckley-rsmq-3c5ef84": UNDELETABLE | {"strange-time", "orphan-body", "unlisted-queue"},
    "go-rsmq-1.3.1": {"strange-time"},
    "pyrsmq-0.1.1": {"large-maxsize", "half-queue"},
    "pyrsmq-0.6.1": {"large-maxsize", "half-queue"},
    "rsmq-0.2.1": UNDELETABLE,
    "rsmq-rb-0.1.0": UNDELETABLE
    | SECONDS_SCORES
    | {"unlisted-queue", "count-without-time", "orphan-body", "ids-without-queue"},
    "rsmq_async-5.1.2": UNDELETABLE,
    "rsmq_async-7.0.2": UNDELETABLE | SECONDS_SCORES | {"odd-first-received"},
    "rsmq_async-9.0.0": UNDELETABLE | {"milliseconds"},
    "rsmq_async-11.1.0": UNDELETABLE | {"milliseconds"},
    "rsmq_async-18.0.0": {"milliseconds"},
    "rsmq_async-18.0.0-break-js-comp": {
        "milliseconds", "microseconds-score", "odd-first-received",
    },
}  # fmt: skip


@pytest.mark.parametrize("name", recordings.names())
def test_recorded_client_leaves_only_expected_faults(name, server):
    codes, previous = set(), None
    with server.raw(db=8) as raw, RSMQ.from_url(server.url.removesuffix("0") + "8") as rsmq:
        for step in recordings.load(name)["steps"]:
            state = step.get("state")
            if not state or state == previous:
                continue
            previous = state
            raw.flushdb()
            seconds, microseconds = raw.time()
            shift = (seconds - step["t1"][0]) * 1000 + (microseconds - step["t1"][1]) // 1000
            recordings.restore(raw, state, shift)
            codes |= {each.code for each in examine(rsmq).findings}
        raw.flushdb()

    assert codes - _SERVER.keys() == EXPECTED_CODES.get(name, set())
