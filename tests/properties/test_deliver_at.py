"""Random sends with deliver_at: they are received by time, and by the order of the sends."""

from __future__ import annotations

import itertools
from datetime import UTC, datetime, timedelta

from hypothesis import given, settings
from hypothesis import strategies as st

from rsmq import RSMQ
from rsmq.transport import memory
from tests.scale import scaled

_numbers = itertools.count()

#: Each send: seconds from the beginning of the test, and how many messages it sends. The seconds
#: are so far apart that the duration of the test cannot matter.
SENDS = st.lists(st.tuples(st.sampled_from([-200, -100, 100, 200, 300]), st.integers(1, 3)))


@settings(max_examples=scaled(100, 2000), deadline=None)
@given(sends=SENDS, queue_delay=st.sampled_from([0, 150]))
def test_messages_are_received_by_time_and_then_in_the_order_of_the_sends(sends, queue_delay):
    url = f"memory://deliver-at-{next(_numbers)}"
    with RSMQ.from_url(url) as client, memory.client(url) as raw:
        client.create_queue("q", delay=queue_delay)
        start = datetime.now(UTC)
        sent = []
        for seconds, number in sends:
            due = start + timedelta(seconds=seconds)
            if number == 1:
                ids = [client.send_message("q", "m", deliver_at=due)]
            else:
                ids = client.send_messages("q", ["m"] * number, deliver_at=due)
            sent += [(max(seconds, 0), id) for id in ids]

        expected = [id for _, id in sorted(sent, key=lambda each: each[0])]
        assert [id.decode() for id in raw.zrange("rsmq:q", 0, -1)] == expected
        visible = [id for seconds, id in sent if seconds == 0]
        assert [each.id for each in client.receive_messages("q", 10_000)] == visible
